"""A deployment's facts, decided by the product itself under two sets of rules.

Owns nothing but the asking; it is what every witness must pass.
"""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

from policy.facts import read_facts
from policy.proof.difference import Answer
from policy.releases import series
from policy.request import Request

if TYPE_CHECKING:
    from policy.decision import Decision
    from policy.policy import Policy

LONG_AGO = date.min


class Replay:
    """Two policies, each with the release that is asked of it."""

    def __init__(self, before: tuple[Policy, str], after: tuple[Policy, str]) -> None:
        self._sides = before, after

    def __call__(self, facts: dict[str, Any]) -> tuple[Answer, Answer]:
        """What both answer to a deployment of these facts, nested as in a request; they are legal."""
        before, after = (_answer(decide(policy, release, facts)) for policy, release in self._sides)
        return before, after


def decide(policy: Policy, release: str, facts: dict[str, Any]) -> Decision:
    """The whole decision of a known release; rules past their review are not complained of."""
    row = read_facts(facts, series(release), "", [])
    return policy.decide(Request(row, release, policy.releases.resolve(release), upstream_only=False, request_id=None, explain=False), LONG_AGO)


def _answer(decision: Decision) -> Answer:
    said = sorted((reason.rule, reason.effect) for reason in decision.reasons)
    return Answer(decision.runner, decision.outcome, decision.starts, tuple(said))
