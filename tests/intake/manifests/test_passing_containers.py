"""Init containers and ephemeral containers that start vLLM's server, which is not decided."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.pods import PASSING_LISTS, SERVER_PROBLEM

if TYPE_CHECKING:
    from policy.errors import RequestFault

VLLM = "vllm/vllm-openai:v0.33.0"
WEB = {"name": "web", "image": "nginx:1.27"}
GPU = {"limits": {"nvidia.com/gpu": "1"}}
STARTS: list[dict[str, Any]] = [
    {"image": VLLM, "args": ["--model=a/b"]},
    {"image": VLLM},
    {"image": VLLM, "restartPolicy": "OnFailure"},
    {"image": VLLM, "restartPolicy": "Never", "command": ["timeout", "1d", "vllm", "serve", "a/b"]},
    {"image": "own:1", "command": ["sh", "-c", "vllm serve a/b & sleep 9"]},
    {"image": "own:1", "command": ["$(A)", "serve", "a/b"], "env": [{"name": "A", "value": "vllm"}]},
    {"image": "own:1", "command": ["sh", "-c", "ssh node1 'vllm serve a/b'"]},
    {"image": "own:1", "args": ["a/b", "--tensor-parallel-size=2", "--max-num-seqs=4"]},
    {"image": "own:1", "command": ["python", "-m", "huggingfaceserver", "--model_id=a/b"]},
    {"image": "team/our-vllm:1", "resources": GPU},
]
OTHERS: list[dict[str, Any]] = [
    {"image": VLLM, "command": ["sleep", "9"]},
    {"image": VLLM, "command": ["hf", "download", "a/b"]},
    {"image": VLLM, "command": ["vllm", "--version"]},
    {"image": VLLM, "command": ["vllm", "serve", "--help"]},
    {"image": VLLM, "command": ["bash", "/scripts/prepare.sh"]},
    {"image": VLLM, "command": ["python3", "-c", "import vllm"]},
    {"image": "{{ .Values.image }}", "args": ["--model", "a/b"]},
    {"image": VLLM, "command": ["sh", "-c", "until curl -f http://vllm:8000/health; do sleep 1; done"]},
    {"image": "busybox", "command": "vllm serve a/b"},
    {"image": VLLM, "args": [1]},
]


def problems(document: Any) -> dict[str, str]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return {each.path: each.problem for each in found}


def pod_of(field: str, *containers: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [WEB], field: [*containers]}}


@table("field", list(PASSING_LISTS))
@table("container", STARTS)
def test_a_server_that_runs_before_or_besides_the_containers_is_a_problem(
    container: dict[str, Any], field: str
) -> None:
    problem = SERVER_PROBLEM.format({"initContainers": "init container"}.get(field, "ephemeral container"))
    assert problems(pod_of(field, container)) == {f"spec.{field}[0]": problem}


MORE = ["a"] * 5000
LONG: list[dict[str, Any]] = [
    {"image": "own:1", "command": ["sh", "-c", "vllm serve a/b", *MORE]},
    {"image": "own:1", "command": ["sh", "-c", "v''llm serve a/b", *MORE]},
    {"image": "own:1", "command": ["vllm", "serve", "a/b", *MORE]},
    {
        "image": "own:1",
        "command": ["sh", "-c", "$(A)"],
        "args": MORE,
        "env": [{"name": "A", "value": "vllm serve a/b"}],
    },
    {"image": "own:1", "command": ["python", "-m", "huggingfaceserver", "--model_id=a/b", *MORE]},
    {"image": VLLM, "args": ["--model=a/b", *MORE]},
    {"image": "own:1", "command": ["sh", "-c", "vllm serve a/b", "a" * 1_000_001]},
]


@table("field", list(PASSING_LISTS))
@table("container", LONG)
def test_a_command_that_is_too_long_to_be_read_is_a_problem_if_it_names_vllm(
    container: dict[str, Any], field: str
) -> None:
    problem = SERVER_PROBLEM.format({"initContainers": "init container"}.get(field, "ephemeral container"))
    assert problems(pod_of(field, container)) == {f"spec.{field}[0]": problem}
    other = {**container, "env": [{"name": "A", "value": 1}]}  # which the API server refuses
    assert problems(pod_of(field, other)) == {}


@table("field", list(PASSING_LISTS))
def test_one_that_does_not_name_vllm_is_ignored(field: str) -> None:
    assert problems(pod_of(field, {"image": "busybox", "command": ["echo", *MORE]})) == {}


@table("field", list(PASSING_LISTS))
@table("container", OTHERS)
def test_one_that_does_something_else_is_ignored(container: dict[str, Any], field: str) -> None:
    assert problems(pod_of(field, container)) == {}


def test_an_init_container_that_runs_beside_the_others_is_an_engine() -> None:
    container = {**STARTS[0], "restartPolicy": "Always"}
    assert problems(pod_of("initContainers", container)) == {"spec.initContainers[0]": ""}


def test_an_engine_beside_such_a_container_is_decided() -> None:
    document = pod_of("initContainers", {"image": "busybox"}, STARTS[0])
    document["spec"]["containers"] = [{"name": "v", **STARTS[0]}]
    assert problems(document) == {
        "spec.containers[0]": "",
        "spec.initContainers[1]": SERVER_PROBLEM.format("init container"),
    }


def kind(api_version: str, name: str, spec: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": api_version, "kind": name, "metadata": {"name": "a"}, "spec": spec}


POD: dict[str, Any] = {"containers": [WEB], "initContainers": [{"name": "i", **STARTS[0]}]}
TEMPLATE = {"template": {"spec": POD}}
HEAD = {"headGroupSpec": {"rayStartParams": {}, **TEMPLATE}}
KSERVE = "serving.kserve.io/v1beta1"


@table(
    ("document", "path"),
    [
        (kind("apps/v1", "Deployment", TEMPLATE), "spec.template.spec"),
        (kind("batch/v1", "Job", TEMPLATE), "spec.template.spec"),
        (kind("ray.io/v1", "RayCluster", HEAD), "spec.headGroupSpec.template.spec"),
        (kind("ray.io/v1", "RayJob", {"rayClusterSpec": HEAD}), "spec.rayClusterSpec.headGroupSpec.template.spec"),
        (kind(KSERVE, "InferenceService", {"predictor": POD}), "spec.predictor"),
        (kind(KSERVE, "ServingRuntime", POD), "spec"),
        (kind(KSERVE, "LLMInferenceServiceConfig", {"template": POD}), "spec.template"),
        (kind(KSERVE, "LLMInferenceServiceConfig", {"router": {"scheduler": {"template": POD}}}),
         "spec.router.scheduler.template"),
        (kind("ome.io/v1beta1", "InferenceService", {"engine": POD}), "spec.engine"),
        (kind("nvidia.com/v1alpha1", "DynamoGraphDeployment", {"services": {"a": {"extraPodSpec": POD}}}),
         "spec.services.a.extraPodSpec"),
        (kind("nvidia.com/v1beta1", "DynamoGraphDeployment", {"components": [{"podTemplate": {"spec": POD}}]}),
         "spec.components[0].podTemplate.spec"),
        (kind("example.com/v1", "Own", {"pods": POD}), "spec.pods"),
    ],
)  # fmt: skip
def test_the_pods_of_every_kind_are_read(document: dict[str, Any], path: str) -> None:
    assert problems(document) == {f"{path}.initContainers[0]": SERVER_PROBLEM.format("init container")}


@pytest.mark.parametrize(
    ("container", "expected"),
    [
        (STARTS[0], [SERVER_PROBLEM.format("init container")]),
        ({**STARTS[0], "restartPolicy": "Always"}, [""]),
        ({**STARTS[0], "enabled": False}, []),
        (OTHERS[1], []),
        ({**STARTS[0], "envFrom": 1, "workingDir": 1}, []),
        ({**STARTS[0], "args": MORE}, [SERVER_PROBLEM.format("init container")]),
    ],
)
def test_the_init_containers_of_an_app_template_are_read(container: dict[str, Any], expected: list[str]) -> None:
    container = {**container, "image": {"repository": "vllm/vllm-openai", "tag": "v0.33.0"}}
    main = {"image": {"repository": "nginx", "tag": "1.27"}}
    controller = {"containers": {"main": main}, "initContainers": {"i": container}}
    assert list(problems({"controllers": {"a": controller}}).values()) == expected


def test_faults_of_containers_that_are_not_engines_do_not_count() -> None:
    bad = {"image": VLLM, "env": [{"name": "A", "value": 1}] * 2000}
    documents = [pod_of("initContainers", bad, bad) for _ in range(3)]
    wrong = {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"image": VLLM, "args": [1, 2]}]}}
    assert [len(each.faults) for each in read_manifest([*documents, wrong], "", [])] == [2]
