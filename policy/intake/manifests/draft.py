"""One engine as it is read from a manifest: the words of its command with their places, its variables, its notes.

Defines the order of a controller's words and the user's, and the notes on words whose value is not final.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command import launcher, shell
from policy.intake.command_line import Container
from policy.intake.manifests import images
from policy.masking import is_secret
from policy.messages import QUOTED, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.intake.manifests.reading import ManifestNode

MAX_NOTES: Final = 32
MORE: Final = "more notes on this engine are left out"
TEMPLATE: Final = "{{"
COMMAND: Final = "vllm"


class EngineDraft:
    """An engine that is being read from a node of the manifest. ``finish`` adds it to the manifest's engines."""

    def __init__(self, node: ManifestNode) -> None:
        self.node = node
        self.words: list[str] = []
        self.places: list[str] = []
        self.env: dict[str, str | None] = {}
        self.image: str | None = None
        self.has_command = False
        self.models: dict[str, str] = {}
        self.files: dict[str, str] = {}
        self.notes: dict[str, None] = {}

    def add(self, place: str, *words: str) -> None:
        """Append words that have the same place, or that the same controller adds."""
        self.words.extend(words)
        self.places.extend([place] * len(words))

    def add_list(self, node: ManifestNode, name: str) -> None:
        """Append the texts of a list, each with its own place ``name[i]``."""
        for place, item in enumerate(node.items()):
            word = item.text()
            if word is not None:
                self.add(f"{name}[{place}]", word)

    def add_shell(self, texts: Iterable[tuple[str, str]]) -> None:
        """Append texts that a shell reads again: it splits them at blanks, removes quotes and expands variables."""
        budget = shell.ExpansionBudget()
        size = sum(map(len, self.words))
        for place, text in texts:
            size += len(text)
            if len(self.words) > shell.MAX_WORDS or size > shell.MAX_TEXT:
                self._is_within_limits()
                return
            try:
                first, *others = shell.split(f"{COMMAND} {text}", self.env, budget=budget)
            except shell.ShellSyntaxError as error:
                self.note(f"{place}: a shell refuses {quoted(text)}: {error}")
                self.add(place, *text.split())
                continue
            self.add(place, *first.words[1:])
            if not self.accepts_notes():
                continue
            if others:
                self.note(
                    f"{place}: a shell ends the command within {quoted(text)}; put quotes around what belongs to it"
                )
            if any(isinstance(word, shell.Unknown) for word in first.words):
                self.note(f"{place}: only a running shell knows all of {quoted(text)}")

    def note(self, message: str) -> None:
        """Add a note for the user, once, up to the maximum."""
        if self.accepts_notes():
            self.notes[message] = None
        else:
            self.notes[MORE] = None

    def accepts_notes(self) -> bool:
        """Whether another note can be added."""
        return len(self.notes) < MAX_NOTES

    def starts_vllm(self) -> bool:
        """Whether the words so far start vLLM, or may start it in a way that cannot be read.

        They do if the command starts vLLM, or if a known image has arguments without a command. A command that cannot
        be read counts if the image is known or if the command names vLLM's server. Reading it again reports the fault.
        """
        if not self.words or not self._is_within_limits():
            return False
        is_known = images.starts_vllm(self.image)
        if not self.has_command:
            filled = self._filled()
            if is_known and (filled[0].startswith("-") or _is_model(filled[0])):
                return True
            if not is_known and (filled[0].startswith("-") or not any("vllm" in word for word in filled)):
                return False
        found = launcher.starts_vllm(self.words, self.env)
        return found if isinstance(found, bool) else is_known or found.names_vllm

    def _filled(self) -> list[str]:
        """The words as Kubernetes expands them; as written if their values are too long to be read."""
        budget = shell.ExpansionBudget()
        try:
            return [shell.known(word, self.env, budget) for word in self.words]
        except shell.ShellSyntaxError:
            return self.words

    def finish(self, installed: str | None = None) -> None:
        """Add the finished engine to the manifest's; ``installed`` is vLLM's version if not only the image has it."""
        if not self._is_within_limits():
            return
        version, unversioned = (installed, None) if installed is not None else images.release(self.image)
        is_hidden = False  # all words between a secret's flag and the next one, as a shell may have split it
        for place, word in zip(self.places, self.words, strict=True):
            if TEMPLATE in word:
                shown = "the value" if is_hidden else quoted(word)
                self.note(f"{place}: {shown} is a template; only the rendered output shows its value")
            is_hidden = is_secret(word) or (is_hidden and (word == "--" or not word.startswith("-")))
        for name, value in self.env.items():
            if value is not None and TEMPLATE in value:
                self.note(f"env.{name[:QUOTED]}: the value is a template; only the rendered output shows it")
        container = Container(
            path=self.node.path,
            words=self.words,
            places=self.places,
            env=self.env,
            image=self.image,
            vllm_version=version,
            unversioned=unversioned or "",
            models=self.models,
            files=self.files,
            notes=list(self.notes),
        )
        self.node.reading.add(container, self.node)

    def _is_within_limits(self) -> bool:
        """Whether the command is within the limits on its words and characters; a longer one is a fault."""
        if len(self.words) <= shell.MAX_WORDS and sum(map(len, self.words)) <= shell.MAX_TEXT:
            return True
        self.node.fault(
            f"more than {shell.MAX_WORDS} words or {shell.MAX_TEXT} characters in one command; no such command is read"
        )
        return False


def _is_model(word: str) -> bool:
    """Whether a word can be the model in the arguments of a ``vllm serve`` image: a path, or ``organisation/name``."""
    return "/" in word and " " not in word and not word.startswith(("/bin/", "/usr/", "/opt/", "./"))
