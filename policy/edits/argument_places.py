"""Where an option is written, and the operations that drop it, change it or add it.

A place is found by the words and names of the option; whether it is the right one is decided by deciding again.
"""

from __future__ import annotations

import re
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace

from policy.edits.flag_words import option_of, spelled, spells_member, value_count, words_of
from policy.edits.json_nodes import json_nodes
from policy.edits.nodes import Child, Node, is_named, subtree
from policy.edits.operations import Addition, ChildRemoval, Operation, Splice
from policy.edits.script_words import script_words
from policy.edits.shell_commands import choices, uses_arguments, variables_used_elsewhere
from policy.edits.shell_edits import with_word, without_words
from policy.edits.text_edits import text_edits

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.edits.layers import TextLayer
    from policy.edits.shell_words import ShellWord
    from policy.intake.command.flags import Flag, Flags

MAX_NODES: Final = 20_000
COMMANDS: Final = frozenset({"args", "command"})
VARIABLE: Final = re.compile(r"[A-Za-z_]\w*")
REFERENCE: Final = re.compile(r"\$\(([A-Za-z_]\w*)\)")
"""A variable that Kubernetes replaces, `$(NAME)`; the name is its group."""
LISTS: Final = {"vllmConfig": "extraArgs"}
"""The objects of options with a list of further arguments, by its name."""


class ArgumentPlace(Struct, frozen=True):
    """Where a change is written: the offset in the file, the words there, and what changes them.

    ``operations`` is None if the text there cannot be edited with certainty.
    """

    offset: int
    written: str
    operations: list[Operation] | None


class FlagWords(Struct, frozen=True):
    """The words of one use of a flag: from ``first``, ``count`` of them; ``flag`` is None for a dotted one."""

    first: int
    count: int
    flag: Flag | None
    is_attached: bool


def argument_places(
    layer: TextLayer, node: Node, argument: str, flags: Flags, to: Any, *, adds: bool
) -> Iterator[ArgumentPlace]:
    """Each place at and below a node where an option is written; with ``adds``, where it could be added."""
    option, member = option_of(argument)
    names = _names(option)
    uses = Uses(node)
    commands: list[tuple[TextLayer, Node]] = []
    for parent, each in subtree(node, MAX_NODES):
        if isinstance(each.value, dict):
            yield from _fields(layer, each, names, member, to)
        elif isinstance(each.value, list):
            if adds and _is_command(each, parent):
                commands.append((layer, each))
            for place in _items(layer, each, option, member, flags, to):
                yield replace(place, operations=None) if uses.arguments else place
        elif isinstance(each.value, str):
            inner = layer.within(each)
            if inner is not None and not _is_shell(each.value):
                yield from argument_places(*inner, argument, flags, to, adds=adds)
                continue
            in_list = parent is not None and isinstance(parent.value, list)
            if adds and "vllm" in each.value and " " in each.value and not each.value.startswith("-"):
                commands.append((layer, each))
            if "-" in each.value:
                for place in _shell(layer, each, option, member, flags, to, in_list=in_list):
                    variables = _variables(parent, each)
                    is_shared = bool(variables) and not uses.variables.isdisjoint(variables)
                    yield replace(place, operations=None) if is_shared else place
    if adds and to is not None and not member:
        for command in reversed(commands):
            yield from _added(*command, option, flags, to)
        yield from _new_list(layer, node, option, flags, to)


def _variables(parent: Node | None, node: Node) -> list[str]:
    """The names of the variable whose value a text may be: its key, or the name beside it."""
    if parent is None or not isinstance(parent.value, dict):
        return []
    key = next((child.key for child in parent.children if child.node is node), None)
    named = parent.value.get("name") if key == "value" else None
    names = (key, None if named is None else named.value)
    return [name for name in names if isinstance(name, str) and VARIABLE.fullmatch(name)]


class Uses:
    """What the texts at and below a node use, other than commands that start vLLM; they are read once, if at all."""

    def __init__(self, node: Node) -> None:
        self._node = node

    @cached_property
    def variables(self) -> frozenset[str]:
        """The variables that something uses."""
        found: set[str] = set()
        for text in self._texts():
            found.update(REFERENCE.findall(text))
            found |= variables_used_elsewhere(text, script_words(text))
        return frozenset(found)

    @cached_property
    def arguments(self) -> bool:
        """Whether a shell text that starts vLLM uses its arguments in another command."""
        return any("vllm" in text and uses_arguments(text, script_words(text)) for text in self._texts())

    def _texts(self) -> Iterator[str]:
        for _, each in subtree(self._node, MAX_NODES):
            if isinstance(each.value, str) and "$" in each.value:
                yield each.value


