"""A worker process: its limits, and the revisions of the rules that it has loaded.

Not here: what it does with a request (`worker`).
"""

from __future__ import annotations

import os
import resource
import signal
from typing import TYPE_CHECKING, Final

from policy.processes import end_with_parent
from service.jobs.worker import MEMORY_LIMIT, JobWorker
from service.telemetry.logging import configure_worker

if TYPE_CHECKING:
    from datetime import date

    from service.jobs.messages import Job, JobResult

NICE: Final = 5
"""The niceness of a worker process, so that the serving process comes first."""
MAX_POLICIES: Final = 2
"""How many revisions of the rules are kept compiled: a request in progress may still use the previous one."""

_workers: Final[dict[str, JobWorker]] = {}
"""The revisions of the rules that this process has loaded, the newest last."""


def run(job: Job, rules: dict[str, str] | None, today: date) -> JobResult | None:
    """The result of a job; ``None`` if its revision is not loaded, and there are no ``rules`` to load.

    Raises:
        PolicyError: the rules cannot be loaded.
    """
    if job.revision not in _workers:
        if rules is None:
            return None
        load_rules(job.revision, rules, job.settings.default_release)
    return _workers[job.revision].result(job, today)


def load_rules(revision: str, rules: dict[str, str], default_release: str | None) -> None:
    """Load a revision of the rules for the jobs to come, and forget the oldest.

    Raises:
        PolicyError: the rules cannot be loaded.
    """
    before = next(reversed(_workers.values())).policy if _workers else None
    _workers[revision] = JobWorker(rules, default_release, before)
    while len(_workers) > MAX_POLICIES:
        del _workers[next(iter(_workers))]


def bound_process() -> None:
    """Limit this process's memory, lower its priority, configure its logging, and end it with its parent."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_LIMIT, MEMORY_LIMIT))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    os.nice(NICE)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    configure_worker()
    end_with_parent()
