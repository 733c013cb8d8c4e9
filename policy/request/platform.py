"""Choose the platform of an engine of a manifest.

The request's platform counts first, then that of the image, which has vLLM's build, then the hardware that the manifest
requires, then the only platform that it tolerates, then the default. The warnings say which of them disagree, and why
one counts; what disagrees is also a doubt, because another platform may have a runner of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command_line import Strength
from policy.intake.deployment import PLUGINS, Platform, with_platform
from policy.intake.manifests import images
from policy.intake.provenance import IMAGE
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.intake.command_line import Container, HardwareSign
    from policy.intake.deployment import Environment
    from policy.rules.images import ImageTable

BUILD: Final = "because the image has vLLM's build"
STATED: Final = "which the request states"


def environment_of(
    container: Container, environment: Environment, table: ImageTable, notes: list[str]
) -> tuple[Environment, str]:
    """The environment of a container: the request's, with the platform of the image or of the hardware.

    Returns it with the reason why the platform is not certain, empty if it is certain. Disagreements are added to
    ``notes``.
    """
    image = container.platform or images.platform(container.image, table)
    signs = _strongest(container.hardware)
    if "platform" in environment.stated:
        if image is not None and not _agree(image, environment.platform):
            notes.append(
                f"{_name(container)} is for the platform `{image}`; decided for `{environment.platform}`, {STATED}"
            )
        elif disagreement := _disagreement(signs, environment.platform, STATED):
            notes.append(disagreement)
        return environment, ""
    if image is None or (image == Platform.OUT_OF_TREE and any(sign.platform in PLUGINS for sign in signs)):
        found, doubt = _by_hardware(signs, environment)
        if not signs and image is None:
            doubt = _only_a_folder(container.image, found.platform)
    else:
        found, doubt = with_platform(environment, image, IMAGE), _disagreement(signs, image, BUILD)
    if doubt:
        notes.append(doubt)
    return found, doubt


def _by_hardware(signs: Sequence[HardwareSign], environment: Environment) -> tuple[Environment, str]:
    """The environment with the platform that the hardware shows, if it shows one, and why it is not certain."""
    platforms = list(dict.fromkeys(sign.platform for sign in signs))
    if not platforms:
        return environment, ""
    if len(platforms) > 1:
        doubt = (
            f"the manifest shows several platforms: {_shown(signs)}; decided for `{environment.platform}`, which is "
            "assumed; state the platform"
        )
        return environment, doubt
    doubt = ""
    if signs[0].strength is Strength.TOLERATION and platforms[0] != environment.platform:
        doubt = (
            f"only a toleration shows the platform: {_shown(signs)}; it permits such nodes and does not require them; "
            f"decided for `{platforms[0]}`; request the hardware's resource, or state the platform"
        )
    return with_platform(environment, platforms[0], signs[0].place), doubt


def _only_a_folder(image: str | None, platform: str) -> str:
    """The warning that only a folder in an image's name shows another platform; empty if none does."""
    found = images.platform_of_folder(image)
    if found is None or _agree(found[1], platform):
        return ""
    return (
        f"only a folder in the name of the image {quoted(image)} shows a platform: {quoted(found[0])} ({found[1]}); "
        f"decided for {quoted(platform)}, which is assumed; state the platform"
    )


def _disagreement(signs: Sequence[HardwareSign], platform: str, why: str) -> str:
    """The warning that the required hardware shows a different platform than the one that counts; empty otherwise."""
    required = [sign for sign in signs if sign.strength is not Strength.TOLERATION]
    if not required or any(_agree(sign.platform, platform) for sign in required):
        return ""
    return f"the manifest shows another platform: {_shown(required)}; decided for `{platform}`, {why}"


def _strongest(signs: Sequence[HardwareSign]) -> list[HardwareSign]:
    """The signs of the strongest kind that there is: devices, nodes, or what is only tolerated."""
    strongest = min((sign.strength for sign in signs), default=None)
    return [sign for sign in signs if sign.strength == strongest]


def _agree(one: str, other: str) -> bool:
    """Whether two platforms are the same, or vLLM's name for that of a plugin."""
    return (
        one == other
        or (one == Platform.OUT_OF_TREE and other in PLUGINS)
        or (other == Platform.OUT_OF_TREE and one in PLUGINS)
    )


def _shown(signs: Sequence[HardwareSign]) -> str:
    first = {sign.platform: sign for sign in reversed(signs)}
    return ", ".join(f"{quoted(sign.place)} ({sign.platform})" for sign in reversed(first.values()))


def _name(container: Container) -> str:
    return "the image that the controller chooses" if container.platform else f"the image {quoted(container.image)}"
