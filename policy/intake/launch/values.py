"""The values that the checks of a deployment read, by name.

- `args.NAME`: an option as `EngineArgs` names it, null if it is not given; `args.NAME.FIELD`: a field of a JSON option;
- `speculation.FIELD`: a field of `--speculative-config` with what other flags set; `speculation.given`;
  `speculation.resolved_method`: the method that vLLM chooses;
- `model.NAME`: the served model (`models.ModelValues`), `draft.NAME`: the draft with a configuration of its own;
- `names.SET`: the names that the release knows (`Tables.names`, or a set of `Tables.constants`);
- `runner`: the runner that the release itself chooses;
- `env.NAME`: a variable's text, null if it is not set;
- any other name is a fact of the deployment.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.parse_result import UNKNOWN
from policy.intake.launch.models import ModelValues
from policy.intake.model.formula import Incomputable
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.derive.speculation import DraftModel, Speculation
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import Target
    from policy.intake.provenance import Provenance

WORDS: Final = {"gt": "greater than", "ge": "greater than or equal to", "lt": "less than", "le": "less than or equal to"}
LORA: Final = "LoRAConfig"
MULTIMODAL: Final = "MultiModalConfig"


class LaunchValues:
    """The values of one deployment in one release."""

    def __init__(
        self,
        options: ParsedOptions,
        target: Target,
        speculation: Speculation | None,
        drafted: tuple[str, DraftModel | None],
        derived: Provenance,
        variables: Mapping[str, str | None],
        files: Mapping[str, str],
        platform: str,
        tables: Tables,
        runner: Callable[[], str | None],
    ) -> None:
        """The values of parsed options, models, variables and derived facts.

        ``drafted`` is the method, and the draft with a configuration of its own. In ``variables`` a value of ``None``
        is unknown.
        """
        self.release = tables.release
        self.platform = platform
        self._options = options
        self._speculation = speculation
        self._method, draft = drafted
        self._derived = derived
        self._variables = variables
        self._tables = tables
        below = f"{target.name}/"
        own = [name.removeprefix(below) for name in files if name.startswith(below)]
        model = ModelValues(target.configuration, options, target, own)
        self._model = model
        self._draft = (
            None if draft is None or draft.configuration is None else ModelValues(draft.configuration, options, draft)
        )
        self._known: dict[str, Any] = {}
        self._readers: Mapping[str, Callable[[str], Any]] = {
            "args": self._option,
            "speculation": self._speculated,
            "model": model.get,
            "draft": self._drafted,
            "names": self._names,
            "env": self._variable,
            "runner": lambda _: runner(),
        }

    def key(self, name: str) -> Any:
        """The value of a name. Raises Incomputable if it is not known here."""
        if name not in self._known:
            kind, _, rest = name.partition(".")
            reader = self._readers.get(kind)
            self._known[name] = reader(rest) if reader is not None else self._fact(name)
        return self._known[name]

    def is_given(self, option: str) -> bool:
        """Whether an option is given, even with an unknown value."""
        return option in self._options.values or option in self._options.others

    def place(self, option: str) -> str:
        """The place of an option in the command; empty if it is not given."""
        other = self._options.others.get(option)
        found = other[1] if other is not None else self._options.place(option)
        return "" if found == DEFAULT else found

    def out_of_bounds(self) -> list[str]:
        """The options whose numbers are outside the bounds of their configuration class."""
        found = []
        for name, row in self._tables.bounds.items():
            option = name.partition(".")[0]
            if not self.is_given(option):
                continue
            if row["class"] in {LORA, MULTIMODAL} and not self._is_made(row["class"]):
                continue
            try:
                number = self._option(name)
            except Incomputable:
                continue
            if type(number) not in {int, float}:
                continue
            for word, compare in COMPARISONS.items():
                if word in row and not compare(number, row[word]):
                    place = self.place(option)
                    found.append(
                        f'"{row["class"]}: {name.partition(".")[2] or name}: Input should be {WORDS[word]} '
                        f'{row[word]}"{f" ({place})" if place else ""}; got {number}'
                    )
        return found

    def _is_made(self, name: str) -> bool:
        """Whether vLLM makes the configuration of LoRA, or of multimodal models."""
        if name == LORA:
            return bool(self._options.get("enable_lora"))
        return self._model.get("supports_multimodal") is True

    def _option(self, name: str) -> Any:
        option, *fields = name.split(".")
        if option in self._options.unknown_sizes:
            raise Incomputable(option)
        found = self._options.values.get(option)
        if found is None and option in self._options.others:
            found = self._options.others[option][0]
        if found is UNKNOWN:
            raise Incomputable(option)
        for field in fields:
            found = found.get(field) if isinstance(found, dict) else None
        return found

    def _speculated(self, name: str) -> Any:
        if name == "given":
            return self._speculation is not None
        if name == "resolved_method":
            return self._method if self._speculation is not None else None
        return None if self._speculation is None else self._speculation.keys.get(name)

    def _drafted(self, name: str) -> Any:
        if name == "known":
            return self._draft is not None
        if self._draft is None:
            raise Incomputable("draft")
        return self._draft.get(name)

    def _names(self, name: str) -> list[str]:
        found = self._tables.names.get(name) or self._tables.constants.get(name)
        if not isinstance(found, frozenset):
            raise Incomputable(name)
        return sorted(found)

    def _variable(self, name: str) -> str | None:
        if name in self._variables and self._variables[name] is None:
            raise Incomputable(name)
        return self._variables.get(name)

    def _fact(self, name: str) -> Any:
        if name.startswith("parallel_config.") and name.partition(".")[2] in self._options.unknown_sizes:
            raise Incomputable(name)
        found = self._derived.facts.get(name)
        if found is None:
            raise Incomputable(name)
        return found[0]


COMPARISONS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "gt": lambda number, bound: number > bound,
    "ge": lambda number, bound: number >= bound,
    "lt": lambda number, bound: number < bound,
    "le": lambda number, bound: number <= bound,
}
