"""A model's quantization in ``hf_quant_config.json``, where ModelOpt 0.29 and earlier save it, and signs of that file.

Follows ``get_config`` of ``vllm/transformers_utils/config.py``, the same in vLLM 0.20 to 0.33: the whole file becomes
the ``quantization_config`` of a ``config.json`` that has none.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.intake.model.companion import CompanionInvalid, read_companion
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions

FIELD: Final = "quantization_config"
QUANTIZATION: Final = "hf_quant_config.json"
OPTION: Final = "quantization"
METHODS: Final = "modelopt"
"""How the names of the methods begin whose configuration is in ``QUANTIZATION``."""
OTHER_SOURCES: Final = frozenset({FIELD, "quantization_config_file", "quantization_config_dict_json"})
"""The overrides that state a quantization instead of the files beside the model."""
QUANTIZED_NAME: Final = re.compile(
    r"(?<![^\W_])(?:(?:nv|mx)?fp[48](?!\d)|modelopt(?![^\W_]))", re.ASCII | re.IGNORECASE
)
"""The words that quantized checkpoints have in their names."""


def read_quantization(name: str, config: Mapping[str, Any], files: Mapping[str, str]) -> Mapping[str, Any] | None:
    """The quantization of the model ``name`` from its file; None if ``config`` states one, or there is no file.

    Raises:
        CompanionInvalid: the file is not a JSON object; vLLM stops with a traceback.
    """
    if config.get(FIELD) is not None:
        return None
    path = f"{name}/{QUANTIZATION}"
    found = read_companion(path, files)
    if found is not None and not isinstance(found, dict):
        raise CompanionInvalid(path, f"expected an object, got {quoted(found)}")
    return found


def needs_quantization_file(options: ParsedOptions) -> bool:
    """Whether the ``--quantization`` that is given names a method of ModelOpt, which needs the file beside the model.

    It needs another one if the configuration is of another model, or an override names a file or states the method.
    """
    method, overrides = options.others[OPTION][0], options.values.get("hf_overrides")
    if not isinstance(method, str) or not method.lower().startswith(METHODS) or options.values.get("hf_config_path"):
        return False
    return not isinstance(overrides, dict) or OTHER_SOURCES.isdisjoint(overrides)


@lru_cache(maxsize=1024)
def is_named_like_quantized(name: str) -> bool:
    """Whether a model's name suggests that it is quantized; cached as ``is_named_like_embedding``."""
    return QUANTIZED_NAME.search(name) is not None
