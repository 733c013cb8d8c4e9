"""Scripts that certainly end before vLLM starts, and code of other interpreters that may start it."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from shells import SHELLS
from tables import table

from policy.intake.command.launcher import read_command
from policy.intake.command.vllm_command import NO_START_REMEDY, OPTION_REMEDY, ORDER_REMEDY

if TYPE_CHECKING:
    from policy.errors import RequestFault

PIPELINE = "`false` fails in a pipeline and ends the script, because of `-e`, before it starts vLLM"
ENDS = "`false` fails and ends the script, because of `-e`, before it starts vLLM"
CODE = "runs code that is not read"


def read(script: str) -> tuple[list[str], list[str], list[str]]:
    """vLLM's words in a script, its doubts, and the faults."""
    return read_words(["bash", "-c", script])


def read_words(words: list[str]) -> tuple[list[str], list[str], list[str]]:
    """The same for a command."""
    faults: list[RequestFault] = []
    found = read_command(words, ["a"] * len(words), {}, faults, "")
    return found.words, found.doubts, [fault.message for fault in faults]


@table(
    "command",
    [
        *("env -0 SERVE", "env --null SERVE", "env --nu A=b SERVE", "env -i0 SERVE", "env -0u A SERVE"),
        *("env -C / -0 SERVE", "env -0 -S 'SERVE'", "exec env -0 SERVE", "nohup env -0 SERVE"),
        "env -0 python3 -m vllm.entrypoints.openai.api_server --model a/b",
    ],
)
def test_env_that_refuses_to_start_a_program_starts_no_server(command: str) -> None:
    assert read(command.replace("SERVE", "vllm serve a/b")) == (
        [],
        [],
        ["`env` starts no program with its option `-0`, so nothing starts it; remove what comes before"],
    )


@table(
    ("command", "why"),
    [
        *((f"env A=1 {word} SERVE", word) for word in ("--", "-", "-i", "-0")),
        *(("env A=1 -u B SERVE", "-u"), ("env -i A=1 -C / SERVE", "-C"), ("env -S 'A=1 -- SERVE'", "--")),
        *(("env -- -i SERVE", "-i"), ("env - -i SERVE", "-i"), ("env -u B -- A=1 -- SERVE", "--")),
    ],
)
def test_env_takes_a_word_after_its_operands_for_the_program(command: str, why: str) -> None:
    message = f"`env` takes `{why}` for the program, as no option may come there, {NO_START_REMEDY}"
    assert read(command.replace("SERVE", "vllm serve a/b")) == ([], [], [message])


@table(
    ("command", "name"),
    [
        *(("env -u '' SERVE", ""), ("env --unset= SERVE", ""), ("env --uns '' SERVE", "")),
        *(
            ("env -u A=B SERVE", "A=B"),
            ("env -uA=B SERVE", "A=B"),
            ("env -iu =A SERVE", "=A"),
            ("env --unset=A=B SERVE", "A=B"),
        ),
    ],
)
def test_env_that_cannot_unset_a_variable_starts_no_server(command: str, name: str) -> None:
    assert read(command.replace("SERVE", "vllm serve a/b")) == (
        [],
        [],
        [f"`env` cannot unset a variable with the name `{name}`, so nothing starts it; remove what comes before"],
    )


@table(
    "command",
    [
        *("env -u A0 SERVE", "env -C /0 SERVE", "env -0; SERVE", "env -0 x; SERVE", "env -i -- A=1 SERVE"),
        *("env -u A -- SERVE", "env - A=1 SERVE", "env -- A=1 B=2 SERVE", "env -S 'A=1 SERVE'", "env A=-- SERVE"),
    ],
)
def test_env_that_starts_its_program_starts_the_server(command: str) -> None:
    assert read(command.replace("SERVE", "vllm serve a/b")) == (["a/b"], [], [])


