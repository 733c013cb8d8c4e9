"""A second implementation of decisions, for tests only: plain Python on the parsed rule files.

It shares no code with the implementation under test except the vocabulary's names, kinds and defaults. Conditions are
evaluated recursively on the nested document of a request; nothing is compiled, and negations are not moved.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import yaml

from policy.facts.vocabulary import VOCABULARY, Fact, FactKind
from policy.masking import masked

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

    from policy.decision.decision import Decision

Version = tuple[int, ...]
Scope = dict[str, Any]

VARIABLE = "env.VLLM_USE_V2_MODEL_RUNNER"
FACTS: dict[str, Fact] = {fact.name: fact for fact in VOCABULARY}
OBJECTS_ABOVE: dict[str, list[str]] = {
    name: [above for above in FACTS if name.startswith(f"{above}.")] for name in FACTS
}

# The layers and effects that decide, in order of precedence, each with its runner and outcome.
DECIDING_EFFECTS: dict[tuple[str, str], tuple[str | None, str | None]] = {
    ("upstream", "invalid"): (None, None),
    ("upstream", "not-applicable"): (None, "not-applicable"),
    ("upstream", "reject"): (None, None),
    ("upstream", "require-v2"): ("v2", "required"),
    ("upstream", "override-v2"): ("v2", "override"),
    ("upstream", "override-v1"): ("v1", "override"),
    ("house", "fallback-v1"): ("v1", "fallback"),
    ("house", "force-v2"): ("v2", "required"),
    ("upstream", "force-v2"): ("v2", "required"),
    ("upstream", "not-default"): ("v1", "not-default"),
    ("upstream", "default-v1"): ("v1", "fallback"),
    ("upstream", "fallback-v1"): ("v1", "fallback"),
    ("upstream", "exclude-v2"): ("v1", "fallback"),
    ("upstream", "default-v2"): ("v2", "default"),
}
ORDER = [
    *DECIDING_EFFECTS,
    ("upstream", "exclude-v1"),
    ("upstream", "refuse-v1"),
    ("upstream", "refuse-v2"),
    ("house", "advise"),
    ("upstream", "advise"),
    ("both", "known-problem"),
]
# The scales of known problems, the worst and the most certain first.
SYMPTOMS = ["no-start", "crash", "out-of-memory", "wrong-output", "ignored", "refused-request", "slow"]
CERTAINTIES = ["code", "confirmed", "reproduced", "reported"]
OTHER_RUNNER = {"v1": "v2", "v2": "v1"}


@dataclass(frozen=True)
class MalformedVariable:
    """A variable whose text is not an integer; ``error`` is what Python says about it."""

    error: str


@dataclass(frozen=True)
class Rule:
    """A rule in one release: the fields of its range, then those of the whole rule."""

    id: str
    layer: str
    effect: str
    order: int
    fields: dict[str, Any]

    @property
    def place(self) -> tuple[Any, ...]:
        """The place in the list of a release's rules."""
        if self.effect == "known-problem":
            return ORDER.index(("both", self.effect)), self.severity, self.id
        return ORDER.index((self.layer, self.effect)), self.order, self.id

    @property
    def severity(self) -> tuple[int, int]:
        return SYMPTOMS.index(self.fields["symptom"]), CERTAINTIES.index(self.fields["certainty"])

    @property
    def leaves(self) -> str | None:
        """The runner that the rule leaves because of a known problem."""
        return (
            OTHER_RUNNER[DECIDING_EFFECTS[self.layer, self.effect][0] or ""] if "known_problem" in self.fields else None
        )

    @property
    def text(self) -> str:
        return str(next(self.fields[name] for name in ("message", "feature", "text") if name in self.fields))

    def names(self, field: str) -> list[str]:
        found = self.fields.get(field, [])
        return [found] if isinstance(found, str) else list(found)


class Deployment:
    """The facts of one request in one release, read from its document."""

    def __init__(self, document: Mapping[str, Any], release: str) -> None:
        self.document = document
        self.opt_in = (0, 12) <= parsed(release)[:2] < (0, 22)
        self.share = 0.9 if parsed(release)[:2] < (0, 20) else 0.92
        self.values: dict[str, Any] = {}

    def value(self, name: str) -> Any:
        """The value of a fact, or its default; an absent object is ``None``."""
        if name not in self.values:
            self.values[name] = self._value(FACTS[name])
        return self.values[name]

    def _value(self, fact: Fact) -> Any:
        found: Any = self.document
        for part in fact.name.split("."):
            if fact.kind is FactKind.SHARE and not (isinstance(found, dict) and part in found):
                return self.share
            found = found.get(part) if isinstance(found, dict) else None
        if fact.kind is FactKind.SHARE:
            return found if found is None else float(found)
        if fact.kind is FactKind.VARIABLE:
            return variable(found, unset=False if self.opt_in and fact.name == VARIABLE else None)
        return fact.default if found is None and fact.kind is not FactKind.PRESENCE else found

    def is_below_absent(self, name: str) -> bool:
        return any(self.value(path) is None for path in OBJECTS_ABOVE[name])


