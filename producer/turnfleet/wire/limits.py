"""How large the parts of a message may be, and how late its times. The producer refuses what is over, at once."""

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
    """Limits in bytes of UTF-8 (of JSON, for attachments and the whole message).

    Large content belongs into an object store; a message carries its address.
    """

    prompt: int = _MIB
    attachments: int = 4 * _MIB
    message: int = 8 * _MIB

    def check(self, envelope: Mapping[str, Any]) -> None:
        """Raise `PayloadTooLarge` (part, size, limit) when the envelope, given as JSON, is over one."""
        request = envelope.get("request") or {}
        _within("the prompt", len(request.get("prompt", "").encode()), self.prompt)
        if request.get("attachments"):
            _within("the attachments", _size(request["attachments"]), self.attachments)
        _within("the message", _size(envelope), self.message)


def _size(value: Any) -> int:
    return len(json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode())


def _within(part: str, size: int, limit: int) -> None:
    if size > limit:
        raise PayloadTooLarge(part, size, limit)
