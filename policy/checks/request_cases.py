"""The test cases of the rules about requests, which run through the engine.

Owns the format of the ``…_test.yaml`` files in ``upstream/requests/``, the running of their cases, and the requirement
that every rule has a hit in each range, a near miss and a case just outside its releases. A case has a ``runner``, V2
if it names none; it *fires* if the rule's condition holds and the rule is about that runner.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.checks.cases import CaseResult, accepted_mutants, by_rule, read_boolean, read_files, read_known
from policy.errors import Fault, RulesInvalid
from policy.facts.facts import read_row
from policy.messages import listed, quoted
from policy.pointer import steps_of
from policy.rules.effects import Runner
from policy.rules.loader import SUFFIX, TEST_SUFFIX
from policy.rules.releases import series
from policy.rules.request_rule import is_request_rule

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from policy.errors import RequestFault
    from policy.parser.fields import FieldReader
    from policy.parser.yamltree import YamlNode
    from policy.rules.catalogue import Catalogue
    from policy.rules.releases import Releases
    from policy.rules.request_rule import RequestRule
    from policy.sampling.check import RequestChecker, RequestRuleset

REQUIRED_FIELDS: Final = ("name", "vllm", "given", "fires")
EXAMPLES: Final = {
    "vllm": "[0.23.0]",
    "given": "{request: {allowed_token_ids: 1025}}",
    "fires": "true",
}
"""Example values, for messages about missing fields."""


@dataclass(frozen=True, slots=True)
class RequestCase:
    """A claim about a rule: whether it fires for these facts of a deployment and a request, with a runner."""

    rule: str
    name: str
    releases: tuple[str, ...]
    given: Mapping[str, Any]
    runner: Runner
    fires: bool
    message: str | None
    path: str
    line: int


def read_request_cases(texts: Mapping[str, str], catalogue: Catalogue) -> list[RequestCase]:
    """The cases in the files of ``upstream/requests/`` among these.

    Raises:
        RulesInvalid: with every fault, including missing cases of rules.
    """
    faults: list[Fault] = []
    own = {path: text for path, text in texts.items() if is_request_rule(path)}
    cases = _read_files(own, catalogue, faults)
    if not faults:
        of_rule = by_rule(cases)
        faults = [
            fault
            for rule in catalogue.request_rules
            for fault in _missing_cases(rule, of_rule.get(rule.id, []), catalogue.releases)
        ]
    if faults:
        raise RulesInvalid(faults)
    return cases


def read_some_request_cases(
    texts: Mapping[str, str], catalogue: Catalogue
) -> tuple[list[RequestCase], dict[str, list[str]]]:
    """The cases of rules about requests in these texts, and what each of the rules still lacks.

    Raises:
        RulesInvalid: with every fault.
    """
    faults: list[Fault] = []
    cases = _read_files(texts, catalogue, faults)
    if faults:
        raise RulesInvalid(faults)
    of_rule = by_rule(cases)
    return cases, {
        rule.id: missing_kinds(rule, of_rule[rule.id], catalogue.releases)
        for rule in catalogue.request_rules
        if rule.id in of_rule
    }


def request_cases_document(path: str, text: str, catalogue: Catalogue) -> dict[str, Any]:
    """A file of cases of a rule about requests that was loaded: its path, its text, and the cases in it."""
    items = []
    for case in _read_files({path: text}, catalogue, []):
        item: dict[str, Any] = {
            "name": case.name,
            "vllm": list(case.releases),
            "runner": case.runner,
            "given": case.given,
        }
        item["fires"] = case.fires
        items.append(item if case.message is None else {**item, "message": case.message})
    return {"file": path, "text": text, "items": items}


def _read_files(texts: Mapping[str, str], catalogue: Catalogue, faults: list[Fault]) -> list[RequestCase]:
    rules = {rule.id: rule for rule in catalogue.request_rules}
    return read_files(texts, lambda node, reader: _read_file(node, reader, rules, catalogue.releases), faults)


def _read_file(
    node: YamlNode, reader: FieldReader, rules: Mapping[str, RequestRule], releases: Releases
) -> Iterator[RequestCase]:
    fields = reader.fields(node, "file of cases", ("rule", "cases"), ("accepted_mutants",))
    list(accepted_mutants(node, reader))
    name = reader.text(fields.get("rule"))
    is_file = reader.path.endswith(TEST_SUFFIX)
    stem = reader.path.rpartition("/")[2].removesuffix(TEST_SUFFIX) if is_file else name
    if name is not None and (name != stem or name not in rules):
        reader.fault(fields["rule"], f"{quoted(name)} is not the rule of this file; write `rule: {stem}`")
    for item in reader.items(fields.get("cases"), "cases"):
        parts = reader.fields(
            item, "case", ("name", "vllm", "given", "fires"), ("message", "runner"), examples=EXAMPLES
        )
        title, message, runner = (reader.text(parts.get(word)) for word in ("name", "message", "runner"))
        if runner is not None and runner not in set(Runner):
            reader.fault(parts["runner"], f"unknown model runner {quoted(runner)}; legal: {listed(Runner)}")
            continue
        known = read_known(parts.get("vllm"), releases, reader)
        fires, given = read_boolean(parts.get("fires"), reader), _read_given(parts.get("given"), known, reader)
        if title and known and fires is not None and given is not None and name is not None and name in rules:
            yield RequestCase(
                name, title, known, given, Runner(runner or Runner.V2), fires, message, reader.path, item.line
            )


def _read_given(node: YamlNode | None, releases: Iterable[str], reader: FieldReader) -> dict[str, Any] | None:
    given = None if node is None else node.plain()
    if node is None or not isinstance(given, dict):
        if node is not None:
            reader.fault(node, "expected a map of facts, such as `{request: {allowed_token_ids: 1025}}`")
        return None
    faults: list[RequestFault] = []
    for release in releases:
        read_row(given, series(release), faults)
    for fault in dict.fromkeys(faults):
        place = node
        for key in steps_of(fault.pointer):
            place = place.value.get(key, place) if isinstance(place.value, dict) else place
        reader.fault(place, fault.message, key=True)
    return given


def missing_kinds(rule: RequestRule, cases: list[RequestCase], releases: Releases) -> list[str]:
    """Each required kind of case that a rule lacks, in words."""
    spans = [part.span for part in rule.ranges]
    inside = {release for release in releases.known if any(span.holds(Version(release)) for span in spans)}
    known = list(releases.known)
    beside = {
        known[n] for n in range(len(known)) if known[n] not in inside and inside & set(known[max(0, n - 1) : n + 2])
    }
    missing = [
        f"one in `{span.text}` that fires"
        for span in spans
        if not any(case.fires and any(span.holds(Version(release)) for release in case.releases) for case in cases)
    ]
    if not any(not case.fires and inside & set(case.releases) for case in cases):
        missing.append("a near miss, one in the rule's releases that does not fire")
    if beside and not any(not case.fires and beside & set(case.releases) for case in cases):
        missing.append(f"one just outside the rule's releases, in {' or '.join(sorted(beside))}, that does not fire")
    return missing


def _missing_cases(rule: RequestRule, cases: list[RequestCase], releases: Releases) -> Iterator[Fault]:
    """One fault that names the required kinds of case that a rule lacks, if any."""
    if missing := missing_kinds(rule, cases, releases):
        path = cases[0].path if cases else rule.path.removesuffix(SUFFIX) + TEST_SUFFIX
        yield Fault(path, 1, 1, f"the cases of {quoted(rule.id)} lack {'; '.join(missing)}; add it")


def run_request_cases(cases: Iterable[RequestCase], checker: RequestChecker) -> Iterator[CaseResult[RequestCase]]:
    """Run each case in each of its releases through the engine."""
    for case in cases:
        for release in case.releases:
            yield CaseResult(case, release, failure(case, release, checker.ruleset(release)))


def failure(case: RequestCase, release: str, ruleset: RequestRuleset) -> str | None:
    """What the rules of a release do instead of what a case claims; ``None`` if the claim is true."""
    row = read_row(case.given, series(release), [])
    fired = [
        item for item in ruleset.fired(row) if item.rule.id == case.rule and item.range.runner in {None, case.runner}
    ]
    if bool(fired) is not case.fires:
        return "it fires" if fired else "it does not fire"
    if not fired or case.message is None:
        return None
    text = fired[0].range.template.filled(row, {})
    return None if text == case.message else f"expected the text {quoted(case.message)}, got {quoted(text)}"
