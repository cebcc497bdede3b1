"""Any pydantic-ai model is a model port; tried on pydantic-ai's own test models, without a network."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from pydantic_ai import exceptions as theirs
from pydantic_ai.messages import (
    BinaryContent,
    ImageUrl,
    ModelMessage,
    ModelRequest,
    ModelResponse,
    SystemPromptPart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models import Model
from pydantic_ai.models.function import AgentInfo, DeltaThinkingPart, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.profiles import ModelProfile
from pydantic_ai.usage import RequestUsage

from turnfleet_kernel.contracts.values import Delta, ToolDescription, ToolRequest, UsageDelta
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_worker.errors import ModelError, ModelRefusedError, ModelUnavailableError
from turnfleet_worker.models.pydantic_ai import PydanticAIModel, known_model
from turnfleet_worker.models.transcript import model_messages

HELLO = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello"}]
REFUND = ToolDescription("refund", "Refund an order.", {"type": "object", "properties": {"id": {"type": "string"}}})


def answering(*parts: Any, usage: RequestUsage | None = None, **more: Any) -> FunctionModel:
    """Make a model whose turn is given."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        return ModelResponse(parts=list(parts), usage=usage or RequestUsage(output_tokens=1), **more)

    return FunctionModel(answer)


async def test_a_turn_has_text_calls_usage_and_reason() -> None:
    """What the loop needs to know of a response, and nothing of its classes (IPL-2)."""
    usage = RequestUsage(
        input_tokens=7, output_tokens=5, cache_read_tokens=3, cache_write_tokens=2, output_reasoning_tokens=1
    )
    model = answering(
        TextPart("Let me "),
        TextPart("see."),
        ToolCallPart("refund", '{"id": "A"}', "c1"),
        usage=usage,
        finish_reason="stop",
    )
    turn = await PydanticAIModel("m", model, tools=[REFUND]).invoke(HELLO)
    assert turn.text == "Let me see."
    assert turn.tool_requests == (ToolRequest("c1", "refund", {"id": "A"}),)
    assert turn.usage == UsageDelta(7, 5, 1, 3, 2, 1)
    assert turn.stop_reason == "stop"
    assert turn.shown is None


async def test_the_models_reasoning_is_shown_and_is_no_part_of_the_text() -> None:
    """A blocking consumer sees what a streaming one would have seen."""
    turn = await PydanticAIModel("m", answering(ThinkingPart("Hm."), TextPart("Yes."))).invoke(HELLO)
    assert turn.text == "Yes."
    assert turn.shown == (Delta("reasoning", "Hm."), Delta("text", "Yes."))


async def test_a_streamed_turn_comes_in_pieces_and_then_whole() -> None:
    """Text, reasoning and tool-call pieces, in the provider's order."""

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[Any]:
        yield {0: DeltaThinkingPart(content="Hm.")}
        yield "Let me "
        yield "see."
        yield {1: DeltaToolCall("refund", '{"id":', tool_call_id="c1")}
        yield {1: DeltaToolCall(json_args=' "A"}')}

    model_round = PydanticAIModel("m", FunctionModel(stream_function=pieces), tools=[REFUND]).stream(HELLO)
    deltas = [delta async for delta in model_round.deltas()]
    assert deltas == [
        Delta("reasoning", "Hm."),
        Delta("text", "Let me "),
        Delta("text", "see."),
        Delta("tool_call", '{"id":'),
        Delta("tool_call", ' "A"}'),
    ]
    turn = model_round.result()
    assert turn.text == "Let me see."
    assert turn.tool_requests == (ToolRequest("c1", "refund", {"id": "A"}),)
    assert turn.usage.requests == 1


