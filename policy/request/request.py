"""Parse a request: its release, its layers, and its facts or the deployment from which to derive them.

Reports all faults at once, with their JSON pointers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.defects import contained
from policy.errors import INVALID_REQUEST, MAX_FAULTS, RemedyKind, RequestFault, RequestInvalid
from policy.facts.facts import Facts, read_facts
from policy.intake.command.config_file import secrets_of_files
from policy.intake.deployment import (
    ENVIRONMENT_FIELDS,
    Deployment,
    Environment,
    read_deployment,
    read_environment,
    read_model_configs,
)
from policy.intake.deployment import FIELDS as DEPLOYMENT_FIELDS
from policy.intake.manifests.document_secrets import secrets_of
from policy.messages import listed, nearest, quoted
from policy.pointer import at
from policy.rules.effects import Layer
from policy.rules.releases import InvalidVersion, Resolution, UnknownRelease, series
from policy.secret_values import SecretValues

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.rules.images import ImageTable
    from policy.rules.releases import Releases

INPUTS: Final = ("facts", "deployment", "manifest")
"""The fields that describe a deployment; a request has exactly one."""
FIELDS: Final = (
    *INPUTS,
    "model_configs",
    "environment",
    "vllm_version",
    "override_images",
    "layers",
    "request_id",
    "explain",
    "beyond_verified",
)
_FIELDS: Final = frozenset(FIELDS)
_COMMON_FIELDS: Final = {"deployment": frozenset(DEPLOYMENT_FIELDS), "environment": frozenset(ENVIRONMENT_FIELDS)}
"""The fields of a request that other files have too, with what a request has in them."""
MAX_FIELDS: Final = 32
"""How many fields of a document are compared with those of a request."""
MAX_UNKNOWN: Final = 3
"""A document with more fields, none of which is a request's, is another kind of file."""
WRITE_REQUEST: Final = 'write a request such as `{"facts": {"model_config": {}}}`'
OTHER_FILE: Final = (
    "expected a request with `facts`, `deployment` or `manifest`, or a manifest: an object with a `kind`, or another "
    "kind of file listed in docs/manifests.md"
)
OR_DOCUMENTS: Final = (
    ", or the objects of a manifest, beside which one of several YAML documents may have fields such as `model_configs`"
)
MAX_REQUEST_ID: Final = 256
NEAREST: Final = "nearest"
UNKNOWN_RELEASE: Final = "unknown-release"


class Request(Struct, frozen=True, gc=False):
    """A deployment to decide. ``vllm_version`` is the version as requested, or the default release.

    The facts of a ``deployment`` are not yet derived; ``pointer`` is its JSON pointer, or that of the facts, in the
    body. For a container of a manifest, ``manifest`` has the manifest's pointer and document. ``common``: whether
    ``fastpath`` decoded it.
    """

    facts: Facts
    vllm_version: str
    release: Resolution
    upstream_only: bool
    request_id: str | None
    explain: bool
    deployment: Deployment | None = None
    pointer: str = ""
    manifest: tuple[str, Any] | None = None
    common: bool = False


class Manifest(Struct, frozen=True):
    """A manifest whose containers are decided one by one.

    ``models_at`` is the pointer of the request's configurations, ``None`` for a bare manifest, which cannot have any.
    ``request`` is the request for each container, ``stated`` is whether it states a version, and ``nearest`` whether
    an unknown version may be decided by the nearest known release. With ``overrides``, the stated version also applies
    to containers whose image has one.
    """

    document: Any
    model_configs: dict[str, dict[str, Any]]
    environment: Environment
    models_at: str | None
    request: Request
    stated: bool
    nearest: bool
    overrides: bool = False


def read_request(document: object, releases: Releases, pointer: str = "") -> Request:
    """Parse a request for one deployment; ``pointer`` is the document's JSON pointer in the body.

    Raises:
        RequestInvalid: the document has faults; the problem is ``unknown-release`` if the version is unknown.
    """
    request = read_request_or_manifest(document, releases, pointer)
    if isinstance(request, Manifest):
        raise RequestInvalid([RequestFault(pointer, "expected a request for one deployment, got a manifest")])
    return request


