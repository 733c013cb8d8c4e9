"""The results, as a table for a terminal and as ``bench/results.md``.

Owns the bars: what each figure has to be. A missed one is marked here; the exit code is the caller's.
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
from bench.servers import ROOT
from bench.traffic import BATCH, CERBOS, CONSTANT, DIFFERENT, LOGGED, REPEATED

if TYPE_CHECKING:
    from collections.abc import Sequence

    from bench.command_line import CommandLine
    from bench.deployments import Derived
    from bench.inprocess import Compared
    from bench.memory import Growth
    from bench.traffic import Load, Traffic

RESULTS: Final = Path(__file__).resolve().parent / "results.md"
PACKAGES: Final = ("durable-rules", "msgspec", "uvicorn", "uvloop", "httptools", "zen-engine")


@dataclass(frozen=True, slots=True)
class Bar:
    """A figure and its required minimum or maximum."""

    what: str
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
        """The cells of the bar's row."""
        sign = "≤" if self.at_most else "≥"
        return (
            self.what,
            format(self.figure, self.form),
            f"{sign} {format(self.required, self.form)}",
            ("pass" if self.met else "MISS") + (", disturbed" if self.disturbed else ""),
        )


@dataclass(frozen=True, slots=True)
class Results:
    """All results of one run."""

    load: Load
    traffic: Traffic
    compared: Sequence[Compared]
    derived: Derived
    growth: Growth
    ready: float
    commands: CommandLine
    skipped: Sequence[str]


def bars(results: Results) -> list[Bar]:
    """The requirements, each with its figure."""
    traffic = results.traffic
    different = traffic.results[DIFFERENT]
    found = [
        Bar(
            "HTTP, all different, of the constant answer",
            traffic.ratio(DIFFERENT, CONSTANT),
            0.40,
            disturbed=traffic.disturbed(DIFFERENT, CONSTANT),
        ),
        Bar(
            "HTTP, repeated, of the constant answer",
            traffic.ratio(REPEATED, CONSTANT),
            0.75,
            disturbed=traffic.disturbed(REPEATED, CONSTANT),
        ),
        Bar(
            "an answer's processor time without a decision log, of that with",
            traffic.cost(DIFFERENT) / traffic.cost(LOGGED),
            0.90,
        ),
        Bar(
            "HTTP, all different, p99 of p50",
            different.p99 / different.p50,
            4,
            at_most=True,
            disturbed=traffic.disturbed(DIFFERENT),
        ),
    ]
    if CERBOS in traffic.results:
        found.append(
            Bar(
                "HTTP, all different, times Cerbos",
                traffic.ratio(DIFFERENT, CERBOS),
                4.5,
                disturbed=traffic.disturbed(DIFFERENT, CERBOS),
            )
        )
    found.extend(Bar(f"fired rules of {each.release}, times zen-engine", each.ratio, 1.3) for each in results.compared)
    return [
        *found,
        Bar("facts of a new deployment, µs", results.derived.new, 150, at_most=True, form=".0f"),
        Bar("facts of a deployment that was seen, µs", results.derived.seen, 40, at_most=True, form=".1f"),
        Bar(
            "NDJSON stream, requests a second",
            traffic.results[BATCH].rate,
            20_000,
            form=",.0f",
            disturbed=traffic.disturbed(BATCH),
        ),
        Bar(f"memory after {results.growth.decisions:,} decisions more, MB", results.growth.megabytes, 5, at_most=True),
        Bar("ready after, s", results.ready, 2, at_most=True),
        *_command_bars(results.commands),
    ]


def _command_bars(commands: CommandLine) -> list[Bar]:
    """The requirements of the command line."""
    waited = (
        ("`rules prove`, s", commands.prove, 15),
        ("`rules diff` of one edited rule, s", commands.diff, 3),
        ("dry run of one edited rule for all deployments, s", commands.dry_run, 2),
        ("`.ci/rules HEAD`, s", commands.checks, 60),
    )
    return [
        Bar("processor time of `--help`, of a plain interpreter's", commands.help / commands.plain, 3, at_most=True),
        Bar("processor time of `decide`, of a plain interpreter's", commands.decide / commands.plain, 5, at_most=True),
        *(Bar(what, seconds, most, at_most=True, form=".1f") for what, seconds, most in waited if seconds is not None),
    ]


