"""`manifest` in a request, or a manifest as the whole body.

Each vLLM container is listed by its path, with its decision or its problem.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from kubernetes_objects import NAME, container, deployment
from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from .conftest import Done, Server

CONFIGS = {NAME: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
NIXL = ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
YAML = {"content-type": "application/yaml"}
NAMELESS = {"kind": None, "namespace": None, "name": None}
TEXT = {"accept": "text/plain"}
PATH = "spec.template.spec.containers[0]"
LATEST = "`vllm/vllm-openai:latest` names no release of vLLM"
MIRROR = "`mirror.example.com/vllm-openai:{}` is not the version of a known release"
UNVERSIONED = (
    f"the tag of the image {LATEST}; decided for 0.23.0, the default release; "
    "state `vllm_version`; `kubectl exec … -- vllm --version` shows it"
)
PRESUMED = (
    "the tag of the image `mirror.example.com/vllm-openai:v0.24.0` is taken as vLLM's version, and may be a version of "
    "the image's owner; decided for vLLM 0.24.0, which may not be the one that runs"
)
NEEDED = "the config.json of `a/b` is needed, under the name that the arguments give it"


def listed(*objects: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(objects)}


ONE = deployment(container(*NIXL))
NGINX = deployment({"name": "nginx", "image": "nginx:1.29"}, name="web")
SEVERAL = listed(
    NGINX,
    ONE,
    deployment(container(model="a/b"), container(image="vllm/vllm-openai:v0.2.0"), container("-tp", "x"), container()),
)


def request_for(manifest: object, **members: Any) -> dict[str, Any]:
    return {"manifest": manifest, "model_configs": CONFIGS, **members}


def problem_of(response: httpx.Response) -> tuple[int, str, list[tuple[str, str]]]:
    """Status, kind and faults of a problem."""
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, *shown(response.json())


def shown(problem: Any) -> tuple[str, list[tuple[str, str]]]:
    return problem["type"].removeprefix("urn:runner-policy:problem:"), [
        (fault["pointer"], fault["message"]) for fault in problem["errors"]
    ]


def without_ids(answer: Any) -> Any:
    if isinstance(answer, dict):
        return {name: without_ids(value) for name, value in answer.items() if name != "decision_id"}
    return [without_ids(item) for item in answer] if isinstance(answer, list) else answer


def items(client: httpx.Client, document: object, path: str = "/v1/decisions", **headers: str) -> list[dict[str, Any]]:
    response = client.post(path, json=document, headers=headers)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
    assert list(response.json()) == ["items"]
    found: list[dict[str, Any]] = response.json()["items"]
    return found


# the answer


def test_a_container_is_decided_like_the_same_deployment(client: httpx.Client, decide: Callable[..., Any]) -> None:
    (item,) = items(client, request_for(ONE))
    alone = decide(
        {"vllm_version": "0.24.0", "deployment": {"args": ["--model", NAME, *NIXL], "model_configs": CONFIGS}}
    )
    facts, alone_facts = item["decision"].pop("facts"), alone.pop("facts")
    assert item["decision"]["release"].pop("from") == "image vllm-openai"
    assert (item["path"], without_ids(item["decision"])) == (PATH, without_ids(alone))
    assert {name: fact["value"] for name, fact in facts.items()} == {
        name: fact["value"] for name, fact in alone_facts.items()
    }
    assert facts["kv_transfer_config.kv_connector"]["from"] == "args[2]"


def test_fields_beside_a_manifest_apply_to_each_container(client: httpx.Client) -> None:
    members = {"environment": {"platform": "rocm"}, "layers": ["upstream"], "request_id": "seven", "explain": True}
    (item,) = items(client, request_for(ONE, **members))
    decision = item["decision"]
    assert (decision["runner"], decision["request_id"], decision["facts"]["platform.is_rocm"]["value"]) == (
        "v2",
        "seven",
        True,
    )
    assert "trace" in decision
    assert [item["fact"] for item in decision["assumptions"]] == [
        "platform.has_triton",
        "plugins.logits_processors",
        "env.VLLM_USE_V2_MODEL_RUNNER",
        f"files/{NAME}/modules.json",
    ]


def test_a_request_among_objects_is_an_item_with_a_problem(client: httpx.Client) -> None:
    text = yaml.safe_dump_all([SEVERAL["items"][1], request_for(NGINX)])
    request, decided = reversed(client.post("/v1/decisions", content=text, headers=YAML).json()["items"])
    assert (decided["path"], request["path"]) == (f"[0].{PATH}", "[1]")
    kind, ((pointer, message),) = shown(request["problem"])
    assert (kind, pointer) == ("invalid-request", "/1")
    assert message.startswith("expected a `kind`, or one of the shapes that need none: ")


def test_a_faulty_container_does_not_affect_the_others(client: httpx.Client) -> None:
    found = items(client, request_for(SEVERAL))
    below = "items[2].spec.template.spec.containers"
    assert [item["path"] for item in found] == [f"items[1].{PATH}", *(f"{below}[{n}]" for n in range(4))]
    assert [item.get("decision", {}).get("runner") for item in found] == ["v1", None, None, None, "v2"]
    decided, undecided = (sorted(["path", *NAMELESS, member]) for member in ("decision", "problem"))
    assert [sorted(item) for item in found] == [decided, *[undecided] * 3, decided]
    needed, unknown, illegal = (item["problem"] for item in found[1:4])
    assert shown(needed) == ("model-config-needed", [("/model_configs/a~1b", f"{NEEDED}; given: `{NAME}`")])
    kind, ((pointer, message),) = shown(unknown)
    assert (kind, pointer) == ("unknown-release", "/manifest/items/2/spec/template/spec/containers/1")
    assert message.startswith("the image `vllm/vllm-openai:v0.2.0`: unknown release `0.2.0`; known releases: ")
    kind, ((pointer, _),) = shown(illegal)
    assert (kind, pointer.startswith("/manifest/items/2/spec/template/spec/containers/2")) == ("invalid-request", True)
    assert [problem["status"] for problem in (needed, unknown, illegal)] == [422] * 3


HALVES = ("\\ud800", "\\udfff", "\\ud800\\ud800", "a\\udc00b", "\\\\\\ud83d")
"""Text in JSON with half of a surrogate pair."""


@pytest.mark.parametrize("half", HALVES)
@pytest.mark.parametrize("is_bare", [False, True])
def test_half_of_a_surrogate_pair_in_an_object_does_not_affect_the_others(
    client: httpx.Client, half: str, *, is_bare: bool
) -> None:
    foreign = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "x", "annotations": {"a": "HALF"}}}
    manifest = listed(foreign, ONE)
    document = manifest if is_bare else request_for(manifest)
    body = json.dumps(document).replace("HALF", half)
    response = client.post("/v1/decisions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 200, response.text
    (found,) = response.json()["items"]
    assert found["path"] == f"items[1].{PATH}"


@pytest.mark.parametrize("half", HALVES)
def test_half_of_a_surrogate_pair_is_refused_elsewhere(client: httpx.Client, half: str) -> None:
    body = json.dumps({"facts": {"model_config": {"architectures": ["HALF"]}}}).replace("HALF", half)
    response = client.post("/v1/decisions", content=body, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "half of a surrogate pair" in response.json()["detail"]


def test_an_engine_without_an_image_says_which_releases_its_controller_has(client: httpx.Client) -> None:
    workspace = {
        "apiVersion": "kaito.sh/v1beta1",
        "kind": "Workspace",
        "metadata": {"name": "qwen3"},
        "inference": {"preset": {"name": NAME}},
        "status": {"targetNodeCount": 1},
    }
    unversioned = (
        "KAITO's own image has vLLM (0.22.1 in KAITO 0.11, 0.25.1 in 0.12), and no manifest shows it; decided for "
        "0.23.0, the default release; state `vllm_version`; `kubectl exec … -- vllm --version` shows it"
    )
    assumed = (
        f"KAITO keeps the KV cache on the CPU through LMCache, unless `{NAME}` has a hybrid architecture or fits on "
        "one GPU of several; that it does is assumed"
    )
    sizes = [
        f"`--{name}-parallel-size` is set to `$(GPUs of a node)`, whose value is not known; it is assumed to be 1, and "
        "the decision is the same with 2 and 8"
        for name in ("tensor", "data")
    ]
    (item,) = items(client, request_for(workspace))
    assert (item["path"], item["decision"]["warnings"]) == ("inference.preset", [unversioned, assumed, *sizes])
    (item,) = items(client, request_for(workspace, vllm_version="0.22.1"))
    assert item["decision"]["warnings"] == [assumed, *sizes]


@pytest.mark.parametrize(
    ("image", "stated", "version", "warnings"),
    [
        ("vllm/vllm-openai:v0.24.0", None, "0.24.0", []),
        ("vllm/vllm-openai:v0.24.0", "0.24.0", "0.24.0", []),
        (
            "vllm/vllm-openai:v0.24.0",
            "0.25.0",
            "0.24.0",
            ["decided for vLLM 0.24.0, which the image has; the request states 0.25.0"],
        ),
        ("vllm/vllm-openai:latest", "0.25.0", "0.25.0", []),
        ("vllm/vllm-openai:latest", None, "0.23.0", [UNVERSIONED]),
        (
            "mirror.example.com/vllm-openai:v0.24.0",
            None,
            "0.24.0",
            [PRESUMED],
        ),
        ("mirror.example.com/vllm-openai:7.24.0", "0.25.0", "0.25.0", []),
        (
            "mirror.example.com/vllm-openai:7.24.0",
            None,
            "0.23.0",
            [UNVERSIONED.replace(LATEST, MIRROR.format("7.24.0"))],
        ),
    ],
)
def test_the_release_is_that_of_the_image_else_of_the_request_else_the_default(
    client: httpx.Client, image: str, stated: str | None, version: str, warnings: list[str]
) -> None:
    (item,) = items(client, request_for(deployment(container(image=image)), vllm_version=stated))
    assert (item["decision"]["vllm_version"], item["decision"]["warnings"]) == (version, warnings)


@pytest.mark.parametrize(
    ("image", "warnings"),
    [
        ("vllm/vllm-openai:v0.24.0", ["decided for vLLM 0.30.0, which overrides the image's 0.24.0"]),
        ("vllm/vllm-openai:v0.30.0", []),
        ("vllm/vllm-openai:latest", []),
    ],
)
def test_a_stated_release_overrides_those_of_images_if_asked_to(
    client: httpx.Client, image: str, warnings: list[str]
) -> None:
    document = request_for(deployment(container(image=image)), vllm_version="0.30.0", override_images=True)
    (item,) = items(client, document)
    assert (item["decision"]["vllm_version"], item["decision"]["warnings"]) == ("0.30.0", warnings)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ({"manifest": ONE, "vllm_version": "0.30.0", "override_images": 1}, "expected `true` or `false`, got `1`"),
        (
            {"facts": {}, "vllm_version": "0.30.0", "override_images": True},
            "`override_images` belongs beside a `manifest`",
        ),
        (
            {"manifest": ONE, "override_images": True},
            "`override_images` needs a `vllm_version`, for which all engines are decided",
        ),
    ],
)
def test_overriding_images_needs_a_manifest_and_a_release(
    client: httpx.Client, document: dict[str, Any], message: str
) -> None:
    response = client.post("/v1/decisions", json=document)
    assert problem_of(response) == (422, "invalid-request", [("/override_images", message)])


@pytest.mark.parametrize("manifest", [NGINX, listed(), [], [NGINX], {"apiVersion": "v1", "kind": "Service"}])
def test_a_manifest_without_vllm_has_no_items(client: httpx.Client, manifest: object) -> None:
    assert items(client, {"manifest": manifest}) == []


def test_many_containers_are_answered_in_order(client: httpx.Client) -> None:
    found = items(client, request_for(listed(*[deployment(container("-tp", str(1 + n % 2))) for n in range(100)])))
    assert [item["path"] for item in found] == [f"items[{n}].{PATH}" for n in range(100)]
    assert [item["decision"]["facts"]["parallel_config.tensor_parallel_size"]["value"] for item in found] == [1, 2] * 50


@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"name": "qwen", "namespace": "prod"}, {"kind": "Deployment", "namespace": "prod", "name": "qwen"}),
        ({"name": "qwen"}, {"kind": "Deployment", "namespace": None, "name": "qwen"}),
        ({}, {"kind": "Deployment", "namespace": None, "name": None}),
        ({"name": "q" * 254, "namespace": 3}, {"kind": "Deployment", "namespace": None, "name": None}),
        (None, {"kind": "Deployment", "namespace": None, "name": None}),
    ],
)
def test_an_item_names_its_object(client: httpx.Client, metadata: Any, expected: dict[str, str | None]) -> None:
    good = deployment(container("-tp", "1")) | {"metadata": metadata}
    bad = deployment(engine("vllm/vllm-openai:v0.24.0", {}, command=["bash", "start.sh"])) | {"metadata": metadata}
    for found in items(client, request_for(listed(good, bad))):
        assert {name: found[name] for name in expected} == expected
    values = {"servingEngineSpec": {"modelSpec": [{"name": "a", "repository": "vllm/vllm-openai", "modelURL": "a/b"}]}}
    assert [{name: item[name] for name in NAMELESS} for item in items(client, {"manifest": values})] == [NAMELESS]


# a manifest as the whole body


def without_models(found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Items without messages about missing model configurations."""
    kinds = [item.get("problem", {}).get("type", "").rpartition(":")[2] for item in found]
    return [
        {"path": item["path"], "kind": kind} if kind == "model-config-needed" else item
        for item, kind in zip(found, kinds, strict=True)
    ]


