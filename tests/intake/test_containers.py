"""Each container of a manifest as its own request: its release, its path, its name."""

from __future__ import annotations

from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from msgspec import UNSET
from msgspec.structs import replace
from shipped_images import read_manifest
from tables import table

from policy.errors import RemedyKind, RequestFault, RequestInvalid
from policy.request.manifest import name_of, pointer_of, requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.intake.deployment import Environment

TODAY = date(2026, 1, 1)
ARGS = ["--model", "dense"]


def container(image: str | None, name: str = "vllm", args: list[str] | None = None) -> dict[str, Any]:
    return {
        "name": name,
        "args": ARGS if args is None else args,
        "command": ["vllm", "serve"],
        **({"image": image} if image else {}),
    }


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p", "namespace": "n"},
        "spec": {"containers": list(containers)},
    }


def read(ask: Asking, document: Any, pointer: str = "", **members: Any) -> list[tuple[str, Request | RequestInvalid]]:
    configs = ask.request(ARGS)["deployment"]["model_configs"]
    asked = read_request_or_manifest(
        {"manifest": document, "model_configs": configs, **members}, ask.policy.releases, pointer
    )
    assert isinstance(asked, Manifest)
    return requests_of(asked, ask.policy.releases)


TELL = "`kubectl exec … -- vllm --version` shows it"
BY_DEFAULT = f"decided for 0.23.0, the default release; state `vllm_version`; {TELL}"
NO_VERSION = f"no image shows vLLM's version; {BY_DEFAULT}"
RELEASES: list[tuple[str | None, dict[str, Any], tuple[str, str, bool], list[str]]] = [
    ("vllm/vllm-openai:v0.33.0", {}, ("0.33.0", "0.33.0", True), []),
    ("registry.example/mirror/vllm/vllm-openai:v0.24.1", {}, ("0.24.1", "0.24.0", False), []),
    ("vllm/vllm-openai:v0.33.0", {"vllm_version": "0.33.0"}, ("0.33.0", "0.33.0", True), []),
    (
        "vllm/vllm-openai:v0.33.0",
        {"vllm_version": "0.24.0"},
        ("0.33.0", "0.33.0", True),
        ["decided for vLLM 0.33.0, which the image has; the request states 0.24.0"],
    ),
    (None, {"vllm_version": "0.24.0"}, ("0.24.0", "0.24.0", True), []),
    (None, {}, ("0.23.0", "0.23.0", True), [NO_VERSION]),
    (
        "vllm/vllm-openai:latest",
        {},
        ("0.23.0", "0.23.0", True),
        [f"the tag of the image `vllm/vllm-openai:latest` names no release of vLLM; {BY_DEFAULT}"],
    ),
    ("vllm/vllm-openai:v0.33.0-cu129", {}, ("0.33.0", "0.33.0", True), []),
    ("vllm/vllm-openai:v0.33.0-mypatch", {}, ("0.33.0+mypatch", "0.33.0", False), []),
    ("vllm/vllm-openai:v0.33.0.dev5", {}, ("0.33.0.dev5", "0.33.0", False), []),
    ("vllm/vllm-openai:v0.99.0", {"beyond_verified": "nearest"}, ("0.99.0", "0.33.0", False), []),
]


@table(("image", "members", "expected", "notes"), RELEASES)
def test_a_container_is_decided_for_its_images_release_else_the_requests_else_the_default(
    ask: Asking, image: str | None, members: dict[str, Any], expected: tuple[str, str, bool], notes: list[str]
) -> None:
    ((path, request),) = read(ask, pod(container(image)), **members)
    assert isinstance(request, Request)
    assert request.deployment is not None
    found = (request.vllm_version, request.release.decided_as, request.release.verified)
    assert (path, found, request.deployment.notes) == ("spec.containers[0]", expected, notes)


