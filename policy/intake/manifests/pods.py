"""The containers of a pod that start vLLM, with their words, variables and files.

Reads containers of Kubernetes' core/v1: ``command`` and ``args`` are one command line. A later variable replaces an
earlier one with the same name, and may refer to earlier ones as ``$(NAME)``. ``valueFrom`` is known from a ConfigMap in
the same manifest and from the pod itself, ``envFrom`` from a ConfigMap. Kubernetes skips an optional variable whose
ConfigMap or key does not exist, so that an earlier one with the same name keeps its value. An init container counts
as an engine only with ``restartPolicy: Always``, because it then runs beside the others. Another init container or an
ephemeral container that starts vLLM's server is an item with a problem.
"""

from __future__ import annotations

import re
from collections import ChainMap
from contextlib import suppress
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

from policy.errors import FURTHER_FAULTS
from policy.intake.command.config_file import secrets_of_files
from policy.intake.command.expansion import ExpansionExhausted
from policy.intake.command.kubernetes_references import expand_references, references
from policy.intake.command.paths import absolute_path
from policy.intake.command.script_variables import GROUP_VARIABLES
from policy.intake.command.volume_paths import USER_HOME, VolumePaths
from policy.intake.command.words import Unknown
from policy.intake.command_line import Container
from policy.intake.manifests.cache_mounts import file_mounts
from policy.intake.manifests.downward import downward_value, pod_template, stated_field
from policy.intake.manifests.draft import LONG_COMMAND, RUNNER_VARIABLE, EngineDraft
from policy.intake.manifests.empty_volumes import claimed_volumes, empty_volumes
from policy.intake.manifests.hardware import container_signs, gpu_count, pod_signs
from policy.intake.manifests.hooks import FIELDS as HOOKS
from policy.intake.manifests.hooks import read_hooks
from policy.intake.manifests.image_labels import labelled_version
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.intake.manifests.placed_programs import placed_programs
from policy.intake.manifests.service_links import note_port
from policy.intake.manifests.volume_mounts import volume_mounts
from policy.intake.model.redirection import MAY_DIFFER
from policy.messages import quoted
from policy.pointer import is_within
from policy.secret_names import is_secret
from policy.stated_secrets import secrets_of_text, secrets_of_words

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from typing import Any

    from policy.errors import RequestFault
    from policy.intake.manifests.placed_programs import Placer
    from policy.intake.manifests.reading import ManifestNode, ManifestReader

GROUP_PREFIX: Final = "LWS_"
"""The prefix of the variables that LeaderWorkerSet sets."""
ONE_WORD_FIELDS: Final = re.compile(
    r"metadata\.(?:name|namespace|uid)|spec\.(?:nodeName|serviceAccountName)|status\.(?:hostIPs?|podIPs?)"
)
"""Matches the fields of a pod whose values are one word."""
PASSING_LISTS: Final = {"initContainers": "init container", "ephemeralContainers": "ephemeral container"}
"""The lists of a pod's containers that run before the others, or are added to a running pod."""
HUB_HOST: Final = "huggingface.co"
HUB_ALIAS: Final = (
    f"`hostAliases` gives `{HUB_HOST}` another address, so vLLM may load models from a different hub; {MAY_DIFFER}"
)
HIDDEN_SOURCE: Final = "`envFrom` takes variables from {}, which the manifest does not show"
UNREAD_VALUES: Final = "`envFrom` takes variables from the Secret {}, and values of Secrets are not read"
SHARING_FIELDS: Final = ("shareProcessNamespace", "hostPID")
"""The fields by which a container of a pod sees the processes of the others, and their files in `/proc/PID/root`."""
SHARING_DOUBT: Final = (
    "`{}` lets other containers of the pod change the engine's files, so another vLLM or model may run; leave it out"
)
UNREAD_LIMITS: Final = frozenset({LONG_COMMAND, FURTHER_FAULTS.format("this manifest")})
"""The faults of a container that the API server accepts."""
SERVER_PROBLEM: Final = (
    "the {} starts vLLM's server, which is not decided; start it in one of `containers`, or in an init container with "
    "`restartPolicy: Always`"
)


