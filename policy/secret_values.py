"""What hides the values of secrets in texts, whatever a shell makes of them.

Not here: what the values are (`stated_secrets`), and secrets that are recognised by the name before them or by their
shape (`masking`), which are hidden as well.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from contextlib import suppress
from functools import cached_property, partial
from hashlib import sha256
from itertools import chain, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Final

from policy.escaping import escape_line
from policy.masking import (
    HIDDEN,
    MIN_VALUE,
    HiddenName,
    masked_message,
    may_have_token,
    unescaped,
)
from policy.secret_names import ASCII

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MAX_BEGINNING: Final = 12
"""How many characters of a variable's value are searched for: a message may contain only its beginning."""
MAX_SEARCHES: Final = 100
"""How many beginnings a text is searched for one by one, before each of its places is looked at."""
DEFAULT: Final = re.compile(r"\$\{\w{1,256}:?[-=+?]")
"""Matches what precedes the default of a variable."""
BETWEEN_WORDS: Final = frozenset(" ,;()=`\n")
"""Separators that messages have between words of their own."""
SEPARATORS: Final = frozenset(" '\"\\`&;|<>(){}[]*?$,=%")
"""What a shell, systemd or an escape removes or adds, or what ends a word; so do all that are not printable."""
SEPARATOR_TABLE: Final[dict[int, int | str | None]] = {**ASCII, **dict.fromkeys(map(ord, SEPARATORS)), ord("_"): "-"}
"""Removes the separators, and makes words of a flag's spellings the same."""
PATH: Final = frozenset("/.~$")
"""How a path begins."""
USER_END: Final = re.compile("@")
TOKEN_END: Final = re.compile("[@/]")
"""Where masking may end in a value: after a user and a password, and in a value that has a token of a known form."""
ESCAPE: Final = re.compile(r"\\(?:x[0-9A-Fa-f]{1,2}|[uU][0-9A-Fa-f]{1,8}|[0-7]{1,3}|.)", re.DOTALL)
"""Matches an escape of `$'…'`, `echo -e` or JSON."""
EXPANSION: Final = re.compile(r"(?:\$(?:\w++|[$?!#@*-]|\{[^{}]*+\}|\([^()]*+\))|`[^`]*+`)")
"""Matches what a shell or Kubernetes replaces in a text: `$A`, `${A}`, `$(a)`."""


NUMBER: Final = re.compile(r"(?<![\w.])\.?[0-9](?:[eE][+-]|[\w.])*+")
"""Matches what may be a number without its sign."""
MAX_NUMBER: Final = 64
READINGS: Final = (float, partial(int, base=0), partial(int, base=8))
"""How YAML and JSON read a number: `010` is 10 or 8."""


def _numbers_in(text: str) -> Iterator[float]:
    """The numbers that a text may be, without their signs."""
    if len(text) > MAX_NUMBER:
        return
    plain = text.replace("_", "").lstrip("+-")
    for read in READINGS if plain.lstrip(".")[:1].isdigit() else ():
        with suppress(ValueError):
            yield float(read(plain))


def _reduced(text: str) -> str:
    """A text without the characters that a shell or an escape may remove or add, or that separate words."""
    plain = text.translate(SEPARATOR_TABLE)
    return plain if plain.isprintable() else "".join(filter(str.isprintable, plain))


def _beginnings(readings: Iterable[str]) -> Iterator[tuple[str, bool]]:
    """The reduced beginnings of readings of values and of what follows a separator within one.

    Short ones are left out. Each ends before a separator, where a shell may end the word, if that leaves enough. Those
    that have a separator within them come last.
    """
    found = [part for reading in readings for part in _parts(reading)]
    found.sort(key=itemgetter(1))
    yield from found


