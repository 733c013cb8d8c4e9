"""The secrets that a manifest states anywhere, for messages about an object that cannot be read.

They are the values of variables, of other fields with a variable's name, and of a Secret. Not here: those of an engine
that can be read (`stated_variables`).
"""

from __future__ import annotations

from base64 import b64decode
from typing import TYPE_CHECKING, Any, Final

from policy.secret_names import is_secret
from policy.secret_values import assigned_secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

VARIABLES: Final = frozenset(
    {"env", "envs", "environment", "envVars", "env_vars", "environmentVariables", "variables", "data", "stringData"}
)
"""The fields whose own fields are variables, or the keys of a Secret or a ConfigMap."""


def secrets_of(document: Any) -> Iterator[str]:
    """Every value in a document that belongs to the name of a secret."""
    found: list[tuple[Any, bool]] = [(document, False)]
    while found:
        value, are_variables = found.pop()
        if isinstance(value, str):
            yield from assigned_secrets(value)
        elif isinstance(value, list):
            found += [(item, False) for item in value]
        elif isinstance(value, dict):
            name, text = value.get("name"), value.get("value")
            if isinstance(name, str) and isinstance(text, str) and is_secret(name):
                yield text
            for key, item in value.items():
                if not isinstance(key, str):
                    continue
                if isinstance(item, str) and (are_variables or key.isupper()) and is_secret(key):
                    yield from (item, *_decoded(item))
                found.append((item, key in VARIABLES))


def _decoded(text: str) -> Iterator[str]:
    """The text that a value of a Secret encodes, if it is one."""
    try:
        yield b64decode(text, validate=True).decode()
    except ValueError:
        return
