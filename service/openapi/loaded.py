"""The schemas of the loaded policy, rules, releases and facts, and of the service's readiness."""

from __future__ import annotations

from typing import Any, Final

import msgspec

from policy.rules.effects import Layer
from policy.rules.image_schema import images_schema
from policy.rules.json_schema import condition_file_schema, rule_schema
from policy.rules.request_schema import request_rule_schema
from service.log.messages import Counts
from service.openapi.descriptions import LOG_COUNTS, REVISION, RULE_FIELDS
from service.openapi.shapes import COUNT, TEXT, TIMESTAMP, Schema, list_of, nullable, object_of, ref

DROPPED_KEYWORDS: Final = frozenset({"$defs", "allOf", "pattern", "minLength", "minItems"})
"""Keywords of the schemas of files that are left out."""


def loaded() -> dict[str, Schema]:
    """The schemas by name."""
    return {**_catalogue(), **_rules(), **_health()}


def _catalogue() -> dict[str, Schema]:
    """The documents about the loaded rules, without the rules themselves."""
    layer = {**ref("LayerCounts"), "description": "the rules of the layer"}
    fault = object_of(
        "Why newer rules are not loaded.",
        at={**TIMESTAMP, "description": "when they were tried"},
        errors=list_of(TEXT, "every fault in them"),
    )
    release = object_of(
        "A release whose decisions were checked against vLLM itself.",
        version={**TEXT, "description": "the version"},
        verified={"type": "boolean", "description": "whether its decisions were checked"},
        default={"type": "boolean", "description": "whether it decides a request without a version"},
    )
    fact = object_of(
        "A fact that rules can read.",
        name={**TEXT, "description": "its flat name; the dots are nesting in a request"},
        type={**ref("FactType"), "description": "the type of its values"},
        legal={**TEXT, "description": "the legal values, for people"},
        choices=list_of(TEXT, "the legal values, if the type is `choice`"),
        nullable={"type": "boolean", "description": "whether `null` is legal"},
        default={"description": "the value if it is not stated"},
        meaning={**TEXT, "description": "what it means"},
        read_by=list_of(TEXT, "the releases in which a rule reads it"),
    )
    counts = object_of(
        "How much is loaded.",
        **{
            name: {**COUNT, "description": f"the number of {name}"}
            for name in ("rules", "conditions", "request_rules", "releases", "images")
        },
    )
    return {
        "LoadedPolicy": object_of(
            "The loaded rules.",
            revision={**TEXT, "description": REVISION},
            layers={**ref("PolicyLayers"), "description": "the rules by layer"},
            counts={**ref("PolicyCounts"), "description": "how much is loaded"},
            source={**TEXT, "description": "where the rules come from"},
            loaded_at={**TIMESTAMP, "description": "when they came into force"},
            last_reload_error=nullable(ref("ReloadError"), "why newer rules are not loaded; `null` if there are none"),
        ),
        "PolicyLayers": object_of("The rules by layer.", **{str(name): layer for name in Layer}),
        "LayerCounts": object_of(
            "The rules of a layer.",
            rules={**COUNT, "description": "the number of rules"},
            effects={"type": "object", "additionalProperties": COUNT, "description": "the number of each effect"},
        ),
        "PolicyCounts": counts,
        "ReloadError": fault,
        "ReleaseList": object_of(
            "The known releases.",
            releases=list_of(ref("KnownRelease"), "the releases, the oldest first"),
            default={**TEXT, "description": "the release that decides a request without a version"},
            removals=list_of(ref("Removal"), "what vLLM said of the end of runners"),
        ),
        "KnownRelease": release,
        "ImageList": object_of("The container images that contain vLLM.", images=list_of(ref("Image"), "the rows")),
        **_images(),
        "ArgumentList": object_of(
            "vLLM's flags and environment variables.", items=list_of(ref("ArgumentItem"), "the flags and variables")
        ),
        **_arguments(),
        "Vocabulary": object_of("The facts that rules can read.", facts=list_of(ref("FactDefinition"), "the facts")),
        "FactDefinition": fact,
    }


