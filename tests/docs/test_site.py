"""The site builds without a warning (a broken link is one), and asks nothing of the web."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.pages import ROOT

FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\s\">]+)", re.IGNORECASE
)


@pytest.mark.slow
def test_the_site_builds_strictly_and_works_without_the_web(tmp_path: Path) -> None:
    """Every page is built, and no page names a script, style, font or picture of another host."""
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(tmp_path / "site")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    pages = {page: page.read_text(encoding="utf-8") for page in (tmp_path / "site").rglob("*.html")}
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    assert {name: FETCHED.findall(text) for name, text in pages.items() if FETCHED.search(text)} == {}
