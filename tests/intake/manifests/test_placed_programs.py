"""Programs that a hook or another container puts where a command finds them by another name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from command_places import HOOKS, OWN_IMAGE, SLEEPS, VLLM, read
from shipped_images import read_manifest
from tables import table

from policy.intake.manifests.draft import PLACED_PROGRAM
from policy.intake.manifests.hooks import PROBLEM
from policy.intake.manifests.pods import SERVER_PROBLEM

if TYPE_CHECKING:
    from policy.errors import RequestFault

SERVE = "vllm serve a/b --prefill-context-parallel-size 2"
TEXT = f"cat <<E\n{SERVE}\nE"
PLACED_BY: list[tuple[str, str]] = [
    ("ln -sf /bin/sh /bin/cat", f"sleep 9; {TEXT}"),
    ("ln -sf /usr/local/bin/vllm /bin/sleep", "sleep 9; A=0 sleep serve a/b"),
    ("ln -sf /usr/local/bin/vllm /bin/foo", "foo serve a/b"),
    ("cp $(which vllm) /x/foo", "/x/foo serve a/b"),
    ("cp -f /bin/sh /x/cat", f"/x/{TEXT}"),
    ("mv /bin/bash /bin/cat", TEXT),
    ("cat /bin/sh > /x/tr", f"echo '{SERVE}' | /x/tr"),
    ("L=ln; env $L -s /usr/bin/env /usr/local/bin/echo", f"echo {SERVE}"),
    ("A=$(ln -sf /bin/sh /bin/cat)", TEXT),
    ("sh -c 'install /bin/sh /bin/cat'", TEXT),
    (f"echo '{SERVE}' > /x/sleep; chmod +x /x/sleep", "/x/sleep 1"),
]
HARMLESS: list[tuple[str, str]] = [
    ("touch /tmp/r", TEXT),
    ("cp -r /data /x; ln -s /usr/bin/python3 /usr/bin/python; cp /bin/uv /x/uv", TEXT),
    ("ln -sf /bin/sh /bin/cat", "cat /etc/passwd"),
    ("cp test /x/y; echo a > /x/log", TEXT),
    ("ln -sf /usr/local/bin/vllm /bin/foo", "sleep 9"),
]
MOUNT = {"name": "v", "mountPath": "/x"}


def pod(*containers: dict[str, Any], init: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    spec = {"volumes": [{"name": "v", "emptyDir": {}}], "containers": [*containers], "initContainers": init or []}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "a"}, "spec": spec}


def runs(script: str, name: str = "a", image: str = OWN_IMAGE, **fields: Any) -> dict[str, Any]:
    return {"name": name, "image": image, "command": ["sh", "-c", script], **fields}


def hook(place: str, script: str) -> dict[str, Any]:
    value: Any = {"exec": {"command": ["sh", "-c", script]}}
    for key in reversed(place.split(".")):
        value = {key: value}
    return dict(value)


def problems(document: dict[str, Any]) -> list[str]:
    return [each.problem for each in read(document)]


MOUNTED: dict[str, Any] = {"volumeMounts": [MOUNT]}
READS: dict[str, Any] = {"volumeMounts": [{**MOUNT, "readOnly": True}]}
OTHER: dict[str, Any] = {"volumeMounts": [{"name": "w", "mountPath": "/x"}]}
BEFORE = [place for place in HOOKS if place != "lifecycle.preStop"]


@table(("placing", "script"), PLACED_BY)
@table("image", [OWN_IMAGE, VLLM])
@pytest.mark.parametrize("place", BEFORE)
def test_a_hook_may_put_a_program_where_the_command_runs_it(place: str, placing: str, script: str, image: str) -> None:
    assert problems(pod(runs(script, image=image, **hook(place, placing)))) != []


@table(("placing", "script"), HARMLESS)
@pytest.mark.parametrize("place", BEFORE)
def test_other_hooks_put_no_program_where_the_command_runs_it(place: str, placing: str, script: str) -> None:
    assert problems(pod(runs(script, **hook(place, placing)))) == []


def test_a_hook_at_the_end_comes_after_the_command() -> None:
    assert problems(pod(runs(TEXT, **hook("lifecycle.preStop", "ln -sf /bin/sh /bin/cat")))) == []


@table(("placing", "script"), PLACED_BY)
@pytest.mark.parametrize("place", HOOKS)
def test_the_command_may_put_a_program_where_a_hook_runs_it(place: str, placing: str, script: str) -> None:
    assert problems(pod(runs(f"{placing}; sleep infinity", **hook(place, script)))) != []


@table(("placing", "script"), PLACED_BY)
def test_another_container_may_put_a_program_where_the_command_runs_it(placing: str, script: str) -> None:
    placer = runs(placing, "b", **MOUNTED)
    later = runs(script, **MOUNTED)
    assert problems(pod(later, init=[placer])) != []
    assert problems(pod(placer, later)) != []
    assert problems(pod(later, {**SLEEPS, "name": "b", **MOUNTED, **hook("lifecycle.postStart", placing)})) != []
    init = [placer, {**later, "name": "c"}]
    assert SERVER_PROBLEM.format("init container") in problems(pod({**SLEEPS, "image": OWN_IMAGE}, init=init))
    hooked = pod({**SLEEPS, "image": OWN_IMAGE, **MOUNTED, **hook("livenessProbe", script)}, init=[placer])
    assert PROBLEM.format("`livenessProbe`", "may start") in problems(hooked)


@table(("placing", "script"), HARMLESS)
def test_other_containers_put_no_program_where_the_command_runs_it(placing: str, script: str) -> None:
    assert problems(pod(runs(script, **MOUNTED), init=[runs(placing, "b", **MOUNTED)])) == []


@table(
    ("placer", "container", "is_shared"),
    [
        (MOUNTED, MOUNTED, True),
        (MOUNTED, READS, True),
        (READS, MOUNTED, False),
        (OTHER, MOUNTED, False),
        (MOUNTED, {}, False),
        ({}, MOUNTED, False),
        ({"volumeMounts": [1, {"name": []}, MOUNT]}, {"volumeMounts": [None, MOUNT]}, True),
    ],
)
def test_it_counts_in_a_volume_that_both_mount(
    placer: dict[str, Any], container: dict[str, Any], *, is_shared: bool
) -> None:
    copied = ["cp", "/bin/sh", "/x/tr"]
    document = pod(
        runs(f"echo '{SERVE}' | tr a b", **container),
        init=[{"name": "b", "image": OWN_IMAGE, "command": copied, **placer}],
    )
    faults: list[RequestFault] = []
    assert [each.problem for each in read_manifest(document, "", faults)] == ([PLACED_PROGRAM] if is_shared else [])


CLAIM = {"persistentVolumeClaim": {"claimName": "c"}}
AT_Y: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/y", "subPath": "z"}]}


@table(
    ("placer", "sources", "is_shared"),
    [
        (AT_Y, {"v": {"emptyDir": {}}}, True),
        (OTHER, {"v": CLAIM, "w": CLAIM}, True),
        (OTHER, {"v": {"hostPath": {"path": "/a"}}, "w": {"hostPath": {"path": "/a/b"}}}, True),
        (OTHER, {"v": CLAIM, "w": {"persistentVolumeClaim": {"claimName": "d"}}}, False),
        (OTHER, {"v": {"emptyDir": {}}, "w": {"emptyDir": {}}}, False),
    ],
)
def test_it_may_be_mounted_elsewhere_or_have_another_name(
    placer: dict[str, Any], sources: dict[str, Any], *, is_shared: bool
) -> None:
    copied = {"name": "b", "image": OWN_IMAGE, "command": ["cp", "/bin/sh", "/x/tr"], **placer}
    engine = runs(f"echo '{SERVE}' | tr a b", **MOUNTED)
    for document in (pod(engine, init=[copied]), pod(engine, copied)):
        document["spec"]["volumes"] = [{"name": name, **source} for name, source in sources.items()]
        assert problems(document) == ([PLACED_PROGRAM] if is_shared else [])


def test_many_containers_that_put_programs_hide_none_that_names_the_server() -> None:
    placers = [runs("ln -s /bin/sh /x/sleep", f"b{number}", **MOUNTED) for number in range(4)]
    named = runs("ln -s $(which vllm) /x/sleep", "c", **MOUNTED)
    assert problems(pod(runs("sleep serve a/b", **MOUNTED), init=[*placers, named])) == [PLACED_PROGRAM]
    assert problems(pod(runs("sleep serve a/b", **MOUNTED), init=placers)) == []
    values = [{"name": "P", "value": "/usr/bin/vllm"}]
    named = runs('ln -s "$P" /x/sleep', "c", env=values, **MOUNTED)
    assert problems(pod(runs("sleep serve a/b", **MOUNTED), init=[*placers, named])) == [PLACED_PROGRAM]


@table(
    ("path", "is_replaced"),
    [
        ("/bin/cat", True),
        ("/usr/local/sbin/cat", True),
        ("/usr/local/bin", True),
        ("/bin", True),
        ("/usr/local", True),
        ("/usr/bin/other", False),
        ("/x/cat", False),
        ("/usr/share", False),
    ],
)
@pytest.mark.parametrize("image", [OWN_IMAGE, VLLM])
def test_a_mount_may_have_another_program_of_a_name(image: str, path: str, *, is_replaced: bool) -> None:
    mounted: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": path}]}
    documents = [
        pod(runs(TEXT, image=image, **mounted)),
        pod({**SLEEPS, "image": image, **mounted, **hook("livenessProbe", TEXT)}),
        pod({**SLEEPS, "image": OWN_IMAGE}, init=[runs(TEXT, "b", image, **mounted)]),
    ]
    for document in documents:
        assert problems(document) == []  # an empty volume
        document["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
        assert bool(problems(document)) is is_replaced
    harmless = pod(runs("cat /x; sleep infinity", image=image, **mounted))
    harmless["spec"]["volumes"] = [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}]
    assert problems(harmless) == []


VOLUMES: dict[str, dict[str, Any]] = {
    "configMap": {"name": "c", "defaultMode": 0o755},
    "secret": {"secretName": "c", "defaultMode": 0o755},
    "persistentVolumeClaim": {"claimName": "c"},
    "hostPath": {"path": "/opt"},
    "image": {"reference": "x/y"},
}
AT_PROGRAM: dict[str, Any] = {"volumeMounts": [{"name": "v", "mountPath": "/d/cat", "subPath": "cat"}]}
ARGUMENTS = ["vllm", "serve", "a/b", "--enable-dbo"]


@table(
    ("command", "is_found"),
    [
        (["/x/cat", *ARGUMENTS], True),
        (["/x/a/../b/cat", "-u", "A", *ARGUMENTS], True),
        (["./cat", *ARGUMENTS], True),
        (["/proc/self/cwd/cat", *ARGUMENTS], True),
        (["/proc/self/root/x/cat", *ARGUMENTS], True),
        (["env", "/x/cat", *ARGUMENTS], True),
        (["env", "-C", "/x", "./cat", *ARGUMENTS], True),
        (["nohup", "/x/cat", *ARGUMENTS], True),
        (["tini", "--", "timeout", "9", "/x/cat", *ARGUMENTS], True),
        (["/usr/bin/xargs", "/x/cat", *ARGUMENTS], True),
        (["sudo", "-u", "a", "../x/cat", *ARGUMENTS], True),
        (["env", "/d/cat", *ARGUMENTS], False),
        (["echo", *ARGUMENTS[:3], "/x/file"], False),
        (["/d/cat", *ARGUMENTS], False),
        (["/usr/bin/cat", *ARGUMENTS], False),
        (["cat", *ARGUMENTS], False),
        (["/x/cat", "/x/file"], False),
    ],
)
@pytest.mark.parametrize("volume", VOLUMES.items(), ids=VOLUMES)
def test_a_program_in_a_volume_may_start_the_server_that_its_arguments_name(
    volume: tuple[str, dict[str, Any]], command: list[str], *, is_found: bool
) -> None:
    document = pod({"name": "a", "image": VLLM, "command": command, **MOUNTED})
    document["spec"]["volumes"] = [{"name": "v", **dict([volume])}]
    assert problems(document) == [PLACED_PROGRAM] * is_found


def test_a_mount_may_be_the_program_itself() -> None:
    document = pod({"name": "a", "image": VLLM, "command": ["/d/cat", *ARGUMENTS], **AT_PROGRAM})
    document["spec"]["volumes"] = [{"name": "v", "configMap": {"name": "c"}}]
    assert problems(document) == [PLACED_PROGRAM]


@table(
    "placing",
    [
        ["find", "/usr/bin", "-name", "env", "-exec", "cp", "{}", "/w/cat", ";"],
        ["sh", "-c", "tar c -C /usr/bin --transform s/env/cat/ env | tar x -C /w"],
        ["python3", "-c", "import shutil; shutil.copy('/usr/bin/env', '/w/cat')"],
        ["/x.sh"],
        None,
    ],
)
def test_any_command_may_put_a_program_into_a_volume(placing: list[str] | None) -> None:
    other: dict[str, Any] = {"name": "b", "image": OWN_IMAGE, "volumeMounts": [{"name": "v", "mountPath": "/w"}]}
    other |= {} if placing is None else {"command": placing}
    container = {"name": "a", "image": VLLM, "command": ["/x/cat", "-u", "A", *ARGUMENTS], **MOUNTED}
    assert problems(pod(container, init=[other])) == [PLACED_PROGRAM]
    assert problems(pod(container)) == []  # nothing is in the volume
