"""The service as operators run it, with real processes, files and certificates, tested from outside."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import sys
import time
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
from api.conftest import PATIENCE, RUNNER_POLICY, end, environment, service_process
from files import replace_file

from service.auth.tokens import entry_of, new_token

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from processes import Process

RULE = "house/kv-connector-fallback.yaml"
TITLE = "title: KV connectors stay on V1"
QWEN: dict[str, Any] = {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}}
JSON = {"content-type": "application/json"}


def until(probe: Callable[..., Any], *arguments: Any) -> Any:
    """Wait until ``probe`` returns something true for the arguments, and return it."""
    ends = time.monotonic() + PATIENCE
    while True:
        try:
            value = probe(*arguments)
        except httpx.TransportError:
            value = None
        if value:
            return value
        assert time.monotonic() < ends, "the expected state was not reached"
        time.sleep(0.01)


def has_command(pid: int, text: str) -> bool:
    """Whether a process is there, and its command has ``text``."""
    try:
        return text.encode() in Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False


class PinnedTransport(httpx.HTTPTransport):
    """A transport that connects to one of several processes that listen on the same port.

    While it connects, ``isolate`` keeps the others from accepting the connection.
    """

    def __init__(self, isolate: Callable[[], AbstractContextManager[None]]) -> None:
        super().__init__(verify=False, trust_env=False)
        self._isolate = isolate

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        # The server closes idle ones.
        is_kept = any(not connection.has_expired() for connection in self._pool.connections)
        with nullcontext() if is_kept else self._isolate():
            return super().handle_request(request)


@dataclass(frozen=True)
class Service:
    """A service that is ready."""

    process: Process
    url: str
    log: Path
    trust: ssl.SSLContext | bool = False
    token: str | None = None
    opened: list[httpx.Client] = field(default_factory=list)
    log_start: int = 0
    """The offset at which the log is read: earlier lines belong to other tests."""

    @property
    def port(self) -> int:
        return int(self.url.rpartition(":")[2])

    def client(self, token: str | None = None, **more: Any) -> httpx.Client:
        """A new client."""
        token = token or self.token
        headers = {"authorization": f"Bearer {token}"} if token else {}
        found = httpx.Client(
            base_url=self.url,
            timeout=PATIENCE,
            trust_env=False,
            verify=more.pop("verify", self.trust),
            headers=headers,
            **more,
        )
        self.opened.append(found)
        return found

    def get(self, path: str) -> Any:
        """The document at a path."""
        with self.client() as client:
            return client.get(path).json()

    def state(self) -> Any:
        return self.get("/readyz?verbose")

    def revision(self) -> str:
        return str(self.get("/v1/policy")["revision"])

    def metrics(self) -> dict[str, float]:
        """The value of each series."""
        with self.client() as client:
            lines = client.get("/metrics").raise_for_status().text.splitlines()
        return {
            name: float(number)
            for name, _, number in (line.rpartition(" ") for line in lines if not line.startswith("#"))
        }

    def metrics_since(self, before: dict[str, float]) -> dict[str, float]:
        """The increase of each series."""
        return {name: number - before.get(name, 0.0) for name, number in self.metrics().items()}

    def log_lines(self) -> list[dict[str, Any]]:
        """The complete lines of its log."""
        text = self.log.read_bytes()[self.log_start :].decode()
        return [json.loads(line) for line in text.rpartition("\n")[0].splitlines() if line.startswith("{")]

    def messages(self, message: str) -> list[dict[str, Any]]:
        """The log lines with this message."""
        return [line for line in self.log_lines() if line.get("message") == message]

    def workers(self) -> list[int]:
        """The ids of the serving processes that are alive, from the log."""
        started = [int(found) for found in re.findall(r"Started server process \[(\d+)\]", self.log.read_text())]
        return [pid for pid in started if lives(pid)]

    def children(self, module: str) -> set[int]:
        """The ids of the processes that it has started and whose command has ``module``."""
        found: set[int] = set()
        for path in Path(f"/proc/{self.process.pid}/task").glob("*/children"):
            with suppress(OSError):  # a thread that has ended
                found |= {child for child in map(int, path.read_text().split()) if has_command(child, module)}
        return found

    def times_ready(self) -> int:
        """How many workers have become ready."""
        return self.log.read_text().count("Application startup complete")

    @contextmanager
    def only(self, pid: int) -> Iterator[None]:
        """Stop all workers but one for the block."""
        others = [other for other in self.workers() if other != pid]
        try:
            for other in others:
                os.kill(other, signal.SIGSTOP)
            until(lambda: all(state_of_process(other) == "T" or not lives(other) for other in others))
            yield
        finally:
            for other in others:
                with suppress(ProcessLookupError):
                    os.kill(other, signal.SIGCONT)

    def client_of_each(self) -> dict[int, httpx.Client]:
        """A client for each worker, connected to it."""
        found = {pid: self.client(transport=PinnedTransport(partial(self.only, pid))) for pid in self.workers()}
        for client in found.values():
            client.get("/livez").raise_for_status()
        return found

    def everywhere(self, path: str, holds: Callable[[Any], object]) -> None:
        """Wait until ``holds`` is true for the document at a path in every worker."""
        clients = self.client_of_each().values()
        until(lambda: all(holds(client.get(path).json()) for client in clients))
        for client in clients:
            client.close()


def state_of_process(pid: int) -> str:
    """The letter that Linux has for the state of a process; empty if there is no such process."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


def lives(pid: int) -> bool:
    return state_of_process(pid) not in {"", "Z", "X"}


