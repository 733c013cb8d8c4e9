"""Bodies of calls, parameters and engines: what becomes of a request, and what is wrong with one."""

from __future__ import annotations

import json
import re
from datetime import date
from itertools import product
from typing import TYPE_CHECKING, Any

import pytest
from msgspec.json import encode
from ruleschemas import VALIDATORS
from ruletexts import read_document
from tables import table

from policy.checks.request_cases import read_request_cases, run_request_cases
from policy.errors import PolicyError, RequestInvalid, RulesInvalid
from policy.facts.facts import to_json
from policy.facts.request_vocabulary import APIS
from policy.facts.vocabulary import REQUEST_VOCABULARY
from policy.intake.derive.request_limits import EngineLimits
from policy.request.request import Request
from policy.rules.catalogue import load
from policy.rules.loader import Sources
from policy.sampling.check import RequestChecker, read_check_request
from policy.sampling.fields import known_fields
from policy.sampling.manifest import check_request
from policy.sampling.parameters import FORMER_PARAMETERS, read_parameters
from policy.sampling.request_facts import request_facts, request_row
from service.problems import problem_of

if TYPE_CHECKING:
    from policy.policy import Policy
    from policy.rules.catalogue import Catalogue
    from policy.sampling.check import RequestCheck

TODAY = date(2026, 11, 1)
QWEN = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "vocab_size": 151936, "eos_token_id": [7, 8]}
MESSAGES = [{"role": "user", "content": "hello"}]
IDS = list(range(1000, 3000))
V2 = {"VLLM_USE_V2_MODEL_RUNNER": "1"}


@pytest.fixture(scope="module")
def checker(policy: Policy) -> RequestChecker:
    return RequestChecker(policy)


def check(
    checker: RequestChecker, request: Any, release: str = "0.26.0", *args: str, env: dict[str, str] = V2
) -> RequestCheck:
    deployment = {"args": ["serve", "q", *args], "env": env, "model_configs": {"q": QWEN}}
    document = {"vllm_version": release, "deployment": deployment, "request": request}
    found = read_check_request(document, checker.policy.releases)
    assert isinstance(found.deployment, Request)
    return checker.check(found.deployment, found.document, found.pointer, TODAY)


def rules(answer: RequestCheck) -> list[str]:
    return [finding.rule for finding in answer.findings]


def test_every_case_of_the_shipped_rules_passes(sources: Sources, checker: RequestChecker) -> None:
    cases = read_request_cases(sources.cases, checker.policy.catalogue)
    failed = [
        (result.case.rule, result.case.name, result.release, result.found)
        for result in run_request_cases(cases, checker)
        if not result.passed
    ]
    assert (failed, {case.rule for case in cases}) == ([], {rule.id for rule in checker.policy.catalogue.request_rules})


