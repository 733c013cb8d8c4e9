"""KAITO's Workspace, InferenceSet and MultiRoleInference (``kaito.sh``, read at 0.12, August 2026).

Builds the arguments of a preset's engine as KAITO's controller and the start program of its image do, except those on
which no fact depends. The start program appends the options of the ConfigMap, so these win, and keeps the KV cache on
the CPU through a connector unless something turns that off. The controller computes the parallel sizes: data parallel
if the model fits on one GPU of several, else tensor parallel over the GPUs of a node, and pipeline parallel over nodes.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.errors import RulesInvalid
from policy.intake.command.words import Unknown
from policy.intake.manifests.controller_fields import KAITO_ROLE
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.kaito_tables import INSTANCE_TYPES, MODELS, PRESETS, REASONING_PREFIXES, USABLE_SHARE
from policy.intake.manifests.pods import read_pod
from policy.intake.manifests.unread_fields import unread_fields
from policy.masking import masked
from policy.messages import nearest, quoted
from policy.parser.safe_load import safe_load

if TYPE_CHECKING:
    from policy.intake.manifests.kaito_tables import CatalogModel
    from policy.intake.manifests.reading import ManifestNode

CONTROLLER_PLACE: Final = "added by KAITO"
MODULE: Final = "vllm.entrypoints.openai.api_server"
"""The module that KAITO's start program runs with its own defaults."""
UNVERSIONED_IMAGE: Final = "KAITO's own image has vLLM (0.22.1 in KAITO 0.11, 0.25.1 in 0.12), and no manifest shows it"
RUNTIME: Final = "kaito.sh/runtime"
TRANSFORMERS: Final = "transformers"
ROLE: Final = "kaito.sh/inference-role"
ROLES: Final = ("prefill", "decode")
LOCAL_WEIGHTS: Final = "kaito.sh/use-local-weights"
WEIGHTS_FOLDER: Final = "/opt/kaito/models"
CONFIG_FILE: Final = "inference_config.yaml"
MAX_CONFIG: Final = 256 * 1024
UTILIZATION: Final = "kv_cache_cpu_memory_utilization"
DEFAULT_UTILIZATION: Final = 0.5
LMCACHE: Final = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
NIXL: Final = '{"kv_connector":"NixlConnector","kv_role":"kv_both","kv_load_failure_policy":"fail"}'
GPUS: Final = "$(GPUs of a node)"
"""Stands for the number of GPUs, where the manifest does not show it."""
GIB: Final = 1 << 30
EXPANSION: Final = 1.02
"""The size of a model in memory in relation to its files."""
OVERHEAD: Final = 2.3
"""What an engine needs on each GPU in GiB, besides a part of the model's size."""
OVERHEAD_SHARE: Final = 0.05
CONTEXT: Final = 2048
"""The number of tokens for which KAITO reserves memory if the ConfigMap has no `max-model-len`."""
MAX_LENGTH: Final = 1 << 63
EXPERT_PARALLEL: Final = "minimax-m2"
"""The beginning of the names of models for which KAITO turns expert parallelism on."""
NAMES: Final = {name.lower(): name for name in MODELS}


class Nodes(Struct, frozen=True):
    """The nodes of a workspace: the GPUs of each and their memory in GiB, and how many there are; None if unknown.

    ``is_slice``: whether the engine has a part of one GPU, and no other. ``share`` is the part of a GPU's memory that
    KAITO gives vLLM; it is a number of its own only for some instance types.
    """

    gpus: int | None = None
    memory: int | None = None
    count: int | None = None
    is_slice: bool = False
    share: float = USABLE_SHARE


