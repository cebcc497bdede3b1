"""The broker's messages are hints: repeated, foreign, stale or malformed, they do no harm."""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Thread
from typing import Any

import pytest
import redis
from celery.events.state import State
from fleet.conftest import PLAN, StartWorker, call, steps
from fleet.helpers import celery_message, check_stream, push
from support.waiting import always, eventually

from turnfleet import Fleet, RunIdConflict, UnknownRun
from turnfleet.wire.connecting import producer_app

Marks = Callable[[str], list[str]]


@contextmanager
def watching(redis_url: str, fleet_name: str) -> Iterator[Any]:
    """Follow the fleet's Celery events, as Flower does, into Celery's own event state."""
    app = producer_app(redis_url, fleet_name)
    state: Any = State()
    stop = Event()

    def follow() -> None:
        with app.connection_for_read() as connection:
            receiver = app.events.Receiver(connection, handlers={"*": state.event})
            turns = itertools.count()

            def on_turn() -> None:
                # kombu subscribes in its first poll: from the second turn on nothing is missed.
                if next(turns) == 1:
                    ready.set()
                receiver.should_stop = stop.is_set()

            receiver.on_iteration = on_turn
            receiver.run(safety_interval=0.2, wakeup=False)

    ready = Event()
    thread = Thread(target=follow, daemon=True)
    thread.start()
    assert ready.wait(60), "the event receiver did not start"
    try:
        yield state
    finally:
        stop.set()
        thread.join(60)


def test_the_same_request_twice_is_one_run(
    fleet: Fleet, start_worker: StartWorker, marks: Marks, client: redis.Redis, fleet_name: str
) -> None:
    """The same run_id with the same request gives the same handle and one execution; another request is refused."""
    prompt = steps("once")
    first = fleet.enqueue(PLAN, prompt, run_id="invoice-1001")
    again = fleet.enqueue(PLAN, prompt, run_id="invoice-1001")
    assert first.run_id == again.run_id == "invoice-1001"
    with pytest.raises(RunIdConflict):
        fleet.enqueue(PLAN, steps("something else"), run_id="invoice-1001")
    start_worker()
    assert again.result(timeout=60).text == "once"
    assert fleet.enqueue(PLAN, prompt, run_id="invoice-1001").result(timeout=60).text == "once"
    eventually(lambda: client.llen(f"turnfleet.{fleet_name}") == 0)
    assert marks("") == ["model:invoice-1001:0"]


def test_a_message_delivered_20_times_runs_once_and_flower_sees_one_success(
    fleet: Fleet, start_worker: StartWorker, marks: Marks, client: redis.Redis, redis_url: str, fleet_name: str
) -> None:
    """Duplicates find nothing to claim: the model and the tool are called once, and the event state has one success."""
    queue = f"turnfleet.{fleet_name}"
    run = fleet.enqueue(PLAN, steps([call("note", text="x")], "done"), run_id="twenty")
    names = [name for name in client.scan_iter(f"{queue}*") if client.type(name) == b"list"]
    (message,) = [each for name in names for each in client.lrange(name, 0, -1)]
    for _ in range(19):
        client.lpush(names[0], message)
    with watching(redis_url, fleet_name) as state:
        worker = start_worker()
        assert run.result(timeout=60).text == "done"
        eventually(lambda: not any(client.llen(name) for name in names))
        eventually(lambda: (task := state.tasks.get("twenty")) and task.state == "SUCCESS", what="the success event")
        always(lambda: state.tasks["twenty"].state == "SUCCESS", 0.5)
        assert list(state.tasks) == ["twenty"]
    assert marks("") == ["model:twenty:0", "note:twenty:call-0-0", "model:twenty:1"]
    assert worker.log.count("raised unexpected") == 0


