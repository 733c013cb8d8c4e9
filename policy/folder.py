"""The rules folder → the texts of its files, by their paths inside it.

Owns the only reading of rule files from disk, and where the folder is looked for.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from policy.errors import Fault, RulesInvalid

if TYPE_CHECKING:
    from collections.abc import Iterator

TEST_SUFFIX: Final = "_test.yaml"
MAX_FILES: Final = 2000
MAX_DEPTH: Final = 8
"""Folders inside each other: links may lead back."""


@dataclass(frozen=True, slots=True)
class Sources:
    """The texts of a rules folder: ``rules`` decide, ``cases`` stand beside them and test them."""

    rules: dict[str, str] = field(default_factory=dict)
    cases: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, text: str) -> None:
        """Keep a file's text by its path inside the folder."""
        (self.cases if name.endswith(TEST_SUFFIX) else self.rules)[name] = text


def default_folder() -> Path:
    """``rules/`` where one works, else the rules that came with the package."""
    here = Path("rules")
    return here if (here / "releases.yaml").is_file() else Path(__file__).resolve().parent.parent / "rules"


def _files(folder: Path) -> Iterator[Path]:
    """The files below a folder that are not hidden; Kubernetes makes of a folder in a ConfigMap a link into a hidden one."""
    for place, folders, names in os.walk(folder, followlinks=True):
        above = Path(place)
        deep = len(above.relative_to(folder).parts) >= MAX_DEPTH
        folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
        yield from (above / name for name in sorted(names) if not name.startswith(".") and (above / name).is_file())


def read_folder(folder: Path) -> Sources:
    """The YAML files under ``folder``; hidden ones and what is no YAML are left out.

    Paths, those of faults too, are seen from the folder.

    Raises:
        RulesInvalid: the folder is not there or too large, or a file cannot be read as UTF-8.
    """
    if not folder.is_dir():
        raise RulesInvalid([Fault("", 1, 1, "no such folder; name one with `--rules` or RUNNER_POLICY_RULES")])
    sources = Sources()
    faults = []
    for path in _files(folder):
        name = path.relative_to(folder).as_posix()
        if path.suffix == ".yml":
            faults.append(Fault(name, 1, 1, "rule files end in `.yaml`; rename it"))
        if path.suffix != ".yaml":
            continue
        try:
            text = path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            faults.append(Fault(name, 1, 1, f"cannot be read: {error}"))
            continue
        sources.add(name, text)
    if len(sources.rules) > MAX_FILES:
        faults.append(Fault("", 1, 1, f"more than {MAX_FILES} rule files"))
    if faults:
        raise RulesInvalid(faults)
    return sources
