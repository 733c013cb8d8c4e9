"""Read a rule file or a condition file.

Owns the content of single files and its checks. ``catalogue`` checks files against each other; ``effects`` defines the
meaning of effects.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.facts.vocabulary import FACTS
from policy.messages import as_written, listed, quoted
from policy.parser.fields import NAME, FieldReader, ReleaseRange
from policy.rules import synonyms
from policy.rules.condition_parser import read_condition
from policy.rules.conditions import And, Condition, uses
from policy.rules.effects import EFFECTS, Effect, Layer, Runner, Stage, TextField, effects_of
from policy.rules.known_problems import FIELDS as PROBLEM_FIELDS
from policy.rules.known_problems import Certainty, Evidence, ProblemDescription, read_evidence, read_problem
from policy.rules.releases import MAX_RELEASES
from policy.rules.suggestions import suggest_effect
from policy.rules.template import Template, read_template

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policy.parser.yamltree import YamlNode

MAX_ORDER: Final = 10_000
TEXT_FIELDS: Final = tuple(str(says) for says in TextField)
SCOPE_EFFECTS: Final[dict[str, tuple[str, ...]]] = {
    "requires_any": ("refuse-v1", "refuse-v2", "advise"),
    "unless": ("default-v1", "refuse-v1", "refuse-v2", "advise"),
    "runner": ("advise", "known-problem"),
    "decided_by": ("advise",),
    "cleared_at_startup": ("exclude-v2", "exclude-v1"),
    "evidence": ("known-problem", "refuse-v1", "refuse-v2"),
}
EFFECTS_WITH_LISTS: Final = ("refuse-v1", "refuse-v2", "advise")
RANGE_FIELDS: Final = (*TEXT_FIELDS, *SCOPE_EFFECTS, "when")
HOUSE_SCOPE_EFFECTS: Final = {"known_problem": ("fallback-v1", "force-v2")}
"""Like ``SCOPE_EFFECTS``, for fields that only house rules have."""
HOUSE_RANGE_FIELDS: Final = (*RANGE_FIELDS, *HOUSE_SCOPE_EFFECTS)
RULE_REQUIRED: Final = ("id", "title", "effect", "why", "references", "releases")
RULE_OPTIONAL: Final = tuple(dict.fromkeys(("remedy", "order", "stage", "gaps", *RANGE_FIELDS, *PROBLEM_FIELDS)))
HOUSE_REQUIRED: Final = ("owner", "review_by", "blocked_by")
HOUSE_OPTIONAL: Final = ("until",)
HOUSE_FIELDS: Final = {
    "owner": "the team that is responsible for the rule",
    "review_by": "the day by which the rule must be reviewed, such as `2027-01-31`; it still holds afterwards",
    "blocked_by": "what prevents the removal of the rule, such as an issue or a measurement",
    "until": "the last day on which the rule is in force, in UTC; optional, and not before `review_by`",
}
"""The fields that only house rules have, with their meanings."""
DATE_FIELDS: Final = ("review_by", "until")
"""The fields of house rules that are dates."""
LONG_AGO: Final = date.min
"""A day on which every rule is in force and none is overdue."""
NOTICE: Final = 30
"""How many days before its last day a rule's end is announced."""
HOUSE_ONLY: Final = "it is for house rules only; remove it, or move the file to `house/`"
CONDITION_FIELDS: Final = dict.fromkeys(
    (*FACTS, "all", "any", "not", "uses"), "it belongs to the condition; write it below `when:`, indented"
)
EXAMPLES: Final = {
    "references": "[https://github.com/vllm-project/vllm/pull/42955]",
    "owner": "NAME OF THE TEAM",
    "review_by": "2027-01-31",
    "blocked_by": "https://github.com/vllm-project/vllm/issues/42846",
    "vllm": '">=0.22,<0.24"',
    "when": "{model_config.is_moe: true}",
}
"""Example values, for messages about missing fields."""
RULE_ONLY_FIELDS: Final = dict.fromkeys(
    (
        *("id", "title", "effect", "order", "stage", "why", "remedy", "references", "gaps", *HOUSE_FIELDS),
        *(name for name in PROBLEM_FIELDS if name not in RANGE_FIELDS),
    ),
    "it is the same for all releases; move it to the rule, beside `releases`",
)


