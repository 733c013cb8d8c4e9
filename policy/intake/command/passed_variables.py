"""The variables of a program that starts a container, as the programs before it change them.

Those programs have the same effect as before vLLM: `sudo docker run -e NAME` passes on what `sudo vllm serve` gets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.program_names import program_doubts
from policy.intake.command.program_walk import CHANGE_MESSAGE, server_of
from policy.intake.command.script_context import ScriptContext
from policy.intake.command.vllm_command import NO_START_REMEDIES, ServerCommand
from policy.masking import shown_command
from policy.messages import quoted
from policy.stated_secrets import secret_values

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from policy.intake.command.expansion import ExpansionBudget

SERVER: Final = ("vllm", "serve")
"""Stands in for the program that starts a container."""


class PassedVariables(Struct, frozen=True):
    """The variables of a command; None if a value is not known. ``removed`` are names that it certainly does not have.

    ``doubts`` say what may change them in an unknown way, and ``absent`` which programs of the command may not exist.
    With ``has_hidden_variables`` there may be others, from the sources that ``notes`` name. ``secrets`` are the secrets
    stated around the command, whether it passes them on or not.
    """

    env: dict[str, str | None]
    doubts: tuple[str, ...] = ()
    has_hidden_variables: bool = False
    notes: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    removed: frozenset[str] = frozenset()
    secrets: frozenset[str] = frozenset()

    def lookup(self, name: str) -> dict[str, str | None]:
        """The variable with a name; empty if there certainly is none."""
        return {} if name in self.removed else {name: self.env.get(name)}


def passed_variables(
    words: Sequence[str],
    at: int,
    env: dict[str, str | None],
    budget: ExpansionBudget,
    *,
    is_script: bool,
    names: Collection[str] = (),
) -> PassedVariables | None:
    """The variables in ``env`` as the program at ``at`` gets them; None if nothing starts it.

    ``is_script``: whether a shell runs the command. ``names`` are the variables that the program passes on; the value
    of one that ``env`` does not have is not known, unless an earlier program removes the variable.
    """
    if not at:
        return PassedVariables(env)
    before = [*words[:at], *SERVER]
    places = list(map(str, range(len(before))))
    context = ScriptContext(budget)
    try:
        if not env.keys() >= set(names):
            budget.copy(len(env))
            env = {**dict.fromkeys(names), **env}
        found = server_of(before, places, {}, env, context.inner_context() if is_script else context)
    except ShellSyntaxError:
        return _unknown(words[0], env)
    if isinstance(found, ServerCommand):
        hidden = secret_values(env, (), budget.secrets).hidden
        absent = program_doubts(found.programs[:-1], is_script=is_script)
        doubts = (doubt for doubt in found.doubts if doubt not in absent)
        removed = frozenset() if found.doubts else found.removed.intersection(names)
        return PassedVariables(
            found.env, tuple(map(hidden, doubts)), absent=tuple(map(hidden, absent)), removed=removed
        )
    return None if found is None or found.remedy in NO_START_REMEDIES else _unknown(words[0], env)


def _unknown(program: str, env: dict[str, str | None]) -> PassedVariables:
    """Variables whose values are not known, because of a program that is not known."""
    return PassedVariables(dict.fromkeys(env), (CHANGE_MESSAGE.format(quoted(shown_command([program]))),))
