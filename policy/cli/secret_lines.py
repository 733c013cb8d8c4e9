"""Which lines of a file may have a secret, so that a diff does not show more of them than it has to."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from policy.edits.layers import Lines, documents_of
from policy.edits.nodes import LITERAL, WHOLE_TEXT, subtree
from policy.errors import RulesInvalid
from policy.intake.manifests.document_secrets import secrets_of
from policy.intake.manifests.registry import read_manifest
from policy.masking import HIDDEN, masked
from policy.rules.images import ImageTable
from policy.secret_values import SecretValues
from policy.stated_secrets import secrets_of_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.edits.nodes import Node

MAX_ABOVE: Final = 100
"""How many lines above a line are searched for the field that has it."""
MAX_NODES: Final = 1_000_000
LINE_STYLES: Final = frozenset({LITERAL, WHOLE_TEXT})
"""The styles of scalars whose lines are those of the value."""


class SecretLines:
    """The lines of a text that state or repeat a secret, or whose neighbours have the name of one."""

    def __init__(self, name: str, text: str) -> None:
        self._lines = text.split("\n")
        try:
            documents = documents_of(text, name)
        except RulesInvalid:
            documents = []
        self._values = SecretValues(
            chain(secrets_of_text(text), *(_secrets_of(document.plain()) for document in documents))
        )
        ends = Lines(text)
        self._stated = {
            line for document in documents for node in self._nodes(document) for line in _lines_of(node, ends)
        }

    def _nodes(self, document: Node) -> Iterator[Node]:
        """The scalars that have a secret in the form in which they are written, or all of which is one."""
        for _, node in subtree(document, MAX_NODES):
            if isinstance(node.value, str):
                shown = self._values.hidden(node.value)
                if shown != node.value and (node.style not in LINE_STYLES or shown.startswith(HIDDEN)):
                    yield node

    def __contains__(self, at: int) -> bool:
        line = self._lines[at]
        return at in self._stated or self._values.hidden(line) != line or _is_named(self._lines, at)


def _secrets_of(document: Any) -> Iterator[str]:
    """The secrets that a document states, with those that its containers have from elsewhere in it."""
    found: set[str] = set()
    read_manifest(document, "", [], ImageTable(), secrets=found)
    return chain(secrets_of(document), sorted(found))


def _lines_of(node: Node, lines: Lines) -> range:
    """The lines that a value takes, from 0."""
    return range(lines.position(node.start)[0] - 1, lines.position(max(node.start, node.end - 1))[0])


def _is_named(lines: list[str], at: int) -> bool:
    """Whether a line beside or above one has the name of a secret."""
    above = range(at - 1, max(-1, at - MAX_ABOVE), -1)
    indent = _indent(lines[at])
    parent = next((lines[each] for each in above if _indent(lines[each]) < indent), "")
    before = next((lines[each] for each in above if _has_words(lines[each])), "")
    comment = lines[at - 1] if at and lines[at - 1].lstrip().startswith("#") else ""
    beside = " ".join(line.strip() for line in (before, *lines[at : at + 2]))
    pairs = (beside, *(f"{each.strip()} {lines[at].strip()}" for each in (parent, comment)))
    return any(masked(text) != text for text in pairs)


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip()) if line.strip() else MAX_ABOVE


def _has_words(line: str) -> bool:
    """Whether a line has more than marks of YAML and a comment."""
    return not line.lstrip().startswith("#") and any(map(str.isalnum, line))
