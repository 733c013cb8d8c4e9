"""`POST /v1/dry-run`: an explained decision, and what candidate rules would change."""

from __future__ import annotations

import json
import re
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from representatives import slow_except

from .conftest import without_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    import httpx

    from .conftest import Done, Server

QWEN: dict[str, Any] = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}}
NIXL: dict[str, Any] = {**QWEN, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
IDLE: dict[str, Any] = {**QWEN, "kv_transfer_config": {}}
HEAD = """\
id: {id}
title: A rule that is tried
effect: {effect}
owner: inference-platform
review_by: 2099-12-31
blocked_by: https://github.com/vllm-project/vllm/issues/42846
why: To see what it would change.
references: [https://github.com/vllm-project/vllm/issues/42846]
releases:
  - vllm: ">=0.22,<0.25"
    message: {message}
    when:
"""

LEGAL = "`request`, `rules`, `remove`, `changes`, `cases`"


def rule(name: str, *when: str, effect: str = "fallback-v1", message: str = "tried") -> str:
    return HEAD.format(id=name, effect=effect, message=message) + "".join(f"      {line}\n" for line in when)


NARROWED = rule(
    "kv-connector-fallback",
    "kv_transfer_config.kv_connector: present",
    message="a KV connector ({kv_transfer_config.kv_connector}) keeps this deployment on V1",
)
MANY = ", ".join(f"Connector{number}" for number in range(16_000))
HOSTILE = [
    rule(f"hostile-{number}", f"kv_transfer_config.kv_connector: {{not_in: [{MANY}, Other{number}]}}")
    for number in range(12)
]
"""Rules that take three seconds of processor time, in a body of 3 MB."""


def dry_run(client: httpx.Client, document: Any) -> Any:
    response = client.post("/v1/dry-run", json=document)
    assert (response.status_code, response.headers["content-type"]) == (200, "application/json"), response.text
    return response.json()


def changes(answer: Any) -> list[dict[str, Any]]:
    """The changes without warnings, because warnings of rules past their review depend on the date."""
    return [change for change in answer["changes"] if change["member"] != "warnings"]


def problem(response: httpx.Response) -> tuple[int, str, list[dict[str, Any]]]:
    document = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    return response.status_code, document["type"].rpartition(":")[2], document["errors"]


@pytest.mark.parametrize("explain", [{}, {"explain": False}, {"explain": True}])
def test_a_dry_run_is_the_decision_with_explain_on(client: httpx.Client, explain: dict[str, bool]) -> None:
    request = {"facts": NIXL, "request_id": "seven"}
    decision = client.post("/v1/decisions", json={**request, "explain": True}).json()
    assert without_id(dry_run(client, {**request, **explain})) == without_id(decision)


def test_candidate_rules_are_compared_with_the_loaded_ones(client: httpx.Client) -> None:
    answer = dry_run(client, {"request": {"facts": IDLE, "vllm_version": "0.23.0"}, "rules": [NARROWED]})
    assert (list(answer), changes(answer)) == (
        ["current", "candidate", "changes"],
        [
            {"member": "runner", "from": "v1", "to": "v2", "rules": ["kv-connector-fallback"]},
            {"member": "outcome", "from": "fallback", "to": "default", "rules": ["kv-connector-fallback"]},
            {
                "member": "set_env",
                "from": {"VLLM_USE_V2_MODEL_RUNNER": "0"},
                "to": {},
                "rules": ["kv-connector-fallback"],
            },
        ],
    )
    assert [(answer[side]["runner"], bool(answer[side]["trace"])) for side in ("current", "candidate")] == [
        ("v1", True),
        ("v2", True),
    ]


def test_the_current_decision_is_that_of_a_plain_dry_run(client: httpx.Client) -> None:
    current = dry_run(client, {"request": {"facts": IDLE}, "rules": [NARROWED]})["current"]
    assert without_id(current) == without_id(dry_run(client, {"facts": IDLE}))


def test_a_candidate_that_decides_the_same_changes_nothing(client: httpx.Client) -> None:
    assert changes(dry_run(client, {"request": {"facts": NIXL}, "rules": [NARROWED]})) == []


def test_a_candidate_with_another_text_is_a_change_of_that_text(client: httpx.Client) -> None:
    known, other = (
        rule("kv-connector-fallback", "kv_transfer_config: present", **each)
        for each in ({"message": "KV"}, {"message": "K and V"})
    )
    found = [dry_run(client, {"request": {"facts": NIXL}, "rules": [text]}) for text in (known, other)]
    before = found[0]["current"]["reasons"][0]["message"]
    assert [change for answer in found for change in changes(answer) if change["member"] == "message"] == [
        {"member": "message", "from": before, "to": text, "rules": ["kv-connector-fallback"]}
        for text in ("KV", "K and V")
    ]
    shown = client.post(
        "/v1/dry-run", json={"request": {"facts": NIXL}, "rules": [known]}, headers={"accept": "text/plain"}
    ).text
    assert (shown.startswith("field"), "change nothing" in shown) == (True, False)


def test_both_decisions_have_their_own_id_and_revision(client: httpx.Client) -> None:
    answer = dry_run(client, {"request": {"facts": NIXL}, "rules": [NARROWED]})
    assert answer["current"]["decision_id"] != answer["candidate"]["decision_id"]
    assert answer["current"]["policy"] != answer["candidate"]["policy"]


def test_a_rule_can_be_removed(client: httpx.Client) -> None:
    answer = dry_run(client, {"request": {"facts": NIXL}, "remove": ["kv-connector-fallback"]})
    assert [change["member"] for change in changes(answer)] == ["runner", "outcome", "set_env"]
    assert "kv-connector-fallback" not in {item["rule"] for item in answer["candidate"]["trace"]}


def test_a_rule_can_be_removed_and_added_under_another_name(client: httpx.Client) -> None:
    again = rule("kv-fallback", "kv_transfer_config: present", message="as before")
    answer = dry_run(client, {"request": {"facts": NIXL}, "rules": [again], "remove": ["kv-connector-fallback"]})
    assert (
        answer["candidate"]["runner"],
        [reason["rule"] for reason in answer["candidate"]["reasons"]],
        changes(answer),
    ) == ("v1", ["kv-fallback"], [])


def test_several_rules_are_tried_together_and_each_change_names_its_rules(client: httpx.Client) -> None:
    rules = [
        rule("first-tried", "model_config: present"),
        rule("second-tried", "model_config: present"),
        rule("third-tried", "lora_config: present"),
    ]
    answer = dry_run(client, {"request": {"facts": QWEN}, "rules": rules})
    assert [(change["member"], change["to"], change["rules"]) for change in changes(answer)] == [
        ("runner", "v1", ["first-tried", "second-tried"]),
        ("outcome", "fallback", ["first-tried", "second-tried"]),
        ("set_env", {"VLLM_USE_V2_MODEL_RUNNER": "0"}, ["first-tried", "second-tried"]),
    ]


@pytest.mark.parametrize(
    ("effect", "words", "layer"), [("fallback-v1", "message", "house"), ("exclude-v2", "feature", "upstream")]
)
def test_a_new_rule_goes_to_the_layer_that_has_its_effect(
    client: httpx.Client, effect: str, words: str, layer: str
) -> None:
    text = rule("newcomer", "model_config: present", effect=effect).replace("    message:", f"    {words}:")
    if layer == "upstream":
        text = (
            "".join(
                f"{line}\n"
                for line in text.splitlines()
                if line.partition(":")[0] not in {"owner", "review_by", "blocked_by"}
            )
            + "order: 9000\n"
        )
    answer = dry_run(client, {"request": {"facts": QWEN}, "rules": [text]})
    assert [
        (reason["rule"], reason["layer"], reason["effect"])
        for reason in answer["candidate"]["reasons"]
        if reason["rule"] == "newcomer"
    ] == [("newcomer", layer, effect)]


def test_house_rules_do_not_change_a_request_for_the_upstream_layer(client: httpx.Client) -> None:
    request = {"facts": QWEN, "layers": ["upstream"]}
    assert dry_run(client, {"request": request, "rules": [rule("newcomer", "model_config: present")]})["changes"] == []


def test_candidates_never_touch_the_loaded_rules(client: httpx.Client) -> None:
    before = client.get("/v1/rules").content
    dry_run(
        client,
        {
            "request": {"facts": NIXL},
            "rules": [rule("newcomer", "model_config: present")],
            "remove": ["kv-connector-fallback"],
        },
    )
    assert client.get("/v1/rules").content == before
    assert client.post("/v1/decisions", json={"facts": NIXL}).json()["runner"] == "v1"


@pytest.mark.parametrize("empty", [{}, {"rules": []}, {"remove": []}, {"rules": [], "remove": []}])
def test_without_a_candidate_the_wrapped_request_is_a_plain_dry_run(
    client: httpx.Client, empty: dict[str, Any]
) -> None:
    assert without_id(dry_run(client, {"request": {"facts": NIXL}, **empty})) == without_id(
        dry_run(client, {"facts": NIXL})
    )


def test_a_candidate_may_be_yaml(client: httpx.Client) -> None:
    body = (
        "request:\n  facts: {kv_transfer_config: {}, model_config: {architectures: [Qwen3ForCausalLM]}}\n"
        "remove: [kv-connector-fallback]\n"
    )
    answer = client.post("/v1/dry-run", content=body, headers={"content-type": "application/yaml"}).json()
    assert (answer["current"]["runner"], answer["candidate"]["runner"]) == ("v1", "v2")


# plain text


def test_plain_text_shows_the_trace_and_the_assumptions(client: httpx.Client) -> None:
    response = client.post(
        "/v1/dry-run", json={"facts": QWEN, "vllm_version": "0.23.0"}, headers={"accept": "text/plain"}
    )
    found = response.text.splitlines()
    assert (response.status_code, response.headers["content-type"], found[0]) == (
        200,
        "text/plain; charset=utf-8",
        "V2  default  starts  vLLM 0.23.0 (verified)",
    )
    assert [line.split()[:3] for line in found if line.startswith(("kv-connector-fallback", "v2-by-default"))] == [
        ["v2-by-default", "default-v2", "yes"],
        ["kv-connector-fallback", "fallback-v1", "no"],
    ]
    assert "kv_transfer_config is present (it is absent)" in response.text
    assert "facts were not stated" in response.text


def test_plain_text_shows_what_a_candidate_changes_before_its_decision(client: httpx.Client) -> None:
    document = {"request": {"facts": IDLE}, "rules": [NARROWED]}
    found = client.post("/v1/dry-run", json=document, headers={"accept": "text/plain"}).text.splitlines()
    assert set(found.pop(1)) == {"─"}
    assert [line for line in found if not line.startswith("warnings")][:6] == [
        "field     from                                to        rules",
        "runner    v1                                  v2        kv-connector-fallback",
        "outcome   fallback                            default   kv-connector-fallback",
        'set_env   {"VLLM_USE_V2_MODEL_RUNNER": "0"}   {}        kv-connector-fallback',
        "",
        "V2  default  starts  vLLM 0.23.0 (the default release)",
    ]


def test_plain_text_shows_what_changes_for_vllm_alone(client: httpx.Client) -> None:
    document = {
        "request": {"facts": {"model_config": {"architectures": ["Qwen3ForCausalLM"], "is_moe": True}}},
        "remove": ["moe"],
    }
    found = client.post("/v1/dry-run", json=document, headers={"accept": "text/plain"}).text.splitlines()
    assert [" ".join(line.split()) for line in found[2:6]] == [
        "runner v1 v2 moe",
        "outcome not-default default moe",
        'upstream {"runner": "v1", "outcome": "not-default", {"runner": "v2", "outcome": "default", "starts": moe',
        '"starts": true, "startup_errors": []} true, "startup_errors": []}',
    ]


def test_plain_text_says_that_a_candidate_changes_nothing(client: httpx.Client) -> None:
    document = {"request": {"facts": QWEN}, "rules": [NARROWED]}
    found = client.post("/v1/dry-run", json=document, headers={"accept": "text/plain"}).text.splitlines()
    assert found[0] == "the candidate rules change nothing for this deployment"


# multipart, as curl sends it


@pytest.fixture
def curl(server: Server, run: Callable[..., Done], tmp_path: Path) -> Callable[..., Any]:
    """Sends a form with curl, and files by their names and contents; returns the answer's document."""

    def send(*parts: str, **files: str) -> Any:
        for name, content in files.items():
            (tmp_path / name.replace("_yaml", ".yaml").replace("_json", ".json").replace("_", "-")).write_text(content)
        arguments = [argument for part in parts for argument in ("-F", part)]
        done = run("-sS", f"{server.url}/v1/dry-run", *arguments, program="curl", cwd=tmp_path)
        assert (done.code, done.err) == (0, "")
        return json.loads(done.out)

    return send


def test_curl_sends_a_deployment_as_a_form(curl: Callable[..., Any], client: httpx.Client) -> None:
    answer = curl("deployment=@deployment.json", deployment_json=json.dumps({"facts": NIXL}))
    assert without_id(answer) == without_id(dry_run(client, {"facts": NIXL}))


def test_curl_sends_a_deployment_as_a_yaml_file(curl: Callable[..., Any]) -> None:
    assert (
        curl("deployment=@deployment.yaml", deployment_yaml="facts: {kv_transfer_config: {}}\n")["summary"]
        == "V1: a KV connector (None) keeps this deployment on V1"
    )


def test_curl_sends_a_deployment_as_text(curl: Callable[..., Any]) -> None:
    assert curl('deployment={"facts": {}}')["reasons"][0]["rule"] == "no-model-config"


def test_curl_sends_a_rule_file(curl: Callable[..., Any]) -> None:
    answer = curl(
        "deployment=@deployment.json",
        "rules=@narrowed.yaml",
        deployment_json=json.dumps({"facts": IDLE}),
        narrowed_yaml=NARROWED,
    )
    assert [(change["member"], change["rules"]) for change in changes(answer)] == [
        ("runner", ["kv-connector-fallback"]),
        ("outcome", ["kv-connector-fallback"]),
        ("set_env", ["kv-connector-fallback"]),
    ]


def test_curl_sends_several_rule_files_and_removes_a_rule(curl: Callable[..., Any]) -> None:
    answer = curl(
        "deployment=@deployment.json",
        "rules=@one.yaml",
        "rules=@two.yaml",
        "remove=kv-connector-fallback",
        deployment_json=json.dumps({"facts": NIXL}),
        one_yaml=rule("one-more", "model_config: present", message="one"),
        two_yaml=rule("two-more", "kv_transfer_config: present", message="two"),
    )
    assert [reason["message"] for reason in answer["candidate"]["reasons"]] == ["one", "two"]
    assert [reason["rule"] for reason in answer["current"]["reasons"]] == ["kv-connector-fallback"]


def test_curl_gets_a_table_for_a_form_too(server: Server, run: Callable[..., Done]) -> None:
    form = ("-F", f"deployment={json.dumps({'facts': NIXL})}", "-F", "remove=kv-connector-fallback")
    done = run("-sS", f"{server.url}/v1/dry-run", "-H", "accept: text/plain", *form, program="curl")
    assert (done.code, done.out.splitlines()[0].split()) == (0, ["field", "from", "to", "rules"])


# candidates that cannot be used


@pytest.mark.parametrize(
    ("text", "faults"),
    [
        ("", [("rules[0]", 1, 1, "empty; expected a document")]),
        (
            "id: [\n",
            [
                (
                    "rules[0]",
                    1,
                    5,
                    "not YAML: the bracket `[` is not closed with `]`, or a comma is missing between its items",
                )
            ],
        ),
        ("- id: x\n", [("rules[0]", 1, 1, "the rule has no `id` in lower-case words with hyphens; add it")]),
        ("id: Not_A_Name\n", [("rules[0]", 1, 1, "the rule has no `id` in lower-case words with hyphens; add it")]),
        ("id: a\nid: b\n", [("rules[0]", 2, 1, "duplicate key `id`; keep one, or merge the two")]),
        (
            "id: &a x\n",
            [
                (
                    "rules[0]",
                    1,
                    5,
                    (
                        "anchors such as `&a` are not supported; repeat the value, or put a text that begins with `&` "
                        "in quotes"
                    ),
                )
            ],
        ),
        (
            rule("newcomer", "model_config.is_moee: true"),
            [
                (
                    "house/newcomer.yaml",
                    13,
                    7,
                    (
                        "unknown fact `model_config.is_moee`; did you mean `model_config.is_moe`?; `GET /v1/facts` and "
                        "docs/facts.md list them"
                    ),
                )
            ],
        ),
        (
            rule("newcomer", "model_config.is_moe: yes please", "model_config.runner_type: pool"),
            [
                (
                    "house/newcomer.yaml",
                    13,
                    28,
                    'the text `"yes please"` is not legal for `model_config.is_moe`; legal: `true`, `false`',
                ),
                (
                    "house/newcomer.yaml",
                    14,
                    33,
                    "`pool` is not legal for `model_config.runner_type`; legal: `generate`, `pooling`, `draft`",
                ),
            ],
        ),
        (
            NARROWED.replace(">=0.22,<0.25", ">=0.40"),
            [
                (
                    "house/kv-connector-fallback.yaml",
                    10,
                    11,
                    (
                        "no known release is in `>=0.40`; known releases: 0.3.0 to 0.33.0; correct the range, or "
                        "add the release to `known` in `releases.yaml`"
                    ),
                )
            ],
        ),
    ],
    ids=["empty", "broken YAML", "no map", "no name", "twice", "anchor", "unknown fact", "two faults", "no release"],
)
def test_an_invalid_rule_file_is_a_problem_with_file_line_and_remedy(
    client: httpx.Client, text: str, faults: list[tuple[str, int, int, str]]
) -> None:
    response = client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "rules": [text]})
    assert problem(response) == (
        422,
        "rules-invalid",
        [
            {"pointer": "", "message": message, "file": file, "line": line, "column": column}
            for file, line, column, message in faults
        ],
    )


