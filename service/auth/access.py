"""Who may call which endpoint, and how often: tokens checked against scopes, and rate limits.

Owns the scope of each endpoint and the refusals. Digests are compared in constant time.
"""

from __future__ import annotations

import hashlib
import hmac
import math
from collections import OrderedDict
from datetime import UTC, datetime
from time import monotonic
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from service.auth.tokens import DECIDE, LOG, READ, Token
from service.limits.share import share_of, share_of_user
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from service.telemetry.metrics import Metrics

OPEN_PATHS: Final = frozenset({"/livez", "/readyz"})
MAX_CALLERS: Final = 10_000
"""Callers whose use of their rate is remembered, and as many users whose objects are reviewed."""
REVIEWING_USERS: Final = 4
"""How many users at their full rate one caller, such as the API server, may send reviews of."""
DENIED_METRIC: Final = "runner_policy_access_denied"


class Permission(Struct):
    """The permission of a long request: its headers and scope, and the tokens that were valid at its last check."""

    headers: Mapping[bytes, bytes]
    scope: str
    tokens: tuple[Token, ...] | None


class Buckets:
    """How much callers may still send; each bucket fills at ``rate`` a second, up to one second's worth."""

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._full = max(1.0, rate)
        self._left: OrderedDict[str, tuple[float, float]] = OrderedDict()
        """The content of each bucket, and when it was that."""

    def __contains__(self, name: str) -> bool:
        return name in self._left

    def take(self, name: str, number: int) -> float:
        """Take from a bucket, which may become negative; return what is left."""
        now = monotonic()
        left, since = self._left.pop(name, (self._full, now))
        left = min(self._full, left + (now - since) * self.rate) - number
        if len(self._left) >= MAX_CALLERS:
            self._left.popitem(last=False)
        self._left[name] = (left, now)
        return left


class Access:
    """Checks the tokens and rate limits of callers."""

    def __init__(self, tokens: tuple[Token, ...] | None, rate: float, metrics: Metrics) -> None:
        """Without ``tokens`` everything is allowed; ``rate`` is in requests per second and caller, 0 for no limit."""
        self._rate = rate
        self.tokens = tokens
        self._metrics = metrics
        self._callers = Buckets(rate)
        self._reviewers = Buckets(REVIEWING_USERS * rate)
        self._users = Buckets(rate)
        """Users are apart from callers: anyone who may create objects has reviews of as many users as it likes."""

    @property
    def tokens(self) -> tuple[Token, ...] | None:
        """The valid tokens; ``None`` if none is needed."""
        return self._tokens

    @tokens.setter
    def tokens(self, tokens: tuple[Token, ...] | None) -> None:
        self._tokens = tokens
        self.is_open = tokens is None and not self._rate

    def caller(self, client: tuple[str, int] | None, headers: Mapping[bytes, bytes], scope: str) -> str:
        """The caller: the name of its token, or its address if no token is needed.

        Raises:
            Refused: the token is missing or invalid, or the rate limit is exceeded.
        """
        name = self._name(client, headers, scope)
        if self._rate:
            self._limit(self._callers, share_of(name), "decisions")
        return name

    def reviewer(self, client: tuple[str, int] | None, headers: Mapping[bytes, bytes]) -> str:
        """The caller that sends a review, for which ``limit_user`` charges it and the user once the user is known.

        The API server sends the reviews of all users, of whom none may use up its rate.

        Raises:
            Refused: the token is missing or invalid, or the rate limit is exceeded.
        """
        name = self._name(client, headers, DECIDE)
        if self._rate:
            self._check(self._reviewers, share_of(name), "reviews")
        return name

    def limit_user(self, caller: str, user: str) -> None:
        """Charge a review to the user whose object it is about, and if that is allowed, to the caller.

        Raises:
            Refused: the rate limit of either is exceeded.
        """
        if self._rate:
            self._check(self._reviewers, share_of(caller), "reviews")
            self._limit(self._users if user else self._callers, share_of_user(caller, user), "decisions")
            self._reviewers.take(share_of(caller), 1)

    def _name(self, client: tuple[str, int] | None, headers: Mapping[bytes, bytes], scope: str) -> str:
        return self._token_name(headers, scope) if self.tokens is not None else client[0] if client else "local"

    def _token_name(self, headers: Mapping[bytes, bytes], scope: str) -> str:
        header = headers.get(b"authorization", b"")
        kind, _, text = header.partition(b" ")
        if kind.lower() != b"bearer" or not text.strip():
            raise self._refused("no-token", "unauthorized", "a token is needed; send `authorization: Bearer TOKEN`")
        digest = hashlib.sha256(text.strip()).digest()
        found = None
        for token in self.tokens or ():
            if hmac.compare_digest(token.digest, digest):
                found = token
        if found is None or _is_expired(found):
            raise self._refused("unknown-token", "unauthorized", "unknown or expired token")
        if scope not in found.scopes:
            raise self._refused(
                "scope",
                "forbidden",
                f"the token of `{found.name}` lacks the scope `{scope}`, which this endpoint needs",
            )
        return found.name

    def permission(self, headers: Mapping[bytes, bytes], scope: str) -> Permission:
        """The permission of a request that was just allowed, to check again while it lasts."""
        return Permission(headers, scope, self._tokens)

    def check_again(self, permission: Permission) -> None:
        """Check a long request again if the valid tokens have changed since its last check.

        Raises:
            Refused: its token was removed, has expired, or lost the scope.
        """
        if permission.tokens is not self._tokens:
            self._token_name(permission.headers, permission.scope)
            permission.tokens = self._tokens

    def drop_expired(self) -> None:
        """Remove the tokens that have expired, so that the requests that they allowed are checked again."""
        valid = tuple(token for token in self._tokens or () if not _is_expired(token))
        if self._tokens is not None and len(valid) < len(self._tokens):
            self.tokens = valid

    def charge(self, name: str, decisions: int) -> float:
        """Charge a caller, or a user, for a request's further decisions; return the seconds until it has paid them.

        The bucket may become negative: the caller's next request is answered once it is not.
        """
        name = share_of(name)
        buckets = self._users if name in self._users else self._callers
        if not self._rate or name not in buckets:
            return 0.0
        return max(0.0, -buckets.take(name, decisions) / self._rate)

    def _limit(self, buckets: Buckets, name: str, unit: str) -> None:
        """Charge one request to the bucket."""
        self._check(buckets, name, unit)
        buckets.take(name, 1)

    def _check(self, buckets: Buckets, name: str, unit: str) -> None:
        """Refuse a request that the bucket does not have."""
        left, rate = buckets.take(name, 0), buckets.rate
        if left < 1:
            wait = math.ceil((1 - left) / rate)
            raise self._refused("rate", "too-many-requests", f"more than {rate:g} {unit} a second; wait {wait} s", wait)

    def _refused(self, reason: str, kind: str, detail: str, wait: int = 1) -> Refused:
        self._metrics.count(DENIED_METRIC, reason)
        return Refused(kind, detail, wait=wait)


def _is_expired(token: Token) -> bool:
    return token.until is not None and datetime.now(UTC).date() > token.until


def scope_of(path: str) -> str | None:
    """The scope that a read endpoint needs; ``None`` if it needs none."""
    if path in OPEN_PATHS:
        return None
    return LOG if path == "/v1/log" or path.startswith("/v1/decisions/") else READ
