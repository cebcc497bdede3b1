"""One model turn, asked for whole or piece by piece: the loop sees the same either way (IPL-2)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence

from turnfleet_kernel.context import RequestContext
from turnfleet_kernel.contracts.values import Delta, ModelTurn
from turnfleet_kernel.errors import ContractViolationError
from turnfleet_kernel.ports import ModelPort, ModelRound, Transcript

__all__ = ["ModelExchange"]

_DOING = "calling the model"
_KINDS = frozenset({"text", "reasoning", "tool_call"})


class ModelExchange:
    """Asks for a turn: ``next()`` until it is ``over``, then ``turn()``; ``close()`` if it is left open."""

    __slots__ = ("_ctx", "_deltas", "_model", "_round", "_stream", "_transcript", "_turn", "over")

    def __init__(self, ctx: RequestContext, model: ModelPort, transcript: Transcript, *, stream: bool) -> None:
        """Prepare; the model is asked with the first next()."""
        self._ctx = ctx
        self._model = model
        self._transcript = transcript
        self._stream = stream
        self._round: ModelRound | None = None
        self._deltas: AsyncIterator[Delta] | None = None
        self._turn: ModelTurn | None = None
        self.over = False
        """Whether all there is to show was given."""

    async def next(self) -> Sequence[Delta]:
        """Give the next pieces to show: one of a stream, or all that a whole turn shows."""
        if not self._stream:
            self.over = True
            self._turn = await self._ctx.lifecycle.bounded(self._model.invoke(self._transcript), doing=_DOING)
            return _shown(self.turn())
        delta = await self._ctx.lifecycle.bounded(self._following(), doing=_DOING)
        if delta is None:
            self.over = True
            return ()
        if delta.kind not in _KINDS:
            raise ContractViolationError(f"run {self._ctx.run_id}: the model port gave a delta of kind {delta.kind!r}")
        return (delta,)

    async def _following(self) -> Delta | None:
        if self._deltas is None:
            self._round = self._model.stream(self._transcript)
            self._deltas = aiter(self._round.deltas())
        async for delta in self._deltas:
            return delta
        return None

    def turn(self) -> ModelTurn:
        """Give the finished turn.

        Raises:
            ContractViolationError: the port gave something else.
        """
        if self._turn is None and self._round is not None:
            self._turn = self._round.result()
        if not isinstance(self._turn, ModelTurn):
            raise ContractViolationError(f"run {self._ctx.run_id}: the model port gave no ModelTurn")
        return self._turn

    @property
    def open(self) -> bool:
        """Tell whether there is a stream to close: a generator that has come to its end is closed."""
        return self._deltas is not None and getattr(self._deltas, "ag_frame", self) is not None

    async def close(self) -> None:
        """Close the stream of deltas, wherever it stands."""
        deltas, self._deltas = self._deltas, None
        close = getattr(deltas, "aclose", None)
        if close is None:
            return
        if self._turn is not None:
            await self._ctx.lifecycle.bounded(close(), doing="closing the model's stream")
        else:
            await self._ctx.lifecycle.close_quietly("model stream", close)


def _shown(turn: ModelTurn) -> Sequence[Delta]:
    """Give what a consumer is shown of a turn that came whole (CONTRACT 5): by default its text."""
    if turn.shown is not None:
        return turn.shown
    return (Delta("text", turn.text),) if turn.text else ()
