"""Reviews as an API server sends them.

`PYTHONPATH=tests python -m cluster.record FOLDER` writes each as JSON, by the name of its case.

Owns a webhook that allows and records every review, and the operations on real objects that cause the reviews.
"""

from __future__ import annotations

import base64
import json
import ssl
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

import yaml

from .apiserver import EXTRA, custom, define, running, until, why_unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .apiserver import Cluster, Document

OBJECTS: Final = Path(__file__).with_name("objects")
NAMESPACE: Final = "llm"
KINDS: Final = (
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet", "leaderworkersets"),
    ("serving.kserve.io/v1alpha1", "LLMInferenceService", "llminferenceservices"),
    ("kafka.strimzi.io/v1beta2", "KafkaTopic", "kafkatopics"),
)
REVISION: Final = "deployment.kubernetes.io/revision"


@dataclass
class Recorder:
    """A webhook that records its requests; ``change`` returns the patch of an object if the webhook is mutating."""

    port: int
    change: Callable[[Document], list[Document]] | None
    received: list[Document] = field(default_factory=list)

    def answer(self, review: Document) -> Document:
        self.received.append(review)
        response: Document = {"uid": review["request"]["uid"], "allowed": True}
        patch = self.change(review["request"]["object"]) if self.change else []
        if patch:
            response |= {"patchType": "JSONPatch", "patch": base64.b64encode(json.dumps(patch).encode()).decode()}
        return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}

    def one(self, operation: str, kind: str, name: str, sub_resource: str | None = None) -> Document:
        """The review of an operation on an object; ``name`` is also the prefix of a generated name."""

        def matches(review: Document) -> bool:
            request = review["request"]
            metadata = (request.get("object") or request.get("oldObject"))["metadata"]
            found = metadata.get("name") or metadata.get("generateName", "")
            return (request["operation"], request["kind"]["kind"], request.get("subResource")) == (
                operation,
                kind,
                sub_resource,
            ) and found.startswith(name)

        found: Document = until(
            lambda: next((review for review in self.received if matches(review)), None),
            lambda: f"{operation} {kind} {name}",
        )
        return found


@contextmanager
def recording(cluster: Cluster, change: Callable[[Document], list[Document]] | None = None) -> Iterator[Recorder]:
    """A webhook on loopback for the duration of the block."""
    cert, key = cluster.authority.issue("127.0.0.1", "recorder")

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["content-length"]))
            answer = json.dumps(recorder.answer(json.loads(body))).encode()
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(answer)))
            self.end_headers()
            self.wfile.write(answer)

        def log_message(self, *_: Any) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.daemon_threads = True
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(cert, key)
        server.socket = context.wrap_socket(server.socket, server_side=True)
        recorder = Recorder(server.server_port, change)
        Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
        try:
            yield recorder
        finally:
            server.shutdown()


def registration(cluster: Cluster, recorder: Recorder, name: str, *, mutating: bool, rule: Document) -> Document:
    """The registration by which the API server calls a recorder."""
    webhook = {
        "name": f"{name}.example.com",
        "clientConfig": {
            "url": f"https://127.0.0.1:{recorder.port}/",
            "caBundle": base64.b64encode(cluster.authority.path.read_bytes()).decode(),
        },
        "admissionReviewVersions": ["v1"],
        "failurePolicy": "Fail",
        "sideEffects": "None",
        "namespaceSelector": {"matchExpressions": [{"key": "kubernetes.io/metadata.name", "operator": "Exists"}]},
        "rules": [rule],
    }
    kind = "MutatingWebhookConfiguration" if mutating else "ValidatingWebhookConfiguration"
    return {
        "apiVersion": "admissionregistration.k8s.io/v1",
        "kind": kind,
        "metadata": {"name": name},
        "webhooks": [webhook],
    }


def object_of(name: str) -> Document:
    """The object of a case."""
    document: Document = yaml.safe_load((OBJECTS / f"{name}.yaml").read_text())
    document["metadata"]["namespace"] = NAMESPACE
    return document


