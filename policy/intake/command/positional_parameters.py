"""The arguments of a script: `$0`, `$1` … and `$@`, which `set --` and `shift` change."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.expansion import MAX_WORDS, ExpansionBudget
from policy.intake.command.words import Pattern, Unknown, is_uncertain

if TYPE_CHECKING:
    from collections.abc import Sequence

TOO_MANY_OPERANDS: Final = 2
"""The smallest number of operands that is too many for `shift`."""
UNKNOWN_ARGUMENTS: Final = (Unknown("$@", is_several=True),)


class PositionalParameters(Struct):
    """The arguments of a script, from `$0` on."""

    words: Sequence[str]
    budget: ExpansionBudget

    def value(self, index: int) -> str | None:
        """The value of `$1` and so on; None if it is unknown."""
        if index >= len(self.words) or any(map(is_uncertain, self.words[: index + 1])):
            return None
        return self.words[index]

    def replace(self, words: Sequence[str], *, is_certain: bool) -> None:
        """Apply `set -- …`, which makes the arguments unknown if it may not run."""
        self.budget.copy(len(self.words))
        self._keep_name(words if is_certain else UNKNOWN_ARGUMENTS)

    def shift(self, operands: Sequence[str], *, is_certain: bool) -> None:
        """Apply `shift` with its operands, which makes the arguments unknown if it may not run."""
        self.budget.copy(len(self.words))
        others = self.words[1:]
        if not is_certain or any(type(word) is Pattern or getattr(word, "is_several", False) for word in self.words):
            self._keep_name(UNKNOWN_ARGUMENTS)
        elif not operands:
            self._keep_name(others[1:])
        elif len(operands) == 1 and len(operands[0]) < len(str(MAX_WORDS)) and operands[0].isdecimal():
            count = int(operands[0])
            self._keep_name(others[count if count <= len(others) else 0 :])
        else:
            self._keep_name(UNKNOWN_ARGUMENTS)

    def cannot_shift(self, operands: Sequence[str]) -> bool:
        """Whether `shift` with its operands certainly takes more arguments than there are."""
        is_known = not any(type(word) is Pattern or getattr(word, "is_several", False) for word in self.words)
        count = operands[0] if operands else "1"
        is_number = len(operands) < TOO_MANY_OPERANDS and count.isdecimal() and len(count) < len(str(MAX_WORDS))
        return is_known and is_number and int(count) > len(self.words[1:])

    def forget(self) -> None:
        """Mark the arguments as unknown."""
        self._keep_name(UNKNOWN_ARGUMENTS)

    def _keep_name(self, others: Sequence[str]) -> None:
        self.words = [self.words[0] if self.words else "sh", *others]
