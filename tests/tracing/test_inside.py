"""The spans of many runs in one process, and what they hold when content is shown: a worker's inside, no Celery."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from support.spans import Seen
from tracing.conftest import Tape
from worker.conftest import Shop, shop

from turnfleet_kernel import Delta, ModelTurn, PlanSpec, ToolRequest, UsageDelta, current_run_identity
from turnfleet_kernel.testing import ScriptedModel

__all__ = ["shop"]

SWITCH = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"


class Talkative:
    """A model that gives way to other runs between its pieces, and makes spans of its own as an HTTP client does."""

    def __init__(self, tape: Tape) -> None:
        self._tape = tape

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the whole turn."""
        raise NotImplementedError

    def stream(self, transcript: list[dict[str, Any]]) -> "Talking":
        """Give a turn with calls first, then the answer."""
        answered = any(message["role"] == "tool" for message in transcript)
        calls: tuple[ToolRequest, ...] = (
            ToolRequest(None, "slow"),
            ToolRequest(None, "threaded"),
            ToolRequest(None, "child", {"prompt": "x"}),
        )
        if answered or transcript[-1]["content"] == "x":
            calls = ()
        return Talking(self._tape, ModelTurn("a b c", UsageDelta(1, 1, 1), "end", calls))


class Talking:
    """One turn of it."""

    def __init__(self, tape: Tape, turn: ModelTurn) -> None:
        self._tape = tape
        self._turn = turn

    async def deltas(self) -> AsyncIterator[Delta]:
        """Give words."""
        for word in ("a", " b", " c"):
            with self._tape.tracer.start_as_current_span("POST", attributes={"run": run_id()}):
                await asyncio.sleep(0)
            yield Delta("text", word)
            await asyncio.sleep(0)

    def result(self) -> ModelTurn:
        """Give the turn."""
        return self._turn


def run_id() -> str:
    """Tell which run this code is part of."""
    identity = current_run_identity()
    return identity.run_id if identity else "none"


def path(span: Seen, by_id: dict[str, Seen]) -> list[tuple[str, str]]:
    """Give the names from the root down to a span, each with the run that it says it is of."""
    above = path(by_id[span.parent_id], by_id) if span.parent_id else []
    return [*above, (span.name, span.attributes.get("turnfleet.run_id") or span.attributes["run"])]


async def test_spans_of_200_runs_at_once_hang_where_they_belong(shop: Shop, tape: Tape) -> None:
    """Models' pieces, tools in tasks, tools in threads and delegated runs: each below its own run, all the way up."""
    runs = 200

    @shop.registry.tool
    async def slow() -> str:
        """Give way."""
        await asyncio.sleep(0.001)
        with tape.tracer.start_as_current_span("inside", attributes={"run": run_id()}):
            await asyncio.sleep(0)
        return "slow"

    @shop.registry.tool
    def threaded() -> str:
        """Run in a thread."""
        with tape.tracer.start_as_current_span("inside", attributes={"run": run_id()}):
            return "threaded"

    shop.registry.model("small", Talkative(tape))
    shop.registry.delegate("child", PlanSpec(name="child", model="small"))
    plan = PlanSpec(name="p", model="small", tools=("slow", "threaded"), delegates=("child",))
    await asyncio.gather(*(shop.enqueue(plan, run_id=f"r{number}") for number in range(runs)))

    async def work(name: str) -> None:
        with tape.tracer.start_as_current_span("root", attributes={"run": name}):
            assert (await shop.work(name)).state == "completed"

    await asyncio.gather(*(work(f"r{number}") for number in range(runs)))
    seen = tape.seen
    by_id = {span.span_id: span for span in seen}
    paths = [path(span, by_id) for span in seen]
    assert [way for way in paths if len({run.partition(".")[0] for _, run in way}) != 1] == []
    kinds = [" > ".join(name for name, _ in way) for way in paths if way[0][1] == "r7"]
    agent = "root > invoke_agent p"
    child = f"{agent} > execute_tool child > invoke_agent child"
    assert sorted(kinds) == sorted(
        [
            "root",
            agent,
            *[f"{agent} > chat small"] * 2,
            *[f"{agent} > chat small > POST"] * 6,
            *[f"{agent} > execute_tool {name}" for name in ("slow", "threaded", "child")],
            *[f"{agent} > execute_tool {name} > inside" for name in ("slow", "threaded")],
            child,
            f"{child} > chat small",
            *[f"{child} > chat small > POST"] * 3,
        ]
    )


