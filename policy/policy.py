"""The loaded policy: a request → a decision.

Owns the steps of one decision. The release's rules are evaluated once, for both layers and for upstream alone. If the
two decide differently, the rules are evaluated again with the variable that makes vLLM follow the decision, to find out
what vLLM then does.
"""

from __future__ import annotations

from datetime import date  # noqa: TC003  # msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.json import Encoder
from msgspec.structs import replace
from uuid_utils import uuid7

from policy.decision.dates import date_warnings
from policy.decision.decision import (
    Decision,
    PolicyRef,
    UpstreamDecision,
    WithoutVariable,
    encode,
    features,
    known_problems,
    start_lists,
    startup_errors,
    summary,
)
from policy.decision.evaluation import (
    EncodedDecision,
    Evaluation,
    evaluate,
    evaluate_with,
    rulings_with,
    with_final_facts,
)
from policy.decision.known_problems import VARIABLE_NAME, OtherRunner
from policy.decision.ruleset import NO_LISTS, Ruleset
from policy.decision.trace import assumptions, trace
from policy.defects import contain, contained
from policy.engine.fact_encoder import variable_code
from policy.errors import INTERNAL_ERROR, RequestFault, RequestInvalid
from policy.facts.facts import defaults
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.fastpath.response_encoder import ResponseEncoder
from policy.intake.assumptions import find_assumptions, transformers_to_try
from policy.intake.command.expansion import EXHAUSTED_MESSAGE, current_expansion, reading_again
from policy.intake.container_variable import why_without_effect
from policy.intake.deployment import NO_EDITS
from policy.intake.derive.without_models import warnings_of_defaults
from policy.intake.intake import derive_facts
from policy.intake.model_lookup import no_models
from policy.intake.refused_arguments import ArgumentsRefused
from policy.intake.result import facts_with_origin, without_secrets_in_facts
from policy.intake.unused_models import ModelUse
from policy.remedies.advice import Adviser, in_release
from policy.remedies.search import State
from policy.rules.effects import Layer, Outcome, Runner
from policy.rules.loader import no_pause
from policy.rules.releases import InvalidVersion, UnknownRelease, not_checked, series
from policy.rules.template import UNSUPPORTED, V1_UNSUPPORTED
from policy.secret_values import NO_SECRETS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.decision.ruling import Ruling
    from policy.facts.facts import Facts, Row
    from policy.intake.command_line import Installation
    from policy.intake.deployment import Deployment
    from policy.intake.model_lookup import Find
    from policy.intake.result import IntakeResult
    from policy.remedies.advice import Advice
    from policy.request.request import Request
    from policy.rules.catalogue import Catalogue
    from policy.rules.release_rule import ReleaseRule

Found = TypeVar("Found")

# An argument with an unknown value never equals a known one with the same text.
key_of: Final = Encoder(enc_hook=lambda word: ("unknown", str(word))).encode
CACHED_DEPLOYMENTS: Final = 128
MAX_CACHED_KEY: Final = 16_384  # bytes
EXCLUDE_V2: Final = "exclude-v2"
EXCLUDE_V1: Final = "exclude-v1"