@table(
    ("script", "why"),
    [
        ("exit 0; vllm serve a/b", "`exit 0` ends the script before it starts vLLM"),
        ("exit\nvllm serve a/b", "`exit` ends the script before it starts vLLM"),
        ("exit $X && vllm serve a/b", "`exit $X` ends the script before it starts vLLM"),
        ("export A=1; exit 3; cd /x && vllm serve a/b", "`exit 3` ends the script before it starts vLLM"),
        ("exec nginx -g x; vllm serve a/b", "`exec nginx` ends the script before it starts vLLM"),
        *(
            (f"{block}; vllm serve a/b", "`exit 3` ends the script before it starts vLLM")
            for block in (
                *("{ exit 3; }", "if true; then exit 3; fi", "if exit 3; then x; fi", "if ! false; then exit 3; fi"),
                *("if false; then x; else exit 3; fi", "if false; then x; elif true; then exit 3; else x; fi"),
                *("{ { x; exit 3; }; x; }", "true && { exit 3; }", "{ if :; then exit 3; fi; } && x", "! { exit 3; }"),
                *("{ x | y; { exit 3; } || x; }", "if x; then y; fi; { exit 3; }", "{ x & }; { exit 3; }"),
            )
        ),
        ("{ exec nginx; }; vllm serve a/b", "`exec nginx` ends the script before it starts vLLM"),
        ("false && vllm serve a/b", "the command after `false &&` never runs"),
        ("false && x && vllm serve a/b", "the command after `false &&` never runs"),
        ("true || vllm serve a/b", "the command after `true ||` never runs"),
        ("trap '' TERM || vllm serve a/b", "the command after `trap ||` never runs"),
        ("trap 'exit 1' INT TERM || x || vllm serve a/b", "the command after `trap ||` never runs"),
        ("trap - TERM || vllm serve a/b", "the command after `trap ||` never runs"),
        (": || x || vllm serve a/b", "the command after `: ||` never runs"),
        ("set -e; false; vllm serve a/b", ENDS),
        ("set -e; true | false; vllm serve a/b", PIPELINE),
        ("set -e; x | y |& false\nvllm serve a/b", PIPELINE),
        ("set -euo pipefail; false | true; vllm serve a/b", PIPELINE),
        ("set -e -o pipefail; x | false | tee y >z; cd /x && vllm serve a/b", PIPELINE),
        ("set -euo pipefail\nfalse\nvllm serve a/b", ENDS),
        ("set -o errexit; true && false; vllm serve a/b", ENDS),
        ("set +e; set -e; x || true; false; vllm serve a/b", ENDS),
        *(
            (f"set -e; {test}; vllm serve a/b", ENDS.replace("false", test))
            for test in ("[ 1 = 2 ]", "[ ]", "test a = b", "[ -z x ]", "[ a != a ]", "[ 1 -eq 2 ]")
        ),
        ("[ 1 = 2 ] && vllm serve a/b", "the command after `[ 1 = 2 ] &&` never runs"),
        ("test x || vllm serve a/b", "the command after `test x ||` never runs"),
        ("if [ -n '' ]; then vllm serve a/b; fi", "the commands after `if [ -n  ]` never run"),
    ],
)
def test_a_script_that_certainly_ends_before_starts_nothing(script: str, why: str) -> None:
    assert read(script) == ([], [], [f"{why}, so nothing starts it; remove what comes before"])


