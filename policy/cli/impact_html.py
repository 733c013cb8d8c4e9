"""The impact of a fleet as one HTML file, which shows it without a service.

Owns the data of the report. How it is shown is in the template, which is built from ``service/page`` and committed.
"""

from __future__ import annotations

import zlib
from base64 import b64encode
from hashlib import blake2b
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

from msgspec import Raw, Struct
from msgspec.json import Decoder

from policy.decision.decision import encode
from policy.impact.packing import Packer
from policy.rules.documents import rule_document

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import date

    from policy.cli.fleet import FleetEntry
    from policy.impact.run import ImpactResult
    from policy.policy import Policy

TEMPLATE: Final = "impact_report.html"
PLACE: Final = b"%DATA%"
"""Where the data is in the template."""
RULE_FIELDS: Final = ("id", "title", "why", "remedy", "references")
GZIP: Final = 31
"""The window of zlib that writes gzip, without a time."""
LEVEL: Final = 6


class Parts(Struct, rename={"from_": "from"}):
    """A comparison whose answers and changes are not decoded, because most of them were seen before."""

    from_: str | None
    releases: dict[str, Raw]
    changes: list[Raw]
    kind: str | None
    remedies: Raw = Raw()


PARTS: Final = Decoder(Parts)
VALUE: Final = Decoder()


class Data:
    """The data of a report: its deployments, each different answer and change once."""

    def __init__(self) -> None:
        self._packer = Packer()
        self._known: dict[bytes, int] = {}
        self._items: list[int] = []
        nothing: dict[str, Any] = {"from": None, "releases": {}, "changes": [], "kind": None}
        self._nothing = {name: self._packer.add(value) for name, value in nothing.items()}

    def add(self, entry: FleetEntry, result: ImpactResult) -> None:
        """Add a deployment."""
        add = self._packer.add
        found = {
            "name": add(entry.name),
            "request_id": add(entry.request_id),
            "place": self._value(encode(entry.place)),
        }
        if result.problem is not None:
            found |= {"problem": self._value(encode(result.problem)), **self._nothing}
        else:
            found |= self._compared(result.piece)
        self._items.append(self._packer.add_object(found))

    def document(self, title: str, targets: list[str], policy: Policy, day: date, *, complete: bool) -> list[bytes]:
        """The whole data as parts of a JSON text, with the rules that it names."""
        packer = self._packer
        items = packer.add_list(self._items)
        rules = [_rule(rule_document(rule)) for rule in policy.catalogue.rules if packer.has(rule.id)]
        about = {
            "title": title,
            "targets": targets,
            "complete": complete,
            "rules": rules,
            "revision": policy.revision,
            "day": day.isoformat(),
        }
        packer.add_object({**{name: packer.add(value) for name, value in about.items()}, "items": items})
        return packer.document()

    def _compared(self, piece: bytes) -> dict[str, int]:
        found = PARTS.decode(piece)
        packer = self._packer
        remedies = {"remedies": self._value(bytes(found.remedies))} if bytes(found.remedies) else {}
        return {
            "from": packer.add(found.from_),
            "releases": packer.add_object({name: self._value(bytes(each)) for name, each in found.releases.items()}),
            "changes": packer.add_list([self._value(bytes(each)) for each in found.changes]),
            "kind": packer.add(found.kind),
            **remedies,
        }

    def _value(self, text: bytes) -> int:
        """Add a value, given as JSON text, unless it is there already, and return its place."""
        key = blake2b(text, digest_size=20).digest()
        place = self._known.get(key)
        if place is None:
            place = self._known[key] = self._packer.add(VALUE.decode(text))
        return place


def html(document: list[bytes]) -> Iterator[bytes]:
    """The template with a document, compressed and as Base64: no text in it can be read as HTML."""
    before, _, after = files("policy").joinpath("cli", TEMPLATE).read_bytes().partition(PLACE)
    yield before
    yield b64encode(_compressed(document))
    yield after


def _compressed(parts: list[bytes]) -> bytes:
    packing = zlib.compressobj(LEVEL, wbits=GZIP)
    return b"".join([*map(packing.compress, parts), packing.flush()])


def _rule(document: dict[str, Any]) -> dict[str, Any]:
    return {name: document[name] for name in RULE_FIELDS if name in document}
