"""Both kinds of store, real log processes, and the service as it is started; each test has its own log."""

from __future__ import annotations

import asyncio
import os
import re
import sqlite3
import subprocess
import time
from contextlib import asynccontextmanager
from datetime import date
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import msgspec
import pytest
from api import conftest as api
from postgres import Postgres
from postgres import postgres as started
from processes import forked

from policy.request.request import read_request
from service.log import client as log_client
from service.log.client import LogClient
from service.log.messages import LogConfig
from service.log.query import LogFilter, stream
from service.log.record import record
from service.log.store import Store, StoreFailed, read_url
from service.log.writer import Writer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
    from contextlib import AbstractContextManager

    import httpx
    from processes import Process

    from policy.policy import Policy
    from service.log.record import LogEntry

run, call, on_terminal = api.run, api.call, api.on_terminal
TODAY = date(2026, 1, 1)
FACTS = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
LABELS = '{"id":"tests"}'


@pytest.fixture
def serve(tmp_path: Path) -> Callable[..., AbstractContextManager[api.Server]]:
    """Start a server with a decision log, and the given flags and variables."""

    def start(*arguments: str, **variables: str) -> AbstractContextManager[api.Server]:
        return api.serving(tmp_path, *arguments, **{"RUNNER_POLICY_LOG": "", **variables})

    return start


def start_log_process(command: Sequence[str], *, pass_fds: tuple[int], stdin: int) -> Process:
    """In place of ``Popen``: a log process that is forked, which takes a fraction of the time."""
    assert stdin == subprocess.DEVNULL
    with Path(os.devnull).open("rb") as null:
        return forked([*command[:-1], "3"], os.environ, (null.fileno(), 1, 2, *pass_fds))


