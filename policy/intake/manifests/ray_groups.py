"""The groups of a Ray cluster, with what KubeRay derives from their fields: the options of `ray start`, and variables.

Read at KubeRay's main branch, August 2026. KubeRay writes the options without quotes into a script of the container in
which Ray runs: those of `rayStartParams`, and those that it derives from `resources` and `labels`. Not here: the script
itself (`ray_commands`), and the head's address, which KubeRay writes into scripts of the workers (`ray_beside`).
"""

from __future__ import annotations

import json
import re
import sys
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.command.programs import starts_server
from policy.intake.manifests.pods import read_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

PLAIN_OPTIONS: Final = re.compile(r"(?:[^;&|<>()\n`$]++|\$(?:\w++|\{\w++\}))*+")
"""Matches options that neither end their command nor run another one.

A reference of Kubernetes (`$(NAME)`) may: its value is in the command before the shell reads it.
"""
START_PARAMS: Final = "rayStartParams"
BOOLEAN_OPTIONS: Final = frozenset({"log-color", "include-dashboard", "include-log-monitor"})
"""The options that are written with their value even if it is `true` or `false`; others are then set, or left out."""
RESOURCE_OPTIONS: Final = {"cpu": "num-cpus", "memory": "memory"}
"""The resources of a group, in lower case, for which Ray has an option; GPUs have one too."""
GPU: Final = re.compile(r"gpu\Z|nvidia\.com/mig-\d++g\.\d++gb\Z", re.ASCII)
NONZERO_QUANTITY: Final = re.compile(r"[^eE1-9]*+[1-9]")
"""Matches the beginning of a quantity that is not zero."""
ACCELERATORS: Final = {"aws.amazon.com/neuroncore": "neuron_cores", "google.com/tpu": "TPU"}
"""The limits of a container that KubeRay adds to the option `resources`, with Ray's names."""
STRIPPED_CHARACTERS: Final = "'\"` "
"""The characters that KubeRay removes at both ends of the option `resources` before it reads it as JSON."""
WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,18}", re.ASCII)
HTML_ESCAPES: Final = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})
"""How Go's JSON escapes these characters."""
NAMESPACE: Final = "RAY_external_storage_namespace"
PASSWORD: Final = "REDIS_PASSWORD"  # noqa: S105  # the name of a variable
STORAGE_VARIABLES: Final = {
    "externalStorageNamespace": NAMESPACE,
    "redisAddress": "RAY_REDIS_ADDRESS",
    "redisUsername": "REDIS_USERNAME",
    "redisPassword": PASSWORD,
}
"""The fields of a head that keeps its state, and the variables that KubeRay sets from them."""
ANNOTATION: Final = "ray.io/external-storage-namespace"


class RayGroup(Struct, frozen=True):
    """A group of a Ray cluster, with a template.

    ``options`` has the options of its `ray start` if a shell may read more than options in them. ``variables`` has the
    cluster's fields from which KubeRay sets variables of the first container if the container does not, by the names of
    the variables, and ``replaced`` the fields from which it sets them in any case.
    """

    node: ManifestNode
    options: str
    variables: dict[str, ManifestNode] = {}
    replaced: dict[str, ManifestNode] = {}
    is_head: bool = False

    def set_variables(self, draft: EngineDraft) -> None:
        """Set the variables that the first container gets from the cluster's fields."""
        for name, node in [*self.variables.items(), *self.replaced.items()]:
            if name in self.replaced or draft.env.get(name) is None:
                value = node.value if isinstance(node.value, dict) else {"value": node.text()}
                read_variable(node.with_value({**value, "name": name}), draft)


def ray_groups(cluster: ManifestNode, owner: ManifestNode | None) -> Iterator[RayGroup]:
    """The groups of a Ray cluster: the head's, then the workers'. The cluster has the annotations of its ``owner``."""
    head = cluster.get("headGroupSpec")
    yield RayGroup(head, _ray_options(head), *_variables(cluster, owner), is_head=True)
    for group in cluster.get("workerGroupSpecs").items():
        yield RayGroup(group, _ray_options(group))


