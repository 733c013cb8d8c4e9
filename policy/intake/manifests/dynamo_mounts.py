"""The mounts that Dynamo's operator adds to a frontend beside the main container of a component.

Read at the main branch, November 2026: the frontend gets the mounts of the main container, except of volumes that it
mounts itself. So it may write what the main container reads.
"""

from __future__ import annotations

from typing import Any, Final

from policy.intake.manifests.dynamo_defaults import MAIN

SIDECAR: Final = "sidecar-frontend"
"""The name of the container that the operator makes from a service's ``frontendSidecar``."""


def service_containers(service: Any, pod: Any) -> list[dict[str, Any]]:
    """The containers of a service's pod that are not in the ``containers`` of its spec."""
    main = _field(pod, "mainContainer")
    found = [{**main, "name": MAIN}] if isinstance(main, dict) else []
    if isinstance(_field(service, "frontendSidecar"), dict):
        found.append(with_mounts_of({"name": SIDECAR}, main))
    return found


def component_containers(component: Any, pod: Any) -> list[dict[str, Any]]:
    """The container of a component's pod to which the operator adds mounts, with these mounts; empty if none is."""
    name = _field(component, "frontendSidecar")
    containers = _field(pod, "containers")
    named = {
        each["name"]: each
        for each in (containers if isinstance(containers, list) else ())
        if isinstance(_field(each, "name"), str)
    }
    if not isinstance(name, str) or name == MAIN or name not in named:
        return []
    return [with_mounts_of(named[name], named.get(MAIN))]


def with_mounts_of(container: dict[str, Any], main: Any) -> dict[str, Any]:
    """A container with the mounts of the main one as well, unless its own are invalid."""
    own, given = container.get("volumeMounts") or [], _field(main, "volumeMounts")
    if not isinstance(own, list) or not isinstance(given, list):
        return container
    names = {name for mount in own if isinstance(name := _field(mount, "name"), str)}
    added = [mount for mount in given if isinstance(name := _field(mount, "name"), str) and name not in names]
    return {**container, "volumeMounts": [*own, *added]}


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
