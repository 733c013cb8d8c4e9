"""Rules as they stand in a git revision, or in a folder → the texts of their files.

Owns the reading of a repository's objects; nothing is checked out, and no program is run.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dulwich.errors import NotGitRepository
from dulwich.object_store import iter_tree_contents
from dulwich.objects import Commit, Tag
from dulwich.objectspec import parse_commit, parse_object
from dulwich.repo import Repo

from policy.errors import Fault, PolicyError, RulesInvalid, quoted
from policy.folder import MAX_FILES, Sources, read_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

SUFFIX = ".yaml"


class NoRevision(PolicyError):
    """What was named is neither a folder nor a revision."""


def read_revision(name: str, folder: Path) -> Sources:
    """The rules that ``name`` calls: a folder, or a revision of the repository in which ``folder`` lies, read there.

    Raises:
        NoRevision: there is neither; or the folder lies in no repository, or is not in the revision.
        RulesInvalid: a file of it is not UTF-8, or there are too many.
    """
    if Path(name).is_dir():
        return read_folder(Path(name))
    try:
        with Repo.discover(str(folder.resolve())) as repository:
            within = folder.resolve().relative_to(Path(repository.path).resolve()).as_posix()
            return read_commit(repository, name, "" if within == "." else f"{within}/")
    except (NotGitRepository, ValueError) as error:
        raise NoRevision(f"{quoted(name)} is no folder, and {folder} lies in no git repository whose revision it could be") from error


def read_commit(repository: Repo, name: str, within: str) -> Sources:
    """The rules of a revision, from the folder ``within``, which ends in a slash, or is nothing for all of it.

    Raises:
        NoRevision: there is none of that name, or the folder is not in it.
        RulesInvalid: a file of it is not UTF-8, or there are too many.
    """
    return _sources(dict(_files(repository, name, within)), name)


def _files(repository: Repo, name: str, within: str) -> Iterator[tuple[str, bytes]]:
    try:
        found = parse_object(repository, name.encode())
        commit = parse_commit(repository, found) if isinstance(found, Commit | Tag) else None
    except (KeyError, ValueError):
        commit = None
    if commit is None:
        raise NoRevision(f"{quoted(name)} is neither a folder nor a revision of {repository.path}; name a branch, a tag or a commit")
    for entry in iter_tree_contents(repository.object_store, commit.tree):
        path = entry.path.decode("utf-8", "surrogateescape")
        inside = path.removeprefix(within)
        if path.startswith(within) and inside.endswith(SUFFIX) and not any(part.startswith(".") for part in inside.split("/")):
            yield inside, repository.object_store[entry.sha].as_raw_string()


def _sources(files: dict[str, bytes], name: str) -> Sources:
    if not files:
        raise NoRevision(f"{quoted(name)} has no rules in this folder")
    if len(files) > 2 * MAX_FILES:
        raise RulesInvalid([Fault("", 1, 1, f"more than {MAX_FILES} rule files in {quoted(name)}")])
    sources = Sources()
    faults = []
    for path, data in files.items():
        try:
            sources.add(path, data.decode())
        except UnicodeDecodeError as error:
            faults.append(Fault(path, 1, 1, f"in {quoted(name)} it cannot be read: {error}"))
    if faults:
        raise RulesInvalid(faults)
    return sources
