"""How vLLM converts the number of experts that a configuration states.

Follows `get_num_experts` of `model_arch_config_convertor.py` and the field `num_experts` of `ModelArchitectureConfig`,
which pydantic converts: the same in vLLM 0.23 and 0.33, and assumed to be so in the other releases.
"""

from __future__ import annotations

import re
from typing import Any, Final

SPACES: Final = " \t\n\r\f\v"
INTEGER: Final = re.compile(r"([+-]?)([0-9]+(?:_[0-9]+)*)(?:\.0+)?", re.ASCII)
"""The texts that pydantic reads as an integer."""
MAX_LENGTH: Final = 4300
"""The longest text that pydantic reads as an integer."""
MAX_FLOAT: Final = 2.0**63
"""The magnitude from which on pydantic refuses to convert a float with an integral value."""


def is_positive(count: Any) -> bool | None:
    """Whether pydantic converts a count to an integer above 0; None if it refuses the count."""
    if isinstance(count, int):
        return count > 0
    if isinstance(count, float):
        return count > 0 if abs(count) < MAX_FLOAT and count.is_integer() else None
    if not isinstance(count, str) or len(count) > MAX_LENGTH:
        return None
    found = INTEGER.fullmatch(count.strip(SPACES))
    if found is None:
        return None
    sign, digits = found.groups()
    return sign != "-" and digits.strip("0_") != ""


def is_plain(count: Any) -> bool:
    """Whether a number of experts is written as usual: an integer, a list of integers, or null."""
    first = count[0] if isinstance(count, list) and count else count
    return first is None if count is None else isinstance(first, int) and not isinstance(first, bool)


def blocks_have_experts(blocks: Any) -> bool | None:
    """Whether a block of `block_configs` has experts; None if vLLM refuses the number in a block."""
    found = False
    for block in blocks if isinstance(blocks, list) else ():
        if not isinstance(block, dict) or block.get("block_type") != "moe":
            continue
        count = block.get("n_routed_experts", 0)
        if not isinstance(count, int | float):
            return None
        found = found or count > 0
    return found
