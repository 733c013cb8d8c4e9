"""Compare recorded starts on real hardware with this project: ``python -m bench.unseen.starts FOLDER``.

FOLDER has files ``VERSION-engine.jsonl.gz``. A line of them is ``{"id", "request", "real"}``: ``request`` is that of
``POST /v1/decisions``, ``real`` has ``runner``, the class that the worker made, and ``starts``, unless the start failed
for a reason that has nothing to do with the runner. Owns what is compared: the runner, where the worker made one or the
configuration was read, and ``starts``, where it was recorded, both by the upstream layer alone. A failure is *named*
where the decision says ``starts: true`` with a known problem of its runner that is in vLLM's code and ends the engine.
"""

from __future__ import annotations

import argparse
import gzip
import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from bench.unseen.__main__ import TODAY
from policy.errors import PolicyError
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.known_problems import Certainty, Symptom
from policy.rules.loader import default_folder, read_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.decision import Decision

SUFFIX: Final = "-engine.jsonl.gz"
COMPARED_FIELDS: Final = ("runner", "starts")
ENDS: Final = (Symptom.NO_START, Symptom.CRASH)
HEADER: Final = (
    "| release | recorded | same runner | same `starts` | same `starts`, or named | too hopeful | too pessimistic "
    "| named, but started |\n" + "|---" * 8 + "|"
)


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file of recorded starts."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def compare(line: dict[str, Any], policy: Policy) -> tuple[Counter[str], list[str]]:
    """The counts of one recorded start, and the differences in words."""
    real, count, differences = line["real"], Counter(started=1), []
    try:
        decision = policy.decide(read_request({**line["request"], "layers": ["upstream"]}, policy.releases), TODAY)
    except PolicyError as error:
        return count, [f"{line['id']}: not decided here: {error}"]
    for name in COMPARED_FIELDS:
        if name not in real:
            continue
        ours = getattr(decision, name)
        count[f"{name} compared"] += 1
        count[f"{name} equal"] += ours == real[name]
        if ours != real[name]:
            differences.append(f"{line['id']}: {name} {ours}, really {real[name]}: {real.get('refused', '')[:160]}")
    if "starts" in real:
        named = names_the_end(decision)
        count["same or named"] += decision.starts == real["starts"] or (named and not real["starts"])
        count["named, but started"] += named and real["starts"]
        if decision.starts != real["starts"]:
            count["too hopeful" if decision.starts else "too pessimistic"] += 1
    return count, differences


def names_the_end(decision: Decision) -> bool:
    """Whether a decision to start names a known problem that is in vLLM's code and ends the engine."""
    return decision.starts and any(
        problem.certainty == Certainty.CODE and problem.symptom in ENDS for problem in decision.known_problems
    )


def row(name: str, count: Counter[str]) -> str:
    """The counts as a row of the table."""
    equal = (f"{count[f'{member} equal']} of {count[f'{member} compared']}" for member in COMPARED_FIELDS)
    either = f"{count['same or named']} of {count['starts compared']}"
    wrong = (count[each] for each in ("too hopeful", "too pessimistic", "named, but started"))
    cells = (name, count["started"], *equal, either, *wrong)
    return f"| {' | '.join(map(str, cells))} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.unseen.starts", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument("folder", type=Path, help=f"a folder with files VERSION{SUFFIX}")
    folder = parser.parse_args().folder
    files = sorted(folder.glob(f"*{SUFFIX}"))
    if not files:
        raise SystemExit(f"{folder}: expected files such as 0.23.0{SUFFIX}, found none")
    policy = Policy(load(read_folder(default_folder())))
    total, differences = Counter[str](), list[str]()
    print(HEADER)
    for path in files:
        count = Counter[str]()
        for line in recorded(path):
            counted, found = compare(line, policy)
            count.update(counted)
            differences += found
        print(row(path.name.removesuffix(SUFFIX), count), flush=True)
        total.update(count)
    print(row("all", total), "", *(f"- {line}" for line in differences), sep="\n")


if __name__ == "__main__":
    main()
