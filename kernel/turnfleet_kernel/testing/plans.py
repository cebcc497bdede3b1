"""Compiled plans from parts."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from turnfleet_kernel.contracts.limits import PlanLimits
from turnfleet_kernel.contracts.stages import Stage
from turnfleet_kernel.conversation import ListConversation
from turnfleet_kernel.defaults import SystemClock, SystemIds
from turnfleet_kernel.plan import InvocationPlan, ModelPalette, PlanBindings, PlanIdentity, StageProgram
from turnfleet_kernel.ports import Clock, ConversationPort, EventSink, Ids, ModelPort, ResponsePort, ToolPort
from turnfleet_kernel.testing.scripted import ScriptedModel, Step
from turnfleet_kernel.testing.toolbox import ToolBox

__all__ = ["make_plan"]


def make_plan(
    model: ModelPort | ModelPalette | Sequence[Step] | None = None,
    tools: Mapping[str, Callable[..., Any]] | ToolPort | None = None,
    stages: Iterable[Stage] = (),
    sink: EventSink | None = None,
    *,
    name: str = "test",
    instructions: str = "",
    conversation: ConversationPort | None = None,
    response: ResponsePort | None = None,
    clock: Clock | None = None,
    ids: Ids | None = None,
    **limits: Any,
) -> InvocationPlan:
    """Make a compiled plan from parts.

    ``model`` may be the steps of a ScriptedModel, ``tools`` a dict of functions; ``limits`` are those of PlanLimits.
    Plans of the same name have the same plan id.
    """
    bound = ScriptedModel(model or ["done"]) if model is None or isinstance(model, Sequence) else model
    return InvocationPlan(
        identity=PlanIdentity(hashlib.sha256(name.encode()).hexdigest(), name),
        instructions=instructions,
        limits=PlanLimits(**limits),
        bindings=PlanBindings(
            model=bound,
            tools=ToolBox(tools) if tools is None or isinstance(tools, Mapping) else tools,
            conversation=conversation or ListConversation(),
            response=response,
            event_sink=sink,
            clock=clock or SystemClock(),
            ids=ids or SystemIds(),
        ),
        stage_program=StageProgram(tuple(stages)),
    )
