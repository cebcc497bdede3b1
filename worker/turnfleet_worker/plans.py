"""Compiled plans of a worker process: a plan id names its content, so each is compiled once."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from pydantic import ValidationError

from turnfleet_kernel import InvocationPlan, PlanSpec
from turnfleet_kernel.contracts.spec import plan_id
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.ports import Clock
from turnfleet_worker.errors import AlteredPlan, UnreadablePlan
from turnfleet_worker.models.named import compile_named
from turnfleet_worker.registry import Registry

MOST_KEPT: Final = 256


class Plans:
    """Compiles plans against the process's registry, keeping the latest used. `clock`: the system's when absent."""

    def __init__(self, registry: Registry, *, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock
        self._kept: OrderedDict[str, InvocationPlan] = OrderedDict()

    def get(self, recorded_id: str, spec: Mapping[str, Any]) -> InvocationPlan:
        """Return the compiled plan.

        Raises `PlanError`: it lists every name that this worker lacks, or says what else keeps the plan from being
        bound here; `UnreadablePlan` and `AlteredPlan` are kinds of it. A run then waits for a worker that it fits.
        """
        plan = self._kept.get(recorded_id)
        if plan is None:
            plan = self._compile(recorded_id, spec)
            self._kept[recorded_id] = plan
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(recorded_id)
        return plan

    def fits(self, recorded_id: str, spec: Mapping[str, Any]) -> bool:
        """Say whether this worker can run a plan."""
        try:
            self.get(recorded_id, spec)
        except PlanError:
            return False
        return True

    def _compile(self, recorded_id: str, spec: Mapping[str, Any]) -> InvocationPlan:
        read = _read(spec)
        if (content_id := plan_id(read)) != recorded_id:
            raise AlteredPlan(
                f"plan {read.name!r} was recorded as {recorded_id[:12]} and reads as {content_id[:12]} here: its "
                "record was altered, or this release reads plans differently from the one that recorded it"
            )
        try:
            return compile_named(read, self._registry, clock=self._clock)
        except PlanError:
            raise
        except Exception as error:
            raise PlanError(f"plan {read.name!r} cannot be bound here: {type(error).__name__}: {error}") from error


def _read(spec: Mapping[str, Any]) -> PlanSpec:
    try:
        return PlanSpec.model_validate(spec)
    except ValidationError as error:
        fields = ", ".join(".".join(map(str, each["loc"])) or "all of it" for each in error.errors(include_input=False))
        raise UnreadablePlan(
            f"the recorded plan does not read as one here ({fields}): a newer release recorded it, or it was altered"
        ) from None
