"""JSON pointers (RFC 6901): built step by step, followed in a document, and shortened for messages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.masking import masked, may_have_secret
from policy.secret_values import NO_SECRETS, SecretValues

if TYPE_CHECKING:
    from collections.abc import Iterable

MAX_POINTER = 1024
MAX_INDEX_DIGITS = 9


def at(pointer: str, key: str | int) -> str:
    """The pointer of a field or item of the value at ``pointer``."""
    return f"{pointer}/{str(key).replace('~', '~0').replace('/', '~1')}"


def steps_of(pointer: str) -> list[str]:
    """The keys and indexes along a pointer, unescaped."""
    return [_unescaped(step) for step in pointer.split("/")[1:]]


def _unescaped(text: str) -> str:
    return text.replace("~1", "/").replace("~0", "~")


def walk_path(document: Any, steps: Iterable[str]) -> list[Any]:
    """The values along a path of keys and indexes, the document first; the list ends early if a step does not exist."""
    values = [document]
    for step in steps:
        value = values[-1]
        if isinstance(value, list) and len(step) <= MAX_INDEX_DIGITS and step.isdecimal() and int(step) < len(value):
            values.append(value[int(step)])
        elif isinstance(value, dict) and step in value:
            values.append(value[step])
        else:
            break
    return values


def shorten(pointer: str) -> str:
    """The pointer, cut after the last step that fits into ``MAX_POINTER`` characters."""
    if len(pointer) <= MAX_POINTER:
        return pointer
    return pointer[: max(pointer.rfind("/", 0, MAX_POINTER + 1), 0)]


def without_secrets(pointer: str, values: SecretValues = NO_SECRETS) -> str:
    """The pointer, cut before the first step that contains a secret or one of ``values``: users choose names."""
    if not values and not may_have_secret(_unescaped(pointer)):
        return pointer
    steps = pointer.split("/")
    for index, step in enumerate(steps_of(pointer), 1):
        if values.hidden(masked(step)) != step:
            return "/".join(steps[:index])
    return pointer


def is_within(pointer: str, base: str) -> bool:
    """Whether a pointer is ``base`` or below it: `/1/args` is below `/1`, and `/10` is not."""
    return pointer == base or pointer.startswith(f"{base}/")


def existing(pointer: str, base: str, document: object) -> str:
    """The part of a pointer into ``document``, which is at ``base``, that exists; any other pointer unchanged."""
    if not is_within(pointer, base):
        return pointer
    below = pointer.removeprefix(base)
    found = walk_path(document, steps_of(below))
    return base + "/".join(below.split("/")[: len(found)])
