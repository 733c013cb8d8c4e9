"""Derive the facts of a deployment, each with its origin: the entry point of this package.

Runs the steps in order: arguments, model configurations (``model_lookup``), derivation, facts.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from msgspec import structs

from policy.errors import RequestFault, RequestInvalid
from policy.intake.command.config_file import secrets_of_files
from policy.intake.command.paths import ANY_FOLDER
from policy.intake.command.unknown_flags import without_secrets
from policy.intake.command.words import PLACEHOLDER
from policy.intake.command_line import FolderMounts, ParsedOptions
from policy.intake.deployment_command import command_of, options_of
from policy.intake.derive.derivation import VARIABLE, VARIABLES, derive, own_runner_facts
from policy.intake.derive.omni import omni_of
from policy.intake.derive.request_limits import engine_limits
from policy.intake.derive.row import facts_of
from policy.intake.derive.speculation import (
    DraftReader,
    Speculation,
    read_draft,
)
from policy.intake.derive.target_device import TARGET_DEVICE_SINCE, select_platform
from policy.intake.derive.triton import assume_triton, triton_warnings
from policy.intake.derive.without_models import (
    METHODS,
    derive_without_models,
    has_models,
    has_unstated_method,
    not_checked,
    variables_of,
    with_method,
)
from policy.intake.edited import with_options, with_variables
from policy.intake.launch.refusals import NO_FINDINGS, refusals
from policy.intake.launch.values import LaunchValues
from policy.intake.loaded_code import loaded_code
from policy.intake.model.other_configuration import other_configurations
from policy.intake.model.pooling import MODULES
from policy.intake.model.quantization import QUANTIZATION
from policy.intake.model.redirection import mounted_files, mounted_models, other_revision, redirections
from policy.intake.model.tables import tables
from policy.intake.model.target import QUANTIZED, with_quantization
from policy.intake.model.transformers_releases import transformers_warnings
from policy.intake.model.unusual_fields import unusual_in_others
from policy.intake.model_lookup import MODEL_CONFIG_NEEDED, ModelLookup, no_models
from policy.intake.origins import pointer_of
from policy.intake.ray_workers import ray_workers
from policy.intake.refused_arguments import ArgumentsRefused
from policy.intake.result import IntakeResult
from policy.intake.served_models import (
    UNSUPPORTED_MODEL,
    decide_as_pooling,
    names_of_models,
    read_models,
    stated_speculation,
)
from policy.intake.unknown_options import options_not_checked
from policy.intake.unknown_options import warnings_of as option_warnings
from policy.intake.unknown_sizes import check_sizes
from policy.intake.variables import refused_variables, variable_warnings
from policy.masking import masked_message
from policy.messages import quoted
from policy.rules.releases import series
from policy.secret_values import NO_SECRETS
from policy.stated_secrets import secret_values, secrets_of_words, stated_secrets

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from policy.facts.facts import Facts
    from policy.facts.vocabulary import Series
    from policy.intake.command_line import CommandLine, UnknownOption
    from policy.intake.deployment import Deployment, Environment
    from policy.intake.launch.refusals import Findings
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.model_lookup import Find
    from policy.intake.provenance import Provenance
    from policy.secret_values import SecretValues

Source = TypeVar("Source", "Deployment", "CommandLine")
OWN_RUNNER: Final = (None, True)
"""The rules' result where the platform or the program has runners of its own: no runner of vLLM's, but it starts."""
NOT_NEEDED: Final = (
    "the model's configuration is not known here and not needed, because vLLM's own runners are not used; whether the "
    "model can be loaded is not checked"
)
VALIDATION_OPTION: Final = "fail_on_environ_validation"
UNSTATED_METHOD: Final = (
    "the speculative configuration: it names no `method`, and vLLM {} finds it out from the draft, which is not read "
    'for this release; the method decides whether V2 starts, so write it, such as `"method": "eagle"`'
)


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
    found = (
        *command.secrets,
        *deployment.secrets,
        *(stated_secrets(command.env) if command.env else ()),
        # it may set what `env` has anew
        *(() if texts[-len(command.words) :] == command.words else secrets_of_words(command.words)),
        *(secrets_of_files(deployment.files) if deployment.files else ()),
    )
    secrets = secret_values(deployment.env, texts, found, deployment.stated)
    has_secrets = secrets is not NO_SECRETS
    if has_secrets:
        deployment, command = _without_secrets(deployment, secrets), _without_secrets(command, secrets)
        find = _naming(find, secrets)
    try:
        if has_models(release):
            result = _derive_with_models(deployment, command, release, pointer, rules, find, faults)
        else:
            result = _derive_without_models(deployment, command, release, pointer, rules, faults, not_checked(release))
    except RequestInvalid as error:
        error.hide(secrets)
        raise
    if has_secrets:
        models = {secrets.named(name): secrets.named(own) for name, own in result.models.items()}
        result = structs.replace(result, models=models, secrets=secrets)
        if result.installation is not None:  # it may be that of another container, which starts Ray
            cause = secrets.hidden(result.installation.cause)
            result = structs.replace(result, installation=structs.replace(result.installation, cause=cause))
    hidden = secrets.hidden if has_secrets else masked_message
    ignored = [] if result.options.is_plain and not has_secrets else result.ignored
    messages = (ignored, result.warnings, result.launch_errors, result.doubts, result.program_doubts)
    for texts in filter(None, (*messages, result.unknown_models)):
        texts[:] = [hidden(text) for text in texts]
    if result.unknown_options:
        result.unknown_options[:] = [
            structs.replace(option, text=hidden(option.text)) for option in result.unknown_options
        ]
    if result.options.unknown_flags:
        result.options.unknown_flags[:] = without_secrets(result.options.unknown_flags, secrets)
    return result


def _naming(find: Find, secrets: SecretValues) -> Find:
    """``find``, called with a `HiddenName` for a name that contains a secret, because it may show the name."""
    return lambda name: find(secrets.named(name))


def _without_secrets(source: Source, secrets: SecretValues) -> Source:
    """A deployment or its command with the secrets hidden in two texts that are shown as they are written.

    These are the reason why another vLLM runs, and a value of the runner's variable that is not a number, which vLLM
    refuses.
    """
    env, installation = source.env, source.installation
    value = env.get(VARIABLE)
    if value is not None and not _is_number(value):
        env = {**env, VARIABLE: secrets.hidden(value)}
    if installation is not None:
        installation = structs.replace(installation, cause=secrets.hidden(installation.cause))
    return structs.replace(source, env=env, installation=installation)


def _is_number(text: str) -> bool:
    try:
        int(text)
    except ValueError:
        return False
    return True


def _derive_with_models(
    deployment: Deployment,
    command: CommandLine,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    find: Find,
    faults: list[RequestFault],
) -> IntakeResult:
    """Derive the facts. If the model is missing or unsupported and the rules do not need it, leave out its facts.

    The rules do not need them where the platform or the program has its own runners and models.
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
    options = options_of(command, deployment, release, pointer, faults, is_omni=bool(is_omni))
    if faults:
        raise _invalid_arguments(faults, options, deployment, command, release, is_omni, rules)
    options = with_options(options, deployment.edits.options)
    variables = with_variables(deployment, command)
    env = _known_values(variables)
    environment, of_platform = _environment_of(deployment, env, known.series)
    deployment = structs.replace(deployment, environment=environment)
    models = ModelLookup(deployment, find, pointer)
    target, speculation = read_models(deployment, options, models, known, pointer)

    def decide(derived: Provenance) -> tuple[str | None, bool]:
        return rules(facts_of(derived.facts, []))

    def derive_with(target: ServedModel, read_draft: DraftReader, options: ParsedOptions = options) -> Provenance:
        derived = derive(target, speculation, options, env, environment, read_draft, known, decide)
        derived.facts.update(is_omni)
        return derived

    def decide_for(other: ServedModel) -> tuple[str | None, bool]:
        return decide(derive_with(other, _draft_reader(speculation, other, models.find_config, known)))

    draft = _draft_reader(speculation, target, models.find_config, known)
    derived = derive_with(target, draft)
    facts = facts_of(derived.facts, faults)
    if faults:
        raise RequestInvalid(
            [replace(fault, pointer=pointer_of(fault.pointer, deployment, pointer)) for fault in faults]
        )
    of_workers, installation = ray_workers(options, deployment, command, variables, _names_of(known.series))
    of_code = _unless_own_runner(
        [*loaded_code(options, variables, env, command.env), *of_workers], lambda: rules(facts)
    )
    warnings = [
        *(*deployment.notes, *of_omni, *options.warnings, *of_platform, *derived.warnings, *of_code),
        *redirections(variables, models.own_names),
        *other_revision(options.others.get("revision", (None,))[0], models.found),
        *transformers_warnings(release, environment.transformers),
        *triton_warnings(environment, known.series, facts, rules),
        *(variable_warnings(variables, release, environment.platform) if variables else ()),
    ]
    doubts = [*_stated_doubts(deployment, command), *_mounted(deployment, models.own_names)]
    warnings += [doubt for doubt in doubts if not any(warning.startswith(doubt) for warning in warnings)]
    if VARIABLE in variables and VARIABLE not in env:
        warnings.append(f"the value of `{VARIABLE}` is not known here; it is assumed to be unset")
    if options.unknown_sizes:
        warnings += check_sizes(
            options,
            lambda sized: derive_with(target, draft, sized),  # no size changes which models are read, nor how
            decide,
            f"{pointer}/args",
        )
    others = _unless_own_runner(
        [
            *other_configurations(models.configs, models.own_names, options, release),
            *target.unusual,
            *unusual_in_others(models.configs, {target.name, target.config_name}, known),
        ],
        lambda: rules(facts),
    )
    warnings += (
        unknown_models := [
            *others,
            *_unknown_name(options),
            *_unknown_quantization(
                target,
                models,
                derived,
                lambda: rules(facts) != decide_for(with_quantization(target)),
            ),
        ]
    )
    without_modules = "" if models.has_known(MODULES, target.name) else target.name
    if (
        without_modules
        and models.is_named_like_embedding(target.name)
        and rules(facts)
        != decide_as_pooling(
            target,
            models,
            options,
            environment.vllm_platform,
            decide_for,
        )
    ):
        pooling = (
            f"{quoted(target.name)} is named like an embedding model, and its `{MODULES}` is not given; with that file "
            f"vLLM may run it as a pooling model, which would change the decision; send `{MODULES}` and "
            "`1_Pooling/config.json` in `files`, under the model's name, or set `--runner`"
        )
        unknown_models.append(pooling)
        warnings.append(pooling)
    unknown_variables = _unknown_values(_names_of(known.series), variables, env, command)
    launch_errors = options.launch_errors
    if options.others.get(VALIDATION_OPTION, (False, ""))[0] is True and not is_omni:
        launch_errors += refused_variables(variables, release, environment.platform)
    values = LaunchValues(
        options,
        target,
        speculation,
        draft,
        derived,
        variables,
        models.files,
        environment.vllm_platform,
        known,
        lambda: rules(facts)[0],
        has_hidden_variables=deployment.has_hidden_variables,
        gpus=deployment.gpus,
    )
    found = NO_FINDINGS if is_omni else refusals(values)
    refused = found.refused if derived.refusal is None else [derived.refusal, *found.refused]
    unknown_options = _warn_of_checks(found, options, release, warnings)
    if refused:
        # an unknown argument may set other sizes, and another configuration may have them
        is_certain = not (options.unknown_words or doubts or others)
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
        installation,
        unknown_models,
        environment,
        without_modules,
        models.own_names,
        limits=engine_limits(options, env, target),
        options=options,
        variables=env,
        program_doubts=[*([deployment.platform_doubt] if deployment.platform_doubt else []), *of_omni, *of_code],
        unknown_options=unknown_options,
        refused_options=found.options,
    )


