"""Values of a Helm chart: known charts, wherever their values stand, and engines in the values of any other chart.

A chart's templates decide what its values mean. Those of a few published charts are known (``CHARTS``). In values of
any other chart, a map with an image and a whole command line of vLLM, with its model, is an engine with a note. A map
that shows vLLM without such a command line is an engine with a problem: the chart has to be rendered. Nothing else is
used.
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING, Any, Final

from policy.intake.command.expansion import MAX_WORDS
from policy.intake.command.programs import STARTS_VLLM
from policy.intake.command_line import Container
from policy.intake.manifests import apptemplate, charthelm, images, opea
from policy.intake.manifests.chart_images import image_of, is_image
from policy.intake.manifests.draft import TEMPLATE, EngineDraft
from policy.intake.manifests.mounts import Mounts, mount_paths
from policy.intake.manifests.pods import read_env
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from policy.intake.manifests.reading import ManifestNode
    from policy.rules.images import ImageTable

    _Keys = tuple["_Keys", str | int] | None
    Reading = Callable[[ManifestNode, ManifestNode], None]

SHAPE: Final = "a chart's values, with an image or a command of vLLM"
SEND_RENDERED: Final = "render it and send what it prints: `helm template … -f FILE | runner-policy decide -`"
UNKNOWN_CHART: Final = "these are values of a chart, whose templates decide with which arguments it starts"
CHART_NOTE: Final = (
    "these are values of a chart, whose templates may add to this command; `helm template …` shows all of it"
)
HIDDEN_VARIABLES: Final = "may set variables, as the chart decides"
MAX_COMMANDS: Final = 1024
"""The most texts with vLLM's server that are read in a file of an unknown kind."""
CONTINUATION: Final = re.compile(
    r"((?<![\\\s])[ \t]*+)\n(?=[ \t]*+--?[A-Za-z])"
    r"|((?<!\S)--[A-Za-z][\w.-]*+[ \t]*+)\n(?=[ \t]*+(?:['\"]|\{[\"'}]))"
    r"|((?<!\S)-[A-Za-z][\w.-]*+[ \t]*+)\n(?=[ \t]*+(?:['\"]\{|\{[\"'}]))",
    re.ASCII,
)
"""Matches the end of a line before an option or the value of one, which begins no new command.

A value begins with a quote or is a JSON object, and the line before ends in its flag; after a flag with one dash it is
an object, because the command after `set -e` may be quoted. YAML keeps the ends of lines that are indented more than
the first of a folded text.
"""
COMMAND_NOTE: Final = "the kind of this file is not known; what runs the command is not considered"
COMMAND: Final = "command"
WORDS: Final = (COMMAND, "args")
MOUNT_FIELDS: Final = ("volumeMounts", "extraVolumeMounts")
OTHER_ARGUMENTS: Final = re.compile(r"(?i)args|arguments|flags|vllmconfig|engineconfig")
"""Matches fields beside a command from which a chart may make arguments: `extraArgs`, `vllmConfig`."""
OTHER_VARIABLES: Final = re.compile(r"(?i)env")
MODEL_FLAGS: Final = ("--model", "--config")
CHARTS: Final[tuple[tuple[Callable[[str, dict[str, Any]], bool], Reading], ...]] = (
    (lambda _, values: apptemplate.is_values(values), lambda node, _: apptemplate.read_values(node)),
    (opea.is_values, opea.read_values),
    (lambda _, values: charthelm.is_values(values), lambda node, _: charthelm.read_values(node)),
)


def has_engines(document: object, table: ImageTable, *, commands: bool = True) -> bool:
    """Whether a document has values that show vLLM, switched off or not; ``commands``: whether commands count too."""
    return any(commands or read is not _read_command for _, read in _engines(document, table, switched_off=True))


def read_values(document: ManifestNode) -> None:
    """Read the engines that the values show, except those that are switched off (``enabled: false``)."""
    reader, commands = document.reader, 0
    for keys, read in _engines(document.value, reader.images):
        node = document.below(keys)
        commands += read is _read_command
        if commands > MAX_COMMANDS:
            reader.fault_once(document, f"more than {MAX_COMMANDS} texts that may start vLLM; give fewer at a time")
            return
        with reader.separate() as faults:
            read(node, document)
        if faults:
            reader.add(Container(node.path, faults=tuple(faults)), node)


def _engines(document: object, table: ImageTable, *, switched_off: bool = False) -> Iterator[tuple[list[Any], Reading]]:
    """The keys of each value that shows an engine, with the function that reads it; each value is visited once."""
    pending: list[tuple[object, _Keys]] = [(document, None)]
    while pending:
        value, keys = pending.pop()
        below: list[tuple[Any, Any]] = []
        if isinstance(value, list):
            below = [*enumerate(value)]
        elif isinstance(value, dict) and (switched_off or not _is_off(value)):
            key = keys[1] if keys is not None else ""
            read = _reading_of(str(key), value, table)
            if read is not None:
                yield _listed(keys), read
            if read is None:
                yield from ((_listed((keys, name)), _read_command) for name, item in value.items() if _is_command(item))
            if read is None or read is _read_container:
                below = [(name, item) for name, item in value.items() if not (read is not None and name == "image")]
        pending += [(item, (keys, name)) for name, item in reversed(below) if isinstance(item, dict | list)]


def _is_command(value: object) -> bool:
    """Whether a value is a text, or a list of words, that may start vLLM's server."""
    if isinstance(value, list):
        if not value or len(value) > MAX_WORDS or not all(isinstance(word, str) for word in value):
            return False
        value = " ".join(value)
    return isinstance(value, str) and STARTS_VLLM.search(value) is not None


