"""The places of a command's words, and their JSON pointers."""

from __future__ import annotations

from typing import Final

from policy.pointer import at

FILE_PREFIX: Final = "files/"
"""The prefix of the place of a word that comes from the `--config` file."""


def word_pointer(pointer: str, place: str) -> str:
    """The JSON pointer of a word's place: `args[3]` below `/deployment/args` gives `/deployment/args/3`."""
    base = pointer.removesuffix("/args")
    if place.startswith(FILE_PREFIX):
        name, _, key = place.removeprefix(FILE_PREFIX).rpartition("/")
        return at(f"{base}/files", name) if key else base
    name, bracket, index = place.partition("[")
    index = index.removesuffix("]")
    if bracket and name.isidentifier() and index.isdecimal():
        return f"{base}/{name}/{index}"
    return pointer
