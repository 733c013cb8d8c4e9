"""Check the impact of recorded deployments and what helps them: ``python -m bench.unseen.remedies FOLDER``.

FOLDER has files ``VERSION.jsonl.gz``. A line is ``{"id", "request", "expected"}``: what that release did, by the
upstream layer alone. Owns three checks. The answer of an impact for that release is what it did, but for refusals of
workers, which recordings of configurations do not have. Each remedy, made in the text of the request as a user would
make it and decided again, does what it promises. With ``--smallest N`` no smaller set of changes would have helped the
first N remedies of each file: all sets are tried.
"""

from __future__ import annotations

import argparse
import gzip
import json
import math
from collections import Counter
from copy import deepcopy
from itertools import combinations, islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from msgspec import UNSET

from bench.unseen.__main__ import TODAY
from policy.errors import PolicyError
from policy.facts.facts import defaults
from policy.impact.answers import ReleaseAnswer
from policy.impact.impact import Impact
from policy.impact.targets import target_of
from policy.intake.command.flags import flags
from policy.policy import Policy
from policy.remedies.changes import candidates, unknown_flags, with_changes
from policy.request.request import read_request
from policy.rules.catalogue import load
from policy.rules.effects import Stage
from policy.rules.loader import default_folder, read_folder
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.decision.decision import Decision
    from policy.decision.remedies import Change, Remedy
    from policy.request.request import Request

HEADER: Final = (
    "| file | deployments | same impact | same but for workers | remedies | true | not made in the text | smallest |"
)


class Checker:
    """Checks recorded deployments, and notes in words what does not hold."""

    def __init__(self, policy: Policy) -> None:
        self.policy = policy
        self.faults: list[str] = []
        worker = [rule for rule in policy.catalogue.rules if rule.stage is Stage.WORKER]
        self._late = {part.template.text for rule in worker for part in rule.ranges}

    def check(self, line: dict[str, Any], smallest: int) -> Counter[str]:
        """The counts of one recorded deployment; at most ``smallest`` remedies are checked by trying all sets."""
        count = Counter(deployments=1)
        document = {**line["request"], "layers": ["upstream"], "explain": True}
        request = read_request(document, self.policy.releases)
        self._check_impact(line, request, count)
        try:
            decision = self.policy.decide(request, TODAY)
        except PolicyError:
            return count
        for remedy in decision.remedies or []:
            count["remedies"] += 1
            self._check_remedy(line["id"], document, decision, remedy, count)
            if count["tried"] < smallest and not _is_upgrade(remedy):
                count["tried"] += 1
                self._check_smallest(line["id"], request, decision, remedy, count)
        return count

    def _check_impact(self, line: dict[str, Any], request: Request, count: Counter[str]) -> None:
        target = target_of(request.release.decided_as, self.policy.releases)
        answer = Impact(self.policy, [target], TODAY).answer(request, target)
        expected = line["expected"]
        found = {} if not isinstance(answer, ReleaseAnswer) else {name: getattr(answer, name) for name in expected}
        if found == expected:
            count["same"] += 1
            return
        errors = [text for text in found.get("startup_errors", []) if text not in self._late]
        without = {**found, "startup_errors": errors, "starts": not errors}
        if isinstance(answer, ReleaseAnswer) and {name: without[name] for name in expected} == expected:
            count["same but for workers"] += 1
            return
        self.faults.append(f"{line['id']}: the impact is {found}, and the release did {expected}")

    def _check_remedy(
        self, name: str, document: dict[str, Any], decision: Decision, remedy: Remedy, count: Counter[str]
    ) -> None:
        changed = deepcopy(document) | {"explain": False}
        if not all(_make(changed, change, decision.release.decided_as) for change in remedy.change):
            count["not in text"] += 1
            return
        try:
            after = self.policy.decide(read_request(changed, self.policy.releases), TODAY)
        except PolicyError as error:
            self.faults.append(f"{name}: {remedy}: {error}")
            return
        if (after.runner, after.starts) == (remedy.runner, remedy.starts) and _helps(after, decision, remedy.purpose):
            count["true"] += 1
        else:
            self.faults.append(f"{name}: {remedy}: {after.runner}, starts: {after.starts}")

    def _check_smallest(
        self, name: str, request: Request, decision: Decision, remedy: Remedy, count: Counter[str]
    ) -> None:
        intake = None if request.deployment is None else self.policy.intake(request)
        needed = [] if intake is None else unknown_flags(intake)
        tried = [*candidates(request, intake, defaults(series(request.release.decided_as))), *needed]
        for size in range(1, len(remedy.change)):
            for changes in combinations(tried, size):
                try:
                    after = self.policy.decide(with_changes(request, changes), TODAY)
                except PolicyError:
                    continue
                if _helps(after, decision, remedy.purpose):
                    self.faults.append(f"{name}: {remedy}: {[each.change for each in changes]} is enough")
                    return
        count["smallest"] += 1


