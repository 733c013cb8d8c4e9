"""Builtin commands of a shell that are certain: they do the same in every shell, and set no variable unnoticed.

Not here: where in a script they certainly run (`certain_scripts`), and what they do (`shell_builtins`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.command_builder import ASSIGNMENT_START
from policy.intake.command.script_variables import NAME

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

BUILTINS: Final = frozenset(
    {
        *(".", ":", "[", "alias", "bg", "bind", "break", "builtin", "caller", "cd", "command", "compgen", "complete"),
        *("compopt", "continue", "declare", "dirs", "disown", "echo", "enable", "eval", "exec", "exit", "export"),
        *("false", "fc", "fg", "getopts", "hash", "help", "history", "jobs", "kill", "let", "local", "logout"),
        *("mapfile", "popd", "printf", "pushd", "pwd", "read", "readarray", "readonly", "return", "set", "shift"),
        *("shopt", "source", "suspend", "test", "times", "trap", "true", "type", "typeset", "ulimit", "umask"),
        *("unalias", "unset", "wait"),
    }
)
"""The builtin commands of bash, which include those of every shell."""
HARMLESS_BUILTINS: Final = frozenset(
    {
        *(".", ":", "break", "cd", "continue", "echo", "eval", "exec", "exit", "false", "kill", "pwd", "set", "shift"),
        *("shopt", "source", "trap", "true", "type", "ulimit", "umask"),
    }
)
"""Builtins that set no variable, or whose effects and doubts `shell_builtins` handles."""
SHELL_VARIABLE: Final = re.compile(
    r"BASH\w*|CDPATH|COMP_\w+|DIRSTACK|EPOCH\w+|E?UID|FUNCNAME|GLOBIGNORE|GROUPS|HIST\w+|IFS|LINENO|OLDPWD"
    r"|OPT(?:ARG|ERR|IND)|PIPESTATUS|POSIXLY_CORRECT|PPID|PROMPT_COMMAND|PS[0-4]|PWD|RANDOM|SECONDS|SHELLOPTS|SHLVL"
    r"|SRANDOM|TIMEFORMAT|_"
)
"""Matches the variables that a shell sets or interprets."""
UNARY_OPERATORS: Final = frozenset(f"-{letter}" for letter in "bcdefhLnprsStwxz")
BINARY_OPERATORS: Final = frozenset(
    {"=", "==", "!=", *(f"-{word}" for word in ("eq", "ge", "gt", "le", "lt", "ne", "ef", "nt", "ot"))}
)
"""The test operators that do not evaluate arithmetic on names."""
FORMAT: Final = re.compile(r"[\"']?[A-Za-z0-9%\\ .,:;=_/\[{(<>*#+]")
PROCESS: Final = re.compile(r"\$!|%?[0-9]+")
UNSPLIT_PART: Final = re.compile(r"""\\.|"(?:[^"\\]|\\.)*+(?:"|\Z)|'[^']*+(?:'|\Z)|\$[?#$!]""", re.DOTALL)
"""Matches parts of a word that a shell does not split: quoted text, and parameters that are numbers.

An unclosed quote matches to the end, so that nothing is scanned twice.
"""


def special_variable(name: str) -> str:
    """Why a variable is uncertain: it is one that the shell itself sets or interprets; empty if it is not."""
    return f"the shell's own variable `{name}`" if SHELL_VARIABLE.fullmatch(name) else ""


def _is_export(words: Sequence[str]) -> bool:
    """Whether `export` has only literal names that are not the shell's own."""
    for word in words[1:]:
        match = ASSIGNMENT_START.match(word)
        name = match.group(1) if match is not None else word
        if (match is None and NAME.fullmatch(word) is None) or special_variable(name):
            return False
    return len(words) > 1


def _is_unset(words: Sequence[str]) -> bool:
    named = words[2:] if words[1:2] in (["-f"], ["-v"]) else words[1:]
    return all(NAME.fullmatch(word) is not None and not special_variable(word) for word in named)


def _is_test(words: Sequence[str]) -> bool:
    """Whether a test has literal operators: one from a value may be `-v`, which evaluates arithmetic in its operand."""
    operands = list(words[1:-1] if words[0] == "[" else words[1:])
    while operands[:1] == ["!"]:
        del operands[0]
    if (words[0] == "[" and words[-1] != "]") or any(map(_may_be_several, operands)):
        return False
    match operands:
        case [] | [_]:
            return True
        case [operator, _]:
            return operator in UNARY_OPERATORS
        case [_, operator, _]:
            return operator in BINARY_OPERATORS
    return False


def _is_print(words: Sequence[str]) -> bool:
    """Whether `printf` has a format that cannot be an option: `-v` evaluates arithmetic in its operand."""
    return len(words) == 1 or FORMAT.match(words[1]) is not None


def _is_lookup(words: Sequence[str]) -> bool:
    return words[1:2] == ["-v"]


def _is_wait(words: Sequence[str]) -> bool:
    """Whether `wait` names only processes: `-p` evaluates arithmetic in its operand."""
    return all(PROCESS.fullmatch(word) is not None for word in words[1:])


def _may_be_several(word: str) -> bool:
    """Whether a shell may split a word, because it has an expansion outside quotes."""
    bare = UNSPLIT_PART.sub("", word)
    return "$" in bare or "`" in bare


CHECKS: Final[dict[str, Callable[[Sequence[str]], bool]]] = {
    "export": _is_export,
    "unset": _is_unset,
    "[": _is_test,
    "test": _is_test,
    "printf": _is_print,
    "command": _is_lookup,
    "wait": _is_wait,
}
"""The checks for the builtins that are certain only in some forms."""