class RequestEvaluation(Struct, frozen=True, gc=False):
    """A request, the release's ruleset and its evaluation on a day; ``intake`` is set for a deployment.

    ``intake_as_set`` is set if the deployment's facts were derived again with the variable that must be set.
    """

    request: Request
    today: date
    ruleset: Ruleset
    evaluation: Evaluation
    intake: IntakeResult | None
    intake_as_set: IntakeResult | None = None

    @property
    def launch_errors(self) -> list[str]:
        """Why vLLM exits before it chooses the runner, if it is certain which release runs.

        For an unverified patch release or an image of unknown release, these errors are only likely. So are those of a
        platform or program with runners of its own, as it may have flags of its own. A request for the upstream layer
        alone asks for the choice of the runner, which they do not affect.
        """
        return self.possible_launch_errors if self._are_launch_errors_certain else []

    @property
    def _are_launch_errors_certain(self) -> bool:
        request = self.request
        is_own = self.evaluation.ruling.effect.outcome is Outcome.NOT_APPLICABLE
        return _is_certain(request) and not is_own and not request.upstream_only

    @property
    def possible_launch_errors(self) -> list[str]:
        """Why the decided release would exit before it chooses the runner, with the variable that must be set."""
        intake = self.intake_as_set or self.intake
        return [] if intake is None else intake.launch_errors

    @property
    def likely_refusal(self) -> str:
        """Why the vLLM that is decided for would exit, if it is not certain that this vLLM runs; empty otherwise.

        Empty too where the platform or the program has runners of its own, as it may have flags of its own.
        """
        is_own = self.evaluation.ruling.effect.outcome is Outcome.NOT_APPLICABLE
        errors = self.possible_launch_errors
        if is_own or self.launch_errors or not errors:
            return ""
        decided_as = self.request.release.decided_as
        return (
            f"it is not certain which vLLM runs, and vLLM {decided_as} would not start: {errors[0]}; correct it, or "
            "state the version"
        )

    @property
    def starts(self) -> bool:
        """Whether vLLM starts with the decided runner."""
        return self.evaluation.final.starts and not self.launch_errors

    @property
    def upstream_starts(self) -> bool:
        """Whether vLLM starts with the runner that it would choose alone, so without the variable that must be set."""
        is_refused = self._are_launch_errors_certain and self.intake is not None and bool(self.intake.launch_errors)
        return self.evaluation.upstream.starts and not is_refused

    @property
    def problem_row(self) -> Row:
        """The facts of the known problems: those with the variable set, if they were derived again for it."""
        evaluation = self.evaluation
        return (evaluation.facts if self.intake_as_set is None else evaluation.final_facts).row

    @property
    def without_effect(self) -> str:
        """Why the variable cannot make vLLM follow the decision; empty if it can, or is not needed."""
        deployment, value = self.request.deployment, self.evaluation.set_to
        return "" if deployment is None or value is None else why_without_effect(deployment, VARIABLE_NAME, value)


class FullEvaluation(Struct, frozen=True, gc=False):
    """An evaluation, and those with another variable that its decision contains.

    ``without_variable`` is set if the operator's variable decided. ``choice_warning`` says that the variable or a house
    rule chose the runner with the worse known problems; it is empty if neither did.
    """

    result: RequestEvaluation
    without_variable: WithoutVariable | UnsetType
    choice_warning: str


