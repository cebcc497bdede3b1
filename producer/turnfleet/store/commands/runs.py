"""What anybody may do to a run from outside: create it, decide, cancel, retry, delete, and offer it again."""

from collections.abc import Sequence

from turnfleet.errors import RunIdConflict
from turnfleet.store.command import Command, Reply, args, header, on_run, read_offer, tag, text
from turnfleet.store.commands.claimed import RETENTION_MS
from turnfleet.store.keys import Keys, validate_id
from turnfleet.store.newrun import new_run_arguments
from turnfleet.store.people import decision_arguments, raise_refused
from turnfleet.store.records import Cancelled, Created, NewDecision, NewRun, Offer, Resumed


def create(keys: Keys, new: NewRun) -> Command[Created]:
    """Write a run's record, once. Raises `RunIdConflict` when the run id has another digest, `InvalidId`."""
    arguments = (*header(keys), *new_run_arguments(new))

    def decode(reply: Reply) -> Created:
        if tag(new.run_id, reply) == "conflict":
            raise RunIdConflict(new.run_id)
        return Created(existed=reply[0] == b"existed", state=reply[1].decode(), publish=reply[2] == b"1")

    return Command("create", keys.prefix(keys.shard(new.run_id)), arguments, decode, new.run_id)


def _optional_offer(run_id: str, reply: Reply) -> Offer | None:
    tag(run_id, reply)
    return read_offer(reply[1])


def unpark(keys: Keys, run_id: str) -> Command[Offer | None]:
    """Let a parked run go on; None when it is not parked. Raises `UnknownRun`."""
    return on_run("unpark", keys, run_id, (), lambda reply: _optional_offer(run_id, reply), repeatable=False)


def offer_now(keys: Keys, run_id: str) -> Command[Offer | None]:
    """Give a queued run's next offer, and free it if it was held for its thread.

    None when it is not queued, or when its `eta` lies ahead (it is then offered when due). Raises `UnknownRun`.
    """
    return on_run("offer_now", keys, run_id, (), lambda reply: _optional_offer(run_id, reply))


def resume(
    keys: Keys,
    run_id: str,
    *,
    decisions: Sequence[NewDecision],
    by: str,
    roles: Sequence[str] | None = None,
    decision_id: str | None = None,
) -> Command[Resumed]:
    """Decide interrupts of a paused run: all of them or none, each compare-and-set.

    `roles` are the decider's; None means that none were stated, which is as good as having none. A repeat (the same
    `decision_id`, or the same decision by the same person) succeeds whatever the run does meanwhile.
    Raises `UnknownRun`, `UnknownInterrupt`, `ResumeConflict` (somebody decided otherwise, or what was shown is out of
    date), `NotAllowed`, `InvalidDecision` (HK-6) and `IllegalTransition` (the run is not paused).
    """
    validate_id("run id", run_id)
    flat_roles = [role.encode() for role in roles or ()]
    arguments = args(by, decision_id, flat_roles) + decision_arguments(run_id, decisions)

    def decode(reply: Reply) -> Resumed:
        if tag(run_id, reply) != "ok":
            raise_refused(run_id, reply)
        return Resumed(reply[1].decode(), read_offer(reply[2]))

    return on_run("resume", keys, run_id, arguments, decode, durable=True)


def cancel(keys: Keys, run_id: str, *, reason: str, ttl_ms: int = RETENTION_MS) -> Command[Cancelled]:
    """Record that a run shall end. A run that nobody executes ends at once; a running one's owner is told.

    Raises `UnknownRun`.
    """

    def decode(reply: Reply) -> Cancelled:
        tag(run_id, reply)
        return Cancelled(reply[1] == b"1", reply[2].decode(), text(reply[3]))

    return on_run("cancel", keys, run_id, args(reason, ttl_ms), decode, repeatable=False)


def retry(keys: Keys, run_id: str) -> Command[Offer]:
    """Let a failed run go on from its journal. Raises `UnknownRun`, `IllegalTransition`."""

    def decode(reply: Reply) -> Offer:
        tag(run_id, reply)
        offer = read_offer(reply[1])
        assert offer is not None
        return offer

    return on_run("retry", keys, run_id, (), decode, repeatable=False)


def delete(keys: Keys, run_id: str) -> Command[bool]:
    """Forget a run that ended. False when there was none. Raises `IllegalTransition` while it has not ended."""

    def decode(reply: Reply) -> bool:
        tag(run_id, reply)
        return bool(reply[1] == b"1")

    return on_run("delete", keys, run_id, (), decode, repeatable=False)
