"""What the producer's tests work with: one way to use both clients, and somebody who plays the worker."""

import asyncio
import base64
import inspect
import itertools
import json
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Iterator
from contextlib import aclosing, asynccontextmanager, closing
from itertools import islice
from typing import Any, TypeAlias, cast

import redis

from turnfleet import AsyncFleet, AsyncRun, Fleet, KernelEvent, PlanSpec, Run
from turnfleet.store import Keys, commands
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.records import Claim, ClaimLike, ClaimRef, Ending, StoredInterrupt

AnyFleet: TypeAlias = Fleet | AsyncFleet
AnyRun: TypeAlias = Run[Any] | AsyncRun[Any]

PLAN = PlanSpec(name="support", model="small")
REFUND = {"tool": "refund", "arguments": {"order_id": "1001", "amount": 80}, "digest": "d1"}
REFUND_SCHEMA = {
    "type": "object",
    "properties": {"order_id": {"type": "string"}, "amount": {"type": "number", "maximum": 100}},
    "required": ["order_id", "amount"],
    "additionalProperties": False,
}
APPROVAL = StoredInterrupt(id="approval:c1", kind="approval", payload=REFUND, schema=REFUND_SCHEMA, digest="d1")
QUESTION = StoredInterrupt(
    id="question:c2", kind="question", payload={"question": "Which colour?"}, schema={"enum": ["red", "blue"]}
)


