"""JSON Schemas of the rules about requests and of their cases, for editors.

They check as much as a schema can; ``request_rule`` and ``checks.request_cases`` check everything, with better
messages.
"""

from __future__ import annotations

from typing import Any, Final

from policy.facts.facts import REQUEST_TREE
from policy.facts.vocabulary import ALL_FACTS
from policy.rules.effects import Runner
from policy.rules.json_schema import (
    DIALECT,
    LINK,
    NAME,
    PROBLEM,
    RANGE,
    RELEASE,
    TEXT,
    accepted_mutants_schema,
    definitions,
    facts_schema,
    member_schema,
    not_in_both,
)
from policy.rules.request_rule import MEANINGS, RANGE_FIELDS, REQUIRED_FIELDS

RUNNER: Final = {"enum": [str(runner) for runner in Runner]}


def request_rule_schema() -> dict[str, Any]:
    """The schema of a rule about requests."""
    scope: dict[str, Any] = {
        "runner": {**RUNNER, "description": "the runner that it holds with; left out if it holds with both"},
        "text": {**TEXT, "description": "vLLM's own text if it refuses the request, with `{fact}` for a value"},
        "when": {"$ref": "#/$defs/when"},
    }
    return {
        "$schema": DIALECT,
        "title": "A rule about requests to an engine",
        "type": "object",
        "required": list(REQUIRED_FIELDS),
        "additionalProperties": False,
        "properties": {
            "id": {**NAME, "description": "the file's name without `.yaml`"},
            "title": TEXT,
            "effect": {
                "enum": list(MEANINGS),
                "description": "; ".join(f"{name}: {meaning}" for name, meaning in MEANINGS.items()),
            },
            "parameter": {**TEXT, "description": "the parameter that the answer names"},
            "why": TEXT,
            "remedy": TEXT,
            "fixed_in": {**PROBLEM["fixed_in"], "description": "the release that has the fix"},
            "references": {"oneOf": [LINK, {"type": "array", "items": LINK, "minItems": 1}]},
            "gaps": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["vllm", "why"],
                    "additionalProperties": False,
                    "properties": {"vllm": RANGE, "why": TEXT},
                },
            },
            **scope,
            "releases": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["vllm"],
                    "additionalProperties": False,
                    "properties": {"vllm": RANGE, **scope},
                },
            },
        },
        "allOf": [*map(not_in_both, RANGE_FIELDS)],
        "$defs": definitions(named=False, vocabulary=ALL_FACTS),
    }


def request_cases_schema() -> dict[str, Any]:
    """The schema of a file with cases of a rule about requests."""
    given = facts_schema()
    request = {name: member_schema(member) for name, member in REQUEST_TREE.members.items()}
    case = {
        "type": "object",
        "required": ["name", "vllm", "given", "fires"],
        "additionalProperties": False,
        "properties": {
            "name": TEXT,
            "vllm": {
                "oneOf": [RELEASE, {"type": "array", "items": RELEASE, "minItems": 1}],
                "description": "known releases in which the claim holds",
            },
            "runner": {**RUNNER, "description": "the runner that the engine has; V2 if left out"},
            "given": {
                **given,
                "description": "the facts of the deployment, and below `request` and `engine` those of the request",
                "properties": {**given["properties"], **request},
            },
            "fires": {"type": "boolean", "description": "whether the rule fires with this runner"},
            "message": {**TEXT, "description": "the rule's text with values filled in"},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "The cases of a rule about requests",
        "type": "object",
        "required": ["rule", "cases"],
        "additionalProperties": False,
        "properties": {
            "rule": NAME,
            "cases": {"type": "array", "minItems": 1, "items": case},
            "accepted_mutants": accepted_mutants_schema(),
        },
    }