CHAT: list[tuple[str, dict[str, Any], str, list[str]]] = [
    ("a plain chat", {"model": "q"}, "0.26.0", []),
    ("logprobs without a number are fine", {"logprobs": True}, "0.26.0", []),
    ("top_logprobs are what vLLM counts", {"logprobs": True, "top_logprobs": 21}, "0.26.0", ["logprobs-over-max"]),
    ("top_logprobs need logprobs", {"top_logprobs": 2}, "0.26.0", ["body-top-logprobs-alone"]),
    ("none of them do not", {"top_logprobs": 0}, "0.26.0", []),
    (
        "a stream has no prompt logprobs",
        {"stream": True, "prompt_logprobs": 1},
        "0.26.0",
        ["body-prompt-logprobs-stream"],
    ),
    ("tokens need logprobs", {"logprob_token_ids": [1, 2]}, "0.26.0", ["body-logprob-token-ids-alone"]),
    ("and set their number", {"logprobs": True, "logprob_token_ids": [1, 2]}, "0.26.0", []),
    ("stream_options alone", {"stream_options": {"include_usage": True}}, "0.26.0", ["body-stream-options"]),
    (
        "max_completion_tokens is max_tokens",
        {"max_completion_tokens": 3, "min_tokens": 4},
        "0.26.0",
        ["min-tokens-over-max"],
    ),
    ("and goes before it", {"max_completion_tokens": 9, "max_tokens": 3, "min_tokens": 4}, "0.26.0", []),
    ("a chat has no default of max_tokens", {"min_tokens": 400}, "0.26.0", []),
    ("the client merges extra_body", {"extra_body": {"top_k": -5}}, "0.26.0", ["top-k-range"]),
    ("a JSON schema", {"response_format": {"type": "json_schema", "json_schema": {"schema": {}}}}, "0.26.0", []),
    (
        "two constraints",
        {"response_format": {"type": "json_object"}, "structured_outputs": {"regex": "a"}},
        "0.26.0",
        ["structured-outputs-several"],
    ),
    ("biases are cut", {"logit_bias": {"5": 200}}, "0.26.0", ["logit-bias-clamped"]),
    ("a bias beyond the vocabulary", {"logit_bias": {"151936": 1}}, "0.26.0", ["logit-bias-vocabulary"]),
    ("beams leave parameters out", {"use_beam_search": True, "n": 2, "top_p": 0.5}, "0.26.0", ["left-out-field"]),
    ("beams need logprobs", {"use_beam_search": True, "n": 11}, "0.26.0", ["logprobs-over-max"]),
    ("a field of a later release", {"stream_interval": 0}, "0.26.0", ["left-out-field"]),
    ("in that release", {"stream_interval": 0}, "0.27.0", ["stream-interval-range"]),
    ("a field of no release", {"best_off": 2}, "0.26.0", ["left-out-field"]),
    ("null is not given", {"temperature": None, "n": None}, "0.26.0", []),
]
BODIES: list[tuple[str, dict[str, Any], str, list[str]]] = [
    *[(name, {"messages": MESSAGES, **body}, release, found) for name, body, release, found in CHAT],
    ("a completion has 16 tokens", {"prompt": "a", "min_tokens": 17}, "0.26.0", ["min-tokens-over-max"]),
    ("bad words of a completion before 0.26", {"prompt": "a", "bad_words": ["x"]}, "0.25.0", ["left-out-field"]),
    ("and since", {"prompt": "a", "bad_words": [""]}, "0.26.0", ["bad-words-empty"]),
    (
        "echo with beams",
        {"prompt": "a", "use_beam_search": True, "n": 2, "echo": True, "logprobs": 1},
        "0.32.0",
        ["completion-echo-beam", "left-out-field"],
    ),
    (
        "all logprobs of a completion before 0.29",
        {"prompt": "a", "logprobs": -1},
        "0.28.0",
        ["body-logprobs-negative", "logprobs-over-max"],
    ),
    ("best_of is gone", {"prompt": "a", "best_of": 3}, "0.26.0", ["left-out-field"]),
    ("embeddings", {"prompt_embeds": "AAAA"}, "0.26.0", ["prompt-embeds-not-enabled"]),
    ("a body for another model", {"model": "q", "input": "a"}, "0.26.0", ["generation-model-body"]),
    ("pooling parameters", {"dimensions": 64}, "0.26.0", ["generation-model-pooling"]),
    ("end tokens count", {"min_tokens": 1, "stop_token_ids": IDS[:127]}, "0.26.0", ["min-tokens-stop-ids-limit"]),
    ("once", {"min_tokens": 1, "stop_token_ids": [7, 8, *IDS[:126]]}, "0.26.0", []),
    ("with repeated ids too", {"min_tokens": 1, "stop_token_ids": [5] * 300}, "0.26.0", []),
    ("129 bad words", {"bad_words": [f"w{n}" for n in range(129)]}, "0.27.0", ["bad-words-limit"]),
    ("from 0.28 on", {"bad_words": [f"w{n}" for n in range(129)]}, "0.28.0", ["bad-words-too-many"]),
    ("the same word counts once there", {"bad_words": ["w"] * 129}, "0.28.0", []),
    ("a budget", {"thinking_token_budget": 5}, "0.26.0", ["thinking-budget-without-reasoning"]),
    ("no budget", {"thinking_token_budget": -1}, "0.26.0", []),
    (
        "a schema of 65 levels",
        {"structured_outputs": {"json": '{"a":' * 65 + "1" + "}" * 65}},
        "0.32.0",
        ["structured-outputs-nesting"],
    ),
]


@table(("request_", "release", "expected"), [each[1:] for each in BODIES], ids=[each[0] for each in BODIES])
def test_bodies_and_parameters_get_their_findings(
    checker: RequestChecker, request_: dict[str, Any], release: str, expected: list[str]
) -> None:
    answer = check(checker, request_, release)
    assert (str(answer.runner), rules(answer)) == ("v2", expected)