def _arguments() -> dict[str, Schema]:
    """A flag or a variable, and its values in ranges of releases."""
    since = {**TEXT, "description": "the first release"}
    until = nullable(TEXT, "the last release; `null` if the newest known release has it")
    change = object_of("The values of a flag or a variable in a range of releases.", since=since, until=until)
    words = list_of(TEXT, "")
    change["properties"] |= {
        "flags": {**words, "description": "the spellings of a flag"},
        "off": {**words, "description": "the spellings that set a flag to false"},
        "type": {**TEXT, "description": "the type of its values"},
        "nargs": {"description": "how many words a flag takes, if not one: a number, `+` or `?`"},
        "optional": {"type": "boolean", "description": "whether `None` and the empty text mean null"},
        "choices": {"type": "array", "items": {}, "description": "the legal values"},
        "default": {"description": "the default of a variable, if it can be read"},
        "deprecated": {"type": "boolean", "description": "whether vLLM warns that the variable is deprecated"},
        "replaced_by": {**words, "description": "what vLLM names instead of a deprecated variable"},
    }
    return {
        "ArgumentItem": object_of(
            "A flag or an environment variable of vLLM.",
            kind={"type": "string", "enum": ["argument", "variable"], "description": "a flag, or a variable"},
            name={**TEXT, "description": "the long spelling of a flag, or the name of a variable"},
            field=nullable(TEXT, "the name of a flag's field in `EngineArgs`; `null` for a variable"),
            releases=list_of(ref("ArgumentSpan"), "the releases that have it, the oldest first"),
            changes=list_of(ref("ArgumentChange"), "its values, the oldest first"),
            deprecations=list_of(
                ref("ArgumentDeprecation"), "what the releases that deprecate it say, the oldest first"
            ),
        ),
        "ArgumentDeprecation": object_of(
            "What vLLM says of a flag, of a field of its object, or of their values, that it takes but warns of.",
            member=nullable(TEXT, "the field, as a path with dots; `null` for the flag itself"),
            values=list_of(
                TEXT, "the values that are deprecated, `*` for any text; empty if the flag or field itself is"
            ),
            since=since,
            until=until,
            text=nullable(TEXT, "what vLLM says; `null` if its parser only marks the flag"),
            removed_in=nullable(TEXT, "the release that vLLM names for its end"),
            replaced_by=list_of(TEXT, "what vLLM names instead"),
        ),
        "ArgumentSpan": object_of("An unbroken range of releases.", since=since, until=until),
        "ArgumentChange": change,
    }


def _images() -> dict[str, Schema]:
    """The rows of the table of images, with their file."""
    row = _for_clients(images_schema())["properties"]["images"]["items"]
    tag = row["properties"]["tags"]["items"]
    row["properties"]["tags"] = list_of(ref("ImageTag"), "the tags that show a release")
    return {
        "Image": _file("Container images with the same numbering, for the same hardware.", row, file=TEXT),
        "ImageTag": _file("Tags with the same release of vLLM.", tag),
    }


