"""The view Fleet of the page and the HTML report in a real browser: the same view of the same impact results."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from policy.impact.changes import KINDS, MEANINGS
from policy.impact.rows import LABELS

from .browser import open_page, tab_to, violations
from .conftest import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from playwright.sync_api import Browser, Locator, Page

    from .conftest import Done, Server

pytestmark = pytest.mark.slow

HOSTILE: Final = '</script><img src=x onerror="document.title=1"><script>document.title=2</script>'
PASTE: Final = "Or paste a text:"
CONNECTOR: Final = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
RELEASES: Final = ("--releases", "0.22.0,0.24.0,0.25.0,0.33.0")

LATE: Final = """{
  const { setTimeout, requestAnimationFrame } = window;
  window.setTimeout = (run, wait = 0, ...rest) => setTimeout(run, wait < 50 ? wait + 200 : wait, ...rest);
  window.requestAnimationFrame = (run) => requestAnimationFrame(() => setTimeout(() => run(performance.now()), 200));
}"""
"""Delays what a page does after it has painted, but no longer timers, as a busy machine does."""


def facts(name: str, architecture: str = "Qwen3ForCausalLM", version: str = "0.22.0", **more: Any) -> dict[str, Any]:
    return {
        "request_id": name,
        "vllm_version": version,
        "facts": {"model_config": {"architectures": [architecture]}, **more},
    }


FLEET: Final = [
    facts("prod/plain"),
    facts("prod/connector", kv_transfer_config=CONNECTOR),
    facts("test/opt", "OPTForCausalLM"),
    {"facts": {"model_config": {"architectures": 1}}},
]
BROKEN: Final = re.compile(r"fleet\.jsonl:4$")
"""The name of the last deployment of the fleet, which cannot be read."""


@pytest.fixture
def impact(call: Callable[..., Done], tmp_path: Path) -> Callable[..., str]:
    """The output of the command for these requests."""

    def command(documents: list[dict[str, Any]], *options: str) -> str:
        file = tmp_path / "fleet.jsonl"
        file.write_text("".join(f"{json.dumps(document)}\n" for document in documents))
        done = call("impact", str(file), *options)
        assert done.code in {0, 1}, done.err
        return done.out

    return command


@pytest.fixture
def report(impact: Callable[..., str], tmp_path: Path) -> Callable[..., str]:
    """The address of a report's file."""

    def command(documents: list[dict[str, Any]], *options: str) -> str:
        file = tmp_path / "report.html"
        impact(documents, *options, "-o", str(file))
        return file.as_uri()

    return command


def paste(page: Page, text: str) -> None:
    page.get_by_label(PASTE).fill(text)
    page.get_by_role("button", name="Compare").click()


def link_with(page: Page, *names: str) -> str:
    """The address, once its state has these."""

    def has_them(url: str) -> bool:
        packed = url.partition("#")[2]
        state = zlib.decompress(base64.urlsafe_b64decode(packed + "=" * (-len(packed) % 4)), -15) if packed else b"{}"
        return set(names) <= set(json.loads(state))

    page.wait_for_url(has_them)
    return page.url


def rows(page: Page) -> Locator:
    """The deployments that are shown."""
    return page.locator("[role=row][data-row]")


def counts(page: Page) -> list[list[str]]:
    return [text.split("\n") for text in page.locator(".counts:not(.causes) li").all_inner_texts()]


def cells(page: Page, name: str) -> list[str]:
    """What a row says of each release."""
    row = rows(page).filter(has=page.get_by_text(name, exact=True))
    return [str(each.get_attribute("aria-label")) for each in row.get_by_role("gridcell").all()]


def test_the_report_of_a_file_shows_the_worst_first_and_counts_that_add_up(
    browser: Browser, report: Callable[..., str]
) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        expect(page.get_by_role("heading", level=1)).to_have_text("vLLM 0.22.0, 0.24.0, 0.25.0, 0.33.0: what changes")
        expect(page.get_by_text("3 of 4 deployments change; 1 is not decided")).to_be_visible()
        expect(page.locator(".map .name")).to_have_text([BROKEN, "prod/connector", "test/opt", "prod/plain"])
        assert counts(page) == [
            ["not decided", "1"],
            ["flips, problem", "2"],
            ["reasons only", "1"],
            ["all", "4"],
        ]
        assert cells(page, "prod/connector") == [
            "0.22.0: V1",
            "0.24.0: V1",
            "0.25.0: V2, known problems: 1, flips, problem",
            "0.33.0: V2, reasons only",
        ]


