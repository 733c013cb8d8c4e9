"""Ray Serve LLM: ``llm_configs``, alone, in a Serve config's applications, or in a KubeRay RayService.

The RayService is ``ray.io/v1``; read at Ray's main branch, 2026. Turns ``engine_kwargs``, which are the names of vLLM's
``EngineArgs``, into flags, and adds what Ray sets: the model from ``model_loading_config``, the ``ray`` executor
(``mp`` without a GPU). Variables come from ``runtime_env`` and, in a RayService, from the containers that Ray runs in.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.errors import RulesInvalid
from policy.intake.manifests.draft import EngineDraft
from policy.intake.manifests.pods import pod_containers, read_container, read_pod
from policy.intake.manifests.reading import ManifestNode
from policy.messages import quoted
from policy.parser.yamltree import read_yaml

if TYPE_CHECKING:
    from collections.abc import Iterator

ADDED: Final = "added by Ray Serve"
SINGLE: Final = ("llm_config", "prefill_config", "decode_config")
WITHOUT_NO: Final = frozenset({"disable_log_stats", "disable_log_requests"})
NOT_ALLOWED: Final = ("model", "served_model_name")


def is_config(document: ManifestNode) -> bool:
    """Whether a document without a kind has the shape of a Serve config or of its arguments."""
    value = document.value
    return isinstance(value, dict) and (
        "llm_configs" in value or ("applications" in value and isinstance(value["applications"], list))
    )


def read_config(document: ManifestNode, env: dict[str, str | None] | None = None, image: str | None = None) -> None:
    """Read every LLM config of a Serve config; ``env`` and ``image`` are those of the containers that Ray runs in."""
    for args in [document, *(item.get("args") for item in document.get("applications").items())]:
        single = [args.get(name) for name in SINGLE]
        for config in [*args.get("llm_configs").items(), *(item for item in single if item.value is not None)]:
            if isinstance(config.value, str):
                config.fault(f"{quoted(config.value)} is the name of a file; write its content here")
            elif config.is_object() and config.reading.affords_copy(config, env):
                _read_llm(config, dict(env or {}), image)


def read_service(document: ManifestNode) -> None:
    """Read a RayService: its Serve config is a text in it."""
    text = document.get("spec", "serveConfigV2")
    written = text.text()
    if written is None:
        return
    try:
        content = read_yaml(written, text.path).plain()
    except RulesInvalid as error:
        for fault in error.faults:
            text.fault(f"line {fault.line}, column {fault.column}: {fault.message}")
        return
    env: dict[str, str | None] = {}
    image = None
    for pod in ray_pods(document.get("spec", "rayClusterConfig")):
        for container in pod_containers(pod):
            draft = read_container(container, pod)
            image = draft.image or image
            env.update({name: value if env.get(name, value) == value else None for name, value in draft.env.items()})
    read_config(ManifestNode(text.reading, content, text.path, text.pointer, within=True), env, image)


def read_cluster(document: ManifestNode) -> None:
    """Read a RayCluster whose containers start vLLM by their own command; without one, Ray's operator starts Ray."""
    for pod in ray_pods(document.get("spec")):
        read_pod(pod, by_image=False)


def ray_pods(cluster: ManifestNode) -> Iterator[ManifestNode]:
    """The pods of a Ray cluster: the head's, then each worker group's."""
    yield cluster.get("headGroupSpec", "template", "spec")
    for group in cluster.get("workerGroupSpecs").items():
        yield group.get("template", "spec")


def _read_llm(config: ManifestNode, env: dict[str, str | None], image: str | None) -> None:
    engine = config.get("llm_engine").text()
    if engine not in {None, "vLLM"}:
        return
    draft = EngineDraft(config)
    draft.image, draft.env = image, env
    draft.add(ADDED, "vllm", "serve")
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
        draft.add("model_loading_config.model_id" if model == name else "model_loading_config.model_source", model)
    for key, value in config.get("engine_kwargs").fields():
        if key in NOT_ALLOWED:
            value.fault(f"`{key}` is not allowed in `engine_kwargs`; write `model_loading_config`")
        else:
            draft.add(f"engine_kwargs.{key}", *flag_words(key, value.value))
    if config.get("engine_kwargs", "distributed_executor_backend").value is None:
        draft.add(ADDED, "--distributed-executor-backend", "mp" if config.get("use_cpu").flag() else "ray")
    for key, value in config.get("runtime_env", "env_vars").fields():
        draft.env[key] = value.text()
    draft.note(
        "an image's own variables are not known here, and Ray's images may set the model runner; "
        "set `VLLM_USE_V2_MODEL_RUNNER` in `env_vars` to be sure"
    )
    draft.finish()


def flag_words(name: str, value: Any) -> list[str]:
    """The words of the flag that sets an engine argument.

    False becomes ``--no-``, an object becomes JSON, and each item of a list becomes a separate word.
    """
    flag = "--" + name.replace("_", "-")
    match value:
        case None:
            return []
        case True:
            return [flag]
        case False:
            return [] if name in WITHOUT_NO else ["--no-" + name.replace("_", "-")]
        case dict():
            return [flag, json.dumps(value, separators=(",", ":"), ensure_ascii=False)]
        case list():
            return [flag, *(item if isinstance(item, str) else json.dumps(item, ensure_ascii=False) for item in value)]
        case _:
            return [flag, str(value)]
