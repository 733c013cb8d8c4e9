"""Pods of any workload: the containers that start vLLM, with their words, variables and files.

Reads the container of Kubernetes' core/v1: ``command`` and ``args`` are one command line. A later variable of the same
name wins and may use earlier ones as ``$(NAME)``. ``valueFrom`` and ``envFrom`` are known only from a ConfigMap in the
same manifest. Kubernetes leaves out an optional variable whose ConfigMap or key does not exist, so that an earlier one
of the same name keeps its value. An init container counts only with ``restartPolicy: Always``, as it then runs beside
the others.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.kubernetes_references import expand_references, references
from policy.intake.command.words import Unknown
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.mounts import Mounts, absolute, paths_of
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "LWS_"
"""Begins the variables that LeaderWorkerSet sets, whose values are read as one word each."""


def read_pod(pod: ManifestNode, added: dict[str, str | None] | None = None, *, by_image: bool = True) -> None:
    """Add the containers of a pod's spec that start vLLM; ``added`` are variables that its controller sets in each.

    With ``by_image`` a container without a command runs its image's entry point.
    """
    for container in pod_containers(pod):
        draft = read_container(container, pod)
        draft.env = {**draft.env, **(added or {})}
        if draft.starts_vllm(by_image=by_image):
            draft.finish()


def pod_containers(pod: ManifestNode) -> Iterator[ManifestNode]:
    """The containers of a pod that run concurrently."""
    yield from pod.get("containers").items()
    for container in pod.get("initContainers").items():
        if container.get("restartPolicy").value == "Always":
            yield container


def read_container(container: ManifestNode, pod: ManifestNode | None = None) -> EngineDraft:
    """Read one container; ``pod`` has the volumes that it mounts."""
    draft = EngineDraft(container)
    draft.add_list(container.get("command"), "command")
    draft.has_command = bool(draft.words)
    draft.add_list(container.get("args"), "args")
    draft.image = container.get("image").text()
    read_env_from(container.get("envFrom"), draft)
    read_env(container.get("env"), draft)
    if container.get("lifecycle", "postStart", "exec").is_object():
        draft.note("`lifecycle.postStart` runs a program beside vLLM, which is not read; it may start another engine")
    draft.mounts = Mounts(paths_of(container.get("volumeMounts").value, "mountPath"))
    folder = container.get("workingDir").value
    draft.folder = folder if isinstance(folder, str) else ""
    if pod is not None:
        read_files(container, pod, draft)
    return draft


def read_env(env: ManifestNode, draft: EngineDraft) -> None:
    """Add a list of variables; one whose value is not in the manifest is ``None``."""
    for item in env.items():
        name = item.get("name").text()
        if name is None:
            continue
        if item.get("valueFrom").is_object():
            reference = item.get("valueFrom", "configMapKeyRef")
            if not _is_left_out(reference):
                draft.env[name] = _from_config_map(reference)
        else:
            value = item.get("value").text()
            if value is not None or item.get("value").value is None:
                draft.env[name] = expanded(value or "", draft, item)
        if name.startswith(GROUP) and draft.env.get(name, "") is None:
            item.fault(f"LeaderWorkerSet sets the variable {quoted(name)}; choose another name, or write its value")


def read_shared_env(env: ManifestNode, draft: EngineDraft) -> None:
    """Add a list of variables that several containers share, if its copy is within the limit."""
    if env.reading.affords_copy(env, env.value):
        read_env(env, draft)


def expanded(value: str, draft: EngineDraft, node: ManifestNode) -> str | None:
    """A value with ``$(NAME)`` replaced as in Kubernetes, from the variables before it; ``None`` if one is unknown."""
    if "$" not in value:
        return value
    size = sum(len(draft.env.get(name) or "") for name in references(value))
    if not node.reading.affords(size, node):
        return None
    filled = expand_references(value, draft.env, has_hidden_variables=draft.has_hidden_variables)
    return None if type(filled) is Unknown else filled


def read_env_from(env_from: ManifestNode, draft: EngineDraft) -> None:
    """Add the variables of whole ConfigMaps that are in the manifest; a note for each other source."""
    for item in env_from.items():
        name = item.get("configMapRef", "name").text()
        prefix = item.get("prefix").text() or ""
        found = item.reading.config_map(name)
        if found is not None and item.reading.affords_copy(item, found.data):
            draft.env.update({prefix + key: value for key, value in found.data.items()})
        elif found is None:
            draft.has_hidden_variables = True
            source = name or item.get("secretRef", "name").text() or "?"
            draft.note(f"`envFrom` takes variables from {quoted(source)}, which the manifest does not show")


def read_files(container: ManifestNode, pod: ManifestNode, draft: EngineDraft) -> None:
    """Add the files of mounted ConfigMaps that are in the manifest, by their path in the container.

    A mount below another hides the files of that at its path, whatever its volume is.
    """
    mounts = list(container.get("volumeMounts").items())
    volumes = _volumes(pod) if mounts else {}
    for mount in mounts:
        name, path = mount.get("name").text(), mount.get("mountPath").text()
        volume = volumes.get(name or "")
        if volume is None or path is None or volume.get("configMap").value is None:
            continue
        found = container.reading.config_map(volume.get("configMap", "name").text())
        data = {} if found is None else {key: text for key, text in found.data.items() if text is not None}
        items = volume.get("configMap", "items")
        if not data or not mount.reading.affords_copy(mount, data, items.value):
            continue
        chosen = {item.get("key").text(): item.get("path").text() for item in items.items()} or {
            key: key for key in data
        }
        files = {file: data[key] for key, file in chosen.items() if key in data and file is not None}
        sub_path = mount.get("subPath").text()
        if sub_path is None:
            named = {absolute(f"{path}/{file}"): text for file, text in files.items()}
        else:
            named = {absolute(path): files[sub_path]} if sub_path in files else {}
        draft.files.update({file: text for file, text in named.items() if not draft.mounts.hide(file, path)})


def _volumes(pod: ManifestNode) -> dict[str, ManifestNode]:
    """The volumes of a pod by name, collected once for all its containers."""
    known = pod.reading.volumes
    if pod.pointer not in known:
        named = ((volume.get("name").value, volume) for volume in pod.get("volumes").items())
        known[pod.pointer] = {name: volume for name, volume in named if isinstance(name, str)}
    return known[pod.pointer]


def _from_config_map(reference: ManifestNode) -> str | None:
    if reference.value is None:
        return None
    found = reference.reading.config_map(reference.get("name").text())
    return None if found is None else found.data.get(reference.get("key").text() or "")


def _is_left_out(reference: ManifestNode) -> bool:
    """Whether Kubernetes certainly leaves a variable out: it is optional, and its ConfigMap does not have the key."""
    if reference.value is None or reference.get("optional").value is not True:
        return False
    found = reference.reading.config_map(reference.get("name").text())
    return found is not None and found.is_exact and (reference.get("key").text() or "") not in found.data
