"""Access by tokens and their scopes for each endpoint, and that no token appears in any output."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import subprocess
import threading
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest
from api.conftest import BIN
from files import replace_file
from representatives import slow_except
from shared_services import SCOPES

from policy.parser import yamltree
from service.auth import access
from service.auth import tokens as token_module
from service.auth.access import Access
from service.auth.tokens import Token, TokenFile, entry_of, new_token
from service.housekeeping import Housekeeping
from service.problems import Refused
from service.telemetry.metrics import Metrics

from .conftest import QWEN, read, until
from .test_limits import connected, everything

if TYPE_CHECKING:
    from collections.abc import Callable

    from shared_services import SharedServices

    from policy.parser.yamltree import YamlNode

    from .conftest import Service, Tokens

UNKNOWN_ID = "01890a5d-ac96-774b-bcce-b302099a8057"
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "any"},
    "spec": {"containers": [{"name": "web", "image": "nginx"}]},
}
REVIEW = {
    "apiVersion": "admission.k8s.io/v1",
    "kind": "AdmissionReview",
    "request": {
        "uid": "1",
        "operation": "CREATE",
        "kind": {"group": "", "version": "v1", "kind": "Pod"},
        "object": POD,
    },
}
ENDPOINTS: dict[tuple[str, str], str | None] = {
    ("POST", "/v1/decisions"): "decide",
    ("POST", "/v1/decisions/batch"): "decide",
    ("POST", "/v1/admission"): "decide",
    ("POST", "/v1/admission/mutate"): "decide",
    ("POST", "/v1/dry-run"): "dry-run",
    ("POST", "/v1/impact"): "dry-run",
    ("GET", "/v1/policy"): "read",
    ("GET", "/v1/rules"): "read",
    ("GET", "/v1/rules/kv-connector-fallback"): "read",
    ("GET", "/v1/rules/unknown"): "read",
    ("GET", "/v1/releases"): "read",
    ("GET", "/v1/images"): "read",
    ("GET", "/v1/facts"): "read",
    ("GET", "/v1/arguments"): "read",
    ("GET", "/metrics"): "read",
    ("GET", "/docs"): "read",
    ("GET", "/docs/static/swagger-ui.css"): "read",
    ("GET", "/openapi.json"): "read",
    ("GET", "/readyz?verbose"): "read",
    ("GET", "/"): "read",
    ("GET", "/unknown"): "read",
    ("POST", "/unknown"): "read",
    ("GET", "/v1/decisions"): "read",
    ("DELETE", "/v1/policy"): "read",
    ("OPTIONS", "/v1/decisions"): "read",
    ("GET", "/v1/log"): "log",
    ("GET", f"/v1/decisions/{UNKNOWN_ID}"): "log",
    ("GET", "/v1/decisions/batch"): "log",
    ("GET", "/v1/%6cog"): "log",
    ("GET", "/livez"): None,
    ("GET", "/readyz"): None,
}
BODIES: dict[str, Any] = {
    "/v1/decisions": QWEN,
    "/v1/decisions/batch": {"items": [QWEN]},
    "/v1/dry-run": QWEN,
    "/v1/impact": {"deployments": [QWEN]},
    "/v1/admission": REVIEW,
    "/v1/admission/mutate": REVIEW,
}
MALFORMED = {
    "no header": None,
    "another scheme": "Basic {token}",
    "no scheme": "{token}",
    "no token": "Bearer",
    "a comma": "Bearer,{token}",
}
UNKNOWN = {
    "unknown": "Bearer rp_unknown",
    "expired": "Bearer {old}",
    "longer": "Bearer {token}x",
    "shorter": "Bearer {short}",
    "twice": "Bearer {token} {token}",
}


def test_each_endpoint_answers_only_callers_whose_token_has_its_scope(
    shared: Callable[..., Any], shared_services: SharedServices
) -> None:
    texts = shared_services.tokens.texts
    headers = {name: f"Bearer {texts[name]}" for name in (*SCOPES, "all")} | {"any case": f"bEARER   {texts['all']}"}
    for name, form in {**MALFORMED, **UNKNOWN}.items():
        headers[name] = form.format(token=texts["all"], old=texts["old"], short=texts["all"][:-1]) if form else ""
    found: dict[tuple[str, str, str], str] = {}
    expected: dict[tuple[str, str, str], str] = {}
    with shared("tokens") as service, service.client() as client:
        for (method, path), scope in ENDPOINTS.items():
            for name, header in headers.items():
                sent = {"authorization": header} if header else {}
                response = client.request(
                    method, path, json=BODIES.get(path) if method == "POST" else None, headers=sent
                )
                found[method, path, name] = kind(response.status_code, response.headers)
                legal = scope is None or name in {scope, "all", "any case"}
                expected[method, path, name] = "allowed" if legal else "forbidden" if name in SCOPES else "unauthorized"
    assert found == expected
    assert len(found) == len(ENDPOINTS) * len(headers)


def kind(status: int, headers: Any) -> str:
    if status == 401:
        return "unauthorized" if headers["www-authenticate"] == "Bearer" else "without www-authenticate"
    return "forbidden" if status == 403 else "allowed"


def test_several_authorization_headers_are_none(shared: Callable[..., Any], shared_services: SharedServices) -> None:
    valid = ("Authorization", f"Bearer {shared_services.tokens.texts['all']}")
    with shared("tokens") as service, service.client() as client:
        for headers in ([valid, valid], [valid, ("Authorization", "Bearer x")], [("authorization", "Bearer x"), valid]):
            for response in (
                client.post("/v1/decisions", json=QWEN, headers=headers),
                *(
                    client.get(path, headers=headers)
                    for path in ("/v1/rules", "/v1/log", "/readyz?verbose", "/metrics")
                ),
            ):
                assert kind(response.status_code, response.headers) == "unauthorized", response.url


def test_refusals_say_what_is_needed_and_are_counted_by_their_reason(shared: Callable[..., Any]) -> None:
    with shared("tokens", "read") as service, service.client() as client:
        before = service.metrics()
        problems = [
            client.post("/v1/decisions", json=QWEN, headers=headers).json()
            for headers in ({"authorization": "Basic x"}, {"authorization": "Bearer rp_unknown"}, {})
        ]
        found = [(problem["status"], problem["type"].rpartition(":")[2], problem["detail"]) for problem in problems]
        metrics = service.metrics_since(before)
        denied = {name: number for name, number in metrics.items() if "access_denied" in name}
        requests = {
            name: number
            for name, number in metrics.items()
            if number and name.startswith("runner_policy_requests_total") and "decisions" in name
        }
    assert found == [
        (401, "unauthorized", "a token is needed; send `authorization: Bearer TOKEN`"),
        (401, "unauthorized", "unknown or expired token"),
        (403, "forbidden", "the token of `read` lacks the scope `decide`, which this endpoint needs"),
    ]
    counted = {
        "no-token": 1.0,
        "unknown-token": 1.0,
        "scope": 1.0,
        "rate": 0.0,
        "connections": 0.0,
        "host": 0.0,
        "origin": 0.0,
    }
    assert denied == {
        f'runner_policy_access_denied_total{{reason="{reason}"}}': number for reason, number in counted.items()
    }
    assert requests == {
        'runner_policy_requests_total{path="/v1/decisions",status="401"}': 2.0,
        'runner_policy_requests_total{path="/v1/decisions",status="403"}': 1.0,
    }


def test_reviews_need_no_token_and_have_no_rate_limit_if_configured(shared: Callable[..., Any]) -> None:
    with shared("rate", log_start=0) as service, service.client() as client:
        reviews = {
            client.post(path, json=REVIEW).status_code
            for path in ("/v1/admission", "/v1/admission/mutate")
            for _ in range(10)
        }
        others = {
            client.post(path, json=BODIES[path]).status_code
            for path in ("/v1/decisions", "/v1/decisions/batch", "/v1/dry-run")
        }
        warned = [
            line["level"]
            for line in service.log_lines()
            if "RUNNER_POLICY_ADMISSION_ALLOW_ANONYMOUS" in line["message"]
        ]
    assert (reviews, others, warned) == ({200}, {401}, ["warning"])


def test_a_decision_is_logged_by_the_name_of_its_token(
    shared: Callable[..., Any], shared_services: SharedServices
) -> None:
    with shared("tokens", "all") as service:
        with service.client(shared_services.tokens.texts["decide"]) as client:
            decision = client.post("/v1/decisions", json=QWEN).json()
        record = until(
            lambda: (
                found if "requested_by" in (found := service.get(f"/v1/decisions/{decision['decision_id']}")) else None
            )
        )
    assert (record["decision_id"], record["requested_by"]) == (decision["decision_id"], "decide")


# no token in any output


@pytest.mark.slow
def test_no_token_is_in_an_answer_a_log_a_file_or_a_command(
    serve: Callable[..., Any], tokens: Tokens, tmp_path: Path
) -> None:
    for scope in SCOPES:
        tokens.add(scope, scope)
    tokens.add("all", *SCOPES)
    tokens.add("old", *SCOPES, until="2020-01-01")
    sent = {**tokens.texts, "stranger": "rp_AStrangersSecretThatNobodyKnows0123456789"}
    answers = []
    run = ("--tokens", str(tokens.path), "--workers", "2")
    with (
        serve(*run, LOG="", LOG_FORMAT="text", ACCESS_LOG="true", RATE_LIMIT="300", LOG_STDOUT="true") as service,
        service.client() as client,
    ):
        for token in sent.values():
            for header in (f"Bearer {token}", token):
                for method, path in ENDPOINTS:
                    response = client.request(
                        method,
                        path,
                        json=BODIES.get(path) if method == "POST" else None,
                        headers={"authorization": header},
                    )
                    answers.append(response.content + repr(response.headers.raw).encode())
        bad = [b"{", b"\xff", b"[" * 5000, b'{"facts": {"odd": 1}}']
        answers += [
            client.post("/v1/decisions", content=body, headers={"authorization": f"Bearer {sent['all']}"}).content
            for body in bad
        ]
        text = sent["all"]
        mistaken = (
            f"tokens:\n  - {text}\n  - name: {text}\n    sha256: {text}\n    scopes: [{text}]\n    until: {text}\n"
            f"    {text}: 1\n"
        )
        replace_file(tokens.path, mistaken)
        until(lambda: service.log.read_text().count("the previous tokens stay valid") >= 2)
        commands = b"".join(map(read, Path("/proc").glob("[0-9]*/cmdline")))
        tokens.path.unlink()
        seen = [read(path) for path in tmp_path.rglob("*") if path.is_file()]
    seen += [read(path) for path in tmp_path.rglob("*") if path.is_file()]
    everything = b"".join([*answers, *seen, commands])
    assert [name for name, token in sent.items() if token.encode() in everything] == []
    assert len(seen) > 5


# changes of the token file


def statuses(service: Service, *texts: str) -> list[int]:
    found = []
    for text in texts:
        with service.client(text) as client:
            found.append(client.get("/v1/policy").status_code)
    return found


@pytest.mark.slow
def test_tokens_are_rotated_without_a_restart_and_a_broken_file_changes_nothing(
    serve: Callable[..., Any], tokens: Tokens
) -> None:
    old = tokens.add("controller-1", "read")
    with serve("--tokens", str(tokens.path)) as service:
        new = tokens.add("controller-2", "read")
        until(lambda: statuses(service, old, new) == [200, 200])
        del tokens.entries["controller-1"]
        tokens.write()
        until(lambda: statuses(service, old, new) == [401, 200])
        for text, message in {
            "tokens: [": "not YAML",
            "": "tokens",
            None: "cannot be read",
        }.items():
            before = len(service.messages("the file of tokens was rejected; the previous tokens stay valid"))
            tokens.path.unlink() if text is None else replace_file(tokens.path, text)
            until(
                lambda before: (
                    len(service.messages("the file of tokens was rejected; the previous tokens stay valid")) > before
                ),
                before,
            )
            assert (
                message
                in service.messages("the file of tokens was rejected; the previous tokens stay valid")[-1]["error"]
            )
            assert statuses(service, old, new) == [401, 200]
        third = tokens.add("controller-3", "read")
        until(lambda: statuses(service, old, new, third) == [401, 200, 200])
        replace_file(tokens.path, "tokens: []\n")
        until(lambda: statuses(service, new, third) == [401, 401])


def test_a_token_file_that_cannot_be_read_once_is_read_again(
    tokens: Tokens, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The removed token would be valid until the next change."""
    for name in "old", "new":
        tokens.add(name, "read")
    file = TokenFile(tokens.path, None)
    service = SimpleNamespace(access=SimpleNamespace(tokens=file.read()), settings=SimpleNamespace(body_timeout=1.0))
    housekeeping = Housekeeping(service, file, None)  # type: ignore[arg-type]  # all that it needs for tokens
    del tokens.entries["old"]
    tokens.write()
    with monkeypatch.context() as patch:
        patch.setattr(token_module, "read_at_most", Mock(side_effect=OSError(errno.EMFILE, "Too many open files")))
        for _ in range(3):
            asyncio.run(housekeeping._read_tokens())
    assert [token.name for token in service.access.tokens] == ["old", "new"]
    asyncio.run(housekeeping._read_tokens())
    assert [token.name for token in service.access.tokens] == ["new"]
    assert [record.levelname for record in caplog.records] == ["ERROR"]


