"""`turnfleet dev` and `turnfleet worker`: a worker of the user's own registry."""

import importlib.util
import os
import sys
from pathlib import Path

import click

from turnfleet import Fleet
from turnfleet.cli.options import Connection, connected
from turnfleet.cli.teaching import Taught
from turnfleet_worker.commands.demo_run import fleet_environment
from turnfleet_worker.commands.registry_app import APP_VARIABLE, load_registry
from turnfleet_worker.local.embedded import EmbeddedRedis, free_port, without_password
from turnfleet_worker.local.session import Session, worker_command

APP = "turnfleet_worker.commands.registry_app"
FLOWER_PORT = 5555
registry_option = click.option("--app", required=True, metavar="MODULE:REGISTRY", help="Where the Registry is.")
concurrency_option = click.option(
    "-c", "--concurrency", type=click.IntRange(1), default=100, show_default=True, help="Runs at once in this process."
)


@click.command(
    cls=Taught,
    short_help="Run a worker of your registry.",
    examples=(("turnfleet worker --app myfleet:registry -c 200 -- -Q turnfleet.default,bulk", "read two queues"),),
    codes=(2,),
    meant={0: "stopped by SIGTERM, its runs handed back", 2: "wrong usage, or the registry cannot be loaded"},
)
@registry_option
@concurrency_option
@click.argument("celery_options", nargs=-1, type=click.UNPROCESSED)
@connected
def worker(connection: Connection, *, app: str, concurrency: int, celery_options: tuple[str, ...]) -> None:
    """Run a worker of the registry in this process; what follows "--" goes to `celery worker`."""
    check_registry(app)
    told = {"TURNFLEET_REDIS_URL": connection.redis_url, "TURNFLEET_NAME": connection.name, APP_VARIABLE: app}
    told |= {"TURNFLEET_BROKER_URL": connection.broker} if connection.broker else {}
    told |= {"TURNFLEET_KEY_PREFIX": connection.prefix} if connection.prefix else {}
    command = worker_command(APP, concurrency=concurrency, options=celery_options)
    # The worker takes this process's place: whoever supervises this pid supervises the worker.
    os.execve(command[0], command, {**os.environ, **told})  # noqa: S606 - this package's own command


@click.command(
    cls=Taught,
    short_help="Run a Redis, a worker of your registry and Flower.",
    examples=(("turnfleet dev --app myfleet:registry --data ./data", "runs are still there the next time"),),
    codes=(1, 2, 130),
    meant={1: "a process ended by itself", 2: "wrong usage, or the registry cannot be loaded", 130: "ended by Ctrl-C"},
)
@registry_option
@concurrency_option
@click.option("--data", type=click.Path(file_okay=False, path_type=Path), help="Keep the embedded Redis' data here.")
@click.option(
    "--port", type=click.IntRange(1, 65535), help="Flower's port (else 5555, or a free one if that is taken)."
)
@connected
def dev(connection: Connection, *, app: str, concurrency: int, data: Path | None, port: int | None) -> None:
    """Run an embedded Redis, a worker of the registry, and Flower (where it is installed), until Ctrl-C.

    The Redis listens where programs look that are told nothing, localhost:6379, unless that port is taken. Other
    terminals use the fleet with the two variables that are printed. A changed tool or model is there after Ctrl-C
    and the same command again; with --data the runs are, too.
    """
    check_registry(app)
    at = free_port(port or FLOWER_PORT)
    if port not in {None, at}:
        raise click.UsageError(f"port {port} is taken: give another one with --port, or leave it out")
    with Session() as session:
        redis = session.start_redis(connection.redis, data=data, at_usual_port=True)
        click.echo(f"redis    {redis.describe()}")
        told = {**fleet_environment(redis, connection.name, connection), APP_VARIABLE: app}
        with Fleet(
            redis.url, name=connection.name, broker_url=connection.broker, key_prefix=connection.key_prefix
        ) as fleet:
            child = session.start_worker(APP, fleet=fleet, concurrency=concurrency, environment=told, log=None)
        click.echo(f"worker   pid {child.process.pid}")
        if importlib.util.find_spec("flower") is None:
            click.echo("flower   not installed: pip install 'turnfleet[monitor]'")
        else:
            flower = [sys.executable, "-m", "celery", "-A", APP, "flower", "--address=127.0.0.1", f"--port={at}"]
            flower += ["--tasks_columns=name,uuid,state,result,received,worker"]
            session.children.start("Flower", flower, log=session.folder / "flower.log", environment=told)
            click.echo(f"flower   http://127.0.0.1:{at}, log in {session.folder / 'flower.log'}")
        url = without_password(redis.url)
        click.echo(f"use it   export TURNFLEET_REDIS_URL={url} TURNFLEET_NAME={connection.name}")
        click.echo(f"Ctrl-C ends all of it{what_is_kept(redis, data)}.")
        session.children.wait_while_running()


def what_is_kept(redis: EmbeddedRedis, data: Path | None) -> str:
    """Say what becomes of the runs when the session ends: "" where they are in a Redis of the user's own."""
    if redis.child is None:
        return ""
    return f"; the runs stay in {data}" if data and redis.persistent else " and forgets its runs (--data keeps them)"


def check_registry(app: str) -> None:
    """Load the registry once, here, where a mistake can still be told to the person who made it."""
    try:
        load_registry(app)
    except ValueError as error:
        raise click.UsageError(f"--app {app}: {error}") from error
