"""Asynchronous scheduling: the fact ``scheduler_config.async_scheduling``.

Supplies the inputs of the tables' formula for ``VllmConfig.__post_init__``, and evaluates the rules for the runner when
vLLM does.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from policy.intake.derive.parallelism import BACKEND, PLATFORM
from policy.intake.model.formula import Incomputable, compute
from policy.intake.model.tables import tables as tables_of
from policy.intake.provenance import DEFAULT

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.derive.speculation import Speculation
    from policy.intake.model.tables import Tables
    from policy.intake.provenance import Provenance

FACT: Final = "scheduler_config.async_scheduling"
EXECUTORS: Final = frozenset({"uni", "mp", "external_launcher"})
RAY_V2: Final = "VLLM_USE_RAY_V2_EXECUTOR_BACKEND"
"""Selects the executor for `ray`.

The older one, which schedules synchronously, is the default in 0.20, and is used up to 0.32 if this is 0; 0.33 has only
the newer one.
"""


INPUTS: Final = (
    "model_config.runner_type",
    "executor_class.supports_async_scheduling",
    "platform.is_rocm",
    "parallel_config.enable_dbo",
    "parallel_config.all2all_backend",
    "speculative_config",
    "speculative_config.method",
    "speculative_config.disable_padded_drafter_batch",
    "parallel_config.pipeline_parallel_size",
)
"""The inputs of the formula other than the runner, by vLLM's names."""
ORIGINS: Final = {INPUTS[1]: BACKEND, INPUTS[4]: "parallel_config.enable_dbo", INPUTS[7]: "speculative_config"}


def derive_scheduling(
    derived: Provenance,
    speculation: Speculation | None,
    options: ParsedOptions,
    env: Mapping[str, str],
    platform: str,
    tables: Tables,
    runs_on_v2: Callable[[], bool],
) -> None:
    """Set the fact to the stated value, or to vLLM's choice.

    ``runs_on_v2`` evaluates the rules with the facts derived so far, as vLLM does at this point from 0.31 on.
    """
    stated = options.values.get("async_scheduling")
    if platform == "cpu":
        derived.facts[FACT] = False, PLATFORM
    elif stated is not None:
        derived.facts[FACT] = stated, options.place("async_scheduling")
    else:
        facts = derived.facts
        backend = facts[BACKEND][0]
        known = (
            facts["model_config.runner_type"][0],
            backend in EXECUTORS or (backend == "ray" and _is_ray_v2(env, tables.series)),
            platform == "rocm",
            facts["parallel_config.enable_dbo"][0],
            options.values.get("all2all_backend"),
            None if speculation is None else True,
            facts["speculative_config.method"][0] if speculation is not None else None,
            speculation is not None and bool(speculation.keys.get("disable_padded_drafter_batch")),
            facts["parallel_config.pipeline_parallel_size"][0],
        )
        (chosen, decisive), other = _choices(tables.release, known)
        if other[0] != chosen and runs_on_v2():
            chosen, decisive = other
        facts[FACT] = chosen, DEFAULT if chosen else facts.get(ORIGINS.get(decisive, decisive), (None, DEFAULT))[1]


def _is_ray_v2(env: Mapping[str, str], series: tuple[int, int]) -> bool:
    return series >= (0, 33) or env.get(RAY_V2, "1" if series >= (0, 21) else "0").strip() != "0"


@lru_cache(maxsize=1024)
def _choices(release: str, known: tuple[Any, ...]) -> tuple[tuple[bool, str], tuple[bool, str]]:
    """A release's choices with V1 and with V2, cached together: two lookups would take 0.4 % more instructions."""
    return _choose(release, known, v2=False), _choose(release, known, v2=True)


def _choose(release: str, known: tuple[Any, ...], *, v2: bool) -> tuple[bool, str]:
    """A release's choice with a runner, and the last input that its formula read: the cause if it is synchronous."""
    values = dict(zip(INPUTS, known, strict=True)) | {"model_config": True, "use_v2_model_runner": v2}
    last = ""

    def key(name: str) -> Any:
        nonlocal last
        last = name if name in INPUTS else last
        return values.get(name)

    try:
        return bool(compute(tables_of(release).constants["async_scheduling"], key)), last
    except Incomputable:
        return True, last
