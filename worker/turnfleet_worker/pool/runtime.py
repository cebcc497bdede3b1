"""The middle of a worker process: slots, the jobs in them, and the way out.

Everything here happens in the consumer's thread, except the host's coroutines, which run on the loop's, and what is
marked otherwise. Nothing here depends on which pool Celery was started with.
"""

import itertools
import logging
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from functools import partial
from typing import Any, Final

from celery import signals
from celery.worker import state as worker_state

from turnfleet.wire.trace_context import carrier_of
from turnfleet_worker.pool.ending import announce_end, announce_start
from turnfleet_worker.pool.jobs import Job, Outcome
from turnfleet_worker.pool.loop import LoopThread
from turnfleet_worker.pool.mailbox import Mailbox
from turnfleet_worker.pool.ports import Delivery, Host, SendEvent
from turnfleet_worker.pool.request import InvokeRequest

__all__ = ["Runtime"]

_log = logging.getLogger(__name__)

# Beyond the drain: what the host may take to hand back, and the same when the process was told to go now.
STOP_GRACE_SECONDS: Final = 5.0
HURRY_GRACE_SECONDS: Final = 1.0
# How long a cancelled coroutine may take to go, and how often a wait looks around.
CANCEL_GRACE_SECONDS: Final = 1.0
GLANCE_SECONDS: Final = 0.2


