"""Proofs and edits as JSON documents, without importing the solver, which is slow to import."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final

from policy.proof.groups import groups_of
from policy.rules.change_texts import field_name, field_texts
from policy.rules.effects import Runner
from policy.rules.request_rule import RequestRule
from policy.rules.rule import NamedCondition, Rule
from policy.rules.wording import Wording

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.errors import Fault
    from policy.proof.claims import Proof
    from policy.proof.difference import Difference, ProofOutcome
    from policy.proof.edit import Edit, EditEffect, FleetCount, RequestEffect
    from policy.proof.groups import EffectGroup
    from policy.proof.requests import RequestDifference
    from policy.rules.changes import ItemChange

KINDS: Final = {Rule: "rule", RequestRule: "request-rule", NamedCondition: "condition"}


def proof_document(proof: Proof, faults: Sequence[Fault]) -> dict[str, Any]:
    """A proof as a JSON document."""
    return {
        "faults": [asdict(fault) for fault in faults],
        "equivalent": proof.equivalent,
        "steps": [
            {
                "from": step.before,
                "to": step.after,
                "changes": [change_document(change) for change in step.changes],
                "requests": [request_document(change) for change in step.requests],
            }
            for step in proof.steps
        ],
    }


def edit_document(found: Edit, counted: FleetCount | None) -> dict[str, Any]:
    """An edit as a JSON document, which contains ``fleet`` if deployments were counted."""
    document: dict[str, Any] = {
        "compared": found.compared,
        "gone": found.gone,
        "changes": list(map(effect_document, found.effects)),
        "groups": list(map(_group_document, groups_of(found))),
        "edits": list(map(_item_document, found.changes)),
        "requests": list(map(request_effect_document, found.request_effects)),
        "images": dict(found.images),
        "published": found.published,
        "removals": found.removals,
        "known_problems": found.problems,
        "default_release": found.default_releases and dict(zip(("from", "to"), found.default_releases, strict=True)),
    }
    return document if counted is None else {**document, "fleet": asdict(counted)}


def _group_document(group: EffectGroup) -> dict[str, Any]:
    (before, starts_before), (after, starts_after) = group.before, group.after
    document: dict[str, Any] = {
        "consequence": group.consequence.name.lower().replace("_", "-"),
        "rule": group.rule,
        "from": {"runner": before, "starts": starts_before},
        "to": {"runner": after, "starts": starts_after},
        "releases": group.releases,
        "classes": len(group.effects),
        "example": {"releases": group.example.releases, "facts": group.example.change.facts},
    }
    if group.upstream is not None:
        sides = (dict(zip(("runner", "starts"), side, strict=True)) for side in group.upstream)
        document["upstream"] = dict(zip(("from", "to"), sides, strict=True))
    return document if group.since is None else {**document, "since": group.since.isoformat()}


def _item_document(change: ItemChange) -> dict[str, Any]:
    """A changed rule or named condition; the text of each field's change contains all values of lists."""
    wording = Wording(str, None)
    return {
        "id": change.item.id,
        "kind": KINDS[type(change.item)],
        "file": change.item.path,
        "change": str(change.kind),
        "fields": [
            {
                "field": field_name(field.field, change),
                "releases": field.releases,
                "text": field_texts(field, change, wording),
            }
            for field in change.fields
        ],
    }


def effect_document(effect: EditEffect) -> dict[str, Any]:
    """A difference in some releases as a JSON document, which contains ``since`` if it begins on a later day."""
    document = {"releases": effect.releases, **change_document(effect.change)}
    return document if effect.since is None else {**document, "since": effect.since.isoformat()}


def request_effect_document(effect: RequestEffect) -> dict[str, Any]:
    """A difference in what becomes of requests in some releases as a JSON document."""
    return {"releases": effect.releases, **request_document(effect.change)}


def change_document(change: Difference) -> dict[str, Any]:
    """A difference as a JSON document."""
    return {
        "rule": change.rule,
        "rules": change.rules,
        "facts": change.facts,
        "from": _answer(change.before),
        "to": _answer(change.after),
    }


def request_document(change: RequestDifference) -> dict[str, Any]:
    """A difference in what becomes of requests as a JSON document, with the verdicts and rules by runner."""
    sides = (
        {
            str(runner): {"verdict": verdict, "rules": rules}
            for runner, verdict, rules in zip(Runner, answer.verdicts, answer.rules, strict=True)
        }
        for answer in (change.before, change.after)
    )
    before, after = sides
    return {"rule": change.rule, "rules": change.rules, "facts": change.facts, "from": before, "to": after}


def _answer(answer: ProofOutcome) -> dict[str, Any]:
    """A decision as a JSON document, which contains ``upstream`` if that of vLLM alone is another one that changes."""
    reasons = [{"rule": rule, "effect": effect} for rule, effect in answer.reasons]
    document = {"runner": answer.runner, "outcome": answer.outcome, "starts": answer.starts, "reasons": reasons}
    return document if answer.upstream is None else {**document, "upstream": _answer(answer.upstream)}
