"""The variables that may make vLLM load another model than its arguments name."""

from __future__ import annotations

from typing import Any

import pytest
from deployments import TODAY, Asking

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

REDIRECT = "`VLLM_MODEL_REDIRECT_PATH` is set, so vLLM may load another model than the arguments name; "
MODELSCOPE = "`VLLM_USE_MODELSCOPE` is set, so vLLM loads models from ModelScope, not from the hub; "
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


@pytest.mark.parametrize(("name", "value", "expected"), CASES)
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
