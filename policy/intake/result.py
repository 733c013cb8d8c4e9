"""The facts of a deployment with their origins, and all else that is known of it: what `intake` returns."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.decision.decision import DerivedFact
from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.facts.facts import Facts, Opaque, shown, to_json
from policy.facts.vocabulary import FACTS, INDEX, ancestors
from policy.intake.command.flag_arguments import UNKNOWN_VALUE
from policy.intake.command.word_places import FILE_PREFIX, word_pointer
from policy.intake.command_line import Installation, ParsedOptions, UnknownOption  # msgspec reads the annotations
from policy.intake.deployment import Environment
from policy.intake.derive.request_limits import EngineLimits
from policy.intake.origins import MODELS
from policy.intake.provenance import DEFAULT, Provenance  # msgspec reads the annotations
from policy.intake.unknown_options import not_checked
from policy.masking import HIDDEN, masked
from policy.messages import quoted
from policy.pointer import at, without_secrets
from policy.secret_values import NO_SECRETS, SecretValues

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from policy.facts.vocabulary import Series

FACT_ANCESTORS: Final = tuple((name, INDEX[name], ancestors(name), fact.is_in) for name, fact in FACTS.items())
"""Each fact's name, its index in the row, the objects that contain it, and whether a series has it."""


class IntakeResult(Struct, frozen=True):
    """The facts of a deployment with their origins, the arguments that no fact depends on, and warnings for the user.

    ``launch_errors`` says why vLLM's parser or its configuration classes abort the start. ``installation`` is the vLLM
    that runs instead of the image's, if any.

    ``found`` has the models that ``Find`` returned; it may return others next time. ``unknown_words`` has the arguments
    that may be any flag, with their places: those whose whole text is unknown are ignored. ``unknown_variables`` has
    the variables with unknown values that facts depend on. They are treated as unset. Each has the place in the
    command that clears or may change it, empty if there is none. ``doubts`` says why vLLM may get other arguments or
    variables than those parsed. ``unknown_models`` says why vLLM may run another model, or the model as a pooling model
    or with another configuration. ``environment`` is the deployment's, with the platform that a variable selects, and
    ``program_doubts`` says why its platform may be another, vLLM may run instead of vLLM-Omni, or code from outside
    vLLM may choose the runner. ``without_modules`` is the name of the model whose ``modules.json`` is assumed to be
    absent, empty if it is known. ``models`` has the models that were looked up, by their names in the arguments.
    ``has_models`` is false for a release without tables of models, whose facts about them are unknown. ``limits`` is
    what the engine compares requests with. ``options`` and ``variables`` are those that facts are derived from.
    ``unknown_options`` have values that are not known and that vLLM may refuse, though no fact depends on them.
    ``refused_options`` are those that its checks refuse. ``secrets`` are the values that are not shown.
    """

    facts: Facts
    derived: Provenance
    ignored: list[str]
    warnings: list[str]
    found: dict[str, tuple[Mapping[str, Any], Mapping[str, str]]]
    unknown_words: list[tuple[str, str]] = []
    unknown_variables: dict[str, str] = {}
    doubts: list[str] = []
    launch_errors: list[str] = []
    installation: Installation | None = None
    unknown_models: list[str] = []
    environment: Environment = Environment()
    without_modules: str = ""
    models: dict[str, str] = {}
    has_models: bool = True
    limits: EngineLimits = EngineLimits()
    options: ParsedOptions = ParsedOptions()
    variables: dict[str, str] = {}
    program_doubts: list[str] = []
    unknown_options: list[UnknownOption] = []
    refused_options: frozenset[str] = frozenset()
    secrets: SecretValues = NO_SECRETS


