"""Where Prometheus asks: an HTTP server in threads of its own, which a blocked event loop does not stop."""

import logging
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from prometheus_client import CollectorRegistry, start_http_server

from turnfleet_worker.errors import SettingError
from turnfleet_worker.settings import WorkerSettings

__all__ = ["Endpoint", "Place", "metrics_place"]

PORT_VARIABLE: Final = "TURNFLEET_METRICS_PORT"
ADDRESS_VARIABLE: Final = "TURNFLEET_METRICS_ADDRESS"
HIGHEST_PORT: Final = 65_535
STOP_SECONDS: Final = 2.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Place:
    """An address and a port; port 0 is any free one."""

    address: str
    port: int


def metrics_place(settings: WorkerSettings, environment: Mapping[str, str]) -> Place | None:
    """Return where a process serves its metrics, None for nowhere: its environment's word, else the settings'.

    Raises `SettingError` for a port that is none.
    """
    port, asked = settings.metrics_port, environment.get(PORT_VARIABLE)
    if asked:
        if not (asked.isascii() and asked.isdigit() and int(asked) <= HIGHEST_PORT):
            raise SettingError(f"{PORT_VARIABLE}={asked!r} is no port: set a number up to 65535, 0 for any free one")
        port = int(asked)
    return None if port is None else Place(environment.get(ADDRESS_VARIABLE) or settings.metrics_address, port)


class Endpoint:
    """Serves a registry at a place. One that cannot be had is logged: metrics are no reason not to run."""

    def __init__(self, registry: CollectorRegistry, place: Place) -> None:
        self._registry = registry
        self._place = place
        self._serving: tuple[Any, Any] | None = None
        self.where: str | None = None
        """`address:port` while it serves; the port is a real one even where any was asked for."""

    def start(self) -> None:
        """Serve from now on."""
        place = self._place
        try:
            self._serving = start_http_server(place.port, place.address, self._registry)
        except OSError as error:
            _log.error(
                "no metrics: %s:%d cannot be served (%s); the worker runs without. Give each worker of a machine a "
                "port of its own with %s, or 0 for any free one",
                place.address,
                place.port,
                error.strerror or type(error).__name__,
                PORT_VARIABLE,
            )
            return
        self.where = f"{place.address}:{self._serving[0].server_port}"
        _log.info("metrics are served at http://%s/metrics", self.where)

    def stop(self) -> None:
        """Serve no more; waits for what is being answered, at most `STOP_SECONDS`."""
        if self._serving is not None:
            server, thread = self._serving
            self._serving, self.where = None, None
            server.shutdown()
            with suppress(OSError):
                server.server_close()
            thread.join(STOP_SECONDS)
