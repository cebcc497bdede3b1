"""`turnfleet dev` and `turnfleet worker`: the user's own registry, started with one command."""

import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from cli.shared import command_for
from support.command_line import COMMAND, Terminal, clean_environment, descendants, run_command, still_running
from support.ports import free_port
from support.waiting import eventually

from turnfleet import Fleet, PlanSpec

MY_FLEET = """
from turnfleet_kernel.testing import ScriptedModel
from turnfleet_worker import Registry

registry = Registry()
registry.model("echo", ScriptedModel(["hello from my fleet"] * 9))
not_a_registry = 7
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Give a folder with a user's module in it."""
    (tmp_path / "myfleet.py").write_text(MY_FLEET)
    (tmp_path / "wrong.py").write_text("import json\n\nregistry = json.loads('1') / 0\n")
    return tmp_path


def answers(url: str) -> bool:
    """Whether there is a page at this URL."""
    try:
        with urllib.request.urlopen(url, timeout=60) as page:  # noqa: S310 - a server of this test
            return bool(page.status == 200)
    except OSError:
        return False


@pytest.mark.slow
def test_dev_runs_redis_worker_and_flower_until_ctrl_c(folder: Path) -> None:
    """What is printed is enough to enqueue from elsewhere; afterwards nothing is left."""
    port = free_port()
    with Terminal("dev", "--app", "myfleet:registry", "--port", str(port), folder=folder) as terminal:
        terminal.wait_for(r"(?=redis://[\d.:]+/0)")
        url = re.match(r"redis://[\d.:]+/0", terminal.text)
        assert url is not None
        terminal.wait_for("Ctrl-C ends all of it and forgets its runs")
        with Fleet(url.group(), name="default") as fleet:
            outcome = fleet.enqueue(PlanSpec(name="hi", model="echo"), "hi").result(timeout=60)
        assert outcome.text == "hello from my fleet"
        assert eventually(lambda: answers(f"http://127.0.0.1:{port}/metrics"))
        started = descendants(terminal.process.pid)
        assert len(started) >= 3
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    assert any("flower" in command for command in started.values())
    assert eventually(lambda: not still_running(started)), started


def test_worker_takes_this_process_and_serves(folder: Path, redis_url: str, fleet_name: str) -> None:
    """The pid that a supervisor knows is the worker's; SIGTERM ends it warmly with exit code 0."""
    arguments = ("worker", "--app", "myfleet:registry", "-c", "2", "--redis", redis_url, "--fleet", fleet_name)
    with (
        (folder / "log").open("wb") as log,
        subprocess.Popen([*COMMAND, *arguments], cwd=folder, env=clean_environment(), stdout=log, stderr=log) as worker,
        Fleet(redis_url, name=fleet_name) as fleet,
    ):
        try:
            (announced,) = eventually(fleet.workers)
            assert announced["worker"].endswith(f":{worker.pid}")
            outcome = fleet.enqueue(PlanSpec(name="hi", model="echo"), "hi").result(timeout=60)
            assert outcome.text == "hello from my fleet"
            worker.send_signal(signal.SIGTERM)
            assert worker.wait(60) == 0
        finally:
            worker.kill()


@pytest.mark.parametrize("name", ["dev", "worker"])
@pytest.mark.parametrize(
    ("app", "reason"),
    [
        ("myfleet", "it must be MODULE:REGISTRY"),
        ("nofleet:registry", "No module named 'nofleet'"),
        ("myfleet:nothing", "myfleet has nothing as 'nothing'"),
        ("myfleet:not_a_registry", "myfleet has something of type int, which is no Registry"),
        ("wrong:registry", "importing wrong failed in wrong.py, line 3: ZeroDivisionError"),
    ],
)
def test_a_registry_that_cannot_be_loaded_is_told_before_anything_starts(
    folder: Path, name: str, app: str, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2 with the reason; no traceback."""
    monkeypatch.chdir(folder)
    monkeypatch.setattr(sys, "path", [*sys.path])
    done = command_for("redis://127.0.0.1:1/0", "x")(name, "--app", app)
    sys.modules.pop("myfleet", None)  # another test's is another file
    assert (done.exit_code, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_port_that_somebody_has_is_told_before_anything_starts(folder: Path) -> None:
    """Exit code 2 and the option, in place of what Flower's server says when it cannot listen."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        done = run_command("dev", "--app", "myfleet:registry", "--port", port, folder=folder)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"port {port} is taken: give another one with --port" in done.stderr