def test_the_page_and_the_report_show_the_same(
    browser: Browser, server: Server, impact: Callable[..., str], report: Callable[..., str]
) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        expect(rows(page)).to_have_count(4)
        of_report = [page.locator(".map").inner_text(), page.locator(".side").inner_text()]
        rows(page).nth(1).click()
        of_report += page.locator(".deployment .steps h3, .deployment .strip").all_inner_texts()
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, impact(FLEET, *RELEASES, "--json"))
        expect(rows(page)).to_have_count(4)
        of_page = [page.locator(".map").inner_text(), page.locator(".side").inner_text()]
        rows(page).nth(1).click()
        of_page += page.locator(".deployment .steps h3, .deployment .strip").all_inner_texts()
    assert of_page == of_report


def test_a_deployment_has_a_page_with_each_step_and_the_rules_that_make_it(
    browser: Browser, report: Callable[..., str]
) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        rows(page).filter(has_text="prod/connector").click(position={"x": 150, "y": 15})
        opened = page.locator(".deployment")
        expect(opened.get_by_role("heading", name="prod/connector")).to_be_focused()
        expect(opened.get_by_role("heading", name="0.25.0: V2")).to_be_visible()
        assert opened.locator(".steps h3").all_inner_texts() == [
            "0.24.0 → 0.25.0",
            "0.25.0 → 0.33.0",
        ]
        step = opened.locator(".steps > li").first
        expect(step).to_contain_text("V1 → V2")
        expect(step).to_contain_text("VLLM_USE_V2_MODEL_RUNNER=0 → no variable")
        step.get_by_text("kv-connector-fallback").first.click()
        expect(step.get_by_role("link", name="vllm-project/vllm #42955")).to_be_visible()
        opened.get_by_role("button", name=re.compile("^0.22.0")).click()
        expect(opened.get_by_role("heading", name="0.22.0: V1")).to_be_visible()
        opened.get_by_role("button", name="← All deployments").click()
        expect(opened).to_have_count(0)


OLD_FLAG: Final = {
    "request_id": "old flag",
    "vllm_version": "0.17.1",
    "deployment": {
        "args": ["serve", "q", "--swap-space", "4"],
        "model_configs": {"q": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}},
    },
}


def test_a_deployment_says_what_helps_in_each_release(browser: Browser, report: Callable[..., str]) -> None:
    with open_page(browser, report([OLD_FLAG], "--releases", "0.17.0,0.18.0,0.33.0", "--explain")) as page:
        rows(page).first.click()
        helps = page.locator(".deployment .card").filter(has_text="What helps in")
        for n, release, runner in ((1, "0.18.0", "V1"), (2, "0.33.0", "V2")):
            page.locator(".strip button").nth(n).click()
            expect(helps.locator("h2")).to_have_text(f"What helps in {release}")
            expect(helps.locator("li")).to_have_text(f"drop --swap-space so that it starts → {runner}")


def test_a_deployment_says_what_helps_in_the_release_to_go_to(
    browser: Browser, server: Server, report: Callable[..., str]
) -> None:
    """In the report with `--explain`, on the page where it is asked for; a cause has no place of an argument."""
    with open_page(browser, report([OLD_FLAG], "--to", "0.33.0", "--explain")) as page:
        expect(page.locator(".causes .cause")).to_have_text(
            "vLLM 0.33.0 has no flag --swap-space and would not start; 0.3.0 to 0.17.1 have it"
        )
        rows(page).first.click()
        of_report = page.locator(".deployment .card").filter(has_text="What helps in 0.33.0").inner_text()
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, json.dumps({"deployments": [OLD_FLAG]}))
        rows(page).first.click()
        expect(page.locator(".deployment")).to_be_visible()
        expect(page.get_by_text("What helps in 0.33.0")).to_have_count(0)
        page.get_by_label("what helps").check()
        rows(page).first.click()
        found = page.locator(".deployment .card").filter(has_text="What helps in 0.33.0")
        expect(found).to_be_visible()
        assert found.inner_text() == of_report
    assert of_report.split("\n")[1:] == ["drop --swap-space so that it starts → V2"]


