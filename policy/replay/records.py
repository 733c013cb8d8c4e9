"""Records of the decision log, as far as a decision can be made again from them.

Owns which fields a record must have, and which parts of its answer are compared. The log keeps facts, not
arguments or manifests, so that what follows from those alone (``launch_errors``) is not compared.
"""

from __future__ import annotations

from datetime import UTC, date, datetime
from typing import TYPE_CHECKING, Any, Final, Literal

import msgspec
from msgspec import Struct

from policy.errors import RequestFault, RequestInvalid
from policy.impact.answers import ProblemSummary, ReasonSummary, ReleaseAnswer
from policy.parser.jsontext import NotJson, read_json
from policy.request.request import Request, read_request_or_manifest

if TYPE_CHECKING:
    from policy.rules.releases import Releases

NO_REQUEST: Final = "the record has no request, so it cannot be decided again"
REFUSALS: Final = ("refuse-",)
ADVICE: Final = ("refuse-", "advise", "known-problem")
"""The beginnings of the effects of rules that are listed apart from the reasons."""


class _Reason(Struct, frozen=True, gc=False):
    rule: str
    effect: str
    decisive: bool
    message: str


class _Result(Struct, frozen=True, gc=False):
    """The fields of a recorded answer that are compared."""

    decision_id: str
    runner: Literal["v1", "v2"] | None
    outcome: str | None
    starts: bool
    startup_errors: list[str]
    vllm_version: str
    reasons: list[_Reason]
    unsupported_features: list[str] = []
    v1_unsupported_features: list[str] = []
    launch_errors: list[str] = []
    known_problems: list[ProblemSummary] = []
    set_env: dict[str, str] = {}


_decode: Final = msgspec.json.Decoder(_Result).decode


class PastRequest(Struct, frozen=True, gc=False):
    """A recorded request, and the day of its decision."""

    request: Request
    day: date


class Recorded(Struct, frozen=True, gc=False):
    """A record: its id, its caller, what was decided, and what is decided again or why that is impossible."""

    decision_id: str
    requested_by: str
    vllm_version: str
    before: ReleaseAnswer | None
    past: PastRequest | RequestInvalid
    place: str = ""


def read_record(
    decision_id: str, requested_by: str, input_json: bytes | None, result_json: bytes, releases: Releases
) -> Recorded:
    """A record of the log by its texts; one that cannot be read has the reason instead of a request."""
    try:
        result = _decode(result_json)
    except (msgspec.DecodeError, RecursionError) as error:
        fault = f"the recorded answer cannot be read: {error}"
        return Recorded(decision_id, requested_by, "", None, RequestInvalid([RequestFault("", fault)]))
    before = _answer(result)
    try:
        past: PastRequest | RequestInvalid = PastRequest(
            _request(input_json, result, releases), day_of(result.decision_id)
        )
    except RequestInvalid as error:
        past = error
    return Recorded(decision_id or result.decision_id, requested_by, result.vllm_version, before, past)


def day_of(decision_id: str) -> date:
    """The day of a decision in UTC, from its id (RFC 9562, version 7).

    Raises:
        RequestInvalid: it is not such an id.
    """
    try:
        milliseconds = int(decision_id[:8] + decision_id[9:13], 16)
        return datetime.fromtimestamp(milliseconds / 1000, UTC).date()
    except (ValueError, OverflowError, OSError) as error:
        raise RequestInvalid([RequestFault("", "the record has no `decision_id` with a time")]) from error


def _request(text: bytes | None, result: _Result, releases: Releases) -> Request:
    """The request of a record, for the release that decided it.

    Raises:
        RequestInvalid: there is none, or it is no longer valid.
    """
    if not text or text == b"null":
        raise RequestInvalid([RequestFault("", NO_REQUEST)])
    try:
        document: Any = read_json(text)
    except NotJson as error:
        raise RequestInvalid([RequestFault("", f"the recorded request cannot be read: {error}")]) from error
    if type(document) is dict and "vllm_version" not in document:
        document = {**document, "vllm_version": result.vllm_version}
    request = read_request_or_manifest(document, releases)
    if not isinstance(request, Request):
        raise RequestInvalid([RequestFault("", NO_REQUEST)])
    return request


def _answer(result: _Result) -> ReleaseAnswer:
    """The recorded answer without what depends on arguments, which are not recorded."""
    standing = [ReasonSummary(each.rule, each.decisive, each.message) for each in result.reasons if _stands(each)]
    refusals = [each.rule for each in result.reasons if each.effect.startswith(REFUSALS)]
    if result.runner is None and not result.starts:
        refusals = [each.rule for each in result.reasons if each.decisive]
    return ReleaseAnswer(
        result.runner,
        result.outcome,
        result.starts or (bool(result.launch_errors) and not result.startup_errors),
        result.startup_errors,
        [],
        result.unsupported_features,
        result.v1_unsupported_features,
        standing,
        refusals,
        result.known_problems,
        result.set_env,
    )


def _stands(reason: _Reason) -> bool:
    return not reason.effect.startswith(ADVICE)