@table(
    ("script", "expected"),
    [
        ("vllm serve dense", ("0.24.0", True, False)),
        ("pip install vllm==0.33.0 && vllm serve dense", ("0.33.0", True, False)),
        ("uvx vllm@0.33.0 serve dense", ("0.33.0", True, False)),
        ("pip install -e . && vllm serve dense", ("0.24.0", False, True)),
        ("pip install -Ur a.txt && vllm serve dense", ("0.24.0", False, True)),
        ("pip install -qr a.txt && vllm serve dense", ("0.24.0", False, True)),
        ("pip install -Uq torch && vllm serve dense", ("0.24.0", True, False)),
        ("poetry update && vllm serve dense", ("0.24.0", False, True)),
        ("conda update vllm && vllm serve dense", ("0.24.0", False, True)),
        ("xargs pip install < a.txt && vllm serve dense", ("0.24.0", False, True)),
        ("PYTHONPATH=/x vllm serve dense", ("0.24.0", False, True)),
    ],
)
def test_another_vllm_than_the_image_s_decides_or_makes_the_release_unverified(
    ask: Asking, script: str, expected: tuple[str, bool, bool]
) -> None:
    members = {**container("vllm/vllm-openai:v0.24.0"), "command": ["bash", "-c", script], "args": []}
    ((_, request),) = read(ask, pod(members))
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    warned = any("which may not be the one that runs" in warning for warning in decision.warnings)
    assert (decision.vllm_version, decision.release.verified, warned) == expected
    assert not any("was not checked" in warning for warning in decision.warnings)


OTHER = "which may not be the one that runs"
DECIDED = f"decided for vLLM 0.24.0, {OTHER}"
PLATFORMS: list[tuple[str | None, str | None]] = [
    (None, None),
    ("vllm/vllm-openai:v0.33.0", "cuda"),
    ("vllm/vllm-openai:v0.33.0-cu129", "cuda"),
    ("vllm/vllm-openai:v0.33.0-x86_64", "cuda"),
    ("example.com/cpu-only/a/b/vllm-openai:v0.33.0", None),
    ("cpu.example.com/vllm/vllm-openai:v0.33.0", "cuda"),
    ("vllm/vllm-openai-cpus:v0.33.0", None),
    ("vllm/vllm-openai-cpu:v0.33.0", "cpu"),
    ("vllm/vllm-openai-cpu", "cpu"),
    ("vllm/vllm-openai-cpu@sha256:0123", "cpu"),
    ("example.com/mirror/vllm/vllm-openai-rocm:v0.33.0", "rocm"),
    ("vllm/vllm-openai-xpu:v0.33.0", "xpu"),
    ("vllm/vllm-tpu:nightly", "tpu"),
    ("vllm/vllm-openai:v0.33.0-cpu", "cpu"),
    ("vllm/vllm-openai:v0.33.0-ROCM", "rocm"),
    ("vllm/vllm-openai:v0.33.0-rocm710", "rocm"),
    ("vllm/vllm-openai:latest-xpu", "xpu"),
    ("rocm/vllm:latest", "rocm"),
    ("rocm/vllm-dev:main", "rocm"),
    ("example.com/vllm:rocm6.4.1_vllm_0.9.1", "rocm"),
    ("ghcr.io/llm-d/llm-d-cpu:v0.4.0", "cpu"),
    ("quay.io/ascend/vllm-ascend:v0.23.0", "ascend"),
    ("vault.habana.ai/vllm/vllm-gaudi:1", "gaudi"),
    ("example.com/serving-cpu:1", None),
    ("rocm-team/vllm-openai:v0.33.0", None),
    ("tpu.example.com/vllm-openai:v0.33.0", None),
    ("tpu.example.com:5000/vllm:v0.33.0", None),
    ("cpu-images/vllm:v0.33.0", None),
    ("example.com/xpu/our-vllm:v0.33.0", None),
    ("example.com/mirror/rocm/vllm:latest", "rocm"),
    ("public.ecr.aws/team/vllm-cpu:v0.33.0", "cpu"),
    ("intel/vllm:0.17.0-xpu", "xpu"),
    ("opea/vllm-gaudi:1.4", "gaudi"),
    ("rocm-team/vllm-openai-cpu:v0.33.0", "cpu"),
    ("cpu-images/vllm-openai:v0.33.0-rocm710", "rocm"),
    ("public.ecr.aws/neuron/pytorch-inference-vllm-neuronx:0.13.0-neuronx-py312", "neuron"),
    *((f"example.com/{name}:v0.33.0", "neuron") for name in ("vllm-neuronx", "vllm_neuronx", "vllm-inferentia2")),
    *((f"example.com/vllm:v0.33.0-{word}", "neuron") for word in ("neuronx", "trainium", "trainium2", "NEURON")),
    ("example.com/vllm-openai:v0.33.0-npu", "ascend"),
    ("example.com/vllm-tenstorrent:v0.33.0", "tenstorrent"),
    ("example.com/vllm-neuronxs:v0.33.0", None),
]


