"""Parallelism: the executor, and what the CPU platform does not support.

Follows ``ParallelConfig.__post_init__``, 0.20 to 0.33.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.provenance import Provenance

BACKEND: Final = "parallel_config.distributed_executor_backend"
RANKS: Final = "parallel_config.data_parallel_size"
WORLD: Final = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size")
PLATFORM: Final = "environment.platform"
MULTIPROCESSING_VARIABLE: Final = "VLLM_ENABLE_V1_MULTIPROCESSING"
RANKS_VARIABLE: Final = "VLLM_DP_SIZE"
RANKS_TEXT: Final = re.compile(r"\+?0{0,9}[1-9][0-9]{0,8}", re.ASCII)
"""Matches a number of ranks in the variable; Python reads no number of more than 4,300 digits."""


def derive_parallel(derived: Provenance, options: ParsedOptions, env: Mapping[str, str]) -> None:
    """Set the facts of the executor and of data parallelism; the other sizes are set by their options."""
    ranks, place = _data_parallel_size(options, env)
    if ranks > 1:
        derived.facts[RANKS] = ranks, place
    backend = options.values.get("distributed_executor_backend")
    stated = None if backend is None else (backend, options.place("distributed_executor_backend"))
    derived.facts[BACKEND] = stated or _backend(options, derived.facts[RANKS])


def derive_on_cpu(derived: Provenance, env: Mapping[str, str], series: tuple[int, int]) -> None:
    """Apply the CPU platform's hook."""
    if derived.facts["parallel_config.enable_dbo"][0]:
        derived.facts["parallel_config.enable_dbo"] = False, PLATFORM
    if derived.facts[BACKEND][0] == "uni" and (series < (0, 23) or env.get(MULTIPROCESSING_VARIABLE, "1") == "1"):
        derived.facts[BACKEND] = "mp", PLATFORM


def _data_parallel_size(options: ParsedOptions, env: Mapping[str, str]) -> tuple[int, str]:
    """The number of data-parallel ranks, and what states it: the variable if the option states only one."""
    size = options.values.get("data_parallel_size", 1)
    local = options.others.get("data_parallel_size_local", (None, ""))[0]
    if (isinstance(size, int) and size > 1) or local == 0:
        return size if isinstance(size, int) else 1, options.place("data_parallel_size")
    text = env.get(RANKS_VARIABLE)
    if text is None or RANKS_TEXT.fullmatch(text.strip()) is None:
        return 1, "default"
    return int(text), f"env.{RANKS_VARIABLE}"


def _backend(options: ParsedOptions, ranks: tuple[int, str]) -> tuple[str, str]:
    """The default executor: ``uni`` for one device, ``ray`` if data parallelism runs on it, else ``mp``."""
    for name in WORLD:
        if options.values.get(name, 1) != 1:
            return _of_several(options, options.place(name))
    return ("uni", "default") if ranks[0] == 1 else _of_several(options, ranks[1])


def _of_several(options: ParsedOptions, place: str) -> tuple[str, str]:
    """The default executor for several devices; ``place`` is that of the first option or variable that needs them."""
    if options.values.get("data_parallel_backend") == "ray":
        return "ray", options.place("data_parallel_backend")
    return "mp", place
