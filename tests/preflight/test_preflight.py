"""A preflight says beforehand what a new build will do with the runs that are there, and does none of it (DESIGN 5)."""

from collections import Counter
from pathlib import Path
from typing import Any

from cli.shared import command_for, told
from preflight import builds
from preflight.cases import CASES, Case
from preflight.conftest import Site
from support.command_line import Terminal
from support.ports import free_port

from turnfleet.wire.versions import Versions
from turnfleet_worker.preflight.check import unserved_versions
from turnfleet_worker.preflight.verdicts import Verdict

TESTS = Path(__file__).parents[1]
MEDDLED = {"plan", "plan id", "request", "journal", "transcript", "response", "run"}
"""What no build would go on with: these runs were interfered with."""


COUNTS = Counter(case.says for case in CASES)
SUMMARY = (
    f"{len(CASES)} runs looked at: {COUNTS['goes on']} go on, {COUNTS['changed']} go on differently, "
    f"{COUNTS['breaks']} would break"
)


def test_it_says_what_would_become_of_each_run(site: Site) -> None:
    """State, word and causes, each as foretold; a next step where there is one."""
    said = site.verdicts(builds.new)
    assert {name: _outline(each) for name, each in said.items()} == {case.name: _foretold(case) for case in CASES}
    for case in CASES:
        verdict = said[case.name]
        assert " and ".join(verdict.next).startswith(case.next)
        assert bool(verdict.next) == (case.says != "breaks")


def _outline(verdict: Verdict) -> Any:
    return verdict.state, verdict.word, {(each.kind, each.about) for each in verdict.findings}


def _foretold(case: Case) -> Any:
    return case.before, case.says, set(case.findings)


def test_findings_say_why_and_show_no_prompt(site: Site) -> None:
    """What is said beforehand is what the run's own error would say; nothing of what users typed is in it."""
    for name, verdict in site.verdicts(builds.new).items():
        case = next(case for case in CASES if case.name == name)
        text = " ".join(each.text for each in verdict.findings)
        assert case.error in text
        assert case.prompt not in text
        assert "Which one?" not in text


def test_every_run_is_counted_and_what_breaks_is_listed(site: Site) -> None:
    """All states but the terminal ones."""
    report = site.look(builds.new)
    assert report.words == COUNTS
    assert {each.run_id for each in report.listed} == {case.name for case in CASES if case.says != "goes on"}
    assert not report.passes(strict=False)


def test_nothing_is_written_and_nothing_is_called(site: Site) -> None:
    """Not one key changes, no model is asked, no tool or other stage runs: safe against production."""
    before, marks = site.keys(), site.marks.read_text()
    assert site.look(builds.new).looked_at == len(CASES)
    after = site.keys()
    assert {key for key in before.keys() | after.keys() if before.get(key) != after.get(key)} == set()
    assert site.marks.read_text() == marks


def test_a_user_who_may_only_read_is_enough(site: Site) -> None:
    """The server itself would refuse a write: give a pipeline no more than this."""
    may = ["+@read", "+@connection", "+time", "+eval", "+evalsha", "+script|load"]
    site.client.acl_setuser("looker", enabled=True, passwords=["+secret"], keys=["*"], commands=may)
    try:
        url = site.url.replace("redis://", "redis://looker:secret@")
        looked = command_for(url, site.name)("preflight", "--app", "preflight.builds:new", "--json")
        assert told(looked)["looked_at"] == len(CASES)
    finally:
        site.client.acl_deluser("looker")


def test_a_build_without_changes_passes(site: Site) -> None:
    """The deployed build goes on with every run that nobody interfered with, but the one that needs the new tool."""
    report = site.look(builds.old)
    meddled = {case.name for case in CASES if {kind for kind, _ in case.findings} & MEDDLED}
    assert {each.run_id for each in report.listed} == meddled | {"parked-before"}


def test_runs_can_be_chosen(site: Site) -> None:
    """By state, plan, tenant and number; failed runs only when asked for."""
    assert site.look(builds.new, states=("parked",)).looked_at == 1
    assert site.look(builds.new, limit=3).looked_at == 3
    assert site.look(builds.new, tenant="nobody").looked_at == 0
    assert site.look(builds.new, tenant="acme").looked_at == 1
    assert site.look(builds.new, plan="healthy").looked_at == 1
    assert dict(site.look(builds.new, states=("failed",)).words) == {"goes on": 1}


def test_stages_can_be_left_out(site: Site) -> None:
    """Without them a stage that would refuse is not found, and not run."""
    report = site.look(builds.new, plan="refusing-stage", stages=False)
    assert dict(report.words) == {"goes on": 1}


def test_the_command_says_it_to_people_and_to_a_pipeline(site: Site) -> None:
    """A table, or one JSON object; the exit code is 1 when runs would break, also when they would only change."""
    command = command_for(site.url, site.name)
    shown = command("preflight", "--app", "preflight.builds:new")
    assert shown.exit_code == 1
    assert "breaks\t1\tmissing\ttool fax" in shown.output
    assert shown.output.rstrip().endswith(SUMMARY)
    listed = told(command("preflight", "--app", "preflight.builds:new", "--json", "--plan", "missing-tool"))
    assert (listed["breaks"], listed["passes"], listed["runs"][0]["run_id"]) == (1, False, "missing-tool")
    assert command("preflight", "--app", "preflight.builds:new", "--plan", "healthy").exit_code == 0
    changed = ("preflight", "--app", "preflight.builds:new", "--plan", "told")
    assert [command(*changed).exit_code, command(*changed, "--strict").exit_code] == [0, 1]


def test_on_a_terminal_there_are_tables(site: Site, tmp_path: Path) -> None:
    """With headers, and the progress bar gone when it is over."""
    told_to = {"TURNFLEET_REDIS_URL": site.url, "TURNFLEET_NAME": site.name, "MARKS": str(site.marks)}
    env = {**told_to, "PYTHONPATH": str(TESTS)}
    with Terminal("preflight", "--app", "preflight.builds:new", folder=tmp_path, env=env) as terminal:
        terminal.wait_for(r"verdict +runs +why +about +for example")
        terminal.wait_for(r"breaks +1 +missing +tool fax")
        terminal.wait_for(SUMMARY)
        assert terminal.wait() == 1


def test_the_command_says_what_it_cannot_do(site: Site) -> None:
    """No such registry: 2. No Redis: 3."""
    assert command_for(site.url, site.name)("preflight", "--app", "preflight.builds:nothing").exit_code == 2
    nowhere = command_for(f"redis://127.0.0.1:{free_port()}/0", site.name)
    assert nowhere("preflight", "--app", "preflight.builds:new").exit_code == 3


def test_a_fleet_that_writes_what_the_build_does_not_serve_is_told(site: Site) -> None:
    """Live workers two envelope versions ahead: their messages would be refused."""
    assert site.look(builds.new).fleet == []
    ahead = [{"worker": "w", "version": "9.9", "envelopes": [3, 2]}, {"worker": "v", "envelopes": [1]}]
    (sentence,) = unserved_versions(ahead, Versions(1))
    assert "9.9" in sentence
    assert "version 3" in sentence
