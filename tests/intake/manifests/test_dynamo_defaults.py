"""The commands that Dynamo's operator gives to containers that state none."""

from __future__ import annotations

from typing import Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.dynamo import QUOTE_DOUBT
from policy.intake.manifests.dynamo_defaults import SHELL_DOUBT

DYNAMO = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:0.7.0"
VLLM = "vllm/vllm-openai:v0.24.0"
SHELL = ["/bin/sh", "-c"]


def graph(version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    named = {"apiVersion": f"nvidia.com/{version}", "kind": "DynamoGraphDeployment", "metadata": {"name": "g"}}
    return {**named, "spec": spec}


def service(component: str | None, image: str = DYNAMO, **container: Any) -> dict[str, Any]:
    kind = {} if component is None else {"componentType": component}
    return graph(services={"w": {**kind, "extraPodSpec": {"mainContainer": {"image": image, **container}}}})


def component(kind: str, name: str = "main", **fields: Any) -> dict[str, Any]:
    container = {"name": name, "image": DYNAMO, "args": ["vllm serve a/b"]}
    pod = {"containers": [container]}
    return graph("v1beta1", components=[{"name": "w", "type": kind, "podTemplate": {"spec": pod}, **fields}])


def engines(document: dict[str, Any]) -> list[tuple[list[str], list[str]]]:
    """The words of each engine, and the doubts about it."""
    return [(each.words, each.doubts) for each in read_manifest(document, "", [])]


@table("image", [DYNAMO, VLLM])
@table("kind", ["worker", "prefill", "decode", "planner", None])
def test_a_worker_runs_its_arguments_by_a_shell(kind: str | None, image: str) -> None:
    args = ["python3 -m dynamo.vllm --model a/b", "--enforce-eager"]
    assert engines(service(kind, image, args=args)) == [([*SHELL, *args], [])]


@pytest.mark.parametrize(
    ("image", "args", "words"),
    [
        (DYNAMO, ["vllm", "serve", "a/b"], ["vllm", "serve", "a/b"]),
        (
            DYNAMO,
            ["python3", "-m", "dynamo.vllm", "--model", "a/b"],
            ["python3", "-m", "dynamo.vllm", "--model", "a/b"],
        ),
        (VLLM, ["--model", "a/b"], ["--model", "a/b"]),
        (VLLM, [], ["vllm", "serve"]),
    ],
)
def test_what_only_the_entry_point_of_the_image_starts_is_a_doubt(
    image: str, args: list[str], words: list[str]
) -> None:
    assert engines(service("worker", image, args=args)) == [(words, [SHELL_DOUBT])]


@pytest.mark.parametrize(
    ("container", "words"),
    [
        ({"args": ["-m", "dynamo.vllm", "--model", "a/b"]}, ["python3", "-m", "dynamo.vllm", "--model", "a/b"]),
        ({"command": ["vllm", "serve", "a/b"]}, ["vllm", "serve", "a/b", "-m", "dynamo.frontend"]),
        ({"command": ["vllm", "serve"], "args": ["a/b"]}, ["vllm", "serve", "a/b"]),
    ],
)
def test_a_frontend_runs_its_arguments_by_python(container: dict[str, Any], words: list[str]) -> None:
    assert engines(service("frontend", **container)) == [(words, [])]


@pytest.mark.parametrize("container", [{}, {"args": ["-m", "dynamo.frontend", "--router-mode", "kv"]}])
def test_a_frontend_is_no_engine(container: dict[str, Any]) -> None:
    assert engines(service("frontend", **container)) == []


def test_the_picker_of_endpoints_has_no_command_by_default() -> None:
    assert engines(service("epp", VLLM, args=["a/b"])) == [(["vllm", "serve", "a/b"], [])]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        (component("decode"), [*SHELL, "vllm serve a/b"]),
        (component("decode", frontendSidecar="main"), [*SHELL, "vllm serve a/b"]),
        (component("decode", dynamoSidecar="other"), ["vllm serve a/b"]),
        (component("decode", "other"), ["vllm serve a/b"]),
    ],
)
def test_only_the_main_container_of_a_component_has_a_command_by_default(
    document: dict[str, Any], words: list[str]
) -> None:
    assert [found for found, _ in engines(document)] == [words]


def test_the_frontend_beside_a_component_runs_its_arguments_by_python() -> None:
    document = component("decode", "side", frontendSidecar="side")
    container = document["spec"]["components"][0]["podTemplate"]["spec"]["containers"][0]
    container["args"] = ["-m", "vllm.entrypoints.openai.api_server"]
    assert engines(document) == [(["python3", "-m", "vllm.entrypoints.openai.api_server"], [])]


@pytest.mark.parametrize(
    ("args", "expected"),
    [
        (["-m", "vllm.entrypoints.openai.api_server"], [["python3", "-m", "vllm.entrypoints.openai.api_server"]]),
        (["-m", "dynamo.frontend", "--router-mode", "direct"], []),
        (None, []),
    ],
)
def test_the_frontend_that_the_operator_adds_is_read(args: list[str] | None, expected: list[list[str]]) -> None:
    sidecar = {"image": DYNAMO, "args": args}
    document = graph(services={"w": {"componentType": "worker", "frontendSidecar": sidecar}})
    assert [found for found, _ in engines(document)] == expected


ELASTIC = ["a/b", "--enable-elastic-ep", "--data-parallel-backend", "ray", "--served-model-name"]


@table(
    ("args", "value", "is_doubt"),
    [
        ([*ELASTIC, "$(A)"], "x' --enable-dbo 'x", True),
        ([*ELASTIC, "$(A)"], None, True),
        ([*ELASTIC, "$(A)"], 'x "$y"; z', False),
        ([*ELASTIC, "$$(A) it's"], "x'y", False),
        ([*ELASTIC, "$(B)"], "x'y", False),
        (["a/b", "-dpb=ray", "--enable_elastic_ep=true", "--served-model-name=$(A)"], "x'y", True),
        (["a/b", "--served-model-name", "$(A)"], "x'y", False),
        (["a/b", "--no-enable-elastic-ep", "--served-model-name", "x"], "x'y", False),
    ],
)
def test_a_value_that_may_end_the_quotes_of_the_operators_script_is_a_doubt(
    args: list[str], value: str | None, *, is_doubt: bool
) -> None:
    given: dict[str, Any] = {"valueFrom": {"secretKeyRef": {}}} if value is None else {"value": value}
    env = [{"name": "A", **given}]
    container: dict[str, Any] = {"name": "main", "image": VLLM, "command": ["vllm", "serve"], "args": args, "env": env}
    template = {"spec": {"containers": [container]}}
    for document in (
        service("worker", **container),
        graph("v1beta1", components=[{"name": "w", "podTemplate": template}]),
    ):
        ((_, doubts),) = engines(document)
        assert doubts == ([QUOTE_DOUBT.format("`$(A)`")] if is_doubt else [])


def test_so_is_one_in_a_script() -> None:
    script = "vllm serve a/b --enable-elastic-ep --data-parallel-backend ray --served-model-name $(A)"
    env = [{"name": "A", "value": "x'y'"}]
    ((_, doubts),) = engines(service("worker", VLLM, command=SHELL, args=[script], env=env))
    assert QUOTE_DOUBT.format("`$(A)`") in doubts
