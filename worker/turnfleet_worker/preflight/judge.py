"""One run against one build: compiled, folded and replayed as a worker would, up to what is not recorded (HK-4)."""

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from pydantic import ValidationError

from turnfleet.errors import BadSignature
from turnfleet.store.commands.browsing import RunFile
from turnfleet.store.records import Claim
from turnfleet.wire.request import RequestBody
from turnfleet.wire.signing import SigningKeys
from turnfleet_kernel import resume
from turnfleet_kernel.contracts.decisions import check_decision
from turnfleet_kernel.contracts.events import PAUSE_KINDS
from turnfleet_kernel.contracts.frozen import thaw
from turnfleet_kernel.contracts.interrupts import Approve, Decision, Interrupt, Reject, Retry
from turnfleet_kernel.contracts.json import decision_from_json
from turnfleet_kernel.contracts.record import PauseRecord
from turnfleet_kernel.contracts.values import ToolOutcome, TurnRequest
from turnfleet_kernel.errors import InvalidDecision, PlanError
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.delegates import CHILDREN
from turnfleet_worker.errors import AlteredPlan, ResponseError
from turnfleet_worker.fold import Folded
from turnfleet_worker.people import MILLISECONDS
from turnfleet_worker.plans import Plans
from turnfleet_worker.preflight.ports import Rehearsal, Scene, WouldHappen
from turnfleet_worker.preflight.reading import TranscriptUnreadable, read_journal
from turnfleet_worker.preflight.verdicts import Finding, Verdict
from turnfleet_worker.registry import Registry
from turnfleet_worker.signatures import schema_digest
from turnfleet_worker.trust import Trust

SECONDS = 10.0
"""How long one run's rehearsal may take: a stage that waits for something must not hold up all others."""


class Judge:
    """Says what a build, given as its registry, would do with runs. Calls no model and no tool, and writes nothing.

    `stages`: run the registry's stages where a replay would run them again; the others are never run. What is open is
    supposed to be decided in favour: an approval approved, a doubt answered with "call it", a question left aside.
    With `signing` keys it believes what a worker with them believes, of the fleet of that name.
    """

    def __init__(
        self,
        registry: Registry,
        *,
        stages: bool = True,
        seconds: float = SECONDS,
        signing: SigningKeys | None = None,
        fleet: str = "",
    ) -> None:
        self._registry = registry
        self._plans = Plans(registry)
        self._stages = stages
        self._seconds = seconds
        self._trust = Trust(signing, fleet)

    async def judge(self, file: RunFile) -> Verdict:
        """Give the verdict on one run."""
        claim = file.claim
        try:
            self._trust.check_record(claim)
            plan = self._plans.get(claim.plan_id, claim.plan)
            request = RequestBody.model_validate(claim.request).turn_request(claim.run_id)
        except BadSignature as error:
            return _verdict(file, (), [Finding("signature", error.trouble, str(error))])
        except PlanError as error:
            return _verdict(file, (), _of_plan(error))
        except ValidationError as error:
            fields = ", ".join(".".join(map(str, each["loc"])) for each in error.errors(include_input=False))
            return _verdict(
                file, (), [Finding("request", fields, f"the recorded request does not read here: {fields}")]
            )
        admitted = self._trust.admit(claim.run_id, claim.journal)
        try:
            folded = read_journal(claim, admitted.entries, plan)
        except TranscriptUnreadable as error:
            return _verdict(file, (), [Finding("transcript", "conversation", f"the transcript does not load: {error}")])
        except Exception as error:  # noqa: BLE001 - whatever a journal's reader raises fails the run in a worker, too
            return _verdict(file, (), [Finding("journal", type(error).__name__, _said(error))])
        steps, found = await self._rehearse(plan, folded, request)
        if late := _out_of_time(claim, plan):
            steps, found = (), [*found, late]
        misfits = {each.about for each in found if each.kind == "arguments"}
        shown = [*_changed_schemas(folded, self._registry), *_expiries(file, folded.record, plan)]
        return _verdict(
            file,
            steps,
            [
                *found,
                *(_of_refused(name, trouble) for name, trouble in admitted.refused.items()),
                *(each for each in shown if each.about not in misfits),
            ],
        )

    async def _rehearse(
        self, plan: InvocationPlan, folded: Folded, request: TurnRequest
    ) -> tuple[tuple[str, ...], list[Finding]]:
        record = folded.record
        rehearsal = Rehearsal(known=folded.known, policy=self._registry.policy, stages=self._stages)
        kernel, unbound = rehearsal.rehearsed(plan, replayed=record.turn is not None)
        try:
            replayed, request, context = resume(unbound, record, request, _supposed(record, folded.decisions))
        except InvalidDecision as error:
            return (), [Finding("decision", plan.identity.name, f"what was decided does not fit any more: {error}")]
        children = CHILDREN.set(rehearsal)
        step = "goes on to its end"
        found: list[Finding] = []
        try:
            async with asyncio.timeout(self._seconds):
                async for event in kernel.stream(replayed, request, context=context):
                    if event.kind in PAUSE_KINDS:
                        step = _asks(event.interrupts)
        except WouldHappen as what:
            step = what.reason
        except TimeoutError:
            found.append(Finding("stage", plan.identity.name, f"it did not come to an end in {self._seconds:g} s"))
        except Exception as error:  # noqa: BLE001 - what leaves the kernel fails the run in a worker, too
            found.append(_of_failure(error, rehearsal.scenes))
        finally:
            CHILDREN.reset(children)
        found += [finding for scene in rehearsal.scenes for finding in _of_calls(scene)]
        return (() if any(each.breaks for each in found) else (step,)), found


