"""How an invocation leaves: decided by a plain function, performed by `leaving.py` (STYLE, habits 2 and 3)."""

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, TypeAlias

from turnfleet.store.records import Offer
from turnfleet_kernel.contracts.events import PAUSE_KINDS, KernelEvent
from turnfleet_kernel.contracts.interrupts import InvocationPreempted
from turnfleet_worker.errors import NewerJournal


class Verdict(Enum):
    """Why the host itself cancelled an invocation."""

    CANCEL = "cancel"
    """Somebody cancelled the run, or its life is over: the store knows which."""
    HAND_OVER = "hand over"
    """The process ends before the run does."""
    LOST = "lost"
    """Another worker has the run."""


@dataclass(frozen=True, slots=True)
class Finish:
    """End the run. `event` is the kernel's terminal event, None where there is none: the host then makes one."""

    state: Literal["completed", "failed", "cancelled"]
    event: KernelEvent | None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """Let the run wait for people."""

    event: KernelEvent


@dataclass(frozen=True, slots=True)
class Release:
    """Hand the run back: nothing is published as an end (CXL-7)."""


@dataclass(frozen=True, slots=True)
class Drop:
    """Say nothing more about this run: another worker has it."""


@dataclass(frozen=True, slots=True)
class SetAside:
    """Leave the run to a worker that can read it: nothing of it was looked at, and nothing written."""

    error: NewerJournal


Leaving: TypeAlias = Finish | Pause | Release | Drop | SetAside


@dataclass(frozen=True, slots=True)
class Left:
    """How a claim ended: the run's `state` now, an offer to publish, what Flower shows, and the run's own error.

    `content` is what the run was about, for whoever may see it.
    """

    state: str
    offer: Offer | None = None
    interrupts: tuple[Mapping[str, Any], ...] = ()
    content: Mapping[str, Any] | None = None
    error: BaseException | None = None


def decide(verdict: Verdict | None, last: KernelEvent | None, raised: BaseException | None) -> Leaving:
    """Say how the invocation leaves, from the host's verdict, the kernel's last event and what it raised.

    An end that the kernel reached before the verdict took hold stands: a cancel recorded in time is applied by
    the store, which knows the order.
    """
    if verdict is Verdict.LOST:
        return Drop()
    if isinstance(raised, InvocationPreempted):
        return Release()
    match last:
        case KernelEvent(kind="done"):
            return Finish("completed", last)
        case KernelEvent(kind="error"):
            return Finish("failed", last, raised)
        case KernelEvent(kind=kind) if kind in PAUSE_KINDS:
            return Pause(last)
        case _:
            return _by_verdict(verdict, last, raised)


def _by_verdict(verdict: Verdict | None, last: KernelEvent | None, raised: BaseException | None) -> Leaving:
    """Say how an invocation leaves that the kernel did not bring to an end of its own."""
    if isinstance(raised, NewerJournal):
        return SetAside(raised)
    match verdict:
        case Verdict.HAND_OVER:
            return Release()
        case Verdict.CANCEL:
            return Finish("cancelled", last)
        case _:
            return Finish("failed", None, raised)
