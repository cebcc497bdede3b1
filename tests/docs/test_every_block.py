"""No block of a page is shown that no test runs, and the harness that says so is not blind."""

import ast
import re
from pathlib import Path

import pytest
from support.pages import ROOT, Shop, blocks_of, prints

PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md", "compose/README.md")
LINK = re.compile(r"\]\(([^)\s]+)\)")


def _pages() -> list[str]:
    return [*PAGES, *sorted(str(path.relative_to(ROOT)) for path in (ROOT / "docs").rglob("*.md"))]


def _claims(source: str) -> set[tuple[str, str | None]]:
    """List what a test file runs, as literals say: (page, title), the title None for every block of the page."""
    claimed: set[tuple[str, str | None]] = set()
    for call in ast.walk(ast.parse(source)):
        match call:
            case ast.Call(func=ast.Name(id="Shop"), args=[ast.Constant(value=str() as page), *_]):
                only = [ast.literal_eval(keyword.value) for keyword in call.keywords if keyword.arg == "only"]
                claimed |= {(page, title) for title in (only[0] if only else [None])}
    return claimed


def _unclaimed(page: str, text: str, claimed: set[tuple[str, str | None]]) -> list[str]:
    if (page, None) in claimed:
        return []
    return [
        f"{page}:{block.line} {block.title}" for block in blocks_of(page, text) if (page, block.title) not in claimed
    ]


def test_every_block_of_every_page_is_claimed_by_a_test() -> None:
    """A page that gains a block without a test fails here; one whose test skips a block fails in that test."""
    tests = [path for path in (ROOT / "tests").rglob("test_*.py") if path != Path(__file__)]
    claimed = set().union(*(_claims(path.read_text(encoding="utf-8")) for path in tests))
    unclaimed = [
        line for page in _pages() for line in _unclaimed(page, (ROOT / page).read_text(encoding="utf-8"), claimed)
    ]
    assert unclaimed == []
    assert {page for page, _ in claimed} <= set(_pages())


def test_a_block_without_a_test_is_noticed() -> None:
    """One page with two blocks, of which a test names one."""
    claimed = _claims('Shop("a.md", folder, only=("one.py",))')
    text = '```python title="one.py"\npass\n```\n```bash title="two"\ntrue\n```\n'
    assert _unclaimed("a.md", text, claimed) == ["a.md:4 two"]


@pytest.mark.parametrize("text", ["```python\npass\n```\n", "```\nanything\n```\n", '```python title="a.py"\npass\n'])
def test_a_block_that_nobody_can_name_is_refused(text: str) -> None:
    """Without a language, without a title, or without an end."""
    with pytest.raises(ValueError, match=r"a\.md:1"):
        blocks_of("a.md", text)


def test_a_shop_that_leaves_a_block_unused_fails(tmp_path: Path) -> None:
    """A claim is kept by running the block, not by making it."""
    with (
        pytest.raises(AssertionError, match=r"README.md: no test ran \['worker'\]"),
        Shop("README.md", tmp_path, only=("worker", "myfleet.py")) as shop,
    ):
        shop.write("myfleet.py")


def test_what_a_page_shows_is_compared() -> None:
    """Word for word, but for the three dots."""
    assert prints("run ... is queued\n", "run 17 is queued")
    assert not prints("run ... is queued\n", "run 17 is running")
    assert not prints("one\n", "one\ntwo\n")


def test_links_outside_the_site_lead_somewhere() -> None:
    """What the site builder does for docs/, for the pages that it does not see."""
    broken = [
        f"{page}: {target}"
        for page in PAGES
        for target in LINK.findall((ROOT / page).read_text(encoding="utf-8"))
        if "://" not in target and not ((ROOT / page).parent / target.split("#")[0]).exists()
    ]
    assert broken == []
