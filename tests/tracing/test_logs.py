"""Which run a log line is of: a real worker's standard error, read line by line."""

import json
import logging
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import dropwhile
from typing import Any

import pytest
from fleet.conftest import PLAN, call, steps
from fleet.test_messages import watching
from structlog.contextvars import bound_contextvars, get_contextvars
from support.lines import whole_lines
from support.redis_server import RedisServer
from support.waiting import eventually
from support.worker_process import WorkerProcess

from turnfleet import Fleet, PlanSpec
from turnfleet.store import Keys, commands
from turnfleet.store.executor import _Lane
from turnfleet_worker.errors import ModelUnavailableError, SettingError
from turnfleet_worker.logs import json_formatter, log_format
from turnfleet_worker.pool.tracebacks import traceback_text

SPOKEN = PlanSpec(name="spoken", model="planned", tools=("say", "shout"), delegates=("speaker",))
PHRASE = "Queen Victoria"
Start = Callable[..., WorkerProcess]


@pytest.fixture
def fleet(redis_url: str, fleet_name: str) -> Iterator[Fleet]:
    """Give a client of this test's own fleet."""
    with Fleet(redis_url, name=fleet_name, poll_interval=0.5) as client:
        yield client


@pytest.fixture
def start(redis_server: RedisServer, fleet_name: str) -> Iterator[Start]:
    """Give a function that starts a worker of this test's fleet."""
    with ExitStack() as stack:

        def worker(**env: str) -> WorkerProcess:
            env = {"TURNFLEET_REDIS_URL": redis_server.url, "TURNFLEET_NAME": fleet_name, **env}
            return stack.enter_context(WorkerProcess("tracing.logging_app", concurrency=50, env=env, banner=False))

        yield worker


def lines_of(worker: WorkerProcess) -> list[dict[str, Any]]:
    """Read a JSON log: every line is an object, from the first on that was written after logging was set up.

    Before it, Celery warns whoever runs it as root.
    """
    return [json.loads(line) for line in dropwhile(lambda line: not line.startswith("{"), whole_lines(worker.log))]


def messages_in(worker: WorkerProcess, part: str) -> list[dict[str, Any]]:
    """Give the lines whose messages have this part."""
    return [line for line in lines_of(worker) if part in line["message"]]


def exceptions_in(worker: WorkerProcess) -> dict[str, str]:
    """Give the tracebacks in a JSON log, by run."""
    return {line["run"]: line["exception"] for line in lines_of(worker) if "exception" in line}


def test_every_line_made_in_a_run_says_which_and_runs_never_mix(fleet: Fleet, start: Start) -> None:
    """Of 40 runs at once: from tasks, threads and prints, and Celery's own line about the end of each."""
    worker = start(TURNFLEET_LOG_FORMAT="json")
    script = steps([call("say", text=PHRASE), call("shout", text=PHRASE)], [call("say", text="b")], PHRASE)
    runs = [fleet.enqueue(SPOKEN, script, tenant=f"tenant-{number % 3}") for number in range(40)]
    tenants = {run.run_id: f"tenant-{number % 3}" for number, run in enumerate(runs)}
    for run in runs:
        assert run.result(timeout=60).text == PHRASE
    ended = "succeeded in"
    closing = eventually(lambda: len(seen := messages_in(worker, ended)) == len(runs) and seen)
    lines = lines_of(worker)
    spoken = [line for line in lines if " by " in line["message"]]
    assert len(spoken) == 4 * len(runs)
    for line in spoken:
        run_id = line["message"].rpartition(" ")[2]
        assert {name: line[name] for name in ("run", "plan", "tenant", "attempt")} == {
            "run": run_id,
            "plan": "spoken",
            "tenant": tenants[run_id],
            "attempt": 1,
        }
        assert line["worker"].endswith(f":{worker.pid}")
        assert (len(line["trace_id"]), len(line["span_id"])) == (32, 16)
    assert {(line["logger"], line["level"]) for line in spoken} == {
        ("shop", "info"),
        ("shop", "warning"),
        ("celery.redirected", "warning"),
    }
    assert {line["order"] for line in spoken if line["message"].startswith("said")} == {1001}
    assert {line["run"]: line["tenant"] for line in closing} == tenants
    assert [line for line in lines if "run" in line and line["run"] not in tenants] == []
    assert PHRASE not in worker.log


def test_a_delegated_runs_lines_say_both(fleet: Fleet, start: Start) -> None:
    """`run` is the root, which people know; `child` is the one that the code is of."""
    worker = start(TURNFLEET_LOG_FORMAT="json")
    run = fleet.enqueue(SPOKEN, steps([call("speaker", prompt=steps([call("say", text="x")], "y"))], "z"))
    run.result(timeout=60)
    (line,) = messages_in(worker, "said by")
    assert (line["run"], line["child"]) == (run.run_id, f"{run.run_id}.call-0-0")


def test_a_failure_has_its_traceback_and_not_the_prompt(fleet: Fleet, start: Start) -> None:
    """A provider's own error, which quotes the prompt, is no part of it; a program's own error is whole."""
    worker = start(TURNFLEET_LOG_FORMAT="json")
    refused = fleet.enqueue(PLAN.model_copy(update={"model": "overloaded"}), PHRASE)
    broken = fleet.enqueue(PLAN, steps({"fail": "the shop is closed"}))
    for run in (refused, broken):
        eventually(lambda run=run: run.status().state == "failed")  # type: ignore[misc]
    raised = eventually(lambda: len(seen := exceptions_in(worker)) == 2 and seen)
    assert raised[broken.run_id].startswith("Traceback (most recent call last):")
    assert raised[broken.run_id].endswith("RuntimeError: the shop is closed")
    assert raised[refused.run_id].endswith("ModelUnavailableError: model 'overloaded' gave no turn: RuntimeError")
    assert PHRASE not in worker.log


