"""Ray Serve LLM: ``llm_configs`` at the top level, in a Serve config's applications, or in a KubeRay RayService.

The RayService is ``ray.io/v1``; read at Ray's main branch, 2026. Converts ``engine_kwargs``, whose keys are names of
vLLM's ``EngineArgs``, to flags, and adds what Ray sets: the model from ``model_loading_config``, and the ``ray``
executor (``mp`` without a GPU). Variables come from Ray's runtime environments (`rayserve_environment`) and, in a
RayService, from the containers in which Ray runs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from policy.intake.command.earlier_scripts import CommandBeside  # noqa: TC001  # msgspec reads the annotations
from policy.intake.command.flags import flag_of_any_release
from policy.intake.command.installation import as_uncertain
from policy.intake.command.paths import ANY_FOLDER
from policy.intake.command.programs import LLM_BUILDERS
from policy.intake.command.ray_start import RayStart  # noqa: TC001  # as above
from policy.intake.command.unknown_flags import KEYWORDS
from policy.intake.command_line import (
    Container,
    HardwareSign,  # msgspec reads the annotations
)
from policy.intake.manifests.draft import MAX_NOTES, RUNNER_VARIABLE, EngineDraft
from policy.intake.manifests.hardware import MAX_SIGNS, accelerator_signs
from policy.intake.manifests.images import version_of
from policy.intake.manifests.mounts import Mounts
from policy.intake.manifests.pods import read_container
from policy.intake.manifests.ray_commands import apply_ray_start, read_effects
from policy.intake.manifests.ray_fields import APPLICATION, LLM, LLM_ARGUMENTS
from policy.intake.manifests.ray_groups import ray_groups
from policy.intake.manifests.raycluster import (
    ignore_without_engine,
    keeps_command,
    read_ray_containers,
    unread_cluster_fields,
)
from policy.intake.manifests.rayserve_environment import read_runtime_environment
from policy.intake.manifests.unread_fields import unread_fields
from policy.messages import quoted

if TYPE_CHECKING:
    from policy.intake.manifests.field_tables import FieldTable
    from policy.intake.manifests.reading import ManifestNode

SERVE_PLACE: Final = "added by Ray Serve"
SINGLE_CONFIGS: Final = ("llm_config", "prefill_config", "decode_config")
FLAGS_WITHOUT_NEGATION: Final = frozenset({"disable_log_stats", "disable_log_requests"})
FORBIDDEN_ARGUMENTS: Final = ("model", "served_model_name")


class SharedProperties(Struct, frozen=True):
    """The common properties of the containers in which Ray runs; a variable that differs between them is None."""

    env: dict[str, str | None] = {}
    image: str | None = None
    has_hidden_variables: bool = False
    notes: list[str] = []
    mounts: Mounts = field(default_factory=Mounts)
    hardware: list[HardwareSign] = []
    folder: str = ""
    count: int = 0
    starts: list[RayStart] = []
    """What the commands that start Ray do, in the containers where that is not only KubeRay's own command."""
    commands_beside: list[CommandBeside] = []
    secrets: frozenset[str] = frozenset()
    replacing_source: str = ""


