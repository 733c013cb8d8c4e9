"""Objects through a real API server, as the manifests register and configure the service.

The service only warns, and sets the variable where an annotation requests it.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import pytest
import yaml
from api.conftest import ROOT

from policy.intake.manifests.registry import ADAPTERS

from .apiserver import custom, define, until
from .conftest import (
    DBO,
    MODELS,
    NIXL,
    SET,
    SET_ENV,
    TEMPLATE,
    V1_VARIABLE,
    V2_VARIABLE,
    VARIABLE,
    container,
    containers,
    deployment,
    only_in_one_process,
)
from .record import recording, registration

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .apiserver import Cluster, Document
    from .conftest import Admission, Installation

pytestmark = only_in_one_process()
WORKLOADS = "workloads.validate.runner-policy"
EXAMPLES = ROOT / "tests/intake/manifests/fixtures"


@pytest.fixture(scope="module")
def admission(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admission]:
    """The service as the manifests configure it."""
    with installed.admitting(tmp_path_factory.mktemp("service")) as found:
        yield found


def pod(name: str, *found: Document) -> Document:
    """A pod that requests the variable; a name that ends in `-` is generated."""
    named = {"generateName": name} if name.endswith("-") else {"name": name}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {**named, "annotations": {**MODELS, **SET_ENV}},
        "spec": {"containers": list(found)},
    }


def test_an_engine_that_would_not_start_has_a_warning_and_is_stored(admission: Admission, namespace: str) -> None:
    done = admission.apply(
        namespace,
        deployment("dbo", container("--enable-dbo", "--all2all-backend=deepep_low_latency", env=[V2_VARIABLE])),
    )
    assert (done.out, done.err) == ("deployment.apps/dbo created\n", f"Warning: {TEMPLATE}: {DBO}\n")


def test_the_variable_has_a_warning_if_no_annotation_requests_it(admission: Admission, namespace: str) -> None:
    assert admission.apply(namespace, deployment("nixl", container(*NIXL))).err == f"Warning: {TEMPLATE}: {SET}\n"
    assert "env" not in containers(admission.cluster.get("-n", namespace, "deployment", "nixl"))[0]


def test_the_variable_is_stored_in_the_container_of_vllm_and_in_no_other(admission: Admission, namespace: str) -> None:
    proxy = {"name": "proxy", "image": "envoyproxy/envoy:v1.35.0", "env": [{"name": "LEVEL", "value": "info"}]}
    document = deployment(
        "nixl", proxy, container(*NIXL), {"name": "shipper", "image": "fluent/fluent-bit:4.0.5"}, set_env="true"
    )
    assert admission.apply(namespace, document).err == ""
    stored = containers(admission.cluster.get("-n", namespace, "deployment", "nixl"))
    assert [(each["name"], each.get("env")) for each in stored] == [
        ("proxy", proxy["env"]),
        ("vllm", [V1_VARIABLE]),
        ("shipper", None),
    ]


def test_pods_of_a_deployment_have_the_variable_once(admission: Admission, namespace: str) -> None:
    if not admission.cluster.has_controllers:
        pytest.skip("no pods are created without kube-controller-manager")
    admission.apply(namespace, deployment("nixl", container(*NIXL), set_env="true"))
    [found] = until(lambda: admission.cluster.get("-n", namespace, "pods", "-l", "app=nixl")["items"])
    assert (containers(found)[0]["env"], found["metadata"]["ownerReferences"][0]["kind"]) == (
        [V1_VARIABLE],
        "ReplicaSet",
    )


def test_a_pod_with_a_given_or_a_generated_name_gets_the_variable(admission: Admission, namespace: str) -> None:
    for document in (pod("own", container(*NIXL)), pod("given-", container(*NIXL))):
        done = admission.cluster.kubectl("-n", namespace, "create", "-f", "-", "-o", "name", document=document)
        assert done.err == ""
        assert containers(admission.cluster.get("-n", namespace, done.out.strip()))[0]["env"] == [V1_VARIABLE]


def test_a_new_image_of_a_pod_has_a_warning_and_its_variables_are_unchanged(
    admission: Admission, namespace: str
) -> None:
    document = pod("own", container(*NIXL))
    run = admission.cluster.kubectl
    with admission.exempting(namespace):
        assert run("-n", namespace, "create", "-f", "-", document=document).err == ""
    assert (
        run("-n", namespace, "set", "image", "pod/own", "vllm=vllm/vllm-openai:v0.24.0").err
        == f"Warning: spec.containers[0]: {SET}\n"
    )
    assert "env" not in containers(admission.cluster.get("-n", namespace, "pod", "own"))[0]


def test_a_value_from_a_configmap_is_replaced_by_the_decided_one(admission: Admission, namespace: str) -> None:
    elsewhere = {
        "name": V1_VARIABLE["name"],
        "valueFrom": {"configMapKeyRef": {"name": "vllm", "key": "v2", "optional": True}},
    }
    admission.cluster.kubectl(
        "-n", namespace, "create", "-f", "-", document=pod("own", container(*NIXL, env=[elsewhere]))
    )
    assert containers(admission.cluster.get("-n", namespace, "pod", "own"))[0]["env"] == [V1_VARIABLE]


def test_a_dry_run_is_answered_and_stores_nothing(admission: Admission, namespace: str) -> None:
    admission.settle()
    before, answered = admission.logged(), admission.answered("validate")
    done = admission.apply(
        namespace,
        deployment("dbo", container("--enable-dbo", "--all2all-backend=deepep_low_latency", env=[V2_VARIABLE])),
        "--dry-run=server",
    )
    assert (done.out, done.err) == ("deployment.apps/dbo created (server dry run)\n", f"Warning: {TEMPLATE}: {DBO}\n")
    assert "NotFound" in admission.cluster.kubectl("-n", namespace, "get", "deployment", "dbo", fails=True).err
    assert (admission.logged(), admission.answered("validate")) == (before, answered + 1)


def test_a_second_server_side_apply_changes_nothing(admission: Admission, namespace: str) -> None:
    document, seen = deployment("nixl", container(*NIXL), set_env="true"), []
    for _ in range(2):
        assert admission.apply(namespace, document, "--server-side").err == ""
        stored = admission.cluster.get("-n", namespace, "deployment", "nixl")
        seen.append((containers(stored)[0]["env"], stored["metadata"]["generation"]))
    assert seen == [([V1_VARIABLE], 1), ([V1_VARIABLE], 1)]


def test_a_second_client_side_apply_changes_nothing(admission: Admission, namespace: str) -> None:
    other = {"name": "A", "value": "b"}
    document, seen = deployment("nixl", container(*NIXL, env=[other]), set_env="true"), []
    for _ in range(2):
        assert admission.apply(namespace, document).err == ""
        stored = admission.cluster.get("-n", namespace, "deployment", "nixl")
        seen.append((containers(stored)[0]["env"], stored["metadata"]["generation"]))
    assert seen == [([other, V1_VARIABLE], 1), ([other, V1_VARIABLE], 1)]


def test_only_an_update_of_an_engine_has_a_warning(admission: Admission, namespace: str) -> None:
    admission.apply(namespace, deployment("nixl", container(*NIXL)))
    if admission.cluster.has_controllers:
        until(lambda: admission.cluster.get("-n", namespace, "pods")["items"])
    admission.settle()
    before = len(admission.logged())
    for words in (
        ("scale", "deployment/nixl", "--replicas=0"),
        ("label", "deployment/nixl", "a=b"),
        ("annotate", "deployment/nixl", "a=b"),
    ):
        assert admission.cluster.kubectl("-n", namespace, *words).err == ""
    assert len(admission.logged()) == before
    changed = admission.cluster.kubectl(
        "-n", namespace, "set", "image", "deployment/nixl", "vllm=vllm/vllm-openai:v0.24.0"
    )
    assert changed.err == f"Warning: {TEMPLATE}: {SET}\n"
    assert admission.cluster.kubectl("-n", namespace, "delete", "deployment/nixl").err == ""


def test_the_variable_stays_until_a_user_removes_it(admission: Admission, namespace: str) -> None:
    admission.apply(namespace, deployment("qwen", container(*NIXL), set_env="true"))
    patch = json.dumps({"spec": {"template": {"spec": {"containers": [container()]}}}})
    admission.cluster.kubectl("-n", namespace, "patch", "deployment", "qwen", "-p", patch)
    assert containers(admission.cluster.get("-n", namespace, "deployment", "qwen"))[0]["env"] == [V1_VARIABLE]
    assert admission.cluster.kubectl("-n", namespace, "set", "env", "deployment/qwen", f"{VARIABLE}-").err == ""
    assert "env" not in containers(admission.cluster.get("-n", namespace, "deployment", "qwen"))[0]


def test_an_object_that_a_later_webhook_changes_is_reviewed_again(admission: Admission, namespace: str) -> None:
    cluster = admission.cluster

    def change(document: Document) -> list[Document]:
        return [
            {"op": "add", "path": "/spec/containers/0/args/-", "value": word}
            for word in NIXL
            if word not in document["spec"]["containers"][0]["args"]
        ]

    with recording(cluster, change) as recorder:
        rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
        document = registration(cluster, recorder, "sidecar", mutating=True, rule=rule)
        document["webhooks"][0]["namespaceSelector"] = {"matchLabels": {"kubernetes.io/metadata.name": namespace}}
        cluster.kubectl("create", "-f", "-", document=document)
        try:

            def is_called() -> bool:
                cluster.kubectl(
                    "-n",
                    namespace,
                    "create",
                    "--dry-run=server",
                    "-f",
                    "-",
                    document=pod("trial", {"name": "trial", "image": "trial", "args": ["a"]}),
                )
                return bool(recorder.received)

            until(is_called)
            done = cluster.kubectl("-n", namespace, "create", "-f", "-", document=pod("own", container()))
        finally:
            cluster.kubectl("delete", document["kind"], "sidecar")
    stored = containers(cluster.get("-n", namespace, "pod", "own"))[0]
    assert (done.err, stored["args"][2:], stored["env"]) == ("", list(NIXL), [V1_VARIABLE])


def test_ten_warnings_reach_the_user_who_writes_the_object(admission: Admission, namespace: str) -> None:
    many = [container(*NIXL, name=f"engine-{number}") for number in range(70)]
    lines = admission.apply(namespace, deployment("many", *many)).err.splitlines()
    assert lines[:2] == [f"Warning: spec.template.spec.containers[{number}]: {SET}" for number in range(2)]
    assert (len(lines), lines[-1].startswith("Warning: 61 more warnings are not shown")) == (10, True)


def test_a_long_warning_reaches_the_user_who_writes_the_object(admission: Admission, namespace: str) -> None:
    name = "é“x”" * 60
    [line] = admission.apply(namespace, deployment("long", container(args=["--model", name]))).err.splitlines()
    assert (line[:40], line[-1], len(line)) == (f"Warning: {TEMPLATE}"[:40], "…", len("Warning: ") + 256)


def test_the_audit_log_has_the_decision(admission: Admission, namespace: str) -> None:
    admission.apply(namespace, deployment("nixl", container(*NIXL)))

    def annotated_events() -> list[Document]:
        events = [
            event["annotations"]
            for event in admission.cluster.audited()
            if (event.get("objectRef") or {}).get("namespace") == namespace
        ]
        return [event for event in events if f"{WORKLOADS}/runner" in event]

    annotations = until(annotated_events)[0]
    [logged] = [
        item
        for item in admission.logged()
        if annotations[f"{WORKLOADS}/decision-id"] == f"{TEMPLATE}={item['decision_id']}"
    ]
    assert (annotations[f"{WORKLOADS}/runner"], annotations[f"{WORKLOADS}/revision"]) == (
        f"{TEMPLATE}=v1",
        logged["revision"],
    )


CLUSTER_SCOPED: Final = frozenset({"BackendRuntime", "ClusterServingRuntime"})


def examples() -> dict[tuple[str, str], Document]:
    """An object of every supported controller kind, by group and kind."""
    found = {
        (group, kind): {"apiVersion": f"{group}/v1", "kind": kind, "metadata": {"name": "vllm"}, "spec": {}}
        for group, kind in ADAPTERS
        if "." in group
    }
    for path in sorted(EXAMPLES.glob("*.yaml")):
        for document in yaml.safe_load_all(path.read_text()):
            key = (document["apiVersion"].rpartition("/")[0], document["kind"]) if "kind" in document else ("", "")
            if key in found:
                found[key] = document
    return found


def test_every_supported_controller_kind_is_sent(admission: Admission, cluster: Cluster, namespace: str) -> None:
    found = {kind: document for (_, kind), document in examples().items()}
    plurals = {kind: f"{kind.lower()}s" for kind in found}
    define(
        cluster,
        *(
            custom(document["apiVersion"], kind, plurals[kind], "Cluster" if kind in CLUSTER_SCOPED else "Namespaced")
            for kind, document in found.items()
        ),
    )
    sent = {}
    admission.settle()
    with cluster.client() as client:
        for kind, document in found.items():
            before = admission.answered("validate")
            folder = "" if kind in CLUSTER_SCOPED else f"namespaces/{namespace}/"
            document["metadata"] = {"name": document["metadata"]["name"]}
            answer = client.post(f"/apis/{document['apiVersion']}/{folder}{plurals[kind]}?dryRun=All", json=document)
            sent[kind] = answer.status_code, admission.answered("validate") - before
    assert sent == dict.fromkeys(found, (201, 1))
