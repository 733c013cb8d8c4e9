"""Rules that change while the service runs: valid ones are loaded, invalid ones are reported."""

from __future__ import annotations

import json
import os
import shutil
import signal
import threading
from contextlib import contextmanager, suppress
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest
from files import replace_file
from msgspec.structs import replace
from pydantic import SecretStr

from policy.parser.yamltree import read_rule_file
from policy.rules.catalogue import load
from policy.rules.loader import Sources, read_folder
from service.app import create_app
from service.jobs.worker import JobWorker
from service.settings import Settings

from .conftest import JSON, QWEN, RULE, TITLE, edit, retitle, until
from .test_life import refused

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from policy.parser.yamltree import YamlNode

    from .conftest import Service, Tokens

CASES = "house/kv-connector-fallback_test.yaml"
KV = {
    "vllm_version": "0.23.0",
    "facts": {**QWEN["facts"], "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}},
}


def decided(service: Service) -> str:
    with service.client() as client:
        return str(client.post("/v1/decisions", json=KV).json()["outcome"])


def remove(folder: Path, rule: str) -> None:
    for path in [next(folder.rglob(name)) for name in (f"{rule}.yaml", f"{rule}_test.yaml")]:
        path.unlink()


# valid rules


def test_an_edit_a_removed_file_and_a_new_file_are_loaded(serve: Callable[..., Any], folder: Path) -> None:
    texts = {name: (folder / name).read_text() for name in (RULE, CASES)}
    with serve("--rules", str(folder)) as service:
        revisions = [service.revision()]
        assert decided(service) == "fallback"
        edit(folder / RULE, TITLE, "title: KV connectors are kept on V1")
        until(lambda: service.revision() != revisions[-1])
        assert service.get("/v1/rules/kv-connector-fallback")["title"] == "KV connectors are kept on V1"
        revisions.append(service.revision())
        remove(folder, "kv-connector-fallback")
        until(lambda: decided(service) == "default")
        revisions.append(service.revision())
        for name, text in texts.items():
            replace_file(folder / name, text)
        until(lambda: decided(service) == "fallback" and service.revision() == revisions[0])
        state, metrics = service.state(), service.metrics()
    assert (len(set(revisions)), state["rules"]["last_error"]) == (3, None)
    assert metrics['runner_policy_reloads_total{result="accepted"}'] == 3
    loaded = service.messages("rules loaded")
    assert [(line["before"], line["revision"]) for line in loaded] == list(
        zip(revisions, [*revisions[1:], revisions[0]], strict=True)
    )


@pytest.mark.slow  # it waits until the next attempt
def test_a_check_that_is_killed_is_made_again_without_a_further_edit(serve: Callable[..., Any], folder: Path) -> None:
    """As by a kernel without memory."""
    with serve("--rules", str(folder)) as service:
        before = service.revision()
        retitle(folder, "Checked at last")

        def killed() -> bool:
            for process in service.children("policy.checks.check"):
                with suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            return service.state()["rules"]["last_error"] is not None

        until(killed)
        error = service.state()["rules"]["last_error"]
        until(lambda: service.revision() != before)
        assert service.get("/v1/rules/kv-connector-fallback")["title"] == "Checked at last"
        until(lambda: service.state()["rules"]["last_error"] is None)
    assert error == ["the process that checks the rules was killed (signal 9); this is tried again"]


def test_files_that_are_written_one_by_one_are_one_revision_at_the_end(
    serve: Callable[..., Any], folder: Path, few_rules: Path
) -> None:
    with serve("--rules", str(folder)) as service:
        before = service.revision()
        folder.rename(folder.with_name("elsewhere"))  # all files at once: a part of them might be valid
        until(lambda: not service.metrics()["runner_policy_last_reload_successful"])
        assert service.revision() == before
        folder.mkdir()
        for path in sorted(few_rules.rglob("*.yaml")):
            to = folder / path.relative_to(few_rules)
            to.parent.mkdir(parents=True, exist_ok=True)
            to.write_text(path.read_text().replace(TITLE, "title: Written anew"))
        until(lambda: service.revision() != before)
        assert service.get("/v1/rules/kv-connector-fallback")["title"] == "Written anew"
        until(lambda: service.metrics()["runner_policy_last_reload_successful"])


def mount(volume: Path, name: str, source: Path) -> None:
    """Write a new version as the kubelet does for a ConfigMap: a folder, then one rename of the link to it."""
    shutil.copytree(source, volume / name)
    link = volume / "..data_tmp"
    link.symlink_to(name)
    old = (volume / "..data").resolve() if (volume / "..data").exists() else None
    link.rename(volume / "..data")
    for inside in (volume / name).iterdir():
        if not (volume / inside.name).is_symlink():
            (volume / inside.name).symlink_to(f"..data/{inside.name}")
    if old is not None:
        shutil.rmtree(old)


def test_a_configmap_is_loaded_when_its_link_is_swapped(
    serve: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    volume = tmp_path / "volume"
    volume.mkdir()
    mount(volume, "..2026_01_01", folder)
    with serve("--rules", str(volume)) as service:
        for number in range(2):
            before = service.revision()
            retitle(folder, f"Version {number}")
            mount(volume, f"..2026_02_0{number}", folder)
            until(lambda before: service.revision() != before, before)
            assert service.get("/v1/rules/kv-connector-fallback")["title"] == f"Version {number}"
        assert service.state()["rules"]["last_error"] is None


@pytest.mark.slow
def test_a_folder_is_loaded_when_the_link_to_it_is_swapped(
    serve: Callable[..., Any], folder: Path, tmp_path: Path
) -> None:
    link, other = tmp_path / "current", tmp_path / "other"
    link.symlink_to(folder)
    shutil.copytree(folder, other)
    retitle(other, "Elsewhere")
    with serve("--rules", str(link)) as service:
        before = service.revision()
        (tmp_path / "next").symlink_to(other)
        (tmp_path / "next").rename(link)
        until(lambda: service.revision() != before)
        retitle(other, "Elsewhere again")  # the new target of the link is watched
        until(lambda: service.get("/v1/rules/kv-connector-fallback")["title"] == "Elsewhere again")


def test_changes_during_the_start_are_loaded(serve: Callable[..., Any], folder: Path) -> None:
    done = threading.Event()

    def change() -> None:
        number = 0
        while not done.wait(0.01):
            number += 1
            retitle(folder, f"Number {number}")
        retitle(folder, "The last")

    thread = threading.Thread(target=change)
    thread.start()
    try:
        with serve("--rules", str(folder)) as service:
            done.set()
            thread.join()
            until(lambda: service.get("/v1/rules/kv-connector-fallback")["title"] == "The last")
    finally:
        done.set()


@pytest.mark.slow
def test_changed_rules_are_ignored_if_reloading_is_off(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder), "--no-reload", "--workers", "2") as service:
        before = service.revision()
        retitle(folder, "Unseen")
        os.kill(service.workers()[0], signal.SIGKILL)
        until(lambda: service.times_ready() >= 3)
        assert {service.revision() for _ in range(20)} == {before}


# invalid rules


def broken(folder: Path, kind: str) -> str:
    """Break the rules in one way, and return the beginning of the fault."""
    match kind:
        case "YAML":
            edit(folder / RULE, TITLE, "title: [")
            return f"{RULE}:"
        case "unknown fact":
            edit(folder / RULE, "kv_transfer_config: present", "kv_transfer_confg: present")
            line = (folder / RULE).read_text().partition("kv_transfer_confg")[0].count("\n") + 1
            return f"{RULE}:{line}:"
        case "failing case":
            edit(folder / CASES, ", kv_transfer_config: {}}", "}")
            return f"{CASES}:8:1: the case `a KV config that names no connector does too` fails at 0.23.0"
        case "broken cases":
            edit(folder / CASES, "cases:", "casse:")
            return f"{CASES}:"
        case "unused condition":
            source = (
                next((folder / "conditions").glob("*.yaml"))
                if (folder / "conditions").is_dir()
                else next(folder.rglob("conditions/*.yaml"))
            )
            other = source.with_name("unused.yaml")
            replace_file(
                other,
                source.read_text()
                .replace(f"condition: {source.stem}", "condition: unused")
                .replace(f"id: {source.stem}", "id: unused"),
            )
            return f"{other.relative_to(folder)}:"
        case "not UTF-8":
            (folder / "house/binary.yaml").write_bytes(b"\xff")
            return "house/binary.yaml:1:1: cannot be read"
        case _:
            raise AssertionError(kind)


KINDS = ("YAML", "unknown fact", "failing case", "broken cases", "unused condition", "not UTF-8")


def test_broken_rules_never_replace_the_last_valid_ones_and_are_reported_everywhere(
    serve: Callable[..., Any], folder: Path, few_rules: Path
) -> None:
    with serve("--rules", str(folder)) as service:
        good = service.revision()
        for kind in KINDS:
            policy, state = until(reported, service, broken(folder, kind))
            metrics = service.metrics()
            assert (policy["revision"], state["revision"], state["status"]) == (good, good, "ready")
            assert (metrics["runner_policy_last_reload_successful"], decided(service)) == (0, "fallback")
            restore(folder, few_rules)
            until(lambda: service.metrics()["runner_policy_last_reload_successful"])
            assert (service.revision(), service.get("/v1/policy")["last_reload_error"]) == (good, None)
        assert service.metrics()['runner_policy_reloads_total{result="rejected"}'] == len(KINDS)
        assert not service.messages("the rules could not be checked")


def reported(service: Service, start: str) -> tuple[Any, Any] | None:
    """The policy and the state of the same reload attempt, once both and the log report a fault with ``start``."""
    policy, state = service.get("/v1/policy"), service.state()
    shown = [(policy["last_reload_error"] or {}).get("errors"), state["rules"]["last_error"]]
    shown += [line["faults"] for line in service.messages("rules rejected; the loaded ones stay in use")[-1:]]
    is_same = shown[0] is not None and policy["last_reload_error"]["at"] == state["rules"]["last_tried_at"]
    return (
        (policy, state)
        if is_same and [any(start in fault for fault in faults or ()) for faults in shown] == [True] * 3
        else None
    )


def restore(folder: Path, source: Path) -> None:
    """Restore the folder from the source, each file atomically."""
    for path in folder.rglob("*.yaml"):
        original = source / path.relative_to(folder)
        if not original.exists():
            path.unlink()
        elif original.read_bytes() != path.read_bytes():
            part = path.with_name(f".{path.name}")
            part.write_bytes(original.read_bytes())
            part.replace(path)


# changes that leave the rules incomplete

INCOMPLETE: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "the layer is a link to nowhere": (
        "house",
        lambda path: path.symlink_to("nowhere"),
        "house:1:1: a symbolic link to `nowhere`, which does not exist",
    ),
    "the layer is a link to itself": (
        "house",
        lambda path: path.symlink_to(path.name),
        "house:1:1: symbolic links form a loop",
    ),
    "the rule is a link to nowhere": (
        RULE,
        lambda path: path.symlink_to("nowhere"),
        f"{RULE}:1:1: a symbolic link to `nowhere`, which does not exist",
    ),
    "the rule is a folder": (RULE, lambda path: path.mkdir(), f"{RULE}:1:1: expected a file, got a folder"),
    "the rule is a pipe": (RULE, os.mkfifo, f"{RULE}:1:1: expected a file, got a named pipe"),
    "the cases are a pipe": (CASES, os.mkfifo, f"{CASES}:1:1: expected a file, got a named pipe"),
    "the cases are gone": (CASES, lambda _: None, f"{CASES}:1:1: missing; write the cases of `kv-connector-fallback` "),
    "the cases are empty": (CASES, lambda path: path.touch(), f"{CASES}:1:1:"),
    "the rule is gone": (RULE, lambda _: None, f"{CASES}:2:7: unknown rule `kv-connector-fallback`"),
}


