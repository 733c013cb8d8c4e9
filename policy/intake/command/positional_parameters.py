"""The arguments of a script, which it reads as `$0`, `$1` … and `$@`, and changes with `set --` and `shift`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.expansion import MAX_WORDS, ExpansionBudget
from policy.intake.command.words import Pattern, Unknown, is_open

if TYPE_CHECKING:
    from collections.abc import Sequence

ANY: Final = (Unknown("$@", is_several=True),)
"""Arguments that are not known."""


class PositionalParameters(Struct):
    """The arguments from `$0` on."""

    words: Sequence[str]
    budget: ExpansionBudget

    def value(self, index: int) -> str | None:
        """The value of `$1` and so on; None if it is not known."""
        if index >= len(self.words) or any(map(is_open, self.words[: index + 1])):
            return None
        return self.words[index]

    def replace(self, words: Sequence[str], *, is_certain: bool) -> None:
        """Read `set -- …`. If it may not run, the arguments are unknown afterwards."""
        self.budget.copy(len(self.words))
        self._keep_name(words if is_certain else ANY)

    def shift(self, operands: Sequence[str], *, is_certain: bool) -> None:
        """Read `shift` with its operands. If it may not run, the arguments are unknown afterwards."""
        self.budget.copy(len(self.words))
        others = self.words[1:]
        if not is_certain or any(type(word) is Pattern or getattr(word, "is_several", False) for word in self.words):
            self._keep_name(ANY)
        elif not operands:
            self._keep_name(others[1:])
        elif len(operands) == 1 and len(operands[0]) < len(str(MAX_WORDS)) and operands[0].isdecimal():
            count = int(operands[0])
            self._keep_name(others[count if count <= len(others) else 0 :])
        else:
            self._keep_name(ANY)

    def _keep_name(self, others: Sequence[str]) -> None:
        self.words = [self.words[0] if self.words else "sh", *others]
