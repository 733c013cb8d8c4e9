"""What the page makes of texts and files: documents and their places, duplicate keys, and whose a config.json is."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
from playwright.sync_api import expect

from .browser import open_page, violations
from .test_page import CONFIG, FACTS, MODEL, TEXT, ask, choose, drop, folder_of_files, give_config, paste, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from .conftest import Server

pytestmark = pytest.mark.slow

FIRST: Final = pod("first", "--enable-dbo")
SECOND: Final = pod("second", "--enable-dbo")


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with open_page(browser, server.url) as found:
        yield found


@pytest.mark.parametrize(
    "text",
    [
        f"{FIRST}\n---\n{SECOND}\n",
        f"--- {FIRST}\n--- {SECOND}\n",
        f"# a comment\n---\n# source: a.yaml\n{FIRST}\n--- # source: b.yaml\n{SECOND}\n",
        f"%YAML 1.1\n--- {FIRST}\n...\n# nothing\n---\n# nothing\n---\nnull\n---\n{SECOND}\n...\n",
        f"explain: true\nrequest_id: a\n---\n{FIRST}\n---\n{SECOND}\n",
    ],
)
def test_the_evidence_is_marked_in_the_document_of_the_engine(page: Page, text: str) -> None:
    ask(page, text)
    give_config(page)
    for name in ("first", "second"):
        page.locator(".engines").get_by_role("button", name=f"Pod/{name}").click()
        expect(page.locator(".editor mark")).to_have_text(["--enable-dbo"])
        before = page.evaluate("document.querySelector('.editor mark').previousSibling.textContent")
        assert before.count(name) == 1
        assert before.count("--enable-dbo") == (name == "second")


@pytest.mark.parametrize("blank", ["", " " * (1 << 16)])
def test_of_duplicate_keys_the_last_one_counts_as_in_the_service(page: Page, blank: str) -> None:
    architecture = '{"model_config": {"architectures": ["OPTForCausalLM"]}}'
    text = f'{{"facts": {architecture},{blank} "facts": {json.dumps(json.loads(FACTS)["facts"])}}}'
    (paste if blank else ask)(page, text)
    choose(page, "0.25.0")
    expect(page.locator(".verdict")).to_contain_text("vLLM 0.25.0")
    expect(page.locator(".verdict .runner")).to_have_text("V2")


def test_files_that_begin_with_blank_lines_and_comments_are_read(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("\n" * 1000 + "# a comment\n" * 1000 + FIRST)
    (tmp_path / "b.yaml").write_text("\n# a comment\n---\n" + SECOND)
    drop(page, ".editor textarea", tmp_path / "a.yaml", tmp_path / "b.yaml")
    expect(page.locator(".engines").get_by_role("heading", name="2 engines")).to_be_visible()


@pytest.mark.parametrize(
    ("path", "is_its"),
    [
        ("models/acme/small/config.json", True),
        ("models/acme/small.json", True),
        ("hub/models--acme--small/snapshots/0123/config.json", True),
        ("models/other/small/config.json", False),
        ("models/large/config.json", False),
        ("hub/models--acme--small-large/snapshots/0123/config.json", False),
    ],
)
def test_a_config_of_a_folder_is_of_the_model_that_the_folder_names(
    page: Page, tmp_path: Path, path: str, *, is_its: bool
) -> None:
    folder = tmp_path / "deploy"
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_text(CONFIG)
    (folder / "a.yaml").write_text(FIRST)
    drop(page, ".editor textarea", folder)
    use = page.get_by_role("button", name=f"Use deploy/{path}")
    removal = page.get_by_role("button", name=f"Remove the config.json of {MODEL}")
    if not is_its:
        expect(use).to_be_visible()
        expect(removal).to_have_count(0)
        use.click()
    expect(removal).to_be_visible()


def test_a_folder_of_a_model_is_of_the_model_with_its_name(page: Page, tmp_path: Path) -> None:
    for name, count in (("large", 0), ("small", 1)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text(CONFIG)
        ask(page, f"vllm serve {MODEL}")
        expect(page.locator(".ask-config")).to_be_visible()
        drop(page, "h1", tmp_path / name)
        expect(page.get_by_role("button", name="Use large/config.json")).to_have_count(1 - count)
        expect(page.get_by_role("button", name=f"Remove the config.json of {MODEL}")).to_have_count(count)
    assert page.get_by_label(TEXT).input_value() == f"vllm serve {MODEL}"


UNREADABLE: Final = """([first, second]) => {
  const gone = new DOMException("it is gone", "NotFoundError");
  const file = (path, text) => ({
    isFile: true,
    name: path.split("/").at(-1),
    fullPath: path,
    file: (done, failed) => (text === null ? failed(gone) : done(new File([text], path))),
  });
  const folder = (path, entries) => ({
    isDirectory: true,
    name: path.split("/").at(-1),
    fullPath: path,
    createReader: () => ({
      readEntries: (done, failed) => (entries === null ? failed(gone) : done(entries.splice(0))),
    }),
  });
  DataTransferItem.prototype.webkitGetAsEntry = () =>
    folder("/deploy", [
      file("/deploy/z.yaml", second),
      file("/deploy/gone.yaml", null),
      folder("/deploy/closed", null),
      file("/deploy/a.yaml", first),
    ]);
}"""
"""Makes any drop one of a folder in which a file was removed and a folder may not be read."""


def test_what_cannot_be_read_of_a_drop_is_said_and_the_rest_is_read(
    browser: Browser, server: Server, tmp_path: Path
) -> None:
    (tmp_path / "deploy").mkdir()
    with open_page(browser, server.url) as page:
        page.evaluate(UNREADABLE, [FIRST, SECOND])
        drop(page, ".editor textarea", tmp_path / "deploy")
        expect(page.locator(".engines").get_by_role("heading", name="2 engines")).to_be_visible()
        expect(page.locator(".notes li")).to_have_text(
            ["deploy/closed cannot be read", "deploy/gone.yaml cannot be read"]
        )


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_files_long_texts_and_the_form_for_a_token_have_no_barrier(
    browser: Browser, server: Server, scheme: str, tmp_path: Path
) -> None:
    folder = folder_of_files(tmp_path)
    (folder / "models/acme/small/config.json").rename(folder / "models/config.json")
    (folder / "facts.json").write_text(FACTS)
    with open_page(browser, server.url, scheme=scheme) as page:
        drop(page, ".editor textarea", folder)
        expect(page.get_by_role("button", name="Use deploy/models/config.json")).to_be_visible()
        page.locator(".token summary").click()
        expect(page.get_by_label("Token")).to_be_visible()
        assert violations(page) == []
        page.get_by_role("button", name="Use deploy/models/config.json").click()
        expect(page.locator(".engines")).to_contain_text("not decided: 0")
        page.locator(".engines").get_by_role("button", name="Pod/b").click()
        page.locator(".remedies").filter(has_text="drop --enable-dbo").get_by_role("button").click()
        expect(page.locator(".chip.tried")).to_be_visible()
        expect(page.locator(".busy")).to_have_count(0)  # it is dimmed while it is asked about
        assert violations(page) == []
        page.get_by_role("button", name="Clear").click()
        paste(page, f"{FIRST}\n# {'a' * (1 << 16)}\n---\n{SECOND}")
        expect(page.locator(".long-text")).to_contain_text("too many to edit here")
        expect(page.locator(".engines")).to_contain_text("2 engines")
        expect(page.locator(".busy")).to_have_count(0)
        assert violations(page) == []
