"""The TLS context: the certificate that a process serves, reloaded when its files change."""

from __future__ import annotations

import logging
import ssl
import stat
import time
from typing import TYPE_CHECKING, ClassVar, Final

from policy.parser.files import NotAFile, kind_of

if TYPE_CHECKING:
    import os
    from collections.abc import Callable
    from pathlib import Path

    from uvicorn import Config

log = logging.getLogger("runner_policy")
START_TIMEOUT: Final = 10.0
"""Seconds to wait at start for a certificate that is being written."""

FileState = tuple[int, int, int, int, int]
Files = tuple[FileState | None, ...]


def file_states(*paths: Path | None) -> Files:
    """The state of files, which changes when a file is replaced or written."""
    return tuple(map(_file_state, paths))


def _file_state(path: Path | None) -> FileState | None:
    try:
        found: os.stat_result | None = path.stat() if path is not None else None
    except OSError:
        return None
    if found is None:
        return None
    # Every write changes `st_ctime`; programs that copy a file may restore the others.
    return found.st_ctime_ns, found.st_mtime_ns, found.st_size, found.st_ino, found.st_dev


class Certificate:
    """The certificate of a process, and the authorities whose client certificates it accepts."""

    serving: ClassVar[Certificate | None] = None
    """The certificate of this process, if it serves TLS."""

    def __init__(
        self, make_context: Callable[[], ssl.SSLContext], cert: Path, key: Path, authorities: Path | None
    ) -> None:
        """``make_context`` loads the files into a new context.

        Raises:
            ssl.SSLError, OSError: a file cannot be read or is invalid.
        """
        self._make_context = make_context
        self._cert, self._key, self._authorities = cert, key, authorities
        self._loaded = self._files()
        self._newest = self.context = self._build_context()
        self.context.sni_callback = self._use_newest

    def _files(self) -> Files:
        return file_states(self._cert, self._key, self._authorities)

    def _build_context(self) -> ssl.SSLContext:
        _require_files(self._cert, self._key, self._authorities)
        context = self._make_context()
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        if self._authorities is not None:
            context.minimum_version = ssl.TLSVersion.TLSv1_3  # in 1.2 a resumed session skips the client certificate
            context.num_tickets = 0  # in 1.3 a ticket would do the same
        return context

    def _use_newest(self, connection: ssl.SSLObject, _: str | None, __: ssl.SSLContext) -> None:
        """Give a new connection the newest context, for any server name."""
        connection.context = self._newest

    def reload(self) -> None:
        """Load changed files for new connections; invalid files are tried once, and the old ones stay in use."""
        found = self._files()
        if found == self._loaded:
            return
        self._loaded = found
        try:
            # ``make_context`` would ask the terminal for a password.
            load(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._cert, self._key, self._authorities)
            self._newest = self._build_context()
        except (ssl.SSLError, OSError) as error:
            log.error("the certificate was rejected; the previous one stays", extra={"error": str(error)})  # noqa: TRY400  # the traceback adds nothing
        else:
            log.info("certificate loaded", extra={"certificate": str(self._cert)})


def load(context: ssl.SSLContext, cert: Path, key: Path, authorities: Path | None) -> None:
    """Load the certificate and the trusted authorities into a context, without asking for a key's password.

    Raises:
        ssl.SSLError, OSError: a file cannot be read or is invalid.
    """
    _require_files(cert, key, authorities)
    context.load_cert_chain(cert, key, lambda: "")
    if authorities is not None:
        context.load_verify_locations(authorities)


def _require_files(*paths: Path | None) -> None:
    """Raise OSError unless all paths are files: reading a pipe may never end, and would stop the whole process."""
    for path in filter(None, paths):
        mode = path.stat().st_mode
        if not stat.S_ISREG(mode):
            raise NotAFile(f"{path}: expected a file, got {kind_of(mode)}")


def tls_context(config: Config, make_context: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Uvicorn's TLS context, from TLS 1.2 on, or 1.3 with client certificates.

    A certificate that is being written is retried for ``START_TIMEOUT`` seconds.
    """
    ends = time.monotonic() + START_TIMEOUT
    while True:
        try:
            files = config.ssl_certfile, config.ssl_keyfile, config.ssl_ca_certs
            Certificate.serving = Certificate(make_context, *files)  # type: ignore[arg-type]  # INVARIANT: `service.run` names the first two, all as paths
        except (ssl.SSLError, OSError):
            if time.monotonic() > ends:
                raise
            time.sleep(0.2)
        else:
            return Certificate.serving.context
