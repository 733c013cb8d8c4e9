"""The values that a user's texts, commands and documents state for the names of secrets.

Not here: how they are hidden where they are repeated (`secret_values`).
"""

from __future__ import annotations

import json
import re
from itertools import chain, filterfalse
from typing import TYPE_CHECKING, Any, Final

from policy.masking import (
    ELEMENT_END,
    EXPANSION,
    HEADERS,
    MIN_VALUE,
    NAME,
    is_declared,
    is_plain,
    may_have_name,
    secret_parts,
    users_of,
)
from policy.secret_names import is_secret
from policy.secret_values import NO_SECRETS, SecretValues

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

MAX_TEXT: Final = 256
"""How many characters of a value are searched for."""
MAX_LINE: Final = 1024
"""The length of the longest text that may be one value, and no script."""
SCRIPT: Final = re.compile(r"[\n;&|]|\s-{1,2}[A-Za-z]|\s\w{1,64}=")
"""Matches what shows that a text has more than one value: a shell's or YAML's."""
ONE_ADDRESS: Final = re.compile(r"[\w.+-]*+:(?!//)\S++")
"""Matches what may be an address without a scheme, whatever its password has."""
PLAIN: Final = r"""[^\s;&|'"$`\\]"""
"""Matches a character of a word of a shell that stands for itself."""
CONTINUATION: Final = r"\\\n"
CONTINUED: Final = rf"(?:{CONTINUATION}){{0,8}}+"
IN_QUOTES: Final = r"""(?:[^"$\\]|\\(?:["$`\\]|(?!\n)))"""
"""Matches a character within a shell's double quotes, which may be escaped, but no variable."""
ANSI_C: Final = r"\\(?:x[0-9A-Fa-f]{1,2}|u[0-9A-Fa-f]{1,4}|U[0-9A-Fa-f]{1,8}|[0-7]{1,3}|[\s\S])"
"""Matches an escaped character within `$'…'`."""
VALUE: Final = re.compile(
    rf"""((?:["'\\]{{0,4}}\s{{0,8}}(?:[:=]|\+=)|["'\\]?{ELEMENT_END}"""
    r"""|["']?,?\s{1,64}["']?value["']?\s{0,8}:|(?:["',\\]{0,4}\s{1,8}){1,2})\s{0,8}"""
    r"""(?:(?:[|>][+-]?|[&!][^\s]{1,64}|-)\s{1,64})?)((?i:ApiKey|Basic|Bearer|GenieKey|Key|Negotiate|Splunk|SSWS|Token)\s{1,8})?"""
    r"""(?:''|""|\$(?=["'])|\\\n){0,8}+"""
    rf"""(?:'((?<=\$')(?:(?:{ANSI_C}){{0,64}}+[^'\\]){{6}}(?:[^'\\]|\\[\s\S]){{0,250}}+|(?<!\$')[^']{{6,256}})|"({CONTINUED}(?:{IN_QUOTES}{CONTINUED}){{6,256}}+)"""
    rf"""|((?:(?:\\[\s\S]){{0,64}}+{PLAIN}){{6}}(?:{PLAIN}|\\[^'"]){{0,250}}+)"""
    rf"""|((?:(?<=\$)'(?:[^'\\]|\\[\s\S]){{0,256}}+'|'[^']{{0,256}}'|"(?:[^"$`\\]|\\[\s\S]){{0,256}}+"|\$(?=["'])|{CONTINUATION}"""
    rf"""|(?:{PLAIN}|\\.){{1,64}}+){{1,16}}+))"""
)
"""What follows a secret's name in a script: a separator, the scheme of a header, and the beginning of its value,
unless that is a variable. The value may be quoted in parts."""
MAX_FOLLOWING: Final = 768
"""How many characters after a name are searched for its value."""
QUOTES: Final = dict.fromkeys(map(ord, "'\"\\"))
"""Removes what quotes other characters."""
ESCAPED: Final = re.compile(r"\\(?:\n|([\s\S]))")
"""Matches a character with a backslash before it, which a shell removes, or a line's end, which it removes too."""
ESCAPED_IN_QUOTES: Final = re.compile(r'\\(?:\n|(["$`\\]))')
"""Matches the same within double quotes."""
PIECE: Final = re.compile(rf"""{ESCAPED.pattern}|'([^']*+)'|"((?:[^"\\]|\\[\s\S])*+)"|["']""")
"""Matches what is quoted in a word, with its quotes."""
FIELD: Final = re.compile(r"""(?:\A|\n)[\s?"'-]{0,64}+\Z""")
"""Matches what precedes the name of a field in YAML."""
MAX_INDENT: Final = 64
BRACKET: Final = re.compile(r"[\[{]")
OPERATORS: Final = "-=+?"
"""What stands before it, after a colon."""
OPERAND: Final = re.compile(r"\$\{\w{1,256}:?[-=+]")
"""Matches what precedes a value of a variable in its reference, and no message."""
REFERENCE: Final = re.compile(r"""["']?\$[A-Z_][A-Z0-9_]*+["']?""")
"""Matches a reference to a variable without braces; a password may begin with `$`, or have it within."""
CERTAIN_EXPANSION: Final = re.compile(r"\$(?:\{[^{}]*+\}|\([^()]*+\))")
"""Matches what is replaced in a text for certain: `${A}`, `$(a)`."""
TEXT: Final = frozenset({str})
NUMBERS: Final = frozenset({int, float})
NAME_FIELDS: Final = frozenset({"name", "key"})
"""The fields that name a variable whose value is beside them."""
KIND_FIELDS: Final = frozenset({"kind", "type"})
"""The fields that say what an object is, such as a Kubernetes `Secret`, if their value reads as a name of a secret."""
PAIR: Final = 2
"""How many items a list has that is a name and its value."""
MAX_PAIR: Final = 6
"""How many fields an object has at most that names a variable in any other one."""
MAX_NAME: Final = 64
"""The length of the longest name in another field than ``NAME_FIELDS``: a longer text is rather a sentence."""
HARMLESS_WORDS: Final[set[str]] = set()
"""Words in which no secret was found."""
MAX_HARMLESS: Final = 2048
MAX_HARMLESS_WORD: Final = 2048
"""The length of the longest of them: many containers may have the same script."""


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
    for word in filterfalse(HARMLESS_WORDS.__contains__, words):  # a generator takes more
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
        if len(HARMLESS_WORDS) == MAX_HARMLESS:
            HARMLESS_WORDS.clear()
        HARMLESS_WORDS.add(str(word))
    return True


