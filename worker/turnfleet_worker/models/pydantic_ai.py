"""A model port over pydantic-ai's model classes: any provider that it knows, streaming and usage included."""

import json
from collections.abc import AsyncGenerator, AsyncIterator, Iterable, Iterator, Mapping
from contextlib import contextmanager
from inspect import unwrap
from typing import Any, cast

from pydantic_ai import exceptions as theirs
from pydantic_ai.direct import model_request, model_request_stream
from pydantic_ai.messages import (
    ModelResponse,
    ModelResponseStreamEvent,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ThinkingPart,
    ThinkingPartDelta,
    ToolCallPart,
    ToolCallPartDelta,
)
from pydantic_ai.models import Model, ModelRequestParameters, infer_model
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.output import OutputObjectDefinition
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import ToolDefinition

from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.values import Delta, DeltaKind, ModelTurn, ToolDescription, ToolRequest, UsageDelta
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_worker.errors import ModelError, ModelRefusedError, ModelUnavailableError
from turnfleet_worker.models.transcript import model_messages

__all__ = ["PydanticAIModel", "known_model"]

_LATER = (
    theirs.ModelConnectionError,
    theirs.ModelRateLimitError,
    theirs.ModelRequestTimeout,
    theirs.ModelServerError,
    theirs.ModelUnavailableError,
)
UNREADABLE = "(these arguments are no JSON object)"
"""The one argument of a call whose arguments could not be read: the error that names it as unknown explains itself."""

_LATER_STATUS = frozenset({408, 409, 429})
_REFUSED = 400
_SERVER_FAULT = 500
_ALWAYS_SAY_WHY = frozenset({"anthropic", "openai"})
"""Providers that end each turn with the reason why it ended."""
_NEEDS_REASON = "openai_chat_streaming_requires_finish_reason"


def known_model(model: str | Model) -> Model:
    """Find the model class for a name such as `openai:gpt-5-mini`.

    Raises `ModelRefusedError`: the name is unknown, its provider's package is not installed, or its key is not set.
    """
    try:
        return infer_model(model)
    except (ImportError, theirs.UserError, ValueError) as problem:
        raise ModelRefusedError(_first_line(problem)) from problem