def _names_of(release_series: Series) -> tuple[str, ...]:
    """The variables from which facts are derived in the releases that have tables of models."""
    return VARIABLES if release_series >= TARGET_DEVICE_SINCE else VARIABLES[:-1]


def _unknown_name(options: ParsedOptions) -> list[str]:
    """The message that the value of the model's name is not known, if so."""
    if not options.unknown_model:
        return []
    shown = quoted(options.unknown_model)
    return [
        f"the model is {shown}, whose value is not known; decided for the `config.json` that is given under this name"
    ]


def _unknown_quantization(
    target: ServedModel, models: ModelLookup, derived: Provenance, would_change: Callable[[], bool]
) -> list[str]:
    """The message that a file, which is not known, may make the model quantized, if that would change the decision."""
    name = target.config_name
    if (
        derived.facts[QUANTIZED][0]
        or not models.is_named_like_quantized(name)
        or models.has_known(QUANTIZATION, name)
        or not would_change()
    ):
        return []
    message = (
        f"{quoted(name)} is named like a quantised checkpoint, its `config.json` states no quantisation, and its "
        f"`{QUANTIZATION}` is not given; with that file the model is quantised, which would change the decision; send "
        f"`{QUANTIZATION}` in `files`, under the model's name (`null` if there is none)"
    )
    return [message]


