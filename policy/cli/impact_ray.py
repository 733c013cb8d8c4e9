"""The command ``impact`` on a Ray cluster: ``--ray ADDRESS``.

Owns the conversion of a fleet to a data set of Ray Data, and of that to results. Ray schedules the tasks, and repeats
those of a worker that has ended. Each task reads a part of a file and decides its deployments; the results come back in
the order of the fleet, and are written here, so that the output has the same bytes as without Ray.

Only this module imports Ray, and only this command imports this module: Ray is an optional package.
"""

from __future__ import annotations

import logging
import os
import pickle
import socket
from functools import partial
from typing import TYPE_CHECKING, Any, Final

os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to Ray's authors
os.environ.setdefault("RAY_DATA_DISABLE_PROGRESS_BARS", "1")
os.environ.setdefault("RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO", "0")  # otherwise each start warns of the default

import pyarrow as pa
import ray
from msgspec import Struct
from msgspec.structs import replace
from ray.data import Datasource, ReadTask
from ray.data.block import BlockMetadata

from policy.cli.console import USAGE, fail
from policy.cli.fleet import FleetEntry, FleetOptions, entries_of, read_fleet, request_of
from policy.cli.fleet_splits import Split, documents_in, is_uri, splits_of
from policy.escaping import escape_line
from policy.impact.run import DECISIONS_OF_CHUNK, ImpactJob, Run, loaded

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from policy.cli.fleet_sources import RawDocument
    from policy.impact.run import ImpactResult
    from policy.policy import Policy
    from policy.request.request import Request
    from policy.rules.releases import Releases

LOCAL: Final = "local"
"""The address of a cluster that is started for this run, on this machine."""
LOOPBACK: Final = "127.0.0.2"
"""Where a cluster only for this machine listens: Ray replaces 127.0.0.1 by an address that others can reach."""
LAST_PORT: Final = 65535
LONGEST_PORT: Final = 5
CONNECT_TIMEOUT: Final = 10.0
"""Seconds after which a cluster counts as unreachable."""
CHUNKS_OF_TASK: Final = 4
"""A task makes as many decisions as this many chunks of a process: a few seconds of work."""


class ClusterJob(Struct, frozen=True):
    """What a task needs: the job, how deployments are read, and whether the format needs their requests."""

    job: ImpactJob
    options: FleetOptions
    keeps_requests: bool


class Part(Struct, frozen=True):
    """A part of a file that a task reads, and the file's name as it is shown."""

    shown: str
    split: Split


class ReadEntries(Struct, frozen=True):
    """Deployments that were read already, because their files belong together."""

    entries: list[FleetEntry]