class Reference:
    """The rules of a folder, read from the texts of its files by path."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        files = {path: yaml.load(text, yaml.CSafeLoader) for path, text in texts.items()}
        self.known: list[str] = files.pop("releases.yaml")["known"]
        self.conditions = {file["id"]: file for path, file in files.items() if "/conditions/" in path}
        others = ("images/", "upstream/requests/")
        layers = {path: file for path, file in files.items() if not path.startswith(others)}
        self.files = [(path.split("/")[0], file) for path, file in layers.items() if "/conditions/" not in path]
        self._rules = {release: sorted(self._rules_of(release), key=lambda rule: rule.place) for release in self.known}

    def _rules_of(self, release: str) -> Iterator[Rule]:
        for layer, file in self.files:
            own = range_for(file, release)
            if own is None:
                continue
            fields = {**file, **own}
            if "known_problem" in fields:
                problem = next(each for _, each in self.files if each["id"] == fields["known_problem"])
                whole = range_for(problem, release)
                if whole is None:
                    continue
                fields["when"] = {"all": [{**problem, **whole}["when"], fields.get("when", "always")]}
            yield Rule(file["id"], layer, file["effect"], file.get("order", 0), fields)

    def distinct(self) -> list[str]:
        """The first release of each group of releases with the same rules and the same defaults."""
        first: dict[str, str] = {}
        for release in self.known:
            first.setdefault(repr((self._rules[release], Deployment({}, release).opt_in)), release)
        return list(first.values())

    def rules(self, release: str, layers: Collection[str]) -> list[Rule]:
        """The rules of a release, in the order in which they are listed."""
        return [rule for rule in self._rules[release] if rule.layer in layers]

    def fired(self, release: str, facts: Mapping[str, Any], layers: Collection[str]) -> list[str]:
        """The ids of the rules whose conditions hold, in order."""
        return [rule.id for rule in self._held(release, Deployment(facts, release)) if rule.layer in layers]

    def _held(self, release: str, deployment: Deployment) -> list[Rule]:
        return [rule for rule in self._rules[release] if self.holds(rule.fields["when"], release, deployment)]

    def holds(self, condition: Any, release: str, deployment: Deployment, *, negated: bool = False) -> bool:
        """Whether a condition holds, or its negation if ``negated``, which is applied to each leaf."""
        if condition == "always":
            return not negated
        every, some = (any, all) if negated else (all, any)
        parts = []
        for key, content in condition.items():
            match key:
                case "all":
                    parts.append(every(self.holds(item, release, deployment, negated=negated) for item in content))
                case "any":
                    parts.append(some(self.holds(item, release, deployment, negated=negated) for item in content))
                case "not":
                    parts.append(self.holds(content, release, deployment, negated=not negated))
                case "uses":
                    named = range_for(self.conditions[content], release)
                    assert named is not None
                    parts.append(self.holds(named["when"], release, deployment, negated=negated))
                case fact:
                    operators = content if isinstance(content, dict) else {"is": content}
                    parts.append(
                        every(
                            compare(fact, operator, operand, deployment, negated=negated)
                            for operator, operand in operators.items()
                        )
                    )
        return every(parts)

    def decide(
        self, release: str, facts: Mapping[str, Any], layers: Collection[str], *, warns: bool = True
    ) -> dict[str, Any]:
        """The decision of ``layers``, and whether vLLM starts with the variable that it sets."""
        deployment = Deployment(facts, release)
        held = self._held(release, deployment)
        upstream = chosen = self._combine(release, deployment, [rule for rule in held if rule.layer == "upstream"])
        if "house" in layers:
            otherwise = self._combine(release, deployment, [rule for rule in held if rule.leaves is None])["runner"]
            held = [rule for rule in held if rule.leaves in {None, otherwise}]
            chosen = self._combine(release, deployment, held)
        final, set_env = upstream, {}
        if chosen["runner"] != upstream["runner"]:
            text = {"v1": "0", "v2": "1"}[chosen["runner"]]
            set_env = {VARIABLE.removeprefix("env."): text}
            with_variable = Deployment({**facts, "env": {**(facts.get("env") or {}), **set_env}}, release)
            final = self._combine(
                release,
                with_variable,
                [rule for rule in self._held(release, with_variable) if rule.layer == "upstream"],
            )
        problems = [rule.id for rule in chosen["problems"]]
        warning = self._choice_warning(release, facts, layers, chosen) if warns and problems and final["starts"] else []
        return {
            **{name: chosen[name] for name in ("runner", "outcome", "unsupported_features", "v1_unsupported_features")},
            **{name: final[name] for name in ("starts", "startup_errors")},
            "set_env": set_env,
            "warnings": chosen["advice"] + warning,
            "known_problems": problems,
            "reasons": chosen["listed"] + final["refusals"] + chosen["advisories"],
            "decisive": chosen["decisive"],
        }

    def _choice_warning(
        self, release: str, facts: Mapping[str, Any], layers: Collection[str], chosen: Scope
    ) -> list[str]:
        """That the variable or a house rule chose the runner with the worse list of known problems."""
        if not chosen["by_choice"]:
            return []
        runner = chosen["runner"]
        env = {**(facts.get("env") or {}), VARIABLE.removeprefix("env."): "1" if runner == "v1" else "0"}
        other = self.decide(release, {**facts, "env": env}, layers, warns=False)
        if other["runner"] != OTHER_RUNNER[runner] or not other["starts"]:
            return []
        severities = {rule.id: rule.severity for rule in self._rules[release] if rule.effect == "known-problem"}
        own = [rule.id for rule in chosen["problems"] if rule.id not in other["known_problems"]]
        left = [name for name in other["known_problems"] if name not in {rule.id for rule in chosen["problems"]}]
        end = (len(SYMPTOMS), 0)
        if [*(severities[name] for name in own), end] >= [*(severities[name] for name in left), end]:
            return []
        symptoms = {rule.id: rule.fields["symptom"] for rule in chosen["problems"]}
        chooser = f"`{VARIABLE.removeprefix('env.')}`" if chosen["outcome"] == "override" else "a house rule"
        names = ", ".join(f"`{name}` ({symptoms[name]})" for name in own)
        known = f"of which worse problems are known than of {OTHER_RUNNER[runner].upper()}"
        return [f"{chooser} chooses {runner.upper()}, {known}: {names}"]

    def _combine(self, release: str, deployment: Deployment, held: list[Rule]) -> Scope:
        """The result of the rules whose conditions hold, with the current value of the variable."""
        invalid = [rule for rule in held if rule.effect == "invalid"]
        if invalid:
            return invalid_result(invalid, deployment)
        own = [rule for rule in held if rule.effect == "not-applicable"]
        if own:
            return own_runner_result(own, held, deployment)
        names = names_of(held)
        inactive = [rule for rule in held if set(rule.names("unless")) & names]
        active = [rule for rule in held if rule not in inactive]
        deciders = [rule for rule in active if (rule.layer, rule.effect) in DECIDING_EFFECTS]
        deciding = deciders[0]
        decisive = [rule for rule in deciders if (rule.layer, rule.effect) == (deciding.layer, deciding.effect)]
        runner, outcome = DECIDING_EFFECTS[deciding.layer, deciding.effect]
        lists = {bar: [rule for rule in held if rule.effect == bar] for bar in ("exclude-v2", "exclude-v1")}
        listed = [rule for rule in deciders if rule in decisive or rule.effect != "default-v2"] + lists["exclude-v1"]
        scope: Scope = {
            "runner": runner,
            "outcome": outcome,
            "unsupported_features": [filled_in(rule.text, deployment) for rule in lists["exclude-v2"]],
            "v1_unsupported_features": [filled_in(rule.text, deployment) for rule in lists["exclude-v1"]],
            "listed": [rule.id for rule in listed],
            "decisive": [rule.id for rule in decisive],
            "startup_errors": [],
            "refusals": [],
            "advice": [],
            "advisories": [],
            "problems": [
                rule
                for rule in held
                if rule.effect == "known-problem" and runner and rule.fields.get("runner") in {None, runner}
            ],
            "by_choice": outcome == "override" or deciding.layer == "house",
        }
        if runner is None:
            return scope | {"starts": False, "startup_errors": [filled_in(rule.text, deployment) for rule in decisive]}

        own = lists["exclude-v2"] if runner == "v2" else lists["exclude-v1"]
        cleared = [
            rule
            for rule in own
            if "cleared_at_startup" in rule.fields
            and self.holds(rule.fields["cleared_at_startup"], release, deployment)
        ]
        left = names_of([rule for rule in held if rule not in cleared])
        refusals = [rule for rule in active if rule.effect == f"refuse-{runner}" and has_required(rule, left)]
        shown = ", ".join(filled_in(rule.text, deployment) for rule in own if rule not in cleared)
        scope["startup_errors"] = [
            filled_in(rule.text, deployment, unsupported_features=shown, v1_unsupported_features=shown)
            for rule in refusals
        ]
        advisories = [
            rule
            for rule in active
            if rule.effect == "advise"
            and rule.fields.get("runner") in {None, runner}
            and (not rule.names("decided_by") or set(rule.names("decided_by")) & names_of(decisive))
            and has_required(rule, names)
        ]
        features = {name: ", ".join(scope[name]) for name in ("unsupported_features", "v1_unsupported_features")}
        scope["advice"] = [filled_in(rule.text, deployment, **features) for rule in advisories]
        return scope | {
            "starts": not refusals,
            "refusals": [rule.id for rule in refusals],
            "advisories": [rule.id for rule in advisories],
        }

    def mentioned(self) -> dict[str, list[Any]]:
        """For each fact, the values that rules compare it with."""
        found: dict[str, list[Any]] = {}
        for file in [*(file for _, file in self.files), *self.conditions.values()]:
            for part in [file, *file["releases"]]:
                for field in ("when", "cleared_at_startup"):
                    for fact, value in comparisons(part.get(field, {})):
                        if value not in found.setdefault(fact, []):
                            found[fact].append(value)
        return found

    def read(self, release: str) -> set[str]:
        """The facts in the conditions and messages of a release's rules, with the objects above them."""
        names: set[str] = set()
        for rule in self.rules(release, ("upstream", "house")):
            names.update(
                self._facts_of(rule.fields["when"], release),
                self._facts_of(rule.fields.get("cleared_at_startup", {}), release),
            )
            names.update(name for name in re.findall(r"{([^{}]+)}", rule.text) if name in FACTS)
        parts = [name.split(".") for name in names]
        return {".".join(path[:length]) for path in parts for length in range(1, len(path) + 1)} & FACTS.keys()

    def _facts_of(self, condition: Any, release: str) -> Iterator[str]:
        for key, content in condition.items() if isinstance(condition, dict) else ():
            match key:
                case "all" | "any":
                    for item in content:
                        yield from self._facts_of(item, release)
                case "not":
                    yield from self._facts_of(content, release)
                case "uses":
                    yield from self._facts_of((range_for(self.conditions[content], release) or {})["when"], release)
                case fact:
                    yield fact


