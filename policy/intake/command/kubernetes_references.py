"""Expand `$(NAME)` in a container's `command` and `args`, as Kubernetes does before it starts the container.

Not here: shell variables (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command.expansion import ExpansionBudget

REFERENCE: Final = re.compile(r"\$\$|\$\(([^()$]+)\)")
"""Matches ``$(NAME)``, or ``$$``, which escapes it."""
NAME: Final = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
"""Matches the usual names of variables, but not a shell's command substitution such as ``$(cat file)``."""

SET_BY_KUBERNETES: Final = re.compile(
    r"KUBERNETES_\w+|[A-Za-z]\w*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
"""Matches the variables that Kubernetes sets for each Service in the namespace."""


def references(text: str) -> list[str]:
    """The names that a text references as `$(NAME)`."""
    return [name for name in REFERENCE.findall(text) if name] if "$(" in text else []


def _may_be_set(name: str, *, has_hidden_variables: bool) -> bool:
    """Whether Kubernetes or a hidden source may set a variable that the manifest does not set."""
    if has_hidden_variables:
        return NAME.fullmatch(name) is not None
    return SET_BY_KUBERNETES.fullmatch(name) is not None


def expand_references(
    text: str,
    env: Mapping[str, str | None],
    budget: ExpansionBudget | None = None,
    *,
    has_hidden_variables: bool = False,
) -> str:
    """Expand Kubernetes' `$(NAME)`, which `$$` escapes. Without a budget, the caller limits the values.

    A reference to an unset variable stays as written. The result is an Unknown if a value is unknown, or if Kubernetes
    may set a variable that is not in ``env``; with ``has_hidden_variables`` any variable may be set.

    Raises:
        ShellSyntaxError: the values have too many characters.
    """
    if "$" not in text:
        return text
    unknown = False

    def value(match: re.Match[str]) -> str:
        nonlocal unknown
        if match.group() == "$$":
            return "$"
        name = match.group(1)
        if name not in env and not _may_be_set(name, has_hidden_variables=has_hidden_variables):
            return match.group()
        filled = env.get(name)
        unknown = unknown or filled is None
        if budget is not None:
            budget.fill(len(filled or ""))
        return match.group() if filled is None else filled

    filled = REFERENCE.sub(value, text)
    return Unknown(filled) if unknown or type(text) is Unknown else filled
