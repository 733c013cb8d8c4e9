"""What a unit mounts over the files of the host, and whether its service has another root.

Reads the settings of systemd.exec(5) (version 257): `BindPaths=`, `BindReadOnlyPaths=`, `TemporaryFileSystem=`,
`InaccessiblePaths=` and `MountImages=` have paths at which something is mounted. With its own root or an extension, the
service has other files than the host's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.unit_file import assigned_words, listed_values

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

BIND_SETTINGS: Final = ("BindPaths", "BindReadOnlyPaths")
EMPTY_SETTINGS: Final = ("TemporaryFileSystem", "InaccessiblePaths")
IMAGE_SETTING: Final = "MountImages"
ROOT_SETTINGS: Final = ("RootDirectory", "RootImage")
EXTENSION_SETTINGS: Final = ("ExtensionImages", "ExtensionDirectories")
OTHER_FILES: Final = "`{}` gives the service other files than the host's, which may have another vLLM"


def unit_mounts(settings: Sequence[tuple[str, str]]) -> Mounts:
    """The mount points of a service; a path with a specifier or an escape sequence is not known."""
    targets = [
        path for name in (*BIND_SETTINGS, IMAGE_SETTING) for word in _words(settings, name) if (path := _target(word))
    ]
    empty = [word.partition(":")[0] for name in EMPTY_SETTINGS for word in _words(settings, name)]
    found = Mounts([*targets, *empty], empty)
    escaped = (
        value
        for name in (*BIND_SETTINGS, IMAGE_SETTING, *EMPTY_SETTINGS)
        for value in listed_values(settings, name)
        if "\\" in value
    )
    found.hidden_source = next((path for path in (*targets, *empty) if "%" in path), "") or next(escaped, "")
    return found


def _words(settings: Sequence[tuple[str, str]], name: str) -> Iterator[str]:
    """The words of a setting, without the prefixes of a path that need not exist (`-`) or is in the root (`+`)."""
    yield from (word.lstrip("-+") for value in listed_values(settings, name) for word in assigned_words(value))


def _target(word: str) -> str:
    """The path at which `SOURCE:TARGET:OPTIONS` mounts something; empty if it is the source's own path."""
    source, _, rest = word.partition(":")
    target = rest.partition(":")[0]
    return "" if target == source else target


def root_doubts(settings: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Why a service may have a different vLLM than the host's: its own root, or an extension of the host's."""
    last = dict(settings)
    yield from (OTHER_FILES.format(name) for name in ROOT_SETTINGS if last.get(name, "").lstrip("-+") not in {"", "/"})
    yield from (OTHER_FILES.format(name) for name in EXTENSION_SETTINGS if listed_values(settings, name))
