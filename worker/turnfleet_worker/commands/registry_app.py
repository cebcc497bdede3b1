"""The Celery app of a registry that the environment names: what `turnfleet worker` and `turnfleet dev` run.

`TURNFLEET_APP` is `module:registry`. Celery imports this module and takes `app`, which is made when it is asked for.
"""

import functools
import importlib
import os
import sys
import traceback
from collections.abc import Mapping
from pathlib import Path

from celery import Celery

from turnfleet.wire.signing import SigningKeys
from turnfleet_worker import Registry, create_app

APP_VARIABLE = "TURNFLEET_APP"


def load_registry(place: str) -> Registry:
    """Return the registry at `module:name`, looked for in the current folder too; ValueError says why there is none."""
    module_name, _, name = place.partition(":")
    if not module_name or not name:
        raise ValueError("it must be MODULE:REGISTRY, such as myfleet:registry")
    here = str(os.getcwd())  # noqa: PTH109 - sys.path holds text
    if here not in sys.path:
        sys.path.insert(0, here)
    try:
        module = importlib.import_module(module_name)
    except Exception as error:
        raise ValueError(f"importing {module_name} failed{_place(error)}: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if isinstance(found, Registry):
        return found
    kind = "nothing" if found is None else f"something of type {type(found).__name__}, which is no Registry,"
    raise ValueError(f"{module_name} has {kind} as {name!r}")


def _place(error: Exception) -> str:
    """Say which line below the current folder it was, " in FILE, line N"; a syntax error says it itself."""
    if isinstance(error, SyntaxError):
        return ""
    here = Path.cwd()
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if here in Path(frame.filename).parents]
    own = [frame for frame in frames if "site-packages" not in frame.filename]
    return f" in {Path(own[-1].filename).relative_to(here)}, line {own[-1].lineno}" if own else ""


@functools.cache
def the_app() -> Celery:
    """Return this process's app."""
    return build_app()


def build_app(environment: Mapping[str, str] = os.environ) -> Celery:
    """Return the app of the registry and the fleet that the environment names."""
    return create_app(
        load_registry(environment.get(APP_VARIABLE, "")),
        environment.get("TURNFLEET_REDIS_URL", "redis://localhost:6379/0"),
        name=environment.get("TURNFLEET_NAME", "default"),
        broker_url=environment.get("TURNFLEET_BROKER_URL"),
        signing=SigningKeys.from_environment(environment),
        key_prefix=environment.get("TURNFLEET_KEY_PREFIX", ""),
    )


def __getattr__(name: str) -> Celery:
    if name in {"app", "celery"}:
        return the_app()
    raise AttributeError(name)
