"""The command of another program, as messages show it."""

from __future__ import annotations

import re
from itertools import takewhile
from typing import TYPE_CHECKING, Final

from policy.masking import HIDDEN, MIN_VALUE
from policy.messages import MAX_MASKED

if TYPE_CHECKING:
    from collections.abc import Iterable

SCRIPT_FILE: Final = re.compile(r"[\w./-]++(?<=\.py|\.sh)")


def shown_command(words: Iterable[str]) -> str:
    """A command up to the first argument that may be a secret: what it means to another program is not known.

    A short argument, such as an option, and the file of a script are none.
    """
    program, *arguments = (part for word in words for part in word[:MAX_MASKED].split() or [""])
    known = list(takewhile(_is_shown, arguments))
    name, equals, value = program.partition("=")
    if equals and len(value) >= MIN_VALUE:
        return f"{name}={HIDDEN}"
    return " ".join([program, *known, *([HIDDEN] if len(known) < len(arguments) else [])])


def _is_shown(word: str) -> bool:
    return len(word) < MIN_VALUE or SCRIPT_FILE.fullmatch(word) is not None
