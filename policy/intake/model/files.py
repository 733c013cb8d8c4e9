"""Read a model's files from a local folder, for the command line only; no HTTP request may cause this.

Also reads a single file within limits, and a `config.json` as transformers writes it; the hub's client uses both.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

import msgspec

from policy.errors import PolicyError
from policy.messages import quoted
from policy.parser.files import read_at_most
from policy.parser.jsontext import NotJson, read_json

CONFIG: Final = "config.json"
COMPANIONS: Final = (
    "modules.json",
    "1_Pooling/config.json",
    "joint_head_config.json",
    "decision_config.json",
    "hf_quant_config.json",
)
MAX_BYTES: Final = 1 << 20


class FileInvalid(PolicyError):
    """A file cannot be used; the message completes a sentence that begins with the file's name."""


class TooLarge(FileInvalid):
    """A file is larger than the limit."""


class FolderInvalid(PolicyError):
    """A folder has no usable model; ``faults`` has every reason."""

    def __init__(self, faults: list[str]) -> None:
        self.faults = tuple(faults)
        super().__init__("\n".join(faults))


def read_folder(path: str | Path) -> tuple[dict[str, Any], dict[str, str]]:
    """The `config.json` in a model's folder, and the texts of the ``COMPANIONS`` that exist, by name.

    Symbolic links are followed.

    Raises:
        FolderInvalid: the folder or its `config.json` does not exist, or a file is too large or cannot be read.
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
    """The content of a file.

    Raises:
        FileNotFoundError: it does not exist.
        TooLarge: it has more than ``MAX_BYTES``.
        FileInvalid: it is not a regular file (reading a pipe could wait forever), or reading it is not permitted.
    """
    try:
        raw = read_at_most(path, MAX_BYTES + 1)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise FileInvalid(f"cannot be read: {error.strerror or error}") from error
    if len(raw) > MAX_BYTES:
        raise TooLarge(f"has more than {MAX_BYTES} bytes, which is the limit")
    return raw


def read_config(raw: bytes) -> dict[str, Any]:
    """Parse a `config.json`.

    Some models' configurations contain `Infinity`, `-Infinity` or `NaN`, which Python writes although JSON does not
    allow them. They are read as null: no fact depends on such a number, and the rest of the file is usable.

    Raises:
        FileInvalid: it is empty, not JSON, nested too deeply, or not an object.
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
        raise FileInvalid(f"must be an object, got {quoted(document)}")
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
