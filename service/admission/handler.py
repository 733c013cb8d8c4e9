"""The answer of the validating or the mutating endpoint to a review.

The mutating endpoint sets a variable, and never warns or denies.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from policy.decision.decision import encode
from policy.defects import defect_fault, is_defect
from policy.errors import PolicyError, RequestInvalid
from service.admission.engines import engines_to_decide, unread_engine, unreadable_object
from service.admission.messages import (
    EngineDecision,
    audit_annotations,
    denial,
    shorten,
    undecided_reason,
    unread_warning,
    warnings_of,
)
from service.admission.patch import patch_of
from service.admission.review import AdmissionReview, Response, ReviewAnswer, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.rules.releases import Releases
    from service.admission.engines import AdmissionOptions, EngineUnderReview
    from service.admission.patch import Decide
    from service.admission.review import Result, Review


def answer_review(
    review: Review, releases: Releases, decide: Decide, options: AdmissionOptions, *, mutating: bool
) -> ReviewAnswer:
    """The answer of the validating or the mutating endpoint.

    Objects without vLLM, operations that start nothing, and engines unchanged by an update are allowed without a
    warning: existing objects must remain editable. An object of a kind that is not read is allowed, with a warning if
    one of its containers names vLLM. With a defect of this program, an object that names vLLM cannot be decided.
    """
    try:
        return _answer_review(review, releases, decide, options, mutating=mutating)
    except Exception as error:
        if not is_defect(error):
            raise
        fault = RequestInvalid([defect_fault(error)])
    engines = unreadable_object(review.object or {}, fault)
    undecided = [EngineDecision(engine, None, undecided_reason(fault)) for engine in engines]
    return _mutate(review, undecided, decide) if mutating else _validate(review, None, undecided, options)


def _answer_review(
    review: Review, releases: Releases, decide: Decide, options: AdmissionOptions, *, mutating: bool
) -> ReviewAnswer:
    engines = engines_to_decide(review, releases, options, mutating=mutating)
    engine_decisions = [_decide_engine(engine, decide) for engine in engines]
    if mutating:
        return _mutate(review, engine_decisions, decide)
    return _validate(review, unread_engine(review, releases), engine_decisions, options)


def _validate(
    review: Review, unread: str | None, engine_decisions: Sequence[EngineDecision], options: AdmissionOptions
) -> ReviewAnswer:
    refused = (
        [
            engine_decision
            for engine_decision in engine_decisions
            if engine_decision.decision is not None and not engine_decision.decision.starts
        ]
        if options.deny
        else []
    )
    undecided = [engine_decision for engine_decision in engine_decisions if engine_decision.decision is None]
    undecided_engines = undecided if options.fail == "closed" else []
    warnings = shorten([line for engine_decision in engine_decisions for line in warnings_of(engine_decision, options)])
    if unread is not None:
        warnings.append(unread_warning(unread, review.kind))
    response = Response(
        review.uid,
        allowed=True,
        warnings=warnings or UNSET,
        audit_annotations=audit_annotations(engine_decisions) if engine_decisions else UNSET,
    )
    if refused or undecided_engines:
        return _answer(replace(response, allowed=False, status=Status(denial(refused, undecided_engines))), "denied")
    if undecided:
        return _answer(response, "undecided")
    return _answer(response, "warned" if warnings else "allowed" if engine_decisions else "ignored")


def _mutate(review: Review, engine_decisions: Sequence[EngineDecision], decide: Decide) -> ReviewAnswer:
    patched = [
        (engine_decision, operations)
        for engine_decision in engine_decisions
        if (operations := patch_of(engine_decision, decide))
    ]
    if patched:
        patch = encode([operation for _, operations in patched for operation in operations])
        annotations = audit_annotations([engine_decision for engine_decision, _ in patched])
        return _answer(
            Response(review.uid, allowed=True, patch=patch, patch_type="JSONPatch", audit_annotations=annotations),
            "patched",
        )
    undecided = any(engine_decision.decision is None for engine_decision in engine_decisions)
    return _answer(
        Response(review.uid, allowed=True), "undecided" if undecided else "allowed" if engine_decisions else "ignored"
    )


def _answer(response: Response, result: Result) -> ReviewAnswer:
    return ReviewAnswer(AdmissionReview(response), result)


def _decide_engine(engine: EngineUnderReview, decide: Decide) -> EngineDecision:
    if isinstance(engine.request, RequestInvalid):
        return EngineDecision(engine, None, undecided_reason(engine.request))
    try:
        return EngineDecision(engine, decide(engine.request))
    except PolicyError as error:
        return EngineDecision(engine, None, undecided_reason(error))