@table(
    "script",
    [
        *("trap '' TERM && vllm serve a/b", "trap '' TERM; vllm serve a/b"),
        *("false || vllm serve a/b", "true && vllm serve a/b", "true || x && vllm serve a/b"),
        *("false && x || vllm serve a/b", "false; vllm serve a/b", "false & vllm serve a/b"),
        *("exit 1 | cat; vllm serve a/b", "[ -f x ] && exit 1; vllm serve a/b", "x || exit 1; vllm serve a/b"),
        *("if [ -f x ]; then exit 1; fi; vllm serve a/b", "false | true && vllm serve a/b"),
        *("while true; do exit 0; done; vllm serve a/b", "exec >log; vllm serve a/b", "vllm serve a/b; exit 1"),
        *(
            f"{block}; vllm serve a/b"
            for block in (
                *("{ exit 3; } | x", "x | { exit 3; }", "x && { exit 3; }", "{ x && exit 3; }"),
                *("{ { exit 3; }; } | x", "{ { exit 3; } | x; }", "if x; then { exit 3; }; fi"),
                *("if x; then exit 3; fi", "if x; then y; else exit 3; fi", "if true; then x; else exit 3; fi"),
                *("if x; then y; elif true; then exit 3; fi", "if true && x; then exit 3; fi"),
                *("if true; then x; fi || { exit 3; }", "for i in a; do { exit 3; }; done"),
            )
        ),
        *("exec vllm serve a/b; vllm serve c/d", "false && vllm serve c/d; vllm serve a/b"),
        *("set -e; false || true; vllm serve a/b", "set -e; false & vllm serve a/b"),
        *(
            "set -e; false && x; vllm serve a/b",
            "set -e; false | true; vllm serve a/b",
            "set +e; false; vllm serve a/b",
        ),
        "set -e; set +e; false; vllm serve a/b",
        *("set -e; if false; then x; fi; vllm serve a/b", "set -e; x && false; vllm serve a/b"),
        *("set -e; false | true || x; vllm serve a/b", "set -e; false | x && y; vllm serve a/b"),
        *(
            "set -eo pipefail; if false | true; then x; fi; vllm serve a/b",
            "set -o pipefail; false | x; vllm serve a/b",
        ),
        *("set -eo pipefail; set +o pipefail; false | x; vllm serve a/b", "set -e; false | false & vllm serve a/b"),
        *("set -e; false | x; true | x; vllm serve a/b", "set -eo pipefail; x | y; vllm serve a/b | tee z"),
        *("set -e; [ 1 = 1 ]; vllm serve a/b", "set -e; [ -f x ]; vllm serve a/b", "[ 1 = 2 ]; vllm serve a/b"),
        *('A=; [ -n "$A" ] || vllm serve a/b', 'set -e; [ "$(x)" = 1 ]; vllm serve a/b'),
        *('set -e; [ "${A:-0}" = 1 ]; vllm serve a/b', "set -e; [ 1 = 2 ] || vllm serve a/b"),
        *("set -e; [ 1 -eq x ] || vllm serve a/b", "[ ! x ] || vllm serve a/b"),
        *("vllm serve a/b; set -e; false", "set -e; while false; do x; done; vllm serve a/b"),
    ],
)
def test_a_script_that_may_reach_vllm_starts_it(script: str) -> None:
    assert read(script) == (["a/b"], [], [])


@table(
    "block",
    [
        *("{ exit 3; } & wait", "{ { exit 3; } && x & }", "{ exit 3; } && x & wait", "{ exit 3; } >/x/y", "(exit 3)"),
        *("if true; then exit 3; fi 2>/x/y", "if true; then (exit 3); fi", "f() { { exit 3; }; }"),
        *("(x; y) | exit 3", "(x; y) |\nexit 3", "(x) | { exit 3; }", "{ (x) | exit 3; }"),
        *("f() if true; then exit 3; fi", "exit() { x; }; { exit 3; }", "case a in b) { exit 3; };; esac"),
    ],
)
def test_a_block_that_may_not_end_the_script_does_not(block: str) -> None:
    words, _, faults = read(f"{block}; vllm serve a/b")
    assert (words, faults) == (["a/b"], [])


@table(
    "script",
    [
        *(
            "set -u; unset A; echo $A; SERVE",
            "unset A; set -u; export B=$A; SERVE",
            "set -o nounset; unset A; x ${A}; SERVE",
        ),
        *(
            "set -euo pipefail; unset B A; cd ${A%/} && SERVE",
            'set -u; unset A; [ "${#A}" ]; SERVE',
            "set -u; unset A; SERVE $A",
        ),
    ],
)
def test_a_variable_that_is_not_set_may_end_a_script(script: str) -> None:
    words, doubts, faults = read(script.replace("SERVE", "vllm serve a/b"))
    assert words[:1] == ["a/b"]
    assert doubts == ["`$A` is not set, which ends the script because of `-u`"]
    assert faults == []


