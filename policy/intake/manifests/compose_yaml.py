"""Plain scalars that Compose reads in another way than Kubernetes.

Compose uses go-yaml (read at v3.0.4). There ``yes`` is a string, and so are integers that do not fit 64 bits. Among the
fields that are read, only services' variables may be numbers or booleans.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.parser.yamltree import Content, YamlNode

REQUEST_FIELDS: Final = ("manifest", "request", "items")
"""The fields of a request in which a Compose file may be nested."""
BOOLEANS: Final = frozenset({"true", "True", "TRUE", "false", "False", "FALSE"})
DECIMAL: Final = re.compile(r"[-+]?[0-9_]+")


def resolve_variables(document: YamlNode) -> None:
    """Set the variables of the Compose services in a document to the values that Compose reads."""
    for service in _services(document):
        environment = service.value.get("environment") if isinstance(service.value, dict) else None
        if environment is not None and isinstance(environment.value, dict):
            for variable in environment.value.values():
                variable.value = _value(variable)


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


def _value(variable: YamlNode) -> Content:
    """The value that Compose reads: other booleans are strings, and so are integers that do not fit its types.

    Those types are 64 bits with a sign, or without one if none is written. Digits alone are a decimal number instead,
    even if they begin with 0.
    """
    value, written = variable.value, variable.written
    if written is None or not isinstance(value, bool | int):
        return value
    if isinstance(value, bool):
        return value if written in BOOLEANS else written
    if -(2**63) <= value < (2**63 if written.startswith(("+", "-")) else 2**64):
        return value
    return float(written.replace("_", "")) if DECIMAL.fullmatch(written) is not None else written
