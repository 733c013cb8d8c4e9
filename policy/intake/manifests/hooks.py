"""Hooks and probes: commands that a container or a service runs beside its own.

One that starts vLLM's server is an item with a problem, as it does not live and restart as an engine does. What the
others mean for the engine beside them is read when its draft is finished. Not here: how each project writes them,
except the hooks and probes of Kubernetes' core/v1. Kubernetes expands ``$(NAME)`` in its probes (`probe_variables`),
but not in its hooks.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.earlier_scripts import CommandBeside
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS, ShellSyntaxError
from policy.intake.command.launcher import find_server
from policy.intake.command.vllm_command import ServerCommand, UnreadableCommand, only_shows_help
from policy.intake.command_line import Container
from policy.intake.manifests.probe_variables import expand_static, static_values
from policy.stated_secrets import stated_secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

AFTER_START: Final = ("lifecycle", "postStart")
BEFORE_STOP: Final = ("lifecycle", "preStop")
PROBES: Final = (("livenessProbe",), ("readinessProbe",), ("startupProbe",))
KUBERNETES_HOOKS: Final = (AFTER_START, BEFORE_STOP, *PROBES)
"""The fields of a container with a hook or a probe."""
FIELDS: Final = frozenset(keys[0] for keys in KUBERNETES_HOOKS)
UNREAD_HOOK: Final = "{} runs a program beside vLLM, which is not read; it may start another engine"
PROBLEM: Final = (
    "{} {} vLLM's server beside the command, which is not decided; start the server as the command of a container or "
    "service of its own"
)


def read_hook(
    node: ManifestNode, name: str, words: Sequence[str], draft: EngineDraft, *, folder: str = "", is_last: bool = False
) -> bool:
    """Read a hook or probe; returns whether it is an item with a problem, because it starts or may start vLLM's server.

    Any other one is added to the ``draft``, because it may change what the engine loads; with ``is_last`` only in a
    volume, as nothing starts after it with the files of the container. ``words`` is its command, which has the
    variables of the container and runs in ``folder``, or in the container's folder if that is empty. ``name`` is its
    name in messages.
    """
    if not words:
        return False
    plain = [word.replace("$", "$$") if type(word) is str else word for word in words]
    found: ServerCommand | UnreadableCommand | None
    if len(plain) > MAX_WORDS or sum(map(len, plain)) > MAX_TEXT:
        found = UnreadableCommand("the command is too long", "", names_vllm=True)
    else:
        found = find_server(
            plain,
            draft.env,
            is_command=True,
            has_hidden_variables=draft.has_hidden_variables,
            has_vllms_image=draft.has_vllms_image(),
        )
    is_server = isinstance(found, ServerCommand) and not only_shows_help(found)
    is_unread = isinstance(found, UnreadableCommand) and (found.names_vllm or draft.runs_other_program_in_vllms_image())
    is_placed = not (is_server or is_unread) and draft.may_run_placed(plain, found)
    if not (is_server or is_unread or is_placed):
        beside = CommandBeside(name, words, folder)
        if is_last:
            draft.last_commands = (*draft.last_commands, beside)
        else:
            draft.commands_beside.append(beside)
        return False
    _add_problem(node, name, "starts" if is_server else "may start")
    return True


def _add_problem(node: ManifestNode, name: str, verb: str) -> None:
    problem = PROBLEM.format(f"`{name}`", verb)
    node.reader.add_hook(lambda path: Container(path, problem=problem), node)


def read_hooks(
    container: ManifestNode,
    draft: EngineDraft,
    variables: Sequence[ManifestNode] = (),
    *,
    added_variables: Iterable[str] = (),
    replaced_variables: Iterable[str] = (),
) -> None:
    """Read the hooks and probes of a container of Kubernetes; only its volumes outlive its ``preStop``.

    ``variables`` are its lists of variables, by default its ``env``. See ``read_container`` for ``added_variables`` and
    ``replaced_variables``. A ``postStart`` that Kubernetes refuses is a note on the container, if it is an engine.
    """
    if not isinstance(container.value, dict) or FIELDS.isdisjoint(container.value):
        return
    values: dict[str, str | None] | None = None
    container.get(*AFTER_START, "exec").is_object()  # others are faults
    for keys in KUBERNETES_HOOKS:
        value: object = container.value
        for key in (*keys, "exec", "command"):
            value = value.get(key) if isinstance(value, dict) else None
        if isinstance(value, list) and all(isinstance(word, str) for word in value):
            if keys in PROBES and any("$" in word for word in value):
                if values is None:
                    lists = [node.value for node in variables or (container.get("env"),)]
                    values = static_values(lists, added_variables, replaced_variables)
                    draft.env.secrets.update(stated_secrets(values))
                try:
                    value = expand_static(value, values)
                except ShellSyntaxError:
                    _add_problem(container.below(keys), ".".join(keys), "may start")
                    continue
            read_hook(container.below(keys), ".".join(keys), value, draft, is_last=keys == BEFORE_STOP)
        elif value is not None and keys == AFTER_START:
            draft.note(UNREAD_HOOK.format(f"`{'.'.join(keys)}`"))
