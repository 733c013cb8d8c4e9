"""A log → the starts of engines in it.

Owns which lines belong to one start of one engine, and what follows from them: the release, the runner, and how the
start ended. Not here: the texts (``formats``), what is around a line (``records``), exceptions (``tracebacks``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from policy.errors import PolicyError
from policy.masking import masked
from policy.observation.formats import Shows, match_exception, match_record
from policy.observation.lines import common_releases, releases_of_record
from policy.observation.observed import Failure, LoggedEngine, ObservedEngine, Signal
from policy.observation.records import has_services, read_line
from policy.observation.tracebacks import V1_FILE, V2_FILE, LoggedException, Tracebacks
from policy.rules.effects import Runner

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.observation.formats import LoggedText
    from policy.observation.records import PrintedLine

MAX_LINE: Final = 1 << 18
"""How much of a line is read; the rest of it is ignored."""
MAX_ENGINES: Final = 1000
MAX_SIGNALS: Final = 64
MAX_FALLBACKS: Final = 64
MAX_ARCHITECTURES: Final = 8
MAX_SHOWN: Final = 300
MAX_PLACES: Final = 64
MAX_RAISED: Final = 256
ATTACHING_PREFIX: Final = "Attaching to "
"""What `docker compose up` prints before the first line of a service."""
UVICORN_READY: Final = "Application startup complete."
"""What uvicorn logs once the server takes requests."""
SERIOUS: Final = frozenset({None, "ERROR", "CRITICAL"})
"""The levels of exceptions that may end an engine; those of warnings were handled. None is a line without a level."""
SHOWN_KINDS: Final = frozenset(
    {
        Shows.SERVER,
        Shows.RUNNER,
        Shows.FALLBACK,
        Shows.OVERRIDE,
        Shows.ENGINE_READY,
        Shows.SERVER_READY,
        Shows.ENGINE_FAILED,
        Shows.ENGINE_DIED,
        Shows.CALL_FAILED,
        Shows.SHUTDOWN,
    }
)
DEVICE: Final = re.compile(r"\bdevice_config=([a-z]{1,32}+)")
"""The device in the text of a configuration."""
BOTH_RUNNERS: Final = "the log shows both runners, so it may be that of two engines whose lines cannot be told apart"
MORE_FALLBACKS: Final = (
    f"the log has more than {MAX_FALLBACKS} different warnings about the choice of the runner; the first are listed"
)
MIXED_RELEASES: Final = "the log names several releases, so it may be that of several engines"


class TooManyEngines(PolicyError):
    """The log has more starts of engines than are read."""


@dataclass(slots=True)
class _StartLines:
    """The lines of one start that were read so far."""

    source: str
    first: int
    last: int = 0
    releases: dict[str, None] = field(default_factory=dict)
    places: list[frozenset[str]] = field(default_factory=list)
    runners: dict[str, None] = field(default_factory=dict)
    fallbacks: dict[str, None] = field(default_factory=dict)
    has_more_fallbacks: bool = False
    signals: list[Signal] = field(default_factory=list)
    model: str | None = None
    architectures: list[str] = field(default_factory=list)
    device: str | None = None
    arguments: str | None = None
    shown: set[Shows] = field(default_factory=set)
    raised: list[LoggedException] = field(default_factory=list)
    tracebacks: Tracebacks = field(default_factory=Tracebacks)

    @property
    def has_begun(self) -> bool:
        """Whether anything of vLLM was read."""
        return bool(self.shown or self.raised or self.places)

    @property
    def has_ended(self) -> bool:
        """Whether the engine failed or stopped, so that what follows is another start."""
        is_over = not self.shown.isdisjoint({Shows.ENGINE_FAILED, Shows.ENGINE_DIED, Shows.SHUTDOWN})
        return is_over or self.tracebacks.has_uncaught


def read_log(text: str) -> list[LoggedEngine]:
    """Each start of an engine in a log, in the order in which they begin. Takes time linear in the text.

    Raises:
        TooManyEngines: there are more than ``MAX_ENGINES``.
    """
    open_runs: dict[str, _StartLines] = {}
    runs: list[_StartLines] = []
    services: bool | None = None
    for number, line in enumerate(text.split("\n"), 1):
        if not line or line.isspace():
            continue
        if services is None and not line.startswith(ATTACHING_PREFIX):
            services = has_services(line[:MAX_LINE])
        for record in read_line(line[:MAX_LINE], services=bool(services)):
            found = match_record(record.text.strip(), record.file_name) if len(record.text) > 1 else None
            run = open_runs.get(record.source)
            if run is None or (found is not None and _begins_anew(run, found[0].shows)):
                if len(runs) == MAX_ENGINES:
                    raise TooManyEngines
                run = open_runs[record.source] = _StartLines(record.source, number)
                runs.append(run)
            run.last = number
            _read(run, record, number, found)
    return [_engine(run) for run in runs if _closed(run).has_begun]


def _begins_anew(run: _StartLines, shows: Shows) -> bool:
    """Whether a record is the first of another start of the same source."""
    match shows:
        case Shows.SERVER:
            return Shows.SERVER in run.shown or run.has_ended
        case Shows.ARGUMENTS:
            return run.arguments is not None or run.has_ended
        case Shows.ARCHITECTURE | Shows.CONFIGURATION:
            return run.has_ended
    return False


def _read(
    run: _StartLines, record: PrintedLine, number: int, found: tuple[LoggedText, Mapping[str, str]] | None
) -> None:
    _add(run, run.tracebacks.read(record, number))
    if record.file_name is not None and len(run.places) < MAX_PLACES:
        releases = releases_of_record(record.file_name, record.line, record.text)
        if releases is not None:
            run.places.append(releases)
    if UVICORN_READY in record.text:
        run.shown.add(Shows.SERVER_READY)
    if found is None:
        return
    form, values = found
    run.shown.add(form.shows)
    if form.runner is not None:
        run.runners[form.runner] = None
    if values.get("release"):
        run.releases[values["release"].split()[0]] = None
    run.model = run.model or values.get("model") or None
    if form.shows is Shows.ARCHITECTURE and len(run.architectures) < MAX_ARCHITECTURES:
        run.architectures.append(values["architecture"])
    if form.shows is Shows.ARGUMENTS and run.arguments is None:
        run.arguments = values["arguments"]
    if form.shows is Shows.CONFIGURATION:
        run.model = run.model or _model_of(values["configuration"])
        found_device = DEVICE.search(values["configuration"])
        run.device = run.device or (found_device.group(1) if found_device is not None else None)
    shown = masked(record.text[:MAX_SHOWN])
    if form.shows is Shows.FALLBACK and shown not in run.fallbacks:
        if len(run.fallbacks) < MAX_FALLBACKS:
            run.fallbacks[shown] = None
        else:
            run.has_more_fallbacks = True
    if form.shows in SHOWN_KINDS and len(run.signals) < MAX_SIGNALS and all(each.id != form.id for each in run.signals):
        run.signals.append(Signal(form.id, number, shown))


def _model_of(configuration: str) -> str | None:
    """The model that the text of a configuration begins with, `model='…'`."""
    _, quote, rest = configuration.partition("model=")
    mark = rest[:1]
    end = rest.find(mark, 1) if quote and mark in {"'", '"'} else -1
    return rest[1:end] if end > 0 else None


def _add(run: _StartLines, raised: Iterator[LoggedException]) -> None:
    for each in raised:
        if len(run.raised) < MAX_RAISED:
            run.raised.append(each)


def _closed(run: _StartLines) -> _StartLines:
    _add(run, run.tracebacks.end())
    return run


def _engine(run: _StartLines) -> LoggedEngine:
    failure = _failure(run)
    release, releases = _releases(run)
    warnings = [MIXED_RELEASES] if len(run.releases) > 1 else []
    runner = _runner(run, failure)
    if len(run.runners) > 1:
        warnings.append(BOTH_RUNNERS)
    if run.has_more_fallbacks:
        warnings.append(MORE_FALLBACKS)
    observed = ObservedEngine(
        run.source,
        run.first,
        run.last,
        release,
        releases,
        runner,
        _starts(run, failure),
        failure,
        [*run.fallbacks],
        run.signals,
        None if run.model is None else masked(run.model[:MAX_SHOWN]),
        [name[:MAX_SHOWN] for name in run.architectures],
        run.device,
        warnings,
    )
    return LoggedEngine(observed, run.arguments)


def _releases(run: _StartLines) -> tuple[str | None, list[str]]:
    """The release that the log names, or that its line numbers show, and all those that are possible."""
    if run.releases:
        names = [*run.releases]
        return (names[0][:MAX_SHOWN] if len(names) == 1 else None), [name[:MAX_SHOWN] for name in names[:MAX_SIGNALS]]
    found = list(common_releases([*run.places, *run.tracebacks.steps]))
    return (found[0] if len(found) == 1 else None), found


def _runner(run: _StartLines, failure: Failure | None) -> str | None:
    """The runner that the log shows: in its records, or else in the refusal, or else in a traceback's files."""
    if run.runners:
        return next(iter(run.runners)) if len(run.runners) == 1 else None
    if failure is not None and failure.runner is not None:
        return failure.runner
    files = run.tracebacks.runners
    return Runner.V2 if V2_FILE in files else Runner.V1 if V1_FILE in files else None


