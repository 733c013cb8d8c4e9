"""What a container image's name shows: whether it starts vLLM by default, its release, platform and working folder.

Splits names, and reads the words in them that show vLLM and hardware. Which images contain which vLLM is in the
``table`` of images (``policy.rules.images``).
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from policy.messages import quoted
from policy.rules.images import NEVER, NO_PLATFORM, EntryPoint

if TYPE_CHECKING:
    from policy.rules.images import ImageRelease, ImageRow, ImageTable

VLLM_NAME: Final = re.compile(r"(?<![a-z0-9])vllm(?![a-z0-9])")
LEGAL_NAME: Final = re.compile(r"[a-z0-9._-]*")
"""Matches the characters of an image's name; a template or a variable has others."""
PLACEHOLDER: Final = re.compile(r"\{\{[^{}]*\}\}|\$\{[^{}]*\}")
"""Matches a template (`{{ .Values.image }}`) or a variable, which may contain separators."""
PLATFORM: Final = re.compile(
    r"(?<![a-z0-9])(cpu|cuda|cu(?=\d)|rocm|xpu|tpu|hpu|gaudi|neuronx?|inferentia|trainium|openvino|rbln|spyre|ascend|npu"
    r"|tenstorrent)(?:\d[\d.]*)?(?![a-z0-9])"
)
"""Matches the hardware in an image's name or tag: `vllm-openai-rocm`, `v0.23.0-cpu`, `v0.33.0-cu129`."""
ARM: Final = re.compile(r"(?<![a-z0-9])(?:arm64|aarch64)(?![a-z0-9])")
"""Matches the word for Arm in an image's name or tag: `vllm-arm64-cpu`, `v0.23.0-aarch64`."""
OTHER_NAMES: Final = {
    "cu": "cuda",
    "hpu": "gaudi",
    "npu": "ascend",
    **dict.fromkeys(("inferentia", "neuronx", "trainium"), "neuron"),
}
"""The words for hardware that are not the name of its platform."""
VLLM_ENTRY_POINTS: Final = frozenset({EntryPoint.VLLM_SERVE, EntryPoint.VLLM, EntryPoint.VLLM_OMNI})
VLLM_SERVE: Final = ("vllm", "serve")
OMNI_SERVE: Final = (*VLLM_SERVE, "--omni")
MAX_NAME: Final = 1024


class ImageVersion(Struct, frozen=True):
    """The version of vLLM in an image, or why it is not known.

    ``version`` is None if it is not known, and ``unversioned`` says why; ``row`` is the id of the row that has the
    image. ``doubt`` says why another vLLM may run, and is empty if none does. ``is_presumed``: whether the version
    counts only if it is a known release. ``env`` has the variables of the image.
    """

    version: str | None = None
    unversioned: str = ""
    row: str = ""
    doubt: str = ""
    is_presumed: bool = False
    env: dict[str, str] = {}


def split_name(image: str) -> tuple[str, str | None, str | None]:
    """The repository, tag and digest in an image's name; None for a missing tag or digest."""
    name, _, digest = image.partition("@")
    repository, colon, tag = name.rpartition(":")
    if not colon or "/" in tag:
        repository, tag = name, ""
    return repository, tag or None, digest or None


def starts_vllm(image: str | None, table: ImageTable) -> bool:
    """Whether a container of this image runs vLLM by default, without a command in the manifest."""
    return _entry_point(image, table) in VLLM_ENTRY_POINTS


def starts_omni(image: str | None, table: ImageTable) -> bool:
    """Whether the image is vLLM-Omni's, which starts it by default."""
    return _entry_point(image, table) is EntryPoint.VLLM_OMNI


def serves_its_arguments(image: str | None, table: ImageTable) -> bool:
    """Whether the image's entry point is `vllm serve`; other images may run the arguments as a command."""
    return _entry_point(image, table) is EntryPoint.VLLM_SERVE


def entry_point(image: str | None, table: ImageTable) -> tuple[str, ...]:
    """The words of the entry point of an image that runs vLLM, or its fork, by default."""
    return OMNI_SERVE if _entry_point(image, table) is EntryPoint.VLLM_OMNI else VLLM_SERVE


def is_kserve_server(image: str | None, table: ImageTable) -> bool:
    """Whether the image's entry point is KServe's Hugging Face server."""
    return _entry_point(image, table) is EntryPoint.HUGGINGFACESERVER


def runs_other_program(image: str | None, table: ImageTable) -> bool:
    """Whether the image is known to run a program other than vLLM, even if its arguments are like vLLM's."""
    return _entry_point(image, table) is EntryPoint.OTHER


def names_vllm(image: str | None) -> bool:
    """Whether the image's name contains `vllm`, so that it may run vLLM with the manifest's arguments."""
    return VLLM_NAME.search(_last(image)) is not None


def has_vllm_in_name(image: str | None) -> bool:
    """Whether vLLM is anywhere in the image's name, as in `neuron-vllm0.5.0`; its program may be another one."""
    return "vllm" in _last(image)


def is_unknown(image: str | None) -> bool:
    """Whether the manifest does not show the image's name: it is absent, or has a template or a variable."""
    if image is None:
        return True
    return len(image) <= MAX_NAME and LEGAL_NAME.fullmatch(_last(PLACEHOLDER.sub("{}", image))) is None


