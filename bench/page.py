"""The page in Chromium: what each view loads, when it paints, and how long an input takes.

``python -m bench.page`` prints the figures. It needs Chromium. Input is measured as processor time of the page's main
thread, which other programs on the machine do not disturb; the first paint is by the clock.
"""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import sync_playwright

from bench.fleet_view import ROWS, Clock
from bench.impact import RELEASES, run_command, sample_deployments
from bench.servers import running, service

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

VIEWS: Final = ("", "rules", "edit#kv-connector-fallback", "fleet")
ENGINES: Final = 2_000
DEPLOYMENTS: Final = 20_000
PATIENCE: Final = 300_000
CONFIG: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1000}
PAINT_TIME: Final = "performance.getEntriesByName('first-contentful-paint')[0].startTime"
FILE_SIZE: Final = """() => performance.getEntriesByType("resource").concat(performance.getEntriesByType("navigation"))
    .filter((each) => /\\.(?:js|css)$/.test(each.name) || each.entryType === "navigation")
    .reduce((sum, each) => sum + each.encodedBodySize, 0)"""


def main() -> None:
    program = shutil.which("chromium") or shutil.which("google-chrome")
    if program is None:
        sys.exit("expected Chromium: apt-get install chromium")
    with running(*service()) as server, TemporaryDirectory(prefix="bench-page-") as folder:
        url = f"http://127.0.0.1:{server.port}"
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox", "--disable-gpu"])
            for view in VIEWS:
                _opened(browser, f"{url}/{view}")
            _typed_in_ask(browser, url)
            _engines_in_ask(browser, url)
            _typed_in_edit(browser, url)
            _fleet(browser, url, Path(folder))
            browser.close()


def _page(browser: Browser, url: str) -> Page:
    page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
    page.set_default_timeout(PATIENCE)
    page.goto(url)
    return page


def _opened(browser: Browser, url: str) -> None:
    paints, works, size = [], [], 0
    for _ in range(5):
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        clock = Clock(page)
        page.goto(url)
        page.wait_for_selector("main")
        page.wait_for_function("performance.getEntriesByName('first-contentful-paint').length > 0")
        paints.append(page.evaluate(PAINT_TIME))
        page.wait_for_load_state("networkidle")
        works.append(clock.lap())
        size = page.evaluate(FILE_SIZE)
        page.context.close()
    name = url.rpartition("/")[2].partition("#")[0]
    print(
        f"/{name}: {size / 1000:.0f} kB of code, first paint after {min(paints):.0f} ms at best and "
        f"{sorted(paints)[2]:.0f} ms in the median, {min(works):.0f} ms of work"
    )


def _per_input(page: Page, clock: Clock, text: str) -> float:
    """Milliseconds of the main thread's work for each key."""
    page.wait_for_timeout(1000)
    clock.lap()
    page.keyboard.type(text, delay=120)
    page.wait_for_timeout(100)
    return clock.lap() / len(text)


def _field(page: Page) -> Any:
    return page.get_by_label("A command, a deployment, facts or a manifest")


def _typed_in_ask(browser: Browser, url: str) -> None:
    page = _page(browser, url)
    _field(page).fill("vllm serve acme/small --enable-dbo")
    page.get_by_label("acme/small").fill(json.dumps(CONFIG))
    page.wait_for_selector(".cell")
    clock = Clock(page)
    _field(page).press("End")
    print(f"Ask, a command with its answer: {_per_input(page, clock, ' --port 8000'):.0f} ms of work for each key")
    page.context.close()


def _engines_in_ask(browser: Browser, url: str) -> None:
    page = _page(browser, url)
    pods = [
        {
            "kind": "Pod",
            "metadata": {"name": f"p{n}"},
            "spec": {
                "containers": [
                    {"name": "vllm", "image": "vllm/vllm-openai:v0.27.0", "args": ["--model", "acme/small"]},
                ]
            },
        }
        for n in range(ENGINES)
    ]
    _field(page).fill(json.dumps({"manifest": pods, "model_configs": {"acme/small": CONFIG}}))
    page.wait_for_selector(".cell")
    clock = Clock(page)
    page.locator(".engines").get_by_label("Find").focus()
    print(f"Ask, {ENGINES:,} engines: {_per_input(page, clock, 'p199'):.0f} ms of work for each key in Find")
    page.wait_for_timeout(1000)
    clock.lap()
    page.locator(".engines li button").nth(3).click()
    page.wait_for_timeout(100)
    print(f"Ask, {ENGINES:,} engines: {clock.lap():.0f} ms of work to show another one")
    page.context.close()


def _typed_in_edit(browser: Browser, url: str) -> None:
    page = _page(browser, f"{url}/edit#kv-connector-fallback")
    page.get_by_text("0 failed").wait_for()
    clock = Clock(page)
    page.get_by_label("The rule", exact=True).click()
    page.keyboard.press("Control+End")
    print(f"Edit, a rule: {_per_input(page, clock, '# a comment'):.0f} ms of work for each key")
    page.context.close()


def _fleet(browser: Browser, url: str, folder: Path) -> None:
    fleet, result = folder / "fleet.jsonl", folder / "impact.json"
    with fleet.open("w") as file:
        file.writelines(f"{json.dumps(each)}\n" for each in sample_deployments(DEPLOYMENTS))
    run_command([str(fleet), "--releases", RELEASES, "--json", "--output", str(result)])
    page = _page(browser, f"{url}/fleet")
    clock = Clock(page)
    page.locator("input[type=file]").set_input_files(result)
    page.wait_for_selector(ROWS)
    print(
        f"Fleet, {DEPLOYMENTS:,} deployments: {clock.lap():.0f} ms of work to show {result.stat().st_size / 1e6:.0f} MB"
    )
    page.get_by_label("Find").focus()
    print(f"Fleet, {DEPLOYMENTS:,} deployments: {_per_input(page, clock, 'd12'):.0f} ms of work for each key in Find")
    page.context.close()


if __name__ == "__main__":
    main()
