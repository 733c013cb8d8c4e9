"""What a dry run asks: a deployment, and the candidate rules that it is tried with.

Owns the members of a dry run's document; the same as a form is read by ``forms``.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from policy.checks.candidate import MAX_RULES
from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid, at, listed, nearest, quoted

MEMBERS: Final = ("request", "rules", "remove", "changes")
ALL: Final = "all"


class Candidate(Struct, frozen=True):
    """What a dry run asks: the request's document, rule texts, ids to take away, and whether changes are asked of all deployments."""

    document: Any
    rules: list[str] = []
    remove: list[str] = []
    for_all: bool = False


def read_candidate(document: dict[str, Any]) -> Candidate:
    """What a document with any of the ``MEMBERS`` asks.

    Raises:
        RequestInvalid: a member is unknown, or is not what it has to be.
    """
    unknown = [key for key in document if key not in MEMBERS][:MAX_FAULTS]
    faults = [
        RequestFault(at("", key), f"unknown field {quoted(key)}; legal: {listed(MEMBERS)}{nearest(key, MEMBERS)}")
        for key in unknown
    ]
    rules, remove = document.get("rules", []), document.get("remove", [])
    for name, value in (("rules", rules), ("remove", remove)):
        if type(value) is not list or not all(type(item) is str for item in value):
            faults.append(RequestFault(f"/{name}", f"expected a list of strings, got {quoted(value)}"))
        elif len(value) > MAX_RULES:
            faults.append(RequestFault(f"/{name}", f"at most {MAX_RULES} are accepted, got {len(value)}"))
    for_all = read_changes(document.get("changes"), faults)
    if type(document.get("request")) is not dict:
        faults.append(RequestFault("/request", f"expected a request, got {quoted(document.get('request'))}"))
    if faults:
        raise RequestInvalid(faults)
    return Candidate(document["request"], rules, remove, for_all)


def read_changes(value: object, faults: list[RequestFault]) -> bool:
    """Whether the changes are asked of all deployments that there can be, and not of the request's alone."""
    if value is not None and value != ALL:
        faults.append(
            RequestFault("/changes", f"{quoted(value)} is not legal; legal: {listed([ALL])}, or leave it out")
        )
    return value == ALL
