"""The schemas of rule files, as editors use them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

from jsonschema import Draft202012Validator

from policy.rules.loader import TEST_SUFFIX

RULES: Final = Path(__file__).resolve().parent.parent / "rules"
VALIDATORS: Final = {
    name: Draft202012Validator(json.loads((RULES / f"{name}.schema.json").read_text()))
    for name in (
        "rule",
        "house-rule",
        "condition",
        "cases",
        "releases",
        "images",
        "image-cases",
        "request-rule",
        "request-cases",
    )
}


def schema_of(path: str) -> str:
    """The schema that a file of the rules folder follows, by its path."""
    if path == "releases.yaml":
        return "releases"
    if path.startswith("images/"):
        return "image-cases" if path.endswith(TEST_SUFFIX) else "images"
    if path.startswith("upstream/requests/"):
        return "request-cases" if path.endswith(TEST_SUFFIX) else "request-rule"
    if path.endswith(TEST_SUFFIX):
        return "cases"
    if path.split("/")[-2:-1] == ["conditions"]:
        return "condition"
    return "house-rule" if path.startswith("house/") else "rule"
