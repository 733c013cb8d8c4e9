"""Kubernetes admission: an AdmissionReview of ``admission.k8s.io/v1`` → what the API server is to do with the object.

Owns the members of a review, which objects and edits are looked at, and how decisions become warnings, a denial or a patch (read at
``k8s.io/api/admission/v1``). What in an object is an engine is ``policy.containers``' business,
and what becomes of it is ``decide``'s. The gate is the validating call; the mutating one sets a variable and never says or denies anything.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Literal, TypeVar

from msgspec import UNSET, Struct, UnsetType
from msgspec.structs import replace

from policy.containers import pointer_of, requests_of
from policy.decision import Decision, encode
from policy.errors import Misfit, PolicyError, RequestInvalid, at, listed, quoted
from policy.intake.intake import MODEL_CONFIG_NEEDED
from policy.intake.manifests.reading import Node, Reading
from policy.intake.manifests.registry import ADAPTERS
from policy.jsontext import NotJson, read_json
from policy.policy import key_of
from policy.request import Manifest, Request, read_asked

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence

    from policy.releases import Releases

    Decide = Callable[[Request], Awaitable[Decision]]

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
STARTING: Final = ("CREATE", "UPDATE")
OPERATIONS: Final = (*STARTING, "DELETE", "CONNECT")
SET_ENV: Final = "runner-policy/set-env"
MODEL_CONFIGS: Final = "runner-policy/model-configs"
VLLM_VERSION: Final = "runner-policy/vllm-version"
WITH_ENV: Final = frozenset(
    {
        *(("", kind) for kind in ("Pod", "PodTemplate", "ReplicationController")),
        *(("apps", kind) for kind in ("Deployment", "StatefulSet", "DaemonSet", "ReplicaSet")),
        *(("batch", "Job"), ("batch", "CronJob"), ("jobset.x-k8s.io", "JobSet"), ("argoproj.io", "Rollout")),
        *(("leaderworkerset.x-k8s.io", "LeaderWorkerSet"), ("disaggregatedset.x-k8s.io", "DisaggregatedSet")),
        *(("orchestration.aibrix.ai", "StormService"), ("orchestration.aibrix.ai", "RoleSet")),
    }
)
"""The kinds whose engines are containers of Kubernetes, with a list ``env`` that nothing is merged into."""
FIXED: Final = frozenset({("", "Pod"), ("batch", "Job"), ("jobset.x-k8s.io", "JobSet")})
"""The kinds whose variables are immutable once they are there; the API server would refuse a patched update."""
MENTIONS: Final = ("llm", "huggingface")
"""What an object that starts vLLM says somewhere."""
MAX_UID: Final = 128
MAX_ANNOTATION: Final = 262_144
MAX_STATED: Final = 8
MAX_WARNING: Final = 256
MAX_WARNINGS: Final = 10
MAX_PATH: Final = 96
MAX_ERROR: Final = 512
MAX_MESSAGE: Final = 8192
MAX_NOTE: Final = 1024
PAUSE: Final = 32  # engines between two looks at other clients

T = TypeVar("T")
Result = Literal["allowed", "warned", "denied", "patched", "undecided", "ignored"]


class Options(Struct, frozen=True):
    """What an operator chose.

    ``deny`` denies what would not start, which otherwise is warned of. ``set_env`` says when the mutating call patches. ``fail`` says what
    happens where nothing can be decided: the object is allowed with a warning, or denied with the reason.
    """

    deny: bool
    set_env: Literal["off", "annotated", "always"]
    fail: Literal["open", "closed"]


class Review(Struct, frozen=True):
    """What the API server asks: an operation on an object of a kind. ``name`` is empty where the server is yet to generate one."""

    uid: str
    operation: str
    group: str
    version: str
    kind: str
    sub_resource: str
    namespace: str
    name: str
    username: str
    dry_run: bool
    object: dict[str, Any] | None
    old_object: dict[str, Any] | None


class Status(Struct, frozen=True):
    """Why an object is denied."""

    message: str
    code: int = 403
    reason: str = "Forbidden"


class Response(Struct, frozen=True, rename="camel"):
    """An ``AdmissionResponse``; as JSON, ``patch`` is base64."""

    uid: str
    allowed: bool
    status: Status | UnsetType = UNSET
    patch: bytes | UnsetType = UNSET
    patch_type: Literal["JSONPatch"] | UnsetType = UNSET
    audit_annotations: dict[str, str] | UnsetType = UNSET
    warnings: list[str] | UnsetType = UNSET


class AdmissionReview(Struct, frozen=True, rename="camel"):
    """The document of an answer."""

    response: Response
    api_version: str = API_VERSION
    kind: str = KIND


class Reviewed(Struct, frozen=True):
    """The answer to a review, and what happened; ``denied`` is every answer that does not allow."""

    response: AdmissionReview
    result: Result


class Stated(Struct, frozen=True):
    """What the annotations on an engine's way state; the innermost one of a name counts."""

    model_configs: str | None
    vllm_version: str | None


