"""Configurations of a Truss, Baseten's package of a model (read at its main branch, August 2026).

With ``docker_server`` the container of ``base_image`` runs ``start_command``: supervisord starts it without a shell, or
with ``no_build`` ``sh -c`` does, and nothing is installed. Secrets are files, not variables. Without ``docker_server``
Truss runs Python code, which is not read.
"""

from __future__ import annotations

from posixpath import join
from typing import TYPE_CHECKING, Final

from policy.intake.command.earlier_scripts import effects_before
from policy.intake.command.expansion import MAX_TEXT
from policy.intake.command.installation import installed_vllm
from policy.intake.command.replaced_triton import replaced_triton
from policy.intake.command.requirement import requirement_words
from policy.intake.command_line import Container, Installation
from policy.intake.manifests import images, storage, supervisord
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.signs import NAME, shows_vllm
from policy.intake.manifests.tool_fields import TRUSS, TRUSS_SERVER
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.reading import ManifestNode

SHAPE: Final = "a Truss (`docker_server`, `base_image`, or `model_metadata` and other fields of its `config.yaml`)"
FIELDS: Final = frozenset(
    {
        *("model_name", "model_metadata", "model_class_name", "model_class_filename", "model_module_dir"),
        *("python_version", "requirements", "system_packages", "build_commands", "model_cache", "trt_llm"),
        *("environment_variables", "external_package_dirs", "bundled_packages_dir", "examples_filename"),
    }
)
"""Fields of a Truss of Python code; a document with at least two of them is one."""
COMMAND: Final = "docker_server.start_command"
MODELS: Final = "/app/model_cache"
PLATFORM_VARIABLES: Final = ("PORT", "HOSTNAME")
PYTHON_PROBLEM: Final = (
    "Truss runs Python code here, as there is no `docker_server`; it may start vLLM and is not read; send the "
    "arguments that it gives to vLLM as a deployment"
)


def is_config(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a Truss' `config.yaml`."""
    value = document.value
    if not isinstance(value, dict):
        return False
    image = value.get("base_image")
    has_image = isinstance(image, dict) and isinstance(image.get("image"), str)
    return has_image or isinstance(value.get("docker_server"), dict) or len(FIELDS & value.keys()) > 1


def read_config(document: ManifestNode) -> None:
    """Read the engine that the server starts, if any; add an item with a problem if Python code may start vLLM."""
    base = document.get("base_image")
    has_server = document.get("docker_server").value is not None
    draft = EngineDraft(base if base.value is not None else document.get("docker_server") if has_server else document)
    draft.image, draft.has_default_image = base.get("image").text() or None, True
    for name, value in document.get("environment_variables").fields():
        draft.env[name] = "None" if value.value is None else value.scalar()
    draft.env |= dict.fromkeys(PLATFORM_VARIABLES)
    if not has_server:
        is_vllm_image = images.starts_vllm(draft.image, draft.table) or images.names_vllm(draft.image)
        if is_vllm_image or _installs_vllm(document) or shows_vllm((), draft.env):
            document.reader.add(Container(draft.node.path, problem=PYTHON_PROBLEM), draft.node)
        return
    _add_models(draft, document)
    is_built = not document.get("docker_server", "no_build").flag()
    draft.is_built = draft.is_named_vllm = is_built and _installs_vllm(document)
    _add_command(draft, document.get("docker_server", "start_command").text(), is_built=is_built)
    with unread_fields((TRUSS, document), (TRUSS_SERVER, document.get("docker_server"))):
        if draft.problem or draft.starts_vllm():
            draft.finish(_installed(document, draft) if is_built else ())


def _add_command(draft: EngineDraft, command: str | None, *, is_built: bool) -> None:
    """Add the words of `start_command`; none for an image that runs its entry point."""
    if command is None:
        return
    draft.has_command = True
    if not is_built or len(command) > MAX_TEXT:  # longer than what is read, which is a fault
        draft.add_final(COMMAND, "sh", "-c", command)
        return
    read = supervisord.without_comments(command)
    try:
        draft.add_final(COMMAND, *supervisord.split(read))
    except ValueError as error:
        if images.starts_vllm(draft.image, draft.table) or NAME.search(command) is not None:
            cause = f", after the comment that a `;` or `#` begins: {quoted(read)}" if read != command else ""
            draft.problem = f"`{COMMAND}` cannot be read, as supervisord splits it: {error}{cause}"
        return
    if read != command:
        draft.note(f"`{COMMAND}`: supervisord takes what follows a `;` or `#` after a blank as a comment")


def _add_models(draft: EngineDraft, document: ManifestNode) -> None:
    """Add the models that are mounted, by their paths."""
    for weights in document.get("weights").items():
        source, path = weights.get("source").text(), weights.get("mount_location").text()
        if source is not None and path is not None:
            storage.mount(draft, source.partition("@")[0], path)
    for model in document.get("model_cache").items():
        name, folder = model.get("repo_id").text(), model.get("volume_folder").text()
        if name is None or folder is None or not model.get("use_volume").flag():
            continue
        is_of_hub = (model.get("kind").text() or "hf") == "hf"
        storage.mount(draft, f"{storage.HUB}{name}" if is_of_hub else name, join(MODELS, folder))


def _installed(document: ManifestNode, draft: EngineDraft) -> list[Installation]:
    """Return the installations of vLLM in the image that Truss builds, by its requirements, then its commands.

    Add a doubt for all else that these may change.
    """
    words = [word for item in document.get("requirements").items() for word in requirement_words(item.text() or "")]
    if document.get("requirements_file").value is not None:
        words += ["-r", document.get("requirements_file").text() or ""]
    requirements = installed_vllm(["pip", "install", *words])
    commands = [command.text() or "" for command in document.get("build_commands").items()]
    built = effects_before(commands, draft.env, draft.server, "build_commands")
    draft.doubts += [*replaced_triton(["pip", "install", *words]), *built.doubts]
    return [*([] if requirements is None else [requirements]), *built.installations]


def _installs_vllm(document: ManifestNode) -> bool:
    """Whether a package or a command of the image that Truss builds names vLLM."""
    texts = (item.value for field in ("requirements", "build_commands") for item in document.get(field).items())
    return any(images.VLLM_NAME.search(text) is not None for text in texts if isinstance(text, str))
