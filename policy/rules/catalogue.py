"""All files of a rules folder → the catalogue: the rules of every release, checked against each other.

Owns the checks across files: ids, names and ranges. ``completeness`` has the checks of each release's rules. Named
conditions are resolved here, for each release.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from datetime import date, timedelta
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from packaging.version import Version

from policy.errors import Fault, RulesInvalid
from policy.facts.vocabulary import VOCABULARY
from policy.messages import listed, quoted
from policy.parser.fields import FieldReader, ReleaseRange, add_fault
from policy.parser.yamltree import read_rule_file
from policy.rules.completeness import duplicate_orders, forced_without_v2, undecided_releases
from policy.rules.conditions import MAX_WAYS, Condition, leaves, resolve, uses, ways
from policy.rules.effects import TABLE, Layer, Runner
from policy.rules.images import FOLDER, ImageRow, ImageTable, contradicting_digests, duplicate_names, read_images
from policy.rules.loader import Sources, no_pause
from policy.rules.release_list import RELEASES_FILE, read_releases
from policy.rules.release_rule import ReleaseRule, precedence
from policy.rules.releases import Releases, series
from policy.rules.releases import spans as spans_of
from policy.rules.request_rule import ReleaseRequestRule, RequestRule, is_request_rule, read_request_rule
from policy.rules.rule import NamedCondition, Range, Rule, read_named, read_rule
from policy.rules.suggestions import similar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from policy.parser.yamltree import YamlNode

CONDITIONS: Final = "conditions"
FACTS_OF_SOME_RELEASES: Final = {
    fact.name: fact for fact in VOCABULARY if fact.since is not None or fact.until is not None
}

FileItem: TypeAlias = "Rule | RequestRule | NamedCondition | ImageRow | Releases"


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A file's text, the position of its document, and what it contains."""

    text: str
    place: tuple[int, int]
    items: tuple[FileItem, ...]


@dataclass(slots=True)
class Catalogue:
    """The checked content of a rules folder; ``revision`` is a digest of its files."""

    releases: Releases
    rules: tuple[Rule, ...]
    conditions: dict[str, NamedCondition]
    revision: str
    rules_by_release: dict[str, tuple[ReleaseRule, ...]] = field(default_factory=dict)
    request_rules: tuple[RequestRule, ...] = ()
    """The rules about single requests to an engine, which decide nothing about the runner."""
    files: dict[str, RuleFile] = field(default_factory=dict)
    """The files by path, with their content."""

    def request_rules_of(self, release: str) -> tuple[ReleaseRequestRule, ...]:
        """The rules about requests of a known release, the worst first."""
        version = Version(release)
        found = [
            ReleaseRequestRule(rule, part, part.when)
            for rule in self.request_rules
            for part in rule.ranges
            if part.span.holds(version)
        ]
        return tuple(sorted(found, key=lambda item: (-item.rule.verdict.severity, item.rule.id)))

    def request_rules_in_order(self) -> list[RequestRule]:
        """All rules about requests, the worst first."""
        return sorted(self.request_rules, key=lambda rule: (-rule.verdict.severity, rule.id))

    def rules_of(self, release: str) -> tuple[ReleaseRule, ...]:
        """The rules of a known release by precedence, then by their position in vLLM's list."""
        return self.rules_by_release[release]

    def rules_on(self, release: str, today: date) -> tuple[ReleaseRule, ...]:
        """The rules of a known release that have not ended by ``today``, in the same order."""
        return tuple(item for item in self.rules_of(release) if not item.rule.has_ended(today))

    def days_after_ends(self) -> list[date]:
        """The days on which a rule is no longer in force for the first time, ascending."""
        ends = {rule.until for rule in self.rules if rule.until is not None and rule.until < date.max}
        return [until + timedelta(days=1) for until in sorted(ends)]

    def in_order(self) -> list[Rule]:
        """All rules by precedence, then by their position in vLLM's list."""
        return sorted(self.rules, key=lambda rule: (rule.effect.rank, rule.place_among_its_effect, rule.id))

    def rule(self, rule_id: str) -> Rule | None:
        """The rule with this id, if there is one."""
        return next((rule for rule in self.rules if rule.id == rule_id), None)

    def any_rule(self, rule_id: str) -> Rule | RequestRule | None:
        """The rule with this id, which may be one about requests; an id is used once among both."""
        return self.rule(rule_id) or next((rule for rule in self.request_rules if rule.id == rule_id), None)

    def ids(self) -> list[str]:
        """The ids of all rules, with those about requests last."""
        return [*(rule.id for rule in self.rules), *(rule.id for rule in self.request_rules)]


