"""Measure whether a million decisions leak memory: resident memory before and after, in a separate process."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from dataclasses import dataclass
from itertools import islice
from typing import Final

from msgspec import json

from bench.documents import documents, encode
from bench.servers import ROOT, resident
from policy.policy import Policy
from policy.rules.catalogue import load
from policy.rules.loader import default_folder, read_folder
from service.models import HubModels
from service.recorder import Recorder
from service.reload.reload import Published
from service.request_context import RequestContext
from service.settings import Settings
from service.state.answers import Answers
from service.telemetry.metrics import Metrics

WARM_UP: Final = 50_000


@dataclass(frozen=True, slots=True)
class Growth:
    """Resident bytes after the warm-up and after ``decisions`` more decisions."""

    decisions: int
    before: int
    after: int

    @property
    def megabytes(self) -> float:
        """The growth in megabytes."""
        return (self.after - self.before) / 1e6


def memory_growth(seed: int, count: int) -> Growth:
    """The growth over ``count`` decisions on different documents, from JSON text to JSON text, in a fresh process."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.memory", str(seed), str(count)], cwd=ROOT, stdout=subprocess.PIPE, check=True
    )
    return json.decode(done.stdout, type=Growth)


def _decide(seed: int, count: int) -> Growth:
    sources = read_folder(default_folder())
    policy = Policy(load(sources))
    metrics = Metrics()
    answers = Answers(
        policy, Published(policy.revision, sources.rules, "", "", ""), Settings(), HubModels(None), Recorder(metrics)
    )
    context = RequestContext("v1/decisions", "bench", 0)
    stream = documents(seed, (None, *policy.releases.known))

    def decide(number: int) -> int:
        for document in islice(stream, number):
            answers.decision(encode(document), context)
        metrics.snapshot()
        gc.collect()
        return resident(os.getpid())

    return Growth(count, decide(min(WARM_UP, count)), decide(count))


if __name__ == "__main__":
    sys.stdout.buffer.write(json.encode(_decide(*map(int, sys.argv[1:]))))
