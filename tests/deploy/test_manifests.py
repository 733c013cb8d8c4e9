"""The manifests below deploy/.

They are valid for every supported Kubernetes, as confined as they claim, and consistent with the service.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import celpy
import celpy.evaluation
import kubernetes_validate
import lark
import pytest
import yaml
from celpy.adapter import json_to_cel
from representatives import slow_except
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.registry import ADAPTERS
from service.admission.engines import KINDS_WITH_ENV, KINDS_WITH_IMMUTABLE_ENV
from service.auth.tokens import read_tokens
from service.jobs.pool import RESERVED_WORKERS
from service.jobs.worker import MEMORY_LIMIT
from service.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT: Final = Path(__file__).resolve().parents[2]
DEPLOY: Final = ROOT / "deploy"
KUSTOMIZE: Final = DEPLOY / "kustomize"
VERSIONS: Final = (*(pytest.param(version, marks=pytest.mark.slow) for version in ("1.29", "1.32", "1.35")), "1.37")
"""The supported versions of Kubernetes; `deploy/check` runs the slow tests too."""
OVERLAYS: Final = ("base", "overlays/full", "overlays/single")
NAMESPACE: Final = "runner-policy"
PREFIX: Final = "RUNNER_POLICY_"
GIB: Final = 1 << 30
UNITS: Final = {"Ki": 1 << 10, "Mi": 1 << 20, "Gi": GIB}

# It reads a megabyte of JSON for each document.
kubernetes_validate.utils.schema_contents = cache(kubernetes_validate.utils.schema_contents)

Document = dict[str, Any]


@cache
def documents() -> dict[str, Document]:
    """Every document of every YAML file below deploy/kustomize, by its file and index."""
    found = {}
    for path in sorted(KUSTOMIZE.rglob("*.yaml")):
        for index, document in enumerate(yaml.load_all(path.read_text(), yaml.CSafeLoader)):
            found[f"{path.relative_to(KUSTOMIZE)}#{index}"] = document
    return found


@cache
def patches() -> frozenset[str]:
    """The files that are patches, and not documents themselves."""
    return frozenset(
        str((KUSTOMIZE / name.split("#")[0]).parent.joinpath(patch["path"]).relative_to(KUSTOMIZE))
        for name, document in documents().items()
        if document["kind"] in {"Kustomization", "Component"}
        for patch in document.get("patches", ())
        if "path" in patch
    )


def is_builtin(document: Document) -> bool:
    return "." not in document["apiVersion"].split("/")[0] or document["apiVersion"].split("/")[0].endswith(".k8s.io")


def complete_documents() -> dict[str, Document]:
    """The documents that a cluster accepts unchanged."""
    return {
        name: document
        for name, document in documents().items()
        if name.split("#")[0] not in patches() and document["kind"] not in {"Kustomization", "Component"}
    }


@cache
def rendered(overlay: str) -> tuple[Document, ...]:
    """The output of kubectl for an overlay; ``house-rules`` is the base with that component."""
    kubectl = shutil.which("kubectl")
    if kubectl is None:
        pytest.skip("kubectl, which renders the overlays, is not installed")
    text = subprocess.run(
        [kubectl, "kustomize", str(KUSTOMIZE / overlay)], check=True, capture_output=True, text=True, timeout=60
    ).stdout
    return tuple(yaml.load_all(text, yaml.CSafeLoader))


def of_kind(found: tuple[Document, ...], kind: str) -> list[Document]:
    return [document for document in found if document["kind"] == kind]


def one(found: tuple[Document, ...], kind: str, name: str = "runner-policy") -> Document:
    [document] = [each for each in of_kind(found, kind) if each["metadata"]["name"] == name]
    return document


def quantity(text: str) -> int:
    number, unit = re.fullmatch(r"(\d+)(\w*)", text).groups()  # type: ignore[union-attr]  # no match is a failed test too
    return int(number) * UNITS.get(unit, 1)


def settings_of(found: tuple[Document, ...]) -> dict[str, str]:
    """The variables of the service's container, except those from Secrets."""
    [container] = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    [reference] = [source["configMapRef"]["name"] for source in container["envFrom"]]
    data: dict[str, str] = one(found, "ConfigMap", reference)["data"]
    return data | {variable["name"]: variable["value"] for variable in container.get("env", ()) if "value" in variable}


# every document


@pytest.mark.parametrize("version", VERSIONS)
@table("name", [name for name, document in complete_documents().items() if is_builtin(document)])
def test_every_document_is_valid(name: str, version: str) -> None:
    kubernetes_validate.validate(complete_documents()[name], version, strict=True)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_render_is_valid(overlay: str, version: str) -> None:
    for document in rendered(overlay):
        if is_builtin(document):
            kubernetes_validate.validate(document, version, strict=True)


SPEC_FIELDS: Final = {
    "Issuer": ({"ca", "selfSigned"}, set()),
    "Certificate": (
        {
            "secretName",
            "issuerRef",
            "commonName",
            "duration",
            "renewBefore",
            "privateKey",
            "dnsNames",
            "usages",
            "isCA",
        },
        {"secretName", "issuerRef", "privateKey"},
    ),
    "ServiceMonitor": ({"jobLabel", "selector", "endpoints"}, {"selector", "endpoints"}),
    "PrometheusRule": ({"groups"}, {"groups"}),
}
"""The legal and the required fields of a custom resource's ``spec``."""


@pytest.mark.parametrize("name", [name for name, document in complete_documents().items() if not is_builtin(document)])
def test_custom_resources_have_the_fields_of_their_kind(name: str) -> None:
    document = complete_documents()[name]
    legal, required = SPEC_FIELDS[document["kind"]]
    assert document["apiVersion"] in {"cert-manager.io/v1", "monitoring.coreos.com/v1"}
    assert set(document) == {"apiVersion", "kind", "metadata", "spec"}
    assert required <= set(document["spec"]) <= legal


def test_issuers_and_secrets_of_certificates_exist() -> None:
    documents = tuple(complete_documents().values())
    issuers = {issuer["metadata"]["name"]: issuer["spec"] for issuer in of_kind(documents, "Issuer")}
    secrets = {certificate["spec"]["secretName"] for certificate in of_kind(documents, "Certificate")}
    for certificate in of_kind(documents, "Certificate"):
        assert certificate["spec"]["issuerRef"]["kind"] == "Issuer"
        assert certificate["spec"]["issuerRef"]["name"] in issuers
    assert {spec["ca"]["secretName"] for spec in issuers.values() if "ca" in spec} <= secrets


