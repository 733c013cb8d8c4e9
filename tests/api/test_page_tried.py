"""Remedies that the page tries: in every form of a text, and what it says where it cannot make a change."""

from __future__ import annotations

import base64
import json
import re
import zlib
from typing import TYPE_CHECKING, Any, Final

import pytest
from playwright.sync_api import expect

from policy.intake.command.flags import LEVEL_OPTION, flags
from policy.intake.model.tables import releases_with_flags

from .browser import open_page

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from .conftest import Server

MODEL: Final = "acme/small"
CONFIG: Final = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 1000}
OPT: Final = {"architectures": ["OPTForCausalLM"], "model_type": "opt", "vocab_size": 1000}
TEXT: Final = "A command, a deployment, facts or a manifest"
CONNECTOR: Final = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
IMAGE: Final = "vllm/vllm-openai:v0.23.0"


def compose(**fields: Any) -> str:
    return json.dumps({"services": {"llm": {"image": IMAGE, "command": ["--model", MODEL], **fields}}})


def pod(**fields: Any) -> str:
    container = {"name": "vllm", "image": IMAGE, "args": ["--model", MODEL], **fields}
    return json.dumps(
        {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    )


def link(state: object) -> str:
    """The fragment of a state, as anyone can write one."""
    packed = zlib.compressobj(wbits=-15)
    data = packed.compress(json.dumps(state).encode()) + packed.flush()
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def address(server: Server, **state: Any) -> str:
    return f"{server.url}/#{link({'release': '0.23.0', 'configs': {MODEL: CONFIG}, **state})}"


def remedy(page: Page, words: str) -> Any:
    """The remedy with these words, once the decisions of all releases are there."""
    expect(page.locator(".strip")).to_have_attribute("aria-busy", "false")
    return page.locator(".remedies").filter(has_text=words).first


V1: Final = ("V1", "vLLM starts")
V2: Final = ("V2", "vLLM starts")
DBO: Final = ("drop --enable-dbo", ("V1", "vLLM will not start"), V2)
TO_V2: Final = (f"set {VARIABLE} to 1", V1, V2)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("text", "config", "tried"),
    [
        (f"vllm serve {MODEL} --enable_dbo --port 1", CONFIG, DBO),
        (json.dumps({"args": ["serve", MODEL, "--enable_db", "--port", "1"]}), CONFIG, DBO),
        (compose(command=f"--model {MODEL} --enable_dbo --port 1"), CONFIG, DBO),
        (compose(command=["--model", MODEL, "--enable_dbo"]), CONFIG, DBO),
        (pod(command=["sh", "-c", f"exec vllm serve {MODEL} --enable-dbo > log"], args=[]), CONFIG, DBO),
        (f"#!/bin/sh\nset -e\nexec vllm serve {MODEL} \\\n  --enable_dbo \\\n  --port 1\n", CONFIG, DBO),
        (f"docker run --gpus all {IMAGE} --model {MODEL} --enable_dbo", CONFIG, DBO),
        (f"vllm serve {MODEL}", OPT, TO_V2),
        (f"{VARIABLE}=0 vllm serve {MODEL}", OPT, TO_V2),
        (f"#!/bin/sh\nexport {VARIABLE}=0\nvllm serve {MODEL}\n", OPT, TO_V2),
        (compose(), OPT, TO_V2),
        (compose(environment=None), OPT, TO_V2),
        (compose(environment=["OTHER", f"{VARIABLE}=0"]), OPT, TO_V2),
        (compose(environment={"OTHER": None, VARIABLE: 0}), OPT, TO_V2),
        (compose(environment={"OTHER": "a"}), OPT, TO_V2),
        (pod(), OPT, TO_V2),
        (pod(env=[{"name": VARIABLE, "value": "0"}]), OPT, TO_V2),
    ],
)
def test_a_remedy_is_made_where_the_text_has_it(
    browser: Browser,
    server: Server,
    text: str,
    config: dict[str, Any],
    tried: tuple[str, tuple[str, str], tuple[str, str]],
) -> None:
    words, before, after = tried
    with open_page(browser, address(server, text=text, configs={MODEL: config})) as page:
        expect_verdict(page, *before)
        remedy(page, words).get_by_role("button", name="Try").click()
        expect(page.locator(".chip.tried")).to_have_text(re.compile(re.escape(words)))
        expect_verdict(page, *after)