@pytest.mark.parametrize("options", [["-uc"], ["-euo", "pipefail", "-c"], ["-o", "nounset", "-c"]])
def test_an_option_of_the_shell_doubts_a_script_that_uses_a_variable_that_is_not_set(options: list[str]) -> None:
    words = ["bash", *options, "unset A; echo $A; vllm serve a/b"]
    found = read_command(words, ["a"] * len(words), {}, [], "")
    assert (found.words, found.doubts) == (["a/b"], ["`$A` is not set, which ends the script because of `-u`"])


@table(
    "script",
    [
        *(
            "unset A; echo $A; SERVE",
            "set -u; unset A; echo ${A:-x} ${A+x} ${A-}; SERVE",
            "set -u; unset A; A=1; x $A; SERVE",
        ),
        *("set -u; set +u; unset A; x $A; SERVE", "set -u; unset B; x $A; SERVE", "set -u; unset A; SERVE; x $B"),
        "set -u; unset A; export A=1 B=2; x $A; SERVE",
    ],
)
def test_a_variable_that_may_be_set_ends_no_script(script: str) -> None:
    assert read(script.replace("SERVE", "vllm serve a/b")) == (["a/b"], [], [])


@pytest.mark.parametrize(
    ("script", "construct"),
    [
        ("exit 1 & vllm serve a/b", "`exit` in a list with `&`"),
        ("set -e | x; false; vllm serve a/b", "`set` in a list with `|`"),
        ("[ -f x ] && set -e; false; vllm serve a/b", "`set` after `&&`"),
        ("set -e; [ -f x ] && set +e; false; vllm serve a/b", "`set` after `&&`"),
    ],
)
def test_a_script_that_may_reach_vllm_starts_it_with_a_doubt(script: str, construct: str) -> None:
    assert read(script) == (["a/b"], [f"the script has {construct}; a shell may interpret it differently"], [])


@pytest.mark.parametrize("options", [["-eo", "pipefail", "-c"], ["-e", "-o", "pipefail", "-c"]])
def test_an_option_of_the_shell_ends_a_script_with_a_pipeline_that_fails(options: list[str]) -> None:
    faults: list[RequestFault] = []
    words = ["bash", *options, "false | true; vllm serve a/b"]
    assert read_command(words, ["a"] * len(words), {}, faults, "").words == []
    assert [PIPELINE in fault.message for fault in faults] == [True]
    words = ["bash", *options, "set +o pipefail; false | true; vllm serve a/b"]
    assert read_command(words, ["a"] * len(words), {}, [], "").words == ["a/b"]


@pytest.mark.parametrize("options", [["-ec"], ["-e", "-c"], ["-euxc"], ["-o", "errexit", "-c"], ["+e", "-ec"]])
def test_an_option_of_the_shell_ends_a_script_that_fails(options: list[str]) -> None:
    faults: list[RequestFault] = []
    words = ["sh", *options, "false; vllm serve a/b"]
    found = read_command(words, ["a"] * len(words), {}, faults, "")
    (fault,) = faults
    assert (found.words, ENDS in fault.message) == ([], True)
    assert read_command([*words[:-1], "set +e; false; vllm serve a/b"], ["a"] * len(words), {}, [], "").words == ["a/b"]


@table(
    "script",
    [
        *("(exit 1); vllm serve a/b", "exec {fd}>x; vllm serve a/b", "exec $X; vllm serve a/b"),
        *("exit() { :; }; exit 0; vllm serve a/b", "f() { exit 0; }; vllm serve a/b", "! false && vllm serve a/b"),
        "set -e; ! true | false; vllm serve a/b",
        *("(set -e); false; vllm serve a/b", "set -e; ! true; vllm serve a/b"),
    ],
)
def test_what_may_not_end_a_script_is_in_doubt(script: str) -> None:
    words, doubts, faults = read(script)
    assert (words, len(doubts), faults) == (["a/b"], 1, [])


