"""Hooks and probes that start vLLM's server, in every project whose documents have them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.intake.command.words import Unknown
from policy.intake.manifests.hooks import PROBLEM, UNREAD_HOOK
from policy.intake.manifests.probe_variables import expand_static, static_values

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.errors import RequestFault
    from policy.intake.command_line import Container

VLLM = "vllm/vllm-openai:v0.23.0"
SLEEPS = {"image": "alpine", "command": ["sleep", "infinity"]}
SERVES = {"image": VLLM, "args": ["--model=a/b"]}
PLACES = ["lifecycle.postStart", "lifecycle.preStop", "livenessProbe", "readinessProbe", "startupProbe"]
STARTS = [
    ["vllm", "serve", "a/b"],
    ["sh", "-c", "vllm serve a/b &"],
    ["/bin/bash", "-c", "if [ -e /x ]; then sleep 1; fi; nohup vllm serve a/b --port 1 > /log 2>&1 &"],
    ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model=a/b"],
    ["env", "A=b", "vllm", "serve", "a/b"],
]
MAY_START = [
    ["sh", "-c", "docker run vllm/vllm-openai:v0.23.0 --model a/b"],
    ["sh", "-c", "kill $(vllm serve a/b)"],
    ["sh", "-c", "kill $(ps | awk 'vllm serve'; vllm serve a/b)"],
    ["sh", "-c", "ssh localhost 'vllm serve a/b'"],
    ["sh", "-c", "vllm serve a/b 'unclosed"],
]
OTHERS: list[Any] = [
    ["sleep", "15"],
    ["sh", "-c", "curl -sf http://localhost:8000/health"],
    ["sh", "-c", "ray stop"],
    ["sh", "-c", "kill -TERM 1; sleep 5"],
    ["serve", "-s", "build"],
    [],
]
CODE = ["python3", "-c", "import vllm"]
UNREAD_CODE = "`python3` runs code that is not read, and `{}` may run it before the start"
NAMING = [
    ["pkill", "-f", "vllm serve"],
    ["sh", "-c", "kill $(pgrep -f 'vllm serve')"],
    ["sh", "-c", "kill -9 $(ps aux | grep 'vllm serve' | grep -v grep | awk '{print $2}'); sleep 1"],
    ["sh", "-c", "pkill -f 'vllm serve'; while pgrep -f 'vllm serve'; do sleep 1; done"],
    ["sh", "-c", "ps aux | grep -q 'vllm serve'"],
    ["sh", "-c", "curl http://vllm:8000/v1/models"],
    ["vllm", "--version"],
    ["vllm", "serve", "--help"],
    CODE,
]


def read(document: Any) -> list[Container]:
    faults: list[RequestFault] = []
    found = read_manifest(document, "", faults)
    assert faults == []
    return found


def hooked(container: dict[str, Any], place: str, command: object) -> dict[str, Any]:
    """The container with a command at a place such as `lifecycle.preStop`."""
    value: Any = {"exec": {"command": command}}
    for key in reversed(place.split(".")):
        value = {key: value}
    return {"name": "a", **container, **value}


def pod(*containers: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": {"containers": list(containers)}}


def problem(place: str, verb: str = "starts") -> str:
    return PROBLEM.format(f"`{place}`", verb)


@table("place", PLACES)
@table("command", [*((each, "starts") for each in STARTS), *((each, "may start") for each in MAY_START)])
@table("container", [SLEEPS, SERVES, {"image": "node:20"}])
def test_a_hook_that_starts_vllm_is_an_item_with_a_problem(
    place: str, command: tuple[list[str], str], container: dict[str, Any]
) -> None:
    words, verb = command
    found = read(pod(hooked(container, place, words)))
    hooks = [(each.path, each.problem) for each in found if each.problem]
    assert hooks == [(f"spec.containers[0].{place}", problem(place, verb))]
    engines = [(each.path, each.notes) for each in found if not each.problem]
    assert engines == ([("spec.containers[0]", [])] if container is SERVES else [])


@table("place", PLACES)
@table("command", [["flock", "/l", "-c", "$X"], ["sh", "-c", "su -c '$X'"], ["sh", "-c", 'echo "$X" | sh']])
@table("container", [SLEEPS, SERVES, {"image": "node:20"}])
def test_a_hook_may_run_a_variable_of_its_container(place: str, command: list[str], container: dict[str, Any]) -> None:
    env = [{"name": "X", "value": "vllm serve a/b"}]
    found = read(pod(hooked({**container, "env": env}, place, command)))
    assert (f"spec.containers[0].{place}", problem(place, "may start")) in [(each.path, each.problem) for each in found]


@table("place", PLACES)
@table("command", [*OTHERS, *NAMING])
@table("container", [SLEEPS, SERVES])
def test_a_hook_that_starts_another_program_is_ignored(
    place: str, command: list[str], container: dict[str, Any]
) -> None:
    found = read(pod(hooked(container, place, command)))
    assert [each.path for each in found] == (["spec.containers[0]"] if container is SERVES else [])
    assert [each.problem for each in found] == [""] * len(found)
    doubts = [UNREAD_CODE.format(place)] if command == CODE and place != "lifecycle.preStop" else []
    assert all((each.notes, each.doubts, each.installation) == ([], doubts, None) for each in found)


@pytest.mark.parametrize("command", [[1], "a", 5])
def test_a_command_after_the_start_that_kubernetes_refuses_is_a_note(command: object) -> None:
    (found,) = read(pod(hooked(SERVES, "lifecycle.postStart", command)))
    assert (found.problem, found.notes) == ("", [UNREAD_HOOK.format("`lifecycle.postStart`")])
    assert read(pod(hooked(SLEEPS, "lifecycle.postStart", command))) == []


@pytest.mark.parametrize("words", [["sh", "-c", "#" * 1_000_000 + "\nvllm serve a/b"], ["x"] * 100_000])
def test_a_hook_beyond_the_limits_of_a_command_may_start_vllm(words: list[str]) -> None:
    (found,) = read(pod(hooked(SLEEPS, "startupProbe", words)))
    assert found.problem == problem("startupProbe", "may start")
    (found,) = read({"services": {"a": {**SLEEPS, "healthcheck": {"test": words}}}})
    assert found.problem == problem("healthcheck", "may start")
    (found,) = read({"services": {"a": {**SLEEPS, "pre_stop": [{"command": "# " * 20_000 + "vllm serve a/b"}]}}})
    assert found.problem == problem("pre_stop", "may start")


@table("place", ["lifecycle.postStart", "lifecycle.preStop"])
def test_kubernetes_expands_no_variable_in_a_hook(place: str) -> None:
    container = {**SLEEPS, "env": [{"name": "V", "value": "ls"}]}
    assert read(pod(hooked(container, place, ["$(V)", "serve", "a/b"]))) == []
    (found,) = read(pod(hooked(container, place, ["sh", "-c", "$(echo vllm) serve a/b"])))
    assert found.problem == problem(place, "may start")
    (found,) = read(pod(hooked({**container, "env": [{"name": "V", "value": "vllm"}]}, place, ["sh", "-c", STATIC])))
    assert found.problem == problem(place)


STATIC = "$V serve a/b"
HIDDEN = {"valueFrom": {"secretKeyRef": {"name": "x", "key": "y"}}}
EXPANDED: list[tuple[list[str], list[dict[str, Any]], str]] = [
    (["$(V)", "serve", "a/b"], [{"value": "vllm"}], "starts"),
    (["env", "$(V)", "serve", "a/b"], [{"value": "vllm"}], "starts"),
    (["sh", "-c", "$(V) serve a/b"], [{"value": "vllm"}], "starts"),
    (["sh", "-c", "exec env A=1 $(V) serve a/b"], [{"value": "vllm"}], "starts"),
    (["sh", "-c", "echo $(V)"], [{"value": "x; vllm serve a/b"}], "starts"),
    (["sh", "-c", "echo $(V)"], [{"value": "`vllm serve a/b`"}], "may start"),
    (["sh", "-c", 'echo "$$(vllm serve a/b)"'], [], "may start"),
    (["sh", "-c", "$1 serve a/b", "x", "$(V)"], [{"value": "vllm"}], "starts"),
    (["sh", "-c", "$$V serve a/b"], [{"value": "vllm"}], "starts"),
    (["v$(V)llm", "serve", "a/b"], [{}], "starts"),
    (["v$(V)llm", "serve", "a/b"], [{"value": ""}], "starts"),
    (["sh", "-c", "v$(V)llm serve a/b"], [HIDDEN], "starts"),
    (["v$(V)llm", "serve", "a/b"], [{"value": "x"}, HIDDEN], "starts"),
    (["$(V)", "serve", "a/b"], [{"value": "ls"}, {"value": "vllm"}], "starts"),
    (["sh", "-c", "$(V) serve a/b"], [{"value": "$(W)"}, {"name": "W", "value": "vllm"}], "may start"),
    (["$(V)", "serve", "a/b"], [{"value": "vllm"}, {"value": "ls"}], ""),
    (["$$(V)", "serve", "a/b"], [{"value": "vllm"}], "may start"),
    (["$(V)", "serve", "a/b"], [{"value": "ls"}], ""),
    (["v$(V)llm", "serve", "a/b"], [{"value": "x"}], ""),
    (["v$(KUBERNETES_PORT)llm", "-s", "a/b"], [], ""),
]


@table("place", ["livenessProbe", "readinessProbe", "startupProbe"])
@table(("words", "env", "verb"), EXPANDED)
@table("container", [SLEEPS, SERVES, {"image": "node:20"}])
def test_kubernetes_expands_variables_in_a_probe_by_their_values_as_written(
    place: str, words: list[str], env: list[dict[str, Any]], verb: str, container: dict[str, Any]
) -> None:
    named = {**container, "env": [{"name": "V", **each} for each in env]}
    found = [each.problem for each in read(pod(hooked(named, place, words))) if each.path.endswith(place)]
    assert found == ([problem(place, verb)] if verb else [])


def test_the_values_in_a_probe_are_those_that_its_container_states() -> None:
    own = [{"name": "A", "value": "a"}, {"name": "B", "value": "$(A)"}, {"name": "C", **HIDDEN}, {"name": "D"}, {}, 1]
    other = [{"name": "A", "value": "a"}, {"name": "D", "value": "d"}, {"name": "X", "value": 1}]
    values = {"E": None, "A": "a", "B": "$(A)", "C": "", "D": "", "R": None}
    assert static_values([own], ["A", "E"], ["R"]) == values
    assert static_values([own, other, None], ["A", "E"], ["R"]) == {**values, "D": "d", "X": None}
    words = expand_static(["$(A)$(B)$$(A)$$", "$(KUBERNETES_PORT)", "$(E)"], values)
    assert words == ["a$(A)$(A)$", "$(KUBERNETES_PORT)", "$(E)"]
    assert [type(word) for word in words] == [str, str, Unknown]


def test_a_probe_of_dynamo_gets_the_variables_of_its_service() -> None:
    probe = {"exec": {"command": ["$(V)", "serve", "a/b"]}}
    service: dict[str, Any] = {"envs": [{"name": "V", "value": "vllm"}], "livenessProbe": probe}
    service["extraPodSpec"] = {"mainContainer": {"name": "a", **SLEEPS, "image": VLLM}}
    graph = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "a"}}
    found = [each.problem for each in read({**graph, "spec": {"services": {"a": service}}})]
    assert found == [problem("livenessProbe")]
    service["extraPodSpec"]["mainContainer"]["env"] = [{"name": "V", "value": "ls"}]  # releases differ in which counts
    found = [each.problem for each in read({**graph, "spec": {"services": {"a": service}}})]
    assert found == [problem("livenessProbe", "may start")]


def test_the_values_of_a_probe_have_a_limit() -> None:
    container = {**SLEEPS, "env": [{"name": "V", "value": "x" * 10_000}]}
    found = read(pod(hooked(container, "livenessProbe", ["echo", *["$(V)"] * 4000])))
    assert [each.problem for each in found] == [problem("livenessProbe", "may start")]


def test_the_hooks_of_all_containers_are_read_once() -> None:
    sidecar = {**hooked(SLEEPS, "startupProbe", STARTS[0]), "restartPolicy": "Always"}
    other = hooked(SLEEPS, "lifecycle.preStop", STARTS[1])
    document = pod(other, other)
    document["spec"]["initContainers"] = [sidecar, hooked(SLEEPS, "startupProbe", STARTS[0])]
    assert [each.path for each in read(document)] == [
        "spec.containers[0].lifecycle.preStop",
        "spec.containers[1].lifecycle.preStop",
        "spec.initContainers[0].startupProbe",
    ]


OTHER_KINDS: list[tuple[dict[str, Any], str]] = [
    (
        {"apiVersion": "apps/v1", "kind": "Deployment", "spec": {"template": {"spec": {}}}},
        "spec.template.spec.containers[0]",
    ),
    ({"apiVersion": "example.com/v1", "kind": "Robot", "spec": {"pod": {}}}, "spec.pod.containers[0]"),
    ({"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "spec": {"predictor": {}}}, ""),
    ({"apiVersion": "serving.kserve.io/v1alpha1", "kind": "ServingRuntime", "spec": {}}, "spec.containers[0]"),
]


@pytest.mark.parametrize(("document", "path"), OTHER_KINDS)
def test_hooks_are_read_in_other_kinds(document: dict[str, Any], path: str) -> None:
    document = {**document, "metadata": {"name": "a"}}
    path = path or "spec.predictor.containers[0]"
    node: Any = document
    *keys, _ = path.split(".")
    for key in keys:
        node[key] = dict(node[key])
        node = node[key]
    node["containers"] = [hooked(SLEEPS, "lifecycle.postStart", STARTS[1])]
    expected = [(f"{path}.lifecycle.postStart", problem("lifecycle.postStart"))]
    assert [(each.path, each.problem) for each in read(document)] == expected


COMPOSE: list[tuple[dict[str, Any], str, str]] = [
    ({"post_start": [{"command": "vllm serve a/b"}]}, "post_start[0]", "post_start"),
    ({"post_start": [{"command": "vllm serve a/b"}] * 3}, "post_start[0]", "post_start"),
    ({"post_start": [{"command": "sleep 1"}, {"command": ["vllm", "serve", "a/b"]}]}, "post_start[1]", "post_start"),
    ({"pre_stop": [{"command": ["sh", "-c", "vllm serve $$M &"]}]}, "pre_stop[0]", "pre_stop"),
    ({"healthcheck": {"test": "vllm serve a/b &"}}, "healthcheck", "healthcheck"),
    ({"healthcheck": {"test": ["CMD-SHELL", "vllm serve ${M:-a/b}"]}}, "healthcheck", "healthcheck"),
    ({"healthcheck": {"test": ["CMD", "vllm", "serve", "a/b"]}}, "healthcheck", "healthcheck"),
]


@table("case", COMPOSE)
@table("service", [SLEEPS, {"image": VLLM, "command": ["--model=a/b"]}])
def test_hooks_and_checks_of_compose_that_start_vllm_are_items(
    case: tuple[dict[str, Any], str, str], service: dict[str, Any]
) -> None:
    hooks, path, name = case
    found = read({"services": {"a": {**service, **hooks}}})
    assert [(each.path, each.problem) for each in found if each.problem] == [(f"services.a.{path}", problem(name))]
    assert [each.notes for each in found if not each.problem] == ([] if service is SLEEPS else [[]])


@table(
    "hooks",
    [
        {"post_start": [{"command": "sleep 1"}, {"command": ["curl", "x"]}]},
        {"pre_stop": [{"command": "kill 1"}, {}, 1, {"command": "'"}, {"command": "${"}]},
        {"healthcheck": {"test": ["CMD-SHELL", "pgrep -f 'vllm serve' || exit 1"]}},
        *(
            {"healthcheck": {"test": test}}
            for test in ("curl vllm", ["NONE"], [], None, 1, ["CMD"], ["CMD-SHELL"], [1])
        ),
        {"healthcheck": {"disable": True}},
        {"healthcheck": 1},
        {"healthcheck": {"test": "${"}},
    ],
)
def test_other_hooks_and_checks_of_compose_are_ignored(hooks: dict[str, Any]) -> None:
    assert read({"services": {"a": {**SLEEPS, **hooks}}}) == []
    (found,) = read({"services": {"a": {"image": VLLM, "command": ["--model=a/b"], **hooks}}})
    assert (found.problem, found.notes) == ("", [])


def unit(setting: str) -> dict[str, str]:
    return {"unit": f"[Service]\nExecStart=/bin/sleep infinity\nEnvironment=M=a/b\n{setting}\n"}


def quadlet(setting: str) -> dict[str, str]:
    return {"unit": f"[Container]\nImage=docker.io/alpine\nExec=sleep infinity\n{setting}\n"}


def script(options: str) -> dict[str, str]:
    return {"script": f"docker run {options} alpine sleep infinity"}


def task(**fields: Any) -> dict[str, Any]:
    job = {"Driver": "docker", "Config": {"image": "alpine", "command": "sleep", "args": ["infinity"]}}
    return {"Job": {"TaskGroups": [{"Tasks": [{**job, **fields}]}]}}


SERVICE = [{"Checks": [{"Type": "script", "Command": "vllm", "Args": ["serve", "a/b"]}]}]
OTHER_SERVICE = [{"Checks": [{"Type": "script", "Command": "curl", "Args": ["vllm"]}, {"Type": "http"}]}]
OTHER_DOCUMENTS: list[tuple[Callable[[], Any], str]] = [
    (lambda: unit("ExecStartPost=/usr/bin/vllm serve $M"), "ExecStartPost"),
    (lambda: unit("ExecStartPost=/bin/true\nExecStartPost=-/bin/sh -c 'vllm serve a/b &'"), "ExecStartPost"),
    (lambda: unit("ExecReload=/bin/sh -c 'vllm serve a/b'"), "ExecReload"),
    (lambda: unit("ExecStopPost=/bin/sh -c 'vllm serve a/b'"), "ExecStopPost"),
    (lambda: quadlet("HealthCmd=vllm serve a/b"), "--health-cmd"),
    (lambda: quadlet("HealthStartupCmd=vllm serve a/b"), "--health-startup-cmd"),
    (lambda: script("--health-cmd 'vllm serve a/b'"), "--health-cmd"),
    (lambda: script("--health-cmd='vllm serve a/b &'"), "--health-cmd"),
    (lambda: task(Services=SERVICE), "Checks"),
    (lambda: {"Job": {"TaskGroups": [{"Services": SERVICE, "Tasks": []}]}}, "Checks"),
    (lambda: task(Templates=[{"ChangeScript": {"Command": "sh", "Args": ["-c", "vllm serve a"]}}]), "ChangeScript"),
]


@table(("document", "name"), OTHER_DOCUMENTS)
def test_hooks_of_other_documents_that_start_vllm_are_items(document: Callable[[], Any], name: str) -> None:
    assert [each.problem for each in read(document())] == [problem(name)]


@table(
    "document",
    [
        *(unit("ExecStartPost=/bin/sleep 1"), unit("ExecReload=/bin/kill -HUP $MAINPID")),
        *(unit("ExecStartPost=/usr/bin/vllm serve a\nExecStartPost="), unit("ExecStop=/usr/bin/docker stop vllm")),
        *(quadlet("HealthCmd=curl vllm"), script("--health-cmd 'curl -f http://vllm/'"), script("--health-cmd=")),
        *(task(Services=OTHER_SERVICE), task(Templates=[{"ChangeScript": None}, {"ChangeScript": {"Args": 1}}])),
    ],
)
def test_other_hooks_of_other_documents_are_ignored(document: Any) -> None:
    assert read(document) == []
