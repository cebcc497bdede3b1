"""Plain functions as tools."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from turnfleet_kernel.contracts.values import ToolDescription, ToolOutcome, ToolRequest

__all__ = ["ToolBox"]


class ToolBox:
    """Functions as tools, plain or async. What they return is the value; what they raise is the run's to handle."""

    def __init__(
        self,
        functions: Mapping[str, Callable[..., Any]] | None = None,
        *,
        schemas: Mapping[str, Mapping[str, Any]] | None = None,
    ) -> None:
        """Offer these functions; ``schemas`` holds JSON Schemas of arguments, by name."""
        self._functions = dict(functions or {})
        self._schemas = dict(schemas or {})

    async def call(self, request: ToolRequest) -> ToolOutcome:
        """Call a function with the request's arguments by name."""
        function = self._functions.get(request.name)
        if function is None:
            error = f"there is no tool {request.name!r}; there is {', '.join(self._functions) or 'none'}"
            return ToolOutcome(str(request.call_id), request.name, error=error)
        value = function(**request.arguments)
        if inspect.isawaitable(value):
            value = await value
        return ToolOutcome(str(request.call_id), request.name, value)

    def schema(self, name: str) -> Mapping[str, Any] | None:
        """Give the schema declared for a name."""
        return self._schemas.get(name)

    def names(self) -> tuple[str, ...]:
        """List the functions."""
        return tuple(self._functions)

    def describe(self, name: str) -> ToolDescription:
        """Describe a function by its docstring."""
        return ToolDescription(name, inspect.getdoc(self._functions[name]) or "", self.schema(name))
