"""A broken tree of a revision is refused like a broken folder, with faults that say what was found."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from dulwich.objects import Blob, Commit, ObjectID, Tree
from dulwich.refs import Ref
from dulwich.repo import Repo

from policy.errors import RulesInvalid
from policy.parser.yamltree import MAX_BYTES
from policy.rules.git import RevisionNotFound, read_commit
from policy.rules.loader import MAX_DEPTH, MAX_TOTAL, Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

FILE, FOLDER, LINK, SUBMODULE = 0o100644, 0o040000, 0o120000, 0o160000
NOWHERE = ObjectID(b"1" * 40)
HEAD = Ref(b"refs/heads/main")


class Repository:
    """A bare repository with one commit, whose ``rules/`` has ``releases.yaml`` and added entries."""

    def __init__(self, path: Path) -> None:
        self.git = Repo.init_bare(str(path), mkdir=True)
        self.root, self.rules = Tree(), Tree()
        self.rules.add(b"releases.yaml", FILE, self.blob(b"known: []"))

    def blob(self, data: bytes) -> ObjectID:
        made = Blob.from_string(data)
        self.git.object_store.add_object(made)
        return made.id

    def tree(self, name: bytes, mode: int, sha: ObjectID) -> ObjectID:
        """A folder with one entry."""
        made = Tree()
        made.add(name, mode, sha)
        self.git.object_store.add_object(made)
        return made.id

    def commit(self, tree: ObjectID | None = None) -> str:
        """Commit ``rules/``, or another tree."""
        if tree is None:
            self.git.object_store.add_object(self.rules)
            self.root.add(b"rules", FOLDER, self.rules.id)
            self.git.object_store.add_object(self.root)
        made = Commit()
        made.tree, made.parents = tree or self.root.id, []
        made.author = made.committer = b"A Committer <committer@example.org>"
        made.author_time = made.commit_time = 1_790_000_000
        made.author_timezone = made.commit_timezone = 0
        made.message = b"rules\n"
        self.git.object_store.add_object(made)
        self.git.refs[HEAD] = made.id
        return made.id.decode()

    def damage(self, sha: ObjectID, data: bytes = b"nothing that zlib knows") -> None:
        """Overwrite the file of an object."""
        path = Path(self.git.path, "objects", sha[:2].decode(), sha[2:].decode())
        path.chmod(0o644)
        path.write_bytes(data)


@pytest.fixture
def repository(tmp_path: Path) -> Iterator[Repository]:
    made = Repository(tmp_path / "remote.git")
    yield made
    made.git.close()


def nested(repository: Repository) -> ObjectID:
    """A rule that is nested one folder too deep."""
    sha = repository.tree(b"a.yaml", FILE, repository.blob(b"a"))
    for number in range(MAX_DEPTH):
        sha = repository.tree(str(number).encode(), FOLDER, sha)
    return sha


MISSING = "the object 111111111111 is missing in "
BrokenEntry = tuple[bytes, int, "Callable[[Repository], ObjectID]", str]
BROKEN: dict[str, BrokenEntry] = {
    "submodule": (
        b"house",
        SUBMODULE,
        lambda _: NOWHERE,
        "house:1:1: a submodule, whose files are in another repository; commit the files here, or remove it",
    ),
    "submodule as a file": (b"a.yaml", SUBMODULE, lambda _: NOWHERE, "a.yaml:1:1: a submodule"),
    "link to a folder": (
        b"house",
        LINK,
        lambda r: r.blob(b"../other"),
        "house:1:1: a symbolic link, which is not followed in a git tree; commit the files instead",
    ),
    "link to a file": (b"a.yaml", LINK, lambda r: r.blob(b"b.yaml"), "a.yaml:1:1: a symbolic link"),
    "link that is missing": (b"a.yaml", LINK, lambda _: NOWHERE, "a.yaml:1:1: a symbolic link"),
    "blob that is missing": (b"a.yaml", FILE, lambda _: NOWHERE, f"a.yaml:1:1: {MISSING}"),
    "tree that is missing": (b"house", FOLDER, lambda _: NOWHERE, f"house:1:1: {MISSING}"),
    "tree as a file": (
        b"a.yaml",
        FOLDER,
        lambda r: r.tree(b"b.yaml", FILE, r.blob(b"b")),
        "a.yaml:1:1: expected a file, got a folder; rename or remove it",
    ),
    "blob as a tree": (
        b"house",
        FOLDER,
        lambda r: r.blob(b"b"),
        "house:1:1: the object 63d8dbd40c23 is not of the kind that its entry states; run `git fsck`",
    ),
    "tree as a blob": (b"a.yaml", FILE, lambda r: r.tree(b"b.yaml", FILE, r.blob(b"b")), "a.yaml:1:1: the object "),
    "other ending": (b"a.yml", FILE, lambda r: r.blob(b"a"), "a.yml:1:1: rule files end in `.yaml`; rename it"),
    "ending in capitals": (b"a.YAML", FILE, lambda r: r.blob(b"a"), "a.YAML:1:1: rule files end in `.yaml`; rename it"),
    "name that is not UTF-8": (
        b"\xff.yaml",
        FILE,
        lambda r: r.blob(b"a"),
        "\\xff.yaml:1:1: the name is not printable UTF-8; rename it",
    ),
    "large blob": (
        b"a.yaml",
        FILE,
        lambda r: r.blob(b"#" * (MAX_BYTES + 1)),
        f"a.yaml:1:1: expected at most {MAX_BYTES} bytes, got {MAX_BYTES + 1}; split the file",
    ),
    "not UTF-8": (
        b"a.yaml",
        FILE,
        lambda r: r.blob(b"\xff"),
        "a.yaml:1:1: cannot be read: 'utf-8' codec can't decode byte 0xff",
    ),
    "too deep": (
        b"house",
        FOLDER,
        nested,
        (
            f"house/{'/'.join(map(str, reversed(range(1, MAX_DEPTH))))}/0:1:1: folders are nested more than "
            f"{MAX_DEPTH} deep"
        ),
    ),
}


def faults_of(repository: Repository, name: str) -> list[str]:
    with pytest.raises(RulesInvalid) as raised:
        read_commit(repository.git, name, "rules/")
    return [str(fault) for fault in raised.value.faults]


@pytest.mark.parametrize("kind_of_entry", BROKEN)
def test_a_broken_tree_is_refused_with_what_was_found(repository: Repository, kind_of_entry: str) -> None:
    name, mode, made, message = BROKEN[kind_of_entry]
    repository.rules.add(name, mode, made(repository))
    (fault,) = faults_of(repository, repository.commit())
    assert fault[: len(message)] == message


def test_damaged_objects_are_faults(repository: Repository) -> None:
    blob, inner = repository.blob(b"a"), repository.blob(b"b")
    tree = repository.tree(b"b.yaml", FILE, inner)
    repository.rules.add(b"a.yaml", FILE, blob)
    repository.rules.add(b"house", FOLDER, tree)
    commit = repository.commit()
    repository.damage(blob)
    repository.damage(tree, b"")
    found = faults_of(repository, commit)
    assert [fault.partition(" in ")[0] for fault in found] == [
        f"a.yaml:1:1: the object {blob[:12].decode()} is damaged",
        f"house:1:1: the object {tree[:12].decode()} is damaged",
    ]


@pytest.mark.parametrize(("mode", "kind"), [(LINK, "a symbolic link"), (SUBMODULE, "a submodule"), (FILE, "a file")])
def test_a_rules_folder_that_is_not_a_folder_is_a_fault(repository: Repository, mode: int, kind: str) -> None:
    repository.root.add(b"rules", mode, repository.blob(b"elsewhere"))
    repository.git.object_store.add_object(repository.root)
    assert faults_of(repository, repository.commit(repository.root.id)) == [
        f"rules:1:1: expected a folder, got {kind} at `rules`; name the folder itself"
    ]


def test_a_commit_without_its_tree_is_a_fault(repository: Repository) -> None:
    (fault,) = faults_of(repository, repository.commit(NOWHERE))
    assert fault.startswith(f"rules:1:1: {MISSING}")


def test_hidden_entries_and_entries_of_other_kinds_are_ignored(repository: Repository) -> None:
    repository.rules.add(b"README.md", LINK, NOWHERE)
    repository.rules.add(b"notes.txt", FILE, NOWHERE)
    repository.rules.add(b".github", FOLDER, NOWHERE)
    repository.rules.add(b".a.yaml", FILE, NOWHERE)
    assert read_commit(repository.git, repository.commit(), "rules/") == Sources({"releases.yaml": "known: []"})


def test_the_total_size_of_the_files_of_a_revision_is_limited(repository: Repository) -> None:
    for number in range(MAX_TOTAL // MAX_BYTES + 1):
        repository.rules.add(f"{number}.yaml".encode(), FILE, repository.blob(b"#" * MAX_BYTES))
    assert faults_of(repository, repository.commit()) == [
        f":1:1: the rule files have more than {MAX_TOTAL} bytes in total; remove files that are not rules"
    ]


@pytest.mark.parametrize(
    "name",
    [
        "",
        "none",
        "HEAD^^",
        "HEAD~9",
        "HEAD:rules",
        "HEAD^{tree}",
        "@{-1}",
        "a..b",
        "HEAD@{1}",
        ":/x",
        "1" * 40,
        "\udcff",
        "a\0b",
    ],
)
def test_an_unknown_revision_is_an_error(repository: Repository, name: str) -> None:
    repository.commit()
    with pytest.raises(RevisionNotFound):
        read_commit(repository.git, name, "rules/")
