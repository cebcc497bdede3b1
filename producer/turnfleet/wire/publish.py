"""From an offer ("look at run R") to a Celery message: the only module that talks to the broker.

The record is the truth and a message is a hint (DESIGN section 1), so publishing twice is harmless and the
one retry here needs no memory of what the first try did. Every step is bounded in time: a broker that is
down or silent is a `FleetUnavailable` within seconds, never a hang.
"""

import os
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from turnfleet.errors import FleetUnavailable
from turnfleet.store.keys import validate_id
from turnfleet.store.place import hide
from turnfleet.store.records import Offer
from turnfleet.wire.broker import TASK_NAME, celery_settings, transport_priority
from turnfleet.wire.connecting import bounded, producer_app
from turnfleet.wire.envelope import Envelope, reoffer
from turnfleet.wire.shown import Shown
from turnfleet.wire.signed import sign_envelope
from turnfleet.wire.signing import SigningKeys
from turnfleet.wire.trace_context import current_headers, headers_of

if TYPE_CHECKING:
    from celery import Celery
    from kombu import Connection

_MAX_IDLE: Final = 8
_BATCH: Final = 200


def task_id(run_id: str, number: int) -> str:
    """Return the Celery task id of a run's offer: the run id itself for the first, `run_id:2` and so on after it.

    Flower so finds a run by the id that users know, and a later message never revives a task that ended.
    """
    return run_id if number == 1 else f"{run_id}:{number}"


@dataclass(frozen=True, slots=True)
class _Line:
    """A connection to the broker with the producer on it; one thread at a time."""

    connection: "Connection"
    producer: Any  # kombu's Producer: its published types do not know batch() yet
    driver_type: str
    sent_events: Any
    """Celery's dispatcher, which keeps the announcements of a batch and sends them as one message."""
    declared: set[str]
    """The queues that were declared on this connection."""

    def to_declare(self, queue: str) -> list[str] | None:
        """Return what Celery is to declare: None, the queue, only once. kombu would look each time, at a price."""
        if queue in self.declared:
            return []
        self.declared.add(queue)
        return None


class _SentAs:
    """Celery's announcement that a message was sent, under the name that the worker's announcements have."""

    def __init__(self, dispatcher: Any, name: str) -> None:
        self._dispatcher = dispatcher
        self._name = name

    def publish(self, kind: str, fields: Mapping[str, Any], _producer: Any, **_: Any) -> None:
        """Announce with the rest of the batch; Celery itself would name the task, and leave `shadow` out."""
        self._dispatcher.send(kind, **{**fields, "name": self._name})


