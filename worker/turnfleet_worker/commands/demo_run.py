"""The demo itself: start what is needed, enqueue, follow, ask at each pause, resume, and say what came of it."""

import sys
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from turnfleet import Fleet, Run
from turnfleet.cli import failures
from turnfleet.cli.asking import ask_all
from turnfleet.cli.decisions import somebody
from turnfleet.cli.display import Display, display_for
from turnfleet.cli.options import Connection
from turnfleet.errors import InvalidDecision
from turnfleet_kernel.contracts.events import PAUSE_KINDS, KernelEvent
from turnfleet_kernel.contracts.interrupts import Decision
from turnfleet_kernel.contracts.spec import PlanSpec
from turnfleet_kernel.errors import TurnfleetError
from turnfleet_worker.demo import byhand, job
from turnfleet_worker.local.embedded import EmbeddedRedis, without_password
from turnfleet_worker.local.session import Session

APP = "turnfleet_worker.demo.fleet"
FLEET = "demo"
CONCURRENCY = 8
IDLE_SECONDS = 2.0
RESULT_SECONDS = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What one demo works on. `answer` is the decision that is given without asking; None asks."""

    run_id: str
    invoices: Path
    payments: Path
    report: Path
    limit: Decimal
    model: str
    answer: Decision | None

    @property
    def plan(self) -> PlanSpec:
        """The run's plan."""
        return job.plan(self.model)

    @property
    def prompt(self) -> str:
        """The run's prompt."""
        return job.prompt(self.invoices, self.payments, self.report)

    @property
    def ledger(self) -> Path:
        """Where the write-offs are recorded: beside the report."""
        return self.report.with_name(f"{self.report.stem}.write-offs.csv").resolve()

    @property
    def environment(self) -> dict[str, str]:
        """What the worker is told of it."""
        told = {job.LIMIT_VARIABLE: str(self.limit), job.LEDGER_VARIABLE: str(self.ledger)}
        return told if self.model == job.RULES else {**told, job.MODEL_VARIABLE: self.model}

    @property
    def options(self) -> list[str]:
        """The options that describe the same job again; what is the default is left out."""
        files = {} if self.is_sample else {"--invoices": self.invoices, "--payments": self.payments}
        named = files if self.report.parent.name == self.run_id else {**files, "--report": self.report}
        model = [] if self.model == job.RULES else ["--model", self.model]
        return [*(word for option, path in named.items() for word in (option, str(path.resolve()))), *model]

    @property
    def is_sample(self) -> bool:
        """Whether it works on the files that are shipped."""
        return self.invoices.parent == job.SAMPLE


def run(connection: Connection, todo: Job, *, keep: bool) -> None:
    """Do the job. Raises `click.exceptions.Exit` with the exit code when it did not work out."""
    with Session() as session, display_for(terminal=sys.stdout.isatty()) as display:
        display.busy("starting a Redis …")
        redis = session.start_redis(connection.redis)
        display.note("redis", redis.describe())
        # On a Redis that others use, another demo's worker may have another limit: so each has a fleet of its own.
        name = connection.fleet or (FLEET if redis.child else todo.run_id)
        with Fleet(redis.url, name=name, broker_url=connection.broker, key_prefix=connection.key_prefix) as fleet:
            display.busy("starting a Celery worker …")
            environment = {**todo.environment, **fleet_environment(redis, name, connection)}
            worker = session.start_worker(
                APP, fleet=fleet, concurrency=CONCURRENCY, environment=environment, log=session.folder / "worker.log"
            )
            display.note(
                "worker", f"Celery worker with pid {worker.process.pid}: celery -A {APP} worker -c {CONCURRENCY}"
            )
            started = fleet.enqueue(todo.plan, todo.prompt, run_id=todo.run_id)
            display.note("enqueue", f"run {started.run_id} in fleet {name}")
            try:
                end = _follow(session, display, started, todo)
            except BaseException:
                _let_go(started, redis)
                raise
            display.pause()
            succeeded = _tell(display, started, end, todo)
            session.keep_logs = not succeeded
            if succeeded:
                _tell_by_hand(todo, redis, name)
            else:
                display.note("log", f"the worker's log is {worker.log}")
            if keep:
                _wait(session, redis, name, started.run_id)
        if not succeeded:
            raise click.exceptions.Exit(failures.FAILED)


