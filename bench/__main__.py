"""Run the benchmark: ``python -m bench``, or with ``--quick`` a short run that only checks that everything works."""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from bench import inprocess, servers
from bench.command_line import CommandFailed, command_line
from bench.deployments import derivation_times
from bench.impact import impact_figures
from bench.job import LoadFailed
from bench.memory import memory_growth
from bench.report import RESULTS, Results, requirements, to_markdown
from bench.servers import ServerFailed
from bench.traffic import Load, corpus, traffic
from policy.policy import Policy
from policy.rules.catalogue import load as load_rules
from policy.rules.loader import default_folder, read_folder

FULL: Final = Load(seed=1, rounds=5, single=15_000, stream=30_000, cerbos=2_500)
QUICK: Final = Load(seed=1, rounds=1, single=1_000, stream=2_000, cerbos=0)


def run(*, quick: bool) -> Results:
    """Measure everything.

    Compiled modules are kept, even where PYTHONDONTWRITEBYTECODE is set: an installation has them, and compiling them
    is half of the processor time of a command.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    sys.dont_write_bytecode = False
    began = time.perf_counter()

    def report_progress(step: str) -> None:
        print(f"{time.perf_counter() - began:6.1f} s  {step}", file=sys.stderr, flush=True)

    load = QUICK if quick else FULL
    policy = Policy(load_rules(read_folder(default_folder())))
    skipped = ["Cerbos and the checks of all rules are left out of the quick run"] if quick else []
    with TemporaryDirectory(prefix="bench-") as folder:
        report_progress("writing documents")
        measured = traffic(policy, load, corpus(policy, load, Path(folder)), report_progress)
    skipped += measured.skipped
    compared = []
    if inprocess.available():
        for release in (policy.releases.default, policy.releases.known[-1]):
            report_progress(f"in process, {release}")
            compared.append(inprocess.compare(policy, release, load.seed, 500 if quick else 10_000, load.rounds))
    else:
        skipped.append("zen-engine is left out: it is not installed")
    report_progress("deployments")
    facts = derivation_times(load.seed, 300 if quick else 5_000, load.rounds)
    report_progress("starting")
    ready = median(_ready_after() for _ in range(load.rounds))
    report_progress("command line")
    commands = command_line(quick=quick)
    report_progress("impact")
    impacts = impact_figures(quick=quick)
    report_progress("memory")
    growth = memory_growth(load.seed, 5_000 if quick else 1_000_000)
    report_progress("done")
    return Results(load, measured, compared, facts, growth, ready, commands, impacts, skipped)


def _ready_after() -> float:
    with servers.running(*servers.service()) as server:
        return server.ready_after


def main() -> None:
    """Print the report; a full run also writes it to ``bench/results.md``.

    The exit code is 1 without a report if something could not be measured, and after the report if a full run missed a
    requirement, even if other programs disturbed it.
    """
    parser = argparse.ArgumentParser(prog="python -m bench", description="Measure the service and its alternatives.")
    parser.add_argument(
        "--quick", action="store_true", help="a short run that only checks that everything works; writes no results"
    )
    quick: bool = parser.parse_args().quick
    try:
        results = run(quick=quick)
    except (LoadFailed, ServerFailed, CommandFailed, inprocess.ResultsDiffer) as error:
        sys.exit(str(error))
    report = to_markdown(results)
    print(report)
    if not quick:
        RESULTS.write_text(report, "utf-8")
        required = requirements(results)
        missed = [requirement.name for requirement in required if not requirement.met]
        verdict = f"missed: {'; '.join(missed)}" if missed else "every requirement is met"
        print(f"{RESULTS} is written; {verdict}")
        if missed and any(requirement.disturbed for requirement in required):
            print("disturbed, measure again: other programs ran at the same time")
        if missed:
            sys.exit(1)


if __name__ == "__main__":
    main()
