"""A Celery service of somebody else's, on Celery's own prefork pool, whose tasks enqueue runs of a fleet."""

import os

from celery import Celery

from turnfleet import Fleet, PlanSpec

PLAN = PlanSpec(name="support", model="small")
URL, NAME = os.environ["TURNFLEET_REDIS_URL"], os.environ["TURNFLEET_NAME"]
fleet = Fleet(URL, name=NAME)
fleet.enqueue(PLAN, "hi", run_id=f"preload-{os.getpid()}")

app = Celery("caller", broker=URL, set_as_current=False)
app.conf.update(task_default_queue=f"caller-{NAME}", task_ignore_result=True)


@app.task(name="caller.enqueue")
def enqueue(run_id: str) -> None:
    """Enqueue a run, and add who did it to a run's metadata."""
    run = fleet.enqueue(PLAN, "hi", run_id=run_id, metadata={"pid": os.getpid()})
    assert run.status().run_id == run_id