def read_pod(
    pod: ManifestNode,
    added_variables: dict[str, str | None] | None = None,
    *,
    by_image: bool = True,
    mounts: Mapping[str, Sequence[str]] | None = None,
    models: Mapping[str, Mapping[str, str]] | None = None,
    replaced_variables: Collection[str] = (),
    is_group: bool = False,
) -> None:
    """Read the containers of a pod's spec that start vLLM.

    The controller sets ``added_variables`` in each, and other ``replaced_variables`` in place of a container's own.
    With ``is_group`` it is a template of LeaderWorkerSet, whose variables an engine may not set to unknown values.
    With ``by_image`` a container without a command runs its image's entry point. Beside an engine, a container that
    cannot be read is an item with its faults. ``mounts`` has the paths at which the controller mounts volumes, by the
    names of the containers, and ``models`` the names of the models at such paths.
    """
    reader = pod.reader
    count = len(reader.containers)
    unread: list[tuple[ManifestNode, list[RequestFault]]] = []
    for container in pod_containers(pod):
        with reader.separate() as faults:
            name = container.get("name").value
            paths = mounts.get(name, ()) if mounts and isinstance(name, str) else ()
            mounted = models.get(name) if models and isinstance(name, str) else None
            read_pod_container(
                container,
                pod,
                added_variables,
                by_image=by_image,
                mounts=paths,
                models=mounted,
                replaced_variables=replaced_variables,
                is_group=is_group,
            )
        if faults:
            unread.append((container, faults))
    read_passing_containers(pod)
    if not unread:
        return
    are_own = all(is_within(fault.pointer, container.pointer) for container, faults in unread for fault in faults)
    for container, faults in unread:
        if are_own and len(reader.containers) > count:
            reader.add(Container(container.path, faults=tuple(faults)), container)
        else:
            reader.add_again(faults)


def read_pod_container(
    container: ManifestNode,
    pod: ManifestNode,
    added_variables: dict[str, str | None] | None = None,
    *,
    by_image: bool = True,
    mounts: Sequence[str] = (),
    models: Mapping[str, str] | None = None,
    replaced_variables: Collection[str] = (),
    is_group: bool = False,
) -> None:
    """Read one container of a pod's spec if it starts vLLM, as ``read_pod`` does."""
    repeated = _repeated(container) if any(name.startswith(GROUP_PREFIX) for name in added_variables or ()) else ()
    draft = read_container(
        container,
        pod,
        mounts,
        added_variables or {},
        {*(added_variables or {}), *replaced_variables, *repeated},
        first_variables=added_variables if is_group else None,
    )
    draft.env.update(added_variables or {})
    if models and container.reader.may_copy_values(container, models):
        draft.models.update(models)
    if draft.starts_vllm(by_image=by_image):
        for item in draft.group_items if is_group else ():
            name = quoted(item.value["name"])
            item.fault(f"LeaderWorkerSet sets the variable {name}; choose another name, or write its value")
        draft.finish()


def _repeated(container: ManifestNode) -> set[str]:
    """The variables that a container states with several values: LeaderWorkerSet keeps the first of each name."""
    items = container.value.get("env") if isinstance(container.value, dict) else None
    named: dict[str, object] = {}
    found: set[str] = set()
    for item in items if isinstance(items, list) else ():
        name = item.get("name") if isinstance(item, dict) else None
        if isinstance(name, str) and named.setdefault(name, item) != item:
            found.add(name)
    return found


def pod_containers(pod: ManifestNode) -> Iterator[ManifestNode]:
    """The containers of a pod that run concurrently."""
    yield from pod.get("containers").items()
    for container in pod.get("initContainers").items():
        if container.get("restartPolicy").value == "Always":
            yield container


def read_passing_containers(pod: ManifestNode) -> None:
    """Add an item with a problem for each init container or ephemeral container that starts vLLM's server.

    One with a value of a wrong type starts nothing, as the API server refuses it. One with a command that exceeds the
    limits counts if it names vLLM: a shell ignores words after its script.
    """
    for field in PASSING_LISTS:
        for container in pod.get(field).items():
            read_passing_container(container, pod, field)


