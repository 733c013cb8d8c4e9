"""Objects that install a Helm chart with values of their own: Flux, Argo CD, the Helm controller of K3s."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault

IMAGE = "vllm/vllm-openai:v0.24.0"
SERVE = ["vllm", "serve", "a/b"]
VALUES = {"server": {"image": IMAGE, "command": SERVE}}
TEXT = f"server:\n  image: {IMAGE}\n  command: [vllm, serve, a/b]\n"
STACK = {
    "servingEngineSpec": {
        "modelSpec": [{"name": "m", "repository": "vllm/vllm-openai", "tag": "v0.24.0", "modelURL": "a/b"}]
    }
}
FLUX = ("helm.toolkit.fluxcd.io/v2", "HelmRelease")
ARGO = ("argoproj.io/v1alpha1", "Application")
K3S = ("helm.cattle.io/v1", "HelmChart")


def read(identity: tuple[str, str], spec: Any) -> tuple[list[tuple[str, list[str]]], list[tuple[str, str]]]:
    faults: list[RequestFault] = []
    version, kind = identity
    found = read_manifest({"apiVersion": version, "kind": kind, "spec": spec}, "", faults)
    return [(each.path, each.words) for each in found], [(fault.pointer, fault.message) for fault in faults]


@pytest.mark.parametrize(
    ("identity", "spec", "path", "words"),
    [
        (FLUX, {"values": VALUES}, "spec.values.server", SERVE),
        (FLUX, {"values": STACK}, "spec.values.servingEngineSpec.modelSpec[0]", SERVE),
        (ARGO, {"source": {"helm": {"valuesObject": VALUES}}}, "spec.source.helm.valuesObject.server", SERVE),
        (ARGO, {"source": {"helm": {"values": TEXT}}}, "spec.source.helm.values.server", SERVE),
        (ARGO, {"sources": [{"path": "x"}, {"helm": {"values": TEXT}}]}, "spec.sources[1].helm.values.server", SERVE),
        (
            ("argoproj.io/v1alpha1", "ApplicationSet"),
            {"template": {"spec": {"source": {"helm": {"values": TEXT}}}}},
            "spec.template.spec.source.helm.values.server",
            SERVE,
        ),
        (K3S, {"valuesContent": TEXT}, "spec.valuesContent.server", SERVE),
    ],
)
def test_the_values_of_an_installed_chart_are_read(
    identity: tuple[str, str], spec: dict[str, Any], path: str, words: list[str]
) -> None:
    assert read(identity, spec) == ([(path, words)], [])


@pytest.mark.parametrize(
    ("identity", "spec"),
    [
        (FLUX, {"chart": {}}),
        (FLUX, {"values": {"image": "nginx"}}),
        (FLUX, {"values": [1]}),
        (ARGO, {"source": {"path": "vllm"}}),
        (ARGO, {"source": {"helm": {"values": "{{ x"}}}),
        (ARGO, {"sources": ["x", 1]}),
        (K3S, {"valuesContent": ""}),
        (K3S, {}),
    ],
)
def test_a_chart_without_vllm_has_no_engines(identity: tuple[str, str], spec: dict[str, Any]) -> None:
    assert read(identity, spec) == ([], [])


def test_a_text_of_values_that_cannot_be_read_is_a_fault_if_it_names_vllm() -> None:
    found, ((pointer, message),) = read(K3S, {"valuesContent": "image: vllm\n  x: [1"})
    assert (found, pointer) == ([], "/spec/valuesContent")
    assert message.startswith("line 2, column ")


def test_values_from_elsewhere_are_said() -> None:
    (found,) = read_manifest(
        {"apiVersion": FLUX[0], "kind": FLUX[1], "spec": {"values": VALUES, "valuesFrom": [{"name": "x"}]}}, "", []
    )
    assert found.notes[-1] == (
        "`valuesFrom` takes values from objects that the manifest does not have; they may override the values here"
    )


KUSTOMIZE = ("kustomize.config.k8s.io/v1beta1", "Kustomization")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"images": [{"name": "vllm/vllm-openai", "newTag": "v0.24.0"}]}, "images"),
        ({"patches": [{"patch": "- {op: add, path: /spec, value: vllm}"}]}, "patches"),
        ({"helmCharts": [{"name": "x", "valuesInline": {"image": "vllm/vllm-openai"}}]}, "helmCharts"),
        ({"images": [{"name": "nginx"}], "resources": ["../vllm"]}, ""),
    ],
)
def test_a_kustomization_that_changes_vllm_has_to_be_built(fields: dict[str, Any], path: str) -> None:
    faults: list[RequestFault] = []
    found = read_manifest({"apiVersion": KUSTOMIZE[0], "kind": KUSTOMIZE[1], **fields}, "", faults)
    assert faults == []
    assert [(each.path, each.problem.partition(";")[0]) for each in found] == (
        [(path, "a kustomization changes objects of other files, and these show vLLM")] if path else []
    )