class Runtime:
    """Runs at most `limit` messages at once through one host, from `start()` to `stop()`."""

    def __init__(self, host: Host, *, hostname: str, limit: int, drain_seconds: float, blocking: bool) -> None:
        self.limit = limit
        self.mailbox = Mailbox()
        self.refused: Counter[str] = Counter()
        self.plain_running = 0
        self.flush: Callable[[], object] = lambda: None
        self.send_event: SendEvent = lambda _kind, _fields: None
        self._host = host
        self._hostname = hostname
        self._drain_seconds = drain_seconds
        self._blocking = blocking
        self._loop = LoopThread("turnfleet-loop")
        self._numbers = itertools.count(1)
        self._waiting: deque[Job] = deque()
        self._running: dict[int, Job] = {}
        self._by_task: dict[str, list[Job]] = {}
        self._drain_ends: float | None = None
        self._stop_signals = 0
        self._hurry = False
        self._stopping = False
        host.see_pool(self.info, self._post_event)

    # Life

    def start(self) -> None:
        """Start the loop, then the host on it; what the host raises is raised here, and nothing is left running."""
        signals.worker_shutting_down.connect(self._on_stop_signal, sender=self._hostname, weak=False)
        self._loop.start()
        started = self._loop.submit(self._host.start())
        try:
            while not self._settled(started, GLANCE_SECONDS):
                worker_state.maybe_shutdown()
            started.result()
        except BaseException:
            self._close()
            raise

    def begin_drain(self) -> None:
        """Start nothing more, and tell the host; what runs may go on until the drain's end."""
        if self._drain_ends is None:
            self._drain_ends = time.monotonic() + self._drain_seconds
            self._host.drain()

    def stop(self, *, now: bool = False) -> None:
        """Wait for what runs until the drain's end (not at all with `now`), stop the host, then the loop.

        Always comes back: every wait in it is bounded. Asked again while it waits (a second signal's handler
        interrupts it here), it hurries.
        """
        self._hurry = self._hurry or now or self._stopping
        if self._stopping:
            return
        self._stopping = True
        self.begin_drain()
        self._pump(self._busy)
        self._stop_host()
        self._let_go()
        self._close()

    def info(self) -> dict[str, Any]:
        """Return what `inspect stats` shows; plain JSON."""
        return {
            "node": self._hostname,
            **self._host.info(),
            "in-flight": len(self._running),
            "waiting": len(self._waiting),
            "limit": self.limit,
            "plain-tasks": self.plain_running,
            "loop-lag-seconds": round(self._loop.lag_seconds, 4),
            "worst-loop-lag-seconds": round(self._loop.worst_lag_seconds, 4),
            "draining": self._drain_ends is not None,
            "refused": dict(self.refused),
        }

    def _post_event(self, kind: str, fields: Mapping[str, object]) -> None:
        """In any thread."""
        self.mailbox.post(lambda: self.send_event(kind, fields))

    # Messages

    def take(self, request: InvokeRequest) -> None:
        """Take a received message: started when a slot is free, acknowledged when the host accepts it."""
        job = Job(next(self._numbers), request, self._delivery(request))
        job.delivery.on_accept(partial(self.mailbox.post, partial(self._accepted, job)))
        self._waiting.append(job)
        self._by_task.setdefault(request.id, []).append(job)
        self.fill()
        if job in self._waiting:
            request.announce_received()
        if self._blocking:
            self._pump(self._busy)
            if self._busy():
                self.stop()

    def fill(self) -> None:
        """Start waiting messages while there are slots; none while draining: they go back with the connection."""
        while self._waiting and self._drain_ends is None and len(self._running) < self.limit:
            self._begin(self._waiting.popleft())

    def terminate(self, task_id: str) -> None:
        """Somebody wants this task to end: cancel its coroutine, or let the host hear of it before it starts."""
        for job in self._by_task.get(task_id, ()):
            job.delivery.cancel()
            if job in self._waiting:
                # Over the limit, if need be: to record a cancellation is short, and the slots may be taken for hours.
                self._waiting.remove(job)
                self._begin(job)
            else:
                job.terminated = True
                self._loop.call(job.cancel)

    def revoke(self, task_ids: Sequence[str]) -> None:
        """Let the host hear of revoked ids: a run may be at work, wait, or have another id by now.

        Also of those that are at work here: one that is about to leave its run waiting is not reached by an end of its
        own any more, and Celery's plain revoke does not touch what has started.
        """
        for task_id in task_ids:
            self._loop.submit(self._host.revoke(task_id)).add_done_callback(_log_failure)

    def abandon(self, task_id: str) -> None:
        """Let go of a task because the process ends at once."""
        for job in self._by_task.get(task_id, ()):
            job.abandoned = True
            self._loop.call(job.cancel)

    def _delivery(self, request: InvokeRequest) -> Delivery:
        return Delivery(
            task_id=request.id,
            root_id=request.root_id or request.id,
            redelivered=bool(request.delivery_info.get("redelivered")),
            hostname=request.hostname,
            carrier=carrier_of(request.message.headers),
        )

    def _begin(self, job: Job) -> None:
        self._running[job.number] = job
        if job.request.id in worker_state.revoked:
            job.delivery.cancel()
        announce_start(job)
        self._loop.call(job.start, self._host, self._report, self._soft_limit)

    def _accepted(self, job: Job) -> None:
        if not job.over:
            job.request.announce_received()
            job.request.on_accepted(str(job.number), time.monotonic())

    def _report(self, job: Job, outcome: Outcome) -> None:
        """On the loop."""
        self.mailbox.post(partial(self._end, job, outcome))

    def _soft_limit(self, job: Job, limit: float) -> None:
        """On the loop."""
        soft = True
        self.mailbox.post(partial(job.request.on_timeout, soft, limit))

    def _end(self, job: Job, outcome: Outcome) -> None:
        if job.over:
            return  # out of time a while ago; now its coroutine is gone, too
        job.over = True
        del self._running[job.number]
        others = self._by_task[job.request.id]
        others.remove(job)
        if not others:
            del self._by_task[job.request.id]
        try:
            announce_end(job, outcome)
        finally:
            # Celery forgets the id with the first of several messages that carry it; a terminate must still find it.
            for other in others:
                worker_state.requests[job.request.id] = other.request
            self.fill()

    # The way out

    def _on_stop_signal(self, **_: object) -> None:
        """In a signal handler, anywhere in the consumer's thread: takes no lock, and leaves the rest to the mailbox."""
        self._stop_signals += 1
        if self._stop_signals > 1:
            self._hurry = True
        # By way of the loop, so that a sleeping hub is woken: it takes a call from its own thread for no news.
        self._loop.call(self.mailbox.post, self.begin_drain)

    def _busy(self) -> bool:
        return bool(self._running or self.plain_running)

    def _pump(self, wanted: Callable[[], bool]) -> None:
        """Perform what is posted, while `wanted` and until the drain ends; acknowledgements and events leave so."""
        while wanted() and not self._hurry:
            left = GLANCE_SECONDS if self._drain_ends is None else self._drain_ends - time.monotonic()
            if left <= 0:
                return
            if self.mailbox.wait(min(left, GLANCE_SECONDS)):
                self.flush()

    def _settled(self, future: "Future[Any]", seconds: float) -> bool:
        future.add_done_callback(lambda _: self.mailbox.post(lambda: None))
        ends = time.monotonic() + seconds
        while not future.done() and (left := ends - time.monotonic()) > 0:
            self.mailbox.wait(left)
        return future.done()

    def _stop_host(self) -> None:
        assert self._drain_ends is not None
        left = 0.0 if self._hurry else max(0.0, self._drain_ends - time.monotonic())
        stopped = self._loop.submit(self._host.stop(drain_seconds=left))
        grace = HURRY_GRACE_SECONDS if self._hurry else STOP_GRACE_SECONDS
        if not self._settled(stopped, left + grace):
            _log.error("the host did not stop within %.1f s; its runs are taken up when their leases end", left + grace)
        elif (error := stopped.exception()) is not None:
            _log.error("the host's stop failed; its runs are taken up when their leases end", exc_info=error)

    def _close(self) -> None:
        self._loop.halt(CANCEL_GRACE_SECONDS)
        self.mailbox.run_pending()
        signals.worker_shutting_down.disconnect(self._on_stop_signal, sender=self._hostname)

    def _let_go(self) -> None:
        for job in self._running.values():
            job.abandoned = True
            self._loop.call(job.cancel)
        ends = time.monotonic() + CANCEL_GRACE_SECONDS
        while self._running and (left := ends - time.monotonic()) > 0:
            self.mailbox.wait(left)
        self.flush()


def _log_failure(done: "Future[None]") -> None:
    if not done.cancelled() and (error := done.exception()) is not None:
        _log.error("a revoke was not recorded", exc_info=error)