@table(
    "script",
    [
        """perl -e 'exec("vllm","serve","a/b")'""",
        """perl -we 'exec("v" . "llm", "serve")'""",
        """ruby -e 'system("vllm", "serve", "a/b")'""",
        """node --eval='require("child_process").spawn("vllm",["serve"])'""",
        """awk 'BEGIN { system("v" "llm serve a/b") }'""",
        """gawk 'BEGIN { "vllm serve a/b" | getline }'""",
        """lua5.4 -e 'os.execute("vllm"); io.popen("vllm serve")'""",
        """php -r 'exec("vllm");'""",
        """python3 -c 'import os; os.execvp("v" + "llm", [])'""",
    ],
)
def test_code_that_may_start_vllm_is_not_read(script: str) -> None:
    words, _, (fault,) = read(script)
    assert (words, CODE in fault) == ([], True)
    words, (doubt,), faults = read(f"{script}; vllm serve a/b")
    assert (words, CODE in doubt, faults) == (["a/b"], True, [])


@pytest.mark.parametrize(
    "command",
    [
        *("nvidia-smi | awk '/vllm/ {print $1}'", "perl -pi -e 's/vllm/x/' file", "ruby -e 'puts 1'", "node --version"),
        """python3 -c 'import json; print(json.load(open("x")))'""",
    ],
)
def test_other_code_gives_no_doubt(command: str) -> None:
    assert read(f"{command}; vllm serve a/b") == (["a/b"], [], [])


NEVER = [
    "while false; do SERVE; done",
    "until true; do SERVE; done",
    "if false; then SERVE; fi",
    "if true; then :; else SERVE; fi",
    "for i; do SERVE; done",
    "for i in; do SERVE; done",
    "while ! true; do SERVE; done",
    "if false\n\nthen\nSERVE\nfi",
    "if true; then if false; then SERVE; fi; fi",
    "if false; then if true; then SERVE; fi; fi",
    "if false; then while true; do SERVE; break; done; fi",
    "if true && false; then SERVE; fi",
    "if false || false; then SERVE; fi",
    "if true; false; then SERVE; fi",
    "if true; then :; elif true; then SERVE; fi",
    "if true; then :; elif false; then :; else SERVE; fi",
    "E=; for i in $E; do SERVE; done",
    "if time false; then SERVE; fi",
    "if false; then f() { SERVE; }; fi; f",
    "if false && x; then SERVE; else :; fi",
    "(while false; do SERVE; done)",
    "while true; false; do SERVE; done",
    "for i in a; do if false; then SERVE; fi; done",
    "for i in $@; do SERVE; done",
]
ONCE = [
    "if false; then :; elif true; then SERVE; fi",
    "for i in ''; do SERVE; done",
    "while true; do SERVE; break; done",
    "if ! false; then SERVE; fi",
    "if false; then x=1; else SERVE; fi",
    "if true || false; then SERVE; fi",
    "if false; A=1; then SERVE; fi",
    "if false; >/dev/null; then SERVE; fi",
    "if false; ((1)); then SERVE; fi",
    "if false; [ 1 = 1 ]; then SERVE; fi",
    "if false; true; then SERVE; fi",
    "if false; then :; elif false; then SERVE; else SERVE; fi",
    "for i\nin a\ndo SERVE; done",
    "f() { for i; do SERVE; done; }; f a",
    "set -- a; for i; do SERVE; done",
    "if false; then SERVE; fi; SERVE",
    "while false; do SERVE; done; if true; then SERVE; fi",
    "case x in x) SERVE;; esac",
    "if false; then :; fi; if [ a = a ]; then SERVE; fi",
    "while false; do :; done; for i in a; do SERVE; done",
    "false() { true; }; if false; then SERVE; fi",
    "until false; do SERVE; break; done",
    "if ! true; then :; else SERVE; fi",
    "if true; then SERVE; else :; fi",
    "if false; if true; then :; fi; then SERVE; fi",
    "if if false; then true; fi; then SERVE; fi",
    "if ! ! true; then SERVE; fi",
    "if false ; then echo; fi && SERVE",
    "true; if [ a ]; then SERVE; fi",
    "false; while [ a ]; do SERVE; break; done",
    "if false; then SERVE; else if true; then SERVE; fi; fi",
    "if $(exit 0); then SERVE; fi",
    "if false; $(true); then SERVE; fi",
    "if false; function g { :; }; then SERVE; fi",
    "if false; a[0]=1; then SERVE; fi",
    "if false; export A=1; then SERVE; fi",
    "if false; set -- a; then SERVE; fi",
    "for i in $(echo a); do SERVE; done",
    "if false; coproc x; then SERVE; fi",
]


