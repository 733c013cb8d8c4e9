"""What hooks and probes do before the engine has started: the same doubts as by the container's own script."""

from __future__ import annotations

import shlex
from datetime import date
from typing import TYPE_CHECKING, Any

from tables import table

from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from collections.abc import Callable

    from deployments import Asking

TODAY = date(2026, 1, 1)
IMAGE = "vllm/vllm-openai:v0.24.0"
MODEL = "Qwen/dense"
WAITS = "until [ -f /tmp/r ]; do sleep 1; done; exec vllm serve "
CHANGES = [
    "pip uninstall -y triton; touch /tmp/r",
    "pip install vllm==0.21.0; touch /tmp/r",
    "pip install -r /cfg/requirements.txt",
    ". /cfg/activate.sh",
    "echo 'import os' > /usr/lib/python3.12/sitecustomize.py; touch /tmp/r",
    "curl -o /usr/local/bin/vllm http://x/vllm",
    "tar -C / -xf /models/x.tar",
    "cp -r /models/x /vllm-workspace/Qwen/dense",
    "sed -i s/a/b/ Qwen/dense/config.json",
    "cd /vllm-workspace && git clone http://x/dense Qwen/dense",
    "/cfg/prepare.sh",
    "bash /cfg/prepare.sh",
    "python3 /cfg/x.py",
    "python3 -c 'import os; os.system(\"x\")'",
    "python3 < /cfg/x.py",
    "/cfg/healthcheck --port 8000",
    "if [ -f /x ]; then pip uninstall -y triton; fi",
    "cat /cfg/x | sh",
    "$PROBE http://localhost",
    *("perl /cfg/x.pl", "perl -w /cfg/x 1", "ruby /cfg/x.rb", "node /cfg/x.js", "php /cfg/x.php", "lua5.4 /cfg/x.lua"),
    *("awk -f /cfg/x", "gawk --file=/cfg/x", "tclsh /cfg/x", "expect /cfg/x"),
    *("find /cfg -type f -exec {} ';'", "find /cfg -exec bash {} +", "find /cfg -execdir python3 {} +"),
]
HARMLESS = [
    "curl -fsS http://localhost:8000/health",
    "wget -q -O - http://localhost:8000/health || exit 1",
    "test -f /tmp/ready",
    "[ -f /tmp/ready ] && cat /tmp/ready",
    "cat /proc/1/status",
    "nvidia-smi",
    "nvidia-smi -L | grep -q GPU",
    "/bin/grpc_health_probe -addr=:8000",
    "python3 -c 'import urllib.request; urllib.request.urlopen(\"http://localhost:8000/health\")'",
    "curl -s localhost:8000/v1/models | jq -e '.data | length > 0'",
    "curl -s localhost:8000/metrics | grep -c vllm || exit 1",
    "pgrep -f api_server",
    "ray status",
    "touch /tmp/r; sleep 5",
    "echo ready > /tmp/r",
    "nc -z localhost 8000",
    "kill -0 1",
    "mkdir -p /tmp/cache && chmod 777 /tmp/cache",
    "python3 ./huggingfaceserver/health_check.py registered_nodes --retries 3",
    "exit 0; pip uninstall -y triton",
    *("perl -v", "node --version", "perl -ne 'print if /x/' /tmp/log", "awk '{print $1}' /proc/meminfo"),
    *("awk -F: '$1 > 1 {exit 1}' /proc/loadavg", "find /tmp -name '*.lock' -exec rm {} +", "find /tmp -mmin -5"),
]


def decided(ask: Asking, document: dict[str, Any]) -> list[str]:
    """The warnings of the decision, but those of a version that the document does not show."""
    configs = {MODEL: ask.request(["--model", "dense"])["deployment"]["model_configs"]["dense"]}
    asked = read_request_or_manifest(
        {"manifest": document, "model_configs": configs, "vllm_version": "0.24.0"}, ask.policy.releases, ""
    )
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY).warnings


