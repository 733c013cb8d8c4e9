"""KServe's LLMInferenceServiceConfig: configurations merged into a service, and rendered with its values.

KServe merges its own configurations by what the service is (one node or several, with or without prefill), then
``spec.baseRefs`` in their order, then the service. It looks for each in the service's namespace, then in its own. The
result is a Go template, whose values are those of the service as written (``serving.kserve.io`` v1alpha2, read at
KServe's main branch, August 2026).
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.go_template import UNKNOWN, TemplateContext, TemplateError, render
from policy.intake.manifests.quantities import round_up
from policy.intake.manifests.reading import ManifestNode
from policy.intake.manifests.strategic_merge import merge
from policy.intake.manifests.template_fields import References, template_doubt, written_doubt

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.manifests.reading import LLMConfig

PREFIX: Final = "kserve-"
"""The beginning of the names of KServe's own configurations, unless its installation sets another."""
PINNED_PREFIX: Final = "serving.kserve.io/"
"""The beginning of the annotations in a service's status that pin these names."""
TEMPLATE: Final = "{{"
OWN_COMMAND: Final = ("kvTransferConfig", "exec vllm serve")
"""What the command of one of KServe's own configurations contains if it is the one that this adapter knows."""
HARMLESS_FLAGS: Final = ("--ssl-", "--enable-ssl-refresh")
"""Flags that an unknown condition may leave out without a note."""


class MergedService:
    """A service with the configurations that it names and the manifest shows.

    ``spec`` is the result, a node whose faults point to the service's own spec. ``own`` is the spec as written, from
    which templates take their values. ``missing`` has the names in ``baseRefs`` that the manifest does not show,
    ``names`` those of the merged configurations, and ``uncertain`` those that may mean another configuration.
    """

    def __init__(self, document: ManifestNode) -> None:
        self.own = document.get("spec")
        self.names: list[str] = []
        self.missing: list[str] = []
        self.uncertain: list[str] = []
        self._metadata = document.get("metadata")
        self._configs: list[ManifestNode] = []
        found: list[Any] = []
        for item in self.own.get("baseRefs").items():
            name = item.get("name").text()
            config = document.reader.llm_config(name) if name else None
            if name and config is None:
                self.missing.append(name)
            elif name and config is not None and document.reader.may_copy_values(item, config.spec.value):
                self._add(name, config)
                found.append(config.spec.value)
        presets = []
        if document.reader.has_llm_configs and isinstance(self.own.value, dict):
            for name in _preset_names(document, self._over(self.own.value, found)):
                config = document.reader.llm_config(name)
                if config is not None and document.reader.may_copy_values(config.spec, config.spec.value):
                    self._add(name, config)
                    presets.append(_without_own_command(config.spec.value))
        self.spec = self.own
        if presets or found:
            every = [*presets, *found, self.own.value]
            self.spec = ManifestNode(
                document.reader, self._over(every[0], every[1:]), self.own.path, self.own.pointer, shares_pointer=True
            )
        self.context = context_of(document)

    def _add(self, name: str, config: LLMConfig) -> None:
        self.names.append(name)
        self._configs.append(config.spec)
        if not config.is_certain:
            self.uncertain.append(name)

    def field_doubt(self) -> str:
        """The doubt about a text by which rendering the service may change its fields; empty if there is none."""
        references = References(self._metadata.value, self.own.value)
        return template_doubt([self._metadata, self.own, *self._configs], references) or written_doubt(
            [self.own, *self._configs]
        )

    @staticmethod
    def _over(base: Any, others: Sequence[Any]) -> Any:
        for other in others:
            base = merge(base, other)
        return base


def _preset_names(document: ManifestNode, spec: Any) -> list[str]:
    """The names of KServe's own configurations for a service; ``spec`` is merged with ``baseRefs``."""
    status = document.value.get("status")
    pinned = status.get("annotations") if isinstance(status, dict) else None
    pinned = pinned if isinstance(pinned, dict) else {}
    prefill = spec.get("prefill") if isinstance(spec, dict) else None
    parts = [("prefill-", prefill), ("decode-", spec)] if isinstance(prefill, dict) else [("", spec)]
    names = []
    for part, workload in parts:
        has_workers = isinstance(workload, dict) and isinstance(workload.get("worker"), dict)
        name = f"config-llm-{part}{'worker-data-parallel' if has_workers else 'template'}"
        chosen = pinned.get(f"{PINNED_PREFIX}{name}")
        names.append(chosen if isinstance(chosen, str) else f"{PREFIX}{name}")
    return names


def _without_own_command(spec: Any) -> Any:
    """One of KServe's own configurations without the script whose command this adapter writes as flags."""
    if not isinstance(spec, dict):
        return spec
    result = _without_commands(spec)
    if isinstance(spec.get("prefill"), dict):
        result["prefill"] = _without_commands(spec["prefill"])
    return result


