"""Programs that start a container: `docker run`, `podman run`, `nerdctl run`.

Finds the image of the container. Not here: the containers of a manifest (`policy.intake.manifests`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Sequence

CONTAINER_PROGRAMS: Final = frozenset({"docker", "podman", "nerdctl"})
RUN: Final = "run"
FLAGS_WITHOUT_VALUE: Final = frozenset(
    {
        *("--detach", "--disable-content-trust", "--env-host", "--http-proxy", "--init", "--interactive"),
        *("--no-healthcheck", "--no-hostname", "--no-hosts", "--oom-kill-disable", "--passwd", "--privileged"),
        *("--publish-all", "--quiet", "--read-only", "--read-only-tmpfs", "--replace", "--rm", "--rmi", "--rootfs"),
        *("--sig-proxy", "--tls-verify", "--tty", "--use-api-socket"),
    }
)
"""The flags of `run` that take no value as a word of its own; all others do."""
LETTERS_WITHOUT_VALUE: Final = frozenset("diPqt")
LLM_D: Final = frozenset(
    {"llm-d", *(f"llm-d-{kind}" for kind in ("cuda", "cpu", "rocm", "xpu", "hpu", "aws", "gb200"))}
)


def started_image(words: Sequence[str], start: int) -> str | None:
    """The image of vLLM whose container a command starts, from the program at ``start`` on; None if there is none."""
    programs = (at for at in range(start, len(words)) if words[at].rpartition("/")[2] in CONTAINER_PROGRAMS)
    at = next(programs, None)
    if at is None or RUN not in words[at:]:
        return None
    at = words.index(RUN, at) + 1
    while at < len(words) and words[at].startswith("-"):
        at += 2 if _takes_next_word(words[at]) else 1
    return words[at] if at < len(words) and _contains_vllm(words[at]) else None


def _takes_next_word(flag: str) -> bool:
    """Whether the value of a flag of `run` is the next word."""
    if flag.startswith("--"):
        return "=" not in flag and flag not in FLAGS_WITHOUT_VALUE
    letters = flag[1:].lstrip("".join(LETTERS_WITHOUT_VALUE))
    return len(letters) == 1


def _contains_vllm(image: str) -> bool:
    """Whether an image's name shows vLLM: the word `vllm` in the last component, or llm-d's images."""
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return "vllm" in name.replace("_", "-").replace(".", "-").split("-") or name.removesuffix("-dev") in LLM_D
