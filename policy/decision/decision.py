"""The decision on one deployment, with the types of its JSON.

Owns the fields of a decision, and how they follow from rulings and facts. ``RuleView`` prepares what does not depend on
the request, such as a rule's fixed text and the names of its evidence.
"""

from __future__ import annotations

from datetime import date  # noqa: TC003  # msgspec reads the annotations
from operator import itemgetter
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import UNSET, Struct, UnsetType

from policy.decision.known_problems import KnownProblem, OtherRunner
from policy.decision.remedies import Remedy, V2Path  # noqa: TC001  # msgspec reads the annotations
from policy.facts.facts import shown
from policy.facts.vocabulary import INDEX, ancestors
from policy.rules.conditions import leaves
from policy.rules.effects import TextField
from policy.rules.releases import Resolution  # noqa: TC001  # msgspec reads the annotations
from policy.rules.template import UNSUPPORTED, V1_UNSUPPORTED

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from policy.decision.ruling import Ruling
    from policy.facts.facts import Row
    from policy.rules.release_rule import ReleaseRule


ID_START: Final = b'{"decision_id":"'
ID_END: Final = len(ID_START) + 36
"""Where the id, a UUID, ends in the JSON of a decision; it is the first field there."""
OWN_RUNNER: Final = "own runner"
"""What people read in place of V1 or V2 if the platform or the program has its own model runner."""
NO_RUNNER: Final = "no runner"
"""What people read in place of V1 or V2 if the configuration cannot be read."""


class Reason(Struct, frozen=True, gc=False):
    """A rule that fired: its message, the remedy, and the evidence as ``facts`` with flat names.

    ``owner`` and ``review_by`` are set for house rules, and ``until`` for those with an end. ``lifted_in`` is set if
    the request has ``explain``: the first later release in which the rule does not fire for the same request, or
    ``None``.
    """

    rule: str
    layer: str
    effect: str
    decisive: bool
    feature: str | None
    message: str
    remedy: str | None
    facts: dict[str, Any]
    references: tuple[str, ...]
    owner: str | UnsetType = UNSET
    review_by: date | UnsetType = UNSET
    until: date | UnsetType = UNSET
    lifted_in: str | UnsetType | None = UNSET


class UpstreamDecision(Struct, frozen=True, gc=False):
    """What vLLM alone would do."""

    runner: str | None
    outcome: str | None
    starts: bool
    startup_errors: list[str]


class WithoutVariable(Struct, frozen=True, gc=False):
    """The decision if the operator's variable were not set."""

    runner: str | None
    outcome: str | None
    starts: bool


class PolicyRef(Struct, frozen=True, gc=False):
    """The revision of the rules that decided."""

    revision: str


class FailedCondition(Struct, frozen=True, gc=False):
    """A condition that did not hold.

    ``fact`` is a fact, or the rule's field about the decision (``runner``, ``requires_any``, …) or about its end
    (``until``).
    """

    fact: str
    expected: Any
    actual: Any


class RuleTrace(Struct, frozen=True, gc=False):
    """One rule of the release: whether it fired, and if not, the first condition that failed.

    If alternatives failed, it has the first failed condition of each.
    """

    rule: str
    layer: str
    effect: str
    fired: bool
    failed: list[FailedCondition]


class Alternative(Struct, frozen=True, gc=False):
    """The decision if a fact had another value."""

    runner: str | None
    starts: bool

    @property
    def is_own_runner(self) -> bool:
        """Whether the engine then has a runner of its own: without a runner nothing else starts."""
        return self.runner is None and self.starts


class Assumption(Struct, frozen=True, gc=False):
    """A fact that the request does not state; ``would_change`` has the other values that change the answer."""

    fact: str
    assumed: Any
    why: str
    would_change: dict[str, Alternative]


class DerivedFact(Struct, frozen=True, gc=False, rename={"from_": "from"}):
    """A derived fact and its source."""

    value: Any
    from_: str


class Decision(Struct, frozen=True, gc=False):
    """The answer to one request.

    ``startup_errors`` are the messages with which vLLM refuses the runner, ``launch_errors`` the reasons why it exits
    before it chooses one; ``starts`` is true if there are neither. ``without_variable`` is set if the operator's
    variable decided, ``facts`` and ``ignored_args`` for a deployment, ``trace``, ``assumptions`` and ``alternative`` if
    the request has ``explain``; ``alternative`` is then ``None`` if there is no other runner. ``known_problems`` are
    those of the decided runner, the worst first. With ``explain``, ``remedies`` are the smallest changes that give V2,
    let vLLM start or avoid a known problem, ``v2_from`` is the first later release that gives V2
    without a change, and ``v2_path`` says how a deployment on V1 gets V2 at the newest release.
    """

    decision_id: str
    request_id: str | None
    runner: str | None
    outcome: str | None
    starts: bool
    startup_errors: list[str]
    launch_errors: list[str]
    summary: str
    unsupported_features: list[str]
    v1_unsupported_features: list[str]
    reasons: list[Reason]
    known_problems: list[KnownProblem]
    upstream: UpstreamDecision
    set_env: dict[str, str]
    warnings: list[str]
    vllm_version: str
    release: Resolution
    policy: PolicyRef
    without_variable: WithoutVariable | UnsetType = UNSET
    facts: dict[str, DerivedFact] | UnsetType = UNSET
    ignored_args: list[str] | UnsetType = UNSET
    trace: list[RuleTrace] | UnsetType = UNSET
    assumptions: list[Assumption] | UnsetType = UNSET
    alternative: OtherRunner | UnsetType | None = UNSET
    remedies: list[Remedy] | UnsetType = UNSET
    v2_from: str | UnsetType | None = UNSET
    v2_path: V2Path | UnsetType | None = UNSET


