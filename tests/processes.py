"""Child processes that end with the process of the tests, even if that is killed."""

from __future__ import annotations

import json
import os
import shutil
import signal
import sys
import time
from functools import cache
from pathlib import Path
from subprocess import PIPE, Popen, TimeoutExpired
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

ROOT = Path(__file__).resolve().parent.parent


def bound(command: Sequence[str], signal: str = "KILL") -> list[str]:
    """The command, which gets this signal from Linux when the thread that started it ends: use the main thread.

    The process id is that of the command: `setpriv` sets the signal and becomes the command.
    """
    setpriv = shutil.which("setpriv")
    return [setpriv, "--pdeathsig", signal, "--", *command] if setpriv else list(command)


class Process(Protocol):
    """The interface of ``Popen`` that tests use."""

    @property
    def pid(self) -> int: ...

    @property
    def returncode(self) -> int | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...

    def send_signal(self, sig: int) -> None: ...

    def terminate(self) -> None: ...

    def kill(self) -> None: ...


class ForkServer:
    """The process of ``fork_server``, which has imported the service and forks for each start."""

    def __init__(self) -> None:
        command = [sys.executable, "-P", str(ROOT / "tests" / "fork_server.py")]
        self._process = Popen(command, cwd=ROOT, stdin=PIPE, stdout=PIPE)
        self._lock = Lock()

    def ask(self, **request: Any) -> Any:
        """The answer to a request."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with self._lock:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        """End the process, and those that it forked."""
        with self._process:
            pass


@cache
def fork_server() -> ForkServer:
    """The fork server of this process, started when it is first used."""
    return ForkServer()


def end_fork_server() -> None:
    """End the fork server if there is one, so that it writes its coverage data."""
    if fork_server.cache_info().currsize:
        fork_server().close()
        fork_server.cache_clear()


class ForkedProcess:
    """A process that the fork server forked."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, the negated number of the signal that ended it, or ``None`` while it runs."""
        if self.returncode is None:
            self.returncode = fork_server().ask(poll=self.pid)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended.

        Raises:
            TimeoutExpired: it is still running after ``timeout`` seconds.
        """
        started = time.monotonic()
        while (code := self.poll()) is None:
            if timeout is not None and time.monotonic() - started > timeout:
                raise TimeoutExpired("a forked process", timeout)
            time.sleep(0.005)
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


def forked(command: Sequence[str], environment: Mapping[str, str], output: Path, *, session: bool = False) -> Process:
    """``runner-policy`` with these arguments in the project's folder, optionally in a new session.

    It starts in a fraction of the time of a new interpreter. Use ``Popen`` if a test's claim is about the start, or if
    a variable is read when modules are imported.
    """
    output.write_bytes(b"")
    request = {
        "command": list(command),
        "folder": str(ROOT),
        "environment": dict(environment),
        "output": str(output),
        "session": session,
    }
    return ForkedProcess(fork_server().ask(**request))
