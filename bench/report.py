"""Format the results as Markdown, for the terminal and for ``bench/results.md``.

Owns the requirements, and marks those that are missed; the exit code is the caller's.
"""

from __future__ import annotations

import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TYPE_CHECKING, Final

from bench import cerbos, cores
from bench.impact import FACTS, FLEET
from bench.servers import ROOT
from bench.traffic import BATCH, CERBOS, CONSTANT, DIFFERENT, LOGGED, REPEATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.command_line import CommandLine
    from bench.deployments import DerivationTimes
    from bench.impact import ImpactFigures
    from bench.inprocess import EngineComparison
    from bench.memory import Growth
    from bench.traffic import Load, Traffic

IMPACT_CORES: Final = 2
RESULTS: Final = Path(__file__).resolve().parent / "results.md"
PACKAGES: Final = ("durable-rules", "msgspec", "uvicorn", "uvloop", "httptools", "zen-engine")


@dataclass(frozen=True, slots=True)
class Requirement:
    """A figure and its required minimum or maximum."""

    name: str
    figure: float
    required: float
    at_most: bool = False
    form: str = ".2f"
    disturbed: bool = False

    @property
    def met(self) -> bool:
        """Whether the requirement is met."""
        return self.figure <= self.required if self.at_most else self.figure >= self.required

    @property
    def row(self) -> tuple[str, ...]:
        """The cells of the requirement's row."""
        sign = "≤" if self.at_most else "≥"
        return (
            self.name,
            format(self.figure, self.form),
            f"{sign} {format(self.required, self.form)}",
            ("pass" if self.met else "MISS") + (", disturbed" if self.disturbed else ""),
        )


@dataclass(frozen=True, slots=True)
class Results:
    """All results of one run."""

    load: Load
    traffic: Traffic
    compared: Sequence[EngineComparison]
    derived: DerivationTimes
    growth: Growth
    ready: float
    commands: CommandLine
    impacts: Sequence[ImpactFigures]
    skipped: Sequence[str]


def requirements(results: Results) -> list[Requirement]:
    """The requirements, each with its figure."""
    traffic = results.traffic
    different = traffic.results[DIFFERENT]
    found = [
        Requirement(
            "HTTP, all different: share of the constant answer",
            traffic.ratio(DIFFERENT, CONSTANT),
            0.40,
            disturbed=traffic.disturbed(DIFFERENT, CONSTANT),
        ),
        Requirement(
            "HTTP, repeated: share of the constant answer",
            traffic.ratio(REPEATED, CONSTANT),
            0.75,
            disturbed=traffic.disturbed(REPEATED, CONSTANT),
        ),
        Requirement(
            "an answer's processor time without a decision log: share of that with one",
            traffic.cost(DIFFERENT) / traffic.cost(LOGGED),
            0.90,
        ),
        Requirement(
            "HTTP, all different: p99 divided by p50",
            different.p99 / different.p50,
            4,
            at_most=True,
            disturbed=traffic.disturbed(DIFFERENT),
        ),
    ]
    if CERBOS in traffic.results:
        found.append(
            Requirement(
                "HTTP, all different: times as fast as Cerbos",
                traffic.ratio(DIFFERENT, CERBOS),
                4.5,
                disturbed=traffic.disturbed(DIFFERENT, CERBOS),
            )
        )
    found.extend(
        Requirement(f"fired rules of {each.release}: times as fast as zen-engine", each.ratio, 1.3)
        for each in results.compared
    )
    return [
        *found,
        Requirement("facts of a new deployment, µs", results.derived.new, 150, at_most=True, form=".0f"),
        Requirement("facts of a repeated deployment, µs", results.derived.seen, 40, at_most=True, form=".1f"),
        Requirement(
            "NDJSON stream, requests per second",
            traffic.results[BATCH].rate,
            20_000,
            form=",.0f",
            disturbed=traffic.disturbed(BATCH),
        ),
        Requirement(
            f"memory growth over {results.growth.decisions:,} decisions, MB", results.growth.megabytes, 5, at_most=True
        ),
        Requirement("start until ready, s", results.ready, 2, at_most=True),
        *_impact_requirements(results.impacts),
        *_command_requirements(results.commands),
    ]


