"""Read rule files from a git revision or a folder.

Owns the reading of a repository's objects: nothing is checked out, and no program is run. As with folders, an
incomplete tree is refused.
"""

from __future__ import annotations

import re
import stat
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

from dulwich.errors import NotGitRepository
from dulwich.objects import S_ISGITLINK, Blob, Commit, ObjectID, ShaFile, Tag, Tree
from dulwich.objectspec import parse_commit, parse_object
from dulwich.refs import Ref
from dulwich.repo import Repo

from policy.errors import Fault, PolicyError, RulesInvalid
from policy.messages import quoted
from policy.parser.files import kind_of
from policy.parser.yamltree import MAX_BYTES
from policy.rules.loader import (
    MAX_DEPTH,
    MAX_NAMES,
    SUFFIX,
    Sources,
    SourcesReader,
    is_printable,
    is_yaml,
    printable,
    read_folder,
)

Kind = TypeVar("Kind", bound=ShaFile)
REVISION: Final = re.compile(r"refs/.*|[0-9a-f]{40}|[0-9a-f]{64}", re.DOTALL)
PATH: Final = re.compile(r"/|\.\.?(/|$)")
REFS: Final = ("refs/{}", "refs/tags/{}", "refs/heads/{}", "refs/remotes/{}", "refs/remotes/{}/HEAD")
"""The refs that git tries for a name."""


class RevisionNotFound(PolicyError):
    """The name is neither a folder nor a revision."""


class AmbiguousRevision(PolicyError):
    """The name is both a folder and a revision."""


class ObjectUnreadable(PolicyError):
    """An object of a repository is missing, damaged or not of the expected kind."""


def read_revision(name: str, folder: Path) -> Sources:
    """The rules that ``name`` refers to: a folder, or ``folder`` in a revision of its repository.

    A path such as ``./main`` or ``/rules`` is always a folder; ``refs/…`` and a full commit id are always a revision.

    Raises:
        AmbiguousRevision: there are both a folder and a revision of this name.
        RevisionNotFound: there is neither, ``folder`` is not in a repository, or the revision does not contain it.
        RulesInvalid: a file is not UTF-8, there are too many, or the tree is incomplete.
    """
    if not REVISION.fullmatch(name) and _is_folder(name):
        revision = None if PATH.match(name) else _revision(name, folder)
        if revision is not None:
            raise AmbiguousRevision(
                f"{quoted(name)} is both a folder and a revision; write {quoted(f'./{name}')} for the folder, or "
                f"{quoted(revision)} for the revision"
            )
        return read_folder(Path(name))
    try:
        with Repo.discover(str(folder.resolve())) as repository:
            within = folder.resolve().relative_to(Path(repository.path).resolve()).as_posix()
            return read_commit(repository, name, "" if within == "." else f"{within}/")
    except (NotGitRepository, ValueError, RuntimeError, OSError) as error:  # RuntimeError: a link to itself
        raise RevisionNotFound(
            f"{quoted(name)} is not a folder, and {folder} is not in a git repository whose revision it could be"
        ) from error


def _is_folder(name: str) -> bool:
    try:
        return Path(name).is_dir()
    except OSError:  # reading the folder reports why
        return True


def _revision(name: str, folder: Path) -> str | None:
    """The commit id of the revision ``name`` in the folder's repository, or a ref of this name; else ``None``."""
    try:
        with Repo.discover(str(folder.resolve())) as repository:
            try:
                return _commit(repository, name).id.decode()
            except RevisionNotFound:  # the commit of a branch may not be fetched: the name is still ambiguous
                refs = (template.format(name) for template in REFS)
                return next((ref for ref in refs if Ref(ref.encode()) in repository.refs), None)
    except (NotGitRepository, RuntimeError, OSError):
        return None


def read_commit(repository: Repo, name: str, within: str) -> Sources:
    """The rules of a revision in the folder ``within``, which ends in a slash or is empty for the root.

    Raises:
        RevisionNotFound: there is no such revision, or it does not contain the folder.
        RulesInvalid: a file is not UTF-8, there are too many, or the tree is incomplete.
    """
    commit = _commit(repository, name)
    try:
        tree = _tree_at(repository, commit, PurePosixPath(within).parts)
    except ObjectUnreadable as error:
        raise RulesInvalid([Fault(within.rstrip("/"), 1, 1, str(error))]) from error
    if tree is None:
        raise RevisionNotFound(f"{quoted(name)} has no rules in this folder")
    walk = _TreeWalk(repository)
    walk.tree(tree, "", 0)
    sources = walk.reader.result()
    if not sources.rules and not sources.cases:
        raise RevisionNotFound(f"{quoted(name)} has no rules in this folder")
    return sources


