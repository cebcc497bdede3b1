"""The services of the compose file as processes of this machine, in place of containers.

A process gets the image's environment and the service's own, nothing of the tests'. Its files are where the image and
the volumes would have them, below a folder. Host names and ports that would be the container's own become loopback
ports of the test's own.
"""

import os
import shutil
import stat
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from compose.composition import COMPOSE, ROOT, document, seconds, stop_grace
from support.ports import free_port
from support.redis_server import server_binary

from compose import dockerfile

CLI_STAND_IN = f"""#!{sys.executable}
# For a machine without redis-cli: what the health check asks of it.
import os, sys, redis
_, e, u, url, *command = sys.argv
assert (e, u) == ("-e", "-u")
try:
    print(redis.Redis.from_url(url, password=os.environ.get("REDISCLI_AUTH")).execute_command(*command))
except redis.RedisError as error:
    sys.exit(str(error))
"""
NORMAL_END = 240.0
BUSY = 5


class Machine:
    """`start` and `stop` services, `run` one to its end, and ask whether one is `healthy`.

    `binaries` is the folder that stands for the image's /opt/venv/bin.
    """

    def __init__(self, folder: Path, variables: Mapping[str, str], *, binaries: Path | None = None) -> None:
        self.folder = folder
        self._whole = document(variables)
        self.services: dict[str, dict[str, Any]] = self._whole["services"]
        self.redis_port = free_port()
        self.flower_port = free_port()
        self.metrics_port = free_port()
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        _, image = dockerfile.stages()
        self._image = image[-1]
        self._places = self._lay_out(self._image)
        self._tools = self._redis_tools()
        self._binaries = binaries or Path(sys.executable).parent

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        for name in reversed(self._processes):
            if error is not None:
                error.add_note(f"log of {name}:\n{self.log(name)}")
            process = self._processes[name]
            if process.poll() is None:
                process.kill()
                process.wait(60)

    def start(self, name: str) -> None:
        """Start a service and come back at once."""
        with self._log(name).open("ab") as log:
            self._processes[name] = subprocess.Popen(
                self._command(name),
                cwd=self._working_folder(name),
                env=self.environment(name),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def stop(self, name: str) -> int:
        """Stop a service as compose does, SIGTERM first, and return its exit code; -9 when its grace was too short."""
        process = self._processes.pop(name)
        process.terminate()
        try:
            return process.wait(stop_grace(self.services[name]))
        except subprocess.TimeoutExpired:
            process.kill()
            return process.wait(60)

    def run(self, name: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a service to its end, with more environment if wanted (`compose run -e`)."""
        return self._perform(self._command(name), name, timeout=NORMAL_END, **more)

    def perform(self, command: list[str], name: str) -> subprocess.CompletedProcess[str]:
        """Run a command of a person in place of a service's own (`compose run SERVICE COMMAND`)."""
        return self._perform([self._at_home(argument) for argument in command], name, timeout=NORMAL_END)

    def healthy(self, name: str) -> bool:
        """Run the service's own health check once. It may take longer than its timeout: this machine may be busy."""
        process = self._processes[name]
        assert process.poll() is None, f"{name} ended by itself:\n{self.log(name)}"
        check = self.services[name]["healthcheck"]
        kind, *command = check["test"]
        assert kind == "CMD"
        try:
            done = self._perform(
                [self._at_home(argument) for argument in command], name, timeout=BUSY * seconds(check["timeout"])
            )
        except subprocess.TimeoutExpired:
            return False
        return done.returncode == 0

    def pid(self, name: str) -> int:
        """Return a service's process id."""
        return self._processes[name].pid

    def log(self, name: str) -> str:
        """Return what a service has printed so far."""
        return self._log(name).read_text(errors="replace")

    @property
    def redis_url(self) -> str:
        """The run store's URL as producers have it, password included."""
        return self.environment("producer")["TURNFLEET_REDIS_URL"]

    @property
    def admin_url(self) -> str:
        """The same for a person who looks after Redis."""
        return f"redis://:{self.environment('redis')['REDISCLI_AUTH']}@127.0.0.1:{self.redis_port}/0"

    def environment(self, name: str) -> dict[str, str]:
        """Return a process's whole environment."""
        own = self.services[name].get("environment", {})
        of_image = dockerfile.environment(self._image) if "build" in self.services[name] else {}
        path = f"{self._tools}:{self._binaries}:{os.defpath}"
        return {
            **of_image,
            **{key: self._at_home(str(value)) for key, value in own.items() if value is not None},
            "PATH": path,
            "HOME": str(self.folder),
        }

    def _perform(
        self, command: list[str], name: str, *, timeout: float, **more: str
    ) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command,
            cwd=self._working_folder(name),
            env={**self.environment(name), **more},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )

    def _command(self, name: str) -> list[str]:
        program, *arguments = (self._at_home(argument) for argument in self.services[name]["command"])
        found = shutil.which(program, path=self.environment(name)["PATH"])
        assert found is not None, f"there is no {program} in the image"
        return [found, *arguments]

    def _at_home(self, text: str) -> str:
        """Exchange what is the container's own for what is this machine's."""
        for theirs, ours in self._places.items():
            text = text.replace(theirs, ours)
        return text

    def _working_folder(self, name: str) -> Path:
        inside = self._image.all("WORKDIR")[-1] if "build" in self.services[name] else "/data"
        return Path(self._places[inside])

    def _lay_out(self, image: dockerfile.Stage) -> dict[str, str]:
        """Put files where image and volumes have them, and return what stands for what."""
        places = {
            "redis:6379": f"127.0.0.1:{self.redis_port}",
            "127.0.0.1:6379": f"127.0.0.1:{self.redis_port}",
            "port 6379": f"port {self.redis_port}\nbind 127.0.0.1",
            "0.0.0.0": "127.0.0.1",  # noqa: S104 - this is what keeps the tests off it
            "5555": str(self.flower_port),
            "9464": str(self.metrics_port),
        }
        for target, sources in dockerfile.copied(image).items():
            places[target] = str(self.folder / target.lstrip("/"))
            for source in (ROOT / source for source in sources):
                if source.is_dir():
                    shutil.copytree(source, places[target], dirs_exist_ok=True)
                else:
                    Path(places[target]).mkdir(parents=True, exist_ok=True)
                    shutil.copy(source, places[target])
        mounts: list[Any] = [mount.split(":") for each in self.services.values() for mount in each.get("volumes", ())]
        for source, target, *_ in mounts:
            place = self.folder / target.lstrip("/")
            places[target] = str(place)
            if not source.startswith("."):
                place.mkdir(parents=True)
        for source, target, *_ in mounts:
            if source.startswith("."):
                place = Path(places[target])
                place.parent.mkdir(parents=True, exist_ok=True)
                text = (COMPOSE / source).read_text()
                for theirs, ours in places.items():
                    text = text.replace(theirs, ours)
                place.write_text(text)
        for mount in (mount for each in self.services.values() for mount in each.get("configs", ())):
            place = self.folder / mount["target"].lstrip("/")
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(self._whole["configs"][mount["source"]]["content"])
            places[mount["target"]] = str(place)
        return places

    def _redis_tools(self) -> Path:
        """Make a folder with redis-server and redis-cli, whatever this machine has for them."""
        folder = self.folder / "redis-tools"
        folder.mkdir()
        (folder / "redis-server").symlink_to(server_binary())
        client = folder / "redis-cli"
        found = shutil.which("redis-cli") or shutil.which("valkey-cli")
        if found:
            client.symlink_to(found)
        else:
            client.write_text(CLI_STAND_IN)
            client.chmod(client.stat().st_mode | stat.S_IXUSR)
        return folder

    def _log(self, name: str) -> Path:
        return self.folder / f"{name}.log"
