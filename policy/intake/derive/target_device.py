"""The platform that ``VLLM_TARGET_DEVICE`` selects when vLLM runs.

Follows ``resolve_current_platform_cls_qualname`` of ``vllm/platforms/__init__.py``: from 0.28 on the value ``cpu``, in
any case, precedes every detection and plugin. Otherwise only vLLM's build reads the variable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.deployment import with_platform
from policy.intake.provenance import IMAGE
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.deployment import Environment

TARGET_DEVICE: Final = "VLLM_TARGET_DEVICE"
TARGET_DEVICE_SINCE: Final = (0, 28)
"""The first series that reads the variable when it runs."""
CPU: Final = "cpu"
DEVICES: Final = {"cuda": {"cuda"}, "rocm": {"rocm"}, "xpu": {"xpu"}, CPU: {CPU}, "tpu": {"tpu", "out-of-tree"}}
"""The values of the variable that name a platform, each with the platforms that it does not contradict."""


def select_platform(
    environment: Environment, env: Mapping[str, str], series: tuple[int, int]
) -> tuple[Environment, list[str]]:
    """The environment with the platform that the variable selects, and a warning if the two disagree."""
    if TARGET_DEVICE not in env:
        return environment, []
    device = env[TARGET_DEVICE].lower()
    platform = environment.platform
    if platform in DEVICES.get(device, {platform}):
        return environment, []
    if device != CPU or series < TARGET_DEVICE_SINCE:
        return environment, [
            (
                f"decided for the platform `{platform}`, although {TARGET_DEVICE} is {quoted(env[TARGET_DEVICE])}: "
                f"vLLM chooses no platform by it, except `{CPU}` from 0.28 on; state the platform if it is another"
            )
        ]
    warnings = []
    if "platform" in environment.stated:
        origin = environment.platform_origin
        stated = "the image's name shows" if origin == IMAGE else f"{origin} shows" if origin else "the request states"
        warnings.append(f"{TARGET_DEVICE} makes vLLM choose the platform `{CPU}`, not `{platform}`, which {stated}")
    return with_platform(environment, CPU, f"env.{TARGET_DEVICE}"), warnings
