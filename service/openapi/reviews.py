"""The schemas of Kubernetes admission reviews, as an API server sends them; fields that are not read may be anything.

They have the names of ``k8s.io/api/admission/v1``. Not here: the answers, whose types are in ``service.admission``.
"""

from __future__ import annotations

from service.admission.review import API_VERSION, KIND, MAX_UID, OPERATIONS, STARTING_OPERATIONS
from service.openapi.shapes import TEXT, Schema, nullable, ref


def reviews() -> dict[str, Schema]:
    """The schemas by name."""
    texts = {"type": ["array", "null"], "items": nullable(TEXT)}
    members = {
        "apiVersion": {**TEXT, "const": API_VERSION, "description": "the version of the review"},
        "kind": {**TEXT, "const": KIND, "description": "the kind of the review"},
        "request": {**ref("AdmissionRequest"), "description": "what is to be admitted"},
    }
    return {
        "AdmissionReviewRequest": {
            "type": "object",
            "description": "A review as a Kubernetes API server sends it.",
            "required": list(members),
            "properties": members,
        },
        "AdmissionRequest": _request(),
        "GroupVersionKind": _kind("The kind of an object.", "kind"),
        "GroupVersionResource": _kind("The resource of an object.", "resource"),
        "UserInfo": {
            "type": "object",
            "description": "The user of the Kubernetes API who makes the request.",
            "properties": {
                "username": nullable(TEXT, "the user's name"),
                "uid": nullable(TEXT, "the user's id"),
                "groups": {**texts, "description": "the user's groups"},
                "extra": {
                    "type": ["object", "null"],
                    "additionalProperties": texts,
                    "description": "further attributes of the user",
                },
            },
        },
        "KubernetesObject": {
            "type": "object",
            "description": "An object of the Kubernetes API.",
            "additionalProperties": True,
        },
    }


def _request() -> Schema:
    starting: Schema = {"properties": {"operation": {"enum": list(STARTING_OPERATIONS)}}}
    found = {
        "uid": {**TEXT, "minLength": 1, "maxLength": MAX_UID, "description": "returned in the answer"},
        "operation": {"enum": list(OPERATIONS), "description": "the operation on the object"},
        "kind": {
            "type": "object",
            "description": "the kind of the object",
            "required": ["kind"],
            "properties": {
                "group": nullable(TEXT, "the API group"),
                "version": nullable(TEXT, "the version"),
                "kind": {**TEXT, "minLength": 1, "description": "the kind"},
            },
        },
        "requestKind": nullable(ref("GroupVersionKind"), "the kind of the original request"),
        "resource": nullable(ref("GroupVersionResource"), "the resource of the object"),
        "requestResource": nullable(ref("GroupVersionResource"), "the resource of the original request"),
        "name": nullable(TEXT, "the object's name"),
        "namespace": nullable(TEXT, "the object's namespace"),
        "subResource": nullable(TEXT, "the subresource, such as `scale`"),
        "requestSubResource": nullable(TEXT, "the subresource of the original request"),
        "userInfo": nullable(ref("UserInfo"), "who makes the request"),
        "object": nullable(ref("KubernetesObject"), "the object; needed to create or update one"),
        "oldObject": nullable(ref("KubernetesObject"), "the object before"),
        "options": nullable(ref("KubernetesObject"), "options of the operation"),
        "dryRun": {"type": ["boolean", "null"], "description": "whether nothing will be stored"},
    }
    return {
        "type": "object",
        "description": "A request for admission.",
        "required": ["uid", "operation", "kind"],
        "properties": found,
        "if": starting,
        "then": {"required": ["object"], "properties": {"object": {"type": "object"}}},
    }


def _kind(description: str, last: str) -> Schema:
    members = {
        "group": nullable(TEXT, "the API group"),
        "version": nullable(TEXT, "the version"),
        last: nullable(TEXT, f"the {last}"),
    }
    return {"type": "object", "description": description, "properties": members}