ENGINES: list[tuple[str, dict[str, Any], str, list[str], dict[str, str], list[str]]] = [
    ("a maximum of logprobs", {"logprobs": 30}, "0.26.0", ["--max-logprobs", "50"], V2, []),
    ("the whole vocabulary", {"logprobs": -1}, "0.26.0", ["--max-logprobs", "50"], V2, ["logprobs-over-max"]),
    ("any number", {"logprobs": -1}, "0.26.0", ["--max-logprobs=-1"], V2, []),
    ("a limit of n", {"n": 3}, "0.26.0", [], {**V2, "VLLM_MAX_N_SEQUENCES": "2"}, ["n-too-large"]),
    ("no tokenizer", {"bad_words": ["a"]}, "0.26.0", ["--skip-tokenizer-init"], V2, ["bad-words-without-tokenizer"]),
    ("a parser", {"thinking_token_budget": 5}, "0.26.0", ["--reasoning-parser", "qwen3"], V2, ["thinking-budget-v2"]),
    (
        "on V1",
        {"thinking_token_budget": 5},
        "0.26.0",
        ["--reasoning-parser", "qwen3"],
        {"VLLM_USE_V2_MODEL_RUNNER": "0"},
        [],
    ),
    ("in 0.28", {"thinking_token_budget": 5}, "0.28.0", ["--reasoning-parser", "qwen3"], V2, []),
]


@pytest.mark.parametrize(
    ("request_", "release", "args", "env", "expected"),
    [each[1:] for each in ENGINES],
    ids=[each[0] for each in ENGINES],
)
def test_the_limits_are_those_of_the_engine(
    checker: RequestChecker,
    request_: dict[str, Any],
    release: str,
    args: list[str],
    env: dict[str, str],
    expected: list[str],
) -> None:
    assert rules(check(checker, request_, release, *args, env=env)) == expected


def test_the_worst_finding_is_first_and_the_other_runner_is_beside_it(checker: RequestChecker) -> None:
    answer = check(checker, {"allowed_token_ids": IDS[:1025], "temperature": 0.001, "n": 0})
    assert [(finding.rule, str(finding.verdict)) for finding in answer.findings] == [
        ("allowed-token-ids-limit", "kills-engine"),
        ("n-too-small", "refused"),
        ("temperature-raised", "ignored"),
    ]
    assert answer.alternative is not None
    assert (str(answer.verdict), str(answer.alternative.runner), str(answer.alternative.verdict)) == (
        "kills-engine",
        "v1",
        "refused",
    )


def test_what_is_only_likely_is_a_warning(checker: RequestChecker) -> None:
    answer = check(checker, {"bad_words": [f"w{n}" for n in range(100)]})
    [warning] = answer.warnings
    assert (str(answer.verdict), answer.findings) == ("fine", [])
    assert warning == (
        "100 bad words may be more than 128 token sequences, which ends an engine with V2; each word counts twice "
        "if it has another token after a space"
    )


def test_a_platform_with_a_runner_of_its_own_has_no_alternative(checker: RequestChecker) -> None:
    document = {"facts": {"platform": {"is_tpu": True}}, "request": {"n": 0, "allowed_token_ids": IDS}}
    request = read_check_request(document, checker.policy.releases)
    assert isinstance(request.deployment, Request)
    answer = checker.check(request.deployment, request.document, request.pointer, TODAY)
    assert (answer.runner, rules(answer), answer.alternative) == (None, ["n-too-small"], None)


