"""What the generator reads from a configuration class: defaults, formulas, aliases and parts, each by its construct."""

from __future__ import annotations

from textwrap import dedent, indent
from typing import TYPE_CHECKING, Any

import pytest

from policy.vllm.tablegen.backend import backend_models, legacy_layer_types, renamed_layer_types
from policy.vllm.tablegen.configs import transformers_configs
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """
from ...configuration_utils import PreTrainedConfig
from ..auto import CONFIG_MAPPING
KINDS = {0: "sliding", 4: "sparse"}
NAMES = ("a", "b")
def outside(x): ...
class TextConfig(PreTrainedConfig):
    model_type = "inner"
class NamelessConfig(PreTrainedConfig): ...
class OldConfig(PreTrainedConfig):
    num_experts: int = 2
    def __init__(self, hidden_size=8, *, num_hidden_layers=3, top_k=None, **kwargs):
        self.hidden_size = hidden_size
        super().__init__(**kwargs)
class PartsConfig(PreTrainedConfig):
    def __init__(self, **kwargs):
        self.text_config = TextConfig(**kwargs.pop("text_config", {}))
class MadeConfig(PreTrainedConfig):
    def __post_init__(self, **kwargs):
        self.num_experts = 5
"""
L = ["key", "layer_types"]
N = ["key", "num_hidden_layers"]
MADE = "def __post_init__(self, **kwargs):\n"


