"""Requests of about 1,000 bytes, all different, as a deployment controller would send them.

Owns the documents of every part of the benchmark. A stream of documents is endless and depends only on its seed. Values
are drawn as they occur in real fleets, so that most deployments are ordinary and some are unusual. The report has the
number of conditions that hold for a document.
"""

from __future__ import annotations

from itertools import islice
from random import Random
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import Encoder

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Iterator, Sequence

Choices = tuple[Any, ...]

encode: Final = Encoder().encode


def _mostly(usual: Any, *others: Any, of: int = 20) -> Choices:
    """Values to draw from uniformly: each of ``others`` once in ``of`` draws, else ``usual``."""
    return (usual,) * (of - len(others)) + others


DENSE: Final[dict[str, Any]] = {
    "is_moe": False,
    "is_hybrid": False,
    "has_inner_state": False,
    "is_attention_free": False,
    "use_mla": False,
    "is_multimodal_model": False,
    "is_encoder_decoder": False,
}

MODELS: Final[tuple[dict[str, Any], ...]] = (
    *(
        {"architectures": [name], **DENSE}
        for name in ("Qwen3ForCausalLM", "LlamaForCausalLM", "MistralForCausalLM") * 4
    ),
    *(
        {"architectures": [name], **DENSE}
        for name in ("Qwen2ForCausalLM", "OPTForCausalLM", "Phi3ForCausalLM", "Gemma2ForCausalLM", "Olmo2ForCausalLM")
    ),
    *(
        {"architectures": [name], **DENSE, "is_moe": True}
        for name in ("Qwen3MoeForCausalLM", "MixtralForCausalLM", "GptOssForCausalLM")
    ),
    *(
        {"architectures": [name], **DENSE, "is_moe": True, "use_mla": True}
        for name in ("DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM")
    ),
    {"architectures": ["Qwen3NextForCausalLM"], **DENSE, "is_moe": True, "is_hybrid": True, "has_inner_state": True},
    {"architectures": ["NemotronHForCausalLM"], **DENSE, "is_hybrid": True, "has_inner_state": True},
    {"architectures": ["MambaForCausalLM"], **DENSE, "has_inner_state": True, "is_attention_free": True},
    {"architectures": ["Qwen2_5_VLForConditionalGeneration"], **DENSE, "is_multimodal_model": True},
    {"architectures": ["Gemma3ForConditionalGeneration"], **DENSE, "is_multimodal_model": True},
    {
        "architectures": ["WhisperForConditionalGeneration"],
        **DENSE,
        "is_multimodal_model": True,
        "is_encoder_decoder": True,
    },
)
DRAFTS: Final = ("EagleLlamaForCausalLM", "Eagle3LlamaForCausalLM", "Qwen3ForCausalLM", "DeepSeekMTPModel")
METHODS: Final = _mostly(
    "eagle3",
    "eagle3",
    "eagle",
    "eagle",
    "mtp",
    "mtp",
    "ngram",
    "ngram_gpu",
    "draft_model",
    "medusa",
    "suffix",
    "dflash",
    "dspark",
)
CONNECTORS: Final = (
    "NixlConnector",
    "LMCacheConnectorV1",
    "OffloadingConnector",
    "MultiConnector",
    "SharedStorageConnector",
    "MooncakeConnector",
)

FieldChoices = tuple[tuple[str, Choices], ...]