BARE_OPERATORS = ("present", "absent", "not_empty", "malformed")
OPERATORS: dict[str, Callable[[Any, Any], Any]] = {
    "is": lambda value, operand: type(value) is type(operand) and value == operand,
    "is_not": lambda value, operand: type(value) is not type(operand) or value != operand,
    "in": lambda value, operand: value in operand,
    "not_in": lambda value, operand: value not in operand,
    "has_any_of": lambda value, operand: set(value or []) & set(operand),
    "has_none_of": lambda value, operand: not set(value or []) & set(operand),
    "has_other_than": lambda value, operand: set(value or []) - set(operand),
    "first_is_in": lambda value, operand: value and value[0] in operand,
    "not_empty": lambda value, _: value,
    "at_least": lambda value, operand: value >= operand,
    "more_than": lambda value, operand: value is not None and value > operand,
    "less_than": lambda value, operand: value is not None and value < operand,
    "present": lambda value, _: value is not None,
    "absent": lambda value, _: value is None,
    "malformed": lambda value, _: isinstance(value, MalformedVariable),
}


def compare(fact: str, operator: str, operand: Any, deployment: Deployment, *, negated: bool) -> bool:
    """The result of one comparison; below an absent object it is always false."""
    if deployment.is_below_absent(fact):
        return False
    value = deployment.value(fact)
    if operator == "is" and operand in BARE_OPERATORS:
        operator, operand = operand, True
    return bool(OPERATORS[operator](value, operand)) != negated


