"""What identifies a volume of a pod, because two of them may have the same files.

They have if they are of one claim, of one folder of the node or of one share.
"""

from __future__ import annotations

from typing import Any, Final

FILES: Final = frozenset({"configMap", "secret", "downwardAPI", "projected"})
"""The volumes whose files objects of the cluster state."""
READ_ONLY: Final = FILES | {"image"}
"""The volumes that no container may write."""
OWN: Final = frozenset({"emptyDir", "ephemeral", "gitRepo"})
"""The volumes that a pod has for itself, each with other files."""
FOLDERS: Final = {"hostPath": (), "nfs": ("server",)}
"""The volumes that are a folder at a ``path``, with the fields that say where."""
MAX_DEPTH: Final = 2
"""The depth down to which the fields of a volume identify it."""
MAX_SOURCE: Final = 4096
"""The most characters of the fields that identify a volume."""


def volume_source(volume: dict[str, Any]) -> tuple[str, str] | None:
    """What identifies a volume, empty if only its name does, and the folder of it that it has; None if it is read."""
    kinds = [kind for kind, source in volume.items() if kind != "name" and source is not None]
    if any(kind in READ_ONLY for kind in kinds):
        return None
    kind = kinds[0] if kinds else ""
    source = volume.get(kind)
    if kind in OWN or not isinstance(source, dict):
        return "", "/"
    if (fields := FOLDERS.get(kind)) is not None:
        path = source.get("path")
        return f"{kind} {[source.get(name) for name in fields]!r:.256}", path if isinstance(path, str) else "/"
    return f"{kind} {_text(source, MAX_DEPTH)}"[:MAX_SOURCE], "/"


def _text(value: Any, depth: int) -> str:
    """The fields of a volume in one order, without how it is mounted."""
    if isinstance(value, dict) and depth:
        fields = sorted((str(key)[:MAX_SOURCE], key) for key in value if isinstance(key, str) and key != "readOnly")
        return " ".join(f"{name}={_text(value[key], depth - 1)}" for name, key in fields)
    return "" if isinstance(value, dict | list) else str(value)[:MAX_SOURCE]