MODEL: Final[FieldChoices] = (
    ("runner_type", _mostly("generate", "pooling")),
    ("is_quantized", _mostly(False, True, True, True)),
    ("logprobs_mode", _mostly("raw_logprobs", "processed_logprobs", "raw_logits", of=30)),
    ("enable_prompt_embeds", _mostly(False, True, of=30)),
    ("enable_return_routed_experts", _mostly(False, True, of=40)),
)
PARALLEL: Final[FieldChoices] = (
    ("tensor_parallel_size", (1, 1, 2, 2, 4, 4, 8, 8, 16)),
    ("pipeline_parallel_size", _mostly(1, 2, 2, 3, 4, 8, of=12)),
    ("prefill_context_parallel_size", _mostly(1, 2, 4, of=40)),
    ("decode_context_parallel_size", _mostly(1, 2, 4, 8)),
    ("distributed_executor_backend", _mostly("mp", "ray", "ray", "ray", "uni", "external_launcher")),
    ("enable_dbo", _mostly(False, True)),
    ("ubatch_size", _mostly(0, 2, 4, of=30)),
)
CACHE: Final[FieldChoices] = (
    ("mamba_cache_mode", _mostly("none", "align", "all")),
    ("kv_sharing_fast_prefill", _mostly(False, True, of=30)),
)
COMPILATION: Final[FieldChoices] = (
    ("mode", _mostly("VLLM_COMPILE", "VLLM_COMPILE", "NONE", "STOCK_TORCH_COMPILE")),
    (
        "cudagraph_mode",
        _mostly("FULL_AND_PIECEWISE", "PIECEWISE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "NONE", of=12),
    ),
)
PLATFORM: Final[FieldChoices] = (("has_triton", _mostly(True, False, of=40)), ("is_rocm", _mostly(False, True, True)))
SPECULATIVE: Final[FieldChoices] = (("method", METHODS), ("parallel_drafting", _mostly(False, True, of=12)))
CONNECTOR: Final[FieldChoices] = (("kv_connector", CONNECTORS), ("kv_role", ("kv_both", "kv_producer", "kv_consumer")))
VARIABLE: Final = (None,) * 7 + ("0", "1", "1")


def documents(seed: int, versions: Sequence[str | None]) -> Iterator[dict[str, Any]]:
    """An endless sequence of requests, each for one of ``versions``; ``None`` leaves the version out."""
    random = Random(seed).random  # every run must have the same documents
    while True:
        version = versions[int(random() * len(versions))]
        document: dict[str, Any] = {} if version is None else {"vllm_version": version}
        document["request_id"] = f"deployment-{int(random() * 16**16):016x}"
        document["facts"] = _facts(random)
        yield document


def different(
    seed: int, count: int, versions: Sequence[str | None], key: Callable[[dict[str, Any]], Hashable]
) -> list[dict[str, Any]]:
    """``count`` documents, each with another ``key``."""
    seen: set[Hashable] = set()

    def is_new(document: dict[str, Any]) -> bool:
        before = len(seen)
        seen.add(key(document))
        return len(seen) > before

    return list(islice(filter(is_new, documents(seed, versions)), count))


def _facts(random: Callable[[], float]) -> dict[str, Any]:
    def drawn(fields: FieldChoices) -> dict[str, Any]:
        return {name: choices[int(random() * len(choices))] for name, choices in fields}

    facts: dict[str, Any] = {
        "model_config": {**MODELS[int(random() * len(MODELS))], **drawn(MODEL)},
        "parallel_config": drawn(PARALLEL),
        "scheduler_config": {"async_scheduling": random() < 0.8},
        "cache_config": drawn(CACHE),
        "compilation_config": {**drawn(COMPILATION), "pass_config": {"enable_sp": random() < 0.05}},
        "platform": drawn(PLATFORM),
        "plugins": {"logits_processors": ["site_bias"] if random() < 0.03 else []},
    }
    variable = VARIABLE[int(random() * len(VARIABLE))]
    if variable is not None:
        facts["env"] = {"VLLM_USE_V2_MODEL_RUNNER": variable}
    if random() < 0.4:
        facts["speculative_config"] = {
            **drawn(SPECULATIVE),
            "draft_model_config": {"architectures": [DRAFTS[int(random() * len(DRAFTS))]]},
        }
    if random() < 0.25:
        facts["kv_transfer_config"] = drawn(CONNECTOR)
    for name, share in (("lora_config", 0.15), ("reasoning_config", 0.1), ("ec_transfer_config", 0.03)):
        if random() < share:
            facts[name] = {}
    return facts