def test_a_message_is_acknowledged_when_its_run_is_claimed(
    fleet: Fleet, start_worker: StartWorker, marks: Marks, client: redis.Redis, fleet_name: str
) -> None:
    """While the run goes on the broker holds nothing of it: no visibility timeout can deliver it again (DESIGN 1)."""
    start_worker()
    gate = f"gate:{fleet_name}"
    run = fleet.enqueue(PLAN, steps([call("wait_for", key=gate)], "done"))
    eventually(lambda: marks("wait_for:"))
    eventually(lambda: client.hlen(f"turnfleet.{fleet_name}.unacked") == 0)
    assert run.status().state == "running"
    client.rpush(gate, "open")
    assert run.result(timeout=60).text == "done"


def test_a_message_whose_record_was_deleted_does_not_run(
    fleet: Fleet, start_worker: StartWorker, marks: Marks, client: redis.Redis, fleet_name: str
) -> None:
    """Our producer's message says that its record was written: when that is gone, the message is dropped."""
    run = fleet.enqueue(PLAN, steps("never"), run_id="forgotten")
    assert run.cancel("not wanted") is True
    assert run.delete() is True
    worker = start_worker()
    worker.wait_for_log("nothing to do for run forgotten")
    fleet.enqueue(PLAN, steps("the next one")).result(timeout=60)
    assert marks("model:forgotten") == []
    with pytest.raises(UnknownRun):
        run.status()


def test_a_foreign_clients_message_runs(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str
) -> None:
    """A message written as raw Celery protocol JSON creates its record at the first claim, and runs."""
    queue = f"turnfleet.{fleet_name}"
    envelope = {
        "v": 1,
        "fleet": fleet_name,
        "run_id": "from-afar",
        "plan": {"name": "planned", "model": "planned", "tools": ["note"]},
        "request": {"prompt": steps([call("note", text="x")], "hello from afar")},
    }
    push(client, queue, celery_message("from-afar", {"envelope": envelope}, queue=queue))
    start_worker()
    run = fleet.run("from-afar")
    eventually(lambda: client.llen(queue) == 0)

    def completed() -> bool:
        try:
            return run.status().state == "completed"
        except UnknownRun:
            return False

    eventually(completed)
    assert run.result(timeout=60).text == "hello from afar"
    check_stream(list(run.events(timeout=60)))


def bad_messages(fleet_name: str) -> dict[str, dict[str, Any] | bytes]:
    """Spell out what must not be able to hurt a worker."""
    queue = f"turnfleet.{fleet_name}"
    good = {"v": 1, "fleet": fleet_name, "run_id": "bad", "plan": {"name": "p", "model": "planned"}}
    pickled = celery_message("pickled", {}, queue=queue, body=b"\x80\x04N.")
    pickled["content-type"] = "application/x-python-serialize"
    pickled["content-encoding"] = "binary"
    return {
        "not JSON in the body": celery_message("broken", {}, queue=queue, body=b"{not json"),
        "no envelope": celery_message("empty", {}, queue=queue),
        "envelope is a number": celery_message("number", {"envelope": 7}, queue=queue),
        "another version": celery_message("v9", {"envelope": good | {"v": 9}}, queue=queue),
        "no request": celery_message("half", {"envelope": good}, queue=queue),
        "another fleet": celery_message(
            "other", {"envelope": good | {"fleet": "other", "request": {"prompt": "[]"}}}, queue=queue
        ),
        "pickle": pickled,
    }


def test_bad_messages_are_refused_and_the_worker_keeps_working(
    fleet: Fleet, start_worker: StartWorker, client: redis.Redis, fleet_name: str, marks: Marks
) -> None:
    """Not JSON, no envelope, a wrong version, another fleet's, a pickle: refused, and the next run runs."""
    queue = f"turnfleet.{fleet_name}"
    worker = start_worker()
    for message in bad_messages(fleet_name).values():
        push(client, queue, message)
    run = fleet.enqueue(PLAN, steps("still here"))
    assert run.result(timeout=60).text == "still here"
    eventually(lambda: client.llen(queue) == 0)
    eventually(lambda: client.hlen(f"{queue}.unacked") == 0, what="no message left unacknowledged")
    assert worker.running
    assert marks("model:bad") == []
    assert [status.run_id for status in fleet.runs()] == [run.run_id]
    assert json.dumps("prompt") not in worker.log
