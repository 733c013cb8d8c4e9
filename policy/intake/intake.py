"""Derive the facts of a deployment, each with its origin: the entry point of this package.

Runs the steps in order: arguments, model configurations (``model_lookup``), derivation, facts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, structs

from policy.decision.decision import DerivedFact
from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.facts.facts import Facts, to_json
from policy.facts.vocabulary import FACTS, INDEX, ancestors
from policy.intake.command.arguments import read_options
from policy.intake.command.expansion import MAX_WORDS
from policy.intake.command.launcher import read_command, read_text
from policy.intake.command.unknown_flags import without_secrets
from policy.intake.command.word_places import word_pointer
from policy.intake.command.words import PLACEHOLDER
from policy.intake.command_line import Installation, ParsedOptions  # msgspec reads the annotations
from policy.intake.deployment import Environment
from policy.intake.derive.derivation import VARIABLE, VARIABLES, derive, own_runner_facts
from policy.intake.derive.omni import omni_of
from policy.intake.derive.request_limits import EngineLimits, engine_limits
from policy.intake.derive.row import facts_of
from policy.intake.derive.speculation import (
    SPECULATORS,
    DraftModel,
    Speculation,
    draft_model,
    needs_draft,
    read_draft,
    read_speculation,
    read_speculators,
    speculation_fault,
)
from policy.intake.derive.target_device import SINCE, TARGET_DEVICE, select_platform
from policy.intake.derive.without_models import (
    METHODS,
    derive_without_models,
    has_models,
    has_unstated_method,
    not_checked,
    variables_of,
    with_method,
)
from policy.intake.launch.refusals import Findings, refusals
from policy.intake.launch.values import LaunchValues
from policy.intake.model.companion import CompanionInvalid
from policy.intake.model.pooling import MODULES, POOLING_MODULES
from policy.intake.model.redirection import redirections
from policy.intake.model.registry import Unsupported
from policy.intake.model.tables import tables
from policy.intake.model.target import read_target
from policy.intake.model.transformers_releases import transformers_warnings
from policy.intake.model_lookup import MODEL_CONFIG_NEEDED, ModelLookup, no_models, pointer_of_model
from policy.intake.provenance import DEFAULT, Provenance  # msgspec reads the annotations
from policy.intake.refused_arguments import ArgumentsRefused
from policy.intake.unknown_sizes import check_sizes
from policy.intake.variables import refused_variables, variable_warnings
from policy.masking import masked_message, secret_values
from policy.messages import quoted
from policy.pointer import at
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.facts.vocabulary import Series
    from policy.intake.command_line import CommandLine
    from policy.intake.deployment import Deployment
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import Target
    from policy.intake.model_lookup import Find

FACT_ANCESTORS: Final = tuple((name, INDEX[name], ancestors(name), fact.is_in) for name, fact in FACTS.items())
"""Each fact's name, its index in the row, the objects that contain it, and whether a series has it."""
PLACES: Final = [f"args[{place}]" for place in range(MAX_WORDS)]
UNSUPPORTED_MODEL: Final = "unsupported-model"
OWN_RUNNER: Final = (None, True)
"""The rules' result where the platform or the program has runners of its own: no runner of vLLM's, but it starts."""
NOT_NEEDED: Final = (
    "the model's configuration is not known here and not needed, because vLLM's own runners are not used; whether the "
    "model can be loaded is not checked"
)
MODELS: Final = "model_configs/"
VALIDATES: Final = "fail_on_environ_validation"
UNSTATED_METHOD: Final = (
    "the speculative configuration: it names no `method`, and vLLM {} finds it out from the draft, which is not read "
    'for this release; the method decides whether V2 starts, so write it, such as `"method": "eagle"`'
)
DEFAULT_MODEL: Final = "Qwen/Qwen3-0.6B"
"""The model that every release serves by default."""


