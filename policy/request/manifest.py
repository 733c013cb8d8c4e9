"""Convert a manifest to a request for each of its vLLM containers.

Chooses each container's release: one that overrides, else its image's, else the request's, else one that a command may
install, else the default, the last two with a warning. Not here: its platform (``platform``).
"""

from __future__ import annotations

from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode
from msgspec.structs import replace

from policy.defects import contained, defect_fault
from policy.errors import INVALID_REQUEST, RemedyKind, RequestFault, RequestInvalid
from policy.intake.command_line import Installation, Omni
from policy.intake.deployment import Deployment
from policy.intake.manifests import images
from policy.intake.manifests.document_secrets import secrets_of
from policy.messages import quoted
from policy.pointer import at, walk_path
from policy.problems import REMEDIES
from policy.request.platform import environment_of
from policy.request.request import UNKNOWN_RELEASE
from policy.rules.releases import InvalidVersion, Resolution, UnknownRelease
from policy.secret_values import SecretValues
from policy.stated_secrets import secret_values

if TYPE_CHECKING:
    from policy.errors import Remedies
    from policy.intake.command_line import Container
    from policy.request.request import Manifest, Request
    from policy.rules.releases import Releases


OMNI_NAMES: Final = ("vllm-omni", "vllm_omni")
"""The names of vLLM-Omni's program and packages."""
NOT_SHOWN: Final = "no image shows vLLM's version"
HOW_TO_TELL: Final = "`kubectl exec … -- vllm --version` shows it"
MAX_NAME: Final = 512
"""How many characters of a name are shown."""
MAX_SHARED: Final = 32 << 20
"""The maximum of the bytes of a manifest's configurations times its containers: each is decided with all of them."""


def requests_of(
    manifest: Manifest, releases: Releases, remedies: Remedies = REMEDIES, ignored: list[str] | None = None
) -> list[tuple[str, Request | RequestInvalid]]:
    """Each container's path in the manifest, with its request or an error.

    Notes contain the ``remedies`` of the interface. The paths of the objects of unknown kinds in which no container was
    found are appended to ``ignored``.

    Raises:
        RequestInvalid: the manifest itself cannot be read.
    """
    containers = containers_of(manifest, releases, ignored)
    return [(container.path, request_of(container, manifest, releases, remedies)) for container in containers]


def containers_of(
    manifest: Manifest, releases: Releases, ignored: list[str] | None = None, *, is_under_review: bool = False
) -> list[Container]:
    """The vLLM containers in a manifest; ``read_manifest`` has what ``is_under_review`` changes.

    Raises:
        RequestInvalid: it cannot be read.
    """
    with contained(manifest.request.pointer):
        return _containers_of(manifest, releases, ignored, is_under_review=is_under_review)


def _containers_of(
    manifest: Manifest, releases: Releases, ignored: list[str] | None, *, is_under_review: bool
) -> list[Container]:
    from policy.intake.manifests.registry import read_manifest  # noqa: PLC0415  # see `intake.manifests`

    faults: list[RequestFault] = []
    secrets: set[str] = set()
    containers = read_manifest(
        manifest.document,
        manifest.request.pointer,
        faults,
        releases.images,
        ignored,
        is_under_review=is_under_review,
        secrets=secrets,
    )
    size = len(encode(manifest.model_configs))
    if size * len(containers) > MAX_SHARED:
        faults.append(
            RequestFault(
                manifest.models_at or manifest.request.pointer,
                f"{len(containers)} vLLM containers with {size} characters of model configurations exceed the limit; "
                "give fewer containers, or only the models that they serve",
            )
        )
    stated = SecretValues(dict.fromkeys(chain(secrets_of(manifest.document), sorted(secrets))))
    if faults:
        error = RequestInvalid(faults)
        error.hides_engines = error.hides_engines or bool(containers)
        error.hide(stated)
        raise error
    return [_without_secrets(container, stated) for container in containers] if stated else containers


