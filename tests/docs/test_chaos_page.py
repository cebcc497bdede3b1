"""The figures of the chaos page are those of a report."""

from collections import Counter
from pathlib import Path

from support.pages import Shop

from turnfleet_worker.chaos.report import Report
from turnfleet_worker.chaos.verdict import Verdict
from turnfleet_worker.local.figures import Spread


def test_the_figures_of_a_chaos_have_the_rows_that_it_prints(tmp_path: Path) -> None:
    """They were measured once, over five minutes; what can be held here is that the report still says these things."""
    nothing = Report(
        seed=0,
        asked=0.0,
        seconds=0.0,
        workers=0,
        verdict=Verdict(),
        recovery=Spread(0, None, None),
        resume=Spread(0, None, None),
        faults=Counter(),
        missed=Counter(),
        processes=Counter(),
        versions={},
    )
    with Shop("docs/design/chaos.md", tmp_path) as shop:
        shown = {line[:9].strip() for line in shop.shown("chaos").splitlines()}
    assert shown <= {label for label, _ in nothing.rows()}
