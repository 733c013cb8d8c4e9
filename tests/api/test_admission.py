"""Kubernetes admission reviews through a real server, as an API server sends them."""

from __future__ import annotations

import base64
import copy
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from .conftest import Server, serving

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    import httpx
    from operations.conftest import Service

Document = dict[str, Any]
FOLDER = Path(__file__).parent.parent / "core/admission"
REVIEWS: dict[str, Document] = {path.stem: json.loads(path.read_text()) for path in sorted(FOLDER.glob("*.json"))}
VALIDATE, MUTATE = "/v1/admission", "/v1/admission/mutate"
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
TO_V1 = {"name": VARIABLE, "value": "0"}
SET = (
    f"spec.template.spec.containers[0]: vLLM alone would use V2, the policy decided V1; set {VARIABLE}=0"
    "; rule `kv-connector-fallback`: a KV connector (NixlConnector) keeps this deployment on V1"
)
DBO = "spec.template.spec.containers[0]: vLLM will not start: Model Runner V2 does not yet support: dual batch overlap"


def review(name: str, **request: Any) -> Document:
    document = copy.deepcopy(REVIEWS[name])
    document["request"].update(request)
    return document


def answered(client: httpx.Client, document: Document, path: str = VALIDATE) -> Document:
    """The response to a review, with its patch as a document."""
    found = client.post(path, json=document)
    assert (found.status_code, found.headers["content-type"]) == (200, "application/json"), found.text
    whole: Document = found.json()
    assert (whole["apiVersion"], whole["kind"], whole["response"]["uid"]) == (
        "admission.k8s.io/v1",
        "AdmissionReview",
        document["request"]["uid"],
    )
    response: Document = whole["response"]
    if "patch" in response:
        response["patch"] = json.loads(base64.b64decode(response["patch"], validate=True))
    return response


def counted(client: httpx.Client) -> dict[str, float]:
    """The reviews that were counted, by call and result."""
    lines = (
        line.rpartition(" ")
        for line in client.get("/metrics").text.splitlines()
        if line.startswith("runner_policy_admission_reviews_total{")
    )
    return {labels.partition("{")[2].rstrip("}"): float(number) for labels, _, number in lines if float(number)}


def records(client: httpx.Client) -> list[Any]:
    """The decisions in the log, the oldest first, of the newest hundred."""
    found: list[Any] = client.get("/v1/log?limit=100").json()["items"]
    return found[::-1]


def logged(client: httpx.Client, before: list[Any]) -> list[tuple[str, str]]:
    """The endpoint and the runner of each decision logged after ``before``, the oldest first."""
    return [(item["path"], item["result"]["runner"]) for item in records(client) if item not in before]


WARNINGS: list[tuple[str, bool, list[str]]] = [
    ("deployment-create", True, [SET]),
    ("deployment-update", True, [DBO]),
    ("deployment-delete", True, []),
    ("deployment-scale", True, []),
    ("kafka-topic", True, []),
    ("pod-of-replicaset", True, [SET.replace("template.spec.", "")]),
]


@pytest.mark.parametrize(("name", "allowed", "warnings"), WARNINGS)
def test_the_validating_endpoint_warns_and_denies_nothing_by_default(
    client: httpx.Client,
    name: str,
    allowed: bool,  # noqa: FBT001  # a parameter of the table
    warnings: list[str],
) -> None:
    response = answered(client, REVIEWS[name])
    assert (response["allowed"], response.get("warnings", []), "patch" in response) == (allowed, warnings, False)


@pytest.mark.parametrize("name", sorted(REVIEWS))
@pytest.mark.parametrize("path", [VALIDATE, MUTATE])
def test_every_recorded_review_is_answered(client: httpx.Client, path: str, name: str) -> None:
    response = answered(client, REVIEWS[name], path)
    assert (
        response["allowed"],
        response.keys() <= {"uid", "allowed", "warnings", "patch", "patchType", "auditAnnotations"},
    ) == (True, True)


def test_the_patched_object_gets_the_decided_runner_and_no_second_patch(client: httpx.Client) -> None:
    document = review("pod-of-replicaset")
    before = document["request"]["object"]["spec"]["containers"][0]["env"]
    response = answered(client, document, MUTATE)
    assert (response["patchType"], response["patch"][-1]) == (
        "JSONPatch",
        {"op": "add", "path": "/spec/containers/0/env/-", "value": TO_V1},
    )
    document["request"]["object"]["spec"]["containers"][0]["env"] = [*before, TO_V1]
    assert answered(client, document, MUTATE).keys() == {"uid", "allowed"}
    assert "warnings" not in answered(client, document)
    annotations = document["request"]["object"]["metadata"]["annotations"]
    models = json.loads(annotations["runner-policy/model-configs"])
    (item,) = client.post(
        "/v1/decisions", json={"manifest": document["request"]["object"], "model_configs": models}
    ).json()["items"]
    assert (item["decision"]["runner"], item["decision"]["starts"], item["decision"]["set_env"]) == ("v1", True, {})


