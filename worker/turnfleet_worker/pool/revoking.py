"""A revoke means the run, wherever it stands: queued, paused, or at work under a later task id (DESIGN 5).

Celery knows a revoke by the task ids that are at work in a process. A run has several in its life, and none while it
waits. So the host hears of every id that is revoked or terminated, and records the cancel; beside that, what is at work
here under that very id is ended by Celery's own terminate, as ever.
"""

from collections.abc import Callable, Mapping
from typing import Any

from celery import bootsteps
from celery.utils.functional import maybe_list
from celery.worker.consumer.control import Control
from typing_extensions import override

__all__ = ["RevokeStep"]

Command = Callable[..., Any]


class RevokeStep(bootsteps.Step):
    """Puts itself in front of this worker's `revoke` and `terminate`; other workers of the process keep theirs."""

    requires = (Control,)

    @override
    def create(self, parent: Any) -> None:
        """Wrap the two commands, if the worker listens to any."""
        controls: list[Any] = [step for step in parent.steps if isinstance(step, Control)]
        for control in controls:
            node = control.box.node
            node.handlers = _heard_by_host(node.handlers)


def _heard_by_host(commands: Mapping[str, Command]) -> dict[str, Command]:
    def revoke(state: Any, task_id: Any, *args: Any, **options: Any) -> Any:
        answer = commands["revoke"](state, task_id, *args, **options)
        _tell(state, task_id)
        return answer

    def terminate(state: Any, signal: Any, task_id: Any, **options: Any) -> Any:
        answer = commands["terminate"](state, signal, task_id, **options)
        _tell(state, task_id)
        return answer

    return {**commands, "revoke": revoke, "terminate": terminate}


def _tell(state: Any, task_id: Any) -> None:
    runtime = getattr(state.consumer.pool, "runtime", None)
    if runtime is not None:
        runtime.revoke([each for each in maybe_list(task_id) or () if isinstance(each, str)])
