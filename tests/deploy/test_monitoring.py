"""Alerts and dashboard.

Every expression is PromQL over metrics of the service, and every alert has cases and a section in the runbook.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any, Final

import promql_parser
import pytest
import yaml
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.cog.plugins import register_default_plugins
from grafana_foundation_sdk.models.dashboard import Dashboard
from tables import table

from service.telemetry.metrics import DURATION, FAMILIES

ROOT: Final = Path(__file__).resolve().parents[2]
MONITORING: Final = ROOT / "deploy/monitoring"
OPERATIONS: Final = ROOT / "docs/operations.md"

METRICS: Final[dict[str, tuple[str, ...]]] = {
    "runner_policy_decisions_total": ("runner", "outcome", "vllm_version"),
    "runner_policy_decision_duration_seconds": (),
    "runner_policy_requests_total": ("path", "status"),
    "runner_policy_rule_matches_total": ("rule",),
    "runner_policy_reloads_total": ("result",),
    "runner_policy_last_reload_successful": (),
    "runner_policy_last_reload_success_timestamp_seconds": (),
    "runner_policy_info": ("version", "revision"),
    "runner_policy_workers": (),
    "runner_policy_run_folder_usable": (),
    "runner_policy_overdue_rules": (),
    "runner_policy_ended_rules": (),
    "runner_policy_next_rule_end_timestamp_seconds": (),
    "runner_policy_log_queue_records": (),
    "runner_policy_log_written_total": (),
    "runner_policy_log_spilled_total": (),
    "runner_policy_log_spill_bytes": (),
    "runner_policy_log_dropped_total": (),
    "runner_policy_internal_errors_total": (),
    "runner_policy_log_lost_files_total": (),
    "runner_policy_log_lost_file_records_total": (),
    "runner_policy_log_stdout_dropped_total": (),
    "runner_policy_log_store_up": (),
    "runner_policy_admission_reviews_total": ("call", "result"),
    "runner_policy_access_denied_total": ("reason",),
}
"""The metrics that alerts and dashboard may read, with their labels."""
HISTOGRAMS: Final = {"runner_policy_decision_duration_seconds": ("_bucket", "_sum", "_count")}
SCRAPED: Final[dict[str, tuple[str, ...]]] = {"up": ()}
"""The metrics that Prometheus adds for a target."""
TARGET: Final = {"job", "instance", "namespace"}
COUNTED: Final = ("_total", "_bucket", "_sum", "_count")
OVER_TIME: Final = {"rate", "increase", "resets", "changes"}

ALERTS: Final = [
    rule for group in yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"] for rule in group["rules"]
]
CASES: Final = yaml.load((MONITORING / "alerts_test.yaml").read_text(), yaml.CSafeLoader)
DASHBOARD: Final[dict[str, Any]] = json.loads((MONITORING / "dashboard.json").read_text())
PANELS: Final = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]


def readable() -> dict[str, tuple[str, ...]]:
    """Every name that an expression may select, with its labels."""
    found = dict(SCRAPED)
    for name, labels in METRICS.items():
        if name in HISTOGRAMS:
            found |= {
                name + suffix: (*labels, *(("le",) if suffix == "_bucket" else ())) for suffix in HISTOGRAMS[name]
            }
        else:
            found[name] = labels
    return found


def expressions() -> dict[str, str]:
    """Every expression of alerts and dashboard, by its position; Grafana's own intervals are five minutes."""
    found = {f"alert {rule['alert']}": rule["expr"] for rule in ALERTS}
    found |= {
        f"panel {panel['title']} {target['refId']}": target["expr"] for panel in PANELS for target in panel["targets"]
    }
    found |= {f"annotation {each['name']}": each["expr"] for each in DASHBOARD["annotations"]["list"] if "expr" in each}
    return {
        position: text.replace("$__rate_interval", "5m").replace("$__range", "6h") for position, text in found.items()
    }


def parts(text: str) -> list[Any]:
    """Each expression within an expression."""
    found: list[Any] = []
    assert promql_parser.walk(promql_parser.parse(text), found.append) is True
    return found


def selectors(text: str) -> list[Any]:
    """Each plain selector, also those within ranges."""
    return [part for part in parts(text) if isinstance(part, promql_parser.VectorSelector)]


