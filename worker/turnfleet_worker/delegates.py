"""Delegates: another plan, called as a tool (DEL-1)."""

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final, Protocol

from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.delegating import delegate
from turnfleet_kernel.delegation import DelegationContext
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.invoker import InvocationKernel
from turnfleet_kernel.plan import InvocationPlan
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.signatures import read_signature
from turnfleet_worker.toolport import RegisteredTool
from turnfleet_worker.tracing.runs import delegating

__all__ = ["CHILDREN", "ChildPlans", "Delegate", "check_delegates", "delegate_tool"]


class ChildPlans(Protocol):
    """What makes the plans of delegated runs fit for the run that delegates."""

    def prepare(self, plan: InvocationPlan) -> tuple[InvocationKernel, InvocationPlan]:
        """Give the plan of one child's run, and the kernel that runs it."""


CHILDREN: Final[ContextVar[ChildPlans | None]] = ContextVar("turnfleet_children", default=None)
"""Those of the current invocation, set by whoever hosts it; None where nothing is to be kept."""


@dataclass(frozen=True, slots=True)
class Delegate:
    """A child agent as its owner declared it."""

    plan: PlanSpec
    description: str


def delegate_tool(name: str, child: Delegate, compile_child: Callable[[PlanSpec], InvocationPlan]) -> RegisteredTool:
    """Make the tool that runs a child agent on a prompt and gives its output.

    The child's plan is compiled with the first call, so that a plan may, through others, delegate to itself: the
    root's `max_depth` ends that.
    """
    kernel, delegation = InvocationKernel(), DelegationContext()
    compiled: list[InvocationPlan] = []

    async def hand_over(prompt: str) -> Any:
        if not compiled:
            compiled.append(compile_child(child.plan))
        children = CHILDREN.get()
        its_kernel, plan = (kernel, compiled[0]) if children is None else children.prepare(compiled[0])
        with delegating(plan.identity):
            return await delegate(its_kernel, delegation, name, plan)(prompt)

    signature = read_signature(hand_over, name=name, description=child.description)
    # A child goes on where it stood: its call is never in doubt.
    policy = ToolPolicy(tool=name, idempotent=True, schema=signature.schema, digest=signature.digest)
    return RegisteredTool(hand_over, signature, policy)


def check_delegates(
    spec: PlanSpec,
    delegates: Mapping[str, Delegate],
    unknown_names: Callable[[PlanSpec], Mapping[str, tuple[str, ...]]],
) -> None:
    """Raise `PlanError` if a child, however deep, names what does not exist: better now than in the middle of a run."""
    seen: set[str] = set()
    left = list(spec.delegates)
    while left:
        name = left.pop()
        if name in seen:
            continue
        seen.add(name)
        child = delegates[name].plan
        if unknown := unknown_names(child):
            listed = "; ".join(f"{kind} {', '.join(map(repr, names))}" for kind, names in unknown.items())
            raise PlanError(
                f"the delegate {name!r} of plan {spec.name!r} names what does not exist: {listed}", unknown=unknown
            )
        left.extend(child.delegates)
