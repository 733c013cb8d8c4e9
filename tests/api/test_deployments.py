"""`deployment` in a request: arguments and a model's `config.json` are decided.

Each fault in them is reported with its position, and nothing is run or read.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from tables import table

from .conftest import without_id

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    import httpx

NAME = "Qwen/Qwen3-8B"
CONFIG = {
    "architectures": ["Qwen3ForCausalLM"],
    "model_type": "qwen3",
    "hidden_size": 4096,
    "num_attention_heads": 32,
    "num_hidden_layers": 36,
}
CONFIGS = {NAME: CONFIG}
TRANSFER = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
ARGS = ["serve", NAME, "-tp", "2", "--port", "8000", "--api-key", "sesame", "--kv-transfer-config", TRANSFER]
DEPLOYMENT: dict[str, Any] = {"args": ARGS, "model_configs": CONFIGS}
REQUEST: dict[str, Any] = {"vllm_version": "0.23.0", "deployment": DEPLOYMENT}
ENDPOINTS = ("/v1/decisions", "/v1/dry-run")
YAML = {"content-type": "application/yaml"}
NEEDED = "the config.json of `{}` is needed, under the name that the arguments give it"


def request_with(args: list[str] | str, **members: Any) -> dict[str, Any]:
    return {"vllm_version": "0.23.0", "deployment": {"args": args, "model_configs": CONFIGS, **members}}


def problem_of(response: httpx.Response) -> tuple[int, str, list[tuple[str, str]]]:
    """Status, kind and faults of a problem."""
    document = response.json()
    assert response.headers["content-type"] == "application/problem+json"
    return (
        response.status_code,
        document["type"].removeprefix("urn:runner-policy:problem:"),
        [(f["pointer"], f["message"]) for f in document["errors"]],
    )


# the answer


def test_a_deployment_is_decided_by_its_facts_and_names_the_source_of_each(decide: Callable[..., Any]) -> None:
    answer = without_id(decide(REQUEST))
    facts, ignored = answer.pop("facts"), answer.pop("ignored_args")
    row = {"model_config": {"architectures": ["Qwen3ForCausalLM"]}, "parallel_config": {"tensor_parallel_size": 2}}
    same = {**row, "kv_transfer_config": {"kv_connector": "NixlConnector", "kv_role": "kv_both"}}
    assert answer == without_id(decide({"vllm_version": "0.23.0", "facts": same}))
    assert ignored == ["--port 8000", "--api-key"]
    given = f"model_configs/{NAME}/architectures"
    expected = {
        "model_config": {"value": True, "from": "args[1]"},
        "model_config.architectures": {"value": ["Qwen3ForCausalLM"], "from": given},
        "model_config.runner_type": {"value": "generate", "from": given},
        "model_config.has_inner_state": {"value": False, "from": given},
        "model_config.logits_processors": {"value": None, "from": "default"},
        "parallel_config.tensor_parallel_size": {"value": 2, "from": "args[2]"},
        "kv_transfer_config": {"value": True, "from": "args[8]"},
        "kv_transfer_config.kv_connector": {"value": "NixlConnector", "from": "args[8]"},
        "env.VLLM_USE_V2_MODEL_RUNNER": {"value": None, "from": "assumed"},
        "platform.has_triton": {"value": True, "from": "assumed"},
    }
    assert {name: facts[name] for name in expected} == expected
    assert [name for name in facts if name.startswith("speculative_config.")] == []


@pytest.mark.parametrize(
    "args",
    [
        ARGS,
        f"vllm serve {NAME} -tp 2 --port 8000 --api-key sesame --kv-transfer-config '{TRANSFER}'",
        f"exec vllm serve {NAME} \\\n  -tp=2 --port 8000 --api-key sesame \\\n  --kv_transfer_config '{TRANSFER}'",
        [
            "sh",
            "-c",
            (
                f"vllm serve {NAME} --tensor-parallel-size 2 --port 8000 --api-key sesame --kv-transfer-config "
                f"'{TRANSFER}'"
            ),
        ],
        [
            "--model",
            NAME,
            "--tensor-parallel-size",
            "2",
            "--port",
            "8000",
            "--api-key",
            "sesame",
            "--kv-transfer-config",
            TRANSFER,
        ],
    ],
)
def test_the_spelling_of_the_command_does_not_change_the_decision(
    decide: Callable[..., Any], args: list[str] | str
) -> None:
    answers = [without_id(decide(request_with(each))) for each in (ARGS, args)]
    values = [{name: fact["value"] for name, fact in answer.pop("facts").items()} for answer in answers]
    ignored = [answer.pop("ignored_args") for answer in answers]
    assert (answers[0], values[0], ignored[0]) == (answers[1], values[1], ignored[1])


@pytest.mark.parametrize("document", [REQUEST, {**REQUEST, "explain": True}])
def test_yaml_is_answered_like_the_same_json(
    client: httpx.Client, decide: Callable[..., Any], document: dict[str, Any]
) -> None:
    response = client.post("/v1/decisions", content=yaml.safe_dump(document), headers=YAML)
    assert (response.status_code, without_id(response.json())) == (200, without_id(decide(document)))


def test_a_yaml_alias_may_repeat_a_configuration(client: httpx.Client) -> None:
    text = """
        vllm_version: 0.23.0
        deployment:
          args: |
            vllm serve a/target \\
              --speculative-config '{"model": "a/draft", "method": "draft_model", "num_speculative_tokens": 3}'
          model_configs:
            a/target: &config {architectures: [Qwen3ForCausalLM], model_type: qwen3, vocab_size: 10}
            a/draft: {<<: *config, num_hidden_layers: 1}
    """
    response = client.post("/v1/decisions", content=text, headers=YAML)
    facts = response.json()["facts"]
    assert (response.status_code, facts["speculative_config.method"]["value"]) == (200, "draft_model")


def test_a_repeated_deployment_gets_the_same_answer(decide: Callable[..., Any]) -> None:
    request = {**REQUEST, "request_id": "a deployment twice"}
    first, second = decide(request), decide(request)
    assert without_id(first) == without_id(second)
    assert first["decision_id"] < second["decision_id"]


def test_a_table_shows_the_decision(client: httpx.Client) -> None:
    response = client.post("/v1/decisions", json=REQUEST, headers={"accept": "text/plain"})
    assert (response.headers["content-type"], response.text.splitlines()[:2]) == (
        "text/plain; charset=utf-8",
        [
            "V1  fallback  starts  vLLM 0.23.0 (verified)",
            "V1: a KV connector (NixlConnector) keeps this deployment on V1",
        ],
    )


NO_FLAG = "vLLM 0.23.0 has no flag `--no-such-flag` (args[2]) and would not start"


@pytest.mark.parametrize("version", ["0.23.0", "v0.23", None])
def test_a_flag_that_the_release_lacks_prevents_startup(decide: Callable[..., Any], version: str | None) -> None:
    answer = decide(
        {
            **request_with(["serve", NAME, "--no-such-flag"], env={"VLLM_USE_V2_MODEL_RUNNER": "1"}),
            "vllm_version": version,
        }
    )
    assert (answer["runner"], answer["starts"], answer["startup_errors"]) == ("v2", False, [])
    assert (answer["launch_errors"], answer["warnings"]) == ([NO_FLAG], [])
    assert answer["summary"].endswith(f"; vLLM will not start: {NO_FLAG}")
    assert (answer["upstream"]["starts"], answer["without_variable"]["starts"]) == (False, False)


@pytest.mark.parametrize(
    "request_",
    [
        request_with(["serve", NAME, "--no-such-flag"]) | {"vllm_version": "0.23.1"},
        {
            "manifest": {
                "kind": "Pod",
                "spec": {
                    "containers": [
                        {
                            "image": "vllm/vllm-openai:latest",
                            "command": ["vllm"],
                            "args": ["serve", NAME, "--no-such-flag"],
                        }
                    ]
                },
            },
            "model_configs": CONFIGS,
        },
    ],
)
def test_an_unknown_flag_is_a_warning_if_the_release_is_uncertain(
    client: httpx.Client, request_: dict[str, Any]
) -> None:
    answer = client.post("/v1/decisions", json=request_).json()
    decision = answer["items"][0]["decision"] if "items" in answer else answer
    assert (decision["starts"], decision["launch_errors"]) == (True, [])
    assert [warning for warning in decision["warnings"] if "has no flag `--no-such-flag`" in warning]


WORDS = [
    *("--a{b,c}", "--enable-{dbo,eplb}", "-{a,b}", "--port{a,b} 1", "--port *", "--mode*l x", "*", "a*b", "~", "-tp*"),
    *("-O{1,2}", "--logits-processors a* b?", "--config *", "--served-model-name {a,b}", "--$X", "-$X", "$X=1"),
    *(
        "--no-such=$X",
        "--no-such{a,b}",
        "--$X.y z",
        "--x $(y)",
        "--runner=p*",
        "--load-format a*",
        "--reasoning-parser q?",
    ),
    *("--kv-transfer-config.kv_connector Nix*", "--kv-transfer-config {a,b}", "--hf-overrides.architectures+ X*"),
]


@table("shell", ["bash", "sh"])
@table("words", WORDS)
def test_a_script_with_words_that_a_shell_may_expand_is_answered(client: httpx.Client, shell: str, words: str) -> None:
    request_ = request_with([shell, "-c", f"vllm serve {NAME} {words}"])
    answers = [client.post(path, json=request_) for path in ENDPOINTS]
    batch = client.post("/v1/decisions/batch", json={"items": [request_, REQUEST]}).json()
    assert {answer.status_code for answer in answers} <= {200, 422}
    assert batch["items"][1]["runner"] == "v1"


@pytest.mark.parametrize("words", ["--a{b,c}", "--enable-{dbo,eplb}", "-{a,b}"])
def test_a_flag_that_bash_expands_is_not_known(decide: Callable[..., Any], words: str) -> None:
    answer = decide(request_with(["bash", "-c", f"vllm serve {NAME} {words}"]))
    assert (answer["starts"], answer["launch_errors"]) == (True, [])
    assert f"the value of `{words}` (args[2]) is not known, so it is ignored; set the variable" in answer["warnings"]


# dry runs


def test_a_dry_run_explains_a_deployment(client: httpx.Client, decide: Callable[..., Any]) -> None:
    answer = client.post("/v1/dry-run", json=REQUEST).json()
    assert without_id(answer) == without_id(decide({**REQUEST, "explain": True}))
    assert {item["fact"]: (item["assumed"], item["why"]) for item in answer["assumptions"]} == {
        "environment.platform": ("cuda", "not stated"),
        "platform.has_triton": (True, "not stated"),
        "plugins.logits_processors": ([], "not stated"),
        "env.VLLM_USE_V2_MODEL_RUNNER": (None, "not stated"),
    }


@table("args", [["-tp", "2"], ["--enable-dbo"], ["--enable-dbo", "--prefill-context-parallel-size", "2"]])
@table("variable", ["0", "1", "x"])
@table("release", ["0.21.0", "0.23.0", "0.32.0"])
def test_a_deployment_is_decided_without_its_variable_and_by_later_releases_too(
    client: httpx.Client, decide: Callable[..., Any], release: str, variable: str, args: list[str]
) -> None:
    request = request_with(["serve", NAME, *args], env={"VLLM_USE_V2_MODEL_RUNNER": variable})
    found = decide({**request, "vllm_version": release, "explain": True})
    other = decide({**request_with(["serve", NAME, *args]), "vllm_version": release})
    expected = {name: other[name] for name in ("runner", "outcome", "starts")}
    assert found.get("without_variable") == (expected if found["outcome"] == "override" else None)
    known = [each["version"] for each in client.get("/v1/releases").json()["releases"]]
    later = {
        version: {reason["rule"] for reason in decide({**request, "vllm_version": version})["reasons"]}
        for version in known[known.index(release) + 1 :]
    }
    assert {reason["rule"]: reason["lifted_in"] for reason in found["reasons"]} == {
        reason["rule"]: next((version for version, rules in later.items() if reason["rule"] not in rules), None)
        for reason in found["reasons"]
    }


@pytest.mark.parametrize(
    "script",
    ["VLLM_USE_V2_MODEL_RUNNER=0 {}", "export VLLM_USE_V2_MODEL_RUNNER=0; {}", "env VLLM_USE_V2_MODEL_RUNNER=0 {}"],
)
def test_a_variable_that_a_script_sets_is_left_out_too(decide: Callable[..., Any], script: str) -> None:
    command = f"vllm serve {NAME}"
    found, other = decide(request_with(script.format(command))), decide(request_with(command))
    assert (found["runner"], found["outcome"]) == ("v1", "override")
    assert found["without_variable"] == {name: other[name] for name in ("runner", "outcome", "starts")}


def test_a_variable_that_the_command_clears_has_a_warning(client: httpx.Client, decide: Callable[..., Any]) -> None:
    request = {**REQUEST, "deployment": {**DEPLOYMENT, "args": ["env", "-i", "/usr/local/bin/vllm", *ARGS]}}
    warning = (
        "setting `VLLM_USE_V2_MODEL_RUNNER` in the container's `env` has no effect: the command clears it, or may "
        "change it (args[1]); put `env VLLM_USE_V2_MODEL_RUNNER=0` right before vLLM's program"
    )
    answer, plain = without_id(decide(request)), without_id(decide(REQUEST))
    assert (answer["set_env"], answer["warnings"]) == (plain["set_env"], [warning, *plain["warnings"]])
    assert (answer["runner"], answer["starts"]) == (plain["runner"], plain["starts"])
    shown = client.post("/v1/decisions", json=request, headers={"accept": "text/plain"}).text
    assert f"warning: {warning}" in " ".join(shown.split())


def test_candidate_rules_are_compared_on_a_deployment(client: httpx.Client, decide: Callable[..., Any]) -> None:
    answer = client.post("/v1/dry-run", json={"request": REQUEST, "remove": ["kv-connector-fallback"]}).json()
    assert without_id(answer["current"]) == without_id(decide({**REQUEST, "explain": True}))
    assert answer["candidate"]["facts"] == answer["current"]["facts"]
    assert [change for change in answer["changes"] if change["member"] == "runner"] == [
        {"member": "runner", "from": "v1", "to": "v2", "rules": ["kv-connector-fallback"]}
    ]


# batches and streams


MANY: list[tuple[dict[str, Any], str]] = [
    (REQUEST, "v1"),
    (request_with(["serve", NAME]), "v2"),
    ({"deployment": {"args": ["serve", "a/b"]}}, "model-config-needed"),
    ({"deployment": {"args": "'"}}, "invalid-request"),
    ({"facts": {}}, "v1"),
]


def short(answer: dict[str, Any]) -> str:
    found: str = answer["runner"] if "runner" in answer else answer["type"].rpartition(":")[2]
    return found


def test_a_batch_may_mix_deployments_with_other_requests(client: httpx.Client) -> None:
    answer = client.post("/v1/decisions/batch", json={"items": [request for request, _ in MANY]}).json()
    assert [short(item) for item in answer["items"]] == [expected for _, expected in MANY]
    assert answer["items"][2]["errors"][0]["pointer"] == "/items/2/deployment/model_configs/a~1b"


def test_a_stream_may_mix_deployments_with_other_requests(client: httpx.Client) -> None:
    lines = "\n".join(json.dumps(request) for request, _ in MANY)
    response = client.post("/v1/decisions/batch", content=lines, headers={"content-type": "application/x-ndjson"})
    assert [short(json.loads(line)) for line in response.text.splitlines()] == [expected for _, expected in MANY]


# problems


DRAFT = '{"model": "a/draft", "method": "eagle3", "num_speculative_tokens": 3}'
KIND_INVALID, KIND_NEEDED, KIND_UNSUPPORTED = "invalid-request", "model-config-needed", "unsupported-model"


@table("path", ENDPOINTS)
@table(
    ("deployment", "kind", "faults"),
    [
        (
            [],
            KIND_INVALID,
            [
                (
                    "/deployment",
                    'expected an object such as `{"args": ["--model", "Qwen/Qwen3-8B"]}`, got `[]`',
                )
            ],
        ),
        (
            {"args": ["serve", "a/b"]},
            KIND_NEEDED,
            [("/deployment/model_configs/a~1b", NEEDED.format("a/b"))],
        ),
        (
            {"args": ["serve", "a/b", "-sc", DRAFT], "model_configs": CONFIGS},
            KIND_NEEDED,
            [
                (f"/deployment/model_configs/a~1{name}", f"{NEEDED.format(f'a/{name}')}; given: `{NAME}`")
                for name in ("b", "draft")
            ],
        ),
        (
            {"args": ["serve", "a/b"], "model_configs": {"a/b": [1]}},
            KIND_INVALID,
            [("/deployment/model_configs/a~1b", "expected the object of a config.json, got `[1]`")],
        ),
        (
            {
                "args": ["serve", "a/b"],
                "model_configs": {"a/b": {"architectures": ["Nonesuch"], "model_type": "nonesuch"}},
            },
            KIND_UNSUPPORTED,
            [
                (
                    "/deployment/model_configs/a~1b",
                    "vLLM 0.23.0 refuses this model: Model architectures ['Nonesuch'] are not supported for now.",
                )
            ],
        ),
        (
            {"args": ["serve", "a/b"], "model_configs": {"a/b": {"model_type": "nonesuch"}}},
            KIND_UNSUPPORTED,
            [
                (
                    "/deployment/model_configs/a~1b",
                    "vLLM 0.23.0 refuses this model: No model architectures are specified",
                )
            ],
        ),
        (
            {"args": "vllm serve 'Qwen/Qwen3-8B -tp 2", "model_configs": CONFIGS},
            KIND_INVALID,
            [("/deployment/args", "invalid shell command: the quote `'` at character 12 is not closed; close it")],
        ),
        (
            {"args": ["serve", NAME, "-sc", '{"model": '], "model_configs": CONFIGS},
            KIND_INVALID,
            [
                (
                    "/deployment/args/3",
                    '`--speculative-config`: invalid JSON `{"model": `: not JSON: Input data was truncated',
                )
            ],
        ),
        (
            {"args": ["serve", NAME, '--speculative-config={"model": ]'], "model_configs": CONFIGS},
            KIND_INVALID,
            [
                (
                    "/deployment/args/2",
                    (
                        '`--speculative-config`: invalid JSON `{"model": ]`: not JSON: JSON is malformed: invalid '
                        "character (byte 10)"
                    ),
                )
            ],
        ),
        (
            {
                "args": ["serve", 1, NAME, None],
                "env": {"A": 1},
                "files": [],
                "environment": {"platform": "cudo"},
                "x": 1,
            },
            KIND_INVALID,
            [
                ("/deployment/x", "unknown field `x`; legal: `args`, `env`, `model_configs`, `files`, `environment`"),
                ("/deployment/args/1", "expected a string in quotes, got `1`"),
                ("/deployment/args/3", "expected a string in quotes, got `null`"),
                ("/deployment/env/A", "expected a string in quotes, got `1`"),
                ("/deployment/files", "expected an object of files with their texts, got `[]`"),
                (
                    "/deployment/environment/platform",
                    (
                        "unknown platform `cudo`; legal: `cuda`, `rocm`, `xpu`, `cpu`, `tpu`, `out-of-tree`, "
                        "`unspecified`, `ascend`, `gaudi`, `metal`, `neuron`, `openvino`, `rbln`, `spyre`, "
                        "`tenstorrent`; did you mean `cuda`?"
                    ),
                ),
            ],
        ),
    ],
)
def test_a_fault_in_a_deployment_is_reported_with_its_pointer(
    client: httpx.Client, path: str, deployment: Any, kind: str, faults: list[tuple[str, str]]
) -> None:
    assert problem_of(client.post(path, json={"vllm_version": "0.23.0", "deployment": deployment})) == (
        422,
        kind,
        faults,
    )


@pytest.mark.parametrize("member", ["model_configs", "environment"])
def test_a_field_of_a_deployment_outside_it_is_reported(client: httpx.Client, member: str) -> None:
    faults = [(f"/{member}", f"`{member}` belongs in `deployment`")]
    assert problem_of(client.post("/v1/decisions", json={**REQUEST, member: {}})) == (422, KIND_INVALID, faults)


def test_a_request_has_only_one_of_facts_deployment_and_manifest(client: httpx.Client) -> None:
    faults = [
        ("/deployment", "a request has one of `facts`, `deployment`, `manifest`, and this one has `facts` already"),
        ("/manifest", "a request has one of `facts`, `deployment`, `manifest`, and this one has `facts` already"),
    ]
    assert problem_of(client.post("/v1/decisions", json={**REQUEST, "facts": {}, "manifest": {}})) == (
        422,
        KIND_INVALID,
        faults,
    )


BOMB = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefgh", "bcdefghi", strict=True)
)


@table(
    ("text", "status", "kind", "message"),
    [
        (
            "deployment: &d\n  args: *d\n",
            400,
            "malformed",
            "line 2, column 9: the alias `*d` refers to a value that contains it",
        ),
        ("deployment:\n  args: [*a]\n", 400, "malformed", "line 2, column 10: the alias `*a` has no anchor before it"),
        (BOMB, 400, "malformed", "line 5, column 8: more than 20000 values"),
        ("deployment: {args: !!python/object/apply:os.system [touch FILE]}\n", 400, "malformed", None),
        ("deployment: {args: !!python/name:os.system ''}\n", 400, "malformed", None),
        ("# " + "x" * (10 << 20), 413, "too-large", None),
        (
            "# " + "x" * (300 << 10),
            413,
            "too-large",
            "a YAML body may have at most 262144 bytes; send JSON",
        ),
    ],
    ids=["cyclic", "no anchor", "bomb", "object", "name", "10 MB", "300 KB"],
)
@table("path", ENDPOINTS)
def test_harmful_yaml_is_refused(
    client: httpx.Client, path: str, text: str, status: int, kind: str, message: str | None
) -> None:
    found = problem_of(client.post(path, content=text, headers=YAML))
    assert found[:2] == (status, kind)
    assert message in {None, found[2][0][1]}


# nothing is run or read


@pytest.mark.parametrize(
    "args",
    [
        "vllm serve Qwen/Qwen3-8B --port $(touch FILE)",
        "vllm serve Qwen/Qwen3-8B --port `touch FILE`",
        "vllm serve Qwen/Qwen3-8B; touch FILE",
        "touch FILE && vllm serve Qwen/Qwen3-8B",
        "vllm serve Qwen/Qwen3-8B > FILE",
        'vllm serve "Qwen/Qwen3-8B" --port "$(touch FILE)"',
        "vllm serve Qwen/Qwen3-8B --port ${PORT:-$(touch FILE)}",
        ["sh", "-c", "vllm serve Qwen/Qwen3-8B --port $(touch FILE)"],
        ["serve", "Qwen/Qwen3-8B", "--port", "$(touch FILE)"],
        ["serve", "Qwen/Qwen3-8B", "--port", "!!python/object/apply:os.system [touch FILE]"],
        ["serve", "Qwen/Qwen3-8B", "-sc", "!!python/object/apply:os.system ['touch FILE']"],
        ["serve", "Qwen/Qwen3-8B", "-sc", "__import__('os').system('touch FILE')"],
    ],
)
@pytest.mark.parametrize("path", ENDPOINTS)
def test_no_argument_is_run(client: httpx.Client, tmp_path: Path, path: str, args: list[str] | str) -> None:
    mark = str(tmp_path / "mark")
    written = args.replace("FILE", mark) if isinstance(args, str) else [word.replace("FILE", mark) for word in args]
    assert client.post(path, json=request_with(written)).status_code in {200, 422}
    assert list(tmp_path.iterdir()) == []


def test_code_named_in_a_configuration_is_not_looked_up(decide: Callable[..., Any]) -> None:
    config = {**CONFIG, "auto_map": {"AutoConfig": "configuration_x.X"}}
    assert decide(request_with(["serve", NAME, "--trust-remote-code"], model_configs={NAME: config}))["runner"] == "v2"


def test_no_folder_of_the_server_is_read(client: httpx.Client, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(CONFIG))
    name = str(tmp_path)
    pointer = f"/deployment/model_configs/{name.replace('/', '~1')}"
    assert problem_of(client.post("/v1/decisions", json={"deployment": {"args": ["serve", name]}})) == (
        422,
        KIND_NEEDED,
        [(pointer, NEEDED.format(name))],
    )


def test_no_option_file_of_the_server_is_read(client: httpx.Client, tmp_path: Path) -> None:
    file = tmp_path / "serve.yaml"
    file.write_text("tensor-parallel-size: 2\n")
    status, kind, faults = problem_of(
        client.post("/v1/decisions", json=request_with(["serve", NAME, "--config", str(file)]))
    )
    assert (status, kind, [pointer for pointer, _ in faults]) == (422, KIND_INVALID, ["/deployment/args/3"])


def test_a_merge_key_of_an_option_file_is_applied(decide: Callable[..., Any]) -> None:
    files = {"s.yaml": f"model: {NAME}\n<<: {{enable-dbo: true}}\n"}
    env = {"VLLM_USE_V2_MODEL_RUNNER": "1"}
    expected = decide(request_with(["serve", NAME, "--enable-dbo"], env=env))
    answer = decide(request_with(["serve", "--config", "s.yaml"], env=env, files=files))
    assert answer["facts"]["parallel_config.enable_dbo"] == {"value": True, "from": "files/s.yaml/enable-dbo"}
    assert [answer[field] for field in ("runner", "starts", "startup_errors", "warnings")] == [
        expected[field] for field in ("runner", "starts", "startup_errors", "warnings")
    ]


def test_an_option_file_is_read_from_the_request(decide: Callable[..., Any]) -> None:
    answer = decide(
        request_with(["serve", NAME, "--config", "serve.yaml"], files={"serve.yaml": "tensor-parallel-size: 2\n"})
    )
    assert answer["facts"]["parallel_config.tensor_parallel_size"] == {
        "value": 2,
        "from": "files/serve.yaml/tensor-parallel-size",
    }