@table(("image", "platform"), PLATFORMS)
def test_a_container_is_decided_for_the_platform_of_its_image(
    ask: Asking, image: str | None, platform: str | None
) -> None:
    found = environment_of(ask, image)
    assert found[0].platform == (platform or "cuda")
    assert found[0].has_triton is (platform not in {"cpu", "tpu", "gaudi", "neuron", "tenstorrent"})
    assert (found[0].origin("platform"), found[0].origin("has_triton")) == (
        "image" if platform else "assumed",
        "assumed",
    )
    assert not any("for the platform" in note for note in found[1])


@table(
    ("image", "folder", "platform"),
    [
        ("rocm-team/vllm-openai:v0.33.0", "rocm-team", "rocm"),
        ("example.com/cpu-only/a/b/vllm-openai:v0.33.0", "cpu-only", "cpu"),
        ("example.com:5000/team/xpu/our-vllm:v0.33.0", "xpu", "xpu"),
        ("localhost/tpu/vllm", "tpu", "tpu"),
        ("tpu.example.com/vllm-openai:v0.33.0", "", ""),
        ("cuda/vllm-openai:v0.33.0", "", ""),
        ("rocm/vllm:latest", "", ""),
        ("rocm/vllm-openai:v0.33.0-cpu", "", ""),
    ],
)
def test_a_folder_in_the_name_of_an_image_shows_no_platform_but_gets_a_warning(
    ask: Asking, image: str, folder: str, platform: str
) -> None:
    warning = (
        f"only a folder in the name of the image `{image}` shows a platform: `{folder}` ({platform}); decided for "
        "`cuda`, which is assumed; state the platform"
    )
    assert [note for note in environment_of(ask, image)[1] if "a folder in" in note] == [warning] * bool(folder)
    stated = environment_of(ask, image, environment={"platform": "cuda"})[1]
    assert not any("a folder in" in note for note in stated)


@table(("image", "platform"), PLATFORMS)
@table("stated", ["cuda", "rocm", "cpu"])
def test_the_platform_of_the_request_is_kept_with_a_warning_if_the_image_has_another(
    ask: Asking, image: str | None, platform: str | None, stated: str
) -> None:
    environment, notes = environment_of(ask, image, environment={"platform": stated, "has_triton": True})
    assert (environment.platform, environment.has_triton) == (stated, True)
    assert environment.origin("platform") == "environment.platform"
    expected = f"the image `{image}` is for the platform `{platform}`; decided for `{stated}`, which the request states"
    assert [note for note in notes if "for the platform" in note][:1] == [expected] * (platform not in {None, stated})


def test_the_platform_of_the_image_is_a_fact_and_is_not_assumed(ask: Asking) -> None:
    for image, origin in (("vllm/vllm-openai-tpu:v0.33.0", "image"), ("team/vllm-openai:v0.33.0", "assumed")):
        ((_, request),) = read(ask, pod(container(image)))
        assert isinstance(request, Request)
        facts = ask.policy.decide(request, TODAY).facts
        assert facts is not UNSET
        assert facts["platform.has_triton"].value is (origin == "assumed")
        assert facts["platform.is_rocm"].from_ == origin


def environment_of(ask: Asking, image: str | None, **members: Any) -> tuple[Environment, list[str]]:
    """The environment of a container of an image, and the notes on it."""
    ((_, request),) = read(ask, pod(container(image)), vllm_version="0.33.0", **members)
    assert isinstance(request, Request)
    assert request.deployment is not None
    return request.deployment.environment, request.deployment.notes


