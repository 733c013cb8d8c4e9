"""A request as users write it → what is asked: a release, facts or the deployment that they are to be derived of, layers.

Owns the members of a request and every fault in them, all at once, with JSON pointers.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.facts.facts import Facts, read_facts
from policy.intake.deployment import Deployment, Environment, read_deployment, read_environment, read_model_configs
from policy.intake.manifests import is_manifest
from policy.messages import listed, nearest, quoted
from policy.pointer import at
from policy.rules.effects import Layer
from policy.rules.releases import InvalidVersion, Resolution, UnknownRelease, series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.rules.releases import Releases

WAYS: Final = ("facts", "deployment", "manifest")
"""The ways to say what is to be deployed; a request has one."""
MEMBERS: Final = (
    *WAYS,
    "model_configs",
    "environment",
    "vllm_version",
    "layers",
    "request_id",
    "explain",
    "beyond_verified",
)
MAX_REQUEST_ID: Final = 256
NEAREST: Final = "nearest"
INVALID: Final = "invalid-request"
UNKNOWN_RELEASE: Final = "unknown-release"


class Request(Struct, frozen=True, gc=False):
    """One deployment to decide; ``vllm_version`` is the text that was asked for, or the default release.

    Of a ``deployment`` the facts are still to be derived; ``pointer`` is its place in the body. One in a manifest has ``manifest``, that one's
    place and document.
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


class Manifest(Struct, frozen=True):
    """A manifest to be decided container by container.

    ``models_at`` is where the request states configurations, ``None`` where a bare manifest has no place for them, ``request`` what is asked of
    each container, ``stated`` whether that says a version, and ``nearest`` whether one that is not known may stand for the nearest.
    """

    document: Any
    model_configs: dict[str, dict[str, Any]]
    environment: Environment
    models_at: str | None
    request: Request
    stated: bool
    nearest: bool


def read_request(document: object, releases: Releases, pointer: str = "") -> Request:
    """What a request for one deployment asks; ``pointer`` is the document's place in the body.

    Raises:
        RequestInvalid: with every fault; of the kind ``unknown-release`` where the version is no known one.
    """
    asked = read_request_or_manifest(document, releases, pointer)
    if isinstance(asked, Manifest):
        raise RequestInvalid([RequestFault(pointer, "a manifest has any number of deployments; one is asked for here")])
    return asked


def read_request_or_manifest(document: object, releases: Releases, pointer: str = "") -> Request | Manifest:
    """What a request's document asks, for one deployment or for those of a manifest; a bare manifest is one too.

    Raises:
        RequestInvalid: with every fault; of the kind ``unknown-release`` where the version is no known one.
    """
    if is_manifest(document):
        document, at_manifest, models_at = {"manifest": document}, pointer, None
    else:
        at_manifest, models_at = f"{pointer}/manifest", f"{pointer}/model_configs"
    if type(document) is not dict:
        raise RequestInvalid(
            [
                RequestFault(
                    pointer,
                    f'{quoted(document)} is no request; write an object such as `{{"facts": {{"model_config": {{}}}}}}`',
                )
            ]
        )
    faults: list[RequestFault] = []
    if not document.keys() <= _MEMBERS:
        faults.extend(_unknown_members(document, pointer))
    release, problem = _read_release(document, releases, pointer, faults)
    request_id = document.get("request_id")
    if request_id is not None and (type(request_id) is not str or len(request_id) > MAX_REQUEST_ID):
        faults.append(
            RequestFault(
                at(pointer, "request_id"), f"{quoted(request_id)} is no text of at most {MAX_REQUEST_ID} characters"
            )
        )
    explain = document.get("explain", False)
    if explain is not True and explain is not False:
        faults.append(RequestFault(at(pointer, "explain"), f"{quoted(explain)} is neither `true` nor `false`"))
    way = _read_way(document, pointer, faults)
    facts, deployment = Facts([]), None
    if way == "facts":
        facts = read_facts(document["facts"], series(release.decided_as), f"{pointer}/facts", faults)
    elif way == "deployment":
        deployment = read_deployment(document["deployment"], f"{pointer}/deployment", faults)
    configs = read_model_configs(document.get("model_configs"), f"{pointer}/model_configs", faults)
    environment = read_environment(document.get("environment"), f"{pointer}/environment", faults)
    upstream_only = _read_layers(document, pointer, faults)
    if faults:
        raise RequestInvalid(faults, problem)
    version = document.get("vllm_version")
    place = at_manifest if way == "manifest" else f"{pointer}/deployment"
    request = Request(
        facts, version or release.decided_as, release, upstream_only, request_id, bool(explain), deployment, place
    )
    if way == "manifest":
        return Manifest(
            document["manifest"],
            configs,
            environment,
            models_at,
            request,
            version is not None,
            document.get("beyond_verified") == NEAREST,
        )
    return request


def with_explanation(asked: Request | Manifest) -> Request | Manifest:
    """The same, with an explanation asked for."""
    return (
        replace(asked, explain=True)
        if isinstance(asked, Request)
        else replace(asked, request=replace(asked.request, explain=True))
    )


def _read_way(document: Mapping[str, Any], pointer: str, faults: list[RequestFault]) -> str:
    """The one way in which a request says what is to be deployed; the first of several, after a fault."""
    ways = [way for way in WAYS if way in document]
    if not ways:
        faults.append(
            RequestFault(
                pointer,
                f'none of {listed(WAYS)}; say what is to be deployed, or write `"facts": {{}}` for the defaults',
            )
        )
        return ""
    faults.extend(
        RequestFault(at(pointer, way), f"a request has one of {listed(WAYS)}, and this one has `{ways[0]}` already")
        for way in ways[1:]
    )
    if ways[0] != "manifest":
        of = "in `deployment`" if ways[0] == "deployment" else "beside a `manifest`"
        faults.extend(
            RequestFault(at(pointer, name), f"`{name}` stands {of}")
            for name in ("model_configs", "environment")
            if name in document
        )
    return ways[0]


def _unknown_members(document: Mapping[str, Any], pointer: str) -> list[RequestFault]:
    unknown = islice((key for key in document if key not in _MEMBERS), MAX_FAULTS)
    return [
        RequestFault(at(pointer, key), f"unknown member {quoted(key)}; legal: {listed(MEMBERS)}{nearest(key, MEMBERS)}")
        for key in unknown
    ]


def _read_release(
    document: Mapping[str, Any], releases: Releases, pointer: str, faults: list[RequestFault]
) -> tuple[Resolution, str]:
    """The release that decides, and what kind of problem a fault would be; after a fault, the default release."""
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
            RequestFault(place, f'{quoted(version)} is no text; write the version in quotes, such as `"0.23.0"`')
        )
        version = None
    try:
        return releases.resolve(version, nearest=beyond == NEAREST), INVALID
    except UnknownRelease as error:
        faults.append(RequestFault(place, str(error)))
        return releases.resolve(None), UNKNOWN_RELEASE
    except InvalidVersion as error:
        faults.append(RequestFault(place, str(error)))
        return releases.resolve(None), INVALID


def _read_layers(document: Mapping[str, Any], pointer: str, faults: list[RequestFault]) -> bool:
    """Whether upstream alone is asked."""
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


_MEMBERS: Final = frozenset(MEMBERS)