def test_the_faults_of_all_candidates_are_reported_at_once(client: httpx.Client) -> None:
    rules = ["", rule("newcomer", "model_config: present"), "id: [\n"]
    status, kind, errors = problem(client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "rules": rules}))
    assert (status, kind, [(fault["file"], fault["line"]) for fault in errors]) == (
        422,
        "rules-invalid",
        [("rules[0]", 1), ("rules[2]", 1)],
    )


def test_removing_the_only_rule_that_decides_is_refused(client: httpx.Client) -> None:
    status, kind, errors = problem(
        client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "remove": ["v2-by-default"]})
    )
    assert (status, kind, {fault["file"] for fault in errors}) == (422, "rules-invalid", {"releases.yaml"})


@pytest.mark.parametrize(
    ("document", "faults"),
    [
        (
            {"request": {"facts": {}}, "remove": ["kv-conector-fallback", "kv-connector-fallback"]},
            [("/remove/0", "unknown rule `kv-conector-fallback`; did you mean `kv-connector-fallback`?")],
        ),
        ({"request": {"facts": {}}, "remove": [""]}, [("/remove/0", "unknown rule ``")]),
        ({"rules": ["x"]}, [("/request", "expected a request, got `null`")]),
        ({"request": [], "rules": ["x"]}, [("/request", "expected a request, got `[]`")]),
        ({"request": {"facts": {}}, "rules": None}, [("/rules", "expected a list of strings, got `null`")]),
        ({"request": {"facts": {}}, "rules": "x"}, [("/rules", "expected a list of strings, got `x`")]),
        (
            {"request": {"facts": {}}, "rules": [{}], "remove": [1]},
            [
                ("/rules", "expected a list of strings, got `[{}]`"),
                ("/remove", "expected a list of strings, got `[1]`"),
            ],
        ),
        ({"request": {"facts": {}}, "rules": ["x"] * 101}, [("/rules", "at most 100 are accepted, got 101")]),
        ({"request": {"facts": {}}, "remove": ["x"] * 101}, [("/remove", "at most 100 are accepted, got 101")]),
        (
            {"request": {"facts": {}}, "rmove": []},
            [
                (
                    "/rmove",
                    f"unknown field `rmove`; legal: {LEGAL}; did you mean `remove`?",
                )
            ],
        ),
    ],
    ids=lambda value: str(value)[:60],
)
def test_an_invalid_candidate_is_a_problem_with_a_pointer(
    client: httpx.Client, document: Any, faults: list[tuple[str, str]]
) -> None:
    response = client.post("/v1/dry-run", json=document)
    assert problem(response) == (
        422,
        "invalid-request",
        [{"pointer": pointer, "message": message} for pointer, message in faults],
    )


