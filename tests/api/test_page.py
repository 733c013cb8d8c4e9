"""The page in a real browser, used as people do: by mouse, by keyboard alone, with hostile texts, behind a prefix."""

from __future__ import annotations

import base64
import json
import re
import zlib
from contextlib import closing, contextmanager, suppress
from http.client import HTTPConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import expect

from .browser import open_page, tab_to, violations
from .conftest import TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from playwright.sync_api import Browser, Page, Response, Route

    from .conftest import Server

pytestmark = pytest.mark.slow

MODEL: Final = "acme/small"
CONFIG: Final = json.dumps({"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1000})
CONNECTOR: Final = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
COMMAND: Final = f"vllm serve {MODEL} --kv-transfer-config '{CONNECTOR}'"
FACTS: Final = '{"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}}'
TEXT: Final = "A command, a deployment, facts or a manifest"
LONG: Final = 120_000
"""Milliseconds for what takes seconds on an idle machine."""
HOSTILE: Final = '<img src=x onerror="document.title=1"><script>document.title=2</script>'


def pod(name: str, *args: str, release: str = "0.27.0") -> str:
    container = {"name": "vllm", "image": f"vllm/vllm-openai:v{release}", "args": ["--model", MODEL, *args]}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": [container]}}
    )


@pytest.fixture
def page(browser: Browser, server: Server) -> Iterator[Page]:
    with open_page(browser, server.url) as found:
        yield found


def ask(page: Page, text: str) -> None:
    page.get_by_label(TEXT).fill(text)


def paste(page: Page, text: str) -> None:
    """Paste a text, which is faster than typing it."""
    page.get_by_label(TEXT).evaluate(
        """(field, text) => {
            const clipboardData = new DataTransfer();
            clipboardData.setData("text/plain", text);
            field.dispatchEvent(new ClipboardEvent("paste", { clipboardData, bubbles: true, cancelable: true }));
        }""",
        text,
    )


def give_config(page: Page) -> None:
    page.get_by_label(MODEL).fill(CONFIG)


def choose(page: Page, release: str) -> None:
    page.get_by_label("vLLM", exact=True).select_option(release)


def verdict(page: Page) -> str:
    """The answer in short, once nothing is being asked."""
    expect(page.locator(".verdict")).to_be_visible()
    expect(page.locator(".result.busy")).to_have_count(0)
    return " ".join(page.locator(".verdict .runner, .verdict .starts").all_inner_texts())


def test_a_command_is_answered_once_the_config_of_its_model_is_given(page: Page) -> None:
    ask(page, COMMAND)
    expect(page.get_by_role("heading", name="The config.json of the model is needed")).to_be_visible()
    give_config(page)
    choose(page, "0.23.0")
    expect(page.get_by_text("a KV connector (NixlConnector) keeps this deployment on V1").first).to_be_visible()
    assert verdict(page) == "V1 vLLM starts"
    assert page.locator(".editor mark").all_text_contents() == ["--kv-transfer-config", "kv_connector"]
    assert page.locator(".copy code").all_inner_texts() == [
        "VLLM_USE_V2_MODEL_RUNNER=0",
        '- {name: VLLM_USE_V2_MODEL_RUNNER, value: "0"}',
    ]
    expect(page.get_by_role("heading", name="The other runner: V2")).to_be_visible()
    expect(page.get_by_text("Without the house rules: V2, starts.")).to_be_visible()


def test_a_config_that_is_no_object_is_refused_in_place(page: Page) -> None:
    ask(page, COMMAND)
    for text, said in (("[1]", "expected an object, got [1]"), ("{", "this is not JSON")):
        page.get_by_label(MODEL).fill(text)
        expect(page.get_by_role("alert").filter(has_text=said)).to_be_visible()


def test_a_remedy_is_tried_and_undone(page: Page) -> None:
    ask(page, COMMAND)
    give_config(page)
    choose(page, "0.23.0")
    remedy = page.locator(".remedies").filter(has_text="drop --kv-transfer-config")
    remedy.get_by_role("button", name="Try").click()
    expect(page.locator(".verdict .runner")).to_have_text("V2")
    assert page.get_by_label(TEXT).input_value() == COMMAND
    page.get_by_role("button", name="Undo: drop --kv-transfer-config").click()
    expect(page.locator(".verdict .runner")).to_have_text("V1")
    page.locator(".remedies").filter(has_text="set vllm_version to 0.25.0").get_by_role("button").click()
    expect(page.get_by_label("vLLM", exact=True)).to_have_value("0.25.0")
    expect(page.locator(".verdict .runner")).to_have_text("V2")


def test_the_strip_shows_each_release_and_what_changed(page: Page) -> None:
    ask(page, FACTS)
    cells = page.locator(".cell")
    expect(cells).to_have_count(19)
    page.get_by_role("button", name=re.compile(r"^0\.25\.0 ?: V2, starts")).click()
    step = page.locator(".step")
    expect(step).to_contain_text("0.25.0: V2, starts (before: V1, starts)")
    expect(step).to_contain_text("− kv-connector-fallback")
    page.get_by_role("button", name="Ask for 0.25.0").click()
    expect(page.locator(".verdict")).to_contain_text("vLLM 0.25.0")
    page.get_by_role("button", name="All releases").click()
    expect(cells).to_have_count(83)


def test_nothing_moves_when_the_decisions_of_the_releases_arrive(page: Page) -> None:
    held: list[Route] = []

    def hold(route: Route) -> None:
        held.append(route)

    page.route("**/v1/decisions/batch", hold)
    ask(page, FACTS)
    expect(page.locator(".cell:disabled")).to_have_count(19)
    before = page.locator(".strip").bounding_box()
    held[-1].continue_()
    expect(page.locator(".cell:enabled")).to_have_count(19)
    expect(page.locator(".cell:disabled")).to_have_count(0)
    assert page.locator(".strip").bounding_box() == before


def test_every_form_of_an_input_is_understood(page: Page) -> None:
    config = {MODEL: json.loads(CONFIG)}
    for text, runner in [
        (FACTS, "V1"),
        ("facts:\n  model_config: {architectures: [Qwen3ForCausalLM]}\n", "V2"),
        ('{"model_config": {"architectures": ["OPTForCausalLM"]}}', "V1"),
        (json.dumps({"deployment": {"args": ["--model", MODEL], "model_configs": config}}), "V2"),
        (json.dumps({"args": ["--model", MODEL], "model_configs": config}), "V2"),
        (json.dumps({"manifest": json.loads(pod("a")), "model_configs": config}), "V2"),
    ]:
        ask(page, text)
        expect(page.locator(".verdict .runner")).to_have_text(runner)
        page.get_by_role("button", name="Clear").click()
        expect(page.locator(".verdict")).to_have_count(0)


@pytest.mark.parametrize(
    "text",
    [
        f"# start it\n$ VLLM_LOGGING_LEVEL=DEBUG vllm serve {MODEL} \\\n  --port 8000",
        f"docker run --gpus all vllm/vllm-openai:v0.27.0 --model {MODEL}",
        f"#!/bin/bash\nset -e\nexec vllm serve {MODEL}\n",
        f"[Service]\nExecStart=/usr/bin/vllm serve {MODEL}\n",
        f'["vllm", "serve", "{MODEL}"]',
        f"--model {MODEL}",
        f"source .venv/bin/activate\nvllm serve {MODEL}",
        f"pip install vllm==0.23.0\nvllm serve {MODEL}\n",
        f"/opt/venv/bin/vllm serve {MODEL}",
        f"numactl --cpunodebind=0 --membind=0 vllm serve {MODEL}",
        f'FOO="a b" vllm serve {MODEL}',
        f"taskset -c 0 vllm serve {MODEL} --hf-overrides '{{\"a\": 1}}'",
        f"/opt/bin/python -m vllm.entrypoints.openai.api_server --model {MODEL}",
        f"source .venv/bin/activate && exec vllm serve {MODEL}",
        f"ulimit -n 65535; (nohup vllm serve {MODEL} --seed 1 &)",
        f'ulimit -n 65535\nif true; then\n  A="a b" /usr/bin/numactl -m 0 \\\n    vllm serve {MODEL}\nfi\n',
        f"ulimit -n 65535\npython3 -m vllm.entrypoints.openai.api_server --model {MODEL}\n",
    ],
)
def test_a_command_is_read_in_every_form(page: Page, text: str) -> None:
    ask(page, text)
    give_config(page)
    expect(page.locator(".verdict .runner")).to_have_text(re.compile("V[12]"))


def test_a_manifest_with_several_engines_is_a_list(page: Page) -> None:
    service = json.dumps({"kind": "Service", "apiVersion": "v1", "metadata": {"name": "s"}})
    ask(page, "\n---\n".join([pod("first"), pod("second", "--enable-dbo"), service]))
    give_config(page)
    engines = page.locator(".engines")
    expect(engines.get_by_role("heading", name="2 engines")).to_be_visible()
    expect(page.get_by_text("V2: 1, V1: 1, will not start: 1, not decided: 0")).to_be_visible()
    assert verdict(page) == "V2 vLLM starts"
    engines.get_by_role("button", name="Pod/second").click()
    expect(page.locator(".verdict .runner")).to_have_text("V1")
    expect(page.locator(".remedies").first).to_be_visible()
    expect(page.get_by_role("button", name=re.compile(r"^0\.23\.0 ?: V1, will not start"))).to_be_visible()
    choose(page, "0.33.0")
    expect(page.locator(".verdict")).to_contain_text("vLLM 0.33.0")


def test_what_to_set_in_a_manifest_is_a_patch_too(page: Page) -> None:
    ask(
        page,
        pod("a", "--kv-transfer-config", CONNECTOR, release="0.23.0"),
    )
    give_config(page)
    patch = page.locator(".copy").filter(has_text="JSON patch").locator("code")
    assert json.loads(patch.inner_text()) == [
        {
            "op": "add",
            "path": "/spec/containers/0/env",
            "value": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}],
        }
    ]


