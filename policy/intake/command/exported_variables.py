"""The lists of variables that a batch system's option exports to a job: `--export=ALL,NAME=VALUE` of Slurm.

Other systems have the same lists, such as `-v NAME=VALUE,NAME` of PBS. A name alone passes on the submitter's value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.words import ASSIGNMENT, Unknown

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

EXPORT_OPTION: Final = "--export"
"""The option of Slurm's programs."""
ALL_ITEM: Final = "all"
"""The item that passes on the submitter's variables; Slurm documents that they replace those of the list."""
QUOTES: Final = frozenset("'\"")


def assigned_variables(exported: str) -> dict[str, str | None]:
    """The variables to which a list assigns; the value is None if it is not certain, such as one with quotes."""
    found: dict[str, str | None] = {}
    for item in exported.split(","):
        if (assignment := ASSIGNMENT.match(item.lstrip())) is not None:
            value = item.lstrip()[assignment.end() :]
            is_known = type(exported) is not Unknown and QUOTES.isdisjoint(value)
            found[assignment.group(1)] = value if is_known else None
    return found


def passes_all(exported: str) -> bool:
    """Whether a list also passes on all variables of the submitter."""
    return any(item.strip().lower() == ALL_ITEM for item in exported.split(","))


def exported_variables(arguments: Sequence[str], env: Collection[str]) -> dict[str, str | None]:
    """The variables that the last list in the options of `srun` sets; ``env`` has the variables that `srun` gets."""
    values = list(filter(None, map(_value, arguments, [*arguments[1:], ""])))[-1:]
    exported = values[0] if values else ""
    found = assigned_variables(exported)
    return dict.fromkeys(found) | {
        name: value for name, value in found.items() if not (passes_all(exported) and name in env)
    }


def _value(word: str, following: str) -> str | None:
    """The value of the option if a word is one."""
    if word == EXPORT_OPTION:
        return following
    if not word.startswith(f"{EXPORT_OPTION}="):
        return None
    value = word[len(EXPORT_OPTION) + 1 :]
    return Unknown(value) if type(word) is Unknown else value
