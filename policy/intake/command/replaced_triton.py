"""Commands of pip that remove or replace Triton before the start; without it vLLM may choose another runner.

Not here: what pip installs of vLLM (`pip_command`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.pip_command import PIP_COMMANDS, PIP_NAME, subcommand
from policy.intake.command.programs import SHELLS, TEXT_PROGRAMS
from policy.intake.command.words import is_uncertain
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

PACKAGE: Final = re.compile(r"(?:pytorch[-_.]{1,2})?triton(?:[-_.]{1,2}(?:rocm|xpu))?(?![\w.-]).*", re.DOTALL)
"""Matches a requirement of Triton, or of one of PyTorch's builds of it."""

LIST_OPTION: Final = re.compile(r"-[a-z]*r|--r")
"""Matches the beginning of `-r`, also with other letters before it, and of `--requirement` and its abbreviations."""
TRITON_MESSAGE: Final = (
    "`pip {}` of {} may leave vLLM without Triton or with another one, and it chooses "
    "the runner by whether Triton works"
)

SEPARATORS: Final = re.compile(r"[\s;&|()'\"]+")


def replaced_triton(words: Sequence[str]) -> list[str]:
    """Why Triton may be absent, or another one, after a command; empty if the command names no Triton to pip."""
    programs = [word.rpartition("/")[2] for word in words]
    if not SHELLS.isdisjoint(programs):  # of `sh -c 'pip install triton'`, any word of the script
        words = [part for word in words for part in SEPARATORS.split(word)]
        programs = [word.rpartition("/")[2] for word in words]
    at = next((at for at, program in enumerate(programs) if PIP_NAME.fullmatch(program) is not None), None)
    change = None if at is None or programs[0] in TEXT_PROGRAMS else subcommand(words, at + 1, PIP_COMMANDS)
    if change is None:
        return []
    arguments = words[change + 1 :]
    named = next((quoted(word) for word in arguments if PACKAGE.fullmatch(word.lower()) is not None), "")
    if not named and words[change] == "uninstall" and ("xargs" in programs[:at] or any(map(_is_list, arguments))):
        named = "packages that are not known"
    return [TRITON_MESSAGE.format(words[change], named)] if named else []


def _is_list(word: str) -> bool:
    """Whether an argument of pip is an option for a file with packages, or may be one or any package."""
    return LIST_OPTION.match(word) is not None or is_uncertain(word)
