"""The enumerations in requests and answers, each under one name."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.checks.comparison import CHANGED_MEMBERS
from policy.decision.remedies import V2By
from policy.facts.vocabulary import FactKind
from policy.intake.assumptions import NOT_STATED, UNKNOWN
from policy.intake.deployment import PLATFORMS
from policy.problems import TYPE_PREFIX
from policy.request.request import NEAREST
from policy.rules.effects import TABLE, Layer, Outcome, Runner
from policy.rules.schemas import SCHEMAS
from service.documents.dry_run_request import ALL
from service.log import filters
from service.problems import KINDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from service.openapi.shapes import Schema

LOGGED_PATHS: Final = ("v1/decisions", "v1/decisions/batch", "v1/dry-run", "v1/admission", "v1/admission/mutate")


def enumerations() -> dict[str, Schema]:
    """The schemas of the enumerations, by name."""
    effects = dict.fromkeys(effect.name for effect in TABLE)
    return {
        "Runner": _set("vLLM's model runner", Runner),
        "Outcome": _set("The kind of step that chose the runner, or why neither of vLLM's is used", Outcome),
        "Layer": _set("The layer of a rule: what vLLM does, or what this organisation adds", Layer),
        "Effect": _set("What a rule does when it fires", effects),
        "Platform": _set("The platform that an engine runs on, as vLLM names it", PLATFORMS),
        "FactType": _set("The type of a fact's value", FactKind),
        "AssumptionReason": _set("Why a fact was assumed", (NOT_STATED, UNKNOWN)),
        "PathKind": _set("How a deployment on V1 gets V2", tuple(V2By)),
        "ComparedField": _set(
            "A field of a decision, of a reason or of a known problem, that a dry run compares", CHANGED_MEMBERS
        ),
        "BeyondVerified": _set("How to decide a release that is not known", (NEAREST,)),
        "CandidateChanges": _set("Which deployments a dry run compares, if not only the request's", (ALL,)),
        "SchemaName": _set("A kind of file in a rules folder", SCHEMAS),
        "LoggedPath": _set("The endpoint that a decision was requested from", LOGGED_PATHS),
        "RunnerFilter": _set(f"A runner; `{filters.NULL}` if none was decided", filters.CHOICES["runner"]),
        "OutcomeFilter": _set(
            f"An outcome; `{filters.NULL}` if the configuration cannot be read", filters.CHOICES["outcome"]
        ),
        "ProblemType": {
            **_set("The kind of a problem", (TYPE_PREFIX + kind for kind in KINDS)),
            "x-enum-varnames": [kind.upper().replace("-", "_") for kind in KINDS],
        },
    }


def _set(description: str, members: Iterable[str]) -> Schema:
    return {"type": "string", "description": description, "enum": [str(member) for member in members]}
