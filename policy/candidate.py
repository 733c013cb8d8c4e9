"""Candidate rules: laid over the loaded ones and tried in a process of their own, which can be stopped.

Owns the laying over, the process's bounds, and the comparing of two decisions. A definition that the
engine chokes on, a condition that eats memory or time, a crash in C: all of it ends with the process,
and the loaded rules never see it. ``python -m policy.candidate`` is that process: a job on standard
input, an answer on standard output.
"""

from __future__ import annotations

import resource
import signal
import sys
from datetime import date  # noqa: TC003  # msgspec reads the annotations
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from policy.catalogue import load
from policy.decision import Decision
from policy.decision import encode as encode_decision
from policy.errors import Fault, Misfit, PolicyError, RequestInvalid, RulesInvalid, nearest, quoted
from policy.folder import Sources
from policy.policy import Policy
from policy.precedence import Layer, effects_of
from policy.reader import NAME
from policy.request import read_request
from policy.source import read_yaml

if TYPE_CHECKING:
    from collections.abc import Mapping

MEMORY: Final = 1 << 30
MAX_RULES: Final = 100
COMMAND: Final = (sys.executable, "-P", "-m", "policy.candidate")


class Job(Struct, frozen=True):
    """What is to be tried: the loaded rules' texts, the candidates', the ids to take away, and the request.

    With ``for_all`` the changes are asked of all deployments that there can be, not of the request's alone. Where
    ``current`` is there, the decision by the loaded rules, the process compares too, with ``as_text`` for a terminal.
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


class RuleFault(Struct, frozen=True):
    """A fault in a rule, as the process reports it."""

    path: str
    line: int
    column: int
    message: str


class Stand(Struct, frozen=True):
    """Where a class of deployments stands: its runner, outcome and start, and by which rules."""

    runner: str | None
    outcome: str | None
    starts: bool
    reasons: list[dict[str, str]]


class Affected(Struct, frozen=True):
    """A class of deployments that the candidate rules affect in these releases, and the smallest of them, by its facts."""

    releases: list[str]
    rule: str
    rules: list[str]
    facts: dict[str, Any]
    from_: Stand = msgspec.field(name="from")
    to: Stand


class Tried(Struct, frozen=True):
    """The answer: a decision, or why there is none. ``misfits`` are (pointer, message).

    ``answer`` is the comparison, encoded, where the job asked for one.
    """

    decision: Decision | None = None
    answer: str | None = None
    affected: list[Affected] | None = None
    rules: list[str] = []
    faults: list[RuleFault] = []
    misfits: list[tuple[str, str]] = []
    problem: str = ""
    failed: str = ""


class Change(Struct, frozen=True):
    """A member of the decision that the candidate rules change, and the rules that do it."""

    member: str
    from_: Any = msgspec.field(name="from")
    to: Any = None
    rules: list[str] = []


class Comparison(Struct, frozen=True):
    """What a dry run with candidate rules answers."""

    current: Decision
    candidate: Decision
    changes: list[Change]


class ComparisonOfAll(Struct, frozen=True):
    """The same where the changes are asked of all deployments that there can be; none is a proof."""

    current: Decision
    candidate: Decision
    changes: list[Affected]


COMPARED: Final = ("runner", "outcome", "starts", "startup_errors", "unsupported_features", "v1_unsupported_features", "upstream", "set_env", "warnings")

read_job = msgspec.json.Decoder(Job).decode
read_tried = msgspec.json.Decoder(Tried).decode
encode = msgspec.json.encode


def with_models(document: dict[str, Any], found: Mapping[str, tuple[Mapping[str, Any], Mapping[str, str]]]) -> dict[str, Any]:
    """A request with a deployment that brings the models that were found for it elsewhere, because a job looks nowhere."""
    deployment = document["deployment"]
    configs = {name: config for name, (config, _) in found.items()}
    files = {f"{name}/{file}": text for name, (_, files) in found.items() for file, text in files.items()}
    brought = {"model_configs": configs | (deployment.get("model_configs") or {}), "files": files | (deployment.get("files") or {})}
    return {**document, "deployment": {**deployment, **brought}}


def laid_over(base: dict[str, str], rules: list[str], remove: list[str]) -> tuple[dict[str, str], list[str]]:
    """The texts with candidates in place of the rules of the same id and others taken away, and the ids touched.

    A candidate with a new id goes to the house layer, or to upstream's where only that has its effect.

    Raises:
        RulesInvalid: a candidate's text is no YAML, has no id, or has another's.
        RequestInvalid: an id to remove is not there.
    """
    texts = dict(base)
    by_id = {path.rpartition("/")[2].removesuffix(".yaml"): path for path in base if "/" in path}
    ids: list[str] = []
    given: dict[str, str] = {}
    faults: list[Fault] = []
    misfits: list[Misfit] = []
    for place, name in enumerate(remove):
        if name in by_id:
            texts.pop(by_id[name], None)
            ids.append(name)
        else:
            misfits.append(Misfit(f"/remove/{place}", f"no rule is called {quoted(name)}{nearest(name, by_id)}"))
    for number, text in enumerate(rules):
        path = f"rules[{number}]"
        try:
            node = read_yaml(text, path)
        except RulesInvalid as error:
            faults.extend(error.faults)
            continue
        document = node.plain()
        rule_id = document.get("id") if isinstance(document, dict) else None
        if not isinstance(rule_id, str) or not NAME.fullmatch(rule_id):
            faults.append(Fault(path, node.line, node.column, "the rule has no `id` in lower-case words with hyphens; add it"))
            continue
        if rule_id in given:
            faults.append(Fault(path, node.line, node.column, f"the rule {quoted(rule_id)} is {given[rule_id]} as well; give each rule once"))
            continue
        given[rule_id] = path
        ids.append(rule_id)
        texts[by_id.get(rule_id) or f"{_layer(document)}/{rule_id}.yaml"] = text
    if misfits:
        raise RequestInvalid(misfits)
    if faults:
        raise RulesInvalid(faults)
    return texts, ids


def _layer(document: dict[str, Any]) -> Layer:
    effect = document.get("effect")
    return Layer.UPSTREAM if effect in effects_of(Layer.UPSTREAM) and effect not in effects_of(Layer.HOUSE) else Layer.HOUSE


def attempt(job: Job) -> Tried:
    """The decision under the candidate rules, or what keeps it from being made."""
    try:
        texts, ids = laid_over(job.base, job.rules, job.remove)
        policy = Policy(load(Sources(texts)), job.default_release)
        decision = policy.decide(read_request(job.request, policy.releases), job.today)
        affected = _affected(Policy(load(Sources(job.base))), policy) if job.for_all else None
        tried = Tried(decision, affected=affected, rules=ids)
        return tried if job.current is None else Tried(answer=_answer(compare(job.current, tried), as_text=job.as_text))
    except RulesInvalid as error:
        return Tried(faults=[RuleFault(fault.path, fault.line, fault.column, fault.message) for fault in error.faults])
    except RequestInvalid as error:
        return Tried(misfits=[(fault.pointer, fault.message) for fault in error.faults], problem=error.problem)
    except PolicyError as error:
        return Tried(failed=str(error))


def _affected(loaded: Policy, candidate: Policy) -> list[Affected]:
    from policy.proof.edit import edit_of  # noqa: PLC0415  # the solver takes a third of a second to import, and is seldom asked
    from policy.proof.report import change_document  # noqa: PLC0415  # as above

    found = [{"releases": effect.releases, **change_document(effect.change)} for effect in edit_of(loaded, candidate).effects]
    return msgspec.convert(found, list[Affected])


def _answer(found: Comparison | ComparisonOfAll, *, as_text: bool) -> str:
    if not as_text:
        return encode_decision(found).decode()
    from policy import render  # noqa: PLC0415  # a tenth of a second to import, for terminals only

    shown = render.comparison(found) if isinstance(found, Comparison) else render.comparison_of_all(found)
    return render.as_text(shown)


def answer_of(tried: Tried) -> bytes:
    """The comparison that a job with a ``current`` decision asked for, encoded.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(tried)
    if tried.answer is None:
        raise RulesInvalid([Fault("rules", 1, 1, tried.failed)])
    return tried.answer.encode()


