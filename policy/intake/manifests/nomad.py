"""Nomad's jobs as JSON, as its API and `nomad job run -output FILE` give them (read at Nomad's manual, version 1.10).

A task of the drivers `docker` and `podman` runs an image; one of `exec`, `raw_exec` and `exec2` a program of the node.
A value with `${…}` refers to a variable of the node or of Nomad, and is not known. Templates may set variables.
"""

from __future__ import annotations

from itertools import chain
from posixpath import normpath
from typing import TYPE_CHECKING, Final

from policy.intake.command.words import Unknown
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import accelerator_signs, runtime_signs
from policy.intake.manifests.hooks import read_hook
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.tool_fields import NOMAD_DRIVER, NOMAD_TASK
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a Nomad job (`Job` with `TaskGroups`)"
IMAGE_DRIVERS: Final = frozenset({"docker", "podman"})
PROGRAM_DRIVERS: Final = frozenset({"exec", "raw_exec", "exec2"})
FOLDERS: Final = ("/alloc", "/local", "/secrets")
"""The folders of a task, which Nomad mounts in its container; artifacts, templates and other tasks put files there.

Without an image the folder of the task has them.
"""
TASK_FOLDERS: Final = {"${NOMAD_ALLOC_DIR}": "alloc", "${NOMAD_TASK_DIR}": "local", "${NOMAD_SECRETS_DIR}": "secrets"}
"""The same folders, by the variables that name them."""
FILE_FIELDS: Final = (("Artifacts", "RelativeDest"), ("Templates", "DestPath"))
"""The fields of a task that make files, with their paths in the folder of the task."""
ISOLATED_DRIVERS: Final = frozenset({"exec", "exec2"})
"""The drivers for which the folder of the task is the root."""
REFERENCE: Final = "${"
CHANGE_SCRIPT: Final = "ChangeScript"
CHECKS: Final = "Checks"


def is_job(document: ManifestNode) -> bool:
    """Whether a document has a job with groups of tasks."""
    value = document.value
    job = value.get("Job") if isinstance(value, dict) else None
    return isinstance(job, dict) and isinstance(job.get("TaskGroups"), list)


def read_job(document: ManifestNode) -> None:
    """Read each task that starts vLLM."""
    for group in document.get("Job", "TaskGroups").items():
        checks: dict[object, list[ManifestNode]] = {}
        for check in _checks(group):
            checks.setdefault(check.get("TaskName").text(), []).append(check)
        for task in group.get("Tasks").items():
            _read_task(task, checks.pop(task.get("Name").text(), []))
        _read_hooks([(check, CHECKS) for each in checks.values() for check in each], EngineDraft(group))


def _read_task(task: ManifestNode, checks: list[ManifestNode]) -> None:
    """Read a task if it starts vLLM; ``checks`` are those of its group's services that run in it."""
    driver, config = task.get("Driver").text(), task.get("Config")
    draft = EngineDraft(task)
    if driver in IMAGE_DRIVERS:
        draft.image = config.get("image").text()
        entry_point = config.get("entrypoint")
        if isinstance(entry_point.value, str):
            _add(draft, entry_point, "entrypoint")
        else:
            _add_list(draft, entry_point, "entrypoint")
        draft.has_command = bool(draft.words)
    elif driver in PROGRAM_DRIVERS:
        draft.has_command = True
        draft.unversioned = "a program of the node does not show vLLM's version"
    else:
        return
    _add(draft, config.get("command"), "command")
    _add_list(draft, config.get("args"), "args")
    for name, node in task.get("Env").fields():
        value = node.scalar()
        draft.env[name] = None if value is None or REFERENCE in value else value
    if any(item.get("Envvars").value is True for item in task.get("Templates").items()):
        draft.has_hidden_variables = True
        draft.note("`Templates` set variables that the job does not show")
    folder = config.get("work_dir").text() or ""
    draft.folder = Unknown(folder) if REFERENCE in folder else folder or ("/" if driver in ISOLATED_DRIVERS else "")
    mounts = [text.split(":")[1:2] for item in config.get("volumes").items() if (text := item.text())]
    targets = [item.get("target").text() for field in ("mounts", "mount") for item in config.get(field).items()]
    volumes = [item.get("Destination").text() for item in task.get("VolumeMounts").items()]
    memory = [(item.text() or "").partition(":")[0] for item in config.get("tmpfs").items()]
    paths = [path for path in (*chain(*mounts), *targets, *volumes, *memory) if path]
    made = _files(task, is_image=driver in IMAGE_DRIVERS)
    draft.mounts = Mounts.from_paths(
        [*FOLDERS, *(Unknown(path) if REFERENCE in path else path for path in paths), *made]
    )
    devices = [item.get("Name").value for item in task.get("Resources", "Devices").items()]
    draft.hardware += [
        *accelerator_signs(devices, "Resources.Devices"),
        *runtime_signs(config.get("runtime").value, "runtime"),
    ]
    scripts = [(item.get("ChangeScript"), CHANGE_SCRIPT) for item in task.get("Templates").items()]
    _read_hooks([*scripts, *((check, CHECKS) for check in (*_checks(task), *checks))], draft)
    with unread_fields((NOMAD_TASK, task), (NOMAD_DRIVER, config)):
        if draft.starts_vllm():
            draft.finish()


def _files(task: ManifestNode, *, is_image: bool) -> Iterator[str]:
    """The paths of the files that artifacts and templates make; in an image only those in the folders of the task."""
    for field, name in FILE_FIELDS:
        for item in task.get(field).items():
            path = item.get(name).value
            if not isinstance(path, str) or not path:
                continue
            for variable, folder in TASK_FOLDERS.items():
                path = path.replace(variable, folder)
            if REFERENCE in path and is_image:
                continue
            path = Unknown(path) if REFERENCE in path else normpath(f"/{path.lstrip('/')}")
            if not is_image or path.startswith(tuple(f"{folder}/" for folder in FOLDERS)):
                yield path


def _checks(node: ManifestNode) -> Iterator[ManifestNode]:
    """The checks of the services of a task or a group."""
    for service in node.get("Services").items():
        yield from service.get("Checks").items()


def _read_hooks(scripts: list[tuple[ManifestNode, str]], draft: EngineDraft) -> None:
    """Read scripts, each with its field, up to the first one that starts vLLM.

    Only one is an item, because the path of each has the names of the group and the task, however long they are.
    """
    for script, name in scripts:
        value = script.value if isinstance(script.value, dict) else {}
        words = [value.get("Command"), *(value["Args"] if isinstance(value.get("Args"), list) else [])]
        if all(isinstance(word, str) for word in words):
            known = [Unknown(word) if REFERENCE in word else word for word in words]
            if read_hook(script, name, known, draft):
                return


def _add(draft: EngineDraft, word: ManifestNode, place: str) -> None:
    """Append a word, unknown if Nomad replaces a part of it."""
    text = word.text()
    if text is not None and REFERENCE in text:
        draft.add(place, Unknown(text))
    elif text is not None:
        draft.add_final(place, text)


def _add_list(draft: EngineDraft, words: ManifestNode, name: str) -> None:
    for place, word in enumerate(words.items()):
        _add(draft, word, f"{name}[{place}]")
