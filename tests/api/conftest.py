"""A real server and a real command line, on loopback, used as a client uses them."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import spawn
from pathlib import Path
from tempfile import TemporaryFile
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from processes import Process, bound, forked, forked_python
from typer.testing import CliRunner

from policy.checks import candidate, cases, check
from policy.cli import proof, requests, rules
from policy.cli.app import app
from policy.policy import Policy
from service.cli.app import read_log  # its module adds `serve` to the commands

from .documented import DocumentedAnswers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    from playwright.sync_api import Browser
    from shipped_rules import ShippedRules

    from policy.rules.catalogue import Catalogue
    from policy.rules.loader import Sources

ROOT = Path(__file__).resolve().parent.parent.parent
BIN = Path(sys.executable).parent
RUNNER_POLICY = (str(BIN / "runner-policy"),)
"""The command."""
READ_AT_IMPORT = {"OTEL_PROPAGATORS", "PYTHONPATH", "PYTHONPROFILEIMPORTTIME"}
"""Variables that Python and libraries read before a command runs, so that a forked process would ignore them."""
TOKEN = "rp_of-a-tester"
TOKENS = f"""
tokens:
  - name: tester
    sha256: {hashlib.sha256(TOKEN.encode()).hexdigest()}
    scopes: [decide, dry-run, read, log]
"""
"""A file of tokens with the scopes of every endpoint that needs one."""
PROGRESS_AT_ONCE = (
    "import policy.cli.console as c; c.DELAY = 0.0; import policy.cli.impact_run as r; r.DELAY = r.EVERY = 0.0; "
    "from service.cli import main; main()"
)
"""``runner-policy`` for an interpreter, without the delay before it shows progress."""
PATIENCE = 180.0
"""Seconds to wait for an expected state before the test fails; a test that passes does not wait that long."""


def command_variables() -> list[str]:
    """The environment variables of this process that affect the commands."""
    changing = (
        "NO_COLOR",
        "FORCE_COLOR",
        "COLUMNS",
        "TERMINAL_WIDTH",
        "PY_COLORS",
        "GITHUB_ACTIONS",
        "TTY_COMPATIBLE",
        "TTY_INTERACTIVE",
    )
    return [
        name
        for name in os.environ
        if name.startswith(("RUNNER_POLICY_", "HF_", "HUGGING_FACE_", "TRANSFORMERS_")) or name in changing
    ]


def environment(**extra: str) -> dict[str, str]:
    """The environment of this process without variables that affect the commands, and with ``extra`` ones."""
    kept = {name: value for name, value in os.environ.items() if name not in command_variables()}
    return {**kept, "TERM": "xterm-256color", "LC_ALL": "C.UTF-8", **extra}


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready: its process, port and log file."""

    process: Process
    port: int
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self) -> httpx.Client:
        """A new client."""
        # Loopback needs no certificates, and reading them takes time.
        return httpx.Client(base_url=self.url, timeout=PATIENCE, trust_env=False, verify=False)

    def connection(self) -> socket.socket:
        """A new TCP connection."""
        return socket.create_connection(("127.0.0.1", self.port), PATIENCE)


@dataclass(frozen=True, slots=True)
class Done:
    """The result of a command: exit code and output."""

    code: int
    out: str
    err: str


@contextmanager
def serving(folder: Path, *arguments: str, **variables: str) -> Iterator[Server]:
    """Run a server on a free port for the block.

    It has no decision log, which would double the time to start, unless one is set or required, and it does not watch
    its rules, for which it would start a process. Its log waits for a store that is slow because other programs run.
    """
    with ready(
        service_process(arguments, server_environment(folder, **variables), folder / "serve.log"), folder
    ) as made:
        yield made


@contextmanager
def ready(process: Process, folder: Path) -> Iterator[Server]:
    """A started server process, once it is ready; it ends with the block."""
    log = folder / "serve.log"
    try:
        yield Server(process, listening(process, log), log)
    finally:
        end(process, log)
    assert "internal error" not in log.read_text(errors="replace")  # a contained defect


def end(process: Process, log: Path) -> None:
    """End a server process, whose output is in a file.

    Raises:
        AssertionError: it did not end in time, with its output and what each of its threads was doing.
    """
    if process.poll() is None:
        process.terminate()
    try:
        process.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        process.send_signal(signal.SIGUSR2)  # the fork server lets its processes print their threads
        time.sleep(1)
        raise AssertionError(f"process {process.pid} did not end:\n{log.read_text()}") from None


def server_environment(folder: Path, **variables: str) -> dict[str, str]:
    """The environment of a server that keeps its files in the folder."""
    defaults = {
        "RUNNER_POLICY_PORT": "0",
        "RUNNER_POLICY_LOG": "" if "RUNNER_POLICY_LOG_REQUIRED" in variables else "off",
        "RUNNER_POLICY_RELOAD": "false",
        "XDG_STATE_HOME": str(folder),
        "RUNNER_POLICY_LOG_TIMEOUT": f"{PATIENCE:g}",
    }
    return environment(**{**defaults, **variables})


