"""A request to an engine → what becomes of it, with the runner that the engine gets and with the other one.

Owns the rulesets about requests, one for each release, compiled when they are first needed, and the answer.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final
from weakref import finalize

from msgspec import Struct
from msgspec.structs import replace

from policy.decision.decision import PolicyRef
from policy.engine.compiler import compile_rules
from policy.engine.fact_encoder import variable_code
from policy.engine.rete import Engine
from policy.errors import RequestFault, RequestInvalid
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.intake.derive.request_limits import EngineLimits
from policy.pointer import at
from policy.request.request import UNKNOWN_RELEASE, Manifest, Request, read_request_or_manifest, secrets_of_request
from policy.rules.effects import Runner
from policy.rules.releases import Resolution, series
from policy.rules.request_rule import Verdict
from policy.sampling.fields import FIRST_RELEASE, is_checked
from policy.sampling.parameters import read_parameters
from policy.sampling.request_facts import request_facts, request_row
from policy.secret_values import NO_SECRETS, SecretValues
from policy.stated_secrets import secrets_of_names

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from datetime import date

    from policy.policy import Policy, RequestEvaluation
    from policy.rules.images import ImageTable
    from policy.rules.releases import Releases
    from policy.rules.request_rule import ReleaseRequestRule
    from policy.sampling.parameters import Parameters

MEMBER: Final = "request"
ANY_ENGINE: Final = EngineLimits()
"""The default limits, of an engine whose facts are stated."""
OTHER_RUNNER: Final = {Runner.V1: Runner.V2, Runner.V2: Runner.V1}


class Finding(Struct, frozen=True):
    """A rule that fired: what becomes of the parameter, and why; ``message`` is vLLM's own text if it refuses it."""

    rule: str
    parameter: str
    verdict: str
    message: str
    remedy: str | None
    fixed_in: str | None
    references: tuple[str, ...]


class RunnerCheck(Struct, frozen=True):
    """What a runner does with the request: the worst verdict, and every finding, the worst first."""

    runner: str | None
    verdict: str
    findings: list[Finding]


class RequestCheck(Struct, frozen=True):
    """The answer. ``starts``: whether the engine starts at all; ``alternative`` is ``None`` without another runner."""

    request_id: str | None
    runner: str | None
    verdict: str
    starts: bool
    findings: list[Finding]
    alternative: RunnerCheck | None
    warnings: list[str]
    vllm_version: str
    release: Resolution
    policy: PolicyRef


class CheckRequest(Struct, frozen=True):
    """A request to check: the deployment's own request, and the document with the parameters.

    ``size`` is the number of values in that document. ``rest`` has the other members of the whole request.
    """

    deployment: Request | Manifest
    document: Any
    pointer: str
    size: int
    rest: Any

    def secrets(self, images: ImageTable) -> SecretValues:
        """The secrets that the parameters and the deployment state, for what is wrong with either."""
        return SecretValues(chain(secrets_of_names(self.document), secrets_of_request(self.rest, images)))


class RequestRuleset:
    """The rules about requests of one release, compiled."""

    def __init__(self, rules: Sequence[ReleaseRequestRule], release: tuple[int, int]) -> None:
        self.rules = rules
        self._definition = compile_rules(rules, release)
        self._engine = Engine(self._definition)
        finalize(self, self._engine.close).atexit = False

    def fired(self, row: list[Any]) -> list[ReleaseRequestRule]:
        """The rules that hold for a row of facts of a deployment and of a request to it, the worst first."""
        matches = self._definition.matches(self._engine.fired(self._definition.encoder.encode(row)))
        fired = self._definition.fired(matches, variable_code(row[VARIABLE_INDEX]))
        return [self.rules[n] for n in sorted({*fired, *self._definition.always})]


def read_check_request(document: object, releases: Releases, pointer: str = "") -> CheckRequest:
    """Parse a request of ``POST /v1/requests/check``: a decision's request with one more member.

    Raises:
        RequestInvalid: with every fault.
    """
    if type(document) is not dict or MEMBER not in document:
        message = f"expected a decision's request with the member `{MEMBER}`, the parameters or the body of a request"
        raise RequestInvalid([RequestFault(pointer, message)])
    rest = {name: value for name, value in document.items() if name != MEMBER}
    try:
        deployment = read_request_or_manifest(rest, releases, pointer)
    except RequestInvalid as error:
        error.hide(SecretValues(secrets_of_names(document[MEMBER])))
        raise
    return CheckRequest(deployment, document[MEMBER], at(pointer, MEMBER), size_of(document[MEMBER]), rest)


