"""The arguments that `dynamo.vllm` passes on to vLLM's parser.

NVIDIA Dynamo's worker, read at the releases 1.3.1 to 1.5.0, removes its own flags and turns prefix caching on by
default. Older releases turn ``--connector`` into a ``--kv-transfer-config``; newer ones reject it. Some of its flags
and variables change the engine's arguments after vLLM's parser; these are doubts.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from policy.intake.command.words import Unknown
from policy.messages import listed, nearest, quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policy.intake.command.vllm_command import ServerCommand

MODULES: Final = frozenset({"dynamo.vllm", "dynamo.vllm.main", "dynamo.vllm.unified_main"})
DYNAMO_PLACE: Final = "added by Dynamo"
MAX_WARNINGS: Final = 8
PREFIX_CACHING: Final = "--enable-prefix-caching"
CONNECTORS: Final[dict[str, dict[str, Any]]] = {
    "lmcache": {"kv_connector": "LMCacheConnectorV1", "kv_role": "kv_both"},
    "nixl": {"kv_connector": "NixlConnector", "kv_role": "kv_both"},
    "kvbm": {
        "kv_connector": "DynamoConnector",
        "kv_connector_module_path": "kvbm.vllm_integration.connector",
        "kv_role": "kv_both",
    },
}
NO_CONNECTOR: Final = ("none", "null")
CONNECTOR: Final = "--connector"
TRANSFER: Final = "--kv-transfer-config"
LEAST_TRANSFER: Final = "--kv-t"
"""The shortest abbreviation of it."""
PREFILL_SWITCH: Final = "--is-prefill-worker"
PREFILL_FLAGS: Final = frozenset({PREFILL_SWITCH, "--disaggregation-mode"})
CONNECTOR_WARNING: Final = "newer releases of Dynamo refuse `--connector`; write `--kv-transfer-config` instead"
PREFILL_WARNING: Final = (
    "Dynamo 1.0 and later refuse a prefill worker without `--kv-transfer-config`, and earlier releases give it the "
    "connector NIXL; write `--kv-transfer-config`"
)
"""https://github.com/ai-dynamo/dynamo/pull/6554"""
SWITCHES: Final = frozenset(
    {
        *("--is-prefill-worker", "--is-decode-worker", "--multimodal-encode-worker", "--multimodal-worker"),
        *("--multimodal-decode-worker", "--embedding-worker", "--classify-worker", "--enable-multimodal", "--realtime"),
        *("--use-vllm-tokenizer", "--route-to-encoder", "--frontend-decoding", "--embedding-frontend-tokenization"),
        *("--exclude-tools-when-tool-choice-none", "--dyn-enable-structural-tag", "--gms-shadow-mode"),
        *("--enable-local-indexer", "--durable-kv-events", "--multimodal-embedding-cache-publisher"),
        *("--benchmark-collect-imbalanced", "--nats-tls-insecure", "--tcp-tls-insecure"),
        *("--fpm-trace", "--enable-rl"),
    }
)
VALUE_FLAGS: Final = frozenset(
    {
        *("--namespace", "--endpoint", "--endpoint-types", "--dyn-endpoint-types", "--kv-state-endpoint"),
        *("--discovery-backend", "--request-plane", "--response-plane", "--event-plane", "--engine-request-limit"),
        *("--dyn-tool-call-parser", "--dyn-reasoning-parser", "--dyn-default-thinking-mode", "--dyn-structural-tag"),
        *("--dyn-structural-tag-schema", "--dyn-structural-tag-scope", "--custom-jinja-template"),
        *("--dump-config-to", "--disaggregation-mode", "--sleep-mode-level", "--migration-limit"),
        *("--mm-prompt-template", "--custom-encoder-class", "--embedding-transfer-mode", "--model-express-url"),
        *("--embedding-worker-processes", "--health-check-payload", "--media-output-fs-url", "--media-output-http-url"),
        *("--benchmark-mode", "--benchmark-output-path", "--benchmark-points-file", "--benchmark-timeout"),
        *("--benchmark-warmup-iterations", "--benchmark-prefill-granularity", "--benchmark-decode-batch-granularity"),
        *("--benchmark-prefill-kv-read-granularity", "--benchmark-prefill-batch-granularity"),
        *("--benchmark-decode-length-granularity", "--decode-max-batch-size-samples"),
        *("--decode-max-kv-read-token-samples", "--prefill-max-kv-read-token-samples"),
        *("--prefill-max-new-token-samples", "--prefix-max-batch-size-samples"),
        *("--nats-tls-ca-cert-path", "--nats-tls-client-cert-path", "--nats-tls-client-key-path"),
        *("--tcp-tls-ca-cert-path", "--tcp-tls-cert-path", "--tcp-tls-key-path", "--tcp-tls-server-name"),
        *("--tcp-tls-client-ca-cert-path", "--tcp-tls-client-cert-path", "--tcp-tls-client-key-path"),
        *("--tcp-tls-handshake-timeout", "--multimodal-embedding-cache-capacity-gb"),
    }
)
"""The flags of Dynamo 1.3.1 to 1.5.0 with one value, and of releases before them, without those for its router."""
FALSE_VALUES: Final = frozenset({"", "0", "false", "no", "off", "n", "f"})
ENGINE_FLAGS: Final = {
    "--multimodal-embedding-cache-capacity-gb": frozenset({"", "0", "0.0"}),
    "--benchmark-mode": frozenset[str](),
    "--fpm-trace": frozenset[str](),
    "--enable-rl": frozenset[str](),
}
"""The flags of Dynamo that change the engine, with the values that leave the engine as it is.

The first sets an encoder-cache connector, the next two Dynamo's scheduler, and the last the mode of log probabilities.
"""
ENGINE_VARIABLES: Final[dict[str, frozenset[str]]] = {
    "DYN_CONNECTOR": frozenset({"", *NO_CONNECTOR}),
    "DYN_VLLM_OMNI": FALSE_VALUES,
    "DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB": frozenset({"", "0", "0.0"}),
    "DYN_BENCHMARK_MODE": frozenset({""}),
    "DYN_FPM_TRACE": FALSE_VALUES,
    "DYN_ENABLE_RL": FALSE_VALUES,
    "DYN_FORWARDPASS_METRIC_PORT": frozenset(),
    "DYN_ENABLE_TEST_LOGITS_PROCESSOR": FALSE_VALUES,
    "DYN_GMS_USE_V1": FALSE_VALUES,
}
"""The variables of Dynamo that change the engine, with the values that leave the engine as it is."""
LOADERS: Final = frozenset({"gms", "mx", "mx-source", "mx-target"})
"""The formats for which Dynamo sets its own loader, worker or scheduler."""
LOAD_PREFIX: Final = "--load"
"""The beginning of `--load-format` and its abbreviations."""
VARIABLE_DOUBT: Final = (
    "several releases of Dynamo change the engine by the variable `{}`; leave it out, and write the flags of vLLM"
)
FLAG_DOUBT: Final = "several releases of Dynamo change the engine by `{}`; leave it out, and write the flags of vLLM"
LOADER_DOUBT: Final = "for `--load-format {}` Dynamo sets classes of its own, which may choose another runner"


