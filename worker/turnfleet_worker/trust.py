"""What a worker with signing keys believes: records, messages, pauses and decisions (design/signing.md).

Decides; does not write. Without keys everything is believed.
"""

import hashlib
import json
import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from turnfleet.errors import BadSignature
from turnfleet.store.records import Claim, StoredInterrupt
from turnfleet.wire.envelope import Envelope
from turnfleet.wire.request import RequestBody, request_digest
from turnfleet.wire.signed import check_envelope, decision_content, pause_content, run_content, shown_digest
from turnfleet.wire.signing import Signature, SigningKeys
from turnfleet_kernel import PlanSpec
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.journal import Entry

_log = logging.getLogger(__name__)
_EXPIRY = "expiry"  # who the store says decided when nobody did
_SHAPE_ERRORS = (LookupError, TypeError, ValueError, AttributeError)  # of what is not what it should be


@dataclass(frozen=True, slots=True)
class Admitted:
    """A journal without what nobody with a key wrote.

    `refused`: why, by interrupt. `decided`: the interrupts of the open round with a decision that counts; None when
    every decision does.
    """

    entries: tuple[Entry, ...]
    refused: Mapping[str, str] = field(default_factory=dict)
    decided: frozenset[str] | None = None

    def must_ask(self, interrupt_id: str) -> bool:
        """Whether an interrupt is open whatever the store holds of it."""
        return self.decided is not None and interrupt_id not in self.decided


@dataclass(frozen=True, slots=True)
class _Asked:
    """An interrupt as a signed pause has it. `terms`: who may decide, and the decision on expiry."""

    shown: str
    terms: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Trust:
    """A worker's judgement, by its keys (None: it has none). What it refuses is counted in `counts`."""

    keys: SigningKeys | None = None
    fleet: str = ""
    counts: Counter[str] = field(default_factory=Counter)

    def check_message(self, envelope: Envelope) -> None:
        """Raise `BadSignature` for a message that nobody with a key made; the run that it names is not touched."""
        try:
            check_envelope(self.keys, envelope)
        except BadSignature as error:
            self.counts[f"message {error.trouble}"] += 1
            raise

    def check_record(self, claim: Claim) -> None:
        """Raise `BadSignature` unless somebody with a key asked for just this: this plan, this request, these terms.

        The digests are worked out from what the record holds, not read from it.
        """
        if self.keys is None:
            return
        content: Mapping[str, Any] = {}
        try:
            identity = plan_id(PlanSpec.model_validate(claim.plan))
            digest = request_digest(identity, RequestBody.model_validate(claim.request).to_json())
            if (identity, digest) == (claim.plan_id, claim.digest):  # compiled plans are kept by their id
                content = run_content(self.fleet, claim, plan_id=identity, digest=digest)
        except (*_SHAPE_ERRORS, TurnfleetError):
            _log.debug("run %s: its record holds no run", claim.run_id)
        try:
            signature = Signature.of(claim.kid, claim.sig)
            self.keys.check(content, signature, run_id=claim.run_id, what=f"run {claim.run_id!r}")
        except BadSignature as error:
            self.counts[f"run {error.trouble}"] += 1
            raise

    def sign_pauses(
        self,
        run_id: str,
        journal: Sequence[Entry],
        pauses: Sequence[Entry],
        interrupts: Sequence[StoredInterrupt],
    ) -> Sequence[Entry]:
        """Return a pause's journal entries with their proof.

        Each is bound to the turn whose calls wait, as the `journal` has it; the root's says on what terms each
        interrupt may be decided. Raises ValueError for what cannot be signed (text that is no Unicode).
        """
        if self.keys is None:
            return pauses
        turns = {entry.get("run"): _fingerprint(entry) for entry in journal if entry["k"] == "turn"}
        terms = {each.id: {"roles": list(each.roles), "on_expiry": each.on_expiry} for each in interrupts}
        bound = [{**entry, "turn": turns.get(entry.get("run"))} for entry in pauses]
        return [self._sign_pause(run_id, entry if "run" in entry else {**entry, "terms": terms}) for entry in bound]

    def _sign_pause(self, run_id: str, entry: Entry) -> Entry:
        assert self.keys is not None
        signature = self.keys.sign(pause_content(self.fleet, run_id, entry))
        return {**entry, "proof": {"kid": signature.kid, "sig": signature.sig}}

    def admit(self, run_id: str, entries: Sequence[Entry]) -> Admitted:
        """Leave out the pauses and decisions of the open round that do not check.

        What closed rounds hold has been acted on, and no key that was rotated away since is needed for it.
        """
        if self.keys is None:
            return Admitted(tuple(entries))
        start = max((place for place, entry in enumerate(entries) if _closes(entry)), default=-1)
        judged = _OpenRound(self.keys, self.fleet, run_id)
        kept = tuple(entry for place, entry in enumerate(entries) if place <= start or judged.believes(entry))
        return Admitted(kept, judged.refused, frozenset(judged.decided))

    def report(self, run_id: str, admitted: Admitted) -> None:
        """Count and log what was left out of a run's journal."""
        for name, trouble in admitted.refused.items():
            self.counts["decision refused"] += 1
            _log.error("run %s: a decision on interrupt %s is not taken: %s", run_id, name, trouble)


