"""What a worker process does: one request that may take long, from the bytes of its body to those of the answer.

Owns the work on manifests, batches, reviews, dry runs, YAML, text answers and large bodies. A worker decides by the
same policy as the serving process, and has no connection to clients. Its decisions come back with the answer, and the
serving process counts and logs them. Not here: the process itself (`process`), and who starts and kills it (`pool`).
"""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from time import process_time
from typing import TYPE_CHECKING, Any, Final

from msgspec import UnsetType

from policy import render, render_impact, render_requests
from policy.checks import candidate
from policy.checks.candidate import with_models
from policy.checks.sandbox import INLINE
from policy.decision.decision import ID_START, Decision, encode
from policy.decision.evaluation import EncodedDecision
from policy.defects import DefectCounter, contained
from policy.errors import MAX_FAULTS, PolicyError, RemedyKind, RequestFault, RequestInvalid
from policy.escaping import escape_line
from policy.impact.answer import impact_answer
from policy.impact.request import read_impact_request
from policy.intake.command.expansion import most_characters, request_expansion
from policy.intake.model_lookup import MODEL_CONFIG_NEEDED, ModelConfigNeeded
from policy.intake.result import require_known_values
from policy.intake.unused_models import ModelUse
from policy.messages import quoted
from policy.pointer import at
from policy.policy import Policy
from policy.request.items import ManifestDecisions, answer_of, ignored_objects, item_of
from policy.request.manifest import requests_of
from policy.request.request import Manifest, Request, read_request_or_manifest, with_explanation
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.sampling.check import RequestCheck, RequestChecker, labels_of, read_check_request
from policy.sampling.manifest import EngineChecks, check_request
from service import run_folder
from service.admission.handler import answer_review
from service.admission.review import read_review
from service.documents.body import decode
from service.documents.dry_run_request import FIELDS, DryRunRequest, read_dry_run
from service.documents.form import read_form
from service.jobs.messages import JSON, OK, Job, JobKind, JobResult
from service.limits.budget import WorkBudget
from service.log.record import line
from service.problems import TEXT, Refused, problem_of, response_of
from service.request_context import MAX_LOGGED_IDS, RequestContext

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import date

    from policy.problems import Problem

FORM: Final = b"multipart/form-data"
MEMORY_LIMIT: Final = 512 << 20
"""Bytes of memory a worker process may use for data."""
MAX_FETCHES: Final = 64
"""Models fetched from the hub for one request."""
NO_MEMORY: Final = f"the request needs more than {MEMORY_LIMIT >> 20} MiB of memory; send it in parts"


class JobRecords:
    """The decisions of one job, to be counted and logged."""

    def __init__(self, job: Job) -> None:
        self._context = RequestContext(job.path, job.caller, job.began)
        self._is_logged = job.settings.is_logged
        self.lines: list[bytes] = []
        self.counts: Counter[tuple[str, str, str]] = Counter()
        self.matches: Counter[str] = Counter()
        self.ids: list[str] = []
        self.checks: Counter[tuple[str, str, str]] = Counter()

    def add(self, answer: EncodedDecision, request: Request, policy: Policy) -> None:
        """Record a decision."""
        ruling, final = answer.evaluation.ruling, answer.evaluation.final
        release = request.release.decided_as
        rules = policy.ruleset(release).rules
        positions = {*ruling.standing, *final.refusals, *ruling.advice, *ruling.problems}
        self.counts[ruling.effect.runner or "none", ruling.effect.outcome or "none", release] += 1
        self.matches.update(rules[position].rule.id for position in positions)
        if answer.decision is not None and len(self.ids) < MAX_LOGGED_IDS:
            self.ids.append(answer.decision.decision_id)
        if self._is_logged:
            self.lines.append(b"".join(line(self._context.log_entry(answer, request, None))))


class FoundModels:
    """The models that a job includes, and the names of those that are missing."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.needed: dict[str, None] = {}
        self.looked_for: dict[str, None] = {}

    def begin(self, job: Job) -> None:
        """Use the models of this job from now on."""
        self.job = job
        self.needed, self.looked_for = {}, {}

    def find(self, name: str) -> tuple[Mapping[str, Any], Mapping[str, str]] | None:
        """A model's ``config.json`` and files, if the job includes them; a name that it lacks is noted."""
        if self.job is None or not self.job.fetches:
            return None
        found = self.job.found.get(name)
        if found is None and len(self.looked_for) < MAX_FETCHES:
            self.looked_for[str(name)] = None  # the name may be a `HiddenName`
        return found

    def refusal(self, error: ModelConfigNeeded) -> RequestInvalid:
        """The error for missing models: that they are needed, which is noted, or why they could not be fetched."""
        assert self.job is not None  # INVARIANT: a decision is made for a job
        if not self.job.fetches:
            return error
        refused = self.job.refused
        unknown = [name for name in error.names if name not in refused]
        for name in unknown[: MAX_FETCHES - len(self.needed)]:
            self.needed[str(name)] = None
        if unknown:
            return error
        faults = [
            RequestFault(fault.pointer, refused[name], RemedyKind.MODEL_CONFIG)
            for name, fault in zip(error.names, error.faults, strict=True)
        ]
        return RequestInvalid(faults, MODEL_CONFIG_NEEDED)


