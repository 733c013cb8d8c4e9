"""Files that other processes watch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def replace_file(file: Path, text: str) -> None:
    """Write a file as an editor does: a new file is renamed to it, so no reader sees it half written."""
    part = file.with_name(f".{file.name}.swp")
    part.write_text(text)
    part.replace(file)