def read_passing_container(container: ManifestNode, pod: ManifestNode, field: str) -> None:
    """Add an item with a problem if a container of the list ``field`` starts vLLM's server."""
    value = container.value
    if not isinstance(value, dict) or (field == "initContainers" and value.get("restartPolicy") == "Always"):
        return
    without_hooks = {name: each for name, each in value.items() if name not in HOOKS}  # such containers have none
    if may_start_server(pod.reader, lambda: read_container(container.with_value(without_hooks), pod)):
        add_server_problem(container, field)


def may_start_server(reader: ManifestReader, read: Callable[[], EngineDraft]) -> bool:
    """Whether the container that ``read`` reads starts vLLM's server, or names vLLM in a command that is too long."""
    draft, starts = None, False
    with reader.separate(are_reported=False) as faults:
        draft = read()
        starts = draft.starts_server()
    if not faults or draft is None:
        return starts
    return all(fault.message in UNREAD_LIMITS for fault in faults) and draft.names_vllm()


def add_server_problem(container: ManifestNode, field: str) -> None:
    """Add the problem of a container of the list ``field`` that starts vLLM's server."""
    problem = SERVER_PROBLEM.format(PASSING_LISTS[field])
    container.reader.add_hook(lambda path: Container(path, problem=problem), container)


def read_container(
    container: ManifestNode,
    pod: ManifestNode | None = None,
    mounts: Sequence[str] = (),
    added_variables: Iterable[str] = (),
    replaced_variables: Collection[str] = (),
    *,
    first_variables: Mapping[str, str | None] | None = None,
) -> EngineDraft:
    """Read a container; ``pod`` has its volumes, and ``mounts`` the paths at which its controller mounts others.

    The controller sets ``added_variables`` if the container does not: their values are not known. It sets
    ``replaced_variables`` in place of the container's own, whose values are then not known either. It sets
    ``first_variables`` before the container's own, which may refer to them.
    """
    draft = EngineDraft(container)
    draft.env.replace(dict.fromkeys(added_variables))
    draft.add_list(container.get("command"), "command")
    draft.has_command = bool(draft.words)
    draft.add_list(container.get("args"), "args")
    draft.image = container.get("image").text()
    read_env_from(container.get("envFrom"), draft)
    draft.env.update({name: None for name in replaced_variables if name in draft.env})
    draft.env.update(first_variables or {})
    read_env(container.get("env"), draft, {**dict.fromkeys(replaced_variables), **(first_variables or {})})
    draft.several_words = tuple(
        name
        for item in draft.group_items
        if (name := item.value["name"]) in GROUP_VARIABLES.difference(replaced_variables) and not _is_one_word(item)
    )
    _collect_secrets(draft)
    mounted = container.get("volumeMounts").value
    of_controller = mounts if not mounts or container.reader.may_copy_values(container, [*mounts]) else ()
    devices = mount_paths(container.get("volumeDevices").value, "devicePath")
    log = container.get("terminationMessagePath").value  # a file that the kubelet mounts
    paths = [
        *mount_paths(mounted, "mountPath"),
        *of_controller,
        *devices,
        *([log] if isinstance(log, str) else []),
    ]
    draft.mounts = Mounts(paths, *_empty_mounts(container, pod))
    if pod is not None:
        draft.programs.placers = lambda: _placers(container, pod)
    read_hooks(container, draft, added_variables=added_variables, replaced_variables=replaced_variables)
    folder = container.get("workingDir").value
    draft.folder = folder if isinstance(folder, str) else ""
    draft.hardware += container_signs(container)
    draft.gpus = gpu_count(container)
    if (template := pod_template(container)) is not None and isinstance(template.value.get("metadata"), dict):
        named = (template.value["metadata"].get(name) for name in ("annotations", "labels"))
        draft.label_version = labelled_version(each for each in named if isinstance(each, dict))
    if pod is not None:
        if _replaces_hub(pod.get("hostAliases")):
            draft.note(HUB_ALIAS)
        note_port(pod, draft)
        draft.hardware += pod_signs(pod)
        read_files(container, pod, draft)
        if mounted:
            draft.file_mounts = file_mounts(container, _volumes(pod), pod.reader.known_volumes.caches)
            draft.volumes = _volume_paths(container, pod, draft)
        if (field := _sharing_field(pod)) is not None:
            draft.doubt(SHARING_DOUBT.format(field))
    return draft


