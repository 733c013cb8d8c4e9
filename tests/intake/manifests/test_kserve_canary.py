"""The canaries of KServe's services: predictors of their own, merged over that of the service; and its explainers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
OTHER = "vllm/vllm-openai:v0.33.0"
GPU = {"limits": {"nvidia.com/gpu": "1"}}
SERVE = ["vllm", "serve", "dense"]
CONTAINER = {"name": "v", "image": IMAGE, "command": SERVE, "args": ["--enable-dbo"]}
FIRST = {"modelFormat": {"name": "sklearn"}, "storageUri": "gs://a/b"}
MODEL = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver", "image": IMAGE, "resources": GPU}
STABLE = {**MODEL, "storageUri": "hf://a/b", "args": ["--seed=1"], "env": [{"name": "A", "value": "1"}]}
QUOTE = "{{ printf `%c` 34 }}"


def service(predictor: dict[str, Any], *canaries: Any, **spec: Any) -> dict[str, Any]:
    items = [{"trafficPercent": 10, "predictor": canary} for canary in canaries]
    return {
        "apiVersion": "serving.kserve.io/v1beta1",
        "kind": "InferenceService",
        "metadata": {"name": "s"},
        "spec": {"predictor": predictor, **({"canary": items} if items else {}), **spec},
    }


def engines(document: Any) -> dict[str, Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    assert len({each.path for each in found}) == len(found)
    return {each.path: each for each in found}


def read(engine: Container) -> tuple[object, ...]:
    words = list(zip(engine.words, engine.places, strict=True))
    chosen = engine.image, engine.vllm_version, engine.platform, engine.hardware
    return words, engine.env, chosen, engine.models, engine.mounts, engine.notes, engine.doubts, engine.problem


@table(
    ("predictor", "place"),
    [
        ({"model": STABLE}, "model"),
        ({"model": {**MODEL, "storageUri": "pvc://a", "runtime": "mine", "args": ["--enable-dbo"]}}, "model"),
        ({"model": {**STABLE, "ports": [{"name": QUOTE}]}}, "model"),
        (
            {"model": {**STABLE, "storage": {"key": "a"}, "resources": {}}, "nodeSelector": {"amd.com/gpu": "1"}},
            "model",
        ),
        ({"model": STABLE, "loraConfig": {"a": "b"}, "storageUris": [{"uri": "pvc://a", "mountPath": "/c"}]}, "model"),
        ({"containers": [CONTAINER]}, "containers[0]"),
        ({"containers": [{**CONTAINER, "name": "kserve-container"}], "tolerations": [{"key": "a"}]}, "containers[0]"),
        ({"initContainers": [CONTAINER]}, "initContainers[0]"),
        ({"initContainers": [{**CONTAINER, "restartPolicy": "Always"}]}, "initContainers[0]"),
        ({"model": FIRST, "workerSpec": {"containers": [CONTAINER]}}, "workerSpec.containers[0]"),
    ],
)
def test_a_canary_is_read_as_the_predictor_of_a_service(predictor: dict[str, Any], place: str) -> None:
    (alone,) = engines(service(predictor)).values()
    found = engines(service({"model": FIRST}, {"name": "a", **predictor}, {"name": "b", "containers": []}))
    assert list(found) == [f"spec.canary[0].predictor.{place}"]
    (canary,) = found.values()
    assert [str(each).replace("spec.canary[0].predictor", "spec.predictor") for each in read(canary)] == [
        str(each) for each in read(alone)
    ]


@table(
    ("stable", "canary", "expected"),
    [
        ({"model": STABLE}, {"model": {"image": OTHER}}, {"image": OTHER, "words": ["--seed=1"], "env": {"A": "1"}}),
        ({"model": STABLE}, {"model": {"args": ["--seed=2"]}}, {"image": IMAGE, "words": ["--seed=2"]}),
        ({"model": STABLE}, {"model": {"args": [], "image": "", "env": None}}, {"image": IMAGE, "words": ["--seed=1"]}),
        ({"model": STABLE}, {"model": {"env": [{"name": "B", "value": "2"}]}}, {"env": {"B": "2"}, "without": "A"}),
        ({"model": STABLE}, {"model": {"storageUri": "hf://c/d"}}, {"models": {"/mnt/models": "c/d"}}),
        ({"model": STABLE}, {"model": {"resources": {"limits": {"cpu": 1}}}}, {"platform": None}),
        ({"model": {**STABLE, "resources": {}}}, {"model": {"resources": GPU}}, {"platform": None}),
        ({"model": {**STABLE, "resources": {}}}, {"model": {"resources": {}}}, {"platform": "cpu"}),
        (
            {"model": STABLE, "workerSpec": {"tensorParallelSize": 2}},
            {"model": {"image": OTHER}},
            {"image": OTHER, "without": "TENSOR_PARALLEL_SIZE"},
        ),
        ({"huggingface": {"image": IMAGE, **STABLE}}, {"model": {"image": OTHER}}, {"image": OTHER}),
        ({"model": STABLE}, {"containers": [{"name": "web", "image": "nginx:1.27"}]}, {"image": IMAGE}),
        ({"model": FIRST, "nodeSelector": {"b": "c"}}, {"model": STABLE}, {"image": IMAGE}),
    ],
)
def test_a_canary_states_what_differs_from_the_predictor(
    stable: dict[str, Any], canary: dict[str, Any], expected: dict[str, Any]
) -> None:
    found = engines(service(stable, {"name": "a", **canary}))["spec.canary[0].predictor.model"]
    for name, value in expected.items():
        if name == "words":
            assert [*found.words][-len(value) :] == value
        elif name == "env":
            assert {each: found.env[each] for each in value} == value
        elif name == "without":
            assert value not in found.env
        else:
            assert getattr(found, name) == value


def test_a_canary_has_the_containers_of_the_service_that_it_does_not_state() -> None:
    paths = engines(service({"model": STABLE, "containers": [CONTAINER]}, {"name": "a"}, {"containers": [CONTAINER]}))
    assert sorted(paths) == [
        *(f"spec.canary[{place}].predictor.{name}" for place in (0, 1) for name in ("containers[0]", "model")),
        *("spec.predictor.containers[0]", "spec.predictor.model"),
    ]


@table(
    ("stable", "canary", "paths"),
    [
        (STABLE, {"huggingface": {"storageUri": "hf://c/d"}}, ["model", "huggingface"]),
        (STABLE, {"sklearn": {"storageUri": "hf://c/d"}}, ["model"]),
        (FIRST, {"huggingface": {"storageUri": "hf://c/d"}}, ["huggingface"]),
        (FIRST, {"sklearn": {"storageUri": "gs://c/d"}}, []),
    ],
)
def test_a_format_of_a_canary_is_a_doubt(stable: dict[str, Any], canary: dict[str, Any], paths: list[str]) -> None:
    found = engines(service({"model": stable}, {"name": "a", **canary}))
    of_canary = {path: each for path, each in found.items() if "canary" in path}
    assert list(of_canary) == [f"spec.canary[0].predictor.{path}" for path in paths]
    for each in of_canary.values():
        assert each.models == {"/mnt/models": "c/d"}
        (name,) = canary
        assert f"KServe makes no `model` of `spec.canary[0].predictor.{name}`" in " ".join(each.doubts)


def test_a_template_of_one_canary_is_no_doubt_about_others() -> None:
    spoilt = {"model": {"ports": [{"name": QUOTE}]}}
    found = engines(service({"model": STABLE}, {"model": {"image": OTHER}}, spoilt))
    doubted = {path: any("one Go template" in each for each in engine.doubts) for path, engine in found.items()}
    assert doubted == {
        "spec.predictor.model": False,
        "spec.canary[0].predictor.model": False,
        "spec.canary[1].predictor.model": True,
    }


@table(
    ("canary", "pointer"),
    [
        ("x", "/spec/canary"),
        (["x"], "/spec/canary/0"),
        ([{"predictor": "x"}], "/spec/canary/0/predictor"),
        ([{"predictor": {"model": "x"}}], "/spec/canary/0/predictor/model"),
        ([None, {}, {"predictor": {"model": {"args": "x"}}}], "/spec/canary/2/predictor/model/args"),
    ],
)
def test_a_canary_of_a_wrong_type_is_a_fault(canary: Any, pointer: str) -> None:
    faults: list[RequestFault] = []
    read_manifest(service({"model": STABLE}, canary=canary), "", faults)
    assert [fault.pointer for fault in faults] == [pointer]


def test_what_canaries_copy_of_the_predictor_is_limited() -> None:
    stable = {"model": {**STABLE, "args": ["x" * 10_000]}}
    faults: list[RequestFault] = []
    read_manifest(service(stable, *[{"name": "a"}] * 200), "", faults)
    assert ["that are copied or expanded exceed" in fault.message for fault in faults] == [True]


@table("name", ["art", "alibi", "aix"])
def test_an_explainer_that_starts_vllm_is_an_engine_with_a_doubt(name: str) -> None:
    explainer = {name: {"type": "SquareAttack", **CONTAINER, "command": ["sh", "-c", "vllm serve dense"], "args": []}}
    found = engines(service({"model": FIRST}, explainer=explainer))
    assert list(found) == [f"spec.explainer.{name}"]
    (engine,) = found.values()
    assert engine.doubts == ["KServe adds arguments of its own to the container of an explainer, which are not read"]
    assert engines(service({"model": FIRST}, explainer={name: {"type": "SquareAttack"}})) == {}