def _warn_of_checks(found: Findings, options: ParsedOptions, release: str, warnings: list[str]) -> list[UnknownOption]:
    """Append warnings about possible refusals and about the options that are not checked; return these options."""
    if found is NO_FINDINGS and not options.unknown_options:
        return []
    unknown_options = options_not_checked(options.unknown_options, found.unread)
    warnings += [
        *(f"vLLM may refuse this configuration: {why}" for why in found.uncertain),
        *(f"vLLM {release} warns: {why}" for why in found.warned),
        *option_warnings(unknown_options),
    ]
    return unknown_options


def _unless_own_runner(doubts: list[str], decide: Callable[[], tuple[str | None, bool]]) -> list[str]:
    """The doubts about code or files that are not read; none where the platform or the program has its own runners."""
    return [] if doubts and decide() == OWN_RUNNER else doubts


def _draft_reader(
    speculation: Speculation | None, target: ServedModel, find: Callable[[str], Mapping[str, Any] | None], known: Tables
) -> DraftReader:
    """What reads the method and the draft, once; there are none without speculative decoding."""
    return cache(lambda: ("", None) if speculation is None else read_draft(speculation, target, find, known))


def _derive_without_models(
    deployment: Deployment,
    command: CommandLine,
    release: str,
    pointer: str,
    rules: Callable[[Facts], tuple[str | None, bool]],
    faults: list[RequestFault],
    why: str,
) -> IntakeResult:
    """Derive the facts without reading the model, where the decision does not depend on it; ``why`` is the warning."""
    is_omni, command, of_omni = omni_of(command, deployment.omni)
    try:
        options = options_of(command, deployment, release, pointer, faults, is_omni=bool(is_omni))
    except KeyError as error:  # rules in a user's own folder may know releases that have no tables
        message = f"a deployment of vLLM {release} cannot be read: this version has no tables of its models and flags"
        raise RequestInvalid([RequestFault(pointer, f"{message}; state its `facts`")]) from error
    if faults:
        raise _invalid_arguments(faults, options, deployment, command, release, is_omni, rules)
    options = with_options(options, deployment.edits.options)
    stated_speculation(options, deployment, pointer)
    release_series = series(release)
    variables = with_variables(deployment, command)
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
            [replace(fault, pointer=pointer_of(fault.pointer, deployment, pointer)) for fault in faults]
        )
    if has_unstated_method(derived):
        if len({decide(with_method(derived, method)) for method in METHODS}) > 1:
            place = pointer_of(derived.facts["speculative_config"][1], deployment, pointer)
            raise RequestInvalid([RequestFault(place, UNSTATED_METHOD.format(release))])
        facts = facts_of(with_method(derived, METHODS[0]).facts, [])
    doubts = _stated_doubts(deployment, command)
    warnings = [why, *deployment.notes, *of_omni, *options.warnings, *of_platform]
    warnings += redirections(variables, asked := names_of_models(deployment, options, pointer))
    names = variables_of(release_series)
    of_workers, installation = ray_workers(options, deployment, command, variables, names)
    of_code = _unless_own_runner(
        [*loaded_code(options, variables, env, command.env), *of_workers], lambda: decide(derived)
    )
    warnings += [*variable_warnings(variables, release, environment.platform), *of_code]
    warnings += [doubt for doubt in doubts if not any(warning.startswith(doubt) for warning in warnings)]
    unknown = _unknown_values(names, variables, env, command)
    warnings += [f"the value of `{name}` is not known here; it is assumed to be unset" for name in unknown]
    if options.unknown_sizes:
        warnings += check_sizes(options, derive_with, decide, f"{pointer}/args")
    unknown_options = options_not_checked(options.unknown_options, ())
    warnings += option_warnings(unknown_options)
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
        installation,
        environment=environment,
        models=asked,
        has_models=False,
        options=options,
        variables=env,
        program_doubts=[*([deployment.platform_doubt] if deployment.platform_doubt else []), *of_omni, *of_code],
        unknown_options=unknown_options,
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
    """The error for a command line with faults; it says that vLLM refuses the arguments if this is certain.

    It is not certain if an argument is not known, or if the platform or the program has its own runners: then it may
    have its own flags too.
    """
    is_certain = all(fault.refused is not None for fault in faults)
    if not is_certain or options.unknown_words or deployment.doubts or command.doubts:
        return RequestInvalid(faults)
    env = _known_values(with_variables(deployment, command))
    environment, _ = select_platform(deployment.environment, env, series(release))
    derived = derive_without_models(ParsedOptions(), env, series(release))
    derived.facts.update({**own_runner_facts(environment), **is_omni})
    if rules(facts_of(derived.facts, [])) == OWN_RUNNER:
        return RequestInvalid(faults)
    return ArgumentsRefused(faults, release, command.installation or deployment.installation, options.unknown_flags)


