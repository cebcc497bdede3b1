"""Compiled plans of a worker process: a plan id names its content, so each is compiled once."""

from collections import OrderedDict
from collections.abc import Mapping
from typing import Any, Final

from turnfleet_kernel import InvocationPlan, PlanSpec
from turnfleet_kernel.ports import Clock
from turnfleet_worker.models.named import compile_named
from turnfleet_worker.registry import Registry

MOST_KEPT: Final = 256


class Plans:
    """Compiles plans against the process's registry, keeping the latest used. `clock`: the system's when absent."""

    def __init__(self, registry: Registry, *, clock: Clock | None = None) -> None:
        self._registry = registry
        self._clock = clock
        self._kept: OrderedDict[str, InvocationPlan] = OrderedDict()

    def get(self, plan_id: str, spec: Mapping[str, Any]) -> InvocationPlan:
        """Return the compiled plan. Raises `PlanError` listing every name that this worker lacks."""
        plan = self._kept.get(plan_id)
        if plan is None:
            plan = compile_named(PlanSpec.model_validate(spec), self._registry, clock=self._clock)
            self._kept[plan_id] = plan
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(plan_id)
        return plan
