"""The annotations of an engine: on its object, its pod template, or a level between.

Owns their names and values; of several with the same name the innermost counts.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.errors import RemedyKind, RequestFault, RequestInvalid
from policy.messages import quoted
from policy.parser.jsontext import NotJson, read_json
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.errors import Remedies

SET_ENV: Final = "runner-policy/set-env"
MODEL_CONFIGS: Final = "runner-policy/model-configs"
VLLM_VERSION: Final = "runner-policy/vllm-version"
BEYOND_VERIFIED: Final = "runner-policy/beyond-verified"
MAX_ANNOTATION: Final = 262_144
FIELD_ANNOTATIONS: Final = {"vllm_version": VLLM_VERSION, "beyond_verified": BEYOND_VERIFIED}
"""The annotation for each field of a request."""
REMEDIES: Final[Remedies] = {
    RemedyKind.MODEL_CONFIG: f"write it into the annotation `{MODEL_CONFIGS}`",
    RemedyKind.KNOWN_RELEASE: f"name one of them, or annotate `{BEYOND_VERIFIED}: nearest`",
    RemedyKind.VERSION: f"annotate `{VLLM_VERSION}`",
}
"""The remedies, worded for the owner of an object."""


class EngineAnnotations(Struct, frozen=True):
    """The values of an engine's annotations."""

    model_configs: str | None = None
    vllm_version: str | None = None
    beyond_verified: str | None = None

    def members(self) -> dict[str, Any]:
        """The annotations as fields of a request.

        Raises:
            RequestInvalid: an annotation is invalid.
        """
        fields = {"vllm_version": self.vllm_version, "beyond_verified": self.beyond_verified}
        return fields if self.model_configs is None else {**fields, "model_configs": _model_configs(self.model_configs)}


NO_ANNOTATIONS: Final = EngineAnnotations()


def annotations_on(nodes: Sequence[Any]) -> EngineAnnotations:
    """The annotations of the engine at the end of ``nodes``."""
    return EngineAnnotations(
        annotation_of(nodes, MODEL_CONFIGS), annotation_of(nodes, VLLM_VERSION), annotation_of(nodes, BEYOND_VERIFIED)
    )


def name_annotations(error: RequestInvalid) -> RequestInvalid:
    """The error with the same faults, each of which names its annotation."""
    names = ((FIELD_ANNOTATIONS.get(fault.pointer.removeprefix("/"), MODEL_CONFIGS), fault) for fault in error.faults)
    return RequestInvalid(
        [replace(fault, message=f"the annotation `{name}`: {fault.message}") for name, fault in names],
        error.problem,
    )


def annotation_of(nodes: Sequence[Any], name: str) -> str | None:
    """The value of an annotation on the object, its pod template or a level between; the innermost counts."""
    maps = (metadata_of(node).get("annotations") for node in reversed(nodes))
    value = next((each[name] for each in maps if isinstance(each, dict) and each.get(name) is not None), None)
    return value if value is None or isinstance(value, str) else quoted(value)


def metadata_of(value: Any) -> dict[str, Any]:
    """An object's metadata; empty if the value is not an object."""
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _model_configs(text: str) -> Any:
    """The document of an annotation.

    Raises:
        RequestInvalid: it is too long, or not JSON.
    """
    pointer = at("/metadata/annotations", MODEL_CONFIGS)
    if len(text) > MAX_ANNOTATION:
        message = f"the annotation `{MODEL_CONFIGS}` is longer than the {MAX_ANNOTATION} characters that are read"
        raise RequestInvalid([RequestFault(pointer, message)])
    try:
        return read_json(text.encode(errors="replace"))
    except NotJson as error:
        raise RequestInvalid([RequestFault(pointer, f"the annotation `{MODEL_CONFIGS}`: {error}")]) from error
