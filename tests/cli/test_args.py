"""`runner-policy args`: vLLM's flags and environment variables by release."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done


def shown(call: Callable[..., Done], *arguments: str) -> Any:
    done = call("args", *arguments, "--json")
    assert (done.code, done.err) == (0, "")
    return json.loads(done.out)


@pytest.mark.parametrize("name", ["--max-model-len", "max_model_len", "max-model-len"])
def test_a_flag_is_shown_by_any_of_its_spellings(call: Callable[..., Done], name: str) -> None:
    (item,) = shown(call, "show", name)["items"]
    assert (item["name"], item["kind"], item["changes"][-1]["until"]) == ("--max-model-len", "argument", None)


def test_an_unknown_name_is_refused_with_a_suggestion(call: Callable[..., Done]) -> None:
    done = call("args", "show", "VLLM_ATENTION_BACKEND")
    assert (done.code, done.out) == (2, "")
    assert "did you mean `VLLM_ATTENTION_BACKEND`?" in done.err


def test_the_names_of_a_release_are_listed(call: Callable[..., Done]) -> None:
    names = {item["name"] for item in shown(call, "list", "--release", "0.33.0")["items"]}
    assert {"--max-model-len", "VLLM_USE_V2_MODEL_RUNNER"} <= names
    assert "VLLM_USE_V1" not in names


def test_two_releases_are_compared(call: Callable[..., Done]) -> None:
    found = shown(call, "diff", "0.32.0", "0.33.0")
    assert ("--watchdog-config" in found["added"], "VLLM_ROCM_MONO_DECODE" in found["removed"]) == (True, True)


@pytest.mark.parametrize("arguments", [("list", "--release", "0.99.0"), ("diff", "0.33.0", "x")])
def test_an_unknown_release_is_refused(call: Callable[..., Done], arguments: tuple[str, ...]) -> None:
    done = call("args", *arguments)
    assert (done.code, done.out) == (2, "")
    assert arguments[-1] in done.err
