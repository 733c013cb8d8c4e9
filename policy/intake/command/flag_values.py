"""Convert a flag's text to its value.

Handles the kinds of `flags.Flag`: numbers with suffixes, JSON, choices, and the fields of an object with their types in
the release.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from policy.errors import PolicyError
from policy.messages import listed, nearest, quoted
from policy.parser.jsontext import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command.flags import Flag

HUMAN_NUMBER: Final = re.compile(r"(\d+)(\.\d+)?([kKmMgGtT])", re.ASCII)
SUFFIXED_NUMBER: Final = re.compile(
    r'"(?:[^"\\]++|\\.)*+(?:"|\\?\Z)|\b\d++(?:\.\d++)?[kKmMgGtT]\b', re.ASCII | re.DOTALL
)
"""Matches a JSON string, which is left unchanged, or a number with a suffix.

An unclosed string matches to the end, so that nothing is scanned twice.
"""
POWERS: Final = {"k": 10**3, "m": 10**6, "g": 10**9, "t": 10**12, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}
TRUE_WORDS: Final = frozenset({"1", "on", "t", "true", "y", "yes"})
FALSE_WORDS: Final = frozenset({"0", "off", "f", "false", "n", "no"})
MAX_SHOWN: Final = 24
"""The maximum number of fields that a message lists, and of digits of a number with a suffix."""


class InvalidValue(PolicyError):
    """The flag does not accept the text; the message says what it accepts."""


class InvalidField(InvalidValue):
    """A field of an object is unknown, or does not accept its value."""


def parse_value(flag: Flag, text: str) -> Any:
    """The value of a flag's text.

    Raises:
        InvalidValue: the flag does not accept the text.
    """
    if flag.optional and (not text or text == "None"):
        value = None
    else:
        read = READERS[flag.kind]
        value = text if read is None else read(text)
        if flag.members is not None and type(value) is dict:
            value = convert_fields(flag.members, value)
    if flag.choices is not None and value not in flag.choices:
        legal = [str(choice) for choice in flag.choices if choice is not None]
        raise InvalidValue(f"{quoted(text)} is not legal; legal: {listed(legal)}{nearest(text, legal)}")
    return value


def convert_fields(members: Mapping[str, Any], value: dict[str, Any], path: str = "") -> dict[str, Any]:
    """An object with its fields converted as the release does: a boolean field accepts `"true"` and 1.

    Raises:
        InvalidField: a field is unknown, or does not accept its value.
    """
    found = {}
    for name, item in value.items():
        if name not in members:
            few = f"; its fields are {listed(members)}" if len(members) <= MAX_SHOWN else ""
            raise InvalidField(f"unknown field {quoted(path + name)} in this release{nearest(name, members) or few}")
        found[name] = _convert_field(members[name], item, path + name)
    return found


def _convert_field(kind: Any, item: Any, path: str) -> Any:
    if kind is None:
        return item
    if type(kind) is dict:
        return convert_fields(kind, item, f"{path}.") if type(item) is dict else item
    if type(kind) is list:
        if item not in kind:
            legal = [word for word in kind if word is not None]
            near = nearest(item, legal) if type(item) is str else ""
            raise InvalidField(f"{quoted(path)} is {quoted(item)}, which is not legal; legal: {listed(legal)}{near}")
        return item
    if item is None and kind.endswith("?"):
        return None
    value = _LENIENT[kind.rstrip("?")](item)
    if value is None:
        raise InvalidField(f"{quoted(path)} is {quoted(item)}; write {_EXPECTED[kind.rstrip('?')]}")
    return value


def _bool(item: Any) -> bool | None:
    word = item.strip().lower() if type(item) is str else str(int(item)) if item in (0, 1) else ""
    return True if word in TRUE_WORDS else False if word in FALSE_WORDS else None


def _whole(item: Any) -> int | None:
    try:
        value = int(item) if isinstance(item, str | int) or (type(item) is float and item.is_integer()) else None
    except ValueError:
        return None
    return value


def _real(item: Any) -> float | None:
    try:
        return float(item) if isinstance(item, str | int | float) else None
    except (ValueError, OverflowError):
        return None


_LENIENT: Final[Mapping[str, Callable[[Any], Any]]] = {"bool": _bool, "int": _whole, "float": _real}
_EXPECTED: Final = {"bool": "`true` or `false`", "int": "a whole number", "float": "a number"}


def _int(text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise InvalidValue(f"expected a whole number such as `2`, got {quoted(text)}") from None


def _float(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise InvalidValue(f"expected a number such as `0.9`, got {quoted(text)}") from None


def parse_human_int(text: str) -> int:
    """A whole number in vLLM's human-readable form, as `human_readable_int` parses it (0.20 to 0.33).

    `1k` is 1000, `1K` is 1024, `2.5m` is 2500000.
    """
    match = None if text.isdecimal() else HUMAN_NUMBER.fullmatch(text.strip())  # most are; 0.6 % fewer instructions
    if match is None:
        return _int(text)
    whole, part, suffix = match.groups()
    if len(whole) > MAX_SHOWN or (part and suffix.isupper()):
        raise InvalidValue(
            f"invalid number {quoted(text)}: a fraction needs a lower-case suffix, such as "
            f"`{whole[:MAX_SHOWN]}{part or ''}{suffix.lower()}`"
        )
    return int(float(whole + part) * POWERS[suffix]) if part else int(whole) * POWERS[suffix]


def _human_or_auto(text: str) -> int:
    return -1 if text.strip().lower() in {"-1", "auto"} else parse_human_int(text)


def _device(text: str) -> int | str:
    """A device's number, or its name if it is not a number."""
    name = text.strip()
    return int(name) if name.isdecimal() and len(name) <= MAX_SHOWN else name


