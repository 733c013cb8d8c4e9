"""Evaluate a release's rules on a deployment's facts, with both layers and with upstream alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from policy.decision.decision import Decision  # noqa: TC001  # msgspec reads the annotations
from policy.decision.ruling import Ruling  # noqa: TC001  # msgspec reads the annotations
from policy.engine.fact_encoder import variable_code
from policy.facts.facts import Facts  # noqa: TC001  # msgspec reads the annotations
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from datetime import date

    from policy.decision.ruleset import Matches, Ruleset
    from policy.facts.vocabulary import Tristate


class Evaluation(Struct, frozen=True, gc=False):
    """A deployment's facts and the rulings of a release's rules on them.

    ``ruling`` is by all requested layers, ``upstream`` by upstream alone. ``set_to`` is the value to which the variable
    must be set, or ``None``. ``final`` and ``final_facts`` are vLLM's ruling and the facts with the variable set.
    ``matches`` is the engine's result for ``facts``, which does not depend on the variable.
    """

    facts: Facts
    ruling: Ruling
    upstream: Ruling
    final: Ruling
    final_facts: Facts
    set_to: str | None
    matches: tuple[int, ...]


class EncodedDecision(Struct, frozen=True, gc=False):
    """A decision as JSON, and its evaluation; ``decision`` is set if it was assembled in full."""

    json: bytes
    evaluation: Evaluation
    decision: Decision | None = None


def evaluate(ruleset: Ruleset, facts: Facts, today: date, *, upstream_only: bool) -> Evaluation:
    """Evaluate the rules in force ``today`` on a deployment's facts.

    If house rules choose a runner that vLLM alone would not, ``set_to`` is the variable's value that makes vLLM choose
    it, and ``final`` is vLLM's ruling with that value. In every release, a set variable takes precedence over
    everything that a house rule can override.
    """
    return _evaluate(ruleset, facts, ruleset.matches(facts), today, upstream_only)


def evaluate_with(
    ruleset: Ruleset, evaluation: Evaluation, variable: Tristate, today: date, *, upstream_only: bool
) -> Evaluation:
    """Evaluate the same rules with another value of the operator's variable, without a further run of the engine."""
    facts = evaluation.facts.changed(VARIABLE_INDEX, variable)
    return _evaluate(ruleset, facts, evaluation.matches, today, upstream_only)


def with_final_facts(ruleset: Ruleset, evaluation: Evaluation, final_facts: Facts, today: date) -> Evaluation:
    """The evaluation of a deployment whose facts were derived again with the variable that must be set.

    They determine what vLLM then does: whether it starts, and the known problems of the decided runner.
    """
    rulings = ruleset.rulings_on(today) if ruleset.has_ends else ruleset.rulings
    final, by_all = rulings(ruleset.matches(final_facts), variable_code(final_facts.row[VARIABLE_INDEX]))
    ruling = replace(evaluation.ruling, problems=by_all.problems, other_problems=by_all.other_problems)
    return replace(evaluation, ruling=ruling, final=final, final_facts=final_facts)


def rulings_with(
    ruleset: Ruleset,
    matches: Matches,
    variable: Tristate,
    today: date,
    upstream_only: bool,  # noqa: FBT001  # called for each decision
) -> tuple[Ruling, Ruling, Ruling, str | None]:
    """The rulings ``ruling``, ``upstream`` and ``final`` of an evaluation, and ``set_to``, by a run of the engine.

    They show what would be decided without the variable, which one decision in three needs, or with the other runner,
    which one in seven needs. Leaving out the rest of an evaluation saves 0.8 of 37 µs of a decision in process.
    """
    rulings = ruleset.rulings_on(today) if ruleset.has_ends else ruleset.rulings
    upstream, ruling = rulings(matches, variable_code(variable))
    if upstream_only:
        ruling = upstream
    if ruling.effect.runner is upstream.effect.runner:
        return ruling, upstream, upstream, None
    is_v2 = ruling.runner is Runner.V2
    final, _ = rulings(matches, variable_code(is_v2))
    return ruling, upstream, final, "1" if is_v2 else "0"


def _evaluate(ruleset: Ruleset, facts: Facts, matches: Matches, today: date, upstream_only: bool) -> Evaluation:  # noqa: FBT001  # called for each decision
    ruling, upstream, final, set_to = rulings_with(ruleset, matches, facts.row[VARIABLE_INDEX], today, upstream_only)
    final_facts = facts if set_to is None else facts.changed(VARIABLE_INDEX, set_to == "1")
    return Evaluation(facts, ruling, upstream, final, final_facts, set_to, matches)
