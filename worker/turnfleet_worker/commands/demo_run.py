"""The demo itself: start what is needed, enqueue, follow, ask at each pause, resume, and say what came of it."""

import sys
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
from turnfleet_worker.commands.session import Session
from turnfleet_worker.demo import byhand, job
from turnfleet_worker.embedded import EmbeddedRedis

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
    def files(self) -> list[str]:
        """The options that name its files."""
        named = {"--invoices": self.invoices, "--payments": self.payments, "--report": self.report}
        return [word for option, path in named.items() for word in (option, str(path.resolve()))]


def run(connection: Connection, todo: Job, *, keep: bool) -> None:
    """Do the job. Raises `click.exceptions.Exit` with the exit code when it did not work out."""
    with Session() as session, display_for(terminal=sys.stdout.isatty()) as display:
        display.busy("starting a Redis …")
        redis = session.start_redis(connection.redis)
        display.note("redis", redis.describe())
        # On a Redis that others use, another demo's worker may have another limit: so each has a fleet of its own.
        name = connection.fleet or (FLEET if redis.child else todo.run_id)
        with Fleet(redis.url, name=name, broker_url=connection.broker) as fleet:
            display.busy("starting a Celery worker …")
            environment = {**todo.environment, **fleet_environment(redis, name, connection.broker)}
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
            if not succeeded:
                display.note("log", f"the worker's log is {worker.log}")
            _tell_by_hand(todo, redis, name, alive=keep)
            if keep:
                _wait(session)
        if not succeeded:
            raise click.exceptions.Exit(failures.FAILED)


def fleet_environment(redis: EmbeddedRedis, name: str, broker: str | None) -> dict[str, str]:
    """Return what tells a worker which fleet it belongs to."""
    told = {"TURNFLEET_REDIS_URL": redis.url, "TURNFLEET_NAME": name}
    return {**told, "TURNFLEET_BROKER_URL": broker} if broker else told


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
        _decide(started, todo)


def _decide(started: Run[Any], todo: Job) -> None:
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
            return


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


def _tell_by_hand(todo: Job, redis: EmbeddedRedis, name: str, *, alive: bool) -> None:
    steps = byhand.steps(
        redis_url=redis.url if alive or redis.child is None else None,
        worker=not alive,
        fleet=name,
        limit=str(todo.limit),
        ledger=todo.ledger,
        files=todo.files,
        model=todo.model,
    )
    click.echo("\nThe same by hand, step by step:")
    for step in steps:
        click.echo(f"  # {step.what}\n  {step.command}" if step.what else f"  {step.command}")


def _wait(session: Session) -> None:
    click.echo("\nRedis and the worker stay until Ctrl-C.")
    session.children.wait_while_running()