class Engine(Struct, frozen=True):
    """An engine of the object: the request that it is, or why it is none.

    ``way`` has the values from the object down to the engine's own, each below the other. An object that cannot be read is one engine without a path.
    """

    path: str
    request: Request | RequestInvalid
    way: list[Any]
    stated: Stated


class Verdict(Struct, frozen=True):
    """An engine's decision, or why there is none."""

    engine: Engine
    decision: Decision | None
    why: str = ""


NOTHING: Final = Stated(None, None)
# each is another reading of the whole object
TOO_MANY: Final = RequestInvalid([Misfit("", f"the object's templates have more than {MAX_STATED} different annotations; write one for all on the object")])


def read_review(document: Any) -> Review:
    """What a review's document asks.

    Raises:
        RequestInvalid: with every fault.
    """
    if not isinstance(document, dict):
        raise RequestInvalid([Misfit("", f"{quoted(document)} is no AdmissionReview; a Kubernetes API server sends one")])
    faults: list[Misfit] = []
    root = Node(Reading(faults), document)
    for member, legal in (("apiVersion", API_VERSION), ("kind", KIND)):
        if document.get(member) != legal:
            root.get(member).fault(f"{quoted(document.get(member))} is not read here; legal: {listed([legal])}")
    request = root.get("request")
    if not request.is_object():
        if request.value is None:
            request.fault("no `request`; a review asks with one")
        raise RequestInvalid(faults)
    operation = _needed(request, "operation")
    if operation and operation not in OPERATIONS:
        request.get("operation").fault(f"{quoted(operation)} is no operation; legal: {listed(OPERATIONS)}")
    uid = _needed(request, "uid")
    if len(uid) > MAX_UID:
        request.get("uid").fault(f"{len(uid)} characters are more than the {MAX_UID} that are taken")
    group, version, kind = (request.get("kind", member).text() for member in ("group", "version", "kind"))
    if not kind:
        request.get("kind").fault("no kind; a review names that of its object")
    for name, least in (("requestKind", "kind"), ("resource", "resource"), ("requestResource", "resource")):
        for member in ("group", "version", least):
            request.get(name, member).text()
    user = request.get("userInfo")
    username, _ = user.get("username").text(), user.get("uid").text()
    for texts in (user.get("groups"), *(extra for _, extra in user.get("extra").members())):
        for item in texts.items():
            item.text()
    objects = request.get("object"), request.get("oldObject")
    for item in (*objects, request.get("options")):
        item.is_object()
    if objects[0].value is None and operation in STARTING:
        objects[0].fault(f"no `object`; {quoted(operation)} is asked about one")
    sub_resources = request.get("subResource").text(), request.get("requestSubResource").text()
    review = Review(
        uid=uid,
        operation=operation,
        group=group or "",
        version=version or "",
        kind=kind or "",
        sub_resource=sub_resources[0] or sub_resources[1] or "",
        namespace=request.get("namespace").text() or "",
        name=request.get("name").text() or "",
        username=username or "",
        dry_run=request.get("dryRun").flag(),
        object=objects[0].value,
        old_object=objects[1].value,
    )
    if faults:
        raise RequestInvalid(faults)
    return review


