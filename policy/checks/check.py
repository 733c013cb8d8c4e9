"""Check in a separate process whether rules can be loaded, as `rules check` and `rules test` do.

Owns the check, which `rules check` reports, and the process's limits. Rules that pass both commands are loaded, unless
they lack the service's default release, or need more time or memory than the process may use. The process has sources
on standard input and faults on standard output.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from policy.checks.cases import read_cases, run_cases
from policy.checks.image_cases import read_image_cases, run_image_cases
from policy.checks.request_cases import read_request_cases, run_request_cases
from policy.checks.sandbox import KILLED, limit_process
from policy.errors import Fault, PolicyError, RulesInvalid
from policy.messages import quoted
from policy.policy import Policy
from policy.rules.catalogue import load, unused_conditions
from policy.rules.loader import Sources
from policy.sampling.check import RequestChecker

if TYPE_CHECKING:
    from typing import Self

    from policy.checks.cases import Case, CaseResult, Claim
    from policy.checks.image_cases import ImageCase
    from policy.checks.request_cases import RequestCase
    from policy.rules.catalogue import Catalogue

MEMORY_LIMIT: Final = 2 << 30
CPU_LIMIT: Final = 30
"""Seconds of processor time that a check may take: some thirty times what it needs for the shipped rules."""
NICE: Final = 5
"""The niceness of a check, that of the log process, so that the serving process comes first.

