"""The commands that Dynamo's operator gives to a component's container that states none.

Releases since the second half of 2025, read up to the main branch of 2026, run the arguments in a shell. They run those
of a frontend with Python, `-m dynamo.frontend` if there are none. Earlier releases leave the arguments to the image's
entry point, as all releases do for an endpoint picker.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.manifests.draft import EngineDraft

OPERATOR_PLACE: Final = "added by Dynamo"
MAIN: Final = "main"
FRONTEND: Final = "frontend"
PICKER: Final = "epp"
SHELL: Final = ("/bin/sh", "-c")
PYTHON: Final = ("python3",)
FRONTEND_ARGUMENTS: Final = ("-m", "dynamo.frontend")
SHELL_DOUBT: Final = (
    "releases of Dynamo's operator differ in what runs arguments without a command: the image's entry point, or "
    "`/bin/sh -c`; write the command"
)


def add_command(draft: EngineDraft, component: str) -> None:
    """Add what the operator adds to a container; ``component`` is the type of its component.

    If a worker's arguments start a server only through the image's entry point, they stay as written, with a doubt.
    """
    if component == FRONTEND:
        if not any(place.startswith("args") for place in draft.places):
            draft.add(OPERATOR_PLACE, *FRONTEND_ARGUMENTS)
        if not draft.has_command:
            _prepend(draft, PYTHON)
    elif component != PICKER and not draft.has_command:
        _run_by_shell(draft)


def _run_by_shell(draft: EngineDraft) -> None:
    words, places, doubts = [*draft.words], [*draft.places], [*draft.doubts]
    is_started = draft.starts_vllm()
    draft.words, draft.places, draft.problem, draft.doubts, draft.server = [*words], [*places], "", [*doubts], None
    _prepend(draft, SHELL)
    if not is_started or (draft.starts_vllm() and draft.server is not None):
        draft.doubts = doubts
        return
    draft.words, draft.places, draft.problem, draft.doubts, draft.server = words, places, "", doubts, None
    draft.has_command = False
    draft.doubt(SHELL_DOUBT)


def _prepend(draft: EngineDraft, command: Sequence[str]) -> None:
    draft.words[:0], draft.places[:0] = command, [OPERATOR_PLACE] * len(command)
    draft.has_command = True
