"""Shell commands by their effect on the rest of a script, and the options that do not affect how it is parsed."""

from __future__ import annotations

from typing import Final

SETTERS: Final = frozenset({"read", "mapfile", "readarray", "getopts", "for", "select"})
"""Commands and loops that set the variables they name to an unknown value."""
IMPLICIT_VARIABLES: Final = {
    **dict.fromkeys(["read", "select"], ("REPLY",)),
    **dict.fromkeys(["mapfile", "readarray"], ("MAPFILE",)),
    **dict.fromkeys(["cd", "pushd", "popd"], ("PWD", "OLDPWD", "DIRSTACK")),
    "getopts": ("OPTARG", "OPTIND"),
}
"""The variables that commands set implicitly."""
DECLARATIONS: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
SUCCESSFUL_COMMANDS: Final = frozenset({"true", ":", "echo"})
"""Commands that succeed unless a redirection fails, so that a command after `&&` runs."""
SPECIAL_BUILTINS: Final = frozenset(
    {":", ".", "source", "eval", "exec", "export", "readonly", "set", "shift", "times", "trap", "unset"}
)
"""Builtins for which a preceding assignment may stay in effect after they have run."""
INTERPRETED_COMMANDS: Final = frozenset(
    {
        *SETTERS,
        *DECLARATIONS,
        *SUCCESSFUL_COMMANDS,
        *SPECIAL_BUILTINS,
        "let",
        "printf",
        "command",
        "builtin",
        "alias",
        "shopt",
        "[",
    }
)
"""Commands that are interpreted, so that a function of the same name changes their effect."""
STATE_CHANGES: Final = (
    DECLARATIONS | SETTERS | {"eval", ".", "source", "set", "shift", "alias", "let", "printf", "trap", "unset"}
)
"""Commands that change the meaning of the rest of a script."""
VARIABLE_CHANGES: Final = frozenset({*IMPLICIT_VARIABLES, *SETTERS, "let", "printf", "wait"})
"""Commands and loops that make variables unknown."""
SHELL_CHANGES: Final = frozenset(
    {*SPECIAL_BUILTINS, "alias", "builtin", "command", "coproc", "enable", "hash", "shopt"}
)
"""Commands that may change the running shell, and so the commands after them."""
CONVERTING_OPTIONS: Final = frozenset("nilucIA")
"""The options of `declare` that change the assigned values."""
SAFE_LETTERS: Final = frozenset("abBCeEfghHmouvxPT")
SH_LETTERS: Final = frozenset("abCeEfmouvx")
"""Those of them that every shell has; with another one dash ends the script."""
SAFE_OPTIONS: Final = frozenset(
    {
        *("-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "inherit_errexit", "huponexit"),
        *("allexport", "errexit", "errtrace", "monitor", "noclobber", "noglob", "nounset", "pipefail", "verbose"),
        *("xtrace", "braceexpand", "hashall"),
    }
)
"""Options of `set` and `shopt` that do not affect how a script is parsed."""
SH_OPTIONS: Final = frozenset(
    {"allexport", "errexit", "monitor", "noclobber", "noglob", "nounset", "verbose", "xtrace"}
)
"""Those of them that `set` has in every shell."""
TRAP_SIGNALS: Final = frozenset(
    {"EXIT", "0", "HUP", "1", "INT", "2", "QUIT", "3", "TERM", "15", "PIPE", "USR1", "USR2"}
)
"""Signals whose traps do not affect which programs the script starts before it ends."""
TRAP_COMMANDS: Final = frozenset({"kill", "wait", "exit", "echo", "rm", "true", ":", "-", "pkill", "killall"})
"""Commands that are harmless in a `trap`: they set no variable and start no program."""