@contextmanager
def incomplete(folder: Path, kind: str) -> Iterator[str]:
    """Replace a part of the rules for the duration of the block; yields the beginning of the fault."""
    name, put, fault = INCOMPLETE[kind]
    path, aside = folder / name, folder.with_name("aside")
    path.rename(aside)
    put(path)
    try:
        yield fault
    finally:
        if path.is_dir() and not path.is_symlink():
            path.rmdir()
        elif os.path.lexists(path):
            path.unlink()
        aside.rename(path)


@pytest.mark.parametrize("kind", INCOMPLETE)
def test_incomplete_rules_prevent_the_start(folder: Path, kind: str) -> None:
    with incomplete(folder, kind) as fault:
        code, lines = refused("--rules", str(folder))
    assert (code, [line for line in lines if line.startswith(f"{folder}/{fault}")] != []) == (3, True), lines


@pytest.mark.slow
def test_incomplete_rules_never_replace_the_loaded_ones(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder)) as service:
        good = service.revision()
        for kind in INCOMPLETE:
            with incomplete(folder, kind) as fault:
                until(
                    lambda fault: any(line.startswith(fault) for line in service.state()["rules"]["last_error"] or ()),
                    fault,
                )
                assert (service.revision(), decided(service)) == (good, "fallback")
            until(lambda: service.state()["rules"]["last_error"] is None)
            assert service.revision() == good
        assert not service.messages("the rules could not be checked")


