"""A small source of a release, and rules that decide as it does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ruletexts import rule_text

if TYPE_CHECKING:
    from pathlib import Path

CONFIG = """
import functools
from vllm import envs
from vllm.config.compilation import CompilationMode
from vllm.platforms import current_platform
from vllm.triton_utils import HAS_TRITON

LISTED = ("LlamaForCausalLM", "Qwen3ForCausalLM")

@functools.cache
def listed():
    return LISTED[1:] if current_platform.is_rocm() else LISTED

class VllmConfig:
    def __post_init__(self):
        self.unheard_of()
        if self.use_v2_model_runner:
            self._validate_v2_model_runner()

    @property
    def use_v2_model_runner(self):
        use = envs.VLLM_USE_V2_MODEL_RUNNER
        if use is not None:
            return use
        if not HAS_TRITON or not any(name in listed() for name in self.model_config.architectures if self.model_config):
            return False
        return not self._get_v2_model_runner_unsupported_features()

    def _get_v2_model_runner_unsupported_features(self):
        found = []
        if self.compilation_config.mode == CompilationMode.STOCK_TORCH_COMPILE:
            found.append("stock torch.compile")
        if self.parallel_config.use_ubatching:
            found.append("microbatches")
        return found

    def _validate_v2_model_runner(self):
        if found := self._get_v2_model_runner_unsupported_features():
            raise ValueError("V2 does not support: " + ", ".join(found))

    def _verify_masks(self):
        block_size = self.cache_config.block_size
        model_config = self.model_config
        if model_config is None or not model_config.return_sampling_mask:
            return
        if not self.use_v2_model_runner:
            raise ValueError("masks need V2")

    def _verify_more(self):
        if self.profiler_config.is_on and not self.use_v2_model_runner:
            raise ValueError("profiles need V2")
"""
OTHER_FILES = {
    "vllm/envs.py": 'import os\nenvironment_variables = {"VLLM_USE_V2_MODEL_RUNNER": lambda: '
    'maybe(os.getenv("VLLM_USE_V2_MODEL_RUNNER"))}\n'
    "def maybe(text):\n    return None if text is None else bool(int(text))\n",
    "vllm/config/compilation.py": """\
import enum
class CompilationMode(enum.IntEnum):
    NONE = 0
    STOCK_TORCH_COMPILE = 1
    DYNAMO_TRACE_ONCE = 2
    VLLM_COMPILE = 3
class CUDAGraphMode(enum.Enum):
    NONE = 0
    PIECEWISE = 1
    FULL = 2
    FULL_DECODE_ONLY = (2, 0)
    FULL_AND_PIECEWISE = (2, 1)
""",
    "vllm/config/parallel.py": (
        "class ParallelConfig:\n    @property\n    def use_ubatching(self):\n"
        "        return self.enable_dbo or self.ubatch_size > 1\n"
    ),
}

EQUIVALENT = CONFIG.replace(" if self.model_config)", ")").replace("not any(", "self.model_config is None or not any(")
"""The source that decides as the rules do."""


def write_source(folder: Path, config: str = CONFIG, others: dict[str, str | None] | None = None) -> Path:
    """Write a source with these files; one whose text is ``None`` is left out."""
    for name, text in {"vllm/config/vllm.py": config, **OTHER_FILES, **(others or {})}.items():
        if text is not None:
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    return folder


RELEASES = "known: ['0.33.0']\ndefault: '0.33.0'\n"
STOCK = {"compilation_config.mode": "STOCK_TORCH_COMPILE"}
UBATCHES = {"any": [{"parallel_config.enable_dbo": True}, {"parallel_config.ubatch_size": {"at_least": 2}}]}
NOT_LISTED = {
    "any": [
        {"model_config.architectures": {"has_none_of": ["LlamaForCausalLM", "Qwen3ForCausalLM"]}},
        {"all": [{"platform.is_rocm": True}, {"model_config.architectures": {"has_none_of": ["Qwen3ForCausalLM"]}}]},
        {"model_config": "absent"},
    ]
}
RULES: list[tuple[str, str, dict[str, Any]]] = [
    (
        "variable-invalid",
        "invalid",
        {"text": "{env.VLLM_USE_V2_MODEL_RUNNER}", "when": {"env.VLLM_USE_V2_MODEL_RUNNER": "malformed"}},
    ),
    ("variable-true", "override-v2", {"message": "V2", "when": {"env.VLLM_USE_V2_MODEL_RUNNER": True}}),
    ("variable-false", "override-v1", {"message": "V1", "when": {"env.VLLM_USE_V2_MODEL_RUNNER": False}}),
    ("listed", "not-default", {"message": "V1", "when": NOT_LISTED}),
    ("no-triton", "not-default", {"message": "V1", "when": {"platform.has_triton": False}}),
    ("stock-compile", "exclude-v2", {"feature": "stock torch.compile", "when": STOCK}),
    ("microbatches", "exclude-v2", {"feature": "microbatches", "when": UBATCHES}),
    ("v2", "default-v2", {"message": "V2", "when": "always"}),
    (
        "unsupported",
        "refuse-v2",
        {"text": "V2 does not support: {unsupported_features}", "when": "always", "requires_any": ["exclude-v2"]},
    ),
    ("masks", "refuse-v1", {"text": "masks need V2", "when": {"model_config.return_sampling_mask": True}}),
    ("elsewhere", "refuse-v2", {"text": "the worker wants more", "when": {"model_config.is_moe": True}}),
]


def rule_texts(**changed: dict[str, Any]) -> dict[str, str]:
    """The files of the rules, by path; fields of a rule's range may be replaced."""
    texts = {"releases.yaml": RELEASES}
    for order, (name, effect, body) in enumerate(RULES):
        ordered: dict[str, Any] = {"order": order} if effect.startswith(("exclude", "refuse")) else {}
        texts[f"upstream/{name}.yaml"] = rule_text(
            name, effect, releases=[{"vllm": ">=0.33", **body, **changed.get(name, {})}], **ordered
        )
    return texts
