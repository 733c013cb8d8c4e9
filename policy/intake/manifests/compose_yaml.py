"""Resolve plain scalars of Compose files as Go's YAML does.

Kubernetes, Helm, Ray and SkyPilot use YAML 1.1, as ``yamltree`` does. Compose uses go-yaml (read at v3.0.4), which
differs in some plain scalars: ``1e3`` and ``0o1`` are numbers there, ``yes`` and ``1:30`` are strings. Among the fields
that are read, only services' variables may be numbers or booleans.
"""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.parser.yamltree import YamlNode

REQUEST_FIELDS: Final = ("manifest", "request", "items")
"""The fields of a request in which a Compose file may be nested."""
CONSTANTS: Final[dict[str, bool | None]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
}
INTEGER: Final = re.compile(
    r"(?P<sign>[-+]?)(?:0[xX](?P<hexadecimal>[0-9a-fA-F]+)|0[bB](?P<binary>[01]+)|0[oO]?(?P<octal>[0-7]+)"
    r"|(?P<decimal>0|[1-9][0-9]*))"
)
BASES: Final = {"hexadecimal": 16, "binary": 2, "octal": 8, "decimal": 10}
MAX_DIGITS: Final = 64
"""The most digits of an integer that fits 64 bits: a binary one has the most."""
FLOAT: Final = re.compile(r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
NUMBER_STARTS: Final = frozenset("+-0123456789.")


def resolve_variables(document: YamlNode) -> None:
    """Set the variables of the Compose services in a document to the values that Compose reads."""
    for service in _services(document):
        environment = service.value.get("environment") if isinstance(service.value, dict) else None
        if environment is not None and isinstance(environment.value, dict):
            for variable in environment.value.values():
                if variable.written is not None:
                    variable.value = resolve(variable.written)


def _services(document: YamlNode) -> Iterator[YamlNode]:
    pending = [document]
    while pending:
        value = pending.pop().value
        if isinstance(value, list):
            pending.extend(value)
        elif isinstance(value, dict):
            services = value.get("services")
            if services is not None and isinstance(services.value, dict):
                yield from services.value.values()
            pending.extend(value[key] for key in REQUEST_FIELDS if key in value)


def resolve(text: str) -> str | float | bool | None:
    """The value of a plain scalar: a number, a boolean, null, or the text itself."""
    if text in CONSTANTS:
        return CONSTANTS[text]
    if text[0] not in NUMBER_STARTS:
        return text
    plain = text if text.startswith(".") else text.replace("_", "")
    integer = _integer(plain)
    if integer is not None:
        return integer
    number = float(plain) if FLOAT.fullmatch(plain) else math.inf
    return number if math.isfinite(number) else text


def _integer(text: str) -> int | None:
    """The value of an integer that fits 64 bits, or unsigned 64 bits if it has no sign; None otherwise."""
    found = INTEGER.fullmatch(text)
    if found is None or found.lastgroup is None:
        return None
    digits = found[found.lastgroup].lstrip("0")
    if len(digits) > MAX_DIGITS:
        return None
    value = int(f"{found['sign']}{digits or 0}", BASES[found.lastgroup])
    return value if -(2**63) <= value < (2**63 if found["sign"] else 2**64) else None
