"""The planned fleet with tools that log in every way there is, in a process that traces but exports nothing."""

import logging
import os
from collections.abc import Sequence
from typing import Any

from celery import signals
from fleet.planned import NAME, URL, PlannedModel, registry, settings
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider

from turnfleet_kernel import ModelTurn, PlanSpec
from turnfleet_worker import ToolContext, create_app
from turnfleet_worker.errors import ModelUnavailableError
from turnfleet_worker.logs import RunFields

trace.set_tracer_provider(TracerProvider())
_log = logging.getLogger("shop")


@registry.tool
async def say(context: ToolContext, text: str) -> str:
    """Log in the run's task."""
    _log.info("said by %s", context.run_id, extra={"order": 1001})
    return text


@registry.tool
def shout(context: ToolContext, text: str) -> str:
    """Log in a thread."""
    _log.warning("shouted by %s", context.run_id)
    print(f"printed by {context.run_id}")  # noqa: T201 - what Celery makes of it is the point
    return text


class Overloaded(PlannedModel):
    """A provider whose own error quotes the prompt."""

    async def invoke(self, transcript: Sequence[dict[str, Any]]) -> ModelTurn:
        """Fail."""
        theirs = RuntimeError(f"cannot answer {transcript[-1]['content']}")
        raise ModelUnavailableError("model 'overloaded' gave no turn: RuntimeError") from theirs


registry.model("overloaded", Overloaded())
registry.delegate("speaker", PlanSpec(name="speaker", model="planned", tools=("say",)))
app = create_app(registry, URL, name=NAME, settings=settings)

if os.environ.get("OWN_LOGGING"):

    @signals.setup_logging.connect(weak=False)
    def set_up(**_: object) -> None:
        """Set logging up as a program does that wants none of Celery's."""
        handler = logging.StreamHandler()
        handler.addFilter(RunFields())
        handler.setFormatter(logging.Formatter("OWN <%(run)s> %(message)s", defaults={"run": ""}))
        logging.getLogger().addHandler(handler)
        logging.getLogger().setLevel(logging.INFO)