def test_a_text_that_cannot_be_copied_is_left_to_select(page: Page) -> None:
    """A page that is loaded over http from another machine has no clipboard."""
    ask(page, COMMAND)
    give_config(page)
    choose(page, "0.23.0")
    page.evaluate("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.get_by_role("button", name="Copy variable").click()
    expect(page.locator(".copy").first).to_contain_text("select the text to copy it")


def test_what_is_said_of_a_manifest_is_shown_beside_a_single_engine(page: Page) -> None:
    other = {"apiVersion": "example.com/v1", "kind": "LLMServer", "metadata": {"name": "other"}, "spec": {}}
    configs = {MODEL: json.loads(CONFIG), "acme/smal": json.loads(CONFIG)}
    ask(page, json.dumps({"manifest": [json.loads(pod("a")), other], "model_configs": configs}))
    expect(page.locator(".verdict .runner")).to_have_text("V2")
    expect(page.get_by_text("other objects: 1")).to_be_visible()
    expect(page.locator(".question").get_by_text("acme/smal")).to_be_visible()


def test_a_patch_keeps_the_variables_that_a_container_has(page: Page) -> None:
    found = json.loads(pod("a", "--kv-transfer-config", CONNECTOR, release="0.23.0"))
    found["spec"]["containers"][0]["env"] = [{"name": "OTHER", "value": "1"}]
    ask(page, json.dumps(found))
    give_config(page)
    patch = page.locator(".copy").filter(has_text="JSON patch").locator("code")
    value = {"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "0"}
    assert json.loads(patch.inner_text()) == [{"op": "add", "path": "/spec/containers/0/env/-", "value": value}]


def folder_of_files(folder: Path) -> Path:
    """A folder as it is in a repository: manifests, a Compose file, a script, a model's configuration, and others."""
    found = folder / "deploy"
    (found / "models/acme/small").mkdir(parents=True)
    (found / ".git").mkdir()
    files = {
        "a.yaml": pod("a"),
        "b.yml": f"---\n{pod('b', '--enable-dbo')}",
        "compose.yaml": f"services:\n  llm:\n    image: vllm/vllm-openai:v0.26.0\n    command: --model {MODEL}\n",
        "run.sh": f"#!/bin/bash\nexec vllm serve {MODEL} --enable-dbo\n",
        "models/acme/small/config.json": CONFIG,
        "README.md": "# Nothing to decide",
        ".git/config.yaml": pod("hidden"),
    }
    for name, text in files.items():
        (found / name).write_text(text)
    return found


def drop(page: Page, target: str, *paths: Path) -> None:
    """Drop files or folders onto an element, as from a file manager."""
    box = page.locator(target).first.bounding_box()
    assert box is not None
    session = page.context.new_cdp_session(page)
    data = {"items": [], "files": [str(path) for path in paths], "dragOperationsMask": 1}
    for kind in ("dragEnter", "dragOver", "drop"):
        place = {"x": box["x"] + 20, "y": box["y"] + 20}
        session.send("Input.dispatchDragEvent", {"type": kind, **place, "data": data})


def test_a_folder_is_dropped_with_the_config_of_its_model(page: Page, tmp_path: Path) -> None:
    drop(page, ".editor textarea", folder_of_files(tmp_path))
    engines = page.locator(".engines")
    expect(engines.get_by_role("heading", name="4 engines")).to_be_visible()
    expect(page.get_by_role("button", name=f"Remove the config.json of {MODEL}")).to_be_visible()
    expect(engines).to_contain_text("not decided: 0")
    assert engines.locator("li .name").all_inner_texts() == ["Pod/a", "Pod/b", "[2].services.llm", "[3].script"]
    text = page.get_by_label(TEXT).input_value()
    assert re.findall("^# .*", text, re.MULTILINE) == [
        f"# deploy/{name}" for name in ("a.yaml", "b.yml", "compose.yaml", "run.sh")
    ]


def test_files_are_chosen_and_a_config_is_dropped_where_it_is_asked_for(page: Page, tmp_path: Path) -> None:
    folder = folder_of_files(tmp_path)
    page.get_by_label("Choose files").set_input_files([folder / "a.yaml", folder / "b.yml"])
    expect(page.get_by_role("heading", name="The config.json of the model is needed")).to_be_visible()
    drop(page, ".ask-config textarea", folder / "models/acme/small/config.json")
    expect(page.locator(".engines")).to_contain_text("not decided: 0")
    page.get_by_role("button", name="Clear").click()
    page.get_by_role("button", name="Back to the text before").click()
    expect(page.locator(".engines")).to_contain_text("2 engines")


def test_a_config_that_is_dropped_anywhere_goes_to_the_only_model_that_needs_one(page: Page, tmp_path: Path) -> None:
    ask(page, COMMAND)
    expect(page.locator(".ask-config")).to_be_visible()
    drop(page, "h1", folder_of_files(tmp_path) / "models/acme/small/config.json")
    expect(page.locator(".verdict .runner")).to_have_text(re.compile("V[12]"))
    assert page.get_by_label(TEXT).input_value() == COMMAND


def test_files_that_are_no_text_are_left_out_and_said(page: Page, tmp_path: Path) -> None:
    (tmp_path / "weights.safetensors").write_bytes(b"\0" * 100)
    (tmp_path / "facts.json").write_text(FACTS)
    (tmp_path / "a.json").write_text(pod("a"))
    drop(page, ".editor textarea", *(tmp_path / name for name in ("weights.safetensors", "facts.json", "a.json")))
    expect(page.locator(".notes")).to_contain_text("weights.safetensors is not a text")
    expect(page.locator(".notes")).to_contain_text("facts.json is a request, and not a part of a manifest")
    assert page.get_by_label(TEXT).input_value() == f"# a.json\n{pod('a')}"


def test_evidence_is_marked_in_the_engine_that_is_shown(page: Page) -> None:
    container = "{{name: vllm, image: vllm/vllm-openai:v0.27.0, args: [--model, {}, --enable-dbo]}}"
    items = [
        f"- kind: Pod\n  metadata: {{name: {name}}}\n  spec:\n    containers: [{container.format(MODEL)}]\n"
        for name in ("first", "second")
    ]
    text = f"apiVersion: v1\nitems:\n{''.join(items)}kind: List\n"
    ask(page, text)
    give_config(page)
    for name, place in (("first", 0), ("second", 1)):
        page.locator(".engines").get_by_role("button", name=f"Pod/{name}").click()
        expect(page.locator(".editor mark")).to_have_count(1)
        before = page.evaluate("document.querySelector('.editor mark').previousSibling.textContent")
        assert before.count("--model") == place + 1
    page.get_by_label(TEXT).press("Home")
    page.keyboard.type("# a comment above\n")
    assert page.locator(".editor mark").all_text_contents() == ["--enable-dbo"]  # while it is asked again


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        (pod("a", "--enable-dbo"), "drop --enable-dbo"),
        (
            f"services:\n  llm.a:\n    image: vllm/vllm-openai:v0.27.0\n    command: --model {MODEL} --enable-dbo\n",
            "drop --enable-dbo",
        ),
        (f"#!/bin/sh\nset -e\nvllm serve {MODEL} --enable-dbo --port 80\n", "drop --enable-dbo"),
    ],
)
def test_a_remedy_of_an_engine_of_a_manifest_is_tried(page: Page, text: str, remedy: str) -> None:
    ask(page, text)
    give_config(page)
    choose(page, "0.27.0")
    expect(page.locator(".verdict .starts")).to_have_text("vLLM will not start")
    page.locator(".remedies").filter(has_text=remedy).get_by_role("button", name="Try").click()
    expect(page.locator(".verdict .starts")).to_have_text("vLLM starts")
    page.get_by_role("button", name=f"Undo: {remedy}").click()
    expect(page.locator(".verdict .starts")).to_have_text("vLLM will not start")


