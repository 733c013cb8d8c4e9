"""The arguments that `dynamo.vllm` passes on to vLLM's parser.

NVIDIA Dynamo's worker, read at its main branch, 2026, removes its own flags, turns prefix caching on by default, and
makes a ``--kv-transfer-config`` of ``--connector`` in older releases; newer ones reject it.
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
ADDED: Final = "added by Dynamo"
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


VARIABLES: Final = {
    "DYN_CONNECTOR": frozenset({"", *NONE}),
    "DYN_VLLM_OMNI": frozenset({"", "0", "false", "no", "off", "n", "f"}),
}
"""The variables that stand for a flag that changes the engine, with the values by which they do not."""
LOADERS: Final = frozenset({"gms", "mx", "mx-source", "mx-target"})
"""The formats for which Dynamo sets a loader, a worker or a scheduler of its own."""
LOADING: Final = "--load"
"""The beginning of `--load-format` and its abbreviations."""
OF_VARIABLE: Final = (
    "several releases of Dynamo take the variable `{}` for a flag that changes the engine; leave it out, and write the "
    "flags of vLLM"
)
OF_LOADER: Final = "for `--load-format {}` Dynamo sets classes of its own, which may choose another runner"


def as_vllm_gets_it(server: ServerCommand, env: Mapping[str, str | None]) -> ServerCommand:
    """The server of `dynamo.vllm` with the arguments that vLLM gets, and warnings about its connectors.

    ``env`` has the variables of its container.
    """
    words: list[str] = []
    places: list[str] = []
    names: list[str] = []
    is_connector = is_value = False
    where = ADDED
    for word, place in zip(server.words, server.places, strict=True):
        flag, equals, text = word.partition("=")
        if word.startswith("--"):
            is_value = False
            is_connector = flag == CONNECTOR
        if flag == CONNECTOR:
            where = place
            names += [text.lower()] if equals else []
        elif is_connector:
            names.append(word.lower())
        elif is_value:
            is_value = False
        elif type(word) is not Unknown and (flag.replace("--no-", "--", 1) in SWITCHES or flag in VALUES):
            is_value = flag in VALUES and not equals
        else:
            words.append(word)
            places.append(place)
    connector, warnings = _transfer_config(names)
    if connector:
        words += ["--kv-transfer-config", connector]
        places += [where] * 2
    if not any(_name(word) in {PREFIX_CACHING, "--no-enable-prefix-caching"} for word in words):
        words.append(PREFIX_CACHING)
        places.append(ADDED)
    doubts = [*server.doubts, *_of_variables({**env, **server.env}), *_of_loaders(words)]
    return replace(server, words=words, places=places, warnings=[*server.warnings, *warnings], doubts=doubts)


def _of_variables(env: Mapping[str, str | None]) -> Iterator[str]:
    for name, harmless in VARIABLES.items():
        value = env.get(name, "")
        if value is None or value.lower() not in harmless:
            yield OF_VARIABLE.format(name)


def _of_loaders(words: Sequence[str]) -> Iterator[str]:
    for at, word in enumerate(words):
        flag, equals, value = word.partition("=")
        value = value if equals else "".join(words[at + 1 : at + 2])
        if flag.startswith(LOADING) and value in LOADERS:
            yield OF_LOADER.format(value)
            return


def _transfer_config(names: list[str]) -> tuple[str, list[str]]:
    """The JSON of the connectors with these names, empty if there is none, and warnings."""
    legal = [*CONNECTORS, *NONE]
    warnings = [
        f"unknown connector {quoted(name)}; legal: {listed(legal)}{nearest(name, legal)}"
        for name in dict.fromkeys(names)
        if name not in legal
    ][:MAX_WARNINGS]
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
    return config, [*warnings, "newer releases of Dynamo refuse `--connector`; write the `--kv-transfer-config` itself"]


def _name(word: str) -> str:
    return word.partition("=")[0].replace("_", "-")
