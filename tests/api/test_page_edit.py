"""The view Edit of the page in a real browser: completion, faults, cases, what an edit means, and the patch."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from .browser import open_page, tab_to, violations
from .conftest import TOKEN
from .test_page_tried import link

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    import httpx
    from playwright.sync_api import Browser, Locator, Page, Route

    from .conftest import Server

pytestmark = pytest.mark.slow

LONG: Final = 120_000
"""Milliseconds for a dry run that takes seconds on an idle machine."""
RULE: Final = "kv-connector-fallback"
WHEN: Final = "kv_transfer_config: present"
NARROW: Final = "kv_transfer_config.kv_connector: present"
PASTE: Final = """(element, text) => {
  const clipboardData = new DataTransfer();
  clipboardData.setData("text/plain", text);
  element.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
}"""
FIX: Final = ('fixed_in: "0.29.0"', 'fixed_in: "0.30.0"')
HOSTILE: Final = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with open_page(browser, f"{server.url}/edit#{RULE}") as found:
        expect(card(found, "Cases")).to_contain_text("9 passed, 0 failed")
        yield found


def card(page: Page, heading: str) -> Locator:
    """The part of the answer below a heading, once it is that for the text."""
    return page.locator(".card").filter(has=page.get_by_role("heading", name=heading, exact=True))


def write(page: Page, text: str, label: str = "The rule") -> None:
    """Replace the text of an editor by pasting another; completions over it are closed first."""
    completions = page.locator(".cm-tooltip-autocomplete")
    if completions.count():
        page.keyboard.press("Escape")
        expect(completions).to_have_count(0)
    page.get_by_label(label, exact=True).click()
    page.keyboard.press("Control+a")
    paste(page, text, label)


def paste(page: Page, text: str, label: str = "The rule") -> None:
    """Paste as plain text. Text that a browser inserts by itself would be other elements than a user's."""
    page.get_by_label(label, exact=True).evaluate(PASTE, text)


def source(root: Path, name: str = f"house/{RULE}.yaml") -> str:
    return (root / "rules" / name).read_text()


def test_an_edit_is_explained_by_the_deployments_that_it_changes(page: Page, root: Path) -> None:
    expect(card(page, "What the edit means")).to_contain_text("Nothing changes for any deployment")
    write(page, source(root).replace(WHEN, NARROW))
    meaning = card(page, "What the edit means")
    expect(meaning).to_contain_text("no longer starts")
    expect(meaning.locator(".class").first).to_contain_text("kv_transfer_config: {}")
    expect(card(page, "Cases")).to_contain_text("8 passed, 1 failed")
    expect(card(page, "Cases")).to_contain_text("0.23.0: it does not fire: kv_transfer_config.kv_connector is null")


def test_an_edit_that_only_changes_what_vllm_alone_decides_is_shown_as_that(page: Page) -> None:
    write(
        page,
        """id: refusal
title: A refusal that a house rule hides
effect: refuse-v2
order: 9999
why: it is a test
references: [https://github.com/vllm-project/vllm/pull/1]
releases:
  - vllm: ">=0.24,<0.25"
    text: refused
    when: {env.VLLM_USE_V2_MODEL_RUNNER: absent, kv_transfer_config: present}
""",
    )
    meaning = card(page, "What the edit means")
    expect(meaning).to_contain_text("decided otherwise by vLLM alone")
    expect(meaning.locator(".class").first).to_contain_text("V1 (vLLM alone: V2, will not start)")
    expect(meaning.locator(".class").first).to_contain_text("+ refusal refuse-v2")


def test_an_edit_of_a_known_problem_is_shown_as_that(page: Page, root: Path) -> None:
    write(page, source(root, "upstream/known-problems/v2-graph-memory.yaml").replace(*FIX))
    meaning = card(page, "What the edit means")
    expect(meaning).to_contain_text("No runner, start or reason changes, in any release. This is proved.")
    expect(meaning).to_contain_text("show another symptom, certainty or fix: v2-graph-memory")


def test_a_smallest_deployment_is_asked_about_with_the_loaded_rules(page: Page, root: Path) -> None:
    write(page, source(root).replace(WHEN, NARROW))
    page.get_by_role("link", name="Ask about it in 0.22.0").first.click()
    expect(page.locator(".verdict")).to_contain_text("vLLM 0.22.0")