def post(body: str) -> str:
    return MADE + indent(dedent(body), "    ")


ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("", "num_experts: int = 4", {"defaults": {"num_experts": 4}}),
    (
        "",
        "num_experts = None\nis_causal = False\nlayer_types = NAMES\nhidden_size = outside",
        {"defaults": {"layer_types": ["a", "b"], "num_experts": None}},
    ),
    ("", "num_local_experts: int | None = None\nhidden_size = None", {"defaults": {"num_local_experts": None}}),
    ("", "hidden_size = outside(1)", {}),
    ("", "attribute_map = {'num_experts': 'n', 'x': 'y'}\nn: int = 2", {"aliases": {"num_experts": "n"}}),
    ("", "attribute_map = outside(1)", {}),
    ("OldConfig", "", {"defaults": {"hidden_size": 8, "num_experts": 2, "num_hidden_layers": 3}}),
    ("", post("self.num_experts = 3"), {"formulas": {"num_experts": 3}}),
    ("", post("self.num_experts: int = -3"), {"formulas": {"num_experts": -3}}),
    (
        "",
        post("self.num_experts = kwargs.pop('n', 2)\nkwargs.pop('m')"),
        {"formulas": {"num_experts": ["given", "n", 2]}},
    ),
    ("", post("self.num_experts = kwargs.get('n')"), {"formulas": {"num_experts": ["given", "n", None]}}),
    (
        "",
        post("if 'n' in kwargs:\n    self.num_experts = 1"),
        {"formulas": {"num_experts": ["if", ["stated", "n"], 1, ["key", "num_experts"]]}},
    ),
    ("", post("if outside(1):\n    self.num_experts = 1"), {"formulas": {"num_experts": None}}),
    (
        "",
        post("if self.num_experts is None:\n    raise ValueError\nself.hidden_size = 2"),
        {"formulas": {"hidden_size": 2}},
    ),
    ("", post("self.num_experts = outside(self.n)"), {"formulas": {"num_experts": None}}),
    ("", post("self.num_experts = outside"), {"formulas": {"num_experts": None}}),
    ("", post("for i in range(3):\n    self.num_experts = i"), {"formulas": {"num_experts": None}}),
    ("", post("n, m = 1, 2\nself.num_experts = n"), {"formulas": {"num_experts": None}}),
    ("", post("n = [1]\nn[0] = 2\nself.layer_types = n"), {"formulas": {"layer_types": None}}),
    ("", post("n = m = 1\nself.num_experts = n"), {"formulas": {"num_experts": 1}}),
    ("", post("assert self.n\n'text'\nself.layer_types = NAMES"), {"formulas": {"layer_types": ["items", "a", "b"]}}),
    (
        "",
        post("self.layer_types = [KINDS[k] for k in self.k]"),
        {
            "formulas": {
                "layer_types": ["for each", ["key", "k"], ["at", ["mapping", [0, "sliding"], [4, "sparse"]], ["each"]]]
            }
        },
    ),
    (
        "",
        post("self.layer_types = [{'M': 'mamba'}[k] for k in self.k]"),
        {"formulas": {"layer_types": ["for each", ["key", "k"], ["at", {"M": "mamba"}, ["each"]]]}},
    ),
    (
        "",
        post(
            "odd = {i for i in range(self.num_hidden_layers) if i % 2}\n"
            "self.layer_types = ['a' if i in odd else 'b' for i in range(2)]"
        ),
        {
            "formulas": {
                "layer_types": [
                    "for each",
                    ["range", 2],
                    ["if", ["in", ["each"], ["where", ["range", N], ["%", ["each"], 2]]], "a", "b"],
                ]
            }
        },
    ),
    (
        "",
        post("self.layer_types = ['a'] * min(self.num_hidden_layers, 2)"),
        {"formulas": {"layer_types": ["*", ["items", "a"], ["min", N, 2]]}},
    ),
    (
        "",
        post("self.layer_types = self.layer_types[: self.num_hidden_layers]"),
        {"formulas": {"layer_types": ["first", L, N]}},
    ),
    (
        "",
        post("self.layer_types = remap_legacy_layer_types(self.layer_types)"),
        {"formulas": {"layer_types": ["remap", L]}},
    ),
    (
        "",
        post("if (n := kwargs.get('n')) is not None:\n    self.num_experts = n"),
        {
            "formulas": {
                "num_experts": ["if", ["!=", ["given", "n", None], None], ["given", "n", None], ["key", "num_experts"]]
            }
        },
    ),
    (
        "",
        post("self.num_experts = getattr(self, 'n', 3) and not self.m"),
        {"formulas": {"num_experts": ["and", ["key", "n"], ["not", ["key", "m"]]]}},
    ),
    (
        "",
        post("self.num_experts = self.moe.count"),
        {"formulas": {"num_experts": ["get", ["key", "moe"], "count", None]}},
    ),
    (
        "",
        post("self.num_experts = self.moe.get('count', 2)"),
        {"formulas": {"num_experts": ["get", ["key", "moe"], "count", 2]}},
    ),
    (
        "",
        post("self.num_experts = self._count(3)") + "\n@staticmethod\ndef _count(n):\n    m = n\n    return m + 1",
        {"formulas": {"num_experts": ["+", 3, 1]}},
    ),
    (
        "",
        post("self.num_experts = self._count()") + "\ndef _count(self):\n    return self.n",
        {"formulas": {"num_experts": ["key", "n"]}},
    ),
    (
        "",
        post("self.num_experts = self._count()") + "\ndef _count(self):\n    return self._count()",
        {"formulas": {"num_experts": None}},
    ),
    (
        "",
        post("self.num_experts = self._count()") + "\ndef _count(self):\n    pass",
        {"formulas": {"num_experts": None}},
    ),
    ("", post("self.num_experts = self._none()"), {"formulas": {"num_experts": None}}),
    (
        "",
        post("self.num_experts = self._count()")
        + "\ndef _count(self):\n    if self.n:\n        return 1\n    return 2",
        {"formulas": {"num_experts": ["if", ["key", "n"], 1, 2]}},
    ),
    (
        "",
        post("if self.n:\n    self.num_experts = 1\n    return\nself.num_experts = 2"),
        {"formulas": {"num_experts": ["if", ["key", "n"], 1, 2]}},
    ),
    ("", post("if outside(1):\n    return\nself.num_experts = 2"), {"formulas": {"num_experts": None}}),
    ("MadeConfig", post("super().__post_init__(**kwargs)"), {"formulas": {"num_experts": 5}}),
    ("MadeConfig", post("super().__post_init__(num_experts=6)"), {"formulas": {"num_experts": 6}}),
    (
        "MadeConfig",
        "def __init__(self, n=1, **kwargs):\n    super().__init__(num_hidden_layers=n)",
        {"formulas": {"num_experts": 5, "num_hidden_layers": ["key", "n"]}, "defaults": {"n": 1}},
    ),
    (
        "",
        "@property\ndef layers_block_type(self):\n    return ['a'] * self.n",
        {"formulas": {"layers_block_type": ["*", ["items", "a"], ["key", "n"]]}},
    ),
    (
        "",
        "@property\ndef layers_block_type(self):\n    raise NotImplementedError",
        {"formulas": {"layers_block_type": None}},
    ),
    (
        "",
        "@property\ndef num_experts(self):\n    if self.n:\n        return 1\n    else:\n        return 2",
        {"formulas": {"num_experts": ["if", ["key", "n"], 1, 2]}},
    ),
    (
        "",
        "sub_configs = {'text_config': TextConfig, 'vision_config': TextConfig, **x}",
        {"parts": {"text_config": "inner"}},
    ),
    ("", "sub_configs = {'text_config': NamelessConfig}", {"parts": {"text_config": None}}),
    ("", "sub_configs_defaults = {'text_config': Spec(config_class=TextConfig)}", {"parts": {"text_config": "inner"}}),
    ("", "sub_configs_defaults = {'text_config': Spec(TextConfig)}", {"parts": {"text_config": "inner"}}),
    ("", "sub_configs_defaults = {'text_config': Spec(Auto, model_type='t')}", {"parts": {"text_config": "t"}}),
    ("", "sub_configs_defaults = {'text_config': Spec()}", {"parts": {"text_config": None}}),
    (
        "",
        post("self.text_config = TextConfig(**self.text_config)"),
        {"parts": {"text_config": "inner"}, "built": {"text_config": {"class": "TextConfig"}}},
    ),
    (
        "",
        "def __init__(self, **kwargs):\n    self.text_config: object = TextConfig(**kwargs.pop('language_config', {}))",
        {
            "parts": {"text_config": "inner"},
            "sources": {"text_config": ["given", "language_config", {}]},
            "built": {"text_config": {"class": "TextConfig"}},
        },
    ),
    (
        "",
        (
            "def __init__(self, config=None, **kwargs):\n    config = config or {}\n    part = config.get('text', {})\n"
            "    self.text_config = TextConfig(**part)"
        ),
        {
            "parts": {"text_config": "inner"},
            "sources": {"text_config": ["get", ["or", ["key", "config"], {}], "text", {}]},
            "built": {"text_config": {"class": "TextConfig"}},
        },
    ),
    (
        "",
        "def __init__(self, llm_config=None, **kwargs):\n    self.text_config = llm_config",
        {"parts": {"text_config": None}, "sources": {"text_config": ["given", "llm_config", {}]}},
    ),
    ("", "def __init__(self, text_config=None):\n    self.text_config = text_config", {"parts": {"text_config": None}}),
    (
        "",
        "def __getattribute__(self, key):\n    return getattr(super().__getattribute__('text_config'), key)",
        {"forwards": "text_config"},
    ),
    (
        "",
        "def __setattr__(self, key, value):\n    if key == 'text_model_id':\n        self.wrapped = get_config(value)",
        {"other_model": "text_model_id"},
    ),
    (
        "",
        (
            "def __init__(self, text_config=None):\n    stated = text_config or {}\n"
            "    self.wrapped_model_config = transformers.CONFIG_MAPPING[stated.get('model_type', 'llama')](**stated)\n"
            "@property\ndef text_config(self):\n    return self.wrapped_model_config.get_text_config()"
        ),
        {"parts": {"text_config": "llama"}, "text": "text_config"},
    ),
    ("", post("self.decoder = CONFIG_MAPPING['llama']()"), {"parts": {"decoder": "llama"}}),
    ("", post("self.decoder = outside()"), {"parts": {"decoder": None}, "formulas": {}}),
    ("PartsConfig", "", {"parts": {"text_config": "inner"}, "built": {"text_config": {"class": "TextConfig"}}}),
    (
        "PartsConfig",
        "def __init__(self, x=1, **kwargs):\n    super().__init__(**kwargs)",
        {"parts": {"text_config": "inner"}, "built": {"text_config": {"class": "TextConfig"}}},
    ),
    (
        "PartsConfig",
        "def __init__(self, **kwargs):\n    self.text_config = outside()\n    super().__init__(**kwargs)",
        {"parts": {"text_config": "inner"}, "built": {"text_config": {"class": "TextConfig"}}},
    ),
    ("PartsConfig", "def __init__(self, **kwargs):\n    self.x = 1", {}),
    (
        "",
        (
            "sub_configs = {'thinker_config': TextConfig}\ndef get_text_config(self):\n"
            "    return self.thinker_config.get_text_config()"
        ),
        {"parts": {"thinker_config": "inner"}, "text": "thinker_config"},
    ),
    ("", "def get_text_config(self):\n    return self", {}),
    ("", "def __init__(self, text_config, **kwargs):\n    for k, v in text_config.items():\n        print(k)", {}),
    (
        "",
        "def __init__(self, text_config, **kwargs):\n    for k, v in text_config.items():\n        setattr(self, k, v)",
        {"flattens": "text_config"},
    ),
]