@pytest.mark.parametrize("candidate", [{}, {"remove": ["kv-connector-fallback"]}])
def test_a_fault_in_the_wrapped_request_has_its_pointer_in_the_body(
    client: httpx.Client, candidate: dict[str, Any]
) -> None:
    response = client.post(
        "/v1/dry-run", json={"request": {"facts": {"model_config": {"is_moe": 1}}}, "rules": [], **candidate}
    )
    assert problem(response) == (
        422,
        "invalid-request",
        [
            {
                "pointer": "/request/facts/model_config/is_moe",
                "message": "`1` is not legal for `model_config.is_moe`; legal: `true`, `false`",
            }
        ],
    )


def test_a_condition_that_the_engine_cannot_hold_is_a_fault_with_its_remedy(client: httpx.Client) -> None:
    facts = ("model_config.is_moe", "parallel_config.enable_dbo", "model_config.is_hybrid", "platform.is_rocm")
    pairs = [
        f"  - any: [{{{first}: true}}, {{{second}: true}}]" for first in facts for second in facts if first != second
    ]
    message = (
        "the alternatives of the condition combine in 4096 ways, more than 16; split the rule, or use lists of values"
    )
    assert problem(
        client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "rules": [rule("wide", "all:", *pairs)]})
    ) == (
        422,
        "rules-invalid",
        [{"pointer": "", "message": message, "file": "house/wide.yaml", "line": 1, "column": 1}],
    )


