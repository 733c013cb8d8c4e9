"""Reports of a cluster's vLLM pods: the objects, what is written to a stub of an API server, and deploy/openreports."""

from __future__ import annotations

import json
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import kubernetes_validate
import pytest
import yaml
from certificates import Authority
from cli.conftest import call
from cli.test_cli_impact import MODEL, models
from cluster.reports_server import TOKEN, Store, serving
from jsonschema import Draft202012Validator

from service.kubernetes import RETRIES

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

__all__ = ["call", "models"]
FOLDER: Final = Path(__file__).resolve().parents[2] / "deploy" / "openreports"
RESULT: Final = {
    "type": "object",
    "required": ["policy", "result"],
    "additionalProperties": False,
    "properties": {
        **{name: {"type": "string"} for name in ("source", "policy", "rule", "category", "message")},
        "severity": {"enum": ["critical", "high", "medium", "low", "info"]},
        "result": {"enum": ["pass", "fail", "warn", "error", "skip"]},
        "scored": {"type": "boolean"},
        "properties": {"type": "object", "additionalProperties": {"type": "string"}},
        "timestamp": {
            "type": "object",
            "required": ["seconds", "nanos"],
            "properties": {"seconds": {"type": "integer"}, "nanos": {"type": "integer"}},
        },
    },
}
REPORT: Final = {
    "type": "object",
    "additionalProperties": False,
    "required": ["apiVersion", "kind", "metadata"],
    "properties": {
        "apiVersion": {"const": "openreports.io/v1alpha1"},
        "kind": {"const": "Report"},
        "metadata": {"type": "object"},
        "source": {"type": "string"},
        "scope": {"type": "object", "additionalProperties": {"type": "string"}},
        "summary": {"type": "object", "additionalProperties": {"type": "integer"}},
        "results": {"type": "array", "items": RESULT},
    },
}
"""The kind `Report` as its definition has it."""


def pod(name: str, tag: str = "v0.33.0", *args: str, namespace: str = "prod", image: str = "") -> dict[str, Any]:
    """A pod as a list has it: without kind and version."""
    container = {"name": "vllm", "image": image or f"vllm/vllm-openai:{tag}", "args": [MODEL, *args]}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{name}"}
    return {"metadata": metadata, "spec": {"containers": [container]}, "status": {"phase": "Running"}}


WEB: Final = pod("web", image="nginx:1.27")
PODS: Final = [
    pod("good"),
    WEB,
    pod("old", "v0.22.0"),
    pod("bad", "v0.33.0", "--no-such-flag"),
    pod("connector", "v0.23.0", "--kv-transfer-config", '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'),
    pod("future", "v9.9.9", namespace="other"),
]


@pytest.fixture
def report(call: Callable[..., Done], tmp_path: Path, models: str) -> Callable[..., Done]:
    """Run the command with a stub's address."""
    (tmp_path / "token").write_text(f"{TOKEN}\n")

    def run(address: str, *options: str) -> Done:
        token = () if "--token-file" in options else ("--token-file", str(tmp_path / "token"))
        return call("openreports", "--api", address, *token, "--models", models, *options)

    return run


def results(found: dict[str, Any]) -> list[tuple[str, str, str]]:
    return [(each["rule"], each["result"], each["severity"]) for each in found["results"]]


def test_each_vllm_pod_gets_a_report(report: Callable[..., Done]) -> None:
    with serving(store := Store(PODS)) as address:
        done = report(address, "--write")
    assert (done.code, done.out, done.err) == (0, "", "5 vLLM pods, reports written\n")
    found = {name: each for (_, name), each in store.reports.items()}
    assert set(store.reports) == {
        *(("prod", f"runner-policy-uid-{name}") for name in ("good", "old", "bad", "connector")),
        ("other", "runner-policy-uid-future"),
    }
    assert results(found["runner-policy-uid-good"]) == [("starts", "pass", "info")]
    assert results(found["runner-policy-uid-old"]) == [("starts", "pass", "info"), ("v2-graph-memory", "warn", "high")]
    assert results(found["runner-policy-uid-bad"]) == [("starts", "fail", "critical")]
    assert results(found["runner-policy-uid-connector"])[:2] == [
        ("starts", "pass", "info"),
        ("follows-policy", "fail", "medium"),
    ]
    assert results(found["runner-policy-uid-future"]) == [("starts", "error", "medium")]


def test_reports_are_valid_and_add_up(report: Callable[..., Done]) -> None:
    with serving(store := Store(PODS)) as address:
        report(address, "--write", "--to", "0.33.0,v1-removed")
    validator = Draft202012Validator(REPORT)
    for found in store.reports.values():
        assert [*validator.iter_errors(found)] == []
        assert sum(found["summary"].values()) == len(found["results"])
        for name, number in found["summary"].items():
            assert number == sum(each["result"] == name for each in found["results"])
        (owner,) = found["metadata"]["ownerReferences"]
        assert owner["uid"] == found["scope"]["uid"]
        assert found["metadata"]["labels"] == {"app.kubernetes.io/managed-by": "runner-policy"}