def _new_list(layer: TextLayer, node: Node, option: str, flags: Flags, to: Any) -> Iterator[ArgumentPlace]:
    """A new list of arguments, where a chart or controller has one for those without a field of their own."""
    new = words_of(flags, option, to)
    for _, each in subtree(node, MAX_NODES):
        for child in each.children if new is not None else ():
            if child.key in LISTS and isinstance(child.node.value, dict) and LISTS[child.key] not in child.node.value:
                yield _place(layer, child.start, "", [Addition(child.node, LISTS[child.key], [*(new or ())])])


def _is_shell(text: str) -> bool:
    return "vllm serve" in text or "vllm.entrypoints" in text


def _is_command(node: Node, parent: Node | None) -> bool:
    """Whether a list has the words of a command or arguments, to which others can be added."""
    texts = [child.node.value for child in node.children]
    if not texts or not all(isinstance(text, str) for text in texts):
        return False
    return any(str(text).startswith("-") for text in texts) or is_named(node, parent, COMMANDS)


def _names(option: str) -> frozenset[str]:
    first, *rest = option.split("_")
    return frozenset({option, option.replace("_", "-"), first + "".join(word.capitalize() for word in rest)})


def _place(layer: TextLayer, offset: int, written: str, operations: Sequence[Operation] | None) -> ArgumentPlace:
    found = None if operations is None else layer.operations(operations)
    return ArgumentPlace(layer.offset(offset), written, found)


def _fields(layer: TextLayer, node: Node, names: frozenset[str], member: str, to: Any) -> Iterator[ArgumentPlace]:
    """The fields of a map that are named like the option, as in the arguments of an engine in Python."""
    for child in node.children:
        if child.key not in names:
            continue
        written = layer.text[child.start : child.end].partition("\n")[0].rstrip("\r")
        if member:
            yield from _member_of(layer, child.node, child.start, written, member)
        elif to is None:
            yield _place(layer, child.start, written, [ChildRemoval(node, (child,))])
        else:
            value = layer.value(child.node)
            size = None if value is None else len(value.text)
            shown = str(to).lower() if isinstance(to, bool) else f"{to:g}" if isinstance(to, float) else to
            operations = None if size is None or not isinstance(shown, str) else [Splice(child.node, 0, size, shown)]
            yield _place(layer, child.start, written, operations)


def _member_of(layer: TextLayer, node: Node, offset: int, written: str, member: str) -> Iterator[ArgumentPlace]:
    """A member of an option's object, which is a map or a JSON text."""
    if isinstance(node.value, dict):
        child = next((each for each in node.children if each.key == member), None)
        if child is not None:
            yield _place(layer, child.start, layer.text[child.start : child.end], [ChildRemoval(node, (child,))])
    elif isinstance(node.value, str):
        operations = _json_member(node, node.value, range(len(node.value)), range(1, len(node.value) + 1), member)
        if operations:
            yield _place(layer, offset, written, operations)


def _json_member(
    node: Node, text: str, starts: Sequence[int], ends: Sequence[int], member: str
) -> list[Operation] | None:
    """The operations that remove a member of JSON in a scalar; ``starts`` and ``ends`` place its characters."""
    document = json_nodes(text)
    if document is None or not isinstance(document.value, dict):
        return None
    child = next((each for each in document.children if each.key == member), None)
    edits = None if child is None else text_edits(text, ChildRemoval(document, (child,)))
    if not edits:
        return None
    return [Splice(node, starts[edit.start], ends[edit.end - 1], edit.text) for edit in edits]


def _runs(words: Sequence[str], option: str, member: str, flags: Flags) -> list[FlagWords]:
    """The uses of the option in words; with a member those whose value is its object, or that are dotted."""
    found, index = [], 0
    while index < len(words):
        spelling = spelled(flags, words[index], option)
        if spelling is not None:
            flag, is_attached = spelling
            count = 0 if is_attached else value_count(flags, flag, words[index + 1 : index + 65])
            found.append(FlagWords(index, 1 + count, flag, is_attached))
            index += 1 + count
        elif words[index].startswith("--") and spells_member(words[index], option, member):
            is_attached = "=" in words[index]
            count = 0 if is_attached else value_count(flags, None, words[index + 1 : index + 65])
            found.append(FlagWords(index, 1 + count, None, is_attached))
            index += 1 + count
        else:
            index += 1
    return found


