"""What the documentation site is built with, beyond its pages: the order of its sections, and the changelog as a page.

A page is in the navigation by being in its folder; nothing lists the pages. `mkdocs.yml` names this file as its hook.
"""

from collections.abc import Iterable
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.nav import Navigation, Section
from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[2]

SECTIONS = {
    "tutorial": "Tutorial",
    "how-to": "How to",
    "reference": "Reference",
    "explanation": "Explanation",
    "design": "Design decisions",
}
"""The folders of docs/ in the order of the navigation, with their titles; a folder that is not here comes last."""

FIRST = (
    "explanation/how-a-run-travels.md",
    "explanation/when-a-worker-dies.md",
    "explanation/people-in-the-loop.md",
    "reference/turnfleet.md",
    "reference/turnfleet_worker.md",
)
"""Pages that come before the others of their folder, which follow by their file's name."""


def on_files(files: Files, /, *, config: MkDocsConfig) -> Files:
    """Add the changelog, which stands at the top of the repository, as a page."""
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    files.append(File.generated(config, "changelog.md", content=text))
    return files


def on_nav(nav: Navigation, /, *, config: MkDocsConfig, files: Files) -> Navigation:
    """Order the sections, with the pages of no section after the first page and the changelog last."""
    nav.items.sort(key=_place)
    for item in nav.items:
        if isinstance(item, Section):
            item.title = SECTIONS.get(_folder(item), item.title)
            item.children.sort(key=_place_inside)
    nav.pages[:] = _pages(nav.items)
    for page, following in zip(nav.pages, [*nav.pages[1:], None], strict=True):
        page.next_page = following
        if following is not None:
            following.previous_page = page
    nav.pages[0].previous_page = None
    return nav


def _place(item: object) -> tuple[int, int]:
    """Say where an item of the top level stands; items with the same place keep their order."""
    if isinstance(item, Section):
        known = list(SECTIONS)
        folder = _folder(item)
        return (1, known.index(folder) if folder in known else len(known))
    if isinstance(item, Page):
        return (0, 0) if item.is_homepage else (3 if item.file.src_uri == "changelog.md" else 2, 0)
    return (2, 0)


def _place_inside(item: object) -> int:
    """Say where an item of a section stands; items with the same place keep their order."""
    place = item.file.src_uri if isinstance(item, Page) else ""
    return FIRST.index(place) if place in FIRST else len(FIRST)


def _pages(items: Iterable[object]) -> list[Page]:
    """List the pages below these items, in the order of reading."""
    pages: list[Page] = []
    for item in items:
        if isinstance(item, Page):
            pages.append(item)
        elif isinstance(item, Section):
            pages += _pages(item.children)
    return pages


def _folder(section: Section) -> str:
    """Return the first part of the path of a section's first page."""
    for child in section.children or ():
        if isinstance(child, Page):
            return child.file.src_uri.split("/", 1)[0]
        if isinstance(child, Section):
            return _folder(child)
    return ""