def _rules() -> dict[str, Schema]:
    """The catalogue: rule files and files of conditions, with their layer and path."""
    upstream, house, named = map(
        _for_clients, (rule_schema(Layer.UPSTREAM), rule_schema(Layer.HOUSE), condition_file_schema())
    )
    rule = {**upstream, "properties": {**house["properties"], **upstream["properties"]}}  # required: what both have
    part, gap = (rule["properties"][name]["items"] for name in ("releases", "gaps"))
    rule["properties"] |= {
        "releases": list_of(ref("RuleRange"), "the rule in each range of releases"),
        "gaps": list_of(ref("RuleGap"), "the releases between the ranges, in which there is no such rule"),
        "effect": {**ref("Effect"), "description": "what the rule does when it fires"},
    }
    evidence = rule["properties"]["evidence"]["items"]
    for schema in (rule, part):
        schema["properties"]["evidence"] = list_of(
            ref("RuleEvidence"), "what proves the ranges of a known problem or of a refusal"
        )
    about_requests = _for_clients(request_rule_schema())
    request_part = about_requests["properties"]["releases"]["items"]
    about_requests["properties"] |= {
        "releases": list_of(ref("RequestRuleRange"), "the rule in each range of releases"),
        "gaps": list_of(ref("RuleGap"), "the releases between the ranges, in which there is no such rule"),
    }
    condition_part = named["properties"]["releases"]["items"]
    named["properties"]["releases"] = list_of(ref("ConditionRange"), "the condition in each range of releases")
    return {
        "RuleCatalogue": object_of(
            "The loaded rules, by precedence, and the conditions that several of them use.",
            revision={**TEXT, "description": REVISION},
            rules=list_of(ref("Rule"), "the rules"),
            conditions=list_of(ref("Condition"), "the conditions"),
            request_rules=list_of(ref("RequestRule"), "the rules about requests to an engine, the worst first"),
        ),
        "Rule": _file("A rule, with its history.", rule, layer=ref("Layer"), file=TEXT),
        "RuleFile": _file(
            "A rule, with its history, the text of its file, and its cases.",
            rule,
            layer=ref("Layer"),
            file=TEXT,
            text={**TEXT, "description": "the text of the file"},
            cases=nullable(ref("RuleCases"), "its cases; `null` if no file has any"),
        ),
        "RequestRuleFile": _file(
            "A rule about requests, with its history, the text of its file, and its cases.",
            about_requests,
            layer=ref("Layer"),
            file=TEXT,
            text={**TEXT, "description": "the text of the file"},
            cases=nullable(ref("RequestRuleCases"), "its cases; `null` if no file has any"),
        ),
        "ConditionFile": _file(
            "A named condition, with its history, the text of its file, and the rules that use it.",
            named,
            file=TEXT,
            used_by=list_of(TEXT, "the ids of the rules that use it"),
            text={**TEXT, "description": "the text of the file"},
        ),
        "RequestRuleCases": object_of(
            "The cases of a rule about requests.",
            file={**TEXT, "description": "the path of their file"},
            text={**TEXT, "description": "the text of that file"},
            items=list_of(ref("RequestRuleCase"), "the cases"),
        ),
        "RequestRuleCase": object_of(
            "A claim about a rule about requests.",
            "message",
            name={**TEXT, "description": "what it says"},
            vllm=list_of(TEXT, "the releases in which it holds"),
            runner={**ref("Runner"), "description": "the model runner of the engine"},
            given={
                "type": "object",
                "description": "the facts of a deployment, with those of the request and the engine",
                "additionalProperties": True,
            },
            fires={"type": "boolean", "description": "whether the rule applies to the request"},
            message={**TEXT, "description": "the text of the rule, with values filled in"},
        ),
        "RuleCases": object_of(
            "The cases of a rule.",
            file={**TEXT, "description": "the path of their file"},
            text={**TEXT, "description": "the text of that file"},
            items=list_of(ref("RuleCase"), "the cases"),
        ),
        "RuleCase": object_of(
            "A claim about a rule.",
            "message",
            "starts",
            name={**TEXT, "description": "what it says"},
            vllm=list_of(TEXT, "the releases in which it holds"),
            given={**ref("Facts"), "description": "the facts of a deployment"},
            fires={"type": "boolean", "description": "whether the rule applies in the decision"},
            message={**TEXT, "description": "the text of the rule, with values filled in"},
            starts={"type": "boolean", "description": "whether vLLM starts"},
        ),
        "FileSchema": {
            "type": "object",
            "description": "A JSON Schema of a kind of file in a rules folder.",
            "additionalProperties": True,
        },
        "RuleRange": _file("A rule in a range of releases.", part),
        "RuleEvidence": _file("A text that a file of vLLM has or lacks.", evidence),
        "RequestRule": _file("A rule about requests to an engine.", about_requests, layer=ref("Layer"), file=TEXT),
        "RequestRuleRange": _file("A rule about requests in a range of releases.", request_part),
        "RuleGap": _file("Releases without the rule.", gap),
        "Condition": _file("A condition that several rules use.", named, file=TEXT),
        "ConditionRange": _file("A condition in a range of releases.", condition_part),
        "ConditionTree": {
            "type": "object",
            "description": "A condition on facts, in the language of rule files.",
            "additionalProperties": True,
        },
    }


