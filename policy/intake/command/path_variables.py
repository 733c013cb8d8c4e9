"""The variables that can change which vLLM runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Installation

if TYPE_CHECKING:
    from collections.abc import Mapping

PATH_VARIABLES: Final = (
    *("PATH", "PYTHONPATH", "PYTHONHOME", "PYTHONUSERBASE", "PYTHONPLATLIBDIR"),
    *("LD_PRELOAD", "LD_AUDIT"),
)
"""The variables that can change which vLLM runs; `LD_LIBRARY_PATH` cannot, as it does not affect Python modules."""
_PATH_VARIABLES: Final = frozenset(PATH_VARIABLES)


def vllm_of_variables(*environments: Mapping[str, str | None]) -> Installation | None:
    """The vLLM that may run instead of the image's because of a variable, if any."""
    if all(map(_PATH_VARIABLES.isdisjoint, environments)):  # as most are; searching them for each name takes 3 µs
        return None
    name = next(
        (name for name in PATH_VARIABLES if any(environment.get(name, "") != "" for environment in environments)), None
    )
    return None if name is None else Installation(None, f"the variable `{name}` may make another vLLM run")
