"""Objects that install a Helm chart with values of their own: Flux, Argo CD, the Helm controller of K3s."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.errors import RequestInvalid
from policy.intake.result import require_known_values
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

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


@table(
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


@table(
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


HELM = "send what is installed: `helm get manifest RELEASE | runner-policy decide -`"
ARGOCD = "send what is installed: `argocd app manifests NAME | runner-policy decide -`"
APPLICATIONS = ("argoproj.io/v1alpha1", "ApplicationSet")
CONFIG = ("helm.cattle.io/v1", "HelmChartConfig")


def source(**helm: Any) -> dict[str, Any]:
    return {"source": {"helm": {"valuesObject": VALUES, **helm}}}


def release(**fields: Any) -> dict[str, Any]:
    return {"values": VALUES, **fields}


def applications(**fields: Any) -> dict[str, Any]:
    return {"template": {"spec": source()}, **fields}


PATCHED = {"kustomize": {"images": [{"name": "vllm/vllm-openai", "newTag": "v0.21.0"}]}}


@table(
    ("identity", "spec", "fields", "remedy"),
    [
        (FLUX, release(valuesFrom=[{"kind": "ConfigMap", "name": "x"}]), ["`spec.valuesFrom`"], HELM),
        (FLUX, release(postRenderers=[PATCHED]), ["`spec.postRenderers`"], HELM),
        (FLUX, release(chart={"spec": {"valuesFiles": ["x.yaml"]}}), ["`spec.chart.spec.valuesFiles`"], HELM),
        (FLUX, release(chart={"spec": {"valuesFile": "x.yaml"}}), ["`spec.chart.spec.valuesFile`"], HELM),
        (
            FLUX,
            release(valuesFrom=[{"name": "x"}], postRenderers=[PATCHED]),
            ["`spec.valuesFrom`", "`spec.postRenderers`"],
            HELM,
        ),
        (FLUX, release(valuesFrom=[], postRenderers=None, chart={"spec": {"chart": "x"}}), [], HELM),
        (ARGO, source(valueFiles=["x.yaml"]), ["`helm.valueFiles`"], ARGOCD),
        (ARGO, source(fileParameters=[{"name": "server.image", "path": "x"}]), ["`helm.fileParameters`"], ARGOCD),
        (ARGO, source() | {"sourceHydrator": {"drySource": {"path": "x"}}}, ["`spec.sourceHydrator`"], ARGOCD),
        (
            ARGO,
            {"sources": [{"helm": {"values": TEXT, "valueFiles": ["$x/y.yaml"]}}, {"ref": "x"}]},
            ["`helm.valueFiles`"],
            ARGOCD,
        ),
        (ARGO, source(releaseName="x", valueFiles=[], parameters=[]), [], ARGOCD),
        (APPLICATIONS, applications(templatePatch="spec: {}"), ["`spec.templatePatch`"], ARGOCD),
        (
            APPLICATIONS,
            applications(generators=[{"list": {"elements": [], "template": {"spec": {"project": "x"}}}}]),
            ["`spec.generators.*.*.template.spec`"],
            ARGOCD,
        ),
        (APPLICATIONS, applications(generators=[{"list": {"elements": [{"x": "y"}]}}]), [], ARGOCD),
        (K3S, {"valuesContent": TEXT, "valuesSecrets": [{"name": "x", "keys": ["y"]}]}, ["`spec.valuesSecrets`"], HELM),
        (K3S, {"valuesContent": TEXT, "set": {"global.x": "y"}}, [], HELM),
        (
            CONFIG,
            {"valuesContent": TEXT},
            [],
            HELM,
        ),
    ],
)
def test_each_field_that_may_override_the_values_of_an_engine_is_a_doubt(
    identity: tuple[str, str], spec: dict[str, Any], fields: list[str], remedy: str
) -> None:
    (found,) = read_manifest({"apiVersion": identity[0], "kind": identity[1], "spec": spec}, "", [])
    doubts = [f"{field} may override what is read here, and is not read" for field in fields]
    if identity is CONFIG:
        doubts.insert(0, "the `HelmChart` whose values this `HelmChartConfig` overrides is not in the manifest")
    assert found.doubts == doubts
    assert found.notes[len(found.notes) - len(doubts) :] == [f"{doubt}; {remedy}" for doubt in doubts]


def parameter(name: str, value: str, **fields: bool) -> dict[str, Any]:
    return {"name": name, "value": value, **fields}


MODEL = "servingEngineSpec.modelSpec[0]"


def stack(*parameters: object, **helm: Any) -> dict[str, Any]:
    return {"source": {"helm": {"valuesObject": STACK, "parameters": [*parameters], **helm}}}


def version(name: str = "V", value: str = "0", **fields: bool) -> list[dict[str, Any]]:
    return [parameter(f"{MODEL}.env[0].name", name), parameter(f"{MODEL}.env[0].value", value, **fields)]


@pytest.mark.parametrize(
    ("spec", "image", "env"),
    [
        (stack(parameter(f"{MODEL}.tag", "v0.21.0")), "v0.21.0", {}),
        (stack(*version(forceString=True)), "v0.24.0", {"V": "0"}),
        (stack(parameter(f"{MODEL}.tag", "v0.21.0"), parameter(f"{MODEL}.tag", "v0.22.0")), "v0.22.0", {}),
        (stack(parameter(f"{MODEL}.tag", "7", forceString=True), parameter(f"{MODEL}.tag", "v1")), "7", {}),
        (stack(parameter("routerSpec.x.y[0].z", "true"), parameter("routerSpec.x.k", "null")), "v0.24.0", {}),
    ],
)
def test_parameters_of_argo_cd_replace_values(spec: dict[str, Any], image: str, env: dict[str, str]) -> None:
    before = repr(spec)
    (found,) = read_manifest({"apiVersion": ARGO[0], "kind": ARGO[1], "spec": spec}, "", [])
    assert (found.image, found.doubts) == (f"vllm/vllm-openai:{image}", [])
    assert {name: found.env.get(name) for name in env} == env
    assert repr(spec) == before


@table(
    ("parameters", "named"),
    [
        ([parameter(f"{MODEL}.tag", "$TAG")], f"`{MODEL}.tag`"),
        ([parameter(f"{MODEL}.tag", "a,b")], f"`{MODEL}.tag`"),
        ([parameter(f"{MODEL}.tag", "a\\,b")], f"`{MODEL}.tag`"),
        ([parameter(f"{MODEL}.tag", "{a}")], f"`{MODEL}.tag`"),
        ([parameter(MODEL, "x")], f"`{MODEL}`"),
        ([parameter("servingEngineSpec.modelSpec[2].tag", "x")], "`servingEngineSpec.modelSpec[2].tag`"),
        ([parameter("servingEngineSpec.modelSpec.tag", "x")], "`servingEngineSpec.modelSpec.tag`"),
        ([parameter("servingEngineSpec[0].tag", "x")], "`servingEngineSpec[0].tag`"),
        ([parameter(f"{MODEL}.tag.x", "x")], f"`{MODEL}.tag.x`"),
        ([parameter(f"{MODEL}.new[1]", "x")], f"`{MODEL}.new[1]`"),
        ([parameter("a\\.b", "x")], "`a\\.b`"),
        ([parameter("a..b", "x")], "`a..b`"),
        ([parameter("a[-1]", "x")], "`a[-1]`"),
        ([parameter(".".join("a" * 31), "x")], f"`{'.'.join('a' * 31)}`"),
        ([{"name": "a", "value": 1}, {"value": "x"}, "b"], "`a`, `None`, `None`"),
        ([parameter(f"a{place}", ",") for place in range(5)], "`a0`, `a1`, `a2` and 2 more"),
    ],
)
def test_a_parameter_that_helm_may_read_otherwise_is_a_doubt(parameters: list[Any], named: str) -> None:
    (found,) = read_manifest({"apiVersion": ARGO[0], "kind": ARGO[1], "spec": stack(*parameters)}, "", [])
    assert found.image == IMAGE
    assert found.doubts == [f"`helm.parameters`, which sets {named}, may override what is read here, and is not read"]


@table(
    ("spec", "expected"),
    [
        (source(values=TEXT.replace("a/b", "c/d")), [("spec.source.helm.valuesObject.server", SERVE)]),
        ({"source": {"helm": {"valuesObject": {"x": 1}, "values": TEXT}}}, []),
        ({"source": {"helm": {"valuesObject": {}, "values": TEXT}}}, []),
        (
            {"source": {"helm": {"valuesObject": None, "values": TEXT}}},
            [("spec.source.helm.values.server", SERVE)],
        ),
        ({**source(), "sources": [{"path": "x"}]}, []),
        ({**source(), "sources": []}, [("spec.source.helm.valuesObject.server", SERVE)]),
    ],
)
def test_only_the_values_that_argo_cd_uses_are_read(
    spec: dict[str, Any], expected: list[tuple[str, list[str]]]
) -> None:
    assert read(ARGO, spec) == (expected, [])


def chart(kind: str, spec: dict[str, Any], namespace: str | None = "kube-system", name: str = "x") -> dict[str, Any]:
    metadata = {"name": name, **({} if namespace is None else {"namespace": namespace})}
    return {"apiVersion": K3S[0], "kind": kind, "metadata": metadata, "spec": spec}


OTHER = "server: {image: 'vllm/vllm-openai:v0.21.0'}"


@table(
    ("documents", "images", "doubts"),
    [
        ([chart("HelmChart", {"valuesContent": TEXT, "set": {"server.image": "x/vllm:1"}})], ["x/vllm:1"], 0),
        ([chart("HelmChart", {"valuesContent": TEXT, "set": {"server.image": True}})], [IMAGE], 1),
        (
            [chart("HelmChart", {"valuesContent": TEXT}), chart("HelmChartConfig", {"valuesContent": OTHER})],
            ["vllm/vllm-openai:v0.21.0"],
            0,
        ),
        (
            [chart("HelmChartConfig", {"valuesContent": OTHER}), chart("HelmChart", {"valuesContent": TEXT})],
            ["vllm/vllm-openai:v0.21.0"],
            0,
        ),
        (
            [
                chart("HelmChartConfig", {"valuesContent": OTHER}),
                chart("HelmChart", {"valuesContent": TEXT, "set": {"server.image": "x/vllm:1"}}),
            ],
            ["x/vllm:1"],
            0,
        ),
        ([chart("HelmChartConfig", {"valuesContent": TEXT}), chart("HelmChart", {"chart": "x"})], [IMAGE], 0),
        (
            [
                chart("HelmChart", {"valuesContent": TEXT}),
                chart("HelmChartConfig", {"valuesSecrets": [{"name": "x"}]}),
            ],
            [IMAGE],
            1,
        ),
        (
            [chart("HelmChart", {"valuesContent": TEXT}), chart("HelmChartConfig", {"valuesContent": TEXT}, "other")],
            [IMAGE, IMAGE],
            1,
        ),
        (
            [
                chart("HelmChart", {"valuesContent": TEXT}, None),
                chart("HelmChartConfig", {"valuesContent": OTHER}, "a"),
                chart("HelmChartConfig", {"valuesContent": OTHER}, "b"),
            ],
            [IMAGE],
            1,
        ),
        (
            [
                chart("HelmChart", {"valuesContent": TEXT}, None),
                chart("HelmChartConfig", {"valuesContent": OTHER}, "a"),
            ],
            ["vllm/vllm-openai:v0.21.0"],
            0,
        ),
        (
            [
                chart("HelmChart", {"valuesContent": TEXT}),
                chart("HelmChartConfig", {"valuesContent": "x: 1"}, name="y"),
            ],
            [IMAGE],
            0,
        ),
    ],
)
def test_the_values_of_a_k3s_chart_are_merged(documents: list[Any], images: list[str], doubts: int) -> None:
    faults: list[RequestFault] = []
    found = read_manifest(documents, "", faults)
    assert faults == []
    assert [each.image for each in found] == images
    assert sum(len(each.doubts) for each in found) == doubts


def test_what_charts_copy_of_a_configuration_is_limited() -> None:
    config = chart("HelmChartConfig", {"valuesContent": OTHER, "x": "x" * 600_000})
    first, second = read_manifest([config, *[chart("HelmChart", {"valuesContent": TEXT})] * 2], "", [])
    assert (first.image, second.image) == ("vllm/vllm-openai:v0.21.0", None)
    assert [fault.message.partition(";")[0] for fault in second.faults] == [
        "variables and files that are copied or expanded exceed 1000000 characters"
    ]


def on_k3s(value: object) -> dict[str, Any]:
    return {"valuesContent": json.dumps(STACK), "set": {f"{MODEL}.env[0].name": "V", f"{MODEL}.env[0].value": value}}


@table(
    ("identity", "spec", "expected", "refused"),
    [
        (ARGO, stack(*version(value="0")), None, "0"),
        (ARGO, stack(*version(value="-12")), None, "-12"),
        (ARGO, stack(*version(value="True")), None, "true"),
        (ARGO, stack(*version(value="0", forceString=True)), "0", None),
        (ARGO, stack(*version(value="true", forceString=True)), "true", None),
        (ARGO, stack(*version(value="007")), "007", None),
        (ARGO, stack(*version(value="1.5")), "1.5", None),
        (ARGO, stack(*version(value="")), "", None),
        (K3S, on_k3s(0), None, "0"),
        (K3S, on_k3s("false"), None, "false"),
        (K3S, on_k3s("0"), "0", None),
    ],
)
def test_a_setting_has_the_type_that_helm_gives_it(
    identity: tuple[str, str], spec: dict[str, Any], expected: str | None, refused: str | None
) -> None:
    faults: list[RequestFault] = []
    found = read_manifest({"apiVersion": identity[0], "kind": identity[1], "spec": spec}, "", faults)
    assert [fault.message for fault in faults] == (
        [] if refused is None else [f"expected a string in quotes, got `{refused}`"]
    )
    assert faults or [each.env["V"] for each in found] == [expected]


@table(
    ("identity", "spec", "path"),
    [
        (FLUX, {"postRenderers": [PATCHED]}, ""),
        (FLUX, {"values": {"x": 1}, "postRenderers": [PATCHED]}, ""),
        (ARGO, {"source": {"kustomize": {"images": ["vllm/vllm-openai:v0.21.0"]}}}, ""),
        (
            ARGO,
            {"source": {"helm": {"parameters": [parameter("image.repository", "vllm/vllm-openai")]}}},
            "spec.source.helm.parameters",
        ),
        (
            ARGO,
            {"source": {"helm": {"parameters": [parameter("image", "vllm/vllm-openai:$TAG")]}}},
            "spec.source.helm.parameters",
        ),
        (K3S, {"set": {"image.repository": "vllm/vllm-openai"}}, "spec.set"),
        (APPLICATIONS, {"template": {"spec": {"source": {}}}, "templatePatch": "image: vllm/vllm-openai"}, ""),
    ],
)
def test_a_field_that_shows_vllm_where_no_values_do_is_a_problem(
    identity: tuple[str, str], spec: dict[str, Any], path: str
) -> None:
    (found,) = read_manifest({"apiVersion": identity[0], "kind": identity[1], "spec": spec}, "", [])
    assert (found.path, found.words) == (path, [])
    assert (
        " shows vLLM, and the values that it changes are not in the manifest; send what is installed" in found.problem
    )


@table(
    ("identity", "spec"),
    [
        (FLUX, {"values": {"x": 1}, "valuesFrom": [{"name": "vllm"}]}),
        (ARGO, {"source": {"helm": {"valueFiles": ["vllm.yaml"]}}}),
        (ARGO, {"source": {"helm": {"parameters": [parameter("url", "http://vllm:8000/v1")]}}}),
        (ARGO, {"source": {"helm": {"parameters": "vllm"}, "kustomize": "x"}}),
        (ARGO, {"source": {"helm": "vllm"}}),
        (K3S, {"set": ["vllm"]}),
    ],
)
def test_a_field_that_only_refers_to_vllm_is_no_engine(identity: tuple[str, str], spec: dict[str, Any]) -> None:
    assert read(identity, spec) == ([], [])


def test_an_overridden_engine_is_not_decided_where_doubts_are_refused(ask: Asking) -> None:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    values = {"server": {"image": IMAGE, "command": ["vllm", "serve", "dense"]}}
    document = {
        "manifest": {
            "apiVersion": FLUX[0],
            "kind": FLUX[1],
            "spec": {"values": values, "postRenderers": [PATCHED]},
        },
        "model_configs": configs,
    }
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    result = ask.policy.evaluate(request, date(2026, 1, 1))
    assert result.intake is not None
    assert [each for each in result.intake.warnings if "postRenderers" in each] == [
        f"`spec.postRenderers` may override what is read here, and is not read; {HELM}"
    ]
    with pytest.raises(RequestInvalid, match=r"`spec\.postRenderers` may override what is read here"):
        require_known_values(result.intake, "")


BUILD = "a kustomization changes objects of other files, and these show vLLM; build it and send what it prints"
KUSTOMIZE = ("kustomize.config.k8s.io/v1beta1", "Kustomization")


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"images": [{"name": "vllm/vllm-openai", "newTag": "v0.24.0"}]}, "images"),
        ({"patches": [{"patch": "- {op: add, path: /spec, value: vllm}"}]}, "patches"),
        ({"helmCharts": [{"name": "x", "valuesInline": {"image": "vllm/vllm-openai"}}]}, "helmCharts"),
        ({"images": [{"name": "nginx"}], "resources": ["../vllm"]}, ""),
        ({"images": "nginx", "patches": {"x": 1}, "spec": "vllm"}, ""),
    ],
)
def test_a_kustomization_that_changes_vllm_has_to_be_built(fields: dict[str, Any], path: str) -> None:
    faults: list[RequestFault] = []
    found = read_manifest({"apiVersion": KUSTOMIZE[0], "kind": KUSTOMIZE[1], **fields}, "", faults)
    assert faults == []
    assert [(each.path, each.problem.partition(";")[0]) for each in found] == (
        [(path, "a kustomization changes objects of other files, and these show vLLM")] if path else []
    )


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"images": [{"name": "vllm/vllm-openai", "newTag": "v0.24.0"}]}, "spec.images"),
        ({"patches": [{"patch": "- {op: add, path: /spec, value: vllm}"}]}, "spec.patches"),
        ({"postBuild": {"substitute": {"IMAGE": "vllm/vllm-openai"}}}, "spec.postBuild.substitute"),
        ({"images": [{"name": "nginx"}], "path": "./vllm"}, ""),
    ],
)
def test_a_kustomization_of_flux_that_changes_vllm_has_to_be_built(fields: dict[str, Any], path: str) -> None:
    faults: list[RequestFault] = []
    version = "kustomize.toolkit.fluxcd.io/v1"
    found = read_manifest({"apiVersion": version, "kind": "Kustomization", "spec": fields}, "", faults)
    assert faults == []
    assert [(each.path, each.problem) for each in found] == (
        [(path, f"{BUILD}: `flux build kustomization NAME --path FOLDER | runner-policy decide -`")] if path else []
    )
