"""Folders of manifests, and projects that a tool has to render before they can be read.

A folder is read as `kubectl apply -f` does: its files with a known ending, in the order of their names. A folder of
Kustomize, Helm or Compose is rendered only if the user allows it; otherwise the command says what to run.
"""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NoReturn

from msgspec import Struct, structs

from policy.cli import script_files
from policy.cli.console import USAGE, err, fail
from policy.cli.requests import MAX_FILE, Unreadable, load_text, parse_documents
from policy.escaping import escape_line
from policy.messages import counted
from policy.problems import TYPE_PREFIX, Problem, problem
from policy.request.documents import join_documents
from policy.request.items import ManifestDecision
from policy.request.manifest import name_of as manifest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.cli.requests import Trees

ENDINGS: Final = (".json", ".yaml", ".yml", *script_files.ENDINGS)
"""The endings of the files that `kubectl apply -f FOLDER` reads, and of scripts."""
MAX_FILES: Final = 10_000
MAX_DEPTH: Final = 64
"""The maximum depth of folders that are read in a folder."""
RENDER_SECONDS: Final = 120
RENDERING_COMMANDS: Final = frozenset({"compare", "decide", "impact", "pins"})
"""The commands that have the option `--render`."""
COMPOSE_FILES: Final = ("compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml")
"""The names of a Compose file, in the order in which Compose looks for them."""
COMPOSE_OVERRIDES: Final = tuple(name.replace("compose.y", "compose.override.y") for name in COMPOSE_FILES)


class Renderer(Struct, frozen=True):
    """A tool that renders a folder: what such a folder is called, the files that mark it, and the command."""

    project: str
    files: tuple[str, ...]
    command: tuple[str, ...]
    needs: Callable[[Path], bool] = lambda _: True
    """Whether a folder with one of the files needs the tool."""

    def fits(self, folder: Path) -> bool:
        """Whether the tool has to render a folder."""
        return any((folder / name).is_file() for name in self.files) and self.needs(folder)

    def arguments(self, folder: Path) -> list[str]:
        """The whole command for a folder."""
        path = str(folder)
        path = f"./{path}" if path.startswith("-") else path  # otherwise the tool would read it as an option
        return [path if word == FOLDER else word for word in self.command]


def _has_other_compose_files(folder: Path) -> bool:
    """Whether an override, or a file of variables that the Compose file refers to, changes what it means."""
    if any((folder / name).is_file() for name in COMPOSE_OVERRIDES):
        return True
    texts = (load_text(folder / name) for name in COMPOSE_FILES if (folder / name).is_file())
    return (folder / ".env").is_file() and any("$" in text for text in texts)


FOLDER: Final = "FOLDER"
RENDERERS: Final = (
    Renderer("Kustomize", ("kustomization.yaml", "kustomization.yml", "Kustomization"), ("kustomize", "build", FOLDER)),
    Renderer("Helm", ("Chart.yaml",), ("helm", "template", FOLDER)),
    Renderer(
        "Compose",
        COMPOSE_FILES,
        ("docker", "compose", "--project-directory", FOLDER, "config"),
        _has_other_compose_files,
    ),
)


class FilePlace(Struct, frozen=True):
    """Where a document was found: its file, relative to the folder, and its path in the file's documents."""

    file: str
    path: str

    def path_of(self, rest: str) -> str:
        """A path below the document, in its file."""
        return f"{self.path}{rest}".removeprefix(".")


class FileDecision(ManifestDecision, frozen=True, kw_only=True):
    """An engine of a folder: its file relative to the folder, and its path in the file."""

    file: str


class NothingFound(Unreadable):
    """A folder without a file that is read."""


class UnreadFile(Struct, frozen=True):
    """A file or folder that cannot be read: its path, why, and where in it if that is known.

    ``lines`` has the messages that a command prints. ``is_unread``: whether there is no whole text, or more of it than
    is read.
    """

    file: str
    message: str
    lines: tuple[str, ...]
    line: int = 0
    column: int = 0
    is_unread: bool = False


