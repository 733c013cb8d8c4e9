"""The flags of each vLLM release.

Reads `data/arguments.jsonl` and finds the flag that a word spells. Not here: converting its text to a value
(`flag_values`). Each row of that file is keyed by the flag's name in `EngineArgs` (or in the frontend's arguments):

- `flags`: its spellings. `off`: the spellings that set it to false.
- `kind`: `bool` (takes no value), `boolean` (`true` or `false`), `int`, `human` (`1k`, `2M`), `human-or-auto` (also
  `auto`), `float`, `text`, `text-none-unsets` (`none` unsets it), `dashed` (text in lower case, dashes as underscores),
  `json`, `object` (a JSON object, in which `80g` is a number), `json-or-text`, `pairs` (`image=2,video=1`), `devices`
  (`0,1`). Two kinds are not in the file: `object-or-level` and `overrides`, an object that no other text replaces.
- `nargs`: `+` for one or more words, `?` for at most one (true without a word), or a number.
- `optional`: `None` and the empty text mean null. `choices`: the legal values.
- `members`: the legal fields of an object, each with its kind (`bool`, `int`, `float`, with `?` if null is legal), its
  choices, its own fields, or null if any value is legal. Without `members` any field is legal. `dashes`: the fields'
  names may have dashes instead of underscores.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_left
from functools import cache, lru_cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct
from msgspec.structs import replace
from packaging.version import Version

from policy.intake.model.tables import ARGUMENTS, TABLES_FOLDER, releases_with_flags
from policy.rules.releases import spans as release_spans
from policy.secret_names import is_secret

if TYPE_CHECKING:
    from collections.abc import Mapping

FREE_FORM: Final = frozenset({"additional_config", "model_loader_extra_config", "otlp_traces_endpoint"})
"""Options that may contain credentials: an address with a password, settings of a plugin or a loader."""
SECRET_KINDS: Final = frozenset({"text", "json", "json-or-text", "object", "object-or-level", "overrides"})
LEVEL_OPTION: Final = "-O"
"""The flag that the parser itself reads: a level, and up to 0.11 also the short form of `--compilation-config`."""
LEVELS: Final = frozenset("0123")
NO_LEVEL_SINCE: Final = Version("0.9.2")
"""The first release in which `--compilation-config` takes an object only, and no level."""
OBJECTS_SINCE: Final = Version("0.10.0")
"""The first release that refuses overrides of the model configuration because of their type."""
NEGATIVE_NUMBER: Final = re.compile(r"-\d+")
UNDERSCORES_SINCE: Final = Version("0.5.1")
"""The first release that accepts underscores instead of dashes in a flag's name."""
DOTS_SINCE: Final = Version("0.9.0")
"""The first release with dotted options, `--option.key value`."""


class Flag(Struct, frozen=True, gc=False):
    """A flag of one release, or its negation. ``constant`` is its value if it takes no argument, else None."""

    dest: str
    name: str
    kind: str
    constant: bool | None = None
    nargs: str | int | None = None
    optional: bool = False
    choices: tuple[Any, ...] | None = None
    members: dict[str, Any] | None = None
    secret: bool = False
    dashes: bool = False