def _without_secrets(container: Container, stated: SecretValues) -> Container:
    """The container, in whose faults and problem the values that the manifest ``stated`` for secrets are hidden."""
    if not (container.faults or container.problem):
        return replace(container, stated=stated)
    error = RequestInvalid(container.faults)
    error.hide(stated)
    return replace(container, faults=error.faults, problem=stated.hidden(container.problem), stated=stated)


def request_of(
    container: Container,
    manifest: Manifest,
    releases: Releases,
    remedies: Remedies = REMEDIES,
    stated_by: str = "",
) -> Request | RequestInvalid:
    """The request for a container of a manifest; an error if it cannot be decided or its release is unknown.

    ``stated_by`` names what states the version of the request, for a note where no image shows it; empty for none.
    """
    try:
        request = _request_of(container, manifest, releases, remedies, stated_by)
    except Exception as error:  # noqa: BLE001  # a defect may raise anything
        pointer = pointer_of(manifest.request.pointer, container.path, manifest.document)
        return RequestInvalid([defect_fault(error, pointer)])
    if isinstance(request, RequestInvalid):
        request.hide(secret_values(container.env, (), container.secrets, container.stated))
    return request


def _request_of(
    container: Container, manifest: Manifest, releases: Releases, remedies: Remedies, stated_by: str
) -> Request | RequestInvalid:
    """The same, but an error may contain secrets from the engine's variables."""
    base = manifest.request
    pointer = pointer_of(base.pointer, container.path, manifest.document)
    if container.faults:
        return RequestInvalid(container.faults)
    if container.problem:
        return RequestInvalid([RequestFault(pointer, container.problem)])
    notes = list(container.notes)
    version, release, is_assumed = base.vllm_version, base.release, False
    omni = _omni(container, releases)
    container = _with_known_version(container, releases)
    if manifest.overrides:
        if container.vllm_version not in {None, version}:
            cause = container.version_cause
            other = f"{container.vllm_version}: {cause}" if cause else f"the image's {container.vllm_version}"
            notes.append(f"decided for vLLM {version}, which overrides {other}")
    elif container.vllm_version is not None:
        version = container.vllm_version
        if manifest.stated and version != base.vllm_version:
            why = f": {container.version_cause}" if container.version_cause else ", which the image has"
            notes.append(f"decided for vLLM {version}{why}; the request states {base.vllm_version}")
        try:
            release = releases.resolve(version, nearest=manifest.nearest)
            if container.version_row:
                origin = f"image {container.version_row}"
                release = Resolution(release.decided_as, release.verified, release.defaulted, origin)
        except (UnknownRelease, InvalidVersion) as error:
            is_unknown = isinstance(error, UnknownRelease)
            place = container.version_cause or f"the image {quoted(container.image)}"
            message, remedy = f"{place}: {error}", RemedyKind.KNOWN_RELEASE
            fault = RequestFault(pointer, message, remedy if is_unknown else None)
            return RequestInvalid([fault], UNKNOWN_RELEASE if is_unknown else INVALID_REQUEST)
    elif not manifest.stated and (likely := _likely_release(container, releases)) is not None:
        is_assumed = True
        version, release = likely
    elif manifest.stated and stated_by:
        why = container.unversioned or NOT_SHOWN
        notes.append(f"decided for vLLM {version}, by {stated_by}; {why}")
    elif not manifest.stated:
        is_assumed = True
        why = container.unversioned or NOT_SHOWN
        advice = f"{remedies[RemedyKind.VERSION]}; {HOW_TO_TELL}"
        notes.append(f"{why}; decided for {version}, the default release; {advice}")
    configs = manifest.model_configs
    environment, platform_doubt = environment_of(container, manifest.environment, releases.images, notes)
    environment = replace(environment, triton_since=images.triton_since(container.image, releases.images))
    models = (container.models, manifest.models_at)
    words, env, files, places = container.words, container.env, container.files, container.places
    hidden, doubts = container.has_hidden_variables, container.doubts
    deployment = Deployment(
        words,
        env,
        configs,
        files,
        environment,
        places,
        *models,
        notes,
        container.installation,
        hidden,
        doubts,
        image_env=container.image_env,
        platform_doubt=platform_doubt,
        omni=omni,
        release_is_assumed=is_assumed,
        secrets=container.secrets,
        mounts=container.mounts,
        folder=container.folder,
        file_mount=container.file_mount,
        image_folder=container.image_folder,
        stated=container.stated,
        gpus=container.gpus,
        ray_nodes=container.ray_nodes,
    )
    return replace(
        base,
        vllm_version=version,
        release=release,
        deployment=deployment,
        pointer=pointer,
        manifest=(base.pointer, manifest.document),
    )


