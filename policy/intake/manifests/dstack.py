"""Tasks and services of dstack (read at its main branch, August 2026).

A shell runs ``commands``, joined by ``&&``; with ``entrypoint`` they are its arguments, and without both the image's
entry point runs. A node group or replica group has its own commands and resources, and may have an image. Without an
image, dstack runs its own, which has no vLLM. Secrets, and variables without a value, are not known.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command_line import HardwareSign, Strength
from policy.intake.manifests import python_shlex
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import accelerator_signs
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.tool_fields import DSTACK_RUN
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a dstack task or service (`type` beside `commands`, `image` or `groups`)"
SHELLS: Final = {True: "/bin/sh", False: "/bin/bash"}
"""The default shell, by whether there is an image."""
REFERENCE: Final = "${{"
MOUNT_FIELDS: Final = ("volumes", "files", "repos")
"""The fields that put something into the container."""
CONTAINER_PATH: Final = re.compile(r"~|/(?!/)")
"""Matches the beginning of a path in the container; others are relative to the working folder, or part of a URL."""
COUNT: Final = re.compile(r"[0-9]{1,4}")
RUN_VARIABLES: Final = tuple(
    f"DSTACK_{name}"
    for name in (
        *("RUN_ID", "JOB_ID", "RUN_NAME", "REPO_ID", "REPO_DIR", "WORKING_DIR", "NODES_IPS", "MASTER_NODE_IP"),
        *("NODE_RANK", "MPI_HOSTFILE"),
    )
)
"""The variables that dstack sets to values that are only known in a run."""
VENDORS: Final = {
    "nvidia": "cuda",
    "amd": "rocm",
    "google": "tpu",
    "tpu": "tpu",
    "intel": "gaudi",
    "tenstorrent": "tenstorrent",
}
"""The platforms of dstack's GPU vendors."""
MAX_NAMES: Final = 64
NODES: Final = "DSTACK_NODES_NUM"
NODE_GPUS: Final = "DSTACK_GPUS_PER_NODE"
GPUS: Final = "DSTACK_GPUS_NUM"


