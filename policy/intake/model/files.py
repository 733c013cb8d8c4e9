"""A model's files from a folder of this machine, for the command line only: nothing here may be called for a request over HTTP.

Owns the reading of one file within bounds and of a `config.json` as transformers writes it; ``hub`` reads its cache with both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from policy.errors import PolicyError
from policy.messages import quoted
from policy.parser.files import NotAFile, read_at_most
from policy.parser.jsontext import NotJson, read_json

CONFIG: Final = "config.json"
COMPANIONS: Final = ("modules.json", "1_Pooling/config.json", "joint_head_config.json", "decision_config.json")
MAX_BYTES: Final = 1 << 20


class FileInvalid(PolicyError):
    """One file cannot be used; the message says why, for a sentence that names the file before it."""


class TooLarge(FileInvalid):
    """A file has more bytes than are read."""


class FolderInvalid(PolicyError):
    """A folder that gives no model; ``faults`` holds every reason."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The `config.json` of a model's folder, and the texts of those of ``COMPANIONS`` that are there, by their name; links are followed.

    Raises:
        FolderInvalid: there is no such folder, no `config.json` in it, or a file that is too large or cannot be read.
    """
    folder = Path(path)
    if not folder.is_dir():
        raise FolderInvalid([_no_folder(folder)])
    config: dict[str, Any] = {}
    files: dict[str, str] = {}
    faults: list[str] = []
    for name in (CONFIG, *COMPANIONS):
        try:
            raw = read_file(folder / name)
            if name == CONFIG:
                config = read_config(raw)
            else:
                files[name] = raw.decode()
        except FileNotFoundError:
            if name == CONFIG:
                faults.append(_no_config(folder))
        except UnicodeDecodeError as error:
            faults.append(f"`{folder / name}` is not UTF-8: byte {error.start} is not part of a character")
        except FileInvalid as error:
            faults.append(f"`{folder / name}` {error}")
    if faults:
        raise FolderInvalid(faults)
    return config, files


def read_file(path: Path) -> bytes:
    """All bytes of a file.

    Raises:
        FileNotFoundError: it is not there.
        TooLarge: it has more than ``MAX_BYTES``.
        FileInvalid: it is no regular file (a pipe would be waited for without end), or the system does not let it be read.
    """
    try:
        raw = read_at_most(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except NotAFile as error:
        raise FileInvalid("is no regular file") from error
    except OSError as error:
        raise FileInvalid(f"cannot be read: {error.strerror}") from error
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"has more than the {MAX_BYTES} bytes that are read")
    return raw


def read_config(raw: bytes) -> dict[str, Any]:
    """The object in the text of a `config.json`.

    Configurations of some models hold `Infinity`, `-Infinity` or `NaN`, which Python writes and JSON does not know; they are read as null,
    because no fact follows from such a number and the rest of the file is to be used.

    Raises:
        FileInvalid: it is empty, no JSON, nested too deeply, or no object.
    """
    if not raw.strip():
        raise FileInvalid("is empty")
    try:
        document = read_json(raw)
    except NotJson as error:
        if b"Infinity" not in raw and b"NaN" not in raw:
            raise FileInvalid(f"cannot be read: {error}") from error
        try:
            document = read_json(msgspec.json.encode(json.loads(raw, parse_constant=lambda _: None)))
        except (NotJson, ValueError, RecursionError):
            raise FileInvalid(f"cannot be read: {error}") from error
    if not isinstance(document, dict):
        raise FileInvalid(f"holds {quoted(document)} and not an object")
    return document


def _no_folder(folder: Path) -> str:
    shown = f"`{folder}`"
    return f"{shown} is a file; name the folder that it is in" if folder.is_file() else f"there is no folder {shown}"


def _no_config(folder: Path) -> str:
    advice = (
        "name a folder below its `snapshots`"
        if (folder / "snapshots").is_dir()
        else "name the folder that the model was saved in"
    )
    return f"`{folder}` has no `{CONFIG}`; {advice}"
