"""Check the evidence of known problems and refusals in a release's source.

Owns what evidence proves: in a release of a rule's range all its lines hold, and in any other release at least one of
them does not, so that the range neither begins nor ends at the wrong release.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from policy.vllm.tablegen.wheels import SourceReader
from policy.vllm.verify.worker import open_source

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from pathlib import Path

    from policy.rules.known_problems import Evidence
    from policy.rules.rule import Rule


def unproved(rules: Iterable[Rule], release: str, source: Path) -> tuple[str, ...]:
    """A sentence for each rule whose evidence contradicts its ranges in this release.

    Raises:
        InvalidSource, OSError: the source cannot be read.
    """
    proved = [rule for rule in rules if any(part.evidence for part in rule.ranges)]
    if not proved:
        return ()
    files = SourceFiles(source)
    return tuple(sentence for rule in proved for sentence in _contradictions(rule, release, files))


def with_evidence(rules: Iterable[Rule], release: str) -> tuple[str, ...]:
    """The rules that have evidence in the range of this release."""
    return tuple(rule.id for rule in rules if (part := rule.range_of(release)) is not None and part.evidence)


class SourceFiles:
    """The texts of a source's files, each read once."""

    def __init__(self, source: Path) -> None:
        self._reader = SourceReader(open_source(source))

    def text(self, path: str) -> str | None:
        """The text of a file; ``None`` if there is none that can be read."""
        with suppress(UnicodeDecodeError):
            return self._reader.text(path) if path in self._reader else None
        return None


def _contradictions(rule: Rule, release: str, files: SourceFiles) -> Iterator[str]:
    part = rule.range_of(release)
    if part is not None:
        for line in _failing(part.evidence, files):
            yield f"{rule.id}: `{part.span.text}` has {release}, but this does not hold there: {line}"
        return
    for evidence in dict.fromkeys(each.evidence for each in rule.ranges):
        if evidence and not _failing(evidence, files):
            yield f"{rule.id}: no range has {release}, but all lines of evidence hold there"


def _failing(evidence: Sequence[Evidence], files: SourceFiles) -> list[Evidence]:
    return [line for line in evidence if not line.holds(files.text(line.file))]
