"""Commands of a script that may replace or remove the program `vllm` or its package, by their files or as a package.

Not here: what pip and the like install (`installation`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import VLLM_NAME
from policy.intake.command_line import Installation
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

FILES: Final = re.compile(r"(?:of=)?(?:.*/)?s?bin/vllm|.*(?:site|dist)-packages/vllm(?:[/-].*)?", re.DOTALL)
"""Matches the file of the program `vllm`, and those of its package."""
FOUND: Final = re.compile(r"(?:which|command\s{1,9}-v|type\s{1,9}-[pP])\s{1,9}vllm(?![\w-])")
"""Matches a substitution that gives the file of the program: `$(which vllm)`."""
CHANGE_ANY: Final = frozenset({"mv", "patch", "rm", "sed", "shred", "tee", "truncate", "unlink"})
"""Programs that change or remove each file that is named."""
CHANGE_LAST: Final = frozenset({"cp", "dd", "install", "link", "ln", "rsync", "scp"})
"""Programs that write the last file that is named."""
PACKAGE_MANAGERS: Final = frozenset(
    {"apk", "apt", "apt-get", "aptitude", "dnf", "dpkg", "microdnf", "rpm", "yum", "zypper"}
)
QUERIES: Final = frozenset({"-L", "-l", "-s", "info", "list", "policy", "search", "show", "update"})
"""What follows the name of a package manager that changes nothing."""
PREFIXES: Final = frozenset({"command", "exec", "nice", "nohup", "sudo"})
"""Programs that run the one after them."""


def replacement(words: Sequence[str]) -> Installation | None:
    """What a command may do to the vLLM of the image; None if it certainly leaves its files as they are."""
    at = next((at for at, word in enumerate(words) if word not in PREFIXES), len(words) - 1)
    program, arguments = words[at].rpartition("/")[2], words[at + 1 :]
    if program in PACKAGE_MANAGERS:
        is_named = any(VLLM_NAME.search(word) is not None for word in arguments)
        is_changed = is_named and QUERIES.isdisjoint(arguments[:1])
    elif program in CHANGE_ANY:
        is_edit = program != "sed" or any(word.startswith(("-i", "--in-place")) for word in arguments)
        is_changed = is_edit and any(map(_is_vllm, arguments))
    else:
        is_changed = program in CHANGE_LAST and any(map(_is_vllm, arguments[-1:]))
    if not is_changed:
        return None
    return Installation(None, f"{quoted(program)} may replace or remove the vLLM of the image before the start")


def _is_vllm(word: str) -> bool:
    return FILES.fullmatch(word) is not None or FOUND.search(word) is not None
