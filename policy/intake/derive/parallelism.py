"""Parallelism: the executor, and what the CPU platform does not support.

Follows ``ParallelConfig.__post_init__``, 0.20 to 0.33.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions
    from policy.intake.provenance import Provenance

BACKEND: Final = "parallel_config.distributed_executor_backend"
RANKS: Final = "parallel_config.data_parallel_size"
WORLD: Final = ("tensor_parallel_size", "pipeline_parallel_size", "prefill_context_parallel_size", "data_parallel_size")
PLATFORM: Final = "environment.platform"
MULTIPROCESSING: Final = "VLLM_ENABLE_V1_MULTIPROCESSING"


def derive_parallel(derived: Provenance, options: ParsedOptions) -> None:
    """Set the facts of the executor and of data parallelism; the other sizes are set by their options."""
    ranks = data_parallel_size(options)
    if ranks > 1:
        derived.facts[RANKS] = ranks, options.place("data_parallel_size")
    backend = options.values.get("distributed_executor_backend")
    stated = None if backend is None else (backend, options.place("distributed_executor_backend"))
    derived.facts[BACKEND] = stated or _backend(options)


def derive_on_cpu(derived: Provenance, env: Mapping[str, str], series: tuple[int, int]) -> None:
    """Apply the CPU platform's hook."""
    if derived.facts["parallel_config.enable_dbo"][0]:
        derived.facts["parallel_config.enable_dbo"] = False, PLATFORM
    if derived.facts[BACKEND][0] == "uni" and (series < (0, 23) or env.get(MULTIPROCESSING, "1") == "1"):
        derived.facts[BACKEND] = "mp", PLATFORM


def data_parallel_size(options: ParsedOptions) -> int:
    """The number of data-parallel ranks."""
    size = options.values.get("data_parallel_size", 1)
    return size if isinstance(size, int) else 1


def _backend(options: ParsedOptions) -> tuple[str, str]:
    """The default executor: ``uni`` for one device, ``ray`` if data parallelism runs on it, else ``mp``."""
    for name in WORLD:
        if options.values.get(name, 1) != 1:
            by_ray = options.values.get("data_parallel_backend") == "ray"
            return ("ray", options.place("data_parallel_backend")) if by_ray else ("mp", options.place(name))
    return "uni", "default"