@contextmanager
def started(
    folder: Path,
    *arguments: str,
    tls: ssl.SSLContext | None = None,
    token: str | None = None,
    files: str | None = None,
    **variables: Any,
) -> Iterator[Service]:
    """Run a service for the block.

    Keywords in upper case are settings; ``env_NAME`` sets another variable. ``files`` are its soft and hard limit
    of open files, with a comma. It watches its rules only if it has its own: a watch starts a process, which takes
    longer than the service itself.
    """
    log = folder / "serve.log"
    watches = any(each.startswith(("--rules", "RULES")) for each in (*arguments, *variables))
    defaults = {"PORT": "0", "LOG": "off", "RELOAD": str(watches).lower(), "LOG_TIMEOUT": f"{PATIENCE:g}"}
    settings = {f"RUNNER_POLICY_{name}": value for name, value in {**defaults, **variables}.items() if name.isupper()}
    others = {name.removeprefix("env_"): value for name, value in variables.items() if not name.isupper()}
    temporary = folder / "tmp"
    temporary.mkdir(exist_ok=True)
    env = environment(XDG_STATE_HOME=str(folder), TMPDIR=str(temporary), **settings, **others)
    program = RUNNER_POLICY if files is None else limited_program(files)
    process = service_process(arguments, env, log, program=program)
    service = None
    try:

        def listens() -> str | None:
            assert process.poll() is None, log.read_text()
            found = re.findall(r"running on (https?://[^ ]+:\d+)", log.read_text())
            return found[-1].replace("0.0.0.0", "127.0.0.1") if found else None

        service = Service(process, until(listens), log, tls or False, token)
        workers = int(arguments[arguments.index("--workers") + 1]) if "--workers" in arguments else 1
        until(lambda service: service.times_ready() >= workers, service)
        yield service
    finally:
        for client in service.opened if service is not None else ():
            client.close()
        end(process, log)


def limited_program(files: str) -> list[str]:
    """`runner-policy` with these limits of open files, set before it starts, also in a process that is forked."""
    limit = f"import resource; resource.setrlimit(resource.RLIMIT_NOFILE, ({files}))"
    return [sys.executable, "-c", f"{limit}; from service.cli import main; main()"]


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., Any]:
    """Start a service in the test's folder."""

    def start(*arguments: str, **more: Any) -> Any:
        return started(tmp_path, *arguments, **more)

    return start


KNOWN_RELEASES = ("0.22.0", "0.23.0", "0.24.0", "0.25.0", "0.29.0", "0.30.0")
FEW_RULES = (
    "house/kv-connector-fallback",
    "upstream/default/v2-by-default",
    "upstream/v2/dual-batch-overlap",
    "upstream/conditions/microbatching",
)


@pytest.fixture(scope="session")
def few_rules(root: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three of the shipped rules and a condition that one of them uses, for six releases.

    They load in a fraction of the time of all rules.
    """
    found = tmp_path_factory.mktemp("rules") / "few"
    for name in FEW_RULES:
        for file in (f"{name}.yaml", f"{name}_test.yaml"):
            if (root / "rules" / file).exists():
                (found / file).parent.mkdir(parents=True, exist_ok=True)
                (found / file).write_text(_without_other_releases((root / "rules" / file).read_text()))
    # This folder has no rule for the variable.
    edit(
        found / f"{FEW_RULES[1]}_test.yaml",
        'env: {VLLM_USE_V2_MODEL_RUNNER: "0"}',
        "parallel_config: {enable_dbo: true}",
    )
    (found / "releases.yaml").write_text(f"known: {json.dumps(KNOWN_RELEASES)}\ndefault: '0.23.0'\n")
    return found


def _without_other_releases(text: str) -> str:
    """A file's text without the cases of other releases."""
    head, *cases = text.split("\n  - name:")
    found = [head]
    for case in cases:
        line = re.search(r"^    vllm: \[(.*)\]$", case, re.MULTILINE)
        versions = [version for version in line[1].split(", ") if version in KNOWN_RELEASES] if line else None
        if line and versions:
            found.append(case.replace(line[0], f"    vllm: [{', '.join(versions)}]"))
        elif versions is None:
            found.append(case)
    return "\n  - name:".join(found)


@pytest.fixture
def folder(few_rules: Path, tmp_path: Path) -> Path:
    """A copy of ``few_rules`` to edit."""
    return Path(shutil.copytree(few_rules, tmp_path / "policy"))


def edit(file: Path, old: str, new: str) -> None:
    """Replace a text in a file."""
    text = file.read_text()
    assert old in text
    replace_file(file, text.replace(old, new))


def read(path: Path) -> bytes:
    """The content of a file; empty if it no longer exists, as for a process that has ended."""
    try:
        return path.read_bytes()
    except OSError:
        return b""


def retitle(folder: Path, title: str) -> None:
    """Change the revision of the rules without changing a decision."""
    file = folder / RULE
    edit(file, re.search(r"^title: .*$", file.read_text(), re.MULTILINE)[0], f"title: {title}")  # type: ignore[index]  # every rule has one


@dataclass
class Tokens:
    """A token file, and the tokens by name."""

    path: Path
    texts: dict[str, str] = field(default_factory=dict)
    entries: dict[str, str] = field(default_factory=dict)

    def add(self, name: str, *scopes: str, until: str | None = None) -> str:
        self.texts[name] = new_token()
        self.entries[name] = entry_of(name, self.texts[name], scopes, until)
        self.write()
        return self.texts[name]

    def write(self) -> None:
        replace_file(self.path, "tokens:\n" + "".join(self.entries.values()))


@pytest.fixture
def tokens(tmp_path: Path) -> Tokens:
    """An empty token file."""
    return Tokens(tmp_path / "tokens.yaml")