def test_a_deployment_that_is_not_decided_says_why(browser: Browser, report: Callable[..., str]) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        rows(page).filter(has_text="fleet.jsonl:4").click()
        expect(page.locator(".deployment")).to_contain_text("/facts/model_config/architectures")
        expect(page.locator(".deployment")).to_contain_text("1 is not legal for model_config.architectures")


def test_what_runs_now_is_a_column_of_its_own(browser: Browser, report: Callable[..., str]) -> None:
    fleet = [facts("a", version="0.21.0"), facts("b", version="0.33.0"), facts("c", version="0.24.0")]
    with open_page(browser, report(fleet, "--to", "0.33.0")) as page:
        expect(page.get_by_role("grid").get_by_role("columnheader")).to_have_text(["Deployment", "now", "0.33.0"])
        assert cells(page, "a") == ["now 0.21.0: V1", "0.33.0: V2, V1 to V2"]
        assert cells(page, "b") == ["now 0.33.0: V2", "0.33.0: V2"]


@pytest.mark.parametrize(
    ("label", "chosen", "left"),
    [
        ("Find", "PROD plain", ["prod/plain"]),
        ("Find", "kv-connector-fallback", ["prod/connector"]),
        ("change", "not-decided", [BROKEN]),
        ("runs", "v1", ["prod/connector", "test/opt"]),
        ("known problems", "", ["prod/connector", "test/opt", "prod/plain"]),
        ("order", "name", [BROKEN, "prod/connector", "prod/plain", "test/opt"]),
        ("order", "given", ["prod/plain", "prod/connector", "test/opt", BROKEN]),
        ("Find", "nothing like that", []),
    ],
)
def test_a_filter_leaves_what_fits(
    browser: Browser, report: Callable[..., str], label: str, chosen: str, left: list[str | re.Pattern[str]]
) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        field = page.get_by_role("search").get_by_label(label, exact=True)
        if label == "known problems":
            field.check()
        elif label == "Find":
            field.fill(chosen)
        else:
            field.select_option(chosen)
        expect(page.locator(".map .name")).to_have_text(left)
        expect(page.get_by_role("status")).to_contain_text(f"{len(left)} of 4 deployments")
        if not left:
            page.get_by_role("button", name="Show all deployments").click()
            expect(rows(page)).to_have_count(4)


def test_counts_are_filters(browser: Browser, report: Callable[..., str]) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        kinds, causes = page.locator(".counts:not(.causes)"), page.locator(".causes")
        kinds.get_by_role("button", name="flips, problem 2").click()
        expect(page.locator(".map .name")).to_have_text(["prod/connector", "test/opt"])
        causes.get_by_role("button").filter(has_text="kv-connector-fallback").click()
        expect(page.locator(".map .name")).to_have_text(["prod/connector"])
        page.get_by_role("button", name="Remove all filters").click()
        page.get_by_role("button", name="2: V1 in 0.24.0").click()
        expect(page.locator(".map .name")).to_have_text(["prod/connector", "test/opt"])


def test_the_report_is_used_with_the_keyboard_alone(browser: Browser, report: Callable[..., str]) -> None:
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        expect(rows(page)).to_have_count(4)
        tab_to(page, page.get_by_role("grid"))
        for key in ("ArrowDown", "ArrowRight", "ArrowRight", "ArrowRight"):
            page.keyboard.press(key)
        active = "document.getElementById(document.activeElement.getAttribute('aria-activedescendant'))"
        assert page.evaluate(f"{active}.getAttribute('aria-label')") == "0.25.0: V2, known problems: 1, flips, problem"
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="prod/connector")).to_be_focused()
        expect(page.get_by_role("heading", name="0.25.0: V2")).to_be_visible()
        page.keyboard.press("Escape")
        expect(page.get_by_role("grid")).to_be_focused()
        page.keyboard.press("Control+End")
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="prod/plain")).to_be_focused()


