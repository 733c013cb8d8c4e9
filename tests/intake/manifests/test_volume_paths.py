"""Files of a model in a volume: written by another path of the volume, or for the next start of the engine."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING, Any

from shipped_images import read_manifest
from tables import table

from policy.intake.command_line import COMMAND_DOUBT
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

TODAY = date(2026, 1, 1)
IMAGE = "vllm/vllm-openai:v0.24.0"
MODEL = "/models/q"
HUB = "Qwen/dense"
EMPTY: dict[str, Any] = {"emptyDir": {}}
CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
COPY = "cp /x/config.json"


def shared(program: str = "cp", mount: str = "/a", name: str = MODEL) -> list[str]:
    return [f"`{program}` may change `{name}` before vLLM reads it, as its volume is also mounted at `{mount}`"]


def mount(path: str, name: str = "v", **fields: Any) -> dict[str, Any]:
    return {"name": name, "mountPath": path, **fields}


def pod(script: str, mounts: list[dict[str, Any]], sources: dict[str, Any] | None = None, **fields: Any) -> Any:
    volumes = [{"name": name, **source} for name, source in (sources or {"v": CLAIM}).items()]
    container = {"name": "a", "image": IMAGE, "command": ["sh", "-c", script], "volumeMounts": mounts, **fields}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": volumes}}


def decided(ask: Asking, document: dict[str, Any]) -> list[str]:
    """The warnings of the decision."""
    config = ask.request(["--model", "dense"])["deployment"]["model_configs"]["dense"]
    body = {"manifest": document, "model_configs": {MODEL: config, HUB: config}, "vllm_version": "0.24.0"}
    asked = read_request_or_manifest(body, ask.policy.releases, "")
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY).warnings


MODELS = mount("/models")
A = mount("/a")


@table("source", [EMPTY, CLAIM, {"nfs": {"server": "s", "path": "/x"}}, {"csi": {"driver": "d"}}, {}])
@table(
    ("script", "mounts", "expected"),
    [
        (f"{COPY} /a/q/", [MODELS, A], shared()),
        ("echo x > /a/q/config.json", [MODELS, A], shared("echo")),
        ("sed -i s/a/b/ /a/q/config.json", [MODELS, A], shared("sed")),
        ("cd /a/q && sed -i s/a/b/ config.json", [MODELS, A], shared("sed")),
        ("tar -C /a -xf /x.tar", [MODELS, A], shared("tar")),
        ("cd /a && unzip /x.zip", [MODELS, A], shared("unzip")),
        ("ln -s /a/q /z; cp /x /z/config.json", [MODELS, A], shared()),
        ("cp /x /a/*/config.json", [MODELS, A], shared()),
        ("for f in /a/q/*; do sed -i s/a/b/ $f; done", [MODELS, A], shared("sed")),
        (f"{COPY} /a/", [mount(MODEL), A], shared()),
        (f"{COPY} /a/", [MODELS, mount("/a", subPath="q")], shared()),
        (f"{COPY} /a/", [mount("/models", subPath="x"), mount("/a", subPath="x/q")], shared()),
        (f"{COPY} /a/x/q/", [mount("/models", subPath="x"), A], shared()),
        (f"{COPY} /a/x/", [mount(MODEL, subPath="x/"), A], shared()),
        ("tar -C /a -xf /x.tar", [mount("/models", subPath="x"), A], shared("tar")),
        ("cp /x /a/config.json", [mount(f"{MODEL}/config.json", subPath="config.json"), A], shared()),
        ("cp /x /a", [MODELS, mount("/a", subPath="q/config.json")], shared()),
        (f"{COPY} /b/q/", [MODELS, mount("/a", subPath="y"), mount("/b")], shared(mount="/b")),
        (f"{COPY} /a/q/", [mount("/models", readOnly=True), A], shared()),
        (f"{COPY} /b/", [mount("/w", "w"), MODELS, mount("/b", subPath="q", readOnly=False)], shared(mount="/b")),
        (f"{COPY} /a/q/", [MODELS, mount("/a", "w")], []),
        (f"{COPY} /a/p/", [MODELS, A], []),
        (f"{COPY} /a/q/", [MODELS], []),
        (f"{COPY} /a/q/", [MODELS, mount("/a", readOnly=True)], []),
        (f"{COPY} /a/q/", [mount("/models", subPath="x"), mount("/a", subPath="y")], []),
        (f"{COPY} /a/q/", [mount("/models", subPath="x"), mount("/a", subPath="xy")], []),
        ("cp /x /a/other.json", [mount(f"{MODEL}/config.json", subPath="config.json"), A], []),
        ("cat /a/q/config.json", [MODELS, A], []),
    ],
)
def test_a_command_may_change_a_model_by_another_mount_of_its_volume(
    ask: Asking, source: dict[str, Any], script: str, mounts: list[dict[str, Any]], expected: list[str]
) -> None:
    document = pod(f"{script}; exec vllm serve {MODEL}", mounts, {"v": source, "w": EMPTY})
    assert decided(ask, document) == expected


UNKNOWN = {"env": [{"name": "X", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]}
KNOWN = {"env": [{"name": "X", "value": "x"}]}
OF_X = {"subPathExpr": "$(X)"}


@table(
    ("script", "mounts", "fields", "expected"),
    [
        (f"{COPY} /a/", [mount("/models", **OF_X), A], UNKNOWN, shared()),
        (f"{COPY} /a/y/z/", [mount("/models", **OF_X), A], UNKNOWN, shared()),
        (f"{COPY} /a/", [MODELS, mount("/a", **OF_X)], UNKNOWN, shared()),
        ("cd /a/y && unzip /x", [MODELS, mount("/a", **OF_X)], UNKNOWN, shared("unzip")),
        ("cat /a/q", [mount("/models", **OF_X), A], UNKNOWN, []),
        (f"{COPY} /b/", [mount("/models", **OF_X), A], UNKNOWN, []),
        (f"{COPY} /a/x/q/", [mount("/models", **OF_X), A], KNOWN, shared()),
        (f"{COPY} /a/y/q/", [mount("/models", **OF_X), A], KNOWN, []),
        (f"{COPY} /a/", [mount("/models", subPathExpr="x"), A], {}, []),
        (f"{COPY} /a/x/q/", [mount("/models", subPathExpr="x"), A], {}, shared()),
    ],
)
def test_a_folder_of_a_volume_that_is_not_known_may_be_any(
    ask: Asking, script: str, mounts: list[dict[str, Any]], fields: dict[str, Any], expected: list[str]
) -> None:
    assert decided(ask, pod(f"{script}; exec vllm serve {MODEL}", mounts, **fields)) == expected


def test_more_mounts_than_are_compared_may_be_of_one_volume(ask: Asking) -> None:
    many = [mount(f"/m/{n}", f"v{n}") for n in range(65)]
    why = "as the container has too many mounts to compare their volumes"
    expected = [f"a command may change `{MODEL}` before vLLM reads it, {why}"]
    for mounts, warnings in ((many[:64], []), (many, expected)):
        assert decided(ask, pod(f"cp x /y; exec vllm serve {MODEL}", mounts)) == warnings
    assert decided(ask, pod(f"exec vllm serve {MODEL}", many)) == []


HOST = {"hostPath": {"path": "/data"}}
NFS = {"nfs": {"server": "s", "path": "/x"}}
CSI = {"csi": {"driver": "d", "volumeAttributes": {"bucketName": "b"}}}


@table(
    ("first", "second", "script", "expected"),
    [
        (CLAIM, CLAIM, f"{COPY} /a/q/", shared()),
        (CLAIM, {"persistentVolumeClaim": {"claimName": "c", "readOnly": True}}, f"{COPY} /a/q/", shared()),
        (CLAIM, {"persistentVolumeClaim": {"claimName": "d"}}, f"{COPY} /a/q/", []),
        (HOST, HOST, f"{COPY} /a/q/", shared()),
        (HOST, {"hostPath": {"path": "/data/q/", "type": "Directory"}}, f"{COPY} /a/", shared()),
        ({"hostPath": {"path": "/data/m"}}, HOST, f"{COPY} /a/m/q/", shared()),
        (HOST, {"hostPath": {"path": "/"}}, f"{COPY} /a/data/q/", shared()),
        (HOST, {"hostPath": {"path": "/data2"}}, f"{COPY} /a/q/", []),
        (NFS, NFS, f"{COPY} /a/q/", shared()),
        (NFS, {"nfs": {"server": "s", "path": "/"}}, f"{COPY} /a/x/q/", shared()),
        (NFS, {"nfs": {"server": "t", "path": "/x"}}, f"{COPY} /a/q/", []),
        (CSI, {"csi": {"volumeAttributes": {"bucketName": "b"}, "driver": "d"}}, f"{COPY} /a/q/", shared()),
        (CSI, {"csi": {"driver": "d", "volumeAttributes": {"bucketName": "c"}}}, f"{COPY} /a/q/", []),
        (EMPTY, EMPTY, f"{COPY} /a/q/", []),
        ({"ephemeral": {}}, {"ephemeral": {}}, f"{COPY} /a/q/", []),
        ({"persistentVolumeClaim": 1}, {"persistentVolumeClaim": 1}, f"{COPY} /a/q/", []),
    ],
)
def test_two_volumes_may_have_the_same_files(
    ask: Asking, first: dict[str, Any], second: dict[str, Any], script: str, expected: list[str]
) -> None:
    document = pod(f"{script}; exec vllm serve {MODEL}", [MODELS, mount("/a", "w")], {"v": first, "w": second})
    assert decided(ask, document) == expected


def test_a_claim_of_the_controller_is_one_volume(ask: Asking) -> None:
    spec = pod(f"{COPY} /a/q/; exec vllm serve {MODEL}", [MODELS, A])["spec"]
    claims = [{"metadata": {"name": "v"}}]
    for volumes in ([], [{"name": "v", "configMap": {"name": "c"}}]):
        stated = {"template": {"spec": {**spec, "volumes": volumes}}, "volumeClaimTemplates": claims}
        document = {"apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": {"name": "x"}, "spec": stated}
        assert decided(ask, document) == shared()


SERVE = f"vllm serve {MODEL}"
OF_Y = {"subPath": "y"}
HOME = [{"name": "HOME", "value": "/h"}]


@table(
    ("script", "mounts", "fields", "expected"),
    [
        (f"cp -r /x /a/Qwen/dense; vllm serve {HUB}", [mount("/wd"), A], {"workingDir": "/wd"}, shared(name=HUB)),
        (f"cp -r /x /a; cd /wd; vllm serve {HUB}", [mount(f"/wd/{HUB}"), A], {}, shared(name=HUB)),
        (f"cp -r /x /a/dense; vllm serve {HUB}", [mount("/vllm-workspace/Qwen"), A], {}, shared(name=HUB)),
        (f"cp -r /x /a/y; vllm serve {HUB}", [mount("/wd"), A], {"workingDir": "/wd"}, []),
        (f"{COPY} /a/d/; {SERVE} --speculative-config.model /d/d", [mount("/d"), A], {}, shared(name="/d/d")),
        (f"cp /x /a/x.yaml; {SERVE} --config /c/x.yaml", [mount("/c"), A], {}, shared(name="/c/x.yaml")),
        (f"cp /x /a; {SERVE} --config /c/x", [mount("/c/x", **OF_Y), mount("/a", **OF_Y)], {}, shared(name="/c/x")),
        (f"cp /x /a/y.yaml; {SERVE} --config /c/x.yaml", [mount("/c"), A], {}, []),
        (f"{COPY} /a/q/; vllm serve ~/q", [mount("/root"), A], {}, shared(name="~/q")),
        (f'{COPY} /a/q/; vllm serve "$HOME/q"', [mount("/h"), A], {"env": HOME}, shared(name="/h/q")),
    ],
)
def test_every_folder_and_file_that_a_server_names_counts(
    script: str, mounts: list[dict[str, Any]], fields: dict[str, Any], expected: list[str]
) -> None:
    [found] = read_manifest(pod(script, mounts, {"v": EMPTY}, **fields), "", [])
    assert [each for each in found.doubts if "also mounted" in each] == expected


@table("field", ["livenessProbe", "readinessProbe", "startupProbe", "lifecycle"])
def test_a_hook_may_change_a_model_by_another_mount(ask: Asking, field: str) -> None:
    hook = {"exec": {"command": ["sh", "-c", f"{COPY} /a/q/"]}}
    fields = {field: {"postStart": hook} if field == "lifecycle" else hook}
    assert decided(ask, pod(f"exec vllm serve {MODEL}", [MODELS, A], **fields)) == shared()
    assert decided(ask, pod(f"exec vllm serve {MODEL}", [MODELS, mount("/a", "w")], **fields)) == []


CHANGES = [f"`cp` may change the files of the folder `{MODEL}` before vLLM loads them"]
MAKES = [f"`cp` may make the folder `{MODEL}`, and vLLM loads it instead of that model"]
UNREAD = "the file `/cfg/x.sh` is a script that is not read, and `lifecycle.preStop` may run it before the next start"
AT_END: list[tuple[str, list[dict[str, Any]], list[str]]] = [
    (f"{COPY} {MODEL}", [MODELS], MAKES),
    (f"sleep 5; {COPY} {MODEL}/", [mount(MODEL)], MAKES),
    (f"cp /x {MODEL}/config.json", [mount(f"{MODEL}/config.json", subPath="x")], CHANGES),
    ("cd /models && cp /x q/config.json", [MODELS], CHANGES),
    (f"{COPY} /a/q/", [MODELS, A], shared()),
    (f"rm {MODEL}/config.json", [MODELS], [each.replace("`cp`", "`rm`") for each in CHANGES]),
    (f"{COPY} {MODEL}/", [], []),
    (f"{COPY} {MODEL}/", [mount("/data")], []),
    (f"{COPY} {MODEL}/", [mount("/models", "c")], []),
    (f"{COPY} /a/q/", [MODELS, mount("/a", "w")], []),
    ("pip uninstall -y triton", [MODELS], []),
    ("cp /x /usr/local/bin/vllm", [MODELS], []),
    *(
        (script, [MODELS], [])
        for script in (
            *("sleep 30", "kill -SIGTERM 1", "kill $(pgrep -f vllm)", "pkill -TERM vllm; sleep 10", "ray stop"),
            *("curl -X POST localhost:8000/drain && sleep 5", "touch /tmp/stop; sleep ${X:-3}", "nginx -s quit"),
            "while curl -s localhost:8000/metrics | grep -q running; do sleep 1; done",
            *(f"echo $(date) >> {MODEL}.log", f"ls {MODEL}", "rm -rf /dev/shm/* /tmp/x", "date >> /proc/1/fd/1"),
        )
    ),
]


@table("source", [EMPTY, CLAIM])
@table(
    ("script", "mounts", "expected"),
    [
        *AT_END,
        ("/cfg/x.sh", [MODELS], [UNREAD]),
        ("/cfg/x.sh", [mount("/data")], []),
        ("/cfg/x.sh", [], []),
        ("tar -C / -xf /x.tar", [MODELS], [
            f"`tar` may make the folder `{MODEL}`, and vLLM loads it instead of that model"
        ]),
    ],
)  # fmt: skip
def test_a_hook_at_the_end_may_change_a_model_in_a_volume_for_the_next_start(
    ask: Asking, source: dict[str, Any], script: str, mounts: list[dict[str, Any]], expected: list[str]
) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", script]}}}
    sources = {"v": source, "w": EMPTY, "c": {"configMap": {"name": "c"}}}
    for command in (["sh", "-c", SERVE], ["vllm", "serve", MODEL]):
        assert decided(ask, pod("", mounts, sources, command=command, lifecycle=hook)) == expected


@table("source", [EMPTY, CLAIM])
@table(("script", "mounts", "expected"), AT_END)
def test_a_command_after_the_start_may_change_it_too(
    ask: Asking, source: dict[str, Any], script: str, mounts: list[dict[str, Any]], expected: list[str]
) -> None:
    sources = {"v": source, "w": EMPTY, "c": {"configMap": {"name": "c"}}}
    for command in (f"{SERVE}; {script}", f"bash -c '{SERVE}'; {script}", f"{SERVE} || {{ {script}; }}"):
        assert decided(ask, pod(command, mounts, sources)) == expected
    for command in (f"exec {SERVE}; {script}", f"{SERVE}; exit 0; {script}"):
        assert decided(ask, pod(command, mounts, sources)) == []


@table("script", [f"{COPY} {MODEL}/; {SERVE}", f"{SERVE} & sleep 1; {COPY} {MODEL}/; wait"])
def test_a_command_before_the_end_of_the_start_changes_it_once(ask: Asking, script: str) -> None:
    hook = {"preStop": {"exec": {"command": ["sh", "-c", f"{COPY} {MODEL}/"]}}}
    assert decided(ask, pod(script, [MODELS], lifecycle=hook)) == MAKES


def test_a_client_after_the_start_may_name_the_model(ask: Asking) -> None:
    assert decided(ask, pod(f"{SERVE}; python3 /x.py --model {MODEL}", [MODELS])) == decided(
        ask, pod(f"{SERVE}; python3 /x.py", [MODELS])
    )


@table(("path", "is_changed"), [("/a", True), ("/b", False)])
def test_what_starts_ray_may_change_a_model_by_another_mount(path: str, *, is_changed: bool) -> None:
    spec = pod(f"{COPY} {path}/q/; ray start --head --block", [MODELS, A])["spec"]
    group = {"rayStartParams": {}, "template": {"spec": spec}}
    model = {"model_id": "m", "model_source": MODEL}
    serve = {"applications": [{"args": {"llm_configs": [{"model_loading_config": model}]}}]}
    for kind, fields in (
        ("RayJob", {"rayClusterSpec": {"headGroupSpec": group}, "entrypoint": SERVE}),
        ("RayService", {"rayClusterConfig": {"headGroupSpec": group}, "serveConfigV2": json.dumps(serve)}),
    ):
        document = {"apiVersion": "ray.io/v1", "kind": kind, "metadata": {"name": "r"}, "spec": fields}
        [found] = read_manifest(document, "", [])
        assert [each for each in found.doubts if "also mounted" in each] == (
            [COMMAND_DOUBT.format(each) for each in shared()] if is_changed else []
        )


HUB_FOLDER = "/root/.cache/huggingface/hub/models--Qwen--dense"
FILE = "snapshots/1/config.json"


@table(
    ("script", "program"),
    [
        (f"cp /x {HUB_FOLDER}/{FILE}", "cp"),
        (f"echo x > {HUB_FOLDER}/{FILE}", "echo"),
        (f"sed -i s/a/b/ {HUB_FOLDER}/snapshots/*/config.json", "sed"),
        (f"find {HUB_FOLDER} -name config.json -exec sed -i s/a/b/ {{}} +", "find"),
        (f"cp /x /a/hub/models--Qwen--dense/{FILE}", "cp"),
        ("cp /x /a/hub/models--$O--dense/refs/main", "cp"),
        ("cp -r /x /a/hub/models--Qwen--dense", "cp"),
        ("echo x > /root/.cache/vllm/modelinfos/x.json", "echo"),
        ("cp /x /c/transformers_modules/q/y.py", "cp"),
        (f"cp /x /a/hub/models--Qwen--other/{FILE}", ""),
        (f"cat {HUB_FOLDER}/{FILE}; ls {HUB_FOLDER}; du -sh {HUB_FOLDER}", ""),
        (f"rm -rf {HUB_FOLDER} /root/.cache/vllm/modelinfos/", ""),
        (f"[ -d {HUB_FOLDER} ] || hf download {HUB}; P={HUB_FOLDER}; export Q={HUB_FOLDER}", ""),
        ("mkdir -p /root/.cache/huggingface/hub; tar -C /root/.cache/huggingface -xf /x.tar", ""),
        ("cp -r /x/models--Qwen--dense /root/.cache/huggingface/hub/", ""),
    ],
)
def test_a_command_may_change_a_model_in_a_cache(ask: Asking, script: str, program: str) -> None:
    expected = [f"`{program}` may change the files of `{HUB}` in a cache before vLLM loads them"] if program else []
    for mounts in ([], [mount("/root/.cache/huggingface"), A]):
        assert decided(ask, pod(f"{script}; exec vllm serve {HUB}", mounts)) == expected
    assert decided(ask, pod(f"{script}; exec {SERVE}", [MODELS])) == []
