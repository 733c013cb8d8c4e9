"""The view Rules in a real browser: the catalogue of rules, rules about requests and conditions, and a page of each."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import pytest
from files import replace_file
from playwright.sync_api import expect

from .browser import open_page, tab_to, violations

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from playwright.sync_api import Browser, Route

    from .conftest import Server

pytestmark = pytest.mark.slow

HOSTILE: Final = "<img src=x onerror=document.title=1><script>document.title=2</script>"
SHOWN: Final = {
    "a rule": "dual-batch-overlap",
    "a rule about requests": "allowed-token-ids-limit",
    "a condition": "microbatching",
}


def test_rules_are_found_by_words_and_release_and_read(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules") as page:
        rows = page.locator(".matrix > li")
        expect(rows.nth(100)).to_be_attached()
        page.get_by_label("Find").fill("dual batch")
        expect(page.get_by_role("link", name="dual-batch-overlap exclude-v2")).to_be_visible()
        page.get_by_label("release", exact=True).select_option("0.19.0")
        expect(rows).to_have_count(0)
        page.get_by_label("release", exact=True).select_option("0.30.0")
        page.get_by_role("link", name="dual-batch-overlap exclude-v2").click()
        expect(page.get_by_role("heading", name="Dual batch overlap")).to_be_visible()
        expect(page.locator(".source")).to_contain_text("parallel_config.enable_dbo: true")
        assert page.url.endswith("/rules#dual-batch-overlap?query=dual+batch&release=0.30.0")
    with open_page(browser, f"{server.url}/rules#dual-batch-overlap?query=dual+batch&release=0.30.0") as page:
        expect(page.get_by_label("Find")).to_have_value("dual batch")
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".matrix > li").nth(100)).to_be_attached()


def test_the_releases_of_a_rule_are_shown_as_spans(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#?query=dual-batch-overlap") as page:
        spans = page.locator(".matrix > li").first.get_by_label("Releases").get_by_role("listitem")
        expect(spans).to_have_text([re.compile(r"^[0-9.]+ to 0\.19\.[0-9]+: no$"), "0.20.0 to 0.33.0: holds"])
        wide = spans.nth(1).bounding_box()
        narrow = spans.nth(0).bounding_box()
        assert wide is not None
        assert narrow is not None
        assert wide["width"] > 2
        assert abs(narrow["x"] + narrow["width"] - wide["x"]) < 1


def test_nothing_is_said_of_a_rule_before_the_rules_are_loaded(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        held: list[Route] = []
        page.route("**/v1/rules", lambda route: held.append(route))  # noqa: PLW0108  # Playwright inspects it
        page.goto(f"{server.url}/rules#no-such-rule")
        expect(page.get_by_role("status")).to_have_text("Loading the rules …")
        expect(page.get_by_text("There is no rule")).to_have_count(0)
        held[0].continue_()
        expect(page.get_by_text("There is no rule no-such-rule in the loaded rules.")).to_be_visible()


def test_a_rule_is_shown_with_its_history_its_cases_and_a_deployment_that_it_catches(
    browser: Browser, server: Server
) -> None:
    with open_page(browser, f"{server.url}/rules#dual-batch-overlap") as page:
        expect(page.locator(".history > li")).to_contain_text(["0.20.0 to 0.29.0", "from 0.30.0 on"])
        page.get_by_text("cases, in upstream/v2/dual-batch-overlap_test.yaml").click()
        expect(page.locator(".rule-cases > li").first).to_contain_text("fires")
        page.get_by_role("link", name="Ask about it in 0.").click()
        expect(page.locator(".reasons")).to_contain_text("dual batch overlap")


def test_a_text_of_a_deployment_that_a_rule_catches_stays_a_text(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#advise-variable-not-read") as page:
        page.get_by_role("link", name="Ask about it in 0.").click()
        expect(page.locator("textarea").first).to_have_value(re.compile('"VLLM_USE_V2_MODEL_RUNNER": "'))


def test_a_known_problem_is_shown_with_what_is_known_of_it(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#v2-graph-memory") as page:
        expect(page.locator(".rule")).to_contain_text("out-of-memory")
        expect(page.locator(".rule")).to_contain_text("known by: ")
        expect(page.locator(".rule")).to_contain_text("with V2")


def test_a_rule_leads_to_its_edit(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#kv-connector-fallback", width=360) as page:
        page.get_by_role("link", name="Edit this rule").click()
        expect(page.get_by_role("heading", name="house/kv-connector-fallback.yaml")).to_be_visible()


def test_rules_about_requests_and_conditions_are_listed_and_filtered_by_kind(browser: Browser, server: Server) -> None:
    with server.client() as client:
        loaded = client.get("/v1/rules").json()
    numbers = {
        "rule": len(loaded["rules"]),
        "rule about requests": len(loaded["request_rules"]),
        "condition": len(loaded["conditions"]),
    }
    with open_page(browser, f"{server.url}/rules") as page:
        rows = page.locator(".matrix > li")
        expect(rows).to_have_count(sum(numbers.values()))
        for kind, number in numbers.items():
            page.get_by_label("kind", exact=True).select_option(kind)
            expect(rows).to_have_count(number)
            expect(page.get_by_role("status")).to_contain_text(f"{number} of {sum(numbers.values())}")
        assert page.url.endswith("/rules#?kind=condition")
        page.get_by_label("Find").fill("dual batch")
        expect(page.get_by_role("link", name="microbatching condition")).to_be_visible()
        page.get_by_label("kind", exact=True).select_option("rule about requests")
        expect(rows).to_have_count(0)
        page.get_by_label("Find").fill("1,024 columns")
        page.get_by_role("link", name="allowed-token-ids-limit request-kills-engine").click()
        expect(page.get_by_role("heading", name="More than 1,024 allowed tokens end the engine")).to_be_visible()


def test_a_rule_about_requests_is_shown_with_a_request_that_it_catches(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#allowed-token-ids-limit") as page:
        shown = page.locator(".rule")
        expect(shown).to_contain_text("about allowed_token_ids")
        expect(shown).to_contain_text("with V2")
        expect(shown.get_by_role("link", name="vllm-project/vllm #55164")).to_be_visible()
        expect(shown.locator(".history > li")).to_contain_text(["from 0.22.0 on"])
        expect(shown).to_contain_text("A request that it catches")
        expect(shown).to_contain_text("Too many allowed token IDs: 1025. The max size is 1024.")
        expect(shown.locator(".source")).to_contain_text("parameter: allowed_token_ids")
        page.get_by_text("cases, in upstream/requests/allowed-token-ids-limit_test.yaml").click()
        expect(shown.locator(".rule-cases > li").first).to_contain_text("fires, V2")
        shown.get_by_role("link", name="Edit this rule").click()
        expect(page.get_by_role("heading", name="upstream/requests/allowed-token-ids-limit.yaml")).to_be_visible()


def test_a_condition_is_shown_with_the_rules_that_use_it(browser: Browser, server: Server) -> None:
    with server.client() as client:
        used_by = client.get("/v1/rules/microbatching").json()["used_by"]
    with open_page(browser, f"{server.url}/rules#microbatching?kind=condition") as page:
        shown = page.locator(".rule")
        expect(shown.get_by_role("heading", name="microbatching")).to_be_visible()
        expect(shown.locator(".used-by a")).to_have_text(used_by)
        expect(shown.locator(".source")).to_contain_text("parallel_config.enable_dbo: true")
        expect(shown.get_by_role("link", name="Edit this condition")).to_be_visible()
        shown.get_by_role("link", name="dual-batch-overlap").click()
        expect(page.get_by_role("heading", name="Dual batch overlap")).to_be_visible()
        page.go_back()
        expect(page.get_by_role("heading", name="Used by")).to_be_visible()


def test_the_view_is_used_with_the_keyboard_alone(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules") as page:
        expect(page.locator(".matrix > li").first).to_be_attached()
        tab_to(page, page.get_by_role("searchbox"))
        page.keyboard.insert_text("microbatches")
        tab_to(page, page.locator("#rules-kind"))
        page.keyboard.type("condition")
        expect(page.locator(".matrix > li")).to_have_count(1)
        tab_to(page, page.locator(".matrix").get_by_role("link", name="microbatching"))
        page.keyboard.press("Enter")
        tab_to(page, page.locator(".used-by").get_by_role("link", name="dual-batch-overlap"))
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", name="Dual batch overlap")).to_be_visible()
        tab_to(page, page.locator("summary", has_text="cases, in"))
        page.keyboard.press("Enter")
        expect(page.locator(".rule-cases > li").first).to_be_visible()


@pytest.mark.parametrize(
    ("file", "title"),
    [
        ("upstream/v2/dual-batch-overlap", "title: Dual batch overlap"),
        (
            "upstream/requests/allowed-token-ids-limit",
            "title: More than 1,024 allowed tokens end the engine",
        ),
        ("upstream/conditions/microbatching", ""),
    ],
)
def test_markup_in_a_loaded_rule_stays_text(
    browser: Browser,
    serve: Callable[..., AbstractContextManager[Server]],
    folder: Path,
    file: str,
    title: str,
) -> None:
    rule, cases = folder / f"{file}.yaml", folder / f"{file}_test.yaml"
    text = rule.read_text("utf-8")
    if title:
        text = text.replace(title, f'title: "{HOSTILE}"')
        replace_file(cases, re.sub(r"(?m)^( +- name:).*$", rf"\1 '{HOSTILE}'", cases.read_text("utf-8"), count=1))
    replace_file(rule, re.sub(r"(?m)^why:.*\n(?:  .*\n)*", f"why: '{HOSTILE}'\n", text))
    with (
        serve(RUNNER_POLICY_RULES=str(folder)) as server,
        open_page(browser, f"{server.url}/rules#{file.rpartition('/')[2]}") as page,
    ):
        expect(page.locator(".source")).to_contain_text("<img")
        if title:
            page.get_by_text("cases, in ").click()
            expect(page.locator(".rule-cases > li").first).to_contain_text("<img")
        page.get_by_label("Find").fill(HOSTILE)
        expect(page.locator(".matrix > li")).to_have_count(1)
        page.wait_for_timeout(300)
        assert (page.title(), page.locator("#page img, #page script").count()) == ("Runner Policy", 0)


@pytest.mark.parametrize(
    "fragment",
    ["__proto__", "%E0%A4%A", "constructor?kind=__proto__", "%3Cimg%20src%3Dx%20onerror%3Ddocument.title%3D1%3E"],
)
def test_a_link_that_leads_nowhere_says_so(browser: Browser, server: Server, fragment: str) -> None:
    with open_page(browser, f"{server.url}/rules#{fragment}") as page:
        expect(page.get_by_text("There is no rule ")).to_be_visible()
        page.wait_for_timeout(300)
        assert (page.title(), page.locator("#page img").count()) == ("Runner Policy", 0)


def test_ten_megabytes_to_find_are_searched_and_nothing_is_lost(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/rules#microbatching") as page:
        expect(page.locator(".source")).to_be_visible()
        page.get_by_label("Find").fill("a" * 10_000_000)
        expect(page.locator(".matrix > li")).to_have_count(0)
        page.get_by_role("button", name="Show all").click()
        expect(page.locator(".matrix > li").nth(200)).to_be_attached()
        expect(page.locator(".source")).to_be_visible()


def test_a_service_that_goes_away_keeps_the_catalogue(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]]
) -> None:
    with serve() as server:
        opened = open_page(browser, f"{server.url}/rules")
        page = opened.__enter__()  # it outlives the server
        expect(page.locator(".matrix > li").nth(200)).to_be_attached()
    page.get_by_label("Find").fill("microbatches")
    page.get_by_role("link", name="microbatching").click()
    expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
    expect(page.locator(".history > li")).to_have_count(1)
    opened.__exit__(None, None, None)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("rule", SHOWN.values(), ids=SHOWN)
def test_a_page_has_no_barrier(browser: Browser, server: Server, rule: str, scheme: str) -> None:
    with open_page(browser, f"{server.url}/rules#{rule}?query={rule}", scheme=scheme) as page:
        expect(page.locator(".source")).to_be_visible()
        assert violations(page) == []


@pytest.mark.parametrize("width", [360, 1280, 2560])
@pytest.mark.parametrize("rule", SHOWN.values(), ids=SHOWN)
def test_a_page_does_not_scroll_sideways(browser: Browser, server: Server, rule: str, width: int) -> None:
    with open_page(browser, f"{server.url}/rules#{rule}", width=width) as page:
        expect(page.locator(".source")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width