BUILT = f"`build` makes its own image, which may have another vLLM; {DECIDED}"
COMPOSE: list[tuple[dict[str, Any], dict[str, Any], list[str]]] = [
    ({}, {}, []),
    ({"build": None, "post_start": []}, {"include": []}, []),
    ({"build": "."}, {}, [BUILT]),
    ({"build": {"context": ".", "dockerfile_inline": "FROM x"}}, {}, [BUILT]),
    (
        {"post_start": [{"command": "/x/start.sh"}]},
        {},
        ["the file `/x/start.sh` is a script that is not read, and `post_start` may run it before the start"],
    ),
    ({}, {"include": ["x.yaml"]}, ["`include` adds services and variables of other files, which are not read here"]),
    (
        {"extends": {"file": "x.yaml", "service": "a"}},
        {},
        ["`extends` adds fields of another service, which is not read here"],
    ),
]


@table(("service", "file", "warnings"), COMPOSE)
def test_an_unread_field_of_compose_gives_a_warning(
    ask: Asking, service: dict[str, Any], file: dict[str, Any], warnings: list[str]
) -> None:
    engine = {"image": "vllm/vllm-openai:v0.24.0", "command": ARGS, **service}
    ((_, request),) = read(ask, {"services": {"a": engine}, **file})
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    assert (decision.release.verified, decision.warnings) == (BUILT not in warnings, warnings)


@table("name", ["PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR", "LD_PRELOAD", "LD_AUDIT"])
@table("value", [{"value": "/x"}, {"value": ""}, {"valueFrom": {"secretKeyRef": {"name": "s"}}}])
def test_variables_may_make_another_vllm_run_in_any_form_of_command(
    ask: Asking, name: str, value: dict[str, Any]
) -> None:
    engine = container("vllm/vllm-openai:v0.24.0") | {"env": [{"name": name, **value}]}
    expected = [] if value == {"value": ""} else [f"the variable `{name}` may make another vLLM run; {DECIDED}"]
    others: list[dict[str, Any]] = [{}, {"command": []}, {"command": ["python3", "-m", "dynamo.vllm"]}]
    for written in others:
        ((_, request),) = read(ask, pod(engine | written))
        assert isinstance(request, Request)
        decision = ask.policy.decide(request, TODAY)
        assert (decision.release.verified, decision.warnings) == (not expected, expected)


def test_variables_of_a_deployment_of_flags_may_make_another_vllm_run(ask: Asking) -> None:
    document = ask.request(ARGS)
    configs = {"dense/m": document["deployment"]["model_configs"]["dense"]}
    for deployment in (
        {"env": {"PYTHONPATH": "/x"}},
        {"args": "PYTHONPATH=/x dense/m", "env": {}, "model_configs": configs},
    ):
        changed = document["deployment"] | deployment
        request = read_request_or_manifest(
            {**document, "deployment": changed, "vllm_version": "0.24.0"}, ask.policy.releases
        )
        assert isinstance(request, Request)
        decision = ask.policy.decide(request, TODAY)
        warning = f"the variable `PYTHONPATH` may make another vLLM run; {DECIDED}"
        assert (decision.release.verified, decision.warnings) == (False, [warning])


MAY = "`pip install` may install another vLLM before the start"
CAUSES: list[tuple[str, str | None, dict[str, Any], list[str]]] = [
    (
        "pip install -e . && vllm serve dense",
        "vllm/vllm-openai:v0.24.0",
        {},
        [f"{MAY}; decided for vLLM 0.24.0, {OTHER}"],
    ),
    (
        "pip install -e . && vllm serve dense",
        "vllm/vllm-openai:v0.24.1",
        {},
        [f"{MAY}; decided for vLLM 0.24.1 (as 0.24.0, the rules that were checked), {OTHER}"],
    ),
    (
        "pip install -e . && vllm serve dense",
        "vllm/vllm-openai:latest",
        {},
        [
            f"{MAY}; decided for vLLM 0.23.0, {OTHER}",
            f"the tag of the image `vllm/vllm-openai:latest` names no release of vLLM; {BY_DEFAULT}",
        ],
    ),
    (
        "pip install vllm==0.33.0 && vllm serve dense",
        "vllm/vllm-openai:v0.24.0",
        {"vllm_version": "0.24.0"},
        [
            "decided for vLLM 0.33.0: `pip install` installs vLLM 0.33.0 before the start; the request states 0.24.0",
        ],
    ),
    ("pip install vllm==0.33.0+cu129 && vllm serve dense", None, {}, []),
    (
        "pip install vllm==0.33.0+mine && vllm serve dense",
        None,
        {},
        ["vLLM 0.33.0+mine was not checked against these rules; decided as 0.33.0"],
    ),
]


