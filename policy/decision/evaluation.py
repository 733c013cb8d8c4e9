"""What a release's rules make of a deployment's facts, by both layers and by upstream's alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from policy.decision.decision import Decision  # noqa: TC001  # msgspec reads the annotations
from policy.decision.ruling import Ruling  # noqa: TC001  # msgspec reads the annotations
from policy.facts.facts import Facts  # noqa: TC001  # msgspec reads the annotations
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from policy.decision.ruleset import Ruleset


class Evaluation(Struct, frozen=True, gc=False):
    """A deployment's facts, weighed by a release's rules.

    ``ruling`` is by all layers that were asked, ``upstream`` by upstream's alone; ``final`` is what vLLM
    comes to with the variable ``set_to``, where that must be set, and ``final_facts`` the facts then.
    """

    facts: Facts
    ruling: Ruling
    upstream: Ruling
    final: Ruling
    final_facts: Facts
    set_to: str | None


class EncodedDecision(Struct, frozen=True, gc=False):
    """A decision as JSON, and what it follows from; ``decision`` is there where it was assembled in full."""

    json: bytes
    weighed: Evaluation
    decision: Decision | None = None


def evaluate(ruleset: Ruleset, facts: Facts, *, upstream_only: bool) -> Evaluation:
    """What the rules make of a deployment's facts.

    Where the house chooses a runner that vLLM by itself would not, ``set_to`` is the variable's text
    that makes vLLM choose it, and ``final`` what vLLM then does. In every release a set variable decides
    before anything that a house rule could have decided against.
    """
    fired = ruleset.fired(facts)
    upstream, ruling = ruleset.both(fired)
    if upstream_only:
        ruling = upstream
    if ruling.effect.runner is upstream.effect.runner:
        return Evaluation(facts, ruling, upstream, upstream, facts, None)
    variable = ruling.runner is Runner.V2
    final_facts = facts.changed(VARIABLE_INDEX, variable)
    final, _ = ruleset.both(ruleset.fired(final_facts))
    return Evaluation(facts, ruling, upstream, final, final_facts, "1" if variable else "0")