def _is_upgrade(remedy: Remedy) -> bool:
    return any(change.field is not UNSET for change in remedy.change)


def _helps(after: Decision, before: Decision, purpose: str) -> bool:
    """Whether a decision does what a remedy is for."""
    problems = {each.rule for each in after.known_problems}
    match purpose:
        case "start":
            return after.starts
        case "v2":
            return after.starts and after.runner == "v2"
        case _:
            return after.starts and purpose not in problems and len(problems) < len(before.known_problems)


def _make(document: dict[str, Any], change: Change, release: str) -> bool:
    """Make a change in the text of a request; false if it is not known where."""
    if change.field is not UNSET:
        document["vllm_version"] = change.to
    elif change.fact is not UNSET:
        _state(document["facts"], str(change.fact), change.to)
    elif change.variable is not UNSET:
        env = document["deployment"].setdefault("env", {})
        env.pop(str(change.variable), None)
        if change.to is not None:
            env[str(change.variable)] = change.to
    else:
        args = document["deployment"].get("args")
        return isinstance(args, list) and _edit(args, str(change.argument), change.to, release)
    return True


def _state(facts: dict[str, Any], name: str, value: Any) -> None:
    """State a fact; an object that is dropped goes with all that it has."""
    for flat in [each for each in facts if each == name or each.startswith(f"{name}.")]:
        del facts[flat]
    *path, last = name.split(".")
    for step in path:
        if value is None and not isinstance(facts.get(step), dict):
            return
        facts = facts.setdefault(step, {})
    facts.pop(last, None)
    if value is not None:
        facts[last] = value


def _edit(args: list[str], argument: str, value: Any, release: str) -> bool:
    """Drop a flag with its values, or a member of its JSON, or set it: the last one counts."""
    name, _, member = argument.removeprefix("--").partition(".")
    if value is not None:
        word = f"--{name}" if value is True else f"--no-{name}" if value is False else f"--{name}={value}"
        args.append(word)
        return True
    table, found, at = flags(release), False, 0
    while at < len(args):
        flag, attached, _ = table.find(args[at]) if args[at].startswith("-") else (None, None, [])
        is_named = flag is not None and flag.dest == name.replace("-", "_")
        is_dotted = args[at].startswith(f"--{name}.")
        if flag is None and args[at].partition("=")[0].replace("_", "-") == f"--{name}":
            is_named, attached = True, attached or ("" if "=" in args[at] else None)
        if not (is_named or is_dotted):
            at += 1
            continue
        has_value = not is_dotted and (attached is not None or (flag is not None and flag.constant is not None))
        count = 1
        most = math.inf if flag is not None and flag.nargs == "+" else 1
        while not (has_value or "=" in args[at]) and at + count < len(args) and count <= most:
            if not table.is_value(args[at + count]):
                break
            count += 1
        if not member:
            del args[at : at + count]
            found = True
            continue
        if is_dotted and args[at].partition("=")[0] == f"--{name}.{member}":
            del args[at : at + count]
            found = True
            continue
        if is_named and (text := attached if attached is not None else args[at + 1]).startswith("{"):
            left = json.loads(text)
            found = left.pop(member, UNSET) is not UNSET or found
            args[at : at + count] = [f"--{name}", json.dumps(left)]
            count = 2
        at += count
    return found


def recorded(path: Path) -> Iterator[dict[str, Any]]:
    """The lines of a file."""
    with gzip.open(path, "rt") as lines:
        yield from map(json.loads, lines)


def row(name: str, count: Counter[str]) -> str:
    """The counts as a row of the table."""
    numbers = ("deployments", "same", "same but for workers", "remedies", "true", "not in text")
    smallest = f"{count['smallest']} of {count['tried']}"
    return f"| {' | '.join([name, *(str(count[each]) for each in numbers), smallest])} |"


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m bench.unseen.remedies", description=(__doc__ or "").partition("\n")[2]
    )
    parser.add_argument("folder", type=Path, help="a folder with files VERSION.jsonl.gz")
    parser.add_argument(
        "--smallest", type=int, default=0, metavar="N", help="try all smaller sets for N remedies a file"
    )
    parser.add_argument("--limit", type=int, metavar="N", help="check the first N deployments of each file")
    options = parser.parse_args()
    checker, total = Checker(Policy(load(read_folder(default_folder())))), Counter[str]()
    print(HEADER, "|---" * HEADER.count(" | ") + "|---|", sep="\n")
    for path in sorted(options.folder.glob("*.jsonl.gz")):
        count = Counter[str]()
        for line in islice(recorded(path), options.limit):
            count.update(checker.check(line, max(options.smallest - count["tried"], 0)))
        print(row(path.name.removesuffix(".jsonl.gz"), count), flush=True)
        total.update(count)
    print(row("all", total), "", f"{len(checker.faults)} faults", *(f"- {each}" for each in checker.faults), sep="\n")


if __name__ == "__main__":
    main()