def test_everything_namespaced_is_in_the_one_namespace() -> None:
    cluster_wide = {"Namespace", "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"}
    namespaces = {
        name: document["metadata"].get("namespace")
        for name, document in complete_documents().items()
        if document["kind"] not in cluster_wide
    }
    assert namespaces == dict.fromkeys(namespaces, NAMESPACE)


def test_no_secret_is_rendered() -> None:
    """A Secret in the repository would be public; nothing refers to the example."""
    assert not [document for overlay in OVERLAYS for document in of_kind(rendered(overlay), "Secret")]
    assert "secrets.example" not in "".join(path.read_text() for path in KUSTOMIZE.rglob("kustomization.yaml"))


# the pod


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_pod_is_confined(overlay: str) -> None:
    pod = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]
    assert pod["automountServiceAccountToken"] is False
    assert not {"hostNetwork", "hostPID", "hostIPC"} & set(pod)
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["runAsUser"] == pod["securityContext"]["fsGroup"] == 10001
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    for container in [*pod["containers"], *pod.get("initContainers", ())]:
        assert container["securityContext"] == {
            "runAsNonRoot": True,
            "readOnlyRootFilesystem": True,
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
        }
        assert (
            {"cpu", "memory", "ephemeral-storage"}
            == set(container["resources"]["limits"])
            == set(container["resources"]["requests"])
        )
        assert {container[probe]["httpGet"]["path"] for probe in ("startupProbe", "readinessProbe")} == {"/readyz"}
        assert container["livenessProbe"]["httpGet"]["path"] == "/livez"


def test_the_user_is_that_of_the_image() -> None:
    assert re.findall(r"^USER (\d+)$", (ROOT / "Dockerfile").read_text(), re.MULTILINE) == ["10001"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_no_service_link_is_taken_for_a_setting(overlay: str) -> None:
    """A Service named ``runner-policy`` sets RUNNER_POLICY_PORT=tcp://… in the pods of its namespace."""
    assert one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]["enableServiceLinks"] is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_images_are_pinned(overlay: str) -> None:
    for container in one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]["containers"]:
        assert re.fullmatch(r"[\w./-]+:\d[\w.-]*", container["image"]), container["image"]


def test_the_overlays_in_the_guide_pin_the_image_by_its_digest(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders the overlays, is not installed")
    overlays = re.findall(
        r"kustomization\.yaml <<END\n(.*?)^END$", (DEPLOY / "README.md").read_text(), re.DOTALL | re.MULTILINE
    )
    assert len(overlays) == 2
    values = {"IMAGE": "registry.example/runner-policy", "DIGEST": f"sha256:{'0' * 64}"}
    values |= {"DATABASE_ADDRESS": "192.0.2.1", "CONTROL_PLANE_ADDRESS": "192.0.2.2"}
    for number, text in enumerate(overlays):
        shutil.copytree(KUSTOMIZE, tmp_path / f"{number}")
        overlay = tmp_path / f"{number}/overlays/mine"
        overlay.mkdir(exist_ok=True)
        (overlay / "kustomization.yaml").write_text(re.sub(r"\$(\w+)", lambda found: values[found[1]], text))
        [container] = one(rendered(str(overlay)), "Deployment")["spec"]["template"]["spec"]["containers"]
        assert container["image"] == f"{values['IMAGE']}@{values['DIGEST']}"


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_every_mount_has_a_volume_and_every_volume_is_mounted(overlay: str) -> None:
    pod = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}
    assert all("subPath" not in mount for mount in container["volumeMounts"])


def test_the_house_rules_replace_those_of_the_image(tmp_path: Path) -> None:
    if shutil.which("kubectl") is None:
        pytest.skip("kubectl, which renders the overlays, is not installed")
    shutil.copytree(KUSTOMIZE, tmp_path / "kustomize")
    overlay = tmp_path / "kustomize/overlays/house"
    overlay.mkdir()
    (overlay / "kustomization.yaml").write_text("resources: [../../base]\ncomponents: [../../components/house-rules]\n")
    pod = one(rendered(str(overlay)), "Deployment")["spec"]["template"]["spec"]
    assert {"name": "house-rules", "configMap": {"name": "runner-policy-house-rules"}} in pod["volumes"]
    [container] = pod["containers"]
    assert {"name": "house-rules", "mountPath": "/app/rules/house", "readOnly": True} in container["volumeMounts"]
    assert len(container["volumeMounts"]) == 5
    assert "RUNNER_POLICY_RULES=/app/rules" in (ROOT / "Dockerfile").read_text()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_a_pod_has_enough_time_to_shut_down(overlay: str) -> None:
    pod = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]
    [container] = pod["containers"]
    sleep = int(container["lifecycle"]["preStop"]["exec"]["command"][1])
    assert pod["terminationGracePeriodSeconds"] >= sleep + float(
        settings_of(rendered(overlay))[f"{PREFIX}SHUTDOWN_TIMEOUT"]
    )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_there_is_memory_for_all_processes_at_once(overlay: str) -> None:
    """A dry run may take 1 GiB and a worker process 512 MiB, and a container that exceeds its limit is ended."""
    [container] = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]["containers"]
    settings = settings_of(rendered(overlay))
    jobs = int(settings[f"{PREFIX}JOB_CONCURRENCY"]) + RESERVED_WORKERS
    each = int(settings[f"{PREFIX}CANDIDATE_CONCURRENCY"]) * GIB + jobs * MEMORY_LIMIT
    assert quantity(container["resources"]["limits"]["memory"]) >= int(settings[f"{PREFIX}WORKERS"]) * each + GIB // 4


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_there_is_memory_for_what_runs_beside_these_processes(overlay: str) -> None:
    [container] = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]["containers"]
    assert quantity(container["resources"]["limits"]["memory"]) >= most_memory(settings_of(rendered(overlay)))


def test_there_is_memory_for_all_processes_at_once_with_compose() -> None:
    """The tmpfs volumes are memory too."""
    service = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]["runner-policy"]
    volumes = sum(int(size) << 20 for each in service["tmpfs"] for size in re.findall(r"size=(\d+)m", each))
    assert int(service["mem_limit"].removesuffix("m")) << 20 >= most_memory(service["environment"]) + volumes


