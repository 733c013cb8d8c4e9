"""The test cases of the rules, which run through the engine.

Owns the format of ``…_test.yaml`` files, the running of cases, and the requirement that every rule has a hit in each
range, a near miss and a case just outside its releases. A case *fires* if the rule applies in the decision: its
condition holds and no other rule excludes it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeVar

from msgspec.structs import replace
from packaging.version import Version

from policy.decision.decision import Reason
from policy.errors import Fault, RequestFault, RequestInvalid, RulesInvalid
from policy.facts.facts import TREE, read_facts
from policy.messages import listed, quoted
from policy.parser.fields import FieldReader, add_fault, described
from policy.parser.yamltree import read_rule_file, read_yaml
from policy.pointer import steps_of
from policy.request.request import Request
from policy.rules.effects import Layer
from policy.rules.images import FOLDER
from policy.rules.loader import SUFFIX, TEST_SUFFIX
from policy.rules.releases import series, spans
from policy.rules.request_rule import is_request_rule
from policy.rules.rule import LONG_AGO
from policy.rules.suggestions import suggest_given
from policy.rules.synonyms import CASE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from policy.decision.known_problems import KnownProblem
    from policy.facts.facts import Facts
    from policy.parser.yamltree import YamlNode
    from policy.policy import Policy
    from policy.rules.catalogue import Catalogue
    from policy.rules.releases import Releases
    from policy.rules.request_rule import RequestRule
    from policy.rules.rule import Rule

C = TypeVar("C")

SERIES: Final = re.compile(r"v?([0-9]{1,4})\.([0-9]{1,4})(?![0-9])")
EXAMPLES: Final = {"vllm": "[0.23.0]", "given": "{model_config: {is_moe: true}}", "fires": "true"}
"""Example values, for messages about missing fields."""
ELSEWHERE: Final = {
    **dict.fromkeys(TREE.members, "it is a fact; write it below `given:`, indented"),
    **dict.fromkeys(
        ("runner", "outcome", "effect", "decision"),
        "a case is about its rule alone; write `fires`, and `message` or `starts` if they matter",
    ),
}
"""Advice for fields that a case cannot have."""


@dataclass(frozen=True, slots=True)
class Case:
    """A claim about a rule: whether it fires for these facts in these releases.

    ``message`` is the rule's expected text, ``starts`` whether vLLM is expected to start.
    """

    rule: str
    name: str
    releases: tuple[str, ...]
    given: Mapping[str, Any]
    fires: bool
    message: str | None
    starts: bool | None
    path: str
    line: int


@dataclass(frozen=True, slots=True)
class AcceptedMutant:
    """A mutant that no case can detect, and why; ``change``, in the range ``vllm``, is as ``mutants`` reports it."""

    item: str
    vllm: str
    change: str
    why: str
    path: str
    line: int


class Claim(Protocol):
    """A case of a rule or of a row of ``images/``, as reports name it; ``rule`` is the id of either."""

    @property
    def rule(self) -> str: ...  # noqa: D102  # the class describes it
    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def path(self) -> str: ...  # noqa: D102
    @property
    def line(self) -> int: ...  # noqa: D102


def is_of_images(path: str) -> bool:
    """Whether a file has the cases of images, which ``image_cases`` reads."""
    return path.startswith(f"{FOLDER}/")


def _is_elsewhere(path: str) -> bool:
    """Whether another module reads a file of cases."""
    return is_of_images(path) or is_request_rule(path)


ClaimT = TypeVar("ClaimT", bound=Claim)
ClaimT_co = TypeVar("ClaimT_co", bound=Claim, covariant=True)


@dataclass(frozen=True, slots=True)
class CaseResult(Generic[ClaimT_co]):
    """The result of a case in one release; ``found`` is what happened instead, if the case failed."""

    case: ClaimT_co
    release: str
    found: str | None

    @property
    def passed(self) -> bool:
        """Whether the claim is true."""
        return self.found is None


def read_files(
    texts: Mapping[str, str], read: Callable[[YamlNode, FieldReader], Iterable[C]], faults: list[Fault]
) -> list[C]:
    """The cases that ``read`` finds in each file, in the order of the paths; faults are appended to ``faults``."""
    cases: list[C] = []
    for path, text in sorted(texts.items()):
        reader = FieldReader(path)
        try:
            node = read_rule_file(text, path)
            reader.check_booleans(node)
            cases.extend(read(node, reader))
            found: Iterable[Fault] = reader.faults
        except RulesInvalid as error:
            found = error.faults
        for fault in found:
            add_fault(faults, fault)
    return cases


def read_cases(texts: Mapping[str, str], catalogue: Catalogue) -> list[Case]:
    """The cases of rules in these files; files of ``images/`` and ``upstream/requests/`` are left out.

    Raises:
        RulesInvalid: with every fault, including missing cases of rules.
    """
    faults: list[Fault] = []
    own = {path: text for path, text in texts.items() if not _is_elsewhere(path)}
    cases = read_files(own, lambda node, reader: _read_file(node, reader, catalogue), faults)
    if not faults:
        of_rule = by_rule(cases)
        faults.extend(
            fault
            for rule in catalogue.rules
            for fault in _missing_cases(rule, of_rule.get(rule.id, []), catalogue.releases, texts)
        )
    if faults:
        raise RulesInvalid(faults)
    return cases


def read_some_cases(texts: Mapping[str, str], catalogue: Catalogue) -> tuple[list[Case], dict[str, list[str]]]:
    """The cases of rules in these texts, whatever their paths, and what each of the rules still lacks.

    Raises:
        RulesInvalid: with every fault.
    """
    faults: list[Fault] = []
    cases = read_files(texts, lambda node, reader: _read_file(node, reader, catalogue), faults)
    if faults:
        raise RulesInvalid(faults)
    lacking: dict[str, list[str]] = {}
    for name, own in by_rule(cases).items():
        rule = catalogue.rule(name)
        assert rule is not None  # INVARIANT: a case of an unknown rule is a fault
        lacking[name] = missing_kinds(rule, own, catalogue.releases)
    return cases, lacking


def by_rule(cases: Iterable[ClaimT]) -> dict[str, list[ClaimT]]:
    """The cases of each rule that has any, in their order."""
    found: dict[str, list[ClaimT]] = {}
    for case in cases:
        found.setdefault(case.rule, []).append(case)
    return found


def cases_path(rule: Rule | RequestRule) -> str:
    """The path of the file with a rule's cases."""
    return rule.path.removesuffix(SUFFIX) + TEST_SUFFIX