@dataclass(frozen=True, slots=True)
class Range:
    """A rule in one range of releases; ``when`` is ``None`` if the rule always fires.

    ``requires_any`` and ``unless`` name effects or rules: at least one of ``requires_any`` must have fired, and none of
    ``unless``. ``runner`` and ``decided_by`` restrict an advisory to certain decisions. ``cleared_at_startup`` is the
    condition under which a reason no longer applies when vLLM would refuse to start. ``known_problem`` is the problem
    for which a house rule chooses the other runner: its condition must hold too, and the runner that it affects must be
    the one that all other rules choose. ``evidence`` proves the range of a known problem or of a refusal.
    """

    span: ReleaseRange
    template: Template
    when: Condition | None
    requires_any: tuple[str, ...] = ()
    unless: tuple[str, ...] = ()
    runner: Runner | None = None
    decided_by: tuple[str, ...] = ()
    cleared_at_startup: Condition | None = None
    known_problem: str | None = None
    known_problem_place: tuple[int, int] = field(default=(1, 1), compare=False)
    evidence: tuple[Evidence, ...] = ()
    names: tuple[tuple[str, tuple[int, int]], ...] = field(default=(), compare=False)
    """The names in ``requires_any``, ``unless`` and ``decided_by``, each with its line and column."""

    def when_with(self, problem: Range | None) -> Condition | None:
        """The condition together with that of a known problem; ``None`` if it always holds."""
        parts = [part.when for part in (problem, self) if part is not None and part.when is not None]
        return parts[0] if len(parts) == 1 else And(tuple(parts)) if parts else None


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule with its history; ``order`` is its position in vLLM's own list, ``document`` the parsed file.

    ``stage`` is when vLLM gives the text of a refusal; ``problem`` is set if the effect is ``known-problem``.
    """

    id: str
    layer: Layer
    effect: Effect
    title: str
    why: str
    remedy: str | None
    references: tuple[str, ...]
    order: int
    ranges: tuple[Range, ...]
    path: str
    place: tuple[int, int]
    document: dict[str, Any] = field(compare=False)
    owner: str | None = None
    review_by: date | None = None
    blocked_by: str | None = None
    until: date | None = None
    gaps: tuple[tuple[ReleaseRange, str], ...] = ()
    stage: Stage = Stage.CONFIGURATION
    problem: ProblemDescription | None = None

    @property
    def place_among_its_effect(self) -> int:
        """The place among rules with the same effect: in vLLM's own list, or of known problems the worst first."""
        return self.order if self.problem is None else self.problem.severity

    def is_overdue(self, today: date) -> bool:
        """Whether the rule is in force and should have been reviewed before ``today``."""
        return self.review_by is not None and self.review_by < today and not self.has_ended(today)

    def has_ended(self, today: date) -> bool:
        """Whether the rule's last day is over."""
        return self.until is not None and self.until < today

    def ends_soon(self, today: date) -> bool:
        """Whether the rule is in force ``today`` and ends within ``NOTICE`` days."""
        return self.until is not None and 0 <= (self.until - today).days <= NOTICE

    def range_of(self, release: str) -> Range | None:
        """The range that contains a release, if there is one."""
        version = _version(release)
        return next((part for part in self.ranges if part.span.holds(version)), None)

    def uses_named(self, name: str) -> bool:
        """Whether the rule uses the named condition ``name`` in any range."""
        conditions = (condition for part in self.ranges for condition in (part.when, part.cleared_at_startup))
        return any(use.name == name for condition in conditions if condition for use in uses(condition))


@dataclass(frozen=True, slots=True)
class NamedCondition:
    """A condition that several rules use, with its history."""

    id: str
    why: str
    ranges: tuple[tuple[ReleaseRange, Condition], ...]
    path: str
    place: tuple[int, int]
    document: dict[str, Any] = field(compare=False)


@lru_cache(maxsize=256)
def _version(release: str) -> Version:
    """A release as a version; cached, because every rule asks for every known release, twice in a load."""
    return Version(release)


def _read_id(fields: Mapping[str, YamlNode], reader: FieldReader) -> str | None:
    node = fields.get("id")
    name = reader.text(node)
    stem = reader.path.rpartition("/")[2].removesuffix(".yaml")
    if node is None or name is None:
        return None
    if not NAME.fullmatch(name):
        advice = "use lower-case words with hyphens, the file's name without `.yaml`"
        reader.fault(node, f"invalid id {quoted(name)}; {advice}")
    elif name != stem:
        reader.fault(
            node,
            f"the id {quoted(name)} is not the file's name; rename the file to `{name}.yaml`, or write `id: {stem}`",
        )
    return name