@pytest.mark.parametrize(
    "document", [ONE, [ONE], SEVERAL, [NGINX, ONE], {"servingEngineSpec": {"modelSpec": []}}, NGINX]
)
def test_a_bare_manifest_is_answered_like_one_in_a_request(client: httpx.Client, document: object) -> None:
    alone, inside = (
        json.dumps(without_models(without_ids(items(client, each)))) for each in (document, {"manifest": document})
    )
    assert alone == inside.replace("/manifest", "")


@pytest.mark.parametrize(
    ("document", "place"),
    [(deployment(container(model="a/b")), ""), ([NGINX, deployment(container(model="a/b"))], "/1")],
)
def test_a_missing_model_of_a_bare_manifest_is_reported_at_its_container(
    client: httpx.Client, document: object, place: str
) -> None:
    (item,) = items(client, document)
    pointer, wrapped = f"{place}/spec/template/spec/containers/0", '{"manifest": …, "model_configs": {…}}'
    message = f"{NEEDED}; a manifest cannot contain it, so send `{wrapped}`"
    assert shown(item["problem"]) == ("model-config-needed", [(pointer, message)])
    (item,) = items(client, {"manifest": document, "model_configs": {"a/b": CONFIGS[NAME]}})
    assert "decision" in item


def test_a_bare_manifest_s_faults_point_into_the_body(client: httpx.Client) -> None:
    status, kind, ((pointer, message),) = problem_of(
        client.post("/v1/decisions", json={"apiVersion": "apps/v1", "kind": "Deploymet"})
    )
    assert (status, kind, pointer) == (422, "invalid-request", "/kind")
    assert message.endswith("did you mean `Deployment`?")


