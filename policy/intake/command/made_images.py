"""Images that commands make under a name of their choice: `docker build -t NAME`, `docker tag`, `docker load`.

Such an image is not the one that a registry has under its name. Not here: how a container is started
(`container_programs`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.command.apptainer import IMAGE_FILE, SCHEME, image_name, program_at
from policy.intake.command.apptainer import PROGRAMS as APPTAINER
from policy.intake.command.container_programs import CONTAINER_PROGRAMS
from policy.intake.command.image_words import image_text
from policy.intake.command.programs import TEXT_PROGRAMS
from policy.intake.command.words import Unknown
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

COMPOSE: Final = "compose"
COMPOSE_PROGRAMS: Final = frozenset({"docker-compose", "podman-compose"})
PROGRAMS: Final = CONTAINER_PROGRAMS | APPTAINER | COMPOSE_PROGRAMS | {"buildah"}
GROUPS: Final = frozenset({"image", "buildx", "builder", "container", COMPOSE})
"""The words before the command of a container program."""
BUILD_COMMANDS: Final = frozenset({"build", "bud", "build-using-dockerfile"})
NAME_COMMANDS: Final = {"tag": 1, "commit": 1, "import": 1}
"""The commands that name an image after other operands, and how many of these there are."""
LOAD_COMMANDS: Final = frozenset({"load", "bake"})
"""The commands that make images with the names that a file has."""
PULL: Final = "pull"
START_COMMANDS: Final = frozenset({"up", "create", "run"})
"""The commands of Compose that make images with the option `--build`."""
COMMANDS: Final = BUILD_COMMANDS | NAME_COMMANDS.keys() | LOAD_COMMANDS | START_COMMANDS | {PULL}
TAG_OPTION: Final = re.compile(r"-[A-Za-z]{0,16}t")
"""Matches combined short options of which the last takes the name of an image."""
OUTPUT_NAME: Final = re.compile(r"(?:^|[,=])name=([^,]+)")
PLACEHOLDER: Final = re.compile(r"\$\{[^{}]*+\}")
DEFAULT_REGISTRY: Final = re.compile(r"(?:(?:index\.)?docker\.io/(?:library/)?|localhost/)")
"""Matches the beginning of a name that means the same without it."""
MAX_COMMAND: Final = 16
"""How many words before the command of a container program are read."""
MAX_PATTERNS: Final = 256
MAKES_MESSAGE: Final = "`{}` makes the image {}, which may have another vLLM"
MAY_MAKE_MESSAGE: Final = "`{}` may make the image {}, which may have another vLLM"


class MadeImages(NamedTuple):
    """The images that commands make, each with the command that makes it.

    ``names`` has the known names. For a name that is not known, ``patterns`` has its beginning, its end and the
    command. ``other`` is a command that may make any image; empty if none does.
    """

    names: Mapping[str, str]
    patterns: Sequence[tuple[str, str, str]]
    other: str

    def cause(self, image: str) -> str:
        """Why an image may not be what its name says, as a clause for messages; empty if nothing makes it."""
        if type(image) is not str or "@" in image:
            return ""
        name = _whole_name(image)
        if name in self.names:
            return MAKES_MESSAGE.format(self.names[name], quoted(image))
        ends = (
            command
            for head, tail, command in self.patterns
            if name.startswith(head) and name.endswith((tail, f"{tail}:latest"))
        )
        command = next(ends, self.other)
        return MAY_MAKE_MESSAGE.format(command, quoted(image)) if command else ""


NO_IMAGES: Final = MadeImages({}, (), "")


def made_images(commands: Iterable[Sequence[str]]) -> MadeImages:
    """The images that commands make."""
    names: dict[str, str] = {}
    patterns: list[tuple[str, str, str]] = []
    other = ""
    for command, image in (found for words in commands for found in _made(words)):
        if type(image) is not Unknown and image:
            names.setdefault(_whole_name(image), command)
            continue
        parts = PLACEHOLDER.split(image_text(image)) if image else [""]
        head, tail = DEFAULT_REGISTRY.sub("", parts[0], count=1), parts[-1]
        if not (head or tail) or len(patterns) == MAX_PATTERNS:
            other = other or command
        else:
            patterns.append((head, tail, command))
    return MadeImages(names, patterns, other) if names or patterns or other else NO_IMAGES


def _made(words: Sequence[str]) -> Iterator[tuple[str, str]]:
    """The command and the name of each image that a command makes; an empty name is any."""
    program = program_at(words, 0, PROGRAMS)
    if program == len(words) or words[0].rpartition("/")[2] in TEXT_PROGRAMS:
        return
    name = words[program].rpartition("/")[2]
    at, group = _command_at(words, program)
    if at is None:
        return
    verb, arguments = words[at], words[at + 1 :]
    command = f"{name} {verb}"
    operands = [word for word in arguments if not word.startswith("-")]
    if name in COMPOSE_PROGRAMS or group == COMPOSE:
        if verb == "build" or (verb in START_COMMANDS and "--build" in arguments):
            yield f"{name} {COMPOSE}" if group else name, ""
    elif name in APPTAINER:
        if verb in {"build", PULL} and len(operands) > 1 and _is_other_file(*operands[-2:]):
            yield command, image_name(operands[-2])
    elif verb in BUILD_COMMANDS:
        yield from ((command, image) for image in _tags(arguments))
    elif verb in LOAD_COMMANDS:
        yield command, ""
    elif verb in NAME_COMMANDS:
        yield from ((command, image) for image in operands[NAME_COMMANDS[verb] :])


def _command_at(words: Sequence[str], program: int) -> tuple[int | None, str]:
    """The position of the command of a program, and the first word of its group; None if it is another command."""
    before = group = ""
    for at in range(program + 1, min(len(words), program + 1 + MAX_COMMAND)):
        word = words[at]
        if word.startswith("-"):
            before = "" if "=" in word else word
        elif word in GROUPS:
            group, before = group or word, ""
        elif word in COMMANDS:
            return at, group
        elif before:  # the value of an option
            before = ""
        else:
            break
    return None, group


def _tags(arguments: Sequence[str]) -> Iterator[str]:
    """The names that the options of `build` give to its image."""
    for word, following in zip(arguments, [*arguments[1:], ""], strict=True):
        made = word
        if word.startswith("--tag="):
            made = word[len("--tag=") :]
        elif word == "--tag" or TAG_OPTION.fullmatch(word) is not None:
            made = following
        elif word.startswith("-t"):
            made = word[len("-t") :]
        elif word.startswith(("type=", "--output=", "-o")) and (found := OUTPUT_NAME.search(word)) is not None:
            made = found[1]
        else:
            continue
        yield Unknown(made) if type(word) is Unknown else made


def _is_other_file(target: str, source: str) -> bool:
    """Whether the file of an image has the name of a different image than its source."""
    if IMAGE_FILE.fullmatch(target) is None:
        return False
    image = _whole_name(image_name(source))
    return SCHEME.match(source) is None or f"/{image}".rpartition("/")[2] != _whole_name(image_name(target))


def _whole_name(image: str) -> str:
    """The name of an image with its tag, without the default registry."""
    name = DEFAULT_REGISTRY.sub("", image, count=1)
    return name if ":" in name.rpartition("/")[2] else f"{name}:latest"