async def do(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a method of either client; the sync one's in a thread, so that a test can do something meanwhile."""
    if inspect.iscoroutinefunction(call):
        return await call(*args, **kwargs)
    return await asyncio.to_thread(call, *args, **kwargs)


async def each(run: AnyRun, **how: Any) -> AsyncGenerator[KernelEvent, None]:
    """Follow a run's events with either client."""
    if isinstance(run, AsyncRun):
        async with aclosing(run.events(**how)) as events:
            async for event in events:
                yield event
        return
    with closing(run.events(**how)) as iterator:
        while heard := await asyncio.to_thread(list, islice(iterator, 1)):
            yield heard[0]


async def indexes(run: AnyRun, **how: Any) -> list[int]:
    """Give the indexes of all events that a reader gets."""
    async with aclosing(each(run, **how)) as events:
        return [event.index async for event in events]


class Stage:
    """One fleet's Redis, seen from behind: the worker's part is played here, command by command."""

    def __init__(self, url: str, fleet: str) -> None:
        self.url = url
        self.fleet = fleet
        self.keys = Keys(fleet)
        self.executor = SyncExecutor(url)
        self.redis = redis.Redis.from_url(url)
        self._claims = itertools.count(1)

    def close(self) -> None:
        """Close the connections."""
        self.executor.close()
        self.redis.close()

    # -- the worker's part

    def announce(self, **names: list[str]) -> None:
        """Announce a live worker that has these names (models, tools, stages, delegates)."""
        self.announce_as("worker-1", **names)

    def announce_as(self, worker: str, **names: list[str]) -> None:
        """Announce another live worker."""
        self.executor.execute(commands.announce(self.keys, worker, names, 60_000))

    def claim(self, run_id: str) -> Claim:
        """Take a run as a worker does."""
        claim = self.executor.execute(
            commands.claim(
                self.keys,
                run_id,
                claim_id=f"claim-{next(self._claims)}",
                worker="worker-1",
                lease_ms=60_000,
                recorded=True,
                digest=None,
            )
        )
        assert isinstance(claim, Claim), claim
        return claim

    def says(self, claim: ClaimLike, *texts: str) -> None:
        """Publish one batch of text events that goes on where the run's log stands."""
        self.emits(claim, *(("text_delta", {"text": text}) for text in texts))

    def emits(self, claim: ClaimLike, *made: tuple[str, dict[str, Any]]) -> None:
        """Publish one batch of events, each a kind and its payload as JSON."""
        status = self.executor.execute(commands.status(self.keys, claim.run_id))
        seq = self._seq(claim.run_id) + 1
        events = [
            event(claim.run_id, status.next_index + place, kind, **payload)
            for place, (kind, payload) in enumerate(made)
        ]
        self.executor.execute(commands.step(self.keys, claim, seq=seq, entries=[], events=events))

    def says_more(self, run_id: str) -> None:
        """Publish one more text event of a running run, whoever holds it."""
        claim_id = self.redis.hget(self.keys.record(run_id), "claim")
        self.says(ClaimRef(run_id, cast("bytes", claim_id).decode()), "more")

    def pauses(self, claim: Claim, *interrupts: StoredInterrupt) -> None:
        """Pause the run."""
        index = self.executor.execute(commands.status(self.keys, claim.run_id)).next_index
        shown = [{"id": each.id, "kind": each.kind, "payload": dict(each.payload)} for each in interrupts]
        pause = event(claim.run_id, index, interrupts[0].kind, interrupt=shown[0], interrupts=shown)
        self.executor.execute(
            commands.pause(
                self.keys, claim, seq=self._seq(claim.run_id) + 1, entries=[], events=[pause], interrupts=interrupts
            )
        )

    def completes(self, claim: Claim, text: str = "hello", output: Any = None) -> None:
        """Complete the run."""
        outcome = {"text": text, "output": output or text, "run_id": claim.run_id, "usage": {"input_tokens": 3}}
        self._ends(claim, "completed", "done", outcome=outcome)

    def fails(self, claim: Claim, error: str = "ValueError: no") -> None:
        """Fail the run."""
        self._ends(claim, "failed", "error", error=error)

    def _ends(self, claim: Claim, state: Any, kind: str, **payload: Any) -> None:
        index = self.executor.execute(commands.status(self.keys, claim.run_id)).next_index
        ending = Ending(
            state=state,
            event=event(claim.run_id, index, kind, **payload),
            outcome=payload.get("outcome"),
            error=payload.get("error"),
        )
        seq = self._seq(claim.run_id) + 1
        self.executor.execute(
            commands.finish(self.keys, claim, seq=seq, entries=[], events=[], ending=ending, ttl_ms=600_000)
        )

    def _seq(self, run_id: str) -> int:
        return int(self.redis.hget(self.keys.record(run_id), "seq") or 0)

    # -- what lies in Redis

    def messages(self, queue: str | None = None) -> list[dict[str, Any]]:
        """Give the broker's raw messages of a queue, oldest first, of every priority, 9 first."""
        name = queue or f"turnfleet.{self.fleet}"
        lists = [name, *(f"{name}\x06\x16{level}" for level in range(1, 10))]
        return [
            json.loads(raw) for each in lists for raw in reversed(cast("list[bytes]", self.redis.lrange(each, 0, -1)))
        ]

    def published(self, queue: str | None = None) -> list[str]:
        """Give the Celery task ids on the broker."""
        return [message["headers"]["id"] for message in self.messages(queue)]

    def line(self, thread_id: str) -> list[str]:
        """Give the runs of a thread, in the order of their turns."""
        return [each.decode() for each in cast("list[bytes]", self.redis.zrange(self.keys.thread(thread_id), 0, -1))]

    def subscribers(self, run_id: str) -> int:
        """Count the subscriptions to a run's events."""
        ((_, count),) = self.redis.pubsub_numsub(self.keys.events(run_id))
        return int(count)

    def listening_connections(self) -> int:
        """Count the connections that are there for a subscription."""
        return len(self.redis.client_list(_type="pubsub"))

    def dump(self, run_id: str) -> dict[str, Any]:
        """Give everything that is stored about a run, to see that a refusal changed nothing."""
        keys = self.keys
        return {
            "record": self.redis.hgetall(keys.record(run_id)),
            "journal": self.redis.lrange(keys.journal(run_id), 0, -1),
            "events": self.redis.xrange(keys.events(run_id)),
            "interrupts": self.redis.hgetall(keys.interrupts(run_id)),
            "messages": self.messages(),
        }


def event(run_id: str, index: int, kind: str, **payload: Any) -> dict[str, Any]:
    """Make an event as a worker writes it."""
    return {"run_id": run_id, "index": index, "kind": kind, "time": 1_764_000_000.5, **payload}


def body(message: dict[str, Any]) -> Any:
    """Give the decoded body of a raw broker message: [args, kwargs, embed]."""
    return json.loads(base64.b64decode(message["body"]))


@asynccontextmanager
async def client_of(kind: str, url: str, fleet: str) -> AsyncIterator[AnyFleet]:
    """Open a client, "sync" or "async", and close it after the test."""
    if kind == "sync":
        with Fleet(url, name=fleet) as client:
            yield client
    else:
        async with AsyncFleet(url, name=fleet) as other:
            yield other


def stage_of(url: str, fleet: str) -> Iterator[Stage]:
    """Open a stage, and close it after the test."""
    stage = Stage(url, fleet)
    yield stage
    stage.close()