def _boolean(text: str) -> bool:
    word = text.lower()
    if word not in {"true", "false"}:
        raise InvalidValue(f"expected `true` or `false`, got {quoted(text)}")
    return word == "true"


def _pairs(text: str) -> dict[str, int] | None:
    """Numbers by name, or None for the empty text."""
    found: dict[str, int] = {}
    for item in text.split(",") if text else ():
        name, equals, number = item.partition("=")
        name = name.strip().lower()
        if not equals or "=" in number:
            raise InvalidValue(f"expected a list such as `image=2,video=1`, got {quoted(text)}")
        value = _int(number.strip())
        if found.setdefault(name, value) != value:
            raise InvalidValue(f"{quoted(name)} has two values in {quoted(text)}")
    return found or None


def _json(text: str) -> Any:
    try:
        return read_json(text.encode())
    except NotJson as error:
        raise InvalidValue(f"invalid JSON {quoted(text)}: {error}") from None
    except UnicodeEncodeError:
        raise InvalidValue(f"invalid JSON {quoted(text)}: it has a lone surrogate") from None


def _object(text: str) -> dict[str, Any]:
    try:
        value = _json(text)
    except InvalidValue:
        expanded = SUFFIXED_NUMBER.sub(
            lambda match: match.group() if match.group().startswith('"') else str(parse_human_int(match.group())), text
        )
        if expanded == text:
            raise
        value = _json(expanded)
    return _as_object(text, value)


def _object_or_level(text: str) -> dict[str, Any]:
    return {"level": int(text)} if text in {"0", "1", "2", "3"} else _object(text)


def _as_object(text: str, value: Any) -> dict[str, Any]:
    if type(value) is not dict:
        raise InvalidValue(f'expected a JSON object such as `{{"key": "value"}}`, got {quoted(text)}')
    return value


def _overrides(text: str) -> dict[str, Any]:
    """The fields that replace those of the model's configuration; vLLM takes any other text, and then refuses it."""
    value = _json_or_text(text)
    if type(value) is not dict:
        raise InvalidValue(f"{quoted(text)} is refused with `Input should be a valid dictionary`; write a JSON object")
    return value


def _json_or_text(text: str) -> Any:
    bare = text.strip()
    return _json(text) if bare.startswith("{") and bare.endswith("}") else text


READERS: Final[Mapping[str, Callable[[str], Any] | None]] = {
    "text": None,
    "int": _int,
    "float": _float,
    "boolean": _boolean,
    "pairs": _pairs,
    "human": parse_human_int,
    "human-or-auto": _human_or_auto,
    "text-none-unsets": lambda text: "" if text.lower() == "none" else text,
    "dashed": lambda text: text.lower().replace("-", "_"),
    "json": _json,
    "object": _object,
    "object-or-level": _object_or_level,
    "json-or-text": _json_or_text,
    "overrides": _overrides,
    "devices": lambda text: list(map(_device, text.split(","))),
}
