"""A full disk: decisions continue, and records that are not kept are counted."""

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
from bench.reliability.traffic import sent
from bench.reliability.verdict import expect

if TYPE_CHECKING:
    from collections.abc import Iterator


def check(megabytes: int) -> None:
    """Fill the disk: decisions continue, and dropped records are counted; needs root, to make a small disk."""
    with _small_disk(megabytes) as small:
        with service(
            log=f"sqlite:///{small}/decisions.db", log_spill=str(small / "spill"), log_retention_bytes="1073741824"
        ) as made:
            heard = uvloop.run(sent(made.port, 2000, 30))
            answers = len(heard.latencies)
            expect(
                not heard.faults,
                (
                    f"the disk full: no error in {answers:,} answers, p99 {heard.percentile(0.99):.2f} ms "
                    f"{heard.faults or ''}"
                ),
            )
            time.sleep(3)
            dropped, spilled = (
                made.metric("runner_policy_log_dropped_total"),
                made.metric("runner_policy_log_spilled_total"),
            )
        with closing(sqlite3.connect(f"file:{small}/decisions.db?mode=ro", uri=True)) as connection:
            kept = connection.execute("SELECT count(*) FROM decisions").fetchone()[0]
        lying = (
            sum(len(path.read_bytes().splitlines()) for path in (small / "spill").glob("*.jsonl"))
            if (small / "spill").is_dir()
            else 0
        )
        known = kept + lying + dropped
        where = (
            f"{kept:,} in the log, {lying:,} of {spilled:,.0f} spilled still lie on the disk, {dropped:,.0f} dropped"
        )
        expect(known == answers, f"{where}: {known:,.0f} of {answers:,}")


@contextmanager
def _small_disk(megabytes: int) -> Iterator[Path]:
    """A folder on a disk of this size, for the length of the block."""
    with TemporaryDirectory(prefix="reliability-disk-") as place:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", place], check=True)
        try:
            yield Path(place)
        finally:
            subprocess.run(["umount", place], check=False)
