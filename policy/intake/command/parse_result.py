"""What parsing a command line finds: the values of options with their places, and all messages.

Not here: which word sets which option (`arguments`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import FURTHER_FAULTS, MAX_FAULTS, RefusedArgument, RequestFault
from policy.intake.command.expansion import count_messages, message_limit
from policy.intake.command.relevant_options import KEPT_OPTIONS, RELEVANT_OPTIONS
from policy.intake.command.word_places import FILE_PREFIX, word_pointer
from policy.intake.command.words import PLACEHOLDER, Unknown
from policy.intake.command_line import CommandLine, ParsedOptions, UnknownFlag, UnknownOption
from policy.masking import HIDDEN, is_plain, masked
from policy.messages import quoted
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.flags import Flag

UNKNOWN: Final = object()
"""The value of an option that is set to something that is not known here."""
INVALID: Final = object()
"""The value of an option whose text is invalid, after its fault."""
KNOWN_TYPES: Final = frozenset({bool, int, float})
"""The types of values that are always known."""
MAX_WARNINGS: Final = 32
COMPOSE_MARK: Final = "!}"
"""The end of a reference to a variable that Compose would replace with an unknown value."""


class ParseResult:
    """The options and messages of one command line, with the limits on messages.

    ``others`` has the values of options that no fact depends on, with their places; an unknown value is `UNKNOWN`.
    ``found_at`` has the places of the options that facts depend on, ``members`` the places of an option's dotted keys.
    ``is_plain``: whether no argument in ``ignored`` has anything to mask. Not searching them again saves 1.3 % of the
    instructions to derive facts. ``omitted`` counts the messages beyond the limit. ``after_secret``: whether the last
    flag's value may be a secret, so that an unexpected word after it is masked. ``late_faults`` has, by option, the
    faults that a later value replaces. ``assumed`` is the release if nothing states which one runs. ``reported`` has
    the options whose value a warning calls unknown. ``unknown_options`` has the options with unknown values that no
    fact depends on. ``unknown_model`` is the model's name as written if its value is not known.
    """

    __slots__ = (
        "after_secret",
        "assumed",
        "faults",
        "found_at",
        "ignored",
        "is_plain",
        "late_faults",
        "launch_errors",
        "max_faults",
        "max_messages",
        "members",
        "omitted",
        "others",
        "pointer",
        "reported",
        "serve",
        "unknown_flags",
        "unknown_model",
        "unknown_options",
        "unknown_sizes",
        "unknown_words",
        "values",
        "warnings",
    )

    def __init__(
        self, command: CommandLine, faults: list[RequestFault], pointer: str, assumed: str | None = None
    ) -> None:
        self.serve = command.serve
        self.assumed = assumed
        self.faults = faults
        self.pointer = pointer
        self.values: dict[str, Any] = {}
        self.found_at: dict[str, str] = {}
        self.others: dict[str, tuple[Any, str]] = {}
        self.members: dict[str, dict[str, str]] = {}
        self.after_secret = False
        self.ignored: list[str] = []
        self.is_plain = True
        self.warnings: list[str] = list(command.warnings)
        self.late_faults: dict[str, RequestFault] = {}
        self.launch_errors: list[str] = []
        self.omitted = 0
        self.max_faults = message_limit(MAX_FAULTS)
        self.max_messages = message_limit(MAX_WARNINGS)
        self.unknown_words: list[tuple[str, str]] = []
        self.unknown_sizes: dict[str, tuple[str, str, str]] = {}
        self.unknown_model = ""
        self.unknown_flags: list[UnknownFlag] = []
        self.unknown_options: dict[str, UnknownOption] = {}
        self.reported: set[str] = set()

    def options(self) -> ParsedOptions:
        """Add the last messages, count all messages towards the request's limit, and return the result as a value."""
        if self.late_faults:
            self.faults += [*self.late_faults.values()][: max(self.max_faults - len(self.faults), 0)]
        if self.omitted:
            self.warnings.append(f"{self.omitted} more messages about the arguments are left out")
        if messages := len(self.faults) + len(self.warnings) + len(self.launch_errors):
            count_messages(messages)
        if len(self.faults) >= self.max_faults:
            self.faults.append(RequestFault(self.pointer, FURTHER_FAULTS.format("this request")))
        return ParsedOptions(
            self.values,
            self.places() if self.members else self.found_at,
            self.ignored,
            self.warnings,
            self.unknown_words,
            self.launch_errors,
            {dest: size for dest, size in self.unknown_sizes.items() if dest not in self.values}
            if self.unknown_sizes
            else {},
            self.unknown_model if self.unknown_model and self.values.get("model") == self.unknown_model else "",
            self.others,
            [] if self.omitted else self.unknown_flags,
            self.unknown_options,
            self.is_plain,
        )

    def places(self) -> dict[str, str]:
        """The place of each option, and of each dotted key."""
        keys = {f"{dest}.{key}": place for dest, where in self.members.items() for key, place in where.items()}
        return keys | self.found_at

    def set_option(self, flag: Flag, value: Any, place: str, written: Sequence[str]) -> None:
        """Set an option that facts depend on, unless its value is invalid, and ignore any other."""
        if flag.dest not in RELEVANT_OPTIONS:
            self.ignore(flag, written, value, place)
        elif value is not INVALID:
            self.store(flag, value, place, written[0])

    def store(self, flag: Flag, value: Any, place: str, word: str) -> None:
        """Set an option that may already be set: the last value wins, except for the model after `vllm serve`."""
        dest = flag.dest
        before = self.found_at.get(dest)
        if before is not None and not before.startswith(FILE_PREFIX):
            if dest == "model" and self.serve and word.startswith("--model"):
                self.warn(
                    f"`--model` is given twice; after `vllm serve` the first wins ({before}), and {quoted(value)} "
                    "is ignored"
                )
                return
            self.warn(f"`{flag.name}` is given twice, at {before} and {place}; the last counts")
        self.values[dest] = value
        self.found_at[dest] = place

    def set_unknown_size(self, flag: Flag, text: str, place: str) -> None:
        """Record that an option is set to an unknown value, instead of an earlier one."""
        self.values.pop(flag.dest, None)
        self.found_at.pop(flag.dest, None)
        self.unknown_sizes[flag.dest] = flag.name, text, place

    def note_unknown_model(self, text: str) -> str:
        """Record the name of a model whose value is not known, and return it without the mark of Compose."""
        self.unknown_model = text.replace(COMPOSE_MARK, "}")
        return self.unknown_model

    def ignore(self, flag: Flag, written: Sequence[str], value: Any, place: str) -> None:
        """Record a flag that no fact depends on, with its value masked if it may be a secret.

        The value is recorded as `UNKNOWN` if it may be a secret. The last value wins.
        """
        is_known = not flag.secret and _is_known(value)
        self.others[flag.dest] = (value if is_known else UNKNOWN), place
        if self.unknown_options or not is_known:
            self._note_unknown_option(flag, written, place)
        if flag.dest in KEPT_OPTIONS:
            self.values.pop(flag.dest, None)
            if value is not INVALID:
                self.values[flag.dest] = value
        if flag.dest == "config" and written[0] != "--config":
            self.warn(f"vLLM does not read the file of {quoted(written[0])}: write `--config FILE`, with a blank")
        self.after_secret = flag.secret
        text = " ".join(written)
        if not flag.secret and is_plain(text):
            self.ignored.append(text)
        else:
            self.add_ignored(written[0].partition("=")[0] if flag.secret else masked(text))

    def add_ignored(self, *texts: str) -> None:
        """Record arguments that no fact depends on, without secrets but not as a message would show them."""
        self.ignored += texts
        self.is_plain = False

    def _note_unknown_option(self, flag: Flag, written: Sequence[str], place: str) -> None:
        """Record an option's value that is not known, instead of an earlier one."""
        if self.others[flag.dest][0] is not UNKNOWN or flag.secret:
            self.unknown_options.pop(flag.dest, None)
            return
        text = masked(written[0].partition("=")[2] or " ".join(written[1:]))
        is_limited = flag.choices is not None or flag.members is not None
        self.unknown_options[flag.dest] = UnknownOption(flag.name, text, place, is_limited, flag.dest in self.reported)

    def ignore_unknown(self, word: str, place: str) -> None:
        """Skip an argument whose whole text is unknown: it may be empty, a value, or any flag."""
        self.warn(f"the value of {quoted(word)} ({place}) is not known, so it is ignored; set the variable")
        self.unknown_words.append((word, place))

    def warn(self, message: str) -> None:
        """Add a warning; beyond the maximum, warnings are only counted."""
        self._add(self.warnings, message)

    def fault_of(self, flag: Flag, text: str, place: str, message: str, *, is_late: bool) -> None:
        """Add the fault of a flag's value, which vLLM's parser refuses.

        vLLM's parser reads the fields of a ``json`` flag only after all words, so a later value of the flag replaces
        the fault.
        """
        value = HIDDEN if flag.secret or is_secret(flag.name) else masked(text)
        if is_late and flag.kind == "json":
            self.late_faults[flag.dest] = self._refusal(RefusedArgument(place, flag.dest, value), message)
        else:
            self.refuse(place, message, flag.dest, value)

    def add_launch_error(self, message: str) -> None:
        """Add a reason why vLLM's parser aborts the start; beyond the maximum, reasons are only counted."""
        self._add(self.launch_errors, message)

    def _add(self, messages: list[str], message: str) -> None:
        if len(messages) < self.max_messages:
            messages.append(message)
        else:
            self.omitted += 1

    def refuse(self, place: str, message: str, option: str = "", value: str = "") -> None:
        """Add the fault of a word that vLLM's parser refuses; faults beyond the maximum are dropped.

        ``option`` is the option that takes the word as its value, ``value`` that value without secrets.
        """
        if len(self.faults) < self.max_faults:
            self.faults.append(self._refusal(RefusedArgument(place, option, value), message))

    def fault(self, place: str, message: str) -> None:
        """Add the fault of a word that cannot be read here; faults beyond the maximum are dropped."""
        if len(self.faults) < self.max_faults:
            self.faults.append(RequestFault(word_pointer(self.pointer, place), message))

    def _refusal(self, refused: RefusedArgument, message: str) -> RequestFault:
        return RequestFault(word_pointer(self.pointer, refused.place), message, refused=refused)


def _is_known(value: Any) -> bool:
    if type(value) in KNOWN_TYPES:
        return True
    if type(value) is str:
        return "${" not in value or PLACEHOLDER.search(value) is None
    if type(value) is list:
        return all(map(_is_known_item, value))
    return value is not INVALID and type(value) is not Unknown


def _is_known_item(item: Any) -> bool:
    return type(item) is list or _is_known(item)