def test_a_changed_token_file_is_read_beside_the_event_loop(tokens: Tokens, monkeypatch: pytest.MonkeyPatch) -> None:
    tokens.add("old", "read")
    file = TokenFile(tokens.path, None)
    service = SimpleNamespace(access=SimpleNamespace(tokens=file.read()), settings=SimpleNamespace(body_timeout=1.0))
    housekeeping = Housekeeping(service, file, None)  # type: ignore[arg-type]  # all that it needs for tokens
    tokens.add("new", "read")
    readers: list[int] = []

    def read_yaml(text: str, path: str) -> YamlNode:
        readers.append(threading.get_ident())
        return yamltree.read_yaml(text, path)

    monkeypatch.setattr(token_module, "read_yaml", read_yaml)
    asyncio.run(housekeeping._read_tokens())
    assert [token.name for token in service.access.tokens] == ["old", "new"]
    assert [reader == threading.get_ident() for reader in readers] == [False]


def test_a_file_that_is_rewritten_with_the_same_size_and_time_is_read_again(
    serve: Callable[..., Any], tokens: Tokens
) -> None:
    """`cp --preserve` and `rsync --inplace --times` write files like this."""
    old = tokens.add("caller", "read")
    with serve("--tokens", str(tokens.path)) as service:
        assert statuses(service, old) == [200]
        before = tokens.path.stat()
        new = new_token()
        tokens.path.write_text("tokens:\n" + entry_of("caller", new, ("read",), None))
        os.utime(tokens.path, ns=(before.st_atime_ns, before.st_mtime_ns))
        after = tokens.path.stat()
        assert (after.st_size, after.st_mtime_ns, after.st_ino) == (before.st_size, before.st_mtime_ns, before.st_ino)
        until(lambda: statuses(service, old, new) == [401, 200])


