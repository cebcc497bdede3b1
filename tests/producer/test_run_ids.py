"""A run id is refused or carried through every door alike, and where it is refused, in the same words."""

import asyncio
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cli.shared import command_for
from fleet.conftest import PLAN, steps
from producer.kit import APPROVAL

from turnfleet import AsyncFleet, Fleet, InvalidEnvelope, InvalidId, RunIdConflict
from turnfleet.store import Keys, commands
from turnfleet.wire import envelope_schema, parse_envelope

RULE = "use 1 to 200 letters, digits or ._:@-"
CARRIED = ("ticket-1001", "-leading-dash", "--help", "a:b@c.d_e", "0", "x" * 200)
REFUSED = ("a/b", "a b", "\N{PARTY POPPER}", "x" * 300, "x" * 201, "", "a\n", "{a}", "\u00fc", "a\x00b")
PROMPT = steps("hello")
Door = Callable[[str, str, str], Any]
"""Goes through with a URL, a fleet's name and a run id."""


def by_fleet(url: str, name: str, run_id: str) -> None:
    """Enqueue with the sync client."""
    with Fleet(url, name=name) as fleet:
        assert fleet.enqueue(PLAN, PROMPT, run_id=run_id).run_id == run_id


def by_handle(url: str, name: str, run_id: str) -> None:
    """Ask for a handle; the client refuses before it asks anybody."""
    with Fleet(url, name=name) as fleet:
        fleet.run(run_id)


def by_many(url: str, name: str, run_id: str) -> None:
    """Enqueue several; the one that is wrong is refused before any is recorded."""
    with Fleet(url, name=name) as fleet:
        fleet.enqueue_many([{"plan": PLAN, "request": PROMPT, "run_id": run_id}])


def by_async_fleet(url: str, name: str, run_id: str) -> None:
    """Enqueue with the client for await, and ask for a handle."""

    async def go() -> None:
        async with AsyncFleet(url, name=name) as fleet:
            fleet.run(run_id)
            await fleet.enqueue(PLAN, PROMPT, run_id=run_id)

    asyncio.run(go())


def by_envelope(url: str, name: str, run_id: str) -> None:
    """Read what a foreign Celery client sends."""
    parse_envelope({"fleet": name, "run_id": run_id, "plan": PLAN.model_dump(mode="json"), "request": {"prompt": "hi"}})


def by_store(url: str, name: str, run_id: str) -> None:
    """Build a command of the store, whoever asks for it."""
    commands.status(Keys(name), run_id)


DOORS: tuple[Door, ...] = (by_fleet, by_handle, by_many, by_async_fleet, by_envelope, by_store)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("run_id", CARRIED)
def test_what_keys_can_carry_goes_through_every_door(door: Door, run_id: str, redis_url: str, fleet_name: str) -> None:
    """A dash in front and 200 characters, too."""
    door(redis_url, fleet_name, run_id)


@pytest.mark.parametrize("door", DOORS)
@pytest.mark.parametrize("run_id", REFUSED)
def test_what_they_cannot_carry_is_refused_at_every_door(
    door: Door, run_id: str, redis_url: str, fleet_name: str
) -> None:
    """By the same rule, in the same words; nothing is recorded."""
    with pytest.raises((InvalidId, InvalidEnvelope)) as refused:
        door(redis_url, fleet_name, run_id)
    assert f"run id {run_id!r}"[:80] in str(refused.value)
    assert RULE in str(refused.value)
    with Fleet(redis_url, name=fleet_name) as fleet:
        assert list(fleet.runs()) == []


@pytest.mark.parametrize("run_id", [None, 7, b"bytes", ["a"]])
def test_what_is_no_text_is_refused_too(run_id: Any, redis_url: str, fleet_name: str) -> None:
    """Not with an error of the regular expression's; None asks for an id to be made up."""
    doors = DOORS[1:2] if run_id is None else (by_fleet, by_handle, by_many, by_async_fleet)
    for door in doors:
        with pytest.raises(InvalidId, match="run id"):
            door(redis_url, fleet_name, run_id)


