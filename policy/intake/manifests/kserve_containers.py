"""How KServe 0.20 merges the container of a predictor's model into that of its runtime (read in August 2026)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.huggingface_server import MODEL_PATH
from policy.intake.manifests.pods import read_env_from, read_variable
from policy.intake.manifests.strategic_merge import merge_lists

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode


CONTROLLER_PLACE: Final = "added by KServe"
SHIPPED_ARGUMENTS: Final = {
    "vllm": ("--port=8080", "--served-model-name={{.Name}}", f"--model={MODEL_PATH}"),
    "huggingface": ("--model_name={{.Name}}",),
}
"""The arguments of the runtimes that KServe ships for these model formats; a predictor's own command gets them too."""


def merge_container(
    own: EngineDraft, base: ManifestNode | None, draft: EngineDraft, model: ManifestNode, shipped: Sequence[str]
) -> None:
    """Merge the container of a predictor's model into ``base``, that of its runtime; None if the manifest has none.

    ``shipped`` has the arguments of the runtime if KServe ships it. They are added only to a command of the
    predictor's, which may use them differently from vLLM's server. Such a command replaces the runtime's, the
    predictor's arguments follow the runtime's, and its hooks and probes replace the runtime's.
    """
    written, of_runtime = ([*zip(each.words, each.places, strict=True)] for each in (draft, own))
    if draft.has_command:
        count = sum(place.startswith("command") for place in draft.places)
        kept = [(word, place) for word, place in of_runtime if place.startswith("runtime.args")]
        if base is None:
            kept = [(word, CONTROLLER_PLACE) for word in shipped]
        of_runtime, written, own.has_command = [*written[:count], *kept], written[count:], True
    own.words, own.places = ([pair[side] for pair in [*of_runtime, *written]] for side in (0, 1))
    if base is None:
        own.env.update(draft.env)
        own.replacing_source = draft.replacing_source
    else:
        _merge_variables(own, base, model)
    own.commands_beside = [*{each.field: each for each in (*own.commands_beside, *draft.commands_beside)}.values()]
    own.secrets |= draft.stated_secrets()
    own.mounts |= draft.mounts
    own.folder = draft.folder or own.folder
    own.has_hidden_variables = own.has_hidden_variables or draft.has_hidden_variables
    own.image = draft.image or own.image
    own.gpus = draft.gpus or own.gpus
    own.file_mounts += draft.file_mounts
    own.files.update(draft.files)
    for note in draft.notes:
        own.note(note)


def _merge_variables(own: EngineDraft, base: ManifestNode, model: ManifestNode) -> None:
    """Set the variables of a runtime's container with those of a predictor's model merged in place.

    A variable keeps its place in the runtime, so that others refer to the predictor's value. ``envFrom`` replaces the
    runtime's.
    """
    below, above = ([item for item in node.get("env").items() if _is_variable(item)] for node in (base, model))
    named = {item.value["name"]: item for item in [*below, *above]}
    own.env.clear()
    own.has_hidden_variables, own.replacing_source = False, ""
    read_env_from(model.get("envFrom") if model.get("envFrom").value else base.get("envFrom"), own)
    for item in merge_lists([item.value for item in below], [item.value for item in above], "name"):
        node = named[item["name"]]
        read_variable(node.with_value(_with_one_value(item, node.value)), own)


def _is_variable(item: ManifestNode) -> bool:
    return isinstance(item.value, dict) and isinstance(item.value.get("name"), str)


def _with_one_value(item: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """A merged variable with the source that the upper one states, if both a value and ``valueFrom`` are left."""
    if not (item.get("value") and item.get("valueFrom")):
        return item
    return {name: value for name, value in item.items() if name != ("value" if above.get("valueFrom") else "valueFrom")}