RANGE = "from -9223372036854775807 to 9223372036854775807"
ROWS = "/prompt_logprob_token_ids"
MANY = (1 << 20) + 1
FAULTS: list[tuple[Any, list[tuple[str, str]]]] = [
    ([], [("", "expected an object such as")]),
    ({"temprature": 1}, [("/temprature", "unknown parameter `temprature`; did you mean `temperature`?")]),
    ({"n": 1.5}, [("/n", "expected a whole number, got `1.5`")]),
    ({"n": True}, [("/n", "expected a whole number, got `true`")]),
    ({"temperature": "1"}, [("/temperature", "expected a number, got `1`")]),
    ({"temperature": 1e300}, [("/temperature", f"expected a number {RANGE}, got `1e+300`")]),
    ({"temperature": 1 << 63}, [("/temperature", f"expected a number {RANGE}, got `{1 << 63}`")]),
    ({"top_p": -(1 << 63)}, [("/top_p", f"expected a number {RANGE}, got `{-(1 << 63)}`")]),
    ({"max_tokens": 1 << 63}, [("/max_tokens", f"expected a whole number {RANGE}, got `{1 << 63}`")]),
    ({"seed": -(1 << 63)}, [("/seed", f"expected a whole number {RANGE}, got `{-(1 << 63)}`")]),
    ({"logprobs": 10**30}, [("/logprobs", f"expected a whole number {RANGE}, got")]),
    ({"logprobs": "1"}, [("/logprobs", "expected a whole number, got `1`")]),
    ({"stop_token_ids": [1, 1 << 63]}, [("/stop_token_ids", f"expected a list of whole numbers {RANGE}, got")]),
    ({"logprob_token_ids": [1] * MANY}, [("/logprob_token_ids", "expected a list of at most 1048576 whole numbers")]),
    ({"bad_words": ["x"] * MANY}, [("/bad_words", "expected a list of at most 1048576 strings, got")]),
    ({"stop": ["x"] * MANY}, [("/stop", "expected a string or a list of at most 1048576 strings, got")]),
    ({"logit_bias": {"1": 1 << 63}}, [("/logit_bias", f"expected an object of numbers {RANGE} by token id, which")]),
    ({"logit_bias": {"1" * 20: 1}}, [("/logit_bias", f"expected an object of numbers {RANGE} by token id, which")]),
    ({"prompt_logprob_token_ids": [[1], [1 << 63]]}, [(ROWS, f"expected lists of whole numbers {RANGE}, got")]),
    ({"prompt_logprob_token_ids": [[1], ["1"]]}, [(ROWS, "expected lists of whole numbers, got")]),
    ({"prompt_logprob_token_ids": [[]] * MANY}, [(ROWS, "expected at most 1048576 lists of whole numbers, with")]),
    ({"prompt_logprob_token_ids": [1, "2"]}, [(ROWS, "expected a list of whole numbers, got")]),
    ({"allowed_token_ids": [1, "2"]}, [("/allowed_token_ids", "expected a list of whole numbers, got")]),
    ({"allowed_token_ids": 5}, [("/allowed_token_ids", "expected a list of whole numbers, got `5`")]),
    ({"logit_bias": {"x": 1}}, [("/logit_bias", "expected an object of numbers by token id")]),
    ({"logit_bias": {"1": None}}, [("/logit_bias", "expected an object of numbers by token id")]),
    ({"stop": [1]}, [("/stop", "expected a string or a list of strings")]),
    ({"bad_words": "x"}, [("/bad_words", "expected a list of strings")]),
    ({"structured_outputs": "json"}, [("/structured_outputs", "expected an object")]),
    ({"messages": [], "extra_body": 3}, [("/extra_body", "expected an object, got `3`")]),
    ({"n": "1", "top_k": []}, [("/n", "expected a whole number"), ("/top_k", "expected a whole number")]),
]


@table(("request_", "expected"), FAULTS)
def test_faults_name_the_parameter_and_what_is_legal(
    checker: RequestChecker, request_: Any, expected: list[tuple[str, str]]
) -> None:
    assert_faults(checker, request_, expected)


def test_an_object_of_too_many_token_ids_is_a_fault(checker: RequestChecker) -> None:
    """A test of its own: in the table, a million texts would be made whenever tests are collected."""
    bias = dict.fromkeys(map(str, range(MANY)), 1)
    expected = [("/logit_bias", "expected an object of numbers by at most 1048576 token ids, got")]
    assert_faults(checker, {"logit_bias": bias}, expected)


def assert_faults(checker: RequestChecker, request_: Any, expected: list[tuple[str, str]]) -> None:
    with pytest.raises(RequestInvalid) as caught:
        check(checker, request_, "0.31.0" if ROWS[1:] in request_ else "0.26.0")
    found = [(fault.pointer, fault.message) for fault in caught.value.faults]
    assert [pointer for pointer, _ in found] == [f"/request{pointer}" for pointer, _ in expected]
    assert all(message.startswith(start) for (_, message), (_, start) in zip(found, expected, strict=True)), found


