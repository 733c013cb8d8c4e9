"""KServe's LLMInferenceService (``serving.kserve.io`` v1alpha1 and v1alpha2, read at KServe 0.20, August 2026).

Applies KServe's own configurations: ``vllm serve /mnt/models`` with the flags of ``spec.parallelism``, of KV-cache
offloading and of LoRA adapters, then ``VLLM_ADDITIONAL_ARGS`` and the container's ``args``, which a shell parses again.
Served names, ports, TLS and access logs are left out: no decision depends on them. None of this applies to a container
with its own ``command``, to one beside ``main``, or to one of the router's scheduler.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, NamedTuple

from msgspec.json import encode
from packaging.version import Version

from policy.intake.command.expansion import ExpansionBudget, ShellSyntaxError
from policy.intake.command.huggingface_server import MODEL_PATH
from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.shell_options import shell_options, startup_doubt
from policy.intake.command.words import PLAIN_NAME
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.engine_doubts import engine_doubt
from policy.intake.manifests.images import version_of
from policy.intake.manifests.kserve import CONTROLLER_PLACE
from policy.intake.manifests.kserve_fields import LLM
from policy.intake.manifests.kserve_metadata import metadata_doubt
from policy.intake.manifests.kserve_pods import filled_mounts, workload_doubt
from policy.intake.manifests.llmisvc_presets import MergedService, context_of, offloading_config, render_container
from policy.intake.manifests.pods import pod_containers, read_container, read_passing_containers
from policy.intake.manifests.shell_arguments import add_shell_arguments
from policy.intake.manifests.storage import mount
from policy.intake.manifests.template_fields import References, template_doubt
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import enumerated, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.go_template import TemplateContext
    from policy.intake.manifests.reading import ManifestNode

MISSING_CONFIG: Final = (
    "`baseRefs` merges {} into this object, which the manifest does not show; send the LLMInferenceServiceConfig as "
    "well"
)
UNCERTAIN_CONFIG: Final = (
    "several LLMInferenceServiceConfigs of the manifest may be {}, and one of them is assumed; give each object once, "
    "with its `metadata.namespace`"
)
MAIN: Final = "main"
EXTRA_ARGUMENTS: Final = "VLLM_ADDITIONAL_ARGS"
MIN_OFFLOADING_VERSION: Final = Version("0.22")
SCRIPT_VARIABLES: Final = frozenset(
    {
        *("ACCESS_LOG_ARGS", "SHUTDOWN_TIMEOUT_ARGS", "KV_TRANSFER_ARGS", "VLLM_VERSION", "DP_ADDRESS", "START_RANK"),
        *("RESOLVE_ATTEMPTS", "KSERVE_INFER_IB_GID_INDEX_GREP", "NCCL_IB_HCA", "NVSHMEM_HCA_LIST", "UCX_NET_DEVICES"),
        *("NCCL_IB_GID_INDEX", "NVSHMEM_IB_GID_INDEX", "UCX_IB_GID_INDEX"),
    }
)
"""The variables that KServe's script sets itself, so that their values are not those of the container."""
SCRIPT_INPUTS: Final = (
    *("VLLM_API_SERVER_COUNT", "DP_ADDRESS", "DP_ADDRESS_RESOLVE_ATTEMPTS", "LWS_LEADER_ADDRESS", "LWS_WORKER_INDEX"),
    "START_RANK",
)
"""The variables of the container whose values the script puts into the command, or computes with."""
SCRIPT_DOUBT: Final = (
    "KServe writes {} into a script as it is, and a shell may read its value as other words; use letters, digits and "
    "`._/:@-` only"
)
SCRIPT_OPTIONS: Final = shell_options("bash", ("-c",), 0)
ENV: Final = {"HOME": "/home", "VLLM_LOGGING_LEVEL": "INFO", "HF_HUB_CACHE": "/models"}
WORKER_ENV: Final = {"VLLM_RANDOMIZE_DP_DUMMY_INPUTS": "1"}


