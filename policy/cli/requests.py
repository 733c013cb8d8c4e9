"""The inputs of commands: rules, documents, requests, models and the date.

Owns the options for models. The command fails with a message if something cannot be read.
"""

from __future__ import annotations

import re
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, NoReturn, TypeAlias

import typer
from msgspec import structs

from policy.cli.console import INVALID, USAGE, err, fail
from policy.defects import defect_fault, is_defect
from policy.edits.json_nodes import placed_json
from policy.errors import EngineFailed, LimitExceeded, PolicyError, RemedyKind, RequestInvalid, RulesInvalid
from policy.escaping import escape_line
from policy.intake.manifests.compose_yaml import resolve_variables
from policy.intake.model_finder import ModelFinder
from policy.intake.model_lookup import no_models
from policy.masking import HiddenName
from policy.messages import enumerated, quoted
from policy.parser.files import read_at_most
from policy.parser.jsontext import NotJson, TooManyValues, check_values, read_json
from policy.parser.yamltree import read_documents, too_many
from policy.policy import Policy
from policy.problems import fault_lines, request_problem
from policy.request.documents import join_documents, read_json_manifest
from policy.request.request import NEAREST, Manifest, is_bare_manifest, read_request_or_manifest, with_explanation
from policy.rules.catalogue import load
from policy.rules.loader import read_folder

if TYPE_CHECKING:
    from datetime import date

    from policy.decision.decision import Decision
    from policy.errors import Remedies
    from policy.intake.model_lookup import Find
    from policy.intake.unused_models import ModelUse
    from policy.parser.yamltree import YamlNode
    from policy.request.request import Request
    from policy.rules.loader import Sources

    Trees: TypeAlias = list[YamlNode | None]

MAX_FILE: Final = 32 << 20
MAX_VALUES: Final = 1_000_000
"""The maximum number of values in a YAML file; reading them takes 12 s of processor time and 400 MB, JSON far less."""
MAX_JSON_VALUES: Final = 4_000_000
"""The maximum number of keys and values in a JSON file; they take about 250 MB.

What ``kubectl`` prints has fewer in ``MAX_FILE`` bytes.
"""
YAML_LIMIT_REMEDY: Final = " in YAML; write the file as JSON, which may have more, or in parts"
JSON_ENDING: Final = ".json"
GIVE_MODEL: Final = "give it with `--model-config NAME=FILE` or `--models FOLDER`, or download it with `--hub`"
MIN_NAMED: Final = 2
"""How many missing models are listed together at least; each engine's problem names its own."""
MAX_PLACED: Final = 4 << 20
"""The most characters of a JSON text whose values get places, which takes a second for each six million characters."""
MAX_NAMED: Final = 1000
"""The most models that the message about missing configurations names."""
HUB_NAME: Final = re.compile(r"[\w.-]+/[\w.-]+", re.ASCII)
DOWNLOAD: Final = 'for model in {}; do hf download "$model" config.json --local-dir "models/$model"; done'
REMEDIES: Final[Remedies] = {
    RemedyKind.MODEL_CONFIG: GIVE_MODEL,
    RemedyKind.MODEL_CONFIG_OF_MANIFEST: GIVE_MODEL,
    RemedyKind.KNOWN_RELEASE: "name one of them with `--vllm-version`, or use the closest with `--nearest`",
    RemedyKind.VERSION: "state it with `--vllm-version`",
}
"""The remedies as the command line words them."""

ModelOption = Annotated[
    list[str] | None,
    typer.Option(
        "--model-config",
        metavar="NAME=FILE",
        help="A model's config.json or folder; may be repeated. Not needed for a local path.",
    ),
]
FolderOption = Annotated[
    Path | None,
    typer.Option(
        "--models",
        metavar="FOLDER",
        help="A folder with NAME/config.json or NAME.json for each model.",
    ),
]
VersionOption = Annotated[
    str | None,
    typer.Option(
        "--vllm-version",
        "--release",
        metavar="VERSION",
        help="The release to decide for. It overrides the input's version and an image's tag, with a warning.",
    ),
]
NearestOption = Annotated[
    bool,
    typer.Option("--nearest", help="Decide a release that is not known as the closest known one, with a warning."),
]
HubOption = Annotated[
    bool,
    typer.Option(
        "--hub/--no-hub",
        envvar="RUNNER_POLICY_HUB",
        help="Look for a model's config.json on the hub (HF_ENDPOINT, HF_TOKEN).",
    ),
]


def today() -> date:
    """The date in UTC, which determines overdue and ended rules; a command reads it once."""
    return datetime.now(UTC).date()