encode = msgspec.json.Encoder().encode


def id_of(json: bytes) -> str:
    """The id of an encoded decision."""
    return json[len(ID_START) : ID_END].decode()


class RuleView:
    """The fields of a rule's reasons that do not depend on the facts.

    ``values`` returns the values of all facts in the reasons, from a row of facts.
    """

    __slots__ = (
        "effect",
        "evidence",
        "feature",
        "fixed",
        "layer",
        "lists",
        "message",
        "owner",
        "problem",
        "references",
        "remedy",
        "review_by",
        "rule",
        "runner",
        "template",
        "until",
        "values",
    )

    def __init__(self, item: ReleaseRule) -> None:
        rule = item.rule
        self.rule, self.layer, self.effect = rule.id, str(rule.layer), rule.effect.name
        self.references, self.remedy = rule.references, rule.remedy
        self.owner: str | UnsetType = rule.owner or UNSET
        self.review_by: date | UnsetType = rule.review_by or UNSET
        self.until: date | UnsetType = rule.until or UNSET
        self.problem = rule.problem
        self.runner = item.range.runner
        self.template = item.range.template
        self.fixed, self.lists = self.template.fixed, self.template.lists
        self.feature = rule.effect.says is TextField.FEATURE
        self.message = f"{'V1' if rule.effect.name == 'exclude-v1' else 'V2'} does not support " if self.feature else ""
        self.evidence = tuple((name, INDEX[name]) for name in _evidence(item))
        self.values = _values([name for name, _ in self.evidence] + list(self.template.facts))

    def text(self, row: Sequence[Any], lists: Mapping[str, Sequence[str]]) -> str:
        """The rule's text for these facts."""
        return self.fixed if self.fixed is not None else self.template.filled(row, lists)

    def reason(self, row: Sequence[Any], lists: Mapping[str, Sequence[str]], decisive: bool) -> Reason:  # noqa: FBT001  # called for each reason of each answer
        """The reason that the rule gives for these facts."""
        text = self.fixed or self.template.filled(row, lists)
        return Reason(
            self.rule,
            self.layer,
            self.effect,
            decisive,
            text if self.feature else None,
            self.message + text if self.message else text,
            self.remedy,
            {name: shown(row[index]) for name, index in self.evidence},
            self.references,
            self.owner,
            self.review_by,
            self.until,
        )

    def known_problem(self, row: Sequence[Any]) -> KnownProblem:
        """The known problem that the rule describes for these facts."""
        problem = self.problem
        assert problem is not None  # INVARIANT: called for rules with the effect `known-problem`
        return KnownProblem(
            self.rule,
            self.runner,
            problem.symptom,
            problem.certainty,
            self.text(row, {}),
            self.remedy,
            problem.fixed_in,
            self.references,
        )


def _values(names: Sequence[str]) -> Callable[[Row], Any]:
    return itemgetter(*(INDEX[name] for name in names)) if names else lambda _: ()


def _evidence(item: ReleaseRule) -> list[str]:
    """The facts in the condition and the text, without objects of which a field is shown."""
    names = list(
        dict.fromkeys([*(leaf.fact for leaf in (leaves(item.when) if item.when else ())), *item.range.template.facts])
    )
    parents = {path for name in names for path in ancestors(name)}
    return [name for name in names if name not in parents]


def features(views: Sequence[RuleView], indexes: Sequence[int], row: Sequence[Any]) -> list[str]:
    """The features in a list of vLLM, as vLLM writes them."""
    return [views[n].text(row, {}) for n in indexes]


def known_problems(views: Sequence[RuleView], ruling: Ruling, row: Sequence[Any]) -> list[KnownProblem]:
    """The known problems of the decided runner, the worst first."""
    return [views[n].known_problem(row) for n in ruling.problems]


def startup_errors(views: Sequence[RuleView], ruling: Ruling, row: Sequence[Any]) -> list[str]:
    """The messages with which vLLM would refuse to start, in the order of vLLM's checks."""
    if not ruling.effect.is_readable:
        return [views[n].text(row, {}) for n in ruling.decisive]
    if not ruling.refusals:
        return []
    lists = start_lists(views, ruling, row)
    return [views[n].text(row, lists) for n in ruling.refusals]


def start_lists(views: Sequence[RuleView], ruling: Ruling, row: Sequence[Any]) -> dict[str, list[str]]:
    """The feature lists when vLLM would refuse to start, without features that are cleared by then."""
    left = features(views, ruling.at_start, row)
    return {UNSUPPORTED: left, V1_UNSUPPORTED: left}


def summary(ruling: Ruling, reasons: Sequence[Reason], errors: Sequence[str]) -> str:
    """One sentence: the runner and why, and whether vLLM will start."""
    if not ruling.effect.is_readable:
        return f"{NO_RUNNER}: vLLM will not start: {errors[0]}"
    why = "; ".join([reason.message for reason in reasons if reason.decisive])
    end = f"; vLLM will not start: {errors[0]}" if errors else ""
    return f"{ruling.runner.upper() if ruling.runner else OWN_RUNNER}: {why}{end}"
