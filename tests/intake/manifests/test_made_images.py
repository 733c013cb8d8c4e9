"""Images that a script or a service itself builds, tags or loads: such an image is not what its name says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.33.0"
MADE = f"`{{}}` makes the image `{IMAGE}`, which may have another vLLM"
LOADED = f"`{{}}` may make the image `{IMAGE}`, which may have another vLLM"


def causes(document: dict[str, Any]) -> list[str]:
    """Why another vLLM may run."""
    faults: list[RequestFault] = []
    found: list[Container] = read_manifest(document, "", faults)
    assert faults == []
    assert found
    return [each.installation.cause for each in found if each.installation is not None]


BUILD = f"docker build -t {IMAGE} ."
MAKING: dict[str, list[str]] = {
    "docker build": [
        *(BUILD, f"docker build --tag={IMAGE} .", f"docker build . -t{IMAGE}", f"docker build -qt {IMAGE} ."),
        *(f"sudo {BUILD}", f"docker image build -t {IMAGE} .", f"docker --context c build -t {IMAGE} ."),
        *(f"docker buildx build -t a -t {IMAGE} .", f"DOCKER_BUILDKIT=1 docker build -t docker.io/{IMAGE} ."),
        *(f"docker builder build -t {IMAGE} .", f"docker build -t $R/x -t {IMAGE} .", f"if x; then {BUILD}; fi"),
        *("V=0.33.0; docker build -t vllm/vllm-openai:v$V .", f"build() {{ {BUILD}; }}; build", f"ID=$({BUILD})"),
        f"docker build --output type=docker,name={IMAGE} .",
    ],
    "podman build": [f"podman build --tag {IMAGE} .", f"podman build -t localhost/{IMAGE} ."],
    "nerdctl build": [f"nerdctl build -t {IMAGE} ."],
    "buildah bud": [f"buildah bud -t {IMAGE} ."],
    "docker tag": [f"docker tag a/b {IMAGE}", f"docker image tag a/b:1 {IMAGE}"],
    "podman tag": [f"podman tag a/b c/d {IMAGE}", f"podman tag a/b {IMAGE} c/d"],
    "docker commit": [f"docker commit c {IMAGE}", f"docker container commit -m x c {IMAGE}"],
    "docker import": [f"docker import x.tar {IMAGE}"],
}
LOADING: dict[str, list[str]] = {
    "docker load": ["docker load -i x.tar", "docker load < x.tar", "zcat x | docker image load"],
    "podman load": ["podman load"],
    "docker compose": ["docker compose build", "docker compose up -d --build"],
    "docker-compose": ["docker-compose -f x.yaml build vllm", "docker-compose up --build"],
    "docker bake": ["docker buildx bake"],
    "docker build": [
        *("docker build -t $1 .", "docker build -t vllm/vllm-openai:$TAG .", 'docker build -t "$(cat TAG)" .'),
    ],
    "docker tag": ["docker tag a $T"],
}
OTHERS = [
    *("docker build -t a/b .", "docker build .", "docker build -t vllm/vllm-openai:v0.23.0 ."),
    *(f"docker tag {IMAGE} a/b", f"docker pull {IMAGE}", f"docker push {IMAGE}", "docker build -t registry/vllm:$1 ."),
    *(f"echo {BUILD}", f"docker run nginx build -t {IMAGE}", f"docker exec c build -t {IMAGE}", "docker compose up -d"),
    *(f"exit 0; {BUILD}", f"docker commit {IMAGE}", f"docker import {IMAGE}", f"docker build -f {IMAGE} ."),
    *("docker", "docker --help", "docker image", "buildah", f"docker rmi {IMAGE}", "docker compose config --build"),
]


def each(table: dict[str, list[str]]) -> list[tuple[str, str]]:
    return [(program, command) for program, commands in table.items() for command in commands]


@table(("program", "command"), [*each(MAKING), *each(LOADING)])
def test_an_image_that_a_script_makes_may_have_another_vllm(program: str, command: str) -> None:
    expected = (MADE if (program, command) in each(MAKING) else LOADED).format(program)
    for run, image in ((f"docker run {IMAGE} a/b", IMAGE), (f"podman run docker.io/{IMAGE} a/b", f"docker.io/{IMAGE}")):
        assert causes({"script": f"{command}\n{run}\n"}) == [expected.replace(IMAGE, image)]


@table("command", OTHERS)
def test_other_images_are_what_their_names_say(command: str) -> None:
    run = f"docker run {IMAGE} a/b\n"
    script = f"{run}{command}" if command.startswith("exit") else f"{command}\n{run}"
    assert causes({"script": script}) == []


def test_an_image_of_a_digest_is_not_made() -> None:
    image = f"vllm/vllm-openai@sha256:{'0' * 64}"
    script = f"docker build -t vllm/vllm-openai .\ndocker run {image} a/b\n"
    assert causes({"script": script}) == []
    assert causes({"script": script.replace(image, "vllm/vllm-openai:latest")}) != []


@table(
    ("command", "is_made"),
    [
        ("apptainer build vllm-openai_v0.33.0.sif x.def", True),
        ("singularity build --fakeroot x/vllm-openai_v0.33.0.sif docker://a/b", True),
        ("apptainer pull vllm-openai_v0.33.0.sif docker://vllm/vllm-openai:v0.23.0", True),
        (f"apptainer build vllm-openai_v0.33.0.sif docker://{IMAGE}", False),
        (f"apptainer pull docker://{IMAGE}", False),
        (f"apptainer pull --force vllm-openai_v0.33.0.sif docker://{IMAGE}", False),
        ("apptainer build other.sif x.def", False),
    ],
)
def test_a_file_that_a_script_makes_may_have_another_image(command: str, *, is_made: bool) -> None:
    found = causes({"script": f"{command}\napptainer run --nv vllm-openai_v0.33.0.sif --model a/b\n"})
    assert len(found) == is_made


@pytest.mark.parametrize("command", [f"docker build -t {IMAGE} .", f"docker tag a {IMAGE}", "docker load -i x.tar"])
def test_a_service_may_make_its_image(command: str) -> None:
    unit = f"[Service]\nExecStartPre=/usr/bin/{command}\nExecStart=/usr/bin/docker run {IMAGE} a/b\n"
    assert len(causes({"unit": unit})) == 1
    podman = f"[Service]\nExecStartPre=/usr/bin/{command}\n[Container]\nImage={IMAGE}\nExec=a/b\n"
    assert len(causes({"unit": podman})) == 1
    other = unit.replace(command, "docker build -t a/b .")
    assert causes({"unit": other}) == []
