"""Compose services whose image or other fields are those of another service, in this document or elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.reading import MAX_COPIED
from policy.intake.manifests.registry import is_manifest

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
BASE = {"image": IMAGE, "command": "--model Qwen/Qwen3-8B"}
ARGUMENTS = "--model Qwen/Qwen3-8B --enable-dbo"
VARIABLE = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
ELSEWHERE = {"extends": {"file": "common.yaml", "service": "base"}}
CONFIG = "docker compose config"


def read(document: object) -> tuple[list[Container], list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_manifest(document, "", faults), faults


def services(**named: Any) -> dict[str, Container]:
    """The engines of a Compose file by the names of their services."""
    found, faults = read({"services": named})
    assert faults == []
    return {engine.path.removeprefix("services."): engine for engine in found}


def extending(*layers: dict[str, Any]) -> Container:
    """The engine of the last of several services, each of which extends the one before."""
    named = {
        f"s{number}": {**layer, **({"extends": {"service": f"s{number - 1}"}} if number else {})}
        for number, layer in enumerate(layers)
    }
    return services(**named)[f"s{len(layers) - 1}"]


@pytest.mark.parametrize(
    "extends", ["base", {"service": "base"}, {"service": "${NAME:-base}"}, {"service": "base", "file": None}]
)
def test_a_service_has_the_fields_of_the_one_that_it_extends(extends: object) -> None:
    found = services(base=BASE, dbo={"extends": extends, "command": ARGUMENTS, "environment": VARIABLE})
    assert list(found) == ["base", "dbo"]
    engine = found["dbo"]
    assert (engine.image, engine.vllm_version, engine.env, engine.problem) == (IMAGE, "0.23.0", VARIABLE, "")
    assert (engine.words, engine.places[-1]) == (ARGUMENTS.split(), "command")
    assert (engine.notes, engine.has_hidden_variables) == ([], False)


@table(
    ("layers", "words", "env"),
    [
        ([BASE, {}], ["--model", "Qwen/Qwen3-8B"], {}),
        ([BASE, {"command": ["--seed", "1"]}], ["--seed", "1"], {}),
        ([BASE, {}, {}, {"command": "--seed 1"}], ["--seed", "1"], {}),
        ([BASE, {"command": None}], ["vllm", "serve"], {}),
        ([BASE, {"entrypoint": "vllm serve"}], ["vllm", "serve", "--model", "Qwen/Qwen3-8B"], {}),
        ([{**BASE, "image": "own:1"}, {"image": IMAGE}], ["--model", "Qwen/Qwen3-8B"], {}),
        (
            [{**BASE, "environment": {"A": "1", "B": "2"}}, {"environment": ["B=3", "C"]}],
            None,
            {"A": "1", "B": "3", "C": None},
        ),
        ([{**BASE, "environment": ["A=1", "B=2"]}, {"environment": {"B": None}}], None, {"A": "1", "B": None}),
        (
            [{**BASE, "environment": {"A": 1.0}}, {"environment": None}, {"environment": {"B": True}}],
            None,
            {"A": "1", "B": "true"},
        ),
    ],
)
def test_fields_are_merged_as_compose_does(
    layers: list[dict[str, Any]], words: list[str] | None, env: dict[str, str | None]
) -> None:
    engine = extending(*layers)
    assert (engine.words, engine.env) == (words or ["--model", "Qwen/Qwen3-8B"], env)


def test_the_place_of_an_inherited_word_says_so() -> None:
    engine = extending({**BASE, "command": ["--model", "a/b"]}, {})
    assert engine.places == ["extends.command[0]", "extends.command[1]"]


@pytest.mark.parametrize(
    "field",
    [{"build": "."}, {"build": {"context": "."}}, {"volumes": ["./bin:/usr/local/bin"]}, {"tmpfs": "/usr/local/bin"}],
)
def test_builds_and_volumes_of_an_extended_service_count(field: dict[str, Any]) -> None:
    for layers in ([{**BASE, **field}, {"volumes": ["./data:/data"]}], [BASE, field]):
        assert extending(*layers).installation is not None


@pytest.mark.parametrize("field", ["env_file", "post_start"])
def test_what_is_not_read_of_an_extended_service_gets_a_warning(field: str) -> None:
    (note,) = extending({**BASE, field: ["x"]}, {}).notes
    assert note.startswith(f"`{field}`")


@pytest.mark.parametrize("length", [1, 2, 3])
def test_services_that_extend_each_other_are_a_fault(length: int) -> None:
    ring = {f"s{number}": {**BASE, "extends": f"s{(number + 1) % length}"} for number in range(length)}
    engines, faults = read({"services": {**ring, "other": BASE}})
    assert [engine.path for engine in engines] == ["services.other"]
    assert {fault.pointer for fault in faults} == {f"/services/s{number}/extends" for number in range(length)}
    assert all("leads back to `s" in fault.message for fault in faults)


@pytest.mark.parametrize(
    ("extends", "pointer"),
    [([], ""), (1, ""), ({}, "/service"), ({"file": "a"}, "/service"), ({"service": 1}, "/service")],
)
def test_an_invalid_extends_is_a_fault(extends: object, pointer: str) -> None:
    (fault,) = read({"services": {"a": {**BASE, "extends": extends}}})[1]
    assert fault.pointer == f"/services/a/extends{pointer}"


def test_a_fault_of_an_extended_service_is_where_it_was_written() -> None:
    faults = read({"services": {"base": {"image": 1}, "a": {"extends": "base"}}})[1]
    assert [fault.pointer for fault in faults] == ["/services/base/image"]


@pytest.mark.parametrize("is_chain", [False, True])
def test_extended_services_are_not_copied_without_end(*, is_chain: bool) -> None:
    base = {**BASE, "environment": {f"K{number}": "x" for number in range(1000)}}
    named = {f"s{n}": {"extends": f"s{n - 1}" if is_chain and n else "base"} for n in range(2000)}
    engines, faults = read({"services": {"base": base, **named}})
    assert sum(len(engine.env) for engine in engines) <= MAX_COPIED
    assert [fault.message for fault in faults] == [
        f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time"
    ]


@table(
    "service",
    [
        ELSEWHERE,
        {"extends": "missing"},
        {"extends": {"service": "missing"}},
        {**ELSEWHERE, "command": ARGUMENTS},
        {**ELSEWHERE, "command": "worker"},
        {**ELSEWHERE, "environment": {"A": "1"}},
        {**ELSEWHERE, "build": "."},
        {**ELSEWHERE, "entrypoint": "./start.sh"},
        {**ELSEWHERE, "image": "${IMAGE}"},
        {**ELSEWHERE, "image": "own/my-vllm:1"},
        {**ELSEWHERE, "image": IMAGE},
        {**ELSEWHERE, "image": IMAGE, "environment": VARIABLE},
        {"command": ARGUMENTS},
        {"command": ["--model", "Qwen/Qwen3-8B"]},
        {"command": "--model=/models/qwen"},
        {"command": "--kv_transfer_config.kv_connector NixlConnector"},
        {"command": "Qwen/Qwen3-8B --no-enable-dbo"},
        {"command": "--backend vllm"},
        {"environment": VARIABLE},
        {"environment": ["VLLM_USE_V2_MODEL_RUNNER"]},
        {"image": "${IMAGE}", "command": ARGUMENTS},
        {"image": "${REGISTRY}/${IMAGE:?}", "environment": VARIABLE},
        {"build": ".", "command": ARGUMENTS},
        {"build": ".", "environment": VARIABLE},
        {"build": ".", "image": "own:1", "command": ARGUMENTS},
        {"build": {"dockerfile_inline": f"FROM {IMAGE}"}},
    ],
)
def test_a_service_that_may_start_vllm_is_a_problem(service: dict[str, Any]) -> None:
    document = {"services": {"db": {"image": "postgres:17"}, "a": service}}
    for whole in (document, [{"services": {"one": BASE}}, document]):
        engines, faults = read(whole)
        assert (engines[-1].path.endswith("services.a"), faults) == (True, [])
        problem = engines[-1].problem
        assert (CONFIG in problem) or ("build" in service and "`entrypoint: [vllm, serve]`" in problem)


@table(
    "service",
    [
        {"build": "."},
        {"build": ".", "environment": {"POSTGRES_PASSWORD": "x"}},
        {"build": ".", "image": "own/db:1", "command": ["postgres", "-c", "max_connections=200"]},
        {"build": ".", "command": "--config /etc/app.yaml --host 0.0.0.0 --port 80 --model x"},
        {"build": ".", "command": "--url http://vllm:8000/v1", "environment": {"VLLM_URL": "http://vllm:8000"}},
        {"build": ".", "entrypoint": ["nginx"], "environment": VARIABLE},
        {"build": ".", "command": "python3 -m http.server", "environment": VARIABLE},
        {"environment": {"POSTGRES_PASSWORD": "x"}},
        {"ports": ["80:80"]},
        {"image": "postgres:17", "environment": VARIABLE},
        {**ELSEWHERE, "image": "postgres:17"},
        {**ELSEWHERE, "entrypoint": ["nginx", "-g", "daemon off;"]},
        {"extends": "web", "command": "--enable-dbo"},
    ],
)
def test_a_service_without_a_sign_of_vllm_is_ignored(service: dict[str, Any]) -> None:
    assert services(web={"image": "nginx:1.29"}, a=service) == {}


def test_an_override_of_an_engine_is_a_problem_without_any_other_sign() -> None:
    override = {"services": {"one": {"environment": {"A": "1"}}, "db": {"environment": {"A": "1"}}}}
    engines, faults = read([{"services": {"one": BASE, "db": {"image": "postgres:17"}}}, override])
    assert [(engine.path, CONFIG in engine.problem) for engine in engines] == [
        ("[0].services.one", False),
        ("[1].services.one", True),
    ]
    assert faults == []
    assert CONFIG in services(vllm={"ports": ["80:80"]})["vllm"].problem


@table("include", [["common.yaml"], [{"path": ["a.yaml", "b.yaml"]}]])
@table("others", [{}, {"name": "x", "x-a": {}}, {"services": None}, {"services": {"db": {"image": "postgres:17"}}}])
def test_a_file_that_only_includes_others_is_a_problem(include: list[Any], others: dict[str, Any]) -> None:
    document = {"include": include, **others}
    (engine,), faults = read(document)
    assert is_manifest(document)
    assert (engine.path, CONFIG in engine.problem, faults) == ("include", True, [])


@pytest.mark.parametrize("others", [{"stages": ["build"]}, {"facts": {}}, {1: 2}])
def test_another_file_that_includes_others_is_not_of_compose(others: dict[Any, Any]) -> None:
    assert not is_manifest({"include": ["a.yaml"], **others})
    assert not is_manifest({"include": []})
