"""The token file: callers, their scopes, and how long their tokens are valid.

A token is 256 random bits, and the file has its SHA-256. No token is ever stored, logged or returned.
"""

from __future__ import annotations

import hashlib
import re
import secrets
from contextlib import suppress
from datetime import date
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.errors import PolicyError, RequestFault, RequestInvalid, RulesInvalid
from policy.messages import listed, nearest, quoted
from policy.parser.fields import FieldReader
from policy.parser.files import read_at_most
from policy.parser.yamltree import MAX_BYTES, read_yaml
from service import run_folder

if TYPE_CHECKING:
    from collections.abc import Collection
    from pathlib import Path

    from policy.parser.yamltree import YamlNode

DECIDE, DRY_RUN, READ, LOG = "decide", "dry-run", "read", "log"
SCOPES: Final = (DECIDE, DRY_RUN, READ, LOG)
NAME: Final = re.compile(r"[a-z0-9]([a-z0-9._-]{0,61}[a-z0-9])?")
DIGEST: Final = re.compile(r"[0-9a-f]{64}")
PREFIX: Final = "rp_"
SECRET: Final = re.compile(rf"{PREFIX}[\w-]+")


class Token(Struct, frozen=True):
    """An entry of the token file: its name, the SHA-256 of the token, its scopes, and its last valid day."""

    name: str
    digest: bytes
    scopes: frozenset[str]
    until: date | None = None


class TokensInvalid(PolicyError):
    """The token file cannot be used; the message has every fault with its line."""


def new_token() -> str:
    """A new random token."""
    return f"{PREFIX}{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    """The digest of a token for the token file."""
    return hashlib.sha256(token.encode()).hexdigest()


def entry_of(name: str, token: str, scopes: Collection[str], until: str | None) -> str:
    """The entry of the token file for a token, as YAML.

    Raises:
        RequestInvalid: a field is invalid.
    """
    faults = (
        []
        if NAME.fullmatch(name)
        else [RequestFault("NAME", f"invalid name {quoted(name)}; write lower-case letters, digits, `.`, `_` or `-`")]
    )
    faults += [
        RequestFault("--scope", f"unknown scope {quoted(scope)}; legal: {listed(SCOPES)}{nearest(scope, SCOPES)}")
        for scope in scopes
        if scope not in SCOPES
    ]
    if until is not None and _day(until) is None:
        faults.append(RequestFault("--until", f"invalid date {quoted(until)}; write one such as `2027-01-31`"))
    if faults:
        raise RequestInvalid(faults)
    lines = [
        f"  - name: {name}",
        f"    sha256: {digest_of(token)}",
        f"    scopes: [{', '.join(scopes)}]",
        *([f'    until: "{until}"'] if until else []),
    ]
    return "\n".join(lines) + "\n"


def read_tokens(path: Path) -> tuple[Token, ...]:
    """The tokens of a file.

    Raises:
        TokensInvalid: it cannot be read, or has faults; the message has every fault, and no digest.
    """
    return _tokens(_text(path), path)


def _text(path: Path) -> str:
    try:
        return read_at_most(path, MAX_BYTES + 1).decode()  # ``read_yaml`` refuses a file over the limit
    except (OSError, UnicodeDecodeError) as error:
        reason_text = error.strerror or str(error) if isinstance(error, OSError) else f"byte {error.start} is not UTF-8"
        raise TokensInvalid(f"{path}: cannot be read: {reason_text}") from error


def _tokens(text: str, path: Path) -> tuple[Token, ...]:
    reader = FieldReader(str(path))
    try:
        tokens = _read(read_yaml(text, str(path)), reader)
    except RulesInvalid as error:
        raise _invalid(error) from None
    if reader.faults:
        raise _invalid(RulesInvalid(reader.faults))
    return tokens


def _invalid(error: RulesInvalid) -> TokensInvalid:
    """The error with these faults; tokens that were written into the file by mistake are masked."""
    return TokensInvalid(SECRET.sub(f"{PREFIX}…", str(error)))


class TokenFile:
    """The token file, read again by each process of a service when it changes.

    The last valid version is copied to ``folder``, for a process that starts while the file is invalid.
    """

    def __init__(self, path: Path, folder: Path | None) -> None:
        self.path = path
        self._backup = folder / "tokens.yaml" if folder is not None else None
        self._text: str | None = None

    def read(self) -> tuple[Token, ...]:
        """The tokens.

        Raises:
            TokensInvalid: the file is invalid.
        """
        text = _text(self.path)
        tokens = _tokens(text, self.path)
        self._text = text
        self._copy()
        return tokens

    def keep_copy(self) -> None:
        """Copy the last valid version again if its copy was deleted, or could not be written."""
        if self._backup is not None and not run_folder.exists(self._backup):
            self._copy()

    def _copy(self) -> None:
        """Write the copy; if that fails there is none, as an older one might have tokens that were removed since."""
        if self._backup is not None and self._text is not None:
            try:
                run_folder.replace(self._backup, self._text.encode())
            except OSError:
                run_folder.remove(self._backup)

    def read_at_start(self) -> tuple[Token, ...]:
        """The tokens at startup: those of the last valid version if the file is invalid.

        Raises:
            TokensInvalid: there is no valid version.
        """
        try:
            return self.read()
        except TokensInvalid:
            with suppress(OSError):
                if self._backup is not None:
                    with run_folder.read(self._backup) as file:
                        self._text = file.read().decode()
            if self._text is None:
                raise
            return _tokens(self._text, self.path)


def _read(document: YamlNode, reader: FieldReader) -> tuple[Token, ...]:
    found: dict[bytes, Token] = {}
    entries = reader.fields(document, "file of tokens", ("tokens",)).get("tokens")
    if entries is not None and entries.value == []:
        return ()  # the last token was removed: no caller has access
    for node in reader.items(entries, "tokens"):
        token = _token(node, reader)
        if token is not None and token.digest in found:
            reader.fault(
                node,
                f"the same token as {quoted(found[token.digest].name)}; give each caller its own",
            )
        elif token is not None:
            found[token.digest] = token
    return tuple(found.values())


def _token(node: YamlNode, reader: FieldReader) -> Token | None:
    """An entry; ``None`` if it has a fault."""
    before = len(reader.faults)
    fields = reader.fields(node, "token", ("name", "sha256", "scopes"), ("until",))
    name, digest, until = (reader.text(fields.get(key)) for key in ("name", "sha256", "until"))
    if name is not None and not NAME.fullmatch(name):
        reader.fault(fields["name"], f"invalid name {quoted(name)}; write lower-case letters, digits, `.`, `_` or `-`")
    if digest is not None and not DIGEST.fullmatch(digest):
        reader.fault(
            fields["sha256"],
            "expected a SHA-256 in 64 lower-case hexadecimal digits; never write the token itself here",
        )
    scopes = reader.texts(fields.get("scopes"), "scopes", SCOPES)
    day = _day(until)
    if until is not None and day is None:
        reader.fault(fields["until"], f"invalid date {quoted(until)}; write one such as `2027-01-31`")
    if len(reader.faults) > before or name is None or digest is None:
        return None
    return Token(name, bytes.fromhex(digest), frozenset(scopes), day)


def _day(text: str | None) -> date | None:
    try:
        return None if text is None else date.fromisoformat(text)
    except ValueError:
        return None
