"""Parse a command line into options, as the release's own parser does.

Follows `FlexibleArgumentParser` of `vllm/utils/argparse_utils.py` and Python's argparse: abbreviations, values, dotted
options and how they replace JSON, the positional model. Not here: converting a flag's text to its value
(`flag_values`), and reading the `--config` file (`config_file`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import MAX_FAULTS, RequestFault, RulesInvalid
from policy.intake.command.config_file import NotInFiles, file_words, read_file
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, count_messages, message_limit
from policy.intake.command.flag_values import InvalidValue, convert_fields, parse_human_int, parse_value
from policy.intake.command.flags import dashed, flags, in_other_release
from policy.intake.command.words import Pattern, Unknown
from policy.intake.command_line import CommandLine, ParsedOptions
from policy.masking import HIDDEN, is_secret, masked
from policy.messages import listed, nearest, quoted
from policy.parser.jsontext import NotJson, read_json
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.command.flags import Flag, Flags

RELEVANT: Final = frozenset(
    {
        "all2all_backend",
        "async_scheduling",
        "attention_config",
        "aux_output_config",
        "compilation_config",
        "convert",
        "data_parallel_backend",
        "data_parallel_size",
        "decode_context_parallel_size",
        "distributed_executor_backend",
        "ec_transfer_config",
        "enable_batch_sharded_sampling",
        "enable_dbo",
        "enable_elastic_ep",
        "enable_expert_parallel",
        "enable_lora",
        "enable_prefix_caching",
        "enable_prompt_embeds",
        "enable_return_routed_experts",
        "enable_sleep_mode",
        "enable_trace_replay",
        "enforce_eager",
        "hf_config_path",
        "hf_overrides",
        "kv_offloading_backend",
        "kv_offloading_size",
        "kv_sharing_fast_prefill",
        "kv_transfer_config",
        "logits_processors",
        "logprobs_mode",
        "mamba_cache_mode",
        "mm_encoder_only",
        "model",
        "model_impl",
        "optimization_level",
        "pipeline_parallel_size",
        "pooler_config",
        "prefill_context_parallel_size",
        "reasoning_config",
        "reasoning_parser",
        "return_sampling_mask",
        "runner",
        "spec_method",
        "spec_model",
        "spec_tokens",
        "speculative_config",
        "tensor_parallel_size",
        "ubatch_size",
        "watermark_config",
    }
)
"""The options that facts depend on, by their names in `EngineArgs`; all others go to `ParsedOptions.ignored`."""

SPECULATIVE_FLAGS: Final = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}
LEVELS: Final = frozenset("0123")
_INVALID: Final = object()
_COMPILE_ADVICE: Final = "other compile options as `-cc.mode=0`"
_JSON_STARTS: Final = frozenset('{["-0123456789tfn+')
MAX_KEYS: Final = 64
MIN_SIMILARITY: Final = 0.75
MAX_WARNINGS: Final = 32
FILE_PREFIX: Final = "files/"
"""The prefix of the place of a word that comes from the `--config` file."""


def read_options(
    release: str,
    command: CommandLine,
    files: Mapping[str, str],
    faults: list[RequestFault],
    pointer: str = "/deployment/args",
) -> ParsedOptions:
    """Parse the command line as `release` does, and append what the release would reject to `faults`.

    Each fault points to its word, below `pointer`. A flag that the release does not have is a launch error, and is left
    out. `files` maps the names that `--config` may have to the texts of the files.

    Raises:
        KeyError: `release` is not in `policy.intake.model.tables.releases()`.
    """
    words, places = command.words, command.places
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        faults.append(
            RequestFault(
                pointer,
                f"expected a command of at most {MAX_WORDS} words and {MAX_TEXT} characters, got {len(words)} words",
            )
        )
        return ParsedOptions()
    parser = _CommandLineParser(flags(release), command, faults, pointer)
    if "--config" in words:
        words, places = parser.insert_file(words, places, files)
    patterns = {index for index, word in enumerate(words) if type(word) is Pattern}
    if patterns:
        words = [str(word) if type(word) is Pattern else word for word in words]
    parser.read(words, places)
    parser.warn_of_expansions(patterns, words, places)
    if parser.dotted:
        parser.set_dotted()
    if parser.positional:
        parser.set_model()
    if parser.unknown_positional and command.serve and "model" not in parser.values:
        word, place = parser.unknown_positional[0]
        parser.fault(
            place,
            f"no model is given, unless it is {quoted(word)}, whose value is not known; write the model, "
            "or set the variable",
        )
    if "speculative_config" in parser.values or not SPECULATIVE_FLAGS.keys().isdisjoint(parser.values):
        parser.set_speculative()
    if parser.omitted:
        parser.warnings.append(f"{parser.omitted} more messages about the arguments are left out")
    if parser.max_faults < MAX_FAULTS and len(faults) >= parser.max_faults:
        faults.append(RequestFault(pointer, "further faults are left out: this request has too many; split it"))
    count_messages(len(faults) + len(parser.warnings) + len(parser.launch_errors))
    return ParsedOptions(
        parser.values,
        parser.places(),
        parser.ignored,
        parser.warnings,
        parser.unknown_words,
        parser.launch_errors,
    )


class _CommandLineParser:
    """Parses the words of one command line into options."""

    __slots__ = (
        "after_secret",
        "command",
        "dotted",
        "faults",
        "found_at",
        "ignored",
        "launch_errors",
        "max_faults",
        "max_messages",
        "members",
        "names_model",
        "omitted",
        "pointer",
        "positional",
        "table",
        "unknown_positional",
        "unknown_words",
        "values",
        "warnings",
    )

    def __init__(self, table: Flags, command: CommandLine, faults: list[RequestFault], pointer: str) -> None:
        self.table = table
        self.command = command
        self.faults = faults
        self.pointer = pointer
        self.values: dict[str, Any] = {}
        self.found_at: dict[str, str] = {}
        self.members: dict[str, dict[str, str]] = {}
        self.names_model = False
        self.after_secret = False
        self.ignored: list[str] = []
        self.warnings: list[str] = list(command.warnings)
        self.launch_errors: list[str] = []
        self.omitted = 0
        self.max_faults = message_limit(MAX_FAULTS)
        self.max_messages = message_limit(MAX_WARNINGS)
        self.dotted: dict[str, tuple[dict[str, Any], dict[str, str]]] = {}
        self.positional: list[tuple[str, str, str]] = []
        self.unknown_positional: list[tuple[str, str]] = []
        self.unknown_words: list[tuple[str, str]] = []

    def read(self, words: Sequence[str], places: Sequence[str]) -> None:
        """Parse all words in one pass, and stop at the maximum number of faults.

        A word that begins with a dash is never the value of the preceding word, unless it cannot be an option.
        """
        exact, values, found_at = self.table.exact, self.values, self.found_at
        self.names_model = "--model" in words
        at, end = 0, len(words)
        while at < end and len(self.faults) < self.max_faults:
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
                at, value = self.read_values(flag, words, places, at)
            elif at < end and ((text := words[at])[:1] != "-" or self.table.is_argument(text)):
                at += 1
                value = (
                    self.read_value(flag, text, places[at - 1])
                    if flag.kind != "text" or flag.choices or flag.optional or type(text) is not str
                    else text
                )
            else:
                at = self.report_missing(flag, words, places, at)
                continue
            dest = flag.dest
            if dest not in RELEVANT:
                self.ignore(flag, words[start:at])
            elif value is not _INVALID:
                if dest in values:
                    self.store(flag, value, places[start], word)
                else:
                    values[dest] = value
                    found_at[dest] = places[start]

    def read_other(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse a word that is not the exact spelling of a flag, and return the position of the next word."""
        word, place = words[at], places[at]
        if word[:1] != "-" or self.table.is_argument(word):
            if type(word) is Unknown:
                self.ignore_unknown(word, place)
                self.unknown_positional.append((word, place))
            else:
                self.positional.append((word, place, self.masked_word(words, at)))
            return at + 1
        if word == "--":
            self.positional.extend(
                (words[index], places[index], self.masked_word(words, index)) for index in range(at + 1, len(words))
            )
            return len(words)
        if type(word) is Unknown and _names_unknown_flag(word):
            self.ignore_unknown(word, place)
            return at + 1
        if "." in word and "." in word.partition("=")[0] and not word.startswith("-O"):
            return self.read_dotted(words, places, at)
        if word.startswith("-O"):
            return self.read_level(words, places, at)
        if word == "-h" or word.startswith(("--help", "-h=")):
            self.add_launch_error(f"{quoted(word)} ({place}) shows vLLM's help and starts nothing")
            return at + 1
        flag, given, short = self.table.find(word)
        if flag is None and short:
            self.after_secret = any(self.table.exact[each].secret for each in short)
            shown = f"{word.partition('=')[0]}={HIDDEN}" if given is not None and self.after_secret else word
            self.fault(
                place, f"{quoted(shown)} is ambiguous: it could be {listed(short[:8])}; write one of them in full"
            )
            return at + 1
        if flag is None:
            return self.skip_unknown(words, places, at)
        if given is None:
            return self.read_inexact(flag, words, places, at)
        if flag.constant is not None:
            self.fault(
                place,
                f"`{flag.name}` takes no value, so {quoted(word)} is refused; write {_boolean_forms(flag, self.table)}",
            )
        else:
            value = self.read_value(flag, given, place)
            self.set_option(
                flag,
                [value] if isinstance(flag.nargs, str) and flag.nargs == "+" and value is not _INVALID else value,
                place,
                [word],
            )
        return at + 1

    def read_inexact(self, flag: Flag, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse a flag that is abbreviated or mixes dashes and underscores."""
        start, word = at, words[at]
        at += 1
        if flag.constant is not None:
            value: Any = flag.constant
        elif flag.nargs is not None:
            at, value = self.read_values(flag, words, places, at)
        elif at < len(words) and self.is_value(words[at]):
            value = self.read_value(flag, words[at], places[at])
            at += 1
        else:
            return self.report_missing(flag, words, places, at)
        self.set_option(flag, value, places[start], [word, *words[start + 1 : at]])
        return at

    def set_option(self, flag: Flag, value: Any, place: str, written: Sequence[str]) -> None:
        if flag.dest not in RELEVANT:
            self.ignore(flag, written)
        elif value is not _INVALID:
            self.store(flag, value, place, written[0])

    def store(self, flag: Flag, value: Any, place: str, word: str) -> None:
        """Set an option that may already be set: the last value wins, except for the model after `vllm serve`."""
        dest = flag.dest
        before = self.found_at.get(dest)
        if before is not None and not before.startswith(FILE_PREFIX):
            if dest == "model" and self.command.serve and word.startswith("--model"):
                self.warn(
                    f"`--model` is given twice; after `vllm serve` the first wins ({before}), and {quoted(value)} "
                    "is ignored"
                )
                return
            self.warn(f"`{flag.name}` is given twice, at {before} and {place}; the last counts")
        self.values[dest] = value
        self.found_at[dest] = place

    def ignore(self, flag: Flag, written: Sequence[str]) -> None:
        if flag.dest == "config" and written[0] != "--config":
            self.warn(f"vLLM does not read the file of {quoted(written[0])}: write `--config FILE`, with a blank")
        self.after_secret = flag.secret
        self.ignored.append(written[0].partition("=")[0] if flag.secret else masked(" ".join(written)))

    def ignore_unknown(self, word: str, place: str) -> None:
        """Skip an argument whose whole text is unknown: it may be empty, a value, or any flag."""
        self.warn(f"the value of {quoted(word)} ({place}) is not known, so it is ignored; set the variable")
        self.unknown_words.append((word, place))

    def warn_of_expansions(self, patterns: set[int], words: Sequence[str], places: Sequence[str]) -> None:
        """Warn of words that may expand to several arguments, and record them; each is parsed as one."""
        found = set(self.unknown_words)
        is_secret_flag = False
        for index, (word, place) in enumerate(zip(words, places, strict=True)):
            is_several = type(word) is Unknown and word.is_several and (word, place) not in found
            if word[:1] == "-":
                flag = self.table.exact.get(word)
                is_secret_flag = (flag is not None and flag.secret) or is_secret(word.partition("=")[0])
            shown = HIDDEN if is_secret_flag else word
            if index in patterns:
                self.warn(f"a shell may expand {quoted(shown)} ({place}); it is read as written, so quote it")
            elif is_several:
                self.warn(
                    f"the value of {quoted(shown)} ({place}) is not known, and it may be several arguments; it is read "
                    "as one, so quote it, or set the variable"
                )
            if is_several or index in patterns:
                self.unknown_words.append((shown, place))

    # values

    def is_value(self, word: str) -> bool:
        return word[:1] != "-" or self.table.is_argument(word)

    def read_value(self, flag: Flag, text: str, place: str) -> Any:
        """The value of a flag's text; `_INVALID` after a fault."""
        if type(text) is Unknown and (flag.dest in RELEVANT or flag.choices):
            if flag.dest in RELEVANT:
                self.fault(
                    place,
                    f"`{flag.name}` is set to {quoted(text)}, whose value is not known; write the value, "
                    "or set the variable",
                )
            return _INVALID
        if len(self.faults) >= self.max_faults:
            return _INVALID
        try:
            return parse_value(flag, str(text))
        except InvalidValue as error:
            if type(text) is not Unknown:
                shown = "its value is not shown" if flag.secret else str(error)
                self.fault(place, f"`{flag.name}`: {shown}")
            return _INVALID

    def read_values(self, flag: Flag, words: Sequence[str], places: Sequence[str], at: int) -> tuple[int, Any]:
        """The value of a flag with `nargs`: a list, or a single value for `?`."""
        start = at
        most = {"+": len(words), "?": 1}.get(flag.nargs, flag.nargs) if isinstance(flag.nargs, str) else flag.nargs
        assert isinstance(most, int)
        while at < len(words) and at - start < most and self.is_value(words[at]):
            at += 1
        if flag.secret and at == start:
            at += self.may_be_secret(words, at)
        for index in range(start + (flag.nargs != "?"), at):
            if type(words[index]) is Unknown:
                self.ignore_unknown(words[index], places[index])
        if flag.nargs == "?":
            return at, self.read_value(flag, words[start], places[start]) if at > start else True
        found = [self.read_value(flag, words[index], places[index]) for index in range(start, at)]
        if at == start or (flag.nargs != "+" and at - start < most):
            return self.report_missing(flag, words, places, at, start - 1), _INVALID
        return at, _INVALID if any(item is _INVALID for item in found) else found

    def report_missing(
        self, flag: Flag, words: Sequence[str], places: Sequence[str], at: int, flag_at: int | None = None
    ) -> int:
        """Report a flag without a value, and return the position of the next word.

        The next word is skipped if it may be a secret that begins with a dash.
        """
        self.after_secret = flag.secret
        following = words[at] if at < len(words) else None
        followed = ", but nothing follows it"
        if following is not None and not flag.secret:
            followed = f"; {quoted(following)} is read as an option, so write `{flag.name}=VALUE` if it is the value"
        self.fault(
            places[at - 1 if flag_at is None else flag_at],
            f"`{flag.name}` takes a value{'' if flag.secret and following else followed}",
        )
        return at + self.may_be_secret(words, at) if flag.secret else at

    def masked_word(self, words: Sequence[str], at: int) -> str:
        """An unexpected word as a message shows it, masked if it may be part of a secret that a shell split."""
        if len(self.positional) > self.max_faults:
            return ""
        if self.after_secret:
            return HIDDEN
        before = at - 1 if at < 2 or words[at - 1] != "--" else at - 2  # noqa: PLR2004  # the `--` and a word before it
        is_part = at > 0 and (is_secret(words[before]) or masked(f"{words[before]} {words[at]}").endswith(HIDDEN))
        return HIDDEN if is_part else words[at]

    def may_be_secret(self, words: Sequence[str], at: int) -> bool:
        """Whether the word after a secret's flag may be the secret, because it is not a flag."""
        word = words[at] if at < len(words) else "--"
        return word != "--" and word not in self.table.exact and self.table.find(word)[0] is None

    def read_level(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Parse `-O3`, `-O=3` or `-O 3`."""
        word = words[at]
        flag = self.table.by_name["optimization_level"]
        if word == "-O":
            if at + 1 < len(words) and words[at + 1] in LEVELS:
                self.set_option(flag, int(words[at + 1]), places[at], ["-O", words[at + 1]])
                return at + 2
            self.fault(places[at], f"`-O` takes a level from 0 to 3; write one such as `-O2`, and {_COMPILE_ADVICE}")
            return at + 1 + (at + 1 < len(words) and self.is_value(words[at + 1]))
        text = word[3:] if word[2] == "=" else word[2:]
        if text in LEVELS:
            self.set_option(flag, int(text), places[at], [word])
        else:
            self.fault(
                places[at], f"invalid level {quoted(word)}; write `-O0`, `-O1`, `-O2` or `-O3`, and {_COMPILE_ADVICE}"
            )
        return at + 1

    # dotted options

    def read_dotted(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Collect `--option.key value`, for `set_dotted` to set at the end."""
        word, place = words[at], places[at]
        name, equals, text = word.partition("=")
        following = at + 1
        if not equals:
            if following == len(words):
                self.fault(place, f"{quoted(word)} takes a value, but nothing follows it")
                return following
            text = words[following]
            following += 1
        if type(text) is Unknown or type(word) is Unknown:
            shown = HIDDEN if is_secret(name) else text
            self.fault(
                place,
                f"{quoted(name)} is set to {quoted(shown)}, whose value is not known; write the value, "
                "or set the variable",
            )
            return following
        listing = name.endswith("+")
        option, *keys = name.removesuffix("+").split(".")
        if len(keys) > MAX_KEYS:
            self.fault(place, f"{quoted(name)} is nested more than {MAX_KEYS} deep")
            return following
        value: Any = list(text.split(",")) if listing else _dotted_value(text)
        for key in reversed(keys):
            value = {key: value}
        tree, where = self.dotted.setdefault(dashed(option) if option.startswith("--") else option, ({}, {}))
        _merge(tree, value)
        where[".".join(keys)] = place
        return following

    def set_dotted(self) -> None:
        """Set each option's dotted keys as one JSON value, which replaces any value given before."""
        for option, (tree, where) in self.dotted.items():
            first = next(iter(where.values()))
            flag, _, short = self.table.find(option)
            shown = [f"{option}.{key}" for key in where]
            if flag is None and short:
                self.fault(
                    first,
                    f"{quoted(shown[0])} is ambiguous: it could be {listed(short[:8])}; write one of them in full",
                )
            elif flag is None:
                self.report_unknown(option, shown[0], first)
            elif flag.dest not in RELEVANT:
                self.ignored.extend([f"{option}.{HIDDEN}"] if flag.secret else map(masked, shown))
            elif flag.kind not in {"json", "object", "json-or-text"}:
                self.fault(
                    first, f"`{flag.name}` has no fields, so {quoted(shown[0])} is refused; write `{flag.name} VALUE`"
                )
            else:
                self.set_tree(flag, option, tree, where)

    def set_tree(self, flag: Flag, option: str, tree: dict[str, Any], where: dict[str, str]) -> None:
        first = next(iter(where.values()))
        try:
            value = tree if flag.members is None else convert_fields(flag.members, tree)
        except InvalidValue as error:
            bad = next((place for key, place in where.items() if f"`{key}`" in str(error)), first)
            self.fault(bad, f"`{option}.…`: {error}")
            return
        dest = flag.dest
        before = self.found_at.get(dest)
        if before is not None and not before.startswith(FILE_PREFIX):
            self.warn(
                f"`{option}.…` replaces the whole `{flag.name}` at {before}; vLLM does not merge them, "
                "so use one form for all keys"
            )
        self.values[dest] = value
        self.found_at[dest] = first
        self.members[dest] = where

    def set_speculative(self) -> None:
        """Merge `--spec-method`, `--spec-model` and `--spec-tokens` into the speculative option.

        Where the release allows it, the option's keys may have dashes in place of underscores.
        """
        given = self.values.get("speculative_config")
        if given is not None and type(given) is not dict:
            self.fault(
                self.found_at["speculative_config"],
                f'`--speculative-config`: expected a JSON object such as `{{"key": "value"}}`, got {quoted(given)}',
            )
            given = None
        merged = {} if given is None else given
        if self.table.by_name["speculative_config"].dashes:
            merged = {key.replace("-", "_"): value for key, value in merged.items()}
        for dest, key in SPECULATIVE_FLAGS.items():
            value = self.values.pop(dest, None)
            place = self.found_at.pop(dest, "")
            if value is None:
                continue
            if key in merged:
                self.fault(
                    place,
                    f"`--{dest.replace('_', '-')}` and the key `{key}` of `--speculative-config` exclude each other; "
                    "keep one",
                )
            merged = {**merged, key: value}
            self.found_at[f"speculative_config.{key}"] = place
            self.found_at.setdefault("speculative_config", place)
        if merged or "speculative_config" in self.values:
            self.values["speculative_config"] = merged if merged or given is not None else None

    # the model

    def set_model(self) -> None:
        """Set the model from the positional words: after `vllm serve` the first one is the model."""
        (model, place, _), *others = self.positional
        stated = self.found_at.get("model")
        if not self.command.serve:
            self.warn(
                f"{quoted(model)} ({place}) is ignored: only `vllm serve` takes the model without `--model`"
                + ("" if stated else ", so vLLM's default model would be served; write `--model`")
            )
        elif stated is not None and not stated.startswith(FILE_PREFIX):
            others = self.positional
        else:
            self.values["model"] = str(model)
            self.found_at["model"] = place
        for _, where, shown in others[: self.max_faults]:
            self.fault(
                where,
                f"unexpected argument {quoted(shown)}: no option takes it; quote it together with the value "
                "it belongs to, or remove it",
            )

    # unknown flags

    def skip_unknown(self, words: Sequence[str], places: Sequence[str], at: int) -> int:
        """Skip a flag that the release does not have, with as many values as it takes in other releases, or one."""
        word = words[at]
        key, equals, _ = word.partition("=")
        flag = self.report_unknown(dashed(key) if key.startswith("--") else key, key, places[at])
        self.ignored.append(masked(key))
        at += 1
        if equals or (flag is not None and flag.constant is not None):
            return at
        most = len(words) if flag is not None and flag.nargs == "+" else 1
        hidden = self.after_secret = is_secret(key)
        if hidden and words[at : at + 1] == ["--"]:
            return len(words)  # any of them may be the secret, so none is used as the model
        if hidden and at < len(words) and not self.is_value(words[at]):
            return at + self.may_be_secret(words, at)
        needs_model = (
            flag is None
            and not hidden
            and self.command.serve
            and not self.positional
            and "model" not in self.values
            and not self.names_model
        )
        while most and at < len(words) and self.is_value(words[at]) and not (needs_model and at + 1 == len(words)):
            most -= 1
            at += 1
        return at

    def report_unknown(self, key: str, shown: str, place: str) -> Flag | None:
        """Report a flag that the release does not have, and return it from the nearest release that has it."""
        release = self.table.release
        other = in_other_release(key, release)
        if other is None and key[2:] and key[0] == "-" != key[1] and key[:3].rstrip("0123456789") in self.table.exact:
            short = key.rstrip("0123456789")
            self.fault(place, f"unknown flag {quoted(shown)}; write `{short} {key[len(short) :]}`")
            return None
        if len(self.launch_errors) >= self.max_messages:
            self.omitted += 1
            return None if other is None else other[0]
        if other is not None:
            flag, first, last = other
            span = f"only {first} has it" if first == last else f"{first} to {last} have it"
            self.add_launch_error(f"vLLM {release} has no flag {quoted(shown)} ({place}) and would not start; {span}")
            return flag
        near = nearest(key, self.table.spellings, MIN_SIMILARITY)
        self.add_launch_error(f"vLLM {release} has no flag {quoted(shown)} ({place}) and would not start{near}")
        return None

    # the --config file

    def insert_file(self, words: list[str], places: list[str], files: Mapping[str, str]) -> tuple[list[str], list[str]]:
        """The words with those of the file inserted before the flags, so that the command line wins."""
        if words.count("--config") > 1:
            second = [index for index, word in enumerate(words) if word == "--config"][1]
            self.fault(places[second], "a second `--config`; vLLM takes one, so put both files into one")
            return words, places
        flag = words.index("--config")
        if flag + 1 == len(words):
            self.fault(places[flag], "`--config` takes a file, but nothing follows it")
            return words[:flag], places[:flag]
        name, place = words[flag + 1], places[flag + 1]
        rest, rest_places = [*words[:flag], *words[flag + 2 :]], [*places[:flag], *places[flag + 2 :]]
        try:
            document = read_file(name, files)
        except NotInFiles as error:
            self.fault(place, f"`--config`: {error}")
            return rest, rest_places
        except RulesInvalid as error:
            where = at(f"{self.pointer.removesuffix('/args')}/files", name)
            self.faults.extend(
                RequestFault(where, f"line {fault.line}, column {fault.column}: {fault.message}")
                for fault in error.faults
            )
            return rest, rest_places
        added, added_places = file_words(
            document, f"{FILE_PREFIX}{name}", self.table, serve=self.command.serve, warn=self.warn
        )
        serve = self.command.serve
        model = serve and bool(rest) and not rest[0].startswith("-")
        if (
            serve
            and not model
            and "--model" not in added
            and not any(word == "--model" or word.startswith("--model=") for word in rest)
        ):
            self.fault(
                place,
                f"neither the command line nor {quoted(name)} names a model, and `vllm serve --config` needs one; "
                "write it before the flags",
            )
        if len(added) + len(rest) > MAX_WORDS:
            self.fault(
                place,
                f"the command line and {quoted(name)} have more than {MAX_WORDS} words in total, which is the limit",
            )
            return rest, rest_places
        return [*rest[:model], *added, *rest[model:]], [*rest_places[:model], *added_places, *rest_places[model:]]

    def places(self) -> dict[str, str]:
        """The place of each option, and of each dotted key."""
        keys = {f"{dest}.{key}": place for dest, where in self.members.items() for key, place in where.items()}
        return keys | self.found_at

    def warn(self, message: str) -> None:
        """Add a warning; beyond the maximum, warnings are only counted."""
        self.add_message(self.warnings, message)

    def add_launch_error(self, message: str) -> None:
        """Add a reason why vLLM's parser aborts the start; beyond the maximum, reasons are only counted."""
        self.add_message(self.launch_errors, message)

    def add_message(self, messages: list[str], message: str) -> None:
        if len(messages) < self.max_messages:
            messages.append(message)
        else:
            self.omitted += 1

    def fault(self, place: str, message: str) -> None:
        if len(self.faults) < self.max_faults:
            self.faults.append(RequestFault(word_pointer(self.pointer, place), message))


def word_pointer(pointer: str, place: str) -> str:
    """The JSON pointer of a word's place: `args[3]` below `/deployment/args` gives `/deployment/args/3`."""
    base = pointer.removesuffix("/args")
    if place.startswith(FILE_PREFIX):
        name, _, key = place.removeprefix(FILE_PREFIX).rpartition("/")
        return at(f"{base}/files", name) if key else base
    name, bracket, index = place.partition("[")
    index = index.removesuffix("]")
    if bracket and name.isidentifier() and index.isdecimal():
        return f"{base}/{name}/{index}"
    return pointer


def _boolean_forms(flag: Flag, table: Flags) -> str:
    off = f"--no-{flag.name[2:]}"
    return f"`{flag.name}` or `{off}`" if off in table.exact else f"`{flag.name}` or leave it out"


def _names_unknown_flag(word: str) -> bool:
    """Whether the flag name in a word is unknown; `-O` and the option of a dotted key are known."""
    name = word.partition("=")[0].partition(".")[0]
    return not word.startswith("-O") and ("$" in name or "`" in name or "{" in name)


def _dotted_value(text: str) -> Any:
    """The text parsed as JSON if possible, else as a number such as `80g`, else unchanged."""
    if text[:1] in _JSON_STARTS or text[:1].isspace():
        try:
            return read_json(text.encode())
        except (NotJson, UnicodeEncodeError):
            pass
        try:
            return parse_human_int(text)
        except InvalidValue:
            pass
    return str(text)


def _merge(tree: dict[str, Any], update: dict[str, Any]) -> None:
    """Merge `update` into `tree`: maps are merged, lists joined, anything else is replaced."""
    for key, value in update.items():
        before = tree.get(key)
        if type(value) is dict and type(before) is dict:
            _merge(before, value)
        elif type(value) is list and type(before) is list:
            before += value
        else:
            tree[key] = value