def is_bare_manifest(document: object, images: ImageTable) -> bool:
    """Whether a document is a manifest, not a request: a kind, a known shape, or values of a chart that show vLLM.

    Values have no field of a request, except for ``deployment`` and ``environment`` with other contents. ``images`` has
    the images that contain vLLM.
    """
    if type(document) is dict and document.keys() <= _FIELDS:
        return False  # no kind, and no shape or values of a chart have only fields of a request
    from policy.intake.manifests.registry import is_manifest, shows_engines  # noqa: PLC0415  # see `intake.manifests`

    if is_manifest(document):
        return True
    first = document[0] if type(document) is list and document else document
    if type(first) is not dict or not _may_be_values(first):
        return False
    is_misspelt = any(key not in _FIELDS and nearest(key, FIELDS, 0.8) for key in islice(first, MAX_FIELDS))
    return shows_engines(first, images, commands=not is_misspelt)


def _may_be_values(document: Mapping[str, Any]) -> bool:
    """Whether a document has no field of a request with contents of one."""
    if document.keys() <= _FIELDS or not (_FIELDS - _COMMON_FIELDS.keys()).isdisjoint(document):
        return False
    return all(
        type(document.get(name)) is not dict or (document[name] and fields.isdisjoint(document[name]))
        for name, fields in _COMMON_FIELDS.items()
    )


def read_request_or_manifest(document: object, releases: Releases, pointer: str = "") -> Request | Manifest:
    """Parse a request for one deployment or for those of a manifest; a bare manifest is accepted too.

    Raises:
        RequestInvalid: the document has faults; the problem is ``unknown-release`` if the version is unknown. They show
            no secret that the document states.
    """
    with contained(pointer):
        try:
            return _read_request_or_manifest(document, releases, pointer)
        except RequestInvalid as error:
            error.hide(SecretValues(secrets_of_request(document, releases.images)))
            raise


def secrets_of_request(document: object, images: ImageTable) -> Iterator[str]:
    """The secrets that a request states, even one with faults: facts have none.

    Those of the files of a deployment, and those that a container of a manifest has from elsewhere in it, are included.
    """
    fields = document if type(document) is dict else {}
    yield from secrets_of({name: value for name, value in fields.items() if name != "facts"} if fields else document)
    deployment = fields.get("deployment")
    files = deployment.get("files") if type(deployment) is dict else None
    if type(files) is dict:
        yield from secrets_of_files({name: text for name, text in files.items() if type(text) is str})
    if "manifest" in fields or is_bare_manifest(document, images):
        from policy.intake.manifests.registry import read_manifest  # noqa: PLC0415  # see `intake.manifests`

        secrets: set[str] = set()
        read_manifest(fields.get("manifest", document), "", [], images, secrets=secrets)
        yield from sorted(secrets)


def _read_request_or_manifest(document: object, releases: Releases, pointer: str) -> Request | Manifest:
    if is_bare_manifest(document, releases.images):
        document, at_manifest, models_at = {"manifest": document}, pointer, None
    else:
        at_manifest, models_at = f"{pointer}/manifest", f"{pointer}/model_configs"
    if type(document) is not dict:
        message = f"expected an object, got {quoted(document)}; {WRITE_REQUEST}"
        raise RequestInvalid([RequestFault(pointer, f"{message}{OR_DOCUMENTS}" if type(document) is list else message)])
    faults: list[RequestFault] = []
    if not document.keys() <= _FIELDS:
        faults.extend(_unknown_field_faults(document, pointer))
    release, problem = _read_release(document, releases, pointer, faults)
    request_id = document.get("request_id")
    if request_id is not None and (type(request_id) is not str or len(request_id) > MAX_REQUEST_ID):
        faults.append(
            RequestFault(
                at(pointer, "request_id"),
                f"expected a string of at most {MAX_REQUEST_ID} characters, got {quoted(request_id)}",
            )
        )
    explain = document.get("explain", False)
    if explain is not True and explain is not False:
        faults.append(RequestFault(at(pointer, "explain"), f"expected `true` or `false`, got {quoted(explain)}"))
    field = _read_input(document, pointer, faults)
    facts, deployment = Facts([]), None
    if field == "facts":
        facts = read_facts(document["facts"], series(release.decided_as), f"{pointer}/facts", faults)
    elif field == "deployment":
        deployment = read_deployment(document["deployment"], f"{pointer}/deployment", faults)
    overrides = _read_override(document, field, pointer, faults)
    configs = read_model_configs(document.get("model_configs"), f"{pointer}/model_configs", faults)
    environment = read_environment(document.get("environment"), f"{pointer}/environment", faults)
    upstream_only = _read_layers(document, pointer, faults)
    if faults:
        raise RequestInvalid(faults, problem)
    version = document.get("vllm_version")
    place = at_manifest if field == "manifest" else f"{pointer}/{field}"
    request = Request(
        facts, version or release.decided_as, release, upstream_only, request_id, bool(explain), deployment, place
    )
    if field == "manifest":
        return Manifest(
            document["manifest"],
            configs,
            environment,
            models_at,
            request,
            version is not None,
            document.get("beyond_verified") == NEAREST,
            overrides,
        )
    return request


