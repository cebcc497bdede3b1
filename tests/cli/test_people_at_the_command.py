"""Deciding at the command line, with a real worker that goes on with the run."""

import itertools
from pathlib import Path

import click.testing
from cli.shared import PLAN, Command, told
from support.command_line import Terminal
from support.redis_server import RedisServer

from turnfleet import Fleet, Run

Desk = tuple[Command, Fleet]
numbers = itertools.count(1)


def paused(fleet: Fleet, prompt: str) -> Run[str]:
    """Return a run that has paused."""
    run: Run[str] = fleet.enqueue(PLAN, prompt)
    events = list(run.events(until="pause", timeout=60))
    assert events[-1].kind in {"approval", "question"}
    return run


def test_a_run_is_followed_to_its_end(desk: Desk, tmp_path: Path) -> None:
    """`enqueue --follow` prints the id and then the story; escape codes of a model do not reach the terminal."""
    command, _ = desk
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())
    done = command("enqueue", str(tmp_path / "plan.json"), "hello", "--follow")
    run_id, says, ends = done.stdout.splitlines()
    assert (done.exit_code, says, ends.split()[:3]) == (0, "says     you said \ufffd[31mhello", ["done", "run", run_id])
    assert told(command("show", run_id, "--json"))["text"] == "you said \x1b[31mhello"
    assert "\x1b" not in command("show", run_id).stdout


def test_a_failed_run_is_exit_code_1_and_can_be_retried(desk: Desk) -> None:
    """`tail` says what happened; `retry` lets it go on, and it fails again."""
    command, fleet = desk
    run = fleet.enqueue(PLAN, "fail")
    first = command("tail", run.run_id)
    assert (first.exit_code, first.stdout) == (1, "failed   RuntimeError: the model has a bad day\n")
    assert command("retry", run.run_id).exit_code == 0
    again = command("tail", run.run_id)
    assert again.stdout.splitlines()[-1].startswith("failed")


def test_approve_and_reject_by_options(desk: Desk) -> None:
    """All decisions of one command go together; the model reads the reason."""
    command, fleet = desk
    run = paused(fleet, "pay 20 30")
    done = command("resume", run.run_id, "--approve", "approval:pay-20", "--reject", "approval:pay-30",
                   "--reason", "too much", "--by", "ann", "--role", "finance")  # fmt: skip
    assert (done.exit_code, done.stdout.startswith("2 decided; run")) == (0, True), done.stderr
    assert command("tail", run.run_id).exit_code == 0
    text = run.result(timeout=60).text
    assert "paid 20" in text
    assert "too much" in text


def test_show_says_who_decided_what_and_when(desk: Desk) -> None:
    """Also long after: an approval, a rejection with its reason, and an edit with its arguments."""
    command, fleet = desk
    run = paused(fleet, "pay 20 30 40")
    done = command("resume", run.run_id, "--approve", "approval:pay-20", "--reject", "approval:pay-30",
                   "--reason", "too much", "--edit", "approval:pay-40", '{"amount": 9}',
                   "--by", "ann\x1b[31m", "--role", "finance")  # fmt: skip
    assert done.exit_code == 0, done.stderr
    run.result(timeout=30)
    approved, rejected, edited = told(command("show", run.run_id, "--json"))["decided"]
    assert approved == approved | {
        "id": "approval:pay-20", "tool": "pay", "arguments": {"amount": 20}, "roles": ["finance"],
        "decision": {"kind": "approve", "value": None}, "by": "ann\x1b[31m",
    }  # fmt: skip
    assert rejected["decision"] == {"kind": "reject", "reason": "too much"}
    assert edited["decision"] == {"kind": "edit", "arguments": {"amount": 9}}
    (moment,) = {each.decided_at for each in run.status().decided if each.decided_at}
    at = f"by ann\ufffd[31m, {moment:%Y-%m-%d %H:%M:%S} UTC"
    assert [line for line in command("show", run.run_id).stdout.splitlines() if line.startswith("decided")] == [
        f"decided          approval:pay-20  pay  amount=20  approve {at}",
        f"decided          approval:pay-30  pay  amount=30  reject (too much) {at}",
        f"decided          approval:pay-40  pay  amount=40  edit (amount=9) {at}",
    ]