class JobWorker:
    """The jobs of one revision of the rules, in one process."""

    def __init__(self, rules: dict[str, str], default_release: str | None, before: Policy | None) -> None:
        """``before`` is a policy of this process whose unchanged files and compiled rules are reused.

        Raises:
            PolicyError: the rules cannot be loaded.
        """
        self._rules = rules
        self._models = FoundModels()
        catalogue = load(Sources(rules), before=None if before is None else before.catalogue)
        self.policy = Policy(catalogue, default_release, self._models.find, before)
        self.checker = RequestChecker(self.policy)

    def result(self, job: Job, today: date) -> JobResult:
        """The result of a job; a request that cannot be answered is answered with its problem."""
        began, defects = process_time(), DefectCounter.defects
        self._models.begin(job)
        records = JobRecords(job)
        budget = WorkBudget(job.settings.max_decisions, job.settings.max_answer)
        try:
            with request_expansion(most_characters(len(job.body))), contained():
                found = self._answer(job, records, budget, today)
        except PolicyError as error:
            found = _problem(error, job)
        except MemoryError:
            found = _problem(Refused("too-much-work", NO_MEMORY), job)
        found.decisions = budget.spent
        found.counts = list(records.counts.items())
        found.matches = list(records.matches.items())
        found.ids = records.ids
        found.checks = list(records.checks.items())
        found.defects = DefectCounter.defects - defects
        found.needed, found.looked_for = list(self._models.needed), list(self._models.looked_for)
        if job.output is not None and len(found.body) + sum(map(len, records.lines)) > INLINE:
            _spool(found, records.lines, Path(job.output))
        else:
            found.lines = records.lines
        found.seconds = process_time() - began
        return found

    def _answer(self, job: Job, records: JobRecords, budget: WorkBudget, today: date) -> JobResult:
        match job.kind:
            case JobKind.BATCH:
                return self._batch(job, records, budget, today)
            case JobKind.DRY_RUN:
                return self._dry_run(job, records, budget, today)
            case JobKind.VALIDATE | JobKind.MUTATE:
                return self._review(job, records, budget, today)
            case JobKind.CHECK:
                checked = self._check(decode(job.body, job.content_type), records, budget, today)
                body = _check_text(checked) if job.wants_text else encode(checked)
                return JobResult(OK, TEXT if job.wants_text else JSON, body)
            case JobKind.CHECK_BATCH:
                return self._check_batch(job, records, budget, today)
            case JobKind.IMPACT:
                return self._impact(job, budget, today)
        answer = self._decide(decode(job.body, job.content_type), records, budget, today)
        return JobResult(OK, TEXT, _text(answer)) if job.wants_text else JobResult(OK, JSON, encode(answer))

    def _batch(self, job: Job, records: JobRecords, budget: WorkBudget, today: date) -> JobResult:
        """The answers to many requests."""
        return _answers(job, budget, lambda item, place: self._decide(item, records, budget, today, place))

    def _check(
        self, document: Any, records: JobRecords, budget: WorkBudget, today: date, pointer: str = ""
    ) -> RequestCheck | EngineChecks:
        """What becomes of a request; nothing is recorded, as nothing is decided."""
        request = read_check_request(document, self.policy.releases, pointer)
        try:
            found = check_request(self.checker, request, today, problem_of, lambda: budget.count_check(request.size))
        except ModelConfigNeeded as error:
            refusal = self._models.refusal(error)
            refusal.hide(request.secrets(self.policy.releases.images))
            raise refusal from error
        for each in [found] if isinstance(found, RequestCheck) else [item.check for item in found.items]:
            if isinstance(each, RequestCheck):
                records.checks[labels_of(each)] += 1
        return found

    def _check_batch(self, job: Job, records: JobRecords, budget: WorkBudget, today: date) -> JobResult:
        """The answers to many requests to check."""
        return _answers(job, budget, lambda item, place: self._check(item, records, budget, today, place))

    def _impact(self, job: Job, budget: WorkBudget, today: date) -> JobResult:
        """What releases do with many deployments; nothing is recorded."""

        def worded(error: PolicyError) -> Problem:
            return problem_of(self._models.refusal(error) if isinstance(error, ModelConfigNeeded) else error)

        document = decode(job.body, job.content_type)
        request = read_impact_request(document, self.policy.releases, job.settings.max_batch_items)
        found, rows = impact_answer(request, self.policy, today, worded, budget)
        if not job.wants_text:
            return JobResult(OK, JSON, encode(found))
        ignored = [] if isinstance(found.ignored, UnsetType) else [each.place.pointer for each in found.ignored]
        return JobResult(OK, TEXT, render_impact.answer_text(rows, found.counts, ignored).encode())

    def _dry_run(self, job: Job, records: JobRecords, budget: WorkBudget, today: date) -> JobResult:
        """The explained decision, or with candidate rules the job for the process that runs them."""
        dry_run, pointer = _read_dry_run(job)
        job_records = records if job.settings.logs_dry_runs else None
        current = self._decide(dry_run.document, job_records, budget, today, pointer, explain=True)
        if not dry_run.has_candidate:
            return JobResult(OK, TEXT, _text(current)) if job.wants_text else JobResult(OK, JSON, encode(current))
        if isinstance(current, ManifestDecisions):
            manifest_pointer = f"{pointer}/manifest" if "manifest" in dry_run.document else pointer
            message = "candidate rules are tried on one deployment; send `facts` or a `deployment`"
            raise RequestInvalid([RequestFault(manifest_pointer, message)])
        request = {**self._with_models(dry_run.document, job), "explain": True}
        trial = candidate.CandidateJob(
            self._rules,
            dry_run.rules,
            dry_run.remove,
            request,
            self.policy.releases.default,
            today,
            job.settings.candidate_seconds,
            dry_run.for_all,
            current,
            job.wants_text,
            dry_run.cases,
        )
        return JobResult(OK, TEXT if job.wants_text else JSON, candidate=candidate.encode(trial))

    def _with_models(self, document: Any, job: Job) -> Any:
        """A request's document with the models fetched for it."""
        request = read_request_or_manifest(document, self.policy.releases) if job.fetches else None
        if not isinstance(request, Request) or request.deployment is None:
            return document
        return with_models(document, self.policy.intake(request).found)

    def _review(self, job: Job, records: JobRecords, budget: WorkBudget, today: date) -> JobResult:
        """The answer to an admission review; decisions of a dry-run review are recorded only if those of dry runs are.

        If objects that cannot be decided are denied, an unknown argument or variable makes its engine undecided.
        """
        review = read_review(decode(job.body, job.content_type))
        job_records = None if review.dry_run and not job.settings.logs_dry_runs else records

        is_mutating = job.kind is JobKind.MUTATE
        is_strict = job.settings.admission.fail == "closed" and not is_mutating

        def decide(request: Request, *, is_trial: bool = False) -> Decision:
            with contained(request.pointer):
                return self._decide_one(request, None if is_trial else job_records, budget, today, is_strict=is_strict)

        found = answer_review(review, self.policy.releases, decide, job.settings.admission, mutating=is_mutating)
        return JobResult(OK, JSON, encode(found.response), review=found.result)

    def _decide(
        self,
        document: Any,
        records: JobRecords | None,
        budget: WorkBudget,
        today: date,
        pointer: str = "",
        *,
        explain: bool = False,
    ) -> Decision | ManifestDecisions:
        """The answer to a request's document: a decision, or one for each engine of a manifest."""
        request = read_request_or_manifest(document, self.policy.releases, pointer)
        if explain:
            request = with_explanation(request)
        return (
            self._decide_engines(request, records, budget, today)
            if isinstance(request, Manifest)
            else self._decide_one(request, records, budget, today)
        )

    def _decide_engines(
        self, manifest: Manifest, records: JobRecords | None, budget: WorkBudget, today: date
    ) -> ManifestDecisions:
        items = []
        ignored: list[str] = []
        models = ModelUse()
        for path, request in requests_of(manifest, self.policy.releases, ignored=ignored):
            try:
                if isinstance(request, RequestInvalid):
                    raise request
                with contained(request.pointer):
                    items.append(item_of(manifest, path, self._decide_one(request, records, budget, today, models)))
            except PolicyError as error:
                models.add_undecided(error)
                items.append(item_of(manifest, path, problem_of(error)))
        return answer_of(manifest, items, ignored, models.warnings(manifest.model_configs, "model_configs"))

    def _decide_one(
        self,
        request: Request,
        records: JobRecords | None,
        budget: WorkBudget,
        today: date,
        models: ModelUse | None = None,
        *,
        is_strict: bool = False,
    ) -> Decision:
        """The decision on one deployment; with ``is_strict`` an unknown argument or variable prevents it.

        So does a launch error if another vLLM may run, and a variable that must be set and that the container cannot
        set. The engine's models are added to ``models``.
        """
        budget.count_decision(explained=request.explain)
        try:
            result = self.policy.evaluate(request, today)
            if models is not None and result.intake is not None:
                models.add(result.intake.models)
            if is_strict and result.intake is not None:
                require_known_values(result.intake, request.pointer)
                if result.likely_refusal:
                    raise RequestInvalid([RequestFault(request.pointer, result.likely_refusal)])
                if result.without_effect:
                    raise RequestInvalid([RequestFault(f"{request.pointer}/args", result.without_effect)])
            decision = self.policy.assemble(result)
        except ModelConfigNeeded as error:
            raise self._models.refusal(error) from error
        if records is not None:
            answer = EncodedDecision(ID_START + decision.decision_id.encode(), result.evaluation, decision)
            records.add(answer, request, self.policy)
        return decision


