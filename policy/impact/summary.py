"""A deployment's impact for people: its worst change in words, and in one word what each release does.

Owns the words for a change, and the rows of a table for programs, one for each deployment and release.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET, Struct

from policy.decision.remedy_text import changes_text, purpose_text
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS, ChangeKind, ReleaseChange
from policy.impact.counts import column_of

if TYPE_CHECKING:
    from policy.decision.remedies import Remedy
    from policy.impact.impact import ReleaseComparison

WORDS: Final = {"v1": "V1", "v2": "V2", "own": "own runner", "no_start": "no start", "undecided": "undecided"}
"""The titles of the columns of a release's counts."""
COLUMNS: Final = (
    "release",
    "runner",
    "outcome",
    "starts",
    "change_from",
    "change",
    "rules",
    "startup_errors",
    "launch_errors",
    "known_problems",
    "reasons",
    "set_env",
    "problem",
    "remedies",
)
"""The columns of a row, one for each release of a deployment; ``change`` is the kind of change from ``change_from``.
"""


class Summary(Struct, frozen=True, gc=False):
    """A deployment's impact in short.

    ``columns`` has what each release does, by the fields of the counts. ``change`` is the worst change, the first of
    its kind; ``why`` says what makes it, ``action`` what to do, ``remedy`` what helps first. Without a ``change``
    nothing changes, or no release can decide it, and ``why`` is the problem.
    """

    columns: dict[str, str]
    change: ReleaseChange | None
    why: str
    action: str
    remedy: str = ""

    @property
    def is_undecided(self) -> bool:
        """Whether no release can decide the deployment."""
        return all(column == "undecided" for column in self.columns.values())

    @property
    def has_undecided(self) -> bool:
        """Whether a release cannot decide the deployment."""
        return not self.columns or "undecided" in self.columns.values()

    @property
    def rank(self) -> int:
        """The place of the kind, the worst first: undecided deployments before all, unchanged ones last."""
        if self.is_undecided:
            return -1
        return len(KINDS) if self.change is None else KINDS.index(self.change.kind)


def summary_of(found: ReleaseComparison) -> Summary:
    """A comparison in short."""
    columns = {release: column_of(answer) for release, answer in found.releases.items()}
    change = next((each for each in found.changes if each.kind is found.kind), None)
    if change is not None:
        return summary_of_change(
            change, found.releases[change.from_], found.releases[change.to], columns, first_remedy(found, change.to)
        )
    problem = next((answer.problem for answer in found.releases.values() if isinstance(answer, Undecided)), None)
    return Summary(columns, None, "" if problem is None else problem.detail, "")


def summary_of_change(
    change: ReleaseChange,
    before: ReleaseAnswer | Undecided,
    after: ReleaseAnswer | Undecided,
    columns: dict[str, str] | None = None,
    remedy: str = "",
) -> Summary:
    """A change between two answers in short, and the ``remedy`` for it."""
    return Summary(columns or {}, change, _why(change, before, after), _action(change, after), remedy)


def undecidable(message: str) -> Summary:
    """The summary of a deployment that no release can decide."""
    return Summary({}, None, message, "")


def rows_of(found: ReleaseComparison) -> list[tuple[Any, ...]]:
    """A row for each release, with the fields ``COLUMNS``."""
    steps = {change.to: change for change in found.changes}
    remedies = {} if found.remedies is UNSET else found.remedies
    rows = []
    for release, answer in found.releases.items():
        change = steps.get(release)
        step = (None, None, "") if change is None else (change.from_, str(change.kind), " ".join(change.rules))
        if isinstance(answer, Undecided):
            rows.append((release, None, None, None, *step, "", "", "", "", "", answer.problem.detail, ""))
            continue
        rows.append(
            (
                release,
                answer.runner,
                answer.outcome,
                answer.starts,
                *step,
                "; ".join(answer.startup_errors),
                "; ".join(answer.launch_errors),
                " ".join([each.rule for each in answer.known_problems]),
                "; ".join([each.message for each in answer.reasons if each.decisive]),
                " ".join([f"{name}={value}" for name, value in answer.set_env.items()]),
                "",
                "; ".join(map(_remedy_text, remedies.get(release, ()))),
            )
        )
    return rows