def _needed(request: Node, member: str) -> str:
    """The text of a member that each review has; empty after a fault."""
    node = request.get(member)
    if node.value is None or node.value == "":
        node.fault(f"no `{member}`; every review has one")
    return node.text() or ""


async def reviewed(review: Review, releases: Releases, decide: Decide, options: Options, *, mutating: bool, attempt: Decide | None = None) -> Reviewed:
    """The answer to a review, of the validating call or of the mutating one.

    Objects that start no vLLM, operations that start nothing, and engines that an update leaves as they were are allowed without a word: what is
    there already must remain editable. ``attempt`` decides what is only tried.
    """
    engines = _engines_to_decide(review, releases, options, mutating=mutating)
    verdicts = [await _verdict(engine, decide) async for engine in _paced(engines)]
    if mutating:
        return await _mutated(review, verdicts, attempt or decide)
    return _validated(review, verdicts, options)


async def _paced(items: Sequence[T]) -> AsyncIterator[T]:
    """The items one by one; now and then others have their turn."""
    for number, item in enumerate(items):
        yield item
        if number % PAUSE == PAUSE - 1:
            await asyncio.sleep(0)


def _validated(review: Review, verdicts: Sequence[Verdict], options: Options) -> Reviewed:
    refused = [verdict for verdict in verdicts if verdict.decision is not None and not verdict.decision.starts] if options.deny else []
    undecided = [verdict for verdict in verdicts if verdict.decision is None]
    held = undecided if options.fail == "closed" else []
    warnings = _shortened([line for verdict in verdicts for line in _warnings(verdict, options)])
    response = Response(review.uid, allowed=True, warnings=warnings or UNSET, audit_annotations=_annotations(verdicts) if verdicts else UNSET)
    if refused or held:
        return _answer(replace(response, allowed=False, status=Status(_denial(refused, held))), "denied")
    if undecided:
        return _answer(response, "undecided")
    return _answer(response, "ignored" if not verdicts else "warned" if warnings else "allowed")


async def _mutated(review: Review, verdicts: Sequence[Verdict], decide: Decide) -> Reviewed:
    patched = [(verdict, operations) async for verdict in _paced(verdicts) if (operations := await _patch(verdict, decide))]
    if patched:
        patch = encode([operation for _, operations in patched for operation in operations])
        annotations = _annotations([verdict for verdict, _ in patched])
        return _answer(Response(review.uid, allowed=True, patch=patch, patch_type="JSONPatch", audit_annotations=annotations), "patched")
    undecided = any(verdict.decision is None for verdict in verdicts)
    return _answer(Response(review.uid, allowed=True), "undecided" if undecided else "allowed" if verdicts else "ignored")


def _answer(response: Response, result: Result) -> Reviewed:
    return Reviewed(AdmissionReview(response), result)


# which engines


def _engines_to_decide(review: Review, releases: Releases, options: Options, *, mutating: bool) -> list[Engine]:
    """The engines that the review is to decide: those that would be started, and in the mutating call those that may be patched."""
    kind = review.group, review.kind
    if review.object is None or review.operation not in STARTING or review.sub_resource or kind not in ADAPTERS or _is_going(review):
        return []
    is_update = review.operation == "UPDATE"
    if mutating and (options.set_env == "off" or kind not in WITH_ENV or (is_update and kind in FIXED)):
        return []
    engines = _engines(review, review.object, releases)
    if is_update and review.old_object is not None:
        before = {_identity(engine, options, mutating=mutating) for engine in _engines(review, review.old_object, releases)}
        engines = [engine for engine in engines if _identity(engine, options, mutating=mutating) not in before]
    return [engine for engine in engines if _is_wanted(engine, options)] if mutating else engines


def _is_going(review: Review) -> bool:
    """Whether the object is being deleted, and waits for its finalizers to be taken away."""
    return any(isinstance(each, dict) and _metadata(each).get("deletionTimestamp") is not None for each in (review.object, review.old_object))


