"""Options that no fact depends on, and whose values are not known: whether vLLM may refuse them.

Not here: options that facts depend on (`flag_arguments`), and parallel sizes (`unknown_sizes`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from policy.intake.command_line import UnknownOption

NOT_CHECKED: Final = "`{}` is set to {} ({}), whose value is not known; whether vLLM accepts it was not checked"
RANKS: Final = frozenset({"data_parallel_rank", "node_rank"})
"""The options that number the processes of one engine: a controller gives each process its own."""
MAX_WARNINGS: Final = 16


def options_not_checked(options: Mapping[str, UnknownOption], unread: Collection[str]) -> list[UnknownOption]:
    """The options whose values vLLM may refuse.

    These are the options that a check reads (``unread``), those for which the parser accepts only some words or fields,
    and those whose text would be refused as it is written, about which there is a warning already.
    """
    return [
        option
        for name, option in options.items()
        if (name in unread or option.is_limited or option.is_reported) and name not in RANKS
    ]


def not_checked(option: UnknownOption) -> str:
    """The message about one option."""
    return NOT_CHECKED.format(option.flag, quoted(option.text), option.place)


def warnings_of(options: Iterable[UnknownOption]) -> list[str]:
    """The warnings about options whose unknown values no other warning reports."""
    found = [not_checked(option) for option in options if not option.is_reported]
    omitted = len(found) - MAX_WARNINGS
    return found[:MAX_WARNINGS] + ([f"{omitted} more options have values that are not known"] if omitted > 0 else [])
