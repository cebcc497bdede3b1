"""`turnfleet chaos` from end to end: real Redis, real workers, real signals."""

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command_line import COMMAND, Terminal, clean_environment, descendants, run_command, still_running
from support.waiting import eventually

from turnfleet.cli.main import cli


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--redis", "redis://localhost:6379/0"], "it starts one of its own and takes no URL of yours"),
        (["--redis", "fakeredis"], "is not one of"),
        (["--seconds", "1"], "is not in the range"),
        (["--workers", "0"], "is not in the range"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_started(arguments: list[str], reason: str) -> None:
    """Exit code 2; a Redis of the user's is never taken, a stand-in that keeps nothing neither."""
    done = CliRunner().invoke(cli, ["chaos", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert reason in done.stderr


@pytest.mark.slow
def test_fifteen_seconds_of_faults_lose_nothing_and_leave_nothing(tmp_path: Path) -> None:
    """Every run is accounted for, every effect is explained, every stream is whole, and the folder is empty again."""
    done = run_command("chaos", "--seconds", "15", "--seed", "4", "--json", folder=tmp_path, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert (report["lost"], report["unexplained"], report["broken"]) == ([], [], [])
    assert sum(report["runs"].values()) == 30 == report["streams"]["read"]
    assert sum(report["faults"].values()) + sum(report["faults_not_done"].values()) >= 4
    assert report["processes"].get("ended by themselves", 0) == 0
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_minute_of_faults_loses_nothing(tmp_path: Path) -> None:
    """Each kind of fault at least once: nothing lost, and no repeat unexplained."""
    done = run_command("chaos", "--seconds", "60", "--seed", "11", "--json", folder=tmp_path, timeout=500)
    assert done.returncode == 0, done.stdout + done.stderr
    report = json.loads(done.stdout)
    assert report["good"] is True
    assert sum(report["runs"].values()) == 120


@pytest.mark.slow
def test_ctrl_c_ends_it_within_seconds_and_leaves_no_process(tmp_path: Path) -> None:
    """At a terminal, in the middle of the faults, with a worker frozen: 130, and nothing is left."""
    with Terminal("chaos", "--seconds", "60", "--seed", "2", folder=tmp_path) as terminal:
        terminal.wait_for("freeze worker")
        started = descendants(terminal.process.pid)
        assert len(started) >= 4
        terminal.process.send_signal(signal.SIGINT)
        assert terminal.wait() == 130
        eventually(lambda: not still_running(started))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_a_chaos_that_is_killed_takes_its_frozen_workers_along(tmp_path: Path) -> None:
    """SIGKILL leaves no time to clean up: the kernel ends what was started, also what is stopped."""
    process = subprocess.Popen(
        [*COMMAND, "chaos", "--seconds", "60", "--seed", "2"],
        cwd=tmp_path,
        env=clean_environment({"TMPDIR": str(tmp_path), "PYTHONUNBUFFERED": "1"}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    with process.stdout:
        eventually(lambda: "freeze worker" in process.stdout.readline())  # type: ignore[union-attr]
        started = descendants(process.pid)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        assert len(started) >= 4
        eventually(lambda: not still_running(started))
