"""Processes are killed under load, with a required log: every acknowledged decision is in the log exactly once."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sqlite3
import time
from contextlib import closing
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.client import Client
from bench.reliability.service import service
from bench.reliability.traffic import decode, requests
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.reliability.service import Service

RATE: Final = 600
CONNECTIONS: Final = 16
WORKERS: Final = 2
REQUIRED_LOG: Final = {"workers": str(WORKERS), "log_required": "true", "log_timeout": "2"}


def check(rounds: int) -> None:
    """Kill a worker, or all processes, with kill -9 under load: every acknowledged decision is in the log exactly once.

    The log is required.
    """
    _workers(rounds)
    _all_processes(rounds)


def _workers(rounds: int) -> None:
    acknowledged: set[str] = set()
    lost = 0
    with service(**REQUIRED_LOG) as server:
        for number in range(rounds):
            server.wait_for_workers(WORKERS)
            client = uvloop.run(
                _send_and_kill(
                    server, 1.0, acknowledged, lambda: os.kill(random.choice(server.workers()), signal.SIGKILL)
                )
            )
            lost += client.results.faults.get("connection lost", 0)
            _print_progress(number, acknowledged)
        _compare(server, acknowledged, f"{rounds} workers killed", f"; {lost} connections were lost")
        expect(len(server.wait_for_workers(WORKERS)) == WORKERS, "each was replaced")


def _all_processes(rounds: int) -> None:
    acknowledged: set[str] = set()
    with service(**REQUIRED_LOG) as server:
        for number in range(rounds):
            acknowledged.add(_id(server.decide()))  # answered when the log worker is ready
            uvloop.run(_send_and_kill(server, 0.8, acknowledged, server.kill))
            server.start()
            _print_progress(number, acknowledged)
        _compare(server, acknowledged, f"all processes killed {rounds} times", "")


def _print_progress(number: int, acknowledged: set[str]) -> None:
    """Print the progress every ten rounds."""
    if number % 10 == 9:
        print(f"      round {number + 1}: {len(acknowledged):,} acknowledged", flush=True)


async def _send_and_kill(server: Service, seconds: float, acknowledged: set[str], kill: Callable[[], None]) -> Client:
    """Send requests for a given time with a kill in between, and return the client.

    The ids of the decisions in its answers are added to ``acknowledged``.
    """
    client = Client(server.port, requests(server.port), CONNECTIONS, on_answer=lambda body: acknowledged.add(_id(body)))
    sending = asyncio.create_task(client.send(RATE, seconds))
    await asyncio.sleep(seconds * random.uniform(0.3, 0.9))
    kill()
    await sending
    await client.close()
    return client


def _id(answer: bytes) -> str:
    """A decision's id as it is stored in SQLite."""
    return decode(answer).decision_id.replace("-", "")


def _compare(server: Service, acknowledged: set[str], name: str, suffix: str) -> None:
    """Compare the log with the acknowledged decisions, once spilled records are replayed."""
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and not acknowledged <= set(_logged_ids(server)):
        time.sleep(0.5)
    ids = _logged_ids(server)
    expect(
        acknowledged <= set(ids),
        f"{name}: {len(acknowledged):,} acknowledged, {len(acknowledged - set(ids))} missing from the log",
    )
    expect(
        len(ids) == len(set(ids)),
        f"none twice; {len(ids) - len(acknowledged):,} more were logged but not answered{suffix}",
    )


def _logged_ids(server: Service) -> list[str]:
    with closing(
        sqlite3.connect(server.log, timeout=30)
    ) as connection:  # not read-only: after a kill -9 the WAL has to be recovered
        try:
            return [row[0] for row in connection.execute("SELECT decision_id FROM decisions")]
        except sqlite3.OperationalError:  # the log worker has not created the table yet
            return []
