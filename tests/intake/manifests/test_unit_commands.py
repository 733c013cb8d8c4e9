"""What systemd refuses of the commands of a service is a problem of its engine."""

from __future__ import annotations

import shutil
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest

from policy.intake.command.launcher import read_command
from policy.intake.command.program_names import MISSING_PROGRAM_MESSAGE
from policy.intake.manifests.unit_commands import SEVERAL_COMMANDS

if TYPE_CHECKING:
    from pathlib import Path

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

SERVE = "serve a/b"
IMAGE = "vllm/vllm-openai:v0.33.0"
NO_PATH = "`{}` is neither an absolute path nor a name, and systemd replaces no variable in it"
SPECIAL = "`{}` has characters that no program of a unit may have"
NAMELESS = "`@` needs a name after the program"
NOT_CLOSED = "a quote is not closed"


def engines(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def problem(refusal: str) -> str:
    return f"`ExecStart`: {refusal}, so that systemd refuses it" if refusal else ""


UNITS: list[tuple[str, list[str]]] = [
    *((f"ExecStart={path} {SERVE}", [NO_PATH.format(path)]) for path in ("bin/vllm", "./vllm", "~/vllm", "~user/vllm")),
    *(
        (f"ExecStart={path} {SERVE}", [NO_PATH.format(path)])
        for path in ("$HOME/bin/vllm", "${HOME}/vllm", "V=/a/vllm")
    ),
    (f"ExecStart=:bin/vllm {SERVE}", [NO_PATH.format("bin/vllm")]),
    (f"ExecStart=bin/%i/vllm {SERVE}", [NO_PATH.format("bin/%i/vllm")]),
    (f"ExecStart=~/bin/docker run {IMAGE} a/b", [NO_PATH.format("~/bin/docker")]),
    (f"ExecStart=~/bin/env vllm {SERVE}", [NO_PATH.format("~/bin/env")]),
    (f"ExecStart='/a\"b/vllm' {SERVE}", [SPECIAL.format('/a"b/vllm')]),
    (f'ExecStart=/usr/bin/vllm {SERVE} "x', [NOT_CLOSED]),
    (f"ExecStartPre=bin/x\nExecStart=/usr/bin/vllm {SERVE}", [NO_PATH.format("bin/x")]),
    (f"ExecStart=/usr/bin/vllm {SERVE}\nExecStart=/usr/bin/true", [SEVERAL_COMMANDS]),
    (f"ExecStart=/usr/bin/vllm {SERVE} ; /usr/bin/true", [SEVERAL_COMMANDS]),
    (f"ExecStart=/usr/bin/true ; /usr/bin/vllm {SERVE}", [SEVERAL_COMMANDS]),
    (f"Type=exec\nExecStart=/usr/bin/vllm {SERVE}\nExecStart=vllm {SERVE}", [SEVERAL_COMMANDS, SEVERAL_COMMANDS]),
    (f"ExecStart=/usr/bin/docker run {IMAGE} a/b\nExecStart=/usr/bin/true", [SEVERAL_COMMANDS]),
    (f"ExecStart=bin/x\nExecStart=/usr/bin/vllm {SERVE}\nType=oneshot", [NO_PATH.format("bin/x")]),
    *(
        (f"ExecStart={prefixes}{rest}/usr/bin/vllm x {SERVE}", [NO_PATH.format(f"{rest}/usr/bin/vllm")])
        for prefixes, rest in (("!!", "!"), ("+", "!"), ("+", "+"), ("!", "+"), (":", ":"), ("@", "@"), ("!@!", "!"))
    ),
    (f"ExecStart=--/usr/bin/vllm {SERVE}", []),
    *((f"ExecStart={prefixes}/usr/bin/vllm x {SERVE}", [""]) for prefixes in ("!@!", "@!!:-", "-@:+")),
    ("ExecStart=@/usr/bin/vllm", []),
    (f"ExecStart=@/usr/bin/vllm x {SERVE}", [""]),
    (f"ExecStart=/usr/bin/vllm {SERVE}", [""]),
    (f"ExecStart=vllm {SERVE}", [""]),
    (f"ExecStart=%h/bin/vllm {SERVE}", [""]),
    (f"ExecStart='/opt/a b/vllm' {SERVE}", [""]),
    (f"ExecStart=-bin/vllm {SERVE}", []),
    (f"ExecStart=-bin/x\nExecStart=/usr/bin/vllm {SERVE}", [""]),
    (f"ExecStart=- /usr/bin/vllm {SERVE}", []),
    (f"ExecStart=/usr/bin/true\nExecStart=\nExecStart=/usr/bin/vllm {SERVE}", [""]),
    (f"Type=oneshot\nExecStart=/usr/bin/true\nExecStart=/usr/bin/vllm {SERVE}", [""]),
    (f"Type=oneshot\nType=other\nType=\nExecStart=/usr/bin/true ; /usr/bin/vllm {SERVE}", [""]),
    (f"Type=oneshot\nExecStart=/usr/bin/vllm {SERVE} ; /usr/bin/true", [""]),
    (f"ExecStart=/usr/bin/vllm {SERVE} ;", [""]),
]


@pytest.mark.parametrize(("unit", "refusals"), UNITS)
def test_what_systemd_refuses_is_a_problem(unit: str, refusals: list[str]) -> None:
    found = engines({"unit": f"[Service]\n{unit}\n"})
    assert [each.problem for each in found] == [problem(refusal) for refusal in refusals]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd")
@pytest.mark.parametrize(("unit", "refusals"), UNITS)
def test_systemd_refuses_these_units(unit: str, refusals: list[str], tmp_path: Path) -> None:
    (tmp_path / "x.service").write_text(f"[Service]\n{unit}\n", encoding="utf-8")
    command = ["systemd-analyze", "verify", "--man=no", str(tmp_path / "x.service")]
    run = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert ("bad unit file setting" in run.stderr) is (not refusals or refusals[0] != "")


@pytest.mark.parametrize("semicolon", [r"\;", "';'", ";x"])
def test_a_semicolon_may_be_an_argument(semicolon: str) -> None:
    (found,) = engines({"unit": f"[Service]\nExecStart=/usr/bin/vllm serve a/b {semicolon} --port 1\n"})
    assert (found.words[3:], found.problem) == ([semicolon.strip("\\'"), "--port", "1"], "")


@pytest.mark.parametrize(
    ("start", "program"), [("V=0 vllm", "V=…"), ("exec vllm", "exec"), ("@exec x vllm", "exec"), ("eval vllm", None)]
)
def test_a_name_of_which_only_a_shell_knows_the_program_is_in_doubt(start: str, program: str | None) -> None:
    (found,) = engines({"unit": f"[Service]\nExecStart={start} {SERVE}\n"})
    read = read_command(found.words, found.places, found.env, [], "")
    assert (read.words, read.doubts) == (["a/b"], [MISSING_PROGRAM_MESSAGE.format(f"`{program or 'eval'}`")])


@pytest.mark.parametrize(
    ("service", "refusals"),
    [
        ("ExecStart=/usr/bin/true", [SEVERAL_COMMANDS]),
        ("Type=oneshot\nExecStart=/usr/bin/true", [""]),
        ("Type=oneshot", [""]),
    ],
)
def test_podman_adds_a_command_to_those_of_the_service(service: str, refusals: list[str]) -> None:
    found = engines({"unit": f"[Container]\nImage={IMAGE}\nExec=a/b\n[Service]\n{service}\n"})
    assert [each.problem for each in found] == [problem(refusal) for refusal in refusals]