class FolderContents(Struct, frozen=True):
    """The documents of a folder with their places, and the files that cannot be read."""

    documents: list[Any]
    places: list[FilePlace]
    unread: list[UnreadFile]

    @property
    def messages(self) -> list[str]:
        """Why files cannot be read, each line with a file."""
        return [line for each in self.unread for line in each.lines]

    def name_of(self, path: str) -> str:
        """A name for a path such as ``[3].spec``: the file, and the object's name or the path in the file."""
        place, rest = self._split(path)
        name = manifest_name(self.documents, path)
        return f"{place.file}: {place.path_of(rest) if name == path else name}".removesuffix(": ")

    def placed(self, item: ManifestDecision) -> FileDecision:
        """An item with its file, and with its path in that file."""
        place, rest = self._split(item.path)
        item = structs.replace(item, path=place.path_of(rest))
        return FileDecision(**{name: getattr(item, name) for name in item.__struct_fields__}, file=place.file)

    def placed_problem(self, path: str, found: Problem) -> Problem:
        """A problem with an engine, with the pointers of its faults in the file."""
        place, _ = self._split(path)
        before = f"/manifest/{path.removeprefix('[').partition(']')[0]}"
        within = place.path.replace("[", "/").replace("]", "")
        faults = [
            structs.replace(fault, pointer=within + fault.pointer.removeprefix(before))
            if fault.pointer.startswith(before)
            else fault
            for fault in found.errors
        ]
        return problem(found.type.removeprefix(TYPE_PREFIX), faults)

    def _split(self, path: str) -> tuple[FilePlace, str]:
        index, _, rest = path.removeprefix("[").partition("]")
        return self.places[int(index)], rest


def read_source(file: str, *, recursive: bool, render: bool, command: str = "decide") -> Any | FolderContents:
    """The document in a file or standard input, or what a folder contains; the command fails if it cannot be read.

    With ``recursive`` subfolders are read too. With ``render`` the tool of a project is run, and its output is the
    document; without it the command fails and says what to run.
    """
    try:
        return load_source(file, recursive=recursive, render=render, command=command)
    except Unreadable as error:
        fail(USAGE, *error.lines)


def load_source(
    file: str, *, recursive: bool, render: bool, command: str = "decide", trees: Trees | None = None
) -> Any | FolderContents:
    """What ``read_source`` returns; the trees of the documents are appended to ``trees``, if it is given.

    Raises:
        Unreadable: it cannot be read, or is a project that has to be rendered for this ``command``.
    """
    path = Path(file)
    try:
        folder = path if path.is_dir() else path.parent
        renderer = None if file == "-" else _renderer_of(path, folder)
    except (OSError, ValueError) as error:
        raise Unreadable(f"{escape_line(file)}: cannot be read: {error}") from error
    if renderer is not None:
        return _render(renderer, folder, command) if render else _advise(renderer, folder, command)
    if render:
        names = ", ".join(n for r in RENDERERS for n in r.files)
        raise Unreadable(f"{escape_line(file)}: found nothing to render: no {names}")
    if path.is_dir():
        return _read_folder(path, recursive=recursive, trees=trees)
    if file.endswith(script_files.ENDINGS):
        documents = script_files.documents_of(path, load_text(path, pipes=True))
        return documents[0] if documents else []
    with err.working(f"reading {escape_line(file)}"):
        return join_documents(parse_documents(load_text(file, pipes=True), file, trees))


def advise_rendering(file: str, command: str) -> None:
    """Fail if a file has to be rendered by a tool and the ``command`` renders none, and say which tool."""
    path = Path(file)
    try:
        renderer = None if file == "-" else _renderer_of(path, path.parent)
        if renderer is not None:
            _advise(renderer, path.parent, command)
    except Unreadable as error:
        fail(USAGE, *error.lines)
    except (OSError, ValueError) as error:
        fail(USAGE, f"{escape_line(file)}: cannot be read: {error}")


def _renderer_of(path: Path, folder: Path) -> Renderer | None:
    return next(
        (each for each in RENDERERS if each.fits(folder) and (path.is_dir() or path.name in each.files)),
        None,
    )


def _advise(renderer: Renderer, folder: Path, command: str) -> NoReturn:
    tool = escape_line(" ".join(renderer.arguments(folder)))
    option = ", or add `--render`, which runs that command" if command in RENDERING_COMMANDS else ""
    raise Unreadable(
        f"{escape_line(str(folder))}: {renderer.project} has to render it; "
        f"run `{tool} | runner-policy {command} -`{option}"
    )


