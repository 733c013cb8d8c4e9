"""Ray clusters: the containers and jobs that start vLLM, and clusters in which nothing does."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest, shipped_images
from tables import table

from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.words import Unknown
from policy.intake.manifests import registry

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container

IMAGE = "vllm/vllm-openai:v0.23.0"
KEEPS = {"annotations": {"ray.io/overwrite-container-cmd": "true"}}
AIBRIX = "orchestration.aibrix.ai/v1alpha1"


def group(**container: Any) -> dict[str, Any]:
    return {"template": {"spec": {"containers": [{"name": "ray", "image": IMAGE, **container}]}}}


def cluster(head: dict[str, Any], worker: dict[str, Any]) -> dict[str, Any]:
    return {"headGroupSpec": head, "workerGroupSpecs": [worker]}


SERVES = ["vllm", "serve", "org/m"]
SILENT = cluster(group(), group())
STARTED = cluster(group(command=SERVES), group())


def document(kind: str, spec: dict[str, Any], version: str = "ray.io/v1") -> dict[str, Any]:
    return {"apiVersion": version, "kind": kind, "metadata": {"name": "c"}, "spec": spec}


def engines(found: dict[str, Any]) -> tuple[list[Container], list[str]]:
    faults: list[RequestFault] = []
    ignored: list[str] = []
    containers = read_manifest([found], "", faults, ignored)
    assert faults == []
    return containers, ignored


def own(container: Container) -> dict[str, str | None]:
    """The variables of a container but those that KubeRay sets, whose values are not known."""
    env = container.env
    return {
        name: value for name, value in env.items() if value is not None or ("RAY" not in name and "REDIS" not in name)
    }


@pytest.mark.parametrize("kind", ["RayClusterFleet", "RayClusterReplicaSet"])
def test_a_fleet_is_read_as_the_clusters_that_it_makes(kind: str) -> None:
    fleet = document(kind, {"template": {"metadata": KEEPS, "spec": STARTED}}, AIBRIX)
    paths = ["headGroupSpec.template", "workerGroupSpecs[0].template"]
    assert [each.path for each in engines(fleet)[0]] == [
        f"[0].spec.template.spec.{path}.spec.containers[0]" for path in paths
    ]
    fleet = document(kind, {"template": {"spec": STARTED}}, AIBRIX)
    assert [each.path for each in engines(fleet)[0]] == [f"[0].spec.template.spec.{paths[0]}.spec.containers[0]"]


JOINED = "KubeRay joins the words of the command with blanks, and a shell splits and expands them again"
OTHERWISE = "KubeRay joins the words of the command with blanks, and what a shell makes of them is not vLLM's server"
SETS = ["bash", "-c", "export VLLM_USE_V2_MODEL_RUNNER=0; vllm serve org/m"]


def variable(name: str, value: str) -> dict[str, Any]:
    return {"env": [{"name": name, "value": value}]}


def script(text: str, place: str = "command") -> tuple[list[str], list[str]]:
    added = ["/bin/bash", "-c", "--"]
    return [*added, f"{text} && ulimit -n 65536; ray start"], ["added by KubeRay"] * len(added) + [place]


def as_written(words: list[str], name: str = "command") -> tuple[list[str], list[str]]:
    return words, [f"{name}[{at}]" for at in range(len(words))]


@table(
    ("container", "expected", "doubt"),
    [
        ({"command": SERVES}, as_written(SERVES), ""),
        ({"args": SERVES}, as_written(SERVES, "args"), ""),
        (
            {"command": ["V=0", "env", "A=b", *SERVES, "--port=80"]},
            as_written(["V=0", "env", "A=b", *SERVES, "--port=80"]),
            "",
        ),
        (
            {"command": [*SERVES, "--port=$(P)"], **variable("P", "80")},
            as_written([*SERVES, "--port=$(P)"]),
            "",
        ),
        ({"command": [*SERVES, "--port=$(P)"]}, script(" vllm  serve  org/m  --port=$(P) "), JOINED),
        (
            {"command": [*SERVES, "--port=$(P)"], **variable("P", "80 --x")},
            script(" vllm  serve  org/m  --port=$(P) "),
            JOINED,
        ),
        (
            {"command": [*SERVES, "--served-model-name", "$X"]},
            script(" vllm  serve  org/m  --served-model-name  $X "),
            JOINED,
        ),
        *(
            ({"command": [*SERVES, word]}, script(f" vllm  serve  org/m  {word} "), JOINED)
            for word in (
                '{"a":"b"}',
                "a b",
                "",
                "~",
                "a*",
                "[ab]",
                "x#",
                "{a,b}",
                "a;b",
                "a|b",
                "a&",
                "`a`",
                "\\a",
                "!a",
                "é",
            )
        ),
        ({"command": SETS}, script(" bash  -c  export VLLM_USE_V2_MODEL_RUNNER=0; vllm serve org/m "), JOINED),
        ({"command": ["echo", "x; vllm serve org/m"]}, script(" echo  x; vllm serve org/m "), JOINED),
        ({"command": ["vllm serve org/m"]}, script(" vllm serve org/m "), JOINED),
        ({"args": ["vllm serve", "org/m"]}, script(" vllm serve  org/m ", "args"), JOINED),
        ({"command": ["bash", "-c", "vllm serve org/m"]}, as_written(["bash", "-c", "vllm serve org/m"]), OTHERWISE),
        ({"command": [*SERVES, "--port={{ .port }}"]}, as_written([*SERVES, "--port={{ .port }}"]), JOINED),
        ({"command": [*SERVES, "'"]}, as_written([*SERVES, "'"]), OTHERWISE),
        *(
            ({"command": SERVES, **variable(name, "x")}, script(" vllm  serve  org/m "), JOINED)
            for name in ("BASH_ENV", "SHELLOPTS", "BASH_FUNC_vllm%%")
        ),
        (
            {"command": ["bash", "-c", "ray start --head; vllm serve org/m"]},
            as_written(["bash", "-c", "ray start --head; vllm serve org/m"]),
            "",
        ),
    ],
)
@table("kind", ["RayCluster", "RayService", "RayJob", "RayClusterFleet"])
def test_kuberay_makes_a_script_of_the_command_of_rays_container(
    kind: str, container: dict[str, Any], expected: tuple[list[str], list[str]], doubt: str
) -> None:
    for found_in in (cluster(group(**container), group()), cluster(group(), group(**container))):
        ((found,), _) = engines(of_cluster(kind, found_in))
        assert (found.words, found.places) == expected
        assert [each.partition(";")[0] for each in found.doubts] == ([doubt] if doubt else [])
        for value in ("true", "True"):
            kept = engines(of_cluster(kind, found_in, {"ray.io/overwrite-container-cmd": value}))[0]
            assert [each for each in kept if each.doubts or "added by KubeRay" in each.places] == []


def of_cluster(kind: str, spec: dict[str, Any], annotations: dict[str, str] | None = None) -> dict[str, Any]:
    metadata = {"metadata": {"annotations": annotations}} if annotations else {}
    if kind == "RayClusterFleet":
        return document(kind, {"template": {**metadata, "spec": spec}}, AIBRIX)
    fields = {"RayCluster": spec, "RayService": {"rayClusterConfig": spec}, "RayJob": {"rayClusterSpec": spec}}
    return {**document(kind, fields[kind]), **metadata}


@table(
    "container",
    [
        {"command": ["echo", "a b"]},
        {"command": ["ray", "start", "--head", "--block"]},
        {"args": ["--model", "org/m"]},
        {"args": ["serve", "run", "app:app"], "image": "rayproject/ray:2.50.0"},
    ],
)
def test_a_command_that_starts_no_vllm_after_it_is_joined_is_ignored(container: dict[str, Any]) -> None:
    assert engines(document("RayCluster", cluster(group(**container), group(image="ray:1"))))[0] == []


def test_only_the_first_container_of_a_pod_is_rewritten() -> None:
    pods = group()
    pods["template"]["spec"]["containers"].append({"name": "x", "image": IMAGE, "command": SETS})
    ((found,), _) = engines(document("RayCluster", cluster(pods, group())))
    assert (found.words, found.doubts) == (SETS, [])


def test_the_pod_that_submits_a_job_may_start_vllm() -> None:
    for command, words in ((SERVES, [SERVES]), (["ray", "job", "submit"], []), (None, [])):
        submitter = {"name": "s", "image": IMAGE, **({} if command is None else {"command": command})}
        spec = {"rayClusterSpec": SILENT, "submitterPodTemplate": {"spec": {"containers": [submitter]}}}
        found = engines(document("RayJob", spec))[0]
        assert [each.words for each in found] == words
        assert [each.path for each in found] == ["[0].spec.submitterPodTemplate.spec.containers[0]"] * len(words)


def test_a_pod_set_has_a_pod_template() -> None:
    pods = document("PodSet", {"podGroupSize": 2, "template": group(command=SERVES)["template"]}, AIBRIX)
    assert [each.words for each in engines(pods)[0]] == [SERVES]


@pytest.mark.parametrize(
    ("entrypoint", "words"),
    [
        ("vllm serve org/m -tp 2", ["sh", "-c", "vllm serve org/m -tp 2"]),
        ("echo $A && vllm serve org/m", ["sh", "-c", "echo $$A && vllm serve org/m"]),
        ("ray status", None),
        ("", None),
        (None, None),
    ],
)
def test_the_command_of_a_job_runs_in_the_container_of_the_head(
    entrypoint: str | None, words: list[str] | None
) -> None:
    head = group(env=[{"name": "A", "value": "1"}])
    job = document("RayJob", {"entrypoint": entrypoint, "rayClusterSpec": cluster(head, group(image="ray:1"))})
    found, ignored = engines(job)
    assert [(each.path, each.words, each.image, own(each)) for each in found] == (
        [("[0].spec.entrypoint", words, IMAGE, {"A": "1"})] if words else []
    )
    assert ignored == ([] if words else ["[0]"])


SUBMITTED = "a shell of the container that submits the job splits and expands the command before the shell of the head"
NOT_KNOWN = "with the `submissionMode` {} it is not known how Ray gets the command"


@table(
    ("mode", "entrypoint", "doubt"),
    [
        *(
            (mode, entrypoint, "")
            for mode in (None, "", "K8sJobMode", "SidecarMode", "HTTPMode")
            for entrypoint in (
                "vllm serve org/m",
                "V=0 vllm serve org/m --port=80 -tp 2",
                " vllm\tserve  org/m\n",
                "python3 -m vllm.entrypoints.openai.api_server --model org/m",
            )
        ),
        *(
            (mode, f"vllm serve org/m --served-model-name {word}", "" if mode == "HTTPMode" else SUBMITTED)
            for mode in (None, "K8sJobMode", "SidecarMode", "HTTPMode")
            for word in (
                "$X",
                "${X}",
                "'a'",
                '"a"',
                "a;b",
                "a&&b",
                "a|b",
                "a>b",
                "a<b",
                "\\a",
                "`a`",
                "a*",
                "~",
                "{a,b}",
                "!a",
            )
        ),
        *(
            (mode, "export V=0; vllm serve org/m", "" if mode == "HTTPMode" else SUBMITTED)
            for mode in (None, "HTTPMode")
        ),
        (None, "vllm serve org/m\n--port 80", SUBMITTED),
        (None, "(vllm serve org/m)", SUBMITTED),
        *((mode, "vllm serve org/m", NOT_KNOWN.format(f"`{mode}`")) for mode in ("InteractiveMode", "httpMode")),
        (3, "vllm serve org/m", NOT_KNOWN.format("`3`")),
    ],
)
def test_a_command_that_is_submitted_by_another_shell_is_certain_if_that_shell_does_not_change_it(
    mode: object, entrypoint: str, doubt: str
) -> None:
    fields = {} if mode is None else {"submissionMode": mode}
    ((found,), _) = engines(
        document(
            "RayJob", {"entrypoint": entrypoint, "rayClusterSpec": cluster(group(), group(image="ray:1")), **fields}
        )
    )
    words = expand_words(found.words, found.env)
    assert (words, found.places) == (["sh", "-c", entrypoint], ["entrypoint"] * 3)
    assert [each.partition(" does;")[0] for each in found.doubts] == ([doubt] if doubt else [])


@table(
    ("mode", "entrypoint", "words"),
    [
        (None, "echo ';vllm' serve org/m", "echo ;vllm serve org/m"),
        (None, "echo a\\;vllm serve org/m", "echo a;vllm serve org/m"),
        ("SidecarMode", "echo ';vllm' serve org/m 'a b'", 'echo ;vllm serve org/m "a b"'),
        ("HTTPMode", "echo ';vllm' serve org/m", None),
        (None, "echo '; vllm serve org/m'", None),
        (None, "echo 'a", None),
        (None, "#", None),
    ],
)
def test_a_command_that_starts_vllm_only_after_it_is_submitted_is_an_engine(
    mode: str | None, entrypoint: str, words: str | None
) -> None:
    spec = {"entrypoint": entrypoint, "submissionMode": mode, "rayClusterSpec": cluster(group(image="ray:1"), group())}
    found, _ = engines(document("RayJob", spec))
    assert [each.words for each in found] == ([] if words is None else [["sh", "-c", words]])
    assert [each.partition(" does;")[0] for one in found for each in one.doubts] == [SUBMITTED] * len(found)


@table(
    ("text", "env", "image"),
    [
        ("env_vars: {A: b}", {"A": "b"}, IMAGE),
        ("env_vars: {A: $B}\npip: [requests]", {"A": None}, IMAGE),
        ("env_vars: {B: c}", {"A": "1", "B": "c"}, IMAGE),
        ("image_uri: rayproject/ray:2.50.0", {"A": None}, "rayproject/ray:2.50.0"),
        ("", {"A": "1"}, IMAGE),
        (None, {"A": "1"}, IMAGE),
    ],
)
def test_the_variables_of_a_job_are_those_of_the_head_and_of_its_environment(
    text: str | None, env: dict[str, str | None], image: str
) -> None:
    head = group(env=[{"name": "A", "value": "1"}])
    spec = {"entrypoint": "vllm serve org/m", "runtimeEnvYAML": text, "rayClusterSpec": cluster(head, group())}
    ((found,), _) = engines(document("RayJob", spec))
    assert (found.image, own(found), found.has_hidden_variables, found.notes) == (image, env, False, [])


@table(
    ("mode", "entrypoint", "command"),
    [
        ("HTTPMode", "vllm serve org/m --port $(P) --seed $$", "vllm serve org/m --port $(P) --seed $$"),
        ("K8sJobMode", "vllm serve org/m --port $(P)", "vllm serve org/m --port $(P)"),
        ("K8sJobMode", "vllm serve org/m --port $(S)", "vllm serve org/m --port 90"),
        ("SidecarMode", "vllm serve org/m --port $$(S)", "vllm serve org/m --port $(S)"),
        ("K8sJobMode", "vllm serve org/m --port $(U)", Unknown("vllm serve org/m --port $(U)")),
        (None, "vllm serve org/m --kv-transfer-config '$(J)'", 'vllm serve org/m --kv-transfer-config "{\\"a b\\":1}"'),
    ],
)
def test_kubernetes_expands_a_command_only_in_the_container_that_submits_it(
    mode: str | None, entrypoint: str, command: str
) -> None:
    unknown = {"name": "U", "valueFrom": {"secretKeyRef": {"name": "s", "key": "u"}}}
    own: list[dict[str, Any]] = [{"name": "S", "value": "90"}, {"name": "J", "value": '{"a b":1}'}, unknown]
    spec = {
        "entrypoint": entrypoint,
        "submissionMode": mode,
        "submitterPodTemplate": group(image="ray:1", env=own)["template"],
        "rayClusterSpec": cluster(group(**variable("P", "80")), group()),
    }
    ((found,), _) = engines(document("RayJob", spec))
    (word,) = expand_words(found.words[2:], found.env)
    assert (type(word), word) == (type(command), command)


ELSEWHERE = (
    "the cluster in which Ray runs the command is not in the manifest, so that its image, variables and mounts are not "
    "known"
)


@table(
    ("fields", "is_elsewhere"),
    [
        ({"clusterSelector": {"ray.io/cluster": "c"}}, True),
        ({}, True),
        ({"rayClusterSpec": STARTED, "clusterSelector": {"ray.io/cluster": "c"}}, True),
        ({"rayClusterSpec": SILENT, "clusterSelector": {}}, False),
        ({"rayClusterSpec": SILENT}, False),
    ],
)
def test_the_cluster_of_a_job_may_be_elsewhere(
    fields: dict[str, Any],
    is_elsewhere: bool,  # noqa: FBT001  # a table's value
) -> None:
    spec = {"entrypoint": "vllm serve org/m", **fields}
    found = engines(document("RayJob", spec))[0][0]
    assert (found.doubts, found.has_hidden_variables) == ([ELSEWHERE] if is_elsewhere else [], is_elsewhere)


OWN_COMMAND = (
    "the container that submits the job has a command of its own (`submitterPodTemplate`), which may start something "
    "else than `entrypoint`"
)


@table(
    ("containers", "mode", "is_other"),
    [
        *(([{"command": ["bash", "x.sh"]}], mode, True) for mode in (None, "K8sJobMode", "SidecarMode")),
        ([{"command": ["bash", "x.sh"]}], "HTTPMode", False),
        ([{"command": []}], None, False),
        ([{"args": ["x"]}], None, False),
        ([{}, {"command": ["bash", "x.sh"]}], None, False),
        ([], None, False),
    ],
)
def test_the_container_that_submits_a_job_may_start_something_else(
    containers: list[dict[str, Any]],
    mode: str | None,
    is_other: bool,  # noqa: FBT001  # a table's value
) -> None:
    pods = [{"name": f"s{number}", "image": "rayproject/ray:2.57", **each} for number, each in enumerate(containers)]
    submitter = {"submitterPodTemplate": {"spec": {"containers": pods}}, "submissionMode": mode}
    spec = {"entrypoint": "vllm serve org/m", "rayClusterSpec": SILENT, **submitter}
    ((found,), _) = engines(document("RayJob", spec))
    assert found.doubts == ([OWN_COMMAND] if is_other else [])


@table(
    ("field", "value", "is_anywhere"),
    [
        *(("entrypointNumGpus", value, True) for value in (1, 0.5, "1")),
        *(("entrypointNumGpus", value, True) for value in ({"a": 1}, [1])),
        *(("entrypointNumCpus", 1, True), ("entrypointResources", '{"x": 1}', True)),
        *(("entrypointNumGpus", 0, False), ("entrypointResources", "", False), ("entrypointNumCpus", None, False)),
    ],
)
@table(
    ("worker", "is_other"),
    [
        ({}, False),
        ({"resources": {"limits": {"nvidia.com/gpu": 1}}}, False),
        ({"image": "vllm/vllm-openai:v0.24.0"}, True),
        ({"env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]}, True),
        ({"envFrom": [{"secretRef": {"name": "x"}}]}, True),
        ({"volumeMounts": [{"name": "v", "mountPath": "/usr/local/bin"}]}, True),
        ({"workingDir": "/x"}, True),
    ],
)
def test_a_job_that_asks_for_resources_may_run_in_a_worker_s_container(
    field: str,
    value: object,
    worker: dict[str, Any],
    is_anywhere: bool,  # noqa: FBT001  # a table's value
    is_other: bool,  # noqa: FBT001  # a table's value
) -> None:
    spec = {"entrypoint": "vllm serve org/m", field: value, "rayClusterSpec": cluster(group(), group(**worker))}
    found = next(each for each in engines(document("RayJob", spec))[0] if each.path == "[0].spec.entrypoint")
    doubt = f"`{field}` lets Ray run the command in a container of another group, which differs from the head's"
    assert found.doubts == ([doubt] if is_anywhere and is_other else [])


def test_a_job_without_a_cluster_has_the_variables_of_its_environment() -> None:
    ((found,), _) = engines(document("RayJob", {"entrypoint": "vllm serve org/m"}))
    assert (found.image, found.env) == (None, {})


@pytest.mark.parametrize(
    ("text", "version", "cause"),
    [
        ("pip: [vllm==0.29.0]", "0.29.0", "`pip install` installs vLLM 0.29.0 before the start"),
        ("working_dir: https://example.com/a.zip", None, "`runtime_env.working_dir` may make another vLLM run"),
    ],
)
def test_the_environment_of_a_job_may_make_another_vllm_run(text: str, version: str | None, cause: str) -> None:
    spec = {"entrypoint": "vllm serve org/m", "runtimeEnvYAML": text, "rayClusterSpec": SILENT}
    ((found,), _) = engines(document("RayJob", spec))
    assert found.installation is not None
    assert (found.installation.version, found.installation.cause) == (version, cause)


@table(
    ("spec", "ignored"),
    [
        (SILENT, ["[0]"]),
        (cluster(group(command=["ray", "start", "--head", "--block"]), group(image="ray:1")), ["[0]"]),
        (cluster(group(image="$VLLM_IMAGE"), group(image="ray:1")), ["[0]"]),
        (cluster(group(image="ray:1"), group(image="ray:1")), []),
        (STARTED, []),
        ({}, []),
    ],
)
def test_a_cluster_with_an_image_of_vllm_in_which_nothing_starts_it_is_ignored_by_name(
    spec: dict[str, Any], ignored: list[str]
) -> None:
    assert engines(document("RayCluster", spec))[1] == ignored
    assert engines(document("RayService", {"rayClusterConfig": spec}))[1] == ignored
    assert engines(document("RayClusterFleet", {"template": {"spec": spec}}, AIBRIX))[1] == ignored


STARTS = "in the command that starts Ray: "
NO_TRITON = (
    f"{STARTS}`pip uninstall` of `triton` may leave vLLM without Triton or with another one, and it chooses the runner "
    "by whether Triton works"
)
UNREAD = f"{STARTS}the file `/init.sh` is a script that is not read"
MAKES = f"{STARTS}`cp` may make the folder `org/m`, and vLLM loads it instead of that model"
RUNNER = "VLLM_USE_V2_MODEL_RUNNER"
ON = {RUNNER: "1"}
START = "ray start --head --block"
KEPT = {"ray.io/overwrite-container-cmd": "true"}


@table(
    ("command", "annotations", "env", "doubts"),
    [
        (None, {}, {}, []),
        (["echo", "a b"], {}, {}, []),
        *((command, {}, ON, []) for command in ([f"export {RUNNER}=1"], ["export", f"{RUNNER}=1"])),
        ([f"export {RUNNER}=1; true"], {}, ON, []),
        ([f"true && export {RUNNER}=1"], {}, ON, []),
        ([f"test -f /x && export {RUNNER}=1"], {}, {RUNNER: None}, []),
        ([f"{RUNNER}=1"], {}, {}, []),
        (["bash", "-c", f"'export {RUNNER}=1'"], {}, {}, []),
        *(
            (["bash", "-c", f"{script}{start}"], annotations, ON, [])
            for script in (f"export {RUNNER}=1; ", f"{RUNNER}=1 ", f"export {RUNNER}=1; exec ")
            for start, annotations in ((START, {}), (START, KEPT), ("$KUBERAY_GEN_RAY_START_CMD", KEPT))
        ),
        (["bash", "-c", f"export {RUNNER}=1; ${{KUBERAY_GEN_RAY_START_CMD}}"], KEPT, ON, []),
        (["bash", "-c", f"export {RUNNER}=1; $(KUBERAY_GEN_RAY_START_CMD)"], KEPT, ON, []),
        (["bash", "-c", f"ray start --head; export {RUNNER}=1; sleep 9"], {}, {}, []),
        (["env", f"{RUNNER}=1", *START.split()], KEPT, ON, []),
        (["pip uninstall -y triton"], {}, {}, [NO_TRITON]),
        (["bash", "-c", "ray start --head; pip uninstall -y triton"], {}, {}, [NO_TRITON]),
        (["bash", "-c", f"{START}; pip uninstall -y triton"], {}, {}, []),
        (["/init.sh"], {}, {}, [f"{UNREAD}, and the script runs it as well"]),
        (["/init.sh"], KEPT, {}, [UNREAD]),
        (["ulimit", "-n", "65536"], KEPT, {}, [f"{STARTS}nothing in it is known to start Ray"]),
        (None, KEPT, {}, [f"{STARTS}nothing in it is known to start Ray"]),
        (["cp -r /x /data/org/m; cd /data"], {}, {}, [MAKES]),
        (["cp -r /x /data/org/m; cd /other"], {}, {}, []),
        (
            ["TOKEN=abcdefgh; 'abcdefgh"],
            {},
            {},
            [f"{STARTS}the quote `'` at character 18 is not closed; close it"],
        ),
    ],
)
def test_the_command_before_ray_counts_for_a_job(
    command: list[str] | None, annotations: dict[str, str], env: dict[str, str | None], doubts: list[str]
) -> None:
    fields: dict[str, Any] = {} if command is None else {"command": command}
    head = group(**fields)
    spec = {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(head, group())}
    job = {**document("RayJob", spec), "metadata": {"name": "c", "annotations": annotations}}
    found = next(each for each in engines(job)[0] if each.path == "[0].spec.entrypoint")
    assert ({name: found.env.get(name) for name in env}, found.doubts) == (env, doubts)
    assert env or RUNNER not in found.env


@table(
    ("command", "version", "cause"),
    [
        ("pip install vllm==0.29.0", "0.29.0", "`pip install` installs vLLM 0.29.0 before the start"),
        (
            "cp /x /usr/lib/python3.12/sitecustomize.py",
            None,
            "`cp` may replace or remove the vLLM of the image before the start",
        ),
        (
            "curl -o /usr/local/bin/vllm http://x",
            None,
            "`curl` may replace or remove the vLLM of the image before the start",
        ),
    ],
)
def test_the_command_before_ray_may_make_another_vllm_run(command: str, version: str | None, cause: str) -> None:
    spec = {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(group(command=[command]), group())}
    ((found,), _) = engines(document("RayJob", spec))
    assert found.installation is not None
    assert (found.installation.version, found.installation.cause) == (version, cause)
    image = {**spec, "runtimeEnvYAML": f"image_uri: {IMAGE}"}
    ((found,), _) = engines(document("RayJob", image))
    assert (found.installation, found.doubts) == (None, [])


@table(
    ("folders", "folder"),
    [
        (({}, "cd /data"), "/data"),
        (({"workingDir": "/a"}, "cd b"), "/a/b"),
        (({"workingDir": "/a"}, "true"), "/a"),
        (({"workingDir": "/a"}, "cd $B"), "\0"),
        (({"workingDir": "/a"}, "'"), "\0"),
    ],
)
def test_a_job_runs_in_the_folder_in_which_ray_was_started(folders: tuple[dict[str, str], str], folder: str) -> None:
    head = group(command=[folders[1]], **folders[0])
    ((found, *_), _) = engines(
        document("RayJob", {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(head, group())})
    )
    assert found.folder == folder


def test_what_is_not_read_before_ray_may_set_any_variable() -> None:
    head = group(command=["/init.sh"], env=[{"name": "A", "value": "1"}])
    spec = {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(head, group())}
    job = {**document("RayJob", spec), "metadata": {"name": "c", "annotations": KEPT}}
    found = next(each for each in engines(job)[0] if each.path == "[0].spec.entrypoint")
    assert (found.env["A"], found.has_hidden_variables) == (None, True)


def test_a_secret_of_the_command_before_ray_is_hidden() -> None:
    head = group(command=["API_KEY=abcdefgh; /abcdefgh.sh"])
    ((found, *_), _) = engines(
        document("RayJob", {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(head, group())})
    )
    assert found.secrets == {"abcdefgh"}
    assert "abcdefgh" not in "".join(found.doubts)


@table(
    ("options", "words"),
    [
        ({"num-cpus": "1; vllm serve org/m"}, ["ulimit -n 65536; ray start --num-cpus=1; vllm serve org/m "]),
        ({"a": "1 vllm serve org/m"}, ["ulimit -n 65536; ray start --a=1 vllm serve org/m "]),
        *(({"num-cpus": value}, []) for value in ("1", "$MY_IP", "${MY_IP}", "$(MY_IP)", '"{\\"a\\": 1}"', 1)),
    ],
)
def test_an_option_of_ray_may_be_another_command(options: dict[str, Any], words: list[str]) -> None:
    spec = cluster(
        {**group(image="rayproject/ray:2.57"), "rayStartParams": options}, group(image="rayproject/ray:2.57")
    )
    assert [each.words[-1] for each in engines(document("RayCluster", spec))[0]] == words
    spec = cluster({**group(), "rayStartParams": {**options, "p": "1; pip uninstall -y triton"}}, group())
    found = engines(document("RayJob", {"entrypoint": "vllm serve org/m", "rayClusterSpec": spec}))[0]
    assert next(each for each in found if each.path == "[0].spec.entrypoint").doubts == [NO_TRITON]


@table("key", ["num-cpus", "$(NAME) --p"])
@table("place", ["headGroupSpec", "workerGroupSpecs"])
@table(
    ("kind", "version", "path"),
    [
        ("RayCluster", "ray.io/v1", []),
        ("RayService", "ray.io/v1", ["rayClusterConfig"]),
        ("RayJob", "ray.io/v1", ["rayClusterSpec"]),
        ("RayClusterFleet", AIBRIX, ["template", "spec"]),
        ("RayClusterReplicaSet", AIBRIX, ["template", "spec"]),
    ],
)
def test_an_option_of_ray_may_be_another_command_by_the_value_of_a_variable(
    key: str, place: str, kind: str, version: str, path: list[str]
) -> None:
    def of(value: str, **fields: Any) -> dict[str, Any]:
        bad = {
            **group(image="rayproject/ray:2.57", **fields, **variable("NAME", value)),
            "rayStartParams": {key: "$(NAME)"},
        }
        whole: dict[str, Any] = {**SILENT, place: bad if place == "headGroupSpec" else [bad]}
        for name in reversed(path):
            whole = {name: whole}
        return document(kind, whole | ({"metadata": KEEPS} if fields else {}), version)

    (found,) = [each for each in engines(of("1; vllm serve org/m"))[0] if each.doubts]
    assert found.words[-1].startswith("ulimit -n 65536; ray start --")
    assert engines(of("1"))[0] == []


@table(
    ("command", "count"),
    [
        (["bash", "-c", "$(KUBERAY_GEN_RAY_START_CMD)"], 1),
        (["bash", "-c", "true; eval $KUBERAY_GEN_RAY_START_CMD"], 1),
        (["bash", "-c", "true"], 0),
    ],
)
def test_the_command_that_kuberay_generates_has_the_options(command: list[str], count: int) -> None:
    head = {
        **group(command=command, image="rayproject/ray:2.57"),
        "rayStartParams": {"num-cpus": "1; vllm serve org/m"},
    }
    head["template"]["metadata"] = KEEPS
    assert len(engines(document("RayCluster", cluster(head, group())))[0]) == count


IN_SUBMISSION = (
    "KubeRay writes `{}` into the script of the container that submits the job, and a shell expands it there; leave "
    "out the characters of a shell, or set `submissionMode: HTTPMode`"
)
STARTS_OTHER = "vllm serve org/other"


@table(
    ("fields", "field", "starts"),
    [
        ({"jobId": f"x; {STARTS_OTHER}"}, "jobId", True),
        *(({"jobId": f"x{mark}y"}, "jobId", False) for mark in " \n;&|<>()$\\*?[{~#"),
        *(({"jobId": f"x{mark}y"}, "jobId", True) for mark in "`'\""),  # a script that is not read may start it
        ({"metadata": {"a": f"$({STARTS_OTHER})"}}, "metadata", True),
        ({"metadata": {"`a`": "b"}}, "metadata", False),
        ({"entrypointResources": f'"{{\\"a\\": 1}}$({STARTS_OTHER})"'}, "entrypointResources", True),
        ({"runtimeEnvYAML": "env_vars: {A: $B}"}, "runtimeEnvYAML", False),
        ({"runtimeEnvYAML": f"env_vars: {{A: '`{STARTS_OTHER}`'}}"}, "runtimeEnvYAML", True),
        ({"jobId": "a-1_B.c", "metadata": {"a": "b; c"}, "runtimeEnvYAML": "env_vars: {A: 'b c'}"}, None, False),
    ],
)
@table("mode", [{}, {"submissionMode": "SidecarMode"}, {"submissionMode": "HTTPMode"}])
def test_what_kuberay_writes_into_the_script_of_the_submitter_is_a_doubt(
    fields: dict[str, Any],
    field: str | None,
    starts: bool,  # noqa: FBT001  # a table's value
    mode: dict[str, str],
) -> None:
    spec = {"entrypoint": "vllm serve org/m", "rayClusterSpec": SILENT, **fields, **mode}
    is_submitted = field is not None and mode != {"submissionMode": "HTTPMode"}
    doubts = [IN_SUBMISSION.format(field)] if is_submitted else []
    found, *others = [each for each in engines(document("RayJob", spec))[0] if not each.path.endswith("[0]")]
    assert [doubt for doubt in found.doubts if "submits the job, and" in doubt] == doubts
    assert [(each.path, each.image, each.doubts) for each in others] == (
        [(f"[0].spec.{field}", IMAGE, doubts)] if is_submitted and starts else []
    )
    without = {**spec, "entrypoint": "true"}
    assert len(engines(document("RayJob", without))[0]) == (1 if is_submitted and starts else 0)


AUTOSCALES = {"enableInTreeAutoscaling": True}
RUNS = ["/bin/bash", "-c", "--"]
STARTS_AUTOSCALER = (
    "ray kuberay-autoscaler --cluster-name $(RAY_CLUSTER_NAME) --cluster-namespace $(RAY_CLUSTER_NAMESPACE)"
)


@table(
    ("spec", "words"),
    [
        ({**AUTOSCALES, "autoscalerOptions": {"args": [STARTS_OTHER]}}, [*RUNS, STARTS_OTHER]),
        (
            {**AUTOSCALES, "autoscalerOptions": {"command": SERVES, "args": ["--enforce-eager"]}},
            [*SERVES, "--enforce-eager"],
        ),
        (
            {
                **AUTOSCALES,
                "autoscalerOptions": {"env": [{"name": "RAY_CLUSTER_NAME", "value": f"x; {STARTS_OTHER}; #"}]},
            },
            [*RUNS, STARTS_AUTOSCALER],
        ),
        ({**AUTOSCALES, "autoscalerOptions": {"image": "vllm/vllm-openai:v0.23.0"}}, None),
        ({**AUTOSCALES, "autoscalerOptions": {"env": [{"name": "A", "value": "1"}]}}, None),
        ({**AUTOSCALES, "autoscalerOptions": {}}, None),
        (AUTOSCALES, None),
        ({"autoscalerOptions": {"command": SERVES}}, None),
        ({"enableInTreeAutoscaling": False, "autoscalerOptions": {"command": SERVES}}, None),
    ],
)
def test_the_autoscaler_is_a_container_of_the_head(spec: dict[str, Any], words: list[str] | None) -> None:
    whole = {**SILENT, **spec}
    kinds = [
        ("RayCluster", whole, "ray.io/v1", ""),
        ("RayService", {"rayClusterConfig": whole}, "ray.io/v1", "rayClusterConfig."),
        ("RayJob", {"rayClusterSpec": whole, "entrypoint": "true"}, "ray.io/v1", "rayClusterSpec."),
        ("RayClusterFleet", {"template": {"spec": whole}}, AIBRIX, "template.spec."),
    ]
    for kind, fields, version, path in kinds:
        found, _ = engines(document(kind, fields, version))
        assert [(each.path, each.words) for each in found] == (
            [] if words is None else [(f"[0].spec.{path}autoscalerOptions", words)]
        )


def test_the_autoscaler_has_the_image_of_the_head_and_its_own_variables_and_mounts() -> None:
    options = {
        "command": SERVES,
        "args": ["--enforce-eager"],
        "env": [{"name": "A", "value": "1"}],
        "envFrom": [{"secretRef": {"name": "s"}}],
        "volumeMounts": [{"name": "v", "mountPath": "/usr/local/bin"}],
        "resources": {"limits": {"nvidia.com/gpu": "1"}},
    }
    ((found,), _) = engines(document("RayCluster", {**SILENT, **AUTOSCALES, "autoscalerOptions": options}))
    assert (found.image, found.env["A"], found.has_hidden_variables) == (IMAGE, "1", True)
    assert (found.installation is not None, [sign.platform for sign in found.hardware]) == (True, ["cuda"])
    image = {**options, "image": "vllm/vllm-openai:v0.24.0"}
    ((found,), _) = engines(document("RayCluster", {**SILENT, **AUTOSCALES, "autoscalerOptions": image}))
    assert found.vllm_version == "0.24.0"


CHANGES = {"command": ["bash", "-c", "export VLLM_USE_V2_MODEL_RUNNER=0; vllm serve org/m"]}


@table(
    "spec",
    [
        {"entrypoint": "vllm serve org/m", "rayClusterSpec": cluster(group(command=["export A=1"]), group())},
        {"entrypoint": "vllm serve org/m $X", "rayClusterSpec": SILENT, "runtimeEnvYAML": "env_vars: {B: '2'}"},
        {"entrypoint": "true", "jobId": f"x; {STARTS_OTHER}", "rayClusterSpec": STARTED},
        {"rayClusterSpec": {**SILENT, **AUTOSCALES, "autoscalerOptions": {"command": SERVES}}},
        {"rayClusterSpec": SILENT, "submitterPodTemplate": group(command=SERVES)["template"]},
        {"rayClusterSpec": SILENT},
    ],
)
def test_a_cron_job_of_ray_starts_the_jobs_of_its_template(spec: dict[str, Any]) -> None:
    job, cron = (
        engines(document("RayJob", spec)),
        engines(document("RayCronJob", {"schedule": "@daily", "jobTemplate": spec})),
    )
    assert [(each.path.replace(".jobTemplate", ""), each.words, each.env, each.doubts) for each in cron[0]] == [
        (each.path, each.words, each.env, each.doubts) for each in job[0]
    ]
    assert all(each.path.startswith("[0].spec.jobTemplate.") for each in cron[0])
    assert cron[1] == job[1]


def test_an_annotation_of_a_cron_job_of_ray_does_not_reach_its_pods() -> None:
    spec = {"jobTemplate": {"rayClusterSpec": cluster(group(**CHANGES), group())}}
    ((found,), _) = engines({**document("RayCronJob", spec), "metadata": {"name": "c", **KEEPS}})
    assert found.doubts != []
    head = group(**CHANGES)
    head["template"]["metadata"] = KEEPS
    ((found,), _) = engines(document("RayCronJob", {"jobTemplate": {"rayClusterSpec": cluster(head, group())}}))
    assert found.doubts == []


RAY = "rayproject/ray:2.57"
STARTS = "1; vllm serve org/m"
ENDS_QUOTE = "a' ; vllm serve org/m ; echo '"
ESCAPED = "'{\"a\\u0027 \\u003b vllm serve org/m \\u003b echo \\u0027\": 1}'"
TPU = {"resources": {"limits": {"google.com/tpu": "4"}}}
NO_ACCELERATOR: list[Any] = [
    *({"google.com/tpu": quantity} for quantity in ("0", "0e5", "0.0Gi")),
    {"cpu": "1"},
    {},
]
READY = "ulimit -n 65536; ray start"


@table(
    ("fields", "container", "options"),
    [
        ({"resources": {ENDS_QUOTE: "1"}}, {}, f" --resources='{{\"{ENDS_QUOTE}\":1}}' "),
        ({"resources": {f"{ENDS_QUOTE}<": "x"}}, {}, f" --resources='{{\"{ENDS_QUOTE}\\u003c\":1}}' "),
        ({"resources": {"a$(E)": "1"}}, variable("E", ENDS_QUOTE), " --resources='{\"a$(E)\":1}' "),
        (
            {"resources": {f"nvidia.com/mig-{ENDS_QUOTE}": "2"}},
            {},
            f" --resources='{{\"nvidia.com/mig-{ENDS_QUOTE}\":2}}' ",
        ),
        (
            {"resources": {ENDS_QUOTE: "3", "CPU": "4", "memory": "1Gi", "nvidia.com/gpu": "2"}},
            {},
            f" --memory=1  --num-cpus=4  --num-gpus=2  --resources='{{\"{ENDS_QUOTE}\":3}}' ",
        ),
        ({"rayStartParams": {"resources": ESCAPED}}, TPU, f' --resources=\'{{"TPU":1,"{ENDS_QUOTE}":1}}\' '),
        ({"labels": {"a": STARTS}}, {}, f" --labels=a={STARTS} "),
        ({"labels": {"b": "c", f"a={STARTS} #": "d"}}, {}, f" --labels=a={STARTS} #=d,b=c "),
        ({"labels": {"a": "$(E)"}}, variable("E", STARTS), " --labels=a=$(E) "),
        ({"rayStartParams": {f"a; {SERVES[0]} serve org/m --x": "True"}}, {}, " --a; vllm serve org/m --x "),
        ({"rayStartParams": {f"a; {SERVES[0]} serve org/m --x": "false"}}, {}, None),
        ({"rayStartParams": {"log-color": "false", "a": STARTS}}, {}, f" --a={STARTS}  --log-color=false "),
        ({"rayStartParams": {"resources": ESCAPED}}, {}, f" --resources={ESCAPED} "),
        *(
            ({"rayStartParams": {"resources": ESCAPED}}, {"resources": {"limits": limits}}, f" --resources={ESCAPED} ")
            for limits in NO_ACCELERATOR
        ),
        *(
            ({"rayStartParams": {"resources": other}}, TPU, f" --resources={other} ")
            for other in (
                ESCAPED.replace(" 1}", f" {value}}}")
                for value in ("true", "[]", "NaN", "1e999", '1, "TPU": 1', "1" * 5000)
            )
        ),
        ({"resources": {f"{ENDS_QUOTE}gpu": "1"}}, {}, None),
        ({"resources": {"a": "1", "b; c": "1"}, "labels": {"ray.io/a": "b"}}, {}, ""),
        ({"resources": "x", "labels": []}, {}, None),
        ({}, {}, None),
    ],
)
@table("place", ["headGroupSpec", "workerGroupSpecs"])
def test_a_field_of_a_group_that_is_an_option_of_ray_may_be_another_command(
    fields: dict[str, Any], container: dict[str, Any], options: str | None, place: str
) -> None:
    bad = {**group(image=RAY, **container), **fields}
    whole = {**cluster(group(image=RAY), group(image=RAY)), place: bad if place == "headGroupSpec" else [bad]}
    for kind, spec in (
        ("RayCluster", whole),
        ("RayService", {"rayClusterConfig": whole}),
        ("RayJob", {"rayClusterSpec": whole}),
        ("RayCronJob", {"jobTemplate": {"rayClusterSpec": whole}}),
    ):
        found, _ = engines(document(kind, spec))
        assert [each.words[-1] for each in found] == ([f"{READY}{options}"] if options else [])
        assert all(each.doubts for each in found)


IN_ADDRESS = (
    "KubeRay writes the `{}` of the head into scripts of the workers, and a shell may read another command in it; "
    "leave out the characters of a shell"
)
PORT, SERVICE = "rayStartParams.port", "headService.metadata.name"


@table(
    ("head", "container", "field", "is_server"),
    [
        ({"rayStartParams": {"port": STARTS}}, {}, PORT, True),
        ({"rayStartParams": {"port": "$(P)"}}, variable("P", STARTS), PORT, True),
        ({"headService": {"metadata": {"name": "a; vllm serve org/m #"}}}, {}, SERVICE, True),
        ({"rayStartParams": {"port": f"1 {'x' * 300}; vllm serve org/m"}}, {}, PORT, True),
        ({"rayStartParams": {"port": "$(P)"}}, variable("P", "1; true"), PORT, False),
        ({"rayStartParams": {"port": "$(P)"}}, {}, PORT, False),
        ({"rayStartParams": {"port": "$(P)"}}, variable("P", "1"), None, False),
        ({"rayStartParams": {"port": "$(FQ_RAY_IP)"}}, {}, None, False),
        ({"rayStartParams": {"port": "6380"}, "headService": {"metadata": {"name": "a"}}}, {}, None, False),
        ({"rayStartParams": {"port": 6380}, "headService": {}}, {}, None, False),
        ({"rayStartParams": "x", "headService": []}, {}, None, False),
    ],
)
def test_the_address_of_the_head_is_in_scripts_of_the_workers(
    head: dict[str, Any],
    container: dict[str, Any],
    field: str | None,
    is_server: bool,  # noqa: FBT001  # a table's value
) -> None:
    worker = {**group(image=RAY, **container), "rayStartParams": {"address": "a:1"}}
    spec = {**cluster({**group(image=RAY, **variable("P", "1")), **head}, worker)}
    spec["workerGroupSpecs"] = [group(image=RAY, **variable("P", "1")), worker, worker]
    for is_under_review in (False, True):
        found = registry.read_manifest(
            [document("RayCluster", spec)], "", [], shipped_images(), is_under_review=is_under_review
        )
        is_found = field is not None and (is_server or is_under_review)
        assert [(each.path, each.problem) for each in found if each.problem] == (
            [(f"[0].spec.headGroupSpec.{field}", IN_ADDRESS.format(str(field).rpartition(".")[2]))] if is_found else []
        )


SERVER = "vllm serve org/m"
STORAGE = "gcsFaultToleranceOptions"
NAMESPACE = {"metadata": {"name": "c", "annotations": {"ray.io/external-storage-namespace": SERVER}}}


@table(
    ("name", "options", "whole", "params", "starts"),
    [
        ("RAY_REDIS_ADDRESS", {"redisAddress": SERVER}, {}, {}, True),
        ("REDIS_USERNAME", {"redisUsername": {"value": SERVER}}, {}, {}, True),
        ("REDIS_PASSWORD", {"redisPassword": {"value": SERVER}}, {}, {}, True),
        ("RAY_external_storage_namespace", {"externalStorageNamespace": SERVER}, {}, {}, True),
        ("RAY_external_storage_namespace", None, NAMESPACE, {}, True),
        ("REDIS_PASSWORD", None, {}, {"redis-password": SERVER}, True),
        (
            "REDIS_PASSWORD",
            {"redisPassword": {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}},
            {},
            {},
            False,
        ),
        ("REDIS_PASSWORD", {}, {}, {"redis-password": SERVER}, True),
        ("RAY_external_storage_namespace", {}, NAMESPACE, {}, False),
    ],
)
def test_the_head_has_the_variables_of_its_storage(
    name: str,
    options: dict[str, Any] | None,
    whole: dict[str, Any],
    params: dict[str, str],
    starts: bool,  # noqa: FBT001  # a table's value
) -> None:
    head = {**group(image=RAY, command=[f"$({name})"]), "rayStartParams": params}
    spec = {**cluster(head, group(image=RAY)), **({} if options is None else {STORAGE: options})}
    for kind, fields in (("RayCluster", spec), ("RayService", {"rayClusterConfig": spec})):
        found, _ = engines({**document(kind, fields), **whole})
        started = "".join(f" --{option}={value} " for option, value in params.items())
        assert [each.words[-1] for each in found] == ([f" $({name})  && {READY}{started}"] if starts else [])
        assert [each.env[name] for each in found] == [None if options == {} else SERVER] * starts
    given = {**head, **group(image=RAY, command=[f"$({name})"], **variable("RAY_external_storage_namespace", "true"))}
    found, _ = engines({**document("RayCluster", {**spec, "headGroupSpec": given}), **whole})
    assert len(found) == (starts and name != "RAY_external_storage_namespace")


def test_the_generated_command_has_the_values_of_variables() -> None:
    head = group(image=RAY, command=["bash", "-c", "eval $KUBERAY_GEN_RAY_START_CMD"], **variable("P", STARTS))
    head["template"]["metadata"] = KEEPS
    found, _ = engines(document("RayCluster", cluster({**head, "rayStartParams": {"a": "$(P)"}}, group(image=RAY))))
    assert [each.env["KUBERAY_GEN_RAY_START_CMD"] for each in found] == [f"{READY} --a={STARTS} "]


@table(
    ("options", "count"),
    [
        ({"image": IMAGE}, 1),
        ({"image": IMAGE, "env": [{"name": "VLLM_USE_V2_MODEL_RUNNER", "value": "1"}]}, 1),
        ({"image": "quay.io/kuberay/collector:latest"}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_the_collector_for_the_history_server_is_a_container(options: dict[str, Any] | None, count: int) -> None:
    spec = {**cluster(group(image=RAY), group(image=RAY)), "historyServerOptions": {"collectorOptions": options}}
    found, _ = engines(document("RayCluster", spec))
    assert [each.path for each in found] == ["[0].spec.historyServerOptions.collectorOptions"] * count
    assert all(each.env.get("VLLM_USE_V2_MODEL_RUNNER") in {None, "1"} for each in found)


@table(
    ("fields", "container", "expected"),
    [
        ({"metadata": {"a": "$(E)"}}, variable("E", f"$({SERVER})"), ("metadata", RAY)),
        ({"metadata": {"a": "$(E)"}}, variable("E", "b"), None),
        ({"entrypoint": "$(E)"}, variable("E", SERVER), ("entrypoint", IMAGE)),
        ({"entrypoint": "$E"}, variable("E", SERVER), ("entrypoint", IMAGE)),
        ({"entrypoint": "true $(E)"}, variable("E", f"; {SERVER}"), ("entrypoint", RAY)),
        ({"entrypoint": "true $(E)"}, variable("E", "a"), None),
        ({"entrypoint": "true $(E)"}, {**variable("E", f"; {SERVER}"), "command": ["true"]}, None),
        ({"entrypoint": "true $E; vllm serve $M"}, {}, ("entrypoint", IMAGE)),
        ({"entrypoint": "$(RAY_JOB_SUBMISSION_ID)", "jobId": "$(E)"}, variable("E", SERVER), ("entrypoint", IMAGE)),
    ],
)
def test_the_script_of_the_submitter_has_its_variables(
    fields: dict[str, Any], container: dict[str, Any], expected: tuple[str, str] | None
) -> None:
    pod = {"submitterPodTemplate": group(image=RAY, **container)["template"]}
    spec = {"entrypoint": "true", "rayClusterSpec": SILENT, **pod, **fields}
    found, _ = engines(document("RayJob", spec))
    shown = [(each.path.rpartition(".")[2], each.image) for each in found]
    assert shown[:1] == ([] if expected is None else [expected])
    assert all(each.doubts for each in found)


@table(
    "command", ['ray() { until [ "$1" = vllm ]; do shift; done; "$@"; }; true', "hash -p /usr/bin/env ray", "eval '"]
)
def test_the_options_of_ray_may_be_the_command_of_another_ray(command: str) -> None:
    head = {**group(image=RAY, command=[command]), "rayStartParams": {"zz": "1 vllm serve org/m"}}
    found, _ = engines(document("RayCluster", cluster(head, group(image=RAY))))
    assert [(each.words[-1], bool(each.doubts)) for each in found] == [
        (f" {command}  && {READY} --zz=1 vllm serve org/m ", True)
    ]
    head["rayStartParams"] = {"zz": "1"}
    assert engines(document("RayCluster", cluster(head, group(image=RAY))))[0] == []