STREAM = (
    b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
    b"Transfer-Encoding: chunked\r\nConnection: close\r\nAuthorization: Bearer %b\r\n\r\n"
)
LINE = json.dumps(QWEN).encode() + b"\n"


def outcomes(response: bytes) -> list[str]:
    """The runner or the problem of each line of a stream's response."""
    lines = [json.loads(line) for line in response.splitlines() if line.startswith(b"{")]
    return [line.get("runner") or f"{line['status']} {line['detail']}" for line in lines]


@pytest.mark.parametrize(
    ("entry", "expected"),
    [
        (None, "401 unknown or expired token"),
        ({"scopes": ("decide",), "until": "2020-01-01"}, "401 unknown or expired token"),
        ({"scopes": ("read",)}, "403 the token of `caller` lacks the scope `decide`, which this endpoint needs"),
    ],
    ids=["removed", "expired", "without the scope"],
)
@pytest.mark.parametrize("size", slow_except([1], [1, 100]))
def test_the_streams_of_a_revoked_token_end_at_the_next_line(
    serve: Callable[..., Any], tokens: Tokens, entry: dict[str, Any] | None, expected: str, size: int
) -> None:
    text = tokens.add("caller", "decide")
    other = tokens.add("other", "read", "decide")
    with serve("--tokens", str(tokens.path)) as service, connected(service) as stream:
        stream.sendall(STREAM % text.encode() + b"%x\r\n%b\r\n" % (len(LINE), LINE))
        received = b""
        while b'"decision_id"' not in received:
            received += stream.recv(1 << 16)
        del tokens.entries["caller"]
        if entry is not None:
            tokens.entries["caller"] = entry_of("caller", text, entry["scopes"], entry.get("until"))
        tokens.write()
        with service.client(text) as client:
            until(lambda: client.post("/v1/decisions", json=QWEN).status_code != 200)
        stream.sendall(b"%x\r\n%b\r\n" % (size * len(LINE), size * LINE))
        received += everything(stream)
        assert statuses(service, other) == [200]
    assert outcomes(received) == ["v2", expected]


