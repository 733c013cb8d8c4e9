"""Changes to a deployment that a user can make, and how each is applied to a request.

Owns which changes are tried: an argument, a variable or a stated fact is dropped or gets another value. What describes
the model, the platform or the image is never changed.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.decision.remedies import Change
from policy.decision.remedy_text import switch
from policy.facts.facts import Facts, shown, to_json
from policy.facts.vocabulary import INDEX, VARIABLE, VOCABULARY, FactKind, ancestors
from policy.intake.command.flags import flags
from policy.intake.deployment import Edits
from policy.intake.derive.derivation import FACT_OF_OPTION, VARIABLES
from policy.masking import masked
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from policy.intake.refused_arguments import ArgumentsRefused
    from policy.intake.result import IntakeResult
    from policy.request.request import Request
    from policy.secret_values import SecretValues

VARIABLE_NAME: Final = VARIABLE.partition(".")[2]
KEPT_OPTIONS: Final = frozenset({"model", "hf_config_path", "hf_overrides", "tensor_parallel_size"})
"""The options that say which model runs, or whether it fits into the devices."""
OTHER_VALUES: Final[dict[str, Any]] = {
    "gpu_memory_utilization": 0.9,
    "async_scheduling": False,
    "enable_prefix_caching": False,
    "enforce_eager": True,
    "mamba_cache_mode": "align",
}
"""Values that some rules advise, for options that may be left out."""
GIVEN_PREFIXES: Final = ("platform.", "plugins.", "model_config", "speculative_config.draft_model_config", "omni")
"""The beginnings of facts that describe the model, the platform or the image."""
NAMING_KINDS: Final = frozenset({FactKind.TEXT, FactKind.CHOICE})
FACTS_OF_OPTIONS: Final = frozenset(FACT_OF_OPTION.values())
DROP, SET, UNSET_VARIABLE, SET_VARIABLE = 2, 3, 1, 4
"""The costs of changes, by how much each takes from the user: the variable for the runner is not a feature."""


class Candidate(Struct, frozen=True):
    """A change to try. ``key`` is what it changes, ``cost`` what it costs; the other fields say how it is applied."""

    change: Change
    key: str
    cost: int
    option: str = ""
    value: Any = None
    variable: str = ""
    facts: tuple[tuple[int, Any], ...] = ()


def candidates(request: Request, intake: IntakeResult | None, defaults: Sequence[Any]) -> list[Candidate]:
    """The changes that a request allows, the cheapest first; ``defaults`` are those of the release's facts."""
    if intake is None:
        found = list(_of_facts(request.facts, defaults))
    else:
        found = _shown_without(intake.secrets, _of_deployment(request.release.decided_as, intake))
    return sorted(found, key=lambda candidate: candidate.cost)


def unknown_flags(intake: IntakeResult) -> list[Candidate]:
    """The flags that the release does not have, to be dropped: vLLM starts only without all of them."""
    found = {flag.option: flag for flag in intake.options.unknown_flags}
    return _shown_without(intake.secrets, [_dropped(flag.option, flag.value, flag.place) for flag in found.values()])


def refused_options(refused: ArgumentsRefused) -> list[Candidate]:
    """The options whose values the release refuses, to be dropped with the flags that it does not have.

    Empty if vLLM refuses something else, or an option that is not dropped.
    """
    found = {}
    for fault in refused.faults:
        if fault.refused is None or not fault.refused.option or fault.refused.option in KEPT_OPTIONS:
            return []
        found[fault.refused.option] = fault.refused.value
    unknown = {flag.option: flag for flag in refused.unknown_flags}
    return [
        *(_dropped(flag.option, flag.value, flag.place) for flag in unknown.values()),
        *(
            Candidate(Change(argument=flag_name(option), from_=value), option, DROP, option=option)
            for option, value in found.items()
        ),
    ]


def with_changes(request: Request, changes: Iterable[Candidate]) -> Request:
    """The request with the changes."""
    if request.deployment is None:
        row = request.facts.row.copy()
        for change in changes:
            for index, value in change.facts:
                row[index] = value
        return replace(request, facts=Facts(row, request.facts.stated))
    options = {change.option: change.value for change in changes if change.option}
    variables = {change.variable: change.value for change in changes if change.variable}
    return replace(request, deployment=replace(request.deployment, edits=Edits(options, variables)))