@pytest.mark.slow
def test_an_operator_chooses_what_is_denied_and_where_the_variable_is_set(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    variables = {
        "RUNNER_POLICY_ADMISSION_DENY": "true",
        "RUNNER_POLICY_ADMISSION_SET_ENV": "always",
        "RUNNER_POLICY_ADMISSION_FAILURE_POLICY": "closed",
    }
    with serve(**variables) as server, server.client() as client:
        refused = answered(client, REVIEWS["deployment-update"])
        assert (refused["allowed"], refused["status"]["code"], refused["status"]["message"].startswith(DBO)) == (
            False,
            403,
            True,
        )
        unknown = answered(client, REVIEWS["deployment-dry-run"])
        assert (unknown["allowed"], "not decided: the config.json of" in unknown["status"]["message"]) == (False, True)
        assert answered(client, REVIEWS["deployment-create"], MUTATE)["patch"][-1]["value"] == TO_V1
    with serve(RUNNER_POLICY_ADMISSION_SET_ENV="off") as server, server.client() as client:
        assert answered(client, REVIEWS["pod-of-replicaset"], MUTATE).keys() == {"uid", "allowed"}


TPU_LABEL = {"key": "cloud.google.com/gke-tpu-accelerator", "operator": "Exists"}
OTHER_HARDWARE: list[tuple[str, Document, Document]] = [
    ("will not start", {}, {"tolerations": [{"key": key, "operator": "Exists"}]})
    for key in (
        *("google.com/tpu", "habana.ai/gaudi", "aws.amazon.com/neuron", "huawei.com/Ascend910", "rebellions.ai/ATOM"),
        *("tenstorrent.com/n300", "ibm.com/spyre_pf", "gpu.intel.com/i915"),
    )
]
TOLERATED: Document = {"tolerations": [{"key": "google.com/tpu", "operator": "Exists"}]}
OTHER_HARDWARE += [
    ("will not start", {"resources": {"claims": [{"name": "gpu"}]}}, TOLERATED),
    ("will not start", {"resources": {"limits": {"aliyun.com/gpu-mem": 1}}}, TOLERATED),
    ("will not start", {"env": [{"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"}]}, TOLERATED),
    (
        "will not start",
        {},
        {
            "affinity": {
                "nodeAffinity": {
                    "requiredDuringSchedulingIgnoredDuringExecution": {
                        "nodeSelectorTerms": [
                            {"matchExpressions": [TPU_LABEL]},
                            {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "Exists"}]},
                        ]
                    }
                }
            }
        },
    ),
    ("another platform", {}, {"nodeSelector": {"cloud.google.com/gke-tpu-accelerator": "tpu-v6e-slice"}}),
    ("another platform", {"resources": {"limits": {"google.com/tpu": 4}}}, {}),
    ("only a toleration", {"image": "registry.example/serving:v1", "command": ["vllm", "serve"]}, TOLERATED),
    ("vLLM 0.33.0 has no flag `--omni`", {"args": ["--model=Qwen/Qwen3-8B", "--omni"]}, {}),
    (
        "starts vLLM-Omni only if it is installed",
        {"image": "registry.example/serving:v1", "command": ["vllm", "serve", "Qwen/Qwen3-8B", "--omni"], "args": []},
        {},
    ),
]


