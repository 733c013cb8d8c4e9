"""The metrics of the service, for Prometheus.

Owns their names, types and labels. Requests add to plain numbers of their process. Each process writes a snapshot to a
shared folder, and the process that is scraped merges them. With several processes ``prometheus_client`` would take
microseconds for each number, so it is only used for the output format.
"""

from __future__ import annotations

import asyncio
import os
import re
import time
from bisect import bisect_left
from collections import defaultdict
from contextlib import suppress
from itertools import product
from typing import TYPE_CHECKING, Any, Final

import msgspec
from msgspec import Struct

from policy.rules.effects import TABLE
from service import run_folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from pathlib import Path

    from policy.decision.evaluation import Evaluation
    from policy.decision.ruling import Ruling
    from policy.policy import Policy
    from policy.request.request import Request
    from policy.rules.release_rule import ReleaseRule

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
BOUNDS: Final = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
"""The upper bounds of the histogram's buckets, in seconds."""
BOUNDS_NS: Final = tuple(round(bound * 1e9) for bound in BOUNDS)
DECISIONS_PATH: Final = "/v1/decisions"
OK: Final = 200
DEFECTS: Final = "runner_policy_internal_errors"
FILE_NAME: Final = re.compile(r"metrics-(\d+)-\d+\.json")
"""Matches the name of a process's file; the group is the process's id."""
MAX_SNAPSHOT_AGE: Final = 10.0
"""Seconds without a snapshot after which a process counts as dead."""


class Family(Struct, frozen=True):
    """A metric: its kind (``counter``, ``gauge``), meaning, labels, and how processes are merged.

    With ``values``, all legal values of each label, the series exist from the start: ``increase()`` would miss one that
    starts at 1.
    """

    kind: str
    meaning: str
    labels: tuple[str, ...] = ()
    merge: str = "sum"
    values: tuple[tuple[str, ...], ...] | None = None


FAMILIES: Final[dict[str, Family]] = {
    "runner_policy_decisions": Family("counter", "decisions returned", ("runner", "outcome", "vllm_version")),
    "runner_policy_requests": Family("counter", "requests answered, by endpoint and status", ("path", "status")),
    "runner_policy_request_checks": Family(
        "counter", "requests checked against an engine", ("runner", "verdict", "vllm_version")
    ),
    DEFECTS: Family("counter", "defects of the program that a request has shown"),
    "runner_policy_rule_matches": Family("counter", "decisions with the rule in their reasons", ("rule",)),
    "runner_policy_reloads": Family(
        "counter", "attempts to load changed rules", ("result",), "max", (("accepted", "rejected"),)
    ),
    "runner_policy_last_reload_successful": Family(
        "gauge", "whether the newest rules are the loaded ones", merge="min"
    ),
    "runner_policy_last_reload_success_timestamp_seconds": Family("gauge", "when rules were last loaded", merge="min"),
    "runner_policy_info": Family(
        "gauge",
        "1; the revision of the rules and the version of the program are labels",
        ("version", "revision"),
        "max",
    ),
    "runner_policy_workers": Family("gauge", "processes that serve requests"),
    "runner_policy_run_folder_usable": Family(
        "gauge", "whether the processes can share files, such as these metrics", merge="min"
    ),
    "runner_policy_run_folder_created": Family(
        "counter", "times that the folder of the shared files was created again because it was deleted", merge="max"
    ),
    "runner_policy_overdue_rules": Family("gauge", "house rules past their review date", merge="max"),
    "runner_policy_ended_rules": Family("gauge", "house rules that have ended and can be deleted", merge="max"),
    "runner_policy_next_rule_end_timestamp_seconds": Family(
        "gauge", "when the next house rule ends; missing if none has an end ahead", merge="min"
    ),
    "runner_policy_log_queue_records": Family("gauge", "decisions waiting to be recorded"),
    "runner_policy_log_written": Family("counter", "decisions written to the log's store"),
    "runner_policy_log_spilled": Family("counter", "decisions spilled to the local disk"),
    "runner_policy_log_replayed": Family("counter", "decisions replayed from the local disk to the store"),
    "runner_policy_log_spill_bytes": Family("gauge", "bytes of decisions on the local disk", merge="max"),
    "runner_policy_log_dropped": Family("counter", "decisions missing from the log"),
    "runner_policy_log_lost_files": Family(
        "counter", "files of the log that were deleted, replaced or damaged after they were opened"
    ),
    "runner_policy_log_lost_file_records": Family("counter", "decisions recorded in files that were lost later"),
    "runner_policy_log_stdout_dropped": Family(
        "counter", "decisions not printed because standard output was not read, or could not be written"
    ),
    "runner_policy_log_store_up": Family("gauge", "whether the log's store accepted the last decisions", merge="min"),
    "runner_policy_admission_reviews": Family(
        "counter",
        "admission reviews answered",
        ("call", "result"),
        values=(("validate", "mutate"), ("allowed", "warned", "denied", "patched", "undecided", "ignored")),
    ),
    "runner_policy_access_denied": Family(
        "counter",
        "requests and connections refused",
        ("reason",),
        values=(("no-token", "unknown-token", "scope", "rate", "connections", "host", "origin"),),
    ),
}
DURATION: Final = "runner_policy_decision_duration_seconds"
DURATION_MEANING: Final = "time to answer a request to /v1/decisions, from the first byte read"

