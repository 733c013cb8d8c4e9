"""KAITO's tables: presets, models with their sizes, reasoning parsers, instance types (read at 0.12, August 2026).

Data only; ``kaito`` computes from it what KAITO does.
"""

from __future__ import annotations

from typing import Final, NamedTuple

USABLE_SHARE: Final = 0.84
"""The part of a GPU's memory that vLLM uses, and that KAITO computes with."""


class CatalogModel(NamedTuple):
    """A model of KAITO's catalog: the size of its weights in GiB, and the bytes of a token in the KV cache.

    ``offloads``: whether KAITO may keep its KV cache on the CPU. ``parser`` is its reasoning parser, empty for none.
    """

    size: float
    token: int
    offloads: bool
    parser: str


class InstanceType(NamedTuple):
    """A type of machine: the number of its GPUs, and the memory of all of them in GiB.

    ``share``: the part of a GPU's memory that KAITO gives vLLM.
    """

    gpus: int
    memory: int
    share: float = USABLE_SHARE


PRESETS: Final = {
    "phi-4": "microsoft/phi-4",
    "phi-4-mini-instruct": "microsoft/Phi-4-mini-instruct",
    "llama-3.1-8b-instruct": "meta-llama/Llama-3.1-8B-Instruct",
    "llama-3.3-70b-instruct": "meta-llama/Llama-3.3-70B-Instruct",
    "deepseek-r1-distill-llama-8b": "deepseek-ai/DeepSeek-R1-Distill-Llama-8B",
    "deepseek-r1-distill-qwen-14b": "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B",
    "deepseek-r1-0528": "deepseek-ai/DeepSeek-R1-0528",
    "deepseek-v3-0324": "deepseek-ai/DeepSeek-V3-0324",
    "phi-3-mini-4k-instruct": "microsoft/Phi-3-mini-4k-instruct",
    "phi-3-mini-128k-instruct": "microsoft/Phi-3-mini-128k-instruct",
    "phi-3-medium-4k-instruct": "microsoft/Phi-3-medium-4k-instruct",
    "phi-3-medium-128k-instruct": "microsoft/Phi-3-medium-128k-instruct",
    "phi-3.5-mini-instruct": "microsoft/Phi-3.5-mini-instruct",
    "qwen2.5-coder-7b-instruct": "Qwen/Qwen2.5-Coder-7B-Instruct",
    "qwen2.5-coder-32b-instruct": "Qwen/Qwen2.5-Coder-32B-Instruct",
    "gpt-oss-20b": "openai/gpt-oss-20b",
    "gpt-oss-120b": "openai/gpt-oss-120b",
    "gemma-3-4b-instruct": "google/gemma-3-4b-it",
    "gemma-3-27b-instruct": "google/gemma-3-27b-it",
    "mistral-7b": "mistralai/Mistral-7B-v0.3",
    "mistral-7b-instruct": "mistralai/Mistral-7B-Instruct-v0.3",
    "ministral-3-3b-instruct": "mistralai/Ministral-3-3B-Instruct-2512",
    "ministral-3-8b-instruct": "mistralai/Ministral-3-8B-Instruct-2512",
    "ministral-3-14b-instruct": "mistralai/Ministral-3-14B-Instruct-2512",
    "mistral-large-3-675b-instruct": "mistralai/Mistral-Large-3-675B-Instruct-2512",
}
"""The models of the presets with short names, by KAITO's own names in lower case."""

