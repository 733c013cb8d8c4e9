"""The command of a deployment, and the options that a release reads from it."""

from __future__ import annotations

from posixpath import isabs
from typing import TYPE_CHECKING, Final

from msgspec import structs

from policy.intake.command.arguments import read_options
from policy.intake.command.expansion import MAX_WORDS
from policy.intake.command.own_arguments import plain_arguments

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import CommandLine, ParsedOptions
    from policy.intake.deployment import Deployment

PLACES: Final = [f"args[{place}]" for place in range(MAX_WORDS)]


def command_of(deployment: Deployment, faults: list[RequestFault], pointer: str) -> CommandLine:
    """Parse the command of a deployment, and append its faults to ``faults``."""
    args, env, places = deployment.args, deployment.env, deployment.places
    if isinstance(args, str):
        from policy.intake.command.launcher import read_text  # noqa: PLC0415  # see `own_arguments`

        return read_text(args, env, faults, pointer)
    places = PLACES[: len(args)] if places is None else places
    if (own := plain_arguments(args, places, env)) is not None:
        return own
    from policy.intake.command.launcher import read_command  # noqa: PLC0415  # see `own_arguments`

    hidden = deployment.has_hidden_variables
    return read_command(args, places, env, faults, pointer, has_hidden_variables=hidden, gpus=deployment.gpus)


def options_of(
    command: CommandLine,
    deployment: Deployment,
    release: str,
    pointer: str,
    faults: list[RequestFault],
    *,
    is_omni: bool,
) -> ParsedOptions:
    """Read the options of a deployment's command, and append their faults to ``faults``.

    ``pointer`` is the deployment's. The faults of options that the deployment's edits drop are left out. If vLLM-Omni
    is started, launch errors, unknown flags and unknown values are left out too, because it has flags of its own.
    """
    place, is_assumed = f"{pointer}/args", deployment.release_is_assumed
    files, folder = deployment.files, deployment.folder
    if deployment.image_folder is not None and not isabs(folder):
        folder = deployment.image_folder.folder
    options = read_options(release, command, files, faults, place, folder=folder, is_assumed=is_assumed)
    if dropped := {option for option, value in deployment.edits.options.items() if value is None}:
        faults[:] = [fault for fault in faults if fault.refused is None or fault.refused.option not in dropped]
    return structs.replace(options, launch_errors=[], unknown_flags=[], unknown_options={}) if is_omni else options
