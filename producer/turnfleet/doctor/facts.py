"""What a diagnosis looks at, as frozen values. A fact that could not be had is None, and says why where it can."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from turnfleet.store.commands.survey import Survey


@dataclass(frozen=True, slots=True, kw_only=True)
class ServerFacts:
    """One server of the run store.

    `address` is without user and password. `error`: why it does not answer; nothing else is known then. `info` is what
    INFO answers and `config` what CONFIG GET answers, None where the server refuses. `round_trips_ms`: how long
    each of some PINGs took. `ahead_ms`: how far this machine's clock is ahead of the server's, give or take
    `within_ms`. `by_sentinel`: it was found by asking sentinels.
    """

    address: str
    error: str | None = None
    info: Mapping[str, Any] | None = None
    config: Mapping[str, str] | None = None
    round_trips_ms: tuple[float, ...] = ()
    ahead_ms: float | None = None
    within_ms: float = 0.0
    by_sentinel: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerFacts:
    """The broker. `depths`: messages that wait, by queue; None for a queue that could not be looked into.

    A queue that the broker does not have (yet) is not in it. `same`: it is the run store's server.
    """

    same: bool
    transport: str
    error: str | None = None
    depths: Mapping[str, int | None] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetFacts:
    """The fleet: what its live workers announce, and how its runs stand. `error`: why neither could be had."""

    error: str | None = None
    workers: tuple[Mapping[str, Any], ...] = ()
    survey: Survey | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """All of it, and what this client is. `servers` has one, or each master of a cluster."""

    fleet: str
    version: str
    envelope: int
    shards: int
    servers: tuple[ServerFacts, ...]
    broker: BrokerFacts
    of_fleet: FleetFacts
