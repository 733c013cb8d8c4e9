"""Server processes: started on the servers' core and on 127.0.0.1 only, awaited, measured, ended by their id.

Owns every process that listens. The load generator chooses the requests.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Final

from bench import cores

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

HOST: Final = "127.0.0.1"
ROOT: Final = Path(__file__).resolve().parent.parent
BIN: Final = Path(sys.executable).parent
START_LIMIT: Final = 30.0
PAUSE: Final = 0.002
TICKS: Final = os.sysconf("SC_CLK_TCK")


class ServerFailed(Exception):
    """A server did not start; the message has the end of its output."""


@dataclass(frozen=True, slots=True)
class Server:
    """A process that answers on ``port``; it was ready ``ready_after`` seconds after its start."""

    process: subprocess.Popen[bytes]
    port: int
    ready_after: float

    @property
    def resident(self) -> int:
        """The process's resident memory in bytes."""
        return resident(self.process.pid)

    @property
    def cpu(self) -> float:
        """The process's processor time in seconds."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / TICKS


def resident(pid: int) -> int:
    """The resident memory of a process in bytes."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@contextmanager
def running(
    command: Sequence[str],
    port: int,
    ready_path: str,
    settings: Mapping[str, str] | None = None,
    *,
    on_all_cores: bool = False,
) -> Iterator[Server]:
    """The server that ``command`` starts, once it answers 200 on ``ready_path``; it ends with the block.

    Without ``on_all_cores`` it runs on the servers' core, and its log workers on the other.

    Raises:
        ServerFailed: it exited, or did not answer in time.
    """
    with TemporaryFile() as output:
        with nullcontext() if on_all_cores else cores.pinned(cores.SERVER):
            began = time.perf_counter()
            process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(settings or {})},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )
        try:
            while not _answers(port, ready_path):
                if process.poll() is not None or time.perf_counter() - began > START_LIMIT:
                    output.seek(0)
                    printed = output.read()[-2000:].decode(errors="replace").strip()
                    raise ServerFailed(f"{Path(command[0]).name} does not answer: {printed or 'it printed nothing'}")
                time.sleep(PAUSE)
            ready_after = time.perf_counter() - began
            children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
            for child in () if on_all_cores else children:
                os.sched_setaffinity(int(child), {cores.LOAD})  # log workers, which do not answer requests
            yield Server(process, port, ready_after)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def service(settings: Mapping[str, str] | None = None) -> tuple[list[str], int, str, Mapping[str, str]]:
    """The command that starts the service with one worker, by default without a decision log.

    Returns the command, the port, the path that reports readiness, and the environment.
    """
    port = free_port()
    return (
        [str(BIN / "runner-policy"), "serve", "--port", str(port)],
        port,
        "/readyz",
        {"RUNNER_POLICY_LOG": "off", **(settings or {})},
    )


def constant(answer_size: int) -> tuple[list[str], int, str, Mapping[str, str]]:
    """The command that starts the constant-answer application.

    It runs on the same server, event loop and HTTP parser as the service.
    """
    port = free_port()
    flags = [
        "--host",
        HOST,
        "--port",
        str(port),
        "--loop",
        "uvloop",
        "--http",
        "httptools",
        "--no-access-log",
        "--log-level",
        "warning",
        "--lifespan",
        "off",
    ]
    return (
        [sys.executable, "-m", "uvicorn", "bench.constant:app", *flags],
        port,
        "/",
        {"BENCH_ANSWER_SIZE": str(answer_size)},
    )


def free_port() -> int:
    """A port that is not in use."""
    with socket.socket() as probe:
        probe.bind((HOST, 0))
        port: int = probe.getsockname()[1]
        return port


def _answers(port: int, path: str) -> bool:
    connection = HTTPConnection(HOST, port, timeout=5)
    try:
        connection.request("GET", path)
        return connection.getresponse().status == 200
    except (OSError, HTTPException):
        return False
    finally:
        connection.close()
