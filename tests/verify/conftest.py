"""Releases whose code is extracted once for all tests."""

from __future__ import annotations

import json
from contextlib import ExitStack, nullcontext
from functools import cache
from typing import TYPE_CHECKING, Any

import pytest

from policy.vllm.verify.verification import release_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from policy.vllm.verify.verification import ReleaseProcess


class Remembered:
    """A release's answers, each computed once: they do not depend on the rules that they are compared with."""

    def __init__(self, asked: ReleaseProcess) -> None:
        self.found, self._asked = asked.found, asked
        self._answers: dict[str, dict[str, Any]] = {}

    def answer(self, facts: dict[str, Any]) -> dict[str, Any]:
        key = json.dumps(facts, sort_keys=True)
        if key not in self._answers:
            self._answers[key] = self._asked.answer(facts)
        return dict(self._answers[key])


@pytest.fixture(scope="session")
def processes() -> Iterator[Callable[[Path], Remembered]]:
    """The process of each source in use."""
    with ExitStack() as stack:
        yield cache(lambda source: Remembered(stack.enter_context(release_process(source))))


@pytest.fixture
def remembered(processes: Callable[[Path], Remembered], monkeypatch: pytest.MonkeyPatch) -> None:
    """Sources are queried through those processes."""
    for module in ("verification", "drafting"):
        monkeypatch.setattr(
            f"policy.vllm.verify.{module}.release_process", lambda source: nullcontext(processes(source))
        )