def test_each_yaml_document_is_a_manifest(client: httpx.Client) -> None:
    text = "\n---\n".join(["# nothing", yaml.safe_dump(NGINX), yaml.safe_dump(ONE), ""])
    response = client.post("/v1/decisions", content=text, headers=YAML)
    assert (response.status_code, [item["path"] for item in response.json()["items"]]) == (200, [f"[1].{PATH}"])


BESIDE = {"vllm_version": "0.24.0", "model_configs": CONFIGS}


@pytest.mark.parametrize(
    ("documents", "path"),
    [
        ([BESIDE, ONE], PATH),
        ([ONE, BESIDE], PATH),
        ([{**BESIDE, "manifest": None}, NGINX, ONE], f"[1].{PATH}"),
        ([NGINX, None, BESIDE, ONE], f"[1].{PATH}"),
        ([BESIDE, listed(NGINX, ONE)], f"items[1].{PATH}"),
    ],
)
def test_one_of_several_yaml_documents_may_have_the_fields_beside_the_manifest(
    client: httpx.Client, call: Callable[..., Done], documents: list[Any], path: str
) -> None:
    text = yaml.safe_dump_all(documents)
    whole = [each for each in documents if each not in (None, BESIDE) and "model_configs" not in each]
    request = {**BESIDE, "manifest": whole[0] if len(whole) == 1 else whole}
    expected = client.post("/v1/decisions", json=request).json()["items"]
    found = client.post("/v1/decisions", content=text, headers=YAML).json()["items"]
    assert [each["path"] for each in found] == [path]
    assert without_ids(found) == without_ids(expected)
    done = call("decide", "-", stdin=text)
    assert (done.code, without_ids([json.loads(done.out)])) == (0, without_ids(expected))