def test_keys_facts_operators_and_values_are_completed(page: Page) -> None:
    editor = page.get_by_label("The rule", exact=True)
    editor.click()
    page.keyboard.press("Control+End")
    page.keyboard.type("      parallel_config.enable_d")
    options = page.locator(".cm-tooltip-autocomplete")
    expect(options).to_contain_text("parallel_config.enable_dbo")
    expect(page.locator(".cm-completionInfo")).to_contain_text("read by rules of")
    page.wait_for_timeout(100)  # a completion is taken a moment after it is shown
    page.keyboard.press("Enter")
    expect(options).to_contain_text("false")
    page.wait_for_timeout(100)
    page.keyboard.type("tr")
    expect(options.locator("[aria-selected]")).to_have_text("true")
    page.wait_for_timeout(100)
    page.keyboard.press("Enter")
    expect(editor).to_contain_text("parallel_config.enable_dbo: true")
    page.keyboard.type("\nparallel_config.tensor_parallel_size: {at_")
    expect(options).to_contain_text("at_least")
    write(page, "id: a\neffect: fallback-v1\nunt")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("until")


def test_effects_releases_and_facts_in_texts_are_completed(page: Page) -> None:
    write(page, "id: a\neffect: fall")
    options = page.locator(".cm-tooltip-autocomplete")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("fallback-v1")
    write(page, 'id: a\nreleases:\n  - vllm: "')
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text('">=0.33"')
    write(page, "id: a\nreleases:\n  - message: too many {parallel_config.tensor")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("parallel_config.tensor_parallel_size")
    write(page, "rule: a\ncases:\n  - vllm: [0.3", "Its cases")
    page.keyboard.press("Control+Space")
    expect(options).to_contain_text("0.33.0")


def test_a_fault_is_shown_at_its_place_with_the_words_of_the_service(page: Page, root: Path) -> None:
    write(page, source(root).replace("title:", "titel:"))
    faults = card(page, "Faults")
    expect(faults).to_contain_text("did you mean title?")
    expect(faults.get_by_role("button", name="line 3, column 1")).to_be_visible()
    faults.get_by_role("button", name="line 3, column 1").click()
    expect(page.get_by_label("The rule", exact=True)).to_be_focused()
    page.keyboard.press("Shift+End")
    page.keyboard.type("title: Mended")
    expect(faults).to_have_count(0)
    expect(page.get_by_text("Nothing changes for any deployment")).to_be_visible()


def test_a_fault_of_the_cases_is_shown_in_theirs(page: Page, root: Path) -> None:
    write(page, source(root, f"house/{RULE}_test.yaml").replace("fires: false", "fires: perhaps", 1), "Its cases")
    expect(card(page, "Faults")).to_contain_text("expected true or false, got perhaps")
    expect(page.locator(".code-editor").nth(1).locator(".cm-lint-marker-error")).to_have_count(1)


def test_the_edit_is_taken_as_a_patch_that_git_applies(page: Page, root: Path, tmp_path: Path) -> None:
    (tmp_path / "rules/house").mkdir(parents=True)
    for name in (f"house/{RULE}.yaml", f"house/{RULE}_test.yaml"):
        (tmp_path / "rules" / name).write_text(source(root, name))
    edited = source(root).replace(WHEN, NARROW)
    cases = source(root, f"house/{RULE}_test.yaml").replace("too\n", "too, was said\n").rstrip("\n")
    write(page, edited)
    write(page, cases, "Its cases")
    apply(page, tmp_path, f"{RULE}.patch")
    found = [(tmp_path / "rules/house" / name).read_text() for name in (f"{RULE}.yaml", f"{RULE}_test.yaml")]
    assert found == [edited, cases]


