"""The values that a deployment states for secrets, and what hides them in texts, whatever a shell makes of them.

Not here: secrets that are recognised by the name before them or by their shape (`masking`), which are hidden as well.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from itertools import chain, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from policy.escaping import escape_line
from policy.masking import HIDDEN, MIN_VALUE, HiddenName, masked_message
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MAX_BEGINNING: Final = 12
"""How many characters of a variable's value are searched for: a message may contain only its beginning."""
SHELL_ASSIGNMENT: Final = re.compile(r"""\b(\w++)\+?=(?:'([^']{6,40})|"([^"$]{6,40})|([^\s;&|'"$]{6,40}))""")
"""A shell assignment: a name and the beginning of its value, unless the value begins with a ``$`` (a variable)."""
QUOTES: Final = dict.fromkeys(map(ord, "'\"\\"))
"""Removes what quotes other characters."""
SEPARATORS: Final = frozenset(" '\"\\`&;|<>(){}[]*?$,=%")
"""What a shell, systemd or an escape removes or adds, or what ends a word; so do all that are not printable."""
REMOVED: Final = {**dict.fromkeys(map(ord, SEPARATORS)), ord("_"): "-"}
"""Removes the separators, and makes words of a flag's spellings the same."""
ESCAPE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{1,2}|[uU][0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
"""Matches an escape of `$'…'`, `echo -e` or JSON."""
EXPANDED: Final = re.compile(r"(?:\$(?:\w++|[$?!#@*-]|\{[^{}]*+\}|\([^()]*+\))|`[^`]*+`)")
"""Matches what a shell or Kubernetes replaces in a text: `$A`, `${A}`, `$(a)`."""


def _reduced(text: str) -> str:
    """A text without the characters that a shell or an escape may remove or add, or that separate words."""
    plain = text.translate(REMOVED)
    return plain if plain.isprintable() else "".join(filter(str.isprintable, plain))


def _beginnings(values: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The reduced beginnings of values and of what follows a separator within one; short ones are left out.

    Each ends before a separator, where a shell may end the word, if that leaves enough. Those that have a separator
    within them come last.
    """
    found = [part for value in values for reading in _readings(value) for part in _parts(reading)]
    found.sort(key=itemgetter(1))
    yield from found


def _readings(value: str) -> Iterator[str]:
    """A value, as messages escape it, and with its own escapes and expansions replaced by separators."""
    yield value
    if not value.isprintable():
        yield from (escape_line(value), json.dumps(value), repr(value))
    if "\\" in value:
        yield ESCAPE.sub(" ", value)
    if "$" in value or "`" in value:
        yield EXPANDED.sub("}", value)


def _parts(value: str) -> Iterator[tuple[str, bool]]:
    """The reduced beginnings of a value, each with whether there is a separator within it.

    A path after a variable, as in `${HOME}/.cache`, is none.
    """
    kept: list[str] = []
    starts: list[int] = [0]
    paths: set[int] = set()
    for before, each in zip(chain(" ", value), value, strict=False):
        if each not in SEPARATORS and each.isprintable():
            if each == "/" and before == "}":
                paths.add(len(kept))
            kept.append(each)
        elif starts[-1] < len(kept):
            starts.append(len(kept))
    text = "".join(kept).translate(REMOVED)
    for index, start in enumerate(starts, 1):
        ends = starts[index : index + MAX_BEGINNING]
        end = min(next((end for end in ends if end >= start + MIN_VALUE), len(text)), start + MAX_BEGINNING)
        if end - start >= MIN_VALUE and start not in paths:
            yield text[start:end], bool(ends) and ends[0] < end


class Beginnings:
    """Texts of 6 to 12 characters that are found in another one, each with whether it is of separate parts."""

    def __init__(self, beginnings: Mapping[str, bool]) -> None:
        self.all = beginnings
        self._starts = {beginning[:MIN_VALUE] for beginning in beginnings}
        self._cut = {beginning[:end] for beginning in beginnings for end in range(MIN_VALUE, len(beginning))}

    def at(self, text: str, at: int) -> int:
        """The length of the one at a position, or of its part before a cut; 0 if there is none."""
        if text[at : at + MIN_VALUE] not in self._starts:
            return 0
        for length in range(MIN_VALUE, MAX_BEGINNING + 1):
            beginning = text[at : at + length]
            if beginning in self.all or (text[at + length : at + length + 1] == HIDDEN and beginning in self._cut):
                return length
        return 0


class SecretValues:
    """The values of secret variables; messages are searched for their beginnings, and for secrets of known forms.

    A shell may remove characters of a value, or end a word with them, and messages escape some. Both are searched
    without such characters (``_reduced``); a value that has too few others is searched for as it is written.
    """

    def __init__(self, values: Iterable[str] = ()) -> None:
        values = list(values)
        self._parts = Beginnings(dict(_beginnings(values)))
        self._short = Beginnings(
            {
                beginning: True
                for value in values
                if len(beginning := "".join(takewhile(str.isprintable, value.strip()[:MAX_BEGINNING]))) >= MIN_VALUE
                and len(_reduced(value)) < MIN_VALUE
            }
        )

    def __bool__(self) -> bool:
        return bool(self._parts.all or self._short.all)

    def hidden(self, text: str) -> str:
        """The message with each of these values hidden, up to the closing backtick, in one pass over the text."""
        text = masked_message(text)
        if self._short.all:
            text = _without(text, text, self._short)
        return _without(text, _reduced(text), self._parts) if self._parts.all else text

    def named(self, name: str) -> str:
        """The same name, as a `HiddenName` if it contains one of these values or a secret of a known form."""
        shown = self.hidden(name)
        return name if shown == name else HiddenName(name, shown)


def _without(text: str, searched: str, beginnings: Beginnings) -> str:
    """A message without what begins as one of ``beginnings`` in what is ``searched``: the text, or it reduced."""
    kept: list[str] = []
    positions: Sequence[int] = ()
    at = last = 0
    while at <= len(searched) - MIN_VALUE:
        if not (length := beginnings.at(searched, at)):
            at += 1
            continue
        if not positions:
            positions = range(len(text)) if searched == text else _positions(text)
        start, end = positions[at], positions[at + length - 1] + 1
        if start < last or not (beginnings.all.get(searched[at : at + length], True) or _is_whole(text[start:end])):
            at += 1
            continue
        kept += (text[last:start], HIDDEN)
        last = text.find("`", end)
        if last < 0:
            return "".join(kept)
        at = bisect_left(positions, last)
    return "".join([*kept, text[last:]])


def _positions(text: str) -> list[int]:
    """Where the characters of the reduced text are in the text."""
    return [at for at, each in enumerate(text) if each.isprintable() and each not in SEPARATORS]


def _is_whole(text: str) -> bool:
    """Whether a part of a text has no separators except quotes, so that it is one word to a shell."""
    return text.isprintable() and SEPARATORS.isdisjoint(text.translate(QUOTES))


NO_SECRETS: Final = SecretValues()
"""The usual result of ``secret_values``. Creating it each time takes 1 % of the instructions to derive facts."""


def secret_values(
    variables: Mapping[str, str | None], texts: Collection[str] = (), found: Collection[str] = ()
) -> SecretValues:
    """The values of secret variables, those assigned in ``texts`` as in a shell, and those that are ``found``."""
    stated = stated_secrets(variables) if variables else []
    assigned: list[str] = []
    if "=" in "".join(texts):  # most have none; asking each text takes 0.4 % of the instructions to derive facts
        assigned = [value for text in texts if "=" in text for value in _assigned_values(text)]
    return SecretValues([*stated, *found, *assigned]) if stated or found or assigned else NO_SECRETS


def stated_secrets(variables: Mapping[str, str | None]) -> list[str]:
    """The values of the variables whose names are those of secrets."""
    return [value for name, value in variables.items() if value is not None and is_secret(name)]


def assigned_secrets(text: str) -> Iterator[str]:
    """The beginnings of the values that a text assigns to names of secrets as a shell does."""
    return _assigned_values(text) if "=" in text else iter(())


def _assigned_values(text: str) -> Iterator[str]:
    for name, *values in SHELL_ASSIGNMENT.findall(text):
        if is_secret(name):
            yield from values
