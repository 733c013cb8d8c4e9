"""A container image's name: whether the image starts vLLM by default, its release of vLLM, and its platform.

Knows the names of images that run vLLM, and the one family whose tags are vLLM's versions: ``vllm/vllm-openai`` and its
builds for other hardware, from any registry or mirror. Tags of other images (llm-d, LMCache, Dynamo, ROCm, AIBrix …)
are those projects' own versions.
"""

from __future__ import annotations

import re
from typing import Final

from policy.intake.command.installation import VERSION
from policy.rules.releases import is_variant

OFFICIAL: Final = re.compile(r"(?:.*/)?vllm/vllm-openai(?:-[a-z0-9]+)*")
SERVES: Final = re.compile(r"vllm-openai(?:-[a-z0-9]+)*")
STARTS: Final = re.compile(
    r"vllm-openai(?:-[a-z0-9]+)*|vllm|vllm-(?:cpu|gpu|cuda|tpu|xpu|rocm|hpu|gaudi|neuron|spyre|omni)(?:-[a-z0-9-]+)?"
    r"|llm-d(?:-(?:cuda|cpu|rocm|xpu|hpu|aws|gb200)(?:-dev)?)?"
)
NAMES: Final = re.compile(r"(?<![a-z0-9])vllm(?![a-z0-9])")
KSERVE_SERVER: Final = re.compile(r"huggingfaceserver(?:-[a-z0-9]+)*")
"""KServe's own server, which takes its arguments and starts vLLM in its own process."""
RELEASE: Final = re.compile(rf"v?({VERSION})(?:[-_.]([\w.-]*))?", re.ASCII)
PLATFORM: Final = re.compile(r"(?<![a-z0-9])(cpu|rocm|xpu|tpu|hpu|gaudi|neuron|spyre|ascend)(?:\d[\d.]*)?(?![a-z0-9])")
"""Matches the hardware in an image's name or tag: `vllm-openai-rocm`, `rocm/vllm`, `v0.23.0-cpu`."""
IN_TREE: Final = frozenset({"cpu", "rocm", "xpu", "tpu"})
"""The hardware that is a platform of vLLM itself; the other comes from plugins."""
SEPARATORS: Final = re.compile(r"[-_.]+")
MAX_SUFFIX: Final = 32
MAX_NAME: Final = 1024


def parts(image: str) -> tuple[str, str | None, str | None]:
    """The repository, tag and digest of an image's name; a missing part is None."""
    name, _, digest = image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    return repository, tag or None, digest or None


def starts_vllm(image: str | None) -> bool:
    """Whether a container of this image runs vLLM even if the manifest states no command."""
    return STARTS.fullmatch(_name(image)) is not None


def serves_its_arguments(image: str | None) -> bool:
    """Whether the image's entry point is `vllm serve`; other images may run their arguments as a command."""
    return SERVES.fullmatch(_name(image)) is not None


def names_vllm(image: str | None) -> bool:
    """Whether a container of this image may run vLLM with the arguments of the manifest: its name contains `vllm`."""
    return NAMES.search(_name(image)) is not None


def is_kserve_server(image: str | None) -> bool:
    """Whether the image's entry point is KServe's Hugging Face server."""
    return KSERVE_SERVER.fullmatch(_name(image)) is not None


def platform(image: str | None) -> str | None:
    """The platform of an image that runs vLLM, as vLLM names it; None if its name does not show one.

    Only the last two parts of the repository count: a registry may have any name.
    """
    if not (starts_vllm(image) or names_vllm(image)) or image is None:
        return None
    repository, tag, _ = parts(image.lower())
    found = PLATFORM.search("/".join(repository.split("/")[-2:])) or PLATFORM.search(tag or "")
    if found is None:
        return None
    return found[1] if found[1] in IN_TREE else "out-of-tree"


def _name(image: str | None) -> str:
    """The last part of the repository of an image, in lower case; empty if the image is not known."""
    if image is None or len(image) > MAX_NAME:
        return ""
    return parts(image)[0].rpartition("/")[2].lower()


def release(image: str | None) -> tuple[str | None, str | None]:
    """The version of vLLM in an image by its tag, or why the image's name does not have it.

    A suffix that is not an official variant, such as ``-mypatch``, is the local version of a custom build.
    """
    if image is None or len(image) > MAX_NAME:
        return None, None
    repository, tag, digest = parts(image)
    if digest is not None:
        return None, f"the image `{image}` is named by its digest, which says nothing of vLLM's version"
    if OFFICIAL.fullmatch(repository.lower()) is None:
        return None, f"the tag of the image `{image}` does not name vLLM's version"
    found = RELEASE.fullmatch(tag or "")
    if found is None:
        return None, f"the tag of the image `{image}` names no release of vLLM"
    suffix = (found[2] or "").lower()
    if not suffix or is_variant(suffix):
        return found[1], None
    local = SEPARATORS.sub(".", suffix)[:MAX_SUFFIX].strip(".")
    return (f"{found[1]}+{local}" if local else found[1]), None
