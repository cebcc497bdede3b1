"""The command's root as click sees it: it finds commands, its own and those of other packages, and groups them."""

from collections.abc import Mapping
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import click
from typing_extensions import override

from turnfleet.cli import failures
from turnfleet.cli.options import VARIABLES
from turnfleet.cli.ways_out import end, told

COMMANDS_GROUP = "turnfleet.commands"

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Begin": ("demo", "dev"),
    "Runs": ("enqueue", "tail", "runs", "show", "retry", "cancel"),
    "People": ("inbox", "resume"),
    "Operation": ("worker", "workers", "doctor", "preflight", "acl", "chaos", "bench"),
}
"""Which command stands under which heading of the help; one that is in none stands under "More"."""


class CommandLine(click.Group):
    """A group whose commands may come from other packages, and whose errors are messages."""

    @override
    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return all names; the ones of other packages are not loaded for that."""
        return sorted({*super().list_commands(ctx), *(entry.name for entry in _plugins())})

    @override
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Return a command of our own, else one from an entry point."""
        own = super().get_command(ctx, cmd_name)
        if own is not None:
            return own
        return next((_load(entry) for entry in _plugins() if entry.name == cmd_name), None)

    @override
    def make_context(self, *args: Any, **kwargs: Any) -> click.Context:
        """Read the command line; its help is printed here, too, and may meet a reader who left."""
        with told():
            return super().make_context(*args, **kwargs)

    @override
    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with told():
            return super().invoke(ctx)

    @override
    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, then the options: the commands are what a person is looking for."""
        self.format_commands(ctx, formatter)
        click.Command.format_options(self, ctx, formatter)

    @override
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands under headings, in the order in which a person meets them."""
        names = self.list_commands(ctx)
        headed = {name for listed in SECTIONS.values() for name in listed}
        sections = {**SECTIONS, "More": tuple(name for name in names if name not in headed)}
        width = max(map(len, names))
        for heading, listed in sections.items():
            rows = [(name.ljust(width), self._about(ctx, name, formatter)) for name in listed if name in names]
            if rows:
                with formatter.section(heading):
                    formatter.write_dl(rows)

    def _about(self, ctx: click.Context, name: str, formatter: click.HelpFormatter) -> str:
        command = self.get_command(ctx, name)
        return "" if command is None else command.get_short_help_str(formatter.width)

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the environment variables and all exit codes."""
        with formatter.section("Environment"):
            formatter.write_dl(list(VARIABLES.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in failures.MEANINGS.items()])


def _plugins() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=COMMANDS_GROUP))


def _load(entry: EntryPoint) -> click.Command:
    try:
        command = entry.load()
    except ImportError as error:
        text = f"needs {error.name}: pip install 'turnfleet[worker]'" if error.name else str(error)
        # Whatever options it is called with: that it is not here is what has to be said.
        return click.Command(
            entry.name,
            help=text,
            short_help="(needs pip install 'turnfleet[worker]')",
            callback=_refusal(f"turnfleet {entry.name}: {text}"),
            context_settings={"ignore_unknown_options": True, "allow_extra_args": True},
        )
    if not isinstance(command, click.Command):
        end(f"the command {entry.name!r} of {entry.value} is no command", failures.FAILED)
    return command


def _refusal(text: str) -> Any:
    def refuse() -> None:
        end(text, failures.USAGE)

    return refuse
