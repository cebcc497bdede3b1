"""What every test may ask for: a Redis server of the tests' own, and a fleet name of its own on it."""

import itertools
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings
from support.redis_server import RedisServer

_names = itertools.count(1)


def pytest_configure() -> None:
    """Be the same on every machine: on a busy one, and in the background of a shell.

    A shell starts what it puts into the background with these two signals ignored, and every process that a test starts
    would inherit that.
    """
    # How long an example takes says how busy the machine is, and nothing of what is tested.
    settings.register_profile("any machine", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("any machine")
    for number, usual in ((signal.SIGINT, signal.default_int_handler), (signal.SIGQUIT, signal.SIG_DFL)):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, usual)


@pytest.fixture(scope="session")
def redis_server() -> Iterator[RedisServer]:
    """Give a real server, shared by the session; tests keep apart by `fleet_name`."""
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def redis_url(redis_server: RedisServer) -> str:
    """Give the URL of the tests' own server."""
    return redis_server.url


@pytest.fixture
def own_redis() -> Iterator[RedisServer]:
    """Give a server to one test alone, for tests that stop, restart or fill it."""
    server = RedisServer()
    server.start()
    yield server
    server.close()


@pytest.fixture
def own_redis_url(own_redis: RedisServer) -> str:
    """Give the URL of a server of this test's own, for code that names no fleet."""
    return own_redis.url


@pytest.fixture(scope="module")
def shared_fleet_name() -> str:
    """Give the name of a fleet that a module's tests share: another one each time that it is set up.

    A module may be set up twice in a session, and a worker that was killed at the end of the first time is still known.
    """
    return f"s{os.getpid()}-{next(_names)}"


@pytest.fixture
def fleet_name() -> str:
    """Give a fleet name that no other test uses."""
    return f"t{os.getpid()}-{next(_names)}"