def test_a_later_release_is_reported_too(report: Callable[..., Done]) -> None:
    with serving(
        store := Store([pod("old", "v0.21.0"), pod("flag", "v0.21.0", "--max-num-partial-prefills=1")])
    ) as address:
        report(address, "--write", "--to", "0.33.0")
    old = store.reports["prod", "runner-policy-uid-old"]
    assert results(old)[-1] == ("upgrade-0.33.0", "warn", "medium")
    assert "V1 becomes V2" in old["results"][-1]["message"]
    flag = store.reports["prod", "runner-policy-uid-flag"]
    assert results(flag)[-1] == ("upgrade-0.33.0", "fail", "critical")


@pytest.mark.parametrize("ensure_ascii", [True, False])
def test_half_of_a_surrogate_pair_does_not_affect_the_other_pods(
    report: Callable[..., Done], *, ensure_ascii: bool
) -> None:
    half = "\ud800"
    pods = [pod("first"), pod("half", "v0.33.0", f"--a{half}"), pod("annotated"), pod("last", "v0.21.0")]
    pods[2]["metadata"]["annotations"] = {half: f'"\\ud800{half}'}
    with serving(store := Store(pods)) as address:
        store.ensure_ascii = ensure_ascii
        done = report(address, "--write", "--to", "0.33.0")
    assert (done.code, done.out, done.err) == (0, "", "4 vLLM pods, reports written\n")
    assert "`--a\ufffd" in store.reports["prod", "runner-policy-uid-half"]["results"][0]["message"]
    assert results(store.reports["prod", "runner-policy-uid-last"])[-1] == ("upgrade-0.33.0", "warn", "medium")


def test_a_second_run_replaces_and_deletes(report: Callable[..., Done]) -> None:
    """A report of a pod that no longer runs goes; those of other programs stay."""
    with serving(store := Store(PODS)) as address:
        report(address, "--write")
        store.pods = [PODS[0]]
        done = report(address, "--write")
    assert done.code == 0
    assert set(store.reports) == {("prod", "runner-policy-uid-good")}
    listed = next(query for method, path, query, _ in store.calls if method == "GET" and path.endswith("/reports"))
    assert listed["labelSelector"] == ["app.kubernetes.io/managed-by=runner-policy"]
    applied = [(query, kind) for method, _, query, kind in store.calls if method == "PATCH"]
    assert all(
        found == ({"fieldManager": ["runner-policy"], "force": ["true"]}, "application/apply-patch+yaml")
        for found in applied
    )


def test_only_some_namespaces(report: Callable[..., Done]) -> None:
    with serving(store := Store(PODS)) as address:
        store.reports["prod", "earlier"] = {"metadata": {"namespace": "prod", "name": "earlier"}}
        report(address, "--write", "-n", "other")
    asked = {path for method, path, _, _ in store.calls if method == "GET"}
    assert asked == {
        "/api/v1/namespaces/other/pods",
        "/apis/openreports.io/v1alpha1/namespaces/other/reports",
    }


def test_without_write_reports_are_printed(report: Callable[..., Done]) -> None:
    with serving(store := Store(PODS)) as address:
        done = report(address)
    assert [json.loads(line)["scope"]["name"] for line in done.out.splitlines()] == [
        "good",
        "old",
        "bad",
        "connector",
        "future",
    ]
    assert {method for method, *_ in store.calls} == {"GET"}


def test_a_report_that_is_refused_leaves_the_others(report: Callable[..., Done]) -> None:
    with serving(store := Store(PODS)) as address:
        store.fails = {"PATCH /apis/openreports.io/v1alpha1/namespaces/prod/reports/runner-policy-uid-old": 403}
        done = report(address, "--write")
    assert (done.code, len(store.reports)) == (1, 4)
    assert "403 refused" in done.err


def test_a_namespace_that_is_gone_is_no_missing_kind(report: Callable[..., Done]) -> None:
    pods = [pod("gone", namespace="old"), pod("too", namespace="old"), *PODS]
    with serving(store := Store(pods)) as address:
        store.fails = {"PATCH /apis/openreports.io/v1alpha1/namespaces/old/": 404}
        done = report(address, "--write")
    assert (done.code, done.err, len(store.reports)) == (0, "5 vLLM pods, reports written\n", 5)
    asked = [query for method, path, query, _ in store.calls if method == "GET" and path.endswith("/reports")]
    assert [query for query in asked if "labelSelector" not in query] == [{"limit": ["1"]}]


@pytest.mark.parametrize(
    ("fails", "installed", "options", "message"),
    [
        ({"/pods": 403}, True, (), "GET /api/v1/pods: 403 refused /api/v1/pods"),
        ({}, False, ("--write",), "the cluster has no kind `Report` of openreports.io"),
        ({}, True, ("--token-file", "/nonexistent"), "/nonexistent: the token cannot be read"),
        ({}, True, ("--token-file", "/dev/null"), "401 Unauthorized"),
        ({}, True, ("--to", "9.9"), "unknown release `9.9`"),
    ],
)
def test_what_ends_the_run(
    report: Callable[..., Done],
    fails: dict[str, int],
    installed: bool,  # noqa: FBT001  # a parameter of the table
    options: tuple[str, ...],
    message: str,
) -> None:
    with serving(store := Store(PODS)) as address:
        store.fails, store.installed = fails, installed
        done = report(address, *options)
    assert (done.code, done.out) == (2, "")
    assert message in done.err
    assert "Traceback" not in done.err


