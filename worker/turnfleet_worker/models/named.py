"""A plan's models under the names that they are registered by, for whoever counts what each one costs."""

from dataclasses import replace

from turnfleet_kernel import InvocationPlan, PlanSpec, compile_plan
from turnfleet_kernel.plan import ModelPalette
from turnfleet_kernel.ports import Clock, ModelPort, PlanRegistry

__all__ = ["NamedModel", "compile_named"]


class NamedModel:
    """A model that knows its registered name; its calls are the inner model's own, with nothing in between."""

    __slots__ = ("invoke", "name", "stream")

    def __init__(self, name: str, inner: ModelPort) -> None:
        self.name = name
        self.invoke = inner.invoke
        self.stream = inner.stream


def compile_named(spec: PlanSpec, registry: PlanRegistry, *, clock: Clock | None = None) -> InvocationPlan:
    """Return the compiled plan, its models named. Raises `PlanError` as `compile_plan` does."""
    plan = compile_plan(spec, registry, clock=clock)
    bound, names = plan.bindings.model, spec.palette
    model: ModelPort | ModelPalette
    if isinstance(bound, ModelPalette):
        model = replace(bound, models={key: NamedModel(names[key], each) for key, each in bound.models.items()})
    else:
        model = NamedModel(next(iter(names.values())), bound)
    return replace(plan, bindings=replace(plan.bindings, model=model))