class Policy:
    """A catalogue with the compiled rules of each release.

    Any thread may call it; an engine runs one decision at a time.
    """

    def __init__(
        self,
        catalogue: Catalogue,
        default_release: str | None = None,
        find: Find = no_models,
        before: Policy | None = None,
        *,
        compile_all: bool = True,
        pause: Callable[[], object] = no_pause,
    ) -> None:
        """Compile the rules of every known release; releases with the same rules share a ruleset.

        ``default_release`` is used for requests without a release; it defaults to the catalogue's own. ``find`` looks
        up a model whose ``config.json`` a deployment does not include. ``before`` is an earlier policy of the same
        thread; its rulesets are reused for releases whose rules are the same. Without ``compile_all`` only the default
        release is compiled now, and each other one at its first request, which can raise ``EngineFailed``. ``pause`` is
        called after each release.

        Raises:
            EngineFailed: the engine refuses the rules.
            UnknownRelease, InvalidVersion: ``default_release`` is not a known release.
        """
        self.catalogue = catalogue
        self.find = find
        self.releases = catalogue.releases.with_default(default_release) if default_release else catalogue.releases
        self.revision = catalogue.revision
        self._ref = PolicyRef(catalogue.revision)
        self._encoder = ResponseEncoder(self._ref)
        self._intakes: dict[bytes, IntakeResult] = {}
        self.compiled: dict[tuple[tuple[ReleaseRule, ...], Any], Ruleset] = {}
        self._rulesets: dict[str, Ruleset] = {}
        for release in catalogue.releases.known if compile_all else (self.releases.default,):
            self._compile(release, {} if before is None else before.compiled)
            pause()

    def ruleset(self, release: str) -> Ruleset:
        """The compiled rules of a known release."""
        return self._rulesets.get(release) or self._compile(release, {})

    def _compile(self, release: str, reusable: Mapping[tuple[tuple[ReleaseRule, ...], Any], Ruleset]) -> Ruleset:
        """The ruleset of a release, from ``reusable`` or compiled, which later decisions use as well.

        Releases with the same rules and the same defaults of facts share one.
        """
        key = (self.catalogue.rules_of(release), defaults(series(release)))
        if key not in self.compiled:
            self.compiled[key] = reusable.get(key) or Ruleset(key[0], series(release))
        self._rulesets[release] = self.compiled[key]
        return self.compiled[key]

    def decide(self, request: Request, today: date) -> Decision:
        """The decision by the rules in force ``today``, with a new id and warnings about the dates of house rules.

        Raises:
            RequestInvalid: the facts cannot be derived from the deployment.
        """
        return self.assemble(self.evaluate(request, today))

    def answer(self, request: Request, today: date) -> EncodedDecision:
        """The decision as JSON.

        Raises:
            RequestInvalid: the facts cannot be derived from the deployment.
        """
        return self.encode(self.evaluate_fully(request, today))

    def evaluate_fully(self, request: Request, today: date) -> FullEvaluation:
        """Everything that the engine decides about a request, for ``encode``.

        Raises:
            RequestInvalid: the facts cannot be derived from the deployment.
        """
        try:
            return self._with_other_variables(self.evaluate(request, today))
        except Exception as error:  # noqa: BLE001  # a defect may raise anything
            contain(error, request.pointer)

    def _with_other_variables(self, result: RequestEvaluation) -> FullEvaluation:
        return FullEvaluation(result, self._without_variable(result), self._choice_warning(result))

    def encode(self, evaluation: FullEvaluation) -> EncodedDecision:
        """The decision as JSON; common decisions are encoded directly, without a ``Decision``."""
        result = evaluation.result
        try:
            json = self._encoder.encode(
                result.request,
                result.ruleset,
                result.evaluation,
                evaluation.without_variable,
                evaluation.choice_warning,
                result.today,
            )
            if json is not None:
                return EncodedDecision(json, result.evaluation)
            decision = self._assemble(evaluation)
            return EncodedDecision(encode(decision), result.evaluation, decision)
        except Exception as error:  # noqa: BLE001  # as above
            contain(error, result.request.pointer)

    def evaluate(self, request: Request, today: date) -> RequestEvaluation:
        """Evaluate the release's rules on a request's facts, which are derived first if it has a deployment.

        Rules that have ended by ``today`` are ignored.

        Raises:
            RequestInvalid: the facts cannot be derived from the deployment.
        """
        try:
            return self._as_set(self._as_given(request, today))
        except Exception as error:  # noqa: BLE001  # a defect may raise anything
            contain(error, request.pointer)

    def _as_given(self, request: Request, today: date) -> RequestEvaluation:
        """The evaluation with the variable as it is given."""
        intake = None
        if request.deployment is not None:
            intake = self.intake(request)
            request = replace(request, facts=intake.facts)
            if self._other_vllm(request, intake.installation):
                request = replace(request, release=replace(request.release, verified=False))
        ruleset = self.ruleset(request.release.decided_as)
        evaluation = evaluate(ruleset, request.facts, today, upstream_only=request.upstream_only)
        return RequestEvaluation(request, today, ruleset, evaluation, intake)

    def intake(self, request: Request) -> IntakeResult:
        """The facts of a request's deployment, derived as the release would; recent results are cached.

        Those of deployments with edits are not: there are a hundred of them for each explained request.

        Raises:
            RequestInvalid: the facts cannot be derived.
        """
        if request.deployment is not None and request.deployment.edits is not NO_EDITS:
            return self._derive(request)
        return self._recent_intake(request)

    def _recent_intake(self, request: Request) -> IntakeResult:
        key = key_of((request.release.decided_as, request.deployment))
        result = self._intakes.get(key)
        if result is None:
            result = self._derive(request)
            if len(key) <= MAX_CACHED_KEY and not result.found:
                if len(self._intakes) >= CACHED_DEPLOYMENTS:
                    self._intakes.clear()
                self._intakes[key] = result
        return result

    def _derive(self, request: Request) -> IntakeResult:
        """Derive the facts; where vLLM's derivation depends on the runner, the release's rules decide it."""
        assert request.deployment is not None  # INVARIANT: called for deployments only
        ruleset = self.ruleset(request.release.decided_as)

        def upstream_result(facts: Facts) -> tuple[Runner | None, bool]:
            variable = variable_code(facts.row[VARIABLE_INDEX])
            upstream, _ = ruleset.rulings(ruleset.recent_matches(facts), variable)  # only house rules end
            return upstream.runner, upstream.starts

        try:
            result = derive_facts(
                request.deployment, request.release.decided_as, request.pointer, upstream_result, self.find
            )
        except RequestInvalid as error:
            if request.manifest is not None:  # its objects lack some fields of a deployment
                error.end_within(*request.manifest)
            raise
        except Exception as error:  # noqa: BLE001  # a defect may raise anything
            contain(error, request.pointer)
        if result.secrets is NO_SECRETS:
            return result
        return replace(result, facts=without_secrets_in_facts(result.facts, result.secrets, ruleset.texts))

    def _as_set(self, result: RequestEvaluation) -> RequestEvaluation:
        """The evaluation, with what vLLM does with the variable that must be set derived again from a deployment.

        vLLM derives some values for the runner that it has chosen. It stays as it is if the deployment cannot be read
        with the variable, of which ``without_effect`` warns.
        """
        request, deployment, set_to = result.request, result.request.deployment, result.evaluation.set_to
        if deployment is None or set_to is None:
            return result
        edits = replace(deployment.edits, variables={**deployment.edits.variables, VARIABLE_NAME: set_to})
        env = {**deployment.env, VARIABLE_NAME: set_to}  # also for its scripts, which may read the variable
        other = replace(request, deployment=replace(deployment, env=env, edits=edits))
        derive = self._recent_intake if deployment.edits is NO_EDITS else self._derive
        with reading_again():
            intake = _unless_refused(other, derive)
        if intake is None:
            return result
        found = with_final_facts(result.ruleset, result.evaluation, intake.facts, result.today)
        return replace(result, evaluation=found, intake_as_set=intake)

    def _evaluate_other(self, request: Request, today: date) -> RequestEvaluation | None:
        """The evaluation of a variant of a request; ``None`` if vLLM refuses it before it chooses a runner.

        Raises:
            RequestInvalid: the request's scripts exceed the limits of expansion, or it shows a defect.
        """
        return _unless_refused(request, lambda other: self.evaluate(other, today))

    def _without_variable(self, result: RequestEvaluation) -> WithoutVariable | UnsetType:
        """What would be decided without the operator's variable, if the variable decided."""
        if result.evaluation.ruling.effect.outcome is not Outcome.OVERRIDE:
            return UNSET
        ruling, starts = self._ruling_with(result, None)
        if ruling is None:
            return WithoutVariable(None, None, starts=False)
        return WithoutVariable(ruling.runner, ruling.effect.outcome, starts)

    def _ruling_with(self, result: RequestEvaluation, value: bool | None) -> tuple[Ruling | None, bool]:  # noqa: FBT001  # the variable's value
        """The ruling with another value of the operator's variable, and whether vLLM starts.

        It is ``None`` if vLLM refuses the configuration.
        """
        request = result.request
        if request.deployment is None:
            ruleset = result.ruleset
            variable = ruleset.unset if value is None else value
            ruling, _, final, _ = rulings_with(
                ruleset, result.evaluation.matches, variable, result.today, request.upstream_only
            )
            return ruling, final.starts
        other = self._with_variable(result, value)
        return (None, False) if other is None else (other.evaluation.ruling, other.starts)

    def _with_variable(self, result: RequestEvaluation, value: bool | None) -> RequestEvaluation | None:  # noqa: FBT001  # the variable's value
        """The evaluation with another value of the operator's variable; ``None`` if vLLM refuses the configuration."""
        request, deployment = result.request, result.request.deployment
        other: RequestEvaluation | None = result
        if deployment is not None and (value is not None or VARIABLE_NAME in deployment.env):
            env = {name: text for name, text in deployment.env.items() if name != VARIABLE_NAME}
            if value is not None:
                env[VARIABLE_NAME] = "1" if value else "0"
            changed = replace(request, deployment=replace(deployment, env=env))
            other = _unless_refused(changed, lambda each: self._as_given(each, result.today))
        if other is None:
            return None
        # Also for a deployment: one of its scripts may set the variable too.
        found = evaluate_with(
            result.ruleset,
            other.evaluation,
            result.ruleset.unset if value is None else value,
            result.today,
            upstream_only=request.upstream_only,
        )
        return self._as_set(replace(other, evaluation=found, intake_as_set=None))

    def with_v2_selected(self, result: RequestEvaluation) -> RequestEvaluation:
        """The evaluation with the operator's variable set to select V2.

        Raises:
            RequestInvalid: vLLM refuses the configuration with it, or the facts cannot be derived.
        """
        other = self._with_variable(result, True)
        if other is None:
            message = f"vLLM refuses it with {VARIABLE_NAME}=1 before it chooses a runner"
            raise RequestInvalid([RequestFault(result.request.pointer, message)])
        return other

    def _with_other_runner(self, result: RequestEvaluation) -> RequestEvaluation | None:
        """The evaluation with the variable that selects the other runner; ``None`` if no value selects it."""
        runner = result.evaluation.ruling.runner
        other = None if runner is None else self._with_variable(result, runner is Runner.V1)
        if runner is None or other is None or other.evaluation.ruling.runner is not runner.other:
            return None
        return other

    def _choice_warning(self, result: RequestEvaluation) -> str:
        """That the variable or a house rule chose the runner with the worse known problems; empty if neither did."""
        ruling = result.evaluation.ruling
        if not (ruling.is_choice_of_problems and result.starts):
            return ""
        other, starts = self._ruling_with(result, ruling.runner is Runner.V1)
        if other is None or not starts or ruling.runner is None or other.runner is not ruling.runner.other:
            return ""
        return result.ruleset.choice_warning(ruling, other)

    def _alternative(self, result: RequestEvaluation) -> OtherRunner | None:
        """What the other runner would do if the variable selected it; ``None`` if the release cannot use it here."""
        other = self._with_other_runner(result)
        runner = None if other is None else other.evaluation.ruling.runner
        if other is None or runner is None:
            return None
        views, ruling, row = result.ruleset.views, other.evaluation.ruling, other.evaluation.facts.row
        listed = ruling.v2_list if runner is Runner.V2 else ruling.v1_list
        return OtherRunner(
            runner,
            other.starts,
            startup_errors(views, other.evaluation.final, row),
            features(views, listed, row),
            known_problems(views, ruling, row),
        )

    def _lifted_in(self, result: RequestEvaluation) -> dict[str, str | None]:
        """For each fired rule, the first later release in which it does not fire for the same request."""
        request = result.request
        lifted: dict[str, str | None] = dict.fromkeys(_fired_rules(result.ruleset, result.evaluation))
        known = self.releases.known
        for release in known[known.index(request.release.decided_as) + 1 :]:
            if None not in lifted.values():
                break
            later = self._evaluate_other(in_release(request, release), result.today)
            if later is not None:
                fired = _fired_rules(later.ruleset, later.evaluation)
                lifted.update({rule: release for rule, since in lifted.items() if since is None and rule not in fired})
        return lifted

    def _advice(self, result: RequestEvaluation) -> Advice:
        """What would help a deployment that is on V1, does not start, or has a known problem."""
        request = result.request

        def decide(other: Request) -> State | None:
            found = self._evaluate_other(other, result.today)
            return None if found is None else _state(found)

        rules = result.ruleset.rules
        by_house_rule = any(rules[n].rule.layer is Layer.HOUSE for n in result.evaluation.ruling.decisive)
        adviser = Adviser(request, _state(result), self.releases, decide, self.intake, by_house_rule=by_house_rule)
        return adviser.advice()

    def assemble(self, result: RequestEvaluation) -> Decision:
        """The decision that follows from an evaluation.

        Raises:
            RequestInvalid: a variant of the request has more text than is read, or there is a defect.
        """
        with contained(result.request.pointer):
            return self._assemble(self._with_other_variables(result))

    def _assemble(self, evaluated: FullEvaluation) -> Decision:
        result = evaluated.result
        request, ruleset, evaluation, intake = result.request, result.ruleset, result.evaluation, result.intake
        ruling, upstream, final = evaluation.ruling, evaluation.upstream, evaluation.final
        row = evaluation.facts.row
        final_row = row if evaluation.set_to is None else evaluation.final_facts.row
        views = ruleset.views
        decisive = ruling.decisive
        reasons = [views[n].reason(row, NO_LISTS, n in decisive) for n in ruling.standing]
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
        errors = startup_errors(views, final, final_row)
        problems = known_problems(views, ruling, result.problem_row)
        launch_errors = result.launch_errors
        sentence = summary(ruling, reasons, [*launch_errors, *errors])
        other = "" if intake is None else self._other_vllm(request, intake.installation)
        without_effect = result.without_effect
        warnings = [text for text in (without_effect, other, evaluated.choice_warning) if text]
        warnings += self._warnings(result, is_other=bool(other))
        if final.refusals:
            left = start_lists(views, final, final_row)
            reasons += [views[n].reason(final_row, left, False) for n in final.refusals]
        if ruling.advice:
            lists = {UNSUPPORTED: v2_list, V1_UNSUPPORTED: v1_list}
            advice = [views[n].reason(row, lists, False) for n in ruling.advice]
            reasons += advice
            warnings = [reason.message for reason in advice] + warnings
        decision = Decision(
            str(uuid7()),
            request.request_id,
            ruling.effect.runner,
            ruling.effect.outcome,
            result.starts,
            errors,
            launch_errors,
            sentence,
            v2_list,
            v1_list,
            reasons,
            problems,
            UpstreamDecision(
                upstream.effect.runner,
                upstream.effect.outcome,
                result.upstream_starts,
                errors if final is upstream else startup_errors(views, upstream, row),
            ),
            {} if evaluation.set_to is None else {VARIABLE_NAME: evaluation.set_to},
            warnings,
            request.vllm_version,
            request.release,
            self._ref,
            evaluated.without_variable,
        )
        if request.explain:
            helping = self._advice(result)
            decision = replace(
                self._with_explanation(decision, result),
                alternative=self._alternative(result),
                remedies=helping.remedies,
                v2_from=helping.v2_from,
                v2_path=helping.v2_path,
            )
        if intake is not None:
            decision = replace(
                decision,
                warnings=[
                    *decision.warnings,
                    *intake.warnings,
                    *warnings_of_defaults(self._rules_in_force(result), request.release.decided_as),
                    *([] if launch_errors else result.possible_launch_errors),
                    *_unused_models(request, intake),
                ],
                facts=facts_with_origin(intake, series(request.release.decided_as)),
                ignored_args=intake.ignored,
            )
        return decision

    def _warnings(self, result: RequestEvaluation, *, is_other: bool) -> list[str]:
        """Warnings about an unverified version, unless ``is_other``, and about the dates of house rules."""
        request, ruleset, ruling = result.request, result.ruleset, result.evaluation.ruling
        warnings = []
        release = request.release
        if not release.verified and not is_other:
            warnings.append(not_checked(request.vllm_version, release.decided_as))
        if result.today > ruleset.quiet_until:
            dated = sorted(
                n for n in (*ruling.standing, *ruling.advice, *ruling.problems, *ruling.ended) if n in ruleset.dated
            )
            for n in dated:
                warnings += date_warnings(ruleset.rules[n].rule, result.today)
        return warnings

    def _rules_in_force(self, result: RequestEvaluation) -> list[ReleaseRule]:
        """The rules that have not ended, of the layers that the request asks for."""
        rules = (item for item in result.ruleset.rules if not item.rule.has_ended(result.today))
        return [item for item in rules if not (result.request.upstream_only and item.rule.layer is Layer.HOUSE)]

    def launch_errors_of(self, request: Request, error: RequestInvalid) -> list[str]:
        """Why vLLM exits before it has facts that a request could be decided by; empty if that is not certain."""
        if not isinstance(error, ArgumentsRefused) or self._other_vllm(request, error.installation):
            return []
        return error.launch_errors if _is_certain(request) else []

    def _other_vllm(self, request: Request, other: Installation | None) -> str:
        """Why a vLLM other than the requested one may run; empty if there is no reason."""
        if other is None or (other.version is not None and self._is_same(other.version, request)):
            return ""
        version, decided_as = request.vllm_version, request.release.decided_as
        checked = "" if version.removeprefix("v") == decided_as else f" (as {decided_as}, the rules that were checked)"
        return f"{other.cause}; decided for vLLM {version}{checked}, which may not be the one that runs"

    def _is_same(self, version: str, request: Request) -> bool:
        """Whether a version resolves as the requested one does."""
        try:
            found = self.releases.resolve(version)
            requested = self.releases.resolve(request.vllm_version)
        except (UnknownRelease, InvalidVersion):
            return version == request.vllm_version.removeprefix("v")
        return found == requested

    def _with_explanation(self, decision: Decision, result: RequestEvaluation) -> Decision:
        """The decision with its trace and assumptions."""
        request, ruleset, evaluation = result.request, result.ruleset, result.evaluation
        actual = (evaluation.ruling.runner, result.starts)
        if request.deployment is None:

            def evaluate_with(index: int, value: Any) -> tuple[Runner | None, bool]:
                facts = evaluation.facts.changed(index, value)
                other = evaluate(ruleset, facts, result.today, upstream_only=request.upstream_only)
                return other.ruling.runner, other.final.starts

            rules = [item for item in ruleset.rules if not item.rule.has_ended(result.today)]
            assumed = assumptions(rules, request.facts, actual, evaluate_with)
        else:

            def decide(other: Deployment) -> tuple[Runner | None, bool]:
                found = self._evaluate_other(replace(request, deployment=other), result.today)
                return (None, False) if found is None else (found.evaluation.ruling.runner, found.starts)

            assert result.intake is not None  # INVARIANT: a deployment's facts were derived
            known = replace(request.deployment, environment=result.intake.environment)
            assumed = find_assumptions(
                known,
                result.intake.without_modules,
                actual,
                decide,
                transformers_to_try(request.release.decided_as, known, result.intake),
            )
            if secrets := result.intake.secrets:
                assumed = [replace(each, fact=secrets.hidden(each.fact)) for each in assumed]
        lifted = self._lifted_in(result)
        return replace(
            decision,
            reasons=[replace(reason, lifted_in=lifted[reason.rule]) for reason in decision.reasons],
            trace=trace(
                ruleset.rules,
                ruleset.combiner,
                evaluation.ruling,
                evaluation.facts.row,
                evaluation.final,
                evaluation.final_facts.row,
                result.problem_row,
                result.today,
                upstream_only=request.upstream_only,
            ),
            assumptions=assumed,
        )