def is_placeholder(image: str) -> bool:
    """Whether no part of the image's name is known."""
    return PLACEHOLDER.fullmatch(image) is not None


def platform(image: str | None, table: ImageTable) -> str | None:
    """The platform of an image with vLLM in its name or tag; None if neither its row nor its name shows it.

    What the table says of the tag counts first, then a word in the tag, then the row, then a word in the last component
    of the repository. The components before it name the registry and its owners, who may have any name.
    """
    if image is None or len(image) > MAX_NAME:
        return None
    row, release = _release_of(image, table)
    if row is None and not (names_vllm(image) or VLLM_NAME.search((_parts(image)[1] or "").lower())):
        return None
    of_row = None if row is None else row.platform
    if release is not None and release.platform != of_row:
        return release.platform
    repository, tag, _ = split_name(image.lower())
    return _word(tag or "") or of_row or _word(repository.rpartition("/")[2])


def working_folder(image: str | None, table: ImageTable) -> str:
    """The working folder of an image's containers where a manifest states none; empty if the table has none."""
    if image is None or len(image) > MAX_NAME:
        return ""
    row, release = _release_of(image, table)
    if row is None or (release is not None and release.working_folder):
        return "" if release is None else release.working_folder
    folders = row.working_folders
    return (folders.get(platform(image, table) or NO_PLATFORM) or folders.get("", "")) if folders else ""


def triton_since(image: str | None, table: ImageTable) -> str:
    """The first release in which an image for CPUs has Triton: ``never`` for Arm, empty if that is not known."""
    if image is None or platform(image, table) != "cpu":
        return ""
    repository, tag, _ = split_name(image.lower())
    if ARM.search(repository.rpartition("/")[2]) or ARM.search(tag or ""):
        return NEVER
    row, _ = _release_of(image, table)
    return "" if row is None else row.triton_since


def platform_of_folder(image: str | None) -> tuple[str, str] | None:
    """The first folder in the name of an image of vLLM that names a platform, and the platform; None if none does.

    The first component is not a folder but the registry, if it is a host.
    """
    if image is None or len(image) > MAX_NAME or not names_vllm(image):
        return None
    first, *others = _repository(image).split("/")[:-1] or [""]
    is_host = "." in first or ":" in first or first == "localhost"
    found = [(folder, _word(folder)) for folder in (others if is_host else [first, *others])]
    return next(((folder, platform) for folder, platform in found if platform is not None), None)


def _word(text: str) -> str | None:
    """The platform that a word in an image's name or tag shows."""
    found = PLATFORM.search(text)
    return None if found is None else OTHER_NAMES.get(found[1], found[1])


def _last(image: str | None) -> str:
    """The last component of an image's repository, in lower case; empty if the image is unknown."""
    return _repository(image).rpartition("/")[2]


def _repository(image: str | None) -> str:
    """An image's repository in lower case; empty if the image is unknown."""
    return "" if image is None or len(image) > MAX_NAME else _parts(image)[0]


@lru_cache(maxsize=256)
def _parts(image: str) -> tuple[str, str | None, str | None]:
    """An image's repository in lower case, its tag and its digest."""
    repository, tag, digest = split_name(image)
    return repository.lower(), tag, digest


def _row(image: str | None, table: ImageTable) -> ImageRow | None:
    return table.row_of(_repository(image))


def _release_of(image: str, table: ImageTable) -> tuple[ImageRow | None, ImageRelease | None]:
    """The row that has an image, and the release that the row has for its digest, else for its tag."""
    name, tag, digest = _parts(image)
    return table.row_of(name), table.release_of(name, tag, digest)


def _entry_point(image: str | None, table: ImageTable) -> EntryPoint | None:
    row = _row(image, table)
    return None if row is None else row.entry_point


def version_of(image: str | None, table: ImageTable) -> ImageVersion:
    """The version of vLLM in an image, by its digest or its tag, or why the table does not have it.

    A tag beside a digest is only likely: the digest decides which image runs.
    """
    if image is None or len(image) > MAX_NAME:
        return ImageVersion()
    row, found = _release_of(image, table)
    digest = _parts(image)[2]
    if row is None or found is None:
        return ImageVersion(unversioned=_unversioned(image, digest, row), row="" if row is None else row.id)
    doubt = ""
    if digest is not None and row.by_digest(digest) is None:
        doubt = f"the digest of the image {quoted(image)} decides which vLLM runs, and its tag may name another"
    elif found.is_custom:
        doubt = f"the vLLM in the image {quoted(image)} is a custom build of {found.version}"
    return ImageVersion(found.version, "", row.id, doubt, found.is_presumed, dict(found.env))


def _unversioned(image: str, digest: str | None, row: ImageRow | None) -> str:
    shown = quoted(image, MAX_NAME)
    if digest is not None:
        return f"the image {shown} is named by its digest, which does not show vLLM's version"
    if row is None or not row.has_releases:
        return f"the tag of the image {shown} does not name vLLM's version"
    if any(each.pattern.has_release for each in row.patterns):
        return f"the tag of the image {shown} names no release of vLLM"
    return f"the table of images has no release of vLLM for the tag of {shown} (`{row.id}`)"
