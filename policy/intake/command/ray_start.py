"""How the command that starts Ray affects the servers that Ray starts later, in the same container.

Ray's processes, and what they start, have the variables and the working folder of `ray start`. What runs before it, or
after it if it does not block, may change vLLM's files and a model.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.intake.command.evaluated_variables import note_variables
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, ExpansionBudget, ShellSyntaxError
from policy.intake.command.kubernetes_references import expand_words
from policy.intake.command.program_walk import server_of
from policy.intake.command.replaced_program import ReplacedFiles  # noqa: TC001  # msgspec reads the annotations
from policy.intake.command.script_context import RayJob, ScriptContext
from policy.intake.command.vllm_command import NO_START_REMEDIES, ServerCommand, UnreadableCommand
from policy.intake.command.volume_paths import NO_VOLUMES, VolumePaths
from policy.intake.command_line import Installation  # noqa: TC001  # as above
from policy.stated_secrets import secret_values

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command.script_context import Variables

NO_RAY_START: Final = "nothing in it is known to start Ray"
TOO_LONG_MESSAGE: Final = f"it has more than {MAX_WORDS} words or {MAX_TEXT} characters"


class RayStart(Struct, frozen=True):
    """How a command that starts Ray affects the servers that Ray starts.

    ``env`` has the variables that it sets; None for unknown values. ``is_read``: whether all of them are there.
    ``folders`` has the working folders that it changes to, ``installation`` the vLLM that it may make run, ``files``
    what else its scripts may change, and ``secrets`` the values that it gives to variables with the name of a secret.
    ``is_possible``: whether the command may start Ray at all. ``volumes`` are the mounts of its container.
    """

    env: dict[str, str | None]
    is_read: bool
    folders: tuple[str, ...] = ()
    doubts: list[str] = []
    installation: Installation | None = None
    files: list[tuple[ReplacedFiles, str]] = []
    secrets: frozenset[str] = frozenset()
    is_possible: bool = True
    volumes: VolumePaths = NO_VOLUMES

    def installation_for(self, server: ServerCommand) -> Installation | None:
        """The vLLM that may run instead of the image's if Ray starts a server."""
        for files, folder in self.files if self.installation is None else ():
            files.enter(folder)
            if (changed := files.installation_before(server)) is not None:
                return changed
        return self.installation

    def doubts_about(self, server: ServerCommand, start: str) -> list[str]:
        """Why a server that Ray starts may get other variables or load another model.

        ``start`` is the absolute folder in which the command starts; empty if it is not known.
        """
        found = dict.fromkeys(self.doubts)
        for files, folder in self.files:
            files.enter(folder)
            found.update(dict.fromkeys(files.other_models(server)))
            if start or self.volumes:
                found.update(dict.fromkeys(files.other_models(server, start, self.volumes)))
        return [*found]


def ray_start(
    words: Sequence[str], env: Variables, *, has_hidden_variables: bool = False, volumes: VolumePaths = NO_VOLUMES
) -> RayStart:
    """Read the command of a container in which Ray runs.

    `env` is what the container gets; with ``has_hidden_variables`` it may have variables whose names are unknown.
    ``volumes`` are the mounts of the container.
    """
    if len(words) > MAX_WORDS or sum(map(len, words)) > MAX_TEXT:
        return RayStart({}, is_read=False, doubts=[TOO_LONG_MESSAGE])
    budget, job = ExpansionBudget(), RayJob()
    found: ServerCommand | UnreadableCommand | None
    try:
        read = expand_words(words, env, budget, has_hidden_variables=has_hidden_variables)
        context = note_variables(env, ScriptContext(budget, has_hidden_variables, job=job))
        found = server_of(read, [""] * len(read), env, {}, context)
    except ShellSyntaxError as error:
        found = UnreadableCommand(str(error), "")
    secrets, shown = frozenset(budget.secrets), secret_values(env, (), budget.secrets)
    if not isinstance(found, ServerCommand) or found.words is not job.words:
        why = found.why if isinstance(found, UnreadableCommand) else NO_RAY_START
        is_possible = isinstance(found, UnreadableCommand) and found.remedy not in NO_START_REMEDIES
        return RayStart({}, is_read=False, doubts=[shown.hidden(why)], secrets=secrets, is_possible=is_possible)
    doubts = [shown.hidden(doubt) for doubt in found.doubts]
    return RayStart(found.env, True, found.folders, doubts, found.installation, job.files, secrets, volumes=volumes)
