"""The canaries of a KServe InferenceService (``spec.canary``, read at KServe 0.20, August 2026).

KServe makes a Deployment of each canary. Its predictor is the service's, with the fields that the canary states in
place of the service's: objects are merged, lists are replaced, and a value that is zero in Go replaces nothing. A
canary has no workers; one that states some is read with them, although KServe refuses it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

from policy.intake.manifests.kserve_runtimes import FORMAT_FIELDS, V2_FIELDS, V2_PROTOCOL
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

ZERO_VALUES: Final[tuple[Any, ...]] = (None, "", 0, [])
FORMAT_DOUBT: Final = (
    "KServe makes no `model` of {}, as it does of that field of `spec.predictor`, and may run the service's own model "
    "instead; write `model`"
)


class Canary(NamedTuple):
    """The predictor of a canary as KServe merges it.

    ``models`` has the predictors whose model the canary may run. There are several if it states the field of a format,
    because this release of KServe makes no ``model`` of that; ``doubt`` then says so, and is empty otherwise.
    """

    predictor: ManifestNode
    models: list[ManifestNode]
    doubt: str


def canaries(document: ManifestNode) -> Iterator[Canary]:
    """The canaries of a service, each merged over the service's predictor, with the canary's place in the manifest."""
    stable = document.get("spec", "predictor").value
    below = _with_model(stable) if isinstance(stable, dict) else {}
    for item in document.get("spec", "canary").items():
        own = item.get("predictor")
        if own.is_object():
            if not own.reader.may_copy_values(own, below):
                return
            yield _canary(own, {**_replaced(below, own.value), "workerSpec": own.value.get("workerSpec")})


def _canary(own: ManifestNode, merged: dict[str, Any]) -> Canary:
    of_formats = [own.get(name) for name in FORMAT_FIELDS if isinstance(own.value.get(name), dict)]
    if not of_formats:
        predictor = own.with_value(merged)
        return Canary(predictor, [predictor], "")
    common = {name: value for name, value in merged.items() if name not in FORMAT_FIELDS}
    models = [own.with_value({**common, "model": _with_storage(common.get("model"), of_formats[0].value)})]
    beside = {name: value for name, value in common.items() if name not in {"model", "workerSpec"}}
    models += [own.with_value({**beside, field.key: field.value}) for field in of_formats]
    return Canary(own.with_value(common), models, FORMAT_DOUBT.format(quoted(of_formats[0].path)))


def _with_storage(model: Any, field: dict[str, Any]) -> Any:
    """The service's model with the storage that the field of a format states, as KServe mounts that."""
    stated = {name: field[name] for name in ("storageUri", "storage") if field.get(name)}
    return {**model, **stated} if isinstance(model, dict) else model


def _with_model(predictor: dict[str, Any]) -> dict[str, Any]:
    """A predictor with a ``model`` in place of the field of its format, as KServe stores a service's predictor."""
    for name in FORMAT_FIELDS:
        fields = predictor.get(name)
        if isinstance(fields, dict):
            protocol = {"protocolVersion": V2_PROTOCOL} if name in V2_FIELDS else {}
            others = {key: value for key, value in predictor.items() if key != name}
            return {**others, "model": {"modelFormat": {"name": name}, **protocol, **fields}}
    return predictor


def _replaced(below: Any, above: Any) -> Any:
    """A value with the fields that another one states in place of its own."""
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    stated = {name: value for name, value in above.items() if value not in ZERO_VALUES}
    return {**below, **{name: _replaced(below.get(name), value) for name, value in stated.items()}}
