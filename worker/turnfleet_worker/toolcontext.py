"""What a tool may know, and say, while it serves a call."""

import asyncio
import threading
from concurrent.futures import CancelledError, Future
from typing import Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from turnfleet_kernel.calls import current_call
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.identity import current_run_identity

__all__ = ["ToolContext", "as_json"]


class ToolContext:
    """A parameter annotated `ToolContext` receives this; the model does not see it.

    `call_id` is unique in the run, and the same when the call is made again after a crash: pass it on as the
    idempotency key. `run_id` is empty when the tool is called outside a run. Made by the tool port, in the call's task.
    """

    def __init__(self, call_id: str, tool: str) -> None:
        identity = current_run_identity()
        self.run_id = identity.run_id if identity is not None else ""
        self.call_id = call_id
        self.tool = tool
        self._call = current_call()
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._cancelled = False
        self._telling: Future[None] | None = None

    @property
    def cancelled(self) -> bool:
        """Whether the run ended meanwhile: a plain function that works in steps can look, and stop early."""
        return self._cancelled

    async def progress(self, value: Any) -> None:
        """Show progress, from an async tool; returns when the consumer has taken what came before (EVT-3, EVT-8).

        Raises ValueError for a value that has no JSON form.
        """
        told = as_json(value, "the progress")
        if self._call is not None:
            await self._call.progress(told)

    def emit(self, value: Any) -> None:
        """Show progress, from a plain function's thread; returns as `progress` does.

        Raises ValueError for a value that has no JSON form, `concurrent.futures.CancelledError` when the run has ended,
        and RuntimeError on the event loop, which it would block.
        """
        if threading.get_ident() == self._loop_thread:
            raise RuntimeError("emit() is for plain functions; an async tool says: await context.progress(value)")
        told = as_json(value, "the progress")
        if self._call is None:
            return
        with self._lock:
            if self._cancelled:
                raise CancelledError
            telling = asyncio.run_coroutine_threadsafe(self._call.progress(told), self._loop)
            self._telling = telling
        telling.result()

    def cancel(self) -> None:
        """Tell a plain function that its run has ended; the tool port does."""
        with self._lock:
            self._cancelled = True
            telling = self._telling
        if telling is not None:
            # Nobody takes the progress any more: the thread would wait for ever.
            telling.cancel()


def as_json(value: Any, what: str) -> Any:
    """Give the JSON form of a tool's value. Raises ValueError that says where `what` has none, without the value."""
    try:
        return plain_json(to_jsonable_python(value), what)
    except (PydanticSerializationError, TypeError, UnicodeError, RecursionError):
        raise ValueError(f"{what} is a {type(value).__name__} that has no JSON form") from None
