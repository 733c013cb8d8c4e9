"""The time that the command line takes: to start, and to check an edit of the rules.

The processor time of a start is compared with that of an interpreter that imports a few modules of the standard
library, so that the result depends little on the machine. The checks are measured in wall-clock time.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from http.client import HTTPConnection
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Final

from msgspec import json

from bench import servers
from bench.servers import BIN, HOST, ROOT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PLAIN_PYTHON: Final = (sys.executable, "-c", "import json, argparse, asyncio, typing, dataclasses, re, pathlib")
COMMAND: Final = str(BIN / "runner-policy")
MODEL: Final = "Qwen/Qwen3-8B"
REQUEST: Final[dict[str, Any]] = {
    "vllm_version": "0.23.0",
    "deployment": {
        "args": ["--model", MODEL],
        "model_configs": {MODEL: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}},
    },
}
EDITED_RULE: Final = "upstream/v2/parallel-drafting.yaml"
EDIT: Final = ("{not_in: [dflash, dspark]}", "{not_in: [dflash]}")


class CommandFailed(Exception):
    """A command exited with a code other than 0."""


@dataclass(frozen=True, slots=True)
class CommandLine:
    """Processor seconds of a plain interpreter, ``--help`` and ``decide``, and seconds of the checks of an edit.

    The checks are ``rules prove``, ``rules diff`` of one edited rule, a dry run of it for all deployments, and
    ``.ci/rules HEAD``; the quick run leaves out those that are ``None``. Each command was started ``starts`` times.
    """

    starts: int
    plain: float
    help: float
    decide: float
    prove: float | None
    diff: float
    dry_run: float
    checks: float | None


def command_line(*, quick: bool) -> CommandLine:
    """Measure every command; the quick run starts each three times, and leaves out the checks of all rules.

    Raises:
        CommandFailed: a command did not succeed.
    """
    with TemporaryDirectory(prefix="bench-") as name:
        folder = Path(name)
        request = folder / "request.json"
        request.write_bytes(json.encode(REQUEST))
        rules = Path(shutil.copytree(ROOT / "rules", folder / "rules"))
        text = (rules / EDITED_RULE).read_text("utf-8")
        if EDIT[0] not in text:
            raise CommandFailed(f"{EDITED_RULE} has no `{EDIT[0]}` to edit; edit another rule in bench/command_line.py")
        (rules / EDITED_RULE).write_text(text.replace(*EDIT), "utf-8")
        starts = 3 if quick else 10
        plain, help_, decide = _starts([PLAIN_PYTHON, (COMMAND, "--help"), (COMMAND, "decide", str(request))], starts)
        return CommandLine(
            starts,
            plain,
            help_,
            decide,
            None if quick else _seconds([COMMAND, "rules", "prove"]),
            _seconds([COMMAND, "rules", "diff", "rules", "--rules", str(rules)]),
            _dry_run((rules / EDITED_RULE).read_text("utf-8")),
            None if quick else _seconds(["sh", ".ci/rules", "HEAD"], {"VENV": str(BIN.parent)}),
        )


def _starts(commands: Sequence[Sequence[str]], rounds: int) -> list[float]:
    """The median of each command's processor seconds, in interleaved rounds."""
    found = [[_processor_seconds(command) for command in commands] for _ in range(rounds)]
    return [median(each) for each in zip(*found, strict=True)]


def _processor_seconds(command: Sequence[str]) -> float:
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise CommandFailed(f"{' '.join(command)} exited with {process.returncode}")
    return used.ru_utime + used.ru_stime


def _seconds(command: Sequence[str], variables: Mapping[str, str] | None = None) -> float:
    began = time.perf_counter()
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, **(variables or {})}, stdout=subprocess.DEVNULL, check=False
    )
    if done.returncode:
        raise CommandFailed(f"{' '.join(command)} exited with {done.returncode}")
    return time.perf_counter() - began


def _dry_run(rule: str) -> float:
    """The seconds of a dry run with a candidate rule for all deployments, on all cores.

    The service has answered one without a candidate before, so that its worker process is started.
    """
    with servers.running(*servers.service(), on_all_cores=True) as server:
        _ask_dry_run(server.port, {"request": REQUEST})
        return _ask_dry_run(server.port, {"request": REQUEST, "rules": [rule], "changes": "all"})


def _ask_dry_run(port: int, document: Mapping[str, Any]) -> float:
    """The seconds until a dry run is answered.

    Raises:
        CommandFailed: the answer's status is not 200.
    """
    connection = HTTPConnection(HOST, port, timeout=60)
    began = time.perf_counter()
    connection.request("POST", "/v1/dry-run", json.encode(document), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    answer.read()
    seconds = time.perf_counter() - began
    connection.close()
    if answer.status != 200:
        raise CommandFailed(f"the dry run: expected status 200, got {answer.status}")
    return seconds