@pytest.mark.parametrize(
    "documents",
    [[BESIDE, BESIDE, ONE], [request_for(NGINX), ONE], [{"facts": {}}, ONE], [{**BESIDE, "model_config": {}}, ONE]],
)
def test_other_documents_beside_a_manifest_are_refused(client: httpx.Client, documents: list[Any]) -> None:
    status, kind, ((pointer, message),) = problem_of(
        client.post("/v1/decisions", content=yaml.safe_dump_all(documents), headers=YAML)
    )
    assert (status, kind, pointer) == (422, "invalid-request", "")
    assert message.startswith("expected an object, got ")


def test_yaml_aliases_are_resolved(client: httpx.Client) -> None:
    text = f"""
        model_configs:
          {NAME}: {{architectures: [Qwen3ForCausalLM], model_type: qwen3}}
        manifest:
          services:
            one: &one
              image: vllm/vllm-openai:v0.24.0
              command: [--model, {NAME}]
            two:
              <<: *one
              image: vllm/vllm-openai:v0.25.0
            three: *one
    """
    response = client.post("/v1/decisions", content=text, headers=YAML)
    found = [(item["path"], item["decision"]["vllm_version"]) for item in response.json()["items"]]
    assert found == [("services.one", "0.24.0"), ("services.two", "0.25.0"), ("services.three", "0.24.0")]


# variables and invalid manifests


@pytest.mark.parametrize(
    ("value", "runner", "starts"),
    [
        ("1.0", "v2", True),
        ("0o1", "v2", True),
        ("1e0", "v2", True),
        ("0x0", "v1", True),
        ("'1.0'", None, False),
        ("yes", None, False),
        ("'${UNKNOWN:-${ALSO_UNKNOWN:-1}}'", "v2", True),
        ("'${UNKNOWN:-0}'", "v1", True),
    ],
)
def test_a_variable_of_compose_has_the_value_that_compose_sets(
    client: httpx.Client,
    value: str,
    runner: str | None,
    starts: bool,  # noqa: FBT001
) -> None:
    text = f"""
        model_configs:
          {NAME}: {{architectures: [Qwen3ForCausalLM], model_type: qwen3}}
        manifest:
          services:
            one:
              image: vllm/vllm-openai:v0.24.0
              command: [--model, {NAME}]
              environment:
                VLLM_USE_V2_MODEL_RUNNER: {value}
    """
    (item,) = client.post("/v1/decisions", content=text, headers=YAML).json()["items"]
    assert (item["decision"]["runner"], item["decision"]["starts"]) == (runner, starts)


BASE = {"image": "vllm/vllm-openai:v0.23.0", "command": f"--model {NAME}"}
EXTENDING = {"command": f"--model {NAME} --enable-dbo", "environment": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}


def test_a_service_of_compose_has_the_image_of_the_one_that_it_extends(client: httpx.Client) -> None:
    services = {"base": BASE, "dbo": {"extends": {"service": "base"}, **EXTENDING}}
    found = items(client, request_for({"services": services}))
    assert [(item["path"], item["decision"]["vllm_version"], item["decision"]["starts"]) for item in found] == [
        ("services.base", "0.23.0", True),
        ("services.dbo", "0.23.0", False),
    ]


@pytest.mark.parametrize(
    ("document", "path", "pointer", "remedy"),
    [
        (
            {"services": {"dbo": {"extends": {"file": "common.yaml", "service": "base"}, **EXTENDING}}},
            "services.dbo",
            "/services/dbo",
            "docker compose config",
        ),
        ({"services": {"dbo": EXTENDING}}, "services.dbo", "/services/dbo", "docker compose config"),
        ({"services": {"dbo": {"build": ".", **EXTENDING}}}, "services.dbo", "/services/dbo", "entrypoint"),
        ({"include": ["common.yaml"]}, "include", "/include", "docker compose config"),
        (
            deployment({"name": "a", "image": "{{ .Values.image }}", "args": ["--enable-dbo"]}),
            PATH,
            "/spec/template/spec/containers/0",
            "helm template",
        ),
        (
            deployment({"name": "a", "args": ["--enable-dbo"]}),
            PATH,
            "/spec/template/spec/containers/0",
            "kustomize build",
        ),
    ],
)
def test_an_image_that_the_manifest_does_not_show_may_start_vllm(
    client: httpx.Client, document: dict[str, Any], path: str, pointer: str, remedy: str
) -> None:
    for body, prefix in ((document, ""), (request_for(document), "/manifest")):
        (item,) = items(client, body)
        kind, ((place, message),) = shown(item["problem"])
        assert (item["path"], kind, place, remedy in message) == (path, "invalid-request", prefix + pointer, True)


