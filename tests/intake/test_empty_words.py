"""Empty words of a script, which shells keep or drop: arguments of vLLM and of `set`, compared with real shells."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from tables import table

from policy.intake.command.expansion import ExpansionBudget
from policy.intake.command.shell import parse_script
from policy.intake.command.words import Unknown

ANY_SHELL = (
    *('"$@"', "''\"$@\"", "\"$@\"''", "''$@", "$@''", '$@"$@"', '"$@"$@', '"$*"', "$*", '"$@""$@"', '"$@"$A', '$A"$@"'),
    *(
        '"$@""$A"',
        '"$@" "$A"',
        '"$@" "$@"',
        '$@ "$A"',
        "$*''",
        '""$A',
        '"$@"""',
        "$@ ''",
        '$@ "$*"',
        '$@ "${A:-}"',
        "$A ''",
    ),
    *("''$A", '"$@" ""', '"$@" "$*"', "''\"$@\"''", "$@ $@ ''", "x$@ ''", "$@x ''", '"x$@" ""', '"$@"x'),
)
"""Words that all shells read in the same way if there are no arguments and `A` is empty."""
DIFFERENT = ('"$@$@"', '"$@$*"', '"$*$@"', '"$@$A"', '"$A$@"', '"${A}$@"', '"$@${A}"')
"""Words that dash keeps and bash drops."""
ARRAYS = (
    *(
        '"${E[@]}"',
        "''\"${E[@]}\"",
        '""${E[@]}',
        '${E[@]}""',
        "${E[*]}''",
        '"${E[*]}"',
        '"${E[@]}$A"',
        '"${E[@]}${E[@]}"',
    ),
    *('"${E[@]}""${E[@]}"', '"$@${E[@]}"', '"${E[*]}$@"', "${E[@]} ''"),
)
SET = "A=; {}set --; set -- {} 0 1; "


def arguments(shell: str, script: str) -> list[str]:
    """The arguments that a real shell passes to a program."""
    program = shutil.which(shell)
    if program is None:
        pytest.skip(f"{shell} is not installed")
    done = subprocess.run([program, "-c", script], capture_output=True, check=True)
    return done.stdout.decode().split("\0")[:-1]


def read(script: str, *, is_bash: bool) -> list[str]:
    """The arguments of `vllm` in a script as they are read."""
    commands = parse_script(script, {}, budget=ExpansionBudget(), is_bash=is_bash)
    return next(command.words[1:] for command in commands if command.words[0] == "vllm")


@table("words", ANY_SHELL)
@table("shell", ["dash", "bash"])
@table("form", ["vllm serve m {} end", SET.format("", "{}") + 'vllm serve "$1" "$2" end'])
def test_empty_words_are_kept_or_dropped_as_by_shells(shell: str, words: str, form: str) -> None:
    script = "A=; set --; " + form.format(words)
    printed = script.replace("vllm serve", "printf '%s\\0' serve")
    assert read(script, is_bash=shell == "bash") == arguments(shell, printed)


@table("words", [*DIFFERENT, *ARRAYS])
@table("form", ["vllm serve m {} end", SET.format("E=(); ", "{}") + 'vllm serve "$1" "$2" end'])
def test_empty_words_of_bash_are_kept_or_dropped_as_by_bash(words: str, form: str) -> None:
    script = "A=; E=(); set --; " + form.format(words)
    assert read(script, is_bash=True) == arguments("bash", script.replace("vllm serve", "printf '%s\\0' serve"))


@pytest.mark.parametrize("words", DIFFERENT)
def test_a_word_that_only_some_shells_drop_is_unknown(words: str) -> None:
    *_, before, _ = read(f"A=; set --; vllm serve m {words} end", is_bash=False)
    assert type(before) is Unknown
    assert before.is_several
