"""Which scripts are certain to be read as shells run them, and which construct of the others is reported."""

from __future__ import annotations

import pytest
from tables import table

from policy.intake.command.certain_scripts import uncertain_construct
from policy.intake.command.words import Unknown

EVERYWHERE = [
    "vllm serve org/m --port 8000",
    "# a comment\nvllm serve m # another\n",
    "exec vllm serve m --x 'a b' --y \"a $B ${C}\" --z=a\\ b",
    "set -euo pipefail; cd /x && export A=b C; unset D; exec vllm serve m",
    "A=1; B=$A; export HF_HOME=/x PATH=/y:$PATH; B=2 vllm serve m",
    "vllm serve m ${A:-b} ${A-b} ${A:+b} ${#A} ${A%.x} ${A##*/} $1 $@ $? ${1}",
    "vllm serve m --x $(hostname) --y `hostname -i` --z \"$(cat '/a b')\"",
    "vllm serve m --x $((8 * 2)) > log 2>&1",
    "vllm serve m >> /dev/null 2>/dev/null &",
    "echo a>b; cat a2<b; vllm serve m",
    'if [ -z "$A" ]; then export A=b; elif test -f x; then echo y; else exit 1; fi; vllm serve m',
    "for i in 1 2 3; do sleep 1; done; vllm serve m",
    "while ! curl -s localhost; do sleep 1; done; until nc -z a 1; do true; done; vllm serve m",
    "pip install x | tee log; mkdir -p /a && vllm serve m || exit 1",
    "vllm serve m \\\n  --port 1 \\\n  --x 'a\nb'",
    "{ echo a; echo b; } | cat; vllm serve m",
    "/opt/my\\ dir/vllm serve m",
    'a ````b``"````" `a````b`; vllm serve m',
    'wait; wait $! %1; [ ! -f a ] && [ $? -gt 0 ] || test -n "$A"; vllm serve m',
    "printf '%s' a; command -v vllm; trap 'kill 0' EXIT; vllm serve m",
    "if [ -z a ]; then if b; then export A=b; else unset A; fi; fi; exec vllm serve m 2>&1 | tee log",
    "if a; then exec vllm serve m; fi; cd /x || exit 1\nB=c vllm serve m & wait",
    "a && export A=b && vllm serve m; set -e; shift 2; c | d || e &\nexport B=c",
    "",
]
IN_BASH = [
    'A=(a \'b c\' "$D"); A+=(e # f\n g); vllm serve m "${A[@]}" ${A[0]}',
    "A+=b; vllm serve m ${A//a/b} ${A:0:3} ${A^^} &> log",
    "vllm serve m $'a\\tb'",
]


@table("is_bash", [False, True])
@table("text", EVERYWHERE)
def test_a_script_of_common_commands_is_certain(text: str, *, is_bash: bool) -> None:
    assert uncertain_construct(text, is_bash=is_bash) == ""


@pytest.mark.parametrize("text", IN_BASH)
def test_constructs_of_bash_are_certain_in_bash_only(text: str) -> None:
    assert uncertain_construct(text, is_bash=True) == ""
    assert "which only bash has" in uncertain_construct(text, is_bash=False)


