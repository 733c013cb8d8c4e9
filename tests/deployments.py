"""Deployments as users send them: small models by name, and the public answer."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest

from policy.errors import RequestInvalid
from policy.request.request import read_request

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.decision.decision import Decision
    from policy.policy import Policy

TODAY = date(2026, 1, 1)
NEWEST = "0.33.0"

Config = dict[str, Any]

HEADS: Config = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096, "num_hidden_layers": 4}
DENSE: Config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", **HEADS}
LLAMA: Config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **HEADS}
MODELS: dict[str, Config] = {
    "dense": DENSE,
    "large": {**DENSE, "hidden_size": 8192},
    "moe": {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": 8, **HEADS},
    "mla": {
        "architectures": ["DeepseekV3ForCausalLM"],
        "model_type": "deepseek_v3",
        "kv_lora_rank": 512,
        "n_routed_experts": 8,
        **HEADS,
    },
    "mamba": {"architectures": ["MambaForCausalLM"], "model_type": "mamba", "hidden_size": 4096},
    "mamba2": {"architectures": ["Mamba2ForCausalLM"], "model_type": "mamba2", "hidden_size": 4096},
    "hybrid": {"architectures": ["JambaForCausalLM"], "model_type": "jamba", **HEADS},
    "qwen3-next": {"architectures": ["Qwen3NextForCausalLM"], "model_type": "qwen3_next", **HEADS},
    "pooling": {"architectures": ["BertModel"], "model_type": "bert", "num_attention_heads": 12, "hidden_size": 768},
    "encoder-decoder": {
        "architectures": ["WhisperForConditionalGeneration"],
        "model_type": "whisper",
        "encoder_attention_heads": 8,
    },
    "vision": {
        "architectures": ["Qwen2_5_VLForConditionalGeneration"],
        "model_type": "qwen2_5_vl",
        "text_config": {"model_type": "qwen2_5_vl_text", **HEADS},
    },
    "breakable": {"architectures": ["DeepseekV4ForCausalLM"], "model_type": "deepseek_v4", **HEADS},
    "draft": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **HEADS},
    "eagle-draft": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **HEADS},
    "eagle3-draft": {"architectures": ["LlamaForCausalLM"], "model_type": "llama", **HEADS},
    "medusa": {"architectures": ["MedusaModel"], "model_type": "medusa"},
}
"""Minimal configurations, each by the property that it has."""


class Asking:
    """The decision of a deployment, or its faults; requests include the models that the arguments name."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy

    def request(
        self,
        args: list[str] | str,
        release: str = NEWEST,
        *,
        explain: bool = False,
        upstream: bool = True,
        **deployment: Any,
    ) -> Config:
        """The request of a deployment, without the fields that are not given."""
        models = deployment.pop("models", {})
        words = str(args)
        configs = {
            name: config
            for name, config in MODELS.items()
            if f"'{name}" in words or f'"{name}' in words or f" {name}" in words
        }
        deployment = {"args": args, "model_configs": {**configs, **models}, **deployment}
        return {
            "deployment": deployment,
            "vllm_version": release,
            "explain": explain,
            **({"layers": ["upstream"]} if upstream else {}),
        }

    def __call__(self, args: list[str] | str, release: str = NEWEST, **fields: Any) -> Decision:
        """The decision."""
        return self.document(self.request(args, release, **fields))

    def document(self, document: Any) -> Decision:
        """The decision of a request."""
        return self.policy.decide(read_request(document, self.policy.releases), TODAY)

    def fact(self, name: str, args: list[str] | str, release: str = NEWEST, **fields: Any) -> tuple[Any, str] | None:
        """One fact's value and origin, or ``None`` if the answer does not have it."""
        facts = self(args, release, **fields).facts
        assert facts
        return (facts[name].value, facts[name].from_) if name in facts else None

    def facts(
        self, above: str, args: list[str] | str, release: str = NEWEST, **fields: Any
    ) -> dict[str, tuple[Any, str]]:
        """The facts below an object, by their names relative to it."""
        facts = self(args, release, **fields).facts
        assert facts
        return {
            name.removeprefix(f"{above}."): (each.value, each.from_)
            for name, each in facts.items()
            if name.startswith(f"{above}.")
        }

    def refusal(self, args: list[str] | str, release: str = NEWEST, **fields: Any) -> tuple[str, list[tuple[str, str]]]:
        """The kind of problem and every fault, as (pointer, message)."""
        return self.problem(lambda: self(args, release, **fields))

    def problem(self, ask: Callable[[], object]) -> tuple[str, list[tuple[str, str]]]:
        """The kind of problem that a call raises, and every fault, as (pointer, message)."""
        with pytest.raises(RequestInvalid) as raised:
            ask()
        return raised.value.problem, [(fault.pointer, fault.message) for fault in raised.value.faults]
