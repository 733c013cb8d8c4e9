"""Values that a flag takes in other releases only: refused by a stated release, a likely refusal by an assumed one."""

from __future__ import annotations

import cProfile
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.errors import RequestInvalid
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

REFUSES = "vLLM 0.23.0 refuses {}) and would not start; {} take it"
NO_VALUE = "`--enable-chunked-prefill` takes no value, so `--enable-chunked-prefill=false` is refused"


def read(ask: Asking, args: list[str], tag: str) -> Request | RequestInvalid:
    container = {"image": f"vllm/vllm-openai:{tag}", "args": ["--model", "dense", *args]}
    document = {
        "manifest": {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}},
        "model_configs": ask.request(["--model", "dense"])["deployment"]["model_configs"],
    }
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    return request


def warnings_of(ask: Asking, args: list[str]) -> list[str]:
    request = read(ask, args, "latest")
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, date(2026, 1, 1))
    assert decision.starts
    return [warning for warning in decision.warnings if "the default release" not in warning]


@pytest.mark.parametrize(
    ("args", "what", "span"),
    [
        (
            ["--enable-chunked-prefill=false"],
            "`false` for `--enable-chunked-prefill` (args[2]",
            "0.5.3 to 0.8.4",
        ),
        (["--enable-chunked-prefill", "False"], "`False` for `--enable-chunked-prefill` (args[3]", "0.5.3 to 0.8.4"),
        (["--limit-mm-per-prompt", "image=2"], "`image=2` for `--limit-mm-per-prompt` (args[3]", "0.5.5 to 0.8.4"),
        (["--compilation-config", "3"], "`3` for `--compilation-config` (args[3]", "0.9.0 to 0.9.1"),
    ],
)
def test_an_assumed_release_refuses_it_only_likely(ask: Asking, args: list[str], what: str, span: str) -> None:
    assert warnings_of(ask, args) == [REFUSES.format(what, span)]


@pytest.mark.parametrize(("level", "mode"), [("0", "NONE"), ("3", "VLLM_COMPILE")])
def test_a_level_of_compilation_is_the_mode_of_the_same_number(ask: Asking, level: str, mode: str) -> None:
    request = read(ask, ["--compilation-config", level], "latest")
    assert isinstance(request, Request)
    facts: Any = ask.policy.decide(request, date(2026, 1, 1)).facts
    assert facts["compilation_config.mode"].value == mode


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--enable-chunked-prefill=false"], NO_VALUE),
        (["--enable-chunked-prefill", "false"], "unexpected argument `false`"),
        (["--compilation-config", "3"], "`--compilation-config`: expected a JSON object"),
        (["--limit-mm-per-prompt", "image=2"], "`--limit-mm-per-prompt`: "),
    ],
)
def test_a_stated_release_refuses_it(ask: Asking, args: list[str], message: str) -> None:
    request = read(ask, args, "v0.23.0")
    assert isinstance(request, Request)
    with pytest.raises(RequestInvalid) as raised:
        ask.policy.decide(request, date(2026, 1, 1))
    assert [fault.message[: len(message)] for fault in raised.value.faults] == [message]


@table(
    ("args", "message"),
    [
        (["--enable-prefix-caching=false"], "`--enable-prefix-caching` takes no value"),  # no release takes one
        (["--no-enable-chunked-prefill=true"], "`--no-enable-chunked-prefill` takes no value"),  # nor here
        (["--no-enable-chunked-prefill=false"], "`--no-enable-chunked-prefill` takes no value"),
        (["--no-enable-chunked-prefill", "true"], "unexpected argument `true`"),
        (["--max-num-seqs", "many"], "`--max-num-seqs`: expected a whole number"),
        (["--runner", "pool"], "`--runner`: `pool` is not legal"),
        (["--compilation-config", "4"], "`--compilation-config`: expected a JSON object"),
    ],
)
def test_a_value_that_no_release_takes_is_a_fault(ask: Asking, args: list[str], message: str) -> None:
    request = read(ask, args, "latest")
    assert isinstance(request, Request)
    with pytest.raises(RequestInvalid) as raised:
        ask.policy.decide(request, date(2026, 1, 1))
    assert [fault.message[: len(message)] for fault in raised.value.faults] == [message]


INVALID_JSON = '{"a": [' + "1, " * 1000


@table(
    ("flag", "text", "parses"),
    [
        ("--kv-transfer-config", INVALID_JSON, 1),  # facts depend on it, so no other release's value is known
        ("--compilation-config", INVALID_JSON, 1),
        ("--speculative-config", INVALID_JSON, 1),
        ("--kernel-config", INVALID_JSON, 2),  # eleven rows
        ("--kernel-config", '{"no_such_field": 1}', 11),  # each with other fields
        ("--limit-mm-per-prompt", INVALID_JSON, 2),  # of two kinds that do not take any text
    ],
)
def test_a_refused_text_is_parsed_once_in_each_form(ask: Asking, flag: str, text: str, parses: int) -> None:
    request = read(ask, [flag, text], "latest")
    assert isinstance(request, Request)

    def decide() -> None:
        with pytest.raises(RequestInvalid):
            ask.policy.decide(request, date(2026, 1, 1))

    profile = cProfile.Profile()
    profile.runcall(decide)
    counts = [entry.callcount for entry in profile.getstats() if getattr(entry.code, "co_name", "") == "parse_value"]
    assert counts == [parses]
