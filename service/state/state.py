"""The state of a serving process: the answers of the loaded revision, and what its requests share.

Owns the swap of one revision for the next. A request takes the answers once, so one revision decides all of
it.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime, time
from math import ceil
from time import perf_counter_ns
from typing import TYPE_CHECKING, Any, Final

from policy.defects import DefectCounter
from policy.masking import masked_start
from policy.policy import Policy
from policy.rules.catalogue import load
from policy.rules.loader import Sources, no_pause
from service.admission.engines import AdmissionOptions
from service.documents.accept import items_of
from service.jobs.messages import JobSettings
from service.jobs.pool import Pool
from service.limits.slots import BodyMemory, Slots, StreamLimit
from service.pauses import Pauses
from service.problems import Refused
from service.run_folder import RunFolderState
from service.state.answers import Answers, today
from service.telemetry.metrics import DEFECTS
from service.transport.body_timeout import BodyTimeouts
from service.transport.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import date

    from starlette.types import Scope

    from policy.rules.catalogue import Catalogue
    from service.auth.access import Access
    from service.models import HubModels
    from service.recorder import Recorder
    from service.reload.reload import Published
    from service.request_context import RequestContext
    from service.settings import Settings
    from service.telemetry.metrics import Metrics, Sample

requests = logging.getLogger("runner_policy.requests")
log = logging.getLogger("runner_policy")

SHOWN_REQUEST_ID: Final = 128
"""How many characters of an `x-request-id` the access log has."""
LOG_QUERIES: Final = 4
"""The most answers with logged records in progress, from query to sent answer, as each takes tens of megabytes."""
MAX_LOG_WAITING: Final = 64
"""Requests for logged records that one caller may have waiting."""


class ServiceState:
    """The state of one serving process, without HTTP."""

    def __init__(
        self,
        settings: Settings,
        published: Published,
        models: HubModels,
        recorder: Recorder,
        access: Access,
        version: str,
    ) -> None:
        """Load the published rules.

        Raises:
            RulesInvalid, EngineFailed: they cannot be loaded.
            UnknownRelease, InvalidVersion: the default release of the settings is unknown or invalid.
        """
        self.settings = settings
        self.access = access
        self.recorder = recorder
        self.metrics: Metrics = recorder.metrics
        self.body_timeouts = BodyTimeouts(settings.body_timeout)
        self.version = version
        self._models = models
        self.logs_requests = settings.access_log
        self.memory = BodyMemory(
            settings.max_bodies, max(settings.max_body, settings.max_batch_body, settings.max_review)
        )
        self.streams = StreamLimit(settings.max_streams, "too-many-streams")
        self.log_slots = Slots(LOG_QUERIES, MAX_LOG_WAITING, "busy")
        self.pool = Pool(settings.job_concurrency, settings.job_timeout, models, settings.run, access.charge)
        self.run_folder = RunFolderState()
        self.published = published
        self.answers = self.build_answers(published, None)
        self._load_in_workers()
        self.metrics.sources.append(self._samples)

    def job_settings(self) -> JobSettings:
        """The settings that a worker process needs."""
        settings = self.settings
        return JobSettings(
            settings.default_release,
            settings.max_batch_items,
            settings.max_decisions,
            settings.max_answer,
            ceil(settings.candidate_timeout),
            AdmissionOptions(settings.admission_deny, settings.admission_set_env, settings.admission_failure_policy),
            is_logged=self.recorder.is_logging,
            logs_dry_runs=settings.log_dry_runs,
        )

    def build_answers(self, published: Published, before: Answers | None) -> Answers:
        """Build the answers of published rules, to replace those ``before``.

        What unchanged files contain and unchanged rulesets are taken from those. With answers ``before`` requests are
        served meanwhile, so the thread that builds pauses for them.
        """
        pause, earlier = (no_pause, None) if before is None else (Pauses(), before.policy)
        catalogue = load(Sources(published.rules), pause, None if earlier is None else earlier.catalogue)
        policy = Policy(catalogue, self.settings.default_release, self._models.find, earlier, pause=pause)
        return Answers(policy, published, self.settings, self._models, self.recorder)

    def swap(self, published: Published, answers: Answers) -> None:
        """Use these answers from the next request on."""
        before = self.answers.policy.revision
        self.answers, self.published = answers, published
        self._load_in_workers()
        self.metrics.clear_rules()
        log.info(
            "rules loaded", extra={"revision": answers.policy.revision, "before": before, "source": published.source}
        )

    def _load_in_workers(self) -> None:
        """Have worker processes that start from now on load the rules of the answers."""
        self.pool.rules = self.answers.policy.revision, self.answers.texts, self.settings.default_release

    def answers_for(self, headers: Mapping[bytes, bytes]) -> Answers:
        """The answers for a request with these headers.

        Raises:
            Refused: ``If-Match`` has another revision (RFC 9110, section 13.1.1), or is too long to be read.
        """
        answers = self.answers
        wanted = headers.get(b"if-match")
        if wanted is not None:
            known = {answers.etag.encode(), answers.policy.revision.encode(), b"*"}
            if known.isdisjoint(map(bytes.strip, items_of(wanted))):
                raise Refused(
                    "revision-mismatch",
                    f"the loaded revision is {answers.policy.revision}; send it in `if-match`, or omit the header",
                )
        return answers

    def request_done(
        self, scope: Scope, status: int, began: int, path: str | None = None, context: RequestContext | None = None
    ) -> None:
        """Count an answered request by its ``path``, and log it if the access log is on."""
        self.metrics.count_request(path or scope["path"], status)
        if self.logs_requests:
            headers = dict(scope["headers"])
            fields: dict[str, Any] = {
                "method": masked_start(scope["method"]),
                "path": masked_start(scope["path"]),
                "status": status,
                "milliseconds": round((perf_counter_ns() - began) / 1e6, 3),
                "client": scope["client"][0] if scope["client"] else None,
            }
            request_id = headers.get(b"x-request-id")
            if request_id is not None:
                fields["request_id"] = masked_start(request_id.decode("latin-1"), SHOWN_REQUEST_ID)
            ids = context.decisions if context is not None else None
            if ids:
                fields |= {"decision_id": ids[0]} if len(ids) == 1 else {"decision_ids": ids}
            requests.info("request", extra=fields)

    def state(self) -> dict[str, Any]:
        """The state of the rules and the log, for ``/readyz?verbose``."""
        fields: dict[str, Any] = {
            "status": "ready",
            "revision": self.answers.policy.revision,
            "rules": self.published.last(),
        }
        if self.settings.run is not None:
            state = self.run_folder
            fields["run_folder"] = {
                "created": state.created,
                "last_created_at": state.last_created_at,
                "last_error": self.metrics.fault,
            }
        log_client = self.recorder.log
        if log_client is not None:
            fields["log"] = log_client.state()
        return fields

    def log_fault(self) -> str | None:
        """Why required records cannot be written now, without details that need a token; ``None`` if they can."""
        log_client = self.recorder.log
        if not self.settings.log_required or (log_client is not None and log_client.can_record):
            return None
        return (
            "decisions cannot be recorded: neither the decision log's store nor the local disk is known to accept them"
        )

    def _samples(self) -> Iterable[Sample]:
        policy, published = self.answers.policy, self.published
        yield "runner_policy_info", (self.version, policy.revision), 1
        yield DEFECTS, (), DefectCounter.defects
        yield "runner_policy_reloads", ("accepted",), published.accepted
        yield "runner_policy_reloads", ("rejected",), published.rejected
        yield "runner_policy_access_denied", ("connections",), Connection.rejected
        yield "runner_policy_last_reload_successful", (), float(published.successful)
        yield (
            "runner_policy_last_reload_success_timestamp_seconds",
            (),
            datetime.fromisoformat(published.loaded_at).timestamp(),
        )
        yield from _date_samples(policy.catalogue, today())
        if self.settings.run is not None:
            yield "runner_policy_run_folder_usable", (), float(self.metrics.fault is None)
            yield "runner_policy_run_folder_created", (), self.run_folder.created
        yield from self._log_samples()

    def _log_samples(self) -> Iterator[Sample]:
        yield "runner_policy_log_stdout_dropped", (), self.recorder.stdout_dropped
        if (log_client := self.recorder.log) is None:
            return
        counts = log_client.counts
        yield "runner_policy_log_queue_records", (), log_client.waiting
        yield "runner_policy_log_written", (), counts.written
        yield "runner_policy_log_spilled", (), counts.spilled
        yield "runner_policy_log_replayed", (), counts.replayed
        yield "runner_policy_log_dropped", (), log_client.overflowed + counts.lost
        yield "runner_policy_log_lost_files", (), counts.lost_files
        yield "runner_policy_log_lost_file_records", (), counts.lost_file_records
        yield "runner_policy_log_store_up", (), float(counts.store_up)
        yield "runner_policy_log_spill_bytes", (), counts.spill_bytes


def _date_samples(catalogue: Catalogue, day: date) -> Iterator[Sample]:
    """The numbers of overdue and of ended house rules, and when the next one ends."""
    rules = catalogue.rules
    yield "runner_policy_overdue_rules", (), sum(rule.is_overdue(day) for rule in rules)
    yield "runner_policy_ended_rules", (), sum(rule.has_ended(day) for rule in rules)
    ahead = [first for first in catalogue.days_after_ends() if first > day]
    if ahead:
        yield (
            "runner_policy_next_rule_end_timestamp_seconds",
            (),
            datetime.combine(ahead[0], time.min, UTC).timestamp(),
        )
