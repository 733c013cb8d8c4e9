"""The image that KServe chooses for a predictor with a model: its tag, and whether it is a CPU build.

Not here: the container that has the image (`kserve_containers`), and its runtime (`kserve_runtimes`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.kserve_runtimes import SHIPPED_RUNTIMES, is_shipped
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode, ServingRuntime

TAG: Final = re.compile(r":[\w.-]*\Z", re.ASCII)
"""Matches the tag of an image, which KServe replaces with ``runtimeVersion``."""
OWN_IMAGE: Final = re.compile(r"(?:.*/)?kserve/huggingfaceserver", re.DOTALL)
"""Matches KServe's own image of its Hugging Face server, from any registry."""
SHIPPED_IMAGES: Final = {"vllm": "vllm/vllm-openai", "huggingface": "kserve/huggingfaceserver"}
"""The images of the runtimes that KServe ships for these model formats; ``runtimeVersion`` sets their tag."""
SHIPPED_IMAGE: Final = "`runtimeVersion` is the tag of the image of KServe's own runtime, which is assumed to be {}"
CPU: Final = "cpu"
CPU_NAME: Final = "-cpu"
GPU: Final = "nvidia.com/gpu"
MIG: Final = "nvidia.com/mig"
GPU_TAG: Final = "-gpu"
VLLM_SERVER: Final = "vllmserver"
HUGGINGFACE_SERVER: Final = "huggingfaceserver"
SERVERS: Final = {"kserve-vllmserver": VLLM_SERVER, "kserve-huggingfaceserver": HUGGINGFACE_SERVER}
"""The kinds of server by which KServe chooses the build, for runtimes whose names show it."""


def choose_build(
    own: EngineDraft,
    model: ManifestNode,
    name: str | None,
    runtime: ServingRuntime | None,
    model_format: str,
    *,
    has_workers: bool,
) -> None:
    """Set the image that KServe chooses for a predictor, with a note if it is, or may be, a CPU build.

    ``runtimeVersion`` becomes the tag, even for the image of KServe's own runtime. Otherwise KServe runs the `-cpu`
    build of vLLM's server if no GPU is requested, and the `-gpu` build of the Hugging Face server if one is.
    """
    version, image = model.get("runtimeVersion").text(), own.image
    is_own = runtime is None and is_shipped(name, model_format) and model_format in SHIPPED_RUNTIMES
    server = f"{model_format}server" if is_own else _server(name, runtime)
    has_gpu = has_workers or _has_gpu(model, runtime)
    if image is None and version is not None:
        if is_own:
            own.image = f"{SHIPPED_IMAGES[model_format]}:{version}"
            own.note(SHIPPED_IMAGE.format(quoted(own.image)))
        else:
            own.doubt(f"`runtimeVersion` {quoted(version)} is the tag of the runtime's image, which is not known")
    elif image is not None and "@sha256:" not in image:
        tag = _tag(image)
        if version is not None:
            own.image = TAG.sub("", image) + f":{version}"
        elif server == VLLM_SERVER and not has_gpu and tag is not None and not TAG.sub("", image).endswith(CPU_NAME):
            own.image = TAG.sub("", image) + f"{CPU_NAME}:{tag}"
        elif server == HUGGINGFACE_SERVER and has_gpu and tag is not None and not tag.endswith(GPU_TAG):
            own.image = f"{image}{GPU_TAG}"
    is_cpu = _is_cpu_build(own.image, server, version, has_gpu=has_gpu)
    requested = f"`{GPU}` in `limits`" if has_gpu else f"no GPU is requested (`{GPU}` in `limits`)"
    if is_cpu:
        own.platform = CPU
        own.note(f"{requested}: KServe runs the CPU build of the image, so the platform is `{CPU}`")
    elif is_cpu is None and not has_gpu:
        doubt = f"{requested}, and the image does not show whether it is a CPU build; state the platform"
        own.note(doubt)
        own.doubts.append(doubt)


def _is_cpu_build(image: str | None, server: str, version: str | None, *, has_gpu: bool) -> bool | None:
    """Whether the image that KServe has chosen is a CPU build; None if it does not show that.

    ``image`` is None for the image of the runtime that KServe ships.
    """
    if server == VLLM_SERVER:
        if image is None:
            return None if version is not None and not has_gpu else not has_gpu
        return TAG.sub("", image).endswith(CPU_NAME) or (None if not has_gpu else False)
    if image is not None and OWN_IMAGE.fullmatch(TAG.sub("", image)) is not None:
        return not (_tag(image) or "").endswith(GPU_TAG)
    if server != HUGGINGFACE_SERVER:
        return False
    if image is not None:
        return None
    return not (has_gpu if version is None else version.endswith(GPU_TAG))


def _server(name: str | None, runtime: ServingRuntime | None) -> str:
    """The kind of server by which KServe chooses the image's build: the runtime's annotation, else by its name."""
    return (runtime.server if runtime is not None else "") or SERVERS.get(name or "", "")


def _has_gpu(model: ManifestNode, runtime: ServingRuntime | None) -> bool:
    """Whether KServe finds a GPU in the limits of a predictor or its runtime; requests do not count."""
    limits = [model.get("resources", "limits")]
    if runtime is not None:
        limits.append(runtime.container.get("resources", "limits"))
    return any(name == GPU or name.startswith(MIG) for node in limits for name, _ in node.fields())


def _tag(image: str | None) -> str | None:
    """The tag of an image as KServe finds it; None if it has none."""
    found = None if image is None else TAG.search(image)
    return None if found is None else found[0][1:]
