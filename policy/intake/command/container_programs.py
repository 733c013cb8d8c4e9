"""Programs that start a container: `docker run`, `podman run`, `nerdctl run`, each also with `create`; Apptainer.

Finds the image of the container. Not here: the containers of a manifest (`policy.intake.manifests`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.command.apptainer import MAX_UNREAD, apptainer_run, image_name, names_image, program_at
from policy.intake.command.apptainer import PROGRAMS as APPTAINER
from policy.intake.command.container_options import (
    FLAG_LETTERS,
    HELP,
    PRINT_OPTIONS,
    VALUE_OPTIONS,
    is_known,
    takes_next_word,
)
from policy.intake.command.image_words import image_text
from policy.intake.command.programs import STARTS_VLLM, TEXT_PROGRAMS
from policy.intake.command.words import Unknown

if TYPE_CHECKING:
    from collections.abc import Sequence

PODMAN: Final = "podman"
CONTAINER_PROGRAMS: Final = frozenset({"docker", PODMAN, "nerdctl"})
RUN: Final = "run"
CREATE: Final = "create"
"""The command that makes a container without starting it, which `start` does later."""
SERVICE: Final = ["service", CREATE]
"""The words of `docker service create`, which starts containers on the machines of a swarm."""
CONFIG: Final = "--config"
"""The option that gives such a service a file."""
MODULE: Final = "--module"
"""The option of Podman, before its command, that names a configuration."""
MAX_SEARCHED: Final = 8
"""How many words after the program are searched for `service`."""
CREATE_COMMANDS: Final = (["container"], [CREATE])
"""The first word after the program if `create` makes a container; after others it makes networks, volumes and so on."""
RUN_COMMAND: Final = re.compile(r"(?<![\w.-])(?:docker|podman|nerdctl)[^\n;&|]{0,128}?\srun(?=\s|$)")
"""Matches the beginning of a command that starts a container, within a text."""
OPTION_CHARACTERS: Final = frozenset({"$", "`", "-"})
"""The first characters of an unknown word that may be options."""
NON_IMAGE_CHARACTERS: Final = frozenset({"-", "/", "."})
"""The first characters of options and paths."""
LLM_D: Final = frozenset(
    {"llm-d", *(f"llm-d-{kind}" for kind in ("cuda", "cpu", "rocm", "xpu", "hpu", "aws", "gb200"))}
)


class ContainerRun(NamedTuple):
    """A command that starts a container: its options with their values, None for a flag, and the words after them.

    ``unread`` has the unknown options before the image, and the words that may be any option. ``at`` is the position of
    the program. ``starts`` is false if the command only prints something. ``gets_variables``: whether the container
    gets all variables of the command. ``is_apptainer``: whether it gets the variables that Apptainer passes on.
    ``is_podman``: whether Podman starts it.
    """

    at: int
    options: list[tuple[str, str | None]]
    unread: list[str]
    words: list[str]
    starts: bool = True
    gets_variables: bool = False
    is_apptainer: bool = False
    is_podman: bool = False


def container_run(words: Sequence[str], start: int = 0) -> ContainerRun | None:
    """How the first container program from ``start`` on starts a container; None if it does not.

    The first of the result's ``words`` is the image, as ``image_text`` gives it. An option whose value is not
    known may be several words, or none.
    """
    program = program_at(words, start, CONTAINER_PROGRAMS | APPTAINER)
    if program == len(words):
        return None
    if words[program].rpartition("/")[2] in APPTAINER:
        apptainer = apptainer_run(words, program)
        return None if apptainer is None else ContainerRun(*apptainer, is_apptainer=True)
    at = _after_command(words, program)
    if at == len(words):
        return None
    before = words[program + 1 : at]
    starts = PRINT_OPTIONS.isdisjoint(before)
    options: list[tuple[str, str | None]] = []
    unread = [MODULE] if any(word.partition("=")[0] == MODULE for word in before) else []
    last: int | None = None
    while at < len(words):
        word = words[at]
        if _may_be_options(word) and at < (last := _last_image(words, at) if last is None else last):
            unread.append(word)
            at += 1
            continue
        if word == "--":
            at += 1
            break
        if not word.startswith("-"):
            break
        starts = starts and word != HELP
        takes_next = takes_next_word(word)
        if not is_known(word):
            unread += [word.partition("=")[0]] if len(unread) < MAX_UNREAD else []
            takes_next = takes_next or f"-{word}" in VALUE_OPTIONS  # `-name x`
            takes_next = takes_next and not any(map(_is_image, words[at + 1 : at + 2]))
        options.append(_option(word, words[at + 1] if takes_next and at + 1 < len(words) else None))
        at += 2 if takes_next else 1
    is_podman = words[program].rpartition("/")[2] == PODMAN
    if list(before[-2:]) == SERVICE:
        options = [_of_service(*option) for option in options]
    after = [*map(image_text, words[at : at + 1]), *words[at + 1 :]]
    return ContainerRun(program, options, unread, after, starts, is_podman=is_podman)


def _may_be_options(word: str) -> bool:
    """Whether a word whose value is not known may be options before the image."""
    is_several = type(word) is Unknown and word.is_several
    return is_several and word[:1] in OPTION_CHARACTERS and not _is_image(image_text(word))


def _last_image(words: Sequence[str], at: int) -> int:
    """The position of the last word after ``at`` that is certainly an image of vLLM, and no path; -1 if none is."""
    places = range(len(words) - 1, at, -1)
    return next(
        (place for place in places if words[place][:1] not in NON_IMAGE_CHARACTERS and _is_image(words[place])), -1
    )


def _of_service(name: str, value: str | None) -> tuple[str, str | None]:
    """An option of a service of a swarm as one of `docker run`."""
    if name != CONFIG or value is None:
        return name, value
    return "--mount", value if "=" in value else f"target=/{value}"


def _after_command(words: Sequence[str], at: int) -> int:
    """The position after `run` or `create` of the program at ``at``; the number of words if there is none."""
    for index in range(at + 1, min(at + 1 + MAX_SEARCHED, len(words))):
        if list(words[index : index + 2]) == SERVICE:
            return index + 2
        if words[index] in {RUN, CREATE}:
            break
    first = next((index for index in range(at + 1, len(words)) if not words[index].startswith("-")), len(words))
    wanted = {RUN, CREATE} if list(words[first : first + 1]) in CREATE_COMMANDS else {RUN}
    return next((index + 1 for index in range(first, len(words)) if words[index] in wanted), len(words))


def _option(word: str, following: str | None) -> tuple[str, str | None]:
    """The name and the value of an option; combined letters give the first that takes a value, or `-` if none does."""
    if word.startswith("--"):
        name, equals, value = word.partition("=")
        value = Unknown(value) if type(word) is Unknown else value
        return name, value if equals else following
    letters = word[1:].lstrip("".join(FLAG_LETTERS))
    value = letters[1:].removeprefix("=")
    value = Unknown(value) if type(word) is Unknown else value
    return f"-{letters[:1]}", value or following


def next_container(words: Sequence[str], start: int, stop: int) -> int | None:
    """The position of the first program that starts a container among the words up to ``stop``; None if none does."""
    found = container_run(words[start:stop])
    return None if found is None else start + found.at


def text_after_run(words: Sequence[str]) -> str | None:
    """The text after a container program and `run` in the command of another program; None if there is none."""
    text = " ".join(words)
    found = RUN_COMMAND.search(text)
    return None if found is None or words[0].rpartition("/")[2] in TEXT_PROGRAMS else text[found.end() :]


def may_run_image(words: Sequence[str]) -> bool:
    """Whether a container program gets a command that is not known and an image of vLLM: `docker $COMMAND IMAGE`."""
    program = program_at(words, 0, CONTAINER_PROGRAMS | APPTAINER)
    at = next((at for at in range(program + 1, len(words)) if words[at][:1] != "-"), len(words))
    if at == len(words) or type(words[at]) is not Unknown:
        return False
    return any(_is_image(word) or (names_image(word) and contains_vllm(image_name(word))) for word in words[at + 1 :])


def passed_image(arguments: Sequence[str]) -> str | None:
    """The image of vLLM after a word `run` in the arguments of a program that may pass them on to `docker`, if any.

    Such a program is a function of the script, or a script: `run() { docker "$@"; }; run run vllm/vllm-openai`.
    """
    if RUN not in arguments:
        return None
    after = arguments[arguments.index(RUN) + 1 :]
    return next((word for word in after if word[:1] not in NON_IMAGE_CHARACTERS and _is_image(word)), None)


def names_vllm(text: str) -> bool:
    """Whether a text has an image of vLLM, or starts its server."""
    return STARTS_VLLM.search(text) is not None or any(map(_is_image, text.split()))


def _is_image(word: str) -> bool:
    """Whether a word is an image of vLLM, and not its program: it has an owner or a tag."""
    return ("/" in word or ":" in word) and contains_vllm(word)


def contains_vllm(image: str) -> bool:
    """Whether an image's name shows vLLM: the word `vllm` in the last component, or llm-d's images."""
    name = image.partition("@")[0].rpartition("/")[2].partition(":")[0].lower()
    return "vllm" in name.replace("_", "-").replace(".", "-").split("-") or name.removesuffix("-dev") in LLM_D
