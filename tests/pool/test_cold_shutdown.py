"""Celery's cold shutdown runs in a signal handler, in the middle of whatever the consumer's thread was doing."""

from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.worker import state as worker_state

from turnfleet_worker.pool.consumer import FleetConsumer
from turnfleet_worker.pool.taskpool import TaskPool


@pytest.mark.timeout(60)
def test_a_flush_out_of_the_middle_of_a_flush_does_not_wait() -> None:
    """The lock that the interrupted flush holds is never released while the handler runs."""
    app = Celery(set_as_current=False, broker="memory://")
    with app.connection_for_write() as connection, app.events.Dispatcher(connection, enabled=False) as dispatcher:
        consumer: Any = SimpleNamespace(task_consumer=None, event_dispatcher=dispatcher)
        with dispatcher.mutex:
            FleetConsumer.flush(consumer)
        FleetConsumer.flush(consumer)
        assert not dispatcher.mutex.locked()


@pytest.mark.parametrize(("terminating", "now"), [(None, False), (False, False), (True, True)])
def test_a_stop_asked_for_by_the_cold_shutdown_waits_for_nobody(
    monkeypatch: pytest.MonkeyPatch, terminating: bool | None, now: bool
) -> None:
    """Also where it is the first to ask: a second signal may come before the first one's stop has begun."""
    asked: list[bool] = []
    runtime = SimpleNamespace(stop=lambda *, now=False: asked.append(now))
    pool: Any = SimpleNamespace(runtime=runtime, _threads=SimpleNamespace(shutdown=lambda: None))
    monkeypatch.setattr(worker_state, "should_terminate", terminating)
    TaskPool.on_stop(pool)
    assert asked == [now]