def _items(layer: TextLayer, node: Node, option: str, member: str, flags: Flags, to: Any) -> Iterator[ArgumentPlace]:
    """The option in a list of words."""
    children = node.children
    words = [child.node.value if isinstance(child.node.value, str) else "" for child in children]
    runs = _runs(words, option, member, flags)
    if not runs:
        return
    first = children[runs[0].first]
    written = " ".join(words[runs[0].first : runs[0].first + runs[0].count])
    if member:
        dotted = [run for run in runs if run.flag is None]
        if dotted:
            gone = tuple(children[n] for run in dotted for n in range(run.first, run.first + run.count))
            yield _place(layer, first.start, written, [ChildRemoval(node, gone)])
            return
        for run in runs:
            at = run.first if run.is_attached else run.first + 1
            operations = _member_in_item(children[at], words[at], member, is_attached=run.is_attached)
            yield _place(layer, children[at].start, written, operations)
        return
    if to is None:
        gone = tuple(children[n] for run in runs for n in range(run.first, run.first + run.count))
        yield _place(layer, first.start, written, [ChildRemoval(node, gone)])
        return
    new = words_of(flags, option, to)
    if new is None or len(runs) > 1:
        yield _place(layer, first.start, written, None)
        return
    rest = tuple(children[runs[0].first + 1 : runs[0].first + runs[0].count])
    change: list[Operation] = [Splice(first.node, 0, len(words[runs[0].first]), new[0])]
    yield _place(layer, first.start, written, change + ([ChildRemoval(node, rest)] if rest else []))


def _member_in_item(child: Child, word: str, member: str, *, is_attached: bool) -> list[Operation] | None:
    begin = word.index("=") + 1 if is_attached else 0
    return _json_member(child.node, word[begin:], range(begin, len(word)), range(begin + 1, len(word) + 1), member)


def _shell(
    layer: TextLayer, node: Node, option: str, member: str, flags: Flags, to: Any, *, in_list: bool
) -> Iterator[ArgumentPlace]:
    """The option in a shell text."""
    text = str(node.value)
    if in_list and (" " not in text or text.startswith("-")):
        return  # a word of a list, which the list has
    words = script_words(text)
    for choice in choices(text, words):
        runs = _runs([word.text if n in choice.places else "" for n, word in enumerate(words)], option, member, flags)
        if runs:
            for place in _shell_uses(layer, node, words, runs, option, member, flags, to):
                yield place if choice.is_certain else replace(place, operations=None)


def _shell_uses(
    layer: TextLayer,
    node: Node,
    words: Sequence[ShellWord],
    runs: Sequence[FlagWords],
    option: str,
    member: str,
    flags: Flags,
    to: Any,
) -> Iterator[ArgumentPlace]:
    """These uses of the option in a shell text."""
    text = str(node.value)
    value = layer.value(node)
    first, end = words[runs[0].first], words[runs[0].first + runs[0].count - 1]
    at = node.start if value is None else value.span(first.start, first.start + 1)[0]
    written = text[first.start : end.end]
    if member and runs[0].flag is not None:
        place = runs[0].first if runs[0].is_attached else runs[0].first + 1
        if place >= len(words):
            return
        word = words[place]
        begin = word.text.index("=") + 1 if runs[0].is_attached else 0
        operations = _json_member(node, word.text[begin:], word.starts[begin:], word.ends[begin:], member)
        yield _place(layer, at, written, operations)
        return
    edits = [without_words(text, words, run.first, run.count) for run in runs]
    if to is None:
        yield _place(layer, at, written, [Splice(node, edit.start, edit.end, edit.text) for edit in edits])
        return
    new = words_of(flags, option, to)
    if new is None or len(runs) > 1:
        yield _place(layer, at, written, None)
    else:
        yield _place(layer, at, written, [Splice(node, first.start, end.end, new[0])])


def _added(layer: TextLayer, node: Node, option: str, flags: Flags, to: Any) -> Iterator[ArgumentPlace]:
    """The option added to a list of words, or to a shell text."""
    new = words_of(flags, option, to)
    if new is None:
        return
    if isinstance(node.value, list):
        last = node.children[-1]
        yield _place(layer, last.start, "", [Addition(node, None, new[0])])
        return
    text = str(node.value)
    edit = with_word(text, script_words(text), new[0])
    value = layer.value(node)
    if edit is not None and value is not None:
        at = value.span(max(edit.start - 1, 0), edit.start)[0]
        operations = layer.operations([Splice(node, edit.start, edit.end, edit.text)])
        if operations and text_edits_of_plain(value.style, edit.text):
            edit = type(edit)(edit.start, edit.end, f" {new[0]}")
            operations = layer.operations([Splice(node, edit.start, edit.end, edit.text)])
        yield ArgumentPlace(layer.offset(at), "", operations)


def text_edits_of_plain(style: str, text: str) -> bool:
    """Whether a scalar of this style cannot have the line break of a text."""
    return "\n" in text and style not in {"whole", "|"}
