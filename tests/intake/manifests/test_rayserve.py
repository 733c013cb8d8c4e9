"""Ray Serve LLM: which runtime environment an engine gets, and which vLLM runs in it."""

from __future__ import annotations

from datetime import date
from json import dumps
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from shipped_images import read_manifest
from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.decision.decision import Decision
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

TODAY = date(2026, 1, 1)
NAME = "VLLM_USE_V2_MODEL_RUNNER"
IMAGE = "vllm/vllm-openai:v0.24.0"
BUILDER = "ray.serve.llm:build_openai_app"
OTHER = "which may not be the one that runs"


def variables(value: str, name: str = NAME) -> dict[str, Any]:
    return {"env_vars": {name: value}}


def application(
    config: dict[str, Any] | None = None, actor: dict[str, Any] | None = None, **members: Any
) -> dict[str, Any]:
    llm = {"model_loading_config": {"model_id": "dense"}, **(config or {})}
    if actor is not None:
        llm["deployment_config"] = {"ray_actor_options": {"runtime_env": actor}}
    return {"name": "llms", "import_path": BUILDER, "args": {"llm_configs": [llm]}, **members}


def service(written: dict[str, Any], *containers: dict[str, Any]) -> dict[str, Any]:
    pods = [{"template": {"spec": {"containers": [each]}}} for each in containers or ({"image": IMAGE},)]
    cluster = {"headGroupSpec": pods[0], "workerGroupSpecs": pods[1:]}
    return {
        "apiVersion": "ray.io/v1",
        "kind": "RayService",
        "spec": {"serveConfigV2": dumps({"applications": [written]}), "rayClusterConfig": cluster},
    }


def engine(document: dict[str, Any]) -> Container:
    faults: list[RequestFault] = []
    (found,) = read_manifest(document, "", faults)
    assert faults == []
    return found


def decision(ask: Asking, document: dict[str, Any]) -> Decision:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    asked = read_request_or_manifest({"manifest": document, "model_configs": configs}, ask.policy.releases)
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY)


def entry(name: str, **options: Any) -> dict[str, Any]:
    return {"name": name, "ray_actor_options": options}


ENVIRONMENTS: list[tuple[dict[str, Any], dict[str, str | None]]] = [
    (application(runtime_env=variables("1")), {NAME: "1"}),
    (application(actor=variables("1")), {NAME: "1"}),
    (application({"runtime_env": variables("1")}), {NAME: "1"}),
    (application(actor=variables("2"), runtime_env=variables("1")), {NAME: "2"}),
    (application({"runtime_env": variables("3")}, variables("2"), runtime_env=variables("1")), {NAME: "3"}),
    (application(runtime_env=variables("1"), actor=variables("2", "A")), {NAME: "1", "A": "2"}),
    (application({"runtime_env": variables("3", "A")}, variables("2")), {"A": "3"}),
    (application({"runtime_env": {}}, variables("2")), {NAME: "2"}),
    (application({"runtime_env": {"env_vars": {}}}, variables("2")), {}),
    (application(actor=variables("2"), deployments=[entry("LLMServer:dense", num_cpus=1)]), {}),
    (
        application(actor=variables("2"), deployments=[entry("LLMServer:dense", runtime_env=variables("4"))]),
        {NAME: "4"},
    ),
    (application(actor=variables("2"), deployments=[entry("OpenAiIngress", runtime_env=variables("4"))]), {NAME: "2"}),
    (application(actor=variables("2"), deployments=[{"name": "LLMServer:dense", "num_replicas": 2}]), {NAME: "2"}),
    (
        application(
            runtime_env=variables("1"), deployments=[entry("LLMServer:dense", runtime_env=variables("4", "A"))]
        ),
        {NAME: "1", "A": "4"},
    ),
    (application(runtime_env=variables("${A}")), {NAME: None}),
    (application(runtime_env=variables("$A")), {NAME: None}),
]