def test_an_unknown_kind_is_reported_with_the_known_ones(client: httpx.Client) -> None:
    status, kind, ((pointer, message),) = problem_of(
        client.post("/v1/decisions", json=request_for({"apiVersion": "apps/v1", "kind": "Deploymet"}))
    )
    assert (status, kind, pointer) == (422, "invalid-request", "/manifest/kind")
    for known in (
        "Pod",
        "StatefulSet",
        "LeaderWorkerSet",
        "LLMInferenceService",
        "RayService",
        "DynamoGraphDeployment",
    ):
        assert f"`{known}`" in message
    assert message.startswith("unknown kind `Deploymet`; legal: ")


@pytest.mark.parametrize("manifest", [None, 1, "kind: Pod", True, {"spec": {}}, {"apiVersion": "v1", "kind": 1}])
def test_an_invalid_manifest_is_reported(client: httpx.Client, manifest: object) -> None:
    status, kind, faults = problem_of(client.post("/v1/decisions", json=request_for(manifest)))
    assert (status, kind) == (422, "invalid-request")
    assert all(pointer.startswith("/manifest") for pointer, _ in faults)


def test_objects_that_cannot_be_read_and_unknown_kinds_do_not_affect_the_others(client: httpx.Client) -> None:
    queue = {"apiVersion": "example.com/v1", "kind": "Queue", "metadata": {"name": "q", "namespace": "n"}}
    broken = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": []}
    body = request_for([queue, broken, ONE])
    answer = client.post("/v1/decisions", json=body).json()
    assert answer["ignored"] == [{"path": "[0]", "kind": "Queue", "namespace": "n", "name": "q"}]
    problem, decided = answer["items"]
    assert (problem["path"], problem["kind"], problem["name"]) == ("[1]", "Pod", "p")
    (error,) = problem["problem"]["errors"]
    assert error == {"pointer": "/manifest/1/spec", "message": "expected an object, got `[]`"}
    assert (decided["path"], decided["decision"]["runner"]) == (f"[2].{PATH}", "v1")
    text = client.post("/v1/decisions", json=body, headers={"Accept": "text/plain"}).text
    assert text.endswith("\nignored, because nothing that starts vLLM was found in them: `[0]`\n")


@pytest.mark.parametrize("path", ["/v1/decisions", "/v1/dry-run"])
def test_hostile_yaml_is_refused_as_a_manifest(client: httpx.Client, tmp_path: Path, path: str) -> None:
    mark = tmp_path / "mark"
    text = f"apiVersion: v1\nkind: !!python/object/apply:os.system ['touch {mark}']\n"
    assert problem_of(client.post(path, content=text, headers=YAML))[:2] == (400, "malformed")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "members",
    [
        {"command": ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port $(touch FILE)"], "args": []},
        {"command": ["sh", "-c", "touch FILE; vllm serve Qwen/Qwen3-8B"], "args": []},
        {"command": ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port `touch FILE`"], "args": []},
        {"env": [{"name": "PORT", "value": "$(touch FILE)"}], "args": ["--model", NAME, "--port", "$(PORT)"]},
        {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "`touch FILE`"}]},
        {"args": ["--model", NAME, "-sc", "!!python/object/apply:os.system ['touch FILE']"]},
    ],
)
def test_nothing_in_a_manifest_is_run(client: httpx.Client, tmp_path: Path, members: dict[str, Any]) -> None:
    document = json.dumps(request_for(deployment({**container(), **members}))).replace("FILE", str(tmp_path / "mark"))
    assert client.post("/v1/decisions", content=document).status_code == 200
    assert list(tmp_path.iterdir()) == []


def test_no_folder_of_the_server_is_read_for_a_container(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIGS[NAME]))
    (item,) = items(client, request_for(deployment(container(model=str(tmp_path))), model_configs={}))
    assert item["problem"]["type"] == "urn:runner-policy:problem:model-config-needed"


# a table


def rows(text: str) -> list[list[str]]:
    """The columns of a table's rows, without the lines that continue one."""
    table = text.partition("\n\n")[0]
    return [
        [cell.strip() for cell in line.split("   ") if cell.strip()]
        for line in table.splitlines()
        if not line.startswith(("─", " "))
    ]


def test_a_table_has_a_row_for_each_engine_and_all_problems_below(client: httpx.Client) -> None:
    response = client.post("/v1/decisions", json=request_for(SEVERAL), headers=TEXT)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    head, good, *bad, last = rows(response.text)
    assert head == ["runner", "outcome", "starts", "vLLM", "engine, and why"]
    assert good[:4] == ["V1", "fallback", "yes", "0.24.0"]
    assert [line[:4] for line in bad] == [["-"] * 4] * 3
    assert last[:4] == ["V2", "default", "yes", "0.24.0"]
    assert max(map(len, response.text.splitlines())) <= 120
    below = " ".join(response.text.partition("\n\n")[2].split())
    for item in items(client, request_for(SEVERAL)):
        for fault in item.get("problem", {}).get("errors", ()):
            assert " ".join(f"{item['path']}: {fault['pointer']}: {fault['message']}".split()) in below