def test_the_page_is_used_with_the_keyboard_alone(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        tab_to(page, page.locator("textarea"))
        page.keyboard.insert_text(json.dumps(facts("typed", version="0.21.0")))
        tab_to(page, page.get_by_role("button", name="Compare"))
        page.keyboard.press("Enter")
        expect(page.locator(".map .name")).to_have_text(["typed"])
        tab_to(page, page.get_by_role("grid"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="typed")).to_be_focused()


def test_each_kind_of_change_has_the_words_of_the_command(browser: Browser, server: Server) -> None:
    pair = [{"runner": runner, "starts": True} for runner in ("v1", "v2")]
    items = [
        {
            "name": kind,
            "from": None,
            "releases": {"0.32.0": pair[0], "0.33.0": pair[1]},
            "changes": [{"from": "0.32.0", "to": "0.33.0", "kind": kind}],
            "kind": kind,
        }
        for kind in KINDS
    ]
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, json.dumps({"items": items}))
        expect(page.locator(".map .name")).to_have_text([str(kind) for kind in KINDS])
        buttons = page.locator(".counts:not(.causes) button").all()[:-1]
        found = [(each.locator(".label").inner_text(), each.get_attribute("title")) for each in buttons]
    assert found == [(LABELS[kind], MEANINGS[kind]) for kind in KINDS]


def test_a_link_leads_to_a_deployment_and_back_leads_out(browser: Browser, report: Callable[..., str]) -> None:
    address = report(FLEET, *RELEASES)
    with open_page(browser, address) as page:
        page.get_by_label("Find").fill("prod")
        expect(rows(page)).to_have_count(2)
        page.wait_for_url(re.compile("#.+"))
        rows(page).filter(has_text="prod/plain").click()
        heading = page.get_by_role("heading", name="prod/plain")
        expect(heading).to_be_visible()
        link = link_with(page, "find", "open")
        page.go_back()
        expect(heading).to_have_count(0)
        expect(rows(page)).to_have_count(2)
    with open_page(browser, link) as page:
        expect(page.get_by_role("heading", name="prod/plain")).to_be_visible()
        expect(page.get_by_label("Find")).to_have_value("prod")


def test_a_link_keeps_its_filter_on_a_page_whose_effects_come_late(
    browser: Browser, report: Callable[..., str]
) -> None:
    """As on a busy machine, where what was shown before must not replace what the link has."""
    with open_page(browser, report(FLEET, *RELEASES)) as page:
        page.get_by_label("Find").fill("prod")
        link_with(page, "find")
        page.add_init_script(LATE)
        page.reload()
        expect(rows(page)).to_have_count(2)
        page.wait_for_timeout(1000)
        expect(page.get_by_label("Find")).to_have_value("prod")
        expect(rows(page)).to_have_count(2)


def test_a_link_to_the_page_has_the_result_and_no_server_gets_it(
    browser: Browser, server: Server, impact: Callable[..., str]
) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, impact(FLEET, *RELEASES, "--json"))
        rows(page).filter(has_text="prod/plain").click()
        link = link_with(page, "sources", "open")
    with open_page(browser, link) as page:
        expect(page.get_by_role("heading", name="prod/plain")).to_be_visible()
        expect(rows(page)).to_have_count(4)
        page.get_by_role("button", name="Another fleet").click()
        expect(page.get_by_label(PASTE)).to_have_value("")
    assert link.partition("#")[2][:20] not in server.log.read_text()


@pytest.mark.parametrize("fragment", ["#x", "#AAAA", "#%00", "#q1YqSa0oUbJSUKoFAA", "#" + "A" * 5000])
def test_a_link_that_cannot_be_read_opens_the_whole_report(
    browser: Browser, report: Callable[..., str], fragment: str
) -> None:
    with open_page(browser, report(FLEET, *RELEASES) + fragment) as page:
        expect(rows(page)).to_have_count(4)


def test_a_result_is_a_file_or_json_lines_or_dropped(
    browser: Browser, server: Server, impact: Callable[..., str], tmp_path: Path
) -> None:
    result = tmp_path / "impact.jsonl"
    result.write_text(impact(FLEET, *RELEASES, "--format", "jsonl"))
    with open_page(browser, f"{server.url}/fleet") as page:
        page.locator("input[type=file]").set_input_files(result)
        expect(page.get_by_text("impact.jsonl")).to_be_visible()
        expect(page.locator(".map .name")).to_have_text([BROKEN, "prod/connector", "test/opt", "prod/plain"])
        expect(page.get_by_role("alert")).to_have_count(0)
        page.get_by_role("button", name="Another fleet").click()
        dropped = """(text) => {
            const data = new DataTransfer();
            data.items.add(new File([text], "dropped.json"));
            document.querySelector(".drop").dispatchEvent(new DragEvent("drop", {dataTransfer: data, bubbles: true}));
        }"""
        page.evaluate(dropped, impact(FLEET, *RELEASES, "--json"))
        expect(page.get_by_text("dropped.json")).to_be_visible()
        expect(rows(page)).to_have_count(4)


