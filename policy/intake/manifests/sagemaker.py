"""The arguments that the entry point of AWS's image for SageMaker makes from the container's variables.

Read from `sagemaker_entrypoint.sh` and the documentation of aws/deep-learning-containers: `SM_VLLM_MAX_MODEL_LEN=4096`
becomes `--max-model-len 4096`, `true` a flag without a value, and `false` no flag. The entry point starts vLLM's module
for servers on port 8080, and passes on no argument of the container. It takes each line of the output of `env` that
begins with the prefix as a variable, so that a line break in any value may add another one.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from policy.intake.manifests.images import split_name
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from policy.intake.manifests.mounts import Mounts

SHORT_TAG: Final = re.compile(r"[0-9.]{1,16}-gpu-py[0-9]{1,4}", re.ASCII)
PREFIX: Final = "SM_VLLM_"
MODEL: Final = "SM_VLLM_MODEL"
HUB_MODEL: Final = "HF_MODEL_ID"
SERVER: Final = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "8080")
NO_MODEL: Final = (
    "the image for SageMaker takes the model from `/opt/ml/model` if neither `SM_VLLM_MODEL` nor `HF_MODEL_ID` is set; "
    "set `SM_VLLM_MODEL`"
)
MODEL_FOLDER: Final = "/opt/ml/model"
MOUNTED_MODEL: Final = (
    "the entry point of the image for SageMaker prefers a model in `/opt/ml/model`, where {} may have one, to "
    "`HF_MODEL_ID`; set `SM_VLLM_MODEL`"
)
IGNORED_ARGUMENTS: Final = "the image for SageMaker passes on no arguments; set its variables `SM_VLLM_…` instead"
HIDDEN_VARIABLES: Final = "variables that the manifest does not show may set arguments of the image for SageMaker"
LINE_BREAK_DOUBT: Final = (
    "the entry point of the image for SageMaker reads each line of the variables' values as a variable, and {} has a "
    "line break; leave it out"
)
UNKNOWN_VALUE_DOUBT: Final = (
    "the entry point of the image for SageMaker reads each line of the variables' values as a variable, and the value "
    "of {} is not in the manifest; write `vllm serve MODEL …` as the command"
)
EQUALS_SIGN_DOUBT: Final = "the entry point of the image for SageMaker drops the `=` at the end of {}; leave it out"
SUPERVISOR_PREFIXES: Final = ("SUPERVISOR_", "STANDARD_")
"""The beginnings of the variables of `standard-supervisor`, which starts vLLM since May 2026.

They set another command or other variables for it, and packages that are installed before
(https://github.com/aws/model-hosting-container-standards).
"""
SUPERVISOR_DOUBT: Final = (
    "the supervisor in the image for SageMaker may install packages or change the command or the variables by {}; "
    "leave it out"
)
SPLIT_BY_SUPERVISOR: Final = re.compile(r"\s|%\(|^\[")
"""Matches what the supervisor splits or expands in a value, and the JSON array of which newer images make words."""
SPLIT_DOUBT: Final = (
    "some builds of the image for SageMaker make several arguments of {}, which has a blank or `%(`, or begins with "
    "`[`; write `vllm serve MODEL …` as the command"
)
REPEATED_FLAG_DOUBT: Final = (
    "the entry point of the image for SageMaker makes the same flag of {} as of another variable, in an order that is "
    "not known; leave one of them out"
)


def is_sagemaker(image: str | None) -> bool:
    """Whether the tag of an image of vLLM shows AWS's image for SageMaker, or a copy in another registry.

    A tag without the platform is SageMaker's; that of the image for EC2 ends in `-ec2`
    (https://github.com/aws/deep-learning-containers/tree/main/docs/src/data/vllm).
    """
    tag = "" if image is None else split_name(image)[1] or ""
    return "sagemaker" in tag or SHORT_TAG.fullmatch(tag) is not None


def command_of_variables(env: Mapping[str, str | None]) -> list[tuple[str, str]]:
    """The words of the server with the place of each; a value that is not known is a reference to its variable."""
    words = [("the image's entry point", word) for word in SERVER]
    names = [name for name in env if name.startswith(PREFIX) and name != PREFIX]
    if MODEL not in names and HUB_MODEL in env:
        words += [(f"env.{HUB_MODEL}", "--model"), (f"env.{HUB_MODEL}", f"$({HUB_MODEL})")]
    for name in names:
        value, place = env[name], f"env.{name}"
        if value == "false":
            continue
        words.append((place, _flag(name)))
        if value not in {"", "true"}:
            words.append((place, f"$({name})"))
    return words


def names_model(env: Mapping[str, str | None]) -> bool:
    """Whether the variables name the model."""
    return MODEL in env or HUB_MODEL in env


def doubt_about_variables(env: Mapping[str, str | None], mounts: Mounts) -> str:
    """Why the entry point may make other arguments from the variables; empty if it certainly does not."""
    mounted = () if MODEL in env else mounts.model_mounts_near(MODEL_FOLDER)
    if mounted:
        return MOUNTED_MODEL.format(quoted(mounted[0]))
    flags: set[str] = set()
    for name, value in env.items():
        if value is None:
            return UNKNOWN_VALUE_DOUBT.format(quoted(name))
        if "\n" in value or "\n" in name:
            return LINE_BREAK_DOUBT.format(quoted(name))
        if name.startswith(SUPERVISOR_PREFIXES):
            return SUPERVISOR_DOUBT.format(quoted(name))
        if not name.startswith(PREFIX):
            continue
        if SPLIT_BY_SUPERVISOR.search(value) is not None:
            return SPLIT_DOUBT.format(quoted(name))
        flag = _flag(name)
        if value.endswith("="):
            return EQUALS_SIGN_DOUBT.format(quoted(name))
        if flag in flags:
            return REPEATED_FLAG_DOUBT.format(quoted(name))
        flags.add(flag)
    return ""


def _flag(name: str) -> str:
    return f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}"
