"""Volumes of a container: which files they hide, and whether a different vLLM may run than the image's."""

from __future__ import annotations

import shlex
from datetime import date
from typing import TYPE_CHECKING, Any

import pytest
from shipped_images import read_manifest
from tables import table

from policy.errors import RequestInvalid
from policy.intake.command.certain_scripts import uncertain_construct
from policy.intake.manifests.reading import MAX_COPIED
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest

if TYPE_CHECKING:
    from deployments import Asking

    from policy.decision.decision import Decision
    from policy.errors import RequestFault

TODAY = date(2026, 1, 1)
IMAGE = "vllm/vllm-openai:v0.24.0"
SERVE = ["vllm", "serve", "dense"]
MODULE = ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", "dense"]


def pod(*paths: str, **fields: Any) -> dict[str, Any]:
    mounts = [{"name": "v", "mountPath": path} for path in paths]
    container = {"name": "a", "image": IMAGE, "volumeMounts": mounts, **fields}
    volume = {"name": "v", "persistentVolumeClaim": {"claimName": "v"}}
    return {"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [container], "volumes": [volume]}}


def compose(**fields: Any) -> dict[str, Any]:
    return {"services": {"a": {"image": IMAGE, "entrypoint": ["vllm", "serve"], "command": ["dense"], **fields}}}


def decision_of(ask: Asking, document: Any) -> Decision:
    configs = ask.request(["--model", "dense"])["deployment"]["model_configs"]
    asked = read_request_or_manifest({"manifest": document, "model_configs": configs}, ask.policy.releases, "")
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY)


def warnings(ask: Asking, document: dict[str, Any]) -> list[str]:
    """The decision's warnings but those of the model's folder; the release is verified if there are none."""
    decision = decision_of(ask, document)
    assert decision.release.verified is not any("may not be the one that runs" in each for each in decision.warnings)
    return [each for each in decision.warnings if not each.endswith("and vLLM loads it instead of that model")]


def mount_warning(path: str) -> list[str]:
    return [
        f"the mount at `{path}` may make another vLLM run; decided for vLLM 0.24.0, which may not be the one that runs"
    ]


@table(
    "path",
    [
        *("/usr/local/bin", "/usr/local/bin/", "//usr/local/bin", "/usr/./local/x/../bin", "usr/local/bin"),
        *("/usr/local/bin/vllm", "/usr/bin", "/usr/bin/python3", "/usr/local", "/usr", "/bin", "/", "/root"),
        *("/usr/local/lib/python3.12/dist-packages", "/usr/local/lib/python3.12/dist-packages/vllm/x.py"),
        *("/opt/venv/lib/python3.12/site-packages", "/opt/venv", "/opt", "/x/lib/python3.12", "/x/site-packages/torch"),
        *("/usr/lib/python312.zip", "/x/lib/python313.zip"),
        *("/etc/ld.so.cache", "/etc/ld.so.conf.d", "/usr/lib/x86_64-linux-gnu", "/usr/lib64/libc.so.6", "/etc"),
        *(
            "/usr/lib/aarch64-linux-gnu/libpython3.12.so.1.0",
            "/usr/local/lib",
            "/vllm-workspace",
            "/vllm-workspace/vllm",
            "/root/.local/lib",
            "/etc/ld.so.preload",
            "/etc/ssl/openssl.cnf",
            "/etc/ssl",
            "/usr/lib/ssl/openssl.cnf",
            "/etc/pki/tls/openssl.cnf",
            "/lib/ld-linux-aarch64.so.1",
            "/usr/lib/ld-linux-aarch64.so.1",
        ),
        *("/usr/local/cuda/bin", "/usr/sbin", "/sbin/vllm", "/usr/local/nvidia/bin/python3"),
        *(
            "/opt/dynamo",
            "/opt/dynamo/venv",
            "/opt/dynamo/venv/bin",
            "/opt/dynamo/venv/lib",
            "/opt/uv",
            "/opt/uv/python/x",
        ),
        *("/prod_venv", "/prod_venv/bin", "/kserve-workspace", "/kserve-workspace/prod_venv/lib", "/workspace/vllm"),
        "/kserve-workspace/huggingfaceserver",
        *("/usr/pyvenv.cfg", "/usr/local/pyvenv.cfg"),
        *(
            "/lib",
            "/lib/",
            "/usr/lib",
            "/lib64",
            "/usr/lib64",
            "/sbin",
            "/bin/python3",
            "/lib/python3",
            "/sbin/python3",
        ),
        *(
            "/sbin/ldconfig",
            "/usr/sbin/ldconfig",
            "/usr/sbin/ldconfig.real",
            "/usr/lib/gcc",
            "/lib/gcc/x86_64-linux-gnu",
        ),
        "/usr/libexec/gcc",
    ],
)
def test_a_mount_over_programs_or_libraries_may_make_another_vllm_run(ask: Asking, path: str) -> None:
    shown = "/" + "/".join(part for part in path.replace("/./", "/").replace("x/../", "").split("/") if part)
    for fields in ({"command": SERVE}, {"args": ["--model", "dense"]}, {"command": ["sh", "-c", "vllm serve dense"]}):
        assert warnings(ask, pod("/data", path, **fields)) == mount_warning(shown)


@table(
    ("command", "name"),
    [
        *((["bash", "-c", "vllm serve dense"], name) for name in ("bash", "vllm")),
        (["sh", "-ec", "exec nice -n 5 vllm serve dense"], "nice"),
        *((["env", "A=b", "tini", "--", "timeout", "60", "sh", "-c", "vllm serve dense"], n) for n in ("env", "sh")),
        *((["nohup", "vllm", "serve", "dense"], name) for name in ("nohup", "vllm")),
    ],
)
def test_a_mount_over_a_program_that_starts_vllm_may_make_another_one_run(
    ask: Asking, command: list[str], name: str
) -> None:
    for folder in ("/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/sbin"):
        assert warnings(ask, pod(f"{folder}/{name}", command=command)) == mount_warning(f"{folder}/{name}")


@table(
    ("command", "name"),
    [
        (["/usr/bin/bash", "-c", "vllm serve dense"], "bash"),  # not looked for
        (["bash", "-c", "vllm serve dense"], "sh"),
        (["vllm", "serve", "dense"], "env"),
    ],
)
def test_a_mount_over_another_program_gives_no_warning(ask: Asking, command: list[str], name: str) -> None:
    for folder in ("/usr/local/nvidia/bin", "/usr/local/cuda/bin", "/usr/sbin"):
        assert warnings(ask, pod(f"{folder}/{name}", command=command)) == []


PACKAGE = "/usr/local/lib/python3.12/dist-packages/triton/backends/__init__.py"


@pytest.mark.parametrize(
    "fields", [{"terminationMessagePath": PACKAGE}, {"volumeDevices": [{"name": "v", "devicePath": PACKAGE}]}]
)
def test_a_file_or_a_device_of_the_kubelet_is_a_mount(ask: Asking, fields: dict[str, Any]) -> None:
    assert warnings(ask, pod("/data", command=SERVE, **fields)) == mount_warning(PACKAGE)


def test_the_usual_file_of_a_termination_message_is_no_mount(ask: Asking) -> None:
    assert warnings(ask, pod("/data", command=SERVE, terminationMessagePath="/dev/termination-log")) == []


@table(
    "path",
    [
        *("/models", "/root/.cache/huggingface", "/dev/shm", "/usr/local/nvidia", "/usr/local/cuda", "/usr/locale"),
        *("/vllm-workspace/models", "/vllm-workspace/template.jinja", "/usr/bins", "/tmp", "/usr/share/x"),
        *(
            "/lib/modules",
            "/usr/lib/modules",
            "/library",
            "/lib64x",
            "/lib/firmware",
            "/etc/ssl/certs",
            "/etc/pki/ca-trust",
        ),
        *("/usr/lib/x86_64-linux-gnu/libcuda.so.1", "/lib/x86_64-linux-gnu/libnvidia-ml.so.1", "/home/vllm/.cache"),
        *("/usr/local/cuda/bin/nvcc", "/usr/sbin/x.sh", "/usr/local/cuda-12/bin"),
        *("/opt/dynamo/models", "/opt/uv/cache", "/kserve-workspace/models", "/workspace", "/workspace/vllm/models"),
    ],
)
def test_other_mounts_give_no_warning(ask: Asking, path: str) -> None:
    for fields in ({"command": SERVE}, {"command": MODULE}, {"command": ["/usr/local/bin/vllm", "serve", "dense"]}):
        assert warnings(ask, pod(path, **fields)) == []


@table(
    ("command", "program"),
    [
        (["/mnt/x/vllm", "serve", "dense"], "/mnt/x/vllm"),
        (["/mnt/../mnt//x/./vllm", "serve", "dense"], "/mnt/../mnt//x/./vllm"),
        (["/mnt/python3", *MODULE[1:]], "/mnt/python3"),
        (["/proc/self/root/mnt/x/vllm", "serve", "dense"], "/proc/self/root/mnt/x/vllm"),
        (["/proc/1/task/1/root/proc/self/root/mnt/vllm", *SERVE[1:]], "/proc/1/task/1/root/proc/self/root/mnt/vllm"),
        (["python3", "/mnt/bin/vllm", "serve", "dense"], "/mnt/bin/vllm"),
        (["env", "A=b", "/mnt/vllm", "serve", "dense"], "/mnt/vllm"),
        (["/mnt/bash", "-c", "vllm serve dense"], "/mnt/bash"),
        (["bash", "-c", "exec /mnt/vllm serve dense"], "/mnt/vllm"),
        (["bash", "-c", 'D=/mnt; "$D/vllm" serve dense'], "/mnt/vllm"),
        (["bash", "-c", 'cd /mnt && bash -c "x/vllm serve dense"'], "x/vllm"),
    ],
)
def test_a_program_below_a_mount_may_be_another_vllm(ask: Asking, command: list[str], program: str) -> None:
    cause = f"`{program}` may be a different vLLM from the image's"
    expected = [f"{cause}; decided for vLLM 0.24.0, which may not be the one that runs"]
    assert warnings(ask, pod("/mnt", command=command)) == expected
    words = [word.replace("$", "$$") for word in command]
    assert warnings(ask, compose(entrypoint=words[:1], command=words[1:], volumes=["x:/mnt"])) == expected
    assert warnings(ask, pod("/data/mnt", command=command)) == []


@table(
    ("mount", "fields", "warned"),
    [
        ("/app/venv", {"command": ["venv/bin/vllm", "serve", "dense"], "workingDir": "/app"}, True),
        ("/data", {"command": ["../data/bin/vllm", "serve", "dense"], "workingDir": "/app"}, True),
        ("/data", {"command": ["venv/bin/vllm", "serve", "dense"], "workingDir": "/app"}, False),
        ("/app/vllm", {"command": MODULE, "workingDir": "/app"}, True),
        ("/app/models", {"command": MODULE, "workingDir": "/app"}, False),
        ("/app/vllm", {"command": SERVE, "workingDir": "/app"}, False),
        *(
            ("/app", {"command": [f"/proc/{process}/cwd/vllm", "serve", "dense"], "workingDir": folder}, is_there)
            for process in ("self", "1", "thread-self", "self/task/7")
            for folder, is_there in (("/app", True), ("/app/x", True), ("/data", False))
        ),
        *(
            ("/app", {"command": [f"{folder}/3/vllm", "serve", "dense"], "workingDir": "/data"}, True)
            for folder in ("/proc/self/fd", "/proc/1/fd", "/dev/fd", "/dev/../dev/fd")
        ),
        ("/app", {"command": ["sh", "-c", "cd /app && /proc/self/cwd/vllm serve dense"], "workingDir": "/data"}, True),
        ("/app", {"command": ["/proc/self/root/data/vllm", "serve", "dense"], "workingDir": "/app"}, False),
        *(
            ("/app", {"command": SERVE, "workingDir": folder, "env": [{"name": "HOME", "value": home}]}, is_there)
            for home in ("/proc/self/cwd", "/proc/self/cwd/x")
            for folder, is_there in (("/app", True), ("/data", False))
        ),
    ],
)
def test_a_path_from_the_working_folder_may_be_below_a_mount(
    ask: Asking,
    mount: str,
    fields: dict[str, Any],
    warned: bool,  # noqa: FBT001  # a table's value
) -> None:
    assert len(warnings(ask, pod(mount, **fields))) == warned


@table(
    ("fields", "warned"),
    [
        ({"command": MODULE, "workingDir": "/mnt/x"}, True),
        ({"command": MODULE, "workingDir": "/mnt"}, True),
        ({"command": MODULE, "workingDir": "/data"}, False),
        ({"command": SERVE, "workingDir": "/mnt"}, False),
        ({"command": ["sh", "-c", f"cd /mnt && {' '.join(MODULE)}"]}, True),
        ({"command": ["sh", "-c", f"cd /data; cd x; {' '.join(MODULE)}"]}, True),
        ({"command": ["sh", "-c", f"cd /data && {' '.join(MODULE)}"]}, False),
        ({"command": ["sh", "-c", "cd /mnt && vllm serve dense"]}, False),
    ],
)
def test_python_searches_a_working_folder_below_a_mount_first(
    ask: Asking,
    fields: dict[str, Any],
    warned: bool,  # noqa: FBT001  # a table's value
) -> None:
    found = warnings(ask, pod("/mnt", **fields))
    assert [each.startswith("the working folder `") for each in found] == [True] * warned


