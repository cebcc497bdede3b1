"""Words are completed in a real bash; the other shells get their script."""

import subprocess
from pathlib import Path

import pytest
from cli.shared import PLAN
from support.command_line import COMMAND, clean_environment
from support.ports import free_port

from turnfleet import Fleet
from turnfleet.cli.main import cli


def complete(line: str, folder: Path, url: str, fleet: str) -> tuple[list[str], str]:
    """Press Tab behind a line in bash; return what it offers, and what was written to the terminal meanwhile."""
    (folder / "turnfleet").write_text(f'#!/bin/sh\nexec {" ".join(COMMAND)} "$@"\n')
    (folder / "turnfleet").chmod(0o755)
    script = f"""
        PATH={folder}:$PATH
        eval "$(turnfleet completion bash)"
        export TURNFLEET_REDIS_URL={url} TURNFLEET_NAME={fleet}
        COMP_LINE={line!r} COMP_WORDS=({line}{" ''" if line.endswith(" ") else ""})
        COMP_CWORD=$(( ${{#COMP_WORDS[@]}} - 1 )) COMP_POINT=${{#COMP_LINE}}
        $(complete -p turnfleet | sed -E 's/.*-F ([^ ]+).*/\\1/') turnfleet "${{COMP_WORDS[COMP_CWORD]}}" ""
        printf '%s\\n' "${{COMPREPLY[@]}}"
    """
    done = subprocess.run(
        ["bash", "--norc", "-c", script],
        cwd=folder, env=clean_environment(), capture_output=True, text=True, timeout=240, check=True,
    )  # fmt: skip
    return done.stdout.split(), done.stderr


def test_bash_completes_run_ids_of_the_fleet_by_state(redis_url: str, fleet_name: str, tmp_path: Path) -> None:
    """`cancel` offers what has not ended; the shell's own functions do it."""
    with Fleet(redis_url, name=fleet_name) as fleet:
        for run_id in ("ticket-1", "ticket-2", "other"):
            fleet.enqueue(PLAN, "hello", run_id=run_id)
        fleet.run("ticket-1").cancel()
    assert complete("turnfleet cancel tick", tmp_path, redis_url, fleet_name) == (["ticket-2"], "")


@pytest.mark.slow
def test_bash_completes_commands_options_and_choices(redis_url: str, fleet_name: str, tmp_path: Path) -> None:
    """As click knows them, those of the worker wing too."""
    offered = {
        line: complete(line, tmp_path, redis_url, fleet_name)[0]
        for line in ("turnfleet wo", "turnfleet tail --j", "turnfleet completion ")
    }
    assert offered == {
        "turnfleet wo": ["worker", "workers"],
        "turnfleet tail --j": ["--json"],
        "turnfleet completion ": ["bash", "zsh", "fish"],
    }


@pytest.mark.slow
def test_a_redis_that_is_away_offers_nothing_and_says_nothing(tmp_path: Path) -> None:
    """Neither one that refuses nor a URL that makes no sense."""
    for url in (f"redis://127.0.0.1:{free_port()}/0", "nonsense"):
        assert complete("turnfleet show ", tmp_path, url, "x") == ([], "")


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_has_its_script(shell: str) -> None:
    """It names the command and the variable that click reads."""
    from click.testing import CliRunner

    done = CliRunner().invoke(cli, ["completion", shell])
    assert (done.exit_code, "_TURNFLEET_COMPLETE" in done.stdout, "turnfleet" in done.stdout) == (0, True, True)
