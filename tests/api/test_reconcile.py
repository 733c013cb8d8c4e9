"""The example of a deployment controller, run as a program against the service, and against answers of all kinds.

Whatever answers, it prints a plan, with variables that are texts.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except

from .conftest import ROOT, TOKEN

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from .conftest import Done, Server

    Run = Callable[..., Done]
    Answer = Callable[[socket.socket], None]

VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
MODEL = "Qwen/Qwen3-8B"
TRANSFER = ["--kv-transfer-config", '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}']
CONFIGS = {MODEL: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
WRITTEN = {"HF_HOME": "/models", VARIABLE: "1"}
DECISION: dict[str, Any] = {
    "summary": "V1: a reason",
    "runner": "v1",
    "starts": True,
    "startup_errors": [],
    "launch_errors": [],
    "warnings": [],
    "set_env": {},
    "release": {"decided_as": "0.23.0", "verified": True, "defaulted": False},
}


def request_of(*args: str, **deployment: Any) -> dict[str, Any]:
    words = ["vllm", "serve", MODEL, *args]
    return {"vllm_version": "0.23.0", "deployment": {"args": words, "model_configs": CONFIGS, **deployment}}


def planned(run: Run, service: str, document: Any, *flags: str) -> dict[str, Any]:
    """The plan that the example prints."""
    text = document if isinstance(document, str) else json.dumps(document)
    done = run(
        str(ROOT / "docs/reconcile.py"), "-", "--service", service, *flags, program="python", stdin=text, cwd=ROOT
    )
    assert (done.code, done.err) == (0, "")
    found: dict[str, Any] = json.loads(done.out)
    assert list(found) == ["action", "messages", "env"]
    assert all(isinstance(each, str) for each in [*found["messages"], *found["env"].values()])
    return found


# the service


ENVIRONMENTS: list[tuple[Any, dict[str, str]]] = [
    ({}, {}),
    (None, {}),
    ({"A": "b"}, {"A": "b"}),
    ({"A": None, "B": ""}, {"B": ""}),
    ({VARIABLE: None}, {}),
]


@pytest.mark.parametrize(("env", "kept"), ENVIRONMENTS)
def test_the_variable_is_added_to_those_that_the_owner_wrote(
    run: Run, server: Server, env: Any, kept: dict[str, str]
) -> None:
    plan = planned(run, server.url, request_of(*TRANSFER, env=env))
    assert (plan["action"], plan["env"]) == ("roll-out", {**kept, VARIABLE: "0"})
    assert plan["messages"] == ["V1: a KV connector (NixlConnector) keeps this deployment on V1"]
    assert planned(run, server.url, request_of(env=env))["env"] == kept


@pytest.mark.parametrize(("value", "text"), [(True, "1"), (False, "0"), ("1", "1"), (None, None)])
def test_the_variable_of_facts_is_a_text_in_the_plan(run: Run, server: Server, value: Any, text: str | None) -> None:
    facts = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "env": {VARIABLE: value}}
    plan = planned(run, server.url, {"vllm_version": "0.23.0", "facts": facts})
    assert (plan["action"], plan["env"]) == ("roll-out", {} if text is None else {VARIABLE: text})


HELD: list[tuple[Any, str]] = [
    (request_of("--no-such-flag"), "--no-such-flag"),
    (request_of(env={VARIABLE: "yes"}), VARIABLE),
    (request_of("--enable-dbo", env={VARIABLE: "1"}), "dual batch overlap"),
    (request_of(env={"A": 1}), "expected a string as the variable A"),
    (request_of(env=["A=1"]), "expected an object as `env`"),
    ({"facts": {"model_config": {"is_moe": 1}}}, "is_moe"),
    ({"facts": {"env": {VARIABLE: 1}}}, f"expected a string as the variable {VARIABLE}"),
    ({"deployment": None}, "expected `deployment` or `facts`"),
    ({}, "expected `deployment` or `facts`"),
    ({"manifest": {}}, "expected `deployment` or `facts`"),
    ({"facts": []}, "expected `deployment` or `facts`"),
]


@pytest.mark.parametrize(("document", "why"), HELD)
def test_what_would_not_start_or_is_invalid_is_held_with_the_reason(
    run: Run, server: Server, document: Any, why: str
) -> None:
    plan = planned(run, server.url, document)
    assert (plan["action"], plan["env"], any(why in message for message in plan["messages"])) == ("hold", {}, True)


@pytest.mark.parametrize("env", [{}, {VARIABLE: "0"}])
def test_an_engine_whose_command_clears_the_variable_is_held(run: Run, server: Server, env: dict[str, str]) -> None:
    document = request_of(*TRANSFER, env=env)
    document["deployment"]["args"] = ["env", "-i", *document["deployment"]["args"]]
    plan = planned(run, server.url, document)
    assert (plan["action"], plan["env"]) == ("hold", {})
    assert any("has no effect: the command clears it, or may change it (args[1])" in each for each in plan["messages"])


def test_a_token_is_sent_if_it_is_given(run: Run, with_tokens: Server, tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text(f"{TOKEN}\n")
    plan = planned(run, with_tokens.url, request_of(*TRANSFER), "--token-file", str(file))
    assert (plan["action"], plan["env"]) == ("roll-out", {VARIABLE: "0"})
    plan = planned(run, with_tokens.url, request_of(*TRANSFER))
    assert (plan["action"], plan["messages"][0].startswith("invalid request: ")) == ("hold", True)


@pytest.mark.parametrize("text", ["", "{", "[]", "null", "[" * 100_000])
def test_an_unreadable_request_is_wrong_usage(run: Run, text: str) -> None:
    done = run(str(ROOT / "docs/reconcile.py"), "-", program="python", stdin=text)
    assert (done.code, done.out, "Traceback" in done.err) == (2, "", False)


# other answers


def reply(body: Any, status: str = "200 OK", *headers: str, length: int | None = None) -> Answer:
    """An answer with a body, and its length if no other is given."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    size = len(content) if length is None else length
    head = "\r\n".join([f"HTTP/1.1 {status}", f"content-length: {size}", *headers, "", ""])

    def send(connection: socket.socket) -> None:
        connection.sendall(head.encode() + content)

    return send


