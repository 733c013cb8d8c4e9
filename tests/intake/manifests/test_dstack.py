"""Tasks and services of dstack: their commands, groups, variables and sizes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.errors import RequestFault
from policy.intake.manifests.registry import is_manifest

if TYPE_CHECKING:
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
SERVE = ["vllm serve a/b"]


def task(**fields: Any) -> dict[str, Any]:
    return {"type": "task", "image": IMAGE, "commands": SERVE, **fields}


def read(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    containers = read_manifest(document, "/manifest", faults)
    assert faults == []
    return containers


@table(
    ("fields", "words"),
    [
        ({}, ["/bin/sh", "-i", "-c", "vllm serve a/b"]),
        ({"image": None}, ["/bin/bash", "-i", "-c", "vllm serve a/b"]),
        ({"shell": "bash"}, ["bash", "-i", "-c", "vllm serve a/b"]),
        ({"commands": ["sleep 1 &", "vllm serve a/b\n"]}, ["/bin/sh", "-i", "-c", "{ sleep 1 & } && vllm serve a/b"]),
        ({"commands": ["vllm serve $A $(B)"]}, ["/bin/sh", "-i", "-c", "vllm serve $$A $$(B)"]),
        ({"commands": [], "image": IMAGE}, ["vllm", "serve"]),
        ({"entrypoint": "vllm 'serve'", "commands": ["a/b", "--x 1"]}, ["vllm", "serve", "a/b", "--x 1"]),
    ],
)
def test_a_shell_or_the_entry_point_runs_the_commands(fields: dict[str, Any], words: list[str]) -> None:
    (container,) = read(task(**fields))
    assert (container.path, container.words) == ("", words)


def test_an_entry_point_that_cannot_be_split_is_a_fault() -> None:
    faults: list[RequestFault] = []
    document = task(entrypoint="vllm 'serve")
    assert read_manifest(document, "/manifest", faults) == []
    assert faults == [RequestFault("/manifest/entrypoint", "a quote is not closed, so dstack refuses it")]


@table(
    ("gpu", "count"),
    [
        ("H100:4", "4"),
        ("A100:80GB:8", "8"),
        ("nvidia: 2", "2"),
        (8, "8"),
        ("0", "0"),
        ({"name": "H100", "count": 2}, "2"),
        ("H100", None),
        ("24GB", None),
        ("H100:1..2", None),
        ({"count": {"min": 1, "max": 2}}, None),
        (True, None),
        (None, None),
    ],
)
def test_the_number_of_gpus_is_that_of_the_resources(gpu: object, count: str | None) -> None:
    (container,) = read(task(resources={"gpu": gpu}))
    assert [container.env[f"DSTACK_GPUS_{name}"] for name in ("PER_NODE", "NUM")] == [count, count]


@pytest.mark.parametrize(
    ("env", "variables"),
    [
        ({"A": 1, "B": "x", "C": None, "D": "${{ secrets.d }}"}, {"A": "1", "B": "x", "C": None, "D": None}),
        (["A=1", "B", "C=${{ secrets.c }}", "D=x=y"], {"A": "1", "B": None, "C": None, "D": "x=y"}),
        ({"DSTACK_GPUS_NUM": "2"}, {"DSTACK_GPUS_NUM": "2"}),
    ],
)
def test_variables_without_a_value_are_not_known(env: object, variables: dict[str, str | None]) -> None:
    (container,) = read(task(env=env))
    assert {name: container.env[name] for name in variables} == variables


def test_the_nodes_of_a_task_run_together() -> None:
    groups = [
        {"commands": SERVE, "nodes": 2, "resources": {"gpu": "H100:8"}},
        {"commands": ["sleep infinity"], "resources": {"gpu": "H100:4"}},
    ]
    (container,) = read({"type": "task", "image": IMAGE, "groups": groups})
    names = ("DSTACK_NODES_NUM", "DSTACK_GPUS_PER_NODE", "DSTACK_GPUS_NUM", "DSTACK_NODE_RANK")
    assert (container.path, [container.env[name] for name in names]) == ("groups[0]", ["3", "8", "20", None])


@pytest.mark.parametrize("field", ["groups", "replicas"])
def test_each_group_of_a_service_may_have_an_image(field: str) -> None:
    groups = [
        {"commands": SERVE, "image": "vllm/vllm-openai:v0.33.0", "resources": {"gpu": "H100:2"}},
        {"commands": SERVE, "resources": {"gpu": "H100:4"}},
        {"commands": ["python3 -m router"]},
    ]
    found = read({"type": "service", "port": 8000, "image": IMAGE, field: groups})
    assert [(each.path, each.vllm_version, each.env["DSTACK_GPUS_NUM"]) for each in found] == [
        (f"{field}[0]", "0.33.0", "2"),
        (f"{field}[1]", "0.23.0", "4"),
    ]


@pytest.mark.parametrize(
    ("command", "version", "likely"),
    [
        ("pip install vllm==0.33.0", "0.33.0", None),
        ("uv pip install vllm==0.33.0", None, "0.33.0"),  # it is not known whether an environment is active
    ],
)
def test_an_installation_before_the_start_decides_the_version(
    command: str, version: str | None, likely: str | None
) -> None:
    (container,) = read({"type": "task", "commands": [command, "vllm serve a/b"]})
    assert (container.image, container.vllm_version, container.likely_version) == (None, version, likely)


@pytest.mark.parametrize("volume", ["data:/usr/local/lib", {"instance_path": "/x", "path": "/usr/local/lib"}])
def test_a_volume_may_have_another_vllm(volume: object) -> None:
    (container,) = read(task(volumes=[volume]))
    assert container.installation is not None
    assert container.installation.cause == "the mount at `/usr/local/lib` may make another vLLM run"


@pytest.mark.parametrize(
    ("document", "counts"),
    [
        (task(commands=["python train.py"], image="own:1"), True),
        ({"type": "service", "port": 80, "commands": ["python -m sglang.launch_server"]}, True),
        ({"type": "service", "commands": SERVE}, False),
        ({"type": "fleet", "nodes": 2}, False),
        ({"type": "dev-environment", "ide": "vscode"}, False),
    ],
)
def test_other_runs_have_no_engine(document: dict[str, Any], counts: bool) -> None:  # noqa: FBT001
    assert is_manifest(document) == counts
    assert not counts or read(document) == []


@table(
    ("gpu", "platforms"),
    [
        ("H100:80GB:4", ["cuda"]),
        ("24GB", []),
        (2, []),
        ("amd:1", ["rocm"]),
        ("MI300X:8", ["rocm"]),
        ({"vendor": "amd", "count": 1}, ["rocm"]),
        ({"name": ["A100", "H100"], "count": 2}, ["cuda"]),
        ({"vendor": "google", "name": "v5litepod-4"}, ["tpu"]),
        ({"name": 7}, []),
        ("A100,MI300X", ["cuda", "rocm"]),
        (None, []),
    ],
)
def test_the_gpus_show_the_platform(gpu: object, platforms: list[str]) -> None:
    (found,) = read(task(resources={"gpu": gpu}))
    assert [(sign.platform, sign.place) for sign in found.hardware] == [(name, "resources.gpu") for name in platforms]
