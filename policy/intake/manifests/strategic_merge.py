"""Merge two specs as KServe merges configurations: a strategic merge patch of what the upper one sets.

Objects are merged by field, lists of core/v1 by their keys. A zero value in Go, such as an empty text, sets nothing.
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


def merged(below: Any, above: Any) -> Any:
    """The two values merged; what ``above`` sets takes precedence."""
    if above is None or any(type(above) is type(zero) and above == zero for zero in ZERO_VALUES):
        return above if below is None else below
    if not isinstance(below, dict) or not isinstance(above, dict):
        return above
    result = dict(below)
    for name, value in above.items():
        key = LIST_KEYS.get(name) if isinstance(name, str) else None
        if key is not None and isinstance(value, list) and isinstance(below.get(name), list):
            result[name] = _merged_lists(below[name], value, key)
        else:
            result[name] = merged(below.get(name), value)
    return result


def _merged_lists(below: list[Any], above: list[Any], key: str) -> list[Any]:
    """The items of ``above``, each merged with that of the same key, then the others of ``below``.

    An item without a key is kept as it is.
    """
    named = {item[key]: item for item in below if _is_named(item, key)}
    used = {item[key] for item in above if _is_named(item, key)}
    found = [merged(named.get(item[key]), item) if _is_named(item, key) else item for item in above]
    return found + [item for item in below if not _is_named(item, key) or item[key] not in used]


def _is_named(item: Any, key: str) -> bool:
    return isinstance(item, dict) and isinstance(item.get(key), str | int)