class IntakeResult(Struct, frozen=True):
    """The facts of a deployment with their origins, the arguments that no fact depends on, and warnings for the user.

    ``launch_errors`` says why vLLM's parser or its configuration classes abort the start. ``installation`` is the vLLM
    that runs instead of the image's, if any.

    ``found`` has the models that ``Find`` returned; it may return others next time. ``unknown_words`` has the arguments
    that may be any flag, with their places: those whose whole text is unknown are ignored. ``unknown_variables`` has
    the variables with unknown values that facts depend on, which are treated as unset, each with the place in the
    command that clears it or may change it, empty if none does. ``doubts`` says why vLLM may get other arguments or
    variables than those parsed. ``unknown_models`` says why vLLM may run another model, or the model as a pooling
    model. ``environment`` is the deployment's, with the platform that a variable selects, and ``program_doubts``
    says why its platform may be another, or vLLM may run instead of vLLM-Omni. ``without_modules`` is the name of the
    model whose ``modules.json`` is assumed to be absent, empty if it is known. ``models`` has the models that were
    looked up, by their names in the arguments. ``has_models`` is false for a release without tables of models, whose
    facts about them are unknown. ``limits`` is what the engine compares requests with. ``options`` and
    ``variables`` are those that facts are derived from.
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


def derive_facts(
    deployment: Deployment,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    find: Find = no_models,
) -> IntakeResult:
    """Derive the facts of a deployment in a release.

    ``rules`` returns the release's own decision for facts: the runner, and whether it starts. ``find`` finds a model
    that the deployment does not include.

    Raises:
        ModelConfigNeeded: a model's ``config.json`` is missing.
        RequestInvalid: the deployment has other faults.
    """
    faults: list[RequestFault] = []
    command = command_of(deployment, faults, f"{pointer}/args")
    texts = [deployment.args] if isinstance(deployment.args, str) else deployment.args
    secrets = secret_values({**deployment.env, **command.env}, texts)
    try:
        if has_models(release):
            result = _derive_with_models(deployment, command, release, pointer, rules, find, faults)
        else:
            result = _derive_without_models(deployment, command, release, pointer, rules, faults, not_checked(release))
    except RequestInvalid as error:
        error.hide(secrets)
        raise
    result.ignored[:] = [*map(secrets.hidden, result.ignored)]
    result.warnings[:] = [*map(secrets.hidden, result.warnings)]
    result.launch_errors[:] = [*map(secrets.hidden, result.launch_errors)]
    result.doubts[:] = [*map(secrets.hidden, result.doubts)]
    result.program_doubts[:] = [*map(secrets.hidden, result.program_doubts)]
    result.unknown_models[:] = [*map(secrets.hidden, result.unknown_models)]
    result.options.unknown_flags[:] = without_secrets(result.options.unknown_flags, secrets)
    return result


def _derive_with_models(
    deployment: Deployment,
    command: CommandLine,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    find: Find,
    faults: list[RequestFault],
) -> IntakeResult:
    """Derive the facts; without those about the model if it is missing or unknown, and the rules do not need them.

    They do not where the platform or the program has runners of its own, and models of its own.
    """
    try:
        return _derive(deployment, command, release, pointer, rules, find, faults)
    except RequestInvalid as error:
        if error.problem not in {MODEL_CONFIG_NEEDED, UNSUPPORTED_MODEL}:
            raise
        with suppress(RequestInvalid):
            result = _derive_without_models(deployment, command, release, pointer, rules, [], NOT_NEEDED)
            if rules(result.facts) == OWN_RUNNER:
                return result
        raise


def _derive(
    deployment: Deployment,
    command: CommandLine,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    find: Find,
    faults: list[RequestFault],
) -> IntakeResult:
    """Derive the facts for a parsed command line and its ``faults``; messages may contain values of variables."""
    known = tables(release, transformers=deployment.environment.transformers)
    is_omni, command, of_omni = omni_of(command, deployment.omni)
    options = _own_options(_read_options(release, command, deployment, faults, pointer), is_omni)
    if faults:
        raise _invalid_arguments(faults, options, deployment, command, release, is_omni, rules)
    options = with_options(options, deployment.edits.options)
    variables = _variables(deployment, command)
    env = _known_values(variables)
    environment, of_platform = select_platform(deployment.environment, env, known.series)
    deployment = structs.replace(deployment, environment=environment)
    models = ModelLookup(deployment, find, pointer)
    target, speculation = _read_models(deployment, options, models, known, pointer)

    def decide(derived: Provenance) -> tuple[str | None, bool]:
        return rules(facts_of(derived.facts, []))

    def derive_with(target: Target, speculation: Speculation | None, options: ParsedOptions = options) -> Provenance:
        derived = derive(target, speculation, options, env, environment, models.known, known, decide)
        derived.facts.update(is_omni)
        return derived

    derived = derive_with(target, speculation)
    facts = facts_of(derived.facts, faults)
    if faults:
        raise RequestInvalid(
            [replace(fault, pointer=_pointer_of(fault.pointer, deployment, pointer)) for fault in faults]
        )
    warnings = [*deployment.notes, *of_omni, *options.warnings, *of_platform]
    warnings += [*derived.warnings, *redirections(variables), *transformers_warnings(release, environment.transformers)]
    warnings += variable_warnings(variables, release, environment.platform)
    doubts = [*deployment.doubts, *command.doubts]
    warnings += [doubt for doubt in doubts if not any(warning.startswith(doubt) for warning in warnings)]
    if VARIABLE in variables and VARIABLE not in env:
        warnings.append(f"the value of `{VARIABLE}` is not known here; it is assumed to be unset")
    if options.unknown_sizes:
        warnings += check_sizes(
            options,
            lambda sized: derive_with(*_read_models(deployment, sized, models, known, pointer), sized),
            decide,
            f"{pointer}/args",
        )
    unknown_models = []
    if options.unknown_model:
        unknown_models.append(
            f"the model is {quoted(options.unknown_model)}, whose value is not known; decided for the `config.json` "
            "that is given under this name"
        )
        warnings += unknown_models
    without_modules = "" if models.has_known_files(target.name) else target.name
    if (
        without_modules
        and models.is_named_like_embedding(target.name)
        and decide(derived)
        != _decide_as_pooling(
            target.name, models, lambda: decide(derive_with(*_read_models(deployment, options, models, known, pointer)))
        )
    ):
        pooling = (
            f"{quoted(target.name)} is named like an embedding model, and its `{MODULES}` is not given; with that file "
            f"vLLM may run it as a pooling model, which would change the decision; send `{MODULES}` and "
            "`1_Pooling/config.json` in `files`, under the model's name, or set `--runner`"
        )
        unknown_models.append(pooling)
        warnings.append(pooling)
    unknown_variables: dict[str, str] = {
        name: command.set_at.get(name, "")
        for name in VARIABLES
        if name in variables and name not in env and (name != TARGET_DEVICE or known.series >= SINCE)
    }
    launch_errors = options.launch_errors
    if options.others.get(VALIDATES, (False, ""))[0] is True and not is_omni:
        launch_errors += refused_variables(variables, release, environment.platform)
    values = LaunchValues(
        options,
        target,
        speculation,
        partial(_draft_of, speculation, target, models.known, known),
        derived,
        variables,
        models.files,
        environment.vllm_platform,
        known,
        lambda: decide(derived)[0],
    )
    found = Findings([], [], []) if is_omni else refusals(values)
    refused = [*([] if derived.refusal is None else [derived.refusal]), *found.refused]
    warnings += [
        *(f"vLLM may refuse this configuration: {why}" for why in found.uncertain),
        *(f"vLLM {release} warns: {why}" for why in found.warned),
    ]
    if refused:
        # an unknown argument may set other sizes
        is_certain = not (options.unknown_words or doubts)
        (launch_errors if is_certain else warnings).extend(f"vLLM refuses this configuration: {why}" for why in refused)
    return IntakeResult(
        facts,
        derived,
        options.ignored,
        warnings,
        models.found,
        options.unknown_words,
        unknown_variables,
        doubts,
        launch_errors,
        command.installation or deployment.installation,
        unknown_models,
        environment,
        without_modules,
        models.asked,
        limits=engine_limits(options, env, target),
        options=options,
        variables=env,
        program_doubts=[*([deployment.platform_doubt] if deployment.platform_doubt else []), *of_omni],
    )


def _read_options(
    release: str, command: CommandLine, deployment: Deployment, faults: list[RequestFault], pointer: str
) -> ParsedOptions:
    """The options, with the faults of those that the deployment's edits do not drop."""
    place, is_assumed = f"{pointer}/args", deployment.release_is_assumed
    options = read_options(release, command, deployment.files, faults, place, is_assumed=is_assumed)
    if dropped := {option for option, value in deployment.edits.options.items() if value is None}:
        faults[:] = [fault for fault in faults if fault.refused is None or fault.refused.option not in dropped]
    return options