def first_remedy(found: ReleaseComparison, release: str) -> str:
    """The first remedy in a release in words: the cheapest there, else a later release; else that of the last release.

    The release is named unless it is the last one.
    """
    by_release = {} if found.remedies is UNSET else found.remedies
    last = next(reversed(found.releases))
    for each in (release, last):
        remedies = by_release.get(each, [])
        here = (remedy for remedy in remedies if all(change.field is UNSET for change in remedy.change))
        first = next(here, remedies[0] if remedies else None)
        if first is not None:
            return _remedy_text(first, "" if each == last else f" in {each}")
    return ""


def _remedy_text(remedy: Remedy, where: str = "") -> str:
    """A remedy in words, without the places of arguments: equal ones of several deployments are counted together."""
    return f"{purpose_text(remedy)}{where}: {changes_text(remedy, with_places=False)}"


def problem_row(message: str) -> tuple[Any, ...]:
    """The row of a deployment that no release can decide."""
    return (None, None, None, None, None, None, "", "", "", "", "", "", message, "")


def step_text(change: ReleaseChange) -> str:
    """The runner before and after, such as ``V1 → V2``."""
    return " → ".join(
        "undecided" if starts is None else "no start" if not starts else (runner or "own").upper()
        for runner, starts in zip(change.runner, change.starts, strict=True)
    ).replace("OWN", "own")


def _why(change: ReleaseChange, before: ReleaseAnswer | Undecided, after: ReleaseAnswer | Undecided) -> str:
    for answer in (after, before):
        if isinstance(answer, Undecided):
            return answer.problem.detail
    assert isinstance(before, ReleaseAnswer)
    assert isinstance(after, ReleaseAnswer)
    match change.kind:
        case ChangeKind.NO_START:
            return "; ".join(change.startup_errors.new or after.startup_errors)
        case ChangeKind.LAUNCH_ERROR:
            return "; ".join(change.launch_errors.new or after.launch_errors)
        case ChangeKind.START:
            return "; ".join([*change.launch_errors.gone, *change.startup_errors.gone]) + " (no longer)"
        case ChangeKind.PROBLEM:
            return _problems(change, after)
        case ChangeKind.RUNNER_WITH_PROBLEM:
            return f"{_decisive(after)}; {_problems(change, after)}"
        case ChangeKind.VARIABLE | ChangeKind.REASONS:
            return _differences(change) or _errors(change)
        case _:
            return _decisive(after)


def _differences(change: ReleaseChange) -> str:
    """The rules and known problems that come (``+``) and go (``-``)."""
    new = (*change.reasons.new, *change.known_problems.new)
    gone = (*change.reasons.gone, *change.known_problems.gone)
    return ", ".join([f"+{each}" for each in new] + [f"-{each}" for each in gone])


def _errors(change: ReleaseChange) -> str:
    """The errors that come, else those that go."""
    new = [*change.launch_errors.new, *change.startup_errors.new]
    return "; ".join(
        new or [f"{each} (no longer)" for each in (*change.launch_errors.gone, *change.startup_errors.gone)]
    )


def _decisive(answer: ReleaseAnswer) -> str:
    return "; ".join([each.message for each in answer.reasons if each.decisive])


def _problems(change: ReleaseChange, answer: ReleaseAnswer) -> str:
    new = frozenset(change.known_problems.new)
    shown = [f"{each.symptom} ({each.rule}, {each.certainty})" for each in answer.known_problems if each.rule in new]
    return f"known problem: {', '.join(shown)}"


def _action(change: ReleaseChange, after: ReleaseAnswer | Undecided) -> str:
    before_env, after_env = change.set_env
    if after_env and after_env != before_env:
        return "set " + " ".join(f"{name}={value}" for name, value in after_env.items())
    if before_env and not after_env and isinstance(after, ReleaseAnswer) and after.starts:
        return "drop " + " ".join(before_env)
    return ""
