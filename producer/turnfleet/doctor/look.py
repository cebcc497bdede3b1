"""Gathering the facts: this module alone talks to anybody. Each refusal becomes a fact, none an exception."""

import time
from collections.abc import Iterable, Mapping
from importlib.metadata import version
from typing import Any, Final

import redis
from redis.exceptions import RedisError

from turnfleet.doctor.facts import BrokerFacts, Facts, FleetFacts, ServerFacts
from turnfleet.store import Keys, commands
from turnfleet.store.commands.survey import Survey, merge_surveys
from turnfleet.store.executor import SyncExecutor
from turnfleet.store.place import address, cluster_place
from turnfleet.store.reasons import reason
from turnfleet.store.sentinel import sentinel_place
from turnfleet.wire.broker import default_queue
from turnfleet.wire.depths import look_into
from turnfleet.wire.envelope import VERSION
from turnfleet_kernel.errors import TurnfleetError

ROUND_TRIPS: Final = 20
MILLISECONDS: Final = 1000

_SETTINGS: Final = ("appendfsync", "min-replicas-to-write")


def gather(
    url: str,
    *,
    name: str,
    broker_url: str | None,
    late_seconds: float,
    timeout: float = 5.0,
    key_prefix: str = "",
) -> Facts:
    """Look at a fleet. `late_seconds`: by how much a run must be overdue to count. Each wait is at most `timeout`.

    Raises `InvalidId` for a name that cannot be one, and ValueError for a URL that makes no sense.
    """
    keys = Keys(name, key_prefix=key_prefix)
    executor = SyncExecutor(url, timeout=timeout)
    try:
        servers = _look_at_servers(executor, url)
        well = all(server.error is None for server in servers)
        fleet = _look_at_fleet(executor, keys, late_seconds) if well else FleetFacts(error="see above")
    finally:
        executor.close()
    broker = broker_url or url
    queues = {default_queue(name), *_queues(fleet.workers), *_queues_of_runs(fleet.survey)}
    seen = look_into(broker, keys, sorted(queues), timeout=timeout)
    return Facts(
        fleet=name,
        version=version("turnfleet"),
        envelope=VERSION,
        shards=keys.shards,
        servers=servers,
        broker=BrokerFacts(same=broker == url, transport=seen.transport, error=seen.error, depths=seen.depths),
        of_fleet=fleet,
    )


def _queues(workers: Iterable[Mapping[str, Any]]) -> set[str]:
    return {str(queue) for each in workers for queue in each.get("queues", ())}


def _queues_of_runs(survey: Survey | None) -> set[str]:
    return set() if survey is None else {placed.run.queue for placed in survey.queued}


def _look_at_servers(executor: SyncExecutor, url: str) -> tuple[ServerFacts, ...]:
    watched = sentinel_place(url) is not None
    try:
        clients = executor.clients()
    except (RedisError, OSError) as error:
        return (ServerFacts(address=address(url), error=reason(error), by_sentinel=watched),)
    if cluster_place(url) is None:
        return tuple(_look_at_server(client, address(url), watched=watched) for client in clients)
    return tuple(_look_at_server(client, _node(client), watched=False) for client in clients)


def _node(client: redis.Redis) -> str:
    told = client.connection_pool.connection_kwargs
    return f"{told['host']}:{told['port']}"


def _look_at_server(client: redis.Redis, where: str, *, watched: bool) -> ServerFacts:
    try:
        asked = time.time()
        seconds, microseconds = client.time()
        answered = time.time()
        trips = tuple(_round_trip_ms(client) for _ in range(ROUND_TRIPS))
    except (RedisError, OSError) as error:
        return ServerFacts(address=where, error=reason(error), by_sentinel=watched)
    server_ms = (seconds + microseconds / 1_000_000) * MILLISECONDS
    return ServerFacts(
        address=where,
        info=_allowed(client.info),
        config=_texts(_allowed(client.config_get, *_SETTINGS)),
        round_trips_ms=trips,
        ahead_ms=(asked + answered) / 2 * MILLISECONDS - server_ms,
        within_ms=(answered - asked) / 2 * MILLISECONDS,
        by_sentinel=watched,
    )


def _round_trip_ms(client: redis.Redis) -> float:
    started = time.perf_counter()
    client.ping()
    return (time.perf_counter() - started) * MILLISECONDS


def _allowed(ask: Any, *arguments: str) -> Any:
    """Ask what a server may refuse; None when it does, or goes away meanwhile."""
    try:
        return ask(*arguments)
    except (RedisError, OSError):
        return None


def _texts(answer: Mapping[Any, Any] | None) -> dict[str, str] | None:
    return None if answer is None else {_text(name): _text(value) for name, value in answer.items()}


def _text(value: bytes | str) -> str:
    return value.decode(errors="replace") if isinstance(value, bytes) else str(value)


def _look_at_fleet(executor: SyncExecutor, keys: Keys, late_seconds: float) -> FleetFacts:
    late_ms = round(late_seconds * MILLISECONDS)
    shards: list[Survey] = []
    try:
        workers = executor.execute(commands.workers(keys))
        for each in executor.execute_many([commands.survey(keys, n, late_ms=late_ms) for n in range(keys.shards)]):
            if isinstance(each, TurnfleetError):
                raise each
            shards.append(each)
    except TurnfleetError as error:
        return FleetFacts(error=str(error))
    return FleetFacts(workers=workers, survey=merge_surveys(shards))
