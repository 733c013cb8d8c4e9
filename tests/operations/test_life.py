"""The life of the service's processes: refused starts, replaced workers, shutdown, logs."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import BIN, PATIENCE, ROOT, command_variables, environment
from ports import port_of_nobody
from processes import bound
from typer.testing import CliRunner

from policy.cli.app import app
from service.auth.tokens import new_token
from service.settings import Settings

from .conftest import QWEN, lives, until

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from .conftest import Service


def refused(*arguments: str, **variables: str) -> tuple[int, list[str]]:
    """The exit code and the error output of `serve` if it does not start.

    It runs in this process, which takes a fraction of the time.
    """
    settings = {f"RUNNER_POLICY_{name}": value for name, value in {"PORT": "0", "LOG": "off", **variables}.items()}
    before = signal.getsignal(signal.SIGTERM)
    try:
        found = CliRunner().invoke(
            app, ["serve", *arguments], env={**dict.fromkeys(command_variables()), "COLUMNS": "200", **settings}
        )
    finally:
        signal.signal(signal.SIGTERM, before)
    assert isinstance(found.exception, SystemExit), found.exception
    return found.exit_code, found.stderr.splitlines()


# refused starts


def test_every_fault_in_the_settings_is_named_at_once(tmp_path: Path) -> None:
    tokens, cert = tmp_path / "tokens.yaml", tmp_path / "cert.pem"
    tokens.write_text("tokens:\n  - name: A\n    sha256: x\n    scopes: [all]\n")
    cert.write_text("no certificate")
    signers = tmp_path / "signers"
    signers.write_text("nobody\n")
    found = refused(
        *(
            "--host",
            "192.0.2.1",
            "--port",
            "99999",
            "--workers",
            "0",
            "--tls-cert",
            str(cert),
            "--tls-key",
            str(tmp_path / "none"),
            "--tokens",
            str(tokens),
        ),
        LOG="mysql://user:hunter22@host/db",
        BODY_TIMEOUT="soon",
        LOG_LABELS="{",
        RULES_GIT_ALLOWED_SIGNERS=str(signers),
        TLS_CLIENT_CA=str(cert),
    )
    assert found[0] == 2
    begins = [
        "--port: Input should be less than or equal to 65535, not `99999`",
        "--workers: Input should be greater than or equal to 1, not `0`",
        "RUNNER_POLICY_BODY_TIMEOUT: Input should be a valid number, unable to parse string as a number, not `soon`",
        'RUNNER_POLICY_LOG_LABELS: expected a JSON object such as `{"cluster": "eu-1"}`, not `{`',
        f"--tls-key: {tmp_path}/none cannot be read",
        f"--tls-client-ca: cannot load certificates from {cert}: ",
        f"--tokens: {tokens}:2:11: invalid name `A`; ",
        f"{tokens}:3:13: expected a SHA-256 in 64 lower-case hexadecimal digits; ",
        f"{tokens}:4:14: ",
        f"RUNNER_POLICY_RULES_GIT_ALLOWED_SIGNERS: {signers}:1: invalid entry: ",
        "--log: ",
        "192.0.2.1:0 cannot be listened on: ",
    ]
    assert [line[: len(begin)] for line, begin in zip(found[1], begins, strict=False)] == begins, found[1]
    assert len(found[1]) == len(begins)
    assert "hunter22" not in "".join(found[1])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--host", "0.0.0.0"], "--host: 0.0.0.0 can be reached from other machines, and no token is required; "),
        (["--host", "::"], "--host: :: can be reached from other machines, and no token is required; "),
        (["--tls-key", "Makefile"], "--tls-cert and --tls-key belong together; give both"),
        (["--tls-client-ca", "Makefile"], "--tls-client-ca needs --tls-cert and --tls-key"),
        (["--tokens", "nowhere"], "--tokens: nowhere: cannot be read: No such file or directory"),
        (["--tokens", "docs"], "--tokens: docs: cannot be read: expected a file, got a folder"),
        (
            ["--tls-cert", "Makefile", "--tls-key", "Makefile"],
            "--tls-cert: cannot load Makefile with the key Makefile: ",
        ),
        (["--default-release", "0.99"], "--default-release: unknown release `0.99`; "),
        (["--rules-git", "file:///nowhere/rules.git"], "--rules-git: "),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_an_invalid_setting_is_named(arguments: list[str], message: str) -> None:
    code, lines = refused(*arguments)
    assert (code, lines[0][: len(message)]) == (2, message), lines


def test_a_log_that_is_required_and_off_is_refused() -> None:
    assert refused(LOG_REQUIRED="true") == (
        2,
        ["RUNNER_POLICY_LOG_REQUIRED: the decision log is off; name one with --log"],
    )


def test_a_propagator_that_opentelemetry_does_not_have_is_refused() -> None:
    variables = environment(OTEL_PROPAGATORS="b4", COLUMNS="200")
    done = subprocess.run([BIN / "runner-policy", "serve"], env=variables, capture_output=True, text=True, check=False)
    message = (
        "OTEL_PROPAGATORS: Propagator b4 not found. It is either misspelled or not installed. Legal: `tracecontext`, "
        "`baggage`, `none`.\n"
    )
    assert (done.returncode, done.stderr) == (2, message)


def test_it_listens_on_other_addresses_if_configured(shared: Callable[..., Any]) -> None:
    with shared("everywhere") as service:
        assert service.get("/readyz")["status"] == "ready"


# workers


@pytest.mark.slow
def test_settings_reach_every_worker_unchanged(serve: Callable[..., Any], tmp_path: Path) -> None:
    labels = {"cluster": 'a "b" {c}', "site": "ü, eins"}
    store = tmp_path / "a b#c.db"
    values = {
        "MAX_BATCH_ITEMS": "2",
        "LOG_LABELS": json.dumps(labels),
        "LOG": f"sqlite:///{store}",
        "LOG_STDOUT": "yes",
        "LOG_RETENTION_DAYS": "none",
        "ACCESS_LOG": "1",
    }
    with serve("--workers", "2", "--default-release", "0.24.0", **values) as service:
        for client in service.client_of_each().values():
            decision = client.post(
                "/v1/decisions", json={**QWEN, "request_id": "é"}, headers={"x-request-id": "r-1"}
            ).json()
            assert decision["release"]["decided_as"] == "0.24.0"
            assert client.post("/v1/decisions/batch", json={"items": [QWEN] * 3}).status_code == 422
    records = [line for line in service.log_lines() if "labels" in line]
    assert [{name: record["labels"][name] for name in labels} for record in records] == [labels] * 2
    posts = [
        (line["path"], line["status"], line.get("request_id"))
        for line in service.messages("request")
        if line["method"] == "POST"
    ]
    assert posts == [("/v1/decisions", 200, "r-1"), ("/v1/decisions/batch", 422, None)] * 2
    assert store.exists()


@pytest.mark.slow
def test_workers_that_die_are_replaced_each_time(serve: Callable[..., Any]) -> None:
    with serve("--workers", "2") as service:
        for number in (3, 4):
            os.kill(service.workers()[0], signal.SIGKILL)
            until(lambda number: service.times_ready() >= number, number)
            assert service.get("/readyz")["status"] == "ready"
        until(lambda: service.metrics()["runner_policy_workers"] == 2)
        os.kill(service.process.pid, signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_workers_end_when_their_parent_is_killed(serve: Callable[..., Any]) -> None:
    with serve("--workers", "2", LOG="") as service:
        pids = service.workers()
        os.kill(service.process.pid, signal.SIGKILL)
        until(lambda: not any(map(lives, pids)))
        assert len(service.messages("the parent process is gone; this worker ends")) == 2


SLOW_SHELL = "set -- a b c;" + 'set -- "$@" "$@";' * 15 + '"$@"'
"""A command that takes a tenth of a second to read."""


def everything(connection: socket.socket) -> bytes:
    """All bytes until the other side closes the connection."""
    return b"".join(iter(lambda: connection.recv(65536), b""))


def wait_for_workers(service: Service) -> None:
    """Wait until every worker has answered a request sent after all earlier ones."""
    for client in service.client_of_each().values():
        assert client.get("/livez").text == "ok\n"


@pytest.mark.parametrize(
    ("workers", "signal_sent"),
    [("1", signal.SIGTERM), ("1", signal.SIGHUP), pytest.param("2", signal.SIGTERM, marks=pytest.mark.slow)],
)
def test_a_request_in_progress_is_finished_after_a_signal(
    serve: Callable[..., Any], workers: str, signal_sent: signal.Signals, tmp_path: Path
) -> None:
    body = b'{"facts": {}}'
    with (
        serve("--workers", workers) as service,
        socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection,
    ):
        connection.sendall(
            b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:5]
        )
        wait_for_workers(service)
        os.kill(service.process.pid, signal_sent)
        until(lambda: "Shutting down" in service.log.read_text())
        connection.sendall(body[5:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert service.process.wait(PATIENCE) == 0
        assert "Traceback" not in service.log.read_text()
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_request_that_never_ends_is_waited_for_until_the_shutdown_timeout(serve: Callable[..., Any]) -> None:
    with (
        serve(SHUTDOWN_TIMEOUT="0.3", BODY_TIMEOUT="3600") as service,
        socket.create_connection(("127.0.0.1", service.port), PATIENCE) as connection,
    ):
        connection.sendall(b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
        wait_for_workers(service)
        os.kill(service.process.pid, signal.SIGTERM)
        assert service.process.wait(PATIENCE) == 0


@pytest.mark.slow
def test_requests_in_progress_at_the_end_of_a_shutdown_get_a_problem(serve: Callable[..., Any]) -> None:
    """They wait for the rest of a body, a worker process, another line, and the log's database."""
    silent = socket.create_server(("127.0.0.1", 0))
    log = f"postgresql://localhost:{silent.getsockname()[1]}/log?sslmode=disable"
    deciding = ("/v1/decisions", "/v1/decisions/batch", "/v1/dry-run", "/v1/admission", "/v1/admission/mutate")
    unfinished = {
        path: b"POST %b HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{" % path.encode()
        for path in deciding
    }
    slow = {"items": [{"deployment": {"args": ["sh", "-c", SLOW_SHELL], "model_configs": {}}}] * 10_000}
    body = json.dumps(slow).encode()
    work = b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body
    reading = b"GET /v1/log HTTP/1.1\r\nHost: localhost\r\n\r\n"
    stream = (
        b"POST /v1/decisions/batch HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/x-ndjson\r\n"
        b'Transfer-Encoding: chunked\r\n\r\nd\r\n{"facts":{}}\n\r\n'
    )
    with silent, serve(LOG=log, LOG_TIMEOUT="600", SHUTDOWN_TIMEOUT="2") as service, ExitStack() as stack:
        connections = [
            stack.enter_context(socket.create_connection(("127.0.0.1", service.port), PATIENCE))
            for _ in range(len(unfinished) + 3)
        ]
        for connection, sent in zip(connections, [*unfinished.values(), work, reading, stream], strict=True):
            connection.sendall(sent)
        assert connections[-1].recv(12) == b"HTTP/1.1 200"
        wait_for_workers(service)
        os.kill(service.process.pid, signal.SIGTERM)
        *answers, streamed = [everything(connection) for connection in connections]
        assert service.process.wait(PATIENCE) == 0
        text = service.log.read_text()
    for answer in answers:
        head, _, problem = answer.partition(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 503 Service Unavailable")
        assert (b"retry-after: 1" in head, b"connection: close" in head) == (True, True)
        assert json.loads(problem)["type"] == "urn:runner-policy:problem:stopping"
    *_, answered, last = (line for line in streamed.splitlines() if line.startswith(b"{"))
    assert [json.loads(line).get("type") for line in (answered, last)] == [None, "urn:runner-policy:problem:stopping"]
    assert streamed.endswith(b"\r\n0\r\n\r\n")
    assert ("Exception in ASGI" in text, "ASGI callable" in text, "Traceback" in text) == (False, False, False)


@pytest.mark.parametrize("shutdown_timeout", [0.3, 1, 6, 20, 3600])
def test_requests_and_the_log_have_less_time_than_the_shutdown(shutdown_timeout: float) -> None:
    settings = Settings(shutdown_timeout=shutdown_timeout)
    assert shutdown_timeout / 2 <= settings.request_stop_time < settings.log_stop_time < settings.shutdown_timeout


def test_a_killed_service_s_folder_is_removed_at_the_next_start(serve: Callable[..., Any], tmp_path: Path) -> None:
    def folders() -> set[Path]:
        return set((tmp_path / "tmp").glob("runner-policy-*"))

    foreign = tmp_path / "tmp" / "runner-policy-without-a-lock"
    foreign.mkdir(parents=True)
    link = tmp_path / "tmp" / "runner-policy-link"
    link.symlink_to(foreign)
    with serve() as killed:
        (abandoned,) = folders() - {foreign, link}
        killed.process.kill()
        killed.process.wait(PATIENCE)
        assert abandoned in folders()
        with serve():
            (first,) = folders() - {foreign, link}
            assert first != abandoned
            with serve():
                assert {foreign, link, first} < folders()
    assert folders() == {foreign, link}


@pytest.mark.slow
def test_it_can_be_stopped_while_it_starts(tmp_path: Path) -> None:
    for seconds in (0.7, 1.4):
        with (tmp_path / "log").open("wb") as log:
            env = environment(RUNNER_POLICY_PORT="0", RUNNER_POLICY_LOG="off", TMPDIR=str(tmp_path))
            with subprocess.Popen(
                bound([str(BIN / "runner-policy"), "serve", "--workers", "2"]),
                cwd=ROOT,
                env=env,
                stdout=log,
                stderr=log,
            ) as process:
                time.sleep(seconds)  # at whatever step it is then
                process.terminate()
                assert process.wait(PATIENCE) in {0, -signal.SIGTERM}
        assert [path.name for path in tmp_path.iterdir()] == ["log"]


@pytest.mark.slow
def test_it_can_listen_on_the_port_of_a_service_that_has_just_ended(serve: Callable[..., Any]) -> None:
    port = port_of_nobody()
    for _ in range(2):
        with serve(PORT=str(port)) as service:
            assert (service.port, service.get("/readyz")["status"]) == (port, "ready")


# logs


@pytest.mark.slow
def test_the_access_log_has_no_token_from_a_path_or_a_request_id(serve: Callable[..., Any]) -> None:
    token = new_token()
    with serve(LOG_FORMAT="json", ACCESS_LOG="true") as service, service.client() as client:
        client.get(f"/v1/rules/{token}")
        client.get(f"/{token.replace('rp_', 'rp%5F')}/x")
        client.get("/v1/releases", headers={"x-request-id": token})
        client.get("/v1/facts", headers={"x-request-id": "a" * 110 + f"-{token}"})
        client.post("/v1/decisions", json={"facts": {}}, headers={"x-request-id": f"Bearer {token}"})
    fields = [(line["path"], line.get("request_id")) for line in service.messages("request")]
    assert fields[-5:] == [
        ("/v1/rules/rp_…", None),
        ("/rp_…/x", None),
        ("/v1/releases", "rp_…"),
        ("/v1/facts", "a" * 110 + "-rp_…"),
        ("/v1/decisions", "Bearer …"),
    ]
    assert token[3:9] not in service.log.read_text()


def test_the_access_log_has_the_beginning_of_a_long_path_and_of_a_long_request_id(serve: Callable[..., Any]) -> None:
    token = new_token()
    words = "/".join(["word"] * 400)
    asked = [
        ("/" + "a" * 60_000, "a", "/…", "a"),
        ("/x", "%40@'" * 12_000, "/x", "…"),
        (f"/{words}{'a' * 60_000}", "b", f"/{words[:1023]}…", "b"),
        ("/y", f"one {'a' * 60_000}", "/y", "one …"),
        (f"/v1/{'a' * 2030}{token}", f"two {'b' * 2030}{token}", "/v1/…", "two …"),
        (f"/v1/{'a/' * 1000}{token}", "b" * 200, f"/v1/{('a/' * 1000)[:1020]}…", f"{'b' * 128}…"),
        (f"/https://user:{'p' * 3000}@host/x", "c", "/https://…", "c"),
    ]
    with serve(LOG_FORMAT="json", ACCESS_LOG="true") as service, service.client() as client:
        for path, request_id, *_ in asked:
            client.get(path, headers={"x-request-id": request_id})
    fields = [(line["path"], line["request_id"]) for line in service.messages("request")]
    assert fields[-len(asked) :] == [(path, request_id) for *_, path, request_id in asked]
    assert token[3:9] not in service.log.read_text()


@pytest.mark.slow
def test_its_log_has_lines_of_json_or_of_text_for_any_request(serve: Callable[..., Any], tmp_path: Path) -> None:
    unusual = "/v1/%0Aerror:%20forged%1b%5b31m/\u00fc"
    for form in ("json", "text"):
        (tmp_path / "serve.log").unlink(missing_ok=True)
        with serve(LOG_FORMAT=form, ACCESS_LOG="true") as service, service.client() as client:
            client.get(unusual, headers={"x-request-id": "a b=c"})
            made = client.post("/v1/decisions", json={"facts": {}}, headers={"x-request-id": "one"}).json()[
                "decision_id"
            ]
            several = client.post("/v1/decisions/batch", json={"items": [{"facts": {}}, {"facts": {}}]}).json()["items"]
        everything = service.log.read_text()
        lines = [line for line in everything.splitlines() if "forged" in line]
        if form == "json":
            (found,) = map(json.loads, lines)
            assert (found["path"], found["status"], found["level"], found["request_id"]) == (
                "/v1/\nerror: forged\x1b[31m/ü",
                404,
                "info",
                "a b=c",
            )
            assert all(isinstance(json.loads(line), dict) for line in everything.splitlines())
            one, batch = service.messages("request")[-2:]
            assert (one["request_id"], one["decision_id"], batch["decision_ids"]) == (
                "one",
                made,
                [item["decision_id"] for item in several],
            )
        else:
            (line,) = lines
            assert line.startswith("INFO:     request method=GET path=")
            assert ("\x1b" in everything, any(each.startswith("error") for each in everything.splitlines())) == (
                False,
                False,
            )


def test_forms_with_an_invalid_boundary_are_logged_as_json_only(serve: Callable[..., Any]) -> None:
    with serve(LOG_FORMAT="json") as service, service.client() as client:
        for body in (b"xx", b"--yy\rxx--yy--", b"--yyx\r\n--yy--", b"--yy\r\nno header\r\n\r\n--yy--"):
            form = {"content-type": "multipart/form-data; boundary=yy"}
            assert client.post("/v1/dry-run", content=body, headers=form).status_code in {400, 422}
    lines = service.log.read_text().splitlines()
    assert [line for line in lines if type(json.loads(line)) is not dict] == []
    assert [line for line in lines if "python_multipart" in line] == []


@pytest.mark.parametrize("prepare", ["dictConfig(configuration('json'))", "bound_process()"])
def test_messages_of_libraries_are_printable_lines_of_json(prepare: str) -> None:
    imports = "import logging; from logging.config import dictConfig; "
    imports += "from service.telemetry.logging import configuration; from service.jobs.process import bound_process"
    code = (
        f"{imports}; {prepare}; log = logging.getLogger('library'); log.info('beside the point'); "
        "log.warning('a\\u202e\\x9b warning')"
    )
    env = environment(RUNNER_POLICY_LOG_FORMAT="json")
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=env, capture_output=True, text=True, check=True)
    found = json.loads(done.stderr)
    assert (found["level"], found["logger"], found["message"]) == ("warning", "library", "a\u202e\x9b warning")
    assert done.stderr.removesuffix("\n").isprintable()
