"""The file of `vllm serve --config` → the words that it stands for.

Owns what vLLM makes of each line (`load_config_file` of `vllm/utils/argparse_utils.py`, 0.20 to 0.33): a false boolean is dropped, a map is JSON, a list
is several words. Where the words then go is for `arguments`.
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
"""From this series on a false boolean is read, but by the server's module alone: `vllm serve` asks its outer parser, which has none of the flags."""


class NotInFiles(PolicyError):
    """No file of this name is given, or vLLM takes none of this name; the message says what to do."""


def read_file(name: str, files: Mapping[str, str]) -> dict[str, Any]:
    """The map in a file.

    Raises:
        NotInFiles: there is no such file.
        RulesInvalid: its text is no YAML map, with the place of the fault in it.
    """
    if not name.endswith((".yaml", ".yml")):
        raise NotInFiles(f"{quoted(name)} is no `.yaml` or `.yml` file, and vLLM takes no other")
    if len(name) > MAX_NAME:
        raise NotInFiles(f"{quoted(name)} has {len(name)} characters, and a file's name has at most {MAX_NAME}")
    text = files.get(name)
    if type(text) is not str:
        raise NotInFiles(
            f"the text of {quoted(name)} is not given; put it into `files` under this name{nearest(name, files)}"
        )
    document = read_yaml(text, name, MAX_FILE).plain()
    if type(document) is not dict:
        raise RulesInvalid([Fault(name, 1, 1, "no map of options; write lines such as `tensor-parallel-size: 2`")])
    return document


def told(
    document: Mapping[str, Any], place: str, table: Flags, *, serve: bool, warn: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """The words of a file, and the place of each: `place`, a slash and the key. What vLLM drops is said to `warn`."""
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