def kept_labels(text: str) -> set[str]:
    """The labels that an expression keeps by its outermost `by (…)`."""
    found = [
        part.modifier.labels
        for part in parts(text)
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None
    ]
    return set(found[0]) if found else TARGET


# expressions


def test_the_service_has_these_metrics() -> None:
    served = {
        f"{name}_total" if family.kind == "counter" else name: family.labels for name, family in FAMILIES.items()
    } | {DURATION: ()}
    assert METRICS.items() <= served.items()


@table("position", expressions())
def test_every_expression_reads_existing_metrics(position: str) -> None:
    text = expressions()[position]
    for selector in selectors(text):
        assert selector.name in readable()
        assert {matcher.name for matcher in selector.matchers.matchers} <= {*readable()[selector.name], *TARGET}
    labels = {label for selector in selectors(text) for label in readable()[selector.name]}
    for part in parts(text):
        if isinstance(part, promql_parser.AggregateExpr) and part.modifier is not None:
            assert set(part.modifier.labels) <= labels | TARGET


@table("position", expressions())
def test_counters_are_read_over_time_and_gauges_directly(position: str) -> None:
    for part in parts(expressions()[position]):
        if isinstance(part, promql_parser.Call):
            over = [argument for argument in part.args if isinstance(argument, promql_parser.MatrixSelector)]
            names = [str(argument.vector_selector.name) for argument in over]
            if part.func.name in {"rate", "increase", "resets"}:
                assert all(name.endswith(COUNTED) for name in names)
            assert not over or part.func.name in OVER_TIME
    # a range contains its selector, so each counter occurs as often plain as in a range
    found = [str(selector.name) for selector in selectors(expressions()[position])]
    within = [
        part.vector_selector.name
        for part in parts(expressions()[position])
        if isinstance(part, promql_parser.MatrixSelector)
    ]
    for name in found:
        assert not name.endswith(COUNTED) or found.count(name) == within.count(name), name


def test_every_metric_is_shown() -> None:
    shown = {
        selector.name
        for panel in PANELS
        for target in panel["targets"]
        for selector in selectors(expressions()[f"panel {panel['title']} {target['refId']}"])
    }
    assert {name for name in METRICS if name not in HISTOGRAMS} <= shown
    assert {f"{name}_bucket" for name in HISTOGRAMS} <= shown


# alerts


@table("rule", ALERTS, ids=lambda rule: rule["alert"])
def test_an_alert_has_a_description_and_a_link_to_its_runbook(rule: dict[str, Any]) -> None:
    name = rule["alert"]
    assert re.fullmatch(r"RunnerPolicy[A-Z][A-Za-z]+", name)
    assert rule["labels"] in ({"severity": "critical"}, {"severity": "warning"}, {"severity": "info"})
    assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}
    assert rule["annotations"]["runbook_url"] == f"docs/operations.md#{name.lower()}"
    assert "{{" not in rule["annotations"]["summary"]
    labels = set(re.findall(r"\$labels\.(\w+)", rule["annotations"]["description"]))
    assert labels <= kept_labels(rule["expr"])


def test_names_of_alerts_are_unique() -> None:
    names = [rule["alert"] for rule in ALERTS]
    assert len(names) == len(set(names))


@table("name", [rule["alert"] for rule in ALERTS])
def test_the_runbook_has_the_alert(name: str) -> None:
    headings = re.findall(r"^#+ +`?(\w+)`?\s*$", OPERATIONS.read_text(), re.MULTILINE)
    assert name.lower() in {heading.lower() for heading in headings}


@table("name", [rule["alert"] for rule in ALERTS])
def test_an_alert_has_a_case_that_fires_and_one_that_does_not(name: str) -> None:
    fires = {
        bool(case["exp_alerts"])
        for test in CASES["tests"]
        for case in test["alert_rule_test"]
        if case["alertname"] == name
    }
    assert fires == {True, False}


def test_every_case_names_an_alert() -> None:
    assert {case["alertname"] for test in CASES["tests"] for case in test["alert_rule_test"]} == {
        rule["alert"] for rule in ALERTS
    }


