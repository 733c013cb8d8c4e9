"""Proofs and edits as JSON documents; this module does not import the solver, which is slow to import."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.errors import Fault
    from policy.proof.claims import Proof
    from policy.proof.difference import Difference, ProofOutcome
    from policy.proof.edit import Edit, EditEffect, FleetCount


def proof_document(proof: Proof, faults: Sequence[Fault]) -> dict[str, Any]:
    """A proof as a JSON document."""
    return {
        "faults": [asdict(fault) for fault in faults],
        "equivalent": proof.equivalent,
        "steps": [
            {"from": step.before, "to": step.after, "changes": [change_document(change) for change in step.changes]}
            for step in proof.steps
        ],
    }


def edit_document(found: Edit, counted: FleetCount | None) -> dict[str, Any]:
    """An edit as a JSON document; ``fleet`` is present if one was counted."""
    document: dict[str, Any] = {
        "compared": found.compared,
        "gone": found.gone,
        "changes": [effect_document(effect) for effect in found.effects],
    }
    return document if counted is None else {**document, "fleet": asdict(counted)}


def effect_document(effect: EditEffect) -> dict[str, Any]:
    """A change in some releases as a JSON document; with ``since`` if it begins on a later day."""
    document = {"releases": effect.releases, **change_document(effect.change)}
    return document if effect.since is None else {**document, "since": effect.since.isoformat()}


def change_document(change: Difference) -> dict[str, Any]:
    """A change as a JSON document."""
    return {
        "rule": change.rule,
        "rules": change.rules,
        "facts": change.facts,
        "from": _answer(change.before),
        "to": _answer(change.after),
    }


def _answer(answer: ProofOutcome) -> dict[str, Any]:
    reasons = [{"rule": rule, "effect": effect} for rule, effect in answer.reasons]
    return {"runner": answer.runner, "outcome": answer.outcome, "starts": answer.starts, "reasons": reasons}
