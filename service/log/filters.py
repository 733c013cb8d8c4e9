"""The filters of the decision log: their names and legal values.

Used by ``query`` and by the OpenAPI document, so it does not import the database library. Patterns have no anchors, and
are used for a full match.
"""

from __future__ import annotations

from typing import Final

from policy.parser.fields import NAME
from policy.rules.effects import Outcome, Runner

NULL: Final = "null"
"""The text that matches a null field."""
CHOICES: Final = {"runner": (*map(str, Runner), NULL), "outcome": (*map(str, Outcome), NULL)}
TEXT_FILTERS: Final = (*CHOICES, "vllm_version", "requested_by", "path", "revision")
"""The filters that compare a field of a record with a text."""
BOUNDS: Final = ("since", "until")
FILTERS: Final = (*TEXT_FILTERS, "starts", "rule", *BOUNDS, "limit")

MAX_TEXT: Final = 256
"""The maximum length of a text or of a rule's id."""
TEXT: Final = r"[^\u0000]+"
RULE: Final = NAME.pattern
ID: Final = "[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"
UNITS: Final = {"s": "seconds", "m": "minutes", "h": "hours", "d": "days"}
TIMESTAMP: Final = (
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}([Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,32})?([Zz]|[+-][0-9]{2}:[0-9]{2}))?"
)
"""A date, or a date with a time and its offset (RFC 3339)."""
AGO: Final = f"[0-9]{{1,5}}[{''.join(UNITS)}]"
MAX_LIMIT: Final = 1000
DEFAULT_LIMIT: Final = 100