def test_an_interrupted_result_says_so(browser: Browser, server: Server, impact: Callable[..., str]) -> None:
    lines = impact(FLEET, *RELEASES, "--format", "jsonl").splitlines()
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, "\n".join(lines[:2]))
        expect(page.get_by_role("alert")).to_contain_text("the run was interrupted")
        expect(rows(page)).to_have_count(2)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "expected an impact result, manifests, requests or commands, got something else"),
        ("x" * 2_000_000, "expected YAML of at most 1 MiB; send a larger one as JSON"),
        ('{"items": [{"releases": []}]}', "/items/0/releases expected an object, got []"),
        (
            '{"items": [{"releases": {"0.33.0": {}}}]}',
            "/items/0/releases/0.33.0/starts expected true or false, got nothing",
        ),
        ('{"items": [{"name": {}, "releases": {}, "changes": [1]}]}', "/items/0/name expected a text, got {}"),
        ('{"items": [{"releases": {}, "changes": {}, "kind": 3}]}', "/items/0/kind expected a text, got 3"),
    ],
)
def test_what_is_no_result_is_refused_with_the_place(browser: Browser, server: Server, text: str, said: str) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, text)
        alert = page.get_by_role("alert")
        expect(alert).to_be_visible()
        assert said.replace("`", "") in " ".join(alert.inner_text().split())
        expect(page.get_by_label(PASTE)).to_have_value(text)


@pytest.mark.parametrize("name", ["__proto__", "constructor", "toString"])
def test_names_that_every_object_has_are_names_like_others(browser: Browser, server: Server, name: str) -> None:
    answer = '{"runner": "v1", "starts": true, "set_env": {"__proto__": "1"}}'
    change = f'{{"from": "0.32.0", "to": "{name}", "kind": "{name}", "runner": ["v1", "v1"], "starts": [true, true]}}'
    item = (
        f'{{"name": "{name}", "from": "0.32.0", "kind": "{name}", '
        f'"releases": {{"0.32.0": {answer}, "{name}": {answer}}}, "changes": [{change}]}}'
    )
    other = f'{{"name": "other", "from": "0.32.0", "kind": null, "releases": {{"0.32.0": {answer}}}, "changes": []}}'
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, f'{{"targets": ["{name}"], "items": [{item}, {other}]}}')
        expect(rows(page)).to_have_count(2)
        expect(page.locator(".map .name").first).to_have_text(name)


def test_names_with_markup_stay_text(
    browser: Browser, server: Server, impact: Callable[..., str], report: Callable[..., str]
) -> None:
    fleet = [facts(HOSTILE, HOSTILE), {"request_id": f"{HOSTILE}2", "deployment": {"args": ["serve", HOSTILE]}}]
    for address, text in (
        (report(fleet, "--to", "0.33.0"), None),
        (f"{server.url}/fleet", impact(fleet, "--to", "0.33.0", "--json")),
    ):
        with open_page(browser, address) as page:
            if text is not None:
                paste(page, text)
            expect(rows(page)).to_have_count(2)
            title = page.title()
            for n in range(2):
                rows(page).nth(n).click()
                expect(page.locator(".deployment h2").first).to_contain_text(HOSTILE)
            page.wait_for_timeout(300)
            assert (page.title(), page.locator("#page img, #page script").count()) == (title, 0)
            assert title.endswith("Runner Policy")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_view_has_no_barrier(
    browser: Browser, server: Server, impact: Callable[..., str], report: Callable[..., str], scheme: str
) -> None:
    with open_page(browser, report(FLEET, *RELEASES), scheme=scheme) as page:
        expect(rows(page)).to_have_count(4)
        assert violations(page) == []
        rows(page).nth(1).click()
        page.locator(".why summary").first.click()
        assert violations(page) == []
    with open_page(browser, f"{server.url}/fleet", scheme=scheme) as page:
        assert violations(page) == []
        paste(page, "{")
        expect(page.get_by_role("alert")).to_be_visible()
        assert violations(page) == []
        paste(page, impact(FLEET, "--to", "0.33.0", "--json"))
        expect(rows(page)).to_have_count(4)
        assert violations(page) == []


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_nothing_scrolls_sideways(
    browser: Browser, server: Server, impact: Callable[..., str], report: Callable[..., str], width: int
) -> None:
    fleet = [facts("n" * 300, "A" * 300), facts("a b " * 100), *FLEET]
    sideways = "document.documentElement.scrollWidth"
    for releases in ("0.32.0,0.33.0", "all"):
        with open_page(browser, report(fleet, "--releases", releases), width=width) as page:
            expect(rows(page)).to_have_count(6)
            assert page.evaluate(sideways) <= width
            for n in (1, 2):
                rows(page).nth(n).click()
                expect(page.locator(".deployment")).to_be_visible()
                assert page.evaluate(sideways) <= width
                page.locator(".deployment").get_by_role("button", name="← All deployments").click()
    with open_page(browser, f"{server.url}/fleet", width=width) as page:
        assert page.evaluate(sideways) <= width
        paste(page, impact(fleet, "--to", "0.33.0", "--json"))
        expect(rows(page)).to_have_count(6)
        assert page.evaluate(sideways) <= width


