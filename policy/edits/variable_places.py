"""Where a variable is set, and the operations that remove it, change its value or set it.

A place is found by the variable's name; whether it is the right one is decided by deciding again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.edits.argument_places import MAX_NODES, ArgumentPlace, Uses
from policy.edits.nodes import Child, Node, is_named, subtree
from policy.edits.operations import Addition, ChildRemoval, Operation, Splice, TextEdit
from policy.edits.script_words import script_words
from policy.edits.shell_commands import SERVERS, assignments_of
from policy.edits.shell_edits import without_variable

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.edits.layers import TextLayer
    from policy.edits.shell_words import ShellWord

LISTS: Final = frozenset(
    {"env", "envs", "envVars", "env_vars", "environment", "environment_variables", "extraEnv", "extraEnvVars"}
)
COMMANDS: Final = frozenset({"command", "args", "image", "entrypoint"})
VALUE: Final = "value"
COMPOSE: Final = "environment"


def variable_places(layer: TextLayer, node: Node, name: str, to: str | None) -> Iterator[ArgumentPlace]:
    """Each place at and below a node where a variable is set; not to be edited if something else uses it."""
    uses = Uses(node)
    for place in _variable_places(layer, node, name, to):
        yield replace(place, operations=None) if name in uses.variables else place


def _variable_places(layer: TextLayer, node: Node, name: str, to: str | None) -> Iterator[ArgumentPlace]:
    for parent, each in subtree(node, MAX_NODES):
        if isinstance(each.value, dict):
            yield from _fields(layer, parent, each, name, to)
        elif isinstance(each.value, list):
            yield from _items(layer, parent, each, name, to)
        elif isinstance(each.value, str) and name in each.value:
            inner = layer.within(each)
            if inner is not None and "vllm serve" not in each.value:
                yield from _variable_places(*inner, name, to)
                continue
            in_list = parent is not None and isinstance(parent.value, list)
            if not (in_list and each.value.startswith(f"{name}=")):
                yield from _shell(layer, each, name, to)


def new_variable_places(layer: TextLayer, node: Node, name: str, to: str) -> Iterator[ArgumentPlace]:
    """Where a variable that is not set could be set."""
    for parent, each in subtree(node, MAX_NODES):
        if isinstance(each.value, str) and each.value:
            inner = layer.within(each) if "vllm serve" not in each.value else None
            if inner is not None:
                yield from new_variable_places(*inner, name, to)
        if isinstance(each.value, dict | list) and each.children and is_named(each, parent, LISTS):
            yield _addition(layer, each, name, to)
    for _, each in subtree(node, MAX_NODES):
        is_engine = each is node or (isinstance(each.value, dict) and not COMMANDS.isdisjoint(each.value))
        if isinstance(each.value, dict) and is_engine and LISTS.isdisjoint(each.value):
            for key, value in (("env", [{"name": name, VALUE: to}]), (COMPOSE, {name: to}), ("env", {name: to})):
                operations = layer.operations([Addition(each, key, value)])
                yield ArgumentPlace(layer.offset(each.start), "", operations)
        elif isinstance(each.value, str) and "vllm" in each.value:
            yield from _before_command(layer, each, name, to)


def _addition(layer: TextLayer, node: Node, name: str, to: str) -> ArgumentPlace:
    first = node.children[0].node
    if isinstance(node.value, dict):
        operation = Addition(node, name, to)
    elif isinstance(first.value, dict):
        operation = Addition(node, None, {"name": name, VALUE: to})
    else:
        operation = Addition(node, None, f"{name}={to}")
    return ArgumentPlace(layer.offset(node.start), "", layer.operations([operation]))


def _before_command(layer: TextLayer, node: Node, name: str, to: str) -> Iterator[ArgumentPlace]:
    """Before the command of a shell text that starts vLLM, if it is the first word of the command."""
    text = str(node.value)
    words = script_words(text)
    for index, word in enumerate(words):
        is_first = not index or words[index - 1].is_operator
        if is_first and not word.is_operator and (word.text.rpartition("/")[2] == "vllm" or _is_python(words, index)):
            value = layer.value(node)
            at = node.start if value is None else value.span(word.start, word.end)[0]
            operations = layer.operations([Splice(node, word.start, word.start, f"{name}={to} ")])
            yield ArgumentPlace(layer.offset(at), "", operations)
            return


def _is_python(words: list[ShellWord], index: int) -> bool:
    texts = [word.text for word in words[index : index + 3]]
    return bool(texts) and texts[0].rpartition("/")[2].startswith("python") and texts[-1].startswith(SERVERS)


def _without(parent: Node | None, node: Node, child: Child) -> list[Operation]:
    """The removal of a child; of the whole field of its map or list, if it is the only one."""
    if len(node.children) == 1 and parent is not None and isinstance(parent.value, dict) and len(parent.children) > 1:
        whole = next((each for each in parent.children if each.node is node and each.alias_end is None), None)
        if whole is not None:
            return [ChildRemoval(parent, (whole,))]
    return [ChildRemoval(node, (child,))]


def _fields(layer: TextLayer, parent: Node | None, node: Node, name: str, to: str | None) -> Iterator[ArgumentPlace]:
    child = next((each for each in node.children if each.key == name), None)
    if child is None or isinstance(child.node.value, dict | list):
        return
    written = layer.text[child.start : child.end]
    if to is None:
        operations: list[Operation] | None = _without(parent, node, child)
    else:
        operations = _new_value(layer, child.node, to)
    yield ArgumentPlace(
        layer.offset(child.start), written, None if operations is None else layer.operations(operations)
    )


def _new_value(layer: TextLayer, node: Node, to: str) -> list[Operation] | None:
    value = layer.value(node)
    return None if value is None else [Splice(node, 0, len(value.text), to)]


def _items(layer: TextLayer, parent: Node | None, node: Node, name: str, to: str | None) -> Iterator[ArgumentPlace]:
    for child in node.children:
        value = child.node.value
        operations: list[Operation] | None
        if isinstance(value, str) and value.startswith(f"{name}="):
            if to is None:
                operations = _without(parent, node, child)
            else:
                operations = [Splice(child.node, len(name) + 1, len(value), to)]
            written = value
        elif isinstance(value, dict) and (named := value.get("name")) is not None and named.value == name:
            field = next((each for each in child.node.children if each.key == VALUE), None)
            written = layer.text[child.start : child.end]
            if to is None:
                operations = _without(parent, node, child)
            else:
                operations = None if field is None else _new_value(layer, field.node, to)
        else:
            continue
        yield ArgumentPlace(
            layer.offset(child.start), written, None if operations is None else layer.operations(operations)
        )


def _shell(layer: TextLayer, node: Node, name: str, to: str | None) -> Iterator[ArgumentPlace]:
    text = str(node.value)
    words = script_words(text)
    found = assignments_of(words, name)
    if not found:
        return
    value = layer.value(node)
    first = words[found[0]]
    at = node.start if value is None else value.span(first.start, first.start + 1)[0]
    if to is None:
        edits = without_variable(text, words, found)
    else:
        edits = []
        for word in (words[index] for index in found):
            begin = word.text.index(f"{name}=") + len(name) + 1
            if begin == len(word.text):
                return
            edits.append(TextEdit(word.starts[begin], word.ends[-1], to))
    operations = None if edits is None else [Splice(node, each.start, each.end, each.text) for each in edits]
    yield ArgumentPlace(
        layer.offset(at), text[first.start : first.end], None if operations is None else layer.operations(operations)
    )
