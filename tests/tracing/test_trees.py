"""Whole traces, from a client through a real worker process, drawn as a person would look at them."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import pytest
import redis
from fleet.conftest import PLAN, call, steps
from fleet.helpers import celery_message, push
from support.redis_server import RedisServer
from support.spans import Seen, read_spans, tree
from support.waiting import eventually
from support.worker_process import WorkerProcess
from tracing.conftest import Tape

from turnfleet import Approve, Fleet, PlanSpec, Retry, Run

STATE = "turnfleet.state"
PARENT = PlanSpec(name="parent", model="planned", delegates=("helper",))
PHRASE = "Queen Victoria"


@dataclass
class Traced:
    """A fleet whose worker writes its spans to a file."""

    fleet: Fleet
    name: str
    redis_url: str
    file: Path
    client: redis.Redis

    def worker(self) -> WorkerProcess:
        """Make another worker of the fleet."""
        env = {"TURNFLEET_REDIS_URL": self.redis_url, "TURNFLEET_NAME": self.name, "SPANS": str(self.file)}
        return WorkerProcess("tracing.traced_app", concurrency=8, env=env)

    def spans(self, run_id: str, *, claims: int = 1) -> list[Seen]:
        """Wait until so many claims of a run are over; give all spans of the traces that these belong to."""

        def over() -> list[Seen] | None:
            every = read_spans(self.file)
            done = [each for each in every if each.kind == "CONSUMER" and each.attributes["turnfleet.run_id"] == run_id]
            traces = {each.trace_id for each in done}
            return [each for each in every if each.trace_id in traces] if len(done) >= claims else None

        return eventually(over, what=f"{claims} claims of {run_id} in the spans")

    def draw(self, run: Run[Any], tape: Tape | None, *shown: str, claims: int = 1) -> str:
        """Draw all traces of a run, those of its client included, without what differs from fleet to fleet."""
        worked = self.spans(run.run_id, claims=claims)
        asked = [each for each in tape.seen if each.attributes["turnfleet.run_id"] == run.run_id] if tape else []
        return tree([*asked, *worked], STATE, *shown).replace(self.name, "F")


@pytest.fixture(scope="module")
def traced(
    redis_server: RedisServer, shared_fleet_name: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Traced]:
    """Give a fleet with one worker, for all tests here that do not kill it."""
    file = tmp_path_factory.mktemp("spans") / "spans.jsonl"
    with (
        Fleet(redis_server.url, name=shared_fleet_name, poll_interval=0.5) as fleet,
        redis.Redis.from_url(redis_server.url) as client,
    ):
        shared = Traced(fleet, shared_fleet_name, redis_server.url, file, client)
        with shared.worker():
            yield shared


def lines(text: str) -> str:
    """Strip what a triple-quoted drawing is indented by."""
    rows = text.strip("\n").splitlines()
    margin = len(rows[0]) - len(rows[0].lstrip())
    return "\n".join(row[margin:].rstrip() for row in rows).strip()


def test_a_run_is_one_trace_from_its_enqueue_to_its_model(traced: Traced, tape: Tape) -> None:
    """Four spans, each below the one that made it."""
    run = traced.fleet.enqueue(PLAN, steps("hello"), tenant="acme", thread_id="t-plain")
    run.result(timeout=60)
    assert traced.draw(run, tape) == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=completed
            invoke_agent planned state=completed
              chat planned
    """)
    _, process, invoke, chat = sorted([*tape.seen, *traced.spans(run.run_id)], key=lambda span: span.start)
    assert [each.kind for each in (process, invoke, chat)] == ["CONSUMER", "INTERNAL", "CLIENT"]
    assert process.attributes == {
        "messaging.system": "celery",
        "messaging.operation.name": "process",
        "messaging.operation.type": "process",
        "messaging.destination.name": f"turnfleet.{traced.name}",
        "messaging.message.id": run.run_id,
        "gen_ai.conversation.id": "t-plain",
        "gen_ai.agent.name": "planned",
        "turnfleet.fleet": traced.name,
        "turnfleet.run_id": run.run_id,
        "turnfleet.tenant": "acme",
        "turnfleet.attempt": 1,
        "turnfleet.state": "completed",
    }
    assert invoke.attributes == {
        "gen_ai.operation.name": "invoke_agent",
        "gen_ai.agent.name": "planned",
        "gen_ai.agent.version": "1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "turnfleet.plan_id": run.status().plan_id,
        "turnfleet.run_id": run.run_id,
        "turnfleet.state": "completed",
    }
    assert chat.attributes.pop("gen_ai.response.time_to_first_chunk") >= 0
    assert chat.attributes == {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "planned",
        "gen_ai.request.stream": True,
        "gen_ai.response.finish_reasons": ["end"],
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "turnfleet.model": "planned",
        "turnfleet.run_id": run.run_id,
    }


