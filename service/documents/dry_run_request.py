"""The document of a dry run: a request, and the candidate rules to run it with.

Not here: multipart forms (``form``).
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import Struct

from policy.checks.candidate import MAX_RULES
from policy.errors import MAX_FAULTS, RequestFault, RequestInvalid
from policy.messages import listed, nearest, quoted
from policy.pointer import at

FIELDS: Final = ("request", "rules", "remove", "changes", "cases")
ALL: Final = "all"


class DryRunRequest(Struct, frozen=True):
    """A dry run: the request's document, rule texts, ids of rules to remove, and texts of cases to run.

    ``for_all`` is whether to compare all possible deployments.
    """

    document: Any
    rules: list[str] = []
    remove: list[str] = []
    for_all: bool = False
    cases: list[str] = []

    @property
    def has_candidate(self) -> bool:
        """Whether other rules than the loaded ones, or cases, are to be tried."""
        return bool(self.rules or self.remove or self.cases)


def read_dry_run(document: dict[str, Any]) -> DryRunRequest:
    """Read a document that has any of the ``FIELDS``.

    Raises:
        RequestInvalid: a field is unknown or invalid.
    """
    unknown = [key for key in document if key not in FIELDS][:MAX_FAULTS]
    faults = [
        RequestFault(at("", key), f"unknown field {quoted(key)}; legal: {listed(FIELDS)}{nearest(key, FIELDS)}")
        for key in unknown
    ]
    rules, remove, cases = (document.get(name, []) for name in ("rules", "remove", "cases"))
    for name, value in (("rules", rules), ("remove", remove), ("cases", cases)):
        if type(value) is not list or not all(type(item) is str for item in value):
            faults.append(RequestFault(f"/{name}", f"expected a list of strings, got {quoted(value)}"))
        elif len(value) > MAX_RULES:
            faults.append(RequestFault(f"/{name}", f"at most {MAX_RULES} are accepted, got {len(value)}"))
    for_all = read_changes(document.get("changes"), faults)
    if type(document.get("request")) is not dict:
        faults.append(RequestFault("/request", f"expected a request, got {quoted(document.get('request'))}"))
    if faults:
        raise RequestInvalid(faults)
    return DryRunRequest(document["request"], rules, remove, for_all, cases)


def read_changes(value: object, faults: list[RequestFault]) -> bool:
    """Whether to compare all possible deployments, not only the request's."""
    if value is not None and value != ALL:
        faults.append(
            RequestFault("/changes", f"{quoted(value)} is not legal; legal: {listed([ALL])}, or leave it out")
        )
    return value == ALL