def variable(text: str | bool | None, *, unset: bool | None) -> bool | MalformedVariable | None:  # noqa: FBT001  # a request may have it as a boolean
    """The variable as vLLM reads it: ``bool(int(text))``."""
    if text is None or isinstance(text, bool):
        return unset if text is None else text
    try:
        return int(text) != 0
    except ValueError as error:
        return MalformedVariable(str(error))


def as_reference(decision: Decision) -> dict[str, Any]:
    """The fields of a decision that the reference also has."""
    members = (
        "runner",
        "outcome",
        "starts",
        "startup_errors",
        "unsupported_features",
        "v1_unsupported_features",
        "set_env",
        "warnings",
    )
    reasons = [reason.rule for reason in decision.reasons]
    decisive = [reason.rule for reason in decision.reasons if reason.decisive]
    return {
        **{name: getattr(decision, name) for name in members},
        "known_problems": [problem.rule for problem in decision.known_problems],
        "reasons": reasons,
        "decisive": decisive,
    }


def parsed(version: str) -> Version:
    """The numbers of a version; a post-release comes after its release and before the next patch."""
    numbers = [int(number) for number in version.replace(".post", ".0.").split(".")]
    return tuple(numbers + [0] * (3 - len(numbers)))


@cache
def is_in_range(release: str, span: str) -> bool:
    """Whether a release is in a range such as ``>=0.22,<0.24``."""
    for bound in span.split(","):
        text = bound.strip()
        inside = (
            parsed(release) >= parsed(text.removeprefix(">="))
            if text.startswith(">=")
            else parsed(release) < parsed(text.removeprefix("<"))
        )
        if not inside:
            return False
    return True


