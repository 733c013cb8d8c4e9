"""The requests that schemathesis derives from `/openapi.json`.

Every operation, in all its phases, with all its checks, is run against a real server.

`SCHEMATHESIS_EXAMPLES=500` asks for more: that number of examples of each operation in each phase.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

import pytest
import schemathesis
from schemathesis.engine import Status, events, from_schema

from .conftest import TOKEN

if TYPE_CHECKING:
    from collections.abc import Iterator

    from .conftest import Server

BEARER = {"Authorization": f"Bearer {TOKEN}"}
FEW = 4
EXAMPLES = int(os.environ.get("SCHEMATHESIS_EXAMPLES", FEW))
SECONDS = 60
TOO_MANY = 10_000
DECIDING_PATHS = {
    "POST /v1/decisions",
    "POST /v1/decisions/batch",
    "POST /v1/dry-run",
    "POST /v1/impact",
    "POST /v1/requests/check",
    "POST /v1/requests/check/batch",
    "POST /v1/admission",
    "POST /v1/admission/mutate",
}
BATCHES = {"POST /v1/decisions/batch", "POST /v1/impact", "POST /v1/requests/check/batch"}
MEANING = {"invalid-request", "unknown-release", "model-config-needed", "unsupported-model", "rules-invalid"}


def config(seed: int) -> schemathesis.Config:
    made = schemathesis.Config.from_dict(
        {
            "seed": seed,
            "continue-on-failure": True,
            "headers": BEARER,
            "generation": {"max-examples": EXAMPLES, "deterministic": EXAMPLES == FEW, "database": "none"},
            "checks": {"enabled": True},
        }
    )
    made.projects.default.update(request_timeout=SECONDS)
    return made


def problems(response: Any) -> list[Any]:
    """The problems in the answers to the items or lines of a batch, and to the containers of their manifests."""
    lines = response.headers["content-type"][0] == "application/x-ndjson"
    answers = [json.loads(line) for line in response.content.splitlines()] if lines else response.json()["items"]
    answers += [item.get("problem", {}) for answer in answers for item in answer.get("items", [])]
    return [answer for answer in answers if str(answer.get("type")).startswith("urn:runner-policy:problem:")]


def fits_our_contract(failure: Any, case: Any, response: Any) -> bool:
    """Whether a failure is expected: here the service deviates from schemathesis, each time for a reason."""
    title, label, status = type(failure).__name__, case.operation.label, response.status_code
    if title == "AcceptedNegativeData":
        # a request with two faults is refused for the one that is checked first: the revision in `if-match`, before the
        # body is read …
        if status == 412:
            return True
        # … or the body's length, before its content
        if status == 413:
            return True
        # an item or a line that is wrong is answered in its place
        if label in BATCHES and status == 200:
            return bool(problems(response))
    if title == "RejectedPositiveData" and label in DECIDING_PATHS:
        # no schema can say that the text of a form's part is JSON
        if status == 400:
            return "multipart/form-data" in response.request.headers.get("content-type", "")
        # no schema can say which revision is loaded
        if status == 412:
            return "if-match" in case.headers
        # nor which arguments vLLM's parser accepts, which models a manifest has, which facts a release has, what rules
        # mean
        if status == 422:
            return response.json()["type"].rpartition(":")[2] in MEANING
    return False


@pytest.fixture
def hooked() -> Iterator[None]:
    """The hooks of this test, removed when it ends."""

    @schemathesis.hook
    def before_load_schema(_: Any, raw: dict[str, Any]) -> None:
        without_bounds(raw["components"])
        if EXAMPLES == FEW:  # YAML and JSON become the same document before anything looks at it: testing one is enough
            for path in ("/v1/decisions/batch", "/v1/requests/check/batch", "/v1/dry-run", "/v1/impact"):
                del raw["paths"][path]["post"]["requestBody"]["content"]["application/yaml"]

    @schemathesis.hook
    def filter_failure(_: Any, failure: Any, case: Any, response: Any) -> bool:
        return not fits_our_contract(failure, case, response)

    @schemathesis.serializer("application/x-ndjson")
    def lines(_: Any, value: Any) -> bytes:
        return value if isinstance(value, bytes) else str(value).encode("utf-8", "surrogatepass")

    yield
    schemathesis.hooks.unregister_all()


def without_bounds(schema: Any) -> None:
    """Remove the bounds of very long lists.

    A list that is one item longer is a body of 16 MB; `tests/core` tests them.
    """
    if isinstance(schema, dict):
        if isinstance(schema.get("maxItems"), int) and schema["maxItems"] > TOO_MANY:
            del schema["maxItems"]
        schema = list(schema.values())
    for below in schema if isinstance(schema, list) else ():
        without_bounds(below)


@pytest.mark.slow
@pytest.mark.usefixtures("hooked")
def test_schemathesis_finds_no_disagreement_between_the_service_and_its_document(
    with_tokens: Server,
) -> None:
    schema = schemathesis.openapi.from_url(f"{with_tokens.url}/openapi.json", headers=BEARER, config=config(seed=1))
    tested: dict[str, int] = {}
    found: list[str] = []
    for event in from_schema(schema).execute():
        match event:
            case events.ScenarioFinished(recorder=recorder):
                for case_id, node in recorder.cases.items():
                    label = node.value.operation.label
                    tested[label] = tested.get(label, 0) + 1
                    response = recorder.find_response(case_id=case_id)
                    for check in recorder.checks.get(case_id, []):
                        if check.status == Status.FAILURE and check.failure_info is not None:
                            said = response.text[:300] if response is not None else ""
                            found.append(
                                f"{label}: {check.name}: {check.failure_info.failure.message}\n"
                                f"{check.failure_info.code_sample[:600]}\n{said}"
                            )
            case events.NonFatalError() | events.FatalError():
                found.append(str(event))
    assert not found, "\n\n".join(found[:20])
    assert (len(tested), min(tested.values()) >= 5, sum(tested.values()) > 1000) == (22, True, True), tested
    assert "Traceback" not in with_tokens.log.read_text()
