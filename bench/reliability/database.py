"""PostgreSQL stops and restarts, or freezes: no errors, no lost records, no growing latency."""

from __future__ import annotations

import sys
import time
from typing import TYPE_CHECKING, Final

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import sent
from bench.reliability.verdict import expect
from bench.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable

    from postgres import Postgres

    from bench.reliability.client import Heard
    from bench.reliability.service import Service

RATE: Final = 1500
AROUND: Final = 20.0
"""Seconds of load before the database stops, and after it is back."""


def check(away: float) -> None:
    """PostgreSQL stopped for a while and started again; then frozen for a while."""
    sys.path.append(str(ROOT / "tests"))
    from postgres import postgres as running  # noqa: PLC0415  # the tests' own server, which only this check needs

    for name in ("stopped", "frozen"):
        with running() as postgres, service(log=postgres.url(), log_timeout="2") as made:
            act, back = (postgres.stop, postgres.start) if name == "stopped" else (postgres.freeze, postgres.thaw)
            _judge(made, postgres, uvloop.run(_through(made, away, act, back)), name, away)


async def _through(made: Service, away: float, act: Callable[[], None], back: Callable[[], None]) -> list[Heard]:
    """The answers before the database is unavailable, meanwhile, and afterwards."""
    before = await sent(made.port, RATE, AROUND)
    act()
    meanwhile = await sent(made.port, RATE, away)
    back()
    return [before, meanwhile, await sent(made.port, RATE, AROUND)]


def _judge(made: Service, postgres: Postgres, heard: list[Heard], name: str, away: float) -> None:
    answers = sum(len(each.latencies) for each in heard)
    faults = {fault: number for each in heard for fault, number in each.faults.items()}
    ends = time.monotonic() + 90
    while time.monotonic() < ends and _rows(postgres) < answers:
        time.sleep(0.5)
    kept = _rows(postgres)
    dropped, spilled = made.metric("runner_policy_log_dropped_total"), made.metric("runner_policy_log_spilled_total")
    expect(not faults, f"PostgreSQL {name} for {away:g} s: no error in {answers:,} answers {faults or ''}")
    expect(
        kept == answers and dropped == 0,
        f"{kept:,} of {answers:,} decisions are in it, {dropped:.0f} dropped, {spilled:,.0f} spilled",
    )
    p99 = [each.percentile(0.99) for each in heard]
    expect(
        p99[1] <= 2 * p99[0] + 1,
        f"p99 {p99[0]:.2f} ms before, {p99[1]:.2f} ms while it is {name}, {p99[2]:.2f} ms after",
    )


def _rows(postgres: Postgres) -> int:
    """How many decisions are in the database."""
    try:
        with postgres.connection() as connection:
            found = connection.execute("SELECT count(*) FROM decisions").fetchone()
    except OSError:
        return 0
    return 0 if found is None else int(found[0])