@table(("script", "image", "members", "warnings"), CAUSES)
def test_warnings_about_another_vllm_name_what_installs_it_once(
    ask: Asking, script: str, image: str | None, members: dict[str, Any], warnings: list[str]
) -> None:
    engine = {**container(image), "command": ["bash", "-c", script], "args": []}
    ((_, request),) = read(ask, pod(engine), **members)
    assert isinstance(request, Request)
    assert ask.policy.decide(request, TODAY).warnings == warnings


@pytest.mark.parametrize(
    ("script", "override", "warnings"),
    [
        (
            "pip install vllm==0.33.0 && vllm serve dense",
            "0.24.0",
            [
                f"`pip install` installs vLLM 0.33.0 before the start; decided for vLLM 0.24.0, {OTHER}",
                "decided for vLLM 0.24.0, which overrides 0.33.0: `pip install` installs vLLM 0.33.0 before the start",
            ],
        ),
        (
            "uvx vllm@0.33.0+cu129 serve dense",
            "v0.33.0",
            ["decided for vLLM v0.33.0, which overrides 0.33.0+cu129: `uvx` runs vLLM 0.33.0+cu129"],
        ),
    ],
)
def test_a_version_that_overrides_that_of_a_command_is_compared_with_it(
    ask: Asking, script: str, override: str, warnings: list[str]
) -> None:
    engine = {**container(None), "command": ["bash", "-c", script], "args": []}
    configs = ask.request(ARGS)["deployment"]["model_configs"]
    document = {"manifest": pod(engine), "model_configs": configs, "vllm_version": override}
    asked = read_request_or_manifest(document, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(replace(asked, overrides=True), ask.policy.releases)
    assert isinstance(request, Request)
    assert ask.policy.decide(request, TODAY).warnings == warnings


@pytest.mark.parametrize("version", ["0.99.0", "0.33.0", "0.33.0+cu129", "0.33.0rc1"])
def test_a_deployment_is_compared_with_the_release_that_its_command_installs(ask: Asking, version: str) -> None:
    document = ask.request(["bash", "-c", f"pip install vllm=={version}; vllm serve dense"])
    request = read_request_or_manifest({**document, "vllm_version": "0.33.0"}, ask.policy.releases)
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    is_same = version in {"0.33.0", "0.33.0+cu129"}
    other = f"`pip install` installs vLLM {version} before the start; decided for vLLM 0.33.0, {OTHER}"
    assert (decision.release.verified, decision.warnings) == (is_same, [] if is_same else [other])


def test_an_unknown_release_that_a_command_installs_is_not_the_image_s(ask: Asking) -> None:
    script = "pip install vllm==0.99.0; vllm serve dense"
    engine = {**container("vllm/vllm-openai:v0.33.0"), "command": ["bash", "-c", script], "args": []}
    ((_, problem),) = read(ask, pod(engine))
    assert isinstance(problem, RequestInvalid)
    assert problem.faults[0].message.startswith(
        "`pip install` installs vLLM 0.99.0 before the start: unknown release `0.99.0`; "
    )


SETUPS = [
    ("pip install vllm==0.33.0", "0.33.0"),
    ("# pip install vllm==0.33.0", None),
    ("echo pip install vllm==0.33.0", None),
    ("pip install vllm==0.24.0\npip install vllm==0.33.0", "0.33.0"),
    ("pip install vllm==0.33.0 # not vllm==0.24.0", "0.33.0"),
    ("pip install vllm==0.33.0\nif x; then pip install vllm==0.24.0; fi", "0.33.0"),
    ("if x; then pip install vllm==0.24.0; fi", None),
    ("pip install 'vllm[audio]==0.33.0'", "0.33.0"),
    ("cat <<E\npip install vllm==0.33.0\nE", None),
    ("", None),
]


@table(("setup", "version"), SETUPS)
def test_the_setup_of_a_task_installs_vllm_as_a_script_does(setup: str, version: str | None) -> None:
    (found,) = read_manifest({"run": "vllm serve m", "setup": setup}, "", [])
    assert found.vllm_version == version


HERE_DOCUMENT = "cat <<E\npip install vllm==0.33.0"
UNREAD = (
    "a script before the start cannot be read, and it may install another vLLM: the here-document at character 5 has "
    "no end; write `E` alone in a line"
)
UNCERTAIN: list[tuple[str, str, str, str]] = [
    ("pip install vllm==0.33.0", "vllm serve dense", "0.33.0", ""),
    ("cat <<E\na\nE", "vllm serve dense", "0.24.0", ""),
    ("pip install ray[default]", "vllm serve dense", "0.24.0", ""),
    ("pip install -e .", "vllm serve dense", "0.24.0", MAY),
    ("if x; then pip install vllm==0.33.0; fi", "vllm serve dense", "0.24.0", MAY),
    ("pip install vllm==0.33.0; pip install -e .", "vllm serve dense", "0.33.0", MAY),
    ("pip install vllm==0.33.0 || true", "vllm serve dense", "0.24.0", MAY),
    ("pip install vllm==0.33.0 && pip install x || echo failed", "vllm serve dense", "0.24.0", MAY),
    ("x && pip install vllm==0.33.0 || :", "vllm serve dense", "0.24.0", MAY),
    ("true || x; pip install vllm==0.33.0", "vllm serve dense", "0.33.0", ""),
    ("pip install vllm==0.33.0 && pip install x", "vllm serve dense", "0.33.0", ""),
    ("", "pip install vllm==0.33.0 || true; vllm serve dense", "0.24.0", MAY),
    ("", "pip install vllm==0.33.0 && vllm serve dense || sleep 1", "0.33.0", ""),
    ("pip install 'vllm>=0.33.0'", "vllm serve dense", "0.24.0", MAY),
    ("uv pip install -U vllm", "vllm serve dense", "0.24.0", MAY),
    ("pip install -r r.txt", "vllm serve dense", "0.24.0", MAY),
    ("pip install git+https://github.com/vllm-project/vllm.git", "vllm serve dense", "0.24.0", MAY),
    ("pip install https://a.example/vllm-0.33.0-cp38-abi3-linux.whl", "vllm serve dense", "0.24.0", MAY),
    (
        "conda install vllm=0.33",
        "vllm serve dense",
        "0.24.0",
        "`conda` may install another vLLM or activate an environment with one",
    ),
    ("pip --proxy x install vllm", "vllm serve dense", "0.24.0", MAY),
    ("uv sync", "vllm serve dense", "0.24.0", "`uv` may install another vLLM or activate an environment with one"),
    (HERE_DOCUMENT, "vllm serve dense", "0.24.0", UNREAD),
    ("pip install -e .", "uvx vllm@0.33.0 serve dense", "0.33.0", ""),
    (
        "pip install vllm==0.33.0",
        "conda run vllm serve dense",
        "0.33.0",
        "`conda` may run a different vLLM from the image's",
    ),
]


@table(("setup", "run", "version", "cause"), UNCERTAIN)
def test_an_uncertain_installation_in_the_setup_of_a_task_makes_the_release_unverified(
    ask: Asking, setup: str, run: str, version: str, cause: str
) -> None:
    task = {"run": run, "setup": setup, "resources": {"image_id": "docker:vllm/vllm-openai:v0.24.0"}}
    ((_, request),) = read(ask, task)
    assert isinstance(request, Request)
    decision = ask.policy.decide(request, TODAY)
    found = [warning for warning in decision.warnings if "variables are not certain" not in warning]
    expected = [f"{cause}; decided for vLLM {version}, {OTHER}"] if cause else []
    assert (decision.vllm_version, decision.release.verified, found) == (version, not cause, expected)


def test_notes_are_warnings_of_the_decision(ask: Asking) -> None:
    ((_, request),) = read(ask, pod(container(None)))
    assert isinstance(request, Request)
    assert NO_VERSION in ask.policy.decide(request, TODAY).warnings


def test_an_image_of_an_unknown_release_affects_only_its_own_container(ask: Asking) -> None:
    items = read(
        ask, pod(container("vllm/vllm-openai:v0.99.0", "a"), container("vllm/vllm-openai:v0.33.0", "b")), "/items/3"
    )
    (first, unknown), (second, request) = items
    assert (first, second) == ("spec.containers[0]", "spec.containers[1]")
    assert isinstance(unknown, RequestInvalid)
    assert isinstance(request, Request)
    assert (unknown.problem, [fault.pointer for fault in unknown.faults]) == (
        "unknown-release",
        ["/items/3/manifest/spec/containers/0"],
    )
    assert unknown.faults[0].message.startswith("the image `vllm/vllm-openai:v0.99.0`: ")
    assert (request.release.decided_as, request.pointer) == ("0.33.0", "/items/3/manifest/spec/containers/1")


def test_a_fault_in_a_container_has_its_pointer_in_the_manifest(ask: Asking) -> None:
    ((_, request),) = read(ask, pod(container("vllm/vllm-openai:v0.33.0", args=[*ARGS, "-tp", "0"])))
    assert isinstance(request, Request)
    with pytest.raises(RequestInvalid) as raised:
        ask.policy.decide(request, TODAY)
    assert [fault.pointer for fault in raised.value.faults] == ["/manifest/spec/containers/0/args/2"]


def test_a_missing_configuration_is_reported_where_the_request_would_have_it(ask: Asking) -> None:
    ((_, request),) = read(ask, pod(container("vllm/vllm-openai:v0.33.0", args=["--model", "a/b"])))
    assert isinstance(request, Request)
    with pytest.raises(RequestInvalid) as raised:
        ask.policy.decide(request, TODAY)
    message = "the config.json of `a/b` is needed, under the name that the arguments give it; given: `dense`"
    assert (raised.value.problem, raised.value.faults) == (
        "model-config-needed",
        (RequestFault("/model_configs/a~1b", message, RemedyKind.MODEL_CONFIG),),
    )


def test_a_manifest_that_cannot_be_read_is_one_problem(ask: Asking) -> None:
    problem, faults = ask.problem(lambda: read(ask, {"apiVersion": "example.com/v1", "kind": "Gadget"}))
    assert (problem, [pointer for pointer, _ in faults]) == ("invalid-request", ["/manifest/kind"])


def test_an_engine_that_cannot_be_decided_has_its_own_problem(ask: Asking) -> None:
    server = {"name": "s", "args": ["--model=a/b", "--enable-dbo"]}
    (_, first), (_, second) = read(ask, pod(server, container("vllm/vllm-openai:v0.33.0")), "/x")
    assert isinstance(first, RequestInvalid)
    assert first.faults[0].pointer == "/x/manifest/spec/containers/0"
    assert "the manifest does not show the image" in first.faults[0].message
    assert isinstance(second, Request)


def test_a_manifest_without_an_engine_has_no_requests(ask: Asking) -> None:
    assert read(ask, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}}) == []


