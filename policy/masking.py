"""Mask secrets in user input, which are recognised by the name before them or by their shape.

Answers, problems, warnings and logs repeat user input; secrets are masked in all of them in the same way.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

SECRET_WORDS: Final = frozenset(
    {
        "apikey",
        "apikeys",
        "auth",
        "authorization",
        "bearer",
        "credential",
        "credentials",
        "key",
        "keys",
        "pass",
        "passphrase",
        "passwd",
        "password",
        "pat",
        "pw",
        "pwd",
        "secret",
        "secrets",
        "sig",
        "signature",
        "token",
    }
)
TEXT_UNITS: Final = frozenset(
    {"budget", "classification", "classify", "embed", "embedding", "ids", "num", "offsets", "threshold"}
)
"""What follows ``token`` in a name that is about units of text: ``BertForTokenClassification``, ``stop_token_ids``."""
SPECIAL_TOKENS: Final = frozenset({"bos", "cls", "eos", "mask", "pad", "sep", "unk"})
"""What precedes ``token`` in the name of a tokenizer's special token: ``pad_token``."""
NUMBERED_TOKENS: Final = SPECIAL_TOKENS | {
    *("", "audio", "begin", "boi", "col", "draft", "end", "eoi", "eot", "image", "img", "newline", "noise", "patch"),
    *("row", "separator", "sot", "speech", "start", "stop", "video", "vision"),
}
"""What precedes ``token`` in the name of a token's number: ``image_token_index``; empty at the beginning of a name."""
NUMBERS_OF_TOKENS: Final = frozenset({"id", "index", "type"})
OTHER_MEANINGS: Final = frozenset(
    {
        *(("key", other) for other in ("cache", "dim", "head", "heads", "length", "norm", "proj", "value")),
        *(("keys", other) for other in ("length", "values")),
        *(("pass", other) for other in ("config", "manager", "through")),
    }
)
"""Words of secrets with another meaning before another word, in a name that begins with them or ``num``:
``num_key_value_heads``, ``pass_config``."""
SECRET_ENDINGS: Final = ("accesskey", "apikey", "password", "secret", "secretkey", "token")
FLAGS: Final = (
    ("additional-config", 2),
    ("api-key", 3),
    ("hf-token", 2),
    ("model-loader-extra-config", 7),
    ("otlp-traces-endpoint", 2),
)
"""vLLM's flags whose values are secrets, each with the length of its shortest abbreviation."""
FLAG_NAMES: Final = frozenset(name for name, _ in FLAGS)
DASHES: Final = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d", "-")
)
"""Dashes that editors substitute for ``-`` and ``--``."""
FORM_RANGES: Final = (range(0x80, 0x2500), range(0xFE50, 0x10000), range(0x1D400, 0x1D800))
"""The Unicode ranges with other forms of ASCII characters, such as full-width ones."""
TO_ASCII: Final = DASHES | {
    code: form
    for code in chain(*FORM_RANGES)
    if code not in DASHES and len(form := normalize("NFKC", chr(code))) == 1 and form.isascii()
}
"""Characters treated as ASCII ones: dashes, and those whose compatibility form (NFKC) is one ASCII character."""
HIDDEN: Final = "…"
MAX_NAME: Final = 256
MIN_VALUE: Final = 6
"""The length of the shortest variable's value that is hidden."""
MAX_BEGINNING: Final = 12
"""How many characters of a variable's value are searched for: a message may contain only its beginning."""
TOKEN_SHAPES: Final = ("hf_", "rp_", "sk-", "gh", "github_pat_", "glpat-", "xox")
"""How the tokens of known shapes begin."""
HINTS: Final = (
    "auth",
    "bearer",
    "credential",
    "key",
    "pass",
    "_pat",
    "-pat",
    "pw",
    "secret",
    "sig",
    "token",
    "//",
    "@",
    *TOKEN_SHAPES,
    "-ad",
    "-api",
    "-hf",
    "-model",
    "-ot",
    "additional",
    "loader",
    "otlp",
)
"""A text that contains none of these has no secret to mask."""
NAME: Final = re.compile(r"[\w.-]++")
NAME_PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ASSIGNMENT: Final = re.compile(r"""["'\\]*\s*[:=]""")
SEPARATOR: Final = re.compile(r"""["'\\]*[\s:=,\u200b\u2060\ufeff]""")
"""What may follow a secret's name; the last three characters have no width and are not matched by ``\\s``."""
SHELL_ASSIGNMENT: Final = re.compile(r"""\b(\w++)\+?=(?:'([^']{6,40})|"([^"$]{6,40})|([^\s;&|'"$]{6,40}))""")
"""A shell assignment: a name and the beginning of its value, unless the value begins with a ``$`` (a variable)."""
USER_INFO: Final = re.compile(
    r"""//(?:[^\s/"'`@:]{0,256}+:[^\s"'`@]{0,256}+|[^\s/"'`]{1,256})@"""
    r"""|(?<![\w.%+@-])(?:(?!sha\d)[\w.%+-]){1,256}+:[^\s"'`@/:]{3,256}+@(?!sha\d)(?=\w)"""
)
"""The user and password in a URL, also without its scheme (`user:password@host`); an image's digest is neither."""
MESSAGE_VALUE: Final = re.compile(
    r"""(["'\\]{0,4}\s{0,8}[:=]\s{0,8}["'\\]{0,4}(?:(?:Basic|Bearer)\s{1,8})?|\s{1,8})([^\s"'`,;(){}\[\]…]{6,})""",
    re.IGNORECASE,
)
"""What follows a secret's name within a message: a separator, and a value that ends where the message goes on."""
KNOWN_TOKEN: Final = re.compile(
    r"\b((?:hf|rp)_(?![a-z_]++(?![\w-]))|sk-|gh[a-z]_|github_pat_|glpat-|xox[a-z]-)[\w-]{6,}"
)
"""Tokens of known shapes; `rp_…` are the service's own. Field names such as `hf_config` do not match."""


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    name = name.translate(TO_ASCII)
    parts = [part.lower() for part in NAME_PARTS.findall(name)]
    return any(map(_is_secret_word, ["", *parts], parts, [*parts[1:], ""])) or _is_flag(name)