def _is_off(values: dict[str, Any]) -> bool:
    return values.get("enabled") is False or values.get("disabled") is True


def _reading_of(key: str, values: dict[str, Any], table: ImageTable) -> Reading | None:
    """The function that reads a map of values: a known chart's, a container or an image; None for anything else."""
    for fits, read in CHARTS:
        if fits(key, values):
            return read
    if _shows_vllm(values, image_of(values.get("image"), values.get("tag")), table):
        return _read_container
    if is_image(values) and _names_vllm(image_of(values), table):
        return _read_container if any(name in values for name in WORDS) else _read_image
    return None


def _shows_vllm(values: dict[str, Any], image: str | None, table: ImageTable) -> bool:
    """Whether the image or the command of a map shows vLLM."""
    if image is not None and _names_vllm(image, table):
        return True
    texts = (values.get(name) for name in (WORDS if image is not None else (COMMAND,)))
    return any(
        images.VLLM_NAME.search(word) is not None
        for each in texts
        for word in (each if isinstance(each, list) else [each])
        if type(word) is str
    )


def _names_vllm(image: str | None, table: ImageTable) -> bool:
    return images.starts_vllm(image, table) or images.names_vllm(image)


def _read_container(values: ManifestNode, _: ManifestNode) -> None:
    """Read a map with an image or a command; if it does not have a whole command line, it has a problem."""
    reader = values.reader
    image = values.value.get("image", values.value if is_image(values.value) else None)
    count = len(reader.containers)
    with reader.separate() as faults:
        draft = EngineDraft(values)
        draft.image, draft.has_default_image = image_of(image, values.value.get("tag")), True
        _add_words(draft, values)
        _add_variables(draft, values)
        mounts = [mount_paths(values.value.get(field), "mountPath") for field in MOUNT_FIELDS]
        draft.mounts = Mounts(chain(*mounts))
        if draft.starts_other_program():
            return
        if draft.has_command and draft.starts_vllm() and _is_whole(draft):
            draft.note(CHART_NOTE)
            draft.finish()
    if faults or len(reader.containers) == count:
        place = values.get("image") if isinstance(values.value.get("image"), dict) else values
        _add_problem(place, image_of(image, values.value.get("tag")))


def _read_command(value: ManifestNode, _: ManifestNode) -> None:
    """Read a command in a file of an unknown kind; a text that only mentions vLLM is no engine."""
    draft = EngineDraft(value)
    if isinstance(value.value, list):
        draft.add_list(value, str(value.key))
    else:
        draft.add_final(str(value.key), "bash", "-c", CONTINUATION.sub(r"\1\2\3 ", value.value))
    draft.has_command = True
    if not draft.starts_vllm() or draft.server is None or not draft.server.words:
        return  # not even a model follows
    if any(TEMPLATE in word for word in draft.server.words):
        reader = value.reader
        reader.add(
            Container(value.path, problem=f"this command may start vLLM, and it is a template; {SEND_RENDERED}"), value
        )
        return
    draft.unversioned = "the file does not show an image"
    draft.note(COMMAND_NOTE)
    draft.finish()


def _read_image(values: ManifestNode, _: ManifestNode) -> None:
    _add_problem(values, image_of(values.value))


def _add_problem(place: ManifestNode, image: str | None) -> None:
    what = f"the image {quoted(image)} may start vLLM" if image is not None else "this command may start vLLM"
    place.reader.add(Container(place.path, problem=f"{what}; {UNKNOWN_CHART}; {SEND_RENDERED}"), place)


def _add_words(draft: EngineDraft, values: ManifestNode) -> None:
    """Add the command and its arguments; a command that is one text is a script."""
    command = values.get(COMMAND)
    if isinstance(command.value, str):
        draft.add(COMMAND, "sh", "-c", command.value)
    else:
        draft.add_list(command, COMMAND)
    draft.has_command = bool(draft.words)
    draft.add_list(values.get("args"), "args")


def _add_variables(draft: EngineDraft, values: ManifestNode) -> None:
    """Add the variables of ``env``, a list as in Kubernetes or a mapping; those of other fields are not known."""
    env = values.get("env")
    if isinstance(env.value, list):
        read_env(env, draft)
    else:
        draft.env.replace(
            {name: None if isinstance(item.value, dict | list) else item.scalar() for name, item in env.fields()}
        )
    other = next((name for name, item in values.value.items() if item and name != "env" and _is_variables(name)), None)
    if other is not None:
        draft.has_hidden_variables = True
        draft.note(f"{quoted(other)} {HIDDEN_VARIABLES}")


def _is_variables(name: object) -> bool:
    return isinstance(name, str) and OTHER_VARIABLES.search(name) is not None


def _is_whole(draft: EngineDraft) -> bool:
    """Whether the words are a whole command line: vLLM's server with a model, and nothing that a template fills in."""
    values = draft.node.value
    if any(TEMPLATE in text for text in (*draft.words, *filter(None, draft.env.values()))):
        return False
    if any(values[name] for name in values if name not in WORDS and OTHER_ARGUMENTS.search(str(name)) is not None):
        return False
    if draft.server is None:
        return False
    words = draft.server.words
    has_model = bool(words) and draft.server.serve and not words[0].startswith("-")
    return has_model or any(word.partition("=")[0] in MODEL_FLAGS for word in words)


def _listed(keys: _Keys) -> list[Any]:
    found: list[Any] = []
    while keys is not None:
        keys, key = keys
        found.append(key)
    return found[::-1]
