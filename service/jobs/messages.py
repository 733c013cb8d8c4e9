"""A request for a worker process, and what came of it: the two messages between ``pool`` and ``work``."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from msgspec import Struct

from service.admission.engines import AdmissionOptions  # noqa: TC001  # msgspec reads the annotations
from service.telemetry.metrics import DecisionCount  # noqa: TC001  # msgspec reads the annotations

ModelFiles = tuple[dict[str, Any], dict[str, str]]
"""A model's ``config.json``, and its other files by their names in its folder."""


class JobKind(StrEnum):
    """What is asked, by endpoint."""

    DECISION = "decision"
    BATCH = "batch"
    DRY_RUN = "dry-run"
    VALIDATE = "validate"
    MUTATE = "mutate"


class JobSettings(Struct, frozen=True):
    """What of the settings a worker process needs to know."""

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

    ``began`` is when the request arrived (ns of the monotonic clock). ``found`` has models of the hub, ``refused`` why
    the hub gave others not; ``fetches`` says whether more can be had. A large answer is written to the file ``output``.
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


class JobResult(Struct):
    """What came of a job.

    The answer is ``body``, or the first ``spooled`` bytes of the job's file. ``lines`` are its decisions for the log,
    or lie behind the answer in that file, each as long as ``spooled_lines`` says. ``needed`` are models without which
    something could not be decided, ``looked_for`` those too without which it could. ``candidate`` is the job of a
    process that tries candidate rules, which gives the answer then.
    """

    status: int
    content_type: bytes
    body: bytes = b""
    spooled: int | None = None
    spooled_lines: list[int] = []
    lines: list[bytes] = []
    counts: list[tuple[DecisionCount, int]] = []
    ids: list[str] = []
    decisions: int = 0
    needed: list[str] = []
    looked_for: list[str] = []
    review: str = ""
    candidate: bytes | None = None