def test_edit_and_answer_take_json(desk: Desk) -> None:
    """Arguments and answers are JSON on the command line."""
    command, fleet = desk
    edited, asked = paused(fleet, "pay 20"), paused(fleet, "ask colour")
    edit = ("--edit", "approval:pay-20", '{"amount": 11}', "--role", "finance")
    assert command("resume", edited.run_id, *edit).exit_code == 0
    question = told(command("show", asked.run_id, "--json"))["interrupts"][0]
    assert (question["kind"], question["question"]) == ("question", "which colour?")
    assert command("resume", asked.run_id, "--answer", question["id"], '"blue"').exit_code == 0
    assert "paid 11" in edited.result(timeout=60).text
    assert "blue" in asked.result(timeout=60).text


def test_what_may_not_be_decided_is_refused_by_exit_code(desk: Desk) -> None:
    """Without the role 5, unknown interrupt 4, an edit that does not fit 2, a second opinion 5; it stays paused."""
    command, fleet = desk
    run = paused(fleet, "pay 20 30")
    finance = ("--role", "finance")
    codes = [
        command("resume", run.run_id, *arguments).exit_code
        for arguments in (
            ("--approve", "approval:pay-20"),
            ("--approve", "approval:nothing", *finance),
            ("--edit", "approval:pay-20", '{"amount": "lots"}', *finance),
            ("--answer", "approval:pay-20", "1", *finance),
            ("--approve", "approval:pay-20", "--by", "ann", *finance),
            ("--reject", "approval:pay-20", "--by", "bob", *finance),
            ("--approve", "approval:pay-20", "--by", "ann", *finance),
        )
    ]
    assert codes == [5, 4, 2, 2, 0, 5, 0]
    status = run.status()
    assert (status.state, [each.id for each in status.interrupts]) == ("paused", ["approval:pay-30"])


def test_the_inbox_lists_what_waits_by_role(desk: Desk) -> None:
    """One line an interrupt: run, id, kind, roles, expiry, what is asked."""
    command, fleet = desk
    run = paused(fleet, "pay 77")
    listed = {each["id"]: each for each in told(command("inbox", "--role", "finance", "--json"))["interrupts"]}
    assert listed["approval:pay-77"]["arguments"] == {"amount": 77}
    line = next(each for each in command("inbox").stdout.splitlines() if each.startswith(run.run_id))
    assert line.split("\t")[1:] == ["approval:pay-77", "approval", "finance", "", "pay amount=77"]
    assert "waits            approval:pay-77  pay  amount=77" in command("show", run.run_id).stdout


def test_resume_without_a_terminal_says_what_to_decide(desk: Desk) -> None:
    """Nobody can be asked: exit code 2 with the ids."""
    command, fleet = desk
    run = paused(fleet, "pay 20")
    done: click.testing.Result = command("resume", run.run_id)
    assert (done.exit_code, "approval:pay-20" in done.stderr) == (2, True)


def test_resume_on_a_terminal_asks_about_each(desk: Desk, redis_server: RedisServer, tmp_path: Path) -> None:
    """One may be skipped; then the run stays paused for that one."""
    _, fleet = desk
    run = paused(fleet, "pay 20 30")
    here = ("--redis", redis_server.url, "--fleet", fleet.name, "--role", "finance")
    with Terminal("resume", run.run_id, *here, folder=tmp_path) as terminal:
        terminal.wait_for(r"1 of 2: may pay be called\?")
        terminal.wait_for(r"skip for now \(s\): ")
        terminal.type("e")
        terminal.wait_for(r"amount \[20\]: ")
        terminal.type("lots")
        terminal.wait_for("it wants JSON")
        terminal.type("12")
        terminal.wait_for(r"skip for now \(s\): ")
        terminal.type("s")
        terminal.wait_for("1 decided, 1 still open")
        assert terminal.wait() == 0
    assert [each.id for each in run.interrupts()] == ["approval:pay-30"]


