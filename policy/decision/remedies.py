"""What would help a deployment, as the answer shows it.

Owns the types of its JSON. ``policy.remedies`` finds the changes.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import UNSET, Struct, UnsetType

from policy.rules.releases import Removal  # noqa: TC001  # msgspec reads the annotations


class V2By(StrEnum):
    """How a deployment on V1 gets V2 at the newest release."""

    UPGRADE = "upgrade"
    CHANGE = "change"
    NONE = "none"


class Change(Struct, frozen=True, gc=False, rename={"from_": "from"}):
    """A change of an argument, a variable, a stated fact or a field of the request; one of them is set.

    ``at`` is the place of an argument, such as ``args[3]``. ``to`` is ``None`` if it is dropped.
    """

    argument: str | UnsetType = UNSET
    variable: str | UnsetType = UNSET
    fact: str | UnsetType = UNSET
    field: str | UnsetType = UNSET
    at: str | UnsetType = UNSET
    from_: Any = None
    to: Any = None


class Remedy(Struct, frozen=True, gc=False, rename={"purpose": "for"}):
    """The changes that together reach ``purpose``: ``start``, ``v2``, or the known problem that they avoid.

    ``runner`` and ``starts`` are those of the deployment with the changes.
    """

    purpose: str
    change: list[Change]
    runner: str | None
    starts: bool


class V2Path(Struct, frozen=True, gc=False):
    """How the deployment gets V2 at the newest release.

    ``upgrade_to`` is the first release in which it gets V2 as it is, and ``change`` what it needs at ``release``.
    ``removal`` is what vLLM said of the end of V1.
    """

    release: str
    by: str
    upgrade_to: str | None
    change: list[Change]
    removal: Removal | None
