"""The command ``openreports``: the decisions about a cluster's vLLM pods, as OpenReports objects in that cluster."""

from __future__ import annotations

import time
from pathlib import Path  # noqa: TC003  # typer reads the annotations
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer
from cachetools import LRUCache

from policy.cli.commands import command_app
from policy.cli.console import FOUND, USAGE, DefaultOption, RulesOption, err, fail
from policy.cli.fleet import FleetOptions, entries_of
from policy.cli.fleet_sources import Found
from policy.cli.impact_run import read_later_targets
from policy.cli.requests import REMEDIES, FolderOption, HubOption, NearestOption, load_policy, models_of, today
from policy.decision.decision import encode
from policy.errors import RequestInvalid
from policy.escaping import escape_line
from policy.impact.impact import Impact
from policy.openreports import API_VERSION, MANAGED_BY, SOURCE, report_of, results_of, undecided
from policy.problems import request_problem
from policy.rules.loader import default_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from policy.impact.impact import ReleaseComparison
    from policy.policy import Policy
    from service.kubernetes import ClusterApi

app = command_app()
REPORTS: Final = f"/apis/{API_VERSION}"
RUNNING_SELECTOR: Final = "status.phase!=Succeeded,status.phase!=Failed"
MAX_KEPT: Final = 10_000
"""The maximum number of different deployments whose results are cached."""
NOT_FOUND: Final = 404
INSTALL: Final = "the cluster has no kind `Report` of openreports.io; install OpenReports, or print without `--write`"


@app.command()
def openreports(
    context: typer.Context,
    namespaces: Annotated[
        list[str] | None,
        typer.Option("--namespace", "-n", help="Only the pods of this namespace; may be repeated.  [default: all]"),
    ] = None,
    to: Annotated[
        list[str] | None,
        typer.Option("--to", metavar="VERSION", help="Also report what changes in this release; may be repeated."),
    ] = None,
    write: Annotated[  # noqa: FBT002  # a typer flag
        bool, typer.Option("--write", help="Write the reports into the cluster, instead of printing them.")
    ] = False,
    address: Annotated[
        str | None,
        typer.Option("--api", metavar="URL", help="The API server.  [default: that of the cluster this runs in]"),
    ] = None,
    token_file: Annotated[
        Path | None, typer.Option("--token-file", metavar="FILE", help="The file with the token.  [default: the pod's]")
    ] = None,
    ca_file: Annotated[
        Path | None, typer.Option("--ca-file", metavar="FILE", help="The CA of the API server.  [default: the pod's]")
    ] = None,
    rules: RulesOption = None,
    default_release: DefaultOption = None,
    nearest: NearestOption = False,  # noqa: FBT002  # a typer flag
    model_folder: FolderOption = None,
    hub: HubOption = False,  # noqa: FBT002  # a typer flag
) -> None:
    """Report the decisions about all vLLM pods of a cluster as OpenReports objects, one for each pod.

    Exits with 1 if a report could not be written. Examples: `runner-policy openreports --write --hub`, and on your own
    machine `kubectl proxy & runner-policy openreports --api http://127.0.0.1:8001`
    """
    from service.kubernetes import ClusterApi, ClusterFailed  # noqa: PLC0415  # other commands need no HTTP

    models = models_of([], context, hub=hub, folder=model_folder)
    _, policy = load_policy(rules or default_folder(), default_release, models.find, compile_all=False)
    targets = read_later_targets(policy.releases, None, to or [])
    reporter = Reporter(policy, Impact(policy, targets, today(), from_own=True, remedies=REMEDIES), nearest=nearest)
    failed: list[str] = []
    try:
        api = ClusterApi(address, token_file, ca_file)
        written: set[tuple[str, str]] = set()
        is_installed = False
        for pod in _pods(api, namespaces or []):
            report = reporter.report(pod)
            if report is None:
                continue
            place = report["metadata"]["namespace"], report["metadata"]["name"]
            written.add(place)
            if not write:
                typer.echo(encode(report).decode())
                continue
            try:
                _apply(api, report)
            except ClusterFailed as error:
                if error.status != NOT_FOUND:
                    failed.append(str(error))
                    continue
                is_installed = is_installed or _has_reports(api, namespaces or [])
                if not is_installed:
                    fail(USAGE, INSTALL)
                written.discard(place)  # its namespace was deleted after the pods were listed
        if write:
            failed += _delete_others(api, namespaces or [], written)
    except ClusterFailed as error:
        fail(USAGE, escape_line(str(error)))
    for message in failed:
        err.print(escape_line(message), markup=False)
    err.print(f"{len(written):,} vLLM pods{', reports written' if write else ''}", markup=False)
    raise typer.Exit(FOUND if failed else 0)


