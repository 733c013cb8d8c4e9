"""The meaning of each field of a typed answer, by schema and field."""

from __future__ import annotations

from typing import Final

RUNNER: Final = (
    "the runner; `null` if neither of vLLM's is used (`not-applicable`), or the configuration cannot be read"
)
OUTCOME: Final = (
    "the kind of step that chose the runner, or `not-applicable`; `null` if the configuration cannot be read"
)
STARTS: Final = "whether vLLM starts, as far as is known here"
RULE: Final = "the rule's id"
REVISION: Final = "a digest of the rule files, the `ETag` of `GET /v1/policy`"
CURRENT: Final = "the decision by the loaded rules"
CANDIDATE: Final = "the decision by the candidate rules, which has no record in the log"

VERDICT: Final = "what becomes of the request: the worst of the findings"
FINDINGS: Final = "every rule that fired, the worst first; vLLM shows only the first that it comes to"

FIELDS: Final[dict[str, dict[str, str]]] = {
    "RequestCheck": {
        "request_id": "as sent, else `null`",
        "runner": RUNNER,
        "verdict": VERDICT,
        "starts": "whether the engine starts at all with this deployment",
        "findings": FINDINGS,
        "alternative": "what the other runner does with the request; `null` if there is none",
        "warnings": "what may happen though it is not certain",
        "vllm_version": "the requested version, or the default release",
        "release": "the known release whose rules decided",
        "policy": "the rules that decided",
    },
    "RunnerCheck": {"runner": RUNNER, "verdict": VERDICT, "findings": FINDINGS},
    "Finding": {
        "rule": RULE,
        "parameter": "the parameter that the finding is about",
        "verdict": "what becomes of the request because of it",
        "message": "vLLM's own text if it refuses the request or ends, otherwise what happens",
        "remedy": "what to do; `null` if there is nothing",
        "fixed_in": "the release that has the fix; `null` if there is none",
        "references": "vLLM's code, or where it is discussed",
    },
    "EngineChecks": {
        "items": "the engines, in the order of the manifest",
        "ignored": "objects in which nothing that starts vLLM was found; left out if there are none",
    },
    "EngineCheck": {
        "path": "the engine's path in the manifest",
        "kind": "its object's kind; `null` if it has none",
        "namespace": "its object's namespace; `null` if it has none",
        "name": "its object's name; `null` if it has none",
        "check": "what becomes of the request",
        "problem": "in its place: why the engine cannot be checked",
    },
    "ReleaseAnswer": {
        "runner": RUNNER,
        "outcome": OUTCOME,
        "starts": STARTS,
        "startup_errors": "every message with which vLLM would refuse to start, in the order of its checks",
        "launch_errors": "why vLLM ends before it chooses the runner, such as a flag that the release does not have",
        "unsupported_features": "what V2 does not support here, in vLLM's wording and order",
        "v1_unsupported_features": "what V1 does not support here, in vLLM's wording and order",
        "reasons": "every rule that fired, by precedence",
        "refusals": "the rules of the `startup_errors`",
        "known_problems": "what is known to go wrong with the decided runner, the worst first",
        "set_env": "the variable to set so that vLLM does as decided; empty if it does so anyway",
    },
    "UndecidedRelease": {"problem": "why this release cannot decide the deployment"},
    "ReasonSummary": {"rule": RULE, "decisive": "whether it made the decision", "message": "what it says here"},
    "KnownProblemSummary": {
        "rule": RULE,
        "symptom": "what goes wrong",
        "certainty": "how certain it is",
    },
    "ReleaseChange": {
        "from": "the release before",
        "to": "the release after",
        "kind": "the first kind that fits, the worst first",
        "runner": "before and after; `null` for an own runner, and if it is undecided",
        "starts": "whether vLLM starts, before and after; `null` if it is undecided",
        "rules": "the rules that make the change",
        "reasons": "rules that fire after and not before, or before and not after",
        "known_problems": "the rules of known problems after and not before, or before and not after",
        "startup_errors": "messages after and not before, or before and not after",
        "launch_errors": "messages after and not before, or before and not after",
        "set_env": "the variable to set, before and after",
    },
    "AddedAndRemoved": {"new": "only after the change", "gone": "only before the change"},
    "ImpactCounts": {
        "deployments": "all of them: the sum of `undecided`, `unchanged` and all `kinds`",
        "undecided": "those that no release can decide",
        "unchanged": "those without a change",
        "kinds": "those with a change, by its kind, the worst first; each deployment counts once, by its worst change",
        "releases": "what each release does with how many, without those that no release can decide",
    },
    "ReleaseCounts": {
        "v1": "start with V1",
        "v2": "start with V2",
        "own": "start with a runner of their own",
        "no_start": "do not start",
        "undecided": "cannot be decided for this release",
    },
    "IgnoredEntry": {
        "place": "where it is in the request",
        "kind": "the object's kind; `null` if it has none",
        "namespace": "the object's namespace; `null` if it has none",
        "name": "the object's name; `null` if it has none",
    },
    "DocumentPlace": {
        "pointer": "the JSON pointer of the deployment, or of the engine, in the request",
        "path": "the engine's path in its manifest; left out for other deployments",
    },
    "Decision": {
        "decision_id": "the id of this answer, a UUID of version 7",
        "request_id": "as sent, else `null`",
        "runner": RUNNER,
        "outcome": OUTCOME,
        "starts": "whether vLLM starts: there are no `startup_errors` and no `launch_errors`",
        "startup_errors": "every message with which vLLM would refuse to start, in the order of its checks",
        "launch_errors": "why vLLM ends before it chooses the runner, such as a flag that the release does not have",
        "summary": "one sentence for people",
        "unsupported_features": "what V2 does not support here, in vLLM's wording and order",
        "v1_unsupported_features": "what V1 does not support here, in vLLM's wording and order",
        "reasons": "every rule that fired, by precedence",
        "known_problems": "what is known to go wrong with the decided runner, the worst first",
        "upstream": "vLLM's own decision, without house rules",
        "set_env": "the variable to set so that vLLM does as decided; empty if it does so anyway",
        "warnings": "notes that do not affect the decision",
        "vllm_version": "the requested version, or the default release",
        "release": "the known release whose rules decided",
        "policy": "the rules that decided",
        "without_variable": "if the operator's variable decided: the decision if it were not set",
        "facts": "for a deployment: each derived fact by its flat name",
        "ignored_args": "for a deployment: the arguments that no fact depends on, as written",
        "trace": "with `explain`: each rule of the release, and why it did not fire",
        "assumptions": "with `explain`: each fact that the release reads and the request does not state",
        "alternative": "with `explain`: the other runner, if the variable selected it; `null` if there is none",
        "remedies": "with `explain`: the smallest changes that let vLLM start, give V2 or avoid a known problem",
        "v2_from": "with `explain`: the first later release that gives V2 without a change; otherwise `null`",
        "v2_path": "with `explain`: how a deployment on V1 gets V2 at the newest release; otherwise `null`",
    },
    "Reason": {
        "rule": "the rule's id; `GET /v1/rules/{rule_id}` shows the rule",
        "layer": "the rule's layer",
        "effect": "the rule's effect",
        "decisive": "whether the rule made the decision",
        "feature": "for `exclude-v2` and `exclude-v1`: the feature, in vLLM's wording; else `null`",
        "message": "the rule's message",
        "remedy": "what to change so that the rule does not fire; `null` if there is nothing to do",
        "facts": "the facts that the rule reads, by flat names, with their values",
        "references": "links to the upstream changes and issues behind the rule",
        "owner": "for a house rule: who is responsible for it",
        "review_by": "for a house rule: the date of its review",
        "until": "for a house rule with an end: the last day on which it holds",
        "lifted_in": "with `explain`: the first later release in which the rule does not fire, or `null`",
    },
    "KnownProblem": {
        "rule": "the rule's id; `GET /v1/rules/{rule_id}` shows the rule",
        "runner": "the runner that has the problem; `null` if both have it",
        "symptom": "what a user sees: `no-start`, `crash`, `out-of-memory`, `wrong-output`, `ignored`, "
        "`refused-request` or `slow`, the worst first",
        "certainty": "how it is known: `code` (seen in the release's code), `confirmed` by a maintainer, `reproduced` "
        "by several, or `reported` once",
        "message": "what happens to this deployment",
        "remedy": "what to do about it; `null` if nothing is known",
        "fixed_in": "the release that has the fix; `null` if there is none yet",
        "references": "links to the reports and changes",
    },
    "Remedy": {
        "for": "`start`, `v2`, or the id of the known problem that the changes avoid",
        "change": "the changes, all of which are needed",
        "runner": "the runner with the changes",
        "starts": "whether vLLM starts with the changes",
    },
    "Change": {
        "argument": "the flag to change, or a member of its JSON after a dot",
        "variable": "the variable to change",
        "fact": "the stated fact to change",
        "field": "the field of the request to change: `vllm_version`",
        "at": "the place of the argument",
        "from": "its value now, without secrets",
        "to": "its new value; `null` if it is dropped",
    },
    "V2Path": {
        "release": "the newest known release",
        "by": "`upgrade` if the deployment gets V2 there as it is, `change` if changes are needed, `none` if none help",
        "upgrade_to": "the first later release in which it gets V2 as it is",
        "change": "the smallest changes that give V2 at `release`",
        "removal": "what vLLM said of the end of V1",
    },
    "Removal": {
        "runner": "the runner that ends",
        "deprecated_in": "the release whose notes deprecate it",
        "announced_for": "the release that they name for its removal",
        "why": "what was said, and what became of it",
        "references": "where it was said",
    },
    "OtherRunner": {
        "runner": "the runner that was not decided",
        "starts": STARTS,
        "startup_errors": "every message with which vLLM would refuse to start with it",
        "unsupported_features": "what it does not support here, in vLLM's wording and order",
        "known_problems": "what is known to go wrong with it, the worst first",
    },
    "UpstreamDecision": {
        "runner": RUNNER,
        "outcome": OUTCOME,
        "starts": STARTS,
        "startup_errors": "every message with which vLLM would refuse to start",
    },
    "WithoutVariable": {"runner": RUNNER, "outcome": OUTCOME, "starts": STARTS},
    "DecidingRelease": {
        "decided_as": "the known release whose rules were used",
        "verified": "whether it is the requested version or an official variant of it, or none was requested, "
        "and the deployment shows no other vLLM",
        "defaulted": "whether the request had no version",
        "from": "the row of the table of images that has the version, such as `image llm-d-cuda`; only if one does",
    },
    "PolicyRef": {"revision": REVISION},
    "DerivedFact": {"value": "the value", "from": "where the value comes from"},
    "RuleTrace": {
        "rule": RULE,
        "layer": "the rule's layer",
        "effect": "the rule's effect",
        "fired": "whether the rule fired",
        "failed": "the first condition that did not hold, of each alternative; empty if the rule fired",
    },
    "FailedCondition": {
        "fact": "the fact, or the rule's field about other rules, the decision or its end (`until`)",
        "expected": "the expected value",
        "actual": "the actual value",
    },
    "Assumption": {
        "fact": "the fact's flat name",
        "assumed": "the assumed value",
        "why": "why it was assumed",
        "would_change": "the other values that would give another `runner` or `starts`",
    },
    "AlternativeDecision": {"runner": RUNNER, "starts": STARTS},
    "ManifestDecisions": {
        "items": "the engines, in the order of the manifest, and the objects that cannot be read",
        "ignored": (
            "the objects of unknown kinds without a container, and Ray clusters with an image of vLLM in which nothing "
            "starts it, if there are any"
        ),
        "warnings": "warnings about the request as a whole, such as a model configuration that no engine uses",
    },
    "IgnoredObject": {
        "path": "the path of the object in the manifest, such as `items[0]`",
        "kind": "its kind",
        "namespace": "its namespace; `null` if it has none",
        "name": "its name; `null` if it has none",
    },
    "ManifestDecision": {
        "path": "the path of the engine in the manifest, such as `items[0].spec.template.spec.containers[0]`, or of an "
        "object that cannot be read",
        "kind": "the kind of the object; `null` if it has none",
        "namespace": "the namespace of the object; `null` if it has none",
        "name": "the name of the object; `null` if it has none",
        "decision": "the decision, if there is one",
        "problem": "otherwise why the engine cannot be decided",
    },
    "DryRunComparison": {
        "current": CURRENT,
        "candidate": CANDIDATE,
        "changes": "the fields of the decision that differ",
        "cases": "the results of the cases that were sent",
    },
    "DryRunComparisonOfAll": {
        "current": CURRENT,
        "candidate": CANDIDATE,
        "changes": "the classes of deployments whose decision changes; an empty list proves that there are none",
        "requests": "the classes of requests to engines with another verdict or other findings; absent if none",
        "known_problems": "the known problems whose symptom, certainty or fix changes; absent if none",
        "cases": "the results of the cases that were sent",
    },
    "CasesReport": {
        "results": "each case in each of its releases",
        "missing": "the required kinds of case that the rules lack",
    },
    "CaseOutcome": {
        "rule": "the id of the rule",
        "name": "the name of the case",
        "vllm_version": "the release",
        "fires": "whether the rule is expected to fire",
        "passed": "whether the claim is true",
        "found": "what happened instead; `null` if the claim is true",
        "file": "the text among those that were sent, such as `cases[0]`",
        "line": "the line of the case in it, from 1",
    },
    "MemberChange": {
        "member": "the field of the decision; `message` is that of a reason, and `symptom`, `certainty` and `fixed_in` "
        "are those of a known problem",
        "from": "its value by the loaded rules",
        "to": "its value by the candidate rules",
        "rules": "the rules that change it",
    },
    "AffectedClass": {
        "releases": "the releases in which the decision changes",
        "rule": "the rule that changes it",
        "rules": "the rules that apply before or after",
        "facts": "the facts of the smallest example",
        "from": "the decision by the loaded rules",
        "to": "the decision by the candidate rules",
        "since": "the first day of the change, if that is later because a house rule ends",
    },
    "AffectedRequests": {
        "releases": "the releases in which the verdict or the findings change",
        "rule": "the rule that changes them",
        "rules": "the rules that change them together",
        "facts": "the facts of the smallest request and of its engine",
        "from": "the verdicts by the loaded rules",
        "to": "the verdicts by the candidate rules",
    },
    "RunnerVerdicts": {"v1": "with V1", "v2": "with V2"},
    "RunnerVerdict": {
        "verdict": "what becomes of the request",
        "rules": "the rules about requests that fire",
    },
    "ClassDecision": {
        "runner": RUNNER,
        "outcome": OUTCOME,
        "starts": STARTS,
        "reasons": "the rules that apply, with their effects",
        "upstream": "the decision of vLLM alone, if it is another one that changes",
    },
    "LogRecord": {
        "decision_id": "the id of the decision",
        "timestamp": "when it was made, to the millisecond",
        "labels": "the labels of the service that decided",
        "revision": "the revision of the rules that decided",
        "path": "the endpoint that the decision was requested from",
        "requested_by": "the caller: the name of a token, or an address",
        "input": "a request that gives the same decision",
        "result": "the decision, without explanation",
        "metrics": "durations; `timer_server_handler_ns` is that of the request in nanoseconds",
        "erased": "JSON pointers (RFC 6901) to what was not recorded",
    },
    "Problem": {
        "type": "the kind of the problem",
        "title": "the kind, for people",
        "status": "the HTTP status",
        "detail": "the first fault, and how many more there are",
        "errors": "every fault that was found",
    },
    "ProblemFault": {
        "pointer": "a JSON pointer (RFC 6901) into the body; empty for all of it",
        "message": "what was found, and what is legal",
        "file": "for a fault in a rule: its file",
        "line": "for a fault in a rule: its line, from 1",
        "column": "for a fault in a rule: its column, from 1",
    },
    "AdmissionReviewResponse": {
        "apiVersion": "the version of the review",
        "kind": "the kind of the review",
        "response": "whether the object is admitted",
    },
    "AdmissionResponse": {
        "uid": "the `uid` of the request",
        "allowed": "whether the object is admitted",
        "status": "why it is not admitted",
        "patch": "a JSON patch (RFC 6902) in base64 that sets the variable",
        "patchType": "the type of the patch",
        "auditAnnotations": "annotations for the audit log of the cluster",
        "warnings": "warnings for the user who made the request",
    },
    "AdmissionStatus": {
        "message": "why the object is denied",
        "code": "the HTTP status for the user",
        "reason": "the reason in one word",
    },
}
LOG_COUNTS: Final = {
    "written": "decisions in the store",
    "spilled": "decisions on the local disk, because the store did not accept them",
    "replayed": "decisions that went from the disk to the store",
    "lost": "decisions that are in neither",
    "deleted": "records that were deleted because they were too old or too many",
    "store_up": "whether the store accepted the last decisions",
    "last_error": "why it did not, or that the log process does not answer; otherwise empty",
    "spill_bytes": "bytes on the local disk",
    "lost_files": "files of the log that were deleted, replaced or damaged",
    "lost_file_records": "decisions that this process wrote to them",
    "last_lost_file": "the last such file; empty if there is none",
    "can_record": "whether the store or the disk accepts decisions, and the log process answers",
}
"""The meaning of each count of the decision log."""
RULE_FIELDS: Final = {
    "id": "its id, which is the file's name without `.yaml`",
    "layer": "the layer",
    "file": "the path of the file",
    "title": "what the rule is about",
    "why": "why it exists",
    "remedy": "what to change so that the rule does not fire",
    "references": "links to the upstream changes and issues behind it",
}
"""The meaning of the fields of rule files that their schema does not describe."""