def _verdict(file: RunFile, steps: tuple[str, ...], findings: Iterable[Finding]) -> Verdict:
    return Verdict(
        run_id=file.claim.run_id,
        state=file.state,
        plan_name=file.plan_name,
        plan_id=file.claim.plan_id,
        tenant=file.claim.tenant,
        next=steps,
        findings=tuple(findings),
    )


def _out_of_time(claim: Claim, plan: InvocationPlan) -> Finding | None:
    """Say that a run has used its running time up: no build goes on with it."""
    seconds = plan.limits.deadline_seconds if claim.deadline_seconds is None else claim.deadline_seconds
    if seconds is None or claim.ran_ms < seconds * MILLISECONDS:
        return None
    return Finding(
        "run", "deadline", f"its {float(seconds)} seconds of running time are spent, whatever build takes it"
    )


def _of_refused(interrupt_id: str, trouble: str) -> Finding:
    text = f"a decision on interrupt {interrupt_id} would not be taken, and be asked for again: {trouble}"
    return Finding("signature", interrupt_id, text, breaks=False)


def _of_plan(error: PlanError) -> list[Finding]:
    if error.unknown:
        return [
            Finding("missing", f"{kind} {name}", f"the build has no {kind} {name!r}")
            for kind, names in error.unknown.items()
            for name in names
        ]
    kind: Any = "plan id" if isinstance(error, AlteredPlan) else "plan"
    return [Finding(kind, type(error).__name__, str(error))]


def _supposed(record: PauseRecord, decided: Mapping[str, Decision]) -> dict[str, Decision]:
    """Suppose a decision on everything that is open, beside those that were taken."""
    supposed: dict[str, Decision] = {"approval": Approve(), "in_doubt": Retry(), "question": Reject("not answered yet")}
    return {each.id: decided.get(each.id, supposed[each.kind]) for each in record.interrupts}


def _asks(interrupts: Iterable[Interrupt]) -> str:
    return "asks for " + ", ".join(
        f"{each.kind} of {each.payload.get('tool', 'a person')}" if each.kind != "question" else "an answer"
        for each in interrupts
    )


def _of_failure(error: Exception, scenes: Iterable[Scene]) -> Finding:
    for scene in scenes:
        for stage_id, raised in scene.refused:
            if raised is error:
                return Finding("stage", stage_id, f"stage {stage_id!r} refuses: {_said(error)}")
    if isinstance(error, ResponseError):
        return Finding("response", type(error).__name__, str(error))
    return Finding("run", type(error).__name__, _said(error))


def _of_calls(scene: Scene) -> Iterator[Finding]:
    """Say which calls of a run's open round would come to nothing, although nobody decided so."""
    context, open_round = scene.context, scene.round
    if context is None or open_round is None or (record := context.restored) is None:
        return
    settled = {each.interrupt.call_id for each in record.decisions.values() if each.is_outcome}
    for request in open_round.requests:
        call_id = request.call_id or ""
        outcome = open_round.outcomes.get(call_id)
        if outcome is None or outcome.error is None or call_id in record.outcomes or call_id in settled:
            continue
        if request.name in context.plan.bindings.tools.names():
            yield _of_call(outcome, record, call_id)


def _of_call(outcome: ToolOutcome, record: PauseRecord, call_id: str) -> Finding:
    name, error = outcome.name, outcome.error
    child = record.children.get(call_id)
    if child is not None:
        return Finding("delegate", name, f"the delegated run {child.run_id} cannot go on: {error}")
    asked = any(each.interrupt.call_id == call_id for each in record.decisions.values())
    asked = asked or any(each.call_id == call_id for each in record.interrupts)
    if asked:
        return Finding("arguments", name, f"a person is asked about a call of {name} that cannot be made: {error}")
    return Finding(
        "arguments", name, f"the model is told that its call of {name} cannot be made: {error}", breaks=False
    )


def _changed_schemas(folded: Folded, registry: Registry) -> Iterator[Finding]:
    """Say which tools are not as a person was shown them: the edit that fits the one schema may not fit the other."""
    for each in folded.record.interrupts:
        shown, policy = each.payload.get("schema"), registry.policy(str(each.payload.get("tool", "")))
        if (
            each.kind != "approval"
            or each.id in folded.decisions
            or shown is None
            or policy is None
            or policy.schema is None
        ):
            continue
        if schema_digest(thaw(shown)) != policy.digest:
            tool = policy.tool
            text = f"the schema of {tool} is another than the one that came with the open approval"
            yield Finding("schema", tool, text, breaks=False)


def _expiries(file: RunFile, record: PauseRecord, plan: InvocationPlan) -> Iterator[Finding]:
    """Say which decisions that are taken when nobody decides would not fit any more."""
    waiting = {each.id: each for each in record.interrupts}
    for stored in file.interrupts:
        interrupt = waiting.get(stored.id)
        if not stored.open or stored.on_expiry is None or interrupt is None:
            continue
        tool = str(interrupt.payload.get("tool", ""))
        schema = plan.bindings.tools.schema(tool) if interrupt.call_id not in record.children else None
        try:
            check_decision(interrupt, decision_from_json(stored.on_expiry), schema=schema)
        except (InvalidDecision, ValidationError) as error:
            yield Finding("decision", tool, f"what is decided on expiry does not fit: {_said(error)}", breaks=False)


def _said(error: BaseException) -> str:
    if isinstance(error, ValidationError):
        problems = error.errors(include_input=False, include_url=False, include_context=False)
        said = "; ".join(f"{'.'.join(map(str, each['loc'])) or 'all of it'}: {each['msg']}" for each in problems[:5])
        return f"{error.title} does not read here: {said}"
    return f"{type(error).__name__}: {error}"
