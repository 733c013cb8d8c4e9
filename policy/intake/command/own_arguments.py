"""Commands that are vLLM's own arguments, without a program that has to be found first.

Most deployments have such a command. The modules that `launcher` needs for other commands are not imported for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.intake.command.code_variables import vllm_of_variables
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS
from policy.intake.command_line import CommandLine

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


def plain_arguments(words: Sequence[str], places: Sequence[str], env: Mapping[str, str | None]) -> CommandLine | None:
    """The arguments of vLLM in a command with nothing to expand; None for any other, or one beyond the limits."""
    text = "".join(words)  # the sum of their lengths takes 0.3 % more of the instructions to derive facts
    if len(words) > MAX_WORDS or len(text) > MAX_TEXT or "$" in text or not {str}.issuperset(map(type, words)):
        return None
    return own_arguments(words, places, env)


def own_arguments(read: Sequence[str], places: Sequence[str], env: Mapping[str, str | None]) -> CommandLine | None:
    """The arguments of vLLM if a command has no program, or begins with `serve` or `vllm serve`; None for any other.

    `server_of` finds the same, with 3 % of the instructions to derive facts. A context for scripts takes 0.6 %.
    """
    if not read or read[0].startswith("-"):
        return CommandLine(list(read), list(places), installation=vllm_of_variables(env))
    at = 1 if read[0] != "vllm" else 2
    if read[at - 1 : at] != ["serve"]:
        return None
    installation = vllm_of_variables(env)
    return CommandLine(list(read[at:]), list(places[at:]), installation=installation, is_serve=True)
