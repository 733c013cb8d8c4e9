"""Scripts without a pin: a shell reads them, runs the same commands as before, and prints no variables."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from policy.decision.remedies import Change
from policy.edits import variable_places
from policy.edits.operations import TextEdit, edited
from policy.edits.shell_commands import assignments_of
from policy.edits.shell_edits import without_variable
from policy.edits.shell_words import shell_words

if TYPE_CHECKING:
    from collections.abc import Callable

PIN = "VLLM_USE_V2_MODEL_RUNNER"
EXPORT = f"export {PIN}=1"
UNSET = f"unset {PIN}"
SERVE = "exec vllm serve Qwen/Qwen3-8B\n"
UNCERTAIN = "the text here cannot be edited with certainty"
BASH = shutil.which("bash") or ""


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"{EXPORT} || true\n", f"{UNSET} || true\n"),
        (f"{EXPORT} | cat\n", f"{UNSET} | cat\n"),
        (f"{EXPORT} > /dev/null\n", f"{UNSET} > /dev/null\n"),
        (f"{EXPORT} 2>/dev/null\n", f"{UNSET} 2>/dev/null\n"),
        (f"[ -f /debug ] && export {PIN}=0\n{EXPORT}\n", f"[ -f /debug ] && {UNSET}\n"),
        (f"[ -f /debug ] &&\n  {EXPORT}\n", f"[ -f /debug ] &&\n  {UNSET}\n"),
        (f"if [ -f /x ]; then {EXPORT}; fi\n", f"if [ -f /x ]; then {UNSET}; fi\n"),
        (f"if [ -f /x ]; then {PIN}=1; fi\n", f"if [ -f /x ]; then {UNSET}; fi\n"),
        (f"if [ -f /x ]; then\n  {EXPORT}\nfi\n", f"if [ -f /x ]; then\n  {UNSET}\nfi\n"),
        (f"if [ -f /x ]; then\n  {EXPORT}\n  date\nfi\n", "if [ -f /x ]; then\n  date\nfi\n"),
        (f"if [ -f /x ]; {EXPORT}; then date; fi\n", f"if [ -f /x ]; {UNSET}; then date; fi\n"),
        (f"while [ -f /x ]; do {EXPORT}; done\n", f"while [ -f /x ]; do {UNSET}; done\n"),
        (f"f() {{ {EXPORT}; }}\nf\n", f"f() {{ {UNSET}; }}\nf\n"),
        (f"{{ {EXPORT}; date; }}\n", f"{{ {UNSET}; date; }}\n"),
        (f'case "$A" in a) {EXPORT};; esac\n', f'case "$A" in a) {UNSET};; esac\n'),
        (f'case "$A" in\n  a)\n    {EXPORT}\n    ;;\nesac\n', f'case "$A" in\n  a)\n    {UNSET}\n    ;;\nesac\n'),
        (f"A=(\n  b\n)\n{EXPORT}\n", "A=(\n  b\n)\n"),
        (f"date; {EXPORT}; date\n", "date; date\n"),
        (f"{EXPORT} && ", ""),
        (f"{EXPORT};  # the pin\n", "# the pin\n"),
    ],
)
def test_a_pin_is_unset_where_a_shell_needs_a_command(
    changed: Callable[..., tuple[list[str], str]], before: str, after: str
) -> None:
    assert changed("s.sh", before + SERVE) == ([], after + SERVE)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (f"declare -x {PIN}=1\n", ""),
        (f"declare -x {PIN}=1 A=b\n", "declare -x A=b\n"),
        (f"declare -x {PIN}=0 {PIN}=1\n", ""),
        (f"export -- {PIN}=1\n", ""),
        (f"{{ {EXPORT}; export HF_HOME=/x; }}\n", f"{{ {UNSET}; export HF_HOME=/x; }}\n"),
        (f"! {EXPORT}\n", f"! {UNSET}\n"),
        (f"time {EXPORT}\n", f"time {UNSET}\n"),
        (f"time -p {EXPORT}\n", f"time -p {UNSET}\n"),
        (f"A=b {EXPORT}\n", f"A=b {UNSET}\n"),
        (f'export A="$B" {PIN}=1\n', 'export A="$B"\n'),
    ],
)
def test_no_builtin_is_left_that_prints_all_variables(
    changed: Callable[..., tuple[list[str], str]], before: str, after: str
) -> None:
    assert changed("s.sh", before + SERVE) == ([], after + SERVE)


@pytest.mark.parametrize("text", [f"export > /log {PIN}=1\n", f"{EXPORT} $NAMES\n"])
def test_a_pin_is_left_where_the_rest_of_its_command_is_not_certain(
    changed: Callable[..., tuple[list[str], str]], text: str
) -> None:
    assert changed("s.sh", text + SERVE) == ([UNCERTAIN], text + SERVE)


HERE_DOCUMENTS = [
    f"cat > /etc/profile.d/vllm.sh <<'EOF'\n{EXPORT}\nEOF\n",
    f'cat <<"END OF" > /a; date\n{EXPORT}\nEND OF\n',
    f"cat <<-EOF\n\t{EXPORT}\n\tEOF\n",
    f"cat << A; cat <<\\B\n{EXPORT}\nA\n{EXPORT}\nB\n",
    "cat > /run.sh <<EOF\nvllm serve other --enable-dbo\nEOF\n",
    "cat > /note <<EOF\ndon't\nEOF\n",
]


@pytest.mark.parametrize("document", HERE_DOCUMENTS)
def test_a_here_document_is_left(changed: Callable[..., tuple[list[str], str]], document: str) -> None:
    serve = "vllm serve Qwen/Qwen3-8B"
    text = f"{document}{EXPORT}\n{serve} --enable-dbo\n{document}"
    assert changed("s.sh", text) == ([], f"{document}{serve} --enable-dbo\n{document}")
    drop = Change(argument="--enable-dbo", from_="", to=None)
    assert changed("s.sh", text, drop) == ([], f"{document}{EXPORT}\n{serve}\n{document}")


def test_a_here_string_is_no_here_document(changed: Callable[..., tuple[list[str], str]]) -> None:
    assert changed("s.sh", f"cat <<< EOF\n{EXPORT}\ndate\nEOF\n{SERVE}") == (
        [],
        f"cat <<< EOF\ndate\nEOF\n{SERVE}",
    )


@pytest.mark.parametrize(
    ("text", "change"),
    [
        (f"{EXPORT}\ncat > /a <<EOF\nrunner=${PIN}\nEOF\n{SERVE}", Change(variable=PIN, to=None)),
        (
            'set -- --enable-dbo\ncat > /a <<EOF\n$@\nEOF\nvllm serve Qwen/Qwen3-8B "$@"\n',
            Change(argument="--enable-dbo", from_="", to=None),
        ),
    ],
)
def test_what_a_here_document_uses_is_left(
    changed: Callable[..., tuple[list[str], str]], text: str, change: Change
) -> None:
    assert changed("s.sh", text, change) == ([UNCERTAIN], text)


@pytest.mark.parametrize("delimiter", ["'EOF'", '"EOF"', "\\EOF", "E'O'F"])
def test_a_here_document_with_a_quoted_delimiter_uses_nothing(
    changed: Callable[..., tuple[list[str], str]], delimiter: str
) -> None:
    document = f'cat > /w.sh <<{delimiter}\nexec foo "$@" ${PIN}\nEOF\n'
    assert changed("s.sh", f"{document}{EXPORT}\n{SERVE}") == ([], f"{document}{SERVE}")
    serve = 'vllm serve Qwen/Qwen3-8B "$@"\n'
    drop = Change(argument="--enable-dbo", from_="", to=None)
    assert changed("s.sh", f"{document}set -- --enable-dbo\n{serve}", drop) == ([], f"{document}set --\n{serve}")


def test_of_two_here_documents_the_one_that_a_shell_expands_counts(
    changed: Callable[..., tuple[list[str], str]],
) -> None:
    text = f"{EXPORT}\ncat <<A <<'B'\n${PIN}\nA\nB\n{SERVE}"
    assert changed("s.sh", text) == ([UNCERTAIN], text)
    text = f"{EXPORT}\ncat <<A <<'B'\nA\n${PIN}\nB\n{SERVE}"
    assert changed("s.sh", text) == ([], text.removeprefix(f"{EXPORT}\n"))


def test_an_edit_after_which_a_shell_may_read_a_script_in_another_way_is_refused(
    changed: Callable[..., tuple[list[str], str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    edit = TextEdit(0, len(EXPORT), "")
    monkeypatch.setattr(variable_places, "without_variable", lambda _text, _words, _assignments: [edit])
    text = f"{EXPORT} && date\n{SERVE}"
    assert changed("s.sh", text) == (["with this edit the engine is not decided as promised"], text)


COMMANDS = st.sampled_from(
    [
        EXPORT,
        f"{PIN}=0",
        f"{EXPORT} A=b",
        f"export A=c {PIN}=1",
        f"A=d {PIN}=1",
        f"{PIN}=1 vllm serve",
        f"{EXPORT} >&2",
        f"! {EXPORT}",
        f"declare -x {PIN}=1",
        f"time -p export -- {PIN}=1",
        f"A=f export {PIN}=1 {PIN}=0",
        f"time {PIN}=1",
        "true",
        "false",
        "vllm a",
        "A=e",
    ]
)
LISTS = [
    "{0}; {1}",
    "{0}\n{1}",
    "{0} && {1}",
    "{0} &&\n{1}",
    "{0} || {1}",
    "{0} | {1}",
    "cat <<EOF\n$A don't\nEOF\n{0}\n{1}",
    "{0} # c\n{1}",
    "if {0}; then {1}; fi",
    "if {0}\nthen\n  {1}\nelse\n  vllm b\nfi",
    "while {0}; do {1}; break; done",
    "until {0}; do\n{1}\nbreak\ndone",
    "for a in b; do {0}; {1}; done",
    "{{ {0}; {1}; }}",
    "( {0}; {1} )",
    "f() {{ {0}; {1}; }}; f",
    "f() {{\n{0}\n{1}\n}}\nf",
    "case a in\n  a)\n {0}\n {1}\n;;\n  *) {1};;\nesac",
]
SCRIPTS = st.recursive(
    COMMANDS,
    lambda inner: st.builds(lambda form, *parts: form.format(*parts), st.sampled_from(LISTS), inner, inner),
    max_leaves=6,
)


def lines_of(script: str) -> tuple[bool, str]:
    """Whether bash reads a script, and what its commands print."""
    if subprocess.run([BASH, "-n", "-c", script], capture_output=True, check=False).returncode:
        return False, ""
    text = f'vllm() {{ echo vllm "$@" "$A"; }}\n{script}\nvllm end'
    done = subprocess.run(
        [BASH, "-c", text], capture_output=True, text=True, check=False, env={"HF_TOKEN": "SECRET"}, timeout=60
    )
    return True, done.stdout


@pytest.mark.skipif(not BASH, reason="bash is not installed")
@settings(max_examples=200, deadline=None)
@given(SCRIPTS)
def test_a_script_without_a_pin_is_read_and_runs_the_same_commands(script: str) -> None:
    words = shell_words(script)
    edits = without_variable(script, words, assignments_of(words, PIN))
    if edits is None:
        return
    new = edited(script, edits)
    assert PIN not in new.replace(UNSET, "")
    assert lines_of(new) == lines_of(script), new
