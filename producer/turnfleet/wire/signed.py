"""What is signed: a run, an offer of one, a decision, a pause. Each is a JSON object with every field there."""

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from turnfleet.wire.envelope import Envelope, new_run
from turnfleet.wire.signing import Signature, SigningKeys
from turnfleet_kernel.contracts.canonical import digest

VERSION: Final = 1
SHOWN: Final = ("tool", "arguments", "question")
"""The parts of an interrupt's payload that a person decides about."""


class RunTerms(Protocol):
    """How a run is to be run: what a new record and a claimed one both say. Times in ms since the epoch."""

    @property
    def run_id(self) -> str:
        """The run."""

    @property
    def recorded(self) -> bool:
        """Whether its producer wrote the record before the message."""

    @property
    def queue(self) -> str:
        """The broker's queue."""

    @property
    def priority(self) -> int:
        """0 to 9."""

    @property
    def thread_id(self) -> str | None:
        """The thread that it is one of."""

    @property
    def tenant(self) -> str | None:
        """Whose it is."""

    @property
    def eta_ms(self) -> int | None:
        """Not before."""

    @property
    def expires_ms(self) -> int | None:
        """Not after."""

    @property
    def deadline_seconds(self) -> float | None:
        """Running time."""

    @property
    def metadata(self) -> Mapping[str, Any] | None:
        """Labels."""


def run_content(fleet: str, terms: RunTerms, *, plan_id: str, digest: str) -> dict[str, Any]:
    """Return what is signed of a run. Plan and request are in it by their digests."""
    return {
        "what": "turnfleet.run",
        "v": VERSION,
        "fleet": fleet,
        "run_id": terms.run_id,
        "recorded": terms.recorded,
        "plan_id": plan_id,
        "digest": digest,
        "queue": terms.queue,
        "priority": terms.priority,
        "thread_id": terms.thread_id,
        "tenant": terms.tenant,
        "eta_ms": terms.eta_ms,
        "expires_ms": terms.expires_ms,
        "deadline_seconds": terms.deadline_seconds,
        "metadata": dict(terms.metadata or {}),
    }


def envelope_content(envelope: Envelope) -> dict[str, Any]:
    """Return what is signed of a message: the run that it brings, or all that an offer of a recorded one says."""
    if envelope.plan is not None:
        return run_content(envelope.fleet, new_run(envelope), plan_id=envelope.plan_id, digest=envelope.digest)
    return {
        "what": "turnfleet.offer",
        "v": VERSION,
        "fleet": envelope.fleet,
        "run_id": envelope.run_id,
        "plan_id": envelope.plan_id,
        "digest": envelope.digest,
        "options": envelope.options.model_dump(mode="json"),
    }


def sign_envelope(keys: SigningKeys | None, envelope: Envelope) -> Envelope:
    """Return the envelope with its signature; as it is without keys."""
    if keys is None:
        return envelope
    signature = keys.sign(envelope_content(envelope))
    return envelope.model_copy(update={"kid": signature.kid, "sig": signature.sig})


def check_envelope(keys: SigningKeys | None, envelope: Envelope) -> None:
    """Raise `BadSignature` for a message that none of the keys signed. Without keys everything passes."""
    if keys is not None:
        keys.check(
            envelope_content(envelope),
            Signature.of(envelope.kid, envelope.sig),
            run_id=envelope.run_id,
            what=f"the message for run {envelope.run_id!r}",
        )


def shown_digest(kind: str, call_id: str | None, payload: Mapping[str, Any]) -> str:
    """Return what names the thing that a person decides about: the call and its arguments, or the question."""
    return digest({"kind": kind, "call_id": call_id, **{part: payload.get(part) for part in SHOWN}})


def decision_content(
    fleet: str,
    run_id: str,
    interrupt_id: str,
    decision: Mapping[str, Any],
    *,
    shown: str,
    by: str,
    roles: Sequence[str],
    decision_id: str | None,
) -> dict[str, Any]:
    """Return what is signed of a decision. `shown` is `shown_digest` of what the decider saw."""
    return {
        "what": "turnfleet.decision",
        "v": VERSION,
        "fleet": fleet,
        "run_id": run_id,
        "interrupt": interrupt_id,
        "decision": dict(decision),
        "shown": shown,
        "by": by,
        "roles": list(roles),
        "decision_id": decision_id,
    }


def pause_content(fleet: str, run_id: str, entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return what is signed of a pause: its whole journal entry, but for its proof."""
    return {
        "what": "turnfleet.pause",
        "v": VERSION,
        "fleet": fleet,
        "run_id": run_id,
        "entry": {name: value for name, value in entry.items() if name != "proof"},
    }
