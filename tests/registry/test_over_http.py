"""pydantic-ai's models over HTTP: streams, tool calls, refusals and streams that end too early."""

from dataclasses import replace
from typing import Any

import pytest
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.profiles.openai import OpenAIModelProfile
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.openai import OpenAIProvider
from registry.provider import CUT, END, Provider, chunk, provider, spent

from turnfleet_kernel import (
    InvocationKernel,
    InvocationOutcome,
    InvocationPlan,
    PlanSpec,
    TurnRequest,
    UsageDelta,
    compile_plan,
)
from turnfleet_kernel.testing import RecordingSink
from turnfleet_worker import Registry
from turnfleet_worker.errors import ModelError, ModelRefusedError, ModelUnavailableError

HELLO = (chunk({"role": "assistant", "content": "Hel"}), chunk({"content": "lo"}))
CALL = (
    chunk({"tool_calls": [{"index": 0, "id": "c1", "type": "function", "function": {"name": "double"}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": '{"numb'}}]}),
    chunk({"tool_calls": [{"index": 0, "function": {"arguments": 'er": 2}'}}]}),
    chunk({}, "tool_calls"),
    spent(5, 2),
)
STOP = (*HELLO, chunk({}, "stop"), spent(7, 3))
BEGUN = (
    {
        "type": "message_start",
        "message": {
            "id": "a",
            "type": "message",
            "role": "assistant",
            "model": "m",
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 3, "output_tokens": 1},
        },
    },
    {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}},
    {"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "Hel"}},
)


def openai(place: Provider, **more: Any) -> OpenAIChatModel:
    """Give OpenAI's model, at this place."""
    return OpenAIChatModel("m", provider=OpenAIProvider(base_url=f"{place.url}/v1", api_key="k"), **more)


def plan_of(model: Any) -> InvocationPlan:
    """Compile a plan with one tool."""
    registry = Registry()
    registry.model("m", model)
    registry.tool(lambda number: number * 2, name="double")
    return compile_plan(PlanSpec(name="p", model="m", tools=("double",)), registry)


async def outcome_of(model: Any) -> InvocationOutcome[Any]:
    """Run to the end, streamed as in a worker, and close the provider's connections, which are this test's loop's."""
    async with model.client:
        events = [event async for event in InvocationKernel().stream(plan_of(model), TurnRequest("Hello"))]
    outcome: InvocationOutcome[Any] = events[-1].outcome
    return outcome


async def failure(model: Any) -> tuple[ModelError, str]:
    """Run until the model fails, as in `outcome_of`; give its error, and what had been said by then."""
    sink = RecordingSink()
    plan = plan_of(model)
    watched = replace(plan, bindings=replace(plan.bindings, event_sink=sink))
    async with model.client:
        with pytest.raises(ModelError) as failed:
            [event async for event in InvocationKernel().stream(watched, TurnRequest("Hello"))]
    return failed.value, "".join(event.text for event in sink.events if event.kind == "text_delta")


async def test_a_streamed_answer_after_a_tool_call() -> None:
    """The call's arguments come in pieces; the second request carries what the tool gave."""
    with provider(CALL, STOP) as place:
        outcome = await outcome_of(openai(place))
    assert outcome.text == "Hello"
    assert [each.value for each in outcome.tool_outcomes] == [4]
    assert (outcome.usage, outcome.stop_reason) == (UsageDelta(12, 5, 2), "stop")
    assert [message["role"] for message in place.requests[1]["messages"]] == ["user", "assistant", "tool"]


async def test_the_providers_client_repeats_what_is_worth_repeating() -> None:
    """A rate limit or a fault that is over by the next request is none of the run's."""
    with provider(429, 500, STOP) as place:
        outcome = await outcome_of(openai(place))
    assert (outcome.text, len(place.requests)) == ("Hello", 3)


@pytest.mark.parametrize(
    ("status", "kind"), [(429, ModelUnavailableError), (500, ModelUnavailableError), (401, ModelRefusedError)]
)
async def test_a_refusal_says_whether_it_is_worth_trying_again(status: int, kind: type[ModelError]) -> None:
    """What the provider writes may quote the prompt, and is not told."""
    with provider(status) as place:
        error, _ = await failure(openai(place))
    assert isinstance(error, kind)
    assert f"(HTTP status {status})" in str(error)
    assert "1001" not in str(error)


@pytest.mark.parametrize("ending", [CUT, END, {"error": {"message": "overloaded: order 1001"}}])
async def test_a_stream_that_ends_in_the_middle_is_no_answer(ending: object) -> None:
    """Lost, closed in an orderly way by something in between, or given up by the provider: it may work later."""
    with provider((*HELLO, ending)) as place:
        error, said = await failure(openai(place))
    assert isinstance(error, ModelUnavailableError)
    assert said == "Hello"
    assert "1001" not in str(error)


async def test_a_server_that_never_says_why_it_ended_is_declared_so() -> None:
    """Some that speak OpenAI's language do not; the model's profile says it."""
    profile = OpenAIModelProfile(openai_chat_streaming_requires_finish_reason=False)
    with provider((*HELLO, spent(7, 3))) as place:
        outcome = await outcome_of(openai(place, profile=profile))
    assert outcome.text == "Hello"


async def test_an_answer_of_anthropics_that_ends_in_the_middle_is_none() -> None:
    """Without its last piece, which says why the turn ended."""
    with provider((*BEGUN, END)) as place:
        model = AnthropicModel("m", provider=AnthropicProvider(base_url=place.url, api_key="k"))
        error, said = await failure(model)
    assert isinstance(error, ModelUnavailableError)
    assert said == "Hel"
