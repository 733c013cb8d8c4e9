"""The JSON Schemas of the files of a rules folder, by name: those that editors use.

Owns the list of names, under which ``make generate`` writes them and ``GET /v1/schemas/{name}`` returns them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.rules.effects import Layer
from policy.rules.image_schema import image_cases_schema, images_schema
from policy.rules.json_schema import cases_schema, condition_file_schema, releases_schema, rule_schema
from policy.rules.request_schema import request_cases_schema, request_rule_schema

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

SCHEMAS: Final[Mapping[str, Callable[[], dict[str, Any]]]] = {
    "rule": lambda: rule_schema(Layer.UPSTREAM),
    "house-rule": lambda: rule_schema(Layer.HOUSE),
    "condition": condition_file_schema,
    "cases": cases_schema,
    "releases": releases_schema,
    "images": images_schema,
    "image-cases": image_cases_schema,
    "request-rule": request_rule_schema,
    "request-cases": request_cases_schema,
}
"""The function that makes each schema."""
