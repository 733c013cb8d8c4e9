"""Look up the locked packages among known vulnerabilities: `python .ci/audit.py`.

Asks PyPI, and OSV where PyPI does not answer for all of them, by pip-audit. The exit code:

    0   every package was looked up, and none has a known vulnerability
    1   a package has a known vulnerability
    2   some packages could not be looked up; the others have none
    3   no source could be asked

pip-audit itself ends with 0 where an index knows none of the packages, so its exit code is not enough.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
LOCKS: Final = ("run", "build", "sbom")
"""What runs, and what makes the image."""
TIMEOUT: Final = 600
"""Seconds for all packages at one source."""

CLEAN, VULNERABLE, INCOMPLETE, NO_SOURCE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class Audit:
    """What one source says of the packages."""

    looked_up: tuple[str, ...]
    unknown: tuple[str, ...]
    vulnerable: tuple[str, ...]


def say(*lines: str) -> None:
    """Print lines."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def ask(options: list[str]) -> Audit | str:
    """What a source answers, or why it could not be asked."""
    locks = [word for lock in LOCKS for word in ("--requirement", str(ROOT / f"requirements/{lock}.lock"))]
    fixed = ["--no-deps", "--disable-pip", "--format", "json", "--progress-spinner", "off", "--timeout", "15"]
    try:
        done = subprocess.run(  # noqa: S603  # our own arguments
            [sys.executable, "-m", "pip_audit", *locks, *fixed, *options],
            check=False,
            capture_output=True,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {TIMEOUT} seconds"
    try:
        packages = json.loads(done.stdout)["dependencies"]
    except ValueError:
        return (done.stderr.strip().splitlines() or ["pip-audit printed nothing"])[-1]
    return Audit(
        looked_up=tuple(package["name"] for package in packages if "skip_reason" not in package),
        unknown=tuple(package["name"] for package in packages if "skip_reason" in package),
        vulnerable=tuple(
            (
                f"{package['name']} {package['version']}: {found['id']}, fixed in "
                f"{' '.join(found['fix_versions']) or 'none'}"
            )
            for package in packages
            for found in package.get("vulns", ())
        ),
    )


def audit(sources: dict[str, list[str]]) -> int:
    """Ask one source after the other until one answers for all packages; prints what each said."""
    incomplete = False
    for name, options in sources.items():
        answer = ask(options)
        if isinstance(answer, str):
            say(f"{name} could not be asked: {answer}")
        elif answer.vulnerable:
            say(*answer.vulnerable)
            advice = "raise the versions in pyproject.toml or requirements/*.in, then `make lock`"
            say(f"{name}: {len(answer.vulnerable)} known vulnerabilities; {advice}")
            return VULNERABLE
        elif not answer.looked_up:
            say(f"{name} could not be asked: the index knows none of the packages")
        elif answer.unknown:
            incomplete = True
            say(f"{name} could not look up {', '.join(answer.unknown)}")
        else:
            say(f"{name}: {len(answer.looked_up)} packages, no known vulnerabilities")
            return CLEAN
    if incomplete:
        say("not every package could be looked up")
        return INCOMPLETE
    say("no source could be asked, so nothing is known; run `make audit` where PyPI or OSV is reached")
    return NO_SOURCE


def main() -> int:
    """Ask, and end with the code that the module's docstring lists."""
    parser = argparse.ArgumentParser(description="Look up the locked packages among known vulnerabilities.")
    parser.add_argument("--osv-url", help="ask this OSV service and no other source")
    url = parser.parse_args().osv_url
    osv = ["--vulnerability-service", "osv"]
    return audit({url: [*osv, "--osv-url", url]} if url else {"PyPI": ["--vulnerability-service", "pypi"], "OSV": osv})


if __name__ == "__main__":
    sys.exit(main())
