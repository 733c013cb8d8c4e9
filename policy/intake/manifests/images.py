"""What a container image's name shows: whether it starts vLLM by default, its vLLM release, and its platform.

Has the names of images that run vLLM. Only the tags of ``vllm/vllm-openai`` and its builds for other hardware, from any
registry or mirror, are vLLM's versions; those of other images (llm-d, LMCache, Dynamo, ROCm, AIBrix …) are versions of
their projects.
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
LEGAL: Final = re.compile(r"[a-z0-9._-]*")
"""Matches the characters of an image's name; a template or a variable has others."""
PLACEHOLDER: Final = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")
"""Matches a template (`{{ .Values.image }}`) or a variable, which may contain separators."""
KSERVE_SERVER: Final = re.compile(r"huggingfaceserver(?:-[a-z0-9]+)*")
"""KServe's own server, which has its own arguments and runs vLLM in its process."""
RELEASE: Final = re.compile(rf"v?({VERSION})(?:[-_.]([\w.-]*))?", re.ASCII)
PLATFORM: Final = re.compile(r"(?<![a-z0-9])(cpu|rocm|xpu|tpu|hpu|gaudi|neuron|spyre|ascend)(?:\d[\d.]*)?(?![a-z0-9])")
"""Matches the hardware in an image's name or tag: `vllm-openai-rocm`, `rocm/vllm`, `v0.23.0-cpu`."""
IN_TREE: Final = frozenset({"cpu", "rocm", "xpu", "tpu"})
"""The hardware that vLLM itself supports as a platform; other hardware needs plugins."""
SEPARATORS: Final = re.compile(r"[-_.]+")
MAX_SUFFIX: Final = 32
MAX_NAME: Final = 1024


def split_name(image: str) -> tuple[str, str | None, str | None]:
    """The repository, tag and digest in an image's name; None for a missing tag or digest."""
    name, _, digest = image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    return repository, tag or None, digest or None


def starts_vllm(image: str | None) -> bool:
    """Whether a container of this image runs vLLM by default, without a command in the manifest."""
    return STARTS.fullmatch(_name(image)) is not None


def serves_its_arguments(image: str | None) -> bool:
    """Whether the image's entry point is `vllm serve`; other images may run the arguments as a command."""
    return SERVES.fullmatch(_name(image)) is not None


def names_vllm(image: str | None) -> bool:
    """Whether the image's name contains `vllm`, so that it may run vLLM with the manifest's arguments."""
    return NAMES.search(_name(image)) is not None


def is_kserve_server(image: str | None) -> bool:
    """Whether the image's entry point is KServe's Hugging Face server."""
    return KSERVE_SERVER.fullmatch(_name(image)) is not None


def is_unknown(image: str | None) -> bool:
    """Whether the manifest does not show the image's name: it is absent, or has a template or a variable."""
    if image is None:
        return True
    return len(image) <= MAX_NAME and LEGAL.fullmatch(_name(PLACEHOLDER.sub("{}", image))) is None


def platform(image: str | None) -> str | None:
    """The platform of an image that runs vLLM, by vLLM's name; None if the image's name does not show it.

    Only the last two components of the repository count, because a registry may have any name.
    """
    if not (starts_vllm(image) or names_vllm(image)) or image is None:
        return None
    repository, tag, _ = split_name(image.lower())
    found = PLATFORM.search("/".join(repository.split("/")[-2:])) or PLATFORM.search(tag or "")
    if found is None:
        return None
    return found[1] if found[1] in IN_TREE else "out-of-tree"


def _name(image: str | None) -> str:
    """The last component of an image's repository, in lower case; empty if the image is unknown."""
    if image is None or len(image) > MAX_NAME:
        return ""
    return split_name(image)[0].rpartition("/")[2].lower()


def release(image: str | None) -> tuple[str | None, str | None]:
    """The version of vLLM in an image, from its tag, or why its name does not show it.

    A suffix that is not an official variant, such as ``-mypatch``, is the local version of a custom build.
    """
    if image is None or len(image) > MAX_NAME:
        return None, None
    repository, tag, digest = split_name(image)
    if digest is not None:
        return None, f"the image `{image}` is named by its digest, which does not show vLLM's version"
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
