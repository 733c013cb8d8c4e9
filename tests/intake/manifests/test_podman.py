"""Variables of containers of Podman's that come from elsewhere, and of the files of `EnvironmentFile=`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest

from policy.intake.manifests.environment_file import variables_of

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.24.0"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
CAUSE = "the mount at `/usr/local/bin/vllm` may make another vLLM run"


def container(document: Any) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest(document, "", faults)
    assert faults == []
    return found


def run(options: str) -> Container:
    return container({"script": f"podman run {options} {IMAGE} --model a/b"})


def unit(setting: str) -> Container:
    return container({"unit": f"[Container]\nImage={IMAGE}\nExec=--model a/b\n{setting}\n"})


@pytest.mark.parametrize(
    "found",
    [
        *(lambda: run("-e 'VLLM_*'"), lambda: run("--env='*'"), lambda: run("--env-host"), lambda: run("--env-host=1")),
        *(lambda: unit("Environment=VLLM_*"), lambda: unit("EnvironmentHost=true"), lambda: unit("EnvironmentHost=on")),
        *(lambda: unit("PodmanArgs=--env-host"), lambda: unit("EnvironmentFile=/x")),
    ],
)
def test_variables_of_the_host_are_hidden(found: Any) -> None:
    engine = found()
    assert (engine.has_hidden_variables, engine.env) == (True, {})
    assert [note.endswith("variables that are not shown") for note in engine.notes] == [True]


@pytest.mark.parametrize("setting", ["EnvironmentHost=false", "EnvironmentHost=", "PodmanArgs=--env-host=false"])
def test_no_variables_of_the_host_are_passed(setting: str) -> None:
    assert not unit(setting).has_hidden_variables


@pytest.mark.parametrize("value", [f"x,type=env,target={RUNNER}", f"{RUNNER},type=env", f"x,target={RUNNER},type=env"])
def test_a_secret_as_a_variable_has_an_unknown_value(value: str) -> None:
    assert run(f"--secret {value}").env == {RUNNER: None}
    assert unit(f"Secret={value}").env == {RUNNER: None}


def test_a_merged_variable_has_an_unknown_value() -> None:
    assert run(f"--env-merge {RUNNER}='${{{RUNNER}}}1'").env == {RUNNER: None}


@pytest.mark.parametrize("value", ["x,target=/usr/local/bin/vllm", "x,type=mount,target=/usr/local/bin/vllm"])
def test_a_secret_as_a_file_is_a_mount(value: str) -> None:
    for found in (run(f"--secret {value}"), unit(f"Secret={value}")):
        assert (found.env, None if found.installation is None else found.installation.cause) == ({}, CAUSE)
    assert run("--secret vllm").installation is None


@pytest.mark.parametrize(
    ("text", "variables"),
    [
        ("A=b\n# c\n; d\nB = c d  \nC\nexport D=1\n1=2", {"A": "b", "B": "c d"}),
        ("A='b'\"c\" 'd'e\nB=''", {"A": "bcde", "B": ""}),
        (
            r"""A=b\ c\\d\ne
B="b\"c\n\$d\
e"
C='a\b'""",
            {"A": r"b c\dne", "B": r'b"c\n$de', "C": r"a\b"},
        ),
        ("A=1\\\n0\nB='1\n2'\nC=a'b'#c", {"A": "10", "B": "1\n2", "C": "a'b'#c"}),
        ("A=\nB=1\\", {"A": "", "B": "1"}),
        ("A='1", {"A": "1"}),
        ('A="1\\', {"A": "1"}),
        ("A=1\\  \r\nB=x=y", {"A": "1 ", "B": "x=y"}),
        ("=1\nA=2", {"A": "2"}),
        ("", {}),
    ],
)
def test_the_variables_of_a_file_are_those_that_systemd_reads(text: str, variables: dict[str, str]) -> None:
    assert variables_of(text) == variables


def test_a_service_gets_the_variables_of_its_file() -> None:
    document = {
        "unit": "[Service]\nExecStart=vllm serve a/b\nEnvironmentFile=/x\n",
        "environment_files": {"/x": f"{RUNNER}=\\1\nB='a'b"},
    }
    assert container(document).env == {RUNNER: "1", "B": "ab"}