@table("script", [*NEVER, *ONCE])
def test_a_branch_or_loop_that_certainly_never_runs_starts_nothing(script: str) -> None:
    text = "vllm() { echo started; }\n" + script.replace("SERVE", "vllm serve a/b")
    done = subprocess.run(["bash", "-c", text], capture_output=True, text=True, check=False, stdin=subprocess.DEVNULL)
    assert ("started" in done.stdout) is (script in ONCE)
    assert bool(read(script.replace("SERVE", "vllm serve a/b"))[0]) is (script in ONCE)


@table(
    ("script", "what"),
    [
        ("while false; do SERVE; done", "while false"),
        ("until ! false; do SERVE; done", "until ! false"),
        ("if false; then SERVE; fi", "if false"),
        ("if x; then :; elif false; then SERVE; fi", "elif false"),
        ("if true; then :; elif x; then SERVE; fi", "elif"),
        ("if :; then x; else SERVE; fi", "else"),
        ("for i; do SERVE; done", "for i"),
        ("for i in; do SERVE; done", "for i in"),
    ],
)
def test_what_keeps_a_branch_or_loop_from_running_is_named(script: str, what: str) -> None:
    never = f"the commands after `{what}` never run, so nothing starts it; remove what comes before"
    assert read(script.replace("SERVE", "vllm serve a/b")) == ([], [], [never])


@pytest.mark.parametrize(
    "script",
    ["if (false); then SERVE; fi", "if true | false; then SERVE; fi", "if $X; then SERVE; fi", "for i\ndo SERVE; done"],
)
def test_a_branch_or_loop_that_may_run_starts_the_server(script: str) -> None:
    assert read(script.replace("SERVE", "vllm serve a/b"))[0] == ["a/b"]


WITHOUT_PIPEFAIL = "a `sh` such as dash has no option `pipefail`, and ends the script there"


@table(
    ("words", "doubts"),
    [
        (["sh", "-c", "set -euo pipefail; exec vllm serve a/b"], [WITHOUT_PIPEFAIL]),
        (["/bin/dash", "-c", "set -e\nset -o pipefail\nvllm serve a/b"], [WITHOUT_PIPEFAIL]),
        (["sh", "-c", "set +o pipefail; vllm serve a/b"], [WITHOUT_PIPEFAIL]),
        (["/bin/sh", "-euo", "pipefail", "-c", "vllm serve a/b"], [WITHOUT_PIPEFAIL]),
        (["sh", "-o", "pipefail", "-c", "set -o pipefail; vllm serve a/b"], [WITHOUT_PIPEFAIL]),
        (["bash", "-c", "sh -c 'set -o pipefail; vllm serve a/b'"], [WITHOUT_PIPEFAIL]),
        *(
            (["sh", "-c", f"set {word}; vllm serve a/b"], [WITHOUT_PIPEFAIL.replace("pipefail", option)])
            for word, option in (
                *(("-h", "-h"), ("+B", "-B"), ("-eT", "-T"), ("-H", "-H"), ("-o errtrace", "errtrace")),
                *(("-o braceexpand", "braceexpand"), ("+o hashall", "hashall"), ("-eo hashall", "hashall")),
            )
        ),
        (["sh", "-c", "exec -- vllm serve a/b"], ["only bash has options of `exec`, and the shell may be another one"]),
        (["bash", "-c", "exec -- vllm serve a/b"], []),
        (["bash", "-c", "set -hB -o errtrace; vllm serve a/b"], []),
        (["sh", "-c", "set -abCeEfuvx -o noglob; vllm serve a/b"], []),
        (["sh", "-c", "set -eu; vllm serve a/b"], []),
        (["sh", "-c", "bash -c 'set -o pipefail; vllm serve a/b'"], []),
        (["bash", "-euo", "pipefail", "-c", "set -o pipefail; vllm serve a/b"], []),
    ],
)
def test_a_shell_that_may_not_have_pipefail_may_end_the_script(words: list[str], doubts: list[str]) -> None:
    found = read_command(words, ["a"] * len(words), {}, [], "")
    assert (found.words, found.doubts) == (["a/b"], doubts)