def test_a_bare_manifest_is_a_request(ask: Asking) -> None:
    asked = read_request_or_manifest([pod(container("vllm/vllm-openai:v0.33.0"))], ask.policy.releases)
    assert isinstance(asked, Manifest)
    assert [path for path, _ in requests_of(asked, ask.policy.releases)] == ["[0].spec.containers[0]"]


def test_the_options_of_a_manifest_apply_to_each_container(ask: Asking) -> None:
    members: dict[str, Any] = {
        "layers": ["upstream"],
        "explain": True,
        "request_id": "r",
        "environment": {"platform": "rocm"},
    }
    ((_, request),) = read(ask, pod(container("vllm/vllm-openai:v0.33.0")), **members)
    assert isinstance(request, Request)
    assert request.deployment is not None
    assert (request.upstream_only, request.explain, request.request_id, request.deployment.environment.platform) == (
        True,
        True,
        "r",
        "rocm",
    )


DEPLOYMENT = {
    "kind": "Deployment",
    "metadata": {"name": "d", "namespace": "n"},
    "spec": {"template": {"metadata": {"labels": {}}, "spec": {"containers": [{"name": "vllm"}, {"name": 3}, 5]}}},
}
NAMES: list[tuple[Any, str, str]] = [
    (DEPLOYMENT, "spec.template.spec.containers[0]", "n/Deployment/d/vllm"),
    (DEPLOYMENT, "spec.template.spec.containers[1]", "n/Deployment/d"),
    (DEPLOYMENT, "spec.template.spec.containers[2]", "n/Deployment/d"),
    (DEPLOYMENT, "spec.template.spec.containers[9]", "n/Deployment/d"),
    (DEPLOYMENT, "spec.template.none.containers[x]", "n/Deployment/d"),
    ({"kind": "List", "items": [DEPLOYMENT]}, "items[0].spec.template.spec.containers[0]", "n/Deployment/d/vllm"),
    ([{"kind": "Pod"}, DEPLOYMENT], "[1].spec.template.spec.containers[0]", "n/Deployment/d/vllm"),
    ({"kind": "Pod", "metadata": {"name": "p"}, "spec": {}}, "spec", "Pod/p"),
    ({"kind": "Pod", "metadata": 3, "spec": {"name": "x"}}, "spec", "spec"),
    ({"kind": 3, "metadata": {"name": 4, "namespace": None}}, "spec", "spec"),
    ({"services": {"a": {"name": "x"}}}, "services.a", "services.a"),
    (None, "spec", "spec"),
]