def load_policy(
    folder: Path, default_release: str | None, find: Find = no_models, *, compile_all: bool = True
) -> tuple[Sources, Policy]:
    """Load the rules of a folder; ``Policy`` describes ``compile_all``."""
    try:
        with err.working(f"loading the rules of {folder}"):
            sources = read_folder(folder)
            return sources, Policy(load(sources), default_release, find, compile_all=compile_all)
    except RulesInvalid as error:
        fail(INVALID, str(error.under(folder)))
    except EngineFailed as error:
        fail(INVALID, str(error))
    except PolicyError as error:
        fail(USAGE, f"--default-release: {error}")


class Unreadable(PolicyError):
    """An input that cannot be read; ``lines`` has the messages, each with the name of the input.

    ``is_unread``: whether there is no whole text, or more of it than is read; else it is in another format. ``line``
    and ``column`` are those of the fault, if it has any, and ``message`` is then all of ``lines`` without names.
    """

    def __init__(self, *lines: str, is_unread: bool = False, line: int = 0, column: int = 0, message: str = "") -> None:
        self.lines = lines
        self.is_unread = is_unread
        self.line, self.column, self.message = line, column, message
        super().__init__("\n".join(lines))


def read_text(path: Path | str, limit: int = MAX_FILE, *, pipes: bool = True, errors: str = "strict") -> str:
    """Read a file, standard input for ``-``, or with ``pipes`` also a pipe.

    ``errors`` says what becomes of bytes that are not UTF-8, as for ``bytes.decode``. The command fails if the file
    cannot be read or has more than ``limit`` bytes.
    """
    try:
        return load_text(path, limit, pipes=pipes, errors=errors)
    except Unreadable as error:
        fail(USAGE, *error.lines)


def load_text(path: Path | str, limit: int = MAX_FILE, *, pipes: bool = False, errors: str = "strict") -> str:
    """Read a file as ``read_text`` does.

    Raises:
        Unreadable: it cannot be read or has more than ``limit`` bytes.
    """
    name = escape_line(str(path))
    try:
        data = (
            sys.stdin.buffer.read(limit + 1) if str(path) == "-" else read_at_most(Path(path), limit + 1, pipes=pipes)
        )
        if len(data) > limit:
            raise Unreadable(f"{name}: cannot be read: more than {limit:,} bytes", is_unread=True)
        return data.decode(errors=errors)
    except (OSError, UnicodeDecodeError) as error:
        raise Unreadable(f"{name}: cannot be read: {error}", is_unread=True) from error


def read_document(file: str) -> Any:
    """The document of a JSON or YAML file; several YAML documents are returned as a list."""
    return parse_text(read_text(file), file)


def parse_text(text: str, file: str) -> Any:
    """The document in a file's text; several YAML documents are joined, usually to a list."""
    try:
        with err.working(f"reading {escape_line(file)}"):
            return join_documents(parse_documents(text, file))
    except Unreadable as error:
        fail(USAGE, *error.lines)


def parse_documents(text: str, file: str, trees: Trees | None = None) -> list[Any]:
    """The documents in a file's text, read as JSON if possible: the YAML reader has lower limits.

    YAML may begin with a bracket too. If such a text is neither, the error has both faults. The trees of the documents
    are appended to ``trees``, if it is given, but not that of JSON with more than ``MAX_PLACED`` characters.

    Raises:
        Unreadable: it is neither, exceeds a limit, or shows a defect of this program.
    """
    try:
        return _parse_documents(text, file, trees)
    except Exception as error:
        if not is_defect(error):
            raise
        raise Unreadable(f"{escape_line(file)}: {defect_fault(error).message}") from None


def _parse_documents(text: str, file: str, trees: Trees | None) -> list[Any]:
    named_json = file.endswith(JSON_ENDING)
    file = escape_line(file)
    faults, messages = [], []
    try:
        document = read_json_manifest(text.encode(), read_bounded)
    except TooManyValues as error:
        raise Unreadable(f"{file}: {error}", is_unread=True) from error
    except NotJson as error:
        if text.lstrip().startswith(("{", "[")):
            faults.append(f"{file}: {error}")
            messages.append(str(error))
        exceeds_limit = isinstance(error, LimitExceeded)
        if faults and (named_json or exceeds_limit):
            raise Unreadable(*faults, is_unread=exceeds_limit) from error
    else:
        if trees is not None and len(text) <= MAX_PLACED and (tree := placed_json(text)) is not None:
            trees.append(tree)
        return [document]

    def resolve(tree: YamlNode) -> None:
        resolve_variables(tree)
        if trees is not None:
            trees.append(tree)

    try:
        return read_documents(text, file, MAX_FILE, MAX_VALUES, resolve)
    except RulesInvalid as error:
        remedy = {too_many(MAX_VALUES): YAML_LIMIT_REMEDY}
        faults += [f"{fault}{remedy.get(fault.message, '')}" for fault in error.faults]
        messages += [f"{fault.message}{remedy.get(fault.message, '')}" for fault in error.faults]
        first, is_unread = error.faults[0], isinstance(error, LimitExceeded)
        raise Unreadable(
            *faults, is_unread=is_unread, line=first.line, column=first.column, message="; ".join(messages)
        ) from error


