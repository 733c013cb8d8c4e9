"""A node of a manifest: its value, its path as users write it, and its JSON pointer.

Reads documents of any content. An absent value is null, and a value of a type that the manifest's own project does not
accept is a fault, reported once at its place. The adapters define what the values mean.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.masking import is_secret
from policy.messages import quoted
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.intake.command_line import Container

MAX_CONTAINERS: Final = 1024
MAX_DOCUMENTS: Final = 10_000
MAX_COPIED: Final = 1_000_000
PER_ENTRY: Final = 64


class TooManyFaults(RequestInvalid):
    """The maximum number of faults is reached; the rest of the document is not read."""


class ConfigMap(Struct, frozen=True):
    """The data of a ConfigMap of the manifest; a value that is not a string, which Kubernetes refuses, is None.

    ``is_exact`` says that its namespace is the referring object's, so that the reference cannot lead to another one.
    """

    data: dict[str, str | None]
    is_exact: bool


class ServingRuntime(Struct, frozen=True):
    """A runtime of KServe: the container that a predictor's model is merged into, and the runtime's ``workerSpec``."""

    container: ManifestNode
    workers: ManifestNode


class ManifestReader:
    """The results of one manifest so far: engines, faults, and the ConfigMaps and ServingRuntimes in it."""

    def __init__(self, faults: list[RequestFault]) -> None:
        self.faults = faults
        self.containers: list[Container] = []
        self.documents = 0
        self.copied = 0
        self.namespace: str | None = None
        """The namespace of the object that is being read; None if the object does not state one."""
        self.runtimes: dict[str, ServingRuntime] = {}
        self.volumes: dict[str, dict[str, ManifestNode]] = {}
        self._config_maps: dict[str, dict[str | None, dict[str, str | None] | None]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._bounds: set[str] = set()

    def fault(self, pointer: str, message: str) -> None:
        """Add a fault, unless it is there already.

        Raises:
            TooManyFaults: it is the last one that is shown.
        """
        if (pointer, message) not in self._seen:
            self._seen.add((pointer, message))
            self.faults.append(RequestFault(pointer, message))
            if len(self._seen) == MAX_FAULTS:
                raise TooManyFaults(self.faults)

    def fault_once(self, node: ManifestNode, message: str) -> None:
        """Add a fault when a limit is exceeded for the first time."""
        if message not in self._bounds:
            self._bounds.add(message)
            node.fault(message)

    def add_config_map(self, namespace: str | None, name: str, data: dict[str, str | None]) -> None:
        """Add a ConfigMap of the manifest. If there are two that differ, its data are not known."""
        same_name = self._config_maps.setdefault(name, {})
        same_name[namespace] = data if same_name.get(namespace, data) == data else None

    def config_map(self, name: str | None) -> ConfigMap | None:
        """The ConfigMap that the object being read refers to; None if the manifest does not show its data.

        An object without a namespace gets the one that it is applied to, which may be any.
        """
        same_name = self._config_maps.get(name or "", {})
        namespace = self.namespace
        if namespace is None and len(same_name) == 1:
            (namespace,) = same_name
        elif namespace not in same_name:
            namespace = None
        data = same_name.get(namespace)
        is_exact = namespace == self.namespace and (None not in same_name or len(same_name) == 1)
        return None if data is None else ConfigMap(data, is_exact)

    def affords(self, size: int, node: ManifestNode) -> bool:
        """Whether ``size`` more characters may be copied; the limit keeps a short manifest from growing endlessly."""
        self.copied += size
        if self.copied > MAX_COPIED:
            self.fault_once(
                node,
                f"variables and files that refer to others grow beyond {MAX_COPIED} characters; write fewer at a time",
            )
        return self.copied <= MAX_COPIED

    def affords_copy(self, node: ManifestNode, *values: object) -> bool:
        """Whether texts, lists and maps that several engines share may be copied; each engine reads them again."""
        return self.affords(0, node) and self.affords(sum(map(_size, values)), node)

    def add(self, container: Container, node: ManifestNode) -> None:
        """Add an engine; beyond 1,024 there is a fault instead."""
        if len(self.containers) < MAX_CONTAINERS:
            self.containers.append(container)
        else:
            self.fault_once(node, f"more than {MAX_CONTAINERS} vLLM containers; give fewer at a time")


def _size(value: object) -> int:
    """The approximate size of a value in characters."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(PER_ENTRY + len(key) + _size(item) for key, item in value.items())
    return sum(PER_ENTRY + _size(item) for item in value) if isinstance(value, list) else 0


