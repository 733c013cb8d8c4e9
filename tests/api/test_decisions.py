"""`POST /v1/decisions`: the request, the answer, and its fields."""

from __future__ import annotations

import json
from textwrap import wrap
from typing import TYPE_CHECKING, Any
from uuid import UUID

import pytest
from tables import table

from .conftest import without_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

    from .conftest import Done, Server

QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"], "is_moe": False}}
NIXL = {"kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
YAML = "facts:\n  model_config:\n    architectures: [Qwen3ForCausalLM]\n    is_moe: false\n"
ALLOWLIST = {
    "rule": "v2-by-default",
    "layer": "upstream",
    "effect": "default-v2",
    "decisive": True,
    "feature": None,
    "message": "nothing keeps this deployment from V2, the default",
    "remedy": "set `VLLM_USE_V2_MODEL_RUNNER` to 0 for V1",
    "facts": {},
    "references": [
        "https://github.com/vllm-project/vllm/pull/39337",
        "https://github.com/vllm-project/vllm/pull/53183",
    ],
}


@pytest.fixture
def revision(client: httpx.Client) -> str:
    return str(client.get("/v1/policy").json()["revision"])


GRAPH_MEMORY = {
    "rule": "v2-graph-memory",
    "runner": "v2",
    "symptom": "out-of-memory",
    "certainty": "code",
    "message": "V2 reserves no memory for CUDA graphs, so the device can run out of memory at capture or under load",
    "remedy": "lower `--gpu-memory-utilization` to 0.9 or less, or set `--enforce-eager`",
    "fixed_in": "0.29.0",
    "references": [
        "https://github.com/vllm-project/vllm/issues/49224",
        "https://github.com/vllm-project/vllm/issues/50159",
        "https://github.com/vllm-project/vllm/pull/49233",
    ],
}


def test_a_dense_qwen_gets_v2_by_default(decide: Callable[..., Any], revision: str) -> None:
    assert without_id(decide({"facts": QWEN})) == {
        "request_id": None,
        "runner": "v2",
        "outcome": "default",
        "starts": True,
        "startup_errors": [],
        "launch_errors": [],
        "summary": "V2: nothing keeps this deployment from V2, the default",
        "unsupported_features": [],
        "v1_unsupported_features": [],
        "reasons": [ALLOWLIST],
        "known_problems": [GRAPH_MEMORY],
        "upstream": {"runner": "v2", "outcome": "default", "starts": True, "startup_errors": []},
        "set_env": {},
        "warnings": [],
        "vllm_version": "0.23.0",
        "release": {"decided_as": "0.23.0", "verified": True, "defaulted": True},
        "policy": {"revision": revision},
    }


def test_a_kv_connector_gets_v1_with_the_variable_to_set_and_vllm_s_own_decision(
    decide: Callable[..., Any], revision: str
) -> None:
    answer = without_id(decide({"vllm_version": "0.23.0", "facts": {**QWEN, **NIXL, "env": {}}}))
    # This warning depends on the date.
    answer["warnings"] = [warning for warning in answer["warnings"] if "to be reviewed" not in warning]
    assert answer == {
        "request_id": None,
        "runner": "v1",
        "outcome": "fallback",
        "starts": True,
        "startup_errors": [],
        "launch_errors": [],
        "summary": "V1: a KV connector (NixlConnector) keeps this deployment on V1",
        "unsupported_features": [],
        "v1_unsupported_features": [],
        "reasons": [
            {
                "rule": "kv-connector-fallback",
                "layer": "house",
                "effect": "fallback-v1",
                "decisive": True,
                "feature": None,
                "message": "a KV connector (NixlConnector) keeps this deployment on V1",
                "remedy": "drop `--kv-transfer-config` and `--kv-offloading-size`, "
                "or set `VLLM_USE_V2_MODEL_RUNNER` to 1, for V2",
                "facts": {"kv_transfer_config.kv_connector": "NixlConnector"},
                "references": [
                    "https://github.com/vllm-project/vllm/pull/42955",
                    "https://github.com/vllm-project/vllm/issues/42846",
                ],
                "owner": "inference-platform",
                "review_by": "2027-06-30",
            }
        ],
        "known_problems": [],
        "upstream": {"runner": "v2", "outcome": "default", "starts": True, "startup_errors": []},
        "set_env": {"VLLM_USE_V2_MODEL_RUNNER": "0"},
        "warnings": [],
        "vllm_version": "0.23.0",
        "release": {"decided_as": "0.23.0", "verified": True, "defaulted": False},
        "policy": {"revision": revision},
    }


@pytest.mark.parametrize(
    "content_type",
    [
        None,
        "application/json",
        "application/json; charset=utf-8",
        "application/x-www-form-urlencoded",
        "text/plain",
        "application/octet-stream",
        "multipart/form-data",
        "application/xml",
        "nonsense",
        "",
    ],
)
def test_a_body_is_json_whatever_its_content_type(client: httpx.Client, content_type: str | None) -> None:
    headers = {} if content_type is None else {"content-type": content_type}
    response = client.post("/v1/decisions", content=json.dumps({"facts": QWEN}), headers=headers)
    assert (response.status_code, response.headers["content-type"], response.json()["runner"]) == (
        200,
        "application/json",
        "v2",
    )


@pytest.mark.parametrize(
    "content_type",
    ["application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml", "Application/YAML; charset=utf-8"],
)
def test_a_yaml_body_is_decided_like_the_same_json(
    client: httpx.Client, decide: Callable[..., Any], content_type: str
) -> None:
    response = client.post("/v1/decisions", content=YAML, headers={"content-type": content_type})
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json")
    assert without_id(response.json()) == without_id(decide({"facts": QWEN}))


def test_curl_with_a_json_file_needs_no_further_options(
    server: Server, run: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "deployment.json"
    file.write_text(json.dumps({"facts": {**QWEN, **NIXL}}, indent=2))
    done = run("-sS", f"{server.url}/v1/decisions", "-d", f"@{file}", program="curl")
    assert (done.code, done.err, json.loads(done.out)["runner"]) == (0, "", "v1")


def test_curl_with_a_yaml_file_and_plain_text_shows_a_short_table(
    server: Server, run: Callable[..., Done], tmp_path: Path
) -> None:
    file = tmp_path / "deployment.yaml"
    file.write_text(YAML)
    headers = ("-H", "content-type: application/yaml", "-H", "accept: text/plain")
    done = run("-sS", f"{server.url}/v1/decisions", *headers, "--data-binary", f"@{file}", program="curl")
    assert (done.code, done.out.splitlines()) == (
        0,
        [
            "V2  default  starts  vLLM 0.23.0 (the default release)",
            "V2: nothing keeps this deployment from V2, the default",
            "",
            "    rule            layer      effect       reason                                               facts",
            "──────────────────────────────────────────────────────────────────────────────────────────────────────",
            "*   v2-by-default   upstream   default-v2   nothing keeps this deployment from V2, the default",
            "* decided",
            *wrap(
                f"known problem (v2-graph-memory; out-of-memory, code, fixed in 0.29.0): {GRAPH_MEMORY['message']}", 120
            ),
            f"remedy (v2-graph-memory): {GRAPH_MEMORY['remedy']}",
            "vLLM alone: V2, default, starts",
        ],
    )


@table(
    ("accept", "content_type"),
    [
        ("text/plain", "text/plain; charset=utf-8"),
        ("TEXT/PLAIN", "text/plain; charset=utf-8"),
        ("text/plain; charset=utf-8", "text/plain; charset=utf-8"),
        ("text/plain;q=0.1", "text/plain; charset=utf-8"),
        ("text/plain, */*;q=0.5", "text/plain; charset=utf-8"),
        ("application/json;q=0.4, text/plain;q=0.5", "text/plain; charset=utf-8"),
        ("application/json;q=0, text/plain", "text/plain; charset=utf-8"),
        ("text/plain;q=0.5, application/json", "application/json"),
        ("text/plain;q=0.5, application/json;q=0.6", "application/json"),
        ("text/plain;q=0", "application/json"),
        ("text/plain;q=words", "application/json"),
        ("text/plain;q=nan", "application/json"),
        ("application/json, text/plain, */*", "application/json"),
        ("application/json", "application/json"),
        ("application/problem+json", "application/json"),
        ("text/html", "application/json"),
        ("*/*", "application/json"),
        (",;,", "application/json"),
        ("", "application/json"),
    ],
)
def test_plain_text_is_returned_if_it_is_preferred_to_json(
    client: httpx.Client, accept: str, content_type: str
) -> None:
    response = client.post("/v1/decisions", json={"facts": QWEN}, headers={"accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, content_type)


@table(
    ("accept", "content_type"),
    [
        (("application/json;q=0.4", "text/plain;q=0.5"), "text/plain; charset=utf-8"),
        (("text/plain;q=0.5", "application/json;q=0.4"), "text/plain; charset=utf-8"),
        (("text/plain", "*/*;q=0.5"), "text/plain; charset=utf-8"),
        (("*/*;q=0.5", "text/plain"), "text/plain; charset=utf-8"),
        (("text/plain;q=0.4", "application/json;q=0.5"), "application/json"),
        (("application/json;q=0.5", "text/plain;q=0.4"), "application/json"),
        (("", "text/plain", ""), "text/plain; charset=utf-8"),
    ],
)
@table(
    ("path", "body"),
    [
        ("/v1/decisions", {"facts": QWEN}),
        ("/v1/dry-run", {"facts": QWEN}),
        ("/v1/dry-run", {"request": {"facts": QWEN}, "remove": ["kv-connector-fallback"]}),
    ],
)
def test_several_accept_headers_are_one_list(
    client: httpx.Client, path: str, body: dict[str, Any], accept: tuple[str, ...], content_type: str
) -> None:
    response = client.post(path, json=body, headers=[("accept", value) for value in accept])
    assert (response.status_code, response.headers["content-type"], response.headers["vary"]) == (
        200,
        content_type,
        "accept",
    )


@pytest.mark.parametrize("request_id", [None, "", "pod-7", "ünïcödé 🦊", "x" * 256, '\x00\n"\\'])
def test_the_request_id_is_returned_unchanged(decide: Callable[..., Any], request_id: str | None) -> None:
    assert decide({"facts": QWEN, "request_id": request_id})["request_id"] == request_id


@table(
    ("asked", "decided_as", "verified"),
    [
        ("0.23.0", "0.23.0", True),
        ("v0.23.0", "0.23.0", True),
        ("0.23", "0.23.0", True),
        ("0.23.0+cu129", "0.23.0", True),
        ("v0.24.1", "0.24.0", False),
        ("0.24.1", "0.24.0", False),
        ("0.24.0rc1", "0.24.0", False),
        ("0.24.0.dev12+g0123abc", "0.24.0", False),
        ("0.24.0.post1", "0.24.0", False),
        ("0.20.1", "0.20.1", True),
        ("0.20.2", "0.20.2", True),
        ("0.20.9", "0.20.2", False),
        ("0.25.1", "0.25.1", True),
        ("0.33.7", "0.33.0", False),
    ],
)
def test_a_version_is_decided_as_the_newest_known_patch_up_to_it(
    decide: Callable[..., Any], asked: str, decided_as: str, *, verified: bool
) -> None:
    answer = decide({"facts": QWEN, "vllm_version": asked})
    assert (answer["vllm_version"], answer["release"]) == (
        asked,
        {"decided_as": decided_as, "verified": verified, "defaulted": False},
    )


@pytest.mark.parametrize(
    ("asked", "decided_as"),
    [("0.2.7", "0.3.0"), ("0.1", "0.3.0"), ("0.34.0", "0.33.0"), ("1.0.0rc1", "0.33.0"), ("0.23.0", "0.23.0")],
)
def test_an_unknown_release_is_decided_as_the_nearest_one_on_request(
    decide: Callable[..., Any], asked: str, decided_as: str
) -> None:
    answer = decide({"facts": QWEN, "vllm_version": asked, "beyond_verified": "nearest"})
    assert answer["release"] == {"decided_as": decided_as, "verified": asked == decided_as, "defaulted": False}


def test_an_unverified_release_gets_a_warning(decide: Callable[..., Any]) -> None:
    assert decide({"facts": QWEN, "vllm_version": "0.24.0rc1"})["warnings"] == [
        "vLLM 0.24.0rc1 was not checked against these rules; decided as 0.24.0",
    ]


@pytest.mark.parametrize("version", [{}, {"vllm_version": None}])
def test_without_a_version_the_default_release_decides_and_the_answer_says_so(
    decide: Callable[..., Any], version: dict[str, None]
) -> None:
    answer = decide({"facts": QWEN, **version})
    assert (answer["vllm_version"], answer["release"]) == (
        "0.23.0",
        {"decided_as": "0.23.0", "verified": True, "defaulted": True},
    )


@pytest.mark.parametrize(
    ("layers", "runner", "rules"),
    [
        (["upstream"], "v2", ["v2-by-default"]),
        (["upstream", "house"], "v1", ["kv-connector-fallback"]),
        (["house", "upstream"], "v1", ["kv-connector-fallback"]),
        (None, "v1", ["kv-connector-fallback"]),
    ],
)
def test_only_the_requested_layers_decide(
    decide: Callable[..., Any], layers: list[str] | None, runner: str, rules: list[str]
) -> None:
    answer = decide({"facts": {**QWEN, **NIXL}, "layers": layers})
    assert (answer["runner"], [reason["rule"] for reason in answer["reasons"]]) == (runner, rules)


def test_explain_adds_only_what_is_documented(
    decide: Callable[..., Any],
) -> None:
    plain, explained = (
        without_id(decide({"facts": {**QWEN, **NIXL}, "explain": explain})) for explain in (False, True)
    )
    trace, assumptions = explained.pop("trace"), explained.pop("assumptions")
    other, remedies = explained.pop("alternative"), explained.pop("remedies")
    path = explained.pop("v2_path")
    assert path.pop("removal")["announced_for"] == "0.32.0"
    assert path == {"release": "0.33.0", "by": "upgrade", "upgrade_to": "0.25.0", "change": []}
    assert explained.pop("v2_from") == "0.25.0"
    assert [reason.pop("lifted_in") for reason in explained["reasons"]] == ["0.25.0"]
    assert explained == plain
    assert (other["runner"], other["starts"]) == ("v2", True)
    assert [remedy["for"] for remedy in remedies] == ["v2", "v2"]
    assert [item for item in trace if item["fired"]] == [
        {"rule": "kv-connector-fallback", "layer": "house", "effect": "fallback-v1", "fired": True, "failed": []}
    ]
    assert {item["why"] for item in assumptions} == {"not stated"}


def test_a_trace_names_the_first_condition_that_failed_with_its_actual_value(decide: Callable[..., Any]) -> None:
    trace = decide({"facts": QWEN, "explain": True})["trace"]
    assert next(item for item in trace if item["rule"] == "kv-connector-fallback") == {
        "rule": "kv-connector-fallback",
        "layer": "house",
        "effect": "fallback-v1",
        "fired": False,
        "failed": [{"fact": "kv_transfer_config", "expected": "present", "actual": "absent"}],
    }


def test_a_trace_has_each_rule_of_the_release_once(client: httpx.Client, decide: Callable[..., Any]) -> None:
    rules = client.get("/v1/rules", params={"vllm_version": "0.24.0"}).json()["rules"]
    trace = decide({"facts": QWEN, "vllm_version": "0.24.0", "explain": True})["trace"]
    assert [item["rule"] for item in trace] == [rule["id"] for rule in rules]


def test_an_assumption_says_which_other_values_change_the_answer(decide: Callable[..., Any]) -> None:
    assumptions = {item["fact"]: item for item in decide({"facts": QWEN, "explain": True})["assumptions"]}
    assert assumptions["kv_transfer_config"] == {
        "fact": "kv_transfer_config",
        "assumed": False,
        "why": "not stated",
        "would_change": {"present": {"runner": "v1", "starts": True}},
    }
    assert "model_config.is_moe" not in assumptions


@pytest.mark.parametrize(
    ("variable", "runner", "outcome", "starts"),
    [
        ("0", "v1", "override", True),
        (False, "v1", "override", True),
        (" 1 ", "v2", "override", True),
        (True, "v2", "override", True),
        ("7", "v2", "override", True),
        (None, "v1", "fallback", True),
        ("yes", None, None, False),
        ("", None, None, False),
        ("true", None, None, False),
    ],
)
def test_the_operator_s_variable_is_read_as_vllm_reads_it(
    decide: Callable[..., Any], *, variable: str | bool | None, runner: str | None, outcome: str | None, starts: bool
) -> None:
    answer = decide({"facts": {**QWEN, **NIXL, "env": {"VLLM_USE_V2_MODEL_RUNNER": variable}}})
    assert (answer["runner"], answer["outcome"], answer["starts"]) == (runner, outcome, starts)


def test_a_malformed_variable_gives_no_runner_and_vllm_s_own_message(decide: Callable[..., Any]) -> None:
    answer = decide({"facts": {**QWEN, "env": {"VLLM_USE_V2_MODEL_RUNNER": "yes"}}})
    assert {
        name: answer[name]
        for name in ("runner", "outcome", "starts", "startup_errors", "unsupported_features", "set_env")
    } == {
        "runner": None,
        "outcome": None,
        "starts": False,
        "startup_errors": ["invalid literal for int() with base 10: 'yes'"],
        "unsupported_features": [],
        "set_env": {},
    }


def test_an_object_that_is_a_fact_may_have_other_fields(decide: Callable[..., Any]) -> None:
    members = {"hidden_size": 4096, "nested": {"is_moe": [{"x": None}]}}
    answer = decide({"facts": {"model_config": {**QWEN["model_config"], **members}}})
    assert (answer["runner"], answer["warnings"]) == ("v2", [])


def test_a_misspelt_fact_is_a_problem(client: httpx.Client) -> None:
    answer = client.post("/v1/decisions", json={"facts": {"model_config": {**QWEN["model_config"], "is_mo": True}}})
    assert (answer.status_code, answer.json()["errors"]) == (
        422,
        [{"pointer": "/facts/model_config/is_mo", "message": "unknown field `is_mo`; did you mean `is_moe`?"}],
    )


def test_a_fact_that_the_release_does_not_read_has_no_effect(decide: Callable[..., Any]) -> None:
    release = "0.22.0"
    with_it = decide({"facts": {**QWEN, "aux_output_config": {"enabled": True}}, "vllm_version": release})
    assert without_id(with_it) == without_id(decide({"facts": QWEN, "vllm_version": release}))


def test_a_repeated_document_gets_the_same_answer_with_a_new_id(decide: Callable[..., Any]) -> None:
    answers = [decide({"facts": QWEN, "request_id": "repeated"}) for _ in range(5)]
    assert [without_id(answer) for answer in answers] == [without_id(answers[0])] * 5
    assert len({answer["decision_id"] for answer in answers}) == 5


@pytest.mark.parametrize("explain", [False, True])
def test_decision_ids_are_increasing_uuids_of_version_7(decide: Callable[..., Any], *, explain: bool) -> None:
    ids = [decide({"facts": QWEN, "explain": explain})["decision_id"] for _ in range(3)]
    assert [UUID(found).version for found in ids] == [7, 7, 7]
    assert ids == sorted(ids)


def test_whitespace_in_a_document_does_not_change_the_shape_of_its_answer(client: httpx.Client) -> None:
    bodies = [
        json.dumps({"facts": QWEN}),
        json.dumps({"facts": QWEN}, indent=4),
        json.dumps({"facts": QWEN}) + "\n" * 3,
    ]
    assert len({json.dumps(without_id(client.post("/v1/decisions", content=body).json())) for body in bodies}) == 1


def test_an_answer_too_large_for_the_cache_is_correct_the_second_time(decide: Callable[..., Any]) -> None:
    request = {"facts": {"model_config": {"architectures": [f"Architecture{number}" for number in range(2000)]}}}
    first, second = (without_id(decide(request)) for _ in range(2))
    assert first == second