def _read_dry_run(job: Job) -> tuple[DryRunRequest, str]:
    """The content of a dry run, and the JSON pointer of its request in the body."""
    if job.content_type.partition(b";")[0].strip().lower() == FORM:
        return asyncio.run(read_form({"type": "http", "headers": [(b"content-type", job.content_type)]}, job.body)), ""
    document = decode(job.body, job.content_type)
    if type(document) is dict and not document.keys().isdisjoint(FIELDS):
        return read_dry_run(document), "/request"
    return DryRunRequest(document), ""


def _answers(job: Job, budget: WorkBudget, answer: Callable[[Any, str], object]) -> JobResult:
    """The answers to the items of a batch; an invalid item, or one beyond the budget, does not affect the others.

    A problem counts as an answer, so that the budget bounds the bytes of all faults too.
    """
    pieces = []
    for number, item in enumerate(_batch_items(decode(job.body, job.content_type), job.settings.max_batch_items)):
        place = f"/items/{number}"
        try:
            with contained(place):
                piece = encode(answer(item, place))
        except PolicyError as error:
            piece = encode(problem_of(error))
        try:
            budget.count_answer(len(piece))
        except Refused as error:
            piece = encode(problem_of(error))
        pieces.append(piece)
    return JobResult(OK, JSON, b'{"items":[' + b",".join(pieces) + b"]}")


