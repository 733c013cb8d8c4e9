"""A script is read as bash and sh run it, or it is in doubt: both run it, with a fake `vllm`."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from representatives import slow_except, slow_rows_except
from shells import DESCRIPTOR, SHELLS, lines_of

from policy.intake.command.launcher import read_command
from policy.intake.command.words import Pattern, Unknown

if TYPE_CHECKING:
    from policy.errors import RequestFault

ARGUMENTS = ["name", "a b", "--c"]
ENV = {"E": "e f", "EM": "", "HOME": "/root", "PS1": "0", "PS2": "0"}
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
PRINTS = f"""#!{sys.executable} -IS
import json, os, sys
os.write({DESCRIPTOR}, (json.dumps([sys.argv[2:], os.environ.get("{VARIABLE}")]) + "\\n").encode())
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a program `vllm` that prints its arguments, and files that globs find."""
    folder = tmp_path_factory.mktemp("oracle")
    (folder / "bin").mkdir()
    program = folder / "bin" / "vllm"
    program.write_text(PRINTS, encoding="utf-8")
    program.chmod(0o755)
    work = folder / "work"
    work.mkdir()
    for name in ("--enable-dbo", "a", "b", "x"):
        (work / name).touch()
    (work / "env").write_text(f"A=sourced\nexport {VARIABLE}=5\n", encoding="utf-8")
    return folder


def started(shell: str, script: str, folder: Path) -> list[list[object]]:
    """The arguments and the variable of each `vllm serve` that a shell runs."""
    env = {**ENV, "PATH": f"{folder / 'bin'}:{os.defpath}"}
    return [json.loads(line) for line in lines_of(shell, script, folder / "work", env, folder / "output", ARGUMENTS)]


def certain(shell: str, script: str) -> tuple[list[str], str | None] | None:
    """The arguments and the variable that are read from a script; None if they are in doubt."""
    faults: list[RequestFault] = []
    words = [shell, "-c", script, *ARGUMENTS]
    line = read_command(words, [""] * len(words), ENV, faults, "")
    is_open = any(type(word) in {Unknown, Pattern} for word in line.words)
    value = line.env.get(VARIABLE)
    may_be_set = VARIABLE in line.env and value is None and VARIABLE not in line.removed
    return None if faults or line.doubts or is_open or may_be_set else (line.words, value)


def check(script: str, folder: Path) -> None:
    """Check that a script is read as each shell runs it."""
    for shell in SHELLS:
        found = certain(shell, script)
        if found is not None:
            runs = [run for run in started(shell, script, folder) if run[0] != ["m", "--help"]]
            assert (shell, script, [run for run in runs if run != list(found)]) == (shell, script, [])


SCRIPTS = Path(__file__).with_name("scripts.txt").read_text(encoding="utf-8").split("\n%%\n")


@pytest.mark.parametrize("script", slow_except(SCRIPTS[::6], SCRIPTS))
def test_a_script_is_read_as_shells_run_it_or_is_in_doubt(script: str, folder: Path) -> None:
    check(script.strip("\n"), folder)


VALUES = st.sampled_from(
    [
        *("1", "'a b'", "--d", "$A", '"$A"', "${B-x y}", '"${B:+z}"', "${PATH:+--d}", "{a,b}", "*", "~", "$(echo q)"),
        *(
            "$E",
            '"$@"',
            "$@",
            "$*",
            "b",
            "'{'",
            "$1",
            "a$B",
            "'*'",
            "\"$(echo ')' '(')\"",
            "${A:=w}",
            "${#A}",
            "--p:80:--d",
            "${E%f}",
            "$'x'",
        ),
        *('"${A[@]}"', '"${A[@]:1}"', '"${A[1]}"', "${A[@]:1}"),
    ]
)
NAMES = st.sampled_from(["A", "B", "IFS", "E", VARIABLE])
ASSIGNMENTS = st.builds("{}={}".format, NAMES, VALUES)
SIMPLE = st.one_of(
    ASSIGNMENTS,
    st.builds("export {}".format, ASSIGNMENTS),
    st.builds("export {}".format, NAMES),
    st.builds("{}+={}".format, NAMES, VALUES),
    st.builds("A=({} {})".format, VALUES, VALUES),
    st.builds("set -- {} {}".format, VALUES, VALUES),
    st.builds("read {} <env".format, NAMES),
    st.builds("printf -v {} %s {}".format, NAMES, VALUES),
    st.builds("eval {}".format, ASSIGNMENTS),
    st.builds("{} true".format, ASSIGNMENTS),
    st.builds("{} :".format, ASSIGNMENTS),
    st.builds("{} f".format, ASSIGNMENTS),
    st.sampled_from(
        ["shift", "set -a", "set +a", "unset A", ". ./env", "true", "false", "f", "set -f", "alias f=true"]
    ),
    st.builds("{} vllm serve m {}".format, ASSIGNMENTS, VALUES),
    st.builds("vllm serve m {} {}".format, VALUES, VALUES),
    st.just("vllm serve m --help"),
)
COMMANDS = st.recursive(
    SIMPLE,
    lambda inner: st.one_of(
        st.builds("{}\n{}".format, inner, inner),
        st.builds("{} && {}".format, inner, inner),
        st.builds("{} || {}".format, inner, inner),
        st.builds("{} &\n{}".format, inner, inner),
        st.builds("{} && {} &\n".format, inner, inner),
        st.builds("{} || {} &\n".format, inner, inner),
        st.builds("while {}; do {}; break; done".format, inner, inner),
        st.builds("{{ {}; }}".format, inner),
        st.builds("({})".format, inner),
        st.builds("{{ {}; }} | cat".format, inner),
        st.builds("f() {{ {}; }}".format, inner),
        st.builds("if {}; then {}; fi".format, inner, inner),
        st.builds("if {}; then {}; else {}; fi".format, inner, inner, inner),
        st.builds("if {}; then {}; elif {}; then {}; fi".format, inner, inner, inner, inner),
        st.builds("for B in {}; do {}; done".format, VALUES, inner),
        st.builds("case $A in 1) {};; *) {};; esac".format, inner, inner),
    ),
    max_leaves=4,
)


@pytest.mark.skipif("bash" not in SHELLS, reason="compares with bash")
@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(COMMANDS, max_size=3), VALUES, VALUES)
def test_any_script_is_read_as_shells_run_it_or_is_in_doubt(
    folder: Path, before: list[str], first: str, second: str
) -> None:
    check("\n".join([*before, f"vllm serve m {first} {second} $A"]), folder)


CHANGES = st.lists(
    st.one_of(
        st.builds("{}={}".format, st.sampled_from(["A", VARIABLE]), st.sampled_from(["0", "1", "", "$E"])),
        st.builds("export {}".format, st.sampled_from(["A=2", f"{VARIABLE}=0", VARIABLE, f"-n {VARIABLE}"])),
        st.builds("unset {}".format, st.sampled_from(["A", VARIABLE])),
        st.builds(
            str.format,
            st.sampled_from(["({})", "{{ {}; }}", "true && {}", "false || {}", "{} && true", "{} &", "true | {}"]),
            st.builds("{}={}".format, st.sampled_from(["A", VARIABLE]), st.sampled_from(["0", "1"])),
        ),
    ),
    max_size=2,
)
"""Commands that change values of variables, or whether they are exported."""
STARTS = st.sampled_from(["vllm serve m $A", """sh -c 'vllm serve m "$A"'""", "sh -c 'vllm serve m'"])
CONDITIONS = st.lists(
    st.tuples(
        st.sampled_from([" && ", " || ", "; "]),
        st.sampled_from(
            ["test -f /missing", "test -d /", "! test -d /", "{ false; }", "true </missing", "true", "false"]
        ),
    ),
    min_size=1,
    max_size=3,
).map(lambda parts: "".join(f"{joiner}{command}" for joiner, command in parts).lstrip(" &|;"))
SETS = st.lists(
    st.builds(
        "{}{}".format,
        st.sampled_from(["", "", "test -f /missing && ", "true && "]),
        st.sampled_from(
            [
                *("A=0", f"{VARIABLE}=0", f"export {VARIABLE}=0", f"export {VARIABLE}", "A=1"),
                *(f"unset {VARIABLE}", f"{VARIABLE}=1", f"export {VARIABLE}=1", "A=(x)", "A+=(y)"),
            ]
        ),
    ),
    max_size=2,
).map("; ".join)
"""Commands that may set variables or export them, on a condition."""
INNER_STARTS = st.sampled_from(
    [
        'vllm serve m "$A"',
        'exec vllm serve m "${A[@]}"',
        f"sh -c '{VARIABLE}=2; vllm serve m'",
        f"bash -c '{VARIABLE}=2 && vllm serve m'",
        f"env -u {VARIABLE} sh -c '{VARIABLE}=2; vllm serve m'",
        f"env -i /bin/sh -c '{VARIABLE}=2; vllm serve m'",
    ]
)


@st.composite
def scripts_with_branches(draw: st.DrawFn) -> str:
    """A script that sets variables in the branches of `if`, and starts a server in one of them, or after them."""
    count, has_else = draw(st.integers(1, 2)), draw(st.booleans())
    place = draw(st.integers(0, count + has_else))
    start = draw(INNER_STARTS)
    parts = [draw(SETS)]
    for branch, word in enumerate(("if", "elif", "else")[:count] + ("else",) * has_else):
        parts.append(word if word == "else" else f"{word} {draw(CONDITIONS)}\nthen")
        parts += [draw(SETS), start if branch == place else ":"]
    parts += ["fi", draw(SETS)]
    joiner = draw(st.sampled_from(["", f"{draw(CONDITIONS)} && ", f"{draw(CONDITIONS)} || "]))
    parts.append("" if place < count + has_else else f"{joiner}{start}")
    return "\n".join(filter(None, parts))


@pytest.mark.skipif("bash" not in SHELLS, reason="compares with bash")
@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(scripts_with_branches())
def test_a_branch_gets_what_was_set_before_it_and_not_in_another_one(folder: Path, script: str) -> None:
    check(script, folder)


@pytest.mark.skipif("bash" not in SHELLS, reason="compares with bash")
@settings(
    max_examples=2 * settings().max_examples, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(CHANGES, CHANGES, CHANGES, STARTS)
def test_a_program_gets_what_is_exported_when_it_starts(
    folder: Path, before: list[str], exported: list[str], after: list[str], start: str
) -> None:
    script = "\n".join([*before, "set -a", *exported, "set +a", *after, start])
    check(script, folder)


WITH_OTHER_OUTPUT = [
    *(
        f"{redirection}; {printing} && export {VARIABLE}=0; vllm serve m"
        for redirection in (
            "exec >/dev/full",
            "exec >&-",
            "exec 3>&1 >/dev/full",
            "exec 1>&- 2>&-",
            "exec </dev/null >&0",
        )
        for printing in ("echo a", "set", "export", "export -p", "readonly")
    ),
    *(
        f"{shell} -c 'echo a && export {VARIABLE}=0; vllm serve m' {end}"
        for shell in ("bash", "sh", "exec bash", "bash -c '' || sh")
        for end in (">/dev/full", ">&-", "1>&- 2>/dev/null")
    ),
    f"bash >/dev/full -c 'set && export {VARIABLE}=0; vllm serve m'",
    f"exec >/dev/full; eval 'echo a && export {VARIABLE}=0; vllm serve m'",
    f"exec >/dev/full; eval 'echo a && export {VARIABLE}=0'; vllm serve m",
    f"exec >/dev/full; bash -c 'echo a && export {VARIABLE}=0; vllm serve m'",
    f"if true; then exec >/dev/full; fi; echo a && export {VARIABLE}=0; vllm serve m",
    f"f() {{ exec >/dev/full; }}; f; echo a && export {VARIABLE}=0; vllm serve m",
    f"(echo a && export {VARIABLE}=0; vllm serve m) >/dev/full",
    f"{{ echo a && export {VARIABLE}=0; vllm serve m; }} >/dev/full",
    f"exec 2>/dev/full; echo a && export {VARIABLE}=0; vllm serve m",
    f"exec 2>&1; echo a && export {VARIABLE}=0; vllm serve m",
    f"exec >/dev/full; set -e && export {VARIABLE}=0; vllm serve m",
    f"exec >/dev/full; true && export A=b && export {VARIABLE}=0; vllm serve m",
]
"""Scripts whose standard output may be a device that is full, or closed, so that what prints fails."""


@pytest.mark.parametrize("script", WITH_OTHER_OUTPUT)
def test_a_command_that_prints_may_fail_if_its_output_is_redirected(script: str, folder: Path) -> None:
    check(script, folder)


@pytest.mark.parametrize("start", ["exec 2>&1", "exec 2>/dev/null", "true", "set -e", "exec </dev/null"])
def test_a_command_that_prints_succeeds_if_only_another_output_is_redirected(start: str) -> None:
    words = ["bash", "-c", f"{start}; echo a && export {VARIABLE}=0; exec vllm serve m"]
    line = read_command(words, [""] * len(words), ENV, [], "")
    assert (line.env[VARIABLE], line.doubts) == ("0", [])


SETS_VARIABLE = f"$(({VARIABLE}=0))"
REMOVING = [
    *(
        f"unset {VARIABLE}; {{}}",
        f"unset A {VARIABLE}\n{{}}",
        f"unset -v {VARIABLE}; {{}}",
        f"unset {VARIABLE} && {{}}",
    ),
    *(
        f"true && unset {VARIABLE} && {{}}",
        f"unset {VARIABLE}; export A=1; {{}}",
        f"set -e; unset {VARIABLE}; exec {{}}",
    ),
    *(f"unset {VARIABLE}; bash -c '{{}}'", f"bash -c 'unset {VARIABLE}; {{}}'", f"unset {VARIABLE}; eval '{{}}'"),
    *(f"eval 'unset {VARIABLE}; {{}}'", f"env -u {VARIABLE} {{}}", f"exec env --unset={VARIABLE} {{}}"),
    *(f"env -u {VARIABLE} bash -c '{{}}'", f"env {VARIABLE}=0 env -u {VARIABLE} {{}}", "env -iu A PATH=$PATH {}"),
    *(f"unset {VARIABLE}; if true; then {{}}; fi", f"cd . && unset {VARIABLE} && {{}}"),
]
"""Scripts without the variable, of which each certainly removes it before the server."""
KEEPING = [
    *(f"unset -f {VARIABLE}; {{}}", f"env -u {VARIABLE} true; {{}}", f"bash -c 'unset {VARIABLE}'; {{}}"),
    *(f"unset {VARIABLE}; export {VARIABLE}=1; {{}}", f"env -u {VARIABLE} env {VARIABLE}=1 {{}}"),
    *(f"unset {VARIABLE}; {VARIABLE}=1 {{}}", "env -u A -u B {}", f"env -i PATH=$PATH {VARIABLE}=1 {{}}"),
]
MAYBE_REMOVING = [
    *(f"if [ -f x ]; then unset {VARIABLE}; fi; {{}}", f"[ -f /x ] && unset {VARIABLE}; {{}}", "unset $A; {}"),
    *(f"for a in b; do unset {VARIABLE}; done; {{}}", f"unset {VARIABLE}; [ -f x ] && export {VARIABLE}=1; {{}}"),
    *(f"unset {VARIABLE} & {{}}", f"unset {VARIABLE} >/dev/full/x; {{}}", f"unset {VARIABLE}; {VARIABLE}=1; {{}}"),
    *(f"unset {VARIABLE} | true; {{}}", f"f() {{{{ unset {VARIABLE}; }}}}; f; {{}}", f"unset -n {VARIABLE}; {{}}"),
    *(f"unset() {{{{ :; }}}}; unset {VARIABLE}; {{}}", f"readonly {VARIABLE}; unset {VARIABLE}; {{}}"),
    *(f"unset {VARIABLE}; if [ -f x ]; then . ./env; else :; fi; {{}}", f"unset -fv {VARIABLE}; {{}}"),
    f"unset {VARIABLE}; if [ -f x ]; then read {VARIABLE} <x; export {VARIABLE}; else :; fi; {{}}",
    *(f"cd . && unset {VARIABLE}; {{}}", f"[ -f /x ] || unset {VARIABLE} && {{}}", f"cd . || unset {VARIABLE} && {{}}"),
    *(f"cd . && unset {VARIABLE} && [ -f /x ] || {{}}", f"cd . && unset {VARIABLE} && [ -f /x ]; {{}}"),
    *(f"unset {VARIABLE} 0; {{}}", f"env -u {VARIABLE} bash -lc '{{}}'"),
]


@pytest.mark.parametrize(
    ("script", "value"),
    slow_rows_except(
        [*((each, None) for each in REMOVING[::3]), *((each, "1") for each in KEEPING[::3])],
        [*((each, None) for each in REMOVING), *((each, "1") for each in KEEPING)],
    ),
)
def test_a_variable_that_is_certainly_removed_is_not_set(script: str, value: str | None, folder: Path) -> None:
    script = f"export {VARIABLE}=1; {script.format('vllm serve m')}"
    for shell in SHELLS:
        assert (shell, certain(shell, script)) == (shell, (["m"], value))
        assert (shell, started(shell, script, folder)) == (shell, [[["m"], value]])


@pytest.mark.parametrize("script", MAYBE_REMOVING)
def test_a_variable_that_may_be_removed_is_in_doubt(script: str) -> None:
    assert certain("bash", f"export {VARIABLE}=1; {script.format('vllm serve m')}") is None


TRACED = [
    *(
        f"env 'PS4={SETS_VARIABLE}' {command}"
        for command in (
            "sh -xc 'vllm serve m'",
            "sh -exc 'vllm serve m'",
            "sh -o xtrace -c 'vllm serve m'",
            "sh -c 'set -x; vllm serve m'",
            f"sh -c 'set -o xtrace; export {VARIABLE}=1; vllm serve m'",
            "sh -c \"sh -xc 'vllm serve m'\"",
            "bash -c \"sh -xc 'vllm serve m'\"",
            "sh -xc \"bash -c 'vllm serve m'\"",
        )
    ),
    "env 'PS4=$((A=3))' A=1 sh -xc 'vllm serve m $A'",
    "env 'PS4=${A:=3}' sh -xc 'vllm serve m $A'",
    f"PS4='{SETS_VARIABLE}' sh -xc 'vllm serve m'",
    f"PS4='{SETS_VARIABLE}'; set -x; vllm serve m",
    f"PS4='\\044(({VARIABLE}=0))'; set -x; vllm serve m",
]
"""Scripts whose shell expands the text before each line of its trace, so that a variable may change."""


@pytest.mark.parametrize("script", slow_except(TRACED[::3], TRACED))
def test_what_a_shell_expands_in_its_trace_may_change_a_variable(script: str, folder: Path) -> None:
    check(f"export {VARIABLE}=1; {script}", folder)


@pytest.mark.parametrize("prefix", slow_except(["", "((A=3))"], ["+ ", "", "%N> ", "((A=3))", "!", "~"]))
@pytest.mark.parametrize("shell", ["sh -xc", "sh -c"])
def test_a_trace_with_a_plain_text_before_each_line_changes_nothing(prefix: str, shell: str, folder: Path) -> None:
    script = f"env 'PS4={prefix}' A=1 {shell} 'vllm serve m $A'"
    assert certain("bash", script) == (["m", "1"], None)
    check(script, folder)


REPLACED_BEFORE = [
    'A=1\nbash <<E\nA=2\nvllm serve "$A"\nE',
    'bash <<E\nA=2\nvllm serve "$A" b\nE',
    "bash <<E\nA=2\nvllm serve \\$A\nE",
    'bash <<E\nA=2\nvllm serve \\$A "$B"\nE',
    "A=1\nbash <<E\nA=2\nvllm serve $A \\$A\nE",
    "A=1\nbash <<'E'\nA=2\nvllm serve $A\nE",
    "A=1\nbash <<E\nA=2\nbash <<F\nA=3\nvllm serve $A \\$A \\\\\\$A\nF\nE",
    "A=1\nbash <<-E\n\tA=2\n\tvllm serve '$A' \"it's\"\n\tE",
    "A='b c'\nbash <<E\nvllm serve $A \"$A\"\nE",
    "A=1\nA=2 bash <<E\nvllm serve $A \\$A\nE",
    'bash <<E\nvllm serve "$1" \\$# b\nE',
    'A=1\nbash <<E\nA=2\nvllm serve ${A:-3} "${B:-4}" \\${B:-5}\nE',
    'bash <<E\nB=2\nvllm serve "${B:-4}" "${A}"\nE',
    "bash -c \"A=2; vllm serve '$A' b\"",
    "bash -c \"A=2; vllm serve \\$A '$B'\"",
    'A=1; bash -c "A=2; vllm serve $A \\$A"',
    "bash -c \"vllm serve '$1' '$7' \\$1\" x y z",
    "bash -c \"A=(1 2); vllm serve '${B[0]}' \\${A[1]}\"",
    "eval \"A=2; vllm serve '$A' b\"",
    'A=1; eval "A=2; vllm serve $A \\$A"',
    "eval \"A=2; vllm serve \\$A '$B'\"",
]
"""Scripts in which one shell replaces variables in a text that another one, with variables of its own, runs."""


@pytest.mark.parametrize("script", slow_except(REPLACED_BEFORE[::3], REPLACED_BEFORE))
def test_what_a_shell_replaces_in_the_text_of_another_does_not_have_the_others_value(script: str, folder: Path) -> None:
    ((arguments, _),) = started("bash", script, folder)
    faults: list[RequestFault] = []
    words = ["bash", "-c", script, *ARGUMENTS]
    line = read_command(words, [""] * len(words), ENV, faults, "")
    assert not faults
    assert isinstance(arguments, list)
    known = [word for word in line.words if type(word) is not Unknown]
    assert known, "nothing is compared"
    assert [given for word, given in zip(line.words, arguments, strict=True) if type(word) is not Unknown] == known
