"""NVIDIA Dynamo's DynamoGraphDeployment and DynamoComponentDeployment.

Both are ``nvidia.com`` v1alpha1 and v1beta1, read at the main branch, 2026. Finds a graph's containers, and changes
their arguments as ``dynamo.vllm`` does before vLLM parses them: its own flags are removed, prefix caching is on by
default, and ``--connector`` (in older releases; newer ones reject it) becomes a ``--kv-transfer-config``. What the
operator adds for several nodes depends on its version, so there is only a note.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from policy.intake.manifests.pods import pod_containers, read_container, read_env, read_pod, read_shared_env
from policy.messages import listed, nearest, quoted

if TYPE_CHECKING:
    from policy.intake.manifests.draft import EngineDraft
    from policy.intake.manifests.reading import ManifestNode

ADDED: Final = "added by Dynamo"
MODULE: Final = "dynamo.vllm"
CONNECTORS: Final[dict[str, dict[str, Any]]] = {
    "lmcache": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"},
    "nixl": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
    "kvbm": {
        "kv_connector": "DynamoConnector",
        "kv_connector_module_path": "kvbm.vllm_integration.connector",
        "kv_role": "kv_both",
    },
}
NONE: Final = ("none", "null")
CONNECTOR: Final = "--connector"
SWITCHES: Final = frozenset(
    {
        *(
            "--is-prefill-worker",
            "--is-decode-worker",
            "--use-vllm-tokenizer",
            "--route-to-encoder",
            "--multimodal-encode-worker",
            "--multimodal-worker",
        ),
        *(
            "--multimodal-decode-worker",
            "--enable-multimodal",
            "--frontend-decoding",
            "--fpm-trace",
            "--exclude-tools-when-tool-choice-none",
        ),
        *("--enable-local-indexer", "--embedding-worker", "--gms-shadow-mode", "--dyn-enable-structural-tag"),
    }
)
VALUES: Final = frozenset(
    {
        *(
            "--namespace",
            "--endpoint",
            "--kv-state-endpoint",
            "--discovery-backend",
            "--request-plane",
            "--response-plane",
            "--event-plane",
        ),
        *(
            "--dyn-tool-call-parser",
            "--dyn-reasoning-parser",
            "--dyn-default-thinking-mode",
            "--dyn-structural-tag",
            "--custom-jinja-template",
        ),
        *(
            "--endpoint-types",
            "--dump-config-to",
            "--disaggregation-mode",
            "--sleep-mode-level",
            "--mm-prompt-template",
            "--model-express-url",
        ),
        *("--migration-limit", "--engine-request-limit", "--benchmark-mode"),
    }
)


def read_graph(document: ManifestNode) -> None:
    """Read the services (v1alpha1) and components (v1beta1) of a graph that run vLLM."""
    spec = document.get("spec")
    for _, service in spec.get("services").fields():
        _read_service(service, spec)
    for component in spec.get("components").items():
        _read_component(component, spec)


def read_component(document: ManifestNode) -> None:
    """Read a component that is deployed without a graph."""
    spec = document.get("spec")
    _read_service(spec, spec)
    _read_component(spec, spec)


def _read_service(service: ManifestNode, graph: ManifestNode) -> None:
    pod = service.get("extraPodSpec")
    if pod.get("mainContainer").is_object():
        draft = read_container(pod.get("mainContainer"), pod)
        own = draft.env
        draft.env = {}
        read_shared_env(graph.get("envs"), draft)
        draft.has_hidden_variables = draft.has_hidden_variables or bool(service.get("envFromSecret").value)
        read_env(service.get("envs"), draft)
        draft.env.update(own)
        secret = service.get("envFromSecret").text()
        if secret:
            draft.note(f"`envFromSecret` takes variables from {quoted(secret)}, which the manifest does not show")
        _finish(draft, service)
    read_pod(pod)


def _read_component(component: ManifestNode, graph: ManifestNode) -> None:
    pod = component.get("podTemplate", "spec")
    for container in pod_containers(pod):
        draft = read_container(container, pod)
        own = draft.env
        draft.env = {}
        read_shared_env(graph.get("env"), draft)
        draft.env.update(own)
        _finish(draft, component)


def _finish(draft: EngineDraft, service: ManifestNode) -> None:
    if not draft.starts_vllm():
        return
    nodes = service.get("multinode", "nodeCount").count()
    if nodes is not None and nodes > 1:
        draft.note(
            f"for {nodes} nodes Dynamo's operator adds `--distributed-executor-backend`, `--nnodes` or "
            "`--data-parallel-…`; they are not known here"
        )
    if MODULE in draft.words:
        _remove_own_flags(draft)
        if not any(
            word.partition("=")[0].replace("_", "-") in {"--enable-prefix-caching", "--no-enable-prefix-caching"}
            for word in draft.words
        ):
            draft.add(ADDED, "--enable-prefix-caching")
    elif any(MODULE in word for word in draft.words):
        draft.note(
            "Dynamo turns prefix caching on by default, and turns `--connector` into a `--kv-transfer-config`; "
            "in a script this is not known"
        )
    draft.finish()


def _remove_own_flags(draft: EngineDraft) -> None:
    """Remove Dynamo's own flags, which vLLM never sees, and replace ``--connector NAME …`` with its configuration."""
    words, places, names = [], [], []
    connecting = value = False
    where = ADDED
    for word, place in zip(draft.words, draft.places, strict=True):
        flag, equals, text = word.partition("=")
        if word.startswith("--"):
            value = False
            connecting = flag == CONNECTOR
        if flag == CONNECTOR:
            where = place
            names += [text.lower()] if equals else []
        elif connecting:
            names.append(word.lower())
        elif value:
            value = False
        elif flag.replace("--no-", "--", 1) in SWITCHES or flag in VALUES:
            value = flag in VALUES and not equals
        else:
            words.append(word)
            places.append(place)
    draft.words, draft.places = words, places
    for name in dict.fromkeys(names):
        if name not in CONNECTORS and name not in NONE and draft.accepts_notes():
            legal = [*CONNECTORS, *NONE]
            draft.note(f"unknown connector {quoted(name)}; legal: {listed(legal)}{nearest(name, legal)}")
    chosen = [CONNECTORS[name] for name in names if name in CONNECTORS]
    if chosen:
        module = "kvbm.vllm_integration.connector"
        many = {
            "kv_connector": "PdConnector",
            "kv_role": "kv_both",
            "kv_connector_extra_config": {"connectors": chosen},
            "kv_connector_module_path": module,
        }
        draft.add(
            where, "--kv-transfer-config", json.dumps(chosen[0] if len(chosen) == 1 else many, separators=(",", ":"))
        )
        draft.note("newer releases of Dynamo refuse `--connector`; write the `--kv-transfer-config` itself")
