"""The JSON patch that makes an engine use the decided runner (RFC 6902).

A patch that would have no effect is not made.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from msgspec.structs import replace

from policy.errors import PolicyError, RequestInvalid
from policy.request.manifest import pointer_of

if TYPE_CHECKING:
    from policy.decision.decision import Decision
    from policy.request.request import Request
    from service.admission.messages import EngineDecision


class Decide(Protocol):
    """Decides a request. With ``is_trial`` the request is not the object's own, and the decision is not recorded."""

    def __call__(self, request: Request, *, is_trial: bool = False) -> Decision:
        """The decision.

        Raises:
            PolicyError: there is none.
        """


def patch_of(engine_decision: EngineDecision, decide: Decide) -> list[dict[str, Any]]:
    """The operations that set the decided runner; none if they are not needed or would not help.

    An engine that would not start with the variable is not patched: the validating endpoint warns about it.
    """
    decision, request = engine_decision.decision, engine_decision.engine.request
    if decision is None or not decision.set_env or not decision.starts or isinstance(request, RequestInvalid):
        return []
    container = engine_decision.engine.nodes[-1]
    pointer = pointer_of("", engine_decision.engine.path, engine_decision.engine.nodes[0])
    operations = [
        operation
        for name, value in decision.set_env.items()
        for operation in _set_operations(container.get("env"), f"{pointer}/env", name, value)
    ]
    if not operations or not _helps(request, decision, decide):
        return []
    name = container.get("name")
    return ([{"op": "test", "path": f"{pointer}/name", "value": name}] if isinstance(name, str) else []) + operations


def _helps(request: Request, decision: Decision, decide: Decide) -> bool:
    """Whether the variable is enough: a script in the container may overwrite it."""
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    env = {**request.deployment.env, **decision.set_env}
    try:
        then = decide(replace(request, deployment=replace(request.deployment, env=env)), is_trial=True)
    except PolicyError:
        return False
    return then.runner == decision.runner and not then.set_env


def _set_operations(env: list[Any] | None, pointer: str, name: str, value: str) -> list[dict[str, Any]]:
    """The operations that set a variable in a container's ``env``, leaving one entry for it.

    Of several entries with the same name the last counts; it is replaced entirely, including a ``valueFrom``. The
    others are removed from last to first, so that no index changes before it is used, unless a variable of another
    name may refer to one.
    """
    entry = {"name": name, "value": value}
    if env is None:
        return [{"op": "add", "path": pointer, "value": [entry]}]
    indexes = [index for index, item in enumerate(env) if isinstance(item, dict) and item.get("name") == name]
    if not indexes:
        return [{"op": "add", "path": f"{pointer}/-", "value": entry}]
    *others, last = indexes
    values = (item.get("value") for item in env if isinstance(item, dict))
    if any(isinstance(value, str) and f"$({name})" in value for value in values):
        others = []
    if not others and env[last] == entry:
        return []
    operations: list[dict[str, Any]] = []
    for index in (last, *reversed(others)):
        operations.append({"op": "test", "path": f"{pointer}/{index}/name", "value": name})
        operations.append(
            {"op": "replace", "path": f"{pointer}/{index}", "value": entry}
            if index == last
            else {"op": "remove", "path": f"{pointer}/{index}"}
        )
    return operations
