"""Values of vLLM's own Helm chart (its example ``chart-helm``, read at 0.25): ``image.command`` starts vLLM.

The variables are those of ``image.env``, ``configs``, ``secrets`` and ``externalConfigs``; the last two show no values.
``extraContainers`` are containers of the same pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.chart_images import image_of, is_image
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.pods import read_container, read_env

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

STORAGE: Final = "/data"
"""Where the chart mounts its claim."""
HIDDEN_VARIABLES: Final = "`secrets` and `externalConfigs` set variables that the values do not show"


def is_values(values: dict[str, Any]) -> bool:
    """Whether a mapping has an image with its command, as in this chart."""
    image = values.get("image")
    return is_image(image) and isinstance(image.get("command"), list)


def read_values(values: ManifestNode) -> None:
    """Read the engine, and those among ``extraContainers``."""
    image = values.get("image")
    draft = EngineDraft(image)
    draft.image = image_of(image.value)
    draft.mounts = Mounts([STORAGE])
    draft.add_list(image.get("command"), "command")
    draft.has_command = bool(draft.words)
    draft.env.replace({name: item.scalar() or "" for name, item in values.get("configs").fields()})
    if values.get("secrets").value or values.get("externalConfigs").value:
        draft.has_hidden_variables = True
        draft.note(HIDDEN_VARIABLES)
    read_env(image.get("env"), draft)
    if draft.starts_vllm():
        draft.finish()
    for container in values.get("extraContainers").items():
        other = read_container(container)
        if other.starts_vllm():
            other.finish()