def test_what_was_assumed_is_shown_with_what_it_changes(page: Page) -> None:
    ask(page, FACTS)
    card = page.locator(".card").filter(has=page.get_by_role("heading", name="What was assumed"))
    expect(card.locator(".assumptions li").first).to_contain_text("env.VLLM_USE_V2_MODEL_RUNNER is null")
    expect(card).to_contain_text("1 → V2")
    card.get_by_text("facts were not stated, where no other value changes the answer").click()
    expect(card.locator(".unweighty li").first).to_be_visible()


def test_more_engines_than_one_request_may_have_keep_their_answers(page: Page) -> None:
    start = f"- {{name: vllm, image: vllm/vllm-openai:v0.27.0, args: [--model, {MODEL}, --enable-dbo, --port, "
    pods = [f"kind: Pod\nmetadata:\n  name: p{n}\nspec:\n  containers:\n  {start}'{n}']}}\n" for n in range(1200)]
    paste(page, "---\n".join(pods))
    page.get_by_label(MODEL).fill(CONFIG, timeout=LONG)
    engines = page.locator(".engines")
    expect(engines.get_by_role("heading", name="1200 engines")).to_be_visible(timeout=LONG)
    expect(engines).to_contain_text("not decided: 0", timeout=LONG)
    engines.get_by_label("Find").fill("p1199")
    engines.get_by_role("button", name="Pod/p1199").click()
    expect(page.locator(".long-text pre")).to_contain_text("'1199'")
    expect(page.locator(".long-text mark")).to_have_text("--enable-dbo")
    expect(page.locator(".cell")).to_have_count(19)
    expect(page.locator(".remedies").first).to_contain_text("drop --enable-dbo")
    choose(page, "0.30.0")
    expect(page.locator(".verdict")).to_contain_text("vLLM 0.30.0")


