"""A model's pooling, from the Sentence Transformers files beside its configuration and from ``--pooler-config``.

Reads ``modules.json`` and the pooling module's ``config.json`` as vLLM does (``get_pooling_config``). Not here: the
defaults of the model's class, which are in the model tables.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct

from policy.intake.model.companion import read_companion

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.command_line import ParsedOptions

MODULES: Final = "modules.json"
POOLING: Final = "sentence_transformers.models.Pooling"
POOLINGS: Final = frozenset({POOLING, "sentence_transformers.sentence_transformer.modules.pooling.Pooling"})
"""The types of pooling modules that vLLM recognizes from 0.30 on; earlier releases recognize only ``POOLING``."""
POOLING_PATH: Final = "1_Pooling"
POOLING_MODULES: Final = f'[{{"type": "{POOLING}", "path": "{POOLING_PATH}"}}]'
"""A ``modules.json`` with a pooling module."""
EMBEDDING_NAME: Final = re.compile(
    r"(?<![^\W_])(?:bge|gte|e5|(?:embed|rerank|sentence|retriev|colbert)\w*?)(?![^\W_])", re.ASCII | re.IGNORECASE
)
"""The words that embedding and reranking models have in their names."""
SEQUENCE_TYPES: Final = frozenset({"CLS", "LAST", "MEAN"})
TOKEN_TYPES: Final = frozenset({"ALL", "STEP"})


class Pooling(Struct, frozen=True):
    """Whether a model has a pooling module, and its pooling types for sequences and tokens, if stated."""

    has_module: bool = False
    sequence: str | None = None
    tokens: str | None = None


NO_POOLING: Final = Pooling()


def read_pooling(name: str, files: Mapping[str, str], options: ParsedOptions, series: tuple[int, int]) -> Pooling:
    """The pooling of the model ``name``; the command line takes precedence over the files.

    Raises:
        CompanionInvalid: a file is not valid JSON.
    """
    stated = options.values.get("pooler_config")
    if stated is None and not files:
        return NO_POOLING
    listed = read_companion(f"{name}/{MODULES}", files)
    if listed is None and stated is None:
        return NO_POOLING
    module = _pooling_module(listed, series)
    if module is None:
        return Pooling(has_module=False, **_of_command_line(stated))
    return _of_module(name, module.get("path"), files, stated, series)


def with_module(name: str, files: Mapping[str, str], options: ParsedOptions, series: tuple[int, int]) -> Pooling:
    """The pooling of the model ``name`` if its ``modules.json`` were ``POOLING_MODULES``.

    Raises:
        CompanionInvalid: the module's configuration is not valid JSON.
    """
    return _of_module(name, POOLING_PATH, files, options.values.get("pooler_config"), series)


def _of_module(name: str, path: object, files: Mapping[str, str], stated: object, series: tuple[int, int]) -> Pooling:
    config = read_companion(f"{name}/{path}/config.json", files)
    return Pooling(has_module=True, **(_types(config, series) | _of_command_line(stated)))


@lru_cache(maxsize=1024)
def is_named_like_embedding(name: str) -> bool:
    """Whether a model's name suggests that it is an embedding or reranking model.

    Cached because a fleet has many deployments of few models, and a search takes 1 % of the instructions to derive
    facts.
    """
    return EMBEDDING_NAME.search(name) is not None


def _pooling_module(listed: Any, series: tuple[int, int]) -> Mapping[str, Any] | None:
    names = tuple(POOLINGS) if series >= (0, 30) else (POOLING,)  # a tuple, because the module's type may be unhashable
    modules = listed if isinstance(listed, list) else []
    return next((module for module in modules if isinstance(module, dict) and module.get("type") in names), None)


def _types(config: Any, series: tuple[int, int]) -> dict[str, str]:
    """The pooling mode of a module: its last true field, or, from 0.30 on, its ``pooling_mode``."""
    found: dict[str, str] = {}
    for key, value in (config if isinstance(config, dict) else {}).items():
        if series >= (0, 30) and key == "pooling_mode" and isinstance(value, str):
            found |= _kind(_type(value))
        elif value is True:
            found |= _kind(_type(key))
    return found


def _type(name: str) -> str:
    name = name.replace("pooling_mode_", "").split("_", 1)[0]
    return "LAST" if "lasttoken" in name else name.upper()


def _of_command_line(stated: object) -> dict[str, str]:
    if not isinstance(stated, dict):
        return {}
    modes = {"sequence": stated.get("seq_pooling_type"), "tokens": stated.get("tok_pooling_type")}
    return {key: value for key, value in modes.items() if isinstance(value, str)} | _kind(stated.get("pooling_type"))


def _kind(pooling_type: object) -> dict[str, str]:
    match pooling_type:
        case str() if pooling_type in SEQUENCE_TYPES:
            return {"sequence": pooling_type}
        case str() if pooling_type in TOKEN_TYPES:
            return {"tokens": pooling_type}
    return {}
