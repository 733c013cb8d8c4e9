"""The flags of vLLM's `_ModelInfo` for a model class, read from source text.

Owns the attributes and their defaults, as in `interfaces.py`, `interfaces_base.py` and `registry.py` of releases 0.20
to 0.33.
"""

import ast
from collections.abc import Mapping

from policy.vllm.tablegen.classes import Klass, Outside, constant

FLAG_ATTRIBUTES: Mapping[str, str] = {
    "has_inner_state": "has_inner_state",
    "has_noops": "has_noops",
    "is_attention_free": "is_attention_free",
    "is_hybrid": "is_hybrid",
    "requires_raw_input_tokens": "requires_raw_input_tokens",
    "supports_encoder_tp_data": "supports_multimodal_encoder_tp_data",
    "supports_mamba_prefix_caching": "supports_mamba_prefix_caching",
    "supports_multimodal": "supports_multimodal",
    "supports_multimodal_raw_input_only": "supports_multimodal_raw_input_only",
    "supports_pp": "supports_pp",
    "supports_replayssm": "supports_replayssm",
    "supports_transcription": "supports_transcription",
    "supports_transcription_only": "supports_transcription_only",
}
"""Class attribute → the registry's name of the flag. A flag is set if the attribute is true."""

TEXT_ATTRIBUTES: Mapping[str, tuple[str, str]] = {
    "attn_type": ("attn_type", "decoder"),
    "default_seq_pooling_type": ("seq_pooling_type", "LAST"),
    "default_tok_pooling_type": ("tok_pooling_type", "ALL"),
}
"""Class attribute → its name in the table, and its default, which the table omits."""


def flags_of(klass: Klass) -> dict[str, object]:
    """The flags that are set, sorted, and the texts that differ from their defaults."""
    flags = [flag for attribute, flag in FLAG_ATTRIBUTES.items() if constant(klass, attribute)]
    if "supports_pp" in flags and not _accepts(klass, "forward", ("intermediate_tensors",)):
        flags.remove("supports_pp")  # vLLM only warns that the class says so
    if _is_vllm_model(klass):
        if klass.attribute("compute_logits") is not None:
            flags.append("is_text_generation_model")
        if constant(klass, "is_pooling_model"):
            flags.append("is_pooling_model")
    row: dict[str, object] = {"flags": sorted(flags)}
    for attribute, (name, default) in TEXT_ATTRIBUTES.items():
        text = constant(klass, attribute)
        if text is not None and text != default:
            row[name] = text
    score = _score_type(klass)
    if score is not None:
        row["score_type"] = score
    return row


def _is_vllm_model(klass: Klass) -> bool:
    """Whether a class has the three methods that vLLM checks for, with their parameters."""
    return (
        _accepts(klass, "__init__", ("vllm_config",))
        and klass.attribute("embed_input_ids") is not None
        and _accepts(klass, "forward", ("input_ids", "positions"))
    )


def _accepts(klass: Klass, method: str, parameters: tuple[str, ...]) -> bool:
    found = klass.attribute(method)
    if found is None:
        return method == "__init__"  # those of torch.nn.Module and Protocol accept any keyword
    node = found[1]
    if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
        return True  # an assignment such as `forward = Other.forward`
    arguments = node.args
    named = {argument.arg for argument in (*arguments.args, *arguments.kwonlyargs)}
    return arguments.kwarg is not None or named.issuperset(parameters)


def _score_type(klass: Klass) -> object:
    """The first score type in the resolution order that is not the default; None if there is none."""
    for part in klass.order():
        if isinstance(part, Outside):
            continue
        found = constant(part, "score_type")
        if found not in {None, "bi-encoder"}:
            return found
    return None