def is_about(response: Response, name: str) -> bool:
    """Whether it is the answer about one engine of a manifest, by the name of its object."""
    body = json.loads(response.request.post_data or "{}")
    return (
        response.url.endswith("/v1/decisions") and body["explain"] and body["manifest"][0]["metadata"]["name"] == name
    )


def test_an_engine_is_asked_about_with_the_runtime_that_is_an_engine_itself(page: Page) -> None:
    container = {
        "name": "kserve-container",
        "image": "vllm/vllm-openai:v0.27.0",
        "args": ["--model", "/mnt/models", "--enable-dbo"],
    }
    runtime = {
        "apiVersion": "serving.kserve.io/v1alpha1",
        "kind": "ServingRuntime",
        "metadata": {"name": "vllm"},
        "spec": {"supportedModelFormats": [{"name": "vLLM"}], "containers": [container]},
    }
    model = {"modelFormat": {"name": "vLLM"}, "runtime": "vllm", "storageUri": f"hf://{MODEL}"}
    services = [
        {
            "apiVersion": "serving.kserve.io/v1beta1",
            "kind": "InferenceService",
            "metadata": {"name": f"s{n}"},
            "spec": {"predictor": {"model": model}},
        }
        for n in range(9)
    ]
    configs = {name: json.loads(CONFIG) for name in (MODEL, "/mnt/models")}
    request = {"manifest": [*services, runtime], "model_configs": configs}
    asked = "**/v1/decisions"
    with page.expect_response(asked) as first:
        ask(page, json.dumps(request))
    engines = page.locator(".engines")
    expect(engines.get_by_role("heading", name="10 engines")).to_be_visible()
    expect(engines).to_contain_text("V2: 0, V1: 10, will not start: 10, not decided: 0")
    whole = {each["path"]: each["decision"] for each in first.value.json()["items"]}
    path = "[7].spec.predictor.model"
    with page.expect_response(lambda each: is_about(each, "s7")) as second:
        engines.get_by_role("button", name="InferenceService/s7").click()
    sent = json.loads(str(second.value.request.post_data))
    assert [each["metadata"]["name"] for each in sent["manifest"]] == ["s7", "vllm"]
    (part,) = (each["decision"] for each in second.value.json()["items"] if each["path"] == "[0].spec.predictor.model")
    same = ("runner", "outcome", "starts", "launch_errors", "summary")
    assert [part[name] for name in same] == [whole[path][name] for name in same]
    expect(page.locator(".verdict .starts")).to_have_text("vLLM will not start")
    expect(page.locator(".remedies").filter(has_text="drop --enable-dbo").first).to_be_visible()


