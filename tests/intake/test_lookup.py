"""The order in which the command line looks for a model.

First in the files that flags name, then in local folders, then on the hub; each once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import huggingface_hub.constants
import pytest
from hubserver import CONFIG, NAME, Reply, hub_server

from policy.errors import RequestFault, RequestInvalid
from policy.intake.model.hub_errors import HubMisconfigured
from policy.intake.model_finder import ModelFinder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hubserver import HubServer

OTHER = {"architectures": ["MambaForCausalLM"], "model_type": "mamba"}


@pytest.fixture
def hub(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    """A hub that this process is configured to use, with an empty cache."""
    for name in ("HF_TOKEN", "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    monkeypatch.setattr(huggingface_hub.constants, "HF_HUB_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with hub_server() as started:
        monkeypatch.setenv("HF_ENDPOINT", started.url)
        yield started


def file(folder: Path, content: Any = CONFIG, name: str = "config.json") -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(content if isinstance(content, str) else json.dumps(content))
    return folder / name


def refusal(models: ModelFinder, name: str = NAME) -> list[RequestFault]:
    with pytest.raises(RequestInvalid) as caught:
        models.find(name)
    assert caught.value.problem == "model-config-needed"
    return list(caught.value.faults)


def test_an_unknown_model_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    assert ModelFinder({}, hub=False).find(NAME) is None


@pytest.mark.parametrize("is_folder", [False, True])
def test_a_model_named_by_a_flag_is_read(tmp_path: Path, *, is_folder: bool) -> None:
    place = file(tmp_path / "a")
    file(tmp_path / "a", "[]", "modules.json")
    models = ModelFinder({NAME: place.parent if is_folder else place}, hub=False)
    assert models.find(NAME) == (CONFIG, {"modules.json": "[]"})


def test_a_file_with_another_name_is_read_alone(tmp_path: Path) -> None:
    place = file(tmp_path / "a", name="other.json")
    file(tmp_path / "a", "[]", "modules.json")
    assert ModelFinder({NAME: place}, hub=False).find(NAME) == (CONFIG, {})


def test_a_local_folder_is_read_by_its_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path / "a")
    models = ModelFinder({}, hub=False)
    assert models.find("a") == models.find(str(tmp_path / "a")) == (CONFIG, {})


@pytest.mark.parametrize("is_link", [False, True])
@pytest.mark.parametrize("is_relative", [False, True])
def test_a_model_cannot_name_a_folder_outside_of_the_one_that_is_given(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *, is_relative: bool, is_link: bool
) -> None:
    file(tmp_path / "outside")
    file(tmp_path / "checkout" / "inside")
    monkeypatch.chdir(tmp_path / "checkout")
    (tmp_path / "checkout" / "link").symlink_to(tmp_path / "outside")
    place = Path("link") if is_link else Path("..", "outside")
    name = str(place) if is_relative else str(Path.cwd() / place)
    assert ModelFinder({}, hub=False, within=Path()).find(name) is None
    assert ModelFinder({}, hub=False).find(name) == (CONFIG, {})
    assert ModelFinder({name: tmp_path / "outside"}, hub=False, within=Path()).find(name) == (CONFIG, {})
    assert ModelFinder({}, hub=False, within=Path()).find("inside") == (CONFIG, {})


@pytest.mark.parametrize("name", ["config.json", "modules.json", "1_Pooling/config.json"])
def test_a_file_of_a_model_cannot_be_a_link_out_of_the_folder_that_is_given(tmp_path: Path, name: str) -> None:
    place = file(tmp_path / "checkout" / "model").parent
    (place / name).unlink(missing_ok=True)
    (place / name).parent.mkdir(exist_ok=True)
    (place / name).symlink_to(file(tmp_path / "outside"))
    with pytest.raises(RequestInvalid, match="leads out of the folder in which the command runs"):
        ModelFinder({}, hub=False, within=tmp_path / "checkout").find(str(place))


def test_a_flag_takes_precedence_over_a_folder_and_a_folder_over_the_hub(
    hub: HubServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    file(tmp_path / "a")
    other = file(tmp_path / "b", OTHER)
    assert ModelFinder({"a": other}, hub=True).find("a") == (OTHER, {})
    assert ModelFinder({}, hub=True).find("a") == (CONFIG, {})
    assert hub.asked == []


def test_a_model_that_is_not_local_comes_from_the_hub(hub: HubServer) -> None:
    hub.give(Reply())
    hub.give(Reply(b"[]"), "modules.json")
    assert ModelFinder({}, hub=True).find(NAME) == (CONFIG, {"modules.json": "[]"})


def test_each_model_is_read_once(hub: HubServer, tmp_path: Path) -> None:
    place = file(tmp_path / "a")
    hub.give(Reply())
    models = ModelFinder({"a": place}, hub=True)
    found = [models.find("a"), models.find(NAME)]
    place.unlink()
    hub.replies.clear()
    seen = len(hub.asked)
    assert [models.find("a"), models.find(NAME)] == found
    assert len(hub.asked) == seen


def test_an_unusable_model_is_reported_with_every_reason(tmp_path: Path) -> None:
    folder = file(tmp_path / "a", "[]").parent
    (folder / "modules.json").write_bytes(b"\xff")
    of_model = f"the model `{NAME}`"
    assert refusal(ModelFinder({NAME: folder}, hub=False)) == [
        RequestFault("", f"{of_model}: `{folder}/config.json` must be an object, got `[]`"),
        RequestFault("", f"{of_model}: `{folder}/modules.json` is not UTF-8: byte 0 is not part of a character"),
    ]
    assert refusal(ModelFinder({NAME: folder / "config.json"}, hub=False)) == [
        RequestFault("", f"{of_model}: `{folder}/config.json` must be an object, got `[]`")
    ]
    assert refusal(ModelFinder({NAME: folder / "x"}, hub=False)) == [
        RequestFault("", f"{of_model}: `{folder}/x` cannot be read: No such file or directory")
    ]


@pytest.mark.parametrize("name", ["a\0b", "\ud800", "config.json", "x" * 200])
def test_an_invalid_folder_path_is_not_found(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str) -> None:
    monkeypatch.chdir(file(tmp_path / "a").parent)
    assert ModelFinder({}, hub=False).find(name) is None


def test_a_folder_without_a_model_is_reported(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    told = "`.` has no `config.json`; name the folder that the model was saved in"
    assert [refusal(ModelFinder({}, hub=True), name) for name in (".", "")] == [
        [RequestFault("", f"the model `{name}`: {told}")] for name in (".", "")
    ]


@pytest.mark.parametrize("name", ["a" * 300, "a/" * 5000])
def test_a_path_that_is_too_long_is_reported(name: str) -> None:
    (fault,) = refusal(ModelFinder({}, hub=False), name)
    assert fault.message.endswith("` cannot be read: File name too long")


def test_a_refusal_of_the_hub_is_reported(hub: HubServer) -> None:
    told = f"`{NAME}` on {hub.url} has no `config.json`; check the name, or give its `config.json`"
    assert refusal(ModelFinder({}, hub=True)) == [RequestFault("", f"the model `{NAME}`: {told}")]


def test_an_invalid_hub_address_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "ftp://hub")
    ModelFinder({}, hub=False)
    with pytest.raises(HubMisconfigured):
        ModelFinder({}, hub=True)
