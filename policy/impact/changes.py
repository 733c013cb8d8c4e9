"""What changes for a deployment from one release to another.

Owns the kinds of changes, the worst first, and which rules, known problems and errors make a change.
"""

from __future__ import annotations

import re
from enum import StrEnum
from typing import TYPE_CHECKING, Final, TypeAlias

from msgspec import Struct

from policy.impact.answers import ReleaseAnswer, Undecided
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

Answer: TypeAlias = ReleaseAnswer | Undecided


class ChangeKind(StrEnum):
    """The kind of a change, which is the first of these that fits."""

    NO_START = "no-start"
    LAUNCH_ERROR = "launch-error"
    UNDECIDED = "undecided"
    RUNNER_WITH_PROBLEM = "runner-with-known-problem"
    TO_V2 = "runner-v1-to-v2"
    TO_V1 = "runner-v2-to-v1"
    OTHER_RUNNER = "runner-other"
    PROBLEM = "known-problem"
    VARIABLE = "set-env"
    START = "start"
    REASONS = "reasons"


KINDS: Final = tuple(ChangeKind)
STOPS: Final = frozenset({ChangeKind.NO_START, ChangeKind.LAUNCH_ERROR})
"""The kinds of a deployment that does not start any more."""
RELEASE_NAME: Final = re.compile(r"\bvLLM [0-9]+(?:\.[0-9a-z]+)*")
ADVICE: Final = "; "
"""The separator between an error and the text that says what is legal or what to do."""
MEANINGS: Final = {
    ChangeKind.NO_START: "vLLM no longer starts: it refuses the runner",
    ChangeKind.LAUNCH_ERROR: "vLLM no longer starts: it refuses the arguments or the configuration",
    ChangeKind.UNDECIDED: "one of the releases cannot be decided",
    ChangeKind.RUNNER_WITH_PROBLEM: "another runner, of which a new problem is known",
    ChangeKind.TO_V2: "V1 becomes V2",
    ChangeKind.TO_V1: "V2 becomes V1",
    ChangeKind.OTHER_RUNNER: "a runner other than V1 and V2, before or after",
    ChangeKind.PROBLEM: "the same runner, of which a new problem is known",
    ChangeKind.VARIABLE: "the variable to set appears, changes or can go",
    ChangeKind.START: "vLLM starts, and did not before",
    ChangeKind.REASONS: "the reasons, errors or known problems only",
}


class AddedAndRemoved(Struct, frozen=True, gc=False):
    """The items that only the answer after a change has, and those that only the one before has."""

    new: list[str]
    gone: list[str]


class ReleaseChange(Struct, frozen=True, gc=False, rename={"from_": "from"}):
    """A change from one release to another.

    ``runner``, ``starts`` and ``set_env`` have the values before and after. ``rules`` made the change: those that
    decide only before or only after; else those that refuse only on one side; else all that are only on one side.
    """

    from_: str
    to: str
    kind: ChangeKind
    runner: tuple[str | None, str | None]
    starts: tuple[bool | None, bool | None]
    rules: list[str]
    reasons: AddedAndRemoved
    known_problems: AddedAndRemoved
    startup_errors: AddedAndRemoved
    launch_errors: AddedAndRemoved
    set_env: tuple[dict[str, str], dict[str, str]]


def change_of(from_: str, before: Answer, to: str, after: Answer) -> ReleaseChange | None:
    """The change between the answers of two releases; ``None`` if nothing changes."""
    if before == after:
        return None
    if isinstance(before, Undecided) or isinstance(after, Undecided):
        return _with_undecided(from_, before, to, after)
    reasons = _difference(_rules(before), _rules(after))
    problems = _difference(_problems(before), _problems(after))
    startup = _difference(before.startup_errors, after.startup_errors, _without_release)
    launch = _difference(before.launch_errors, after.launch_errors, _without_advice)
    kind = _kind(before, after, problems)
    if kind is ChangeKind.REASONS and not any(each.new or each.gone for each in (reasons, problems, startup, launch)):
        return None  # only a text that shows no rule, such as another outcome by the same rules
    return ReleaseChange(
        from_,
        to,
        kind,
        (before.runner, after.runner),
        (before.starts, after.starts),
        _causes(before, after, reasons),
        reasons,
        problems,
        startup,
        launch,
        (before.set_env, after.set_env),
    )


