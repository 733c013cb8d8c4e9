"""What would help a deployment, in words."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from msgspec import UNSET

from policy.decision.decision import OWN_RUNNER

if TYPE_CHECKING:
    from policy.decision.remedies import Change, Remedy


def purpose_text(remedy: Remedy) -> str:
    """What a remedy is for."""
    return {"start": "to start", "v2": "to get V2"}.get(remedy.purpose, f"to avoid {remedy.purpose}")


def changes_text(remedy: Remedy, *, with_places: bool = True) -> str:
    """The changes of a remedy, and the runner with them unless that is their purpose."""
    after = f" ({remedy.runner.upper() if remedy.runner else OWN_RUNNER})" if remedy.purpose != "v2" else ""
    return " and ".join(change_text(change, with_place=with_places) for change in remedy.change) + after


def change_text(change: Change, *, with_place: bool = True) -> str:
    """A change, with the place of a dropped argument among the arguments."""
    if change.field is not UNSET:
        return f"use vLLM {change.to} instead of {change.from_}"
    name = next(each for each in (change.argument, change.variable, change.fact) if each is not UNSET)
    if change.argument is not UNSET and isinstance(change.to, bool):
        return f"{'add' if change.to else 'pass'} {switch(change.argument, on=change.to)}"
    if change.to is None:
        at = f" ({change.at})" if with_place and change.at is not UNSET else ""
        return f"{'unset' if change.argument is UNSET else 'drop'} {name}{at}"
    return f"set {name} to {change.to if isinstance(change.to, str) else json.dumps(change.to, ensure_ascii=False)}"


def switch(flag: str, *, on: bool) -> str:
    """The spelling of a flag without a value that turns it on or off."""
    return flag if on else f"--no-{flag.removeprefix('--')}"
