"""The documents of one YAML text → the document of a request.

A text may have a manifest's objects as documents of their own, as ``kubectl`` and ``helm`` print them, and one further
document with the request's other fields (``model_configs``, ``vllm_version`` …).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.parser.jsontext import NotJson, TooManyValues, with_replaced_halves
from policy.request.request import FIELDS, INPUTS

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

FIELDS_BESIDE_MANIFEST: Final = frozenset(FIELDS) - frozenset(INPUTS)
"""The fields of a request beside its manifest."""


def read_json_manifest(text: bytes, read: Callable[[bytes], Any]) -> Any:
    """The document that ``read`` returns; in a manifest, half of a surrogate pair becomes U+FFFD, as in Kubernetes.

    This way one object of a list does not affect the others. In any other document, half of a pair is refused.

    Raises:
        NotJson: the text is not JSON.
    """
    try:
        return read(text)
    except TooManyValues:
        raise
    except NotJson:
        replaced = with_replaced_halves(text)
        if replaced is None:
            raise
        try:
            document = read(replaced)
        except NotJson:
            document = None
        from policy.intake.manifests.registry import is_manifest  # noqa: PLC0415  # see `intake.manifests`

        if is_manifest(document.get("manifest", document) if isinstance(document, dict) else document):
            return document
        raise


def join_documents(documents: Sequence[Any]) -> Any:
    """A single document as it is; several as a list, which is a manifest.

    If exactly one of several has only fields of a request other than its input, the result is this request, with the
    others as its ``manifest``.
    """
    if len(documents) == 1:
        return documents[0]
    fields = [each for each in documents if _has_only_fields(each)]
    if len(fields) != 1:
        return [*documents]
    others = [each for each in documents if each is not fields[0]]
    return {**fields[0], "manifest": others[0] if len(others) == 1 else others}


def _has_only_fields(document: Any) -> bool:
    """Whether a document has fields of a request, and no input but a ``manifest`` of null."""
    if type(document) is not dict or document.get("manifest") is not None:
        return False
    return bool(document) and document.keys() - {"manifest"} <= FIELDS_BESIDE_MANIFEST
