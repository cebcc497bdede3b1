"""Users with the least they need behind Sentinel: clients, replica and sentinels, through a failover."""

from pathlib import Path

import pytest
import redis
from faults.sentinels import ADMIN, SERVICE, AclFiles, SentinelPair
from security.guarded import Roles, passed, refused, users
from support.waiting import eventually

pytestmark = pytest.mark.slow
PLACE = ("--redis", "redis+sentinel://localhost:26379/shop", "acl")
DEFAULT = f"user default on >{ADMIN} ~* &* +@all"

AT_A_SERVER: dict[str, list[tuple[str, ...]]] = {
    "replica": [("GET", "x"), ("KEYS", "*"), ("REPLICAOF", "NO", "ONE"), ("INFO",)],
    "sentinel": [
        ("GET", "x"), ("KEYS", "*"), ("CONFIG", "GET", "*"), ("CONFIG", "SET", "save", ""), ("ACL", "LIST"),
        ("CLIENT", "LIST"), ("PUBLISH", "elsewhere", "m"), ("SHUTDOWN",),
    ],
}  # fmt: skip
AT_A_SENTINEL: list[tuple[str, ...]] = [
    ("SENTINEL", "FAILOVER", SERVICE), ("SENTINEL", "REMOVE", SERVICE), ("SENTINEL", "RESET", "*"), ("ACL", "LIST"),
    ("SENTINEL", "SET", SERVICE, "quorum", "1"), ("SENTINEL", "CONFIG", "GET", "*"), ("PUBLISH", "elsewhere", "m"),
    ("SHUTDOWN",), ("INFO",),
]  # fmt: skip


@pytest.fixture
def files(tmp_path: Path, fleet_name: str) -> AclFiles:
    """Give what `turnfleet acl` prints for the servers and for the sentinels, and a password for people."""
    files = AclFiles(tmp_path / "servers.acl", tmp_path / "sentinels.acl")
    for file, more in ((files.servers, ()), (files.sentinels, ("--server", "sentinel"))):
        lines = users(tmp_path, "--fleet", fleet_name, *PLACE, *more)
        file.write_text("".join(f"{line}\n" for line in (DEFAULT, *lines)))
    return files


def test_a_fleet_and_its_failover_need_no_more_than_they_were_given(files: AclFiles, fleet_name: str) -> None:
    """Two sentinels agree, the replica takes over, runs go on; then what none of the users may do."""
    with SentinelPair(users=files) as pair:
        roles = Roles(fleet_name, pair.url_of_user)
        roles.work()
        with pair.server(pair.master) as admin:
            assert refused(admin) == []
        pair.master.kill()
        eventually(pair.promoted, what="the replica is promoted")
        roles.goes_on("run-3")
        for client in (pair.server(pair.replica), *pair.sentinels()):
            with client:
                assert refused(client) == []
        for user, forbidden in AT_A_SERVER.items():
            with redis.Redis(port=pair.replica.port, username=user, password=user) as client:
                assert passed(client, forbidden) == []
        for user in ("fleet", "peer"):
            for port in pair.sentinel_ports:
                with redis.Redis(port=port, username=user, password=user) as client:
                    assert passed(client, AT_A_SENTINEL) == []
