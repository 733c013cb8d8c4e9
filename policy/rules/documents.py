"""The vocabulary, the catalogue and the releases as JSON documents.

Owns the documents of ``GET /v1/facts``, ``/v1/rules``, ``/v1/releases`` and ``/v1/policy``, which the command line and
the generated documentation also show.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from policy.facts.vocabulary import VOCABULARY, FactKind, ancestors
from policy.rules.conditions import leaves, uses
from policy.rules.effects import Layer

if TYPE_CHECKING:
    from policy.rules.catalogue import Catalogue
    from policy.rules.request_rule import RequestRule
    from policy.rules.rule import NamedCondition, Rule


def facts_document(catalogue: Catalogue) -> dict[str, Any]:
    """The vocabulary: each fact's name, type, legal values, default, meaning and the releases that read it."""
    readers = read_by(catalogue)
    return {
        "facts": [
            {
                "name": fact.name,
                "type": str(fact.kind),
                "legal": fact.legal,
                "choices": list(fact.choices),
                "nullable": fact.nullable or fact.kind in {FactKind.PRESENCE, FactKind.VARIABLE},
                "default": fact.default,
                "meaning": fact.meaning,
                "read_by": readers.get(fact.name, []),
            }
            for fact in VOCABULARY
        ]
    }


def read_by(catalogue: Catalogue) -> dict[str, list[str]]:
    """For each fact, the known releases in which some rule's condition reads it."""
    found: dict[str, list[str]] = {}
    for release in catalogue.releases.known:
        names: set[str] = set()
        for item in catalogue.rules_of(release):
            for condition in (item.when, item.cleared):
                for leaf in leaves(condition) if condition else ():
                    names.update((leaf.fact, *ancestors(leaf.fact)))
        for name in names:
            found.setdefault(name, []).append(release)
    return found


def rule_document(rule: Rule | RequestRule, release: str | None = None) -> dict[str, Any]:
    """A rule's file with its layer and path; with a release, only the range that applies to it."""
    document = {"id": rule.id, "layer": str(rule.layer), "file": rule.path, **rule.document}
    if release is not None:
        part = rule.range_of(release)
        document["releases"] = [
            body for body, item in zip(rule.document["releases"], rule.ranges, strict=True) if item is part
        ]
    return document


def condition_document(named: NamedCondition, catalogue: Catalogue) -> dict[str, Any]:
    """A named condition's file with its path, and the ids of the rules that use it."""
    used_by = [
        rule.id
        for rule in catalogue.in_order()
        if any(
            use.name == named.id
            for part in rule.ranges
            for condition in (part.when, part.cleared_at_startup)
            if condition is not None
            for use in uses(condition)
        )
    ]
    return {"id": named.id, "file": named.path, **named.document, "used_by": used_by}


def rules_document(catalogue: Catalogue, release: str | None = None) -> dict[str, Any]:
    """The rules of the catalogue or of one release, by precedence, the named conditions, and rules about requests."""
    rules = catalogue.in_order() if release is None else [item.rule for item in catalogue.rules_of(release)]
    return {
        "revision": catalogue.revision,
        "rules": [rule_document(rule, release) for rule in rules],
        "conditions": [
            {"id": named.id, "file": named.path, **named.document} for named in catalogue.conditions.values()
        ],
        "request_rules": [
            rule_document(rule, release)
            for rule in catalogue.request_rules_in_order()
            if release is None or rule.range_of(release) is not None
        ],
    }


def releases_document(catalogue: Catalogue, default: str) -> dict[str, Any]:
    """The known releases, all checked against vLLM itself, the default release, and the announced ends of runners."""
    known = [
        {"version": release, "verified": True, "default": release == default} for release in catalogue.releases.known
    ]
    return {"releases": known, "default": default, "removals": list(catalogue.releases.removals)}


def images_document(catalogue: Catalogue) -> dict[str, Any]:
    """The rows of the table of images, as written, each with its file."""
    rows = sorted(catalogue.releases.images.rows, key=lambda row: row.id)
    return {"images": [{"id": row.id, "file": row.path, **row.document} for row in rows]}


def policy_document(
    catalogue: Catalogue, source: str, loaded_at: str, last_reload_error: dict[str, Any] | None = None
) -> dict[str, Any]:
    """The loaded policy: its revision, numbers of rules by layer and effect, source and loading time (RFC 3339).

    ``last_reload_error`` describes why newer rules were not loaded.
    """
    layers: dict[str, Any] = {}
    for layer in Layer:
        effects: dict[str, int] = {}
        for rule in catalogue.rules:
            if rule.layer is layer:
                effects[rule.effect.name] = effects.get(rule.effect.name, 0) + 1
        layers[str(layer)] = {"rules": sum(effects.values()), "effects": effects}
    return {
        "revision": catalogue.revision,
        "layers": layers,
        "counts": {
            "rules": len(catalogue.rules),
            "conditions": len(catalogue.conditions),
            "request_rules": len(catalogue.request_rules),
            "releases": len(catalogue.releases.known),
            "images": len(catalogue.releases.images.rows),
        },
        "source": source,
        "loaded_at": loaded_at,
        "last_reload_error": last_reload_error,
    }
