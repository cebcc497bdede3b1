"""The commands against a real Redis, without a worker: what they print, and how they end."""

import json
from pathlib import Path

import pytest
from cli.shared import PLAN, Command, command_for, told
from support.command_line import run_command
from support.ports import free_port

from turnfleet import Fleet


def test_enqueue_prints_the_id_and_runs_lists_it(command: Command, plan_file: str) -> None:
    """The id alone goes to stdout, so that RUN=$(turnfleet enqueue …) works."""
    done = command("enqueue", plan_file, "hello", "--tenant", "acme", "--metadata", "who=me")
    run_id = done.stdout.strip()
    assert (done.exit_code, len(run_id)) == (0, 32)
    (listed,) = told(command("runs", "--json"))["runs"]
    assert (listed["run_id"], listed["state"], listed["tenant"], listed["metadata"]) == (
        run_id, "queued", "acme", {"who": "me"},
    )  # fmt: skip
    assert command("runs").stdout.split("\t")[:3] == [run_id, "queued", "desk"]
    assert command("runs", "--state", "failed").stdout == ""


def test_plan_or_prompt_can_come_from_stdin(command: Command, plan_file: str, fleet: Fleet) -> None:
    """A dash reads stdin, for one of the two."""
    assert command("enqueue", plan_file, "-", "--run-id", "a", typed="a long prompt").exit_code == 0
    assert command("enqueue", "-", "hi", "--run-id", "b", typed=PLAN.model_dump_json()).exit_code == 0
    assert [fleet.run(each).status().state for each in "ab"] == ["queued", "queued"]
    both = command("enqueue", "-", "-", typed="x")
    assert (both.exit_code, "only one of" in both.stderr) == (2, True)


def test_show_and_cancel_and_their_answers(command: Command, plan_file: str) -> None:
    """A run is cancelled once: the second time the answer is no, exit code 1."""
    command("enqueue", plan_file, "hello", "--run-id", "r1")
    assert told(command("show", "r1", "--json"))["state"] == "queued"
    assert "state            queued" in command("show", "r1").stdout
    first, second = command("cancel", "r1", "--reason", "why not", "--json"), command("cancel", "r1", "--json")
    assert (first.exit_code, told(first)["cancelled"]) == (0, True)
    assert (second.exit_code, told(second)["cancelled"]) == (1, False)
    assert "why not" in command("show", "r1").stdout


def test_tail_of_a_cancelled_run_tells_its_end_and_exits_with_1(command: Command, plan_file: str) -> None:
    """Plain lines when it is piped; JSON lines when asked."""
    command("enqueue", plan_file, "hello", "--run-id", "r1")
    command("cancel", "r1", "--reason", "enough")
    plain, lines = command("tail", "r1"), command("tail", "r1", "--json")
    assert (plain.exit_code, plain.stdout) == (1, "cancelled enough\n")
    assert [json.loads(line)["kind"] for line in lines.stdout.splitlines()] == ["cancelled"]


def test_tail_gives_up_when_asked_to(command: Command, plan_file: str) -> None:
    """Nothing comes without a worker: exit code 1 after the time given."""
    command("enqueue", plan_file, "hello", "--run-id", "r1")
    done = command("tail", "r1", "--timeout", "0.3")
    assert (done.exit_code, done.stdout) == (1, "")
    assert "nothing came from run r1 for 0.3 s" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "reason"),
    [
        (("show", "nobody"), 4, "unknown"),
        (("tail", "nobody"), 4, "unknown"),
        (("cancel", "nobody"), 4, "unknown"),
        (("retry", "nobody"), 4, "unknown"),
        (("resume", "nobody", "--approve", "x"), 4, "unknown"),
        (("retry", "r1"), 5, "only a failed run can be retried"),
        (("resume", "r1", "--approve", "x"), 4, "no interrupt"),
        (("resume", "r1"), 5, "asks nothing"),
        (("resume", "r1", "--approve", "x", "--reject", "x"), 2, "decided twice"),
        (("resume", "r1", "--edit", "x", "{"), 2, "not JSON"),
        (("resume", "r1", "--edit", "x", "[1]"), 2, "JSON object"),
        (("show", "no spaces please"), 2, "cannot be used"),
        (("runs", "--cursor", "rubbish"), 2, ""),
        (("runs", "--state", "asleep"), 2, "asleep"),
        (("frobnicate",), 2, "No such command"),
    ],
)
def test_mistakes_end_with_their_own_exit_code_and_without_a_traceback(
    command: Command, plan_file: str, arguments: tuple[str, ...], code: int, reason: str
) -> None:
    """2 wrong usage, 4 unknown, 5 not possible; the reason goes to stderr and nothing to stdout."""
    command("enqueue", plan_file, "hello", "--run-id", "r1")
    done = command(*arguments)
    assert (done.exit_code, done.stdout) == (code, ""), done.stderr
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_the_same_id_with_another_request_is_a_conflict(command: Command, plan_file: str) -> None:
    """The same request is the same run; another one is exit code 5."""
    assert command("enqueue", plan_file, "hello", "--run-id", "r1").exit_code == 0
    assert command("enqueue", plan_file, "hello", "--run-id", "r1").exit_code == 0
    assert command("enqueue", plan_file, "goodbye", "--run-id", "r1").exit_code == 5


