"""A Chromium that tests drive, with the axe checks of accessibility."""

from __future__ import annotations

import os
import shutil
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect, sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, Locator, Page

AXE: Final = Path(__file__).resolve().parents[2] / "service/page/node_modules/axe-core/axe.min.js"
"""The checks, which `service/page/check` installs with the page's other packages."""
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
PATIENCE: Final = 30_000
"""Milliseconds to wait for what is expected; a test that passes does not wait that long."""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the block. Without one a test is skipped, but not where `CI` is set."""
    program = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if program is None:
        if os.environ.get("CI"):
            raise AssertionError("expected Chromium: apt-get install chromium")
        pytest.skip("Chromium is not installed: apt-get install chromium")
    expect.set_options(timeout=PATIENCE)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def open_page(browser: Browser, url: str, width: int = 1280, scheme: str = "light") -> Iterator[Page]:
    """A tab of its own at an address; at its end nothing may have failed in it or been asked of another server."""
    origin = "/".join(url.split("/")[:3])
    failures: list[str] = []
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=scheme)  # type: ignore[arg-type]
    context.set_default_timeout(PATIENCE)
    page = context.new_page()
    page.on("pageerror", lambda error: failures.append(str(error)))
    page.on("console", lambda said: failures.append(said.text) if _is_failure(said.type, said.text) else None)
    page.on("request", lambda sent: failures.append(sent.url) if not sent.url.startswith((origin, "data:")) else None)
    try:
        page.goto(url)
        yield page
    finally:
        context.close()
    assert not failures, failures


def tab_to(page: Page, target: Locator) -> None:
    """Presses Tab until ``target`` has the focus, once the page shows it."""
    expect(target).to_be_attached()
    for _ in range(120):
        page.keyboard.press("Tab")
        if target.evaluate("element => element.matches(':focus')"):
            return
    raise AssertionError(f"expected Tab to reach {target}, which 120 presses did not")


def violations(page: Page) -> list[tuple[str, list[Any]]]:
    """What axe finds: the rules and the elements."""
    if not AXE.is_file():
        if os.environ.get("CI"):
            raise AssertionError("expected axe-core: sh service/page/check")
        pytest.skip("axe-core is not installed: sh service/page/check")
    page.evaluate(AXE.read_text("utf-8"))
    found = page.evaluate("() => axe.run()")
    return [(each["id"], [node["target"] for node in each["nodes"]]) for each in found["violations"]]


def _is_failure(kind: str, text: str) -> bool:
    """Whether a line of the console is an error of the page; a status of 4xx or 5xx is an answer that it shows."""
    return kind in {"error", "warning"} and not text.startswith("Failed to load resource")