def _is_secret_word(before: str, part: str, following: str) -> bool:
    """Whether a part of a name, between two other parts, shows that its value is a secret."""
    if part == "token" and (
        following in TEXT_UNITS
        or before in SPECIAL_TOKENS
        or (following in NUMBERS_OF_TOKENS and before in NUMBERED_TOKENS)
    ):
        return False
    if before in {"", "num"} and (part, following) in OTHER_MEANINGS:
        return False
    return part in SECRET_WORDS or part.endswith(SECRET_ENDINGS)


def _is_flag(name: str) -> bool:
    key = name.lstrip("-").replace("_", "-").partition(".")[0]
    if not name.startswith("-"):
        return key in FLAG_NAMES
    return any(len(key) >= least and flag.startswith(key) for flag, least in FLAGS)


def is_secret(name: str) -> bool:
    """Whether the value of a flag, variable or field of this name is a secret; a flag may lack its dashes.

    A number is not the name of one, nor worth a place in the cache.
    """
    return len(name) <= MAX_NAME and not name.isdigit() and _is_secret(name)


def _takes_next(name: str) -> bool:
    """Whether a blank may separate the name from its secret: a single word such as `key` may be prose."""
    return "-" in name or "_" in name or name.lower() == "bearer"


def may_have_secret(text: str) -> bool:
    """Whether ``masked`` may change the text. It is false for most texts, at a fraction of the cost.

    Most flags and their values repeat, so that of short texts is cached: it saves 6 of 206 µs of the facts of a new
    deployment.
    """
    return _cached_hint(text) if len(text) <= MAX_NAME else _has_hint(text)


def _has_hint(text: str) -> bool:
    lower = (text if text.isascii() else text.translate(TO_ASCII)).lower()
    for hint in HINTS:  # noqa: SIM110  # a generator takes 0.5 µs more
        if hint in lower:
            return True
    return False


_cached_hint: Final = lru_cache(maxsize=2048)(_has_hint)


