"""Every way in which a command ends that is the user's or the fleet's: a message and an exit code, no traceback."""

import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NoReturn

import click
from pydantic import ValidationError

from turnfleet.cli import failures
from turnfleet_kernel.errors import TurnfleetError


@contextmanager
def told() -> Iterator[None]:
    """Turn what comes out of a command into a message on stderr and `click.exceptions.Exit` with its code."""
    try:
        yield
        # A pipe whose reader has left shows only when the buffer is written: here, not while Python shuts down.
        sys.stdout.flush()
    except TurnfleetError as error:
        end("; ".join([str(error), *getattr(error, "__notes__", ())]), failures.exit_code(error))
    except ValidationError as error:
        end(_first_problems(error), failures.USAGE)
    except (KeyboardInterrupt, click.Abort) as error:
        _last_line()
        raise click.exceptions.Exit(getattr(error, "exit_code", failures.INTERRUPTED)) from error
    except BrokenPipeError as error:
        _let_go_of_stdout()
        raise click.exceptions.Exit(failures.BROKEN_PIPE) from error
    except OSError as error:
        if error.errno not in _OUTPUT_ERRORS or error.filename is not None:
            raise
        _let_go_of_stdout()
        end(f"what was to be printed could not be written: {error.strerror}", failures.FAILED)


# Only what writing can fail with, and that names no file: a command's own trouble with files is told where it arises.
_OUTPUT_ERRORS = frozenset({errno.ENOSPC, errno.EIO, errno.EBADF, errno.EFBIG, errno.EDQUOT})


def end(message: str, code: int) -> NoReturn:
    """Say what went wrong, as click says its own, and end with this exit code."""
    click.echo(f"Error: {message}", err=True)
    raise click.exceptions.Exit(code)


def prepare_streams() -> None:
    """Make the standard streams usable: a closed one reads or writes nothing, any character can be written."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = getattr(sys, name)
        if stream is None:
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: PTH123, SIM115 - kept to the end
        elif hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace" if mode == "w" else "strict")


def _first_problems(error: ValidationError) -> str:
    """Say where a document is wrong, without showing what it holds."""
    places: dict[str, list[str]] = {}
    for problem in error.errors(include_input=False, include_url=False):
        place = ".".join(str(part) for part in problem["loc"] if not _BRANCH.fullmatch(str(part)))
        # What is a tuple here is a list in the document that a person wrote.
        told = problem["msg"].replace("valid tuple", "list")
        places.setdefault(place or "the document", []).append(told)
    problems = [f"{place}: {' or '.join(told)}" for place, told in places.items()]
    return f"{error.title} is not right: " + "; ".join(problems[:5])


# How pydantic names the alternatives of a field: types of Python's, which nobody wrote into the document.
_BRANCH = re.compile(r"constrained-\w+|[\w-]+\[.*\]")


def _last_line() -> None:
    """Go below what the terminal shows of Ctrl-C; a terminal that is gone does not matter."""
    try:
        click.echo(err=True)
    except OSError:
        return


def _let_go_of_stdout() -> None:
    # Python flushes stdout once more while it shuts down, and would complain there.
    sink = os.open(os.devnull, os.O_WRONLY)
    os.dup2(sink, sys.stdout.fileno())
    os.close(sink)
