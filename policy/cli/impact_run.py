"""One run of the command ``impact``: its targets, its progress, its end and its exit code."""

from __future__ import annotations

import re
import signal
import threading
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeVar

import typer

from policy.cli.console import INTERRUPTED, USAGE, err, fail
from policy.errors import PolicyError
from policy.impact.targets import V1_REMOVED, target_of, targets_of
from policy.messages import listed, quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from policy.impact.targets import TargetRelease
    from policy.rules.releases import Releases

T = TypeVar("T")
ALL: Final = "all"
RANGE: Final = ".."
TARGET_ADVICE: Final = f"also {listed([ALL, V1_REMOVED])} or a range such as `A{RANGE}B`"
MIN_COMPARED: Final = 2
DELAY: Final = 2.0
"""Seconds after which a run shows its progress."""
EVERY: Final = 0.2
"""Seconds between two updates of the progress."""
SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def read_targets(releases: Releases, from_: str | None, to: str | None, names: str | None) -> list[TargetRelease]:
    """The targets that the options name; the command fails if they name none or an unknown one.

    A warning on standard error names each that was not checked.
    """
    return _warned(_targets(releases, from_, to, names))


def _warned(targets: list[TargetRelease]) -> list[TargetRelease]:
    for target in targets:
        if target.warning:
            err.print(f"warning: {target.warning}", markup=False)
    return targets


def _targets(releases: Releases, from_: str | None, to: str | None, names: str | None) -> list[TargetRelease]:
    if (to is None) == (names is None):
        fail(
            USAGE,
            f"name what to compare: `--to {releases.known[-1]}` with what each image says or with `--from`, or "
            f"`--releases {releases.known[-2]},{releases.known[-1]}`; also `A..B`, `{ALL}` and `{V1_REMOVED}`",
        )
    if names is not None and from_ is not None:
        fail(USAGE, "`--from` goes with `--to`; `--releases` names all releases that are compared, such as `A..B`")
    try:
        if names is None:
            steps = [target_of(name, releases) for name in (from_, to) if name is not None]
            if len({step.name for step in steps}) < len(steps):
                fail(USAGE, f"`--from` and `--to` are both {quoted(to)}; name two releases")
            return steps
        return _several(names, releases)
    except PolicyError as error:
        fail(USAGE, f"{error}; {TARGET_ADVICE}")


def read_later_targets(releases: Releases, from_: str | None, to: list[str]) -> tuple[TargetRelease, ...]:
    """The release of ``--from``, if it is given, and then those of ``--to``; the command fails if one is unknown."""
    try:
        first = [] if from_ is None else [target_of(from_, releases)]
        names = {target.name: target for each in to for target in _listed(each, releases)}
        later = targets_of(names, releases)
    except PolicyError as error:
        fail(USAGE, f"{error}; {TARGET_ADVICE}")
    return tuple(_warned([*first, *(target for target in later if target not in first)]))


def _several(names: str, releases: Releases) -> list[TargetRelease]:
    """The targets of ``--releases``, of which each is compared with the one before; ``v1-removed`` has one before it.

    The command fails if there are fewer than two, or a list without ranges does not begin with the earliest.

    Raises:
        PolicyError: a name is unknown.
    """
    targets = _listed(names, releases)
    if len(targets) == 1 and targets[0].without_v1:
        return [target_of(releases.known[-1], releases), *targets]
    if len({(target.release, target.without_v1) for target in targets}) < MIN_COMPARED:
        only = targets[0].name
        fail(
            USAGE,
            f"--releases {quoted(names)}: one release is compared with nothing; name two or more, or with "
            f"`--to {only}` compare it with what each image says",
        )
    parts = _parts(names)
    if not any(part == ALL or RANGE in part for part in parts):
        given = [target_of(part, releases) for part in parts]
        places = [(target.without_v1, releases.known.index(target.release)) for target in given]
        if places != sorted(places):
            ascending = ",".join(target.name for target in targets)
            fail(
                USAGE,
                f"--releases {quoted(names)}: the earlier one is first: `{ascending}`; "
                f"`--from {given[0].name} --to {given[-1].name}` compares two releases in any order",
            )
    return targets