def most_memory(variables: dict[str, str]) -> int:
    """What the processes of a service and the bodies that it holds may take.

    The service, the process of its log and the one that checks changed rules took up to 160 MB each.
    """
    settings = Settings()
    candidates = int(variables.get(f"{PREFIX}CANDIDATE_CONCURRENCY", settings.candidate_concurrency))
    jobs = int(variables.get(f"{PREFIX}JOB_CONCURRENCY", settings.job_concurrency)) + RESERVED_WORKERS
    bodies = int(variables.get(f"{PREFIX}MAX_BODIES", settings.max_bodies))
    return candidates * GIB + jobs * MEMORY_LIMIT + 3 * 160_000_000 + bodies


# settings


def test_every_setting_that_is_named_exists() -> None:
    named = {
        (str(path.relative_to(DEPLOY)), name)
        for path in DEPLOY.rglob("*")
        if path.is_file()
        for name in re.findall(rf"{PREFIX}[A-Z0-9_]*[A-Z0-9]", path.read_text())
    }
    assert {each for each in named if each[1].removeprefix(PREFIX).lower() not in Settings.model_fields} == set()


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_the_service_accepts_the_settings(overlay: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings_of(rendered(overlay)).items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert (
        settings.port
        == one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]["containers"][0]["ports"][0][
            "containerPort"
        ]
    )
    assert settings.allow_anonymous is False


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_files_named_in_settings_are_in_mounted_folders(overlay: str) -> None:
    settings = settings_of(rendered(overlay))
    pod = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]
    mounts = {mount["mountPath"]: mount for mount in pod["containers"][0]["volumeMounts"]}
    volumes = {volume["name"]: volume for volume in pod["volumes"]}
    for name in ("TLS_CERT", "TLS_KEY", "TOKENS"):
        mount = mounts[str(Path(settings[PREFIX + name]).parent)]
        assert mount["readOnly"] is True
        assert "secret" in volumes[mount["name"]]
    spill = Path(settings[f"{PREFIX}LOG_SPILL"])
    [mount] = [mount for path, mount in mounts.items() if spill.is_relative_to(path)]
    assert not mount.get("readOnly")
    volume = volumes[mount["name"]]
    size = int(settings[f"{PREFIX}LOG_SPILL_SIZE"])
    if "emptyDir" in volume:
        assert size < quantity(volume["emptyDir"]["sizeLimit"])
    else:
        claim = one(rendered(overlay), "PersistentVolumeClaim", volume["persistentVolumeClaim"]["claimName"])
        assert size + int(settings[f"{PREFIX}LOG_RETENTION_BYTES"]) < quantity(
            claim["spec"]["resources"]["requests"]["storage"]
        )
        assert Path(settings[f"{PREFIX}LOG"].removeprefix("sqlite:///")).is_relative_to(
            next(path for path in mounts if spill.is_relative_to(path))
        )


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_required_secrets_are_described(overlay: str) -> None:
    described = {
        secret["metadata"]["name"]: set(secret["stringData"])
        for secret in of_kind(tuple(complete_documents().values()), "Secret")
    }
    pod = one(rendered(overlay), "Deployment")["spec"]["template"]["spec"]
    assert {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume} <= set(described)
    for variable in pod["containers"][0].get("env", ()):
        reference = variable["valueFrom"]["secretKeyRef"]
        assert reference["key"] in described[reference["name"]]
    for monitor in of_kind(rendered(overlay), "ServiceMonitor"):
        for endpoint in monitor["spec"]["endpoints"]:
            for reference in (endpoint["authorization"]["credentials"], endpoint["tlsConfig"]["ca"]["secret"]):
                assert reference["key"] in described[reference["name"]]
    assert Path(settings_of(rendered(overlay))[f"{PREFIX}TOKENS"]).name in described["runner-policy-tokens"]


def test_the_example_of_a_token_file_is_valid(tmp_path: Path) -> None:
    [secret] = [
        each
        for each in of_kind(tuple(complete_documents().values()), "Secret")
        if each["metadata"]["name"] == "runner-policy-tokens"
    ]
    (tmp_path / "tokens.yaml").write_text(secret["stringData"]["tokens.yaml"])
    [token] = read_tokens(tmp_path / "tokens.yaml")
    assert token.digest == bytes(32), "the example must not be a usable token"


# references


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_selectors_find_the_pods(overlay: str) -> None:
    found = rendered(overlay)
    deployment = one(found, "Deployment")["spec"]
    labels = deployment["template"]["metadata"]["labels"].items()
    assert deployment["selector"]["matchLabels"].items() <= labels
    assert one(found, "Service")["spec"]["selector"].items() <= labels
    assert one(found, "PodDisruptionBudget")["spec"]["selector"]["matchLabels"].items() <= labels
    for policy in of_kind(found, "NetworkPolicy"):
        assert policy["spec"]["podSelector"]["matchLabels"].items() <= labels
    for spread in deployment["template"]["spec"]["topologySpreadConstraints"]:
        assert spread["labelSelector"]["matchLabels"].items() <= labels
    for monitor in of_kind(found, "ServiceMonitor"):
        assert monitor["spec"]["selector"]["matchLabels"].items() <= one(found, "Service")["metadata"]["labels"].items()
        assert monitor["spec"]["jobLabel"] in one(found, "Service")["metadata"]["labels"]


@pytest.mark.parametrize("overlay", OVERLAYS)
def test_ports_lead_to_the_container(overlay: str) -> None:
    found = rendered(overlay)
    [container] = one(found, "Deployment")["spec"]["template"]["spec"]["containers"]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    offered = {port["name"]: port for port in one(found, "Service")["spec"]["ports"]}
    assert {port["targetPort"] for port in offered.values()} <= set(ports)
    assert {
        container[probe]["httpGet"]["port"] for probe in ("startupProbe", "livenessProbe", "readinessProbe")
    } <= set(ports)
    for policy in of_kind(found, "NetworkPolicy"):
        for rule in policy["spec"]["ingress"]:
            assert {port["port"] for port in rule["ports"]} <= set(ports)
            assert all(rule["from"]), "an empty `from` allows every source"
    for monitor in of_kind(found, "ServiceMonitor"):
        assert {endpoint["port"] for endpoint in monitor["spec"]["endpoints"]} <= set(offered)
    for hook in hooks(found):
        service = hook["clientConfig"]["service"]
        assert (service["namespace"], service["name"]) == (NAMESPACE, one(found, "Service")["metadata"]["name"])
        assert service["port"] in {port["port"] for port in offered.values()}


