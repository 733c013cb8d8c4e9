"""Whether an object that its controller renders as one Go template may get other fields than it states.

Such a controller writes an object, or a container, as JSON, renders the text, and reads the result, without escaping
values as JSON does. An action in any of its texts, keys included, may close that text and add or replace fields, or
leave out fields between two actions. Only what certainly stays within its text is harmless (``KNOWN_REFERENCE``,
``PASSING_FUNCTIONS``, ``FIXED_FUNCTIONS``, annotations and other fields that the object states); every other action
makes the engines of the object doubtful.

What is rendered (read in August 2026 for KServe, May 2026 for OME): in KServe's LLMInferenceService the metadata and
the spec, merged with the configurations; in KServe's InferenceService with a model the container of the model and that
of a transformer, each merged with the runtime's; in OME's InferenceService the runner of each part.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec import Struct

from policy.intake.manifests.go_template import ACTION_END, ACTION_START, JSON_NAMES, MAX_NESTED, TOKEN
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.intake.manifests.reading import ManifestNode

MAX_DIGITS: Final = 18
ESCAPED_CHARACTER: Final = re.compile(r'["\\\x00-\x1f]')
"""Matches a character that JSON escapes; a value with one, written unescaped, may not stay within its text."""
LITERAL: Final = re.compile(r"[\w .,:;/@+=-]*", re.ASCII)
"""Matches a literal, or the text of a comment, that neither JSON nor Go reads in another way."""
KNOWN_REFERENCE: Final = re.compile(
    r"\.(?:ObjectMeta\.)?(?:Name|Namespace|Labels\.[A-Za-z_][A-Za-z0-9_]*)"
    r"|\.Spec\.Model\.Name"
    r"|\.Spec\.(?:Prefill\.)?Parallelism\.(?:Tensor|Pipeline|Data|DataLocal|DataRPCPort|Expert)"
    r"|\.GlobalConfig\.(?:SystemNamespace|IngressGatewayName|IngressGatewayNamespace|EnableTLS"
    r"|ModelBasedRoutingHeaderName|InferencePoolNamespacedName)"
)
"""Matches a reference to a name or a label, whose characters the API server restricts, a number, a flag, a setting of
KServe itself, or one of the fields that are checked without a template (``WRITTEN_FIELDS``)."""
ANNOTATION: Final = re.compile(r"\.(?:ObjectMeta\.)?Annotations\.([A-Za-z_][A-Za-z0-9_]*)")
FIELD: Final = re.compile(r"\.Spec((?:\.[A-Za-z_][A-Za-z0-9_]*)+)")
PASSING_FUNCTIONS: Final = frozenset({"and", "or", "ChildName"})
"""The functions whose results are made from their arguments."""
FIXED_FUNCTIONS: Final = frozenset({"not", "eq", "ne", "shutdownTimeout", "kvTransferConfig"})
"""The functions whose results are numbers or flags, or come from fields that are checked without a template."""
CONSTANTS: Final = frozenset({"true", "false"})
WRITTEN_FIELDS: Final = (
    ("model", "name"),
    ("router", "scheduler", "pool", "ref", "name"),
    ("kvCacheOffloading", "evictionPolicy"),
    ("prefill", "kvCacheOffloading", "evictionPolicy"),
)
"""The fields of an LLMInferenceService that templates of KServe's own configurations write unescaped."""
RENDER_DOUBT: Final = (
    "the controller renders this object as one Go template, and {} has `{{{{ … }}}}` that may add, replace or leave "
    "out other fields of it; write the value itself, or refer to names, numbers and annotations without quotes only"
)
UNESCAPED_DOUBT: Final = (
    "KServe writes {} as it is into the text of this object, of which it may add or replace other fields; leave out "
    "quotes, backslashes and control characters"
)

_Place: TypeAlias = "tuple[_Place, str | int] | None"


class References(Struct, frozen=True):
    """What the templates of an object may refer to: its metadata and its spec, each None if it is not known."""

    metadata: Any = None
    spec: Any = None


def template_doubt(nodes: Iterable[ManifestNode], references: References) -> str:
    """The doubt about the first text of these nodes whose template may change other fields; empty if there is none."""
    for node in nodes:
        place = _first_harmful(node.value, references)
        if place is not None:
            return RENDER_DOUBT.format(quoted(node.below(place).path))
    return ""


def written_doubt(specs: Iterable[ManifestNode]) -> str:
    """The doubt about a field of these specs that KServe's own templates write; empty if there is none."""
    for spec in specs:
        for keys in WRITTEN_FIELDS:
            value = spec.value
            for key in keys:
                value = value.get(key) if isinstance(value, dict) else None
            if isinstance(value, str) and ESCAPED_CHARACTER.search(value):
                return UNESCAPED_DOUBT.format(quoted(spec.below(keys).path))
    return ""


