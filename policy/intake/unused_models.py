"""The warning about model configurations that no engine uses, such as one under a misspelt name."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from policy.intake.model_lookup import ModelConfigNeeded
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

MAX_SHOWN: Final = 8
"""The most names of either kind that the warning lists."""


class ModelUse:
    """The models of some engines, by their names in the arguments and their own names."""

    def __init__(self, models: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, None] = {}
        self._is_complete = True
        """Whether the models of all engines are known."""
        if models is not None:
            self.add(models)

    def add(self, models: Mapping[str, str]) -> None:
        """Add the models of an engine: the names in its arguments, each with the model's own name."""
        self._names.update(dict.fromkeys(models.values()))
        self._names.update(dict.fromkeys(models))

    @property
    def names(self) -> list[str]:
        """The names that were added."""
        return [*self._names]

    def add_undecided(self, error: Exception) -> None:
        """Add an engine that could not be decided; its models are known only if their configurations were missing."""
        cause = error if isinstance(error, ModelConfigNeeded) else error.__cause__
        if isinstance(cause, ModelConfigNeeded):
            self.add({name: name for name in cause.names})
        else:
            self._is_complete = False

    def warnings(self, given: Collection[str], source: str) -> list[str]:
        """The warning about given configurations that no engine uses, if any; ``source`` is where they are given.

        There is no warning if no engine's models are known.
        """
        unused = [name for name in given if name not in self._names]
        if not unused or not self._names:
            return []
        engine = "no engine has" if self._is_complete else "no engine that could be decided has"
        return [f"`{source}`: {engine} the model {_listed(unused)}; the models are {_listed(self._names)}"]


def _listed(names: Iterable[str]) -> str:
    found = [*names]
    more = f" and {len(found) - MAX_SHOWN} more" if len(found) > MAX_SHOWN else ""
    return ", ".join(map(quoted, islice(found, MAX_SHOWN))) + more
