"""Values of the vLLM production-stack Helm chart (read at chart 0.1.12, August 2026).

Applies the chart's templates to ``servingEngineSpec.modelSpec``: the flags for ``vllmConfig``, LoRA, tools and LMCache,
on one node or a Ray cluster. If ``vllmConfig`` exists without ``enablePrefixCaching``, the one-node template turns
prefix caching off. Hosts, ports and chat templates are left out. ``vllmConfig.v0`` and ``v1`` select an engine
generation, not a model runner.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.chart_fields import STACK_ENGINE, STACK_ENGINES
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import affinity_signs, gpu_sign, runtime_signs
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.intake.manifests.pods import read_env, read_shared_env
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

CHART_PLACE: Final = "added by production-stack"
STORAGE: Final = "/data"
TEMPLATES: Final = "/templates"
CONFIG_FLAGS: Final = {
    "maxModelLen": "--max-model-len",
    "dtype": "--dtype",
    "tensorParallelSize": "--tensor-parallel-size",
    "pipelineParallelSize": "--pipeline-parallel-size",
    "maxNumSeqs": "--max-num-seqs",
    "gpuMemoryUtilization": "--gpu-memory-utilization",
    "maxLoras": "--max-loras",
    "runner": "--runner",
    "convert": "--convert",
}
ONE_NODE_FIELDS: Final = ("runner", "convert")
RAY_FIELDS: Final = ("pipelineParallelSize",)


def is_values(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of these values."""
    return isinstance(document.value, dict) and "servingEngineSpec" in document.value


def read_values(document: ManifestNode) -> None:
    """Read an engine for each enabled entry of ``modelSpec``."""
    serving = document.get("servingEngineSpec")
    if serving.get("enableEngine").flag(default=True):
        with unread_fields((STACK_ENGINES, serving)):
            for spec in serving.get("modelSpec").items():
                if spec.get("enabled").flag(default=True):
                    with unread_fields((STACK_ENGINE, spec)):
                        _read_spec(spec, serving)


def _read_spec(spec: ManifestNode, serving: ManifestNode) -> None:
    draft, config = EngineDraft(spec), spec.get("vllmConfig")
    ray = spec.get("raySpec", "enabled").flag()
    repository, tag, url = (spec.get(name).scalar() for name in ("repository", "tag", "modelURL"))
    draft.image = f"{repository}:{tag}" if repository and tag else repository
    draft.hardware += gpu_sign(spec.get("requestGPU").value, spec.get("requestGPUType").value, "requestGPU")
    draft.hardware += affinity_signs(spec.get("nodeSelectorTerms").value, "nodeSelectorTerms")
    runtime = spec if spec.has("runtimeClassName") else serving
    draft.hardware += runtime_signs(runtime.get("runtimeClassName").value, "runtimeClassName")
    draft.add(CHART_PLACE, "vllm", "serve")
    draft.has_command = True
    if url is not None:
        draft.add("modelURL", url)
    if ray:
        draft.add(CHART_PLACE, "--distributed-executor-backend", "ray")
    if spec.get("enableLoRA").flag():
        draft.add("enableLoRA", "--enable-lora")
    if spec.get("enableTool").flag():
        draft.add("enableTool", "--enable-auto-tool-choice")
    parser = spec.get("toolCallParser").scalar()
    if parser:
        draft.add("toolCallParser", "--tool-call-parser", parser)
    if config.value:
        _add_config(draft, config, ray=ray)
    revision = spec.get("modelRevision").scalar()
    if revision:
        draft.add("modelRevision", "--revision", revision)
    cache = spec.get("lmcacheConfig")
    if cache.get("enabled").flag():
        _add_cache(draft, cache, config, ray=ray)
    _add_env(draft, spec, serving, config, ray=ray)
    draft.mounts = Mounts(
        [
            *([STORAGE] if isinstance(spec.get("pvcStorage").value, str) else []),
            *([TEMPLATES] if spec.get("chatTemplate").value else []),
            *mount_paths(spec.get("extraVolumeMounts").value, "mountPath"),
        ]
    )
    draft.finish()


