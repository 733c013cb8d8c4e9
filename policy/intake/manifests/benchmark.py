"""Scenarios of llm-d-benchmark (read at 0.8, in 2026): a list under ``scenario``.

A section may be in the scenario itself, in its ``modelservice`` or ``common``, or in the file's ``shared``. The engines
are the standalone deployment or each enabled role, with the command of the benchmark's templates or the scenario's own.
Ports, names and volumes are left out. A scenario does not show the manifests of a guide.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Container
from policy.intake.manifests.chart_images import image_of
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import container_signs, node_signs, profile_signs
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.intake.manifests.pods import read_env
from policy.intake.manifests.reading import read_separately
from policy.intake.manifests.shell_arguments import add_shell_arguments
from policy.intake.manifests.tool_fields import BENCHMARK_COMMON, BENCHMARK_ROLE
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a scenario of llm-d-benchmark (`scenario`)"
SHARED_SECTION: Final = "shared"
SECTIONS: Final = frozenset({"common", "modelservice", "standalone", "decode", "prefill", "model"})
BENCHMARK_PLACE: Final = "added by llm-d-benchmark"
SIMULATOR: Final = "llm-d-inference-sim"
NO_IMAGE: Final = "the scenario states no image, and the release of the benchmark decides it"
PREPROCESS_NOTE: Final = "the preprocess script runs before vLLM and may set any variable"
OTHER_DEPLOYMENTS: Final = {
    "kustomize": "the scenario deploys the manifests of a guide",
    "fma": "the scenario lets Fast Model Actuation start vLLM",
    "nok8s": "the scenario starts containers without Kubernetes",
}
SEND_DEPLOYED: Final = (
    "which it does not show; send what is deployed: `kubectl get pods -o yaml | runner-policy decide -`"
)
DEFAULT_PREPROCESS: Final = "/bin/true"
FLAGS: Final = {
    "enforceEager": ("--enforce-eager", True),
    "disableLogRequests": ("--no-enable-log-requests", True),
    "disableUvicornAccessLog": ("--disable-uvicorn-access-log", True),
    "noPrefixCaching": ("--no-enable-prefix-caching", False),
    "enablePrefixCaching": ("--enable-prefix-caching", False),
}
"""The flags of `vllmCommon.flags`, and whether the benchmark sets them by default."""
MODEL: Final = "facebook/opt-125m"
MODEL_SETTINGS: Final[dict[str, tuple[str, str | None]]] = {
    "VLLM_BLOCK_SIZE": ("blockSize", "64"),
    "VLLM_MAX_MODEL_LEN": ("maxModelLen", "16384"),
    "VLLM_ACCELERATOR_MEM_UTIL": ("gpuMemoryUtilization", "0.95"),
    "VLLM_MAX_NUM_SEQ": ("maxNumSeq", "256"),
    "VLLM_MAX_NUM_BATCHED_TOKENS": ("maxNumBatchedTokens", None),
}
"""The variables with settings of the model: the field of each, and the benchmark's default, None if scripts set it."""
SIZES: Final = {
    "DP_SIZE": "data",
    "DP_SIZE_LOCAL": "dataLocal",
    "TP_SIZE": "tensor",
    "VLLM_TENSOR_PARALLELISM": "tensor",
}


def is_scenarios(document: ManifestNode) -> bool:
    """Whether a document without a kind is a list of scenarios."""
    scenarios = document.value.get("scenario") if isinstance(document.value, dict) else None
    return (
        isinstance(scenarios, list)
        and bool(scenarios)
        and all(isinstance(each, dict) and not SECTIONS.isdisjoint(each) for each in scenarios)
    )


def read_scenarios(document: ManifestNode) -> None:
    """Read the engines of each scenario."""
    for scenario in document.get("scenario").items():
        faults = read_separately(scenario, _read_scenario)
        if faults:
            document.reader.add(Container(scenario.path, faults=tuple(faults)), scenario)


