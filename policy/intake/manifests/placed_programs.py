"""Programs that another command of a pod may put where a command finds them: as links, as copies or as scripts.

A hook may do so in its container, and another container in a volume that both mount; a volume that is mounted over the
system's programs may have any program. A command that by itself starts no server may then start one, if both commands
together name vLLM's server. Not here: what such commands do to the files of an engine that is found
(`earlier_scripts`, `empty_volumes`).
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.command.hidden_starts import KNOWN_PROGRAMS, SYSTEM_FOLDERS
from policy.intake.command.launcher import ProgramChanges, program_changes
from policy.intake.manifests.mounts import resolved_path
from policy.intake.manifests.volume_sources import volume_source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from policy.intake.command.earlier_scripts import CommandBeside
    from policy.intake.command.script_context import Variables
    from policy.intake.manifests.mounts import Mounts

LISTS: Final = ("initContainers", "containers")
MAX_PLACERS: Final = 2
"""The most containers kept that do the same; of two, at least one is not the container that is read."""


class Placer(Struct, frozen=True):
    """A container that may put programs into a volume."""

    name: object
    placing: ProgramChanges


class PlacedPrograms(Struct, frozen=True):
    """The containers of a pod that may put programs into its volumes, by what identifies a volume.

    ``sources`` has that for the volumes of which not only the name does.
    """

    placers: dict[str, list[Placer]]
    sources: dict[str, str]

    def placers_beside(self, container: Any) -> Iterator[Placer]:
        """The other containers that may put a program into a volume that a container mounts."""
        own = _field(container, "name")
        volumes = _mounted(_objects(container, "volumeMounts"), self.sources)
        for volume in volumes & self.placers.keys():
            yield from (placer for placer in self.placers[volume] if placer.name != own)


def placed_programs(pod: Any) -> PlacedPrograms:
    """What the containers of a pod's spec may put into volumes; the spec may have any content."""
    found: dict[str, list[Placer]] = {}
    containers = [each for key in LISTS for each in _objects(pod, key)]
    sources = _sources(pod) if len(containers) > 1 else {}
    for container in containers if len(containers) > 1 else ():
        mounts = [each for each in _objects(container, "volumeMounts") if each.get("readOnly") is not True]
        volumes = _mounted(mounts, sources)
        placing = _placing(container) if volumes else ProgramChanges()
        for volume in volumes if placing.puts or placing.writes else ():
            placers = found.setdefault(volume, [])
            if sum(each.placing == placing for each in placers) < MAX_PLACERS:
                placers.append(Placer(container.get("name"), placing))
    return PlacedPrograms(found, sources)


def _sources(pod: Any) -> dict[str, str]:
    """What identifies the volumes of a pod of which not only the name does; of a folder, without its path."""
    named = ((volume.get("name"), volume_source(volume)) for volume in _objects(pod, "volumes"))
    return {name: source[0] for name, source in named if isinstance(name, str) and source is not None and source[0]}


def _mounted(mounts: Iterable[dict[str, Any]], sources: dict[str, str]) -> set[str]:
    """What identifies the volumes of some mounts."""
    return {sources.get(name, name) for mount in mounts if isinstance(name := mount.get("name"), str)}


class ProgramsBeside:
    """What other commands may do to the programs that a container's command runs; each is read once, when it counts.

    ``placers`` gives the other containers that may put programs into volumes of this one.
    """

    def __init__(self) -> None:
        self.placers: Callable[[], Iterable[Placer]] = tuple
        self._hooks_read = 0
        self._placings: set[ProgramChanges] = set()
        self._first: ProgramChanges | None = None
        self._mounted: tuple[Mounts, bool] | None = None

    def may_start(
        self,
        own: tuple[bool, bool],
        env: Variables,
        mounts: Mounts,
        hooks: Sequence[CommandBeside],
        first: Sequence[str],
        *,
        is_read: bool,
    ) -> bool:
        """Whether a command that by itself starts no server may start one.

        ``own`` says which parts of a server's command its words name (`server_names`). ``hooks`` are those that run
        before it; the list may have grown since the last call. ``first`` is the container's command if that runs before
        it. ``is_read``: whether the command was read.
        """
        if all(own) and self._are_mounted(mounts):
            return True
        placings = chain(self._placings_beside(env, hooks, first), (each.placing for each in self.placers()))
        return any(_may_start(own, placing, is_read=is_read) for placing in placings)

    def _are_mounted(self, mounts: Mounts) -> bool:
        if self._mounted is None or self._mounted[0] is not mounts:
            self._mounted = (mounts, _are_mounted(mounts.with_programs()))
        return self._mounted[1]

    def _placings_beside(
        self, env: Variables, hooks: Sequence[CommandBeside], first: Sequence[str]
    ) -> Iterator[ProgramChanges]:
        """What the hooks and the command before do to programs; equal effects of hooks count once."""
        self._placings.update(program_changes(hook.words, env) for hook in hooks[self._hooks_read :])
        self._hooks_read = len(hooks)
        yield from self._placings
        if first:
            self._first = self._first or program_changes(first, env)
            yield self._first


def _are_mounted(paths: Iterable[str]) -> bool:
    """Whether a mount may have another program with the name of a known one where a shell looks for it."""
    folders = [*map(resolved_path, SYSTEM_FOLDERS)]
    for path in paths:
        above, _, name = path.rpartition("/")
        is_folder = any(f"{folder}/".startswith(f"{path.rstrip('/')}/") for folder in folders)
        if is_folder or (above in folders and name in KNOWN_PROGRAMS):
            return True
    return False


def _may_start(own: tuple[bool, bool], placing: ProgramChanges, *, is_read: bool) -> bool:
    """Whether a command may start a server because of what another one does to programs.

    Only a command that is not read may run a script that the other one writes.
    """
    if placing.writes and not is_read and all(placing.names):
        return True
    has_name, has_command = (each or other for each, other in zip(own, placing.names, strict=True))
    return placing.puts and any(own) and has_name and has_command


def _placing(container: dict[str, Any]) -> ProgramChanges:
    env = {
        name: value
        for each in _objects(container, "env")
        if isinstance(name := each.get("name"), str) and isinstance(value := each.get("value"), str)
    }
    commands = (_words(container, "command") + _words(container, "args"), _hook(container))
    found = [program_changes(words, env) for words in commands if words]
    names = zip(*(each.names for each in found), strict=True)
    has_name, has_command = map(any, names) if found else (False, False)
    return ProgramChanges(any(each.puts for each in found), any(each.writes for each in found), (has_name, has_command))


def _hook(container: dict[str, Any]) -> list[str]:
    value: Any = container
    for key in ("lifecycle", "postStart", "exec"):
        value = _field(value, key)
    return [word.replace("$", "$$") for word in _words(value, "command")]


def _words(value: Any, key: str) -> list[str]:
    found = _field(value, key)
    return [word for word in found if isinstance(word, str)] if isinstance(found, list) else []


def _objects(value: Any, key: str) -> list[dict[str, Any]]:
    found = _field(value, key)
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def _field(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, dict) else None
