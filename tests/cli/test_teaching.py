"""What `--help` teaches is true: its examples run, its JSON is what is printed, the page of it is up to date."""

import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import click.testing
import pytest
from cli.shared import PLAN, Command, command_for, told
from support.command_line import COMMAND, clean_environment
from support.redis_server import RedisServer

from turnfleet import Fleet
from turnfleet.cli.failures import MEANINGS
from turnfleet.cli.group import SECTIONS
from turnfleet.cli.main import cli
from turnfleet.cli.teaching import Taught

ROOT = Path(__file__).parents[2]
CONTEXT = click.Context(cli, info_name="turnfleet")
TAUGHT = {
    name: command
    for name in cli.list_commands(CONTEXT)
    if isinstance(command := cli.get_command(CONTEXT, name), Taught)
}
STARTERS = {"bench", "chaos", "demo", "dev", "worker"}
"""They start a fleet of their own, and have tests of their own; here their examples are read by their parser."""

DECIDED = "turnfleet resume ticket-1001 --approve approval:call-1 --role finance"


@pytest.fixture
def shop(desk: tuple[Command, Fleet], redis_server: RedisServer, tmp_path: Path) -> Iterator[dict[str, str]]:
    """Give the environment of a fleet with the runs of the examples, and be in a folder with their files."""
    _, fleet = desk
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())
    (tmp_path / "myfleet.py").write_text("from cli.apps.desk import registry\n")
    (tmp_path / "mail.txt").write_text("Order 1001 arrived broken.")
    (tmp_path / "turnfleet").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (tmp_path / "turnfleet").chmod(0o755)
    for run_id, prompt in {
        "ticket-1001": "pay 30",
        "ticket-1002": "fail",
        "ticket-1004": "pay 40",
        "ticket-1005": "ask x",
    }.items():
        run = fleet.enqueue(PLAN, prompt, run_id=run_id)
        assert [event.kind for event in run.events(until="pause", timeout=60)][-1] in {"approval", "question", "error"}
    fleet.enqueue(PLAN, "later", run_id="ticket-1003", countdown=600)
    fleet.enqueue(PLAN, "odd", run_id="-odd-", countdown=600)
    path = f"{tmp_path}:{os.environ['PATH']}"
    here = {"TURNFLEET_REDIS_URL": redis_server.url, "TURNFLEET_NAME": fleet.name, "PATH": path}
    yield clean_environment({**here, "PYTHONPATH": str(ROOT / "tests")})
    for run_id in ("ticket-1001", "ticket-1002", "ticket-1003", "ticket-1004", "ticket-1005", "-odd-"):
        fleet.run(run_id).cancel()
    sys.modules.pop("myfleet", None)  # another test's is another file


def perform(line: str, env: dict[str, str], folder: Path) -> tuple[int, str]:
    """Run a line in bash, or in this process where it is a plain command; give its exit code and what it said."""
    if re.search(r"[|&;<>$`*]", line) is None:
        program, *arguments = shlex.split(line)
        assert program == "turnfleet"
        ended = click.testing.CliRunner(env=env).invoke(cli, arguments)
        assert ended.exception is None or isinstance(ended.exception, SystemExit), (line, ended.exception)
        return ended.exit_code, ended.output
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {line}"],
        cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip
    return done.returncode, done.stdout + done.stderr