def change_reaches(kind: ChangeKind | None, threshold: ChangeKind | None) -> bool:
    """Whether a change is at least as bad as the threshold; the kinds that stop a deployment are equally bad."""
    if kind is None or threshold is None:
        return False
    return KINDS.index(kind) <= KINDS.index(threshold) or {kind, threshold} <= STOPS


def worst(kinds: Iterable[ChangeKind]) -> ChangeKind | None:
    """The worst kind; ``None`` without any."""
    return min(kinds, key=KINDS.index, default=None)


def _kind(before: ReleaseAnswer, after: ReleaseAnswer, problems: AddedAndRemoved) -> ChangeKind:
    if before.starts and not after.starts:
        return ChangeKind.LAUNCH_ERROR if after.launch_errors else ChangeKind.NO_START
    if after.starts and not before.starts:
        return ChangeKind.START
    if not after.starts:
        return ChangeKind.REASONS
    if before.runner != after.runner:
        return ChangeKind.RUNNER_WITH_PROBLEM if problems.new else _flip(before.runner, after.runner)
    if problems.new:
        return ChangeKind.PROBLEM
    return ChangeKind.VARIABLE if before.set_env != after.set_env else ChangeKind.REASONS


def _flip(before: str | None, after: str | None) -> ChangeKind:
    if (before, after) == (Runner.V1, Runner.V2):
        return ChangeKind.TO_V2
    return ChangeKind.TO_V1 if (before, after) == (Runner.V2, Runner.V1) else ChangeKind.OTHER_RUNNER


def _causes(before: ReleaseAnswer, after: ReleaseAnswer, reasons: AddedAndRemoved) -> list[str]:
    if before.runner != after.runner:
        decisive = _difference(_decisive(before), _decisive(after))
        if found := [*decisive.new, *decisive.gone]:
            return found
    refusals = _difference(before.refusals, after.refusals)
    return [*refusals.new, *refusals.gone] or [*reasons.new, *reasons.gone]


def _rules(answer: ReleaseAnswer) -> list[str]:
    return [*(reason.rule for reason in answer.reasons), *answer.refusals]


def _decisive(answer: ReleaseAnswer) -> list[str]:
    return [reason.rule for reason in answer.reasons if reason.decisive]


def _problems(answer: ReleaseAnswer) -> list[str]:
    return [problem.rule for problem in answer.known_problems]


def _difference(
    before: Sequence[str], after: Sequence[str], key: Callable[[str], str] = lambda each: each
) -> AddedAndRemoved:
    """The values that only one of two lists has; values with the same ``key`` are the same."""
    had, has = frozenset(map(key, before)), frozenset(map(key, after))
    return AddedAndRemoved(
        [each for each in dict.fromkeys(after) if key(each) not in had],
        [each for each in dict.fromkeys(before) if key(each) not in has],
    )


def _without_release(error: str) -> str:
    """An error without the name of the release that has it, such as ``vLLM 0.33.0 has no flag``: it is the same one."""
    return RELEASE_NAME.sub("vLLM", error)


def _without_advice(error: str) -> str:
    """A launch error without the name of its release and what to do there, such as the values that are legal in it."""
    return _without_release(error).partition(ADVICE)[0]


def _with_undecided(from_: str, before: Answer, to: str, after: Answer) -> ReleaseChange:
    nothing = AddedAndRemoved([], [])

    def value(answer: Answer) -> tuple[str | None, bool | None, dict[str, str]]:
        return (None, None, {}) if isinstance(answer, Undecided) else (answer.runner, answer.starts, answer.set_env)

    (runner, starts, env), (other_runner, other_starts, other_env) = value(before), value(after)
    return ReleaseChange(
        from_,
        to,
        ChangeKind.UNDECIDED,
        (runner, other_runner),
        (starts, other_starts),
        [],
        nothing,
        nothing,
        nothing,
        nothing,
        (env, other_env),
    )
