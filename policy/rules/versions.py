"""How vLLM's versions are written: their texts, and the names of official builds."""

from __future__ import annotations

import re
from typing import Final

VERSION: Final = r"[0-9]{1,4}(?:\.[0-9]{1,4}){2,3}(?:rc[0-9]{1,3}|\.post[0-9]{1,3})?(?:\.dev[0-9]{1,6})?"
"""Matches a version of vLLM without its local part."""
VARIANTS: Final = re.compile(
    r"(?:(?:cu\d{2,3}|cpu|rocm\d{0,4}(?:\.\d{1,2}){0,2}|xpu|tpu|x86[_.]64|amd64|aarch64|arm64|ubuntu\d{4})(?:[-_.]|$))+"
)
"""The official builds of a release for other hardware or systems, as in local versions and image tags."""


def is_variant(suffix: str) -> bool:
    """Whether the suffix of a release names an official build, such as ``cu129``; other builds may differ in code."""
    return VARIANTS.fullmatch(suffix) is not None