def _unless_refused(request: Request, read: Callable[[Request], Found]) -> Found | None:
    """What is read of a variant of a request; ``None`` if vLLM refuses it before it chooses a runner.

    Raises:
        RequestInvalid: the request's scripts exceed the limits of expansion, or it shows a defect.
    """
    try:
        return read(request)
    except RequestInvalid as error:
        expansion = current_expansion()
        if expansion is not None and expansion.is_exhausted:  # so the outcome is unknown
            raise RequestInvalid([RequestFault(request.pointer, EXHAUSTED_MESSAGE)]) from error
        if error.problem == INTERNAL_ERROR:
            raise
        return None


def _unused_models(request: Request, intake: IntakeResult) -> list[str]:
    """The warning about model configurations that a deployment does not use; a manifest's are shared by its engines."""
    if request.deployment is None or request.manifest is not None:
        return []
    names = [intake.secrets.named(name) for name in request.deployment.model_configs]
    return ModelUse(intake.models).warnings(names, "model_configs")


def _is_certain(request: Request) -> bool:
    """Whether it is certain which release runs: the stated one, which was checked."""
    return request.release.verified and not (request.release.defaulted and request.manifest is not None)


def _state(result: RequestEvaluation) -> State:
    ruling, rules = result.evaluation.ruling, result.ruleset.rules
    return State(ruling.runner, result.starts, frozenset(rules[n].rule.id for n in ruling.problems))


def _fired_rules(ruleset: Ruleset, evaluation: Evaluation) -> set[str]:
    """The ids of the rules in a decision's reasons."""
    ruling = evaluation.ruling
    return {ruleset.rules[n].rule.id for n in (*ruling.standing, *evaluation.final.refusals, *ruling.advice)}
