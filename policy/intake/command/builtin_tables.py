"""The commands of a shell by their effect on the rest of a script, and the options that change nothing here."""

from __future__ import annotations

from typing import Final

SETTING: Final = frozenset({"read", "mapfile", "readarray", "getopts", "unset", "for", "select"})
"""Commands and loops that set or unset the variables that they name to a value that is not known here."""
IMPLIED: Final = {
    **dict.fromkeys(["read", "select"], ("REPLY",)),
    **dict.fromkeys(["mapfile", "readarray"], ("MAPFILE",)),
    **dict.fromkeys(["cd", "pushd", "popd"], ("PWD", "OLDPWD", "DIRSTACK")),
    "getopts": ("OPTARG", "OPTIND"),
}
"""The variables that commands set without naming them."""
DECLARING: Final = frozenset({"export", "declare", "local", "readonly", "typeset"})
SUCCEEDING: Final = frozenset({"true", ":", "echo"})
"""Commands that succeed, so that what follows after `&&` runs, unless a redirection fails."""
SPECIAL_BUILTINS: Final = frozenset(
    {":", ".", "source", "eval", "exec", "export", "readonly", "set", "shift", "times", "trap", "unset"}
)
"""Commands of a shell after which an assignment before them may stay."""
INTERPRETED: Final = frozenset(
    {*SETTING, *DECLARING, *SUCCEEDING, *SPECIAL_BUILTINS, "let", "printf", "command", "builtin", "alias", "shopt", "["}
)
"""Commands whose effect is read, so that a function of that name changes it."""
EFFECTIVE: Final = DECLARING | SETTING | {"eval", ".", "source", "set", "shift", "alias", "let", "printf", "trap"}
"""Commands that change how the rest of a script is read."""
FORGETTING: Final = frozenset({*IMPLIED, *SETTING, "let", "printf", "wait"})
"""Commands and loops after which variables are unknown."""
AFFECTING: Final = frozenset({*SPECIAL_BUILTINS, "alias", "builtin", "command", "coproc", "enable", "hash", "shopt"})
"""Commands that may change the running shell, and with it what follows."""
CONVERTING: Final = frozenset("nilucIA")
"""The options of `declare` that change what an assignment means."""
SAFE_LETTERS: Final = frozenset("abBCeEfghHmouvxPT")
SAFE_OPTIONS: Final = frozenset(
    {
        *("-s", "-u", "-q", "nullglob", "globstar", "dotglob", "failglob", "inherit_errexit", "huponexit"),
        *("allexport", "errexit", "errtrace", "monitor", "noclobber", "noglob", "nounset", "pipefail", "verbose"),
        *("xtrace", "braceexpand", "hashall"),
    }
)
"""Options of `set` and `shopt` that do not change what is read here."""
TRAPS: Final = frozenset({"EXIT", "0", "HUP", "1", "INT", "2", "QUIT", "3", "TERM", "15", "PIPE", "USR1", "USR2"})
"""Signals that only end a script, as far as what it starts is concerned."""
HARMLESS: Final = frozenset({"kill", "wait", "exit", "echo", "rm", "true", ":", "-", "pkill", "killall"})
"""Commands that a `trap` may run: they set no variable and start no program."""