class Config(Struct, frozen=True):
    """The ConfigMap of a workspace: its options for vLLM, and the part of the CPU's memory for the KV cache."""

    options: dict[str, Any] = {}
    utilization: float = DEFAULT_UTILIZATION

    def sets(self, name: str) -> bool:
        """Whether an option is set, as a whole or by a dotted key."""
        return any(key.partition(".")[0].replace("_", "-") == name for key in self.options)

    def overrides(self, flag: str) -> bool:
        """Whether an option replaces a flag that KAITO adds; a later flag wins."""
        name = flag.partition("=")[0][2:].replace("_", "-")
        return any(key.replace("_", "-") == name for key in self.options)

    def context(self) -> int:
        """The number of tokens for which KAITO reserves memory."""
        length = self.options.get("max-model-len")
        return length if type(length) is int and 0 < length < MAX_LENGTH else CONTEXT


def read_workspace(document: ManifestNode) -> None:
    """Read the engine of a Workspace; one for tuning has none."""
    if isinstance(document.value.get("spec"), dict) and "inference" in document.value["spec"]:
        document.get("spec").fault("expected `resource` and `inference` at the top level of a Workspace, not in `spec`")
        return
    metadata, count = document.get("metadata"), document.get("status", "targetNodeCount").count()
    role = metadata.get("labels").get(ROLE)
    _read_inference(document.get("inference"), document.get("resource"), metadata.get("annotations"), role, count)


def read_inference_set(document: ManifestNode) -> None:
    """Read the engine of an InferenceSet, whose workspaces have the metadata of its template."""
    template, labels = document.get("spec", "template"), document.get("metadata", "labels")
    metadata = template.get("metadata")
    role = labels.get(ROLE) if labels.get(ROLE).value is not None else metadata.get("labels", ROLE)
    _read_inference(template.get("inference"), template.get("resource"), metadata.get("annotations"), role)


def read_multi_role_inference(document: ManifestNode) -> None:
    """Read the engine of each role of a MultiRoleInference."""
    document.reader.runs_vllm = True
    name = document.get("spec", "model", "name")
    for role in document.get("spec", "roles").items():
        nodes = _nodes_of(role.get("instanceType").text())
        with unread_fields((KAITO_ROLE, role)):
            _read_preset(EngineDraft(role), name, role.get("runtimeConfig"), nodes, role.get("type").text())


def _read_inference(
    inference: ManifestNode,
    resource: ManifestNode,
    annotations: ManifestNode,
    role: ManifestNode,
    count: int | None = None,
) -> None:
    preset, stated = inference.get("preset"), annotations.value
    runtime = stated.get(RUNTIME) if isinstance(stated, dict) else None
    preset.reader.runs_vllm = isinstance(preset.value, dict) and runtime != TRANSFORMERS
    read_pod(inference.get("template", "spec"))
    if not preset.is_object():
        return
    if annotations.get(RUNTIME).text() == TRANSFORMERS:
        preset.reader.ignored_nodes.append(preset)
        return
    draft, partition = EngineDraft(preset), resource.get("partition")
    mode = partition.get("mode").text()
    nodes = _nodes_of(resource.get("instanceType").text())
    if mode == "mig":
        nodes = Nodes(gpus=1, count=1, is_slice=True)
    elif mode == "accelerator":
        nodes = Nodes(gpus=partition.get("count").count())
    if count is not None and count > 0:
        nodes = replace(nodes, count=count)
    _read_preset(
        draft,
        preset.get("name"),
        inference.get("config"),
        nodes,
        role.text(),
        has_adapters=bool(inference.get("adapters").items()),
        has_weights=annotations.get(LOCAL_WEIGHTS).text() == "true",
    )


def _nodes_of(instance_type: str | None) -> Nodes:
    """The nodes of an instance type; unknown without a type, or with one that KAITO does not have."""
    found = INSTANCE_TYPES.get(instance_type or "")
    return Nodes() if found is None else Nodes(found.gpus, found.memory, share=found.share)


