"""The command ``impact`` on a Ray cluster of two workers: the same bytes as without, even if a worker is killed.

``make test-ray`` runs these tests in an environment with Ray, which is an optional package.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from api.conftest import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed; `make test-ray` installs it"),
]
COMMAND = [sys.executable, "-c", "from service.cli import main; main()", "impact"]
CLUSTER = Path(__file__).parents[1] / "ray_cluster.py"
PATIENCE = 300.0
"""Seconds that anything may take on a busy machine."""
PIPE = 1 << 20
"""Bytes that are more than a pipe and the buffers at its ends hold."""
ARCHITECTURES = ("Qwen3ForCausalLM", "MixtralForCausalLM", "OPTForCausalLM", "LlamaForCausalLM")
RELEASES = "0.21.0..0.33.0"
POD = """\
apiVersion: v1
kind: Pod
metadata: {name: chat, namespace: prod}
spec:
  containers:
    - name: vllm
      image: vllm/vllm-openai:v0.21.0
      args: [--model, q, --enable-dbo]
"""


def requests(number: int, seed: int = 1) -> list[str]:
    """Lines, of which some are blank, invalid, or without a name."""
    rng = random.Random(seed)
    lines = []
    for place in range(number):
        model = {"architectures": [rng.choice(ARCHITECTURES)], "is_moe": rng.random() < 0.3}
        parallel = {"enable_dbo": rng.random() < 0.2, "tensor_parallel_size": rng.randint(1, 8)}
        request: dict[str, Any] = {"facts": {"model_config": model, "parallel_config": parallel}}
        if place % 3:
            request["request_id"] = f"deployment-{place}"
        broken = {5: "", 11: "{", 17: '{"facts": {"model": 1}}', 23: json.dumps(POD)}
        lines.append(broken.get(place % 997, json.dumps(request)))
    return lines


class RunningCluster:
    """A cluster of two workers."""

    def __init__(self, process: subprocess.Popen[str], log: Path) -> None:
        self._process = process
        self.address = self._line()
        assert self.address, log.read_text(errors="replace")[-4000:]

    def kill_worker(self) -> None:
        """End one of the workers with all its processes."""
        assert self._process.stdin is not None
        self._process.stdin.write("kill\n")
        self._process.stdin.flush()
        assert self._line() == "killed"

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    # the path of a socket is short, and Ray's are deep in its folder
    return environment(RAY_TMPDIR="/tmp", HOME=str(tmp_path_factory.mktemp("home")), PYTHONPATH="")


@pytest.fixture
def cluster(variables: dict[str, str], tmp_path: Path) -> Iterator[RunningCluster]:
    with (
        (tmp_path / "cluster.log").open("wb") as log,
        subprocess.Popen(
            [sys.executable, str(CLUSTER)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            text=True,
            env=variables,
        ) as process,
    ):
        try:
            yield RunningCluster(process, tmp_path / "cluster.log")
        finally:
            assert process.stdin is not None
            process.stdin.close()
            process.wait(PATIENCE)


def impact(folder: Path, variables: dict[str, str], *arguments: str) -> tuple[int, str]:
    """The exit code and what is said on standard error."""
    done = subprocess.run(
        [*COMMAND, *arguments], cwd=folder, env=variables, capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.stdout == ""
    return done.returncode, done.stderr


def test_a_cluster_writes_the_same_bytes(cluster: RunningCluster, variables: dict[str, str], tmp_path: Path) -> None:
    from arro3.core import Array, DataType, Field, RecordBatch, Schema  # noqa: PLC0415  # only this test needs it
    from arro3.io import write_parquet  # noqa: PLC0415  # as above

    (tmp_path / "fleet.jsonl").write_text("\n".join(requests(2500)))
    (tmp_path / "pods").mkdir()
    (tmp_path / "pods" / "chat.yaml").write_text(POD)
    (tmp_path / "models").mkdir()
    config = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
    (tmp_path / "models" / "q.json").write_text(json.dumps(config))
    schema = Schema([Field("request", DataType.string(), nullable=True)])
    rows = [Array([*requests(1200, seed), None], DataType.string()) for seed in (2, 3)]
    batches = [RecordBatch.from_arrays([values], schema=schema) for values in rows]
    write_parquet(batches[0], str(tmp_path / "some.parquet"))
    write_parquet(batches[1], str(tmp_path / "more.parquet"))
    local = ["fleet.jsonl", "some.parquet", "pods", "more.parquet", "--models", "models"]
    at_uri = ["fleet.jsonl", f"file://{tmp_path}/some.parquet", *local[2:]]
    for suffix, names, compared in (
        ("json", at_uri, ["--releases", RELEASES]),
        ("html", local, ["--to", "0.33.0"]),
        ("sarif", local, ["--releases", "0.33.0,v1-removed"]),
    ):
        expected = impact(tmp_path, variables, *local, *compared, "-o", f"local.{suffix}")
        found = impact(tmp_path, variables, *names, *compared, "--ray", cluster.address, "-o", f"cluster.{suffix}")
        assert found == expected
        assert expected[0] == 1  # some cannot be decided
        text = (tmp_path / f"cluster.{suffix}").read_text().replace(f"file://{tmp_path}/", "")
        assert text == (tmp_path / f"local.{suffix}").read_text()


def test_a_worker_that_is_killed_changes_nothing(
    cluster: RunningCluster, variables: dict[str, str], tmp_path: Path
) -> None:
    (tmp_path / "fleet.jsonl").write_text("\n".join(requests(10_000)))
    compared = ["fleet.jsonl", "--releases", RELEASES]
    expected = impact(tmp_path, variables, *compared, "-o", "local.jsonl")
    with subprocess.Popen(
        [*COMMAND, *compared, "--ray", cluster.address, "--format", "jsonl"],
        cwd=tmp_path,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # Ray says here that a worker has ended
    ) as process:
        assert process.stdout is not None
        first = process.stdout.readline()
        cluster.kill_worker()
        assert process.poll() is None  # in the middle: the rest is more than the pipe holds
        rest = process.stdout.read()
    assert (process.returncode, "") == expected
    assert len(rest) > 2 * PIPE
    assert first + rest == (tmp_path / "local.jsonl").read_bytes()


def test_without_a_cluster_it_is_wrong_usage(variables: dict[str, str], tmp_path: Path) -> None:
    (tmp_path / "fleet.jsonl").write_text("\n".join(requests(3)))
    code, said = impact(tmp_path, variables, "fleet.jsonl", "--to", "0.33.0", "--ray", "127.0.0.1:1", "-o", "a.json")
    assert (code, said.startswith("--ray: cannot connect to a Ray cluster at 127.0.0.1:1: ")) == (2, True)
    assert not (tmp_path / "a.json").exists()
    code, said = impact(
        tmp_path, variables, f"file://{tmp_path}/none.jsonl", "--to", "0.33.0", "--ray", "local", "-o", "a.json"
    )
    assert (code, "none.jsonl: cannot be read: " in said) == (2, True)
