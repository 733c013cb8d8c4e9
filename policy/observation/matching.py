"""Which engine of a deployment a log is of: by the pod and container, the service, the model, or because there is one.

Owns the comparison of names. A pod's name begins with that of its object, and docker compose names the containers of
a service after it, with a number, and with the project before it: `chat-api-1`.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple

from policy.intake.deployment import Deployment
from policy.messages import enumerated

if TYPE_CHECKING:
    from collections.abc import Sequence

    from policy.errors import RequestInvalid
    from policy.observation.observed import ObservedEngine
    from policy.request.request import Request

NAMES_SHOWN: Final = 10
NUMBER: Final = re.compile(r"[-_]\d{1,6}$")
"""The number of a container of docker compose; its first version wrote `_`."""
SERVICES: Final = ".services."


class CandidateEngine(NamedTuple):
    """An engine of the deployment: its name, such as `chat/Deployment/qwen3/vllm`, its path, and its request."""

    name: str
    path: str
    request: Request | RequestInvalid


class NoMatch(NamedTuple):
    """Why no engine of the deployment is the one of a log."""

    message: str


def match_engine(observed: ObservedEngine, candidates: Sequence[CandidateEngine]) -> CandidateEngine | NoMatch:
    """The engine that an observed one is."""
    if not candidates:
        return NoMatch("the deployment has no vLLM container")
    by_source = _by_source(observed.source, candidates)
    found = by_source or [each for each in candidates if _has_model(each, observed.model)] or list(candidates)
    if len(found) > 1 and observed.model is not None:
        found = [each for each in found if _has_model(each, observed.model)] or found
    if len(found) == 1:
        return found[0]
    names = enumerated([each.name for each in found], NAMES_SHOWN)
    return NoMatch(
        f"the log may be that of {names}; name the pods with `kubectl logs --prefix`, or give a deployment "
        "with one engine"
    )


def _by_source(source: str, candidates: Sequence[CandidateEngine]) -> list[CandidateEngine]:
    """The engines with the name of a source; of objects whose names begin a pod's name the longest, as of services."""
    if not source:
        return []
    kind, _, rest = source.partition("/")
    if kind != "pod" or "/" not in rest:
        return _by_service(source, candidates)
    pod, _, container = rest.rpartition("/")
    scored = [(len(name), each) for each in candidates if (name := _object_in(each, pod, container))]
    best = max((length for length, _ in scored), default=0)
    return [each for length, each in scored if length == best]


def _by_service(source: str, candidates: Sequence[CandidateEngine]) -> list[CandidateEngine]:
    """The engines whose service a container is of: the one with its name, or else with the longest end of its name."""
    named = [(service, each) for each in candidates if (service := _service_of(each))]
    container = NUMBER.sub("", source)
    for name in (container, source):
        found = [each for service, each in named if service == name]
        if found:
            return found
    ending = [(service, each) for service, each in named if container.endswith((f"-{service}", f"_{service}"))]
    longest = max((len(service) for service, _ in ending), default=0)
    return [each for service, each in ending if len(service) == longest]


def _object_in(candidate: CandidateEngine, pod: str, container: str) -> str:
    """The name of the candidate's object if the pod belongs to that object; otherwise empty."""
    *_, name, own = ["", "", *candidate.name.split("/")]
    return name if own == container and (pod == name or pod.startswith(f"{name}-")) else ""


def _service_of(candidate: CandidateEngine) -> str:
    """The service's name in the candidate's path in a file of docker compose; empty if it is not in one."""
    return f".{candidate.path}".partition(SERVICES)[2]


def _has_model(candidate: CandidateEngine, model: str | None) -> bool:
    deployment = getattr(candidate.request, "deployment", None)
    if model is None or not isinstance(deployment, Deployment):
        return False
    words = deployment.args.split() if isinstance(deployment.args, str) else deployment.args
    return any(word == model or word.endswith(f"={model}") for word in words)
