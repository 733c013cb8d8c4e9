"""A request to each engine of a manifest → what becomes of it there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from msgspec import UNSET, Struct, UnsetType

from policy.defects import contained
from policy.errors import PolicyError, RequestInvalid
from policy.problems import Problem  # noqa: TC001  # msgspec reads the annotations
from policy.request.items import IgnoredObject, object_of
from policy.request.manifest import requests_of
from policy.request.request import Manifest
from policy.sampling.check import RequestCheck  # noqa: TC001  # as above

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from policy.sampling.check import CheckRequest, RequestChecker
    from policy.secret_values import SecretValues

MAX_IGNORED = 100


class EngineCheck(Struct, frozen=True):
    """An engine of a manifest by its path: its object, and what becomes of the request, or the problem with it."""

    path: str
    kind: str | None
    namespace: str | None
    name: str | None
    check: RequestCheck | UnsetType = UNSET
    problem: Problem | UnsetType = UNSET


class EngineChecks(Struct, frozen=True):
    """The answer to a request with a manifest; ``ignored`` are objects in which nothing that starts vLLM was found."""

    items: list[EngineCheck]
    ignored: list[IgnoredObject] | UnsetType = UNSET


def check_request(
    checker: RequestChecker,
    request: CheckRequest,
    today: date,
    problem_of: Callable[[PolicyError], Problem],
    on_engine: Callable[[], object] = lambda: None,
) -> RequestCheck | EngineChecks:
    """What becomes of a request to one deployment, or to each engine of a manifest.

    ``on_engine`` is called before each engine; its errors end everything for one deployment, and one engine otherwise.

    Raises:
        PolicyError: the request is invalid.
    """
    try:
        with contained(request.pointer):
            return _check_request(checker, request, today, problem_of, on_engine)
    except RequestInvalid as error:
        error.hide(request.secrets(checker.policy.releases.images))
        raise


def _check_request(
    checker: RequestChecker,
    request: CheckRequest,
    today: date,
    problem_of: Callable[[PolicyError], Problem],
    on_engine: Callable[[], object],
) -> RequestCheck | EngineChecks:
    if not isinstance(request.deployment, Manifest):
        on_engine()
        return checker.check(request.deployment, request.document, request.pointer, today)
    manifest = request.deployment
    items, ignored = [], list[str]()
    secrets: SecretValues | None = None
    for path, deployment in requests_of(manifest, checker.policy.releases, ignored=ignored):
        place = (path, *object_of(manifest, path))
        try:
            on_engine()
            if isinstance(deployment, RequestInvalid):
                raise deployment
            with contained(deployment.pointer):
                check = checker.check(deployment, request.document, request.pointer, today)
            items.append(EngineCheck(*place, check))
        except PolicyError as error:
            if isinstance(error, RequestInvalid):
                secrets = request.secrets(checker.policy.releases.images) if secrets is None else secrets
                error.hide(secrets)
            items.append(EngineCheck(*place, problem=problem_of(error)))
    named = [IgnoredObject(path, *object_of(manifest, path)) for path in ignored[:MAX_IGNORED]]
    return EngineChecks(items, named or UNSET)
