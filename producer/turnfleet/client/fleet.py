"""The sync client. Everything it decides is in the flows; here they are performed, in the caller's thread."""

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import closing
from types import TracebackType
from typing import Any, Generic, Self, TypeVar, Unpack, overload

from turnfleet.client import deciding, enqueueing, handling, spans
from turnfleet.client.follow import Until, follow_events, follow_to_end
from turnfleet.client.line import Line
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


class Fleet:
    """A fleet as another service sees it: enqueue runs, and look after them.

    `url` is the Redis that holds the runs; `broker_url` the Celery broker, by default the same. `name` and `shards`
    must be the workers'. `timeout` (seconds) bounds every wait for Redis and the broker, `poll_interval` (seconds)
    is how often a reader of events looks at the log when it hears nothing, `retention_seconds` how long a run that
    ends by a cancel from here is kept. `reconnect_timeout` (seconds) is how long `result` and `events` without a
    time limit of their own wait for a Redis that went away, each time anew. `signing` signs runs and decisions
    (docs/security.md); every key and channel of the fleet begins with `key_prefix`, which must be the workers', too.

    Connects on first use, may be shared between threads, and survives a fork (the child opens its own connections).
    Raises `InvalidId` for a name that cannot be one, and `InvalidAddress` for a URL that names no Redis. Every method
    may raise `FleetUnavailable`.
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
        self._line = Line(url, broker_url or url, keys, timeout)

    def __repr__(self) -> str:
        return f"<Fleet {self._line!r}>"

    @property
    def name(self) -> str:
        """The fleet's name."""
        return self._setup.fleet

    @overload
    def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: type[T], **options: Unpack[EnqueueOptions]
    ) -> "Run[T]": ...
    @overload
    def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: None = None, **options: Unpack[EnqueueOptions]
    ) -> "Run[Any]": ...
    def enqueue(
        self, plan: PlanLike, request: RequestLike, *, output: Any = None, **options: Unpack[EnqueueOptions]
    ) -> "Run[Any]":
        """Record a run and publish its message; give its handle. The options are those of `EnqueueOptions`.

        `request` is a prompt or a `TurnRequest`. `output` is a type that pydantic can validate: the plan then asks
        for its JSON Schema, unless it asks for another, and `result().output` is one.
        Enqueueing the same request under the same `run_id` again gives the same run.
        Raises `PlanRejected`, `RunIdConflict`, `ThreadBusy`, `PayloadTooLarge`, `InvalidEnvelope`, `InvalidId`.
        """
        order = read_order(plan, request, output=output, **options)
        with spans.enqueueing(self._setup, order):
            self._line.perform(enqueueing.enqueue(self._setup, order))
        return self._handle(order.run_id, output)

    def enqueue_many(self, items: Iterable[Item]) -> "list[Run[Any]]":
        """Enqueue many runs in few round trips: pairs (plan, request), or mappings of `enqueue`'s arguments.

        An item that is wrong in itself is refused before any is recorded. A `RunIdConflict` is raised after all
        others were enqueued.
        """
        orders = [read_item(item) for item in items]
        with spans.enqueueing_many(self._setup, orders):
            self._line.perform(enqueueing.enqueue_many(self._setup, orders))
        return [self._handle(order.run_id, order.output) for order in orders]

    @overload
    def run(self, run_id: str, *, output: type[T]) -> "Run[T]": ...
    @overload
    def run(self, run_id: str, *, output: None = None) -> "Run[Any]": ...
    def run(self, run_id: str, *, output: Any = None) -> "Run[Any]":
        """Give the handle of a run without asking the server; `UnknownRun` comes with its first use."""
        return self._handle(validate_id("run id", run_id), output)

    def runs(
        self, *, state: RunState | None = None, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[RunStatus]:
        """Give a page of runs, newest first; `cursor` is that of the page before."""
        flow = handling.runs(self._setup, state=state, tenant=tenant, limit=limit, cursor=cursor)
        return self._line.perform(flow)

    def interrupts(
        self, *, role: str | None = None, tenant: str | None = None, limit: int = 50, cursor: str | None = None
    ) -> Page[RunInterrupt]:
        """Give what waits for people in a page of `limit` runs, latest first; `role`: only what it may decide."""
        flow = handling.inbox(self._setup, role=role, tenant=tenant, limit=limit, cursor=cursor)
        return self._line.perform(flow)

    def workers(self) -> tuple[dict[str, Any], ...]:
        """Give what the live workers announce: models, tools, load, version."""
        return self._line.perform(handling.workers(self._setup))

    def _handle(self, run_id: str, output: Any) -> "Run[Any]":
        return Run(self._line, self._setup, run_id, output)

    def close(self) -> None:
        """Close the connections. A later call opens new ones."""
        self._line.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Run(Generic[T]):
    """The handle of one run. It holds nothing but the run's id: any process can make one with `fleet.run(run_id)`."""

    def __init__(self, line: Line, setup: Setup, run_id: str, output: Any) -> None:
        self.run_id = run_id
        self._line = line
        self._setup = setup
        self._output = output

    def __repr__(self) -> str:
        return f"<Run {self.run_id} of fleet {self._setup.fleet}>"

    def events(
        self, *, after: int = -1, until: Until = "terminal", timeout: float | None = None
    ) -> Generator[KernelEvent, None, None]:
        """Iterate over the run's events with an index above `after`, each once, in order, live.

        Ends with the run's end, with `until="pause"` also when it pauses. `timeout`: seconds without an event, then
        TimeoutError. Goes on by itself after an outage of Redis; `FleetUnavailable` when that lasts past `timeout`, or
        without one past the client's `reconnect_timeout`. Come back later with `after=` the last index you had. Raises
        `UnknownRun`, and `EventsTrimmed` when the next event has left the run's bounded log, `EventsLost` when the log
        is shorter than what was read before.
        """
        following = follow_events(self._setup, self.run_id, after=after, until=until, timeout=timeout)
        return self._line.follow(self._setup.keys.events(self.run_id), following)

    def result(self, timeout: float | None = None) -> InvocationOutcome[T]:
        """Wait until the run ended or paused; give its outcome.

        Raises `RunPaused` (with the open interrupts), `RunFailed`, `RunCancelled`, `RunExpired`, `UnknownRun`, and
        TimeoutError after `timeout` seconds. An outage of Redis is waited through; `FleetUnavailable` when there is
        no answer at the end of `timeout`, or without one after the client's `reconnect_timeout`.
        """
        following = follow_to_end(self._setup, self.run_id, timeout=timeout)
        with closing(self._line.follow(self._setup.keys.events(self.run_id), following)) as snapshots:
            return handling.read_result(next(snapshots), self._output)

    def status(self) -> RunStatus:
        """Give what the run is now. Raises `UnknownRun`."""
        return self._line.perform(handling.status(self._setup, self.run_id))

    def interrupts(self) -> tuple[RunInterrupt, ...]:
        """Give the open interrupts: what the run waits for people to decide. Raises `UnknownRun`."""
        return self.status().interrupts

    def resume(
        self,
        decisions: Mapping[str, Decision],
        *,
        by: str = "anonymous",
        roles: Sequence[str] = (),
        decision_id: str | None = None,
        shown: Mapping[str, str] | None = None,
    ) -> str:
        """Decide interrupts, by their ids, all or none; give the run's state. It goes on when none is open.

        `by` and `roles` say who decides. `shown` binds a decision to what that person saw: digests by interrupt id,
        as `interrupts()` gave them. Deciding the same again succeeds (`decision_id` names the decision, too).
        Raises `ResumeConflict`, `NotAllowed`, `InvalidDecision`, `UnknownInterrupt`, `IllegalTransition`, `UnknownRun`.
        """
        flow = deciding.resume(
            self._setup, self.run_id, decisions, by=by, roles=roles, decision_id=decision_id, shown=shown or {}
        )
        with spans.changing(self._setup, self.run_id, "resume"):
            return self._line.perform(flow)

    def cancel(self, reason: str = "") -> bool:
        """Ask for the run's end: True when the wish came before any outcome. Raises `UnknownRun`."""
        with spans.changing(self._setup, self.run_id, "cancel"):
            return self._line.perform(handling.cancel(self._setup, self.run_id, reason))

    def retry(self) -> None:
        """Let a failed run go on from its journal. Raises `UnknownRun`, `IllegalTransition` when it has not failed."""
        with spans.changing(self._setup, self.run_id, "retry"):
            self._line.perform(handling.retry(self._setup, self.run_id))

    def delete(self) -> bool:
        """Forget a run that ended, now; False if there was none. Raises `IllegalTransition` while it goes on."""
        return self._line.perform(handling.delete(self._setup, self.run_id))