def is_run(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a task or a service."""
    value = document.value
    if not isinstance(value, dict) or not (
        value.get("type") == "task" or (value.get("type") == "service" and "port" in value)
    ):
        return False
    has_groups = any(isinstance(value.get(name), list) for name in ("commands", "groups", "replicas"))
    return has_groups or isinstance(value.get("image"), str)


def read_run(document: ManifestNode) -> None:
    """Read the engines that the commands start, in each group if there are groups."""
    groups = document.get("groups")
    if groups.value is None and isinstance(document.value.get("replicas"), list):
        groups = document.get("replicas")  # the former name of a service's groups
    is_task = document.value["type"] == "task"
    runs = groups.items() if groups.value is not None else [document]
    nodes = [_nodes(run) if is_task else 1 for run in runs]
    gpus = [_gpus(run) for run in runs]
    cluster = _cluster(nodes, gpus)
    signs = _gpu_signs(document)
    with unread_fields((DSTACK_RUN, document)):
        for run, own in zip(runs, gpus, strict=True):
            sizes = cluster if is_task else _cluster([1], [own])  # each replica of a service is a cluster of its own
            shared = [document.get(field).value for field in ("env", *MOUNT_FIELDS)]
            if run is document or run.reader.may_copy_values(run, *shared):
                _read_group(run, document, sizes | {NODE_GPUS: _text(own)}, signs)


def _read_group(
    run: ManifestNode, document: ManifestNode, cluster: dict[str, str | None], signs: list[HardwareSign]
) -> None:
    """Read a group; ``signs`` are those of the run, for a group without its own."""
    draft = EngineDraft(run)
    draft.image = run.get("image").text() or document.get("image").text()
    draft.has_default_image = True
    draft.env.replace({**dict.fromkeys(RUN_VARIABLES), **cluster})
    _add_variables(draft, document.get("env"))
    _add_command(draft, run, document)
    paths = [
        path for field in MOUNT_FIELDS for path in map(_mount_path, document.get(field).items()) if path is not None
    ]
    draft.mounts = Mounts(path for path in paths if CONTAINER_PATH.match(path) is not None)
    draft.hardware += _gpu_signs(run) or signs
    draft.folder = document.get("working_dir").text() or ""
    with unread_fields((DSTACK_RUN, run)):
        if draft.starts_vllm():
            draft.finish()


def _add_command(draft: EngineDraft, run: ManifestNode, document: ManifestNode) -> None:
    """Add the words that dstack runs; none if the image's entry point runs."""
    commands = [item.text() or "" for item in run.get("commands").items()]
    entry_point = document.get("entrypoint").text()
    if entry_point is not None:
        draft.has_command = True
        try:
            words = python_shlex.split(entry_point)
        except ValueError as error:
            document.get("entrypoint").fault(f"{error}, so dstack refuses it")
            return
        draft.add_final("entrypoint", *words)
        for place, command in enumerate(commands):
            draft.add_final(f"commands[{place}]", command)
    elif commands:
        shell = document.get("shell").text() or SHELLS[draft.image is not None]
        draft.has_command = True
        draft.add_final("commands", shell, "-i", "-c", " && ".join(map(_grouped, commands)))


def _grouped(command: str) -> str:
    """A command as dstack joins it: in braces if it runs in the background."""
    command = command.strip()
    return f"{{ {command} }}" if command.endswith("&") else command


def _add_variables(draft: EngineDraft, env: ManifestNode) -> None:
    """Add variables from a mapping, or from a list of ``NAME=value`` and ``NAME``."""
    if isinstance(env.value, list):
        pairs = [(item.text() or "").partition("=") for item in env.items()]
        found = {name: value if equals else None for name, equals, value in pairs if name}
    else:
        found = {name: value.scalar() for name, value in env.fields()}
    draft.env |= {name: None if value is None or REFERENCE in value else value for name, value in found.items()}


def _mount_path(volume: ManifestNode) -> str | None:
    """The path of a volume, a file or a repository in the container: the last part of a text, or a mapping's `path`."""
    if isinstance(volume.value, str):
        return volume.value.rpartition(":")[2]
    return volume.get("path").text()


def _cluster(nodes: list[int], gpus: list[int | None]) -> dict[str, str | None]:
    """The variables with the sizes of the cluster of nodes that run together."""
    total: int | None = 0
    for count, each in zip(nodes, gpus, strict=True):
        total = None if total is None or each is None else total + count * each
    return {NODES: str(sum(nodes)), GPUS: _text(total)} | ({"DSTACK_NODE_RANK": "0"} if sum(nodes) == 1 else {})


def _nodes(run: ManifestNode) -> int:
    return run.get("nodes").count() or 1


def _gpus(run: ManifestNode) -> int | None:
    """The number of GPUs of a node; None if it may be any, as without a number: `H100` is one or more."""
    spec: object = run.get("resources", "gpu").value
    if isinstance(spec, dict):
        spec = spec.get("count")
    if isinstance(spec, bool) or not isinstance(spec, int | str):
        return None
    counts = [part.strip() for part in str(spec).split(":") if COUNT.fullmatch(part.strip()) is not None]
    return int(counts[0]) if len(counts) == 1 else None


def _gpu_signs(run: ManifestNode) -> list[HardwareSign]:
    """The signs in the names of the GPUs, and in their vendor."""
    spec: object = run.get("resources", "gpu").value
    place = "resources.gpu"
    names: list[object] = []
    if isinstance(spec, dict):
        vendor, name = spec.get("vendor"), spec.get("name")
        names = [vendor, *(name if isinstance(name, list) else [name])]
    elif isinstance(spec, str):
        names = [part.strip() for each in spec.split(":") for part in each.split(",")]
    found = [VENDORS[name.lower()] for name in names if isinstance(name, str) and name.lower() in VENDORS]
    signs = [HardwareSign(platform, place, Strength.DEVICE) for platform in dict.fromkeys(found)]
    return signs or list(accelerator_signs(names[:MAX_NAMES], place))


def _text(count: int | None) -> str | None:
    return None if count is None else str(count)
