"""Why vLLM may take a model's configuration from a different file than the given ``config.json``.

Follows `get_configuration_file` of Transformers, the same in all releases that vLLM allows, and `get_config` in
`vllm/transformers_utils/config.py`. Such a file is not read here, so each is a doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from packaging.specifiers import SpecifierSet

from policy.intake.model.gguf import FILE_SUFFIX, causal_class, is_gguf
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from policy.intake.command_line import ParsedOptions

VERSIONED_FIELD: Final = "configuration_files"
CONFIG: Final = "config.json"
FORMAT: Final = "config_format"
MISTRAL: Final = "mistral"
RELEASES_PREFERRING_MISTRAL: Final = SpecifierSet(">=0.12", prereleases=True)
"""The releases in which `--config-format auto` prefers Mistral's `params.json` to a `config.json`.

Up to 0.11.2 (https://github.com/vllm-project/vllm/blob/v0.11.2/vllm/transformers_utils/config.py) `params.json` is used
only if there is no `config.json`. From 0.12 on
(https://github.com/vllm-project/vllm/blob/v0.12.0/vllm/transformers_utils/config.py) it takes precedence, in 0.20
(https://github.com/vllm-project/vllm/blob/v0.20.0/vllm/transformers_utils/config.py) to 0.33 only if there are
`consolidated*.safetensors` too.
"""
OWNER: Final = "mistralai"
"""The owner on the hub whose models have both files."""
NOT_READ: Final = "that file is not read here; for the given `config.json` write `--config-format hf`"


def other_configurations(
    read: Mapping[str, Mapping[str, Any]], own_names: Mapping[str, str], options: ParsedOptions, release: str
) -> list[str]:
    """A doubt for each model whose configuration vLLM may take from another file.

    ``read`` has the given configurations, and ``own_names`` the models' own names, both by the names in the arguments.
    """
    found = [
        f"`{VERSIONED_FIELD}` in the `{CONFIG}` of {quoted(name)} names {quoted(other)}, which vLLM loads instead with "
        f"a Transformers of that version or newer; give that file as the model's `{CONFIG}`, without "
        f"`{VERSIONED_FIELD}`"
        for name, config in read.items()
        if VERSIONED_FIELD in config and (other := _versioned(config[VERSIONED_FIELD]))
    ]
    by, place = options.others.get(FORMAT, ("auto", ""))
    replaced = _replaced(options)
    for name, config in read.items():
        if name == replaced:
            continue
        if by == MISTRAL:
            found.append(_of_flag(name, place))
        elif by == "auto" and _owner(own_names.get(name, name)) == OWNER and release in RELEASES_PREFERRING_MISTRAL:
            found.append(_of_mistral(name))
        if is_gguf(name, release):
            found += _of_gguf(name, config, options)
    return found


def _versioned(names: object) -> str:
    """The first name of a configuration for some version of Transformers; empty if there is none."""
    found = names if isinstance(names, list | dict) else ()  # Transformers takes the keys of an object
    return next((name for name in found if isinstance(name, str) and _has_version(name)), "")


def _has_version(name: str) -> bool:
    return name.startswith("config.") and name.endswith(".json") and name != CONFIG


def _replaced(options: ParsedOptions) -> str | None:
    """The model whose configuration `--hf-config-path` replaces; None without one."""
    if not (path := _name(options, "hf_config_path")):
        return None
    model = _name(options, "model")
    return model if path != model else None


def _name(options: ParsedOptions, option: str) -> str:
    return str(options.values.get(option) or "").rstrip("/")


def _of_flag(name: str, place: str) -> str:
    return (
        f"by `--config-format` ({place}) vLLM takes the configuration of {quoted(name)} from its `params.json`; "
        f"{NOT_READ}"
    )


def _of_mistral(name: str) -> str:
    return (
        f"vLLM takes the configuration of {quoted(name)} from its `params.json` if it has one and "
        f"`consolidated*.safetensors`, as models of `{OWNER}` have; {NOT_READ}"
    )


def _of_gguf(name: str, config: Mapping[str, Any], options: ParsedOptions) -> Iterator[str]:
    if name.endswith(FILE_SUFFIX):
        yield (
            f"vLLM takes the configuration of {quoted(name)} from that GGUF file, which is not read here; give a "
            f"model with a `{CONFIG}` as `--hf-config-path`"
        )
        return
    overrides = options.values.get("hf_overrides")
    is_overridden = isinstance(overrides, dict) and "architectures" in overrides
    if is_overridden and name == (_name(options, "hf_config_path") or _name(options, "model")):
        return
    if causal_class(config, overrides) is None:
        yield (
            f"vLLM replaces the architecture in the given `{CONFIG}` of {quoted(name)}, a GGUF model, by the "
            "causal class of its model type, which is not known here; state `architectures` in `--hf-overrides`"
        )


def _owner(name: str) -> str:
    """The owner in a model's name or path, in lower case as the hub compares it; empty if there is none."""
    return name.rpartition("/")[0].rpartition("/")[2].lower()
