"""What is refused on its way in: ids, plans and messages."""

from collections.abc import Mapping, Sequence

from turnfleet_kernel.errors import TurnfleetError

__all__ = ["BadSignature", "InvalidEnvelope", "InvalidId", "PayloadTooLarge", "PlanRejected", "ThreadBusy", "WireError"]


class InvalidId(TurnfleetError, ValueError):
    """An id holds characters that keys, channels and task ids cannot carry, or has the wrong length."""

    def __init__(self, kind: str, value: object, rule: str) -> None:
        shown = repr(value)[:80]
        super().__init__(f"{kind} {shown} cannot be used: {rule}")
        self.kind = kind
        self.value = value


class PlanRejected(TurnfleetError):
    """No live worker has these names. `unknown` and `known` map a kind ("model", "tool", ...) to names."""

    def __init__(self, unknown: Mapping[str, Sequence[str]], known: Mapping[str, Sequence[str]]) -> None:
        parts = [
            f"{kind} {', '.join(map(repr, names))} (they have: {', '.join(sorted(known.get(kind, ()))) or 'none'})"
            for kind, names in unknown.items()
        ]
        super().__init__("no live worker knows what the plan names: " + "; ".join(parts))
        self.unknown = {kind: tuple(names) for kind, names in unknown.items()}
        self.known = {kind: tuple(names) for kind, names in known.items()}


class ThreadBusy(TurnfleetError):
    """Another run of the same thread is in front, and the caller asked not to wait (`double_text="reject"`)."""

    def __init__(self, thread_id: str, run_id: str) -> None:
        super().__init__(
            f"thread {thread_id!r} is busy with run {run_id!r}: wait for it, or enqueue with another double_text"
        )
        self.thread_id = thread_id
        self.run_id = run_id


class WireError(TurnfleetError):
    """What was sent, or is about to be, cannot be a turnfleet message."""


class InvalidEnvelope(WireError):
    """The envelope of a `turnfleet.invoke` message does not fit its published schema or version."""


class PayloadTooLarge(WireError):
    """A part of the message is over its limit; sizes in bytes."""

    def __init__(self, part: str, size: int, limit: int) -> None:
        super().__init__(f"{part} is {size} bytes, the limit is {limit}: send a reference instead of the content")
        self.part = part
        self.size = size
        self.limit = limit


class BadSignature(WireError):
    """What claims to be a run, a message or a decision is not as somebody with a key signed it.

    `trouble`: "unsigned", "unknown key" (`kid`; perhaps it was rotated away) or "altered". `known` are the names of
    the keys that would do.
    """

    def __init__(
        self, run_id: str, what: str, trouble: str, *, kid: str | None = None, known: Sequence[str] = ()
    ) -> None:
        ours = ", ".join(known)
        match trouble:
            case "unsigned":
                why = (
                    f"is not signed, and the workers run only what one of the keys {ours} signed: pass signing=, "
                    "or set TURNFLEET_SIGNING_KEYS for the turnfleet command"
                )
            case "unknown key":
                why = (
                    f"is signed with the key {kid!r}, and the workers have {ours}: sign with one of those, or give "
                    "that key back to the workers (it need not be the current one) and retry the run"
                )
            case _:
                why = f"does not fit its signature by {kid!r}: it was altered since, or another key has that name"
        super().__init__(f"{what} {why}")
        self.run_id = run_id
        self.trouble = trouble
        self.kid = kid
        self.known = tuple(known)