def forever(start: bytes, piece: bytes, pause: float) -> Answer:
    """An answer that does not end until the client closes the connection."""

    def send(connection: socket.socket) -> None:
        connection.sendall(start)
        while True:
            connection.sendall(piece)
            time.sleep(pause)

    return send


def without(name: str) -> dict[str, Any]:
    return {member: value for member, value in DECISION.items() if member != name}


HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 1000000000\r\n\r\n"
LARGE_HEAD = b"HTTP/1.1 200 OK\r\ncontent-length: 100000003\r\n\r\n"
NO_DECISIONS: dict[str, Answer] = {
    "empty object": reply({}),
    "null": reply(None),
    "list": reply([]),
    "text": reply("v1"),
    "nothing": reply(b""),
    "not JSON": reply(b"<html>it works</html>"),
    "not UTF-8": reply(b'{"runner": "\xff"}'),
    "large number": reply(b"1" * 100_000),
    "manifest": reply({"items": []}),
    "nested lists": reply(b"[" * 1_000_000),
    "nested objects": reply(b'{"a":' * 200_000),
    "cut": reply(json.dumps(DECISION).encode()[:-5]),
    "cut before the end": reply(json.dumps(DECISION).encode()[:-5], length=1000),
    "100 MB": lambda connection: connection.sendall(LARGE_HEAD + b"[" + b"0," * 50_000_000 + b"0]"),
    "slow drip of the body": forever(HEAD, b" ", 0.05),
    "slow drip of the head": forever(b"HTTP/1.1 200 OK\r\nx-a: ", b"a", 0.05),
    "interim answers": forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n", 0.001),
    "silence": forever(b"", b"", 0.05),
    "closed": lambda connection: connection.close(),
    "not HTTP": lambda connection: connection.sendall(b"SSH-2.0-OpenSSH_9.9\r\n"),
    "redirect": reply(b"", "302 Found", "location: /elsewhere"),
    "no content": reply(b"", "204 No Content"),
    "500": reply({"detail": "no"}, "500 Internal Server Error"),
    "503": reply({"detail": "no"}, "503 Service Unavailable", "retry-after: 1"),
    "503 for long": reply({"detail": "no"}, "503 Service Unavailable", "retry-after: 99999999999999999999"),
    "503 until a date": reply(
        {"detail": "no"}, "503 Service Unavailable", "retry-after: Fri, 31 Dec 1999 23:59:59 GMT"
    ),
    "429": reply({"detail": "slow down"}, "429 Too Many Requests", "retry-after: -1"),
    **{f"no {name}": reply(without(name)) for name in DECISION},
    "runner v3": reply({**DECISION, "runner": "v3"}),
    "starts of 1": reply({**DECISION, "starts": 1}),
    "null in set_env": reply({**DECISION, "set_env": {VARIABLE: None}}),
    "true in set_env": reply({**DECISION, "set_env": {VARIABLE: True}}),
    "no list of warnings": reply({**DECISION, "warnings": "none"}),
    "null among errors": reply({**DECISION, "starts": False, "launch_errors": [None]}),
    "empty release": reply({**DECISION, "release": {}}),
}