def test_replicas_survive_a_drain_and_an_upgrade() -> None:
    found = rendered("base")
    deployment = one(found, "Deployment")["spec"]
    scaler = one(found, "HorizontalPodAutoscaler")["spec"]
    assert "replicas" not in deployment, "the autoscaler sets the number"
    assert scaler["minReplicas"] >= 3
    assert scaler["scaleTargetRef"] == {"apiVersion": "apps/v1", "kind": "Deployment", "name": "runner-policy"}
    assert deployment["strategy"]["rollingUpdate"]["maxUnavailable"] == 0
    assert one(found, "PodDisruptionBudget")["spec"]["maxUnavailable"] == 1


def test_one_replica_does_not_share_its_volume() -> None:
    found = rendered("overlays/single")
    assert one(found, "Deployment")["spec"]["replicas"] == 1
    assert one(found, "Deployment")["spec"]["strategy"] == {"type": "Recreate"}
    assert of_kind(found, "HorizontalPodAutoscaler") == []
    [policy] = of_kind(found, "NetworkPolicy")
    assert {port["port"] for rule in policy["spec"]["egress"] for port in rule["ports"]} == {53}


def test_the_certificate_has_the_names_that_clients_use() -> None:
    found = rendered("overlays/full")
    names = set(one(found, "Certificate")["spec"]["dnsNames"])
    assert f"runner-policy.{NAMESPACE}.svc" in names  # the name that the API server uses
    assert {
        endpoint["tlsConfig"]["serverName"] for endpoint in one(found, "ServiceMonitor")["spec"]["endpoints"]
    } <= names
    for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"):
        assert (
            one(found, kind)["metadata"]["annotations"]["cert-manager.io/inject-ca-from"]
            == f"{NAMESPACE}/{one(found, 'Certificate')['metadata']['name']}"
        )


# admission


def hooks(found: tuple[Document, ...]) -> list[Document]:
    return [
        hook
        for kind in ("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration")
        for document in of_kind(found, kind)
        for hook in document["webhooks"]
    ]


def admission() -> tuple[Document, ...]:
    return tuple(document for name, document in documents().items() if name.startswith("components/admission/"))


@pytest.mark.parametrize("hook", hooks(admission()), ids=lambda hook: hook["name"])
def test_a_webhook_cannot_stop_the_cluster(hook: Document) -> None:
    assert hook["failurePolicy"] == "Ignore"
    assert hook["sideEffects"] == "NoneOnDryRun"
    assert hook["timeoutSeconds"] <= 5
    assert hook["matchPolicy"] == "Equivalent"
    [outside, exempt] = hook["namespaceSelector"]["matchExpressions"]
    assert (outside["key"], outside["operator"]) == ("kubernetes.io/metadata.name", "NotIn")
    assert {"kube-system", NAMESPACE} <= set(outside["values"])
    assert exempt == {"key": "runner-policy/admission", "operator": "NotIn", "values": ["skip"]}
    assert "DELETE" not in {operation for rule in hook["rules"] for operation in rule["operations"]}
    assert hook["clientConfig"]["service"]["path"] == (
        "/v1/admission/mutate" if ".mutate." in hook["name"] else "/v1/admission"
    )
    assert ("reinvocationPolicy" in hook) == (".mutate." in hook["name"])


def test_the_service_answers_before_the_api_server_times_out() -> None:
    """Otherwise a review that waits for a model fails, and its other engines are not decided either."""
    waits = float(settings_of(rendered("overlays/full"))[f"{PREFIX}ADMISSION_TIMEOUT"])
    assert all(waits < hook["timeoutSeconds"] for hook in hooks(admission()))


def test_a_condition_means_the_same_in_every_webhook() -> None:
    conditions = {
        (condition["name"], condition["expression"])
        for hook in hooks(admission())
        for condition in hook["matchConditions"]
    }
    assert len(conditions) == len({name for name, _ in conditions}) == 4


