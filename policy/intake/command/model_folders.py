"""Folders that a command may make or fill with a model; not those that have the name of what it reads."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from policy.intake.command.filled_folders import CHANGE_LAST

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REMOVERS: Final = frozenset({"rm", "rmdir", "shred", "unlink"})
NAMES_MODEL: Final = re.compile(r"--?(?:[\w-]{0,64}?[_-])?(?:model|repo|tokenizer|dataset)")
"""Matches the beginning of an option that names what a program reads."""


def model_folders(program: str, arguments: Sequence[str]) -> Iterator[str]:
    """The folders, as written."""
    if program in REMOVERS:
        return
    is_last = program in CHANGE_LAST or program == "mv"
    is_download = "download" in arguments
    tails = Counter(map(_model_name, arguments))
    for at, word in enumerate(arguments):
        before, _, value = word.partition("=") if word.startswith("-") else ("".join(arguments[at - 1 : at]), "", word)
        is_target = before.startswith("--local") if is_download else NAMES_MODEL.match(before) is None
        is_target = is_target and (at + 1 == len(arguments) or not is_last) and tails[_model_name(word)] == 1
        if is_target and "/" in value and "://" not in value:
            yield value


def _model_name(word: str) -> str:
    """The last two parts of a path or an address, which may be the name of a model."""
    return "/".join(word.rpartition("=")[2].rstrip("/").removesuffix(".git").rsplit("/", 2)[-2:])
