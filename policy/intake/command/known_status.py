"""Whether a simple command certainly succeeds or fails, whatever the state of the machine: `true`, `[ a = b ]`.

Of `[` and `test`, only the operators are read that bash and dash have in common and that look at no file.
"""

from __future__ import annotations

import operator
import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

CERTAIN_STATUS: Final = {"true": True, ":": True, "false": False}
"""The commands that certainly succeed or fail."""
TESTS: Final = frozenset({"[", "test"})
"""The commands that ``test_status`` evaluates; the value of a variable in one may be an assumption."""
NUMBER: Final = re.compile(r"-?[0-9]{1,9}")
UNARY_TESTS: Final[dict[str, Callable[[str], bool]]] = {"-n": bool, "-z": operator.not_}
TEXT_TESTS: Final[dict[str, Callable[[str, str], bool]]] = {"=": operator.eq, "!=": operator.ne}
NUMBER_TESTS: Final[dict[str, Callable[[int, int], bool]]] = {
    "-eq": operator.eq,
    "-ne": operator.ne,
    "-lt": operator.lt,
    "-le": operator.le,
    "-gt": operator.gt,
    "-ge": operator.ge,
}
UNSUPPORTED_STARTS: Final = frozenset({"!", "("})
UNARY_WORDS: Final = 2
BINARY_WORDS: Final = 3


def test_status(words: Sequence[str]) -> bool | None:
    """Whether a test with literal words succeeds; None if that is not known."""
    operands = words[1:-1] if words[0] == "[" else words[1:]
    if any(type(word) is not str for word in words) or (words[0] == "[" and words[-1] != "]"):
        return None
    if len(operands) < UNARY_WORDS:
        return bool(operands and operands[0])
    if len(operands) < BINARY_WORDS:
        unary = UNARY_TESTS.get(operands[0])
        return None if unary is None else bool(unary(operands[1]))
    if len(operands) > BINARY_WORDS or operands[0] in UNSUPPORTED_STARTS:
        return None
    left, name, right = operands
    if name in NUMBER_TESTS and NUMBER.fullmatch(left) is not None and NUMBER.fullmatch(right) is not None:
        return NUMBER_TESTS[name](int(left), int(right))
    return TEXT_TESTS[name](left, right) if name in TEXT_TESTS else None
