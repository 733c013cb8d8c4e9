"""The context in which a command is parsed: the enclosing scripts, and hidden sources of variables."""

from __future__ import annotations

from msgspec import Struct

from policy.intake.command.expansion import ExpansionBudget  # noqa: TC001  # msgspec reads the annotations


class ScriptContext(Struct, frozen=True, gc=False):
    """The context of a command. ``depth`` counts the enclosing scripts, which share the ``budget``.

    ``has_hidden_variables``: whether the command may get variables whose names are unknown, as from a Secret.
    """

    budget: ExpansionBudget
    has_hidden_variables: bool = False
    depth: int = 0

    def inner(self) -> ScriptContext:
        """The context of the commands in a script that this command runs."""
        return ScriptContext(self.budget, self.has_hidden_variables, self.depth + 1)
