"""What the service and the process of a fetch send each other, as JSON: a job, and its outcome."""

from __future__ import annotations

from enum import StrEnum

from msgspec import Struct

from policy.errors import Fault  # noqa: TC001  # msgspec reads the annotations


class FetchLimits(Struct, frozen=True):
    """The limits of a fetch: ``silence`` and ``seconds`` in seconds, the others in bytes.

    A remote may take ``silence`` to connect or to send more data, and a whole fetch ``seconds``. It may send
    ``refs`` until its list of refs has ended, and ``received`` in all. Reading it may take ``memory``. With more than
    ``stored`` in the local copy, nothing more is fetched.
    """

    silence: float
    seconds: float
    refs: int
    received: int
    memory: int
    stored: int


class FetchJob(Struct, frozen=True):
    """A fetch: the branch of a remote, its local copy, and what is known of earlier fetches.

    ``accepted`` is the commit that was accepted last, by an earlier process if it is ``None``, ``current`` the one that
    was read last, ``refused`` a commit that does not descend from an accepted one. Without ``fetches`` the accepted
    commit is read from the local copy. ``service`` is the process that waits for the outcome.
    """

    url: str
    branch: str
    path: str
    signers: str | None
    allow_rollback: bool
    folder: str
    ref: str
    limits: FetchLimits
    service: int = 0
    fetches: bool = True
    accepted: str | None = None
    current: str | None = None
    refused: tuple[str, str] | None = None


class FetchFailure(StrEnum):
    """Why there are no rules."""

    UNAVAILABLE = "the remote is unavailable"
    ROLLBACK = "the branch was rolled back"
    OTHER = "other"


class FetchOutcome(Struct):
    """The rules of a commit; or why there are none, as ``error`` or as ``faults`` of files."""

    commit: str | None = None
    refused: tuple[str, str] | None = None
    rules: dict[str, str] = {}
    cases: dict[str, str] = {}
    warnings: list[tuple[str, dict[str, str]]] = []
    failure: FetchFailure | None = None
    error: str = ""
    faults: list[Fault] = []
