"""`runner-policy serve`: what it needs to start, what it reports if it cannot, and how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from files import replace_file
from ports import port_of_nobody
from representatives import slow_except
from typer.main import get_command

from policy.cli.app import app
from policy.cli.commands import LazyCommand
from policy.messages import listed
from policy.rules.effects import Layer, effects_of
from service.settings import Settings
from service.variables import NEW_NAMES, unknown_variables

from .conftest import PATIENCE, new_service_process, ready, server_environment

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from policy.rules.catalogue import Catalogue

    from .conftest import Done, Server

QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
UNKNOWN = "--default-release: unknown release `0.99`; known releases: 0.3.0 to 0.33.0"
LISTS = "`GET /v1/facts` and docs/facts.md list them"
RULE = "house/kv-connector-fallback.yaml"


@pytest.fixture
def installed(tmp_path: Path) -> Callable[..., AbstractContextManager[Server]]:
    """Starts `runner-policy serve` as it is installed, in a new interpreter."""

    def start(**variables: str) -> AbstractContextManager[Server]:
        env = server_environment(tmp_path, **variables)
        return ready(new_service_process((), env, tmp_path / "serve.log"), tmp_path)

    return start


def edit(file: Path, *changes: tuple[str, str]) -> None:
    text = file.read_text()
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    replace_file(file, text)


@pytest.fixture
def refused(call: Callable[..., Done], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """Runs `serve` in this process, where it must fail before it listens."""

    def listens(*_: object, **__: object) -> None:
        raise AssertionError("it serves")

    monkeypatch.setattr("uvicorn.Server.run", listens)

    def serve(*arguments: str, **variables: str) -> Done:
        done = call("serve", *arguments, **variables)
        assert (done.out, "Traceback" in done.err) == ("", False)
        return done

    return serve


def position(file: Path, text: str) -> str:
    """Line and column of a text in a file."""
    before, found, _ = file.read_text().partition(text)
    assert found
    return f"{before.count(chr(10)) + 1}:{len(before) - before.rfind(chr(10))}"


# rules


def test_every_fault_of_broken_rules_is_printed_with_its_position_and_nothing_is_served(
    run: Callable[..., Done], folder: Path
) -> None:
    rule = folder / RULE
    edit(
        rule,
        ("effect: fallback-v1", "effect: fallback-v3"),
        ("kv_transfer_config: present", "kv_transfer_confg: present"),
    )
    (folder / "house/broken.yaml").write_text("id: broken\ntitle: [\n")
    (folder / "stray.yaml").write_text("id: stray\n")
    (folder / "house/old.yml").write_text("id: old\n")
    (folder / "house/binary.yaml").write_bytes(b"\xff")
    done = run("serve", "--port", "0", "--rules", str(folder))
    assert (done.code, done.err.splitlines()) == (
        3,
        [
            (
                f"{folder}/house/binary.yaml:1:1: cannot be read: 'utf-8' codec can't decode byte 0xff in position 0: "
                "invalid start byte"
            ),
            f"{folder}/house/old.yml:1:1: rule files end in `.yaml`; rename it",
        ],
    )
    (folder / "house/old.yml").unlink()
    (folder / "house/binary.yaml").unlink()
    done = run("serve", "--port", "0", "--rules", str(folder))
    effects = listed(effects_of(Layer.HOUSE))
    assert (done.code, done.err.splitlines()) == (
        3,
        [
            (
                f"{folder}/house/broken.yaml:2:8: not YAML: the bracket `[` is not closed with `]`, or a comma is "
                "missing between its items"
            ),
            (
                f"{rule}:{position(rule, 'fallback-v3')}: unknown effect `fallback-v3` of the house layer; legal: "
                f"{effects}; did you mean `fallback-v1`?"
            ),
            (
                f"{rule}:{position(rule, 'kv_transfer_confg:')}: unknown fact `kv_transfer_confg`; did you mean "
                f"`kv_transfer_config`?; {LISTS}"
            ),
            f"{folder}/stray.yaml:1:1: a rule file must be under `upstream/`, `house/`, `images/`; move it there",
        ],
    )


def test_broken_rules_are_reported_once_for_any_number_of_workers(run: Callable[..., Done], folder: Path) -> None:
    edit(folder / RULE, ("kv_transfer_config: present", "kv_transfer_config: presnt"))
    done = run("serve", "--port", "0", "--rules", str(folder), "--workers", "2")
    where = f"{folder}/{RULE}:{position(folder / RULE, 'presnt')}"
    expected_message = f"{where}: `kv_transfer_config` has no value to compare with `presnt`"
    assert (done.code, len(done.err.splitlines()), done.err.startswith(expected_message)) == (3, 1, True), done.err


@pytest.mark.parametrize(
    ("name", "expected_message"),
    [
        ("nowhere", "{path}:1:1: no such folder; name one with `--rules` or RUNNER_POLICY_RULES"),
        ("releases.yaml", "{path}:1:1: no such folder; name one with `--rules` or RUNNER_POLICY_RULES"),
        ("house", "{path}/releases.yaml:1:1: missing; it lists the known releases and the default one"),
    ],
)
def test_a_folder_without_rules_is_reported(
    refused: Callable[..., Done], folder: Path, name: str, expected_message: str
) -> None:
    path = folder / name
    done = refused("--rules", str(path))
    assert (done.code, expected_message.format(path=path) in done.err.splitlines()) == (3, True), done.err


def test_rules_that_leave_a_decision_open_are_refused_for_every_release_concerned(
    refused: Callable[..., Done], folder: Path
) -> None:
    next(folder.rglob("v2-by-default.yaml")).unlink()
    done = refused("--rules", str(folder))
    assert (done.code, {line.partition(" in 0.")[0] for line in done.err.splitlines()}) == (
        3,
        {f"{folder}/releases.yaml:1:1: no rule decides"},
    )


# settings


@pytest.mark.parametrize(
    ("arguments", "variables", "expected_message"),
    [
        (["--port", "65536"], {}, ["--port: Input should be less than or equal to 65535, not `65536`"]),
        (["--port", "-1"], {}, ["--port: Input should be greater than or equal to 0, not `-1`"]),
        (["--workers", "0"], {}, ["--workers: Input should be greater than or equal to 1, not `0`"]),
        (
            ["--port", "-1", "--workers", "1000"],
            {},
            [
                "--port: Input should be greater than or equal to 0, not `-1`",
                "--workers: Input should be less than or equal to 256, not `1000`",
            ],
        ),
        (
            [],
            {"PORT": "http", "WORKERS": "0", "MAX_BODY": "1", "CACHE_SIZE": "-1", "CANDIDATE_TIMEOUT": "nan"},
            [
                "RUNNER_POLICY_PORT: Input should be a valid integer, unable to parse string as an integer, not `http`",
                "RUNNER_POLICY_WORKERS: Input should be greater than or equal to 1, not `0`",
                "RUNNER_POLICY_MAX_BODY: Input should be greater than or equal to 1024, not `1`",
                "RUNNER_POLICY_CACHE_SIZE: Input should be greater than or equal to 0, not `-1`",
                "RUNNER_POLICY_CANDIDATE_TIMEOUT: Input should be less than or equal to 60, not `nan`",
            ],
        ),
        (
            [],
            {"LOG_RETENTION_DAYS": "inf"},
            ["RUNNER_POLICY_LOG_RETENTION_DAYS: Input should be less than or equal to 36500, not `inf`"],
        ),
        (
            ["--workers", "0"],
            {"PORT": "70000"},
            [
                "RUNNER_POLICY_PORT: Input should be less than or equal to 65535, not `70000`",
                "--workers: Input should be greater than or equal to 1, not `0`",
            ],
        ),
        (
            ["--default-release", "0.99"],
            {},
            [UNKNOWN],
        ),
        (
            ["--default-release", "latest"],
            {},
            ["--default-release: invalid version `latest`; write it as `0.23.0` or `v0.23.0`"],
        ),
        (
            [],
            {"DEFAULT_RELEASE": "latest"},
            ["--default-release: invalid version `latest`; write it as `0.23.0` or `v0.23.0`"],
        ),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else " ".join(value.values()),
)
def test_all_invalid_settings_are_reported_with_their_legal_values(
    refused: Callable[..., Done], arguments: list[str], variables: dict[str, str], expected_message: list[str]
) -> None:
    done = refused(*arguments, **{f"RUNNER_POLICY_{name}": value for name, value in variables.items()})
    assert (done.code, done.err.splitlines()) == (2, expected_message)


def test_an_invalid_hub_address_is_reported_as_a_fault_of_the_hub(refused: Callable[..., Done]) -> None:
    done = refused("--hub", HF_ENDPOINT="nowhere")
    expected_message = (
        "--hub: the hub's endpoint must be an address such as `https://huggingface.co`; set `HF_ENDPOINT`, or leave it "
        "out"
    )
    assert (done.code, done.err.splitlines()) == (2, [expected_message])


SEE_HELP = "; `runner-policy serve --help` lists the variables"


@pytest.mark.parametrize(
    ("variables", "messages"),
    [
        ({"PROT": "9000"}, ["unknown variable `RUNNER_POLICY_PROT`; did you mean `RUNNER_POLICY_PORT`?"]),
        ({"TOKEN": "rp_x"}, ["unknown variable `RUNNER_POLICY_TOKEN`; did you mean `RUNNER_POLICY_TOKENS`?"]),
        (
            {"LOGREQUIRED": "true", "ACCESSLOG": "1"},
            [
                "unknown variable `RUNNER_POLICY_ACCESSLOG`; did you mean `RUNNER_POLICY_ACCESS_LOG`?",
                "unknown variable `RUNNER_POLICY_LOGREQUIRED`; did you mean `RUNNER_POLICY_LOG_REQUIRED`?",
            ],
        ),
        ({"FOO": "1"}, [f"unknown variable `RUNNER_POLICY_FOO`{SEE_HELP}"]),
        ({"": "1"}, [f"unknown variable `RUNNER_POLICY_`{SEE_HELP}"]),
        (
            {"ALLOWED_HOSTS_": "a"},
            ["unknown variable `RUNNER_POLICY_ALLOWED_HOSTS_`; did you mean `RUNNER_POLICY_ALLOWED_HOSTS`?"],
        ),
        (
            {"log__required": "true"},
            ["unknown variable `RUNNER_POLICY_log__required`; did you mean `RUNNER_POLICY_LOG_REQUIRED`?"],
        ),
        ({"\x1b[31m": "1"}, [f"unknown variable `RUNNER_POLICY_\\x1b[31m`{SEE_HELP}"]),
        (
            {"PORTS": "9000", "WORKERS": "0", "LOG": "off", "LOG_REQUIRED": "true"},
            [
                "RUNNER_POLICY_WORKERS: Input should be greater than or equal to 1, not `0`",
                "unknown variable `RUNNER_POLICY_PORTS`; did you mean `RUNNER_POLICY_PORT`?",
                "RUNNER_POLICY_LOG_REQUIRED: the decision log is off; name one with --log",
            ],
        ),
        # not the variables of a Service of Kubernetes
        ({"SERVICE_HOSTS": "10.0.0.1"}, [f"unknown variable `RUNNER_POLICY_SERVICE_HOSTS`{SEE_HELP}"]),
        ({"ADMIN_PORT": "8081"}, [f"unknown variable `RUNNER_POLICY_ADMIN_PORT`{SEE_HELP}"]),
        ({"PORT_8080_HTTP": "8081"}, [f"unknown variable `RUNNER_POLICY_PORT_8080_HTTP`{SEE_HELP}"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, dict) else "",
)
def test_unknown_variables_are_all_reported_with_the_nearest_known_one(
    refused: Callable[..., Done], variables: dict[str, str], messages: list[str]
) -> None:
    done = refused(**{f"RUNNER_POLICY_{name}": value for name, value in variables.items()})
    assert (done.code, done.err.splitlines()) == (2, messages)


@pytest.mark.parametrize(("old", "new"), NEW_NAMES.items())
def test_a_renamed_variable_is_reported_with_its_new_name(refused: Callable[..., Done], old: str, new: str) -> None:
    done = refused(**{f"RUNNER_POLICY_{old}": "1"})
    message = f"unknown variable `RUNNER_POLICY_{old}`; did you mean `RUNNER_POLICY_{new}`?"
    assert (done.code, done.err.splitlines()) == (2, [message])


def test_the_changelog_pairs_every_renamed_variable_with_a_known_one(root: Path) -> None:
    rows = re.findall(
        r"^\| `RUNNER_POLICY_(\w+)` \| `RUNNER_POLICY_(\w+)` \|$", (root / "CHANGELOG.md").read_text(), re.MULTILINE
    )
    assert (dict(rows), {new.lower() for new in NEW_NAMES.values()} - set(Settings.model_fields)) == (NEW_NAMES, set())


@pytest.mark.parametrize(
    "variables",
    [
        {"FOO": "", "ADMISSION_FAIL": ""},
        {"CACHE": "/var/cache/wheels"},
        {"default_release": "0.24.0"},
        {"SERVICE_HOST": "10.0.0.1", "SERVICE_PORT": "8080", "SERVICE_PORT_HTTPS": "8080", "SERVICE_PORT_A_1": "1"},
        {
            "PORT_8080_TCP": "tcp://10.0.0.1:8080",
            "PORT_8080_TCP_PROTO": "tcp",
            "PORT_8080_TCP_PORT": "8080",
            "PORT_8080_TCP_ADDR": "10.0.0.1",
        },
        {
            "PORT_53_UDP": "udp://10.0.0.1:53",
            "PORT_53_UDP_PROTO": "udp",
            "PORT_53_UDP_PORT": "53",
            "PORT_53_UDP_ADDR": "10.0.0.1",
            "PORT_1_SCTP": "sctp://10.0.0.1:1",
        },
        {  # a Service `runner-policy-log-2`
            "LOG_2_SERVICE_HOST": "10.0.0.1",
            "LOG_2_SERVICE_PORT": "5432",
            "LOG_2_SERVICE_PORT_SQL": "5432",
            "LOG_2_PORT": "tcp://10.0.0.1:5432",
            "LOG_2_PORT_5432_TCP": "tcp://10.0.0.1:5432",
            "LOG_2_PORT_5432_TCP_ADDR": "10.0.0.1",
        },
    ],
    ids=" ".join,
)
def test_empty_variables_those_of_other_commands_and_those_of_kubernetes_are_ignored(
    refused: Callable[..., Done], variables: dict[str, str]
) -> None:
    """The only fault is one of another variable."""
    done = refused(**{f"RUNNER_POLICY_{name}": value for name, value in variables.items()}, RUNNER_POLICY_WORKERS="0")
    message = "RUNNER_POLICY_WORKERS: Input should be greater than or equal to 1, not `0`"
    assert (done.code, done.err.splitlines()) == (2, [message])


def test_the_port_of_a_service_of_kubernetes_is_refused_unless_the_port_is_a_flag(refused: Callable[..., Done]) -> None:
    url = "tcp://10.0.0.1:8080"
    port = (
        f"RUNNER_POLICY_PORT: Input should be a valid integer, unable to parse string as an integer, not `{url}`; "
        "Kubernetes sets it for a Service of this name: set `enableServiceLinks: false` in the pod"
    )
    workers = "RUNNER_POLICY_WORKERS: Input should be greater than or equal to 1, not `0`"
    assert [
        refused(*flags, RUNNER_POLICY_PORT=url, RUNNER_POLICY_WORKERS="0").err.splitlines()
        for flags in ([], ["--port", "0"])
    ] == [[port, workers], [workers]]


def variables_of_commands(command: Any) -> set[str]:
    """The variables that the flags of a command and of its subcommands name."""
    if isinstance(command, LazyCommand):
        return variables_of_commands(command.load())
    own = {str(parameter.envvar) for parameter in command.params if parameter.envvar is not None}
    return own.union(*map(variables_of_commands, getattr(command, "commands", {}).values()))


def test_the_variables_of_every_command_are_known() -> None:
    named = variables_of_commands(get_command(app))
    assert ("RUNNER_POLICY_CACHE" in named, list(unknown_variables(dict.fromkeys(named, "1")))) == (True, [])


def test_the_help_of_serve_lists_every_variable(call: Callable[..., Done]) -> None:
    listed_names = re.findall(r"RUNNER_POLICY_\w+(?=: )", call("serve", "--help").out)
    assert listed_names == [f"RUNNER_POLICY_{name.upper()}" for name in Settings.model_fields]


@pytest.mark.parametrize(
    "page", ["README.md", "SECURITY.md", "CONTRIBUTING.md", "Dockerfile", "docs", "deploy", ".ci", ".github", "bench"]
)
def test_documents_and_manifests_name_only_known_variables(root: Path, page: str) -> None:
    files = [root / page] if (root / page).is_file() else [path for path in (root / page).rglob("*") if path.is_file()]
    texts = [path.read_text(errors="replace") for path in files if "__pycache__" not in path.parts]
    named = {name for text in texts for name in re.findall(r"RUNNER_POLICY_[A-Z0-9_]*[A-Z0-9]", text)}
    assert list(unknown_variables(dict.fromkeys(named, "1"))) == []


@pytest.mark.parametrize("url", ["off", "sqlite"])
def test_the_start_messages_as_text_name_every_address(
    serve: Callable[..., AbstractContextManager[Server]], catalogue: Catalogue, tmp_path: Path, url: str
) -> None:
    log = "off" if url == "off" else f"sqlite:///{tmp_path / 'log.db'}"
    port = str(port_of_nobody())
    with serve("--port", port, RUNNER_POLICY_LOG=log, RUNNER_POLICY_LOG_FORMAT="text") as server:
        lines = server.log.read_text().splitlines()
    first = next(place for place, line in enumerate(lines) if " rules from " in line)
    assert lines[first : first + 4] == [
        f"INFO:     {len(catalogue.rules)} rules from rules, {catalogue.revision}",
        f"INFO:     {len(catalogue.releases.known)} releases of vLLM, 0.3.0 to 0.33.0; 0.23.0 by default",
        f"INFO:     page http://127.0.0.1:{port}/, documentation http://127.0.0.1:{port}/docs",
        f"INFO:     decisions are {'not logged' if url == 'off' else f'logged in {log}'}",
    ]


def test_the_start_message_as_json_is_one_record(
    serve: Callable[..., AbstractContextManager[Server]], catalogue: Catalogue
) -> None:
    with serve(RUNNER_POLICY_LOG="off") as server:
        records = [json.loads(line) for line in server.log.read_text().splitlines()]
    (found,) = [record for record in records if record["message"] == "the rules are loaded"]
    assert {
        name: value for name, value in found.items() if name not in {"timestamp", "logger", "level", "message"}
    } == {
        "rules": len(catalogue.rules),
        "releases": len(catalogue.releases.known),
        "revision": catalogue.revision,
        "source": "rules",
        "page": "/",
        "docs": "/docs",
        "decision_log": "off",
    }


@pytest.mark.parametrize("arguments", [["--port", "http"], ["--prot", "1"], ["--workers"], ["rules"]])
def test_wrong_usage_of_serve_exits_with_2(refused: Callable[..., Done], arguments: list[str]) -> None:
    assert refused(*arguments).code == 2


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_port_that_is_taken_is_wrong_usage_and_not_a_fault_in_the_rules(
    run: Callable[..., Done], workers: str
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        done = run("serve", "--port", str(taken.getsockname()[1]), "--workers", workers)
    assert (done.code, "address already in use" in done.err.lower(), "Traceback" in done.err) == (2, True, False), (
        done.err
    )


# variables and flags


def test_variables_name_rules_port_and_default_release(
    installed: Callable[..., AbstractContextManager[Server]], folder: Path
) -> None:
    port = port_of_nobody()
    edit(folder / RULE, ("title: KV connectors stay on V1", "title: Another title"))
    with (
        installed(
            RUNNER_POLICY_RULES=str(folder), RUNNER_POLICY_PORT=str(port), RUNNER_POLICY_DEFAULT_RELEASE="0.24.0"
        ) as server,
        server.client() as client,
    ):
        assert (
            server.port,
            client.get("/v1/policy").json()["source"],
            client.get("/v1/rules/kv-connector-fallback").json()["title"],
            client.get("/v1/releases").json()["default"],
            client.post("/v1/decisions", json={"facts": QWEN}).json()["release"],
        ) == (
            port,
            str(folder),
            "Another title",
            "0.24.0",
            {"decided_as": "0.24.0", "verified": True, "defaulted": True},
        )


def test_a_flag_wins_over_its_variable_and_an_empty_variable_is_not_set(
    serve: Callable[..., AbstractContextManager[Server]], root: Path, tmp_path: Path
) -> None:
    flags = ("--port", "0", "--rules", str(root / "rules"), "--workers", "1", "--default-release", "0.25.0")
    overridden = {
        "RUNNER_POLICY_PORT": "1",
        "RUNNER_POLICY_RULES": str(tmp_path),
        "RUNNER_POLICY_WORKERS": "0",
        "RUNNER_POLICY_DEFAULT_RELEASE": "x",
    }
    empty = {"RUNNER_POLICY_HOST": "", "RUNNER_POLICY_MAX_BODY": "", "RUNNER_POLICY_CANDIDATE_TIMEOUT": ""}
    with serve(*flags, **overridden, **empty) as server, server.client() as client:
        assert (client.get("/v1/policy").json()["source"], client.get("/v1/releases").json()["default"]) == (
            str(root / "rules"),
            "0.25.0",
        )
        assert "http://127.0.0.1:" in server.log.read_text()


def test_limits_can_be_set(serve: Callable[..., AbstractContextManager[Server]]) -> None:
    limits = {"MAX_BODY": "1024", "MAX_BATCH_BODY": "4096", "MAX_BATCH_ITEMS": "2", "CACHE_SIZE": "2"}
    with (
        serve(**{f"RUNNER_POLICY_{name}": value for name, value in limits.items()}) as server,
        server.client() as client,
    ):
        padded = {
            size: client.post("/v1/decisions", content=json.dumps({"facts": QWEN}).ljust(size)).status_code
            for size in (1024, 1025)
        }
        chunked = client.post("/v1/decisions", content=iter([b" " * 1025])).status_code
        items = {
            count: client.post("/v1/decisions/batch", json={"items": [{"facts": {}}] * count}).status_code
            for count in (2, 3, 500)
        }
        lines = client.post(
            "/v1/decisions/batch", content=b"{}\n" + b"x" * 1025, headers={"content-type": "application/x-ndjson"}
        ).text.splitlines()
        answers = [
            client.post("/v1/decisions", json={"facts": QWEN, "request_id": str(number % 4)}).json()
            for number in range(16)
        ]
    assert (padded, chunked, items, [json.loads(line)["status"] for line in lines]) == (
        {1024: 200, 1025: 413},
        413,
        {2: 200, 3: 422, 500: 413},
        [422, 413],
    )
    assert [answer["request_id"] for answer in answers] == [str(number % 4) for number in range(16)]
    assert len({answer["decision_id"] for answer in answers}) == 16


# several workers, and the end


@pytest.mark.slow
def test_two_workers_serve_the_same_policy_and_end_together(
    serve: Callable[..., AbstractContextManager[Server]], folder: Path
) -> None:
    with serve("--workers", "2", "--rules", str(folder), "--default-release", "0.24.0") as server:

        def ask(number: int) -> tuple[str, str, str]:
            with server.client() as client:
                answer = client.post("/v1/decisions", json={"facts": QWEN, "request_id": str(number)}).json()
            return answer["request_id"], answer["vllm_version"], answer["policy"]["revision"]

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(64)))
        while server.log.read_text().count("Application startup complete") < 2 and server.process.poll() is None:
            time.sleep(0.05)
        started = set(re.findall(r"Started server process \[(\d+)\]", server.log.read_text()))
        os.kill(server.process.pid, signal.SIGTERM)
        assert server.process.wait(PATIENCE) == 0
        assert "Traceback" not in server.log.read_text()
    assert [(number, version) for number, version, _ in answers] == [(str(number), "0.24.0") for number in range(64)]
    assert (len({revision for _, _, revision in answers}), len(started)) == (1, 2)


@pytest.mark.parametrize(
    "ending", slow_except([signal.SIGTERM], [signal.SIGTERM, signal.SIGINT]), ids=["SIGTERM", "SIGINT"]
)
def test_a_signal_stops_the_service_cleanly(
    installed: Callable[..., AbstractContextManager[Server]], ending: signal.Signals
) -> None:
    with installed() as server:
        os.kill(server.process.pid, ending)
        assert server.process.wait(PATIENCE) == 0
        assert "Traceback" not in server.log.read_text()
        with pytest.raises(ConnectionRefusedError):
            server.connection()


def test_a_request_in_progress_is_answered_before_the_service_stops(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    body = b'{"facts": {}}'
    with serve() as server, server.connection() as connection:
        connection.sendall(
            b"POST /v1/decisions HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body[:5]
        )
        with server.client() as client:
            assert client.get("/livez").text == "ok\n"
        os.kill(server.process.pid, signal.SIGTERM)
        connection.sendall(body[5:])
        assert connection.recv(65536).startswith(b"HTTP/1.1 200 OK")
        assert server.process.wait(PATIENCE) == 0
