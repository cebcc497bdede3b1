"""From names to ports (IPL-3)."""

from collections.abc import Mapping

from turnfleet_kernel.contracts.spec import PlanSpec, plan_id
from turnfleet_kernel.defaults import SystemClock, SystemIds
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.plan import InvocationPlan, ModelPalette, PlanBindings, PlanIdentity, StageProgram
from turnfleet_kernel.ports import Clock, EventSink, Ids, ModelPort, PlanRegistry, ToolPort

__all__ = ["compile_plan", "unknown_names"]


def compile_plan(
    spec: PlanSpec,
    registry: PlanRegistry,
    *,
    clock: Clock | None = None,
    ids: Ids | None = None,
    event_sink: EventSink | None = None,
) -> InvocationPlan:
    """Bind every name of a spec. Pure given (spec, registry): nothing is called, nothing is remembered (IPL-3).

    Raises:
        PlanError: names that exist nowhere, all of them in one error (``unknown``); or a stage program that makes
            no sense.
    """
    _refuse_unknown(spec, registry)
    tools = registry.bind_tools(spec)
    return InvocationPlan(
        identity=PlanIdentity(plan_id(spec), spec.name, spec.version),
        instructions=spec.instructions,
        limits=spec.limits,
        bindings=PlanBindings(
            model=_bind_model(spec, registry, tools),
            tools=tools,
            response=registry.bind_response(spec),
            event_sink=event_sink,
            clock=clock or SystemClock(),
            ids=ids or SystemIds(),
        ),
        stage_program=StageProgram(registry.bind_stages(spec)),
    )


def unknown_names(spec: PlanSpec, registry: PlanRegistry) -> dict[str, tuple[str, ...]]:
    """List the names of a spec that the registry does not have, by kind; empty when the plan can be compiled."""
    known = registry.known_names()
    asked = {
        "model": tuple(name for name in spec.palette.values() if not registry.has_model(name)),
        "tool": spec.tools,
        "stage": tuple(stage.name for stage in spec.stages),
        "delegate": spec.delegates,
    }
    missing = {
        kind: tuple(dict.fromkeys(name for name in names if name not in known.get(kind, ())))
        for kind, names in asked.items()
    }
    return {kind: names for kind, names in missing.items() if names}


def _refuse_unknown(spec: PlanSpec, registry: PlanRegistry) -> None:
    unknown = unknown_names(spec, registry)
    if unknown:
        known = registry.known_names()
        parts = [_say_unknown(kind, names, known) for kind, names in unknown.items()]
        raise PlanError(f"plan {spec.name!r} names what does not exist: {'; '.join(parts)}", unknown=unknown)


def _say_unknown(kind: str, names: tuple[str, ...], known: Mapping[str, frozenset[str]]) -> str:
    has = ", ".join(sorted(known.get(kind, ()))) or "none"
    return f"{kind} {', '.join(map(repr, names))} (known: {has})"


def _bind_model(spec: PlanSpec, registry: PlanRegistry, tools: ToolPort) -> ModelPort | ModelPalette:
    if isinstance(spec.model, str):
        return registry.bind_model(spec.model, spec, tools)
    return ModelPalette({name: registry.bind_model(model, spec, tools) for name, model in spec.palette.items()})
