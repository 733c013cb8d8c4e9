"""Compare command lines of old posts with each release's own parser: ``python -m bench.unseen.commands ENVIRONMENTS``.

The commands and what each release's parser says of them are in ``tests/intake/commands.jsonl``, a line for each:
``command``, with placeholders for private names, its ``source``, the ``version`` if the post names one, and
``parsers``, release → null if the parser accepts it from this release on, else what it refuses. ``--record`` writes
what the parsers in ENVIRONMENTS say, a folder as for ``bench.unseen``; without one the recorded results are compared.
Owns what counts as equal: both accept, or both name the same flags.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

from packaging.version import Version

from policy.intake.command.arguments import read_options
from policy.intake.command.flags import flags, with_dashes
from policy.intake.command.launcher import read_text

HERE: Final = Path(__file__).resolve().parent
COMMANDS: Final = HERE.parents[1] / "tests" / "intake" / "commands.jsonl"
RELEASES: Final = (
    *("0.19.0", "0.19.1", "0.20.0", "0.20.1", "0.20.2", "0.22.0", "0.22.1", "0.23.0", "0.24.0", "0.25.0"),
    *("0.25.1", "0.26.0", "0.27.0", "0.27.1", "0.28.0", "0.29.0", "0.30.0", "0.31.0", "0.32.0", "0.33.0"),
)
"""The releases that are recorded, oldest first."""
FLAG: Final = re.compile(r"has no flag `([^`]+)`")

Row = dict[str, Any]


def rows() -> list[Row]:
    """The recorded commands."""
    return [json.loads(line) for line in COMMANDS.read_text(encoding="utf-8").splitlines()]


def said_by_parser(row: Row, release: str) -> Row | None:
    """What the parser of a release says about a recorded command."""
    since = [each for each in RELEASES[: RELEASES.index(release) + 1] if each in row["parsers"]]
    found: Row | None = row["parsers"][since[-1]]
    return found


def refusal(command: str, release: str) -> Row | None:
    """What this project says that the release's parser refuses of a command; None if nothing."""
    faults: list[Any] = []
    line = read_text(command, {}, faults, "/args")
    options = read_options(release, line, {}, faults)
    unknown = sorted({match[1] for error in options.launch_errors if (match := FLAG.search(error)) is not None})
    invalid = [fault.message for fault in faults]
    invalid += [error for error in options.launch_errors if FLAG.search(error) is None]
    found = ({"unknown": unknown} if unknown else {}) | ({"invalid": " ".join(invalid)} if invalid else {})
    return found or None


def is_equal(recorded: Row | None, ours: Row | None, release: str) -> bool:
    """Whether the parser and this project say the same: both accept, or both refuse the same flags."""
    if recorded is None or ours is None:
        return recorded is ours
    if "unknown" in recorded:
        return _named(recorded["unknown"], release) == _named(ours.get("unknown", []), release)
    # the parser stops at an invalid value, before it looks at unknown flags
    return recorded.get("invalid", "") in ours.get("invalid", "")


def _named(words: list[str], release: str) -> set[str]:
    spelled = flags(release).takes_underscores
    return {with_dashes(word) if spelled and word.startswith("--") else word for word in words} - {"words"}


def recorded_by(environment: Path, commands: list[str]) -> list[Row | None]:
    """What a release's own parser says about each command."""
    with tempfile.TemporaryDirectory() as folder:
        source, target = Path(folder) / "in.json", Path(folder) / "out.json"
        source.write_text(json.dumps(commands), encoding="utf-8")
        command = [str(environment / "bin" / "python"), str(HERE / "inside.py"), "commands", str(source), str(target)]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        found: list[Row | None] = json.loads(target.read_text(encoding="utf-8"))
        return found


def _changes(said: dict[str, Row | None]) -> dict[str, Row | None]:
    """What the parsers say, by the releases that say something else than the one before."""
    ordered = [(release, said[release]) for release in RELEASES]
    return {
        release: each for index, (release, each) in enumerate(ordered) if index == 0 or each != ordered[index - 1][1]
    }


def main() -> None:
    """Record, if asked to, and print the differences of each release; exit with 1 if any differ."""
    parser = argparse.ArgumentParser(prog="python -m bench.unseen.commands", description=__doc__)
    parser.add_argument("environments", type=Path, nargs="?", metavar="ENVIRONMENTS")
    parser.add_argument("--record", action="store_true", help="write what the parsers say")
    options = parser.parse_args()
    known = rows()
    folders = [] if options.environments is None else [*options.environments.glob("[0-9]*")]
    for environment in sorted(folders, key=lambda path: Version(path.name)):
        said = recorded_by(environment, [row["command"] for row in known])
        for row, each in zip(known, said, strict=True):
            row["said"] = row.get("said", {}) | {environment.name: each}
    if known and "said" in known[0]:
        for row in known:
            said_by = {release: said_by_parser(row, release) for release in RELEASES} if "parsers" in row else {}
            row["parsers"] = _changes(said_by | row.pop("said"))
    if options.record:
        COMMANDS.write_text("".join(json.dumps(row) + "\n" for row in known), encoding="utf-8")
    differ = False
    for release in RELEASES:
        answers = [(row["command"], said_by_parser(row, release), refusal(row["command"], release)) for row in known]
        found = [answer for answer in answers if not is_equal(*answer[1:], release)]
        refused = sum(theirs is not None for _, theirs, _ in answers)
        sys.stdout.write(f"{release}: {len(known)} commands, {refused} refused, {len(found)} differences\n")
        sys.stdout.writelines(
            f"  {command}\n    parser: {theirs}\n    here: {ours}\n" for command, theirs, ours in found
        )
        differ = differ or bool(found)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
