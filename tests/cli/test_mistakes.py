"""No mistake of a user's ends in a traceback: every command, every kind of mistake."""

import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
import pytest
from cli.shared import PLAN, command_for
from producer.kit import Stage
from support.command_line import COMMAND, clean_environment
from support.ports import free_port

from turnfleet import Fleet
from turnfleet.cli.main import cli
from turnfleet.cli.urls import broker_fault, redis_fault

NOWHERE = f"redis://127.0.0.1:{free_port()}/0"
ARGUMENTS: dict[str, tuple[str, ...]] = {
    "acl": (),
    "bench": (),
    "cancel": ("r1",),
    "chaos": (),
    "completion": ("bash",),
    "demo": (),
    "dev": ("--app", "nowhere:registry"),
    "doctor": (),
    "enqueue": ("plan.json", "hello"),
    "health": (),
    "inbox": (),
    "preflight": ("--app", "nowhere:registry"),
    "resume": ("r1", "--approve", "x"),
    "retry": ("r1",),
    "runs": (),
    "show": ("r1",),
    "tail": ("r1",),
    "worker": ("--app", "nowhere:registry"),
    "workers": (),
}
COMMANDS = tuple(cli.list_commands(click.Context(cli)))
CONNECTED = tuple(
    name
    for name in COMMANDS
    if any(param.name == "fleet" for param in (cli.get_command(click.Context(cli), name) or click.Command("")).params)
)
ON_RUNS = ("cancel", "resume", "retry", "show", "tail")
BAD_URLS = (
    "nonsense", "http://x", "redis://localhost:port/0", "redis://localhost:99999/0", "redis://[::1", "redis+sentinel://",
    "redis://:pass/word@localhost:6379/0",
)  # fmt: skip


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:p%40ss@localhost:6379/5",
        "rediss://localhost:6380/0?ssl_ca_certs=ca.pem",
        "unix:///run/redis.sock?db=5",
        "redis+sentinel://a:26379,b/service/0",
        "rediss+sentinel://a:26379/service?ssl_ca_certs=ca.pem",
        "redis+cluster://a:6379,b:6380",
    ],
)
def test_wherever_a_store_may_be_is_no_mistake(url: str) -> None:
    """Every form that the store takes is taken where it is typed; a cluster is a store and no broker."""
    assert redis_fault(url) is None
    assert (broker_fault(url) is None) == (not url.startswith("redis+cluster"))


def test_what_is_wrong_with_sentinels_or_a_cluster_is_said_as_such() -> None:
    """Their URLs have rules of their own: the one that was not kept is named."""
    assert "always checked" in str(redis_fault("rediss+sentinel://a/service?ssl_cert_reqs=none"))
    assert "a cluster has no databases" in str(redis_fault("redis+cluster://a:6379/3"))


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--server", "broker"), "the broker is the run store's server"),
        (("--server", "broker", "--broker", "amqp://localhost"), "is no Redis"),
        (("--server", "sentinel"), "is behind Sentinel"),
    ],
)
def test_a_file_for_a_server_that_the_fleet_does_not_have(arguments: Sequence[str], said: str) -> None:
    """Exit code 2, and which it is that there is none of."""
    assert said in refused(("acl", *arguments), 2)


def test_every_command_is_tried() -> None:
    """A new command must be added to the table above, and so to every test here."""
    assert set(COMMANDS) <= set(ARGUMENTS)


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Be in a folder of the test's own, with a plan."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plan.json").write_text(PLAN.model_dump_json())


def refused(arguments: Sequence[str], code: int, *, url: str = NOWHERE) -> str:
    """Run the command in this process; assert how it ended, without an exception of its own; give stderr."""
    done = command_for(url, "x")(*arguments)
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    assert done.exit_code == code, done.output
    assert "Traceback" not in done.output
    return done.stderr


@pytest.mark.parametrize("name", COMMANDS)
@pytest.mark.parametrize("option", ["--frobnicate", "--fleet=a b"])
def test_an_option_that_cannot_be_right_is_usage(name: str, option: str) -> None:
    """Exit code 2, with the option's name; nothing is begun."""
    said = refused((name, option, *ARGUMENTS[name]), 2)
    assert option.partition("=")[0] in said


@pytest.mark.parametrize("name", [name for name in COMMANDS if ARGUMENTS[name]])
def test_what_is_missing_is_named(name: str) -> None:
    """Exit code 2 without any argument, too."""
    assert "Missing" in refused((name,), 2)