def test_a_path_that_looks_like_markup_is_shown_unchanged(client: httpx.Client) -> None:
    services = {
        name: {"image": "vllm/vllm-openai:v0.24.0", "command": ["--model", NAME]}
        for name in ("[/bold]", "a\x1b[31m\nb")
    }
    response = client.post("/v1/decisions", json=request_for({"services": services}), headers=TEXT)
    assert response.status_code == 200
    assert [line[4] for line in rows(response.text)[1:]] == ["services.[/bold]", r"services.a\x1b[31m\nb"]


def test_control_characters_are_escaped_in_a_table(client: httpx.Client) -> None:
    connector = json.dumps({"kv_connector": "\x1b[31mRed\x07", "kv_role": "kv_both"})
    request = {"deployment": {"args": ["serve", NAME, "--kv-transfer-config", connector], "model_configs": CONFIGS}}
    for path in ("/v1/decisions", "/v1/dry-run"):
        text = client.post(path, json=request, headers=TEXT).text
        assert r"a KV connector (\x1b[31mRed\x07) keeps this deployment on V1" in text
        assert all(line.isprintable() for line in text.splitlines())


def test_curl_with_several_documents_shows_a_table(server: Server, run: Callable[..., Done], tmp_path: Path) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all([NGINX, ONE]))
    headers = ("-H", "content-type: application/yaml", "-H", "accept: text/plain")
    done = run("-sS", f"{server.url}/v1/decisions", *headers, "--data-binary", f"@{file}", program="curl")
    assert (done.code, done.err, len(rows(done.out))) == (0, "", 2)


# dry runs


def test_a_dry_run_explains_each_container(client: httpx.Client) -> None:
    assert without_ids(items(client, request_for(SEVERAL), "/v1/dry-run")) == without_ids(
        items(client, request_for(SEVERAL, explain=True))
    )


def test_a_dry_run_of_a_manifest_adds_each_explanation_to_the_table(client: httpx.Client) -> None:
    def plain_and_dry(manifest: dict[str, Any]) -> list[str]:
        paths = ("/v1/decisions", "/v1/dry-run")
        return [client.post(path, json=request_for(manifest), headers=TEXT).text for path in paths]

    plain, dry = plain_and_dry(SEVERAL)
    table_and_problems, _, remedies = plain.rpartition("\n\n")
    expected = [table_and_problems]
    engines = {f"items[1].{PATH}": ONE, f"items[2].{PATH.replace('[0]', '[3]')}": deployment(container())}
    for path, single in engines.items():
        answer, explained = plain_and_dry(single)
        assert (answer.count("vLLM alone: "), explained.count("vLLM alone: ")) == (0, 1)
        expected.append(explained.removeprefix(answer.partition("\n\n")[0]).replace(PATH, path, 1).strip("\n"))
    assert dry == "\n\n".join(expected) + "\n"
    assert set(remedies.splitlines()) <= set(dry.splitlines())


@pytest.mark.parametrize("document", [request_for(ONE), ONE])
def test_candidate_rules_are_not_tried_on_a_manifest(client: httpx.Client, document: dict[str, Any]) -> None:
    faults = [
        (
            "/request/manifest" if "manifest" in document else "/request",
            "candidate rules are tried on one deployment; send `facts` or a `deployment`",
        )
    ]
    response = client.post("/v1/dry-run", json={"request": document, "remove": ["kv-connector-fallback"]})
    assert problem_of(response) == (422, "invalid-request", faults)


def test_a_form_s_deployment_may_be_a_manifest(client: httpx.Client) -> None:
    response = client.post("/v1/dry-run", files={"deployment": ("list.yaml", yaml.safe_dump(request_for(ONE)))})
    assert [item["path"] for item in response.json()["items"]] == [PATH]


# batches and streams


def test_a_batch_may_mix_manifests_with_other_requests(client: httpx.Client) -> None:
    requests = [
        request_for(SEVERAL),
        ONE,
        {"facts": {}},
        request_for({"apiVersion": "apps/v1", "kind": "Deploymet"}),
        request_for(NGINX),
    ]
    several, bare, facts, unknown, nothing = client.post("/v1/decisions/batch", json={"items": requests}).json()[
        "items"
    ]
    assert without_ids(several["items"][0]) == without_ids(items(client, request_for(SEVERAL)))[0]
    assert (
        several["items"][2]["problem"]["errors"][0]["pointer"]
        == "/items/0/manifest/items/2/spec/template/spec/containers/1"
    )
    assert bare["items"][0]["problem"]["errors"][0]["pointer"] == "/items/1/spec/template/spec/containers/0"
    assert facts["runner"] == "v1"
    assert shown(unknown)[1][0][0] == "/items/3/manifest/kind"
    assert nothing == {"items": []}


def test_a_stream_may_mix_manifests_with_other_requests(client: httpx.Client) -> None:
    requests = [
        request_for(SEVERAL),
        {"facts": {}},
        request_for({"apiVersion": "apps/v1", "kind": "Deploymet"}),
        request_for(NGINX),
    ]
    lines = "\n".join(map(json.dumps, requests))
    response = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"})
    several, facts, unknown, nothing = map(json.loads, response.text.splitlines())
    assert without_ids(several["items"]) == without_ids(items(client, request_for(SEVERAL)))
    assert facts["runner"] == "v1"
    assert shown(unknown)[1][0][0] == "/manifest/kind"
    assert nothing == {"items": []}


