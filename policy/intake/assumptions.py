"""The assumptions about what a deployment does not state: the platform, Triton, plugins, variables, ``modules.json``.

Each assumed value is listed with the other values that would change the decision. To find them, the deployment is
decided again with each other value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from msgspec.structs import replace

from policy.decision.decision import Alternative, Assumption
from policy.intake.deployment import PLATFORMS, PLUGINS, on_platform
from policy.intake.derive.derivation import VARIABLES
from policy.intake.derive.target_device import CPU, TARGET_DEVICE
from policy.intake.model.pooling import MODULES, POOLING_MODULES
from policy.intake.model.tables import tables_of_transformers
from policy.intake.model.transformers_releases import other_transformers

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from policy.intake.deployment import Deployment, Environment
    from policy.intake.result import IntakeResult

NOT_STATED: Final = "not stated"
UNKNOWN: Final = "unknown"
SOME_PLUGIN: Final = "another"
POOLING: Final = "a pooling module"
RUNNER_VARIABLE: Final = VARIABLES[0]


def find_assumptions(
    deployment: Deployment,
    without_modules: str,
    answer: tuple[str | None, bool],
    decide: Callable[[Deployment], tuple[str | None, bool]],
    transformers: tuple[str, Sequence[str]] = ("", ()),
) -> list[Assumption]:
    """The assumptions about a deployment. ``answer`` is its decision, ``decide`` decides variants: (runner, starts).

    ``without_modules`` is the model that is assumed to have no ``modules.json``, empty if that is known. It is listed
    only if a pooling module would change the decision. ``transformers`` has the assumed release of Transformers, and
    the releases that may read a model differently; it is listed only if one of these would change the decision.
    """
    found = []
    for fact, assumed, why, others in _assumed_values(deployment):
        answers = {label: decide(other) for label, other in others.items()}
        found.append(
            Assumption(
                fact, assumed, why, {label: Alternative(*other) for label, other in answers.items() if other != answer}
            )
        )
    if without_modules:
        file = f"{without_modules}/{MODULES}"
        other = decide(replace(deployment, files={**deployment.files, file: POOLING_MODULES}))
        if other != answer:
            found.append(Assumption(f"files/{file}", None, NOT_STATED, {POOLING: Alternative(*other)}))
    assumed, versions = transformers
    answers = {
        version: decide(_with_environment(deployment, replace(deployment.environment, transformers=version)))
        for version in versions
    }
    changing = {version: Alternative(*other) for version, other in answers.items() if other != answer}
    if changing:
        found.append(Assumption("environment.transformers", assumed, NOT_STATED, changing))
    return found


def transformers_to_try(release: str, deployment: Deployment, result: IntakeResult) -> tuple[str, list[str]]:
    """The assumed release of Transformers, and releases that may read a model differently; none if one is stated."""
    if "transformers" in deployment.environment.stated or not result.has_models:
        return "", []
    models = [*deployment.model_configs.values(), *(config for config, _ in result.found.values())]
    return tables_of_transformers(release), other_transformers(release, models)


def _assumed_values(deployment: Deployment) -> Iterator[tuple[str, Any, str, dict[str, Deployment]]]:
    """The assumed values, as (fact, value, why it is assumed, deployments with another value)."""
    environment = deployment.environment
    if "platform" not in environment.stated:
        others = {
            platform: _with_environment(deployment, on_platform(environment, platform))
            for platform in PLATFORMS
            if platform != environment.platform and platform not in PLUGINS  # these decide alike for every deployment
        }
        yield "environment.platform", environment.platform, NOT_STATED, others
    if "has_triton" not in environment.stated:
        stated = environment.stated | {"has_triton"}
        other = replace(environment, has_triton=not environment.has_triton, stated=stated)
        yield (
            "platform.has_triton",
            environment.has_triton,
            NOT_STATED,
            {str(other.has_triton).lower(): _with_environment(deployment, other)},
        )
    if "plugins" not in environment.stated:
        other = replace(environment, logits_processors=(SOME_PLUGIN,))
        yield "plugins.logits_processors", [], NOT_STATED, {SOME_PLUGIN: _with_environment(deployment, other)}
    for name in VARIABLES:
        unknown = name in deployment.env and deployment.env[name] is None
        if unknown or (name == RUNNER_VARIABLE and name not in deployment.env):
            texts = (CPU,) if name == TARGET_DEVICE else ("0", "1")
            others = {text: replace(deployment, env={**deployment.env, name: text}) for text in texts}
            yield f"env.{name}", None, UNKNOWN if unknown else NOT_STATED, others


def _with_environment(deployment: Deployment, environment: Environment) -> Deployment:
    return replace(deployment, environment=environment)