def read_named(node: YamlNode, reader: FieldReader) -> NamedCondition | None:
    """A named condition; ``None`` after a fault."""
    fields = reader.fields(node, "condition", ("id", "why", "releases"))
    name, why = _read_id(fields, reader), reader.text(fields.get("why"))
    ranges: list[tuple[ReleaseRange, Condition]] = []
    for item in reader.items(fields.get("releases"), "ranges", MAX_RELEASES):
        parts = reader.fields(item, "range of releases", ("vllm", "when"), examples=EXAMPLES)
        span = reader.span(parts.get("vllm"))
        when = read_condition(parts["when"], reader) if "when" in parts else None
        if "when" in parts and when is None:
            reader.fault(parts["when"], "a named condition that always holds has no effect; remove it")
        for use in uses(when) if when else ():
            reader.fault(parts["when"], f"a named condition cannot use another ({quoted(use.name)}); write it in full")
        if span and when:
            ranges.append((span, when))
    return (
        NamedCondition(name, why, tuple(ranges), reader.path, (node.line, node.column), node.plain())
        if name and why and ranges
        else None
    )


def read_rule(node: YamlNode, reader: FieldReader, layer: Layer) -> Rule | None:
    """A rule of ``layer``; ``None`` after a fault."""
    is_house = layer is Layer.HOUSE
    fields = reader.fields(
        node,
        f"{layer} rule",
        RULE_REQUIRED + (HOUSE_REQUIRED if is_house else ()),
        RULE_OPTIONAL + ((*HOUSE_SCOPE_EFFECTS, *HOUSE_OPTIONAL) if is_house else ()),
        synonyms=synonyms.RULE_FIELDS,
        elsewhere={
            **({} if is_house else dict.fromkeys((*HOUSE_FIELDS, *HOUSE_SCOPE_EFFECTS), HOUSE_ONLY)),
            **CONDITION_FIELDS,
            "vllm": "write it in a range: `releases:`, below it `- vllm: …`",
        },
        examples=EXAMPLES,
    )
    effect = _read_effect(fields, reader, layer)
    order = _read_order(fields, reader, effect, node)
    stage = _read_stage(fields, reader, effect)
    problem = _read_problem(fields, reader, effect, node)
    name = _read_id(fields, reader)
    texts = {key: reader.text(fields.get(key)) for key in ("title", "why", "remedy", "owner", "blocked_by")}
    references = reader.links(fields.get("references"))
    review_by, until = (reader.day(fields.get(name)) for name in DATE_FIELDS)
    if review_by and until and until < review_by:
        reader.fault(
            fields["until"],
            f"the rule ends on {until}, before its review by {review_by}; "
            "set `review_by` to that day or an earlier one",
        )
    items = reader.items(fields.get("releases"), "ranges", MAX_RELEASES)
    check_overridden(fields, items, reader, HOUSE_RANGE_FIELDS)
    ranges = [part for item in items if (part := _read_range(item, fields, reader, effect, layer))]
    if problem is not None:
        _check_problem(problem, ranges, fields, reader)
    if stage is Stage.WORKER and effect is not None and effect.refuses:
        _check_evidence(ranges, fields, reader, "stage", Stage.WORKER, "leave `stage` out")
    gaps = [gap for item in reader.items(fields.get("gaps"), "gaps", MAX_RELEASES) if (gap := _read_gap(item, reader))]
    if not (name and effect and texts["title"] and texts["why"] and ranges) or reader.faults:
        return None
    return Rule(
        id=name,
        layer=layer,
        effect=effect,
        title=texts["title"],
        why=texts["why"],
        remedy=texts["remedy"],
        references=references,
        order=order,
        ranges=tuple(ranges),
        path=reader.path,
        place=(node.line, node.column),
        document=node.plain(),
        owner=texts["owner"],
        review_by=review_by,
        blocked_by=texts["blocked_by"],
        until=until,
        gaps=tuple(gaps),
        stage=stage,
        problem=problem,
    )


def _read_problem(
    fields: Mapping[str, YamlNode], reader: FieldReader, effect: Effect | None, node: YamlNode
) -> ProblemDescription | None:
    """The problem of a rule with the effect ``known-problem``; its fields are faults with other effects."""
    if effect is None:
        return None
    if effect.is_problem:
        return read_problem(fields, node, reader)
    for name in PROBLEM_FIELDS:
        if name in fields and name not in RANGE_FIELDS:
            reader.fault(fields[name], f"`{name}` is legal only with the effect `known-problem`; remove it", key=True)
    return None