def test_flower_is_told_no_more_than_the_log(fleet: Fleet, start: Start, redis_url: str, fleet_name: str) -> None:
    """The traceback of a failed task travels in an event, which any client of the broker may read."""
    start()
    with watching(redis_url, fleet_name) as events:
        run = fleet.enqueue(PLAN.model_copy(update={"model": "overloaded"}), PHRASE)
        task = eventually(lambda: (seen := events.tasks.get(run.run_id)) and seen.traceback and seen)
    assert task.traceback.endswith("ModelUnavailableError: model 'overloaded' gave no turn: RuntimeError")
    assert PHRASE not in task.traceback


def test_text_stays_celerys_with_the_fields_behind(fleet: Fleet, start: Start) -> None:
    """One line a message, the same beginning as ever; without the prompt, here too."""
    worker = start()
    run = fleet.enqueue(SPOKEN, steps([call("say", text="x")], "y"), tenant="acme")
    refused = fleet.enqueue(PLAN.model_copy(update={"model": "overloaded"}), PHRASE)
    run.result(timeout=60)
    (line,) = (line for line in worker.log.splitlines() if "said by" in line)
    assert line.endswith(f"INFO/MainProcess] said by {run.run_id} [run={run.run_id} plan=spoken tenant=acme attempt=1]")
    worker.wait_for_log("ModelUnavailableError: model 'overloaded'")
    eventually(lambda: refused.status().state == "failed")
    assert PHRASE not in worker.log


def test_a_programs_own_logging_is_left_alone(fleet: Fleet, start: Start) -> None:
    """Whoever took it over from Celery keeps it, whatever format the environment asks for; a filter has the fields."""
    worker = start(OWN_LOGGING="1", TURNFLEET_LOG_FORMAT="json")
    run = fleet.enqueue(SPOKEN, steps([call("say", text="x")], "y"))
    run.result(timeout=60)
    assert f"OWN <{run.run_id}> said by {run.run_id}\n" in worker.log
    assert f"OWN <> {worker.hostname} ready.\n" in worker.log
    assert [line for line in worker.log.splitlines() if line.startswith("{")] == []


def test_a_format_that_there_is_not_stops_the_worker(redis_url: str, fleet_name: str) -> None:
    """In one line that says what to set."""
    env = {"TURNFLEET_REDIS_URL": redis_url, "TURNFLEET_NAME": fleet_name, "TURNFLEET_LOG_FORMAT": "xml"}
    worker = WorkerProcess("fleet.planned", env=env)
    try:
        worker.start()
        assert worker.wait() != 0
        assert "does not start: TURNFLEET_LOG_FORMAT='xml' is no log format: set text or json" in worker.log
        assert "Traceback" not in worker.log
    finally:
        worker.close()


def test_the_environment_has_the_last_word() -> None:
    """As for a worker's other settings that operators turn."""
    assert log_format("text", {}) == "text"
    assert log_format("json", {}) == "json"
    assert log_format("text", {"TURNFLEET_LOG_FORMAT": "json"}) == "json"
    with pytest.raises(SettingError, match="set text or json"):
        log_format("text", {"TURNFLEET_LOG_FORMAT": ""})


def test_a_line_keeps_its_own_names(caplog: pytest.LogCaptureFixture) -> None:
    """What a program binds or adds under a taken name does not change what the line says of itself."""
    logger = logging.getLogger("shop")
    with bound_contextvars(run="r1", message="bound", customer="c7"), caplog.at_level("INFO"):
        logger.info("hello %s", "you", extra={"level": "added", "when": object})
        line = json.loads(json_formatter().format(caplog.records[-1]))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "info",
        "logger": "shop",
        "message": "hello you",
        "run": "r1",
        "customer": "c7",
        "when": "<class 'object'>",
    }


def test_what_a_model_error_is_made_of_is_content() -> None:
    """Wherever in the chain it stands."""
    error = ValueError("the run failed")
    error.__cause__ = ModelUnavailableError("no turn")
    error.__cause__.__cause__ = RuntimeError(PHRASE)
    hidden, whole = traceback_text(error, content=False), traceback_text(error, content=True)
    assert (PHRASE in hidden, PHRASE in whole) == (False, True)
    assert [name in hidden for name in ("ModelUnavailableError: no turn", "ValueError: the run failed")] == [True, True]


@pytest.mark.parametrize("module", ["structlog", "prometheus_client"])
def test_without_the_extra_the_import_says_what_to_install(module: str) -> None:
    """And a service that only enqueues needs neither."""
    code = f"import sys; sys.modules[{module!r}] = None; import turnfleet, turnfleet.cli; import turnfleet_worker"
    failed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert f"ImportError: a turnfleet worker needs {module}: pip install 'turnfleet[worker]'" in failed.stderr


async def test_what_sends_for_all_runs_is_of_none() -> None:
    """The store's sender is started by whichever run comes first, and logs and traces as nobody."""
    seen: list[dict[str, Any]] = []

    async def send(batch: Any) -> list[Any]:
        seen.append(dict(get_contextvars()))
        return [None] * len(batch)

    with bound_contextvars(run="r1"):
        await _Lane(send, 5.0).ask(commands.workers(Keys("f")))
    assert seen == [{}]
