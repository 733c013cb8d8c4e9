"""Compare a release of vLLM with the catalogue's upstream layer.

The result is the differences, each with the fewest facts that cause it and the rules involved.

Owns the comparison and the minimization of differences. The release's code runs in a separate process.
"""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from policy.errors import PolicyError
from policy.facts.facts import nested
from policy.facts.vocabulary import VOCABULARY
from policy.policy import Policy
from policy.request.request import read_request
from policy.rules.conditions import leaves
from policy.rules.effects import Layer, Outcome, Stage
from policy.rules.releases import series
from policy.rules.rule import LONG_AGO
from policy.vllm.verify.drawing import cases, overlay, targeted_facts, values_of, with_objects
from policy.vllm.verify.evidence import unproved, with_evidence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from policy.decision.decision import Decision
    from policy.rules.release_rule import ReleaseRule
    from policy.vllm.verify.drawing import Facts

COMMAND: Final = (sys.executable, "-m", "policy.vllm.verify.worker")
EXIT_TIMEOUT: Final = 10
"""Seconds that the process gets to exit before it is killed."""
MAX_SHOWN: Final = 10
PROGRESS_INTERVAL: Final = 500
COMPARED_FIELDS: Final = ("runner", "startup_errors", "unsupported_features", "v1_unsupported_features")