MODEL: Final = "acme/small"
CONFIG: Final = json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1000})


def pod(name: str, *args: str, release: str = "0.22.0", model: str = MODEL) -> dict[str, Any]:
    container = {"name": "vllm", "image": f"vllm/vllm-openai:v{release}", "args": ["--model", model, *args]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}


OTHER: Final = {"apiVersion": "example.org/v1", "kind": "Other", "metadata": {"name": "web"}, "spec": {}}
MANIFESTS: Final = "\n---\n".join(
    json.dumps(each) for each in (pod("plain"), pod("connector", "--kv-transfer-config", json.dumps(CONNECTOR)), OTHER)
)


def test_manifests_are_compared_once_the_config_of_their_model_is_given(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, MANIFESTS)
        expect(page.get_by_text("0 of 2 deployments change; 2 are not decided")).to_be_visible()
        expect(page.get_by_text("other objects: 1")).to_be_visible()
        page.get_by_label(MODEL).fill(CONFIG)
        expect(page.get_by_text("2 of 2 deployments change", exact=True)).to_be_visible()
        expect(page.get_by_label(MODEL)).to_have_count(0)
        expect(page.locator(".map .name")).to_have_text(["Pod/connector/vllm", "Pod/plain/vllm"])
        assert cells(page, "Pod/connector/vllm")[0] == "now 0.22.0: V1"


def test_the_releases_of_manifests_are_chosen(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, MANIFESTS)
        page.get_by_label(MODEL).fill(CONFIG)
        heads = page.get_by_role("grid").get_by_role("columnheader")
        bar = page.get_by_role("region", name="What is compared")
        for label, value, columns in (
            ("to", "0.32.0", ["now", "0.32.0"]),
            ("from", "0.23.0", ["0.23.0", "0.32.0"]),
            ("to", "v1-removed", ["0.23.0", "v1-removed"]),
            ("to", "0.25.0", ["0.23.0", "0.25.0"]),
        ):
            bar.get_by_label(label, exact=True).select_option(value)
            expect(heads).to_have_text(["Deployment", *columns])
        bar.get_by_label("each release between").check()
        expect(heads).to_have_text(["Deployment", "0.23.0", "0.24.0", "0.25.0"])
        page.wait_for_url(re.compile("#.+"))
        page.wait_for_timeout(500)
        link = page.url
    with open_page(browser, link) as page:
        expect(page.get_by_role("grid").get_by_role("columnheader")).to_have_text(
            ["Deployment", "0.23.0", "0.24.0", "0.25.0"]
        )
        expect(page.get_by_text("1 of 2 deployments changes", exact=True)).to_be_visible()
        page.get_by_label("from", exact=True).select_option("0.27.0")
        expect(page.get_by_role("grid").get_by_role("columnheader")).to_have_text(["Deployment", "0.27.0", "0.25.0"])
        expect(page.get_by_label("each release between")).to_be_disabled()


