"""Substitutions that may start a container: `ID=$(docker run …)`. A reader of containers reads them as scripts.

Not here: where a substitution ends (`brackets`), and which commands start a container (`container_programs`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.apptainer import PROGRAMS
from policy.intake.command.container_programs import CONTAINER_PROGRAMS

if TYPE_CHECKING:
    from policy.intake.command.expansion import ExpansionBudget
    from policy.intake.command.script_variables import ScriptVariables

CONTAINER_PROGRAM: Final = re.compile(rf"(?<![\w.-])(?:{'|'.join(sorted(CONTAINER_PROGRAMS | PROGRAMS))})(?![\w.-])")
ESCAPED_CHARACTER: Final = re.compile(r"\\([\\`$])")
"""Matches a character that a backslash quotes in backticks."""
TOO_MANY_MESSAGE: Final = "all of them have more text or variables than the limit"
SUBSTITUTION_DOUBT: Final = "a substitution that may start a container is not read: {}"


class Substitution(Struct, frozen=True, gc=False):
    """The script of a substitution, the ``variables`` of its shell, and in ``env`` those that its commands get."""

    script: str
    variables: dict[str, str | None]
    env: dict[str, str | None]


class Substitutions(Struct):
    """The substitutions of a script that may start a container, in order; ``budget`` bounds reading all of them."""

    budget: ExpansionBudget
    found: list[Substitution] = []

    def note(self, written: str, variables: ScriptVariables) -> str:
        """Note a substitution if it may start a container, and return why it is not read; empty if there is no reason.

        Raises:
            ExpansionExhausted: the limit of the request is exceeded.
        """
        if CONTAINER_PROGRAM.search(written) is None:
            return ""
        own = {} if variables.command.words else variables.command.assignments
        copied = len(variables.outer) + len(variables.values) + len(own)
        if len(written) > self.budget.filled or copied > self.budget.copied:
            return SUBSTITUTION_DOUBT.format(TOO_MANY_MESSAGE)
        self.budget.fill(len(written))
        self.budget.copy(copied)
        script = ESCAPED_CHARACTER.sub(r"\1", written[1:-1]) if written.startswith("`") else written[2:-1]
        every = {**variables.outer, **variables.values, **own}
        self.found.append(Substitution(script, every, variables.share_environment()))
        return ""
