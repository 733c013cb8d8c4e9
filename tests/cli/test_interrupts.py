"""Interrupted commands: they end soon, with the report that they promise and without a traceback."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, TYPE_CHECKING

import pytest
from api.conftest import PATIENCE
from cli.test_cli_impact import facts, lines
from cli.test_progress import COMMANDS, RECORD
from representatives import slow_except, slow_rows_except

if TYPE_CHECKING:
    from collections.abc import Iterator

DIFFERENT = 4_000
"""Different deployments: enough for a run to start other processes."""
PINNED = {"VLLM_USE_V2_MODEL_RUNNER": "0"}


def workers_of(process: int) -> Iterator[int]:
    """The processes that a run has started to divide its work."""
    for file in Path(f"/proc/{process}/task").glob("*/children"):
        with suppress(OSError):  # one that has ended meanwhile
            for child in file.read_text().split():
                if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes():
                    yield int(child)


def write_all(pipe: IO[bytes], data: bytes) -> None:
    with suppress(OSError):  # the command has ended
        pipe.write(data)
        pipe.flush()


@pytest.mark.parametrize(
    ("number", "delay"),
    slow_rows_except(
        [(signal.SIGINT, 0), (signal.SIGTERM, 0.3)],
        [(number, delay) for number in (signal.SIGINT, signal.SIGTERM) for delay in (0, 0.1, 0.3, 1)],
    ),
)
@pytest.mark.parametrize("command", slow_except(["impact"], COMMANDS))
def test_a_signal_while_processes_start_ends_the_run(
    tmp_path: Path, command: str, number: signal.Signals, delay: float
) -> None:
    # not measured: a signal within the tracer of coverage leaves its lock held, and the command hangs
    env = {name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")}
    output = tmp_path / "out.json"
    documents = [facts(f"d{at}", kv_transfer_config={"kv_connector": f"N{at}"}, env=PINNED) for at in range(DIFFERENT)]
    if command == "replay":
        documents = [{**RECORD, "input": each} for each in documents]
    words = [command, "-", *COMMANDS[command], "--jobs", "2", "-o", str(output)]
    with subprocess.Popen(
        [sys.executable, "-c", "from service.cli import main; main()", *words],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=env,
        start_new_session=True,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        # the input has no end, so the run has none before the signal
        writer = Thread(target=write_all, args=(process.stdin, lines(*documents).encode()), daemon=True)
        writer.start()
        try:
            while process.poll() is None and not any(workers_of(process.pid)):
                time.sleep(0.01)
            time.sleep(delay)  # expects nothing: a run can be interrupted at each moment
            os.killpg(process.pid, number)
            code, err = process.wait(PATIENCE), process.stderr.read().decode()
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            writer.join()
            with suppress(OSError):  # what the command did not read any more
                process.stdin.close()
    assert code == 130, err
    assert re.fullmatch(r"interrupted: the report has the first [\d,]+ \w+\n", err)
    assert json.loads(output.read_text())["complete"] is False
