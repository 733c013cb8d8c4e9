"""Convert the file of `vllm serve --config` to command-line words, and insert them into the command line.

Follows `load_config_file` of `vllm/utils/argparse_utils.py` (0.20 to 0.33), which parses the file with PyYAML's
`safe_load`: a false boolean is dropped, a map becomes JSON, a list becomes several words.
"""

from __future__ import annotations

import json
from contextlib import suppress
from posixpath import isabs, join
from typing import TYPE_CHECKING, Any, Final

from policy.errors import MAX_FAULTS, Fault, PolicyError, RequestFault, RulesInvalid
from policy.intake.command.expansion import MAX_WORDS
from policy.intake.command.flags import with_dashes
from policy.intake.command.paths import absolute_path
from policy.intake.command.serve_command import takes_model_elsewhere
from policy.intake.command.word_places import FILE_PREFIX
from policy.intake.command.words import PLACEHOLDER, Unknown
from policy.masking import NAME, masked
from policy.messages import nearest, quoted
from policy.parser.safe_load import safe_load
from policy.pointer import at
from policy.rules.releases import series
from policy.secret_names import is_secret
from policy.stated_secrets import secrets_of_names, secrets_of_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from policy.intake.command.flags import Flags
    from policy.intake.command.parse_result import ParseResult

MAX_FILE: Final = 256 * 1024
MAX_NAME: Final = 1024
FALSE_SINCE: Final = (0, 28)
"""The first series that handles a false boolean, but only in the server's module.

`vllm serve` looks the flag up in its outer parser, which has none of the engine's flags.
"""


class ConfigFileUnusable(PolicyError):
    """The file is not given, or its name is unknown, too long or refused by vLLM; the message says what to do."""


def insert_file(
    words: list[str], places: list[str], files: Mapping[str, str], folder: str, table: Flags, result: ParseResult
) -> tuple[list[str], list[str]]:
    """Replace `--config` with the words of its file, before the flags, so that the command line wins; return all.

    A model of the command line is before them only if it is the first word, as vLLM looks for it before it replaces
    `--config`. Another one wins too, unless an option of the file that takes several words takes it.
    """
    if words.count("--config") > 1:
        second = [index for index, word in enumerate(words) if word == "--config"][1]
        result.refuse(places[second], "a second `--config`; vLLM takes one, so put both files into one")
        return words, places
    flag = words.index("--config")
    if flag + 1 == len(words):
        result.refuse(places[flag], "`--config` takes a file, but nothing follows it")
        return words[:flag], places[:flag]
    name, place = words[flag + 1], places[flag + 1]
    rest, rest_places = [*words[:flag], *words[flag + 2 :]], [*places[:flag], *places[flag + 2 :]]
    try:
        document = read_file(name, files, folder)
    except ConfigFileUnusable as error:
        result.fault(place, f"`--config`: {error}")
        return rest, rest_places
    except RulesInvalid as error:
        where = at(f"{result.pointer.removesuffix('/args')}/files", name)
        result.faults.extend(
            RequestFault(where, f"line {fault.line}, column {fault.column}: {fault.message}") for fault in error.faults
        )
        return rest, rest_places
    serve = result.serve
    added, added_places = file_words(document, f"{FILE_PREFIX}{name}", table, serve=serve, warn=result.warn)
    model = serve and not words[0].startswith("-")
    if serve and not model and not any(word == "--model" or word.startswith("--model=") for word in rest):
        is_in_file = "--model" in added
        if flag == 0 and rest and not rest[0].startswith("-"):
            if not _is_unknown(rest[0]) and not (is_in_file and takes_model_elsewhere(table.release)):
                result.refuse(rest_places[0], _unfound_model(name, is_in_file=is_in_file))
        elif not is_in_file:
            result.refuse(
                place,
                f"neither the command line nor {quoted(name)} names a model, and `vllm serve --config` needs one; "
                "write it before the flags",
            )
    if len(added) + len(rest) > MAX_WORDS:
        result.fault(
            place,
            f"the command line and {quoted(name)} have more than {MAX_WORDS} words in total, which is the limit",
        )
        return rest, rest_places
    return [*rest[:model], *added, *rest[model:]], [*rest_places[:model], *added_places, *rest_places[model:]]


