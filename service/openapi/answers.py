"""The schemas of answers: of those with a type in the code from that type, of the documents of the catalogue from here.

A field is required if every answer has it. Not here: what each field of a typed answer means (``descriptions``).
"""

from __future__ import annotations

from inspect import cleandoc
from typing import Any, Final

import msgspec

from policy.checks.comparison import DryRunComparison, DryRunComparisonOfAll
from policy.decision.decision import Decision
from policy.problems import Problem
from policy.request.items import ManifestDecisions
from policy.rules.effects import Layer
from policy.rules.json_schema import condition_file_schema, rule_schema
from service.admission.review import AdmissionReview
from service.log.messages import Counts
from service.log.record import Record
from service.openapi.descriptions import FIELDS, LOG_COUNTS, REVISION, RULE_FIELDS
from service.openapi.naming import REF, Schema, nullable, ref

TYPES: Final = (Decision, Problem, DryRunComparison, DryRunComparisonOfAll, ManifestDecisions, Record, AdmissionReview)
NAMES: Final = {
    "AdmissionReview": "AdmissionReviewResponse",
    "Response": "AdmissionResponse",
    "Status": "AdmissionStatus",
    "Alternative": "AlternativeDecision",
    "ClassOutcome": "ClassDecision",
    "Record": "LogRecord",
    "Resolution": "DecidingRelease",
}
"""Types whose name says too little, or is that of something else in a generated client."""
TEXT: Schema = {"type": "string"}
TIMESTAMP: Schema = {"type": "string", "format": "date-time"}
COUNT: Schema = {"type": "integer", "minimum": 0}
CLOSED: Final = {"runner": "Runner", "outcome": "Outcome", "layer": "Layer", "effect": "Effect"}
"""Fields of any answer with a closed set of values."""
DROPPED: Final = frozenset({"$defs", "allOf", "pattern", "minLength", "minItems"})
"""Keywords of the schemas of files that are left out."""
EXACT: Final[dict[str, dict[str, Schema]]] = {
    "Decision": {"decision_id": {**TEXT, "format": "uuid"}},
    "Problem": {"type": ref("ProblemType")},
    "Assumption": {"why": ref("AssumptionReason")},
    "MemberChange": {"member": ref("ComparedField")},
    "ClassDecision": {"reasons": {"type": "array", "items": ref("RuleEffect")}},
    "LogRecord": {
        "decision_id": {**TEXT, "format": "uuid"},
        "timestamp": TIMESTAMP,
        "labels": {"type": "object", "additionalProperties": TEXT},
        "path": ref("LoggedPath"),
        "input": ref("LoggedRequest"),
        "result": ref("Decision"),
    },
}
"""Schemas of fields that are narrower than their types."""


def answers() -> dict[str, Schema]:
    """The schemas by name."""
    return {
        "DecisionAnswer": {
            "description": "The decision; for a manifest, one for each engine in it.",
            "anyOf": [ref("Decision"), ref("ManifestDecisions")],
        },
        "DryRunAnswer": {
            "description": "The explained decision; with candidate rules, both decisions and what differs.",
            "anyOf": [
                ref("Decision"),
                ref("ManifestDecisions"),
                ref("DryRunComparison"),
                ref("DryRunComparisonOfAll"),
            ],
        },
        "BatchAnswer": _object(
            "The answers to a batch.",
            items=_list(ref("BatchItemAnswer"), "the answers, in the order of the requests"),
        ),
        "BatchItemAnswer": {
            "description": "The answer to one request of a batch, or the problem with it.",
            "anyOf": [ref("Decision"), ref("ManifestDecisions"), ref("Problem")],
        },
        "AnswerLines": {
            **TEXT,
            "description": "A `BatchItemAnswer` as JSON on each line, in the order of the requests.",
            "contentMediaType": "application/x-ndjson",
        },
        "Table": {**TEXT, "description": "The answer as a table for people."},
        **_typed(),
        "RuleEffect": _object(
            "A rule that applies, and its effect.",
            rule={**TEXT, "description": "the rule's id"},
            effect={**ref("Effect"), "description": "what it does"},
        ),
        **_log(),
        **_catalogue(),
        **_rules(),
        **_health(),
    }


def _object(description: str, /, *optional: str, **fields: Schema) -> Schema:
    """An object with these fields; all but the ``optional`` ones are required."""
    return {
        "type": "object",
        "description": description,
        "required": [name for name in fields if name not in optional],
        "properties": fields,
    }


def _list(items: Schema, description: str) -> Schema:
    return {"type": "array", "items": items, "description": description}