class Reporter:
    """Makes the reports of pods; equal engines are decided once."""

    def __init__(self, policy: Policy, impact: Impact, *, nearest: bool) -> None:
        self._policy, self._impact = policy, impact
        self._options = FleetOptions(nearest=nearest, remedies=REMEDIES)
        self._kept: LRUCache[bytes, ReleaseComparison] = LRUCache(MAX_KEPT)
        self._seconds = int(time.time())

    def report(self, pod: dict[str, Any]) -> dict[str, Any] | None:
        """The report of a pod; ``None`` if it has no vLLM engine."""
        metadata = pod.get("metadata")
        if not isinstance(metadata, dict) or not all(
            isinstance(metadata.get(each), str) for each in ("name", "namespace", "uid")
        ):
            return None
        document = {"apiVersion": "v1", "kind": "Pod", **pod}
        name = f"{metadata['namespace']}/{metadata['name']}"
        found = Found(name, document)
        results: list[dict[str, Any]] = []
        for entry in entries_of(found, self._policy.releases, self._options, []):
            container = entry.name.rpartition("/")[2]
            if isinstance(entry.request, RequestInvalid):
                message = request_problem(entry.request, remedies=REMEDIES).detail
                results.append(undecided(container, message, self._seconds))
                continue
            key = self._impact.key(entry.request)
            if key not in self._kept:
                self._kept[key] = self._impact.compare(entry.request)
            results += results_of(container, self._kept[key], self._policy.revision, self._seconds)
        return report_of(document, results) if results else None


def _pods(api: ClusterApi, namespaces: Sequence[str]) -> Iterator[dict[str, Any]]:
    """The pods that run or will run."""
    from service.kubernetes import segment  # noqa: PLC0415  # other commands need no HTTP

    for path in [f"/api/v1/namespaces/{segment(each)}/pods" for each in namespaces] or ["/api/v1/pods"]:
        yield from api.items(path, fieldSelector=RUNNING_SELECTOR)


def _path(namespace: str, name: str = "") -> str:
    from service.kubernetes import segment  # noqa: PLC0415  # as above

    path = f"{REPORTS}/namespaces/{segment(namespace)}/reports"
    return f"{path}/{segment(name)}" if name else path


def _has_reports(api: ClusterApi, namespaces: Sequence[str]) -> bool:
    """Whether the cluster has the kind of the reports.

    Raises:
        ClusterFailed: the server refuses the request, for another reason than that it has no such kind.
    """
    from service.kubernetes import ClusterFailed  # noqa: PLC0415  # as above

    path = _path(namespaces[0]) if namespaces else f"{REPORTS}/reports"
    try:
        api.send("GET", f"{path}?limit=1")
    except ClusterFailed as error:
        if error.status != NOT_FOUND:
            raise
        return False
    return True


def _apply(api: ClusterApi, report: dict[str, Any]) -> None:
    metadata = report["metadata"]
    api.apply(_path(metadata["namespace"], metadata["name"]), report)


def _delete_others(api: ClusterApi, namespaces: Sequence[str], written: set[tuple[str, str]]) -> list[str]:
    """Delete the earlier reports of pods that no longer run vLLM; return the errors of those that remain."""
    from service.kubernetes import ClusterFailed  # noqa: PLC0415  # as above

    failed = []
    paths = [_path(each) for each in namespaces] or [f"{REPORTS}/reports"]
    for path in paths:
        for report in [*api.items(path, labelSelector=f"{MANAGED_BY}={SOURCE}")]:
            metadata = report.get("metadata") or {}
            place = str(metadata.get("namespace")), str(metadata.get("name"))
            if place in written:
                continue
            try:
                api.delete(_path(*place))
            except ClusterFailed as error:
                failed.append(str(error))
    return failed
