"""Containers of pods whose image the manifest does not show."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

TEMPLATE = "{{ .Values.image.repository }}:{{ .Values.image.tag }}"
SHOWS = "the manifest does not show the image, and its arguments, variables or name show that it may start vLLM; "


def read(document: object) -> tuple[list[Container], list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_manifest(document, "", faults), faults


def pod(**container: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container]}}


def patch(**container: Any) -> dict[str, Any]:
    template = {"spec": {"containers": [container]}}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": template}}


@table(
    "image",
    [
        None,
        TEMPLATE,
        "{{ .Values.image }}",
        "{{.Values.registry}}/{{.Values.image}}:v0.23.0",
        '{{ include "chart/image" . }}',
        '{{ printf "%s/%s" .Values.a .Values.b | quote }}',
        "registry.example.com/{{ .Values.image }}@sha256:{{ .Values.digest }}",
        "$(IMAGE)",
        "${IMAGE}",
    ],
)
@table(
    "members",
    [
        {"args": ["--model=Qwen/Qwen3-8B", "--enable-dbo"]},
        {"args": ["--enable-dbo"]},
        {"args": ["--model", "Qwen/Qwen3-8B"]},
        {"args": ["serve", "--enable_dbo"]},
        {"args": ["$(MODEL)", "--max-model-len=4096"]},
        {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]},
        {"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "valueFrom": {"fieldRef": {}}}]},
    ],
)
def test_a_container_of_an_unknown_image_with_a_sign_of_vllm_is_a_problem(
    image: str | None, members: dict[str, Any]
) -> None:
    container = {"name": "a", "image": image, **members}
    for document in (pod(**container), patch(**container)):
        (engine,), faults = read(document)
        assert (engine.problem.startswith(SHOWS), "`helm template …`" in engine.problem, faults) == (True, True, [])


@table(
    "container",
    [
        {"image": TEMPLATE},
        {"image": TEMPLATE, "args": ["--port", "80", "--config=/etc/x"]},
        {"image": TEMPLATE, "args": ["-g", "daemon off;"]},
        {"args": ["--total-queued-requests-metric", "vllm:num_requests_waiting"]},
        {"image": TEMPLATE, "command": ["nginx"], "env": [{"name": "VLLM_PORT", "value": "8000"}]},
        {"image": TEMPLATE, "env": [{"name": "VLLM_URL", "value": "http://vllm:8000"}]},
        {"image": "{{ .Values.registry }}/nginx:1", "args": ["--enable-dbo"]},
        {"image": "nginx:{{ .Values.tag }}", "args": ["--enable-dbo"]},
        {"resources": {}},
    ],
)
def test_a_container_of_an_unknown_image_without_a_sign_of_vllm_is_ignored(container: dict[str, Any]) -> None:
    assert read(pod(**container)) == ([], [])


def test_a_command_that_cannot_be_read_in_an_unknown_image_is_an_engine_with_a_sign_of_vllm() -> None:
    script = {"image": TEMPLATE, "command": ["bash", "start.sh"]}
    sign = [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]
    assert [len(read(pod(**script, env=env))[0]) for env in ([], sign)] == [0, 1]


def test_a_template_in_the_tag_of_vllms_image_is_decided() -> None:
    (engine,), _ = read(pod(image="vllm/vllm-openai:{{ .Values.tag }}", args=["--enable-dbo"]))
    assert (engine.problem, engine.vllm_version) == ("", None)
