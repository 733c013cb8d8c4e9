"""The environment variables of each vLLM release, and the warnings about those that a deployment sets.

Reads `data/variables.jsonl`. Each row of that file is keyed by the variable's name:

- `type`, `default`: as annotated in `vllm/envs.py`, if it can be read.
- `deprecated`: vLLM itself warns that the variable will go; `replaced_by`: the variables and flags it names instead.
- `listed`: false for a name that occurs only outside `vllm/envs.py`; such code may read the variable.

Not here: facts that are derived from variables (`derive`).
"""

from __future__ import annotations

import json
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.intake.deployment import PLUGINS, Platform
from policy.intake.model.tables import TABLES_FOLDER, VARIABLES, releases_with_flags
from policy.messages import closest, listed, quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

PREFIX: Final = "VLLM_"
MIN_SIMILARITY: Final = 0.85
MAX_NAME: Final = 64
"""The maximum length of a name that is compared with others; the longest name of vLLM has 60 characters."""
MAX_WARNINGS: Final = 16
RULE_VARIABLES: Final = frozenset({"VLLM_USE_V2_MODEL_RUNNER"})
"""The variables whose effect the rules report."""
PLUGIN_PREFIXES: Final = (
    "VLLM_ASCEND_",
    "VLLM_GAUDI_",
    "VLLM_HPU_",
    "VLLM_NEURON_",
    "VLLM_OMNI_",
    "VLLM_RBLN_",
    "VLLM_SPYRE_",
)
"""The prefixes of plug-ins' own variables."""
PLATFORMS_WITH_OWN_VARIABLES: Final = frozenset({*PLUGINS, Platform.TPU})
"""The platforms whose plug-ins may read any variables of their own."""


@cache
def variable_history() -> dict[str, dict[str, Any]]:
    """Variable → release → the row from this release on, null if it is no longer there."""
    text = (TABLES_FOLDER / f"{VARIABLES}.jsonl").read_text(encoding="utf-8")
    return dict(map(json.loads, text.splitlines()))


@lru_cache(maxsize=4096)
def row_in(name: str, release: str) -> Mapping[str, Any] | None:
    """The row of a variable in a release, None if no Python file of the release contains its name."""
    since = variable_history().get(name)
    if since is None:
        return None
    order = releases_with_flags()
    at = order.index(release)
    return next((since[version] for version in reversed(order[: at + 1]) if version in since), None)


def spans(having: Iterable[str]) -> list[tuple[str, str]]:
    """The first and last release of each unbroken sequence of the given releases, oldest first."""
    having = set(having)
    found: list[tuple[str, str]] = []
    is_open = False
    for release in releases_with_flags():
        if release in having:
            found[-1:] = [(found[-1][0], release)] if is_open else [*found[-1:], (release, release)]
        is_open = release in having
    return found


def releases_of(name: str) -> list[str]:
    """The releases that have a variable."""
    return [release for release in releases_with_flags() if row_in(name, release) is not None]


def listed_names() -> list[str]:
    """The variables that any release lists, sorted."""
    return [
        name for name, since in variable_history().items() if any(row and _is_listed(row) for row in since.values())
    ]


def variable_warnings(names: Iterable[str], release: str, platform: str | None) -> list[str]:
    """The warnings about variables that the release does not read or deprecates, or that are misspelt.

    There are none for a platform whose plug-in may read any variables of its own.
    """
    names = sorted(name for name in names if name.startswith(PREFIX))
    if not names or platform in PLATFORMS_WITH_OWN_VARIABLES or release not in releases_with_flags():
        return []
    found = list(_warnings(names, release))
    omitted = len(found) - MAX_WARNINGS
    return found[:MAX_WARNINGS] + ([f"{omitted} more variables are not read by vLLM {release}"] if omitted > 0 else [])


def refused_variables(names: Iterable[str], release: str, platform: str | None) -> list[str]:
    """The error of vLLM about the first variable that it does not list, with `--fail-on-environ-validation`."""
    if platform in PLATFORMS_WITH_OWN_VARIABLES:
        return []
    unknown = (name for name in sorted(names) if name.startswith(PREFIX) and not _is_listed(row_in(name, release)))
    return [
        f"vLLM {release} refuses the variables with `--fail-on-environ-validation`: Unknown vLLM environment variable "
        f"detected: {quoted(name)[1:-1]}"
        for name in unknown
    ][:1]  # it stops at the first one


def _warnings(names: Iterable[str], release: str) -> Iterator[str]:
    for name in names:
        if name in RULE_VARIABLES or name.startswith(PLUGIN_PREFIXES):
            continue
        row = row_in(name, release)
        if row is not None:
            if row.get("deprecated"):
                yield f"vLLM {release} warns that the variable `{name}` is deprecated{_instead(name)}"
        elif name in variable_history():
            if name in _listed():
                # the last sequence before the release, else the next one
                order = releases_with_flags()
                of = spans(releases_of(name))
                first, last = next((each for each in of[::-1] if order.index(each[0]) < order.index(release)), of[0])
                having = f"only {first} reads it" if first == last else f"{first} to {last} read it"
                yield f"vLLM {release} does not read the variable `{name}`; {having}{_instead(name)}"
        elif len(name) <= MAX_NAME:
            near = closest(name, _names_of(release), MIN_SIMILARITY)
            if near is not None:
                yield f"no vLLM release reads the variable {quoted(name)}; did you mean {quoted(near)}?"


def _instead(name: str) -> str:
    """The advice to use the replacement that the newest release names; empty if none names one."""
    rows = [row for row in variable_history()[name].values() if row and row.get("replaced_by")]
    return f"; use {listed(rows[-1]['replaced_by'])} instead" if rows else ""


def _is_listed(row: Mapping[str, Any] | None) -> bool:
    return row is not None and row.get("listed", True)


@cache
def _listed() -> frozenset[str]:
    return frozenset(listed_names())


@cache
def _names_of(release: str) -> list[str]:
    return [name for name in listed_names() if _is_listed(row_in(name, release))]
