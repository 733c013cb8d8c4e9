"""A place in a manifest: its value, its path as users write it, its JSON pointer.

Owns walking a document that may hold anything: what is absent is null, and what is of another type than the project that reads it
takes is noted as a fault, once, where it stands. What the values mean is the adapters' business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.masking import is_secret
from policy.messages import quoted
from policy.pointer import at

if TYPE_CHECKING:
    from policy.intake.command_line import Container

MAX_CONTAINERS: Final = 1024
MAX_DOCUMENTS: Final = 10_000
MAX_COPIED: Final = 1_000_000
PER_ENTRY: Final = 64


class TooManyFaults(RequestInvalid):
    """As many faults are noted as are shown; nothing more of the document is read."""


class ManifestReader:
    """What one manifest gave so far: engines, faults, and the ConfigMaps and ServingRuntimes that stand beside."""

    def __init__(self, faults: list[RequestFault]) -> None:
        self.faults = faults
        self.containers: list[Container] = []
        self.documents = 0
        self.copied = 0
        self.config_maps: dict[str, dict[str, str]] = {}
        self.runtimes: dict[str, ManifestNode] = {}
        self.volumes: dict[str, dict[str, ManifestNode]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._bounds: set[str] = set()

    def fault(self, pointer: str, message: str) -> None:
        """Note a fault, unless it is noted already.

        Raises:
            TooManyFaults: it is the last one that is shown.
        """
        if (pointer, message) not in self._seen:
            self._seen.add((pointer, message))
            self.faults.append(RequestFault(pointer, message))
            if len(self._seen) == MAX_FAULTS:
                raise TooManyFaults(self.faults)

    def fault_once(self, node: ManifestNode, message: str) -> None:
        """Note a fault where a bound is passed for the first time."""
        if message not in self._bounds:
            self._bounds.add(message)
            node.fault(message)

    def affords(self, size: int, node: ManifestNode) -> bool:
        """Whether so much more text may be copied from one place of the manifest to another: a short manifest must not grow without end."""
        self.copied += size
        if self.copied > MAX_COPIED:
            self.fault_once(
                node,
                f"variables and files that refer to others grow beyond {MAX_COPIED} characters; write fewer at a time",
            )
        return self.copied <= MAX_COPIED

    def affords_copy(self, node: ManifestNode, *values: object) -> bool:
        """The same for texts, lists and maps that several engines share: each of them is read again for each engine."""
        return self.affords(0, node) and self.affords(sum(map(_size, values)), node)

    def add(self, container: Container, node: ManifestNode) -> None:
        """Take one more engine; beyond 1,024 there is a fault instead."""
        if len(self.containers) < MAX_CONTAINERS:
            self.containers.append(container)
        else:
            self.fault_once(node, f"more than {MAX_CONTAINERS} vLLM containers; send fewer at a time")


def _size(value: object) -> int:
    """About how many characters a value has."""
    if isinstance(value, str):
        return len(value)
    if isinstance(value, dict):
        return sum(PER_ENTRY + len(key) + _size(item) for key, item in value.items())
    return sum(PER_ENTRY + _size(item) for item in value) if isinstance(value, list) else 0


class ManifestNode:
    """A value of the manifest and where it stands: ``key`` of ``parent``, or the root, with a path and a pointer of its own.

    ``within`` says that the value was read from a text in the manifest, so that the pointer is the text's for all below. Paths and pointers are made
    where they are asked for: they repeat the names above, which can be long.
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
        """The place as users write it, such as ``items[3].spec``."""
        found = ""
        for node in self._way():
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
        for node in self._way():
            if node.parent is None:
                found = node.root[1]
            elif not self.within:
                found = at(found, node.key)
        return found

    def _way(self) -> list[ManifestNode]:
        """From the root to here."""
        way = []
        node: ManifestNode | None = self
        while node is not None:
            way.append(node)
            node = node.parent
        return way[::-1]

    def shown(self) -> str:
        """The value for a message, unless it may be a secret."""
        return "the value" if self._is_secret() else quoted(self.value)

    def _is_secret(self) -> bool:
        above = None if self.parent is None else self.parent.value
        if isinstance(self.key, int):
            named = above[self.key - 1] if self.key and isinstance(above, list) else ""
        else:
            named = above.get("name") if self.key == "value" and isinstance(above, dict) else self.key
        return isinstance(named, str) and is_secret(named)

    def fault(self, message: str) -> None:
        """Note a fault here."""
        self.reading.fault(self.pointer, message)

    def get(self, *keys: str) -> ManifestNode:
        """What stands under the keys, one below the other; null where nothing does. A parent that is no object is a fault."""
        node = self
        for key in keys:
            value = node.value.get(key) if node.is_object() else None
            node = node._below(key, value)
        return node

    def members(self) -> list[tuple[str, ManifestNode]]:
        """The members of an object by name; none where it is null."""
        return (
            [(key, self._below(key, value)) for key, value in self.value.items() if isinstance(key, str)]
            if self.is_object()
            else []
        )

    def items(self) -> list[ManifestNode]:
        """The items of a list; none where it is null. Anything else is a fault."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fault(f"{self.shown()} is no list; write a list here")
            return []
        return [self._below(place, value) for place, value in enumerate(self.value)]

    def is_object(self) -> bool:
        """Whether this is an object; anything else but null is a fault."""
        if isinstance(self.value, dict):
            return True
        if self.value is not None:
            self.fault(f"{self.shown()} is no object; write a map of members here")
        return False

    def text(self) -> str | None:
        """A text, or nothing where it is null. A number or boolean is a fault: Kubernetes refuses it, or means another text than was written."""
        if isinstance(self.value, str) or self.value is None:
            return self.value
        self.fault(f"{self.shown()} is no text; put it in quotes")
        return None

    def scalar(self) -> str | None:
        """The text that a Helm chart makes of a text, a number or a boolean; nothing where it is null. A list or object is a fault."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, dict | list):
            self.fault(f"{self.shown()} is no single value; write a text, a number, `true` or `false`")
            return None
        return None if self.value is None else str(self.value)

    def flag(self, *, default: bool = False) -> bool:
        """A boolean, or ``default`` where it is null. Anything else is a fault."""
        if self.value is None or isinstance(self.value, bool):
            return default if self.value is None else self.value
        self.fault(f"{self.shown()} is neither `true` nor `false`")
        return default

    def count(self) -> int | None:
        """A whole number, or nothing where it is null. Anything else is a fault."""
        if self.value is None or (isinstance(self.value, int) and not isinstance(self.value, bool)):
            return self.value
        self.fault(f"{self.shown()} is no whole number")
        return None

    def _below(self, key: str | int, value: Any) -> ManifestNode:
        node = ManifestNode(self.reading, value, within=self.within)
        node.parent, node.key = self, key
        return node
