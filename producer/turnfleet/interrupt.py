"""What a run waits for people to decide, as users read it."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from turnfleet_kernel.contracts.interrupts import Decision, InterruptKind


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInterrupt:
    """One thing that a run waits for, or waited for: then `decision`, `by` and `decided_at` are set.

    An approval or an in_doubt has `tool` and `arguments`; a question has `question` and maybe `schema`, the JSON
    Schema of its answer. `digest` names what is shown here: a decision is bound to it. An empty `roles` lets anybody
    decide. `payload` is all of it as the run said it.
    """

    run_id: str
    plan_name: str
    id: str
    kind: InterruptKind
    call_id: str | None
    payload: Mapping[str, Any]
    digest: str | None
    roles: tuple[str, ...]
    schema: Mapping[str, Any] | None
    expires_at: datetime | None
    decision: Decision | None
    by: str | None
    decided_at: datetime | None

    @property
    def tool(self) -> str | None:
        """The tool whose call waits; None for a question."""
        return self.payload.get("tool")

    @property
    def arguments(self) -> Mapping[str, Any] | None:
        """The arguments of the call that waits; None for a question."""
        return self.payload.get("arguments")

    @property
    def question(self) -> str | None:
        """What is asked; None unless it is a question."""
        return self.payload.get("question")

    @property
    def open(self) -> bool:
        """Whether nobody has decided yet."""
        return self.decision is None