MODELS: Final = {
    "microsoft/phi-4": CatalogModel(27.31, 204800, offloads=True, parser=""),
    "microsoft/Phi-4-mini-instruct": CatalogModel(7.15, 131072, offloads=True, parser=""),
    "deepseek-ai/DeepSeek-R1-Distill-Llama-8B": CatalogModel(14.96, 131072, offloads=True, parser="deepseek_r1"),
    "deepseek-ai/DeepSeek-R1-Distill-Qwen-14B": CatalogModel(27.51, 196608, offloads=True, parser="deepseek_r1"),
    "microsoft/Phi-3-mini-4k-instruct": CatalogModel(7.12, 393216, offloads=True, parser=""),
    "microsoft/Phi-3-mini-128k-instruct": CatalogModel(7.12, 393216, offloads=True, parser=""),
    "microsoft/Phi-3-medium-4k-instruct": CatalogModel(26.0, 204800, offloads=True, parser=""),
    "microsoft/Phi-3-medium-128k-instruct": CatalogModel(26.0, 204800, offloads=True, parser=""),
    "microsoft/Phi-3.5-mini-instruct": CatalogModel(7.12, 393216, offloads=True, parser=""),
    "Qwen/Qwen2.5-Coder-7B-Instruct": CatalogModel(14.19, 57344, offloads=True, parser=""),
    "Qwen/Qwen2.5-Coder-32B-Instruct": CatalogModel(61.03, 262144, offloads=True, parser=""),
    "openai/gpt-oss-20b": CatalogModel(25.63, 49152, offloads=False, parser="openai_gptoss"),
    "openai/gpt-oss-120b": CatalogModel(121.54, 73728, offloads=False, parser="openai_gptoss"),
    "meta-llama/Llama-3.1-8B-Instruct": CatalogModel(14.96, 131072, offloads=True, parser=""),
    "meta-llama/Llama-3.3-70B-Instruct": CatalogModel(131.42, 327680, offloads=True, parser=""),
    "mistralai/Mistral-7B-v0.3": CatalogModel(13.5, 131072, offloads=True, parser=""),
    "mistralai/Mistral-7B-Instruct-v0.3": CatalogModel(13.5, 131072, offloads=True, parser=""),
    "mistralai/Ministral-3-3B-Instruct-2512": CatalogModel(4.35, 106496, offloads=True, parser=""),
    "mistralai/Ministral-3-8B-Instruct-2512": CatalogModel(9.7, 139264, offloads=True, parser=""),
    "mistralai/Ministral-3-14B-Instruct-2512": CatalogModel(14.65, 163840, offloads=True, parser=""),
    "google/gemma-3-4b-it": CatalogModel(8.01, 139264, offloads=True, parser=""),
    "google/gemma-3-27b-it": CatalogModel(51.1, 507904, offloads=True, parser=""),
    "deepseek-ai/DeepSeek-R1-0528": CatalogModel(641.3, 70272, offloads=True, parser="deepseek_r1"),
    "deepseek-ai/DeepSeek-V3-0324": CatalogModel(641.3, 70272, offloads=True, parser="deepseek_v3"),
    "mistralai/Mistral-Large-3-675B-Instruct-2512": CatalogModel(634.7, 70272, offloads=True, parser=""),
    "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16": CatalogModel(230.25, 90112, offloads=False, parser="nemotron_v3"),
    "nvidia/Nemotron-Cascade-2-30B-A3B": CatalogModel(58.82, 53248, offloads=False, parser="nemotron_v3"),
    "nvidia/NVIDIA-Nemotron-3-Nano-30B-A3B-BF16": CatalogModel(58.82, 53248, offloads=False, parser="nemotron_v3"),
    "nvidia/NVIDIA-Nemotron-Nano-12B-v2-VL-BF16": CatalogModel(24.55, 253952, offloads=False, parser="nemotron_v3"),
    "nvidia/NVIDIA-Nemotron-Nano-9B-v2": CatalogModel(16.56, 229376, offloads=False, parser="nemotron_v3"),
    "nvidia/NVIDIA-Nemotron-3-Nano-4B-BF16": CatalogModel(7.4, 172032, offloads=False, parser="nemotron_v3"),
    "Qwen/Qwen3-8B-AWQ": CatalogModel(5.68, 147456, offloads=True, parser="qwen3"),
    "google/gemma-4-31B-it": CatalogModel(58.25, 983040, offloads=False, parser="gemma4"),
    "google/gemma-4-26B-A4B-it": CatalogModel(48.07, 245760, offloads=False, parser="gemma4"),
    "google/gemma-4-E4B-it": CatalogModel(14.89, 86016, offloads=False, parser="gemma4"),
    "google/gemma-4-E2B-it": CatalogModel(9.54, 35840, offloads=False, parser="gemma4"),
    "mistralai/Mistral-Small-4-119B-2603": CatalogModel(112.63, 23040, offloads=True, parser="mistral"),
    "mistralai/Mistral-Small-4-119B-2603-NVFP4": CatalogModel(65.95, 23040, offloads=True, parser="mistral"),
    "Qwen/Qwen3.5-2B": CatalogModel(4.24, 49152, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.5-4B": CatalogModel(8.68, 131072, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.5-9B": CatalogModel(17.98, 131072, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.5-122B-A10B-GPTQ-Int4": CatalogModel(73.47, 98304, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.5-122B-A10B": CatalogModel(232.99, 98304, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.6-35B-A3B-FP8": CatalogModel(34.9, 81920, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.6-35B-A3B": CatalogModel(66.97, 81920, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.6-27B": CatalogModel(51.75, 262144, offloads=False, parser="qwen3"),
    "Qwen/Qwen3.5-397B-A17B-GPTQ-Int4": CatalogModel(219.56, 122880, offloads=False, parser="qwen3"),
    "moonshotai/Kimi-K2.5": CatalogModel(554.32, 70272, offloads=True, parser="kimi_k2"),
    "moonshotai/Kimi-K2.6": CatalogModel(554.32, 70272, offloads=True, parser="kimi_k2"),
    "MiniMaxAI/MiniMax-M2.7": CatalogModel(214.34, 253952, offloads=True, parser="minimax_m2_append_think"),
    "mistralai/Mistral-Medium-3.5-128B": CatalogModel(124.43, 360448, offloads=True, parser="mistral"),
    "deepseek-ai/DeepSeek-V4-Flash-0731": CatalogModel(155.43, 88064, offloads=False, parser="deepseek_v4"),
    "deepseek-ai/DeepSeek-V4-Pro": CatalogModel(805.34, 124928, offloads=False, parser="deepseek_v4"),
    "google/gemma-4-12B-it": CatalogModel(22.28, 393216, offloads=False, parser="gemma4"),
    "zai-org/GLM-5.2-FP8": CatalogModel(703.75, 89856, offloads=True, parser="glm45"),
    "moonshotai/Kimi-K2.7-Code": CatalogModel(554.32, 70272, offloads=True, parser="kimi_k2"),
    "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B-NVFP4": CatalogModel(
        328.13, 110592, offloads=False, parser="nemotron_v3"
    ),
    "deepseek-ai/DeepSeek-V3.2": CatalogModel(642.14, 70272, offloads=False, parser="deepseek_v3"),
    "ibm-granite/granite-4.1-8b": CatalogModel(16.38, 163840, offloads=True, parser="granite"),
    "Qwen/Qwen3.8-27B": CatalogModel(51.75, 262144, offloads=False, parser="qwen3"),
}

REASONING_PREFIXES: Final = {
    "deepseek-r1": "deepseek_r1",
    "deepseek-v3": "deepseek_v3",
    "deepseek-v4": "deepseek_v4",
    "ernie-4.5": "ernie45",
    "gemma-4": "gemma4",
    "glm-4.5": "glm45",
    "granite-3.2": "granite",
    "holo2": "holo2",
    "hunyuan-a13b": "hunyuan_a13b",
    "kimi-k2": "kimi_k2",
    "laguna": "poolside_v1",
    "minimax-m2": "minimax_m2_append_think",
    "minimax-m3": "minimax_m3",
    "mimo": "mimo",
    "mistral": "mistral",
    "olmo-3": "olmo3",
    "qwen3": "qwen3",
    "qwq-32b": "deepseek_r1",
    "step3": "step3",
}
"""The reasoning parsers of models that are not in the catalog, by the beginning of their names in lower case."""

INSTANCE_TYPES: Final = {
    "Standard_NV36ads_A10_v5": InstanceType(1, 24, 0.82),
    "Standard_NV72ads_A10_v5": InstanceType(2, 48, 0.82),
    "Standard_NC24ads_A100_v4": InstanceType(1, 80),
    "Standard_NC48ads_A100_v4": InstanceType(2, 160),
    "Standard_NC96ads_A100_v4": InstanceType(4, 320),
    "Standard_ND96asr_A100_v4": InstanceType(8, 320),
    "Standard_ND96amsr_A100_v4": InstanceType(8, 640),
    "Standard_NC40ads_H100_v5": InstanceType(1, 94),
    "Standard_NC80adis_H100_v5": InstanceType(2, 188),
    "Standard_ND96isr_H100_v5": InstanceType(8, 640),
    "Standard_NCC40ads_H100_v5": InstanceType(1, 94),
    "Standard_ND96isr_H200_v5": InstanceType(8, 1128),
    "Standard_NG32ads_V620_v1": InstanceType(1, 32),
    "Standard_NG32adms_V620_v1": InstanceType(1, 32),
    "Standard_NC4_A2": InstanceType(1, 16),
    "Standard_NC8_A2": InstanceType(1, 16),
    "Standard_NC16_A2": InstanceType(2, 32),
    "Standard_NC32_A2": InstanceType(2, 32),
    "Standard_NC4_A16": InstanceType(1, 16),
    "Standard_NC8_A16": InstanceType(1, 16),
    "Standard_NC16_A16": InstanceType(2, 32),
    "Standard_NC32_A16": InstanceType(2, 32),
    "p4d.24xlarge": InstanceType(8, 320),
    "p4de.24xlarge": InstanceType(8, 640),
    "p5.48xlarge": InstanceType(8, 640),
    "p5e.48xlarge": InstanceType(8, 1128),
    "p5en.48xlarge": InstanceType(8, 1128),
    "g6.xlarge": InstanceType(1, 24),
    "g6.2xlarge": InstanceType(1, 24),
    "g6.4xlarge": InstanceType(1, 24),
    "g6.8xlarge": InstanceType(1, 24),
    "g6.16xlarge": InstanceType(1, 24),
    "gr6.4xlarge": InstanceType(1, 24),
    "gr6.8xlarge": InstanceType(1, 24),
    "g6.12xlarge": InstanceType(4, 96),
    "g6.24xlarge": InstanceType(4, 96),
    "g6.48xlarge": InstanceType(8, 192),
    "g5.xlarge": InstanceType(1, 24),
    "g5.2xlarge": InstanceType(1, 24),
    "g5.4xlarge": InstanceType(1, 24),
    "g5.8xlarge": InstanceType(1, 24),
    "g5.12xlarge": InstanceType(4, 96),
    "g5.16xlarge": InstanceType(1, 24),
    "g5.24xlarge": InstanceType(4, 96),
    "g5.48xlarge": InstanceType(8, 192),
    "g4ad.xlarge": InstanceType(1, 8),
    "g4ad.2xlarge": InstanceType(1, 8),
    "g4ad.4xlarge": InstanceType(1, 8),
    "g4ad.8xlarge": InstanceType(2, 16),
    "g4ad.16xlarge": InstanceType(4, 32),
    "trn1.2xlarge": InstanceType(1, 32),
    "trn1.32xlarge": InstanceType(16, 512),
    "trn1n.32xlarge": InstanceType(16, 512),
    "inf2.xlarge": InstanceType(1, 32),
    "inf2.8xlarge": InstanceType(1, 32),
    "inf2.24xlarge": InstanceType(6, 192),
    "inf2.48xlarge": InstanceType(12, 384),
}
