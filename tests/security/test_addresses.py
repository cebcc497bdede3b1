"""One URL serves client, worker, broker, listener and Flower: with a password, on a socket, over TLS; and a prefix."""

import asyncio
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
import redis
import trustme
from cli.shared import command_for
from security.journey import PLAN, Journey
from support.certificates import as_arguments, authority_or_skip
from support.ports import free_port
from support.redis_server import RedisServer

from turnfleet import AsyncFleet, Fleet, FleetUnavailable, InvalidAddress, InvalidId
from turnfleet.store.place import address, hide, shown
from turnfleet.wire import celery_settings

PASSWORD = "p@ss:w/o%r d?#"  # noqa: S105 - a test's own
ESCAPED = quote(PASSWORD, safe="")
SECRETS = (PASSWORD, ESCAPED, "s3cret")


@pytest.fixture
def guarded_redis() -> Iterator[RedisServer]:
    """Give a server with a password that is hard to put into a URL, on a port and on a socket."""
    server = RedisServer("--requirepass", PASSWORD)
    server.options = [*server.options, "--unixsocket", str(server.folder / "redis.sock")]
    server.start()
    yield server
    server.close()


@pytest.mark.slow
def test_a_password_that_needs_escaping_database_5_and_a_prefix(guarded_redis: RedisServer, fleet_name: str) -> None:
    """A user who may touch nothing but keys and channels with that prefix can do it all: the server is the witness."""
    with redis.Redis(port=guarded_redis.port, password=PASSWORD, db=5, decode_responses=True) as client:
        # Who subscribes to a pattern must be given that very pattern; channels are matched.
        broker = f"/5.turnfleet.{fleet_name}"
        patterns = [f"{broker}.control.pidbox", f"{broker}.events/worker.*", f"{broker}.events/*"]
        allowed = [f"&team-a:{each}" for each in ("*", f"{{{fleet_name}}}:c:*", *patterns)]
        client.execute_command("ACL", "SETUSER", "team", "on", f">{PASSWORD}", "~team-a:*", *allowed, "+@all")
        url = f"redis://team:{ESCAPED}@127.0.0.1:{guarded_redis.port}/5"
        Journey(url, fleet_name, key_prefix="team-a:", secrets=SECRETS).works(flower=True)
        assert client.acl_log() == []
        keys: Any = client.keys("*")
        assert [name for name in keys if not name.startswith("team-a:")] == []
        assert f"team-a:_kombu.binding.turnfleet.{fleet_name}" in keys
        assert f"team-a:{{{fleet_name}}}:workers" in keys


@pytest.mark.slow
def test_a_unix_socket(guarded_redis: RedisServer, fleet_name: str) -> None:
    """The store's form serves the broker too; the database is the option `db`."""
    Journey(f"unix://:{ESCAPED}@{guarded_redis.folder}/redis.sock?db=5", fleet_name, secrets=SECRETS).works()
    with redis.Redis(port=guarded_redis.port, password=PASSWORD, db=5) as client:
        assert client.dbsize()
    with redis.Redis(port=guarded_redis.port, password=PASSWORD) as client:
        assert client.keys("*") == []


@pytest.fixture(scope="module")
def tls_redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[int, Path]]:
    """Give the TLS port of a server, and the certificate of the authority that signed the server's own."""
    authority = authority_or_skip(tmp_path_factory.mktemp("tls"))
    port = free_port()
    server = RedisServer(*as_arguments(authority.server_options(port)))
    server.start()
    yield port, authority.ca
    server.close()


@pytest.mark.slow
def test_tls_with_an_authority_of_ones_own(tls_redis: tuple[int, Path], fleet_name: str) -> None:
    """Both the store's client and kombu take the certificate from the URL; so do listener and Flower."""
    port, authority = tls_redis
    url = f"rediss://localhost:{port}/0?ssl_cert_reqs=required&ssl_ca_certs={authority}"
    Journey(url, fleet_name).works(flower=True)


def distrusted(tls_redis: tuple[int, Path], folder: Path) -> Iterator[str]:
    """Spell out URLs of a server that cannot prove who it is: unknown authorities, and another host's name."""
    port, authority = tls_redis
    trustme.CA().cert_pem.write_to_path(folder / "other.pem")
    yield f"rediss://:s3cret@localhost:{port}/0?ssl_ca_certs={folder}/other.pem"
    yield f"rediss://:s3cret@localhost:{port}/0"
    yield f"rediss://:s3cret@127.0.0.1:{port}/0?ssl_ca_certs={authority}"


def test_a_store_that_cannot_prove_who_it_is_is_refused(
    tls_redis: tuple[int, Path], fleet_name: str, tmp_path: Path
) -> None:
    """With and without await: nothing is sent to it, and the error says that it is the certificate."""
    for url in distrusted(tls_redis, tmp_path):
        with Fleet(url, name=fleet_name, timeout=2) as fleet, pytest.raises(FleetUnavailable) as refused:
            fleet.enqueue(PLAN, "please")
        assert "TLS certificate of the fleet's Redis" in str(refused.value)
        with pytest.raises(FleetUnavailable, match="TLS certificate of the fleet's Redis"):
            asyncio.run(_look(url, fleet_name))
        assert "s3cret" not in str(refused.value)