def test_tools_stand_beside_the_rounds_that_asked_for_them(traced: Traced, tape: Tape) -> None:
    """A tool that fails says with what, and not what about; the run goes on."""
    calls = [call("note", text=PHRASE), call("broken")]
    run = traced.fleet.enqueue(PLAN, steps(calls, PHRASE))
    run.result(timeout=60)
    assert traced.draw(run, tape, "gen_ai.tool.call.id") == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=completed
            invoke_agent planned state=completed
              chat planned
              execute_tool note id=call-0-0
              execute_tool broken id=call-0-1 FAILED RuntimeError
              chat planned
    """)
    assert [each.name for each in traced.spans(run.run_id) if PHRASE in each.text or "is broken" in each.text] == []


def test_a_delegated_run_hangs_below_the_call_that_runs_it(traced: Traced, tape: Tape) -> None:
    """With its own id, and what it used; its root has used the sum."""
    run = traced.fleet.enqueue(PARENT, steps([call("helper", prompt=steps([call("note", text="x")], "done"))], "end"))
    run.result(timeout=60)
    assert traced.draw(run, tape, "gen_ai.usage.input_tokens", "turnfleet.run_id").replace(run.run_id, "R") == lines("""
        enqueue turnfleet.F run_id=R
          process turnfleet.F state=completed run_id=R
            invoke_agent parent state=completed input_tokens=40 run_id=R
              chat planned input_tokens=10 run_id=R
              execute_tool helper run_id=R
                invoke_agent helper state=completed input_tokens=20 run_id=R.call-0-0
                  chat planned input_tokens=10 run_id=R.call-0-0
                  execute_tool note run_id=R.call-0-0
                  chat planned input_tokens=10 run_id=R.call-0-0
              chat planned input_tokens=10 run_id=R
    """)


def test_a_failed_run_says_with_what(traced: Traced, tape: Tape) -> None:
    """On each span that the error left; its text, which may quote a prompt, on none."""
    run = traced.fleet.enqueue(PLAN, steps({"fail": PHRASE}))
    eventually(lambda: run.status().state == "failed")
    assert traced.draw(run, tape) == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=failed FAILED RuntimeError
            invoke_agent planned state=failed FAILED RuntimeError
              chat planned FAILED RuntimeError
    """)
    assert [each.name for each in traced.spans(run.run_id) if PHRASE in each.text] == []


def test_a_resumed_run_is_a_trace_of_its_own_linked_to_the_first(traced: Traced, tape: Tape) -> None:
    """Below the resume that caused it; the turn that came from the journal makes no span again."""
    run = traced.fleet.enqueue(PLAN, steps([call("refund", order_id="1001", amount=80)], "done"))
    (waiting,) = eventually(lambda: run.status().interrupts)
    traced.spans(run.run_id)
    run.resume({waiting.id: Approve()}, by="alice", roles=("finance",))
    run.result(timeout=60)
    assert traced.draw(run, tape, claims=2) == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=paused
            invoke_agent planned state=paused
              chat planned
        resume
          process turnfleet.F state=completed -> enqueue turnfleet.F
            invoke_agent planned state=completed
              execute_tool refund
              chat planned
    """)


def test_a_run_that_nobody_traced_links_to_its_first_invocation(traced: Traced) -> None:
    """Its client has no SDK: the worker remembers in the journal where the run began."""
    run = traced.fleet.enqueue(PLAN, steps([call("hasty")], "done"))
    eventually(lambda: run.status().state == "completed")
    assert traced.draw(run, None, claims=2) == lines("""
        process turnfleet.F state=paused
          invoke_agent planned state=paused
            chat planned
        process turnfleet.F state=completed -> invoke_agent planned
          invoke_agent planned state=completed
            chat planned
    """)


def test_a_run_that_the_sweep_publishes_is_in_the_trace_of_its_enqueue(traced: Traced, tape: Tape) -> None:
    """Its time had not come when it was enqueued: the message is a worker's, the trace the client's."""
    run = traced.fleet.enqueue(PLAN, steps("hello"), countdown=0.2)
    run.result(timeout=60)
    assert traced.draw(run, tape) == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=completed
            invoke_agent planned state=completed
              chat planned
    """)


