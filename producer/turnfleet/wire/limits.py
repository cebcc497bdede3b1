"""How large the parts of a message and a decision may be, and how late its times: checked before any write."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from turnfleet.errors import PayloadTooLarge

LATEST: Final = 253_402_300_799
"""The last second (Unix) that a status can show: the end of the year 9999."""

_MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class SizeLimits:
    """Limits in bytes of UTF-8 (of JSON, for all but the prompt). `metadata` counts for a run's and for its request's.

    The producer refuses what is over; a worker does so with a message that brings its own record. Large content
    belongs into an object store; a message carries its address.
    """

    prompt: int = _MIB
    attachments: int = 4 * _MIB
    message: int = 8 * _MIB
    metadata: int = 64 * 1024
    decision: int = _MIB

    def check(self, envelope: Mapping[str, Any], *, of: str = "") -> None:
        """Raise `PayloadTooLarge` (part, size, limit) when the envelope, given as JSON, is over one.

        `of` is added to the name of a part.
        """
        request, options = envelope.get("request") or {}, envelope.get("options") or {}
        _within(f"the prompt{of}", len(request.get("prompt", "").encode()), self.prompt)
        if request.get("attachments"):
            _within(f"the attachments{of}", _size(request["attachments"]), self.attachments)
        for what, labels in (("run", options.get("metadata")), ("request", request.get("metadata"))):
            if labels:
                _within(f"the {what}'s metadata{of}", _size(labels), self.metadata)
        _within(f"the message{of}", _size(envelope), self.message)

    def check_decision(self, interrupt_id: str, decision: Mapping[str, Any]) -> None:
        """Raise `PayloadTooLarge` when a decision, given as JSON, is over its limit."""
        _within(f"the decision on {interrupt_id!r}", _size(decision), self.decision)


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _within(part: str, size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLarge(part, size, limit)
