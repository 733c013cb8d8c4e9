"""The variables that may make vLLM load a different model from the one in its arguments."""

from __future__ import annotations

from typing import Any

import pytest
from deployments import TODAY, Asking
from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

REDIRECT = "`VLLM_MODEL_REDIRECT_PATH` is set, so vLLM may load a different model from the one in its arguments; "
MODELSCOPE = "`VLLM_USE_MODELSCOPE` is set, so vLLM loads models from ModelScope, not from the hub; "
ENDPOINT = "vLLM loads models from a different hub than `https://huggingface.co`, by `{}`; "
UNKNOWN_ENDPOINT = "vLLM may load models from a different hub than `https://huggingface.co`, by `{}`, "
UNKNOWN_ENDPOINT += "whose value is not known; "
CHECK = "check that the given `config.json` is the one that vLLM loads"
CASES: list[tuple[str, str | None, list[str]]] = [
    ("VLLM_MODEL_REDIRECT_PATH", "/redirect.json", [REDIRECT + CHECK]),
    ("VLLM_MODEL_REDIRECT_PATH", None, [REDIRECT + CHECK]),
    ("VLLM_MODEL_REDIRECT_PATH", "", []),
    ("VLLM_USE_MODELSCOPE", "True", [MODELSCOPE + CHECK]),
    ("VLLM_USE_MODELSCOPE", "true", [MODELSCOPE + CHECK]),
    ("VLLM_USE_MODELSCOPE", None, [MODELSCOPE + CHECK]),
    ("VLLM_USE_MODELSCOPE", "1", []),
    ("VLLM_USE_MODELSCOPE", "False", []),
    ("VLLM_USE_MODELSCOPE", "", []),
    ("HF_ENDPOINT", "https://hf-mirror.com", [ENDPOINT.format("HF_ENDPOINT") + CHECK]),
    ("HF_ENDPOINT", "http://huggingface.co", [ENDPOINT.format("HF_ENDPOINT") + CHECK]),
    ("HF_ENDPOINT", "https://huggingface.co.evil", [ENDPOINT.format("HF_ENDPOINT") + CHECK]),
    ("HF_ENDPOINT", "https://user:hunter2secret@hub", [ENDPOINT.format("HF_ENDPOINT") + CHECK]),
    ("HF_ENDPOINT", None, [UNKNOWN_ENDPOINT.format("HF_ENDPOINT") + CHECK]),
    ("HF_ENDPOINT", "https://huggingface.co", []),
    ("HF_ENDPOINT", "https://huggingface.co/", []),
    ("HF_ENDPOINT", "", []),
    ("HUGGINGFACE_CO_STAGING", "1", [ENDPOINT.format("HUGGINGFACE_CO_STAGING") + CHECK]),
    ("HUGGINGFACE_CO_STAGING", "yes", [ENDPOINT.format("HUGGINGFACE_CO_STAGING") + CHECK]),
    ("HUGGINGFACE_CO_STAGING", None, [UNKNOWN_ENDPOINT.format("HUGGINGFACE_CO_STAGING") + CHECK]),
    ("HUGGINGFACE_CO_STAGING", "0", []),
    ("HUGGINGFACE_CO_STAGING", "", []),
]


def warnings(ask: Asking, **members: Any) -> list[str]:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    if "deployment" in members:
        members["deployment"]["model_configs"] = configs
    else:
        members["model_configs"] = configs
    asked = read_request_or_manifest({"vllm_version": "0.33.0", **members}, ask.policy.releases, "")
    if isinstance(asked, Manifest):
        ((_, request),) = requests_of(asked, ask.policy.releases)
    else:
        request = asked
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY).warnings


@table(("name", "value", "expected"), CASES)
def test_a_variable_that_may_load_another_model_gives_a_warning(
    ask: Asking, name: str, value: str | None, expected: list[str]
) -> None:
    manifest = {
        "services": {"a": {"entrypoint": ["vllm", "serve"], "command": ["dense"], "environment": {name: value}}}
    }
    assert warnings(ask, manifest=manifest) == expected
    if value is not None:
        assert warnings(ask, deployment={"args": ["--model", "dense"], "env": {name: value}}) == expected
        assert warnings(ask, deployment={"args": f"{name}={value} vllm serve dense"}) == expected


@pytest.mark.parametrize(
    "script",
    [
        *("export HF_ENDPOINT=https://hf-mirror.com; vllm serve dense", "env HF_ENDPOINT=http://hub vllm serve dense"),
        'bash -c "HF_ENDPOINT=http://hub exec vllm serve dense"',
    ],
)
def test_another_hub_that_a_script_sets_gives_a_warning(ask: Asking, script: str) -> None:
    assert warnings(ask, deployment={"args": script}) == [ENDPOINT.format("HF_ENDPOINT") + CHECK]


def test_another_hub_does_not_matter_for_a_model_in_a_folder(ask: Asking) -> None:
    config = ask.request(["--model", "dense"])["deployment"]["model_configs"]["dense"]
    deployment = {
        "args": ["--model", "/models/dense"],
        "env": {"HF_ENDPOINT": "http://hub"},
        "model_configs": {"/models/dense": config},
    }
    request = read_request_or_manifest({"vllm_version": "0.33.0", "deployment": deployment}, ask.policy.releases, "")
    assert isinstance(request, Request)
    assert ask.policy.decide(request, TODAY).warnings == []
