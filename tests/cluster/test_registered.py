"""Registrations at a real API server.

Calls without an answer, a certificate created by hand, and the mutating webhook for pods alone.
"""

from __future__ import annotations

import base64
import json
import os
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from api.conftest import ROOT

from .apiserver import until
from .conftest import (
    DBO,
    NIXL,
    SET,
    TEMPLATE,
    V1_VARIABLE,
    V2_VARIABLE,
    Admission,
    commands_with,
    container,
    containers,
    deployment,
    only_in_one_process,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from .apiserver import Cluster, Document
    from .conftest import Installation

    Start = Callable[..., AbstractContextManager[Admission]]

pytestmark = only_in_one_process()
BROKEN = container("--enable-dbo", "--all2all-backend=deepep_low_latency", env=[V2_VARIABLE])
TIMEOUT = 3
"""The timeout of one call in the manifests, in seconds."""


def failing(document: Document) -> None:
    """Deny objects if there is no answer."""
    for webhook in document["webhooks"]:
        webhook["failurePolicy"] = "Fail"


def timed(run: Callable[[], Any]) -> tuple[float, Any]:
    begins = time.monotonic()
    found = run()
    return time.monotonic() - begins, found


def test_while_the_service_is_stopped_everything_is_allowed_without_a_warning(admitting: Start, namespace: str) -> None:
    with admitting(ADMISSION_DENY="true") as admission:
        assert DBO in admission.apply(namespace, deployment("dbo", BROKEN), fails=True).err
        admission.service.process.terminate()
        admission.service.process.wait()
        assert admission.apply(namespace, deployment("dbo", BROKEN)).err == ""


def test_while_the_service_hangs_an_object_waits_for_the_timeouts_of_both_calls(
    admitting: Start, namespace: str
) -> None:
    with admitting(ADMISSION_DENY="true") as admission:
        (pid,) = admission.service.workers()
        os.kill(pid, signal.SIGSTOP)
        try:
            seconds, done = timed(lambda: admission.apply(namespace, deployment("dbo", BROKEN)))
        finally:
            os.kill(pid, signal.SIGCONT)
        assert done.err == ""
        assert 2 * TIMEOUT <= seconds < 4 * TIMEOUT


def test_with_failure_policy_fail_nothing_is_allowed_while_the_service_is_stopped(
    admitting: Start, namespace: str
) -> None:
    with admitting(failing) as admission:
        admission.service.process.terminate()
        admission.service.process.wait()
        error = admission.apply(namespace, deployment("nixl", container(*NIXL)), fails=True).err
        assert 'failed calling webhook "workloads.mutate.runner-policy"' in error


def test_the_registration_in_the_documentation_is_accepted(cluster: Cluster) -> None:
    [text] = [text for text in (ROOT / "docs/admission.md").read_text().split("```")[1::2] if text.startswith("yaml\n")]
    cluster.kubectl("create", "--dry-run=server", "-f", "-", document=yaml.safe_load(text.removeprefix("yaml\n")))


def test_the_authority_is_registered_with_the_commands_of_the_readme(
    installed: Installation, cluster: Cluster, tmp_path: Path
) -> None:
    with installed.serving(tmp_path) as service:
        found = installed.registrations(service.port)
        for document in found:
            for webhook in document["webhooks"]:
                del webhook["clientConfig"]["caBundle"]
            cluster.kubectl("create", "-f", "-", document=document)
        try:
            done = cluster.shell(["bash", "-euc", commands_with("clientConfig/caBundle")], W=str(installed.folder))
            assert (done.code, done.out.count(" patched\n")) == (0, 4)
            installed.until_called(Admission(cluster, service))
            created = cluster.shell(["bash", "-euc", commands_with("create deployment try")])
            assert (
                created.code,
                created.err.startswith(
                    f"Warning: {TEMPLATE}: not decided: the config.json of `Qwen/Qwen3-8B` is needed"
                ),
            ) == (0, True)
        finally:
            for document in found:
                cluster.kubectl("delete", document["kind"], document["metadata"]["name"])


def test_if_registered_for_pods_alone_a_deployment_is_unchanged_and_its_pods_get_the_variable(
    admitting: Start, namespace: str
) -> None:
    def pods_alone(document: Document) -> None:
        if document["kind"].startswith("Mutating"):
            webhook = document["webhooks"][0]
            webhook["rules"] = [rule for rule in webhook["rules"] if rule["resources"] == ["pods"]]
            webhook.pop("matchConditions", None)  # they exclude the pods of a Deployment

    with admitting(pods_alone, ADMISSION_SET_ENV="always") as admission:
        if not admission.cluster.has_controllers:
            pytest.skip("no pods are created without kube-controller-manager")
        assert admission.apply(namespace, deployment("nixl", container(*NIXL))).err == f"Warning: {TEMPLATE}: {SET}\n"
        [found] = until(lambda: admission.cluster.get("-n", namespace, "pods")["items"])
        assert containers(found)[0]["env"] == [V1_VARIABLE]
        assert "env" not in containers(admission.cluster.get("-n", namespace, "deployment", "nixl"))[0]


def test_a_certificate_of_another_authority_makes_a_call_fail(
    admitting: Start, cluster: Cluster, namespace: str
) -> None:
    other = base64.b64encode(cluster.authority.path.read_bytes()).decode()
    patch = json.dumps([{"op": "replace", "path": "/webhooks/0/clientConfig/caBundle", "value": other}])
    with admitting(ADMISSION_DENY="true") as admission, cluster.client() as client:

        def status() -> int:
            path = f"/apis/apps/v1/namespaces/{namespace}/deployments?dryRun=All"
            return client.post(path, json=deployment("dbo", BROKEN)).status_code

        assert status() == 403
        cluster.kubectl("patch", "validatingwebhookconfiguration", "runner-policy", "--type=json", "-p", patch)
        until(lambda: status() == 201)
        assert admission.service.process.poll() is None
