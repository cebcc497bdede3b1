"""Bare Celery on the same broker: what an empty task costs there, for comparison.

`celery -A turnfleet_worker.bench.bare worker`; a stock worker with the stock pool and settings. `BENCH_QUEUE` names
its queue and everything else that it leaves on the broker.
"""

import functools
import os
from typing import Final

from celery import Celery

from turnfleet.wire.broker_url import broker_place

TASK: Final = "turnfleet.bench.nothing"
QUEUE_VARIABLE: Final = "TURNFLEET_BENCH_QUEUE"


def build(broker_url: str, queue: str, key_prefix: str = "") -> Celery:
    """Return the app: JSON and no results, as a fleet's; all else as Celery has it."""
    place = broker_place(broker_url)
    app = Celery("bare", broker=place.url, set_as_current=False)
    if place.tls is not None:
        app.conf.broker_use_ssl = dict(place.tls)
    app.conf.update(
        broker_transport_options={**place.options, **({"global_keyprefix": key_prefix} if place.redis else {})},
        task_default_queue=queue,
        task_default_exchange=queue,
        task_default_routing_key=queue,
        control_exchange=f"{queue}.control",
        event_exchange=f"{queue}.events",
        task_ignore_result=True,
        broker_connection_retry_on_startup=True,
    )
    app.task(name=TASK)(_nothing)
    return app


def _nothing() -> None:
    return


@functools.cache
def the_app() -> Celery:
    """Return this process's app."""
    return build(
        os.environ["TURNFLEET_BROKER_URL"], os.environ[QUEUE_VARIABLE], os.environ.get("TURNFLEET_KEY_PREFIX", "")
    )


def __getattr__(name: str) -> Celery:
    if name in {"app", "celery"}:
        return the_app()
    raise AttributeError(name)
