"""Interrupts and decisions as script arguments, and back."""

from collections.abc import Mapping, Sequence
from operator import itemgetter

from turnfleet.errors import InvalidDecision, NotAllowed, ResumeConflict, UnknownInterrupt
from turnfleet.store.command import Argument, Reply, args, canonical, dump, load_json, pairs, text, whole
from turnfleet.store.records import NewDecision, StoredInterrupt
from turnfleet.store.transitions import DECISIONS

# An interrupt is a few fields of one hash, told apart by a letter: the head, which scripts read; the body, which they
# only carry; its place; when it expires, and the decision then; the decision; and who took it.
_HEAD, _BODY, _PLACE, _EXPIRES, _DEFAULT, _DECISION, _WHO = "h", "b", "n", "x", "o", "d", "w"


def interrupt_arguments(interrupts: Sequence[StoredInterrupt]) -> tuple[Argument, ...]:
    """Return the arguments of a pause's interrupts, at least one of a known kind, each id once."""
    if len({interrupt.id for interrupt in interrupts}) != len(interrupts):
        raise ValueError("interrupt ids of one pause must differ")
    flat = args(len(interrupts))
    for interrupt in interrupts:
        if interrupt.kind not in DECISIONS:
            raise ValueError(f"interrupt {interrupt.id!r} has the unknown kind {interrupt.kind!r}")
        if interrupt.on_expiry is not None and interrupt.on_expiry.get("kind") not in DECISIONS[interrupt.kind]:
            raise ValueError(f"interrupt {interrupt.id!r}: its decision on expiry does not fit a {interrupt.kind}")
        head = {
            "id": interrupt.id,
            "kind": interrupt.kind,
            "call_id": interrupt.call_id,
            "roles": list(interrupt.roles),
            "digest": interrupt.digest,
        }
        body = {"payload": interrupt.payload, "schema": interrupt.schema}
        default = None if interrupt.on_expiry is None else canonical(interrupt.on_expiry)
        flat += args(interrupt.id, dump(head), dump(body), interrupt.expires_in_ms, default, interrupt.anew)
    return flat


def read_interrupts(flat: Sequence[bytes]) -> tuple[StoredInterrupt, ...]:
    """Return a run's interrupts as its hash has them, oldest first, open and decided."""
    fields = pairs(flat)
    ids = [name[2:] for name in fields if name.startswith(f"{_HEAD}:")]
    placed = sorted(((int(fields[f"{_PLACE}:{each}"]), each) for each in ids), key=itemgetter(0))
    return tuple(_read_interrupt(each, fields) for _, each in placed)


def _read_interrupt(interrupt_id: str, fields: Mapping[str, bytes]) -> StoredInterrupt:
    head = load_json(fields[f"{_HEAD}:{interrupt_id}"])
    body = load_json(fields[f"{_BODY}:{interrupt_id}"])
    who = load_json(fields.get(f"{_WHO}:{interrupt_id}"), {})
    return StoredInterrupt(
        id=interrupt_id,
        kind=head["kind"],
        payload=body["payload"],
        call_id=head["call_id"],
        roles=tuple(head["roles"]),
        expires_ms=whole(fields.get(f"{_EXPIRES}:{interrupt_id}")),
        on_expiry=load_json(fields.get(f"{_DEFAULT}:{interrupt_id}")),
        schema=body["schema"],
        digest=head["digest"],
        decision=load_json(fields.get(f"{_DECISION}:{interrupt_id}")),
        by=who.get("by"),
        decision_id=who.get("decision_id"),
        decided_ms=who.get("at_ms"),
    )


def decision_arguments(run_id: str, decisions: Sequence[NewDecision]) -> tuple[Argument, ...]:
    """Return the arguments of one call's decisions. Raises `InvalidDecision` when there is none, or two on one."""
    if not decisions:
        raise InvalidDecision(run_id, "", f"run {run_id!r}: a resume needs at least one decision")
    flat = args(len(decisions))
    seen: set[str] = set()
    for each in decisions:
        if each.interrupt_id in seen:
            raise InvalidDecision(
                run_id, each.interrupt_id, f"run {run_id!r}: two decisions on interrupt {each.interrupt_id!r}"
            )
        seen.add(each.interrupt_id)
        kind = each.decision.get("kind")
        if not isinstance(kind, str):
            raise InvalidDecision(
                run_id, each.interrupt_id, f"run {run_id!r}: the decision on {each.interrupt_id!r} has no kind"
            )
        proof = None if each.proof is None else dump(each.proof)
        flat += args(each.interrupt_id, kind, canonical(each.decision), each.digest, proof)
    return flat


def raise_refused(run_id: str, reply: Reply) -> None:
    """Raise what a refused resume stands for; `reply` is the tag, the interrupt's id, and what the error needs."""
    interrupt_id = reply[1].decode()
    match reply[0]:
        case b"no-interrupt":
            raise UnknownInterrupt(run_id, interrupt_id)
        case b"decided":
            raise ResumeConflict(run_id, interrupt_id, decided_by=text(reply[2]) or "")
        case b"outdated":
            raise ResumeConflict(run_id, interrupt_id, outdated=True)
        case b"roles":
            raise NotAllowed(run_id, interrupt_id, [role.decode() for role in reply[2]])
        case b"unfit":
            kind, decision = reply[2].decode(), reply[3].decode()
            fitting = ", ".join(sorted(DECISIONS[kind]))
            raise InvalidDecision(
                run_id,
                interrupt_id,
                f"run {run_id!r}: interrupt {interrupt_id!r} is of kind {kind}: it takes {fitting}, not {decision!r}",
            )