def read_bounded(text: bytes) -> Any:
    """The document in a JSON text, which has at most ``MAX_JSON_VALUES`` keys and values.

    Raises:
        NotJson: it is not JSON, or has more.
    """
    check_values(text, MAX_JSON_VALUES)
    return read_json(text)


def models_of(
    named: list[str], context: typer.Context, *, hub: bool, folder: Path | None = None, within: Path | None = None
) -> ModelFinder:
    """Where models are looked up: in the files of the flags, in local folders, and on the hub if it is enabled.

    ``folder`` has the configurations of several models. Local folders are only those ``within`` one, if it is given.

    At the end of the command there is a warning about files of the flags that no engine uses.
    """
    faults = [f"--model-config {quoted(each)}: write NAME=FILE" for each in named if "=" not in each.strip("=")]
    if faults:
        fail(USAGE, *faults)
    if folder is not None and not folder.is_dir():
        fail(USAGE, f"--models: {quoted(str(folder))} is not a folder")
    places = dict(each.split("=", 1) for each in named)
    paths = {name.rstrip("/"): Path(place) for name, place in places.items()}
    try:
        finder = ModelFinder(paths, hub=hub, folder=folder, within=within)
    except PolicyError as error:
        fail(USAGE, str(error))
    context.call_on_close(lambda: print_warnings(finder.warnings()))
    return finder


def print_missing(names: list[str]) -> None:
    """Print the models whose configurations are missing, with the command that downloads them, if there are several."""
    if len(names) < MIN_NAMED:
        return
    err.print(escape_line(f"the config.json of these models is needed: {enumerated(names, MAX_NAMED)}"), markup=False)
    on_hub = [name for name in names[:MAX_NAMED] if HUB_NAME.fullmatch(name) and type(name) is not HiddenName]
    if on_hub:
        err.print(f"{DOWNLOAD.format(' '.join(on_hub))}  # then add `--models models`", markup=False)


def print_warnings(warnings: list[str]) -> None:
    """Print warnings on standard error."""
    for warning in warnings:
        err.print(escape_line(f"warning: {warning}"), markup=False)


def as_request(policy: Policy, document: Any) -> Any:
    """The document, or a request with it if it is a bare manifest."""
    return {"manifest": document} if is_bare_manifest(document, policy.releases.images) else document


def with_nearest(policy: Policy, document: Any, *, nearest: bool) -> Any:
    """The document that asks for the closest known release, if ``nearest``; a bare manifest becomes a request."""
    request = as_request(policy, document) if nearest else document
    return {**request, "beyond_verified": NEAREST} if nearest and type(request) is dict else document


def with_version(policy: Policy, document: Any, version: str | None) -> tuple[Any, list[str]]:
    """The document with ``version``, which a flag gives, and a warning if that overrides its own.

    The command fails if the version is invalid or unknown.
    """
    if version is None:
        return document, []
    request = as_request(policy, document)
    if type(request) is not dict:
        return document, []
    try:
        policy.releases.resolve(version, nearest=request.get("beyond_verified") == NEAREST)
    except PolicyError as error:
        fail(USAGE, f"--vllm-version: {error}")
    stated = request.get("vllm_version")
    if type(stated) is not str:  # an invalid type is a fault of the request
        return (request if stated is not None else {**request, "vllm_version": version}), []
    warning = f"decided for vLLM {version}, which overrides the input's {quoted(stated)}"
    return {**request, "vllm_version": version}, [warning] if stated != version else []


def read_request(policy: Policy, document: Any, *, explain: bool, overrides: bool = False) -> Request | Manifest:
    """The request or manifest in a document; with ``explain``, the decision will be explained.

    With ``overrides``, its version also overrides the tags of images.
    """
    try:
        request = read_request_or_manifest(document, policy.releases)
    except RequestInvalid as error:
        fail_request(error)
    if isinstance(request, Manifest):
        request = structs.replace(request, overrides=overrides)
    return with_explanation(request) if explain else request


def decide_request(policy: Policy, request: Request, on: date, models: ModelUse) -> Decision:
    """The decision for a request on a given day; the request's models are added to ``models``.

    The command fails if the request is invalid.
    """
    try:
        with err.working("deciding"):
            result = policy.evaluate(request, on)
            models.add({} if result.intake is None else result.intake.models)
            return policy.assemble(result)
    except RequestInvalid as error:
        fail_request(error)


def with_warnings(decision: Decision, warnings: list[str]) -> Decision:
    """The decision with further warnings."""
    return structs.replace(decision, warnings=[*warnings, *decision.warnings]) if warnings else decision


def fail_request(error: RequestInvalid) -> NoReturn:
    """End the command with the faults of a request, in the words of the command line."""
    fail(USAGE, *fault_lines(request_problem(error, remedies=REMEDIES)))
