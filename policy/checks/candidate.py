"""Overlay candidate rules on the loaded ones, and decide with them in a separate process.

Owns the overlay and the process's limits. A definition that the engine refuses, a condition that needs too much memory
or time, or a crash in C ends only that process; the loaded rules are not affected. The process is
``python -m policy.checks.candidate [BYTES [FILE]]``, with a job on standard input and a result on standard output.
``BYTES`` is the maximum size of an answer; one of more than ``INLINE`` bytes is written to ``FILE``.
"""

from __future__ import annotations

import signal
import sys
from datetime import date  # noqa: TC003  # msgspec reads the annotations
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from policy.checks.cases import read_some_cases, run_cases
from policy.checks.comparison import (
    AffectedClass,
    AffectedRequests,
    CaseOutcome,
    CasesReport,
    DryRunComparison,
    DryRunComparisonOfAll,
    SandboxResult,
    compare,
)
from policy.checks.request_cases import read_some_request_cases, run_request_cases
from policy.checks.sandbox import INLINE, KILLED, limit_process
from policy.decision.decision import Decision
from policy.decision.decision import encode as encode_decision
from policy.errors import Fault, PolicyError, RequestFault, RequestInvalid, RulesInvalid
from policy.garbage import collect_rarely
from policy.messages import quoted
from policy.parser.fields import NAME
from policy.parser.yamltree import read_rule_file, read_yaml
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import CONDITIONS, load
from policy.rules.effects import Layer, effects_of
from policy.rules.images import FOLDER as IMAGES
from policy.rules.loader import Sources
from policy.rules.request_rule import EFFECTS as REQUEST_EFFECTS
from policy.rules.request_rule import FOLDER as REQUESTS
from policy.rules.suggestions import similar
from policy.sampling.check import RequestChecker

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.checks.cases import Case, CaseResult
    from policy.checks.request_cases import RequestCase

A = TypeVar("A")
B = TypeVar("B")
MEMORY_LIMIT: Final = 1 << 30
MAX_RULES: Final = 100
TOO_LARGE: Final = "too-much-work"
"""The kind of problem if the answer would be too large."""
NOT_WRITTEN: Final = 74
"""The exit code if a large answer cannot be written to its file: EX_IOERR of sysexits.h."""
NO_MEMORY: Final = 71
"""The exit code if the process may not use as much memory as it needs: EX_OSERR."""
CONDITION_FIELDS: Final = {"id", "why", "releases"}
"""The fields of a named condition; a rule has others too."""
COMMAND: Final = (sys.executable, "-P", "-m", "policy.checks.candidate")


class CandidateJob(Struct, frozen=True):
    """The input of the process.

    ``base`` has the texts of the loaded rules by path, ``rules`` those of the candidates, ``remove`` the ids to remove,
    ``cases`` the texts of files of cases to run with the candidates.
    With ``for_all``, changes are found for all possible deployments, not only for the request. If ``current``, the
    decision by the loaded rules, is set, both decisions are compared; ``as_text`` formats the result for a terminal.
    """

    base: dict[str, str]
    rules: list[str]
    remove: list[str]
    request: Any
    default_release: str
    today: date
    seconds: int
    for_all: bool = False
    current: Decision | None = None
    as_text: bool = False
    cases: list[str] = []


read_job = msgspec.json.Decoder(CandidateJob).decode
encode = msgspec.json.encode


def with_models(
    document: dict[str, Any], found: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]]
) -> dict[str, Any]:
    """The request with the models found for its deployment, because the process cannot look them up."""
    deployment = document["deployment"]
    configs = {name: config for name, (config, _) in found.items()}
    files = {f"{name}/{file}": text for name, (_, files) in found.items() for file, text in files.items()}
    models = {
        "model_configs": configs | (deployment.get("model_configs") or {}),
        "files": files | (deployment.get("files") or {}),
    }
    return {**document, "deployment": {**deployment, **models}}