def compare(current: Decision, tried: Tried) -> Comparison | ComparisonOfAll:
    """Both decisions and what differs; each change names the touched rules that stand in either, or else all whose reasons differ.

    Raises:
        RulesInvalid, RequestInvalid: the candidate was refused.
    """
    _refuse(tried)
    if tried.decision is None:
        raise RulesInvalid([Fault("rules", 1, 1, tried.failed)])
    candidate = tried.decision
    if tried.affected is not None:
        return ComparisonOfAll(current, candidate, tried.affected)
    before = {reason.rule: reason for reason in current.reasons}
    after = {reason.rule: reason for reason in candidate.reasons}
    differing = [name for name in {**before, **after} if before.get(name) != after.get(name)]
    rules = [name for name in dict.fromkeys(tried.rules) if name in before or name in after] or differing
    changes = [
        Change(member, getattr(current, member), getattr(candidate, member), rules)
        for member in COMPARED
        if getattr(current, member) != getattr(candidate, member)
    ]
    return Comparison(current, candidate, changes)


def _refuse(tried: Tried) -> None:
    if tried.faults:
        raise RulesInvalid(Fault(fault.path, fault.line, fault.column, fault.message) for fault in tried.faults)
    if tried.misfits:
        raise RequestInvalid([Misfit(*misfit) for misfit in tried.misfits], tried.problem)


def too_slow(seconds: float) -> str:
    """What is said of rules that took more than ``seconds``."""
    return f"the candidate rules took more than {seconds:g} s; make their conditions simpler"


def stopped(code: int, seconds: float) -> str:
    """Why a process with ``seconds`` to its name ended without an answer, by its exit code: a signal's negative number, or an error's."""
    if code == -signal.SIGXCPU:
        return too_slow(seconds)
    if code < 0:
        return f"the candidate rules broke the engine (signal {-code}); make their conditions simpler"
    return "the candidate rules took more memory than a dry run may; make their conditions simpler"


def main() -> None:
    """Try the job on standard input within its bounds; what exceeds them ends the process."""
    job = read_job(sys.stdin.buffer.read())
    resource.setrlimit(resource.RLIMIT_CPU, (job.seconds, job.seconds + 1))  # SIGXCPU tells it from other ends
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(encode(attempt(job)))


if __name__ == "__main__":
    main()