def size_of(document: Any) -> int:
    """The number of values in a document, those of objects and lists included."""
    size, left = 0, [document]
    while left:
        size += 1
        value = left.pop()
        if isinstance(value, dict | list):
            left.extend(value.values() if isinstance(value, dict) else value)
    return size


class RequestChecker:
    """Checks requests by the rules of a policy."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self._rulesets: dict[str, RequestRuleset] = {}

    def ruleset(self, release: str) -> RequestRuleset:
        """The compiled rules about requests of a known release.

        Raises:
            EngineFailed: the engine refuses the rules.
        """
        found = self._rulesets.get(release)
        if found is None:
            rules = self.policy.catalogue.request_rules_of(release)
            same = (each for each in self._rulesets.values() if each.rules == rules)
            found = self._rulesets[release] = next(same, None) or RequestRuleset(rules, series(release))
        return found

    def check(
        self, deployment: Request, document: Any, pointer: str, today: date, limits: EngineLimits = ANY_ENGINE
    ) -> RequestCheck:
        """What happens to a request to an engine; ``limits`` are the engine's if its deployment states facts.

        Raises:
            RequestInvalid: the parameters have faults, or the facts cannot be derived from the deployment.
        """
        release = deployment.release.decided_as
        if not is_checked(release):
            message = (
                f"requests are checked from vLLM {FIRST_RELEASE} on, and this is {release}; choose a later release"
            )
            place = f"{pointer.rpartition('/')[0]}/vllm_version"
            raise RequestInvalid([RequestFault(place, message)], UNKNOWN_RELEASE)
        parameters = read_parameters(document, release, pointer)
        result = self.policy.evaluate(deployment, today)
        intake = result.intake
        limits = limits if intake is None else intake.limits
        secrets = NO_SECRETS if intake is None else intake.secrets
        parameters = _without_secrets(parameters, SecretValues(secrets_of_names(document), secrets))
        facts = request_facts(parameters, limits)
        row = [*result.evaluation.final_facts.row, *request_row(facts)]
        fired = self.ruleset(release).fired(row)
        runner = result.evaluation.final.runner
        own = runner_check(runner, fired, row)
        return RequestCheck(
            deployment.request_id,
            runner,
            own.verdict,
            result.starts,
            own.findings,
            None if runner is None else runner_check(OTHER_RUNNER[runner], fired, row),
            _warnings(result, fired, row, runner),
            deployment.vllm_version,
            result.request.release,
            PolicyRef(self.policy.revision),
        )


def _without_secrets(parameters: Parameters, secrets: SecretValues) -> Parameters:
    """The parameters without secrets in the names of those that vLLM does not take, which findings show."""
    if not (parameters.unexpected or parameters.left_out):
        return parameters
    unexpected, left_out = (tuple(map(secrets.hidden, each)) for each in (parameters.unexpected, parameters.left_out))
    return replace(parameters, unexpected=unexpected, left_out=left_out)


def labels_of(answer: RequestCheck) -> tuple[str, str, str]:
    """The runner, the verdict and the release of an answer, by which it is counted."""
    return answer.runner or "none", answer.verdict, answer.release.decided_as


def _applies(item: ReleaseRequestRule, runner: Runner | None) -> bool:
    return item.range.runner is None or item.range.runner is runner


def runner_check(runner: Runner | None, fired: Iterable[ReleaseRequestRule], row: list[Any]) -> RunnerCheck:
    """What a runner does with the request of a row; ``fired`` are the rules that fired for it, the worst first."""
    findings = [
        Finding(
            item.rule.id,
            item.rule.parameter,
            item.rule.verdict,
            item.range.template.filled(row, {}),
            item.rule.remedy,
            item.rule.fixed_in,
            item.rule.references,
        )
        for item in fired
        if not item.rule.is_advice and _applies(item, runner)
    ]
    return RunnerCheck(runner, findings[0].verdict if findings else Verdict.FINE, findings)


def warning_rules(fired: Iterable[ReleaseRequestRule], runner: Runner | None) -> list[ReleaseRequestRule]:
    """The rules that fired and, with this runner, only warn."""
    return [item for item in fired if item.rule.is_advice and _applies(item, runner)]


def _warnings(
    result: RequestEvaluation, fired: Iterable[ReleaseRequestRule], row: list[Any], runner: Runner | None
) -> list[str]:
    found = [item.range.template.filled(row, {}) for item in warning_rules(fired, runner)]
    if not result.starts:
        found.append("the engine does not start with this deployment; a decision says why")
    if not result.request.release.verified:
        decided_as = result.request.release.decided_as
        found.append(f"vLLM {result.request.vllm_version} was not verified; checked as {decided_as}")
    return found
