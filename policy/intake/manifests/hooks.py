"""Hooks and probes: commands that a container or a service runs beside its own, which may start vLLM's server too.

Such a server is an item with a problem, as its life and its restarts are not those of an engine. Not here: how a
project writes them, except the hooks and probes of Kubernetes' core/v1, in which it expands no ``$(NAME)``.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING, Final

from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS
from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand, only_shows_help
from policy.intake.command_line import Container

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

AFTER_START: Final = ("lifecycle", "postStart")
KUBERNETES: Final = (
    AFTER_START,
    ("lifecycle", "preStop"),
    ("livenessProbe",),
    ("readinessProbe",),
    ("startupProbe",),
)
"""The fields of a container with a hook or a probe."""
FIELDS: Final = frozenset(keys[0] for keys in KUBERNETES)
BESIDE: Final = "{} runs a program beside vLLM, which is not read; it may start another engine"
PROBLEM: Final = (
    "{} {} vLLM's server beside the command, which is not decided; start the server as the command of a container or "
    "service of its own"
)


class Hook(IntEnum):
    """What a hook means for its container: another program, one that is not read, or vLLM's server."""

    IS_OTHER = 0
    IS_UNREAD = 1
    STARTS_VLLM = 2


def read_hook(node: ManifestNode, name: str, words: Sequence[str], draft: EngineDraft) -> Hook:
    """Add an item with a problem if a hook or probe starts vLLM's server, or may start it.

    ``words`` is its command, which gets the variables of the container. ``name`` is its name in the problem.
    """
    if not words:
        return Hook.IS_OTHER
    plain = [word.replace("$", "$$") if type(word) is str else word for word in words]
    found: ServerCommand | UnreadableCommand | None
    if len(plain) > MAX_WORDS or sum(map(len, plain)) > MAX_TEXT:
        found = UnreadableCommand("the command is too long", "", names_vllm=True)
    else:
        found = find_server(plain, draft.env, is_command=True, has_hidden_variables=draft.has_hidden_variables)
    is_server = isinstance(found, ServerCommand) and not only_shows_help(found)
    if not is_server and (found is None or isinstance(found, ServerCommand) or not found.names_vllm):
        is_named = any("vllm" in word for word in words)
        return Hook.IS_UNREAD if found is not None or is_named else Hook.IS_OTHER
    problem = PROBLEM.format(f"`{name}`", "starts" if is_server else "may start")
    node.reader.add_hook(lambda path: Container(path, problem=problem), node)
    return Hook.STARTS_VLLM


def read_hooks(container: ManifestNode, draft: EngineDraft) -> None:
    """Add the hooks and probes of a container of Kubernetes that start vLLM.

    A ``postStart`` that is not read is a note on the container, if it is an engine.
    """
    if not isinstance(container.value, dict) or FIELDS.isdisjoint(container.value):
        return
    container.get(*AFTER_START, "exec").is_object()  # others are faults
    for keys in KUBERNETES:
        value: object = container.value
        for key in (*keys, "exec", "command"):
            value = value.get(key) if isinstance(value, dict) else None
        hook = Hook.IS_OTHER
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            hook = read_hook(container.below(keys), ".".join(keys), value, draft)
        elif value is not None:
            hook = Hook.IS_UNREAD
        if hook is Hook.IS_UNREAD and keys == AFTER_START:
            draft.note(BESIDE.format(f"`{'.'.join(keys)}`"))