def _draft_of(
    speculation: Speculation | None, target: Target, find: Callable[[str], Mapping[str, Any] | None], known: Tables
) -> tuple[str, DraftModel | None]:
    """The name of the draft and the draft itself, if there is speculative decoding with one."""
    return ("", None) if speculation is None else read_draft(speculation, target, find, known)


def _derive_without_models(
    deployment: Deployment,
    command: CommandLine,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    faults: list[RequestFault],
    why: str,
) -> IntakeResult:
    """Derive the facts where the decision does not depend on the model, which is not read; ``why`` warns of it."""
    is_omni, command, of_omni = omni_of(command, deployment.omni)
    try:
        options = _own_options(_read_options(release, command, deployment, faults, pointer), is_omni)
    except KeyError as error:  # rules of a folder of one's own may know releases that have no tables
        message = f"a deployment of vLLM {release} cannot be read: this version has no tables of its models and flags"
        raise RequestInvalid([RequestFault(pointer, f"{message}; state its `facts`")]) from error
    if faults:
        raise _invalid_arguments(faults, options, deployment, command, release, is_omni, rules)
    options = with_options(options, deployment.edits.options)
    _read_speculation(options, deployment, pointer)
    release_series = series(release)
    variables = _variables(deployment, command)
    env = _known_values(variables)

    def decide(derived: Provenance) -> tuple[str | None, bool]:
        return rules(facts_of(derived.facts, []))

    environment, of_platform = select_platform(deployment.environment, env, release_series)

    def derive_with(options: ParsedOptions) -> Provenance:
        derived = derive_without_models(options, env, release_series)
        derived.facts.update({**own_runner_facts(environment), **is_omni})
        return derived

    derived = derive_with(options)
    facts = facts_of(derived.facts, faults)
    if faults:
        raise RequestInvalid(
            [replace(fault, pointer=_pointer_of(fault.pointer, deployment, pointer)) for fault in faults]
        )
    if has_unstated_method(derived):
        if len({decide(with_method(derived, method)) for method in METHODS}) > 1:
            place = _pointer_of(derived.facts["speculative_config"][1], deployment, pointer)
            raise RequestInvalid([RequestFault(place, UNSTATED_METHOD.format(release))])
        facts = facts_of(with_method(derived, METHODS[0]).facts, [])
    doubts = [*deployment.doubts, *command.doubts]
    warnings = [why, *deployment.notes, *of_omni, *options.warnings, *of_platform, *redirections(variables)]
    warnings += variable_warnings(variables, release, environment.platform)
    warnings += [doubt for doubt in doubts if not any(warning.startswith(doubt) for warning in warnings)]
    unknown = {
        name: command.set_at.get(name, "")
        for name in variables_of(release_series)
        if name in variables and name not in env
    }
    warnings += [f"the value of `{name}` is not known here; it is assumed to be unset" for name in unknown]
    if options.unknown_sizes:
        warnings += check_sizes(options, derive_with, decide, f"{pointer}/args")
    return IntakeResult(
        facts,
        derived,
        options.ignored,
        warnings,
        {},
        options.unknown_words,
        unknown,
        doubts,
        options.launch_errors,
        command.installation or deployment.installation,
        environment=environment,
        models=_names_of_models(deployment, options, pointer),
        has_models=False,
        options=options,
        variables=env,
        program_doubts=[*([deployment.platform_doubt] if deployment.platform_doubt else []), *of_omni],
    )


