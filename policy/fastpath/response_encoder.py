"""Encode common decisions as JSON by joining fragments that were encoded beforehand.

It is the counterpart of ``request_decoder``: it encodes decisions on requests decoded there, if the only warnings are
vLLM's own advice and the one about worse known problems. For all others it returns ``None``, and the decision is
assembled and encoded in full. Both paths produce the same bytes except for the id; a property test checks this. A
decision is encoded in 9 instead of 48 µs of processor time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET
from uuid_utils import uuid7

from policy.decision.decision import PolicyRef, encode
from policy.facts.vocabulary import VARIABLE
from policy.rules.effects import TABLE
from policy.rules.template import UNSUPPORTED, V1_UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from msgspec import UnsetType

    from policy.decision.decision import WithoutVariable
    from policy.decision.evaluation import Evaluation
    from policy.decision.ruleset import ReasonFragment, Ruleset
    from policy.decision.ruling import Ruling
    from policy.facts.facts import Facts
    from policy.request.request import Request

ANSWER: Final = (
    b'{"decision_id":"%b","request_id":%b,%b,"launch_errors":[],"summary":"%b: %b",'
    b'"unsupported_features":[%b],"v1_unsupported_features":[%b],"reasons":[%b],"known_problems":[%b],"upstream":{%b},"set_env":%b,'
    b'"warnings":[%b],%b}'
)
STARTS: Final = b',"starts":true,"startup_errors":[]'
DOES_NOT_START: Final = b',"starts":false,"startup_errors":[%b]'
SUMMARY_WITH_ERROR: Final = b"%b; vLLM will not start: %b"
SET_ENV: Final = {
    value: encode({} if value is None else {VARIABLE.partition(".")[2]: value}) for value in (None, "0", "1")
}
OUTCOMES: Final = {
    effect.rank: (
        str(effect.runner).upper().encode(),
        encode({"runner": effect.runner, "outcome": effect.outcome})[1:-1],
    )
    for effect in TABLE
}


class ResponseEncoder:
    """Encodes the common decisions of one policy."""

    def __init__(self, policy: PolicyRef) -> None:
        self._policy = encode(policy)

    def encode(
        self,
        request: Request,
        ruleset: Ruleset,
        evaluation: Evaluation,
        without_variable: WithoutVariable | UnsetType,
        choice_warning: str,
        today: date,
    ) -> bytes | None:
        """The decision as JSON, or ``None`` if it is not a common one and must be assembled in full."""
        facts, ruling, upstream, final, set_to = (
            request.facts,
            evaluation.ruling,
            evaluation.upstream,
            evaluation.final,
            evaluation.set_to,
        )
        if (
            not request.common
            or not request.release.verified
            or ruling.effect.runner is None
            or upstream.effect.runner is None
            or final.effect.runner is None
            or (today > ruleset.quiet_until and (ruling.ended or not ruleset.dated.isdisjoint(ruling.holding)))
        ):
            return None
        fragments: dict[int, ReasonFragment] = {}
        reasons: list[bytes] = []
        messages: list[bytes] = []
        for n in ruling.standing:
            decisive = n in ruling.decisive
            fragments[n] = fragment = ruleset.reason_fragment(n, decisive, facts)
            reasons.append(fragment[0])
            if decisive:
                messages.append(fragment[1])
        v2_list = [fragments[n][2] for n in ruling.v2_list] if ruling.v2_list else []
        v1_list = [fragments[n][2] for n in ruling.v1_list] if ruling.v1_list else []
        summary = b"; ".join(messages)
        starts = upstream_starts = STARTS
        if final.refusals:
            refusals = _refusals(ruleset, final, facts if set_to is None else evaluation.final_facts)
            reasons += [json for json, _, _ in refusals]
            starts = upstream_starts = _does_not_start(refusals)
            summary = SUMMARY_WITH_ERROR % (summary, refusals[0][1])
        if upstream is not final:
            upstream_starts = _does_not_start(_refusals(ruleset, upstream, facts)) if upstream.refusals else STARTS
        warnings: list[bytes] = []
        if ruling.advice:
            lists = {UNSUPPORTED: v2_list, V1_UNSUPPORTED: v1_list}
            advice = [ruleset.reason_fragment_with(n, lists, facts) for n in ruling.advice]
            reasons += [json for json, _, _ in advice]
            warnings = [message for _, message, _ in advice]
        if choice_warning:
            warnings.append(encode(choice_warning)[1:-1])
        name, outcome = OUTCOMES[ruling.effect.rank]
        return ANSWER % (
            str(uuid7()).encode(),
            encode(request.request_id),
            outcome + starts,
            name,
            summary,
            _listed(v2_list),
            _listed(v1_list),
            b",".join(reasons),
            b",".join([ruleset.problem_fragment(n, facts) for n in ruling.problems]),
            OUTCOMES[upstream.effect.rank][1] + upstream_starts,
            SET_ENV[set_to],
            _listed(warnings),
            self._tail(request, without_variable),
        )

    def _tail(self, request: Request, without_variable: WithoutVariable | UnsetType) -> bytes:
        """The fields of a decision from ``vllm_version`` on."""
        return b'"vllm_version":%b,"release":%b,"policy":%b%b' % (
            encode(request.vllm_version),
            encode(request.release),
            self._policy,
            b"" if without_variable is UNSET else b',"without_variable":%b' % encode(without_variable),
        )


def _refusals(ruleset: Ruleset, ruling: Ruling, facts: Facts) -> list[ReasonFragment]:
    """The reasons of the refusals, which may contain the features left on the runner's list at startup."""
    left = [ruleset.reason_fragment(n, n in ruling.decisive, facts)[2] for n in ruling.at_start]
    lists = {UNSUPPORTED: left, V1_UNSUPPORTED: left}
    return [ruleset.reason_fragment_with(n, lists, facts) for n in ruling.refusals]


def _does_not_start(refusals: Sequence[ReasonFragment]) -> bytes:
    return DOES_NOT_START % _listed([message for _, message, _ in refusals])


def _listed(texts: Sequence[bytes]) -> bytes:
    """The items of a JSON list, from escaped texts."""
    return b'"%b"' % b'","'.join(texts) if texts else b""