@pytest.fixture(scope="session", autouse=True)
def _log_processes() -> Iterator[None]:
    """Fork the log processes of this process."""
    with pytest.MonkeyPatch.context() as patch:
        names = ("DEVNULL", "TimeoutExpired")
        used = SimpleNamespace(Popen=start_log_process, **{name: getattr(subprocess, name) for name in names})
        patch.setattr(log_client, "subprocess", used)
        yield


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server, one for each pytest process."""
    with started() as server:
        yield server


class LogTarget:
    """The store of a log, which a test may make unavailable, and its spill folder."""

    def __init__(self, url: str, folder: Path, server: Postgres | None) -> None:
        self.url, self.folder, self.server = url, folder, server
        self.spill = folder / "spill"
        self.file = Path(read_url(url).database or "") if server is None else None

    def records(self) -> list[dict[str, Any]]:
        """The records in the store, the oldest first; empty if there is no store."""
        try:
            return [
                msgspec.json.decode(msgspec.json.encode(record(row)))
                for part in stream(Store(read_url(self.url), 30), LogFilter())
                for row in part
            ]
        except StoreFailed:
            return []

    def ids(self) -> list[str]:
        """The ids of the decisions in the store, the oldest first."""
        return [found["decision_id"] for found in self.records()]

    def spilled(self) -> list[str]:
        """The ids of the spilled decisions."""
        lines = [line for path in sorted(self.spill.glob("*.jsonl")) for line in path.read_text().splitlines()]
        return [msgspec.json.decode(line)[0] for line in lines]

    @property
    def spill_size(self) -> int:
        """The size of the largest spill file in bytes."""
        return max(path.stat().st_size for path in self.spill.glob("*.jsonl"))

    def hold(self) -> Any:
        """Lock the store against other writers until the returned connection is closed."""
        if self.server is None:
            held: Any = sqlite3.connect(self.file or "", api.PATIENCE, isolation_level=None)
            held.execute("BEGIN EXCLUSIVE")
            return held
        held = self.server.connection(self.url)
        held.execute("LOCK TABLE decisions IN ACCESS EXCLUSIVE MODE")
        return held


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def target(request: pytest.FixtureRequest) -> LogTarget:
    """A store of each kind, without records."""
    found: LogTarget = request.getfixturevalue("sqlite" if request.param == "sqlite" else "on_server")
    return found


@pytest.fixture
def new(tmp_path: Path) -> LogTarget:
    """A store in SQLite that is not created yet."""
    return LogTarget(f"sqlite:///{tmp_path / 'log' / 'decisions.db'}", tmp_path, None)


@pytest.fixture
def sqlite(new: LogTarget) -> LogTarget:
    """A store in SQLite, for tests to which the kind of store makes no difference."""
    return created(new)


@pytest.fixture
def on_server(postgres: Postgres, tmp_path: Path) -> LogTarget:
    """A store in PostgreSQL."""
    return created(LogTarget(postgres.database(), tmp_path, postgres))


@pytest.fixture
def new_entry(policy: Policy) -> Callable[..., LogEntry]:
    """Make entries of the log, each with a new decision id."""

    def make(
        caller: str = "argo",
        facts: dict[str, Any] | None = None,
        version: str = "0.23.0",
        request_id: str | None = None,
    ) -> LogEntry:
        document = {"facts": FACTS if facts is None else facts, "vllm_version": version, "request_id": request_id}
        request = read_request(document, policy.releases)
        return policy.answer(request, TODAY), request, "v1/decisions", caller, 1000, None

    return make


def id_of(entry: LogEntry) -> str:
    return str(msgspec.json.decode(entry[0].json)["decision_id"])


def created(target: LogTarget) -> LogTarget:
    """Create the store in advance, because a log process takes a while to do it."""
    writer = Writer(read_url(target.url), 30)
    writer.open()
    writer.close()
    return target


def log_config(target: LogTarget, **config: Any) -> LogConfig:
    """The settings of a log in a store."""
    defaults = {
        "spill_size": 1 << 30,
        "timeout": api.PATIENCE,
        "durable": False,
        "keep_seconds": None,
        "keep_size": None,
        "labels": LABELS,
    }
    return LogConfig(**{"url": target.url, "spill": str(target.spill), **defaults, **config})


@asynccontextmanager
async def running_log(target: LogTarget, bound: int = 10_000, **config: Any) -> AsyncIterator[LogClient]:
    """Run the log of a serving process, with its log process."""
    log = LogClient(log_config(target, **config), bound)
    try:
        yield log
    finally:
        await log.close(api.PATIENCE)


async def until(holds: Callable[[], object], log: LogClient | None = None) -> None:
    """Wait until a condition is true."""
    ends = time.monotonic() + api.PATIENCE
    while not holds():
        assert time.monotonic() < ends, log.state() if log is not None else "the condition did not become true"
        await asyncio.sleep(0.01)


def wait_for(holds: Callable[[], object]) -> None:
    """Wait until a condition is true, in a test without an event loop."""
    ends = time.monotonic() + api.PATIENCE
    while not holds():
        assert time.monotonic() < ends, "the condition did not become true"
        time.sleep(0.01)


@pytest.fixture
def anyio_backend() -> str:
    """The event loop of asynchronous tests: asyncio, as in the service."""
    return "asyncio"


def run_loop(test: Awaitable[None]) -> None:
    """Run an event loop, for a test with several loops or with work outside of one."""
    asyncio.run(test)  # type: ignore[arg-type]  # it is a coroutine, which `Awaitable` does not say


def log_metrics(client: httpx.Client) -> dict[str, float]:
    """The current metrics of the log."""
    text = client.get("/metrics").text
    return {
        name.removesuffix("_total"): float(value)
        for name, value in re.findall(r"^runner_policy_log_(\w+) (\S+)$", text, re.MULTILINE)
    }


def log_state(client: httpx.Client) -> dict[str, Any]:
    """The state of the log that the service reports."""
    found: dict[str, Any] = client.get("/readyz?verbose").json()["log"]
    return found