@pytest.mark.parametrize(
    "arguments", [("check", "rules", "alerts.yaml"), ("test", "rules", "alerts_test.yaml")], ids=" ".join
)
def test_promtool_accepts_the_alerts(arguments: tuple[str, ...]) -> None:
    promtool = shutil.which("promtool")
    if promtool is None:
        pytest.skip("promtool is not installed; deploy/check fetches it")
    done = subprocess.run(
        [promtool, *arguments], cwd=MONITORING, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_prometheusrule_has_the_alerts() -> None:
    """Update it: deploy/monitoring/prometheusrule > deploy/kustomize/components/monitoring/prometheusrule.yaml."""
    made = subprocess.run(
        [str(MONITORING / "prometheusrule")], capture_output=True, text=True, timeout=60, check=True
    ).stdout
    assert made == (ROOT / "deploy/kustomize/components/monitoring/prometheusrule.yaml").read_text()
    assert yaml.safe_load(made)["spec"] == yaml.safe_load((MONITORING / "alerts.yaml").read_text())


# dashboard

UNKNOWN: Final = {"definition", "titleFormat", "step"}
"""Fields that Grafana writes and its own types lack."""


def lost(written: Any, read: Any, position: str = "") -> list[str]:
    """The pointers of values that are lost by reading and writing."""
    if isinstance(written, dict) and isinstance(read, dict):
        return [
            fault
            for name, value in written.items()
            if name not in UNKNOWN
            for fault in (lost(value, read[name], f"{position}/{name}") if name in read else [f"{position}/{name}"])
        ]
    if isinstance(written, list) and isinstance(read, list) and len(written) == len(read):
        return [
            fault
            for number, pair in enumerate(zip(written, read, strict=True))
            for fault in lost(*pair, f"{position}/{number}")
        ]
    return [] if written == read else [position]


def test_grafana_s_types_have_every_field_of_the_dashboard() -> None:
    register_default_plugins()
    assert lost(DASHBOARD, json.loads(JSONEncoder().encode(Dashboard.from_json(DASHBOARD)))) == []


def test_the_dashboard_can_be_imported_anywhere() -> None:
    assert DASHBOARD["uid"] == "runner-policy"
    assert "id" not in DASHBOARD
    assert DASHBOARD["schemaVersion"] == 42
    variables = {variable["name"]: variable for variable in DASHBOARD["templating"]["list"]}
    assert set(variables) == {"datasource", "job", "instance"}
    assert variables["datasource"]["query"] == "prometheus"
    source = {"type": "prometheus", "uid": "${datasource}"}
    assert all(each["datasource"] == source for panel in PANELS for each in (panel, *panel["targets"]))


def test_every_panel_follows_the_variables() -> None:
    for position, text in expressions().items():
        if not position.startswith("alert"):
            assert (
                text.count("{") - text.count("{{") == text.count('job=~"$job"') == text.count('instance=~"$instance"')
            ), position


def test_panels_do_not_overlap() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in DASHBOARD["panels"]:
        grid = panel["gridPos"]
        cells = {
            (x, y) for x in range(grid["x"], grid["x"] + grid["w"]) for y in range(grid["y"], grid["y"] + grid["h"])
        }
        assert grid["x"] + grid["w"] <= 24
        assert not cells & taken, panel["title"]
        taken |= cells
    ids = [panel["id"] for panel in DASHBOARD["panels"]]
    assert len(ids) == len(set(ids))


def test_legends_use_labels_that_are_kept() -> None:
    for panel in PANELS:
        for target in panel["targets"]:
            used = set(re.findall(r"\{\{\s*(\w+)\s*\}\}", target["legendFormat"]))
            text = expressions()[f"panel {panel['title']} {target['refId']}"]
            labels = {
                label
                for part in parts(text)
                if isinstance(part, promql_parser.AggregateExpr) and part.modifier
                for label in part.modifier.labels
            }
            assert used <= labels, panel["title"]


def test_the_dashboard_has_these_rows() -> None:
    rows = [panel["title"] for panel in DASHBOARD["panels"] if panel["type"] == "row"]
    assert rows == [
        "Overview",
        "Decisions",
        "Latency",
        "Errors",
        "Rules and reloads",
        "Decision log",
        "Admission",
        "Access",
    ]
