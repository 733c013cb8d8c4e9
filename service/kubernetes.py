"""The API of a Kubernetes cluster, as far as reports need it: lists in pages, server-side apply, deletion."""

from __future__ import annotations

import json
import os
import re
import ssl
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, urlencode

from urllib3 import PoolManager, Retry, Timeout
from urllib3.exceptions import HTTPError

from policy.errors import PolicyError
from policy.parser.jsontext import with_replaced_halves

if TYPE_CHECKING:
    from collections.abc import Iterator

ACCOUNT: Final = Path("/var/run/secrets/kubernetes.io/serviceaccount")
"""Where a pod has the token of its service account and the cluster's certificate."""
PAGE: Final = 250
TIMEOUT: Final = Timeout(connect=5, read=60)
RETRIES: Final = Retry(4, backoff_factor=0.5, status_forcelist=(429, 500, 502, 503, 504), allowed_methods=None)
MAX_BODY: Final = 256 << 20
FIELD_MANAGER: Final = "runner-policy"
ADDRESS: Final = re.compile(r"https://[^/\s?#]+|http://(127\.0\.0\.1|localhost|\[::1\])(:[0-9]+)?")
FIRST_ERROR_STATUS: Final = 400


class ClusterFailed(PolicyError):
    """A request that the API server refused or did not answer; ``status`` is 0 without an answer."""

    def __init__(self, message: str, status: int = 0) -> None:
        self.status = status
        super().__init__(message)


class ClusterApi:
    """The API at an address, or the API of the cluster in which this runs."""

    def __init__(self, address: str | None, token_file: Path | None, ca_file: Path | None) -> None:
        """Raises ``ClusterFailed`` if there is no address, or a file cannot be read."""
        host, port = os.environ.get("KUBERNETES_SERVICE_HOST"), os.environ.get("KUBERNETES_SERVICE_PORT", "443")
        inside = address is None
        if address is None:
            if not host:
                raise ClusterFailed("no cluster: this does not run in a pod; name its address with `--api`")
            address = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self.address = address.rstrip("/")
        if ADDRESS.fullmatch(self.address) is None:
            raise ClusterFailed(f"--api: expected `https://HOST:PORT`, or http on this machine, got `{address}`")
        self._token_file = token_file or (ACCOUNT / "token" if inside else None)
        ca = ca_file or (ACCOUNT / "ca.crt" if inside else None)
        try:
            context = ssl.create_default_context(cafile=None if ca is None else str(ca))
        except OSError as error:
            raise ClusterFailed(f"{ca}: the certificate cannot be read: {error}") from error
        if ca is not None:
            # Python 3.13 sets it; it refuses a CA without key identifiers, which many clusters have. The chain, the
            # name and the expiry are checked without it too.
            context.verify_flags &= ~ssl.VERIFY_X509_STRICT
        self._pool = PoolManager(ssl_context=context, timeout=TIMEOUT, retries=RETRIES)

    def items(self, path: str, **parameters: str) -> Iterator[dict[str, Any]]:
        """The objects of a list, page by page.

        Raises:
            ClusterFailed: the server refuses a page or does not answer.
        """
        following = ""
        while True:
            more = {"continue": following} if following else {}
            found = self.send("GET", f"{path}?{urlencode({'limit': str(PAGE), **parameters, **more})}")
            items = found.get("items") if isinstance(found, dict) else None
            if not isinstance(items, list):
                raise ClusterFailed(f"{path}: expected a list of objects")
            yield from (item for item in items if isinstance(item, dict))
            following = (found.get("metadata") or {}).get("continue") or ""
            if not following:
                return

    def apply(self, path: str, document: dict[str, Any]) -> None:
        """Create an object, or replace the fields of it that this program wrote.

        Raises:
            ClusterFailed: the server refuses it or does not answer.
        """
        query = urlencode({"fieldManager": FIELD_MANAGER, "force": "true"})
        self.send("PATCH", f"{path}?{query}", document, "application/apply-patch+yaml")

    def delete(self, path: str) -> None:
        """Delete an object; one that is gone is no error.

        Raises:
            ClusterFailed: the server refuses it or does not answer.
        """
        try:
            self.send("DELETE", path)
        except ClusterFailed as error:
            if error.status != 404:  # noqa: PLR2004  # not found
                raise

    def send(self, method: str, path: str, document: Any = None, kind: str = "application/json") -> Any:
        """Send a request, and return the answer, with U+FFFD for what is not Unicode, as Kubernetes itself reads JSON.

        Raises:
            ClusterFailed: the server refuses it or does not answer.
        """
        headers = {"accept": "application/json", "content-type": kind, "user-agent": FIELD_MANAGER}
        if self._token_file is not None:
            headers["authorization"] = f"Bearer {self._token()}"
        body = None if document is None else json.dumps(document).encode()
        try:
            answer = self._pool.request(
                method, self.address + path, body=body, headers=headers, preload_content=False, redirect=False
            )
            data = answer.read(MAX_BODY + 1)
            answer.release_conn()
        except (HTTPError, OSError) as error:
            raise ClusterFailed(f"{self.address} cannot be reached: {error}") from error
        if len(data) > MAX_BODY:
            raise ClusterFailed(f"{path}: an answer of more than {MAX_BODY:,} bytes")
        try:
            found = json.loads((with_replaced_halves(data) or data).decode(errors="replace")) if data else {}
        except ValueError as error:
            if answer.status < FIRST_ERROR_STATUS:
                raise ClusterFailed(f"{path}: expected JSON") from error
            found = {}
        if answer.status >= FIRST_ERROR_STATUS:
            said = found.get("message", "") if isinstance(found, dict) else ""
            raise ClusterFailed(f"{method} {path.partition('?')[0]}: {answer.status} {said}".strip(), answer.status)
        return found

    def _token(self) -> str:
        """The token; a cluster renews it, so it is read for each request."""
        assert self._token_file is not None
        try:
            return self._token_file.read_text().strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ClusterFailed(f"{self._token_file}: the token cannot be read: {error}") from error


def segment(name: str) -> str:
    """A name as a part of a path."""
    return quote(name, safe="")