def reviewed_resources(kind: str) -> set[tuple[str, str]]:
    [document] = of_kind(admission(), kind)
    return {
        (group, resource)
        for hook in document["webhooks"]
        for rule in hook["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
    }


def test_every_kind_that_the_service_reads_is_reviewed() -> None:
    """Except templates, which start nothing on their own; and containers that are added to a running pod."""
    readable = {(group, f"{kind.lower()}s") for group, kind in ADAPTERS if kind != "PodTemplate"}
    assert reviewed_resources("ValidatingWebhookConfiguration") == readable | {("", "pods/ephemeralcontainers")}
    for hook in of_kind(admission(), "ValidatingWebhookConfiguration")[0]["webhooks"]:
        for rule in hook["rules"]:
            # the containers of an existing Job cannot change; the image of a Pod can
            assert rule["operations"] == (["CREATE"] if rule["resources"] == ["jobs"] else ["CREATE", "UPDATE"])


def test_every_kind_that_the_service_changes_is_sent_for_mutation() -> None:
    assert reviewed_resources("MutatingWebhookConfiguration") == {
        (group, f"{kind.lower()}s") for group, kind in KINDS_WITH_ENV if kind != "PodTemplate"
    }
    for hook in of_kind(admission(), "MutatingWebhookConfiguration")[0]["webhooks"]:
        for rule in hook["rules"]:
            fixed = {f"{kind.lower()}s" for _, kind in KINDS_WITH_IMMUTABLE_ENV}
            assert set(rule["operations"]) == ({"CREATE"} if set(rule["resources"]) & fixed else {"CREATE", "UPDATE"})


# celpy only casts to it, and computes its hash at each node of an expression: a third of the time of these tests.
celpy.evaluation.Result = Any  # type: ignore[assignment]


def until_decided(
    operator: Callable[[celpy.evaluation.Evaluator, lark.Tree[Any]], Any], *, deciding: bool
) -> Callable[..., Any]:
    """An operator of celpy that does not evaluate its second operand if the first one decides, as the API server's."""

    def evaluate(self: celpy.evaluation.Evaluator, tree: lark.Tree[Any]) -> Any:
        left, right = tree.children
        value = self.visit(left)
        if isinstance(value, celpy.celtypes.BoolType) and bool(value) is deciding:
            return value
        return operator(self, type(tree)(tree.data, [value, right], tree.meta))

    return evaluate


for name, deciding in {"conditionalor": True, "conditionaland": False}.items():
    operator = getattr(celpy.evaluation.Evaluator, name)
    setattr(celpy.evaluation.Evaluator, name, until_decided(operator, deciding=deciding))


@cache
def program(expression: str) -> Any:
    environment = celpy.Environment()
    return environment.program(without_single_operands(environment.compile(expression)), {"sum": total})


def total(values: celpy.celtypes.ListType) -> celpy.celtypes.IntType:
    """``sum`` of the API server's list library, which celpy does not have."""
    return celpy.celtypes.IntType(sum(values))


OPERATORS: Final = frozenset(
    ("expr", "conditionalor", "conditionaland", "relation", "addition", "multiplication", "unary", "member")
)
"""The nodes of celpy's tree that have the value of their operand if they have only one."""


def without_single_operands(tree: lark.Tree[Any]) -> lark.Tree[Any]:
    """The tree without operators that have a single operand: each name and text is below eight of them.

    Its value is the same, and celpy finds it in a third of the time.
    """
    children = [without_single_operands(each) if isinstance(each, lark.Tree) else each for each in tree.children]
    if tree.data in OPERATORS and len(children) == 1:
        [operand] = children
        assert isinstance(operand, lark.Tree)
        return operand
    return type(tree)(tree.data, children, tree.meta)


AUTHOR: Final = "jane@example.com"
"""A user who writes workloads."""


def is_sent(
    document: Document,
    old: Document | None = None,
    *,
    hook: str = "workloads.validate.runner-policy",
    user: str = AUTHOR,
) -> bool:
    """Whether the API server would send an object that a user writes, by the conditions of a webhook."""
    [found] = [each for each in hooks(admission()) if each["name"] == hook]
    variables = {
        "object": document,
        "oldObject": old,
        "request": {"operation": "CREATE" if old is None else "UPDATE", "userInfo": {"username": user, "groups": []}},
    }
    return all(holds(condition["expression"], variables) for condition in found["matchConditions"])


def holds(expression: str, variables: dict[str, Any]) -> bool:
    """Whether an expression holds, which depends on the variables that it names."""
    named = {name: value for name, value in variables.items() if re.search(rf"\b{name}\b", expression)}
    return evaluated(expression, json.dumps(named))


@cache
def evaluated(expression: str, variables: str) -> bool:
    """Whether an expression holds: many webhooks, users and objects before a change give it the same variables."""
    values = {"object": None, "oldObject": None, "request": None, **json.loads(variables)}
    return bool(program(expression).evaluate({name: json_to_cel(value) for name, value in values.items()}))


def template(container: Document, **metadata: Any) -> Document:
    pod = {"metadata": {}, "spec": {"containers": [container]}}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": "a", **metadata},
        "spec": {"template": pod},
    }


def hooks_with(command: list[str]) -> list[Document]:
    """Each hook and probe of a container, with a command."""
    run = {"exec": {"command": command}}
    probes: list[Document] = [{name: run} for name in ("livenessProbe", "readinessProbe", "startupProbe")]
    return [*probes, *({"lifecycle": {name: run}} for name in ("postStart", "preStop"))]


VLLM: Final = {"name": "vllm", "image": "vllm/vllm-openai:v0.23.0", "args": ["--model=a/b"]}
OTHER: Final = {"name": "web", "image": "nginx:1.27", "args": ["-g", "daemon off;"]}