def _omni(container: Container, releases: Releases) -> Omni:
    """Whether the flag ``--omni`` starts vLLM-Omni, by the image, by the program, and by what is installed."""
    if images.starts_omni(container.image, releases.images):
        return Omni.STARTS
    is_named = any(name in word for word in container.words for name in OMNI_NAMES)
    if images.starts_vllm(container.image, releases.images):
        return Omni.MAY_START if is_named or container.installation is not None else Omni.IS_REFUSED
    return Omni.STARTS if is_named else Omni.MAY_START


def _with_known_version(container: Container, releases: Releases) -> Container:
    """The container without a presumed version that no known release has, else with a doubt about it."""
    if not container.version_is_presumed:
        return container
    source = container.version_cause or f"the tag of the image {quoted(container.image)}"
    try:
        releases.resolve(container.vllm_version)
    except (UnknownRelease, InvalidVersion):
        unversioned = f"{source} is not the version of a known release"
        return replace(container, vllm_version=None, unversioned=unversioned)
    doubt = f"{source} is taken as vLLM's version, and may be a version of the image's owner"
    return replace(container, installation=container.installation or Installation(None, doubt))


def _likely_release(container: Container, releases: Releases) -> tuple[str, Resolution] | None:
    """The version that a command may install, if it is that of a known release; the decision warns about it."""
    version = container.likely_version
    try:
        return None if version is None else (version, releases.resolve(version))
    except (UnknownRelease, InvalidVersion):
        return None


def values_along(document: Any, path: str) -> list[Any]:
    """The values along a path such as ``items[3].spec``, from the document to the last existing step."""
    return walk_path(document, path_steps(path))


def named_steps(path: str, values: list[Any]) -> tuple[str, ...]:
    """The steps of a path with list elements named by their `name`, if they have one, instead of their index.

    ``values`` are those along the path, the document first.
    """
    steps = path_steps(path)
    for place, (parent, value) in enumerate(pairwise(values)):
        if isinstance(parent, list) and isinstance(value, dict) and isinstance(value.get("name"), str):
            steps[place] = f"[{value['name']}]"
    return tuple(steps)


def name_of(document: object, path: str) -> str:
    """A container's name, ``namespace/kind/name/container`` with its object's names; the path if it has none.

    It has at most ``MAX_NAME`` characters of each name, as each container repeats those of its object.
    """
    values = values_along(document, path)
    names: list[str] = []
    for value in values:
        metadata = value.get("metadata") if isinstance(value, dict) and "kind" in value else None
        if isinstance(metadata, dict):
            names = [
                text[:MAX_NAME]
                for text in (metadata.get("namespace"), value["kind"], metadata.get("name"))
                if isinstance(text, str)
            ]
    container = values[-1] if len(values) > len(path_steps(path)) else None
    if names and isinstance(container, dict) and isinstance(container.get("name"), str):
        names.append(container["name"][:MAX_NAME])
    return "/".join(names) or path


def pointer_of(pointer: str, path: str, document: object) -> str:
    """The JSON pointer, below ``pointer``, of a path such as ``items[3].spec`` in a document.

    If the path continues inside a string, the pointer ends at the string.
    """
    values, steps = values_along(document, path), path_steps(path)
    if isinstance(values[-1], str):
        steps = steps[: len(values) - 1]
    return pointer + "".join(at("", step) for step in steps)


def path_steps(path: str) -> list[str]:
    """The steps of a path such as ``items[3].spec``."""
    return [step for part in path.split(".") for step in part.replace("]", "").split("[") if step]