def _environment_of(
    deployment: Deployment, env: Mapping[str, str], series: tuple[int, int]
) -> tuple[Environment, list[str]]:
    """The environment with the platform that a variable selects and what is assumed about Triton, and warnings."""
    environment, warnings = select_platform(deployment.environment, env, series)
    return assume_triton(environment, series), warnings


def _known_values(variables: Mapping[str, str | None]) -> dict[str, str]:
    """The variables with known values; a placeholder such as `${NAME}` is for a tool that sets the value."""
    if not variables:
        return {}
    return {name: text for name, text in variables.items() if text is not None and PLACEHOLDER.search(text) is None}


def _unknown_values(
    names: Sequence[str], variables: Mapping[str, str | None], env: Mapping[str, str], command: CommandLine
) -> dict[str, str]:
    """The named variables whose values are not known, each with the place in the command that sets or clears it."""
    if len(env) == len(variables):
        return {}
    return {name: command.set_at.get(name, "") for name in names if name in variables and name not in env}


def _stated_doubts(deployment: Deployment, command: CommandLine) -> list[str]:
    """The doubts of a deployment and of its command, which may have the same ones."""
    return [*dict.fromkeys([*deployment.doubts, *command.doubts])]


def _mounted(deployment: Deployment, models: Collection[str]) -> Iterable[str]:
    """Why vLLM may load a folder or a file of a mount instead of a model, in any of the working folders that count."""
    if not (deployment.mounts or deployment.file_mount or deployment.image_folder):
        return ()
    found: dict[str, None] = {}
    stated = FolderMounts(deployment.folder, deployment.mounts, deployment.file_mount)
    for each in filter(None, (stated, deployment.image_folder)):
        folder = None if each.folder == ANY_FOLDER else each.folder
        found |= dict.fromkeys(mounted_models(each.mounts, folder, models))
        found |= dict.fromkeys(mounted_files(each.file_mount, models))
    return found