def test_files_of_manifests_requests_and_commands_are_compared_together(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    texts = {
        "pods.yaml": MANIFESTS,
        "requests.jsonl": "\n".join(json.dumps(facts(name)) for name in ("a", "b")),
        "start.sh": f"vllm serve {MODEL} --enable-dbo",
        "one.json": json.dumps(facts("one")),
        "broken.yaml": "apiVersion: v1\nkind: Pod\nspec: {containers: 1}\n",
    }
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    with open_page(browser, f"{server.url}/fleet") as page:
        page.locator("input[type=file]").set_input_files([tmp_path / name for name in texts])
        expect(page.get_by_role("status").filter(has_text="deployments")).to_have_text("7 of 7 deployments")
        rows(page).filter(has_text="Pod/plain/vllm").click()
        expect(page.locator(".deployment .links").first).to_contain_text("pods.yaml")
        page.get_by_label("Find").fill("requests.jsonl")
        expect(page.locator(".map .name")).to_have_text(["a", "b"])


def test_a_text_is_compared_when_it_is_pasted(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        page.context.grant_permissions(["clipboard-read", "clipboard-write"])
        page.evaluate("text => navigator.clipboard.writeText(text)", json.dumps(facts("pasted")))
        page.get_by_label(PASTE).focus()
        page.keyboard.press("Control+V")
        expect(page.locator(".map .name")).to_have_text(["pasted"])


def test_a_thousand_engines_of_a_manifest_are_compared(browser: Browser, server: Server) -> None:
    pods = [pod(f"p{n}") for n in range(1000)]
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, json.dumps({"manifest": pods, "model_configs": {MODEL: json.loads(CONFIG)}}))
        expect(page.get_by_role("status").filter(has_text="deployments")).to_have_text("1,000 of 1,000 deployments")
        expect(rows(page).first).to_contain_text("Pod/p0/vllm")


def test_more_than_the_limit_is_not_decided_and_said(browser: Browser, server: Server) -> None:
    pods = [pod(f"p{n}") for n in range(800)]
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, json.dumps({"manifest": pods, "model_configs": {MODEL: json.loads(CONFIG)}}))
        bar = page.get_by_role("region", name="What is compared")
        bar.get_by_label("from", exact=True).select_option("0.20.0")
        bar.get_by_label("each release between").check()
        expect(page.get_by_role("alert")).to_contain_text("This is not the whole fleet")
        expect(page.locator(".counts:not(.causes)")).to_contain_text("not decided")
        expect(page.locator(".counts:not(.causes) li").last).to_contain_text("800")


def test_a_refused_comparison_keeps_the_last_one(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]]
) -> None:
    with serve() as server:
        opened = open_page(browser, f"{server.url}/fleet")
        page = opened.__enter__()  # it outlives the server
        paste(page, json.dumps(facts("kept")))
        expect(rows(page)).to_have_count(1)
    bar = page.get_by_role("region", name="What is compared")
    bar.get_by_label("to", exact=True).select_option("0.25.0")
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    expect(page.locator(".map .name")).to_have_text(["kept"])
    opened.__exit__(None, None, None)


def test_a_token_is_asked_for_before_manifests_are_compared(browser: Browser, with_tokens: Server) -> None:
    with open_page(browser, f"{with_tokens.url}/fleet") as page:
        paste(page, json.dumps(facts("secret")))
        expect(page.get_by_role("alert")).to_contain_text("Give a token that may do this")
        page.wait_for_url(re.compile("#.+"))
        page.locator(".token summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Keep in this tab").click()
        expect(page.locator(".map .name")).to_have_text(["secret"])


def many(result: str, number: int) -> str:
    """A result with this many deployments, made from one with few."""
    document = json.loads(result)
    items = document["items"]
    document["items"] = [items[n % len(items)] | {"name": f"fleet/{n}"} for n in range(number)]
    return json.dumps(document)


def check_many(page: Page, number: int) -> None:
    """Thousands of deployments are searched, and only those in sight are in the document."""
    expect(page.get_by_role("status").last).to_have_text(f"{number:,} of {number:,} deployments")
    grid = page.get_by_role("grid")
    assert grid.get_attribute("aria-rowcount") == str(number + 1)
    grid.focus()
    page.keyboard.press("Control+End")
    expect(rows(page).filter(has_text=f"fleet/{number - 1}")).to_be_in_viewport()
    assert rows(page).count() < 100
    page.get_by_label("Find").fill("fleet/1234")
    expect(rows(page).first).to_contain_text("fleet/1234")
    rows(page).first.click()
    expect(page.locator(".deployment h2").first).to_contain_text("fleet/1234")


