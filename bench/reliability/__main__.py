"""Run one of the checks: ``python -m bench.reliability NAME``; each ends with 1 where something is not as promised."""

from __future__ import annotations

import argparse
import asyncio
import os
import random
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from itertools import count
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import msgspec
import uvloop

from bench.documents import documents, encode
from bench.reliability.client import Client, post
from bench.reliability.service import Service, service
from bench.servers import ROOT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from postgres import Postgres

RULE = "house/kv-connector-fallback.yaml"
WORDS = ("keeps this deployment on V1", "holds this deployment on V1")
BROKEN = "releases: [}"
SHARE = 0.7


class Answer(msgspec.Struct):
    """What is looked at in an answer."""

    decision_id: str
    summary: str
    policy: dict[str, str]


read = msgspec.json.Decoder(Answer).decode
failed: list[str] = []


def expect(holds: bool, what: str) -> None:  # noqa: FBT001
    print(f"{'ok  ' if holds else 'FAIL'}  {what}", flush=True)
    if not holds:
        failed.append(what)


def requests(port: int, seed: int = 1) -> Iterator[bytes]:
    """Requests over and over, 5,000 kinds, all with ids of their own."""
    drawn = [encode(document) for document, _ in zip(documents(seed, (None, "0.22.1", "0.33.0")), range(5000), strict=False)]
    for number in count():
        body = drawn[number % len(drawn)]
        yield post(port, body[:-1] + b',"beyond_verified":"nearest"}' if number // len(drawn) % 2 else body)


async def maximum(port: int, seconds: float = 10) -> float:
    """Answers a second that come where each is asked for as soon as the last one is there."""
    client = Client(port, requests(port))
    began = time.perf_counter()
    await client.send(1e6, seconds)
    rate = len(client.heard.latencies) / (time.perf_counter() - began)
    await client.close()
    return rate


async def rewriting(rules: Path, every: float, broken: int, stop: asyncio.Event) -> dict[str, int]:
    """Edit the rules: the words of one change, and each ``broken``-th time a file is none."""
    path = rules / RULE
    good = path.read_text()
    done = {"good": 0, "broken": 0}
    for number in count(1):
        try:
            await asyncio.wait_for(stop.wait(), every)
        except TimeoutError:
            pass
        else:
            path.write_text(good)
            return done
        if broken and number % broken == 0:
            path.write_text(BROKEN)
            done["broken"] += 1
        else:
            path.write_text(good.replace(WORDS[0], WORDS[number % 2]))
            done["good"] += 1
    raise AssertionError


def load(minutes: float) -> None:
    """70 % of the maximum with a reload every second and a broken rule set every tenth; memory, faults, mixed revisions."""

    async def run(made: Service) -> None:
        best = await maximum(made.port)
        rate = SHARE * best
        spoken: dict[str, set[str]] = {}
        mixed = 0

        def look(body: bytes) -> None:
            nonlocal mixed
            answer = read(body)
            words = next((word for word in WORDS if word in answer.summary), None)
            if words is not None:
                said = spoken.setdefault(answer.policy["revision"], set())
                said.add(words)
                mixed += len(said) > 1

        client = Client(made.port, requests(made.port), look=look)
        stop = asyncio.Event()
        edits = asyncio.create_task(rewriting(made.rules, 1.0, 10, stop))
        memory = []
        for number in range(max(2, round(minutes))):
            await client.send(rate, 60 * minutes / max(2, round(minutes)))
            memory.append(made.resident())
            print(f"      minute {number + 1}: {len(client.heard.latencies):,} answers, {memory[-1]:.0f} MB", flush=True)
        stop.set()
        done = await edits
        await client.close()
        heard = client.heard
        reloads = made.get("/metrics")
        accepted = [line for line in str(reloads).splitlines() if line.startswith("runner_policy_reloads_total")]
        print(f"      {best:,.0f}/s at most, {rate:,.0f}/s sent for {minutes:g} min, {done}, {len(spoken)} revisions answered, {accepted}")
        print(f"      p50 {heard.percentile(0.5):.2f} ms, p99 {heard.percentile(0.99):.2f} ms, late {heard.late}")
        expect(not heard.faults, f"no error in {len(heard.latencies):,} answers {heard.faults or ''}")
        expect(mixed == 0, f"each revision has its own words alone ({len(spoken)} revisions)")
        early, late = median(memory[1 : 1 + len(memory) // 3] or memory), median(memory[-(len(memory) // 3) or -1 :])
        expect(late <= early * 1.05, f"memory {early:.0f} MB early, {late:.0f} MB late")

    with TemporaryDirectory(prefix="reliability-") as place, service(Path(place)) as made:
        uvloop.run(run(made))


def reloads(seconds: float) -> None:
    """p99 with a reload every 10 s beside p99 without, in turns."""

    async def run(made: Service) -> None:
        rate = SHARE * await maximum(made.port)
        found: dict[bool, list[float]] = {False: [], True: []}
        for number in range(4):
            editing = number % 2 == 1
            client = Client(made.port, requests(made.port))
            stop = asyncio.Event()
            edits = asyncio.create_task(rewriting(made.rules, 10.0, 0, stop)) if editing else None
            await client.send(rate, seconds)
            stop.set()
            if edits is not None:
                await edits
            await client.close()
            found[editing].append(client.heard.percentile(0.99))
            print(f"      {'with' if editing else 'without'} reloads: p99 {found[editing][-1]:.2f} ms {client.heard.faults or ''}", flush=True)
        with_them, without = min(found[True]), min(found[False])
        expect(with_them <= 2 * without, f"p99 {with_them:.2f} ms with a reload every 10 s, {without:.2f} ms without, {rate:,.0f}/s")

    with TemporaryDirectory(prefix="reliability-") as place, service(Path(place)) as made:
        uvloop.run(run(made))


def logged(made: Service) -> list[str]:
    with closing(sqlite3.connect(made.log, timeout=30)) as connection:  # not read-only: after a kill -9 somebody has to recover the WAL
        try:
            return [row[0] for row in connection.execute("SELECT decision_id FROM decisions")]
        except sqlite3.OperationalError:  # the first keeper is yet to make the table
            return []


def kill(rounds: int) -> None:
    """kill -9 of a worker, and of all processes, under load in required mode: every acknowledged decision is in the log, once."""
    acknowledged: set[str] = set()

    async def under(made: Service, seconds: float, strike: Callable[[], None]) -> Client:
        client = Client(made.port, requests(made.port), 16, look=lambda body: acknowledged.add(read(body).decision_id.replace("-", "")))
        sending = asyncio.create_task(client.send(600, seconds))
        await asyncio.sleep(seconds * random.uniform(0.3, 0.9))
        strike()
        await sending
        await client.close()
        return client

    with TemporaryDirectory(prefix="reliability-") as place, service(Path(place), workers="2", log_required="true", log_time="2") as made:
        lost = 0
        for _ in range(rounds):
            victim = random.choice(made.workers())
            client = uvloop.run(under(made, 1.0, lambda victim=victim: os.kill(victim, signal.SIGKILL)))  # type: ignore[misc]
            lost += client.heard.faults.get("connection lost", 0)
        settled(made, acknowledged)
        ids = logged(made)
        expect(acknowledged <= set(ids), f"{rounds} workers killed: {len(acknowledged):,} acknowledged, {len(acknowledged - set(ids))} missing in the log")
        expect(len(ids) == len(set(ids)), f"none twice; {len(ids) - len(acknowledged):,} more were logged and not answered; {lost} connections were lost")
        expect(len(made.workers()) == 2, f"{len(made.workers())} workers answer")
    acknowledged.clear()
    with TemporaryDirectory(prefix="reliability-") as place, service(Path(place), workers="2", log_required="true", log_time="2") as made:
        uvloop.run(under(made, 2.0, lambda: None))
        for number in range(rounds):
            uvloop.run(under(made, 0.8, made.kill))
            made.start()
            if number % 10 == 9:
                print(f"      round {number + 1}: {len(acknowledged):,} acknowledged", flush=True)
        settled(made, acknowledged)
        ids = logged(made)
        expect(acknowledged <= set(ids), f"killed whole {rounds} times: {len(acknowledged):,} acknowledged, {len(acknowledged - set(ids))} missing in the log")
        expect(len(ids) == len(set(ids)), f"none twice; {len(ids) - len(acknowledged):,} more were logged and not answered")


def settled(made: Service, wanted: set[str]) -> None:
    """Wait until what was spilled is taken in."""
    ends = time.monotonic() + 60
    while time.monotonic() < ends and not wanted <= set(logged(made)):
        time.sleep(0.5)


def metric(made: Service, name: str) -> float:
    return sum(float(line.rpartition(" ")[2]) for line in str(made.get("/metrics")).splitlines() if line.startswith((f"{name} ", f"{name}{{")))


def rows(postgres: Postgres) -> int:
    """How many decisions are in it."""
    try:
        with postgres.connection() as connection:
            found = connection.execute("SELECT count(*) FROM decisions").fetchone()
    except OSError:
        return 0
    return 0 if found is None else int(found[0])


def database(away: float) -> None:
    """PostgreSQL stopped for a while and started again; then frozen for a while."""
    sys.path.append(str(ROOT / "tests"))
    from postgres import postgres as running  # noqa: PLC0415  # the tests' own server, which only this check needs

    async def run(made: Service, act: Callable[[], None], back: Callable[[], None]) -> tuple[Client, Client, Client]:
        rate = 1500
        found = []
        for number, seconds in enumerate((20.0, away, 20.0)):
            if number == 1:
                act()
            if number == 2:
                back()
            client = Client(made.port, requests(made.port))
            await client.send(rate, seconds)
            await client.close()
            found.append(client)
        return found[0], found[1], found[2]

    for name in ("stopped", "frozen"):
        with running() as postgres, TemporaryDirectory(prefix="reliability-") as place, service(Path(place), log=postgres.url(), log_time="2") as made:
            act, back = (postgres.stop, postgres.start) if name == "stopped" else (postgres.freeze, postgres.thaw)
            before, during, after = uvloop.run(run(made, act, back))
            sent = sum(len(client.heard.latencies) for client in (before, during, after))
            faults = {**before.heard.faults, **during.heard.faults, **after.heard.faults}
            ends = time.monotonic() + 90
            while time.monotonic() < ends and rows(postgres) < sent:
                time.sleep(0.5)
            kept = rows(postgres)
            dropped = metric(made, "runner_policy_log_dropped_total")
            expect(not faults, f"PostgreSQL {name} for {away:g} s: no error in {sent:,} answers {faults or ''}")
            spilled = metric(made, "runner_policy_log_spilled_total")
            expect(kept == sent and dropped == 0, f"{kept:,} of {sent:,} decisions are in it, {dropped:.0f} dropped, {spilled:,.0f} spilled")
            p99 = [client.heard.percentile(0.99) for client in (before, during, after)]
            expect(p99[1] <= 2 * p99[0] + 1, f"p99 {p99[0]:.2f} ms before, {p99[1]:.2f} ms while it is {name}, {p99[2]:.2f} ms after")


def disk(megabytes: int) -> None:
    """The disk full: decisions go on, and what is dropped is counted; needs to be root, to make a small disk."""

    async def run(made: Service) -> Client:
        client = Client(made.port, requests(made.port))
        await client.send(2000, 30)
        await client.close()
        return client

    with TemporaryDirectory(prefix="reliability-") as place:
        small = Path(place) / "small"
        small.mkdir()
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(small)], check=True)
        try:
            with service(Path(place) / "service", log=f"sqlite:///{small}/decisions.db", log_spill=str(small / "spill"), log_keep_size="1073741824") as made:
                client = uvloop.run(run(made))
                sent = len(client.heard.latencies)
                expect(
                    not client.heard.faults,
                    f"the disk full: no error in {sent:,} answers, p99 {client.heard.percentile(0.99):.2f} ms {client.heard.faults or ''}",
                )
                time.sleep(3)
                dropped, spilled = metric(made, "runner_policy_log_dropped_total"), metric(made, "runner_policy_log_spilled_total")
            with closing(sqlite3.connect(f"file:{small}/decisions.db?mode=ro", uri=True)) as connection:
                kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
            lying = sum(len(path.read_bytes().splitlines()) for path in (small / "spill").glob("*.jsonl")) if (small / "spill").is_dir() else 0
            known = kept + lying + dropped
            where = f"{kept:,} in the log, {lying:,} of {spilled:,.0f} spilled still lie on the disk, {dropped:,.0f} dropped"
            expect(known == sent, f"{where}: {known:,.0f} of {sent:,}")
        finally:
            subprocess.run(["umount", str(small)], check=False)


def slow(seconds: float) -> None:
    """Clients that send their bodies a byte at a time, or nothing at all, beside others."""

    async def run(made: Service) -> None:
        quiet = Client(made.port, requests(made.port))
        await quiet.send(1000, seconds)
        await quiet.close()
        lines = []
        for number in range(200):
            line = socket.create_connection(("127.0.0.1", made.port))
            line.setblocking(False)
            line.send(b"POST /v1/decisions HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{" if number % 2 else b"POST /v1/dec")
            lines.append(line)
        client = Client(made.port, requests(made.port))
        await client.send(1000, seconds)
        await client.close()
        answered = 0
        for line in lines:
            try:
                answered += b" 408 " in line.recv(65536)
            except OSError:
                continue
            finally:
                line.close()
        expect(not client.heard.faults, f"200 slow connections: no error in {len(client.heard.latencies):,} answers to others {client.heard.faults or ''}")
        expect(answered == 100, f"{answered} of 100 unfinished bodies got a 408")
        p99 = client.heard.percentile(0.99), quiet.heard.percentile(0.99)
        expect(p99[0] <= 2 * p99[1] + 1, f"p99 {p99[0]:.2f} ms beside them, {p99[1]:.2f} ms without")

    with TemporaryDirectory(prefix="reliability-") as place, service(Path(place), body_time="5") as made:
        uvloop.run(run(made))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.reliability", description="Check what the service stands; each check prints its figures.")
    commands = parser.add_subparsers(dest="name", required=True)
    for name, function, flag, default in (
        ("load", load, "--minutes", 15.0),
        ("reloads", reloads, "--seconds", 60.0),
        ("kill", kill, "--rounds", 100),
        ("database", database, "--away", 60.0),
        ("disk", disk, "--megabytes", 16),
        ("slow", slow, "--seconds", 15.0),
    ):
        command = commands.add_parser(name, help=(function.__doc__ or "").splitlines()[0])
        command.add_argument(flag, dest="value", type=type(default), default=default)
        command.set_defaults(function=function)
    asked = parser.parse_args()
    asked.function(asked.value)
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