def expect_verdict(page: Page, runner: str, starts: str) -> None:
    expect(page.locator(".verdict .runner, .verdict .starts")).to_have_text([runner, starts])


@pytest.mark.slow
def test_a_change_that_cannot_be_made_is_a_text_with_the_reason(browser: Browser, server: Server) -> None:
    script = f"#!/bin/sh\nFLAGS=--enable-dbo\nvllm serve {MODEL} $FLAGS\n"
    with open_page(browser, address(server, text=script)) as page:
        dropped = remedy(page, "drop --enable-dbo")
        expect(dropped).to_contain_text("It cannot be tried here: --enable-dbo is not a word of a command there")
        expect(dropped.get_by_role("button")).to_have_count(0)


@pytest.mark.slow
def test_a_link_tries_only_what_can_be_made(browser: Browser, server: Server) -> None:
    tried = [
        {"argument": "--enable-dbo", "to": None},
        {"argument": "--no-such-flag", "to": None},
        {"argument": "(a+)+$", "to": None},
        {"argument": "--enable-dbo", "variable": "A", "to": None},
        {"argument": "--" + "a" * 1000, "to": None},
        {"variable": "A B", "to": "1"},
        {"fact": "__proto__", "to": {"polluted": True}},
        {"field": "facts", "to": "1"},
        "text",
    ]
    state = {"text": f"vllm serve {MODEL} --enable-dbo {'a' * 40}!", "tried": tried, "release": ["0.23.0"], "step": 5}
    with open_page(browser, address(server, **state)) as page:
        chips = page.locator(".chips li")
        expect(chips).to_have_text(
            ["drop --enable-dbo ×", "drop --no-such-flag × not tried: --no-such-flag is not a word of a command there"]
        )
        page.get_by_role("button", name="Remove: drop --no-such-flag").click()
        expect(chips).to_have_count(1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("args", "places", "left"),
    [
        (
            ["--enable-dbo", "--enforce-eager", "--speculative-config", "{}"],
            (2, 3),
            ["--enable-dbo", "--enforce-eager"],
        ),
        (
            ["--max-num-seqs", "4", "--data-parallel-size", "1", "--data-parallel-size-local", "1"],
            (2, 4),
            ["--max-num-seqs", "4", "--data-parallel-size", "1"],
        ),
    ],
)
def test_a_change_that_is_undone_leaves_the_places_of_later_ones(
    browser: Browser, server: Server, args: list[str], places: tuple[int, int], left: list[str]
) -> None:
    flags = (args[0], args[-2])
    tried = [{"argument": flag, "at": f"args[{at}]", "to": None} for flag, at in zip(flags, places, strict=True)]
    text = json.dumps({"args": ["serve", MODEL, *args]})
    with open_page(browser, address(server, text=text, tried=tried)) as page:
        expect(page.locator(".chips .tried")).to_have_count(2)
        expect(page.locator(".verdict")).to_be_visible()
        with page.expect_request("**/v1/decisions") as sent:
            page.get_by_role("button", name=f"Undo: drop {flags[0]}").click()
        assert json.loads(sent.value.post_data or "")["deployment"]["args"] == ["serve", MODEL, *left]
        expect(page.locator(".chips .tried")).to_have_text([f"drop {flags[1]} ×"])


def test_the_page_knows_the_short_form_of_every_flag(root: Path) -> None:
    source = (root / "service/page/src/ask/flag_forms.ts").read_text()
    known, others = (
        {name: json.loads(forms) for name, forms in re.findall(r'^  \["(--[\w-]+)", (\[.*\])\],$', part, re.MULTILINE)}
        for part in source.split("OTHER_NAMES", 1)
    )
    long = {
        flag.name: [name]
        for release in releases_with_flags()
        for name, flag in flags(release).exact.items()
        if name.startswith("--") and "_" not in name and flag.constant is None and name != flag.name.replace("_", "-")
    }
    assert others == long
    spelled = {
        flag.name: [short]
        for release in releases_with_flags()
        for short, flag in flags(release).exact.items()
        if re.fullmatch(r"-\w+", short)
    }
    spelled["--compilation-config"].append(LEVEL_OPTION)
    assert known == {**spelled, "--optimization-level": [LEVEL_OPTION]}