@pytest.mark.parametrize("run_id", [*CARRIED, *REFUSED])
def test_the_published_schema_says_the_same(run_id: str) -> None:
    """So that a client in another language can know before it sends."""
    pattern = envelope_schema()["properties"]["run_id"]["pattern"]
    # As JSON Schema means it: Python's own `$` would let a line break at the end pass.
    assert bool(re.fullmatch(pattern.strip("^$"), run_id)) == (run_id in CARRIED)


COMMANDS: tuple[tuple[str, ...], ...] = (
    ("show",), ("tail", "--timeout", "0"), ("cancel",), ("retry",), ("resume", "--approve", "x"),
)  # fmt: skip


@pytest.fixture
def plan_file(tmp_path: Path) -> str:
    """Give a file with the plan."""
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())
    return str(tmp_path / "plan.json")


@pytest.mark.parametrize("words", COMMANDS)
@pytest.mark.parametrize("run_id", REFUSED)
def test_every_command_refuses_alike(words: tuple[str, ...], run_id: str, redis_url: str, fleet_name: str) -> None:
    """Exit code 2 and the rule; `--` stands before the id, for those that begin with a dash."""
    done = command_for(redis_url, fleet_name)(*words, "--", run_id)
    assert (done.exit_code, RULE in done.stderr, done.stdout) == (2, True, ""), done.output


@pytest.mark.parametrize("run_id", REFUSED)
def test_enqueue_refuses_alike(run_id: str, plan_file: str, redis_url: str, fleet_name: str) -> None:
    """The option of `turnfleet enqueue`."""
    done = command_for(redis_url, fleet_name)("enqueue", plan_file, PROMPT, "--run-id", run_id)
    assert (done.exit_code, RULE in done.stderr, done.stdout) == (2, True, ""), done.output


@pytest.mark.parametrize("run_id", CARRIED)
def test_every_command_carries_alike(run_id: str, plan_file: str, redis_url: str, fleet_name: str) -> None:
    """Enqueued, shown, followed, refused a retry and a decision, cancelled."""
    command = command_for(redis_url, fleet_name)
    ends = [command("enqueue", plan_file, PROMPT, "--run-id", run_id)]
    ends += [command(*words, "--", run_id) for words in COMMANDS]
    assert [end.exit_code for end in ends] == [0, 0, 1, 0, 5, 5]
    assert ends[0].stdout == f"{run_id}\n"


@pytest.mark.parametrize("state", ["queued", "running", "paused", "completed", "failed", "cancelled"])
def test_an_id_that_exists_in_another_state_is_the_same_run_or_a_conflict(
    state: str, stage: Any, plan_file: str
) -> None:
    """The same request gives that run, as it stands; another one is refused, in every client and command."""
    command = command_for(stage.url, stage.fleet)
    with Fleet(stage.url, name=stage.fleet) as fleet:
        run = fleet.enqueue(PLAN, PROMPT, run_id="r1")
        if state == "cancelled":
            run.cancel()
        elif state != "queued":
            claim = stage.claim("r1")
            moves = {
                "completed": stage.completes,
                "failed": stage.fails,
                "paused": lambda held: stage.pauses(held, APPROVAL),
            }
            moves.get(state, id)(claim)
        assert fleet.enqueue(PLAN, PROMPT, run_id="r1").status().state == state
        for door in (fleet.enqueue, lambda *args, **kwargs: asyncio.run(_enqueue(stage, *args, **kwargs))):
            with pytest.raises(RunIdConflict) as refused:
                door(PLAN, steps("another"), run_id="r1")
        same = command("enqueue", plan_file, PROMPT, "--run-id", "r1", "--json")
        other = command("enqueue", plan_file, steps("another"), "--run-id", "r1")
        assert (same.exit_code, f'"state":"{state}"' in same.stdout) == (0, True)
        assert (other.exit_code, str(refused.value) in other.stderr) == (5, True)
        assert run.status().state == state


async def _enqueue(stage: Any, *args: Any, **kwargs: Any) -> None:
    async with AsyncFleet(stage.url, name=stage.fleet) as fleet:
        await fleet.enqueue(*args, **kwargs)
