"""The `VLLM_PORT` that Kubernetes sets beside a Service named `vllm`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tables import table

from .test_mounts import SERVE, pod, warnings

if TYPE_CHECKING:
    from deployments import Asking

PORTS = [{"port": 8000}]
NOTE = (
    "Kubernetes sets VLLM_PORT to `tcp://…` in each container that starts after the Service `vllm` of this manifest, "
    "and vLLM refuses that value; rename the Service, or set `enableServiceLinks: false` in the pod"
)


def service(name: str = "vllm", namespace: str | None = None, version: str = "v1", **spec: Any) -> dict[str, Any]:
    metadata = {"name": name, "namespace": namespace}
    return {"apiVersion": version, "kind": "Service", "metadata": metadata, "spec": {"ports": PORTS, **spec}}


def beside(found: dict[str, Any], namespace: str | None = None, **spec: Any) -> dict[str, Any]:
    """A list of a pod and another object."""
    document = pod(command=spec.pop("command", SERVE), env=spec.pop("env", []))
    document["spec"] |= spec
    document["metadata"] = {"name": "a", "namespace": namespace}
    return {"apiVersion": "v1", "kind": "List", "items": [document, found]}


@table(
    "document",
    [
        beside(service()),
        beside(service(type="NodePort", clusterIP="10.0.0.1")),
        beside(service(clusterIP="")),
        beside(service(namespace="a"), "a"),
        beside(service(), enableServiceLinks=True),
        beside(service(), enableServiceLinks=None),
        beside(service(), command=["sh", "-c", "vllm serve dense"]),
        beside(service(), env=[{"name": "VLLM_PORT_8000", "value": "1"}]),
    ],
)
def test_kubernetes_sets_the_port_beside_a_service_of_this_name(ask: Asking, document: dict[str, Any]) -> None:
    assert warnings(ask, document) == [NOTE]


@table(
    "document",
    [
        beside(service("vllm-server")),
        beside(service(clusterIP="None")),
        beside(service(type="ExternalName", externalName="a.example")),
        beside(service(ports=[])),
        beside(service(version="serving.knative.dev/v1")),
        beside(service(namespace="b"), "a"),
        beside(service(namespace="a")),
        beside(service(), "a"),
        beside(service(), enableServiceLinks=False),
        beside(service(), env=[{"name": "VLLM_PORT", "value": "8000"}]),
        beside(service(), command=["sh", "-c", "unset VLLM_PORT; vllm serve dense"]),
        beside({"apiVersion": "v1", "kind": "Service", "metadata": {"name": ["vllm"]}, "spec": "a"}),
        beside({"apiVersion": "v1", "kind": "Service"}),
    ],
)
def test_kubernetes_sets_no_port_beside_other_services(ask: Asking, document: dict[str, Any]) -> None:
    assert warnings(ask, document) == []
