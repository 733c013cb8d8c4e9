"""`runner-policy verify VERSION --requests`: compare the rules about requests with the release's own code.

Owns the comparison: requests are drawn, read by the release's ``SamplingParams`` and checked by its
``InputProcessor`` and by the tables of its V2 worker, with each runner, and each verdict is compared. The process is
``python -m policy.vllm.verify.requests VERSION SOURCE``; SOURCE is a wheel, or the folder that contains ``vllm/``.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from datetime import date
from pathlib import Path
from typing import TYPE_CHECKING, Any

from policy.policy import Policy
from policy.request.request import Request
from policy.rules.catalogue import load
from policy.rules.loader import default_folder, read_folder
from policy.rules.request_rule import Verdict
from policy.sampling.check import RequestChecker, read_check_request
from policy.vllm.verify.request_drawing import MODEL, draw
from policy.vllm.verify.request_validation import RequestValidation
from policy.vllm.verify.worker import open_source

if TYPE_CHECKING:
    from collections.abc import Iterator

    from policy.sampling.check import RequestCheck
    from policy.vllm.verify.request_drawing import DrawnRequest

SAMPLES = 2000
SEED = 1
TODAY = date(2026, 1, 1)
"""No rule about requests depends on the day."""


def differences(
    version: str, source: Path, samples: int, seed: int, rules: Path | None = None
) -> Iterator[dict[str, Any] | None]:
    """For each drawn request and runner the difference between the rules and the release, ``None`` if there is none."""
    policy = Policy(load(read_folder(rules or default_folder())), None, compile_all=False)
    checker = RequestChecker(policy)
    release = RequestValidation(open_source(source))
    randomness = random.Random(seed)  # noqa: S311  # a sample, not a secret
    for _ in range(samples):
        drawn = draw(randomness)
        for runner in ("v1", "v2"):
            yield _difference(drawn, runner, _answer(checker, version, drawn, runner), release)


def _answer(checker: RequestChecker, version: str, drawn: DrawnRequest, runner: str) -> RequestCheck:
    facts = {**drawn.facts, "env": {"VLLM_USE_V2_MODEL_RUNNER": "1" if runner == "v2" else "0"}}
    document = {"vllm_version": version, "facts": facts, "request": drawn.sampling}
    request = read_check_request(document, checker.policy.releases)
    assert isinstance(request.deployment, Request)  # INVARIANT: the document states facts
    return checker.check(request.deployment, request.document, request.pointer, TODAY, drawn.limits)


def _difference(
    drawn: DrawnRequest, runner: str, answer: RequestCheck, release: RequestValidation
) -> dict[str, Any] | None:
    """The difference in the verdict; a text counts if it is that of any finding."""
    parts = [answer] if answer.runner == runner else [answer.alternative]
    ours = next(part for part in parts if part is not None and part.runner == runner)
    verdict, text = release.verdict(drawn, runner)
    findings = [finding for finding in ours.findings if finding.verdict is not Verdict.IGNORED]
    found = findings[0].verdict if findings else Verdict.FINE
    if verdict == found or (verdict == Verdict.REFUSED and any(each.verdict == verdict for each in findings)):
        # What is refused never comes to the worker, where it would end the engine.
        texts = [finding.message for finding in findings if finding.verdict == verdict]
        if verdict == Verdict.FINE or any(each in text for each in texts):
            return None
    return {
        "runner": runner,
        "sampling": drawn.sampling,
        "facts": drawn.facts,
        "limits": str(drawn.limits),
        "vllm": [verdict, text],
        "rules": [[finding.rule, finding.message] for finding in findings],
        "model": MODEL,
    }


def main() -> None:
    """Print the differences as JSON lines and their number; exits with 1 if there are any."""
    parser = argparse.ArgumentParser(description="Compare the rules about requests with a release's own code.")
    parser.add_argument("version")
    parser.add_argument("source", type=Path)
    parser.add_argument("--samples", type=int, default=SAMPLES)
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--rules", type=Path, default=None)
    options = parser.parse_args()
    found = list(differences(options.version, options.source, options.samples, options.seed, options.rules))
    different = [each for each in found if each is not None]
    for each in different:
        sys.stdout.write(json.dumps(each, default=str) + "\n")
    sys.stdout.write(f"vLLM {options.version}: {len(found)} comparisons, {len(different)} differences\n")
    sys.exit(1 if different else 0)


if __name__ == "__main__":
    main()