class ManifestNode:
    """A value of the manifest and its place: ``key`` of ``parent``, or the root, with its path and pointer.

    ``within`` says that the value was parsed from a text in the manifest, so that everything below has the text's
    pointer. Paths and pointers are made on demand: they repeat the names above, which can be long.
    """

    __slots__ = ("key", "parent", "reading", "root", "value", "within")

    def __init__(
        self, reading: ManifestReader, value: Any, path: str = "", pointer: str = "", *, within: bool = False
    ) -> None:
        self.reading = reading
        self.value = value
        self.root = path, pointer
        self.within = within
        self.parent: ManifestNode | None = None
        self.key: str | int = ""

    @property
    def path(self) -> str:
        """The path as users write it, such as ``items[3].spec``."""
        found = ""
        for node in self._ancestry():
            if node.parent is None:
                found = node.root[0]
            elif isinstance(node.key, int):
                found += f"[{node.key}]"
            else:
                found = f"{found}.{node.key}" if found else node.key
        return found

    @property
    def pointer(self) -> str:
        """The JSON pointer."""
        found = ""
        for node in self._ancestry():
            if node.parent is None:
                found = node.root[1]
            elif not self.within:
                found = at(found, node.key)
        return found

    def _ancestry(self) -> list[ManifestNode]:
        """The nodes from the root to this one."""
        nodes = []
        node: ManifestNode | None = self
        while node is not None:
            nodes.append(node)
            node = node.parent
        return nodes[::-1]

    def shown(self) -> str:
        """The value for a message, unless it may be a secret."""
        return "a value that is not shown" if self._is_secret() else quoted(self.value)

    def _is_secret(self) -> bool:
        above = None if self.parent is None else self.parent.value
        if isinstance(self.key, int):
            named = above[self.key - 1] if self.key and isinstance(above, list) else ""
        else:
            named = above.get("name") if self.key == "value" and isinstance(above, dict) else self.key
        return isinstance(named, str) and is_secret(named)

    def fault(self, message: str) -> None:
        """Add a fault at this node."""
        self.reading.fault(self.pointer, message)

    def get(self, *keys: str) -> ManifestNode:
        """The node under nested keys; null if there is none. A parent that is not an object is a fault."""
        node = self
        for key in keys:
            value = node.value.get(key) if node.is_object() else None
            node = node._below(key, value)
        return node

    def fields(self) -> list[tuple[str, ManifestNode]]:
        """The fields of an object by name; none if it is null."""
        return (
            [(key, self._below(key, value)) for key, value in self.value.items() if isinstance(key, str)]
            if self.is_object()
            else []
        )

    def items(self) -> list[ManifestNode]:
        """The items of a list; none if it is null. Anything else is a fault."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fault(f"expected a list, got {self.shown()}")
            return []
        return [self._below(place, value) for place, value in enumerate(self.value)]

    def below(self, keys: Iterable[str | int]) -> ManifestNode:
        """The node under existing keys and positions."""
        node = self
        for key in keys:
            node = node._below(key, node.value[key])
        return node

    def is_object(self) -> bool:
        """Whether this is an object; anything else but null is a fault."""
        if isinstance(self.value, dict):
            return True
        if self.value is not None:
            self.fault(f"expected an object, got {self.shown()}")
        return False

    def text(self) -> str | None:
        """A text, or None if it is null.

        A number or boolean is a fault: Kubernetes refuses it, or reads another text than was written.
        """
        if isinstance(self.value, str) or self.value is None:
            return self.value
        self.fault(f"expected a string in quotes, got {self.shown()}")
        return None

    def scalar(self) -> str | None:
        """The text that a Helm chart renders for a text, a number or a boolean; None if it is null.

        A list or object is a fault.
        """
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, dict | list):
            self.fault(f"expected a string, a number, `true` or `false`, got {self.shown()}")
            return None
        return None if self.value is None else str(self.value)

    def flag(self, *, default: bool = False) -> bool:
        """A boolean, or ``default`` if it is null. Anything else is a fault."""
        if self.value is None or isinstance(self.value, bool):
            return default if self.value is None else self.value
        self.fault(f"expected `true` or `false`, got {self.shown()}")
        return default

    def count(self) -> int | None:
        """A whole number, or None if it is null. Anything else is a fault."""
        if self.value is None or (isinstance(self.value, int) and not isinstance(self.value, bool)):
            return self.value
        self.fault(f"expected a whole number, got {self.shown()}")
        return None

    def _below(self, key: str | int, value: Any) -> ManifestNode:
        node = ManifestNode(self.reading, value, within=self.within)
        node.parent, node.key = self, key
        return node
