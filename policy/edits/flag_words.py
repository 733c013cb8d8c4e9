"""The words of an option in a command line: how a release spells it, and how many words its value has."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.intake.command.flags import Flag, Flags, in_other_release, with_dashes

if TYPE_CHECKING:
    from collections.abc import Sequence


def option_of(argument: str) -> tuple[str, str]:
    """The option and the member that an answer names, `--speculative-config.method`; the member may be empty."""
    name, _, member = argument.removeprefix("--").partition(".")
    return name.replace("-", "_"), member


def spelled(flags: Flags, word: str, option: str) -> tuple[Flag | None, bool] | None:
    """The flag if a word spells the option, also shortened, and whether its value is in the same word.

    If the release does not have the flag, it is that of another release, or ``None`` if no release has it.
    """
    if not word.startswith("-"):
        return None
    flag, given, short = flags.find(word)
    if flag is not None:
        return (flag, given is not None) if flag.dest == option else None
    key, equals, _ = word.partition("=")
    name = with_dashes(key) if flags.takes_underscores else key
    if short or not name.startswith("--") or name[2:].replace("-", "_") != option:
        return None
    other = in_other_release(name, flags.release)
    return (None if other is None else other[0]), bool(equals)


def spells_member(word: str, option: str, member: str) -> bool:
    """Whether a word is the dotted flag of a member of the option, or of something in it."""
    name = with_dashes(word.partition("=")[0])
    start = f"--{option.replace('_', '-')}.{member.replace('_', '-')}" if member else f"--{option.replace('_', '-')}."
    return name == start or (name.startswith(start) if not member else name.startswith(f"{start}."))


def value_count(flags: Flags, flag: Flag | None, following: Sequence[str]) -> int:
    """How many of the words after a flag are its value; ``flag`` is None for a dotted one."""
    available = 0
    while available < len(following) and flags.is_value(following[available]):
        available += 1
    if flag is None:
        return min(available, 1)
    if flag.constant is not None:
        return 0
    if flag.nargs == "+":
        return available
    return min(available, flag.nargs if isinstance(flag.nargs, int) else 1)


def words_of(flags: Flags, option: str, value: Any) -> list[str] | None:
    """The one word that sets an option; None if no flag of the release sets it to the value."""
    flag = flags.by_name.get(option)
    if flag is None:
        return None
    if isinstance(value, bool):
        if flag.constant is None:
            return [f"{flag.name}={str(value).lower()}"]
        word = flag.name if value else f"--no-{flag.name.removeprefix('--')}"
        found = flags.exact.get(word)
        return [word] if found is not None and found.dest == option and found.constant is value else None
    if isinstance(value, float):
        return [f"{flag.name}={value:g}"]
    return [f"{flag.name}={value}"] if isinstance(value, str) and value.isalnum() else None