def fleet_environment(redis: EmbeddedRedis, name: str, connection: Connection) -> dict[str, str]:
    """Return what tells a worker which fleet it belongs to."""
    told = {
        "TURNFLEET_REDIS_URL": redis.url,
        "TURNFLEET_NAME": name,
        "TURNFLEET_BROKER_URL": connection.broker,
        "TURNFLEET_KEY_PREFIX": connection.prefix,
    }
    return {name: value for name, value in told.items() if value}


def _follow(session: Session, display: Display, started: Run[Any], todo: Job) -> KernelEvent:
    """Show events and decide at pauses until the run ends; return its last event."""
    after = -1
    while True:
        last: KernelEvent | None = None
        try:
            for event in started.events(after=after, until="pause", timeout=IDLE_SECONDS):
                display.show(event)
                last, after = event, event.index
        except TimeoutError:
            # Silence is all right as long as there is somebody at work.
            session.children.check()
            continue
        if last is not None and last.kind not in PAUSE_KINDS:
            return last
        display.pause()
        _decide(display, started, todo)


def _decide(display: Display, started: Run[Any], todo: Job) -> None:
    waiting = started.interrupts()
    while waiting:
        if todo.answer is not None:
            decisions = dict.fromkeys((each.id for each in waiting), todo.answer)
        else:
            decisions = ask_all(_console(), waiting)
        try:
            started.resume(decisions, by=somebody())
        except InvalidDecision as error:
            if todo.answer is not None:
                raise
            click.echo(f"  That was not taken: {error}. Please decide again.", err=True)
        else:
            display.note("decides", _told(decisions.values()))
            return


def _told(decisions: Iterable[Decision]) -> str:
    counted = Counter(decision.kind for decision in decisions)
    return ", ".join(f"{number} x {kind}" for kind, number in counted.items())


def _console() -> Console:
    """Return where questions go: to stderr when stdout is a pipe."""
    return Console(highlight=False, stderr=not sys.stdout.isatty())


def _let_go(started: Run[Any], redis: EmbeddedRedis) -> None:
    """Cancel a run that nobody will serve any more; a Redis of our own goes with everything in it."""
    if redis.child is not None:
        return
    try:
        started.cancel(reason="the demo was stopped")
    except TurnfleetError as error:
        click.echo(f"run {started.run_id} could not be cancelled: {error}", err=True)


def _tell(display: Display, started: Run[Any], end: KernelEvent, todo: Job) -> bool:
    """Say what came of it; whether the report is there."""
    if end.kind != "done":
        return False
    outcome = started.result(timeout=RESULT_SECONDS)
    written = [made for made in outcome.tool_outcomes if made.name == "write_report" and made.error is None]
    if not written:
        display.note("failed", "the run ended without a report")
        return False
    value = written[-1].value
    display.note("report", str(todo.report.resolve()))
    made, declined = value["written_off"], value["not_written_off"]
    display.note("total", f"{made} written off ({value['written_off_sum']}), {declined} not written off")
    if made:
        display.note("ledger", str(todo.ledger))
    return True


def _tell_by_hand(todo: Job, redis: EmbeddedRedis, name: str) -> None:
    _paste(
        "The same by hand, step by step",
        byhand.steps(
            redis_url=None if redis.child else without_password(redis.url),
            server=redis.kind,
            fleet=name,
            limit=str(todo.limit),
            options=todo.options,
            model=todo.model,
        ),
    )


def _wait(session: Session, redis: EmbeddedRedis, name: str, run_id: str) -> None:
    _paste(
        "To look around meanwhile", byhand.look_around(redis_url=without_password(redis.url), fleet=name, run_id=run_id)
    )
    click.echo("\nRedis and the worker stay until Ctrl-C.")
    session.children.wait_while_running()


def _paste(title: str, steps: Sequence[byhand.Step]) -> None:
    click.echo(f"\n{title}:")
    for step in steps:
        if step.what:
            click.echo(f"  # {step.what}")
        click.echo(f"  {step.command}")