def cases_document(path: str, text: str, catalogue: Catalogue) -> dict[str, Any]:
    """A file of cases that was loaded: its path, its text, and the cases in it."""
    items = []
    for case in read_files({path: text}, lambda node, reader: _read_file(node, reader, catalogue), []):
        item = {"name": case.name, "vllm": list(case.releases), "given": case.given, "fires": case.fires}
        optional = {"message": case.message, "starts": case.starts}
        items.append(item | {name: value for name, value in optional.items() if value is not None})
    return {"file": path, "text": text, "items": items}


def read_accepted_mutants(texts: Mapping[str, str]) -> list[AcceptedMutant]:
    """The ``accepted_mutants`` of files of rules' cases that were read without a fault."""
    return [
        mutant
        for path, text in sorted(texts.items())
        if not is_of_images(path)
        for mutant in accepted_mutants(read_yaml(text, path), FieldReader(path))
    ]


def accepted_mutants(node: YamlNode, reader: FieldReader) -> Iterator[AcceptedMutant]:
    """The ``accepted_mutants`` of a file that have no fault."""
    fields = reader.fields(node, "file of cases", ("rule", "cases"), ("accepted_mutants",))
    for item in reader.items(fields.get("accepted_mutants"), "accepted_mutants"):
        parts = reader.fields(item, "accepted mutant", ("vllm", "change", "why"), ("item",))
        vllm, change, why = (reader.text(parts.get(name)) for name in ("vllm", "change", "why"))
        name = reader.text(parts.get("item", fields.get("rule")))
        if name and vllm and change and why:
            yield AcceptedMutant(name, vllm, change, why, reader.path, item.line)


