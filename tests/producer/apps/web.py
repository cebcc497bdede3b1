"""A WSGI service whose fleet is made, and used, before gunicorn forks (`--preload`)."""

import json
import os
from collections.abc import Callable, Iterable
from typing import Any

from turnfleet import Fleet, PlanSpec

PLAN = PlanSpec(name="support", model="small")
fleet = Fleet(os.environ["TURNFLEET_REDIS_URL"], name=os.environ["TURNFLEET_NAME"])
fleet.enqueue(PLAN, "hi", run_id=f"preload-{os.getpid()}")


def application(environ: dict[str, Any], start_response: Callable[..., Any]) -> Iterable[bytes]:
    """Enqueue the run that the path names; answer with what its status says, and who answers."""
    run = fleet.enqueue(PLAN, "hi", run_id=environ["PATH_INFO"].strip("/"))
    answer = {"run_id": run.status().run_id, "pid": os.getpid()}
    start_response("200 OK", [("Content-Type", "application/json")])
    return [json.dumps(answer).encode()]
