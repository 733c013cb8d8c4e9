"""Defects of the program: one that a request shows is the problem of the item that shows it, and of no other."""

from __future__ import annotations

import asyncio
import copy
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx
import pytest
import yaml
from kubernetes_objects import container, deployment
from pydantic import SecretStr

from policy import defects
from policy import policy as decisions
from policy.cli import fleet_sources, requests
from policy.decision import evaluation
from policy.impact import run
from policy.intake import intake
from policy.intake.manifests import registry
from policy.parser import yamltree
from policy.request import manifest as manifests
from service.admission import handler
from service.app import create_app
from service.jobs import pool, worker
from service.settings import Settings
from service.state import answers

if TYPE_CHECKING:
    from collections.abc import Callable

    from shipped_rules import ShippedRules

    from .conftest import Done

    Call = Callable[..., Done]

pytestmark = [pytest.mark.defects, pytest.mark.usefixtures("shipped_rules_once")]
Document = dict[str, Any]
DERIVED, READ, CONVERTED, STATED = "defect/derived", "defect-read", "defect/converted", "DefectForCausalLM"
"""What shows a defect: a model in the derivation, an object where it is read, a model in the conversion, a fact."""
SECRET = "hf_abcdefghijklmnopqrstuvwxyzABCDEF"
KIND = "urn:runner-policy:problem:internal-error"
TITLE = "A defect of Runner Policy"
MESSAGE = (
    "a defect of Runner Policy prevents an answer; it is not a fault of the request; report it with what the log has "
    "under the id `ID`"
)
LOGGED = re.compile(r"internal error (\S+): IndexError at \S+\.py:\d+ \(\w+\)(?:, \S+:\d+ \([\w<>]+\))*")
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
CONFIGS = dict.fromkeys(("Qwen/Qwen3-8B", DERIVED, CONVERTED), CONFIG)
REVIEW = json.loads((Path(__file__).parent.parent / "core/admission/deployment-create.json").read_text())


def fail(*_: object, **__: object) -> None:
    raise IndexError(f"list index out of range in {SECRET}")


@pytest.fixture(autouse=True)
def _defects(monkeypatch: pytest.MonkeyPatch) -> None:
    """Defects in what derives facts, evaluates rules, reads objects and makes requests of them."""
    derive, evaluate, convert = intake.derive_facts, evaluation.evaluate, manifests._request_of
    read = registry.ADAPTERS["apps", "Deployment"]

    def derive_or_fail(found: Any, *others: Any) -> Any:
        return fail() if DERIVED in str(found.args) else derive(found, *others)

    def evaluate_or_fail(ruleset: Any, facts: Any, *others: Any, **more: Any) -> Any:
        return fail() if STATED in str(facts.row) else evaluate(ruleset, facts, *others, **more)

    def convert_or_fail(found: Any, *others: Any) -> Any:
        return fail() if CONVERTED in found.words else convert(found, *others)

    def read_or_fail(node: Any) -> None:
        read(node)
        if node.get("metadata", "name").value == READ:
            fail()

    monkeypatch.setattr(decisions, "derive_facts", derive_or_fail)
    monkeypatch.setattr(decisions, "evaluate", evaluate_or_fail)
    monkeypatch.setattr(manifests, "_request_of", convert_or_fail)
    monkeypatch.setitem(registry.ADAPTERS, ("apps", "Deployment"), read_or_fail)


@pytest.fixture
def post(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shipped_rules: ShippedRules) -> Callable[..., httpx.Response]:
    """Send a request to an application of this process, which works in this process too."""
    monkeypatch.setattr(worker, "load", shipped_rules.load)

    async def call(_: object, function: Callable[..., Any], *arguments: Any) -> Any:
        before = defects.DefectCounter.defects
        try:
            return function(*arguments)
        finally:
            defects.DefectCounter.defects = before  # the counter of another process

    monkeypatch.setattr(pool.Worker, "call", call)

    def post(path: str, body: Any, headers: dict[str, str] | None = None, **settings: Any) -> httpx.Response:
        app = create_app(Settings(log=SecretStr("off"), run=tmp_path, **settings))
        content = body if isinstance(body, bytes) else json.dumps(body).encode()

        async def ask() -> httpx.Response:
            async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
                answer = await client.post(path, content=content, headers=headers)
                answer.extensions["defects"] = sum(
                    value
                    for name, _, value in app.service.metrics.snapshot().samples
                    if name == "runner_policy_internal_errors"
                )
                return answer

        return asyncio.run(ask())

    return post