def _readings(value: str) -> Iterator[str]:
    """A value, as messages escape it, and with its own escapes and expansions replaced by separators."""
    yield value
    plain = value
    if "%" in value or "\\" in value or not value.isascii():
        yield (plain := unescaped(value)[1])
    if DEFAULT.search(value) is not None:
        yield DEFAULT.sub(" ", value)
    if not value.isprintable():
        yield from (escape_line(value), json.dumps(value), repr(value))
    if "/" in plain and plain[0] not in PATH and "://" not in plain:
        yield plain.rpartition("/")[2]  # as the name of a program
    if "\\" in value:
        yield ESCAPE.sub(" ", value)
    if "$" in value or "`" in value:
        yield EXPANSION.sub("}", value)


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
    text = "".join(kept).translate(SEPARATOR_TABLE)
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

    def places(self, text: str) -> Sequence[int]:
        """Where one may begin in a text, which has none as a rule."""
        starts = self._starts
        if len(starts) <= MAX_SEARCHES and not any(map(text.__contains__, starts)):
            return ()
        return [at for at in range(len(text) - MIN_VALUE + 1) if text[at : at + MIN_VALUE] in starts]

    def at(self, text: str, at: int) -> int:
        """The length of the one at one of the ``places``, or of its part before a cut; 0 if there is none."""
        for length in range(MIN_VALUE, MAX_BEGINNING + 1):
            beginning = text[at : at + length]
            if beginning in self.all or (text[at + length : at + length + 1] == HIDDEN and beginning in self._cut):
                return length
        return 0


class Remainders:
    """What is left of values after a user, a password or a token in them was hidden: all from an ``@`` or ``/`` on."""

    def __init__(self, values: Iterable[str]) -> None:
        self._whole: set[str] = set()
        """As much of each as is compared."""
        self._short: set[str] = set()
        """Those of them that are shorter, because the value ends."""
        for value in values:
            if len(value) < MIN_VALUE or ("@" not in value and "/" not in value):
                continue
            reduced = _reduced(value)
            has_token = "/" in value and any(map(may_have_token, (value, reduced, reduced.replace("-", "_"))))
            for end in (TOKEN_END if has_token else USER_END).finditer(reduced):
                rest = reduced[end.start() : end.start() + MIN_VALUE]
                (self._whole if len(rest) == MIN_VALUE else self._short).add(rest)

    def __bool__(self) -> bool:
        return bool(self._whole or self._short)

    def __iter__(self) -> Iterator[str]:
        yield from chain(self._whole, self._short)

    @cached_property
    def _cut(self) -> set[str]:
        return {each[:end] for each in self for end in range(1, len(each))}

    def begin(self, text: str) -> bool:
        """Whether a text begins as one of them, or is the beginning of one."""
        beginning = text[:MIN_VALUE]
        return (
            beginning in self._whole
            or any(beginning[:end] in self._short for end in range(1, MIN_VALUE))
            or (len(beginning) < MIN_VALUE and beginning in self._cut)
        )


class SecretValues:
    """The values of secret variables; messages are searched for their beginnings, and for secrets of known forms.

    A shell may remove characters of a value, or end a word with them, and messages escape some. Both are searched
    without such characters (``_reduced``); a value that has too few others is searched for as it is written.

    The values are searched for before anything else is hidden in a text. But what a message quotes is masked before,
    when not all values may be known yet. Masking then hides all up to the end, except a user and a password up to an
    ``@``, and a token up to a ``/``: a value whose beginning was hidden as these is found by its rest (``Remainders``).
    """

    def __init__(self, values: Iterable[str] = (), others: SecretValues | None = None) -> None:
        values = list(values)
        self._others = others or None
        self._numbers = {number for value in values for number in _numbers_in(value)}
        readings = [reading for value in values for reading in _readings(value)]
        self._parts = Beginnings(dict(_beginnings(readings)))
        self._remainders = Remainders(readings)
        self._short = Beginnings(
            {
                beginning: True
                for value in values
                if len(beginning := "".join(takewhile(str.isprintable, value.strip()[:MAX_BEGINNING]))) >= MIN_VALUE
                and len(_reduced(value)) < MIN_VALUE
            }
        )

    def __bool__(self) -> bool:
        return bool(self._parts.all or self._short.all or self._remainders or self._numbers or self._others)

    def __str__(self) -> str:
        """What distinguishes them in the key of a cached result, without showing them."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        found = [*self._parts.all, *self._short.all, *sorted(self._remainders), *map(str, sorted(self._numbers))]
        return sha256("\0".join([*found, str(self._others)]).encode("utf-8", "surrogatepass")).hexdigest()

    def hidden(self, text: str) -> str:
        """The message with each of these values hidden, up to the closing backtick, and then what is masked in any."""
        return masked_message(self._without_values(text))

    def _without_values(self, text: str) -> str:
        """The message with the others' values hidden, and then each of these, in one pass over the text."""
        if self._others is not None:
            text = self._others._without_values(text)  # noqa: SLF001  # of the same type
        if self._numbers:
            text = _without_numbers(text, self._numbers)
        if self._short.all:
            text = _without(text, text, range(len(text) + 1), text, self._short)
        if self._parts.all:
            searched = text
            text = _without(text, text, range(len(text) + 1), _reduced(text), self._parts)
            if "%" in text or "\\" in text or not text.isascii():
                _, plain, at = unescaped(text)
                if plain != searched:
                    text = _without(text, plain, at, _reduced(plain), self._parts)
        return _without_remainders(text, self._remainders) if self._remainders and HIDDEN in text else text

    def named(self, name: str) -> str:
        """The same name, as a `HiddenName` if it contains one of these values or a secret of a known form."""
        before = name.shown if isinstance(name, HiddenName) else name
        shown = self.hidden(before)
        return name if shown == before else HiddenName(name, shown)


