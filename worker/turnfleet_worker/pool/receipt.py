"""What happens to a `turnfleet.invoke` message on arrival: refused at once, or handed to the runtime.

In place of Celery's default strategy, which would hold a message with an eta unacknowledged in this process's
memory, and drop a revoked one without the run's record hearing of it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from celery import signals
from celery.app.trace import LOG_RECEIVED
from celery.utils.log import get_logger
from celery.worker import state as worker_state

from turnfleet_worker.pool.request import InvokeRequest, is_time_limit

__all__ = ["Refusal", "invoke_strategy"]

_log = get_logger("celery.worker.strategy")

_PROTOCOL_2_PARTS: Final = 3
_NO_ETA: Final = "Celery's {name} is not used for turnfleet.invoke: put it into the envelope's options"
_NO_CANVAS: Final = "{name} is not used for turnfleet.invoke: a run may pause for days; follow its events instead"


class Refusal(Exception):
    """A message that will not be run; `kind` is counted, the text says why and never what was in it."""

    def __init__(self, kind: str, reason: str) -> None:
        super().__init__(reason)
        self.kind = kind


def invoke_strategy(task: Any, app: Any, consumer: Any) -> Callable[..., None]:
    """Return the function that receives this task's messages (Celery's strategy interface)."""
    del app

    def receive(message: Any, body: object, ack: object, reject: object, callbacks: Any) -> None:
        del ack, reject  # the request answers for itself, see its module
        try:
            envelope = _envelope(message, body)
        except Refusal as refusal:
            consumer.refuse(message, refusal.kind, str(refusal))
            return
        request = InvokeRequest(message, consumer=consumer, task=task, envelope=envelope, headers=message.headers)
        _log_arrival(request, consumer)
        worker_state.task_reserved(request)
        for callback in callbacks or ():
            callback(request)
        consumer.on_task_request(request)

    return receive


def _envelope(message: Any, body: object) -> object:
    """Return the message's envelope, or raise `Refusal`; what is inside the envelope is the host's to judge."""
    if body is not None:
        raise Refusal("protocol", "it follows Celery's message protocol 1; protocol 2 is needed")
    payload = message.payload
    if not isinstance(payload, list | tuple) or len(payload) != _PROTOCOL_2_PARTS:
        raise Refusal("protocol", "its body is not the three parts [args, kwargs, embed] of protocol 2")
    args, kwargs, embed = payload
    if args or not isinstance(kwargs, Mapping) or set(kwargs) != {"envelope"}:
        raise Refusal("envelope", "turnfleet.invoke takes exactly one argument, the keyword argument `envelope`")
    _check_options(message.headers, embed if isinstance(embed, Mapping) else {})
    return kwargs["envelope"]


def _check_options(headers: Mapping[str, Any], embed: Mapping[str, Any]) -> None:
    for name in ("eta", "expires"):
        if headers.get(name) is not None:
            raise Refusal("options", _NO_ETA.format(name=name))
    for name in ("callbacks", "errbacks", "chain", "chord"):
        if embed.get(name):
            raise Refusal("options", _NO_CANVAS.format(name=name))
    limits = headers.get("timelimit") or (None, None)
    if not isinstance(limits, list | tuple) or len(limits) != len((None, None)) or not all(map(is_time_limit, limits)):
        raise Refusal("options", "its time limits are not [hard, soft] in seconds")


def _log_arrival(request: InvokeRequest, consumer: Any) -> None:
    context = {
        "id": request.id,
        "name": request.name,
        "args": request.argsrepr,
        "kwargs": request.kwargsrepr,
        "eta": None,
    }
    _log.info(LOG_RECEIVED.strip(), context, extra={"data": context})
    signals.task_received.send(sender=consumer, request=request)
