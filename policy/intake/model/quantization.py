"""A model's quantization in ``hf_quant_config.json``, where ModelOpt 0.29 and earlier save it.

Follows ``get_config`` of ``vllm/transformers_utils/config.py``, the same in vLLM 0.20 to 0.33: the whole file becomes
the ``quantization_config`` of a ``config.json`` that has none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.model.companion import CompanionInvalid, read_companion
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

FIELD: Final = "quantization_config"
QUANTIZATION: Final = "hf_quant_config.json"


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