Labels = tuple[str, ...]
Sample = tuple[str, Labels, float]


class Snapshot(Struct, frozen=True):
    """The numbers of one process."""

    pid: int
    samples: list[Sample]
    durations: list[int]
    seconds: float


class ReleaseCounter:
    """The numbers of decisions of a release by its ``rules``: by the rank of the deciding effect, and by rule.

    With one number for each ruling there would be fewer to add to, but if all requests differ, every second ruling is
    new. Counting takes 1.0 instead of 3.1 of the 40 µs of a decision in process.
    """

    __slots__ = ("_by_effect", "_by_rule", "release", "rules")

    def __init__(self, release: str, rules: tuple[ReleaseRule, ...]) -> None:
        self.release, self.rules = release, rules
        self._by_effect = [0] * len(TABLE)
        self._by_rule = [0] * len(rules)

    def add(self, ruling: Ruling, final: Ruling) -> None:
        """Count a decision, with the rules in its reasons and its known problems."""
        self._by_effect[ruling.effect.rank] += 1
        by_rule = self._by_rule
        for positions in (ruling.standing, final.refusals, ruling.advice, ruling.problems):
            for position in positions:
                by_rule[position] += 1

    def samples(self) -> Iterator[Sample]:
        """The numbers that are not 0."""
        for effect, number in zip(TABLE, self._by_effect, strict=True):
            if number:
                labels = (effect.runner or "none", effect.outcome or "none", self.release)
                yield "runner_policy_decisions", labels, number
        for item, number in zip(self.rules, self._by_rule, strict=True):
            if number:
                yield "runner_policy_rule_matches", (item.rule.id,), number


