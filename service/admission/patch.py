"""A decision → the patch that makes an engine take the decided runner (RFC 6902).

No patch is made that would not help.
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
    """The RFC 6902 operations for the decided runner; none if not needed, or of no help.

    An engine that would not start with the variable is not patched: the validating endpoint warns of it.
    """
    decision, request = engine_decision.decision, engine_decision.engine.request
    if decision is None or not decision.set_env or not decision.starts or isinstance(request, RequestInvalid):
        return []
    container = engine_decision.engine.nodes[-1]
    pointer = pointer_of("", engine_decision.engine.path, engine_decision.engine.nodes[0])
    operations = [
        operation
        for name, value in decision.set_env.items()
        for operation in _setting(container.get("env"), f"{pointer}/env", name, value)
    ]
    if not operations or not _helps(request, decision, decide):
        return []
    name = container.get("name")
    return ([{"op": "test", "path": f"{pointer}/name", "value": name}] if isinstance(name, str) else []) + operations


def _helps(request: Request, decision: Decision, decide: Decide) -> bool:
    """Whether the variable is enough: a script in the container may set it again."""
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    env = {**request.deployment.env, **decision.set_env}
    try:
        then = decide(replace(request, deployment=replace(request.deployment, env=env)), is_trial=True)
    except PolicyError:
        return False
    return then.runner == decision.runner and not then.set_env


def _setting(env: list[Any] | None, pointer: str, name: str, value: str) -> list[dict[str, Any]]:
    """The operations after which a list of variables has one of this name, with this value.

    Of several entries of a name the last counts; it is replaced whole, including a ``valueFrom``. The others are
    removed from the last to the first, so that no index changes before it is used.
    """
    entry = {"name": name, "value": value}
    if env is None:
        return [{"op": "add", "path": pointer, "value": [entry]}]
    places = [place for place, item in enumerate(env) if isinstance(item, dict) and item.get("name") == name]
    if not places:
        return [{"op": "add", "path": f"{pointer}/-", "value": entry}]
    *others, last = places
    if not others and env[last] == entry:
        return []
    operations: list[dict[str, Any]] = []
    for place in (last, *reversed(others)):
        operations.append({"op": "test", "path": f"{pointer}/{place}/name", "value": name})
        operations.append(
            {"op": "replace", "path": f"{pointer}/{place}", "value": entry}
            if place == last
            else {"op": "remove", "path": f"{pointer}/{place}"}
        )
    return operations