class Flags:
    """The flags of one release by every accepted spelling, including those with underscores.

    ``takes_underscores``: whether the release reads underscores in a flag's name as dashes. ``takes_dots``: whether it
    has dotted options. ``takes_level``: whether it has `-O`.
    """

    def __init__(self, release: str, rows: Mapping[str, Mapping[str, Any]]) -> None:
        self.release = release
        self.by_name: dict[str, Flag] = {}
        spelled: dict[str, Flag] = {}
        for dest, row in rows.items():
            flag = flag_of_row(dest, row, release)
            self.by_name[dest] = flag
            spelled.update(dict.fromkeys(_words(row), flag))
            if flag.constant is not None:
                spelled.update(dict.fromkeys(row.get("off", ()), _flag(dest, row, value=False)))
        self.spellings = sorted(spelled)
        self.takes_underscores = _takes_underscores(release)
        self.takes_dots = Version(release) >= DOTS_SINCE
        self.takes_level = not self.by_name.keys().isdisjoint({"compilation_config", "optimization_level"})
        self.exact: dict[str, Flag] = spelled | {
            _with_underscores(word): flag for word, flag in spelled.items() if self.takes_underscores
        }

    def find(self, word: str) -> tuple[Flag | None, str | None, list[str]]:
        """The flag that a word spells by argparse's rules, its attached value, and the spellings it abbreviates."""
        key, equals, given = word.partition("=")
        explicit = given if equals else None
        if word.startswith("--") and self.takes_underscores:
            key = with_dashes(key)
        flag = self.exact.get(key)
        if flag is not None:
            return flag, explicit, []
        short = self.with_prefix(key if word.startswith("--") else word) if key != "--" else []
        if word[1:2] != "-" and (single := self.exact.get(word[:2])) is not None:
            return (None, None, [word[:2], *short]) if short else (single, word[2:], [])
        if len(short) == 1:
            return self.exact[short[0]], explicit, short
        return None, explicit, short

    def with_prefix(self, prefix: str) -> list[str]:
        """The spellings that begin with a prefix."""
        at = bisect_left(self.spellings, prefix)
        found = []
        while at < len(self.spellings) and self.spellings[at].startswith(prefix):
            found.append(self.spellings[at])
            at += 1
        return found

    def is_value(self, word: str) -> bool:
        """Whether a word can be the value of the preceding flag."""
        return word[:1] != "-" or self.is_argument(word)

    def is_argument(self, word: str) -> bool:
        """Whether argparse reads a word that begins with a dash as an argument, not as an option.

        Such words are a single dash, a negative number, or a text with blanks that names no flag.
        """
        if word == "-" or NEGATIVE_NUMBER.fullmatch(word):
            return True
        if " " not in word or word in self.exact or "." in word.partition("=")[0]:
            return False
        flag, _, short = self.find(word)
        return flag is None and not short

    def is_level_or_key(self, word: str) -> bool:
        """Whether a word is an optimization level, such as `-O3`, or sets a key of a flag's JSON."""
        if self.takes_level and word.startswith(LEVEL_OPTION):
            return word == LEVEL_OPTION or word.removeprefix(LEVEL_OPTION).removeprefix("=") in LEVELS
        name = word.partition("=")[0]
        return self.takes_dots and "." in name and name.partition(".")[0] in self.exact


@cache
def flags(release: str) -> Flags:
    """The flags of a release. Raises KeyError for a release without a table of flags."""
    order = releases_with_flags()
    known = order[: order.index(release) + 1] if release in order else ()
    if not known:
        raise KeyError(release)
    rows = {}
    for dest, since in flag_history().items():
        row = next((since[version] for version in reversed(known) if version in since), None)
        if row is not None:
            rows[dest] = row
    return Flags(release, rows)


def flag_of_row(dest: str, row: Mapping[str, Any], release: str) -> Flag:
    """A flag as its row in the table describes it, with what the parser of the release adds."""
    flag = _flag(dest, row)
    if dest == "compilation_config" and flag.kind == "object" and Version(release) < NO_LEVEL_SINCE:
        return replace(flag, kind="object-or-level")
    if dest == "hf_overrides" and Version(release) >= OBJECTS_SINCE:
        return replace(flag, kind="overrides")
    return flag


@lru_cache(maxsize=1024)
def in_other_release(word: str, release: str) -> tuple[Flag, str, bool] | None:
    """The flag with this spelling in the nearest release that has it; ``None`` if none has it.

    With it are the clause about all releases that have it, and whether they are all earlier ones.
    """
    order = releases_with_flags()
    having = _spellings().get(word, ())
    if not having:
        return None
    here = order.index(release)
    nearest = next((version for version in having if order.index(version) > here), having[-1])
    *others, last = release_spans(having, order).split(", ")
    listed = f"{', '.join(others)} and {last}" if others else last
    clause = f"only {listed} has it" if len(having) == 1 else f"{listed} have it"
    return flags(nearest).exact[word], clause, order.index(nearest) < here


