"""The patterns of ``images/``: for the names of container images, and for tags that contain vLLM's version.

A pattern is read once, when the rules are loaded. Matching takes time linear in the image's name.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from policy.rules.versions import VERSION, is_variant

RELEASE: Final = "{release}"
"""In a tag: vLLM's version, with or without a ``v``."""
BUILD: Final = "{build}"
"""In a tag, after the version: nothing, or a separator and the name of a build."""
ANY: Final = "*"
MAX_TAG: Final = 128
"""The longest tag that registries accept."""
MAX_PATTERN: Final = 256
NAME_PART: Final = re.compile(r"[a-z0-9._:-]*(?:\*[a-z0-9._:-]*)?")
TAG_TEXT: Final = re.compile(r"[A-Za-z0-9_.-]*")
VERSION_AT: Final = re.compile(rf"v?({VERSION})(?![0-9A-Za-z])")
BUILD_NAME: Final = re.compile(r"[-_.][\w.-]*", re.ASCII)
CANDIDATE: Final = re.compile(r"rc[-_.]?([0-9]{1,3})(?![0-9a-z])")
"""Matches a release candidate after the version of a tag: `v0.24.0-rc2`."""
VERSION_ONLY: Final = re.compile(r"[0-9.]+")
SEPARATORS: Final = re.compile(r"[-_.]+")
MAX_BUILD: Final = 32
NAME_ADVICE: Final = (
    "write the end of the image's name in lower case, without tag, such as `vllm/vllm-openai`; a component between "
    "slashes may have one `*`"
)
TAG_ADVICE: Final = (
    "write a tag, such as `v0.8.0`, or a pattern with one `*`, or with `{release}` in place of vLLM's version: "
    "`v{release}`, `*_vllm_{release}_*`, `{release}{build}`"
)


class InvalidPattern(ValueError):
    """The text is not a pattern."""


@dataclass(frozen=True, slots=True)
class NamePattern:
    """Matches an image's name without tag that is, or ends with, these components."""

    parts: tuple[str, ...]

    @property
    def precedence(self) -> tuple[int, int]:
        """The key by which patterns are tried, the greatest first: by components, then by characters."""
        return len(self.parts), sum(len(part.replace(ANY, "")) for part in self.parts)

    def matches(self, parts: list[str]) -> bool:
        """Whether the components of a name match."""
        return len(parts) >= len(self.parts) and all(
            _matches_part(pattern, part) for pattern, part in zip(reversed(self.parts), reversed(parts), strict=False)
        )


def _matches_part(pattern: str, part: str) -> bool:
    head, star, tail = pattern.partition(ANY)
    if not star:
        return pattern == part
    return len(part) >= len(head) + len(tail) and part.startswith(head) and part.endswith(tail)


def read_name(text: str) -> NamePattern:
    """The pattern for an image's name.

    Raises:
        InvalidPattern: the text is not one.
    """
    parts = tuple(text.split("/"))
    if len(text) > MAX_PATTERN or not all(part and NAME_PART.fullmatch(part) for part in parts) or parts[-1] == ANY:
        raise InvalidPattern(NAME_ADVICE)
    return NamePattern(parts)


@dataclass(frozen=True, slots=True)
class TagPattern:
    """``text`` matches tags: ``head``, if ``is_open`` any text and ``middle``, the version, ``tail`` and ``end``.

    ``end`` is empty, ``*`` or ``{build}``. Without ``has_release`` the tag has no version, and ``middle`` is empty.
    """

    text: str
    head: str
    is_open: bool
    middle: str
    has_release: bool
    tail: str
    end: str

    @property
    def is_literal(self) -> bool:
        """Whether the pattern is a tag."""
        return not (self.is_open or self.has_release)

    def version(self, tag: str) -> str | None:
        """The version in a tag, with that of a custom build as its local part; None if the tag does not match.

        It is empty if the pattern has none.
        """
        if len(tag) > MAX_TAG or not tag.startswith(self.head):
            return None
        if not self.has_release:
            return "" if self._ends_pattern(tag) else None
        if not self.is_open:
            return self._version_at(tag, len(self.head))
        at = tag.find(self.middle, len(self.head))
        while at >= 0:
            found = self._version_at(tag, at + len(self.middle))
            if found is not None:
                return found
            at = tag.find(self.middle, at + 1)
        return None

    def _ends_pattern(self, tag: str) -> bool:
        if not self.is_open:
            return tag == self.head
        return len(tag) >= len(self.head) + len(self.tail) and tag.endswith(self.tail)

    def _version_at(self, tag: str, at: int) -> str | None:
        found = VERSION_AT.match(tag, at)
        if found is None or not tag.startswith(self.tail, found.end()):
            return None
        rest = tag[found.end() + len(self.tail) :]
        if not rest:
            return found[1] if self.end != ANY else None
        if self.end == ANY:
            return found[1]
        if self.end != BUILD or BUILD_NAME.fullmatch(rest) is None:
            return None
        suffix = rest[1:].lower()
        candidate = CANDIDATE.match(suffix)
        if candidate is not None and VERSION_ONLY.fullmatch(found[1]) is not None:
            return f"{found[1]}rc{candidate[1]}"
        if not suffix or is_variant(suffix):
            return found[1]
        local = SEPARATORS.sub(".", suffix)[:MAX_BUILD].strip(".")
        return f"{found[1]}+{local}" if local else found[1]


def read_tag(text: str) -> TagPattern:
    """The pattern for a tag.

    Raises:
        InvalidPattern: the text is not one.
    """
    before, release, after = text.partition(RELEASE)
    head, star, middle = before.partition(ANY)
    tail, end = after, ""
    if release:
        end = next((each for each in (ANY, BUILD) if after.endswith(each)), "")
        tail = after.removesuffix(end)
    else:
        tail, middle = middle, ""
    is_legal = all(TAG_TEXT.fullmatch(part) for part in (head, middle, tail))
    # The text before and after a version has to show where the version begins and ends.
    is_bounded = not release or (
        (bool(middle) or not star)
        and (bool(tail) or end != ANY)
        and not (middle or head)[-1:].isdigit()
        and not tail[:1].isalnum()
    )
    if not text or len(text) > MAX_PATTERN or text == ANY or not (is_legal and is_bounded):
        raise InvalidPattern(TAG_ADVICE)
    return TagPattern(text, head, bool(star), middle, bool(release), tail, end)
