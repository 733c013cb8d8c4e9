"""Every place that sets the operator's variable for a deployment, each with the deployment without it.

Owns which settings there are: a stated fact, a variable of the deployment or of its container, the image's own
variable, and the command. Where a text has them is not known here.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING

from msgspec import Struct
from msgspec.structs import replace

from policy.facts.facts import Facts, defaults, to_json
from policy.facts.vocabulary import VARIABLE_INDEX
from policy.intake.command.words import PLACEHOLDER
from policy.intake.deployment import Edits
from policy.intake.deployment_command import command_of
from policy.remedies.changes import VARIABLE_NAME
from policy.rules.releases import series

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.deployment import Deployment
    from policy.request.request import Request


class VariableSource(StrEnum):
    """What sets the variable."""

    FACTS = "facts"
    VARIABLES = "variables"
    COMMAND = "command"
    IMAGE = "image"


class Pin(Struct, frozen=True):
    """One setting of the variable.

    ``value`` is its text, or the stated fact; ``None`` if it is not known. ``at`` is the place in the command, or the
    row of the table of images. ``without`` is the same deployment without this setting, but with all others.
    """

    source: VariableSource
    value: str | bool | None
    at: str
    without: Request


def pins_of(request: Request) -> list[Pin]:
    """The settings of the variable, in the order in which a later one replaces an earlier one."""
    if request.deployment is None:
        return _of_facts(request)
    deployment = request.deployment
    return [*_of_variables(request, deployment), *_of_command(request, deployment)]


def _of_facts(request: Request) -> list[Pin]:
    facts = request.facts
    value = facts.row[VARIABLE_INDEX]
    if VARIABLE_INDEX not in facts.stated or value is None:
        return []
    row = facts.row.copy()
    row[VARIABLE_INDEX] = defaults(series(request.release.decided_as))[VARIABLE_INDEX]
    stated = [each for each in facts.stated if each != VARIABLE_INDEX]
    return [Pin(VariableSource.FACTS, to_json(value), "", replace(request, facts=Facts(row, stated)))]


def _of_variables(request: Request, deployment: Deployment) -> list[Pin]:
    if VARIABLE_NAME not in deployment.env:
        return []
    of_image = deployment.image_env.get(VARIABLE_NAME)
    env = {name: text for name, text in deployment.env.items() if name != VARIABLE_NAME}
    if of_image is not None and not of_image.is_used:  # it takes effect where the manifest no longer sets it
        env[VARIABLE_NAME] = of_image.value
    source = VariableSource.IMAGE if of_image is not None and of_image.is_used else VariableSource.VARIABLES
    at = of_image.row if of_image is not None and of_image.is_used else ""
    value = _known(deployment.env[VARIABLE_NAME])
    return [Pin(source, value, at, replace(request, deployment=replace(deployment, env=env)))]


def _of_command(request: Request, deployment: Deployment) -> list[Pin]:
    faults: list[RequestFault] = []
    command = command_of(deployment, faults, "")
    if faults or VARIABLE_NAME not in command.env:
        return []
    value = command.env[VARIABLE_NAME]
    if value is None and VARIABLE_NAME in deployment.env:
        # unknown, or cleared: without the container's variable there is nothing to clear
        env = {name: text for name, text in deployment.env.items() if name != VARIABLE_NAME}
        if VARIABLE_NAME not in command_of(replace(deployment, env=env), faults, "").env:
            return []
    edits = Edits(variables={VARIABLE_NAME: deployment.env.get(VARIABLE_NAME)})
    without = replace(request, deployment=replace(deployment, edits=edits))
    return [Pin(VariableSource.COMMAND, _known(value), command.set_at.get(VARIABLE_NAME, ""), without)]


def _known(value: str | None) -> str | None:
    """A value, unless it is a template that another tool fills in."""
    return None if value is None or PLACEHOLDER.search(value) else value