def test_a_stream_continues_while_other_tokens_change(serve: Callable[..., Any], tokens: Tokens) -> None:
    text, other = tokens.add("caller", "decide"), tokens.add("other", "read")
    with serve("--tokens", str(tokens.path)) as service, connected(service) as stream:
        stream.sendall(STREAM % text.encode() + b"%x\r\n%b\r\n" % (len(LINE), LINE))
        del tokens.entries["other"]
        tokens.write()
        until(lambda: statuses(service, other) == [401])
        stream.sendall(b"%x\r\n%b\r\n" % (len(LINE), LINE) + b"0\r\n\r\n")
        received = everything(stream)
    assert outcomes(received) == ["v2", "v2"]


def test_the_streams_of_a_token_end_when_it_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    class Clock:
        day = datetime(2027, 1, 31, 23, 59, tzinfo=UTC)

        @staticmethod
        def now(_zone: object) -> datetime:
            return Clock.day

    monkeypatch.setattr(access, "datetime", Clock)
    lasting, passing = (
        Token(name, sha256(name.encode()).digest(), frozenset({"decide"}), last)
        for name, last in (("lasting", None), ("passing", Clock.day.date()))
    )
    control = Access((lasting, passing), 0, Metrics())
    permissions = [
        control.permission({b"authorization": b"Bearer " + name}, "decide") for name in (b"lasting", b"passing")
    ]
    Clock.day += timedelta(hours=1)
    control.drop_expired()
    control.check_again(permissions[0])
    with pytest.raises(Refused, match="unknown or expired token"):
        control.check_again(permissions[1])


