"""The flags that a release takes but calls deprecated, and what replaced those that are gone.

Reads `data/deprecations.jsonl`, which `policy.vllm.tablegen.deprecations` makes. A row is keyed by the flag's name in
`EngineArgs`, or by `flag.field` for a field of its object:

- `text`: what vLLM says about it; null if its parser only marks the flag as deprecated.
- `removed_in`: the release in which vLLM says that it will be gone; it may be the same release or an earlier one.
- `replaced_by`: the flags that the text names as replacements, as far as the release has them.
"""

from __future__ import annotations

import json
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.flags import flags
from policy.intake.model.tables import DEPRECATIONS, TABLES_FOLDER, releases_with_flags
from policy.messages import listed

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.command.flags import Flags
    from policy.intake.command.parse_result import ParseResult

SPECULATIVE_CONFIG: Final = ("--speculative-config",)
REPLACEMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    # vLLM 0.8.2 warns that all of these are to be set by `--speculative-config`
    "ngram_prompt_lookup_max": SPECULATIVE_CONFIG,
    "ngram_prompt_lookup_min": SPECULATIVE_CONFIG,
    "num_speculative_tokens": SPECULATIVE_CONFIG,
    "speculative_disable_by_batch_size": SPECULATIVE_CONFIG,
    "speculative_draft_tensor_parallel_size": SPECULATIVE_CONFIG,
    "speculative_max_model_len": SPECULATIVE_CONFIG,
    "speculative_model": SPECULATIVE_CONFIG,
    "speculative_model_quantization": SPECULATIVE_CONFIG,
    # 0.11.0 puts the values of these into that configuration
    "guided_decoding_backend": ("--structured-outputs-config.backend",),
    "guided_decoding_disable_additional_properties": ("--structured-outputs-config.disable_additional_properties",),
    "guided_decoding_disable_any_whitespace": ("--structured-outputs-config.disable_any_whitespace",),
    # https://github.com/vllm-project/vllm/pull/28006
    "rope_scaling": ("--hf-overrides",),
    "rope_theta": ("--hf-overrides",),
    # the warnings of 0.12 and the hint of 0.29
    "task": ("--runner", "--convert"),
}
"""The replacements that no sentence about the flag alone names, by the flag's name in `EngineArgs`."""


@cache
def deprecation_history() -> dict[str, dict[str, Any]]:
    """Flag or `flag.field` → release → the row from this release on, None if it is no longer deprecated."""
    text = (TABLES_FOLDER / f"{DEPRECATIONS}.jsonl").read_text(encoding="utf-8")
    return dict(map(json.loads, text.splitlines()))


@cache
def deprecated_in(release: str) -> dict[str, dict[str, dict[str, Any]]]:
    """Flag → field → row, of a release; the field is empty for the flag itself."""
    order = releases_with_flags()
    known = order[: order.index(release) + 1]
    found: dict[str, dict[str, dict[str, Any]]] = {}
    for key, since in deprecation_history().items():
        row = next((since[version] for version in reversed(known) if version in since), None)
        if row is not None:
            dest, _, member = key.partition(".")
            found.setdefault(dest, {})[member] = row
    return found


@cache
def _names_of(release: str) -> frozenset[str]:
    return frozenset(deprecated_in(release))


def warn_of_deprecated(table: Flags, result: ParseResult) -> None:
    """Warn of each flag that is set, and each field of an object, that the release calls deprecated."""
    names = _names_of(table.release)
    if names.isdisjoint(result.values) and names.isdisjoint(result.others):
        return
    for dest, rows in deprecated_in(table.release).items():
        if dest in result.values:
            value, place = result.values[dest], result.found_at.get(dest)
        elif dest in result.others:
            value, place = result.others[dest]
        else:
            continue
        name = table.by_name[dest].name
        for member, row in rows.items():
            if not member:
                result.warn(_warning(table.release, f"the flag `{name}`{f' ({place})' if place else ''}", row))
            elif _has(value, member):
                result.warn(_warning(table.release, f"`{member}` of `{name}`", row))


def replacement(dest: str, release: str) -> list[str]:
    """The replacements of a flag that an earlier release had, as far as the release has them."""
    rows = [row for row in deprecation_history().get(dest, {}).values() if row and row.get("replaced_by")]
    named = rows[-1]["replaced_by"] if rows else REPLACEMENTS.get(dest, ())
    table = flags(release)
    return [word for word in named if word.partition(".")[0] in table.exact]


def use_instead(dest: str, release: str) -> str:
    """The end of a message that names the replacement of a flag; empty if vLLM names none."""
    named = replacement(dest, release)
    return f"; use {listed(named)} instead" if named else ""


def deprecations_of(dest: str) -> Iterator[dict[str, Any]]:
    """The deprecations of a flag and of its fields, by ranges of releases that say the same."""
    order = releases_with_flags()
    for key, since in deprecation_history().items():
        name, _, member = key.partition(".")
        if name != dest:
            continue
        for start, end in pairwise([*since, ""]):
            row = since[start]
            if row is not None:
                yield {
                    "member": member or None,
                    "values": [],
                    "since": start,
                    "until": order[order.index(end) - 1] if end else None,
                    "text": row["text"],
                    "removed_in": row.get("removed_in"),
                    "replaced_by": row.get("replaced_by", []),
                }


def _warning(release: str, what: str, row: Mapping[str, Any]) -> str:
    said = f': "{row["text"]}"' if row["text"] else ""
    return f"vLLM {release} calls {what} deprecated{said}"


def _has(value: Any, path: str) -> bool:
    """Whether an object has the field at a path of names."""
    for name in path.split("."):
        if type(value) is not dict or name not in value:
            return False
        value = value[name]
    return True