def _first_harmful(value: Any, references: References) -> list[str | int] | None:
    """The keys of the first text with a template that is not harmless; None if there is none."""
    pending: list[tuple[Any, _Place]] = [(value, None)]
    seen: set[int] = set()
    while pending:
        value, place = pending.pop()
        if isinstance(value, str):
            if not is_harmless(value, references):
                return _keys(place)
        elif isinstance(value, dict | list):
            if id(value) in seen:
                continue
            seen.add(id(value))
            inner: Iterable[tuple[Any, Any]] = value.items() if isinstance(value, dict) else enumerate(value)
            for key, item in inner:
                if isinstance(key, str) and not is_harmless(key, references):
                    return _keys((place, key))
                if isinstance(item, str | dict | list):
                    pending.append((item, (place, key)))
    return None


def _keys(place: _Place) -> list[str | int]:
    keys: list[str | int] = []
    while place is not None:
        place, key = place
        keys.append(key)
    return keys[::-1]


def is_harmless(text: str, references: References) -> bool:
    """Whether everything that the actions of a text write stays within it, and all its blocks are closed in it."""
    depth, at = 0, text.find(ACTION_START)
    while at >= 0:
        end = text.find(ACTION_END, at)
        if end < 0:
            return False
        action = text[at + len(ACTION_START) : end]
        action = action.removeprefix("- ") if action.startswith("- ") else action
        action = action.removesuffix(" -").strip(" ")
        keyword, _, rest = action.partition(" ")
        if keyword == "if":
            depth += 1
        elif keyword in {"else", "end"}:
            rest = rest.strip(" ")
            if not depth or (rest and (keyword == "end" or not rest.startswith("if "))):
                return False
            depth -= keyword == "end"
            rest = rest.removeprefix("if")
        elif not (_is_comment(action) or _written(action, references)):
            return False
        if keyword in {"if", "else"} and (rest or keyword == "if") and _written(rest, references) is None:
            return False
        at = text.find(ACTION_START, end + len(ACTION_END))
    return not depth


def _is_comment(action: str) -> bool:
    return action.startswith("/*") and action.endswith("*/") and LITERAL.fullmatch(action[2:-2]) is not None


def _written(expression: str, references: References) -> bool | None:
    """Whether the value of an expression stays within its text; None if it has parts not known to be harmless."""
    stack: list[list[bool | str]] = [[]]
    at = 0
    while at < len(expression):
        found = TOKEN.match(expression, at)
        if found is None or found.lastgroup is None:
            return None
        kind, text, at = found.lastgroup, found.group(found.lastgroup), found.end()
        if kind == "open":
            if len(stack) > MAX_NESTED:
                return None
            stack.append([])
        elif kind == "close":
            result = _called(stack.pop()) if len(stack) > 1 else None
            if result is None:
                return None
            stack[-1].append(result)
        elif kind != "blank":
            operand = _operand(kind, text, references)
            if operand is None:
                return None
            stack[-1].append(operand)
    return _called(stack[0]) if len(stack) == 1 else None


def _operand(kind: str, text: str, references: References) -> bool | str | None:
    """Whether an operand stays within its text, or the name of a function; None for anything else."""
    if kind == "field":
        return _is_plain_field(text, references)
    if kind == "number":
        return True if len(text) <= MAX_DIGITS else None
    if kind == "raw":
        return True if LITERAL.fullmatch(text) else None
    if text in CONSTANTS:
        return True
    if text == "nil":
        return False
    return text if text in PASSING_FUNCTIONS or text in FIXED_FUNCTIONS else None


def _called(operands: list[bool | str]) -> bool | None:
    """Whether the result of a function with its arguments, or of a single operand, stays within its text."""
    if not operands or any(isinstance(operand, str) for operand in operands[1:]):
        return None
    first, *arguments = operands
    if isinstance(first, str):
        return None if not arguments else first in FIXED_FUNCTIONS or all(arguments)
    return None if arguments else first


def _is_plain_field(path: str, references: References) -> bool:
    """Whether the value of a field certainly has no character that leaves its text."""
    if KNOWN_REFERENCE.fullmatch(path):
        return True
    found = ANNOTATION.fullmatch(path)
    if found is not None:
        annotations = references.metadata.get("annotations") if isinstance(references.metadata, dict) else None
        return isinstance(annotations, dict) and _is_plain(annotations.get(found[1]))
    found = FIELD.fullmatch(path)
    return found is not None and _is_plain(_value(references.spec, found[1].split(".")[1:]))


def _value(value: Any, names: Iterable[str]) -> Any:
    """The value at the Go names of nested fields; None if it is not certain which field a name means."""
    for name in names:
        possible = {name, JSON_NAMES.get(name, name[:1].lower() + name[1:])}
        keys = [key for key in possible if key in value] if isinstance(value, dict) else []
        if len(keys) != 1:
            return None
        value = value[keys[0]]
    return value


def _is_plain(value: Any) -> bool:
    return isinstance(value, bool | int) or (isinstance(value, str) and ESCAPED_CHARACTER.search(value) is None)