def with_vllm_arguments(server: ServerCommand, env: Mapping[str, str | None]) -> ServerCommand:
    """The server of `dynamo.vllm` with the arguments that vLLM gets, and warnings about its connectors.

    ``env`` has the variables of its container.
    """
    words: list[str] = []
    places: list[str] = []
    names: list[str] = []
    own: list[tuple[str, str]] = []
    is_connector, awaiting = False, ""
    where = DYNAMO_PLACE
    for word, place in zip(server.words, server.places, strict=True):
        flag, equals, text = word.partition("=")
        if word.startswith("--"):
            awaiting = ""
            is_connector = flag == CONNECTOR
        if flag == CONNECTOR:
            where = place
            names += [text.lower()] if equals else []
        elif is_connector:
            names.append(word.lower())
        elif awaiting:
            own.append((awaiting, word))
            awaiting = ""
        elif type(word) is not Unknown and flag in VALUE_FLAGS and not equals:
            awaiting = flag
        elif type(word) is not Unknown and (flag in VALUE_FLAGS or flag.replace("--no-", "--", 1) in SWITCHES):
            own.append((flag, text))
        else:
            words.append(word)
            places.append(place)
    connector, warnings = _transfer_config(names)
    if not connector and _is_prefill(own) and not any(map(_may_give_connector, words)):
        warnings.append(PREFILL_WARNING)
    if connector:
        words += [TRANSFER, connector]
        places += [where] * 2
    if not any(_name(word) in {PREFIX_CACHING, "--no-enable-prefix-caching"} for word in words):
        words.append(PREFIX_CACHING)
        places.append(DYNAMO_PLACE)
    doubts = [*server.doubts, *_flag_doubts(own), *_variable_doubts({**env, **server.env}), *_loader_doubts(words)]
    return replace(server, words=words, places=places, warnings=[*server.warnings, *warnings], doubts=doubts)