def reviews(cluster: Cluster, recorder: Recorder, mutating: Recorder) -> Iterator[tuple[str, Document]]:
    """Create the objects, and yield the review of each case.

    That of the pod is from the mutating webhook, before its name is generated.
    """

    def apply(name: str, *more: str) -> None:
        cluster.kubectl("apply", "-f", "-", *more, document=object_of(name))

    def seen_by_its_controller() -> bool:
        found = cluster.get("-n", NAMESPACE, "deployment", "qwen3-8b")
        return (
            REVISION in found["metadata"].get("annotations", {})
            and found["status"].get("observedGeneration") == found["metadata"]["generation"]
        )

    apply("deployment-create")
    yield "deployment-create", recorder.one("CREATE", "Deployment", "qwen3-8b")
    until(seen_by_its_controller)
    recorder.received.clear()
    patch = json.dumps(yaml.safe_load((OBJECTS / "deployment-update.yaml").read_text()))
    cluster.kubectl("-n", NAMESPACE, "patch", "deployment", "qwen3-8b", "-p", patch)
    yield "deployment-update", recorder.one("UPDATE", "Deployment", "qwen3-8b")
    until(seen_by_its_controller)
    cluster.kubectl("-n", NAMESPACE, "scale", "deployment", "qwen3-8b", "--replicas=4")
    yield "deployment-scale", recorder.one("UPDATE", "Scale", "qwen3-8b", "scale")
    until(seen_by_its_controller)
    cluster.kubectl("-n", NAMESPACE, "delete", "deployment", "qwen3-8b")
    yield "deployment-delete", recorder.one("DELETE", "Deployment", "qwen3-8b")
    apply("deployment-dry-run", "--dry-run=server", f"--kubeconfig={cluster.folder / EXTRA}.kubeconfig")
    yield "deployment-dry-run", recorder.one("CREATE", "Deployment", "llama")
    cluster.kubectl("create", "-f", "-", document=object_of("pod-with-value-from"))
    yield "pod-with-value-from", recorder.one("CREATE", "Pod", "try-qwen")
    for name, kind in (
        ("statefulset-with-sidecars", "StatefulSet"),
        ("leaderworkerset", "LeaderWorkerSet"),
        ("llminferenceservice", "LLMInferenceService"),
    ):
        apply(name)
        yield name, recorder.one("CREATE", kind, object_of(name)["metadata"]["name"])
    cluster.kubectl("create", "-f", "-", document=object_of("kafka-topic"))
    yield "kafka-topic", recorder.one("CREATE", "KafkaTopic", "vllm-kv-events")
    apply("pod-of-replicaset")
    yield "pod-of-replicaset", mutating.one("CREATE", "Pod", "qwen3-8b-pods-")


def record(folder: Path) -> str:
    """Write the reviews into a folder, and return the release of the API server."""
    with (
        tempfile.TemporaryDirectory() as temporary,
        running(Path(temporary)) as cluster,
        recording(cluster) as recorder,
        recording(cluster) as mutating,
    ):
        assert cluster.has_controllers, "no pods are created without kube-controller-manager"
        define(cluster, *(custom(*kind) for kind in KINDS))
        cluster.namespace(NAMESPACE)
        everything = {
            "apiGroups": ["*"],
            "apiVersions": ["*"],
            "resources": ["*/*"],
            "operations": ["*"],
            "scope": "Namespaced",
        }
        cluster.kubectl(
            "create", "-f", "-", document=registration(cluster, recorder, "recorder", mutating=False, rule=everything)
        )
        cluster.kubectl(
            "create", "-f", "-", document=registration(cluster, mutating, "recorder", mutating=True, rule=everything)
        )

        def is_called() -> bool:
            cluster.kubectl("-n", NAMESPACE, "create", "configmap", "trial", "--dry-run=server")
            return bool(recorder.received and mutating.received)

        until(is_called)
        for name, review in reviews(cluster, recorder, mutating):
            (folder / f"{name}.json").write_text(json.dumps(review, indent=2, ensure_ascii=False) + "\n")
        return cluster.release


if __name__ == "__main__":
    if why_unavailable():
        sys.exit(why_unavailable())
    sys.stdout.write(f"recorded with Kubernetes {record(Path(sys.argv[1]))}\n")