class Metrics:
    """The numbers of this process, and with ``folder`` those of all processes that share it.

    They are counted and collected in one thread, the event loop's, so that none is lost.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._file = folder / f"metrics-{os.getpid()}-{time.time_ns()}.json" if folder is not None else None
        self.fault: str | None = None
        """Why the last snapshot could not be written."""
        self.loop: asyncio.AbstractEventLoop | None = None
        """The loop that counts, once it runs."""
        self._counted: dict[tuple[str, Labels], float] = {}
        self._releases: dict[str, ReleaseCounter] = {}
        self.answered: defaultdict[tuple[str, int], int] = defaultdict(int)
        """Requests by path and status."""
        self.latencies: list[int] = []
        """Durations of recent answers of ``/v1/decisions``, in nanoseconds."""
        self._durations = [0] * (len(BOUNDS) + 1)
        self._nanoseconds = self._hot = 0
        self.sources: list[Callable[[], Iterable[Sample]]] = []
        """Functions that return current samples."""

    def count(self, name: str, *labels: str, by: float = 1) -> None:
        """Add to a counter."""
        key = (name, labels)
        self._counted[key] = self._counted.get(key, 0) + by

    def count_decision(self, request: Request, evaluation: Evaluation, policy: Policy) -> None:
        """Count a decision by the rules of a policy, which may not be the newest."""
        release = request.release.decided_as
        rules = policy.ruleset(release).rules
        counted = self._releases.get(release)
        if counted is None or counted.rules is not rules:
            if counted is not None:
                self._fold()
            self._releases[release] = counted = ReleaseCounter(release, rules)
        counted.add(evaluation.ruling, evaluation.final)

    def count_check(self, labels: tuple[str, str, str], number: int = 1) -> None:
        """Count requests that were checked, by runner, verdict and release."""
        self.count("runner_policy_request_checks", *labels, by=number)

    def count_job_decisions(self, labels: tuple[str, str, str], number: int) -> None:
        """Count decisions of a worker process, by runner, outcome and release."""
        self.count("runner_policy_decisions", *labels, by=number)

    def count_job_matches(self, rule: str, number: int) -> None:
        """Count decisions of a worker process that have the rule in their reasons."""
        self.count("runner_policy_rule_matches", rule, by=number)

    def count_request(self, path: str, status: int) -> None:
        """Count an answered request, unless it is counted by ``latencies``."""
        if status != OK or path != DECISIONS_PATH:
            self.answered[path, status] += 1

    def clear_rules(self) -> None:
        """Drop the counters that reference rules."""
        self._fold()

    def _fold(self) -> None:
        """Add up the decisions by labels, and the durations by bucket."""
        latencies, self.latencies = self.latencies, []
        self._hot += len(latencies)
        self._nanoseconds += sum(latencies)
        for nanoseconds in latencies:
            self._durations[bisect_left(BOUNDS_NS, nanoseconds)] += 1
        for counted in self._releases.values():
            for name, labels, number in counted.samples():
                self.count(name, *labels, by=number)
        self._releases.clear()

    def snapshot(self) -> Snapshot:
        """Return the current numbers, and write them to the folder, if there is one."""
        self._fold()
        samples = [(name, labels, value) for (name, labels), value in self._counted.items()]
        samples += [
            ("runner_policy_requests", (path, str(status)), number) for (path, status), number in self.answered.items()
        ]
        samples.append(("runner_policy_requests", (DECISIONS_PATH, str(OK)), self._hot))
        samples.append(("runner_policy_workers", (), 1))
        for source in self.sources:
            samples.extend(source())
        found = Snapshot(os.getpid(), samples, list(self._durations), self._nanoseconds / 1e9)
        if self._file is not None:
            try:
                run_folder.replace(self._file, msgspec.json.encode(found))
                self.fault = None
            except OSError as error:
                self.fault = error.strerror or type(error).__name__
        return found

    def text(self) -> bytes:
        """The numbers of all processes in Prometheus' text format; must not be called from the loop's thread.

        This process's snapshot is also written for the others, so that no counter is lower in the next scrape.
        """
        from prometheus_client import CollectorRegistry, generate_latest  # noqa: PLC0415  # only needed for a scrape

        own = (
            self.snapshot()
            if self.loop is None
            else asyncio.run_coroutine_threadsafe(self._snapshot(), self.loop).result()
        )
        registry = CollectorRegistry()
        registry.register(_Collector([own, *self._others()]))
        return generate_latest(registry)

    async def _snapshot(self) -> Snapshot:
        return self.snapshot()

    def _others(self) -> Iterator[Snapshot]:
        """The snapshots of other processes; of dead ones only the counters."""
        names: list[str] = []
        with suppress(OSError):  # a cleaner of temporary files may have deleted the folder
            names = run_folder.file_names(self._file.parent) if self._file is not None else []
        for name in names:
            if self._file is not None and FILE_NAME.fullmatch(name) and name != self._file.name:
                with suppress(OSError, msgspec.DecodeError), run_folder.read(self._file.with_name(name)) as file:
                    found = msgspec.json.decode(file.read(), type=Snapshot)
                    is_recent = time.time() - os.fstat(file.fileno()).st_mtime < MAX_SNAPSHOT_AGE
                    yield found if is_recent and _is_alive(found.pid) else _counters_of(found)


def is_of_ended_process(name: str) -> bool | None:
    """Whether a file has the numbers of a process that has ended; ``None`` if it is not a file of metrics."""
    found = FILE_NAME.fullmatch(name)
    return None if found is None else not _is_alive(int(found[1]))


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _counters_of(snapshot: Snapshot) -> Snapshot:
    """A snapshot without its gauges."""
    return msgspec.structs.replace(
        snapshot, samples=[sample for sample in snapshot.samples if FAMILIES[sample[0]].kind == "counter"]
    )


class _Collector:
    """The collector that ``prometheus_client`` calls."""

    def __init__(self, snapshots: list[Snapshot]) -> None:
        self._snapshots = snapshots

    def collect(self) -> Iterator[Any]:
        """Every family with its numbers merged."""
        from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily  # noqa: PLC0415  # as above

        found: dict[str, dict[Labels, list[float]]] = {name: {} for name in FAMILIES}
        for snapshot in self._snapshots:
            for name, labels, value in snapshot.samples:
                found[name].setdefault(tuple(labels), []).append(value)
        merge: dict[str, Callable[[Iterable[float]], float]] = {"sum": sum, "min": min, "max": max}
        for name, family in FAMILIES.items():
            kind = CounterMetricFamily if family.kind == "counter" else GaugeMetricFamily
            metric: Any = kind(name, family.meaning, labels=family.labels)
            initial = (
                product(*family.values or ())
                if family.kind == "counter" and (family.values or not family.labels)
                else ()
            )
            for labels, values in sorted({**{labels: [0.0] for labels in initial}, **found[name]}.items()):
                metric.add_metric(labels, merge[family.merge](values))
            yield metric
        total, buckets = 0, []
        for position, bound in enumerate((*map(str, BOUNDS), "+Inf")):
            total += sum(snapshot.durations[position] for snapshot in self._snapshots)
            buckets.append((bound, total))
        durations = HistogramMetricFamily(DURATION, DURATION_MEANING)
        durations.add_metric([], buckets, sum(snapshot.seconds for snapshot in self._snapshots))
        yield durations
