"""The labels and annotations of a manifest by which a controller or a webhook may change a pod."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.messages import enumerated, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.manifests.reading import ManifestNode

MAX_SHOWN: Final = 3
FIELDS: Final = ("labels", "annotations")


def names_doubt(node: ManifestNode, is_changing: Callable[[str], bool], message: str) -> str:
    """The doubt about the labels or annotations of a node for which ``is_changing`` holds; empty if there are none.

    ``message`` has placeholders for their names, and for the field that has them.
    """
    value = node.value if isinstance(node.value, dict) else {}
    for field in FIELDS:
        names = value.get(field)
        found = (
            [name for name in names if isinstance(name, str) and is_changing(name)] if isinstance(names, dict) else []
        )
        if found:
            return message.format(enumerated(found, MAX_SHOWN), quoted(node.below([field]).path))
    return ""


def is_in_group(name: str, group: str) -> bool:
    """Whether a label or annotation is of a group, or of one of its subdomains."""
    domain, slash, _ = name.partition("/")
    return bool(slash) and (domain == group or domain.endswith(f".{group}"))
