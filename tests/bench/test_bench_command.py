"""`turnfleet bench` measures, says with what, and leaves nothing behind."""

import json
from pathlib import Path

import pytest
import redis
from cli.shared import command_for
from support.command_line import Terminal, run_command
from support.redis_server import RedisServer

from turnfleet import Fleet, PlanSpec
from turnfleet_worker.bench.measuring import TimeIsUp, in_turn
from turnfleet_worker.bench.place import sweep_up
from turnfleet_worker.bench.report import Rate

ALL = [
    "enqueue", "enqueue_many", "runs", "enqueue to first event", "resume to first event", "events", "bare publish",
    "bare tasks",
]  # fmt: skip


@pytest.mark.slow
def test_everything_is_measured_and_nothing_is_left(tmp_path: Path, own_redis: RedisServer) -> None:
    """Figures with counts and versions; not a key on the Redis given, not a file, and what others have there stays."""
    with redis.Redis.from_url(own_redis.url) as client:
        client.set("somebody's", "own")
        done = run_command(
            "--redis",
            own_redis.url,
            "bench",
            "--runs",
            "100",
            "--seconds",
            "500",
            "--json",
            folder=tmp_path,
            timeout=550,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        # What kombu keeps of unacknowledged messages is every app's on that database.
        left = {key for key in client.scan_iter() if not key.startswith(b"unacked")}
        assert left == {b"somebody's"}
    report = json.loads(done.stdout)
    assert [figure["name"] for figure in report["figures"]] == ALL
    assert all(figure.get("per_second", figure.get("p50")) > 0 for figure in report["figures"])
    assert {figure["name"]: figure["count"] for figure in report["figures"]}["runs"] == 200
    assert set(report["versions"]) == {"turnfleet", "celery", "kombu", "redis", "redis-server", "python"}
    assert (report["redis"], report["unmeasured"]) == ("given", [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_time_that_is_over_ends_it(tmp_path: Path) -> None:
    """What was not measured is said, and is no success; Redis and folder are gone all the same."""
    done = run_command("bench", "--runs", "100000", "--seconds", "1", "--no-bare", folder=tmp_path)
    assert done.returncode == 1
    assert "enqueue_many\tnot measured: the time was over" in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ctrl_c_leaves_nothing(tmp_path: Path, own_redis: RedisServer) -> None:
    """In the middle of a backlog: it is deleted, the worker is ended."""
    with Terminal("--redis", own_redis.url, "bench", "--runs", "20000", "--no-bare", folder=tmp_path) as terminal:
        terminal.wait_for("enqueue_many")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    with redis.Redis.from_url(own_redis.url) as client:
        assert [key for key in client.scan_iter() if not key.startswith(b"unacked")] == []
    assert list(tmp_path.iterdir()) == []


def test_a_fleet_in_use_is_refused(redis_url: str, fleet_name: str) -> None:
    """A run of somebody's is enough; nothing is enqueued beside it."""
    with Fleet(redis_url, name=fleet_name) as fleet:
        fleet.enqueue(PlanSpec(name="p", model="m"), "hi", run_id="theirs")
        refused = command_for(redis_url, fleet_name)("--redis", redis_url, "bench", "--fleet", fleet_name)
        assert refused.exit_code == 5
        assert f"fleet '{fleet_name}' has 1 runs and 0 workers" in refused.stderr
        assert [run.run_id for run in fleet.runs()] == ["theirs"]


def test_measurements_end_where_the_time_does() -> None:
    """What was measured before stands; the rest is named."""
    rate = Rate("a", "things", 2.0, 3)

    def over() -> Rate:
        raise TimeIsUp("b")

    assert in_turn([("a", lambda: rate), ("b", over), ("c", lambda: rate)]) == ([rate], ["b", "c"])


def test_only_names_of_its_own_are_swept() -> None:
    """A pattern from a name that a user chose could match anything."""
    with pytest.raises(AssertionError, match="only names"):
        sweep_up((), "prod")
