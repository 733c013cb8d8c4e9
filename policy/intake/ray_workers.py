"""The environment of vLLM's workers if an engine runs on Ray.

Ray's processes, and with them the workers, have the variables of the `ray start` of their node. vLLM fills in only
those that a node does not have (`RayExecutorV2`), and each worker chooses its model runner by its own. So the decision
is certain only if no node has a value other than the engine's. Not here: nodes that the deployment and its manifest do
not show, and how a container starts Ray (`command.ray_start`, `manifests.ray_nodes`).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, Final

from policy.facts.vocabulary import ENGINE_VARIABLE
from policy.intake.command.code_variables import vllm_of_variables
from policy.intake.command.words import PLACEHOLDER
from policy.intake.command_line import COMMAND_DOUBT, NODE_DOUBT, Installation, RayNode
from policy.intake.derive.derivation import VARIABLES
from policy.intake.loaded_code import PLUGINS
from policy.messages import quoted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from policy.intake.command_line import CommandLine, ParsedOptions
    from policy.intake.deployment import Deployment

RAY: Final = "ray"
EXECUTOR: Final = "distributed_executor_backend"
DATA_PARALLEL: Final = "data_parallel_backend"
SHELL: Final = ("bash", "-c")
"""The shell that runs a command that is given as one text."""
MAX_DOUBTS: Final = 4
NODE_VARIABLES: Final = (*VARIABLES, ENGINE_VARIABLE.removeprefix("env."), PLUGINS)
"""The variables that may change the workers' decision, in any release."""
OTHER_VALUE: Final = (
    "`{}` is {} {} and {} for the engine: vLLM's workers run in Ray's processes, keep the value of "
    "these, and choose their model runner by it; give both the same value"
)


def ray_workers(
    options: ParsedOptions,
    deployment: Deployment,
    command: CommandLine,
    variables: Mapping[str, str | None],
    names: Sequence[str],
) -> tuple[list[str], Installation | None]:
    """Why the workers of an engine on Ray may run otherwise than it does, and the vLLM that may run in any of them.

    ``variables`` are the engine's, and ``names`` those of them that the release reads for its decision.
    """
    installation = command.installation or deployment.installation
    if not _runs_on_ray(options):
        return [], installation
    doubts: dict[str, None] = {}
    for node in [*_own_node(deployment, command), *deployment.ray_nodes]:
        doubts |= dict.fromkeys(_other_values(node, variables, names))
        known = [*command.doubts, *deployment.doubts]
        doubts |= {
            _of_node(node, each): None
            for each in node.doubts
            if each not in known and COMMAND_DOUBT.format(each) not in known
        }
        other = node.installation
        if other is not None and (installation is None or installation.version not in {None, other.version}):
            installation = Installation(None, _of_node(node, other.cause))
    return [*islice(doubts, MAX_DOUBTS)], installation


def _runs_on_ray(options: ParsedOptions) -> bool:
    """Whether the workers are Ray's processes: by the executor's name, or its class in vLLM."""
    executor = options.values.get(EXECUTOR) or options.others.get(EXECUTOR, ("", ""))[0]
    return (isinstance(executor, str) and RAY in executor.lower()) or options.values.get(DATA_PARALLEL) == RAY


def _own_node(deployment: Deployment, command: CommandLine) -> Iterator[RayNode]:
    """How the engine's own command starts Ray, if it does."""
    from policy.intake.command.ray_start import ray_start  # noqa: PLC0415  # 25 ms, which most commands save

    args = deployment.args
    words = [*SHELL, args] if isinstance(args, str) else args
    if words == command.words:
        return
    edits = deployment.edits.variables
    env = {name: value for name, value in {**deployment.env, **edits}.items() if edits.get(name, "") is not None}
    start = ray_start(words, env, has_hidden_variables=deployment.has_hidden_variables)
    if start.is_read:
        env |= start.env
        found: dict[str, str | None] = {name: env[name] for name in NODE_VARIABLES if name in env}
        yield RayNode("", found, tuple(start.doubts), vllm_of_variables(start.env) or start.installation)


def _other_values(node: RayNode, variables: Mapping[str, str | None], names: Sequence[str]) -> Iterator[str]:
    """A doubt for each variable that has another value on a node, or one that is not known.

    A variable whose value is not known for the engine is reported where that is read.
    """
    where = "in `runtimeEnvYAML`" if node.is_job_environment else "for `ray start`"
    if node.place:
        where += f" in {quoted(node.place)}"
    for name in (*names, PLUGINS) if node.env else ():
        if name not in node.env:
            continue
        value, own = node.env[name], variables.get(name)
        if name not in variables:
            yield OTHER_VALUE.format(name, _shown(value), where, "not set")
        elif own != value and _is_known(own):
            yield OTHER_VALUE.format(name, _shown(value), where, _shown(own))


def _is_known(value: str | None) -> bool:
    return value is not None and PLACEHOLDER.search(value) is None


def _shown(value: str | None) -> str:
    return quoted(value) if value is not None and _is_known(value) else "not known"


def _of_node(node: RayNode, why: str) -> str:
    return NODE_DOUBT.format(quoted(node.place), why) if node.place else COMMAND_DOUBT.format(why)
