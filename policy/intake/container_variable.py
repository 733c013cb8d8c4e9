"""Whether a variable of the container reaches vLLM, or its command clears it or sets it to another value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec.structs import replace

from policy.intake.deployment_command import command_of

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.deployment import Deployment


def why_without_effect(deployment: Deployment, name: str, value: str) -> str:
    """Why vLLM would not get this value if the container's variable had it, and what to do; empty if it would.

    The command is read with the variable set, since it may keep a value (`${A:-1}`) that it would otherwise set.
    """
    faults: list[RequestFault] = []
    command = command_of(replace(deployment, env={**deployment.env, name: value}), faults, "")
    if faults:
        does = "the command cannot be read with it"
    elif command.env.get(name, value) == value:
        return ""
    else:
        place = command.set_at[name]
        does = (
            f"the command clears it, or may change it ({place})"
            if command.env[name] is None
            else f"the command sets it to another value ({place})"
        )
    return (
        f"setting `{name}` in the container's `env` has no effect: {does}; put `env {name}={value}` right before "
        "vLLM's program"
    )
