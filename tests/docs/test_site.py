"""The site builds without a warning (a broken link is one), asks nothing of the web, and is whole in a folder."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from support.browser import browser
from support.pages import ROOT
from support.waiting import eventually

FETCHED = re.compile(
    r"<(?:script|img|link|iframe|source)\b[^>]*?(?:src|href)=\"?((?:https?:)?//[^\s\">]+)", re.IGNORECASE
)


WIDE = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give the folder of the built site."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert built.returncode == 0, built.stdout + built.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly_and_works_without_the_web(site: Path) -> None:
    """Every page is built, and no page names a script, style, font or picture of another host."""
    pages = {page: page.read_text(encoding="utf-8") for page in site.rglob("*.html")}
    assert len(pages) > len(list((ROOT / "docs").rglob("*.md")))
    assert {name: FETCHED.findall(text) for name, text in pages.items() if FETCHED.search(text)} == {}


@pytest.mark.slow
def test_the_site_can_be_searched_in_a_folder_and_read_on_a_phone(site: Path) -> None:
    """A browser gives no worker to a page from a file, which the search would need; a table scrolls by itself."""
    with browser() as window:
        window.open(f"{site.as_uri()}/how-to/fastapi.html")
        window.type("body", "/")  # the site's key for its search
        eventually(lambda: window.driver.switch_to.active_element.get_attribute("name") == "query", what="the search")
        window.driver.switch_to.active_element.send_keys("lease")
        window.wait_for("matching documents", "When a worker dies")
        screen = {"width": 390, "height": 844, "deviceScaleFactor": 1, "mobile": True}
        window.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
        wide = []
        for page in sorted(site.rglob("*.html")):
            window.open(page.as_uri())
            if window.driver.execute_script(WIDE):
                wide.append(str(page.relative_to(site)))
        assert wide == []
