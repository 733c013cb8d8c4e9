"""Clients generated from `/openapi.json`: complete, typed, and in agreement with what the service answers."""

from __future__ import annotations

import json
import py_compile
import re
import subprocess
import sys
from datetime import datetime
from importlib import import_module, metadata
from importlib.util import module_from_spec, spec_from_file_location
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest

from .conftest import BIN, PATIENCE, TOKEN, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    import httpx

    from .conftest import Server

pytestmark = pytest.mark.slow  # generating the clients takes seconds
PACKAGE = "runner_policy_client"
NAME = "Qwen/Qwen3-8B"
CONFIGS = {NAME: {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}}
NIXL = {"kv_connector": "NixlConnector", "kv_role": "kv_both"}
FACTS = {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": NIXL}}
DEPLOYMENT = {"deployment": {"args": ["serve", NAME], "model_configs": CONFIGS}, "explain": True}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "spec": {"containers": [{"image": "vllm/vllm-openai:v0.24.0", "args": ["--model", NAME]}]},
}
MANIFEST = {"manifest": [POD, POD], "model_configs": CONFIGS, "environment": {"platform": "rocm"}}
NDJSON = "application/x-ndjson"
FILES = "docs/controllers.md", "pyproject.toml"
UNKNOWN_TYPES = {
    ("POST", "/v1/decisions", "application/yaml"),
    ("POST", "/v1/decisions/batch", "application/yaml"),
    ("POST", "/v1/decisions/batch", NDJSON),
    ("POST", "/v1/dry-run", "application/yaml"),
    ("POST", "/v1/impact", "application/yaml"),
    ("POST", "/v1/requests/check", "application/yaml"),
    ("POST", "/v1/requests/check/batch", "application/yaml"),
    ("POST", "/v1/requests/check/batch", NDJSON),
}
"""Types of bodies that openapi-python-client does not support, and leaves out with a warning."""


def generated(document: dict[str, Any], folder: Path, program: str, *arguments: str) -> str:
    """Run a generator on the document, which is written to the folder; return its output."""
    (folder / "openapi.json").write_text(json.dumps(document))
    variables = environment(PATH=f"{BIN}:/usr/bin:/bin", NO_COLOR="1", COLUMNS="200")
    done = subprocess.run(
        [BIN / program, *arguments],
        cwd=folder,
        env=variables,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


MYPY_CONFIG = f"""\
[mypy]
strict = true
warn_redundant_casts = false
[mypy-{PACKAGE}.client]
ignore_errors = true
"""
"""How mypy checks generated code.

openapi-python-client casts lists of anything, and in each package it makes, `client.py` has untyped `__exit__`.
"""
CONTROLLER = f"""\
from {PACKAGE} import AuthenticatedClient
from {PACKAGE}.api.decisions import decide
from {PACKAGE}.models import Decision, Facts, FactsModelConfig, FactsRequest, Outcome, Problem, ProblemType, Runner


def plan(client: AuthenticatedClient, architectures: list[str]) -> dict[str, str] | ProblemType | None:
    facts = Facts(model_config=FactsModelConfig(architectures=architectures, is_moe=False))
    answer = decide.sync(client=client, body=FactsRequest(facts=facts, vllm_version="0.23.0"))
    if isinstance(answer, Problem):
        return answer.type_
    assert isinstance(answer, Decision)
    runner: Runner | None = answer.runner
    outcome: Outcome | None = answer.outcome
    first: tuple[str, bool] = answer.reasons[0].message, answer.reasons[0].decisive
    return answer.set_env.additional_properties if runner and outcome and first else None
"""


def type_errors(folder: Path, *paths: str) -> str:
    """What mypy finds in generated code."""
    (folder / "mypy.ini").write_text(MYPY_CONFIG)
    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=mypy.ini", "--cache-dir=/dev/null", *paths],
        cwd=folder,
        env=environment(PYTHONPATH=""),
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    return "" if done.returncode == 0 else done.stdout + done.stderr


@pytest.fixture(scope="module")
def document(client: httpx.Client) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/openapi.json").json()
    return found


@pytest.fixture(scope="module")
def python_client(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, str]]:
    """The package that openapi-python-client makes, which can be imported, and what it prints."""
    folder = tmp_path_factory.mktemp("python_client")
    arguments = "generate", "--path", "openapi.json", "--meta", "none"
    said = generated(document, folder, "openapi-python-client", *arguments)
    sys.path.insert(0, str(folder))
    yield folder / PACKAGE, said
    sys.path.remove(str(folder))
    for name in [name for name in sys.modules if name.partition(".")[0] == PACKAGE]:
        del sys.modules[name]