@table(("document", "path", "expected"), NAMES)
def test_a_container_has_the_name_of_its_object(document: Any, path: str, expected: str) -> None:
    assert name_of(document, path) == expected


POINTERS = [
    ("", ""),
    ("spec", "/spec"),
    ("items[3].spec.containers[0]", "/items/3/spec/containers/0"),
    ("[1].spec", "/1/spec"),
    ("a/b~c", "/a~1b~0c"),
    ("text.configs[0]", "/text"),
]


@table(("path", "expected"), POINTERS)
def test_a_path_is_a_pointer(path: str, expected: str) -> None:
    assert pointer_of("/manifest", path, {"text": "configs:\n  - model: a/b\n"}) == f"/manifest{expected}"


SERVE = """applications:
  - args:
      llm_configs:
        - model_loading_config: {model_id: qwen, model_source: Qwen/Qwen3-8B}
          engine_kwargs: {speculative_config: 3}
"""
CONTAINER = {
    "name": "c",
    "image": "vllm/vllm-openai:v0.33.0",
    "command": ["vllm", "serve", "Qwen/Qwen3-8B", "--dtype", "x"],
}
SPEC = {
    "name": "m",
    "repository": "vllm/vllm-openai",
    "tag": "v0.33.0",
    "modelURL": "Qwen/Qwen3-8B",
    "vllmConfig": {"dtype": "x"},
}
EXISTING_POINTERS: list[tuple[dict[str, Any], list[str]]] = [
    (
        pod({**CONTAINER, "args": ["--max-model-len", "many"]}),
        ["/spec/containers/0/command/4", "/spec/containers/0/args/1"],
    ),
    ({"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": SERVE}}, ["/spec/serveConfigV2"]),
    ({"servingEngineSpec": {"modelSpec": [SPEC]}}, ["/servingEngineSpec/modelSpec/0"]),
]


@table("pointer", ["", "/items/3"])
@table(("document", "pointers"), EXISTING_POINTERS, ids=["words", "a text", "values of a chart"])
def test_a_fault_of_an_engine_has_a_pointer_to_an_existing_value(
    ask: Asking, document: dict[str, Any], pointers: list[str], pointer: str
) -> None:
    ((_, request),) = read(ask, document, pointer)
    assert isinstance(request, Request)
    with pytest.raises(RequestInvalid) as raised:
        ask.policy.decide(request, TODAY)
    assert [fault.pointer for fault in raised.value.faults] == [f"{pointer}/manifest{each}" for each in pointers]
