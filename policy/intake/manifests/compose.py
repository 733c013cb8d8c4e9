"""Docker Compose files (the Compose Specification).

Reads a service's ``entrypoint`` and ``command`` as words (a text is split as a shell would, but no shell runs),
``environment`` as a map or a list, and ``${NAME:-default}`` as the default, which Compose uses if the variable is not
set. A variable without a default stays as written, with a note, because only the shell or the ``.env`` file knows it.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.draft import EngineDraft
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

MAX_COMMAND: Final = 32 * 1024
VARIABLE: Final = re.compile(
    r"\$(?:(?P<escaped>\$)|(?P<bare>[A-Za-z_]\w*)|\{(?P<name>[A-Za-z_]\w*)(?:(?P<how>:?[-+?])(?P<text>[^{}]*))?\})",
    re.ASCII,
)


ESCAPED: Final = re.compile(r"""\\(["\\])""")
PIECE: Final = re.compile(
    r"""(?P<blank>[ \t\r\n]++)|(?P<plain>[^ \t\r\n'"\\]++)|"""
    r"""'(?P<single>[^']*+)'|"(?P<double>(?:[^"\\]|\\.)*+)"|\\(?P<escaped>.)""",
    re.DOTALL,
)
"""A part of a word, or the blanks between two."""


def split(text: str) -> list[str]:
    """The words of a text, as from ``shlex.split``, which takes quadratic time in a word's length.

    Raises:
        ValueError: a quote is not closed, or nothing follows the last backslash.
    """
    words: list[str] = []
    parts: list[str] | None = None
    at = 0
    while at < len(text):
        piece = PIECE.match(text, at)
        if piece is None:
            raise ValueError(f"a quote that is not closed, or nothing after a backslash, at character {at + 1}")
        at = piece.end()
        kind, found = piece.lastgroup, piece[piece.lastgroup or 0]
        if kind != "blank":
            parts = [] if parts is None else parts
            parts.append(ESCAPED.sub(r"\1", found) if kind == "double" else found)
        elif parts is not None:
            words.append("".join(parts))
            parts = None
    return words if parts is None else [*words, "".join(parts)]


def is_compose(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a Compose file."""
    return isinstance(document.value, dict) and isinstance(document.value.get("services"), dict)


def read_compose(document: ManifestNode) -> None:
    """Read every service that starts vLLM."""
    for _, service in document.get("services").fields():
        if not service.is_object():
            continue
        draft = EngineDraft(service)
        draft.image = _interpolated(service.get("image").text(), draft)
        _add_words(draft, service.get("entrypoint"), "entrypoint")
        draft.has_command = bool(draft.words)
        _add_words(draft, service.get("command"), "command")
        _read_environment(service.get("environment"), draft)
        if service.get("env_file").value:
            draft.note("`env_file` sets variables that the manifest does not show")
        if service.get("extends").value:
            draft.note("`extends` adds fields of another service, which is not read here")
        if draft.starts_vllm():
            draft.finish()


def _add_words(draft: EngineDraft, node: ManifestNode, name: str) -> None:
    if isinstance(node.value, list):
        for place, item in enumerate(node.items()):
            word = _interpolated(item.text(), draft)
            if word is not None:
                draft.add(f"{name}[{place}]", word)
        return
    text = node.text()
    if text is None:
        return
    if len(text) > MAX_COMMAND:
        node.fault(f"a command of more than {MAX_COMMAND} characters; no such command is read")
        return
    try:
        words = split(text)
    except ValueError:
        node.fault(f"the quotes in {quoted(text)} do not close")
        return
    for word in words:
        draft.add(name, _interpolated(word, draft) or "")


def _read_environment(node: ManifestNode, draft: EngineDraft) -> None:
    """Add a service's variables. One without a value is unknown: Compose takes it from the shell that starts it."""
    if isinstance(node.value, list):
        for item in node.items():
            name, equals, value = (item.text() or "").partition("=")
            if name:
                draft.env[name] = _interpolated(value, draft) if equals else None
        return
    for name, item in node.fields():
        if isinstance(item.value, bool):
            item.fault(f"expected a string in quotes, got {quoted(item.value)}; Compose refuses a boolean")
        else:
            draft.env[name] = _interpolated(item.scalar(), draft)


def _interpolated(text: str | None, draft: EngineDraft) -> str | None:
    """A text with its variables as Compose expands them if they are not set."""
    if text is None or "$" not in text:
        return text

    def value(found: re.Match[str]) -> str:
        if found["escaped"]:
            return "$"
        name, how = found["name"] or found["bare"], found["how"] or ""
        if how.endswith("-"):
            draft.note(
                f"{quoted(f'${{{name}}}')} is assumed to be its default; the shell or `.env` that starts Compose "
                "may set another"
            )
            return str(found["text"])
        if how.endswith("+"):
            return ""
        draft.note(
            f"{quoted(f'${{{name}}}')} is set by the shell or `.env` that starts Compose; its value is not known"
        )
        return found[0]

    return VARIABLE.sub(value, text)