def test_more_than_the_engine_can_hold_is_refused_with_the_limit(client: httpx.Client) -> None:
    asked = [
        [f"model_config.architectures: {{has_none_of: [A{number}B{other}]}}" for other in range(60)]
        for number in range(5)
    ]
    rules = [rule(f"asking-{number}", "all:", *(f"  - {part}" for part in parts)) for number, parts in enumerate(asked)]
    status, kind, ((fault),) = problem(client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "rules": rules}))
    assert (status, kind, fault["file"]) == (422, "rules-invalid", "rules")
    assert re.fullmatch("expected at most 200 different comparisons in a release, got 3[0-9]{2}", fault["message"])


# harmful candidates


@pytest.mark.slow
def test_a_hostile_candidate_is_stopped_and_the_service_keeps_working(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    with (
        serve(RUNNER_POLICY_CANDIDATE_TIMEOUT="1", RUNNER_POLICY_MAX_BODY="4194304") as server,
        server.client() as client,
    ):
        stopped = client.post("/v1/dry-run", json={"request": {"facts": QWEN}, "rules": HOSTILE})
        assert problem(stopped) == (
            422,
            "candidate-aborted",
            [{"pointer": "", "message": "the candidate rules took more than 1 s; make their conditions simpler"}],
        )
        assert client.post("/v1/decisions", json={"facts": QWEN}).json()["runner"] == "v2"


LONG: dict[str, Any] = {"model_config": {"architectures": [f"A{number}" + "x" * 240 for number in range(1500)]}}
"""Facts of 370 KB."""


def test_a_candidate_s_text_that_repeats_a_long_fact_is_truncated(client: httpx.Client) -> None:
    repeating = rule("tried", "model_config.is_moe: false", message='"' + "{model_config.architectures} " * 200 + '"')
    answer = dry_run(client, {"request": {"facts": LONG, "vllm_version": "0.23.0"}, "rules": [repeating]})
    (message,) = (reason["message"] for reason in answer["candidate"]["reasons"] if reason["rule"] == "tried")
    assert "… (1500 more)" in message
    assert len(message) < 1 << 17


def dry_run_of_rules(client: httpx.Client, rules: int, accept: str = "application/json") -> httpx.Response:
    """A dry run of rules whose texts and evidence are long."""
    message = "{model_config.architectures} " * 3
    texts = [rule(f"tried-{number}", "model_config.is_moe: false", message=f'"{message}"') for number in range(rules)]
    document = {"request": {"facts": LONG, "vllm_version": "0.23.0"}, "rules": texts}
    return client.post("/v1/dry-run", json=document, headers={"accept": accept})


@pytest.mark.parametrize("accept", slow_except(["application/json"], ["application/json", "text/plain"]))
def test_a_large_answer_to_candidates_is_complete(client: httpx.Client, accept: str) -> None:
    answer = dry_run_of_rules(client, 1, accept)
    assert (answer.status_code, len(answer.content) > 1 << 19) == (200, True)
    assert answer.headers["content-type"].startswith(accept)
    assert answer.text.endswith("]}" if accept == "application/json" else "\n")


@pytest.mark.slow
def test_the_size_of_an_answer_to_candidates_is_limited(serve: Callable[..., AbstractContextManager[Server]]) -> None:
    with serve(RUNNER_POLICY_MAX_ANSWER="4000000") as server, server.client() as client:
        assert dry_run_of_rules(client, 1).status_code == 200
        assert problem(dry_run_of_rules(client, 20)) == (
            422,
            "too-much-work",
            [
                {
                    "pointer": "",
                    "message": "the answer would have more than 4000000 bytes; "
                    "shorten the texts of the rules, or state fewer facts",
                }
            ],
        )


@pytest.mark.slow
def test_others_are_answered_while_hostile_candidates_run_and_too_many_are_refused(
    serve: Callable[..., AbstractContextManager[Server]],
) -> None:
    variables = {"RUNNER_POLICY_CANDIDATE_TIMEOUT": "0.05", "RUNNER_POLICY_CANDIDATE_CONCURRENCY": "1"}
    with serve(**variables) as server, server.client() as client, ThreadPoolExecutor(40) as pool:
        # read quickly, so that all of them wait for the one candidate process
        names = ", ".join(f"Connector{number}" for number in range(4_000))
        condition = f"kv_transfer_config.kv_connector: {{not_in: [{names}]}}"
        rules = [rule(f"hostile-{number}", condition) for number in range(8)]
        hostile = {"request": {"facts": QWEN}, "rules": rules}
        running = [pool.submit(client.post, "/v1/dry-run", json=hostile) for _ in range(40)]
        while not all(future.done() for future in running):
            assert client.post("/v1/decisions", json={"facts": QWEN}).json()["runner"] == "v2"
        assert {problem(future.result())[:2] for future in running} == {
            (422, "candidate-aborted"),
            (429, "dry-run-busy"),
        }
        assert client.post("/v1/dry-run", json={"facts": QWEN}).json()["runner"] == "v2"


# changes for all deployments


ANY_CONNECTOR = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "kv_transfer_config": {}}


