"""The metrics at /metrics count all requests, from every process, even after it has ended."""

from __future__ import annotations

import os
import re
import shutil
import signal
import tomllib
from typing import TYPE_CHECKING, Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .conftest import QWEN, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DECISIONS = 'runner_policy_requests_total{path="/v1/decisions",status="200"}'
BATCHES = 'runner_policy_requests_total{path="/v1/decisions/batch",status="200"}'
COUNT = "runner_policy_decision_duration_seconds_count"


def decisions(metrics: dict[str, float]) -> float:
    return sum(number for name, number in metrics.items() if name.startswith("runner_policy_decisions_total"))


def test_known_series_exist_from_the_start(serve: Callable[..., Any]) -> None:
    with serve() as service:
        metrics = service.metrics()
    zero = {name for name, number in metrics.items() if number == 0 and "_bucket" not in name}
    denied = ("no-token", "unknown-token", "scope", "rate", "connections", "host", "origin")
    reasons = {f'runner_policy_access_denied_total{{reason="{reason}"}}' for reason in denied}
    reloads = {f'runner_policy_reloads_total{{result="{result}"}}' for result in ("accepted", "rejected")}
    reviews = {
        f'runner_policy_admission_reviews_total{{call="{call}",result="{result}"}}'
        for call in ("validate", "mutate")
        for result in ("allowed", "warned", "denied", "patched", "undecided", "ignored")
    }
    assert reasons | reloads | reviews | {DECISIONS, COUNT} <= zero
    assert metrics["runner_policy_workers"] == 1


def test_unknown_paths_share_one_series(shared: Callable[..., Any]) -> None:
    paths = [
        "/v1/rules/any",
        "/v1/rules/other",
        "/v1/rules/a/b",
        "/x",
        "/y/z",
        "//",
        "/%2F",
        "/v1/decisions/x",
        "/docs/static/a",
        "/docs/static/b",
        "/v1/%2e%2e/x",
        "/V1/policy",
    ]
    with shared("open") as service, service.client() as client:
        before = service.metrics()
        for path in paths:
            # as it is: httpx would make `/` of `//`
            assert client.get("/", extensions={"target": path.encode()}).status_code == 404
        client.get("/v1/decisions")
        client.delete("/v1/policy")
        client.post("/v1/decisions", json=QWEN)
        client.post("/v1/decisions", content=b"{")
        client.post("/v1/decisions/batch", json={"items": []})
        names = {
            name: number
            for name, number in service.metrics_since(before).items()
            if number and name.startswith("runner_policy_requests_total")
        }
        families = list(text_string_to_metric_families(client.get("/metrics").text))
    del names['runner_policy_requests_total{path="/metrics",status="200"}']  # counted before
    counted = {
        (path, status): number
        for name, number in names.items()
        for path, status in re.findall(r'path="([^"]*)",status="([^"]*)"', name)
    }
    assert counted == {
        ("/v1/rules/{rule_id}", "404"): 2,
        ("/docs/static", "404"): 2,
        ("other", "404"): 8,
        ("/v1/decisions", "405"): 1,
        ("/v1/policy", "405"): 1,
        ("/v1/decisions", "200"): 1,
        ("/v1/decisions", "400"): 1,
        ("/v1/decisions/batch", "200"): 1,
    }
    assert {family.name.startswith("runner_policy_") for family in families} == {True}


def sums_of(metrics: dict[str, float]) -> list[float]:
    """Metrics summed over the workers; one that does not exist yet counts as 0."""
    return [
        metrics[DECISIONS],
        metrics[COUNT],
        decisions(metrics),
        metrics["runner_policy_workers"],
        metrics.get(BATCHES, 0),
    ]


@pytest.mark.slow
def test_either_worker_reports_the_requests_of_both_and_nothing_is_lost_if_one_is_killed(
    serve: Callable[..., Any],
) -> None:
    with serve("--workers", "2") as service:
        pids = service.workers()
        clients = service.client_of_each()
        sent = 0
        for number, client in enumerate(clients.values(), 1):
            for _ in range(number * 10):
                sent += client.post("/v1/decisions", json=QWEN).status_code == 200
            client.post("/v1/decisions/batch", json={"items": [QWEN] * 5})
        for client in clients.values():

            def read(client: Any = client) -> dict[str, float]:
                lines = client.get("/metrics").text.splitlines()
                return {
                    name: float(number)
                    for name, _, number in (line.rpartition(" ") for line in lines if not line.startswith("#"))
                }

            # The other worker writes its snapshot at intervals.
            until(lambda read: sums_of(read()) == [sent, sent, sent + 10, 2, 2], read)
        os.kill(pids[0], signal.SIGKILL)
        until(lambda: service.times_ready() >= 3)
        until(lambda: service.metrics()["runner_policy_workers"] == 2)
        assert sums_of(service.metrics())[:3] == [sent, sent, sent + 10]
        with service.client() as client:
            client.post("/v1/decisions", json=QWEN)
        until(lambda: service.metrics()[DECISIONS] == sent + 1)


@pytest.mark.slow
def test_a_counter_never_decreases_from_one_worker_to_the_other(shared: Callable[..., Any]) -> None:
    with shared("two-workers") as service:
        first = service.metrics()[DECISIONS]
        one, other = service.client_of_each().values()
        last = 0.0
        for number in range(60):
            (one, other)[number % 2].post("/v1/decisions", json=QWEN)
            text = (one, other)[number // 2 % 2].get("/metrics").text
            found = float(re.search(r'path="/v1/decisions",status="200"\} (\S+)', text)[1])  # type: ignore[index]  # the series exists from the start
            assert found >= last
            last = found
        until(lambda: service.metrics()[DECISIONS] == first + 60)


def test_the_loaded_revision_and_the_version_of_pyproject_toml_are_reported(
    shared: Callable[..., Any], root: Path
) -> None:
    with shared("open") as service:
        revision = service.revision()
        (info,) = (series for series in service.metrics() if series.startswith("runner_policy_info"))
    version = tomllib.loads((root / "pyproject.toml").read_text())["project"]["version"]
    assert info == f'runner_policy_info{{revision="{revision}",version="{version}"}}'


def test_metrics_are_answered_after_the_shared_folder_was_deleted(serve: Callable[..., Any], tmp_path: Path) -> None:
    with serve() as service:
        for folder in (tmp_path / "tmp").glob("runner-policy-*"):
            shutil.rmtree(folder)
        assert service.metrics()["runner_policy_workers"] == 1
