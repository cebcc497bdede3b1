"""A port that a test got is no other process's, though nobody listens there yet."""

import subprocess
import sys
from pathlib import Path

from support import ports


def another_gets(port: int) -> bool:
    """Say whether another process gets the port."""
    code = f"from support import ports; print(ports._keep({port}))"
    tests = Path(__file__).resolve().parents[1]
    told = subprocess.run([sys.executable, "-c", code], cwd=tests, capture_output=True, text=True, check=True)
    return told.stdout.strip() == "True"


def test_a_port_is_kept_until_it_is_given_back() -> None:
    """Also from this process itself, which gets another one."""
    port = ports.free_port()
    assert not another_gets(port)
    assert not ports._keep(port)
    ports.give_back(port)
    assert another_gets(port)
