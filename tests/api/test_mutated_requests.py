"""Real requests, mutated in many ways, over persistent connections.

No answer is missing, malformed or a fault of the service.
"""

from __future__ import annotations

import time
from itertools import islice
from typing import TYPE_CHECKING, Any

import pytest
from fuzz_server import Connection, Report, resolves
from request_fuzzer import RequestMutator, SentRequest, originals, posted

from .conftest import PATIENCE

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from .conftest import Server

SEEDS, PER_SEED = (1, 2), 2500
LOG = SentRequest("GET", "/v1/log")
VALID = posted("/v1/decisions", {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}})


def opened(server: Server) -> Connection:
    """A connection, once the log can be queried."""
    connection, ends = Connection(server.port), time.monotonic() + PATIENCE
    while connection.asked(LOG).status != 200 and time.monotonic() < ends:
        time.sleep(0.1)
    return connection


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_any_mutated_request_and_the_next_one_get_a_well_formed_answer(server: Server, seed: int) -> None:
    report, connection = Report(), opened(server)
    for number, sent in enumerate(islice(RequestMutator(seed).requests(), PER_SEED)):
        report.note(sent, connection.asked(sent))
        if number % 10 == 9:
            assert connection.asked(VALID).status == 200
    connection.close()
    assert report.wrong == []
    assert {200, 400, 404, 405, 412, 415, 422} <= report.statuses.keys()
    assert "Traceback" not in server.log.read_text()


@pytest.mark.slow
def test_a_mutated_request_with_a_token_gets_a_well_formed_answer_from_a_server_that_logs_everything(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    report = Report()
    with serve(
        RUNNER_POLICY_LOG_REQUIRED="true",
        RUNNER_POLICY_ADMISSION_FAILURE_POLICY="closed",
        RUNNER_POLICY_ADMISSION_SET_ENV="always",
    ) as server:
        connection = opened(server)
        for sent in islice(RequestMutator(3).requests(), 500):
            report.note(sent, connection.asked(sent))
        connection.close()
    assert report.wrong == []


@pytest.mark.slow
def test_the_same_seed_gives_the_same_mutations() -> None:
    first, second, third = (list(islice(RequestMutator(seed).requests(), 200)) for seed in (7, 7, 8))
    assert (first == second, first == third) == (True, False)


@pytest.mark.slow
def test_the_requests_are_answered_without_mutations(server: Server) -> None:
    connection = Connection(server.port)
    posts = [sent for sent in originals() if sent.method == "POST"]
    statuses = [connection.asked(sent).status for sent in posts[::5]]
    connection.close()
    assert (len(posts) > 500, set(statuses) <= {200, 422}, statuses.count(200) > 0.8 * len(statuses)) == (
        True,
        True,
        True,
    )


@pytest.mark.parametrize(
    ("pointer", "document", "expected"),
    [
        ("", 1, True),
        ("/a", {"a": 1}, True),
        ("/a/b", {}, True),
        ("/a~1b/0", {"a/b": [1]}, True),
        ("/a/1", {"a": [1]}, False),
        ("/a/b", {"a": 1}, False),
        ("a", {"a": 1}, False),
    ],
)
def test_a_pointer_is_checked_against_its_document(pointer: str, document: Any, *, expected: bool) -> None:
    assert resolves(pointer, document) is expected


def test_a_request_has_its_content_length() -> None:
    assert (
        SentRequest("GET", "/", ((b"a", b"b"),), b"xy").wire()
        == b"GET / HTTP/1.1\r\nhost: localhost\r\na: b\r\ncontent-length: 2\r\n\r\nxy"
    )
