"""Arguments as people write them for a published model: lengths, parallel sizes, parsers, quantization, former flags.

Owns what goes with a model: a model with custom code mostly gets `--trust-remote-code`, one that pools a pooler, one
with images their limits. Not here: features that are drawn for any model (`draw`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from random import Random

Json = dict[str, Any]
Words = list[str]

VALUES: Final[tuple[tuple[int, str, tuple[Any, ...]], ...]] = (
    (16, "--max-model-len", (2048, 4096, 8192, 16384, 32768, 32768, 65536, 131072, 131072, 262144, "32k", "auto")),
    (14, "--tensor-parallel-size", (1, 2, 2, 4, 4, 8, 3, 6)),
    (12, "--gpu-memory-utilization", (0.8, 0.85, 0.9, 0.92, 0.95)),
    (6, "--max-num-seqs", (8, 64, 128, 256, 512)),
    (6, "--max-num-batched-tokens", (2048, 4096, 8192, 16384, 32768)),
    (6, "--dtype", ("auto", "bfloat16", "half", "float16", "float32")),
    (6, "--kv-cache-dtype", ("auto", "fp8", "fp8", "fp8_e4m3", "fp8_e5m2", "bfloat16")),
    (6, "--served-model-name", ("chat", "my-model")),
    (5, "--port", (8000, 8080)),
    (5, "--host", ("0.0.0.0",)),
    (3, "--pipeline-parallel-size", (2,)),
    (3, "--data-parallel-size", (2, 4, 8)),
    (3, "--load-format", ("auto", "safetensors", "runai_streamer", "dummy", "gguf", "bitsandbytes", "mistral")),
    (1, "--swap-space", (4, 16)),
    (3, "--generation-config", ("vllm", "auto")),
    (3, "--seed", (0, 42)),
    (2, "--block-size", (16, 32, 64, 128)),
    (2, "--tokenizer-mode", ("auto", "mistral", "slow", "hf")),
    (2, "--config-format", ("auto", "hf")),
    (2, "--model-impl", ("auto", "vllm", "transformers")),
    (2, "--download-dir", ("/models",)),
    (2, "--revision", ("main",)),
    (2, "--api-key", ("token",)),
    (2, "--uvicorn-log-level", ("warning", "info")),
    (2, "--chat-template-content-format", ("auto", "openai", "string")),
    (2, "--attention-backend", ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "XFORMERS", "FLASHMLA", "CUTLASS_MLA")),
    (2, "--all2all-backend", ("pplx", "deepep_low_latency", "deepep_high_throughput", "allgather_reducescatter")),
    (2, "--mamba-ssm-cache-dtype", ("float32", "auto")),
    (2, "--max-logprobs", (20, 100)),
    (2, "--cpu-offload-gb", (0, 10)),
    (2, "--distributed-executor-backend", ("ray", "mp", "ray", "uni")),
    (1, "--max-num-partial-prefills", (1, 2)),
    (1, "--long-prefill-token-threshold", (2048, 8192)),
    (1, "--max-cudagraph-capture-size", (256, 512)),
    (1, "--data-parallel-backend", ("ray", "mp")),
    (1, "--data-parallel-size-local", (1, 2, 4)),
    (1, "--data-parallel-rank", (0, 1)),
    (1, "--scheduling-policy", ("priority", "fcfs")),
    (1, "--prefix-caching-hash-algo", ("sha256", "builtin", "xxhash")),
    (1, "--kv-offloading-backend", ("native", "lmcache")),
    (1, "--otlp-traces-endpoint", ("http://otel:4317",)),
    (1, "--collect-detailed-traces", ("all",)),
    (1, "--decode-context-parallel-size", (2, 4)),
    (1, "--nnodes", (2,)),
    (1, "--stream-interval", (1, 4)),
    (1, "--api-server-count", (1, 2)),
    (1, "--logprobs-mode", ("raw_logprobs", "processed_logits")),
    (1, "--mm-encoder-attn-backend", ("FLASH_ATTN", "TORCH_SDPA")),
)
SWITCHES: Final = (
    (8, "--enable-prefix-caching"),
    (6, "--enable-chunked-prefill"),
    (6, "--enforce-eager"),
    (1, "--disable-log-requests"),
    (3, "--disable-log-stats"),
    (3, "--enable-expert-parallel"),
    (3, "--no-enable-prefix-caching"),
    (3, "--async-scheduling"),
    (2, "--no-async-scheduling"),
    (2, "--enable-log-requests"),
    (2, "--enable-log-outputs"),
    (2, "--enable-sleep-mode"),
    (2, "--disable-custom-all-reduce"),
    (2, "--enable-prompt-tokens-details"),
    (2, "--no-enable-chunked-prefill"),
    (2, "--enable-eplb"),
    (1, "--disable-hybrid-kv-cache-manager"),
    (1, "--enable-dbo"),
    (1, "--use-v2-block-manager"),
    (1, "--enable-reasoning"),
    (1, "--skip-tokenizer-init"),
    (1, "--data-parallel-hybrid-lb"),
    (1, "--data-parallel-external-lb"),
    (1, "--enable-prompt-embeds"),
    (1, "--calculate-kv-scales"),
)
FORMER_FLAGS: Final = (
    ["--num-scheduler-steps", "8"],
    ["--guided-decoding-backend", "xgrammar"],
    ["--device", "cuda"],
    ["--max-seq-len-to-capture", "8192"],
    ["--rope-scaling", '{"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}'],
    ["--task", "embed"],
    ["--task", "generate"],
    ["--speculative-model", "[ngram]", "--num-speculative-tokens", "5"],
    ["--disable-mm-preprocessor-cache"],
    ["--cuda-graph-sizes", "512"],
    ["--override-pooler-config", '{"pooling_type": "MEAN"}'],
    ["--compilation-config", "3"],
    ["--compilation-config", '{"level": 3}'],
    ["-O3"],
)
QUANTIZATIONS: Final = (
    *("fp8", "fp8", "fp8", "awq", "gptq", "awq_marlin", "gptq_marlin", "bitsandbytes", "compressed-tensors"),
    *("modelopt", "modelopt_fp4", "mxfp4", "experts_int8", "quark", "torchao", "gguf", "marlin", "deepspeedfp", "int8"),
)
TOOL_PARSERS: Final = (
    *("hermes", "hermes", "llama3_json", "mistral", "deepseek_v3", "glm45", "qwen3_coder", "kimi_k2", "pythonic"),
    *("openai", "granite", "internlm", "jamba", "minimax_m2", "qwen25", "llama4_pythonic", "deepseek_v31"),
)
REASONING_PARSERS: Final = ("deepseek_r1", "qwen3", "glm45", "openai_gptoss", "mistral", "granite", "kimi", "gptoss")
POOLERS: Final[tuple[Json, ...]] = (
    {"pooling_type": "MEAN"},
    {"pooling_type": "CLS", "normalize": True},
    {"pooling_type": "LAST", "softmax": False},
    {"seq_pooling_type": "MEAN", "use_activation": True},
    {"enable_chunked_processing": True, "max_embed_len": 30000},
    {"task": "embed", "dimensions": 256},
)
OVERRIDES: Final[tuple[Json, ...]] = (
    {"max_position_embeddings": 65536},
    {"rope_scaling": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32768}},
    {"is_matryoshka": True},
    {"matryoshka_dimensions": [128, 256]},
    {"architectures": ["Qwen3ForSequenceClassification"], "classifier_from_token": ["no", "yes"]},
    {"text_config": {"max_position_embeddings": 65536}},
)
EPLB: Final[tuple[Json, ...]] = (
    {"window_size": 1000, "step_interval": 3000, "num_redundant_experts": 32},
    {"num_redundant_experts": 0, "log_balancedness": True},
    {"use_async": True},
)
CONNECTORS: Final[tuple[Json, ...]] = (
    {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
    {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"},
    {"kv_connector": "LMCacheConnector", "kv_role": "kv_both"},
    {"kv_connector": "SharedStorageConnector", "kv_role": "kv_both"},
    {"kv_connector": "P2pNcclConnector", "kv_role": "kv_producer", "kv_rank": 0, "kv_parallel_size": 2},
    {"kv_connector": "MooncakeConnector", "kv_role": "kv_consumer"},
    {"kv_connector": "OffloadingConnector", "kv_role": "kv_both"},
    {"kv_connector": "NixlConnector"},
    {"kv_connector": "NixlConnector", "kv_role": "both"},
    {"kv_connector": "NixlConnector", "kv_role": "kv_both", "kv_load_failure_policy": "fail"},
)
METHODS: Final[tuple[Json, ...]] = (
    {"method": "mtp", "num_speculative_tokens": 1},
    {"method": "mtp", "num_speculative_tokens": 3},
    {"method": "deepseek_mtp", "num_speculative_tokens": 1},
    {"method": "qwen3_next_mtp", "num_speculative_tokens": 2},
    {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_max": 4},
    {"method": "ngram", "num_speculative_tokens": 4, "prompt_lookup_min": 6, "prompt_lookup_max": 4},
    {"method": "eagle3", "num_speculative_tokens": 3},
    {"num_speculative_tokens": 3},
    {"method": "suffix"},
)
IMAGES: Final = ('{"image": 2}', '{"image": 4, "video": 0}', "image=2", '{"image": {"count": 2, "width": 512}}')
GENERATED_KINDS: Final = (
    (7, "tools"),
    (5, "reasoning"),
    (7, "quantization"),
    (2, "old"),
    (4, "transfer"),
    (5, "speculation"),
    (2, "overrides"),
    (2, "eplb"),
    (3, "lora"),
    (2, "generation"),
    (2, "structured"),
    (2, "nodes"),
)
WEIGHTED_FEATURES: Final = [
    *((weight, "value", index) for index, (weight, _, _) in enumerate(VALUES)),
    *((weight, "switch", index) for index, (weight, _) in enumerate(SWITCHES)),
    *((weight, kind, 0) for weight, kind in GENERATED_KINDS),
]


def arguments(random: Random, config: Json) -> list[Words]:
    """The arguments of a published model, as groups of words whose order does not matter."""
    count = random.choice((0, 1, 2, 2, 3, 3, 4, 5, 6, 8))
    drawn = random.choices(WEIGHTED_FEATURES, [weight for weight, _, _ in WEIGHTED_FEATURES], k=count)
    groups = [_words(random, kind, index) for _, kind, index in drawn]
    if random.random() < (0.75 if "auto_map" in config else 0.1):
        groups.append(["--trust-remote-code"])
    architecture = config["architectures"][0]
    if not architecture.endswith(("ForCausalLM", "ForConditionalGeneration", "LMHeadModel")) and random.random() < 0.4:
        groups.append(random.choice((["--runner", "pooling"], ["--pooler-config", json.dumps(random.choice(POOLERS))])))
    elif random.random() < 0.03:
        groups.append(["--runner", "pooling", "--convert", random.choice(("embed", "classify", "reward"))])
    if any(key.startswith(("vision", "audio")) for key in config) and random.random() < 0.4:
        groups.append(_multimodal(random))
    return list({group[0]: group for group in groups}.values())


def _words(random: Random, kind: str, index: int) -> Words:
    match kind:
        case "value":
            _, flag, values = VALUES[index]
            return [flag, str(random.choice(values))]
        case "switch":
            return [SWITCHES[index][1]]
        case "tools":
            parser = ["--tool-call-parser", random.choice(TOOL_PARSERS)]
            whole = ["--enable-auto-tool-choice", *parser]
            return random.choice((whole, whole, whole, whole, whole[:1], parser))
        case "reasoning":
            return ["--reasoning-parser", random.choice(REASONING_PARSERS)]
        case "quantization":
            return ["--quantization", random.choice(QUANTIZATIONS)]
        case "old":
            return list(random.choice(FORMER_FLAGS))
        case "overrides":
            return ["--hf-overrides", json.dumps(random.choice(OVERRIDES))]
        case "transfer":
            return ["--kv-transfer-config", json.dumps(random.choice(CONNECTORS))]
        case "speculation":
            return ["--speculative-config", json.dumps(random.choice(METHODS))]
        case "eplb":
            return ["--enable-eplb", "--enable-expert-parallel", "--eplb-config", json.dumps(random.choice(EPLB))]
        case "lora":
            rank = str(random.choice((8, 16, 64, 128, 24, 320)))
            return ["--enable-lora", "--max-loras", str(random.choice((1, 4))), "--max-lora-rank", rank]
        case "generation":
            return ["--override-generation-config", '{"temperature": 0.2, "max_new_tokens": 2048}']
        case "structured":
            backend = random.choice(("xgrammar", "guidance", "outlines", "auto", "lm-format-enforcer"))
            return ["--structured-outputs-config", json.dumps({"backend": backend})]
        case _:
            nodes = ["--nnodes", "2", "--node-rank", "0", "--master-addr", "10.0.0.1"]
            return [*nodes, "--tensor-parallel-size", "16"]


def _multimodal(random: Random) -> Words:
    return random.choice(
        (
            ["--limit-mm-per-prompt", random.choice(IMAGES)],
            ["--mm-processor-kwargs", '{"max_pixels": 1003520}'],
            ["--mm-encoder-tp-mode", "data"],
            ["--mm-processor-cache-gb", "0"],
            ["--mm-processor-cache-type", random.choice(("lru", "shm"))],
            ["--allowed-local-media-path", "/images"],
            ["--skip-mm-profiling"],
            ["--language-model-only"],
            ["--video-pruning-rate", random.choice(("0.5", "0.75"))],
        )
    )
