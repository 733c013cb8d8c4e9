"""The value that Python's ``repr`` wrote, read without evaluating anything.

Literals are read as Python has them, an instance of a class as the map of its fields, and a member of an enumeration as
its value. Anything else in a log, such as a function, is ``UNREADABLE``.
"""

from __future__ import annotations

import ast
import re
from typing import Any, Final

from policy.errors import PolicyError

MAX_TEXT: Final = 1 << 18
MAX_DEPTH: Final = 32
MAX_VALUES: Final = 10_000
BLANK: Final = re.compile(r"\s*+")
NUMBER: Final = re.compile(r"[+-]?(?:\d{1,40}+(?:\.\d{0,40}+)?|\.\d{1,40}+)(?:[eE][+-]?\d{1,4}+)?|[+-]?(?:inf|nan)\b")
TEXT: Final = re.compile(r"[bru]?(?:'(?:[^'\\]|\\.)*+'|\"(?:[^\"\\]|\\.)*+\")", re.DOTALL)
NAME: Final = re.compile(r"[A-Za-z_][\w.]{0,255}+")
MEMBER: Final = re.compile(r"<([A-Za-z_][\w.]{0,255}+): ?")
CONSTANTS: Final = {"True": True, "False": False, "None": None}
CLOSING_BRACKETS: Final = {"[": "]", "(": ")", "{": "}"}


class _Unreadable:
    """A value that a log does not show."""

    def __repr__(self) -> str:
        return "UNREADABLE"


UNREADABLE: Final = _Unreadable()


class NotAValue(PolicyError):
    """The text is not a value, or exceeds a bound; the message says what and at which character."""


def read_value(text: str) -> Any:
    """The value at the beginning of a text; what follows it is ignored.

    Raises:
        NotAValue: there is none, it is cut off, or it exceeds a bound.
    """
    if len(text) > MAX_TEXT:
        raise NotAValue(f"more than {MAX_TEXT:,} characters, which is the limit")
    return _ValueReader(text).value(0)


class _ValueReader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.left = MAX_VALUES

    def value(self, depth: int) -> Any:
        """The next value; ``at`` is then the position after it."""
        self.left -= 1
        if depth > MAX_DEPTH:
            raise NotAValue(f"nested too deeply: at most {MAX_DEPTH} levels are read")
        if self.left < 0:
            raise NotAValue(f"more than {MAX_VALUES:,} values, which is the limit")
        self._skip()
        mark = self.text[self.at : self.at + 1]
        if mark == "{":
            return self._map(depth)
        if mark and mark in "[(":
            return self._items(CLOSING_BRACKETS[mark], depth)
        if mark == "<":
            return self._member(depth)
        for pattern, read in ((TEXT, ast.literal_eval), (NUMBER, _number)):
            found = pattern.match(self.text, self.at)
            if found is not None:
                self.at = found.end()
                return _literal(read, found.group())
        return self._named(depth)

    def _named(self, depth: int) -> Any:
        """A constant, a member of an enumeration by its name, or an instance of a class."""
        found = NAME.match(self.text, self.at)
        if found is None:
            raise self._fault("a value")
        self.at = found.end()
        name = found.group()
        if name in CONSTANTS:
            return CONSTANTS[name]
        if self.text[self.at : self.at + 1] != "(":
            return name.rpartition(".")[2]
        return self._instance(depth)

    def _instance(self, depth: int) -> Any:
        """The fields of an instance; of one with a single unnamed part, such as a path, that part."""
        self.at += 1
        fields: dict[str, Any] = {}
        unnamed: list[Any] = []
        while not self._closes(")"):
            found = NAME.match(self.text, self.at)
            if found is not None and self.text[found.end() : found.end() + 1] == "=":
                self.at = found.end() + 1
                fields[found.group()] = self.value(depth + 1)
            else:
                unnamed.append(self.value(depth + 1))
            self._separate(")")
        if unnamed:
            return unnamed[0] if len(unnamed) == 1 and not fields else UNREADABLE
        return fields

    def _map(self, depth: int) -> Any:
        """A map, or a set, which is read as a list."""
        self.at += 1
        found: dict[Any, Any] = {}
        members: list[Any] = []
        while not self._closes("}"):
            key = self.value(depth + 1)
            self._skip()
            if self.text[self.at : self.at + 1] != ":":
                members.append(key)
            else:
                self.at += 1
                found[key if isinstance(key, str | int | float | bool | None) else str(key)] = self.value(depth + 1)
            self._separate("}")
        return members if members and not found else found

    def _items(self, end: str, depth: int) -> list[Any]:
        self.at += 1
        found = []
        while not self._closes(end):
            found.append(self.value(depth + 1))
            self._separate(end)
        return found

    def _member(self, depth: int) -> Any:
        """The value of `<Class.MEMBER: value>` if it is a text, else the member's name; other brackets are unreadable.

        vLLM reads the members of its enumerations by name, and those with texts by their value.
        """
        found = MEMBER.match(self.text, self.at)
        if found is not None:
            self.at = found.end()
            value = self.value(depth + 1)
            self._skip()
            if self.text[self.at : self.at + 1] == ">":
                self.at += 1
                return value if isinstance(value, str) else found.group(1).rpartition(".")[2]
        end = self.text.find(">", self.at)
        if end < 0:
            raise self._fault("`>`")
        self.at = end + 1
        return UNREADABLE

    def _closes(self, end: str) -> bool:
        """Whether the next character ends the container, which is then passed."""
        self._skip()
        if self.text[self.at : self.at + 1] != end:
            return False
        self.at += 1
        return True

    def _separate(self, end: str) -> None:
        """Pass a comma, unless the container ends."""
        self._skip()
        mark = self.text[self.at : self.at + 1]
        if mark == ",":
            self.at += 1
        elif mark != end:
            raise self._fault(f"`,` or `{end}`")

    def _skip(self) -> None:
        found = BLANK.match(self.text, self.at)
        self.at = self.at if found is None else found.end()

    def _fault(self, expected: str) -> NotAValue:
        got = "the end of the line" if self.at >= len(self.text) else f"`{self.text[self.at]}`"
        return NotAValue(f"expected {expected} at character {self.at + 1}, got {got}")


def _literal(read: Any, text: str) -> Any:
    try:
        value = read(text)
    except (ValueError, SyntaxError, MemoryError) as error:
        raise NotAValue(f"a literal of {len(text):,} characters that Python does not read") from error
    if isinstance(value, str):
        return value.encode(errors="replace").decode()  # half of a surrogate pair has no UTF-8
    return UNREADABLE if isinstance(value, bytes) else value


def _number(text: str) -> int | float:
    return int(text) if text.lstrip("+-").isdigit() else float(text)
