"""Which names are those of secrets: one rule for flags, variables, fields, headers and parameters of URLs.

Not here: which texts are secrets by their shape, and how texts are masked (`masking`).
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from itertools import chain
from string import digits
from typing import Final
from unicodedata import normalize

SECRET_WORDS: Final = frozenset(
    {
        *("authorization", "bearer", "cookie", "cookies", "cred", "creds", "dsn", "jwt"),
        *("keys", "otp", "passcode", "pat", "pswd", "sig"),
    }
)
"""The words that show a secret."""
SECRET_ENDINGS: Final = ("auth", "key", "pass", "psk", "pw", "pwd", "token")
"""How other such words end: ``dbpass``, ``sshkey``."""
SECRET_PARTS: Final = (
    "accesskey",
    "apikey",
    "credential",
    "oauth",
    "passphrase",
    "passwd",
    "password",
    "secret",
    "signature",
)
"""What shows a secret wherever it is among the letters of a name: ``htpasswdFile``, ``pass_word``."""
ORDINARY_WORDS: Final = frozenset(
    {"bypass", "compass", "donkey", "hotkey", "monkey", "surpass", "trespass", "turkey", "turnkey", "valkey"}
)
HOLDERS: Final = frozenset({"access", "api", "auth", "bearer", "hf", "refresh", "secret", "session"})
"""What precedes ``tokens`` if they are secrets, and no units of text: ``API_TOKENS``."""
OTHER_NAMES: Final = frozenset(
    {
        *("OLDPWD", "dual_key_gumbel", "pass_config"),
        *("max_prompt_adapter_token", "--max-prompt-adapter-token"),
        *("key_multiplier", "linear_key_head_dim", "linear_num_key_heads"),
        *("num_global_key_value_heads", "num_key_value_groups", "num_key_value_heads"),
    }
)
"""Names of vLLM's, of models' and of a shell's settings, exactly as they are written, in which such a word has another
meaning."""
CLASSES: Final = frozenset({"classification", "classify", "embed", "embedding"})
"""What follows ``token`` in the name of a class: ``BertForTokenClassification``."""
TEXT_UNITS: Final = CLASSES | {
    *("budget", "budgets", "head", "ids", "num", "offsets", "prob", "sizes", "threshold", "tree"),
}
"""What follows ``token`` in a name that is about units of text: ``stop_token_ids``."""
SPECIAL_TOKENS: Final = frozenset({"bos", "cls", "eos", "mask", "pad", "per", "sep", "unk"})
"""What precedes ``token`` in the name of a tokenizer's special token, ``pad_token``, or of a ratio."""
NUMBERED_TOKENS: Final = SPECIAL_TOKENS | {
    *("", "audio", "begin", "boi", "col", "draft", "end", "eoi", "eot", "image", "img", "newline", "noise", "patch"),
    *("row", "separator", "sot", "speech", "start", "stop", "video", "vision"),
}
"""What precedes ``token`` in the name of a token's number: ``image_token_index``; empty at the beginning of a name."""
NUMBERS_OF_TOKENS: Final = frozenset({"id", "index", "type"})
VLLM_PREFIX: Final = "VLLM_"
"""The prefix of vLLM's variables: only in those is a word in capitals about units of text."""
FLAGS: Final = (
    ("additional-config", 2),
    ("api-key", 3),
    ("hf-token", 2),
    ("model-loader-extra-config", 7),
    ("otlp-traces-endpoint", 2),
)
"""vLLM's flags whose values are secrets, each with the length of its shortest abbreviation."""
FLAG_NAMES: Final = frozenset(name for name, _ in FLAGS)
HINTS: Final = (
    *("auth", "bearer", "cookie", "cred", "dsn", "jwt", "key", "otp", "pass", "pat", "psk", "pswd", "pw", "secret"),
    *("sig", "token", "-ad", "-api", "-hf", "-ot", "additional", "loader", "otlp"),
)
"""Of these every name of a secret contains at least one, in lower case, except an abbreviation in ``LOADER``."""
LOADER: Final = re.compile(r"(?<![\w.-])-++model[-_]l")
"""Matches the beginning of `--model-loader-extra-config`, and not `--max-model-len`.

That flag is in most commands, and each has another value: without searching it for secrets, deriving the facts of a new
deployment takes 5 % fewer instructions.
"""
DASHES: Final = str.maketrans(
    dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212\u2e3a\u2e3b\ufe58\ufe63\uff0d", "-")
)
"""Dashes that editors substitute for ``-`` and ``--``."""
ASCII: Final = {code: code for code in range(0x80)}
"""ASCII for a table of ``str.translate``, in which a character that is missing takes three times as long."""
FORM_RANGES: Final = (range(0x80, 0x2500), range(0xFE50, 0x10000), range(0x1D400, 0x1D800))
"""The Unicode ranges with other forms of ASCII characters, such as full-width ones."""
MAX_NAME: Final = 256
WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")


def as_ascii(text: str) -> str:
    """A text of the same length, with dashes and other forms of ASCII characters (NFKC) replaced by those."""
    return text if text.isascii() else text.translate(_ascii_forms())


@cache
def _ascii_forms() -> dict[int, int | str]:
    """Made when it is needed: most texts are ASCII, and it takes 5 ms."""
    forms = {
        code: form
        for code in chain(*FORM_RANGES)
        if code not in DASHES and len(form := normalize("NFKC", chr(code))) == 1 and form.isascii()
    }
    return {**ASCII, **DASHES, **forms}


def is_secret(name: str) -> bool:
    """Whether the value of a flag, variable or field of this name is a secret; a flag may lack its dashes.

    A number at its end does not matter: `TOKEN_2` is the name of one as `TOKEN_` is. Each name of a series is not worth
    a place in the cache.
    """
    short = name.rstrip(digits)
    return short != "" and len(name) <= MAX_NAME and _is_secret(short)


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    name = as_ascii(name)
    return any(map(_names_secret, name.split("."))) or _is_flag(name)


def _names_secret(name: str) -> bool:
    """Whether a name without dots is that of a secret."""
    if name in OTHER_NAMES:
        return False
    words = [word.lower() for word in WORDS.findall(name)]
    letters = "".join(words)
    if any(part in letters for part in SECRET_PARTS):
        return True
    has_classes_only = not name.startswith(VLLM_PREFIX) and not name.islower()
    return any(
        _is_secret_word(before, word, following, has_classes_only=has_classes_only)
        for before, word, following in zip(["", *words], words, [*words[1:], ""], strict=False)
    )


def _is_secret_word(before: str, word: str, following: str, *, has_classes_only: bool) -> bool:
    """Whether a word of a name, between two other words, shows that its value is a secret."""
    if word == "tokens":
        return before in HOLDERS
    if word == "token" and has_classes_only:
        return following not in CLASSES
    if word == "token" and (
        following in TEXT_UNITS
        or before in SPECIAL_TOKENS
        or (following in NUMBERS_OF_TOKENS and before in NUMBERED_TOKENS)
    ):
        return False
    return word in SECRET_WORDS or (word.endswith(SECRET_ENDINGS) and word not in ORDINARY_WORDS)


def _is_flag(name: str) -> bool:
    key = name.lstrip("-").replace("_", "-").partition(".")[0].lower()
    if not name.startswith("-"):
        return key in FLAG_NAMES
    return any(len(key) >= least and flag.startswith(key) for flag, least in FLAGS)
