"""The async client: the same flows as the sync one, performed with await."""

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from turnfleet.client import deciding, enqueueing, handling, spans
from turnfleet.client.async_line import AsyncLine
from turnfleet.client.follow import Until, follow_events, follow_to_end
from turnfleet.client.order import EnqueueOptions, Item, PlanLike, RequestLike, read_item, read_order
from turnfleet.client.setup import Setup
from turnfleet.interrupt import RunInterrupt
from turnfleet.status import Page, RunStatus
from turnfleet.store import Keys, validate_id
from turnfleet.store.place import check_address
from turnfleet.store.transitions import RunState
from turnfleet.wire import SigningKeys, SizeLimits
from turnfleet_kernel.contracts.events import KernelEvent
from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.contracts.values import InvocationOutcome

T = TypeVar("T")


class AsyncFleet:
    """A fleet as another service sees it, with `await`: `Fleet` says what each method does.

    Connects on first use, belongs to the event loop that first uses it (`WrongEventLoop` elsewhere), and survives a
    fork (the child opens its own connections, on its own loop).
    """

    def __init__(
        self,
        url: str,
        *,
        name: str = "default",
        broker_url: str | None = None,
        shards: int = 16,
        timeout: float = 5.0,
        poll_interval: float = 2.0,
        reconnect_timeout: float = 60.0,
        limits: SizeLimits | None = None,
        retention_seconds: float = 86_400.0,
        signing: SigningKeys | None = None,
        key_prefix: str = "",
    ) -> None:
        check_address(url)
        keys = Keys(name, shards, key_prefix=key_prefix)
        self._setup = Setup(
            keys, limits or SizeLimits(), poll_interval, reconnect_timeout, round(retention_seconds * 1000), signing
        )
        self._line = AsyncLine(url, broker_url or url, keys, timeout)

    def __repr__(self) -> str:
        return f"<AsyncFleet {self._line!r}>"

    @property
    def name(self) -> str:
        """The fleet's name."""
        return self._setup.fleet

    @overload
    async def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: type[T], **options: Unpack[EnqueueOptions]
    ) -> "AsyncRun[T]": ...
    @overload
    async def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: None = None, **options: Unpack[EnqueueOptions]
    ) -> "AsyncRun[Any]": ...
    async def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: Any = None, **options: Unpack[EnqueueOptions]
    ) -> "AsyncRun[Any]":
        """Record a run and publish its message; give its handle (see `Fleet.enqueue`)."""
        order = read_order(plan, request, output=output, **options)
        with spans.enqueueing(self._setup, order):
            await self._line.perform(enqueueing.enqueue(self._setup, order))
        return self._handle(order.run_id, output)

    async def enqueue_many(self, items: Iterable[Item]) -> "list[AsyncRun[Any]]":
        """Enqueue many runs in few round trips (see `Fleet.enqueue_many`)."""
        orders = [read_item(item) for item in items]
        with spans.enqueueing_many(self._setup, orders):
            await self._line.perform(enqueueing.enqueue_many(self._setup, orders))
        return [self._handle(order.run_id, order.output) for order in orders]

    @overload
    def run(self, run_id: str, *, output: type[T]) -> "AsyncRun[T]": ...
    @overload
    def run(self, run_id: str, *, output: None = None) -> "AsyncRun[Any]": ...
    def run(self, run_id: str, *, output: Any = None) -> "AsyncRun[Any]":
        """Give the handle of a run without asking the server; `UnknownRun` comes with its first use."""
        return self._handle(validate_id("run id", run_id), output)

    async def runs(
        self, *, state: RunState | None = None, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[RunStatus]:
        """Give a page of runs, newest first; `cursor` is that of the page before."""
        flow = handling.runs(self._setup, state=state, tenant=tenant, limit=limit, cursor=cursor)
        return await self._line.perform(flow)

    async def interrupts(
        self, *, role: str | None = None, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[RunInterrupt]:
        """Give what waits for people in a page of `limit` runs, latest first; `role`: only what it may decide."""
        flow = handling.inbox(self._setup, role=role, tenant=tenant, limit=limit, cursor=cursor)
        return await self._line.perform(flow)

    async def workers(self) -> tuple[dict[str, Any], ...]:
        """Give what the live workers announce: models, tools, load, version."""
        return await self._line.perform(handling.workers(self._setup))

    def _handle(self, run_id: str, output: Any) -> "AsyncRun[Any]":
        return AsyncRun(self._line, self._setup, run_id, output)

    async def aclose(self) -> None:
        """Close the connections. A later call opens new ones."""
        await self._line.aclose()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()


class AsyncRun(Generic[T]):
    """The handle of one run. It holds nothing but the run's id: any process can make one with `fleet.run(run_id)`."""

    def __init__(self, line: AsyncLine, setup: Setup, run_id: str, output: Any) -> None:
        self.run_id = run_id
        self._line = line
        self._setup = setup
        self._output = output

    def __repr__(self) -> str:
        return f"<AsyncRun {self.run_id} of fleet {self._setup.fleet}>"

    def events(
        self, *, after: int = -1, until: Until = "terminal", timeout: float | None = None
    ) -> AsyncGenerator[KernelEvent, None]:
        """Iterate (`async for`) over the run's events with an index above `after`, in order (see `Run.events`).

        Leaving the loop early drops the subscription when the iterator is closed: `contextlib.aclosing` does it at
        once, else Python does it soon after.
        """
        following = follow_events(self._setup, self.run_id, after=after, until=until, timeout=timeout)
        return self._line.follow(self._setup.keys.events(self.run_id), following)

    async def result(self, timeout: float | None = None) -> InvocationOutcome[T]:
        """Wait until the run ended or paused; give its outcome (see `Run.result`)."""
        following = follow_to_end(self._setup, self.run_id, timeout=timeout)
        async with aclosing(self._line.follow(self._setup.keys.events(self.run_id), following)) as snapshots:
            return handling.read_result(await anext(snapshots), self._output)

    async def status(self) -> RunStatus:
        """Give what the run is now. Raises `UnknownRun`."""
        return await self._line.perform(handling.status(self._setup, self.run_id))

    async def interrupts(self) -> tuple[RunInterrupt, ...]:
        """Give the open interrupts: what the run waits for people to decide. Raises `UnknownRun`."""
        return (await self.status()).interrupts

    async def resume(
        self,
        decisions: Mapping[str, Decision],
        *,
        by: str = "anonymous",
        roles: Sequence[str] = (),
        decision_id: str | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> str:
        """Decide interrupts, by their ids, all or none; give the run's state (see `Run.resume`)."""
        flow = deciding.resume(
            self._setup, self.run_id, decisions, by=by, roles=roles, decision_id=decision_id, shown=shown or {}
        )
        with spans.changing(self._setup, self.run_id, "resume"):
            return await self._line.perform(flow)

    async def cancel(self, reason: str = "") -> bool:
        """Ask for the run's end: True when the wish came before any outcome. Raises `UnknownRun`."""
        with spans.changing(self._setup, self.run_id, "cancel"):
            return await self._line.perform(handling.cancel(self._setup, self.run_id, reason))

    async def retry(self) -> None:
        """Let a failed run go on from its journal. Raises `UnknownRun`, `IllegalTransition` when it has not failed."""
        with spans.changing(self._setup, self.run_id, "retry"):
            await self._line.perform(handling.retry(self._setup, self.run_id))

    async def delete(self) -> bool:
        """Forget a run that ended, now; False if there was none. Raises `IllegalTransition` while it goes on."""
        return await self._line.perform(handling.delete(self._setup, self.run_id))
