"""Bad messages: each is dropped, counted and logged without its content, and the worker takes the next one."""

import base64
import json
import zlib
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from pool.bench import Bench, EventWatch
from support.waiting import eventually
from support.worker_process import WorkerProcess

SECRET = "the-prompt"  # noqa: S105 - what must not be seen

# What a pickle would do that somebody loads: leave a file behind.
PICKLE = b"cposix\nsystem\n(S'touch unpickled'\ntR."

BODY: Any = [[], {"envelope": {"run_id": "bad", "prompt": SECRET}}, {}]


def body(value: Any) -> bytes:
    """Return a message body."""
    return json.dumps(value).encode()


def headers(**changes: Any) -> dict[str, Any]:
    """Return the headers of a good message, with changes."""
    return {"headers": {"id": "bad", "task": "turnfleet.invoke", **changes}}


Make = Callable[[Bench], Mapping[str, object] | bytes]

MESSAGES: dict[str, tuple[str, Make]] = {
    "not JSON on the list": ("garbage", lambda _: SECRET.encode()),
    "not UTF-8 on the list": ("garbage", lambda _: b"\xff\xfe" + SECRET.encode()),
    "JSON, but a list": ("garbage", lambda _: body([SECRET])),
    "JSON, but a number": ("garbage", lambda _: b"42"),
    "no properties": ("garbage", lambda _: body({"body": SECRET, "headers": {}})),
    "no delivery info": ("garbage", lambda b: b.raw_message(body(BODY), properties={"delivery_tag": "t"})),
    "a body that is not base64": ("garbage", lambda b: b.raw_message(body(BODY)) | {"body": SECRET}),
    "headers that are a list": ("garbage", lambda b: b.raw_message(body(BODY), headers=[SECRET])),
    "a pickle": ("content", lambda b: b.raw_message(PICKLE, **{"content-type": "application/x-python-serialize"})),
    "a YAML": ("content", lambda b: b.raw_message(b"a: 1", **{"content-type": "application/x-yaml"})),
    "a body that is not JSON": ("content", lambda b: b.raw_message(SECRET.encode())),
    "a broken compression": (
        "content",
        lambda b: b.raw_message(zlib.compress(body(BODY))[:9], **headers(compression="application/x-gzip")),
    ),
    "no headers": ("headers", lambda b: b.raw_message(body(BODY), headers={})),
    "no id": ("headers", lambda b: b.raw_message(body(BODY), headers={"task": "turnfleet.invoke"})),
    "an id that is a number": ("headers", lambda b: b.raw_message(body(BODY), **headers(id=7))),
    "a task that is a mapping": ("headers", lambda b: b.raw_message(body(BODY), **headers(task={}))),
    "an unknown task": ("unknown", lambda b: b.raw_message(body(BODY), **headers(task="turnfleet.other"))),
    "protocol 1": ("protocol", lambda b: b.raw_message(body({"task": "turnfleet.invoke", "id": "x"}), headers={})),
    "a body of one part": ("protocol", lambda b: b.raw_message(body({"envelope": SECRET}))),
    "no envelope": ("envelope", lambda b: b.raw_message(body([[], {"prompt": SECRET}, {}]))),
    "an envelope and more": ("envelope", lambda b: b.raw_message(body([[SECRET], BODY[1], {}]))),
    "an eta": ("options", lambda b: b.raw_message(body(BODY), **headers(eta="2999-01-01T00:00:00+00:00"))),
    "an eta that is no date": ("options", lambda b: b.raw_message(body(BODY), **headers(eta=SECRET))),
    "an expiry": ("options", lambda b: b.raw_message(body(BODY), **headers(expires="2999-01-01T00:00:00+00:00"))),
    "a time limit that is a text": ("options", lambda b: b.raw_message(body(BODY), **headers(timelimit=[SECRET, 1]))),
    "a chain": ("options", lambda b: b.raw_message(body([[], BODY[1], {"chain": [{"task": SECRET}]}]))),
    "a user's task without its id": (
        "headers",
        lambda b: b.raw_message(body([[1, 2], {}, {}]), headers={"task": "plain.add"}),
    ),
    "a user's task with one part": (
        "malformed",
        lambda b: b.raw_message(body([SECRET]), **headers(task="plain.add")),
    ),
}


@pytest.mark.parametrize(("kind", "make"), MESSAGES.values(), ids=MESSAGES.keys())
def test_a_bad_message_is_dropped_and_the_worker_goes_on(
    shared_bench: Bench, shared_worker: WorkerProcess, run_id: str, kind: str, make: Make
) -> None:
    """Refused, counted by kind, not in the log, not executed; the run behind it ends (DESIGN 7)."""
    before = shared_bench.stats(shared_worker)["turnfleet"]["refused"].get(kind, 0)
    pid = shared_worker.pid
    shared_bench.push(make(shared_bench))
    shared_bench.send(run_id)
    shared_bench.wait_for("ended", run=run_id)
    after = eventually(lambda: shared_bench.stats(shared_worker)["turnfleet"]["refused"].get(kind, 0))
    assert after == before + 1
    assert shared_bench.notes(run="bad") == []
    eventually(lambda: shared_bench.waiting() + shared_bench.unacked() == 0)
    assert SECRET not in shared_worker.log
    assert base64.b64encode(SECRET.encode()).decode() not in shared_worker.log
    assert "Connection to broker lost" not in shared_worker.log
    assert (shared_worker.pid, shared_worker.running) == (pid, True)


def test_nothing_unpickles(shared_bench: Bench, shared_worker: WorkerProcess, run_id: str) -> None:
    """A pickle that would leave a file behind leaves none, as a task and as an argument of one (DESIGN 7)."""
    for task in ("turnfleet.invoke", "plain.add"):
        message = shared_bench.raw_message(PICKLE, **headers(task=task))
        shared_bench.push(message | {"content-type": "application/x-python-serialize"})
    shared_bench.send(run_id)
    shared_bench.wait_for("ended", run=run_id)
    assert not (shared_worker.folder / "unpickled").exists()


def test_a_refused_task_is_shown_as_failed_with_the_reason(
    shared_bench: Bench, shared_worker: WorkerProcess, shared_events: EventWatch, run_id: str
) -> None:
    """A client that asked for a countdown reads in Flower where it belongs; Celery holds nothing (DESIGN 7)."""
    assert shared_worker.running
    shared_bench.publish({"envelope": {"run_id": run_id}}, run_id, countdown=3600)
    shared_events.wait_for(run_id, "task-failed")
    assert "put it into the envelope's options" in shared_events.state.tasks[run_id].exception
    assert shared_events.shown(run_id) == "FAILURE"
    assert shared_bench.unacked() == 0
    assert eventually(shared_bench.inspect(shared_worker).scheduled) == {shared_worker.hostname: []}
