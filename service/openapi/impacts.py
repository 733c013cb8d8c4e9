"""The endpoint that compares releases, in the OpenAPI document: its path and the schemas of its bodies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import msgspec

from policy import render_impact
from policy.decision.decision import encode
from policy.impact.answer import impact_answer
from policy.impact.answers import ReleaseAnswer, Undecided
from policy.impact.changes import KINDS, ReleaseChange
from policy.impact.counts import ImpactCounts
from policy.impact.request import MAX_RELEASES, IgnoredEntry, read_impact_request
from policy.impact.targets import V1_REMOVED
from service.auth.tokens import DRY_RUN
from service.limits.budget import WorkBudget
from service.openapi.responses import security
from service.openapi.shapes import COUNT, NULL, TEXT, Schema, list_of, nullable, object_of, ref
from service.openapi.tags import IMPACT
from service.problems import problem_of
from service.state.answers import today

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.policy import Policy
    from service.state.state import ServiceState

JSON, YAML, PLAIN = "application/json", "application/yaml", "text/plain"
IMPACT_TYPES: Final = (ReleaseAnswer, Undecided, ReleaseChange, ImpactCounts, IgnoredEntry)
"""The types from which schemas are derived; the others of the answer have parts that no type describes."""
EXACT_IMPACT: Final[dict[str, dict[str, Schema]]] = {
    "ReleaseChange": {
        "kind": ref("ChangeKind"),
        "runner": {"type": "array", "items": nullable(ref("Runner")), "minItems": 2, "maxItems": 2},
        "starts": {
            "type": "array",
            "items": {"anyOf": [{"type": "boolean"}, NULL]},
            "minItems": 2,
            "maxItems": 2,
        },
        "set_env": {"type": "array", "items": ref("SetEnv"), "minItems": 2, "maxItems": 2},
    },
    "ImpactCounts": {
        "kinds": {"type": "object", "additionalProperties": COUNT},
        **dict.fromkeys(("deployments", "undecided", "unchanged"), COUNT),
    },
    "ReleaseCounts": dict.fromkeys(("v1", "v2", "own", "no_start", "undecided"), COUNT),
}
"""Schemas of fields that are narrower than their types."""


def impact_path(service: ServiceState, post: Callable[..., dict[str, Any]]) -> dict[str, Any]:
    """The endpoint by its path; ``post`` describes it."""
    policy = service.answers.policy
    document = _document(policy)
    request = read_impact_request(document, policy.releases, len(document["deployments"]))
    found, rows = impact_answer(request, policy, today(), problem_of, WorkBudget(1 << 20, 1 << 20))
    table = {"schema": ref("Table"), "example": render_impact.answer_text(rows, found.counts, [])}
    return {
        "/v1/impact": post(
            IMPACT,
            "compareReleases",
            "Compare what releases do with many deployments",
            "Each deployment is decided for each release; the answer shows what changes from one to the next, which "
            "rule or known problem makes it, and how many deployments change. Nothing is recorded.",
            {
                JSON: {
                    "schema": ref("ImpactRequest"),
                    "examples": {"two": {"summary": "two deployments", "value": document}},
                },
                YAML: {"schema": ref("ImpactRequest")},
            },
            "an item for each deployment, or each engine of a manifest, and the counts",
            {
                JSON: {"schema": ref("ImpactAnswer"), "example": msgspec.json.decode(encode(found))},
                PLAIN: table,
            },
            ("unknown-release", "too-much-work", "engine-failed"),
            security(service, DRY_RUN),
        )
    }


def _document(policy: Policy) -> dict[str, Any]:
    """A request in which one deployment is of a release that is not known."""
    known = policy.releases.known
    return {
        "deployments": [
            {"request_id": "chat", "facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}},
            {"request_id": "old", "vllm_version": "0.1.0", "facts": {}},
        ],
        "releases": list(dict.fromkeys([known[0], policy.releases.default, known[-1]])),
    }


def impact_request() -> dict[str, Schema]:
    """The schema of the request's body."""
    release = f"any PEP 440 version with a known release, or `{V1_REMOVED}`, the newest one without V1"
    releases = {
        **list_of(TEXT, "Names of releases; the order does not matter."),
        "minItems": 1,
        "maxItems": MAX_RELEASES,
    }
    return {
        "ImpactRequest": {
            "type": "object",
            "description": "Deployments, and the releases to compare: `releases`, or `to` alone or with `from`.",
            "required": ["deployments"],
            "additionalProperties": False,
            "properties": {
                "deployments": list_of(ref("DecisionRequest"), "the deployments; the items have the same order"),
                "releases": nullable(releases, f"each is compared with the one before; default: all known; {release}"),
                "from": nullable(TEXT, f"the current release; default: what each image says; {release}"),
                "to": nullable(TEXT, f"the release to go to; {release}"),
                "explain": nullable(
                    {"type": "boolean"}, "whether each item has `remedies`, what helps in `to` or in each of `releases`"
                ),
            },
        }
    }


def impact_answers() -> dict[str, Schema]:
    """The schemas of the answers that have no type of their own."""
    place = {**ref("DocumentPlace"), "description": "where it is in the request"}
    common = {
        "name": {**TEXT, "description": "`namespace/kind/name/container`; of a request its `request_id` or pointer"},
        "request_id": nullable(TEXT, "as sent, else `null`"),
        "place": place,
    }
    releases: Schema = {
        "type": "object",
        "additionalProperties": ref("ReleaseOutcome"),
        "description": "what each release does, in ascending order",
    }
    return {
        "ChangeKind": {"type": "string", "description": "What kind of change it is, the worst first", "enum": [*KINDS]},
        "SetEnv": {
            "type": "object",
            "description": "Environment variables to set.",
            "additionalProperties": TEXT,
        },
        "ReleaseOutcome": {
            "description": "What a release does with a deployment, or the problem with it.",
            "anyOf": [ref("ReleaseAnswer"), ref("UndecidedRelease")],
        },
        "ComparedDeployment": object_of(
            "A deployment that the releases were asked about.",
            "remedies",
            **common,
            **{"from": nullable(TEXT, "the release that it runs, if that is compared with the others")},
            releases=releases,
            changes=list_of(ref("ReleaseChange"), "what changes between neighbours"),
            kind=nullable(ref("ChangeKind"), "the worst kind of change; `null` if nothing changes"),
            remedies={
                "type": "object",
                "description": "with `explain`, by release: the smallest changes that help; each was decided again",
                "additionalProperties": list_of(ref("Remedy"), "the cheapest first; empty if none was found"),
            },
        ),
        "UndecidedDeployment": object_of(
            "A deployment that no release can decide.",
            **common,
            problem={**ref("Problem"), "description": "why"},
        ),
        "ImpactItem": {
            "description": "A deployment, and what the releases do with it.",
            "anyOf": [ref("ComparedDeployment"), ref("UndecidedDeployment")],
        },
        "ImpactAnswer": object_of(
            "What the releases do with the deployments.",
            "ignored",
            targets=list_of(TEXT, "the releases that all were compared with, in ascending order"),
            policy={**ref("PolicyRef"), "description": "the rules that decided"},
            items=list_of(ref("ImpactItem"), "the deployments, in their order; each engine of a manifest is one"),
            counts={**ref("ImpactCounts"), "description": "how many change, and what each release does with how many"},
            complete={
                "type": "boolean",
                "description": "`false` if a limit left deployments out, which are then undecided",
            },
            ignored=list_of(
                ref("IgnoredEntry"), "objects in which nothing that starts vLLM was found; left out if there are none"
            ),
        ),
    }