@pytest.mark.parametrize(
    ("address", "message"),
    [
        ("http://example.com", "expected `https://HOST:PORT`, or http on this machine"),
        ("ftp://127.0.0.1", "expected `https://HOST:PORT`"),
        ("http://127.0.0.1:1", "cannot be reached"),
    ],
)
def test_addresses(report: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, address: str, message: str) -> None:
    monkeypatch.setattr(RETRIES, "backoff_factor", 0)  # it tries again at once
    done = report(address)
    assert (done.code, message in done.err) == (2, True), done.err


@pytest.mark.parametrize(
    ("ca", "host", "message"),
    [
        ("cluster", "127.0.0.1", ""),
        ("other", "127.0.0.1", "certificate verify failed"),
        ("cluster", "localhost", "Hostname mismatch"),
    ],
)
def test_the_certificate_of_a_cluster_is_checked_without_key_identifiers(
    report: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, ca: str, host: str, message: str
) -> None:
    """As of Python 3.13 a default context refuses an authority without them."""
    create = ssl.create_default_context

    def strict(*args: Any, **options: Any) -> ssl.SSLContext:
        context = create(*args, **options)
        context.verify_flags |= ssl.VERIFY_X509_STRICT
        return context

    monkeypatch.setattr(ssl, "create_default_context", strict)
    monkeypatch.setattr(RETRIES, "backoff_factor", 0)
    authorities = {name: Authority(tmp_path, name, key_identifiers=False) for name in ("cluster", "other")}
    with serving(Store(PODS), authorities["cluster"].issue("server")) as address:
        done = report(address.replace("127.0.0.1", host), "--ca-file", str(authorities[ca].path))
    assert (done.code, message in done.err) == (2 if message else 0, True), done.err


def test_no_cluster(call: Callable[..., Done]) -> None:
    assert "no cluster: this does not run in a pod" in call("openreports").err


BROKEN: Final = [{}, {"metadata": None}, {"metadata": {"name": 1}}, {"metadata": {"name": "x", "namespace": "y"}}]


@pytest.mark.parametrize("broken", BROKEN)
def test_a_broken_pod_leaves_the_others(report: Callable[..., Done], broken: dict[str, Any]) -> None:
    with serving(store := Store([{"spec": PODS[0]["spec"], **broken}, {**PODS[3], "spec": 5}, PODS[2]])) as address:
        assert report(address, "--write").code == 0
    assert ("prod", "runner-policy-uid-old") in store.reports


def documents() -> list[dict[str, Any]]:
    return [
        document
        for path in sorted(FOLDER.glob("*.yaml"))
        for document in yaml.safe_load_all(path.read_text())
        if document["kind"] != "Kustomization"
    ]


@pytest.mark.parametrize("version", ["1.29", "1.37"])
def test_the_manifests_are_valid(version: str) -> None:
    for document in documents():
        kubernetes_validate.validate(document, version, strict=True)


def test_the_job_may_do_what_the_command_does_and_no_more(report: Callable[..., Done]) -> None:
    """Each request of a run has its verb in the role, and each verb of the role its request."""
    with serving(store := Store(PODS)) as address:
        report(address, "--write")
        store.pods = []
        report(address, "--write")
    verbs = {"GET": ["list"], "PATCH": ["create", "patch"], "DELETE": ["delete"]}
    used = set()
    for method, path, _, _ in store.calls:
        resource = "pods" if path.endswith("/pods") else "reports"
        group = "openreports.io" if "openreports.io" in path else ""
        used |= {(group, resource, verb) for verb in verbs[method]}
    (role,) = [each for each in documents() if each["kind"] == "ClusterRole"]
    allowed = {
        (group, resource, verb)
        for rule in role["rules"]
        for group in rule["apiGroups"]
        for resource in rule["resources"]
        for verb in rule["verbs"]
    }
    assert allowed == used


def test_the_job_runs_the_command_and_is_confined(call: Callable[..., Done]) -> None:
    (job,) = [each for each in documents() if each["kind"] == "CronJob"]
    spec = job["spec"]["jobTemplate"]["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    program, *words = container["command"]
    assert program == "runner-policy"
    assert "no cluster: this does not run in a pod" in call(*words).err
    security = container["securityContext"]
    assert (security["readOnlyRootFilesystem"], security["allowPrivilegeEscalation"]) == (True, False)
    assert security["capabilities"] == {"drop": ["ALL"]}
    accounts = [each["metadata"]["name"] for each in documents() if each["kind"] == "ServiceAccount"]
    assert spec["serviceAccountName"] in accounts
