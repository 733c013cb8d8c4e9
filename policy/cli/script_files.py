"""Files that are neither JSON nor YAML, as manifests: shell scripts, systemd services; Nomad's HCL is not read."""

from __future__ import annotations

import re
from posixpath import basename
from typing import TYPE_CHECKING, Any, Final

from policy.cli.requests import Unreadable, load_text, parse_documents
from policy.escaping import escape_line

if TYPE_CHECKING:
    from pathlib import Path

    from policy.cli.requests import Trees

SCRIPT: Final = ".sh"
SERVICE: Final = ".service"
CONTAINER: Final = ".container"
"""The units of Podman, which systemd turns into services."""
NOMAD: Final = (".nomad", ".nomad.hcl")
ENDINGS: Final = (SCRIPT, SERVICE, CONTAINER, *NOMAD)
ENVIRONMENT_FILE: Final = re.compile(r"^[ \t]*EnvironmentFile[ \t]*=[ \t]*-?([^\n]*)$", re.MULTILINE)
MAX_ENVIRONMENT: Final = 1_000_000
MAX_ENVIRONMENT_FILES: Final = 100
OTHER_SHELL: Final = re.compile(r"#![^\n]*\b(?:python[0-9.]*|perl|ruby|node|fish|tclsh|pwsh)\b")
"""Matches the first line of a script that no shell of the Bourne family runs."""


def documents_of(path: Path, text: str, root: Path | None = None, trees: Trees | None = None) -> list[Any]:
    """The documents in a file's text; the files of variables that a service names have to be in ``root``.

    The trees of YAML documents are appended to ``trees``, if it is given.

    Raises:
        Unreadable: it cannot be read.
    """
    name = path.name
    if name.endswith(SCRIPT):
        return [] if OTHER_SHELL.match(text) else [{"script": text}]
    if name.endswith((SERVICE, CONTAINER)):
        return [{"unit": text, "environment_files": _environment_files(path, text, root or path.parent)}]
    if name.endswith(NOMAD):
        shown = escape_line(str(path))
        command = f"nomad job run -output {shown} | runner-policy decide -"
        raise Unreadable(f"{shown}: HCL is not read; run `{command}`, which reads the job as JSON")
    return parse_documents(text, str(path), trees)


def _environment_files(path: Path, text: str, root: Path) -> dict[str, str]:
    """The texts of the files that a service names and that are beside it, by their names."""
    found: dict[str, str] = {}
    for named in ENVIRONMENT_FILE.findall(text)[:MAX_ENVIRONMENT_FILES]:
        name = basename(named.strip())
        file = path.parent / name
        try:
            if name and file.is_file() and file.resolve().is_relative_to(root.resolve()):
                found[name] = load_text(file, MAX_ENVIRONMENT)
        except (OSError, RuntimeError, ValueError):
            continue
    return found
