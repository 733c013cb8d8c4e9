"""Expand `$(NAME)` in a container's `command` and `args`, as Kubernetes does before it starts the container.

Not here: shell variables (`parameter_expansion`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policy.intake.command.expansion import ExpansionBudget

NAME: Final = re.compile(r"[-._A-Za-z][-._A-Za-z0-9]*")
"""Matches the usual names of variables, but not a shell's command substitution such as ``$(cat file)``."""

SERVICE_VARIABLE: Final = re.compile(
    r"KUBERNETES_\w+|[A-Za-z]\w*_(?:SERVICE_HOST|SERVICE_PORT(?:_\w+)?|PORT(?:_\d+_(?:TCP|UDP|SCTP)(?:_\w+)?)?)"
)
"""Matches the variables that Kubernetes sets for each Service in the namespace."""


def references(text: str) -> list[str]:
    """The names that a text references as `$(NAME)`."""
    return [name for _, name in _parts(text) if name] if "$(" in text else []


def _parts(text: str) -> Iterator[tuple[str, str | None]]:
    """The parts of a text: the text before each reference, with `$` for `$$`, and its name; None at the end.

    A name ends at the first bracket, whatever is in it:
    https://github.com/kubernetes/kubernetes/blob/v1.34.0/third_party/forked/golang/expansion/expand.go
    """
    kept: list[str] = []
    at = 0
    while (found := text.find("$", at)) >= 0:
        after = text[found + 1 : found + 2]
        if after == "(":
            end = text.find(")", found + 2)
            if end < 0:  # nor does any other reference end
                kept.append(text[at:].replace("$$", "$"))
                at = len(text)
                break
            yield "".join((*kept, text[at:found])), text[found + 2 : end]
            kept, at = [], end + 1
        else:
            kept.append(text[at : found + 1])
            at = found + 1 + (after == "$")
    yield "".join((*kept, text[at:])), None


def _may_be_set(name: str, *, has_hidden_variables: bool) -> bool:
    """Whether Kubernetes or a hidden source may set a variable that the manifest does not set."""
    if has_hidden_variables:
        return NAME.fullmatch(name) is not None
    return SERVICE_VARIABLE.fullmatch(name) is not None


def expand_words(
    words: Sequence[str],
    env: Mapping[str, str | None],
    budget: ExpansionBudget | None = None,
    *,
    has_hidden_variables: bool = False,
) -> list[str]:
    """The words of a command with their references expanded; see ``expand_references``.

    Most commands have none. Searching each word takes 3 % of the steps to derive a deployment's facts.
    """
    if "$" not in "".join(words) and {str}.issuperset(map(type, words)):
        return list(words)
    return [expand_references(word, env, budget, has_hidden_variables=has_hidden_variables) for word in words]


def expand_references(
    text: str,
    env: Mapping[str, str | None],
    budget: ExpansionBudget | None = None,
    *,
    has_hidden_variables: bool = False,
    is_complete: bool = False,
) -> str:
    """Expand Kubernetes' `$(NAME)`, which `$$` escapes. Without a budget, the caller limits the values.

    A reference to an unset variable stays as written. The result is an Unknown if a value is unknown, or if Kubernetes
    may set a variable that is not in ``env``. With ``has_hidden_variables`` any variable may be set; if ``env``
    ``is_complete``, none may. A text without any reference is returned as it is: a shell may still expand a Pattern.

    Raises:
        ShellSyntaxError: the values have too many characters.
    """
    if "$(" not in text:
        if "$$" not in text:
            return text
        filled = text.replace("$$", "$")
        return Unknown(filled) if type(text) is Unknown else filled
    unknown = False
    parts: list[str] = []
    for before, name in _parts(text):
        parts.append(before)
        if name is None:
            break
        if name not in env and (is_complete or not _may_be_set(name, has_hidden_variables=has_hidden_variables)):
            parts.append(f"$({name})")
            continue
        value = env.get(name)
        unknown = unknown or value is None
        if budget is not None:
            budget.fill(len(value or ""))
        parts.append(f"$({name})" if value is None else value)
    filled = "".join(parts)
    return Unknown(filled) if unknown or type(text) is Unknown else filled
