"""Generate random deployments: a model, flags in one of their spellings, variables, an environment.

Owns the possible deployments, of published models with arguments as people write them, or of bare classes of models.
A draw depends only on its seed and on the models. It may be unrealistic, or one that the release refuses.
"""

from __future__ import annotations

import gzip
import json
import shlex
from itertools import count
from pathlib import Path
from random import Random
from typing import TYPE_CHECKING, Any, Final

from bench.unseen import serving

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Json = dict[str, Any]

PUBLISHED_MODELS: Final = Path(__file__).with_name("published.jsonl.gz")
"""The `config.json` of published models: a line is `{"name", "config"}`."""
POPULAR: Final = (
    "DeepseekV3ForCausalLM",
    "FalconH1ForCausalLM",
    "Gemma3ForCausalLM",
    "Glm4MoeForCausalLM",
    "GptOssForCausalLM",
    "GraniteMoeHybridForCausalLM",
    "LlamaForCausalLM",
    "MiniMaxM2ForCausalLM",
    "MistralForCausalLM",
    "MixtralForCausalLM",
    "NemotronHForCausalLM",
    "Olmo3ForCausalLM",
    "Phi3ForCausalLM",
    "Qwen2_5_VLForConditionalGeneration",
    "Qwen3ForCausalLM",
    "Qwen3MoeForCausalLM",
    "Qwen3NextForCausalLM",
    "Qwen3_5ForConditionalGeneration",
    "Qwen3_5MoeForConditionalGeneration",
)
"""The architectures of a third of the draws; the others use any."""
NAMES: Final = ("org/target", "acme/model-7b", "x/Y-Instruct")
QUANTISATIONS: Final[tuple[Json | None, ...]] = (
    {"quant_method": "awq", "bits": 4, "group_size": 128, "version": "gemm", "zero_point": True},
    {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False, "sym": True},
    {
        "quant_method": "compressed-tensors",
        "format": "pack-quantized",
        "config_groups": {
            "group_0": {
                "targets": ["Linear"],
                "weights": {"num_bits": 4, "type": "int", "symmetric": True, "strategy": "channel"},
            }
        },
        "ignore": ["lm_head"],
    },
    {"quant_method": "fp8", "activation_scheme": "dynamic"},
    {"quant_method": "bitsandbytes", "load_in_4bit": True, "bnb_4bit_quant_type": "nf4"},
    {"quant_method": "modelopt", "quant_algo": "FP8"},
    {"quant_method": "mxfp4"},
    {},
    None,
)
POOLING: Final = (
    {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
    {"idx": 1, "name": "1", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"},
)
VARIABLES: Final = (
    ("VLLM_USE_V2_MODEL_RUNNER", "01", 0.18),
    ("VLLM_USE_BREAKABLE_CUDAGRAPH", "01", 0.03),
    ("VLLM_MLA_DISABLE", "1", 0.03),
    ("TORCH_COMPILE_DISABLE", "1", 0.02),
    ("VLLM_USE_SIMPLE_KV_OFFLOAD", "1", 0.02),
    ("VLLM_ENABLE_V1_MULTIPROCESSING", "0", 0.02),
)
VALUES: Final[tuple[tuple[int, str, tuple[Any, ...]], ...]] = (
    (8, "--tensor-parallel-size -tp", (1, 2, 2, 4, 8)),
    (5, "--pipeline-parallel-size -pp", (1, 2, 2, 4)),
    (3, "--data-parallel-size -dp", (1, 2, 4)),
    (3, "--decode-context-parallel-size", (1, 2)),
    (3, "--prefill-context-parallel-size", (1, 2)),
    (3, "--distributed-executor-backend", ("mp", "ray", "uni", "external_launcher")),
    (1, "--ubatch-size", (0, 2)),
    (4, "--mamba-cache-mode", ("none", "align", "all")),
    (2, "--kv-cache-dtype", ("auto", "fp8", "fp8_e4m3", "bfloat16")),
    (4, "--optimization-level", (0, 1, 2, 3)),
    (3, "--runner", ("auto", "generate", "pooling")),
    (2, "--convert", ("auto", "embed", "classify", "none")),
    (3, "--logprobs-mode", ("raw_logprobs", "raw_logits", "processed_logprobs", "processed_logits")),
    (2, "--logits-processors", ("module:Class",)),
    (3, "--quantization -q", ("fp8", "awq", "gptq", "bitsandbytes")),
    (2, "--kv-offloading-size", (4, 1.5)),
    (2, "--max-num-seqs", (1, 64, 1024)),
    (3, "--max-model-len", (128, 2048, "1k")),
    (2, "--max-num-batched-tokens", (2048, "8k", 16384)),
    (1, "--block-size", (16, 32, 64)),
    (2, "--scheduling-policy", ("fcfs", "priority")),
    (2, "--attention-backend", ("FLASH_ATTN", "FLASHINFER", "TRITON_ATTN", "FLASHMLA")),
    (2, "--gpu-memory-utilization", (0.5, 0.9)),
    (1, "--dtype", ("auto", "bfloat16", "half")),
    (1, "--model-impl", ("auto", "vllm", "transformers")),
    (1, "--performance-mode", ("balanced", "interactivity", "throughput")),
    (1, "--seed", (1,)),
    (1, "--tokenizer-mode", ("slow",)),
    (1, "--served-model-name", ("chat",)),
)
SWITCHES: Final = (
    (6, "--enable-prefix-caching"),
    (6, "--enforce-eager"),
    (5, "--async-scheduling"),
    (4, "--enable-expert-parallel"),
    (4, "--enable-lora"),
    (3, "--kv-sharing-fast-prefill"),
    (2, "--enable-prompt-embeds"),
    (2, "--enable-return-routed-experts"),
    (2, "--mm-encoder-only"),
    (2, "--language-model-only"),
    (2, "--enable-chunked-prefill"),
    (1, "--enable-eplb"),
    (1, "--return-sampling-mask"),
    (1, "--enable-trace-replay"),
    (1, "--enable-batch-sharded-sampling"),
    (1, "--disable-hybrid-kv-cache-manager"),
    (1, "--disable-cascade-attn"),
    (1, "--trust-remote-code"),
)
GENERATED_KINDS: Final = (
    (7, "compilation"),
    (9, "speculation"),
    (5, "transfer"),
    (2, "encoder"),
    (2, "overrides"),
    (3, "level"),
    (2, "overlap"),
)
WEIGHTED_FEATURES: Final = [(weight, "value", index) for index, (weight, _, _) in enumerate(VALUES)] + [
    *((weight, "switch", index) for index, (weight, _) in enumerate(SWITCHES)),
    *((weight, name, 0) for weight, name in GENERATED_KINDS),
]
COMPILATION: Final = (
    ("mode", (0, 1, 2, 3, "NONE", "VLLM_COMPILE", "STOCK_TORCH_COMPILE")),
    ("cudagraph_mode", ("NONE", "PIECEWISE", "FULL", "FULL_DECODE_ONLY", "FULL_AND_PIECEWISE", "full")),
)
CONNECTORS: Final = (
    "NixlConnector",
    "LMCacheConnectorV1",
    "OffloadingConnector",
    "MooncakeConnector",
    "ExampleConnector",
    "MultiConnector",
)
OVERRIDES: Final[tuple[Json, ...]] = (
    {"num_experts": 4},
    {"max_position_embeddings": 8192},
    {"architectures": ["Qwen3ForSequenceClassification"]},
    {"is_encoder_decoder": False},
    {"canvas_length": 64},
)
SMALL_CONFIG: Final[Json] = {
    "architectures": ["LlamaForCausalLM"],
    "model_type": "llama",
    "hidden_size": 2048,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "num_hidden_layers": 16,
    "vocab_size": 32000,
    "intermediate_size": 8192,
    "max_position_embeddings": 131072,
}
QWEN_CONFIG: Final[Json] = {**SMALL_CONFIG, "model_type": "qwen3", "num_hidden_layers": 5, "head_dim": 128}
SPECULATOR: Final[Json] = {
    "architectures": ["Eagle3Speculator"],
    "speculators_model_type": "eagle3",
    "draft_vocab_size": 32000,
    "norm_before_residual": True,
    "speculators_config": {
        "algorithm": "eagle3",
        "default_proposal_method": "greedy",
        "proposal_methods": [
            {"proposal_type": "greedy", "speculative_tokens": 3, "verifier_accept_k": 1, "accept_tolerance": 0.0}
        ],
        "verifier": {"name_or_path": NAMES[0], "architectures": ["LlamaForCausalLM"]},
    },
    "transformer_layer_config": {key: value for key, value in SMALL_CONFIG.items() if key != "architectures"},
}
DFLASH_FIELDS: Final[Json] = {
    "dflash_config": {"mask_token_id": 31999, "target_layer_ids": [1, 9, 17]},
    "block_size": 16,
    "num_target_layers": 36,
}
DSPARK_FIELDS: Final[Json] = {
    "dspark_config": {"mask_token_id": 31999, "target_layer_ids": [1, 9, 17]},
    "block_size": 7,
}
MLP_FIELDS: Final[Json] = {
    "model_type": "mlp_speculator",
    "emb_dim": 4096,
    "inner_dim": 4096,
    "n_predict": 4,
    "vocab_size": 32000,
    "top_k_tokens_per_head": [4, 3, 2, 2],
}
DRAFTS: Final[tuple[tuple[str, str, Json], ...]] = (
    ("draft_model", "org/tiny-1b", SMALL_CONFIG),
    ("draft_model", "org/tiny-assistant", SMALL_CONFIG),
    ("eagle", "org/EAGLE-x", {**SMALL_CONFIG, "num_hidden_layers": 1}),
    ("eagle", "org/plainhead", {**SMALL_CONFIG, "architectures": ["EagleLlamaForCausalLM"], "num_hidden_layers": 1}),
    (
        "eagle3",
        "org/x-EAGLE3",
        {
            **SMALL_CONFIG,
            "architectures": ["LlamaForCausalLMEagle3"],
            "num_hidden_layers": 1,
            "draft_vocab_size": 32000,
        },
    ),
    ("eagle3", "org/head3", {**SMALL_CONFIG, "num_hidden_layers": 1, "draft_vocab_size": 32000}),
    ("dflash", "org/x-DFlash", {**QWEN_CONFIG, "architectures": ["DFlashDraftModel"], **DFLASH_FIELDS}),
    (
        "dflash",
        "org/blockhead",
        {**QWEN_CONFIG, "architectures": ["DFlashDraftModel"], **DFLASH_FIELDS, "layer_types": ["full_attention"] * 5},
    ),
    (
        "dflash",
        "org/windows",
        {
            **QWEN_CONFIG,
            "architectures": ["DFlashDraftModel"],
            **DFLASH_FIELDS,
            "layer_types": ["sliding_attention"] * 4 + ["full_attention"],
            "sliding_window": 4096,
        },
    ),
    ("dspark", "org/dspark-x", {**QWEN_CONFIG, "architectures": ["Qwen3DSparkModel"], **DSPARK_FIELDS}),
    (
        "medusa",
        "org/medusa-x",
        {
            "architectures": ["MedusaModel"],
            "model_type": "medusa",
            "hidden_size": 4096,
            "vocab_size": 32000,
            "num_heads": 4,
        },
    ),
    ("mlp_speculator", "org/accelerator", {"architectures": ["MLPSpeculatorPreTrainedModel"], **MLP_FIELDS}),
    ("eagle3", "org/spec-x", SPECULATOR),
)


def published() -> dict[str, list[tuple[str, Json]]]:
    """Architecture → the names and configurations of published models that have it."""
    found: dict[str, list[tuple[str, Json]]] = {}
    with gzip.open(PUBLISHED_MODELS, "rt", encoding="utf-8") as lines:
        for row in map(json.loads, lines):
            found.setdefault(row["config"]["architectures"][0], []).append((row["name"], row["config"]))
    return found


def draw_published(release: str, seed: int, platform: str) -> Iterator[Json]:
    """Lines ``{"id", "request"}`` of a release without end, with published models."""
    generator = DeploymentGenerator(Random(f"{release}/{seed}/{platform}/published"), int(release.split(".")[1]))
    models = published()
    architectures, popular = list(models), [name for name in POPULAR if name in models]
    for number in count():
        architecture = generator.random.choice(popular if generator.chance(0.35) else architectures)
        name, config = generator.random.choice(models[architecture])
        yield {
            "id": f"{release}:published-{seed}-{number}:{name}",
            "request": {"vllm_version": release, "deployment": generator.served(name, config, platform)},
        }


def draw(release: str, seed: int, pool: Mapping[str, Json], platform: str) -> Iterator[Json]:
    """Lines ``{"id", "request"}`` of a release without end, with bare configuration classes.

    ``pool`` has its configurations by ``model_type.architecture.method``.
    """
    generator = DeploymentGenerator(Random(f"{release}/{seed}/{platform}"), int(release.split(".")[1]))
    named: dict[str, list[str]] = {}
    for name in sorted(pool):
        named.setdefault(name.split(".")[1], []).append(name)
    popular = [name for name in POPULAR if name in named]
    architectures = list(named)
    for number in count():
        architecture = generator.random.choice(popular if generator.chance(0.35) else architectures)
        name = generator.random.choice(named[architecture])
        yield {
            "id": f"{release}:drawn-{seed}-{number}:{name}",
            "request": {"vllm_version": release, "deployment": generator.deployment(pool[name], platform)},
        }


class DeploymentGenerator:
    """Generates deployments from one random generator."""

    def __init__(self, random: Random, minor: int) -> None:
        self.random, self.minor = random, minor
        self.drafts: dict[str, Json] = {}

    def chance(self, share: float) -> bool:
        return self.random.random() < share

    def served(self, name: str, config: Json, platform: str) -> Json:
        """A published model with arguments as people write them, and at most three features more."""
        self.drafts = {}
        kinds = self._kinds((0, 0, 0, 1, 1, 1, 2, 3))
        groups = [*serving.arguments(self.random, config), *(self._words(kind, index) for kind, index in kinds)]
        self.random.shuffle(groups)
        words = [word for group in groups for word in group]
        return self._deployment(name, config, words, {}, platform, 0.06)

    def deployment(self, config: Json, platform: str) -> Json:
        """Arguments, variables, an environment, and each model's ``config.json``."""
        self.drafts = {}
        name = self.random.choice(NAMES)
        config = self._quantised(config)
        kinds = self._kinds((0, 0, 1, 1, 2, 2, 3, 3, 4, 5, 6))
        words = [word for kind, index in kinds for word in self._words(kind, index)]
        files: dict[str, str] = {}
        if self.chance(0.04):
            files = {
                f"{name}/modules.json": json.dumps(POOLING),
                f"{name}/1_Pooling/config.json": json.dumps({"pooling_mode_mean_tokens": True}),
            }
        return self._deployment(name, config, words, files, platform, 1.0)

    def _kinds(self, counts: tuple[int, ...]) -> list[tuple[str, int]]:
        drawn = self.random.choices(
            WEIGHTED_FEATURES, [weight for weight, _, _ in WEIGHTED_FEATURES], k=self.random.choice(counts)
        )
        return [(kind, index) for _, kind, index in drawn]

    def _deployment(
        self, name: str, config: Json, words: list[str], files: dict[str, str], platform: str, oddness: float
    ) -> Json:
        """Words in one of the forms of a command; ``oddness`` multiplies the chances of what is rare."""
        args = self.random.choice(
            (
                ["--model", name, *words],
                ["serve", name, *words],
                ["vllm", "serve", name, *words],
                [*words, f"--model={name}"],
            )
        )
        variables = {
            variable: self.random.choice(values)
            for variable, values, share in VARIABLES
            if self.chance(share if variable == "VLLM_USE_V2_MODEL_RUNNER" else share * oddness)
        }
        return {
            "args": args if self.chance(0.8) else shlex.join(args),
            "env": variables,
            "environment": {
                "platform": platform,
                "has_triton": platform != "cpu" and not self.chance(0.04 * oddness),
                "plugins": {"logits_processors": ["plugin"] if self.chance(0.03 * oddness) else []},
            },
            "model_configs": {name: config, **self._drafts_with_vocabulary_of(config)},
            **({"files": files} if files else {}),
        }

    def _quantised(self, config: Json) -> Json:
        if self.chance(0.15):
            config = {**config, "quantization_config": self.random.choice(QUANTISATIONS)}
        if isinstance(text := config.get("text_config"), dict) and self.chance(0.05):
            config = {**config, "text_config": {**text, "quantization_config": self.random.choice(QUANTISATIONS)}}
        return config

    def _drafts_with_vocabulary_of(self, config: Json) -> dict[str, Json]:
        text = config.get("text_config")
        size = (text if isinstance(text, dict) else config).get("vocab_size")
        return {
            name: draft if size is None or self.chance(0.1) else _with_vocabulary(draft, size)
            for name, draft in self.drafts.items()
        }

    def _words(self, kind: str, index: int) -> list[str]:
        match kind:
            case "value":
                _, flags, values = VALUES[index]
                return self._flag_words(self.random.choice(flags.split()), self.random.choice(values))
            case "switch":
                flag = SWITCHES[index][1]
                return self._flag_words(flag if self.chance(0.75) else f"--no-{flag[2:]}")
            case "level":
                return [f"-O{self.random.randrange(4)}"]
            case "overlap":
                backend = self.random.choice(("deepep_low_latency", "deepep_high_throughput"))
                return [*self._flag_words("--enable-dbo"), *self._flag_words("--all2all-backend", backend)]
            case "encoder":
                return self._object(
                    ("--ec-transfer-config",),
                    {
                        "ec_connector": "ECExampleConnector",
                        "ec_role": self.random.choice(("ec_producer", "ec_consumer")),
                    },
                )
            case "overrides":
                return self._object(("--hf-overrides",), self.random.choice(OVERRIDES))
            case "transfer":
                return self._object(("--kv-transfer-config",), self._transfer())
            case "compilation":
                return self._object(("--compilation-config", "-cc"), self._compilation())
        return self._object(
            ("--speculative-config", "-sc") if self.minor >= 22 else ("--speculative-config",), self._speculation()
        )

    def _flag_words(self, flag: str, value: Any = None) -> list[str]:
        if flag.startswith("--") and self.chance(0.25):
            flag = "--" + flag[2:].replace("-", "_")
        if value is None:
            return [flag]
        return [flag, str(value)] if self.chance(0.5) else [f"{flag}={value}"]

    def _object(self, flags: tuple[str, ...], members: Json) -> list[str]:
        """An object as one JSON argument, or as one dotted flag for each field.

        Field names have underscores or, in releases that accept them, dashes.
        """
        flag = self.random.choice(flags)
        if self.chance(0.5) or any(isinstance(value, dict | list) for value in members.values()):
            return self._flag_words(flag, json.dumps(members)) if flag.startswith("--") else [flag, json.dumps(members)]
        words = []
        for key, value in members.items():
            member = key.replace("_", "-") if self.minor >= 26 and self.chance(0.3) else key
            text = value if isinstance(value, str) else json.dumps(value)
            words += [f"{flag}.{member}", text] if self.chance(0.5) else [f"{flag}.{member}={text}"]
        return words

    def _compilation(self) -> Json:
        members: Json = {name: self.random.choice(values) for name, values in COMPILATION if self.chance(0.6)}
        if self.chance(0.35):
            members["pass_config"] = {
                self.random.choice(("enable_sp", "enable_sp", "fuse_norm_quant", "fuse_allreduce_rms")): self.chance(
                    0.7
                )
            }
        if self.chance(0.2):
            members["cudagraph_capture_sizes"] = [1, 2, 4, 8]
        return members or {"mode": 3}

    def _transfer(self) -> Json:
        connector = self.random.choice(CONNECTORS)
        members: Json = {
            "kv_connector": connector,
            "kv_role": self.random.choice(("kv_both", "kv_producer", "kv_consumer")),
        }
        offloading = {
            "kv_connector": "OffloadingConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"cpu_bytes_to_use": 10**9},
        }
        if connector == "MultiConnector":
            members["kv_connector_extra_config"] = {
                "connectors": [{"kv_connector": "NixlConnector", "kv_role": "kv_both"}, offloading]
            }
        elif connector == "OffloadingConnector":
            members["kv_connector_extra_config"] = {"cpu_bytes_to_use": 10**9}
        return members

    def _speculation(self) -> Json:
        method = self.random.choice(
            (
                "ngram",
                "ngram",
                "ngram",
                "ngram_gpu",
                "suffix",
                "draft",
                "draft",
                "draft",
                "draft",
                "mtp",
                "mtp",
                "unset",
            )
        )
        members: Json = {"num_speculative_tokens": self.random.choice((1, 2, 3, 5))}
        if method == "draft":
            members |= self._draft()
        elif method == "mtp":
            members["method"] = self.random.choice(("mtp", "mtp", "deepseek_mtp", "qwen3_next_mtp"))
        elif method != "unset":
            members |= {"model": "[ngram]"} if method == "ngram" and self.chance(0.2) else {"method": method}
            if method.startswith("ngram"):
                members["prompt_lookup_max"] = 3
        for key, value, since, share in (
            ("num_speculative_tokens_per_batch_size", [[1, 8, 2], [9, 64, 1]], 24, 0.08),
            ("enable_adaptive_verification", True, 28, 0.08),
            ("disable_padded_drafter_batch", True, 20, 0.1),
        ):
            if self.minor >= since and self.chance(share):
                members[key] = value
        return members

    def _draft(self) -> Json:
        method, name, config = self.random.choice(DRAFTS)
        self.drafts[name] = config
        members: Json = {"model": name}
        if self.chance(0.5):
            members["method"] = method
        if self.minor >= 22 and self.chance(0.15):
            members["parallel_drafting"] = self.chance(0.7)
        if self.minor >= 25 and self.chance(0.1):
            members["use_heterogeneous_vocab"] = True
        return members


def _with_vocabulary(draft: Json, size: int) -> Json:
    if "transformer_layer_config" in draft:
        return {**draft, "transformer_layer_config": {**draft["transformer_layer_config"], "vocab_size": size}}
    return {**draft, "vocab_size": size}