def _invalid_arguments(
    faults: list[RequestFault],
    options: ParsedOptions,
    deployment: Deployment,
    command: CommandLine,
    release: str,
    is_omni: Mapping[str, tuple[Any, str]],
    rules: Callable[[Facts], tuple[str | None, bool]],
) -> RequestInvalid:
    """The error of a command line with faults: that vLLM refuses it, if that is certain.

    It is not if an argument is not known, or if the platform or the program has runners of its own: it may have flags
    of its own.
    """
    is_certain = all(fault.refused is not None for fault in faults)
    if not is_certain or options.unknown_words or deployment.doubts or command.doubts:
        return RequestInvalid(faults)
    env = _known_values(_variables(deployment, command))
    environment, _ = select_platform(deployment.environment, env, series(release))
    derived = derive_without_models(ParsedOptions(), env, series(release))
    derived.facts.update({**own_runner_facts(environment), **is_omni})
    if rules(facts_of(derived.facts, [])) == OWN_RUNNER:
        return RequestInvalid(faults)
    return ArgumentsRefused(faults, release, command.installation or deployment.installation, options.unknown_flags)


def _own_options(options: ParsedOptions, is_omni: Mapping[str, object]) -> ParsedOptions:
    """The options if vLLM-Omni is started, which has flags of its own: none of them is an error."""
    return structs.replace(options, launch_errors=[], unknown_flags=[]) if is_omni else options


