"""KServe's LLMInferenceService (``serving.kserve.io`` v1alpha1 and v1alpha2, read at KServe 0.20, August 2026).

Applies KServe's own configurations: ``vllm serve /mnt/models`` with the flags of ``spec.parallelism``, of KV-cache
offloading and of LoRA adapters, then ``VLLM_ADDITIONAL_ARGS`` and the container's ``args``, which a shell parses again.
Served names, ports, TLS and access logs are left out: no decision depends on them. None of this applies to a container
with its own ``command``, to one beside ``main``, or to one of the router's scheduler.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec.json import encode
from packaging.version import Version

from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.images import version_of
from policy.intake.manifests.kserve import ADDED, MODEL_PATH
from policy.intake.manifests.pods import pod_containers, read_container, read_pod
from policy.intake.manifests.quantities import round_up
from policy.intake.manifests.storage import mount
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

MAIN: Final = "main"
EXTRA: Final = "VLLM_ADDITIONAL_ARGS"
OFFLOADS_FROM: Final = Version("0.22")
ENV: Final = {"HOME": "/home", "VLLM_LOGGING_LEVEL": "INFO", "HF_HUB_CACHE": "/models"}
WORKER_ENV: Final = {"VLLM_RANDOMIZE_DP_DUMMY_INPUTS": "1"}


def read_llm_inference_service(document: ManifestNode) -> None:
    """Read the engines of the service: decode and, if present, prefill, each with its workers.

    Other containers, including those of the router's scheduler, count if they start vLLM themselves.
    """
    spec = document.get("spec")
    _read_workload(spec, spec)
    if spec.get("prefill").is_object():
        _read_workload(spec.get("prefill"), spec)
    read_pod(spec.get("router", "scheduler", "template"))


def _read_workload(workload: ManifestNode, spec: ManifestNode) -> None:
    parallelism = workload.get("parallelism")
    spread = bool(parallelism.get("data").count() or parallelism.get("dataLocal").count())
    with_workers = workload.get("worker").is_object()
    for role in ("template", "worker") if with_workers else ("template",):
        pod = workload.get(role)
        containers = list(pod_containers(pod))
        main = next((item for item in containers if item.get("name").value == MAIN), None)
        draft = read_container(main, pod) if main is not None else EngineDraft(workload)
        user = draft.words, draft.places
        if not draft.has_command and (spread or not with_workers):
            draft.words, draft.places, draft.has_command = [], [], True
            draft.env = {**ENV, **(WORKER_ENV if role == "worker" else {}), **draft.env}
            draft.add(ADDED, "vllm", "serve", MODEL_PATH)
            _add_parallelism(draft, parallelism, with_workers=with_workers, worker=role == "worker")
            _add_offloading(draft, workload, user[0])
            _add_extra(draft)
            draft.add_shell(zip(user[1], user[0], strict=True))
            if role == "template":
                _add_adapters(draft, spec.get("model", "lora"), user[0])
        elif not draft.has_command:
            (main or pod).fault(
                "with `worker`, KServe has a configuration for data parallelism only; set a `command` in the container "
                "`main`"
            )
        if any(item.get("name").text() for item in spec.get("baseRefs").items()):
            draft.note("`baseRefs` merges other objects into this one, which the manifest does not show")
        uri = spec.get("model", "uri").text()
        if uri is not None:
            mount(draft, uri, MODEL_PATH)
        if draft.starts_vllm():
            draft.finish()
        for other in (read_container(item, pod) for item in containers if item is not main):
            if other.starts_vllm():
                other.finish()


def _add_parallelism(draft: EngineDraft, parallelism: ManifestNode, *, with_workers: bool, worker: bool) -> None:
    def add(flag: str, field: str) -> None:
        value = parallelism.get(field).count()
        if value is not None:
            draft.add(parallelism.get(field).path, flag, str(value))

    if with_workers and parallelism.get("expert").flag():
        draft.add(parallelism.get("expert").path, "--enable-expert-parallel")
    add("--tensor-parallel-size", "tensor")
    if not with_workers:
        for field in ("data", "dataLocal", "expert", "pipeline"):
            if parallelism.get(field).value:
                draft.note(
                    f"`{parallelism.get(field).path}` has no effect without `worker`: KServe's configuration "
                    "for one node has no flag for it"
                )
        return
    for flag, field in (("--data-parallel-size", "data"), ("--data-parallel-size-local", "dataLocal")):
        if parallelism.get(field).value is None:
            draft.add(ADDED, flag, "1")
        add(flag, field)
    if worker:
        draft.add(ADDED, "--headless")


def _add_offloading(draft: EngineDraft, workload: ManifestNode, user: list[str]) -> None:
    """Add ``--kv-transfer-config`` for ``kvCacheOffloading``, if the user does not set it and vLLM supports it."""
    if workload.get("workload", "kvCacheOffloading").value is not None:
        draft.note(
            f"unknown field `{workload.get('workload').path}` of an LLMInferenceService is dropped; "
            "write `kvCacheOffloading` one level higher"
        )
    offloading = workload.get("kvCacheOffloading")
    given = " ".join([draft.env.get(EXTRA) or "", *user])
    if not offloading.is_object() or "--kv-transfer-config" in given or "--kv_transfer_config" in given:
        return
    version = version_of(draft.image, draft.node.reader.images).version
    if version is not None and Version(version) < OFFLOADS_FROM:
        draft.note(f"`{offloading.path}` has no effect before vLLM {OFFLOADS_FROM}")
        return
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
    config = {"kv_connector": "OffloadingConnector", "kv_connector_extra_config": extra, "kv_role": "kv_both"}
    draft.add(offloading.path, "--kv-transfer-config", json.dumps(config, separators=(",", ":")))
    if version is None:
        draft.note(f"`{offloading.path}` takes effect from vLLM {OFFLOADS_FROM}; KServe asks the image for its version")


def _add_extra(draft: EngineDraft) -> None:
    extra = draft.env.get(EXTRA, "")
    if extra is None:
        draft.note(f"the value of `{EXTRA}` is not in the manifest; its arguments are not known")
    elif extra:
        draft.add_shell([(f"env.{EXTRA}", extra)])


def _add_adapters(draft: EngineDraft, lora: ManifestNode, user: list[str]) -> None:
    """Add the flags of ``spec.model.lora``, unless the user sets ``--lora-modules``."""
    adapters = lora.get("adapters").items()
    if not adapters or "--lora-modules" in " ".join([draft.env.get(EXTRA) or "", *user]):
        return
    draft.add(lora.get("adapters").path, "--enable-lora")
    for flag, field in (
        ("--max-lora-rank", "maxRank"),
        ("--max-loras", "maxAdapters"),
        ("--max-cpu-loras", "maxCpuAdapters"),
    ):
        value = lora.get(field).count()
        if value is not None:
            draft.add(lora.get(field).path, f"{flag}={value}")
    draft.add(lora.get("adapters").path, "--lora-modules")
    for adapter in sorted(adapters, key=lambda item: str(item.get("name").value)):
        name = adapter.get("name").text()
        if name is None:
            draft.note(f"an adapter without a name at {quoted(adapter.path)} is left out")
        else:
            draft.add(adapter.path, encode({"name": name, "path": f"/mnt/lora/{name}"}).decode())
