"""llmaz's Playground and BackendRuntime (``inference.llmaz.io/v1alpha1``, read at llmaz's main branch, October 2025).

A BackendRuntime has the command, the image and named lists of arguments; a Playground chooses one of these lists for
its models. The models are OpenModels (``llmaz.io/v1alpha1``), and their paths replace `{{ .ModelPath }}` and the like.
The runtime `vllm` of llmaz's chart is known; its image's tag depends on the chart.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.controller_fields import LLMAZ_ARGUMENTS, LLMAZ_BACKEND_CONFIG, LLMAZ_RUNTIME
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import container_signs
from policy.intake.manifests.hooks import read_hooks
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.pods import read_env
from policy.intake.manifests.signs import shows_vllm
from policy.intake.manifests.storage import HUB, mount
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command_line import HardwareSign
    from policy.intake.manifests.reading import ManifestNode

GROUP: Final = "inference.llmaz.io"
RUNTIME: Final = (GROUP, "BackendRuntime")
MODEL: Final = ("llmaz.io", "OpenModel")
CONTROLLER_PLACE: Final = "added by llmaz"
VLLM: Final = "vllm"
"""The backend of a Playground that names none."""
OTHER_BACKENDS: Final = frozenset({"llamacpp", "ollama", "sglang", "tensorrt-llm", "tgi"})
"""The other backends of llmaz's chart; none of them runs vLLM."""
REPOSITORY: Final = "vllm/vllm-openai"
COMMAND: Final = ("python3", "-m", "vllm.entrypoints.openai.api_server")
ARGUMENTS: Final = {
    "default": ("--model", "{{ .ModelPath }}", "--served-model-name", "{{ .ModelName }}"),
    "speculative-decoding": (
        *("--model", "{{ .ModelPath }}", "--served-model-name", "{{ .ModelName }}"),
        *("--speculative_model", "{{ .DraftModelPath }}", "--num_speculative_tokens", "5", "-tp", "1"),
    ),
}
"""The arguments of the runtime `vllm`, without those of the web server."""
FOLDER: Final = "/workspace/models"
PLACEHOLDER: Final = re.compile(r"\{\{[ \t\n\f\r]{0,64}\.(\w{1,64})[ \t\n\f\r]{0,64}\}\}", re.ASCII)
UNVERSIONED_IMAGE: Final = (
    "the image of the backend `vllm` comes from llmaz's chart, which the manifest does not show (`version` of "
    "`backendRuntimeConfig` sets its tag)"
)


def read_backend_runtime(document: ManifestNode) -> None:
    """Read an engine for each list of arguments of a runtime; its model stays a placeholder for a Playground's."""
    spec = document.get("spec")
    for config in spec.get("recommendedConfigs").items():
        draft = EngineDraft(config)
        if not spec.reader.may_copy_values(config, spec.value):
            return
        _add_runtime(draft, spec)
        draft.image = _image(spec, spec.get("version").text())
        draft.add_list(config.get("args"), "args")
        draft.hardware += container_signs(config)
        with unread_fields((LLMAZ_RUNTIME, spec), (LLMAZ_ARGUMENTS, config)):
            if draft.starts_vllm():
                draft.finish()


def read_playground(document: ManifestNode) -> None:
    """Read the engine of a Playground whose backend runs vLLM, or may run it."""
    spec = document.get("spec")
    chosen = spec.get("backendRuntimeConfig")
    backend = chosen.get("backendName").text() or VLLM
    found = spec.reader.referenced_object(RUNTIME, backend)
    places = [(LLMAZ_BACKEND_CONFIG, chosen)]
    draft = EngineDraft(spec)
    version = chosen.get("version").text()
    models = _models(document)
    values = _model_values(draft, models, skips_loader=_skips_loader(document))
    wanted = chosen.get("configName").text() or _default_config(spec)
    if found is not None:
        runtime = found.get("spec")
        if not spec.reader.may_copy_values(spec, runtime.value):
            return
        _add_runtime(draft, runtime)
        draft.places = [f"runtime.{place}" for place in draft.places]
        draft.image = _image(runtime, version or runtime.get("version").text())
        config = next(
            (item for item in runtime.get("recommendedConfigs").items() if item.get("name").value == wanted), None
        )
        arguments = EngineDraft(spec) if config is None else _arguments(config)
        draft.hardware += container_signs(runtime if config is None else config)
        is_missing = config is None
        places += [(LLMAZ_RUNTIME, runtime), *([] if config is None else [(LLMAZ_ARGUMENTS, config)])]
    elif backend == VLLM:
        draft.add(CONTROLLER_PLACE, *COMMAND)
        draft.has_command = draft.has_default_image = True
        draft.image = None if version is None else f"{REPOSITORY}:{version}"
        draft.unversioned = "" if version is not None else UNVERSIONED_IMAGE
        arguments = EngineDraft(spec)
        arguments.add(CONTROLLER_PLACE, *ARGUMENTS.get(wanted, ()))
        is_missing = wanted not in ARGUMENTS
        draft.note("the BackendRuntime `vllm` is not in the manifest; that of llmaz's chart is assumed")
    else:
        _read_unknown(draft, chosen, backend)
        return
    if is_missing:
        draft.problem = (
            f"the backend {quoted(backend)} has no arguments with the name {quoted(wanted)}, so that llmaz starts "
            "nothing; choose another `configName`"
        )
    for place, word in zip(arguments.places, arguments.words, strict=True):
        draft.add(place, _filled(word, values))
    draft.add_list(chosen.get("args"), "backendRuntimeConfig.args")
    read_env(chosen.get("envs"), draft)
    draft.hardware += [*container_signs(chosen), *_flavor_signs(spec, models)]
    draft.mounts = Mounts([FOLDER, *draft.models])
    with unread_fields(*places):
        if draft.starts_vllm():
            draft.finish()