def test_releases_before_the_first_that_is_checked_are_refused(checker: RequestChecker) -> None:
    document = {"vllm_version": "0.21.0", "facts": {}, "request": {}}
    request = read_check_request(document, checker.policy.releases)
    assert isinstance(request.deployment, Request)
    with pytest.raises(RequestInvalid, match=r"requests are checked from vLLM 0\.22\.0 on, and this is 0\.21\.0"):
        checker.check(request.deployment, request.document, request.pointer, TODAY)


RULE = """
id: an-example
title: An example
effect: request-refused
parameter: n
why: It is one.
references: [https://example.org]
releases:
  - vllm: ">=0.22"
    text: n is {request.n}
    when:
      request.n: {more_than: 1}
"""
BROKEN = [
    ("effect: request-refused", "effect: refused", "unknown effect of a rule about requests `refused`"),
    ("request.n: {", "request.m: {", "unknown fact `request.m`"),
    ("more_than", "more", "`request.n` has no operator `more`"),
    ("more_than: 1", "more_than: x", "is not legal for `request.n`; legal: a number from -"),
    ("{request.n}", "{request.x}", "unknown fact `{request.x}`"),
    ("    text: n is {request.n}\n", "", "the range has no `text`"),
    ("id: an-example", "id: another", "the id `another` is not the file's name"),
    ("    when:", "    runner: v3\n    when:", "unknown model runner `v3`"),
    ('">=0.22"', '">=0.99"', "no known release is in `>=0.99`"),
]
REFUSED_BY_SCHEMA = [
    ("[https://example.org]", '["javascript:alert(1)"]', "expected an `https://` link, got `javascript:alert(1)`"),
    ("[https://example.org]", "http://example.org", "expected an `https://` link, got `http://example.org`"),
    ("why:", "fixed_in: soon\nwhy:", 'expected a release, got `soon`; write it as `"0.29.0"`'),
    ("releases:", "text: n\nreleases:", "8:1: each range has its own `text`, so this one has no effect; remove it"),
    ("releases:", "when: always\nreleases:", "8:1: each range has its own `when`, so this one has no effect"),
]


@pytest.mark.parametrize(("old", "new", "message"), [*BROKEN, *REFUSED_BY_SCHEMA])
def test_faults_in_a_rule_about_requests_are_named(
    sources: Sources, catalogue: Catalogue, old: str, new: str, message: str
) -> None:
    assert old in RULE
    texts = {**sources.rules, "upstream/requests/an-example.yaml": RULE.replace(old, new)}
    with pytest.raises(RulesInvalid, match=re.escape(message)):
        load(Sources(texts), before=catalogue)  # of which the other files are not read again


@pytest.mark.parametrize(("old", "new", "message"), REFUSED_BY_SCHEMA)
def test_the_schema_refuses_the_same_faults(old: str, new: str, message: str) -> None:  # noqa: ARG001  # as above
    validator = VALIDATORS["request-rule"]
    assert validator.is_valid(read_document(RULE))
    assert not validator.is_valid(read_document(RULE.replace(old, new)))


def test_rules_that_decide_cannot_read_the_facts_of_a_request(sources: Sources) -> None:
    path = "upstream/v2/dbo-hybrid.yaml"
    text = sources.rules[path].replace("model_config.is_hybrid: true", "request.n: 1")
    assert text != sources.rules[path]
    with pytest.raises(RulesInvalid, match=r"unknown fact `request\.n`"):
        load(Sources({**sources.rules, path: text}))


def test_a_rule_without_its_cases_is_named(sources: Sources) -> None:
    texts = {**sources.rules, "upstream/requests/an-example.yaml": RULE}
    with pytest.raises(
        RulesInvalid, match=r"an-example_test\.yaml:1:1: the cases of `an-example` lack one in `>=0\.22`"
    ):
        read_request_cases(sources.cases, load(Sources(texts)))


ODD: list[Any] = [
    *(None, True, False, 0, -1, 1 << 70, 1.5, -0.0, 1e308, "", "x", "\0", "\ud800", "9" * 5000),
    *(
        [],
        [[]],
        [[], [1]],
        [None],
        ["a", 1],
        [1 << 70],
        [True],
        [[1.5]],
        {},
        {"": None},
        {"json": []},
        {"type": "json_schema"},
    ),
    *(
        {"type": "json_schema", "json_schema": 5},
        {"1": 1 << 70},
        {"-1": 0.5},
        {"٣": 1},
        {"json": "[" * 9000},
        {"choice": 5},
    ),
    *({"json": {"a": [{}] * 50}}, {"min_count": "x", "max_pattern_size": 1e9}, {"regex": 5}, {"grammar": []}),
]
MARKS: list[dict[str, Any]] = [{}, {"messages": []}, {"prompt": ""}, {"beam_width": 2}]
NAMES = sorted({name for form in APIS for name in known_fields(form)} | FORMER_PARAMETERS)


