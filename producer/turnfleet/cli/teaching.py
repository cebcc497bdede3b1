"""Commands that teach: each says, in its own `--help`, how it is used, by examples, and how it ends, by exit codes."""

from collections.abc import Mapping, Sequence
from typing import Any

import click
from typing_extensions import override

from turnfleet.cli.failures import MEANINGS

Example = tuple[str, str]
"""What to type, and what that does."""


class Taught(click.Command):
    """A command with examples, exit codes, and what `--json` prints.

    `codes` are its exit codes beside 0; `meant` says what one means here. `shape`: the members of the JSON object that
    it prints, and what each is. Tests run the examples and compare the shapes; both stand in the reference.
    """

    def __init__(
        self,
        *args: Any,
        examples: Sequence[Example] = (),
        codes: Sequence[int] = (),
        meant: Mapping[int, str] | None = None,
        shape: Mapping[str, str] | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(*args, **kwargs)
        self.shape = dict(shape or {})
        self.examples = tuple(examples)
        self.codes = {code: (meant or {}).get(code, MEANINGS[code]) for code in (0, *codes)}

    @override
    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write examples, a line each, what they do above them; then the exit codes."""
        if self.examples:
            with formatter.section("Examples"):
                for typed, does in self.examples:
                    formatter.write_text(f"# {does}")
                    formatter.write(f"{'':>{formatter.current_indent}}{typed}\n")
        if self.shape:
            with formatter.section("JSON"):
                formatter.write_dl(list(self.shape.items()))
        with formatter.section("Exit codes"):
            formatter.write_dl([(str(code), text) for code, text in self.codes.items()])
        super().format_epilog(ctx, formatter)
