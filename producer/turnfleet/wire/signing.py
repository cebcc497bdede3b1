"""Keys that sign what runs and what was decided, and check it: HMAC-SHA256 over RFC 8785 JSON (design/signing.md)."""

import base64
import binascii
import hashlib
import hmac
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal, TypeAlias

from turnfleet.errors import BadSignature
from turnfleet_kernel.contracts.canonical import digested_json

KEYS_VARIABLE: Final = "TURNFLEET_SIGNING_KEYS"
KEY_NAME: Final = r"^[A-Za-z0-9._-]{1,64}$"
SIGNATURE: Final = r"^[0-9a-f]{64}$"
SHORTEST_KEY: Final = 32
"""Bytes: as many as SHA-256 gives; a shorter key is easier to guess than the signature."""

Trouble: TypeAlias = Literal["unsigned", "unknown key", "altered"]


@dataclass(frozen=True, slots=True)
class Signature:
    """Which key signed (`kid`), and its HMAC (`sig`, 64 hex digits)."""

    kid: str
    sig: str

    @classmethod
    def of(cls, kid: str | None, sig: str | None) -> "Signature | None":
        """Return the signature that two optional fields say; None unless both are there."""
        return cls(kid, sig) if kid and sig else None


class SigningKeys:
    """The keys of a fleet, by name: `current` signs (by default the first), all of them verify.

    A key is 32 random bytes or more, the same for producers and workers; names are public. Raises ValueError, showing
    no key, for what cannot be used.
    """

    __slots__ = ("_keys", "current")

    def __init__(self, keys: Mapping[str, bytes], *, current: str | None = None) -> None:
        if not keys:
            raise ValueError("signing needs at least one key")
        for name, key in keys.items():
            if re.fullmatch(KEY_NAME, name) is None:
                raise ValueError("the name of a signing key is 1 to 64 letters, digits or ._-")
            if not hasattr(key, "decode") or len(key) < SHORTEST_KEY:  # a text would do until the first signature
                raise ValueError(f"the signing key {name!r} must be {SHORTEST_KEY} random bytes or more")
        self._keys = dict(keys)
        self.current = next(iter(keys)) if current is None else current
        if self.current not in self._keys:
            raise ValueError(f"current={self.current!r} is none of the signing keys {', '.join(self.names)}")

    def __repr__(self) -> str:
        return f"SigningKeys({', '.join(self.names)}; current={self.current!r})"

    @property
    def names(self) -> tuple[str, ...]:
        """The names of all keys, in order."""
        return tuple(self._keys)

    @classmethod
    def from_text(cls, text: str) -> "SigningKeys":
        """Read `name:base64,name:base64`; the first key signs. Raises ValueError, showing none of it."""
        keys: dict[str, bytes] = {}
        for number, entry in enumerate(text.split(","), 1):
            name, colon, encoded = entry.strip().partition(":")
            try:
                key = base64.b64decode(encoded, altchars=b"-_" if set(encoded) & set("-_") else None, validate=True)
            except (binascii.Error, ValueError):
                key = b""
            if not colon or not key or name in keys:
                raise ValueError(f"signing keys read NAME:BASE64,NAME:BASE64, each name once; number {number} does not")
            keys[name] = key
        return cls(keys)

    @classmethod
    def from_environment(cls, environment: Mapping[str, str] = os.environ) -> "SigningKeys | None":
        """Read `TURNFLEET_SIGNING_KEYS`; None when it is not set, or empty."""
        text = environment.get(KEYS_VARIABLE, "").strip()
        if not text:
            return None
        try:
            return cls.from_text(text)
        except ValueError as error:
            raise ValueError(f"{KEYS_VARIABLE}: {error}") from None

    def sign(self, content: Mapping[str, Any]) -> Signature:
        """Sign a JSON object with the current key."""
        return Signature(self.current, _hmac(self._keys[self.current], content))

    def trouble(self, content: Mapping[str, Any], signature: Signature | None) -> Trouble | None:
        """Say what is wrong with a signature of this content; None when nothing is."""
        if signature is None:
            return "unsigned"
        key = self._keys.get(signature.kid)
        if key is None:
            return "unknown key"
        try:
            right = _hmac(key, content)
        except ValueError:  # not even JSON: nobody signed that
            return "altered"
        return None if hmac.compare_digest(right.encode(), signature.sig.encode(errors="replace")) else "altered"

    def check(self, content: Mapping[str, Any], signature: Signature | None, *, run_id: str, what: str) -> None:
        """Raise `BadSignature` unless one of the keys signed this content. `what` names it, for people."""
        trouble = self.trouble(content, signature)
        if trouble is not None:
            raise BadSignature(run_id, what, trouble, kid=signature.kid if signature else None, known=self.names)


def _hmac(key: bytes, content: Mapping[str, Any]) -> str:
    return hmac.new(key, digested_json(content), hashlib.sha256).hexdigest()
