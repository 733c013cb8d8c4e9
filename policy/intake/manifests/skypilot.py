"""SkyPilot tasks (read at the project's examples, 2026).

Parses ``run`` as a bash script with the variables of ``envs``, and takes vLLM's version from the last certain
``pip install vllm==`` in ``setup``, which is also a bash script. If the last installation there is uncertain, another
vLLM may run. Any other change that ``setup`` may make is a doubt; SkyPilot runs ``run`` by ``bash -i``, after
``source ~/.bashrc``. Of the variables that SkyPilot sets on each node, the number of nodes and that of GPUs
(`resources`) are known.
"""

from __future__ import annotations

import math
import re
import shlex
from itertools import chain
from posixpath import join, normpath
from typing import TYPE_CHECKING, Final

from policy.intake.command.container_programs import container_run
from policy.intake.command.earlier_scripts import effects_before
from policy.intake.command.expansion import MAX_TEXT, ExpansionBudget, ShellSyntaxError
from policy.intake.command.passed_variables import PassedVariables
from policy.intake.command.words import Unknown
from policy.intake.manifests.containerrun import add_options
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.hardware import resources_signs
from policy.intake.manifests.mounts import Mounts, resolved_path
from policy.intake.manifests.tool_fields import SKYPILOT_CHOICE, SKYPILOT_RESOURCES, SKYPILOT_TASK
from policy.intake.manifests.unread_fields import unread_fields

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.manifests.field_tables import FieldTable
    from policy.intake.manifests.reading import ManifestNode

TASK_FIELDS: Final = frozenset(
    {"resources", "setup", "envs", "num_nodes", "service", "secrets", "workdir", "file_mounts"}
)
MOUNT_FIELDS: Final = ("file_mounts", "volumes")
"""The fields whose keys are paths at which files or volumes are mounted."""
WORKING_FOLDER: Final = "~/sky_workdir"
"""The folder in which `setup` and `run` start, and to which `workdir` is copied."""
CONFIGURATION: Final = (("config",), ("experimental", "config_overrides"))
RUN_OPTIONS: Final = ("docker", "run_options")
REFERENCE: Final = re.compile(r"\$\{?([A-Za-z_][A-Za-z0-9_]*+)\}?")
"""Matches a variable in a path."""
CHOICES: Final = ("any_of", "ordered")
"""The fields with alternative resources, of which SkyPilot chooses one."""
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
    draft.add_final("run", "bash", "-c", script)
    draft.has_command = True
    nodes = document.get("num_nodes").count()
    draft.env.replace(dict.fromkeys(NODE_VARIABLES) | {"SKYPILOT_NUM_NODES": str(1 if nodes is None else nodes)})
    draft.env[GPUS] = _accelerator_count(document.get("resources", "accelerators").value)
    for field in ("envs", "secrets"):
        for name, value in document.get(field).fields():
            draft.env[name] = value.scalar()
    image = document.get("resources", "image_id").value
    if isinstance(image, str) and image.startswith("docker:"):
        draft.image = image.removeprefix("docker:")
    mounting = [paths for field in MOUNT_FIELDS if isinstance(paths := document.get(field).value, dict)]
    budget = ExpansionBudget()
    paths = [_filled(path, draft.env, budget) for path in chain(*mounting) if isinstance(path, str)]
    paths += [WORKING_FOLDER] if document.get("workdir").value else []
    draft.mounts = Mounts.from_paths(_in_working_folder(path) for path in paths)
    draft.folder = resolved_path(WORKING_FOLDER)
    _add_run_options(document, draft)
    draft.hardware += resources_signs(document.get("resources").value)
    if draft.starts_vllm():
        setup = document.get("setup").text()
        earlier = effects_before(
            [] if setup is None else [setup],
            draft.env,
            draft.server,
            "setup",
            starts_shell=True,
            folder=WORKING_FOLDER,
        )
        draft.doubts += earlier.doubts
        with unread_fields((SKYPILOT_TASK, document), *_resources(document.get("resources"))):
            draft.finish(earlier.installations)


def _filled(path: str, env: Mapping[str, str | None], budget: ExpansionBudget) -> str:
    """A path with the values of `envs`; an `Unknown` if it has other variables, or is beyond the limits."""
    if "$" not in path:
        return path
    try:
        budget.fill(sum(len(env.get(name) or "") for name in REFERENCE.findall(path)))
    except ShellSyntaxError:
        return Unknown(path)
    filled = REFERENCE.sub(lambda found: env.get(found[1]) or found[0], path)
    return Unknown(filled) if "$" in filled else filled


def _in_working_folder(path: str) -> str:
    """The path of a mount; a relative one is in the working folder."""
    if path.startswith(("/", "~", "$")):
        return path
    joined = normpath(join(WORKING_FOLDER, path))
    return Unknown(joined) if type(path) is Unknown else joined


def _add_run_options(document: ManifestNode, draft: EngineDraft) -> None:
    """Add what options of `docker run` set in the container of the task; the task's own variables take precedence.

    SkyPilot exports the variables of the container in the shell of `run`.
    """
    options = (document.get(*path, *RUN_OPTIONS).value for path in CONFIGURATION)
    texts = [text for each in options for text in (each if isinstance(each, list) else [each]) if isinstance(text, str)]
    if not texts or draft.image is None:
        return
    if sum(map(len, texts)) > MAX_TEXT:
        draft.has_hidden_variables = True
        return
    try:
        words = [Unknown(word) if "$" in word else word for word in shlex.split(" ".join(texts))]
    except ValueError:
        draft.has_hidden_variables = True
        return
    run = container_run(["docker", "run", *words, draft.image])
    if run is None or len(run.words) != 1:
        draft.has_hidden_variables = True
        return
    own = EngineDraft(document)
    add_options(own, run, PassedVariables({}))
    draft.env.replace({**own.env, **draft.env})
    draft.secrets |= own.stated_secrets()
    draft.mounts |= own.mounts
    draft.has_hidden_variables = draft.has_hidden_variables or own.has_hidden_variables


def _resources(resources: ManifestNode) -> Iterator[tuple[FieldTable, ManifestNode]]:
    """The resources of a task and the alternatives among which SkyPilot chooses, each with the table of its fields."""
    yield SKYPILOT_RESOURCES, resources
    for field in CHOICES:
        choices = resources.get(field) if isinstance(resources.value, dict) else resources.with_value(None)
        if isinstance(choices.value, list):
            yield from ((SKYPILOT_CHOICE, choice) for choice in choices.items())


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
