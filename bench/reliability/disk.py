"""A full disk: decisions continue, and dropped records are counted."""

from __future__ import annotations

import sqlite3
import subprocess
import time
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import uvloop

from bench.reliability.service import service
from bench.reliability.traffic import send
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(megabytes: int) -> None:
    """Fill the disk: decisions continue, and dropped records are counted; needs root, to mount a small disk."""
    with _small_disk(megabytes) as disk:
        with service(
            log=f"sqlite:///{disk}/decisions.db", log_spill=str(disk / "spill"), log_retention_bytes="1073741824"
        ) as server:
            results = uvloop.run(send(server.port, 2000, 30))
            answers = len(results.latencies)
            expect(
                not results.faults,
                (
                    f"full disk: no error in {answers:,} answers, p99 {results.percentile(0.99):.2f} ms "
                    f"{results.faults or ''}"
                ),
            )
            time.sleep(3)
            dropped, spilled = (
                server.metric("runner_policy_log_dropped_total"),
                server.metric("runner_policy_log_spilled_total"),
            )
        with closing(sqlite3.connect(f"file:{disk}/decisions.db?mode=ro", uri=True)) as connection:
            kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
        on_disk = (
            sum(len(path.read_bytes().splitlines()) for path in (disk / "spill").glob("*.jsonl"))
            if (disk / "spill").is_dir()
            else 0
        )
        known = kept + on_disk + dropped
        counts = (
            f"{kept:,} in the log, {on_disk:,} of {spilled:,.0f} spilled are still on the disk, {dropped:,.0f} dropped"
        )
        expect(known == answers, f"{counts}: {known:,.0f} of {answers:,}")


@contextmanager
def _small_disk(megabytes: int) -> Iterator[Path]:
    """A folder on a disk of this size, for the duration of the block."""
    with TemporaryDirectory(prefix="reliability-disk-") as folder:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", folder], check=True)
        try:
            yield Path(folder)
        finally:
            subprocess.run(["umount", folder], check=False)
