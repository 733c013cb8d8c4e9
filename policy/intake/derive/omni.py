"""vLLM-Omni: its flag makes the program `vllm` start it instead of vLLM.

Follows ``vllm_omni/entrypoints/cli/main.py``, which replaces the program: only a word `--omni` counts.
In a manifest the image shows whether it is installed; vLLM itself refuses the flag.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from policy.intake.command_line import Omni

if TYPE_CHECKING:
    from policy.intake.command_line import CommandLine

FLAG: Final = "--omni"
FACT: Final = "omni"


OMNI_DOUBT: Final = (
    f"`{FLAG}` starts vLLM-Omni only if it is installed, and neither the image nor the program shows that; decided for "
    "vLLM-Omni; use its image or its program `vllm-omni`, or remove the flag, which vLLM refuses"
)


def omni_of(command: CommandLine, omni: Omni) -> tuple[dict[str, tuple[Any, str]], CommandLine, list[str]]:
    """The fact that vLLM-Omni is started, the command without its flag, and doubts about it.

    If it is not started, there is no fact, and the command is as given.
    """
    words, places = command.words, command.places
    if FLAG not in words or omni is Omni.IS_REFUSED:
        return {}, command, []
    left = [(word, place) for word, place in zip(words, places, strict=True) if word != FLAG]
    place = places[words.index(FLAG)]
    command = replace(command, words=[word for word, _ in left], places=[at for _, at in left])
    return {FACT: (True, place)}, command, [OMNI_DOUBT] if omni is Omni.MAY_START else []