def _closes(entry: Entry) -> bool:
    """Whether nothing decided before this entry can have an effect: the fold lets go of the round, and of all in it."""
    return "run" not in entry and entry.get("k") == "closed"


def _fingerprint(entry: Entry) -> str:
    # Not canonical JSON: a turn may hold half of a surrogate pair, which that refuses.
    return hashlib.sha256(json.dumps(entry, sort_keys=True).encode()).hexdigest()


class _OpenRound:
    """Reads the entries of a round in order; `refused`: why, by interrupt, unless it was `decided` well after all."""

    def __init__(self, keys: SigningKeys, fleet: str, run_id: str) -> None:
        self.refused: dict[str, str] = {}
        self.decided: set[str] = set()
        self._keys = keys
        self._fleet = fleet
        self._run_id = run_id
        self._asked: dict[str, _Asked] = {}
        self._turns: dict[str | None, str] = {}

    def believes(self, entry: Entry) -> bool:
        """Whether this entry may be acted on."""
        try:
            match entry["k"]:
                case "turn":
                    self._turns[entry.get("run")] = _fingerprint(entry)
                    return True
                case "paused":
                    return self._paused(entry)
                case "decision":
                    return self._decided(entry)
                case _:
                    return True
        except _SHAPE_ERRORS:
            self.refused[str(entry.get("interrupt"))] = "it is not written as a worker or a client writes"
            return False

    def _paused(self, entry: Entry) -> bool:
        trouble: str | None = self._keys.trouble(pause_content(self._fleet, self._run_id, entry), _signature(entry))
        if trouble is None and entry["turn"] != self._turns.get(entry.get("run")):
            trouble = "of another turn"
        own = "run" not in entry
        for interrupt in entry.get("interrupts", ()) if own else ():
            name = interrupt["id"]
            if trouble is not None:
                self._asked.pop(name, None)
                self.refused[name] = f"the pause that asks is {trouble}"
            else:
                shown = shown_digest(interrupt["kind"], interrupt.get("call_id"), interrupt.get("payload", {}))
                self._asked[name] = _Asked(shown, entry["terms"][name])
        return trouble is None

    def _decided(self, entry: Entry) -> bool:
        name = entry["interrupt"]
        trouble = self._trouble(entry, self._asked.get(name))
        if trouble is None:
            self.decided.add(name)
            self.refused.pop(name, None)
        else:
            self.refused[name] = trouble
        return trouble is None

    def _trouble(self, entry: Entry, asked: _Asked | None) -> str | None:
        if asked is None:
            return "no signed pause asks about it"
        if "run" in entry:
            return "it goes round the run that was asked"
        proof = entry.get("proof")
        if proof is None and entry.get("by") == _EXPIRY:
            # Taken by the store's script. What it may take stands in the pause that a worker signed.
            return None if entry["decision"] == asked.terms["on_expiry"] else "it is not the decision on expiry"
        roles = list((proof or {}).get("roles", ()))
        content = decision_content(
            self._fleet,
            self._run_id,
            entry["interrupt"],
            entry["decision"],
            shown=asked.shown,
            by=entry["by"],
            roles=roles,
            decision_id=entry.get("decision_id"),
        )
        trouble = self._keys.trouble(content, _signature(entry))
        if trouble is not None:
            return f"it is {trouble}"
        allowed = asked.terms["roles"]
        return None if not allowed or set(allowed) & set(roles) else "who decided it has none of the roles"


def _signature(entry: Entry) -> Signature | None:
    proof = entry.get("proof") or {}
    return Signature.of(str(proof.get("kid") or ""), str(proof.get("sig") or ""))
