"""Mask secrets in users' texts, found by the name before them or by their shape.

Answers, problems, warnings and logs repeat what users write; the same rule masks secrets in all of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import chain, takewhile
from typing import TYPE_CHECKING, Final
from unicodedata import normalize

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

WORDS: Final = frozenset(
    {
        *(
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
        ),
        *("password", "pwd", "secret", "secrets", "token"),
    }
)
ENDINGS: Final = ("accesskey", "apikey", "password", "secret", "secretkey", "token")
FLAGS: Final = (
    ("additional-config", 2),
    ("api-key", 3),
    ("hf-token", 2),
    ("model-loader-extra-config", 7),
    ("otlp-traces-endpoint", 2),
)
"""vLLM's flags that hold secrets, and the least number of characters of an abbreviation that may be one of them."""
FLAG_NAMES: Final = frozenset(name for name, _ in FLAGS)
DASHES: Final = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d", "-")
)
"""Dashes that editors write for ``-`` and ``--``."""
FORMS: Final = (range(0x80, 0x2500), range(0xFE50, 0x10000), range(0x1D400, 0x1D800))
"""Where Unicode has other forms of ASCII characters, such as full-width ones."""
PLAIN: Final = DASHES | {
    code: form
    for code in chain(*FORMS)
    if code not in DASHES and len(form := normalize("NFKC", chr(code))) == 1 and form.isascii()
}
"""Characters that are read as ASCII ones: dashes, and those whose compatibility form (NFKC) is a single character."""
HIDDEN: Final = "…"
MAX_NAME: Final = 256
LEAST: Final = 6
"""Characters of the shortest variable's value that is hidden."""
BEGINNING: Final = 12
"""Characters by which a variable's value is found in a message, which may have only a part of it."""
HINTS: Final = (
    "auth",
    "bearer",
    "credential",
    "key",
    "pass",
    "pwd",
    "secret",
    "token",
    "://",
    "hf_",
    "rp_",
    "sk-",
    "gh",
    "glpat-",
    "xox",
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
PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ASSIGNED: Final = re.compile(r"""["'\\]*\s*[:=]""")
FOLLOWED: Final = re.compile(r"""["'\\]*[\s:=,\u200b\u2060\ufeff]""")
"""What may follow a secret's name; the last three characters have no width and are not matched by ``\\s``."""
SET: Final = re.compile(r"""\b(\w++)\+?=(?:'([^']{6,40})|"([^"$]{6,40})|([^\s;&|'"$]{6,40}))""")
"""The assignment of a shell: a name, and the beginning of its value. A variable's value begins with a ``$``."""
USER: Final = re.compile(r"""://[^\s/"']+@""")
SHAPED: Final = re.compile(r"\b((?:hf|rp)_(?![a-z_]++(?![\w-]))|sk-|gh[a-z]_|glpat-|xox[a-z]-)[\w-]{6,}")
"""Tokens of known shapes, `rp_…` are the service's own; `hf_config` and the like are names of fields."""


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    parts = [part.lower() for part in PARTS.findall(name)]
    return any(part in WORDS or part.endswith(ENDINGS) for part in parts) or _is_flag(name)


def _is_flag(name: str) -> bool:
    key = name.lstrip("-").replace("_", "-").partition(".")[0]
    if not name.startswith("-"):
        return key in FLAG_NAMES
    return any(len(key) >= least and flag.startswith(key) for flag, least in FLAGS)


def is_secret(name: str) -> bool:
    """Whether a flag, a variable or a field of this name holds a secret; a flag may lack its dashes."""
    return len(name) <= MAX_NAME and _is_secret(name if name.isascii() else name.translate(PLAIN))


def _takes_next(name: str) -> bool:
    """Whether the value of a secret's name may follow after a blank: a single word such as `key` may be prose."""
    return "-" in name or "_" in name or name.lower() == "bearer"


def _is_hinted(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in HINTS)


class SecretValues:
    """The values of variables with a secret's name, as messages are searched for them: by their beginnings."""

    def __init__(self, beginnings: Iterable[str] = ()) -> None:
        self._beginnings = frozenset(beginnings)
        self._lengths = sorted({len(beginning) for beginning in self._beginnings})
        self._starts = {beginning[:LEAST] for beginning in self._beginnings}

    def hidden(self, text: str) -> str:
        """A message without these values, each hidden up to the end of what is quoted, in one pass over the text."""
        if not self._starts:
            return text
        kept: list[str] = []
        at = last = 0
        while at <= len(text) - LEAST:
            if text[at : at + LEAST] not in self._starts or not (length := self._length(text, at)):
                at += 1
                continue
            kept += (text[last:at], HIDDEN)
            end = text.find("`", at + length)
            if end < 0:
                return "".join(kept)
            at = last = end
        return "".join([*kept, text[last:]])

    def _length(self, text: str, at: int) -> int:
        """The length of the beginning that is at a position of a text; 0 if there is none."""
        return next((length for length in self._lengths if text[at : at + length] in self._beginnings), 0)


def secret_values(variables: Mapping[str, str | None], texts: Iterable[str] = ()) -> SecretValues:
    """The values of variables with a secret's name, and those that texts assign as in a shell."""
    stated = (value for name, value in variables.items() if value is not None and is_secret(name))
    return SecretValues(_beginnings(chain(stated, *map(_assigned, texts))))


def _assigned(text: str) -> Iterator[str]:
    if "=" in text:
        for name, *values in SET.findall(text):
            if is_secret(name):
                yield from values


def _beginnings(values: Iterable[str]) -> Iterator[str]:
    """The printable beginnings of values, as messages escape other characters; short ones are left out."""
    for value in values:
        beginning = "".join(takewhile(str.isprintable, value.strip()[:BEGINNING]))
        if len(beginning) >= LEAST:
            yield beginning


def masked(text: str) -> str:
    """The text with its secrets replaced by ``…``.

    Secrets are the user and password of an address, tokens of known shapes, and everything after a secret's name.
    """
    plain = text if text.isascii() else text.translate(PLAIN)
    if not _is_hinted(plain):
        return text
    text = USER.sub(f"://{HIDDEN}@", text)
    text = SHAPED.sub(rf"\1{HIDDEN}", text)
    plain = text if text.isascii() else text.translate(PLAIN)  # as many characters
    for found in NAME.finditer(plain):
        name = found.group()
        if is_secret(name):
            flag, dot, key = name.partition(".")
            if dot and key and name.startswith("-") and is_secret(flag):  # the key may be what follows the flag
                return text[: found.start() + len(flag) + 1] + HIDDEN
            takes_next = found.start() == 0 or _takes_next(name)
            follows = (FOLLOWED if takes_next else ASSIGNED).match(plain, found.end())
            if follows is not None and follows.end() < len(text):
                return text[: follows.end()] + HIDDEN
    return text
