"""The containers of one Ray cluster in a manifest: those that start Ray, and the engines that may run on it.

The containers of an object count as one cluster, unless its adapter reads several (`ManifestReader.ray_cluster`). Which
engines run on Ray is known only with their options (`policy.intake.ray_workers`), so that this is about those that may.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeAlias

from msgspec.structs import replace

from policy.intake.command.code_variables import vllm_of_variables
from policy.intake.command.ray_start import ray_start
from policy.intake.command_line import Container, RayNode
from policy.intake.ray_workers import NODE_VARIABLES, RAY

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

_Node: TypeAlias = tuple[RayNode, bool]
"""How a container starts Ray, and whether KubeRay starts it there."""
MAX_NODES: Final = 8
"""The maximum number of different ways to start Ray that an engine has."""
TOO_MANY: Final = f"there are more than {MAX_NODES} different ones, and not all are compared"
MAX_DOUBTS: Final = 4
RAY_START: Final = "ray start"
PLAIN_WORD: Final = "not-known"
"""Stands for a plain word that is not known; no variable of ``NODE_VARIABLES`` has it as its value."""


class ClusterContainers:
    """The containers of a cluster so far."""

    def __init__(self) -> None:
        self.commands: list[tuple[Callable[[], RayNode | None], bool]] = []
        """What reads each container's command: how it starts Ray, or None; and whether KubeRay starts Ray there."""
        self.engines: list[tuple[Container, Mapping[str, str | None]]] = []
        """The engines that may run on Ray, each with the variables that Ray sets for it on any node."""

    def with_nodes(self, containers: Iterable[Container]) -> list[Container]:
        """The containers; engines that may run on Ray with the other containers that start it."""
        nodes = self._nodes()
        given = {id(engine): names for engine, names in self.engines}
        return [
            replace(each, ray_nodes=tuple(_nodes_of(each, nodes, given[id(each)]))) if id(each) in given else each
            for each in containers
        ]

    def _nodes(self) -> list[list[_Node]]:
        """The ways to start Ray, each with the first two containers that do so: an engine may be in the first one."""
        found: dict[object, list[_Node]] = {}
        for read, is_kuberays in self.commands:
            node = read()
            if node is None or not (node.env or node.doubts or node.installation):
                continue
            key = (*node.env.items(), node.doubts, node.installation)
            if len(found) == MAX_NODES and key not in found:
                return [*found.values(), [(RayNode(node.place, doubts=(TOO_MANY,)), False)]]
            same = found.setdefault(key, [])
            if len(same) < 2 and all(node.place != each.place for each, _ in same):  # noqa: PLR2004  # see above
                same.append((node, is_kuberays))
        return [*found.values()]


def _nodes_of(
    engine: Container, nodes: Iterable[Sequence[_Node]], given: Mapping[str, str | None]
) -> Iterator[RayNode]:
    """The nodes of an engine, without the ``given`` variables, which are one of their own: they win on any node.

    Its own container is one, without a place, only if KubeRay starts Ray there: its own command is read with its
    options.
    """
    if own := {name: given[name] for name in NODE_VARIABLES if name in given}:
        yield RayNode("", own, is_job_environment=True)
    for same in nodes:
        node = next((each for each, _ in same if each.place != engine.path), None)
        if node is None and same[0][1]:
            node = replace(same[0][0], place="")
        if node is not None:
            env = {name: value for name, value in node.env.items() if name not in given}
            yield node if len(env) == len(node.env) else replace(node, env=env)


def plain_variables(container: Any, env: Mapping[str, str | None]) -> dict[str, str | None]:
    """The variables whose values are not known, but are certainly one plain word, with a text that stands for it.

    These are addresses, names and numbers: what a controller sets, and the fields of the pod but its annotations.
    """
    items = container.get("env") if isinstance(container, dict) else None
    own = {
        item["name"]: item.get("valueFrom")
        for item in (items if isinstance(items, list) else ())
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    }
    unknown = [name for name, value in env.items() if value is None]
    return {name: PLAIN_WORD for name in unknown if name not in own or _is_plain(own[name])}


def _is_plain(source: Any) -> bool:
    """Whether a variable's source is a field of the pod, but no annotation, which may be any text."""
    field = source.get("fieldRef") if isinstance(source, dict) else None
    path = field.get("fieldPath") if isinstance(field, dict) else None
    return isinstance(path, str) and not path.startswith("metadata.annotations")


def ray_node(
    place: str,
    words: Sequence[str],
    env: Mapping[str, str | None],
    plain: Mapping[str, str | None],
    *,
    has_hidden_variables: bool,
    is_certain: bool,
) -> RayNode | None:
    """How a container starts Ray; None if it does not. ``is_certain``: whether it does, whatever its command shows.

    ``plain`` has the variables of its ``env`` whose values are not known, but plain words.
    """
    start = ray_start(words, {**env, **plain}, has_hidden_variables=has_hidden_variables)
    is_possible = start.is_possible and (is_certain or RAY_START in " ".join(words))
    if not (start.is_read or is_certain or is_possible):
        return None
    doubts = tuple(start.doubts[:MAX_DOUBTS]) if start.is_read or is_possible else ()
    own = {**env, **start.env}
    found: dict[str, str | None] = {name: own[name] for name in NODE_VARIABLES if name in own}
    return RayNode(place, found, doubts, vllm_of_variables(env, start.env) or start.installation)


def may_run_on_ray(texts: Iterable[str]) -> bool:
    """Whether an engine with these arguments and files may run on Ray: no other option has it run there."""
    return any(RAY in text.lower() for text in texts)
