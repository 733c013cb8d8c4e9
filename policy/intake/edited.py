"""The options and variables of a deployment with the edits that are tried to find a remedy."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from msgspec import structs

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import CommandLine, ParsedOptions
    from policy.intake.deployment import Deployment


def with_options(options: ParsedOptions, edits: Mapping[str, Any]) -> ParsedOptions:
    """The options with the edits applied; ``None`` drops an option, or a member of its JSON."""
    if not edits:
        return options
    values, others = dict(options.values), dict(options.others)
    unknown = {flag.option for flag in options.unknown_flags}
    for name, value in edits.items():
        option, _, member = name.partition(".")
        if name in unknown and value is None:
            options = _without_unknown(options, name)
        elif member:
            values[option] = {key: content for key, content in values.get(option, {}).items() if key != member}
        elif value is None:
            values.pop(option, None)
            others.pop(option, None)
        else:
            values[option] = value
    return structs.replace(options, values=values, others=others)


def _without_unknown(options: ParsedOptions, name: str) -> ParsedOptions:
    """The options without a flag that the release does not have, and without the messages about it."""
    gone = [flag for flag in options.unknown_flags if flag.option == name]
    errors, ignored = [*options.launch_errors], [*options.ignored]
    for flag in gone:
        errors.remove(flag.error)
        ignored.remove(flag.ignored)
    left = [flag for flag in options.unknown_flags if flag.option != name]
    return structs.replace(options, launch_errors=errors, ignored=ignored, unknown_flags=left)


def with_variables(deployment: Deployment, command: CommandLine) -> dict[str, str | None]:
    """The variables that vLLM gets, with the deployment's edits applied; ``None`` drops a variable."""
    variables = deployment.env | command.env
    for name in command.removed:
        variables.pop(name, None)
    if deployment.edits.variables:
        variables |= deployment.edits.variables
        variables = {
            name: text for name, text in variables.items() if deployment.edits.variables.get(name, "") is not None
        }
    return variables