@table(("written", "expected"), ENVIRONMENTS)
def test_an_engine_has_the_variables_of_all_its_runtime_environments(
    written: dict[str, Any], expected: dict[str, str | None]
) -> None:
    assert engine(service(written)).env == expected
    assert engine({"applications": [written]}).env == expected


def test_an_entry_for_a_deployment_has_its_name_from_the_model_or_from_the_config() -> None:
    entries = [entry("LLMServer:a--b-1_5", runtime_env=variables("1")), entry("own", runtime_env=variables("2"))]
    model = {"model_loading_config": {"model_id": "a/b-1.5"}}
    assert engine({"applications": [application(model, deployments=entries)]}).env == {NAME: "1"}
    named = {**model, "deployment_config": {"name": "own"}}
    assert engine({"applications": [application(named, deployments=entries)]}).env == {NAME: "2"}


def with_env(*env: tuple[str, str], image: str = IMAGE, **members: Any) -> dict[str, Any]:
    return {"image": image, "env": [{"name": name, "value": value} for name, value in env], **members}


@pytest.mark.parametrize(
    ("containers", "expected"),
    [
        ([with_env((NAME, "1")), with_env((NAME, "1"))], {NAME: "1"}),
        ([with_env((NAME, "1")), with_env((NAME, "0"))], {NAME: None}),
        ([with_env((NAME, "1")), with_env()], {NAME: None}),
        ([with_env(), with_env((NAME, "1"))], {NAME: None}),
    ],
)
def test_a_variable_that_some_containers_of_ray_do_not_have_is_unknown(
    containers: list[dict[str, Any]], expected: dict[str, str | None]
) -> None:
    assert engine(service(application(), *containers)).env == expected
    assert engine(service(application(runtime_env=variables("2")), *containers)).env == {NAME: "2"}


def test_variables_that_containers_of_ray_take_from_elsewhere_get_a_warning() -> None:
    found = engine(service(application(), with_env(envFrom=[{"secretRef": {"name": "s"}}])))
    assert found.has_hidden_variables
    assert "`envFrom` takes variables from the Secret `s`, and values of Secrets are not read" in found.notes


def test_containers_of_ray_with_different_images_show_no_version() -> None:
    found = engine(service(application(), with_env(), with_env(image="vllm/vllm-openai:v0.33.0")))
    assert (found.image, found.vllm_version) == (None, None)
    assert "the containers of the cluster have different images; an engine may run in any of them" in found.notes


def test_a_container_beside_ray_is_ignored() -> None:
    document = service(application(), with_env())
    pod = document["spec"]["rayClusterConfig"]["headGroupSpec"]["template"]["spec"]
    pod["containers"].append(with_env((NAME, "1"), image="fluent/fluent-bit:3"))
    found = engine(document)
    assert (found.image, found.env) == (IMAGE, {})