def to_markdown(results: Results) -> str:
    """The report as Markdown, its tables aligned to be read as they are."""
    traffic = results.traffic
    parts = [
        "# Benchmark",
        "Written by `make bench`; not to be edited.",
        _table(("machine", ""), _machine()),
        "## What is required",
        _table(("figure", "measured", "required", ""), [bar.row for bar in bars(results)]),
        "## Over HTTP",
        _table(
            ("contender", "requests/s", "of constant", "p50 ms", "p99 ms", "server µs/request", "least share of core"),
            _rates(traffic),
        ),
        "## In process: from validated facts to the ordered list of fired rules",
        _table(
            ("release", "conditions", "documents", "fired", "ruleset µs", "zen-engine µs", "times as fast"),
            [_compared(each) for each in results.compared],
        ),
        "## In process: from a deployment as it is written to its facts",
        _table(("deployments", "facts µs", "whole request µs", "share"), _derived(results.derived)),
        "## Command line",
        _table(("command", "processor ms", "of a plain interpreter"), _commands(results.commands)),
        "## How",
        "\n".join(f"- {note}" for note in _notes(results)),
    ]
    return "\n\n".join(parts) + "\n"


def _notes(results: Results) -> list[str]:
    """The method of each measurement, in a sentence or two."""
    corpus, traffic = results.traffic.corpus, results.traffic
    before, after = (size / 1e6 for size in traffic.resident)
    where = "another core" if cores.LOAD != cores.SERVER else "THE SAME core"
    notes = [
        f"Medians of {results.load.rounds} interleaved rounds; a ratio is the median of the rounds' own ratios.",
        (
            f"{corpus.count:,} documents of {corpus.size:,.0f} bytes on average, half for the default release, the "
            "others for three more."
        ),
        f"All differ, and {corpus.kinds / corpus.count:.0%} of them in what their release reads.",
        f"{corpus.fired:.1f} conditions hold for one of them; a decision has {corpus.answer_size:,} bytes.",
        f"One worker on one core. 16 keep-alive connections from a generator on {where}.",
        (
            "Only what is called logged keeps a decision log. The process that writes it is on the generator's core "
            "and slows it, so processor time counts there."
        ),
        f"The generator was busy {traffic.results[CONSTANT].busy:.0%} of the time at the constant answer.",
        (
            "The constant answer comes from a bare ASGI application under the same server and protocol parts; it is as "
            "long as a decision, and reads nothing."
        ),
        f"The service's resident memory was {before:.0f} MB before the rounds over HTTP and {after:.0f} MB after them.",
    ]
    if any(bar.disturbed for bar in bars(results)):
        notes.append(
            "DISTURBED: a server had less than 85 % of its core in some round. Other programs ran, and the figures so "
            "marked prove nothing; measure again."
        )
    if CERBOS in traffic.results:
        notes += [
            (
                f"{cerbos.PACKAGE} from npm has the conditions of the newest release as its policy, is asked with the "
                "same facts, and says which conditions hold."
            ),
            "It has neither audit log nor telemetry, and GOMAXPROCS=1.",
        ]
    for each in results.compared:
        notes += [
            (
                f"zen-engine at {each.release} decides by {each.form}, the fastest of its forms: a loader with "
                "compiled content, and facts made beforehand."
            ),
            f"Its compiled expression by itself, without a decision around it, takes {each.bare:.1f} µs.",
        ]
    derived = results.derived
    notes.append(
        f"{derived.count:,} deployments of {derived.size:,.0f} bytes, with 14 arguments on average; all differ in "
        "arguments and config.json. A whole request goes from JSON text to JSON text, without HTTP."
    )
    notes.append(
        f"Each command is started {results.commands.starts} times, in turn with an interpreter that imports json, "
        "argparse, asyncio, typing, dataclasses, re and pathlib; medians. The checks are timed once, by the clock."
    )
    return notes + [f"{word}." for word in results.skipped]


def _rates(traffic: Traffic) -> list[tuple[str, ...]]:
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


def _derived(figures: Derived) -> list[tuple[str, ...]]:
    rows = (("new", figures.new, figures.whole_new), ("seen before", figures.seen, figures.whole_seen))
    return [(name, f"{facts:.1f}", f"{whole:.1f}", f"{facts / whole:.0%}") for name, facts, whole in rows]


def _commands(commands: CommandLine) -> list[tuple[str, ...]]:
    rows = (("plain interpreter", commands.plain), ("--help", commands.help), ("decide FILE", commands.decide))
    return [(name, f"{1000 * seconds:.0f}", f"{seconds / commands.plain:.2f}") for name, seconds in rows]


def _compared(each: Compared) -> tuple[str, ...]:
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
    """A Markdown table, aligned to be readable as plain text.

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