def with_options(options: ParsedOptions, edits: Mapping[str, Any]) -> ParsedOptions:
    """The options with edits: those of ``None`` are dropped, also members of an option's JSON."""
    if not edits:
        return options
    values, unknown = dict(options.values), {flag.option for flag in options.unknown_flags}
    for name, value in edits.items():
        option, _, member = name.partition(".")
        if name in unknown and value is None:
            options = _without_unknown(options, name)
        elif member:
            values[option] = {key: content for key, content in values.get(option, {}).items() if key != member}
        elif value is None:
            values.pop(option, None)
        else:
            values[option] = value
    return structs.replace(options, values=values)


def _without_unknown(options: ParsedOptions, name: str) -> ParsedOptions:
    """The options without a flag that the release does not have, and without what is said of it."""
    gone = [flag for flag in options.unknown_flags if flag.option == name]
    errors, ignored = [*options.launch_errors], [*options.ignored]
    for flag in gone:
        errors.remove(flag.error)
        ignored.remove(flag.ignored)
    left = [flag for flag in options.unknown_flags if flag.option != name]
    return structs.replace(options, launch_errors=errors, ignored=ignored, unknown_flags=left)


def _variables(deployment: Deployment, command: CommandLine) -> dict[str, str | None]:
    """The variables that vLLM gets, with the deployment's edits, where ``None`` drops one."""
    variables = deployment.env | command.env
    if deployment.edits.variables:
        variables |= deployment.edits.variables
        variables = {
            name: text for name, text in variables.items() if deployment.edits.variables.get(name, "") is not None
        }
    return variables


def _known_values(variables: Mapping[str, str | None]) -> dict[str, str]:
    """The variables with known values; a placeholder such as `${NAME}` is for a tool that sets the value."""
    return {name: text for name, text in variables.items() if text is not None and PLACEHOLDER.search(text) is None}


def _names_of_models(deployment: Deployment, options: ParsedOptions, pointer: str) -> dict[str, str]:
    """The models that the arguments name, which are not looked up."""
    speculation = read_speculation(options)
    draft = None if speculation is None else speculation.keys.get("model")
    models = ModelLookup(deployment, no_models, pointer)
    for name in (options.get("model") or DEFAULT_MODEL, options.get("hf_config_path"), draft):
        if isinstance(name, str):
            models.note(name.rstrip("/"))
    return models.asked


