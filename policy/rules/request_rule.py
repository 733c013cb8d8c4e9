"""Read a rule file of ``upstream/requests/``: what a release does with a single request to an engine.

Owns the format of these files and the verdicts. These rules are separate from the rules that decide: in each release
they have their own ruleset, so that decisions pay nothing for them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.facts.vocabulary import FACTS_WITH_REQUEST
from policy.messages import listed, quoted
from policy.parser.fields import NAME, FieldReader, ReleaseRange
from policy.rules.condition_parser import read_condition
from policy.rules.conditions import Condition, uses
from policy.rules.effects import Layer, Runner
from policy.rules.known_problems import read_fixed_in
from policy.rules.releases import MAX_RELEASES
from policy.rules.rule import EXAMPLES, RULE_ONLY_FIELDS, check_overridden
from policy.rules.template import Template, read_template

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.parser.yamltree import YamlNode

FOLDER: Final = "requests"
"""The folder of these rules, below that of the upstream layer."""
REQUIRED_FIELDS: Final = ("id", "title", "effect", "parameter", "why", "references", "releases")
OPTIONAL_FIELDS: Final = ("remedy", "fixed_in", "gaps", "runner", "text", "when")
RANGE_FIELDS: Final = ("runner", "text", "when")


class Verdict(StrEnum):
    """What becomes of a request, the best first."""

    FINE = "fine"
    IGNORED = "ignored"
    REFUSED = "refused"
    KILLS_ENGINE = "kills-engine"

    @property
    def severity(self) -> int:
        """The place in the order of verdicts, 0 for the best."""
        return list(Verdict).index(self)


EFFECTS: Final = {
    "request-kills-engine": Verdict.KILLS_ENGINE,
    "request-refused": Verdict.REFUSED,
    "request-ignored": Verdict.IGNORED,
    "request-advise": Verdict.FINE,
}
"""Each effect with its verdict. ``request-advise`` is a warning, where it is not certain what vLLM does."""
MEANINGS: Final = {
    "request-kills-engine": "the engine ends, for all its clients",
    "request-refused": "the client gets an error with this text",
    "request-ignored": "the parameter is silently left out or altered",
    "request-advise": "a warning; the verdict stays as it is",
}


@dataclass(frozen=True, slots=True)
class RequestRange:
    """A rule in one range of releases; ``runner`` is ``None`` if it holds with both runners."""

    span: ReleaseRange
    template: Template
    when: Condition | None
    runner: Runner | None


@dataclass(frozen=True, slots=True)
class RequestRule:
    """A rule about requests with its history."""

    id: str
    effect: str
    parameter: str
    title: str
    why: str
    remedy: str | None
    fixed_in: str | None
    references: tuple[str, ...]
    ranges: tuple[RequestRange, ...]
    path: str
    place: tuple[int, int]
    document: dict[str, Any] = field(compare=False)
    gaps: tuple[tuple[ReleaseRange, str], ...] = ()

    @property
    def layer(self) -> Layer:
        """The layer: vLLM's own behaviour."""
        return Layer.UPSTREAM

    @property
    def verdict(self) -> Verdict:
        """The verdict on a request for which the rule fires."""
        return EFFECTS[self.effect]

    def range_of(self, release: str) -> RequestRange | None:
        """The range that contains a release, if there is one."""
        version = Version(release)
        return next((part for part in self.ranges if part.span.holds(version)), None)

    @property
    def is_advice(self) -> bool:
        """Whether the rule only warns."""
        return self.verdict is Verdict.FINE


@dataclass(frozen=True, slots=True)
class ReleaseRequestRule:
    """A rule in one release with its named conditions resolved."""

    rule: RequestRule
    range: RequestRange
    when: Condition | None

    @property
    def scope(self) -> tuple[Any, ...]:
        """Everything on which an answer can depend besides the condition."""
        return (self.rule.effect, self.rule.parameter, self.range.template.text, self.range.runner)

    @property
    def cleared(self) -> None:
        """``None``, because no rule about requests is cleared at startup."""
        return