def problem(pointer: str) -> Document:
    """The problem of an item at a pointer, without its id."""
    before = f"{pointer}: " if pointer else ""
    errors = [{"pointer": pointer, "message": MESSAGE}]
    return {"type": KIND, "title": TITLE, "status": 500, "detail": f"{before}{MESSAGE}", "errors": errors}


def ids(caplog: pytest.LogCaptureFixture) -> list[str]:
    """The ids of the defects in the log, which has nothing else."""
    found = [LOGGED.fullmatch(record.getMessage()) for record in caplog.records if record.name == "runner_policy"]
    assert None not in found
    return [each[1] for each in found if each is not None]


def without(text: str, found: list[str]) -> str:
    """A text without the ids of defects."""
    for each in found:
        text = text.replace(each, "ID")
    return text


def shown(text: str, found: list[str]) -> Any:
    """A document without the ids of defects, and the runner in place of a decision."""

    def short(document: Document) -> Any:
        return document["runner"] if "decision_id" in document else document

    return json.loads(without(text, found), object_hook=short)


def deployed(model: str, **more: Any) -> Document:
    """A request for the deployment of a model."""
    return {"deployment": {"args": ["--model", model], "model_configs": {model: CONFIG}}, **more}


GOOD = deployed("Qwen/Qwen3-8B")
FACTS = {"facts": {"model_config": {"architectures": [STATED]}}}


