"""The arguments that a log shows → the words of a command, as `decide` reads them.

vLLM logs the values that are not defaults by the names of its arguments, as Python writes them. Secrets are left out:
no decision depends on them. So are arguments that are no flags of the release, such as those of the process itself.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.command.flags import flags
from policy.messages import enumerated
from policy.observation.python_value import UNREADABLE, NotAValue, read_value
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command.flags import Flag

MODEL, POSITIONAL_MODEL = "model", "model_tag"
NAMES_SHOWN: Final = 10
OBJECTS: Final = frozenset({"json", "object", "json-or-text", "object-or-level", "overrides"})
EMPTY_OBJECT: Final = "{}"
REDACTED_VALUE: Final = "***"
"""What vLLM logs from 0.29 on instead of a secret."""
OMITTED_ARGUMENTS: Final = frozenset({"config"})
"""Arguments that are left out of the command: vLLM has read the file of `--config` and logs its values too."""


class LoggedArguments(Struct, frozen=True):
    """The words of the command, the model that they name, and what could not be read of the arguments."""

    words: list[str]
    model: str | None
    warnings: list[str]


def read_arguments(text: str, release: str) -> LoggedArguments:
    """The command whose arguments a log of a release shows.

    Raises:
        NotAValue: the text is not a map, is cut off, or exceeds a bound.
    """
    found = read_value(text)
    if type(found) is not dict:
        raise NotAValue("expected a map such as `{'model': 'Qwen/Qwen3-8B'}`")
    table = flags(release)
    words: list[str] = []
    unreadable: list[str] = []
    for dest, value in found.items():
        flag = table.by_name.get(str(dest))
        if flag is None or flag.secret or is_secret(str(dest)) or dest == MODEL or dest in OMITTED_ARGUMENTS:
            continue
        cleaned = _cleaned(value, str(dest), unreadable)
        if cleaned is UNREADABLE and flag.members is not None:
            words += [flag.name, EMPTY_OBJECT]  # that it is there may decide
        elif cleaned is not UNREADABLE:
            words += _words(flag, _settable(cleaned, flag.members), table.exact)
    named = next((found[name] for name in (MODEL, POSITIONAL_MODEL) if type(found.get(name)) is str), None)
    warnings = []
    if unreadable:
        warnings.append(f"the log does not show the values of {enumerated(sorted(set(unreadable)), NAMES_SHOWN)}")
    return LoggedArguments(["serve", *([named] if named else []), *words], named, warnings)


def _words(flag: Flag, value: Any, spellings: dict[str, Flag]) -> list[str]:
    """The words that give a flag this value; none for the values that no words can give."""
    if value is None:
        return []
    if flag.constant is not None:
        off = f"--no-{flag.name[2:]}"
        return [flag.name] if value else [off] if off in spellings else []
    if isinstance(value, dict):
        return [flag.name, json.dumps(value)]
    if isinstance(value, list):
        if flag.nargs == "+" and value:
            return [flag.name, *(json.dumps(each) if isinstance(each, dict | list) else _word(each) for each in value)]
        if flag.kind in OBJECTS or any(isinstance(each, dict | list) for each in value):
            return [flag.name, json.dumps(value)]
        return [flag.name, *map(_word, value)] if value else []
    return [f"{flag.name}={_word(value)}"]


def _settable(value: Any, members: Mapping[str, Any] | None) -> Any:
    """The fields of an object that a user may set: vLLM also logs those that it computes itself."""
    if not isinstance(value, dict) or members is None:
        return value
    fields = {key: each for key, each in value.items() if key in members}
    return {key: _settable(each, _inner(members[key])) for key, each in fields.items()}


def _inner(member: Any) -> Mapping[str, Any] | None:
    """The fields of a member, None if any is legal."""
    return member if isinstance(member, dict) else None


def _word(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _cleaned(value: Any, name: str, unreadable: list[str]) -> Any:
    """The value without fields that are null or unreadable; UNREADABLE if it is so itself.

    The names of what is unreadable are appended to ``unreadable``.
    """
    if value is UNREADABLE or value == REDACTED_VALUE:
        unreadable.append(name)
        return UNREADABLE
    if isinstance(value, dict):
        fields = {str(key): _cleaned(each, f"{name}.{key}", unreadable) for key, each in value.items()}
        return {key: each for key, each in fields.items() if each is not None and each is not UNREADABLE}
    if isinstance(value, list):
        items = [_cleaned(each, name, unreadable) for each in value]
        return UNREADABLE if any(each is UNREADABLE for each in items) else items
    return value