def require_known_values(result: IntakeResult, pointer: str) -> None:
    """Check that all arguments, variables and files that facts depend on are known.

    ``pointer`` is the deployment's.

    Raises:
        RequestInvalid: an argument may be any flag, a variable's value is unknown, vLLM may get other arguments or
            variables for another reason, run the model as a pooling model or on another platform, or another program
            may run.
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
        raise RequestInvalid(faults[:MAX_FAULTS])


def _read_speculation(options: ParsedOptions, deployment: Deployment, pointer: str) -> Speculation | None:
    """The speculative decoding, if vLLM accepts what is stated.

    Raises:
        RequestInvalid: vLLM refuses it.
    """
    speculation = read_speculation(options)
    if speculation is not None and (message := speculation_fault(speculation)):
        place = _pointer_of(speculation.place, deployment, pointer)
        raise RequestInvalid([RequestFault(place, f"the speculative configuration: {message}")])
    return speculation


def _read_models(
    deployment: Deployment, options: ParsedOptions, models: ModelLookup, known: Tables, pointer: str
) -> tuple[Target, Speculation | None]:
    """The served model, which a *speculators* repository may replace, and the speculative decoding."""
    name = str(options.get("model") or DEFAULT_MODEL).rstrip("/")
    speculation = _read_speculation(options, deployment, pointer)
    config = models.config(name)
    found = read_speculators(config, known)
    if found is not None:
        speculation = _merge_speculators(found[1], name, speculation, known)
        name = found[0]
        config = models.config(name)
    config_name = str(options.get("hf_config_path") or name).rstrip("/")
    if config_name != name:
        config = models.config(config_name)
    _require_draft(speculation, name, known, models)
    models.check()
    try:
        return read_target(
            name, config_name, config, options, models.files, known, deployment.environment.vllm_platform
        ), speculation
    except Unsupported as error:
        fault = RequestFault(
            pointer_of_model(config_name, deployment, pointer), f"vLLM {known.release} refuses this model: {error}"
        )
        raise RequestInvalid([fault], UNSUPPORTED_MODEL) from error
    except CompanionInvalid as error:
        raise RequestInvalid([RequestFault(at(f"{pointer}/files", error.path), str(error))]) from error


def _decide_as_pooling(
    name: str, models: ModelLookup, decide: Callable[[], tuple[str | None, bool]]
) -> tuple[str | None, bool] | None:
    """The decision if the model had a pooling module; None if vLLM would refuse it."""
    models.files = {**models.files, f"{name}/{MODULES}": POOLING_MODULES}
    try:
        return decide()
    except RequestInvalid:
        return None


def _pointer_of(origin: str, deployment: Deployment, pointer: str) -> str:
    """The JSON pointer of a fact's origin: a word, a variable or a model's configuration."""
    of_model = origin.removeprefix(MODELS)
    if of_model != origin:
        names = [name for name in deployment.model_configs if f"{of_model}/".startswith(f"{name}/")]
        return pointer_of_model(max(names, key=len), deployment, pointer) if names else pointer
    variable = origin.removeprefix("env.")
    return word_pointer(f"{pointer}/args", origin) if variable == origin else at(f"{pointer}/env", variable)


def command_of(deployment: Deployment, faults: list[RequestFault], pointer: str) -> CommandLine:
    """The parsed command of a deployment; its faults are appended to ``faults``."""
    args = deployment.args
    if isinstance(args, str):
        return read_text(args, deployment.env, faults, pointer)
    places = deployment.places
    places = PLACES[: len(args)] if places is None else places
    hidden = deployment.has_hidden_variables
    return read_command(args, places, deployment.env, faults, pointer, has_hidden_variables=hidden)


def facts_with_origin(result: IntakeResult, series: Series) -> dict[str, DerivedFact]:
    """Every fact with its origin, as the answer shows it, except those that do not apply.

    These are facts below an absent object, facts that the series no longer has, and facts that were not derived because
    the release has no tables of models.
    """
    row, facts, later = result.facts.row, result.derived.facts, result.derived.later
    return {
        name: DerivedFact(*later[name]) if name in later else _derived_fact(to_json(row[index]), facts[name][1])
        for name, index, above, is_in in FACT_ANCESTORS
        if all(facts[each][0] for each in above)
        and is_in(series)
        and (result.has_models or facts[name][1] is not DEFAULT)
    }


def _derived_fact(value: Any, origin: str) -> DerivedFact:
    """A fact with its origin, with the secrets in its texts hidden."""
    if origin is not DEFAULT:
        if isinstance(value, str):
            value = masked_message(value)
        elif isinstance(value, list | tuple):
            value = [masked_message(item) if isinstance(item, str) else item for item in value]
    return DerivedFact(value, origin)


def _merge_speculators(
    settings: dict[str, Any], model: str, speculation: Speculation | None, known: Tables
) -> Speculation:
    """The speculative decoding of a *speculators* repository, merged with the command line's from 0.29 on."""
    stated = speculation.keys if speculation is not None and known.series >= (0, 29) else {}
    return Speculation(
        {**settings, **stated, "method": settings["method"], "model": model}, f"model_configs/{model}/{SPECULATORS}"
    )


def _require_draft(speculation: Speculation | None, target: str, known: Tables, models: ModelLookup) -> None:
    if speculation is None or not needs_draft(speculation, known):
        return
    name = draft_model(speculation, target)
    if name is not None:
        models.config(name.rstrip("/"))
