"""The service as an API server calls it.

It is registered by the manifests of deploy/, with the certificate that deploy/README.md creates.
"""

from __future__ import annotations

import base64
import json
import ssl
import time
from contextlib import contextmanager
from dataclasses import dataclass
from secrets import token_hex
from typing import TYPE_CHECKING, Any, Final

import pytest
import yaml
from api.conftest import ROOT
from operations.conftest import Tokens, started

from .apiserver import CONDITIONS, running, until, why_unavailable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path

    from api.conftest import Done
    from operations.conftest import Service

    from .apiserver import Cluster, Document

DEPLOY: Final = ROOT / "deploy"
NAMESPACE: Final = "runner-policy"
PREFIX: Final = "RUNNER_POLICY_"
VARIABLE: Final = "VLLM_USE_V2_MODEL_RUNNER"
V1_VARIABLE: Final = {"name": VARIABLE, "value": "0"}
V2_VARIABLE: Final = {"name": VARIABLE, "value": "1"}
QWEN: Final = "Qwen/Qwen3-8B"
MODELS: Final = {
    "runner-policy/model-configs": json.dumps({QWEN: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}})
}
SET_ENV: Final = {"runner-policy/set-env": "true"}
EXEMPTION: Final = "runner-policy/admission"
"""The label that exempts a namespace."""
NIXL: Final = ("--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}')
QUIET: Final = 2.0
"""Seconds without a review after which the controllers are taken to be idle."""
TEMPLATE: Final = "spec.template.spec.containers[0]"
SET: Final = (
    f"vLLM alone would use V2, the policy decided V1; set {VARIABLE}=0"
    "; rule `kv-connector-fallback`: a KV connector (NixlConnector) keeps this deployment on V1"
)
DBO: Final = "vLLM will not start: Model Runner V2 does not yet support: dual batch overlap"


@dataclass(frozen=True)
class Admission:
    """A service that the API server calls."""

    cluster: Cluster
    service: Service

    def reviews(self) -> dict[str, float]:
        """How many reviews were answered, by call and result."""
        found = self.service.metrics().items()
        return {
            name.partition("{")[2].rstrip("}"): number
            for name, number in found
            if name.startswith("runner_policy_admission_reviews_total{") and number
        }

    def answered(self, call: str) -> float:
        return sum(number for name, number in self.reviews().items() if f'call="{call}"' in name)

    def logged(self) -> list[Document]:
        """The decisions in the log, the newest first."""
        found: list[Document] = self.service.get("/v1/log?limit=100")["items"]
        return found

    def settle(self) -> None:
        """Wait until the controllers have done what follows from earlier objects."""

        def is_quiet() -> bool:
            before = self.reviews()
            time.sleep(QUIET)
            return self.reviews() == before

        until(is_quiet)

    @contextmanager
    def exempting(self, namespace: str) -> Iterator[None]:
        """Send no object of a namespace to the service for the duration of the block."""
        self.cluster.kubectl("label", f"namespace/{namespace}", f"{EXEMPTION}=skip")
        try:
            until(lambda: not self._is_sent(namespace))
            yield
        finally:
            self.cluster.kubectl("label", f"namespace/{namespace}", f"{EXEMPTION}-")
        until(lambda: self._is_sent(namespace))

    def _is_sent(self, namespace: str) -> bool:
        """Whether the API server sends objects of a namespace; it notices a changed label some time later."""
        trial = json.dumps(
            deployment("trial", container("--enable-dbo", "--all2all-backend=deepep_low_latency", env=[V2_VARIABLE]))
        )
        command = [self.cluster.program, "-n", namespace, "apply", "-f", "-", "--dry-run=server"]
        return DBO in self.cluster.shell(command, trial).err

    def apply(self, namespace: str, document: Document, *more: str, fails: bool = False) -> Done:
        return self.cluster.kubectl("-n", namespace, "apply", "-f", "-", *more, document=document, fails=fails)


@dataclass(frozen=True)
class Installation:
    """The state that deploy/README.md requires before the service starts: the folder with the certificate."""

    cluster: Cluster
    folder: Path

    def registrations(self, port: int) -> list[Document]:
        """The manifests' registrations, with another port and the authority.

        The conditions are left out if the API server does not support them.
        """
        found = [document for document in rendered(self.cluster) if document["kind"].endswith("WebhookConfiguration")]
        for webhook in (webhook for document in found for webhook in document["webhooks"]):
            webhook["clientConfig"]["service"]["port"] = port
            webhook["clientConfig"]["caBundle"] = base64.b64encode((self.folder / "ca.crt").read_bytes()).decode()
            if not self.cluster.has_conditions:
                del webhook[CONDITIONS]
        return found

    @contextmanager
    def serving(self, folder: Path, **settings: str) -> Iterator[Service]:
        """The service with the component's settings and others; only the API server needs no token."""
        tokens = Tokens(folder / "tokens.yaml")
        token = tokens.add("operator", "decide", "read", "log")
        trust = ssl.create_default_context(cafile=str(self.folder / "ca.crt"))
        trust.check_hostname = False  # the certificate is for the names that a cluster has
        arguments = (
            "--tls-cert",
            str(self.folder / "tls.crt"),
            "--tls-key",
            str(self.folder / "tls.key"),
            "--tokens",
            str(tokens.path),
        )
        settings = {
            **settings_of(self.cluster),
            "ADMISSION_ALLOW_ANONYMOUS": "true",  # as deploy/README.md sets it for an API server without a token
            "LOG": f"sqlite:///{folder}/decisions.db",
            "LOG_REQUIRED": "true",
            **settings,
        }
        with started(folder, *arguments, tls=trust, token=token, **settings) as service:
            yield service

    @contextmanager
    def admitting(
        self, folder: Path, change: Callable[[Document], Any] = lambda _: None, /, **settings: str
    ) -> Iterator[Admission]:
        """The service, registered and in use; ``change`` is applied to each registration."""
        with self.serving(folder, **settings) as service:
            found = self.registrations(service.port)
            for document in found:
                change(document)
                self.cluster.kubectl("create", "-f", "-", document=document)
            admission = Admission(self.cluster, service)
            try:
                self.until_called(admission)
                yield admission
            finally:
                for document in found:
                    self.cluster.kubectl("delete", document["kind"], document["metadata"]["name"])

    def until_called(self, admission: Admission) -> None:
        """Wait until the API server knows of both registrations."""
        probe = {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "probe"},
            "spec": {"containers": [container()]},
        }

        def is_called() -> bool:
            with self.cluster.client() as client:
                client.post("/api/v1/namespaces/default/pods?dryRun=All", json=probe)
            return bool(admission.answered("validate") and admission.answered("mutate"))

        until(is_called)


