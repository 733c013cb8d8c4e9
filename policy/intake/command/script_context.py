"""What the reading of a command knows of the scripts and of the sources of variables around it."""

from __future__ import annotations

from msgspec import Struct

from policy.intake.command.expansion import ExpansionBudget  # noqa: TC001  # msgspec reads the annotations


class ScriptContext(Struct, frozen=True, gc=False):
    """The surroundings of a command. All scripts around it share the ``budget``; ``depth`` is how many there are.

    ``has_hidden_variables`` says that the command may get variables whose names are not shown, as from a Secret.
    """

    budget: ExpansionBudget
    has_hidden_variables: bool = False
    depth: int = 0

    def inner(self) -> ScriptContext:
        """The surroundings of the commands in a script that such a command runs."""
        return ScriptContext(self.budget, self.has_hidden_variables, self.depth + 1)