def with_explanation(request: Request | Manifest) -> Request | Manifest:
    """The request with an explanation."""
    return (
        replace(request, explain=True)
        if isinstance(request, Request)
        else replace(request, request=replace(request.request, explain=True))
    )


def _read_input(document: Mapping[str, Any], pointer: str, faults: list[RequestFault]) -> str:
    """The name of the field that describes the deployment; the first one if there are several, which is a fault."""
    names = [name for name in INPUTS if name in document]
    if not names:
        faults.append(
            RequestFault(
                pointer,
                f'expected one of {listed(INPUTS)}; add one, or write `"facts": {{}}` for the defaults',
            )
        )
        return ""
    faults.extend(
        RequestFault(at(pointer, name), f"a request has one of {listed(INPUTS)}, and this one has `{names[0]}` already")
        for name in names[1:]
    )
    if names[0] != "manifest":
        place = "in `deployment`" if names[0] == "deployment" else "beside a `manifest`"
        faults.extend(
            RequestFault(at(pointer, name), f"`{name}` belongs {place}")
            for name in ("model_configs", "environment")
            if name in document
        )
    return names[0]


def _read_override(document: Mapping[str, Any], field: str, pointer: str, faults: list[RequestFault]) -> bool:
    """Whether the version overrides those of images; only a manifest has images."""
    overrides = document.get("override_images", False)
    place = at(pointer, "override_images")
    if overrides is not True and overrides is not False:
        faults.append(RequestFault(place, f"expected `true` or `false`, got {quoted(overrides)}"))
    elif overrides and field and field != "manifest":
        faults.append(RequestFault(place, "`override_images` belongs beside a `manifest`"))
    elif overrides and document.get("vllm_version") is None:
        faults.append(
            RequestFault(place, "`override_images` needs a `vllm_version`, for which all engines are decided")
        )
    return overrides is True


def _unknown_field_faults(document: Mapping[str, Any], pointer: str) -> list[RequestFault]:
    if len(document) > MAX_UNKNOWN and _FIELDS.isdisjoint(document):
        return [
            RequestFault(pointer, f"{OTHER_FILE}, got the fields {listed(islice(document, MAX_UNKNOWN))} and others")
        ]
    unknown = islice((key for key in document if key not in _FIELDS), MAX_FAULTS)
    return [
        RequestFault(at(pointer, key), f"unknown field {quoted(key)}; legal: {listed(FIELDS)}{nearest(key, FIELDS)}")
        for key in unknown
    ]


def _read_release(
    document: Mapping[str, Any], releases: Releases, pointer: str, faults: list[RequestFault]
) -> tuple[Resolution, str]:
    """The release to decide by, or the default release after a fault, and the problem to report for a fault."""
    version, beyond = document.get("vllm_version"), document.get("beyond_verified")
    if beyond is not None and beyond != NEAREST:
        faults.append(
            RequestFault(
                at(pointer, "beyond_verified"),
                f"{quoted(beyond)} is not legal; legal: {listed([NEAREST])}, or leave it out",
            )
        )
    place = at(pointer, "vllm_version")
    if version is not None and type(version) is not str:
        faults.append(
            RequestFault(
                place, f'expected a string, got {quoted(version)}; write the version in quotes, such as `"0.23.0"`'
            )
        )
        version = None
    try:
        return releases.resolve(version, nearest=beyond == NEAREST), INVALID_REQUEST
    except UnknownRelease as error:
        faults.append(RequestFault(place, str(error), RemedyKind.KNOWN_RELEASE))
        return releases.resolve(None), UNKNOWN_RELEASE
    except InvalidVersion as error:
        faults.append(RequestFault(place, str(error)))
        return releases.resolve(None), INVALID_REQUEST


def _read_layers(document: Mapping[str, Any], pointer: str, faults: list[RequestFault]) -> bool:
    """Whether only the upstream layer is requested."""
    layers = document.get("layers")
    if layers is None:
        return False
    if type(layers) is list and all(type(layer) is str for layer in layers):
        if layers == [Layer.UPSTREAM]:
            return True
        if sorted(layers) == sorted(Layer):
            return False
    legal = ['["upstream"]', '["upstream", "house"]']
    faults.append(RequestFault(at(pointer, "layers"), f"{quoted(layers)} is not legal; legal: {listed(legal)}"))
    return False
