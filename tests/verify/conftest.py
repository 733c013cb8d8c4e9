"""Releases whose code is extracted once for all tests."""

from __future__ import annotations

import json
import os
from contextlib import ExitStack, nullcontext
from functools import cache as cached
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from policy.vllm.verify.verification import release_process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.vllm.verify.verification import ReleaseProcess


class CachedRelease:
    """A release process that caches its answers, which do not depend on the rules they are compared with."""

    def __init__(self, process: ReleaseProcess) -> None:
        self.found, self._process = process.found, process
        self._answers: dict[str, dict[str, Any]] = {}

    def answer(self, facts: dict[str, Any]) -> dict[str, Any]:
        key = json.dumps(facts, sort_keys=True)
        if key not in self._answers:
            self._answers[key] = self._process.answer(facts)
        return dict(self._answers[key])


@pytest.fixture(scope="session")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with downloaded wheels."""
    named = os.environ.get("RUNNER_POLICY_CACHE")
    return Path(named) if named else tmp_path_factory.getbasetemp().parent.parent / "runner-policy-wheels"


@pytest.fixture(scope="session")
def processes() -> Iterator[Callable[[Path], CachedRelease]]:
    """The process of a source, started on first use."""
    with ExitStack() as stack:
        yield cached(lambda source: CachedRelease(stack.enter_context(release_process(source))))


@pytest.fixture
def cached_releases(processes: Callable[[Path], CachedRelease], monkeypatch: pytest.MonkeyPatch) -> None:
    """Make verification and drafting use the cached processes."""
    for module in ("verification", "drafting"):
        monkeypatch.setattr(
            f"policy.vllm.verify.{module}.release_process", lambda source: nullcontext(processes(source))
        )