def unpacked(url: str) -> bytes:
    """The state that a link has, as JSON."""
    return zlib.decompress(base64.urlsafe_b64decode(url.partition("#")[2] + "=="), -15)


def test_a_link_has_the_state_and_no_server_gets_it(browser: Browser, server: Server, page: Page) -> None:
    ask(page, FACTS)
    choose(page, "0.24.0")
    page.wait_for_url(re.compile("#.+"))
    verdict(page)
    page.get_by_role("button", name=re.compile(r"^0\.25\.0 ?: ")).click()
    page.wait_for_url(lambda url: b'"0.25.0"' in unpacked(url))
    link = page.url
    with open_page(browser, link) as other:
        expect(other.get_by_label(TEXT)).to_have_value(FACTS)
        expect(other.locator(".verdict")).to_contain_text("vLLM 0.24.0")
        expect(other.locator(".step")).to_contain_text("− kv-connector-fallback")
    assert link.partition("#")[2][:20] not in server.log.read_text()


@pytest.mark.parametrize("fragment", ["#x", "#AAAA", "#%00", "#q1YqSa0oUbJSUKoFAA", "#" + "A" * 5000])
def test_a_link_that_cannot_be_read_opens_an_empty_page(browser: Browser, server: Server, fragment: str) -> None:
    with open_page(browser, f"{server.url}/{fragment}") as page:
        expect(page.get_by_label(TEXT)).to_have_value("")


