"""The rows of a report about pins, and the texts in them: the worst pins, and what makes their verdicts.

Not here: how they are laid out, which is in ``pin_text`` and ``pin_markdown``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.messages import counted
from policy.pins.verdicts import VERDICTS

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.cli.fleet import FleetEntry, FleetPlace
    from policy.pins.decider import PinVerdicts
    from policy.pins.run import PinCounts, PinResult
    from policy.pins.verdicts import PinAnswer, PinVerdict

NOW: Final = "now"
MAX_CAUSES: Final = 1_000


class PinLine(Struct, frozen=True):
    """A deployment's pin with its place; a deployment that cannot be read has none, and ``problem`` says why."""

    entry: FleetEntry
    place: FleetPlace
    from_: str | None
    pin: PinVerdicts | None
    problem: str = ""
    result: PinResult | None = None


class PinReport(Struct):
    """What a format writes: the pins in the order of the fleet, then the ``counts``, which are complete at their end.

    ``limit`` is how many pins a table shows; ``is_complete`` whether the run was not interrupted.
    """

    lines: Iterator[PinLine]
    counts: PinCounts
    targets: tuple[str, ...]
    title: str
    limit: int
    is_complete: Callable[[], bool]


class VerdictCause(Struct):
    """What makes a verdict in the same releases, for ``number`` pins; ``why`` is the text of the first pin."""

    verdict: PinVerdict
    releases: str
    rules: str
    why: str
    number: int = 0


class PinRows(Struct):
    """The worst pins, at most ``limit``, as many deployments that cannot be read, and what makes the verdicts."""

    limit: int
    pins: list[tuple[tuple[int, int, int], PinLine]] = []
    unread: list[PinLine] = []
    causes: dict[tuple[str, str, str], VerdictCause] = {}
    number: int = 0

    def add(self, line: PinLine) -> None:
        """Add a pin, or a deployment that cannot be read."""
        self.number += 1
        if line.pin is None:
            if len(self.unread) < self.limit:
                self.unread.append(line)
            return
        rank = (VERDICTS.index(line.pin.now), VERDICTS.index(line.pin.worst), self.number)
        self.pins.append((rank, line))
        if len(self.pins) > 2 * self.limit:
            self.cut()
        for answer, releases in _by_cause(line):
            key = (str(answer.verdict), releases, " ".join(answer.rules))
            if key not in self.causes and len(self.causes) < MAX_CAUSES:
                self.causes[key] = VerdictCause(answer.verdict, releases, ", ".join(answer.rules), answer.why)
            if key in self.causes:
                self.causes[key].number += 1

    def cut(self) -> None:
        """Keep the worst pins only."""
        self.pins.sort(key=lambda each: each[0])
        del self.pins[self.limit :]


def _by_cause(line: PinLine) -> Iterator[tuple[PinAnswer, str]]:
    """The different verdicts of a pin, each with its releases, such as ``now, 0.22.0 to 0.24.0``."""
    assert line.pin is not None
    groups: dict[tuple[str, str], tuple[PinAnswer, list[list[str]]]] = {}
    before = None
    for release, answer in line.pin.releases.items():
        key = (str(answer.verdict), " ".join(answer.rules))
        shown = NOW if line.from_ == release else release
        _, runs = groups.setdefault(key, (answer, []))
        if key == before and runs[-1][-1] != NOW:
            runs[-1].append(shown)
        else:
            runs.append([shown])
        before = key
    for answer, runs in groups.values():
        yield answer, ", ".join(run[0] if len(run) == 1 else f"{run[0]} to {run[-1]}" for run in runs)


def rows_of(report: PinReport) -> PinRows:
    """The rows that people read."""
    rows = PinRows(report.limit, [], [], {})
    for line in report.lines:
        rows.add(line)
    rows.cut()
    return rows


def headline(counts: PinCounts) -> str:
    """The counts in one sentence."""
    parts = [f"{counts.now[str(verdict)]:,} {verdict}" for verdict in VERDICTS if counts.now[str(verdict)]]
    whole = counted(counts.deployments, "deployment", "deployments")
    text = f"{counts.pinned:,} of {whole} {'has' if counts.pinned == 1 else 'have'} a pin"
    text += f"; {counted(counts.pins, 'pin', 'pins')}: {', '.join(parts)}" if parts else ""
    if counts.unread:
        text += f"; {counts.unread:,} could not be read"
    return text


def later_text(line: PinLine) -> str:
    """The verdicts of the releases after the first, each where it changes, such as ``0.33.0 redundant``."""
    assert line.pin is not None
    found, before = [], line.pin.now
    for release, answer in [*line.pin.releases.items()][1:]:
        if answer.verdict is not before:
            found.append(f"{release} {answer.verdict}")
            before = answer.verdict
    return ", ".join(found)


def value_text(pin: PinVerdicts) -> str:
    """The value as people read it."""
    return "?" if pin.value is None else f"{pin.value}".lower() if type(pin.value) is bool else str(pin.value)


def sorted_causes(rows: PinRows) -> list[VerdictCause]:
    """The causes by verdict, the worst first, then those that count now, then by the number of pins."""
    return sorted(rows.causes.values(), key=_order)


def _order(cause: VerdictCause) -> tuple[int, bool, int, str, str]:
    is_later = not cause.releases.startswith(NOW)
    return VERDICTS.index(cause.verdict), is_later, -cause.number, cause.releases, cause.rules


def place_text(line: PinLine) -> str:
    """The place of a pin as `FILE:LINE:COLUMN`."""
    place = line.place
    position = f":{place.line}" + (f":{place.column}" if place.column else "") if place.line else ""
    return f"{place.file}{position}"


def by_release(counts: PinCounts) -> Iterator[tuple[str, dict[str, int]]]:
    """The number of pins by verdict: now, and then in each later release."""
    yield NOW, counts.now
    yield from counts.releases.items()