MAY = "`pip install` may install another vLLM before the start"
PACKAGES: list[tuple[dict[str, Any], str, str]] = [
    ({}, "0.24.0", ""),
    ({"pip": ["vllm==0.33.0"]}, "0.33.0", ""),
    ({"pip": ["torch", "vllm[audio] == 0.33.0"]}, "0.33.0", ""),
    ({"pip": {"packages": ["vllm==0.33.0"], "pip_check": False}}, "0.33.0", ""),
    ({"uv": ["vllm==0.33.0"]}, "0.33.0", ""),
    ({"uv": {"packages": ["vllm==0.33.0"]}}, "0.33.0", ""),
    ({"pip": ["vllm==0.33.0 # the newest"]}, "0.33.0", ""),
    ({"pip": ["--extra-index-url https://a.example", "vllm==0.33.0"]}, "0.33.0", ""),
    ({"pip": ["torch==2.9.0", "ray[serve]"]}, "0.24.0", ""),
    ({"pip": []}, "0.24.0", ""),
    ({"pip": None, "uv": None}, "0.24.0", ""),
    ({"nsight": "default", "config": {"setup_timeout_seconds": 9}}, "0.24.0", ""),
    ({"pip": ["vllm"]}, "0.24.0", MAY),
    ({"pip": ["vllm>=0.33.0"]}, "0.24.0", MAY),
    ({"pip": ["vllm==0.33.0; python_version > '3.8'"]}, "0.24.0", MAY),
    ({"pip": ["git+https://github.com/vllm-project/vllm.git"]}, "0.24.0", MAY),
    ({"pip": ["-r more.txt"]}, "0.24.0", MAY),
    ({"pip": ["--requirement more.txt"]}, "0.24.0", MAY),
    ({"pip": ["${PACKAGE}"]}, "0.24.0", MAY),
    ({"pip": "requirements.txt"}, "0.24.0", MAY),
    ({"pip": {"packages": "requirements.txt"}}, "0.24.0", MAY),
    ({"pip": {"packages": [], "pip_install_options": ["-r", "a.txt"]}}, "0.24.0", MAY),
    ({"uv": {"packages": [], "uv_pip_install_options": ["-e", "."]}}, "0.24.0", MAY),
    ({"uv": ["vllm"]}, "0.24.0", MAY),
    *(
        ({name: value}, "0.24.0", f"`runtime_env.{name}` may make another vLLM run")
        for name, value in {
            "conda": {"dependencies": ["pip", {"pip": ["vllm==0.33.0"]}]},
            "working_dir": "https://a.example/b.zip",
            "py_modules": ["s3://b/vllm.zip"],
            "py_executable": "uv run",
            "worker_process_setup_hook": "a.b",
            "unknown": 1,
        }.items()
    ),
    ({"conda": "other"}, "0.24.0", "`runtime_env.conda` may make another vLLM run"),
    (
        {"pip": ["vllm==0.33.0"], "working_dir": "."},
        "0.33.0",
        "`runtime_env.working_dir` may make another vLLM run",
    ),
    ({"image_uri": "vllm/vllm-openai:v0.33.0"}, "0.33.0", ""),
    ({"container": {"image": "vllm/vllm-openai:v0.33.0"}}, "0.33.0", ""),
    (variables("/x", "PYTHONPATH"), "0.24.0", "the variable `PYTHONPATH` may make another vLLM run"),
]


def release_of(found: Decision) -> tuple[str, bool, list[str]]:
    warnings = [warning for warning in found.warnings if OTHER in warning]
    return found.vllm_version, found.release.verified, warnings


@table(("environment", "version", "cause"), PACKAGES)
def test_a_runtime_environment_may_install_another_vllm(
    ask: Asking, environment: dict[str, Any], version: str, cause: str
) -> None:
    expected = (version, not cause, [f"{cause}; decided for vLLM {version}, {OTHER}"] if cause else [])
    for written in (
        application(runtime_env=environment),
        application(actor=environment),
        application({"runtime_env": environment}),
        application(deployments=[entry("LLMServer:dense", runtime_env=environment)]),
    ):
        assert release_of(decision(ask, service(written))) == expected


def test_a_field_of_an_inner_environment_replaces_that_of_an_outer_one(ask: Asking) -> None:
    written = application({"runtime_env": {"pip": ["torch"]}}, runtime_env={"pip": ["vllm==0.33.0"]})
    assert release_of(decision(ask, service(written))) == ("0.24.0", True, [])


def test_a_mount_of_a_container_of_ray_may_contain_another_vllm(ask: Asking) -> None:
    packages = "/usr/local/lib/python3.12/dist-packages"
    mounted = {"image": IMAGE, "volumeMounts": [{"name": "v", "mountPath": packages}]}
    cause = f"the mount at `{packages}` may make another vLLM run; decided for vLLM 0.24.0, {OTHER}"
    for containers in ([mounted], [{"image": IMAGE}, mounted], [mounted, mounted]):
        assert release_of(decision(ask, service(application(), *containers))) == ("0.24.0", False, [cause])


