"""`/openapi.json`: valid, complete, and in agreement with what the service really answers."""

from __future__ import annotations

import json
import re
import shutil
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import httpx
import pytest
from jsonschema import Draft202012Validator
from openapi_spec_validator import validate

from policy.checks.comparison import CHANGED_MEMBERS
from policy.errors import RequestInvalid
from policy.facts.vocabulary import VOCABULARY, FactKind
from policy.intake.deployment import Platform
from policy.rules.effects import TABLE, Layer, Outcome, Runner
from service.app import ENDPOINTS
from service.log.filters import DEFAULT_LIMIT, FILTERS, MAX_LIMIT
from service.log.query import read_filter
from service.problems import KINDS

from .documented import DocumentedAnswers, strict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager

    from operations.conftest import Service

    from .conftest import Done, Server

Operation = tuple[str, str, dict[str, Any]]
JSON = "application/json"
QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
NIXL: dict[str, Any] = {**QWEN, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
NAME = "Qwen/Qwen3-8B"
CONFIGS: dict[str, Any] = {NAME: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
ENVIRONMENT: dict[str, Any] = {"platform": "rocm", "has_triton": None, "plugins": {"logits_processors": ["x"]}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"image": "vllm/vllm-openai:v0.24.0", "args": ["--model", NAME]}]},
}
TEXT: dict[str, Any] = {
    "args": f"vllm serve {NAME} --port 80",
    "env": {"A": "1", "B": None},
    "model_configs": CONFIGS,
    "environment": ENVIRONMENT,
}
VARIABLE = {"env": {"VLLM_USE_V2_MODEL_RUNNER": "1"}}


