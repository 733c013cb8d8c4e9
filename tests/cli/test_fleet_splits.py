"""Parts of a file of lines have the documents of the whole file, with their places."""

from __future__ import annotations

import pickle
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policy.cli import fleet_sources
from policy.cli.fleet_sources import RawDocument, lines_of
from policy.cli.fleet_splits import documents_in, splits_of
from policy.errors import RemedyKind, RequestFault, RequestInvalid
from policy.intake.model_lookup import ModelConfigNeeded

if TYPE_CHECKING:
    from collections.abc import Callable

    from api.conftest import Done

LINES = st.lists(st.sampled_from([b"", b" ", b"{}", b'{"a":1}', b"\xff", b"\r", b"x" * 20, b"y" * 40]), max_size=12)


def whole(text: bytes) -> list[RawDocument]:
    with tempfile.TemporaryFile() as file:
        file.write(text)
        file.seek(0)
        return [*lines_of(file.readline(fleet_sources.MAX_LINE + 1), file, most=fleet_sources.MAX_LINE)]


@given(LINES, st.booleans(), st.integers(1, 5), st.sampled_from([8, 30, 1 << 20]))
def test_parts_have_the_documents_of_the_whole_file(lines: list[bytes], ends: bool, most: int, longest: int) -> None:  # noqa: FBT001  # drawn
    text = b"\n".join(lines) + (b"\n" if ends else b"")
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        for module in ("fleet_sources", "fleet_splits"):
            patch.setattr(f"policy.cli.{module}.MAX_LINE", longest)
        path = Path(folder, "fleet.jsonl")
        path.write_bytes(text)
        splits = splits_of(str(path), most)
        assert splits is not None
        found = [[*documents_in(split)] for split in splits]
        assert [document for each in found for document in each] == whole(text)
        assert max(map(len, found), default=0) <= most


@pytest.mark.parametrize(
    "error",
    [
        RequestInvalid([RequestFault("/a", "b", RemedyKind.VERSION)], "unknown-release"),
        ModelConfigNeeded(["m"], [RequestFault("/a", "b")]),
    ],
)
def test_why_a_deployment_is_not_decided_comes_back_from_another_process(error: RequestInvalid) -> None:
    found = pickle.loads(pickle.dumps(error))
    assert (type(found), vars(found), str(found)) == (type(error), vars(error), str(error))


def test_other_files_have_no_parts(tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text("kind: Pod\n")
    assert splits_of(str(tmp_path / "a.yaml"), 10) is None
    (tmp_path / "lines").write_text('{"facts": {}}\n{"facts": {}}\n')
    found = splits_of(str(tmp_path / "lines"), 1)
    assert found is not None
    assert [split.before for split in found] == [0, 1]
    (tmp_path / "lines").write_text('\ufeff\n\n{"facts": {}}\n')
    found = splits_of(str(tmp_path / "lines"), 10)
    assert found is not None
    assert [document.number for document in documents_in(found[0])] == [3]
    with pytest.raises(OSError, match="none"):
        splits_of(str(tmp_path / "none.jsonl"), 1)


@pytest.mark.parametrize("others", [["-"], ["a.jsonl", "--jobs", "2"], ["a.jsonl", "--log", ""]])
def test_what_a_cluster_cannot_read_is_wrong_usage(call: Callable[..., Done], others: list[str]) -> None:
    done = call("impact", *others, "--to", "0.33.0", "--ray", "local")
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "--ray: name files, without `--log`, `-` and `--jobs`; `log export` writes a log as a file\n",
    )


def test_without_ray_the_command_says_how_to_install_it(
    call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    monkeypatch.delitem(sys.modules, "policy.cli.impact_ray", raising=False)
    (tmp_path / "a.jsonl").write_text('{"facts": {}}\n')
    done = call("impact", str(tmp_path / "a.jsonl"), "--to", "0.33.0", "--ray", "local")
    assert (done.code, done.out) == (2, "")
    assert done.err.endswith("install it on each machine: pip install 'runner-policy[ray]'\n")