def _impact_requirements(impacts: Sequence[ImpactFigures]) -> list[Requirement]:
    """The requirements of ``impact``, on two cores."""
    on_two = {each.fleet: each for each in impacts if each.cores == IMPACT_CORES}
    if not on_two:
        return []
    repeated, facts = on_two[FLEET], on_two[FACTS]
    return [
        Requirement(f"impact of {repeated.answers:,} answers on two cores, s", repeated.seconds, 30, at_most=True),
        Requirement("its memory, MB", repeated.peak / 1e6, 1_000, at_most=True, form=",.0f"),
        Requirement("impact of facts that all differ, on two cores: answers/s", facts.rate, 25_000, form=",.0f"),
    ]


def _command_requirements(commands: CommandLine) -> list[Requirement]:
    """The requirements of the command line."""
    checks = (
        ("`rules prove`, s", commands.prove, 15),
        ("`rules diff` of one edited rule, s", commands.diff, 3),
        ("dry run of one edited rule for all deployments, s", commands.dry_run, 2),
        ("`.ci/rules HEAD`, s", commands.checks, 60),
    )
    return [
        Requirement(
            "processor time of `--help`: multiple of a plain interpreter's",
            commands.help / commands.plain,
            3,
            at_most=True,
        ),
        Requirement(
            "processor time of `decide`: multiple of a plain interpreter's",
            commands.decide / commands.plain,
            5,
            at_most=True,
        ),
        *(
            Requirement(name, seconds, maximum, at_most=True, form=".1f")
            for name, seconds, maximum in checks
            if seconds is not None
        ),
    ]


def to_markdown(results: Results) -> str:
    """The report as Markdown, with tables that are also readable as plain text."""
    traffic = results.traffic
    parts = [
        "# Benchmark",
        "Written by `make bench`; not to be edited.",
        _table(("machine", ""), _machine()),
        "## Requirements",
        _table(("figure", "measured", "required", ""), [requirement.row for requirement in requirements(results)]),
        "## Over HTTP",
        _table(
            ("contender", "requests/s", "of constant", "p50 ms", "p99 ms", "server µs/request", "lowest core share"),
            _rate_rows(traffic),
        ),
        "## In process: from validated facts to the ordered list of fired rules",
        _table(
            ("release", "conditions", "documents", "fired", "ruleset µs", "zen-engine µs", "times as fast"),
            [_comparison_row(each) for each in results.compared],
        ),
        "## In process: from a deployment to its facts",
        _table(("deployments", "facts µs", "whole request µs", "share"), _derivation_rows(results.derived)),
        "## Command line",
        _table(("command", "processor ms", "of a plain interpreter"), _command_rows(results.commands)),
        "## Impact of a fleet on the releases 0.22.0 to 0.33.0",
        _table(
            ("fleet", "cores", "answers", "answers/s", "seconds", "peak MB"), [each.row for each in results.impacts]
        ),
        "## Method",
        "\n".join(f"- {note}" for note in _notes(results)),
    ]
    return "\n\n".join(parts) + "\n"


def _notes(results: Results) -> list[str]:
    """The method of each measurement."""
    corpus, traffic = results.traffic.corpus, results.traffic
    before, after = (size / 1e6 for size in traffic.resident)
    where = "another core" if cores.LOAD != cores.SERVER else "THE SAME core"
    notes = [
        f"Medians of {results.load.rounds} interleaved rounds; a ratio is the median of the rounds' own ratios.",
        (
            f"{corpus.count:,} documents of {corpus.size:,.0f} bytes on average, half for the default release, the "
            "others for three more."
        ),
        f"All differ, {corpus.kinds / corpus.count:.0%} of them in facts that their release reads.",
        f"{corpus.fired:.1f} conditions hold for one of them; a decision has {corpus.answer_size:,} bytes.",
        f"One worker on one core. 16 keep-alive connections from a generator on {where}.",
        (
            "Only the contenders called logged write a decision log. The log worker is on the generator's core and "
            "slows it, so processor time is compared there."
        ),
        f"The generator was busy {traffic.results[CONSTANT].busy:.0%} of the time at the constant answer.",
        (
            "The constant answer comes from a minimal ASGI application on the same server, event loop and HTTP parser; "
            "it is as long as a decision, and the request is not read."
        ),
        f"The service's resident memory was {before:.0f} MB before the rounds over HTTP and {after:.0f} MB after them.",
    ]
    if any(requirement.disturbed for requirement in requirements(results)):
        notes.append(
            "DISTURBED: a server had less than 85 % of its core in some round. Other programs ran, and the figures "
            "marked as disturbed are not valid; measure again."
        )
    if CERBOS in traffic.results:
        notes += [
            (
                f"{cerbos.PACKAGE} from npm has the conditions of the newest release as its policy, gets the same "
                "facts, and returns the conditions that hold."
            ),
            "It has neither audit log nor telemetry, and GOMAXPROCS=1.",
        ]
    for each in results.compared:
        notes += [
            (
                f"zen-engine at {each.release} evaluates {each.form}, the fastest of its forms, with a loader of "
                "compiled content and prepared facts."
            ),
            f"Its compiled expression alone, without a decision, takes {each.bare:.1f} µs.",
        ]
    derived = results.derived
    notes.append(
        f"{derived.count:,} deployments of {derived.size:,.0f} bytes, with 14 arguments on average; all differ in "
        "arguments and config.json. A whole request goes from JSON text to JSON text, without HTTP."
    )
    notes.append(
        f"Each command is started {results.commands.starts} times, in turn with an interpreter that imports json, "
        "argparse, asyncio, typing, dataclasses, re and pathlib; medians. The checks are timed once."
    )
    return notes + [f"{note}." for note in results.skipped]