def _identity(engine: Engine, options: Options, *, mutating: bool) -> tuple[object, ...]:
    """All that the answer on an engine depends on, without its place in the object."""
    wanted = mutating and _is_wanted(engine, options)
    request = engine.request
    if isinstance(request, RequestInvalid):
        return wanted, engine.stated, str(request)
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    # the configurations follow from what is stated; encoding them for each engine would take as long as deciding it
    return wanted, engine.stated, request.vllm_version, key_of(replace(request.deployment, model_configs={}))


def _is_wanted(engine: Engine, options: Options) -> bool:
    """Whether the variable is to be set here."""
    said = _said(engine.way, SET_ENV)
    return said == "true" if options.set_env == "annotated" else said != "false"


def _engines(review: Review, document: dict[str, Any], releases: Releases) -> list[Engine]:
    """The engines of an object, each with what the annotations on its way state."""
    document = {**document, "apiVersion": f"{review.group}/{review.version}" if review.group else review.version, "kind": review.kind}
    try:
        found = _read(document, NOTHING, releases)
    except RequestInvalid as error:
        text = str({name: value for name, value in document.items() if name not in {"metadata", "status"}}).lower()
        return [Engine("", error, [document], NOTHING)] if any(word in text for word in MENTIONS) else []
    requests: dict[Stated, list[Request | RequestInvalid] | RequestInvalid] = {NOTHING: [request for _, request in found]}
    engines = []
    for number, (path, _) in enumerate(found):
        way = _way(document, path)
        stated = Stated(_said(way, MODEL_CONFIGS), _said(way, VLLM_VERSION))
        if stated not in requests:
            requests[stated] = _requests(document, stated, releases) if len(requests) <= MAX_STATED else TOO_MANY
        request = requests[stated]
        engines.append(Engine(path, request if isinstance(request, RequestInvalid) else request[number], way, stated))
    return engines


def _requests(document: dict[str, Any], stated: Stated, releases: Releases) -> list[Request | RequestInvalid] | RequestInvalid:
    """The requests that the engines are under what annotations state, or what is wrong with those."""
    try:
        return [request for _, request in _read(document, stated, releases)]
    except RequestInvalid as error:
        return error


def _read(document: dict[str, Any], stated: Stated, releases: Releases) -> list[tuple[str, Request | RequestInvalid]]:
    """Each engine's path and request.

    Raises:
        RequestInvalid: the object cannot be read, or an annotation.
    """
    members = {"manifest": document, "vllm_version": stated.vllm_version}
    if stated.model_configs is not None:
        members["model_configs"] = _model_configs(stated.model_configs)
    try:
        asked = read_asked(members, releases)
    except RequestInvalid as error:
        # of these members only what annotations state can be wrong: an object itself is read later
        names = ((VLLM_VERSION if fault.pointer == "/vllm_version" else MODEL_CONFIGS, fault) for fault in error.faults)
        raise RequestInvalid([Misfit(fault.pointer, f"the annotation `{name}`: {fault.message}") for name, fault in names], error.problem) from error
    assert isinstance(asked, Manifest)  # INVARIANT: a document with the member `manifest` is one
    return requests_of(asked, releases)


def _model_configs(text: str) -> Any:
    """The document of an annotation.

    Raises:
        RequestInvalid: it is too long, or no JSON.
    """
    pointer = at("/metadata/annotations", MODEL_CONFIGS)
    if len(text) > MAX_ANNOTATION:
        message = f"the annotation `{MODEL_CONFIGS}` is longer than the {MAX_ANNOTATION} characters that are read"
        raise RequestInvalid([Misfit(pointer, message)])
    try:
        return read_json(text.encode(errors="replace"))
    except NotJson as error:
        raise RequestInvalid([Misfit(pointer, f"the annotation `{MODEL_CONFIGS}`: {error}")]) from error