def service_process(
    arguments: Sequence[str],
    env: dict[str, str],
    log: Path,
    *,
    program: Sequence[str] = RUNNER_POLICY,
    session: bool = False,
) -> Process:
    """`runner-policy serve` with its output in a file, in its own session with ``session``.

    ``program`` stands for `runner-policy`.
    """
    if not can_fork(env):
        return new_service_process(arguments, env, log, program)
    with log.open("wb") as file, Path(os.devnull).open("rb") as null:
        streams = null.fileno(), file.fileno(), file.fileno()
        return forked([*program, "serve", *arguments], env, streams, session=session)


def can_fork(env: dict[str, str]) -> bool:
    """Whether a process with this environment may be forked from one that has imported the commands."""
    return all(env.get(name) == os.environ.get(name) for name in READ_AT_IMPORT)


def new_service_process(
    arguments: Sequence[str], env: dict[str, str], log: Path, program: Sequence[str] = RUNNER_POLICY
) -> Process:
    """`runner-policy serve` in a new interpreter, as installed, with its output in a file."""
    command = [*program, "serve", *arguments]
    with log.open("wb") as file:
        return subprocess.Popen(bound(command), cwd=ROOT, env=env, stdout=file, stderr=file)


def listening(process: Process, log: Path) -> int:
    """The port of a started server process, once it is ready."""
    ends = time.monotonic() + PATIENCE
    while time.monotonic() < ends and process.poll() is None:
        found = re.search(r"running on http://127\.0\.0\.1:(\d+)", log.read_text())
        if found:
            port = int(found[1])
            try:
                if (
                    httpx.get(
                        f"http://127.0.0.1:{port}/readyz", timeout=PATIENCE, trust_env=False, verify=False
                    ).status_code
                    == 200
                ):
                    return port
            except httpx.TransportError:
                pass
        time.sleep(0.02)
    raise AssertionError(log.read_text())


@pytest.fixture(scope="session")
def sources(all_sources: Sources) -> Sources:
    """The texts of all shipped rules, with which services and commands decide."""
    return all_sources


@pytest.fixture(scope="session")
def catalogue(shipped_rules: ShippedRules) -> Catalogue:
    """The shipped catalogue."""
    return shipped_rules.catalogue


