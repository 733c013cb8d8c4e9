"""A model's configuration comes from a server that implements the hub's file route.

It is fetched within bounds, or there is a reason and a remedy.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import huggingface_hub
import huggingface_hub.constants
import pytest
from hubserver import COMMIT, CONFIG, NAME, TEXT, TOKEN, HubServer, Reply, hub_server
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from representatives import slow_rows_except
from tables import table

from policy.intake.model import files as model_files
from policy.intake.model import hub_client
from policy.intake.model.files import COMPANIONS, MAX_BYTES
from policy.intake.model.hub import Hub
from policy.intake.model.hub_client import MAX_VALUES
from policy.intake.model.hub_errors import HubFailed, HubMisconfigured, HubUnreadable, ModelFiles
from policy.parser import jsontext

GIVE = "or give its `config.json`"


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[HubServer]:
    monkeypatch.setattr(huggingface_hub.constants, "HF_TOKEN_PATH", str(tmp_path / "no-token"))
    for name in (
        "HF_TOKEN",
        "HUGGING_FACE_HUB_TOKEN",
        "HF_ENDPOINT",
        "HF_HUB_OFFLINE",
        "TRANSFORMERS_OFFLINE",
        "HF_OIDC_RESOURCE",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    with hub_server() as started:
        yield started


@pytest.fixture
def other() -> Iterator[HubServer]:
    with hub_server() as started:
        yield started


MakeHub = Callable[..., Hub]


@pytest.fixture
def make_hub(server: HubServer, tmp_path: Path) -> MakeHub:
    """A hub on the server, with its own empty cache."""

    def made(timeout: float = 20, **options: Any) -> Hub:
        given: dict[str, Any] = {"endpoint": server.url, "cache": str(tmp_path / "cache"), "offline": False}
        return Hub(timeout, **given | options)

    return made


def refusal(hub: Hub, name: str = NAME, revision: str | None = None, companions: Sequence[str] = ()) -> tuple[str, str]:
    with pytest.raises(HubFailed) as caught:
        hub.config(name, revision, companions)
    assert TOKEN not in str(caught.value)
    assert caught.value.__cause__ is None
    return type(caught.value).__name__, str(caught.value).replace(hub.source.endpoint, "HUB")


# Models on the hub


def test_a_model_is_fetched_once_and_cached(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    hub = make_hub()
    assert [hub.config(NAME), hub.config(NAME)] == [ModelFiles(CONFIG, {}, COMMIT, size=len(TEXT), values=5)] * 2
    assert server.asked == [("HEAD", f"/{NAME}/resolve/main/config.json"), ("GET", f"/{NAME}/resolve/main/config.json")]


def test_an_old_cached_model_is_revalidated_but_not_fetched_again(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    now = [0.0]
    hub = make_hub(clock=lambda: now[0])
    hub.config(NAME)
    now[0] = 299.0
    hub.config(NAME)
    now[0] = 301.0
    hub.config(NAME)
    assert [method for method, _ in server.asked] == ["HEAD", "GET", "HEAD"]


def test_a_refusal_is_cached_for_a_short_time(server: HubServer, make_hub: MakeHub) -> None:
    now = [0.0]
    hub = make_hub(clock=lambda: now[0])
    assert refusal(hub) == refusal(hub)
    server.give(Reply())
    now[0] = 16.0
    assert hub.config(NAME).config == CONFIG
    assert [method for method, _ in server.asked] == ["HEAD", "HEAD", "GET"]


def test_another_process_needs_no_second_fetch(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    assert make_hub().config(NAME) == make_hub().config(NAME)
    assert [method for method, _ in server.asked] == ["HEAD", "GET", "HEAD"]


def test_a_cached_commit_is_not_requested(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.asked.clear()
    assert make_hub().config(NAME, COMMIT).config == CONFIG
    assert server.asked == []


@pytest.mark.parametrize("revision", ["v1.0", "refs/pr/3", "feature_x+y", "a"])
def test_the_given_revision_is_requested(server: HubServer, make_hub: MakeHub, revision: str) -> None:
    server.give(Reply(), revision=revision)
    assert make_hub().config(NAME, revision).config == CONFIG


def test_companions_come_from_the_same_commit_and_missing_ones_are_left_out(
    server: HubServer, make_hub: MakeHub
) -> None:
    server.give(Reply())
    server.give(Reply(b"[]"), "modules.json")
    server.give(Reply(b'{"a": 1}'), "1_Pooling/config.json", revision=COMMIT)
    also = ["modules.json", "joint_head_config.json", "1_Pooling/config.json"]
    files = {"modules.json": "[]", "1_Pooling/config.json": '{"a": 1}'}
    assert make_hub().config(NAME, companions=also) == ModelFiles(CONFIG, files, COMMIT, size=len(TEXT) + 10, values=5)
    assert {path.split("/")[4] for _, path in server.asked[2:]} == {COMMIT}
    server.asked.clear()
    assert make_hub().config(NAME, companions=also).files == files
    assert server.asked == [("HEAD", f"/{NAME}/resolve/main/config.json")]


def test_no_other_file_is_fetched(server: HubServer, make_hub: MakeHub) -> None:
    with pytest.raises(
        ValueError,
        match=r"expected companions from `modules\.json`, `1_Pooling/config\.json`, `joint_head_config\.json`",
    ):
        make_hub().config(NAME, companions=["model.safetensors"])
    assert server.asked == []


def test_a_file_without_a_stated_length_is_read(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(headers={"Content-Length": None}))
    assert make_hub().config(NAME).config == CONFIG


def test_a_file_in_other_storage_is_fetched_like_any_other(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(headers={"X-Xet-Hash": "ab" * 32, "X-Xet-Refresh-Route": "/api/models/x/xet-read-token/main"}))
    assert make_hub().config(NAME).config == CONFIG


# Offline, or with a failing hub


def test_offline_the_cache_is_used(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    server.give(Reply(b"[]"), "modules.json")
    make_hub().config(NAME, companions=["modules.json", "joint_head_config.json"])
    server.asked.clear()
    also = ["modules.json", "joint_head_config.json", "1_Pooling/config.json"]
    assert make_hub(offline=True).config(NAME, companions=also) == ModelFiles(
        CONFIG, {"modules.json": "[]"}, COMMIT, ("1_Pooling/config.json",), True, len(TEXT) + 2, 5
    )
    assert server.asked == []


def test_offline_a_model_that_is_not_cached_is_reported(server: HubServer, make_hub: MakeHub) -> None:
    reason = f"the hub is offline (`HF_HUB_OFFLINE`), and its cache does not have `{NAME}`; give its `config.json`"
    assert refusal(make_hub(offline=True)) == ("HubOffline", reason)
    assert server.asked == []


@pytest.mark.parametrize("status", [408, 429, 500, 502, 503, 504])
def test_a_failing_hub_is_reported_without_a_retry(server: HubServer, make_hub: MakeHub, status: int) -> None:
    server.give(Reply(b"", status, {"Retry-After": "3600"}))
    assert refusal(make_hub()) == ("HubUnreachable", f"the hub answers {status}; try again later, {GIVE}")
    assert len(server.asked) == 1


def test_the_cache_replaces_a_failing_hub(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.give(Reply(status=503))
    assert make_hub().config(NAME) == ModelFiles(CONFIG, {}, COMMIT, cached=True, size=len(TEXT), values=5)


FAILING: list[tuple[Reply, str, str]] = [
    *((Reply(b"", status), "HubUnreachable", f"the hub answers {status}") for status in (408, 429, 500, 503)),
    (Reply(b"", 403), "HubDenied", f"HUB forbids `{NAME}`"),
    (Reply(b"", 418), "HubUnreachable", f"HUB answers 418 for `{NAME}`"),
]


@pytest.mark.parametrize("file", COMPANIONS)
@pytest.mark.parametrize(("reply", "kind", "reason"), slow_rows_except(FAILING[3:5], FAILING))
def test_a_failing_hub_for_a_companion_is_reported(
    server: HubServer, make_hub: MakeHub, file: str, reply: Reply, kind: str, reason: str
) -> None:
    server.give(Reply())
    server.give(reply, file, revision=COMMIT)
    hub = make_hub()
    found = refusal(hub, companions=COMPANIONS)
    assert found[0] == kind
    assert found[1].startswith(f"`{file}` of `{NAME}`: {reason}")
    assert refusal(hub, companions=COMPANIONS) == found


@pytest.mark.parametrize("file", COMPANIONS)
def test_a_slow_hub_for_a_companion_times_out(server: HubServer, make_hub: MakeHub, file: str) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.give(Reply(hold=server.release), file, revision=COMMIT)
    assert refusal(make_hub(0.5), companions=[file])[0] == "HubTimeout"


def test_a_companion_that_fails_is_requested_again(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    server.give(Reply(b"", 503), "modules.json", revision=COMMIT)
    now = [0.0]
    hub = make_hub(clock=lambda: now[0])
    assert refusal(hub, companions=COMPANIONS)[0] == "HubUnreachable"
    server.give(Reply(b"[]"), "modules.json", revision=COMMIT)
    now[0] = 16.0
    assert hub.config(NAME, companions=COMPANIONS).files == {"modules.json": "[]"}


def test_the_cache_replaces_a_failing_hub_if_it_has_a_record_of_each_companion(
    server: HubServer, make_hub: MakeHub
) -> None:
    server.give(Reply())
    server.give(Reply(b"[]"), "modules.json", revision=COMMIT)
    make_hub().config(NAME, companions=COMPANIONS[:2])
    server.give(Reply(status=503))
    assert make_hub().config(NAME, companions=COMPANIONS[:2]) == ModelFiles(
        CONFIG, {"modules.json": "[]"}, COMMIT, cached=True, size=len(TEXT) + 2, values=5
    )
    assert refusal(make_hub(), companions=COMPANIONS)[0] == "HubUnreachable"


def test_a_copy_used_for_a_failing_hub_is_soon_revalidated(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.give(Reply(status=503))
    now = [0.0]
    hub = make_hub(clock=lambda: now[0])
    assert hub.config(NAME).cached
    server.give(Reply())
    now[0] = 16.0
    assert not hub.config(NAME).cached


def test_an_unreachable_hub_is_reported(make_hub: MakeHub) -> None:
    reason = f"the hub cannot be reached (ConnectError); check the network and `HF_ENDPOINT`, {GIVE}"
    assert refusal(make_hub(endpoint="http://127.0.0.1:1")) == ("HubUnreachable", reason)


@pytest.mark.parametrize("reply", [Reply(), Reply(drip=True), Reply(headers={"Content-Length": None}, drip=True)])
def test_a_slow_hub_times_out(server: HubServer, make_hub: MakeHub, reply: Reply) -> None:
    reply.hold = None if reply.drip else server.release
    reply.body = TEXT + b" " * 2000
    server.give(reply)
    kind, reason = refusal(make_hub(0.3))
    assert (kind, reason.partition(" did not answer")[0]) in {("HubTimeout", "HUB"), ("HubTimeout", "the hub")}


@pytest.mark.parametrize("reply", [Reply(), Reply(TEXT + b" " * 2000, drip=True)])
def test_a_slow_fetch_makes_room_for_the_next(server: HubServer, make_hub: MakeHub, reply: Reply) -> None:
    reply.hold = None if reply.drip else server.release
    server.give(reply)
    server.give(Reply(), name="gpt2")
    hub = make_hub(0.3, max_fetches=1)
    assert refusal(hub)[0] == "HubTimeout"
    hub.timeout = 20
    assert hub.config("gpt2").config == CONFIG
    assert refusal(hub) == ("HubTimeout", f"the hub did not answer within the time limit; try again later, {GIVE}")


def test_a_fetch_that_waited_too_long_is_not_started(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    hub = make_hub(0)
    assert refusal(hub)[0] == "HubTimeout"
    assert server.asked == []


def test_a_broken_cache_counts_as_empty(server: HubServer, make_hub: MakeHub, tmp_path: Path) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    next((tmp_path / "cache").rglob("refs/main")).write_bytes(b"\xff")
    assert refusal(make_hub(offline=True))[0] == "HubOffline"


def test_the_cache_replaces_a_slow_hub(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.give(Reply(hold=server.release))
    assert make_hub(0.3).config(NAME) == ModelFiles(CONFIG, {}, COMMIT, cached=True, size=len(TEXT), values=5)


# Refusals


@pytest.mark.parametrize(
    ("status", "code", "token", "kind", "reason"),
    [
        (
            401,
            None,
            None,
            "HubDenied",
            f"HUB denies `{NAME}` without a token; check the name, set `HF_TOKEN` if it is private or gated, {GIVE}",
        ),
        (
            401,
            None,
            TOKEN,
            "HubDenied",
            f"HUB denies `{NAME}` with the token in `HF_TOKEN`; check the name and the token, {GIVE}",
        ),
        (
            401,
            "RepoNotFound",
            None,
            "HubDenied",
            f"HUB denies `{NAME}` without a token; check the name, set `HF_TOKEN` if it is private or gated, {GIVE}",
        ),
        (
            401,
            "GatedRepo",
            None,
            "HubDenied",
            f"`{NAME}` on HUB is gated; ask for access on its page and set `HF_TOKEN`, {GIVE}",
        ),
        (
            403,
            "GatedRepo",
            TOKEN,
            "HubDenied",
            f"`{NAME}` on HUB is gated; ask for access on its page with the account of `HF_TOKEN`, {GIVE}",
        ),
        (403, None, TOKEN, "HubDenied", f"HUB forbids `{NAME}`; set `HF_TOKEN` to a token that may read it, {GIVE}"),
        (
            404,
            "RepoNotFound",
            None,
            "HubNotFound",
            f"HUB has no `{NAME}`; check the name, set `HF_TOKEN` if it is private, {GIVE}",
        ),
        (
            404,
            None,
            None,
            "HubNotFound",
            f"HUB has no `{NAME}`; check the name, set `HF_TOKEN` if it is private, {GIVE}",
        ),
        (
            404,
            "RevisionNotFound",
            None,
            "HubNotFound",
            f"`{NAME}` on HUB has no revision `main`; name a branch, a tag or a commit",
        ),
        (404, "EntryNotFound", None, "HubNotFound", f"`{NAME}` on HUB has no `config.json`; check the name, {GIVE}"),
        (418, None, None, "HubUnreachable", f"HUB answers 418 for `{NAME}`; try again later, {GIVE}"),
    ],
)
def test_a_refusal_has_a_reason_and_a_remedy(
    server: HubServer,
    make_hub: MakeHub,
    monkeypatch: pytest.MonkeyPatch,
    status: int,
    code: str | None,
    token: str | None,
    kind: str,
    reason: str,
) -> None:
    if token:
        monkeypatch.setenv("HF_TOKEN", token)
    server.give(Reply(b"", status, {"X-Error-Code": code, "X-Error-Message": f"who has {TOKEN}?"}))
    assert refusal(make_hub()) == (kind, reason)


def test_a_server_that_is_not_a_hub_is_reported(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(headers={"X-Repo-Commit": None}))
    assert refusal(make_hub()) == ("HubUnreachable", f"HUB does not answer like a hub; check `HF_ENDPOINT`, {GIVE}")


FILE_NAMES = (
    "../x",
    "..",
    ".",
    "W/..",
    "WW..",
    'W/"../x"',
    "/tmp/x",
    "a/b",
    "a/../../b",
    "a\\b",
    "%2e%2e/x",
    "x" * 300,
    "\xe9",
)
"""Header values that would name a file outside the cache, or none."""


@pytest.mark.parametrize("header", ["ETag", "X-Linked-Etag", "X-Repo-Commit"])
@pytest.mark.parametrize("status", [200, 302, 404])
def test_a_hub_names_no_file_outside_its_cache(
    server: HubServer, make_hub: MakeHub, tmp_path: Path, status: int, header: str
) -> None:
    sent = {"Location": f"{server.url}/blob", "X-Error-Code": "EntryNotFound"} if status != 200 else {}
    server.replies["/blob"] = Reply()
    expected = f"the hub sends an invalid `{header.lower()}` header; check `HF_ENDPOINT`, {GIVE}"
    for value in (*FILE_NAMES, *(f'"{value}"' for value in FILE_NAMES)):
        server.give(Reply(status=status, headers={**sent, header: value}))
        assert refusal(make_hub()) == ("HubUnreachable", expected), value
        assert [path for path in tmp_path.rglob("*") if path.is_file()] == []


@pytest.mark.parametrize("value", ['W/"5f3a-1"', '"{SHA1{0a9f}}"', '"a.b:gzip"', "0a9f", '"W"', f'"{"a" * 64}"'])
def test_any_etag_that_is_a_file_name_is_accepted(server: HubServer, make_hub: MakeHub, value: str) -> None:
    server.give(Reply(headers={"ETag": value}))
    assert make_hub().config(NAME).config == CONFIG


# Unusable files

TOO_LARGE = (
    "HubTooLarge",
    f"the hub's file has more than {MAX_BYTES} bytes, which is the limit; give the model's `config.json`",
)


@pytest.mark.parametrize(
    ("reply", "asked"),
    [
        (Reply(b" " * (MAX_BYTES + 1)), 1),
        (Reply(headers={"X-Linked-Size": "9" * 5000}), 1),
        (Reply(b" " * (MAX_BYTES + 1), headers={"Content-Length": None}), 2),
    ],
)
def test_a_file_that_is_too_large_is_not_fetched(
    server: HubServer, make_hub: MakeHub, reply: Reply, asked: int, tmp_path: Path
) -> None:
    server.give(reply)
    assert refusal(make_hub()) == TOO_LARGE
    assert len(server.asked) == asked
    assert [path for path in (tmp_path / "cache").rglob("blobs/*") if path.is_file()] == []


def test_a_file_of_the_largest_size_is_read(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(b"{}" + b" " * (MAX_BYTES - 2)))
    assert make_hub().config(NAME).size == MAX_BYTES


def with_values(number: int) -> bytes:
    """A `config.json` with so many keys and values, an odd number."""
    body = b'{"architectures": ["Qwen3ForCausalLM"], "x": [' + b",".join([b"[]"] * ((number - 5) // 2)) + b"]}"
    assert sum(map(body.count, (b",", b":", b"[", b"{"))) == number
    return body


@pytest.mark.parametrize("file", ["config.json", "hf_quant_config.json"])
def test_a_file_with_too_many_values_is_refused_before_it_is_decoded(
    server: HubServer, make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch, file: str
) -> None:
    body = with_values(340_001)
    assert len(body) < MAX_BYTES
    server.give(Reply())
    server.give(Reply(body), file, revision="main" if file == "config.json" else COMMIT)
    decoded: list[int] = []

    def read_json(raw: bytes) -> object:
        decoded.append(len(raw))
        return jsontext.read_json(raw)

    for module in (model_files, hub_client):
        monkeypatch.setattr(module, "read_json", read_json)
    reason = f"`{file}` of `{NAME}` has more than 20000 keys and values, which is the limit; give its `config.json`"
    assert refusal(make_hub(), companions=COMPANIONS) == ("HubTooLarge", reason)
    assert refusal(make_hub(offline=True), companions=COMPANIONS) == ("HubTooLarge", reason)
    assert max(decoded, default=0) <= MAX_VALUES


def test_a_file_with_as_many_values_as_are_read(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(with_values(MAX_VALUES - 1)))
    assert len(make_hub().config(NAME).config["x"]) == (MAX_VALUES - 6) // 2


def test_the_text_of_a_string_is_no_value(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(b'{"x": "' + b"[{:," * 200_000 + b'"}'))
    assert make_hub().config(NAME).config == {"x": "[{:," * 200_000}


def test_values_count_in_the_cache(server: HubServer, make_hub: MakeHub) -> None:
    """20,000 of them in 30 KB take more than 1 MB of memory."""
    hub = make_hub()
    names = [f"a/m{number}" for number in range(12)]
    for name in names:
        server.give(Reply(with_values(MAX_VALUES - 1)), name=name)
        hub.config(name, companions=COMPANIONS)
    assert [name for name in names if hub.cached_files(name)] == names[-10:]


def test_a_compressed_file_is_not_decompressed(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(headers={"Content-Encoding": "gzip"}))
    assert refusal(make_hub()) == (
        "HubUnreachable",
        f"the hub compresses files although the request forbids it; check `HF_ENDPOINT`, {GIVE}",
    )


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        (b"", "is empty"),
        (b"[]", "must be an object, got `[]`"),
        (b"<html>", "cannot be read: not JSON: JSON is malformed: invalid character (byte 0)"),
        (b'"\xff"', "cannot be read: not UTF-8: byte 1 is not part of a character"),
        (b"[" * 100_000, "cannot be read: nested too deeply: at most 64 levels are read"),
    ],
)
def test_a_configuration_that_is_not_an_object_is_reported(
    server: HubServer, make_hub: MakeHub, body: bytes, reason: str
) -> None:
    server.give(Reply(body))
    expected = ("HubUnreadable", f"`config.json` of `{NAME}` {reason}; give its `config.json`")
    assert refusal(make_hub()) == expected
    assert refusal(make_hub(offline=True)) == expected


def test_a_companion_that_is_not_text_is_reported(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    server.give(Reply(b"\xff"), "modules.json")
    with pytest.raises(HubUnreadable, match=r"`modules\.json` of `Qwen/Qwen3-8B` is not UTF-8; give"):
        make_hub().config(NAME, companions=["modules.json"])


def test_a_cached_copy_that_is_too_large_is_reported(server: HubServer, make_hub: MakeHub, tmp_path: Path) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    next((tmp_path / "cache").rglob("snapshots/*/config.json")).resolve().write_bytes(b" " * (MAX_BYTES + 1))
    reason = f"`config.json` of `{NAME}` has more than {MAX_BYTES} bytes, which is the limit"
    assert refusal(make_hub()) == ("HubTooLarge", reason)


def test_a_cache_that_cannot_be_written_is_reported(server: HubServer, make_hub: MakeHub, tmp_path: Path) -> None:
    server.give(Reply())
    (tmp_path / "file").touch()
    kind, reason = refusal(make_hub(cache=str(tmp_path / "file")))
    assert (kind, reason.split(": ")[0]) == ("HubFailed", f"`{NAME}` cannot be stored in the hub's cache")


# The token


def test_a_renamed_model_is_followed(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(b"", 307, {"Location": f"/{NAME}/resolve/main/config.json"}), name="old-name")
    server.give(Reply())
    assert make_hub().config("old-name").config == CONFIG


def test_the_token_is_sent_only_to_the_hub(
    server: HubServer, other: HubServer, make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    server.give(
        Reply(b"", 302, {"Location": f"{other.url}/blob", "X-Linked-Etag": '"abc"', "X-Linked-Size": str(len(TEXT))})
    )
    other.replies["/blob"] = Reply()
    assert make_hub().config(NAME).config == CONFIG
    assert (server.tokens, other.asked, other.tokens) == ([f"Bearer {TOKEN}"], [("GET", "/blob")], [None])


def test_the_token_is_not_sent_to_the_target_of_a_redirect(
    server: HubServer, other: HubServer, make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    server.give(Reply(b"", 307, {"Location": "/moved"}))
    server.replies["/moved"] = Reply(b"", 302, {"Location": f"{other.url}/blob", "X-Linked-Etag": '"abc"'})
    other.replies["/blob"] = Reply(headers={"Content-Length": None})
    assert make_hub().config(NAME).config == CONFIG
    assert set(other.tokens) == {None}


def test_without_a_token_none_is_sent(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    assert server.tokens == [None, None]


@pytest.mark.parametrize("token", [f"{TOKEN}é", f"{TOKEN}\x07x"])
def test_an_invalid_token_is_reported_without_showing_it(
    server: HubServer, make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch, token: str
) -> None:
    monkeypatch.setenv("HF_TOKEN", token)
    assert refusal(make_hub()) == ("HubDenied", "the token in `HF_TOKEN` has invalid characters; set it again")
    assert server.asked == []


def test_another_exception_of_the_library_is_reported_by_its_kind(
    make_hub: MakeHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HF_OIDC_RESOURCE", NAME)
    monkeypatch.delenv("GITHUB_ACTIONS", raising=False)
    assert refusal(make_hub()) == (
        "HubFailed",
        f"`{NAME}` cannot be fetched from HUB: OIDCError; give its `config.json`",
    )


def test_a_password_in_the_address_is_not_shown(server: HubServer, make_hub: MakeHub) -> None:
    address = server.url.replace("http://", f"http://user:{TOKEN}@")
    server.give(Reply(status=403))
    assert refusal(make_hub(endpoint=address))[1].startswith(f"{server.url} forbids")


# Names


@pytest.mark.parametrize(
    "name",
    [
        "",
        "/models/qwen",
        "./qwen",
        "../x",
        "a/b/c",
        "a..b",
        "a/../b",
        "~/x",
        "x.git",
        "a b",
        "a\0b",
        "a\n",
        "é",
        "a" * 201,
        "-x",
        "a--b",
    ],
)
def test_an_invalid_repository_name_is_not_requested(server: HubServer, make_hub: MakeHub, name: str) -> None:
    kind, reason = refusal(make_hub(), name)
    assert (kind, reason.rpartition(": ")[2]) == (
        "HubNameInvalid",
        "expected one such as `Qwen/Qwen3-8B`; or give its `config.json`",
    )
    assert server.asked == []


@pytest.mark.parametrize(
    "revision", ["", "..", "../../x", "/etc", "a/../b", "a//b", "a/", ".x", "a b", "a\n", "-x", "a" * 201, "x."]
)
def test_an_invalid_revision_is_not_requested(server: HubServer, make_hub: MakeHub, revision: str) -> None:
    kind, reason = refusal(make_hub(), NAME, revision)
    assert (kind, reason.partition(" `")[0], reason.rpartition(": ")[2]) == (
        "HubNameInvalid",
        "invalid revision",
        "name a branch, a tag or a commit",
    )
    assert server.asked == []


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(name=st.text() | st.text("ab/.-_"), revision=st.none() | st.text() | st.text("ab/.-_"))
def test_any_name_and_revision_give_a_model_or_a_refusal(tmp_path: Path, name: str, revision: str | None) -> None:
    with pytest.raises(HubFailed):
        Hub(20, offline=True, cache=str(tmp_path)).config(name, revision)
    assert list(tmp_path.iterdir()) == []


# Concurrent fetches


def test_concurrent_requests_fetch_a_model_once(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(hold=server.release))
    hub = make_hub()
    with ThreadPoolExecutor(8) as pool:
        asked = [pool.submit(hub.config, NAME) for _ in range(8)]
        server.release.set()
        assert [future.result().config for future in asked] == [CONFIG] * 8
    assert [method for method, _ in server.asked] == ["HEAD", "GET"]


def test_the_number_of_concurrent_fetches_is_limited(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply(hold=server.release))
    hub = make_hub(0.5, max_fetches=1)
    hub.timeout = 20
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(hub.config, NAME)
        while not server.asked:
            threading.Event().wait(0.01)
        hub.timeout = 0.1
        assert refusal(hub, "gpt2") == (
            "HubBusy",
            "the hub was not asked for `gpt2`: too many models are being fetched; try again, or give its `config.json`",
        )
        server.release.set()
        assert first.result().config == CONFIG
    server.give(Reply(), name="gpt2")
    hub.timeout = 20
    assert hub.config("gpt2").config == CONFIG


# Settings


@table(
    "endpoint",
    ["huggingface.co", "ftp://hub", "http://", "https://[", "http://h:99999", "http://h?x", "http://h#x", "http://h\n"],
)
def test_an_invalid_endpoint_is_reported(endpoint: str) -> None:
    with pytest.raises(
        HubMisconfigured, match=r"must be an address such as `https://huggingface\.co`; set `HF_ENDPOINT`"
    ):
        Hub(1, endpoint=endpoint)


@pytest.mark.parametrize(
    ("environment", "endpoint", "offline"),
    [
        ({}, "https://huggingface.co", False),
        ({"HF_ENDPOINT": "https://mirror.example/hub/"}, "https://mirror.example/hub", False),
        ({"HF_ENDPOINT": "", "HF_HUB_OFFLINE": "0"}, "https://huggingface.co", False),
        ({"HF_HUB_OFFLINE": "1"}, "https://huggingface.co", True),
        ({"TRANSFORMERS_OFFLINE": "yes"}, "https://huggingface.co", True),
    ],
)
def test_the_environment_is_read_when_a_hub_is_made(
    server: HubServer, monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], endpoint: str, *, offline: bool
) -> None:
    assert server.url
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    source = Hub(1).source
    assert (source.endpoint, source.offline) == (endpoint, offline)


def test_other_users_of_the_library_keep_their_own_limits(server: HubServer, make_hub: MakeHub) -> None:
    server.give(Reply())
    make_hub().config(NAME)
    server.replies["/large"] = Reply(b" " * (MAX_BYTES + 1))
    assert len(huggingface_hub.get_session().get(f"{server.url}/large").content) == MAX_BYTES + 1


def ran(code: str, **environment: str) -> str:
    root = Path(__file__).resolve().parents[2]
    unset = ("HF_", "TRANSFORMERS_", "HUGGING")
    env = (
        {name: value for name, value in os.environ.items() if not name.startswith(unset)}
        | {"NO_PROXY": "127.0.0.1"}
        | environment
    )
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=root, env=env, capture_output=True, text=True, check=True, timeout=60
    )
    assert run.stderr == ""
    return run.stdout.strip()


def test_nothing_of_the_library_is_imported_without_a_hub() -> None:
    code = (
        "import sys; from policy.intake.model.hub import Hub; Hub(1); print('huggingface_hub' in sys.modules, 'httpx2' "
        "in sys.modules)"
    )
    assert ran(code) == "False False"


def test_a_process_follows_the_librarys_own_variables_and_prints_nothing(server: HubServer, tmp_path: Path) -> None:
    server.give(Reply())
    code = "from policy.intake.model.hub import Hub; print(Hub(20).config('Qwen/Qwen3-8B').cached)"
    environment = {"HF_ENDPOINT": server.url, "HF_HOME": str(tmp_path / "home"), "HF_TOKEN": TOKEN}
    assert ran(code, **environment) == "False"
    assert server.tokens == [f"Bearer {TOKEN}"] * 2
    assert ran(code, **environment, HF_HUB_OFFLINE="1") == "True"
    assert len(server.asked) == 2
    assert (tmp_path / "home" / "hub" / "models--Qwen--Qwen3-8B").is_dir()