def only_in_one_process() -> pytest.MarkDecorator:
    """Mark a module so that one process uses one API server; without an API server, skip it."""
    if why_unavailable():
        pytest.skip(why_unavailable(), allow_module_level=True)
    return pytest.mark.xdist_group("cluster")


def rendered(cluster: Cluster) -> list[Document]:
    return list(yaml.safe_load_all(cluster.kubectl("kustomize", str(DEPLOY / "kustomize/overlays/full")).out))


def settings_of(cluster: Cluster) -> dict[str, str]:
    """The overlay's settings for admission."""
    settings = next(
        document["data"]
        for document in rendered(cluster)
        if document["kind"] == "ConfigMap" and "settings" in document["metadata"]["name"]
    )
    return {
        name.removeprefix(PREFIX): value for name, value in settings.items() if name.startswith(f"{PREFIX}ADMISSION_")
    }


def commands_with(words: str) -> str:
    """The commands of deploy/README.md that contain these words."""
    [found] = [text for text in (DEPLOY / "README.md").read_text().split("```")[1::2] if words in text]
    return found.partition("\n")[2]


def container(*arguments: str, **more: Any) -> Document:
    return {"name": "vllm", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model", QWEN, *arguments], **more}


def deployment(name: str, *containers: Document, **annotations: str) -> Document:
    """A Deployment whose template states its model; annotations have `_` for `-`."""
    template = {"metadata": {"labels": {"app": name}, "annotations": MODELS}, "spec": {"containers": list(containers)}}
    prefixed = {f"runner-policy/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "annotations": prefixed},
        "spec": {"replicas": 1, "selector": {"matchLabels": {"app": name}}, "template": template},
    }


def containers(document: Document) -> list[Document]:
    found: list[Document] = document["spec"].get("template", document)["spec"]["containers"]
    return found


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """An API server, one for all tests."""
    with running(tmp_path_factory.mktemp("cluster")) as found:
        yield found


@pytest.fixture(scope="session")
def installed(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Installation:
    """The cluster before the service starts, as deploy/README.md describes; its Service points to loopback."""
    folder = tmp_path_factory.mktemp("certificate")
    cluster.kubectl("apply", "-f", str(DEPLOY / "kustomize/base/namespace.yaml"))
    done = cluster.shell(["bash", "-euc", commands_with('-keyout "$W/ca.key"')], W=str(folder))
    assert done.code == 0, done
    spec = {"type": "ExternalName", "externalName": "127.0.0.1"}
    service = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {"name": NAMESPACE, "namespace": NAMESPACE},
        "spec": spec,
    }
    cluster.kubectl("create", "-f", "-", document=service)
    return Installation(cluster, folder)


@pytest.fixture
def namespace(cluster: Cluster) -> str:
    """A new namespace."""
    return cluster.namespace(f"test-{token_hex(4)}")


@pytest.fixture
def admitting(installed: Installation, tmp_path: Path) -> Callable[..., AbstractContextManager[Admission]]:
    """Start and register a service."""

    def start(*change: Callable[[Document], Any], **settings: str) -> AbstractContextManager[Admission]:
        return installed.admitting(tmp_path, *change, **settings)

    return start
