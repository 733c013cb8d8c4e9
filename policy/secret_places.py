"""Where in a text a secret stands: behind the name of one, in an address, or as a token of a known form.

For texts with parts that mean something to a program and may be parts of a secret too, such as `$NAME` in a password.
Not here: what these secrets are (`stated_secrets`), and how a text is shown without them (`masking`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.masking import (
    KNOWN_TOKEN,
    NAME,
    NAME_FIELD,
    SEPARATOR,
    VALUE_FIELD,
    may_have_name,
    unescaped,
    user_places,
)
from policy.secret_names import is_secret
from policy.stated_secrets import is_script

if TYPE_CHECKING:
    from collections.abc import Iterator

QUOTES: Final = frozenset("'\"")
BEFORE_VALUE: Final = re.compile(
    r"[\s\\:=,|>+-]{0,64}+(?:(?:Basic|Bearer|Digest|Negotiate|Token)\s{1,8})?", re.IGNORECASE
)
"""Matches what may stand between the separator after a secret's name and its value."""
WORD: Final = re.compile(r"""(?:'[^']*+'|"[^"]*+"|[^\s;&|])*+""")
"""Matches a word of a script, with its quotes."""


def secret_places(text: str) -> list[tuple[int, int]]:
    """The start and the end of each part of a text that may be a secret, in no order; they may overlap.

    In a script the value of a name ends with its word, elsewhere with the text.
    """
    if not may_have_name(text):
        return []
    _, plain, at = unescaped(text)
    return [(at[start], at[end]) for start, end in _places(plain, in_script=is_script(text))]


def _places(plain: str, *, in_script: bool) -> Iterator[tuple[int, int]]:
    if "@" in plain:
        yield from user_places(plain)
    yield from (found.span() for found in KNOWN_TOKEN.finditer(plain))
    value = VALUE_FIELD.search(plain)
    if value is not None and any(is_secret(found[1]) for found in NAME_FIELD.finditer(plain)):
        yield value.end(), len(plain)
    last = 0
    for found in NAME.finditer(plain):
        start = _start_of_value(plain, found) if is_secret(found.group()) else None
        if start is None or start < last:  # it is within the value of a name before it
            continue
        last = _end_of_value(plain, found, start) if in_script else len(plain)
        yield start, last


def _end_of_value(plain: str, name: re.Match[str], start: int) -> int:
    """Where the value ends in a script: with the quotes around its name and it, else with its word."""
    quote = plain[name.start() - 1] if name.start() else ""
    if quote in QUOTES and not plain.startswith(quote, name.end()) and (end := plain.find(quote, start)) >= 0:
        return end
    word = WORD.match(plain, start)
    return start if word is None else word.end()


def _start_of_value(plain: str, name: re.Match[str]) -> int | None:
    """Where the value of a secret's name begins: after a separator, or after the flag of a secret and a dot."""
    flag, dot, _ = name.group().partition(".")
    if dot and flag.startswith("-") and is_secret(flag):
        return name.start() + len(flag) + 1
    follows = SEPARATOR.match(plain, name.end())
    if follows is None:
        return None
    before = BEFORE_VALUE.match(plain, follows.end())
    return follows.end() if before is None else before.end()