def _is_unknown(word: str) -> bool:
    return type(word) is Unknown or PLACEHOLDER.fullmatch(word) is not None


def _unfound_model(name: str, *, is_in_file: bool) -> str:
    """The message on a model behind the file: vLLM looks for it before it replaces `--config`, so not there."""
    file = "" if is_in_file else f", and {quoted(name)} has none"
    return f"`vllm serve` does not look for a model behind `--config`{file}; write the model before the flags"


def read_file(name: str, files: Mapping[str, str], folder: str) -> dict[str, Any]:
    """The map in a file. Its keys are strings, and nested maps can be converted to JSON.

    The path without `.` and `..` counts too: of a relative name, that in the working ``folder``, if that is absolute.

    Raises:
        NotInFiles: the file is not given, or its name is invalid.
        RulesInvalid: its text is not such a map; the fault has the position.
    """
    if name not in files and (type(name) is Unknown or PLACEHOLDER.search(name) is not None):
        raise ConfigFileUnusable(
            f"the file is {quoted(name)}, whose value is not known; write the name, or set the variable"
        )
    if not name.endswith((".yaml", ".yml")):
        raise ConfigFileUnusable(f"expected a `.yaml` or `.yml` file, got {quoted(name)}; vLLM accepts no other")
    if len(name) > MAX_NAME:
        raise ConfigFileUnusable(f"{quoted(name)} has {len(name)} characters, and a file's name has at most {MAX_NAME}")
    text = files.get(name)
    if text is None and (isabs(name) or isabs(folder)):
        text = files.get(absolute_path(join(folder, name)))
    if type(text) is not str:
        raise ConfigFileUnusable(
            f"the text of {quoted(name)} is not given; add it to `files` under this name{nearest(name, files)}"
        )
    document = safe_load(text, name, MAX_FILE)
    if type(document) is not dict:
        raise RulesInvalid([Fault(name, 1, 1, "expected a map of options such as `tensor-parallel-size: 2`")])
    faults = [Fault(name, 1, 1, message) for key, value in document.items() if (message := _unusable(key, value))]
    if faults:
        raise RulesInvalid(faults[:MAX_FAULTS])
    return document


def secrets_of_files(files: Mapping[str, str]) -> Iterator[str]:
    """The secrets in the texts of files, and all that their options with the names of secrets have, whatever it is."""
    for name, text in files.items():
        yield from secrets_of_text(text)
        if not any(is_secret(f"--{each}") for each in NAME.findall(text)):
            continue
        with suppress(RulesInvalid):
            document = safe_load(text, name, MAX_FILE)
            if type(document) is dict:
                yield from secrets_of_names({f"--{key}": value for key, value in document.items()})


def _unusable(key: Any, value: Any) -> str | None:
    """Why vLLM fails with a traceback at an option; None if it does not."""
    if type(key) is not str:
        return f"expected a string as key, got {quoted(str(key))}; put it in quotes"
    if type(value) is dict:
        try:
            json.dumps(value)
        except TypeError:
            return f"{quoted(key)} contains a date, which vLLM cannot convert to JSON; put it in quotes"
    return None


def file_words(
    document: Mapping[str, Any], place: str, table: Flags, *, serve: bool, warn: Callable[[str], None]
) -> tuple[list[str], list[str]]:
    """The words of a file, and their places: ``place/key``. ``warn`` gets a message on each option that vLLM drops."""
    words: list[str] = []
    places: list[str] = []
    for key, value in document.items():
        found = _words(key, value)
        if value is False:
            off = f"--no-{key}"
            if not serve and series(table.release) >= FALSE_SINCE and off in table.exact and "_" not in key:
                found = [off]
            else:
                instead = f"--no-{with_dashes('--' + key)[2:]}"
                advice = f"; write `{instead[2:]}: true`" if instead in table.exact else ""
                warn(f"vLLM ignores {quoted(f'{key}: false')} in {quoted(place)}{advice}")
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
