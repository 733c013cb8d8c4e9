"""The values that a deployment states for secrets, and what hides them in texts, whatever a shell makes of them.

Not here: secrets that are recognised by the name before them or by their shape (`masking`), which are hidden as well.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import cached_property
from hashlib import sha256
from itertools import chain, filterfalse, takewhile
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

from policy.escaping import escape_line
from policy.masking import (
    ELEMENT_END,
    EXPANSION,
    HEADERS,
    HIDDEN,
    MIN_VALUE,
    NAME,
    HiddenName,
    is_declared,
    is_plain,
    masked_message,
    may_have_name,
    secret_parts,
    unescaped,
    users_of,
)
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MAX_BEGINNING: Final = 12
"""How many characters of a variable's value are searched for: a message may contain only its beginning."""
MAX_TEXT: Final = 256
"""How many characters of a value are searched for."""
MAX_LINE: Final = 1024
"""The length of the longest text that may be one value, and no script."""
SCRIPT: Final = re.compile(r"[\n;&|]|\s-{1,2}[A-Za-z]|\s\w{1,64}=")
"""Matches what shows that a text has more than one value: a shell's or YAML's."""
VALUE: Final = re.compile(
    rf"""((?:["'\\]{{0,4}}\s{{0,8}}(?:[:=]|\+=)|["'\\]?{ELEMENT_END}|(?:["',\\]{{0,4}}\s{{1,8}}){{1,2}})\s{{0,8}}"""
    r"""(?:(?:[|>][+-]?|[&!][^\s]{1,64}|-)\s{1,64})?)((?:Basic|Bearer|Negotiate|Token)\s{1,8})?"""
    r"""(?:'([^']{6,256})|"([^"$]{6,256})|([^\s;&|'"$`]{6,256}))"""
)
"""What follows a secret's name in a script: a separator, the scheme of a header, and the beginning of its value,
unless that is a variable."""
FIELD: Final = re.compile(r"""(?:\A|\n)[\s?"'-]{0,64}+\Z""")
"""Matches what precedes the name of a field in YAML."""
MAX_INDENT: Final = 64
BRACKET: Final = re.compile(r"[\[{]")
DEFAULT: Final = re.compile(r"\$\{\w{1,256}:?[-=+?]")
"""Matches what precedes the default of a variable."""
OPERATORS: Final = "-=+?"
"""What stands before it, after a colon."""
OPERAND: Final = re.compile(r"\$\{\w{1,256}:?[-=+]")
"""Matches what precedes a value of a variable in its reference, and no message."""
TEXT: Final = frozenset({str})
NAME_FIELDS: Final = ("name", "key")
"""The fields that name a variable whose value is beside them."""
MAX_PAIR: Final = 6
"""How many fields an object has at most that names a variable in any other one."""
MAX_NAME: Final = 64
"""The length of the longest name in such a field."""
QUOTES: Final = dict.fromkeys(map(ord, "'\"\\"))
"""Removes what quotes other characters."""
SEPARATORS: Final = frozenset(" '\"\\`&;|<>(){}[]*?$,=%")
"""What a shell, systemd or an escape removes or adds, or what ends a word; so do all that are not printable."""
REMOVED: Final = {**dict.fromkeys(map(ord, SEPARATORS)), ord("_"): "-"}
"""Removes the separators, and makes words of a flag's spellings the same."""
PATH: Final = frozenset("/.~$")
"""How a path begins."""
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
    if "%" in value or "\\" in value or not value.isascii():
        yield unescaped(value)[1]
    if DEFAULT.search(value) is not None:
        yield DEFAULT.sub(" ", value)
    if not value.isprintable():
        yield from (escape_line(value), json.dumps(value), repr(value))
    if "/" in value and value[0] not in PATH and "://" not in value:
        yield value.rpartition("/")[2]  # as the name of a program
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

    def __init__(self, values: Iterable[str] = (), others: SecretValues | None = None) -> None:
        values = list(values)
        self._others = others or None
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
        return bool(self._parts.all or self._short.all or self._others)

    def __str__(self) -> str:
        """What distinguishes them in the key of a cached result, without showing them."""
        return self._digest

    @cached_property
    def _digest(self) -> str:
        return sha256(
            "\0".join([*self._parts.all, *self._short.all, str(self._others)]).encode("utf-8", "surrogatepass")
        ).hexdigest()

    def hidden(self, text: str) -> str:
        """The message with each of these values hidden, up to the closing backtick, in one pass over the text."""
        text = masked_message(text) if self._others is None else self._others.hidden(text)
        if self._short.all:
            text = _without(text, text, range(len(text) + 1), text, self._short)
        if self._parts.all:
            text = _without(text, text, range(len(text) + 1), _reduced(text), self._parts)
            if "%" in text or "\\" in text or not text.isascii():
                _, plain, at = unescaped(text)
                text = _without(text, plain, at, _reduced(plain), self._parts)
        return text

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
    while found <= len(searched) - MIN_VALUE:
        if not (length := beginnings.at(searched, found)):
            found += 1
            continue
        if not positions:
            positions = range(len(plain)) if searched == plain else _positions(plain)
        start, end = positions[found], positions[found + length - 1] + 1
        is_cut = beginnings.all.get(searched[found : found + length], True)
        if at[start] < last or not (is_cut or _is_whole(plain[start:end])):
            found += 1
            continue
        kept += (text[last : at[start]], HIDDEN)
        last = text.find("`", at[end])
        if last < 0:
            return "".join(kept)
        found = bisect_left(positions, bisect_left(at, last))
    return "".join([*kept, text[last:]])


