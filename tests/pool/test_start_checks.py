"""Set-ups under which a worker would lose, repeat or hold what it must not: refused with the reason, no host made."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from celery import Celery
from celery.concurrency.gevent import TaskPool as GreenletPool

from turnfleet import InvalidAddress
from turnfleet_worker import Registry, create_app
from turnfleet_worker.celery_app import build
from turnfleet_worker.pool import Host
from turnfleet_worker.pool.checks import reason_to_refuse
from turnfleet_worker.settings import WorkerSettings
from turnfleet_worker.task import TASK_NAME


def no_host(_: Celery) -> Host:
    """Fail: a worker that is refused must not have come this far."""
    pytest.fail("a host was made")


def refusal(change: Callable[[Celery], object], broker_url: str = "redis://127.0.0.1:1/0", pool: str = "") -> str:
    """Put a worker together, which connects to nothing yet, and return why it ends."""
    app = build(no_host, fleet="checks", broker_url=broker_url, settings=WorkerSettings())
    change(app)
    with pytest.raises(SystemExit) as end:
        app.WorkController(hostname="checks@test", pool=pool or None)
    assert end.value.code not in (0, None)
    return str(end.value.code)


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_pools_that_cannot_run_coroutines(pool: str) -> None:
    """Prefork and threads, however they were chosen (DESIGN 6)."""
    assert "turnfleet does not run on Celery's" in refusal(lambda _: None, pool=pool)
    assert "--pool=solo" in refusal(lambda app: app.conf.update(worker_pool=pool))


def test_pools_of_greenlets() -> None:
    """Where gevent is installed, that is; elsewhere Celery itself ends at `-P gevent` (eventlet is the same case)."""
    said = reason_to_refuse(SimpleNamespace(pool_cls=GreenletPool))
    assert said is not None
    assert "Celery's gevent pool: it replaces the sockets and threads" in said


@pytest.mark.parametrize(
    ("option", "value", "reason"),
    [
        ("acks_late", True, "a lost connection would run it twice"),
        ("reject_on_worker_lost", True, "taken up when their lease is over"),
        ("rate_limit", "1/s", "Celery would hold messages"),
        ("expires", 60, "enqueue(expires=)"),
        ("autoretry_for", (OSError,), "run.retry()"),
    ],
)
def test_options_of_the_task_that_the_record_answers_for(option: str, value: object, reason: str) -> None:
    """Celery's own retry, late acknowledgement and expiry do not reach `turnfleet.invoke` (DESIGN 7)."""
    said = refusal(lambda app: setattr(app.tasks[TASK_NAME], option, value))
    assert said.startswith(f"The worker does not start: {option} is set for turnfleet.invoke")
    assert reason in said


def test_content_other_than_json() -> None:
    """Nothing unpickles, whatever a configuration says (DESIGN 7)."""
    assert "JSON only" in refusal(lambda app: app.conf.update(accept_content=["json", "pickle"]))


def test_a_task_that_celery_would_never_await() -> None:
    """A user's own `async def` task would seem to succeed and do nothing."""

    async def later() -> None: ...

    assert "the task plain.later is an async function" in refusal(lambda app: app.task(name="plain.later")(later))


def test_a_broker_without_an_event_loop() -> None:
    """Celery would turn to a loop that looks for acknowledgements every two seconds."""
    assert "Redis or RabbitMQ" in refusal(lambda _: None, broker_url="memory://")


def test_late_acknowledgement_of_a_users_own_tasks_is_none_of_our_business() -> None:
    """`task_acks_late` is for them; ours says for itself that it is not late."""
    app = build(no_host, fleet="checks", broker_url="redis://127.0.0.1:1/0", settings=WorkerSettings())
    app.conf.update(task_acks_late=True, task_annotations={"*": {"acks_late": True}})
    assert app.tasks[TASK_NAME].acks_late is False


def test_the_task_cannot_be_called_without_a_worker() -> None:
    """A direct call has no message, no claim and no host: it says where to go."""
    app = build(no_host, fleet="checks", broker_url="redis://127.0.0.1:1/0", settings=WorkerSettings())
    with pytest.raises(RuntimeError, match=r"enqueue the run with turnfleet\.Fleet"):
        app.tasks[TASK_NAME](envelope={})


@pytest.mark.parametrize(
    ("arguments", "options", "error", "says"),
    [
        ((Registry, "redis://localhost"), {}, TypeError, "create_app takes a Registry, not <class"),
        ((Registry(), "redis://localhost"), {"settings": {"lease_seconds": 3}}, TypeError, "takes a WorkerSettings"),
        ((Registry(), None), {}, InvalidAddress, "is the variable that should hold it unset"),
        ((Registry(), "localhost:6379"), {}, InvalidAddress, "the URL makes no sense"),
    ],
)
def test_an_app_is_made_of_what_it_says(arguments: Any, options: Any, error: type[Exception], says: str) -> None:
    """Refused where the fleet is written down, not by a worker process that has begun to start."""
    with pytest.raises(error, match=says):
        create_app(*arguments, **options)