@table(
    ("container", "expected"),
    [
        (VLLM, True),
        (OTHER, False),
        ({"name": "a", "image": "own:1", "command": ["vllm", "serve", "a/b"]}, True),
        (
            {
                "name": "a",
                "image": "own:1",
                "command": ["sh", "-c"],
                "args": ["exec python -m vllm.entrypoints.openai.api_server"],
            },
            True,
        ),
        (
            {
                "name": "a",
                "image": "own:1",
                "command": ["sh", "-c", "exec $RUN"],
                "env": [{"name": "RUN", "value": "vllm serve a/b"}],
            },
            True,
        ),
        ({"name": "a", "image": "own:1", "env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]}, True),
        (
            {
                "name": "a",
                "image": "own:1",
                "env": [{"name": "TOKEN", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}],
            },
            False,
        ),
        ({"name": "a", "image": "llm-d-cuda:v0.3.0", "args": ["--model", "a/b"]}, True),
        ({"name": "a", "image": "kserve/huggingfaceserver:v0.15.0", "args": ["--model_id=a/b"]}, True),
        ({"name": "a", "image": "own:1", "command": ["python3", "-m", "huggingfaceserver"]}, True),
        ({"name": "a", "image": "own:1", "args": ["--model=a/b", "--enforce-eager"]}, True),
        ({"name": "a", "image": "own:1", "args": ["a/b", "--tensor-parallel-size=2", "--enforce-eager"]}, True),
        *(
            ({"name": "a", "image": "own:1", "command": ["bash", "-c"], "args": [script]}, True)
            for script in (
                r"$'\x76llm' serve a/b",
                "v''llm serve a/b",
                "A=vl; ${A}lm serve a/b",
                "/usr/bin/vll? serve a/b",
                "$RUN serve",
                "$RUN\tserve\ta/b",
                "$RUN \\\n  serve\n",
                "serve a/b",
                "cd /x; $RUN serve; sleep 9",
                "($RUN serve)",
                "$RUN serve& wait",
                "$RUN serve|tee log",
                "$RUN serve>log",
                "$RUN 'serve' a/b",
                '$RUN "serve" a/b',
                '$RUN "serve"',
                "x=`$RUN serve`",
            )
        ),
        ({"name": "a", "image": "own:1", "command": ["$(A)lm", "serve", "a/b"]}, True),
        *(({**OTHER, **hook}, True) for hook in hooks_with(["sh", "-c", "vllm serve a/b &"])),
        *(({**OTHER, **hook}, False) for hook in hooks_with(["sleep", "5"])),
        ({**OTHER, "lifecycle": {}}, False),
        ({**OTHER, "lifecycle": {"preStop": {"exec": {}}}, "startupProbe": {"httpGet": {}}}, False),
        ({"name": "a", "image": "own:1", "env": [{"name": "RUN", "value": "v''llm serve a/b"}]}, True),
        (
            {"name": "a", "image": "own:1", "command": ["http-server", "--serve-static", "server", "/srv/serve.d"]},
            False,
        ),
        ({"name": "a", "image": "own:1", "args": ["#" * 1_000_000, "vllm serve a/b"]}, True),
        ({"name": "a"}, False),
    ],
)
def test_a_container_that_may_run_vllm_is_sent(container: Document, expected: bool) -> None:  # noqa: FBT001  # a table's value
    assert is_sent(template(container)) is expected
    assert (
        is_sent({"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [OTHER, container]}})
        is expected
    )
    assert (
        is_sent(
            {
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {},
                "spec": {"containers": [OTHER], "initContainers": [container]},
            }
        )
        is expected
    )
    old = {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [OTHER]}}
    assert is_sent({**old, "spec": {"containers": [OTHER], "ephemeralContainers": [container]}}, old) is expected
    job = {"template": {"spec": {"containers": [container]}}}
    assert is_sent({"apiVersion": "batch/v1", "kind": "Job", "metadata": {}, "spec": job}) is expected
    assert (
        is_sent({"apiVersion": "batch/v1", "kind": "CronJob", "metadata": {}, "spec": {"jobTemplate": {"spec": job}}})
        is expected
    )


EXPRESSION_LIMIT: Final = 1_000_000
"""What an expression may cost at the API server (``PerCallLimit`` in ``k8s.io/apiserver/pkg/apis/cel``)."""
LARGEST: Final = 1_572_864
"""Bytes of the largest object that etcd stores by default."""
STEP: Final = 5
"""What ``exists`` costs for each element, besides what is asked of it: it reads and tests what was found so far."""
ELEMENT: Final = 13
"""What ``map`` costs for each element, besides the element: it makes a list of it, and adds that to the others."""
CONTAINER: Final = 400
"""More than the lists of a container's words cost: 10 for each of at most nine empty ones, and the names of fields."""


@pytest.mark.parametrize("kind", ["ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"])
def test_no_text_is_too_long_for_the_condition(kind: str) -> None:
    """An expression that costs more is an error, and with `failurePolicy: Ignore` nothing is sent then.

    cel-go multiplies the tens of characters of a text by those of what it contains, or by the fours of a pattern. What
    a text starts or ends with costs the tens of its own characters. All are rounded up, so that a short word costs as
    much as ten characters. An object with more words or characters than the expression states is sent unsearched.
    """
    hook = of_kind(admission(), kind)[0]["webhooks"][0]
    [expression] = [each["expression"] for each in hook["matchConditions"] if each["name"] == "could-be-vllm"]
    searched = re.findall(r"word[.]contains\('([^']*)'\)", expression)
    patterns = re.findall(r"word[.]matches\(r'([^']*)'\)", expression)
    at_an_end = expression.count("word.endsWith(") + expression.count("word.startsWith(")
    assert expression.count("word.") == len(searched) + len(patterns) + at_an_end + expression.count("word.size()")
    price = sum(-(-len(each) // 10) for each in searched) + sum(-(-len(each) // 4) for each in patterns) + at_an_end
    assert price == 12
    [containers] = map(int, re.findall(r"containers[.]size\(\) > (\d+)", expression))
    [variables] = map(int, re.findall(r"c[.]env[.]size\(\) : 0\)[.]sum\(\) > (\d+)", expression))
    [image] = map(int, re.findall(r"c[.]image[.]size\(\) > (\d+)", expression))
    [words] = map(int, re.findall(r"words[.]size\(\)\)[.]sum\(\) > (\d+)", expression))
    [characters] = map(int, re.findall(r"word[.]size\(\)\)[.]sum\(\)\)[.]sum\(\) > (\d+)", expression))
    uses = expression.count("word.")
    costs = {
        "the characters of the words": characters / 10 * price,
        "the words": words * (price + uses + STEP),
        "their lengths": words * (ELEMENT + 2 + 2),
        "the lists of them": variables * (ELEMENT + 4) + containers * (3 * (ELEMENT + 4) + STEP + CONTAINER),
        "the names of variables": variables * (STEP + 4) + LARGEST / 10,
        "images": containers * (STEP + 10 + 3 * (STEP + 3) + image / 10 * 4 + 4),
    }
    assert sum(costs.values()) < 0.9 * EXPRESSION_LIMIT, costs


def commands(*words: str, count: int = 1) -> list[Document]:
    """Pods with the words as the arguments, the command, the variables or a hook of each of ``count`` containers."""
    env = [{"name": "A", "value": word} for word in words]
    first: list[Document] = [{"args": [*words]}, {"command": [*words]}, {"env": env}]
    return [
        {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [{**OTHER, **each}] * count}}
        for each in (*first, *hooks_with([*words]))
    ]


def test_an_object_with_too_many_words_to_search_is_sent() -> None:
    assert not is_sent(commands(*["a"] * 1_000)[0])
    assert is_sent(commands(*["a"] * 1_001)[0])
    assert is_sent(commands(*["a"] * 101, count=10)[0])


def test_an_object_with_too_many_characters_to_search_is_sent() -> None:
    assert [is_sent(each) for each in commands("a" * 399_900)] == [False] * 8
    assert [is_sent(each) for each in commands("a" * 400_001)] == [True] * 8
    assert is_sent(commands("a" * 20_000, "a" * 20_001, count=10)[0])


def test_an_object_with_too_many_containers_or_variables_or_a_long_image_is_sent() -> None:
    def pod(*containers: Document) -> Document:
        return {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": [*containers]}}

    assert not is_sent(pod(*[OTHER] * 100))
    assert is_sent(pod(*[OTHER] * 101))
    unknown = {"name": "A", "valueFrom": {"secretKeyRef": {"name": "a", "key": "b"}}}
    container = {"name": "a", "image": "own:1", "env": [unknown] * 500}
    assert not is_sent(pod(container, container))
    assert is_sent(pod(container, container, {**container, "env": [unknown]}))
    assert not is_sent(pod({**OTHER, "image": "a" * 1_000}))
    assert is_sent(pod({**OTHER, "image": "a" * 1_001}))


def test_every_object_that_the_service_would_decide_is_sent() -> None:
    """The condition in the webhook is coarser than the service's; whatever the service decides must pass it."""
    found: list[Document] = []
    for path in sorted((ROOT / "tests/intake/manifests/fixtures").glob("*.yaml")):
        for document in yaml.load_all(path.read_text(), yaml.CSafeLoader):
            found += document.get("items", [document]) if isinstance(document, dict) else []
    for image in (
        "vllm/vllm-openai",
        "mirror.example/vllm-openai-rocm",
        "own/vllm",
        "own/vllm-cpu",
        "llm-d",
        "llm-d-gb200-dev",
    ):
        found.append(template({"name": "a", "image": f"{image}:1", "args": ["--model=a/b"]}))
    for command in (
        ["vllm", "serve", "a/b"],
        ["python3", "-m", "vllm.entrypoints.openai.api_server"],
        ["sh", "-c", "FOO=1 exec /opt/vllm serve a/b"],
    ):
        found.append(template({"name": "a", "image": "own:1", "command": command}))
    engines = [
        each
        for each in found
        if str(each.get("apiVersion")) in {"v1", "apps/v1", "batch/v1"} and read_manifest(each, "", [])
    ]
    assert len(engines) == 11
    assert [each for each in engines if not is_sent({**each, "metadata": each.get("metadata", {})})] == []


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"labels": {"a": "b"}}, False),
        ({"finalizers": []}, False),
        ({"annotations": {"runner-policy/set-env": "true"}}, True),
    ],
)
def test_an_update_is_sent_if_it_can_change_the_answer(change: Document, expected: bool) -> None:  # noqa: FBT001  # a table's value
    assert is_sent(template(VLLM, **change), template(VLLM)) is expected
    assert is_sent(template(VLLM, **change), template(OTHER))


WORKSPACE: Final = {
    "apiVersion": "kaito.sh/v1beta1",
    "kind": "Workspace",
    "metadata": {"name": "a"},
    "resource": {"instanceType": "Standard_NC24ads_A100_v4"},
    "inference": {"preset": {"name": "phi-4"}},
}
"""An object without `spec`."""


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, False),
        ({"metadata": {"name": "a", "labels": {"a": "b"}}}, False),
        ({"metadata": {"name": "a", "labels": {"kaito.sh/inference-role": "decode"}}}, True),
        ({"status": {"state": "Ready"}}, False),
        ({"metadata": {"name": "a", "annotations": {"kaito.sh/runtime": "transformers"}}}, True),
        ({"resource": {"instanceType": "g6.xlarge"}}, True),
        ({"inference": {"preset": {"name": "phi-4"}, "config": "c"}}, True),
    ],
)
def test_an_update_of_an_object_without_a_spec_is_sent_if_it_can_change_the_answer(
    change: Document,
    expected: bool,  # noqa: FBT001  # a table's value
) -> None:
    hook = "controllers.validate.runner-policy"
    assert is_sent({**WORKSPACE, **change}, WORKSPACE, hook=hook) is expected
    tuning = {name: value for name, value in WORKSPACE.items() if name != "inference"}
    assert is_sent({**WORKSPACE, **change}, tuning, hook=hook)


