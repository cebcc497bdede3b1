"""Runs of one thread go one after another: joining the line, passing the turn, and what is in front.

The record is written first and held; then the run joins its thread's line; whoever finds it at the head offers it.
A producer that dies in between leaves a held run, which the sweep offers, never a place in the line without a run.
"""

from typing import Final

from turnfleet.client.setup import Setup
from turnfleet.client.steps import Flow, execute, publish
from turnfleet.errors import FleetUnavailable, IllegalTransition, ThreadBusy, UnknownRun
from turnfleet.store import commands
from turnfleet.store.records import Offer
from turnfleet.store.transitions import TERMINAL_STATES
from turnfleet.wire import reoffer, sign_envelope

_INTERRUPTED: Final = "interrupted by a newer run of its thread"


def head_of(setup: Setup, thread_id: str) -> Flow[str | None]:
    """Give the run whose turn it is, past those that ended without leaving the line (their worker died)."""
    head = yield from execute(commands.thread_head(setup.keys, thread_id))
    while head is not None and (yield from _is_over(setup, head)):
        head = yield from execute(commands.thread_leave(setup.keys, thread_id, head))
    return head


def refuse_busy(setup: Setup, thread_id: str, run_id: str) -> Flow[None]:
    """Raise `ThreadBusy` when another run of the thread is in front of a run that is not recorded yet."""
    head = yield from head_of(setup, thread_id)
    if head is None or head == run_id:
        return
    try:
        yield from execute(commands.status(setup.keys, run_id))
    except UnknownRun:
        raise ThreadBusy(thread_id, head) from None


def withdraw(setup: Setup, thread_id: str, run_id: str) -> Flow[None]:
    """Take back a run that was recorded and found its thread busy: nothing of it stays."""
    yield from execute(commands.thread_leave(setup.keys, thread_id, run_id))
    yield from execute(commands.cancel(setup.keys, run_id, reason="its thread is busy", ttl_ms=setup.retention_ms))
    try:
        yield from execute(commands.delete(setup.keys, run_id))
    except IllegalTransition:
        return  # a worker took it in the meantime: it ends as cancelled there


def cancel_in_front(setup: Setup, thread_id: str, run_id: str) -> Flow[None]:
    """Cancel every earlier run of the thread. One that runs ends a little later."""
    earlier = yield from execute(commands.thread_in_front(setup.keys, thread_id, run_id))
    # From the back: a turn that is passed on by the head must not reach one of those.
    for each in reversed(earlier):
        try:
            ended = yield from execute(
                commands.cancel(setup.keys, each, reason=_INTERRUPTED, ttl_ms=setup.retention_ms)
            )
        except UnknownRun:
            yield from execute(commands.thread_leave(setup.keys, thread_id, each))
            continue
        if ended.state in TERMINAL_STATES:
            yield from execute(commands.thread_leave(setup.keys, thread_id, each))


def pass_turn(setup: Setup, thread_id: str, run_id: str) -> Flow[None]:
    """Leave the line of a run that ended, and offer the next one if it was this one's turn."""
    had_turn = (yield from execute(commands.thread_head(setup.keys, thread_id))) == run_id
    yield from execute(commands.thread_leave(setup.keys, thread_id, run_id))
    head = (yield from head_of(setup, thread_id)) if had_turn else None
    if head is None:
        return
    try:
        offer = yield from execute(commands.offer_now(setup.keys, head))
    except UnknownRun:
        return
    yield from publish_or_leave(setup, offer)


def publish_or_leave(setup: Setup, offer: Offer | None) -> Flow[None]:
    """Publish an offer of a recorded run; if the broker is away, leave it to the sweep, which offers it again."""
    if offer is None:
        return
    try:
        yield from publish([(offer, sign_envelope(setup.signing, reoffer(setup.fleet, offer)))])
    except FleetUnavailable:
        return


def _is_over(setup: Setup, run_id: str) -> Flow[bool]:
    try:
        snapshot = yield from execute(commands.status(setup.keys, run_id))
    except UnknownRun:
        return True
    return snapshot.state in TERMINAL_STATES
