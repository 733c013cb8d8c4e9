"""A broken rules folder is refused, with faults that say what was found."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from pathlib import Path, PosixPath
from typing import TYPE_CHECKING, Any

import pytest

from policy.errors import RulesInvalid
from policy.parser.yamltree import MAX_BYTES
from policy.rules.loader import MAX_DEPTH, MAX_NAMES, MAX_TOTAL, Sources, fingerprint, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable

LOOP = (
    f"symbolic links form a loop, or folders are nested more than {MAX_DEPTH} deep; remove a link, or move the "
    "folder up"
)


def bind(path: Path) -> None:
    """Create a socket, by its relative path, because the length of an address is limited."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(os.path.relpath(path))


def link_to_itself(path: Path) -> None:
    path.symlink_to(path.name)


def write(path: Path, size: int) -> None:
    path.write_bytes(b"#" * size)


def nested(path: Path) -> None:
    """A rule at the maximum depth of folders."""
    deepest = path.joinpath(*map(str, range(MAX_DEPTH)))
    deepest.mkdir(parents=True)
    (deepest / "a.yaml").touch()


OUTSIDE = "a symbolic link to a file outside of the folder, which is not read; copy the file"


def link_by_way_of(link: str, target: str) -> Callable[[Path], object]:
    """Write a link to a path, and a link by way of it."""

    def write_links(path: Path) -> None:
        (path.parent / link).symlink_to(target)
        path.symlink_to(link if link.startswith(".b") else f"{link}/passwd")

    return write_links


def link_that_climbs(path: Path) -> None:
    """A link to a file that is another one once the links to folders in its path are followed."""
    (path.parent / ".b").symlink_to("/usr/share")
    (path.parents[1] / "etc").mkdir()
    (path.parents[1] / "etc" / "passwd").symlink_to("../releases.yaml")
    path.symlink_to(".b/../../etc/passwd")