def _listed(names: str, releases: Releases) -> list[TargetRelease]:
    """The targets in a list such as ``0.22.0,0.30.0..0.33.0``.

    Raises:
        PolicyError: a name is unknown.
    """
    return targets_of([each for part in _parts(names) for each in _range(part, releases)], releases)


def _parts(names: str) -> list[str]:
    """The names and ranges of a list, between commas or blanks; blanks beside ``..`` are part of the range."""
    whole = RANGE.join(part.strip() for part in names.split(RANGE))
    return re.split(r"[,\s]+", whole.strip(", "))


def _range(part: str, releases: Releases) -> list[str]:
    if part == ALL:
        return list(releases.known)
    if RANGE not in part:
        return [part]
    first, _, last = part.partition(RANGE)
    start, end = (target_of(name, releases) for name in (first or releases.known[0], last or releases.known[-1]))
    if start.without_v1:
        return [start.name, end.name]
    known = releases.known[releases.known.index(start.release) : releases.known.index(end.release) + 1]
    if not known:
        fail(USAGE, f"the range {quoted(part)} has no releases; the earlier one is first: `{last}{RANGE}{first}`")
    return [*known, end.name] if end.without_v1 else list(known)


class Interrupt:
    """Ends the reading of a fleet when the user interrupts the command, so that what was read is still written."""

    def __init__(self) -> None:
        self.signal: int | None = None
        self._reading = False

    @contextmanager
    def handled(self) -> Iterator[None]:
        """Handle the signals while the block runs."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = [signal.signal(number, self._handle) for number in SIGNALS]
        try:
            yield
        finally:
            for number, handler in zip(SIGNALS, before, strict=True):
                signal.signal(number, handler)

    def until(self, entries: Iterable[T]) -> Iterator[T]:
        """The entries up to the signal, which also ends a wait for input."""
        left = iter(entries)
        while self.signal is None:
            self._reading = True
            try:
                entry = next(left, None)
            except KeyboardInterrupt:
                return
            finally:
                self._reading = False
            if entry is None:
                return
            yield entry

    def exit_if_set(self, number: int, noun: str = "deployments") -> None:
        """If the run was interrupted, print how many of these its report has, and exit."""
        if self.signal is not None:
            err.print(f"interrupted: the report has the first {number:,} {noun}", markup=False)
            raise typer.Exit(INTERRUPTED)

    def _handle(self, number: int, _frame: Any) -> None:
        was_set = self.signal is not None
        self.signal = number
        if self._reading or was_set:
            raise KeyboardInterrupt


def shows_progress() -> bool:
    """Whether a run shows its progress, so that its end is worth counting."""
    return err.is_terminal and err.console.is_interactive


def with_progress(results: Iterator[T], total: Callable[[], int | None], noun: str = "deployments") -> Iterator[T]:
    """The results; after ``DELAY`` seconds a terminal shows their number, the rate, and the end once it is known."""
    if not shows_progress():
        yield from results
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn  # noqa: PLC0415

    start = shown = time.monotonic()
    rate = TextColumn("{task.fields[rate]}/s")
    columns = (TextColumn(noun), BarColumn(), MofNCompleteColumn(), rate, TimeRemainingColumn())
    with Progress(*columns, console=err.console, transient=True, redirect_stdout=False) as progress:
        task = None
        for number, each in enumerate(results, 1):
            yield each
            now = time.monotonic()
            if now - start < DELAY or now - shown < EVERY:
                continue
            shown = now
            speed = f"{number / (now - start):,.0f}"
            if task is None:
                task = progress.add_task(noun, total=None, rate=speed)
            progress.update(task, completed=number, total=total(), rate=speed)