def test_a_retried_run_is_below_the_retry_and_linked(traced: Traced, tape: Tape) -> None:
    """It goes on from its journal, and fails here once more."""
    run = traced.fleet.enqueue(PLAN, steps([call("note", text="x")], {"fail": "no"}))
    eventually(lambda: run.status().state == "failed")
    traced.spans(run.run_id)
    run.retry()
    assert traced.draw(run, tape, claims=2) == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=failed FAILED RuntimeError
            invoke_agent planned state=failed FAILED RuntimeError
              chat planned
              execute_tool note
              chat planned FAILED RuntimeError
        retry
          process turnfleet.F state=failed -> enqueue turnfleet.F FAILED RuntimeError
            invoke_agent planned state=failed FAILED RuntimeError
              chat planned FAILED RuntimeError
    """)


def test_a_cancelled_run_ends_its_spans(traced: Traced, tape: Tape) -> None:
    """What was under way was cut short, and is no error."""
    run = traced.fleet.enqueue(PLAN, steps([call("wait_for", key=f"never:{traced.name}")], "the end"))
    eventually(lambda: waiting_in_tool(traced, run.run_id))
    run.cancel("enough")
    assert traced.draw(run, tape, "turnfleet.cut_short") == lines("""
        enqueue turnfleet.F
          process turnfleet.F state=cancelled
            invoke_agent planned state=cancelled
              chat planned
              execute_tool wait_for cut_short=True
        cancel
    """)


def waiting_in_tool(traced: Traced, run_id: str) -> bool:
    """Tell whether the tool of a run was entered."""
    marks = cast("list[bytes]", traced.client.lrange(f"marks:{traced.name}", 0, -1))
    return any(mark.startswith(f"wait_for:{run_id}:".encode()) for mark in marks)


@pytest.mark.parametrize("traceparent", ["00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "no such thing", 7])
def test_a_foreign_client_brings_its_trace_or_nothing(traced: Traced, traceparent: Any, fleet_name: str) -> None:
    """Any language's instrumentation writes that header; what is none is left aside."""
    run_id = f"foreign-{fleet_name}"
    envelope = {
        "fleet": traced.name,
        "run_id": run_id,
        "plan": PLAN.model_dump(mode="json", exclude_defaults=True),
        "request": {"prompt": steps([call("hasty")], "done")},
    }
    queue = f"turnfleet.{traced.name}"
    message = celery_message(run_id, {"envelope": envelope}, queue=queue)
    message["headers"]["traceparent"] = traceparent
    push(traced.client, queue, message)
    first, second = (each for each in traced.spans(run_id, claims=2) if each.kind == "CONSUMER")
    if traceparent == "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01":
        assert (first.trace_id, first.parent_id) == ("0x0af7651916cd43dd8448eb211c80319c", "0xb7ad6b7169203331")
        assert second.links == ("0xb7ad6b7169203331",)
    else:
        assert (first.parent_id, len(second.links)) == (None, 1)
    assert second.parent_id is None
    assert second.trace_id != first.trace_id


@pytest.mark.slow
def test_a_run_whose_worker_was_killed_goes_on_in_a_linked_trace(
    redis_server: RedisServer, fleet_name: str, tmp_path: Path, tape: Tape
) -> None:
    """The killed worker's open spans are lost with it; nobody asked for the recovery, so that it is a root."""
    with (
        Fleet(redis_server.url, name=fleet_name, poll_interval=0.5) as fleet,
        redis.Redis.from_url(redis_server.url) as client,
    ):
        doomed = Traced(fleet, fleet_name, redis_server.url, tmp_path / "spans.jsonl", client)
        gate = f"gate:{fleet_name}"
        run = fleet.enqueue(PLAN, steps([call("note", text="x")], [call("wait_for", key=gate)], "the end"))
        with doomed.worker() as first:
            eventually(lambda: waiting_in_tool(doomed, run.run_id))
            first.kill()
        with doomed.worker():
            (waiting,) = eventually(lambda: run.status().interrupts)
            doomed.spans(run.run_id)
            client.rpush(gate, "open")
            run.resume({waiting.id: Retry()}, by="alice")
            run.result(timeout=60)
            doomed.spans(run.run_id, claims=2)
    every = [*tape.seen, *read_spans(doomed.file)]
    assert tree(every, STATE).replace(fleet_name, "F") == lines("""
        enqueue turnfleet.F
        chat planned
        execute_tool note
        chat planned
        process turnfleet.F state=paused -> enqueue turnfleet.F
          invoke_agent planned state=paused
        resume
          process turnfleet.F state=completed -> enqueue turnfleet.F
            invoke_agent planned state=completed
              execute_tool wait_for
              chat planned
    """)
    assert len({each.trace_id for each in every}) == 3