def _typed() -> dict[str, Schema]:
    """The schemas of the types, with closed sets of values, and what each field means."""
    (_, made) = msgspec.json.schema_components(TYPES, ref_template=REF)
    text = msgspec.json.encode(made).decode()
    for name, known in NAMES.items():
        text = text.replace(f'"{REF.format(name=name)}"', f'"{REF.format(name=known)}"')
    found: dict[str, Schema] = {}
    for name, schema in msgspec.json.decode(text).items():
        known = NAMES.get(name, name)
        fields = {field: _field(known, field, child) for field, child in schema["properties"].items()}
        required = set(schema.get("required", ()))
        if name != "Record":  # a record leaves out a field that has its default, other answers have all fields
            required |= {field for field, child in schema["properties"].items() if "default" in child}
        found[known] = {
            "type": "object",
            "description": cleandoc(schema["description"]).partition("\n\n")[0].replace("``", "`"),
            "required": [field for field in fields if field in required],
            "properties": fields,
        }
    found["AdmissionResponse"]["properties"]["patch"] |= {"contentMediaType": "application/json-patch+json"}
    return found


def _field(name: str, field: str, schema: Schema) -> Schema:
    """The schema of a field, with its description."""
    exact = EXACT.get(name, {}).get(field)
    if exact is None and field in CLOSED:
        exact = nullable(ref(CLOSED[field])) if "anyOf" in schema else ref(CLOSED[field])
    found = {key: value for key, value in schema.items() if key != "default"} if exact is None else exact
    return {**found, "description": FIELDS[name][field]}


def _log() -> dict[str, Schema]:
    question = {
        "request_id": {**TEXT, "description": "as sent"},
        "vllm_version": {**TEXT, "description": "the requested version, or the default release"},
        "beyond_verified": {**ref("BeyondVerified"), "description": "if the release is not known"},
        "layers": {
            **_list(ref("Layer"), "if only vLLM's own decision was requested"),
            "minItems": 1,
            "maxItems": 1,
        },
        "facts": {**ref("Facts"), "description": "the facts, stated or derived"},
    }
    return {
        "LogPage": _object(
            "Records, the newest first.",
            items=_list(ref("LogRecord"), "the records"),
            next=nullable(TEXT, "the `until` of the page after this one; `null` if there is none"),
        ),
        "LoggedRequest": _object(
            "A request that gives the same decision by the same rules.",
            "request_id",
            "beyond_verified",
            "layers",
            **question,
        ),
    }


def _catalogue() -> dict[str, Schema]:
    """The documents about the loaded rules, other than rules."""
    layer = {**ref("LayerCounts"), "description": "the rules of the layer"}
    fault = _object(
        "Why newer rules are not loaded.",
        at={**TIMESTAMP, "description": "when they were tried"},
        errors=_list(TEXT, "every fault in them"),
    )
    release = _object(
        "A release whose decisions were checked against vLLM itself.",
        version={**TEXT, "description": "the version"},
        verified={"type": "boolean", "description": "whether its decisions were checked"},
        default={"type": "boolean", "description": "whether it decides a request without a version"},
    )
    fact = _object(
        "A fact that rules can read.",
        name={**TEXT, "description": "its flat name; the dots are nesting in a request"},
        type={**ref("FactType"), "description": "the type of its values"},
        legal={**TEXT, "description": "the legal values, for people"},
        choices=_list(TEXT, "the legal values, if the type is `choice`"),
        nullable={"type": "boolean", "description": "whether `null` is legal"},
        default={"description": "the value if it is not stated"},
        meaning={**TEXT, "description": "what it means"},
        read_by=_list(TEXT, "the releases in which a rule reads it"),
    )
    counts = _object(
        "How much is loaded.",
        **{name: {**COUNT, "description": f"the number of {name}"} for name in ("rules", "conditions", "releases")},
    )
    return {
        "LoadedPolicy": _object(
            "The loaded rules.",
            revision={**TEXT, "description": REVISION},
            layers={**ref("PolicyLayers"), "description": "the rules by layer"},
            counts={**ref("PolicyCounts"), "description": "how much is loaded"},
            source={**TEXT, "description": "where the rules come from"},
            loaded_at={**TIMESTAMP, "description": "since when they are in force"},
            last_reload_error=nullable(ref("ReloadError"), "why newer rules are not loaded; `null` if there are none"),
        ),
        "PolicyLayers": _object("The rules by layer.", **{str(name): layer for name in Layer}),
        "LayerCounts": _object(
            "The rules of a layer.",
            rules={**COUNT, "description": "the number of rules"},
            effects={"type": "object", "additionalProperties": COUNT, "description": "the number of each effect"},
        ),
        "PolicyCounts": counts,
        "ReloadError": fault,
        "ReleaseList": _object(
            "The known releases.",
            releases=_list(ref("KnownRelease"), "the releases, the oldest first"),
            default={**TEXT, "description": "the release that decides a request without a version"},
        ),
        "KnownRelease": release,
        "Vocabulary": _object("The facts that rules can read.", facts=_list(ref("FactDefinition"), "the facts")),
        "FactDefinition": fact,
    }