@pytest.fixture
def content(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> str:
    """Set the switch."""
    monkeypatch.setenv(SWITCH, request.param)
    return str(request.param)


async def a_run_with_secrets(shop: Shop) -> None:
    """Let a run say things in all places: prompt, instructions, arguments, results, errors, answers, and a child's."""

    @shop.registry.tool
    async def lookup(name: str) -> str:
        """Look a customer up."""
        return f"secret-result of {name}"

    @shop.registry.tool
    async def broken(name: str) -> str:
        """Fail."""
        raise RuntimeError(f"secret-error of {name}")

    calls = (
        ToolRequest("c1", "lookup", {"name": "secret-argument"}),
        ToolRequest("c2", "broken", {"name": "secret-x"}),
    )
    turns = [ModelTurn("secret-thought", tool_requests=calls), ModelTurn("secret-answer", stop_reason="end")]
    shop.registry.model("small", ScriptedModel(turns))
    plan = PlanSpec(name="p", model="small", instructions="secret-order", tools=("lookup", "broken"))
    await shop.enqueue(plan, prompt="secret-prompt")
    assert (await shop.work()).state == "completed"


@pytest.mark.parametrize("content", ["", "false", "NO_CONTENT", "EVENT_ONLY"], indirect=True)
async def test_no_span_holds_what_was_said(shop: Shop, tape: Tape, content: str) -> None:
    """Neither as attribute nor as event nor as status; the types of errors are there."""
    await a_run_with_secrets(shop)
    assert len(tape.seen) == 5
    assert [line for line in tape.lines if "secret" in line] == []
    assert tape.one("execute_tool broken").attributes["error.type"] == "RuntimeError"


@pytest.mark.parametrize("content", ["true", "SPAN_ONLY", "SPAN_AND_EVENT"], indirect=True)
async def test_one_switch_shows_all_of_it(shop: Shop, tape: Tape, content: str) -> None:
    """In the JSON that the GenAI conventions describe."""
    await a_run_with_secrets(shop)
    first, last = (each for each in tape.seen if each.name == "chat small")
    orders = [{"type": "text", "content": "secret-order"}]
    asked = [{"role": "user", "parts": [{"type": "text", "content": "secret-prompt"}]}]
    calls = [
        {"type": "tool_call", "id": "c1", "name": "lookup", "arguments": {"name": "secret-argument"}},
        {"type": "tool_call", "id": "c2", "name": "broken", "arguments": {"name": "secret-x"}},
    ]
    thought = {"role": "assistant", "parts": [{"type": "text", "content": "secret-thought"}, *calls]}
    heard = [
        {"type": "tool_call_response", "id": "c1", "response": "secret-result of secret-argument"},
        {"type": "tool_call_response", "id": "c2", "response": "RuntimeError: secret-error of secret-x"},
    ]
    assert json.loads(first.attributes["gen_ai.system_instructions"]) == orders
    assert json.loads(first.attributes["gen_ai.input.messages"]) == asked
    assert json.loads(first.attributes["gen_ai.output.messages"]) == [{**thought, "finish_reason": None}]
    answers = [{"role": "tool", "parts": [each]} for each in heard]
    assert json.loads(last.attributes["gen_ai.input.messages"]) == [*asked, thought, *answers]
    said = {"role": "assistant", "parts": [{"type": "text", "content": "secret-answer"}], "finish_reason": "end"}
    assert json.loads(last.attributes["gen_ai.output.messages"]) == [said]
    lookup, broken = tape.one("execute_tool lookup"), tape.one("execute_tool broken")
    assert json.loads(lookup.attributes["gen_ai.tool.call.arguments"]) == {"name": "secret-argument"}
    assert json.loads(lookup.attributes["gen_ai.tool.call.result"]) == "secret-result of secret-argument"
    assert "secret-error" in broken.text


async def test_a_turn_that_breaks_off_ends_its_span(shop: Shop, tape: Tape) -> None:
    """Its error is the run's, and the span says so, however late it came out."""

    class Broken(Talkative):
        def stream(self, transcript: list[dict[str, Any]]) -> Any:
            return HalfATurn(tape, ModelTurn())

    class HalfATurn(Talking):
        def result(self) -> ModelTurn:
            raise ConnectionError("it hung up")

    shop.registry.model("small", Broken(tape))
    await shop.enqueue(PlanSpec(name="p", model="small"))
    left = await shop.work()
    assert (left.state, str(left.error)) == ("failed", "it hung up")
    assert (tape.one("chat").failed, tape.one("chat").attributes["error.type"]) == (True, "ConnectionError")
    assert tape.one("invoke_agent").attributes["error.type"] == "ConnectionError"


async def test_a_provider_says_which_model_it_is(shop: Shop, tape: Tape) -> None:
    """The registry's name for it is another matter."""
    from pydantic_ai.models.test import TestModel

    shop.registry.model("support", TestModel(call_tools=[]))
    await shop.enqueue(PlanSpec(name="p", model="support"))
    await shop.work()
    chat = tape.one("chat")
    named = {
        name: chat.attributes[name] for name in ("gen_ai.provider.name", "gen_ai.request.model", "turnfleet.model")
    }
    assert (chat.name, named) == (
        "chat test",
        {"gen_ai.provider.name": "test", "gen_ai.request.model": "test", "turnfleet.model": "support"},
    )
