"""The command ``check-request``."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

FACTS = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}
DEPLOYMENT = {"vllm_version": "0.26.0", "facts": FACTS}
CONTAINER = {"name": "vllm", "image": "vllm/vllm-openai:v0.26.0", "args": ["--model", "q"]}
POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [CONTAINER]}}
QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
MANY = {"logit_bias": {str(token): 1 for token in range(1025)}}


def written(tmp_path: Path, name: str, document: Any) -> str:
    path = tmp_path / name
    path.write_text(json.dumps(document))
    return str(path)


@pytest.mark.parametrize(
    ("request_", "flags", "code", "verdict"),
    [
        ({"n": 1}, [], 0, "fine"),
        ({"n": 1}, ["--exit-code"], 0, "fine"),
        ({"n": 0}, [], 0, "refused"),
        ({"n": 0}, ["--exit-code"], 1, "refused"),
        (MANY, ["--exit-code"], 1, "kills-engine"),
        (MANY, ["--vllm-version", "0.28.0"], 0, "kills-engine"),
    ],
)
def test_a_request_of_a_file_or_of_standard_input_is_checked(
    call: Callable[..., Done], tmp_path: Path, request_: dict[str, Any], flags: list[str], code: int, verdict: str
) -> None:
    deployment, request = written(tmp_path, "d.json", DEPLOYMENT), written(tmp_path, "r.json", request_)
    done = call("check-request", deployment, "--request", request, *flags)
    assert (done.code, json.loads(done.out)["verdict"]) == (code, verdict)
    assert call("check-request", deployment, "--request", "-", *flags, stdin=json.dumps(request_)).out == done.out
    whole = call("check-request", "-", *flags, stdin=json.dumps({**DEPLOYMENT, "request": request_}))
    assert (whole.code, whole.out) == (code, done.out)


def test_each_engine_of_a_manifest_has_a_line(call: Callable[..., Done], tmp_path: Path) -> None:
    pod, config = written(tmp_path, "pod.json", POD), written(tmp_path, "q.json", QWEN)
    done = call("check-request", pod, "--request", "-", "--model-config", f"q={config}", stdin='{"n": 0}')
    assert [json.loads(line)["check"]["verdict"] for line in done.out.splitlines()] == ["refused"]
    without = call("check-request", pod, "--request", "-", stdin="{}")
    assert (without.code, "problem" in json.loads(without.out)) == (1, True)


def test_on_a_terminal_it_is_a_table(on_terminal: Callable[..., tuple[int, str]], tmp_path: Path) -> None:
    deployment = written(tmp_path, "d.json", {**DEPLOYMENT, "request": {"n": 0}})
    code, text = on_terminal("check-request", deployment)
    assert code == 0
    assert "n-too-small" in text


@pytest.mark.parametrize(
    ("document", "request_", "message"),
    [
        (DEPLOYMENT, None, "--request"),
        (DEPLOYMENT, {"temprature": 1}, "/request/temprature: unknown parameter `temprature`"),
        (DEPLOYMENT, [], "/request: expected an object"),
        ({"facts": {"x": 1}}, {}, "/facts/x: unknown field `x`"),
    ],
)
def test_wrong_usage_exits_with_2(
    call: Callable[..., Done], tmp_path: Path, document: Any, request_: Any, message: str
) -> None:
    flags = [] if request_ is None else ["--request", written(tmp_path, "r.json", request_)]
    done = call("check-request", written(tmp_path, "d.json", document), *flags)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