def load(sources: Sources, pause: Callable[[], object] = no_pause, before: Catalogue | None = None) -> Catalogue:
    """The catalogue of the sources; ``pause`` is called after each file, rule and release.

    What unchanged files contain is taken from a catalogue ``before``: so it takes 45 instead of 180 ms of processor
    time.

    Raises:
        RulesInvalid: with every fault of every file.
    """
    reader = _CatalogueReader({} if before is None else before.files)
    for path, text in sorted(sources.rules.items()):
        reader.file(path, text)
        pause()
    return reader.catalogue(revision_of(sources.rules), pause)


def revision_of(texts: Mapping[str, str]) -> str:
    """The digest of the files' paths and texts, which identifies the rules."""
    digest = hashlib.sha256()
    for path, text in sorted(texts.items()):
        for part in (path, text):
            data = part.encode()
            digest.update(len(data).to_bytes(8, "big") + data)
    return f"sha256:{digest.hexdigest()}"


def _contents(node: YamlNode, reader: FieldReader) -> tuple[FileItem, ...]:
    """What a file contains; its path determines what that is."""
    path = reader.path
    folders = path.split("/")[:-1]
    item: FileItem | None = None
    if path == RELEASES_FILE:
        item = read_releases(node, reader)
    elif folders[:1] == [FOLDER]:
        return tuple(read_images(node, reader))
    elif not folders or folders[0] not in set(Layer):
        legal = listed(f"{folder}/" for folder in (*Layer, FOLDER))
        reader.fault(node, f"a rule file must be under {legal}; move it there")
    elif folders[-1] == CONDITIONS:
        item = read_named(node, reader)
    elif is_request_rule(path):
        item = read_request_rule(node, reader)
    else:
        item = read_rule(node, reader, Layer(folders[0]))
    return () if item is None else (item,)


