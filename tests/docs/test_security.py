"""The security page: signing, a foreign client that signs, users, and TLS, as a reader would do it."""

import re
from contextlib import closing
from pathlib import Path

import pytest
import redis
from security.test_addresses import tls_redis as tls_redis  # noqa: PLC0414 - a fixture
from support.pages import Shop
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet import Fleet, SigningKeys


@pytest.mark.slow
def test_signing_from_the_key_to_a_foreign_client(tmp_path: Path, own_redis_url: str) -> None:
    """What is enqueued with the key runs; without it, it is refused where it is enqueued."""
    with Shop(
        "docs/security.md",
        tmp_path,
        redis_url=own_redis_url,
        only=("key", "myfleet.py", "worker", "enqueue.py", "what enqueue.py prints", "foreign.py"),
    ) as shop:
        key = shop.shell("key").strip()
        assert re.fullmatch(r"2026-11:[A-Za-z0-9+/]{43}=", key)
        shop.env["TURNFLEET_SIGNING_KEYS"] = key
        shop.write("myfleet.py")
        with shop.running("worker"):
            shop.python("enqueue.py")
            shop.python("foreign.py")
            with Fleet(own_redis_url, signing=SigningKeys.from_text(key)) as fleet:
                run = fleet.run("from-afar")
                _until_known(fleet)
                assert list(run.events(until="pause", timeout=60))[-1].kind == "approval"
                assert run.status().tenant == "acme"
                # Workers announce their counts with their heartbeats.
                eventually(lambda: fleet.workers()[0]["counts"].get("claimed", 0) >= 2, what="two claims in the counts")


def _until_known(fleet: Fleet) -> None:
    eventually(lambda: "from-afar" in [each.run_id for each in fleet.runs().items], what="the foreign run")


def test_users_without_passwords_and_with(tmp_path: Path) -> None:
    """The server takes the file; nobody can log in until there is a password, and then it stays over a restart."""
    with Shop("docs/security.md", tmp_path, only=("users",)) as shop:
        shop.shell("users")
    server = RedisServer("--aclfile", str(tmp_path / "users.acl"))
    server.start()
    try:
        for password in ("", "monitor"):
            client = redis.Redis(port=server.port, username="monitor", password=password)
            with client, pytest.raises(redis.AuthenticationError):
                client.ping()
        with Shop("docs/security.md", tmp_path, redis_url=server.url, only=("passwords.py",)) as shop:
            shop.env |= {f"{user}_PASSWORD": f"{user}-secret" for user in ("PRODUCER", "WORKER", "MONITOR")}
            shop.python("passwords.py")
        server.restart()
        with Fleet(f"redis://monitor:MONITOR-secret@127.0.0.1:{server.port}/0") as fleet:
            assert fleet.runs().items == ()
    finally:
        server.close()


def test_users_where_there_is_more_than_one_server(tmp_path: Path) -> None:
    """Every file that the page makes is one that a server, or a sentinel, begins with."""
    with Shop("docs/security.md", tmp_path, only=("users of a cluster", "users behind Sentinel")) as shop:
        shop.shell("users of a cluster")
        shop.shell("users behind Sentinel")
    for file, more in (("nodes", {"replica"}), ("broker", set()), ("servers", {"replica", "sentinel"})):
        with closing(RedisServer("--aclfile", str(tmp_path / f"{file}.acl"))) as server:
            server.start()
            with redis.Redis(port=server.port, decode_responses=True) as client:
                assert set(client.acl_users()) == {"default", "producer", "worker", "monitor", *more}
    at_sentinels = (tmp_path / "sentinels.acl").read_text().splitlines()
    assert [line.split()[:4] for line in at_sentinels] == [["user", name, "reset", "on"] for name in ("fleet", "peer")]


def test_tls_as_the_page_writes_it(tmp_path: Path, tls_redis: tuple[int, Path]) -> None:
    """The authority's certificate lies beside the program."""
    port, authority = tls_redis
    (tmp_path / "ca.pem").write_bytes(authority.read_bytes())
    addresses = {":secret@localhost:6380": f"localhost:{port}"}
    with Shop("docs/security.md", tmp_path, addresses=addresses, only=("tls.py", "what tls.py prints")) as shop:
        shop.python("tls.py")
