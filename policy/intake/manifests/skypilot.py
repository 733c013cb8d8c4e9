"""SkyPilot tasks (read at the project's examples, 2026).

Parses ``run`` as a bash script with the variables of ``envs``, and takes vLLM's version from the last certain
``pip install vllm==`` in ``setup``, which is also a bash script. If the last installation there is uncertain, another
vLLM may run. Variables that SkyPilot sets on each node are unknown.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.launcher import installations_in
from policy.intake.manifests.draft import EngineDraft

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

TASK_FIELDS: Final = frozenset(
    {"resources", "setup", "envs", "num_nodes", "service", "secrets", "workdir", "file_mounts"}
)
NODE_VARIABLES: Final = ("SKYPILOT_NUM_GPUS_PER_NODE", "SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS")


def is_task(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a task."""
    return isinstance(document.value, dict) and "run" in document.value and not TASK_FIELDS.isdisjoint(document.value)


def read_task(document: ManifestNode) -> None:
    """Read the engine that ``run`` starts, if any."""
    script = document.get("run").text()
    if script is None:
        return
    draft = EngineDraft(document)
    draft.add("run", "bash", "-c", script)
    draft.has_command = True
    nodes = document.get("num_nodes").count()
    draft.env = dict.fromkeys(NODE_VARIABLES) | {"SKYPILOT_NUM_NODES": str(1 if nodes is None else nodes)}
    for field in ("envs", "secrets"):
        for name, value in document.get(field).fields():
            draft.env[name] = value.scalar()
    image = document.get("resources", "image_id").value
    if isinstance(image, str) and image.startswith("docker:"):
        draft.image = image.removeprefix("docker:")
    if draft.starts_vllm():
        draft.finish(installations_in(document.get("setup").text() or "", draft.env))
