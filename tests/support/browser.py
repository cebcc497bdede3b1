"""A headless Chromium of the tests' own, for what only a browser can see."""

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By

from support.waiting import eventually

FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
)
SIZE = (1360, 820)
ROOT = Path(__file__).resolve().parents[2]
WITHOUT = """
const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
while (texts.nextNode()) texts.currentNode.data = texts.currentNode.data.replaceAll(arguments[0], "");
"""


class Browser:
    """One window. Pictures go to TURNFLEET_SCREENSHOTS, or nowhere that lasts."""

    def __init__(self, driver: Chrome, folder: Path) -> None:
        self.driver = driver
        self._folder = folder

    def open(self, address: str) -> None:
        """Go to a page."""
        self.driver.get(address)

    @property
    def text(self) -> str:
        """What a person can read on the page."""
        return self.driver.find_element(By.TAG_NAME, "body").text

    def click(self, selector: str) -> None:
        """Click on what a CSS selector finds."""
        self.driver.find_element(By.CSS_SELECTOR, selector).click()

    def type(self, selector: str, text: str) -> None:
        """Type into what a CSS selector finds."""
        self.driver.find_element(By.CSS_SELECTOR, selector).send_keys(text)

    def wait_for(self, *texts: str) -> None:
        """Wait until all of these can be read on the page."""
        try:
            eventually(lambda: all(text in self.text for text in texts), what=f"{texts} on the page")
        except AssertionError as error:
            error.add_note(f"what can be read there:\n{self.text}")
            raise

    def picture(self, name: str, *, height: int) -> None:
        """Keep the upper `height` pixels of the page, without the folder that this checkout lies in."""
        frame = self.driver.execute_script("return window.outerHeight - window.innerHeight")
        self.driver.set_window_size(SIZE[0], height + int(frame))
        self.driver.execute_script(WITHOUT, f"{ROOT}/")
        assert self.driver.save_screenshot(str(self._folder / f"{name}.png"))
        self.driver.set_window_size(*SIZE)


@contextmanager
def browser() -> Iterator[Browser]:
    """Start a browser with a profile of its own; skip the test, saying why, where there is none."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    driver = shutil.which("chromedriver")
    if chromium is None or driver is None:
        pytest.skip("NOT RUN: it needs chromium and chromedriver (Debian: chromium chromium-driver) on the PATH")
    with tempfile.TemporaryDirectory(prefix="turnfleet-browser-", ignore_cleanup_errors=True) as folder:
        options = ChromeOptions()
        options.binary_location = chromium
        for flag in (*FLAGS, f"--user-data-dir={folder}/profile", f"--window-size={SIZE[0]},{SIZE[1]}"):
            options.add_argument(flag)
        # Given its path, Selenium looks for no driver elsewhere.
        window = Chrome(options=options, service=Service(executable_path=driver))
        try:
            window.set_window_size(*SIZE)
            pictures = Path(os.environ.get("TURNFLEET_SCREENSHOTS") or folder).absolute()
            pictures.mkdir(parents=True, exist_ok=True)
            yield Browser(window, pictures)
        finally:
            window.quit()
