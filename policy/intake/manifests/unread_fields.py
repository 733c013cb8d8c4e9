"""Doubts about fields that an object sets and that may give a container something other than what is read.

Each controller, chart and tool has its tables of fields (``field_tables``). An object may be of a newer release of its
controller: a field that its table does not have may change the image, the command, the arguments, the variables or the
mounts of a container, or put another model there, and so makes the object's engines doubtful.
"""

from __future__ import annotations

from contextlib import contextmanager
from itertools import islice
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.field_tables import CHANGING_FIELD
from policy.messages import enumerated, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.field_tables import FieldTable
    from policy.intake.manifests.reading import ManifestNode

MAX_SHOWN: Final = 3
MAX_DOUBTS: Final = 8
UNREAD_FIELD: Final = "{} may change the container, and is not read"
UNKNOWN_FIELD: Final = "{} {} not known, and may change the container"


@contextmanager
def unread_fields(*places: tuple[FieldTable, ManifestNode]) -> Iterator[None]:
    """Add a doubt about the fields of each node that are not in its table to the engines that are read within.

    An engine gets each doubt once.
    """
    containers = places[0][1].reader.containers if places else []
    count = len(containers)
    yield
    found = containers[count:]
    doubts = list(islice((doubt for place in places for doubt in field_doubts(*place)), MAX_DOUBTS)) if found else []
    for container in found:
        container.doubts.extend(doubt for doubt in doubts if doubt not in container.doubts)


def field_doubts(table: FieldTable, node: ManifestNode) -> Iterator[str]:
    """The doubts about the fields of a node, and of the objects in it, that are set and not in the table."""
    if isinstance(node.value, list):
        for place, item in enumerate(node.value):
            if isinstance(item, dict):
                yield from field_doubts(table, node.below([place]))
    if not isinstance(node.value, dict):
        return
    fields = {name: value for name, value in node.value.items() if isinstance(name, str) and name not in table.known}
    changing = [name for name, value in fields.items() if value and _is_changing(table, name)]
    unknown = [name for name, value in fields.items() if value is not None and _is_unknown(table, name)]
    where = f" of {quoted(node.path)}" if (changing or unknown) and node.path else ""
    if changing:
        yield UNREAD_FIELD.format(f"{enumerated(changing, MAX_SHOWN)}{where}")
    if unknown:
        yield UNKNOWN_FIELD.format(f"{enumerated(unknown, MAX_SHOWN)}{where}", "is" if len(unknown) == 1 else "are")
    for name, part in table.parts.items():
        if node.value.get(name):
            yield from field_doubts(part, node.below([name]))


def _is_changing(table: FieldTable, name: str) -> bool:
    return name in table.changing or (table.is_open and CHANGING_FIELD.search(name) is not None)


def _is_unknown(table: FieldTable, name: str) -> bool:
    return not table.is_open and name not in table.changing
