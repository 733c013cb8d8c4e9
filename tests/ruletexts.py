"""The texts of rules: read, written, and small ones for tests that make their own catalogues."""

from __future__ import annotations

from typing import Any, Final

import yaml

TEXT_FIELDS: Final = {
    "exclude-v1": "feature",
    "exclude-v2": "feature",
    "refuse-v1": "text",
    "refuse-v2": "text",
    "invalid": "text",
    "advise": "text",
    "known-problem": "text",
}
"""The field of a range that has the rule's text, by effect; for other effects it is ``message``."""


def read_document(text: str) -> Any:
    """A text as YAML, by the loader in C: the one in Python takes ten times as long, and tests read many files."""
    return yaml.load(text, Loader=yaml.CSafeLoader)


def write_document(document: Any, **style: Any) -> str:
    """A document as YAML, by the dumper in C."""
    text: str = yaml.dump(document, Dumper=yaml.CSafeDumper, **style)
    return text


def rule_text(
    name: str, effect: str, when: Any = "always", words: str = "words", vllm: str = ">=0.22", **members: Any
) -> str:
    """A rule with one range; ``members`` are added to the rule, or replace its own fields."""
    part = {"vllm": vllm, TEXT_FIELDS.get(effect, "message"): words, "when": when}
    head = {"id": name, "title": name, "effect": effect, "why": "Because.", "references": ["https://example.org"]}
    return write_document({**head, "releases": [part], **members})
