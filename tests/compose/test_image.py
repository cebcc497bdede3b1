"""The image's first stage, performed in folders: what it installs is enough to run the fleet."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compose.composition import ROOT
from compose.conftest import StartMachine

from compose import dockerfile


def build(folder: Path) -> Path:
    """Perform the COPY and RUN instructions of the first stage below `folder`; return what stands for /opt/venv/bin.

    The stage's own Python is an environment with pip, made for this.
    """
    _, (stage, _) = dockerfile.stages()
    python = folder / "python"
    subprocess.run([sys.executable, "-m", "venv", str(python)], check=True, timeout=240)
    # Of all that is installed a little is imported: it is compiled then.
    env = {
        **os.environ,
        "PIP_NO_COMPILE": "0",
        **dockerfile.environment(stage),
        "PATH": f"{python / 'bin'}:{os.defpath}",
    }
    inside = ""
    for word, text in stage.instructions:
        if word == "WORKDIR":
            inside = text.lstrip("/")
            (folder / inside).mkdir()
        elif word == "COPY":
            *sources, target = text.split()
            _copy(sources, folder / inside / target)
        elif word == "RUN":
            command = text.replace("/opt/venv", str(folder / "venv"))
            done = subprocess.run(
                ["sh", "-ec", command],
                cwd=folder / inside,
                env=env,
                capture_output=True,
                text=True,
                timeout=1800,
                check=False,
            )
            assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"
    return folder / "venv" / "bin"


def _copy(sources: list[str], target: Path) -> None:
    for source in sources:
        if (ROOT / source).is_dir():
            shutil.copytree(ROOT / source, target, ignore=shutil.ignore_patterns("__pycache__"))
        else:
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / source, target)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_what_the_image_installs_runs_every_service(start_machine: StartMachine, tmp_path: Path) -> None:
    """Nothing but the locked dependencies and our wheel: worker, Flower, producer and their health checks work."""
    folder = tmp_path / "build"
    folder.mkdir()
    binaries = build(folder)
    assert not list(binaries.glob("pip*"))
    machine = start_machine("redis", "worker", "flower", binaries=binaries)
    produced = machine.run("producer")
    assert (produced.returncode, produced.stdout.splitlines()[-1]) == (0, "completed"), produced.stderr
    assert [machine.stop(name) for name in ("flower", "worker", "redis")] == [0, 0, 0]
