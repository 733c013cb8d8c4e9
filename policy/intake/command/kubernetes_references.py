"""References to variables in a container's `command` and `args`: `$(NAME)`, which Kubernetes expands before a start.

Not here: variables of shells (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command.expansion import ExpansionBudget

REFERENCE: Final = re.compile(r"\$\$|\$\(([^()$]+)\)")
"""Matches ``$(NAME)``, or ``$$``, its escape."""
NAME: Final = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
"""Matches the usual names of variables; what a shell runs as ``$(cat file)`` is none."""

SET_BY_KUBERNETES: Final = re.compile(
    r"KUBERNETES_\w+|[A-Za-z]\w*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
"""Matches the variables that Kubernetes sets for each Service of the namespace."""


def references(text: str) -> list[str]:
    """The names to which a text refers as `$(NAME)`."""
    return [name for name in REFERENCE.findall(text) if name] if "$(" in text else []


def _may_be_set(name: str, *, has_hidden_variables: bool) -> bool:
    """Whether Kubernetes, or a source that is not shown, may set a variable that is not set here."""
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
    """A text with Kubernetes' `$(NAME)` expanded; `$$` escapes it. Without a budget, the caller bounds the values.

    A name that is not set stays as written. One whose value is not known makes the text an Unknown, and so does one
    that is not set here and that Kubernetes may set; with ``has_hidden_variables`` any name may be set.

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
