"""The loaded policy: a request → a decision.

Owns the order of one decision: ask the release's rules once, rule by both layers and by upstream's
alone, and where the house decides otherwise, find the variable that makes vLLM do it and see by
asking again what vLLM then does.
"""

from __future__ import annotations

from collections.abc import Sequence  # noqa: TC003  # msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace
from uuid_utils import uuid7

from policy.decision import Decision, PolicyRef, Verdict, features, start_lists, startup_errors, summary
from policy.facts import VARIABLE, VARIABLE_INDEX
from policy.precedence import Layer, Runner
from policy.releases import series
from policy.ruleset import Ruleset
from policy.ruling import Ruling  # noqa: TC001  # msgspec reads the annotations
from policy.trace import assumptions, trace
from policy.words import UNSUPPORTED, V1_UNSUPPORTED

if TYPE_CHECKING:
    from datetime import date

    from policy.catalogue import Catalogue, ReleaseRule
    from policy.request import Request

VARIABLE_NAME: Final = VARIABLE.partition(".")[2]


class Weighed(Struct, frozen=True, gc=False):
    """One row of facts weighed by a release's rules.

    ``ruling`` is by all layers that were asked, ``upstream`` by upstream's alone; ``final`` and
    ``final_row`` are what vLLM comes to with the variable ``set_to``, where that must be set.
    """

    row: Sequence[Any]
    ruling: Ruling
    upstream: Ruling
    final: Ruling
    final_row: Sequence[Any]
    set_to: str | None


class Policy:
    """A catalogue with its releases compiled into the engine. One thread at a time asks an engine; any thread may call."""

    def __init__(self, catalogue: Catalogue, default_release: str | None = None) -> None:
        """Compile every known release; releases with the same rules share a ruleset.

        ``default_release`` decides where a request names none; by itself the catalogue's own does.

        Raises:
            EngineFailed: the engine refuses the rules.
            UnknownRelease, NoVersion: ``default_release`` is no known release.
        """
        self.catalogue = catalogue
        self.releases = catalogue.releases.with_default(default_release) if default_release else catalogue.releases
        self.revision = catalogue.revision
        self._ref = PolicyRef(catalogue.revision)
        compiled: dict[tuple[tuple[ReleaseRule, ...], Any], Ruleset] = {}
        self._rulesets: dict[str, Ruleset] = {}
        for release in catalogue.releases.known:
            key = (catalogue.rules_of(release), series(release))
            if key not in compiled:
                compiled[key] = Ruleset(*key)
            self._rulesets[release] = compiled[key]

    def ruleset(self, release: str) -> Ruleset:
        """The compiled rules of a known release."""
        return self._rulesets[release]

    def decide(self, request: Request, today: date) -> Decision:
        """The decision, with an id of its own; house rules to be reviewed before ``today`` are warned of."""
        facts = request.facts
        ruleset = self._rulesets[request.release.decided_as]
        weighed = weigh(ruleset, facts.row, upstream_only=request.upstream_only)
        row, ruling, upstream, final, final_row = weighed.row, weighed.ruling, weighed.upstream, weighed.final, weighed.final_row
        shown = ruleset.shown
        v2_list = features(shown, ruling.v2_list, row)
        v1_list = features(shown, ruling.v1_list, row)
        lists = {UNSUPPORTED: v2_list, V1_UNSUPPORTED: v1_list}
        decisive = ruling.decisive
        reasons = [shown[n].reason(row, lists, decisive=n in decisive) for n in ruling.standing]
        if final.refusals:
            left = start_lists(shown, final, final_row)
            reasons += [shown[n].reason(final_row, left, decisive=False) for n in final.refusals]
        advice = [shown[n].reason(row, lists, decisive=False) for n in ruling.advice]
        errors = startup_errors(shown, final, final_row)
        decision = Decision(
            str(uuid7()),
            request.request_id,
            ruling.effect.runner,
            ruling.effect.outcome,
            final.starts,
            errors,
            summary(ruling, reasons, errors),
            v2_list,
            v1_list,
            reasons + advice,
            Verdict(upstream.effect.runner, upstream.effect.outcome, upstream.starts, startup_errors(shown, upstream, row)),
            {} if weighed.set_to is None else {VARIABLE_NAME: weighed.set_to},
            [reason.message for reason in advice] + self._warnings(request, ruleset, ruling, today),
            request.vllm_version,
            request.release,
            self._ref,
        )
        if request.explain:
            decision = _explained(decision, ruleset, weighed, request)
        return decision

    def _warnings(self, request: Request, ruleset: Ruleset, ruling: Ruling, today: date) -> list[str]:
        found = []
        release = request.release
        if not release.verified:
            found.append(f"vLLM {request.vllm_version} was not checked against these rules; decided as {release.decided_as}")
        for n in (*ruling.standing, *ruling.advice):
            rule = ruleset.rules[n].rule
            if rule.layer is Layer.HOUSE and rule.review_by is not None and rule.review_by < today:
                found.append(f"the house rule `{rule.id}` was to be reviewed by {rule.review_by}; its owner is {rule.owner}")
        if request.facts.ignored:
            found.extend(request.facts.hints())
        return found


def weigh(ruleset: Ruleset, row: Sequence[Any], *, upstream_only: bool) -> Weighed:
    """What the rules make of a row of facts.

    Where the house chooses a runner that vLLM by itself would not, ``set_to`` is the variable's text
    that makes vLLM choose it, and ``final`` what vLLM then does. In every release a set variable decides
    before anything that a house rule could have decided against.
    """
    fired = ruleset.fired(row)
    if upstream_only:
        ruling = upstream = ruleset.rulings.on(fired, upstream_only=True)
    else:
        upstream, ruling = ruleset.rulings.both(fired)
    if ruling.effect.runner is upstream.effect.runner:
        return Weighed(row, ruling, upstream, upstream, row, None)
    variable = ruling.runner is Runner.V2
    set_row = list(row)
    set_row[VARIABLE_INDEX] = variable
    final = ruleset.rulings.on(ruleset.fired(set_row), upstream_only=True)
    return Weighed(row, ruling, upstream, final, set_row, "1" if variable else "0")


def _explained(decision: Decision, ruleset: Ruleset, weighed: Weighed, request: Request) -> Decision:
    def otherwise(index: int, value: Any) -> tuple[Runner | None, bool]:
        row = list(weighed.row)
        row[index] = value
        other = weigh(ruleset, row, upstream_only=request.upstream_only)
        return other.ruling.runner, other.final.starts

    return replace(
        decision,
        trace=trace(ruleset.rules, ruleset.rulings, weighed.ruling, weighed.row, weighed.final, weighed.final_row, upstream_only=request.upstream_only),
        assumptions=assumptions(ruleset.rules, request.facts, (weighed.ruling.runner, weighed.final.starts), otherwise),
    )