@pytest.mark.slow
def test_every_example_runs(shop: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As they stand; what decides a run comes before what follows it to its end."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])
    examples = [typed for name, command in TAUGHT.items() if name not in STARTERS for typed, _ in command.examples]
    interactive = "turnfleet resume ticket-1001"
    assert {interactive, DECIDED} <= set(examples)
    examples = [DECIDED, *(each for each in examples if each not in {interactive, DECIDED})]
    for typed in examples:
        call = "approval:pay-30" if "ticket-1001" in typed else "approval:pay-40"
        code, said = perform(typed.replace("approval:call-1", call), shop, tmp_path)
        judges = {1} if typed.startswith(("turnfleet doctor", "turnfleet preflight")) else set()
        assert code in {0, *judges}, (typed, said)
        assert "Traceback" not in said


@pytest.mark.parametrize("name", sorted(STARTERS & set(TAUGHT)))
def test_examples_of_what_runs_on_can_be_read(name: str) -> None:
    """Their options exist."""
    for typed, _ in TAUGHT[name].examples:
        words = shlex.split(typed)
        assert words[:2] == ["turnfleet", name]
        TAUGHT[name].make_context(name, words[2:], parent=CONTEXT)


def test_json_has_the_members_that_help_names(desk: tuple[Command, Fleet], tmp_path: Path) -> None:
    """All of them and no other; a list stands under its own name."""
    command, fleet = desk
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())
    run_id = told(command("enqueue", str(tmp_path / "plan.json"), "hello", "--json"))["run_id"]
    fleet.run(run_id).result(timeout=60)
    paused = fleet.enqueue(PLAN, "pay 60")
    failed = fleet.enqueue(PLAN, "fail")
    assert [event.kind for event in paused.events(until="pause")][-1] == "approval"
    assert [event.kind for event in failed.events()][-1] == "error"
    printed = {
        "cancel": command("cancel", run_id, "--json"),
        "doctor": command("doctor", "--json"),
        "enqueue": command("enqueue", str(tmp_path / "plan.json"), "hello", "--json"),
        "inbox": command("inbox", "--json"),
        "resume": command("resume", paused.run_id, "--approve", "approval:pay-60", "--role", "finance", "--json"),
        "retry": command("retry", failed.run_id, "--json"),
        "runs": command("runs", "--json"),
        "show": command("show", run_id, "--json"),
        "workers": command("workers", "--json"),
    }
    shapes = {name: command.shape for name, command in TAUGHT.items() if command.shape}
    assert set(shapes) == {*printed, "tail"}
    assert {name: set(told(done)) for name, done in printed.items()} == {name: set(shapes[name]) for name in printed}, (
        printed
    )
    for line in command("tail", run_id, "--json").stdout.splitlines():
        assert set(shapes["tail"]) <= set(json.loads(line))
    assert [*told(printed["runs"])["runs"][0], "text"] == list(shapes["show"])
    assert shapes["inbox"]["interrupts"].removeprefix("for each: ").split(", ") == list(
        told(printed["inbox"])["interrupts"][0]
    )


def test_every_command_stands_under_a_heading_with_one_line() -> None:
    """Eighty columns are enough, and nothing is cut off."""
    text = command_for("redis://127.0.0.1:1/0", "x")("--help").stdout
    for heading in SECTIONS:
        assert f"\n{heading}:\n" in text
    for name in cli.list_commands(CONTEXT):
        assert f"\n  {name} " in text
    assert "..." not in text.partition("Options:")[0].partition("Begin:")[2]
    assert max(map(len, text.splitlines())) <= 80
    assert all(f"\n  {code} " in text for code in MEANINGS)


@pytest.mark.parametrize("name", sorted(TAUGHT))
def test_help_of_a_command_fits_and_tells_how_it_ends(name: str) -> None:
    """Only an example may be wider than eighty columns: it is there to be copied."""
    text = command_for("redis://127.0.0.1:1/0", "x")(name, "--help").stdout
    assert "\nExit codes:\n" in text
    wide = [line.strip() for line in text.splitlines() if len(line) > 80]
    assert set(wide) <= {typed for typed, _ in TAUGHT[name].examples}
    assert all(typed in text for typed, _ in TAUGHT[name].examples)


def test_the_reference_page_is_what_the_commands_say() -> None:
    """`--check` of the tool that writes it."""
    tool = ROOT / "tests" / "tools" / "command_line_page.py"
    done = subprocess.run([sys.executable, str(tool), "--check"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def test_a_command_of_a_missing_extra_says_what_to_install_whatever_it_is_asked() -> None:
    """Not that its options are unknown; the overview of all commands says it in a few words."""
    code = "import sys; sys.modules['structlog'] = None; from turnfleet.cli import main; main()"

    def said(*arguments: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-c", code, *arguments], capture_output=True, text=True, timeout=240, check=False
        )
        return done.returncode, done.stdout + done.stderr

    code_of, text = said("dev", "--app", "myfleet:registry", "-c", "2")
    assert (code_of, text.count("pip install 'turnfleet[worker]'")) == (2, 1)
    assert text.startswith("Error: turnfleet dev: a turnfleet worker needs structlog")
    code_of, text = said("--help")
    assert code_of == 0
    assert re.search(r"dev +\(needs pip install 'turnfleet\[worker\]'\)\n", text)


def test_help_loads_neither_celery_nor_redis() -> None:
    """A word is completed, and help shown, in the time that a person waits."""
    code = (
        "import sys, turnfleet.cli.main; print([name for name in ('celery', 'redis', 'kombu') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