def test_a_new_rule_begins_with_a_template_that_has_no_fault_and_becomes_new_files(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    with open_page(browser, f"{server.url}/edit") as page:
        for name in ("keep deployments on V1", "force V2", "a warning", "a limit on requests", "a known problem"):
            page.get_by_label("New rule").select_option(name)
            expect(card(page, "Cases")).to_contain_text("3 passed, 0 failed")
            expect(card(page, "Faults")).to_have_count(0)
        apply(page, tmp_path, "known-problem-of-ours.patch")
    assert sorted(path.name for path in (tmp_path / "rules/house").iterdir()) == [
        "known-problem-of-ours.yaml",
        "known-problem-of-ours_test.yaml",
    ]


def test_a_rule_about_requests_is_edited_with_its_own_schema_and_cases(
    browser: Browser, server: Server, root: Path
) -> None:
    with open_page(browser, f"{server.url}/edit#bad-words-limit") as page:
        expect(card(page, "Cases")).to_contain_text("0 failed")
        expect(card(page, "What the edit means")).to_contain_text("Nothing changes for any request")
        text = source(root, "upstream/requests/bad-words-limit.yaml")
        write(page, text.replace("more_than: 128", "more_than: 129"))
        expect(card(page, "Cases")).to_contain_text("it does not fire")
        changed = card(page, "What the edit means").locator(".class").first
        expect(changed).to_contain_text("with V2: ends the engine → becomes taken")
        expect(changed).to_contain_text("bad_words: 129")
        write(page, text.replace("parameter:", "paramter:"))
        expect(card(page, "Faults")).to_contain_text("paramter")


def test_a_condition_is_edited_with_the_cases_of_the_rules_that_use_it(
    browser: Browser, server: Server, root: Path, tmp_path: Path
) -> None:
    with open_page(browser, f"{server.url}/edit#microbatching") as page:
        expect(card(page, "Cases")).to_contain_text("0 failed", timeout=LONG)
        expect(card(page, "What the edit means")).to_contain_text("This is proved", timeout=LONG)
        text = source(root, "upstream/conditions/microbatching.yaml")
        write(page, text.replace("ubatch_size: {at_least: 2}", "ubatch_size: {at_least: 100}"))
        expect(card(page, "Cases")).to_contain_text(re.compile(r"[1-9]\d* failed"), timeout=LONG)
        expect(page.locator(".class").first).to_be_visible()
        apply_to = tmp_path / "rules/upstream/conditions"
        apply_to.mkdir(parents=True)
        (apply_to / "microbatching.yaml").write_text(text)
        apply(page, tmp_path, "microbatching.patch")
        assert "at_least: 100" in (apply_to / "microbatching.yaml").read_text()


def test_a_copy_of_a_condition_is_a_condition_without_users(browser: Browser, server: Server, root: Path) -> None:
    with open_page(browser, f"{server.url}/edit#microbatching") as page:
        expect(page.get_by_text("Used by")).to_be_visible()
        text = source(root, "upstream/conditions/microbatching.yaml").replace("id: microbatching", "id: small-batches")
        for copy in (text, text.replace("why:", "whi:")):
            write(page, copy)
            heading = page.get_by_role("heading", name="upstream/conditions/small-batches.yaml")
            expect(heading).to_contain_text("a new condition beside microbatching")
            expect(page.get_by_label("Its cases", exact=True)).to_have_count(0)
            expect(page.get_by_text("Used by")).to_have_count(0)


def apply(page: Page, repository: Path, name: str) -> None:
    """Save the patch, and apply it with git."""
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the patch").click()
    assert saved.value.suggested_filename == name
    saved.value.save_as(repository / name)
    for arguments in (["init", "-q"], ["apply", "--check", name], ["apply", name]):
        subprocess.run(["git", *arguments], cwd=repository, check=True)


def test_a_link_has_the_edit_and_the_server_s_rules_stay(
    browser: Browser, client: httpx.Client, page: Page, root: Path
) -> None:
    before = client.get(f"/v1/rules/{RULE}").json()
    write(page, source(root).replace(WHEN, NARROW))
    expect(card(page, "Cases")).to_contain_text("1 failed")
    page.wait_for_url(re.compile("#~"))
    with open_page(browser, page.url) as other:
        expect(card(other, "Cases")).to_contain_text("1 failed")
        other.get_by_role("button", name="Back to the loaded rule").click()
        expect(card(other, "Cases")).to_contain_text("9 passed, 0 failed")
    assert client.get(f"/v1/rules/{RULE}").json() == before


@pytest.mark.parametrize("name", ["x; touch /tmp/a #\\n", "../x", "-R", "a b", "A", ""])
def test_an_id_of_a_link_is_no_part_of_the_command_to_copy(browser: Browser, server: Server, name: str) -> None:
    state = {"rule": f'id: "{name}"\neffect: warn\n', "cases": ""}
    with open_page(browser, f"{server.url}/edit#~{link(state)}") as page:
        expect(card(page, "Take it").locator("code")).to_have_text("git apply rule.patch")
        with page.expect_download() as saved:
            page.get_by_role("button", name="Save the patch").click()
        assert saved.value.suggested_filename == "rule.patch"


@pytest.mark.parametrize("fragment", ["no-such-rule", "~AAAA", "%00", "~", "%E0%A4%A", "a" * 5000])
def test_a_link_that_leads_nowhere_says_so(browser: Browser, server: Server, fragment: str) -> None:
    with open_page(browser, f"{server.url}/edit#{fragment}") as page:
        expect(page.locator(".result .card").first).to_contain_text("unknown rule" if "a" in fragment else "")
        expect(page.get_by_label("New rule")).to_be_visible()


def test_a_rule_that_is_not_there_is_said_also_if_it_is_known_before_the_rest_is_loaded(
    browser: Browser, server: Server
) -> None:
    with open_page(browser, f"{server.url}/rules") as page:
        held: list[Route] = []
        page.route("**/v1/facts", lambda route: held.append(route))  # noqa: PLW0108  # Playwright inspects it
        page.goto(f"{server.url}/edit#no-such-rule")
        said = page.get_by_role("alert").filter(has_text="unknown rule")
        expect(said).to_be_visible()
        held[0].continue_()
        expect(page.locator("#edit-rules option").first).to_be_attached()
        expect(said).to_be_visible()


def test_the_view_is_used_with_the_keyboard_alone(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/edit") as page:
        tab_to(page, page.locator("[list=edit-rules]"))
        page.keyboard.type(RULE)
        page.keyboard.press("Enter")
        expect(card(page, "Cases")).to_contain_text("9 passed, 0 failed")
        tab_to(page, page.get_by_label("The rule"))
        page.keyboard.press("Control+End")
        page.keyboard.insert_text("nonsense: 1")  # one change: the editor's undo divides what is typed slowly
        expect(card(page, "Faults")).to_contain_text("unknown field nonsense")
        page.keyboard.press("Control+z")
        expect(card(page, "Faults")).to_have_count(0)
        page.keyboard.type("# a comment")
        tab_to(page, page.get_by_role("button", name="Save the patch"))
        with page.expect_download() as saved:
            page.keyboard.press("Enter")
        assert "+# a comment" in saved.value.path().read_text()


def test_markup_in_a_rule_stays_text(page: Page, root: Path) -> None:
    hostile = json.dumps(HOSTILE)
    text = source(root).replace("KV connectors stay on V1", hostile).replace(WHEN, NARROW)
    write(page, text.replace("a KV connector (", f"{HOSTILE} ("))
    write(
        page,
        source(root, f"house/{RULE}_test.yaml").replace("a KV config that names", hostile[:-1] + '"#'),
        "Its cases",
    )
    expect(card(page, "Cases")).to_contain_text("<img")
    write(page, f"{hostile}: 1\nid: {hostile}\n")
    expect(card(page, "Faults")).to_contain_text("<img")
    page.wait_for_timeout(300)
    assert (page.title(), page.locator("#page script, #page img:not(.cm-widgetBuffer)").count()) == ("Runner Policy", 0)


def test_ten_megabytes_are_refused_with_a_message_and_nothing_is_lost(page: Page) -> None:
    page.get_by_label("The rule", exact=True).click()
    page.keyboard.press("Control+End")
    paste(page, "# " + "a" * 10_000_000)
    expect(page.get_by_role("alert")).to_contain_text("A rule file has at most 262144 characters")
    paste(page, "# short\n")
    expect(page.get_by_label("The rule", exact=True)).to_contain_text("# short")
    expect(page.get_by_label("The rule", exact=True)).to_contain_text("kv_transfer_config: present")
    expect(page.get_by_role("alert")).to_have_count(0)


def test_a_service_that_goes_away_loses_nothing_and_is_asked_again(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]], root: Path
) -> None:
    with ExitStack() as stack:  # the page outlives the server
        with serve() as server:
            page = stack.enter_context(open_page(browser, f"{server.url}/edit#{RULE}"))
            expect(card(page, "Cases")).to_contain_text("9 passed, 0 failed")
        write(page, source(root).replace(WHEN, NARROW))
        expect(page.get_by_role("alert")).to_contain_text("The service cannot be reached")
        page.get_by_label("The rule", exact=True).press("Control+End")
        expect(page.get_by_label("The rule", exact=True)).to_contain_text(NARROW)
        write(page, source(root).replace("title:", "titel:"))
        expect(card(page, "Faults")).to_contain_text("unknown field titel")  # the schema finds it
        with page.expect_event("requestfailed", lambda sent: json.dumps(NARROW)[1:-1] in (sent.post_data or "")):
            write(page, source(root).replace(WHEN, NARROW))
        with serve("--port", str(server.port)):
            page.get_by_role("button", name="Try again").click()
            expect(card(page, "Cases")).to_contain_text("8 passed, 1 failed")


