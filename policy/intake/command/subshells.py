"""Parse the commands in `$(…)` and backticks of a command, each as the script of a subshell."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import ShellSyntaxError
from policy.intake.command.substituted_commands import scripts
from policy.intake.command.substitutions import TOO_MANY_MESSAGE
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_commands import Command
    from policy.intake.command.substituted_commands import ShellExpansion

MAX_NESTED: Final = 4
"""How many substitutions within each other are read."""
TOO_DEEP_MESSAGE: Final = f"it is nested more than {MAX_NESTED} deep"
ARGUMENTS: Final = ("sh", Unknown("$@", is_several=True))
"""The arguments of the script around a substitution, which are not known."""


def commands_within(
    expansion: ShellExpansion, env: Mapping[str, str | None], budget: ExpansionBudget, depth: int
) -> Iterator[list[Command]]:
    """The commands of each substitution of an expansion that is itself within ``depth`` others.

    Raises:
        ShellSyntaxError: a substitution cannot be read, or a limit is exceeded.
    """
    if not expansion.is_complete:
        raise ShellSyntaxError(TOO_MANY_MESSAGE)
    if depth == MAX_NESTED:
        raise ShellSyntaxError(TOO_DEEP_MESSAGE)
    from policy.intake.command.shell import parse_script  # noqa: PLC0415  # most scripts have none that count

    for script in scripts(expansion.text):
        known = env
        if expansion.values:
            if len(env) + len(expansion.values) > budget.copied:
                raise ShellSyntaxError(TOO_MANY_MESSAGE)
            budget.copy(len(env) + len(expansion.values))
            known = {**env, **expansion.values}
        budget.add_word()
        budget.reread(len(script))
        yield parse_script(script, known, ARGUMENTS, budget, is_bash=expansion.is_bash, has_hidden_variables=True)