BROKEN: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "dangling file": (
        "house/a.yaml",
        lambda path: path.symlink_to("nowhere"),
        "a symbolic link to `nowhere`, which does not exist; restore that, or remove the link",
    ),
    "dangling folder": (
        "other",
        lambda path: path.symlink_to("/nowhere/house"),
        "a symbolic link to `/nowhere/house`, which does not exist; restore that, or remove the link",
    ),
    "link to itself": ("house/a.yaml", link_to_itself, LOOP),
    "folder that links to itself": ("other", link_to_itself, LOOP),
    "link to the folder": ("house/again", lambda path: path.symlink_to(".."), LOOP),
    "named pipe": ("house/a.yaml", os.mkfifo, "expected a file, got a named pipe; rename or remove it"),
    "socket": ("house/a.yaml", bind, "expected a file, got a socket; rename or remove it"),
    "device": (
        "house/a.yaml",
        lambda path: path.symlink_to("/dev/null"),
        "expected a file, got a device; rename or remove it",
    ),
    "folder": ("house/a.yaml", lambda path: path.mkdir(), "expected a file, got a folder; rename or remove it"),
    "folder of cases": (
        "house/a_test.yaml",
        lambda path: path.mkdir(),
        "expected a file, got a folder; rename or remove it",
    ),
    "other ending": ("house/a.yml", lambda path: path.touch(), "rule files end in `.yaml`; rename it"),
    "ending in capitals": ("house/a.YAML", lambda path: path.touch(), "rule files end in `.yaml`; rename it"),
    "other ending in capitals": ("house/a.Yml", lambda path: path.touch(), "rule files end in `.yaml`; rename it"),
    "name that is not UTF-8": (
        os.fsdecode(b"house/\xff.yaml"),
        lambda path: path.touch(),
        "the name is not printable UTF-8; rename it",
    ),
    "name with a line break": (
        "house/a\nb.yaml",
        lambda path: path.touch(),
        "the name is not printable UTF-8; rename it",
    ),
    "large file": (
        "house/a.yaml",
        lambda path: write(path, MAX_BYTES + 1),
        f"expected at most {MAX_BYTES} bytes, got {MAX_BYTES + 1}; split the file",
    ),
    "link to a file elsewhere": ("house/a.yaml", lambda path: path.symlink_to("/etc/passwd"), OUTSIDE),
    "link out of the folder": ("a.yaml", lambda path: path.symlink_to("../../../../../../etc/hostname"), OUTSIDE),
    "link to a hidden link": ("house/a.yaml", link_by_way_of(".b.yaml", "/etc/passwd"), OUTSIDE),
    "link by way of a folder": ("house/a.yaml", link_by_way_of(".etc", "/etc"), OUTSIDE),
    "link that climbs from a hidden link": ("house/a.yaml", link_that_climbs, OUTSIDE),
    "file without a size": (
        "house/a.yaml",
        lambda path: path.symlink_to("/proc/kallsyms"),
        OUTSIDE,
    ),
    "not UTF-8": (
        "house/a.yaml",
        lambda path: path.write_bytes(b"\xff"),
        "cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: invalid start byte",
    ),
}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small folder of rules in the working directory."""
    monkeypatch.chdir(tmp_path)
    found = tmp_path / "rules"
    (found / "house").mkdir(parents=True)
    (found / "releases.yaml").write_text("known: []")
    return found


def faults_of(folder: Path) -> list[tuple[str, str]]:
    with pytest.raises(RulesInvalid) as raised:
        read_folder(folder)
    return [(fault.path, fault.message) for fault in raised.value.faults]


@pytest.mark.parametrize("kind_of_file", BROKEN)
def test_a_broken_folder_is_refused_with_what_was_found(folder: Path, kind_of_file: str) -> None:
    name, break_, message = BROKEN[kind_of_file]
    break_(folder / name)
    shown = {"name that is not UTF-8": "house/\\xff.yaml", "name with a line break": "house/a\\nb.yaml"}.get(
        kind_of_file, name
    )
    assert faults_of(folder) == [(shown, message)]


def test_folders_are_read_up_to_a_maximum_depth(folder: Path) -> None:
    nested(folder)
    assert read_folder(folder).rules["/".join([*map(str, range(MAX_DEPTH)), "a.yaml"])] == ""
    nested(folder / "0")
    assert faults_of(folder) == [("/".join(["0", *map(str, range(MAX_DEPTH))]), LOOP)]


def test_hidden_files_and_files_of_other_kinds_are_ignored(folder: Path) -> None:
    os.mkfifo(folder / "README.md")
    os.mkfifo(folder / ".a.yaml")
    (folder / ".b.yaml").symlink_to("nowhere")
    (folder / ".git").symlink_to(".git")
    assert read_folder(folder) == Sources({"releases.yaml": "known: []"})


def test_links_to_files_and_folders_are_followed(folder: Path, tmp_path: Path) -> None:
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside" / "a.yaml").write_text("a")
    (folder / "one").symlink_to("../beside")
    (folder / "two").symlink_to(tmp_path / "beside")
    (folder / "b.yaml").symlink_to("one/a.yaml")
    assert read_folder(folder).rules == {
        "releases.yaml": "known: []",
        "b.yaml": "a",
        "one/a.yaml": "a",
        "two/a.yaml": "a",
    }


def test_the_total_size_of_the_files_of_a_folder_is_limited(folder: Path) -> None:
    for number in range(MAX_TOTAL // MAX_BYTES + 1):
        write(folder / f"{number}.yaml", MAX_BYTES)
    assert faults_of(folder) == [
        ("", f"the rule files have more than {MAX_TOTAL} bytes in total; remove files that are not rules")
    ]


def test_the_number_of_names_behind_links_is_limited(folder: Path) -> None:
    for number in range(MAX_DEPTH):
        below = folder / "many" / str(number)
        below.mkdir(parents=True)
        for name in range(6):
            (below / str(name)).symlink_to(f"../{number + 1}")
    (folder / "many" / str(MAX_DEPTH)).mkdir()
    (folder / "many" / str(MAX_DEPTH) / "a.yaml").touch()
    assert ("", f"more than {MAX_NAMES} files and folders; keep other files elsewhere") in faults_of(folder)


class GrowingPath(PosixPath):
    """A path whose file `a.yaml` has another size when it is read than when it was listed."""

    grown = 0

    def stat(self, **options: Any) -> os.stat_result:
        state = super().stat(**options)
        if self.name == "a.yaml":
            write(self, self.grown)
        return state


@pytest.mark.parametrize("size", [MAX_BYTES, MAX_BYTES + 1])
def test_a_file_that_grows_while_it_is_read_is_read_up_to_the_limit(
    folder: Path, size: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(GrowingPath, "grown", size)
    (folder / "house" / "a.yaml").touch()
    if size > MAX_BYTES:
        message = f"cannot be read: larger than the {MAX_BYTES} bytes allowed for a rule file; split it"
        assert faults_of(GrowingPath(folder)) == [("house/a.yaml", message)]
    else:
        assert read_folder(GrowingPath(folder)).rules["house/a.yaml"] == "#" * size


@pytest.mark.parametrize(
    ("name", "message"), [("a.yaml", "cannot be read: Permission denied"), ("", "cannot be read: Permission denied")]
)
def test_a_file_or_folder_without_read_permission_is_a_fault(folder: Path, name: str, message: str) -> None:
    (folder / "house" / "a.yaml").touch()
    (folder / "house" / name).chmod(0)
    environment = {
        name: text for name, text in os.environ.items() if not name.startswith("COV")
    }  # the user `nobody` may not write coverage's files
    found = subprocess.run(
        [sys.executable, "-c", AS_NOBODY, str(folder)], env=environment, capture_output=True, text=True, check=False
    )
    (folder / "house" / name).chmod(0o755)
    expected = f"house/{name}".rstrip("/") + f":1:1: {message}; give the service the right to read it\n"
    assert (found.stdout, found.stderr) == (expected, "")


AS_NOBODY = """
import os, sys
from pathlib import Path
from policy.errors import RulesInvalid
from policy.rules.loader import read_folder
os.chdir(sys.argv[1])
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
try:
    print(read_folder(Path(".")))
except RulesInvalid as error:
    print(error)
"""


def test_the_links_of_a_mounted_config_map_are_followed(folder: Path) -> None:
    (folder / "house" / "..2026").mkdir()
    (folder / "house" / "..2026" / "a.yaml").write_text("a")
    (folder / "house" / "..data").symlink_to("..2026")
    (folder / "house" / "a.yaml").symlink_to("..data/a.yaml")
    (folder / "b.yaml").symlink_to((folder / "house" / "a.yaml").absolute())
    assert read_folder(folder).rules == {"releases.yaml": "known: []", "house/a.yaml": "a", "b.yaml": "a"}


def test_a_fingerprint_changes_with_every_file_even_behind_links(folder: Path, tmp_path: Path) -> None:
    beside = tmp_path / "beside"
    (folder / "one").symlink_to(beside)
    seen = [fingerprint(folder)]
    beside.mkdir()
    seen.append(fingerprint(folder))
    (beside / "a.yaml").write_text("a")
    seen.append(fingerprint(folder))
    (beside / "a.yaml").write_text("ab")
    seen.append(fingerprint(folder))
    assert len(set(seen)) == len(seen)
    assert fingerprint(folder) == seen[-1]
