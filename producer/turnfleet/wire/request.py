"""The wire form of a turn request: what to run this time, as plain JSON."""

from collections.abc import Mapping
from typing import Any

from pydantic import BaseModel, ConfigDict, JsonValue

from turnfleet_kernel.contracts.canonical import digest
from turnfleet_kernel.contracts.plain import plain_json
from turnfleet_kernel.contracts.values import TurnRequest


class RequestBody(BaseModel):
    """A `TurnRequest` on the wire.

    It holds no run id (the envelope names the run) and no decisions: those are a person's to take on a paused run,
    and a message that brought its own would pass by every approval.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    prompt: str
    attachments: tuple[JsonValue, ...] = ()
    history: tuple[JsonValue, ...] = ()
    metadata: dict[str, JsonValue] = {}

    @classmethod
    def of(cls, request: TurnRequest) -> "RequestBody":
        """Write a turn request down. Raises `ValueError`, naming the place, for what JSON cannot carry."""
        return cls(
            prompt=plain_json(request.prompt, "prompt"),
            attachments=plain_json(request.attachments, "attachments"),
            history=plain_json(request.history, "history"),
            metadata=plain_json(request.metadata, "metadata"),
        )

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object, without the fields that have their default."""
        return self.model_dump(mode="json", exclude_defaults=True)

    def turn_request(self, run_id: str) -> TurnRequest:
        """Return the request that the kernel runs."""
        return TurnRequest(
            prompt=self.prompt,
            attachments=self.attachments,
            history=self.history,
            run_id=run_id,
            metadata=self.metadata,
        )


def request_digest(plan_id: str, request: Mapping[str, Any]) -> str:
    """Return what identifies "the same request": SHA-256 in hex over the RFC 8785 JSON of plan id and request.

    `request` is `RequestBody.to_json()`: fields equal to their default are left out, so that a client which spells
    them out asks for the same run. Raises `ValueError` for NaN, infinities and what else JSON cannot carry.
    """
    return digest({"plan_id": plan_id, "request": request})