def _read_preset(
    draft: EngineDraft,
    preset: ManifestNode,
    config_map: ManifestNode,
    nodes: Nodes,
    role: str | None,
    *,
    has_adapters: bool = False,
    has_weights: bool = False,
) -> None:
    """Build the engine of a preset."""
    draft.unversioned = UNVERSIONED_IMAGE
    written = preset.text() or ""
    name = _hub_name(written)
    if name is None:
        draft.problem = (
            f"KAITO has no preset {quoted(written)}; write the model's name on the hub, ORGANISATION/MODEL"
            f"{nearest(written.lower(), PRESETS)}"
        )
        draft.finish()
        return
    config = _read_config(config_map, draft)
    model = MODELS.get(name)
    draft.add(CONTROLLER_PLACE, "python3", "-m", MODULE)
    _add_model(draft, name, written, config, has_weights=has_weights)
    _add(draft, config, f"--gpu-memory-utilization={nodes.share}")
    if has_adapters:
        draft.add("inference.adapters", "--enable-lora")
    is_offloading = _add_sizes(draft, name, model, nodes, config)
    if not config.sets("kv-transfer-config"):
        if role in ROLES:
            draft.add(ROLE, f"--kv-transfer-config={NIXL}")
        elif is_offloading:
            draft.add(CONTROLLER_PLACE, f"--kv-transfer-config={LMCACHE}")
    for key, value in config.options.items():
        draft.add_final(f"inference.config.vllm.{masked(f'--{key}')[2:]}", f"--{key}", str(value))
    draft.finish()


def _hub_name(preset: str) -> str | None:
    """The name on the hub of a preset's model; None if KAITO has no such preset."""
    organisation, slash, model = preset.partition("/")
    lowered = preset.lower()
    if not slash:
        return PRESETS.get(lowered)
    if not (organisation and model):
        return None
    return NAMES.get(lowered, preset)


def _add(draft: EngineDraft, config: Config, *words: str) -> None:
    """Add a flag, unless the ConfigMap replaces it."""
    if not config.overrides(words[0]):
        draft.add(CONTROLLER_PLACE, *words)


def _add_model(draft: EngineDraft, name: str, preset: str, config: Config, *, has_weights: bool) -> None:
    """Add the model, and the flags that KAITO derives from its name."""
    path = name
    if has_weights:
        path = f"{WEIGHTS_FOLDER}/{preset.strip().lower().replace('/', '-')}"
        draft.models[path] = name
    if not config.overrides("--model"):
        draft.add("name", f"--model={path}")
    _add(draft, config, "--trust-remote-code")
    _add(draft, config, "--compilation-config.pass_config.fuse_allreduce_rms=False")
    short = name.rpartition("/")[2].lower()
    if short.startswith(EXPERT_PARALLEL):
        _add(draft, config, "--enable-expert-parallel")
    found = MODELS.get(name)
    known = [parser for prefix, parser in REASONING_PREFIXES.items() if short.startswith(prefix)]
    parser = (known[0] if known else None) if found is None else found.parser
    if parser:
        _add(draft, config, f"--reasoning-parser={parser}")
    elif parser is None and not config.sets("reasoning-parser"):
        draft.doubts.append(
            f"KAITO may add `--reasoning-parser` for the architecture of {quoted(name)}, which it reads on the hub; "
            "none is assumed"
        )


def _add_sizes(draft: EngineDraft, name: str, model: CatalogModel | None, nodes: Nodes, config: Config) -> bool:
    """Add the parallel sizes; returns whether KAITO keeps the KV cache on the CPU.

    A size that cannot be computed is unknown or a doubt.
    """
    count, gpus = _node_count(model, nodes, config.context()), nodes.gpus
    if count is None:
        draft.doubts.append(
            f"KAITO computes the number of nodes from the size of {quoted(name)} and the GPUs of a node, which the "
            "manifest does not show; one node is assumed"
        )
        count = 1
    is_single = count == 1
    fits = _fits_gpu(model, nodes) if is_single else False
    if gpus is None or fits is None:
        _add(draft, config, "--tensor-parallel-size", Unknown(GPUS))
        if fits is None:
            _add(draft, config, "--data-parallel-size", Unknown(GPUS))
    elif fits:
        _add(draft, config, "--tensor-parallel-size=1")
        _add(draft, config, f"--data-parallel-size={gpus}")
    else:
        _add(draft, config, f"--tensor-parallel-size={gpus}")
    if not is_single:
        _add(draft, config, f"--pipeline-parallel-size={count}")
        _add(draft, config, "--distributed-executor-backend=ray")
    if config.utilization <= 0 or fits or nodes.is_slice or not is_single or (model is not None and not model.offloads):
        return False
    if (fits is None or model is None) and not config.sets("kv-transfer-config"):
        draft.doubts.append(
            f"KAITO keeps the KV cache on the CPU through LMCache, unless {quoted(name)} has a hybrid architecture or "
            "fits on one GPU of several; that it does is assumed"
        )
    return True


