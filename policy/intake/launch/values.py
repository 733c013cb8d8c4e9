"""The values that the checks of a deployment read, by name.

- `args.NAME`: an option as `EngineArgs` names it, null if it is not given; `args.NAME.FIELD`: a field of a JSON option;
- `speculation.FIELD`: a field of `--speculative-config` with what other flags set; `speculation.given`;
  `speculation.resolved_method`: the method that vLLM chooses;
- `model.NAME`: the served model (`models.ModelValues`), `draft.NAME`: the draft with a configuration of its own;
- `names.SET`: the names that the release knows (`Tables.names`, or a set of `Tables.constants`);
- `runner`: the runner that the release itself chooses;
- `env.NAME`: a variable's text, null if it is not set;
- `gpus`: the number of the container's GPUs that the manifest states, 0 if it is not known;
- any other name is a fact of the deployment.
"""

from __future__ import annotations

from collections.abc import Callable  # noqa: TC003  # msgspec reads the annotations
from functools import lru_cache
from operator import ge, gt, le, lt
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.command.parse_result import UNKNOWN
from policy.intake.launch.models import ModelValues, UnknownArgument
from policy.intake.model.formula import Incomputable
from policy.intake.provenance import DEFAULT
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.derive.speculation import DraftModel, Speculation
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel
    from policy.intake.provenance import Provenance

WORDS: Final = {
    "gt": "greater than",
    "ge": "greater than or equal to",
    "lt": "less than",
    "le": "less than or equal to",
}
COMPARISONS: Final = {"gt": gt, "ge": ge, "lt": lt, "le": le}
NUMBERS: Final = frozenset({int, float})
LORA: Final = "LoRAConfig"
MULTIMODAL: Final = "MultiModalConfig"


class Bounds(Struct, frozen=True):
    """The bounds that a configuration class sets for an option, or for a field of one.

    Each of ``limits`` has a word of ``WORDS``, the test, and the bound. ``fields`` lead to the number in the option's
    value.
    """

    label: str
    fields: tuple[str, ...]
    class_name: str
    limits: tuple[tuple[str, Callable[[float, float], bool], float], ...]


@lru_cache(maxsize=128)
def bounds_by_option(tables: Tables) -> Mapping[str, list[Bounds]]:
    """Option → the bounds of the values that it sets."""
    found: dict[str, list[Bounds]] = {}
    for name, row in tables.bounds.items():
        limits = tuple((word, is_within, row[word]) for word, is_within in COMPARISONS.items() if word in row)
        option, *fields = name.split(".")
        label = name.partition(".")[2] or name
        found.setdefault(option, []).append(Bounds(label, tuple(fields), row["class"], limits))
    return found


@lru_cache(maxsize=1024)
def _sorted_names(tables: Tables, name: str) -> tuple[str, ...]:
    """A set of names that a release knows. Raises Incomputable if there is none of this name."""
    found = tables.names.get(name) or tables.constants.get(name)
    if not isinstance(found, frozenset):
        raise Incomputable(name)
    return tuple(sorted(found))


def field_of(value: Any, fields: tuple[str, ...]) -> Any:
    """The value at a path of field names in an object; None if there is none."""
    for field in fields:
        value = value.get(field) if isinstance(value, dict) else None
    return value


def _reader(name: str) -> tuple[Callable[[LaunchValues, Any], Any], Any]:
    """The function that reads the value of a name in the checks, and its argument."""
    kind, _, rest = name.partition(".")
    if kind == "args":
        option, *fields = rest.split(".")
        return (LaunchValues.field, (option, tuple(fields))) if fields else (LaunchValues.option, option)
    reader = READERS.get(kind)
    return (LaunchValues.fact, name) if reader is None else (reader, rest)


class UnknownVariable(Incomputable):
    """A variable is set to a value that is not known here, or may be set."""


