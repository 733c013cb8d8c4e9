"""A review → its answer: of the validating call, which is the gate, or of the mutating one, which sets a variable and never says or denies anything.

Owns the order of things, and how decisions become an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET
from msgspec.structs import replace

from policy.decision.decision import encode
from policy.errors import PolicyError, RequestInvalid
from service.admission.engines import engines_to_decide
from service.admission.messages import EngineDecision, annotations_of, denial, shortened, warnings_of, why_not
from service.admission.patch import patch_of
from service.admission.review import AdmissionReview, Response, ReviewAnswer, Status

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.rules.releases import Releases
    from service.admission.engines import AdmissionOptions, EngineUnderReview
    from service.admission.patch import Decide
    from service.admission.review import Result, Review


def reviewed(
    review: Review, releases: Releases, decide: Decide, options: AdmissionOptions, *, mutating: bool
) -> ReviewAnswer:
    """The answer to a review, of the validating call or of the mutating one.

    Objects that start no vLLM, operations that start nothing, and engines that an update leaves as they were are allowed without a word: what is
    there already must remain editable.
    """
    engines = engines_to_decide(review, releases, options, mutating=mutating)
    verdicts = [_verdict(engine, decide) for engine in engines]
    if mutating:
        return _mutated(review, verdicts, decide)
    return _validated(review, verdicts, options)


def _validated(review: Review, verdicts: Sequence[EngineDecision], options: AdmissionOptions) -> ReviewAnswer:
    refused = (
        [verdict for verdict in verdicts if verdict.decision is not None and not verdict.decision.starts]
        if options.deny
        else []
    )
    undecided = [verdict for verdict in verdicts if verdict.decision is None]
    held = undecided if options.fail == "closed" else []
    warnings = shortened([line for verdict in verdicts for line in warnings_of(verdict, options)])
    response = Response(
        review.uid,
        allowed=True,
        warnings=warnings or UNSET,
        audit_annotations=annotations_of(verdicts) if verdicts else UNSET,
    )
    if refused or held:
        return _answer(replace(response, allowed=False, status=Status(denial(refused, held))), "denied")
    if undecided:
        return _answer(response, "undecided")
    return _answer(response, "ignored" if not verdicts else "warned" if warnings else "allowed")


def _mutated(review: Review, verdicts: Sequence[EngineDecision], decide: Decide) -> ReviewAnswer:
    patched = [(verdict, operations) for verdict in verdicts if (operations := patch_of(verdict, decide))]
    if patched:
        patch = encode([operation for _, operations in patched for operation in operations])
        annotations = annotations_of([verdict for verdict, _ in patched])
        return _answer(
            Response(review.uid, allowed=True, patch=patch, patch_type="JSONPatch", audit_annotations=annotations),
            "patched",
        )
    undecided = any(verdict.decision is None for verdict in verdicts)
    return _answer(
        Response(review.uid, allowed=True), "undecided" if undecided else "allowed" if verdicts else "ignored"
    )


def _answer(response: Response, result: Result) -> ReviewAnswer:
    return ReviewAnswer(AdmissionReview(response), result)


def _verdict(engine: EngineUnderReview, decide: Decide) -> EngineDecision:
    if isinstance(engine.request, RequestInvalid):
        return EngineDecision(engine, None, why_not(engine.request))
    try:
        return EngineDecision(engine, decide(engine.request))
    except PolicyError as error:
        return EngineDecision(engine, None, why_not(error))
