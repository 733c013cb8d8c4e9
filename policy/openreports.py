"""Decisions about a pod's engines as an OpenReports ``Report`` (openreports.io/v1alpha1).

Owns the fields of the object, and the result that a decision becomes. Not here: how it is written to a cluster.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.escaping import escape_line
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import MEANINGS, STOPS, ChangeKind
from policy.rules.known_problems import Symptom

if TYPE_CHECKING:
    from collections.abc import Iterable

    from policy.impact.impact import ReleaseComparison

API_VERSION: Final = "openreports.io/v1alpha1"
SOURCE: Final = "runner-policy"
POLICY: Final = "model-runner"
CATEGORY: Final = "vLLM model runner"
MANAGED_BY: Final = "app.kubernetes.io/managed-by"
MAX_MESSAGE: Final = 1_024
PASS, FAIL, WARN, ERROR = "pass", "fail", "warn", "error"
RESULTS: Final = (PASS, FAIL, WARN, ERROR, "skip")
SEVERITIES: Final = {
    Symptom.NO_START: "critical",
    Symptom.CRASH: "high",
    Symptom.OUT_OF_MEMORY: "high",
    Symptom.WRONG_OUTPUT: "high",
    Symptom.IGNORED: "medium",
    Symptom.REFUSED_REQUEST: "medium",
    Symptom.SLOW: "low",
}
HARMLESS_CHANGES: Final = frozenset({ChangeKind.START, ChangeKind.REASONS})


def report_of(pod: dict[str, Any], results: list[dict[str, Any]]) -> dict[str, Any]:
    """The report of a pod, which owns it: the cluster deletes it with the pod."""
    metadata = pod["metadata"]
    reference = {"apiVersion": "v1", "kind": "Pod", "name": metadata["name"], "uid": metadata["uid"]}
    return {
        "apiVersion": API_VERSION,
        "kind": "Report",
        "metadata": {
            "name": name_of(pod),
            "namespace": metadata["namespace"],
            "labels": {MANAGED_BY: SOURCE},
            "ownerReferences": [reference],
        },
        "source": SOURCE,
        "scope": {**reference, "namespace": metadata["namespace"]},
        "summary": {name: sum(each["result"] == name for each in results) for name in RESULTS},
        "results": results,
    }


def name_of(pod: dict[str, Any]) -> str:
    """The name of a pod's report; a pod of the same name that comes later has another."""
    return f"{SOURCE}-{pod['metadata']['uid']}"


def results_of(container: str, found: ReleaseComparison, revision: str, seconds: int) -> list[dict[str, Any]]:
    """The results of an engine: whether it starts, its known problems, and what later releases change."""
    (release, now), *_ = found.releases.items()
    if isinstance(now, Undecided):
        return [undecided(container, now.problem.detail, seconds)]
    properties = {
        "container": container,
        "vllm_version": release,
        "runner": now.runner or "",
        "outcome": now.outcome or "",
        "revision": revision,
    }
    results = [_start(now), *_followed(now), *_problems(now), *_changes(found)]
    return [_complete(each, properties, seconds) for each in results]


def undecided(container: str, message: str, seconds: int) -> dict[str, Any]:
    """The result of an engine that cannot be decided."""
    return _complete(_result("starts", ERROR, "medium", message), {"container": container}, seconds)


def _start(now: ReleaseAnswer) -> dict[str, Any]:
    decisive = "; ".join(each.message for each in now.reasons if each.decisive)
    if now.starts:
        shown = "a runner of its own" if now.runner is None else now.runner.upper()
        return _result("starts", PASS, "info", f"{shown}: {decisive}")
    return _result("starts", FAIL, "critical", "; ".join([*now.launch_errors, *now.startup_errors]))


def _followed(now: ReleaseAnswer) -> Iterable[dict[str, Any]]:
    if now.set_env:
        what = " ".join(f"{name}={value}" for name, value in now.set_env.items())
        yield _result("follows-policy", FAIL, "medium", f"vLLM alone does not do as decided; set {what}")


def _problems(now: ReleaseAnswer) -> Iterable[dict[str, Any]]:
    for each in now.known_problems:
        severity = SEVERITIES[Symptom(each.symptom)]
        yield _result(each.rule, WARN, severity, f"known problem: {each.symptom} ({each.certainty})")


def _changes(found: ReleaseComparison) -> Iterable[dict[str, Any]]:
    """What each later release changes, compared with the one before."""
    steps = {change.to: change for change in found.changes}
    for release in [*found.releases][1:]:
        change = steps.get(release)
        rule = f"upgrade-{release}"
        if change is None or change.kind in HARMLESS_CHANGES:
            yield _result(rule, PASS, "info", f"{release} changes neither the runner nor the start")
        elif change.kind is ChangeKind.UNDECIDED:
            yield _result(rule, ERROR, "medium", MEANINGS[change.kind])
        else:
            stops = change.kind in STOPS
            why = "; ".join([*change.launch_errors.new, *change.startup_errors.new]) or ", ".join(change.rules)
            text = f"{MEANINGS[change.kind]}: {why}"
            yield _result(rule, FAIL if stops else WARN, "critical" if stops else "medium", text)


def _result(rule: str, result: str, severity: str, message: str) -> dict[str, Any]:
    return {"rule": rule, "result": result, "severity": severity, "message": escape_line(message)[:MAX_MESSAGE]}


def _complete(result: dict[str, Any], properties: dict[str, str], seconds: int) -> dict[str, Any]:
    return {
        "source": SOURCE,
        "policy": POLICY,
        "category": CATEGORY,
        **result,
        "scored": True,
        "timestamp": {"seconds": seconds, "nanos": 0},
        "properties": properties,
    }
