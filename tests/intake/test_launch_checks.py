"""What vLLM refuses before it chooses the runner, by the checks of `policy.intake.launch`: one row for each check."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from deployments import DENSE, HEADS, MODELS, TODAY, Asking, Config
from representatives import slow_except
from tables import table

from policy.errors import RequestInvalid
from policy.intake.command.flags import flags
from policy.intake.command.relevant_options import RELEVANT_OPTIONS
from policy.intake.launch.checks import all_checks, message_of
from policy.intake.launch.models import ModelValues
from policy.intake.launch.values import READERS
from policy.intake.model.formula import formula_keys
from policy.intake.model.tables import releases, tables
from policy.request.manifest import requests_of
from policy.request.request import Manifest, read_request_or_manifest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.decision import Decision
    from policy.intake.launch.checks import Check
    from policy.policy import Policy

NEW: Final = "0.33.0"
BEFORE: Final = "vLLM refuses this configuration: "
SIZED: Final = {**DENSE, "max_position_embeddings": 4096, "vocab_size": 1000}
OTHER: Final = {**MODELS["draft"], "max_position_embeddings": 2048, "vocab_size": 999, "num_attention_heads": 14}
EAGLE: Final = {
    "architectures": ["LlamaForCausalLMEagle3"],
    "model_type": "llama",
    "vocab_size": 1000,
    "draft_vocab_size": 1000,
    **HEADS,
}
CODE: Final = {"architectures": ["LlamaForCausalLM"], "model_type": "private", **HEADS}
FLAT: Final = {
    **HEADS,
    "architectures": ["Qwen2VLForConditionalGeneration"],
    "model_type": "qwen2_vl",
    "max_position_embeddings": 32768,
    "rope_scaling": {"type": "mrope", "mrope_section": [16, 24, 24]},
}
"""A model with images whose `config.json` has the fields of its language model beside the others."""
BERT: Final = {**MODELS["pooling"], "max_position_embeddings": 512}
AWQ_RELEASES: Final = ("0.23.0", "0.24.0")
"""The last release whose class for AWQ takes float16 alone, and the next."""
ALLOWED: Final = {"VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}


def quantized(method: str) -> Config:
    return {**SIZED, "quantization_config": {"quant_method": method}}


def yarn(factor: float) -> Config:
    scaling = {"rope_type": "yarn", "factor": factor, "original_max_position_embeddings": 2048}
    return {**SIZED, "rope_scaling": scaling}


def spec(**fields: Any) -> list[str]:
    return ["--speculative-config", str(fields).replace("'", '"').replace("True", "true")]


def mtp(layers: int) -> Config:
    return {**MODELS["mla"], "num_nextn_predict_layers": layers}


Row = tuple[str, str, list[str], dict[str, Any], list[str]]
"""Check, release, arguments, other fields of the deployment, messages."""
X: Final[dict[str, Any]] = {"models": {"x": SIZED}}
TOKENS_REQUIRED: Final = [
    (
        '"num_speculative_tokens must be provided with speculative model unless the draft model config contains an '
        'n_predict parameter." (args[2]); add `num_speculative_tokens`'
    )
]
ONLY_DSPARK: Final = [
    (
        '"Adaptive verification only supported with DSpark" (args[2]); remove `enable_adaptive_verification`, or use '
        "the method `dspark`"
    )
]
REFUSED: list[Row] = [
    (
        "nodes-divide-ranks",
        "0.23.0",
        ["--model", "x", "--nnodes", "4", "-tp", "2"],
        X,
        [
            (
                '"world_size=2 must be divisible by nnodes=4." (args[2]); set parallel sizes whose product is a '
                "multiple of the nodes"
            )
        ],
    ),
    (
        "quantization-mismatch",
        "0.25.1",
        ["--model", "x", "--quantization", "awq_marlin"],
        {"models": {"x": quantized("gptq")}},
        [
            (
                '"Quantization method specified in the model config (gptq) does not match the quantization method '
                'specified in the `quantization` argument (awq_marlin)." (args[2]); remove `--quantization`: the '
                "checkpoint decides"
            )
        ],
    ),
    (
        "quantization-modelopt",
        "0.25.1",
        ["--model", "x", "--quantization", "modelopt"],
        {"models": {"x": quantized("gptq")}},
        [
            (
                '"Quantization method specified in the model config (gptq) does not match the quantization method '
                'specified in the `quantization` argument (modelopt)." (args[2]); remove `--quantization`: the '
                "checkpoint decides"
            )
        ],
    ),
    (
        "mamba-caching-without-chunks",
        "0.31.0",
        ["--model", "qwen3-next", "--no-enable-chunked-prefill", "--enable-prefix-caching"],
        {},
        [
            (
                "\"Chunked prefill is required for mamba cache mode 'align'.\" (args[2]); remove "
                "`--no-enable-chunked-prefill`, or add `--no-enable-prefix-caching`"
            )
        ],
    ),
    (
        "mamba-caching-without-chunks",
        NEW,
        ["--model", "hybrid", "--no-enable-chunked-prefill", "--enable-prefix-caching"],
        {},
        [
            (
                '"Chunked prefill is required for Mamba prefix caching." (args[2]); remove '
                "`--no-enable-chunked-prefill`, or add `--no-enable-prefix-caching`"
            )
        ],
    ),
    (
        "capture-maximum-of-sizes",
        NEW,
        ["--model", "x", "--max-cudagraph-capture-size", "256", "-cc", '{"cudagraph_capture_sizes": [1, 8]}'],
        X,
        [
            (
                '"customized max_cudagraph_capture_size(=256) should be consistent with the max value of '
                'cudagraph_capture_sizes" (args[2]); remove `--max-cudagraph-capture-size`'
            )
        ],
    ),
    (
        "text-configuration-override",
        NEW,
        ["--model", "x", "--hf-overrides", '{"text_config": {"max_position_embeddings": 65536}}'],
        X,
        [
            (
                '"The text_config extracted from the model config does not have `num_attention_heads` attribute. This '
                "indicates a mismatch between the model config and vLLM's expectations.\" (args[2]); write the fields "
                "of `text_config` beside it: the model's `config.json` has none"
            )
        ],
    ),
    (
        "adaptive-graph-mode",
        NEW,
        [
            "--model",
            "dense",
            "-cc",
            '{"cudagraph_mode": "PIECEWISE"}',
            *spec(model="eagle3-draft", num_speculative_tokens=1, enable_adaptive_verification=True),
        ],
        {},
        [
            (
                '"Adaptive verification requires full CUDA graphs. Use cudagraph mode FULL, FULL_DECODE_ONLY, or '
                'FULL_AND_PIECEWISE, or disable adaptive verification." (args[2]); set a `cudagraph_mode` with full '
                "graphs, or remove `enable_adaptive_verification`"
            )
        ],
    ),
    (
        "executor-pipeline",
        "0.25.1",
        ["--model", "x", "--distributed-executor-backend", "uni", "-pp", "2"],
        X,
        [
            (
                '"Pipeline Parallelism without Ray distributed executor or multiprocessing executor or external '
                'launcher is not supported." (args[2]); set `--distributed-executor-backend` to `mp` or `ray`'
            )
        ],
    ),
    (
        "max-model-len",
        "0.23.0",
        ["--model", "x", "--max-model-len", "8192"],
        X,
        [
            (
                '"User-specified max_model_len (8192) is greater than the derived max_model_len '
                "(max_position_embeddings=4096.0 or model_max_length=None in model's config.json).\" "
                "(args[2]); set `--max-model-len` to at most 4096, or the variable "
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN to 1 if the model works beyond it"
            )
        ],
    ),
    (
        "max-model-len",
        NEW,
        ["--model", "x", "--max-model-len", "16384"],
        {"models": {"x": yarn(4.0)}},
        [
            (
                '"User-specified max_model_len (16384) is greater than the derived max_model_len '
                "(max_position_embeddings=4096.0 or model_max_length=None in model's config.json).\" "
                "(args[2]); set `--max-model-len` to at most 4096, or the variable "
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN to 1 if the model works beyond it"
            )
        ],
    ),
    (
        "max-model-len",
        "0.23.0",
        ["--model", "x", "--max-model-len", "16384"],
        {"models": {"x": yarn(4.0)}},
        [
            (
                '"User-specified max_model_len (16384) is greater than the derived max_model_len '
                "(max_position_embeddings=8192.0 or model_max_length=None in model's config.json).\" "
                "(args[2]); set `--max-model-len` to at most 8192, or the variable "
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN to 1 if the model works beyond it"
            )
        ],
    ),
    (
        "max-model-len",
        "0.23.0",
        ["--model", "x", "--max-model-len", "40000"],
        {"models": {"x": FLAT}},
        [
            (
                '"User-specified max_model_len (40000) is greater than the derived max_model_len '
                "(max_position_embeddings=32768.0 or model_max_length=None in model's config.json).\" "
                "(args[2]); set `--max-model-len` to at most 32768, or the variable "
                "VLLM_ALLOW_LONG_MAX_MODEL_LEN to 1 if the model works beyond it"
            )
        ],
    ),
    (
        "max-model-len-zero",
        NEW,
        ["--model", "x", "--max-model-len", "0"],
        X,
        [
            (
                '"max_model_len must be a positive integer, got int: 0." (args[2]); set `--max-model-len` '
                "to a positive number, or remove it"
            )
        ],
    ),
    (
        "max-model-len-auto",
        NEW,
        ["--model", "mamba", "--max-model-len", "auto"],
        {},
        [
            (
                '"max_model_len must be a positive integer, got int: -1." (args[2]); set '
                "`--max-model-len` to a number: the model's configuration states no length"
            )
        ],
    ),
    (
        "float16",
        "0.23.0",
        ["--model", "x", "--dtype", "half"],
        {"models": {"x": {"architectures": ["Gemma2ForCausalLM"], "model_type": "gemma2", **HEADS}}},
        [("\"The model type 'gemma2' does not support float16.\" (args[2]); set `--dtype bfloat16`, or remove it")],
    ),
    (
        "embedding-runner",
        "0.22.0",
        ["--model", "pooling", "--runner", "generate"],
        {},
        [
            (
                '"Embedding models do not support `--runner generate`. Use `--runner pooling` or '
                '`--runner auto` for embedding models." (args[2]); remove `--runner`'
            )
        ],
    ),
    (
        "generate-runner",
        NEW,
        ["--model", "x", "--runner", "generate"],
        {"models": {"x": {"architectures": ["NomicBertModel"], "model_type": "nomic_bert", **HEADS}}},
        ['"This model does not support `--runner generate`." (args[2]); remove `--runner`'],
    ),
    (
        "pooling-without-conversion",
        NEW,
        ["--model", "dense", "--runner", "pooling", "--convert", "none"],
        {},
        [
            (
                '"This model does not support `--runner pooling`. You can pass `--convert '
                '<embed|classify>` to adapt it into a pooling model." (args[4]); set `--convert embed` or '
                "`--convert classify`"
            )
        ],
    ),
    (
        "prompt-embeds-encoder-decoder",
        "0.29.0",
        ["--model", "encoder-decoder", "--enable-prompt-embeds"],
        {},
        [
            (
                '"--enable-prompt-embeds is not supported with encoder-decoder models." (args[2]); remove '
                "`--enable-prompt-embeds`"
            )
        ],
    ),
    (
        "multimodal-loras",
        NEW,
        ["--model", "dense", "--default-mm-loras", '{"audio": "a"}'],
        {},
        [
            (
                '"Default modality-specific LoRA(s) were provided for a non multimodal model" (args[2]); '
                "remove `--default-mm-loras`"
            )
        ],
    ),
    (
        "model-type-unknown",
        NEW,
        ["--model", "x"],
        {"models": {"x": CODE}},
        [
            (
                '"The checkpoint you are trying to load has model type `private` but Transformers does '
                'not recognize this architecture."; serve it with a release of vLLM that knows the model '
                "type, or an image with a newer Transformers, if that has it"
            )
        ],
    ),
    (
        "remote-code",
        "0.23.0",
        ["--model", "x"],
        {"models": {"x": {**CODE, "auto_map": {"AutoConfig": "configuration.Own"}}}},
        [
            (
                '"The repository contains custom code which must be executed to correctly load the model. '
                'Please pass the argument `trust_remote_code=True` to allow custom code to be run."; add '
                "`--trust-remote-code` if you trust the model's repository"
            )
        ],
    ),
    (
        "pooler-field",
        NEW,
        ["--model", "pooling", "--pooler-config", '{"logit_bias": 1.0}'],
        {},
        [
            (
                '"1 validation error for PoolerConfig logit_bias: Unexpected keyword argument" (args[2]); '
                "its fields are dimensions, enable_chunked_processing, enable_flash_late_interaction, "
                "logit_mean, logit_sigma, max_embed_len, pooling_type, returned_token_ids, "
                "seq_pooling_type, step_tag_id, task, tok_pooling_type, use_activation"
            )
        ],
    ),
    (
        "pooler-normalize",
        "0.28.0",
        ["--model", "pooling", "--pooler-config", '{"normalize": true}'],
        {},
        [('"Parameter `normalize` was removed; use `use_activation` instead." (args[2]); write `use_activation`')],
    ),
    (
        "pooler-sequence-type",
        "0.23.0",
        ["--model", "pooling", "--pooler-config", '{"pooling_type": "MEAN", "seq_pooling_type": "CLS"}'],
        {},
        ['"Cannot set both `pooling_type` and `seq_pooling_type`" (args[2]); remove `pooling_type`'],
    ),
    (
        "pooler-token-type",
        "0.23.0",
        ["--model", "pooling", "--pooler-config", '{"pooling_type": "ALL", "tok_pooling_type": "ALL"}'],
        {},
        ['"Cannot set both `pooling_type` and `tok_pooling_type`" (args[2]); remove `pooling_type`'],
    ),
    (
        "pooler-sigma",
        NEW,
        ["--model", "pooling", "--pooler-config", '{"logit_sigma": 0}'],
        {},
        ['"logit_sigma cannot be 0 (division by zero)" (args[2]); set another `logit_sigma`'],
    ),
    (
        "multimodal-limit-text",
        "0.31.0",
        ["--model", "vision", "--limit-mm-per-prompt", "image=2"],
        {},
        [('"Value image=2 cannot be converted" (args[2]); write a JSON object such as `{"image": 2}`')],
    ),
    (
        "encoder-attention-unknown",
        NEW,
        ["--model", "vision", "--mm-encoder-attn-backend", "OWN"],
        {},
        ["\"Unknown attention backend: 'OWN'.\" (args[2]); remove `--mm-encoder-attn-backend`"],
    ),
    (
        "quantization-unknown",
        NEW,
        ["--model", "x", "--quantization", "bitsandbytes"],
        X,
        [
            (
                '"Unknown quantization method: bitsandbytes." (args[2]); set one of auto_awq, auto_gptq, '
                "awq, awq_marlin, compressed-tensors, deepseek_v4_fp8, experts_int8, fbgemm_fp8, fp8, "
                "fp8_per_block, fp8_per_channel, fp8_per_tensor, fp_quant, gpt_oss_mxfp4, gptq, "
                "gptq_marlin, humming, inc, int8_per_channel_weight_only, modelopt, modelopt_fp4, "
                "modelopt_mixed, modelopt_mxfp8, moe_wna16, mxfp4, mxfp8, nvfp4_per_token, online, quark, "
                "torchao, or remove `--quantization`"
            )
        ],
    ),
    (
        "quantization-of-model-unknown",
        NEW,
        ["--model", "x"],
        {"models": {"x": quantized("bitsandbytes")}},
        [
            (
                '"Unknown quantization method: bitsandbytes."; serve another checkpoint of the model, or '
                "another release; this one has auto_awq, auto_gptq, awq, awq_marlin, compressed-tensors, "
                "deepseek_v4_fp8, experts_int8, fbgemm_fp8, fp8, fp8_per_block, fp8_per_channel, "
                "fp8_per_tensor, fp_quant, gpt_oss_mxfp4, gptq, gptq_marlin, humming, inc, "
                "int8_per_channel_weight_only, modelopt, modelopt_fp4, modelopt_mixed, modelopt_mxfp8, "
                "moe_wna16, mxfp4, mxfp8, nvfp4_per_token, online, quark, torchao"
            )
        ],
    ),
    (
        "quantization-mismatch",
        "0.23.0",
        ["--model", "x", "--quantization", "awq"],
        {"models": {"x": quantized("fp8")}},
        [
            (
                '"Quantization method specified in the model config (fp8) does not match the quantization '
                'method specified in the `quantization` argument (awq)." (args[2]); remove '
                "`--quantization`: the checkpoint decides"
            )
        ],
    ),
    (
        "quantization-deprecated",
        NEW,
        ["--model", "x", "--quantization", "fbgemm_fp8"],
        X,
        [
            (
                '"The quantization method fbgemm_fp8 is deprecated and will be removed in future versions '
                'of vLLM." (args[2]); use another method, or add `--allow-deprecated-quantization`'
            )
        ],
    ),
    (
        "quantization-without-configuration",
        NEW,
        ["--model", "x", "--quantization", "compressed-tensors"],
        X,
        [
            (
                '"…Config.__init__() missing required positional arguments" (args[2]); the model\'s '
                "`config.json` has no `quantization_config`: remove `--quantization`"
            )
        ],
    ),
    (
        "quantization-float32",
        NEW,
        ["--model", "x", "--dtype", "float32"],
        {"models": {"x": quantized("fp8")}},
        [
            (
                '"torch.float32 is not supported for quantization method fp8." (args[2]); set `--dtype '
                "bfloat16`, or remove it"
            )
        ],
    ),
    (
        "quantization-float32",
        "0.23.0",
        ["--model", "x", "--dtype", "float32"],
        {"models": {"x": quantized("gptq")}},
        [
            (
                '"torch.float32 is not supported for quantization method gptq." (args[2]); set `--dtype '
                "bfloat16`, or remove it"
            )
        ],
    ),
    (
        "chunked-prefill-unsupported",
        "0.23.0",
        ["--model", "x", "--max-model-len", "512", "--max-num-batched-tokens", "256"],
        {"models": {"x": BERT}},
        [
            (
                '"max_num_batched_tokens (256) is smaller than max_model_len (512). This effectively limits the '
                "maximum sequence length to max_num_batched_tokens and makes vLLM reject longer "
                'sequences." (args[4]); raise '
                "`--max-num-batched-tokens` or lower `--max-model-len`: this model does not support chunked prefill"
            )
        ],
    ),
    (
        "quantization-mismatch",
        NEW,
        ["--model", "x", "--quantization", "fp8"],
        {"models": {"x": quantized("torchao")}},
        [
            (
                '"Quantization method specified in the model config (torchao) does not match the quantization method '
                'specified in the `quantization` argument (fp8)." (args[2]); remove `--quantization`: the checkpoint '
                "decides"
            )
        ],
    ),
    (
        "quantization-float16",
        "0.23.0",
        ["--model", "x", "--dtype", "half"],
        {"models": {"x": {**quantized("mxfp4"), "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss"}}},
        [
            (
                '"torch.float16 is not supported for quantization method gpt_oss_mxfp4. Supported dtypes: '
                '[torch.bfloat16]" (args[2]); set `--dtype bfloat16`, or remove it'
            )
        ],
    ),
    (
        "quantization-awq-bfloat16",
        "0.23.0",
        ["--model", "x", "--dtype", "bfloat16", "--quantization", "awq"],
        {"models": {"x": quantized("awq")}},
        [
            (
                '"torch.bfloat16 is not supported for quantization method awq. Supported dtypes: [torch.float16]" '
                "(args[4]); remove `--quantization`: vLLM then uses `awq_marlin`, or set `--dtype half`"
            )
        ],
    ),
    (
        "kv-cache-dtype",
        NEW,
        ["--model", "x", "--kv-cache-dtype", "int8"],
        X,
        [
            (
                "\"Invalid kv_cache_dtype: 'int8'.\" (args[2]); set one of auto, bfloat16, float16, fp8, "
                "fp8_ds_mla, fp8_e4m3, fp8_e5m2, fp8_inc, fp8_per_token_head, int4_per_token_head, "
                "int8_per_token_head, nvfp4, nvfp4_4over6, nvfp4_ds_mla, octave_k3v3, "
                "octave_k3v3_compact, octave_k3v4, turboquant_3bit_nc, turboquant_4bit_nc, "
                "turboquant_k3v4_nc, turboquant_k8v4, ultraquant_4bit"
            )
        ],
    ),
    (
        "kv-cache-dtype-model",
        NEW,
        ["--model", "x", "--kv-cache-dtype", "float16", "--dtype", "bfloat16"],
        X,
        [
            (
                '"kv_cache_dtype="float16" is incompatible with dtype="bfloat16"." (args[2]); set '
                "`--kv-cache-dtype` to `auto` or `bfloat16`"
            )
        ],
    ),
    (
        "offload-group",
        NEW,
        ["--model", "x", "--offload-group-size", "1", "--offload-num-in-group", "2"],
        X,
        [
            (
                '"offload_num_in_group (2) must be <= offload_group_size (1)" (args[2]); set a larger '
                "`--offload-group-size`"
            )
        ],
    ),
    (
        "mamba-block-size",
        "0.23.0",
        ["--model", "mamba", "--mamba-block-size", "8", "--no-enable-prefix-caching"],
        {},
        [
            (
                '"--mamba-block-size can only be set with --enable-prefix-caching" (args[2]); add '
                "`--enable-prefix-caching`, or remove `--mamba-block-size`"
            )
        ],
    ),
    (
        "batched-tokens-below-sequences",
        NEW,
        ["--model", "x", "--max-num-seqs", "256", "--max-num-batched-tokens", "128"],
        X,
        [
            (
                '"max_num_batched_tokens (128) must be greater than or equal to max_num_seqs (256)." '
                "(args[2]); raise `--max-num-batched-tokens` or lower `--max-num-seqs`"
            )
        ],
    ),
    (
        "long-prefill-threshold",
        NEW,
        ["--model", "x", "--long-prefill-token-threshold", "5000"],
        X,
        [
            (
                '"long_prefill_token_threshold (5000) cannot be greater than the max_model_len (4096)." '
                "(args[2]); lower `--long-prefill-token-threshold`"
            )
        ],
    ),
    (
        "chunked-prefill-off",
        "0.23.0",
        ["--model", "x", "--no-enable-chunked-prefill", "--max-num-batched-tokens", "2048"],
        X,
        [
            (
                '"max_num_batched_tokens (2048) is smaller than max_model_len (4096). This effectively '
                "limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject "
                'longer sequences." (args[2]); raise `--max-num-batched-tokens`, lower `--max-model-len`, '
                "or remove `--no-enable-chunked-prefill`"
            )
        ],
    ),
    (
        "concurrent-partial-prefills",
        "0.26.0",
        ["--model", "x", "--max-num-partial-prefills", "2"],
        X,
        [('"Concurrent Partial Prefill is not supported." (args[2]); remove `--max-num-partial-prefills`')],
    ),
    (
        "concurrent-long-prefills",
        "0.26.0",
        ["--model", "x", "--max-long-partial-prefills", "2"],
        X,
        [('"Concurrent Partial Prefill is not supported." (args[2]); remove `--max-long-partial-prefills`')],
    ),
    (
        "no-sequences",
        NEW,
        ["--model", "x", "--max-num-seqs", "0"],
        X,
        [
            (
                '"SchedulerConfig: max_num_seqs: Input should be greater than or equal to 1" (args[2]); '
                "set `--max-num-seqs` to 1 or more"
            )
        ],
    ),
    (
        "no-batched-tokens",
        NEW,
        ["--model", "x", "--max-num-batched-tokens", "0"],
        X,
        [
            (
                '"SchedulerConfig: max_num_batched_tokens: Input should be greater than or equal to 1" '
                "(args[2]); set `--max-num-batched-tokens` to 1 or more"
            )
        ],
    ),
    (
        "async-speculation",
        "0.31.0",
        ["--model", "x", "--async-scheduling", *spec(method="ngram", num_speculative_tokens=2)],
        X,
        [
            (
                '"Currently, async scheduling is only supported with EAGLE/MTP/Draft Model/NGram GPU kind '
                'of speculative decoding" (args[2]); remove `--async-scheduling`'
            )
        ],
    ),
    (
        "async-unpadded",
        "0.31.0",
        [
            "--model",
            "dense",
            "--async-scheduling",
            *spec(model="eagle3-draft", num_speculative_tokens=2, disable_padded_drafter_batch=True),
        ],
        {},
        [
            (
                '"Async scheduling is not compatible with disable_padded_drafter_batch=True." (args[2]); '
                "remove `--async-scheduling` or `disable_padded_drafter_batch`"
            )
        ],
    ),
    (
        "async-speculation-on-v1",
        NEW,
        ["--model", "x", "--async-scheduling", *spec(method="ngram", num_speculative_tokens=2)],
        {**X, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
        [
            (
                '"Async scheduling is not supported by the V1 model runner with ngram-based speculative '
                'decoding." (args[2]); remove `--async-scheduling`, or choose V2'
            )
        ],
    ),
    (
        "async-unpadded-on-v1",
        NEW,
        [
            "--model",
            "dense",
            "--async-scheduling",
            *spec(model="eagle3-draft", num_speculative_tokens=2, disable_padded_drafter_batch=True),
        ],
        {"env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
        [
            (
                '"Async scheduling is not supported by the V1 model runner with '
                'disable_padded_drafter_batch=True." (args[2]); remove `--async-scheduling` or '
                "`disable_padded_drafter_batch`, or choose V2"
            )
        ],
    ),
    (
        "async-pipeline-on-v1",
        NEW,
        ["--model", "x", "--async-scheduling", "-pp", "2"],
        {**X, "env": {"VLLM_USE_V2_MODEL_RUNNER": "0"}},
        [
            (
                '"Async scheduling is not supported by the V1 model runner with pipeline parallelism." '
                "(args[2]); remove `--async-scheduling`, use one pipeline stage, or choose V2"
            )
        ],
    ),
    (
        "tool-choice-without-parser",
        "0.23.0",
        ["--model", "x", "--enable-auto-tool-choice"],
        X,
        [('"Error: --enable-auto-tool-choice requires --tool-call-parser" (args[2]); add `--tool-call-parser`')],
    ),
    (
        "tool-parser-unknown",
        "0.23.0",
        ["--model", "x", "--enable-auto-tool-choice", "--tool-call-parser", "own"],
        X,
        [
            (
                '"invalid tool call parser: own" (args[3]); set one of apertus, cohere_command3, '
                "cohere_command4, deepseek_v3, deepseek_v31, deepseek_v32, deepseek_v4, ernie45, "
                "functiongemma, gemma4, gigachat3, glm45, glm47, granite, granite-20b-fc, granite4, "
                "hermes, hunyuan_a13b, hy_v3, internlm, jamba, kimi_k2, lfm2, llama3_json, llama4_json, "
                "llama4_pythonic, longcat, mimo, minicpm5, minimax, minimax_m2, mistral, olmo3, openai, "
                "phi4_mini_json, poolside_v1, pythonic, qwen3_coder, qwen3_xml, seed_oss, step3, step3p5, "
                "xlam"
            )
        ],
    ),
    (
        "reasoning-parser-unknown",
        NEW,
        ["--model", "x", "--reasoning-parser", "own"],
        X,
        [
            (
                '"invalid reasoning parser: own" (args[2]); set one of beam, cohere_command3, '
                "cohere_command4, deepseek_r1, deepseek_v3, deepseek_v4, deepseek_v41, ernie45, gemma4, "
                "glm45, glm47, granite, granite_thinking_parser, hf, holo2, hunyuan_a13b, hy_v3, hy_v4, "
                "inkling, k2_horizon, kimi_k2, kimi_k3, ling3, mimo, minicpmv, minimax_m2, "
                "minimax_m2_append_think, minimax_m3, mistral, muse, muse_glimmer, musespark1x, "
                "nemotron_v3, olmo3, openai_gptoss, plamo3, poolside_v1, qwen3, seed_oss, step3, step3p5, "
                "step5"
            )
        ],
    ),
    (
        "log-outputs",
        NEW,
        ["--model", "x", "--enable-log-outputs"],
        X,
        [('"Error: --enable-log-outputs requires --enable-log-requests" (args[2]); add `--enable-log-requests`')],
    ),
    *(
        (
            "port-is-uri",
            release,
            ["--model", "x"],
            {**X, "env": {"VLLM_PORT": "tcp://10.0.0.1:8000"}},
            [
                (
                    "\"VLLM_PORT 'tcp://10.0.0.1:8000' appears to be a URI. This may be caused by a Kubernetes service "
                    'discovery issue"; set it to a number, or remove it; if Kubernetes sets it for a Service named '
                    "`vllm`, rename the Service or set `enableServiceLinks: false`"
                )
            ],
        )
        for release in ("0.20.0", NEW)
    ),
    (
        "detailed-traces",
        NEW,
        ["--model", "x", "--collect-detailed-traces", "all"],
        X,
        [
            (
                '"collect_detailed_traces requires `--otlp-traces-endpoint` to be set." (args[2]); add '
                "`--otlp-traces-endpoint`, or remove `--collect-detailed-traces`"
            )
        ],
    ),
    (
        "whitespace-backend",
        NEW,
        ["--model", "x", "--structured-outputs-config", '{"backend": "outlines", "disable_any_whitespace": true}'],
        X,
        [
            (
                '"disable_any_whitespace is only supported for xgrammar and guidance backends." '
                '(args[2]); add `"backend": "xgrammar"`'
            )
        ],
    ),
    (
        "kv-connector-unknown",
        NEW,
        ["--model", "x", "--kv-transfer-config", '{"kv_connector": "SharedStorageConnector", "kv_role": "kv_both"}'],
        X,
        [
            (
                '"Unsupported connector type: SharedStorageConnector" (args[2]); set one of '
                "DecodeBenchConnector, ExampleConnector, ExampleHiddenStatesConnector, FlexKVConnectorV1, "
                "HF3FSKVConnector, HiSparseConnector, LMCacheConnectorV1, LMCacheMPConnector, "
                "MoRIIOConnector, MooncakeConnector, MooncakeStoreConnector, MultiConnector, "
                "NixlConnector, NixlPullConnector, NixlPushConnector, OffloadingConnector, "
                "SimpleCPUOffloadConnector, or `kv_connector_module_path`"
            )
        ],
    ),
    (
        "kv-role-missing",
        NEW,
        ["--model", "x", "--kv-transfer-config", '{"kv_connector": "NixlConnector"}'],
        X,
        [
            (
                '"Please specify kv_role when kv_connector is set, supported roles are kv_producer, '
                'kv_both, kv_consumer" (args[2]); add `"kv_role": "kv_both"`'
            )
        ],
    ),
    (
        "method-unsupported",
        NEW,
        ["--model", "x", *spec(method="mtp", num_speculative_tokens=1)],
        X,
        [
            (
                "\"Unsupported speculative method: 'mtp'\" (args[2]); name a draft model for this method, "
                "or remove `--speculative-config`: the model has no such draft of its own"
            )
        ],
    ),
    (
        "tokens-missing",
        NEW,
        ["--model", "x", *spec(model="draft")],
        X,
        [
            (
                '"A speculative model was provided, but `num_speculative_tokens` was not provided" '
                "(args[2]); add `num_speculative_tokens`"
            )
        ],
    ),
    *(
        ("tokens-required", release, ["--model", "x", *spec(method="ngram", prompt_lookup_max=4)], X, TOKENS_REQUIRED)
        for release in ("0.20.0", "0.23.0", "0.28.0", NEW)
    ),
    *(
        ("tokens-required", release, ["--model", "x", *spec(method="mtp")], {"models": {"x": mtp(1)}}, TOKENS_REQUIRED)
        for release in ("0.23.0", "0.28.0", NEW)
    ),
    *(
        ("tokens-required", NEW, ["--model", "x", *spec(**fields)], X, TOKENS_REQUIRED)
        for fields in (
            {"model": "[ngram]"},
            {"model": "own.Proposer"},
            {"method": "extract_hidden_states"},
            {"method": "eagle3"},
            {"method": "dspark"},
        )
    ),
    *(
        (
            "tokens-of-draft-layers",
            release,
            ["--model", "x", *spec(method="mtp", num_speculative_tokens=3)],
            {"models": {"x": mtp(2)}},
            [
                (
                    '"num_speculative_tokens:3 must be divisible by n_predict=2" (args[2]); set it to a multiple of 2, '
                    "or to less"
                )
            ],
        )
        for release in ("0.20.0", "0.23.0", NEW)
    ),
    *(
        (
            "draft-tensor-parallel-name",
            release,
            ["--model", "x", *spec(method="ngram", num_speculative_tokens=3, tensor_parallel_size=1)],
            X,
            [
                (
                    "\"'tensor_parallel_size' is not a valid argument in the speculative_config. Please pass "
                    "'draft_tensor_parallel_size' instead.\" (args[2]); rename it to `draft_tensor_parallel_size`, or "
                    "remove it"
                )
            ],
        )
        for release in ("0.20.0", NEW)
    ),
    *(
        (
            "adaptive-method",
            release,
            ["--model", "x", *spec(method="ngram", num_speculative_tokens=3, enable_adaptive_verification=True)],
            X,
            ONLY_DSPARK,
        )
        for release in ("0.28.0", "0.29.0")
    ),
    (
        "adaptive-argmax",
        "0.30.0",
        [
            *("--model", "x"),
            *spec(
                method="ngram",
                num_speculative_tokens=3,
                enable_adaptive_verification=True,
                use_local_argmax_reduction=True,
            ),
        ],
        X,
        [
            (
                '"Adaptive verification estimates per-position acceptance from the draft logits, which '
                'use_local_argmax_reduction never materializes. Disable one of them." (args[2]); remove one of them'
            )
        ],
    ),
    (
        "draft-tensor-parallel",
        "0.23.0",
        ["--model", "x", "-tp", "4", *spec(model="draft", num_speculative_tokens=1, draft_tensor_parallel_size=2)],
        {"models": {"x": {**SIZED, "vocab_size": 1000}, "draft": {**MODELS["draft"], "vocab_size": 1000}}},
        [
            (
                '"speculative_draft_tensor_parallel_size=2 cannot be other value than 1 or target model '
                'tensor_parallel_size" (args[4]); set it to 1 or 4'
            )
        ],
    ),
    (
        "prompt-lookup",
        "0.23.0",
        ["--model", "x", *spec(method="ngram", num_speculative_tokens=2, prompt_lookup_min=5, prompt_lookup_max=2)],
        X,
        [
            (
                '"prompt_lookup_min=5 must be <= prompt_lookup_max=2" (args[2]); raise '
                "`prompt_lookup_max` or lower `prompt_lookup_min`"
            )
        ],
    ),
    (
        "draft-vocabulary",
        NEW,
        ["--model", "x", *spec(model="draft", num_speculative_tokens=1)],
        {"models": {"x": SIZED, "draft": {**OTHER, "num_attention_heads": 32}}},
        [
            (
                '"Target and draft model should have the same vocabulary size. Target model '
                'vocab_size=1000. Draft model vocab_size=999." (args[2]); use a draft of the same family '
                "as the model"
            )
        ],
    ),
    (
        "draft-heads",
        NEW,
        ["--model", "x", "-tp", "4", *spec(model="draft", num_speculative_tokens=1)],
        {"models": {"x": SIZED, "draft": {**OTHER, "vocab_size": 1000}}},
        [
            (
                '"Total number of attention heads (14) must be divisible by tensor parallel size (4)." '
                '(args[4]); set `"draft_tensor_parallel_size": 1`, or a tensor parallel size that divides '
                "the heads of the draft"
            )
        ],
    ),
    (
        "draft-pipeline",
        "0.26.0",
        ["--model", "x", "-pp", "2", *spec(model="eagle", method="eagle3", num_speculative_tokens=1)],
        {"models": {"x": SIZED, "eagle": EAGLE}},
        [
            (
                '"Pipeline parallelism is not supported for this model. Supported models implement the `SupportsPP` '
                'interface." (args[4]); use one pipeline stage, a draft whose class supports them, or 0.30, in which a '
                "draft has one stage"
            )
        ],
    ),
    (
        "draft-length",
        NEW,
        ["--model", "x", *spec(model="draft", num_speculative_tokens=1, max_model_len=4096)],
        {"models": {"x": SIZED, "draft": {**OTHER, "vocab_size": 1000}}},
        [
            (
                '"User-specified max_model_len (4096) is greater than the derived max_model_len '
                "(max_position_embeddings=2048.0 or model_max_length=None in model's config.json).\" "
                '(args[2]); set `"max_model_len"` of the draft to at most 2048'
            )
        ],
    ),
    (
        "draft-architecture",
        "0.23.0",
        ["--model", "x", *spec(model="dflash-draft", method="eagle3", num_speculative_tokens=1)],
        {
            "models": {
                "x": SIZED,
                "dflash-draft": {**MODELS["draft"], "architectures": ["DFlashDraftModel"], "model_type": "qwen3"},
            }
        },
        [
            (
                '"Model architectures [Eagle3DFlashDraftModel] are not supported for now." (args[2]); '
                "check `method`: it does not fit this draft, or the release does not know the draft"
            )
        ],
    ),
    (
        "adaptive-lora",
        NEW,
        [
            "--model",
            "dense",
            "--enable-lora",
            *spec(model="eagle3-draft", num_speculative_tokens=1, enable_adaptive_verification=True),
        ],
        {},
        [
            (
                '"Adaptive verification is not currently compatible with LoRA" (args[2]); remove '
                "`--enable-lora` or `enable_adaptive_verification`"
            )
        ],
    ),
    (
        "adaptive-graphs",
        NEW,
        [
            "--model",
            "dense",
            "--enforce-eager",
            *spec(model="eagle3-draft", num_speculative_tokens=1, enable_adaptive_verification=True),
        ],
        {},
        [
            (
                '"Adaptive verification requires full CUDA graphs. Use cudagraph mode FULL, '
                'FULL_DECODE_ONLY, or FULL_AND_PIECEWISE, or disable adaptive verification." (args[2]); '
                "remove `--enforce-eager`"
            )
        ],
    ),
    (
        "adaptive-pipeline",
        NEW,
        [
            "--model",
            "dense",
            "-pp",
            "2",
            *spec(model="eagle3-draft", num_speculative_tokens=1, enable_adaptive_verification=True),
        ],
        {},
        [
            (
                '"Adaptive verification is not currently compatible with pipeline parallelism" (args[4]); '
                "use one pipeline stage, or remove `enable_adaptive_verification`"
            )
        ],
    ),
    (
        "watermark-draft-samples",
        NEW,
        ["--model", "dense", "--watermark-config", '{"key": 1}', *spec(method="ngram", num_speculative_tokens=2)],
        {},
        [
            (
                "\"Speculative decoding with watermarking requires draft_sample_method='probabilistic'.\" "
                '(args[2]); add `"draft_sample_method": "probabilistic"` to `--speculative-config`'
            )
        ],
    ),
    (
        "capture-sizes-twice",
        NEW,
        ["--model", "x", "--cudagraph-capture-sizes", "1", "--compilation-config", '{"cudagraph_capture_sizes": [1]}'],
        X,
        [
            (
                '"cudagraph_capture_sizes and compilation_config.cudagraph_capture_sizes are mutually '
                'exclusive" (args[2]); remove one of them'
            )
        ],
    ),
    (
        "capture-maximum-twice",
        NEW,
        [
            "--model",
            "x",
            "--max-cudagraph-capture-size",
            "8",
            "--compilation-config",
            '{"max_cudagraph_capture_size": 8}',
        ],
        X,
        [
            (
                '"max_cudagraph_capture_size and compilation_config.max_cudagraph_capture_size are '
                'mutually exclusive" (args[2]); remove one of them'
            )
        ],
    ),
    (
        "capture-maximum",
        "0.23.0",
        ["--model", "x", "--max-cudagraph-capture-size", "4", "--cudagraph-capture-sizes", "1", "8"],
        X,
        [
            (
                '"customized max_cudagraph_capture_size(=4) should be consistent with the max value of '
                'cudagraph_capture_sizes" (args[4]); remove `--max-cudagraph-capture-size`'
            )
        ],
    ),
    (
        "attention-backend-twice",
        NEW,
        ["--model", "x", "--attention-backend", "FLASHINFER", "--attention-config", '{"backend": "FLASH_ATTN"}'],
        X,
        [('"attention_backend and attention_config.backend are mutually exclusive" (args[2]); remove one of them')],
    ),
    (
        "attention-backend-unknown",
        NEW,
        ["--model", "x", "--attention-backend", "own"],
        X,
        [
            (
                "\"Unknown attention backend: 'own'.\" (args[2]); set one of AMX_MLA, B12X, CPU_ATTN, "
                "CPU_MLA, CUSTOM, CUTLASS_MLA, CUTLASS_MSA, FLASHINFER, FLASHINFER_MLA, "
                "FLASHINFER_MLA_SPARSE, FLASHINFER_MLA_SPARSE_DSV4, FLASHINFER_MLA_SPARSE_DSV41, "
                "FLASHINFER_MLA_SPARSE_SM120, FLASHINFER_MLA_SPARSE_SM90, FLASHMLA, "
                "FLASHMLA_MEGA_ATTN_DSV41, FLASHMLA_SPARSE, FLASHMLA_SPARSE_DSV4, FLASHMLA_SPARSE_DSV41, "
                "FLASH_ATTN, FLASH_ATTN_DIFFKV, FLASH_ATTN_MLA, FLASH_ATTN_MLA_SPARSE, "
                "FLASH_ATTN_MLA_SPARSE_FA4, FLEX_ATTENTION, HPC_ATTN, MINIMAX_M3_SPARSE, NO_ATTENTION, "
                "ROCM_AITER_FA, ROCM_AITER_MLA, ROCM_AITER_MLA_SPARSE, ROCM_AITER_TRITON_MLA, "
                "ROCM_AITER_UNIFIED_ATTN, ROCM_ATTN, ROCM_FLASHMLA_SPARSE_DSV4, "
                "ROCM_FLASHMLA_SPARSE_DSV41, ROCM_OCTAVE, ROCM_SEGMENTED_ATTN, STEP5_DSA, TOKENSPEED_MLA, "
                "TORCH_SDPA, TRITON_ATTN, TRITON_ATTN_DIFFKV, TRITON_FLASHINFER, TRITON_FLASH_ATTN, "
                "TRITON_MLA, TRITON_MSA, TURBOQUANT, ULTRAQUANT, XPU_MLA_SPARSE"
            )
        ],
    ),
    (
        "attention-config-backend-unknown",
        NEW,
        ["--model", "x", "--attention-config", '{"backend": "OWN"}'],
        X,
        [
            (
                "\"Unknown attention backend: 'OWN'.\" (args[2]); set one of AMX_MLA, B12X, CPU_ATTN, "
                "CPU_MLA, CUSTOM, CUTLASS_MLA, CUTLASS_MSA, FLASHINFER, FLASHINFER_MLA, "
                "FLASHINFER_MLA_SPARSE, FLASHINFER_MLA_SPARSE_DSV4, FLASHINFER_MLA_SPARSE_DSV41, "
                "FLASHINFER_MLA_SPARSE_SM120, FLASHINFER_MLA_SPARSE_SM90, FLASHMLA, "
                "FLASHMLA_MEGA_ATTN_DSV41, FLASHMLA_SPARSE, FLASHMLA_SPARSE_DSV4, FLASHMLA_SPARSE_DSV41, "
                "FLASH_ATTN, FLASH_ATTN_DIFFKV, FLASH_ATTN_MLA, FLASH_ATTN_MLA_SPARSE, "
                "FLASH_ATTN_MLA_SPARSE_FA4, FLEX_ATTENTION, HPC_ATTN, MINIMAX_M3_SPARSE, NO_ATTENTION, "
                "ROCM_AITER_FA, ROCM_AITER_MLA, ROCM_AITER_MLA_SPARSE, ROCM_AITER_TRITON_MLA, "
                "ROCM_AITER_UNIFIED_ATTN, ROCM_ATTN, ROCM_FLASHMLA_SPARSE_DSV4, "
                "ROCM_FLASHMLA_SPARSE_DSV41, ROCM_OCTAVE, ROCM_SEGMENTED_ATTN, STEP5_DSA, TOKENSPEED_MLA, "
                "TORCH_SDPA, TRITON_ATTN, TRITON_ATTN_DIFFKV, TRITON_FLASHINFER, TRITON_FLASH_ATTN, "
                "TRITON_MLA, TRITON_MSA, TURBOQUANT, ULTRAQUANT, XPU_MLA_SPARSE"
            )
        ],
    ),
    (
        "flash-attention-version",
        NEW,
        ["--model", "x", "--attention-config", '{"flash_attn_version": 5}'],
        X,
        [
            (
                '"1 validation error for AttentionConfig flash_attn_version Input should be 2, 3 or 4" '
                "(args[2]); set 2, 3 or 4"
            )
        ],
    ),
    (
        "custom-ops-both",
        "0.23.0",
        ["--model", "x", "--compilation-config", '{"custom_ops": ["none", "all"]}'],
        X,
        ["\"Can only specify 'none' or 'all'\" (args[2]); remove one of them"],
    ),
    (
        "custom-op-syntax",
        NEW,
        ["--model", "x", "--compilation-config", '{"custom_ops": ["rms_norm"]}'],
        X,
        [
            (
                "\"Invalid syntax for custom op, must be 'all', 'none', '+op' or '-op' (where 'op' is the "
                'registered op name)" (args[2]); write `+op` or `-op`'
            )
        ],
    ),
    (
        "lora-cpu",
        NEW,
        ["--model", "x", "--enable-lora", "--max-loras", "4", "--max-cpu-loras", "2"],
        X,
        [('"max_cpu_loras (2) must be >= max_loras (4)." (args[5]); raise `--max-cpu-loras` or lower `--max-loras`')],
    ),
    (
        "lora-unsupported",
        NEW,
        ["--model", "x", "--enable-lora"],
        {"models": {"x": {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_head": 12}}},
        [
            (
                '"LoRA is not supported for GPT2LMHeadModel. Supported models implement the '
                '`SupportsLoRA` interface. Run this model without `enable_lora`." (args[2]); remove '
                "`--enable-lora`"
            )
        ],
    ),
    (
        "data-parallel-size-local",
        NEW,
        ["--model", "x", "-dp", "2", "--data-parallel-size-local", "4"],
        X,
        [
            (
                '"data_parallel_size_local (4) must be <= data_parallel_size (2)" (args[4]); set '
                "`--data-parallel-size` to the number of replicas on all nodes together"
            )
        ],
    ),
    (
        "data-parallel-rank-single",
        NEW,
        ["--model", "x", "--data-parallel-rank", "0"],
        X,
        [
            (
                '"data_parallel_external_lb can only be set when data_parallel_size > 1" (args[2]); set '
                "`--data-parallel-size` above 1, or remove `--data-parallel-rank`"
            )
        ],
    ),
    (
        "data-parallel-rank-range",
        NEW,
        ["--model", "moe", "-dp", "2", "--data-parallel-rank", "2"],
        {},
        ['"data_parallel_rank (2) must be in the range [0, 2)" (args[4]); set a rank from 0 to 1'],
    ),
    (
        "data-parallel-rank-dense",
        "0.21.0",
        ["--model", "x", "-dp", "2", "--data-parallel-rank", "0"],
        X,
        [
            (
                '"Non-MoE models do not support external data parallel mode. For external load balancing, '
                'launch independent vLLM instances without --data-parallel-* arguments." (args[4]); '
                "remove the `--data-parallel-…` flags"
            )
        ],
    ),
    (
        "data-parallel-external-dense",
        NEW,
        ["--model", "x", "-dp", "2", "--data-parallel-external-lb", "--nnodes", "2", "--node-rank", "0"],
        X,
        [
            (
                '"Non-MoE models do not support external data parallel mode. For external load balancing, '
                'launch independent vLLM instances without --data-parallel-* arguments." (args[4]); '
                "remove the `--data-parallel-…` flags"
            )
        ],
    ),
    *(
        (
            "data-parallel-variable-dense",
            release,
            ["--model", "x", *words],
            {**X, "env": {"VLLM_DP_SIZE": "2"}},
            [
                (
                    '"Offline data parallel mode is not supported/useful for dense models."; '
                    "remove `VLLM_DP_SIZE` (2), and start independent instances for more replicas"
                )
            ],
        )
        for release in ("0.20.0", "0.23.0", NEW)
        for words in ([], ["-dp", "1"])
    ),
    (
        "data-parallel-rank-local",
        "0.26.0",
        ["--model", "moe", "-dp", "2", "--data-parallel-rank", "0", "--data-parallel-size-local", "2"],
        {},
        [
            (
                '"data_parallel_size_local must be 1 or None when data_parallel_rank is set" (args[4]); '
                "set `--data-parallel-size-local` to 1, or remove it"
            )
        ],
    ),
    (
        "data-parallel-rank-local",
        NEW,
        ["--model", "moe", "-dp", "2", "--data-parallel-rank", "0", "--data-parallel-size-local", "2"],
        {},
        [
            (
                '"an external data-parallel rank requires `--data-parallel-size-local 1`; got 2." '
                "(args[4]); set `--data-parallel-size-local` to 1, or remove it"
            )
        ],
    ),
    (
        "data-parallel-external-rank",
        "0.26.0",
        ["--model", "moe", "--data-parallel-external-lb"],
        {},
        [
            (
                '"data_parallel_rank or node_rank must be specified if data_parallel_external_lb is '
                'enable." (args[2]); set `--data-parallel-rank`'
            )
        ],
    ),
    (
        "data-parallel-external-rank",
        NEW,
        ["--model", "moe", "--data-parallel-external-lb"],
        {},
        [('"`--data-parallel-external-lb` requires a data-parallel rank." (args[2]); set `--data-parallel-rank`')],
    ),
    (
        "data-parallel-hybrid-local",
        "0.26.0",
        ["--model", "moe", "--data-parallel-hybrid-lb"],
        {},
        [
            (
                '"data_parallel_size_local must be set to use data_parallel_hybrid_lb." (args[2]); set '
                "`--data-parallel-size-local`"
            )
        ],
    ),
    (
        "data-parallel-hybrid-local",
        NEW,
        ["--model", "moe", "--data-parallel-hybrid-lb"],
        {},
        [
            (
                '"`--data-parallel-hybrid-lb` requires `--data-parallel-size-local`." (args[2]); set '
                "`--data-parallel-size-local`"
            )
        ],
    ),
    (
        "eplb-without-ep",
        NEW,
        ["--model", "moe", "--enable-eplb"],
        {},
        [
            (
                '"enable_expert_parallel must be True to use EPLB." (args[2]); add '
                "`--enable-expert-parallel`, or remove `--enable-eplb`"
            )
        ],
    ),
    (
        "eplb-one-device",
        "0.25.1",
        ["--model", "moe", "--enable-eplb", "--enable-expert-parallel"],
        {},
        [
            (
                '"EPLB requires tensor_parallel_size or data_parallel_size to be greater than 1, but got '
                'TP=1, DP=1." (args[2]); set `--tensor-parallel-size` or `--data-parallel-size` above 1, '
                "or remove `--enable-eplb`"
            )
        ],
    ),
    (
        "eplb-one-device",
        NEW,
        ["--model", "moe", "--enable-eplb", "--enable-expert-parallel"],
        {},
        [
            (
                '"EPLB requires tensor, prefill-context, or data parallelism, but got TP=1, PCP=1, DP=1." '
                "(args[2]); set `--tensor-parallel-size` or `--data-parallel-size` above 1, or remove "
                "`--enable-eplb`"
            )
        ],
    ),
    (
        "redundant-experts-without-eplb",
        NEW,
        ["--model", "moe", "--eplb-config", '{"num_redundant_experts": 4}'],
        {},
        [
            (
                '"num_redundant_experts is set to 4 but EPLB is not enabled. Either enable EPLB or unset '
                'num_redundant_experts." (args[2]); add `--enable-eplb`, or remove '
                "`num_redundant_experts`"
            )
        ],
    ),
    (
        "elastic-without-eplb",
        NEW,
        ["--model", "moe", "--enable-elastic-ep"],
        {},
        [
            (
                '"Elastic EP is only supported with enable_eplb=True." (args[2]); add `--enable-eplb`, or '
                "remove `--enable-elastic-ep`"
            )
        ],
    ),
    (
        "elastic-pipeline",
        NEW,
        ["--model", "moe", "--enable-elastic-ep", "--enable-eplb", "--enable-expert-parallel", "-tp", "2", "-pp", "2"],
        {},
        [
            (
                '"Elastic EP is not supported with pipeline parallelism (pipeline_parallel_size=2)." '
                "(args[2]); remove `--pipeline-parallel-size` or `--enable-elastic-ep`"
            )
        ],
    ),
    (
        "decode-context-divides-tensor",
        "0.23.0",
        ["--model", "mla", "-tp", "3", "-dcp", "2"],
        {"models": {"mla": {**MODELS["mla"], "num_attention_heads": 33}}},
        [
            (
                '"tp_size=3 must be divisible by dcp_size=2." (args[4]); set '
                "`--decode-context-parallel-size` to a divisor of the tensor parallel size"
            )
        ],
    ),
    (
        "decode-context-divides-tensor",
        NEW,
        ["--model", "x", "-tp", "1", "-dcp", "2"],
        X,
        [
            "decode context parallelism needs a tensor parallel size above its 8 KV heads, got 1",
            (
                '"tp_size=1 must be divisible by dcp_size=2." (args[4]); set '
                "`--decode-context-parallel-size` to a divisor of the tensor parallel size"
            ),
        ],
    ),
    (
        "nodes-divide-world",
        NEW,
        ["--model", "x", "-tp", "1", "--nnodes", "2"],
        X,
        [
            (
                '"`--nnodes 2` must evenly divide the total world size" (args[4]); set parallel sizes '
                "whose product is a multiple of the nodes"
            )
        ],
    ),
    (
        "executor-unknown",
        NEW,
        ["--model", "x", "--distributed-executor-backend", "own"],
        X,
        [
            (
                '"not enough values to unpack (expected 2, got 1)" (args[2]); set '
                "`--distributed-executor-backend` to `mp`, `ray`, `uni` or `external_launcher`, or to a "
                "class's path with dots"
            )
        ],
    ),
    (
        "numa-nodes-without-binding",
        NEW,
        ["--model", "x", "--numa-bind-nodes", "0"],
        X,
        [('"numa_bind_nodes and numa_bind_cpus require numa_bind=True." (args[2]); add `--numa-bind`')],
    ),
    (
        "routed-experts-pooling",
        "0.31.0",
        ["--model", "pooling", "--enable-return-routed-experts"],
        {},
        [('"AuxOutput Connector only supports generate runners." (args[2]); remove `--enable-return-routed-experts`')],
    ),
    (
        "routed-experts-dense",
        "0.31.0",
        ["--model", "dense", "--enable-return-routed-experts"],
        {},
        [
            (
                '"AuxOutput Connector only supports MoE models." (args[2]); remove '
                "`--enable-return-routed-experts`: the model has no experts"
            )
        ],
    ),
    (
        "routed-experts-prefix-caching",
        NEW,
        ["--model", "moe", "--enable-return-routed-experts", "--no-enable-prefix-caching"],
        {},
        [
            (
                '"AuxOutput Connector requires prefix caching." (args[2]); remove `--no-enable-prefix-caching`, '
                "or `--enable-return-routed-experts`"
            )
        ],
    ),
    (
        "routed-experts-pipeline",
        "0.22.0",
        ["--model", "moe", "--enable-return-routed-experts", "-pp", "2"],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with pipeline parallelism (PP > 1)." (args[2]);'
                " use one pipeline stage, or remove `--enable-return-routed-experts`"
            )
        ],
    ),
    (
        "routed-experts-pipeline",
        NEW,
        ["--model", "moe", "--enable-return-routed-experts", "-pp", "2"],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with pipeline parallelism (PP > 1)." (args[2]);'
                " use one pipeline stage, or remove `--enable-return-routed-experts`"
            )
        ],
    ),
    (
        "routed-experts-context",
        "0.30.0",
        ["--model", "moe", "--enable-return-routed-experts", "-pcp", "2"],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with context parallelism (DCP > 1 or PCP > 1)."'
                " (args[2]); remove the sizes of context parallelism, or `--enable-return-routed-experts`"
            )
        ],
    ),
    (
        "routed-experts-context",
        "0.31.0",
        ["--model", "mla", "--enable-return-routed-experts", "-pcp", "2"],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with context parallelism (DCP/PCP > 1)." '
                "(args[2]); remove the sizes of context parallelism, or `--enable-return-routed-experts`"
            )
        ],
    ),
    (
        "routed-experts-connector",
        "0.30.0",
        [
            "--model",
            "moe",
            "--enable-return-routed-experts",
            "--kv-transfer-config",
            '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}',
        ],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with KV connectors (PD disaggregation, KV cache'
                ' offload)." (args[2]); remove `--kv-transfer-config`, or `--enable-return-routed-experts`'
            )
        ],
    ),
    (
        "routed-experts-connector",
        "0.31.0",
        [
            "--model",
            "moe",
            "--enable-return-routed-experts",
            "--kv-transfer-config",
            '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',
        ],
        {},
        [
            (
                '"--enable-return-routed-experts is incompatible with NixlConnector; PD auxiliary output is not '
                'supported." (args[2]); remove `--kv-transfer-config`, or `--enable-return-routed-experts`'
            )
        ],
    ),
    (
        "batch-sharded-one-rank",
        "0.29.0",
        ["--model", "dense", "--enable-batch-sharded-sampling"],
        {},
        [
            (
                '"Batch-sharded sampling was explicitly enabled via the --enable-batch-sharded-sampling flag, '
                "but is not supported in this configuration for the following reason(s): tensor_parallel_size is"
                ' 1, so there is nothing to shard" (args[2]); remove `--enable-batch-sharded-sampling`'
            )
        ],
    ),
    (
        "batch-sharded-sequences",
        NEW,
        ["--model", "dense", "--enable-batch-sharded-sampling", "-tp", "4", "--max-num-seqs", "2"],
        {},
        [
            (
                '"Batch-sharded sampling was explicitly enabled via the --enable-batch-sharded-sampling flag, '
                "but is not supported in this configuration for the following reason(s): max_num_seqs (2) is "
                'below tensor_parallel_size (4)" (args[2]); raise `--max-num-seqs`, or remove '
                "`--enable-batch-sharded-sampling`"
            )
        ],
    ),
    (
        "kv-connector-expandable-segments",
        "0.21.0",
        ["--model", "dense", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}},
        [
            (
                '"KV connector NixlConnector is incompatible with '
                'PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True unless enable_sleep_mode is also enabled." '
                "(args[2]); remove `expandable_segments:True` from PYTORCH_CUDA_ALLOC_CONF, or add "
                "`--enable-sleep-mode`"
            ),
        ],
    ),
    (
        "kv-connector-expandable-segments",
        NEW,
        ["--model", "dense", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}},
        [
            (
                '"KV connector NixlConnector is incompatible with '
                "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True unless enable_cumem_allocator is also "
                'enabled." (args[2]); remove `expandable_segments:True` from PYTORCH_CUDA_ALLOC_CONF, or add '
                "`--enable-sleep-mode`"
            ),
        ],
    ),
    (
        "encoder-producer-text",
        "0.29.0",
        [
            "--model",
            "dense",
            "--ec-transfer-config",
            '{"ec_connector": "ECExampleConnector", "ec_role": "ec_producer"}',
        ],
        {},
        [
            (
                '"An EC producer-only instance requires a multimodal model." (args[2]); remove '
                "`--ec-transfer-config`, or serve a multimodal model"
            ),
        ],
    ),
    (
        "draft-missing",
        "0.23.0",
        ["--model", "dense", "--speculative-config", '{"method": "eagle3", "num_speculative_tokens": 3}'],
        {},
        [
            (
                '"num_speculative_tokens was provided but without speculative model." (args[2]); add `"model"`: '
                "the method eagle3 needs a draft"
            ),
        ],
    ),
    (
        "heterogeneous-vocabulary",
        "0.25.0",
        [
            "--model",
            "dense",
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 3, "use_heterogeneous_vocab": true}',
        ],
        {},
        [
            (
                "\"use_heterogeneous_vocab only works with method='draft_model'\" (args[2]); remove "
                "`use_heterogeneous_vocab`"
            ),
        ],
    ),
    (
        "fast-prefill-draft",
        "0.23.0",
        [
            "--model",
            "mla",
            "--kv-sharing-fast-prefill",
            "--speculative-config",
            '{"method": "mtp", "num_speculative_tokens": 1}',
        ],
        {},
        [
            (
                '"Fast prefill optimization for KV sharing is not compatible with EAGLE as EAGLE requires '
                'correct logits for all tokens while fast prefill gives incorrect logits for prompt tokens." '
                "(args[2]); remove `--kv-sharing-fast-prefill`"
            ),
        ],
    ),
    (
        "draft-metrics",
        "0.29.0",
        ["--model", "dense", "--per-request-spec-decode-metrics", "summary"],
        {},
        [
            (
                '"--per-request-spec-decode-metrics requires speculative decoding to be enabled (via '
                '--speculative-config)." (args[2]); remove `--per-request-spec-decode-metrics`, or add '
                "`--speculative-config`"
            ),
        ],
    ),
    (
        "lora-speculation",
        NEW,
        [
            "--model",
            "dense",
            "--enable-lora",
            "--max-num-batched-tokens",
            "512",
            "--max-num-seqs",
            "256",
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 3}',
        ],
        {},
        [
            (
                '"Consider increasing max_num_batched_tokens or decreasing num_speculative_tokens" (args[3]); '
                "set `--max-num-batched-tokens` to at least 1024, or lower `--max-num-seqs` or "
                "`num_speculative_tokens`"
            ),
        ],
    ),
    (
        "nodes-executor",
        "0.23.0",
        ["--model", "dense", "-tp", "2", "--nnodes", "2", "--distributed-executor-backend", "ray"],
        {},
        [
            (
                '"nnodes > 1 can only be set when distributed executor backend is mp, uni or external_launcher."'
                " (args[4]); remove `--nnodes`: Ray finds the nodes, or remove `--distributed-executor-backend`"
            ),
        ],
    ),
    (
        "nodes-data-parallel-backend",
        "0.27.0",
        ["--model", "moe", "-dp", "2", "--nnodes", "2", "--data-parallel-backend", "ray"],
        {},
        [
            (
                '"Invalid data-parallel launch options: `--nnodes 2` requires `--data-parallel-backend mp`; got '
                '`--data-parallel-backend ray`." (args[4]); remove `--nnodes` or `--data-parallel-backend`'
            ),
        ],
    ),
    (
        "data-parallel-two-balancers",
        NEW,
        [
            "--model",
            "moe",
            "-dp",
            "2",
            "--data-parallel-rank",
            "0",
            "--data-parallel-external-lb",
            "--data-parallel-hybrid-lb",
        ],
        {},
        [
            (
                '"Invalid data-parallel launch options: `--data-parallel-hybrid-lb` and '
                '`--data-parallel-external-lb` cannot be enabled together." (args[7]); remove one of them'
            ),
        ],
    ),
]
ACCEPTED: list[tuple[str, list[str], dict[str, Any]]] = [
    ("0.26.0", ["--model", "moe"], {"env": {"VLLM_DP_SIZE": "2"}}),
    (NEW, ["--model", "x"], {**X, "env": {"VLLM_DP_SIZE": "1"}}),
    (NEW, ["--model", "x", "-dp", "2"], {**X, "env": {"VLLM_DP_SIZE": "2"}}),
    (NEW, ["--model", "x", "--data-parallel-size-local", "0"], {**X, "env": {"VLLM_DP_SIZE": "2"}}),
    ("0.23.0", ["--model", "x", "--nnodes", "2", "-tp", "4"], X),
    ("0.23.0", ["--model", "x", "--quantization", "awq_marlin"], {"models": {"x": quantized("awq")}}),
    (NEW, ["--model", "x", "--quantization", "modelopt"], {"models": {"x": quantized("modelopt")}}),
    ("0.31.0", ["--model", "hybrid", "--no-enable-chunked-prefill", "--no-enable-prefix-caching"], {}),
    ("0.31.0", ["--model", "dense", "--no-enable-chunked-prefill", "--enable-prefix-caching"], {}),
    (NEW, ["--model", "x", "--max-cudagraph-capture-size", "8", "-cc", '{"cudagraph_capture_sizes": [1, 8]}'], X),
    (NEW, ["--model", "x", "--hf-overrides", '{"text_config": {"num_attention_heads": 32}}'], X),
    (
        NEW,
        ["--model", "x", "--hf-overrides", '{"text_config": {"max_position_embeddings": 65536}}'],
        {
            "models": {
                "x": {
                    "architectures": ["Qwen3VLForConditionalGeneration"],
                    "model_type": "qwen3_vl",
                    "text_config": {**SIZED, "model_type": "qwen3_vl_text"},
                }
            }
        },
    ),
    (
        "0.22.0",
        ["--model", "x"],
        {"models": {"x": {**CODE, "model_type": "molmo2", "auto_map": {"AutoConfig": "a.B"}}}},
    ),
    ("0.22.0", ["--model", "x"], {"models": {"x": {**CODE, "model_type": "muse_spark"}}}),
    (NEW, ["--model", "x", "--max-model-len", "4096"], X),
    ("0.23.0", ["--model", "x", "--max-model-len", "32768", "-tp", "8"], {"models": {"x": FLAT}}),
    (NEW, ["--model", "x", "--max-model-len", "8192"], {**X, "env": ALLOWED}),
    (NEW, ["--model", "x"], {**X, "env": {"VLLM_PORT": "8000"}}),
    (NEW, ["--model", "x"], {**X, "env": {"VLLM_PORT_8000_TCP": "tcp://10.0.0.1:8000"}}),
    ("0.23.0", ["--model", "x", "--max-model-len", "8192"], {"models": {"x": yarn(4.0)}}),
    (NEW, ["--model", "dense", "--max-model-len", "1m"], {}),
    (NEW, ["--model", "x", "--quantization", "gptq"], {**X, "files": {"x/quantize_config.json": "{}"}}),
    ("0.23.0", ["--model", "x", "--quantization", "gptq_marlin"], {"models": {"x": quantized("gptq")}}),
    (NEW, ["--model", "x", "--quantization", "fp8"], X),
    (NEW, ["--model", "x", "--max-model-len", "512", "--max-num-batched-tokens", "512"], {"models": {"x": BERT}}),
    (NEW, ["--model", "x", "--max-model-len", "512", "--max-num-batched-tokens", "256"], X),
    (NEW, ["--model", "x", "--dtype", "float32"], {"models": {"x": quantized("compressed-tensors")}}),
    (NEW, ["--model", "x", "--dtype", "half"], {"models": {"x": quantized("fp8")}}),
    ("0.23.0", ["--model", "x", "--dtype", "half", "--quantization", "awq"], {"models": {"x": quantized("awq")}}),
    ("0.23.0", ["--model", "x", "--dtype", "bfloat16"], {"models": {"x": quantized("awq")}}),
    ("0.24.0", ["--model", "x", "--dtype", "bfloat16", "--quantization", "awq"], {"models": {"x": quantized("awq")}}),
    ("0.32.0", ["--model", "x", "--enable-lora"], {"models": {"x": {"architectures": ["GPT2LMHeadModel"]}}}),
    (NEW, ["--model", "x", "--trust-remote-code"], {"models": {"x": {**CODE, "auto_map": {"AutoConfig": "a.B"}}}}),
    (
        NEW,
        ["--model", "x", "--enable-auto-tool-choice", "--tool-call-parser", "own", "--tool-parser-plugin", "a.py"],
        X,
    ),
    (NEW, ["--model", "x", "--collect-detailed-traces", "all", "--otlp-traces-endpoint", "http://a:4317"], X),
    ("0.23.0", ["--model", "x", "--long-prefill-token-threshold", "5000"], X),
    (NEW, ["--model", "x", "--attention-backend", "flash_attn"], X),
    (NEW, ["--model", "x", "--async-scheduling", *spec(method="ngram", num_speculative_tokens=2)], X),
    (NEW, ["--model", "x", "--async-scheduling", "-pp", "2"], X),
    (NEW, ["--model", "x", "--distributed-executor-backend", "own.Executor"], X),
    (
        NEW,
        [
            "--model",
            "x",
            "--kv-transfer-config",
            '{"kv_connector": "A", "kv_role": "kv_both", "kv_connector_module_path": "a"}',
        ],
        X,
    ),
    (NEW, ["--model", "x", "--max-model-len", "${LENGTH}"], X),
    ("0.30.0", ["--model", "dense", "--enable-return-routed-experts"], {}),
    ("0.21.0", ["--model", "moe", "--enable-return-routed-experts", "-pp", "2"], {}),
    ("0.27.0", ["--model", "mla", "--enable-return-routed-experts", "-tp", "4", "-dcp", "2"], {}),
    (
        "0.31.0",
        [
            "--model",
            "moe",
            "--enable-return-routed-experts",
            "--kv-transfer-config",
            '{"kv_connector": "OffloadingConnector", "kv_role": "kv_both"}',
        ],
        {},
    ),
    (NEW, ["--model", "moe", "--enable-return-routed-experts", "--enable-prefix-caching"], {}),
    (NEW, ["--model", "dense", "--enable-batch-sharded-sampling", "-tp", "4", "--max-num-seqs", "4"], {}),
    (NEW, ["--model", "dense", "--no-enable-batch-sharded-sampling"], {}),
    (
        "0.20.2",
        ["--model", "dense", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}},
    ),
    (
        "0.32.0",
        [
            "--model",
            "dense",
            "--enable-sleep-mode",
            "--kv-transfer-config",
            '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}',
        ],
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "max_split_size_mb:128,expandable_segments:True"}},
    ),
    (
        NEW,
        ["--model", "dense", "--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'],
        {"env": {"PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:False"}},
    ),
    (
        NEW,
        [
            "--model",
            "vision",
            "--ec-transfer-config",
            '{"ec_connector": "ECExampleConnector", "ec_role": "ec_producer"}',
        ],
        {},
    ),
    (
        NEW,
        [
            "--model",
            "dense",
            "--ec-transfer-config",
            '{"ec_connector": "ECExampleConnector", "ec_role": "ec_consumer"}',
        ],
        {},
    ),
    (NEW, ["--model", "mla", "--speculative-config", '{"method": "deepseek_mtp", "num_speculative_tokens": 1}'], {}),
    (
        NEW,
        [
            "--model",
            "dense",
            "--speculative-config",
            '{"method": "draft_model", "model": "draft", "num_speculative_tokens": 3, "use_heterogeneous_vocab": true}',
        ],
        {},
    ),
    (
        NEW,
        [
            "--model",
            "dense",
            "--kv-sharing-fast-prefill",
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 1}',
        ],
        {},
    ),
    (NEW, ["--model", "dense", "--per-request-spec-decode-metrics", "none"], {}),
    (NEW, ["--model", "dense", *spec(method="suffix")], {}),
    *(
        (release, ["--model", "x", *spec(method="mtp", model="x")], {"models": {"x": mtp(1)}})
        for release in ("0.23.0", NEW)
    ),
    *(
        (NEW, ["--model", "x", *spec(method="mtp", num_speculative_tokens=tokens)], {"models": {"x": mtp(layers)}})
        for tokens, layers in ((3, 1), (3, 4), (4, 2))
    ),
    (
        NEW,
        ["--model", "dense", *spec(method="ngram", num_speculative_tokens=3, enable_adaptive_verification=True)],
        {},
    ),
    (
        NEW,
        [
            "--model",
            "dense",
            "--enable-lora",
            "--max-num-batched-tokens",
            "1024",
            "--max-num-seqs",
            "256",
            "--speculative-config",
            '{"method": "ngram", "num_speculative_tokens": 3}',
        ],
        {},
    ),
    ("0.23.0", ["--model", "dense", "-tp", "2", "--nnodes", "2", "--distributed-executor-backend", "mp"], {}),
    ("0.26.0", ["--model", "moe", "-dp", "2", "--nnodes", "2", "--data-parallel-backend", "ray"], {}),
]

BOUNDS: list[tuple[str, list[str], list[str]]] = [
    (
        NEW,
        ["--model", "dense", "--gpu-memory-utilization", "90"],
        ['"CacheConfig: gpu_memory_utilization: Input should be less than or equal to 1" (args[2]); got `90.0`'],
    ),
    (
        "0.23.0",
        ["--model", "dense", *spec(method="ngram", num_speculative_tokens=0)],
        ['"SpeculativeConfig: num_speculative_tokens: Input should be greater than 0" (args[2]); got `0`'],
    ),
    (NEW, ["--model", "dense", "--max-loras", "0"], []),
    (
        NEW,
        ["--model", "dense", "--enable-lora", "--max-loras", "0"],
        ['"LoRAConfig: max_loras: Input should be greater than or equal to 1" (args[3]); got `0`'],
    ),
    ("0.22.0", ["--model", "dense", "--max-logprobs", "-5"], []),
]


def ids(rows: list[Any]) -> list[str]:
    return [" ".join(str(part) if type(part) is str else " ".join(part) for part in row[:3]) for row in rows]


@table(("check", "release", "args", "fields", "expected"), REFUSED, ids=[f"{r[0]} {r[1]}" for r in REFUSED])
def test_a_refused_configuration_is_named_in_the_words_of_vllm(
    ask: Asking, check: str, release: str, args: list[str], fields: dict[str, Any], expected: list[str]
) -> None:
    decision = ask(args, release, upstream=False, **dict(fields))
    assert decision.launch_errors == [f"{BEFORE}{message}" for message in expected], check
    assert not decision.starts


@table(("release", "args", "fields"), ACCEPTED, ids=[f"{r[0]} {' '.join(r[1])}" for r in ACCEPTED])
def test_what_vllm_accepts_is_not_refused(ask: Asking, release: str, args: list[str], fields: dict[str, Any]) -> None:
    decision = ask(args, release, upstream=False, **dict(fields))
    assert (decision.launch_errors, decision.starts) == ([], True)


@pytest.mark.parametrize(("release", "args", "expected"), BOUNDS, ids=[f"{r[0]} {' '.join(r[1])}" for r in BOUNDS])
def test_numbers_are_within_the_bounds_of_their_class(
    ask: Asking, release: str, args: list[str], expected: list[str]
) -> None:
    decision = ask(args, release, upstream=False)
    assert decision.launch_errors == [f"{BEFORE}{message}" for message in expected]


@pytest.mark.parametrize("release", [NEW, "0.23.0"])
@pytest.mark.parametrize("written", slow_except(["FLAG $X"], ["FLAG $X", "FLAG=$X", 'FLAG "$(cat /x)"', "FLAG ${X}"]))
def test_a_value_that_is_not_known_is_never_refused_as_written(ask: Asking, release: str, written: str) -> None:
    refused = {}
    for flag in flags(release).by_name.values():
        if flag.constant is None and flag.dest not in {"model", "model_tag"}:
            try:
                decision = ask(f"vllm serve dense {written.replace('FLAG', flag.name)}", release, upstream=False)
            except RequestInvalid as error:
                found = [fault.message for fault in error.faults if "whose value is not known" not in fault.message]
            else:
                found = decision.launch_errors  # some are refused with any value
            if any("$" in message for message in found):
                refused[flag.name] = found
    assert refused == {}


NOT_CHECKED: Final = "`{}` is set to `{}` (args), whose value is not known; whether vLLM accepts it was not checked"
UNKNOWN_VALUES: list[tuple[str, str, str, str | None]] = [
    (NEW, "--max-model-len=$X", "--max-model-len", "$X"),
    (NEW, '--max-model-len "$(cat /x)"', "--max-model-len", "$(cat /x)"),
    (NEW, "--max-num-seqs 4 --max-num-seqs=$X", "--max-num-seqs", "$X"),
    (NEW, "--gpu-memory-util $X", "--gpu-memory-utilization", "$X"),
    (NEW, "--dtype=$X", "--dtype", "$X"),
    (NEW, "--load-format=$X --mamba-cache-dtype=$X", "--mamba-cache-dtype", "$X"),
    (NEW, "--structured-outputs-config=$X", "--structured-outputs-config", "$X"),
    (NEW, "--cudagraph-capture-sizes $X 8", "--cudagraph-capture-sizes", "$X 8"),
    (NEW, "--enable-lora --max-loras=$X", "--max-loras", "$X"),
    (NEW, "--enable-auto-tool-choice --tool-call-parser=$X", "--tool-call-parser", "$X"),
    ("0.11.0", "--dtype=$X", "--dtype", "$X"),
    (NEW, "--tool-call-parser=$X", "--tool-call-parser", None),
    (NEW, "--max-loras=$X", "--max-loras", None),
    (NEW, "--max-model-len=$X --max-model-len=64", "--max-model-len", None),
    *(
        (NEW, f"--{name}=$X", f"--{name}", None)
        for name in ("port", "host", "api-key", "served-model-name", "chat-template", "node-rank", "seed")
    ),
]


@table(("release", "words", "flag", "value"), UNKNOWN_VALUES, ids=[row[1] for row in UNKNOWN_VALUES])
def test_a_value_that_is_not_known_and_that_vllm_may_refuse_is_a_warning(
    ask: Asking, release: str, words: str, flag: str, value: str | None
) -> None:
    warnings = ask(f"vllm serve dense {words}", release, upstream=False).warnings
    found = [warning for warning in warnings if f"`{flag}`" in warning and "whether vLLM accepts it" in warning]
    assert found == ([] if value is None else [NOT_CHECKED.format(flag, value)])


@pytest.mark.parametrize(("release", "args", "expected"), BOUNDS, ids=[f"{r[0]} {' '.join(r[1])}" for r in BOUNDS])
def test_a_number_with_bounds_that_is_not_known_is_a_warning(
    ask: Asking, release: str, args: list[str], expected: list[str]
) -> None:
    if not expected or args[-2] == "--speculative-config":
        return
    with_unknown = " ".join([*args[:-1], '"$X"'])
    try:
        found = ask(f"vllm serve {with_unknown}", release, upstream=False).warnings
    except RequestInvalid as error:  # facts depend on it
        found = [fault.message for fault in error.faults]
    assert [message for message in found if message.startswith(f"`{args[-2]}`") and "is not known" in message]


def test_warnings_of_values_that_are_not_known_are_few(ask: Asking) -> None:
    limited = [flag for flag in flags(NEW).by_name.values() if flag.choices and flag.constant is None]
    written = " ".join(f'{flag.name}="$X"' for flag in limited if flag.dest not in RELEVANT_OPTIONS)
    found = [warning for warning in ask(f"vllm serve dense {written}", NEW).warnings if "not known" in warning]
    assert (len(found), "more options have values that are not known" in found[-1]) == (17, True)


def test_an_uncertain_refusal_is_a_warning(ask: Asking) -> None:
    decision = ask("vllm serve x --max-model-len 0 $MORE", NEW, upstream=False, **X)
    assert (decision.launch_errors, decision.starts) == ([], True)
    assert any(warning.startswith(BEFORE) for warning in decision.warnings)


def decide_manifest(policy: Policy, document: Config) -> Decision:
    manifest = read_request_or_manifest({"manifest": document, "model_configs": {"x": SIZED}}, policy.releases)
    assert isinstance(manifest, Manifest)
    [(_, request)] = requests_of(manifest, policy.releases)
    assert not isinstance(request, RequestInvalid)
    return policy.decide(request, TODAY)


@pytest.mark.parametrize(
    ("env", "is_certain"),
    [
        ([{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "value": "0"}], True),
        ([{"name": "VLLM_ALLOW_LONG_MAX_MODEL_LEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}], False),
        (None, False),
    ],
    ids=["set", "of a secret", "all of a secret"],
)
def test_a_refusal_that_a_variable_of_unknown_value_may_lift_is_a_warning(
    policy: Policy, env: list[Any] | None, *, is_certain: bool
) -> None:
    variables = {"envFrom": [{"secretRef": {"name": "a"}}]} if env is None else {"env": env}
    words = ["--model", "x", "--max-model-len", "99999"]
    container = {"name": "vllm", "image": f"vllm/vllm-openai:v{NEW}", "args": words, **variables}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": [container]}}
    decision = decide_manifest(policy, pod)
    assert decision.starts is not is_certain
    warned = [each for each in decision.warnings if each.startswith("vLLM may refuse this configuration: ")]
    assert (len(decision.launch_errors), len(warned)) == ((1, 0) if is_certain else (0, 1))


MANY_GPUS: Final = (
    'vLLM may refuse this configuration: "World size (16) is larger than the number of available GPUs (8) in this '
    'node."; give the container as many GPUs; if several nodes run the model, set `--distributed-executor-backend ray` '
    "with Ray, or `--nnodes` without it"
)


@table(
    ("arguments", "resources", "is_warned"),
    [
        ("--tensor-parallel-size 8 --pipeline_parallel_size 2", {"nvidia.com/gpu": "8"}, True),
        ("-pp 16", {"nvidia.com/gpu": 8}, True),
        ("-tp 4 -pp 2 -pcp 2", {"nvidia.com/gpu": 8}, True),
        ("-tp 8 -pp 2 --nnodes 1 --data-parallel-backend ray", {"nvidia.com/gpu": 8}, True),
        ("-tp 8", {"nvidia.com/gpu": "8"}, False),
        ("-tp 8 -dp 2", {"nvidia.com/gpu": "8"}, False),
        ("-tp 8 -pp 2", {"nvidia.com/gpu": "16"}, False),
        ("-tp 8 -pp 2", {"amd.com/gpu": "8"}, False),
        ("-tp 8 -pp 2", {}, False),
        ("-tp 8 -pp $SIZE", {"nvidia.com/gpu": "8"}, False),
        ("-tp 8 -pp 2 --distributed-executor-backend ray", {"nvidia.com/gpu": "8"}, False),
        ("-tp 8 -pp 2 --nnodes 2 --node-rank 0", {"nvidia.com/gpu": "8"}, False),
    ],
)
def test_sizes_for_more_gpus_than_the_container_has_are_a_warning(
    policy: Policy, arguments: str, resources: Config, *, is_warned: bool
) -> None:
    """On one node, as `ParallelConfig` refuses them in all releases; Ray on the other nodes does not change it."""
    leader = f"ray start --head --port=6379; python3 -m vllm.entrypoints.openai.api_server --model x {arguments}"
    container = {
        "name": "vllm",
        "image": f"vllm/vllm-openai:v{NEW}",
        "command": ["sh", "-c", leader],
        "resources": {"limits": resources},
    }
    template = {"size": 2, "leaderTemplate": {"spec": {"containers": [container]}}, "workerTemplate": {"spec": {}}}
    document = {
        "apiVersion": "leaderworkerset.x-k8s.io/v1",
        "kind": "LeaderWorkerSet",
        "metadata": {"name": "a"},
        "spec": {"leaderWorkerTemplate": template},
    }
    decision = decide_manifest(policy, document)
    assert (decision.launch_errors, decision.starts) == ([], True)
    assert (MANY_GPUS in decision.warnings) is is_warned
    assert is_warned or "World size" not in " ".join(decision.warnings)


def test_what_another_file_of_the_model_may_change_is_a_warning(ask: Asking) -> None:
    decision = ask(["--model", "x", "--quantization", "gptq"], NEW, upstream=False, **X)
    assert (decision.launch_errors, decision.starts) == ([], True)
    assert (
        'vLLM may refuse this configuration: "Cannot find the config file for gptq" (args[2]); the model\'s '
        "`config.json` has no `quantization_config`: unless the model has a file for it, remove `--quantization`"
    ) in decision.warnings


def test_a_model_type_that_only_a_newer_transformers_has_is_a_warning(ask: Asking) -> None:
    model = {"models": {"x": {**CODE, "model_type": "muse_spark"}}}
    decision = ask(["--model", "x"], "0.22.0", upstream=False, **model)
    assert (decision.launch_errors, decision.starts) == ([], True)
    message = (
        'vLLM may refuse this configuration: "The checkpoint you are trying to load has model type `muse_spark` but '
        'Transformers does not recognize this architecture."; serve it with a release of vLLM that knows the model '
        "type, or an image with a newer Transformers, if that has it"
    )
    assert [warning for warning in decision.warnings if warning.startswith("vLLM may refuse")] == [message]


def test_a_length_that_another_file_of_an_encoder_may_shorten_is_a_warning(ask: Asking) -> None:
    decision = ask(["--model", "x", "--max-num-batched-tokens", "256"], NEW, upstream=False, models={"x": BERT})
    assert (decision.launch_errors, decision.starts) == ([], True)
    message = (
        'vLLM may refuse this configuration: "max_num_batched_tokens (256) is smaller than max_model_len (512). This '
        "effectively limits the maximum sequence length to max_num_batched_tokens and makes vLLM reject longer "
        'sequences." (args[2]); raise `--max-num-batched-tokens` or set `--max-model-len`: this model does not support '
        "chunked prefill"
    )
    assert [warning for warning in decision.warnings if warning.startswith("vLLM may refuse")] == [message]


def test_a_refusal_by_the_type_of_the_weights_is_a_warning_if_the_device_may_change_it(ask: Asking) -> None:
    model = {"models": {"x": {**quantized("awq"), "torch_dtype": "bfloat16"}}}
    before, after = (ask(["--model", "x", "-q", "awq"], release, upstream=False, **model) for release in AWQ_RELEASES)
    assert [decision.launch_errors for decision in (before, after)] == [[], []]
    message = (
        'vLLM may refuse this configuration: "torch.bfloat16 is not supported for quantization method awq. '
        'Supported dtypes: [torch.float16]" (args[2]); remove `--quantization`: vLLM then uses `awq_marlin`, or set '
        "`--dtype half`"
    )
    assert [message in decision.warnings for decision in (before, after)] == [True, False]


WARNED: Final[list[tuple[str, list[str], list[str], list[str], str]]] = [
    (
        "mamba-cache-mode-all",
        ["--mamba-cache-mode", "all"],
        ["0.30.0", "0.31.0"],
        ["0.29.0"],
        (
            "\"Mamba cache mode 'all' is deprecated and will be removed in an upcoming release.\" (args[2]); "
            "set `--mamba-cache-mode align`, or leave it out"
        ),
    ),
    (
        "structured-outputs-lm-format-enforcer",
        ["--structured-outputs-config.backend=lm-format-enforcer"],
        ["0.33.0"],
        ["0.32.0"],
        (
            '"The lm-format-enforcer structured outputs backend is deprecated and will be removed in v0.35.0. Use '
            'auto, xgrammar, or guidance instead." (args[2]); set `--structured-outputs-config.backend auto`, or leave '
            "it out"
        ),
    ),
    (
        "all2all-backend-removed",
        ["--all2all-backend", "naive"],
        ["0.23.0", "0.33.0"],
        [],
        (
            "\"The 'naive' all2all backend has been removed. Falling back to 'allgather_reducescatter'.\" (args[2]); "
            "set `--all2all-backend allgather_reducescatter`, or leave it out"
        ),
    ),
    (
        "all2all-backend-renamed",
        ["--all2all-backend", "flashinfer_all2allv"],
        ["0.23.0", "0.33.0"],
        [],
        (
            "\"'flashinfer_all2allv' is deprecated and has been renamed to'flashinfer_nvlink_two_sided'. It will be "
            'removed in a futurerelease." (args[2]); set `--all2all-backend flashinfer_nvlink_two_sided`'
        ),
    ),
    (
        "quantization-deprecated-allowed",
        ["--quantization", "fp_quant", "--allow-deprecated-quantization"],
        ["0.23.0", "0.33.0"],
        [],
        (
            '"The quantization method fp_quant is deprecated and will be removed in future versions of vLLM." '
            "(args[2]); use another method"
        ),
    ),
    (
        "quantization-fp8-online",
        ["--quantization", "fp8"],
        ["0.31.0", "0.33.0"],
        ["0.30.0"],
        (
            '"--quantization fp8 is deprecated for online quantization; use --quantization fp8_per_tensor instead." '
            "(args[2]); set `--quantization fp8_per_tensor`"
        ),
    ),
    (
        "speculative-method-mtp",
        ["--speculative-config", '{"method": "deepseek_mtp", "num_speculative_tokens": 1}'],
        ["0.23.0", "0.33.0"],
        [],
        '"method `deepseek_mtp` is deprecated and replaced with mtp." (args[2]); write `"method": "mtp"`',
    ),
]
"""Checks that only warn: the arguments, releases that warn of them, releases that do not, and the message."""


def warned(ask: Asking, release: str, args: list[str]) -> list[str]:
    decision = ask(["--model", "sized", *args], release, upstream=False, model_configs={"sized": SIZED})
    return [warning for warning in decision.warnings if " warns: " in warning]


@table(("args", "releases", "others", "message"), [row[1:] for row in WARNED], ids=lambda _: "")
def test_what_vllm_warns_of_is_a_warning_in_its_words(
    ask: Asking, args: list[str], releases: list[str], others: list[str], message: str
) -> None:
    found = {release: warned(ask, release, args) for release in [*releases, *others]}
    assert found == {
        **{release: [f"vLLM {release} warns: {message}"] for release in releases},
        **{release: [] for release in others},
    }


@table(
    "args",
    [
        ["--mamba-cache-mode", "align"],
        ["--all2all-backend", "allgather_reducescatter"],
        ["--quantization", "fp_quant"],
        ["--quantization", "fp8_per_tensor"],
        ["--speculative-config", '{"method": "ngram", "num_speculative_tokens": 1}'],
        ["--structured-outputs-config.backend=guidance"],
    ],
    ids=" ".join,
)
def test_other_values_are_no_warning(ask: Asking, args: list[str]) -> None:
    assert [warned(ask, release, args) for release in ("0.31.0", "0.33.0")] == [[], []]


def test_every_check_has_a_row() -> None:
    checks = [check for check in all_checks() if check.is_certain]
    assert {check.id for check in checks if not check.is_warning} == {row[0] for row in REFUSED}
    assert {check.id for check in checks if check.is_warning} == {row[0] for row in WARNED}


OPEN_SETS: Final = frozenset(
    {"attention_backends", "kv_cache_dtypes", "kv_connectors", "quantization", "reasoning_parsers", "tool_parsers"}
)
"""The sets to which a plugin may register more names."""
CLOSED_SETS: Final = frozenset({"eagle_model_types", "mtp_model_types", "pooler_fields"})
OWN_PLATFORMS: Final = ("cuda", "rocm", "xpu", "cpu")
PLUGIN_PLATFORMS: Final = ("out-of-tree", "ascend", "tpu")


def sets_without(formula: Any) -> Iterator[str]:
    """The sets of names in which a condition finds that a name is not."""
    match formula:
        case ["not in", _, ["key", str(name)]] if name.startswith("names."):
            yield name.removeprefix("names.")
        case list():
            for part in formula:
                yield from sets_without(part)


def compares_open_names(check: Check) -> bool:
    return not OPEN_SETS.isdisjoint(sets_without(check.condition))


def test_names_are_refused_as_unknown_only_on_platforms_of_vllm() -> None:
    """A plugin fills vLLM's registries with names of its own when it is loaded."""
    compared = {name for check in all_checks() for name in sets_without(check.condition)}
    assert compared == OPEN_SETS | CLOSED_SETS
    found = {check.id: check.platforms for check in all_checks() if compares_open_names(check)}
    assert found == dict.fromkeys(found, OWN_PLATFORMS)