def test_an_image_without_a_version_of_vllm_makes_the_release_unverified(ask: Asking) -> None:
    found = decision(ask, service(application(runtime_env={"image_uri": "a.example/own:1"})))
    assert not found.release.verified
    cause = "`runtime_env` starts the image `a.example/own:1`, whose vLLM is not known"
    assert any(warning.startswith(cause) for warning in found.warnings)


def test_an_image_of_a_runtime_environment_does_not_have_the_container_s_variables() -> None:
    environment = {"image_uri": "vllm/vllm-openai:v0.33.0", "env_vars": {"A": "1"}}
    found = engine(service(application(runtime_env=environment), with_env((NAME, "1"))))
    assert (found.image, found.env) == ("vllm/vllm-openai:v0.33.0", {NAME: None, "A": "1"})


@table(
    ("import_path", "is_known"),
    [
        (BUILDER, True),
        ("ray.serve.llm:build_pd_openai_app", True),
        ("ray.serve.llm.build_openai_app", True),
        ("ray.llm._internal.serve.builders:build_openai_app", True),
        ("app:build_openai_app", False),
        ("ray.serve.llm_own:build_openai_app", False),
        ("own.ray.serve.llm:build_openai_app", False),
    ],
)
def test_an_application_that_is_not_ray_s_may_run_another_vllm(
    ask: Asking,
    import_path: str,
    is_known: bool,  # noqa: FBT001  # a table's value
) -> None:
    cause = f"the application `{import_path}` is not one of Ray Serve LLM and may run another vLLM"
    expected = ("0.24.0", is_known, [] if is_known else [f"{cause}; decided for vLLM 0.24.0, {OTHER}"])
    assert release_of(decision(ask, service(application(import_path=import_path)))) == expected


def test_reading_the_deployments_of_an_application_for_each_config_is_limited() -> None:
    entries = [entry("LLMServer:dense", runtime_env=variables("1"))] * 1000
    config = application()["args"]["llm_configs"][0]
    faults: list[RequestFault] = []
    written = application(deployments=entries, args={"llm_configs": [config] * 1000})
    found = read_manifest({"applications": [written]}, "", faults)
    assert len(found) < 10
    assert [fault.message.startswith("variables and files that are copied or expanded exceed") for fault in faults] == [
        True
    ]


CODE = (
    "Ray Serve runs Python code ({}), which may start vLLM and is not read; send the arguments that it gives to vLLM "
)
LLM = {"llm_configs": [{"model_loading_config": {"model_id": "a/b"}}]}


@table(
    ("applications", "code"),
    [
        ([{"import_path": "serve:model", "runtime_env": {"pip": ["vllm==0.23.0"]}}], "`serve:model`"),
        ([{"import_path": "serve:model", "deployments": [{"name": "VLLMDeployment"}]}], "`serve:model`"),
        (
            [{"import_path": "my_vllm:model"}, {"import_path": "b:c", "args": {"VLLM_A": 1}}],
            "`my_vllm:model` and 1 more",
        ),
        ([{"import_path": "b:c", "runtime_env": {"env_vars": {"VLLM_USE_V1": "1"}}}], "`b:c`"),
        ([{"import_path": "b:c", "runtime_env": {"pip": ["numpy"]}}], None),
        ([{"import_path": "ray.serve.llm:build_openai_app", "name": "vllm"}], None),
        ([{"import_path": "ray.serve.llm:build_openai_app", "args": LLM}], ""),
    ],
)
def test_an_application_of_python_code_that_shows_vllm_is_a_problem(
    applications: list[dict[str, Any]], code: str | None
) -> None:
    text = yaml.safe_dump({"applications": applications})
    service = {"apiVersion": "ray.io/v1", "kind": "RayService", "spec": {"serveConfigV2": text}}
    documents: list[tuple[dict[str, Any], str]] = [
        ({"applications": applications}, ""),
        (service, "spec.serveConfigV2"),
    ]
    for document, path in documents:
        faults: list[RequestFault] = []
        found = [(each.path, each.problem) for each in read_manifest(document, "", faults)]
        assert faults == []
        if code is None:
            assert found == []
        elif code:
            assert found == [(path, CODE.format(code) + "as a deployment")]
        else:
            assert [problem for _, problem in found] == [""]


