"""Images of containers that scripts and services start, of which a part is not known."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai"
SERVED = ["vllm", "serve", "a/b"]
PROBLEM = "the manifest does not show the image, and its arguments, variables or name show that it may start vLLM"
NOT_READ = "a command of the script may start a container of vLLM in a way that is not read"


def engines(document: dict[str, Any]) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def partly(image: str) -> list[str]:
    return [f"a part of the name of the image `{image}` is not known, so it may be another one"]


@table("program", ["docker run", "sudo podman run", "nerdctl run -d --gpus all", "ssh h docker run"])
@table(
    ("tag", "shown"),
    [
        (":$1", ":${1}"),
        (":${1:-v0.23.0}", ":${1}"),
        (":$V", ":${V}"),
        (":${V%x}", ":${V}"),
        (":v0.23.$P", ":v0.23.${P}"),
        (":v0.23.0$S", ":v0.23.0${S}"),
        (":$(cat V)", ":${…}"),
        (":`cat 'a b'`", ":${…}"),
        (":$(cat ${V:-v})-$1", ":${…}-${1}"),
        ("@$1", "@${1}"),
        ("$S", "${S}"),
    ],
)
def test_a_container_of_vllm_with_a_tag_that_is_not_known_is_an_engine(program: str, tag: str, shown: str) -> None:
    image = f"{IMAGE}{shown}"
    (found,) = engines({"script": f"{program} {IMAGE}{tag} a/b"})
    assert (found.path, found.image, found.words, found.problem) == ("script[0]", image, SERVED, "")
    assert (found.vllm_version, image in found.unversioned) == (None, True)
    assert partly(image)[0] in found.doubts
    (other,) = engines({"script": f'{program} "{IMAGE}{tag}"'})
    assert (other.image, other.vllm_version) == (image, None)


@pytest.mark.parametrize(
    ("word", "image"),
    [
        ("$R/vllm-openai:v0.23.0", "${R}/vllm-openai:v0.23.0"),
        ("vllm/vllm-openai-$HW:v0.23.0", "vllm/vllm-openai-${HW}:v0.23.0"),
        ("vllm/vllm-{openai,x}:v0.23.0", "vllm/vllm-{openai,x}:v0.23.0"),
    ],
)
def test_a_container_with_a_name_that_is_not_known_has_a_doubt(word: str, image: str) -> None:
    (found,) = engines({"script": f"docker run {word} a/b"})
    assert (found.image, found.words, found.vllm_version, found.doubts) == (image, SERVED, "0.23.0", partly(image))


@table(
    "setting",
    [
        *(
            "V=$1",
            "V=$(cat V)",
            "read V",
            "for V in v0.23.0 v0.24.0; do",
            "case $1 in x) V=v0.23.0;; *) V=v0.24.0;; esac",
        ),
        *("V=${1:-v0.23.0}", "unset V", '[ -n "$1" ] && V=v0.23.0', "while read V; do", ". ./env"),
    ],
)
def test_a_tag_in_a_variable_with_a_value_that_is_not_known(setting: str) -> None:
    end = "\ndone" if setting.endswith("do") else ""
    (found,) = [
        each
        for each in engines({"script": f'{setting}\ndocker run "{IMAGE}:$V" a/b{end}\n'})
        if each.path == "script[0]"
    ]
    assert (found.words, found.vllm_version) == (SERVED, None)
    assert any(f"{IMAGE}:${{V}}" in doubt for doubt in found.doubts)


@pytest.mark.parametrize(
    ("word", "image"),
    [
        (f"docker://{IMAGE}:$1", f"{IMAGE}:${{1}}"),
        ("vllm-openai_$1.sif", "vllm-openai:${1}"),
        ('"$DIR/vllm-openai_v0.23.0.sif"', "vllm-openai:v0.23.0"),
        ("$(pwd)/vllm-openai.sif", "vllm-openai"),
    ],
)
def test_an_image_of_apptainer_that_is_not_known(word: str, image: str) -> None:
    (found,) = engines({"script": f"apptainer run --nv {word} a/b"})
    assert (found.image, found.words, found.doubts) == (image, SERVED, partly(image))
    (started,) = engines({"script": f"singularity exec {word} vllm serve a/b"})
    assert (started.image, started.words) == (image, SERVED)


@table("program", ["docker run", "podman run --rm", "apptainer run", "singularity exec"])
@table("word", ["$1", '"$1"', "$IMG", "$(cat image)", "$X:$1", '"${IMG}"'])
def test_an_image_of_which_nothing_is_known_may_have_a_command_of_vllm(program: str, word: str) -> None:
    (found,) = engines({"script": f"{program} {word} vllm serve a/b"})
    assert (found.words, found.vllm_version, found.problem) == (SERVED, None, "")
    assert found.unversioned.startswith("the tag of the image `${")


@table(
    "script",
    [
        *("docker run $1 --model a/b", "docker run --gpus all $IMG a/b", "apptainer run --nv $SIF Qwen/Qwen3-8B"),
        *(f"IMG={IMAGE}:$1\ndocker run $IMG a/b", f"IMG={IMAGE}:$(cat V)\ndocker run -d $IMG"),
        f"IMG={IMAGE}; IMG=$IMG:$1; docker run $IMG a/b",
        f"R={IMAGE}${{X}}\nIMG=$R:$1\ndocker run $IMG a/b",
        f"for I in {IMAGE}:v0.23.0 {IMAGE}:v0.24.0; do docker run $I a/b; done",
        *(f"# {IMAGE}:v0.23.0\ndocker run $1 a/b", "docker run --name vllm $IMG a/b", 'docker run vllm/$1 "$@"'),
        *("# starts vLLM\ndocker run $OPTIONS $IMG a/b", "X=redis:$1 # vllm\ndocker run --gpus all $X --port 1"),
        *("# vllm\nIMG=$1\ndocker run $IMG:$1 a/b", '# vllm\ndocker run "$@"'),
        "A=$1; IMG=vllm:$A; podman run $IMG$A",
    ],
)
def test_an_image_of_which_nothing_is_known_is_a_problem_if_something_shows_vllm(script: str) -> None:
    (found,) = engines({"script": script})
    assert (found.path, found.problem.partition(";")[0]) == ("script[0]", PROBLEM)


@table(
    "script",
    [
        *(
            "docker run $1 a/b",
            "docker run redis:$1",
            "docker run $IMG python train.py",
            "apptainer exec $SIF train.py",
        ),
        *("# beside vllm\nREDIS=redis:$1\ndocker run $REDIS --port 1", "# vllm\ndocker run $1 bash -c ls"),
        *("docker $1 vllm", "docker $1 redis:7 a/b", "docker run x/$1 a/b", "docker pull vllm/vllm-openai:$1"),
    ],
)
def test_other_images_that_are_not_known_are_no_engines(script: str) -> None:
    assert engines({"script": script}) == []


@table(
    "script",
    [
        *(
            f"docker $COMMAND {IMAGE}:v0.23.0 a/b",
            f"docker $(cat c) --gpus all {IMAGE}:$1",
            f"podman --log-level=1 $1 {IMAGE}",
        ),
        *("apptainer $1 vllm-openai_v0.23.0.sif a/b", f"singularity $1 docker://{IMAGE} a/b", f"nerdctl $A {IMAGE}"),
    ],
)
def test_a_container_program_with_a_command_that_is_not_known_is_a_problem(script: str) -> None:
    (found,) = engines({"script": script})
    assert (found.path, found.problem.partition(";")[0]) == ("script", NOT_READ)


@pytest.mark.parametrize(
    ("command", "image", "doubts"),
    [
        (f"docker run $A $B {IMAGE}:v0.23.0 a/b", f"{IMAGE}:v0.23.0", 2),
        (f"docker run {IMAGE}:$V vllm/x:1", f"{IMAGE}:${{V}}", 1),
        ("apptainer run $A $B vllm-openai.sif a/b", "vllm-openai", 2),
        (f"docker run $IMG{' $A' * 2000} {IMAGE}:v0.23.0 a/b", f"{IMAGE}:v0.23.0", 2001),
    ],
)
def test_words_before_a_known_image_may_be_options(command: str, image: str, doubts: int) -> None:
    (found,) = engines({"script": command})
    assert (found.image, len(found.doubts)) == (image, doubts)


@pytest.mark.parametrize("path", ["/usr/bin/vllm", "./vllm/x"])
def test_a_path_after_an_image_that_is_not_known_is_no_image(path: str) -> None:
    found = engines({"script": f"docker run --gpus all $IMG {path} serve a/b"})
    assert [each.image for each in found] == ["${IMG}"]


@table(
    ("unit", "image", "problem"),
    [
        (f"[Service]\nExecStart=/usr/bin/docker run {IMAGE}:%i a/b", f"{IMAGE}:%i", ""),
        (f"[Service]\nEnvironmentFile=/x\nExecStart=/usr/bin/docker run {IMAGE}:${{TAG}} a/b", f"{IMAGE}:${{TAG}}", ""),
        ("[Service]\nEnvironmentFile=/vllm.env\nExecStart=/usr/bin/docker run ${I} a/b", "${I}", PROBLEM),
        (f"[Container]\nImage={IMAGE}:%i\nExec=a/b", f"{IMAGE}:%i", ""),
        ("[Unit]\nDescription=vLLM\n[Container]\nImage=%i\nExec=a/b", "%i", PROBLEM),
        ("[Container]\nContainerName=vllm\nImage=%i\nExec=a/b", "%i", PROBLEM),
    ],
)
def test_an_image_of_a_unit_that_is_not_known(unit: str, image: str, problem: str) -> None:
    (found,) = engines({"unit": unit})
    assert (found.image, found.vllm_version, found.problem.partition(";")[0]) == (image, None, problem)


@pytest.mark.parametrize("image", ["vllm/${KIND}", "${VLLM_IMAGE}", "${R}/vllm-${X}/y-${Z}"])
def test_an_image_of_compose_that_is_not_known_and_names_vllm_is_a_problem(image: str) -> None:
    (found,) = engines({"services": {"a": {"image": image, "command": ["a/b"], "gpus": "all"}}})
    assert found.problem.partition(";")[0] in {PROBLEM, ""}
    assert found.vllm_version is None


def test_the_image_s_unknown_word_is_no_text_of_its_container() -> None:
    (found,) = engines({"script": f"docker run {IMAGE}:$1 a/b"})
    assert type(found.image) is not Unknown