def overlay(base: dict[str, str], rules: list[str], remove: list[str]) -> tuple[dict[str, str], list[str]]:
    """The texts of the rules with candidates added or replaced and others removed, and the ids of these rules.

    A candidate with a new id belongs to the house layer, or to upstream if only that has its effect. A rule about
    requests belongs to upstream. A candidate with the fields of a named condition is one. A rule and a named condition
    may have one id, which removes the rule. The files of images have no ids.

    Raises:
        RulesInvalid: a candidate's text is not YAML, has no id, or has the id of another candidate.
        RequestInvalid: an id to remove does not exist.
    """
    texts = dict(base)
    rule_paths, condition_paths = _paths_by_id(base)
    by_id = condition_paths | rule_paths
    ids: list[str] = []
    path_of: dict[str, str] = {}
    faults: list[Fault] = []
    request_faults: list[RequestFault] = []
    for index, name in enumerate(remove):
        if name in by_id:
            texts.pop(by_id[name], None)
            ids.append(name)
        else:
            request_faults.append(
                RequestFault(f"/remove/{index}", f"unknown rule {quoted(name)}{similar(name, by_id)}")
            )
    for number, text in enumerate(rules):
        path = f"rules[{number}]"
        try:
            node = read_rule_file(text, path)
        except RulesInvalid as error:
            faults.extend(error.faults)
            continue
        document = node.plain()
        rule_id = document.get("id") if isinstance(document, dict) else None
        if not isinstance(rule_id, str) or not NAME.fullmatch(rule_id):
            faults.append(
                Fault(path, node.line, node.column, "the rule has no `id` in lower-case words with hyphens; add it")
            )
            continue
        is_condition = _is_condition(document) or ("effect" not in document and rule_id not in rule_paths)
        paths = condition_paths if is_condition else rule_paths
        target = paths.get(rule_id) or f"{_folder(document)}/{rule_id}.yaml"
        if target in path_of:
            faults.append(
                Fault(
                    path,
                    node.line,
                    node.column,
                    f"the rule {quoted(rule_id)} is already in {path_of[target]}; send each rule once",
                )
            )
            continue
        path_of[target] = path
        ids.append(rule_id)
        texts[target] = text
    if request_faults:
        raise RequestInvalid(request_faults)
    if faults:
        raise RulesInvalid(faults)
    return texts, ids


def _paths_by_id(base: Mapping[str, str]) -> tuple[dict[str, str], dict[str, str]]:
    """The paths of the rules, and those of the named conditions, by id."""
    rules: dict[str, str] = {}
    conditions: dict[str, str] = {}
    for path in base:
        folders, name = path.split("/")[:-1], path.rpartition("/")[2].removesuffix(".yaml")
        if folders and folders[0] != IMAGES:
            (conditions if folders[-1] == CONDITIONS else rules)[name] = path
    return rules, conditions


def _is_condition(document: dict[str, Any]) -> bool:
    """Whether a candidate has the fields of a named condition."""
    return "releases" in document and document.keys() <= CONDITION_FIELDS


def _folder(document: dict[str, Any]) -> str:
    effect = document.get("effect")
    if isinstance(effect, str) and effect in REQUEST_EFFECTS:
        return f"{Layer.UPSTREAM}/{REQUESTS}"
    if _is_condition(document):
        return f"{Layer.UPSTREAM}/{CONDITIONS}"
    return (
        Layer.UPSTREAM
        if effect in effects_of(Layer.UPSTREAM) and effect not in effects_of(Layer.HOUSE)
        else Layer.HOUSE
    )


def run_job(job: CandidateJob) -> SandboxResult:
    """The decision by the candidate rules, or why there is none."""
    try:
        texts, ids = overlay(job.base, job.rules, job.remove)
        loaded = Policy(load(Sources(job.base)), compile_all=False) if job.for_all else None
        before = None if loaded is None else loaded.catalogue
        policy = Policy(load(Sources(texts), before=before), job.default_release, compile_all=loaded is None)
        decision = policy.decide(read_request(job.request, policy.releases), job.today)
        cases = _run_cases(job.cases, policy) if job.cases else None
        affected = SandboxResult() if loaded is None else _affected(job, loaded, policy)
        result = replace(affected, decision=decision, cases=cases, rules=ids)
        return (
            result
            if job.current is None
            else SandboxResult(answer=_encode(compare(job.current, result), as_text=job.as_text))
        )
    except RulesInvalid as error:
        return SandboxResult(faults=list(error.faults))
    except RequestInvalid as error:
        return SandboxResult(request_faults=list(error.faults), problem=error.problem)
    except PolicyError as error:
        return SandboxResult(failed=str(error))


def _run_cases(texts: list[str], policy: Policy) -> CasesReport:
    named = {f"cases[{number}]": text for number, text in enumerate(texts)}
    own = {path: text for path, text in named.items() if _is_about_requests(text, policy)}
    read = partial(read_some_cases, {path: text for path, text in named.items() if path not in own}, policy.catalogue)
    (cases, lacking), (about_requests, lacking_requests) = _both(
        read, partial(read_some_request_cases, own, policy.catalogue)
    )
    found: list[CaseResult[Case | RequestCase]] = [
        *run_cases(cases, policy),
        *run_request_cases(about_requests, RequestChecker(policy)),
    ]
    place = {path: number for number, path in enumerate(named)}
    results = [
        CaseOutcome(
            each.case.rule,
            each.case.name,
            each.release,
            each.case.fires,
            each.passed,
            each.found,
            each.case.path,
            each.case.line,
        )
        for each in sorted(found, key=lambda each: place[each.case.path])
    ]
    lacking = lacking | lacking_requests
    missing = [f"the cases of {quoted(rule)} lack {kind}; add it" for rule, kinds in lacking.items() for kind in kinds]
    return CasesReport(results, missing)