def _rules() -> dict[str, Schema]:
    """The catalogue: rule files and files of conditions, with their layer and path."""
    upstream, house, named = map(
        _plain, (rule_schema(Layer.UPSTREAM), rule_schema(Layer.HOUSE), condition_file_schema())
    )
    rule = {**upstream, "properties": {**house["properties"], **upstream["properties"]}}  # required: what both have
    part, gap = (rule["properties"][name]["items"] for name in ("releases", "gaps"))
    rule["properties"] |= {
        "releases": _list(ref("RuleRange"), "the rule in each range of releases"),
        "gaps": _list(ref("RuleGap"), "the releases between the ranges, in which there is no such rule"),
        "effect": {**ref("Effect"), "description": "what the rule does when it fires"},
    }
    condition_part = named["properties"]["releases"]["items"]
    named["properties"]["releases"] = _list(ref("ConditionRange"), "the condition in each range of releases")
    return {
        "RuleCatalogue": _object(
            "The loaded rules, by precedence, and the conditions that several of them use.",
            revision={**TEXT, "description": REVISION},
            rules=_list(ref("Rule"), "the rules"),
            conditions=_list(ref("Condition"), "the conditions"),
        ),
        "Rule": _file("A rule, with its history.", rule, layer=ref("Layer"), file=TEXT),
        "RuleRange": _file("A rule in a range of releases.", part),
        "RuleGap": _file("Releases without the rule.", gap),
        "Condition": _file("A condition that several rules use.", named, file=TEXT),
        "ConditionRange": _file("A condition in a range of releases.", condition_part),
        "ConditionTree": {
            "type": "object",
            "description": "A condition on facts, in the language of rule files.",
            "additionalProperties": True,
        },
    }


def _plain(schema: Any) -> Any:
    """A schema of a file without what a client has no use for: the language of conditions, the form of texts."""
    if isinstance(schema, list):
        return [_plain(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    match schema.get("$ref"):
        case "#/$defs/when":
            always = {**TEXT, "const": "always"}  # last: openapi-python-client tries no alternative after a constant
            return {"anyOf": [ref("ConditionTree"), always], "description": "when the rule applies"}
        case "#/$defs/condition":
            return {**schema, **ref("ConditionTree")}
    return {key: _plain(value) for key, value in schema.items() if key not in DROPPED}


def _file(description: str, schema: Schema, **more: Schema) -> Schema:
    fields = {
        name: {"description": RULE_FIELDS[name], **child} if name in RULE_FIELDS else child
        for name, child in {**schema["properties"], **more}.items()
    }
    if "runner" in fields:
        fields["runner"] = {**ref("Runner"), "description": fields["runner"]["description"]}
    return {
        "type": "object",
        "description": description,
        "required": [*schema["required"], *more],
        "properties": fields,
    }


def _health() -> dict[str, Schema]:
    (_, made) = msgspec.json.schema_components([Counts])
    counts = {
        name: {key: value for key, value in child.items() if key != "default"}
        for name, child in made["Counts"]["properties"].items()
    }
    last = {
        "overflowed": {**COUNT, "description": "decisions that were dropped because too many waited"},
        "waiting": {**COUNT, "description": "decisions that wait to be written"},
    }
    states = {
        "rules": {**ref("RulesState"), "description": "with `verbose`: the loaded rules"},
        "log": {**ref("LogState"), "description": "with `verbose`: the decision log, if it is on"},
    }
    ready = {
        "status": {**TEXT, "const": "ready", "description": "requests are decided"},
        "revision": {**TEXT, "description": REVISION},
    }
    return {
        "Landing": _object(
            "What the service is.",
            service={**TEXT, "description": "its name"},
            description={**TEXT, "description": "what it does"},
            version={**TEXT, "description": "its version"},
            revision={**TEXT, "description": REVISION},
            rules={**COUNT, "description": "the number of rules"},
            releases={**ref("LandingReleases"), "description": "the known releases of vLLM"},
            links={"type": "object", "additionalProperties": TEXT, "description": "paths by what they lead to"},
            example={**ref("LandingExample"), "description": "a request and its answer"},
        ),
        "LandingReleases": _object(
            "The known releases of vLLM.",
            count={**COUNT, "description": "the number of releases"},
            first={**TEXT, "description": "the oldest"},
            last={**TEXT, "description": "the newest"},
            default={**TEXT, "description": "the release that decides a request without a version"},
        ),
        "LandingExample": _object(
            "A request and its answer.",
            path={**TEXT, "description": "where to send it"},
            request={"type": "object", "additionalProperties": True, "description": "the body"},
            answer={"type": "object", "additionalProperties": True, "description": "some fields of the decision"},
        ),
        "Readiness": _object("The service is ready.", *states, **ready, **states),
        "RulesState": _object(
            "The loaded rules, and the result of the last reload.",
            source={**TEXT, "description": "where the rules come from"},
            loaded_at={**TIMESTAMP, "description": "since when they are in force"},
            last_tried_at={**TIMESTAMP, "description": "when rules were last loaded"},
            last_error={"type": ["array", "null"], "items": TEXT, "description": "every fault of the last reload"},
        ),
        "LogState": _object(
            "The state of the decision log.",
            **{name: {**child, "description": LOG_COUNTS[name]} for name, child in counts.items()},
            **last,
        ),
    }
