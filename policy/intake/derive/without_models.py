"""The facts of a deployment in a release without tables of models: 0.3 to 0.19.

There the decision depends on two variables and, if V2 is asked for, on a few arguments. The parallel sizes and the
connector are derived because the answer shows them. The model's ``config.json`` is not read, and no fact about the
model is derived.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from policy.facts.vocabulary import ENGINE_VARIABLE, FACTS, VARIABLE
from policy.intake.derive.row import default_facts
from policy.intake.derive.speculation import read_speculation
from policy.intake.derive.transfer import derive_transfer
from policy.intake.model.tables import releases
from policy.intake.provenance import ASSUMED, DEFAULT, Provenance
from policy.messages import listed
from policy.rules.effects import Layer
from policy.rules.releases import series

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from policy.facts.vocabulary import Series
    from policy.intake.command_line import ParsedOptions
    from policy.rules.release_rule import ReleaseRule

V2_SINCE: Final = (0, 12)
"""The first series with V2 and with its variable."""
FACT_OF_SIZE: Final = {
    "pipeline_parallel_size": "parallel_config.pipeline_parallel_size",
    "tensor_parallel_size": "parallel_config.tensor_parallel_size",
}
"""The options whose facts are shown in every release."""
LOGPROBS_MODE: Final = "logprobs_mode"
METHOD: Final = "speculative_config.method"
METHODS: Final = FACTS[METHOD].choices
"""The methods of speculative decoding; one that is not stated may be any of them."""
NGRAM: Final = frozenset({"ngram", "[ngram]"})

_DERIVED: Final = frozenset(
    {
        *(VARIABLE, ENGINE_VARIABLE, "model_config", *FACT_OF_SIZE.values()),
        *("kv_transfer_config", "kv_transfer_config.kv_connector", "kv_transfer_config.connectors"),
        *("kv_transfer_config.kv_role", "ec_transfer_config"),
        *("platform.is_tpu", "platform.is_out_of_tree", "platform.plugin", "omni"),
    }
)
_DERIVED_WITH_V2: Final = _DERIVED | {
    *(f"model_config.{LOGPROBS_MODE}", "model_config.runner_type", "speculative_config", METHOD)
}


def has_models(release: str) -> bool:
    """Whether the release has tables of models, so that all facts can be derived."""
    return release in releases()


def not_checked(release: str) -> str:
    """The warning that says what is not checked in a release without tables of models."""
    return (
        f"vLLM {release} is older than the releases whose models are known: the decision does not depend on the model, "
        "and whether this vLLM can load it is not checked"
    )


def warnings_of_defaults(rules: Iterable[ReleaseRule], release: str) -> list[str]:
    """A warning for each rule that reads facts that are not derived in a release without tables of models.

    They have their defaults, whatever the deployment says. A rule that only decides on the runner says nothing in
    releases that have V1 alone.
    """
    if has_models(release):
        return []
    has_v2 = series(release) >= V2_SINCE
    derived = _DERIVED_WITH_V2 if has_v2 else _DERIVED
    warnings = []
    for item in rules:
        facts = sorted({leaf.fact for leaf in item.leaves if leaf.fact not in derived})
        is_unused = item.rule.layer is Layer.HOUSE and item.rule.effect.decides and not has_v2
        if facts and not is_unused:
            warnings.append(
                f"the rule `{item.rule.id}` reads {listed(facts)}, not derived from deployments of vLLM {release} and "
                "so assumed to be the default; ask with `facts` to state it"
            )
    return warnings


def variables_of(release_series: Series) -> tuple[str, ...]:
    """The variables that the releases of a series read, without ``env.``; 0.6.4 to 0.11.0 read the engine's."""
    return tuple(
        name.partition(".")[2]
        for name in (VARIABLE if release_series >= V2_SINCE else ENGINE_VARIABLE,)
        if FACTS[name].is_in(release_series)
    )


def derive_without_models(options: ParsedOptions, env: Mapping[str, str], release_series: Series) -> Provenance:
    """The facts of a series that follow from the arguments and variables alone; all others have their defaults.

    If the method of speculative decoding is not stated, its fact is not derived; see ``has_unstated_method``.
    """
    derived = Provenance(default_facts(release_series), [], {})
    facts = derived.facts
    for name in (VARIABLE, ENGINE_VARIABLE):
        variable = name.partition(".")[2]
        facts[name] = (env[variable], name) if variable in env else (facts[name][0], ASSUMED)
    facts["model_config"] = True, DEFAULT
    for option, fact in FACT_OF_SIZE.items():
        if option in options.values:
            facts[fact] = options.values[option], options.place(option)
    derive_transfer(derived, options, env, release_series)
    if release_series < V2_SINCE:
        return derived
    if LOGPROBS_MODE in options.values:
        facts[f"model_config.{LOGPROBS_MODE}"] = options.values[LOGPROBS_MODE], options.place(LOGPROBS_MODE)
    if options.values.get("runner") == "pooling":
        facts["model_config.runner_type"] = "pooling", options.place("runner")
    speculation = read_speculation(options)
    if speculation is not None:
        facts["speculative_config"] = True, speculation.place
        method = _method(speculation.keys)
        if method is not None:
            facts[METHOD] = method, speculation.place
    return derived


def has_unstated_method(derived: Provenance) -> bool:
    """Whether speculative decoding is configured and its method follows from a draft, which is not read."""
    return bool(derived.facts["speculative_config"][0]) and derived.facts[METHOD][1] is DEFAULT


def with_method(derived: Provenance, method: str) -> Provenance:
    """The same facts with a method of speculative decoding."""
    return Provenance({**derived.facts, METHOD: (method, ASSUMED)}, derived.warnings, derived.later)


def _method(keys: Mapping[str, Any]) -> Any:
    """The method as vLLM names it, or ``None`` if vLLM finds it out from the draft."""
    method = keys.get("method")
    if method is None:
        model = keys.get("model")
        return "ngram" if isinstance(model, str) and model in NGRAM else None
    if isinstance(method, str) and method.endswith("_mtp"):
        return "mtp"
    return "ngram" if method == "[ngram]" else method