def range_for(file: Mapping[str, Any], release: str) -> dict[str, Any] | None:
    return next((part for part in file["releases"] if is_in_range(release, part["vllm"])), None)


def names_of(rules: Iterable[Rule]) -> set[str]:
    """The names by which a rule can refer to these rules: ids, and effects of upstream rules."""
    return {name for rule in rules for name in (rule.id, rule.effect if rule.layer == "upstream" else rule.id)}


def has_required(rule: Rule, names: set[str]) -> bool:
    return not rule.names("requires_any") or bool(set(rule.names("requires_any")) & names)


def invalid_result(invalid: list[Rule], deployment: Deployment) -> Scope:
    """The result if the variable is invalid; nothing else is evaluated."""
    ids = [rule.id for rule in invalid]
    nothing: Scope = {
        name: []
        for name in (
            "unsupported_features",
            "v1_unsupported_features",
            "refusals",
            "advice",
            "advisories",
            "problems",
        )
    }
    texts = [filled_in(rule.text, deployment) for rule in invalid]
    return {
        "runner": None,
        "outcome": None,
        "starts": False,
        "startup_errors": texts,
        "listed": ids,
        "decisive": ids,
        **nothing,
    }


def own_runner_result(own: list[Rule], held: list[Rule], deployment: Deployment) -> Scope:
    """The result if neither runner is used; only the advice about that is given."""
    names, ids = names_of(held), [rule.id for rule in own]
    advisories = [
        rule
        for rule in held
        if set(rule.names("decided_by")) & names_of(own)
        and "runner" not in rule.fields
        and not set(rule.names("unless")) & names
        and has_required(rule, names)
    ]
    nothing: Scope = {name: [] for name in ("unsupported_features", "v1_unsupported_features", "refusals", "problems")}
    return {
        "runner": None,
        "outcome": "not-applicable",
        "starts": True,
        "startup_errors": [],
        "listed": ids,
        "decisive": ids,
        "advice": [filled_in(rule.text, deployment) for rule in advisories],
        "advisories": [rule.id for rule in advisories],
        **nothing,
    }


def filled_in(text: str, deployment: Deployment, **lists: str) -> str:
    def replacement(match: re.Match[str]) -> str:
        if match[0] in {"{{", "}}"}:
            return match[0][0]
        return lists[match[1]] if match[1] in lists else as_text(deployment.value(match[1]))

    return re.sub(r"{{|}}|{([^{}]+)}", replacement, text)


def as_text(value: Any) -> str:
    if isinstance(value, MalformedVariable):
        return value.error
    # random texts can look like secrets; this is no claim about masking
    return masked(", ".join(map(str, value)) if isinstance(value, list) else str(value))


def comparisons(condition: Any) -> Iterator[tuple[str, Any]]:
    """The facts of a condition, each with the values that it is compared with."""
    for key, content in condition.items() if isinstance(condition, dict) else ():
        if key in {"all", "any"}:
            for item in content:
                yield from comparisons(item)
        elif key == "not":
            yield from comparisons(content)
        elif key in FACTS:
            for operand in content.values() if isinstance(content, dict) else [content]:
                for value in operand if isinstance(operand, list) else [operand]:
                    if value not in BARE_OPERATORS and not (
                        value is True and FACTS[key].kind in {FactKind.LIST, FactKind.PRESENCE}
                    ):
                        yield key, value