def read_llm_inference_service(document: ManifestNode) -> None:
    """Read the engines of the service: decode and, if present, prefill, each with its workers.

    Other containers, including those of the router's scheduler, count if they start vLLM themselves. Configurations in
    the manifest that the service names are merged into it, as are KServe's own.
    """
    service = MergedService(document)
    spec, own = service.spec, service.own
    metadata, is_replaced = document.get("metadata"), bool(service.own.get("model", "uri").value)
    with (
        unread_fields((LLM, spec)),
        engine_doubt(document.reader, service.field_doubt),
        engine_doubt(document.reader, lambda: metadata_doubt(metadata, is_replaced=is_replaced)),
    ):
        with _field_doubts(spec):
            _read_workload(_Workload(spec, own, spec, service.context, service))
            if spec.get("prefill").is_object():
                prefill = own.get("prefill") if own.get("prefill").is_object() else own.with_value({})
                _read_workload(_Workload(spec.get("prefill"), prefill, spec, service.context, service))
        _read_others(spec.get("router", "scheduler"), service.context, service)


def read_llm_inference_service_config(document: ManifestNode) -> None:
    """Read the engines of a configuration by itself: its own containers, without the values of a service."""
    spec, context = document.get("spec"), context_of(document)
    with unread_fields((LLM, spec)), engine_doubt(document.reader, lambda: template_doubt([spec], References())):
        with _field_doubts(spec):
            _read_workload(_Workload(spec, spec, spec, context, None))
            if spec.get("prefill").is_object():
                _read_workload(_Workload(spec.get("prefill"), spec.get("prefill"), spec, context, None))
        _read_others(spec.get("router", "scheduler"), context, None)


@contextmanager
def _field_doubts(spec: ManifestNode) -> Iterator[None]:
    """Add the doubts about the fields of a service's workloads to the engines that are read within."""
    prefill = spec.get("prefill")
    with (
        engine_doubt(spec.reader, lambda: workload_doubt(spec)),
        engine_doubt(spec.reader, lambda: workload_doubt(prefill)),
    ):
        yield


class _Workload(NamedTuple):
    """A workload to read: ``node`` is merged with configurations, ``own`` is as the service has it.

    ``spec`` is the merged spec of the service, and ``service`` is None for a configuration by itself.
    """

    node: ManifestNode
    own: ManifestNode
    spec: ManifestNode
    context: TemplateContext
    service: MergedService | None


def _read_others(scheduler: ManifestNode, context: TemplateContext, service: MergedService | None) -> None:
    """Read the containers of the router's scheduler and its tokenizer, which seldom start vLLM."""
    for pod in (scheduler.get("template"), scheduler.get("tokenizer", "template")):
        for container in pod_containers(pod):
            _read_other(container, pod, context, service)
        read_passing_containers(pod)


def _read_other(
    container: ManifestNode, pod: ManifestNode, context: TemplateContext, service: MergedService | None
) -> None:
    container, notes = render_container(container, context)
    other = read_container(container, pod)
    if other.starts_vllm():
        for note in notes:
            other.doubt(note)
        if service is not None and (service.missing or service.uncertain):
            _note_configurations(other, service)
        other.finish()


def _read_workload(part: _Workload) -> None:
    node, parallelism = part.node, part.node.get("parallelism")
    spread = bool(parallelism.get("data").count() or parallelism.get("dataLocal").count()) or part.service is None
    with_workers = node.get("worker").is_object()
    with node.reader.ray_cluster():
        for role in ("template", "worker") if with_workers else ("template",):
            _read_role(part, role, is_spread=spread, with_workers=with_workers)


def _read_role(part: _Workload, role: str, *, is_spread: bool, with_workers: bool) -> None:
    pod = part.node.get(role)
    containers = list(pod_containers(pod))
    main = next((item for item in containers if item.get("name").value == MAIN), None)
    if main is not None or part.service is not None:
        _read_main(part, role, main, is_spread=is_spread, with_workers=with_workers)
    for other in containers:
        if other is not main:
            _read_other(other, pod, part.context, part.service)
    read_passing_containers(pod)