def test_twenty_thousand_deployments_stay_usable(
    browser: Browser, server: Server, impact: Callable[..., str], report: Callable[..., str], tmp_path: Path
) -> None:
    few = [facts(f"f{n}", f"A{n}ForCausalLM") for n in range(50)]
    file = tmp_path / "many.json"
    file.write_text(many(impact(few, "--releases", "0.32.0,0.33.0", "--json"), 20_000))
    with open_page(browser, f"{server.url}/fleet") as page:
        page.locator("input[type=file]").set_input_files(file)
        check_many(page, 20_000)
    address = report([few[n % 50] | {"request_id": f"fleet/{n}"} for n in range(20_000)], *RELEASES)
    with open_page(browser, address) as page:
        check_many(page, 20_000)


def test_a_service_that_goes_away_loses_nothing(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]], impact: Callable[..., str]
) -> None:
    result = impact(FLEET, *RELEASES, "--json")
    with serve() as server:
        opened = open_page(browser, f"{server.url}/fleet")
        page = opened.__enter__()  # it outlives the server
        expect(page.get_by_label(PASTE)).to_be_visible()
    paste(page, result)
    expect(rows(page)).to_have_count(4)
    expect(page.get_by_text("The texts of rules are not shown. The service cannot be reached.")).to_be_visible()
    rows(page).nth(1).click()
    expect(page.locator(".deployment .steps")).to_contain_text("kv-connector-fallback")
    opened.__exit__(None, None, None)


def test_the_texts_of_rules_need_a_token_and_the_result_does_not(
    browser: Browser, with_tokens: Server, impact: Callable[..., str]
) -> None:
    with open_page(browser, f"{with_tokens.url}/fleet") as page:
        paste(page, impact(FLEET, *RELEASES, "--json"))
        expect(rows(page)).to_have_count(4)
        expect(page.get_by_text("give a token that may read at “Token”")).to_be_visible()
        page.wait_for_url(re.compile("#.+"))
        page.locator(".token summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Keep in this tab").click()
        expect(page.get_by_text("Token given")).to_be_visible()
        expect(rows(page)).to_have_count(4)
        rows(page).nth(1).click()
        expect(page.locator(".deployment .why").first).to_contain_text("V2 reserves no memory for CUDA graphs")


def test_a_rule_of_a_change_leads_to_its_page(browser: Browser, server: Server, impact: Callable[..., str]) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, impact(FLEET, *RELEASES, "--json"))
        rows(page).filter(has_text="prod/connector").click()
        why = page.locator(".deployment .why").filter(has_text="kv-connector-fallback").first
        why.locator("summary").click()
        why.get_by_role("link", name="the rule kv-connector-fallback").click()
        expect(page.locator(".rule .links code")).to_have_text("house/kv-connector-fallback.yaml")


def test_another_fleet_ends_the_comparison_that_runs(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, json.dumps(FLEET[0]))
        expect(rows(page)).to_have_count(1)
        page.route("**/v1/impact", lambda _: None)  # it is never answered
        page.get_by_label("to", exact=True).select_option("0.25.0")
        expect(page.get_by_text("comparing…")).to_be_visible()
        page.get_by_role("button", name="Another fleet").click()
        expect(page.get_by_label(PASTE)).to_be_visible()
        expect(page.get_by_text("comparing…")).to_have_count(0)


@pytest.mark.parametrize(
    "text", ['{"items": []}', '{"apiVersion": "v1", "kind": "List", "items": []}', '{"items": [], "complete": true}']
)
def test_an_empty_list_is_no_result(browser: Browser, server: Server, text: str) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        paste(page, text)
        alert = page.get_by_role("alert")
        expect(alert).to_contain_text("This cannot be compared")
        expect(alert).to_contain_text("expected an impact result, manifests, requests or commands, got something else")


def test_files_that_cannot_be_read_are_said_and_the_rest_is_compared(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    for name in ("a.json", "gone.json"):
        (tmp_path / name).write_text(json.dumps(facts(name)))
    with open_page(browser, f"{server.url}/fleet") as page:
        page.evaluate(
            """() => {
              const { text } = Blob.prototype;
              Blob.prototype.text = function () {
                return this.name === "gone.json" ? Promise.reject(new Error("it is gone")) : text.call(this);
              };
            }"""
        )
        page.locator("input[type=file]").set_input_files([tmp_path / "a.json", tmp_path / "gone.json"])
        expect(rows(page)).to_have_count(1)
        expect(page.get_by_text("Left out, as it cannot be read: gone.json")).to_be_visible()
        page.get_by_role("button", name="Another fleet").click()
        expect(page.get_by_text("Left out")).to_have_count(0)
