"""Here-documents of scripts: those that a shell runs are edited as scripts, and others are left as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from policy.decision.remedies import Change
from policy.edits.script_words import script_words
from policy.edits.shell_commands import uses_arguments
from policy.edits.shell_words import shell_words

if TYPE_CHECKING:
    from collections.abc import Callable

PIN = "VLLM_USE_V2_MODEL_RUNNER"
EXPORT = f"export {PIN}=1"
SERVE = "vllm serve Qwen/Qwen3-8B"
DBO = Change(argument="--enable-dbo", from_="", to=None)
EAGER = Change(argument="--enforce-eager", to=True)
REMOVED = Change(variable=PIN, to=None)
UNCERTAIN = "the text here cannot be edited with certainty"


@pytest.mark.parametrize(
    "line",
    [
        "bash <<'EOF'",
        "bash <<EOF",
        "bash << EOF",
        "bash <<- EOF",
        "bash -s <<'EOF' > /log 2>&1",
        "bash -s -- <<EOF",
        "bash -ex <<EOF",
        "/bin/sh <<-EOF",
        "dash <<EOF",
        "exec bash <<EOF",
        "A=b bash <<EOF",
        "if bash <<EOF; then date; fi",
        "ssh host <<EOF",
        "ssh -p 22 user@host <<'EOF'",
        "ssh -t host bash -s <<'EOF'",
        "sudo bash <<EOF",
        "sudo -u vllm env A=b bash <<EOF",
        "srun bash <<'EOF'",
        "srun --ntasks 1 bash -s <<'EOF'",
        "docker exec -i c bash <<EOF",
        "cat <<EOF | bash",
        "cat - <<'EOF' | sudo bash -s",
        "cat <<EOF | ssh host",
    ],
)
@pytest.mark.parametrize("end", ["", "date\n"])
def test_a_here_document_that_a_shell_runs_is_edited(
    changed: Callable[..., tuple[list[str], str]], line: str, end: str
) -> None:
    before = f"#!/bin/bash\n{line}\n{EXPORT}\nexec {SERVE} --enable-dbo\nEOF\n{end}"
    assert changed("s.sh", before, REMOVED) == ([], before.replace(f"{EXPORT}\n", ""))
    assert changed("s.sh", before, DBO) == ([], before.replace(" --enable-dbo", ""))


@pytest.mark.parametrize(
    "line",
    [
        "bash /x.sh <<EOF",
        "bash -c cat <<EOF",
        "bash -n <<EOF",
        "sudo tee /usr/bin/bash <<EOF",
        "ssh host 'cat > /w.sh' <<'EOF'",
        "ssh host tee /w.sh <<EOF",
        "ssh -V <<EOF",
        "grep bash <<EOF",
        "cat <<EOF || bash",
        "cat > /x <<EOF; bash /x",
        "cat <<EOF > /x && bash -x",
        "cat <<EOF | tee /x",
        "cat <<EOF | (bash)",
        "<<EOF",
    ],
)
def test_a_here_document_that_no_shell_runs_is_left(line: str) -> None:
    text = f"{line}\n{EXPORT}\nEOF\n{SERVE}\n"
    assert [word.text for word in script_words(text)] == [word.text for word in shell_words(text)]


def test_a_shell_runs_only_the_last_of_its_here_documents(changed: Callable[..., tuple[list[str], str]]) -> None:
    text = f"bash <<'A' <<'B'; cat <<C\n{EXPORT}\nA\n{EXPORT}\n{SERVE}\nB\n{EXPORT}\nC\n"
    assert changed("s.sh", text) == ([], f"bash <<'A' <<'B'; cat <<C\n{EXPORT}\nA\n{SERVE}\nB\n{EXPORT}\nC\n")


def test_a_here_document_within_another_is_edited(changed: Callable[..., tuple[list[str], str]]) -> None:
    text = f"srun bash <<'A'\nssh host <<B\n{EXPORT}\n{SERVE}\nB\ncat <<B\n{EXPORT}\nB\nA\n"
    assert changed("s.sh", text) == ([], f"srun bash <<'A'\nssh host <<B\n{SERVE}\nB\ncat <<B\n{EXPORT}\nB\nA\n")


def test_the_quotes_of_a_here_document_end_with_it(changed: Callable[..., tuple[list[str], str]]) -> None:
    text = f"bash <<A\necho don't\nA\n{EXPORT}\n{SERVE}\n"
    assert changed("s.sh", text)[1] in {text, f"bash <<A\necho don't\nA\n{SERVE}\n"}
    assert [word.text for word in script_words(text)][-7:] == ["\n", "export", f"{PIN}=1", "\n", *SERVE.split(), "\n"][
        -7:
    ]


@pytest.mark.parametrize("delimiter", ["EOF", "'EOF'"])
def test_an_option_is_added_in_a_here_document(changed: Callable[..., tuple[list[str], str]], delimiter: str) -> None:
    text = f"bash <<{delimiter}\n{SERVE}\nEOF\ndate\n"
    assert changed("s.sh", text, EAGER) == ([], f"bash <<{delimiter}\n{SERVE} --enforce-eager\nEOF\ndate\n")
    pinned = f"bash <<{delimiter}\nexport {PIN}=0\n{SERVE}\nEOF\n"
    assert changed("s.sh", pinned, Change(variable=PIN, from_="0", to="1")) == ([], pinned.replace("=0", "=1"))
    assert changed("s.sh", text, Change(variable=PIN, from_=None, to="1")) == (
        [],
        f"bash <<{delimiter}\n{PIN}=1 {SERVE}\nEOF\ndate\n",
    )


@pytest.mark.parametrize("arguments", ['"$@"', '"\\$@"', "'$@'"])
def test_what_the_outer_shell_may_expand_is_not_certain(
    changed: Callable[..., tuple[list[str], str]], arguments: str
) -> None:
    text = f'bash <<EOF\nset -- --enable-dbo\nfoo {arguments}\n{SERVE} "\\$@"\nEOF\n'
    assert uses_arguments(text, script_words(text))
    assert changed("s.sh", text, DBO)[1] == text


def test_words_of_a_here_document_have_their_places_in_the_text() -> None:
    text = "a\nbash <<'A'\nb 'c d' \\$e\ncat <<B\n$f\nB\nA\ng\n"
    words = script_words(text)
    assert [word.text for word in words if not word.is_operator] == [
        "a",
        "bash",
        "A",
        "b",
        "c d",
        "$e",
        "cat",
        "B",
        "g",
    ]
    written = [text[word.start : word.end] for word in words if not word.is_operator]
    assert written == ["a", "bash", "'A'", "b", "'c d'", "\\$e", "cat", "B", "g"]
    assert all(
        text[start:end].removeprefix("\\") == each
        for word in words
        if not word.is_operator
        for start, end, each in zip(word.starts, word.ends, word.text, strict=True)
    )
    assert [text[each.start : each.end] for word in words for each in word.documents] == ["$f\n"]
