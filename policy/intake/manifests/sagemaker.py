"""The arguments that the entry point of AWS's image for SageMaker makes of the container's variables.

Read from `sagemaker_entrypoint.sh` and the documentation of aws/deep-learning-containers: `SM_VLLM_MAX_MODEL_LEN=4096`
becomes `--max-model-len 4096`, `true` a flag without a value, and `false` none. It starts vLLM's module for servers on
port 8080, and passes on no argument of the container.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.manifests.images import split_name

if TYPE_CHECKING:
    from collections.abc import Mapping

AWS: Final = ("763104351884.dkr.ecr.", "public.ecr.aws/deep-learning-containers/")
PREFIX: Final = "SM_VLLM_"
MODEL: Final = "SM_VLLM_MODEL"
HUB_MODEL: Final = "HF_MODEL_ID"
SERVER: Final = ("python3", "-m", "vllm.entrypoints.openai.api_server", "--port", "8080")
NO_MODEL: Final = (
    "the image for SageMaker takes the model from `/opt/ml/model` if neither `SM_VLLM_MODEL` nor `HF_MODEL_ID` is set; "
    "set `SM_VLLM_MODEL`"
)
IGNORED_ARGUMENTS: Final = "the image for SageMaker passes on no arguments; set its variables `SM_VLLM_…` instead"
HIDDEN_VARIABLES: Final = "variables that the manifest does not show may set arguments of the image for SageMaker"


def is_sagemaker(image: str | None) -> bool:
    """Whether an image is AWS's vLLM for SageMaker, by its registry and its tag."""
    return image is not None and image.startswith(AWS) and "sagemaker" in (split_name(image)[1] or "")


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
        words.append((place, f"--{name.removeprefix(PREFIX).lower().replace('_', '-')}"))
        if value not in {"", "true"}:
            words.append((place, f"$({name})"))
    return words


def names_model(env: Mapping[str, str | None]) -> bool:
    """Whether the variables name the model."""
    return MODEL in env or HUB_MODEL in env