class PydanticAIModel:
    """A `ModelPort`; shared by all invocations of a plan, and holds nothing of any of them (IPL-1).

    `name` is what errors call the model. `tools` are declared to it. `response` is the plan's JSON Schema for the
    answer: asked for natively where the provider can, else in words; either way the answer is JSON text. `settings`
    are pydantic-ai's `ModelSettings`.
    """

    def __init__(
        self,
        name: str,
        model: Model,
        *,
        tools: Iterable[ToolDescription] = (),
        response: Mapping[str, Any] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> None:
        self._name = name
        self._model = model
        self._settings = cast("ModelSettings", dict(settings)) if settings else None
        self._parameters = _parameters(model, tools, response)
        self.model_name = model.model_name
        """What the provider calls the model."""
        self.provider_name = model.system
        """Whose it is."""

    async def invoke(self, transcript: Any) -> ModelTurn:
        """Give the next turn whole. Raises `ModelUnavailableError` or `ModelRefusedError`."""
        messages = model_messages(transcript)
        with self._translated():
            response = await model_request(
                self._model, messages, model_settings=self._settings, model_request_parameters=self._parameters
            )
        return self._turn(response)

    def stream(self, transcript: Any) -> "_Round":
        """Give the next turn piece by piece; the request is made when its deltas are first asked for."""
        return _Round(self, transcript)

    async def _events(self, transcript: Any) -> AsyncGenerator[ModelResponseStreamEvent | ModelResponse, None]:
        """Iterate over the provider's events, and give the whole response last."""
        messages = model_messages(transcript)
        if not _streams(self._model):
            with self._translated():
                response = await model_request(
                    self._model, messages, model_settings=self._settings, model_request_parameters=self._parameters
                )
            for index, part in enumerate(response.parts):
                yield PartStartEvent(index=index, part=part)
            yield response
            return
        with self._translated():
            async with model_request_stream(
                self._model, messages, model_settings=self._settings, model_request_parameters=self._parameters
            ) as stream:
                async for event in stream:
                    yield event
                response = stream.get()
        if _cut_off(self._model, response):
            raise ModelUnavailableError(f"model {self._name!r} broke off in the middle of its turn (it gave no reason)")
        yield response

    def _turn(self, response: ModelResponse) -> ModelTurn:
        if response.state != "complete":
            raise ModelUnavailableError(f"model {self._name!r} broke off in the middle of its turn ({response.state})")
        calls = tuple(
            ToolRequest(part.tool_call_id, part.tool_name, _arguments(part))
            for part in response.parts
            if isinstance(part, ToolCallPart)
        )
        said = tuple(delta for part in response.parts for delta in _whole(part))
        thought = any(delta.kind == "reasoning" for delta in said)
        return ModelTurn(
            text="".join(delta.text for delta in said if delta.kind == "text"),
            usage=UsageDelta(
                input_tokens=response.usage.input_tokens,
                output_tokens=response.usage.output_tokens,
                requests=1,
                cache_read_tokens=response.usage.cache_read_tokens,
                cache_write_tokens=response.usage.cache_write_tokens,
                reasoning_tokens=response.usage.output_reasoning_tokens,
            ),
            stop_reason=response.finish_reason,
            tool_requests=calls,
            # Only a turn that holds more than text shows more than its text.
            shown=said if thought else None,
        )

    @contextmanager
    def _translated(self) -> Iterator[None]:
        """Raise our errors for pydantic-ai's; theirs may quote the prompt, and stays the cause."""
        try:
            yield
        except theirs.ModelAPIError as failed:
            status = failed.status_code if isinstance(failed, theirs.ModelHTTPError) else None
            later = (
                isinstance(failed, _LATER)
                or status in _LATER_STATUS
                or (status or 0) >= _SERVER_FAULT
                # One of no kind came in the middle of an answer that had begun well: the request is right.
                or type(failed) is theirs.ModelAPIError
                or (status is not None and status < _REFUSED)
            )
            code = f" (HTTP status {status})" if status is not None else ""
            what = f"model {self._name!r} gave no turn: {type(failed).__name__}{code}"
            if later:
                raise ModelUnavailableError(f"{what}; the same call may work later") from failed
            raise ModelRefusedError(f"{what}; repeating the call changes nothing") from failed
        except theirs.UserError as misused:
            raise ModelRefusedError(f"model {self._name!r} cannot serve this plan: {_first_line(misused)}") from misused
        except theirs.AgentRunError as failed:
            raise ModelError(f"model {self._name!r} gave no usable turn: {type(failed).__name__}") from failed


class _Round:
    """One streaming turn: its pieces, then the whole."""

    def __init__(self, port: PydanticAIModel, transcript: Any) -> None:
        self._port = port
        self._transcript = transcript
        self._response: ModelResponse | None = None

    async def deltas(self) -> AsyncIterator[Delta]:
        """Iterate over text, reasoning and tool-call pieces; closing the iterator closes the connection."""
        events = self._port._events(self._transcript)  # noqa: SLF001 - two halves of one adapter
        try:
            async for event in events:
                if isinstance(event, ModelResponse):
                    self._response = event
                    continue
                for delta in _pieces(event):
                    yield delta
        finally:
            await events.aclose()

    def result(self) -> ModelTurn:
        """Give the finished turn. Raises `ContractViolationError` before the deltas are exhausted."""
        if self._response is None:
            raise ContractViolationError("a model round has a result only after its deltas were read to the end")
        return self._port._turn(self._response)  # noqa: SLF001 - two halves of one adapter


def _parameters(
    model: Model, tools: Iterable[ToolDescription], response: Mapping[str, Any] | None
) -> ModelRequestParameters:
    declared = [
        ToolDefinition(
            name=tool.name,
            description=tool.description or None,
            parameters_json_schema=thaw(tool.schema) if tool.schema is not None else {"type": "object"},
        )
        for tool in tools
    ]
    if response is None:
        return ModelRequestParameters(function_tools=declared)
    return ModelRequestParameters(
        function_tools=declared,
        output_mode="native" if _speaks_json(model, response) else "prompted",
        output_object=OutputObjectDefinition(json_schema=thaw(response)),
    )


def _speaks_json(model: Model, response: Mapping[str, Any]) -> bool:
    """Whether the provider itself holds the model to a schema; they all want an object at the top."""
    try:
        profile = model.profile
    except NotImplementedError:  # a router asks each of its models
        return False
    return bool(profile.get("supports_json_schema_output")) and response.get("type") == "object"


def _streams(model: Model) -> bool:
    """Whether a model can give its turn piece by piece; one of a user's own, or a test's, may only give it whole."""
    if isinstance(model, FunctionModel):
        return model.stream_function is not None
    return unwrap(type(model).request_stream) is not unwrap(Model.request_stream)


def _cut_off(model: Model, response: ModelResponse) -> bool:
    """Whether a stream ended before its turn did, in a way that looks like an end: a proxy closed it, for example.

    Of a missing reason pydantic-ai makes "stop", since some servers that speak OpenAI's language never send one. A
    model of theirs that is used with such a server says so in its profile.
    """
    if (response.provider_details or {}).get("finish_reason") or response.finish_reason not in {None, "stop"}:
        return False
    try:
        return model.system in _ALWAYS_SAY_WHY and bool(model.profile.get(_NEEDS_REASON, True))
    except NotImplementedError:  # a router
        return False


def _arguments(call: ToolCallPart) -> dict[str, Any]:
    """Read a call's arguments; what is no JSON object becomes one that fits no tool, and says why (TOL-3)."""
    try:
        return call.args_as_dict(raise_if_invalid=True)
    except (ValueError, AssertionError):
        return {UNREADABLE: call.args}


def _pieces(event: ModelResponseStreamEvent) -> Iterator[Delta]:
    if isinstance(event, PartStartEvent):
        yield from _whole(event.part)
        if isinstance(event.part, ToolCallPart):
            yield from _delta("tool_call", event.part.args)
    elif isinstance(event, PartDeltaEvent):
        if isinstance(event.delta, TextPartDelta):
            yield from _delta("text", event.delta.content_delta)
        elif isinstance(event.delta, ThinkingPartDelta):
            yield from _delta("reasoning", event.delta.content_delta)
        elif isinstance(event.delta, ToolCallPartDelta):
            yield from _delta("tool_call", event.delta.args_delta)


def _whole(part: object) -> Iterator[Delta]:
    if isinstance(part, TextPart):
        yield from _delta("text", part.content)
    elif isinstance(part, ThinkingPart):
        yield from _delta("reasoning", part.content)


def _delta(kind: DeltaKind, content: str | Mapping[str, Any] | None) -> Iterator[Delta]:
    text = content if isinstance(content, str) or content is None else json.dumps(content)
    if text:
        yield Delta(kind, text)


def _first_line(error: Exception) -> str:
    return str(error).splitlines()[0]
