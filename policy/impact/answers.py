"""What one release does with a deployment, as impact compares it.

Owns the fields of an answer, and how they follow from an evaluation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.decision.decision import features, startup_errors
from policy.decision.known_problems import VARIABLE_NAME
from policy.decision.ruleset import NO_LISTS
from policy.problems import Problem  # noqa: TC001  # msgspec reads the annotations
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.decision.decision import RuleView
    from policy.policy import RequestEvaluation

NO_RUNNER_LEFT: Final = "V1 is removed in this release, and V2 does not run this deployment"
"""The error of a deployment that would get V1 in a release in which only V2 can be selected."""


class ReasonSummary(Struct, frozen=True, gc=False):
    """A rule that fired, its text, and whether it made the decision."""

    rule: str
    decisive: bool
    message: str


class ProblemSummary(Struct, frozen=True, gc=False):
    """A known problem of the decided runner: its rule, what goes wrong, and how certain that is."""

    rule: str
    symptom: str
    certainty: str


class ReleaseAnswer(Struct, frozen=True, gc=False):
    """What a release does with a deployment: the fields of a decision, the reasons and known problems in short.

    ``refusals`` are the rules whose texts are the ``startup_errors``.
    """

    runner: str | None
    outcome: str | None
    starts: bool
    startup_errors: list[str]
    launch_errors: list[str]
    unsupported_features: list[str]
    v1_unsupported_features: list[str]
    reasons: list[ReasonSummary]
    refusals: list[str]
    known_problems: list[ProblemSummary]
    set_env: dict[str, str]

    @property
    def is_refused(self) -> bool:
        """Whether vLLM refuses the deployment before it has facts, so that no rule has decided."""
        return bool(self.launch_errors) and not self.reasons


class Undecided(Struct, frozen=True, gc=False):
    """The answer of a release that cannot decide a deployment, with the problem."""

    problem: Problem


def answer_of(result: RequestEvaluation) -> ReleaseAnswer:
    """The answer that follows from an evaluation."""
    evaluation, views = result.evaluation, result.ruleset.views
    ruling, final = evaluation.ruling, evaluation.final
    row = evaluation.facts.row
    final_row = row if evaluation.set_to is None else evaluation.final_facts.row
    decisive = ruling.decisive
    return ReleaseAnswer(
        ruling.effect.runner,
        ruling.effect.outcome,
        result.starts,
        startup_errors(views, final, final_row),
        result.launch_errors,
        features(views, ruling.v2_list, row),
        features(views, ruling.v1_list, row),
        [_reason(views[n], row, is_decisive=n in decisive) for n in ruling.standing],
        [views[n].rule for n in final.refusals] if ruling.effect.is_readable else [views[n].rule for n in decisive],
        [_problem(result, n) for n in ruling.problems],
        {} if evaluation.set_to is None else {VARIABLE_NAME: evaluation.set_to},
    )


def refused(launch_errors: list[str]) -> ReleaseAnswer:
    """The answer of a release that refuses the deployment before it has facts, for its model or an argument."""
    return ReleaseAnswer(None, None, False, [], launch_errors, [], [], [], [], [], {})


def without_v1(answer: ReleaseAnswer) -> ReleaseAnswer:
    """The answer of a release without V1, derived from the one with V2 selected."""
    if answer.runner != Runner.V1:
        return answer
    return ReleaseAnswer(
        None,
        None,
        False,
        [NO_RUNNER_LEFT, *answer.startup_errors],
        answer.launch_errors,
        answer.unsupported_features,
        [],
        answer.reasons,
        answer.refusals,
        [],
        {},
    )


def _reason(view: RuleView, row: Sequence[Any], *, is_decisive: bool) -> ReasonSummary:
    """The reason as a decision words it."""
    return ReasonSummary(view.rule, is_decisive, view.message + view.text(row, NO_LISTS))


def _problem(result: RequestEvaluation, index: int) -> ProblemSummary:
    view = result.ruleset.views[index]
    assert view.problem is not None  # INVARIANT: the rule has the effect `known-problem`
    return ProblemSummary(view.rule, view.problem.symptom, view.problem.certainty)