def world_of(folder: Path, files: dict[str, str]) -> World:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    return World(SourceReader(FolderSource(folder)))


@pytest.mark.parametrize(("base", "body", "expected"), ROWS)
def test_a_configuration_class_is_read(tmp_path: Path, base: str, body: str, expected: dict[str, Any]) -> None:
    files = {
        "transformers/configuration_utils.py": (
            "class PreTrainedConfig:\n    def get_text_config(self): ...\n    def __post_init__(self, **kwargs): ..."
        ),
        "transformers/models/auto/configuration_auto.py": (
            "CONFIG_MAPPING_NAMES = {'one': 'OneConfig', 'lost': 'LostConfig', 'alias': 'AliasConfig'}"
        ),
        "transformers/models/one/configuration_one.py": HEAD
        + f"class OneConfig({base or 'PreTrainedConfig'}):\n"
        + indent(body or "pass", "    ")
        + "\nAliasConfig = OneConfig\n",
        "transformers/models/one/modeling_one.py": "class LostConfig: ...",
    }
    found = transformers_configs(world_of(tmp_path, files))
    assert found == {"one": {"class": "OneConfig", **{name: part for name, part in expected.items() if part != {}}}}


def test_a_release_without_the_mapping_has_no_rows(tmp_path: Path) -> None:
    assert transformers_configs(world_of(tmp_path, {"transformers/x.py": ""})) == {}