STATUSES = [
    *(
        "[ 1 = 2 ]",
        "[ 1 = 1 ]",
        "[ a != b ]",
        "[ a != a ]",
        "[ ]",
        "[ x ]",
        "[ '' ]",
        "[ -n x ]",
        "[ -n '' ]",
        "[ -z '' ]",
    ),
    *(
        "[ -z x ]",
        "[ 1 -eq 1 ]",
        "[ 1 -eq 2 ]",
        "[ 2 -gt 1 ]",
        "[ 2 -ge 3 ]",
        "[ 1 -lt 2 ]",
        "[ 3 -le 2 ]",
        "[ 1 -ne 1 ]",
    ),
    *("test a = a", "test", "test x", "test -n", "test 01 -eq 1", "test -1 -lt 0"),
]


@table("shell", ["bash", "dash"])
@table("command", STATUSES)
def test_a_known_test_succeeds_as_in_a_shell(shell: str, command: str) -> None:
    succeeds = subprocess.run([shell, "-c", command], check=False).returncode == 0
    joiner = "&&" if succeeds else "||"
    assert read(f"{command} {joiner} vllm serve a/b")[0] == ["a/b"]
    other = "||" if succeeds else "&&"
    assert read(f"{command} {other} vllm serve a/b")[0] == []


@table(
    ("program", "why"),
    [
        ("stdbuf", "`stdbuf` starts nothing without the mode of a stream"),
        *(
            (f"chrt {options}", "`chrt` starts nothing with the priority `{}`")
            for options in ("0", "100", "-r 0", "-f 0")
        ),
        *(
            (f"chrt {options}", "`chrt` starts nothing with the priority `{}`")
            for options in ("-b 5", "-o 1", "-i 3", "-v -o 9", "-fb 5", "-o -r 0")
        ),
    ],
)
def test_a_launcher_that_refuses_its_options_starts_no_server(program: str, why: str) -> None:
    message = f"{why.format(program.rsplit(maxsplit=1)[-1])}, {NO_START_REMEDY}"
    for before in ("", "nice ", "env A=1 "):
        assert read(f"{before}{program} vllm serve a/b") == ([], [], [message])
    done = subprocess.run([*program.split(), "true"], check=False, capture_output=True)
    assert done.returncode


@table(
    "program",
    [
        *("stdbuf -oL", "stdbuf -i0 -e0", "stdbuf --output=L", "stdbuf -o L", "chrt 1", "chrt 99", "chrt -f 50"),
        *("chrt -o 0", "chrt -b 0", "chrt -i 0", "chrt -rR 5", "chrt --batch 0", "chrt -vb 0", "chrt --other 0"),
        *("chrt -bf 5", "chrt -b -f 5", "chrt -r -o 0", "chrt -- 5"),
    ],
)
def test_a_launcher_with_its_options_starts_the_server(program: str) -> None:
    assert read(f"{program} vllm serve a/b") == (["a/b"], [], [])


@pytest.mark.parametrize("option", ["-a x", "-l", "-c", "-cl"])
def test_only_bash_has_options_of_exec(option: str) -> None:
    doubt = "only bash has options of `exec`, and the shell may be another one"
    for shell, is_doubted in (("sh", True), ("bash", False)):
        words = [shell, "-c", f"exec {option} vllm serve a/b"]
        found = read_command(words, ["a"] * 3, {}, [], "")
        assert (found.words, doubt in found.doubts) == (["a/b"], is_doubted)