@pytest.mark.slow
def test_the_target_of_a_link_to_outside_the_folder_is_watched(serve: Callable[..., Any], folder: Path) -> None:
    outside = folder.with_name("outside")
    (folder / "house").rename(outside)
    (folder / "house").symlink_to("../outside")
    with serve("--rules", str(folder)) as service:
        outside.rename(folder.with_name("away"))
        until(lambda: service.state()["rules"]["last_error"])
        folder.with_name("away").rename(outside)
        until(lambda: service.state()["rules"]["last_error"] is None)
        edit(outside / "kv-connector-fallback.yaml", TITLE, "title: Outside")
        until(lambda: service.get("/v1/rules/kv-connector-fallback")["title"] == "Outside")


@pytest.mark.slow
def test_after_many_swaps_of_a_folder_its_last_content_is_loaded(serve: Callable[..., Any], folder: Path) -> None:
    other, aside = folder.with_name("other"), folder.with_name("aside")
    shutil.copytree(folder, other)
    with serve("--rules", str(folder)) as service:
        for number in range(30):
            retitle(other, f"Number {number}")
            (folder / "house").rename(aside)
            (other / "house").rename(folder / "house")
            aside.rename(other / "house")
        last = next(
            line for line in (folder / RULE).read_text().splitlines() if line.startswith("title: ")
        ).removeprefix("title: ")
        until(
            lambda: (
                service.get("/v1/rules/kv-connector-fallback")["title"] == last
                and service.state()["rules"]["last_error"] is None
            )
        )


