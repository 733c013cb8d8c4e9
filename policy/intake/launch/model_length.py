"""The largest context that a model's configuration allows.

Follows `derive_max_model_len_and_key` of `model_arch_config_convertor.py` and `_get_and_verify_max_len` of
`vllm/config/model.py`, 0.20 to 0.33.
"""

from __future__ import annotations

from math import inf
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.model.configuration import Configuration

USUAL_KEY: Final = "max_position_embeddings"
OTHER_KEYS: Final = (
    "n_positions",
    "max_seq_len",
    "seq_length",
    "model_max_length",
    "max_target_positions",
    "max_sequence_length",
    "max_seq_length",
    "seq_len",
)
OWN_KEY: Final = "model_max_length"
SCALED_TYPES: Final = frozenset({"su", "longrope", "llama3"})
"""The types of RoPE with which the configured length includes the factor, in all releases."""
SCALED_YARN_TYPES: Final = frozenset({"yarn", "deepseek_yarn", "deepseek_llama_scaling"})
YARN_SCALED_SINCE: Final = (0, 30)
"""From this series on the configured length of a model with YaRN is the scaled one."""
DEFAULT: Final = 2048


class ModelLength(Struct, frozen=True):
    """The largest context, and the field that determines it.

    Without a field the configuration states no length, and any is accepted. ``served`` is the length without
    ``--max-model-len``.
    """

    longest: float
    field: str | None
    served: int


class UnknownLength(Exception):
    """The configuration states a length in a way that is not understood here."""


def model_length(configuration: Configuration, window: int | None) -> ModelLength:
    """The largest context of a model; ``window`` is its sliding window if that is disabled.

    Raises:
        UnknownLength: the length depends on something that is not understood here.
    """
    text, tables = configuration.size_part(), configuration.tables
    convertor = tables.convertors.get(configuration.model_type or "", {})
    if "derive_max_model_len_and_key" in convertor.get("changes", ()):
        raise UnknownLength
    longest, field = _stated(text)
    if window is not None and window < longest:
        longest, field = window, "sliding_window"
    if longest == inf:
        return ModelLength(longest, None, DEFAULT)
    ropes = _ropes(text)
    longrope = "longrope" in map(_type, ropes)
    try:
        if "gemma3" not in (text.model_type or ""):
            longest = _scaled(longest, ropes, tables.series)
        served = text.get("original_max_position_embeddings") if longrope else None
        return ModelLength(longest, field, served if type(served) is int else int(longest))
    except (OverflowError, ValueError) as error:
        raise UnknownLength from error


def _stated(text: Configuration) -> tuple[float, str | None]:
    longest, field = inf, None
    others = text.names_among(OTHER_KEYS)
    for name in (USUAL_KEY, *others):
        found = text.get(name)
        if found is None:
            continue
        if type(found) not in {int, float}:
            raise UnknownLength
        if found < longest:
            longest, field = found, name
    own = text.get(OWN_KEY) if others else None
    return (own, OWN_KEY) if own else (longest, field)


def _ropes(text: Configuration) -> list[Mapping[str, Any]]:
    """The parameters of RoPE, of each layer type if they differ."""
    found = text.get("rope_parameters")
    if not found:
        found = text.get("rope_scaling")
    if not found or not isinstance(found, dict):
        return []
    if any(isinstance(part, dict) for part in found.values()):
        return [part for part in found.values() if isinstance(part, dict) and part]
    return [found]


def _type(rope: Mapping[str, Any]) -> Any:
    return rope.get("rope_type", rope.get("type"))


def _scaled(longest: float, ropes: list[Mapping[str, Any]], series: tuple[int, int]) -> float:
    if not ropes and type(longest) in {int, float}:
        return float(longest)
    factor: Any = 1.0
    for rope in ropes:
        kind = _type(rope)
        if kind in SCALED_TYPES or (series >= YARN_SCALED_SINCE and kind in SCALED_YARN_TYPES):
            continue
        if kind not in {"default", "linear", "dynamic", "yarn", "mrope", None}:
            raise UnknownLength
        factor = rope.get("factor", factor)
        if kind == "yarn":
            longest = rope.get("original_max_position_embeddings")  # type: ignore[assignment]
    factor = 1.0 if factor is None else factor
    if type(factor) not in {int, float} or type(longest) not in {int, float}:
        raise UnknownLength
    return float(longest * factor)
