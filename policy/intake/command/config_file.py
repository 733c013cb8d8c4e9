"""Convert the file of `vllm serve --config` to words of the command line.

Follows `load_config_file` of `vllm/utils/argparse_utils.py` (0.20 to 0.33): a false boolean is dropped, a map becomes
JSON, a list becomes several words. Not here: where the words are inserted (`arguments`).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.errors import Fault, PolicyError, RulesInvalid
from policy.intake.command.flags import dashed
from policy.masking import masked
from policy.messages import nearest, quoted
from policy.parser.yamltree import read_yaml
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command.flags import Flags

MAX_FILE: Final = 256 * 1024
MAX_NAME: Final = 1024
FALSE_SINCE: Final = (0, 28)
"""The first series that reads a false boolean, but only in the server's module.

`vllm serve` asks its outer parser, which has none of the flags.
"""


class NotInFiles(PolicyError):
    """The named file is not given, or vLLM does not accept its name; the message says what to do."""


def read_file(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """The map in a file.

    Raises:
        NotInFiles: there is no such file.
        RulesInvalid: its text is not a YAML map; the fault has the position.
    """
    if not name.endswith((".yaml", ".yml")):
        raise NotInFiles(f"expected a `.yaml` or `.yml` file, got {quoted(name)}; vLLM accepts no other")
    if len(name) > MAX_NAME:
        raise NotInFiles(f"{quoted(name)} has {len(name)} characters, and a file's name has at most {MAX_NAME}")
    text = files.get(name)
    if type(text) is not str:
        raise NotInFiles(
            f"the text of {quoted(name)} is not given; add it to `files` under this name{nearest(name, files)}"
        )
    document = read_yaml(text, name, MAX_FILE).plain()
    if type(document) is not dict:
        raise RulesInvalid([Fault(name, 1, 1, "expected a map of options such as `tensor-parallel-size: 2`")])
    return document


def words_of(
    document: Mapping[str, Any], place: str, table: Flags, *, serve: bool, warn: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """The words of a file, and each word's place: `place`, a slash and the key. `warn` gets what vLLM drops."""
    words: list[str] = []
    places: list[str] = []
    for key, value in document.items():
        found = _words(key, value)
        if value is False:
            off = f"--no-{key}"
            if not serve and series(table.release) >= FALSE_SINCE and off in table.exact and "_" not in key:
                found = [off]
            else:
                instead = f"--no-{dashed('--' + key)[2:]}"
                advice = f"; write `{instead[2:]}: true`" if instead in table.exact else ""
                warn(f"{quoted(f'{key}: false')} in {quoted(place)} is not read by vLLM{advice}")
        words += found
        places += [f"{place}/{masked(f'--{key}')[2:]}"] * len(found)
    return words, places


def _words(key: str, value: Any) -> list[str]:
    match value:
        case True:
            return [f"--{key}"]
        case False | []:
            return []
        case list():
            return [f"--{key}", *map(str, value)]
        case dict():
            return [f"--{key}", json.dumps(value)]
    return [f"--{key}", str(value)]