@table(
    "fields",
    [
        {"volumes": ["./bin:/usr/local/bin"]},
        {"volumes": ["./bin:/usr/local/bin:ro"]},
        {"volumes": ["C:\\bin:/usr/local/bin/"]},
        {"volumes": ["/usr/local/bin"]},
        {"volumes": ["${BIN:-./bin}:${TO:-/usr/local}/bin"]},
        {"volumes": [{"type": "bind", "source": "./bin", "target": "/usr/local/bin"}]},
        {"configs": [{"source": "a", "target": "/usr/local/bin"}]},
        {"configs": [{"source": "a", "target": "usr/local/bin"}]},
        {"secrets": [{"source": "a", "target": "/usr/local/bin"}]},
        {"secrets": [{"source": "a", "target": "../../usr/local/bin"}]},
        {"tmpfs": "/usr/local/bin"},
        {"tmpfs": ["/usr/local/bin:size=1g"]},
    ],
)
def test_the_mounts_of_compose_are_read(ask: Asking, fields: dict[str, Any]) -> None:
    assert warnings(ask, compose(**fields)) == mount_warning("/usr/local/bin")


VOLUME: dict[str, Any] = {"image": "a", "volumes": ["./bin:/usr/local/bin"]}
DATA: dict[str, Any] = {
    "image": "a",
    "volumes": ["d:/data"],
    "tmpfs": "/usr/local/bin",
    "secrets": [{"target": "/bin"}],
}
HIDDEN = (
    "the volumes of `{}` are not shown and may have another vLLM; decided for vLLM 0.24.0, which may not be the one "
)


@table(
    ("volumes_from", "others", "expected"),
    [
        (["b"], {"b": VOLUME}, mount_warning("/usr/local/bin")),
        (["b:ro"], {"b": VOLUME}, mount_warning("/usr/local/bin")),
        (["${B:-b}"], {"b": VOLUME}, mount_warning("/usr/local/bin")),
        (["d", "b"], {"b": VOLUME, "d": DATA}, mount_warning("/usr/local/bin")),
        (["c"], {"b": VOLUME, "c": {"image": "a", "volumes_from": ["b"]}}, mount_warning("/usr/local/bin")),
        (["c"], {"b": VOLUME, "c": {"image": "a", "extends": "b"}}, mount_warning("/usr/local/bin")),
        (["d", "a"], {"d": {**DATA, "volumes_from": ["a", "d"]}}, []),
        (["container:x"], {}, [HIDDEN.format("container:x") + "that runs"]),
        (["container:x:ro"], {"container": DATA}, [HIDDEN.format("container:x:ro") + "that runs"]),
        (["container"], {"container": DATA}, []),
        (["x"], {}, [HIDDEN.format("x") + "that runs"]),
        (["${X}"], {"d": DATA}, [HIDDEN.format("${X}") + "that runs"]),
        (["d"], {"d": {**DATA, "volumes_from": ["x"]}}, [HIDDEN.format("x") + "that runs"]),
        (["d"], {"d": {**DATA, "extends": {"file": "x.yaml", "service": "b"}}}, [HIDDEN.format("d") + "that runs"]),
        ([1, None], {}, []),
        ("b", {"b": VOLUME}, []),
    ],
)
def test_the_volumes_of_other_services_are_read(
    ask: Asking, volumes_from: object, others: dict[str, Any], expected: list[str]
) -> None:
    document = compose(volumes_from=volumes_from)
    assert warnings(ask, {"services": {**document["services"], **others}}) == expected


def test_the_volumes_of_an_extended_service_s_others_are_read(ask: Asking) -> None:
    base = {"image": "a", "volumes_from": ["b"]}
    services = {**compose(extends="c")["services"], "b": VOLUME, "c": base}
    assert warnings(ask, {"services": services}) == mount_warning("/usr/local/bin")


@pytest.mark.parametrize("is_chain", [False, True])
def test_volumes_of_other_services_are_not_copied_without_end(*, is_chain: bool) -> None:
    image = {"image": IMAGE, "command": "dense"}
    named = {f"s{n}": {**image, "volumes_from": [f"s{n - 1}" if is_chain and n else "b"]} for n in range(1000)}
    faults: list[RequestFault] = []
    base = {"image": "a", "volumes": [f"/data/{number}" for number in range(1000)]}
    read_manifest({"services": {"b": base, **named}}, "", faults)
    assert [fault.message for fault in faults] == [
        f"variables and files that are copied or expanded exceed {MAX_COPIED} characters; send fewer at a time"
    ]


@table("volumes", [["hf:/root/.cache/huggingface"], ["${HF}:/models"], [1], {}, "x", ["${"], [{}]])
def test_other_volumes_of_compose_give_no_warning(ask: Asking, volumes: Any) -> None:
    assert warnings(ask, compose(volumes=volumes)) == []


@pytest.mark.parametrize("field", ["volumes", "working_dir"])
def test_the_working_folder_of_compose_is_read(ask: Asking, field: str) -> None:
    service = {"entrypoint": MODULE, "command": [], "volumes": ["x:/mnt"], "working_dir": "/mnt"}
    assert bool(warnings(ask, compose(**service))) is True
    assert warnings(ask, compose(**{**service, field: None})) == []


@table(
    ("config", "other", "is_read"),
    [
        ("/c", "/d", True),
        ("/c", "/cc", True),
        ("/c/", "/", True),
        ("/c/.", "/d", True),
        *(("/c", other, False) for other in ("/c", "/c/", "/c/.", "//c", "/d/../c", "c", "/c/f.yaml", "//c//f.yaml/")),
        *((config, "/c", False) for config in ("/c/", "/c/.", "//c", "/d/../c", "c")),
    ],
)
def test_a_mount_hides_files_in_any_spelling_of_its_path(config: str, other: str, is_read: bool) -> None:  # noqa: FBT001  # a table's value
    document = pod(other, args=["--config", "/c/f.yaml"])
    spec = document["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "c", "mountPath": config})
    spec["volumes"].append({"name": "c", "configMap": {"name": "c"}})
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"f.yaml": "model: dense"}}
    (found,) = read_manifest([document, data], "", [])
    assert found.files == ({"/c/f.yaml": "model: dense"} if is_read else {})


def check_options_file(ask: Asking, folder: str, container: dict[str, Any], *, is_read: bool) -> None:
    """Check whether a container reads its options from ``f.yaml`` of a ConfigMap that is mounted at a folder."""
    document = pod("/e", **container)
    spec = document["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "c", "mountPath": folder})
    spec["volumes"].append({"name": "c", "configMap": {"name": "c"}})
    text = 'model: dense\nkv-transfer-config: \'{"kv_connector": "NixlConnector", "kv_role": "kv_both"}\'\n'
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"f.yaml": text}}
    if is_read:
        assert decision_of(ask, [document, data]).runner == "v1"
    else:
        with pytest.raises(RequestInvalid, match=r"f\.yaml` is not given"):
            decision_of(ask, [document, data])


@table(
    ("container", "is_read"),
    [
        ({"command": ["vllm", "serve", "--config", "f.yaml"], "workingDir": "/c"}, True),
        ({"command": ["vllm", "serve", "--config", "./f.yaml"], "workingDir": "/c/"}, True),
        ({"command": ["vllm", "serve", "--config", "../c/f.yaml"], "workingDir": "/d"}, True),
        ({"command": ["bash", "-c", "cd /c && vllm serve --config f.yaml"]}, True),
        ({"command": ["bash", "-c", "cd c && vllm serve --config f.yaml"], "workingDir": "/"}, True),
        ({"command": ["vllm", "serve", "--config", "f.yaml"]}, False),
        ({"command": ["vllm", "serve", "--config", "f.yaml"], "workingDir": "/d"}, False),
        ({"command": ["vllm", "serve", "--config", "/c//f.yaml"]}, True),
        ({"command": ["vllm", "serve", "--config", "/c/../c/./f.yaml"], "workingDir": "/d"}, True),
        ({"command": ["vllm", "serve", "--config", "/d/f.yaml"], "workingDir": "/c"}, False),
        ({"command": ["bash", "-c", 'cd "$D" && vllm serve --config f.yaml'], "workingDir": "/c"}, False),
    ],
)
def test_the_path_of_a_file_of_options_is_that_in_the_working_folder(
    ask: Asking, container: dict[str, Any], *, is_read: bool
) -> None:
    check_options_file(ask, "/c", container, is_read=is_read)


@table(
    ("container", "is_read"),
    [
        ({"command": ["vllm", "serve", "--config", "c/f.yaml"]}, True),
        ({"command": ["vllm", "serve", "--config", "f.yaml"], "workingDir": "c"}, True),
        ({"command": ["bash", "-c", "cd c && vllm serve --config f.yaml"]}, True),
        ({"command": ["vllm", "serve", "--config", "f.yaml"]}, False),
        ({"command": ["vllm", "serve", "--config", "c/f.yaml"], "workingDir": "/d"}, False),
        ({"command": ["vllm", "serve", "--config", "c/f.yaml"], "image": "own:1"}, False),
    ],
)
def test_a_relative_file_of_options_may_be_in_the_folder_of_the_image(
    ask: Asking, container: dict[str, Any], *, is_read: bool
) -> None:
    check_options_file(ask, "/vllm-workspace/c", container, is_read=is_read)


@pytest.mark.parametrize("other", ["/c/f.yaml", "/c/f.yaml/", "//c/./f.yaml"])
def test_a_mount_hides_a_file_that_is_mounted_alone(other: str) -> None:
    document = pod(other, args=["--config", "/c/f.yaml"])
    spec = document["spec"]
    spec["containers"][0]["volumeMounts"].append({"name": "c", "mountPath": "/c//f.yaml", "subPath": "f.yaml"})
    spec["volumes"].append({"name": "c", "configMap": {"name": "c"}})
    data = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"f.yaml": "model: dense"}}
    assert read_manifest([document, data], "", [])[0].files == {}
    spec["containers"][0]["volumeMounts"][0]["mountPath"] = "/c"
    assert read_manifest([document, data], "", [])[0].files == {"/c/f.yaml": "model: dense"}