def _collect_secrets(draft: EngineDraft) -> None:
    """Collect the secrets that a container's variables and the references in its command have."""
    found = draft.node.reader.secrets
    found |= draft.env.secrets
    if "$(" not in " ".join(draft.words):
        return
    with suppress(ExpansionExhausted):  # deciding an engine reports it
        found.update(secrets_of_words(draft.expanded_words()))
        if draft.env.assumed:
            found.update(secrets_of_words(draft.expanded_words(draft.env.assumed)))


def _replaces_hub(aliases: ManifestNode) -> bool:
    """Whether a pod's `hostAliases` give the hub's name another address."""
    if not aliases.value or not aliases.reader.may_copy_values(aliases, aliases.value):
        return False
    names = (name for item in aliases.items() for name in item.get("hostnames").items())
    return any(name.value == HUB_HOST for name in names)


def _sharing_field(pod: ManifestNode) -> str | None:
    """The field by which the containers of a pod, if there are several, see each other's processes."""
    field = next((name for name in SHARING_FIELDS if pod.get(name).value is True), None)
    if field is None:
        return None
    count = sum(len(found) for name in ("containers", *PASSING_LISTS) if isinstance(found := pod.get(name).value, list))
    return field if count > 1 else None


def note_mounting_containers(pod: ManifestNode, containers: Sequence[dict[str, Any]]) -> None:
    """Note containers that a pod's spec does not have, or to which its controller adds mounts.

    They may fill the volumes that the containers of the spec mount, so note them before those are read.
    """
    pod.reader.empty_volumes[pod.pointer] = (pod.value, empty_volumes(pod.value, _claimed(pod), containers))


def read_env(
    env: ManifestNode, draft: EngineDraft, replaced_variables: Mapping[str, str | None] = MappingProxyType({})
) -> None:
    """Add a list of variables; a value that the manifest does not contain is ``None``.

    The controller drops or overwrites each of ``replaced_variables``; later references get the value given for it.
    """
    for item in env.items():
        read_variable(item, draft)
        name = item.get("name").value
        if isinstance(name, str) and name in replaced_variables:
            draft.env[name] = replaced_variables[name]


def read_variable(item: ManifestNode, draft: EngineDraft) -> None:
    """Add a variable, as ``read_env`` does."""
    name = item.get("name").text()
    if name is None:
        return
    if item.get("valueFrom").is_object():
        reference = item.get("valueFrom", "configMapKeyRef")
        if not _is_skipped(reference):
            _set_by_own(name, draft)
            draft.env[name] = _from_config_map(reference) if reference.value is not None else _from_pod(item, draft)
            if draft.env[name] is None and (stated := stated_field(item.get("valueFrom"), draft.node)) is not None:
                _assume(name, stated, draft)
    else:
        value = item.get("value").text()
        if value is not None or item.get("value").value is None:
            _set_by_own(name, draft)
            draft.env[name] = expand(value or "", draft, item)
            if draft.env.assumed and draft.env[name] is None and (assumed := _assumed(value or "", draft)) is not None:
                _assume(name, assumed, draft)
    if name.startswith(GROUP_PREFIX) and draft.env.get(name, "") is None:
        draft.group_items += (item,)


def _set_by_own(name: str, draft: EngineDraft) -> None:
    """Note that the container itself sets a variable, so that no source of ``envFrom`` replaces it."""
    if name == RUNNER_VARIABLE:
        draft.replacing_source = ""


def _is_one_word(item: ManifestNode) -> bool:
    """Whether the value that a variable takes from its pod is one word, if it is not known."""
    source = item.value.get("valueFrom")
    field = source.get("fieldRef") if isinstance(source, dict) else None
    path = field.get("fieldPath") if isinstance(field, dict) else None
    return isinstance(path, str) and ONE_WORD_FIELDS.fullmatch(path) is not None