SERVICE: Final = {
    "apiVersion": "serving.kserve.io/v1beta1",
    "kind": "InferenceService",
    "metadata": {"name": "a", "labels": {"a": "b"}},
    "spec": {"predictor": {"model": {"modelFormat": {"name": "vLLM"}, "args": ["--runner={{.Labels.a}}"]}}},
}
"""An object whose labels are written into arguments."""


@pytest.mark.parametrize("hook", ["controllers.validate.runner-policy", "controllers.mutate.runner-policy"])
@pytest.mark.parametrize(
    ("metadata", "expected"),
    [
        ({"labels": {"a": "b"}}, False),
        ({"labels": {"a": "b"}, "resourceVersion": "2"}, False),
        ({"labels": {"a": "c"}}, True),
        ({"labels": {"a": "b", "c": "d"}}, True),
        ({}, True),
    ],
)
def test_an_update_of_the_labels_of_a_controllers_object_is_sent(
    metadata: Document,
    expected: bool,  # noqa: FBT001  # a table's value
    hook: str,
) -> None:
    changed = {**SERVICE, "metadata": {"name": "a", **metadata}}
    assert is_sent(changed, SERVICE, hook=hook) is expected
    assert is_sent(SERVICE, changed, hook=hook) is expected


def test_an_object_that_is_being_deleted_is_not_sent() -> None:
    assert not is_sent(template(VLLM, deletionTimestamp="2026-01-01T00:00:00Z"), template(OTHER))


@pytest.mark.parametrize("hook", hooks(admission()), ids=lambda hook: hook["name"])
def test_no_label_of_an_object_exempts_it(hook: Document) -> None:
    """Authors of workloads set the labels of their objects, but not those of their namespace."""
    assert "objectSelector" not in hook
    assert [each["name"] for each in hook["matchConditions"] if "labels" in each["expression"]] in ([], ["changes"])
    for labels in ({}, {"a": "b"}, {"kaito.sh/inference-role": "decode"}):
        assert is_sent(template(VLLM, labels=labels))
        assert is_sent(template(VLLM, labels=labels), template(OTHER))


SERVICE_ACCOUNTS: Final = tuple(
    f"system:serviceaccount:kube-system:{name}"
    for name in (
        "cronjob-controller",
        "daemon-set-controller",
        "deployment-controller",
        "job-controller",
        "replicaset-controller",
        "replication-controller",
        "statefulset-controller",
    )
)
"""The service accounts of Kubernetes' controllers, whose objects have the pod templates of reviewed ones."""
CONTROLLERS: Final = (*SERVICE_ACCOUNTS, "system:kube-controller-manager")
OTHER_USERS: Final = (
    AUTHOR,
    "system:admin",
    "system:anonymous",
    "system:serviceaccount:default:default",
    "system:serviceaccount:default:replicaset-controller",
    "system:serviceaccount:kube-system-x:replicaset-controller",
    "system:serviceaccount:kube-system:replicaset-controller-x",
    "system:serviceaccount:kube-system:default",
    "system:serviceaccount:kserve:kserve-controller-manager",
    "x/system:kube-controller-manager",
)
REVIEWED_OWNERS: Final = (
    ("apps/v1", "DaemonSet"),
    ("apps/v1", "Deployment"),
    ("apps/v1", "ReplicaSet"),
    ("apps/v1", "StatefulSet"),
    ("batch/v1", "CronJob"),
    ("batch/v1", "Job"),
    ("v1", "ReplicationController"),
)
OTHER_OWNERS: Final = (
    ("v1", "ConfigMap"),
    ("v1", "Node"),
    ("v1", "ReplicaSet"),
    ("apps/v1", "ControllerRevision"),
    ("apps/v1", "Job"),
    ("apps/v1beta1", "Deployment"),
    ("batch/v1", "ReplicaSet"),
    ("xapps/v1", "ReplicaSet"),
    ("apps/v1/x", "ReplicaSet"),
    ("example.com/v1", "ReplicaSet"),
    ("serving.kserve.io/v1beta1", "InferenceService"),
    ("serving.kserve.io/v1beta1", "Anything"),
    ("leaderworkerset.x-k8s.io/v1", "LeaderWorkerSet"),
    ("ray.io/v1", "RayCluster"),
)


