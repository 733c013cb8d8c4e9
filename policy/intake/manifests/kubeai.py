"""KubeAI's Model (``kubeai.org/v1``, read at the main branch, October 2026).

Builds the command and the variables of a model with the engine `VLLM` as its controller does. A model that states no
image gets the one in the controller's configuration, which no manifest shows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests import images, storage
from policy.intake.manifests.draft import RUNNER_VARIABLE, EngineDraft
from policy.intake.manifests.hardware import profile_signs
from policy.intake.manifests.mounts import Mounts, resolved_path
from policy.intake.manifests.pods import expand, read_env_from
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

CONTROLLER_PLACE: Final = "added by KubeAI"
ENGINE: Final = "VLLM"
MODULE: Final = "vllm.entrypoints.openai.api_server"
CACHE: Final = "/models"
"""The folder of KubeAI's cache; a model's folder in it is named by its UID, which the manifest does not show."""
CLAIM: Final = "/model"
SAME_PLACE: Final = "the file {} is at the place of another one, which it may replace"


def read_model(document: ManifestNode) -> None:
    """Read the engine of a Model that vLLM serves; an image of vLLM with another `engine` is a problem."""
    spec = document.get("spec")
    engine = spec.get("engine").text()
    draft = EngineDraft(spec)
    draft.image = spec.get("image").text()
    if engine != ENGINE:
        if images.starts_vllm(draft.image, draft.table) or images.names_vllm(draft.image):
            draft.problem = (
                f"the image {quoted(draft.image)} may start vLLM, and `engine` is {quoted(engine)}, for which KubeAI "
                f"adds other arguments; set `engine: {ENGINE}`, or use an image of that engine"
            )
            draft.finish()
        return
    draft.has_default_image = True
    draft.add(CONTROLLER_PLACE, "python3", "-m", MODULE)
    _add_model(draft, spec)
    draft.add(CONTROLLER_PLACE, f"--served-model-name={document.get('metadata', 'name').text() or ''}")
    scheme = (spec.get("url").text() or "").partition("://")[0]
    if scheme == "s3" and not spec.get("cacheProfile").text():
        draft.add(CONTROLLER_PLACE, "--load-format=runai_streamer")
    draft.add_list(spec.get("args"), "args")
    if spec.get("adapters").value is not None:
        draft.add("adapters", "--enable-lora")
        draft.env["VLLM_ALLOW_RUNTIME_LORA_UPDATING"] = "True"
    read_env_from(spec.get("envFrom"), draft)
    for name, node in sorted(spec.get("env").fields(), key=lambda field: field[0]):
        value = node.text()
        if value is not None:
            draft.env[name] = expand(value, draft, node)
            draft.replacing_source = "" if name == RUNNER_VARIABLE else draft.replacing_source
    _add_files(draft, spec.get("files"))
    profile = (spec.get("resourceProfile").text() or "").partition(":")[0]
    draft.hardware += profile_signs(profile, "resourceProfile")
    draft.finish()


def _add_files(draft: EngineDraft, files: ManifestNode) -> None:
    """Add the files of a Model, which KubeAI writes into one ConfigMap; `_` replaces each `/` of a path in its key.

    If several files have the same key, the content of the last one counts for all of them.
    """
    found = [(file.get("path").text(), file.get("content").text()) for file in files.items()]
    contents = {path.replace("/", "_"): content for path, content in found if path and content is not None}
    places: set[str] = set()
    for path, content in found:
        if path and content is not None:
            draft.files[path] = contents[path.replace("/", "_")]
            place = resolved_path(path)
            if place in places and not draft.doubts:
                draft.doubts.append(SAME_PLACE.format(quoted(path)))
            places.add(place)
    draft.mounts |= Mounts(draft.files)


def _add_model(draft: EngineDraft, spec: ManifestNode) -> None:
    """Add `--model` with the model's name on the hub, or its path."""
    url = spec.get("url").text() or ""
    scheme, _, rest = url.partition("://")
    reference = rest.partition("?")[0]
    path = reference
    if spec.get("cacheProfile").text():
        path = f"{CACHE}/{reference}"
        storage.mount(draft, f"{scheme}://{reference}", path)
    elif scheme == "pvc":
        path = CLAIM
        storage.mount(draft, url, path)
    elif scheme == "s3":
        path = url
    draft.add("url", f"--model={path}")