def _check_problem(
    problem: ProblemDescription, ranges: list[Range], fields: Mapping[str, YamlNode], reader: FieldReader
) -> None:
    """Check the ranges of a known problem against its certainty and the release with the fix."""
    if problem.certainty is Certainty.CODE:
        _check_evidence(ranges, fields, reader, "certainty", Certainty.CODE, "choose another certainty")
    for part in ranges:
        if problem.fixed_in is not None and (part.span.upper is None or part.span.upper > Version(problem.fixed_in)):
            reader.fault(
                fields["fixed_in"],
                f"the range `{part.span.text}` does not end before the fix in {problem.fixed_in}; correct one of them",
            )


def _check_evidence(
    ranges: list[Range], fields: Mapping[str, YamlNode], reader: FieldReader, name: str, value: str, otherwise: str
) -> None:
    """Check that each range has evidence, which a rule with this value of a field needs."""
    for part in ranges:
        if not part.evidence and "evidence" not in fields:
            reader.fault(
                fields[name],
                f"`{name}: {value}` needs `evidence` for `{part.span.text}`: `file`, and `has` or `lacks` with a text; "
                f"add it, or {otherwise}",
            )


def _read_effect(fields: Mapping[str, YamlNode], reader: FieldReader, layer: Layer) -> Effect | None:
    node = fields.get("effect")
    if node is None:
        return None
    effect = EFFECTS.get((layer, str(node.value)))
    if effect is None:
        known, word = effects_of(layer), str(node.value)
        others = [str(other) for other in Layer if (other, word) in EFFECTS]
        found = (
            f"{quoted(word)} is an effect of the {others[0]} layer only"
            if others
            else f"unknown effect {quoted(word)} of the {layer} layer"
        )
        reader.fault(node, f"{found}; legal: {listed(known)}{suggest_effect(word, known)}")
    return effect


def _read_order(fields: Mapping[str, YamlNode], reader: FieldReader, effect: Effect | None, rule: YamlNode) -> int:
    node = fields.get("order")
    if node is None:
        if effect is not None and effect.ordered:
            reader.fault(
                rule, f"a rule with the effect `{effect.name}` has a position in vLLM's own list; add `order: NUMBER`"
            )
        return 0
    if type(node.value) is not int or not 0 <= node.value < MAX_ORDER:
        advice = "; write it without quotes" if isinstance(node.value, str) and node.value.isdigit() else ""
        found = as_written(node.plain())
        reader.fault(node, f"expected a whole number from 0 to {MAX_ORDER - 1}, got {found}{advice}")
        return 0
    if effect is not None and not effect.ordered:
        reader.fault(node, f"a rule with the effect `{effect.name}` has no position in vLLM's own list; remove `order`")
    return node.value


def _read_stage(fields: Mapping[str, YamlNode], reader: FieldReader, effect: Effect | None) -> Stage:
    node = fields.get("stage")
    if node is None:
        return Stage.CONFIGURATION
    if not isinstance(node.value, str) or node.value not in set(Stage):
        reader.fault(node, f"unknown stage {quoted(node.plain())}; legal: {listed(Stage)}")
        return Stage.CONFIGURATION
    if effect is not None and not effect.refuses:
        legal = [name for (_, name), other in EFFECTS.items() if other.refuses]
        reader.fault(node, f"`stage` is legal only with the effects {listed(legal)}; remove it", key=True)
    return Stage(node.value)


def _read_gap(node: YamlNode, reader: FieldReader) -> tuple[ReleaseRange, str] | None:
    fields = reader.fields(node, "gap", ("vllm", "why"))
    span, why = reader.span(fields.get("vllm")), reader.text(fields.get("why"))
    return (span, why) if span and why else None


