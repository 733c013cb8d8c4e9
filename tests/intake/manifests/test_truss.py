"""Configurations of a Truss: the server that they start, what is installed in its image, and Python code."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.registry import is_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
RUNS_PYTHON = (
    "Truss runs Python code here, as there is no `docker_server`; it may start vLLM and is not read; send the "
    "arguments that it gives to vLLM as a deployment"
)
COMMENTED = "`docker_server.start_command`: supervisord takes what follows a `;` or `#` after a blank as a comment"
UNREADABLE = "`docker_server.start_command` cannot be read, as supervisord splits it: "


def truss(command: str | None = "vllm serve a/b", **fields: Any) -> dict[str, Any]:
    server = {"server_port": 8000} if command is None else {"start_command": command, "server_port": 8000}
    return {"base_image": {"image": IMAGE}, "docker_server": server, **fields}


def read(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    containers = read_manifest(document, "/manifest", faults)
    assert faults == []
    return containers


@table(
    ("command", "words", "notes"),
    [
        ("vllm serve a/b --enable-dbo", ["vllm", "serve", "a/b", "--enable-dbo"], []),
        ("vllm serve a/b\n  --enable-dbo\n", ["vllm", "serve", "a/b", "--enable-dbo"], []),
        ("vllm serve 'a/b' -x \"my model\"", ["vllm", "serve", "a/b", "-x", "my model"], []),
        (r'sh -c "vllm serve a/b --x \"{}\""', ["sh", "-c", 'vllm serve a/b --x "{}"'], []),
        ("vllm serve a/b && sleep 1", ["vllm", "serve", "a/b", "&&", "sleep", "1"], []),
        ("vllm serve $$A $(B)", ["vllm", "serve", "$$$$A", "$$(B)"], []),
        ("vllm serve a/b --x 5%%", ["vllm", "serve", "a/b", "--x", "5%"], []),
        ("vllm serve a/b # --enable-dbo", ["vllm", "serve", "a/b"], [COMMENTED]),
        ("vllm serve a/b ; sleep 1\n--enable-dbo", ["vllm", "serve", "a/b", "--enable-dbo"], [COMMENTED]),
        ("vllm serve a/b;x", ["vllm", "serve", "a/b;x"], []),
        ("python3 -m vllm.entrypoints.openai.api_server --model a/b", None, []),
    ],
)
def test_supervisord_splits_the_start_command(command: str, words: list[str] | None, notes: list[str]) -> None:
    (container,) = read(truss(command))
    assert (container.words, container.notes) == (command.split() if words is None else words, notes)


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ('sh -c "vllm serve a/b', f"{UNREADABLE}a quote is not closed"),
        ("vllm serve a/b \\", f"{UNREADABLE}nothing follows the last backslash"),
        ("vllm serve %(ENV_MODEL)s", f"{UNREADABLE}`%` begins a substitution; write `%%` for a percent sign"),
        (
            'sh -c "cd /x ; vllm serve a/b"',
            f'{UNREADABLE}a quote is not closed, after the comment that a `;` or `#` begins: `sh -c "cd /x `',
        ),
    ],
)
def test_a_start_command_that_supervisord_refuses_is_a_problem(command: str, problem: str) -> None:
    (container,) = read(truss(command))
    assert (container.path, container.problem) == ("base_image", problem)


def test_without_a_build_a_shell_starts_the_image_as_it_is() -> None:
    server = {"start_command": "A=1 vllm serve a/b ; true", "no_build": True}
    (container,) = read(truss(docker_server=server, requirements=["vllm==0.33.0"]))
    assert (container.words, container.vllm_version) == (["sh", "-c", "A=1 vllm serve a/b ; true"], "0.23.0")
    (container,) = read(truss(docker_server={"no_build": True}))
    assert container.words == ["vllm", "serve"]


@table(
    ("fields", "version", "cause"),
    [
        ({}, "0.23.0", ""),
        ({"requirements": ["vllm[audio]==0.33.0"]}, "0.33.0", "`pip install` installs vLLM 0.33.0 before the start"),
        ({"requirements": ["vllm[audio]"]}, "0.23.0", "`pip install` may install another vLLM before the start"),
        ({"requirements": ["transformers>=4.55", "# vllm==0.33.0"]}, "0.23.0", ""),
        ({"requirements_file": "./a.txt"}, "0.23.0", "`pip install` may install another vLLM before the start"),
        (
            {"requirements": ["vllm==0.33.0"], "build_commands": ["apt-get update", "pip install vllm==0.24.0"]},
            "0.24.0",
            "`pip install` installs vLLM 0.24.0 before the start",
        ),
    ],
)
def test_what_is_installed_in_the_image_decides_the_version(fields: dict[str, Any], version: str, cause: str) -> None:
    (container,) = read(truss(**fields))
    installed = "" if container.installation is None else container.installation.cause
    assert (container.vllm_version, installed) == (version, cause)


@pytest.mark.parametrize(
    ("fields", "models", "notes"),
    [
        ({"weights": [{"source": "hf://a/b@rev", "mount_location": "/m"}]}, {"/m": "a/b"}, []),
        (
            {"weights": [{"source": "s3://bucket/b", "mount_location": "/m"}]},
            {"/m": "/m"},
            ["the model of `s3://bucket/b` is mounted at `/m`; give its config.json under that name"],
        ),
        (
            {"model_cache": [{"repo_id": "a/b", "use_volume": True, "volume_folder": "b"}]},
            {"/app/model_cache/b": "a/b"},
            [],
        ),
        ({"model_cache": [{"repo_id": "a/b", "use_volume": False}]}, {}, []),
    ],
)
def test_mounted_models_have_the_names_of_their_paths(
    fields: dict[str, Any], models: dict[str, str], notes: list[str]
) -> None:
    (container,) = read(truss(**fields))
    assert (container.models, container.notes) == (models, notes)


@table(
    ("document", "path"),
    [
        ({"base_image": {"image": IMAGE}, "model_name": "a"}, "base_image"),
        ({"model_name": "a", "requirements": ["vllm==0.6.1"]}, ""),
        ({"model_name": "a", "python_version": "py311", "build_commands": ["pip install vllm"]}, ""),
        ({"model_name": "a", "environment_variables": {"VLLM_LOGGING_LEVEL": "INFO"}}, ""),
        ({"model_name": "a", "requirements": ["transformers"], "secrets": {"hf": None}}, None),
        ({"base_image": {"image": "baseten/trtllm-server:r24"}, "python_version": "py310"}, None),
    ],
)
def test_python_code_is_a_problem_if_it_may_start_vllm(document: dict[str, Any], path: str | None) -> None:
    expected = [] if path is None else [(path, RUNS_PYTHON)]
    assert is_manifest(document)
    assert [(container.path, container.problem) for container in read(document)] == expected


@pytest.mark.parametrize(
    "document",
    [
        truss("python3 -m sglang.launch_server --model a/b"),
        truss("/start.sh", base_image={"image": "example.com/own:1"}),
        {"docker_server": {"start_command": "text-generation-launcher"}, "base_image": {"image": "tgi:1"}},
    ],
)
def test_a_server_that_is_not_vllm_is_passed_over(document: dict[str, Any]) -> None:
    assert (is_manifest(document), read(document)) == (True, [])


@pytest.mark.parametrize("package", ["vllm==0.33.0", "https://example.com/vllm-0.33.0-cp38-abi3-linux_x86_64.whl"])
def test_a_script_may_start_the_vllm_that_is_installed(package: str) -> None:
    base = {"image": "example.com/own:1"}
    (container,) = read(truss("sh -c '/app/data/start.sh'", base_image=base, requirements=[package]))
    assert (container.path, container.words) == ("base_image", ["sh", "-c", "/app/data/start.sh"])
    assert read(truss("sh -c '/app/data/start.sh'", base_image=base)) == []
    assert read(truss("nginx", base_image=base, requirements=[package])) == []


@pytest.mark.parametrize("document", [{"requirements": ["vllm"]}, {"base_image": "x"}, {"model_name": "x"}])
def test_a_single_field_shows_no_truss(document: dict[str, Any]) -> None:
    assert not is_manifest(document)
