"""Names for the schemas of the document, so that a generated client has readable classes.

A generator invents a name, such as ``Type0``, for each object, enumeration and limited list that has none.
Here each of them becomes a separate schema, named after the path to it. ``null`` becomes an alternative of ``anyOf``,
which every generator reads.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from service.openapi.shapes import NULL, ref

if TYPE_CHECKING:
    from service.openapi.shapes import Schema

KEYWORDS: Final[dict[str, tuple[str, ...]]] = {
    "string": ("minLength", "maxLength", "pattern", "format"),
    "array": ("items", "minItems", "maxItems", "uniqueItems", "contains"),
    "object": ("properties", "required", "additionalProperties"),
    "integer": ("minimum", "maximum"),
    "number": ("minimum", "maximum", "exclusiveMinimum"),
}
"""The keywords that restrict values of one type only."""
CLASS_KEYWORDS: Final = frozenset({"minItems", "maxItems", "exclusiveMinimum"})
"""The keywords with which generated clients make a class of an alternative, so that it needs a name."""
ANNOTATIONS: Final = ("description", "examples", "title")
CHILD_KEYWORDS: Final[dict[str, str]] = {"items": "Item", "additionalProperties": "Value"}
"""Keywords whose value is a schema, and the suffix that each adds to its name."""


def with_names(schemas: dict[str, Schema]) -> dict[str, Schema]:
    """The schemas, in which every object with fields and every enumeration has a name."""
    found: dict[str, Schema] = {}
    for name, schema in schemas.items():
        found[name] = _children(schema, name, found)
    return found


def _children(schema: Schema, name: str, found: dict[str, Schema]) -> Schema:
    """The schema, with names for the schemas in it."""
    result = dict(schema)
    if "properties" in schema:
        result["properties"] = {
            field: _value(child, name + _pascal(field), found) for field, child in schema["properties"].items()
        }
    for keyword, suffix in CHILD_KEYWORDS.items():
        if isinstance(schema.get(keyword), dict):
            result[keyword] = _value(schema[keyword], name + suffix, found)
    for keyword in ("anyOf", "oneOf"):
        if keyword in schema:
            result[keyword] = [_value(child, name, found, is_alternative=True) for child in schema[keyword]]
    return result


def _value(schema: Schema, name: str, found: dict[str, Schema], *, is_alternative: bool = False) -> Schema:
    """The schema of a field, an item or an alternative; what needs a name is added to ``found``."""
    if "$ref" in schema:
        return schema
    alternatives = _alternatives(schema)
    if len(alternatives) > 1:
        notes: Schema = {key: schema[key] for key in ANNOTATIONS if key in schema}
        return {**notes, "anyOf": [_value(each, name, found, is_alternative=True) for each in alternatives]}
    (schema,) = alternatives
    is_class = schema.get("type") == "object" or not CLASS_KEYWORDS.isdisjoint(schema)
    if "enum" in schema or "properties" in schema or (is_alternative and is_class):
        part = _children(schema, name, found)
        # INVARIANT: two schemas with the same path are the same
        assert found.setdefault(name, part) == part, name
        return ref(name)
    return _children(schema, name, found)


def _alternatives(schema: Schema) -> list[Schema]:
    """The schema as one for each type; a set of values has the type of its values."""
    if "enum" in schema:
        values = [value for value in schema["enum"] if value is not None]
        notes: Schema = {key: schema[key] for key in (*ANNOTATIONS, "x-enum-varnames") if key in schema}
        one: Schema = {"const": values[0]} if len(values) == 1 else {"enum": values}
        whole = {**notes, "type": "string", **one}
        return [whole] if len(values) == len(schema["enum"]) else [whole, NULL]
    kinds = schema.get("type")
    if not isinstance(kinds, list):
        return [{**schema, "items": {}} if kinds == "array" and "items" not in schema else schema]
    own = {keyword for keywords in KEYWORDS.values() for keyword in keywords}
    common = {key: value for key, value in schema.items() if key not in own and key not in ANNOTATIONS}
    parts = []
    for kind in kinds:
        is_named = kind in {"object", "array"} or (kind == "number" and not CLASS_KEYWORDS.isdisjoint(schema))
        keywords = (*KEYWORDS.get(kind, ()), *(ANNOTATIONS if is_named else ()))
        parts += _alternatives({**common, "type": kind} | {key: schema[key] for key in keywords if key in schema})
    return parts


def _pascal(field: str) -> str:
    """A field's name as part of a class name: ``hf_config`` gives ``HfConfig``."""
    return "".join(part[:1].upper() + part[1:] for part in field.replace("-", "_").split("_"))
