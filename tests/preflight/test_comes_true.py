"""What a preflight says comes true: a real worker of the new build does what was foretold of each run."""

import pytest
from preflight import builds
from preflight.cases import CASES, Case
from preflight.conftest import Site
from support.lines import lines_so_far
from support.waiting import eventually

from turnfleet import Answer, Approve
from turnfleet_kernel.contracts.interrupts import Decision


@pytest.mark.slow
def test_what_was_to_go_on_does_and_what_was_to_break_does(site: Site) -> None:
    """Everything open is approved, the new build is rolled out, and each run comes to its foretold end and effects."""
    assert {name: each.word for name, each in site.verdicts(builds.new).items()} == {
        case.name: case.says for case in CASES
    }
    since = len(lines_so_far(site.marks))
    for case in CASES:
        _decide(site, case)
    with site.worker("new"):
        for case in CASES:
            check(site, case, since)


def _decide(site: Site, case: Case) -> None:
    run = site.fleet.run(case.name)
    decided: dict[str, Decision] = {
        each.id: Answer("the first") if each.kind == "question" else Approve() for each in run.interrupts()
    }
    if decided:
        run.resume(decided, by="alice")


def check(site: Site, case: Case, since: int) -> None:
    """Assert what became of a run."""
    run = site.fleet.run(case.name)
    status = eventually(
        lambda: (now := run.status()).state == case.after and now, 40, what=f"{case.name} to be {case.after}"
    )
    if case.after == "completed":
        errors = " ".join(each.error for each in run.result(timeout=60).tool_outcomes if each.error)
        assert (case.error in errors) if case.error else errors == "", (case.name, errors)
    elif case.after == "failed":
        assert case.error in str(status.error)
    elif case.after == "parked":
        assert status.parked_because
    assert site.effects(case.name, since) == sorted(case.effects), case.name
