"""Compare the table of flags with each release's own parser: ``python -m bench.unseen.flags ENVIRONMENTS``.

ENVIRONMENTS is a folder with a Python environment per release, as for ``bench.unseen``. Owns what is compared: the
flags by the attribute that they set, their spellings, the legal values, and how many words each takes.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from packaging.version import Version

from policy.intake.command.flags import flags

if TYPE_CHECKING:
    from collections.abc import Iterator

INSIDE: Final = Path(__file__).resolve().parent / "inside.py"
OWN_VALUES: Final = {
    "collect_detailed_traces": "up to 0.30 the parser also takes pairs of modules; the table takes any text",
    "mm_processor_device": "the values depend on the platform; the table takes any text",
    "optimization_level": "the configuration refuses what the table refuses, not the parser",
}
"""Flags whose values the table has in another way, and why."""
NULL: Final = "None"
"""A choice that unsets a flag; the table says it by ``optional``."""


def differences(release: str, parsed: dict[str, dict[str, Any]]) -> Iterator[str]:
    """What the table and the release's own parser say differently."""
    table = flags(release)
    for name in sorted(parsed.keys() ^ table.by_name.keys()):
        yield f"{name}: only in {'the parser' if name in parsed else 'the table'}"
    spellings: dict[str, set[str]] = {}
    for word in table.spellings:
        spellings.setdefault(table.exact[word].dest, set()).add(word)
    for name in sorted(parsed.keys() & table.by_name.keys()):
        row, flag = parsed[name], table.by_name[name]
        choices = None if flag.choices is None else {str(choice) for choice in flag.choices}
        expected = None if row["choices"] is None else set(row["choices"])
        pairs: dict[str, tuple[Any, Any]] = {
            "spellings": (set(row["flags"]), spellings[name]),
            "words": (row["nargs"], 0 if flag.constant is not None else flag.nargs),
        }
        if name not in OWN_VALUES:
            pairs["choices"] = (expected and expected - {NULL}, choices and choices - {NULL})
        yield from (f"{name}: {what}: {theirs} and {ours}" for what, (theirs, ours) in pairs.items() if theirs != ours)


def main() -> None:
    """Print the numbers of flags and of differences of each release; exit with 1 if any differ."""
    parser = argparse.ArgumentParser(prog="python -m bench.unseen.flags", description=__doc__)
    parser.add_argument("environments", type=Path, metavar="ENVIRONMENTS")
    options = parser.parse_args()
    differ = False
    for environment in sorted(options.environments.glob("[0-9]*"), key=lambda path: Version(path.name)):
        with tempfile.TemporaryDirectory() as folder:
            target = Path(folder) / "flags.json"
            command = [str(environment / "bin" / "python"), str(INSIDE), "flags", str(target)]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            parsed = json.loads(target.read_text())
        found = list(differences(environment.name, parsed))
        differ = differ or bool(found)
        sys.stdout.write(f"{environment.name}: {len(parsed)} flags, {len(found)} differences\n")
        sys.stdout.writelines(f"  {each}\n" for each in found)
    sys.exit(1 if differ else 0)


if __name__ == "__main__":
    main()
