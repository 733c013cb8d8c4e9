"""The secrets that a manifest states anywhere: messages hide them, however the values are used.

A kind's own fields, such as ``topologyKey``, may be named like secrets and hold none. Users choose the names of
variables, parameters and annotations, and those that a text assigns to.
"""

from __future__ import annotations

import json
from base64 import b64decode
from codecs import getincrementaldecoder
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from policy.secret_names import is_secret
from policy.stated_secrets import (
    HARMLESS_WORDS,
    TEXT,
    all_of_pairs,
    are_harmless,
    is_harmless,
    secrets_of_names,
    secrets_of_text,
    secrets_of_words,
    words_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

VARIABLES: Final = frozenset(
    {
        *(
            "env",
            "envs",
            "environment",
            "envVars",
            "env_vars",
            "environmentVariables",
            "variables",
            "data",
            "stringData",
        ),
        *("annotations", "parameters", "args", "arguments"),
    }
)
"""The fields whose own fields have names that users choose."""
APPLIED_ANNOTATION: Final = "kubectl.kubernetes.io/last-applied-configuration"
"""The annotation that has the object once more, with the fields of its kind."""
REFERENCE_ENDINGS: Final = ("Ref", "Name", "_name", "Secret", "Secrets")
"""The endings of fields that refer to an object with secrets."""
MAX_BLANKS: Final = 8
"""The most blanks in a secret that a kind's own field holds: `pass1Prompt` has sentences."""
HARMLESS_FIELDS: Final = frozenset(
    {
        *("key", "keys", "secret", "secrets", "topologyKey", "tokenKey", "sessionKey", "matchLabelKeys"),
        *("mismatchLabelKeys", "hashKey", "partitionKey"),
    }
)
"""Fields of kinds that are named like secrets, but hold other names."""
COMMAND_PAIRS: Final = (("command", "args"), ("entrypoint", "command"), ("entrypoint", "args"))
"""Fields whose words are one command: Kubernetes', Compose's, Nomad's."""
UTF_8: Final = getincrementaldecoder("utf-8")
"""Decodes bytes that may end within a character, as a value is cut."""


def secrets_of(document: Any) -> Iterator[str]:
    """Every value in a document that belongs to the name of a secret."""
    found: list[tuple[Any, bool]] = [(document, False)]
    while found:
        value, are_variables = found.pop()
        if type(value) is str:
            yield from secrets_of_text(value)
        elif type(value) is list:
            if TEXT.issuperset(map(type, value)):
                yield from () if are_harmless(value) else secrets_of_words(value)
            else:
                yield from secrets_of_words(words_of(value))
                found += [(item, False) for item in value if type(item) is not str]
        elif type(value) is tuple:  # the values of a member that JSON repeats
            found += [(item, are_variables) for item in value]
        elif type(value) is dict:
            if "name" in value and "value" in value and type(name := value["name"]) is str and is_secret(name):
                yield from _with_decoded(secrets_of_names({name: value["value"]}))
            for first, second in COMMAND_PAIRS:
                if first in value and second in value:
                    yield from secrets_of_words([*_words(value[first])[-1:], *_words(value[second])[:1]])
            for key, item in value.items():
                if type(key) is not str:
                    continue
                if item and is_secret(key) and (are_variables or key.isupper() or _is_value(key, item)):
                    yield from _with_decoded(secrets_of_names({key: item}))
                if type(item) is str:
                    if key == APPLIED_ANNOTATION:
                        found.append((_applied(item), False))
                    elif item not in HARMLESS_WORDS and not is_harmless(item):
                        yield from secrets_of_text(item)
                elif item:
                    found.append((item, key in VARIABLES))


def _words(value: Any) -> list[str]:
    """The words of a field with a command: of a text, its parts between blanks."""
    return value.split() if type(value) is str else words_of(value) if type(value) is list else []


def _applied(text: str) -> Any:
    """The object in the annotation; None if it is not JSON, or has the annotation too, which kubectl never writes."""
    try:
        return None if APPLIED_ANNOTATION in text else json.loads(text, object_pairs_hook=all_of_pairs)
    except (ValueError, RecursionError):
        return None


def _is_value(field: str, value: Any) -> bool:
    """Whether a field of a kind holds a secret, rather than sentences or the name of an object or field with one."""
    is_prose = type(value) is str and value.count(" ") > MAX_BLANKS
    return not is_prose and field not in HARMLESS_FIELDS and not field.endswith(REFERENCE_ENDINGS)


def _with_decoded(values: Iterable[str]) -> Iterator[str]:
    """The values, and the beginnings of what they encode in base64, as those of a Secret do, maybe in lines."""
    for value in values:
        yield value
        plain = "".join(value.split())
        with suppress(ValueError):
            yield UTF_8().decode(b64decode(plain[: len(plain) // 4 * 4], validate=True))