def test_changes_can_be_requested_for_all_deployments(client: httpx.Client) -> None:
    answer = dry_run(client, {"request": {"facts": QWEN}, "rules": [NARROWED], "changes": "all"})
    found = {
        (tuple(item["releases"]), item["from"]["runner"], item["to"]["runner"]): item for item in answer["changes"]
    }
    assert list(answer) == ["current", "candidate", "changes"]
    assert (answer["current"]["runner"], answer["candidate"]["runner"]) == ("v2", "v2")
    change = found[("0.22.0", "0.22.1"), "v1", "v2"]
    reasons = change["to"]["reasons"]
    change["to"]["reasons"] = [reason for reason in reasons if reason["effect"] != "known-problem"]
    assert change == {
        "releases": ["0.22.0", "0.22.1"],
        "rule": "kv-connector-fallback",
        "rules": ["kv-connector-fallback"],
        "facts": ANY_CONNECTOR,
        "from": {
            "runner": "v1",
            "outcome": "fallback",
            "starts": True,
            "reasons": [{"rule": "kv-connector-fallback", "effect": "fallback-v1"}],
        },
        "to": {
            "runner": "v2",
            "outcome": "default",
            "starts": True,
            "reasons": [{"rule": "v2-by-default", "effect": "default-v2"}],
        },
    }
    assert {item["rule"] for item in answer["changes"]} == {"kv-connector-fallback"}