def test_every_value_of_every_parameter_is_answered_or_a_fault() -> None:
    limits = EngineLimits(vocab_size=100, end_tokens=frozenset({0}))
    pointers: set[str] = set()
    rows: list[list[Any]] = []
    for name, value, mark in product(NAMES, ODD, MARKS):
        try:
            parameters = read_parameters({**mark, name: value}, "0.33.0", "/request")
        except RequestInvalid as error:
            pointers |= {fault.pointer for fault in error.faults}
            continue
        rows.append(request_row(request_facts(parameters, limits)))
    values = [{repr(each): each for each in column} for column in zip(*rows, strict=True)]
    illegal = [
        (fact.name, each)
        for fact, column in zip(REQUEST_VOCABULARY, values, strict=True)
        for each in column.values()
        if each is not None and not fact.admits(to_json(each))
    ]
    assert (illegal, len(rows) > 1000) == ([], True)
    assert {pointer.split("/")[1] for pointer in pointers} == {"request"}


SECRET = "Zq8JbhpkJG4r"
SERVE = {"args": ["serve", "q"], "model_configs": {"q": QWEN}}
POD = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "annotations": {"runner-policy/model-configs": json.dumps({"q": QWEN})}},
    "spec": {
        "containers": [
            {
                "name": "a",
                "image": "vllm/vllm-openai:v0.33.0",
                "args": ["--model", "q"],
                "env": [{"name": "API_KEY", "value": SECRET}],
            }
        ]
    },
}


@table(
    "document",
    [
        {"deployment": SERVE, "request": {"api_key": SECRET, "logprobs": SECRET}},
        {"deployment": SERVE, "request": {"messages": MESSAGES, "token": SECRET, "top_k": [SECRET]}},
        {"deployment": SERVE, "request": {"messages": MESSAGES, "key": SECRET, SECRET: 1}},
        {"deployment": SERVE, "request": {"extra_body": {"api_key": SECRET}, "prompt": "a", "n": SECRET}},
        {"deployment": SERVE, "request": [{"api_key": SECRET}, SECRET]},
        {"deployment": {**SERVE, "env": {"API_KEY": SECRET}}, "request": {"logprobs": SECRET}},
        {"deployment": {**SERVE, "env": {"API_KEY": SECRET}}, "request": {"messages": MESSAGES, SECRET: 1}},
        {"deployment": {**SERVE, "args": ["serve", "q", "--api-key", SECRET]}, "request": {"logprobs": SECRET}},
        {"deployment": {**SERVE, "args": f"vllm serve q --api-key {SECRET}"}, "request": {"logprobs": SECRET}},
        {"deployment": {**SERVE, "files": {"a": f"api-key: {SECRET}"}}, "request": {"logprobs": SECRET}},
        {"deployment": {**SERVE, "env": {"A": [SECRET]}}, "request": {"api_key": SECRET}},
        {"deployment": {"args": ["serve", f"/m/{SECRET}"]}, "request": {"prompt": "a", "api_key": SECRET}},
        {"deployment": SERVE, "vllm_version": SECRET, "request": {"prompt": "a", "api_key": SECRET}},
        {"manifest": POD, "request": {"logprobs": SECRET}},
        {"manifest": POD, "request": {"messages": MESSAGES, SECRET: 1}},
        {"manifest": POD, "vllm_version": SECRET, "request": {"prompt": "a"}},
    ],
    ids=json.dumps,
)
def test_no_secret_of_a_request_or_its_deployment_is_shown(checker: RequestChecker, document: Any) -> None:
    try:
        request = read_check_request({"vllm_version": "0.33.0", **document}, checker.policy.releases)
        said = encode(check_request(checker, request, TODAY, problem_of)).decode()
    except PolicyError as error:
        said = encode(problem_of(error)).decode()
    assert SECRET not in said
