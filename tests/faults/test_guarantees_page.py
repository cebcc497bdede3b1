"""What docs/guarantees.md says is shown is shown: every test that it names exists."""

import re
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
PAGE = TESTS.parent / "docs" / "guarantees.md"


def test_every_test_that_the_page_names_exists() -> None:
    """A renamed test leaves no claim behind that nothing shows."""
    text = PAGE.read_text("utf-8")
    named = re.findall(r"`([\w/]+\.py)::(\w+)`", text)
    assert len(named) > 20
    missing = [
        f"{file}::{name}"
        for file, name in named
        if not re.search(rf"^(async )?def {name}\(", (TESTS / file).read_text("utf-8"), re.MULTILINE)
    ]
    assert missing == []


def test_the_page_claims_no_more_than_can_be() -> None:
    """Never "exactly once": only a receiver that deduplicates can say that."""
    assert "exactly once" not in PAGE.read_text("utf-8").lower()
