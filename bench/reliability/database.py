"""PostgreSQL stops and restarts, or freezes: no errors, no lost records, no growing latency."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import send
from bench.reliability.verdict import expect
from bench.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres import Postgres

    from bench.reliability.client import ClientResults
    from bench.reliability.service import Service

RATE: Final = 1500
LOAD_SECONDS: Final = 20.0
"""Seconds of load before the database stops, and after it is available again."""


def check(outage: float) -> None:
    """Stop PostgreSQL for a while and start it again; then freeze it for a while."""
    sys.path.append(str(ROOT / "tests"))
    from postgres import postgres as running  # noqa: PLC0415  # the tests' own server, which only this check needs

    for name in ("stopped", "frozen"):
        with running() as postgres, service(log=postgres.url(), log_timeout="2") as server:
            interrupt, resume = (
                (postgres.stop, postgres.start) if name == "stopped" else (postgres.freeze, postgres.thaw)
            )
            _expect(server, postgres, uvloop.run(_send_through(server, outage, interrupt, resume)), name, outage)


async def _send_through(
    server: Service, outage: float, interrupt: Callable[[], None], resume: Callable[[], None]
) -> list[ClientResults]:
    """The answers before the database is unavailable, meanwhile, and afterwards."""
    before = await send(server.port, RATE, LOAD_SECONDS)
    interrupt()
    meanwhile = await send(server.port, RATE, outage)
    resume()
    return [before, meanwhile, await send(server.port, RATE, LOAD_SECONDS)]


def _expect(server: Service, postgres: Postgres, results: list[ClientResults], name: str, outage: float) -> None:
    answers = sum(len(each.latencies) for each in results)
    faults = {fault: number for each in results for fault, number in each.faults.items()}
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline and _rows(postgres) < answers:
        time.sleep(0.5)
    kept = _rows(postgres)
    dropped, spilled = (
        server.metric("runner_policy_log_dropped_total"),
        server.metric("runner_policy_log_spilled_total"),
    )
    expect(not faults, f"PostgreSQL {name} for {outage:g} s: no error in {answers:,} answers {faults or ''}")
    expect(
        kept == answers and dropped == 0,
        f"{kept:,} of {answers:,} decisions are in the database, {dropped:.0f} dropped, {spilled:,.0f} spilled",
    )
    p99 = [each.percentile(0.99) for each in results]
    expect(
        p99[1] <= 2 * p99[0] + 1,
        f"p99 {p99[0]:.2f} ms before, {p99[1]:.2f} ms while it is {name}, {p99[2]:.2f} ms after",
    )


def _rows(postgres: Postgres) -> int:
    """The number of decisions in the database."""
    try:
        with postgres.connection() as connection:
            found = connection.execute("SELECT count(*) FROM decisions").fetchone()
    except OSError:
        return 0
    return 0 if found is None else int(found[0])