ARGS = {"image": "vllm/vllm-openai:v0.23.0", "args": ["--model=a/b"]}
COMMAND = {"image": "a", "command": ["vllm", "serve", "a/b"]}
RAY = {"image": "vllm/vllm-openai:v0.23.0"}
OVERWRITES = {"annotations": {"ray.io/overwrite-container-cmd": "true"}}


@table(
    ("containers", "sidecars", "read"),
    [
        ([RAY], [], []),
        ([ARGS], [], []),
        ([COMMAND], [], ["containers[0]"]),
        ([RAY, ARGS], [], ["containers[1]"]),
        ([RAY, RAY], [], ["containers[1]"]),
        ([RAY, COMMAND, ARGS], [], ["containers[1]", "containers[2]"]),
        ([RAY], [{**ARGS, "restartPolicy": "Always"}], ["initContainers[0]"]),
        ([RAY], [ARGS], ["initContainers[0]"]),
    ],
)
@table("overwrites", ["", "object", "template"])
@table("kind", ["RayCluster", "RayService"])
@table("group", ["headGroupSpec", "workerGroupSpecs"])
def test_ray_starts_in_the_first_container_of_a_pod_and_the_others_are_their_own(
    containers: list[Any], sidecars: list[Any], read: list[str], kind: str, group: str, overwrites: str
) -> None:
    pod = {"containers": containers, "initContainers": sidecars}
    template = {"metadata": OVERWRITES if overwrites == "template" else {}, "spec": pod}
    cluster = {group: {"template": template}} if group == "headGroupSpec" else {group: [{"template": template}]}
    spec = cluster if kind == "RayCluster" else {"rayClusterConfig": cluster}
    document = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": OVERWRITES if overwrites == "object" else {}}
    faults: list[RequestFault] = []
    found = [each.path.rpartition("spec.")[2] for each in read_manifest({**document, "spec": spec}, "", faults)]
    first = ["containers[0]"] if overwrites and "containers[0]" not in read else []
    assert (found, faults) == (first + read, [])


EXPORTS: dict[str, Any] = {"command": [f"export {NAME}=1"]}
INSTALLS: dict[str, Any] = {"command": ["pip install vllm==0.21.0"]}


@table(
    ("containers", "expected"),
    [
        ([with_env(**EXPORTS)], {NAME: "1"}),
        ([with_env(**EXPORTS), with_env(**EXPORTS)], {NAME: "1"}),
        ([with_env(), with_env(**EXPORTS)], {NAME: None}),
        ([with_env((NAME, "0"), **EXPORTS)], {NAME: "1"}),
        ([with_env(command=[f"{NAME}=1"])], {}),
    ],
)
def test_the_commands_before_ray_set_variables_of_an_engine(
    containers: list[dict[str, Any]], expected: dict[str, str | None]
) -> None:
    assert engine(service(application(), *containers)).env == expected
    assert engine(service(application(runtime_env=variables("2")), *containers)).env == {NAME: "2"}


@table(
    ("containers", "version", "cause"),
    [
        ([INSTALLS], "0.21.0", "`pip install` installs vLLM 0.21.0 before the start"),
        ([INSTALLS, INSTALLS], "0.21.0", "`pip install` installs vLLM 0.21.0 before the start"),
        ([{}, INSTALLS], None, "`pip install` may install another vLLM before the start"),
        (
            [{"command": ["cp /x /usr/local/bin/vllm"]}],
            None,
            "`cp` may replace or remove the vLLM of the image before the start",
        ),
    ],
)
def test_the_commands_before_ray_may_make_another_vllm_run(
    containers: list[dict[str, Any]], version: str | None, cause: str
) -> None:
    found = engine(service(application(), *(with_env(**each) for each in containers)))
    assert found.installation is not None
    assert (found.installation.version, found.installation.cause) == (version, cause)
    replaced = engine(
        service(application(runtime_env={"image_uri": IMAGE}), *(with_env(**each) for each in containers))
    )
    assert replaced.installation is None


