"""A model's folder gives its configuration and the files beside it, or every reason why not."""

from __future__ import annotations

import json
import os
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tables import table

from policy.intake.model.files import MAX_BYTES, FileInvalid, FolderInvalid, read_config, read_folder

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}


def saved(folder: Path, **files: str | bytes) -> Path:
    for name, text in files.items():
        path = folder / name.replace("__", "/").replace("_json", ".json")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return folder


def faults(folder: Path | str) -> list[str]:
    with pytest.raises(FolderInvalid) as caught:
        read_folder(folder)
    assert str(caught.value) == "\n".join(caught.value.faults)
    return [fault.replace(f"{folder}/", "").replace(str(folder), "FOLDER") for fault in caught.value.faults]


def test_a_folder_with_a_configuration_alone_has_no_other_files(tmp_path: Path) -> None:
    assert read_folder(saved(tmp_path, config_json=json.dumps(CONFIG))) == (CONFIG, {})


def test_the_files_beside_the_configuration_are_returned_as_text(tmp_path: Path) -> None:
    folder = saved(
        tmp_path, config_json=json.dumps(CONFIG), modules_json="[]", joint_head_config_json="{}", weights_bin="…"
    )
    saved(folder / "1_Pooling", config_json='{"pooling_mode_lasttoken": true}')
    (folder / "hf_quant_config.json").write_text("{}")
    assert read_folder(str(folder)) == (
        CONFIG,
        {
            "modules.json": "[]",
            "joint_head_config.json": "{}",
            "1_Pooling/config.json": '{"pooling_mode_lasttoken": true}',
            "hf_quant_config.json": "{}",
        },
    )


def test_links_are_followed(tmp_path: Path) -> None:
    blobs = saved(tmp_path / "blobs", abc=json.dumps(CONFIG))
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "config.json").symlink_to(blobs / "abc")
    link = tmp_path / "link"
    link.symlink_to(snapshot)
    assert read_folder(link) == (CONFIG, {})


def test_a_folder_without_a_configuration_is_reported(tmp_path: Path) -> None:
    assert faults(tmp_path) == ["`FOLDER` has no `config.json`; name the folder that the model was saved in"]


def test_a_cache_folder_of_the_hub_is_recognised(tmp_path: Path) -> None:
    (tmp_path / "snapshots").mkdir()
    assert faults(tmp_path) == ["`FOLDER` has no `config.json`; name a folder below its `snapshots`"]


def test_a_dangling_link_is_not_a_configuration(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "gone")
    assert faults(tmp_path) == ["`FOLDER` has no `config.json`; name the folder that the model was saved in"]


@pytest.mark.parametrize("name", ["no-such-folder", "a\0b", ""])
def test_a_missing_folder_is_reported(tmp_path: Path, name: str) -> None:
    assert len(faults(tmp_path / f"x{name}")) == 1


def test_a_file_in_place_of_a_folder_is_reported(tmp_path: Path) -> None:
    saved(tmp_path, config_json="{}")
    assert faults(tmp_path / "config.json") == ["`FOLDER` is a file; name the folder that it is in"]


def test_all_reasons_are_reported_at_once(tmp_path: Path) -> None:
    folder = saved(tmp_path, config_json="[1]", modules_json=b" " * (MAX_BYTES + 1), joint_head_config_json=b"\xff{}")
    assert faults(folder) == [
        "`config.json` must be an object, got `[1]`",
        "`modules.json` has more than 1048576 bytes, which is the limit",
        "`joint_head_config.json` is not UTF-8: byte 0 is not part of a character",
    ]


def test_a_file_of_the_largest_size_is_read(tmp_path: Path) -> None:
    assert read_folder(saved(tmp_path, config_json=b"{}" + b" " * (MAX_BYTES - 2))) == ({}, {})


@pytest.mark.parametrize(("make", "kind"), [(os.mkfifo, "a named pipe"), (os.mkdir, "a folder")])
def test_only_files_are_read(tmp_path: Path, make: Callable[[Path], None], kind: str) -> None:
    make(tmp_path / "config.json")
    assert faults(tmp_path) == [f"`config.json` cannot be read: expected a file, got {kind}"]


def test_a_file_that_the_system_refuses_to_read_is_reported(tmp_path: Path) -> None:
    (tmp_path / "config.json").symlink_to(tmp_path / "config.json")
    assert faults(tmp_path)[0].startswith("`config.json` cannot be read: ")


@pytest.mark.parametrize(
    ("text", "document"),
    [
        ('{"time_step_limit": [0.0, Infinity]}', {"time_step_limit": [0.0, None]}),
        ('{"a": -Infinity, "b": NaN, "c": "Infinity"}', {"a": None, "b": None, "c": "Infinity"}),
        ('{"name": "Infinity"}', {"name": "Infinity"}),
    ],
)
def test_infinity_and_nan_are_read_as_null(text: str, document: dict[str, Any]) -> None:
    assert read_config(text.encode()) == document


@table(
    ("text", "reason"),
    [
        ("", "is empty"),
        (" \n", "is empty"),
        ("null", "must be an object, got `null`"),
        ('"text"', "must be an object, got `text`"),
        ("Infinity", "must be an object, got `null`"),
        ('{"a": ', "cannot be read: not JSON: Input data was truncated"),
        ('{"a": Infinity, ', "cannot be read: not JSON: JSON is malformed: invalid character (byte 6)"),
        ("<!doctype html>", "cannot be read: not JSON: JSON is malformed: invalid character (byte 0)"),
        ('{"a": 1e999}', "cannot be read: not JSON: a number that is too large (byte 6)"),
        ('{"a":' * 65 + "1" + "}" * 65, "cannot be read: nested too deeply: at most 64 levels are read"),
        ('{"a":' * 65 + "NaN" + "}" * 65, "cannot be read: not JSON: JSON is malformed: invalid character (byte 325)"),
        ('{"a":' * 9999 + "NaN" + "}" * 9999, "cannot be read: nested too deeply: at most 64 levels are read"),
    ],
)
def test_text_that_is_not_a_json_object_is_reported(text: str, reason: str) -> None:
    with pytest.raises(FileInvalid) as caught:
        read_config(text.encode())
    assert str(caught.value) == reason


@given(st.binary() | st.text(alphabet='{}[]",:NaInfity0eE-\\u').map(str.encode))
def test_any_bytes_give_an_object_or_a_reason(raw: bytes) -> None:
    with suppress(FileInvalid):
        assert isinstance(read_config(raw), dict)