def test_a_candidate_without_effect_is_proved_to_have_none(client: httpx.Client, root: Path) -> None:
    same = (
        (root / "rules/house/kv-connector-fallback.yaml")
        .read_text()
        .replace("kv_transfer_config: present", "not: {kv_transfer_config: absent}")
    )
    body = {"request": {"facts": NIXL}, "rules": [same], "changes": "all"}
    assert dry_run(client, body)["changes"] == []
    text = client.post("/v1/dry-run", json=body, headers={"accept": "text/plain"}).text
    assert text.splitlines()[0] == "the candidate rules change nothing for any deployment (proved)"


def test_a_form_can_request_changes_for_all_deployments_and_plain_text_shows_them(client: httpx.Client) -> None:
    parts = {
        "deployment": (None, json.dumps({"facts": QWEN})),
        "remove": (None, "kv-connector-fallback"),
        "changes": (None, "all"),
    }
    text = client.post("/v1/dry-run", files=parts, headers={"accept": "text/plain"}).text
    assert "0.22.0, 0.22.1" in text
    assert [word for word in ("releases", "rule", "smallest deployment") if word not in text.splitlines()[0]] == []


@pytest.mark.parametrize("value", ["some", True, ["all"], 1])
def test_the_only_legal_value_of_changes_is_all(client: httpx.Client, value: Any) -> None:
    response = client.post(
        "/v1/dry-run", json={"request": {"facts": QWEN}, "remove": ["kv-connector-fallback"], "changes": value}
    )
    assert (response.status_code, [fault["pointer"] for fault in response.json()["errors"]]) == (422, ["/changes"])