def without_secrets_in_facts(facts: Facts, secrets: SecretValues, compared: Collection[str]) -> Facts:
    """The facts with the secrets in their texts hidden, except in ``compared``, the texts that rules compare with.

    The result of every rule is the same: rules only test whether texts are equal, and a text with ``…`` is equal to
    none of theirs. A text in a rule is not a secret, even if a variable has it as its value.
    """

    def hidden(value: Any) -> Any:
        if isinstance(value, str):
            return value if value in compared else secrets.hidden(value)
        if isinstance(value, tuple):
            return tuple(map(hidden, value))
        if isinstance(value, Opaque):
            text = json.dumps(value.value, ensure_ascii=False, default=str)
            return value if secrets.hidden(text) == text else Opaque(HIDDEN)
        return value

    return Facts([hidden(value) for value in facts.row], facts.stated)


def require_known_values(result: IntakeResult, pointer: str) -> None:
    """Check that no argument, variable or file is unknown that facts depend on or that vLLM may refuse.

    ``pointer`` is the deployment's.

    Raises:
        RequestInvalid: an argument may be any flag, vLLM may refuse a value, a variable's value is unknown, vLLM may
            get other arguments or variables for another reason, run the model as a pooling model or on another
            platform, or another program or code from outside vLLM may run.
    """
    faults = [
        RequestFault(
            word_pointer(f"{pointer}/args", place),
            f"the value of the argument {quoted(word)} ({place}) is not known, and it may be any flag; write the "
            "argument itself, or set the variable",
        )
        for word, place in result.unknown_words[:MAX_FAULTS]
    ]
    faults += [
        RequestFault(word_pointer(f"{pointer}/args", option.place), f"{not_checked(option)}; write the value itself")
        for option in result.unknown_options
    ]
    faults += [
        RequestFault(word_pointer(f"{pointer}/args", place), UNKNOWN_VALUE.format(flag, quoted(text)))
        for flag, text, place in result.options.unknown_sizes.values()
    ]
    faults += [
        RequestFault(
            at(f"{pointer}/env", name),
            f"the value of the variable `{name}` is not known, and vLLM reads it; write the value itself"
            if not place
            else f"the value of the variable `{name}` is not known, because the command clears it or may change it "
            f"({place}), and vLLM reads it; write the value itself right before vLLM's program: `env {name}=…`",
        )
        for name, place in result.unknown_variables.items()
    ]
    faults += [
        RequestFault(f"{pointer}/args", f"{doubt}; write `vllm serve MODEL …` with its flags as the command")
        for doubt in result.doubts
    ]
    faults += [RequestFault(pointer, unknown) for unknown in result.unknown_models]
    faults += [RequestFault(pointer, doubt) for doubt in result.program_doubts]
    if faults:
        error = RequestInvalid(faults[:MAX_FAULTS])
        error.hide(result.secrets)
        raise error


def facts_with_origin(result: IntakeResult, series: Series) -> dict[str, DerivedFact]:
    """Every fact with its origin, as the answer shows it, except those that do not apply.

    These are facts below an absent object, facts that the series no longer has, and facts that were not derived because
    the release has no tables of models.
    """
    row, facts, later = result.facts.row, result.derived.facts, result.derived.later
    origin = cache(partial(_shown_origin, secrets=result.secrets))  # many facts have the same
    return {
        name: DerivedFact(later[name][0], origin(later[name][1]))
        if name in later
        else _derived_fact(row[index], facts[name][1], origin)
        for name, index, above, is_in in FACT_ANCESTORS
        if all(facts[each][0] for each in above)
        and is_in(series)
        and (result.has_models or facts[name][1] is not DEFAULT)
    }


def _derived_fact(value: Any, origin: str, shown_origin: Callable[[str], str]) -> DerivedFact:
    """A fact with its origin; a default has no secrets."""
    return DerivedFact(to_json(value), origin) if origin is DEFAULT else DerivedFact(shown(value), shown_origin(origin))


def _shown_origin(origin: str, secrets: SecretValues) -> str:
    """The origin without a secret: the name of a model or a file, which a user chose, is a part of it.

    The name may contain `/` or `~`, which are no parts of a pointer there.
    """
    if not origin.startswith((MODELS, FILE_PREFIX)):
        return origin
    return masked(without_secrets(secrets.hidden(origin), secrets))
