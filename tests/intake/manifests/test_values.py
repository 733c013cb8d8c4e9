"""Values of Helm charts: known charts, whole command lines in those of any other chart, and what has to be rendered."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.request.request import FIELDS, is_bare_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
PARTS = {"repository": "vllm/vllm-openai", "tag": "v0.23.0"}
SERVE = ["vllm", "serve", "a/b"]
NOTE = "these are values of a chart, whose templates may add to this command; `helm template …` shows all of it"
RENDER = (
    "may start vLLM; these are values of a chart, whose templates decide with which arguments it starts; render it and "
    "send what it prints: `helm template … -f FILE | runner-policy decide -`"
)
ON_CPU = "OPEA's chart runs vLLM's build for the CPU, as `accelDevice` is empty"
NO_MODEL = (
    "these values of OPEA's chart have no `LLM_MODEL_ID`, so that other values decide the model; send the rendered "
    "manifest: `helm template … -f FILE | runner-policy decide -`"
)


def read(document: object) -> list[Container]:
    faults: list[RequestFault] = []
    containers = read_manifest(document, "/manifest", faults)
    assert faults == []
    return containers


def app(container: dict[str, Any], **controller: Any) -> dict[str, Any]:
    return {"controllers": {"main": {"containers": {"vllm": {"image": PARTS, **container}}, **controller}}}


def opea(**values: Any) -> dict[str, Any]:
    return {"vllm": {"LLM_MODEL_ID": "a/b", **values}}


@table(
    ("document", "path", "image", "words"),
    [
        ({"server": {"image": IMAGE, "command": SERVE}}, "server", IMAGE, SERVE),
        ({"image": PARTS, "command": ["vllm", "serve"], "args": ["a/b", "-tp", "2"]}, "", IMAGE, [*SERVE, "-tp", "2"]),
        ({"image": "own", "tag": "1", "command": SERVE}, "", "own:1", SERVE),
        ({"image": {**PARTS, "registry": "x.io"}, "command": SERVE}, "", f"x.io/{IMAGE}", SERVE),
        ({"image": {**PARTS, "digest": "sha256:0"}, "command": SERVE}, "", f"{IMAGE}@sha256:0", SERVE),
        ({"models": [{"repository": "own", "command": SERVE}]}, "models[0]", "own", SERVE),
        ({"command": ["vllm", "serve", "--model", "a/b"]}, "", None, ["vllm", "serve", "--model", "a/b"]),
        ({"image": PARTS, "command": "vllm serve a/b"}, "", IMAGE, ["sh", "-c", "vllm serve a/b"]),
        ({"image": PARTS, "command": SERVE, "extraArgs": [], "resources": {}}, "", IMAGE, SERVE),
    ],
)
def test_a_whole_command_line_is_decided(
    document: dict[str, Any], path: str, image: str | None, words: list[str]
) -> None:
    (container,) = read(document)
    assert (container.path, container.image, container.words) == (path, image, words)
    assert (container.notes, container.problem) == ([NOTE], "")


@table(
    ("document", "path", "image"),
    [
        ({"image": PARTS}, "image", IMAGE),
        ({"image": IMAGE, "model": "a/b"}, "", IMAGE),
        ({"image": {"name": "vllm/vllm-openai", "tag": "v0.23.0"}}, "image", IMAGE),
        ({"images": {"server": PARTS}}, "images.server", IMAGE),
        ({"a": [{"b": {"image": {"repository": "own/vllm"}}}]}, "a[0].b.image", "own/vllm"),
        ({"image": PARTS, "args": ["a/b", "--enable-dbo"]}, "image", IMAGE),
        ({"image": PARTS, "command": ["vllm", "serve"], "model": "a/b"}, "image", IMAGE),
        ({"image": PARTS, "command": SERVE, "extraArgs": ["--enable-dbo"]}, "image", IMAGE),
        ({"image": PARTS, "command": SERVE, "vllmConfig": {"dtype": "auto"}}, "image", IMAGE),
        ({"image": PARTS, "command": ["vllm", "serve", "{{ .Values.model }}"]}, "image", IMAGE),
        ({"image": PARTS, "command": SERVE, "env": {"A": "{{ .Values.a }}"}}, "image", IMAGE),
        ({"image": PARTS, "command": SERVE, "env": [{"name": "A", "value": 1}]}, "image", IMAGE),
        ({"image": PARTS, "command": SERVE, "args": "--enable-dbo"}, "image", IMAGE),
        ({"image": PARTS, "command": ["/start.sh"]}, "image", IMAGE),
        ({"image": "own:1", "args": ["vllm", "serve", "a/b"]}, "", "own:1"),
    ],
)
def test_what_the_templates_decide_is_a_problem(document: dict[str, Any], path: str, image: str) -> None:
    (container,) = read(document)
    assert (container.path, container.problem) == (path, f"the image `{image}` {RENDER}")


def test_a_command_without_an_image_may_need_rendering_too() -> None:
    (container,) = read({"server": {"command": ["vllm", "serve"]}})
    assert (container.path, container.problem) == ("server", f"this command {RENDER}")


@pytest.mark.parametrize(
    "document",
    [
        {"vllm": {"enabled": False, "image": PARTS}},
        {"vllm": {"enabled": False, "server": {"image": PARTS}}},
        {"vllm": {"disabled": True, "image": PARTS}},
        {"vllm": {"image": PARTS, "command": ["sleep", "infinity"]}},
        {"probe": {"command": ["curl", "http://vllm:8000/health"]}},
    ],
)
def test_what_is_switched_off_or_another_program_is_passed_over(document: dict[str, Any]) -> None:
    assert (is_bare_manifest(document, shipped_images()), read(document)) == (True, [])


@pytest.mark.parametrize(
    ("env", "variables", "is_hidden"),
    [
        ({"env": [{"name": "A", "value": "1"}]}, {"A": "1"}, False),
        ({"env": {"A": 1, "B": True, "C": {"secretKeyRef": {}}}}, {"A": "1", "B": "true", "C": None}, False),
        ({"extraEnv": [{"name": "A", "value": "1"}]}, {}, True),
        ({"envFrom": []}, {}, False),
    ],
)
def test_variables_of_other_fields_are_not_known(
    env: dict[str, Any],
    variables: dict[str, str | None],
    is_hidden: bool,  # noqa: FBT001
) -> None:
    (container,) = read({"image": IMAGE, "command": SERVE, **env})
    assert (container.env, container.has_hidden_variables) == (variables, is_hidden)


@table(
    ("document", "words"),
    [
        (app({"command": SERVE, "args": ["-tp", "2"]}), [*SERVE, "-tp", "2"]),
        (app({"args": "a/b"}), ["vllm", "serve", "a/b"]),
        (app({"args": ["a/b"]}), ["vllm", "serve", "a/b"]),
        (app({}), ["vllm", "serve"]),
        (app({"image": None, "command": SERVE}, defaultContainerOptions={"image": PARTS}), SERVE),
        (app({"command": SERVE}, defaultContainerOptions={"command": ["sleep"]}), SERVE),
        (app({"command": SERVE, "enabled": False}), None),
        (app({"command": SERVE}, enabled=False), None),
        (app({"command": ["sleep", "1"]}), None),
    ],
)
def test_containers_of_an_app_template(document: dict[str, Any], words: list[str] | None) -> None:
    expected = [] if words is None else [(words, "")]
    assert [(each.words, each.problem) for each in read(document)] == expected


def test_variables_and_volumes_of_an_app_template() -> None:
    env = {"A": 1, "B": {"value": "x"}, "C": {"secretKeyRef": {"name": "s", "key": "k"}}, "D": {"valueFrom": {}}}
    persistence = {"models": {"globalMounts": [{"path": "/usr/local/lib"}]}}
    (container,) = read({"chart": {**app({"command": SERVE, "env": env}), "persistence": persistence}})
    assert (container.path, container.env) == (
        "chart.controllers.main.containers.vllm",
        {"A": "1", "B": "x", "C": None, "D": None},
    )
    assert container.installation is not None
    assert container.installation.cause == "the mount at `/usr/local/lib` may make another vLLM run"


def test_merged_options_of_an_app_template_are_a_problem() -> None:
    options = {"env": {"A": "1"}}
    (container,) = read(
        app({"command": SERVE}, defaultContainerOptions=options, defaultContainerOptionsStrategy="merge")
    )
    assert container.problem == (
        "`defaultContainerOptionsStrategy: merge` is not read; send the rendered manifest: "
        "`helm template … -f FILE | runner-policy decide -`"
    )


@table(
    ("document", "path", "words", "platform", "problem"),
    [
        (opea(extraCmdArgs=["--swap-space", 16]), "vllm", ["--swap-space", "16", "--model", "a/b"], "cpu", ""),
        (opea(accelDevice="gaudi"), "vllm", ["--model", "a/b"], "out-of-tree", ""),
        (opea(image={"repository": "opea/vllm"}, accelDevice="rocm"), "vllm.image", ["--model", "a/b"], "rocm", ""),
        (opea(extraCmd={"command": SERVE[:2]}), "vllm", ["vllm", "serve", "--model", "a/b"], "cpu", ""),
        (opea(extraCmd={"command": ["/x.py"]}), "vllm", ["/x.py", "--model", "a/b"], "cpu", ""),
        ({"image": {"repository": "opea/vllm"}}, "image", [], "cpu", NO_MODEL),
    ],
)  # fmt: skip
def test_values_of_opea(
    document: dict[str, Any], path: str, words: list[str], platform: str | None, problem: str
) -> None:
    (container,) = read(document)
    assert (container.path, container.words[-len(words) :] if words else words) == (path, words)
    assert (container.platform, container.problem) == (platform, problem)
    assert (ON_CPU in container.notes) == (platform == "cpu")


def test_values_of_the_chart_of_vllm() -> None:
    env = [{"name": "A", "value": "1"}]
    sidecar = {"name": "other", "image": IMAGE, "args": ["c/d"]}
    values = {"image": {**PARTS, "command": SERVE, "env": env}, "configs": {"B": "2"}, "extraContainers": [sidecar]}
    first, second = read(values)
    assert (first.path, first.words, first.env, first.notes) == ("image", SERVE, {"B": "2", "A": "1"}, [])
    assert (second.path, second.words) == ("extraContainers[0]", ["vllm", "serve", "c/d"])
    (container,) = read({"image": {**PARTS, "command": SERVE}, "secrets": {"a": "b"}})
    assert container.has_hidden_variables


def test_values_that_cannot_be_read_do_not_affect_others() -> None:
    first, second = read({"a": {"LLM_MODEL_ID": [], "image": {"repository": "opea/vllm"}}, "b": {"image": PARTS}})
    assert [fault.pointer for fault in first.faults] == ["/manifest/a/LLM_MODEL_ID"]
    assert (second.path, second.problem) == ("b.image", f"the image `{IMAGE}` {RENDER}")


@table("field", FIELDS)
def test_a_document_with_a_field_of_a_request_is_a_request(field: str) -> None:
    assert not is_bare_manifest({"server": {"image": IMAGE}, field: {}}, shipped_images())


@table(
    ("document", "counts"),
    [
        ({"server": {"image": IMAGE}}, True),
        ({"server": {"image": "ghcr.io/llm-d/llm-d-cuda:v0.9.0"}}, True),
        ([{"server": {"image": IMAGE}}], True),
        ({"server": {"image": "nginx"}}, False),
        ({"deploymnt": {"args": SERVE}}, False),
        ({"model": "vllm"}, False),
        ({}, False),
        ([], False),
        ([{"deployment": {}}], False),
        ("vllm serve a/b", False),
    ],
)
def test_values_without_vllm_are_no_manifest(document: object, counts: bool) -> None:  # noqa: FBT001
    assert is_bare_manifest(document, shipped_images()) == counts
