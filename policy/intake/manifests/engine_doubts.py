"""Doubts about the engines of a part of a manifest, which are known only once its engines are read."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.intake.manifests.reading import ManifestReader


@contextmanager
def engine_doubt(reader: ManifestReader, why: Callable[[], str]) -> Iterator[None]:
    """Add a doubt, with a note, to the engines that are read within; ``why`` is called only if there are any."""
    count = len(reader.containers)
    yield
    found = reader.containers[count:]
    doubt = why() if found else ""
    for container in found if doubt else ():
        for messages in (container.notes, container.doubts):
            if doubt not in messages:
                messages.append(doubt)