def _read_file(node: YamlNode, reader: FieldReader, catalogue: Catalogue) -> Iterator[Case]:
    fields = reader.fields(node, "file of cases", ("rule", "cases"), ("accepted_mutants",))
    list(accepted_mutants(node, reader))
    name = reader.text(fields.get("rule"))
    rule = catalogue.rule(name) if name else None
    is_file = reader.path.endswith(TEST_SUFFIX)
    if name and is_file and reader.path.rpartition("/")[2] != name + TEST_SUFFIX:
        stem = reader.path.rpartition("/")[2].removesuffix(TEST_SUFFIX)
        reader.fault(
            fields["rule"],
            f"expected the cases of {quoted(name)} in `{name}{TEST_SUFFIX}`; rename the file, or write `rule: {stem}`",
        )
    elif name and rule is None:
        reader.fault(fields["rule"], f"unknown rule {quoted(name)}; add `{name}.yaml`, or remove this file")
    for item in reader.items(fields.get("cases"), "cases"):
        parts = reader.fields(
            item,
            "case",
            ("name", "vllm", "given", "fires"),
            ("message", "starts"),
            synonyms=CASE_FIELDS,
            elsewhere=ELSEWHERE,
            examples=EXAMPLES,
        )
        title, message = reader.text(parts.get("name")), reader.text(parts.get("message"))
        releases = read_known(parts.get("vllm"), catalogue.releases, reader)
        fires, starts = (read_boolean(parts.get(name), reader) for name in ("fires", "starts"))
        given = _read_given(parts.get("given"), releases, reader)
        if title and releases and fires is not None and given is not None and rule is not None:
            yield Case(rule.id, title, releases, given, fires, message, starts, reader.path, item.line)


def read_known(node: YamlNode | None, releases: Releases, reader: FieldReader) -> tuple[str, ...]:
    """The known releases in a list, or a single one, without duplicates."""
    nodes = reader.items(node, "releases") if node and isinstance(node.value, list) else [node] if node else []
    found: dict[str, None] = {}
    for item in nodes:
        if item.value in releases.known:
            found[str(item.value)] = None
        else:
            advice = _release_advice(item, releases)
            reader.fault(item, f"expected a known release, got {quoted(item.plain())}; {advice}")
    return tuple(found)


def _release_advice(node: YamlNode, releases: Releases) -> str:
    """Advice for an unknown release: the known releases of its series, or all of them."""
    whole = f"the known releases are {spans(releases.known, releases.known)}"
    text = str(node.written if node.written is not None else node.value)
    number = SERIES.match(text)
    if number is None:
        return f"list each of them with three numbers, such as `[{releases.known[-1]}]`; {whole}"
    same = [release for release in releases.known if series(release) == (int(number[1]), int(number[2]))]
    return f"known in this series: {listed(same)}" if same else whole


def read_boolean(node: YamlNode | None, reader: FieldReader) -> bool | None:
    """A boolean; ``None`` after a fault, or if it is missing."""
    if node is None:
        return None
    if isinstance(node.value, bool):
        return node.value
    advice = "; write it without quotes" if isinstance(node.value, str) and node.value in {"true", "false"} else ""
    reader.fault(node, f"expected `true` or `false`, got {described(node)}{advice}")
    return None


def _read_given(node: YamlNode | None, releases: Iterable[str], reader: FieldReader) -> dict[str, Any] | None:
    if node is None or not isinstance(node.value, dict):
        if node is not None:
            example = "such as `{model_config: {is_moe: true}}`"
            reader.fault(node, f"expected a map of facts, nested as in a request, {example}, got {described(node)}")
        return None
    for name, child in node.value.items():
        if name not in TREE.members:
            legal, meant = listed(TREE.members), suggest_given(name, child.plain())
            reader.fault(child, f"unknown field {quoted(name)}; legal: {legal}{meant}", key=True)
    given = {name: child.plain() for name, child in node.value.items() if name in TREE.members}
    faults: list[RequestFault] = []
    for release in releases:
        read_facts(given, series(release), "", faults)
    for fault in dict.fromkeys(faults):
        place = node
        for key in steps_of(fault.pointer):
            place = place.value[key] if isinstance(place.value, dict) else place
        reader.fault(place, fault.message, key=True)
    return given