NAMED = {
    "! true && export A=0": "`!`",
    "[[ A=0 -eq 0 ]]": "`[[`",
    "case a in a) b;; esac": "`case`",
    "function f { a; }": "`function`",
    "f() { a; }; f": "the bracket after `f`",
    "a |& b": "the character `|` at character 3",
    "te\\\nst -v A": "a line continuation without a blank beside it",
    "a &\\\n& b": "a line continuation without a blank beside it",
    'a "$\\\nA"': "a line continuation without a blank beside it",
    "(a)": "the character `(` at character 1",
    "a; ((b=1))": "the character `(` at character 4",
    "readonly A": "the command `readonly A`",
    "declare -i A": "the command `declare -i A`",
    "read A": "the command `read A`",
    "let A=1": "the command `let A=1`",
    "printf -v A b": "the command `printf -v A b`",
    "command export A=b": "the command `command export A=b`",
    "builtin export A=b": "the command `builtin export A=b`",
    "export -n A": "the command `export -n A`",
    "export A{,B}=c": "the command `export A{,B}=c`",
    "export $A": "the command `export $A`",
    "export IFS=:": "the command `export IFS=:`",
    "unset 'A[0]'": "the command `unset 'A[0]'`",
    "[ -v A ]": "the command `[ -v A ]`",
    "[ '-v' A ]": "the command `[ '-v' A ]`",
    '[ "$A" "$B" ]': 'the command `[ "$A" "$B" ]`',
    "[ $A = b ]": "the command `[ $A = b ]`",
    "[ -n a -a -v A ]": "the command `[ -n a -a -v A ]`",
    "test -R A": "the command `test -R A`",
    "printf '-v' A b": "the command `printf '-v' A b`",
    "printf $A b": "the command `printf $A b`",
    'printf "$A" b': 'the command `printf "$A" b`',
    "wait -p A": "the command `wait -p A`",
    "wait $A": "the command `wait $A`",
    "IFS=:": "the shell's own variable `IFS`",
    "UID=3": "the shell's own variable `UID`",
    "for PS4 in a; do b; done": "the shell's own variable `PS4`",
    "A=1 eval b": "a variable before `eval`",
    "A=1 export B": "a variable before `export`",
    "export A=b >c": "a redirection of `export`",
    "{ a; } <c": "a redirection of a compound command",
    "{ export A=b; } <c": "`export` after `{`",
    "A=b && : &": "`A=b` in a list with `&`",
    "A=b &": "`A=b` in a list with `&`",
    "export A=b && { :; } &\nvllm serve m": "`export` in a list with `&`",
    "exec vllm serve m && : &\nvllm serve m": "`exec` in a list with `&`",
    "export A=b && if true; then :; fi &": "`export` in a list with `&`",
    "if true; then export A=b; fi &": "`export` in a list with `&`",
    "if true; then export A=b; fi | cat": "`export` in a list with `|`",
    "a | if true; then A=b; fi": "`A=b` in a list with `|`",
    "A=b | cat": "`A=b` in a list with `|`",
    "a | unset A": "`unset` in a list with `|`",
    "export A=b && c || d": "`export` in a list with `||`",
    "a || A=b": "`A=b` in a list with `||`",
    "a b ||\nA=b": "`A=b` in a list with `||`",
    "a || { b; }; c | d e &&\n A=b": "`A=b` in a list with `|`",
    "A=(b) || true": "`A=b` in a list with `||`",
    "shift && :; set -- a && : &": "`set` in a list with `&`",
    "[ -n a ] && shift": "`shift` after `&&`",
    "cd a && set -- b": "`set` after `&&`",
    "if a; then set -e; fi": "`set` after `then`",
    "if export A=b; then c; fi": "`export` after `if`",
    "if a; then b; elif A=b; then c; fi": "`A=b` after `elif`",
    "for i in; do export A; done": "`export` after `do`",
    "while false; do A=b; done": "`A=b` after `do`",
    "while A=b; do c; done": "`A=b` after `while`",
    "if a; then while b; do if c; then export A=b; fi; done; fi": "`export` after `do`",
    "while a; do exec vllm serve m; done": "`exec` after `do`",
    'a "${A[@]:1}"': "the expansion `${A[@]:1}`",
    "A=(b); a ${A[@]:1}": "the expansion `${A[@]:1}`",
    "A=b; a ${A[1]}": "the expansion `${A[1]}`",
    ">a": "a redirection without a command",
    "a >": "a redirection without a file",
    "a 12>b": "a redirection right after `12`",
    "a {B}>c": "a redirection right after `{B}`",
    "a 3>b": "a redirection right after `3`",
    '"A=0" b': 'the command `"A=0"`, whose name depends on quotes or values',
    "A\\=0 b": "the command `A\\=0`, whose name depends on quotes or values",
    "A[0]=b": "the command `A[0]=b`, whose name depends on quotes or values",
    "$A b": "the command `$A`, whose name depends on quotes or values",
    "\\export A=b": "the command `\\export`, whose name depends on quotes or values",
    "a ${B:=c}": "the expansion `${B:=c}`",
    "a ${B:C}": "the expansion `${B:C}`",
    "a ${!B}": "the expansion `${!B}`",
    "a $((B))": "the expansion `$((B))`",
    "a $[B]": "the expansion `$[B]`",
    "A=$'abcdefgh\\x62'; b": "the expansion `$'…`",
    "A=${B:0:abcdefgh}": "the expansion `${B…`",
    "A=${!B}abcdefgh c": "the expansion `${!B}`",
    "A=$((abcdefgh))": "the expansion `$((…`",
    'a $"abcdefgh"': 'the expansion `$"…`',
    'a $"b"': 'the expansion `$"b"`',
    "A=($(b))": "the element `$(b)` of an array",
    "A=(); a ${A+b}": "`${A+b}` of an array",
    "A=(b c); a $A": "`$A` of an array",
    "A=([0]=b)": "the element `[0]=b` of an array",
    "A=(b": "an array that is not closed",
    "a\r\nb": "the character `\\r` at character 2",
    'a "b\rc"': "the text in double quotes at character 3",
    "a \u00a0b": "the character `\\u00a0` at character 3",
}


@table("text", NAMED)
def test_the_first_uncertain_construct_is_named(text: str) -> None:
    assert uncertain_construct(text, is_bash=True) == NAMED[text]


@pytest.mark.parametrize("text", ["vllm serve m --x '$(A)'", "vllm serve $A"])
def test_a_script_with_an_unknown_part_is_not_certain(text: str) -> None:
    found = uncertain_construct(Unknown(text), is_bash=True)
    assert found == "a value that is not known and replaces a part of it before the shell reads it"
