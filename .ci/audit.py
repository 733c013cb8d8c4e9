"""Look up the locked packages among known vulnerabilities: `python .ci/audit.py`.

Runs pip-audit with PyPI, and with OSV if PyPI does not know all of them. The exit code:

    0   every package was looked up, and none has a known vulnerability
    1   a package has a known vulnerability
    2   some packages could not be looked up; the others have none
    3   no source could be queried

pip-audit itself exits with 0 if an index knows none of the packages, so its exit code is not enough.
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
LOCKS: Final = ("run", "build", "sbom", "ray")
"""The packages of the service, those that build the image, and those of `impact --ray`."""
TIMEOUT: Final = 600
"""Seconds for all packages from one source."""

CLEAN, VULNERABLE, INCOMPLETE, NO_SOURCE = 0, 1, 2, 3


@dataclass(frozen=True, slots=True)
class SourceResult:
    """The result of one source."""

    looked_up: tuple[str, ...]
    unknown: tuple[str, ...]
    vulnerable: tuple[str, ...]


def print_lines(*lines: str) -> None:
    """Print lines."""
    sys.stdout.writelines(f"{line}\n" for line in lines)


def query(options: list[str]) -> SourceResult | str:
    """The result of a source, or why it could not be queried."""
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
    return SourceResult(
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
    """Query one source after another until one knows all packages; print the result of each."""
    incomplete = False
    for name, options in sources.items():
        answer = query(options)
        if isinstance(answer, str):
            print_lines(f"{name} could not be queried: {answer}")
        elif answer.vulnerable:
            print_lines(*answer.vulnerable)
            advice = "raise the versions in pyproject.toml or requirements/*.in, then `make lock`"
            print_lines(f"{name}: {len(answer.vulnerable)} known vulnerabilities; {advice}")
            return VULNERABLE
        elif not answer.looked_up:
            print_lines(f"{name} could not be queried: the index knows none of the packages")
        elif answer.unknown:
            incomplete = True
            print_lines(f"{name} could not look up {', '.join(answer.unknown)}")
        else:
            print_lines(f"{name}: {len(answer.looked_up)} packages, no known vulnerabilities")
            return CLEAN
    if incomplete:
        print_lines("not every package could be looked up")
        return INCOMPLETE
    print_lines(
        "no source could be queried, so the result is unknown; run `make audit` where PyPI or OSV can be reached"
    )
    return NO_SOURCE


def main() -> int:
    """Run the audit; the module's docstring lists the exit codes."""
    parser = argparse.ArgumentParser(description="Look up the locked packages among known vulnerabilities.")
    parser.add_argument("--osv-url", help="query this OSV service and no other source")
    url = parser.parse_args().osv_url
    osv = ["--vulnerability-service", "osv"]
    return audit({url: [*osv, "--osv-url", url]} if url else {"PyPI": ["--vulnerability-service", "pypi"], "OSV": osv})


if __name__ == "__main__":
    sys.exit(main())
