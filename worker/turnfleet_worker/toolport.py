"""The tool port of one plan: its tools and no other, arguments checked, results as JSON."""

import inspect
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from time import monotonic
from typing import Any

from turnfleet_kernel.contracts.values import ToolDescription, ToolOutcome, ToolRequest
from turnfleet_worker.errors import ArgumentsError
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.signatures import Signature
from turnfleet_worker.threads import DaemonThreads
from turnfleet_worker.toolcontext import ToolContext, as_json
from turnfleet_worker.tracing.calls import executing, note_outcome

__all__ = ["BoundTools", "RegisteredTool", "as_coroutine", "is_async"]


@dataclass(frozen=True, slots=True)
class RegisteredTool:
    """A tool as its owner declared it."""

    function: Callable[..., Any]
    signature: Signature
    policy: ToolPolicy


class BoundTools:
    """A `ToolPort`: the one manifest of what a plan may call (IPL-5); shared by all its invocations."""

    def __init__(self, tools: Mapping[str, RegisteredTool], threads: DaemonThreads) -> None:
        self._tools = dict(tools)
        self._threads = threads

    def names(self) -> tuple[str, ...]:
        """List the tools that can be called, in the plan's order."""
        return tuple(self._tools)

    def describe(self, name: str) -> ToolDescription:
        """Say what a model needs to know of a tool. Raises KeyError for a name that the plan does not have."""
        signature = self._tools[name].signature
        return ToolDescription(name, signature.description, signature.schema)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Give the JSON Schema of a tool's arguments; None for a name that the plan does not have."""
        tool = self._tools.get(name)
        return None if tool is None else tool.signature.schema

    def problem(self, request: ToolRequest) -> str | None:
        """Say why a call could not be made here, without making it; None when it could."""
        tool = self._tools.get(request.name)
        if tool is None:
            return self._no_such_tool(request.name)
        try:
            tool.signature.bind(request.arguments)
        except ArgumentsError as unfit:
            return str(unfit)
        return None

    def _no_such_tool(self, name: str) -> str:
        return f"There is no tool {name!r} here. Tools: {', '.join(self._tools) or 'none'}."

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Make a call. Whatever goes wrong is an error outcome that tells the model what to do (TOL-2, TOL-3)."""
        with executing(request) as span:
            outcome, error = await self._call(request)
            note_outcome(span, outcome, error)
            return outcome

    async def _call(self, request: ToolRequest) -> tuple[ToolOutcome, BaseException | None]:
        """Give the outcome, and what it is an error of."""
        call_id = request.call_id or ""
        tool = self._tools.get(request.name)
        if tool is None:
            unknown = LookupError(self._no_such_tool(request.name))
            return ToolOutcome(call_id, request.name, error=str(unknown)), unknown
        try:
            arguments = tool.signature.bind(request.arguments)
        except ArgumentsError as unfit:
            return ToolOutcome(call_id, request.name, error=str(unfit)), unfit
        began = monotonic()
        value, said, error = await self._outcome_of(tool, arguments, request)
        return ToolOutcome(call_id, request.name, value, said, (monotonic() - began) * 1000), error

    async def _outcome_of(
        self, tool: RegisteredTool, arguments: dict[str, Any], request: ToolRequest
    ) -> tuple[Any, str | None, BaseException | None]:
        """Give the value, or what the model is told and what that is an error of."""
        try:
            value = await self._run(tool, arguments, request)
        except Exception as failed:  # noqa: BLE001 - TOL-2: seen by the model, and the run goes on
            return None, f"{type(failed).__name__}: {failed}", failed
        except (SystemExit, KeyboardInterrupt) as end:
            # A command-line function used as a tool; the worker is not its process to end.
            kind = type(end).__name__
            return None, f"{kind}: the tool {request.name!r} asked the process to end, which was ignored", end
        try:
            return as_json(value, "its result"), None, None
        except ValueError as unfit:
            said = f"The tool {request.name!r} ran to its end, but {unfit}; it does not help to call it again."
            return None, said, unfit

    async def _run(self, tool: RegisteredTool, arguments: dict[str, Any], request: ToolRequest) -> Any:
        context = ToolContext(request.call_id or "", request.name)
        arguments.update(dict.fromkeys(tool.signature.contexts, context))
        return await _perform(partial(tool.function, **arguments), self._threads, context.cancel)


def as_coroutine(function: Callable[..., Any], threads: DaemonThreads) -> Callable[..., Awaitable[Any]]:
    """Make an async function of one that may be plain; a plain one runs in a thread."""

    @wraps(function)
    async def call(*arguments: Any) -> Any:
        return await _perform(partial(function, *arguments), threads, lambda: None)

    return call


async def _perform(call: "partial[Any]", threads: DaemonThreads, on_cancel: Callable[[], None]) -> Any:
    if is_async(call.func):
        return await call()
    value = await threads.run(call, on_cancel=on_cancel)
    # A plain function may hand back a coroutine, as a lambda around an async one does.
    return await value if inspect.isawaitable(value) else value


def is_async(function: Any) -> bool:
    """Tell whether calling a function gives a coroutine."""
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(type(function).__call__)