CASES = """\
rule: {rule}
cases:
  - name: a connector
    vllm: [0.23.0, "0.24.0"]
    given: {{kv_transfer_config: {{kv_connector: NixlConnector}}, model_config: {{architectures: [Qwen3ForCausalLM]}}}}
    fires: true
  - name: none is named
    vllm: [0.23.0]
    given: {{kv_transfer_config: {{}}, model_config: {{architectures: [Qwen3ForCausalLM]}}}}
    fires: true
  - name: too late
    vllm: [0.25.0]
    given: {{kv_transfer_config: {{}}}}
    fires: false
"""


def test_cases_are_run_with_the_candidate_rules(client: httpx.Client) -> None:
    body = {"request": {"facts": {}}, "rules": [NARROWED], "cases": [CASES.format(rule="kv-connector-fallback")]}
    answer = dry_run(client, body)
    row = {"rule": "kv-connector-fallback", "file": "cases[0]", "fires": True, "passed": True, "found": None}
    assert answer["cases"] == {
        "results": [
            {**row, "name": "a connector", "vllm_version": "0.23.0", "line": 3},
            {**row, "name": "a connector", "vllm_version": "0.24.0", "line": 3},
            {
                **row,
                "name": "none is named",
                "vllm_version": "0.23.0",
                "line": 7,
                "passed": False,
                "found": 'it does not fire: `kv_transfer_config.kv_connector` is null, expected "present"',
            },
            {**row, "name": "too late", "vllm_version": "0.25.0", "line": 11, "fires": False},
        ],
        "missing": [
            "the cases of `kv-connector-fallback` lack a near miss, one in 0.22.0 to 0.24.0 that does not fire; add it"
        ],
    }
    assert list(answer) == ["current", "candidate", "changes", "cases"]
    assert list(dry_run(client, {**body, "changes": "all"})) == ["current", "candidate", "changes", "cases"]


def test_cases_on_one_line_each_say_whether_they_fire(client: httpx.Client) -> None:
    text = (
        "{rule: kv-connector-fallback, cases: ["
        "{name: a connector, vllm: [0.23.0], fires: true, given: {kv_transfer_config: {kv_connector: NixlConnector}, "
        "model_config: {architectures: [Qwen3ForCausalLM]}}}, "
        "{name: too late, vllm: [0.25.0], fires: false, given: {kv_transfer_config: {}}}]}"
    )
    answer = dry_run(client, {"request": {"facts": {}}, "cases": [text]})
    rows = [(case["name"], case["line"], case["fires"], case["passed"]) for case in answer["cases"]["results"]]
    assert rows == [("a connector", 1, True, True), ("too late", 1, False, True)]


REQUEST_RULE = """\
id: {id}
title: Many bad words
effect: request-refused
parameter: bad_words
why: For a test.
remedy: send fewer
references: [https://github.com/vllm-project/vllm]
releases:
  - vllm: ">=0.30"
    text: "{{request.bad_words}} bad words are too many"
    when: {{request.bad_words: {{more_than: 10}}}}
"""
REQUEST_CASES = """\
rule: {id}
cases:
  - name: many
    vllm: [0.30.0]
    given: {{request: {{bad_words: 11}}}}
    fires: true
    message: "11 bad words are too many"
  - name: few
    vllm: [0.30.0]
    given: {{request: {{bad_words: 10}}}}
    fires: {few}
  - name: before
    vllm: [0.29.0]
    given: {{request: {{bad_words: 11}}}}
    fires: false
"""


def test_the_cases_of_a_new_rule_about_requests_are_run_beside_others(client: httpx.Client) -> None:
    cases = [
        REQUEST_CASES.format(id="many-bad-words", few="true"),
        CASES.format(rule="kv-connector-fallback"),
    ]
    rules = [REQUEST_RULE.format(id="many-bad-words")]
    answer = dry_run(client, {"request": {"facts": {}}, "rules": rules, "cases": cases, "changes": "all"})
    results = [(case["file"], case["rule"], case["passed"], case["found"]) for case in answer["cases"]["results"]]
    assert answer["changes"] == []
    assert results[:3] == [
        ("cases[0]", "many-bad-words", True, None),
        ("cases[0]", "many-bad-words", False, "it does not fire"),
        ("cases[0]", "many-bad-words", True, None),
    ]
    assert {result[:3] for result in results[3:]} == {("cases[1]", "kv-connector-fallback", True)}
    assert answer["cases"]["missing"] == [
        "the cases of `kv-connector-fallback` lack a near miss, one in 0.22.0 to 0.24.0 that does not fire; add it",
        "the cases of `many-bad-words` lack a near miss, one in the rule's releases that does not fire; add it",
    ]


