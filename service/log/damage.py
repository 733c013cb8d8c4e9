"""Periodic damage checks of a SQLite database, each of which reads all of it beside the writing connection.

Owns the schedule and the time limit. Damage is reported to the ``DatabaseFile``, which the writer checks before each
acknowledgement.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

if TYPE_CHECKING:
    from service.log.file import DatabaseFile

MIN_PAUSE: Final = 600.0
"""The minimum pause between two checks, in seconds."""
PAUSE_RATIO: Final = 50
"""The pause as a multiple of the last check's duration, so that checks take at most 2 % of a processor."""
TIMEOUT: Final = 120.0
"""Seconds after which a check is interrupted: the write-ahead log cannot be reset while it runs."""
PRIMARY: Final = 0xFF
"""The mask of SQLite's primary result code."""


class DamageCheck:
    """Checks one file, one check at a time, in its own thread."""

    def __init__(self, file: DatabaseFile) -> None:
        self._file = file
        self._due = 0.0
        self._thread: threading.Thread | None = None
        self._connection: sqlite3.Connection | None = None
        self._lock = threading.Lock()

    def start_when_due(self) -> None:
        """Start a check, unless one is running or the last one was recent."""
        if time.monotonic() >= self._due and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._check, name="damage check", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Stop a running check; the next one is due at once."""
        with self._lock:
            if self._connection is not None:
                self._connection.interrupt()
        if self._thread is not None:
            self._thread.join(1)
        self._due = 0.0

    def _check(self) -> None:
        began = time.monotonic()
        identity = self._file.identity
        if not self._file.is_opened():
            return
        found = self._damage()
        if found is not None and self._file.is_opened() and self._file.identity == identity:
            self._file.report_damage(identity, f"{self._file.path} is damaged ({found})")
        self._due = time.monotonic() + max(MIN_PAUSE, PAUSE_RATIO * (time.monotonic() - began))

    def _damage(self) -> str | None:
        """The first damage that SQLite finds; ``None`` if there is none, or the check was incomplete."""
        timer = threading.Timer(TIMEOUT, self._interrupt)
        timer.daemon = True
        try:
            url = f"file:{quote(str(self._file.path))}?mode=ro"
            with closing(sqlite3.connect(url, uri=True, check_same_thread=False)) as connection:
                with self._lock:
                    self._connection = connection
                timer.start()
                try:
                    ((found,),) = connection.execute("PRAGMA quick_check(1)").fetchall()
                finally:
                    with self._lock:  # so that no closed connection is interrupted
                        self._connection = None
        except sqlite3.Error as error:
            return str(error) if is_damage(error) else None
        finally:
            timer.cancel()
        return None if found == "ok" else " ".join(str(found).split())

    def _interrupt(self) -> None:
        with self._lock, suppress(sqlite3.Error):
            if self._connection is not None:
                self._connection.interrupt()


def is_damage(error: BaseException | None, *, also_foreign: bool = True) -> bool:
    """Whether an error of SQLite means that the file is damaged, or with ``also_foreign`` that it is not a database."""
    code = getattr(error, "sqlite_errorcode", None)
    kinds = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB} if also_foreign else {sqlite3.SQLITE_CORRUPT}
    return code is not None and code & PRIMARY in kinds
