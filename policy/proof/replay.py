"""Decide the witnesses of differences with the policy itself, to check the solver."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from policy.errors import RequestInvalid
from policy.proof.difference import ProofOutcome
from policy.proof.search import illegal
from policy.request.request import read_request
from policy.rules.known_problems import EFFECT as PROBLEM_EFFECT
from policy.rules.rule import LONG_AGO

if TYPE_CHECKING:
    from datetime import date

    from policy.decision.decision import Decision
    from policy.policy import Policy


class PolicyPair:
    """Decides facts by two policies, each with its release, on one day."""

    def __init__(self, before: tuple[Policy, str], after: tuple[Policy, str], today: date = LONG_AGO) -> None:
        self._sides = before, after
        self._today = today

    def __call__(self, facts: dict[str, Any]) -> tuple[ProofOutcome, ProofOutcome]:
        """The decisions of both policies on these facts, which are legal and nested as in a request."""
        before, after = (_answer(policy, release, facts, self._today) for policy, release in self._sides)
        return before, after


def _answer(policy: Policy, release: str, facts: dict[str, Any], today: date) -> ProofOutcome:
    """The decision on these facts for a known release, with that of vLLM alone.

    Raises:
        ProofFailed: the facts are not legal.
    """
    try:
        request = read_request({"vllm_version": release, "facts": facts}, policy.releases)
    except RequestInvalid as error:
        raise illegal(facts) from error
    whole, alone = (_outcome(policy.decide(each, today)) for each in (request, replace(request, upstream_only=True)))
    return whole.beside(alone)


def _outcome(decision: Decision) -> ProofOutcome:
    reasons = sorted(
        [(reason.rule, reason.effect) for reason in decision.reasons]
        + [(problem.rule, PROBLEM_EFFECT) for problem in decision.known_problems]
    )
    return ProofOutcome(decision.runner, decision.outcome, decision.starts, tuple(reasons))