class SecretValues:
    """The values of secret variables; messages are searched for their beginnings, and for secrets of known forms."""

    def __init__(self, beginnings: Iterable[str] = ()) -> None:
        self._beginnings = frozenset(beginnings)
        self._lengths = sorted({len(beginning) for beginning in self._beginnings})
        self._starts = {beginning[:MIN_VALUE] for beginning in self._beginnings}

    def __bool__(self) -> bool:
        return bool(self._starts)

    def hidden(self, text: str) -> str:
        """The message with each of these values hidden, up to the closing backtick, in one pass over the text."""
        text = masked_message(text)
        if not self._starts:
            return text
        kept: list[str] = []
        at = last = 0
        while at <= len(text) - MIN_VALUE:
            if text[at : at + MIN_VALUE] not in self._starts or not (length := self._length(text, at)):
                at += 1
                continue
            kept += (text[last:at], HIDDEN)
            end = text.find("`", at + length)
            if end < 0:
                return "".join(kept)
            at = last = end
        return "".join([*kept, text[last:]])

    def _length(self, text: str, at: int) -> int:
        """The length of the beginning found at a position; 0 if there is none."""
        return next((length for length in self._lengths if text[at : at + length] in self._beginnings), 0)


def secret_values(variables: Mapping[str, str | None], texts: Iterable[str] = ()) -> SecretValues:
    """The values of secret variables, including those assigned in ``texts`` as in a shell."""
    stated = (value for name, value in variables.items() if value is not None and is_secret(name))
    return SecretValues(_beginnings(chain(stated, *map(_assigned_values, texts))))


def _assigned_values(text: str) -> Iterator[str]:
    if "=" in text:
        for name, *values in SHELL_ASSIGNMENT.findall(text):
            if is_secret(name):
                yield from values


def _beginnings(values: Iterable[str]) -> Iterator[str]:
    """The printable beginnings of values, because messages escape other characters; short ones are left out."""
    for value in values:
        beginning = "".join(takewhile(str.isprintable, value.strip()[:MAX_BEGINNING]))
        if len(beginning) >= MIN_VALUE:
            yield beginning


def masked(text: str) -> str:
    """The text with its secrets replaced by ``…``.

    Secrets are the user and password in a URL, tokens of known shapes, and everything after the name of a secret.
    """
    text = str(text)  # a word of a script is a `str` of another type, which no encoder takes
    if not may_have_secret(text):
        return text
    text = _without_tokens(text)
    plain = text if text.isascii() else text.translate(TO_ASCII)  # of the same length
    for found in NAME.finditer(plain):
        name = found.group()
        if is_secret(name):
            flag, dot, key = name.partition(".")
            if dot and key and name.startswith("-") and is_secret(flag):  # the secret may be the key after the flag
                return text[: found.start() + len(flag) + 1] + HIDDEN
            takes_next = found.start() == 0 or _takes_next(name)
            follows = (SEPARATOR if takes_next else ASSIGNMENT).match(plain, found.end())
            if follows is not None and follows.end() < len(text):
                return text[: follows.end()] + HIDDEN
    return text


def masked_message(text: str) -> str:
    """A message with the secrets in what it quotes replaced by ``…``, and its own words kept.

    A value after the name of a secret is one if it is assigned (`token=…`, `"api_key": "…"`), or has a digit.
    """
    text = str(text)
    if not may_have_secret(text):
        return text
    text = _without_tokens(text)
    plain = text if text.isascii() else text.translate(TO_ASCII)  # of the same length
    kept: list[str] = []
    last = 0
    for found in NAME.finditer(plain):
        if found.start() < last or not is_secret(found.group()):
            continue
        follows = MESSAGE_VALUE.match(plain, found.end())
        if follows is not None and _is_value(found.group(), *follows.groups()):
            kept += (text[last : follows.start(2)], HIDDEN)
            last = follows.end()
    return "".join([*kept, text[last:]])


def _is_value(name: str, separator: str, value: str) -> bool:
    """Whether what follows the name of a secret in a message is its value, and no word of the message."""
    if any(character.isdigit() for character in value):
        return bool(separator.strip()) or _takes_next(name)
    return separator.endswith(("=", '"', "'")) or (":" in separator and _takes_next(name))


def _without_tokens(text: str) -> str:
    """The text without users and passwords of URLs, and without tokens of known shapes.

    Nearly every text lacks what these have in common, and is not searched for them, which would take 2 µs of each.
    """
    if "@" in text:
        text = USER_INFO.sub(lambda found: f"{'//' * found.group().startswith('//')}{HIDDEN}@", text)
    for shape in TOKEN_SHAPES:
        if shape in text:
            return KNOWN_TOKEN.sub(rf"\1{HIDDEN}", text)
    return text