async def test_closing_the_pieces_early_closes_the_request() -> None:
    """The runner closes the iterator on every path; no connection stays behind, and there is no result."""
    closed = []

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        try:
            yield "one "
            yield "two"
        finally:
            closed.append(True)

    model_round = PydanticAIModel("m", FunctionModel(stream_function=pieces)).stream(HELLO)
    deltas = model_round.deltas()
    assert await anext(deltas) == Delta("text", "one ")
    await deltas.aclose()  # type: ignore[attr-defined]
    assert closed == [True]
    with pytest.raises(ContractViolationError):
        model_round.result()


async def test_the_plans_tools_are_declared() -> None:
    """Each with the schema that its calls are checked against, a tool without one as taking anything."""
    model = TestModel(call_tools=[])
    await PydanticAIModel("m", model, tools=[REFUND, ToolDescription("note")]).invoke(HELLO)
    asked = model.last_model_request_parameters
    assert asked is not None
    assert [(each.name, each.description, each.parameters_json_schema) for each in asked.function_tools] == [
        ("refund", "Refund an order.", REFUND.schema),
        ("note", None, {"type": "object"}),
    ]


def test_a_transcript_becomes_requests_and_responses() -> None:
    """Instructions, history, prompt with attachments, calls and their outcomes, in order."""
    messages = model_messages(
        [
            *HELLO,
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [{"id": "c1", "name": "refund", "arguments": {"id": "A"}}],
            },
            {"role": "tool", "call_id": "c1", "name": "refund", "content": {"ok": True}},
            {"role": "tool", "call_id": "c2", "name": "note", "content": "no", "error": "no"},
            {"role": "assistant", "content": "Done."},
            {
                "role": "user",
                "content": "And this?",
                "attachments": [
                    "a note",
                    {"url": "https://example.com/a.png", "media_type": "image/png"},
                    {"data": "aGk=", "media_type": "text/plain"},
                ],
            },
        ]
    )
    assert [type(message) for message in messages] == [
        ModelRequest,
        ModelResponse,
        ModelRequest,
        ModelResponse,
        ModelRequest,
    ]
    first, asked, heard, done, last = messages
    assert isinstance(first.parts[0], SystemPromptPart)
    assert isinstance(first.parts[1], UserPromptPart)
    assert first.parts[1].content == "Hello"
    assert asked.parts == [ToolCallPart("refund", {"id": "A"}, "c1")]
    returned = [part for part in heard.parts if isinstance(part, ToolReturnPart)]
    assert [(each.tool_call_id, each.content, each.outcome) for each in returned] == [
        ("c1", {"ok": True}, "success"),
        ("c2", "no", "failed"),
    ]
    assert done.parts == [TextPart("Done.")]
    assert isinstance(last.parts[0], UserPromptPart)
    assert last.parts[0].content == [
        "And this?",
        "a note",
        ImageUrl("https://example.com/a.png", media_type="image/png"),
        BinaryContent(b"hi", media_type="text/plain"),
    ]


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        ({"role": "narrator", "content": "x"}, "role 'narrator'"),
        ({"role": "user", "content": "x", "attachments": [{"data": "?", "media_type": "image/png"}]}, "not base64"),
        ({"role": "user", "content": "x", "attachments": [17]}, "an attachment is neither text"),
    ],
)
def test_what_no_model_can_be_sent_is_refused(message: dict[str, Any], reason: str) -> None:
    """By name, before a provider is called."""
    with pytest.raises(ModelRefusedError, match=reason):
        model_messages([message])