@pytest.mark.slow
def test_a_runner_that_is_not_certain_does_not_prevent_a_denial(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    variables = {"RUNNER_POLICY_ADMISSION_DENY": "true", "RUNNER_POLICY_ADMISSION_FAILURE_POLICY": "closed"}
    with serve(**variables) as server, server.client() as client:
        for why, container, spec in OTHER_HARDWARE:
            document = review("pod-of-replicaset")
            pod = document["request"]["object"]
            own = {"image": "vllm/vllm-openai:v0.33.0", "args": ["--model=Qwen/Qwen3-8B", "--enable-dbo"]}
            pod["spec"] = {"containers": [{"name": "v", **own, **container}], **spec}
            pod["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
                {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
            )
            answer = answered(client, document)
            assert (container, spec, answer["allowed"]) == (container, spec, False)
            assert why in answer["status"]["message"]


DIGEST = f"vllm/vllm-openai:v0.33.0@sha256:{'0' * 64}"
OTHER_VLLM: list[Document] = [
    {"env": [{"name": "PATH", "value": "/opt/bin"}]},
    {"env": [{"name": "PYTHONPATH", "value": "/opt"}]},
    {"image": DIGEST},
    {"image": "team/vllm-openai:v0.33.0"},
    {"image": "vllm/vllm-openai:latest"},
    {"script": "pip install vllm; "},
    {"script": "PATH=/opt/bin:$PATH "},
]


def test_an_engine_of_another_vllm_that_would_not_start_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    def reviewed(client: httpx.Client, container: Document, flag: str) -> Document:
        document = review("pod-of-replicaset")
        pod = document["request"]["object"]
        own: Document = {"image": "vllm/vllm-openai:v0.33.0", "args": ["--model=Qwen/Qwen3-8B", flag]}
        own |= {name: value for name, value in container.items() if name != "script"}
        if "script" in container:
            own |= {"command": ["sh", "-c", f"{container['script']}vllm serve Qwen/Qwen3-8B {flag}"], "args": []}
        pod["spec"] = {"containers": [{"name": "v", **own}]}
        pod["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
            {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
        )
        return answered(client, document)

    with closed_server.client() as closed:
        for container in OTHER_VLLM:
            denied = reviewed(closed, container, "--no-such-flag")
            message = "not decided: it is not certain which vLLM runs, and vLLM"
            assert (container, denied["allowed"]) == (container, False)
            assert message in denied["status"]["message"]
            assert reviewed(closed, container, "--seed=1")["allowed"]
            warned = reviewed(client, container, "--no-such-flag")
            assert (warned["allowed"], "`--no-such-flag`" in " ".join(warned["warnings"])) == (True, True)


UNKNOWN_WORDS: list[tuple[list[str], list[str], str]] = [
    (["vllm", "serve"], ["Qwen/Qwen3-8B", "$(DBO)"], "$(DBO)"),
    (["vllm", "serve"], ["Qwen/Qwen3-8B", "--enable-$(DBO)"], "--enable-$(DBO)"),
    (["sh", "-c"], ["vllm serve Qwen/Qwen3-8B $DBO"], "$DBO"),
    (["sh", "-c"], ["vllm serve Qwen/Qwen3-8B $(echo --enable-dbo)"], "$(echo …)"),
    (["sh", "-c"], ["vllm serve Qwen/Qwen3-8B `cat flags`"], "cat flags"),
    (["sh", "-c"], ["if true; then A=--enable-dbo; fi; vllm serve Qwen/Qwen3-8B $A"], "$A"),
    (["sh", "-c"], ["for f in a; do A=--enable-dbo; done; vllm serve Qwen/Qwen3-8B $A"], "$A"),
    (["sh", "-c"], ["[ 1 ] && A=--enable-dbo; vllm serve Qwen/Qwen3-8B $A"], "$A"),
]


AMBIGUOUS_SCRIPTS: list[list[str]] = [
    ["bash", "-c", "vllm serve Qwen/Qwen3-8B ${PATH:+--enable-dbo}"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --no${PATH:+x}-enable-dbo"],
    ["sh", "-c", "VLLM_USE_V2_MODEL_RUNNER=0${PATH:+1} vllm serve Qwen/Qwen3-8B --enable-dbo"],
    ["sh", "-c", "A=${PATH:+--enable-dbo}; vllm serve Qwen/Qwen3-8B $A"],
    ["bash", "-c", "vllm serve Qwen/Qwen3-8B -cc.mode=${PATH:+1}"],
    ["bash", "-c", "vllm serve Qwen/Qwen3-8B --served-model-name {a,--enable-dbo}"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --served-model-name {a,--enable-dbo}"],
    ["bash", "-c", "vllm serve Qwen/Qwen3-8B --{enable-dbo,port=80}"],
    ["bash", "-c", "vllm serve Qwen/Qwen3-8B --served-model-name *"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port $(echo 80 --enable-dbo)"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port `echo 80 --enable-dbo`"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port $DBO"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B --help; vllm serve Qwen/Qwen3-8B; vllm serve Qwen/Qwen3-8B --enable-dbo"],
    ["sh", "-c", "false && vllm serve Qwen/Qwen3-8B; vllm serve Qwen/Qwen3-8B --enable-dbo"],
    ["sh", "-c", "vllm serve Qwen/Qwen3-8B & vllm serve Qwen/Qwen3-8B --port 81 --enable-dbo"],
    ["sh", "-c", "trap 'vllm serve Qwen/Qwen3-8B --enable-dbo' EXIT; vllm serve Qwen/Qwen3-8B --help"],
    ["sh", "-c", "IFS=:; A=--port:80:--enable-dbo; vllm serve Qwen/Qwen3-8B $A"],
    ["sh", "-c", "bash start.sh; vllm serve Qwen/Qwen3-8B"],
    ["sh", "-c", ". ./variables; vllm serve Qwen/Qwen3-8B"],
    ["sh", "-c", 'vllm serve Qwen/Qwen3-8B --seed "$(echo \'(\')" --enable-dbo # )"'],
]


@pytest.fixture(scope="session")
def closed_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that denies what cannot be decided; tests leave it unchanged."""
    with serving(tmp_path_factory.mktemp("closed"), RUNNER_POLICY_ADMISSION_FAILURE_POLICY="closed") as server:
        yield server


@pytest.mark.slow
def test_an_ambiguous_script_is_denied_if_undecided_objects_are(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    variables = {"RUNNER_POLICY_ADMISSION_DENY": "true", "RUNNER_POLICY_ADMISSION_FAILURE_POLICY": "closed"}
    with serve(**variables) as server, server.client() as client:
        for command in AMBIGUOUS_SCRIPTS:
            document = review("pod-of-replicaset")
            container = document["request"]["object"]["spec"]["containers"][0]
            container.update(command=command, args=[])
            container["env"] = [
                {"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"},
                {"name": "DBO", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
            ]
            document["request"]["object"]["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
                {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
            )
            assert (command, answered(client, document)["allowed"]) == (command, False)


UNKNOWN_VALUES = [
    *((flag, "$(DBO)") for flag in ("--max-model-len", "--gpu-memory-utilization", "--dtype", "--mamba-cache-dtype")),
    ("--tensor-parallel-size", "$(DBO)"),
    ("--port", "${DBO}"),
    ("--max-model-len", "${DBO}"),
]


def test_an_argument_with_an_unknown_value_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    def reviewed(client: httpx.Client, command: list[str], args: list[str]) -> Document:
        document = review("pod-of-replicaset")
        container = document["request"]["object"]["spec"]["containers"][0]
        container.update(command=command, args=args)
        container["env"] = [{"name": "DBO", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]
        document["request"]["object"]["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
            {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
        )
        return answered(client, document)

    with closed_server.client() as closed:
        for command, args, word in UNKNOWN_WORDS:
            denied = reviewed(closed, command, args)
            assert (denied["allowed"], "not decided: the value of the argument" in denied["status"]["message"]) == (
                False,
                True,
            )
            assert word in denied["status"]["message"]
        for flag, value in UNKNOWN_VALUES:
            denied = reviewed(closed, ["vllm", "serve"], ["Qwen/Qwen3-8B", f"{flag}={value}"])
            message = f"not decided: `{flag}` is set to `{value}`"
            assert (flag, denied["allowed"]) == (flag, False)
            assert message in denied["status"]["message"]
            warned = reviewed(client, ["vllm", "serve"], ["Qwen/Qwen3-8B", f"{flag}={value}"])
            assert (warned["allowed"], sum(f"`{flag}`" in text for text in warned["warnings"])) == (True, 1)
        for flag in ("--port", "--api-key", "--served-model-name", "--node-rank"):
            assert "warnings" not in reviewed(closed, ["vllm", "serve"], ["Qwen/Qwen3-8B", flag, "$(DBO)"])
    for command, args, word in UNKNOWN_WORDS:
        warned = reviewed(client, command, args)
        assert (warned["allowed"], word in " ".join(warned["warnings"])) == (True, True)


def test_a_model_named_like_an_embedding_model_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    name = "Qwen/Qwen3-Embedding-0.6B"

    def reviewed(client: httpx.Client, *flags: str) -> Document:
        document = review("pod-of-replicaset")
        document["request"]["object"]["spec"]["containers"][0].update(
            command=["vllm", "serve"], args=[name, *flags], image="vllm/vllm-openai:v0.23.0"
        )
        document["request"]["object"]["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
            {name: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
        )
        return answered(client, document)

    with closed_server.client() as closed:
        denied = reviewed(closed)
        assert (denied["allowed"], "is named like an embedding model" in denied["status"]["message"]) == (False, True)
        assert reviewed(closed, "--runner", "generate")["allowed"]
    warned = reviewed(client)
    assert (warned["allowed"], "is named like an embedding model" in " ".join(warned["warnings"])) == (True, True)


PREDICTOR: Document = {
    "modelFormat": {"name": "huggingface"},
    "runtime": "my-vllm",
    "args": ["--backend=vllm"],
    "storageUri": "hf://Qwen/Qwen3-8B",
}
NAMES = {
    "runner-policy/model-configs": '{"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}',
    "runner-policy/vllm-version": "0.23.0",
}


def other_review(group: str, version: str, kind: str, spec: Document) -> Document:
    document = review("pod-of-replicaset", kind={"group": group, "version": version, "kind": kind})
    document["request"]["object"] = {
        "apiVersion": f"{group}/{version}",
        "kind": kind,
        "metadata": {"name": "a", "annotations": NAMES},
        "spec": spec,
    }
    return document


def test_an_unknown_runtime_of_kserve_is_denied_if_what_cannot_be_decided_is(
    client: httpx.Client, closed_server: Server
) -> None:
    def reviewed(client: httpx.Client, **model: Any) -> Document:
        spec = {"predictor": {"model": PREDICTOR | model}}
        return answered(client, other_review("serving.kserve.io", "v1beta1", "InferenceService", spec))

    with closed_server.client() as closed:
        denied = reviewed(closed)
        message = "the runtime `my-vllm` is not in the manifest; its own arguments and variables are not known"
        assert (denied["allowed"], message in denied["status"]["message"]) == (False, True)
        assert not reviewed(closed, modelFormat={"name": "custom"})["allowed"]
        assert reviewed(closed, runtime="kserve-huggingfaceserver")["allowed"]
        unnamed = reviewed(closed, runtime=None)
        of_unnamed = (
            "no `runtime` is named, and KServe selects one of the namespace or the cluster by the model's format"
        )
        assert (unnamed["allowed"], of_unnamed in unnamed["status"]["message"]) == (False, True)
        for runtime in ("team-rt", None):
            other = reviewed(closed, runtime=runtime, modelFormat={"name": "custom"}, args=[])
            assert (other["allowed"], "is not in the manifest" in other["status"]["message"]) == (False, True)
    for runtime, expected in (("my-vllm", message), (None, of_unnamed)):
        warned = reviewed(client, runtime=runtime)
        assert (warned["allowed"], expected in " ".join(warned["warnings"])) == (True, True)


def test_a_canary_of_kserve_is_reviewed_as_the_predictor_is(client: httpx.Client, closed_server: Server) -> None:
    gpu = {"resources": {"limits": {"nvidia.com/gpu": "1"}}}
    shipped = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver", "image": "vllm/vllm-openai:v0.33.0"}
    stable: Document = {"predictor": {"model": {**shipped, "storageUri": "hf://Qwen/Qwen3-8B", **gpu}}}
    own = {"name": "v", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "$MODEL"], **gpu}
    canaries: dict[str, Document] = {
        "model": {"model": {"runtime": "my-vllm"}},
        "containers[0]": {"containers": [own]},
        "initContainers[0]": {"initContainers": [{**own, "command": ["vllm", "serve", "Qwen/Qwen3-8B"]}]},
    }
    kind = "serving.kserve.io", "v1beta1", "InferenceService"
    with closed_server.client() as closed:
        assert answered(closed, other_review(*kind, stable))["allowed"]
        for place, canary in canaries.items():
            spec = stable | {"canary": [{"trafficPercent": 10, "predictor": {"name": "c", **canary}}]}
            document = other_review(*kind, spec)
            update = other_review(*kind, spec)
            update["request"] |= {
                "operation": "UPDATE",
                "oldObject": other_review(*kind, stable)["request"]["object"],
            }
            for each in (document, update):
                denied = answered(closed, each)
                assert (place, denied["allowed"]) == (place, False)
                assert f"spec.canary[0].predictor.{place}" in denied["status"]["message"]
            assert answered(client, document)["allowed"]
        spec = stable | {
            "canary": [{"trafficPercent": 10, "predictor": {"name": "c", "model": {"args": ["--seed=1"]}}}]
        }
        allowed = answered(closed, other_review(*kind, spec))
        of_both = "spec.predictor.model=v2 spec.canary[0].predictor.model=v2"
        assert (allowed["allowed"], allowed["auditAnnotations"]["runner"]) == (True, of_both)


def test_a_field_that_is_not_read_is_denied_if_what_cannot_be_decided_is(
    client: httpx.Client, closed_server: Server
) -> None:
    container = {"name": "c", "image": "vllm/vllm-openai:v0.23.0", "command": ["vllm", "serve", "Qwen/Qwen3-8B"]}
    roles = [{"name": "r", "entryTemplate": {"spec": {"containers": [container]}}}]
    found = {
        name: other_review(
            "workload.serving.volcano.sh", "v1alpha1", "ModelServing", {"template": {"roles": roles}, name: [{"x": 1}]}
        )
        for name in ("plugins", "topologySpreadConstraints")
    }
    message = "`plugins` of `spec` may change the container, and is not read"
    with closed_server.client() as closed:
        denied = answered(closed, found["plugins"])
        assert (denied["allowed"], message in denied["status"]["message"]) == (False, True)
        assert answered(closed, found["topologySpreadConstraints"])["allowed"]
    warned = answered(client, found["plugins"])
    assert (warned["allowed"], message in " ".join(warned["warnings"])) == (True, True)


def ray_review(kind: str, command: list[str] | None = None, **fields: Any) -> Document:
    """The review of a new object of Ray, with a command of its head."""
    head = {"name": "ray", "image": "vllm/vllm-openai:v0.23.0", **({} if command is None else {"command": command})}
    cluster = {"headGroupSpec": {"template": {"spec": {"containers": [head]}}}}
    return other_review("ray.io", "v1", kind, {**fields, "rayClusterSpec": cluster} if kind == "RayJob" else cluster)


RAY_COMMANDS: list[tuple[list[str], str | None]] = [
    (["vllm", "serve", "Qwen/Qwen3-8B"], None),
    (["vllm", "serve", "Qwen/Qwen3-8B", "--served-model-name", "a b"], "a shell splits and expands them again"),
    (["bash", "-c", "export VLLM_USE_V2_MODEL_RUNNER=0; vllm serve Qwen/Qwen3-8B"], "a shell splits and expands them"),
    (["bash", "-c", "vllm serve Qwen/Qwen3-8B"], "what a shell makes of them is not vLLM's server"),
    (["echo", "x; vllm serve Qwen/Qwen3-8B"], "a shell splits and expands them again"),
]


def test_a_command_of_which_kuberay_may_make_other_words_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    with closed_server.client() as closed:
        for command, message in RAY_COMMANDS:
            found = answered(closed, ray_review("RayCluster", command))
            assert (command, found["allowed"]) == (command, message is None)
            warned = answered(client, ray_review("RayCluster", command))
            assert warned["allowed"]
            if message is not None:
                assert message in found["status"]["message"]
                assert message in " ".join(warned["warnings"])


def test_a_worker_of_ray_with_another_variable_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    def reviewed(leader: str, worker: str) -> Document:
        scripts = {
            "leaderTemplate": f"ray start --head; {leader} vllm serve Qwen/Qwen3-8B --distributed-executor-backend ray",
            "workerTemplate": f"{worker} ray start --address=$(LWS_LEADER_ADDRESS):6379 --block",
        }
        own = {"name": "v", "image": "vllm/vllm-openai:v0.33.0"}
        template = {
            name: {"spec": {"containers": [{**own, "command": ["sh", "-c", script]}]}}
            for name, script in scripts.items()
        }
        spec = {"leaderWorkerTemplate": {"size": 2, **template}}
        return other_review("leaderworkerset.x-k8s.io", "v1", "LeaderWorkerSet", spec)

    name = "VLLM_USE_V2_MODEL_RUNNER"
    same, other = reviewed("", ""), reviewed("", f"{name}=0")
    message = f"`{name}` is `0` for `ray start` in `spec.leaderWorkerTemplate.workerTemplate.spec.containers[0]`"
    with closed_server.client() as closed:
        for each in (same, reviewed(f"{name}=1", f"{name}=1"), reviewed(f"{name}=1", "")):
            found = answered(closed, each)
            assert (found["allowed"], message in str(found)) == (True, False)
        denied = answered(closed, other)
        assert (denied["allowed"], message in denied["status"]["message"]) == (False, True)
        other["request"] |= {"operation": "UPDATE", "oldObject": same["request"]["object"]}
        assert not answered(closed, other)["allowed"]
        other["request"] |= {"oldObject": other["request"]["object"]}
        assert answered(closed, other)["allowed"]
    warned = answered(client, reviewed("", f"{name}=0"))
    assert (warned["allowed"], message in " ".join(warned["warnings"])) == (True, True)
    assert message not in str(answered(client, same))


ENTRYPOINTS: list[tuple[dict[str, Any], bool]] = [
    ({"entrypoint": "V=0 vllm serve Qwen/Qwen3-8B --port 80"}, True),
    ({"entrypoint": "vllm serve Qwen/Qwen3-8B --served-model-name $X"}, False),
    ({"entrypoint": "vllm serve Qwen/Qwen3-8B --served-model-name 'a'"}, False),
    ({"entrypoint": "vllm serve Qwen/Qwen3-8B --served-model-name 'a'", "submissionMode": "HTTPMode"}, True),
    ({"entrypoint": "vllm serve Qwen/Qwen3-8B", "submissionMode": "InteractiveMode"}, False),
    ({"entrypoint": "echo ';vllm' serve Qwen/Qwen3-8B"}, False),
]


def test_an_entrypoint_that_another_shell_may_change_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    with closed_server.client() as closed:
        for fields, is_certain in ENTRYPOINTS:
            assert (fields, answered(closed, ray_review("RayJob", **fields))["allowed"]) == (fields, is_certain)
            assert answered(client, ray_review("RayJob", **fields))["allowed"]
            spec = ray_review("RayJob", **fields)["request"]["object"]["spec"]
            cron = other_review("ray.io", "v1", "RayCronJob", {"schedule": "@daily", "jobTemplate": spec})
            assert (fields, answered(closed, cron)["allowed"]) == (fields, is_certain)


def test_a_resource_of_ray_that_ends_its_quotes_is_denied_if_undecided_objects_are(closed_server: Server) -> None:
    review = ray_review("RayCluster")
    head = review["request"]["object"]["spec"]["headGroupSpec"]
    head["template"]["spec"]["containers"][0]["image"] = "rayproject/ray-llm:2.56.0"
    with closed_server.client() as closed:
        for name, is_allowed in (("a", True), ("a' ; vllm serve Qwen/Qwen3-8B ; echo '", False)):
            head["resources"] = {name: "1"}
            assert (name, answered(closed, review)["allowed"]) == (name, is_allowed)


TEMPLATES: list[tuple[str, str | None]] = [
    ("--served-model-name={{.Name}}", None),
    ("--max-model-len={{ .Labels.size }}", None),
    ("--port={{.Labels.port}}", None),
    ("--max-model-len={{.Labels.other}}", "`--max-model-len` is set to `{{.Labels.other}}`"),
    ("--max-model-len={{.Annotations.size}}", "`--max-model-len` is set to `{{.Annotations.size}}`"),
    ("--tensor-parallel-size={{.Labels.other}}", "`--tensor-parallel-size` is set to `{{.Labels.other}}`"),
    ("--kv-transfer-config={{.Labels.other}}", "`--kv-transfer-config` is set to `{{.Labels.other}}`"),
    ("--{{.Labels.other}}", "the value of the argument `--{{.Labels.other}}`"),
    ("{{.Labels.other}}", "the value of the argument `{{.Labels.other}}`"),
]


@pytest.mark.parametrize("is_predictor", [True, False])
def test_a_template_is_denied_if_undecided_objects_are_unless_kserve_fills_it(
    client: httpx.Client, closed_server: Server, *, is_predictor: bool
) -> None:
    """KServe renders the container that it merges with a runtime's, and no other."""

    def reviewed(client: httpx.Client, arg: str) -> Document:
        runtime = {"modelFormat": {"name": "vLLM"}, "runtime": "kserve-vllmserver"}
        model = {**runtime, "storageUri": "hf://Qwen/Qwen3-8B", "args": [arg]}
        other = {"image": "vllm/vllm-openai:v0.33.0", "name": "vllm", "args": ["--model=Qwen/Qwen3-8B", arg]}
        spec = {"predictor": {"model": model} if is_predictor else {"containers": [other]}}
        document = other_review("serving.kserve.io", "v1beta1", "InferenceService", spec)
        document["request"]["object"]["metadata"]["labels"] = {"size": "64", "port": "80"}
        return answered(client, document)

    for arg, why in TEMPLATES:
        is_known = why is None and (is_predictor or "--max-model-len" not in arg)
        with closed_server.client() as closed:
            denied = reviewed(closed, arg)
        assert (arg, denied["allowed"]) == (arg, is_known)
        if why is not None:
            assert why in denied["status"]["message"]
        warned = reviewed(client, arg)
        assert warned["allowed"]


def test_vllm_in_a_kind_that_is_not_read_is_allowed_with_a_warning(client: httpx.Client, closed_server: Server) -> None:
    template = {"container": {"image": "vllm/vllm-openai:v0.23.0", "args": ["--model=Qwen/Qwen3-8B"]}}
    document = other_review("argoproj.io", "v1alpha1", "Workflow", {"templates": [template]})
    warning = (
        "spec.templates[0].container: vLLM was found in a kind that is not read, `Workflow`; it is allowed without a "
        "decision"
    )
    with closed_server.client() as closed:
        for each in (client, closed):
            found = answered(each, document)
            assert (found["allowed"], found.get("warnings")) == (True, [warning])
            assert "warnings" not in answered(each, document, MUTATE)
    document["request"]["object"]["spec"]["templates"][0]["container"] = {"image": "nginx:1"}
    assert "warnings" not in answered(client, document)


SECRET_KEY = {"secretKeyRef": {"name": "s", "key": "k", "optional": True}}
UNKNOWN_VARIABLES: list[tuple[list[Document], list[str], str]] = [
    ([{"name": "VLLM_USE_V2_MODEL_RUNNER", "valueFrom": source}], ["vllm", "serve", "Qwen/Qwen3-8B"], "")
    for source in (
        {"secretKeyRef": {"name": "s", "key": "k"}},
        SECRET_KEY,
        {"configMapKeyRef": {"name": "c", "key": "k"}},
        {"configMapKeyRef": {"name": "c", "key": "k", "optional": True}},
        {"fieldRef": {"fieldPath": "metadata.annotations['a']"}},
        *({"fieldRef": {"fieldPath": f"metadata.{kind}['stated']"}} for kind in ("labels", "annotations")),
        *({"resourceFieldRef": {"resource": f"{kind}.cpu"}} for kind in ("limits", "requests")),
    )
]
UNKNOWN_VARIABLES += [
    (
        [
            {"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"},
            {"name": "VLLM_USE_V2_MODEL_RUNNER", "valueFrom": SECRET_KEY},
        ],
        ["vllm", "serve", "Qwen/Qwen3-8B", "--enable-dbo", "--all2all-backend=deepep_low_latency"],
        "",
    ),
    (
        [{"name": "X", "valueFrom": SECRET_KEY}, {"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "$(X)"}],
        ["vllm", "serve", "Qwen/Qwen3-8B"],
        "",
    ),
    (
        [{"name": "X", "valueFrom": SECRET_KEY}],
        ["sh", "-c", "VLLM_USE_V2_MODEL_RUNNER='$(X)' vllm serve Qwen/Qwen3-8B"],
        "",
    ),
    (
        [{"name": "VLLM_MLA_DISABLE", "valueFrom": SECRET_KEY}],
        ["vllm", "serve", "Qwen/Qwen3-8B"],
        "VLLM_MLA_DISABLE",
    ),
]


@pytest.mark.parametrize(
    ("args", "env", "name"),
    [
        (["--worker-cls", "my.Worker"], [], "`--worker-cls` (args[1]) loads `my.Worker` from outside vLLM"),
        ([], [{"name": "VLLM_PLUGINS", "value": "x"}], "`VLLM_PLUGINS` loads the plug-in `x` from outside vLLM"),
        ([], [{"name": "VLLM_PLUGINS", "valueFrom": SECRET_KEY}], "the value of `VLLM_PLUGINS` is not known"),
    ],
)
def test_code_from_outside_vllm_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server, args: list[str], env: list[Document], name: str
) -> None:
    document = review("pod-of-replicaset")
    pod = document["request"]["object"]
    pod["spec"]["containers"][0].update(command=["vllm", "serve"], args=["Qwen/Qwen3-8B", *args], env=env)
    pod["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
        {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
    )
    with closed_server.client() as closed:
        denied = answered(closed, document)
    assert (denied["allowed"], f"not decided: {name}" in denied["status"]["message"]) == (False, True)
    warned = answered(client, document)
    assert (warned["allowed"], sum(name in text for text in warned["warnings"])) == (True, 1)


def test_a_variable_with_an_unknown_value_is_denied_if_undecided_objects_are(
    client: httpx.Client, closed_server: Server
) -> None:
    def reviewed(client: httpx.Client, env: list[Document], command: list[str]) -> Document:
        document = review("pod-of-replicaset")
        pod = document["request"]["object"]
        stated = {kind: {"cpu": "1"} for kind in ("limits", "requests")}
        pod["spec"]["containers"][0].update(command=command, args=[], env=env, resources=stated)
        for kind in ("labels", "annotations"):  # which who may patch a pod changes without a review
            pod["metadata"].setdefault(kind, {})["stated"] = "0"
        pod["metadata"]["annotations"]["runner-policy/model-configs"] = json.dumps(
            {"Qwen/Qwen3-8B": {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
        )
        return answered(client, document)

    with closed_server.client() as closed:
        for env, command, name in UNKNOWN_VARIABLES:
            denied = reviewed(closed, env, command)
            message = f"not decided: the value of the variable `{name or 'VLLM_USE_V2_MODEL_RUNNER'}` is not known"
            assert (denied["allowed"], message in denied["status"]["message"]) == (False, True)
        other: list[Document] = [{"name": "HF_TOKEN", "valueFrom": SECRET_KEY}]
        assert reviewed(closed, other, ["vllm", "serve", "Qwen/Qwen3-8B"])["allowed"]
    for env, command, name in UNKNOWN_VARIABLES:
        warned = reviewed(client, env, command)
        assert warned["allowed"]
        assert name or "the value of `VLLM_USE_V2_MODEL_RUNNER` is not known here" in " ".join(warned["warnings"])


VLLM = "/usr/local/bin/vllm"
WITHOUT_EFFECT: list[tuple[list[str], str]] = [
    (["env", "-i", VLLM, "serve"], "command[1]"),
    (["env", "-u", VARIABLE, VLLM, "serve"], "command[1]"),
    (["sh", "-c", f'unset {VARIABLE}; exec {VLLM} serve "$@"', "sh"], "command[2]"),
    (["sh", "-c", f'exec env - {VLLM} serve "$@"', "sh"], "command[2]"),
]


@pytest.mark.slow
def test_a_command_that_clears_the_needed_variable_is_denied_if_undecided_objects_are(
    client: httpx.Client, serve: Callable[..., AbstractContextManager[Server]]
) -> None:
    def reviewed(client: httpx.Client, command: list[str], *added: Document, path: str = VALIDATE) -> Document:
        document = review("deployment-create")
        document["request"]["object"]["metadata"].setdefault("annotations", {})["runner-policy/set-env"] = "true"
        container = document["request"]["object"]["spec"]["template"]["spec"]["containers"][0]
        container.update(command=command, env=[*(container.get("env") or []), *added])
        return answered(client, document, path)

    place = "spec.template.spec.containers[0]"
    with serve(RUNNER_POLICY_ADMISSION_FAILURE_POLICY="closed") as server, server.client() as closed:
        for command, where in WITHOUT_EFFECT:
            why = (
                f"setting `{VARIABLE}` in the container's `env` has no effect: the command clears it, or may change it "
                f"({where}); put `env {VARIABLE}=0` right before vLLM's program"
            )
            for added in ((), (TO_V1,)):  # the command certainly removes what the container states
                assert reviewed(closed, command, *added)["status"]["message"] == (
                    f"{place}: not decided: {why} (objects that cannot be decided are denied here; add what is missing)"
                )
            warned = reviewed(client, command)
            assert (warned["allowed"], warned["warnings"]) == (True, [SET, f"{place}: {why}"])
            for each in (client, closed):
                assert reviewed(each, command, path=MUTATE).keys() == {"uid", "allowed"}
                assert reviewed(each, command, TO_V1, path=MUTATE).keys() == {"uid", "allowed"}
            remedied = [word.replace(f"{VLLM} serve", f"env {VARIABLE}=0 {VLLM} serve") for word in command]
            if VLLM in command:
                remedied[command.index(VLLM) :] = ["env", f"{VARIABLE}=0", VLLM, "serve"]
            for each in (client, closed):
                assert reviewed(each, remedied).keys() == {"uid", "allowed", "auditAnnotations"}


def test_reviews_are_logged_and_counted_and_dry_runs_only_counted(
    shared: Callable[..., AbstractContextManager[Service]],
) -> None:
    with shared("required-log") as server, server.client() as client:
        before, count = records(client), counted(client)
        answered(client, review("pod-of-replicaset", dryRun=True))
        answered(client, review("pod-of-replicaset", dryRun=True), MUTATE)
        assert logged(client, before) == []
        assert counted_since(client, count) == {
            'call="mutate",result="patched"': 1,
            'call="validate",result="warned"': 1,
        }
        # It is decided once for the record, and once more to see whether the patch helps.
        answered(client, REVIEWS["pod-of-replicaset"], MUTATE)
        answered(client, REVIEWS["pod-of-replicaset"])
        answered(client, REVIEWS["kafka-topic"])
        assert logged(client, before) == [("v1/admission/mutate", "v1"), ("v1/admission", "v1")]
        assert counted_since(client, count)['call="validate",result="ignored"'] == 1


def test_dry_runs_of_reviews_are_logged_if_dry_runs_are(serve: Callable[..., AbstractContextManager[Service]]) -> None:
    with (
        serve(RUNNER_POLICY_LOG_REQUIRED="true", RUNNER_POLICY_LOG_DRY_RUNS="true") as server,
        server.client() as client,
    ):
        before = records(client)
        answered(client, review("pod-of-replicaset", dryRun=True))
        assert logged(client, before) == [("v1/admission", "v1")]


def counted_since(client: httpx.Client, before: dict[str, float]) -> dict[str, float]:
    """The reviews counted after ``before``."""
    return {
        name: number - before.get(name, 0) for name, number in counted(client).items() if number != before.get(name)
    }


@pytest.mark.slow
def test_the_audit_annotations_name_the_logged_decision(
    shared: Callable[..., AbstractContextManager[Service]],
) -> None:
    with shared("required-log") as server, server.client() as client:
        told = answered(client, REVIEWS["deployment-create"])["auditAnnotations"]
        item = records(client)[-1]
        assert told == {
            "runner": "spec.template.spec.containers[0]=v1",
            "decision-id": f"spec.template.spec.containers[0]={item['decision_id']}",
            "revision": item["revision"],
        }


@pytest.mark.slow
def test_a_user_whose_objects_are_large_does_not_use_up_the_rate_of_the_api_server(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    large, other = copy.deepcopy(REVIEWS["deployment-create"]), copy.deepcopy(REVIEWS["deployment-create"])
    large["request"]["userInfo"] = {"username": "many"}
    other["request"]["userInfo"] = {"username": "few"}
    containers = large["request"]["object"]["spec"]["template"]["spec"]["containers"]
    containers += [{**containers[0], "name": f"c{number}"} for number in range(100)]
    with serve(RUNNER_POLICY_RATE_LIMIT="1") as server, server.client() as client:
        assert client.post(VALIDATE, json=large).status_code == 200
        assert client.post(VALIDATE, json=large).status_code == 429
        assert client.post(VALIDATE, json=other).status_code == 200


def test_an_api_server_needs_a_token_unless_anonymous_reviews_are_allowed(
    shared: Callable[..., AbstractContextManager[Service]],
) -> None:
    with (
        shared("tokens") as server,
        server.client() as client,
        shared("tokens", "decide") as known,
        known.client() as api_server,
    ):
        for path in (VALIDATE, MUTATE):
            assert client.post(path, json=REVIEWS["kafka-topic"]).status_code == 401
            assert api_server.post(path, json=REVIEWS["kafka-topic"]).status_code == 200
    with shared("rate") as server, server.client() as client:
        assert [client.post(path, json=REVIEWS["kafka-topic"]).status_code for path in (VALIDATE, MUTATE)] == [200, 200]
        assert client.post("/v1/decisions", json={"facts": {}}).status_code == 401


def test_a_review_may_be_larger_than_other_bodies(serve: Callable[..., AbstractContextManager[Server]]) -> None:
    large, larger = review("kafka-topic"), review("kafka-topic")
    for document, size in ((large, 1 << 17), (larger, 3 << 17)):
        document["request"]["object"]["metadata"]["annotations"] = {"note": "x" * size}
    with serve(RUNNER_POLICY_MAX_BODY="65536", RUNNER_POLICY_MAX_REVIEW="262144") as server, server.client() as client:
        assert client.post("/v1/decisions", json=large).status_code == 413
        assert [answered(client, large, path)["allowed"] for path in (VALIDATE, MUTATE)] == [True, True]
        assert [client.post(path, json=larger).status_code for path in (VALIDATE, MUTATE)] == [413, 413]


@pytest.mark.parametrize("path", [VALIDATE, MUTATE])
def test_an_invalid_review_is_a_problem_so_that_the_api_server_treats_the_call_as_failed(
    client: httpx.Client, path: str
) -> None:
    found = client.post(
        path, json={"apiVersion": "admission.k8s.io/v1beta1", "kind": "AdmissionReview", "request": {"uid": 7}}
    )
    assert (found.status_code, found.headers["content-type"]) == (422, "application/problem+json")
    assert [fault["pointer"] for fault in found.json()["errors"]] == [
        "/apiVersion",
        "/request/operation",
        "/request/uid",
        "/request/kind",
    ]
    assert client.post(path, content=b"{").status_code == 400
