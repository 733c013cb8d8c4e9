"""Whether a release has `vllm serve`, and takes the model where it is written.

Follows `vllm/scripts.py` (up to 0.8.2) and `FlexibleArgumentParser.parse_args` (0.8.3 to 0.11.0). Not here: a server
that is started as `python -m vllm.entrypoints.openai.api_server`, which takes `--model` in every release.
"""

from __future__ import annotations

from functools import cache, lru_cache
from typing import TYPE_CHECKING, Final

from packaging.version import Version

if TYPE_CHECKING:
    from policy.intake.command.parse_result import ParseResult
    from policy.intake.command.positional_words import PositionalWords
    from policy.intake.command_line import CommandLine

SERVE_SINCE: Final = Version("0.5.2")
"""The first release with `vllm serve`."""
MODEL_OPTIONAL_SINCE: Final = Version("0.8.3")
"""The first release whose `vllm serve` need not have the model as an argument."""
MODEL_IGNORED_SINCE: Final = Version("0.11.1")
"""The first release whose `vllm serve` starts if `--model` is given."""
HEADLESS_SINCE: Final = Version("0.20.0")
"""The first release that is known to refuse API servers of a headless node in `vllm serve`."""
_version: Final = lru_cache(maxsize=64)(Version)
"""Parsing the release anew for each command takes 4 µs."""


@cache
def _refuses_headless(release: str) -> bool:
    """Whether it is known to refuse API servers of a headless node; comparing versions takes a microsecond."""
    return _version(release) >= HEADLESS_SINCE


@cache
def takes_model_elsewhere(release: str) -> bool:
    """Whether `vllm serve` takes the model from the file of `--config` as well, or behind that file."""
    return _version(release) >= MODEL_OPTIONAL_SINCE


def check_serve(release: str, command: CommandLine, positional: PositionalWords, result: ParseResult) -> None:
    """Add a launch error if the release has no `vllm serve`, or if its `vllm serve` refuses the command.

    It refuses a model that is given in another way, and API servers of a headless node.
    """
    if _refuses_headless(release):
        _check_headless(release, result)
        return
    version = _version(release)
    if version < SERVE_SINCE:
        result.add_launch_error(
            f"vLLM {release} has no command `vllm serve` and would not start; {SERVE_SINCE} is the first that has it; "
            "start `python -m vllm.entrypoints.openai.api_server --model MODEL` instead"
        )
    elif version < MODEL_IGNORED_SINCE and _is_refused(version, command, positional):
        result.add_launch_error(
            f"`vllm serve` of vLLM {release} does not take the model by `--model` and would not start; write "
            "`vllm serve MODEL`"
        )


def _check_headless(release: str, result: ParseResult) -> None:
    if "headless" not in result.others or "api_server_count" not in result.others:
        return
    headless, count = result.others["headless"][0], result.others["api_server_count"][0]
    if headless is True and type(count) is int and count > 0:
        result.add_launch_error(
            f'`vllm serve` of vLLM {release} refuses this: "--api-server-count={count} cannot be used with --headless '
            '(no API servers are started in headless mode)."; remove one of them'
        )


def _is_refused(version: Version, command: CommandLine, positional: PositionalWords) -> bool:
    if version < MODEL_OPTIONAL_SINCE:
        return not (positional.known or positional.unknown)
    return "--model" in command.words