UNKNOWN_NAMES: Final[list[Row]] = [
    *(row for row in REFUSED if row[0] in {check.id for check in all_checks() if compares_open_names(check)}),
    ("quantization-mismatch", "0.26.0", ["--model", "x", "-q", "ascend"], {"models": {"x": quantized("fp8")}}, []),
]
"""Names that vLLM refuses on its own platforms."""


@table("platform", PLUGIN_PLATFORMS)
@table(("release", "args", "fields"), [row[1:4] for row in UNKNOWN_NAMES], ids=[row[0] for row in UNKNOWN_NAMES])
def test_a_name_that_a_plugin_may_register_is_not_refused(
    ask: Asking, release: str, args: list[str], fields: dict[str, Any], platform: str
) -> None:
    decision = ask(args, release, upstream=False, environment={"platform": platform}, **dict(fields))
    about = [warning for warning in decision.warnings if "refuse this config" in warning or "refuses this" in warning]
    assert (decision.launch_errors, about, decision.starts) == ([], [], True)


@table("platform", OWN_PLATFORMS)
@table(("release", "args", "fields"), [row[1:4] for row in UNKNOWN_NAMES], ids=[row[0] for row in UNKNOWN_NAMES])
def test_an_unknown_name_is_refused_on_the_platforms_of_vllm(
    ask: Asking, release: str, args: list[str], fields: dict[str, Any], platform: str
) -> None:
    decision = ask(args, release, upstream=False, environment={"platform": platform}, **dict(fields))
    assert (len(decision.launch_errors), decision.starts) == (1, False)