@pytest.mark.parametrize("name", CONNECTED)
@pytest.mark.parametrize("option", ["--redis", "--broker"])
@pytest.mark.parametrize("url", BAD_URLS)
def test_a_url_that_makes_no_sense_is_usage_and_is_not_repeated(name: str, option: str, url: str) -> None:
    """Exit code 2; the URL may hold a password. In the environment it is the same."""
    said = refused((name, option, url, *ARGUMENTS[name]), 2)
    assert option in said
    assert "pass/word" not in said
    assert "word@" not in said
    variable = {"--redis": "TURNFLEET_REDIS_URL", "--broker": "TURNFLEET_BROKER_URL"}[option]
    done = command_for(url, "x") if option == "--redis" else None
    if done is not None:
        assert variable in done("runs").stderr


@pytest.mark.parametrize(
    "name", [name for name in CONNECTED if name not in {"acl", "demo", "dev", "doctor", "preflight", "worker"}]
)
def test_a_fleet_that_is_not_there_is_said_in_one_line(name: str) -> None:
    """Exit code 3 and where it was looked for."""
    said = refused((name, *ARGUMENTS[name]), 3)
    assert len(said.splitlines()) == 1
    assert NOWHERE.split("/")[2] in said


@pytest.mark.parametrize("name", ON_RUNS)
def test_an_unknown_run_is_said_in_one_line(name: str, redis_url: str) -> None:
    """Exit code 4, and where it was looked for: the usual reason is another terminal's environment."""
    said = refused((name, *ARGUMENTS[name]), 4, url=redis_url)
    assert said.startswith("Error: run 'r1' is unknown")
    assert said.rstrip().endswith(f"; looked for in fleet 'x' at {redis_url}")


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"{", "plan.json is not JSON"),
        (b"\xff\xfe{}", "plan.json is not UTF-8"),
        (b"[" * 100_000, "plan.json is nested too deeply"),
        (b"[1]", "PlanSpec is not right"),
        (b'{"name": "x", "tools": "no list"}', "tools"),
        (b'{"name": "x", "model": 3}', "model: Input should be a valid string or Input should be a list or Input"),
        (None, "No such file"),
    ],
)
def test_a_plan_that_cannot_be_read_says_why(content: bytes | None, reason: str, tmp_path: Path) -> None:
    """Exit code 2; the document's content is not shown."""
    (tmp_path / "plan.json").unlink()
    if content is not None:
        (tmp_path / "plan.json").write_bytes(content)
    said = refused(("enqueue", "plan.json", "hello"), 2)
    assert reason in said
    assert "no list" not in said


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("enqueue", ".", "hello"), "Is a directory"),
        (("enqueue", "plan.json", "half a pair \udcff"), "surrogate"),
        (("enqueue", "plan.json", "x", "--countdown", "nan"), "finite"),
        (("enqueue", "plan.json", "x", "--expires", "-1"), "--expires"),
        (("enqueue", "plan.json", "x", "--deadline", "0"), "deadline_seconds"),
        (("enqueue", "plan.json", "x", "--queue", "q" * 300), "queue"),
        (("enqueue", "plan.json", "x", "--metadata", "novalue"), "KEY=VALUE"),
        (("tail", "r1", "--after", "9" * 30), "--after"),
        (("tail", "r1", "--timeout", "nan"), "finite"),
        (("runs", "--cursor", "\N{COLLISION SYMBOL}"), "cursor"),
        (("inbox", "--cursor", "x"), "cursor"),
        (("runs", "--tenant", "a b"), "tenant"),
        (("resume", "r1", "--edit", "x", '{"a":'), "not JSON"),
        (("resume", "r1", "--edit", "x", "[1]"), "JSON object"),
        (("worker", "--app", "nowhere"), "MODULE:REGISTRY"),
        (("worker", "--app", "os:path"), "no Registry"),
        (("completion", "tcsh"), "tcsh"),
        (("demo", "--invoices", "nothing.csv"), "--invoices"),
    ],
)
def test_what_cannot_be_right_is_usage(arguments: tuple[str, ...], reason: str) -> None:
    """Exit code 2, before anybody is asked."""
    assert reason in refused(arguments, 2)


