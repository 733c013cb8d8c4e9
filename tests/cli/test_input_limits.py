"""Inputs that exceed a limit of their reader, or that are missing: every command says so and exits with a failure."""

from __future__ import annotations

import subprocess
import sys
from typing import TYPE_CHECKING, Final

import pytest
from representatives import slow_except
from tables import table

from policy.cli import requests

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

COMMANDS: Final[dict[str, tuple[tuple[str, ...], int]]] = {
    "decide": (("decide",), 2),
    "lint": (("lint",), 2),
    "fix": (("fix",), 2),
    "observe": (("observe", "LOG", "--deployment"), 2),
    "impact": (("impact", "--to", "0.33.0"), 1),
    "pins": (("pins",), 1),
}
"""Each command with its exit code; those of a fleet report what cannot be read among the rest of it."""
DEEP: Final = "[" * 65 + "]" * 65
ALIASES: Final = "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 7))
LOG: Final = (
    "INFO 11-22 01:00:00 [core.py:113] Initializing a V1 LLM engine (v0.23.0) with config: model='a/b'\n"
    "INFO 11-22 01:00:01 [gpu_worker.py:200] Using V1 model runner\n"
)
MAIN: Final = "from service.cli import main; main()"
POD: Final = "apiVersion: v1\nkind: Pod\n"
LIMITS: Final[dict[str, tuple[str, str]]] = {
    "levels of JSON": (f'{{"kind": "Pod", "spec": {DEEP}}}', "nested too deeply: at most 64 levels are read"),
    "levels of YAML": (f"{POD}spec: {DEEP}\n", "nested more than 64 deep"),
    "levels of an alias": (
        f"{POD}a: &a {'[' * 40 + ']' * 40}\nb: {'[' * 40}*a{']' * 40}\n",
        "nested more than 64 deep",
    ),
    "values of JSON": (f'{{"kind": "Pod", "spec": [{"1, " * 1000}1]}}', "more than 1000 keys and values in JSON"),
    "values of YAML": (POD + ALIASES, "more than 1000000 values"),
    "bytes": (f"{POD}a: {'x' * requests.MAX_FILE}\n", "more than 33,554,432 bytes"),
    "digits of a number": (f"{POD}a: {'1' * 65}\n", "invalid number"),
    "directives": (f"{'%TAG ! tag:example.com,2000:' * 101}\n---\n{POD}", "more than 100 `%TAG` directives"),
}


@table(("name", "command"), [(name, command) for name in LIMITS for command in COMMANDS])
def test_a_document_that_exceeds_a_limit_is_reported_by_every_command(
    call: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, command: str
) -> None:
    monkeypatch.setattr(requests, "MAX_JSON_VALUES", 1000)
    text, message = LIMITS[name]
    (tmp_path / "log").write_text(LOG)
    (tmp_path / "pod.yaml").write_text(text)
    arguments, code = COMMANDS[command]
    places = {"LOG": str(tmp_path / "log")}
    done = call(*(places.get(each, each) for each in arguments), str(tmp_path / "pod.yaml"))
    assert (done.code, message in done.out + done.err) == (code, True), done


@pytest.mark.parametrize(
    "arguments",
    slow_except(
        [("decide",), ("impact", "--to", "0.33.0")],
        [("decide",), ("lint",), ("fix",), ("pins",), ("impact", "--to", "0.33.0"), ("compare", "FILE")],
    ),
    ids=lambda arguments: arguments[0],
)
def test_a_file_is_read_up_to_the_limit_of_bytes(tmp_path: Path, arguments: tuple[str, ...]) -> None:
    file = tmp_path / "pod.yaml"
    with file.open("wb") as opened:
        opened.truncate(4 << 30)
    words = [str(file) if word == "FILE" else word for word in arguments]
    done = subprocess.run(
        ["sh", "-c", 'ulimit -v 2000000; exec "$@"', "sh", sys.executable, "-c", MAIN, *words, str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    found = done.stdout + done.stderr
    assert (done.returncode in {1, 2}, "more than 33,554,432 bytes" in found, "Traceback" in found) == (
        True,
        True,
        False,
    ), done


@table("name", list(LIMITS))
def test_lint_reads_the_other_files_and_fails(
    call: Callable[..., Done], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(requests, "MAX_JSON_VALUES", 1000)
    text, message = LIMITS[name]
    (tmp_path / "a.yaml").write_text(text)
    container = "{image: 'vllm/vllm-openai:v0.33.0', args: [--max-num-seqs=abc]}"
    (tmp_path / "b.yaml").write_text(f"{POD}spec: {{containers: [{container}]}}\n")
    for files in (["a.yaml", "b.yaml"], ["."]):
        monkeypatch.chdir(tmp_path)
        done = call("lint", *[str(tmp_path / each) for each in files])
        assert (done.code, "--max-num-seqs" in done.out, message in done.err) == (2, True, True), done


@table("name", [name for name in LIMITS if name != "values of JSON"])
def test_lint_fails_on_standard_input_that_exceeds_a_limit(call: Callable[..., Done], name: str) -> None:
    text, message = LIMITS[name]
    done = call("lint", "-", stdin=text)
    assert (done.code, done.out, message in done.err) == (2, "", True), done


@table(("name", "message"), [("absent.yaml", "no such file"), ("latin.yaml", "'utf-8' codec can't decode byte 0xfc")])
def test_lint_fails_if_a_file_is_missing_or_no_text(
    call: Callable[..., Done], tmp_path: Path, name: str, message: str
) -> None:
    (tmp_path / "latin.yaml").write_bytes(b"a: \xfc\n")
    done = call("lint", str(tmp_path / name))
    assert (done.code, done.out, message in done.err) == (2, "", True)


@table("text", ["a: {{ .Values.x }}\n", "a: !Sub text\n", "a: [\n", "a: 1\na: 2\n"])
def test_lint_names_a_file_in_another_format_and_does_not_fail(
    call: Callable[..., Done], tmp_path: Path, text: str
) -> None:
    (tmp_path / "other.yaml").write_text(text)
    done = call("lint", str(tmp_path / "other.yaml"))
    assert (done.code, done.out, done.err.count("not decided")) == (0, "", 1)
