"""Whether vLLM on a CPU has a Triton that it uses, where nobody states it.

Follows ``vllm/triton_utils/importing.py``: from 0.23 on, a build for CPUs uses Triton if it has triton-cpu. vLLM's own
images for CPUs have it on x86-64 from 0.23 on (``docker/Dockerfile.cpu``), and all builds for CPUs from 0.31 on
(``requirements/cpu.txt``). On Arm none of them has it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from policy.facts.vocabulary import INDEX
from policy.intake.deployment import Platform
from policy.intake.derive.target_device import TARGET_DEVICE
from policy.rules.images import NEVER
from policy.rules.releases import series as series_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.facts.facts import Facts
    from policy.intake.deployment import Environment

HAS_TRITON: Final = INDEX["platform.has_triton"]
USED_SINCE: Final = (0, 23)
"""The first series that uses Triton on a CPU."""
REQUIRED_SINCE: Final = "0.31.0"
"""The first release whose builds for CPUs require triton-cpu on x86-64."""
OF_IMAGE: Final = (
    "Triton is assumed: this image for CPUs has triton-cpu on x86-64 from {} on, and not on Arm, where vLLM would "
    "decide otherwise; state `has_triton` in `environment`"
)
OF_BUILD: Final = (
    "Triton is assumed: vLLM's builds for CPUs require triton-cpu on x86-64 from {} on, and not on Arm, where vLLM "
    "would decide otherwise; state `has_triton` in `environment`"
)
NONE: Final = (
    "no Triton is assumed; with triton-cpu, which vLLM's own images for CPUs have on x86-64 from 0.23.0 on, vLLM would "
    "decide otherwise; state `has_triton` in `environment`"
)


def assume_triton(environment: Environment, series: tuple[int, int]) -> Environment:
    """The environment with what is assumed about Triton on a CPU in a release of ``series``, unless it is stated."""
    if not _is_assumed(environment):
        return environment
    return replace(environment, has_triton=series >= series_of(environment.triton_since or REQUIRED_SINCE))


def triton_warnings(
    environment: Environment,
    series: tuple[int, int],
    facts: Facts,
    rules: Callable[[Facts], tuple[str | None, bool]],
) -> list[str]:
    """The warning about an assumption that was made on a CPU, if the rules decide otherwise without it."""
    if series < USED_SINCE or not _is_assumed(environment):
        return []
    if rules(facts) == rules(facts.changed(HAS_TRITON, not environment.has_triton)):
        return []
    if not environment.has_triton:
        return [NONE]
    since = environment.triton_since
    return [OF_IMAGE.format(since) if since else OF_BUILD.format(REQUIRED_SINCE)]


def _is_assumed(environment: Environment) -> bool:
    """Whether something is assumed about triton-cpu: not for Arm, nor for a build for other hardware on a CPU."""
    return (
        environment.platform == Platform.CPU
        and "has_triton" not in environment.stated
        and environment.triton_since != NEVER
        and environment.platform_origin != f"env.{TARGET_DEVICE}"
    )
