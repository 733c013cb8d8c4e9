"""Templates by which a controller that renders a whole object may give it other fields than it states: a doubt."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.template_fields import References, is_harmless

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.24.0"
QUOTE = "{{ printf `%c` 34 }}"
SERVE = ["vllm", "serve", "dense"]
MAIN = {"name": "main", "image": IMAGE, "command": SERVE}
METADATA = {"name": "s", "annotations": {"plain": "a-b", "quoted": 'a"b', "escaped": "a\\", "long": "a\nb"}}
SPEC = {"model": {"name": "m", "uri": "hf://a/b"}, "replicas": 2, "labels": {"a": 'b"', "Two": "x", "two": 'y"'}}


@table(
    ("text", "expected"),
    [
        ("no template }} { {", True),
        ("{{ .Name }}{{.Namespace}}{{ .ObjectMeta.Name }}{{ .Labels.app }}", True),
        ("{{ .Annotations.plain }}{{ .ObjectMeta.Annotations.plain }}", True),
        ("{{ .Annotations.quoted }}", False),
        ("{{ .Annotations.escaped }}", False),
        ("{{ .Annotations.long }}", False),
        ("{{ .Annotations.missing }}", False),
        ("{{ .Annotations }}", False),
        ("{{ .Labels }}", False),
        ("{{ .GenerateName }}", False),
        ("{{ .Spec.Model.Name }}{{ .Spec.Parallelism.Tensor }}{{ .Spec.Replicas }}{{ .Spec.Model.URI }}", True),
        ("{{ .Spec.Prefill.Parallelism.DataRPCPort }}", True),
        ("{{ .Spec.Model }}", False),
        ("{{ .Spec.Labels.a }}", False),
        ("{{ .Spec.Labels.Two }}", False),
        ("{{ .Spec.Missing }}", False),
        ("{{ .Status.URL }}", False),
        ("{{ . }}", False),
        ("{{ .GlobalConfig.EnableTLS }}{{ .GlobalConfig.InferencePoolNamespacedName }}", True),
        ("{{ .GlobalConfig.Other }}", False),
        ("{{ ChildName .ObjectMeta.Name `-x` }}", True),
        ("{{ ChildName .ObjectMeta.Name .Annotations.quoted }}", False),
        ("{{ kvTransferConfig .Spec.KVCacheOffloading }}{{ shutdownTimeout nil 15 }}", True),
        ("{{ or .Spec.Parallelism.Data 1 }}{{ or (and .Spec.Prefill `x`) `y` }}", False),
        ("{{ or .Spec.Parallelism.Data 1 }}{{ or (and .Name `x`) `y` }}{{ true }}{{ 1 }}", True),
        ("{{ `a-b` }}", True),
        ('{{ `"` }}', False),
        ("{{ `\\` }}", False),
        ("{{ `{{` }}", False),
        ('{{ "a" }}', False),
        ("{{ 34 | printf `%c` }}", False),
        (QUOTE, False),
        ("{{ print .Name }}", False),
        ("{{ html .Name }}", False),
        ("{{ .Name | html }}", False),
        ("{{ nil }}", False),
        ("{{ }}", False),
        ("{{ $x := 1 }}", False),
        ("{{ $x }}", False),
        ("{{ $.Name }}", False),
        ("{{ .Name", False),
        ("{{{ .Name }}}", False),
        ("{{\n.Name }}", False),
        ("{{ or .Name }}{{ or }}", False),
        ("{{ .Name .Name }}", False),
        ("{{ ( .Name }}", False),
        ("{{ .Name ) }}", False),
        ("{{ or or .Name }}", False),
        ("{{ " + "(" * 20 + "1" + ")" * 20 + " }}", False),
        ("{{ 1234567890123456789012 }}", False),
        ("{{/* note */}}{{- /* note */ -}}", True),
        ("{{/* note }}", False),
        ("{{/* a}} */}}", False),
        ("{{ if .GlobalConfig.EnableTLS }}HTTPS{{else}}HTTP{{- end }}", True),
        ("{{- if and .Spec.Prefill .Spec.Prefill.Parallelism -}}a{{ else if not .Spec.X }}b{{ end }}", True),
        ("{{ if eq .Annotations.quoted `x` }}a{{ end }}", True),
        ("{{ if .Spec.Prefill }}", False),
        ("{{ end }}", False),
        ("{{ else }}", False),
        ("{{ if .Name }}a{{ end x }}", False),
        ("{{ if .Name }}a{{ else x }}{{ end }}", False),
        ("{{ if }}a{{ end }}", False),
        ("{{ if $x := 1 }}a{{ end }}", False),
        ("{{ if .Spec.Foo `x` }}a{{ end }}", False),
        ("{{ if printf `x` }}a{{ end }}", False),
        ("{{ if .Name }}{{ .Annotations.quoted }}{{ end }}", False),
        ("{{ range .Spec.Items }}a{{ end }}", False),
        ("{{ with .Name }}{{ . }}{{ end }}", False),
        ("{{ define `x` }}a{{ end }}{{ template `x` }}", False),
        ("{{ block `x` . }}a{{ end }}", False),
    ],
)
def test_only_what_certainly_stays_within_its_text_is_harmless(text: str, *, expected: bool) -> None:
    assert is_harmless(text, References(METADATA, SPEC)) is expected


def llm(*configs: str, metadata: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    references = {"baseRefs": [{"name": name} for name in configs]} if configs else {}
    fields = {"model": {"uri": "hf://a/b", "name": "m"}, "template": {"containers": [MAIN]}, **references, **spec}
    return object_of("serving.kserve.io/v1alpha2", "LLMInferenceService", fields, metadata)


def config(**spec: Any) -> dict[str, Any]:
    return object_of("serving.kserve.io/v1alpha2", "LLMInferenceServiceConfig", spec, {"name": "c"})


def predictor(*containers: dict[str, Any], runtime: str = "kserve-vllmserver", **model: Any) -> dict[str, Any]:
    model = {"modelFormat": {"name": "vLLM"}, "runtime": runtime, "image": IMAGE, **model}
    fields = {"model": model, **({"containers": list(containers)} if containers else {})}
    return object_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": fields})


def custom(**container: Any) -> dict[str, Any]:
    fields = {"containers": [{**MAIN, "name": "kserve-container", **container}]}
    return object_of("serving.kserve.io/v1beta1", "InferenceService", {"predictor": fields})


def runtime(kind: str, *containers: dict[str, Any], **spec: Any) -> dict[str, Any]:
    version = "serving.kserve.io/v1alpha1"
    return object_of(version, kind, {"containers": list(containers), **spec}, {"name": "r"})


def ome(*containers: dict[str, Any], runner: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    engine = {"runner": {**MAIN, **(runner or {})}, "containers": list(containers), **spec}
    return object_of("ome.io/v1beta1", "InferenceService", {"model": {"name": "q"}, "engine": engine})


def object_of(version: str, kind: str, spec: dict[str, Any], metadata: dict[str, Any] | None = None) -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": metadata or METADATA, "spec": spec}


def doubt(path: str) -> str:
    return f"and `{path}` has `{{{{ … }}}}` that may add, replace or leave out other fields of it"


def engines(*documents: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(list(documents) if len(documents) > 1 else documents[0], "", faults)
    assert faults == []
    assert found
    return found


ENV = [{"name": "A", "value": QUOTE}]
PORTS = [{"containerPort": 80, "name": QUOTE}]
KSERVE_CONTAINER = {**MAIN, "name": "kserve-container"}
TRANSFORMER = {**MAIN, "name": "transformer-container", "ports": PORTS}


@table(
    ("document", "path"),
    [
        (llm(), ""),
        (llm(template={"containers": [{**MAIN, "env": ENV}]}), "spec.template.containers[0].env[0].value"),
        (llm(template={"containers": [{**MAIN, "ports": PORTS}]}), "spec.template.containers[0].ports[0].name"),
        (llm(template={"containers": [MAIN], "nodeSelector": {"a": QUOTE}}), "spec.template.nodeSelector.a"),
        (llm(labels={QUOTE: "a"}), f"spec.labels.{QUOTE}"),
        (llm(annotations={"a": QUOTE}), "spec.annotations.a"),
        (llm(annotations={"a": "{{ if .Spec.Prefill }}", "b": "{{ end }}"}), "spec.annotations.b"),
        (llm(annotations={"a": "{{ .ObjectMeta.Annotations.plain }}"}), ""),
        (llm(annotations={"a": "{{ .ObjectMeta.Annotations.quoted }}"}), "spec.annotations.a"),
        (llm(router={"scheduler": {"annotations": {"a": QUOTE}}}), "spec.router.scheduler.annotations.a"),
        (llm(metadata={"name": "s", "annotations": {"a": QUOTE}}), "metadata.annotations.a"),
        (llm() | {"status": {"a": QUOTE}}, ""),
        (config(template={"containers": [{**MAIN, "ports": PORTS}]}), "spec.template.containers[0].ports[0].name"),
        (config(template={"containers": [MAIN]}, labels={"a": "{{ .Spec.Model.Name }}"}), ""),
        (config(template={"containers": [MAIN]}, labels={"a": "{{ .Annotations.plain }}"}), "spec.labels.a"),
        (config(template={"containers": [MAIN]}) | {"metadata": {"name": "c", "annotations": {"a": QUOTE}}}, ""),
        (predictor(), ""),
        (predictor(ports=PORTS), "spec.predictor.model.ports[0].name"),
        (predictor(workingDir="/x{{.Annotations.quoted}}"), "spec.predictor.model.workingDir"),
        (predictor(workingDir="/x{{.Annotations.plain}}{{.Name}}"), ""),
        (predictor(args=[f"--served-model-name={QUOTE}"]), "spec.predictor.model.args[0]"),
        (predictor(storageUri=f"hf://a/{QUOTE}"), ""),
        (predictor(TRANSFORMER), "spec.predictor.containers[0].ports[0].name"),
        (predictor({**MAIN, "name": "other", "ports": PORTS}), ""),
        (custom(ports=PORTS), ""),
        (runtime("ServingRuntime", {**KSERVE_CONTAINER, "ports": PORTS}), "spec.containers[0].ports[0].name"),
        (runtime("ClusterServingRuntime", {**KSERVE_CONTAINER, "env": ENV}), "spec.containers[0].env[0].value"),
        (runtime("ServingRuntime", {**KSERVE_CONTAINER, "workingDir": "/{{.Labels.a}}"}), ""),
        (runtime("ServingRuntime", {**MAIN, "ports": PORTS}), ""),
        (runtime("ServingRuntime", KSERVE_CONTAINER, annotations={"a": QUOTE}), ""),
        (ome(), ""),
        (ome(runner={"ports": PORTS}), "spec.engine.runner.ports[0].name"),
        (ome(runner={"workingDir": "/{{ .Name }}"}), ""),
        (ome({"name": "main", "ports": PORTS}), "spec.engine.containers[0].ports[0].name"),
        (ome({"name": "other", "ports": PORTS}), ""),
        (ome(nodeSelector={"a": QUOTE}), ""),
    ],
)
def test_a_template_that_may_change_fields_of_a_rendered_object_is_a_doubt(document: dict[str, Any], path: str) -> None:
    for found in engines(document):
        for messages in (found.doubts, found.notes):
            about = [message for message in messages if "one Go template" in message]
            assert [doubt(path) in message for message in about] == ([True] if path else [])


def test_a_template_of_what_is_merged_into_an_object_is_a_doubt() -> None:
    shared = config(template={"containers": [{"name": "main", "ports": PORTS}]})
    used = runtime("ServingRuntime", {**KSERVE_CONTAINER, "workingDir": "/{{ .Annotations.quoted }}"})
    annotated = runtime("ServingRuntime", {**KSERVE_CONTAINER, "workingDir": "/{{ .Annotations.plain }}"})
    beside = runtime("ServingRuntime", KSERVE_CONTAINER, {"name": "transformer-container", "ports": PORTS})
    for documents, path in (
        ((shared, llm("c")), "[0].spec.template.containers[0].ports[0].name"),
        ((used, predictor(runtime="r")), "[0].spec.containers[0].workingDir"),
        ((annotated, predictor(runtime="r")), ""),
        ((beside, predictor(runtime="r")), "[0].spec.containers[1].ports[0].name"),
    ):
        found = engines(*documents)[-1]
        assert any(doubt(path) in message for message in found.doubts) is bool(path), path


@table(
    ("document", "path"),
    [
        (llm(model={"uri": "hf://a/b", "name": 'm"x'}), "spec.model.name"),
        (llm(model={"uri": "hf://a/b", "name": "m x"}), ""),
        (
            llm(router={"scheduler": {"pool": {"ref": {"name": "x\\"}}}}),
            "spec.router.scheduler.pool.ref.name",
        ),
        (llm(kvCacheOffloading={"evictionPolicy": 'l"'}), "spec.kvCacheOffloading.evictionPolicy"),
        (
            llm(prefill={"kvCacheOffloading": {"evictionPolicy": "l\n"}}),
            "spec.prefill.kvCacheOffloading.evictionPolicy",
        ),
    ],
)
def test_a_field_that_kserves_own_templates_write_is_a_doubt_if_json_escapes_it(
    document: dict[str, Any], path: str
) -> None:
    found = engines(document)[0]
    assert any(f"KServe writes `{path}` as it is" in message for message in found.doubts) is bool(path)


def test_a_name_of_a_configuration_is_written_too() -> None:
    found = engines(config(model={"uri": "hf://a/b", "name": 'm"'}), llm("c"))[-1]
    assert any("KServe writes `[0].spec.model.name` as it is" in message for message in found.doubts)


def test_the_annotation_of_kubectl_is_read_as_one_text() -> None:
    written = llm(annotations={"a": "{{ if .Spec.Prefill }}{{ .Name }}{{ end }}"})
    text = json.dumps(written)
    annotated = written | {"metadata": {"name": "s", "annotations": {"kubectl.kubernetes.io/last-applied": text}}}
    assert not any("one Go template" in message for message in engines(annotated)[0].doubts)


@pytest.mark.parametrize("text", ["{{ if .GlobalConfig.EnableTLS }}--enable-dbo{{ end }}", "{{ if true }}"])
def test_a_template_of_the_command_that_is_not_known_is_a_doubt(text: str) -> None:
    found = engines(llm(template={"containers": [{**MAIN, "command": [*SERVE, text]}]}))[0]
    assert any("template is not" in message for message in found.doubts)