def secrets_of_words(words: Sequence[str]) -> Iterator[str]:
    """The values in a command: in a word, or the word after the flag of a secret."""
    for at, word in enumerate(words):
        if word in HARMLESS_WORDS:
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
            document = json.loads(text[bracket.start() :], object_pairs_hook=all_of_pairs)
        except (ValueError, RecursionError):
            pass
        else:
            yield from secrets_of_names(document)
            yield from users_of(text)
            return
    last = 0  # names within a value are no names of others: each would have the rest of it
    for default in EXPANSION.finditer(text) if "${" in text else ():
        if default.start() >= last and is_secret(default[1]):
            value = text[default.end() : default.end() + MAX_TEXT].partition("}")[0]
            last = default.end() + len(value)
            yield value.lstrip(OPERATORS)
    if not is_script(text):
        for part in chain(secret_parts(text), users_of(text, is_script=False)):
            yield from _stated(part)
        return
    yield from users_of(text, is_script=ONE_ADDRESS.fullmatch(text) is None)
    last = 0
    for name in NAME.finditer(text):
        if name.start() < last or not is_secret(name.group()):
            continue
        follows = VALUE.match(text, name.end(), name.end() + MAX_FOLLOWING)
        if follows is not None:
            value = next(filter(None, follows.groups()[2:]))
            if follows[6] and len(ESCAPED.sub("_", value.replace("\\\n", "")).translate(QUOTES)) < MIN_VALUE:
                continue
            if follows[2] or _is_value(text, name, follows[1], value):
                last = follows.end()
                yield value
                if follows[4] and "\\" in value:
                    yield ESCAPED_IN_QUOTES.sub(r"\1", value)
                elif follows[6] or "\\" in value:
                    yield PIECE.sub(_unquoted, value)


def is_script(text: str) -> bool:
    """Whether a text may have more than one value, as a script or YAML has."""
    return len(text) > MAX_LINE or SCRIPT.search(text) is not None


