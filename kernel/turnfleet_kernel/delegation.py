"""Runs that start runs: how deep, who handed to whom, and the slot that each delegated run holds (DEL-2 to DEL-5)."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from contextvars import ContextVar
from inspect import isawaitable
from typing import Any, Final, SupportsIndex, SupportsInt

from turnfleet_kernel.contracts.values import RunIdentity
from turnfleet_kernel.identity import current_run_identity
from turnfleet_kernel.ports import SnapshotsPort

__all__ = ["ActiveRun", "DelegationContext"]


class ActiveRun:
    """A run whose scope is, or was, open; readable after it closed."""

    __slots__ = ("_handed_to", "depth", "parent_run_id", "root_run_id", "run_id")

    def __init__(self, depth: int, identity: RunIdentity | None) -> None:
        """Describe a run; without an identity it has no ids."""
        self.depth = depth
        self.run_id = None if identity is None else identity.run_id
        self.root_run_id = None if identity is None else identity.root_run_id or identity.run_id
        self.parent_run_id = None if identity is None else identity.parent_run_id
        self._handed_to: list[str] = []

    @property
    def delegated(self) -> bool:
        """Whether this run has handed anything over."""
        return bool(self._handed_to)

    @property
    def delegated_to(self) -> tuple[str, ...]:
        """Whom this run has handed to, in order, repeats kept."""
        return tuple(self._handed_to)

    def record(self, name: str) -> None:
        """Note a completed hand-off."""
        self._handed_to.append(name)


_ACTIVE: Final[ContextVar[ActiveRun | None]] = ContextVar("turnfleet_active_run", default=None)


class DelegationContext:
    """What code in a run can ask about delegation.

    ``snapshots`` gives a slot to every delegated run; ``resolve_scope`` says what the current scope is, asked at the
    moment of use.
    """

    __slots__ = ("_resolve_scope", "_snapshots")

    def __init__(
        self, *, snapshots: SnapshotsPort | None = None, resolve_scope: Callable[[], Any] | None = None
    ) -> None:
        """Serve any number of runs; holds none."""
        self._snapshots = snapshots
        self._resolve_scope = resolve_scope

    @asynccontextmanager
    async def run_scope(self, *, depth: Any = 0, identity: RunIdentity | None = None) -> AsyncIterator[ActiveRun]:
        """Open a run's scope; open it around the run's whole consumption, in one task (DEL-3).

        ``depth`` is coerced to a whole number of at least 0; ``identity=None`` means the ambient run identity. A
        delegated run (depth above 0) holds one snapshot slot until the scope closes, on every path.
        """
        run = ActiveRun(_whole(depth), current_run_identity() if identity is None else identity)
        snapshots = self._snapshots if run.depth > 0 else None
        slot = None if snapshots is None else await _maybe(snapshots.open())
        try:
            token = _ACTIVE.set(run)
            try:
                yield run
            finally:
                _ACTIVE.reset(token)
        finally:
            if snapshots is not None:
                await _maybe(snapshots.close(slot))

    def current_run(self) -> ActiveRun | None:
        """Give the run in whose scope this code runs, None outside any."""
        return _ACTIVE.get()

    def current_depth(self) -> int:
        """Tell how deep this code runs; 0 outside any run (DEL-4)."""
        run = _ACTIVE.get()
        return 0 if run is None else run.depth

    def current_scope(self) -> Any:
        """Ask for the current scope now; None if nobody resolves scopes (DEL-4)."""
        return None if self._resolve_scope is None else self._resolve_scope()

    def delegated_to(self) -> tuple[str, ...]:
        """Tell whom the current run has handed to; nobody outside any run."""
        run = _ACTIVE.get()
        return () if run is None else run.delegated_to

    def record_delegation(self, name: str) -> None:
        """Note a completed hand-off of the current run; outside any run nothing is noted (DEL-4)."""
        run = _ACTIVE.get()
        if run is not None:
            run.record(name)


def _whole(depth: Any) -> int:
    if not isinstance(depth, str | bytes | SupportsInt | SupportsIndex):
        return 0
    try:
        return max(0, int(depth))
    except (TypeError, ValueError, OverflowError):
        return 0


async def _maybe(value: Any) -> Any:
    return await value if isawaitable(value) else value