class Publisher:
    """Publishes offers of one fleet; safe to share between threads, and after a fork.

    `source` is a broker URL, or the Celery app of a worker, whose broker and settings are then used.
    `timeout` (seconds) bounds each wait on the broker's socket. Connections are opened when first needed,
    one for each thread that publishes at the same moment, and kept. `signing` signs offers of recorded runs;
    `key_prefix` is what the fleet's keys on a Redis begin with (an app has it in its settings).
    """

    def __init__(
        self,
        source: "Celery | str",
        fleet: str,
        *,
        timeout: float = 5.0,
        signing: SigningKeys | None = None,
        key_prefix: str = "",
    ) -> None:
        self.fleet = validate_id("fleet name", fleet)
        self._signing = signing
        self._timeout = timeout
        self._source = source
        self._key_prefix = key_prefix
        # Not the app's: there the environment of the service's own Celery would win.
        self._url: str | None = (
            celery_settings(fleet, source, key_prefix)["broker_url"] if isinstance(source, str) else None
        )
        self._idle: deque[_Line] = deque()
        self._pid = os.getpid()

    @cached_property
    def _app(self) -> "Celery":
        if isinstance(self._source, str):
            return producer_app(self._source, self.fleet, self._key_prefix)
        return self._source

    def publish(self, offer: Offer, envelope: Envelope) -> None:
        """Publish one offer; raises as `publish_many` does."""
        self.publish_many([(offer, envelope)])

    def publish_offers(self, offers: Sequence[Offer]) -> None:
        """Publish offers of runs whose records exist: each carries the digest, not the plan and request."""
        self.publish_many([(offer, sign_envelope(self._signing, reoffer(self.fleet, offer))) for offer in offers])

    def publish_many(self, messages: Sequence[tuple[Offer, Envelope]]) -> None:
        """Publish messages on one connection, in order, batched where the transport can.

        Raises `FleetUnavailable` (`maybe_enqueued=True`, `run_id` that of the first message) when the broker does
        not answer; any of them may have been published then, and the sweep offers again what was not.
        """
        if not messages:
            return
        kept = self._take_idle()
        if kept is not None:
            # A kept connection may have died unseen (a restarted broker): that is no reason to give up.
            with suppress(FleetUnavailable):
                self._attempt(kept, messages)
                return
        self._attempt(self._new_line(), messages)

    def _attempt(self, line: "_Line", messages: Sequence[tuple[Offer, Envelope]]) -> None:
        connection = line.connection
        try:
            with line.producer.batch(_BATCH):
                for offer, envelope in messages:
                    self._send(line, offer, envelope)
                line.sent_events.flush()
        except BaseException as error:
            from kombu.exceptions import KombuError  # noqa: PLC0415 - loaded by now, with the connection

            # What the socket still holds is unknown: no later message may read it.
            connection.collect()
            if isinstance(error, (KombuError, OSError, *connection.connection_errors, *connection.channel_errors)):
                raise self._unavailable(messages[0][0].run_id, error) from error
            raise
        if len(self._idle) < _MAX_IDLE:
            self._idle.append(line)
        else:
            connection.release()

    def _send(self, line: "_Line", offer: Offer, envelope: Envelope) -> None:
        shown = Shown(offer.plan_name, offer.number, offer.run_id)
        self._app.send_task(
            TASK_NAME,
            kwargs={"envelope": envelope.to_json()},
            task_id=task_id(offer.run_id, offer.number),
            root_id=offer.run_id,
            headers=headers_of(offer.trace) or current_headers(),
            # What Flower, logs and events show: never the prompt (DESIGN section 7).
            argsrepr="()",
            kwargsrepr=shown.arguments,
            shadow=shown.name,
            event_dispatcher=_SentAs(line.sent_events, shown.name),
            queue=offer.queue,
            declare=line.to_declare(offer.queue),
            priority=transport_priority(offer.priority, line.driver_type),
            producer=line.producer,
            retry=False,
            ignore_result=True,
            add_to_parent=False,
        )

    def _take_idle(self) -> "_Line | None":
        if self._pid != os.getpid():
            # The parent's sockets are inherited by a fork and must not be used, nor shut down, here.
            self._idle, self._pid = deque(), os.getpid()  # in this order: other threads look at the pid
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def _new_line(self) -> "_Line":
        connection = bounded(self._app.connection_for_write(self._url, connect_timeout=self._timeout), self._timeout)
        producer = self._app.amqp.Producer(connection, auto_declare=False)
        events = self._app.events.Dispatcher(connection, buffer_group=frozenset({"task"}), buffer_limit=_BATCH)
        events.producer = producer  # its own would send outside of the batch
        return _Line(connection, producer, connection.transport.driver_type, events, set())

    def _unavailable(self, run_id: str, error: BaseException) -> FleetUnavailable:
        text = hide(str(error), self._url or str(self._app.conf.broker_url or ""))
        message = (
            f"the broker of fleet {self.fleet!r} did not take the message for run {run_id!r} "
            f"({type(error).__name__}: {text}); the run's record is kept and a worker's sweep offers it again"
        )
        if "no permissions" in text:
            message += "; turnfleet acl --queue NAME prints the rules of users who may use a queue of your own"
        return FleetUnavailable(message, run_id=run_id, maybe_enqueued=True)

    def close(self) -> None:
        """Close the idle connections; a later publish opens new ones."""
        while self._pid == os.getpid() and self._idle:
            self._idle.pop().connection.release()