def cluster_results(
    names: list[str], address: str, releases: Releases, work: ClusterJob, ignored: list[str]
) -> Iterator[tuple[FleetEntry, ImpactResult]]:
    """The deployments of a fleet with their results, in their order, from a Ray cluster.

    The command fails at once if there is no cluster, or a file cannot be read.
    """
    most = max(1, CHUNKS_OF_TASK * DECISIONS_OF_CHUNK // work.job.decisions)
    parts = [part for name in names for part in _parts(name, most, releases, work, ignored)]
    job, folder = work.job, work.job.folder
    named = {model: path.absolute() for model, path in job.named.items()}
    work = replace(work, job=replace(job, named=named, folder=None if folder is None else folder.absolute()))
    _connect(address)
    return _results(parts, work, ignored)


def _parts(
    name: str, most: int, releases: Releases, work: ClusterJob, ignored: list[str]
) -> Iterator[Part | ReadEntries]:
    """The parts of a file that tasks read; the deployments of folders and manifests, which are read here."""
    try:
        found = splits_of(name, most) if is_uri(name) or os.path.isfile(name) else None  # noqa: PTH113  # no `Path` of a URI
    except OSError as error:
        fail(USAGE, f"{escape_line(name)}: cannot be read: {error}")
    if found is not None:
        yield from (Part(escape_line(name), split) for split in found)
        return
    if is_uri(name):
        fail(USAGE, f"{escape_line(name)}: expected JSON lines or Parquet at a URI; other files are read from a path")
    entries = [*read_fleet([name], releases, work.options, ignored)]
    yield from (ReadEntries(entries[start : start + most]) for start in range(0, len(entries), most))


def _connect(address: str) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == LOCAL:
        options |= {"include_dashboard": False, "_node_ip_address": LOOPBACK}
    elif address.startswith(f"{LOOPBACK}:"):
        options["_node_ip_address"] = LOOPBACK  # Ray would take this machine's other address
    try:
        _check_port(address)
        ray.init(address=address, **options)
    except (OSError, RuntimeError, ValueError) as error:
        lines = str(error).splitlines() or [type(error).__name__]
        fail(USAGE, f"--ray: cannot connect to a Ray cluster at {escape_line(address)}: {escape_line(lines[0])}")
    for name in ("ray", "ray.data"):
        logging.getLogger(name).setLevel(logging.ERROR)
    context = ray.data.DataContext.get_current()
    context.execution_options.preserve_order = True
    context.enable_progress_bars = False


def _check_port(address: str) -> None:
    """Check that something listens at an address such as ``10.0.0.1:6379``: Ray would try for minutes.

    Raises:
        OSError: nothing does.
    """
    host, _, port = address.rpartition(":")
    if host and "/" not in host and port.isascii() and port.isdecimal() and len(port) <= LONGEST_PORT:
        socket.create_connection((host.strip("[]"), min(int(port), LAST_PORT)), CONNECT_TIMEOUT).close()


class FleetSource(Datasource):  # type: ignore[misc]  # Ray is not installed where types are checked
    """The parts of a fleet as a source of Ray Data, a task for each; a row has a document or a deployment."""

    def __init__(self, parts: list[Part | ReadEntries]) -> None:
        self._parts = parts

    def estimate_inmemory_data_size(self) -> int | None:
        """``None``, because the size is not known."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """A task for each part, however many run at once."""
        del parallelism
        metadata = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        return [ReadTask(partial(_read, part), metadata) for part in self._parts]


def _read(part: Part | ReadEntries) -> Iterable[pa.Table]:
    if isinstance(part, ReadEntries):
        return [pa.table({"file": [""], "document": [pickle.dumps(part.entries)]})]
    documents = [pickle.dumps(document) for document in documents_in(part.split)]
    return [pa.table({"file": [part.shown] * len(documents), "document": pa.array(documents, pa.binary())})]


def _results(
    parts: list[Part | ReadEntries], work: ClusterJob, ignored: list[str]
) -> Iterator[tuple[FleetEntry, ImpactResult]]:
    try:
        yield from _decided(parts, work, ignored)
    except ray.exceptions.RayTaskError as error:
        if not isinstance(error.cause, OSError):
            raise
        fail(USAGE, f"--ray: a worker cannot read a file: {error.cause}; name paths that all machines have")
    finally:
        ray.shutdown()


def _decided(
    parts: list[Part | ReadEntries], work: ClusterJob, ignored: list[str]
) -> Iterator[tuple[FleetEntry, ImpactResult]]:
    if not parts:
        return
    fleet = ray.data.read_datasource(FleetSource(parts), override_num_blocks=len(parts))
    compared = fleet.map_batches(partial(_compare, ray.put(work)), batch_size=None, batch_format="pyarrow")
    for batch in compared.iter_batches(batch_size=None, batch_format="pyarrow"):
        for row in batch.to_pylist():
            ignored += row["ignored"]
            yield from pickle.loads(row["results"])  # noqa: S301  # from a task of this program


_worker: dict[str, tuple[ClusterJob, Policy, Run[Request, ImpactResult]]] = {}
"""The job of this process of the cluster, by its reference."""


def _compare(reference: Any, batch: pa.Table) -> pa.Table:
    """The results of documents, as one row."""
    work, policy, run = _started(reference)
    ignored: list[str] = []
    entries = (entry for row in batch.to_pylist() for entry in _entries(row, policy, work.options, ignored))
    results = [
        (entry if work.keeps_requests else replace(entry, request=None), result)
        for entry, result in run.results(entries, request_of)
    ]
    return pa.table({"results": [pickle.dumps(results)], "ignored": pa.array([ignored], pa.list_(pa.string()))})


def _started(reference: Any) -> tuple[ClusterJob, Policy, Run[Request, ImpactResult]]:
    key = reference.hex()
    if key not in _worker:
        work: ClusterJob = ray.get(reference)
        job = work.job
        policy, finder = loaded(job.sources, job.default_release, job.named, job.folder, hub=job.hub)
        _worker.clear()
        _worker[key] = work, policy, Run(job, policy, finder, 1)
    return _worker[key]


def _entries(row: dict[str, Any], policy: Policy, options: FleetOptions, ignored: list[str]) -> Iterable[FleetEntry]:
    document: RawDocument | list[FleetEntry] = pickle.loads(row["document"])  # noqa: S301  # from this program
    if isinstance(document, list):
        return document
    return entries_of(document.found(row["file"]), policy.releases, options, ignored)