def _flag_doubts(own: Sequence[tuple[str, str]]) -> Iterator[str]:
    """The doubts about Dynamo's own flags, each given with its value."""
    for flag, harmless in ENGINE_FLAGS.items():
        if any(value.lower() not in harmless for name, value in own if name == flag):
            yield FLAG_DOUBT.format(flag)


def _variable_doubts(env: Mapping[str, str | None]) -> Iterator[str]:
    for name, harmless in ENGINE_VARIABLES.items():
        value = env.get(name)
        if name in env and (value is None or value.lower() not in harmless):
            yield VARIABLE_DOUBT.format(name)


def _loader_doubts(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        value = value if equals else "".join(words[at + 1 : at + 2])
        if flag.startswith(LOAD_PREFIX) and value in LOADERS:
            yield LOADER_DOUBT.format(value)
            return


def _transfer_config(names: list[str]) -> tuple[str, list[str]]:
    """The JSON of the connectors with these names, empty if there is none, and warnings."""
    legal = [*CONNECTORS, *NO_CONNECTOR]
    warnings = [
        f"unknown connector {quoted(name)}; legal: {listed(legal)}{nearest(name, legal)}"
        for name in dict.fromkeys(names)
        if name not in legal
    ][:MAX_WARNINGS]
    if names:
        warnings.append(CONNECTOR_WARNING)
    chosen = [CONNECTORS[name] for name in names if name in CONNECTORS]
    if not chosen:
        return "", warnings
    many = {
        "kv_connector": "PdConnector",
        "kv_role": "kv_both",
        "kv_connector_extra_config": {"connectors": chosen},
        "kv_connector_module_path": "kvbm.vllm_integration.connector",
    }
    config = json.dumps(chosen[0] if len(chosen) == 1 else many, separators=(",", ":"))
    return config, warnings


def _is_prefill(own: Sequence[tuple[str, str]]) -> bool:
    """Whether Dynamo's own flags, each given with its value, make the engine a prefill worker."""
    modes = [flag == PREFILL_SWITCH or value.lower() == "prefill" for flag, value in own if flag in PREFILL_FLAGS]
    return bool(modes) and modes[-1]


def _may_give_connector(word: str) -> bool:
    """Whether a word may give vLLM a connector: the flag or its abbreviation, a file of options, an unknown word."""
    name = _name(word).partition(".")[0]
    return (
        type(word) is Unknown or name == "--config" or (name.startswith(LEAST_TRANSFER) and TRANSFER.startswith(name))
    )


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-")
