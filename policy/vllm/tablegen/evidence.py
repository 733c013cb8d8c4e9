"""`python -m policy.vllm.tablegen.evidence VERSION...`: compare the checks of `policy.intake.launch` with vLLM's code.

A check of a release has its evidence, a text of vLLM's file, in the release's sources, and in no release in which it
does not hold. Reads the sources as text.
"""

import argparse
import sys
import tempfile
from collections.abc import Sequence
from fnmatch import fnmatch
from pathlib import Path

from policy.intake.launch.checks import Check, all_checks
from policy.vllm.tablegen.make import DISTRIBUTIONS
from policy.vllm.tablegen.wheels import FolderSource, ReleaseSource, WheelSource, downloaded


def differences(release: str, source: ReleaseSource) -> list[str]:
    """The checks whose range and evidence disagree about a release, each as a line of text."""
    found = []
    with_evidence = [check for check in all_checks() if check.has]
    for check in with_evidence:
        is_there = _is_in(source, check)
        if check.holds_in(release) and not is_there:
            found.append(f"{check.id}: {check.source} of {release} does not have {check.has!r}")
        elif is_there and not any(other.holds_in(release) for other in with_evidence if other.id == check.id):
            found.append(f"{check.id}: {check.source} of {release} has {check.has!r}, and no range contains {release}")
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences of the given versions; returns 1 if there are any."""
    parser = argparse.ArgumentParser(prog="python -m policy.vllm.tablegen.evidence", description=__doc__)
    parser.add_argument("versions", nargs="+", metavar="VERSION", help="a vLLM release")
    parser.add_argument("--source", type=Path, metavar="DIR", help="a folder that contains vllm/, instead of a wheel")
    cache = Path(tempfile.gettempdir()) / "vllm-wheels"
    parser.add_argument(
        "--cache", type=Path, metavar="DIR", default=cache, help="where wheels are cached (%(default)s)"
    )
    options = parser.parse_args(arguments)
    found = []
    for version in options.versions:
        folder: Path | None = options.source
        source: ReleaseSource = (
            WheelSource(downloaded(DISTRIBUTIONS, version, options.cache)) if folder is None else FolderSource(folder)
        )
        found += differences(version, source)
    sys.stdout.writelines(f"{line}\n" for line in found)
    return 1 if found else 0


def _is_in(source: ReleaseSource, check: Check) -> bool:
    paths = [path for path in source.paths() if fnmatch(path, check.source)]
    return any(check.has in source.text(path) for path in paths)


if __name__ == "__main__":
    sys.exit(main())
