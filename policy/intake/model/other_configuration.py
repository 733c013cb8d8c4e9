"""Why vLLM may take a model's configuration from another file than the given ``config.json``.

Follows `get_configuration_file` of Transformers, the same in all releases that vLLM allows. Such a file is not read
here, so each is a doubt.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

VERSIONED: Final = "configuration_files"
CONFIG: Final = "config.json"


def other_configurations(read: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """A doubt for each model whose configuration may be another file's; ``read`` has the given ones by name."""
    return [
        f"`{VERSIONED}` in the `config.json` of {quoted(name)} names {quoted(other)}, which vLLM loads instead with a "
        f"Transformers of that version or newer; give that file as the model's `config.json`, without `{VERSIONED}`"
        for name, config in read.items()
        if VERSIONED in config and (other := _versioned(config[VERSIONED]))
    ]


def _versioned(names: object) -> str:
    """The first name of a configuration for some version of Transformers; empty if there is none."""
    found = names if isinstance(names, list | dict) else ()  # Transformers takes the keys of an object
    return next((name for name in found if isinstance(name, str) and _has_version(name)), "")


def _has_version(name: str) -> bool:
    return name.startswith("config.") and name.endswith(".json") and name != CONFIG
