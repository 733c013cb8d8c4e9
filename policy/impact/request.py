"""Parse a request for an impact: many deployments, and the releases that they are compared with.

Reports all faults of the request itself at once, with their JSON pointers. A deployment that cannot be read is one of
the deployments, with its faults.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import INVALID_REQUEST, MAX_FAULTS, PolicyError, RequestFault, RequestInvalid
from policy.impact.targets import V1_REMOVED, target_of, targets_of
from policy.messages import listed, nearest, quoted
from policy.pointer import at
from policy.request.items import MAX_IGNORED, object_of
from policy.request.manifest import MAX_NAME, name_of, pointer_of, requests_of
from policy.request.request import MAX_REQUEST_ID, UNKNOWN_RELEASE, Manifest, Request, read_request_or_manifest
from policy.rules.releases import UnknownRelease

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.impact.targets import TargetRelease
    from policy.rules.releases import Releases

DEPLOYMENTS: Final = "deployments"
TARGETS: Final = ("releases", "from", "to")
EXPLAIN: Final = "explain"
FIELDS: Final = (DEPLOYMENTS, *TARGETS, EXPLAIN)
MAX_RELEASES: Final = 256
"""The most releases that a request may name."""
EXAMPLE: Final = '{"deployments": [{"facts": {}}]}'
TARGET_ADVICE: Final = f"; also `{V1_REMOVED}`"


class ImpactRequest(Struct, frozen=True):
    """Documents of deployments, and what they are compared with; ``from_own``: also with the release that each runs.

    ``explained`` are the targets for which the answer has remedies: the release to go to, or all that are listed.
    """

    documents: list[Any]
    targets: tuple[TargetRelease, ...]
    from_own: bool
    explained: tuple[TargetRelease, ...] = ()

    @property
    def decisions(self) -> int:
        """How many decisions a deployment takes at most, without its remedies: one for each release."""
        return len(self.targets) + self.from_own


class DocumentPlace(Struct, frozen=True, gc=False, omit_defaults=True):
    """Where a deployment is: its JSON pointer in the body, and for an engine its path in the manifest."""

    pointer: str
    path: str = ""


class DocumentEntry(Struct, frozen=True, gc=False):
    """A deployment of a request: its name, its place, and its own request, or the reason why it has none."""

    name: str
    request_id: str | None
    place: DocumentPlace
    request: Request | RequestInvalid

    @property
    def title(self) -> str:
        """The name with the place, unless the place is the name."""
        return self.place.pointer if self.name == self.place.pointer else f"{self.name} ({self.place.pointer})"


class IgnoredEntry(Struct, frozen=True):
    """An object of a manifest in which nothing that starts vLLM was found."""

    place: DocumentPlace
    kind: str | None
    namespace: str | None
    name: str | None


def read_impact_request(document: object, releases: Releases, limit: int) -> ImpactRequest:
    """Parse a request with at most ``limit`` deployments.

    Raises:
        RequestInvalid: it has faults; the problem is ``unknown-release`` if it names an unknown release.
    """
    if type(document) is not dict:
        message = f"expected an object, got {quoted(document)}; write a request such as `{EXAMPLE}`"
        raise RequestInvalid([RequestFault("", message)])
    unknown = [name for name in document if name not in FIELDS][:MAX_FAULTS]
    faults = [
        RequestFault(at("", name), f"unknown field {quoted(name)}; legal: {listed(FIELDS)}{nearest(name, FIELDS)}")
        for name in unknown
    ]
    documents = document.get(DEPLOYMENTS)
    if type(documents) is not list:
        faults.append(RequestFault(f"/{DEPLOYMENTS}", f"expected a list of requests, got {quoted(documents)}"))
    elif len(documents) > limit:
        message = f"at most {limit} deployments are accepted, got {len(documents)}; send them in parts"
        faults.append(RequestFault(f"/{DEPLOYMENTS}", message))
    explain = document.get(EXPLAIN)
    if explain is not None and type(explain) is not bool:
        faults.append(RequestFault(f"/{EXPLAIN}", f"expected true or false, got {quoted(explain)}"))
    names = _TargetNames(document, releases)
    if faults or names.faults or type(documents) is not list:
        raise RequestInvalid(faults + names.faults, UNKNOWN_RELEASE if names.has_unknown else INVALID_REQUEST)
    targets = tuple(names.targets)
    explained = targets[-1:] if document.get("to") is not None else targets
    return ImpactRequest(documents, targets, names.is_one, explained if explain is True else ())


class _TargetNames:
    """The targets that a request names, and the faults of their names; all known releases if it names none."""

    def __init__(self, document: Mapping[str, Any], releases: Releases) -> None:
        self.faults: list[RequestFault] = []
        self.has_unknown = False
        self._releases = releases
        named = {name: document[name] for name in TARGETS if document.get(name) is not None}
        self.is_one = "to" in named and "from" not in named
        """Whether there is one target, which each deployment's own release is compared with."""
        self.targets = self._targets(named)

    def _targets(self, named: Mapping[str, Any]) -> list[TargetRelease]:
        if "releases" in named:
            self.faults += [
                RequestFault(f"/{name}", f"`{name}` and `releases` exclude each other; leave one of them out")
                for name in ("from", "to")
                if name in named
            ]
            return self._listed(named["releases"])
        if "to" not in named:
            if "from" in named:
                self.faults.append(RequestFault("/from", "`from` goes with `to`, the release to go to"))
            return targets_of(self._releases.known, self._releases)
        found = [self._target(named[name], f"/{name}") for name in ("from", "to") if name in named]
        targets = [target for target in found if target is not None]
        if len({target.name for target in targets}) < len(targets):
            message = f"`from` and `to` are both {quoted(named['to'])}; name two releases"
            self.faults.append(RequestFault("/to", message))
        return targets

    def _listed(self, names: Any) -> list[TargetRelease]:
        if type(names) is not list or not names:
            message = f'expected a list of releases such as `["{self._releases.known[-1]}"]`, got {quoted(names)}'
            self.faults.append(RequestFault("/releases", message))
            return []
        if len(names) > MAX_RELEASES:
            message = f"at most {MAX_RELEASES} releases are accepted, got {len(names)}"
            self.faults.append(RequestFault("/releases", message))
            return []
        found = [self._target(name, f"/releases/{place}") for place, name in enumerate(names)]
        return targets_of([target.name for target in found if target is not None], self._releases)

    def _target(self, name: Any, pointer: str) -> TargetRelease | None:
        if type(name) is not str:
            example = f'write the version in quotes, such as `"{self._releases.known[-1]}"`'
            self.faults.append(RequestFault(pointer, f"expected a string, got {quoted(name)}; {example}"))
            return None
        try:
            return target_of(name, self._releases)
        except PolicyError as error:
            self.has_unknown = self.has_unknown or isinstance(error, UnknownRelease)
            self.faults.append(RequestFault(pointer, f"{error}{TARGET_ADVICE}"))
            return None


