"""The variants of a rule's range or condition with one change each, for mutants.

Owns what is changed and how a change is described. Not here: which mutants a case kills (``mutants``).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from packaging.version import Version

from policy.parser.fields import ReleaseRange
from policy.rules.conditions import And, Condition, Leaf, Or, Ref
from policy.rules.request_rule import RequestRange
from policy.rules.rule import Range

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.rules.effects import Effect
    from policy.rules.releases import Releases

CONDITIONS: Final = ("when", "cleared_at_startup")
SCOPES: Final = ("requires_any", "unless", "decided_by")
RangeT = TypeVar("RangeT", Range, RequestRange)


def range_variants(
    part: Range, effect: Effect, releases: Releases, spans: Sequence[ReleaseRange]
) -> Iterator[tuple[Range, str]]:
    """The variants of a rule's range; ``spans`` are those of all its ranges."""
    for name in CONDITIONS:
        yield from _with_conditions(part, name)
    for name in SCOPES:
        names = getattr(part, name)
        for removed in names:
            yield _with(part, name, tuple(other for other in names if other != removed)), f"{name}: without `{removed}`"
    if part.known_problem is not None:
        yield replace(part, known_problem=None), f"known_problem: without `{part.known_problem}`"
    if part.runner is not None and not effect.refuses:
        yield replace(part, runner=None), f"runner: without `{part.runner}`"
    yield from _bound_variants(part, releases, spans)


def request_range_variants(
    part: RequestRange, releases: Releases, spans: Sequence[ReleaseRange]
) -> Iterator[tuple[RequestRange, str]]:
    """The variants of a range of a rule about requests; ``spans`` are those of all its ranges."""
    yield from _with_conditions(part, "when")
    if part.runner is not None:
        yield replace(part, runner=None), f"runner: without `{part.runner}`"
    yield from _bound_variants(part, releases, spans)


def condition_variants(condition: Condition) -> Iterator[tuple[Condition | None, str]]:
    """The variants of a condition; ``None`` if nothing is left of it."""
    match condition:
        case And(parts) | Or(parts):
            for place, part in enumerate(parts):
                for changed, change in condition_variants(part):
                    rest = (*parts[:place], *([] if changed is None else [changed]), *parts[place + 1 :])
                    yield (rest[0] if len(rest) == 1 else type(condition)(rest)), change
        case Ref(name):
            yield None, f"without `uses: {name}`"
        case Leaf():
            yield None, f"without `{condition.fact}: {_expected(condition)}`"
            yield from _operand_variants(condition)


def _with_conditions(part: RangeT, name: str) -> Iterator[tuple[RangeT, str]]:
    condition = getattr(part, name)
    for changed, change in condition_variants(condition) if condition is not None else ():
        yield _with(part, name, changed), f"{name}: {change}"


def _with(part: RangeT, name: str, value: Any) -> RangeT:
    return replace(part, **{name: value})


def _bound_variants(part: RangeT, releases: Releases, spans: Sequence[ReleaseRange]) -> Iterator[tuple[RangeT, str]]:
    """The variants of a range that begin or end one known release earlier or later, without overlaps."""
    known = [Version(release) for release in releases.known]
    held: list[Version] = [version for version in known if part.span.holds(version)]
    before, after = (known.index(held[0]) - 1, known.index(held[-1]) + 1)
    for place in (before, after):
        if 0 <= place < len(known) and not any(span.holds(known[place]) for span in spans):
            yield _from_first_to_last(part, [*held, known[place]]), f"vllm: {known[place]} as well"
    if len(held) > 1:
        yield _from_first_to_last(part, held[1:]), f"vllm: without {held[0]}"
        yield _from_first_to_last(part, held[:-1]), f"vllm: without {held[-1]}"


def _from_first_to_last(part: RangeT, held: Sequence[Version]) -> RangeT:
    """The range from the first to the last of these releases; its exclusive end is right after the last."""
    first, last = min(held), max(held)
    end = f"{last}.post0" if last.post is None else f"{last.base_version}.post{last.post + 1}.dev0"
    return _with(part, "span", ReleaseRange(part.span.text, first, Version(end)))


def _operand_variants(leaf: Leaf) -> Iterator[tuple[Leaf, str]]:
    match leaf.operand:
        case tuple(texts) if len(texts) > 1:
            for text in texts:
                yield (
                    replace(leaf, operand=tuple(other for other in texts if other != text)),
                    f"`{leaf.fact}` without `{text}`",
                )
        case int(number) if not isinstance(number, bool):
            for other in (number - 1, number + 1):
                yield replace(leaf, operand=other), f"`{leaf.fact}: {_expected(leaf)}` with {other}"


def _expected(leaf: Leaf) -> str:
    return str(leaf.expected)
