"""Logs with decisions that were really made, as a service records them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import call, catalogue, on_terminal, policy, run, sources

from policy.request.request import read_request
from service.log.record import SentRecord, StoredRow, _decode_line, line, row
from service.log.store import read_url
from service.log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

    from policy.policy import Policy

__all__ = ["call", "catalogue", "on_terminal", "policy", "run", "sources"]


def row_of(policy: Policy, document: dict[str, Any], caller: str = "argo") -> StoredRow:
    """The row of a decision that is made now."""
    request = read_request(document, policy.releases)
    answer = policy.answer(request, datetime.now(UTC).date())
    entry: SentRecord = _decode_line(b"".join(line((answer, request, "v1/decisions", caller, 1000, None))))
    return row(entry, "{}")


@pytest.fixture
def log_of(policy: Policy, tmp_path: Path) -> Callable[[Iterable[dict[str, Any]]], str]:
    """Write the decisions of requests into a log; gives its URL."""

    def write(documents: Iterable[dict[str, Any]]) -> str:
        url = f"sqlite:///{tmp_path}/log.db"
        writer = Writer(read_url(url), 30)
        writer.write([row_of(policy, document) for document in documents])
        writer.close()
        return url

    return write