@table(("args", "config"), [(["-q", "gguf"], SIZED), ([], quantized("gguf"))], ids=["argument", "model"])
def test_gguf_without_its_plugin_is_a_warning(ask: Asking, args: list[str], config: Config) -> None:
    """From 0.24 on `vllm-gguf-plugin` registers the method, on the platforms of vLLM."""
    found = {
        release: ask(["--model", "x", *args], release, upstream=False, models={"x": config})
        for release in ("0.23.0", "0.24.0", NEW)
    }
    assert [(decision.launch_errors, decision.starts) for decision in found.values()] == [([], True)] * 3
    place = " (args[2])" if args else ""
    message = (
        f'vLLM may refuse this configuration: "Unknown quantization method: gguf."{place}; install `vllm-gguf-plugin`, '
        "which registers it from 0.24 on, or serve a checkpoint in another format"
    )
    about = [[warning for warning in each.warnings if "refuse" in warning] for each in found.values()]
    assert about == [[], [message], [message]]


def test_gguf_takes_the_checkpoint_of_another_method(ask: Asking) -> None:
    models = {"x": quantized("fp8")}
    decision = ask(["--model", "x", "-q", "gguf"], "0.23.0", upstream=False, models=models)
    assert (decision.launch_errors, decision.starts) == ([], True)


