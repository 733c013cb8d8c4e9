"""The loaded policy: a request → a decision.

Owns the order of one decision: ask the release's rules once, rule by both layers and by upstream's
alone, and where the house decides otherwise, find the variable that makes vLLM do it and see by
asking again what vLLM then does.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.json import Encoder
from msgspec.structs import replace
from uuid_utils import uuid7

from policy.decision.decision import Decision, PolicyRef, UpstreamDecision, encode, start_lists, startup_errors, summary
from policy.decision.evaluation import EncodedDecision, Evaluation, evaluate
from policy.decision.ruleset import NO_LISTS, Ruleset
from policy.decision.trace import assumptions, trace
from policy.errors import RequestInvalid
from policy.facts.vocabulary import VARIABLE
from policy.fastpath.response_encoder import ResponseEncoder
from policy.intake.assumptions import assumed_of
from policy.intake.intake import derive_facts, no_models, sourced
from policy.rules.releases import series
from policy.rules.template import UNSUPPORTED, V1_UNSUPPORTED

if TYPE_CHECKING:
    from datetime import date

    from policy.decision.ruling import Ruling
    from policy.facts.facts import Facts
    from policy.intake.deployment import Deployment
    from policy.intake.intake import Find, IntakeResult
    from policy.request.request import Request
    from policy.rules.catalogue import Catalogue, ReleaseRule
    from policy.rules.effects import Runner

# A word that a script leaves open is another than the same text.
key_of: Final = Encoder(enc_hook=lambda word: ("unknown", str(word))).encode
KEPT_DEPLOYMENTS: Final = 128
LARGEST_KEPT: Final = 16_384  # bytes
EXCLUDE_V2: Final = "exclude-v2"
EXCLUDE_V1: Final = "exclude-v1"
VARIABLE_NAME: Final = VARIABLE.partition(".")[2]


class Policy:
    """A catalogue with its releases compiled into the engine. One thread at a time asks an engine; any thread may call."""

    def __init__(
        self,
        catalogue: Catalogue,
        default_release: str | None = None,
        find: Find = no_models,
        before: Policy | None = None,
    ) -> None:
        """Compile every known release; releases with the same rules share a ruleset, and so do policies that follow each other.

        ``default_release`` decides where a request names none; by itself the catalogue's own does. ``find`` looks for a model whose
        ``config.json`` a deployment does not bring. ``before`` is a policy of the same thread, whose rulesets are taken over where they are alike.

        Raises:
            EngineFailed: the engine refuses the rules.
            UnknownRelease, NoVersion: ``default_release`` is no known release.
        """
        self.catalogue = catalogue
        self.find = find
        self.releases = catalogue.releases.with_default(default_release) if default_release else catalogue.releases
        self.revision = catalogue.revision
        self._ref = PolicyRef(catalogue.revision)
        self._short = ResponseEncoder(self._ref)
        self._taken: dict[bytes, IntakeResult] = {}
        compiled = {} if before is None else before.compiled
        self.compiled: dict[tuple[tuple[ReleaseRule, ...], Any], Ruleset] = {}
        self._rulesets: dict[str, Ruleset] = {}
        for release in catalogue.releases.known:
            key = (catalogue.rules_of(release), series(release))
            if key not in self.compiled:
                self.compiled[key] = compiled.get(key) or Ruleset(*key)
            self._rulesets[release] = self.compiled[key]

    def ruleset(self, release: str) -> Ruleset:
        """The compiled rules of a known release."""
        return self._rulesets[release]

    def answer(self, request: Request, today: date) -> EncodedDecision:
        """The decision, as ``decide`` makes it, on the shortest way to its JSON.

        Raises:
            RequestInvalid: the facts cannot be derived of the deployment.
        """
        if request.deployment is None:
            ruleset = self._rulesets[request.release.decided_as]
            weighed = evaluate(ruleset, request.facts, upstream_only=request.upstream_only)
            short = self._short.answer(request, ruleset, weighed, today)
            if short is not None:
                return EncodedDecision(short, weighed)
            decision = self._decided(request, today, ruleset, weighed)
        else:
            decision, weighed = self.decided(request, today)
        return EncodedDecision(encode(decision), weighed, decision)

    def decide(self, request: Request, today: date) -> Decision:
        """The decision, with an id of its own; house rules to be reviewed before ``today`` are warned of.

        Raises:
            RequestInvalid: the facts cannot be derived of the deployment.
        """
        return self.decided(request, today)[0]

    def decided(self, request: Request, today: date) -> tuple[Decision, Evaluation]:
        """The same, and what it follows from.

        Raises:
            RequestInvalid: the facts cannot be derived of the deployment.
        """
        ruleset = self._rulesets[request.release.decided_as]
        if request.deployment is None:
            weighed = evaluate(ruleset, request.facts, upstream_only=request.upstream_only)
            return self._decided(request, today, ruleset, weighed), weighed
        taken = self.taken_in(request)
        request = replace(request, facts=taken.facts)
        weighed = evaluate(ruleset, request.facts, upstream_only=request.upstream_only)
        decision = self._decided(request, today, ruleset, weighed)
        return replace(
            decision, warnings=decision.warnings + taken.warnings, facts=sourced(taken), ignored_args=taken.ignored
        ), weighed

    def taken_in(self, request: Request) -> IntakeResult:
        """The facts of a request's deployment as the release would derive them; those of late are kept by all that they depend on.

        Raises:
            RequestInvalid: they cannot be derived.
        """
        key = key_of((request.release.decided_as, request.deployment))
        taken = self._taken.get(key)
        if taken is None:
            taken = self._derived(request)
            if len(key) <= LARGEST_KEPT and not taken.found:
                if len(self._taken) >= KEPT_DEPLOYMENTS:
                    self._taken.clear()
                self._taken[key] = taken
        return taken

    def _derived(self, request: Request) -> IntakeResult:
        """The same, derived; the release's own rules are asked where vLLM asks itself which runner it will be."""
        assert request.deployment is not None  # INVARIANT: asked of deployments alone
        ruleset = self._rulesets[request.release.decided_as]

        def alone(facts: Facts) -> tuple[Runner | None, bool]:
            upstream = evaluate(ruleset, facts, upstream_only=True).upstream
            return upstream.runner, upstream.starts

        try:
            return derive_facts(request.deployment, request.release.decided_as, request.pointer, alone, self.find)
        except RequestInvalid as error:
            if request.manifest is not None:  # whose objects have not every member that a deployment has
                error.end_within(*request.manifest)
            raise

    def _otherwise(self, request: Request, deployment: Deployment) -> tuple[Runner | None, bool]:
        """The answer to another deployment; none, not starting, where vLLM refuses it before it comes to the runner."""
        try:
            facts = self.taken_in(replace(request, deployment=deployment)).facts
        except RequestInvalid:
            return None, False
        weighed = evaluate(self._rulesets[request.release.decided_as], facts, upstream_only=request.upstream_only)
        return weighed.ruling.runner, weighed.final.starts

    def _decided(self, request: Request, today: date, ruleset: Ruleset, weighed: Evaluation) -> Decision:
        ruling, upstream, final = weighed.ruling, weighed.upstream, weighed.final
        row = weighed.facts.row
        final_row = row if weighed.set_to is None else weighed.final_facts.row
        shown = ruleset.shown
        decisive = ruling.decisive
        reasons = [shown[n].reason(row, NO_LISTS, n in decisive) for n in ruling.standing]
        v2_list = (
            [reason.feature for reason in reasons if reason.feature and reason.effect == EXCLUDE_V2]
            if ruling.v2_list
            else []
        )
        v1_list = (
            [reason.feature for reason in reasons if reason.feature and reason.effect == EXCLUDE_V1]
            if ruling.v1_list
            else []
        )
        errors = startup_errors(shown, final, final_row)
        told = summary(ruling, reasons, errors)
        warnings = self._warnings(request, ruleset, ruling, today)
        if final.refusals:
            left = start_lists(shown, final, final_row)
            reasons += [shown[n].reason(final_row, left, False) for n in final.refusals]
        if ruling.advice:
            lists = {UNSUPPORTED: v2_list, V1_UNSUPPORTED: v1_list}
            advice = [shown[n].reason(row, lists, False) for n in ruling.advice]
            reasons += advice
            warnings = [reason.message for reason in advice] + warnings
        effect, alone = ruling.effect, upstream.effect
        decision = Decision(
            str(uuid7()),
            request.request_id,
            effect.runner,
            effect.outcome,
            final.starts,
            errors,
            told,
            v2_list,
            v1_list,
            reasons,
            UpstreamDecision(
                alone.runner,
                alone.outcome,
                upstream.starts,
                errors if final is upstream else startup_errors(shown, upstream, row),
            ),
            {} if weighed.set_to is None else {VARIABLE_NAME: weighed.set_to},
            warnings,
            request.vllm_version,
            request.release,
            self._ref,
        )
        if request.explain:
            decision = self._explained(decision, ruleset, weighed, request)
        return decision

    def _warnings(self, request: Request, ruleset: Ruleset, ruling: Ruling, today: date) -> list[str]:
        found = []
        release = request.release
        if not release.verified:
            found.append(
                f"vLLM {request.vllm_version} was not checked against these rules; decided as {release.decided_as}"
            )
        if not ruleset.reviewed.isdisjoint(ruling.holding):
            rules = [ruleset.rules[n].rule for n in (*ruling.standing, *ruling.advice) if n in ruleset.reviewed]
            found += [
                f"the house rule `{rule.id}` was to be reviewed by {rule.review_by}; its owner is {rule.owner}"
                for rule in rules
                if rule.is_overdue(today)
            ]
        return found + request.facts.hints()

    def _explained(self, decision: Decision, ruleset: Ruleset, weighed: Evaluation, request: Request) -> Decision:
        answer = (weighed.ruling.runner, weighed.final.starts)
        if request.deployment is None:

            def otherwise(index: int, value: Any) -> tuple[Runner | None, bool]:
                other = evaluate(ruleset, weighed.facts.changed(index, value), upstream_only=request.upstream_only)
                return other.ruling.runner, other.final.starts

            assumed = assumptions(ruleset.rules, request.facts, answer, otherwise)
        else:
            assumed = assumed_of(request.deployment, answer, lambda other: self._otherwise(request, other))
        facts, final_facts = weighed.facts.row, weighed.final_facts.row
        return replace(
            decision,
            trace=trace(
                ruleset.rules,
                ruleset.rulings,
                weighed.ruling,
                facts,
                weighed.final,
                final_facts,
                upstream_only=request.upstream_only,
            ),
            assumptions=assumed,
        )
