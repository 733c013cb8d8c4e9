"""Here-documents in scripts: where they end, and what the program that gets one does with it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tables import table

from policy.intake.command.launcher import read_command
from policy.intake.command.shell import parse_script
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from policy.errors import RequestFault


def commands(text: str) -> list[list[str]]:
    return [command.words for command in parse_script(text, {}, is_bash=True)]


def read(script: str) -> tuple[list[str], list[str]]:
    """vLLM's words in a script, and the faults."""
    faults: list[RequestFault] = []
    found = read_command(["bash", "-c", script], ["a"] * 3, {}, faults, "")
    return found.words, [fault.message for fault in faults]


@table(
    ("text", "found"),
    [
        ("a <<E\nb c\nE\nd", [["a", "b c\n"], ["d"]]),
        ("a <<E\nE\nd", [["a", ""], ["d"]]),
        ("a <<E\n E\nE\n", [["a", " E\n"]]),
        ("a <<-E\n\tb\n\t\tE\nd", [["a", "\tb\n"], ["d"]]),
        ("a <<'E F'\nb\nE F\nd", [["a", "b\n"], ["d"]]),
        ('a <<"E" x >f\nb\nE\nd', [["a", "x", "b\n"], ["d"]]),
        ("a <<E | d\nb\nE\n", [["a", "b\n"], ["d"]]),
        ("a <<E && d\nb\nE\nf", [["a", "b\n"], ["d"], ["f"]]),
        ("a <<E; d\nb\nE\nf", [["a", "b\n"], ["d"], ["f"]]),
        ("a <<E <<F\nb\nE\nc\nF\nd", [["a", "b\n", "c\n"], ["d"]]),
        ("a <<E; d <<F\nb\nE\nc\nF\ng", [["a", "b\n"], ["d", "c\n"], ["g"]]),
        ("a <<E # it's\nb\nE\nd", [["a", "b\n"], ["d"]]),
        ("a 3<<E\nb\nE\nd", [["a", "b\n"], ["d"]]),
        ("a <<E\nit's \"b ( {\nE\nd", [["a", "it's \"b ( {\n"], ["d"]]),
        ("a <<E\r\nb\r\nE\r\nd", [["a", "b\r\n"], ["d"]]),
        ("if x; then\n  a <<E\nb\nE\nfi\nd", [["x"], ["a", "b\n"], ["fi"], ["d"]]),
        ("a <<E\n\n\n", None),
    ],
)
def test_a_text_ends_at_a_line_with_the_delimiter_alone(text: str, found: list[list[str]] | None) -> None:
    if found is None:
        assert read(text)[1] == [
            "the script cannot be read: the here-document at character 3 has no end; write `E` alone in a line"
        ]
    else:
        assert commands(text) == found


@pytest.mark.parametrize(
    ("text", "kind"),
    [("a <<E\n$b\nE", Unknown), ("a <<E\n`b`\nE", Unknown), ("a <<'E'\n$b\nE", str), ('a <<"E"\n`b`\nE', str)],
)
def test_a_shell_replaces_variables_in_a_text_whose_delimiter_is_not_quoted(text: str, kind: type[str]) -> None:
    ((_, found),) = commands(text)
    assert type(found) is kind


@table(
    "script",
    [
        "bash <<'E'\nvllm serve a/b\nE",
        "bash -e <<'E'\nvllm serve a/b\nE",
        "sudo -u x bash -s <<'E'\nvllm serve a/b\nE",
        "nohup sh - <<E &\ncd /x\nvllm serve a/b\nE",
        "cat <<E\nUsage: vllm serve MODEL; don't\nE\nvllm serve a/b",
        "python3 - <<'E'\nprint('ready')\nE\nvllm serve a/b",
        "python3 <<E\nimport json\nprint(json.dumps($A))\nE\nvllm serve a/b",
        "cat >config.yaml <<E\nmodel: c/d\nE\nvllm serve a/b",
        "while read -r x; do y; done <<E\nz\nE\nvllm serve a/b",
    ],
)
def test_a_script_with_a_here_document_is_read(script: str) -> None:
    assert read(script) == (["a/b"], [])


@table(
    ("script", "why"),
    [
        ("cat >start.sh <<'E'\nvllm serve a/b\nE\nx", "`cat` writes vLLM's server into a file, which may be run"),
        ("cat <<E | bash\nvllm serve a/b\nE", "`bash` reads its commands from standard input"),
        ("python3 - <<E\nvllm.entrypoints.openai\nE", "`python3` runs code that is not read"),
        ("ssh host <<E\nvllm serve a/b\nE", "`ssh` has vLLM's server among its arguments and may start it"),
        ("python3 - <<E\nfrom vllm import LLM\nE", "`python3` runs code that is not read"),
        ("python3 <<E\n$CODE\nE", "`python3` runs code that is not read"),
    ],
)
def test_a_here_document_that_may_start_vllm_elsewhere_is_named(script: str, why: str) -> None:
    words, faults = read(script)
    assert (words, faults) == ([], [f"{why}, so it is not known whether it starts vLLM; {faults[0].split('; ', 1)[1]}"])