def _rate_rows(traffic: Traffic) -> list[tuple[str, ...]]:
    return [
        (
            name,
            f"{each.rate:,.0f}",
            f"{traffic.ratio(name, CONSTANT):.2f}",
            f"{each.p50:.2f}" if each.p50 else "–",
            f"{each.p99:.2f}" if each.p99 else "–",
            f"{1e6 * each.cpu / each.count:.0f}",
            f"{min(one.share for one in traffic.rounds[name]):.0%}",
        )
        for name, each in traffic.results.items()
    ]


def _derivation_rows(figures: DerivationTimes) -> list[tuple[str, ...]]:
    rows = (("new", figures.new, figures.whole_new), ("repeated", figures.seen, figures.whole_seen))
    return [(name, f"{facts:.1f}", f"{whole:.1f}", f"{facts / whole:.0%}") for name, facts, whole in rows]


def _command_rows(commands: CommandLine) -> list[tuple[str, ...]]:
    rows = (("plain interpreter", commands.plain), ("--help", commands.help), ("decide FILE", commands.decide))
    return [(name, f"{1000 * seconds:.0f}", f"{seconds / commands.plain:.2f}") for name, seconds in rows]


def _comparison_row(each: EngineComparison) -> tuple[str, ...]:
    return (
        each.release,
        str(each.conditions),
        f"{each.documents:,}",
        f"{each.fired:.1f}",
        f"{each.ours:.1f}",
        f"{each.zen:.1f}",
        f"{each.ratio:.2f}",
    )


def _machine() -> list[tuple[str, ...]]:
    known = (line.partition(":") for line in Path("/proc/cpuinfo").read_text().splitlines())
    model = next((value.strip() for name, _, value in known if name.strip() == "model name"), platform.machine())
    return [
        ("processor", f"{model}, {cores.COUNT} cores"),
        ("Python", f"{platform.python_implementation()} {platform.python_version()}, {platform.system()}"),
        ("packages", ", ".join(f"{name} {_version(name)}" for name in PACKAGES)),
        ("date", datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")),
        ("commit", _commit()),
    ]


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def _commit() -> str:
    def git(*words: str) -> str:
        done = subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False)
        return done.stdout.strip() if done.returncode == 0 else ""

    changed = git(
        "status", "--porcelain", "--", "policy", "service", "rules", "bench", f":!{RESULTS.relative_to(ROOT)}"
    )
    return (git("rev-parse", "--short=12", "HEAD") or "none") + (", with changes" if changed else "")


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    """A Markdown table, aligned so that it is readable as plain text.

    The first column is text; the others are figures unless there are only two columns.
    """
    widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]

    def line(cells: tuple[str, ...]) -> str:
        aligned = [
            cell.ljust(width) if n == 0 or len(head) == 2 else cell.rjust(width)
            for n, (cell, width) in enumerate(zip(cells, widths, strict=True))
        ]
        return f"| {' | '.join(aligned)} |"

    return "\n".join(map(line, (head, tuple("-" * width for width in widths), *rows)))
