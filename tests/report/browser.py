"""Chromium, without a network, for pages that reports are."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

_NAMES = ("chromium", "chromium-browser", "google-chrome")


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; skips the test where there is none, or nothing to drive it with."""
    pytest.importorskip("playwright", reason="pip install 'circlet[browser]'")
    from playwright.sync_api import sync_playwright

    program = next(filter(None, map(shutil.which, _NAMES)), None)
    if program is None:
        pytest.skip(f"none of {', '.join(_NAMES)} is installed")
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, path: Path | str, scheme: str = "light") -> Iterator[Page]:
    """A page that is drawn; fails where anything is fetched, or said to the console."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800},
        color_scheme="dark" if scheme == "dark" else "light",
        offline=True,
    )
    page, wrong = context.new_page(), list[str]()
    page.on("console", lambda message: wrong.append(message.text))
    page.on("pageerror", lambda error: wrong.append(str(error)))
    page.on("request", lambda request: _note(request.url, wrong))
    page.goto(Path(path).as_uri())
    page.wait_for_selector("html[data-ready]", state="attached")
    yield page
    context.close()
    assert wrong == []


def _note(url: str, wrong: list[str]) -> None:
    if not url.startswith(("file:", "data:", "blob:")):
        wrong.append(f"fetched {url}")