def _starts(run: _StartLines, failure: Failure | None) -> bool | None:
    """Whether the engine became ready to serve; None if the log does not show how the start ended."""
    if Shows.SERVER_READY in run.shown:
        return True
    if not run.shown.isdisjoint({Shows.ENGINE_FAILED, Shows.CALL_FAILED}):
        return False
    if Shows.ENGINE_READY in run.shown:
        return True
    return None if failure is None else False


def _failure(run: _StartLines) -> Failure | None:
    """The exception that ended the engine.

    It is the last serious exception that does more than report another. A server that already takes requests also logs
    exceptions that end nothing, so there the engine must have died.
    """
    if Shows.SERVER_READY in run.shown and run.shown.isdisjoint({Shows.ENGINE_DIED, Shows.ENGINE_FAILED}):
        return None
    found = _root([each for each in run.raised if each.level in SERIOUS])
    if found is None:
        return None
    matched = _matched(found)
    return Failure(
        _masked(found.text), found.line, matched.runner if matched else None, [_masked(text) for text in found.causes]
    )


def _masked(text: str) -> str:
    """An exception with secrets in its text masked; its name is kept, though `KeyError` looks like a secret's name."""
    name, colon, message = text.partition(": ")
    return f"{name}{colon}{masked(message)}"


def _root(raised: list[LoggedException]) -> LoggedException | None:
    for each in reversed(raised):
        matched = _matched(each)
        if matched is None or matched.shows is not Shows.WRAPPER:
            return next(other for other in raised if other.text == each.text)
    return raised[-1] if raised else None


def _matched(raised: LoggedException) -> LoggedText | None:
    """The format of an exception's message or of a detail below it, which pydantic puts after its own words."""
    message = raised.message.lstrip()
    for begin in ("", "Value error, "):
        _, found, rest = message.partition(begin) if begin else ("", "", message)
        if (found or not begin) and (matched := match_exception(f"{rest} ")) is not None:
            return matched[0]
    return None
