"""What the page reads in YAML and JSON: the values that the service reads, or the text itself where it cannot."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from policy.intake.manifests.compose_yaml import resolve_variables
from policy.parser.jsontext import read_json
from policy.parser.yamltree import read_documents
from policy.request.documents import join_documents
from policy.request.request import INPUTS

from .browser import open_page
from .test_page import CONFIG, FACTS, MODEL, TEXT, ask, choose, drop, pod

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from .conftest import Server

pytestmark = pytest.mark.slow

HEAD: Final = "apiVersion: v1\nkind: Pod\nmetadata:\n  name: a\n  annotations:\n"
COMPOSE: Final = f"services:\n  llm:\n    image: vllm/vllm-openai:v0.27.0\n    command: --model {MODEL}\n"
SCALARS: Final = (
    *("2024-05-01", "12:30", "y", "n", "N", "yes", "Off", "~", "", "Null", "nULL", "true", "'true'", '"1.0"'),
    *("0o17", "017", "08", "0b11", "0x1F", "-0x1f", "1_000", "_1", "1__0", "+1", "++1", "0o8", "-0", "1.2.3"),
    *("1.0", "1.", ".5", "-.5", "1._5", "._5", "1e3", "1E3", "1e-7", "-0.0", "1e22", "1.5e300", "0.1", "1e400"),
    *("9007199254740991", "9007199254740993", "-12345678901234567890", "12345678901234567890", "é", "a#b", "a #b"),
    *("|\n      b\n      c", ">-\n      b\n\n      c\n", "|+\n      b\n\n", "b\n      c", "'b\n      c'", '"\\x41\\n"'),
    *("[a, {b: 1.0}]", "&a [1, 2.0]", "<<", "..", "--x", "=", "{a:b}", "a:b", "__proto__"),
)
READ: Final = (
    *(f"{HEAD}    x: {scalar}" for scalar in SCALARS),
    f"{HEAD}    {{x: 1, 'y': 2.0, __proto__: 3, constructor: 4}}\n".replace("\n", "\r\n"),
    f"{HEAD}    x: &x {{a: 1, b: 2}}\n    y: {{b: 3, <<: *x}}\n    z: {{<<: [*x, {{a: 4, c: 1.0}}]}}\n    v: [*x]\n",
    f"{HEAD}    x: &x a\n    y: &x b\n    z: *x\n---\nnull\n---\n{HEAD}    y: 1.0\n...\n",
    f"{HEAD}    x: 1\n---\nvllm_version: 0.25.0\nmodel_configs: {{{MODEL}: {CONFIG}}}\n",
    f"vllm_version: '0.25.0'\n---\n{HEAD}    x: 1\n---\n{HEAD}    x: 2\n",
    "facts:\n  model_config: {architectures: [OPTForCausalLM], max_model_len: 1e3}\n",
    f"{COMPOSE}    environment: {{A: true, B: 'yes', C: 1.0, D: 010, E: 9223372036854775}}\n",
    *(f'{{"kind": "Pod", "a": {number}}}' for number in ("1.0", "1e3", "-0.0", "0.5", "12345678901234567890", "-0")),
    '{"kind": "Pod", "a": [1.0, "1.0", "\\"1.0", {"\\\\": 2.0}], "a\\ud83c\\udfff": "\\ud83c\\udfff", "kind": "Job"}',
    json.dumps({"args": ["--model", MODEL], "model_configs": {MODEL: {"attention_dropout": 0.0, "rope_theta": 1e6}}}),
)
"""Texts that the page reads as the service does."""
LEFT: Final = (
    *(
        f"{HEAD}    x: {scalar}\n"
        for scalar in ("!x b", "!!str 5", "! 5", ".inf", "-.INF", ".NaN", "1.5e999", "1" * 65)
    ),
    *(f"{HEAD}    {key}: x\n" for key in ("5", "1.0", "~", "yes", "[a]", "? a\n    :", "a: 1\n    a")),
    *(f"{HEAD}    x: {value}\n" for value in ("*a", "&a [*a]", "{<<: 1}", "\n    -\tb", '"\\ud83d\\ude00"', "[a, :b]")),
    *(f"{HEAD}    x: a{character}b\n" for character in ("\u0085", "\u2028", "\u0007", "\ufeff")),
    *(f"{COMPOSE}    environment: {{A: {value}}}\n" for value in ("yes", "No", "on", "99999999999999999999")),
    f"{HEAD}    x: 1\n...\n{HEAD}    x: 2\n",
    f"{HEAD}    x: {'[' * 2000}\n",
)
"""Texts that the page leaves to the service."""
ARGS: Final = f"args:\n  - |\n    exec vllm serve {MODEL} --max-num-seqs 4\n"
BROKEN: Final = (
    f"# a Pod\n{HEAD}    x: y\nimage: vllm/vllm-openai:v0.20.0\ncommand: [sh, -c]\n{ARGS}   env: []\n",
    f"---\n{ARGS}   env: []\n",
    f"- {ARGS.replace(chr(10), chr(10) + '  ')} env: []\n",
    f"apiVersion: v1\nkind: Pod\nmetadata:\n  name: {{{{ .Release.Name }}}}-llm\n{ARGS}",
    f"{{{{- if .Values.isEnabled }}}}\n{ARGS}{{{{- end }}}}\n",
    f"'args': |\n  numactl --membind=0 vllm serve {MODEL} &&\n  exit\n env: []\n",
    f'{{"deployment": {{"args": "vllm serve {MODEL}"}}',
    f'{{"deployment": {{"args": "\nvllm serve {MODEL} "}}',
    f"<pre>\nvllm serve {MODEL}\n</pre>\n",
    f'FROM vllm/vllm-openai:v0.20.0\nRUN echo "vllm serve {MODEL}"\nCMD vllm serve {MODEL}\n',
    f'title = "a"\ncommand = "vllm serve {MODEL}"\n',
)
"""Texts that are no documents, and no scripts either, though they show how vLLM is started."""


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with open_page(browser, server.url) as found:
        yield found


def sent(page: Page, text: str) -> tuple[str, str]:
    """The content type and the body of the request about a text."""
    with page.expect_request("**/v1/decisions") as asked:
        ask(page, text)
    expect(page.locator(".result.busy")).to_have_count(0)
    body = asked.value.post_data
    assert body is not None
    return asked.value.headers["content-type"], body


def read_by_service(text: str) -> Any:
    """The document that the service has of a text."""
    if text.startswith("{"):
        return read_json(text.encode())
    return join_documents(read_documents(text, "body", resolve=resolve_variables))


def as_request(document: Any) -> Any:
    """What the page asks about a document."""
    if "args" in document:
        return {"deployment": document}
    return document if any(name in document for name in INPUTS) else {"manifest": document}


def test_the_page_sends_the_values_that_the_service_reads(page: Page) -> None:
    for text in READ:
        content_type, body = sent(page, text)
        request = json.loads(body)
        del request["explain"]
        found, expected = (json.dumps(each, sort_keys=True) for each in (request, as_request(read_by_service(text))))
        assert (content_type, found) == ("application/json", expected), text


def test_the_page_leaves_to_the_service_what_it_cannot_read_as_the_service_does(page: Page) -> None:
    for text in LEFT:
        content_type, body = sent(page, text)
        assert (content_type, body.encode(errors="replace")) == ("application/yaml", text.encode()), text


@pytest.mark.parametrize("text", BROKEN)
def test_a_broken_document_in_which_vllm_is_started_is_no_script(page: Page, text: str) -> None:
    content_type, body = sent(page, text)
    assert (content_type, body) == ("application/yaml", text)
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_broken_document_is_not_compared(browser: Browser, server: Server) -> None:
    with open_page(browser, f"{server.url}/fleet") as page:
        page.get_by_label("Or paste a text:").fill(BROKEN[0])
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("alert")).to_contain_text("expected an impact result, manifests, requests or commands")


def test_a_broken_file_is_left_as_it_is(page: Page, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(BROKEN[0])
    (tmp_path / "b.json").write_text(pod("b"))
    drop(page, ".editor textarea", tmp_path / "a.yaml", tmp_path / "b.json")
    expect(page.get_by_role("alert")).to_be_visible()
    assert BROKEN[0] in page.get_by_label(TEXT).input_value()


def test_a_text_that_is_left_to_the_service_says_that_a_release_does_not_apply(page: Page) -> None:
    ask(page, f"{COMPOSE}    environment: {{A: yes}}\n")
    note = page.get_by_role("status").filter(has_text="The page cannot read this text as the service does")
    expect(page.get_by_role("alert")).to_contain_text(f"the config.json of {MODEL} is needed")
    expect(note).to_have_count(0)
    choose(page, "0.25.0")
    expect(note).to_contain_text("as yes may be a text in a Compose file")
    expect(note).to_contain_text("Name vllm_version and model_configs in the text")
    ask(page, f"{COMPOSE}    environment: {{A: 'yes'}}\n")
    expect(note).to_have_count(0)


def test_a_fleet_is_compared_with_the_values_that_the_service_reads(browser: Browser, server: Server) -> None:
    number = '"rope_theta": 1000000.0'
    request = FACTS.replace('"model_config": {', f'"model_config": {{{number}, ')
    texts = (request, f"{request}\n{request}\n", f"{HEAD}    x: 1000000.0\n", f'{{"manifest": {pod("a")}, {number}}}')
    for text in texts:
        with open_page(browser, f"{server.url}/fleet") as page, page.expect_request("**/v1/impact") as asked:
            page.get_by_label("Or paste a text:").fill(text)
            page.get_by_role("button", name="Compare").click()
        assert "1000000.0" in str(asked.value.post_data)


@pytest.mark.parametrize(
    "script",
    [
        f"vllm serve {MODEL} --seed 1",
        f"#!/bin/sh\n# a\u2028b\nexec vllm serve {MODEL}\n",
        f"#!/bin/sh\n:\ta\nexec vllm serve {MODEL}\n\n\n",
        f"#!/bin/sh\r\nexec vllm serve {MODEL}\r\n",
        f"vllm serve {MODEL} # \u0085 \U0001f600 \u00e9",
        f"# a\u2029b\n[Service]\nExecStart=vllm serve {MODEL}\n",
    ],
)
def test_files_become_documents_in_which_the_service_reads_what_they_have(
    page: Page, tmp_path: Path, script: str
) -> None:
    (tmp_path / "a.txt").write_text(script, newline="")
    (tmp_path / "b.json").write_text(pod("b"))
    drop(page, ".editor textarea", tmp_path / "a.txt", tmp_path / "b.json")
    expect(page.locator(".engines").get_by_role("heading", name="2 engines")).to_be_visible()
    name = "unit" if "[Service]" in script else "script"
    text = page.get_by_label(TEXT).input_value()
    assert read_by_service(text) == [{name: script}, json.loads(pod("b"))]
