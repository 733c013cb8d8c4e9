"""Values of OPEA's Helm chart ``vllm`` (read at August 2025), alone or under its name in the values of another chart.

The chart passes ``extraCmdArgs`` and ``--model LLM_MODEL_ID`` to the image, or to ``extraCmd.command``. Hosts, ports
and the download folder are left out. ``accelDevice`` is empty for the CPU. Without ``LLM_MODEL_ID`` the model depends
on other values, which are not shown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.chart_images import image_of, is_image
from policy.intake.manifests.draft import EngineDraft

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

MODEL: Final = "LLM_MODEL_ID"
IMAGE: Final = "opea/vllm"
"""The chart's default image, which runs on the CPU; the others have a suffix."""
VARIABLES: Final = (
    *("VLLM_CPU_KVCACHE_SPACE", "VLLM_SKIP_WARMUP", "VLLM_TORCH_PROFILER_DIR", "PT_HPU_ENABLE_LAZY_COLLECTIVES"),
    *("OMPI_MCA_btl_vader_single_copy_mechanism", "PT_HPUGRAPH_DISABLE_TENSOR_CACHE"),
)
PLATFORMS: Final = {"": "cpu", "gaudi": "out-of-tree", "rocm": "rocm", "nvidia": "cuda"}
"""The platform of each ``accelDevice``."""
NO_MODEL: Final = (
    f"these values of OPEA's chart have no `{MODEL}`, so that other values decide the model; send the rendered "
    "manifest: `helm template … -f FILE | runner-policy decide -`"
)
DEFAULT_IMAGE: Final = "the image is the default of OPEA's chart, unless other values name one"
CPU_NOTE: Final = "OPEA's chart runs vLLM's build for the CPU, as `accelDevice` is empty"
HIDDEN_VARIABLES: Final = "`global.extraEnvConfig` sets variables that the values do not show"


def is_values(key: str, values: dict[str, Any]) -> bool:
    """Whether a mapping under a key has the values of the chart: OPEA's image, or the model and the chart's name."""
    image = values.get("image")
    is_own = is_image(image) and image["repository"].rpartition("docker.io/")[2].startswith(IMAGE)
    return is_own or (MODEL in values and (key == "vllm" or key.startswith("vllm-")))


def read_values(values: ManifestNode, document: ManifestNode) -> None:
    """Read the engine; it has a problem if the values do not have its model."""
    image = values.get("image")
    draft = EngineDraft(image if is_image(image.value) else values)
    draft.image = image_of(image.value) or IMAGE
    if not is_image(image.value):
        draft.note(DEFAULT_IMAGE)
    device = values.get("accelDevice").scalar()
    if device is None and draft.image.partition(":")[0] == IMAGE:
        device = ""
    draft.platform = None if device is None else PLATFORMS.get(device)
    if device == "":
        draft.note(CPU_NOTE)
    _add_variables(draft, values)
    if any(each.get("global", "extraEnvConfig").value for each in (values, document)):
        draft.has_hidden_variables = True
        draft.note(HIDDEN_VARIABLES)
    _add_words(draft, values.get("extraCmd", "command"))
    draft.has_command = bool(draft.words)
    _add_words(draft, values.get("extraCmdArgs"))
    model = values.get(MODEL).scalar()
    if model:
        draft.add(values.get(MODEL).path, "--model", model)
    else:
        draft.problem = NO_MODEL
    draft.starts_vllm()  # parses the words, and adds the image's entry point; the chart starts nothing else
    draft.finish()


def _add_words(draft: EngineDraft, words: ManifestNode) -> None:
    """Add the words of a list; they may be numbers, because the chart quotes them."""
    draft.add(words.path, *(word for item in words.items() if (word := item.scalar()) is not None))


def _add_variables(draft: EngineDraft, values: ManifestNode) -> None:
    draft.env.replace({"HF_HOME": "/tmp/.cache/huggingface", "HF_TOKEN": None})  # noqa: S108  # the chart's
    for name in VARIABLES:
        value = values.get(name).scalar()
        if value:
            draft.env[name] = value
    for name, item in values.get("env").fields():
        draft.env[name] = item.scalar() or ""
