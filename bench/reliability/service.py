"""The service under test: started with its own settings in its own folder, measured, killed.

Owns the process and what it uses; nothing listens beyond loopback, and every process is ended by its id.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any
from urllib.request import urlopen

from bench.servers import BIN, ROOT, free_port, resident

if TYPE_CHECKING:
    from collections.abc import Iterator

CHECK = "policy.checks.check"
"""The module that checks changed rules, each time in a new process."""
TIMEOUT = 60.0


@dataclass(slots=True)
class Service:
    """A process group that serves from ``folder``, whose ``rules`` may be edited."""

    folder: Path
    port: int
    settings: dict[str, str]
    process: subprocess.Popen[bytes] | None = None

    @property
    def rules(self) -> Path:
        return self.folder / "rules"

    @property
    def log(self) -> Path:
        return self.folder / "decisions.db"

    def start(self) -> None:
        """Start the service, and wait until it is ready."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith("RUNNER_POLICY_")},
            "RUNNER_POLICY_PORT": str(self.port),
            "RUNNER_POLICY_RULES": str(self.rules),
            "RUNNER_POLICY_LOG": f"sqlite:///{self.log}",
            "RUNNER_POLICY_LOG_SPILL": str(self.folder / "spill"),
            "XDG_STATE_HOME": str(self.folder / "state"),
            **self.settings,
        }
        output = (self.folder / "output").open("ab")
        self.process = subprocess.Popen(
            [str(BIN / "runner-policy"), "serve"],
            cwd=ROOT,
            env=environment,
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            with suppress(OSError):
                self.get("/readyz")
                return
            if self.process.poll() is not None:
                break
            time.sleep(0.02)
        raise RuntimeError((self.folder / "output").read_text()[-2000:])

    def get(self, path: str) -> Any:
        """The document at a path."""
        with urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=10) as answer:
            data = answer.read()
        return json.loads(data) if data[:1] in b"{[" else data.decode()

    def decide(self) -> bytes:
        """The answer to a request."""
        with urlopen(f"http://127.0.0.1:{self.port}/v1/decisions", b'{"facts": {}}', timeout=TIMEOUT) as answer:
            data: bytes = answer.read()
        return data

    def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        return sum(
            float(line.rpartition(" ")[2])
            for line in str(self.get("/metrics")).splitlines()
            if line.startswith((f"{name} ", f"{name}{{"))
        )

    def stop(self) -> None:
        """Stop the service with SIGTERM, and wait until it has ended."""
        if self.process is not None and self.process.poll() is None:
            self.process.terminate()
            self.process.wait(TIMEOUT)

    def kill(self) -> None:
        """Kill all processes of the service at once."""
        assert self.process is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(TIMEOUT)

    def processes(self, parent: int | None = None) -> dict[int, str]:
        """Every process of the service, or only the children of ``parent``, with its command line."""
        assert self.process is not None
        found = {}
        for path in Path("/proc").iterdir():
            if path.name.isdecimal():
                with suppress(OSError, ValueError):
                    fields = (path / "stat").read_text().rpartition(")")[2].split()
                    if int(fields[2]) != self.process.pid or fields[0] == "Z":
                        continue
                    if parent is None or int(fields[1]) == parent:
                        found[int(path.name)] = (path / "cmdline").read_text().replace("\0", " ").strip()
        return found

    def workers(self) -> list[int]:
        """The processes that answer requests, of a service with several: uvicorn's children.

        Their own children, which are ready for requests that may take long, are none.
        """
        assert self.process is not None
        return [pid for pid, command in self.processes(self.process.pid).items() if "spawn_main" in command]

    def wait_for_workers(self, number: int) -> list[int]:
        """The workers, once there are ``number`` of them or ``TIMEOUT`` seconds have passed."""
        deadline = time.monotonic() + TIMEOUT
        while len(self.workers()) != number and time.monotonic() < deadline:
            time.sleep(0.05)
        return self.workers()

    def resident(self) -> float:
        """The resident memory of the service's lasting processes, in MB.

        Each check of rules is a new process, whose memory depends on how far it is.
        """
        return sum(resident(pid) for pid, command in self.processes().items() if CHECK not in command) / 1e6


@contextmanager
def service(**settings: str) -> Iterator[Service]:
    """A service for the duration of the block, in its own folder with a copy of the shipped rules."""
    with TemporaryDirectory(prefix="reliability-") as path:
        folder = Path(path)
        shutil.copytree(ROOT / "rules", folder / "rules")
        server = Service(
            folder, free_port(), {f"RUNNER_POLICY_{name.upper()}": value for name, value in settings.items()}
        )
        server.start()
        try:
            yield server
        finally:
            server.stop()