@table(
    ("env", "mount", "shown"),
    [
        ({"HOME": "/data"}, "/data", "/data"),
        ({"HOME": "/data/user/"}, "/data", "/data"),
        ({"HOME": "/data"}, "/data/.local/lib", "/data/.local/lib"),
        ({"HOME": "/data"}, "/data/models", None),
        ({"HOME": "data"}, "/vllm-workspace/data", "/vllm-workspace/data"),
        ({"HOME": "data"}, "/data", None),
        ({"HOME": "/data", "PYTHONNOUSERSITE": "1"}, "/data", None),
        ({}, "/data", None),
        ({}, "/.local", "/.local"),
        ({}, "/home/vllm/.local/lib", "/home/vllm/.local/lib"),
        ({"HOME": "/data"}, "/.local", None),
        ({"PYTHONNOUSERSITE": "1"}, "/.local", None),
        *(({}, path, path) for path in ("/home", "/home/vllm")),
        *(({"HOME": "/root"}, path, None) for path in ("/home", "/home/vllm")),
        ({"PYTHONNOUSERSITE": "1"}, "/home/vllm", None),
        *(
            ({}, path, None)
            for path in ("/.cache", "/home/vllm/models", "/data/.local", "/home/vllm/.cache", "/.localx")
        ),
    ],
)
def test_a_home_on_a_volume_may_have_packages_with_another_vllm(
    ask: Asking, env: dict[str, str], mount: str, shown: str | None
) -> None:
    expected = [] if shown is None else mount_warning(shown)
    variables = [{"name": name, "value": value} for name, value in env.items()]
    assert warnings(ask, pod(mount, command=SERVE, env=variables)) == expected
    script = "; ".join([*(f"export {name}={value}" for name, value in env.items()), "vllm serve dense"])
    assert warnings(ask, pod(mount, command=["sh", "-c", script])) == expected
    empty = pod(mount, command=SERVE, env=variables)
    empty["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert warnings(ask, empty) == []


@table("env", [[{"name": "HOME", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}]])
def test_a_home_that_is_not_known_may_be_on_any_volume(ask: Asking, env: list[Any]) -> None:
    document = pod("/data", command=SERVE, env=env)
    assert warnings(ask, document) == mount_warning("/data")
    document["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert warnings(ask, document) == []


def module_warning(path: str) -> list[str]:
    cause = f"the mount at `{path}` may replace a module that vLLM imports"
    why = f"{cause}, as `python -m` searches the working folder first"
    return [f"{why}; decided for vLLM 0.24.0, which may not be the one that runs"]


@table(
    ("path", "command", "is_seen"),
    [
        *((f"/wd/{name}", MODULE, True) for name in ("triton.py", "triton", "triton/__init__.py", "torch.so", "x.pyc")),
        *((f"/wd/{name}", MODULE, True) for name in ("json", "json/x", "pynvml.py", "x/__init__.py", "./triton.py")),
        *((f"/wd/{name}", MODULE, False) for name in ("models", "x.jinja", "data/x.py", "trito", "triton.txt")),
        *((path, MODULE, False) for path in ("/x/triton.py", "/wdx/triton.py", "/triton.py")),
        ("/wd/triton.py", ["sh", "-c", f"exec {' '.join(MODULE)}"], True),
        ("/x/triton.py", ["sh", "-c", f"cd /x && exec {' '.join(MODULE)}"], True),
        ("/wd/triton.py", SERVE, False),
    ],
)
def test_a_mount_in_the_folder_from_which_python_imports_may_replace_a_module(
    ask: Asking, path: str, command: list[str], *, is_seen: bool
) -> None:
    expected = module_warning(path.replace("./", "")) if is_seen else []
    assert warnings(ask, pod(path, command=command, workingDir="/wd")) == expected
    log = pod("/models", command=command, workingDir="/wd", terminationMessagePath=path)
    assert warnings(ask, log) == expected
    empty = pod(path, command=command, workingDir="/wd")
    empty["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert warnings(ask, empty) == []


def test_a_secret_in_that_folder_may_be_a_module(ask: Asking) -> None:
    document = pod("/wd/triton", command=MODULE, workingDir="/wd")
    document["spec"]["volumes"] = [{"name": "v", "secret": {"secretName": "s"}}]
    assert warnings(ask, document) == module_warning("/wd/triton")


@table(
    ("image", "folder", "command"),
    [
        ("vllm/vllm-openai:v0.24.0", "/vllm-workspace", MODULE),
        ("nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0", "/workspace", ["python3", "-m", "dynamo.vllm", "--model", "a"]),
    ],
)
def test_a_mount_in_the_folder_of_the_image_may_replace_a_module(image: str, folder: str, command: list[str]) -> None:
    document = pod(f"{folder}/triton.py", command=command, image=image)
    (container,) = read_manifest(document, "", [])
    assert container.installation is not None
    assert container.installation.cause in module_warning(f"{folder}/triton.py")[0]


MODEL = "Qwen/dense"
FILLS = {"name": "v", "mountPath": "/x"}
READS = {**FILLS, "readOnly": True}
ANOTHER = {"name": "w", "mountPath": "/x"}


@table("is_model", [False, True])
@table(
    ("others", "is_filled"),
    [
        ({}, False),
        ({"initContainers": [{"name": "i", "volumeMounts": [FILLS]}]}, True),
        ({"initContainers": [{"name": "i", "volumeMounts": [{**FILLS, "subPath": "a"}]}]}, True),
        ({"initContainers": [{"name": "i", "restartPolicy": "Always", "volumeMounts": [FILLS]}]}, True),
        ({"initContainers": [{"name": "i"}, {"name": "j", "volumeMounts": [READS, FILLS]}]}, True),
        ({"sidecars": [{"name": "b", "image": "x", "volumeMounts": [{**FILLS, "readOnly": False}]}]}, True),
        ({"sidecars": [{"name": "b", "image": "x", "volumeMounts": [READS]}]}, False),
        ({"initContainers": [{"name": "i", "volumeMounts": [READS]}]}, False),
        ({"initContainers": [{"name": "i", "volumeMounts": [ANOTHER]}]}, False),
        ({"initContainers": [{"name": "i", "volumeMounts": "x"}, {"volumeMounts": [1, {"name": 1}]}]}, False),
    ],
)
def test_another_container_may_fill_an_empty_volume(
    ask: Asking,
    others: dict[str, Any],
    is_filled: bool,  # noqa: FBT001  # a table's value
    is_model: bool,  # noqa: FBT001  # a table's value
) -> None:
    fields: dict[str, Any] = {"workingDir": "/data"} if is_model else {"env": [{"name": "HOME", "value": "/data"}]}
    document = pod("/data", "/data/y", command=SERVED if is_model else SERVE, **fields)
    spec = document["spec"]
    spec["volumes"] = [{"name": "v", "emptyDir": {}}, {"name": "w", "emptyDir": {}}]
    spec["containers"] += others.get("sidecars", [])
    spec["initContainers"] = [{"image": "x", **each} for each in others.get("initContainers", [])]
    expected = (folder_warning("/data") if is_model else mount_warning("/data")) if is_filled else []
    assert (model_warnings if is_model else warnings)(ask, document) == expected


@pytest.mark.parametrize(
    ("kind", "is_empty"),
    [("emptyDir", False), ("secret", True), ("downwardAPI", True), ("configMap", False), ("hostPath", False)],
)
def test_only_an_empty_dir_can_be_filled(ask: Asking, kind: str, is_empty: bool) -> None:  # noqa: FBT001  # a table's value
    document = pod("/data", command=SERVE, env=[{"name": "HOME", "value": "/data"}])
    document["spec"]["volumes"] = [{"name": "v", kind: {}}]
    document["spec"]["initContainers"] = [{"name": "i", "image": "x", "volumeMounts": [FILLS]}]
    assert (warnings(ask, document) == []) is is_empty


CLAIM = {"metadata": {"name": "v"}, "spec": {}}


def controlled(kind: str, spec: dict[str, Any], claims: object) -> dict[str, Any]:
    template = {"metadata": {}, "spec": spec}
    if kind == "StatefulSet":
        return {"apiVersion": "apps/v1", "kind": kind, "spec": {"template": template, "volumeClaimTemplates": claims}}
    if kind == "CloneSet":
        inner = {"template": template, "volumeClaimTemplates": claims}
        return {"apiVersion": "apps.kruise.io/v1alpha1", "kind": kind, "spec": inner}
    group = {"workerTemplate": template, "volumeClaimTemplates": claims}
    if kind == "LeaderWorkerSet":
        return {"apiVersion": "leaderworkerset.x-k8s.io/v1", "kind": kind, "spec": {"leaderWorkerTemplate": group}}
    roles = [{"name": "r", "spec": {"leaderWorkerTemplate": group}}]
    return {"apiVersion": "disaggregatedset.x-k8s.io/v1", "kind": kind, "spec": {"roles": roles}}


@table("kind", ["StatefulSet", "LeaderWorkerSet", "DisaggregatedSet", "CloneSet"])
@table("is_model", [False, True])
@table(
    ("claims", "is_filled"),
    [
        ([CLAIM], True),
        ([1, {"metadata": 1}, {"metadata": {"name": 1}}, CLAIM], True),
        *((claims, False) for claims in ([{"metadata": {"name": "w"}}], [], None, "v", {"metadata": {"name": "v"}})),
    ],
)
def test_a_claim_takes_precedence_over_a_volume_of_its_name(
    ask: Asking,
    kind: str,
    is_model: bool,  # noqa: FBT001  # a table's value
    claims: object,
    is_filled: bool,  # noqa: FBT001  # a table's value
) -> None:
    fields: dict[str, Any] = {"workingDir": "/data"} if is_model else {"env": [{"name": "HOME", "value": "/data"}]}
    spec = pod("/data", command=SERVED if is_model else SERVE, **fields)["spec"]
    spec["volumes"] = [{"name": "v", "emptyDir": {}}]
    expected = (folder_warning("/data") if is_model else mount_warning("/data")) if is_filled else []
    found = (model_warnings if is_model else warnings)(ask, controlled(kind, spec, claims))
    assert [each for each in found if "mount" in each] == expected


FOLDER = ".local/lib/python3.12/site-packages/x.pth"


@table(
    ("volume", "is_empty"),
    [
        *(({kind: {"items": [{"key": "k", "path": "x.pth"}]}}, True) for kind in ("secret", "downwardAPI")),
        *(({kind: {"items": [{"path": "a"}, {"path": FOLDER}]}}, False) for kind in ("secret", "downwardAPI")),
        *(({kind: {"items": items}}, True) for kind in ("secret", "downwardAPI") for items in ([], None, [1, {}])),
        ({"projected": {"sources": [{"secret": {"name": "s"}}, {"serviceAccountToken": {"path": "token"}}]}}, True),
        ({"projected": {"sources": [{"downwardAPI": {"items": [{"path": "labels"}]}}]}}, True),
        ({"projected": {"sources": [{"secret": {}}, {"secret": {"items": [{"key": "k", "path": FOLDER}]}}]}}, False),
        ({"projected": {"sources": [{"downwardAPI": {"items": [{"path": FOLDER}]}}]}}, False),
        ({"projected": {"sources": [{"serviceAccountToken": {"path": FOLDER}}]}}, False),
        ({"projected": {"sources": [{"secret": {}}, {"configMap": {"items": [{"path": FOLDER}]}}]}}, False),
        ({"projected": {"sources": [{"clusterTrustBundle": {"path": FOLDER}}]}}, False),
        ({"projected": {"sources": [{"secret": {"name": "s"}, "clusterTrustBundle": {"path": FOLDER}}]}}, False),
        *(({"projected": value}, False) for value in ({}, 1, {"sources": [1]}, {"sources": [{"secret": 1}]})),
        *(({"emptyDir": value}, True) for value in ({}, None, {"medium": "Memory"})),
        *(({kind: None, "persistentVolumeClaim": {}}, False) for kind in ("emptyDir", "secret", "projected")),
        *(({kind: {}, "persistentVolumeClaim": None}, True) for kind in ("emptyDir", "secret")),
        *(({kind: {}, "hostPath": {"path": "/"}}, False) for kind in ("emptyDir", "secret")),
        ({}, False),
    ],
)
@table("is_model", [False, True])
def test_a_volume_of_files_is_empty_if_no_path_has_a_folder(
    ask: Asking,
    volume: dict[str, Any],
    is_empty: bool,  # noqa: FBT001  # a table's value
    is_model: bool,  # noqa: FBT001  # a table's value
) -> None:
    fields: dict[str, Any] = {"workingDir": "/data"} if is_model else {"env": [{"name": "HOME", "value": "/data"}]}
    document = pod("/data", command=SERVED if is_model else SERVE, **fields)
    document["spec"]["volumes"] = [{"name": "v", **volume}]
    expected = folder_warning("/data") if is_model else mount_warning("/data")
    assert (model_warnings if is_model else warnings)(ask, document) == ([] if is_empty else expected)


@table("other", ["/data", "/data/", "//data", "data", "/x/../data", "/data/."])
@table("is_first", [False, True])
def test_an_empty_volume_and_another_one_at_the_same_path_are_not_empty(
    ask: Asking,
    other: str,
    is_first: bool,  # noqa: FBT001  # a table's value
) -> None:
    document = pod("/data", command=SERVE, env=[{"name": "HOME", "value": "/data"}])
    spec = document["spec"]
    spec["volumes"] += [{"name": name, "emptyDir": {}} for name in ("w", "x")]
    mounts = [{"name": "v", "mountPath": other}, {"name": "w", "mountPath": "/data"}]
    spec["containers"][0]["volumeMounts"] = mounts[::-1] if is_first else mounts
    assert warnings(ask, document) == mount_warning("/data")
    mounts[0]["name"] = "x"
    assert warnings(ask, document) == []


@table(
    ("mount", "command", "env"),
    [
        *(("/dev/shm", SERVE, {}), ("/tmp", SERVE, {}), ("/root/.cache/huggingface", SERVE, {})),
        *(("/data", SERVE, {"HF_HOME": "/data"}), ("/models", ["vllm", "serve", "/models/q"], {})),
        ("/cache", SERVE, {"HOME": "/root", "VLLM_CACHE_ROOT": "/cache"}),
        ("/data/.cache", SERVE, {"HOME": "/data"}),
    ],
)
def test_a_volume_that_is_filled_with_a_model_or_a_cache_is_certain(
    ask: Asking, mount: str, command: list[str], env: dict[str, str]
) -> None:
    document = pod(mount, command=command, env=[{"name": name, "value": value} for name, value in env.items()])
    spec = document["spec"]
    spec["volumes"] = [{"name": "v", "emptyDir": {}}]
    spec["initContainers"] = [{"name": "i", "image": "x", "args": ["download", "dense"], "volumeMounts": [FILLS]}]
    assert model_warnings(ask, document, command[-1]) == []


@pytest.mark.parametrize(
    "path", ["/usr/local/lib/python3.12/dist-packages", "/usr/local/bin", "/opt/venv", "/vllm-workspace", "/root"]
)
def test_an_empty_volume_hides_what_the_image_has_there(ask: Asking, path: str) -> None:
    document = pod(path, command=SERVE)
    document["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert warnings(ask, document) == mount_warning(path)


def model_warnings(ask: Asking, document: Any, model: str = MODEL) -> list[str]:
    """The warnings of an engine whose model has the name ``model``."""
    config = ask.request(["--model", "dense"])["deployment"]["model_configs"]["dense"]
    members = {"vllm_version": "0.24.0", "manifest": document, "model_configs": {model: config}}
    asked = read_request_or_manifest(members, ask.policy.releases, "")
    assert isinstance(asked, Manifest)
    ((_, request),) = requests_of(asked, ask.policy.releases)
    assert isinstance(request, Request)
    return ask.policy.decide(request, TODAY).warnings


def folder_warning(mount: str, model: str = MODEL) -> list[str]:
    return [f"the mount at `{mount}` may make the folder `{model}`, and vLLM loads it instead of that model"]


SERVED = ["vllm", "serve", MODEL]


DYNAMO = "nvcr.io/nvidia/ai-dynamo/vllm-runtime:1.3.0"
XPU = "vllm/vllm-openai-xpu:v0.33.0"
KSERVE_GPU = "kserve/huggingfaceserver:v0.20.0-gpu"
DYNAMO_WORKER = ["python3", "-m", "dynamo.vllm", "--model", MODEL]
IMAGE_FOLDERS: list[tuple[str, str, dict[str, Any], bool]] = [
    (DYNAMO, "/workspace", {"command": SERVED}, True),
    (DYNAMO, "/workspace/", {"command": DYNAMO_WORKER}, True),
    (DYNAMO, "/workspace", {"command": ["sh", "-c", f"exec {' '.join(SERVED)}"]}, True),
    (DYNAMO, "/workspace", {"command": ["sh", "-c", f"cd x && {' '.join(SERVED)}"]}, True),
    (DYNAMO, "/workspace/x", {"command": ["sh", "-c", f"cd x && {' '.join(SERVED)}"]}, True),
    (DYNAMO, "/workspace/y", {"command": ["sh", "-c", f"cd x && {' '.join(SERVED)}"]}, False),
    (DYNAMO, "/workspace", {"command": ["sh", "-c", f"cd /data; {' '.join(SERVED)}"]}, True),
    (DYNAMO, "/workspace", {"command": ["sh", "-c", f"cd /data && {' '.join(SERVED)}"]}, False),
    (DYNAMO, "/workspace", {"command": ["sh", "-c", f"cd ~ && {' '.join(SERVED)}"]}, False),
    (DYNAMO, "/workspace", {"command": SERVED, "workingDir": "/data"}, False),
    (DYNAMO, "/workspace", {"command": SERVED, "workingDir": "/workspace"}, True),
    (DYNAMO, "/workspace/Qwen", {"command": SERVED}, True),
    (DYNAMO, "/models/Qwen", {"command": SERVED}, True),  # the image of a tag that is not known may have another folder
    (DYNAMO, "/workspace/models", {"command": SERVED}, False),
    (DYNAMO, "/work", {"command": SERVED}, False),
    (DYNAMO.replace("1.3.0", "mine"), "/workspace", {"command": SERVED}, True),
    (XPU, "/workspace", {"command": SERVED}, True),
    (XPU, "/workspace", {"args": [MODEL]}, True),
    (XPU.replace("xpu", "rocm"), "/app", {"args": [MODEL]}, True),
    (XPU.replace("xpu", "rocm"), "/workspace", {"args": [MODEL]}, False),
    ("rayproject/ray-llm:2.59.0", "/home/ray", {"command": SERVED}, True),
    ("quay.io/ascend/vllm-ascend:v0.25.1rc1", "/workspace", {"command": SERVED}, True),
    ("vllm/vllm-omni:v0.33.0", "/app", {"command": SERVED}, True),
    (KSERVE_GPU, "/kserve-workspace", {"args": [f"--model_id={MODEL}"]}, True),
    (KSERVE_GPU.replace("-gpu", ""), "/kserve-workspace", {"args": [f"--model_id={MODEL}"]}, False),
    ("team/mine-vllm:7", "/workspace", {"command": SERVED}, False),
]


@table(("image", "mount", "fields", "is_warned"), IMAGE_FOLDERS)
def test_a_mount_in_the_working_folder_of_an_image_may_have_the_model(
    ask: Asking,
    image: str,
    mount: str,
    fields: dict[str, Any],
    is_warned: bool,  # noqa: FBT001  # a table's value
) -> None:
    found = model_warnings(ask, pod(mount, **{**fields, "image": image}))
    expected = folder_warning(mount.rstrip("/")) if is_warned else []
    assert [each for each in found if "instead of that model" in each] == expected


@table("volume", [{"emptyDir": {}}, {"secret": {"secretName": "s"}}])
@table(("model", "mount"), [("gpt2", "/workspace"), ("Qwen/dense", "/workspace"), ("gpt2", "/data")])
def test_a_volume_without_folders_in_the_working_folder_of_an_image_may_have_a_file(
    ask: Asking, volume: dict[str, Any], model: str, mount: str
) -> None:
    document = pod(mount, command=["vllm", "serve", model], image=DYNAMO)
    document["spec"]["volumes"] = [{"name": "v", **volume}]
    found = [each for each in model_warnings(ask, document, model) if "instead" in each]
    is_file = (model, mount, "secret" in volume) == ("gpt2", "/workspace", True)
    expected = "the volume at `/workspace` may have the file `gpt2`, and vLLM loads it instead of that model's "
    assert found == ([f"{expected}configuration"] if is_file else [])


@table(
    ("mount", "command", "is_warned"),
    [
        ("/workspace", DYNAMO_WORKER, True),
        ("/workspace/vllm", DYNAMO_WORKER, True),
        ("/workspace", ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL], True),
        ("/workspace", ["sh", "-c", f"cd /data && {' '.join(DYNAMO_WORKER)}"], False),
        ("/workspace", SERVED, False),
        ("/workspace/models", DYNAMO_WORKER, False),
        ("/workspace", ["bin/vllm", "serve", MODEL], True),
    ],
)
def test_the_working_folder_of_an_image_may_have_another_vllm(
    ask: Asking,
    mount: str,
    command: list[str],
    is_warned: bool,  # noqa: FBT001  # a table's value
) -> None:
    found = model_warnings(ask, pod(mount, command=command, image=DYNAMO))
    causes = ("the working folder `/workspace` may have", "the mount at `/workspace/vllm` may", "`bin/vllm` may be")
    assert any(each.startswith(causes) for each in found) == is_warned


MAKES = "may make the folder `Qwen/dense`, and vLLM loads it instead of that model"
CHANGES = "may change the files of the folder `Qwen/dense` before vLLM loads them"


@table(
    ("script", "own", "image", "warned"),
    [
        (f"mkdir -p /workspace/{MODEL}; vllm serve {MODEL}", "", DYNAMO, ""),  # an empty folder is no model
        (
            f"mkdir -p /workspace/Qwen; cp -r /x/q /workspace/{MODEL}; exec vllm serve {MODEL}",
            "",
            DYNAMO,
            f"`cp` {MAKES}",
        ),
        (f"cp -r /x/q /workspace/{MODEL}; {' '.join(DYNAMO_WORKER)}", "", DYNAMO, f"`cp` {MAKES}"),
        (f"cp -r /x/q {MODEL}; vllm serve {MODEL}", "", DYNAMO, f"`cp` {MAKES}"),
        (f"cp /x/c /workspace/{MODEL}/config.json; vllm serve {MODEL}", "", DYNAMO, f"`cp` {CHANGES}"),
        (f"vllm serve {MODEL} & cp -r /x/q /workspace/{MODEL}; wait", "", DYNAMO, f"`cp` {MAKES}"),
        (f'bash -c "cp -r /x/q /workspace/{MODEL}"; vllm serve {MODEL}', "", DYNAMO, f"`bash` {MAKES}"),
        (f'cp -r /x/q /workspace/{MODEL}; bash -c "vllm serve {MODEL}"', "", DYNAMO, f"`cp` {MAKES}"),
        (f"cp -r /x/q /app/{MODEL}; vllm serve {MODEL}", "", DYNAMO, ""),
        (f"cp -r /x/q /workspace/{MODEL}; vllm serve {MODEL}", "/data", DYNAMO, ""),
        (f"cp -r /x/q /data/{MODEL}; vllm serve {MODEL}", "/data", DYNAMO, f"`cp` {MAKES}"),
        (f"cp -r /x/q /workspace/{MODEL}; cd /data && vllm serve {MODEL}", "", DYNAMO, ""),
        (f"cp -r /x/q /workspace/vllm/{MODEL}; vllm serve {MODEL}", "", XPU, f"`cp` {MAKES}"),
        (f"cp -r /x/q /vllm-workspace/{MODEL}; vllm serve {MODEL}", "", DYNAMO, f"`cp` {MAKES}"),
        (f"cp -r /x/q /vllm-workspace/{MODEL}; vllm serve {MODEL}", "", IMAGE, f"`cp` {MAKES}"),
    ],
)
def test_a_script_may_make_the_model_in_the_folder_in_which_it_starts(
    ask: Asking, script: str, own: str, image: str, warned: str
) -> None:
    fields = {"workingDir": own} if own else {}
    document = pod(command=["bash", "-c", script], image=image, **fields)
    found = [each for each in model_warnings(ask, document) if each.endswith((MAKES, CHANGES))]
    assert found == ([warned] if warned else [])


def starting(kind: str, folder: str, script: str) -> dict[str, Any]:
    """An engine that a script starts, in a stated working folder."""
    if kind == "pod":
        return pod(command=["bash", "-c", script], workingDir=folder)
    if kind == "compose":
        return {"services": {"a": {"image": IMAGE, "entrypoint": ["bash", "-c", script], "working_dir": folder}}}
    if kind == "run":
        return {"script": f"docker run -w {folder} --entrypoint bash {IMAGE} -c {shlex.quote(script)}"}
    return {"unit": f"[Service]\nWorkingDirectory={folder}\nExecStart=/bin/bash -c {shlex.quote(script)}\n"}


@table(
    ("folder", "script", "warned"),
    [
        *(
            ("/q", f"{command}; vllm serve /q", f"`{program}` may change the files of the folder `/q`")
            for command, program in (
                ("cp /x config.json", "cp"),
                ("wget http://x/config.json", "wget"),
                ("curl -O http://x/config.json", "curl"),
                ("echo x > config.json", "echo"),
                ("sed -i s/a/b/ config.json", "sed"),
                ("cp /x ./a/../config.json", "cp"),
                ("cp /x /proc/self/cwd/config.json", "cp"),
            )
        ),
        *(
            ("/q", f"{program} {words}; vllm serve /q", f"`{program}` may make the folder `/q`")
            for program, words in (("tar", "-xf /x"), ("git", "checkout x"), ("unzip", "/x.zip"))
        ),
        ("/q", "cp /x config.json; vllm serve .", "`cp` may change the files of the folder `.`"),
        ("/m", "cp /x q/config.json; vllm serve /m/q", "`cp` may change the files of the folder `/m/q`"),
        ("/m/x", "cp /x ../q/config.json; vllm serve /m/q", "`cp` may change the files of the folder `/m/q`"),
        ("/", "cd m && cp /x q/config.json; vllm serve /m/q", "`cp` may change the files of the folder `/m/q`"),
        ("/m", "bash -c 'cd q; cp /x config.json; vllm serve /m/q'", "`cp` may change the files of the folder `/m/q`"),
        ("/m", "cd q; bash -c 'cp /x config.json; vllm serve /m/q'", "`cp` may change the files of the folder `/m/q`"),
        ("/m", "vllm serve /m/q & cp /x q/config.json; wait", "`cp` may change the files of the folder `/m/q`"),
        ("/m", "cp /x config.json; vllm serve /m/q", ""),
        ("/m/q2", "cp /x config.json; tar -xf /x; vllm serve /m/q", ""),
        ("/m", "cd /q; cd /x; bash -c 'cp /x config.json; vllm serve /q'", ""),
        ("/q", "cd /m; cp /x config.json; vllm serve /q", ""),
        ("/q", "cat config.json; ls; vllm serve /q", ""),
    ],
)
@table("kind", ["pod", "compose", "run", "systemd"])
def test_a_script_starts_in_the_stated_working_folder(folder: str, script: str, warned: str, kind: str) -> None:
    (container,) = read_manifest(starting(kind, folder, script), "", [])
    about = [each for each in container.doubts if "may make the folder" in each or "may change the files" in each]
    assert (len(about), container.installation) == (1 if warned else 0, None)
    assert not warned or about[0].startswith(warned)


PACKAGES = "/usr/local/lib/python3.12/dist-packages"


@table(
    ("folder", "script", "program"),
    [
        (PACKAGES, "cp /x vllm/envs.py; vllm serve dense", "cp"),
        (PACKAGES, "sed -i s/a/b/ vllm/envs.py; vllm serve dense", "sed"),
        (PACKAGES, "patch -p1 < /x; vllm serve dense", "patch"),
        (PACKAGES, "git apply /x; vllm serve dense", "git"),
        (PACKAGES, "vllm serve dense & cp /x vllm/envs.py; wait", "cp"),
        ("/usr/local/bin", "cp /x vllm; vllm serve dense", "cp"),
        ("/usr/local/bin", "wget http://x/vllm; vllm serve dense", "wget"),
        ("/etc", "cp /x ld.so.preload; vllm serve dense", "cp"),
        ("/etc", "echo x > ld.so.preload; vllm serve dense", "echo"),
        ("/usr/local", "tar -xf /x; vllm serve dense", "tar"),
        ("/", "tar -xf /x; vllm serve dense", "tar"),
        (PACKAGES, "ls; cat vllm/envs.py; vllm serve dense", ""),
        ("/etc", "cp /x y; vllm serve dense", ""),
        ("/app", "cp /x vllm; tar -xf /x; vllm serve dense", ""),
    ],
)
@table("kind", ["pod", "compose", "run", "systemd"])
def test_a_script_in_the_stated_working_folder_may_change_what_the_engine_is_loaded_from(
    folder: str, script: str, program: str, kind: str
) -> None:
    (container,) = read_manifest(starting(kind, folder, script), "", [])
    cause = f"`{program}` may replace or remove the vLLM of the image before the start"
    assert (container.installation and container.installation.cause) == (cause if program else None)


def test_a_doubt_about_a_script_with_a_stated_working_folder_is_shown_once(ask: Asking) -> None:
    document = pod(command=["bash", "-c", "cp -r /x dense; vllm serve dense"], workingDir="/m")
    cause = "`cp` may make the folder `dense`, and vLLM loads it instead of that model"
    assert [each for each in model_warnings(ask, document, "dense") if cause in each] == [cause]
    script = "cp /x vllm/envs.py; vllm serve dense"
    about = "may replace or remove the vLLM of the image before the start"
    (warning,) = warnings(ask, pod(command=["bash", "-c", script], workingDir=PACKAGES))
    assert warning.startswith(f"`cp` {about}")


@pytest.mark.parametrize(("own", "at"), [("", "/workspace"), ("/data", "/data"), ("/data", "/workspace")])
def test_a_hook_may_make_the_model_in_the_folder_in_which_the_container_starts(ask: Asking, own: str, at: str) -> None:
    hook = {"postStart": {"exec": {"command": ["cp", "-r", "/x/q", f"{at}/{MODEL}"]}}}
    document = pod(command=SERVED, image=DYNAMO, lifecycle=hook, **({"workingDir": own} if own else {}))
    found = [each for each in model_warnings(ask, document) if each.endswith(MAKES)]
    assert found == ([f"`cp` {MAKES}"] if at == (own or "/workspace") else [])


@table("model", ["gpt2", "./x/../gpt2", "Qwen/dense", "/data/gpt2"])
@table(
    ("volume", "has_files"),
    [
        ({"secret": {"secretName": "s"}}, True),
        ({"secret": {"secretName": "s", "items": [{"key": "k", "path": "gpt2"}]}}, True),
        ({"downwardAPI": {"items": [{"path": "gpt2", "fieldRef": {"fieldPath": "metadata.annotations['c']"}}]}}, True),
        ({"projected": {"sources": [{"secret": {"name": "s"}}]}}, True),
        ({"emptyDir": {}}, False),
    ],
)
@table("folder", ["/data", "/data/", "$(UNKNOWN)", "/other"])
def test_a_file_in_the_working_folder_may_be_a_model_without_an_owner(
    ask: Asking,
    model: str,
    volume: dict[str, Any],
    has_files: bool,  # noqa: FBT001  # a table's value
    folder: str,
) -> None:
    document = pod("/data", command=["vllm", "serve", model], workingDir=folder)
    document["spec"]["volumes"] = [{"name": "v", **volume}]
    is_read = has_files and folder != "/other" and model.endswith("gpt2") and model[0] != "/"
    about = "and vLLM loads it instead of that model's configuration"
    expected = [f"the volume at `/data` may have the file `{model}`, {about}"] if is_read else []
    assert [each for each in model_warnings(ask, document, model) if each.endswith(about)] == expected


@table(
    ("mount", "folder", "is_warned"),
    [
        *((f"/vllm-workspace/{path}", "", True) for path in ("Qwen", MODEL, f"{MODEL}/config.json")),
        *((f"/app/{path}", "/app", True) for path in ("Qwen", "Qwen/./x/../dense/", f"/{MODEL}/config.json")),
        *((path, "/app/x/", True) for path in ("/app", "/app/x", "app/x/Qwen")),
        *(("/app", f"/proc/{each}/root/app", True) for each in ("self", "thread-self", "1", "self/task/7")),
        *(("/app", "/proc/self/root/proc/1/root/app/", True), ("/app", "/proc/self/root/other", False)),
        *((f"/{MODEL}", "/proc/self/root", True), ("/app", "/x/proc/self/root/app", False)),
        *((f"/{MODEL}", "/", True), (f"/models/{MODEL}", "$(DIR)", True), (f"/models/{MODEL}", "", True)),
        *(("/vllm-workspace/models", "", False), ("/Qwen/dense-2", "", False), ("/models/x/dense", "", False)),
        *((f"/models/{MODEL}", "/app", False), ("/app/Qwen/other", "/app", False), ("/app/Qwen2", "/app", False)),
        *(("/models", "", False), ("/data/dense/Qwen", "", True), ("/app/y", "/app/x", False)),
    ],
)
@table("kind", ["pod", "compose", "run", "cd"])
def test_a_mount_may_be_a_folder_with_the_name_of_the_model(
    ask: Asking,
    mount: str,
    folder: str,
    is_warned: bool,  # noqa: FBT001  # a table's value
    kind: str,
) -> None:
    if kind != "pod" and not mount.startswith("/"):
        return  # Docker refuses it
    if kind == "pod":
        document: Any = pod(mount, command=SERVED, **({"workingDir": folder} if folder else {}))
    elif kind == "compose":
        fields = {"working_dir": folder.replace("$", "$$")} if folder else {}
        document = compose(command=[MODEL], volumes=[f"./x:{mount}"], **fields)
    elif kind == "run":
        option = f"-w '{folder}'" if folder else ""
        document = {"script": f"docker run {option} -v ./x:{mount}:ro {IMAGE} {MODEL}"}
    else:
        document = pod(mount, command=["sh", "-c", f"cd {folder or '.'} && exec vllm serve {MODEL}"])
        is_warned = is_warned or folder == "$(DIR)"
    shown = "/" + "/".join(part for part in mount.replace("/./x/..", "").split("/") if part)
    assert model_warnings(ask, document) == (folder_warning(shown) if is_warned else [])


@table(
    ("script", "env", "is_there"),
    [
        *(("cd x && SERVE", {"CDPATH": "/mnt"}, True), ("cd ./x && SERVE", {"CDPATH": "/mnt"}, False)),
        *(("cd x && SERVE", {"CDPATH": ""}, False), ("cd /other && SERVE", {"CDPATH": "/mnt"}, False)),
        *(("cd /mnt/x; cd /; cd -; SERVE", {}, True), ("cd - && SERVE", {"OLDPWD": "/mnt/x"}, True)),
        *((f"cd {each}; SERVE", {"HOME": "/mnt/x"}, True) for each in ("", "~", "$HOME", '"$HOME"', "-P", "--", "~/.")),
        *((f"cd {each}; SERVE", {"HOME": "/other"}, False) for each in ("", "~", "$HOME")),
        *((f"cd {each}; SERVE", {}, False) for each in ("", "~", "/other", "a")),
        *((f"cd {each}; SERVE", {}, True) for each in ('"$A"', "$(echo /mnt/x)", "/mnt/*", "/proc/self/root/mnt/x")),
        *(("cd /mnt/x; cd /proc/self/cwd; SERVE", {}, True), ('cd "$A"; cd y; SERVE', {}, True)),
        *(
            ('cd "$A"; cd /other; SERVE', {}, True),
            ('cd "$A"; cd /other && SERVE', {}, False),
            ("env -C /mnt/x SERVE", {}, True),
        ),
        *(("cd /mnt/x; cd /other; SERVE", {}, True), ("cd /mnt/x; cd /other || true; SERVE", {}, True)),
        *(("cd /mnt/x && cd /other && SERVE", {}, False), ("set -e; cd /mnt/x; cd /other; SERVE", {}, False)),
        *(("cd /mnt/x; cd /other || exit 1; SERVE", {}, False), ("cd /mnt/x; cd /other && exec SERVE", {}, False)),
        *(("cd /mnt/x; if [ -d /other ]; then cd /other; fi; SERVE", {}, True), ("cd /a; cd /b; SERVE", {}, False)),
        *(("cd /mnt; cd /other; SERVE", {}, False), ("cd /mnt/x; cd /other; cd /b && SERVE", {}, False)),
        *(("cd /mnt/x/a; cd ../../../other; SERVE", {}, True), ("cd /mnt/x; bash -c 'cd /a; SERVE'", {}, True)),
        *(("sh -c 'cd /mnt/x y; SERVE'", {}, True), ("cd -x /mnt/x; SERVE", {}, True)),
        *((f"cd /mnt/x && cd {each}; SERVE", {}, True) for each in ("$HOME/x", "$HOME", "~/x", "~", '"$HOME"')),
        *((f"cd /mnt/x && cd {each} || SERVE", {}, True) for each in ("$HOME/x", "~/x")),
        *((f"cd /mnt/x && cd {each} && SERVE", {}, False) for each in ("$HOME/x", "$HOME", "~/x", "${HOME}")),
        *((f"cd {each} && SERVE", {}, True) for each in ("$HOMES", "~x", "~/../mnt/x", "$HOME/$A", "$HOME$A", "~/*")),
        *((f"cd /mnt/x/a; {each}; SERVE", {}, True) for each in ("cd /b; cd ..", "cd b; cd ..", "cd /b || cd ..")),
        *(("cd /a; cd b; cd c; SERVE", {}, False), ("cd /mnt/x/a; cd /b && cd .. && SERVE", {}, False)),
        *(("cd /mnt/x & SERVE", {}, True), ("cd /mnt/x; cd /other & SERVE", {}, True)),
        *(("cd /mnt/x; cd /other | true; SERVE", {}, True), ("set -e; cd /mnt/x; cd /other & SERVE", {}, True)),
        *(("ln -s /mnt/x /d; env -C /d SERVE", {}, True), ("ln -s /mnt/x /d; cd /d; env -C /x SERVE", {}, False)),
        *(("ln -s /mnt/x /data; cd /data; SERVE", {}, True), ("ln -s /mnt/x /data; cd /other; SERVE", {}, False)),
        *(("ln -s /mnt /data; cd /data/x; SERVE", {}, True), ("cd /data; ln -s /mnt/x y; cd y; SERVE", {}, True)),
        *(
            ("ln -s /mnt/x /data; bash -c 'cd /data; SERVE'", {}, True),
            ("ln -sfn /mnt/x d && cd d && SERVE", {}, True),
            ("until SERVE; do cd /mnt/x; done", {}, True),
            ("for i in 1 2; do SERVE; cd ..; done", {}, True),
            ("f() { SERVE; }; cd /mnt/x; f", {}, True),
            ("until SERVE; do cd /other; done", {}, False),
            ("SERVE & cd /mnt/x; wait", {}, False),
            ("A=$(cd /mnt/x; pwd); SERVE", {}, False),
        ),
    ],
)
def test_the_working_folder_of_a_script_may_be_a_mount(
    ask: Asking,
    script: str,
    env: dict[str, str],
    is_there: bool,  # noqa: FBT001  # a table's value
) -> None:
    variables = [{"name": name, "value": value} for name, value in {"PYTHONNOUSERSITE": "1", **env}.items()]
    command = ["bash", "-c", script.replace("SERVE", f"vllm serve {MODEL}")]
    document = pod("/mnt/x", command=command, env=variables, workingDir="/vllm-workspace")
    found = [each for each in model_warnings(ask, document) if "instead of that model" in each]
    assert found == (folder_warning("/mnt/x") if is_there else [])
    document["spec"]["volumes"] = [{"name": "v", "emptyDir": {}}]
    assert [each for each in model_warnings(ask, document) if "instead of that model" in each] == []


@pytest.mark.parametrize(
    ("script", "is_there"),
    [("cd /other; SERVE", True), ("cd /other && SERVE", False), ("cd x; SERVE", True), ("set -e; cd /o; SERVE", False)],
)
def test_a_script_may_stay_in_the_working_folder_of_its_container(
    ask: Asking,
    script: str,
    is_there: bool,  # noqa: FBT001  # a table's value
) -> None:
    command = ["bash", "-c", script.replace("SERVE", f"vllm serve {MODEL}")]
    document = pod("/mnt/x", command=command, workingDir="/mnt/x")
    found = [each for each in model_warnings(ask, document) if "instead of that model" in each]
    assert found == (folder_warning("/mnt/x") if is_there else [])


@table(
    ("own", "command", "is_there"),
    [
        *(
            ("/bin", ["sh", "-c", f"{each} vllm serve {MODEL}"], True)
            for each in ("cd .. &&", "cd ../mnt &&", "cd -P ..;")
        ),
        *(("/bin", ["env", "-C", each, "vllm", "serve", MODEL], True) for each in ("..", "../usr")),
        *(
            (each, ["vllm", "serve", MODEL], True)
            for each in ("/bin/..", "/lib64/./..", "/var/run/..", "/dev/fd/../root")
        ),
        *((each, ["vllm", "serve", MODEL], False) for each in ("/opt/..", "/bin/x/..", "/var/lib/..", "/binary/..")),
        *(("/opt", ["sh", "-c", f"{each} && vllm serve {MODEL}"], False) for each in ("cd ..", "cd ../srv")),
    ],
)
def test_a_link_is_left_where_it_leads(
    ask: Asking,
    own: str,
    command: list[str],
    is_there: bool,  # noqa: FBT001  # a table's value
) -> None:
    found = model_warnings(ask, pod("/mnt/x", command=command, workingDir=own))
    assert [each for each in found if "instead of that model" in each] == (folder_warning("/mnt/x") if is_there else [])


@pytest.mark.parametrize(
    ("mount", "own", "command"),
    [
        ("/usr/sbin/m", "/sbin/m", SERVED),
        ("/sbin/m", "/usr/sbin/m", SERVED),
        ("/lib64/m/Qwen", "/usr/lib64/m", SERVED),
        ("/usr/lib/m", "/", ["sh", "-c", f"cd /lib && cd m && vllm serve {MODEL}"]),
        ("/run/m", "/", ["env", "-C", "/var/run/m", *SERVED]),
    ],
)
def test_a_mount_and_a_working_folder_are_the_same_through_links(
    ask: Asking, mount: str, own: str, command: list[str]
) -> None:
    (found,) = model_warnings(ask, pod(mount, command=command, workingDir=own))
    assert found.endswith(f"may make the folder `{MODEL}`, and vLLM loads it instead of that model")


@pytest.mark.parametrize("mount", ["/usr/data", "/bin/../data", "/lib/../data", "/usr/data/bin/vllm"])
def test_a_program_is_where_its_path_leads_through_links(ask: Asking, mount: str) -> None:
    found = warnings(ask, pod(mount, command=["/bin/../data/bin/vllm", "serve", "dense"]))
    assert found[0].startswith("`/bin/../data/bin/vllm` may be a different vLLM from the image's")


def test_a_script_that_may_stay_in_too_many_folders_may_be_in_any(ask: Asking) -> None:
    for count, is_there in ((9, False), (10, True)):
        script = "".join(f"cd /f{number};" for number in range(count)) + f"vllm serve {MODEL}"
        document = pod("/mnt/x", command=["bash", "-c", script], workingDir="/f0")
        found = [each for each in model_warnings(ask, document) if "instead of that model" in each]
        assert found == (folder_warning("/mnt/x") if is_there else [])


def test_a_script_that_sets_where_cd_looks_is_not_certain() -> None:
    assert uncertain_construct("CDPATH=/mnt; cd x; vllm serve m", is_bash=True) == "the shell's own variable `CDPATH`"


@table(
    "command",
    [
        *(["vllm", "serve", "--model", MODEL], ["vllm", "serve", f"--model={MODEL}"], ["vllm", "serve", f"{MODEL}/"]),
        *(["sh", "-c", f"M={MODEL}; vllm serve $M"], ["sh", "-c", f"mkdir x; vllm serve {MODEL}"]),
        ["python3", "-m", "vllm.entrypoints.openai.api_server", "--model", MODEL],
    ],
)
def test_the_model_is_a_folder_however_it_is_named(ask: Asking, command: list[str]) -> None:
    (warning,) = model_warnings(ask, pod(f"/vllm-workspace/{MODEL}", command=command))
    assert warning.startswith(f"the mount at `/vllm-workspace/{MODEL}` may make the folder `{MODEL}")


def test_a_model_that_is_a_path_is_certain(ask: Asking) -> None:
    path = f"/models/{MODEL}"
    assert model_warnings(ask, pod(path, command=["vllm", "serve", path]), path) == []


@table(
    "path",
    [
        *("/etc/python3.12", "/etc/python3.12/sitecustomize.py", "/etc", "/x/usercustomize.py", "/etc/alternatives"),
        "/etc/alternatives/python3",
    ],
)
def test_a_mount_over_what_python_runs_at_its_start_may_make_another_vllm_run(ask: Asking, path: str) -> None:
    document = compose(volumes=[f"./x:{path}"])
    assert warnings(ask, document) == mount_warning(path)
    assert warnings(ask, pod(path, command=SERVE)) == mount_warning(path)


@pytest.mark.parametrize("options", ["--tmpfs /usr/local/bin:size=1g", "-v ./x:/usr/local/bin", "-vx:/usr/local/bin"])
def test_the_mounts_of_a_container_run_are_read(ask: Asking, options: str) -> None:
    assert warnings(ask, {"script": f"docker run {options} {IMAGE} dense"}) == mount_warning("/usr/local/bin")
    volume = "[Container]\nImage={}\nExec=dense\n{}"
    setting = f"Tmpfs={options[8:]}" if "tmpfs" in options else "Volume=x:/usr/local/bin"
    assert warnings(ask, {"unit": volume.format(IMAGE, setting)}) == mount_warning("/usr/local/bin")


@table(
    "mount",
    [
        *("Target=/opt/venv", "DST=/opt/venv", "dEstination=/opt/venv", '"dst=/opt/venv"', '"dst=/opt/venv","x=a,b"'),
        *('"x=a ""b""",target=/opt/venv', "target=/opt/venv"),
    ],
)
def test_a_mount_is_a_line_of_csv_with_keys_in_any_case(ask: Asking, mount: str) -> None:
    script = f"docker run --mount 'type=bind,src=/h,{mount}' {IMAGE} dense"
    assert warnings(ask, {"script": script}) == mount_warning("/opt/venv")


@table("mount", ['"x=a,dst=/opt/venv"', "x=dst=/opt/venv", "dst", '"', '"a"b,c', "\r", "a\0b"])
def test_other_fields_of_a_mount_are_not_read(ask: Asking, mount: str) -> None:
    found = warnings(ask, {"script": f"docker run --mount 'type=bind,{mount}' {IMAGE} dense"})
    assert not any("that runs" in each for each in found)


@table(
    ("options", "mount"),
    [
        *(("-B ./x:$HOME", "$HOME"), ("--bind ./x:${HOME}/.local", "${HOME}/.local"), ("-B ./x:~", "~")),
        *(("--home ./x:/data", "/data"), ("-H /data", "/data"), ('--home "$PWD"', "~"), ('-H "$X:/home/me"', "~")),
        *(("-B ./x:/usr/local/bin", "/usr/local/bin"), ("--bind a:/b,./x:/opt/venv", "/opt/venv")),
        *(("-B ./x:/data --env HOME=/data", "/data"), ("--mount type=bind,src=x,dst=/usr/local/lib", "/usr/local/lib")),
    ],
)
def test_a_mount_of_apptainer_over_the_home_or_python_may_make_another_vllm_run(
    ask: Asking, options: str, mount: str
) -> None:
    script = f"apptainer run {options} docker://{IMAGE} dense"
    assert mount_warning(mount)[0] in warnings(ask, {"script": script})


@table(
    "options",
    [
        *("--home /data --env PYTHONNOUSERSITE=1", "-B ./x:$HOME --env PYTHONNOUSERSITE=1", "-B $HOME/models:/models"),
        *("-B $HOME/.cache:/root/.cache", "--nv", "--no-home", "-B ./x:$HOME/models", "--workdir /scratch"),
    ],
)
def test_other_mounts_of_apptainer_are_certain(ask: Asking, options: str) -> None:
    found = warnings(ask, {"script": f"apptainer run {options} docker://{IMAGE} dense"})
    assert not any("that runs" in each for each in found)


@pytest.mark.parametrize("option", ["--overlay x.img", "-o x.img:ro", "--overlay=x.img"])
def test_an_overlay_of_apptainer_may_have_another_vllm(ask: Asking, option: str) -> None:
    found = warnings(ask, {"script": f"singularity run {option} docker://{IMAGE} dense"})
    shown = option.removeprefix("-o ").removeprefix("--overlay")[1:] if option[1] == "-" else option[3:]
    assert HIDDEN.format(shown) + "that runs" in found


def test_the_volumes_of_another_container_are_not_shown(ask: Asking) -> None:
    expected = [HIDDEN.format("x") + "that runs"]
    assert warnings(ask, {"script": f"docker run --volumes-from x {IMAGE} dense"}) == expected


def dynamo(kind: str, **fields: Any) -> dict[str, Any]:
    main = {"extraPodSpec": {"mainContainer": {"image": IMAGE, "command": SERVE}}, **fields}
    if kind == "service":
        return {"apiVersion": "nvidia.com/v1alpha1", "kind": "DynamoComponentDeployment", "spec": main}
    graph: dict[str, Any] = {"services": {"W": main}}
    if kind == "component":
        pod_spec = {"spec": {"containers": [{"name": "main", "image": IMAGE, "command": SERVE}]}}
        graph = {"components": [{"name": "W", "podTemplate": pod_spec, **fields}]}
    version = "v1beta1" if kind == "component" else "v1alpha1"
    return {"apiVersion": f"nvidia.com/{version}", "kind": "DynamoGraphDeployment", "spec": graph}


def predictor(fields: dict[str, Any], **spec: Any) -> dict[str, Any]:
    inner = {"predictor": {**fields, **spec}}
    return {"apiVersion": "serving.kserve.io/v1beta1", "kind": "InferenceService", "spec": inner}


KSERVE = {"image": IMAGE, "command": SERVE}
SCRIPT = ["sh", "-c", "vllm serve dense"]
"""A command that does not use the arguments of KServe's own runtime."""
KSERVE_MODEL = {"model": {"modelFormat": {"name": "vLLM"}, **KSERVE, "command": SCRIPT}}
KSERVE_POD = {"containers": [{"name": "kserve-container", **KSERVE}]}
KSERVE_WORKER = {"workerSpec": {"containers": [{"name": "worker-container", **KSERVE}]}}


def runtime(storage: object, **fields: Any) -> dict[str, Any]:
    image = {"registry": "docker.io", "name": IMAGE}
    spec = {"model": {"modelURL": "dense"}, "deploymentConfig": {"image": image, **fields}, "storageConfig": storage}
    return {"apiVersion": "production-stack.vllm.ai/v1alpha1", "kind": "VLLMRuntime", "spec": spec}


def stack(**fields: Any) -> dict[str, Any]:
    image = {"repository": "vllm/vllm-openai", "tag": "v0.24.0"}
    return {"servingEngineSpec": {"modelSpec": [{"name": "m", **image, "modelURL": "dense", **fields}]}}


SITE = "/root/.local/lib"
UNREAD: tuple[Any, ...] = (None, [], "x", [1, {"mountPoint": 1}])
BIN = "/usr/local/bin"
URIS = [{"uri": "hf://o/a", "mountPath": "/usr/local/x"}, {"uri": "s3://b", "mountPath": "/usr/local/y"}]


def stored(name: str, program: str) -> dict[str, Any]:
    env = [{"name": "STORAGE_URI", "value": "s3://b"}]
    return predictor({"containers": [{"name": name, **KSERVE, "command": [program, "serve", "dense"], "env": env}]})


OF_STORAGE = {"command": ["sh", "-c", "/mnt/models/vllm serve dense"]}
PROGRAM = "`/mnt/models/vllm`"
PROGRAMS = "{} may be a different vLLM from the image's; decided for vLLM 0.24.0, which may not be the one that runs"
ACTIONS = ("sync", "sync+restart")
OTHER_REPOS: tuple[Any, ...] = (["."], ["https://usr/bin"], [".:/x"], ["git@x:usr/bin"], [{}])


def nomad(**config: Any) -> dict[str, Any]:
    fields = {"image": IMAGE, "entrypoint": ["vllm", "serve"], "args": ["dense"], **config}
    return {"Job": {"TaskGroups": [{"Tasks": [{"Name": "t", "Driver": "podman", "Config": fields}]}]}}


def own_chart(**env: str) -> dict[str, Any]:
    image = {"repository": "vllm/vllm-openai", "tag": "v0.24.0", "command": SERVE}
    return {"image": {**image, "env": [{"name": name, "value": value} for name, value in env.items()]}}


def sky(**fields: Any) -> dict[str, Any]:
    return {"resources": {"image_id": f"docker:{IMAGE}"}, "run": "vllm serve dense", **fields}


def dstack(**fields: Any) -> dict[str, Any]:
    return {"type": "task", "image": IMAGE, "commands": ["vllm serve dense"], **fields}


def chart(**fields: Any) -> dict[str, Any]:
    return {"engine": {"image": IMAGE, "command": SERVE, **fields}}


def llm_d(uri: str, path: str | None, *, is_mounted: bool = True) -> dict[str, Any]:
    container = {"image": IMAGE, "modelCommand": "custom", "command": SERVE, "mountModelVolume": is_mounted}
    return {"modelArtifacts": {"name": "dense", "uri": uri, "mountPath": path}, "decode": {"containers": [container]}}


def benchmark(role: dict[str, Any], **common: Any) -> dict[str, Any]:
    images = {"vllm": {"repository": "vllm/vllm-openai", "tag": "v0.24.0"}}
    decode = {"vllm": {"customCommand": "vllm serve dense"}, **role}
    return {"scenario": [{"decode": decode, "images": images, "vllmCommon": common, "model": {"name": "dense"}}]}


def booster(cache: str) -> dict[str, Any]:
    worker = {"type": "server", "image": IMAGE, "config": {}}
    backend = {"name": "b", "type": "vLLM", "modelURI": "hf://dense", "cacheURI": cache, "workers": [worker]}
    return {"apiVersion": "workload.serving.volcano.sh/v1alpha1", "kind": "ModelBooster", "spec": {"backend": backend}}


@table(
    ("document", "mount"),
    [
        *((dynamo(kind, volumeMounts=[{"name": "v", "mountPoint": SITE}]), SITE) for kind in ("graph", "service")),
        *((dynamo(kind, pvc={"name": "v", "mountPoint": SITE}), SITE) for kind in ("graph", "service")),
        (dynamo("component", compilationCache={"pvcName": "v", "mountPath": SITE}), SITE),
        *((dynamo("graph", volumeMounts=other, pvc=other), None) for other in UNREAD),
        (dynamo("graph", volumeMounts=[{"name": "v", "mountPoint": "/data"}], pvc={"mountPoint": "/models"}), None),
        (dynamo("component", compilationCache={"pvcName": "v"}), None),
        *(
            (predictor(each, storageUris=[{"uri": uri, "mountPath": BIN}]), BIN)
            for each in (KSERVE_MODEL, KSERVE_POD, KSERVE_WORKER)
            for uri in ("pvc://a", "hf://o/a")
        ),
        (predictor({"containers": [{"name": "x", **KSERVE}]}, storageUris=URIS), None),
        (predictor({"containers": [{"name": "transformer-container", **KSERVE}]}, storageUris=URIS), "/usr/local"),
        (predictor(KSERVE_POD, storageUris=URIS), "/usr/local"),
        (predictor(KSERVE_POD, storageUris=[{**each, "uri": "pvc://a/b"} for each in URIS]), None),
        (predictor(KSERVE_POD, storageUris=[{"uri": "hf://o/a"}, {"uri": "pvc://a", "mountPath": "/mnt/b"}]), None),
        (stored("kserve-container", "/mnt/models/vllm"), PROGRAM),
        (stored("kserve-container", "/mnt/vllm"), None),
        (stored("x", "/mnt/models/vllm"), None),
        (predictor({"model": {**KSERVE_MODEL["model"], **OF_STORAGE, "storage": {"path": "m"}}}), PROGRAM),
        (predictor({"model": {**KSERVE_MODEL["model"], **OF_STORAGE}}), None),
        (runtime({"enabled": True, "mountPath": BIN}), BIN),
        *((runtime(storage), None) for storage in ({"enabled": False, "mountPath": BIN}, {"enabled": True}, {}, None)),
        (stack(extraVolumeMounts=[{"name": "v", "mountPath": BIN}]), BIN),
        (stack(extraVolumeMounts=[{"name": "v", "mountPath": "/x"}], pvcStorage="1Gi", chatTemplate="a"), None),
        (stack(pvcStorage="1Gi", env=[{"name": "HOME", "value": "/data"}]), "/data"),
        (stack(pvcStorage={"emptyDir": {}}, env=[{"name": "HOME", "value": "/data"}]), None),
        *((sky(**{field: {path: "x"}}), path) for field in ("file_mounts", "volumes") for path in (BIN, "~/.local")),
        *((sky(file_mounts={path: "x"}), None) for path in ("/data", "bin", ".", "~/.cache")),
        (dstack(files=["./x:/usr/local/bin"]), BIN),
        (dstack(files=[{"local_path": "x", "path": "/usr/local/bin"}]), BIN),
        *((dstack(files=files), None) for files in (["."], ["bin"], ["x:bin"], ["x:/data"], [{"local_path": "x"}])),
        (dstack(repos=[".:/usr/local/bin"]), BIN),
        (dstack(repos=[{"url": "https://usr.local/bin", "path": "/usr/local/bin"}]), BIN),
        *((dstack(repos=repos), None) for repos in OTHER_REPOS),
        *((nomad(**{field: [{"target": BIN}]}), BIN) for field in ("mounts", "mount")),
        (nomad(tmpfs=["/usr/local/bin:size=1g"]), BIN),
        *(
            (nomad(entrypoint=[f"{path}/vllm", "serve"]), f"`{path}/vllm`")
            for path in ("/alloc", "/local/x", "/secrets")
        ),
        (nomad(entrypoint=["/opt/x/vllm", "serve"]), None),
        *((compose(develop={"watch": [{"action": each, "path": ".", "target": BIN}]}), BIN) for each in ACTIONS),
        *((compose(develop=other), None) for other in ({"watch": [{"path": "x", "target": "/x"}]}, {}, "x", None)),
        (own_chart(HOME="/data"), "/data"),
        (own_chart(HOME="/x"), None),
        *((chart(**{field: [{"mountPath": BIN}]}), BIN) for field in ("volumeMounts", "extraVolumeMounts")),
        *((chart(volumeMounts=other), None) for other in ([{"mountPath": "/x"}], *UNREAD)),
        (llm_d("pvc://a/b", BIN), BIN),
        (llm_d("pvc://a/b", BIN, is_mounted=False), None),
        (llm_d("hf://dense", None), None),
        (benchmark({"volumeMounts": [{"mountPath": BIN}]}), BIN),
        (benchmark({}, volumeMounts=[{"mountPath": BIN}]), BIN),
        (benchmark({"volumeMounts": [{"mountPath": "/x"}]}, volumeMounts={}), None),
        (booster(f"hostPath://{BIN}"), BIN),
        (booster("pvc://a"), None),
        (booster(""), None),
    ],
)
def test_what_a_controller_mounts_is_a_mount(ask: Asking, document: dict[str, Any], mount: str | None) -> None:
    found = [each for each in warnings(ask, document) if each.endswith("which may not be the one that runs")]
    assert found == (
        [] if mount is None else [PROGRAMS.format(mount)] if mount.startswith("`") else mount_warning(mount)
    )


@pytest.mark.parametrize("other", [1, *({"name": "b", **KSERVE, "env": env} for env in ("x", [1], {"name": 1}))])
def test_a_container_that_cannot_be_read_has_its_faults_beside_the_mounted_one(other: object) -> None:
    env = [{"name": "STORAGE_URI", "value": "s3://b"}]
    faults: list[RequestFault] = []
    document = predictor({"containers": [other, {**KSERVE_POD["containers"][0], "env": env}]})
    found = read_manifest(document, "", faults)
    assert [(each.mounts, len(each.faults)) for each in found] == [(("/mnt/models",), 0), ((), 1)]
    assert faults == []


@pytest.mark.parametrize("is_enabled", [False, True])
def test_the_container_beside_a_runtime_has_a_mount_of_its_own(is_enabled: bool) -> None:  # noqa: FBT001  # a table's value
    image = {"registry": "docker.io", "name": IMAGE}
    sidecar = {"enabled": True, "image": image, "command": SERVE, "mountPath": "/models"}
    document = runtime({"enabled": is_enabled, "mountPath": "/x"}, sidecarConfig=sidecar)
    found = [each.mounts for each in read_manifest(document, "", [])]
    assert found == ([("/x",), ("/models",)] if is_enabled else [(), ()])


def test_a_program_on_the_volume_of_a_model_may_be_another_vllm(ask: Asking) -> None:
    model = {"modelFormat": {"name": "vLLM"}, "image": IMAGE, "storageUri": "pvc://a"}
    found = warnings(ask, predictor({"model": {**model, **OF_STORAGE}}))
    assert any(each.startswith("`/mnt/models/vllm` may be a different vLLM from the image's") for each in found)
    found = warnings(ask, predictor({"model": {**model, "command": SCRIPT}}))
    assert not any("that runs" in each for each in found)


def on_the_hub(kind: str, *mounts: dict[str, Any], uri: str = "hf://dense") -> dict[str, Any]:
    volumes = [{"name": "v", "configMap": {"name": "c"}}, {"name": "e", "emptyDir": {}}]
    container = {"image": IMAGE, "volumeMounts": [{"name": "v", **each} for each in mounts]}
    if kind == "InferenceService":
        model = {
            "modelFormat": {"name": "vLLM"},
            "storageUri": uri,
            "command": SERVE[:2],
            **container,
        }
        return predictor({"model": model, "volumes": volumes})
    spec = {"model": {"uri": uri}, "template": {"containers": [{"name": "main", **container}], "volumes": volumes}}
    return {"apiVersion": "serving.kserve.io/v1alpha2", "kind": kind, "metadata": {"name": "x"}, "spec": spec}


@table("kind", ["InferenceService", "LLMInferenceService"])
@table(
    ("mount", "is_replaced"),
    [
        ({"mountPath": "/mnt/models/config.json", "subPath": "config.json"}, True),
        ({"mountPath": "/mnt/models/a/b"}, True),
        ({"mountPath": "/mnt/models"}, True),
        ({"mountPath": "/mnt/models/"}, True),
        ({"mountPath": "/mnt"}, False),
        ({"mountPath": "/mnt/models2"}, False),
        ({"mountPath": "/data"}, False),
    ],
)
def test_a_mount_may_replace_files_of_a_model_of_the_hub(
    ask: Asking, kind: str, mount: dict[str, str], *, is_replaced: bool
) -> None:
    path = mount["mountPath"].rstrip("/")
    expected = [
        f"the mount at `{path}` may replace files of `dense`, which is at `/mnt/models`, such as its config.json"
    ]
    found = [each for each in warnings(ask, on_the_hub(kind, mount)) if "replace" in each]
    assert found == (expected if is_replaced else [])


def test_an_empty_volume_and_a_model_that_is_not_of_the_hub_are_not_replaced() -> None:
    below = {"mountPath": "/mnt/models/x"}
    for document in (
        on_the_hub("LLMInferenceService", {**below, "name": "e"}),
        on_the_hub("InferenceService", below, uri="pvc://a"),  # its config.json is given for the path
    ):
        assert [each.doubts for each in read_manifest(document, "", [])] == [[]]


@table("folder", ["//mnt/data", "//", "///mnt/data", "//mnt/./data/", "/mnt//data"])
@table("name", ["dense", "o/dense"])
def test_a_working_folder_with_two_slashes_is_that_with_one(folder: str, name: str) -> None:
    at = "/mnt/data" if "data" in folder else "/dense"
    for command in (["vllm", "serve", name], ["bash", "-c", f"cd {folder}; vllm serve {name}"]):
        fields = {"command": command, **({"workingDir": folder} if command[0] == "vllm" else {})}
        found = read_manifest(pod(at, **fields), "", [])
        assert [(each.folder, each.mounts) for each in found] == [("/mnt/data" if "data" in folder else "/", (at,))]
    document = pod("/mnt/data", command=["vllm", "serve", "//dense"])
    assert [each.mounts for each in read_manifest(document, "", [])] == [("/mnt/data",)]


@pytest.mark.parametrize(
    "bind", ["-B /opt/venv", "--bind /a,/opt/venv", "-B /a:/b,/opt/venv", "--bind=/opt/venv", "-B /opt/venv::ro"]
)
def test_a_bind_of_apptainer_without_a_destination_is_at_its_source(ask: Asking, bind: str) -> None:
    script = f"apptainer exec {bind} docker://{IMAGE} vllm serve dense"
    assert mount_warning("/opt/venv")[0] in warnings(ask, {"script": script})


@table("name", ["APPTAINER_BIND", "APPTAINER_BINDPATH", "SINGULARITY_BIND", "SINGULARITY_BINDPATH"])
@table("value", ["/h:/opt/venv", "/opt/venv", "/a,/h:/opt/venv:ro"])
def test_variables_of_apptainer_mount_too(ask: Asking, name: str, value: str) -> None:
    for setting in (f"export {name}={value}; ", f"{name}={value} "):
        found = warnings(ask, {"script": f"{setting}apptainer exec docker://{IMAGE} vllm serve dense"})
        assert mount_warning("/opt/venv")[0] in found
    found = warnings(ask, {"script": f"export {name}=/data:/models; apptainer exec docker://{IMAGE} vllm serve dense"})
    assert not any("that runs" in each for each in found)


@table(
    ("options", "shown"),
    [
        *(
            ("--pod p", "p"),
            ("--pod=new:p", "new:p"),
            ('-v "/h:$D"', "/h:$D"),
            ('-v "$M"', "$M"),
            ("-v $A:$A", "$A:$A"),
        ),
        *(('--mount "$M"', "$M"), ('--mount "type=bind,src=/h,dst=$D"', "type=bind,src=/h,dst=$D")),
        *(('--tmpfs "$T"', "$T"), ('-v "$H:/a" -v "$M"', "$M")),
    ],
)
def test_a_mount_at_an_unknown_path_may_have_another_vllm(ask: Asking, options: str, shown: str) -> None:
    found = warnings(ask, {"script": f"podman run {options} {IMAGE} dense"})
    assert HIDDEN.format(shown) + "that runs" in found


PARTLY_KNOWN: list[tuple[str, str]] = [
    ("/usr/{}", "/usr"),
    ("/usr/local/bin{}", "/usr/local"),
    ("/{}", "/"),
    ("/opt/{}/x", "/opt"),
    ("/models/{}", ""),
    ("/data/x{}y/z", ""),
]


@table(("target", "shown"), PARTLY_KNOWN)
def test_a_mount_at_a_path_that_is_partly_known_may_be_anywhere_below_what_is_known(
    ask: Asking, target: str, shown: str
) -> None:
    expected = mount_warning(shown) if shown else []
    path = target.format("$D")
    for option in (f'-v "/h:{path}"', f'--mount "type=bind,src=/h,dst={path}"', f'--tmpfs "{path}"'):
        assert warnings(ask, {"script": f"docker run {option} {IMAGE} dense"}) == expected
    path = target.format("${D}")
    for volume in (f"/h:{path}", f"/h:{path}:ro", {"type": "bind", "source": "/h", "target": path}):
        assert warnings(ask, compose(volumes=[volume])) == expected
    assert warnings(ask, compose(tmpfs=path)) == expected
    for field in ({"volumes": [f"/h:{path}"]}, {"mounts": [{"target": path}]}, {"tmpfs": [path]}):
        assert [each for each in warnings(ask, nomad(**field)) if "mount" in each] == expected


@table(
    ("fields", "shown"),
    [
        ({"volumes": ["/h:${D}"]}, "${D}"),
        ({"volumes": ["${M}"]}, "${M}"),
        ({"volumes": ["/h:${D:-${E}}/bin:ro"]}, "${E}/bin"),
        ({"volumes": [{"type": "bind", "source": "/h", "target": "${D}"}]}, "${D}"),
        ({"tmpfs": "${D}"}, "${D}"),
        ({"tmpfs": ["${D}/a"]}, "${D}/a"),
        ({"configs": [{"source": "a", "target": "${D}"}]}, "${D}"),
        ({"secrets": [{"source": "a", "target": "${D}"}]}, "${D}"),
        ({"develop": {"watch": [{"action": "sync", "path": ".", "target": "${D}"}]}}, "${D}"),
    ],
)
def test_a_mount_of_compose_at_an_unknown_path_may_have_another_vllm(
    ask: Asking, fields: dict[str, Any], shown: str
) -> None:
    assert warnings(ask, compose(**fields)) == [HIDDEN.format(shown) + "that runs"]
    services = compose(volumes_from=["b"])["services"]
    expected = [HIDDEN.format(shown) + "that runs"] if "volumes" in fields else []
    assert warnings(ask, {"services": {**services, "b": {"image": "a", **fields}}}) == expected


@pytest.mark.parametrize("target", ["${D}", "${D}/bin"])
def test_a_volume_of_nomad_at_an_unknown_path_may_have_another_vllm(ask: Asking, target: str) -> None:
    for field in ({"volumes": [f"/h:{target}"]}, {"mounts": [{"target": target}]}):
        assert HIDDEN.format(target) + "that runs" in warnings(ask, nomad(**field))


@pytest.mark.parametrize(
    "volume", ["/h:${HOME}/x", "${HOME}/.cache:/root/.cache", "${H}:/a", "${H}/x:/models:ro", "${H:-/h:/a}"]
)
def test_the_source_of_a_volume_of_compose_may_be_unknown(ask: Asking, volume: str) -> None:
    assert warnings(ask, compose(volumes=[volume])) == []


@table(
    ("options", "folder"),
    [
        ('-w "$W"', True),
        ('--workdir "/a/$W"', True),
        ('-w "$(pwd)"', True),
        ('-w "$HOME"', True),
        ('-w "${HOME}/x"', True),
        ("-w /other", False),
        ("", False),
    ],
)
def test_a_model_in_an_unknown_working_folder_may_be_on_any_mount(ask: Asking, options: str, *, folder: bool) -> None:
    script = {"script": f"docker run -v /h:/data {options} {IMAGE} {MODEL}"}
    assert model_warnings(ask, script) == (folder_warning("/data") if folder else [])


@pytest.mark.parametrize(
    ("folder", "is_warned"), [("${W}", True), ("/a/${W}", True), ("$W/x", True), ("${HOME}", True), ("/other", False)]
)
def test_the_working_folder_of_compose_and_nomad_may_be_unknown(ask: Asking, folder: str, *, is_warned: bool) -> None:
    expected = folder_warning("/data") if is_warned else []
    assert model_warnings(ask, compose(command=[MODEL], working_dir=folder, volumes=["/h:/data"])) == expected
    if folder.count("{"):
        document = nomad(args=[MODEL], work_dir=folder, volumes=["/h:/data"])
        assert bool(model_warnings(ask, document)) == is_warned


@pytest.mark.parametrize("options", ['-v "$H:/a"', '--mount "type=bind,src=$H,dst=/a"', '-v "$H/x:/models:ro"'])
def test_the_source_of_a_mount_may_be_unknown(ask: Asking, options: str) -> None:
    assert warnings(ask, {"script": f"docker run {options} {IMAGE} dense"}) == []


@table(
    ("fields", "mount"),
    [
        ({"workdir": "."}, "~/sky_workdir"),
        ({"workdir": {"url": "https://x/y.git"}}, "~/sky_workdir"),
        ({"file_mounts": {"Qwen": "s3://x"}}, "~/sky_workdir/Qwen"),
        ({"file_mounts": {f"./{MODEL}": "./x"}}, f"~/sky_workdir/{MODEL}"),
        ({"file_mounts": {f"{MODEL}/config.json": "./x"}}, f"~/sky_workdir/{MODEL}/config.json"),
        ({"file_mounts": {"~/sky_workdir/Qwen": "./x"}}, "~/sky_workdir/Qwen"),
        ({"file_mounts": {".": "./x"}}, "~/sky_workdir"),
        ({"file_mounts": {"${D}/dense": "./x"}, "envs": {"D": "Qwen"}}, f"~/sky_workdir/{MODEL}"),
        ({"file_mounts": {"$D": "./x"}, "envs": {"D": "/data"}}, ""),
        ({"file_mounts": {"data": "./x", "/models": "./y", "~/.cache": "z"}}, ""),
        ({"workdir": ".", "run": f"cd /other && vllm serve {MODEL}"}, ""),
        ({}, ""),
    ],
)
def test_files_of_skypilot_may_be_a_folder_with_the_name_of_the_model(
    ask: Asking, fields: dict[str, Any], mount: str
) -> None:
    document = sky(**{"run": f"vllm serve {MODEL}", **fields})
    assert [each for each in model_warnings(ask, document) if "folder" in each] == (
        folder_warning(mount) if mount else []
    )


def test_variables_in_paths_of_skypilot_are_replaced_up_to_a_limit() -> None:
    paths = {f"/{'$A' * 1000}/{number}": "x" for number in range(10)}
    [found] = read_manifest(sky(file_mounts=paths, envs={"A": "a" * 1000}), "", [])
    assert sum(map(len, found.mounts)) < 1_000_000


def test_setup_of_skypilot_may_make_the_folder_of_the_model_in_the_working_folder(ask: Asking) -> None:
    for folder in ("", "~/sky_workdir/"):
        document = sky(run=f"vllm serve {MODEL}", setup=f"cp -r /data/m {folder}{MODEL}")
        assert any(f"may make the folder `{MODEL}`" in each for each in model_warnings(ask, document))


@pytest.mark.parametrize("place", [("config",), ("experimental", "config_overrides")])
@pytest.mark.parametrize("is_list", [False, True])
def test_options_of_skypilot_s_container_count(ask: Asking, place: tuple[str, ...], *, is_list: bool) -> None:
    text = "-e A=0 -e C --env 'B=1 2' -v /h:/usr/local/bin"
    options: Any = ["-e A=0 --env B='1 2'", "-v=/h:/usr/local/bin", "-e", "C"] if is_list else text
    value: Any = {"docker": {"run_options": options}}
    for name in reversed(place):
        value = {name: value}
    document = sky(**value, envs={"D": "2"})
    [found] = read_manifest(document, "", [])
    assert {name: found.env.get(name, "") for name in "ABCD"} == {"A": "0", "B": "1 2", "C": None, "D": "2"}
    assert found.doubts == [f"`{place[0]}` may change the container, and is not read"]
    assert mount_warning("/usr/local/bin")[0] in warnings(ask, document)
    [found] = read_manifest(sky(**value, envs={"A": "2"}), "", [])
    assert found.env["A"] == "2"
    [found] = read_manifest({**sky(**value), "resources": {"accelerators": "L4"}}, "", [])
    assert "A" not in found.env


def test_options_of_skypilot_s_container_may_hide_variables() -> None:
    hiding = ["--env-file x", "-e 'A=0", "$X"]
    for options in (*hiding, "--ipc host", 1, [1], {}):
        [found] = read_manifest(sky(config={"docker": {"run_options": options}}), "", [])
        assert found.doubts
        assert found.has_hidden_variables == (options in hiding)


def task(driver: str, **fields: Any) -> dict[str, Any]:
    config: dict[str, Any] = {"command": "vllm", "args": ["serve", MODEL], **fields.pop("config", {})}
    if driver in {"docker", "podman"}:
        config = {"image": IMAGE, "entrypoint": ["vllm"], "args": ["serve", MODEL], **fields.pop("config", {})}
    return {"Job": {"TaskGroups": [{"Tasks": [{"Name": "t", "Driver": driver, "Config": config, **fields}]}]}}


@table("driver", ["exec", "exec2", "raw_exec", "docker"])
@table(
    ("fields", "mount"),
    [
        ({"Templates": [{"DestPath": f"{MODEL}/config.json"}]}, f"/{MODEL}/config.json"),
        ({"Artifacts": [{"GetterSource": "s3://x", "RelativeDest": "Qwen"}]}, "/Qwen"),
        ({"Artifacts": [{"GetterSource": "s3://x", "RelativeDest": f"./{MODEL}/"}]}, f"/{MODEL}"),
        ({"Templates": [{"DestPath": "local/x.json"}, {"DestPath": "${NOMAD_TASK_DIR}/y"}]}, ""),
        ({"Artifacts": [{"GetterSource": "s3://x"}]}, ""),
        ({"Templates": [{"DestPath": None}, {}], "Artifacts": None}, ""),
        ({}, ""),
    ],
)
def test_files_of_nomad_may_be_a_folder_with_the_name_of_the_model(
    ask: Asking, driver: str, fields: dict[str, Any], mount: str
) -> None:
    found = [each for each in model_warnings(ask, task(driver, **fields)) if "the folder" in each]
    assert found == (folder_warning(mount) if mount and driver != "docker" else [])


@table("driver", ["exec", "raw_exec", "docker"])
@table("name", ["local", "${NOMAD_TASK_DIR}"])
def test_files_of_nomad_are_in_the_folders_of_the_task(ask: Asking, driver: str, name: str) -> None:
    files = {"Artifacts": [{"GetterSource": "s3://x", "RelativeDest": f"{name}/{MODEL}"}]}
    assert any(
        "the folder" in each for each in model_warnings(ask, task(driver, **files, config={"work_dir": "/local"}))
    )


@table(
    ("driver", "path", "is_seen"),
    [
        *((driver, "usr/local/bin/vllm", True) for driver in ("exec", "exec2")),
        *((driver, "/usr/local/bin/vllm", True) for driver in ("exec", "raw_exec")),
        *((driver, "/usr/local/bin/vllm", False) for driver in ("docker", "podman")),
        ("exec", "${meta.x}/vllm", True),
        ("docker", "${meta.x}/vllm", False),
    ],
)
def test_files_of_nomad_may_be_another_vllm(driver: str, path: str, *, is_seen: bool) -> None:
    for files in ({"Templates": [{"DestPath": path}]}, {"Artifacts": [{"RelativeDest": path}]}):
        [found] = read_manifest(task(driver, **files), "", [])
        assert (found.installation is not None) == is_seen


HUB = "/root/.cache/huggingface/hub/models--a--b"
INFOS = "/root/.cache/vllm/modelinfos"
OF_FILES: dict[str, dict[str, Any]] = {
    "configMap": {"configMap": {"name": "c"}},
    "secret": {"secret": {"secretName": "c"}},
    "downwardAPI": {"downwardAPI": {"items": []}},
    "projected": {"projected": {"sources": [{"configMap": {"name": "c"}}]}},
}


@table("volume", OF_FILES)
@table(
    ("path", "env", "is_doubt"),
    [
        (HUB, {}, True),
        (f"{HUB}/snapshots/x/config.json", {}, True),
        ("/root/.cache/huggingface/hub", {}, True),
        ("/root/.cache/huggingface", {}, True),
        ("/root/.cache", {}, True),
        ("/home/x/.cache/huggingface/modules/transformers_modules", {}, True),
        ("//.cache/huggingface/./hub", {}, True),
        (f"{INFOS}/x.json", {}, True),
        ("/c", {"VLLM_CACHE_ROOT": "/c"}, True),
        ("/c/modelinfos/x.json", {"VLLM_CACHE_ROOT": "/c/"}, True),
        ("/c/huggingface/hub", {"XDG_CACHE_HOME": "/c"}, True),
        ("/c/vllm/modelinfos", {"XDG_CACHE_HOME": "/c"}, True),
        ("/c/hub", {"HF_HOME": "/c"}, True),
        ("/c", {"HF_HUB_CACHE": "/c/hub"}, True),
        ("/c/x", {"HUGGINGFACE_HUB_CACHE": "/c"}, True),
        ("/c", {"HF_HUB_CACHE": "/cc"}, False),
        ("/c/token", {"HF_HOME": "/c"}, False),
        ("/c/torch_compile_cache", {"VLLM_CACHE_ROOT": "/c"}, False),
        ("/root/.cache/huggingface/token", {}, False),
        ("/root/.config/vllm", {}, False),
        ("/templates", {"HF_HOME": "/models"}, False),
        ("/root/cm", {"HF_HOME": "~/cm"}, True),
        ("/h/cm", {"HOME": "/h", "HF_HOME": "~/cm"}, True),
        ("/root/cm", {"HF_HOME": "$HOME/cm"}, True),
        ("/h/cm", {"HOME": "/h", "HUGGINGFACE_HUB_CACHE": "${HOME}/cm"}, True),
        ("/data/cm", {"Q": "/data", "HF_HUB_CACHE": "${Q}/cm"}, True),
        ("/data/cm", {"Q": "/data", "HF_HUB_CACHE": "$Q/cm"}, True),
        ("/root/c/vllm", {"XDG_CACHE_HOME": "~/c"}, True),
        ("/root/vc", {"VLLM_CACHE_ROOT": "~/vc"}, True),
        ("/vllm-workspace/cm", {"HF_HOME": "cm"}, True),
        ("/vllm-workspace/x", {"HF_HUB_CACHE": "."}, True),
        ("/vllm-workspace/x", {"HF_HUB_CACHE": ""}, True),
        ("/templates", {"HF_HOME": "~/cm"}, False),
        ("/templates", {"HF_HOME": "cm"}, False),
        ("/templates", {"HF_HOME": "~x/cm"}, False),
        ("/templates", {"HF_HOME": "$Q/cm"}, False),
        ("/x/models--a--b", {"HF_HOME": "$Q/cm"}, True),
        ("/x/modelinfos", {}, True),
        ("/x/models", {}, False),
    ],
)
def test_files_that_are_mounted_into_a_cache_are_a_doubt(
    volume: str, path: str, env: dict[str, str], *, is_doubt: bool
) -> None:
    document = pod(path, command=SERVE, env=[{"name": name, "value": value} for name, value in env.items()])
    document["spec"]["volumes"] = [{"name": "v", **OF_FILES[volume]}]
    faults: list[RequestFault] = []
    (container,) = read_manifest(document, "", faults)
    assert ([why for why in container.doubts if "cache" in why] != [], faults) == (is_doubt, [])


FILE = "hub/models--a--b/snapshots/x/config.json"
CACHE_FILES: dict[str, dict[str, Any]] = {
    "configMap": {"configMap": {"name": "c", "items": [{"key": "k", "path": FILE}]}},
    "secret": {"secret": {"secretName": "c", "items": [{"key": "k", "path": FILE}]}},
    "downwardAPI": {"downwardAPI": {"items": [{"path": FILE, "fieldRef": {"fieldPath": "metadata.name"}}]}},
    "projected": {"projected": {"sources": [{"configMap": {"name": "c", "items": [{"key": "k", "path": FILE}]}}]}},
    "token": {"projected": {"sources": [{"serviceAccountToken": {"path": FILE}}]}},
}
FROM_SECRET = {"valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}}


@table("volume", CACHE_FILES)
@table(
    ("env", "command"),
    [
        *(
            ([{"name": name, **FROM_SECRET}], SERVE)
            for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "VLLM_CACHE_ROOT", "HOME")
        ),
        ([{"name": "X", **FROM_SECRET}, {"name": "HF_HOME", "value": "$(X)"}], SERVE),
        ([{"name": "Y", **FROM_SECRET}], ["sh", "-c", 'export HF_HOME="$Y"; exec vllm serve dense']),
        ([], ["sh", "-c", "export HF_HOME=~/cm; exec vllm serve dense"]),
        ([{"name": "HOME", "value": "h"}], SERVE),
    ],
)
def test_files_with_paths_as_in_a_cache_are_a_doubt_wherever_the_cache_is(
    volume: str, env: list[Any], command: list[str]
) -> None:
    document = pod("/cm", command=command, env=env)
    for files, is_doubt in ((CACHE_FILES[volume], True), (OF_FILES.get(volume, {"emptyDir": {}}), False)):
        document["spec"]["volumes"] = [{"name": "v", **files}]
        (container,) = read_manifest(document, "", [])
        assert ([why for why in container.doubts if "cache" in why] != []) == is_doubt


def test_references_in_the_name_of_a_cache_stay_within_bounds() -> None:
    env = [{"name": "Q", "value": "q" * 1000}, {"name": "HF_HOME", "value": "/" + "$Q" * 100_000}]
    (container,) = read_manifest(pod("/cm", command=SERVE, env=env), "", [])
    assert not container.doubts


def test_a_cache_that_a_script_names_may_have_files_of_the_manifest() -> None:
    document = pod("/c", command=["sh", "-c", "export HF_HUB_CACHE=/c; exec vllm serve dense"])
    (container,) = read_manifest(document, "", [])
    assert not [why for why in container.doubts if "cache" in why]
    document["spec"]["volumes"] = [{"name": "v", **OF_FILES["configMap"]}]
    (container,) = read_manifest(document, "", [])
    assert [why for why in container.doubts if "cache" in why]


@table(
    ("path", "is_doubt"),
    [
        (f"{HUB}/snapshots/x/config.json", True),
        ("/root/cm/hub/models--a--b/refs/main", True),
        ("/templates/chat.jinja", False),
    ],
)
def test_a_file_that_kubeai_writes_into_a_cache_is_a_doubt(path: str, *, is_doubt: bool) -> None:
    spec = {"engine": "VLLM", "url": "hf://a/b", "image": IMAGE, "files": [{"path": path, "content": "{}"}]}
    model = {"apiVersion": "kubeai.org/v1", "kind": "Model", "metadata": {"name": "m"}, "spec": spec}
    (container,) = read_manifest(model, "", [])
    assert ([why for why in container.doubts if "cache" in why] != []) == is_doubt


def test_volumes_that_no_engine_mounts_are_not_read() -> None:
    document = pod(command=SERVE)
    document["spec"]["volumes"] = 5
    faults: list[RequestFault] = []
    assert (len(read_manifest(document, "", faults)), faults) == (1, [])