def _for_clients(schema: Any) -> Any:
    """The schema of a file without what a client does not need: the language of conditions, the patterns of texts."""
    if isinstance(schema, list):
        return [_for_clients(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    match schema.get("$ref"):
        case "#/$defs/when":
            always = {**TEXT, "const": "always"}  # last: openapi-python-client tries no alternative after a constant
            return {"anyOf": [ref("ConditionTree"), always], "description": "when the rule applies"}
        case "#/$defs/condition":
            return {**schema, **ref("ConditionTree")}
    return {key: _for_clients(value) for key, value in schema.items() if key not in DROPPED_KEYWORDS}


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
        "required": [*schema.get("required", ()), *more],
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
        "run_folder": {**ref("RunFolderState"), "description": "with `verbose`: the folder that the processes share"},
        "log": {**ref("LogState"), "description": "with `verbose`: the decision log, if it is on"},
    }
    ready = {
        "status": {**TEXT, "const": "ready", "description": "requests are decided"},
        "revision": {**TEXT, "description": REVISION},
    }
    return {
        "Landing": object_of(
            "What the service is.",
            service={**TEXT, "description": "its name"},
            description={**TEXT, "description": "what it does"},
            version={**TEXT, "description": "its version"},
            revision={**TEXT, "description": REVISION},
            rules={**COUNT, "description": "the number of rules"},
            releases={**ref("LandingReleases"), "description": "the known releases of vLLM"},
            links={"type": "object", "additionalProperties": TEXT, "description": "paths by name"},
            example={**ref("LandingExample"), "description": "a request and its answer"},
        ),
        "LandingReleases": object_of(
            "The known releases of vLLM.",
            count={**COUNT, "description": "the number of releases"},
            first={**TEXT, "description": "the oldest"},
            last={**TEXT, "description": "the newest"},
            default={**TEXT, "description": "the release that decides a request without a version"},
        ),
        "LandingExample": object_of(
            "A request and its answer.",
            path={**TEXT, "description": "where to send it"},
            request={"type": "object", "additionalProperties": True, "description": "the body"},
            answer={"type": "object", "additionalProperties": True, "description": "some fields of the decision"},
        ),
        "Readiness": object_of("The service is ready.", *states, **ready, **states),
        "RulesState": object_of(
            "The loaded rules, and the result of the last reload.",
            source={**TEXT, "description": "where the rules come from"},
            loaded_at={**TIMESTAMP, "description": "when they came into force"},
            last_tried_at={**TIMESTAMP, "description": "when rules were last loaded"},
            last_error={"type": ["array", "null"], "items": TEXT, "description": "every fault of the last reload"},
        ),
        "RunFolderState": object_of(
            "The temporary folder that the processes of the service share.",
            created={**COUNT, "description": "how often it was created again because it, or files in it, were deleted"},
            last_created_at=nullable(TIMESTAMP, "when that was last; `null` if it never was"),
            last_error={"type": ["string", "null"], "description": "why this process cannot write to it"},
        ),
        "LogState": object_of(
            "The state of the decision log.",
            **{name: {**child, "description": LOG_COUNTS[name]} for name, child in counts.items()},
            **last,
        ),
    }
