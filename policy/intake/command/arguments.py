"""Parse a command line into options, as the release's own parser does.

Follows `FlexibleArgumentParser` of `vllm/utils/argparse_utils.py` and Python's argparse: abbreviations, values, dotted
options and how they replace JSON, the positional model. Not here: a flag's values (`flag_arguments`, `flag_values`),
the `--config` file (`config_file`), and the values and messages found (`parse_result`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import RequestFault
from policy.intake.command.config_file import insert_file
from policy.intake.command.deprecated_flags import warn_of_deprecated
from policy.intake.command.dotted_options import DottedOptions, read_dotted, set_dotted
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS
from policy.intake.command.flag_arguments import read_value, read_values, report_missing
from policy.intake.command.flags import LEVELS, flags
from policy.intake.command.other_values import read_in_other_release
from policy.intake.command.parse_result import INVALID, ParseResult
from policy.intake.command.positional_words import PositionalWords
from policy.intake.command.relevant_options import RELEVANT_OPTIONS
from policy.intake.command.serve_command import check_serve
from policy.intake.command.server_modules import module_fault
from policy.intake.command.speculative_flags import SPECULATIVE_FLAGS, set_speculative
from policy.intake.command.unknown_flags import false_keyword, skip_unknown
from policy.intake.command.unknown_words import names_unknown_flag, warn_of_expansions
from policy.intake.command.words import PLACEHOLDER, Pattern, Unknown
from policy.intake.command_line import CommandLine, ParsedOptions
from policy.masking import HIDDEN
from policy.messages import listed, quoted
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.flags import Flag, Flags

BOOLEANS: Final = frozenset({"true", "false", "True", "False"})
"""The values of a boolean flag in releases where it takes one."""
HELP: Final = "--help"
DOTTED_LEVEL: Final = "-O."
"""The beginning of a field of the compilation configuration, up to 0.12."""
LAST_DOTTED_LEVEL: Final = (0, 12)
EMPTY_MODEL: Final = (
    "the model is empty, and vLLM refuses that: its default model counts only if none is given; write the model"
)
_COMPILE_ADVICE: Final = "other compile options as `-cc.mode=0`"


def read_options(
    release: str,
    command: CommandLine,
    files: Mapping[str, str],
    faults: list[RequestFault],
    pointer: str = "/deployment/args",
    *,
    folder: str = "",
    is_assumed: bool = False,
) -> ParsedOptions:
    """Parse the command line as `release` does, and append what the release would reject to `faults`.

    Each fault points to its word, below `pointer`. A flag that the release does not have is a launch error, and is left
    out; if the release `is_assumed`, so is a value that only other releases take. `files` maps the names that
    `--config` may have to the texts of the files. The command runs in a `folder`, empty if that is not known.

    Raises:
        KeyError: `release` is not in `policy.intake.model.tables.releases_with_flags()`.
    """
    words, places = command.words, command.places
    if len(words) > MAX_WORDS or len("".join(words)) > MAX_TEXT:
        size = f"{len(words)} words and {len(''.join(words))} characters"
        faults.append(
            RequestFault(
                pointer, f"expected a command of at most {MAX_WORDS} words and {MAX_TEXT} characters, got {size}"
            )
        )
        return ParsedOptions()
    table = flags(release)
    result = ParseResult(command, faults, pointer, release if is_assumed else None)
    if "--config" in words and "config" in table.by_name:
        words, places = insert_file(words, places, files, folder, table, result)
    kinds = set(map(type, words))
    patterns: set[int] = set()
    if Pattern in kinds:
        patterns = {index for index, word in enumerate(words) if type(word) is Pattern}
        words = [str(word) if type(word) is Pattern else word for word in words]
    parser = _CommandLineParser(table, result)
    parser.read(words, places)
    if patterns or Unknown in kinds:
        warn_of_expansions(patterns, words, places, table, result)
    if parser.dotted:
        set_dotted(parser.dotted, table, result)
    if parser.positional.known:
        parser.positional.set_model(result)
    if parser.positional.unknown:
        parser.positional.read_unknown(result)
    if result.values.get("model") == "":
        result.refuse(result.found_at["model"], EMPTY_MODEL, "model")
    if command.module and (why := module_fault(table.release, command.module)):
        result.add_launch_error(why)
    elif command.is_serve:
        check_serve(table.release, command, parser.positional, result)
    if "speculative_config" in result.values or not SPECULATIVE_FLAGS.keys().isdisjoint(result.values):
        set_speculative(table, result)
    warn_of_deprecated(table, result)
    return result.options()


class _CommandLineParser:
    """Parses the words of one command line into options."""

    __slots__ = ("dotted", "names_model", "positional", "result", "table")

    def __init__(self, table: Flags, result: ParseResult) -> None:
        self.table = table
        self.result = result
        self.names_model = False
        self.dotted: DottedOptions = {}
        self.positional = PositionalWords()

    def read(self, words: Sequence[str], places: Sequence[str]) -> None:
        """Parse all words in one pass, and stop at the maximum number of faults.

        A word that begins with a dash is never the value of the preceding word, unless it cannot be an option.
        """
        table, result = self.table, self.result
        exact, values, found_at = table.exact, result.values, result.found_at
        faults, max_faults = result.faults, result.max_faults
        self.names_model = "--model" in words
        at, end = 0, len(words)
        while at < end and len(faults) < max_faults:
            word = words[at]
            flag = exact.get(word)
            if flag is None:
                at = self.read_other(words, places, at)
                continue
            start = at
            at += 1
            if flag.constant is not None:
                value: Any = flag.constant
            elif flag.nargs is not None:
                at, value = read_values(flag, words, places, at, table, result)
            elif at < end and ((text := words[at])[:1] != "-" or table.is_argument(text)):
                at += 1
                value = (
                    read_value(flag, text, places[at - 1], result)
                    if flag.kind != "text" or flag.choices or flag.optional or type(text) is not str
                    else text
                )
            else:
                at = report_missing(flag, words, places, at, table, result)
                continue
            dest = flag.dest
            if dest not in RELEVANT_OPTIONS:
                result.ignore(flag, words[start:at], value, places[start])
            elif value is not INVALID:
                if dest in values:
                    result.store(flag, value, places[start], word)
                else:
                    values[dest] = value
                    found_at[dest] = places[start]

    def read_other(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse a word that is not the exact spelling of a flag, and return the position of the next word."""
        table, result = self.table, self.result
        word, place = words[at], places[at]
        if word[:1] != "-" or table.is_argument(word):
            if type(word) is Unknown or PLACEHOLDER.fullmatch(word) is not None:
                self.positional.unknown.append((word, place, HIDDEN if result.after_secret else word))
            elif word in BOOLEANS and at and (flag := table.exact.get(words[at - 1])) is not None and flag.constant:
                value = read_in_other_release(flag, word, place, result)
                if value is INVALID:
                    self.positional.add(words, places, at, result)
                else:
                    result.set_option(flag, value, place, [words[at - 1], word])
            else:
                self.positional.add(words, places, at, result)
            return at + 1
        if word == "--":
            for index in range(at + 1, len(words)):
                self.positional.add(words, places, index, result)
            return len(words)
        if type(word) is Unknown and names_unknown_flag(word):
            result.ignore_unknown(HIDDEN if result.after_secret else word, place)
            return at + 1
        if table.takes_dots and "." in word and "." in word.partition("=")[0] and not word.startswith("-O"):
            return read_dotted(words, places, at, self.dotted, result)
        if table.takes_level and word.startswith("-O"):
            return self.read_level(words, places, at)
        if word == "-h" or word.startswith(("--help", "-h=")):
            result.add_launch_error(f"{quoted(word)} ({place}) shows vLLM's help and starts nothing")
            return at + 1
        if word[:5] == "--no-" and (keyword := false_keyword(place, table)) is not None:
            result.set_option(keyword, False, place, [word])
            return at + 1
        flag, given, short = table.find(word)
        if word.startswith("--h") and HELP.startswith(word.partition("=")[0]):
            flag, short = None, [HELP, *table.with_prefix(word.partition("=")[0])]
        if short == [HELP]:
            result.add_launch_error(f"{quoted(word)} ({place}) shows vLLM's help and starts nothing")
            return at + 1
        if flag is None and short:
            result.after_secret = any(table.exact[each].secret for each in short if each != HELP)
            shown = f"{word.partition('=')[0]}={HIDDEN}" if given is not None and result.after_secret else word
            result.refuse(
                place, f"{quoted(shown)} is ambiguous: it could be {listed(short[:8])}; write one of them in full"
            )
            return at + 1
        if flag is None:
            return skip_unknown(
                words, places, at, table, result, may_be_model=not (self.names_model or self.positional.known)
            )
        if given is None:
            return self.read_inexact(flag, words, places, at)
        if flag.constant is not None:
            value = read_in_other_release(flag, given, place, result) if type(word) is not Unknown else INVALID
            if value is not INVALID:
                result.set_option(flag, value, place, [word])
                return at + 1
            result.refuse(
                place,
                f"`{flag.name}` takes no value, so {quoted(word)} is refused; write {_boolean_forms(flag, table)}",
            )
        else:
            value = read_value(flag, Unknown(given) if type(word) is Unknown else given, place, result)
            result.set_option(
                flag,
                [value] if isinstance(flag.nargs, str) and flag.nargs == "+" and value is not INVALID else value,
                place,
                [word],
            )
        return at + 1

    def read_inexact(self, flag: Flag, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse a flag that is abbreviated or mixes dashes and underscores."""
        table, result = self.table, self.result
        start, word = at, words[at]
        at += 1
        if flag.constant is not None:
            value: Any = flag.constant
        elif flag.nargs is not None:
            at, value = read_values(flag, words, places, at, table, result)
        elif at < len(words) and table.is_value(words[at]):
            value = read_value(flag, words[at], places[at], result)
            at += 1
        else:
            return report_missing(flag, words, places, at, table, result)
        result.set_option(flag, value, places[start], [word, *words[start + 1 : at]])
        return at

    def read_level(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse `-O3`, `-O=3` or `-O 3`."""
        result = self.result
        word = words[at]
        flag = self.table.by_name.get("optimization_level")
        if word.startswith(DOTTED_LEVEL) and self.table.takes_dots and series(self.table.release) <= LAST_DOTTED_LEVEL:
            result.add_ignored(word)
            at += 1
            return at if "=" in word else at + (at < len(words) and self.table.is_value(words[at]))
        if flag is None:
            return self.read_compilation_level(words, places, at)
        if word == "-O":
            if at + 1 < len(words) and words[at + 1] in LEVELS:
                result.set_option(flag, int(words[at + 1]), places[at], ["-O", words[at + 1]])
                return at + 2
            result.refuse(places[at], f"`-O` takes a level from 0 to 3; write one such as `-O2`, and {_COMPILE_ADVICE}")
            return at + 1 + (at + 1 < len(words) and self.table.is_value(words[at + 1]))
        text = word[3:] if word[2] == "=" else word[2:]
        if text in LEVELS:
            result.set_option(flag, int(text), places[at], [word])
        else:
            result.refuse(
                places[at], f"invalid level {quoted(word)}; write `-O0`, `-O1`, `-O2` or `-O3`, and {_COMPILE_ADVICE}"
            )
        return at + 1

    def read_compilation_level(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse `-O3`, `-O=3`, `-O 3` or `-O JSON`, which set `--compilation-config` in releases before 0.12."""
        word = words[at]
        text = word.removeprefix("-O").removeprefix("=")
        if not text and at + 1 < len(words) and words[at + 1] in LEVELS:
            self.result.add_ignored(word, words[at + 1])
            return at + 2
        if text in LEVELS:
            self.result.add_ignored(word)
            return at + 1
        if text:
            self.result.refuse(places[at], f"invalid level {quoted(word)}; write `-O0`, `-O1`, `-O2` or `-O3`")
            return at + 1
        return self.read_inexact(self.table.by_name["compilation_config"], words, places, at)


def _boolean_forms(flag: Flag, table: Flags) -> str:
    off = f"--no-{flag.name[2:]}"
    return f"`{flag.name}` or `{off}`" if off in table.exact else f"`{flag.name}` or leave it out"
