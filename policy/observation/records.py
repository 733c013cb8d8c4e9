"""One line of a log: what wraps it, and the record of vLLM in it.

Removes what containers and tools put around a line: colours, the prefixes of `kubectl logs --prefix`, `docker compose
logs` and `journalctl`, timestamps, the JSON of a container's log file. Then reads the prefixes of vLLM itself: the
process, and the level, time, file and line. Not here: what a record says (``formats``).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from policy.parser.jsontext import NotJson, read_json

if TYPE_CHECKING:
    from collections.abc import Iterator

MAX_WRAPPINGS: Final = 6
"""How many prefixes are removed from a line; the rest of it is its text."""
MAX_PREFIX: Final = 512
"""How much of a line is searched for a record, after a prefix of VLLM_LOGGING_PREFIX."""
COLOURS: Final = re.compile(r"\x1b\[[0-9;?]*+[A-Za-z]?")
POD: Final = re.compile(r"\[(pod/[^\]\s/]{1,253}+/[^\]\s/]{1,253}+)\] ?")
COMPOSE: Final = re.compile(r"([a-z0-9][\w.-]{0,127}+) {1,64}+\| ?")
TIMESTAMP: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d{1,9}+)?(?:Z|[+-]\d\d:\d\d) ?| \d\d:\d\d:\d\d(?:[.,]\d{1,9}+)? \| ?)"
)
"""The time that `kubectl logs --timestamps`, a container's log file or Docker Desktop puts before a line."""
JOURNAL: Final = re.compile(r"[A-Z][a-z]{2} [ \d]\d \d\d:\d\d:\d\d \S{1,253}+ [\w.@-]{1,128}+\[\d{1,10}+\]: ?")
"""What `journalctl` puts before a line of a service of systemd."""
CRI: Final = re.compile(r"(?:stdout|stderr) [FP] ")
PROCESS: Final = re.compile(r"\(([A-Za-z][\w.-]{0,63}+) pid=(\d{1,10}+)(?:, ip=[\d.:a-f]{1,45}+)?\)(?: |$)")
"""The process that printed a line; a worker of Ray has an address as well."""
RECORD: Final = re.compile(
    r"(DEBUG|INFO|WARNING|ERROR|CRITICAL) (\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6}+)?) "
    r"\[?([\w./-]{1,255}+):(\d{1,7}+)\](?: |$)"
)
MESSAGE_FIELDS: Final = ("log", "message", "msg")
"""The fields that have the text of a line of JSON: Docker's, that of vLLM and most collectors, and another."""
LEVELS: Final = frozenset({"DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL"})


class PrintedLine(NamedTuple):
    """A line: who printed it, and what vLLM's own prefixes say. Without such a prefix ``level`` is None."""

    source: str
    process: str
    level: str | None
    file: str | None
    line: int
    text: str

    @property
    def file_name(self) -> str | None:
        """The name of the file without its folders."""
        return None if self.file is None else self.file.rpartition("/")[2]


def has_services(line: str) -> bool:
    """Whether a log's first line begins with the prefix of `docker compose logs`; then all of its lines have it."""
    return COMPOSE.match(COLOURS.sub("", line)) is not None


def read_line(line: str, *, services: bool = False) -> Iterator[PrintedLine]:
    """The records in a line, without what is around them; only a line of JSON may have several.

    ``services``: whether a line may begin with the prefix of `docker compose logs`.
    """
    source, level, text = "", None, COLOURS.sub("", line) if "\x1b" in line else line
    text = text.rstrip("\r\n")
    for _ in range(MAX_WRAPPINGS):
        inner = _unwrapped(text, (POD, COMPOSE) if services else (POD,)) if not source else _unwrapped(text)
        if inner is None:
            break
        origin, found, text = inner
        source, level = source or origin, found or level
        if "\x1b" in text:
            text = COLOURS.sub("", text)
    for each in text.split("\n"):
        yield _record(source, level, each)


def _record(source: str, level: str | None, text: str) -> PrintedLine:
    """The record in a line of text; ``level`` is the level that the JSON around the text states, if any."""
    process = PROCESS.match(text)
    text = text if process is None else text[process.end() :]
    found_record = RECORD.search(text, 0, MAX_PREFIX)
    named = "" if process is None else f"{process.group(1)} {process.group(2)}"
    if found_record is None:
        return PrintedLine(source, named, level, None, 0, text)
    if process is None and found_record.start():  # the process after VLLM_LOGGING_PREFIX
        other = PROCESS.search(text, 0, found_record.start())
        named = "" if other is None else f"{other.group(1)} {other.group(2)}"
    level, _, file, number = found_record.groups()
    return PrintedLine(source, named, level, file, int(number), text[found_record.end() :])


def _unwrapped(text: str, prefixes: tuple[re.Pattern[str], ...] = ()) -> tuple[str, str | None, str] | None:
    """The source, the level and the rest of a line within its outermost wrapping; None if there is none."""
    if text.startswith("{") and text.endswith("}"):
        return _of_json(text)
    for pattern in prefixes:
        if (found := pattern.match(text)) is not None:
            return found.group(1), None, text[found.end() :]
    for pattern in (TIMESTAMP, CRI, JOURNAL):
        if (found := pattern.match(text)) is not None:
            return "", None, text[found.end() :]
    return None


def _of_json(text: str) -> tuple[str, str | None, str] | None:
    try:
        document = read_json(text.encode(errors="replace"))
    except NotJson:
        return None
    if type(document) is not dict:
        return None
    message = next((document[name] for name in MESSAGE_FIELDS if type(document.get(name)) is str), None)
    if message is None:
        return None
    level = next((document[name] for name in ("levelname", "level") if type(document.get(name)) is str), "").upper()
    return _source_of(document), level if level in LEVELS else None, message.rstrip("\r\n")


def _source_of(document: dict[str, Any]) -> str:
    """The pod and container that a collector adds to a line; empty if it does not."""
    try:
        kubernetes = msgspec.convert(document.get("kubernetes"), _Kubernetes)
    except msgspec.ValidationError:
        return ""
    return f"pod/{kubernetes.pod_name}/{kubernetes.container_name}" if kubernetes.pod_name else ""


class _Kubernetes(msgspec.Struct):
    pod_name: str = ""
    container_name: str = ""