def keys() -> Iterator[str]:
    for check in all_checks():
        yield from formula_keys(check.condition)
        for text in (check.says, check.do):
            for formula in message_of(text).formulas:
                yield from formula_keys(formula)


def test_checks_read_values_that_exist() -> None:
    named = {name.partition(".")[::2] for name in keys()}
    of_models = {rest for kind, rest in named if kind in {"model", "draft"}} - {"known"}
    assert all(callable(getattr(ModelValues, name, None)) for name in of_models)
    sets = {*tables(NEW).names, *tables(NEW).constants}
    assert {rest for kind, rest in named if kind == "names"} <= sets
    assert {kind for kind, _ in named} <= {
        *READERS,
        "model_config",
        "cache_config",
        "parallel_config",
        "compilation_config",
    }


def test_no_release_has_two_ranges_of_a_check() -> None:
    for release in releases():
        held = [check.id for check in all_checks() if check.holds_in(release)]
        assert len(held) == len(set(held)), release


def test_every_release_has_the_names_that_checks_compare() -> None:
    assert {name for release in releases() for name in tables(release).names} == set(tables(NEW).names)
    assert all("MultiConnector" in tables(release).names["kv_connectors"] for release in releases())
    assert all(tables(release).bounds["gpu_memory_utilization"]["le"] == 1 for release in releases())
