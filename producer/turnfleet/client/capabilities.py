"""What live workers announce, and whether a plan's names are among it (DESIGN section 5, "Version")."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, Final

from turnfleet.client.steps import Flow, execute
from turnfleet.errors import BadSignature, PlanRejected
from turnfleet.store import Keys, commands
from turnfleet.wire import SigningKeys
from turnfleet_kernel.contracts.spec import PlanSpec

Announcement = Mapping[str, Any]

CACHE_SECONDS: Final = 1.0

_KINDS: Final = {"model": "models", "tool": "tools", "stage": "stages", "delegate": "delegates"}


class Capabilities:
    """The announcements of live workers, asked for again when they are `fresh_seconds` old."""

    def __init__(self, fresh_seconds: float = CACHE_SECONDS) -> None:
        self._fresh = fresh_seconds
        self._announced: Sequence[Announcement] = ()
        self._asked: float | None = None

    def get(self, keys: Keys) -> Flow[Sequence[Announcement]]:
        """Give what live workers announce."""
        now = time.monotonic()
        if self._asked is None or now - self._asked >= self._fresh:
            self._announced = yield from execute(commands.workers(keys))
            self._asked = now
        return self._announced


def check_names(plan: PlanSpec, announced: Sequence[Announcement]) -> None:
    """Raise one `PlanRejected` that lists every name of the plan which no live worker has, and what there is.

    Without live workers nothing can be said: the run is enqueued and waits (or is parked when one looks at it).
    """
    if not announced:
        return
    known = {kind: _names(announced, listed) for kind, listed in _KINDS.items()}
    wanted = {
        "model": tuple(plan.palette.values()),
        "tool": plan.tools,
        "stage": tuple(stage.name for stage in plan.stages),
        "delegate": plan.delegates,
    }
    unknown = {kind: sorted(set(names) - known[kind]) for kind, names in wanted.items()}
    unknown = {kind: names for kind, names in unknown.items() if names}
    if unknown:
        raise PlanRejected(unknown, {kind: sorted(names) for kind, names in known.items()})


def check_signing(signing: SigningKeys | None, announced: Sequence[Announcement], run_id: str, what: str) -> None:
    """Raise `BadSignature` when no live worker would take what these keys sign (None: what nobody signs)."""
    asking: list[Sequence[str]] = [each["signing"] for each in announced if each.get("signing")]
    if not announced or len(asking) < len(announced):
        return
    known = sorted({name for names in asking for name in names})
    if signing is not None and signing.current in known:
        return
    trouble, kid = ("unsigned", None) if signing is None else ("unknown key", signing.current)
    raise BadSignature(run_id, what, trouble, kid=kid, known=known)


def _names(announced: Sequence[Announcement], listed: str) -> set[str]:
    return {name for each in announced for name in each.get(listed, ())}