class LaunchValues:
    """The values of one deployment in one release."""

    def __init__(
        self,
        options: ParsedOptions,
        target: ServedModel,
        speculation: Speculation | None,
        read_draft: Callable[[], tuple[str, DraftModel | None]],
        derived: Provenance,
        variables: Mapping[str, str | None],
        files: Mapping[str, str],
        platform: str,
        tables: Tables,
        runner: Callable[[], str | None],
        *,
        has_hidden_variables: bool = False,
        gpus: int = 0,
    ) -> None:
        """The values of parsed options, models, variables and derived facts.

        ``read_draft`` returns the method, and the draft with a configuration of its own. In ``variables`` a value of
        ``None`` is unknown; with ``has_hidden_variables`` there may be others. ``gpus`` is 0 if it is not known.
        """
        self._has_hidden_variables = has_hidden_variables
        self._gpus = gpus
        self.release = tables.release
        self.platform = platform
        self._options = options
        self._unknown_sizes = options.unknown_sizes
        self._target = target
        self.configuration = target.configuration
        self._speculation = speculation
        self._read_draft = read_draft
        self._draft_values: tuple[str, ModelValues | None] | None = None
        self._derived = derived
        self._variables = variables
        self._files = files
        self._tables = tables
        self._runner = runner
        self._model: ModelValues | None = None
        given = options.values.copy()
        for name, (value, _) in options.others.items():
            given.setdefault(name, value)
        self.given: Final[Mapping[str, Any]] = given
        """The given options with their values; a value that is not known is `UNKNOWN`."""

    def key(self, name: str) -> Any:
        """The value of a name. Raises Incomputable if it is not known here."""
        found = _readers.get(name)
        if found is None:
            found = _readers[name] = _reader(name)
        return found[0](self, found[1])

    def key_if_unset(self, name: str) -> Any:
        """The value of a name, if the variables that are not known are not set. Raises Incomputable as ``key`` does."""
        try:
            return self.key(name)
        except UnknownVariable:
            return None

    def place(self, option: str) -> str:
        """The place of an option in the command; empty if it is not given."""
        other = self._options.others.get(option)
        found = other[1] if other is not None else self._options.place(option)
        return "" if found == DEFAULT else found

    def out_of_bounds(self, unread: set[str]) -> list[tuple[str, str]]:
        """The options whose numbers are outside the bounds of their class, each with the message.

        Adds the options whose values are not known to ``unread``.
        """
        found = []
        by_option = bounds_by_option(self._tables)
        for option, value in self.given.items():
            if option not in by_option or option in self._unknown_sizes:
                continue
            if value is UNKNOWN:
                if any(self._is_made(bounds.class_name) for bounds in by_option[option]):
                    unread.add(option)
                continue
            for bounds in by_option[option]:
                number = field_of(value, bounds.fields) if bounds.fields else value
                if type(number) not in NUMBERS:
                    continue
                for word, is_within, bound in bounds.limits:
                    if not is_within(number, bound) and self._is_made(bounds.class_name):
                        found.append((option, self._out_of_bounds(option, bounds, word, bound, number)))
        return found

    def _out_of_bounds(self, option: str, bounds: Bounds, word: str, bound: float, number: float) -> str:
        place = self.place(option)
        where = f" ({place})" if place else ""
        return (
            f'"{bounds.class_name}: {bounds.label}: Input should be {WORDS[word]} {bound}"{where}; got {quoted(number)}'
        )

    def _is_made(self, name: str) -> bool:
        """Whether vLLM creates an object of a configuration class; only some deployments have those of two classes."""
        if name == LORA:
            return bool(self._options.values.get("enable_lora"))
        return name != MULTIMODAL or self.model_value("supports_multimodal") is True

    def option(self, name: str) -> Any:
        """An option; None if it is not given."""
        if name in self._unknown_sizes:
            raise Incomputable(name)
        found = self.given.get(name)
        if found is UNKNOWN:
            raise UnknownArgument(name)
        return found

    def field(self, path: tuple[str, tuple[str, ...]]) -> Any:
        """A field of a JSON option, by the option's name and the names of fields; None if it is not given."""
        option, fields = path
        return field_of(self.option(option), fields)

    def speculation_value(self, name: str) -> Any:
        """A field of the speculative configuration; None without one."""
        if name == "given":
            return self._speculation is not None
        if name == "resolved_method":
            return self._draft()[0] if self._speculation is not None else None
        return None if self._speculation is None else self._speculation.keys.get(name)

    def draft_value(self, name: str) -> Any:
        """A value of the draft; not known without a draft that has a configuration of its own."""
        draft = self._draft()[1] if self._speculation is not None else None
        if name == "known":
            return draft is not None
        if draft is None:
            raise Incomputable("draft")
        return getattr(draft, name)()

    def _draft(self) -> tuple[str, ModelValues | None]:
        """The method, and the values of the draft."""
        if self._draft_values is None:
            method, draft = self._read_draft()
            own = None if draft is None else draft.configuration
            values = None if draft is None or own is None else ModelValues(own, self._options, draft)
            self._draft_values = method, values
        return self._draft_values

    def model_value(self, name: str) -> Any:
        """A value of the served model."""
        if self._model is None:
            below = f"{self._target.name}/"
            own = [file.removeprefix(below) for file in self._files if file.startswith(below)]
            self._model = ModelValues(self._target.configuration, self._options, self._target, own)
        return getattr(self._model, name)()

    def runner(self, _: str) -> str | None:
        """The runner that the release itself chooses."""
        return self._runner()

    def names(self, name: str) -> tuple[str, ...]:
        """A set of names that the release knows."""
        return _sorted_names(self._tables, name)

    def variable(self, name: str) -> str | None:
        """A variable's text; None if it is not set. Raises UnknownVariable if that is not known."""
        value = self._variables.get(name)
        if value is None and (name in self._variables or self._has_hidden_variables):
            raise UnknownVariable(name)
        return value

    def gpus(self, _: str) -> int:
        """The number of the container's GPUs; 0 if it is not known."""
        return self._gpus

    def fact(self, name: str) -> Any:
        """The value of a derived fact."""
        if name.startswith("parallel_config.") and name.partition(".")[2] in self._unknown_sizes:
            raise Incomputable(name)
        found = self._derived.facts.get(name)
        if found is None:
            raise Incomputable(name)
        return found[0]


READERS: Final[Mapping[str, Callable[[LaunchValues, str], Any]]] = {
    "args": LaunchValues.option,
    "speculation": LaunchValues.speculation_value,
    "model": LaunchValues.model_value,
    "draft": LaunchValues.draft_value,
    "names": LaunchValues.names,
    "env": LaunchValues.variable,
    "runner": LaunchValues.runner,
    "gpus": LaunchValues.gpus,
}
_readers: dict[str, tuple[Callable[[LaunchValues, Any], Any], Any]] = {}
"""The readers of the names read so far. All names are in the files of checks, so their number is limited.

A deployment reads a dozen. A cache of `functools` would take 1 % more instructions to derive its facts.
"""