class AnsweringServer:
    """A server on loopback that sends the given answers in turn, and repeats the last one."""

    def __init__(self, answers: list[Answer]) -> None:
        self.answers = answers
        self.requests: list[bytes] = []
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self.listener.getsockname()[1]}"

    def serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self.listener.accept()
                threading.Thread(target=self.answer, args=(connection,), daemon=True).start()

    def answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            self.requests.append(read_request(connection))
            self.answers[min(len(self.requests), len(self.answers)) - 1](connection)


def read_request(connection: socket.socket) -> bytes:
    """A request with its body."""
    data = b""
    while (head := data.partition(b"\r\n\r\n"))[1] == b"" or len(head[2]) < length_of(head[0]):
        piece = connection.recv(65536)
        if not piece:
            break
        data += piece
    return data


def length_of(head: bytes) -> int:
    lines = head.lower().split(b"\r\n")
    return next((int(line.partition(b":")[2]) for line in lines if line.startswith(b"content-length:")), 0)


@contextmanager
def answering(*answers: Answer) -> Iterator[AnsweringServer]:
    """A server with these answers."""
    found = AnsweringServer(list(answers))
    threading.Thread(target=found.serve, daemon=True).start()
    try:
        yield found
    finally:
        found.listener.shutdown(socket.SHUT_RDWR)
        found.listener.close()


@pytest.mark.parametrize(
    "name", slow_except(["empty object", "nested lists", "silence", "closed", "503"], NO_DECISIONS)
)
def test_without_a_decision_the_running_revision_is_kept(run: Run, name: str) -> None:
    with answering(NO_DECISIONS[name]) as server:
        plan = planned(run, server.url, request_of(env=WRITTEN), "--deadline", "0.7")
    assert (plan["action"], plan["env"], len(plan["messages"])) == ("keep", {}, 1)


def test_without_a_decision_a_controller_that_fails_open_rolls_out_as_written(run: Run) -> None:
    with answering(reply({})) as server:
        plan = planned(run, server.url, request_of(env={**WRITTEN, "A": None}), "--deadline", "0.7", "--fail-open")
    assert (plan["action"], plan["env"]) == ("roll-out", WRITTEN)


def test_without_a_service_the_running_revision_is_kept(run: Run) -> None:
    with answering() as server:
        pass
    plan = planned(run, server.url, request_of(), "--deadline", "0.7")
    assert (plan["action"], plan["env"]) == ("keep", {})


@pytest.mark.parametrize("name", ["empty object", "closed", "cut before the end", "500", "503", "429", "no release"])
def test_an_answer_without_a_decision_is_asked_for_again(run: Run, name: str) -> None:
    with answering(NO_DECISIONS[name], NO_DECISIONS[name], reply(DECISION)) as server:
        plan = planned(run, server.url, request_of(env=WRITTEN), "--deadline", "60")
    assert (plan["action"], plan["messages"], plan["env"]) == ("roll-out", ["V1: a reason"], WRITTEN)
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    ("answer", "why"),
    [
        (reply({"detail": "/facts: a fault"}, "422 Unprocessable Content"), "/facts: a fault"),
        (reply({"detail": "x" * 100_000}, "422 Unprocessable Content"), "x" * 1000),
        (reply({}, "401 Unauthorized"), "status 401"),
        (reply(b"[" * 1_000_000, "404 Not Found"), "status 404"),
        (reply({"detail": 1}, "413 Content Too Large"), "status 413"),
    ],
)
def test_a_refused_request_is_held_and_not_repeated(run: Run, answer: Answer, why: str) -> None:
    with answering(answer) as server:
        plan = planned(run, server.url, request_of(), "--deadline", "60")
    assert (plan["action"], plan["messages"], len(server.requests)) == ("hold", [f"invalid request: {why}"], 1)


def test_a_redirect_does_not_get_the_token(run: Run, tmp_path: Any) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    with answering(reply(DECISION)) as other:
        redirect = reply(b"", "307 Temporary Redirect", f"location: {other.url}/v1/decisions")
        with answering(redirect) as server:
            flags = ("--token-file", str(file), "--deadline", "0.7")
            assert planned(run, server.url, request_of(), *flags)["action"] == "keep"
    assert (other.requests, all(TOKEN.encode() in each for each in server.requests)) == ([], True)
