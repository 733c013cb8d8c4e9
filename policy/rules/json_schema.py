"""JSON Schemas of a request's facts and of rule files, generated from the vocabulary and the rule language.

Owns the schemas that editors use for completion and that the OpenAPI document contains. They check as much as a schema
can in one file or body; the readers (``facts``, ``rule``, ``cases``) check everything, with better messages.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from policy.facts.facts import TREE, Member
from policy.facts.vocabulary import MAX_INTEGER, MAX_ITEMS, MAX_TEXT, VOCABULARY, Fact, FactKind
from policy.parser.fields import MAX_SPAN, RANGE_PATTERN
from policy.rules.effects import TABLE, Effect, Layer, Runner, Stage, TextField
from policy.rules.known_problems import (
    CERTAINTIES,
    EVIDENCE_FILE,
    FINAL_RELEASE,
    MAX_EVIDENCE,
    SYMPTOMS,
    Certainty,
    Symptom,
)
from policy.rules.known_problems import FIELDS as PROBLEM_FIELDS
from policy.rules.known_problems import REQUIRED_FIELDS as PROBLEM_REQUIRED
from policy.rules.operators import OPERATORS, VALUES, operators_for
from policy.rules.rule import (
    DATE_FIELDS,
    HOUSE_FIELDS,
    HOUSE_REQUIRED,
    HOUSE_SCOPE_EFFECTS,
    MAX_ORDER,
    RULE_REQUIRED,
    SCOPE_EFFECTS,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
RANGE: Final = {
    "type": "string",
    "pattern": f"^({RANGE_PATTERN})$",
    "maxLength": MAX_SPAN,
    "description": "releases, such as `>=0.22,<0.24`, or `>=0.22` for an open end",
}
RELEASE: Final = {"type": "string", "pattern": r"^(0|[1-9][0-9]*)(\.(0|[1-9][0-9]*)){2,3}(\.post(0|[1-9][0-9]*))?$"}
NAME: Final = {"type": "string", "pattern": "^[a-z0-9]+(-[a-z0-9]+)*$"}
LINK: Final = {"type": "string", "pattern": "^https://"}
TEXT: Final = {"type": "string", "pattern": r"\S"}
DATE: Final = {"type": "string", "format": "date", "pattern": "^[0-9]{4}-(0[1-9]|1[0-2])-(0[1-9]|[12][0-9]|3[01])$"}

KNOWN_PROBLEM: Final = {
    **NAME,
    "description": "a rule with the effect `known-problem`: its condition must hold too, for the runner that would be "
    "decided otherwise",
}
EVIDENCE: Final = {
    "type": "array",
    "minItems": 1,
    "maxItems": MAX_EVIDENCE,
    "items": {
        "type": "object",
        "required": ["file"],
        "additionalProperties": False,
        "properties": {
            "file": {
                "type": "string",
                "pattern": f"^{EVIDENCE_FILE.pattern}$",
                "description": "a Python file's path in vLLM's wheel",
            },
            "has": {**TEXT, "description": "a text that the file has; blanks count as one"},
            "lacks": {**TEXT, "description": "a text that the file, which is there, does not have"},
        },
        "oneOf": [{"required": ["has"]}, {"required": ["lacks"]}],
    },
}
PROBLEM: Final[dict[str, dict[str, Any]]] = {
    "symptom": {
        "enum": [str(symptom) for symptom in Symptom],
        "description": "; ".join(f"{symptom}: {meaning}" for symptom, meaning in SYMPTOMS.items()),
    },
    "certainty": {
        "enum": [str(certainty) for certainty in Certainty],
        "description": "; ".join(f"{certainty}: {meaning}" for certainty, meaning in CERTAINTIES.items()),
    },
    "fixed_in": {"type": "string", "pattern": f"^{FINAL_RELEASE.pattern}$", "description": PROBLEM_FIELDS["fixed_in"]},
}


def facts_schema() -> dict[str, Any]:
    """The schema of a request's ``facts``: upstream's names, nested."""
    return {
        "description": "What the rules read, under vLLM's own names; a fact that is not stated has its default",
        **_object(TREE),
    }


def _object(member: Member) -> dict[str, Any]:
    schema: dict[str, Any] = {"type": "object" if member is TREE else ["object", "null"]}
    if member.members:
        schema["properties"] = {name: member_schema(child) for name, child in member.members.items()}
    if not member.is_open:
        schema["additionalProperties"] = False
    return schema


def member_schema(member: Member) -> dict[str, Any]:
    """The schema of a field of the nested facts."""
    fact = member.fact
    if fact is None:
        return _object(member)
    if fact.kind is FactKind.PRESENCE:
        return {"description": f"{fact.meaning}; other fields are vLLM's own and ignored", **_object(member)}
    default = None if fact.kind is FactKind.VARIABLE else fact.default
    return {"description": fact.meaning, "default": default, **value_schema(fact)}


def value_schema(fact: Fact) -> dict[str, Any]:
    """The schema of the values of a fact that is not an object."""
    match fact.kind:
        case FactKind.BOOLEAN:
            return {"type": "boolean"}
        case FactKind.INTEGER:
            return {"type": "integer", "minimum": fact.least, "maximum": MAX_INTEGER}
        case FactKind.NUMBER:
            return {"type": ["number", "null"] if fact.nullable else "number"}
        case FactKind.SHARE:
            kinds, rest = "number", {"exclusiveMinimum": 0, "maximum": 1}
        case FactKind.CHOICE:
            return {"enum": [*fact.choices, *([None] if fact.nullable else [])]}
        case FactKind.VARIABLE:
            return {"type": ["string", "boolean", "null"], "maxLength": MAX_TEXT}
        case FactKind.TEXT:
            kinds, rest = "string", {"maxLength": MAX_TEXT}
        case FactKind.TEXTS:
            kinds, rest = "array", {"items": {"type": "string", "maxLength": MAX_TEXT}, "maxItems": MAX_ITEMS}  # type: ignore[dict-item]  # schemas nest
        case _:
            kinds, rest = "array", {"maxItems": MAX_ITEMS}
    return {"type": [kinds, "null"] if fact.nullable else kinds, **rest}


def rule_schema(layer: Layer) -> dict[str, Any]:
    """The schema of a rule file of a layer."""
    texts = {
        str(says): {
            **TEXT,
            "description": f"the text of a rule whose effect has a {says}; `{{fact}}` is replaced by the value",
        }
        for says in TextField
    }
    effects = [effect for effect in TABLE if effect.layer is layer]
    several = {"oneOf": [TEXT, {"type": "array", "items": TEXT, "minItems": 1}]}
    scope: dict[str, Any] = {
        "requires_any": {**several, "description": "effects or rules, one of which must have fired"},
        "unless": {**several, "description": "effects or rules none of which may have fired"},
        "decided_by": {**several, "description": "effects or rules, one of which must have decided"},
        "runner": {"enum": [str(runner) for runner in Runner], "description": "only if this runner is chosen"},
        "cleared_at_startup": {
            "$ref": "#/$defs/condition",
            "description": "when the reason is cleared before vLLM would refuse to start",
        },
    }
    scope |= {
        "evidence": {**EVIDENCE, "description": PROBLEM_FIELDS["evidence"]},
        **({"known_problem": KNOWN_PROBLEM} if layer is Layer.HOUSE else {}),
    }
    common = {**texts, **scope, "when": {"$ref": "#/$defs/when"}}
    house = {
        name: {**(DATE if name in DATE_FIELDS else TEXT), "description": meaning}
        for name, meaning in (HOUSE_FIELDS if layer is Layer.HOUSE else {}).items()
    }
    return {
        "$schema": DIALECT,
        "title": f"A rule of the {layer} layer",
        "type": "object",
        "required": [*RULE_REQUIRED, *(HOUSE_REQUIRED if layer is Layer.HOUSE else ())],
        "additionalProperties": False,
        "properties": {
            "id": {**NAME, "description": "the file's name without `.yaml`"},
            "title": TEXT,
            "effect": {
                "enum": [effect.name for effect in effects],
                "description": "; ".join(f"{effect.name}: {effect.meaning}" for effect in effects),
            },
            "order": {
                "type": "integer",
                "minimum": 0,
                "exclusiveMaximum": MAX_ORDER,
                "description": "the position in vLLM's own list",
            },
            "stage": {
                "enum": [str(stage) for stage in Stage],
                "description": "when vLLM refuses: while it checks its configuration, or later in the worker",
            },
            "why": TEXT,
            "remedy": TEXT,
            "references": {"oneOf": [LINK, {"type": "array", "items": LINK, "minItems": 1}]},
            **house,
            **PROBLEM,
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
            **common,
            "releases": {
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["vllm"],
                    "additionalProperties": False,
                    "properties": {"vllm": RANGE, **common},
                },
            },
        },
        "allOf": [
            _when_or_problem(layer),
            _evidence_if("stage", Stage.WORKER),
            _evidence_if("certainty", Certainty.CODE),
            *map(not_in_both, common),
            *map(_fields_of_effect, effects),
        ],
        "$defs": definitions(),
    }


def _when_or_problem(layer: Layer) -> dict[str, Any]:
    """Requires a condition, or in a house rule the known problem that has one."""
    if layer is not Layer.HOUSE:
        return _in_rule_or_ranges("when")
    return {"anyOf": [_in_rule_or_ranges("when"), _in_rule_or_ranges("known_problem")]}


def _evidence_if(field: str, value: str) -> dict[str, Any]:
    """Requires evidence in rules with this value of a field."""
    return {
        "if": {"properties": {field: {"const": str(value)}}, "required": [field]},
        "then": _in_rule_or_ranges("evidence"),
    }


def _in_rule_or_ranges(field: str) -> dict[str, Any]:
    """Requires a field in the rule or in each of its ranges."""
    return {"anyOf": [{"required": [field]}, {"properties": {"releases": {"items": {"required": [field]}}}}]}


def not_in_both(field: str) -> dict[str, Any]:
    """Forbids a field in the rule that is also in each of its ranges, because it would have no effect."""
    in_ranges = {"releases": {"type": "array", "minItems": 1, "items": {"required": [field]}}}
    return {"not": {"required": [field], "properties": in_ranges}}


def _fields_of_effect(effect: Effect) -> dict[str, Any]:
    """Requires and forbids fields in rules with this effect."""
    illegal: dict[str, Any] = {str(says): False for says in TextField if says is not effect.says}
    scopes = SCOPE_EFFECTS | (HOUSE_SCOPE_EFFECTS if effect.layer is Layer.HOUSE else {})
    illegal |= {field: False for field, legal in scopes.items() if effect.name not in legal}
    order = {"required": ["order"]} if effect.ordered else {"properties": {"order": False}}
    problem: dict[str, Any] = (
        {"required": [*PROBLEM_REQUIRED]}
        if effect.is_problem
        else {"properties": dict.fromkeys((name for name in PROBLEM_FIELDS if name not in SCOPE_EFFECTS), False)}
    )
    illegal_in_rule = illegal if effect.refuses else illegal | {"stage": False}
    ranges = {"releases": {"items": {"properties": illegal}}}
    return {
        "if": {"properties": {"effect": {"const": effect.name}}, "required": ["effect"]},
        "then": {
            "allOf": [
                {"properties": {**illegal_in_rule, **ranges}},
                order,
                problem,
                _in_rule_or_ranges(str(effect.says)),
            ]
        },
    }


def condition_file_schema() -> dict[str, Any]:
    """The schema of a file with a named condition."""
    part = {
        "type": "object",
        "required": ["vllm", "when"],
        "additionalProperties": False,
        "properties": {"vllm": RANGE, "when": {"$ref": "#/$defs/condition"}},
    }
    return {
        "$schema": DIALECT,
        "title": "A condition that several rules use",
        "type": "object",
        "required": ["id", "why", "releases"],
        "additionalProperties": False,
        "properties": {
            "id": NAME,
            "why": TEXT,
            "releases": {"type": "array", "minItems": 1, "items": part},
        },
        "$defs": definitions(named=False),
    }


def accepted_mutants_schema() -> dict[str, Any]:
    """The schema of the mutants that a file with cases accepts."""
    mutant = {
        "type": "object",
        "required": ["vllm", "change", "why"],
        "additionalProperties": False,
        "properties": {
            "item": {**NAME, "description": "the named condition that is changed; defaults to the rule"},
            "vllm": {**TEXT, "description": "the range that is changed, as in the rule"},
            "change": {**TEXT, "description": "the change, as `rules test --mutate` reports it"},
            "why": {**TEXT, "description": "why no case can detect it"},
        },
    }
    return {"type": "array", "minItems": 1, "items": mutant}


def cases_schema() -> dict[str, Any]:
    """The schema of a file with cases."""
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
            "given": facts_schema(),
            "fires": {"type": "boolean", "description": "whether the rule applies in the decision"},
            "message": {
                **TEXT,
                "description": "the rule's `message`, `feature` or `text` with values filled in",
            },
            "starts": {"type": "boolean", "description": "whether vLLM starts"},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "The cases of a rule",
        "type": "object",
        "required": ["rule", "cases"],
        "additionalProperties": False,
        "properties": {
            "rule": NAME,
            "cases": {"type": "array", "minItems": 1, "items": case},
            "accepted_mutants": accepted_mutants_schema(),
        },
    }


def releases_schema() -> dict[str, Any]:
    """The schema of the file with the known releases."""
    removal = {
        "type": "object",
        "required": ["deprecated_in", "announced_for", "why", "references"],
        "additionalProperties": False,
        "properties": {
            "deprecated_in": {**RELEASE, "description": "the release whose notes deprecate the runner"},
            "announced_for": {**RELEASE, "description": "the release that they name for its removal"},
            "why": {**TEXT, "description": "what was said, and what became of it"},
            "references": {"oneOf": [LINK, {"type": "array", "items": LINK, "minItems": 1}]},
        },
    }
    return {
        "$schema": DIALECT,
        "title": "The known vLLM releases",
        "type": "object",
        "required": ["known", "default"],
        "additionalProperties": False,
        "properties": {
            "known": {"type": "array", "items": RELEASE, "minItems": 1, "uniqueItems": True},
            "default": RELEASE,
            "published": {
                "type": "object",
                "description": "the day on which each release was published",
                "propertyNames": RELEASE,
                "additionalProperties": DATE,
            },
            "removals": {
                "type": "object",
                "description": "what vLLM said of the end of a runner",
                "additionalProperties": False,
                "properties": dict.fromkeys(Runner, removal),
            },
        },
    }


def definitions(*, named: bool = True, vocabulary: Iterable[Fact] = VOCABULARY) -> dict[str, Any]:
    """The definitions of ``when`` and conditions on these facts; ``named`` allows references to named conditions."""
    many = {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/condition"}}
    return {
        "when": {"oneOf": [{"const": "always"}, {"$ref": "#/$defs/condition"}]},
        "condition": {
            "type": "object",
            "minProperties": 1,
            "additionalProperties": False,
            "description": "a map means and; a bare value means `is`",
            "properties": {
                "all": {**many, "description": "all of them hold"},
                "any": {**many, "description": "at least one of them holds"},
                "not": {"$ref": "#/$defs/condition", "description": "the negation; still false below an absent object"},
                **({"uses": {**NAME, "description": "a named condition"}} if named else {}),
                **{
                    fact.name: {"description": f"{fact.meaning} (default {fact.default!r})", **comparisons_schema(fact)}
                    for fact in vocabulary
                },
            },
        },
    }


def comparisons_schema(fact: Fact) -> dict[str, Any]:
    """The schema of a fact's comparisons: a bare value, a bare word, or a map of operators."""
    bare: list[dict[str, Any]] = []
    value: dict[str, Any] = (
        {"type": "boolean"} if fact.kind is FactKind.VARIABLE else value_schema(replace(fact, nullable=False))
    )
    known = operators_for(fact)
    if fact.kind in VALUES:
        bare.append(value)
    words = [word for word in known if OPERATORS[word].takes == "nothing"]
    if words:
        bare.append({"enum": words})
    item = {"enum": list(fact.choices)} if fact.choices else {"type": "string"}
    takes = {
        "value": value,
        "values": {"type": "array", "items": item, "minItems": 1, "uniqueItems": True},
        "number": value,
        "nothing": {"const": True},
    }
    operators = {word: {"description": OPERATORS[word].meaning, **takes[OPERATORS[word].takes]} for word in known}
    return {
        "anyOf": [*bare, {"type": "object", "minProperties": 1, "additionalProperties": False, "properties": operators}]
    }