def test_a_link_that_inflates_beyond_the_limit_opens_an_empty_page(
    browser: Browser, server: Server, page: Page
) -> None:
    ask(page, FACTS)
    page.wait_for_url(re.compile("#.+"))
    verdict(page)
    page.wait_for_timeout(500)
    state = unpacked(page.url)
    for size, text in ((1_000_000, FACTS), (8_000_000, "")):
        deflate = zlib.compressobj(9, wbits=-15)
        large = deflate.compress(state + b" " * size) + deflate.flush()
        fragment = base64.urlsafe_b64encode(large).decode().rstrip("=")
        with open_page(browser, f"{server.url}/#{fragment}") as other:
            expect(other.get_by_label(TEXT)).to_have_value(text)


def test_a_fault_is_shown_where_it_is(page: Page) -> None:
    ask(page, '{"facts": {"model": 1, "parallel_config": {"enable_dbo": "yes"}}}')
    problem = page.get_by_role("alert")
    expect(problem).to_contain_text("/facts/model")
    expect(problem).to_contain_text("/facts/parallel_config/enable_dbo")


def test_the_page_is_used_with_the_keyboard_alone(page: Page) -> None:
    tab_to(page, page.get_by_label(TEXT))
    page.keyboard.insert_text(FACTS)
    expect(page.locator(".cell")).to_have_count(19)
    tab_to(page, page.get_by_role("button", name="0.25.0"))
    page.keyboard.press("Enter")
    expect(page.locator(".step")).to_contain_text("0.25.0: V2, starts")


@pytest.mark.parametrize(
    "text", [HOSTILE, json.dumps({"facts": {HOSTILE: HOSTILE}}), pod(HOSTILE), f"vllm serve '{HOSTILE}'"]
)
def test_markup_in_what_is_sent_stays_text(page: Page, text: str) -> None:
    ask(page, text)
    expect(page.locator(".problem, .ask-config, .verdict").first).to_be_visible()
    page.wait_for_timeout(300)
    assert (page.title(), page.locator("#page img, #page script").count()) == ("Runner Policy", 0)


def test_ten_megabytes_are_answered_and_the_page_goes_on(page: Page) -> None:
    paste(page, "x: " + "a" * 10_000_000)
    expect(page.get_by_role("alert")).to_be_visible()
    expect(page.get_by_text("10,000,003 characters, too many to edit here. Shown are 20,000 of them.")).to_be_visible()
    page.get_by_role("button", name="Clear").click()
    ask(page, FACTS)
    assert verdict(page) == "V1 vLLM starts"


def test_a_long_text_of_what_nearly_starts_vllm_is_answered(page: Page) -> None:
    paste(page, "vllm.entrypoints." * 60_000)
    expect(page.get_by_role("alert")).to_be_visible()