def _read_scenario(scenario: ManifestNode) -> None:
    for name, why in OTHER_DEPLOYMENTS.items():
        if _section(scenario, name).get("enabled").flag():
            scenario.reader.add(Container(scenario.path, problem=f"{why}, {SEND_DEPLOYED}"), scenario)
            return
    standalone = _section(scenario, "standalone")
    if standalone.get("enabled").flag():
        _read_role(scenario, standalone, is_standalone=True)
        return
    for name, is_enabled in (("decode", True), ("prefill", False)):
        role = _section(scenario, name)
        if _section(scenario, "modelservice").get("enabled").flag(default=True) and role.get("enabled").flag(
            default=is_enabled
        ):
            _read_role(scenario, role, is_standalone=False)


def _section(scenario: ManifestNode, name: str) -> ManifestNode:
    """The first section of this name with a value, among the places where it may stand; an absent one is empty."""
    document = scenario.parent.parent if scenario.parent is not None else None
    shared = scenario if document is None else document.get(SHARED_SECTION)
    places = (scenario.get(name), scenario.get("modelservice", name), scenario.get("common", name), shared.get(name))
    return next((node for node in places if node.value is not None), places[0])


def _read_role(scenario: ManifestNode, role: ManifestNode, *, is_standalone: bool) -> None:
    common, model = _section(scenario, "vllmCommon"), _section(scenario, "model")
    shared = [node.value for node in (role, common) if node.parent is not None and node.parent.key == SHARED_SECTION]
    if shared and not scenario.reader.may_copy_values(scenario, *shared):
        return
    draft = EngineDraft(role if role.value is not None else scenario)
    draft.image = _image(scenario, role, is_standalone=is_standalone)
    draft.has_default_image = True
    if draft.image is None:
        draft.unversioned = NO_IMAGE
    elif SIMULATOR in draft.image:
        return
    draft.hardware += profile_signs(_section(scenario, "accelerator").get("type").value, "accelerator.type")
    draft.hardware += container_signs(role)
    affinity = _section(scenario, "affinity")
    if affinity.get("enabled").flag():
        draft.hardware += node_signs(affinity.get("nodeSelector").value, "affinity.nodeSelector")
    settings = role.get("vllm")
    command = settings.get("modelCommand").text() or "custom"
    custom = settings.get("customCommand").text()
    draft.env |= {"VLLM_SERVER_DEV_MODE": "1", "VLLM_ALLOW_LONG_MAX_MODEL_LEN": "1"}
    draft.env["VLLM_WORKER_MULTIPROC_METHOD"] = settings.get("workerMultiprocMethod").text() or "spawn"
    if custom is not None:
        draft.env |= _settings(role, model, common)
    read_env(role.get("extraEnvVars"), draft)
    if command != "custom":
        draft.has_command = command == "vllmServe"
        draft.add(BENCHMARK_PLACE, *(("vllm", "serve", _model(model, draft)) if draft.has_command else ()))
        draft.add_list(settings.get("args"), "vllm.args")
    elif custom is not None:
        draft.has_command = True
        draft.add_final("vllm.customCommand", "bash", "-c", custom.rstrip("\\ \n") + _transfer(common))
        draft.models[_path(model)] = _name(model)
    else:
        draft.has_command = True
        _add_default_command(draft, scenario, role, is_standalone=is_standalone)
    preprocess = settings.get("customPreprocessCommand").text() or common.get("preprocessScript").text()
    if preprocess is not None and preprocess != DEFAULT_PREPROCESS:
        draft.has_hidden_variables = True
        draft.note(PREPROCESS_NOTE)
    draft.mounts = Mounts(
        [path for each in (role, common) for path in mount_paths(each.get("volumeMounts").value, "mountPath")]
    )
    with unread_fields((BENCHMARK_ROLE, role), (BENCHMARK_COMMON, common)):
        if draft.starts_vllm():
            draft.finish()


