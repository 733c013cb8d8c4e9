"""The command of a container in which Ray runs, as KubeRay makes it, and what it means for an engine that Ray starts.

KubeRay joins a container's own command and `ray start` with blanks, for a shell; see `raycluster`. Read at KubeRay's
main branch, August 2026. Not here: engines that the command itself starts.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command.paths import ANY_FOLDER
from policy.intake.command.ray_start import ray_start
from policy.intake.command_line import COMMAND_DOUBT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.ray_start import RayStart
    from policy.intake.command_line import Installation
    from policy.intake.manifests.draft import EngineDraft

OVERWRITE_ANNOTATION: Final = "ray.io/overwrite-container-cmd"
RAY_START: Final = "ray start"
"""KubeRay leaves a command with this text as it is."""
BASH: Final = ("/bin/bash", "-c", "--")
"""The shell that runs a container's command before Ray.

Newer releases of KubeRay use `-lc`. The start-up files of Ray's images are assumed to set none of vLLM's variables.
"""
RAY_COMMAND: Final = "ulimit -n 65536; ray start"
COMMAND_REFERENCE: Final = re.compile(r"\$(?:KUBERAY_GEN_RAY_START_CMD\b|[{(]KUBERAY_GEN_RAY_START_CMD[)}])")
"""Matches a reference to the variable with the command by which KubeRay starts Ray."""
BLOCK_OPTION: Final = " --block"
"""The option of `ray start` that matters for an engine: what comes after the command runs once Ray has ended."""


def ray_script(words: Sequence[str], options: str = "") -> str:
    """The script that KubeRay makes from the words of a container's command and the options of `ray start`."""
    script = join_words(words)
    return f"{script} && {RAY_COMMAND}{options}" if script else f"{RAY_COMMAND}{options}"


def join_words(words: Sequence[str]) -> str:
    """The words of a command and its arguments as KubeRay joins them."""
    return "".join(f" {word} " for word in words)


def start_words(words: Sequence[str], options: str, *, is_kept: bool) -> list[str]:
    """The command with which KubeRay starts Ray in a container with these words; see ``apply_ray_start``."""
    if is_kept or RAY_START in join_words(words):
        return [COMMAND_REFERENCE.sub(f"{RAY_START}{BLOCK_OPTION}", word) for word in words]
    return [*BASH, ray_script(words, options or BLOCK_OPTION)]


def apply_ray_start(draft: EngineDraft, options: str, *, is_kept: bool) -> RayStart | None:
    """Set a container's variables and folder to those of Ray's processes; returns how its command starts Ray.

    Returns None if only the command that KubeRay adds to each container starts Ray. ``options`` has the options of
    `ray start`, if they matter. ``is_kept``: whether KubeRay keeps the container's command, whatever it is.
    """
    if not (draft.words or options or is_kept):
        return None
    words = start_words(draft.words, options, is_kept=is_kept)
    hidden = draft.has_hidden_variables
    start = ray_start(words, draft.env, has_hidden_variables=hidden, volumes=draft.volumes)
    draft.env.update(start.env)
    draft.secrets |= start.secrets
    draft.folder = draft.folder_after(start.folders) if start.is_read else ANY_FOLDER
    if not start.is_read:
        draft.env.replace(dict.fromkeys(draft.env))
        draft.has_hidden_variables = True
    return start


def read_effects(draft: EngineDraft, start: RayStart | None) -> list[Installation]:
    """Return the vLLM that may run because of the command that starts Ray, and add a doubt for each other change.

    The words of the ``draft`` are those of an engine that Ray starts.
    """
    server = draft.server
    if start is None or server is None:
        return []
    doubts = [COMMAND_DOUBT.format(doubt) for doubt in start.doubts_about(server, draft.start_folder())]
    draft.doubts += [doubt for doubt in doubts if doubt not in draft.doubts]
    installation = start.installation_for(server)
    return [] if installation is None else [installation]
