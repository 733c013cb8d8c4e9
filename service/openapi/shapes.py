"""The building blocks of the document's schemas."""

from __future__ import annotations

from typing import Any, Final

Schema = dict[str, Any]
REF: Final = "#/components/schemas/{name}"
NULL: Final[Schema] = {"type": "null"}
TEXT: Final[Schema] = {"type": "string"}
TIMESTAMP: Final[Schema] = {"type": "string", "format": "date-time"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}


def ref(name: str) -> Schema:
    """A reference to the schema with this name."""
    return {"$ref": REF.format(name=name)}


def nullable(schema: Schema, description: str = "") -> Schema:
    """The schema of the same values and ``null``."""
    return {**({"description": description} if description else {}), "anyOf": [schema, NULL]}


def object_of(description: str, /, *optional: str, **fields: Schema) -> Schema:
    """The schema of an object with these fields; all but the ``optional`` ones are required."""
    return {
        "type": "object",
        "description": description,
        "required": [name for name in fields if name not in optional],
        "properties": fields,
    }


def list_of(items: Schema, description: str) -> Schema:
    """The schema of a list of these items."""
    return {"type": "array", "items": items, "description": description}
