"""The variables that a container gets from its command, after the programs before `docker run` and the like."""

from __future__ import annotations

import os
import subprocess
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from pathlib import Path

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
RUN = f"docker run -e V {IMAGE} a/b"
EXEC = f"apptainer exec docker://{IMAGE} vllm serve a/b"
CHANGES = "`{}` may change the variables of what it starts"
UNREAD = "the script `./start.sh` is not read and may change what it starts"


def engines(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def engine(document: dict[str, Any]) -> Container:
    (found,) = engines(document)
    assert found.words[-1] == "a/b"
    return found


COMMANDS: list[tuple[str, str | None, list[str]]] = [
    *((f"{before} {RUN}", "0", []) for before in ("", "nice -n 5", "timeout -k 5 5m", "nohup", "exec")),
    *((f"{before} {RUN}", "0", []) for before in ("numactl -m 0", "env A=b", "env -u A", "env -C /x", "gosu x")),
    (f"exec -c {RUN}", None, []),
    *((f"{before} {RUN}", "2", []) for before in ("V=2", "env V=2", "env -i V=2", "exec env V=2", "nice env V=2")),
    *(
        (f"{program} {RUN}", None, [CHANGES.format(program)])
        for program in ("sudo", "doas", "srun", "su", "runuser", "chroot", "systemd-run", "mpirun", "strace", "dotenv")
    ),
    (f"sudo -E {RUN}", None, [CHANGES.format("sudo")]),
    (f"sudo V=2 {RUN}", None, [CHANGES.format("sudo")]),
    (f"sudo -u docker {RUN}", None, [CHANGES.format("sudo")]),
    (f"V=2 sudo nice {RUN}", None, [CHANGES.format("sudo")]),
    (f"sudo env V=2 {RUN}", "2", [CHANGES.format("sudo")]),
    (f"srun --export=NONE {RUN}", None, [CHANGES.format("srun")]),
    (f"conda run -n x {RUN}", None, [CHANGES.format("conda")]),
    (f"/usr/bin/sudo /usr/bin/{RUN}", None, [CHANGES.format("sudo")]),
    *((f"{program} {RUN}", None, [CHANGES.format(program)]) for program in ("flock /x", "./start", "ssh node1")),
    (f"./start.sh {RUN}", "0", [UNREAD]),
    *((f"sudo {RUN.replace('docker', program)}", None, [CHANGES.format("sudo")]) for program in ("podman", "nerdctl")),
    (f"ID=$(sudo {RUN})", None, [CHANGES.format("sudo")]),
    (f"sudo docker create -e V {IMAGE} a/b", None, [CHANGES.format("sudo")]),
    (f"sudo docker run --env V {IMAGE} a/b", None, [CHANGES.format("sudo")]),
    (f"sudo docker run -e V=1 {IMAGE} a/b", "1", []),
    (f"sudo docker run -e V=$V {IMAGE} a/b", "0", []),
    (f"flock /x docker run -e V=1 {IMAGE} a/b", "1", []),
    (f"env V=2 {EXEC}", "2", []),
    (f"env -u V {EXEC}", None, []),
    *((f"{program} {EXEC}", None, [CHANGES.format(program)]) for program in ("sudo", "doas", "srun")),
    (f"srun --export=ALL,V=1 {EXEC}", None, [CHANGES.format("srun")]),
    (f"sudo -u apptainer {EXEC}", None, [CHANGES.format("sudo")]),
]


@table(("command", "value", "doubts"), COMMANDS)
def test_programs_before_a_container_change_the_variables_that_it_gets(
    command: str, value: str | None, doubts: list[str]
) -> None:
    doubts = [doubt.replace("flock /x", "flock").replace("ssh node1", "ssh") for doubt in doubts]
    found = engine({"script": f"export V=0\n{command}\n"})
    assert (found.env["V"], found.doubts, found.notes) == (value, doubts, doubts)


REMOVES = (
    *("env -i", "env -", "env -u V", "env -uV A=b", "env --unset=V", "env --ignore-environment"),
    *("nice env -u V", "env V=2 env -i", "env -i A=b", "env -u V nice"),
)


@table("program", ["docker", "podman", "nerdctl"])
@table("before", REMOVES)
@table("outer", ["export V=0; ", ""])
def test_a_container_does_not_get_a_variable_that_is_certainly_removed(outer: str, before: str, program: str) -> None:
    found = engine({"script": f"{outer}{before} {RUN.replace('docker', program)}"})
    assert (found.env, found.doubts, found.notes) == ({}, [], [])
    found = engine({"unit": f"[Service]\nEnvironment=V=0\nExecStart=/usr/bin/{before} /usr/bin/{RUN}"})
    assert found.env == {}


@table(
    "before",
    ["", "env -u A", "sudo env -u V", "env -u V sudo", "sudo -E", "flock /x", "nice", "env V=$X", "env -u V env V=$X"],
)
def test_a_variable_that_nothing_shows_is_not_known_in_a_container(before: str) -> None:
    assert engine({"script": f"{before} {RUN}"}).env == {"V": None}


def test_a_program_that_is_not_known_may_change_the_variables_that_a_container_gets() -> None:
    found, _ = engines({"script": f"export V=0\n$SUDO {RUN}"})
    assert (found.path, found.env, found.doubts[1:]) == ("script[0]", {"V": None}, [CHANGES.format("$SUDO")])


@pytest.mark.parametrize("program", ["sudo", "doas", "srun --export=NONE"])
def test_variables_that_a_container_gets_by_an_unknown_program_may_have_other_names(program: str) -> None:
    found = engine({"script": f"{program} {EXEC}"})
    assert (found.env, found.has_hidden_variables, len(found.doubts)) == ({}, True, 1)
    assert len(engine({"script": f"{program} podman run --env-host {IMAGE} a/b"}).doubts) == 1


def test_a_model_in_a_variable_that_sudo_removes_is_not_known() -> None:
    script = f"export MODEL=a/b\nsudo docker run -e MODEL --entrypoint bash {IMAGE} -c 'vllm serve $MODEL'"
    (found,) = engines({"script": script})
    assert (found.env, found.doubts) == ({"MODEL": None}, [CHANGES.format("sudo")])


@table(
    "command",
    ["sudo --help", "env -0", "timeout --version", "echo", "printf %s", "grep", "command -v", "taskset -p"],
)
def test_a_container_that_nothing_starts_is_no_engine(command: str) -> None:
    assert engines({"script": f"{command} {RUN}"}) == []
    assert engines({"unit": f"[Service]\nExecStart={command} {RUN}"}) == []


def test_a_container_after_the_end_of_a_script_is_doubted() -> None:
    assert engine({"script": f"exit 0\n{RUN}"}).doubts == ["`exit 0` ends the script before it starts vLLM"]
    assert engine({"script": f"if false; then {RUN}; fi"}).doubts == ["the commands after `if false` never run"]


@pytest.mark.parametrize(
    ("start", "value", "doubts"),
    [
        (f"/usr/bin/{RUN}", "0", []),
        (f"/usr/bin/sudo /usr/bin/{RUN}", None, [CHANGES.format("sudo")]),
        (f"/usr/bin/env V=2 /usr/bin/{RUN}", "2", []),
        (f"/usr/bin/sudo /usr/bin/docker run -e V=1 {IMAGE} a/b", "1", []),
        (f"/usr/bin/srun --export=NONE {EXEC}", None, [CHANGES.format("srun")]),
    ],
)
def test_programs_before_a_container_of_a_service(start: str, value: str | None, doubts: list[str]) -> None:
    found = engine({"unit": f"[Service]\nEnvironment=V=0\nExecStart={start}\n"})
    assert (found.env["V"], found.doubts) == (value, doubts)


@pytest.mark.parametrize(
    ("command", "is_hidden"), [(RUN, True), (EXEC, True), (f"docker run -e V=1 {IMAGE} a/b", False)]
)
def test_a_container_of_a_service_gets_variables_of_files_that_are_not_shown(command: str, *, is_hidden: bool) -> None:
    found = engine({"unit": f"[Service]\nEnvironment=V=0\nEnvironmentFile=/x\nExecStart=/usr/bin/{command}\n"})
    notes = ["`EnvironmentFile` takes variables from `/x`, which is not shown"] if is_hidden else []
    assert (found.has_hidden_variables, found.notes) == (is_hidden, notes)


@pytest.mark.parametrize("shell", ["bash", "dash"])
@pytest.mark.parametrize(
    "before",
    [
        *(
            "",
            "V=1",
            "env",
            "env V=1",
            "env -u V",
            "env -i",
            "env -i V=1",
            "env - A=b",
            "env -uV nice",
            "nohup",
            "nice",
        ),
        *("V=1 env -u V", "env V=1 env V=2", "timeout 9", "timeout 9 env V=1", "stdbuf -oL", "setsid -w", "exec"),
        *("command", "V=1 command", "exec env V=1", "env -S 'V=3 nice'", "env -S 'V=${V}3'"),
    ],
)
def test_a_known_value_is_that_which_the_container_program_gets(tmp_path: Path, shell: str, before: str) -> None:
    docker = tmp_path / "docker"
    docker.write_text('#!/bin/sh\necho "<${V-unset}>"\n')
    docker.chmod(0o755)
    script = f"export V=0\n{before} {tmp_path}/{RUN}\n"
    done = subprocess.run([shell, "-c", script], env=dict(os.environ), capture_output=True, text=True, check=True)
    value = engine({"script": script}).env.get("V", "unset")
    assert done.stdout == f"<{value}>\n"
