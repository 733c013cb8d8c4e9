"""Where the origin of a fact is in the request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from policy.intake.command.word_places import word_pointer
from policy.intake.model_lookup import pointer_of_model
from policy.pointer import at

if TYPE_CHECKING:
    from policy.intake.deployment import Deployment

MODELS: Final = "model_configs/"


def pointer_of(origin: str, deployment: Deployment, pointer: str) -> str:
    """The JSON pointer of a fact's origin: a word, a variable or a model's configuration."""
    of_model = origin.removeprefix(MODELS)
    if of_model != origin:
        names = [name for name in deployment.model_configs if f"{of_model}/".startswith(f"{name}/")]
        return pointer_of_model(max(names, key=len), deployment, pointer) if names else pointer
    variable = origin.removeprefix("env.")
    return word_pointer(f"{pointer}/args", origin) if variable == origin else at(f"{pointer}/env", variable)