def test_a_token_that_may_not_try_rules_is_said_to_and_the_rest_works(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path, root: Path
) -> None:
    digest = hashlib.sha256(TOKEN.encode()).hexdigest()
    (tmp_path / "tokens.yaml").write_text(f"tokens: [{{name: reader, sha256: {digest}, scopes: [read]}}]\n")
    with serve("--tokens", str(tmp_path / "tokens.yaml")) as server, open_page(browser, f"{server.url}/edit") as page:
        expect(page.get_by_role("alert")).to_contain_text("a token is needed")
        page.locator(".token summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Keep in this tab").click()
        page.get_by_label("Rule", exact=True).fill(RULE)
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_role("alert")).to_contain_text("the token of reader lacks the scope dry-run")
        expect(page.get_by_role("alert")).to_contain_text("the patch work without it")
        write(page, source(root).replace("title:", "titel:"))
        expect(card(page, "Faults")).to_contain_text("unknown field titel")
        write(page, source(root).replace(WHEN, NARROW))
        expect(card(page, "Faults")).to_have_count(0)
        expect(page.get_by_role("button", name="Save the patch")).to_be_visible()


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_view_has_no_barrier(browser: Browser, server: Server, scheme: str, root: Path) -> None:
    with open_page(browser, f"{server.url}/edit#{RULE}", scheme=scheme) as page:
        expect(card(page, "Cases")).to_contain_text("9 passed, 0 failed")
        assert violations(page) == []
        write(page, source(root).replace(WHEN, NARROW))
        expect(card(page, "Cases")).to_contain_text("1 failed")
        page.get_by_text("The patch", exact=True).click()
        assert violations(page) == []
        write(page, source(root).replace("title:", "titel:"))
        expect(card(page, "Faults")).to_contain_text("did you mean")
        page.keyboard.press("Control+End")
        page.keyboard.type("gap")
        expect(page.locator(".cm-tooltip-autocomplete")).to_be_visible()
        assert violations(page) == []


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_the_view_does_not_scroll_sideways(browser: Browser, server: Server, width: int, root: Path) -> None:
    with open_page(browser, f"{server.url}/edit#{RULE}", width=width) as page:
        expect(card(page, "Cases")).to_contain_text("9 passed, 0 failed")
        long = source(root).replace(WHEN, NARROW).replace("stay on V1", "A" * 400)
        write(page, long)
        expect(card(page, "Cases")).to_contain_text("1 failed")
        page.get_by_text("The patch", exact=True).click()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_the_editor_is_loaded_only_when_the_view_is_opened(browser: Browser, server: Server) -> None:
    asked: list[str] = []
    with open_page(browser, server.url) as page:
        page.on("request", lambda sent: asked.append(sent.url))
        page.goto(f"{server.url}/rules")
        expect(page.locator(".matrix > li").first).to_be_visible()
        assert [url for url in asked if "edit-" in url] == []
        page.get_by_role("link", name="Edit", exact=True).click()
        expect(page.get_by_label("New rule")).to_be_visible()
    assert [url for url in asked if "edit-" in url] != []
