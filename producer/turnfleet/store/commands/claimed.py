"""What the holder of a claim does: take a run, write to it, and leave it. Every write names its claim (the fence)."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

from turnfleet.store.command import (
    Argument,
    Command,
    Reply,
    args,
    dump,
    header,
    load_json,
    object_list,
    on_run,
    pairs,
    read_offer,
    tag,
    text,
    whole,
)
from turnfleet.store.keys import Keys, validate_id
from turnfleet.store.newrun import new_run_arguments
from turnfleet.store.people import interrupt_arguments
from turnfleet.store.records import (
    Beat,
    Claim,
    ClaimLike,
    ClaimRef,
    Ended,
    Ending,
    NewRun,
    NotClaimed,
    Offer,
    Previous,
    StepAck,
    StoredInterrupt,
)
from turnfleet.store.transitions import DECISIONS

RETENTION_MS = 86_400_000
"""How long an ended run is kept unless the caller says otherwise: a day."""

SUSPECT_LOSSES = 2
"""After so many losses without progress a run may be what kills its workers: it is tried apart from others."""


def claim(
    keys: Keys,
    run_id: str,
    *,
    claim_id: str,
    worker: str,
    lease_ms: int,
    task_id: str | None = None,
    recorded: bool,
    digest: str | None = None,
    create: NewRun | None = None,
    alone: bool = True,
) -> Command[Claim | NotClaimed]:
    """Take a queued, due run under a lease.

    `recorded`: our producer wrote the record before the message, so that a missing record means "do not run".
    Otherwise `create` makes it, once. `digest` is the message's; another one than the record's is refused. `task_id` is
    its Celery task's, kept for whoever has to say that this worker was lost.
    `alone`: the worker runs nothing else; one that does is refused a run which lost `SUSPECT_LOSSES` workers in a row.
    Repeating the command with the same `claim_id` gives the same claim again.
    """
    validate_id("run id", run_id)
    suspect_from = 0 if alone else SUSPECT_LOSSES
    arguments = args(claim_id, worker, lease_ms, task_id, recorded, digest, create is not None, suspect_from)
    if create is not None:
        arguments += new_run_arguments(create)

    def decode(reply: Reply) -> Claim | NotClaimed:
        if tag(run_id, reply) == "not":
            reason = cast("Literal['gone', 'state', 'early', 'digest', 'suspect']", reply[1].decode())
            return NotClaimed(run_id, reason, reply[2].decode())
        return read_claim(run_id, pairs(reply[1]), reply[2])

    return on_run("claim", keys, run_id, arguments, decode)


def read_claim(run_id: str, record: Mapping[str, bytes], journal: Sequence[bytes]) -> Claim:
    """Read a record and a journal as a claim; the claim id of a run that nobody has claimed yet is empty."""
    deadline = text(record.get("deadline"))
    return Claim(
        run_id=run_id,
        claim_id=record.get("claim", b"").decode(),
        attempt=int(record["attempt"]),
        losses=int(record["losses"]),
        previous=cast("Previous", record["previous"].decode()),
        plan=load_json(record["plan"]),
        plan_id=record["plan_id"].decode(),
        request=load_json(record["request"]),
        digest=record["digest"].decode(),
        queue=record["queue"].decode(),
        priority=int(record["priority"]),
        thread_id=text(record.get("thread")),
        tenant=text(record.get("tenant")),
        deadline_seconds=None if deadline is None else float(deadline),
        expires_ms=whole(record.get("expires")),
        created_ms=int(record["created"]),
        ready_ms=whole(record.get("ready")),
        claimed_ms=whole(record.get("claimed")),
        journal=tuple(load_json(entry) for entry in journal),
        next_index=int(record["next"]),
        seq=int(record["seq"]),
        ran_ms=int(record["ran"]),
        cancel=text(record.get("cancel")),
        metadata=load_json(record.get("metadata"), {}),
        eta_ms=whole(record.get("eta")),
        recorded="foreign" not in record,
        kid=text(record.get("kid")),
        sig=text(record.get("sig")),
        trace=text(record.get("trace")),
    )


def _writing(
    seq: int,
    entries: Sequence[Mapping[str, Any]],
    events: Sequence[Mapping[str, Any]],
    last: Sequence[Mapping[str, Any]],
) -> tuple[Argument, ...]:
    """Return a step's arguments. `last` is written apart (an ending's event), but its index follows the others'."""
    indexes = [int(event["index"]) for event in (*events, *last)]
    first = indexes[0] if indexes else -1
    if indexes != list(range(first, first + len(indexes))):
        raise ValueError(f"event indexes must follow each other without a hole, got {indexes}")
    moves = any(entry.get("k") != "start" for entry in entries)
    return args(seq, moves, object_list(entries), first, len(events), b",".join(object_list(events)))


