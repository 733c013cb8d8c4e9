"""OME's services and runtimes: how they are merged, and what cannot be known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.intake.manifests import registry

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


COMMAND: dict[str, Any] = {"image": IMAGE, "command": ["vllm", "serve", "$(MODEL_PATH)"]}
FIRST = {"name": "first", **COMMAND, "args": ["-tp=1"]}
NAMED = {"name": "my-OME-container", **COMMAND, "args": ["-tp=2"]}
OWN = {"name": "web", "image": "nginx:1.27"}


def predicting(predictor: Any, **spec: Any) -> dict[str, Any]:
    return document("InferenceService", {"predictor": predictor, **spec}, "s", namespace="a")


@table(
    ("predictor", "words"),
    [
        ({"containers": [FIRST]}, {"containers[0]": "-tp=1"}),
        ({"containers": [OWN, NAMED]}, {"containers[1]": "-tp=2"}),
        ({"containers": [FIRST, NAMED]}, {"containers[1]": "-tp=2", "containers[0]": "-tp=1"}),
        ({"containers": [None, FIRST]}, {"containers[1]": "-tp=1"}),
        ({"containers": [OWN]}, {}),
        ({"containers": [OWN], "workerSpec": {"size": 1, "runner": FIRST}}, {"workerSpec.runner": "-tp=1"}),
        ({"containers": [OWN], "workerSpec": {"containers": [FIRST]}}, {"workerSpec.containers[0]": "-tp=1"}),
        ({"model": {"name": "m", **FIRST}}, {"runner": "-tp=1"}),
        ({"model": {"baseModel": "m"}}, {}),
        ({}, {}),
    ],
)
def test_a_predictor_is_the_engine_that_ome_makes_of_it(predictor: dict[str, Any], words: dict[str, str]) -> None:
    found = read_manifest(predicting(predictor), "", [])
    assert {each.path: each.words[-1] for each in found if not each.faults} == {
        f"spec.predictor.{path}": last for path, last in words.items()
    }


def test_a_predictor_beside_an_engine_is_not_read() -> None:
    engine = {"runner": {**COMMAND, "args": ["-tp=3"]}}
    found = read_manifest(predicting({"containers": [FIRST]}, engine=engine), "", [])
    assert [each.path for each in found] == ["spec.engine.runner"]


def test_a_predictor_that_is_not_an_object_is_a_fault() -> None:
    faults: list[RequestFault] = []
    assert read_manifest(predicting("x"), "", faults) == []
    assert [fault.pointer for fault in faults] == ["/spec/predictor"]


def test_a_predictor_has_the_runtime_and_the_model_that_it_names() -> None:
    models = document("ClusterBaseModel", {"storage": {"path": "/m", "storageUri": "hf://a/b"}}, "m")
    one = predicting({"model": {"runtime": "x", "baseModel": "m"}})
    found = last(models, runtime("ClusterServingRuntime", "-tp=1"), one)
    assert (found.path, found.words[-1], found.env["MODEL_PATH"], found.models) == (
        "[2].spec.predictor.runner",
        "-tp=1",
        "/m",
        {"/m": "a/b"},
    )
    merged = last(
        models,
        runtime("ClusterServingRuntime", "-tp=1"),
        predicting({"containers": [NAMED], **one["spec"]["predictor"]}),
    )
    assert (merged.path, merged.words[-1], merged.doubts) == ("[2].spec.predictor.containers[0]", "-tp=2", [])


@table(
    ("spec", "doubts"),
    [
        ({"predictor": {"model": {"name": "m", **FIRST}}}, ["releases of OME differ"]),
        ({"predictor": {"containers": [FIRST], "model": {"env": [{"name": "A", "value": "1"}]}}}, ["releases of OME"]),
        ({"predictor": {"containers": [FIRST], "model": {"runtime": "other"}}}, ["the runtime `other` is not in"]),
        ({"engine": {"runner": FIRST}, "runtime": {"name": "other"}}, ["the runtime `other` is not in"]),
        ({"engine": {"runner": FIRST}, "runtime": {"name": "x"}}, []),
        ({"engine": {"runner": FIRST}}, []),
    ],
)
def test_what_is_not_certain_of_a_service_is_a_doubt(spec: dict[str, Any], doubts: list[str]) -> None:
    found = last(runtime("ClusterServingRuntime"), document("InferenceService", spec, "s")).doubts
    assert [each[: len(start)] for each, start in zip(found, doubts, strict=True)] == doubts


@pytest.mark.parametrize("spec", [{"engine": {"runner": FIRST}}, {"predictor": {"containers": [FIRST]}}])
def test_in_a_review_the_runtime_of_a_service_that_names_none_is_a_doubt(spec: dict[str, Any]) -> None:
    one = document("InferenceService", spec, "s")
    (found,) = registry.read_manifest(one, "", [], shipped_images(), is_under_review=True)
    assert [each.partition(",")[0] for each in found.doubts] == ["no `runtime` is named"]
    assert last(one).doubts == []


BESIDE = {"name": "v", **COMMAND, "args": ["--enable-dbo"]}


@table(
    ("spec", "paths"),
    [
        ({"engine": {"containers": [BESIDE]}}, ["engine.containers[0]"]),
        ({"engine": {"containers": [OWN, BESIDE]}}, ["engine.containers[1]"]),
        ({"engine": {"containers": [OWN]}}, []),
        (
            {"engine": {"containers": [{"name": "v", "args": ["--max-num-seqs=8", "--enable-dbo"]}]}},
            ["engine.containers[0]"],
        ),
        ({"engine": {"initContainers": [{**BESIDE, "restartPolicy": "Always"}]}}, ["engine.initContainers[0]"]),
        ({"engine": {"initContainers": [BESIDE]}}, ["engine.initContainers[0]"]),
        ({"engine": {}, "decoder": {"containers": [BESIDE]}}, ["decoder.containers[0]"]),
        ({"engine": {}, "router": {"containers": [BESIDE]}}, ["router.containers[0]"]),
        ({"engine": {"runner": {"args": ["-a"]}, "containers": [BESIDE]}}, ["engine.containers[0]"]),
        (
            {"engine": {"runner": {"args": ["--max-num-seqs=8"]}, "containers": [BESIDE]}},
            ["engine", "engine.containers[0]"],
        ),
        ({"predictor": {"model": {"baseModel": "m"}, "initContainers": [BESIDE]}}, ["predictor.initContainers[0]"]),
    ],
)
def test_containers_of_a_part_without_a_runner_are_read(spec: dict[str, Any], paths: list[str]) -> None:
    for reference in ({}, {"runtime": {"name": "x"}}):
        faults: list[RequestFault] = []
        found = read_manifest(document("InferenceService", {**spec, **reference}, "s"), "", faults)
        assert ([each.path for each in found], faults) == ([f"spec.{path}" for path in paths], [])
        doubt = "the runtime `x` is not in the manifest; its own arguments and variables are not known"
        expected = [doubt] if reference else []
        assert all(each.doubts == expected for each in found if not each.problem)


def test_a_container_beside_the_runner_of_a_runtime_is_read() -> None:
    found = read_manifest([runtime("ClusterServingRuntime"), service({"containers": [BESIDE]})], "", [])
    assert [each.path for each in found][1:] == ["[1].spec.engine.runner", "[1].spec.engine.containers[0]"]


def test_a_runner_is_merged_over_the_container_of_its_name() -> None:
    env = [{"name": "A", "value": "1"}, {"name": "B", "value": "1"}, {"name": "MODEL_PATH", "value": "/other"}]
    below = {"name": "ome", "image": "nginx", "command": ["sleep"], "args": ["--enable-dbo"], "env": env}
    runner = {"name": "ome", **COMMAND, "args": ["-tp=1"], "env": [{"name": "B", "value": "2"}]}
    (found,) = read_manifest(
        service({"runner": runner, "containers": [below, BESIDE | {"command": ["sleep"]}]}), "", []
    )
    assert (found.path, found.image) == ("spec.engine.runner", IMAGE)
    assert [*zip(found.words[3:], found.places[3:], strict=True)] == [
        ("--enable-dbo", "containers.args[0]"),
        ("-tp=1", "args[0]"),
    ]
    assert {name: found.env[name] for name in ("A", "B", "MODEL_PATH")} == {"A": "1", "B": "2", "MODEL_PATH": None}


@pytest.mark.parametrize("runner", [{"args": ["-tp=1"]}, {"image": IMAGE}])
def test_a_container_that_a_runner_is_merged_over_is_read_in_a_review(runner: dict[str, Any]) -> None:
    one = service({"runner": {"name": "v", **COMMAND, **runner}, "containers": [BESIDE]})
    found = registry.read_manifest(one, "", [], shipped_images(), is_under_review=True)
    assert [(each.path, each.problem) for each in found] == [("spec.engine.runner", "")]


def test_a_container_gives_a_runner_what_that_does_not_state() -> None:
    (found,) = read_manifest(
        service(
            {
                "runner": {"name": "v", "image": IMAGE, "env": [{"name": "MODEL_PATH", "value": "/m"}]},
                "containers": [BESIDE],
            }
        ),
        "",
        [],
    )
    assert (found.path, found.words, found.env["MODEL_PATH"]) == (
        "spec.engine.runner",
        ["vllm", "serve", "$(MODEL_PATH)", "--enable-dbo"],
        "/m",
    )


@pytest.mark.parametrize(
    ("fields", "paths"),
    [
        ({"leader": {"runner": FIRST}}, ["leader.runner", "worker.runner"]),
        ({}, ["runner", "containers[0]", "worker.runner"]),
    ],
)
def test_a_part_with_a_worker_and_no_leader_is_the_leader(fields: dict[str, Any], paths: list[str]) -> None:
    part = {"runner": FIRST, "containers": [BESIDE], "worker": {"size": 1, "runner": FIRST}}
    found = read_manifest(service({**part, **fields}), "", [])
    assert [each.path for each in found] == [f"spec.engine.{path}" for path in paths]


def test_a_router_is_merged_over_that_of_its_runtime() -> None:
    base = runtime("ClusterServingRuntime")
    base["spec"] |= {"routerConfig": {"runner": {"name": "r", **COMMAND, "args": ["-tp=1"]}}}
    found = last(base, service({}, router={"runner": {"args": ["-tp=2"]}}))
    assert (found.path, found.words[-1]) == ("[1].spec.router.runner", "-tp=2")