def _way(document: dict[str, Any], path: str) -> list[Any]:
    """The values from the object down to what stands at a path; it ends early where the path leads into a text."""
    way: list[Any] = [document]
    for step in pointer_of("", path).split("/")[1:]:
        here = way[-1]
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            way.append(here[int(step)])
        elif isinstance(here, dict) and step in here:
            way.append(here[step])
        else:
            break
    return way


def _metadata(value: Any) -> dict[str, Any]:
    metadata = value.get("metadata") if isinstance(value, dict) else None
    return metadata if isinstance(metadata, dict) else {}


def _said(way: Sequence[Any], name: str) -> str | None:
    """What an annotation says, of the object, its pod template or what else is on the way; the innermost counts."""
    every = (_metadata(value).get("annotations") for value in reversed(way))
    said = next((each[name] for each in every if isinstance(each, dict) and each.get(name) is not None), None)
    return said if said is None or isinstance(said, str) else quoted(said)


# what is said


async def _verdict(engine: Engine, decide: Decide) -> Verdict:
    if isinstance(engine.request, RequestInvalid):
        return Verdict(engine, None, _why(engine.request))
    try:
        return Verdict(engine, await decide(engine.request))
    except PolicyError as error:
        return Verdict(engine, None, _why(error))


def _why(error: PolicyError) -> str:
    """Why there is no decision, in one line."""
    if not isinstance(error, RequestInvalid) or not error.faults:
        return str(error)
    more = f" (and {len(error.faults) - 1} more)" if len(error.faults) > 1 else ""
    remedy = f"; write it into the annotation `{MODEL_CONFIGS}`" if error.problem == MODEL_CONFIG_NEEDED else ""
    return f"{error.faults[0].message}{more}{remedy}"


def _warnings(verdict: Verdict, options: Options) -> Iterator[tuple[int, str]]:
    """What there is to say of an engine, each with its weight. What it is denied for, the denial says."""
    path, decision = verdict.engine.path, verdict.decision
    if decision is None:
        if options.fail == "open":
            yield 1, _line(path, f"not decided: {verdict.why}")
        return
    errors = decision.startup_errors
    if errors and not options.deny:
        yield 0, _line(path, f"vLLM will not start{_with_variable(decision)}: {errors[0]}{_more(errors)}")
    if not errors and decision.set_env:
        alone, decided = _runner(decision.upstream.runner), _runner(decision.runner)
        wanted = ", ".join(f"{name}={value}" for name, value in decision.set_env.items())
        yield 2, _line(path, f"vLLM by itself takes {alone}, the policy decided {decided}; set {wanted}")
    said = _said(verdict.engine.way, SET_ENV)
    if options.set_env != "off" and said not in {None, "true", "false"}:
        yield 3, _line(path, f'the annotation `{SET_ENV}` is {quoted(said)}; write "true" or "false"')
    for warning in decision.warnings:
        yield 4, _line(path, warning)


def _with_variable(decision: Decision) -> str:
    """Where the variable that the policy asks for is what keeps vLLM from starting, a word on that."""
    return f" on {_runner(decision.runner)}, which the policy decided" if decision.set_env else ""


def _shortened(weighed: Sequence[tuple[int, str]]) -> list[str]:
    """The weightiest warnings, as many as a client is sure to be shown, each once."""
    lines = list(dict.fromkeys(line for _, line in sorted(weighed, key=lambda each: each[0])))
    if len(lines) <= MAX_WARNINGS:
        return lines
    kept = lines[: MAX_WARNINGS - 1]
    return [*kept, f"{len(lines) - len(kept)} more warnings are not shown; `POST /v1/decisions` with the object answers with all"]