def _is_about_requests(text: str, policy: Policy) -> bool:
    """Whether a file has the cases of a rule about requests; false if it cannot be read."""
    try:
        document = read_yaml(text, "").plain()
    except RulesInvalid:
        return False
    name = document.get("rule") if isinstance(document, dict) else None
    return any(rule.id == name for rule in policy.catalogue.request_rules)


def _both(first: Callable[[], A], second: Callable[[], B]) -> tuple[A, B]:
    """The results of both.

    Raises:
        RulesInvalid: with the faults of both.
    """
    faults: list[Fault] = []
    found: list[Any] = []
    for read in (first, second):
        try:
            found.append(read())
        except RulesInvalid as error:
            faults.extend(error.faults)
    if faults:
        raise RulesInvalid(faults)
    return found[0], found[1]


def _affected(job: CandidateJob, loaded: Policy, candidate: Policy) -> SandboxResult:
    """A result with the changes for all possible deployments and requests, and of known problems.

    The engine only has to accept the rules of releases that differ: it accepted the loaded ones before.
    """
    # the solver is slow to import
    from policy.proof.documents import effect_document, request_effect_document  # noqa: PLC0415  # see above
    from policy.proof.edit import edit_of  # noqa: PLC0415  # see above

    before = loaded.catalogue.rules_by_release
    for release, rules in candidate.catalogue.rules_by_release.items():
        if rules != before.get(release):
            candidate.ruleset(release)
    found = edit_of(loaded, candidate, today=job.today)
    return SandboxResult(
        affected=msgspec.convert([*map(effect_document, found.effects)], list[AffectedClass]),
        requests=msgspec.convert([*map(request_effect_document, found.request_effects)], list[AffectedRequests]),
        known_problems=list(found.problems),
    )


def _encode(comparison: DryRunComparison | DryRunComparisonOfAll, *, as_text: bool) -> str:
    if not as_text:
        return encode_decision(comparison).decode()
    from policy.checks import report  # noqa: PLC0415  # the import takes a tenth of a second, for terminals only
    from policy.render import as_text as on_lines  # noqa: PLC0415  # as above

    return on_lines(
        report.comparison(comparison)
        if isinstance(comparison, DryRunComparison)
        else report.comparison_of_all(comparison)
    )


def limit_answer(result: SandboxResult, limit: int, path: Path | None) -> SandboxResult:
    """The result with a large answer moved to the file, or a fault if the answer has more than ``limit`` bytes.

    Raises:
        OSError: the file cannot be written.
    """
    if result.answer is None:
        return result
    answer = result.answer.encode()
    if len(answer) > limit:
        message = f"the answer would have more than {limit} bytes; shorten the texts of the rules, or state fewer facts"
        return SandboxResult(request_faults=[RequestFault("", message)], problem=TOO_LARGE)
    if path is None or len(answer) <= INLINE:
        return result
    path.write_bytes(answer)
    return SandboxResult(spooled=len(answer))


def timeout_message(seconds: float) -> str:
    """The message for candidate rules that took more than ``seconds`` of processor time."""
    return f"the candidate rules took more than {seconds:g} s; make their conditions simpler"


def wait_message(seconds: float) -> str:
    """The message for candidate rules without a result after ``seconds``, within their limit of processor time."""
    return f"the candidate rules had no result after {seconds:g} s, as the machine is busy; send the request again"


def exit_reason(code: int, seconds: float) -> str:
    """Why a process with a limit of ``seconds`` ended without a result, by its exit code (negative for a signal)."""
    if code == -signal.SIGXCPU:
        return timeout_message(seconds)
    if code in KILLED:
        return (
            f"the process that evaluates the candidate rules was killed (signal {-code}), as by a machine without "
            "memory; send the request again"
        )
    if code < 0:
        return f"the candidate rules crashed the engine (signal {-code}); make their conditions simpler"
    if code == NO_MEMORY:
        return "the candidate rules need more memory than a dry run may use; make their conditions simpler"
    return (
        f"the process that evaluates the candidate rules failed with the exit code {code}; try it again, and report "
        "it as a defect of Runner Policy if it fails again"
    )


def _limited(result: SandboxResult) -> SandboxResult:
    """The result by ``limit_answer``, if the arguments of the process limit it."""
    if len(sys.argv) == 1:
        return result
    try:
        return limit_answer(result, int(sys.argv[1]), Path(sys.argv[2]) if sys.argv[2:] else None)
    except OSError:
        sys.exit(NOT_WRITTEN)


def main() -> None:
    """Run the job on standard input within the limits; the process ends if it exceeds them."""
    collect_rarely()
    job = read_job(sys.stdin.buffer.read())
    limit_process(MEMORY_LIMIT, job.seconds)
    try:
        answer = encode(_limited(run_job(job)))
    except MemoryError:
        sys.exit(NO_MEMORY)
    sys.stdout.buffer.write(answer)


if __name__ == "__main__":
    main()