def is_request_rule(path: str) -> bool:
    """Whether a file of rules, or of their cases, is about requests."""
    folders = path.split("/")[:-1]
    return folders[:1] == [Layer.UPSTREAM] and folders[-1] == FOLDER


def read_request_rule(node: YamlNode, reader: FieldReader) -> RequestRule | None:
    """A rule about requests; ``None`` after a fault."""
    fields = reader.fields(node, "rule about requests", REQUIRED_FIELDS, OPTIONAL_FIELDS, examples=EXAMPLES)
    name = reader.text(fields.get("id"))
    stem = reader.path.rpartition("/")[2].removesuffix(".yaml")
    if name is not None and (name != stem or not NAME.fullmatch(name)):
        reader.fault(fields["id"], f"the id {quoted(name)} is not the file's name; write `id: {stem}`")
    effect = _choice(fields.get("effect"), EFFECTS, "effect of a rule about requests", reader)
    texts = {key: reader.text(fields.get(key)) for key in ("title", "why", "remedy", "parameter")}
    fixed_in = read_fixed_in(fields.get("fixed_in"), reader)
    references = reader.links(fields.get("references"))
    items = reader.items(fields.get("releases"), "ranges", MAX_RELEASES)
    check_overridden(fields, items, reader, RANGE_FIELDS)
    ranges = [part for item in items if (part := _read_range(item, fields, reader))]
    gaps = []
    for item in reader.items(fields.get("gaps"), "gaps", MAX_RELEASES):
        parts = reader.fields(item, "gap", ("vllm", "why"))
        span, why = reader.span(parts.get("vllm")), reader.text(parts.get("why"))
        if span and why:
            gaps.append((span, why))
    if reader.faults or not (name and effect and texts["title"] and texts["why"] and texts["parameter"] and ranges):
        return None
    return RequestRule(
        name,
        effect,
        texts["parameter"],
        texts["title"],
        texts["why"],
        texts["remedy"],
        fixed_in,
        references,
        tuple(ranges),
        reader.path,
        (node.line, node.column),
        node.plain(),
        tuple(gaps),
    )


def _read_range(node: YamlNode, rule: Mapping[str, YamlNode], reader: FieldReader) -> RequestRange | None:
    """A range of a rule; missing fields default to those of the rule."""
    own = reader.fields(
        node, "range of releases", ("vllm",), RANGE_FIELDS, elsewhere=RULE_ONLY_FIELDS, examples=EXAMPLES
    )
    fields = {**{name: rule[name] for name in RANGE_FIELDS if name in rule}, **own}
    for name in ("text", "when"):
        if name not in fields:
            reader.fault(node, f"the range has no `{name}`; add it here or to the rule")
    span = reader.span(own.get("vllm"))
    template = read_template(fields.get("text"), reader, FACTS_WITH_REQUEST)
    for name in template.lists if template else ():
        reader.fault(fields["text"], f"`{{{name}}}` is legal only in rules about the runner; remove it")
    when = read_condition(fields["when"], reader, FACTS_WITH_REQUEST) if "when" in fields else None
    for use in uses(when) if when else ():
        reader.fault(fields["when"], f"a rule about requests cannot use a named condition ({quoted(use.name)})")
    runner = _choice(fields.get("runner"), {str(each): each for each in Runner}, "model runner", reader)
    if span is None or template is None:
        return None
    return RequestRange(span, template, when, Runner(runner) if runner else None)


def _choice(node: YamlNode | None, legal: Mapping[str, object], what: str, reader: FieldReader) -> str | None:
    if node is None:
        return None
    if isinstance(node.value, str) and node.value in legal:
        return node.value
    reader.fault(node, f"unknown {what} {quoted(node.plain())}; legal: {listed(legal)}")
    return None