@pytest.fixture(scope="module")
def models_file(document: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The module that datamodel-code-generator makes."""
    folder = tmp_path_factory.mktemp("models")
    said = generated(
        document,
        folder,
        "datamodel-codegen",
        *("--input", "openapi.json", "--output", "models.py"),
        *("--input-file-type", "openapi", "--output-model-type", "pydantic_v2.BaseModel"),
        *("--target-python-version", "3.11", "--use-annotated", "--formatters", "builtin"),
    )
    assert said == ""
    return folder / "models.py"


def test_openapi_python_client_supports_everything_except_some_body_types(
    python_client: tuple[Path, str],
) -> None:
    _, said = python_client
    warnings = re.findall(r"^WARNING parsing (\w+) (\S+) within .*\n\n(.+)$", said, re.MULTILINE)
    unknown = {(method, path, what.removeprefix("Unsupported content type ")) for method, path, what in warnings}
    assert (unknown, said.lower().count("warning parsing"), "Unable to" in said) == (
        UNKNOWN_TYPES,
        len(UNKNOWN_TYPES),
        False,
    ), said


def test_the_guide_has_the_version_of_the_generator_that_is_tested(root: Path) -> None:
    pinned = [re.findall(r"openapi-python-client==([\d.]+)", (root / name).read_text()) for name in FILES]
    assert pinned == [[metadata.version("openapi-python-client")]] * 2


def test_every_class_of_the_python_client_has_the_name_of_a_schema_or_of_its_field(
    document: dict[str, Any], python_client: tuple[Path, str]
) -> None:
    package, _ = python_client
    text = (package / "models" / "__init__.py").read_text()
    made = set(re.findall(r'^    "(\w+)",$', text, re.MULTILINE))
    schemas = document["components"]["schemas"]
    maps = {
        name + "".join(part[:1].upper() + part[1:] for part in field.split("_"))
        for name, schema in schemas.items()
        for field, child in schema.get("properties", {}).items()
        if child.get("type") == "object"
    }
    assert made - schemas.keys() - maps == set()
    classes = {name for name, schema in schemas.items() if schema.get("type") == "object" or "enum" in schema}
    assert classes - made == set()


def test_generated_code_compiles(python_client: tuple[Path, str], models_file: Path) -> None:
    package, _ = python_client
    paths = [models_file, *sorted(package.rglob("*.py"))]
    assert len(paths) > 100
    for path in paths:
        py_compile.compile(str(path), doraise=True)


@pytest.mark.slow
def test_generated_code_has_no_type_errors(python_client: tuple[Path, str], models_file: Path) -> None:
    package, _ = python_client
    (package.parent / "controller.py").write_text(CONTROLLER)
    assert type_errors(package.parent, PACKAGE, "controller.py") == ""
    assert type_errors(models_file.parent, models_file.name) == ""


def test_every_model_of_datamodel_codegen_has_the_name_of_a_schema(document: dict[str, Any], models_file: Path) -> None:
    made = re.findall(r"^class (\w+)\(", models_file.read_text(), re.MULTILINE)
    assert sorted(made) == sorted(document["components"]["schemas"])


@pytest.fixture
def models(models_file: Path) -> Any:
    spec = spec_from_file_location("runner_policy_models", models_file)
    assert spec is not None
    assert spec.loader is not None
    module = module_from_spec(spec)
    sys.modules["runner_policy_models"] = module
    spec.loader.exec_module(module)
    return module


ANSWERS: list[tuple[str, str, str, dict[str, Any]]] = [
    ("POST", "/v1/decisions", "DecisionAnswer", {"json": FACTS}),
    ("POST", "/v1/decisions", "Decision", {"json": {**FACTS, "explain": True}}),
    ("POST", "/v1/decisions", "Decision", {"json": DEPLOYMENT}),
    ("POST", "/v1/decisions", "ManifestDecisions", {"json": MANIFEST}),
    ("POST", "/v1/decisions", "Problem", {"json": {"facts": {"model": {}}}}),
    ("POST", "/v1/decisions/batch", "BatchAnswer", {"json": {"items": [FACTS, {"facts": 1}, MANIFEST]}}),
    ("POST", "/v1/requests/check", "RequestCheckAnswer", {"json": {**FACTS, "request": {"n": 0}}}),
    ("POST", "/v1/requests/check", "EngineChecks", {"json": {**MANIFEST, "request": {}}}),
    ("POST", "/v1/dry-run", "DryRunAnswer", {"json": FACTS}),
    ("POST", "/v1/dry-run", "DryRunComparison", {"json": {"request": FACTS, "remove": ["kv-connector-fallback"]}}),
    ("POST", "/v1/impact", "ImpactAnswer", {"json": {"deployments": [FACTS, {"facts": 1}, MANIFEST]}}),
    ("POST", "/v1/impact", "ImpactAnswer", {"json": {"deployments": [MANIFEST, [{"kind": "X"}]], "to": "v1-removed"}}),
    ("GET", "/v1/policy", "LoadedPolicy", {}),
    ("GET", "/v1/rules", "RuleCatalogue", {}),
    ("GET", "/v1/rules/kv-connector-fallback", "RuleFile", {"params": {"vllm_version": "0.23.0"}}),
    ("GET", "/v1/schemas/cases", "FileSchema", {}),
    ("GET", "/v1/releases", "ReleaseList", {}),
    ("GET", "/v1/images", "ImageList", {}),
    ("GET", "/v1/facts", "Vocabulary", {}),
    ("GET", "/v1/arguments", "ArgumentList", {"params": {"name": "VLLM_ATTENTION_BACKEND"}}),
    ("GET", "/v1/log?limit=5", "LogPage", {}),
    ("GET", "/readyz?verbose", "Readiness", {}),
]


@pytest.mark.parametrize(("method", "path", "name", "request_"), ANSWERS)
def test_models_read_answers_and_write_them_unchanged(
    client: httpx.Client, models: Any, method: str, path: str, name: str, request_: dict[str, Any]
) -> None:
    response = client.request(method, path, **request_)
    model = getattr(models, name).model_validate_json(response.content)
    written = model.model_dump(mode="json", by_alias=True, exclude_unset=True)
    assert with_timestamps(written) == with_timestamps(response.json())


def with_timestamps(document: Any) -> Any:
    """The document with its timestamps parsed, because one can be written in several ways."""
    if isinstance(document, dict):
        return {name: with_timestamps(child) for name, child in document.items()}
    if isinstance(document, list):
        return [with_timestamps(child) for child in document]
    is_timestamp = isinstance(document, str) and re.match(r"\d{4}-\d\d-\d\dT", document)
    return datetime.fromisoformat(document) if is_timestamp else document


class Api:
    """The functions of the generated client, by their operation."""

    def __init__(self, client: Any, document: dict[str, Any]) -> None:
        self.client = client
        self.models = import_module(f"{PACKAGE}.models")
        self.types = import_module(f"{PACKAGE}.types")
        self.modules = {
            operation["operationId"]: import_module(
                f"{PACKAGE}.api.{operation['tags'][0].replace('-', '_')}.{_snake(operation['operationId'])}"
            )
            for item in document["paths"].values()
            for operation in item.values()
        }

    def call(self, operation: str, status: int = 200, **arguments: Any) -> Any:
        """The parsed answer."""
        answer = self.modules[operation].sync_detailed(client=self.client, **arguments)
        assert answer.status_code == status, answer.content
        return answer.parsed

    def model(self, name: str, document: Any) -> Any:
        """A model with the content of a document, checked to be complete."""
        found = getattr(self.models, name).from_dict(document)
        assert found.to_dict() == document
        return found


def _snake(name: str) -> str:
    return re.sub(r"(?=[A-Z])", "_", name).lower()


@pytest.mark.usefixtures("python_client")
def test_the_python_client_calls_every_operation(with_tokens: Server, document: dict[str, Any]) -> None:
    requests: list[httpx.Request] = []
    client = import_module(PACKAGE).AuthenticatedClient(
        with_tokens.url,
        token=TOKEN,
        raise_on_unexpected_status=True,
        httpx_args={"event_hooks": {"request": [requests.append]}, "trust_env": False},
        timeout=PATIENCE,
    )
    with client as entered:
        api = Api(entered, document)
        decide(api)
        decide_many(api)
        check_requests(api)
        compare_releases(api)
        try_rules(api)
        read_catalogue(api)
        read_log(api)
        admit(api)
        check_health(api)
    assert {operation_of(document, request) for request in requests} == {
        operation["operationId"] for item in document["paths"].values() for operation in item.values()
    }


def operation_of(document: dict[str, Any], request: httpx.Request) -> str:
    """The id of the operation that a request calls."""
    for path, item in document["paths"].items():
        if re.fullmatch(re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(path)), request.url.path):
            found: str = item[request.method.lower()]["operationId"]
            return found
    raise AssertionError(request.url)


def decide(api: Api) -> None:
    models = api.models
    revision = api.call("getPolicy").revision
    facts = api.model("FactsRequest", {**FACTS, "vllm_version": "0.23.0", "layers": ["house", "upstream"]})
    decision = api.call("decide", body=facts, if_match=f'"{revision}"')
    assert isinstance(decision.decision_id, UUID)
    assert (decision.runner, decision.outcome, decision.starts, decision.set_env.to_dict()) == (
        models.Runner.V1,
        models.Outcome.FALLBACK,
        True,
        {"VLLM_USE_V2_MODEL_RUNNER": "0"},
    )
    assert [(reason.layer, reason.effect) for reason in decision.reasons if reason.decisive] == [
        (models.Layer.HOUSE, models.Effect.FALLBACK_V1)
    ]
    explained = api.call("decide", body=api.model("DeploymentRequest", DEPLOYMENT))
    assert explained.facts["model_config.architectures"].value == ["Qwen3ForCausalLM"]
    assert {assumption.why for assumption in explained.assumptions} == {models.AssumptionReason.NOT_STATED}
    engines = api.call("decide", body=api.model("ManifestRequest", MANIFEST))
    assert [item.decision.runner for item in engines.items] == [models.Runner.V2] * 2
    built = models.FactsRequest(
        facts=models.Facts(
            model_config=models.FactsModelConfig(architectures=["OPTForCausalLM"], is_moe=True),
            env=models.FactsEnv(vllm_use_v2_model_runner="yes"),
        )
    )
    nothing = api.call("decide", body=built)
    assert (nothing.runner, nothing.outcome, nothing.starts) == (None, None, False)
    stale = api.call("decide", 412, body=facts, if_match='"sha256:0"')
    assert (stale.type_, stale.status) == (models.ProblemType.REVISION_MISMATCH, 412)


def decide_many(api: Api) -> None:
    models = api.models
    items: list[dict[str, Any]] = [FACTS, DEPLOYMENT, MANIFEST, {"facts": {"model_config": {}}}]
    batch = api.model("BatchRequest", {"items": items})
    kinds = [type(answer) for answer in api.call("decideBatch", body=batch).items]
    assert kinds == [models.Decision, models.Decision, models.ManifestDecisions, models.Decision]
    lines = f'{json.dumps(FACTS)}\n{{"facts": {{"model": {{}}}}}}\n'
    answer = api.client.get_httpx_client().post(
        "/v1/decisions/batch", content=lines.encode(), headers={"content-type": NDJSON}
    )
    first, second = answer.text.splitlines()
    assert models.Decision.from_dict(json.loads(first)).runner == models.Runner.V1
    assert models.Problem.from_dict(json.loads(second)).type_ == models.ProblemType.INVALID_REQUEST


def check_requests(api: Api) -> None:
    models = api.models
    body = api.model("FactsCheckRequest", {**FACTS, "request": {"n": 0}})
    found = api.call("checkRequest", body=body)
    assert (found.verdict, [each.rule for each in found.findings]) == (models.Verdict.REFUSED, ["n-too-small"])
    batch = api.model("RequestCheckBatch", {"items": [body.to_dict(), {**MANIFEST, "request": {}}]})
    kinds = [type(answer) for answer in api.call("checkRequests", body=batch).items]
    assert kinds == [models.RequestCheck, models.EngineChecks]


def compare_releases(api: Api) -> None:
    models = api.models
    members = {"releases": ["0.21.0", "0.33.0"]}
    body = api.model("ImpactRequest", {"deployments": [FACTS, MANIFEST, {**FACTS, "vllm_version": "0.1.0"}], **members})
    found = api.call("compareReleases", body=body)
    kinds = [type(item) for item in found.items]
    assert kinds == [*[models.ComparedDeployment] * 3, models.UndecidedDeployment]
    change = found.items[1].changes[0]
    assert (change.kind, change.runner) == (models.ChangeKind.RUNNER_V1_TO_V2, [models.Runner.V1, models.Runner.V2])
    assert isinstance(found.items[1].releases["0.33.0"], models.ReleaseAnswer)
    assert (found.counts.deployments, found.counts.kinds["runner-v1-to-v2"], found.counts.undecided) == (4, 3, 1)


def try_rules(api: Api) -> None:
    models = api.models
    explained = api.call("dryRun", body=api.model("FactsRequest", FACTS))
    assert {rule.fired for rule in explained.trace} == {True, False}
    candidate = {"request": FACTS, "remove": ["kv-connector-fallback"]}
    compared = api.call("dryRun", body=api.model("CandidateRequest", candidate))
    changed = (compared.current.runner, compared.candidate.runner)
    assert changed == (models.Runner.V1, models.Runner.V2)
    assert compared.changes[0].member == models.ComparedField.RUNNER
    form = models.DryRunForm(deployment=json.dumps(FACTS), remove=["kv-connector-fallback"])
    assert [change.member for change in api.call("dryRun", body=form).changes] == [
        change.member for change in compared.changes
    ]


def read_catalogue(api: Api) -> None:
    models = api.models
    rules = api.call("listRules", vllm_version="0.23.0")
    (house,) = (rule for rule in rules.rules if rule.layer == models.Layer.HOUSE)
    rule = api.call("getRule", rule_id=house.id)
    assert (rule.effect, rule.releases[0].vllm) == (models.Effect.FALLBACK_V1, ">=0.22,<0.25")
    assert api.call("getRule", 404, rule_id="no-such-rule").type_ == models.ProblemType.NOT_FOUND
    policy = api.call("getPolicy")
    assert (policy.revision, policy.counts.releases) == (rules.revision, len(api.call("listReleases").releases))
    assert policy.counts.images == len(api.call("listImages").images)
    assert api.call("listArguments", name="--max-model-len").items[0].name == "--max-model-len"
    types = {fact.name: fact.type_ for fact in api.call("listFacts").facts}
    assert api.call("getSchema", name=models.SchemaName.CASES)["required"] == ["rule", "cases"]
    assert types["env.VLLM_USE_V2_MODEL_RUNNER"] == models.FactType.TRI_STATE


def read_log(api: Api) -> None:
    models = api.models
    page = api.call("queryLog", runner=models.RunnerFilter.V1, rule="kv-connector-fallback", limit=2, since="1h")
    newest = page.items[0]
    assert (len(page.items), newest.result.runner, newest.requested_by) == (2, models.Runner.V1, "tester")
    assert newest.path in set(models.LoggedPath)
    assert api.call("getDecision", decision_id=newest.decision_id) == newest
    nothing = api.call("queryLog", runner=models.RunnerFilter.NULL, outcome=models.OutcomeFilter.NULL)
    assert {item.result.runner for item in nothing.items} == {None}


def admit(api: Api) -> None:
    review = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "request": {
            "uid": "1",
            "kind": {"group": "", "version": "v1", "kind": "Pod"},
            "operation": "CREATE",
            "userInfo": {"username": "jane", "groups": ["system:authenticated"]},
            "object": {"apiVersion": "v1", "kind": "Pod", "metadata": {}, "spec": {"containers": []}},
            "oldObject": None,
        },
    }
    for operation in ("reviewAdmission", "mutateAdmission"):
        answer = api.call(operation, body=api.model("AdmissionReviewRequest", review))
        assert (answer.response.uid, answer.response.allowed) == ("1", True)


def check_health(api: Api) -> None:
    assert api.call("getLanding").startswith("Runner Policy")
    assert api.call("getLiveness") == "ok\n"
    ready = api.call("getReadiness", verbose="")
    assert (ready.status, ready.log.store_up) == ("ready", True)
    assert "runner_policy_info" in api.call("getMetrics")
