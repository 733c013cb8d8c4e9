"""vLLM-Omni: its flag makes the program `vllm` start it instead of vLLM.

Follows ``vllm_omni/entrypoints/cli/main.py``, which replaces the program: only a word `--omni` counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

if TYPE_CHECKING:
    from policy.intake.command_line import CommandLine

FLAG: Final = "--omni"
FACT: Final = "omni"


def omni_of(command: CommandLine) -> tuple[dict[str, tuple[Any, str]], CommandLine]:
    """The fact that vLLM-Omni is started, and the command without its flag; no fact and the command if it is not."""
    words, places = command.words, command.places
    if FLAG not in words:
        return {}, command
    left = [(word, place) for word, place in zip(words, places, strict=True) if word != FLAG]
    place = places[words.index(FLAG)]
    return {FACT: (True, place)}, replace(command, words=[word for word, _ in left], places=[at for _, at in left])
