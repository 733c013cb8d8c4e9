"""Paths in the working folder of a script, without looking at any files."""

from __future__ import annotations

from posixpath import join, normpath
from typing import Final

MAX_PATH: Final = 1024
"""The length above which a relative path is not resolved."""


def joined(folder: str, path: str) -> str:
    """A path in a folder without `.` and `..`; one that is long even then stays in no folder."""
    if len(path) > MAX_PATH:
        path = normpath(path)
    if len(path) > MAX_PATH or len(folder) > MAX_PATH:
        return path
    if path[:1] in {"~", "$"}:
        folder = ""
    found = normpath(join(folder, path))
    return found[1:] if found[:2] == "//" else "" if found == "." else found
