"""Objects through a real API server with a strict service.

The service denies, sets the variable everywhere, and admits nothing that it cannot decide.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from .apiserver import until
from .conftest import (
    DBO,
    EXEMPTION,
    NIXL,
    TEMPLATE,
    V1_VARIABLE,
    V2_VARIABLE,
    container,
    containers,
    deployment,
    only_in_one_process,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Admission, Installation

pytestmark = only_in_one_process()
BROKEN = container("--enable-dbo", "--all2all-backend=deepep_low_latency", env=[V2_VARIABLE])


@pytest.fixture(scope="module")
def admission(installed: Installation, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Admission]:
    """The service at its strictest."""
    settings = {"ADMISSION_DENY": "true", "ADMISSION_SET_ENV": "always", "ADMISSION_FAILURE_POLICY": "closed"}
    with installed.admitting(tmp_path_factory.mktemp("service"), **settings) as found:
        yield found


def test_an_engine_that_would_not_start_is_denied(admission: Admission, namespace: str) -> None:
    done = admission.apply(namespace, deployment("dbo", BROKEN), fails=True)
    prefix = (
        'Error from server (Forbidden): error when creating "STDIN": admission webhook '
        '"workloads.validate.runner-policy" denied the request: '
    )
    remedy = "correct the arguments or variables that are named; `POST /v1/dry-run` explains"
    assert (done.out, done.err) == ("", f"{prefix}{TEMPLATE}: {DBO} ({remedy})\n")
    assert "NotFound" in admission.cluster.kubectl("-n", namespace, "get", "deployment", "dbo", fails=True).err


def test_a_dry_run_is_denied_too(admission: Admission, namespace: str) -> None:
    assert (
        f"{TEMPLATE}: {DBO}"
        in admission.apply(namespace, deployment("dbo", BROKEN), "--dry-run=server", fails=True).err
    )


def test_an_object_that_cannot_be_decided_is_denied(admission: Admission, namespace: str) -> None:
    done = admission.apply(namespace, deployment("unknown", container(args=["--model", "a/b"])), fails=True)
    assert f"{TEMPLATE}: not decided: the config.json of `a/b` is needed" in done.err


def test_the_variable_is_set_without_an_annotation_and_the_pods_are_created(
    admission: Admission, namespace: str
) -> None:
    assert admission.apply(namespace, deployment("nixl", container(*NIXL))).err == ""
    assert containers(admission.cluster.get("-n", namespace, "deployment", "nixl"))[0]["env"] == [V1_VARIABLE]
    if admission.cluster.has_controllers:
        [found] = until(lambda: admission.cluster.get("-n", namespace, "pods")["items"])
        assert containers(found)[0]["env"] == [V1_VARIABLE]


def test_an_existing_object_can_be_scaled_labelled_and_deleted_but_not_changed(
    admission: Admission, namespace: str
) -> None:
    document = deployment("dbo", BROKEN)
    document["metadata"]["finalizers"] = ["example.com/waits"]
    with admission.exempting(namespace):
        assert admission.apply(namespace, document).err == ""
    run = admission.cluster.kubectl
    for words in (
        ("scale", "deployment/dbo", "--replicas=3"),
        ("label", "deployment/dbo", "a=b"),
        ("rollout", "pause", "deployment/dbo"),
    ):
        assert run("-n", namespace, *words).err == ""
    assert (
        DBO in run("-n", namespace, "set", "image", "deployment/dbo", "vllm=vllm/vllm-openai:v0.23.1", fails=True).err
    )
    assert run("-n", namespace, "delete", "deployment/dbo", "--wait=false").err == ""
    assert (
        run("-n", namespace, "patch", "deployment/dbo", "--type=merge", "-p", '{"metadata": {"finalizers": null}}').err
        == ""
    )
    until(lambda: not admission.cluster.get("-n", namespace, "deployments")["items"])


def test_an_object_in_an_exempt_namespace_is_not_sent(admission: Admission, namespace: str) -> None:
    document = deployment("dbo", BROKEN)
    document["spec"]["replicas"] = 0
    with admission.exempting(namespace):
        assert admission.apply(namespace, document).err == ""


def test_a_label_of_the_object_exempts_nothing(admission: Admission, namespace: str) -> None:
    document = deployment("dbo", BROKEN)
    document["metadata"]["labels"] = {EXEMPTION: "skip"}
    assert DBO in admission.apply(namespace, document, fails=True).err