def test_a_run_that_ended_while_it_was_asking_asks_nothing(desk: Desk) -> None:
    """What nobody decided before the cancel is neither shown nor taken."""
    command, fleet = desk
    run = paused(fleet, "pay 20")
    assert command("cancel", run.run_id).exit_code == 0
    assert run.interrupts() == ()
    assert "waits" not in command("show", run.run_id).stdout
    done = command("resume", run.run_id)
    assert (done.exit_code, "is cancelled and asks nothing" in done.stderr) == (5, True)
    assert command("resume", run.run_id, "--approve", "approval:pay-20", "--role", "finance").exit_code == 5


def test_nobody_is_asked_what_they_may_not_decide(desk: Desk, redis_server: RedisServer, tmp_path: Path) -> None:
    """Exit code 5 and the option that is missing, in place of a question whose answer would be refused."""
    _, fleet = desk
    run = paused(fleet, "pay 20")
    here = ("--redis", redis_server.url, "--fleet", fleet.name)
    with Terminal("resume", run.run_id, *here, folder=tmp_path) as terminal:
        terminal.wait_for("may be decided by finance only: .* --role finance")
        assert terminal.wait() == 5
        assert "yes (y)" not in terminal.text
    with Terminal("tail", run.run_id, *here, "--until", "pause", folder=tmp_path) as terminal:
        terminal.wait_for(f"turnfleet resume {run.run_id} --role finance")
        assert terminal.wait() == 0


def test_what_does_not_fit_is_asked_about_again(desk: Desk, redis_server: RedisServer, tmp_path: Path) -> None:
    """The reason is said, the other decisions are kept, and nobody has to begin anew."""
    _, fleet = desk
    run = paused(fleet, "pay 20 30")
    here = ("--redis", redis_server.url, "--fleet", fleet.name, "--role", "finance")
    with Terminal("resume", run.run_id, *here, folder=tmp_path) as terminal:
        terminal.wait_for(r"skip for now \(s\): ")
        terminal.type("e")
        terminal.wait_for(r"amount \[20\]: ")
        terminal.type('"lots"')
        terminal.wait_for(r"(?s)2 of 2: .*skip for now \(s\): ")
        terminal.type("y")
        terminal.wait_for("(?s)That was not taken: .*amount must be of type integer")
        terminal.wait_for(r"skip for now \(s\): ")
        terminal.type("y")
        terminal.wait_for("2 decided; run")
        assert terminal.wait() == 0


def test_workers_says_who_is_there(desk: Desk) -> None:
    """Models and tools of the live worker, how many runs it has and takes, and its name in Flower."""
    command, _ = desk
    (worker,) = told(command("workers", "--json"))["workers"]
    assert (worker["models"], sorted(worker["tools"])) == (["obedient"], ["ask", "pay"])
    (row,) = command("workers").stdout.splitlines()
    assert row.split("\t") == [
        worker["worker"], worker["node"], f"{worker['in_flight']} of {worker['slots']}", "obedient", "ask, pay"
    ]  # fmt: skip
    assert "@" in worker["node"]


def test_an_unknown_name_is_refused_when_workers_are_there(desk: Desk, tmp_path: Path) -> None:
    """Exit code 2: the plan names what nobody has."""
    command, _ = desk
    (tmp_path / "plan.json").write_text('{"name": "x", "model": "nobody", "tools": ["fly"]}')
    done = command("enqueue", str(tmp_path / "plan.json"), "hello")
    assert done.exit_code == 2
    assert "'nobody'" in done.stderr
    assert "'fly'" in done.stderr