With a lower priority from the beginning it could starve on a busy machine.
"""
COMMAND: Final = (
    *(sys.executable, "-P", "-c"),
    f"import os; os.nice({NICE}); from policy.checks.check import main; main()",
)
"""The command of the process, which lowers its priority before it imports the rest."""
LONG_TIME: Final = 2.0
"""Seconds of processor time, more than the usual need, after which a check lowers its own priority further."""
LONG_NICE: Final = 5
"""What is then added to its niceness."""
encode: Final = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class CheckResult:
    """The result of a check: every fault, and the rules as far as they could be read.

    ``policy`` is set if the rules compile and have all required cases.
    """

    faults: tuple[Fault, ...]
    catalogue: Catalogue | None = None
    cases: tuple[Case, ...] = ()
    image_cases: tuple[ImageCase, ...] = ()
    request_cases: tuple[RequestCase, ...] = ()
    policy: Policy | None = None


def check(sources: Sources, default_release: str | None = None) -> CheckResult:
    """Check rules, except for failing cases; a fault that does not belong to a file has no path."""
    try:
        catalogue = load(sources)
    except RulesInvalid as error:
        return CheckResult(error.faults)
    faults = tuple(unused_conditions(catalogue))
    cases: list[Case] = []
    image_cases: list[ImageCase] = []
    request_cases: list[RequestCase] = []
    missing: list[Fault] = []
    try:
        cases = read_cases(sources.cases, catalogue)
    except RulesInvalid as error:
        missing += error.faults
    try:
        image_cases = read_image_cases(sources.cases, catalogue.releases.images)
    except RulesInvalid as error:
        missing += error.faults
    try:
        request_cases = read_request_cases(sources.cases, catalogue)
    except RulesInvalid as error:
        missing += error.faults
    if missing:
        return CheckResult((*faults, *missing), catalogue)
    try:
        policy = Policy(catalogue, default_release)
        return CheckResult(faults, catalogue, tuple(cases), tuple(image_cases), tuple(request_cases), policy)
    except PolicyError as error:
        return CheckResult((*faults, Fault("", 1, 1, str(error))), catalogue)


def faults_of(sources: Sources, default_release: str | None) -> list[str]:
    """The faults that prevent the rules from being loaded, one per line.

    There are none if both ``rules check`` and ``rules test`` pass.
    """
    found = check(sources, default_release)
    faults = list(found.faults)
    if found.policy is not None:
        results: list[CaseResult[Claim]] = [
            *run_cases(found.cases, found.policy),
            *run_image_cases(found.image_cases, found.policy.releases.images),
            *run_request_cases(found.request_cases, RequestChecker(found.policy)),
        ]
        faults += [
            Fault(
                result.case.path,
                result.case.line,
                1,
                f"the case {quoted(result.case.name)} fails at {result.release}: {result.found}",
            )
            for result in results
            if not result.passed
        ]
    return [str(fault) if fault.path else fault.message for fault in faults]


class CheckAborted(PolicyError):
    """The check did not finish, for a reason outside of the rules: another one may."""


class Checker:
    """Checks rules, each time in a new process; within the block, the next process is started in advance."""

    def __init__(self) -> None:
        self._next: subprocess.Popen[bytes] | None = None
        self._is_ready = False

    def __enter__(self) -> Self:
        self._is_ready = True
        self._start_next()
        return self

    def __exit__(self, *_: object) -> None:
        self._is_ready = False
        if self._next is not None:
            _end(self._next)
            self._next = None

    def faults_of(
        self, sources: Sources, default_release: str | None, seconds: float, cpu_seconds: int = CPU_LIMIT
    ) -> list[str]:
        """The faults that prevent the rules from being loaded, found by a process that may take ``seconds``.

        It is one if the process takes ``cpu_seconds`` of processor time, crashes or fails.

        Raises:
            CheckAborted: there was no process, it was killed, or it got too little processor time to finish.
        """
        job = encode([sources.rules, sources.cases, default_release, cpu_seconds])
        process, self._next = self._next, None
        try:
            if process is not None and process.poll() is not None:
                _end(process)
                process = None
            process = process or _start()
            answer, errors = process.communicate(job, seconds)
        except subprocess.TimeoutExpired as error:
            raise CheckAborted(
                f"the rules could not be checked within {seconds:g} s, as the machine is busy"
            ) from error
        except OSError as error:
            raise CheckAborted(f"the rules could not be checked: {error}") from error
        finally:
            if process is not None:
                _end(process)
            self._start_next()
        code = process.returncode
        if code == -signal.SIGXCPU:
            return [f"checking the rules takes more than {cpu_seconds} s of processor time; make them simpler"]
        if code in KILLED:
            raise CheckAborted(f"the process that checks the rules was killed (signal {-code})")
        if code < 0:
            return [f"the rules crashed the engine (signal {-code}); make their conditions simpler"]
        if code:
            why = errors.decode(errors="replace").strip().splitlines()[-1:]
            return [f"checking the rules failed with the exit code {code}: {' '.join(why) or 'no message'}"]
        found: list[str] = msgspec.json.decode(answer)
        return found

    def _start_next(self) -> None:
        if self._is_ready:
            with suppress(OSError):  # the check itself reports the error
                self._next = _start()


def _start() -> subprocess.Popen[bytes]:
    return subprocess.Popen(COMMAND, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)  # noqa: S603  # our own module, by our own interpreter


def _end(process: subprocess.Popen[bytes]) -> None:
    """End the process and close its pipes."""
    process.kill()
    with suppress(BrokenPipeError), process:  # closes the pipes, and waits
        pass


def main() -> None:
    """Run the job on standard input within the limits."""
    signal.signal(signal.SIGPROF, lambda *_: os.nice(LONG_NICE))
    signal.setitimer(signal.ITIMER_PROF, LONG_TIME)
    job = sys.stdin.buffer.read()
    if job:  # otherwise the service ended without sending one
        rules, cases, default_release, seconds = msgspec.json.decode(
            job, type=tuple[dict[str, str], dict[str, str], str | None, int]
        )
        limit_process(MEMORY_LIMIT, seconds)
        sys.stdout.buffer.write(encode(faults_of(Sources(rules, cases), default_release)))
    signal.setitimer(signal.ITIMER_PROF, 0)  # an interpreter that ends has no handler, and the signal would kill it