def _missing_cases(rule: Rule, cases: list[Case], releases: Releases, files: Collection[str]) -> Iterator[Fault]:
    """A fault for each required kind of case that a rule lacks, or one fault if its file is missing."""
    path = cases_path(rule)
    missing = missing_kinds(rule, cases, releases)
    if path not in files and missing and not cases:
        yield Fault(path, 1, 1, f"missing; write the cases of {quoted(rule.id)} in it, at least {'; '.join(missing)}")
        return
    for what in missing:
        yield Fault(cases[0].path if cases else path, 1, 1, f"the cases of {quoted(rule.id)} lack {what}; add it")


def missing_kinds(rule: Rule, cases: list[Case], releases: Releases) -> list[str]:
    """Each required kind of case that a rule lacks, in words."""
    inside = [release for release in releases.known if rule.range_of(release)]
    outside = _just_outside(rule, releases)
    missing = [
        f"one in `{part.span.text}` that fires"
        for part in rule.ranges
        if not any(case.fires and any(part.span.holds(Version(release)) for release in case.releases) for case in cases)
    ]
    if not any(not case.fires and set(case.releases) & set(inside) for case in cases):
        missing.append(f"a near miss, one in {spans(inside, releases.known)} that does not fire")
    if outside and not any(not case.fires and set(case.releases) & set(outside) for case in cases):
        missing.append(f"one just outside the rule's releases, in {' or '.join(outside)}, that does not fire")
    return missing


def _just_outside(rule: Rule, releases: Releases) -> list[str]:
    inside = [bool(rule.range_of(release)) for release in releases.known]
    beside = [any(inside[max(0, n - 1) : n + 2]) and not inside[n] for n in range(len(inside))]
    return [release for release, out in zip(releases.known, beside, strict=True) if out]


def run_cases(cases: Iterable[Case], policy: Policy) -> Iterator[CaseResult[Case]]:
    """Run each case in each of its releases through the engine."""
    for case in cases:
        rule = policy.catalogue.rule(case.rule)
        assert rule is not None
        for release in case.releases:
            faults: list[RequestFault] = []
            facts = read_facts(case.given, series(release), "", faults)
            if faults:
                raise RequestInvalid(faults)
            yield CaseResult(
                case, release, _failure(case, facts, release, policy, upstream_only=rule.layer is Layer.UPSTREAM)
            )


def _failure(case: Case, facts: Facts, release: str, policy: Policy, *, upstream_only: bool) -> str | None:
    request = Request(facts, release, policy.releases.resolve(release), upstream_only, None, explain=False)
    decision = policy.decide(request, LONG_AGO)
    if case.starts is not None and decision.starts is not case.starts:
        return f"vLLM {'starts' if decision.starts else f'does not start: {decision.startup_errors}'}"
    found: list[Reason | KnownProblem] = [*decision.reasons, *decision.known_problems]
    reason = next((each for each in found if each.rule == case.rule), None)
    if reason is None:
        if not case.fires:
            return None
        # Only a failure needs an explanation, which costs more than all the rest.
        explained = policy.decide(replace(request, explain=True), LONG_AGO)
        traced = next((item for item in explained.trace or [] if item.rule == case.rule), None)
        failed = (
            "; ".join(
                f"`{item.fact}` is {_json(item.actual)}, expected {_json(item.expected)}" for item in traced.failed
            )
            if traced
            else "the rule does not apply to the release"
        )
        return f"it does not fire: {failed}"
    if not case.fires:
        return "it fires"
    text = reason.feature if isinstance(reason, Reason) and reason.feature is not None else reason.message
    return f"expected the text {quoted(case.message)}, got {quoted(text)}" if case.message not in {None, text} else None


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
