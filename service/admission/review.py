"""Kubernetes' admission documents: review and response (``k8s.io/api/admission/v1``).

Owns their fields, and every fault in a review. Not here: the content of the object (``engines``).
"""

from __future__ import annotations

from typing import Any, Final, Literal

from msgspec import UNSET, MsgspecError, Struct, UnsetType
from msgspec.json import Decoder

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.intake.manifests.reading import ManifestNode, ManifestReader
from policy.messages import listed, quoted
from policy.pointer import at

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
STARTING_OPERATIONS: Final = ("CREATE", "UPDATE")
OPERATIONS: Final = (*STARTING_OPERATIONS, "DELETE", "CONNECT")
MAX_UID: Final = 128

MAX_USER: Final = 256
"""Characters by which users are distinguished."""
UNKNOWN_USER: Final = "-"

Result = Literal["allowed", "warned", "denied", "patched", "undecided", "ignored"]


class Review(Struct, frozen=True):
    """A review: an operation on an object of a kind."""

    uid: str
    operation: str
    group: str
    version: str
    kind: str
    sub_resource: str
    dry_run: bool
    object: dict[str, Any] | None
    old_object: dict[str, Any] | None


class Status(Struct, frozen=True):
    """Why an object is denied."""

    message: str
    code: int = 403
    reason: str = "Forbidden"


class Response(Struct, frozen=True, rename="camel"):
    """An ``AdmissionResponse``; as JSON, ``patch`` is base64."""

    uid: str
    allowed: bool
    status: Status | UnsetType = UNSET
    patch: bytes | UnsetType = UNSET
    patch_type: Literal["JSONPatch"] | UnsetType = UNSET
    audit_annotations: dict[str, str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class AdmissionReview(Struct, frozen=True, rename="camel"):
    """The document of a response."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


class ReviewAnswer(Struct, frozen=True):
    """The answer to a review, and its result for metrics; every answer that does not allow the object is ``denied``."""

    response: AdmissionReview
    result: Result


class _UserInfo(Struct):
    username: str = ""


class _Request(Struct, rename="camel"):
    user_info: _UserInfo


class _SentReview(Struct):
    """The part of a review that says who sent the object; the rest is skipped."""

    request: _Request


_decode_user: Final = Decoder(_SentReview).decode


def user_of(body: bytes) -> str:
    """The name of the user who sent the object under review, or ``UNKNOWN_USER`` if the body does not say."""
    try:
        found = _decode_user(body).request.user_info.username
    except (MsgspecError, ValueError, RecursionError):  # the worker process says what is wrong with the body
        return UNKNOWN_USER
    return found[:MAX_USER] or UNKNOWN_USER


def read_review(document: Any) -> Review:
    """Read a review's document.

    Raises:
        RequestInvalid: with every fault.
    """
    if not isinstance(document, dict):
        raise RequestInvalid(
            [
                RequestFault(
                    "", f"expected an AdmissionReview, got {quoted(document)}; a Kubernetes API server sends one"
                )
            ]
        )
    faults: list[RequestFault] = []
    root = ManifestNode(ManifestReader(faults), document)
    for member, legal in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(member) != legal:
            root.get(member).fault(f"unsupported value {quoted(document.get(member))}; legal: {listed([legal])}")
    request = root.get("request")
    if not request.is_object():
        if request.value is None:
            request.fault("missing `request`; every review has one")
        raise RequestInvalid(faults)
    operation = _required(request, "operation")
    if operation and operation not in OPERATIONS:
        request.get("operation").fault(f"unknown operation {quoted(operation)}; legal: {listed(OPERATIONS)}")
    uid = _required(request, "uid")
    if len(uid) > MAX_UID:
        request.get("uid").fault(f"at most {MAX_UID} characters are accepted, got {len(uid)}")
    group, version, kind = (request.get("kind", member).text() for member in ("group", "version", "kind"))
    if not kind:
        request.get("kind").fault("missing kind; a review names the kind of its object")
    for name, last in (("requestKind", "kind"), ("resource", "resource"), ("requestResource", "resource")):
        for member in ("group", "version", last):
            request.get(name, member).text()
    user = request.get("userInfo")
    for node in (user.get("username"), user.get("uid"), request.get("namespace"), request.get("name")):
        node.text()
    if user.is_object():
        _read_texts(user, "groups")
    extra = user.get("extra")
    for name in extra.value if extra.is_object() else ():
        if len(faults) >= MAX_FAULTS:
            break
        _read_texts(extra, name)
    objects = request.get("object"), request.get("oldObject")
    for item in (*objects, request.get("options")):
        item.is_object()
    if objects[0].value is None and operation in STARTING_OPERATIONS:
        objects[0].fault(f"missing `object`; {quoted(operation)} needs one")
    sub_resources = request.get("subResource").text(), request.get("requestSubResource").text()
    review = Review(
        uid=uid,
        operation=operation,
        group=group or "",
        version=version or "",
        kind=kind or "",
        sub_resource=sub_resources[0] or sub_resources[1] or "",
        dry_run=request.get("dryRun").flag(),
        object=objects[0].value,
        old_object=objects[1].value,
    )
    if faults:
        raise RequestInvalid(faults)
    return review


def _read_texts(parent: ManifestNode, member: str) -> None:
    """Check that a field is a list of strings; report the first item that is not one.

    A ``ManifestNode`` copies the names above it, so only an item with a fault gets one.
    """
    value = parent.value.get(member)
    index = (
        next((index for index, item in enumerate(value) if not isinstance(item, str | None)), None)
        if isinstance(value, list)
        else None
    )
    if index is not None:
        ManifestNode(parent.reader, value[index], pointer=at(at(parent.pointer, member), index)).text()
    elif not isinstance(value, list | None):
        parent.get(member).items()


def _required(request: ManifestNode, member: str) -> str:
    """The text of a required field; empty if it has a fault."""
    node = request.get(member)
    if node.value is None or node.value == "":
        node.fault(f"missing `{member}`; every review has one")
    return node.text() or ""