def _read_main(part: _Workload, role: str, main: ManifestNode | None, *, is_spread: bool, with_workers: bool) -> None:
    """Read the container `main` of a role, to which KServe adds its own command if there is none."""
    pod = part.node.get(role)
    notes: list[str] = []
    if main is not None:
        container, notes = render_container(main, part.context)
        draft = read_container(container, pod)
        if part.spec is not part.own and part.service is not None:
            _place(draft, part, role)
    else:
        draft = EngineDraft(part.node)
    for path in filled_mounts(pod, MAIN):
        draft.mounts.add(path)
    if part.service is None and not (draft.has_command or draft.words or draft.image):
        return
    for note in notes:
        draft.doubt(note)
    user = draft.words, draft.places
    if not draft.has_command and (is_spread or not with_workers):
        draft.words, draft.places, draft.has_command = [], [], True
        draft.env.replace({**ENV, **(WORKER_ENV if role == "worker" else {}), **draft.env})
        draft.add(CONTROLLER_PLACE, "vllm", "serve", MODEL_PATH)
        _add_parallelism(draft, part.own.get("parallelism"), with_workers=with_workers, worker=role == "worker")
        _add_offloading(draft, part.own, user[0])
        _add_shell(draft, user[1], user[0])
        _check_script(draft, part)
        if role == "template":
            _add_adapters(draft, part.spec.get("model", "lora"), user[0])
    elif not draft.has_command:
        (main or pod).fault(
            "with `worker`, KServe has a configuration for data parallelism only; set a `command` in the container "
            "`main`"
        )
    if part.own.get("parallelism").value != part.node.get("parallelism").value:
        draft.note("KServe's templates read the `parallelism` of the service itself, not that of its configurations")
    _note_configurations(draft, part.service)
    uri = part.spec.get("model", "uri").text()
    if uri is not None:
        mount(draft, uri, MODEL_PATH)
    if draft.starts_vllm():
        draft.finish()


def _place(draft: EngineDraft, part: _Workload, role: str) -> None:
    """Set the draft's node to the service's own container, and mark the places of words from a configuration."""
    containers = list(pod_containers(part.own.get(role)))
    own = next((item for item in containers if item.get("name").value == MAIN), None)
    draft.node = part.own if own is None else own
    fields = own.value if own is not None else {}
    draft.places = [place if fields.get(place.partition("[")[0]) else f"baseRefs.{place}" for place in draft.places]


def _note_configurations(draft: EngineDraft, service: MergedService | None) -> None:
    """Note what was merged, and what is not known."""
    if service is None:
        draft.note(
            "a configuration by itself: the model, the arguments and the variables of the services that name it are "
            "not known, and count as not set"
        )
        return
    for name in service.names:
        draft.note(f"merged with the LLMInferenceServiceConfig {quoted(name)} of the manifest")
    if service.missing:
        draft.has_hidden_variables = True
        draft.doubt(MISSING_CONFIG.format(enumerated(service.missing)))
    if service.uncertain:
        draft.doubt(UNCERTAIN_CONFIG.format(enumerated(service.uncertain)))


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
            draft.add(CONTROLLER_PLACE, flag, "1")
        add(flag, field)
    if worker:
        draft.add(CONTROLLER_PLACE, "--headless")


