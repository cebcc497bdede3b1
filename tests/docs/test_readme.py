"""Every snippet of the README runs, as it stands there, in the order of reading."""

import os
import re
import subprocess
from pathlib import Path

import pytest
from support.pages import ROOT, Shop
from support.ports import free_port
from support.waiting import eventually


def test_the_readmes_programs_do_what_it_says(tmp_path: Path, own_redis_url: str) -> None:
    """A fleet, a worker, Flower; enqueue, subscribe, resume, watch: all as printed."""
    with Shop(
        "README.md",
        tmp_path,
        redis_url=own_redis_url,
        addresses={"5555": str(free_port())},
        only=("myfleet.py", "worker", "enqueue.py", "subscribe.py", "resume.py", "flower", "watch.py"),
    ) as shop:
        _follow_the_readme(shop)


def _follow_the_readme(shop: Shop) -> None:
    shop.write("myfleet.py")
    with shop.running("worker"), shop.running("flower"):
        assert shop.python("enqueue.py").startswith("ticket-1001 ")
        heard = shop.python("subscribe.py")
        assert re.search(r"^\d+ approval$", heard, re.MULTILINE)
        resumed = shop.python("resume.py")
        assert "refund {'order_id': '1001', 'amount': 80.0} may be decided by ('finance',)" in resumed
        assert "Your money is on its way." in resumed
        assert re.search(r"^\d+ done$", shop.python("subscribe.py"), re.MULTILINE)
        watched = eventually(lambda: (seen := _watch(shop)).count("SUCCESS") == 2 and seen)
        assert "ticket-1001 SUCCESS" in watched
        assert "ticket-1001:2 SUCCESS" in watched


def _watch(shop: Shop) -> str:
    try:
        return shop.python("watch.py")
    except AssertionError:
        return ""  # Flower is still starting


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_the_two_commands_work_in_a_fresh_clone(tmp_path: Path) -> None:
    """`make demo` and `make test` on nothing but Python and make; the tests are cut short to one folder here."""
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(clone)], check=True, timeout=240)
    with Shop("README.md", tmp_path, only=("make demo", "make test")) as shop:
        demo = _make(f"{shop.code('make demo').strip()} ARGS=--yes", clone)
        assert "report.md" in demo
        tests = _make(f"{shop.code('make test').strip()} ARGS='tests/registry -q'", clone)
        assert re.search(r"\d+ passed", tests)


def _make(command: str, clone: Path) -> str:
    # Of all that is installed a little is imported: it is compiled then.
    env = {**os.environ, "PIP_NO_COMPILE": "0"}
    done = subprocess.run(["sh", "-c", command], cwd=clone, env=env, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
