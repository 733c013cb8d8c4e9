"""A container in a field that no adapter reads is not overlooked in a review, whatever the kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

from shipped_images import shipped_images
from tables import table

from policy.intake.manifests import registry
from policy.intake.manifests.registry import ADAPTERS
from policy.intake.manifests.unknown_kinds import UNREAD_CONTAINER

if TYPE_CHECKING:
    from policy.errors import RequestFault

CONTAINER = {"name": "c", "image": "vllm/vllm-openai:v0.33.0", "args": ["--model", "m"]}
FIELD = {"aFieldOfALaterRelease": [{"predictor": {"containers": [CONTAINER, {"name": "d", "image": "busybox"}]}}]}
WORKLOAD = {"template": {"spec": {"containers": [{"name": "c", "image": "busybox"}]}}}


def engines(document: object, *, is_under_review: bool) -> dict[str, str]:
    """The paths of the engines of an object, each with its problem."""
    faults: list[RequestFault] = []
    found = registry.read_manifest(document, "", faults, shipped_images(), is_under_review=is_under_review)
    return {container.path: container.problem for container in found}


@table(("group", "kind"), ADAPTERS)
def test_a_container_in_a_field_that_is_not_read_is_undecided_in_a_review(group: str, kind: str) -> None:
    document = {"apiVersion": f"{group}/v1" if group else "v1", "kind": kind, "metadata": {"name": "a"}, "spec": FIELD}
    found = engines(document, is_under_review=True)
    assert found.get("spec.aFieldOfALaterRelease[0].predictor.containers[0]") == UNREAD_CONTAINER


def test_the_containers_that_are_read_are_not_added_again() -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": "a"}}
    pod = {"containers": [CONTAINER], "initContainers": [{**CONTAINER, "command": ["vllm", "--version"]}]}
    spec = {"template": {"spec": pod}}
    assert engines({**document, "spec": spec}, is_under_review=True) == {"spec.template.spec.containers[0]": ""}


def test_the_status_and_other_programs_are_no_containers() -> None:
    document = {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": FIELD, "status": FIELD, "spec": WORKLOAD}
    assert engines(document, is_under_review=True) == {}


def test_a_worker_of_kthena_is_read_with_its_backend() -> None:
    worker = {"type": "server", "image": "vllm/vllm-openai:v0.33.0", "config": {}}
    spec = {"backend": {"type": "vLLM", "modelURI": "hf://a/b", "workers": [worker]}}
    document = {"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelBooster", "spec": spec}
    assert engines(document, is_under_review=True) == {"spec.backend": ""}