def _commit(repository: Repo, name: str) -> Commit:
    try:
        found = parse_object(repository, name.encode())
        commit = parse_commit(repository, found) if isinstance(found, Commit | Tag) else None
    except Exception:  # noqa: BLE001  # dulwich raises many types for bad names and damaged objects
        commit = None
    if commit is None:
        raise RevisionNotFound(
            f"{quoted(name)} is neither a folder nor a revision of {repository.path}; name a branch, a tag or a commit"
        )
    return commit


def _tree_at(repository: Repo, commit: Commit, parts: tuple[str, ...]) -> Tree | None:
    """The tree of a folder in a commit, or ``None`` if the commit has no such folder.

    Raises:
        ObjectUnreadable: the path is not a folder, or cannot be read.
    """
    tree = read_object(repository, commit.tree, Tree)
    for part in parts:
        name = part.encode("utf-8", "surrogateescape")
        if name not in tree:
            return None
        mode, sha = tree[name]
        if not stat.S_ISDIR(mode):
            raise ObjectUnreadable(f"expected a folder, got {_kind_of(mode)} at {quoted(part)}; name the folder itself")
        tree = read_object(repository, sha, Tree)
    return tree


class _TreeWalk:
    """Reads the files of a tree and its subtrees, and collects every fault."""

    def __init__(self, repository: Repo) -> None:
        self.reader = SourcesReader()
        self._repository = repository
        self._names = 0

    def tree(self, tree: Tree, prefix: str, depth: int) -> None:
        """Read a tree; ``prefix`` is its path, which ends in a slash or is empty."""
        for entry in tree.iteritems(name_order=True):
            name = prefix + entry.path.decode("utf-8", "surrogateescape")
            self._names += 1
            if self._names > MAX_NAMES:
                self.reader.fault("", f"more than {MAX_NAMES} files and folders; keep other files elsewhere")
                return
            if not entry.path.startswith(b"."):
                try:
                    self._entry(name, entry.mode, entry.sha, depth)
                except ObjectUnreadable as error:
                    self.reader.fault(name, str(error))

    def _entry(self, name: str, mode: int, sha: ObjectID, depth: int) -> None:
        suffix = PurePosixPath(name).suffix
        if S_ISGITLINK(mode):
            self.reader.fault(
                name, "a submodule, whose files are in another repository; commit the files here, or remove it"
            )
        elif stat.S_ISLNK(mode):
            if not suffix or is_yaml(suffix):  # it may refer to a folder or a rule, unlike a README
                self.reader.fault(
                    name,
                    "a symbolic link, which is not followed in a git tree; commit the files instead, or remove it",
                )
        elif stat.S_ISDIR(mode):
            self._folder(name, suffix, sha, depth)
        elif not is_yaml(suffix):
            return
        elif not is_printable(name):
            self.reader.fault(name, "the name is not printable UTF-8; rename it")
        elif suffix != SUFFIX:
            self.reader.fault(name, f"rule files end in `{SUFFIX}`; rename it")
        else:
            self._file(name, sha)

    def _folder(self, name: str, suffix: str, sha: ObjectID, depth: int) -> None:
        if is_yaml(suffix):
            self.reader.fault(name, "expected a file, got a folder; rename or remove it")
        elif depth == MAX_DEPTH:
            self.reader.fault(name, f"folders are nested more than {MAX_DEPTH} deep; move it up")
        else:
            self.tree(read_object(self._repository, sha, Tree), f"{name}/", depth + 1)

    def _file(self, name: str, sha: ObjectID) -> None:
        if self.reader.has_room(name, 0):
            data = read_object(self._repository, sha, Blob).data
            if self.reader.has_room(name, len(data)):
                self.reader.add(name, data)


def read_object(repository: Repo, sha: ObjectID, kind: type[Kind]) -> Kind:
    """An object of this kind, read in full.

    Raises:
        ObjectUnreadable: it is missing, damaged, or not of this kind.
    """
    brief = sha.decode("ascii", "replace")[:12]
    remedy = (
        f", or split a rule file of more than {MAX_BYTES:,} bytes, which is not fetched from a remote"
        if kind is Blob
        else ""
    )
    try:
        found = repository.object_store[sha]
        if isinstance(found, Commit):
            _ = found.parents  # parses it; `check` would refuse old commits, such as one whose author has no address
        else:
            found.check()
    except KeyError as error:
        raise ObjectUnreadable(
            f"the object {brief} is missing in {printable(repository.path)}; fetch the whole revision{remedy}"
        ) from error
    except Exception as error:  # damaged objects raise many types of errors, of zlib and dulwich
        raise ObjectUnreadable(
            f"the object {brief} is damaged in {printable(repository.path)}: {error}; run `git fsck`, and fetch again"
        ) from error
    if not isinstance(found, kind):
        raise ObjectUnreadable(
            f"the object {brief} is not of the kind that its entry states; run `git fsck`, and fetch again"
        )
    return found


def _kind_of(mode: int) -> str:
    """The kind of entry that a mode describes, with its article."""
    if S_ISGITLINK(mode):
        return "a submodule"
    return "a file" if stat.S_ISREG(mode) else kind_of(mode)
