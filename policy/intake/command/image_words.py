"""The image in the words of a command that starts a container: its name, parts of which may not be known.

Not here: what a name means (`policy.intake.manifests.images`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.brackets import backtick_end, bracket_end
from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterable

EXPANSION: Final = re.compile(r"\$[{(]|`|\$(?:[A-Za-z_][A-Za-z0-9_]*+|[0-9@*#?$!-])")
"""Matches the beginning of an expansion, or a whole variable without braces."""
EXPANSION_NAME: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*+|[0-9@*#?$!-])")
REFERENCE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*+)")
ASSIGNMENT_START: Final = re.compile(
    r"""(?:^|(?<=[\s({]))(?:([A-Za-z_][A-Za-z0-9_]*+)\+?=(["']?[A-Za-z0-9])?"""
    r"""|(?:for|select)[ \t]++([A-Za-z_][A-Za-z0-9_]*+)[ \t]++in\s)"""
)
"""Matches an assignment within a line, up to the beginning of a known value, or the beginning of a loop over values."""
LINE_END: Final = re.compile(r"[;\n]")
VLLM: Final = re.compile(r"(?<![a-z0-9])vllm(?![a-z0-9])", re.IGNORECASE)
"""Matches vLLM's name within the name of an image or a variable: `vllm/vllm-openai`, `$VLLM_IMAGE`."""


def has_vllm(text: str) -> bool:
    """Whether a text has vLLM's name, also within the name of a variable."""
    return VLLM.search(text) is not None


def image_text(word: str) -> str:
    """The word of an image, with a placeholder such as `${TAG}` for each part whose value is not known."""
    if type(word) is not Unknown:
        return word
    parts: list[str] = []
    at = 0
    while (found := EXPANSION.search(word, at)) is not None:
        name = EXPANSION_NAME.match(word, found.start())
        parts += [word[at : found.start()], f"${{{'…' if name is None else name[1]}}}"]
        at = _end(word, found)
    return Unknown("".join([*parts, word[at:]]))


def _end(word: str, found: re.Match[str]) -> int:
    """The end of the expansion that begins with ``found``; the end of the word if it is not certain."""
    try:
        if found.group() == "`":
            return backtick_end(word, found.start())
        return bracket_end(word, found.start()) if found.group()[-1] in "{(" else found.end()
    except ShellSyntaxError:
        return len(word)


class NamedImages(Struct, frozen=True):
    """The variables of a script that may have an image of vLLM, and the variables to which it gives a known value.

    ``is_named``: whether the script has vLLM's name anywhere.
    """

    of_vllm: frozenset[str]
    assigned: frozenset[str]
    is_named: bool

    def may_have(self, images: Iterable[str]) -> bool:
        """Whether words whose values are not known may be an image of vLLM.

        Variables that the script does not set, arguments and substitutions may be one too, if it names vLLM anywhere.
        """
        for image in images:
            names = set(REFERENCE.findall(image))
            if has_vllm(image) or not names.isdisjoint(self.of_vllm):
                return True
            if self.is_named and not (names and names <= self.assigned):
                return True
        return False


NO_NAMES: Final = NamedImages(frozenset(), frozenset(), is_named=False)


def named_images(text: str) -> NamedImages:
    """A script's variables that may have an image of vLLM; one that is set from such a variable may have one too."""
    if not has_vllm(text):
        return NO_NAMES
    users: dict[str, list[list[str]]] = {}
    assigned: set[str] = set()
    found: list[str] = []
    for line in LINE_END.split(text):
        parts = ASSIGNMENT_START.findall(line)
        names = [name or looped for name, _, looped in parts]
        if names:
            assigned.update(name or looped for name, known, looped in parts if known or looped)
            if has_vllm(line):
                found += names
            for name in set(REFERENCE.findall(line)):
                users.setdefault(name, []).append(names)
    of_vllm: set[str] = set()
    while found:
        name = found.pop()
        of_vllm.add(name)
        for names in users.pop(name, ()):
            found += names
            names.clear()
    return NamedImages(frozenset(of_vllm), frozenset(assigned), is_named=True)
