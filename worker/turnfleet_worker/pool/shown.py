"""What events, logs and Flower show of a message, in the place of Celery's own name and arguments.

Our producer wrote something safe into the headers. Any other client's library writes a repr of the arguments, prompt
included, and may name the task as it likes: of such a message only names are shown, read from its envelope.
"""

from collections.abc import Mapping
from typing import Any, Final

from turnfleet.errors import InvalidId
from turnfleet.store.keys import validate_id
from turnfleet.wire.shown import Shown, read_shown

__all__ = ["HIDDEN", "shown_headers"]

HIDDEN: Final = "{'envelope': '...'}"
MOST_PROMPT_CHARACTERS: Final = 500


def shown_headers(headers: Mapping[str, Any], envelope: object, *, content: bool) -> dict[str, Any]:
    """Return the headers that say what is shown; with `content`, the beginning of the prompt too, where it travels."""
    shown = read_shown(headers.get("kwargsrepr")) or _names_in(envelope)
    arguments = HIDDEN if shown is None else shown.arguments
    prompt = _text_in(envelope, "request", "prompt") if content else None
    if prompt is not None:
        arguments = f"{arguments.removesuffix('}')}, 'prompt': {prompt[:MOST_PROMPT_CHARACTERS]!r}}}"
    return {"argsrepr": "()", "kwargsrepr": arguments, "shadow": None if shown is None else shown.name}


def _names_in(envelope: object) -> Shown | None:
    """Read the names of a foreign client's message, its run's first. What it holds was not checked yet."""
    plan, run_id = _text_in(envelope, "plan", "name"), _text_in(envelope, "run_id")
    if plan is None or run_id is None:
        return None
    try:
        return Shown(plan, 1, validate_id("run id", run_id))
    except InvalidId:
        return None


def _text_in(value: object, *path: str) -> str | None:
    for name in path:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, str) else None