def test_a_thousand_engines_stay_usable(page: Page) -> None:
    pods = [json.loads(pod(f"p{n}")) for n in range(1000)]
    ask(page, json.dumps({"manifest": pods, "model_configs": {MODEL: json.loads(CONFIG)}}))
    engines = page.locator(".engines")
    expect(engines.get_by_role("heading", name="1000 engines")).to_be_visible()
    expect(engines.locator("li")).to_have_count(100)
    engines.get_by_label("Find").fill("p999")
    engines.get_by_role("button", name="Pod/p999").click()
    expect(page.locator(".remedies, .strip").first).to_be_visible()
    expect(page.locator(".cell")).to_have_count(19)


def test_a_service_that_goes_away_loses_nothing(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]]
) -> None:
    with serve() as server:
        opened = open_page(browser, server.url)
        page = opened.__enter__()  # it outlives the server
        ask(page, FACTS)
        assert verdict(page) == "V1 vLLM starts"
    choose(page, "0.24.0")
    expect(page.get_by_role("alert").first).to_contain_text("The service cannot be reached")
    expect(page.get_by_label(TEXT)).to_have_value(FACTS)
    opened.__exit__(None, None, None)


def test_a_token_is_asked_for_and_kept_in_the_tab(browser: Browser, with_tokens: Server) -> None:
    with open_page(browser, with_tokens.url) as page:
        ask(page, FACTS)
        expect(page.get_by_role("alert").first).to_contain_text("Give a token that may do this")
        page.locator(".token summary").click()
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Keep in this tab").click()
        expect(page.get_by_text("Token given")).to_be_visible()
        expect(page.locator(".verdict .runner")).to_have_text("V1")  # nothing of what was asked is lost
        stored = page.evaluate("[Object.values(sessionStorage), Object.values(localStorage), document.cookie]")
    assert stored == [[TOKEN], [], ""]


def test_a_token_that_no_header_can_have_is_refused_where_it_is_given(browser: Browser, with_tokens: Server) -> None:
    with open_page(browser, with_tokens.url) as page:
        ask(page, FACTS)
        page.locator(".token summary").click()
        for given, code in ((f"{TOKEN}\u200b", "U+200B"), (f"{TOKEN} x", "U+0020"), ("\u00e9", "U+00E9")):
            page.get_by_label("Token").fill(given)
            page.get_by_role("button", name="Keep in this tab").click()
            expect(page.locator(".token").get_by_role("alert")).to_contain_text(f"got the character {code}")
        assert page.evaluate("Object.values(sessionStorage)") == []
        page.get_by_label("Token").fill(TOKEN)
        page.get_by_role("button", name="Keep in this tab").click()
        expect(page.locator(".verdict .runner")).to_have_text("V1")
        expect(page.locator(".token").get_by_role("alert")).to_have_count(0)