def _positions(text: str) -> list[int]:
    """Where the characters of the reduced text are in the text."""
    return [at for at, each in enumerate(text) if each.isprintable() and each not in SEPARATORS]


def _is_whole(text: str) -> bool:
    """Whether a part of a text has no separators except quotes, so that it is one word to a shell."""
    return text.isprintable() and SEPARATORS.isdisjoint(text.translate(QUOTES))


HARMLESS: Final[set[str]] = set()
"""Words in which no secret was found."""
MAX_HARMLESS: Final = 2048
MAX_HARMLESS_WORD: Final = 2048
"""The length of the longest of them: many containers may have the same script."""
NO_SECRETS: Final = SecretValues()
"""The usual result of ``secret_values``. Creating it each time takes 1 % of the instructions to derive facts."""


def secret_values(
    variables: Mapping[str, str | None],
    words: Sequence[str] = (),
    found: Collection[str] = (),
    others: SecretValues = NO_SECRETS,
) -> SecretValues:
    """The values of secret variables, those in ``words``, those that are ``found``, and the ``others``."""
    stated = stated_secrets(variables) if variables else []
    of_words = [] if are_harmless(words) else list(secrets_of_words(words))
    values = [*stated, *found, *of_words]
    return SecretValues(values, others) if values else others


def stated_secrets(variables: Mapping[str, str | None]) -> list[str]:
    """The values of the variables whose names are those of secrets, and the secrets in the other values."""
    found: list[str] = []
    for name, value in variables.items():
        if value is not None:
            found += [value] if is_secret(name) else secrets_of_text(value)
    return found


def are_harmless(words: Sequence[str]) -> bool:
    """Whether ``secrets_of_words`` finds nothing.

    Most words of commands repeat. To look each up in a cache of `functools` takes 3 % more of the instructions to
    derive facts.
    """
    for word in filterfalse(HARMLESS.__contains__, words):  # noqa: SIM110  # a generator takes more
        if not word.isdigit() and not is_harmless(word):
            return False
    return True


def is_harmless(word: str) -> bool:
    """Whether a word has no secret, and none follows it."""
    if not is_plain(word):
        is_flag = word[:1] == "-" and is_secret(word)
        if is_flag or next(iter(secrets_of_text(word)), None) is not None:
            return False
    if len(word) <= MAX_HARMLESS_WORD:
        if len(HARMLESS) == MAX_HARMLESS:
            HARMLESS.clear()
        HARMLESS.add(str(word))
    return True


