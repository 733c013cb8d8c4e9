"""SkyPilot tasks (read at the project's examples, 2026).

Parses ``run`` as a bash script with the variables of ``envs``, and takes vLLM's version from the last certain
``pip install vllm==`` in ``setup``, which is also a bash script. If the last installation there is uncertain, another
vLLM may run. What else ``setup`` may change makes the start uncertain; SkyPilot runs ``run`` by ``bash -i``, after
``source ~/.bashrc``. Of the variables that SkyPilot sets on each node, the number of GPUs is that of `resources`; the
others are unknown.
"""

from __future__ import annotations

import math
from itertools import chain
from typing import TYPE_CHECKING, Final

from policy.intake.command.earlier_scripts import effects_before
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import resources_signs
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.intake.manifests.reading import ManifestNode

TASK_FIELDS: Final = frozenset(
    {"resources", "setup", "envs", "num_nodes", "service", "secrets", "workdir", "file_mounts"}
)
MOUNTING: Final = ("file_mounts", "volumes")
"""The fields whose keys are paths at which files or volumes are mounted."""
CHOICES: Final = ("any_of", "ordered")
"""The fields with several resources, of which SkyPilot chooses one."""
MAX_ACCELERATORS: Final = 10_000
GPUS: Final = "SKYPILOT_NUM_GPUS_PER_NODE"
NODE_VARIABLES: Final = ("SKYPILOT_NODE_RANK", "SKYPILOT_NODE_IPS")


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
    draft.env[GPUS] = _accelerator_count(document.get("resources", "accelerators").value)
    for field in ("envs", "secrets"):
        for name, value in document.get(field).fields():
            draft.env[name] = value.scalar()
    image = document.get("resources", "image_id").value
    if isinstance(image, str) and image.startswith("docker:"):
        draft.image = image.removeprefix("docker:")
    mounting = [paths for field in MOUNTING if isinstance(paths := document.get(field).value, dict)]
    paths = [path for path in chain(*mounting) if isinstance(path, str)]
    draft.mounts = Mounts(path for path in paths if path.startswith(("/", "~")))  # others are below the working folder
    draft.hardware += resources_signs(document.get("resources").value)
    if draft.starts_vllm():
        setup = document.get("setup").text()
        earlier = effects_before([] if setup is None else [setup], draft.env, draft.server, "setup", starts_shell=True)
        draft.doubts += earlier.doubts
        with unread_fields(("SkyPilot task", document), *_resources(document.get("resources"))):
            draft.finish(earlier.installations)


def _resources(resources: ManifestNode) -> Iterator[tuple[str, ManifestNode]]:
    """The resources of a task, and those among which SkyPilot chooses, by their places."""
    yield "SkyPilot resources", resources
    for field in CHOICES:
        choices = resources.get(field) if isinstance(resources.value, dict) else resources.with_value(None)
        if isinstance(choices.value, list):
            yield from (("SkyPilot choice", choice) for choice in choices.items())


def _accelerator_count(accelerators: object) -> str | None:
    """The number of accelerators of a node, rounded up as SkyPilot does; None if there are several choices.

    `H100:8`, `{H100: 8}` and `[H100:8, A100:8]` have 8, `L4` has 1.
    """
    if isinstance(accelerators, str):
        choices: list[object] = [accelerators.partition(":")[2] or "1"]
    elif isinstance(accelerators, dict):
        choices = [1 if count is None else count for count in accelerators.values()]
        if all(count is None for count in accelerators.values()):  # a set of names such as `{L4:1, A10G}`
            choices = [name.partition(":")[2] or "1" for name in accelerators if isinstance(name, str)]
    elif isinstance(accelerators, list):
        choices = [name.partition(":")[2] or "1" for name in accelerators if isinstance(name, str)]
    else:
        return None
    counts = {_rounded_up(choice) for choice in choices}
    return counts.pop() if len(counts) == 1 else None


def _rounded_up(count: object) -> str | None:
    try:
        number = float(count) if isinstance(count, str | int | float) else math.nan
    except (ValueError, OverflowError):
        return None
    return str(math.ceil(number)) if 0 < number < MAX_ACCELERATORS else None