@table(
    ("fields", "doubt"),
    [
        (
            {"command": ["pip uninstall -y triton"]},
            "in the command that starts Ray: `pip uninstall` of `triton` may leave vLLM without Triton",
        ),
        (
            {"startupProbe": {"exec": {"command": ["pip", "uninstall", "-y", "triton"]}}},
            "`pip uninstall` of `triton` may leave vLLM without Triton",
        ),
        (
            {"command": ["cp -r /x dense"]},
            "in the command that starts Ray: `cp` may make the folder `dense`, and vLLM loads it instead",
        ),
        ({"command": ["/init.sh"]}, "in the command that starts Ray: the file `/init.sh` is a script that is not read"),
        ({"command": ["cat '"]}, "in the command that starts Ray: the quote `'` at character 6 is not closed"),
    ],
)
def test_the_commands_before_and_beside_ray_may_change_what_an_engine_loads(fields: dict[str, Any], doubt: str) -> None:
    other = "rayproject/ray:2.57"
    (found,) = engine(service(application(), with_env(image=other), with_env(image=other, **fields))).doubts
    assert found.startswith(doubt)


@table(
    ("containers", "folder"),
    [
        ([{}], ""),
        ([{"workingDir": "/a"}], "/a"),
        ([{"workingDir": "/a"}, {"workingDir": "/b"}], "\0"),
        ([{"command": ["cd /a"]}], "/a"),
    ],
)
def test_an_engine_runs_in_the_folder_in_which_ray_was_started(containers: list[dict[str, Any]], folder: str) -> None:
    assert engine(service(application(), *(with_env(**each) for each in containers))).folder == folder


KEYWORDS: list[tuple[str, dict[str, Any], list[str]]] = [
    ("0.8.5", {"enforce_eager": False, "trust_remote_code": False, "max_model_len": 4096}, []),
    ("0.7.3", {"enable_chunked_prefill": False, "enable_lora": False, "enforce_eager": True}, []),
    ("0.33.0", {"aggregate_engine_logging": False, "enforce_eager": False, "disable_log_stats": False}, []),
    ("0.33.0", {"logits_processors": [], "max_model_len": 4096}, []),
    ("0.33.0", {"max_model_len": 4096, "logits_processors": []}, []),
    ("0.8.5", {"no_such_option": False}, ["vLLM 0.8.5 has no flag `--no-no-such-option`"]),
    ("0.8.5", {"enable_dbo": False}, ["vLLM 0.8.5 has no flag `--no-enable-dbo`"]),
]


@table(("release", "arguments", "expected"), KEYWORDS, ids=[f"{row[0]} {dumps(row[1])}" for row in KEYWORDS])
def test_an_argument_that_is_false_or_empty_needs_no_flag(
    ask: Asking, release: str, arguments: dict[str, Any], expected: list[str]
) -> None:
    """Ray gives them to `AsyncEngineArgs`, and no parser reads them."""
    document = service(application({"engine_kwargs": arguments}), {"image": f"vllm/vllm-openai:v{release}"})
    found = decision(ask, document)
    errors = [each.partition(" (")[0] for each in found.launch_errors]
    assert (errors, found.starts) == (expected, not expected)


@table("name", ["tensor_parallel_size", "compilation_config"])
def test_an_empty_list_for_an_argument_that_takes_no_list_is_refused(ask: Asking, name: str) -> None:
    document = service(application({"engine_kwargs": {name: [], "max_model_len": 4096}}))
    _, [(_, message)] = ask.problem(lambda: decision(ask, document))
    assert f"`--{name.replace('_', '-')}` takes a value" in message
