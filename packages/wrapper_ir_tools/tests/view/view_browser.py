"""Drives a page in headless Chromium by keys and clicks, and reads the visible text."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import pytest

if TYPE_CHECKING:
    from selenium.webdriver import Chrome

BROWSER = next((p for n in ("chromium", "chromium-browser", "google-chrome") if (p := shutil.which(n))), None)
DRIVER = shutil.which("chromedriver")
T = TypeVar("T")


def why_no_browser() -> str:
    """The missing browser or package; empty if all are installed."""
    if BROWSER is None or DRIVER is None:
        return "needs chromium and chromium-driver"
    try:
        import selenium  # noqa: F401
    except ImportError:
        return "needs selenium"
    return ""


@contextmanager
def opened_browser(folder: Path, *flags: str) -> Iterator[Chrome]:
    """Starts a browser with its files in `folder`."""
    if reason := why_no_browser():
        pytest.skip(reason)
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    options = ChromeOptions()
    options.binary_location = BROWSER or ""
    usual = (
        "--headless=new",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-dev-shm-usage",
        "--window-size=1500,1000",
    )
    for flag in (*usual, f"--user-data-dir={folder / 'profile'}", *flags):
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    browser = Chrome(options=options, service=ChromeService(DRIVER))
    browser.set_script_timeout(120)
    try:
        yield browser
    finally:
        browser.quit()


class Page:
    """An open page. Queries are repeated for some seconds until they succeed."""

    def __init__(self, browser: Chrome, html: str, folder: Path) -> None:
        self.browser = browser
        self.path = folder / "page.html"
        self.path.write_text(html, encoding="utf-8")
        self.open()

    def open(self, place: str = "") -> None:
        """Reloads the page at an anchor."""
        self.browser.get("about:blank")
        self._log()
        self.browser.get(f"{self.path.as_uri()}{place}")
        self.focus("#program")

    # Any: the script's result
    def js(self, script: str, *args: object) -> Any:
        """Runs a script and returns its result."""
        return self.browser.execute_script(script, *args)

    def focus(self, selector: str) -> None:
        """Focuses an element."""
        self.js("document.querySelector(arguments[0]).focus()", selector)

    def keys(self, *keys: str) -> None:
        """Presses keys in the focused element."""
        from selenium.webdriver import ActionChains

        ActionChains(self.browser).send_keys(*keys).perform()

    def click(self, selector: str, text: str = "") -> None:
        """Clicks the first element of a selector that contains the text."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].find(e => "
            "e.textContent.includes(arguments[1]))"
        )
        element = self.until(lambda: self.js(script, selector, text), bool)
        element.click()

    def go(self, text: str) -> None:
        """Clicks the first line that contains the text."""
        self.click("#program .row .what", text)
        assert text in self.until(lambda: self.selected, lambda result: text in result)

    def texts(self, selector: str) -> list[str]:
        """The texts of all elements of a selector."""
        result: list[str] = self.js(
            "return [...document.querySelectorAll(arguments[0])].map(e => e.textContent.trim())", selector
        )
        return result

    def until(self, ask: Callable[[], T], holds: Callable[[T], object]) -> T:
        """Polls `ask` until its result `holds`; returns the last result after ten seconds."""
        end = time.monotonic() + 10
        while True:
            result = ask()
            if holds(result) or time.monotonic() > end:
                return result
            time.sleep(0.05)

    def expect(self, selector: str, *texts: str) -> None:
        """Fails unless the elements of a selector eventually have these texts."""
        assert self.until(lambda: self.texts(selector), lambda result: result == list(texts)) == list(texts)

    @property
    def selected(self) -> str:
        """The text of the selected line."""
        return " | ".join(self.texts("#program .row.selected .what"))

    def expect_selected(self, text: str) -> None:
        """Fails unless the selected line eventually has this text."""
        assert self.until(lambda: self.selected, lambda result: result == text) == text

    def errors(self) -> list[str]:
        """Errors that the browser logged since the page was opened."""
        return [entry["message"] for entry in self._log()]

    def _log(self) -> list[dict[str, str]]:
        # selenium does not type it
        ask: Callable[[str], list[dict[str, str]]] = self.browser.get_log
        return ask("browser")