def run_in_bash(line: str, folder: Path, url: str, fleet: str, **more: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash, with `turnfleet` the command."""
    turnfleet = f'turnfleet() {{ {" ".join(COMMAND)} "$@"; }}\nset -o pipefail\n'
    environment = clean_environment({"TURNFLEET_REDIS_URL": url, "TURNFLEET_NAME": fleet, **more})
    return subprocess.run(
        ["bash", "-c", turnfleet + line], cwd=folder, env=environment, capture_output=True, text=True, timeout=240,
        check=False, stdin=subprocess.DEVNULL,
    )  # fmt: skip


@pytest.fixture
def told_run(redis_url: str, fleet_name: str) -> Iterator[str]:
    """Give the id of a completed run with a lot of text, some of it not ASCII."""
    stage = Stage(redis_url, fleet_name)
    with Fleet(redis_url, name=fleet_name) as fleet:
        run = fleet.enqueue(PLAN, "hello", run_id="r1", metadata={"who": "J\u00fcrgen \u4f60"})
        claim = stage.claim("r1")
        stage.says(claim, *["r\u00e9sum\u00e9 \N{PARTY POPPER} " * 100] * 200)
        stage.completes(claim, "x" * 100_000)
        yield run.run_id
    stage.close()


slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("line", "code", "stderr"),
    [
        ("turnfleet tail r1 --json | head -1", 141, ""),
        pytest.param("turnfleet tail r1 | true", 141, "", marks=slow),
        pytest.param("turnfleet --help | true", 141, "", marks=slow),
        pytest.param("turnfleet show r1 > /dev/full", 1, "not be written: No space left on device", marks=slow),
        pytest.param("turnfleet show r1 >&-", 0, "", marks=slow),
        pytest.param("turnfleet show nobody 2>&-", 4, "", marks=slow),
        pytest.param("turnfleet enqueue plan.json - --run-id x <&-", 0, "", marks=slow),
        pytest.param("printf '\\xff' | turnfleet enqueue plan.json -", 2, "stdin is not UTF-8 text", marks=slow),
        pytest.param("PYTHONIOENCODING=ascii turnfleet show r1", 0, "", marks=slow),
    ],
)
def test_streams_that_are_closed_full_or_odd(
    line: str, code: int, stderr: str, told_run: str, redis_url: str, fleet_name: str, tmp_path: Path
) -> None:
    """In a pipe whose reader left: nothing on stderr, and 141, as of any program that SIGPIPE ended."""
    done = run_in_bash(line, tmp_path, redis_url, fleet_name)
    assert (done.returncode, "Traceback" in done.stderr) == (code, False), done.stderr[-2000:]
    assert (stderr in done.stderr) if stderr else done.stderr == ""


def test_ctrl_c_while_it_waits_leaves_the_run_alone(redis_url: str, fleet_name: str, tmp_path: Path) -> None:
    """Exit code 130, nothing said, and the run is as it was."""
    with following(tmp_path, redis_url, fleet_name) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "r1\n"
        process.send_signal(signal.SIGINT)
        assert (process.wait(60), process.stderr and process.stderr.read().strip()) == (130, "")
    with Fleet(redis_url, name=fleet_name) as fleet:
        assert fleet.run("r1").status().state == "queued"


@pytest.mark.slow
@pytest.mark.parametrize("module", ["pydantic", "rich.console", "kombu.connection"])
def test_ctrl_c_while_python_still_loads_is_silent(
    module: str, redis_url: str, fleet_name: str, tmp_path: Path
) -> None:
    """Python tells what it has loaded; at each of some places it is interrupted."""
    with following(tmp_path, redis_url, fleet_name, PYTHONPROFILEIMPORTTIME="1") as process:
        assert process.stderr is not None
        for line in process.stderr:
            if line.rstrip().endswith(f" {module}"):
                process.send_signal(signal.SIGINT)
                break
        else:
            pytest.fail(f"{module} was never loaded")
        rest = process.stderr.read()
        assert process.wait(60) == 130, rest[-2000:]
        assert "Traceback" not in rest


@contextmanager
def following(folder: Path, url: str, fleet: str, **more: str) -> Iterator[subprocess.Popen[str]]:
    """Start the command that enqueues a run for which there is no worker, and follows it."""
    environment = clean_environment({"TURNFLEET_REDIS_URL": url, "TURNFLEET_NAME": fleet, **more})
    command = [*COMMAND, "enqueue", "plan.json", "hi", "--run-id", "r1", "--follow"]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, cwd=folder, env=environment, stdout=pipe, stderr=pipe, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def test_the_package_is_a_command_too() -> None:
    """`python -m turnfleet`, where the script is not on PATH."""
    done = subprocess.run([sys.executable, "-m", "turnfleet", "--version"], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("turnfleet, version ")