def step(
    keys: Keys,
    claim: ClaimLike,
    *,
    seq: int,
    entries: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    starts_effect: bool = False,
) -> Command[StepAck]:
    """Write journal entries and events in one go, and publish the events.

    `seq` follows the last write's; the same `seq` again is a repeat and writes nothing. With `starts_effect`, nothing
    is written (and `seq` is not used up) once a cancel or an expiry is recorded: the ack then says which. Starts and
    receipts wait for a replica, where there is one (DESIGN 2).
    Raises `ClaimLost`, or `StepGap` when a write or an event index is missing in between.
    """

    def decode(reply: Reply) -> StepAck:
        tag(claim.run_id, reply)
        return StepAck(text(reply[1]))

    arguments = args(claim.claim_id, starts_effect) + _writing(seq, entries, events, ())
    durable = starts_effect or any(entry.get("k") == "receipt" for entry in entries)
    return on_run("step", keys, claim.run_id, arguments, decode, durable=durable)


def beat(keys: Keys, refs: Sequence[ClaimLike], *, lease_ms: int) -> Command[dict[str, Beat]]:
    """Renew the leases of claims whose runs are all in one shard; say by run id what each one learned."""
    shards = {keys.shard(ref.run_id) for ref in refs}
    if len(shards) != 1:
        raise ValueError(f"one heartbeat is for claims of one shard, got {sorted(shards)}")

    def decode(reply: Reply) -> dict[str, Beat]:
        return {
            ref.run_id: Beat(alive == b"1", text(cancel), expired == b"1")
            for ref, (alive, cancel, expired) in zip(refs, reply, strict=True)
        }

    pairs_of_ids = args(*(part for ref in refs for part in (ref.run_id, ref.claim_id)))
    arguments = (*header(keys), *args(lease_ms, len(refs)), *pairs_of_ids)
    return Command("beat", keys.prefix(shards.pop()), arguments, decode)


def _ended(run_id: str, reply: Reply) -> Ended:
    tag(run_id, reply)
    return Ended(reply[1].decode(), read_offer(reply[2]))


def pause(
    keys: Keys,
    claim: ClaimLike,
    *,
    seq: int,
    entries: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    interrupts: Sequence[StoredInterrupt],
    usage: Mapping[str, Any] | None = None,
    ttl_ms: int = RETENTION_MS,
) -> Command[Ended]:
    """Let a run wait for people (HK-3). The last event is the pause's own when its kind is an interrupt kind.

    A cancel or an expiry recorded before ends the run instead, with its event in the place of the pause's (then
    `ttl_ms` starts). When every interrupt is decided already, the run is queued again: `Ended` then has its offer.
    """
    if not interrupts:
        raise ValueError(f"run {claim.run_id!r} cannot pause without an interrupt")
    *before, last = [*events] if events and events[-1].get("kind") in DECISIONS else [*events, None]
    ending = () if last is None else (last,)
    arguments = (
        args(claim.claim_id, ttl_ms)
        + _writing(seq, entries, [event for event in before if event is not None], ending)
        + args(dump(last) if last is not None else None, dump(usage) if usage is not None else None)
        + interrupt_arguments(interrupts)
    )
    return on_run("pause", keys, claim.run_id, arguments, lambda reply: _ended(claim.run_id, reply))


def finish(
    keys: Keys,
    claim: ClaimLike,
    *,
    seq: int,
    entries: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    ending: Ending,
    ttl_ms: int = RETENTION_MS,
) -> Command[Ended]:
    """End a run; its keys live `ttl_ms` from here. `ending.event` has the index after those of `events`.

    A cancel or an expiry recorded before takes the ending's place, at the same index. Repeating the command by the
    same claim gives the same answer again.
    """
    arguments = (
        args(claim.claim_id, ttl_ms)
        + _writing(seq, entries, events, (ending.event,))
        + args(ending.state, dump(ending.event))
        + args(dump(ending.outcome) if ending.outcome is not None else None, ending.error)
        + args(dump(ending.usage) if ending.usage is not None else None)
    )
    return on_run("finish", keys, claim.run_id, arguments, lambda reply: _ended(claim.run_id, reply))


def release(
    keys: Keys,
    claim: ClaimLike,
    *,
    seq: int,
    entries: Sequence[Mapping[str, Any]] = (),
    events: Sequence[Mapping[str, Any]] = (),
    ttl_ms: int = RETENTION_MS,
) -> Command[Offer | Ended]:
    """Hand a run back: it is queued again, no loss is counted, and its next offer is the caller's to publish.

    `Ended` when a cancel or an expiry was recorded before, and so ended the run.
    """

    def decode(reply: Reply) -> Offer | Ended:
        ended = _ended(claim.run_id, reply)
        return ended.offer or ended

    arguments = args(claim.claim_id, ttl_ms) + _writing(seq, entries, events, ())
    return on_run("release", keys, claim.run_id, arguments, decode)


def park(
    keys: Keys, claim: ClaimLike, *, missing: Mapping[str, Sequence[str]], text: str, ttl_ms: int = RETENTION_MS
) -> Command[Ended]:
    """Set a run aside until a worker comes that has what is `missing` (names by kind); `text` says so to people."""
    arguments = args(claim.claim_id, ttl_ms, dump({kind: list(names) for kind, names in missing.items()}), text)
    return on_run("park", keys, claim.run_id, arguments, lambda reply: _ended(claim.run_id, reply))


__all__ = ["RETENTION_MS", "ClaimRef", "beat", "claim", "finish", "park", "pause", "read_claim", "release", "step"]