def test_a_loaded_rule_about_requests_is_replaced_and_its_faults_have_places(client: httpx.Client) -> None:
    rule = REQUEST_RULE.format(id="bad-words-limit")
    cases = REQUEST_CASES.format(id="bad-words-limit", few="false")
    answer = dry_run(client, {"request": {"facts": {}}, "rules": [rule], "cases": [cases]})
    assert [case["passed"] for case in answer["cases"]["results"]] == [True] * 3
    body = {"request": {"facts": {}}, "rules": [rule], "cases": [cases.replace("fires: true", "fires: 7"), "rule: x"]}
    status, kind, errors = problem(client.post("/v1/dry-run", json=body))
    assert (status, kind) == (422, "rules-invalid")
    assert {error["file"] for error in errors} == {"cases[0]", "cases[1]"}


def test_the_requests_that_a_rule_about_requests_changes_are_found(client: httpx.Client, root: Path) -> None:
    text = (root / "rules/upstream/requests/bad-words-limit.yaml").read_text()
    edited = text.replace("more_than: 128", "more_than: 129")
    assert edited != text
    body = {"request": {"facts": {}}, "rules": [edited], "changes": "all"}
    answer = dry_run(client, body)
    assert (list(answer), answer["changes"]) == (["current", "candidate", "changes", "requests"], [])
    fine, killed = {"verdict": "fine", "rules": []}, {"verdict": "kills-engine", "rules": ["bad-words-limit"]}
    first = answer["requests"][0]
    assert {**first, "releases": (first["releases"][0], first["releases"][-1])} == {
        "releases": ("0.22.0", "0.27.1"),
        "rule": "bad-words-limit",
        "rules": ["bad-words-limit"],
        "facts": {"request": {"bad_words": 129}},
        "from": {"v1": fine, "v2": killed},
        "to": {"v1": fine, "v2": fine},
    }
    shown = client.post("/v1/dry-run", json=body, headers={"accept": "text/plain"}).text
    assert "kills-engine → fine" in shown


def test_a_named_condition_is_replaced_and_what_it_means_is_found(client: httpx.Client, root: Path) -> None:
    text = (root / "rules/upstream/conditions/microbatching.yaml").read_text()
    edited = text.replace("ubatch_size: {at_least: 2}", "ubatch_size: {at_least: 3}")
    assert edited != text
    answer = dry_run(client, {"request": {"facts": {}}, "rules": [edited], "changes": "all"})
    assert {each["rule"] for each in answer["changes"]} != set()
    new = text.replace("id: microbatching", "id: small-batches")
    assert dry_run(client, {"request": {"facts": {}}, "rules": [new], "changes": "all"})["changes"] == []


def test_cases_are_run_with_the_loaded_rules_if_there_are_no_others(client: httpx.Client) -> None:
    text = CASES.format(rule="kv-connector-fallback")
    answer = dry_run(client, {"request": {"facts": {}}, "cases": [text]})
    assert (answer["changes"], [case["passed"] for case in answer["cases"]["results"]]) == ([], [True] * 4)


def test_a_form_can_have_cases_and_plain_text_shows_those_that_fail(client: httpx.Client) -> None:
    parts = [
        ("deployment", (None, json.dumps({"facts": {}}))),
        ("rules", (None, NARROWED)),
        ("cases", (None, CASES.format(rule="kv-connector-fallback"))),
    ]
    text = client.post("/v1/dry-run", files=parts, headers={"accept": "text/plain"}).text
    assert "cases: 3 passed, 1 failed" in text
    assert "cases[0]:7" in text
    assert "lack a near miss" in text


@pytest.mark.parametrize(
    ("text", "line", "column", "message"),
    [
        ("rule: [", 1, 7, "not YAML: "),
        (CASES.format(rule="kv-conector-fallback"), 1, 7, "unknown rule `kv-conector-fallback`"),
        (CASES.format(rule="kv-connector-fallback").replace("fires: false", "fires: 7"), 14, 12, "expected `true` or"),
        ("rule: kv-connector-fallback\ncases: 7\n", 2, 8, "expected a list"),
        ("", 1, 1, "empty; expected a document"),
    ],
)
def test_a_fault_of_cases_is_a_problem_with_its_place(
    client: httpx.Client, text: str, line: int, column: int, message: str
) -> None:
    response = client.post("/v1/dry-run", json={"request": {"facts": {}}, "cases": [text]})
    status, kind, errors = problem(response)
    assert (status, kind, errors[0]["file"]) == (422, "rules-invalid", "cases[0]")
    assert (errors[0]["line"], errors[0]["column"], message in errors[0]["message"]) == (line, column, True), errors
