"""Deciding interrupts: what can be said before the store is asked, and what happens after it agreed."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from turnfleet.client.capabilities import check_signing
from turnfleet.client.given import check_decider
from turnfleet.client.setup import Setup
from turnfleet.client.steps import Flow, execute
from turnfleet.client.threads import publish_or_leave
from turnfleet.errors import InvalidDecision, NotAllowed, UnknownInterrupt
from turnfleet.store import commands
from turnfleet.store.records import NewDecision, StoredInterrupt
from turnfleet.store.transitions import DECISIONS, TERMINAL_STATES
from turnfleet.wire.signed import decision_content, shown_digest
from turnfleet.wire.signing import SigningKeys
from turnfleet_kernel.contracts.interrupts import Answer, Approve, Decision, Edit, Reject, Retry
from turnfleet_kernel.contracts.json import decision_to_json
from turnfleet_kernel.contracts.plain import plain_json


def resume(
    setup: Setup,
    run_id: str,
    decisions: Mapping[str, Decision],
    *,
    by: str,
    roles: Sequence[str],
    decision_id: str | None,
    shown: Mapping[str, str],
) -> Flow[str]:
    """Take decisions, all or none, and offer the run when none is open; give the run's state.

    `shown`: digests of what the decider saw, by interrupt id; by default what the store has at this moment.
    """
    check_decider(decisions, by, roles, shown)
    snapshot = yield from execute(commands.status(setup.keys, run_id))
    interrupts = {each.id: each for each in snapshot.interrupts}
    if snapshot.state not in TERMINAL_STATES:
        check_decisions(run_id, interrupts, decisions, roles)
    check_signing(
        setup.signing,
        (yield from setup.capabilities.get(setup.keys)),
        run_id,
        f"the decision on run {run_id!r}",
    )
    taken = [
        NewDecision(each, decision_to_json(decision), shown.get(each) or _digest(interrupts.get(each)))
        for each, decision in decisions.items()
    ]
    for new in taken:
        setup.limits.check_decision(new.interrupt_id, new.decision)
    if setup.signing is not None:
        seal = _Seal(setup.signing, setup.fleet, run_id, by, tuple(roles), decision_id or None)
        taken = [seal.on(new, interrupts.get(new.interrupt_id)) for new in taken]
    command = commands.resume(setup.keys, run_id, decisions=taken, by=by, roles=tuple(roles), decision_id=decision_id)
    resumed = yield from execute(command)
    # The decision stands now, whatever the broker says: the sweep offers the run again.
    yield from publish_or_leave(setup, resumed.offer)
    return resumed.state


def check_decisions(
    run_id: str,
    interrupts: Mapping[str, StoredInterrupt],
    decisions: Mapping[str, Decision],
    roles: Sequence[str],
) -> None:
    """Refuse an unknown id, and a kind, role, edit or answer that does not fit (HK-6), without asking the store.

    Raises `UnknownInterrupt`, `NotAllowed`, `InvalidDecision`; no message shows arguments or an answer.
    """
    for interrupt_id, decision in decisions.items():
        interrupt = interrupts.get(interrupt_id)
        if interrupt is None:
            raise UnknownInterrupt(run_id, interrupt_id)
        where = f"run {run_id!r}: interrupt {interrupt_id!r}"
        if not isinstance(decision, Approve | Edit | Reject | Answer | Retry):
            raise InvalidDecision(
                run_id,
                interrupt_id,
                f"{where} is decided with Approve, Edit, Reject, Answer or Retry, not with a {type(decision).__name__}",
            )
        fitting = DECISIONS[interrupt.kind]
        if decision.kind not in fitting:
            raise InvalidDecision(
                run_id,
                interrupt_id,
                f"{where} is of kind {interrupt.kind}: it takes {', '.join(sorted(fitting))}, not {decision.kind}",
            )
        if interrupt.roles and not set(interrupt.roles) & set(roles):
            raise NotAllowed(run_id, interrupt_id, interrupt.roles)
        problem = _misfit(interrupt, decision)
        if problem:
            raise InvalidDecision(run_id, interrupt_id, f"{where}: {problem}")


def _misfit(interrupt: StoredInterrupt, decision: Decision) -> str | None:
    """Say what about an edit's arguments or an answer does not fit its schema, or JSON; None when all does."""
    match decision:
        case Edit(arguments=value):
            what = "the new arguments"
        case Answer(value=value):
            what = "the answer"
        case Approve(value=value):
            what = "the value"
        case Reject(reason=value):
            what = "the reason"
            if not isinstance(value, str):
                return "the reason must be text"
        case Retry():
            return None
    try:
        plain = plain_json(value, what)
    except ValueError as error:
        return str(error)
    if interrupt.schema is None or not isinstance(decision, Edit | Answer):
        return None
    problem = _schema_problem(plain, interrupt.schema)
    return f"{what}: {problem}" if problem else None


def _schema_problem(value: Any, declared: Mapping[str, Any]) -> str | None:
    # Loaded here: most services never edit or answer, and it is slow to import.
    from jsonschema.exceptions import SchemaError  # noqa: PLC0415
    from jsonschema.validators import validator_for  # noqa: PLC0415
    from referencing import Registry  # noqa: PLC0415
    from referencing.exceptions import Unresolvable  # noqa: PLC0415

    schema = dict(declared)
    validator_class = validator_for(schema)
    # A registry of its own: a schema must not make this process fetch what it refers to.
    validator = validator_class(schema, registry=Registry())
    try:
        validator_class.check_schema(schema)
        problems = sorted(validator.iter_errors(value), key=lambda problem: list(map(str, problem.absolute_path)))
    except (SchemaError, Unresolvable) as error:
        return f"the schema to check it by cannot be used ({type(error).__name__.lstrip('_')}); rejecting is possible"
    # jsonschema's own messages repeat the value, which may be private: place and rule are enough to mend it.
    return "; ".join(_rule(problem) for problem in problems[:3]) or None


def _rule(problem: Any) -> str:
    place = ".".join(map(str, problem.absolute_path)) or "it"
    match problem.validator:
        case "type":
            return f"{place} must be of type {problem.validator_value}"
        case "required":
            missing = [name for name in problem.validator_value if name not in problem.instance]
            return f"{place} lacks {', '.join(missing)}"
        case "additionalProperties":
            known = ", ".join(problem.schema.get("properties", {}))
            return f"{place} has members besides {known}"
        case rule:
            return f"{place} must satisfy {rule} {json.dumps(problem.validator_value, default=str)[:120]}"


@dataclass(frozen=True, slots=True)
class _Seal:
    """Who decides, for which run, and the keys to prove it by: what a worker checks (design/signing.md)."""

    keys: SigningKeys
    fleet: str
    run_id: str
    by: str
    roles: tuple[str, ...]
    decision_id: str | None

    def on(self, new: NewDecision, interrupt: StoredInterrupt | None) -> NewDecision:
        """Return the decision with its proof; as it is when there is no such interrupt, which the store refuses."""
        if interrupt is None:
            return new
        content = decision_content(
            self.fleet,
            self.run_id,
            new.interrupt_id,
            new.decision,
            shown=shown_digest(interrupt.kind, interrupt.call_id, interrupt.payload),
            by=self.by,
            roles=self.roles,
            decision_id=self.decision_id,
        )
        signature = self.keys.sign(content)
        return replace(new, proof={"kid": signature.kid, "sig": signature.sig, "roles": list(self.roles)})


def _digest(interrupt: StoredInterrupt | None) -> str | None:
    return None if interrupt is None else interrupt.digest