def test_a_request_that_cannot_be_made_is_a_problem(browser: Browser, with_tokens: Server) -> None:
    with open_page(browser, with_tokens.url) as page:
        page.evaluate("sessionStorage.setItem('runner-policy-token', 'rp_a\\u200b')")
        ask(page, FACTS)
        expect(page.get_by_role("alert").first).to_contain_text("The request cannot be made")
        expect(page.get_by_text("asking…")).to_have_count(0)
        page.goto(f"{with_tokens.url}/fleet")
        page.get_by_label("Or paste a text:").fill(FACTS)
        page.get_by_role("button", name="Compare").click()
        expect(page.get_by_role("alert").first).to_contain_text("The request cannot be made")
        expect(page.get_by_text("comparing…")).to_have_count(0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("path", ["/", "/rules#dual-batch-overlap?query=dual"])
def test_the_page_has_no_barrier(browser: Browser, server: Server, path: str, scheme: str) -> None:
    with open_page(browser, server.url + path, scheme=scheme) as page:
        if path == "/":
            ask(page, FACTS)
            expect(page.locator(".cell")).to_have_count(19)
        else:
            expect(page.locator(".rule h2")).to_be_visible()
        assert violations(page) == []


@pytest.mark.parametrize("width", [360, 768, 1280, 2560])
def test_no_view_scrolls_sideways(browser: Browser, server: Server, width: int) -> None:
    with open_page(browser, server.url, width=width) as page:
        ask(page, FACTS.replace("Qwen3ForCausalLM", "A" * 300))
        expect(page.locator(".cell")).to_have_count(19)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        page.goto(f"{server.url}/rules#kv-connector-fallback")
        expect(page.locator(".rule h2")).to_be_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_reason_leads_to_its_rule(page: Page) -> None:
    ask(page, FACTS)
    page.get_by_role("link", name="kv-connector-fallback").first.click()
    expect(page.locator(".rule .links code").first).to_have_text("house/kv-connector-fallback.yaml")


@contextmanager
def behind_prefix(server: Server, prefix: str, *, keeps: bool = False) -> Iterator[str]:
    """The address of a proxy that serves the server's paths below a prefix, as ingress controllers do."""

    class Proxy(BaseHTTPRequestHandler):
        def forward(self) -> None:
            if not self.path.startswith(prefix):
                self.send_error(404)
                return
            with (
                closing(HTTPConnection("127.0.0.1", server.port)) as connection,
                suppress(ConnectionError),  # a browser gives up what is outdated
            ):
                self.pass_on(connection)

        def pass_on(self, connection: HTTPConnection) -> None:
            body = self.rfile.read(int(self.headers.get("content-length", 0)))
            own = urlsplit(server.url).netloc
            headers = {name: value for name, value in self.headers.items() if name.lower() not in {"host", "origin"}}
            path = self.path if keeps else self.path.removeprefix(prefix)
            connection.request(self.command, path, body, {**headers, "host": own})
            answer = connection.getresponse()
            sent = answer.read()
            self.send_response(answer.status)
            for name, value in answer.getheaders():
                if name.lower() not in {"transfer-encoding", "content-length", "connection", "date"}:
                    self.send_header(name, value)
            self.send_header("content-length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)

        do_GET = do_POST = forward  # noqa: N815  # the names of the handler

        def log_message(self, *_: object) -> None:
            pass

    proxy = ThreadingHTTPServer(("127.0.0.1", 0), Proxy)
    Thread(target=proxy.serve_forever, daemon=True).start()
    try:
        yield f"http://127.0.0.1:{proxy.server_port}{prefix}"
    finally:
        proxy.shutdown()
        proxy.server_close()


def test_the_page_works_behind_a_path_prefix(browser: Browser, server: Server) -> None:
    with behind_prefix(server, "/tools/policy") as url, open_page(browser, f"{url}/") as page:
        ask(page, FACTS)
        assert verdict(page) == "V1 vLLM starts"
        page.get_by_role("link", name="Rules").click()
        expect(page.locator(".matrix > li").first).to_be_visible()
        page.get_by_role("link", name="Runner Policy").click()
        expect(page.get_by_label(TEXT)).to_be_visible()
        assert page.url == f"{url}/"


def test_the_documentation_works_behind_a_path_prefix(browser: Browser, server: Server) -> None:
    with behind_prefix(server, "/tools/policy") as url, open_page(browser, f"{url}/docs") as page:
        expect(page.get_by_text("/v1/decisions", exact=True)).to_be_visible()


@pytest.mark.parametrize("keeps", [False, True])
def test_the_page_works_below_a_root_path_that_a_proxy_removes_or_leaves(
    browser: Browser, serve: Callable[..., AbstractContextManager[Server]], *, keeps: bool
) -> None:
    prefix = "/tools/policy"
    with (
        serve("--root-path", prefix) as server,
        behind_prefix(server, prefix, keeps=keeps) as url,
        open_page(browser, f"{url}/") as page,
    ):
        ask(page, FACTS)
        assert verdict(page) == "V1 vLLM starts"
        page.get_by_role("link", name="Edit", exact=True).click()
        page.get_by_label("Rule", exact=True).fill("kv-connector-fallback")
        page.get_by_role("button", name="Open").click()
        expect(page.get_by_label("The rule", exact=True)).to_be_visible()


@pytest.mark.parametrize("path", ["/tools/policy", ""])
def test_paths_below_a_root_path_are_those_of_the_service(
    serve: Callable[..., AbstractContextManager[Server]], path: str
) -> None:
    with serve("--root-path", "/tools/policy") as server, server.client() as client:
        document = client.get(f"{path}/openapi.json").json()
        assert document["servers"] == [{"url": "/tools/policy"}]
        assert client.post(f"{path}/v1/decisions", json={"facts": {}}).status_code == 200
        assert client.get(f"{path}/v1/nothing").status_code == 404
        bare = client.get("/tools/policy", follow_redirects=False)
        assert (bare.status_code, bare.headers["location"]) == (307, "/tools/policy/")