def _is_value(text: str, name: re.Match[str], separator: str, value: str) -> bool:
    """Whether what follows the name of a secret in a script or in YAML is its value, and no word of a sentence."""
    if "=" in separator or "value" in separator or is_declared(text, name.start()):
        return True
    is_field = ":" in separator and FIELD.search(text, max(0, name.start() - MAX_INDENT), name.start()) is not None
    is_name = ":" in separator or name.group().startswith("-") or name.group().lower() in HEADERS
    return is_field or (is_name and (any(map(str.isdigit, value)) or any(map(str.isupper, value[1:]))))


def _unquoted(piece: re.Match[str]) -> str:
    """What a shell makes of a quoted part of a word."""
    return piece[1] or piece[2] or ESCAPED_IN_QUOTES.sub(r"\1", piece[3] or "")


def _stated(value: str) -> Iterator[str]:
    """The beginning of a value that is no variable's."""
    is_reference = "$" in value and REFERENCE.fullmatch(value) is not None
    if (
        not is_reference
        and len(CERTAIN_EXPANSION.sub("", OPERAND.sub("", value)) if "$" in value else value) >= MIN_VALUE
    ):
        yield value[:MAX_TEXT]


def all_of_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of JSON with these members; one that it has several times has all of its values, as a tuple."""
    found = dict(pairs)
    if len(found) == len(pairs):
        return found
    values: dict[str, list[Any]] = {}
    for name, value in pairs:
        values.setdefault(name, []).append(value)
    return {name: each[0] if len(each) == 1 else tuple(each) for name, each in values.items()}


def secrets_of_names(document: Any) -> Iterator[str]:
    """Every text and number in a document of a user's own fields that the name of a secret is above, or beside."""
    found: list[tuple[Any, bool]] = [(document, False)]
    while found:
        value, is_hidden = found.pop()
        if type(value) is str:
            yield from _stated(value) if is_hidden else secrets_of_text(value)
        elif is_hidden and type(value) in NUMBERS:
            yield from _stated(_spelled(value))
        elif type(value) is list:
            if not is_hidden:
                yield from secrets_of_words(words_of(value))
                if len(value) == PAIR and type(value[0]) is str and is_secret(value[0]) and _is_short_name(value[0]):
                    found.append((value[1], True))
            if is_hidden or not TEXT.issuperset(map(type, value)):
                found += [(item, is_hidden) for item in value if is_hidden or type(item) is not str]
        elif type(value) is tuple:
            found += [(item, is_hidden) for item in value]
        elif type(value) is dict:
            others = _values_beside_names(value)
            found += [
                (item, is_hidden or is_secret(str(key)) or key in others)  # a key of YAML may be a number
                for key, item in value.items()
            ]


def _values_beside_names(document: dict[Any, Any]) -> Collection[Any]:
    """The fields of an object that hold the secrets that its other fields name.

    The value of such a field may itself read as the name of a secret: `hunter2-password`.
    """
    names = {key for key, item in document.items() if _names_others(key, item, len(document))}
    if not names:
        return ()
    kinds = names & KIND_FIELDS
    is_only_name = NAME_FIELDS.isdisjoint(names) and len(names - kinds) == 1
    return document.keys() - NAME_FIELDS - (names if is_only_name else kinds)


def words_of(items: Iterable[Any]) -> list[str]:
    """The items of a list as words of a command; what is neither a text nor a number is empty."""
    return [item if type(item) is str else _spelled(item) if type(item) in NUMBERS else "" for item in items]


def _spelled(number: float) -> str:
    """A number; one that only an exponent makes shorter than a secret has zeros: `0.000001` is `1.0000e-06`."""
    text = repr(number)
    return f"{number:.4e}" if len(text) < MIN_VALUE and "e" in text else text


def _names_others(field: Any, value: Any, size: int) -> bool:
    """Whether a field of an object has the name of a secret, which the other fields then hold."""
    if type(value) is tuple:
        return any(_names_others(field, each, size) for each in value)
    if type(value) is not str or not is_secret(value):
        return False
    if field in NAME_FIELDS:
        return True
    return size <= MAX_PAIR and _is_short_name(value) and not is_secret(str(field))


def _is_short_name(text: str) -> bool:
    """Whether a text is rather a name than a sentence."""
    return len(text) <= MAX_NAME and NAME.fullmatch(text) is not None
