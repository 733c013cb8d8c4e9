"""Whether rules may be loaded: all that `rules check` and `rules test` ask of them, in a process of its own.

Owns the check, which `rules check` reports, and the process's bounds. Rules that pass both commands are loaded, unless they lack
the release that the service has for its default, or take more time or memory than the process may. ``python -m policy.acceptance``
is that process: sources on standard input, faults on standard output.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from policy.cases import read_cases, run_cases
from policy.catalogue import load, unused_conditions
from policy.errors import Fault, PolicyError, RulesInvalid, quoted
from policy.folder import Sources
from policy.policy import Policy

if TYPE_CHECKING:
    from policy.cases import Case
    from policy.catalogue import Catalogue

COMMAND: Final = (sys.executable, "-P", "-m", "policy.acceptance")
MEMORY: Final = 2 << 30
NICE: Final = 10
"""How much less of a busy processor it asks for than those who answer meanwhile."""
encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Checked:
    """What came of a check: every fault, and what the rules are as far as they could be read; ``policy`` where they can decide and have cases."""

    faults: tuple[Fault, ...]
    catalogue: Catalogue | None = None
    cases: tuple[Case, ...] = ()
    policy: Policy | None = None


def check(sources: Sources, default_release: str | None = None) -> Checked:
    """Everything that can be wrong with rules but for cases that fail; a fault of no file has no path."""
    try:
        catalogue = load(sources)
    except RulesInvalid as error:
        return Checked(error.faults)
    faults = tuple(unused_conditions(catalogue))
    try:
        cases = tuple(read_cases(sources.cases, catalogue))
        return Checked(faults, catalogue, cases, Policy(catalogue, default_release))
    except RulesInvalid as error:
        return Checked((*faults, *error.faults), catalogue)
    except PolicyError as error:
        return Checked((*faults, Fault("", 1, 1, str(error))), catalogue)


def faults_of(sources: Sources, default_release: str | None) -> list[str]:
    """What keeps the rules from being loaded, a line each; nothing where they may be: where both ``rules check`` and ``rules test`` pass."""
    found = check(sources, default_release)
    faults = list(found.faults)
    if found.policy is not None:
        faults += [
            Fault(result.case.path, result.case.line, 1, f"the case {quoted(result.case.name)} fails at {result.release}: {result.found}")
            for result in run_cases(found.cases, found.policy)
            if not result.passed
        ]
    return [str(fault) if fault.path else fault.message for fault in faults]


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
