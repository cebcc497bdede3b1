"""Names and what they stand for, as plans are bound to them (IPL-3)."""

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from turnfleet_kernel.compile import unknown_names
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.contracts.stages import Stage
from turnfleet_kernel.errors import PlanError
from turnfleet_kernel.ports import ResponsePort, ToolPort
from turnfleet_worker.approval import approval_stages
from turnfleet_worker.delegates import Delegate, check_delegates, delegate_tool
from turnfleet_worker.models.factories import ModelFactory
from turnfleet_worker.models.named import compile_named
from turnfleet_worker.models.response import JsonResponse
from turnfleet_worker.policy import ToolPolicy
from turnfleet_worker.threads import DaemonThreads
from turnfleet_worker.toolport import BoundTools, RegisteredTool
from turnfleet_worker.tracing.models import TracedModel

__all__ = ["Catalogue", "StageFactory"]

StageFactory: TypeAlias = Callable[[Mapping[str, Any]], Stage]


class Catalogue:
    """The `PlanRegistry` over what is registered, and what a worker says of it. Plain functions run in `threads`."""

    def __init__(self, threads: DaemonThreads) -> None:
        self._threads = threads
        self._models: dict[str, ModelFactory] = {}
        self._tools: dict[str, RegisteredTool] = {}
        self._stages: dict[str, StageFactory] = {}
        self._delegates: dict[str, Delegate] = {}
        self._delegate_policies: dict[str, ToolPolicy] = {}

    def policy(self, name: str) -> ToolPolicy | None:
        """Give the policy of a tool, for the host; None for a name that is none.

        A delegate's is that of an idempotent tool: a child goes on where it stood, and is never in doubt.
        """
        tool = self._tools.get(name)
        return self._delegate_policies.get(name) if tool is None else tool.policy

    def describe_capabilities(self) -> dict[str, Any]:
        """List what this worker can run, as JSON for its announcement; tools with the digest of their schema."""
        return {
            "models": sorted(self._models),
            "tools": {name: tool.policy.digest for name, tool in sorted(self._tools.items())},
            "stages": sorted(self._stages),
            "delegates": sorted(self._delegates),
        }

    def known_names(self) -> Mapping[str, frozenset[str]]:
        """List what plans may name, by kind."""
        return {
            "model": frozenset(self._models),
            "tool": frozenset(self._tools),
            "stage": frozenset(self._stages),
            "delegate": frozenset(self._delegates),
        }

    def has_model(self, name: str) -> bool:
        """Tell whether a model of this name is registered."""
        return name in self._models

    def bind_tools(self, spec: PlanSpec) -> ToolPort:
        """Give the plan's manifest: its tools and delegates, and no other (IPL-5).

        Raises `PlanError` when a delegate's own plan names what does not exist.
        """
        check_delegates(spec, self._delegates, lambda child: unknown_names(child, self))
        bound = {name: self._tools[name] for name in spec.tools}
        bound.update({name: self._delegate_tool(name, self._delegates[name]) for name in spec.delegates})
        return BoundTools(bound, self._threads)

    def bind_model(self, name: str, spec: PlanSpec, tools: ToolPort) -> TracedModel:
        """Give a model for a plan, traced. Raises `PlanError` when its provider cannot be used here."""
        return TracedModel(self._models[name](spec, tools), name)

    def bind_stages(self, spec: PlanSpec) -> tuple[Stage, ...]:
        """Give the plan's stages in its order, and after them the approval stage if a tool of the plan may ask."""
        declared = tuple(self._bind_stage(each.name, each.settings, spec) for each in spec.stages)
        return declared + approval_stages([self._tools[name] for name in spec.tools])

    def bind_response(self, spec: PlanSpec) -> ResponsePort | None:
        """Give the port that reads a structured answer; None for text."""
        return None if spec.response is None else JsonResponse(spec.name, spec.response)

    def _delegate_tool(self, name: str, child: Delegate) -> RegisteredTool:
        return delegate_tool(name, child, lambda spec: compile_named(spec, self))

    def _bind_stage(self, name: str, settings: Mapping[str, Any], spec: PlanSpec) -> Stage:
        try:
            stage = self._stages[name](settings)
        except Exception as failed:
            raise PlanError(
                f"stage {name!r} cannot be made with the settings of plan {spec.name!r}: "
                f"{type(failed).__name__}: {failed}"
            ) from failed
        if not isinstance(stage, Stage):
            raise PlanError(f"stage {name!r}: its factory gave a {type(stage).__name__}, not a Stage")
        return stage