@pytest.mark.parametrize(
    ("plan", "reason"),
    [("{", "not JSON"), ("{}", "name"), ('{"name": "x", "model": "m", "colour": "red"}', "colour")],
)
def test_a_plan_that_is_none_says_where(command: Command, tmp_path: Path, plan: str, reason: str) -> None:
    """Exit code 2 with the field that is wrong."""
    path = tmp_path / "plan.json"
    path.write_text(plan)
    done = command("enqueue", str(path), "hello")
    assert (done.exit_code, reason in done.stderr) == (2, True), done.stderr


@pytest.mark.parametrize("arguments", [("runs",), ("show", "r"), ("workers",), ("inbox", "--json"), ("tail", "r")])
def test_a_fleet_that_cannot_be_reached_is_exit_code_3(arguments: tuple[str, ...]) -> None:
    """One line on stderr."""
    done = command_for(f"redis://127.0.0.1:{free_port()}/0", "x")(*arguments)
    assert (done.exit_code, done.stdout) == (3, "")
    assert len(done.stderr.splitlines()) == 1


def test_without_workers_the_lists_are_empty(command: Command) -> None:
    """Empty JSON stays JSON; the hint goes to stderr."""
    assert told(command("workers", "--json")) == {"workers": []}
    assert told(command("inbox", "--json")) == {"interrupts": [], "cursor": None}
    alone = command("workers")
    assert (alone.exit_code, alone.stdout) == (0, "")
    assert "turnfleet worker --app" in alone.stderr


def test_a_listing_goes_on_where_the_page_before_ended(command: Command, plan_file: str) -> None:
    """The cursor of one page gives the next; together they are all runs, newest first."""
    for number in range(5):
        command("enqueue", plan_file, "hello", "--run-id", f"r{number}")
    seen, cursor = [], None
    while True:
        page = told(command("runs", "--json", "--limit", "2", *(("--cursor", cursor) if cursor else ())))
        seen += [run["run_id"] for run in page["runs"]]
        cursor = page["cursor"]
        if cursor is None:
            break
    assert seen == ["r4", "r3", "r2", "r1", "r0"]


def test_options_can_stand_before_or_after_the_command_and_win_over_the_environment(
    redis_url: str, fleet_name: str, plan_file: str
) -> None:
    """After the command wins over before it, which wins over the environment."""
    elsewhere = command_for(f"redis://127.0.0.1:{free_port()}/0", "elsewhere")
    here = ("--redis", redis_url, "--fleet", fleet_name)
    assert elsewhere(*here, "enqueue", plan_file, "x", "--run-id", "r1").exit_code == 0
    assert elsewhere("show", "r1", *here).exit_code == 0
    assert elsewhere("--fleet", "wrong", "show", "r1", *here).exit_code == 0
    assert elsewhere("show", "r1", "--redis", redis_url, "--fleet", "wrong").exit_code == 4


def test_help_names_every_command_and_the_exit_codes() -> None:
    """Also those that come from the worker wing."""
    text = command_for("redis://localhost", "x")("--help").stdout
    for name in ("cancel", "demo", "dev", "enqueue", "inbox", "resume", "retry", "runs", "show", "tail", "worker"):
        assert f"  {name} " in text
    assert "3 the fleet cannot be reached" in " ".join(text.split())


def test_the_command_is_a_program_too(tmp_path: Path) -> None:
    """`python -m turnfleet.cli` is the script."""
    done = run_command("--version", folder=tmp_path)
    assert (done.returncode, done.stdout.split()[-1].count(".")) == (0, 2)
