"""A request as users write it → what is asked: a release, facts, layers.

Owns the members of a request and every fault in them, all at once, with JSON pointers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.errors import Misfit, RequestInvalid, at, listed, nearest, quoted
from policy.facts import Facts, read_facts
from policy.precedence import Layer
from policy.releases import NoVersion, Resolution, UnknownRelease, series

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.releases import Releases

MEMBERS: Final = ("facts", "vllm_version", "layers", "request_id", "explain", "beyond_verified")
MAX_REQUEST_ID: Final = 256
MAX_UNKNOWN: Final = 32
NEAREST: Final = "nearest"
INVALID: Final = "invalid-request"
UNKNOWN_RELEASE: Final = "unknown-release"


class Request(Struct, frozen=True, gc=False):
    """One deployment to decide; ``vllm_version`` is the text that was asked for, or the default release."""

    facts: Facts
    vllm_version: str
    release: Resolution
    upstream_only: bool
    request_id: str | None
    explain: bool


def read_request(document: object, releases: Releases, pointer: str = "") -> Request:
    """What a request's document asks; ``pointer`` is the document's place in the body.

    Raises:
        RequestInvalid: with every fault; of the kind ``unknown-release`` where the version is no known one.
    """
    if type(document) is not dict:
        raise RequestInvalid([Misfit(pointer, f'{quoted(document)} is no request; write an object such as `{{"facts": {{"model_config": {{}}}}}}`')])
    faults: list[Misfit] = []
    if not document.keys() <= _MEMBERS:
        faults.extend(_unknown_members(document, pointer))
    release, problem = _read_release(document, releases, pointer, faults)
    request_id = document.get("request_id")
    if request_id is not None and (type(request_id) is not str or len(request_id) > MAX_REQUEST_ID):
        faults.append(Misfit(at(pointer, "request_id"), f"{quoted(request_id)} is no text of at most {MAX_REQUEST_ID} characters"))
    explain = document.get("explain", False)
    if explain is not True and explain is not False:
        faults.append(Misfit(at(pointer, "explain"), f"{quoted(explain)} is neither `true` nor `false`"))
    if "facts" in document:
        facts = read_facts(document["facts"], series(release.decided_as), f"{pointer}/facts", faults)
    else:
        facts = Facts([])
        faults.append(Misfit(pointer, 'no `facts`; say what is to be deployed, or write `"facts": {}` for the defaults'))
    upstream_only = _read_layers(document, pointer, faults)
    if faults:
        raise RequestInvalid(faults, problem)
    return Request(facts, document.get("vllm_version") or release.decided_as, release, upstream_only, request_id, bool(explain))


def _unknown_members(document: Mapping[str, Any], pointer: str) -> list[Misfit]:
    unknown = [key for key in document if key not in _MEMBERS]
    return [Misfit(at(pointer, key), f"unknown member {quoted(key)}; legal: {listed(MEMBERS)}{nearest(key, MEMBERS)}") for key in unknown[:MAX_UNKNOWN]]


def _read_release(document: Mapping[str, Any], releases: Releases, pointer: str, faults: list[Misfit]) -> tuple[Resolution, str]:
    """The release that decides, and what kind of problem a fault would be; after a fault, the default release."""
    version, beyond = document.get("vllm_version"), document.get("beyond_verified")
    if beyond is not None and beyond != NEAREST:
        faults.append(Misfit(at(pointer, "beyond_verified"), f"{quoted(beyond)} is not legal; legal: {listed([NEAREST])}, or leave it out"))
    place = at(pointer, "vllm_version")
    if version is not None and type(version) is not str:
        faults.append(Misfit(place, f'{quoted(version)} is no text; write the version in quotes, such as `"0.23.0"`'))
        version = None
    try:
        return releases.resolve(version, nearest=beyond == NEAREST), INVALID
    except UnknownRelease as error:
        faults.append(Misfit(place, str(error)))
        return releases.resolve(None), UNKNOWN_RELEASE
    except NoVersion as error:
        faults.append(Misfit(place, str(error)))
        return releases.resolve(None), INVALID


def _read_layers(document: Mapping[str, Any], pointer: str, faults: list[Misfit]) -> bool:
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
    faults.append(Misfit(at(pointer, "layers"), f"{quoted(layers)} is not legal; legal: {listed(legal)}"))
    return False


_MEMBERS: Final = frozenset(MEMBERS)
