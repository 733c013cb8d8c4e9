"""The job that a load generator gets, and the measurement that it returns.

Owns the two messages between the benchmark and its generators, and runs a generator in a separate process on the
generators' core.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from msgspec import json

from bench import cores
from bench.servers import HOST, ROOT

if TYPE_CHECKING:
    from pathlib import Path

SINGLE: Final = "bench.load"
STREAM: Final = "bench.stream"
LIMIT: Final = 600.0


class LoadFailed(Exception):
    """A load generator failed."""


@dataclass(frozen=True, slots=True)
class Job:
    """Send ``count`` documents, the lines of ``file`` from ``first`` on.

    With ``repeat``, only that many lines are sent, repeatedly.
    """

    port: int
    path: str
    content_type: str
    file: str
    first: int
    count: int
    repeat: int = 0
    connections: int = 16


@dataclass(frozen=True, slots=True)
class Measurement:
    """The measurement of a job: answers, seconds, latencies in ms; ``busy`` is the generator's share of its core.

    ``cpu`` is the server's processor time in seconds, which the caller adds.
    """

    count: int
    seconds: float
    p50: float
    p99: float
    busy: float
    cpu: float = field(default=0.0)

    @property
    def rate(self) -> float:
        """Answers per second."""
        return self.count / self.seconds

    @property
    def share(self) -> float:
        """The server's share of its core; if it is well below 1, others used the core or the generator was too slow."""
        return self.cpu / self.seconds


def run_job(module: str, job: Job) -> Measurement:
    """Run a job with the generator in ``module``, and return the measurement.

    Raises:
        LoadFailed: not every request was answered 200, or the generator failed otherwise.
    """
    with cores.pinned(cores.LOAD):
        done = subprocess.run(
            [sys.executable, "-m", module, json.encode(job).decode()],
            cwd=ROOT,
            capture_output=True,
            timeout=LIMIT,
            check=False,
        )
    if done.returncode:
        raise LoadFailed(f"{module} on {job.path}: {done.stderr.decode(errors='replace').strip()[-2000:]}")
    return json.decode(done.stdout, type=Measurement)


def lines(job: Job, file: Path) -> list[bytes]:
    """The documents of a job, in the order of sending."""
    with file.open("rb") as source:
        distinct = job.repeat or job.count
        documents = [
            line.rstrip(b"\n") for n, line in zip(range(job.first + distinct), source, strict=False) if n >= job.first
        ]
    if len(documents) < distinct:
        raise LoadFailed(f"{file.name} has too few documents")
    return documents if not job.repeat else [documents[n % distinct] for n in range(job.count)]


def head(job: Job, *framing: str) -> str:
    """The head of a POST request, which ends with the body's framing headers."""
    return "\r\n".join(
        (f"POST {job.path} HTTP/1.1", f"Host: {HOST}:{job.port}", f"Content-Type: {job.content_type}", *framing, "", "")
    )