def _assume(name: str, value: str, draft: EngineDraft) -> None:
    """Note the value of an unknown variable as the pod's template states it, and its secrets."""
    draft.env.assumed[name] = value
    draft.node.reader.secrets.update([value] if is_secret(name) else secrets_of_text(value))


def _assumed(value: str, draft: EngineDraft) -> str | None:
    """A value with `$(NAME)` expanded as the pod's template states; None if one is unknown."""
    env = ChainMap(draft.env.assumed, draft.env)
    size = sum(len(env.get(name) or "") for name in references(value))
    if not draft.node.reader.may_copy(size, draft.node):
        return None
    filled = expand_references(value, env, has_hidden_variables=draft.has_hidden_variables)
    return None if type(filled) is Unknown else filled


def _from_pod(item: ManifestNode, draft: EngineDraft) -> str | None:
    value = downward_value(item.get("valueFrom"), draft.node)
    return value if value is not None and item.reader.may_copy_values(item, value) else None


def read_shared_env(env: ManifestNode, draft: EngineDraft) -> None:
    """Add a list of variables that several containers share, if copying it is within the limit."""
    if env.reader.may_copy_values(env, env.value):
        read_env(env, draft)


def expand(value: str, draft: EngineDraft, node: ManifestNode) -> str | None:
    """A value with ``$(NAME)`` expanded from earlier variables, as by Kubernetes; ``None`` if one is unknown."""
    if "$" not in value:
        return value
    size = sum(len(draft.env.get(name) or "") for name in references(value))
    if not node.reader.may_copy(size, node):
        return None
    filled = expand_references(value, draft.env, has_hidden_variables=draft.has_hidden_variables)
    if type(filled) is Unknown:
        return None
    if filled != value:
        node.reader.secrets.update(secrets_of_text(filled))
    return filled


def read_env_from(env_from: ManifestNode, draft: EngineDraft) -> None:
    """Add the variables of ConfigMaps and Secrets in the manifest, and a note for each source that is not read.

    The last source with a variable counts. The value that a ConfigMap states is kept if a later source may have
    another one, as most have none; ``replacing_source`` of the draft is that source for the variable of the rules.
    """
    for item in env_from.items():
        name = item.get("configMapRef", "name").text()
        secret = None if name else item.get("secretRef", "name").text()
        prefix = item.get("prefix").text() or ""
        found = item.reader.secret(secret) if secret else item.reader.config_map(name)
        if found is not None and item.reader.may_copy_values(item, found.data, [prefix] * len(found.data)):
            variables = {prefix + key: value for key, value in found.data.items()}
            draft.env.update(variables)
            if RUNNER_VARIABLE in variables:
                draft.replacing_source = ""
        elif found is None:
            draft.has_hidden_variables = True
            if RUNNER_VARIABLE.startswith(prefix) and draft.env.get(RUNNER_VARIABLE) is not None:
                draft.replacing_source = f"the Secret {quoted(secret)}" if secret else quoted(name or "?")
        if secret:
            draft.note(UNREAD_VALUES.format(quoted(secret)))
        elif found is None:
            draft.note(HIDDEN_SOURCE.format(quoted(name or "?")))


def read_files(container: ManifestNode, pod: ManifestNode, draft: EngineDraft) -> None:
    """Add the files of mounted ConfigMaps in the manifest, by their paths in the container.

    A mount below another one hides the files of the outer mount, whatever its volume.
    """
    mounts = list(container.get("volumeMounts").items())
    volumes = _volumes(pod) if mounts else {}
    for mount in mounts:
        name, path = mount.get("name").text(), mount.get("mountPath").text()
        volume = volumes.get(name or "")
        if volume is None or path is None or volume.get("configMap").value is None:
            continue
        found = container.reader.config_map(volume.get("configMap", "name").text())
        data = {} if found is None else {key: text for key, text in found.data.items() if text is not None}
        items = volume.get("configMap", "items")
        if not data or not mount.reader.may_copy_values(mount, data, items.value, [path] * len(data)):
            continue
        chosen = {item.get("key").text(): item.get("path").text() for item in items.items()} or {
            key: key for key in data
        }
        files = {file: data[key] for key, file in chosen.items() if key in data and file is not None}
        expression = mount.get("subPathExpr").text()
        below = expand(expression, draft, mount) if expression else mount.get("subPath").text() or ""
        if below is None:
            continue
        named = {absolute_path(f"{path}/{file}"): text for file, text in _files_below(files, below).items()}
        draft.files.update({file: text for file, text in named.items() if not draft.mounts.hides(file, path)})
    container.reader.secrets.update(secrets_of_files(draft.files))


