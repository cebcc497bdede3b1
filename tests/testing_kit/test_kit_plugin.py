"""The fixture `local_fleet` is there for every suite, and costs those nothing that do not use it."""

import os
import subprocess
import sys
import textwrap
from importlib.metadata import entry_points
from pathlib import Path

import pytest

TESTS = Path(__file__).resolve().parents[1]

USES_IT = """
import asyncio

from testing_kit.kit import PLAN, Desk, refund, script

kept = []

def test_two_fleets_in_one_test(local_fleet):
    one = local_fleet(Desk().registry, models=script(refund(20), "one"))
    two = local_fleet(Desk().registry, models=script("two"))
    one.skip(days=1)
    assert [fleet.enqueue(PLAN, "go").result().text for fleet in (one, two)] == ["one", "two"]
    kept.append(one)

def test_what_a_service_closes_goes_on_for_the_test(local_fleet):
    with local_fleet(Desk().registry, models=script("one")) as fleet:
        run = fleet.enqueue(PLAN, "go")
    assert run.result().text == "one"

def test_one_to_await(local_fleet):
    async def use():
        async with local_fleet(Desk().registry, models=script("one")) as fleet:
            run = await fleet.enqueue(PLAN, "go")
            assert (await run.result()).text == "one"
    asyncio.run(use())

def test_they_end_with_the_test(local_fleet):
    try:
        kept.pop().runs()
    except RuntimeError as closed:
        assert "closed" in str(closed)
    else:
        raise AssertionError
"""

USES_IT_NOT = """
import sys

def test_nothing_of_it_is_loaded():
    assert "pytest_turnfleet" in sys.modules
    assert [name for name in sys.modules if name.startswith(("turnfleet", "celery", "fakeredis", "redis"))] == []
"""

MISSES_FAKEREDIS = """
import sys

def test_without_fakeredis(monkeypatch, request):
    monkeypatch.setitem(sys.modules, "lupa", None)
    try:
        request.getfixturevalue("local_fleet")
    except ImportError as missing:
        assert "pip install -U 'turnfleet[testing]'" in str(missing)
    else:
        raise AssertionError
"""


def _pytest(folder: Path, source: str) -> str:
    """Run a suite of its own with a strict eye on warnings; give what it printed."""
    (folder / "test_it.py").write_text(textwrap.dedent(source))
    (folder / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "pytest_turnfleet", str(folder)]
    # Without the other plugins of this environment, which load what they like.
    env = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    env |= {"PYTHONPATH": str(TESTS), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_a_suite_that_uses_it(tmp_path: Path) -> None:
    """Fleets are started by a call, and end with their test."""
    assert "4 passed" in _pytest(tmp_path, USES_IT)


def test_a_suite_that_does_not_use_it(tmp_path: Path) -> None:
    """It has the plugin loaded, and nothing behind it."""
    assert "1 passed" in _pytest(tmp_path, USES_IT_NOT)


@pytest.mark.slow
def test_an_installation_without_fakeredis(tmp_path: Path) -> None:
    """Whoever asks for the fixture is told what to install."""
    assert "1 passed" in _pytest(tmp_path, MISSES_FAKEREDIS)


def test_pytest_finds_it() -> None:
    """Installed as a plugin, under the name by which `-p no:pytest_turnfleet` leaves it out."""
    (found,) = (each for each in entry_points(group="pytest11") if each.name == "pytest_turnfleet")
    assert found.value == "pytest_turnfleet"
