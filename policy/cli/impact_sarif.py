"""The impact of a fleet as SARIF 2.1.0, so that code scanning shows each change at the argument that makes it.

Owns the members of the document, and which argument makes a change: the first one from which a fact of its rules is
derived.
"""

from __future__ import annotations

import re
from hashlib import sha256
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

from policy.cli.fleet import walk
from policy.errors import RequestInvalid
from policy.escaping import escape_line
from policy.impact.changes import KINDS, MEANINGS, ChangeKind
from policy.impact.rows import PHRASES
from policy.impact.summary import step_text
from policy.impact.targets import HEAD
from policy.remedies.advice import in_release
from policy.request.request import Request

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.cli.fleet import FleetEntry
    from policy.impact.rows import ImpactRow, ImpactRows
    from policy.parser.yamltree import YamlNode
    from policy.policy import Policy

MAX_RESULTS: Final = 5_000
"""The most results of a run that code scanning shows."""
LEVELS: Final = {
    ChangeKind.NO_START: "error",
    ChangeKind.LAUNCH_ERROR: "error",
    ChangeKind.UNDECIDED: "error",
    ChangeKind.VARIABLE: "note",
    ChangeKind.START: "note",
    ChangeKind.REASONS: "note",
}
UNDECIDED: Final = "not-decided"
SCHEMA: Final = "https://json.schemastore.org/sarif-2.1.0.json"
PLACE: Final = re.compile(r"(?:args|command)\[[0-9]{1,6}\]")
ENV: Final = "env."


def sarif(rows: ImpactRows[FleetEntry], policy: Policy, *, complete: bool) -> dict[str, Any]:
    """The document of the rows: the changed deployments, the worst first, then the undecided ones."""
    shown = [*rows.worst(), *rows.undecided][:MAX_RESULTS]
    ids = [*map(str, KINDS), UNDECIDED]
    kinds = [
        {
            "id": kind,
            "shortDescription": {"text": MEANINGS[ChangeKind(kind)] if kind != UNDECIDED else "no release decides it"},
            "defaultConfiguration": {"level": _level(kind)},
        }
        for kind in ids
    ]
    driver = {"name": "runner-policy", "version": version("runner-policy"), "rules": kinds}
    run = {
        "tool": {"driver": driver},
        "columnKind": "unicodeCodePoints",
        "invocations": [{"executionSuccessful": complete}],
        "results": [_result(row, ids, policy) for row in shown],
    }
    return {"$schema": SCHEMA, "version": "2.1.0", "runs": [run]}


def _level(kind: str) -> str:
    return "error" if kind == UNDECIDED else LEVELS.get(ChangeKind(kind), "warning")


def _result(row: ImpactRow[FleetEntry], ids: list[str], policy: Policy) -> dict[str, Any]:
    change = row.summary.change
    kind = UNDECIDED if change is None else str(change.kind)
    if change is None:
        text = f"{row.entry.name} is not decided: {row.summary.why}"
    else:
        text = f"{row.entry.name} {PHRASES[change.kind][0]} from {change.from_} to {change.to} ({step_text(change)})"
        text += f": {row.summary.why}" if row.summary.why else ""
        text += "".join(f"; {each}" for each in (row.summary.action, row.summary.remedy) if each)
        text += f" [{row.cause}]" if row.cause != row.summary.why else ""
    line, column = _position(row, policy)
    fingerprint = sha256(f"{row.entry.name}\n{kind}\n{row.entry.place.path}".encode(errors="replace")).hexdigest()
    return {
        "ruleId": kind,
        "ruleIndex": ids.index(kind),
        "level": _level(kind),
        "message": {"text": _plain(escape_line(text))},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": _uri(row.entry.path)},
                    "region": {"startLine": line, "startColumn": column},
                },
                "logicalLocations": [{"fullyQualifiedName": escape_line(row.entry.name)}],
            }
        ],
        "partialFingerprints": {"deploymentAndKind/v1": fingerprint},
    }


def _plain(text: str) -> str:
    """A message without links, which SARIF has as `[text](target)` (2.1.0, 3.11.6)."""
    return text.replace("](", "\\](")


def _uri(file: str) -> str:
    """The address of a file, which is relative to where the command runs, such as the root of a repository."""
    return quote("stdin" if file == "-" else file, safe="/", errors="replace")


def _position(row: ImpactRow[FleetEntry], policy: Policy) -> tuple[int, int]:
    """The line and column of the argument that makes a change, else of the engine, else of the file's start."""
    node, place = row.entry.node, row.entry.place
    at = max(place.line, 1), max(place.column, 1)
    if node is None or row.summary.change is None:
        return at
    for origin in _origins(row, policy):
        found = _node_of(node, origin)
        if found is not None and found.line:
            return found.line, found.column
    return at


def _origins(row: ImpactRow[FleetEntry], policy: Policy) -> Iterator[str]:
    """The origins of the facts of the rules that make a change, and the places that its errors name."""
    change, request = row.summary.change, row.entry.request
    if change is None or not isinstance(request, Request) or request.deployment is None:
        return
    yield from PLACE.findall(row.summary.why)
    rules = {*change.rules, *change.known_problems.new, *change.known_problems.gone}
    own = (request.release.decided_as,) if change.to == HEAD else ()
    for release in (*own, change.to, change.from_):
        if release not in policy.releases.known:
            continue
        try:
            intake = policy.intake(in_release(request, release))
        except RequestInvalid:
            continue
        views = [view for view in policy.ruleset(release).views if view.rule in rules]
        facts = intake.derived.facts
        for name in (name for view in views for name, _ in view.evidence):
            if name in facts:
                yield facts[name][1]


def _node_of(engine: YamlNode, origin: str) -> YamlNode | None:
    """The node of an argument or a variable of an engine; ``None`` if its text does not have it."""
    value = engine.value
    if not isinstance(value, dict):
        return None
    if origin.startswith(ENV):
        return _variable(value.get("env"), origin.removeprefix(ENV))
    if PLACE.fullmatch(origin) is None:
        return None
    field, _, index = origin.removesuffix("]").partition("[")
    words = value.get(field)
    if words is None or not isinstance(words.value, list) or int(index) >= len(words.value):
        return words
    return walk(words, [index])


def _variable(env: YamlNode | None, name: str) -> YamlNode | None:
    if env is None:
        return None
    if isinstance(env.value, dict):
        return env.value.get(name)
    for each in env.value if isinstance(env.value, list) else ():
        named = each.value.get("name") if isinstance(each.value, dict) else None
        if named is not None and named.value == name:
            return each
    return None