@pytest.fixture(scope="session")
def policy(shipped_rules: ShippedRules) -> Policy:
    """The shipped policy, compiled into the engine."""
    return shipped_rules.policy


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """The service as `runner-policy serve` starts it, with the shipped rules.

    The timeout for candidate rules is long enough for a busy machine.
    """
    with serving(
        tmp_path_factory.mktemp("server"), RUNNER_POLICY_CANDIDATE_TIMEOUT="60", RUNNER_POLICY_LOG=""
    ) as started:
        yield started


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The Chromium of a module: while it is open, Playwright runs an event loop, beside which no other one can run."""
    from .browser import chromium  # noqa: PLC0415  # only tests of the page need it

    with chromium() as found:
        yield found


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractContextManager[Server]]:
    """Starts a server with the given flags and variables."""

    def start(*arguments: str, **variables: str) -> AbstractContextManager[Server]:
        return serving(tmp_path, *arguments, **variables)

    return start


@pytest.fixture
def with_tokens(serve: Callable[..., AbstractContextManager[Server]], tmp_path: Path) -> Iterator[Server]:
    """A server that requires tokens, and answers only once a decision is logged."""
    tokens = tmp_path / "tokens.yaml"
    tokens.write_text(TOKENS)
    with serve(
        "--tokens", str(tokens), RUNNER_POLICY_LOG_REQUIRED="true", RUNNER_POLICY_CANDIDATE_TIMEOUT="60"
    ) as found:
        yield found


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[httpx.Client]:
    """A client with persistent connections, whose answers are checked against the OpenAPI document."""
    with server.client() as found, server.client() as other:
        documented = DocumentedAnswers(lambda: other.get("/openapi.json").json())
        found.event_hooks = {"response": [documented.check]}
        yield found


@pytest.fixture
def decide(client: httpx.Client) -> Callable[..., Any]:
    """Sends a request to ``/v1/decisions``, and returns the decision."""

    def ask(request: Any, **headers: str) -> Any:
        response = client.post("/v1/decisions", json=request, headers=headers)
        assert response.status_code == 200, response.text
        return response.json()

    return ask


@pytest.fixture
def run() -> Callable[..., Done]:
    """Runs a command or script, by default ``runner-policy``, with ``stdin`` as its input in a pipe."""

    def command(
        *arguments: str, program: str = "runner-policy", stdin: str | bytes = b"", cwd: Path = ROOT, **variables: str
    ) -> Done:
        path = str(BIN / program) if (BIN / program).exists() else program
        data = stdin.encode() if isinstance(stdin, str) else stdin
        env = environment(**variables)
        is_script = program == "python" and arguments[0].endswith(".py")
        if (program == "runner-policy" or is_script) and can_fork(env):
            return run_forked([path, *arguments], data, cwd, env)
        done = subprocess.run(
            [path, *arguments],
            input=data,
            capture_output=True,
            cwd=cwd,
            env=env,
            timeout=PATIENCE,
            check=False,
        )
        return Done(done.returncode, done.stdout.decode(), done.stderr.decode())

    return command


def fork_processes(patch: pytest.MonkeyPatch) -> None:
    """Let the processes that are started from this one be forked, as those of services are."""
    python = forked_python()
    for module in candidate, check:
        patch.setattr(module, "COMMAND", (python, *module.COMMAND[1:]))
    patch.setattr(spawn, "_python_exe", os.fsencode(python))


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, shipped_rules: ShippedRules) -> Callable[..., Done]:
    """Runs ``runner-policy`` in this process, which is much faster than ``run``; its streams are not terminals."""
    monkeypatch.chdir(ROOT)
    for module in requests, proof, rules:
        monkeypatch.setattr(module, "read_folder", shipped_rules.read_folder)
    for module in requests, proof, check:
        monkeypatch.setattr(module, "load", shipped_rules.load)
    for module in check, rules:
        monkeypatch.setattr(module, "read_cases", shipped_rules.read_cases)
    monkeypatch.setattr(cases, "read_rule_file", shipped_rules.read_rule_file)
    monkeypatch.setattr(Policy, "__init__", shipped_rules.create_policy)
    fork_processes(monkeypatch)

    def command(*arguments: str, stdin: str | bytes = b"", **variables: str) -> Done:
        found = CliRunner().invoke(
            app,
            arguments,
            input=stdin,
            env={**dict.fromkeys(command_variables()), "COLUMNS": "200", **variables},
            obj=read_log,
        )
        if found.exception is not None and not isinstance(found.exception, SystemExit):
            raise found.exception
        return Done(found.exit_code, found.stdout, found.stderr)

    return command


def without_id(answer: dict[str, Any]) -> dict[str, Any]:
    """A decision without its id, which is different each time."""
    return {name: value for name, value in answer.items() if name != "decision_id"}


@pytest.fixture
def folder(copy_rules: Callable[[Path], Path], tmp_path: Path) -> Path:
    """A copy of the shipped rules to change, by replacing files (``files.replace_file``)."""
    return copy_rules(tmp_path / "policy")


@pytest.fixture
def on_terminal() -> Callable[..., tuple[int, str]]:
    """Runs ``runner-policy`` on a terminal of 160 columns; returns its exit code and output.

    The output has no progress, which depends on the time that a command takes.
    """

    def command(*arguments: str, **variables: str) -> tuple[int, str]:
        def start(terminal: int, env: dict[str, str]) -> Process:
            return forked([str(BIN / "runner-policy"), *arguments], env, [terminal] * 3)

        return _on_terminal(start, TTY_INTERACTIVE="0", **variables)

    return command


@pytest.fixture
def on_interactive_terminal() -> Callable[..., tuple[int, str]]:
    """Runs ``runner-policy`` as ``on_terminal`` does; it shows each step at once, not only a long one."""

    def command(*arguments: str, **variables: str) -> tuple[int, str]:
        def start(terminal: int, env: dict[str, str]) -> Process:
            return forked([sys.executable, "-c", PROGRESS_AT_ONCE, *arguments], env, [terminal] * 3)

        return _on_terminal(start, **variables)

    return command


def run_forked(command: list[str], stdin: bytes, folder: Path, env: dict[str, str]) -> Done:
    """Run ``runner-policy`` in a forked process, with its input in a pipe."""
    with TemporaryFile() as out, TemporaryFile() as err:
        reader, writer = os.pipe()
        process = forked(command, env, (reader, out.fileno(), err.fileno()), folder=folder)
        os.close(reader)
        with suppress(BrokenPipeError), open(writer, "wb") as pipe:  # noqa: PTH123  # it is a pipe
            pipe.write(stdin)
        try:
            code = process.wait(PATIENCE)
        finally:
            process.kill()
        for file in out, err:
            file.seek(0)
        return Done(code, out.read().decode(), err.read().decode())


def _on_terminal(start: Callable[[int, dict[str, str]], Process], **variables: str) -> tuple[int, str]:
    """The exit code and output of a process that ``start`` starts on a terminal, with an environment."""
    ours, theirs = pty.openpty()
    process = start(theirs, environment(**{"COLUMNS": "160", **variables}))
    os.close(theirs)
    output = b"".join(iter(partial(_read, ours), b""))
    os.close(ours)
    return process.wait(PATIENCE), output.decode().replace("\r\n", "\n")


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # the other side of the terminal is closed
        return b""