def _variables(
    cluster: ManifestNode, owner: ManifestNode | None
) -> tuple[dict[str, ManifestNode], dict[str, ManifestNode]]:
    """The variables of a head that keeps its state: those that its container may set itself, and others."""
    storage = cluster.get("gcsFaultToleranceOptions")
    if storage.is_object():
        found = {
            name: storage.get(field)
            for field, name in STORAGE_VARIABLES.items()
            if storage.value.get(field) is not None
        }
        return {NAMESPACE: found.pop(NAMESPACE)} if NAMESPACE in found else {}, found
    annotations = owner.get("metadata", "annotations") if owner is not None else cluster
    named = {
        NAMESPACE: annotations.get(ANNOTATION),
        PASSWORD: cluster.get("headGroupSpec", START_PARAMS, "redis-password"),
    }
    return {name: node for name, node in named.items() if isinstance(node.value, str)}, {}


def _field(value: object, name: str) -> Any:
    return value.get(name) if isinstance(value, dict) else None


def _ray_options(group: ManifestNode) -> str:
    """The options of a group's `ray start` if a shell may read more than options in them; else empty.

    It may if they have a command of vLLM's server: the container's own command may define `ray` as a function.
    """
    params = _field(group.value, START_PARAMS)
    options = {str(name): str(value) for name, value in params.items()} if isinstance(params, dict) else {}
    options |= _of_resources(_field(group.value, "resources"))
    if isinstance(labels := _field(group.value, "labels"), dict) and labels:
        options["labels"] = ",".join(f"{name}={value}" for name, value in sorted(labels.items(), key=str))
    containers = _field(_field(_field(group.value, "template"), "spec"), "containers")
    first = containers[0] if isinstance(containers, list) and containers else None
    _add_accelerators(options, _field(_field(first, "resources"), "limits"))
    text = "".join(_option(name, value) for name, value in sorted(options.items()))
    return "" if PLAIN_OPTIONS.fullmatch(text) is not None and not starts_server(text) else text


def _option(name: str, value: str) -> str:
    """An option of `ray start` with its value, as KubeRay writes it."""
    if name in BOOLEAN_OPTIONS or value.lower() not in {"true", "false"}:
        return f" --{name}={value} "
    return f" --{name} " if value.lower() == "true" else ""


def _of_resources(resources: object) -> dict[str, str]:
    """The options that KubeRay makes from the resources of a group; a shell reads any of their numbers alike."""
    found: dict[str, str] = {}
    others: dict[str, int] = {}
    for name, quantity in resources.items() if isinstance(resources, dict) else ():
        shown, number = str(name).lower(), str(quantity)
        option = "num-gpus" if GPU.search(shown) is not None else RESOURCE_OPTIONS.get(shown)
        if option is None:
            others[str(name)] = int(number) if WHOLE_NUMBER.fullmatch(number) is not None else 1
        else:
            found[option] = number if WHOLE_NUMBER.fullmatch(number) is not None else "1"
    return {**found, "resources": _quoted(others)} if others else found


def _add_accelerators(options: dict[str, str], limits: object) -> None:
    """Add the first accelerator among the limits of a container to the option `resources`, which is written anew.

    KubeRay reads the option as JSON then, so that escapes in it become the characters that they stand for.
    """
    if not isinstance(limits, dict):
        return
    added = next(
        (ACCELERATORS[name] for name in ACCELERATORS if NONZERO_QUANTITY.match(str(limits.get(name, "")))), None
    )
    if added is None:
        return
    try:
        resources = json.loads(options.get("resources", "{}").strip(STRIPPED_CHARACTERS), parse_constant=_refuse)
    except (ValueError, RecursionError):
        return
    if not isinstance(resources, dict) or resources.keys() & set(ACCELERATORS.values()):
        return
    if all(map(_is_number, resources.values())):
        options["resources"] = _quoted({**resources, added: 1})


def _refuse(constant: str) -> float:
    raise ValueError(constant)


def _is_number(value: object) -> bool:
    """Whether Go reads a value of JSON as a number; null counts as zero."""
    return value is None or (
        isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max
    )


def _quoted(resources: dict[str, Any]) -> str:
    """Resources as KubeRay writes them: JSON between single quotes, which a key may end."""
    text = json.dumps(resources, separators=(",", ":"), sort_keys=True, ensure_ascii=False)
    return f"'{text.translate(HTML_ESCAPES)}'"
