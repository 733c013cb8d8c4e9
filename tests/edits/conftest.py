"""The fixtures of the command line, and the removal of the operator's variable."""

from __future__ import annotations

import json
from datetime import date
from typing import TYPE_CHECKING

import pytest
from api.conftest import call, catalogue, on_terminal, policy, run, sources
from edits.test_fix_kinds import QWEN

from policy.cli.fix_files import Files
from policy.decision.remedies import Change
from policy.edits.plan import Planner, WantedChanges
from policy.edits.sources import EditedEngine
from policy.intake.model_finder import ModelFinder
from policy.policy import Policy
from policy.remedies.changes import VARIABLE_NAME

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from policy.rules.catalogue import Catalogue

__all__ = ["call", "catalogue", "on_terminal", "policy", "run", "sources"]


@pytest.fixture
def changed(catalogue: Catalogue, tmp_path: Path) -> Callable[..., tuple[list[str], str]]:
    """Make changes in the text of a file, or remove the variable; gives the reasons why not, and the text."""
    (tmp_path / "qwen.json").write_text(json.dumps(QWEN))
    finder = ModelFinder(dict.fromkeys(("Qwen/Qwen3-8B", "small/draft"), tmp_path / "qwen.json"), hub=False)
    deciding = Policy(catalogue, "0.33.0", finder.find, compile_all=False)

    def remove(name: str, text: str, *changes: Change) -> tuple[list[str], str]:
        path = tmp_path / name
        path.write_text(text)
        files = Files(deciding, str(path), None, None, nearest=False, recursive=False)
        engines = [each for each in files.engines(files.texts) if isinstance(each, EditedEngine)]
        day = date(2026, 1, 1)
        wanted = changes or (Change(variable=VARIABLE_NAME, to=None),)
        plan = Planner(deciding, files, day).write([WantedChanges(engine, wanted) for engine in engines])
        return [each.reason for each in plan.refused.values()], plan.texts[str(path)]

    return remove