def _add_config(draft: EngineDraft, config: ManifestNode, *, ray: bool) -> None:
    for field, positive, negative in (
        ("enableChunkedPrefill", "--enable-chunked-prefill", "--no-enable-chunked-prefill"),
        ("enablePrefixCaching", "--enable-prefix-caching", None if ray else "--no-enable-prefix-caching"),
    ):
        stated = config.get(field).value is not None
        if config.get(field).flag():
            draft.add(f"vllmConfig.{field}", positive)
        elif negative is not None and (stated or field == "enablePrefixCaching"):
            draft.add(f"vllmConfig.{field}" if stated else CHART_PLACE, negative)
    for field, flag in CONFIG_FLAGS.items():
        value = config.get(field).scalar()
        if value is not None and field not in (ONE_NODE_FIELDS if ray else RAY_FIELDS):
            draft.add(f"vllmConfig.{field}", flag, value)
        elif value is not None:
            draft.note(f"`vllmConfig.{field}` has no effect {'with' if ray else 'without'} `raySpec`")
    for place, item in enumerate(config.get("extraArgs").items()):
        word = item.scalar()
        if word is not None:
            draft.add(f"vllmConfig.extraArgs[{place}]", word)


def _add_cache(draft: EngineDraft, cache: ManifestNode, config: ManifestNode, *, ray: bool) -> None:
    """Add ``--kv-transfer-config`` for LMCache; the presence of ``enablePD`` counts, not its value."""
    role = "kv_both" if ray else cache.get("kvRole").scalar() or "kv_both"
    first = config.get("v1").scalar() == "1" if ray else cache.has("enablePD") or config.get("v0").scalar() != "1"
    transfer: dict[str, Any] = {"kv_connector": "LMCacheConnectorV1" if first else "LMCacheConnector", "kv_role": role}
    if not ray and cache.has("enablePD"):
        port = cache.get("nixlRole").scalar()
        transfer["kv_connector_extra_config"] = {"discard_partial_chunks": False, "lmcache_rpc_port": port}
        if port is None:
            draft.note(
                "without `lmcacheConfig.nixlRole` the chart writes a `--kv-transfer-config` that is not valid JSON; "
                "vLLM refuses it"
            )
    draft.add("lmcacheConfig", "--kv-transfer-config", json.dumps(transfer, separators=(",", ":")))


def _add_env(draft: EngineDraft, spec: ManifestNode, serving: ManifestNode, config: ManifestNode, *, ray: bool) -> None:
    """Add the variables; the template of a Ray cluster has neither the shared ones nor those of the secret.

    A container has `configs` through a ConfigMap, so every other variable wins.
    """
    draft.has_hidden_variables = bool(spec.get("envFromSecret").value) and not ray
    configs = serving.get("configs")
    if configs.reader.may_copy_values(configs, configs.value):
        draft.env.replace({name: item.text() or "" for name, item in configs.fields()})
    if not ray:
        draft.env["PYTHONHASHSEED"] = "123"
    if ray and config.value:
        draft.env["VLLM_USE_V1"] = (config.get("v1").scalar() or "") if config.has("v1") else "0"
    elif config.get("v0").scalar() == "1":
        draft.env["VLLM_USE_V1"] = "0"
    if serving.get("vllmApiKey").value:
        draft.env["VLLM_API_KEY"] = None
    if not ray:
        read_shared_env(serving.get("env"), draft)
    else:
        for name, node in (("servingEngineSpec.env", serving.get("env")), ("envFromSecret", spec.get("envFromSecret"))):
            if node.value:
                draft.note(f"`{name}` sets no variable of an engine with `raySpec`")
    read_env(spec.get("env"), draft)
    if spec.get("lmcacheConfig", "enabled").flag():
        draft.env["VLLM_RPC_TIMEOUT"] = "1000000"
    if draft.has_hidden_variables:
        draft.note("`envFromSecret` sets variables that the values do not show")