MODELING = """
from ...modeling_utils import PreTrainedModel
class OnePreTrainedModel(PreTrainedModel): ...
class OneModel(OnePreTrainedModel):
    _supports_attention_backend = True
class OneHead(OnePreTrainedModel):
    _supports_attention_backend = outside(1)
class OneOther: ...
__all__ = ["OneModel", "OneHead", "OneOther", "OnePreTrainedModel", "Missing"]
"""


def test_models_have_the_flags_of_what_they_support(tmp_path: Path) -> None:
    files = {
        "transformers/modeling_utils.py": "class PreTrainedModel: ...",
        "transformers/models/one/modeling_one.py": MODELING,
        "transformers/models/two/modeling_two.py": "",
        "transformers/models/three/modeling_three.py": "__all__ = f()",
        "transformers/models/auto/modeling_auto.py": "__all__ = ['X']",
    }
    assert backend_models(world_of(tmp_path, files)) == {"OneModel": ["is_backend_compatible"]}


@pytest.mark.parametrize(
    ("body", "expected"),
    [("remap_legacy_layer_types(self)", {"mamba": "linear_attention"}), ("pass", {})],
)
def test_old_layer_types_are_renamed_where_every_configuration_does_so(
    tmp_path: Path, body: str, expected: dict[str, str]
) -> None:
    text = (
        f"_LEGACY_LAYER_TYPE_REMAP = {{'mamba': 'linear_attention'}}\nclass PreTrainedConfig:\n"
        f"    def __post_init__(self, **kwargs):\n        {body}\n"
    )
    world = world_of(tmp_path, {"transformers/configuration_utils.py": text})
    assert (legacy_layer_types(world), renamed_layer_types(world)) == (expected, {"mamba": "linear_attention"})


def test_no_layer_types_are_renamed_by_a_release_without_new_names(tmp_path: Path) -> None:
    assert renamed_layer_types(world_of(tmp_path, {"transformers/configuration_utils.py": ""})) == {}
