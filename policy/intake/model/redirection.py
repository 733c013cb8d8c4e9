"""The variables that may make vLLM load a different model from the one that its arguments name.

Follows `vllm/envs.py` and `maybe_model_redirect` of `vllm/transformers_utils/utils.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

REDIRECT: Final = "VLLM_MODEL_REDIRECT_PATH"
MODELSCOPE: Final = "VLLM_USE_MODELSCOPE"
MAY_DIFFER: Final = "check that the given `config.json` is the one that vLLM loads"


def redirections(env: Mapping[str, str | None]) -> list[str]:
    """A warning for each variable that may make vLLM load a different model; a value of None is unknown."""
    found = []
    modelscope = env.get(MODELSCOPE, "")
    if env.get(REDIRECT, "") != "":
        found.append(
            f"`{REDIRECT}` is set, so vLLM may load a different model from the one in its arguments; {MAY_DIFFER}"
        )
    if modelscope is None or modelscope.lower() == "true":
        found.append(f"`{MODELSCOPE}` is set, so vLLM loads models from ModelScope, not from the hub; {MAY_DIFFER}")
    return found
