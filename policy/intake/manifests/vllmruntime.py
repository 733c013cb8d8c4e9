"""The VLLMRuntime of production-stack (``production-stack.vllm.ai/v1alpha1``, read at the main branch, August 2026).

Builds the arguments and variables from ``spec`` as its operator does: a disabled switch becomes its ``--no-`` form, a
number is used if it is above zero, LMCache becomes a connector. Hosts, ports and chat templates are left out. ``v1``
selects an engine generation, not a model runner.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import gpu_sign
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.pods import read_env

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

OPERATOR_PLACE: Final = "added by production-stack"
STORAGE: Final = "/data"
CACHE_SIZES: Final = (("cpuOffloadingBufferSize", "CPU", "4Gi"), ("diskOffloadingBufferSize", "DISK", "8Gi"))
"""The fields with the sizes of LMCache's stores, the part of the names of their variables, and their defaults."""


def read_vllm_runtime(document: ManifestNode) -> None:
    """Read the engine of a VLLMRuntime."""
    spec = document.get("spec")
    draft, model, config = EngineDraft(spec), spec.get("model"), spec.get("vllmConfig")
    registry, name = (spec.get("deploymentConfig", "image", part).text() for part in ("registry", "name"))
    draft.image = f"{registry}/{name}" if registry and name else name
    resources = spec.get("deploymentConfig", "resources")
    draft.hardware += gpu_sign(
        resources.get("gpu").value, resources.get("gpuType").value, "deploymentConfig.resources.gpu"
    )
    draft.add(OPERATOR_PLACE, "/opt/venv/bin/vllm", "serve")
    url = model.get("modelURL").text()
    if url is not None:
        draft.add("model.modelURL", url)
    lora = model.get("enableLoRA").flag()
    if lora:
        draft.add("model.enableLoRA", "--enable-lora")
    if model.get("enableTool").flag():
        draft.add("model.enableTool", "--enable-auto-tool-choice")
    parser = model.get("toolCallParser").text()
    if parser:
        draft.add("model.toolCallParser", "--tool-call-parser", parser)
    for field, flag in (
        ("enableChunkedPrefill", "enable-chunked-prefill"),
        ("enablePrefixCaching", "enable-prefix-caching"),
    ):
        place = OPERATOR_PLACE if config.get(field).value is None else f"vllmConfig.{field}"
        draft.add(place, f"--{flag}" if config.get(field).flag() else f"--no-{flag}")
    for node, word in (
        (model.get("maxModelLen"), "--max-model-len"),
        (model.get("dtype"), "--dtype"),
        (config.get("tensorParallelSize"), "--tensor-parallel-size"),
        (model.get("maxNumSeqs"), "--max-num-seqs"),
        (config.get("gpuMemoryUtilization"), "--gpu-memory-utilization"),
        (config.get("maxLoras"), "--max-loras"),
    ):
        value = node.text() if word in {"--dtype", "--gpu-memory-utilization"} else node.count()
        if value and not (isinstance(value, int) and value < 0):
            draft.add(node.path[len(spec.path) + 1 :], word, str(value))
    draft.add_list(config.get("extraArgs"), "vllmConfig.extraArgs")
    draft.env["VLLM_USE_V1"] = "1" if config.get("v1").flag() else "0"
    if lora:
        draft.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    if spec.get("lmCacheConfig", "enabled").flag():
        connector = "LMCacheConnectorV1" if config.get("v1").flag() else "LMCacheConnector"
        draft.add(
            "lmCacheConfig",
            "--kv-transfer-config",
            json.dumps({"kv_connector": connector, "kv_role": "kv_both"}, separators=(",", ":")),
        )
        draft.env.update(_cache_variables(spec.get("lmCacheConfig")))
    read_env(config.get("env"), draft)
    has_storage = spec.get("storageConfig", "enabled").flag()
    draft.mounts = _mounts(spec.get("storageConfig"), has_storage=has_storage)
    draft.finish()
    _read_sidecar(spec.get("deploymentConfig", "sidecarConfig"), has_storage=has_storage)


def _cache_variables(cache: ManifestNode) -> dict[str, str]:
    """The variables that the operator sets for LMCache, to which arguments may refer."""
    found = {"LMCACHE_LOG_LEVEL": "DEBUG", "LMCACHE_USE_EXPERIMENTAL": "True", "VLLM_RPC_TIMEOUT": "1000000"}
    for field, name, default in CACHE_SIZES:
        size = cache.get(field).text()
        if size != "":
            found[f"LMCACHE_LOCAL_{name}"] = "True"
            found[f"LMCACHE_MAX_LOCAL_{name}_SIZE"] = default if size is None else size
    url = cache.get("remoteUrl").text()
    if url:
        found["LMCACHE_REMOTE_URL"] = url
        found["LMCACHE_REMOTE_SERDE"] = cache.get("remoteSerde").text() or ""
    return found


def _mounts(node: ManifestNode, *, has_storage: bool) -> Mounts:
    """The mount of the claim, if there is storage: at the ``mountPath`` of a node, or the operator's default."""
    return Mounts([node.get("mountPath").text() or STORAGE] if has_storage else [])


def _read_sidecar(sidecar: ManifestNode, *, has_storage: bool) -> None:
    """Read the container beside the engine, if it starts vLLM; its image has two parts."""
    if not sidecar.is_object() or not sidecar.get("enabled").flag():
        return
    draft = EngineDraft(sidecar)
    draft.add_list(sidecar.get("command"), "command")
    draft.has_command = bool(draft.words)
    draft.add_list(sidecar.get("args"), "args")
    registry, name = (sidecar.get("image", part).text() for part in ("registry", "name"))
    draft.image = f"{registry}/{name}" if registry and name else name
    read_env(sidecar.get("env"), draft)
    draft.mounts = _mounts(sidecar, has_storage=has_storage)
    if draft.starts_vllm():
        draft.finish()