def test_rules_that_do_not_always_decide_never_replace_the_loaded_ones(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder)) as service:
        good = service.revision()
        remove(folder, "v2-by-default")
        until(lambda: "no rule decides" in (service.state()["rules"]["last_error"] or [""])[0])
        assert service.revision() == good


# every worker


@pytest.mark.slow
def test_every_worker_loads_a_new_revision(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder), "--workers", "3") as service:
        clients = service.client_of_each()
        assert len(clients) == 3
        revisions = [service.revision()]
        for number in range(2):
            retitle(folder, f"Number {number}")
            service.everywhere(
                "/v1/rules/kv-connector-fallback", lambda rule, number=number: rule["title"] == f"Number {number}"
            )
            (revision,) = {client.get("/v1/policy").json()["revision"] for client in clients.values()}
            revisions.append(revision)
        assert len(set(revisions)) == 3
        assert all(
            client.get("/metrics").text.count('runner_policy_reloads_total{result="accepted"} 2.0') == 1
            for client in clients.values()
        )


@pytest.mark.slow
def test_a_worker_that_dies_while_rules_and_tokens_are_broken_is_replaced_with_the_last_valid_ones(
    serve: Callable[..., Any], folder: Path, tokens: Tokens
) -> None:
    first = tokens.add("first", "read")
    with serve("--rules", str(folder), "--workers", "2", "--tokens", str(tokens.path), token=first) as service:
        before = service.revision()
        retitle(folder, "Published")
        second = tokens.add("second", "read")
        until(lambda: len(service.messages("rules loaded")) == len(service.messages("tokens loaded")) == 2)
        good = service.revision()
        edit(folder / RULE, "title: Published", "title: [")
        replace_file(tokens.path, "tokens: [")
        until(
            lambda: (
                service.state()["rules"]["last_error"]
                and len(service.messages("the file of tokens was rejected; the previous tokens stay valid")) == 2
            )
        )
        victim, other = service.workers()
        os.kill(victim, signal.SIGKILL)
        until(lambda: service.times_ready() >= 3)
        (fresh,) = set(service.workers()) - {other}
        client = service.client_of_each()[fresh]
        assert (client.get("/v1/policy").json()["revision"], good != before, service.process.poll()) == (
            good,
            True,
            None,
        )
        assert client.get("/v1/policy").json()["last_reload_error"]["errors"]
        codes = [
            client.get("/v1/policy", headers={"authorization": f"Bearer {text}"}).status_code
            for text in (first, second, "rp_x")
        ]
        assert codes == [200, 200, 401]
        edit(folder / RULE, "title: [", "title: Repaired")
        until(lambda: client.get("/v1/policy").json()["revision"] not in {good, before})


# one request, one revision


@pytest.mark.slow
def test_a_batch_and_a_stream_in_progress_are_decided_by_one_revision(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder)) as service, service.client() as client:
        stop = threading.Event()
        batches: list[set[str]] = []

        def ask() -> None:
            items = {"items": [{**KV, "request_id": str(number)} for number in range(300)]}
            with service.client() as other:
                while not stop.is_set():
                    found = other.post("/v1/decisions/batch", json=items).json()["items"]
                    batches.append({item["policy"]["revision"] for item in found})

        thread = threading.Thread(target=ask)
        thread.start()
        loaded: list[str] = [service.revision()]
        sent: list[int] = []

        def lines() -> Any:
            for number in range(2):
                yield json.dumps(KV).encode() + b"\n"
                sent.append(number)
                retitle(folder, f"Number {number}")
                until(lambda: service.revision() != loaded[-1])
                loaded.append(service.revision())
                until(lambda: any(loaded[-1] in each for each in batches))

        answer = client.post("/v1/decisions/batch", content=lines(), headers={"content-type": "application/x-ndjson"})
        stop.set()
        thread.join()
    revisions = [json.loads(line)["policy"]["revision"] for line in answer.text.splitlines()]
    assert (revisions, len(set(loaded))) == ([loaded[0]] * 2, 3)
    assert {len(each) for each in batches} == {1}
    assert set().union(*batches) <= set(loaded)
    assert len(set().union(*batches)) > 1


