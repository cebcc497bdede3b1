"""What happened in an invocation, in order (EVT).

===================  =======================  ===========================================================
kind                 payload                  made when
===================  =======================  ===========================================================
``stage``            trace                    a stage ended, well or not
``text_delta``       text                     a piece of the answer was let out
``reasoning_delta``  text                     a piece of the model's reasoning was let out
``tool_call_delta``  text                     a piece of a call's arguments was let out
``tool_call``        call_id, name,           a call was accepted and is about to be made, with the
                     arguments                arguments that pre-tool stages left
``tool_result``      call_id, name, outcome   a call and all calls before it in the round were over
``progress``         call_id, value           a running tool reported
``child``            run_id, parent_run_id,   a delegated run had an event of its own
                     event
``usage``            usage, total, round      a round's turn was accepted and had cost something
``approval``,        interrupt, interrupts    the run began to wait for people; last of its invocation
``question``,
``in_doubt``
``done``             outcome                  the run completed; last
``error``            error                    the run failed (``TypeName: message``); last
``cancelled``        reason                   the run was cancelled or its consumer left; last
``resumed``          attempt                  (fleet) a new attempt went on
``rewind``           to_index                 (fleet) what was shown from that index on did not count
``expired``          reason                   (fleet) the run's life was over
===================  =======================  ===========================================================

The ``run_id`` attribute of a ``child`` event is the root's, as of all its events; the delegated run's own id is
``event.event.run_id`` and ``event.payload["run_id"]``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, get_args

from turnfleet_kernel.contracts.interrupts import PAUSE_KINDS
from turnfleet_kernel.contracts.quick import quick_init

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime

__all__ = ["FLEET_KINDS", "KERNEL_KINDS", "PAUSE_KINDS", "TERMINAL_KINDS", "EventKind", "KernelEvent"]

EventKind: TypeAlias = Literal[
    "stage",
    "text_delta",
    "reasoning_delta",
    "tool_call_delta",
    "tool_call",
    "tool_result",
    "progress",
    "child",
    "usage",
    "approval",
    "question",
    "in_doubt",
    "done",
    "error",
    "cancelled",
    "resumed",
    "rewind",
    "expired",
]
"""What an event may be: a comparison with any other text is one that a type checker reports."""

TERMINAL_KINDS: Final = frozenset({"done", "error", "cancelled", "expired"})
"""Kinds that end a run. A pause ends only its invocation."""

FLEET_KINDS: Final = frozenset({"resumed", "rewind", "expired"})
"""Kinds that only the fleet adds."""

KERNEL_KINDS: Final[frozenset[str]] = frozenset(get_args(EventKind)) - FLEET_KINDS
"""Kinds that the kernel's loop makes."""


@quick_init
@dataclass(frozen=True, slots=True)
class KernelEvent:
    """One event: whose, its place in the run's order, its kind, when (aware UTC), and what its kind carries (EVT-1).

    The payload is reachable as attributes: ``event.text`` of a ``text_delta``, ``event.outcome`` of a ``done``.
    """

    run_id: str
    index: int
    kind: EventKind
    time: datetime
    payload: Mapping[str, Any]

    def __getattr__(self, name: str) -> Any:
        """Look the name up in the payload."""
        if name == "payload":
            # Only while copying or unpickling: without this the lookup below would ask itself without end.
            raise AttributeError(name)
        try:
            return self.payload[name]
        except KeyError:
            has = ", ".join(self.payload) or "nothing"
            msg = f"a {self.kind!r} event has no {name!r}; it carries {has}"
            raise AttributeError(msg) from None

    def __reduce__(self) -> tuple[Any, ...]:
        """Copy and pickle through the constructor, whatever read-only view holds the payload."""
        return (KernelEvent, (self.run_id, self.index, self.kind, self.time, dict(self.payload)))