class NotExtracted(PolicyError):
    """The decision could not be extracted from a source, or its code failed."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """Facts for which a release and the rules disagree.

    ``facts`` are as few as possible, and ``rules`` are those that may be wrong.
    """

    facts: dict[str, Any]
    vllm: dict[str, Any]
    rules_say: dict[str, Any]
    rules: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class VerificationResult:
    """The result of verifying a release.

    ``elsewhere`` has rules whose refusals are in other files of vLLM, ``beyond`` code that reads something that is not
    a fact. ``evidence`` has the rules whose evidence was looked up in the source, because they are about the release;
    ``unproved`` says of every rule whose evidence contradicts its ranges what does not hold.
    """

    release: str
    cases: int
    different: int
    mismatches: tuple[Mismatch, ...]
    elsewhere: tuple[str, ...]
    beyond: tuple[str, ...]
    evidence: tuple[str, ...] = ()
    unproved: tuple[str, ...] = ()


class ReleaseProcess:
    """The process that runs a release's decision, and what it found in the source."""

    def __init__(self, process: subprocess.Popen[str], source: Path) -> None:
        self._process, self._source = process, source
        assert process.stdout is not None
        first = process.stdout.readline()
        self.found: dict[str, Any] = json.loads(first) if first else {"fault": "its process ended"}
        if "fault" in self.found:
            raise NotExtracted(f"the decision was not found in {source}: {self.found['fault']}")

    def answer(self, facts: Facts) -> dict[str, Any]:
        """The release's answer for facts, by flat names.

        Raises:
            NotExtracted: the release's code failed on them.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(with_objects(facts)) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        answer: dict[str, Any] = json.loads(line) if line else {"fault": "its process ended"}
        if "fault" in answer:
            raise NotExtracted(
                f"the code of {self._source} failed on {json.dumps(nested(with_objects(facts)))}: {answer['fault']}"
            )
        return answer


@contextmanager
def release_process(source: Path) -> Iterator[ReleaseProcess]:
    """The decision of a source (a wheel, an archive, a folder) in a process that ends with the block.

    Raises:
        NotExtracted: the decision was not found in the source.
    """
    process = subprocess.Popen(  # noqa: S603  # our own module, by our own interpreter
        [*COMMAND, str(source)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    try:
        yield ReleaseProcess(process, source)
    finally:
        _end(process)


def _end(process: subprocess.Popen[str]) -> None:
    """End the process by closing its input; kill it if it does not exit in time."""
    with suppress(BrokenPipeError, subprocess.TimeoutExpired):
        process.communicate(timeout=EXIT_TIMEOUT)
        return
    process.kill()
    process.wait()


def verify(
    policy: Policy, release: str, source: Path, count: int, seed: int, progress: Callable[[int], None] = lambda _: None
) -> VerificationResult:
    """Decide ``count`` sets of facts by a known release's source and by the catalogue's upstream layer.

    ``progress`` is called with the number of sets done.

    Raises:
        NotExtracted: the decision was not found in the source.
        InvalidSource, OSError: the source cannot be read.
    """
    with release_process(source) as vllm:
        found = _ReleaseComparison(policy, release, vllm).compare(count, seed, progress)
    rules = policy.catalogue.rules
    return replace(found, evidence=with_evidence(rules, release), unproved=unproved(rules, release, source))


def _of_core(policy: Policy) -> Policy:
    """The policy without the rules of platforms and programs with runners of their own, which are not in the source."""
    rules_by_release = {
        release: tuple(item for item in rules if item.rule.effect.outcome is not Outcome.NOT_APPLICABLE)
        for release, rules in policy.catalogue.rules_by_release.items()
    }
    return Policy(replace(policy.catalogue, rules_by_release=rules_by_release), before=policy, compile_all=False)


class _ReleaseComparison:
    """Compares the decisions of a release with those of the rules."""

    def __init__(self, policy: Policy, release: str, vllm: ReleaseProcess) -> None:
        self._policy, self._release, self._vllm = _of_core(policy), release, vllm
        self._rules = [item for item in self._policy.catalogue.rules_of(release) if item.rule.layer is Layer.UPSTREAM]
        self._elsewhere = [item for item in self._rules if item.rule.effect.refuses and not self._is_in_source(item)]
        self._beyond: set[str] = set()

    def _is_in_source(self, item: ReleaseRule) -> bool:
        """Whether a refusal's text is in the extracted code, which has no worker's refusals."""
        if item.rule.stage is Stage.WORKER:
            return False
        parts = [text for text, _ in item.range.template.parts if text.strip()]
        return all(any(part.strip() in text for text in self._vllm.found["messages"]) for part in parts)

    def compare(self, count: int, seed: int, progress: Callable[[int], None]) -> VerificationResult:
        found = self._vllm.found
        items = [item for rules in self._policy.catalogue.rules_by_release.values() for item in rules]
        release = series(self._release)
        gone = {fact.name for fact in VOCABULARY if not fact.is_in(release)}
        conditions = list(
            dict.fromkeys(
                condition
                for item in items
                for condition in (item.when, item.cleared)
                if condition is not None and gone.isdisjoint(leaf.fact for leaf in leaves(condition))
            )
        )
        all_leaves = [leaf for condition in conditions for leaf in leaves(condition)]
        code = "\n".join(found["code"].values())
        values = values_of(all_leaves, found["texts"], found["numbers"], code)
        different = 0
        mismatches: dict[Any, Mismatch] = {}
        targets = targeted_facts(conditions, values)
        for number, facts in enumerate(cases(values, targets, self._bases(), count, seed)):
            if number % PROGRESS_INTERVAL == 0:
                progress(number)
            mismatch = self._mismatch(facts)
            if mismatch is not None:
                different += 1
                key = (
                    mismatch.rules,
                    *(mismatch.vllm.get(name) == mismatch.rules_say.get(name) for name in COMPARED_FIELDS),
                )
                if key not in mismatches and len(mismatches) < MAX_SHOWN:
                    mismatches[key] = self._minimize(facts, mismatch)
        progress(count)
        distinct = {json.dumps(each.facts, sort_keys=True): each for each in mismatches.values()}
        elsewhere = tuple(item.rule.id for item in self._elsewhere)
        return VerificationResult(
            self._release, count, different, tuple(distinct.values()), elsewhere, tuple(sorted(self._beyond))
        )

    def _bases(self) -> list[Facts]:
        """The bases for other facts: no model, a model that may get V2 by default, the variable set."""
        listed = sorted(
            text
            for item in self._rules
            if item.rule.effect.name == "not-default"
            for leaf in (leaves(item.when) if item.when else ())
            if leaf.fact.endswith("architectures")
            for text in leaf.operand
        )
        model = {"model_config": True, **({"model_config.architectures": [listed[0]]} if listed else {})}
        return [model, model | {"env.VLLM_USE_V2_MODEL_RUNNER": "1"}, model | {"env.VLLM_USE_V2_MODEL_RUNNER": "0"}, {}]

    def _mismatch(self, facts: Facts) -> Mismatch | None:
        vllm = self._vllm.answer(facts)
        self._beyond.update(vllm.pop("beyond", ()))
        decision = self._decision(facts)
        compared = self._compared_fields(decision)
        known: dict[str, Any] = {name: vllm[name] for name in COMPARED_FIELDS if name in vllm}
        if all(_sorted_errors(name, compared[name]) == _sorted_errors(name, value) for name, value in known.items()):
            return None
        return Mismatch(
            nested(with_objects(facts)), known, {name: compared[name] for name in known}, _suspects(decision, known)
        )

    def _decision(self, facts: Facts) -> Decision:
        request = {
            "vllm_version": self._release,
            "layers": [Layer.UPSTREAM.value],
            "facts": nested(with_objects(facts)),
        }
        return self._policy.decide(read_request(request, self._policy.releases), LONG_AGO)

    def _compared_fields(self, decision: Decision) -> dict[str, Any]:
        """The compared fields of the decision, without refusals that other files of vLLM make."""
        elsewhere = {item.rule.id for item in self._elsewhere}
        texts = [reason.message for reason in decision.reasons if reason.rule in elsewhere]
        errors = [text for text in decision.startup_errors if text not in texts]
        return {name: errors if name == "startup_errors" else getattr(decision, name) for name in COMPARED_FIELDS}

    def _minimize(self, facts: Facts, mismatch: Mismatch) -> Mismatch:
        """The same mismatch with as few facts as possible."""
        is_smaller = True
        while is_smaller:
            is_smaller = False
            for name in sorted(facts, key=lambda name: -name.count(".")):
                fewer = overlay({other: value for other, value in facts.items() if other != name}, {})
                smaller = self._mismatch(fewer)
                if smaller is not None:
                    facts, mismatch, is_smaller = fewer, smaller, True
                    break
        return mismatch


def _sorted_errors(name: str, value: Any) -> Any:
    """The value for comparison; refusals in any order, since vLLM stops at the first."""
    return sorted(value) if name == "startup_errors" else value


def _suspects(decision: Decision, vllm: dict[str, Any]) -> tuple[str, ...]:
    """The rules that decided, if the runner differs, and those whose text vLLM does not give."""
    texts = {*vllm.get("unsupported_features", ()), *vllm.get("v1_unsupported_features", ()), *vllm["startup_errors"]}
    decided = [reason.rule for reason in decision.reasons if reason.decisive and decision.runner != vllm["runner"]]
    listed = [
        reason.rule
        for reason in decision.reasons
        if (reason.feature is not None and reason.feature not in texts)
        or (reason.effect.startswith(("refuse", "invalid", "reject")) and reason.message not in texts)
    ]
    return tuple(dict.fromkeys(decided + listed))
