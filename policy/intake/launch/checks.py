"""The checks of each release: what vLLM refuses or warns of, when, its words, and what to do instead.

Reads `data/*.yaml`, one file for each topic. A file is a list of checks, each with

- `id`, and `source`: the file of vLLM that refuses;
- `has`: a text of that file that is in all releases in which the check holds, and in no other known release;
- `when`: the condition (`expression`), on the values of `values.LaunchValues`;
- `says`: vLLM's own words, with values in braces; `do`: what to do instead, the same;
- `at`: the option to which the message points; the check counts only if that option is given;
- `is_certain`: false if something that is not known here, such as another file of the model, may change it; the message
  is a warning then;
- `is_warning`: true if vLLM only warns of it and goes on, such as of a deprecated value of an option: `values` has
  those values, and `member` the field of the option's object, if it is one;
- `vllm`: the releases in which it holds, such as `>=0.23,<0.31`; all with tables of models if it is left out;
- `platforms`: where it holds; all if it is left out;
- `ranges`: instead of some of these, a list of them that differ by release.
"""

from __future__ import annotations

import re
from collections.abc import Mapping  # noqa: TC003  # msgspec reads the annotations
from functools import cache
from pathlib import Path
from typing import Any, Final, TypeAlias

import msgspec.yaml
from msgspec import Struct
from packaging.specifiers import SpecifierSet

from policy.intake.launch.expression import formula_of
from policy.intake.model.formula import EMPTY, CompiledFormula, Incomputable, Scope, compile_formula, run

FOLDER: Final = Path(__file__).parent / "data"
HOLE: Final = re.compile(r"\{([^{}\"][^{}]*)\}")
"""An expression in a message; a brace before a quote begins a JSON object."""
KNOWN_TYPE: Final[Mapping[str, Any]] = {"model.is_local_type": True, "model.is_newer_type": False}
"""What ``models.ModelValues`` computes for a model whose type has a class in the release."""


class Check(Struct, frozen=True, forbid_unknown_fields=True):
    """One check in one range of releases; the fields are described above."""

    id: str
    source: str
    when: str
    says: str
    do: str
    at: str = ""
    has: str = ""
    vllm: str = ""
    platforms: tuple[str, ...] = ()
    is_certain: bool = True
    is_warning: bool = False
    values: tuple[str, ...] = ()
    member: str = ""

    @property
    def condition(self) -> Any:
        """The formula of the condition."""
        return _formula(self.when)

    def holds_in(self, release: str) -> bool:
        """Whether the release has the check."""
        return release in SpecifierSet(self.vllm)

    def counts_on(self, platform: str) -> bool:
        """Whether the check applies on a platform."""
        return not self.platforms or platform in self.platforms


class Message(Struct, frozen=True):
    """A text with values: the constant parts, and the formulas between them."""

    parts: tuple[str, ...]
    formulas: tuple[Any, ...]


@cache
def message_of(text: str) -> Message:
    """A text with its expressions in braces translated to formulas."""
    found = HOLE.split(" ".join(text.split()))
    return Message(tuple(found[::2]), tuple(map(formula_of, found[1::2])))


CompiledCheck: TypeAlias = tuple[Check, tuple[CompiledFormula, ...]]
"""A check, and the parts of its condition; the condition holds if all parts do."""


class ReleaseChecks(Struct, frozen=True):
    """The checks of a release on a platform: those about an option, by its name, and those that always count.

    ``of_known_type`` has those of ``always`` that a model can fail even if its type has a class in the release. Most
    types have one, and computing the other conditions takes 2 % of the instructions to derive facts.
    """

    always: tuple[CompiledCheck, ...]
    of_known_type: tuple[CompiledCheck, ...]
    by_option: Mapping[str, tuple[CompiledCheck, ...]]


@cache
def checks_of(release: str, platform: str) -> ReleaseChecks:
    """The checks of a release on a platform, in the order of the files, and within a file in its order."""
    held: dict[str, list[CompiledCheck]] = {"": []}
    for each in _compiled_checks(release):
        check, _ = each
        if check.counts_on(platform):
            held.setdefault(check.at, []).append(each)
    always = tuple(held.pop(""))
    of_known_type = tuple(each for each in always if not _fails(each[1][0], KNOWN_TYPE))
    return ReleaseChecks(always, of_known_type, {option: tuple(checks) for option, checks in held.items()})


@cache
def _compiled_checks(release: str) -> list[CompiledCheck]:
    return [
        (check, tuple(map(compile_formula, _parts(check.condition))))
        for check in all_checks()
        if check.holds_in(release)
    ]


@cache
def all_checks(folder: Path = FOLDER) -> tuple[Check, ...]:
    """All checks. A check that differs by release is there once for each range."""
    found: list[Check] = []
    for path in sorted(folder.glob("*.yaml")):
        for row in msgspec.yaml.decode(path.read_bytes(), type=list[dict[str, Any]]):
            common = {name: item for name, item in row.items() if name != "ranges"}
            found += [msgspec.convert(common | part, Check) for part in row.get("ranges", ({},))]
    return tuple(found)


def _fails(part: CompiledFormula, known: Mapping[str, Any]) -> bool:
    """Whether a part of a condition reads only values that are ``known``, and does not hold with them."""

    def key(name: str) -> Any:
        if name not in known:
            raise Incomputable(name)
        return known[name]

    try:
        return not run(part, Scope(EMPTY, key, EMPTY))
    except Incomputable:
        return False


def _parts(condition: Any) -> list[Any]:
    match condition:
        case ["and", *parts]:
            return parts
    return [condition]


@cache
def _formula(text: str) -> Any:
    return formula_of(text)
