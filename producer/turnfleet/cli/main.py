"""The command's root: it finds commands, its own and the worker wing's, and turns errors into exit codes."""

import os
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import Any, NoReturn

import click
from pydantic import ValidationError

from turnfleet.cli import failures
from turnfleet.cli.decisions import resume
from turnfleet.cli.doctor import doctor
from turnfleet.cli.listings import inbox, runs, workers
from turnfleet.cli.options import Connection, group_connection
from turnfleet.cli.running import cancel, enqueue, retry, show, tail
from turnfleet_kernel.errors import TurnfleetError

COMMANDS_GROUP = "turnfleet.commands"


class CommandLine(click.Group):
    """A group whose commands may come from other packages, and whose errors are messages."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names; the ones of other packages are not loaded for that."""
        return sorted({*super().list_commands(ctx), *(entry.name for entry in _plugins())})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of our own, else one from an entry point."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        return next((_load(entry) for entry in _plugins() if entry.name == cmd_name), None)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; every way out that is the user's or the fleet's becomes a message and an exit code."""
        try:
            result = super().invoke(ctx)
            # A pipe whose reader has left shows only when the buffer is written: here, not while Python shuts down.
            sys.stdout.flush()
        except TurnfleetError as error:
            _end(str(error), failures.exit_code(error))
        except ValidationError as error:
            _end(_first_problems(error), failures.USAGE)
        except (KeyboardInterrupt, click.Abort) as error:
            click.echo(err=True)
            raise click.exceptions.Exit(getattr(error, "exit_code", failures.INTERRUPTED)) from error
        except BrokenPipeError as error:
            _let_go_of_stdout()
            raise click.exceptions.Exit(failures.BROKEN_PIPE) from error
        return result


def _end(message: str, code: int) -> NoReturn:
    """Say what went wrong, as click says its own, and end with this exit code."""
    click.echo(f"Error: {message}", err=True)
    raise click.exceptions.Exit(code)


def _plugins() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=COMMANDS_GROUP))


def _load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except ImportError as error:
        missing = error.name or str(error)
        text = f"Needs more than this installation has ({missing}): pip install 'turnfleet[worker]'"
        return click.Command(entry.name, help=text, callback=_refusal(text), add_help_option=True)
    if not isinstance(command, click.Command):
        _end(f"the command {entry.name!r} of {entry.value} is no command", failures.FAILED)
    return command


def _refusal(text: str) -> Any:
    def refuse() -> None:
        _end(text, failures.USAGE)

    return refuse


def _first_problems(error: ValidationError) -> str:
    """Say where a document is wrong, without showing what it holds."""
    problems = [
        f"{'.'.join(str(part) for part in problem['loc']) or 'the document'}: {problem['msg']}"
        for problem in error.errors(include_input=False, include_url=False)
    ]
    return f"{error.title} is not right: " + "; ".join(problems[:5])


def _let_go_of_stdout() -> None:
    # Python flushes stdout once more while it shuts down, and would complain there.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)


@click.group(cls=CommandLine, context_settings={"help_option_names": ["-h", "--help"]})
@group_connection
@click.version_option(package_name="turnfleet")
@click.pass_context
def cli(ctx: click.Context, redis: str | None, broker: str | None, fleet: str | None, key_prefix: str | None) -> None:
    """Enqueue agent runs, watch them, and decide what they ask.

    Exit codes: 0 done; 1 the run failed, or the answer is no; 2 wrong usage; 3 the fleet cannot be reached; 4 unknown
    run; 5 somebody decided first, or it is not allowed; 128+n ended by a signal.
    """
    ctx.obj = Connection(redis, broker, fleet, key_prefix)


for command in (enqueue, tail, runs, inbox, show, resume, retry, cancel, workers, doctor):
    cli.add_command(command)
