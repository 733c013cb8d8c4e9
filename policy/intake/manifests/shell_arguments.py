"""The words that vLLM gets from arguments that a controller joins into one text, which a shell splits and expands."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.command import expansion, shell
from policy.intake.command.words import Unknown
from policy.intake.manifests.draft import hides_next
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from policy.intake.manifests.draft import EngineDraft

COMMAND: Final = "vllm"
"""Stands before each text, so that none of its words is read as a program."""
SCRIPT_ARGUMENTS: Final = re.compile(r"\$\{?[!#]?[@*]")
"""Matches the arguments of the script that contains a text."""
SHELL_CHARACTER: Final = re.compile(r"[#\\\n\r'\"`;&|<>()$]")
"""Matches a character by which a shell may read the texts after this one in another way."""
JOIN_DOUBT: Final = (
    "a shell reads the arguments as one text, of which it makes other words than of each argument; put quotes around "
    "what belongs together"
)


def add_shell_arguments(
    draft: EngineDraft, texts: Sequence[tuple[str, str]], env: Mapping[str, str | None] | None = None
) -> None:
    """Append the words of texts that a shell joins with blanks, splits and expands with the variables of ``env``.

    Each text is read alone. There is a doubt if a shell refuses a text, ends the command in it, gives it the arguments
    of the script, or splits the joined texts into other words.
    """
    env = draft.env if env is None else env
    budget = expansion.ExpansionBudget()
    size, count = sum(map(len, draft.words)), len(draft.words)
    is_hidden = False
    for place, text in texts:
        size += len(text)
        shown = "the value" if is_hidden else quoted(text)
        for word in text.split():
            is_hidden = hides_next(word, is_hidden=is_hidden)
        if len(draft.words) > expansion.MAX_WORDS or size > expansion.MAX_TEXT:
            draft.is_within_limits()
            return
        try:
            first, *others = shell.parse_script(
                f"{COMMAND} {text}", env, budget=budget, has_hidden_variables=draft.has_hidden_variables
            )
        except expansion.ExpansionExhausted as error:
            draft.node.reader.fault_once(draft.node, f"{place}: {error}")
            return
        except expansion.ShellSyntaxError as error:
            draft.doubt(f"{place}: a shell refuses {shown}: {error}")
            draft.add(place, *text.split())
            continue
        draft.add(place, *first.words[1:])
        if others or first.outputs:
            draft.doubt(f"{place}: a shell ends the command within {shown}; put quotes around what belongs to it")
        elif first.doubt:
            draft.doubt(f"{place}: {first.doubt}")
        elif SCRIPT_ARGUMENTS.search(text) is not None or any("$(" in word for word in first.words):
            draft.doubt(f"{place}: {shown} has what only the script around it knows; write its value")
        if not draft.accepts_notes():
            continue
        if any(isinstance(word, Unknown) for word in first.words):
            draft.note(f"{place}: only a running shell knows all of {shown}")
    _check_joined(draft, [text for _, text in texts], draft.words[count:], env, budget)


def _check_joined(
    draft: EngineDraft,
    texts: Sequence[str],
    words: Sequence[str],
    env: Mapping[str, str | None],
    budget: expansion.ExpansionBudget,
) -> None:
    """Add a doubt if a shell splits the joined texts into other words than it does each of them."""
    if not any(map(SHELL_CHARACTER.search, texts[:-1])) or draft.doubts:
        return
    try:
        first, *others = shell.parse_script(
            f"{COMMAND} {' '.join(texts)}", env, budget=budget, has_hidden_variables=draft.has_hidden_variables
        )
    except expansion.ShellSyntaxError:
        draft.doubt(JOIN_DOUBT)
    else:
        if others or first.words[1:] != words:
            draft.doubt(JOIN_DOUBT)
