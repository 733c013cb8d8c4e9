"""The options of programs that start containers: those that only print something, and those that are not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.container_options import FLAGS, VALUE_OPTIONS

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
EXEC = f"docker://{IMAGE} vllm serve a/b"


def engines(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


@table(
    "command",
    [
        *(f"docker --help run {IMAGE} a/b", f"docker run --help {IMAGE} a/b", f"docker -v run {IMAGE} a/b"),
        *(f"podman --version run {IMAGE} a/b", f"docker container --help run {IMAGE} a/b", f"nerdctl -h run {IMAGE}"),
        *(f"docker run -it --help --rm {IMAGE} a/b", f"sudo docker --help run {IMAGE} a/b"),
        *(f"apptainer --help exec {EXEC}", f"apptainer exec --help {EXEC}", f"singularity --version exec {EXEC}"),
        *(f"apptainer exec -h {EXEC}", f"sudo apptainer exec --nv --help {EXEC}"),
    ],
)
def test_a_program_that_only_prints_its_help_starts_no_container(command: str) -> None:
    assert engines({"script": command}) == []
    assert engines({"unit": f"[Service]\nExecStart=/usr/bin/{command}"}) == []


@table(
    ("command", "options"),
    [
        (f"docker run --foo bar {IMAGE} a/b", ["--foo"]),
        (f"docker run --foo {IMAGE} a/b", ["--foo"]),
        (f"docker run --foo=bar --rm --baz 1 {IMAGE} a/b", ["--foo", "--baz"]),
        (f"docker run -Z {IMAGE} a/b", ["-Z"]),
        (f"podman run -itZ {IMAGE} a/b", ["-itZ"]),
        (f"docker run --envs A=1 {IMAGE} a/b", ["--envs"]),
        (f"docker run {'--foo ' * 20}{IMAGE} a/b", ["--foo"]),
        (f"apptainer exec --foo {EXEC}", ["--foo"]),
        (f"apptainer exec --foo=bar --nv {EXEC}", ["--foo"]),
        (f"apptainer exec -cZ {EXEC}", ["-Z"]),
    ],
)
def test_an_option_that_is_not_known_is_doubted(command: str, options: list[str]) -> None:
    (found,) = engines({"script": command})
    doubts = [f"the options `{option}` of the container are not known" for option in options]
    assert (found.words[-1], list(dict.fromkeys(found.doubts)), found.has_hidden_variables) == ("a/b", doubts, True)
    assert len(found.doubts) <= 8


@table(
    "options",
    [
        *(
            "-itd --rm",
            "-h host",
            "-p80:80 -p 81:81",
            "-iu0",
            "-u=0",
            "--rm=false",
            "-e=A=1",
            "--ipc=host --shm-size 1g",
        ),
        *("-itv /a:/b", "-P -q", "--ulimit memlock=-1 --ulimit stack=67108864", "--security-opt seccomp=unconfined"),
        *("--health-cmd 'curl x' --restart always", "--pull=always --platform linux/amd64", "--log-level debug"),
        *(f"{option} x" for option in sorted(VALUE_OPTIONS - {"--env", "--env-file", "--entrypoint", "--env-merge"})),
        *sorted(FLAGS - {"--env-host"}),
    ],
)
def test_known_options_are_passed(options: str) -> None:
    (found,) = engines({"script": f"docker run {options} {IMAGE} a/b"})
    assert (found.words[-1], found.doubts, found.has_hidden_variables) == ("a/b", [], False)


@table("name", ["f", "0", "F", "false", "FALSE", "t", "x.env"])
@table("program", ["docker", "podman"])
def test_a_file_of_variables_may_have_any_name(program: str, name: str) -> None:
    for option in (f"--env-file {name}", f"--env-file={name}"):
        (found,) = engines({"script": f"{program} run {option} {IMAGE} a/b"})
        assert found.has_hidden_variables


@pytest.mark.parametrize("option", ['-e "$E"', "-e $E", '-e "$E=0"', '--env="$E"', '-e "A$E=0"'])
def test_a_variable_whose_name_is_not_known_may_be_any(option: str) -> None:
    (found,) = engines({"script": f"docker run {option} {IMAGE} a/b"})
    assert (found.words[-1], found.has_hidden_variables) == ("a/b", True)
    (found,) = engines({"script": f"docker run -e A=0 {option} -e B=0 {IMAGE} a/b"})
    assert (found.env["A"], found.env["B"]) == (None, "0")


@table(
    "options",
    [
        "--nv --writable-tmpfs -c",
        "-B /a:/b --pwd /x",
        "-cefH /x",
        "--no-home --fakeroot --ipc",
        "-e",
        "--cleanenv=true",
    ],
)
def test_known_options_of_apptainer_are_passed(options: str) -> None:
    (found,) = engines({"script": f"apptainer exec {options} {EXEC}"})
    assert (found.words[-1], found.doubts, found.has_hidden_variables) == ("a/b", [], False)


@table(
    ("command", "words"),
    [
        (f'docker run --entrypoint "" {IMAGE} vllm serve a/b', ["vllm", "serve", "a/b"]),
        (f"docker run --entrypoint= {IMAGE} vllm serve a/b", ["vllm", "serve", "a/b"]),
        (f"docker run --entrypoint vllm --entrypoint '' {IMAGE} vllm serve a/b", ["vllm", "serve", "a/b"]),
        (f"docker run --entrypoint '' {IMAGE}", None),
        (f"docker run --entrypoint '' {IMAGE} sleep 5", None),
        (f"""podman run --entrypoint '["vllm", "serve"]' {IMAGE} a/b""", ["vllm", "serve", "a/b"]),
        (
            f"""/usr/bin/podman run --entrypoint='["env","A=b","vllm"]' {IMAGE} serve a/b""",
            ["env", "A=b", "vllm", "serve", "a/b"],
        ),
        (f"""podman run --entrypoint '[]' {IMAGE} vllm serve a/b""", ["vllm", "serve", "a/b"]),
        (f"""podman run --entrypoint '["sleep"]' {IMAGE} 5""", None),
    ],
)
def test_an_entry_point_may_be_empty_and_podman_s_a_list(command: str, words: list[str] | None) -> None:
    found = engines({"script": command})
    assert [each.words for each in found] == ([] if words is None else [words])
    assert [each.problem for each in found] == [""] * len(found)


@pytest.mark.parametrize("program", ['["vllm","serve"]', '["vllm",', '["vllm",1]'])
def test_a_list_is_the_name_of_a_program_where_it_is_not_read(program: str) -> None:
    container = "docker" if program.endswith("]") and "1" not in program else "podman"
    found = engines({"script": f"{container} run --entrypoint '{program}' {IMAGE} vllm serve a/b"})
    assert [each.words[0] for each in found] == [program]


def test_podman_s_unit_has_an_entry_point_as_a_list() -> None:
    (found,) = engines({"unit": f'[Container]\nImage={IMAGE}\nEntrypoint=["vllm","serve"]\nExec=a/b\n'})
    assert found.words == ["vllm", "serve", "a/b"]


@pytest.mark.parametrize("options", ["-name x", "-network host", "-name=x", "-rm -it", "-name x -it"])
def test_long_options_with_one_dash_are_refused(options: str) -> None:
    (found,) = engines({"script": f"docker run {options} {IMAGE} a/b"})
    unread = options.split(maxsplit=1)[0].partition("=")[0]
    assert (found.words[-1], found.doubts) == ("a/b", [f"the options `{unread}` of the container are not known"])
