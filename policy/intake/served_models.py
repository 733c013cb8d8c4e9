"""The models that a deployment serves: the model itself, or what a *speculators* repository names, and its draft.

Not here: where a configuration comes from (`model_lookup`), and what it means (`model`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.errors import RequestFault, RequestInvalid
from policy.intake.derive.speculation import (
    SPECULATORS,
    Speculation,
    draft_model,
    needs_draft,
    read_speculation,
    read_speculators,
    speculation_fault,
)
from policy.intake.model.companion import CompanionInvalid
from policy.intake.model.pooling import MODULES, POOLING_MODULES
from policy.intake.model.registry import Unsupported
from policy.intake.model.target import read_target, with_pooling_module
from policy.intake.model_lookup import ModelLookup, no_models, pointer_of_model
from policy.intake.origins import pointer_of
from policy.pointer import at

if TYPE_CHECKING:
    from collections.abc import Callable

    from policy.intake.command_line import ParsedOptions
    from policy.intake.deployment import Deployment
    from policy.intake.model.tables import Tables
    from policy.intake.model.target import ServedModel

UNSUPPORTED_MODEL: Final = "unsupported-model"
DEFAULT_MODEL: Final = "Qwen/Qwen3-0.6B"
"""The model that every release serves by default."""


def read_models(
    deployment: Deployment, options: ParsedOptions, models: ModelLookup, known: Tables, pointer: str
) -> tuple[ServedModel, Speculation | None]:
    """The served model, which a *speculators* repository may replace, and the speculative decoding."""
    name = str(options.values.get("model", DEFAULT_MODEL)).rstrip("/")
    speculation = stated_speculation(options, deployment, pointer)
    config = models.config(name)
    found = read_speculators(config, known)
    if found is not None:
        speculation = _merge_speculators(found[1], name, speculation, known)
        name = found[0]
        config = models.config(name)
    config_name = str(options.values.get("hf_config_path") or name).rstrip("/")
    if config_name != name:
        config = models.config(config_name)
    _require_draft(speculation, name, known, models)
    models.check()
    try:
        return read_target(
            name, config_name, config, options, models.files, known, deployment.environment.vllm_platform
        ), speculation
    except Unsupported as error:
        fault = RequestFault(
            pointer_of_model(config_name, deployment, pointer), f"vLLM {known.release} refuses this model: {error}"
        )
        raise RequestInvalid([fault], UNSUPPORTED_MODEL) from error
    except CompanionInvalid as error:
        raise RequestInvalid([RequestFault(at(f"{pointer}/files", error.path), str(error))]) from error


def names_of_models(deployment: Deployment, options: ParsedOptions, pointer: str) -> dict[str, str]:
    """The own names of the models that the arguments name, by these names; the models are not looked up."""
    speculation = read_speculation(options)
    draft = None if speculation is None else speculation.keys.get("model")
    models = ModelLookup(deployment, no_models, pointer)
    for name in (options.values.get("model", DEFAULT_MODEL), options.values.get("hf_config_path"), draft):
        if isinstance(name, str):
            models.record(name.rstrip("/"))
    return models.own_names


def decide_as_pooling(
    target: ServedModel,
    models: ModelLookup,
    options: ParsedOptions,
    platform: str,
    decide: Callable[[ServedModel], tuple[str | None, bool]],
) -> tuple[str | None, bool] | None:
    """The decision if the model had a pooling module; None if vLLM would refuse it."""
    models.files = {**models.files, f"{target.name}/{MODULES}": POOLING_MODULES}
    try:
        return decide(with_pooling_module(target, models.files, options, platform))
    except (Unsupported, CompanionInvalid, RequestInvalid):
        return None


def stated_speculation(options: ParsedOptions, deployment: Deployment, pointer: str) -> Speculation | None:
    """The speculative decoding, if vLLM accepts what is stated.

    Raises:
        RequestInvalid: vLLM refuses it.
    """
    speculation = read_speculation(options)
    if speculation is not None and (message := speculation_fault(speculation)):
        place = pointer_of(speculation.place, deployment, pointer)
        raise RequestInvalid([RequestFault(place, f"the speculative configuration: {message}")])
    return speculation


def _merge_speculators(
    settings: dict[str, Any], model: str, speculation: Speculation | None, known: Tables
) -> Speculation:
    """The speculative decoding of a *speculators* repository, merged with the command line's from 0.29 on."""
    stated = speculation.keys if speculation is not None and known.series >= (0, 29) else {}
    return Speculation(
        {**settings, **stated, "method": settings["method"], "model": model}, f"model_configs/{model}/{SPECULATORS}"
    )


def _require_draft(speculation: Speculation | None, target: str, known: Tables, models: ModelLookup) -> None:
    if speculation is None or not needs_draft(speculation, known):
        return
    name = draft_model(speculation, target)
    if name is not None:
        models.config(name.rstrip("/"))