# commands that cannot be read


FILLED: list[dict[str, Any]] = [
    {"args": ["$(MODEL)"]},
    {"args": ["$(MODEL)", "--seed=1"]},
    {"command": ["$(A)", "serve", NAME]},
    {"command": ["vllm", "$(S)", NAME]},
    {"command": ["sh", "-c", "$(X)"]},
    {"command": ["sh", "-c", f"$A serve {NAME}"]},
    {"command": ["sh", "-c", f'exec "$A" serve {NAME}']},
    {"command": ["sh", "-c", "exec $X"]},
    {"command": ["sh", "-c", f"eval 'vllm serve {NAME}'"]},
    {"command": ["sh", "-c", f'set -- vllm serve {NAME}; exec "$@"']},
    {"command": ["bash", "-c", f"a=vl; a+=lm; $a serve {NAME}"]},
    {"command": ["busybox", "sh", "-c", f"vllm serve {NAME}"]},
]
VARIABLES: dict[str, str | None] = {"MODEL": f"--model={NAME}", "A": "vllm", "S": "serve", "X": f"vllm serve {NAME}"}


def engine(image: str, variables: dict[str, str | None], **members: Any) -> dict[str, Any]:
    """A container; a variable without a value takes it from another object."""
    secret = {"secretKeyRef": {"name": "s", "key": "k"}}
    env = [
        {"name": name, **({"valueFrom": secret} if value is None else {"value": value})}
        for name, value in variables.items()
    ]
    return {"name": "vllm", "image": image, "env": env, **members}


@table("members", FILLED)
def test_a_command_in_variables_is_decided(client: httpx.Client, members: dict[str, Any]) -> None:
    document = engine("vllm/vllm-openai:v0.24.0", VARIABLES, **members)
    (item,) = items(client, request_for(deployment(document)))
    assert (item["path"], item["decision"]["runner"]) == (PATH, "v2")


HIDDEN: list[tuple[dict[str, Any], str]] = [
    ({"command": ["$(A)", "serve", NAME]}, "/command/0"),
    ({"command": ["vllm", "$(S)", NAME]}, "/command/1"),
    ({"command": ["sh", "-c", "$(X)"]}, "/command/2"),
    ({"command": ["sh", "-c"], "args": [f"$A serve {NAME}"]}, "/args/0"),
    ({"command": ["sh", "-c", f'exec "$A" serve {NAME}']}, "/command/2"),
    ({"command": ["sh", "-c", "exec $X"]}, "/command/2"),
    ({"command": ["python3", "/app/server.py"]}, "/command/1"),
    ({"command": ["/app/start.sh"]}, "/command/0"),
    ({"args": ["bash", "start.sh"]}, "/args/1"),
]
NAMING: list[tuple[dict[str, Any], str]] = [
    (
        {"command": ["python3", "-c", "import runpy; runpy.run_module('vllm.entrypoints.openai.api_server')"]},
        "/command/2",
    ),
    ({"command": ["sh", "-c", f"cat <<EOF >/tmp/x\nx\nvllm serve {NAME}"]}, ""),
    ({"command": ["sh", "-c", f'eval "$B vllm serve {NAME}"']}, "/command/2"),
    ({"command": ["sh", "-c", f"echo $(vllm serve {NAME})"]}, "/command/2"),
    ({"command": ["sh", "-c", f"echo serve {NAME} | xargs vllm"]}, "/command/2"),
    ({"command": ["screen", "-dm", "vllm serve m"]}, "/command/0"),
]


@pytest.mark.parametrize("variables", [{}, dict.fromkeys(VARIABLES)])
def test_a_program_among_the_arguments_of_vllm_s_image_is_an_argument(
    client: httpx.Client, variables: dict[str, str | None]
) -> None:
    members, place = HIDDEN[-1]
    (item,) = items(client, request_for(deployment(engine("vllm/vllm-openai:v0.24.0", variables, **members))))
    message = (
        "unexpected argument `start.sh`: no option takes it; "
        "quote it together with the value it belongs to, or remove it"
    )
    pointer = f"/manifest/spec/template/spec/containers/0{place}"
    assert (item["path"], *shown(item["problem"])) == (PATH, "invalid-request", [(pointer, message)])


@table("variables", [{}, dict.fromkeys(VARIABLES)])
@table(("members", "place"), HIDDEN[:-1] + NAMING)
def test_a_command_that_cannot_be_read_is_a_problem_if_the_image_is_vllm_s(
    client: httpx.Client, members: dict[str, Any], place: str, variables: dict[str, str | None]
) -> None:
    (item,) = items(client, request_for(deployment(engine("vllm/vllm-openai:v0.24.0", variables, **members))))
    kind, ((pointer, message),) = shown(item["problem"])
    assert (item["path"], kind, pointer) == (
        PATH,
        "invalid-request",
        f"/manifest/spec/template/spec/containers/0{place}",
    )
    assert "write " in message


