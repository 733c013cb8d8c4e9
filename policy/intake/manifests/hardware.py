"""The hardware that a manifest asks for: resources, node labels, tolerations, container runtimes and devices.

Finds each sign of a platform with its place, by ``hardware_tables``. Which sign counts is decided in
``policy.request.platform``. A value that Kubernetes refuses is neither a sign nor a fault here.
"""

from __future__ import annotations

import re
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command_line import HardwareSign, Strength
from policy.intake.manifests.hardware_tables import (
    ACCELERATORS,
    DEVICES,
    DRIVERS,
    GRAPHICS,
    LABEL_VALUES,
    LABELS,
    NEGATIVE_VALUES,
    PROFILES,
    RESOURCES,
    RUNTIMES,
    platform_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.intake.manifests.reading import ManifestNode

MAX_READ: Final = 256
"""The maximum number of entries of each list that is searched."""
MAX_SIGNS: Final = 16
NUMBER: Final = re.compile(r"[0-9]{1,4}", re.ASCII)
MAX_GPUS: Final = 9999
MAX_NAME: Final = 317
"""The maximum length of a qualified name in Kubernetes, with its prefix."""
ZERO: Final = re.compile(r"[+-]?0{1,64}(?:\.0{0,64})?")
NVIDIA: Final = "nvidia.com/gpu"
REQUIRED_AFFINITY: Final = "requiredDuringSchedulingIgnoredDuringExecution"


def container_signs(container: ManifestNode) -> Iterator[HardwareSign]:
    """The signs in a container's resources."""
    for part in ("limits", "requests"):
        for name, quantity in _fields(_at(container.value, "resources", part)):
            found = resource_sign(name, quantity, f"resources.{part}")
            if found is not None:
                yield found


def gpu_count(container: ManifestNode) -> int:
    """The number of NVIDIA GPUs in a container's limits, or else in its requests; 0 if it is not a whole number."""
    for part in ("limits", "requests"):
        quantity = _at(container.value, "resources", part, NVIDIA)
        if isinstance(quantity, str):
            return int(quantity) if NUMBER.fullmatch(quantity) else 0
        if isinstance(quantity, int) and not isinstance(quantity, bool):
            return quantity if 0 <= quantity <= MAX_GPUS else 0
    return 0


def resource_sign(name: str, quantity: object, place: str) -> HardwareSign | None:
    """The sign that a resource gives; None if it shows no hardware, or its quantity is zero."""
    platform = platform_of(name, RESOURCES)
    if platform is None or not isinstance(quantity, str | int | float) or _is_zero(quantity):
        return None
    return HardwareSign(platform, f"{place}.{name}", Strength.DEVICE)


def _is_zero(quantity: str | float) -> bool:
    return ZERO.fullmatch(quantity[:MAX_NAME]) is not None if isinstance(quantity, str) else not quantity


def pod_signs(pod: ManifestNode) -> list[HardwareSign]:
    """The signs in a pod's spec, found once for all its containers: its runtime, its nodes, and what it tolerates."""
    known = pod.reader.hardware
    if pod.pointer not in known:
        known[pod.pointer] = list(islice(_pod_signs(pod.value), MAX_SIGNS))
    return known[pod.pointer]


def _pod_signs(spec: object) -> Iterator[HardwareSign]:
    yield from runtime_signs(_at(spec, "runtimeClassName"), "runtimeClassName")
    yield from node_signs(_at(spec, "nodeSelector"), "nodeSelector")
    yield from affinity_signs(_at(spec, "affinity", "nodeAffinity", REQUIRED_AFFINITY, "nodeSelectorTerms"), "affinity")
    for item in _items(_at(spec, "tolerations")):
        key = _at(item, "key")
        platform = platform_of(key, RESOURCES) if _is_name(key) else None
        if platform is not None:
            yield HardwareSign(platform, f"tolerations.{key}", Strength.TOLERATION)


def runtime_signs(name: object, place: str) -> Iterator[HardwareSign]:
    """The sign that a container runtime gives, if any."""
    if isinstance(name, str) and name in RUNTIMES:
        yield HardwareSign(RUNTIMES[name], place, Strength.DEVICE)


def node_signs(selector: object, place: str) -> Iterator[HardwareSign]:
    """The signs in the labels that a node must have."""
    for key, value in _fields(selector):
        platform = _label_platform(key, [value])
        if platform is not None:
            yield HardwareSign(platform, f"{place}.{key}", Strength.NODE)


def affinity_signs(terms: object, place: str) -> list[HardwareSign]:
    """The signs in the terms of a node affinity; as any term is enough, a platform counts only if all show it."""
    if not isinstance(terms, list) or len(terms) > MAX_READ:
        return []
    found = [list(_term_signs(term, place)) for term in terms]
    shared = set[str].intersection(*({sign.platform for sign in signs} for signs in found)) if found else set()
    return [sign for signs in found for sign in signs if sign.platform in shared]


def _term_signs(term: object, place: str) -> Iterator[HardwareSign]:
    """The signs in the expressions of a term, all of which must hold."""
    for expression in _items(_at(term, "matchExpressions")):
        key, operator = _at(expression, "key"), _at(expression, "operator")
        if not _is_name(key) or operator not in ("In", "Exists"):
            continue
        platform = _label_platform(key, _at(expression, "values") if operator == "In" else [])
        if platform is not None:
            yield HardwareSign(platform, f"{place}.{key}", Strength.NODE)


def device_signs(paths: Iterable[object], place: str) -> Iterator[HardwareSign]:
    """The signs in the devices of a container: device files, or CDI names such as `nvidia.com/gpu=all`."""
    names = [path for path in paths if isinstance(path, str)][:MAX_READ]
    found = [platform_of(name, DEVICES) or (platform_of(name, RESOURCES) if "=" in name else None) for name in names]
    if not any(found) and any(name.startswith(GRAPHICS) for name in names):
        found.append("xpu")
    for platform in dict.fromkeys(found):
        if platform is not None:
            yield HardwareSign(platform, place, Strength.DEVICE)


def reserved_signs(devices: object, place: str) -> Iterator[HardwareSign]:
    """The signs in devices that Compose reserves; a GPU without a driver is Docker's default, NVIDIA's."""
    for item in [{}] if devices == "all" else _items(devices):
        driver, capabilities = _at(item, "driver"), _items(_at(item, "capabilities"))
        if isinstance(driver, str) and driver in DRIVERS:
            yield HardwareSign(DRIVERS[driver], place, Strength.DEVICE)
        elif driver == "cdi":
            yield from device_signs(_items(_at(item, "device_ids")), place)
        elif not driver and (place == "gpus" or "gpu" in capabilities or "nvidia" in capabilities):
            yield HardwareSign("cuda", place, Strength.DEVICE)


def accelerator_signs(names: Iterable[object], place: str) -> Iterator[HardwareSign]:
    """The signs in the names of accelerators, any of which may be chosen."""
    for name in names:
        platform = platform_of(name[:MAX_NAME], ACCELERATORS) if isinstance(name, str) else None
        if platform is not None:
            yield HardwareSign(platform, place, Strength.DEVICE)


def resources_signs(resources: object) -> Iterator[HardwareSign]:
    """The signs in SkyPilot's resources: their accelerators, and those of each alternative."""
    for place in ("", "any_of", "ordered"):
        for each in _items(_at(resources, place)) if place else [resources]:
            accelerators = _at(each, "accelerators")
            names = list(accelerators) if isinstance(accelerators, dict | list) else [accelerators]
            yield from accelerator_signs(names[:MAX_READ], f"resources.{place + '.' if place else ''}accelerators")


def gpu_sign(count: object, resource: object, place: str) -> Iterator[HardwareSign]:
    """The sign of a number of GPUs; ``resource`` is the name of their resource, NVIDIA's if there is none."""
    name = resource if _is_name(resource) and resource else NVIDIA
    platform = platform_of(str(name), RESOURCES)
    if platform is not None and isinstance(count, str | int | float) and not ZERO.fullmatch(str(count)[:MAX_NAME]):
        yield HardwareSign(platform, place, Strength.DEVICE)


def component_signs(resources: object) -> Iterator[HardwareSign]:
    """The signs in the resources of a component of Dynamo: a number of GPUs, and resources by their own names."""
    for part in ("limits", "requests"):
        own = _at(resources, part)
        yield from gpu_sign(_at(own, "gpu"), _at(own, "gpuType"), f"resources.{part}.gpu")
        for name, quantity in _fields(_at(own, "custom")):
            found = resource_sign(name, quantity, f"resources.{part}.custom")
            if found is not None:
                yield found


def profile_signs(profile: object, place: str) -> Iterator[HardwareSign]:
    """The sign that a hardware profile gives in the values of KubeAI's and llm-d's charts, if any."""
    platform = platform_of(profile[:MAX_NAME], PROFILES) if isinstance(profile, str) else None
    if platform is not None:
        yield HardwareSign(platform, place, Strength.DEVICE)


def _label_platform(key: str, values: object) -> str | None:
    """The platform of nodes with a label of one of these values; None if its key or its values do not show it."""
    if not isinstance(values, list) or len(values) > MAX_READ:
        return None
    texts = [str(value)[:MAX_NAME].lower() for value in values if isinstance(value, str | bool)]
    if key in LABEL_VALUES:
        found = {platform_of(text, LABEL_VALUES[key]) for text in texts}
        return found.pop() if len(found) == 1 else None
    if any(text in NEGATIVE_VALUES for text in texts):
        return None
    return platform_of(key, LABELS)


def _at(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _fields(value: object) -> list[tuple[str, Any]]:
    if not isinstance(value, dict):
        return []
    return [(key, item) for key, item in list(value.items())[:MAX_READ] if _is_name(key)]


def _items(value: object) -> list[Any]:
    return value[:MAX_READ] if isinstance(value, list) else []


def _is_name(key: object) -> bool:
    return isinstance(key, str) and len(key) <= MAX_NAME
