"""The command ``impact`` on large fleets, by cores: answers a second, with its start, and the peak of memory.

``python -m bench.impact`` prints the figures alone.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from bench import cores
from policy.rules.catalogue import load
from policy.rules.loader import default_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

RELEASES: Final = "0.22.0..0.33.0"
MODEL: Final = "org/model"
CONFIG: Final = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "max_position_embeddings": 40960,
    "hidden_size": 4096,
    "num_attention_heads": 32,
}
NIXL: Final = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
POLL: Final = 0.2
FLEET: Final = "deployments, 2,000 different"
FACTS: Final = "facts, all different"


@dataclass(frozen=True, slots=True)
class ImpactFigures:
    """One run of the command."""

    fleet: str
    cores: int
    answers: int
    seconds: float
    peak: float
    """Bytes of all processes together, with shared memory in parts (PSS)."""

    @property
    def rate(self) -> float:
        return self.answers / self.seconds

    @property
    def row(self) -> tuple[str, ...]:
        return (
            self.fleet,
            str(self.cores),
            f"{self.answers:,}",
            f"{self.rate:,.0f}",
            f"{self.seconds:.1f}",
            f"{self.peak / 1e6:,.0f}",
        )


def impact_figures(*, quick: bool) -> list[ImpactFigures]:
    """The figures of both fleets with one core up to all of them."""
    known = load(read_folder(default_folder())).releases.known
    releases = known.index(RELEASES.partition("..")[2]) - known.index(RELEASES.partition("..")[0]) + 1
    found = []
    with TemporaryDirectory(prefix="bench-impact-") as folder:
        for name, number, documents in (
            (FLEET, 2_000 if quick else 100_000, sample_deployments),
            (FACTS, 2_000 if quick else 50_000, sample_facts),
        ):
            fleet = Path(folder) / "fleet.jsonl"
            with fleet.open("w") as file:
                file.writelines(f"{json.dumps(each)}\n" for each in documents(number))
            found += [_run(fleet, name, count, number * releases) for count in range(1, cores.COUNT + 1)]
    return found


def sample_deployments(number: int) -> Iterator[dict[str, Any]]:
    chance = random.Random(1)
    for at in range(number):
        which = chance.randrange(2_000)
        args = ["serve", MODEL, "-tp", str(1 << which % 4), "--max-model-len", str(1_000 + which)]
        args += ["--kv-transfer-config", NIXL] if which % 7 == 0 else []
        args += ["--enable-dbo"] if which % 11 == 0 else []
        deployment = {"args": args, "model_configs": {MODEL: CONFIG}}
        yield {"request_id": f"d{at}", "vllm_version": "0.22.0", "deployment": deployment}


def sample_facts(number: int) -> Iterator[dict[str, Any]]:
    for at in range(number):
        facts = {
            "model_config": {"architectures": [f"A{at}ForCausalLM"]},
            "parallel_config": {"tensor_parallel_size": 1 + at % 8},
        }
        yield {"request_id": f"f{at}", "vllm_version": "0.22.0", "facts": facts}


def _run(fleet: Path, name: str, count: int, answers: int) -> ImpactFigures:
    target = fleet.with_suffix(".parquet")
    seconds, peak = run_command([str(fleet), "--releases", RELEASES, "--output", str(target)], count)
    return ImpactFigures(name, count, answers, seconds, peak)


def run_command(arguments: list[str], count: int = cores.COUNT) -> tuple[float, float]:
    """The seconds that the command takes on this many cores, and its peak of memory in bytes."""
    command = [sys.executable, "-c", "from service.cli import main; main()", "impact", "--jobs", str(count), *arguments]
    began, peak = time.perf_counter(), 0
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(allowed)[:count])
    try:
        process = subprocess.Popen(command)
    finally:
        os.sched_setaffinity(0, allowed)
    while process.poll() is None:
        peak = max(peak, sum(map(_memory, _tree(process.pid))))
        time.sleep(POLL)
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command)
    return time.perf_counter() - began, peak


def _tree(pid: int) -> list[int]:
    try:
        children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    except OSError:
        return []
    return [pid, *(each for child in children for each in _tree(int(child)))]


def _memory(pid: int) -> int:
    try:
        text = Path(f"/proc/{pid}/smaps_rollup").read_text()
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in text.splitlines() if line.startswith("Pss:")), 0)


if __name__ == "__main__":
    for figures in impact_figures(quick="--quick" in sys.argv):
        print(*figures.row, sep="\t")
