"""Packs JSON values so that each different one occurs once, for reports of many deployments that are alike.

Owns the packed form, which the report's own code reads. A value is its place in a table: a scalar is stored as it
is, a list as ``[0, …]`` and an object as ``[shape, …]`` with the places of its values, which precede it. The shape
is the place of its names in the table of shapes, from 1.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from policy.decision.decision import encode

Composite: TypeAlias = tuple[int, ...]


class Packer:
    """A table of different values, which grows by those that are added."""

    def __init__(self) -> None:
        self._places: dict[Any, int] = {}
        self._values: list[bytes] = []
        self._shapes: dict[tuple[str, ...], int] = {}

    def add(self, value: Any) -> int:
        """Add a JSON value, unless it is there already, and return its place."""
        if isinstance(value, dict):
            return self.add_object({name: self.add(each) for name, each in value.items()})
        if isinstance(value, list | tuple):
            return self.add_list([self.add(each) for each in value])
        return self._scalar(value)

    def add_list(self, places: list[int]) -> int:
        """Add a list of values, given by their places, and return its place."""
        return self._composite((0, *places))

    def add_object(self, places: dict[str, int]) -> int:
        """Add an object of values, given by their places, and return its place."""
        names = tuple(places)
        shape = self._shapes.setdefault(names, len(self._shapes) + 1)
        return self._composite((shape, *places.values()))

    def has(self, text: str) -> bool:
        """Whether a text is among the values."""
        return (str, text) in self._places

    def document(self) -> list[bytes]:
        """The packed form as parts of a JSON text; a reader begins with the value that was added last."""
        return [b'{"shapes":', encode([list(names) for names in self._shapes]), b',"values":[', *self._joined(), b"]}"]

    def _joined(self) -> list[bytes]:
        return [each if at == 0 else b"," + each for at, each in enumerate(self._values)]

    def _scalar(self, value: Any) -> int:
        key = (type(value), value)
        place = self._places.get(key)
        return self._new(key, encode(value)) if place is None else place

    def _composite(self, key: Composite) -> int:
        place = self._places.get(key)
        return self._new(key, b"[%b]" % b",".join([b"%d" % each for each in key])) if place is None else place

    def _new(self, key: Any, text: bytes) -> int:
        place = self._places[key] = len(self._values)
        self._values.append(text)
        return place
