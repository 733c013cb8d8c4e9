"""Where a change to an engine is written: in the engine's own part of the text, or else in its document."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from msgspec import UNSET

from policy.edits.argument_places import MAX_NODES, ArgumentPlace, argument_places
from policy.edits.nodes import Node, node_at, subtree
from policy.edits.operations import Splice
from policy.edits.variable_places import new_variable_places, variable_places
from policy.intake.command.flags import flags

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.remedies import Change
    from policy.edits.layers import TextLayer
    from policy.edits.sources import EditedEngine
    from policy.parser.yamltree import YamlNode

MAX_PLACES: Final = 8
"""The most places that are tried for a change of one engine."""
MAX_BESIDE: Final = 2_000
"""The most values of an object that is searched for places beside the engine."""
IMAGE: Final = "vllm/vllm-openai"
"""vLLM's own image, whose tags are its releases."""


def places_of(
    layer: TextLayer, document: Node, node: Node, engine: EditedEngine, change: Change
) -> Iterator[ArgumentPlace]:
    """The places of a change, the nearest to the engine first."""
    count = 0
    for place in islice(_places(layer, node, engine, change), MAX_PLACES):
        count += 1
        yield place
    # What is written beside the engine is looked for only if needed, and not in a large object: each engine would
    # search it again.
    around = _object_of(document, engine)
    if around is not node and count < MAX_PLACES and sum(1 for _ in subtree(around, MAX_BESIDE)) < MAX_BESIDE:
        yield from islice(_places(layer, around, engine, change), MAX_PLACES - count)


def _object_of(document: Node, engine: EditedEngine) -> Node:
    """The object with a kind that has the engine, or else the document."""
    found: YamlNode = document
    node: YamlNode = document
    for step in engine.steps[1:]:
        if isinstance(node.value, dict) and step in node.value:
            node = node.value[step]
        elif isinstance(node.value, list) and step.isdecimal() and int(step) < len(node.value):
            node = node.value[int(step)]
        else:
            break
        if isinstance(node.value, dict) and "kind" in node.value:
            found = node
    assert isinstance(found, Node)
    return found


def _places(layer: TextLayer, node: Node, engine: EditedEngine, change: Change) -> Iterator[ArgumentPlace]:
    if change.argument is not UNSET:
        release = flags(engine.request.release.decided_as)
        yield from argument_places(layer, node, str(change.argument), release, change.to, adds=change.from_ is None)
    elif change.variable is not UNSET:
        name = str(change.variable)
        found = False
        for place in variable_places(layer, node, name, change.to):
            found = True
            yield place
        if not found and change.to is not None:
            yield from new_variable_places(layer, node, name, change.to)
    elif change.field is not UNSET:
        yield from _releases(layer, node, str(change.from_), str(change.to))
    elif change.fact is not UNSET:
        fact = node_at(node, ("facts", *str(change.fact).split("."))) or node_at(node, ("facts", str(change.fact)))
        if fact is not None:
            yield ArgumentPlace(layer.offset(fact.start), layer.text[fact.start : fact.end], None)


def _releases(layer: TextLayer, node: Node, old: str, new: str) -> Iterator[ArgumentPlace]:
    """The tags of vLLM's own images with a release, and the version of a request."""
    for _, each in subtree(node, MAX_NODES):
        if not isinstance(each.value, dict):
            continue
        for child in each.children:
            value = child.node.value
            if not isinstance(value, str):
                continue
            repository, _, tag = value.rpartition(":")
            is_image = tag == f"v{old}" and (repository == IMAGE or repository.endswith(f"/{IMAGE}"))
            if is_image or (child.key == "vllm_version" and value == old):
                begin = len(value) - len(old)
                operations = layer.operations([Splice(child.node, begin, begin + len(old), new)])
                yield ArgumentPlace(layer.offset(child.value_start), value, operations)