@pytest.mark.parametrize(
    "body",
    [FACTS, deployed(DERIVED), deployed(DERIVED, explain=True), {"manifest": deployment(container(), name=READ)}],
    ids=["facts", "deployment", "in a worker process", "manifest"],
)
def test_one_request_gets_the_problem(
    body: Document, post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    pointer = f"/{next(iter(body))}"
    for path in ("/v1/decisions", "/v1/dry-run"):
        caplog.clear()
        answer = post(path, body)
        found = ids(caplog)
        assert (answer.status_code, answer.headers["content-type"]) == (500, "application/problem+json")
        assert shown(answer.text, found) == problem(pointer)
        assert SECRET not in answer.text + caplog.text
    text = post("/v1/decisions", body, {"accept": "text/plain"})
    assert without(text.text, ids(caplog)) == f"{TITLE} (500 internal-error)\n{pointer}: {MESSAGE}\n"


def test_defects_are_counted(post: Callable[..., httpx.Response]) -> None:
    for path, body, number in (
        ("/v1/decisions", GOOD, 0),
        ("/v1/decisions", deployed(DERIVED), 1),
        ("/v1/decisions/batch", {"items": [FACTS, GOOD, FACTS]}, 2),
    ):
        before = defects.DefectCounter.defects
        assert post(path, body).extensions["defects"] - before == number


def test_a_defect_in_the_service_itself_is_a_problem_too(
    post: Callable[..., httpx.Response], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "decode_fast", fail)
    answer = post("/v1/decisions", FACTS)
    assert (answer.status_code, shown(answer.text, ids(caplog))) == (500, problem(""))
    monkeypatch.setattr(pool.Pool, "result", fail)
    answer = post("/v1/impact", {})
    assert (answer.status_code, shown(answer.text, ids(caplog))) == (500, problem(""))


@pytest.mark.parametrize("path", ["/v1/policy", "/v1/arguments"])
def test_a_defect_in_a_document_of_the_service_is_a_problem(
    path: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answers, "policy_document", fail)
    monkeypatch.setattr(answers, "arguments_document", fail)
    app = create_app(Settings(log=SecretStr("off"), run=tmp_path))

    async def ask() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://localhost") as client:
            return await client.get(path)

    answer = asyncio.run(ask())
    found = ids(caplog)
    assert (answer.status_code, answer.headers["content-type"], shown(answer.text, found), len(found)) == (
        500,
        "application/problem+json",
        problem(""),
        1,
    )
    assert SECRET not in caplog.text


def test_the_other_items_of_a_batch_are_decided(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    answer = post("/v1/decisions/batch", {"items": [GOOD, deployed(DERIVED), FACTS, GOOD]})
    assert answer.status_code == 200
    assert shown(answer.text, ids(caplog)) == {
        "items": ["v2", problem("/items/1/deployment"), problem("/items/2/facts"), "v2"]
    }


def test_the_other_lines_of_a_stream_are_decided(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    bodies = [
        GOOD,
        deployed(DERIVED),
        FACTS,
        {"manifest": deployment(container(), name=READ)},
        {**GOOD, "explain": True},
    ]
    lines = "".join(f"{json.dumps(body)}\n" for body in bodies).encode()
    answer = post("/v1/decisions/batch", lines, {"content-type": "application/x-ndjson"})
    found = ids(caplog)
    assert answer.status_code == 200
    assert [shown(line, found) for line in answer.text.splitlines()] == [
        "v2",
        problem("/deployment"),
        problem("/facts"),
        problem("/manifest"),
        "v2",
    ]


OBJECTS = [
    deployment(container(), name="good"),
    deployment(container(model=DERIVED), container(), name="one-of-two"),
    deployment(container(), name=READ),
    deployment(container(model=CONVERTED), name="converted"),
    deployment(container(), name="last"),
]
ONE, TWO = "spec.template.spec.containers[0]", "spec.template.spec.containers[1]"
PLACES = [f"[0].{ONE}", f"[1].{ONE}", f"[1].{TWO}", "[2]", f"[3].{ONE}", f"[4].{ONE}"]
BAD = {1: "/1/spec/template/spec/containers/0", 3: "/2", 4: "/3/spec/template/spec/containers/0"}
"""The places that show a defect, with their pointers."""


def test_the_other_engines_of_a_manifest_are_decided(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    answer = post("/v1/decisions", {"manifest": OBJECTS, "model_configs": CONFIGS})
    assert answer.status_code == 200
    items = shown(answer.text, ids(caplog))["items"]
    assert [(item["path"], item.get("decision") or item["problem"]) for item in items] == [
        (path, problem(f"/manifest{BAD[place]}") if place in BAD else "v2") for place, path in enumerate(PLACES)
    ]


def test_the_other_deployments_of_an_impact_are_compared(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    deployments = [{"manifest": OBJECTS, "model_configs": CONFIGS}, GOOD, deployed(DERIVED)]
    answer = post("/v1/impact", {"deployments": deployments, "to": "0.33.0"})
    assert answer.status_code == 200
    items = shown(answer.text, ids(caplog))["items"]
    problems = [
        item.get("problem") or [each["problem"] for each in item["releases"].values() if "problem" in each]
        for item in items
    ]
    assert [(each if isinstance(each, list) else [each])[:1] for each in problems] == [
        [],
        [problem(f"/deployments/0/manifest{BAD[1]}")],
        [],
        [problem(f"/deployments/0/manifest{BAD[3]}")],
        [problem(f"/deployments/0/manifest{BAD[4]}")],
        [],
        [],
        [problem("/deployments/2/deployment")],
    ]


def test_the_other_requests_to_engines_are_checked(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    body = {"manifest": OBJECTS, "model_configs": CONFIGS, "request": {"temperature": 0.5}}
    items = shown(post("/v1/requests/check", body).text, ids(caplog))["items"]
    assert [item.get("problem") for item in items] == [
        problem(f"/manifest{BAD[place]}") if place in BAD else None for place in range(len(PLACES))
    ]


def review_of(*models: str, name: str = "reviewed") -> Document:
    """A review of a Deployment with an engine for each model."""
    document: Document = copy.deepcopy(REVIEW)
    reviewed = deployment(*(container(model=model) for model in models), name=name)
    configs = {"runner-policy/model-configs": json.dumps(CONFIGS)}
    reviewed["spec"]["template"]["metadata"] = {"annotations": configs}
    document["request"]["object"] = reviewed
    return document


UNDECIDED = (
    "not decided: a defect of Runner Policy prevents an answer; it is not a fault of the request; report it with"
)
REST = " what the log has under the id `ID`"
ADD = "(objects that cannot be decided are denied here; add what is missing)"


@pytest.mark.parametrize(
    ("document", "place"),
    [
        (review_of(DERIVED, "Qwen/Qwen3-8B"), f"{ONE}: "),
        (review_of(CONVERTED, "Qwen/Qwen3-8B"), f"{ONE}: "),
        (review_of("Qwen/Qwen3-8B", name=READ), ""),
    ],
    ids=["derived", "converted", "read"],
)
def test_an_engine_under_review_is_one_that_cannot_be_decided(
    document: Document, place: str, post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    text = f"{place}{UNDECIDED}{REST}"
    runner = f"{ONE}=undecided {TWO}=v2" if place else "object=undecided"
    opened = post("/v1/admission", document, admission_failure_policy="open")
    response = json.loads(without(opened.text, ids(caplog)))["response"]
    annotations = {name: value for name, value in response["auditAnnotations"].items() if name == "runner"}
    assert (opened.status_code, response["allowed"], response["warnings"], annotations) == (
        200,
        True,
        [text],
        {"runner": runner},
    )
    caplog.clear()
    closed = post("/v1/admission", document, admission_failure_policy="closed")
    response = json.loads(without(closed.text, ids(caplog)))["response"]
    assert (closed.status_code, response["allowed"], response["status"]["message"]) == (200, False, f"{text} {ADD}")
    assert post("/v1/admission/mutate", document, admission_set_env="always").json()["response"]["allowed"] is True


@pytest.mark.parametrize("function", ["engines_to_decide", "warnings_of", "audit_annotations", "unread_engine"])
def test_a_review_that_shows_a_defect_is_answered(
    function: str,
    post: Callable[..., httpx.Response],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    calls = []
    real = getattr(handler, function)

    def fail_once(*arguments: Any, **more: Any) -> Any:
        calls.append(arguments)
        return fail() if len(calls) == 1 else real(*arguments, **more)

    monkeypatch.setattr(handler, function, fail_once)
    closed = post("/v1/admission", review_of("Qwen/Qwen3-8B"), admission_failure_policy="closed")
    response = json.loads(without(closed.text, ids(caplog)))["response"]
    assert (closed.status_code, response["allowed"], response["status"]["message"]) == (
        200,
        False,
        f"{UNDECIDED}{REST} {ADD}",
    )


def test_an_object_without_vllm_is_allowed_whatever_it_shows(
    post: Callable[..., httpx.Response], caplog: pytest.LogCaptureFixture
) -> None:
    document = review_of(name=READ)
    document["request"]["object"] = deployment({"name": "web", "image": "nginx:1"}, name=READ)
    response = post("/v1/admission", document, admission_failure_policy="closed").json()["response"]
    assert (response["allowed"], len(ids(caplog))) == (True, 1)


@pytest.mark.parametrize("document", [review_of(DERIVED), review_of(CONVERTED), review_of("Qwen/Qwen3-8B", name=READ)])
def test_an_object_that_shows_a_defect_remains_editable(
    document: Document, post: Callable[..., httpx.Response]
) -> None:
    def update(**change: Any) -> Any:
        edited = copy.deepcopy(document)
        request = edited["request"]
        request |= {"operation": "UPDATE", "oldObject": copy.deepcopy(request["object"])}
        request["object"]["metadata"]["labels"] = {"team": "a"}
        request["object"]["spec"]["template"]["spec"]["containers"][0] |= change
        return post("/v1/admission", edited, admission_failure_policy="closed").json()["response"]["allowed"]

    assert (update(), update(args=["--model", DERIVED, "--enforce-eager"])) == (True, False)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a file for each object, and the configurations of their models beside it."""
    for number, each in enumerate(OBJECTS):
        path = tmp_path / "manifests" / f"{number}.yaml"
        path.parent.mkdir(exist_ok=True)
        path.write_text(yaml.safe_dump(each))
    for name, config in CONFIGS.items():
        path = tmp_path / "models" / name / "config.json"
        path.parent.mkdir(parents=True)
        path.write_text(json.dumps(config))
    return tmp_path


def test_the_command_decides_the_other_engines_of_a_folder(
    call: Call, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = call("decide", str(folder / "manifests"), "--models", str(folder / "models"))
    found = ids(caplog)
    lines = [shown(line, found) for line in done.out.splitlines()]
    pointers = {place: re.sub(r"^/\d", "", pointer) for place, pointer in BAD.items()}
    assert (done.code, [line.get("decision") or line["problem"] for line in lines]) == (
        1,
        [problem(pointers[place]) if place in BAD else "v2" for place in range(len(PLACES))],
    )


def test_the_command_lints_the_other_engines_of_a_folder(
    call: Call, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    arguments = ("lint", str(folder / "manifests"), "--models", str(folder / "models"))
    done = call(*arguments)
    lines = [line for line in without(done.err, ids(caplog)).splitlines() if "not decided" in line]
    assert (done.code, done.out, [MESSAGE in line for line in lines]) == (0, "", [True] * len(BAD))
    assert call(*arguments, "--strict").code == 1


def test_the_command_compares_the_other_engines_of_a_folder(call: Call, folder: Path) -> None:
    done = call("impact", str(folder / "manifests"), "--models", str(folder / "models"), "--to", "0.33.0", "--json")
    problems = [
        item["problem"]["type"] if "problem" in item else [each.get("problem", {}).get("type") for each in answers]
        for item in json.loads(done.out)["items"]
        if (answers := item.get("releases", {}).values()) is not None
    ]
    none, both = [None, None], [KIND, KIND]
    assert (done.code, done.err, problems) == (1, "", [none, both, none, KIND, KIND, none])


def test_the_command_fixes_the_other_engines_of_a_folder(
    call: Call, folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    done = call("fix", str(folder / "manifests"), "--models", str(folder / "models"), "--json")
    found = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, [each["problem"]["type"] if "problem" in each else each["runner"] for each in found]) == (
        1,
        [KIND if place in BAD else "v2" for place in range(len(PLACES))],
    )
    assert len(ids(caplog)) == len(BAD)


@pytest.mark.parametrize("command", ["decide", "lint", "fix", "impact --to=0.33.0"])
def test_a_defect_in_a_parser_is_the_problem_of_its_file(
    command: str,
    call: Call,
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    read, (name, *options) = yamltree.read_documents, command.split()

    def read_or_fail(text: str, *others: Any) -> Any:
        return fail() if "one-of-two" in text else read(text, *others)

    for module in requests, fleet_sources:
        monkeypatch.setattr(module, "read_documents", read_or_fail)
    done = call(name, str(folder / "manifests"), "--models", str(folder / "models"), *options)
    said = without(done.err + done.out, ids(caplog))
    assert (done.code, MESSAGE in said, "1.yaml" in said) == (0 if name == "lint" else 1, True, True)
    alone = call(name, str(folder / "manifests" / "1.yaml"), "--models", str(folder / "models"), *options)
    assert MESSAGE in without(alone.err + alone.out, ids(caplog))


def test_a_defect_in_one_document_is_not_that_of_the_others(
    call: Call, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "all.yaml"
    file.write_text(yaml.safe_dump_all(OBJECTS[:2]))
    read = yamltree.read_documents

    def read_or_fail(text: str, *others: Any) -> Any:
        return fail() if "one-of-two" in text else read(text, *others)

    for module in requests, fleet_sources:
        monkeypatch.setattr(module, "read_documents", read_or_fail)
    done = call("impact", str(file), "--to", "0.33.0", "--json")
    items = json.loads(without(done.out, ids(caplog)))["items"]
    assert [item["problem"]["detail"] for item in items if "problem" in item] == [MESSAGE]
    assert len(items) == 2


def test_a_defect_in_a_report_is_the_problem_of_its_deployment(
    call: Call, folder: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(run, "summary_of", fail)
    done = call("impact", str(folder / "manifests"), "--models", str(folder / "models"), "--to", "0.33.0", "--json")
    items = json.loads(done.out)["items"]
    assert (done.code, [item["problem"]["type"] for item in items]) == (1, [KIND] * len(PLACES))
    assert len(ids(caplog)) >= len(PLACES)


def test_the_command_prints_the_problem_of_one_request(
    call: Call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = tmp_path / "request.json"
    file.write_text(json.dumps(deployed(DERIVED)))
    done = call("decide", str(file))
    assert (done.code, done.out, without(done.err, ids(caplog))) == (2, "", f"/deployment: {MESSAGE}\n")
