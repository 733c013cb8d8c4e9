"""The shorthand flags of speculative decoding: `--spec-method`, `--spec-model`, `--spec-tokens`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.command.flags import Flags
    from policy.intake.command.parse_result import ParseResult

SPECULATIVE_FLAGS: Final = {"spec_method": "method", "spec_model": "model", "spec_tokens": "num_speculative_tokens"}


def set_speculative(table: Flags, result: ParseResult) -> None:
    """Merge `--spec-method`, `--spec-model` and `--spec-tokens` into the speculative option.

    Where the release allows it, the option's keys may have dashes in place of underscores.
    """
    given = result.values.get("speculative_config")
    if given is not None and type(given) is not dict:
        result.refuse(
            result.found_at["speculative_config"],
            f'`--speculative-config`: expected a JSON object such as `{{"key": "value"}}`, got {quoted(given)}',
        )
        given = None
    merged = {} if given is None else given
    if table.by_name["speculative_config"].dashes:
        merged = {key.replace("-", "_"): value for key, value in merged.items()}
    for dest, key in SPECULATIVE_FLAGS.items():
        value = result.values.pop(dest, None)
        place = result.found_at.pop(dest, "")
        if value is None:
            continue
        if key in merged:
            result.refuse(
                place,
                f"`--{dest.replace('_', '-')}` and the key `{key}` of `--speculative-config` exclude each other; "
                "keep one",
            )
        merged = {**merged, key: value}
        result.found_at[f"speculative_config.{key}"] = place
        result.found_at.setdefault("speculative_config", place)
    if merged or "speculative_config" in result.values:
        result.values["speculative_config"] = merged if merged or given is not None else None