def _without(text: str, plain: str, at: Sequence[int], searched: str, beginnings: Beginnings) -> str:
    """A message without what begins as one of ``beginnings`` in what is ``searched``: ``plain``, or it reduced.

    ``plain`` is the text, or the text without its escapes; ``at`` says where its characters are in the text.
    """
    kept: list[str] = []
    positions: Sequence[int] = ()
    found = last = 0
    for place in beginnings.places(searched):
        if place < found or not (length := beginnings.at(searched, place)):
            continue
        if not positions:
            positions = range(len(plain)) if searched == plain else _positions(plain)
        start, end = positions[place], positions[place + length - 1] + 1
        is_cut = beginnings.all.get(searched[place : place + length], True)
        if at[start] < last or not (is_cut or _is_whole(plain[start:end])):
            continue
        kept += (text[last : at[start]], HIDDEN)
        last = text.find("`", at[end])
        if last < 0:
            return "".join(kept)
        found = bisect_left(positions, bisect_left(at, last))
    return "".join([*kept, text[last:]])


def _without_remainders(text: str, remainders: Remainders) -> str:
    """A message in which also the rest of a value is hidden whose beginning was hidden by its form."""
    quotations = text.split("`")
    for index, quotation in enumerate(quotations):
        first, *rests = quotation.split(HIDDEN)
        kept = [first]
        for rest in rests:
            kept.append(HIDDEN)
            if remainders.begin(_reduced(rest)) or remainders.begin(_reduced(unescaped(rest)[1])):
                break
            kept.append(rest)
        quotations[index] = "".join(kept)
    return "`".join(quotations)


def _without_numbers(text: str, numbers: Collection[float]) -> str:
    """A message without these numbers, however they are written; each up to the closing backtick."""
    kept: list[str] = []
    last = 0
    for found in NUMBER.finditer(text):
        if (
            found.start() >= last
            and len(found.group()) >= MIN_VALUE
            and any(map(numbers.__contains__, _numbers_in(found.group())))
        ):
            kept += (text[last : found.start()], HIDDEN)
            end = text.find("`", found.end())
            last = len(text) if end < 0 else end
    return "".join([*kept, text[last:]])


def _positions(text: str) -> list[int]:
    """Where the characters of the reduced text are in the text."""
    return [at for at, each in enumerate(text) if each.isprintable() and each not in SEPARATORS]


def _is_whole(text: str) -> bool:
    """Whether a part of a message has nothing in it that separates words of the message itself."""
    return BETWEEN_WORDS.isdisjoint(text)


NO_SECRETS: Final = SecretValues()
"""The usual result of ``secret_values``. Creating it each time takes 1 % of the instructions to derive facts."""
