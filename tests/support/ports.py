"""Loopback ports for servers of the tests' own, which no other test on this machine takes meanwhile."""

import fcntl
import os
import random
import socket
import tempfile
from contextlib import suppress
from pathlib import Path

_PORTS = range(10_000, 22_000)
_FOLDER = Path(tempfile.gettempdir()) / f"turnfleet-ports-{os.getuid()}"
_chance = random.SystemRandom()  # the tests' own is seeded alike in all their processes
_kept: dict[int, int] = {}
"""Ports of this process, and the files whose locks say so."""


def free_port() -> int:
    """Return a port that nobody listens on, and that is this process's until it ends or gives it back.

    A server may take seconds from this look to its start, may be stopped and started again, or is never to be there:
    a locked file keeps the port from every other process of tests meanwhile. The system gives none of these ports to
    an outgoing connection: those come from 32768 on. A cluster's bus is 10,000 above its port, and stays below that,
    too.
    """
    while True:
        port = _chance.choice(_PORTS)
        if _keep(port):
            with socket.socket() as probe, suppress(OSError):
                probe.bind(("127.0.0.1", port))
                return port
            give_back(port)


def give_back(port: int) -> None:
    """Let others have a port whose server is gone for good."""
    file = _kept.pop(port, None)
    if file is not None:
        os.close(file)


def _keep(port: int) -> bool:
    """Lock the port's file; False where another process has it."""
    _FOLDER.mkdir(exist_ok=True)
    file = os.open(_FOLDER / str(port), os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(file)
        return False
    _kept[port] = file
    return True
