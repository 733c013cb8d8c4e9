"""Values of the Helm chart app-template and its library (bjw-s, read at 5.0, 2026): ``controllers.*.containers.*``.

The templates print a container's fields as they are: a command or argument that is a text is one word, and variables
are a mapping or a list. A controller's ``defaultContainerOptions`` apply where a container leaves a field empty.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.chart_images import image_of, is_image
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.intake.manifests.pods import add_server_problem, may_start_server

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

CONTROLLERS: Final = "controllers"
INIT_CONTAINERS: Final = "initContainers"
DEFAULTS: Final = "defaultContainerOptions"
HIDDEN_VARIABLES: Final = "`envFrom` takes variables from objects that the values do not show"
UNREAD_MERGE: Final = (
    "`defaultContainerOptionsStrategy: merge` is not read; send the rendered manifest: "
    "`helm template … -f FILE | runner-policy decide -`"
)


def is_values(values: dict[str, Any]) -> bool:
    """Whether a mapping has the chart's controllers."""
    controllers = values.get(CONTROLLERS)
    return isinstance(controllers, dict) and any(map(_has_image, controllers.values()))


def _has_image(controller: object) -> bool:
    """Whether a controller has containers with an image."""
    if not isinstance(controller, dict) or not isinstance(controller.get("containers"), dict):
        return False
    options = (controller.get(DEFAULTS), *controller["containers"].values())
    return any(isinstance(each, dict) and is_image(each.get("image")) for each in options)


def read_values(values: ManifestNode) -> None:
    """Read the engines among the containers of the enabled controllers."""
    persistence = values.get("persistence")
    items = [each for _, each in persistence.fields()]
    for name, controller in values.get(CONTROLLERS).fields():
        if not _is_enabled(controller):
            continue
        for container in _containers(controller):
            shared = controller.get(DEFAULTS).value
            if not _is_enabled(container) or not values.reader.may_copy_values(container, persistence.value, shared):
                continue
            if _is_passing(container):
                if may_start_server(values.reader, partial(_read_container, container, controller)):
                    add_server_problem(container, INIT_CONTAINERS)
                continue
            draft = _read_container(container, controller)
            draft.mounts = Mounts(_mounts(items, name, str(container.key)))
            if draft.problem or draft.starts_vllm():
                draft.finish()


def _is_enabled(node: ManifestNode) -> bool:
    return isinstance(node.value, dict) and node.value.get("enabled") is not False


def _containers(controller: ManifestNode) -> Iterator[ManifestNode]:
    for field in ("containers", INIT_CONTAINERS):
        yield from (container for _, container in controller.get(field).fields())


def _is_passing(container: ManifestNode) -> bool:
    """Whether a container runs before the others, and not beside them."""
    is_init = container.parent is not None and container.parent.key == INIT_CONTAINERS
    return is_init and container.value.get("restartPolicy") != "Always"


def _read_container(container: ManifestNode, controller: ManifestNode) -> EngineDraft:
    def field(name: str) -> ManifestNode:
        own = container.get(name)
        return own if own.value or own.value is False else controller.get(DEFAULTS, name)

    draft = EngineDraft(container)
    draft.image = image_of(field("image").value)
    _add_words(draft, field("command"), "command")
    draft.has_command = bool(draft.words)
    _add_words(draft, field("args"), "args")
    _add_variables(draft, field("env"))
    if field("envFrom").value:
        draft.has_hidden_variables = True
        draft.note(HIDDEN_VARIABLES)
    draft.folder = field("workingDir").text() or ""
    is_merged = controller.get("defaultContainerOptionsStrategy").value == "merge" and controller.get(DEFAULTS).value
    if is_merged and draft.starts_vllm():
        draft.problem = UNREAD_MERGE
    return draft


def _add_words(draft: EngineDraft, words: ManifestNode, name: str) -> None:
    if isinstance(words.value, str):
        draft.add(name, words.value)
    else:
        draft.add_list(words, name)


def _add_variables(draft: EngineDraft, env: ManifestNode) -> None:
    """Add variables from a mapping, or from a list of mappings with a ``name``; one without ``value`` is not known."""
    if isinstance(env.value, list):
        named = [(item.get("name").text() or "", item) for item in env.items()]
    else:
        named = env.fields()
    for name, item in named:
        if isinstance(item.value, dict):
            value = item.get("value")
            draft.env[name] = None if "value" not in item.value else value.scalar() or ""
        else:
            draft.env[name] = item.scalar() or ""


def _mounts(persistence: list[ManifestNode], controller: str, container: str) -> Iterator[str]:
    """The paths at which persistent items are mounted in a container; `/NAME` for one without mounts."""
    for item in persistence:
        if not _is_enabled(item):
            continue
        everywhere, some = item.value.get("globalMounts"), item.value.get("advancedMounts")
        if not everywhere and not some:
            yield f"/{item.key}"
        yield from mount_paths(everywhere, "path")
        own = some.get(controller) if isinstance(some, dict) else None
        yield from mount_paths(own.get(container) if isinstance(own, dict) else None, "path")