SHIFTED = "`shift` takes more arguments than there are, which ends the script"


@table(
    ("words", "is_ended"),
    [
        (["sh", "-c", "shift; SERVE"], True),
        (["sh", "-c", "shift 2; SERVE", "x", "1"], True),
        (["sh", "-c", "shift; SERVE", "x", "1"], False),
        (["sh", "-c", "shift 0; SERVE"], False),
        (["bash", "-c", "shift; SERVE"], False),
        (["bash", "-ec", "shift; SERVE"], True),
        (["bash", "-c", "set -e; shift 3; SERVE", "x", "1", "2"], True),
        (["sh", "-c", "set -- a b; shift 2; SERVE"], False),
        (["sh", "-c", "set -- $A; shift 2; SERVE"], False),
    ],
)
def test_shift_beyond_the_arguments_ends_a_script(words: list[str], *, is_ended: bool) -> None:
    words = [word.replace("SERVE", "vllm serve a/b") for word in words]
    found = read_command(words, ["a"] * len(words), {}, [], "")
    assert (found.words[:1], SHIFTED in found.doubts) == (["a/b"], is_ended)
    if "$A" not in words[2]:
        started = [word.replace("vllm serve a/b", "echo x") for word in words]
        shell = "dash" if words[0] == "sh" else "bash"
        done = subprocess.run([shell, *started[1:]], check=False, capture_output=True, text=True)
        assert (done.stdout == "") == is_ended


LONG_OPTIONS = ["-c --model=m", "-e -c --norc", "-c --login", "-o pipefail --posix -c", "-ec --help", "--m -c"]
"""Options of which bash and dash refuse the long one."""


@pytest.mark.parametrize("shell", ["bash", "sh", "dash", "/bin/bash"])
@pytest.mark.parametrize("options", LONG_OPTIONS)
def test_a_shell_that_refuses_a_long_option_starts_no_server(shell: str, options: str) -> None:
    refused = next(word for word in options.split() if word.startswith("--"))
    is_of_bash = shell.endswith("bash") and refused in {"--norc", "--login", "--posix"}
    message = f"`{shell}` starts nothing with the option `{refused}`, {ORDER_REMEDY if is_of_bash else OPTION_REMEDY}"
    assert read_words([shell, *options.split(), "vllm serve a/b"]) == ([], [], [message])
    assert read(f"{shell} {options} 'vllm serve a/b'") == ([], [], [message])
    assert read(f"{shell} {options} 'echo a'; vllm serve a/b")[::2] == (["a/b"], [])


@pytest.mark.parametrize("option", ["--login", "--norc", "--posix", "--help"])
def test_dash_refuses_a_long_option_also_before_the_others(option: str) -> None:
    message = f"`dash` starts nothing with the option `{option}`, {OPTION_REMEDY}"
    assert read_words(["dash", option, "-c", "vllm serve a/b"]) == ([], [], [message])
    if shutil.which("dash"):
        words = ["dash", option, "-c", "echo started"]
        done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
        assert done.returncode
        assert b"started" not in done.stdout


@pytest.mark.parametrize("options", ["--norc -c", "-c --", "-c -", "-o errexit -c", "-norc -c"])
def test_a_shell_with_long_options_before_the_others_starts_a_server(options: str) -> None:
    assert read_words(["bash", *options.split(), "vllm serve a/b"])[::2] == (["a/b"], [])


@pytest.mark.parametrize("shell", SHELLS)
@pytest.mark.parametrize("options", LONG_OPTIONS)
def test_the_shells_of_this_machine_refuse_a_long_option_after_the_others(shell: str, options: str) -> None:
    words = [shell, *options.split(), "echo started"]
    done = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, check=False, timeout=60)
    assert done.returncode
    assert b"started" not in done.stdout