def is_config(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a Serve config or of its arguments."""
    value = document.value
    return isinstance(value, dict) and (
        "llm_configs" in value or ("applications" in value and isinstance(value["applications"], list))
    )


def read_config(document: ManifestNode, containers: SharedProperties | None = None) -> None:
    """Read every LLM config of a Serve config; Ray runs in ``containers``."""
    known = SharedProperties() if containers is None else containers
    applications = [(item, item.get("args")) for item in document.get("applications").items()]
    count = len(document.reader.containers)
    hooks, starts = [[*each.words] for each in known.commands_beside], [start.doubts for start in known.starts]
    of_containers = (known.env, known.mounts.paths, hooks, starts)
    for application, args in [(document, document), *applications]:
        single = [args.get(name) for name in SINGLE_CONFIGS]
        fields = [*args.value] if isinstance(args.value, dict) else []
        of_application = (*(application.get(name).value for name in ("runtime_env", "deployments")), fields)
        for config in [*args.get("llm_configs").items(), *(item for item in single if item.value is not None)]:
            if isinstance(config.value, str):
                config.fault(f"{quoted(config.value)} is the name of a file; write its content here")
            elif config.is_object():
                if not config.reader.may_copy_values(config, *of_containers, *of_application):
                    break
                with unread_fields(*_application_fields(application, args)):
                    _read_llm(config, application, known)
    if len(document.reader.containers) == count:
        _add_python_applications(document, [application for application, _ in applications if application.is_object()])


def _application_fields(application: ManifestNode, args: ManifestNode) -> list[tuple[FieldTable, ManifestNode]]:
    """The fields of an application, and of what it gives to a builder of Ray; other code may have further arguments."""
    path = application.value.get("import_path")
    is_builder = isinstance(path, str) and LLM_BUILDERS.fullmatch(path) is not None
    fields = [(APPLICATION, application)] if application is not args else []
    return [*fields, *([(LLM_ARGUMENTS, args)] if is_builder else [])]


def _add_python_applications(document: ManifestNode, applications: list[ManifestNode]) -> None:
    """Add one engine with a problem if an application that is Python code shows that it may start vLLM."""
    names = [
        application.get("import_path").text() or "?"
        for application in applications
        if LLM_BUILDERS.fullmatch(application.get("import_path").text() or "") is None
        and _mentions_vllm(application.value)
    ]
    if names:
        code = f"{quoted(names[0])} and {len(names) - 1} more" if len(names) > 1 else quoted(names[0])
        why = (
            f"Ray Serve runs Python code ({code}), which may start vLLM and is not read; send the arguments that it "
            "gives to vLLM as a deployment"
        )
        document.reader.add(Container(document.path, problem=why), document)


def _mentions_vllm(value: object) -> bool:
    """Whether a text or a key in a value names vLLM."""
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            pending += [*each, *each.values()]
        elif isinstance(each, list):
            pending += each
        elif isinstance(each, str) and "vllm" in each.lower():
            return True
    return False


def read_service(document: ManifestNode) -> None:
    """Read a RayService: its Serve config, which is a string of YAML, and the containers of its cluster."""
    count = len(document.reader.containers)
    _read_serve_config(document)
    read_ray_containers(document.get("spec", "rayClusterConfig"), document)
    ignore_without_engine(document, document.get("spec", "rayClusterConfig"), count)


def _read_serve_config(document: ManifestNode) -> None:
    config = document.get("spec", "serveConfigV2").yaml()
    if config is not None:
        cluster = document.get("spec", "rayClusterConfig")
        with unread_cluster_fields(cluster, document):
            read_config(config, _ray_containers(document, cluster))


def _ray_containers(document: ManifestNode, cluster: ManifestNode) -> SharedProperties:
    """The containers in which Ray runs: the first of each pod, any of which may run an engine."""
    drafts, starts = [], []
    is_kept_everywhere = keeps_command(document)
    for group in ray_groups(cluster, document):
        template = group.node.get("template")
        for container in template.get("spec", "containers").items()[:1]:
            draft = read_container(container, template.get("spec"))
            group.set_variables(draft)
            is_kept = is_kept_everywhere or keeps_command(template)
            start = apply_ray_start(draft, group.options, is_kept=is_kept)
            drafts.append(draft)
            if start is not None:
                starts.append(start)
    env = _common_variables([draft.env for draft in drafts])
    notes = list(dict.fromkeys(note for draft in drafts for note in draft.notes))[:MAX_NOTES]
    named = {draft.image for draft in drafts}
    if len(named) > 1:
        notes.append("the containers of the cluster have different images; an engine may run in any of them")
    image = named.pop() if len(named) == 1 else None
    mounts = Mounts.union([draft.mounts for draft in drafts])
    hidden = any(draft.has_hidden_variables for draft in drafts)
    hardware = list(dict.fromkeys(sign for draft in drafts for sign in draft.hardware))[:MAX_SIGNS]
    secrets = frozenset[str]().union(*(draft.stated_secrets() for draft in drafts))
    beside = [each for draft in drafts for each in draft.commands_beside]
    folders = {draft.folder for draft in drafts} or {""}
    folder = folders.pop() if len(folders) == 1 else ANY_FOLDER
    source = next((draft.replacing_source for draft in drafts if draft.replacing_source), "")
    return SharedProperties(
        env, image, hidden, notes, mounts, hardware, folder, len(drafts), starts, beside, secrets, source
    )


def _common_variables(environments: list[dict[str, str | None]]) -> dict[str, str | None]:
    """The variables of all environments; None for one that only some have, or in which they differ."""
    values: dict[str, list[str | None]] = {}
    for env in environments:
        for name, value in env.items():
            values.setdefault(name, []).append(value)
    return {
        name: found[0] if len(found) == len(environments) and len(set(found)) == 1 else None
        for name, found in values.items()
    }


def _read_llm(config: ManifestNode, application: ManifestNode, containers: SharedProperties) -> None:
    engine = config.get("llm_engine").text()
    if engine not in {None, "vLLM"}:
        return
    draft = EngineDraft(config)
    environment = read_runtime_environment(application, config)
    # Ray starts a different image without the variables of its container.
    env = containers.env if environment.image is None else dict.fromkeys(containers.env)
    draft.image = environment.image or containers.image
    draft.env.replace(env | environment.variables)
    draft.has_hidden_variables = containers.has_hidden_variables
    if RUNNER_VARIABLE not in environment.variables:
        draft.replacing_source = containers.replacing_source
    draft.ray_variables = None
    if environment.image is None:
        draft.mounts, draft.folder, draft.commands_beside = (
            containers.mounts,
            containers.folder,
            [*containers.commands_beside],
        )
    draft.secrets |= containers.secrets
    for note in containers.notes:
        draft.note(note)
    draft.hardware += accelerator_signs([config.get("accelerator_type").value], "accelerator_type")
    draft.hardware += containers.hardware
    draft.add(SERVE_PLACE, "vllm", "serve")
    source, name = (
        config.get("model_loading_config", "model_source"),
        config.get("model_loading_config", "model_id").text(),
    )
    if isinstance(source.value, dict):
        draft.note(
            f"the model's weights come from {quoted(source.get('bucket_uri').text() or '?')}; give its config.json "
            f"under {quoted(name or '?')}"
        )
    model = name if source.value is None or isinstance(source.value, dict) else source.text()
    if model is not None:
        draft.add_final(
            "model_loading_config.model_id" if model == name else "model_loading_config.model_source", model
        )
    for key, value in config.get("engine_kwargs").fields():
        if key in FORBIDDEN_ARGUMENTS:
            value.fault(f"`{key}` is not allowed in `engine_kwargs`; write `model_loading_config`")
        else:
            draft.add_final(f"{KEYWORDS}{key}", *flag_words(key, value.value))
    if config.get("engine_kwargs", "distributed_executor_backend").value is None:
        draft.add(SERVE_PLACE, "--distributed-executor-backend", "mp" if config.get("use_cpu").flag() else "ray")
    if RUNNER_VARIABLE not in version_of(draft.image, draft.table).env:
        draft.note(
            "an image's own variables are not known here, and Ray's images may set the model runner; "
            f"set `{RUNNER_VARIABLE}` in `env_vars` to be sure"
        )
    draft.doubts += environment.doubts
    installed = environment.installed
    draft.has_command = True
    if environment.image is None and draft.starts_vllm(by_image=False):
        found = [each for start in containers.starts for each in read_effects(draft, start)]
        is_same = len(found) == containers.count and len({each.version for each in found}) == 1
        installed = [*(found if is_same else map(as_uncertain, found)), *installed]
    with unread_fields((LLM, config)):
        draft.finish(installed)


def flag_words(name: str, value: Any) -> list[str]:
    """The command-line words that set an engine argument.

    False becomes ``--no-…``, which `unknown_flags.false_keyword` reads for a flag without that form, or nothing; an
    object becomes JSON, and each item of a list becomes a separate word. An empty list has no words if the flag takes
    one or more, as none of them means the same as no flag.
    """
    flag = "--" + name.replace("_", "-")
    match value:
        case None:
            return []
        case [] if (known := flag_of_any_release(flag)) is not None and known.nargs == "+":
            return []
        case True:
            return [flag]
        case False:
            return [] if name in FLAGS_WITHOUT_NEGATION else ["--no-" + name.replace("_", "-")]
        case dict():
            return [flag, json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
        case list():
            return [flag, *(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value)]
        case _:
            return [flag, str(value)]