def secrets_of_words(words: Sequence[str]) -> Iterator[str]:
    """The values in a command: in a word, or the word after the flag of a secret."""
    for at, word in enumerate(words):
        if word in HARMLESS:
            continue
        yield from secrets_of_text(word)
        if word.startswith("-") and at + 1 < len(words) and not words[at + 1].startswith("--") and is_secret(word):
            yield from _stated(words[at + 1])


def secrets_of_text(text: str) -> Iterable[str]:
    """The secrets in a user's text: JSON, a script, or a single value."""
    return _secrets_of_text(text) if may_have_name(text) else ()


def _secrets_of_text(text: str) -> Iterator[str]:
    bracket = BRACKET.search(text)
    if bracket is not None and text.rstrip()[-1] in "]}":
        try:
            document = json.loads(text[bracket.start() :])
        except (ValueError, RecursionError):
            pass
        else:
            yield from secrets_of_names(document)
            yield from users_of(text)
            return
    if not is_script(text):
        for part in chain(secret_parts(text), users_of(text, is_script=False)):
            yield from _stated(part)
        return
    yield from users_of(text)
    for default in EXPANSION.finditer(text):
        if is_secret(default[1]):
            yield text[default.end() : default.end() + MAX_TEXT].partition("}")[0].lstrip(OPERATORS)
    for name in NAME.finditer(text):
        follows = VALUE.match(text, name.end()) if is_secret(name.group()) else None
        if follows is not None:
            value = next(filter(None, follows.groups()[2:]))
            if follows[2] or _is_value(text, name, follows[1], value):
                yield value


def is_script(text: str) -> bool:
    """Whether a text may have more than one value, as a script or YAML has."""
    return len(text) > MAX_LINE or SCRIPT.search(text) is not None


def _is_value(text: str, name: re.Match[str], separator: str, value: str) -> bool:
    """Whether what follows the name of a secret in a script or in YAML is its value, and no word of a sentence."""
    if "=" in separator or is_declared(text, name.start()):
        return True
    is_field = ":" in separator and FIELD.search(text, max(0, name.start() - MAX_INDENT), name.start()) is not None
    is_name = ":" in separator or name.group().startswith("-") or name.group().lower() in HEADERS
    return is_field or (is_name and (any(map(str.isdigit, value)) or any(map(str.isupper, value[1:]))))


def _stated(value: str) -> Iterator[str]:
    """The beginning of a value that is no variable's."""
    if len(value if "$" not in value else EXPANDED.sub("", OPERAND.sub("", value))) >= MIN_VALUE:
        yield value[:MAX_TEXT]


def secrets_of_names(document: Any) -> Iterator[str]:
    """Every text in a document of a user's own fields that is under the name of a secret, or beside it as its value."""
    found: list[tuple[Any, bool]] = [(document, False)]
    while found:
        value, is_hidden = found.pop()
        if type(value) is str:
            yield from _stated(value) if is_hidden else secrets_of_text(value)
        elif type(value) is list:
            if not is_hidden:
                yield from secrets_of_words([item if type(item) is str else "" for item in value])
            if is_hidden or not TEXT.issuperset(map(type, value)):
                found += [(item, is_hidden) for item in value if is_hidden or type(item) is not str]
        elif type(value) is dict:
            names = {key for key, item in value.items() if _names_others(key, item, len(value))}
            found += [
                (item, is_hidden or is_secret(key) or (bool(names) and key not in names and key not in NAME_FIELDS))
                for key, item in value.items()
            ]


def _names_others(field: str, value: Any, size: int) -> bool:
    """Whether a field of an object has the name of a secret, which the other fields then hold."""
    if type(value) is not str or len(value) > MAX_NAME or NAME.fullmatch(value) is None or not is_secret(value):
        return False
    return field in NAME_FIELDS or (size <= MAX_PAIR and not is_secret(field))