@pytest.mark.parametrize(
    ("path", "type_"),
    [
        ("/v1/decisions", "application/json"),
        ("/v1/decisions", "application/yaml"),
        ("/v1/decisions/batch", "application/json"),
        ("/v1/decisions/batch", "application/x-ndjson"),
        ("/v1/dry-run", "application/json"),
    ],
)
def test_a_request_for_another_revision_is_refused(shared: Callable[..., Any], path: str, type_: str) -> None:
    with shared("open") as service:
        loaded = service.revision()
    body = json.dumps({"items": [KV]} if (path, type_) == ("/v1/decisions/batch", "application/json") else KV)
    other = '"other", '
    tags = {
        f'"{loaded}"': 200,
        loaded: 200,
        "*": 200,
        f'"other", "{loaded}"': 200,
        '"other"': 412,
        f'W/"{loaded}"': 412,
        "": 412,
        loaded[:-1]: 412,
        f"{other * 50}{loaded}": 200,
        f"{other * 150}{loaded}": 412,  # more than 1 KiB
    }
    with shared("open") as service, service.client() as client:
        answers = {
            tag: client.post(path, content=body, headers={"content-type": type_, "if-match": tag}) for tag in tags
        }
    assert {tag: answer.status_code for tag, answer in answers.items()} == tags
    problem = answers['"other"'].json()
    assert (problem["type"], problem["detail"]) == (
        "urn:runner-policy:problem:revision-mismatch",
        f"the loaded revision is {loaded}; send it in `if-match`, or omit the header",
    )


def test_after_a_reload_only_the_new_revision_matches(serve: Callable[..., Any], folder: Path) -> None:
    with serve("--rules", str(folder)) as service, service.client() as client:
        old = service.revision()
        for _ in range(4):  # cached answers of the previous rules must not be used
            assert client.post("/v1/decisions", json=KV).json()["outcome"] == "fallback"
        remove(folder, "kv-connector-fallback")
        until(lambda: service.revision() != old)
        answers = [
            client.post("/v1/decisions", content=json.dumps(KV), headers={**JSON, "if-match": tag})
            for tag in (old, service.revision())
        ]
        document = client.get("/openapi.json").text
    assert [(answer.status_code, answer.json().get("outcome")) for answer in answers] == [(412, None), (200, "default")]
    assert old not in document


def test_a_thread_that_builds_changed_rules_pauses_for_requests(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path
) -> None:
    worked, pauses = count(), list[float]()
    monkeypatch.setattr("service.pauses.thread_time", lambda: float(next(worked)))
    monkeypatch.setattr("service.pauses.sleep", pauses.append)
    state = create_app(Settings(log=SecretStr("off"), run=tmp_path, rules=folder)).service
    assert pauses == []  # nothing is served at start
    texts = read_folder(folder).rules
    published = replace(state.published, revision="new", rules=texts)
    state.build_answers(published, state.answers)
    catalogue, known = state.answers.policy.catalogue, state.answers.policy.releases.known
    # for each file read, each rule checked, each release resolved, each release compiled
    assert pauses == [9.0] * (len(texts) + len(catalogue.ids()) + 2 * len(known))


def test_only_changed_files_are_read_again(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: Path) -> None:
    state = create_app(Settings(log=SecretStr("off"), run=tmp_path, rules=folder)).service
    retitle(folder, "Edited")
    texts = read_folder(folder).rules
    read: list[str] = []

    def read_one(text: str, path: str) -> YamlNode:
        read.append(path)
        return read_rule_file(text, path)

    monkeypatch.setattr("policy.rules.catalogue.read_rule_file", read_one)
    published = replace(state.published, revision="new", rules=texts)
    loaded = [state.build_answers(published, state.answers).policy, JobWorker(texts, None, state.answers.policy).policy]
    assert read == [RULE, RULE]  # by the serving process and by a worker process
    assert [policy.catalogue.rules_by_release for policy in loaded] == [load(Sources(texts)).rules_by_release] * 2