def pod(**fields: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": IMAGE, **fields}]}}


def hooked(place: str, words: list[str], **fields: Any) -> dict[str, Any]:
    value: Any = {"exec": {"command": words}}
    for key in reversed(place.split(".")):
        value = {key: value}
    return pod(command=["bash", "-c", WAITS + MODEL], workingDir="/vllm-workspace", **{**value, **fields})


def service(**fields: Any) -> dict[str, Any]:
    entry_point = ["bash", "-c", WAITS + MODEL]
    return {"services": {"a": {"image": IMAGE, "entrypoint": entry_point, "working_dir": "/vllm-workspace", **fields}}}


def unit(name: str, script: str) -> dict[str, str]:
    command = f'/bin/sh -c "{script}"'.replace("$", "$$").replace("%", "%%") if '"' not in script else script
    start = f"ExecStart=/usr/bin/vllm serve {MODEL}\nWorkingDirectory=/vllm-workspace"
    return {"unit": f"[Service]\n{start}\n{name}={command}\n"}


def quadlet(name: str, script: str) -> dict[str, str]:
    start = f"Image={IMAGE}\nExec=--model {MODEL}\nWorkingDir=/vllm-workspace"
    return {"unit": f"[Container]\n{start}\n{name}={script}\n"}


def job(script: str, place: str) -> dict[str, Any]:
    check = {"Type": "script", "Command": "sh", "Args": ["-c", script], "TaskName": "t"}
    config = {"image": IMAGE, "args": ["--model", MODEL], "work_dir": "/vllm-workspace"}
    task: dict[str, Any] = {"Name": "t", "Driver": "docker", "Config": config}
    if place == "template":
        task["Templates"] = [{"ChangeScript": check}]
    elif place == "task":
        task["Services"] = [{"Checks": [check]}]
    services = [{"Checks": [check]}] if place == "group" else []
    return {"Job": {"TaskGroups": [{"Tasks": [task], "Services": services}]}}


def doubled(script: str) -> str:
    return script.replace("$", "$$")


HOOKS: list[tuple[str, Callable[[str], dict[str, Any]]]] = [
    *(
        (place, lambda script, place=place: hooked(place, ["sh", "-c", script]))
        for place in ("lifecycle.postStart", "startupProbe", "readinessProbe", "livenessProbe")
    ),
    ("startupProbe", lambda script: hooked("startupProbe", ["/bin/bash", "-ec", script])),
    (
        "startupProbe",
        lambda script: pod(
            args=["--model", MODEL],
            workingDir="/vllm-workspace",
            startupProbe={"exec": {"command": ["sh", "-c", script]}},
        ),
    ),
    ("post_start", lambda script: service(post_start=[{"command": ["sh", "-c", doubled(script)]}])),
    ("pre_stop", lambda script: service(pre_stop=[{"command": ["sh", "-c", doubled(script)]}])),
    ("healthcheck", lambda script: service(healthcheck={"test": doubled(script)})),
    ("healthcheck", lambda script: service(healthcheck={"test": ["CMD-SHELL", doubled(script)]})),
    ("healthcheck", lambda script: service(healthcheck={"test": ["CMD", "bash", "-c", doubled(script)]})),
    (
        "--health-cmd",
        lambda script: {
            "script": f"docker run -w /vllm-workspace --health-cmd {shlex.quote(script)} {IMAGE} --model {MODEL}"
        },
    ),
    ("Checks", lambda script: job(script, "task")),
    ("Checks", lambda script: job(script, "group")),
    ("ChangeScript", lambda script: job(script, "template")),
]


@table("script", CHANGES)
def test_a_hook_or_probe_may_change_what_the_engine_loads(ask: Asking, script: str) -> None:
    own = pod(command=["bash", "-c", f"{script}\nexec vllm serve {MODEL}"], workingDir="/vllm-workspace")
    assert decided(ask, own) != []
    assert [name for name, document in HOOKS if decided(ask, document(script)) == []] == []


@table(("name", "document"), HOOKS)
def test_other_hooks_and_probes_give_no_warning(
    ask: Asking, name: str, document: Callable[[str], dict[str, Any]]
) -> None:
    without = decided(ask, document("true"))
    assert [script for script in HARMLESS if decided(ask, document(script)) != without] == [], name


SERVES = f"vllm serve {MODEL}"
NO_TRITON = (
    "`pip uninstall` of `triton` may leave vLLM without Triton or with another one, and it chooses the runner by "
    "whether Triton works"
)
UNCLOSED = (
    "`readinessProbe` may run before the start and cannot be read: the quote `'` at character 6 is not closed; close it"
)
OTHER = "; decided for vLLM 0.24.0, which may not be the one that runs"


@table(
    ("place", "words", "expected"),
    [
        ("startupProbe", ["pip", "uninstall", "-y", "triton"], [NO_TRITON]),
        (
            "livenessProbe",
            ["/cfg/x.sh"],
            ["the file `/cfg/x.sh` is a script that is not read, and `livenessProbe` may run it before the start"],
        ),
        (
            "readinessProbe",
            ["sh", "-c", "echo 'x"],
            [UNCLOSED],
        ),
        (
            "lifecycle.postStart",
            ["cp", "/x/config.json", "Qwen/dense/config.json"],
            [f"`cp` may change the files of the folder `{MODEL}` before vLLM loads them"],
        ),
        (
            "lifecycle.postStart",
            ["timeout", "9", "sh", "-c", "rm -r /usr/local/lib/python3.12/dist-packages/vllm"],
            ["`timeout` may replace or remove the vLLM of the image before the start" + OTHER],
        ),
        ("lifecycle.preStop", ["/cfg/drain.sh"], []),
        ("lifecycle.preStop", ["pip", "uninstall", "-y", "triton"], []),
        ("livenessProbe", ["bash", "--version"], []),
        ("livenessProbe", ["bash", "-n", "-c", "/cfg/prepare.sh"], []),
        ("livenessProbe", ["bash", "-c"], []),
    ],
)
def test_the_warning_names_the_command_and_its_field(
    ask: Asking, place: str, words: list[str], expected: list[str]
) -> None:
    assert decided(ask, hooked(place, words)) == expected


def test_a_version_that_a_hook_installs_is_not_certain(ask: Asking) -> None:
    (warning,) = decided(ask, hooked("startupProbe", ["pip", "install", "vllm==0.21.0"]))
    assert warning.endswith(OTHER)


def test_a_hook_of_compose_has_a_working_folder_of_its_own(ask: Asking) -> None:
    hook: dict[str, Any] = {"command": ["tar", "-xf", "/x.tar"]}
    assert decided(ask, service(post_start=[{**hook, "working_dir": "/data"}])) == []
    assert decided(ask, service(post_start=[hook])) == []
    assert decided(ask, service(post_start=[{**hook, "working_dir": "/vllm-workspace/Qwen"}])) != []


@table("name", ["ExecCondition", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost"])
def test_the_hooks_of_a_unit_that_starts_vllm_count(ask: Asking, name: str) -> None:
    plain = decided(ask, unit(name, "/bin/true"))
    assert NO_TRITON in decided(ask, unit(name, "pip uninstall -y triton"))
    assert [each for each in plain if "Triton" in each] == []
    found = decided(ask, unit(name, "/cfg/x.sh"))
    assert found[0].startswith(f"the file `/cfg/x.sh` is a script that is not read, and `{name}` may run it")


@table("name", ["HealthCmd", "HealthStartupCmd"])
def test_the_health_checks_of_a_quadlet_count(ask: Asking, name: str) -> None:
    assert decided(ask, quadlet(name, "pip uninstall -y triton")) == [NO_TRITON]
    assert decided(ask, quadlet(name, "curl -f http://localhost:8000/health")) == []


@table("place", ["livenessProbe", "readinessProbe"])
def test_the_probes_beside_the_pod_of_a_dynamo_service_count(ask: Asking, place: str) -> None:
    container = {"image": IMAGE, "command": ["python3", "-m", "dynamo.vllm", "--model", MODEL]}
    service = {"componentType": "worker", "extraPodSpec": {"mainContainer": container}}
    kind = {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoGraphDeployment", "metadata": {"name": "x"}}

    def graph(*words: str) -> dict[str, Any]:
        return {**kind, "spec": {"services": {"W": {**service, place: {"exec": {"command": [*words]}}}}}}

    plain = decided(ask, graph("curl", "localhost"))
    assert decided(ask, graph("pip", "uninstall", "-y", "triton")) == [*plain, NO_TRITON]


@table(
    ("script", "file"),
    [
        ("perl -w /cfg/x.pl 1", "/cfg/x.pl"),
        ("lua5.4 ./x", "./x"),
        *((f"awk {option} '{{print}}' y", "/x") for option in ("-f /x", "-f/x", "--file /x", "--file=/x")),
        ("find . -exec {} ';'", "{}"),
    ],
)
def test_a_file_of_an_interpreter_is_named(ask: Asking, script: str, file: str) -> None:
    program = script.split(maxsplit=1)[0]
    why = f"`{program}` runs the file `{file}`, which is not read, and `livenessProbe` may run it before the start"
    assert decided(ask, hooked("livenessProbe", ["sh", "-c", script])) == [why]
    own = decided(ask, pod(command=["sh", "-c", f"{script}; exec vllm serve {MODEL}"]))
    assert own == [why.replace("`livenessProbe` may run it before the start", "the script runs it as well")]
