"""The HTML report of 20,000 deployments × 12 releases: its time, memory and size, and how a browser shows it.

``python -m bench.fleet_view`` prints the figures. It needs Chromium.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from bench.impact import RELEASES, run_command, sample_deployments, sample_facts

if TYPE_CHECKING:
    from collections.abc import Iterable

    from playwright.sync_api import Browser, Page

NUMBER: Final = 20_000
ROWS: Final = "[role=row][data-row]"


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("expected Chromium: apt-get install chromium")
    with TemporaryDirectory(prefix="bench-fleet-") as folder, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
        for name, documents in (
            ("deployments, 2,000 different", sample_deployments(NUMBER)),
            ("facts, all different", sample_facts(NUMBER)),
        ):
            print(f"\n{NUMBER:,} {name}, {RELEASES}")
            report = _written(Path(folder), documents)
            _shown(browser, report)
        browser.close()


def _written(folder: Path, documents: Iterable[dict[str, Any]]) -> Path:
    fleet, report = folder / "fleet.jsonl", folder / "report.html"
    with fleet.open("w") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in documents)
    seconds, peak = run_command([str(fleet), "--releases", RELEASES, "--output", str(report)])
    print(f"  written in {seconds:.1f} s, peak {peak / 1e6:,.0f} MB, {report.stat().st_size / 1e6:.2f} MB")
    return report


def _shown(browser: Browser, report: Path) -> None:
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    clock = Clock(page)
    for _ in range(3):
        began = time.perf_counter()
        page.goto(report.as_uri())
        page.wait_for_selector(ROWS)
        print(f"  opened in {time.perf_counter() - began:.2f} s, of which {clock.lap():.0f} ms are the page's work")
    print(f"  {page.evaluate('performance.memory.usedJSHeapSize') / 1e6:,.0f} MB in the browser")
    for what, (act, inputs) in ACTS.items():
        clock.lap()
        act(page)
        page.wait_for_timeout(600)
        print(f"  {what}: {clock.lap() / inputs:.0f} ms of work for each input")
    page.close()


class Clock:
    """The processor time of the page's main thread, which other programs on the machine do not disturb."""

    def __init__(self, page: Page) -> None:
        self._session = page.context.new_cdp_session(page)
        self._session.send("Performance.enable", {"timeDomain": "threadTicks"})
        self._last = 0.0

    def lap(self) -> float:
        """Milliseconds since the last call, of scripts, style, layout and drawing."""
        metrics = {each["name"]: each["value"] for each in self._session.send("Performance.getMetrics")["metrics"]}
        now: float = metrics["TaskDuration"]
        found, self._last = now - self._last if now >= self._last else now, now
        return found * 1000


def _type(page: Page) -> None:
    page.get_by_label("Find").press_sequentially(f"d{random.Random(1).randrange(1000)}", delay=150)


def _clear(page: Page) -> None:
    page.get_by_label("Find").press("Control+A")
    page.get_by_label("Find").press("Delete")


def _end(page: Page) -> None:
    page.get_by_role("grid").press("Control+End")


def _move(page: Page) -> None:
    for _ in range(20):
        page.get_by_role("grid").press("ArrowUp")


def _scroll(page: Page) -> None:
    page.get_by_role("grid").hover()
    for _ in range(10):
        page.mouse.wheel(0, -5_000)


def _kind(page: Page) -> None:
    page.locator(".counts button").first.click()


def _open(page: Page) -> None:
    page.locator(ROWS).nth(3).locator(".name").click()


def _order(page: Page) -> None:
    page.get_by_label("order").select_option("name")


ACTS: Final = {
    "type in Find": (_type, 4),
    "clear Find": (_clear, 1),
    "go to the last row": (_end, 1),
    "move by a row": (_move, 20),
    "scroll": (_scroll, 10),
    "choose a kind": (_kind, 1),
    "open a deployment": (_open, 1),
    "order by name": (_order, 1),
}
"""What is done, and how many inputs that is."""

if __name__ == "__main__":
    main()
