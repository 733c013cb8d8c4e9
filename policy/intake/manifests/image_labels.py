"""The version of an image that a manifest repeats in a label or an annotation: `org.opencontainers.image.version`.

https://specs.opencontainers.org/image-spec/annotations/. It is the version of the packaged software, which need not be
vLLM, so that it counts only if the name of the image shows none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable

VERSION_LABEL: Final = "org.opencontainers.image.version"
LABEL_CAUSE: Final = f"the label `{VERSION_LABEL}`"
MAX_VERSION: Final = 128


def labelled_version(labels: Iterable[object]) -> str | None:
    """The first version that ``labels`` state, each an object, or a list or text of `NAME=VALUE`; None if none does."""
    for each in labels:
        found: object = each.get(VERSION_LABEL) if isinstance(each, dict) else None
        for item in each if isinstance(each, list) else [each]:
            if isinstance(item, str) and item.startswith(f"{VERSION_LABEL}="):
                found = item.partition("=")[2]
        if isinstance(found, str) and 0 < len(found) <= MAX_VERSION and "$" not in found:
            return found
    return None