def _without_commands(workload: dict[str, Any]) -> dict[str, Any]:
    result = dict(workload)
    for name in ("template", "worker"):
        pod = workload.get(name)
        if isinstance(pod, dict) and isinstance(pod.get("containers"), list):
            result[name] = {**pod, "containers": [_without_command(container) for container in pod["containers"]]}
    return result


def _without_command(container: Any) -> Any:
    command = container.get("command") if isinstance(container, dict) else None
    script = command[-2] if isinstance(command, list) and command[2:] else None
    if not isinstance(script, str) or not all(part in script for part in OWN_COMMAND):
        return container
    return {name: value for name, value in container.items() if name != "command"}


def context_of(document: ManifestNode) -> TemplateContext:
    """What the templates of an object may refer to; a service's model has the service's name by default."""
    metadata, spec = document.value.get("metadata"), document.value.get("spec")
    metadata = metadata if isinstance(metadata, dict) else {}
    spec = spec if isinstance(spec, dict) else {}
    if document.value.get("kind") == "LLMInferenceService":
        model = spec.get("model")
        model = model if isinstance(model, dict) else {}
        spec = {**spec, "model": {**model, "name": model.get("name") or metadata.get("name")}}
    fields = {"Spec": spec, "ObjectMeta": metadata, "Name": metadata.get("name")}
    return TemplateContext(
        fields,
        {
            "kvTransferConfig": lambda arguments: _kv_transfer_config(arguments, document),
            "shutdownTimeout": lambda _: UNKNOWN,
            "ChildName": lambda _: UNKNOWN,
        },
    )


def _kv_transfer_config(arguments: Sequence[Any], document: ManifestNode) -> Any:
    """The flag that KServe writes for a field `kvCacheOffloading`, with its quotes escaped for a shell."""
    if len(arguments) != 1 or arguments[0] is UNKNOWN:
        return UNKNOWN
    if not isinstance(arguments[0], dict):
        return ""
    node = ManifestNode(document.reader, arguments[0], document.path, document.pointer, shares_pointer=True)
    text = json.dumps(offloading_config(node), separators=(",", ":"))
    return "--kv-transfer-config '" + text.replace('"', '\\"') + "'"


def offloading_config(offloading: ManifestNode) -> dict[str, Any]:
    """The connector that KServe configures for a field `kvCacheOffloading`."""
    extra: dict[str, Any] = {"cpu_bytes_to_use": round_up(offloading.get("cpu"))}
    policy = offloading.get("evictionPolicy").text()
    if policy:
        extra["eviction_policy"] = policy
    tiers = [
        place
        for place, tier in enumerate(offloading.get("secondary").items())
        if tier.get("fileSystem").value is not None
    ]
    if tiers:
        extra["secondary_tiers"] = [{"root_dir": f"/mnt/kv-cache-{place}", "type": "fs"} for place in tiers]
    extra["spec_name"] = "TieringOffloadingSpec"
    return {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra, "kv_role": "kv_both"}


def render_container(container: ManifestNode, context: TemplateContext) -> tuple[ManifestNode, list[str]]:
    """A container with its templates rendered, and notes on what is not known.

    Only what an engine depends on is rendered: the command, its arguments, the variables and the image.
    """
    value, notes = container.value, dict[str, None]()
    if not isinstance(value, dict):
        return container, []
    result = dict(value)
    for name in ("command", "args"):
        if isinstance(value.get(name), list):
            result[name] = [_rendered(item, container, context, notes) for item in value[name]]
    if isinstance(value.get("env"), list):
        result["env"] = [
            {**item, "value": _rendered(item["value"], container, context, notes)}
            if isinstance(item, dict) and "value" in item
            else item
            for item in value["env"]
        ]
    if "image" in value:
        result["image"] = _rendered(value["image"], container, context, notes)
    return container.with_value(result), list(notes)


def _rendered(text: Any, node: ManifestNode, context: TemplateContext, notes: dict[str, None]) -> Any:
    """A text rendered; as written if it is not a template."""
    if not isinstance(text, str) or TEMPLATE not in text:
        return text
    try:
        found = render(text, context)
    except TemplateError as error:
        notes[f"a template is not read: {error}"] = None
        return text
    if not node.reader.may_copy(len(found.text), node):
        return text
    for condition, left_out in found.assumed_conditions:
        flags = [word for word in left_out.split() if word.startswith("-")]
        if not flags or not all(flag.startswith(HARMLESS_FLAGS) for flag in flags):
            notes[f"the value of `{condition[:60]}` in a template is not known; it counts as not set"] = None
    return found.text