# the rate limit


def test_each_caller_has_its_own_rate_limit(shared: Callable[..., Any], shared_services: SharedServices) -> None:
    eager, calm = (shared_services.tokens.texts[name] for name in ("eager", "calm"))
    with shared("rate") as service, service.client(eager) as client:
        answers = [client.post("/v1/decisions", json=QWEN) for _ in range(3)]
        probes = {client.get(path).status_code for path in ("/livez", "/readyz") for _ in range(5)}
        with service.client(calm) as other:
            assert other.post("/v1/decisions", json=QWEN).status_code == 200
    assert [answer.status_code for answer in answers] == [200, 429, 429]
    wait = answers[1].headers["retry-after"]
    assert (wait.isdigit(), answers[1].json()["detail"]) == (True, f"more than 0.001 decisions a second; wait {wait} s")
    assert probes == {200}


def test_without_tokens_each_address_has_its_own_rate_limit(serve: Callable[..., Any]) -> None:
    with serve(RATE_LIMIT="1", TRUSTED_PROXIES="127.0.0.1") as service, service.client() as client:
        codes = [client.post("/v1/decisions", json=QWEN).status_code for _ in range(12)]
        other = client.post("/v1/decisions", json=QWEN, headers={"x-forwarded-for": "192.0.2.7"}).status_code
        until(lambda: client.get("/v1/policy").status_code == 200)
    assert (codes[0], set(codes), other) == (200, {200, 429}, 200)


def test_the_command_makes_an_entry_with_which_its_token_is_valid(serve: Callable[..., Any], tokens: Tokens) -> None:
    command = [str(BIN / "runner-policy"), "token", "new", "ci", "--scope", "read", "--until", "2999-12-31"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    text = done.stderr.split()[-1]
    tokens.path.write_text(f"tokens:\n{done.stdout}")
    with serve("--tokens", str(tokens.path)) as service:
        assert statuses(service, text, text[:-1]) == [200, 401]
    assert text not in done.stdout
