"""Decisions as recordings of vLLM's configuration have them: without the refusals of workers, which had none."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.rules.effects import Stage

if TYPE_CHECKING:
    from policy.policy import Policy


def as_configured(policy: Policy, members: dict[str, Any], errors: list[str]) -> dict[str, Any]:
    """Some members of a decision without the refusals of rules with ``stage: worker``; ``errors`` has all texts."""
    worker = [rule for rule in policy.catalogue.rules if rule.stage is Stage.WORKER]
    late = {part.template.text for rule in worker for part in rule.ranges}
    if late.isdisjoint(errors):
        return members
    left = [text for text in errors if text not in late]
    return {name: {"startup_errors": left, "starts": not left}.get(name, value) for name, value in members.items()}
