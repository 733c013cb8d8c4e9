"""Whether rules may be loaded: all that `rules check` and `rules test` ask of them, in a process of its own.

Owns the questions and the process's bounds. ``python -m policy.acceptance`` is that process: sources on
standard input, faults on standard output.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from typing import Final

import msgspec

from policy.cases import read_cases, run_cases
from policy.catalogue import load, unused_conditions
from policy.errors import Fault, PolicyError, RulesInvalid, quoted
from policy.folder import Sources
from policy.policy import Policy

COMMAND: Final = (sys.executable, "-P", "-m", "policy.acceptance")
MEMORY: Final = 2 << 30
NICE: Final = 10
"""How much less of a busy processor it asks for than those who answer meanwhile."""
encode: Final = msgspec.json.Encoder().encode


def faults_of(sources: Sources, default_release: str | None) -> list[str]:
    """What keeps the rules from being loaded, a line each; nothing where they may be."""
    try:
        catalogue = load(sources)
        faults = unused_conditions(catalogue)
        cases = read_cases(sources.cases, catalogue)
        policy = Policy(catalogue, default_release)
    except RulesInvalid as error:
        return [str(fault) for fault in error.faults]
    except PolicyError as error:
        return [str(error)]
    faults += [
        Fault(result.case.path, result.case.line, 1, f"the case {quoted(result.case.name)} fails at {result.release}: {result.found}")
        for result in run_cases(cases, policy)
        if not result.passed
    ]
    return [str(fault) for fault in faults]


class Unfinished(PolicyError):
    """The check did not come to its end."""


def asked(sources: Sources, default_release: str | None, seconds: float) -> list[str]:
    """The same, from a process that ends after ``seconds``.

    Raises:
        Unfinished: it was ended, or something broke it.
    """
    job = encode([sources.rules, sources.cases, default_release, int(seconds) + 1])
    try:
        run = subprocess.run(COMMAND, input=job, capture_output=True, timeout=seconds, check=False)  # noqa: S603  # our own module, by our own interpreter
    except subprocess.TimeoutExpired as error:
        raise Unfinished(f"checking the rules took more than {seconds:g} s") from error
    except OSError as error:
        raise Unfinished(f"the rules could not be checked: {error}") from error
    if run.returncode:
        said = run.stderr.decode(errors="replace").strip().splitlines()[-1:]
        raise Unfinished(f"checking the rules ended with {run.returncode}: {' '.join(said) or 'no word of why'}")
    found: list[str] = msgspec.json.decode(run.stdout)
    return found


def main() -> None:
    """Answer the job on standard input within its bounds."""
    os.nice(NICE)
    rules, cases, default_release, seconds = msgspec.json.decode(sys.stdin.buffer.read(), type=tuple[dict[str, str], dict[str, str], str | None, int])
    resource.setrlimit(resource.RLIMIT_CPU, (seconds, seconds + 1))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    sys.stdout.buffer.write(encode(faults_of(Sources(rules, cases), default_release)))


if __name__ == "__main__":
    main()
