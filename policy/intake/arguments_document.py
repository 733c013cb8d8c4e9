"""The catalogue of vLLM's flags and environment variables: which releases have each, its type and legal values.

Owns the shape of `GET /v1/arguments` and of the command `args`. Not here: reading the tables (`command.flags`,
`variables`).
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.deprecated_flags import deprecations_of
from policy.intake.command.flags import flag_history, with_dashes
from policy.intake.launch.deprecated_values import deprecated_values_of
from policy.intake.model.tables import releases_with_flags
from policy.intake.variables import listed_names, spans, variable_history
from policy.messages import closest

if TYPE_CHECKING:
    from collections.abc import Mapping

FLAG_FIELDS: Final = {
    "flags": "flags",
    "off": "off",
    "kind": "type",
    "nargs": "nargs",
    "optional": "optional",
    "choices": "choices",
}
"""The fields of a flag's row that are shown, each with the name it is shown under."""
VARIABLE_FIELDS: Final = {name: name for name in ("type", "default", "deprecated", "replaced_by")}
ARGUMENT, VARIABLE = "argument", "variable"


@cache
def arguments_document() -> dict[str, list[dict[str, Any]]]:
    """All flags and variables of all releases, by name."""
    items = [_item(ARGUMENT, _flag_name(since), since, FLAG_FIELDS, dest) for dest, since in flag_history().items()]
    history = variable_history()
    items += [_item(VARIABLE, name, history[name], VARIABLE_FIELDS, name) for name in listed_names()]
    return {"items": sorted(items, key=lambda item: (item["kind"], item["name"]))}


def arguments_in(release: str) -> dict[str, list[dict[str, Any]]]:
    """The flags and variables of one release, each with its values in this release."""
    order = releases_with_flags()
    at = order.index(release)
    found = []
    for item in arguments_document()["items"]:
        part = next((each for each in item["changes"] if _is_within(order, at, each)), None)
        if part is not None:
            deprecations = [each for each in item["deprecations"] if _is_within(order, at, each)]
            found.append(item | {"changes": [part], "deprecations": deprecations})
    return {"items": found}


def find(name: str) -> list[dict[str, Any]]:
    """The items that have a name as a flag, a field of `EngineArgs` or a variable; one name may belong to several.

    `--max-model-len`, `max-model-len`, `max_model_len` and `--no-enable-prefix-caching` are all legal.
    """
    keys = {with_dashes(name)} if name.startswith("--") else {name, f"--{name}"}
    return [item for item in arguments_document()["items"] if not keys.isdisjoint(_spellings(item))]


def suggestion(name: str) -> str | None:
    """The known name that is closest to an unknown one, if one is close."""
    written = name if name.startswith("-") or name.isupper() else f"--{name.replace('_', '-')}"
    return closest(written, [word for item in arguments_document()["items"] for word in _spellings(item)])


def differences(before: str, after: str) -> dict[str, Any]:
    """The names that were added, removed or changed between two releases, or that only the second one deprecates."""
    items = [arguments_in(release)["items"] for release in (before, after)]
    old, new = ({(i["kind"], i["name"]): i["changes"][0] for i in each} for each in items)
    deprecated = [{word for item in each for word in _deprecated_names(item)} for each in items]

    def values(change: Mapping[str, Any]) -> dict[str, Any]:
        return {key: value for key, value in change.items() if key not in {"since", "until"}}

    return {
        "added": [name for _, name in sorted(new.keys() - old.keys())],
        "removed": [name for _, name in sorted(old.keys() - new.keys())],
        "changed": [
            {"name": key[1], "before": values(old[key]), "after": values(new[key])}
            for key in sorted(old.keys() & new.keys())
            if values(old[key]) != values(new[key])
        ],
        "deprecated": sorted(deprecated[1] - deprecated[0]),
    }


def _item(kind: str, name: str, since: Mapping[str, Any], fields: Mapping[str, str], dest: str) -> dict[str, Any]:
    order = releases_with_flags()
    starts = [(order.index(release), row) for release, row in since.items()]  # oldest first, as written
    changes: list[dict[str, Any]] = []
    having: list[str] = []
    for number, (start, row) in enumerate(starts):
        end = starts[number + 1][0] if number + 1 < len(starts) else len(order)
        if row is None or not row.get("listed", True):
            continue
        having += order[start:end]
        values = {shown: row[field] for field, shown in fields.items() if field in row}
        changes.append({"since": order[start], "until": order[end - 1] if end < len(order) else None, **values})
    return {
        "kind": kind,
        "name": name,
        "field": dest if kind == ARGUMENT else None,
        "releases": [{"since": first, "until": None if last == order[-1] else last} for first, last in spans(having)],
        "changes": changes,
        "deprecations": _deprecations(dest) if kind == ARGUMENT else [],
    }


def _deprecations(dest: str) -> list[dict[str, Any]]:
    """The deprecations of a flag, of fields of its object and of its values, oldest first."""
    found = [*deprecations_of(dest), *deprecated_values_of(dest)]
    order = releases_with_flags()
    return sorted(found, key=lambda each: order.index(each["since"]))


def _deprecated_names(item: Mapping[str, Any]) -> list[str]:
    """The flag, `--flag.field` or `--flag=value` that an item's release deprecates."""
    return [
        name if value is None else f"{name}={value}"
        for each in item["deprecations"]
        for name in [item["name"] + (f".{each['member']}" if each["member"] else "")]
        for value in each["values"] or [None]
    ]


def _flag_name(since: Mapping[str, Any]) -> str:
    """The long spelling of a flag in the newest release that has it."""
    words: list[str] = next(row["flags"] for row in reversed(list(since.values())) if row)
    return next((word for word in words if word.startswith("--")), words[0])


def _spellings(item: Mapping[str, Any]) -> set[str]:
    found = {item["name"], item["field"]} - {None}
    for change in item["changes"]:
        found.update(change.get("flags", ()), change.get("off", ()))
    return found


def _is_within(order: tuple[str, ...], at: int, change: Mapping[str, Any]) -> bool:
    until = change["until"]
    return order.index(change["since"]) <= at and (until is None or at <= order.index(until))
