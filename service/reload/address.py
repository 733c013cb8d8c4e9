"""Addresses of git remotes: which are supported, and how messages show them without their secrets.

An invalid address may still contain a secret, so splitting one never fails here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote, urlsplit

from policy.errors import PolicyError
from policy.messages import listed, quoted

SCHEMES: Final = ("https", "ssh", "git", "git+ssh", "http", "file")
"""The supported schemes in lower case; their case does not matter (RFC 3986, section 3.1)."""
SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
AUTHORITY: Final = re.compile(r"[^/?#]*")
HOST: Final = re.compile(r"(\[[^\[\]]*\]|[^\[\]:]*)(:[0-9]*)?")
"""A host, with its port if it has one."""
MAX_PUBLIC: Final = 3
"""Characters up to which a user name, such as `git`, is not treated as a secret."""


class RulesSourceFailed(PolicyError):
    """The rules cannot be read from their source."""


@dataclass(frozen=True, slots=True)
class Address:
    """An address: its text, its scheme, and the parts before and after the `@` that ends the user's part."""

    text: str
    scheme: str
    user: str
    location: str

    def check(self) -> None:
        """Refuse what dulwich would mistake for a host name, and pass to ssh.

        Raises:
            RulesSourceFailed: the scheme is not supported, an address without a scheme has a password, or one with a
                scheme has an invalid host or port.
        """
        if "://" in self.text and self.scheme not in SCHEMES:
            shown = f" {quoted(self.scheme)}" if self.scheme else ""
            raise RulesSourceFailed(
                f"unsupported scheme{shown}; write an address with {listed(SCHEMES)}, or `USER@HOST:PATH`"
            )
        if not self.scheme and ":" in self.user:
            raise RulesSourceFailed("`USER@HOST:PATH` has no password; write an address with a scheme, or use a key")
        if self.scheme and not self._has_host():
            raise RulesSourceFailed(
                f"invalid host or port in {quoted(self.redacted())}; "
                "in a password write `/` as `%2F`, `?` as `%3F` and `#` as `%23`"
            )

    def _has_host(self) -> bool:
        try:
            parts = urlsplit(self.text)
            return self.scheme == "file" or (bool(parts.hostname) and (parts.port or 0) >= 0)
        except ValueError:
            return False

    def redacted(self) -> str:
        """The address without user, password, query and fragment; a user without a scheme has no password."""
        location = re.split("[?#]", self.location, maxsplit=1)[0]
        if self.scheme:
            return f"{self.scheme}://{location}"
        return f"{self.user}@{location}" if self.user and ":" not in self.user else location

    def redact(self, text: str) -> str:
        """A text with the address redacted, and its user, password, query and fragment replaced."""
        text = text.replace(self.text, self.redacted())
        hidden = self.user if self.scheme or ":" in self.user else ""
        parts = {hidden, *re.split("[:/?#@]", hidden), *re.split("[?#]", self.location)[1:]}
        secrets = {each for part in parts for each in (part, unquote(part)) if len(each) > MAX_PUBLIC}
        for secret in sorted(secrets, key=len, reverse=True):
            text = text.replace(secret, "…")
        return text


def read_address(text: str) -> Address:
    """The parts of an address.

    In a password `/` is written as `%2F`. If it is not, the text before it is not a host with a port, and the password
    ends at the last `@`. Without a scheme, an `@` after a `:` ends a password too.
    """
    scheme, separator, rest = text.partition("://")
    if not separator or SCHEME.fullmatch(scheme) is None:
        scheme, rest = "", text
    found = AUTHORITY.match(rest)
    assert found is not None  # INVARIANT: the pattern matches the empty text
    end = found.group().rfind("@")
    is_host = HOST.fullmatch(found.group()[end + 1 :]) is not None
    if (scheme and not is_host) or (not scheme and end < 0 and ":" in found.group()):
        end = rest.rfind("@")
    return Address(text, scheme.lower(), rest[: max(end, 0)], rest[end + 1 :])
