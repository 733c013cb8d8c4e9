"""Requirements of Python packages: which version of vLLM one pins, and whether it may be vLLM.

Not here: the commands that install them (`pip_command`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.programs import EXTRAS, PACKAGE
from policy.intake.command.words import Unknown, is_uncertain
from policy.rules.versions import VERSION

if TYPE_CHECKING:
    from collections.abc import Iterator

LOCAL_VERSION: Final = r"\+[a-z0-9]{1,16}(?:[-_.][a-z0-9]{1,16}){0,3}"
"""Matches a local version, such as one of a build for other hardware: `+cu129`."""
PINNED_REQUIREMENT: Final = re.compile(rf"vllm{EXTRAS}\s{{0,9}}(?:===?|@)\s{{0,9}}({VERSION}(?:{LOCAL_VERSION})?)")
"""Matches a requirement that pins vLLM to one version."""
REQUIREMENT: Final = re.compile(rf"[a-z0-9][\w.-]{{0,100}}{EXTRAS}(?:\s{{0,9}}[@=<>!~;].{{0,1000}})?", re.DOTALL)
"""Matches a requirement of any package."""
COMMENT: Final = re.compile(r"(?:^|\s)#.*")


def requirement_words(text: str) -> Iterator[str]:
    """The `pip install` arguments for lines of a requirements file, in which pip expands variables."""
    for line in text.splitlines():
        written = COMMENT.sub("", line).strip()
        for word in written.split() if written.startswith("-") else [written]:
            yield Unknown(word, is_several=True) if "$" in word else word


def exact_version(word: str) -> str | None:
    """The version to which a requirement pins vLLM; None if it does not."""
    found = PINNED_REQUIREMENT.fullmatch(word.lower())
    return None if found is None or type(word) is Unknown else found[1]


def may_name_vllm(word: str) -> bool:
    """Whether an argument of `pip uninstall` may name vLLM, or a file that does."""
    return PACKAGE.fullmatch(word.lower()) is not None or word.startswith(("-r", "--r")) or not names_its_package(word)


def may_be_vllm(word: str) -> bool:
    """Whether an argument of `pip install` may be vLLM, as a requirement, a file, a folder or an address."""
    if not names_its_package(word) or "/" in word or word == ".":
        return True
    name = word.lower()
    return PACKAGE.fullmatch(name) is not None or "vllm-" in name


def names_its_package(word: str) -> bool:
    """Whether the package that a requirement names is certain, even if the rest of the word is not.

    A shell leaves brackets and `*` unchanged unless a file matches. An unquoted unknown value may be several words.
    """
    if not is_uncertain(word):
        return True
    return not getattr(word, "is_several", False) and REQUIREMENT.fullmatch(word.lower()) is not None
