"""What tools raise in a local fleet: a model is only told of it, a test may want to see it."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Any

from turnfleet_kernel.identity import current_run_identity
from turnfleet_worker.toolport import is_async


@dataclass(frozen=True, slots=True)
class ToolFailure:
    """What a tool raised in a run; `error` has its traceback."""

    run_id: str
    tool: str
    error: Exception


def watched(name: str, function: Callable[..., Any], failures: list[ToolFailure]) -> Callable[..., Any]:
    """Return a tool's function, what it raises being kept in `failures` as well."""

    def keep(error: Exception) -> None:
        identity = current_run_identity()
        failures.append(ToolFailure(identity.run_id if identity else "", name, error))

    @wraps(function)
    async def waited(*arguments: Any, **named: Any) -> Any:
        try:
            return await function(*arguments, **named)
        except Exception as error:
            keep(error)
            raise

    @wraps(function)
    def called(*arguments: Any, **named: Any) -> Any:
        try:
            return function(*arguments, **named)
        except Exception as error:
            keep(error)
            raise

    return waited if is_async(function) else called