def _read_unknown(draft: EngineDraft, chosen: ManifestNode, backend: str) -> None:
    """Add a problem for a backend that is not in the manifest, if its name, arguments or variables show vLLM."""
    if backend in OTHER_BACKENDS:
        return
    draft.add_list(chosen.get("args"), "backendRuntimeConfig.args")
    read_env(chosen.get("envs"), draft)
    if VLLM in backend.lower() or shows_vllm(draft.words, draft.env):
        draft.problem = (
            f"the BackendRuntime {quoted(backend)} is not in the manifest, and its name or the Playground's arguments "
            "or variables show vLLM; give it in the same manifest"
        )
        draft.finish()


def _add_runtime(draft: EngineDraft, runtime: ManifestNode) -> None:
    """Add the command and the variables of a runtime."""
    draft.add_list(runtime.get("command"), "command")
    draft.has_command = bool(draft.words)
    read_env(runtime.get("envs"), draft)
    read_hooks(runtime, draft, (runtime.get("envs"),))


def _arguments(config: ManifestNode) -> EngineDraft:
    draft = EngineDraft(config)
    draft.add_list(config.get("args"), "runtime.args")
    return draft


def _image(runtime: ManifestNode, version: str | None) -> str | None:
    name = runtime.get("image").text()
    return name if name is None or version is None else f"{name}:{version}"


def _default_config(spec: ManifestNode) -> str:
    """The name of the arguments that llmaz chooses by the roles of the models."""
    if spec.get("modelClaim").value is None:
        for claim in spec.get("modelClaims", "models").items():
            if claim.get("role").text() == "draft":
                return "speculative-decoding"
    return "default"


def _skips_loader(document: ManifestNode) -> bool:
    annotations = document.get("metadata", "annotations")
    return annotations.has("llmaz.io/skip-model-loader") and annotations.value["llmaz.io/skip-model-loader"] == "true"


def _models(document: ManifestNode) -> list[tuple[str, ManifestNode | None]]:
    """The names of the claimed models, the main one first, each with its OpenModel if the manifest has it."""
    spec = document.get("spec")
    names: list[str] = []
    if spec.get("modelClaim").value is not None:
        name = spec.get("modelClaim", "modelName").text()
        names += [] if name is None else [name]
    else:
        for claim in spec.get("modelClaims", "models").items():
            name, role = claim.get("name").text(), claim.get("role").text()
            if name is not None:
                names.insert(0 if role in {None, "main"} else len(names), name)
    return [(name, spec.reader.referenced_object(MODEL, name)) for name in names]


def _model_values(
    draft: EngineDraft, models: list[tuple[str, ManifestNode | None]], *, skips_loader: bool
) -> dict[str, str]:
    """What llmaz puts into the arguments: the path and the name of the main model, the path of the draft model."""
    values: dict[str, str] = {}
    for name, (key, (model, document)) in zip(("ModelPath", "DraftModelPath"), enumerate(models), strict=False):
        values[name] = _path(draft, model, document, skips_loader=skips_loader)
        if key == 0:
            values["ModelName"] = model
    return values


def _path(draft: EngineDraft, name: str, document: ManifestNode | None, *, skips_loader: bool) -> str:
    """The path of a model in the container, with the name under which its config.json is looked for."""
    if document is None:
        path = f"{FOLDER}/{name}"
        draft.models[path] = path
        draft.note(
            f"the OpenModel {quoted(name)} is not in the manifest; give it in the same manifest, or its config.json "
            f"under the name {quoted(path)}"
        )
        return path
    source = document.get("spec", "source")
    hub = source.get("modelHub", "modelID").text()
    if hub is not None:
        if skips_loader:
            return hub
        file = source.get("modelHub", "filename").text()
        path = f"{FOLDER}/{'models--' + hub.replace('/', '--') if file is None else file}"
        mount(draft, f"{HUB}{hub}", path)
        return path
    uri = source.get("uri").text() or ""
    scheme, _, location = uri.partition("://")
    if scheme.lower() != "host" and skips_loader:
        return uri
    last = location.rpartition("/")[2]
    path = location if scheme.lower() == "host" else f"{FOLDER}/{last if '.gguf' in location else 'models--' + last}"
    mount(draft, uri, path)
    return path


def _filled(word: str, values: dict[str, str]) -> str:
    """An argument with the values of the models; a placeholder without a value stays as it is."""
    return PLACEHOLDER.sub(lambda found: values.get(found[1], found[0]), word)


def _flavor_signs(spec: ManifestNode, models: list[tuple[str, ManifestNode | None]]) -> list[HardwareSign]:
    """The signs in the flavor that llmaz chooses for the main model: the first one named, else the first one."""
    if not models or models[0][1] is None:
        return []
    claim = spec.get("modelClaim" if spec.get("modelClaim").value is not None else "modelClaims")
    wanted = [item.text() for item in claim.get("inferenceFlavors").items()][:1]
    flavors = models[0][1].get("spec", "inferenceConfig", "flavors")
    if not spec.reader.may_copy_values(spec, flavors.value):
        return []
    for flavor in flavors.items():
        if not wanted or flavor.get("name").value == wanted[0]:
            return list(container_signs(flavor.with_value({"resources": flavor.value})))
    return []