def is_flag_of_any_release(word: str) -> bool:
    """Whether any release has a flag with this spelling."""
    return word in _spellings()


def flag_of_any_release(word: str) -> Flag | None:
    """The flag that a word spells or abbreviates in the last release that has it; None if none has it."""
    if word not in _spellings() and word[2:]:
        at = bisect_left(_sorted_spellings(), word)
        full = "".join(_sorted_spellings()[at : at + 1])
        word = full if full.startswith(word) else word
    having = _spellings().get(word, ())
    return flags(having[-1]).exact[word] if having else None


def with_dashes(key: str) -> str:
    """A long option's name as vLLM's parser normalizes it: underscores become dashes."""
    return "--" + key[2:].replace("_", "-") if "_" in key else key


def _flag(dest: str, row: Mapping[str, Any], *, value: bool = True) -> Flag:
    names: list[str] = row["flags"]
    long = next((name for name in names if name.startswith("--")), names[0])
    return Flag(
        dest=dest,
        name=long if value else f"--no-{long[2:]}",
        kind=row["kind"],
        constant=value if row["kind"] == "bool" else None,
        nargs=row.get("nargs"),
        optional=row.get("optional", False),
        choices=tuple(row["choices"]) if "choices" in row else None,
        members=_members(row),
        dashes=row.get("dashes", False),
        secret=dest in FREE_FORM or (row["kind"] in SECRET_KINDS and is_secret(dest)),
    )


def _members(row: Mapping[str, Any]) -> dict[str, Any] | None:
    members: dict[str, Any] | None = row.get("members")
    if members is None or not row.get("dashes"):
        return members
    return members | {name.replace("_", "-"): kind for name, kind in members.items()}


@cache
def flag_history() -> dict[str, dict[str, Any]]:
    """Option → release → the row from this release on, None if it is no longer there."""
    text = (TABLES_FOLDER / f"{ARGUMENTS}.jsonl").read_text(encoding="utf-8")
    return dict(map(json.loads, text.splitlines()))


def spans(since: Mapping[str, Any]) -> list[tuple[int, int, Any]]:
    """The rows of an option's history, each with the indices of its first release and of the first one after it."""
    order = releases_with_flags()
    starts = sorted(map(order.index, since))
    return [(start, end, since[order[start]]) for start, end in pairwise([*starts, len(order)])]


def releases_clause(first: str, last: str, does: str, do: str) -> str:
    """A clause about the releases from ``first`` to ``last``: "only 0.9.0 has it", "0.5.3 to 0.8.4 have it"."""
    return f"only {first} {does} it" if first == last else f"{first} to {last} {do} it"


@cache
def _spellings() -> dict[str, tuple[str, ...]]:
    """Every spelling in any release, with the releases that have it, oldest first.

    It is read from the rows' history, in a quarter of the time that the flags of all releases take.
    """
    order = releases_with_flags()
    with_underscores = [_takes_underscores(release) for release in order]
    found: dict[str, set[int]] = {}
    for since in flag_history().values():
        for start, end, row in spans(since):
            for word in () if row is None else (*_words(row), *row.get("off", ())):
                found.setdefault(word, set()).update(range(start, end))
                if (spelled := _with_underscores(word)) != word:
                    found.setdefault(spelled, set()).update(
                        index for index in range(start, end) if with_underscores[index]
                    )
    return {word: tuple(order[index] for index in sorted(having)) for word, having in found.items() if having}


@cache
def _sorted_spellings() -> list[str]:
    return sorted(word for word in _spellings() if word.startswith("--"))


def _takes_underscores(release: str) -> bool:
    return Version(release) >= UNDERSCORES_SINCE


def _words(row: Mapping[str, Any]) -> list[str]:
    """The spellings that set a flag; `-O` is read by the parser itself."""
    return [word for word in row["flags"] if word != LEVEL_OPTION]


def _with_underscores(word: str) -> str:
    return "--" + word[2:].replace("-", "_") if word.startswith("--") else word
