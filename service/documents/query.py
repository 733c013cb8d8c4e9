"""Query strings.

Nothing in them is ignored: an unknown or repeated parameter is an error.
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qsl

from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.messages import listed, nearest, quoted
from service.problems import Refused

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

NO_PARAMETERS: Final = "this endpoint has no parameters"
MAX_QUERY: Final = 16_384
"""The longest query string that is parsed, in bytes; that of all filters of the log may have 13,000."""
MAX_PARAMETERS: Final = 256
USE_BODY: Final = "this endpoint has no parameters; send the request in the body"


def check_size(query: bytes) -> None:
    """Check, before a query string is parsed, that this does not take long.

    Raises:
        Refused: it is too long, or has too many parameters.
    """
    if len(query) > MAX_QUERY or query.count(b"&") >= MAX_PARAMETERS:
        raise Refused(
            "headers-too-large",
            f"the query is too large; at most {MAX_QUERY:,} bytes and {MAX_PARAMETERS} parameters are accepted",
        )


def read_query(
    pairs: Iterable[tuple[str, str]], legal: Collection[str], faults: list[RequestFault], none: str = NO_PARAMETERS
) -> dict[str, list[str]]:
    """The values of each legal name, in the order of ``legal``; errors are added to ``faults``."""
    given: dict[str, list[str]] = {}
    for name, text in pairs:
        given.setdefault(name, []).append(text)
    known = f"legal: {listed(legal)}" if legal else none
    unknown = islice((name for name in given if name not in legal), MAX_FAULTS)
    faults += (RequestFault("", f"unknown parameter {quoted(name)}{nearest(name, legal)}; {known}") for name in unknown)
    found = {name: given[name] for name in legal if name in given}
    faults += (
        RequestFault("", f"{name}: given {len(texts)} times; keep one")
        for name, texts in found.items()
        if len(texts) > 1
    )
    return found


def parameter(pairs: Iterable[tuple[str, str]], name: str | None = None) -> str | None:
    """The value of the only parameter of an endpoint, or ``None``.

    Raises:
        RequestInvalid: with every fault.
    """
    faults: list[RequestFault] = []
    found = read_query(pairs, () if name is None else (name,), faults)
    if faults:
        raise RequestInvalid(faults)
    return found[name][0] if name in found else None


def refuse_query(query: bytes) -> None:
    """Check that a request with a body has no query parameters.

    Raises:
        RequestInvalid: it has some.
    """
    faults: list[RequestFault] = []
    read_query(parse_qsl(query.decode("latin-1"), keep_blank_values=True), (), faults, USE_BODY)
    if faults:
        raise RequestInvalid(faults)