def test_the_doctor_says_that_it_is_the_certificate(tls_redis: tuple[int, Path], tmp_path: Path) -> None:
    """A server that runs is not to be started: what is to be mended is the URL, and the password is not shown."""
    for url in distrusted(tls_redis, tmp_path):
        done = command_for(url, "x")("doctor")
        first = done.stdout.splitlines()[0]
        assert "could not prove who it is" in first
        assert "?ssl_ca_certs=FILE" in first
        assert (done.exit_code, "s3cret" in done.stdout) == (1, False)


async def _look(url: str, name: str) -> None:
    async with AsyncFleet(url, name=name, timeout=2) as fleet:
        await fleet.workers()


def test_a_broker_that_cannot_prove_who_it_is_gets_no_message(
    tls_redis: tuple[int, Path], redis_url: str, fleet_name: str, tmp_path: Path
) -> None:
    """The run is kept, and the error says what is wrong."""
    for broker in distrusted(tls_redis, tmp_path):
        with (
            Fleet(redis_url, name=fleet_name, broker_url=broker, timeout=2) as fleet,
            pytest.raises(FleetUnavailable, match="CERTIFICATE_VERIFY_FAILED") as refused,
        ):
            fleet.enqueue(PLAN, "please")
        assert refused.value.maybe_enqueued
        assert "s3cret" not in str(refused.value)


def test_a_url_is_told_to_kombu_in_its_own_words() -> None:
    """A socket's database and login, and TLS, which Flower reads from the setting alone."""
    assert celery_settings("f", "unix://me:p%40@/run/r.sock?db=5")["broker_url"] == (
        "redis+socket://me:p%40@/run/r.sock?virtual_host=5"
    )
    settings = celery_settings("f", "rediss://h:1/2?ssl_ca_certs=/ca.pem", "team:")
    assert settings["broker_url"] == "rediss://h:1/2"
    assert settings["broker_use_ssl"] == {"ssl_cert_reqs": "required", "ssl_ca_certs": "/ca.pem"}
    assert settings["broker_transport_options"]["global_keyprefix"] == "team:"
    assert "broker_use_ssl" not in celery_settings("f", "redis://h/0")


@pytest.mark.parametrize("password", ["s3cret/d", "s3cret?d", "s3cret#d", "s3cret:1/d"])
def test_a_password_that_was_not_escaped_is_not_quoted(password: str) -> None:
    """The URL is cut at the wrong place, and the part of the password that then stands in for a port is not shown."""
    for url, broker in ((f"redis://:{password}@h:1/0", None), ("redis://h/0", f"redis://:{password}@h:1/0")):
        for kind in (Fleet, AsyncFleet):
            with pytest.raises(InvalidAddress, match="%40 %3A %2F") as refused:
                _used(kind(url, broker_url=broker))
            assert "s3cret" not in "".join(traceback.format_exception(refused.value))


def _used(client: Fleet | AsyncFleet) -> None:
    if isinstance(client, AsyncFleet):
        asyncio.run(_workers(client))


async def _workers(client: AsyncFleet) -> None:
    async with client:
        await client.workers()


def test_a_prefix_that_keys_cannot_begin_with_is_refused() -> None:
    """A brace would move the hash tag, a star would be a pattern in an ACL."""
    for prefix in ("a{b}", "team *", "x" * 65):
        with pytest.raises(InvalidId, match="key prefix"):
            Fleet("redis://localhost/0", key_prefix=prefix)


SECRET_URLS = [
    "redis://me:s3cret@h:1/0",
    "redis://:s3cret@h:1/0",
    "rediss://:s3%63ret@h:1/0?ssl_ca_certs=/ca.pem",
    "unix://:s3cret@/run/r.sock?db=5",
    "unix:///run/r.sock?password=s3cret",
    "redis+sentinel://me:s3cret@a:1,b:2/shop/0?sentinel_password=s3cret",
    "rediss+sentinel://me:s3cret@a:1/shop?sentinel_password=s3cret&ssl_password=s3cret",
    "redis://:s3cret@h:port/0",
]


@pytest.mark.parametrize("url", SECRET_URLS)
def test_no_password_of_a_url_is_shown(url: str) -> None:
    """Neither where it points, nor the URL as it may be shown, nor an error that quoted it, nor a client's repr."""
    texts = [address(url), shown(url), hide(f"cannot use {url}: s3cret", url)]
    if "port" not in url:
        fleet, asynchronous = Fleet(url), AsyncFleet(url)
        texts += [repr(fleet), repr(asynchronous), repr(fleet.run("r"))]
        assert repr(fleet).startswith("<Fleet default at ")
    for text in texts:
        assert "s3cret" not in text
        assert "s3%63ret" not in text