def _files_below(files: Mapping[str, str], folder: str) -> dict[str, str]:
    """The files of a volume at or below a path, by their paths from there; the one at the path has an empty name."""
    folder = absolute_path(folder)
    start = f"{folder.rstrip('/')}/"
    named = ((absolute_path(file), text) for file, text in files.items())
    return {file[len(start) :]: text for file, text in named if file == folder or file.startswith(start)}


def _empty_mounts(container: ManifestNode, pod: ManifestNode | None) -> tuple[list[str], list[str]]:
    """The paths at which volumes without folders are mounted, and those of them that may have files."""
    mounts = container.get("volumeMounts").value
    if pod is None or not isinstance(mounts, list):
        return [], []
    known = pod.reader.empty_volumes
    value, volumes = known.get(pod.pointer, (None, None))
    if volumes is None or value is not pod.value:
        volumes = empty_volumes(pod.value, _claimed(pod))
        known[pod.pointer] = (pod.value, volumes)
    name = container.get("name").value
    named = [mount for mount in mounts if isinstance(mount, dict) and isinstance(mount.get("name"), str)]
    empty = [mount for mount in named if volumes.is_empty(mount["name"], name)]
    files = [mount for mount in empty if mount["name"] in volumes.with_files]
    return mount_paths(empty, "mountPath"), mount_paths(files, "mountPath")


def _volume_paths(container: ManifestNode, pod: ManifestNode, draft: EngineDraft) -> VolumePaths:
    """The mounts of a container's volumes that its commands may write."""
    known = pod.reader.known_volumes.sources
    mounts = volume_mounts(container, _volumes(pod), _claimed(pod), lambda path: expand(path, draft, container), known)
    return VolumePaths(mounts, draft.env.get("HOME") or USER_HOME)


def _placers(container: ManifestNode, pod: ManifestNode) -> Iterator[Placer]:
    """The containers of a pod that may put programs into the volumes of one; all are read once."""
    known = pod.reader.placed_programs
    if pod.pointer not in known or known[pod.pointer][0] is not pod.value:
        known[pod.pointer] = (pod.value, placed_programs(pod.value))
    return known[pod.pointer][1].placers_beside(container.value)


def _claimed(pod: ManifestNode) -> frozenset[str]:
    """The volumes that the controller of a pod's template claims, as StatefulSet does; read once for all its pods."""
    template = pod.parent
    controller = None if template is None or template.parent is None else template.parent.value
    if not isinstance(controller, dict) or "volumeClaimTemplates" not in controller:
        return frozenset()
    known = pod.reader.claimed_volumes
    if id(controller) not in known:
        known[id(controller)] = (controller, claimed_volumes(controller))
    return known[id(controller)][1]


def _volumes(pod: ManifestNode) -> dict[str, ManifestNode]:
    """The volumes of a pod by name, collected once for all its containers."""
    known = pod.reader.volumes
    if pod.pointer not in known:
        named = ((volume.get("name").value, volume) for volume in pod.get("volumes").items())
        known[pod.pointer] = {name: volume for name, volume in named if isinstance(name, str)}
    return known[pod.pointer]


def _from_config_map(reference: ManifestNode) -> str | None:
    if reference.value is None:
        return None
    found = reference.reader.config_map(reference.get("name").text())
    return None if found is None else found.data.get(reference.get("key").text() or "")


def _is_skipped(reference: ManifestNode) -> bool:
    """Whether Kubernetes certainly skips a variable: it is optional, and its ConfigMap does not have the key."""
    if reference.value is None or reference.get("optional").value is not True:
        return False
    found = reference.reader.config_map(reference.get("name").text())
    return found is not None and found.is_exact and (reference.get("key").text() or "") not in found.data