def _node_count(model: CatalogModel | None, nodes: Nodes, context: int) -> int | None:
    """The number of nodes that KAITO computes; None if the manifest does not show enough."""
    if nodes.count is not None:
        return nodes.count
    if model is None or nodes.gpus is None or nodes.memory is None:
        return None
    reserve = OVERHEAD + context * model.token / nodes.gpus / GIB
    available = (nodes.memory / nodes.gpus * USABLE_SHARE - reserve) / (1 + OVERHEAD_SHARE)
    if available <= 0:
        return None
    return math.ceil((int(model.size * EXPANSION / available) + 1) / nodes.gpus)


def _fits_gpu(model: CatalogModel | None, nodes: Nodes) -> bool | None:
    """Whether KAITO runs a whole model on each of several GPUs; None if the manifest does not show enough."""
    if nodes.gpus == 1:
        return False
    if model is None or nodes.gpus is None or nodes.memory is None:
        return None
    return model.size * nodes.gpus * 2 < nodes.memory


def _read_config(node: ManifestNode, draft: EngineDraft) -> Config:
    """The ConfigMap that a node names; without one, KAITO's defaults. An unreadable one is a fault."""
    name = node.text()
    found = node.reader.config_map(name)
    if not name:
        return Config()
    if found is None:
        draft.doubts.append(f"the options of the ConfigMap {quoted(name)} are not in the manifest; none are assumed")
        return Config()
    text = found.data.get(CONFIG_FILE)
    if text is None:
        node.fault(f"expected `{CONFIG_FILE}` in the ConfigMap {quoted(name)}, which KAITO requires")
        return Config()
    if not node.reader.may_copy_values(node, text):
        return Config()
    document = _parsed(text, node.reader.parsed_texts)
    if isinstance(document, RulesInvalid):
        for fault in document.faults:
            node.fault(f"`{CONFIG_FILE}`, line {fault.line}, column {fault.column}: {fault.message}")
        return Config()
    if not isinstance(document, dict):
        node.fault(f"expected a map in `{CONFIG_FILE}`, got {quoted(document)}")
        return Config()
    return _config_of(document, node)


def _parsed(text: str, known: dict[str, Any]) -> Any:
    """The YAML value of a text, or its error; each text is parsed once."""
    if text not in known:
        try:
            known[text] = safe_load(text, CONFIG_FILE, MAX_CONFIG)
        except RulesInvalid as error:
            known[text] = error
    return known[text]


def _config_of(document: dict[Any, Any], node: ManifestNode) -> Config:
    options, utilization = document.get("vllm", {}), document.get(UTILIZATION)
    if utilization is None:
        utilization = DEFAULT_UTILIZATION
    if not isinstance(utilization, int | float):
        node.fault(f"expected a number as `{UTILIZATION}` in `{CONFIG_FILE}`, got {quoted(utilization)}")
        return Config()
    if not isinstance(options, dict):
        node.fault(f"expected a map as `vllm` in `{CONFIG_FILE}`, got {quoted(options)}; write `vllm: {{}}` for none")
        return Config()
    for key, value in options.items():
        if isinstance(value, dict | list):
            node.fault(f"expected a text as {quoted(f'vllm.{key}')} in `{CONFIG_FILE}`; put it in quotes, as JSON")
            return Config()
    return Config({str(key): value for key, value in options.items()}, utilization)
