"""The operator's variable removed from the texts of engines, which then follow the release's own choice."""

from __future__ import annotations

from typing import TYPE_CHECKING

from policy.decision.remedies import Change
from policy.edits.plan import Planner, Wanted
from policy.remedies.changes import VARIABLE_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from datetime import date

    from policy.edits.plan import Plan
    from policy.edits.sources import Engine, Sources
    from policy.policy import Policy


def without_pins(policy: Policy, sources: Sources, engines: Sequence[Engine], today: date) -> Plan:
    """The texts without the variable `VLLM_USE_V2_MODEL_RUNNER` of some engines, which set it.

    ``sources`` has read the text of each engine's file. An engine whose text cannot be edited with certainty is
    refused, with its place. An engine without the variable in its text is refused too.
    """
    wanted = [Wanted(engine, (Change(variable=VARIABLE_NAME, to=None),)) for engine in engines]
    return Planner(policy, sources, today).write(wanted)