def entries_of(request: ImpactRequest, releases: Releases, ignored: list[IgnoredEntry]) -> Iterator[DocumentEntry]:
    """The deployments of a request in their order, each engine of a manifest by itself.

    Objects in which nothing that starts vLLM was found are added to ``ignored``, at most ``MAX_IGNORED``.
    """
    for number, document in enumerate(request.documents):
        pointer = f"/{DEPLOYMENTS}/{number}"
        place = DocumentPlace(pointer)
        try:
            found = read_request_or_manifest(document, releases, pointer)
            if isinstance(found, Request):
                yield DocumentEntry(found.request_id or pointer, found.request_id, place, found)
                continue
            yield from _engines(request, found, releases, ignored)
        except RequestInvalid as error:
            request_id = _request_id(document)
            yield DocumentEntry(request_id or _name(document, pointer), request_id, place, error)


def _engines(
    request: ImpactRequest, manifest: Manifest, releases: Releases, ignored: list[IgnoredEntry]
) -> Iterator[DocumentEntry]:
    """The engines of a manifest; one that is not compared with its own release is read for the first target."""
    if not request.from_own:
        release = releases.resolve(request.targets[0].release)
        base = replace(manifest.request, vllm_version=request.targets[0].release, release=release)
        manifest = replace(manifest, request=base, overrides=True)
    skipped: list[str] = []
    request_id = manifest.request.request_id
    rows = requests_of(manifest, releases, ignored=skipped)
    ignored += [
        IgnoredEntry(_place(manifest, path), *object_of(manifest, path))
        for path in skipped[: MAX_IGNORED - len(ignored)]
    ]
    for path, each in rows:
        place = _place(manifest, path)
        name = name_of(manifest.document, path)
        shown = place.pointer if name == path else name
        yield DocumentEntry(shown[:MAX_NAME], request_id, place, each)


def _place(manifest: Manifest, path: str) -> DocumentPlace:
    return DocumentPlace(pointer_of(manifest.request.pointer, path, manifest.document), path)


def _name(document: Any, pointer: str) -> str:
    """The name of an object that cannot be read, else its pointer."""
    return (name_of(document, "") or pointer)[:MAX_NAME] if type(document) is dict else pointer


def _request_id(document: Any) -> str | None:
    """The id of a request that cannot be read, if it has a legal one."""
    found = document.get("request_id") if type(document) is dict else None
    return found if type(found) is str and len(found) <= MAX_REQUEST_ID else None
