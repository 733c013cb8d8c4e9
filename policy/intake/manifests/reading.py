"""A place in a manifest: its value, its path as users write it, its JSON pointer.

Owns walking a document that may hold anything: what is absent is null, and what is of another type than the project that reads it
takes is noted as a fault, once, where it stands. What the values mean is the adapters' business.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import MAX_FAULTS, Misfit, at, quoted

if TYPE_CHECKING:
    from policy.intake.commandline import Container

MAX_CONTAINERS: Final = 1024
MAX_DOCUMENTS: Final = 10_000
MAX_COPIED: Final = 1_000_000
PER_ENTRY: Final = 16


class Reading:
    """What one manifest gave so far: engines, faults, and the ConfigMaps and ServingRuntimes that stand beside."""

    def __init__(self, faults: list[Misfit]) -> None:
        self.faults = faults
        self.containers: list[Container] = []
        self.documents = 0
        self.copied = 0
        self.config_maps: dict[str, dict[str, str]] = {}
        self.runtimes: dict[str, Node] = {}
        self.volumes: dict[str, dict[str, Node]] = {}
        self._seen: set[tuple[str, str]] = set()
        self._bounds: set[str] = set()

    def fault(self, pointer: str, message: str) -> None:
        """Note a fault, unless it is noted already or there are enough of them."""
        if (pointer, message) not in self._seen and len(self._seen) < MAX_FAULTS:
            self._seen.add((pointer, message))
            self.faults.append(Misfit(pointer, message))

    def fault_once(self, pointer: str, message: str) -> None:
        """Note a fault where a bound is passed for the first time."""
        if message not in self._bounds:
            self._bounds.add(message)
            self.fault(pointer, message)

    def affords(self, size: int, pointer: str) -> bool:
        """Whether so much more text may be copied from one place of the manifest to another: a short manifest must not grow without end."""
        self.copied += size
        if self.copied > MAX_COPIED:
            self.fault_once(pointer, f"variables and files that refer to others grow beyond {MAX_COPIED} characters; write fewer at a time")
        return self.copied <= MAX_COPIED

    def affords_entries(self, pointer: str, *entries: object) -> bool:
        """The same for lists and maps that are copied, by their number of entries."""
        return self.affords(PER_ENTRY * sum(len(each) for each in entries if isinstance(each, list | dict)), pointer)

    def add(self, container: Container, pointer: str) -> None:
        """Take one more engine; beyond 1,024 there is a fault instead."""
        if len(self.containers) < MAX_CONTAINERS:
            self.containers.append(container)
        else:
            self.fault_once(pointer, f"more than {MAX_CONTAINERS} vLLM containers; send fewer at a time")


class Node:
    """A value of the manifest and where it stands.

    ``within`` says that the value was read from a text in the manifest, so that the pointer is the text's for all below.
    """

    __slots__ = ("path", "pointer", "reading", "value", "within")

    def __init__(self, reading: Reading, value: Any, path: str = "", pointer: str = "", *, within: bool = False) -> None:
        self.reading = reading
        self.value = value
        self.path = path
        self.pointer = pointer
        self.within = within

    def fault(self, message: str) -> None:
        """Note a fault here."""
        self.reading.fault(self.pointer, message)

    def get(self, *keys: str) -> Node:
        """What stands under the keys, one below the other; null where nothing does. A parent that is no object is a fault."""
        node = self
        for key in keys:
            value = node.value.get(key) if node.is_object() else None
            node = node._child(key, value)
        return node

    def members(self) -> list[tuple[str, Node]]:
        """The members of an object by name; none where it is null."""
        return [(key, self._child(key, value)) for key, value in self.value.items() if isinstance(key, str)] if self.is_object() else []

    def items(self) -> list[Node]:
        """The items of a list; none where it is null. Anything else is a fault."""
        if self.value is None:
            return []
        if not isinstance(self.value, list):
            self.fault(f"{quoted(self.value)} is no list; write a list here")
            return []
        return [self._item(place, value) for place, value in enumerate(self.value)]

    def is_object(self) -> bool:
        """Whether this is an object; anything else but null is a fault."""
        if isinstance(self.value, dict):
            return True
        if self.value is not None:
            self.fault(f"{quoted(self.value)} is no object; write a map of members here")
        return False

    def text(self) -> str | None:
        """A text, or nothing where it is null. A number or boolean is a fault: Kubernetes refuses it, or means another text than was written."""
        if isinstance(self.value, str) or self.value is None:
            return self.value
        self.fault(f"{quoted(self.value)} is no text; put it in quotes")
        return None

    def scalar(self) -> str | None:
        """The text that a Helm chart makes of a text, a number or a boolean; nothing where it is null. A list or object is a fault."""
        if isinstance(self.value, bool):
            return str(self.value).lower()
        if isinstance(self.value, dict | list):
            self.fault(f"{quoted(self.value)} is no single value; write a text, a number, `true` or `false`")
            return None
        return None if self.value is None else str(self.value)

    def flag(self, *, default: bool = False) -> bool:
        """A boolean, or ``default`` where it is null. Anything else is a fault."""
        if self.value is None or isinstance(self.value, bool):
            return default if self.value is None else self.value
        self.fault(f"{quoted(self.value)} is neither `true` nor `false`")
        return default

    def count(self) -> int | None:
        """A whole number, or nothing where it is null. Anything else is a fault."""
        if self.value is None or (isinstance(self.value, int) and not isinstance(self.value, bool)):
            return self.value
        self.fault(f"{quoted(self.value)} is no whole number")
        return None

    def _child(self, key: str, value: Any) -> Node:
        path = f"{self.path}.{key}" if self.path else key
        return Node(self.reading, value, path, self.pointer if self.within else at(self.pointer, key), within=self.within)

    def _item(self, place: int, value: Any) -> Node:
        return Node(self.reading, value, f"{self.path}[{place}]", self.pointer if self.within else at(self.pointer, place), within=self.within)
