"""What the first lines of a script say about its start: its shebang, and the directives of a batch system.

The kernel starts the program of the shebang with the rest of the line as one argument, and with the script. Slurm, PBS
and LSF read options from comments such as `#SBATCH --export=NAME=VALUE`. Not here: the script itself.
"""

from __future__ import annotations

import re
import shlex
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.command.env_options import EnvWords
from policy.intake.command.expansion import MAX_TEXT, ExpansionBudget, ShellSyntaxError
from policy.intake.command.exported_variables import EXPORT_OPTION, assigned_variables
from policy.intake.command.shell_options import shell_options
from policy.intake.command.words import Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

SHEBANG: Final = re.compile(r"#![ \t]*+([^ \t\r\n]++)[ \t]*+([^\r\n]*+)")
BASH: Final = "bash"
ENV: Final = "env"
BASH_SHELLS: Final = frozenset({BASH, "sh", "dash", "ash"})
"""The shells whose scripts are read as those of bash."""
OTHER_SHELLS: Final = frozenset({"zsh", "ksh"})
"""The shells that are read in the same way with a doubt, which the reader of their command adds."""
END_OF_OPTIONS: Final = (["-"], ["--"])
DIRECTIVE: Final = re.compile(r"(#SBATCH|#PBS|#BSUB|#PJM|#\$)[ \t]++(-[^\r\n]*+)")
"""Matches a line with options of a batch system."""
COMMENTS: Final = re.compile(r"[ \t]*+(?:#[^\n]*+)?(?:\n|\Z)")
"""Matches a line without a command; the directives end before the first one with a command."""
EXPORT_OPTIONS: Final = {"#SBATCH": EXPORT_OPTION, "#PBS": "-v", "#BSUB": "-env", "#PJM": "-x", "#$": "-v"}
"""The option of each system with a list of variables."""
EXPORT_FILE: Final = "--export-file"
SHEBANG_NOTE: Final = "the variables of the script's first line are assumed; `bash FILE` does not set them"
DIRECTIVE_NOTE: Final = "the variables of `{} {}` are assumed; who submits the job may set others"
HIDDEN_VARIABLES: Final = "`{}` sets variables that are not shown"
OTHER_PROGRAM: Final = "the script's first line starts {}, and the script is read as bash reads it"
UNREADABLE_SHEBANG: Final = "the script's first line cannot be read, and it may set any variable: {}"


class ScriptHeader(NamedTuple):
    """How a script is started: the ``words`` of a command up to its text, with `-c`, and the variables that they set.

    The words before `-c` are the ``options`` of the shell. ``notes`` say what is assumed, ``doubts`` why the script may
    be started in another way. ``has_hidden_variables``: whether it may get variables whose names are not known.
    """

    words: list[str]
    options: list[str]
    env: dict[str, str | None]
    notes: list[str]
    doubts: list[str]
    has_hidden_variables: bool


def header_of(text: str) -> ScriptHeader:
    """What the first lines of a script say; without a shebang, bash starts it."""
    if len(text) > MAX_TEXT:  # which is reported where it is read
        return ScriptHeader([BASH, "-c"], [], {}, [], [], has_hidden_variables=False)
    exported: dict[str, str | None] = {}
    notes: list[str] = []
    hidden: dict[str, None] = {}
    for system, option, value in _directives(text):
        if value is None or option == EXPORT_FILE:
            hidden[HIDDEN_VARIABLES.format(f"{system} {option}".rstrip())] = None
        else:
            exported = assigned_variables(value)  # the last one counts
            notes = [DIRECTIVE_NOTE.format(system, option)] if exported else []
    before = [Unknown(f"{name}=…") if value is None else f"{name}={value}" for name, value in exported.items()]
    shell = _shell_of(text, exported)
    if any(name not in exported or exported[name] != value for name, value in shell.env.items()):
        notes.append(SHEBANG_NOTE)
    words = [*([ENV, *before] if before else []), *shell.words, *shell.options, "-c"]
    doubts = [shell.doubt] if shell.doubt else []
    return ScriptHeader(words, shell.options, {**exported, **shell.env}, [*hidden, *notes], doubts, bool(hidden))


def _directives(text: str) -> list[tuple[str, str, str | None]]:
    """The options with lists of variables: the system, the option and its value; None if a line cannot be read."""
    found: list[tuple[str, str, str | None]] = []
    at = 0
    while at < len(text) and (line := COMMENTS.match(text, at)) is not None:
        directive = DIRECTIVE.match(text, at)
        at = line.end()
        if directive is None:
            continue
        system, wanted = directive[1], EXPORT_OPTIONS[directive[1]]
        try:
            words = shlex.split(directive[2], comments=True)
        except ValueError:
            found.append((system, "", None))
            continue
        for word, following in zip(words, [*words[1:], ""], strict=True):
            name, equals, value = word.partition("=")
            if len(wanted) == len("-v") and word.startswith(wanted):
                found.append((system, wanted, word[len(wanted) :] or following))
            elif name in {wanted, EXPORT_FILE}:
                found.append((system, name, value if equals else following))
    return found


class _Shell(NamedTuple):
    """The words that start a shell up to its ``options``, the variables that they set, and a doubt, if any."""

    words: list[str]
    options: list[str]
    env: dict[str, str | None]
    doubt: str = ""


def _shell_of(text: str, exported: dict[str, str | None]) -> _Shell:
    """The shell of the script; one that is not known is taken for bash, with a doubt."""
    found = SHEBANG.match(text)
    if found is None:
        return _Shell([BASH], [], {})
    program, argument = found[1], found[2].rstrip(" \t")
    arguments = [argument] if argument else []
    own: dict[str, str | None] = {}
    before: list[str] = []
    if program.rpartition("/")[2] == ENV:
        options = EnvWords(arguments, [""] * len(arguments), 0)
        try:
            options.read(own, exported, {}, set(), budget := ExpansionBudget())
            while options.words[options.at : options.at + 1] == [ENV]:
                options.at += 1
                options.read(own, exported, {}, set(), budget)
        except ShellSyntaxError as error:
            return _Shell([BASH], [], {}, UNREADABLE_SHEBANG.format(error))
        before = [ENV, *options.words[: options.at]] if options.at else []
        program, arguments = "".join(options.words[options.at : options.at + 1]), options.words[options.at + 1 :]
        if options.refusal:
            return _Shell([BASH], [], {}, UNREADABLE_SHEBANG.format(options.refusal))
    name = program.rpartition("/")[2]
    if name not in BASH_SHELLS | OTHER_SHELLS or not _are_options(name, arguments):
        return _Shell([*before, BASH], [], own, OTHER_PROGRAM.format(quoted(program)))
    if arguments[-1:] in END_OF_OPTIONS:  # another option follows
        arguments = arguments[:-1]
    return _Shell([*before, BASH if name in BASH_SHELLS else name], arguments, own)


def _are_options(shell: str, arguments: Sequence[str]) -> bool:
    """Whether all arguments are options with their values, so that the script follows them."""
    options = shell_options(shell, arguments, 0)
    return options.end >= len(arguments) and not options.has_script and options.runs
