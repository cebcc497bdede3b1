"""Imported first: says what to install where the `worker` extra is missing, in place of a missing module's name."""

from importlib.util import find_spec
from typing import Final

_NEEDED: Final = ("prometheus_client", "structlog")
_MISSING: Final = tuple(name for name in _NEEDED if find_spec(name) is None)

if _MISSING:
    raise ImportError(
        f"a turnfleet worker needs {' and '.join(_MISSING)}: pip install 'turnfleet[worker]' "
        "(a service that only enqueues imports turnfleet, which does not)"
    )
