"""`turnfleet demo` from end to end: real Redis, real Celery worker process, real files."""

import csv
import json
import os
import re
import shlex
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.command_line import COMMAND, Terminal, clean_environment, descendants, run_command, still_running
from support.ports import free_port
from support.redis_server import RedisServer
from support.waiting import eventually

from turnfleet import Fleet
from turnfleet.cli.main import cli

ASKED = ["INV-2026-0103", "INV-2026-0105", "INV-2026-0113"]
NOT_ASKED = ["INV-2026-0111"]


def written_off(ledger: Path) -> list[str]:
    """Return the invoices in a ledger, sorted."""
    with ledger.open(newline="") as file:
        return sorted(row["invoice"] for row in csv.DictReader(file))


def test_yes_approves_and_the_output_of_a_pipe_is_plain_lines(tmp_path: Path) -> None:
    """The sample with --yes: one line an event, no control character, a report, a ledger, exit code 0."""
    done = run_command("demo", "--yes", "--report", "out/r.md", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert re.search(r"[\x00-\x08\x0b-\x1f\x7f]", done.stdout) is None
    words = [line.split()[0] for line in done.stdout.split("\n\n")[0].splitlines()]
    assert words == [
        "redis", "worker", "enqueue", "says", "calls", "calls", "gives", "gives", "says", "calls", "gives", "says",
        "waits", "waits", "waits", "decides", "resumed", "calls", "calls", "calls", "calls", "gives", "gives", "gives",
        "gives", "says", "calls", "gives", "says", "done", "report", "total", "ledger",
    ]  # fmt: skip
    assert written_off(tmp_path / "out/r.write-offs.csv") == sorted(ASKED + NOT_ASKED)
    assert "## Write-offs (4 made, 0 not made)" in (tmp_path / "out/r.md").read_text()


@pytest.mark.slow
def test_no_rejects_what_is_above_the_limit_and_the_rest_is_done(tmp_path: Path) -> None:
    """With --no only the write-off below the limit is made; the report says which were not, and why."""
    done = run_command("demo", "--no", "--report", "r.md", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert written_off(tmp_path / "r.write-offs.csv") == NOT_ASKED
    report = (tmp_path / "r.md").read_text()
    assert [invoice for invoice in ASKED if re.search(rf"\| {invoice} \|.*not written off.*--no", report)] == ASKED


def test_where_nobody_can_be_asked_nothing_is_approved_and_the_rest_is_done(tmp_path: Path) -> None:
    """It is as with --no, and says so; the Redis of the steps by hand is one that this machine has."""
    done = run_command("demo", "--report", "r.md", folder=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "stdin is no terminal" in done.stderr
    assert written_off(tmp_path / "r.write-offs.csv") == NOT_ASKED
    assert "nobody could be asked" in (tmp_path / "r.md").read_text()
    (kind,) = re.findall(r"^redis +(\S+) at", done.stdout)
    assert re.search(rf"# start a Redis\n +\S*{kind} .*&", done.stdout)


def test_any_other_pair_of_files_works(tmp_path: Path) -> None:
    """Other headers, delimiters and number styles; with a limit of zero every write-off waits."""
    (tmp_path / "rechnungen.csv").write_text(
        "Rechnung;Kunde;Betrag;Datum\nR 7/1;Müller;1.000,00;01.05.2026\nR 7/2;Meyer;50,00;02.05.2026\n", "cp1252"
    )
    (tmp_path / "bank.tsv").write_text(
        "Date\tDetails\tCredit\tDebit\n2026-05-03\tr7-1 abzgl. Skonto\t980.00\t\n2026-05-04\tGebühr\t\t3.00\n",
        "utf-16",
    )
    done = run_command(
        "demo", "--yes", "--invoices", "rechnungen.csv", "--payments", "bank.tsv", "--report", "r.md", "--limit", "0",
        folder=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert written_off(tmp_path / "r.write-offs.csv") == ["R 7/1"]
    (waits,) = re.findall(r"^waits .*", done.stdout, re.MULTILINE)
    assert waits.split()[1:5] == ["approval:write-off-R-7-1", "write_off", "invoice=R", "7/1"]
    assert "amount=20.00 reason=paid 980.00 of 1000.00" in waits
    assert "| R 7/2 | Meyer | 2026-05-02 | 50.00 | 0.00 | 50.00 |" in (tmp_path / "r.md").read_text()


@pytest.mark.slow
def test_files_that_are_no_tables_end_the_run_with_a_reason(tmp_path: Path) -> None:
    """Exit code 1, the reason in words, no report, and the log is named."""
    (tmp_path / "a.csv").write_text("shopping list\nmilk\n")
    done = run_command(
        "demo", "--yes", "--invoices", "a.csv", "--payments", "a.csv", "--report", "r.md", folder=tmp_path
    )
    assert done.returncode == 1
    assert "a.csv: no header row" in done.stdout
    log = re.search(r"the worker's log is (\S+)", done.stdout)
    assert log is not None
    assert "turnfleet" in Path(log.group(1)).read_text()
    assert not (tmp_path / "r.md").exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["--yes", "--no"], "exclude each other"),
        (["--yes", "--invoices", "none.csv"], "does not exist"),
        (["--yes", "--invoices", "there.csv"], "give both files"),
        (["--yes", "--limit", "much"], "is no limit"),
        (["--yes", "--report", "there.csv"], "is no report of this job"),
    ],
)
def test_wrong_usage_is_told_before_anything_is_started(
    tmp_path: Path, arguments: list[str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Exit code 2, one message, no traceback."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "there.csv").write_text("x")
    done = CliRunner().invoke(cli, ["demo", *arguments])
    assert (done.exit_code, done.stdout) == (2, "")
    assert reason in done.stderr
    assert "Traceback" not in done.stderr


def test_a_redis_that_does_not_answer_is_exit_code_3(tmp_path: Path) -> None:
    """A given URL is not replaced by a server that nobody asked for."""
    done = run_command("demo", "--yes", "--redis", f"redis://127.0.0.1:{free_port()}/0", folder=tmp_path)
    assert done.returncode == 3
    assert "Start it, or leave --redis out" in done.stderr


def test_on_a_terminal_it_asks_and_takes_yes_edit_and_no(tmp_path: Path) -> None:
    """Three write-offs: approved, changed to 60.00, declined with a reason."""
    with Terminal("demo", "--report", "r.md", folder=tmp_path) as terminal:
        terminal.wait_for(r"1 of 3: may write_off be called\?")
        terminal.wait_for(r"edit \(e\): ")
        terminal.type("y")
        terminal.wait_for("INV-2026-0105")
        terminal.wait_for(r"edit \(e\): ")
        terminal.type("what?")
        terminal.wait_for("Please say one of: y, n, e")
        terminal.type("e")
        terminal.wait_for("invoice")
        terminal.type("")
        terminal.wait_for(r"amount \[64.50\]: ")
        terminal.type("60.00")
        terminal.wait_for("reason")
        terminal.type("agreed")
        terminal.wait_for(r"edit \(e\): ")
        terminal.type("n")
        terminal.wait_for("reason: ")
        terminal.type("they pay in May")
        assert terminal.wait() == 0
    report = (tmp_path / "r.md").read_text()
    assert "| INV-2026-0105 | 60.00 | written off | agreed |" in report
    assert re.search(r"\| INV-2026-0113 \| 132.00 \| not written off \| .*they pay in May \|", report) is not None


@pytest.mark.slow
def test_what_was_typed_before_the_question_decides_nothing(tmp_path: Path) -> None:
    """A stray "y" that somebody typed while the worker started approves nothing."""
    with Terminal("demo", "--report", "r.md", folder=tmp_path) as terminal:
        terminal.wait_for("starting a Celery worker")
        terminal.type("y")
        for _ in ASKED:
            terminal.wait_for(r"edit \(e\): ")
            terminal.type("n")
            terminal.wait_for("reason: ")
            terminal.type("")
        assert terminal.wait() == 0
    assert written_off(tmp_path / "r.write-offs.csv") == NOT_ASKED


@pytest.mark.parametrize(
    ("moment", "number", "code"),
    [
        pytest.param("starting a Redis|redis-server at", signal.SIGINT, 130, id="while redis starts"),
        pytest.param("starting a Celery worker", signal.SIGINT, 130, id="while the worker starts"),
        pytest.param(r"edit \(e\): ", signal.SIGINT, 130, id="at the prompt"),
        pytest.param(r"edit \(e\): ", signal.SIGTERM, 143, id="SIGTERM", marks=pytest.mark.slow),
        pytest.param(r"edit \(e\): ", signal.SIGHUP, 129, id="SIGHUP", marks=pytest.mark.slow),
    ],
)
def test_a_signal_at_any_moment_leaves_no_process(
    tmp_path: Path, moment: str, number: signal.Signals, code: int
) -> None:
    """While Redis starts, while the worker starts, at the prompt: worker and Redis end within seconds."""
    with Terminal("demo", folder=tmp_path) as terminal:
        terminal.wait_for(moment)
        started = eventually(lambda: descendants(terminal.process.pid), what="a started process")
        os.kill(terminal.process.pid, number)
        assert terminal.wait() == code
    assert eventually(lambda: not still_running(started)), started
    assert "Traceback" not in terminal.text


@pytest.mark.slow
def test_a_second_signal_hurries(tmp_path: Path) -> None:
    """Whoever presses Ctrl-C twice does not wait for a warm shutdown, and still nothing is left."""
    with Terminal("demo", folder=tmp_path) as terminal:
        terminal.wait_for(r"edit \(e\): ")
        started = descendants(terminal.process.pid)
        assert len(started) >= 2
        terminal.press_ctrl_c()
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    assert eventually(lambda: not still_running(started)), started


@pytest.mark.slow
def test_a_worker_that_is_killed_ends_the_demo_with_its_log(tmp_path: Path) -> None:
    """Nobody will go on with the run: the message names the log, and Redis is ended too."""
    with Terminal("demo", folder=tmp_path) as terminal:
        terminal.wait_for(r"edit \(e\): ")
        started = descendants(terminal.process.pid)
        worker = next(pid for pid, command in started.items() if "celery" in command)
        os.kill(worker, signal.SIGKILL)
        for answered in range(len(ASKED)):
            terminal.type("n")
            terminal.wait_for("reason: ")
            terminal.type("")
            if answered + 1 < len(ASKED):
                terminal.wait_for(r"edit \(e\): ")
        assert terminal.wait() == 1
        assert "The worker ended with exit code -9; its log is" in terminal.text
    assert eventually(lambda: not still_running(started)), started


@pytest.mark.slow
def test_on_a_given_redis_a_stopped_demo_cancels_its_run(tmp_path: Path, own_redis: RedisServer) -> None:
    """Nobody will serve that run any more, so it is not left waiting; the given Redis goes on."""
    with Terminal("demo", "--redis", own_redis.url, folder=tmp_path) as terminal:
        terminal.wait_for(r"run (?=demo-\w+ in fleet)")
        terminal.wait_for(r"(?=demo-\w{8})")
        run_id = terminal.text[:13]
        terminal.wait_for(r"edit \(e\): ")
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    with Fleet(own_redis.url, name=run_id) as fleet:
        assert fleet.run(run_id).status().state == "cancelled"


@pytest.mark.slow
def test_the_steps_by_hand_work(tmp_path: Path, own_redis: RedisServer) -> None:
    """What is printed at the end can be pasted: a shell runs every step, only the questions are answered by options."""
    done = run_command("demo", "--no", "--redis", own_redis.url, folder=tmp_path)
    steps = [line.strip() for line in done.stdout.split("step by step:")[1].splitlines() if line[2:3] not in {"#", ""}]
    resume = steps.index(next(step for step in steps if "resume" in step))
    inbox = steps[resume - 1]
    ids = "[print('--approve', each['id']) for each in json.load(sys.stdin)['interrupts']]"
    steps[resume] += f' $({inbox} --json | {sys.executable} -c "import json, sys; {ids}")'
    # The worker is the shell's first job: it ends with the shell, and its noise is not what is looked at.
    script = "\n".join(["set -eu", "trap 'kill %1; wait' EXIT", *steps])
    script = script.replace(" worker -c 8 &", " worker -c 8 2>worker.log >&2 &")
    by_hand = subprocess.run(
        ["bash", "-mc", script], cwd=tmp_path, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip
    assert by_hand.returncode == 0, by_hand.stderr + by_hand.stdout
    assert "3 decided; run" in by_hand.stdout
    assert by_hand.stdout.splitlines()[-1].startswith("done ")
    assert written_off(tmp_path / "write-offs.csv") == sorted(ASKED + NOT_ASKED)


@pytest.mark.slow
def test_keep_leaves_the_fleet_up_to_look_around_until_ctrl_c(tmp_path: Path) -> None:
    """The commands that are printed work while it waits; then everything is ended."""
    with Terminal("demo", "--keep", "--yes", folder=tmp_path) as terminal:
        terminal.wait_for("To look around meanwhile:")
        terminal.wait_for(r"Ctrl-C(?=\.)", forget=False)
        script = "\n".join(["set -e", *(line for line in terminal.text.splitlines() if line.startswith("  "))])
        started = descendants(terminal.process.pid)
        looked = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=clean_environment(), stdin=subprocess.DEVNULL,
            capture_output=True, text=True, timeout=240, check=False,
        )  # fmt: skip
        assert looked.returncode == 0, looked.stderr
        assert "completed" in looked.stdout
        assert json.loads(looked.stdout.splitlines()[-1])["kind"] == "done"
        terminal.press_ctrl_c()
        assert terminal.wait() == 130
    assert eventually(lambda: not still_running(started)), started


def test_the_plan_and_the_prompt_can_be_had_as_data(tmp_path: Path) -> None:
    """For whoever enqueues by hand: the plan is JSON that `turnfleet enqueue` takes, the prompt names the files."""
    plan = json.loads(run_command("demo", "--print", "plan", folder=tmp_path).stdout)
    assert (plan["name"], plan["model"]) == ("reconcile", "rules")
    prompt = run_command("demo", "--print", "prompt", "--report", "r.md", folder=tmp_path).stdout
    assert prompt.splitlines()[-1] == f"report: {(tmp_path / 'r.md').resolve()}"


@pytest.mark.slow
def test_a_reader_that_leaves_ends_the_demo_in_silence(tmp_path: Path) -> None:
    """`turnfleet demo --yes | head -1`: no traceback, exit code 141, nothing left running."""
    line = f"{shlex.join([*COMMAND, 'demo', '--yes'])} | head -1; exit ${{PIPESTATUS[0]}}"
    done = subprocess.run(
        ["bash", "-c", line], cwd=tmp_path, env=clean_environment(), stdin=subprocess.DEVNULL, capture_output=True,
        text=True, timeout=240, check=False,
    )  # fmt: skip
    assert (done.returncode, done.stderr) == (141, "")


@pytest.mark.slow
def test_the_fake_redis_serves_a_whole_demo_and_says_that_nothing_persists(tmp_path: Path) -> None:
    """On a machine with no server at all the demo still runs."""
    hidden = (
        "import sys; from turnfleet_worker.local import embedded; every = embedded.find_servers; "
        "embedded.find_servers = lambda: [each for each in every() if each.kind == 'fakeredis']; "
        "from turnfleet.cli import main; sys.argv[0] = 'turnfleet'; main()"
    )
    done = subprocess.run(
        [sys.executable, "-c", hidden, "demo", "--yes", "--report", "r.md"], cwd=tmp_path, env=clean_environment(),
        stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=240, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr + done.stdout
    assert "fakeredis" in done.stdout
    assert "nothing persists" in done.stdout
