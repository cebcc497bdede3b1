"""What released versions left behind is read, and gone on with, by today's code (DESIGN 5, "Version")."""

import hashlib
import json
import re
from collections.abc import AsyncIterator
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from golden.workshop import TERMINAL, Workshop, folded, normal
from tools import golden

from turnfleet.store import Keys, commands
from turnfleet.store.executor import AsyncExecutor
from turnfleet.wire.envelope import new_run, parse_envelope
from turnfleet_kernel.contracts.events import FLEET_KINDS, KERNEL_KINDS, TERMINAL_KINDS
from turnfleet_kernel.contracts.json import decision_from_json, event_from_json, event_to_json, outcome_from_json
from turnfleet_kernel.contracts.record import PauseRecord

HERE = Path(__file__).parent
FOLDERS = sorted(path for path in HERE.iterdir() if re.fullmatch(r"[0-9]+\.[0-9]+\.[0-9]+", path.name))
RUNS = [path for folder in FOLDERS for path in sorted(folder.glob("run-*.json"))]
each_run = pytest.mark.parametrize("path", RUNS, ids=[f"{path.parent.name}-{path.stem}" for path in RUNS])


def read(path: Path) -> dict[str, Any]:
    """Read a golden file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


@pytest.fixture
async def workshop(redis_url: str, fleet_name: str) -> AsyncIterator[Workshop]:
    """Give a store and workers of today."""
    executor = AsyncExecutor(redis_url)
    yield Workshop(executor, Keys(fleet_name))
    await executor.aclose()


def released() -> set[str]:
    """List the versions that were released, as the changelog says, and the one that this is to be."""
    changelog = (HERE.parents[1] / "CHANGELOG.md").read_text(encoding="utf-8")
    return {*re.findall(r"^## \[?([0-9]+\.[0-9]+\.[0-9]+)", changelog, re.MULTILINE), version("turnfleet")}


def test_every_released_version_has_golden_files() -> None:
    """A version without them cannot be released: nothing would hold later ones to it."""
    assert released() <= {folder.name for folder in FOLDERS}
    assert all((folder / "envelopes.json").exists() and list(folder.glob("run-*.json")) for folder in FOLDERS)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_no_golden_file_was_altered(folder: Path) -> None:
    """Its sum is the one that was written with it: whoever changes a file changes what a release promised."""
    listed = dict(line.split("  ")[::-1] for line in (folder / golden.SUMS).read_text().splitlines())
    there = {path.name: path.read_bytes() for path in folder.iterdir() if path.name != golden.SUMS}
    assert {name: hashlib.sha256(content).hexdigest() for name, content in there.items()} == listed


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: str(folder.name))
def test_envelopes_are_served(folder: Path) -> None:
    """A first message, one that is offered again, and one of a client in another language."""
    envelopes = read(folder / "envelopes.json")
    first, again = parse_envelope(envelopes["first"]), parse_envelope(envelopes["reoffer"])
    assert first.to_json() == envelopes["first"]
    assert (first.plan_id, first.digest) == (again.plan_id, again.digest)
    assert new_run(first).priority == 9
    assert again.plan is None
    foreign = new_run(parse_envelope(envelopes["foreign"]))
    assert (foreign.run_id, foreign.plan["model"], foreign.request) == ("r-2", "spelled", {"prompt": "hi"})


@each_run
def test_a_journal_folds_to_what_it_did(path: Path) -> None:
    """HK-3: the record of where the run stood is the same one, and reads back as itself."""
    file = read(path)
    assert folded(file["name"], file["left"]) == PauseRecord.model_validate(file["folded"])


@each_run
def test_every_value_reads_back_as_itself(path: Path) -> None:
    """Events, decisions and outcomes: nothing is lost on the way through today's types."""
    file = read(path)
    for event in file["left"]["events"]:
        assert event_to_json(event_from_json(event)) == event
    for decision in file["decide"]:
        assert decision_from_json(decision).kind == decision["kind"]
    if outcome := file["ends"]["outcome"]:
        assert outcome_from_json(outcome).text == outcome["text"]


def test_every_kind_of_event_and_decision_is_among_them() -> None:
    """Or their forms would not be held to anything."""
    for folder in FOLDERS:
        files = [read(path) for path in folder.glob("run-*.json")]
        assert {event["kind"] for file in files for event in file["left"]["events"]} >= KERNEL_KINDS | FLEET_KINDS
        assert {each["kind"] for file in files for each in file["decide"]} >= {
            "approve", "edit", "reject", "answer", "retry",
        }  # fmt: skip


@each_run
async def test_a_run_goes_on_to_its_recorded_end(path: Path, workshop: Workshop) -> None:
    """Put back as its release left it, decided as it was then: the same state, outcome and usage; one event stream."""
    file = read(path)
    name = file["name"]
    await workshop.restore(file)
    status = await workshop.executor.execute(commands.status(workshop.keys, name))
    assert status.state == file["left"]["record"]["state"]
    if status.state not in TERMINAL.values():
        await workshop.go_on(name, file["decide"])
    assert normal(await workshop.ends(name)) == file["ends"]
    events = await workshop.events(name)
    assert [event["index"] for event in events] == list(range(len(events)))
    assert events[: len(file["left"]["events"])] == file["left"]["events"]
    assert events[-1]["kind"] in TERMINAL_KINDS


@pytest.mark.slow
def test_golden_files_of_this_version_are_what_it_leaves_behind() -> None:
    """Made again they are the same, byte for byte: what is released is what was recorded."""
    folder = golden.folder(version("turnfleet"))
    assert golden.make() == {path.name: path.read_bytes() for path in folder.iterdir()}