def _render(renderer: Renderer, folder: Path, command: str) -> Any:
    """The document that a tool prints.

    Raises:
        Unreadable: it is not installed, fails or takes too long.
    """
    arguments = renderer.arguments(folder)
    shown = escape_line(" ".join(arguments))
    try:
        with err.working(f"running {shown}"):
            done = subprocess.run(  # noqa: S603  # the user asked for this command
                arguments, stdin=subprocess.DEVNULL, capture_output=True, timeout=RENDER_SECONDS, check=False
            )
    except FileNotFoundError as error:
        advice = f"run `{shown}` elsewhere, and pipe its output to `{command} -`"
        raise Unreadable(f"`{arguments[0]}` is not installed; {advice}") from error
    except subprocess.TimeoutExpired as error:
        raise Unreadable(f"`{shown}` took more than {RENDER_SECONDS} s") from error
    if done.returncode:
        said = escape_line(done.stderr.decode(errors="replace"))
        raise Unreadable(f"`{shown}` failed with exit code {done.returncode}: {said}")
    if len(done.stdout) > MAX_FILE:
        raise Unreadable(f"`{shown}` printed more than {MAX_FILE:,} bytes")
    documents = parse_documents(done.stdout.decode(errors="replace"), f"the output of `{shown}`")
    return documents[0] if len(documents) == 1 else documents


def _read_folder(folder: Path, *, recursive: bool, trees: Trees | None) -> FolderContents:
    """What a folder contains.

    Raises:
        Unreadable: it contains nothing or too much.
    """
    contents = FolderContents([], [], [])
    left, count = MAX_FILE, 0
    root = folder.resolve()
    with err.working(f"reading {escape_line(str(folder))}"):
        for path in _files(folder, contents.unread, recursive=recursive):
            count += 1
            name = escape_line(str(path.relative_to(folder)))
            if (first := _first_compose_file(path)) is not None:
                err.print(
                    f"{escape_line(str(path))}: not read, because Compose takes `{first}`, which is beside it",
                    markup=False,
                )
                continue
            if not _is_within(path, root):
                contents.unread.append(_unread(path, "not read, because the link leads out of the folder"))
                continue
            try:
                text = load_text(path, left)
                left -= len(text.encode())
                found: Trees | None = None if trees is None else []
                documents = script_files.documents_of(path, text, root, found) if text.strip() else []
            except Unreadable as error:
                contents.unread.append(_unread_file(path, error))
                continue
            contents.documents.extend(documents)
            if trees is not None:
                trees.extend(found or [None] * len(documents))
            contents.places.extend(
                FilePlace(name, f"[{at}]" if len(documents) > 1 else "") for at in range(len(documents))
            )
            if count > MAX_FILES:
                raise Unreadable(f"{escape_line(str(folder))}: more than {counted(MAX_FILES, 'file', 'files')}")
    if not count and contents.unread:
        raise Unreadable(*contents.messages)
    if not count:
        hint = "" if recursive else "; `--recursive` reads its subfolders"
        raise NothingFound(f"{escape_line(str(folder))}: no file with the ending {', '.join(ENDINGS)}{hint}")
    return contents


def _unread(path: Path, why: str) -> UnreadFile:
    name = escape_line(str(path))
    return UnreadFile(name, why, (f"{name}: {why}",))


def _unread_file(path: Path, error: Unreadable) -> UnreadFile:
    name = escape_line(str(path))
    message = error.message or "; ".join(line.removeprefix(f"{name}: ") for line in error.lines)
    return UnreadFile(name, message, error.lines, error.line, error.column, error.is_unread)


def _files(folder: Path, unread: list[UnreadFile], *, recursive: bool) -> Iterator[Path]:
    """The files to read, in the order of their names; links to folders are not followed.

    Why other folders in it cannot be read is added to ``unread``.

    Raises:
        Unreadable: the folder itself cannot be read.
    """
    try:
        folders = [iter(sorted(folder.iterdir()))]
    except OSError as error:
        raise Unreadable(f"{escape_line(str(folder))}: cannot be read: {error.strerror}") from error
    while folders:
        path = next(folders[-1], None)
        if path is None:
            folders.pop()
            continue
        try:
            is_folder = path.is_dir()
            if is_folder and recursive and not path.is_symlink():
                if len(folders) < MAX_DEPTH:
                    folders.append(iter(sorted(path.iterdir())))
                else:
                    unread.append(_unread(path, f"not read, because it is nested more than {MAX_DEPTH} deep"))
        except OSError as error:
            unread.append(_unread(path, f"cannot be read: {error.strerror}"))
            continue
        if not is_folder and path.name.endswith(ENDINGS):
            yield path


def _first_compose_file(path: Path) -> str | None:
    """The file that Compose takes instead of this one; None if it takes this one, or this is not a Compose file."""
    before = COMPOSE_FILES[: COMPOSE_FILES.index(path.name)] if path.name in COMPOSE_FILES else ()
    return next((name for name in before if (path.parent / name).is_file()), None)


def _is_within(path: Path, root: Path) -> bool:
    """Whether a file is in a folder once links are followed, so that a checkout cannot name files elsewhere."""
    try:
        return path.resolve().is_relative_to(root)
    except (OSError, RuntimeError):
        return False
