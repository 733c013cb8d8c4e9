"""The answer to a manifest: the decision for each of its engines, or the problem with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from policy.decision.decision import Decision
from policy.problems import Problem  # noqa: TC001  # msgspec reads the annotations
from policy.request.manifest import values_along

if TYPE_CHECKING:
    from policy.request.request import Manifest

MAX_NAME: Final = 253
"""The maximum length of a name in Kubernetes (RFC 1123); longer ones are left out, as each engine repeats them."""


class ManifestDecision(Struct, frozen=True):
    """An engine of a manifest by its path: its object, and its decision or the problem with it.

    ``kind``, ``namespace`` and ``name`` are ``None`` if the object has none, such as a chart's values.
    """

    path: str
    kind: str | None
    namespace: str | None
    name: str | None
    decision: Decision | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET

    @property
    def outcome(self) -> Decision | Problem:
        """The decision or the problem, exactly one of which is set."""
        return self.problem if isinstance(self.decision, UnsetType) else self.decision  # type: ignore[return-value]  # see above


class ManifestDecisions(Struct, frozen=True):
    """The answer to a manifest."""

    items: list[ManifestDecision]


def item_of(manifest: Manifest, path: str, answer: Decision | Problem) -> ManifestDecision:
    """The item of the answer for the engine at a path such as ``items[3].spec``."""
    kind = namespace = name = None
    for value in values_along(manifest.document, path):
        if isinstance(value, dict) and isinstance(value.get("kind"), str):
            metadata = value.get("metadata")
            names = metadata if isinstance(metadata, dict) else {}
            kind, namespace, name = map(_name, (value["kind"], names.get("namespace"), names.get("name")))
    decision, problem = (answer, UNSET) if isinstance(answer, Decision) else (UNSET, answer)
    return ManifestDecision(path, kind, namespace, name, decision, problem)


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= MAX_NAME else None
