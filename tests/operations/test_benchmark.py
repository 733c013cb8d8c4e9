"""`python -m bench`: its exit code says whether every requirement is met."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from bench import __main__ as benchmark
from bench.command_line import CommandLine
from bench.deployments import DerivationTimes
from bench.impact import FACTS, FLEET, ImpactFigures
from bench.inprocess import EngineComparison
from bench.job import Measurement
from bench.memory import Growth
from bench.report import Results
from bench.traffic import BATCH, CONSTANT, DIFFERENT, LOGGED, REPEATED, Corpus, Load, Traffic

if TYPE_CHECKING:
    from collections.abc import Callable

LOAD = Load(seed=1, rounds=1, single=1_000, stream=1_000, cerbos=0)
CORPUS = Corpus(Path(), Path(), count=1_000, size=1_000.0, answer_size=1_000, fired=2.0, kinds=500)
FAST = Measurement(count=25_000, seconds=1.0, p50=1.0, p99=2.0, busy=0.5, cpu=1.0)
HALF = replace(FAST, count=12_500)
MEASURED = {CONSTANT: FAST, DIFFERENT: HALF, REPEATED: FAST, LOGGED: HALF, BATCH: FAST}
TRAFFIC = Traffic(CORPUS, {name: [one] for name, one in MEASURED.items()}, MEASURED, (90_000_000, 90_000_000), [])
DERIVED = DerivationTimes(count=5_000, size=900.0, new=100.0, seen=5.0, whole_new=200.0, whole_seen=100.0)
COMPARED = EngineComparison("0.23.0", 28, 10_000, 2.5, 10.0, 20.0, ratio=2.0, form="one list", bare=9.0)
GROWTH = Growth(decisions=1_000, before=90_000_000, after=91_000_000)
COMMANDS = CommandLine(starts=7, plain=0.1, help=0.3, decide=0.5, prove=15.0, diff=3.0, dry_run=2.0, checks=60.0)
IMPACTS = [ImpactFigures(fleet, 2, 1_000_000, 30.0, 1e9) for fleet in (FLEET, FACTS)]
ALL_MET = Results(LOAD, TRAFFIC, [COMPARED], DERIVED, GROWTH, 1.0, COMMANDS, IMPACTS, skipped=[])


@pytest.fixture
def bench(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., tuple[object, Path]]:
    """Run the command with given results in place of measurements; its exit code and the file of results."""

    def command(results: Results, *arguments: str) -> tuple[object, Path]:
        written = tmp_path / "results.md"
        monkeypatch.setattr(benchmark, "run", lambda **_: results)
        monkeypatch.setattr(benchmark, "RESULTS", written)
        monkeypatch.setattr("sys.argv", ["bench", *arguments])
        try:
            benchmark.main()
        except SystemExit as ended:
            return ended.code, written
        return 0, written

    return command


def test_the_exit_code_is_0_if_every_requirement_is_met(
    bench: Callable[..., tuple[object, Path]], capsys: pytest.CaptureFixture[str]
) -> None:
    code, written = bench(ALL_MET)
    assert (code, "MISS" in written.read_text()) == (0, False)
    assert capsys.readouterr().out.splitlines()[-1] == f"{written} is written; every requirement is met"


def test_the_report_has_the_number_of_starts(bench: Callable[..., tuple[object, Path]]) -> None:
    _, written = bench(ALL_MET)
    assert "Each command is started 7 times, " in written.read_text()


@pytest.mark.parametrize(
    ("results", "missed"),
    [
        (replace(ALL_MET, ready=2.5), "start until ready, s"),
        (
            replace(ALL_MET, compared=[replace(COMPARED, ratio=1.2)]),
            "fired rules of 0.23.0: times as fast as zen-engine",
        ),
        (
            replace(ALL_MET, derived=replace(DERIVED, new=151, seen=41)),
            "facts of a new deployment, µs; facts of a repeated deployment, µs",
        ),
        (
            replace(ALL_MET, commands=replace(COMMANDS, help=0.31, decide=0.51)),
            "; ".join(
                f"processor time of `{name}`: multiple of a plain interpreter's" for name in ("--help", "decide")
            ),
        ),
        (
            replace(ALL_MET, commands=replace(COMMANDS, prove=15.1, diff=3.1, dry_run=2.1, checks=60.1)),
            (
                "`rules prove`, s; `rules diff` of one edited rule, s; "
                "dry run of one edited rule for all deployments, s; `.ci/rules HEAD`, s"
            ),
        ),
        (
            replace(
                ALL_MET, impacts=[replace(IMPACTS[0], seconds=30.1, peak=1.1e9), replace(IMPACTS[1], seconds=41.0)]
            ),
            (
                "impact of 1,000,000 answers on two cores, s; its memory, MB; "
                "impact of facts that all differ, on two cores: answers/s"
            ),
        ),
    ],
    ids=["at most", "at least", "two", "starts", "checks", "impact"],
)
def test_the_exit_code_is_1_if_a_requirement_is_missed_and_the_results_are_written(
    bench: Callable[..., tuple[object, Path]], capsys: pytest.CaptureFixture[str], results: Results, missed: str
) -> None:
    code, written = bench(results)
    assert (code, "MISS" in written.read_text()) == (1, True)
    assert capsys.readouterr().out.splitlines()[-1] == f"{written} is written; missed: {missed}"


DISTURBED = replace(TRAFFIC, rounds={**TRAFFIC.rounds, BATCH: [replace(FAST, cpu=0.5)]})


@pytest.mark.parametrize(("ready", "exit_code"), [(2.5, 1), (1.0, 0)])
def test_a_requirement_missed_on_a_disturbed_machine_must_be_measured_again(
    bench: Callable[..., tuple[object, Path]], capsys: pytest.CaptureFixture[str], ready: float, exit_code: int
) -> None:
    code, written = bench(replace(ALL_MET, traffic=DISTURBED, ready=ready))
    again = "disturbed, measure again: other programs ran at the same time" in capsys.readouterr().out
    assert (code, again, "pass, disturbed" in written.read_text()) == (exit_code, exit_code == 1, True)


def test_the_short_run_checks_no_requirement_and_writes_nothing(bench: Callable[..., tuple[object, Path]]) -> None:
    code, written = bench(replace(ALL_MET, ready=2.5), "--quick")
    assert (code, written.exists()) == (0, False)


def test_the_readme_has_the_figures_of_the_results(root: Path) -> None:
    results = dict(re.findall(r"^\| (.+?) +\| +([\d.]+) \|", (root / "bench/results.md").read_text(), re.MULTILINE))
    text = " ".join((root / "README.md").read_text().split())
    assert f"has {results['HTTP, all different: share of the constant answer']} of the throughput of a constant" in text
    assert f"{results['HTTP, all different: times as fast as Cerbos']} times that of Cerbos" in text
    assert f"It is ready after {results['start until ready, s']} s." in text
