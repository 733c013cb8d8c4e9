"""OpenShift's Template: what the parameters of its objects become."""

from __future__ import annotations

from typing import Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.reading import MAX_COPIED


def template(*parameters: Any, **container: Any) -> dict[str, Any]:
    engine = {"image": "vllm/vllm-openai:v0.23.0", **container}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "vllm"}, "spec": {"containers": [engine]}}
    return {
        "apiVersion": "template.openshift.io/v1",
        "kind": "Template",
        "objects": [pod],
        "parameters": list(parameters),
    }


@table(
    ("parameter", "text", "expected"),
    [
        ({"name": "A", "value": "x"}, "${A}", "x"),
        ({"name": "A", "value": "x"}, "a-${A}-${A}.${B}-$(A)-$A-${a}-$${A}", "a-x-x.${B}-$(A)-$A-${a}-$x"),
        ({"name": "A", "value": "${B}"}, "${A}", "${B}"),
        ({"name": "A", "value": r"\1"}, "${A}", r"\1"),
        ({"name": "A"}, "a${A}b", "ab"),
        ({"name": "A", "value": ""}, "a${A}b", "ab"),
        # only `oc process` knows these
        ({"name": "A", "required": True}, "${A}", "${A}"),
        ({"name": "A", "generate": "expression", "from": "[a-z]"}, "${A}", "${A}"),
        ({"name": "A", "value": "x", "generate": "expression", "required": True}, "${A}", "x"),
        # the whole value as JSON
        ({"name": "A", "value": "x"}, "${{A}}", "x"),
        ({"name": "A", "value": '"x"'}, "${{A}}", "x"),
        ({"name": "A", "value": '{"a": 1}'}, "${{A}}", '{"a": 1}'),
        ({"name": "A", "value": "NaN"}, "${{A}}", "NaN"),
        ({"name": "A", "value": "1e999"}, "${{A}}", "1e999"),
        ({"name": "A", "value": "1" * 5000}, "${{A}}", "1" * 5000),
        ({"name": "A", "value": "x"}, "a${{A}}", "a${{A}}"),
        ({"name": "A", "required": True}, "${{A}}", "${{A}}"),
        # OpenShift refuses these
        ({"name": "A", "value": 1}, "${A}", "${A}"),
        ({"name": 1, "value": "x"}, "${A}", "${A}"),
        ("A", "${A}", "${A}"),
    ],
)
def test_a_parameter_has_its_value_in_the_objects(parameter: Any, text: str, expected: str) -> None:
    [engine] = read_manifest(template(parameter, args=["--model=a/b", text]), "", [])
    assert (engine.faults, engine.words[1:]) == ((), [expected])


@pytest.mark.parametrize(
    ("value", "message"),
    [("true", "expected a string in quotes, got `true`"), ("1", "expected a string in quotes, got `1`"), ("x", None)],
)
def test_a_value_as_json_has_its_type(value: str, message: str | None) -> None:
    document = template({"name": "A", "value": value}, env=[{"name": "B", "value": "${{A}}"}])
    [engine] = read_manifest([document], "", [])
    assert [fault.message for fault in engine.faults] == ([] if message is None else [message])


def test_an_image_without_a_value_is_not_known() -> None:
    document = template({"name": "A", "required": True}, image="${A}", args=["--model=a/b"])
    [engine] = read_manifest(document, "", [])
    assert engine.problem.startswith("the manifest does not show the image")


@table("api_version", ["v1", "template.openshift.io/v1"])
@table("members", [{}, {"objects": None}, {"objects": []}, {"objects": [], "parameters": "a"}])
def test_a_template_without_objects_has_no_engines(api_version: str, members: dict[str, Any]) -> None:
    faults: list[Any] = []
    assert read_manifest({"apiVersion": api_version, "kind": "Template", **members}, "", faults) == []
    assert faults == []


def test_objects_of_a_template_are_read_with_those_beside_it() -> None:
    options = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"B": "${A}"}}
    document = template({"name": "A", "value": "x"}, envFrom=[{"configMapRef": {"name": "c"}}])
    document["objects"].append(options)
    [engine] = read_manifest([document, {"apiVersion": "v1", "kind": "Service"}], "", [])
    assert (engine.path, engine.env) == ("[0].objects[0].spec.containers[0]", {"B": "x"})


def test_the_growth_of_parameters_is_limited() -> None:
    [engine] = read_manifest(template({"name": "A", "value": "x" * 10_000}, args=["${A}" * 10] * 200), "", [])
    assert [fault.message for fault in engine.faults] == [
        f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time"
    ]