def _read_range(
    node: YamlNode, rule: Mapping[str, YamlNode], reader: FieldReader, effect: Effect | None, layer: Layer
) -> Range | None:
    """A range of a rule; missing fields default to those of the rule."""
    is_house = layer is Layer.HOUSE
    legal = HOUSE_RANGE_FIELDS if is_house else RANGE_FIELDS
    own = reader.fields(
        node,
        "range of releases",
        ("vllm",),
        legal,
        synonyms=synonyms.RANGE_FIELDS,
        elsewhere={
            **({} if is_house else dict.fromkeys(HOUSE_SCOPE_EFFECTS, HOUSE_ONLY)),
            **RULE_ONLY_FIELDS,
            **CONDITION_FIELDS,
        },
        examples=EXAMPLES,
    )
    fields = {**{name: rule[name] for name in legal if name in rule}, **own}
    span = reader.span(own.get("vllm"))
    if effect is not None:
        _check_fields(node, fields, reader, effect)
    templates = [reader.read_once(fields[name], read_template) for name in TEXT_FIELDS if name in fields]
    if effect is not None and effect.name not in EFFECTS_WITH_LISTS:
        for template in templates:
            for name in template.lists if template else ():
                reader.fault(
                    fields.get(effect.says, node),
                    f"`{{{name}}}` is legal only with the effects {listed(EFFECTS_WITH_LISTS)}; "
                    "for other effects the list does not exist yet",
                )
    when, cleared = (
        reader.read_once(fields[name], read_condition) if name in fields else None
        for name in ("when", "cleared_at_startup")
    )
    if "cleared_at_startup" in fields and cleared is None:
        reader.fault(
            fields["cleared_at_startup"], "a reason that is always cleared at startup has no effect; write a condition"
        )
    runner = _read_runner(fields.get("runner"), reader)
    known_problem = reader.text(fields.get("known_problem"))
    place = fields.get("known_problem", node)
    evidence = reader.read_once(fields["evidence"], read_evidence) if "evidence" in fields else ()
    named = {
        name: reader.read_once(fields[name], _read_names) if name in fields else {}
        for name in ("requires_any", "unless", "decided_by")
    }
    if span is None or effect is None or len(templates) != 1 or templates[0] is None:
        return None
    if effect.refuses:
        runner = effect.runner
    return Range(
        span=span,
        template=templates[0],
        when=when,
        runner=runner,
        cleared_at_startup=cleared,
        known_problem=known_problem,
        known_problem_place=(place.line, place.column),
        evidence=evidence,
        names=tuple(item for places in named.values() for item in places.items()),
        **{name: tuple(places) for name, places in named.items()},
    )


def check_overridden(
    rule: Mapping[str, YamlNode], ranges: list[YamlNode], reader: FieldReader, names: Iterable[str]
) -> None:
    """Check that each of these fields that the rule has for all ranges is used by at least one."""
    for name in names:
        if name in rule and ranges and all(isinstance(item.value, dict) and name in item.value for item in ranges):
            reader.fault(rule[name], f"each range has its own `{name}`, so this one has no effect; remove it", key=True)


def _check_fields(node: YamlNode, fields: Mapping[str, YamlNode], reader: FieldReader, effect: Effect) -> None:
    """Check for missing and illegal fields of a rule with this effect."""
    others = [name for name in TEXT_FIELDS if name in fields and name != effect.says]
    for name in (str(effect.says), "when"):
        if name == "when" and "known_problem" in fields:
            continue  # the problem's condition is enough
        if name not in fields and not (name == effect.says and others):
            reader.fault(
                node, f"the range has no `{name}`, which the effect `{effect.name}` needs; add it here or to the rule"
            )
    for name in others:
        reader.fault(
            fields[name],
            f"a rule with the effect `{effect.name}` has its text in `{effect.says}`, not in `{name}`; "
            f"{'remove it' if effect.says in fields else 'rename the field'}",
            key=True,
        )
    for name, legal in (SCOPE_EFFECTS | HOUSE_SCOPE_EFFECTS).items():
        if name in fields and effect.name not in legal:
            reader.fault(fields[name], f"`{name}` is legal only with the effects {listed(legal)}; remove it", key=True)


def _read_names(node: YamlNode, reader: FieldReader) -> dict[str, tuple[int, int]]:
    """The effects or rules of a list, or a single one, each with its line and column."""
    items = node.value if isinstance(node.value, list) else [node]
    places = {str(item.value): (item.line, item.column) for item in items}
    return {name: places[name] for name in reader.texts(node, "effects or rules")}


def _read_runner(node: YamlNode | None, reader: FieldReader) -> Runner | None:
    if node is None:
        return None
    if not isinstance(node.value, str) or node.value not in set(Runner):
        reader.fault(node, f"unknown model runner {quoted(node.plain())}; legal: {listed(Runner)}")
        return None
    return Runner(node.value)
