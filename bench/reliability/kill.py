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
from bench.reliability.traffic import read, requests
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from collections.abc import Callable

    from bench.reliability.service import Service

RATE: Final = 600
CONNECTIONS: Final = 16
WORKERS: Final = 2
REQUIRED: Final = {"workers": str(WORKERS), "log_required": "true", "log_timeout": "2"}


def check(rounds: int) -> None:
    """Kill a worker, or all processes, with kill -9 under load: every acknowledged decision is in the log exactly once.

    The service runs in required mode.
    """
    _workers(rounds)
    _all_processes(rounds)


def _workers(rounds: int) -> None:
    acknowledged: set[str] = set()
    lost = 0
    with service(**REQUIRED) as made:
        for number in range(rounds):
            made.all_workers(WORKERS)
            client = uvloop.run(
                _struck(made, 1.0, acknowledged, lambda: os.kill(random.choice(made.workers()), signal.SIGKILL))
            )
            lost += client.heard.faults.get("connection lost", 0)
            _say(number, acknowledged)
        _compare(made, acknowledged, f"{rounds} workers killed", f"; {lost} connections were lost")
        expect(len(made.all_workers(WORKERS)) == WORKERS, "each was replaced")


def _all_processes(rounds: int) -> None:
    acknowledged: set[str] = set()
    with service(**REQUIRED) as made:
        for number in range(rounds):
            acknowledged.add(_id(made.decide()))  # those that are sent first wait for the log's process
            uvloop.run(_struck(made, 0.8, acknowledged, made.kill))
            made.start()
            _say(number, acknowledged)
        _compare(made, acknowledged, f"killed whole {rounds} times", "")


def _say(number: int, acknowledged: set[str]) -> None:
    """Print the progress every ten rounds."""
    if number % 10 == 9:
        print(f"      round {number + 1}: {len(acknowledged):,} acknowledged", flush=True)


async def _struck(made: Service, seconds: float, acknowledged: set[str], strike: Callable[[], None]) -> Client:
    """A client that sends for a given time, with a kill in between.

    The ids of the decisions in its answers are ``acknowledged``.
    """
    client = Client(made.port, requests(made.port), CONNECTIONS, look=lambda body: acknowledged.add(_id(body)))
    sending = asyncio.create_task(client.send(RATE, seconds))
    await asyncio.sleep(seconds * random.uniform(0.3, 0.9))
    strike()
    await sending
    await client.close()
    return client


def _id(answer: bytes) -> str:
    """A decision's id as SQLite has it."""
    return read(answer).decision_id.replace("-", "")


def _compare(made: Service, acknowledged: set[str], what: str, besides: str) -> None:
    """Compare the log with the acknowledged decisions, once spilled records are replayed."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends and not acknowledged <= set(_logged(made)):
        time.sleep(0.5)
    ids = _logged(made)
    expect(
        acknowledged <= set(ids),
        f"{what}: {len(acknowledged):,} acknowledged, {len(acknowledged - set(ids))} missing in the log",
    )
    expect(
        len(ids) == len(set(ids)),
        f"none twice; {len(ids) - len(acknowledged):,} more were logged and not answered{besides}",
    )


def _logged(made: Service) -> list[str]:
    with closing(
        sqlite3.connect(made.log, timeout=30)
    ) as connection:  # not read-only: after a kill -9 somebody has to recover the WAL
        try:
            return [row[0] for row in connection.execute("SELECT decision_id FROM decisions")]
        except sqlite3.OperationalError:  # the first keeper is yet to make the table
            return []