@pytest.mark.parametrize(
    ("error", "ours", "text"),
    [
        (theirs.ModelHTTPError(429, "gpt", "secret"), ModelUnavailableError, "ModelHTTPError (HTTP status 429)"),
        (theirs.ModelHTTPError(503, "gpt", "secret"), ModelUnavailableError, "HTTP status 503"),
        (theirs.ModelConnectionError("gpt", "secret"), ModelUnavailableError, "ModelConnectionError; the same call"),
        (theirs.ModelHTTPError(401, "gpt", "secret"), ModelRefusedError, "HTTP status 401"),
        (
            theirs.ModelContextWindowExceededError("gpt", "secret"),
            ModelRefusedError,
            "repeating the call changes nothing",
        ),
        (theirs.UserError("no such setting"), ModelRefusedError, "cannot serve this plan: no such setting"),
        (theirs.ContentFilterError("secret"), ModelError, "no usable turn: ContentFilterError"),
    ],
)
async def test_a_providers_error_is_ours_and_quotes_nothing(
    error: Exception, ours: type[ModelError], text: str
) -> None:
    """The type says whether to try again; the provider's words stay in the cause."""

    def fail(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        raise error

    with pytest.raises(ours) as failed:
        await PydanticAIModel("support", FunctionModel(fail)).invoke(HELLO)
    assert text in str(failed.value)
    assert "'support'" in str(failed.value)
    assert "secret" not in str(failed.value)
    assert failed.value.__cause__ is error


async def test_an_error_in_the_middle_of_a_stream_is_ours_too() -> None:
    """What came before it has been handed on."""

    async def pieces(messages: list[ModelMessage], info: AgentInfo) -> AsyncIterator[str]:
        yield "one "
        raise theirs.ModelHTTPError(500, "gpt")

    deltas = PydanticAIModel("m", FunctionModel(stream_function=pieces)).stream(HELLO).deltas()
    assert await anext(deltas) == Delta("text", "one ")
    with pytest.raises(ModelUnavailableError):
        await anext(deltas)


async def test_a_turn_that_was_cut_off_is_not_taken_for_an_answer() -> None:
    """Half an answer would be committed as a whole one."""
    with pytest.raises(ModelUnavailableError, match="broke off in the middle of its turn"):
        await PydanticAIModel("m", answering(TextPart("The amount is"), state="incomplete")).invoke(HELLO)


@pytest.mark.parametrize(("native", "mode"), [(True, "native"), (False, "prompted")])
async def test_the_answers_schema_is_asked_for_natively_or_in_words(native: bool, mode: str) -> None:
    """JSON text either way: no output tool is put between."""
    seen: list[AgentInfo] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info)
        return ModelResponse(parts=[TextPart('{"total": 5}')])

    schema = {"type": "object", "properties": {"total": {"type": "number"}}}
    model = FunctionModel(answer, profile=ModelProfile(supports_json_schema_output=native))
    turn = await PydanticAIModel("m", model, response=schema).invoke(HELLO)
    assert turn.text == '{"total": 5}'
    asked = seen[0].model_request_parameters
    assert asked.output_mode == mode
    assert asked.output_object is not None
    assert asked.output_object.json_schema == schema
    assert ("total" in (seen[0].instructions or "")) is not native


async def test_settings_reach_the_provider() -> None:
    """What registry.model(settings=…) says."""
    seen: list[Any] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        seen.append(info.model_settings)
        return ModelResponse(parts=[TextPart("ok")])

    await PydanticAIModel("m", FunctionModel(answer), settings={"temperature": 0.0}).invoke(HELLO)
    assert seen == [{"temperature": 0.0}]


@pytest.mark.parametrize("name", ["nonsense", "nobody:gpt", "openia:gpt-5-mini"])
def test_a_name_that_no_provider_has_is_refused(name: str) -> None:
    """With pydantic-ai's own hint at what was meant."""
    with pytest.raises(ModelRefusedError, match="Unknown model"):
        known_model(name)


async def test_a_model_that_does_not_stream_gives_its_turn_whole() -> None:
    """A FunctionModel of a plain function, or a model class of one's own with `request` alone."""

    class Own(TestModel):
        request_stream = Model.request_stream

    for model in (answering(ThinkingPart("Hm."), TextPart("Yes.")), Own(custom_output_text="Yes.", call_tools=[])):
        model_round = PydanticAIModel("m", model).stream(HELLO)
        told = [delta async for delta in model_round.deltas()]
        assert told[-1] == Delta("text", "Yes.")
        assert model_round.result().text == "Yes."
