"""Signs of vLLM in a container whose image is not known: its flags, its name, its variables."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from policy.intake.command.flags import is_flag_of_any_release, with_dashes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

PREFIXES: Final = ("VLLM_", "SM_VLLM_")
"""The prefixes of vLLM's variables, and of those that an image for SageMaker turns into arguments."""
ADDRESS: Final = "://"
"""Part of an address, which a client of vLLM has in its arguments and variables: `VLLM_URL=http://vllm:8000`."""
NAME: Final = re.compile(r"(?<![\w.-])vllm(?![\w:-])")
"""Matches vLLM's name, but not in the names of metrics that a scheduler reads: `vllm:num_requests_waiting`."""
MODEL: Final = "--model"
MODEL_NAME: Final = re.compile(r"/[^\s:]{1,1024}|[A-Za-z0-9][\w.-]{0,200}/[\w.-]{1,200}", re.ASCII)
"""Matches a model as an argument: a path, or a name on the hub."""
USUAL_FLAGS: Final = ("--served", "--max", "--tensor", "--gpu")
"""The beginnings of flags, one of which is in nearly every command of vLLM; the webhooks select objects by them."""
MIN_SIGNS: Final = 2
"""How many different flags that only vLLM has must be among arguments for them to be those of its server."""
GENERAL_FLAGS: Final = frozenset(
    {
        *("--api-key", "--block-size", "--config", "--convert", "--download-dir", "--dtype", "--grpc", "--grpc-port"),
        *("--headless", "--hf-token", "--host", "--ignore-patterns", "--log-config-file", "--log-level"),
        *("--logging-config", "--master-addr", "--master-port", "--middleware", MODEL, "--nnodes", "--node-rank"),
        *("--port", "--quantization", "--revision", "--root-path", "--runner", "--seed", "--shutdown-timeout"),
        *("--ssl-ca-certs", "--ssl-cert-reqs", "--ssl-certfile", "--ssl-ciphers", "--ssl-keyfile", "--tokenizer"),
        *("--allow-credentials", "--allowed-headers", "--allowed-methods", "--allowed-origins", "--uds"),
        *("--uvicorn-log-level", "--watermark"),
    }
)
"""Flags of vLLM that many other programs have too."""


def shows_vllm(words: Sequence[str], env: Mapping[str, str | None], *, by_model: bool = True) -> bool:
    """Whether a word or a variable of a container shows vLLM.

    `--model` does so with a model's name on the hub or with a path, unless ``by_model`` is false.
    """
    return (
        any(name.startswith(PREFIXES) and ADDRESS not in (value or "") for name, value in env.items())
        or any(_is_sign(word) for word in words)
        or (by_model and any(_names_model(*pair) for pair in pairwise((*words, ""))))
    )


def names_hub_model(word: str) -> bool:
    """Whether a word may be a model's name on the hub."""
    return not word.startswith("/") and MODEL_NAME.fullmatch(word) is not None


def are_server_arguments(words: Sequence[str]) -> bool:
    """Whether arguments are those of vLLM's server: it has all their flags, they name the model, and two show vLLM.

    The first argument may be the model, as after `vllm serve`, if one of the usual flags follows. Other programs have
    some flags of vLLM, but not all of an engine's: the flags of a client or a router are unknown.
    """
    flags = [word.partition("=")[0] for word in words if word.startswith("--")]
    return (
        sum(map(_is_sign, dict.fromkeys(flags))) >= MIN_SIGNS
        and all(is_flag_of_any_release(with_dashes(flag.partition(".")[0])) for flag in flags)
        and (
            any(_names_model(*pair) for pair in pairwise((*words, "")))
            or (MODEL_NAME.fullmatch(words[0]) is not None and any(flag.startswith(USUAL_FLAGS) for flag in flags))
        )
    )


def _is_sign(word: str) -> bool:
    if not word.startswith("-"):
        return ADDRESS not in word and NAME.search(word) is not None
    flag, _, value = word.partition("=")
    name = flag.partition(".")[0]
    if not name.startswith("--"):
        return len(name) > len("-n") and is_flag_of_any_release(name)  # other programs have flags of one letter
    name = with_dashes(name)
    return (name not in GENERAL_FLAGS and is_flag_of_any_release(name)) or value == "vllm"


def _names_model(word: str, following: str) -> bool:
    """Whether a word, with the one that follows it, is `--model` with a model's name on the hub or a path."""
    flag, equals, value = word.partition("=")
    value = value if equals else following
    return flag == MODEL and "/" in value and ADDRESS not in value
