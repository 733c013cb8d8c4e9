"""A manifest → a request for each vLLM container in it.

Owns which release a container is decided for: its image's, else the request's, else the default one with a warning.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode
from msgspec.structs import replace

from policy.errors import RequestFault, RequestInvalid
from policy.intake.deployment import Deployment
from policy.intake.manifests import read_manifest
from policy.messages import quoted
from policy.pointer import at, walk_path
from policy.request.request import INVALID, UNKNOWN_RELEASE
from policy.rules.releases import InvalidVersion, UnknownRelease

if TYPE_CHECKING:
    from policy.intake.command_line import Container
    from policy.request.request import Manifest, Request
    from policy.rules.releases import Releases


MAX_SHARED: Final = 32 << 20
"""How many characters of configurations all containers of a manifest may share: each container is decided with all of them."""


def requests_of(manifest: Manifest, releases: Releases) -> list[tuple[str, Request | RequestInvalid]]:
    """Each container's path in the manifest with the request that it is, or with why it is none.

    Raises:
        RequestInvalid: the manifest itself cannot be read.
    """
    return [(container.path, request_of(container, manifest, releases)) for container in containers_of(manifest)]


def containers_of(manifest: Manifest) -> list[Container]:
    """The vLLM containers in a manifest.

    Raises:
        RequestInvalid: it cannot be read.
    """
    faults: list[RequestFault] = []
    containers = read_manifest(manifest.document, manifest.request.pointer, faults)
    size = len(encode(manifest.model_configs))
    if size * len(containers) > MAX_SHARED:
        many = f"{len(containers)} vLLM containers with {size} characters of models' configurations are more than is read at a time"
        faults.append(
            RequestFault(
                manifest.models_at or manifest.request.pointer,
                f"{many}; send fewer containers, or only the models that they serve",
            )
        )
    if faults:
        raise RequestInvalid(faults)
    return containers


def request_of(container: Container, manifest: Manifest, releases: Releases) -> Request | RequestInvalid:
    """The request that a container of a manifest is; a fault where its image has a release that is not known."""
    asked = manifest.request
    pointer = pointer_of(asked.pointer, container.path, manifest.document)
    notes = list(container.notes)
    version, release = asked.vllm_version, asked.release
    if container.vllm_version is not None:
        version = container.vllm_version
        if manifest.stated and version != asked.vllm_version:
            notes.append(f"decided for vLLM {version}, which the image has; the request says {asked.vllm_version}")
        try:
            release = releases.resolve(version, nearest=manifest.nearest)
        except (UnknownRelease, InvalidVersion) as error:
            kind = UNKNOWN_RELEASE if isinstance(error, UnknownRelease) else INVALID
            return RequestInvalid([RequestFault(pointer, f"the image {quoted(container.image)}: {error}")], kind)
    elif not manifest.stated:
        why = container.unversioned or "no image tells vLLM's version"
        notes.append(f"{why}; decided for {version}, the default release; state `vllm_version`")
    configs, environment = manifest.model_configs, manifest.environment
    models = (container.models, manifest.models_at)
    deployment = Deployment(
        container.words, container.env, configs, container.files, environment, container.places, *models, notes
    )
    return replace(
        asked,
        vllm_version=version,
        release=release,
        deployment=deployment,
        pointer=pointer,
        manifest=(asked.pointer, manifest.document),
    )


def way_of(document: Any, path: str) -> list[Any]:
    """The values from a document down to what stands at a path such as ``items[3].spec``; it ends early where nothing does."""
    return walk_path(document, _steps(path))


def name_of(document: object, path: str) -> str:
    """A container as people call it, ``namespace/kind/name/container`` of the object that it stands in; the path where that has no name."""
    way = way_of(document, path)
    named: list[str] = []
    for value in way:
        metadata = value.get("metadata") if isinstance(value, dict) and "kind" in value else None
        if isinstance(metadata, dict):
            named = [
                text
                for text in (metadata.get("namespace"), value["kind"], metadata.get("name"))
                if isinstance(text, str)
            ]
    container = way[-1] if len(way) > len(_steps(path)) else None
    if named and isinstance(container, dict) and isinstance(container.get("name"), str):
        named.append(container["name"])
    return "/".join(named) or path


def pointer_of(pointer: str, path: str, document: object) -> str:
    """The JSON pointer of a path such as ``items[3].spec`` in a document, below ``pointer``; it ends at a text, where the path leads on into it."""
    way, steps = way_of(document, path), _steps(path)
    return pointer + "".join(at("", step) for step in (steps[: len(way) - 1] if isinstance(way[-1], str) else steps))


def _steps(path: str) -> list[str]:
    return [step for part in path.split(".") for step in part.replace("]", "").split("[") if step]
