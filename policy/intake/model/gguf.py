"""The architecture of a model in GGUF format, in the releases that read this format without a plug-in.

Follows `is_gguf` in `vllm/transformers_utils/gguf_utils.py` and `get_config` in `vllm/transformers_utils/config.py`,
the same in 0.20 to 0.23. The configuration of `OWNER/NAME:QUANT` is the repository's `config.json`, except that the
architecture is always the causal class of the model type. The configuration of a GGUF file is in the file itself.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from packaging.specifiers import SpecifierSet

if TYPE_CHECKING:
    from collections.abc import Mapping

GGUF_RELEASES: Final = SpecifierSet("<0.24", prereleases=True)
"""The releases that read GGUF without a plug-in: https://github.com/vllm-project/vllm/pull/39612 moved it to one.

The first with tables of models is https://github.com/vllm-project/vllm/blob/v0.20.0/vllm/transformers_utils/config.py,
the last https://github.com/vllm-project/vllm/blob/v0.23.0/vllm/transformers_utils/config.py.
"""
FILE_SUFFIX: Final = ".gguf"
REMOTE_NAME: Final = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9._-]*+/[a-zA-Z0-9][a-zA-Z0-9._-]*+:[a-zA-Z0-9_+-]++")
"""Matches a name with a quantization. vLLM also requires that the quantization is known, but starts with no other."""
CAUSAL_CLASSES: Final[Mapping[str, str]] = {
    "arcee": "ArceeForCausalLM",
    "bloom": "BloomForCausalLM",
    "cohere": "CohereForCausalLM",
    "cohere2": "Cohere2ForCausalLM",
    "dbrx": "DbrxForCausalLM",
    "deepseek_v2": "DeepseekV2ForCausalLM",
    "deepseek_v3": "DeepseekV3ForCausalLM",
    "dots1": "Dots1ForCausalLM",
    "ernie4_5": "Ernie4_5ForCausalLM",
    "ernie4_5_moe": "Ernie4_5_MoeForCausalLM",
    "exaone4": "Exaone4ForCausalLM",
    "falcon": "FalconForCausalLM",
    "falcon_h1": "FalconH1ForCausalLM",
    "falcon_mamba": "FalconMambaForCausalLM",
    "gemma": "GemmaForCausalLM",
    "gemma2": "Gemma2ForCausalLM",
    "gemma3": "Gemma3ForConditionalGeneration",
    "gemma3_text": "Gemma3ForCausalLM",
    "gemma3n": "Gemma3nForConditionalGeneration",
    "gemma3n_text": "Gemma3nForCausalLM",
    "glm": "GlmForCausalLM",
    "glm4": "Glm4ForCausalLM",
    "glm4_moe": "Glm4MoeForCausalLM",
    "gpt2": "GPT2LMHeadModel",
    "gpt_bigcode": "GPTBigCodeForCausalLM",
    "gpt_neox": "GPTNeoXForCausalLM",
    "gpt_oss": "GptOssForCausalLM",
    "gptj": "GPTJForCausalLM",
    "granite": "GraniteForCausalLM",
    "granitemoe": "GraniteMoeForCausalLM",
    "granitemoehybrid": "GraniteMoeHybridForCausalLM",
    "hunyuan_v1_dense": "HunYuanDenseV1ForCausalLM",
    "hunyuan_v1_moe": "HunYuanMoEV1ForCausalLM",
    "jamba": "JambaForCausalLM",
    "lfm2": "Lfm2ForCausalLM",
    "llama": "LlamaForCausalLM",
    "llama4": "Llama4ForCausalLM",
    "llama4_text": "Llama4ForCausalLM",
    "mamba": "MambaForCausalLM",
    "mamba2": "Mamba2ForCausalLM",
    "mistral": "MistralForCausalLM",
    "mixtral": "MixtralForCausalLM",
    "mpt": "MptForCausalLM",
    "nemotron": "NemotronForCausalLM",
    "olmo": "OlmoForCausalLM",
    "olmo2": "Olmo2ForCausalLM",
    "olmoe": "OlmoeForCausalLM",
    "opt": "OPTForCausalLM",
    "phi": "PhiForCausalLM",
    "phi3": "Phi3ForCausalLM",
    "phimoe": "PhimoeForCausalLM",
    "qwen2": "Qwen2ForCausalLM",
    "qwen2_moe": "Qwen2MoeForCausalLM",
    "qwen3": "Qwen3ForCausalLM",
    "qwen3_moe": "Qwen3MoeForCausalLM",
    "seed_oss": "SeedOssForCausalLM",
    "smollm3": "SmolLM3ForCausalLM",
    "stablelm": "StableLmForCausalLM",
    "starcoder2": "Starcoder2ForCausalLM",
}
"""The causal class of model types, the same in all Transformers releases that vLLM allows: 4.56, 4.57 and 5.5.3 on.

An excerpt of `MODEL_FOR_CAUSAL_LM_MAPPING_NAMES` of
https://github.com/huggingface/transformers/blob/v5.12.1/src/transformers/models/auto/modeling_auto.py.
"""


def is_gguf(name: str, release: str) -> bool:
    """Whether a release reads a model as one in GGUF format, by its name."""
    return (
        name.endswith(FILE_SUFFIX) or (":" in name and REMOTE_NAME.fullmatch(name) is not None)
    ) and release in GGUF_RELEASES


def causal_class(config: Mapping[str, Any], overrides: object) -> str | None:
    """The class that replaces the architectures of a GGUF model; None if it is not known.

    A model type in ``--hf-overrides`` may select another class of configurations.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or (isinstance(overrides, dict) and "model_type" in overrides):
        return None
    return CAUSAL_CLASSES.get(model_type)


def with_causal_class(
    name: str, config: Mapping[str, Any], overrides: object, release: str
) -> tuple[Mapping[str, Any], bool]:
    """The configuration with the architecture that vLLM gives a GGUF model, and whether it gives one here."""
    found = causal_class(config, overrides) if is_gguf(name, release) else None
    return (config, False) if found is None else ({**config, "architectures": [found]}, True)
