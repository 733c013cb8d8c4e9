"""The messages between ``pool`` and ``worker``: a job and its result."""

from __future__ import annotations

from enum import StrEnum
from typing import Any, Final

from msgspec import Struct

from service.admission.engines import AdmissionOptions  # noqa: TC001  # msgspec reads the annotations

JSON: Final = b"application/json"
"""The content type of a result that is not text."""
OK: Final = 200
"""The status of a result that is not a problem."""

ModelFiles = tuple[dict[str, Any], dict[str, str]]
"""A model's ``config.json``, and its other files by name."""


class JobKind(StrEnum):
    """The endpoint that a job is for."""

    DECISION = "decision"
    BATCH = "batch"
    DRY_RUN = "dry-run"
    IMPACT = "impact"
    VALIDATE = "validate"
    MUTATE = "mutate"
    CHECK = "check"
    CHECK_BATCH = "check-batch"


class JobSettings(Struct, frozen=True):
    """The settings that a worker process needs."""

    default_release: str | None
    max_batch_items: int
    max_decisions: int
    max_answer: int
    candidate_seconds: int
    admission: AdmissionOptions
    is_logged: bool
    logs_dry_runs: bool


class Job(Struct, frozen=True):
    """A request for a worker process.

    ``began`` is when the request arrived (ns of the monotonic clock). ``found`` has models from the hub, ``refused``
    has the reasons why others could not be fetched, and ``fetches`` is whether more can be. A large answer is written
    to the file ``output``. ``user`` is the user of a review.
    """

    kind: JobKind
    revision: str
    body: bytes
    content_type: bytes
    wants_text: bool
    path: str
    caller: str
    began: int
    settings: JobSettings
    output: str | None = None
    fetches: bool = False
    found: dict[str, ModelFiles] = {}
    refused: dict[str, str] = {}
    user: str = ""


class JobResult(Struct):
    """The result of a job.

    The answer is ``body``, or the first ``spooled`` bytes of the job's file. ``lines`` are its decisions for the log;
    in that file they follow the answer, with the lengths in ``spooled_lines``. ``needed`` are the missing models
    that prevented a decision, ``looked_for`` are all missing ones. ``counts`` are the decisions by runner, outcome and
    release, ``matches`` those with a rule in their reasons, by rule. ``checks`` are the requests that were checked, by
    runner, verdict and release. ``defects`` is how many defects of this program it met. ``candidate`` is the job of a
    process that runs candidate rules, which then makes the answer. ``seconds`` is the processor time.
    """

    status: int
    content_type: bytes
    body: bytes = b""
    spooled: int | None = None
    spooled_lines: list[int] = []
    lines: list[bytes] = []
    counts: list[tuple[tuple[str, str, str], int]] = []
    matches: list[tuple[str, int]] = []
    checks: list[tuple[tuple[str, str, str], int]] = []
    ids: list[str] = []
    decisions: int = 0
    seconds: float = 0.0
    needed: list[str] = []
    looked_for: list[str] = []
    review: str = ""
    defects: int = 0
    candidate: bytes | None = None