def is_selection_of_v2(candidate: Candidate) -> bool:
    """Whether a change selects V2 by the operator's variable."""
    return candidate.key in {VARIABLE, VARIABLE_NAME} and candidate.change.to in {True, "1"}


def _of_deployment(release: str, intake: IntakeResult) -> Iterator[Candidate]:
    options, variables = intake.options, intake.variables
    for option in sorted(intake.refused_options & options.others.keys() - options.values.keys() - KEPT_OPTIONS):
        value, place = options.others[option]
        yield _dropped(option, value, place)
    for option, value in options.values.items():
        if option in KEPT_OPTIONS:
            continue
        place = options.kept_place(option) if option in options.others else options.place(option)
        yield _dropped(option, value, place)
        if isinstance(value, dict) and len(value) > 1:
            for member, content in value.items():
                yield _dropped(f"{option}.{member}", content, options.place(f"{option}.{member}"))
    known = flags(release)
    for option, value in OTHER_VALUES.items():
        has_words = option in known.by_name and (
            value is not False or switch(flag_name(option), on=False) in known.exact
        )
        if has_words and options.values.get(option) != value:
            change = Change(argument=flag_name(option), from_=options.values.get(option), to=value)
            yield Candidate(change, option, SET, option=option, value=value)
    for name in VARIABLES:
        if name in variables:
            change = Change(variable=name, from_=shown(variables[name]))
            yield Candidate(change, name, UNSET_VARIABLE, variable=name)
    for text in ("0", "1"):
        change = Change(variable=VARIABLE_NAME, from_=shown(variables.get(VARIABLE_NAME)), to=text)
        yield Candidate(change, VARIABLE_NAME, SET_VARIABLE, variable=VARIABLE_NAME, value=text)


def _shown_without(secrets: SecretValues, found: Iterable[Candidate]) -> list[Candidate]:
    """The changes, with these secrets hidden in the values that they are shown with."""
    return [
        replace(each, change=replace(each.change, from_=secrets.hidden(each.change.from_)))
        if secrets and isinstance(each.change.from_, str)
        else each
        for each in found
    ]


def _dropped(option: str, value: Any, place: str) -> Candidate:
    change = Change(argument=flag_name(option), at=place, from_=_shown(option, value))
    return Candidate(change, option.partition(".")[0], DROP, option=option)


def _shown(option: str, value: Any) -> Any:
    """A value as an answer shows it: without secrets, and the objects of JSON options as their text."""
    if is_secret(option.rpartition(".")[2]):
        return "…"
    if isinstance(value, dict | list):
        return masked(json.dumps(value, ensure_ascii=False, default=str))
    return masked(value) if isinstance(value, str) else value


def flag_name(option: str) -> str:
    """The flag of an option, or of a member of its JSON: ``--speculative-config.parallel_drafting``."""
    name, dot, member = option.partition(".")
    return f"--{name.replace('_', '-')}{dot}{member}"


def _of_facts(facts: Facts, defaults: Sequence[Any]) -> Iterator[Candidate]:
    row = facts.row
    for index in facts.stated:
        fact, value = VOCABULARY[index], row[index]
        if fact.kind is FactKind.VARIABLE or not _is_chosen(fact.name) or value == defaults[index]:
            continue
        if fact.kind in NAMING_KINDS and ancestors(fact.name):
            continue  # the method of speculative decoding, say, goes with the whole of it
        values = [(index, defaults[index])]
        if fact.kind is FactKind.PRESENCE:
            values += [(n, defaults[n]) for n, each in enumerate(VOCABULARY) if fact.name in ancestors(each.name)]
        absent = fact.kind is FactKind.PRESENCE  # `false` is not a value of an object
        change = Change(fact=fact.name, from_=shown(value), to=None if absent else to_json(defaults[index]))
        yield Candidate(change, fact.name, DROP, facts=tuple(values))
    place = INDEX[VARIABLE]
    for value in (None, False, True):
        if value != row[place]:
            cost = UNSET_VARIABLE if value is None else SET_VARIABLE
            change = Change(fact=VARIABLE, from_=shown(row[place]), to=value)
            yield Candidate(change, VARIABLE, cost, facts=((place, value),))


def _is_chosen(name: str) -> bool:
    """Whether a fact says what a user chose, not what the model, the platform or the image is."""
    return name in FACTS_OF_OPTIONS or not name.startswith(GIVEN_PREFIXES)