def _image(scenario: ManifestNode, role: ManifestNode, *, is_standalone: bool) -> str | None:
    own = image_of(role.get("image").value) if is_standalone else None
    images = _section(scenario, "images")
    return own or image_of(images.get("vllm").value) or image_of(images.get("vllmOpenai").value)


def _name(model: ManifestNode) -> str:
    return model.get("huggingfaceId").text() or model.get("name").text() or MODEL


def _path(model: ManifestNode) -> str:
    """The folder of the model in the cache."""
    base = model.get("cacheBase").text() or "/model-cache"
    return f"{base}/{model.get('path').text() or f'models/{_name(model)}'}"


def _model(model: ManifestNode, draft: EngineDraft) -> str:
    draft.models[_path(model)] = _name(model)
    return _path(model)


def _settings(role: ManifestNode, model: ManifestNode, common: ManifestNode) -> dict[str, str | None]:
    """The benchmark's own variables, which vLLM does not read."""
    env: dict[str, str | None] = {
        "MODEL_NAME": _name(model),
        "MODEL_PATH": model.get("path").text() or f"models/{_name(model)}",
        "VLLM_INFERENCE_PORT": "8000",
        "VLLM_METRICS_PORT": "8200",
        "VLLM_LOAD_FORMAT": "auto",
    }
    env |= {name: _model_setting(model, common, name) for name in MODEL_SETTINGS}
    return env | {name: str(role.get("parallelism", key).count() or 1) for name, key in SIZES.items()}


def _model_setting(model: ManifestNode, common: ManifestNode, name: str) -> str | None:
    """A setting of the model, else of all models, else the benchmark's default."""
    key, default = MODEL_SETTINGS[name]
    value = model.get(key) if model.get(key).value is not None else common.get(key)
    return default if value.value is None else value.scalar()


def _add_default_command(
    draft: EngineDraft, scenario: ManifestNode, role: ManifestNode, *, is_standalone: bool
) -> None:
    common, model = _section(scenario, "vllmCommon"), _section(scenario, "model")
    is_named = is_standalone or _section(scenario, "modelservice").get("uriProtocol").text() == "hf"
    draft.add(BENCHMARK_PLACE, "vllm", "serve")
    draft.add(
        model.path if model.value is not None else BENCHMARK_PLACE, _name(model) if is_named else _model(model, draft)
    )
    for flag, name in (("--block-size", "VLLM_BLOCK_SIZE"), ("--max-model-len", "VLLM_MAX_MODEL_LEN")):
        draft.add(model.get(MODEL_SETTINGS[name][0]).path, flag, _model_setting(model, common, name) or "")
    tensor = role.get("parallelism", "tensor")
    if tensor.value != 0:
        draft.add(tensor.path, "--tensor-parallel-size", str(tensor.count() or 1))
    flags = common.get("flags")
    for key, (flag, default) in FLAGS.items():
        if flags.get(key).flag(default=default):
            draft.add(flags.get(key).path if flags.has(key) else BENCHMARK_PLACE, flag)
    if transfer := _transfer_config(common):
        draft.add_final(common.get("kvTransfer").path, "--kv-transfer-config", transfer)
    for place, item in enumerate(role.get("vllm", "additionalFlags").items()):
        text = item.text()
        if text is not None:
            add_shell_arguments(draft, [(f"vllm.additionalFlags[{place}]", text)])


def _transfer_config(common: ManifestNode) -> str:
    """The value of `--kv-transfer-config`; empty if KV transfer is off."""
    transfer = common.get("kvTransfer")
    if not transfer.get("enabled").flag():
        return ""
    config = {
        "kv_connector": transfer.get("connector").text() or "NixlConnector",
        "kv_role": transfer.get("role").text() or "kv_both",
    }
    return json.dumps(config)


def _transfer(common: ManifestNode) -> str:
    """What the benchmark appends to a command of the scenario's own."""
    config = _transfer_config(common)
    return f" --kv-transfer-config '{config}'" if config else ""