@pytest.fixture
def document(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


def operations(document: dict[str, Any]) -> Iterator[Operation]:
    for path, item in document["paths"].items():
        for method, operation in item.items():
            yield method, path, operation


def content(document: dict[str, Any], method: str, path: str, status: int, media_type: str = JSON) -> dict[str, Any]:
    found: dict[str, Any] = document["paths"][path][method]["responses"][str(status)]["content"][media_type]
    return found


def fits(document: dict[str, Any], schema: dict[str, Any], instance: Any) -> list[str]:
    """The errors of an instance; references are resolved in the document."""
    validator = Draft202012Validator({**schema, "components": document["components"]})
    return [f"{error.json_path}: {error.message}" for error in validator.iter_errors(instance)]


def test_the_document_is_valid_openapi(document: dict[str, Any]) -> None:
    validate(document)
    assert document["openapi"].startswith("3.1")


def test_every_endpoint_and_method_is_documented(document: dict[str, Any]) -> None:
    assert {(method, path) for method, path, _ in operations(document)} == {
        ("post", "/v1/decisions"),
        ("post", "/v1/decisions/batch"),
        ("post", "/v1/dry-run"),
        ("post", "/v1/impact"),
        ("post", "/v1/requests/check"),
        ("post", "/v1/requests/check/batch"),
        ("post", "/v1/admission"),
        ("post", "/v1/admission/mutate"),
        ("get", "/"),
        ("get", "/v1/policy"),
        ("get", "/v1/rules"),
        ("get", "/v1/rules/{rule_id}"),
        ("get", "/v1/releases"),
        ("get", "/v1/images"),
        ("get", "/v1/arguments"),
        ("get", "/v1/log"),
        ("get", "/v1/decisions/{decision_id}"),
        ("get", "/metrics"),
        ("get", "/v1/facts"),
        ("get", "/v1/schemas/{name}"),
        ("get", "/livez"),
        ("get", "/readyz"),
    }


def test_every_endpoint_has_a_description_and_an_example_answer(document: dict[str, Any]) -> None:
    for method, path, operation in operations(document):
        assert operation["summary"], (method, path)
        assert operation["description"], (method, path)
        answers = operation["responses"]["200"]["content"]
        assert any("example" in body for body in answers.values()), (method, path)


def test_every_deciding_endpoint_has_an_example_of_each_content_type_that_it_reads(document: dict[str, Any]) -> None:
    types = {
        path: sorted(operation["requestBody"]["content"])
        for _, path, operation in operations(document)
        if "requestBody" in operation
    }
    assert types == {
        "/v1/decisions": ["application/json", "application/yaml"],
        "/v1/decisions/batch": ["application/json", "application/x-ndjson", "application/yaml"],
        "/v1/dry-run": ["application/json", "application/yaml", "multipart/form-data"],
        "/v1/impact": ["application/json", "application/yaml"],
        "/v1/requests/check": ["application/json", "application/yaml"],
        "/v1/requests/check/batch": ["application/json", "application/x-ndjson", "application/yaml"],
        "/v1/admission": ["application/json"],
        "/v1/admission/mutate": ["application/json"],
    }


def examples(body: dict[str, Any]) -> Iterator[Any]:
    if "example" in body:
        yield body["example"]
    for example in body.get("examples", {}).values():
        yield example["value"]


def test_every_example_of_a_request_is_answered_and_fits_its_schema(
    client: httpx.Client, document: dict[str, Any]
) -> None:
    seen = 0
    for method, path, operation in operations(document):
        for media_type, body in operation.get("requestBody", {}).get("content", {}).items():
            for example in examples(body):
                seen += 1
                text = example if isinstance(example, str) else json.dumps(example)
                response = client.request(method, path, content=text, headers={"content-type": media_type})
                assert (response.status_code, fits(document, body["schema"], example)) == (200, []), (
                    path,
                    example,
                    response.text,
                )
    assert seen >= 10


def test_every_example_of_an_answer_fits_its_schema(document: dict[str, Any]) -> None:
    closed = strict(document)
    for method, path, operation in operations(document):
        for status, response in operation["responses"].items():
            for media_type, body in response.get("content", {}).items():
                for example in examples(body):
                    assert fits(closed, body["schema"], example) == [], (method, path, status, media_type)


FEW_RULES = {
    "releases.yaml": 'known: ["0.40.0"]\ndefault: "0.40.0"\n',
    "upstream/v2.yaml": """\
id: v2
title: V2 by default
effect: default-v2
why: It is the newer one.
references: [https://example.org/1]
releases:
  - {vllm: ">=0.40", message: nothing keeps this deployment from V2, when: always}
""",
    "upstream/v2_test.yaml": """\
rule: v2
cases:
  - {name: alone, vllm: [0.40.0], given: {}, fires: true}
  - {name: not with the variable, vllm: [0.40.0], given: {env: {VLLM_USE_V2_MODEL_RUNNER: "0"}}, fires: false}
""",
    "upstream/v1.yaml": """\
id: v1
title: The variable
effect: override-v1
why: Operators choose.
references: [https://example.org/1]
releases:
  - {vllm: ">=0.40", message: the variable asks for V1, when: {env.VLLM_USE_V2_MODEL_RUNNER: false}}
""",
    "upstream/v1_test.yaml": """\
rule: v1
cases:
  - {name: "0", vllm: [0.40.0], given: {env: {VLLM_USE_V2_MODEL_RUNNER: "0"}}, fires: true}
  - {name: not set, vllm: [0.40.0], given: {}, fires: false}
""",
}
"""Rules of a release that has no model tables."""


@pytest.fixture(params=["no house rule", "few rules"])
def other_rules(request: pytest.FixtureRequest, folder: Path) -> Path:
    """Rules that lack the shipped ones which the examples name."""
    if request.param == "no house rule":
        shutil.rmtree(folder / "house")
        return folder
    few = folder.with_name("few")
    for name, text in FEW_RULES.items():
        (few / name).parent.mkdir(parents=True, exist_ok=True)
        (few / name).write_text(text)
    return few


def test_the_document_is_served_and_correct_with_any_rules(
    serve: Callable[..., AbstractContextManager[Server]], other_rules: Path
) -> None:
    with serve("--rules", str(other_rules)) as server, server.client() as client:
        response = client.get("/openapi.json")
        assert (response.status_code, "kv-connector-fallback" in response.text) == (200, False)
        document = response.json()
        validate(document)
        decide = document["paths"]["/v1/decisions"]["post"]["requestBody"]["content"][JSON]["examples"]
        for name in ("default", "kv-connector", "refused", "upstream"):
            assert client.post("/v1/decisions", json=decide[name]["value"]).status_code == 200, name
        [rule] = document["paths"]["/v1/rules/{rule_id}"]["get"]["parameters"][0]["schema"]["examples"]
        assert client.get(f"/v1/rules/{rule}").json()["id"] == rule
        tried = document["paths"]["/v1/dry-run"]["post"]["requestBody"]["content"][JSON]["examples"]["candidate"]
        assert tried["value"]["remove"] == [rule]


def test_the_example_of_a_decision_is_what_the_service_answers(client: httpx.Client, document: dict[str, Any]) -> None:
    request = document["paths"]["/v1/decisions"]["post"]["requestBody"]["content"][JSON]["examples"]["kv-connector"][
        "value"
    ]
    answer = client.post("/v1/decisions", json=request).json()
    example = content(document, "post", "/v1/decisions", 200)["example"]
    assert {**answer, "decision_id": None} == {**example, "decision_id": None}


OPERATIONS = {
    "decide": "decisions",
    "decideBatch": "decisions",
    "dryRun": "dry-runs",
    "compareReleases": "impact",
    "checkRequest": "requests",
    "checkRequests": "requests",
    "reviewAdmission": "admission",
    "mutateAdmission": "admission",
    "getPolicy": "rules",
    "listRules": "rules",
    "getRule": "rules",
    "listReleases": "rules",
    "listImages": "rules",
    "listArguments": "rules",
    "listFacts": "rules",
    "getSchema": "rules",
    "queryLog": "log",
    "getDecision": "log",
    "getMetrics": "operations",
    "getLiveness": "operations",
    "getReadiness": "operations",
    "getLanding": "operations",
}


def test_operations_keep_their_ids_and_tags_which_are_names_in_generated_clients(document: dict[str, Any]) -> None:
    assert {operation["operationId"]: operation["tags"] for _, _, operation in operations(document)} == {
        name: [tag] for name, tag in OPERATIONS.items()
    }
    assert {tag["name"]: bool(tag["description"]) for tag in document["tags"]} == dict.fromkeys(
        OPERATIONS.values(), True
    )


def schemas_in(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Every schema of the document with its place, except conditions of a schema (`if` and `then`)."""
    places: list[tuple[str, dict[str, Any]]] = list(document["components"]["schemas"].items())
    for _, path, operation in operations(document):
        name = f"{operation['operationId']}({path})"
        places += [(f"{name} {each['name']}", each["schema"]) for each in operation.get("parameters", [])]
        bodies = [operation.get("requestBody", {}), *operation["responses"].values()]
        places += [
            (f"{name} {media_type}", body["schema"])
            for each in bodies
            for media_type, body in each.get("content", {}).items()
        ]
    while places:
        place, schema = places.pop()
        yield place, schema
        places += [(f"{place}.{name}", child) for name, child in schema.get("properties", {}).items()]
        places += [
            (f"{place}[{keyword}]", schema[keyword])
            for keyword in ("items", "additionalProperties")
            if isinstance(schema.get(keyword), dict)
        ]
        places += [
            (f"{place}|{number}", child)
            for keyword in ("anyOf", "oneOf", "allOf")
            for number, child in enumerate(schema.get(keyword, []))
        ]


def references(part: Any) -> Iterator[str]:
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        part = list(part.values())
    for child in part if isinstance(part, list) else ():
        yield from references(child)


def test_every_reference_leads_to_a_schema_and_every_schema_is_used(document: dict[str, Any]) -> None:
    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert set(references(document)) == known


def test_objects_and_closed_sets_of_values_have_names(document: dict[str, Any]) -> None:
    unnamed = [
        place
        for place, schema in schemas_in(document)
        if place not in document["components"]["schemas"] and ("properties" in schema or "enum" in schema)
    ]
    assert unnamed == []
    assert [name for name in document["components"]["schemas"] if not re.fullmatch("([A-Z][a-z0-9]+)+", name)] == []


def test_null_is_an_alternative_and_each_list_has_an_item_schema(document: dict[str, Any]) -> None:
    for place, schema in schemas_in(document):
        assert isinstance(schema.get("type", ""), str), place
        assert None not in schema.get("enum", ()), place
        assert schema.get("type") != "array" or "items" in schema, place
        assert schema.get("type") != "null" or "|" in place, place


def test_a_default_is_a_value_of_its_schema(document: dict[str, Any]) -> None:
    defaults = [(place, schema) for place, schema in schemas_in(document) if "default" in schema]
    assert [place for place, _ in defaults] == ["queryLog(/v1/log) limit"]
    for place, schema in defaults:
        assert fits(document, schema, schema["default"]) == [], place


def test_a_fact_has_no_default_which_a_generated_client_would_state(document: dict[str, Any]) -> None:
    facts = [schema for place, schema in schemas_in(document) if place.startswith("Facts") and "." in place]
    assert len(facts) > 60
    assert [schema for schema in facts if "default" in schema] == []
    moe = document["components"]["schemas"]["FactsModelConfig"]["properties"]["is_moe"]
    assert moe["description"] == "the model has experts; default: `false`"


def test_every_schema_field_answer_and_parameter_is_described(document: dict[str, Any]) -> None:
    schemas = document["components"]["schemas"]
    assert [name for name, schema in schemas.items() if not schema.get("description")] == []
    for name, schema in schemas.items():
        for field, child in schema.get("properties", {}).items():
            own = child.get("description") or ("$ref" in child and len(child) == 1)
            assert own, (name, field)
    for _, path, operation in operations(document):
        assert all(parameter["description"] for parameter in operation.get("parameters", [])), path
        assert all(response["description"] for response in operation["responses"].values()), path
        for status, response in operation["responses"].items():
            assert status == "304" or all("schema" in body for body in response["content"].values()), path
        for body in operation.get("requestBody", {}).get("content", {}).values():
            assert list(body["schema"]) == ["$ref"], path


CLOSED_SETS: dict[str, list[str]] = {
    "Runner": list(Runner),
    "Outcome": list(Outcome),
    "Layer": list(Layer),
    "Effect": list(dict.fromkeys(effect.name for effect in TABLE)),
    "Platform": list(Platform),
    "FactType": list(FactKind),
    "ComparedField": [*CHANGED_MEMBERS],
    "ProblemType": [f"urn:runner-policy:problem:{kind}" for kind in KINDS],
    "LoggedPath": [
        path.removeprefix("/") for path in ENDPOINTS if not path.startswith(("/v1/impact", "/v1/requests/"))
    ],
    "RunnerFilter": [*Runner, "null"],
    "OutcomeFilter": [*Outcome, "null"],
    "FactsModelConfigRunnerType": ["generate", "pooling", "draft"],
    "AdmissionRequestOperation": ["CREATE", "UPDATE", "DELETE", "CONNECT"],
}


@pytest.mark.parametrize("name", CLOSED_SETS)
def test_a_closed_set_of_values_is_an_enum(document: dict[str, Any], name: str) -> None:
    assert document["components"]["schemas"][name]["enum"] == CLOSED_SETS[name]


def test_every_choice_of_a_fact_is_an_enum(document: dict[str, Any]) -> None:
    sets = [schema["enum"] for name, schema in document["components"]["schemas"].items() if "enum" in schema]
    for fact in VOCABULARY:
        assert not fact.choices or list(fact.choices) in sets, fact.name


def test_every_kind_of_problem_is_documented(document: dict[str, Any]) -> None:
    described = " ".join(
        response["description"]
        for _, _, operation in operations(document)
        for response in operation["responses"].values()
    )
    # no operation has another method
    assert [kind for kind in KINDS if f"`{kind}`" not in described] == ["method-not-allowed"]


def test_every_parameter_in_a_path_is_described(document: dict[str, Any]) -> None:
    for _, path, operation in operations(document):
        named = {parameter["name"] for parameter in operation.get("parameters", []) if parameter["in"] == "path"}
        assert named == {part.strip("{}") for part in path.split("/") if part.startswith("{")}


REQUESTS: list[tuple[str, dict[str, Any]]] = [
    ("plain", {"facts": QWEN}),
    ("nothing known", {"facts": {}}),
    ("house rule", {"facts": NIXL, "request_id": "seven"}),
    ("opt-in", {"facts": QWEN, "vllm_version": "0.20.0"}),
    ("last release", {"facts": {**QWEN, **VARIABLE}, "vllm_version": "0.33.0"}),
    ("unverified", {"facts": QWEN, "vllm_version": "v0.24.1", "explain": True}),
    ("beyond", {"facts": QWEN, "vllm_version": "9.9", "beyond_verified": "nearest"}),
    (
        "refused",
        {
            "facts": {**QWEN, **VARIABLE, "parallel_config": {"enable_dbo": True}},
            "vllm_version": "0.24.0",
            "explain": True,
        },
    ),
    ("own runner", {"facts": {**QWEN, "platform": {"plugin": "vllm-gaudi"}}, "explain": True}),
    ("no runner", {"facts": {**QWEN, "env": {"VLLM_USE_V2_MODEL_RUNNER": "yes"}}, "explain": True}),
    ("upstream", {"facts": NIXL, "layers": ["upstream"], "explain": True}),
    (
        "lists",
        {
            "facts": {"model_config": {"logits_processors": [{"a": [1]}], "architectures": ["X"]}},
            "vllm_version": "0.24.0",
            "explain": True,
        },
    ),
    ("deployment", {"deployment": {"args": ["serve", NAME], "model_configs": CONFIGS}}),
    ("deployment as a text", {"deployment": TEXT, "explain": True}),
    ("manifest", {"manifest": POD, "model_configs": CONFIGS, "environment": ENVIRONMENT, "explain": True}),
    ("manifests", {"manifest": [POD, POD]}),
]


@pytest.mark.parametrize("request_", [request for _, request in REQUESTS], ids=[name for name, _ in REQUESTS])
@pytest.mark.parametrize("path", ["/v1/decisions", "/v1/dry-run"])
def test_a_decision_fits_its_schema_without_additional_fields(
    client: httpx.Client, document: dict[str, Any], path: str, request_: dict[str, Any]
) -> None:
    answer = client.post(path, json=request_).json()
    assert fits(strict(document), content(document, "post", path, 200)["schema"], answer) == []


def test_the_schema_of_a_request_accepts_what_the_service_accepts(document: dict[str, Any]) -> None:
    schema = document["paths"]["/v1/decisions"]["post"]["requestBody"]["content"][JSON]["schema"]
    assert {name: fits(document, schema, request) for name, request in REQUESTS} == {name: [] for name, _ in REQUESTS}


@pytest.mark.parametrize(
    "request_",
    [
        None,
        {},
        {"facts": None},
        {"facts": []},
        {"facts": {}, "x": 1},
        {"facts": {"x": 1}},
        {"facts": {"parallel_config": {"tensor_parallel_size": 0}}},
        {"facts": {"parallel_config": {"tensor_parallel_size": "2"}}},
        {"facts": {"parallel_config": {"x": 1}}},
        {"facts": {"model_config": []}},
        {"facts": {"model_config": {"is_moe": 1}}},
        {"facts": {"model_config": {"is_moe": None}}},
        {"facts": {"model_config": {"runner_type": "pool"}}},
        {"facts": {"model_config": {"architectures": "X"}}},
        {"facts": {"model_config": {"architectures": [1]}}},
        {"facts": {"env": {"VLLM_USE_V2_MODEL_RUNNER": 1}}},
        {"facts": {"env": {"OTHER": "1"}}},
        {"facts": {}, "vllm_version": 0.23},
        {"facts": {}, "layers": ["house"]},
        {"facts": {}, "layers": []},
        {"facts": {}, "explain": 1},
        {"facts": {}, "explain": None},
        {"facts": {}, "request_id": 1},
        {"facts": {}, "request_id": "x" * 257},
        {"facts": {}, "beyond_verified": "newest"},
        {"facts": {}, "deployment": {}},
        {"deployment": []},
        {"deployment": {"args": 1}},
        {"deployment": {"args": [1]}},
        {"deployment": {"arg": []}},
        {"deployment": {"env": {"A": 1}}},
        {"deployment": {"model_configs": {"a": []}}},
        {"deployment": {"environment": {"platform": "cudo"}}},
        {"deployment": {"environment": {"plugins": {"logits_processors": [1]}}}},
        {"manifest": 1},
        {"manifest": {}, "environment": {"x": 1}},
    ],
    ids=lambda request: json.dumps(request)[:60],
)
def test_the_schema_of_a_request_refuses_what_the_service_refuses(
    client: httpx.Client, document: dict[str, Any], request_: Any
) -> None:
    schema = document["paths"]["/v1/decisions"]["post"]["requestBody"]["content"][JSON]["schema"]
    response = client.post("/v1/decisions", content=json.dumps(request_))
    assert (response.status_code, fits(document, schema, request_) == []) == (422, False)


@pytest.mark.parametrize("request_", [{"facts": NIXL}, {"deployment": TEXT}])
def test_a_comparison_fits_its_schema(client: httpx.Client, document: dict[str, Any], request_: dict[str, Any]) -> None:
    answer = client.post("/v1/dry-run", json={"request": request_, "remove": ["kv-connector-fallback"]}).json()
    schema = {"$ref": "#/components/schemas/DryRunComparison"}
    assert fits(strict(document), schema, answer) == []
    assert fits(document, content(document, "post", "/v1/dry-run", 200)["schema"], answer) == []


def test_a_batch_fits_its_schema(client: httpx.Client, document: dict[str, Any]) -> None:
    answer = client.post(
        "/v1/decisions/batch", json={"items": [{"facts": QWEN}, {"facts": 1}, {"deployment": TEXT}, {"manifest": POD}]}
    ).json()
    schema = content(document, "post", "/v1/decisions/batch", 200)["schema"]
    assert fits(strict(document), schema, answer) == []
    assert fits(strict(document), schema, {"items": [{"x": 1}]}) != []
    assert fits(strict(document), schema, {}) != []


@pytest.mark.parametrize(
    "path",
    [
        "/v1/policy",
        "/v1/rules",
        "/v1/rules/{rule_id}",
        "/v1/releases",
        "/v1/images",
        "/v1/arguments",
        "/v1/facts",
        "/v1/schemas/{name}",
        "/readyz",
    ],
)
def test_a_read_endpoint_s_answer_fits_its_schema_and_has_the_fields_of_its_example(
    client: httpx.Client, document: dict[str, Any], path: str
) -> None:
    answer = client.get(path.format(rule_id="kv-connector-fallback", name="cases")).json()
    documented = content(document, "get", path, 200)
    assert (fits(document, documented["schema"], answer), list(documented["example"])) == ([], list(answer))


PROBLEM = {"type": "urn:runner-policy:problem:malformed", "title": "", "status": 400, "detail": "", "errors": []}


@pytest.mark.parametrize(
    ("path", "status", "answer", "expected_message"),
    [
        ("/v1/decisions", 400, PROBLEM, None),
        ("/v1/nothing", 200, {}, None),
        ("/v1/decisions", 201, {}, "undocumented status"),
        ("/v1/decisions", 400, {**PROBLEM, "type": "urn:runner-policy:problem:new"}, "does not fit its schema"),
        ("/v1/decisions", 400, {**PROBLEM, "more": 1}, "does not fit its schema"),
        ("/v1/decisions", 200, {"items": [{}]}, "does not fit its schema"),
    ],
)
def test_an_undocumented_answer_is_detected(
    document: dict[str, Any], path: str, status: int, answer: dict[str, Any], expected_message: str | None
) -> None:
    media_type = JSON if status == 200 else "application/problem+json"
    response = httpx.Response(
        status,
        json=answer,
        headers={"content-type": media_type},
        request=httpx.Request("POST", f"http://localhost{path}"),
    )
    with nullcontext() if expected_message is None else pytest.raises(AssertionError, match=expected_message):
        DocumentedAnswers(lambda: document).check(response)


PROBLEMS: list[tuple[str, str, int, dict[str, Any]]] = [
    ("post", "/v1/decisions", 400, {"content": b""}),
    ("post", "/v1/decisions", 413, {"content": b" " * (2 << 20)}),
    ("post", "/v1/decisions", 415, {"content": b"{}", "headers": {"content-encoding": "gzip"}}),
    ("post", "/v1/decisions", 422, {"content": b"{}"}),
    ("post", "/v1/decisions", 422, {"content": b'{"facts": {}, "vllm_version": "0.1"}'}),
    ("post", "/v1/decisions", 422, {"json": {"deployment": {"args": ["serve", NAME]}}}),
    (
        "post",
        "/v1/decisions",
        422,
        {"json": {"deployment": {"args": ["serve", NAME], "model_configs": {NAME: {"architectures": ["X"]}}}}},
    ),
    ("post", "/v1/decisions/batch", 400, {"content": b""}),
    ("post", "/v1/decisions/batch", 413, {"content": b" " * (17 << 20)}),
    ("post", "/v1/decisions/batch", 422, {"content": b"{}"}),
    ("post", "/v1/dry-run", 400, {"content": b""}),
    ("post", "/v1/dry-run", 422, {"json": {"request": {"facts": {}}, "rules": ["id: x"]}}),
    ("get", "/v1/rules", 422, {"params": {"vllm_version": "x"}}),
    ("get", "/v1/rules/{rule_id}", 404, {}),
    ("get", "/v1/rules/{rule_id}", 422, {"params": {"vllm_version": "0.1"}}),
]


@pytest.mark.parametrize(
    ("method", "path", "status", "arguments"), PROBLEMS, ids=lambda value: value if isinstance(value, str) else None
)
def test_a_problem_is_documented_and_fits_its_schema(
    client: httpx.Client, document: dict[str, Any], method: str, path: str, status: int, arguments: dict[str, Any]
) -> None:
    response = client.request(method, path.format(rule_id=quote("no such rule")), **arguments)
    assert (response.status_code, response.headers["content-type"]) == (status, "application/problem+json")
    assert (
        fits(
            strict(document),
            content(document, method, path, status, "application/problem+json")["schema"],
            response.json(),
        )
        == []
    )


REVIEWS = [
    json.loads(path.read_text()) for path in sorted((Path(__file__).parent.parent / "core/admission").glob("*.json"))
]


@pytest.mark.parametrize("path", ["/v1/admission", "/v1/admission/mutate"])
def test_reviews_and_their_answers_fit_their_schemas(client: httpx.Client, document: dict[str, Any], path: str) -> None:
    asked = document["paths"][path]["post"]["requestBody"]["content"][JSON]["schema"]
    for review in REVIEWS:
        assert fits(document, asked, review) == []
        answer = client.post(path, json=review).json()
        assert fits(strict(document), content(document, "post", path, 200)["schema"], answer) == []


@pytest.mark.parametrize("mutating", [False, True])
def test_the_example_of_a_review_s_answer_is_what_the_service_answers(
    client: httpx.Client, document: dict[str, Any], *, mutating: bool
) -> None:
    path = "/v1/admission/mutate" if mutating else "/v1/admission"
    review = document["paths"][path]["post"]["requestBody"]["content"][JSON]["examples"]["pod"]["value"]
    answer, example = client.post(path, json=review).json(), content(document, "post", path, 200)["example"]
    for each in (answer, example):
        each["response"]["auditAnnotations"].pop("decision-id")
    assert answer == example


def test_every_parameter_of_the_log_is_described(document: dict[str, Any]) -> None:
    parameters = document["paths"]["/v1/log"]["get"]["parameters"]
    assert sorted(parameter["name"] for parameter in parameters) == sorted(FILTERS)
    limit = next(parameter["schema"] for parameter in parameters if parameter["name"] == "limit")
    assert (limit["maximum"], limit["default"]) == (MAX_LIMIT, DEFAULT_LIMIT)


TEXTS = [
    "v1",
    "null",
    "default",
    "true",
    "NO",
    "a-b",
    "a b",
    "",
    "x" * 256,
    "x" * 257,
    "\0",
    "0",
    "1",
    "1000",
    "1001",
    "7d",
    "99999h",
    "999999d",
    "7w",
    "soon",
]
TEXTS += [
    "2026-11-21",
    "2026-11-21T12:00:00Z",
    "2026-21-11",
    "01a1feba-135c-7656-a303-4a8904f82d19",
    "01A1FEBA-135C-7656-A303-4A8904F82D19",
]


def test_the_schema_of_each_parameter_of_the_log_accepts_what_the_service_accepts(document: dict[str, Any]) -> None:
    for parameter in document["paths"]["/v1/log"]["get"]["parameters"]:
        name, schema = parameter["name"], parameter["schema"]
        for text in TEXTS:
            value = json.loads(text) if text.isdecimal() or text in {"true", "false"} else text
            fitting = fits(document, schema, value if schema.get("type") in {"integer", "boolean"} else text) == []
            try:
                read_filter([(name, text)])
            except RequestInvalid:
                taken = False
            else:
                taken = True
            assert (name, text, fitting) == (name, text, taken)


def test_the_document_is_made_without_the_database_library(run: Callable[..., Done]) -> None:
    done = run("-c", "import sys, service.openapi; print('sqlalchemy' in sys.modules)", program="python")
    assert (done.code, done.out) == (0, "False\n"), done.err


def test_logged_decisions_fit_their_schemas(shared: Callable[..., AbstractContextManager[Service]]) -> None:
    with shared("required-log") as server, server.client() as client:
        document = client.get("/openapi.json").json()
        for _, request in REQUESTS:
            assert client.post("/v1/decisions", json=request).status_code == 200
        page = client.get("/v1/log").json()
        record = client.get(f"/v1/decisions/{page['items'][0]['decision_id']}").json()
        state = client.get("/readyz?verbose").json()
    assert len(page["items"]) > 10
    assert fits(strict(document), content(document, "get", "/v1/log", 200)["schema"], page) == []
    assert fits(strict(document), content(document, "get", "/v1/decisions/{decision_id}", 200)["schema"], record) == []
    assert fits(document, content(document, "get", "/readyz", 200)["schema"], state) == []


def test_every_endpoint_documents_its_scope_and_every_status(document: dict[str, Any]) -> None:
    assert document["components"]["securitySchemes"]["bearer"]["scheme"] == "bearer"
    scopes = {path: operation["security"] for _, path, operation in operations(document)}
    assert {path: [list(each.values()) for each in needed] for path, needed in scopes.items()} == {
        **{
            key: [[], [["decide"]]]
            for key in (
                *("/v1/decisions", "/v1/decisions/batch", "/v1/requests/check", "/v1/requests/check/batch"),
                *("/v1/admission", "/v1/admission/mutate"),
            )
        },
        **{key: [[], [["dry-run"]]] for key in ("/v1/dry-run", "/v1/impact")},
        **{
            key: [[], [["read"]]]
            for key in (
                "/",
                "/v1/policy",
                "/v1/rules",
                "/v1/rules/{rule_id}",
                "/v1/releases",
                "/v1/images",
                "/v1/arguments",
                "/v1/facts",
                "/v1/schemas/{name}",
                "/metrics",
                "/readyz",
            )
        },
        **{key: [[], [["log"]]] for key in ("/v1/log", "/v1/decisions/{decision_id}")},
        "/livez": [],
    }
    for method, path, operation in operations(document):
        assert path in {"/livez", "/readyz"} or {"200", "503"} <= operation["responses"].keys(), path
        assert path == "/livez" or {"401", "403", "429"} <= operation["responses"].keys(), path
        assert method == "get" or {"400", "408", "412", "413", "415", "422"} <= operation["responses"].keys(), path
        for status, header in (("401", "WWW-Authenticate"), ("429", "Retry-After"), ("503", "Retry-After")):
            assert status not in operation["responses"] or header in operation["responses"][status]["headers"], path