def _denial(refused: Sequence[Verdict], held: Sequence[Verdict]) -> str:
    """Why an object is denied: each engine with its errors, and what to do."""
    parts = []
    for verdict in refused:
        assert verdict.decision is not None  # INVARIANT: only a decision says that vLLM will not start
        errors = "; ".join(_clean(error, MAX_ERROR) for error in verdict.decision.startup_errors)
        parts.append(f"{_place(verdict.engine.path)}vLLM will not start{_with_variable(verdict.decision)}: {errors}")
    remedies = ["correct the arguments or variables that are named; `POST /v1/dry-run` explains"] if refused else []
    if held:
        parts += [f"{_place(verdict.engine.path)}not decided: {_clean(verdict.why, MAX_ERROR)}" for verdict in held]
        remedies.append("nothing is let in here that cannot be decided; add what is missing")
    return f"{_cut(' | '.join(parts), MAX_MESSAGE)} ({'; '.join(remedies)})"


def _annotations(verdicts: Sequence[Verdict]) -> dict[str, str]:
    """What the audit log is told; the API server puts the webhook's name before each key."""
    told = [(verdict.engine.path or "object", verdict.decision) for verdict in verdicts]
    decisions = [(path, decision) for path, decision in told if decision is not None]
    runners = " ".join(f"{path}={'undecided' if decision is None else decision.runner or 'none'}" for path, decision in told)
    if not decisions:
        return {"runner": _clean(runners, MAX_NOTE)}
    ids = " ".join(f"{path}={decision.decision_id}" for path, decision in decisions)
    return {"runner": _clean(runners, MAX_NOTE), "decision-id": _clean(ids, MAX_NOTE), "revision": decisions[0][1].policy.revision}


def _runner(runner: str | None) -> str:
    return "no runner" if runner is None else runner.upper()


def _more(errors: Sequence[str]) -> str:
    return f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""


def _line(path: str, said: str) -> str:
    return _clean(f"{_place(path)}{said}", MAX_WARNING)


def _place(path: str) -> str:
    """A path before what is said of it; of a long one both ends."""
    text = _clean(path, MAX_MESSAGE)
    return f"{text if len(text) <= MAX_PATH else f'{text[: MAX_PATH // 2 - 1]}…{text[-MAX_PATH // 2 :]}'}: " if path else ""


def _clean(text: str, most: int) -> str:
    """A text as one line of at most so many characters, without control characters: the API server drops a warning that has any."""
    words = " ".join(text[: 4 * most].split())
    return _cut("".join(c if c.isprintable() else repr(c)[1:-1] for c in words), most)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


# the patch


async def _patch(verdict: Verdict, decide: Decide) -> list[dict[str, Any]]:
    """The RFC 6902 operations that make an engine take the runner that was decided; none where they are made already or would not help.

    An engine that would not start with the variable is left as it is: the validating call says so.
    """
    decision, request = verdict.decision, verdict.engine.request
    if decision is None or not decision.set_env or not decision.starts or isinstance(request, RequestInvalid):
        return []
    container = verdict.engine.way[-1]
    pointer = pointer_of("", verdict.engine.path)
    operations = [operation for name, value in decision.set_env.items() for operation in _setting(container.get("env"), f"{pointer}/env", name, value)]
    if not operations or not await _helps(request, decision, decide):
        return []
    name = container.get("name")
    return ([{"op": "test", "path": f"{pointer}/name", "value": name}] if isinstance(name, str) else []) + operations


async def _helps(request: Request, decision: Decision, decide: Decide) -> bool:
    """Whether the variable is all that was missing. A script that sets it by itself, to what nobody knows, sets it after Kubernetes did."""
    assert request.deployment is not None  # INVARIANT: an engine of a manifest has a deployment
    env = {**request.deployment.env, **decision.set_env}
    try:
        then = await decide(replace(request, deployment=replace(request.deployment, env=env)))
    except PolicyError:
        return False
    return then.runner == decision.runner and not then.set_env


def _setting(env: list[Any] | None, pointer: str, name: str, value: str) -> list[dict[str, Any]]:
    """The operations after which a list of variables has one of this name, with this value.

    Of several entries of a name the last counts; it is replaced whole, with a ``valueFrom`` that it may have. The others are
    removed from the last to the first, so that no place changes before it was used.
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
        operations.append({"op": "replace", "path": f"{pointer}/{place}", "value": entry} if place == last else {"op": "remove", "path": f"{pointer}/{place}"})
    return operations
