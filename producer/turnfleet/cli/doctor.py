"""`turnfleet doctor`: what is wrong with a fleet, or may become so, and what to do about it."""

import dataclasses
from collections import Counter
from collections.abc import Sequence

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from turnfleet.cli import failures
from turnfleet.cli.options import Connection, Seconds, connected, json_option
from turnfleet.cli.printing import echo_json, safe
from turnfleet.cli.teaching import Taught
from turnfleet.doctor.findings import Finding, Severity, worst

LATE_SECONDS = 30.0
_LOOKS = {
    Severity.OK: ("✓", "green"),
    Severity.UNKNOWN: ("?", "cyan"),
    Severity.WARNING: ("!", "bold yellow"),
    Severity.PROBLEM: ("✗", "bold red"),
}


@click.command(
    cls=Taught,
    short_help="Find what is wrong with a fleet, and what to do.",
    examples=(
        ("turnfleet doctor", "look at all of it"),
        ("turnfleet doctor --strict --json", "for monitoring: a warning is a failure, too"),
    ),
    shape={
        "fleet": "the fleet's name",
        "worst": "the worst severity: ok, unknown, warning or problem",
        "findings": "for each: check (a stable name), severity, seen, advice",
    },
    codes=(1, 2),
    meant={
        0: "no problem was found",
        1: "a problem was found (with --strict: or a warning, or a check that could not be made)",
    },
)
@click.option("--strict", is_flag=True, help="Exit code 1 for a warning, too, and for what could not be looked at.")
@click.option(
    "--late",
    type=Seconds(),
    default=LATE_SECONDS,
    show_default=True,
    metavar="SECONDS",
    help="A run that nobody looked after for so long stands still.",
)
@json_option("Print one JSON object.")
@connected
def doctor(connection: Connection, *, strict: bool, late: float, json_out: bool) -> None:
    """Check Redis, the broker, the workers and the runs of a fleet; say what to do about what is wrong.

    Each finding is ok, unknown (it could not be looked at), a warning, or a problem: runs stand still, or may be lost.
    It changes nothing, and shows no prompt, argument or password.
    """
    from turnfleet.doctor.judge import judge  # noqa: PLC0415 - and Celery and redis-py with them
    from turnfleet.doctor.look import gather  # noqa: PLC0415

    facts = gather(
        connection.redis_url,
        name=connection.name,
        broker_url=connection.broker,
        late_seconds=late,
        key_prefix=connection.key_prefix,
    )
    findings = judge(facts)
    end = worst(findings)
    if json_out:
        echo_json({"fleet": facts.fleet, "worst": end, "findings": [dataclasses.asdict(each) for each in findings]})
    else:
        _show(findings)
    if end is Severity.PROBLEM or (strict and end is not Severity.OK):
        raise click.exceptions.Exit(failures.FAILED)


def _show(findings: Sequence[Finding]) -> None:
    """Print a table on a terminal; elsewhere one line a finding: severity, check, what was seen, advice, by tabs."""
    console = Console(highlight=False)
    if not console.is_terminal:
        for each in findings:
            click.echo("\t".join((each.severity, each.check, safe(each.seen), safe(each.advice))).rstrip())
        return
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for each in findings:
        glyph, style = _LOOKS[each.severity]
        said = Text(safe(each.seen), style="" if each.severity is Severity.OK else "bold")
        if each.advice:
            said = Text.assemble(said, "\n", (safe(each.advice), "dim"))
        table.add_row(Text(glyph, style=style), Text(each.check, style=style), said)
    console.print(table)
    counted = Counter(each.severity for each in findings)
    told = ", ".join(f"{each}: {counted[each]}" for each in reversed(Severity) if counted[each])
    console.print(Text(f"\n{told}", style=_LOOKS[worst(findings)][1]))
