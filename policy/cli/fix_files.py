"""The files of the command ``fix``: read for decisions with their texts, and written in place."""

from __future__ import annotations

import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from policy.cli import script_files
from policy.cli.decide import with_options
from policy.cli.folder import FolderContents, advise_rendering, read_source
from policy.cli.replaced_files import replace_file
from policy.cli.requests import MAX_FILE, REMEDIES, Unreadable, load_text
from policy.edits.sources import EditedEngine, PointerSteps
from policy.errors import PolicyError, RequestInvalid
from policy.parser.files import read_at_most
from policy.pointer import steps_of
from policy.request.documents import join_documents
from policy.request.manifest import requests_of
from policy.request.request import Manifest, is_bare_manifest, read_request_or_manifest

if TYPE_CHECKING:
    import os

    from policy.intake.deployment import Platform
    from policy.policy import Policy
    from policy.request.request import Request


UNITS: Final = (script_files.SERVICE, script_files.CONTAINER)
COMMAND: Final = "fix"


class Files:
    """A file, or the files of a folder, with the options of the command; ``texts`` has those that were read so far."""

    def __init__(
        self,
        policy: Policy,
        name: str,
        version: str | None,
        platform: Platform | None,
        *,
        nearest: bool,
        recursive: bool,
    ) -> None:
        self.policy = policy
        self.name = name
        self.version, self.platform, self.nearest = version, platform, nearest
        self.texts: dict[str, str] = {}
        source = read_source(name, recursive=recursive, render=False, command=COMMAND) if Path(name).is_dir() else None
        self.folder: FolderContents | None = source
        self.warnings: list[str] = []
        if source is None:
            advise_rendering(name, COMMAND)
            self.texts[name] = load_text(name, pipes=True)
        self.read = dict(self.texts)

    def path(self, file: str) -> Path:
        """The path of one of the files."""
        return Path(self.name) / file if self.folder is not None else Path(file)

    def load(self, file: str) -> bool:
        """Read the text of a file of the folder, unless it was read; false if it cannot be read."""
        if file in self.texts:
            return True
        try:
            self.texts[file] = self.read[file] = load_text(self.path(file))
        except Unreadable:
            return False
        return True

    def document(self, file: str, text: str) -> Any:
        """The documents in the text of a file.

        Raises:
            Unreadable: it cannot be read.
        """
        found = script_files.documents_of(self.path(file), text) if text.strip() else []
        return [{"unit": each["unit"]} for each in found] if file.endswith(UNITS) else found

    def engines(self, texts: dict[str, str]) -> list[EditedEngine | tuple[str, RequestInvalid]]:
        """The engines with these texts.

        Raises:
            PolicyError: a text or the request cannot be read.
        """
        manifest, documents, _ = self.request(texts)
        if not isinstance(manifest, Manifest):
            return [EditedEngine("", self.name, PointerSteps(documents, is_bare=False).of("/deployment"), manifest)]
        base = manifest.request.pointer
        is_bare = self.folder is None and is_bare_manifest(join_documents(documents), self.policy.releases.images)
        steps = PointerSteps(documents, is_bare=is_bare)
        found: list[EditedEngine | tuple[str, RequestInvalid]] = []
        for path, request in requests_of(manifest, self.policy.releases, REMEDIES, []):
            if isinstance(request, RequestInvalid):
                found.append((path, request))
            elif self.folder is not None:
                index, *rest = steps_of(request.pointer.removeprefix(base))
                place = self.folder.places[int(index)]
                number = place.path.strip("[]") or "0"
                found.append(EditedEngine(path, place.file, (number, *rest), request))
            else:
                pointer = request.pointer.removeprefix(base) if is_bare else request.pointer
                found.append(EditedEngine(path, self.name, steps.of(pointer), request))
        return found

    def request(self, texts: dict[str, str]) -> tuple[Request | Manifest, list[Any], list[str]]:
        """The request or manifest with these texts, the documents of a single file, and warnings.

        Raises:
            PolicyError: a text or the request cannot be read.
        """
        source: Any
        documents: list[Any] = []
        if self.folder is None:
            documents = script_files.documents_of(Path(self.name), texts[self.name])
            source = join_documents(documents) if documents else []
        else:
            source = self._folder_with(self.folder, texts)
        document, _, warnings = with_options(self.policy, source, self.version, self.platform, nearest=self.nearest)
        request = read_request_or_manifest(document, self.policy.releases)
        if isinstance(request, Manifest):
            request = replace(request, overrides=self.version is not None)
        return request, documents, warnings

    def _folder_with(self, folder: FolderContents, texts: dict[str, str]) -> FolderContents:
        """The folder with other texts of some files, each of which has as many documents as before."""
        documents = [*folder.documents]
        for file, text in texts.items():
            if text == self.read.get(file):
                continue
            places = [n for n, place in enumerate(folder.places) if place.file == file]
            found = script_files.documents_of(self.path(file), text, Path(self.name).resolve())
            if len(found) != len(places):
                raise PolicyError(f"{file}: the number of its documents changed")
            for place, document in zip(places, found, strict=True):
                documents[place] = document
        return FolderContents(documents, folder.places, folder.unread)


def write_file(path: Path, old: str, new: str, root: Path) -> str:
    """Replace a file's text if it still is ``old``; return why it was not replaced, or an empty text.

    The new text is written beside it, read again, and put in its place in one step, with the same mode and owner. A
    link that leads out of ``root`` is not followed.
    """
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(root.resolve()):
            return "the link leads out of the folder"
        found = target.stat()
        if not stat.S_ISREG(found.st_mode):
            return "it is not a regular file"
        now = read_at_most(target, MAX_FILE + 1)
        if now == new.encode():  # written already, by another name of the file
            return ""
        if now != old.encode():
            return "it was changed meanwhile"
        return _replace(target, new.encode(), found)
    except (OSError, RuntimeError) as error:
        return str(error)


def _replace(target: Path, data: bytes, found: os.stat_result) -> str:
    is_replaced = replace_file(target, data, found, lambda own: own.read_bytes() == data)
    return "" if is_replaced else "the new text was not what was written"