def _add_offloading(draft: EngineDraft, workload: ManifestNode, user: list[str]) -> None:
    """Add ``--kv-transfer-config`` for ``kvCacheOffloading``, if the user does not set it and vLLM supports it."""
    if workload.get("workload", "kvCacheOffloading").value is not None:
        draft.note(
            f"unknown field `{workload.get('workload').path}` of an LLMInferenceService is dropped; "
            "write `kvCacheOffloading` one level higher"
        )
    offloading = workload.get("kvCacheOffloading")
    given = " ".join([draft.env.get(EXTRA_ARGUMENTS) or "", *user])
    if not offloading.is_object() or "--kv-transfer-config" in given or "--kv_transfer_config" in given:
        return
    version = version_of(draft.image, draft.node.reader.images).version
    if version is not None and Version(version) < MIN_OFFLOADING_VERSION:
        draft.note(f"`{offloading.path}` has no effect before vLLM {MIN_OFFLOADING_VERSION}")
        return
    config = offloading_config(offloading)
    draft.add(offloading.path, "--kv-transfer-config", json.dumps(config, separators=(",", ":")))
    if version is None:
        draft.note(
            f"`{offloading.path}` takes effect from vLLM {MIN_OFFLOADING_VERSION}; "
            "KServe asks the image for its version"
        )


def _add_shell(draft: EngineDraft, places: list[str], words: list[str]) -> None:
    """Add `VLLM_ADDITIONAL_ARGS` and the arguments; KServe's script joins them into one text for `eval`."""
    extra = draft.env.get(EXTRA_ARGUMENTS, "")
    if extra is None:
        draft.doubt(f"the value of `{EXTRA_ARGUMENTS}` is not in the manifest; its arguments are not known")
    elif EXTRA_ARGUMENTS not in draft.env and draft.has_hidden_variables:
        draft.doubts.append(f"a source of variables that the manifest does not show may set `{EXTRA_ARGUMENTS}`")
    try:
        written = expand_words(words, draft.env, ExpansionBudget(), has_hidden_variables=draft.has_hidden_variables)
    except ShellSyntaxError:  # the engine reports it
        written = words
    texts = [(f"env.{EXTRA_ARGUMENTS}", extra)] if extra else []
    set_by_script = {name: value for name, value in draft.env.items() if name not in SCRIPT_VARIABLES}
    add_shell_arguments(draft, [*texts, *zip(places, written, strict=True)], set_by_script)


def _check_script(draft: EngineDraft, part: _Workload) -> None:
    """Add a doubt for a value that KServe writes unchanged into its script, and a shell may read in another way."""
    model, own = part.spec.get("model"), part.context.fields["Spec"]
    model_of_context = own.get("model") if isinstance(own, dict) else None
    name = model_of_context.get("name") if isinstance(model_of_context, dict) else None
    fields = [
        ("spec.model.name", name),
        (model.get("name").path, model.get("name").value),
        *((each.get("name").path, each.get("name").value) for each in model.get("lora", "adapters").items()),
        *((each.path, each.value) for each in _written_fields(part)),
        *((f"env.{each}", draft.env[each]) for each in SCRIPT_INPUTS if each in draft.env),
    ]
    for path, value in fields:
        is_plain = value is None or (isinstance(value, str) and PLAIN_NAME.fullmatch(value) is not None)
        if not is_plain or (value is None and path.startswith("env.")):
            draft.doubt(SCRIPT_DOUBT.format(quoted(path)))
            return
    if why := startup_doubt("bash", SCRIPT_OPTIONS, draft.env):
        draft.doubt(why)


def _written_fields(part: _Workload) -> Iterator[ManifestNode]:
    """The other texts of a workload that KServe writes into its script, or appends to the arguments."""
    for node in (part.own, part.node):
        yield node.get("kvCacheOffloading", "evictionPolicy")
    yield part.spec.get("tracing", "exporterEndpoint")


def _add_adapters(draft: EngineDraft, lora: ManifestNode, user: list[str]) -> None:
    """Add the flags of ``spec.model.lora``, unless the user sets ``--lora-modules``."""
    adapters = lora.get("adapters").items()
    if not adapters or "--lora-modules" in " ".join([draft.env.get(EXTRA_ARGUMENTS) or "", *user]):
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
            path = f"/mnt/lora/{name}"
            draft.add(adapter.path, encode({"name": name, "path": path}).decode())
            draft.mounts.add(path)
