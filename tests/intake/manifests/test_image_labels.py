"""Versions in labels and annotations of images, and images with vLLM's name of which the entry point is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.deployment import Deployment
from policy.request.manifest import request_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container
    from policy.policy import Policy

NAME = "org.opencontainers.image.version"
CAUSE = f"the label `{NAME}`"
SERVE = ["vllm", "serve", "a/b"]
GPU = {"limits": {"nvidia.com/gpu": 1}}


def read(document: object) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def pod(container: dict[str, Any], **metadata: Any) -> dict[str, Any]:
    spec = {"containers": [{"name": "v", "image": "example.com/serve:prod", **container}]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec}


def service(**fields: Any) -> dict[str, Any]:
    return {"services": {"a": {"image": "example.com/serve:prod", "command": SERVE, **fields}}}


@table(
    ("document", "version"),
    [
        (pod({"command": SERVE}, annotations={NAME: "0.24.0"}), "0.24.0"),
        (pod({"command": SERVE}, labels={NAME: "v0.24.0"}), "v0.24.0"),
        (service(labels={NAME: "0.24.0"}), "0.24.0"),
        (service(labels=["x=y", f"{NAME}=0.24.0"]), "0.24.0"),
        (service(annotations={NAME: "0.24.0"}), "0.24.0"),
        ({"script": f"docker run --label {NAME}=0.24.0 example.com/serve:prod vllm serve a/b"}, "0.24.0"),
        (pod({"command": SERVE}, annotations={NAME: 1}), None),
        (service(labels=[1, NAME]), None),
        (service(labels={NAME: "${TAG}"}), None),
    ],
)
def test_a_label_has_the_version_that_the_name_does_not_show(document: object, version: str | None) -> None:
    (found,) = read(document)
    expected = ("", False) if version is None else (CAUSE, True)
    assert (found.vllm_version, (found.version_cause, found.version_is_presumed)) == (version, expected)


def test_the_tag_comes_before_the_label() -> None:
    (found,) = read(pod({"image": "vllm/vllm-openai:v0.23.0", "command": SERVE}, annotations={NAME: "0.24.0"}))
    assert (found.vllm_version, found.version_cause) == ("0.23.0", "")


@pytest.mark.parametrize(
    ("version", "decided", "message"),
    [
        ("0.24.0", "0.24.0", f"{CAUSE} is taken as vLLM's version, and may be a version of the image's owner"),
        ("24.04", "0.23.0", f"{CAUSE} is not the version of a known release"),
    ],
)
def test_a_label_counts_if_it_is_a_known_release(policy: Policy, version: str, decided: str, message: str) -> None:
    manifest = read_request_or_manifest(pod({"command": SERVE}, annotations={NAME: version}), policy.releases)
    assert isinstance(manifest, Manifest)
    (container,) = read(manifest.document)
    request = request_of(container, manifest, policy.releases)
    assert isinstance(request, Request)
    assert isinstance(request.deployment, Deployment)
    installation = request.deployment.installation
    said = [*request.deployment.notes, "" if installation is None else installation.cause]
    assert (request.vllm_version, message in " ".join(said)) == (decided, True)


@table(
    ("container", "problem"),
    [
        ({"image": "x/my-vllm:v1", "resources": GPU}, True),
        ({"image": "x/my-vllm:v1", "env": [{"name": "VLLM_LOGGING_LEVEL", "value": "INFO"}]}, True),
        ({"image": "x/neuron-vllm0.5.0:v8", "resources": GPU}, True),
        ({"image": "x/vllm-router:v1"}, False),
        ({"image": "x/vllm-router:v1", "env": [{"name": "VLLM_URL", "value": "http://vllm:8000"}]}, False),
        ({"image": "x/other:v1", "resources": GPU}, False),
    ],
)
def test_an_image_with_vllms_name_that_asks_for_an_accelerator_may_start_vllm(
    container: dict[str, Any], *, problem: bool
) -> None:
    found = read(pod(container))
    expected = (
        ["the image has vLLM in its name and its entry point is not known, so that it may start vLLM"]
        if problem
        else []
    )
    assert [each.problem.partition(";")[0] for each in found] == expected


def test_a_script_in_such_an_image_may_start_vllm() -> None:
    (found,) = read(pod({"image": "x/neuron-vllm0.5.0:v8", "command": ["/run.sh"], "resources": GPU}))
    assert found.words == ["/run.sh"]
    assert read(pod({"image": "x/my-vllm:v1", "command": ["nginx"], "resources": GPU})) == []
