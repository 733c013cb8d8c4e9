"""The time to derive a deployment's facts, measured in this process.

It is measured for new and for repeated deployments, and for whole requests.

Owns the deployments: arguments as controllers write them, with a model's ``config.json``. All of them differ in both.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from itertools import islice
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import Encoder

from bench import cores
from bench.inprocess import time_calls
from policy.parser.jsontext import read_json
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load as load_rules
from policy.rules.loader import default_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policy.request.request import Request

encode: Final = Encoder().encode
TODAY: Final = date(2026, 1, 1)
WARM_UP: Final = 100
REPEATED_DEPLOYMENTS: Final = 100
"""How many deployments are repeated; all of them fit the cache."""

LAYERS: Final = {
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "hidden_size": 4096,
}
TEXT: Final = {
    **LAYERS,
    "attention_bias": False,
    "attention_dropout": 0.0,
    "bos_token_id": 151643,
    "eos_token_id": 151645,
    "hidden_act": "silu",
    "use_cache": True,
    "initializer_range": 0.02,
    "intermediate_size": 12288,
    "rms_norm_eps": 1e-06,
    "rope_scaling": None,
    "rope_theta": 1000000,
    "vocab_size": 151936,
    "tie_word_embeddings": False,
    "torch_dtype": "bfloat16",
    "transformers_version": "4.51.0",
    "sliding_window": None,
}
MODELS: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("Qwen/Qwen3-8B", {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **TEXT}),
    ("meta-llama/Llama-3.1-8B-Instruct", {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **TEXT}),
    ("mistralai/Mistral-7B-Instruct-v0.3", {"architectures": ["MistralForCausalLM"], "model_type": "mistral", **TEXT}),
    (
        "Qwen/Qwen3-30B-A3B",
        {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 128, **TEXT},
    ),
    ("Qwen/Qwen3-Embedding-8B", {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **TEXT}),
)
FLAGS: Final = (
    ["--enable-prefix-caching"],
    ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
    ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'],
    ["--enable-lora", "--max-loras", "4"],
    ["--reasoning-parser", "deepseek_r1"],
    ["-cc.cudagraph_mode=PIECEWISE"],
    ["--enforce-eager"],
    ["--no-enable-prefix-caching"],
    ["--max-num-seqs", "256"],
    ["--enable-chunked-prefill"],
    ["--served-model-name", "chat"],
    ["--trust-remote-code"],
    ["--dtype", "bfloat16"],
    ["--kv-cache-dtype", "fp8"],
    ["--max-num-batched-tokens", "8192"],
    ["--enable-auto-tool-choice", "--tool-call-parser", "hermes"],
)


@dataclass(frozen=True, slots=True)
class DerivationTimes:
    """Microseconds to derive a deployment's facts, and to answer a whole request, from text to text.

    Both are measured for new deployments and for those that were ``seen`` before.
    """

    count: int
    size: float
    new: float
    seen: float
    whole_new: float
    whole_seen: float


def deployments(seed: int, releases: Sequence[str]) -> Iterator[dict[str, Any]]:
    """An endless sequence of requests whose arguments and models' configurations all differ."""
    random = Random(seed)
    number = 0
    while True:
        number += 1
        name, config = random.choice(MODELS)
        flags = [word for words in random.sample(FLAGS, 2) for word in words]
        sizes = [
            "-tp",
            random.choice("1248"),
            "--max-model-len",
            str(8192 + number),
            "--gpu-memory-utilization",
            "0.9",
            "--port",
            "8000",
        ]
        deployment = {
            "args": ["serve", name, *sizes, *flags],
            "env": {},
            "model_configs": {name: {**config, "max_position_embeddings": 32768 + number}},
        }
        yield {"vllm_version": random.choice(releases), "deployment": deployment}


def derivation_times(seed: int, count: int, rounds: int) -> DerivationTimes:
    """Measure the processor times, each the median of the rounds.

    The repeated deployments have a policy of their own, whose cache has all of them before the first round: otherwise
    some would be derived again in each round, and the times would depend on how many deployments are measured.
    """
    rules = load_rules(read_folder(default_folder()))
    fresh, filled = Policy(rules), Policy(rules)
    stream = deployments(seed, (fresh.releases.default, fresh.releases.default, fresh.releases.known[-1]))
    found = [encode(document) for document in islice(stream, count)]
    repeated = (found[:REPEATED_DEPLOYMENTS] * (count // REPEATED_DEPLOYMENTS + 1))[:count]

    def request(body: bytes) -> Request:
        return read_request(read_json(body), fresh.releases)

    def answer(policy: Policy) -> Callable[[bytes], object]:
        return lambda body: policy.answer(request(body), TODAY).json

    def unchanged(body: bytes) -> bytes:
        return body

    for policy, first in ((fresh, found[:WARM_UP]), (filled, found[:REPEATED_DEPLOYMENTS])):
        for body in first:
            answer(policy)(body)
    figures: list[list[float]] = [[], [], [], []]
    measurements: tuple[tuple[Callable[[Any], object], Callable[[bytes], object], Sequence[bytes]], ...] = (
        (fresh.intake, request, found[WARM_UP:]),
        (filled.intake, request, repeated),
        (answer(fresh), unchanged, found[WARM_UP:]),
        (answer(filled), unchanged, repeated),
    )
    with cores.pinned(cores.SERVER):
        for _ in range(rounds):
            for figure, (call, prepare, bodies) in zip(figures, measurements, strict=True):
                figure.append(time_calls(call, prepare, bodies))
    return DerivationTimes(count, sum(map(len, found)) / count, *map(median, figures))