def test_with_another_image_only_a_command_that_names_vllm_is_a_problem(client: httpx.Client) -> None:
    for members, _ in HIDDEN:
        if members.get("command", [""])[0] != "vllm":
            assert items(client, request_for(deployment(engine("example/app:1", {}, **members)))) == []
    for members, _ in NAMING:
        (item,) = items(client, request_for(deployment(engine("example/app:1", {}, **members))))
        assert "problem" in item


@pytest.mark.parametrize(
    "command",
    [
        ["sleep", "infinity"],
        ["nvidia-smi"],
        ["pytest", "-q", "tests"],
        ["python3", "-m", "http.server"],
        ["python3", "-c", "import torch"],
        ["ray", "start", "--head", "--block"],
        [
            "bash",
            "-c",
            (
                "bash /vllm-workspace/examples/online_serving/multi-node-serving.sh worker "
                "--ray_address=$(LWS_LEADER_ADDRESS)"
            ),
        ],
        ["sh", "-c", "pip install vllm; curl http://vllm:8000/health"],
    ],
)
def test_another_program_in_vllms_image_is_ignored(client: httpx.Client, command: list[str]) -> None:
    assert items(client, request_for(deployment(engine("vllm/vllm-openai:v0.24.0", {}, command=command)))) == []


def test_the_command_line_and_a_dry_run_report_it_too(
    client: httpx.Client, run: Callable[..., Done], tmp_path: Path
) -> None:
    document = request_for(deployment(engine("vllm/vllm-openai:v0.24.0", {}, command=["bash", "start.sh"])))
    (item,) = items(client, document)
    assert items(client, document, "/v1/dry-run") == [item]
    file = tmp_path / "manifest.json"
    file.write_text(json.dumps(document))
    done = run("decide", str(file))
    assert (done.code, json.loads(done.out)) == (1, item)


OTHER_CONFIG = {"a/other": CONFIGS[NAME]}


@pytest.mark.parametrize(
    ("manifest", "given", "expected"),
    [
        (ONE, CONFIGS, None),
        (
            ONE,
            {**CONFIGS, **OTHER_CONFIG},
            [f"`model_configs`: no engine has the model `a/other`; the models are `{NAME}`"],
        ),
        (ONE, OTHER_CONFIG, [f"`model_configs`: no engine has the model `a/other`; the models are `{NAME}`"]),
        (NGINX, OTHER_CONFIG, None),
        (
            SEVERAL,
            {**CONFIGS, **OTHER_CONFIG},
            [
                (
                    "`model_configs`: no engine that could be decided has the model `a/other`; the models are "
                    f"`{NAME}`, `a/b`"
                )
            ],
        ),
    ],
)
def test_model_configs_that_no_engine_uses_get_a_warning(
    client: httpx.Client, manifest: Any, given: dict[str, Any], expected: list[str] | None
) -> None:
    body = {"manifest": manifest, "model_configs": given}
    assert client.post("/v1/decisions", json=body).json().get("warnings") == expected
    (item,) = client.post("/v1/decisions/batch", json={"items": [body]}).json()["items"]
    assert item.get("warnings") == expected
    text = client.post("/v1/decisions", json=body, headers=TEXT).text
    assert [line.removeprefix("warning: ") for line in text.splitlines() if "no engine" in line] == (expected or [])


HIDDEN_NAME = "Zq7Kp2Vx9Lm4Tt8Ww3"


@pytest.mark.parametrize(
    "command",
    [
        ["vllm", "serve", "$(HF_TOKEN)"],
        ["sh", "-c", "vllm serve $HF_TOKEN"],
        ["sh", "-c", "vllm serve /models/${HF_TOKEN}/x"],
        ["vllm", "serve", "a/b", "--speculative-config", '{"model": "$(HF_TOKEN)"}'],
    ],
)
def test_the_list_of_models_has_no_secret(client: httpx.Client, command: list[str]) -> None:
    env = [{"name": "HF_TOKEN", "value": HIDDEN_NAME}]
    container = {"image": "vllm/vllm-openai:v0.24.0", "command": command, "env": env}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": [container]}}
    body = {"manifest": pod, "model_configs": OTHER_CONFIG}
    found = client.post("/v1/decisions", json=body)
    assert HIDDEN_NAME not in found.text
    assert any("the models are " in each for each in found.json()["warnings"])
    batch = client.post("/v1/decisions/batch", json={"items": [body]})
    text = client.post("/v1/decisions", json=body, headers=TEXT)
    assert HIDDEN_NAME not in batch.text + text.text
    deployment = {"args": " ".join(command[2:]), "env": {"HF_TOKEN": HIDDEN_NAME}, "model_configs": OTHER_CONFIG}
    if command[0] == "sh":
        assert HIDDEN_NAME not in client.post("/v1/decisions", json={"deployment": deployment}).text


def test_model_configs_that_a_deployment_does_not_use_get_a_warning(client: httpx.Client) -> None:
    deployment_ = {"args": ["serve", NAME], "model_configs": {**CONFIGS, **{f"m{n}": {} for n in range(10)}}}
    names = ", ".join(f"`m{n}`" for n in range(8))
    expected = f"`model_configs`: no engine has the model {names} and 2 more; the models are `{NAME}`"
    found = client.post("/v1/decisions", json={"deployment": deployment_}).json()["warnings"]
    assert found.count(expected) == 1
    del deployment_["model_configs"]
    problem = client.post("/v1/decisions", json={"deployment": deployment_}).json()
    assert "no engine" not in str(problem)
