"""Find the vLLM engines that a controller's manifest would start.

``registry`` chooses the adapter for a document. ``reading``, ``draft``, ``images``, ``mounts``, ``pods``, ``storage``
and ``quantities`` are shared; the other modules are adapters and their helpers. They are imported for the first
manifest: `decide` of a request takes 25 ms less of processor time without them and the shell that they read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from policy.errors import RequestFault
    from policy.intake.command_line import Container
    from policy.rules.images import ImageTable


def is_manifest(document: object) -> bool:
    """Whether a document is a manifest: an object with a ``kind``, a known chart's values, or a list of these."""
    from policy.intake.manifests import registry  # noqa: PLC0415  # see above

    return registry.is_manifest(document)


def shows_engines(document: object, images: ImageTable, *, commands: bool = True) -> bool:
    """Whether a document is the values of a chart that show vLLM, or, with ``commands``, another file with one."""
    from policy.intake.manifests import registry  # noqa: PLC0415  # see above

    return registry.shows_engines(document, images, commands=commands)


def read_manifest(
    document: object,
    pointer: str,
    faults: list[RequestFault],
    images: ImageTable,
    ignored: list[str] | None = None,
    *,
    is_under_review: bool = False,
) -> list[Container]:
    """The vLLM engines that a manifest would start, as ``registry.read_manifest`` finds them."""
    from policy.intake.manifests import registry  # noqa: PLC0415  # see above

    return registry.read_manifest(document, pointer, faults, images, ignored, is_under_review=is_under_review)