def _batch_items(document: Any, limit: int) -> list[Any]:
    """The items of a batch's document.

    Raises:
        RequestInvalid: it is not a batch, or too large a one.
    """
    if type(document) is not dict:
        raise RequestInvalid(
            [RequestFault("", f'expected a batch, got {quoted(document)}; write {{"items": [{{"facts": {{}}}}]}}')]
        )
    unknown = [key for key in document if key != "items"][:MAX_FAULTS]
    faults = [RequestFault(at("", key), f"unknown field {quoted(key)}; legal: `items`") for key in unknown]
    items = document.get("items")
    if type(items) is not list:
        faults.append(RequestFault("/items", f"expected a list of requests, got {quoted(items)}"))
    elif len(items) > limit:
        faults.append(
            RequestFault(
                "/items", f"at most {limit} items are accepted, got {len(items)}; send them as a stream of lines"
            )
        )
    if faults or type(items) is not list:
        raise RequestInvalid(faults)
    return items


def _text(answer: Decision | ManifestDecisions) -> bytes:
    """An answer for a terminal."""
    if isinstance(answer, Decision):
        return render.as_text(render.decision(answer)).encode()
    text = render.as_text(render.engines([(item.path, item.outcome) for item in answer.items]))
    lines = (
        []
        if isinstance(answer.ignored, UnsetType)
        else [ignored_objects([each.path or str(each.kind) for each in answer.ignored])]
    )
    lines += [] if isinstance(answer.warnings, UnsetType) else [f"warning: {each}" for each in answer.warnings]
    return "".join([text, *(f"\n{escape_line(line)}\n" for line in lines)]).encode()


def _check_text(answer: RequestCheck | EngineChecks) -> bytes:
    """What becomes of a request, for a terminal."""
    if isinstance(answer, RequestCheck):
        return render.as_text(render_requests.request_check(answer)).encode()
    rows = [(item.path, item.check if isinstance(item.check, RequestCheck) else item.problem) for item in answer.items]
    found = [(path, each) for path, each in rows if not isinstance(each, UnsetType)]
    return render.as_text(render_requests.engine_checks(found)).encode()


def _problem(error: PolicyError, job: Job) -> JobResult:
    response = response_of(error, as_text=job.wants_text)
    return JobResult(response.status, response.content_type, response.body)


def _spool(found: JobResult, lines: list[bytes], path: Path) -> None:
    """Write the answer and the lines to a file; if that fails they stay in the result."""
    found.lines = lines
    try:
        with run_folder.create(path) as file:
            file.write(found.body)
            file.writelines(lines)
    except OSError:
        run_folder.remove(path)
        return
    found.spooled, found.body = len(found.body), b""
    found.spooled_lines, found.lines = list(map(len, lines)), []
