"""The services of a Compose file, with the fields of those that they extend in the same document.

Follows ``extends`` of the Compose Specification: ``command``, ``entrypoint`` and scalars are those of the nearest
service that has the field, even if it is null there; maps and lists are merged, base first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import Struct

from policy.intake.manifests.interpolation import substitute
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode


class ComposeService(Struct, frozen=True):
    """A service and those that it extends, the nearest first.

    ``is_complete``: whether this document has all of them.
    """

    layers: list[ManifestNode]
    is_complete: bool

    def nearest(self, name: str) -> ManifestNode:
        """The field of the nearest service that has it."""
        return next((layer for layer in self.layers if name in layer.value), self.layers[0]).get(name)

    def each(self, name: str) -> list[ManifestNode]:
        """The field of every service, base first, so that later ones replace earlier ones."""
        return [layer.get(name) for layer in reversed(self.layers)]

    def has(self, name: str) -> bool:
        """Whether any of the services has a value that is not empty for the field."""
        return any(node.value for node in self.each(name))


def read_service(services: ManifestNode, name: str) -> ComposeService | None:
    """A service with those that it extends; None, with a fault, if it cannot be read, and None if it is null.

    Fields that services share count as copied, which also bounds the length of chains.
    """
    layers: list[ManifestNode] = []
    seen: set[str] = set()
    following: str | None = name
    while following is not None:
        layer = services.get(following)
        if not layer.is_object():
            break
        if layers and not layer.reader.may_copy_values(layers[0], layer.value):
            return None
        layers.append(layer)
        seen.add(following)
        extends = layer.get("extends")
        if extends.value is None:
            break
        following = _extended(extends)
        if following is None:
            return None
        if _is_elsewhere(extends, following, services):
            return ComposeService(layers, is_complete=False)
        if following in seen:
            extends.fault(f"`extends` leads back to {quoted(following)}, which Compose refuses; remove one `extends`")
            return None
    return ComposeService(layers, is_complete=True) if layers else None


def _extended(extends: ManifestNode) -> str | None:
    """The name of the extended service; a missing one is a fault."""
    if isinstance(extends.value, str):
        return substitute(extends.value)
    if not extends.is_object():
        return None
    service = extends.get("service")
    name = service.text()
    if service.value is None:
        service.fault("expected the name of a service, such as `extends: {service: NAME}`")
    return None if name is None else substitute(name)


def _is_elsewhere(extends: ManifestNode, name: str, services: ManifestNode) -> bool:
    """Whether the extended service is not in this document."""
    has_file = isinstance(extends.value, dict) and extends.value.get("file") is not None
    return has_file or name not in services.value
