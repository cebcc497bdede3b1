"""Enqueueing: first the record, then the message. What goes wrong in between is repaired by the sweep."""

from collections.abc import Sequence

from turnfleet.client.capabilities import Announcement, check_names, check_signing
from turnfleet.client.order import Order
from turnfleet.client.setup import Setup
from turnfleet.client.steps import Flow, execute, execute_many, now, publish
from turnfleet.client.threads import cancel_in_front, head_of, refuse_busy, withdraw
from turnfleet.errors import FleetUnavailable, ThreadBusy, TurnfleetError
from turnfleet.store import commands
from turnfleet.store.records import Created, NewRun, Offer
from turnfleet.wire import Envelope, first_offer, new_run, sign_envelope
from turnfleet.wire.trace_context import current_trace


def enqueue(setup: Setup, order: Order) -> Flow[None]:
    """Record one run and publish its first message; a run that exists with the same request is left as it is.

    Raises `PlanRejected`, `BadSignature`, `PayloadTooLarge`, `RunIdConflict`, `ThreadBusy`; `FleetUnavailable` with
    the run's id, and `maybe_enqueued=True` once its record may exist.
    """
    try:
        _check(setup, order, (yield from setup.capabilities.get(setup.keys)))
        envelope = _envelope(setup, order, (yield from _moment([order])))
        thread_id = order.options.thread_id
        if thread_id is not None and order.double_text == "reject":
            yield from refuse_busy(setup, thread_id, order.run_id)
    except FleetUnavailable as error:
        raise FleetUnavailable(str(error), run_id=order.run_id) from error.__cause__
    try:
        run = new_run(envelope, held=thread_id is not None, trace=current_trace())
        created = yield from execute(commands.create(setup.keys, run))
        offer = first_offer(run) if created.publish else None
        if thread_id is not None and not created.existed:
            offer = yield from _join(setup, order, thread_id)
        if offer is not None:
            yield from publish([(offer, envelope)])
    except FleetUnavailable as error:
        raise FleetUnavailable(str(error), run_id=order.run_id, maybe_enqueued=True) from error.__cause__


def enqueue_many(setup: Setup, orders: Sequence[Order]) -> Flow[None]:
    """Record runs in one round trip and publish their messages on one connection; runs of threads go one by one.

    What is wrong with one of them in itself is raised before any is recorded. A `RunIdConflict` is raised when all
    others were enqueued.
    """
    alone = [order for order in orders if order.options.thread_id is None]
    threaded = [order for order in orders if order.options.thread_id is not None]
    announced = yield from setup.capabilities.get(setup.keys)
    for order in orders:
        _check(setup, order, announced)
    moment = yield from _moment(orders)
    envelopes = [_envelope(setup, order, moment) for order in alone]
    trace = current_trace()
    runs = [new_run(each, trace=trace) for each in envelopes]
    try:
        created = yield from execute_many([commands.create(setup.keys, run) for run in runs])
        yield from publish(_first_messages(runs, envelopes, created))
    except FleetUnavailable as error:
        raise FleetUnavailable(str(error), run_id=alone[0].run_id, maybe_enqueued=True) from error.__cause__
    for order in threaded:
        yield from enqueue(setup, order)
    for envelope, each in zip(envelopes, created, strict=True):
        if isinstance(each, FleetUnavailable):
            raise FleetUnavailable(str(each), run_id=envelope.run_id, maybe_enqueued=True) from each
        if isinstance(each, TurnfleetError):
            raise each


def _check(setup: Setup, order: Order, announced: Sequence[Announcement]) -> None:
    check_names(order.plan, announced)
    check_signing(setup.signing, announced, order.run_id, f"run {order.run_id!r}")


def _first_messages(
    runs: Sequence[NewRun], envelopes: Sequence[Envelope], created: Sequence[Created | TurnfleetError]
) -> list[tuple[Offer, Envelope]]:
    return [
        (first_offer(run), envelope)
        for run, envelope, each in zip(runs, envelopes, created, strict=True)
        if isinstance(each, Created) and each.publish
    ]


def _moment(orders: Sequence[Order]) -> Flow[float]:
    """Ask the fleet's clock if a span in one of the orders counts from it."""
    return (yield from now()) if any(order.needs_clock for order in orders) else 0.0


def _envelope(setup: Setup, order: Order, moment: float) -> Envelope:
    envelope = sign_envelope(setup.signing, order.envelope(setup.fleet, moment))
    setup.limits.check(envelope.to_json())
    return envelope


def _join(setup: Setup, order: Order, thread_id: str) -> Flow[Offer | None]:
    """Join the thread's line with a run that was just recorded; give its offer if it is its turn."""
    place = yield from execute(commands.thread_join(setup.keys, thread_id, order.run_id))
    if place > 0 and order.double_text == "interrupt":
        yield from cancel_in_front(setup, thread_id, order.run_id)
    head = yield from head_of(setup, thread_id)
    if head == order.run_id:
        return (yield from execute(commands.offer_now(setup.keys, order.run_id)))
    if order.double_text == "reject" and head is not None:
        # Another producer was faster between our look and our record.
        yield from withdraw(setup, thread_id, order.run_id)
        raise ThreadBusy(thread_id, head)
    return None
