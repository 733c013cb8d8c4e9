"""The answer to a manifest: the decision for each of its engines, or the problem with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import UNSET, Struct, UnsetType

from policy.decision.decision import Decision
from policy.messages import enumerated
from policy.problems import Problem  # noqa: TC001  # msgspec reads the annotations
from policy.request.manifest import values_along

if TYPE_CHECKING:
    from policy.request.request import Manifest

MAX_IGNORED: Final = 100
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


class IgnoredObject(Struct, frozen=True):
    """An object of a manifest, by its path, in which nothing that starts vLLM was found."""

    path: str
    kind: str | None
    namespace: str | None
    name: str | None


class ManifestDecisions(Struct, frozen=True):
    """The answer to a manifest; ``ignored`` has at most ``MAX_IGNORED`` objects, ``warnings`` are about the request."""

    items: list[ManifestDecision]
    ignored: list[IgnoredObject] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


def ignored_objects(names: list[str]) -> str:
    """A line for people that names ignored objects."""
    return f"ignored, because nothing that starts vLLM was found in them: {enumerated(names)}"


def answer_of(
    manifest: Manifest, items: list[ManifestDecision], ignored: list[str], warnings: list[str]
) -> ManifestDecisions:
    """The answer with these items; ``ignored`` has the paths of ignored objects."""
    named = [IgnoredObject(path, *object_of(manifest, path)) for path in ignored[:MAX_IGNORED]]
    return ManifestDecisions(items, named or UNSET, warnings or UNSET)


def item_of(manifest: Manifest, path: str, answer: Decision | Problem) -> ManifestDecision:
    """The item of the answer for the engine at a path such as ``items[3].spec``."""
    decision, problem = (answer, UNSET) if isinstance(answer, Decision) else (UNSET, answer)
    return ManifestDecision(path, *object_of(manifest, path), decision, problem)


def object_of(manifest: Manifest, path: str) -> tuple[str | None, str | None, str | None]:
    """The kind, namespace and name of the object at or around a path."""
    kind = namespace = name = None
    for value in values_along(manifest.document, path):
        if isinstance(value, dict) and isinstance(value.get("kind"), str):
            metadata = value.get("metadata")
            names = metadata if isinstance(metadata, dict) else {}
            kind, namespace, name = map(_name, (value["kind"], names.get("namespace"), names.get("name")))
    return kind, namespace, name


def _name(value: object) -> str | None:
    return value if isinstance(value, str) and len(value) <= MAX_NAME else None
