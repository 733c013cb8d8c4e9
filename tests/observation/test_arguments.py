"""The arguments that a log shows become the words of a command."""

from __future__ import annotations

import json

import pytest
from tables import table

from policy.observation.arguments import read_arguments
from policy.observation.python_value import NotAValue

TRANSFER = "KVTransferConfig(kv_connector='NixlConnector', kv_role='kv_both', kv_rank=None, hook=<function f at 0x1>)"


@table(
    ("text", "words"),
    [
        ("{}", []),
        ("{'model_tag': 'a/b', 'model': 'a/b'}", ["a/b"]),
        ("{'model': 'a/b', 'tensor_parallel_size': 2}", ["a/b", "--tensor-parallel-size=2"]),
        ("{'enforce_eager': True}", ["--enforce-eager"]),
        ("{'enable_prefix_caching': False}", ["--no-enable-prefix-caching"]),
        ("{'quantization': None}", []),
        ("{'dtype': torch.bfloat16}", ["--dtype=bfloat16"]),
        ("{'logits_processors': ['a:B', 'c:D']}", ["--logits-processors", "a:B", "c:D"]),
        (
            "{'lora_modules': [LoRAModulePath(name='a', path='/a', base_model_name=None)]}",
            ["--lora-modules", json.dumps({"name": "a", "path": "/a"})],
        ),
        ("{'served_model_name': ['a', 'b']}", ["--served-model-name", "a", "b"]),
        (
            "{'speculative_config': {'method': 'mtp', 'num_speculative_tokens': 1}}",
            ["--speculative-config", json.dumps({"method": "mtp", "num_speculative_tokens": 1})],
        ),
        (
            "{'compilation_config': {'mode': None, 'cudagraph_mode': <CUDAGraphMode.FULL: 2>}}",
            ["--compilation-config", json.dumps({"cudagraph_mode": "FULL"})],
        ),
        # fields that vLLM computes itself
        (
            "{'compilation_config': {'mode': 3, 'traced_files': [], 'pass_config': {'enable_sp': True, 'x': 1}}}",
            ["--compilation-config", json.dumps({"mode": 3, "pass_config": {"enable_sp": True}})],
        ),
        ("{'config': 'serve.yaml', 'subparser': 'serve', 'made_up': 1}", []),
        ("{'api_key': ['sk-abcdefgh'], 'hf_token': 'hf_abcdefgh', 'max_model_len': 512}", ["--max-model-len=512"]),
        ("{'api_key': '***', 'hf_token': '***'}", []),
    ],
)
def test_arguments_become_words(text: str, words: list[str]) -> None:
    read = read_arguments(text, "0.26.0")
    assert (read.words, read.warnings) == (["serve", *words], [])


def test_an_object_that_vllm_hides_is_there() -> None:
    read = read_arguments("{'watermark_config': '***'}", "0.30.0")
    assert (read.words, read.warnings) == (
        ["serve", "--watermark-config", "{}"],
        ["the log does not show the values of `watermark_config`"],
    )


def test_what_the_log_does_not_show_is_a_warning() -> None:
    read = read_arguments(f"{{'kv_transfer_config': {TRANSFER}, 'middleware': [<object object at 0x1>]}}", "0.26.0")
    assert read.words == [
        "serve",
        "--kv-transfer-config",
        json.dumps({"kv_connector": "NixlConnector", "kv_role": "kv_both"}),
    ]
    (warning,) = read.warnings
    assert warning.startswith("the log does not show the values of `kv_transfer_config.hook`")


@pytest.mark.parametrize("text", ["", "[1]", "{'a': 1", "None"])
def test_another_text_is_refused(text: str) -> None:
    with pytest.raises(NotAValue):
        read_arguments(text, "0.26.0")
