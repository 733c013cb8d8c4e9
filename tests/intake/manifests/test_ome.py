"""OME's services and runtimes: how they are merged, and what cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"


def document(kind: str, spec: dict[str, Any], name: str = "x", **metadata: str) -> dict[str, Any]:
    return {"apiVersion": "ome.io/v1beta1", "kind": kind, "metadata": {"name": name, **metadata}, "spec": spec}


def runtime(kind: str, *args: str, formats: list[dict[str, Any]] | None = None, **metadata: str) -> dict[str, Any]:
    runner = {"image": IMAGE, "command": ["vllm", "serve", "$(MODEL_PATH)"], "args": list(args)}
    return document(kind, {"supportedModelFormats": formats or [], "engineConfig": {"runner": runner}}, **metadata)


def service(engine: dict[str, Any] | None, **spec: Any) -> dict[str, Any]:
    fields = {"runtime": {"name": "x"}, **({} if engine is None else {"engine": engine}), **spec}
    return document("InferenceService", fields, "s", namespace="a")


def last(*documents: dict[str, Any]) -> Container:
    faults: list[RequestFault] = []
    found = read_manifest(list(documents), "", faults)
    assert faults == []
    return found[-1]


@pytest.mark.parametrize(
    ("documents", "args"),
    [
        ([runtime("ClusterServingRuntime", "-tp=1")], ["-tp=1"]),
        ([runtime("ClusterServingRuntime", "-tp=1"), runtime("ServingRuntime", "-tp=2", namespace="a")], ["-tp=2"]),
        ([runtime("ClusterServingRuntime", "-tp=1"), runtime("ServingRuntime", "-tp=2", namespace="b")], ["-tp=1"]),
    ],
)
def test_a_runtime_of_the_namespace_comes_before_one_of_the_cluster(
    documents: list[dict[str, Any]], args: list[str]
) -> None:
    assert last(*documents, service({})).words == ["vllm", "serve", "$(MODEL_PATH)", *args]


@pytest.mark.parametrize("is_disabled", [True, False])
def test_a_disabled_runtime_is_a_problem(*, is_disabled: bool) -> None:
    found = runtime("ClusterServingRuntime")
    problem = last(found | {"spec": found["spec"] | {"disabled": is_disabled}}, service({})).problem
    assert problem == (
        "the runtime is disabled (`spec.disabled`), so that OME starts nothing; enable it, or name another one"
        if is_disabled
        else ""
    )


def test_the_arguments_of_a_service_replace_those_of_its_runtime() -> None:
    found = last(runtime("ClusterServingRuntime", "-tp=1"), service({"runner": {"args": ["-pp=2"]}}))
    assert (found.path, found.words[3:]) == ("[1].spec.engine.runner", ["-pp=2"])


def test_an_accelerator_class_is_a_doubt() -> None:
    formats = [{"acceleratorConfig": {"h100": {"runtimeArgsOverride": ["-tp=8"]}}}]
    found = last(runtime("ClusterServingRuntime", formats=formats), service({}))
    assert found.doubts == [
        "an AcceleratorClass of the cluster may override arguments and variables (`acceleratorConfig`)"
    ]


@pytest.mark.parametrize(
    ("given", "count"),
    [
        (service({}), 0),
        (service(None, runtime={"name": "vllm-x"}), 0),
        (service({}, runtime={"name": "vllm-x"}), 1),
        (service({"runner": {"args": ["--max-num-seqs=8"]}}), 1),
        (service({"runner": {"image": "lmsysorg/sglang", "command": ["python3", "-m", "sglang.launch_server"]}}), 0),
    ],
)
def test_a_runtime_that_the_manifest_does_not_show_is_a_problem_with_a_sign_of_vllm(
    given: dict[str, Any], count: int
) -> None:
    faults: list[RequestFault] = []
    found = read_manifest(given, "", faults)
    assert (["is not in the manifest" in each.problem for each in found], faults) == ([True] * count, [])
