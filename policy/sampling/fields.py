"""The fields that a request may have in a release, by its form: vLLM's classes and OpenAI-style bodies.

Owns the table in ``data/fields.json``, which ``policy.vllm.tablegen.request_fields`` makes from vLLM's sources.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Final

from packaging.version import Version

TABLE_FILE: Final = Path(__file__).parent / "data" / "fields.json"
FIRST_RELEASE: Final = "0.22.0"
"""The first release of the table; requests to older ones are not checked."""


@cache
def _table() -> dict[str, dict[str, tuple[str, str | None]]]:
    found: dict[str, dict[str, tuple[str, str | None]]] = json.loads(TABLE_FILE.read_text(encoding="utf-8"))
    return found


def known_fields(form: str) -> frozenset[str]:
    """The fields that this form of a request has in any release."""
    return frozenset(_table()[form])


@cache
def fields_in(form: str, release: str) -> frozenset[str]:
    """The fields that this form of a request has in a release."""
    version = Version(release)
    return frozenset(
        name
        for name, (since, until) in _table()[form].items()
        if Version(since) <= version and (until is None or version < Version(until))
    )


def is_checked(release: str) -> bool:
    """Whether requests to a release can be checked."""
    return Version(release) >= Version(FIRST_RELEASE)
