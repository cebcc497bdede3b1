"""How much a run may spend (IPL-7)."""

import math
from dataclasses import dataclass
from typing import Final

from turnfleet_kernel.errors import PlanError

__all__ = ["REQUEST_LIMIT", "TOOL_LIMIT", "USAGE_LIMITS", "PlanLimits"]

TOOL_LIMIT: Final = "tool_limit"
"""Stop reason of a run that still asks for tools after its last model round (STG-6)."""

REQUEST_LIMIT: Final = "request_limit"

USAGE_LIMITS: Final = {
    "max_requests": ("requests", REQUEST_LIMIT),
    "max_input_tokens": ("input_tokens", "input_token_limit"),
    "max_output_tokens": ("output_tokens", "output_token_limit"),
    "max_total_tokens": ("total_tokens", "total_token_limit"),
}
"""Each usage limit: the figure of UsageDelta that it bounds, and the stop reason of a run that reached it."""


@dataclass(frozen=True, slots=True)
class PlanLimits:
    """Bounds of one run, over all its invocations.

    Times are seconds. ``deadline_seconds`` counts running time only (CXL-6); None means no bound. Usage limits are
    looked at before each model round, so the round that crosses one is the last.

    Raises:
        PlanError: a value that makes no sense (no model round, a negative time, not a finite number).
    """

    max_model_rounds: int = 8
    deadline_seconds: float | None = None
    teardown_grace_seconds: float = 5.0
    max_parallel_tools: int = 8
    max_depth: int = 4
    max_requests: int | None = None
    max_input_tokens: int | None = None
    max_output_tokens: int | None = None
    max_total_tokens: int | None = None

    def __post_init__(self) -> None:
        """Refuse nonsense where it is declared, not in the middle of a run."""
        self._whole("max_model_rounds", at_least=1)
        self._whole("max_parallel_tools", at_least=1)
        self._whole("max_depth", at_least=0)
        self._seconds("deadline_seconds")
        self._seconds("teardown_grace_seconds")
        for name in USAGE_LIMITS:
            if getattr(self, name) is not None:
                self._whole(name, at_least=1)

    @property
    def usage_limits(self) -> tuple[tuple[str, int, str], ...]:
        """The usage limits that are set: (figure of UsageDelta, bound, stop reason)."""
        return tuple(
            [
                (figure, bound, stop)
                for name, (figure, stop) in USAGE_LIMITS.items()
                if (bound := getattr(self, name)) is not None
            ]
        )

    def _whole(self, name: str, *, at_least: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
            msg = f"{name} must be a whole number of at least {at_least}, not {value!r}"
            raise PlanError(msg)

    def _seconds(self, name: str) -> None:
        value = getattr(self, name)
        if value is None and name == "deadline_seconds":
            return
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
            msg = f"{name} must be a finite number of seconds, zero or more, not {value!r}"
            raise PlanError(msg)
