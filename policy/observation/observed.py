"""What the log of one engine shows, as data."""

from __future__ import annotations

from msgspec import Struct


class Failure(Struct, frozen=True):
    """The exception that ended an engine, with the exceptions that it followed from.

    ``runner`` is the runner that the text refuses, if it is such a text. ``line`` is the line of the log where it
    begins.
    """

    text: str
    line: int
    runner: str | None = None
    causes: list[str] = []


class Signal(Struct, frozen=True):
    """A line that shows something: the ``id`` of its format, and the text."""

    id: str
    line: int
    text: str


class ObservedEngine(Struct, frozen=True):
    """One start of an engine, as its log shows it.

    ``source`` is the pod and container, or the service of docker compose, empty if no line has one; ``first_line`` and
    ``last_line`` are those of the log. ``release`` is null if the log does not show it; ``releases`` are then those
    that its line numbers leave possible. ``runner`` is null if the log shows none or both. ``starts`` is null if the
    log ends before the engine is ready or has failed; a ``failure`` of an engine that was ready ended it later.
    ``device`` is the one that vLLM chose, such as `cuda`. ``fallbacks`` are vLLM's own warnings about the choice of the
    runner, ``signals`` the first line of each kind that shows the runner, or the beginning or the end of the start.
    """

    source: str
    first_line: int
    last_line: int
    release: str | None
    releases: list[str]
    runner: str | None
    starts: bool | None
    failure: Failure | None
    fallbacks: list[str]
    signals: list[Signal]
    model: str | None
    architectures: list[str]
    device: str | None
    warnings: list[str]


class LoggedEngine(Struct, frozen=True):
    """An observed engine with what only the comparison reads: its arguments, which may contain secrets."""

    observed: ObservedEngine
    arguments: str | None
