"""Mask secrets in users' texts, found by the name before them or by their shape.

Answers, problems, warnings and logs repeat what users write; the same rule masks secrets in all of them.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

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
HIDDEN: Final = "…"
MAX_NAME: Final = 256
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
    "sk-",
    "gh",
    "glpat-",
    "xox",
    "--ad",
    "--api",
    "--hf",
    "--model",
    "--ot",
)
"""Every text with a secret that is masked contains one of these."""
NAME: Final = re.compile(r"[\w.-]++")
PARTS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
ASSIGNED: Final = re.compile(r"""["'\\]*\s*[:=]""")
FOLLOWED: Final = re.compile(r"""["'\\]*[\s:=,\u200b\u2060\ufeff]""")
"""What may follow a secret's name; the last three characters have no width and are not matched by ``\\s``."""
USER: Final = re.compile(r"""://[^\s/"']+@""")
SHAPED: Final = re.compile(r"\b(hf_|sk-|gh[a-z]_|glpat-|xox[a-z]-)[\w-]{6,}")


@lru_cache(maxsize=4096)
def _is_secret(name: str) -> bool:
    parts = [part.lower() for part in PARTS.findall(name)]
    return any(part in WORDS or part.endswith(ENDINGS) for part in parts) or _is_flag(name)


def _is_flag(name: str) -> bool:
    key = name[2:].replace("_", "-").partition(".")[0]
    return name.startswith("--") and any(len(key) >= least and flag.startswith(key) for flag, least in FLAGS)


def is_secret(name: str) -> bool:
    """Whether a flag, a variable or a field of this name holds a secret."""
    return len(name) <= MAX_NAME and _is_secret(name)


def _is_hinted(text: str) -> bool:
    lower = text.lower()
    return any(hint in lower for hint in HINTS)


def masked(text: str) -> str:
    """The text with its secrets replaced by ``…``.

    Secrets are the user and password of an address, tokens of known shapes, and everything after a secret's name.
    """
    if not _is_hinted(text):
        return text
    text = USER.sub(f"://{HIDDEN}@", text)
    text = SHAPED.sub(rf"\1{HIDDEN}", text)
    for found in NAME.finditer(text):
        name = found.group()
        if is_secret(name):
            takes_next = name.startswith("-") or name.lower() == "bearer"
            follows = (FOLLOWED if takes_next else ASSIGNED).match(text, found.end())
            if follows is not None and follows.end() < len(text):
                return text[: follows.end()] + HIDDEN
    return text