def owner(api_version: str, kind: str, **fields: Any) -> Document:
    return {"apiVersion": api_version, "kind": kind, "name": "any", "uid": "1", "controller": True, **fields}


@pytest.mark.parametrize("hook", hooks(admission()), ids=lambda hook: hook["name"])
@pytest.mark.parametrize("user", slow_except([*CONTROLLERS[:2], OTHER_USERS[0]], [*CONTROLLERS, *OTHER_USERS]))
def test_only_objects_that_kubernetes_controllers_create_for_a_reviewed_owner_are_exempt(
    user: str, hook: Document
) -> None:
    """Users write `ownerReferences` as they like; `userInfo` is what the API server has authenticated."""
    for api_version, kind in REVIEWED_OWNERS + OTHER_OWNERS:
        document = template(VLLM, ownerReferences=[owner(api_version, kind)])
        exempt = user in CONTROLLERS and (api_version, kind) in REVIEWED_OWNERS
        assert is_sent(document, hook=hook["name"], user=user) is not exempt, (api_version, kind)
        assert is_sent(document, template(OTHER), hook=hook["name"], user=user) is not exempt, (api_version, kind)


@table("user", [*CONTROLLERS, *OTHER_USERS])
@table(
    "owners",
    [
        None,
        [],
        [owner("apps/v1", "ReplicaSet", controller=False)],
        [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "any", "uid": "1"}],
        [owner("v1", "ConfigMap"), owner("apps/v1", "ReplicaSet", controller=False)],
    ],
)
def test_an_object_without_a_reviewed_controller_is_sent(owners: list[Document] | None, user: str) -> None:
    metadata = {} if owners is None else {"ownerReferences": owners}
    assert is_sent(template(VLLM, **metadata), user=user)


def test_every_owner_that_exempts_an_object_is_reviewed() -> None:
    resources = reviewed_resources("ValidatingWebhookConfiguration")
    for api_version, kind in REVIEWED_OWNERS:
        assert (api_version.rpartition("/")[0], f"{kind.lower()}s") in resources


# without Kubernetes


def test_the_compose_file_is_for_this_machine_only() -> None:
    services = yaml.safe_load((DEPLOY / "compose.yaml").read_text())["services"]
    service = services["runner-policy"]
    assert all(port.startswith("127.0.0.1:") for port in service["ports"])
    assert "ports" not in services["store"]
    assert service["read_only"] is True
    assert service["cap_drop"] == ["ALL"]
    assert all(re.search(r":\d", each["image"]) for each in services.values())
    assert service["environment"][f"{PREFIX}ALLOW_ANONYMOUS"] == "true"
    assert (DEPLOY / service["build"]["context"] / "Dockerfile").is_file()


def test_nginx_accepts_the_configuration(tmp_path: Path) -> None:
    nginx, openssl = shutil.which("nginx"), shutil.which("openssl")
    if nginx is None or openssl is None:
        pytest.skip("nginx and openssl are not both installed; deploy/check fetches nginx")
    (tmp_path / "tls").mkdir()
    names = ["-keyout", "tls/tls.key", "-out", "tls/tls.crt", "-subj", "/CN=localhost"]
    subprocess.run(
        [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", *names],
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=60,
    )
    folders = "".join(
        f" {kind}_temp_path {tmp_path}/{kind};" for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
    )
    text = (DEPLOY / "proxy/nginx.conf").read_text()
    text = text.replace("pid /run/nginx.pid;", f"pid {tmp_path}/nginx.pid;").replace(
        "\nhttp {", f"\nhttp {{{folders}", 1
    )
    (tmp_path / "nginx.conf").write_text(text)
    done = subprocess.run(
        [nginx, "-t", "-p", f"{tmp_path}/", "-c", "nginx.conf"], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr.replace('the "user" directive', ""), done.stderr


def test_the_proxy_forwards_streams_and_no_internal_endpoint() -> None:
    text = (DEPLOY / "proxy/nginx.conf").read_text()
    locations = dict(re.findall(r"location (?:= |\^~ )?(\S+) \{(.*?)\}", text, re.DOTALL))
    assert "client_max_body_size 0;" in locations["/v1/decisions/batch"]
    assert "proxy_request_buffering off;" in locations["/v1/decisions/batch"]
    assert locations["/v1/requests/check/batch"] == locations["/v1/decisions/batch"]
    [size] = re.findall(r"client_max_body_size (\d+)m;", locations["/v1/impact"])
    assert int(size) << 20 > Settings().max_batch_body
    assert "return 404;" in locations["/metrics"]
    assert "return 404;" in locations["/v1/admission"]


def test_scripts_are_executable_and_valid() -> None:
    for path in (DEPLOY / "check", DEPLOY / "monitoring/prometheusrule"):
        assert os.access(path, os.X_OK)
        subprocess.run(["/bin/sh", "-n", str(path)], check=True, timeout=60)


def test_the_guide_names_existing_files() -> None:
    text = (DEPLOY / "README.md").read_text()
    for name in set(re.findall(r"\bdeploy/[\w./-]*\w", text)) - {
        "deploy/kustomize/overlays/mine/kustomization.yaml",
        "deploy/kustomize/overlays/mine",
    }:
        assert (ROOT / name).exists(), name
    for name in re.findall(r"\]\(([\w./-]+)[)#]", text):
        assert (DEPLOY / name).exists(), name