class _CatalogueReader:
    """Reads the files of a catalogue, and collects every fault in them."""

    def __init__(self, known: Mapping[str, RuleFile]) -> None:
        """``known`` has files that were read before, by path."""
        self.known = known
        self.files: dict[str, RuleFile] = {}
        self.faults: list[Fault] = []
        self.rules: dict[str, Rule] = {}
        self.request_rules: dict[str, RequestRule] = {}
        self.conditions: dict[str, NamedCondition] = {}
        self.images: dict[str, ImageRow] = {}
        self.releases: Releases | None = None
        self.without_range: dict[tuple[str, tuple[int, int], str, str], list[str]] = {}
        """The releases for which a named condition has no range, by the place that uses it, its name and the range."""

    def file(self, path: str, text: str) -> None:
        """Read one file; its path determines whether it has releases, images, a named condition or a rule."""
        file = self.known.get(path)
        if file is None or file.text != text:
            reader = FieldReader(path)
            try:
                node = read_rule_file(text, path)
                reader.check_booleans(node)
                file = RuleFile(text, (node.line, node.column), _contents(node, reader))
                found: Iterable[Fault] = reader.faults
            except RulesInvalid as error:
                file, found = None, error.faults
            self.add_faults(found)
        if file is not None:
            self.files[path] = file
            for item in file.items:
                self.add(item, path, file.place)

    def add(self, item: FileItem, path: str, place: tuple[int, int]) -> None:
        """Add what a file contains; an id that another file has is a fault."""
        tables: dict[type, dict[str, Any]] = {
            Rule: self.rules,
            RequestRule: self.request_rules,
            NamedCondition: self.conditions,
            ImageRow: self.images,
        }
        if isinstance(item, Releases):
            self.releases = item
            return
        earlier = tables[type(item)].setdefault(item.id, item)
        if earlier is not item:
            self.fault(path, place, f"the id {quoted(item.id)} is already used by {earlier.path}; choose another")

    def catalogue(self, revision: str, pause: Callable[[], object]) -> Catalogue:
        """The catalogue of all files, after the checks across files; ``pause`` is called after each rule and release.

        Raises:
            RulesInvalid: there is a fault.
        """
        if self.releases is None:
            if not any(fault.path == RELEASES_FILE for fault in self.faults):
                self.faults.append(
                    Fault(RELEASES_FILE, 1, 1, "missing; it lists the known releases and the default one")
                )
            raise RulesInvalid(self.faults)
        images = ImageTable(self.images.values())
        self.add_faults(duplicate_names(images.rows))
        self.add_faults(contradicting_digests(images.rows))
        releases = Releases(
            self.releases.known, self.releases.default, images, self.releases.published, self.releases.removals
        )
        catalogue = Catalogue(releases, tuple(self.rules.values()), self.conditions, revision)
        catalogue.request_rules = tuple(self.request_rules.values())
        catalogue.files = self.files
        for rule in catalogue.rules:
            self.check_names(rule)
            self.check_known_problems(rule)
            self.check_releases(rule, [(part.span, part) for part in rule.ranges], rule.gaps)
            for part in rule.ranges:
                self.check_facts(rule.path, part.span, (part.when, part.cleared_at_startup))
            pause()
        for about_requests in catalogue.request_rules:
            self.check_request_rule(about_requests)
            pause()
        for named in self.conditions.values():
            self.check_releases(named, list(named.ranges), ())
            for span, condition in named.ranges:
                self.check_facts(named.path, span, (condition,))
        for release in self.releases.known:
            catalogue.rules_by_release[release] = self.release_rules(catalogue, release)
            pause()
        for (path, place, name, text), without in self.without_range.items():
            message = f"the condition {quoted(name)} has no range for {spans_of(without, self.releases.known)}"
            self.fault(path, place, f"{message}; add one, or leave these releases out of the range {quoted(text)}")
        self.add_faults(duplicate_orders(catalogue.rules_by_release))
        self.add_faults(undecided_releases(catalogue.rules_by_release, self.releases.known))
        self.add_faults(forced_without_v2(catalogue.rules_by_release, self.releases.known))
        if self.faults:
            raise RulesInvalid(self.faults)
        return catalogue

    def release_rules(self, catalogue: Catalogue, release: str) -> tuple[ReleaseRule, ...]:
        found = []
        version = Version(release)
        named = {
            item.id: next((condition for span, condition in item.ranges if span.holds(version)), None)
            for item in self.conditions.values()
        }
        for rule in catalogue.rules:
            part = rule.range_of(release)
            problem = None if part is None else problem_range(part, self.rules, release)
            if part is not None and (part.known_problem is None or problem is not None):
                when, cleared = (
                    self.resolve_names(rule, part.span, c, named, release)
                    for c in (part.when_with(problem), part.cleared_at_startup)
                )
                found.append(ReleaseRule(rule, part, when, cleared))
        return tuple(sorted(found, key=precedence))

    def resolve_names(
        self,
        rule: Rule,
        span: ReleaseRange,
        condition: Condition | None,
        named: Mapping[str, Condition | None],
        release: str,
    ) -> Condition | None:
        if condition is None:
            return None
        faulty = False
        for use in uses(condition):
            if use.name not in named:
                self.fault(
                    rule.path,
                    (use.line, use.column),
                    f"unknown condition {quoted(use.name)}{similar(use.name, named)}; name a file of a folder "
                    f"`{CONDITIONS}/`, or write the condition in full",
                )
                faulty = True
            elif named[use.name] is None:
                place = rule.path, (use.line, use.column)
                self.without_range.setdefault((*place, use.name, span.text), []).append(release)
                faulty = True
        if faulty:
            return condition
        whole = resolve(condition, {name: body for name, body in named.items() if body is not None})
        if ways(whole) > MAX_WAYS:
            self.fault(
                rule.path,
                rule.place,
                f"the alternatives of the condition combine in {ways(whole)} ways, more than {MAX_WAYS}; "
                "split the rule, or use lists of values",
            )
        return whole

    def check_names(self, rule: Rule) -> None:
        if rule.id in {effect.name for effect in TABLE}:
            self.fault(rule.path, rule.place, f"{quoted(rule.id)} is the name of an effect; choose another id")
        names = dict.fromkeys([*(effect.name for effect in TABLE), *self.rules])
        for part in rule.ranges:
            for name, place in part.names:
                if name not in names:
                    self.fault(rule.path, place, f"unknown effect or rule {quoted(name)}{similar(name, names)}")

    def check_request_rule(self, rule: RequestRule) -> None:
        """Check a rule about requests against the releases and the other rules."""
        if rule.id in self.rules:
            self.fault(rule.path, rule.place, f"the id {quoted(rule.id)} is already used by a rule; choose another")
        for part in rule.ranges:
            if part.when is not None and ways(part.when) > MAX_WAYS:
                message = f"the alternatives of the condition combine in {ways(part.when)} ways, more than {MAX_WAYS}"
                self.fault(rule.path, part.span.place, f"{message}; split the rule")
            self.check_facts(rule.path, part.span, (part.when,))
        self.check_releases(rule, [(part.span, part) for part in rule.ranges], rule.gaps)

    def check_known_problems(self, rule: Rule) -> None:
        """Check that each problem that a house rule names exists, where the rule is, for the runner that it leaves."""
        assert self.releases is not None
        problems = {item.id: item for item in self.rules.values() if item.effect.is_problem}
        for part in rule.ranges:
            name = part.known_problem
            if name is None or rule.effect.runner is None:
                continue
            problem, place = problems.get(name), part.known_problem_place
            if problem is None:
                found = (
                    f"`{name}` has the effect `{self.rules[name].effect.name}`, not `known-problem`"
                    if name in self.rules
                    else f"unknown known problem {quoted(name)}{similar(name, problems)}"
                )
                self.fault(rule.path, place, f"{found}; name a rule with the effect `known-problem`")
                continue
            known = zip(self.releases.known, self.releases.versions, strict=True)
            releases = [release for release, version in known if part.span.holds(version)]
            both = [other for release in releases if (other := problem.range_of(release)) is not None]
            spans = listed(other.span.text for other in problem.ranges)
            if not both:
                message = f"the known problem `{name}` is in {spans}, and in no known release of `{part.span.text}`"
                self.fault(rule.path, place, f"{message}; correct the range")
            elif chosen := [each for each in releases if _is_one_of(problem.range_of(each), rule.effect.runner)]:
                own, left = rule.effect.runner.upper(), rule.effect.runner.other.upper()
                message, advice = f"`{name}` is one of {own}, which this rule chooses", f"name a problem of {left}"
                if any(other.runner is not rule.effect.runner for other in both):
                    message = f"{message}, in {spans_of(chosen, self.releases.known)}"
                    advice = f"leave these releases out of the range {quoted(part.span.text)}, or {advice}"
                self.fault(rule.path, place, f"the known problem {message}; {advice}")
            if problem.until is not None and (rule.until is None or problem.until < rule.until):
                message = f"the known problem `{name}` ends on {problem.until}, before this rule"
                self.fault(rule.path, place, f"{message}; write `until: {problem.until}` or an earlier day")

    def check_releases(
        self,
        item: Rule | RequestRule | NamedCondition,
        spans: list[tuple[ReleaseRange, Any]],
        gaps: Iterable[tuple[ReleaseRange, str]],
    ) -> None:
        assert self.releases is not None
        known = self.releases.versions
        ordered = sorted((span for span, _ in spans), key=lambda span: span.lower)
        for span in ordered:
            if not any(map(span.holds, known)):
                self.fault(
                    item.path,
                    span.place,
                    f"no known release is in {quoted(span.text)}; known releases: {self.releases.known[0]} to "
                    f"{self.releases.known[-1]}; correct the range, or add the release to `known` in `{RELEASES_FILE}`",
                )
        declared = {(gap.lower, gap.upper): gap for gap, _ in gaps}
        for earlier, later in pairwise(ordered):
            if earlier.upper is None or later.lower < earlier.upper:
                self.fault(
                    item.path,
                    later.place,
                    f"the ranges {quoted(earlier.text)} and {quoted(later.text)} overlap; "
                    "end the first where the second begins",
                )
            elif earlier.upper < later.lower and (earlier.upper, later.lower) not in declared:
                gap = f">={earlier.upper},<{later.lower}"
                advice = (
                    "a named condition has none: end the first where the second begins, or write two conditions"
                    if isinstance(item, NamedCondition)
                    else f'declare it: `gaps: [{{vllm: "{gap}", why: …}}]`'
                )
                self.fault(
                    item.path, later.place, f"a gap between {quoted(earlier.text)} and {quoted(later.text)}; {advice}"
                )
            declared.pop((earlier.upper or later.lower, later.lower), None)
        for unneeded in declared.values():
            self.fault(
                item.path, unneeded.place, f"the gap {quoted(unneeded.text)} is declared but does not exist; remove it"
            )

    def check_facts(self, path: str, span: ReleaseRange, conditions: Iterable[Condition | None]) -> None:
        """Check that all releases of a range have the facts that its conditions read."""
        assert self.releases is not None
        read = dict.fromkeys(leaf.fact for condition in conditions if condition for leaf in leaves(condition))
        for fact in (FACTS_OF_SOME_RELEASES[name] for name in read if name in FACTS_OF_SOME_RELEASES):
            known = zip(self.releases.known, self.releases.versions, strict=True)
            without = [each for each, version in known if span.holds(version) and not fact.is_in(series(each))]
            if without:
                self.fault(
                    path,
                    span.place,
                    f"the range {quoted(span.text)} has releases without the fact `{fact.name}`: "
                    f"{spans_of(without, self.releases.known)}; correct the range, or compare another fact",
                )

    def fault(self, path: str, place: tuple[int, int], message: str) -> None:
        self.add_faults([Fault(path, *place, message)])

    def add_faults(self, faults: Iterable[Fault]) -> None:
        for fault in faults:
            add_fault(self.faults, fault)


def _is_one_of(problem: Range | None, runner: Runner) -> bool:
    """Whether a known problem is one of this runner in a release; without a runner it is one of both."""
    return problem is not None and problem.runner in {None, runner}


def problem_range(part: Range, rules: Mapping[str, Rule], release: str) -> Range | None:
    """The range of the known problem that a house rule's range names; ``None`` if the release does not have it."""
    problem = rules.get(part.known_problem or "")
    return None if problem is None else problem.range_of(release)


def unused_conditions(catalogue: Catalogue) -> list[Fault]:
    """A fault for each named condition that no rule uses."""
    used = {
        use.name
        for rule in catalogue.rules
        for part in rule.ranges
        for c in (part.when, part.cleared_at_startup)
        if c
        for use in uses(c)
    }
    return [
        Fault(named.path, *named.place, f"no rule uses the condition {quoted(named.id)}; remove the file")
        for named in catalogue.conditions.values()
        if named.id not in used
    ]
