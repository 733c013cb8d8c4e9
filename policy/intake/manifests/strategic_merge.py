"""Merge two specs as KServe merges configurations: a strategic merge patch of what the upper one sets.

Objects are merged by field, lists of core/v1 by their keys. A zero value in Go, such as an empty text, sets nothing.
An item that both lists have keeps its place in the lower list. A new item goes before the items of the lower list
that are not yet placed.
"""

from __future__ import annotations

from typing import Any, Final

LIST_KEYS: Final = {
    "containers": "name",
    "initContainers": "name",
    "ephemeralContainers": "name",
    "env": "name",
    "volumes": "name",
    "volumeMounts": "mountPath",
    "volumeDevices": "devicePath",
    "ports": "containerPort",
    "imagePullSecrets": "name",
    "hostAliases": "ip",
}
"""The lists of a pod that are merged by the value of a key; every other list replaces the one below."""
ZERO_VALUES: Final[tuple[Any, ...]] = (None, "", False, [])


def merge(below: Any, above: Any) -> Any:
    """The two values merged; what ``above`` sets takes precedence."""
    if above is None or any(type(above) is type(zero) and above == zero for zero in ZERO_VALUES):
        return above if below is None else below
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    result = dict(below)
    for name, value in above.items():
        key = LIST_KEYS.get(name) if isinstance(name, str) else None
        if key is not None and isinstance(value, list) and isinstance(below.get(name), list):
            result[name] = merge_lists(below[name], value, key)
        else:
            result[name] = merge(below.get(name), value)
    return result


def merge_lists(below: list[Any], above: list[Any], key: str) -> list[Any]:
    """The items of both lists, merged if they have the same key, in the order of a strategic merge patch.

    An item without a key is kept as it is.
    """
    named, places = {}, {}
    for place, item in enumerate(below):
        if _is_named(item, key) and item[key] not in named:
            named[item[key]], places[item[key]] = item, place
    patched: dict[Any, Any] = {}
    for place, item in enumerate(above):
        name = item[key] if _is_named(item, key) else None
        patched[(place,) if name is None else name] = (
            item if name is None else merge(patched.get(name, named.get(name)), item)
        )
    rest = [place for place, item in enumerate(below) if not _is_named(item, key) or item[key] not in patched]
    found, count = [], 0
    for name, item in patched.items():
        while count < len(rest) and rest[count] < places.get(name, -1):
            found.append(below[rest[count]])
            count += 1
        found.append(item)
    return found + [below[place] for place in rest[count:]]


def _is_named(item: Any, key: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(key), str | int)
