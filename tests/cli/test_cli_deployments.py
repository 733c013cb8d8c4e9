"""`runner-policy decide` and `dry-run` on deployments and manifests: output, model configurations, exit codes."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hubserver import TOKEN, Reply, hub_server
from kubernetes_objects import NAME, container, deployment
from tables import table

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

    Call = Callable[..., Done]

CONFIG: dict[str, Any] = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
POOLING = json.dumps([{"idx": "0", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
GIVE = "give it with `--model-config NAME=FILE` or `--models FOLDER`, or download it with `--hub`"
NEEDED = "the config.json of `{}` is needed, under the name that the arguments give it"
REMOVED = ("--remove", "kv-connector-fallback")


NGINX = deployment({"name": "nginx", "image": "nginx:1.29"}, name="web")
LIST = {
    "apiVersion": "v1",
    "kind": "List",
    "items": [NGINX, deployment(container()), deployment(container("-tp", "2"), container(), name="pair")],
}
GOOD = yaml.safe_dump(LIST)
BAD = yaml.safe_dump(
    {
        **LIST,
        "items": [
            *LIST["items"],
            deployment(container(model="a/b"), container(image="vllm/vllm-openai:v0.2.0"), name="odd"),
        ],
    }
)
PATH = "spec.template.spec.containers"
VARIABLE = "VLLM_USE_V2_MODEL_RUNNER"
NGRAM = '{"method": "ngram", "num_speculative_tokens": 3, "prompt_lookup_max": 4}'
REFUSED = yaml.safe_dump(
    {
        **LIST,
        "items": [
            deployment(container()),
            deployment(container("--speculative-config", NGRAM, env=[{"name": VARIABLE, "value": "1"}]), name="ngram"),
        ],
    }
)
"""A list with an engine that starts and one that V2 refuses."""


def request_text(*args: str, model: str = NAME, **members: Any) -> str:
    return json.dumps({"vllm_version": "0.24.0", "deployment": {"args": ["serve", model, *args], **members}})


@pytest.fixture
def model_config(tmp_path: Path) -> str:
    """The value of `--model-config` for the model."""
    file = tmp_path / "qwen.json"
    file.write_text(json.dumps(CONFIG))
    return f"{NAME}={file}"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model's folder: a sentence transformer."""
    found = tmp_path / "model"
    found.mkdir()
    (found / "config.json").write_text(json.dumps(CONFIG))
    (found / "modules.json").write_text(POOLING)
    return found


def fact(done: Done, name: str) -> Any:
    return json.loads(done.out)["facts"][name]["value"]


# a manifest


def test_in_a_pipe_a_list_gives_one_line_of_json_per_container(call: Call, model_config: str) -> None:
    done = call("decide", "-", "--model-config", model_config, stdin=GOOD)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert [line["path"] for line in lines] == [f"items[1].{PATH}[0]", f"items[2].{PATH}[0]", f"items[2].{PATH}[1]"]
    assert [sorted(line) for line in lines] == [["decision", "kind", "name", "namespace", "path"]] * 3
    assert [line["decision"]["facts"]["parallel_config.tensor_parallel_size"]["value"] for line in lines] == [1, 2, 1]
    assert "\x1b" not in done.out


def test_an_undecided_container_has_a_problem_and_the_exit_code_is_1(call: Call, model_config: str) -> None:
    done = call("decide", "-", "--model-config", model_config, stdin=BAD)
    *good, needed, unknown = (json.loads(line) for line in done.out.splitlines())
    assert (done.code, done.err, len(good)) == (1, "", 3)
    pointer, message = "/items/3/spec/template/spec/containers/0", f"{NEEDED.format('a/b')}; {GIVE}"
    assert (needed["path"], needed["problem"]) == (
        f"items[3].{PATH}[0]",
        {
            "type": "urn:runner-policy:problem:model-config-needed",
            "title": "The config.json of a model is needed",
            "status": 422,
            "detail": f"{pointer}: {message}",
            "errors": [{"pointer": pointer, "message": message}],
        },
    )
    assert unknown["problem"]["detail"] == (
        "/items/3/spec/template/spec/containers/1: the image `vllm/vllm-openai:v0.2.0`: unknown release `0.2.0`; "
        "known releases: 0.3.0 to 0.33.0; name one of them with `--vllm-version`, or use the closest with `--nearest`"
    )


def test_a_variable_that_the_command_clears_has_a_warning(call: Call, model_config: str) -> None:
    command = ["env", "-i", "/usr/local/bin/vllm", "serve", NAME, "--kv-transfer-config", NIXL]
    text = json.dumps({"vllm_version": "0.23.0", "deployment": {"args": command}})
    decision = json.loads(call("decide", "-", "--model-config", model_config, stdin=text).out)
    warning = (
        f"setting `{VARIABLE}` in the container's `env` has no effect: the command clears it, or may change it "
        f"(args[1]); put `env {VARIABLE}=0` right before vLLM's program"
    )
    assert (decision["set_env"], decision["warnings"]) == ({VARIABLE: "0"}, [warning])


@pytest.mark.parametrize("flags", [[], ["--explain"]])
@pytest.mark.parametrize(
    ("text", "code"),
    [
        (request_text(env={VARIABLE: "1"}), 0),
        (request_text("--speculative-config", NGRAM, env={VARIABLE: "1"}), 1),
        (request_text("--no-such-flag"), 1),
        (GOOD, 0),
        (REFUSED, 1),
        (yaml.safe_dump(NGINX), 0),
    ],
)
def test_with_exit_code_an_engine_that_does_not_start_gives_1(
    call: Call, model_config: str, text: str, code: int, flags: list[str]
) -> None:
    each = ("decide", "-", *flags, "--model-config", model_config)
    plain, asked = call(*each, stdin=text), call(*each, "--exit-code", stdin=text)
    assert (plain.code, asked.code, asked.err) == (0, code, plain.err)
    answers = [json.loads(line) for line in plain.out.splitlines()]
    assert all(answer.get("decision", answer)["starts"] for answer in answers) is (code == 0)


@pytest.mark.parametrize("form", ["kubectl's list", "documents", "a request"])
def test_a_manifest_is_read_from_a_list_from_documents_or_from_a_request(
    call: Call, model_config: str, form: str
) -> None:
    request = {"manifest": LIST, "model_configs": {NAME: CONFIG}}
    text = {"kubectl's list": GOOD, "documents": yaml.safe_dump_all(LIST["items"]), "a request": json.dumps(request)}[
        form
    ]
    done = call("decide", "-", "--model-config", model_config, stdin=text)
    assert (done.code, len(done.out.splitlines())) == (0, 3)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_on_a_terminal_each_engine_of_a_list_has_its_name_and_its_reason(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, model_config: str, width: int
) -> None:
    (tmp_path / "list.yaml").write_text(BAD)
    code, out = on_terminal("decide", str(tmp_path / "list.yaml"), "--model-config", model_config, COLUMNS=str(width))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).replace("\r", "\n")
    table, _, below = text[text.index("runner ") :].partition("\n\n")
    why = "V2:nothingkeepsthisdeploymentfromV2,thedefault"
    assert (code, "\x1b[" in out) == (1, True)
    assert "".join(table.split()).partition("why")[2].strip("─") == "".join(
        [
            *(f"V2defaultyes0.24.0prod/Deployment/{name}/vllm{why}" for name in ("qwen", "pair", "pair")),
            *["----prod/Deployment/odd/vllmnotdecided,seebelow"] * 2,
        ]
    )
    problems = "".join(below.split())
    assert "prod/Deployment/odd/vllm:/items/3/spec/template/spec/containers/0:" in problems
    assert "unknownrelease`0.2.0`;knownreleases:0.3.0to0.33.0" in problems
    assert max(map(len, text.splitlines())) <= width


@pytest.mark.parametrize("width", [60, 80, 160])
@pytest.mark.parametrize("flags", [[], ["--explain"]])
@pytest.mark.parametrize("text", [REFUSED, request_text("--speculative-config", NGRAM, env={VARIABLE: "1"})])
def test_on_a_terminal_each_reason_has_its_whole_remedy(
    call: Call,
    on_terminal: Callable[..., tuple[int, str]],
    tmp_path: Path,
    model_config: str,
    text: str,
    flags: list[str],
    width: int,
) -> None:
    (tmp_path / "x.yaml").write_text(text)
    each = ("decide", str(tmp_path / "x.yaml"), *flags, "--model-config", model_config)
    answer = json.loads(call(*each).out.splitlines()[-1])
    remedies = {
        reason["rule"]: reason["remedy"] for reason in answer.get("decision", answer)["reasons"] if reason["remedy"]
    }
    code, out = on_terminal(*each, COLUMNS=str(width))
    shown = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).replace("\r", "\n")
    assert (code, "spec-ngram" in remedies) == (0, True)
    squeezed = "".join(shown.split())
    assert [squeezed.count("".join(f"remedy ({rule}): {remedy}".split())) for rule, remedy in remedies.items()] == [
        1
    ] * len(remedies)
    assert max(map(len, shown.splitlines())) <= width


def test_each_engine_of_a_list_is_explained_on_a_terminal(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, model_config: str
) -> None:
    (tmp_path / "list.yaml").write_text(GOOD)
    shown = []
    for flags in ([], ["--explain"]):
        code, out = on_terminal(
            "decide", str(tmp_path / "list.yaml"), *flags, "--model-config", model_config, COLUMNS="160"
        )
        text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", out).replace("\r", "\n")
        shown.append((code, text.count("nothing keeps this deployment from V2"), text.count("assumed")))
    assert shown == [(0, 3, 0), (0, 9, shown[1][2])]
    assert shown[1][2] >= 3  # each engine has assumptions


def test_json_on_a_terminal_is_the_same_as_in_a_pipe(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, model_config: str
) -> None:
    (tmp_path / "list.yaml").write_text(GOOD)
    code, out = on_terminal("decide", str(tmp_path / "list.yaml"), "--json", "--model-config", model_config)
    lines = [json.loads(line[line.index('{"path"') :]) for line in out.splitlines() if '{"path"' in line]
    assert (code, [line["decision"]["runner"] for line in lines]) == (0, ["v2"] * 3)


def test_reading_a_large_list_is_shown_on_a_terminal(
    on_interactive_terminal: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "list.yaml").write_text(yaml.safe_dump({**LIST, "items": [NGINX] * 1000}))
    code, out = on_interactive_terminal("decide", str(tmp_path / "list.yaml"))
    assert (code, f"reading {tmp_path}/list.yaml" in out, "no vLLM container found" in out) == (0, True, True)


@pytest.mark.parametrize("text", [yaml.safe_dump(NGINX), yaml.safe_dump({**LIST, "items": []}), "[]"])
def test_a_manifest_without_vllm_is_reported(call: Call, text: str) -> None:
    text = text if text != "[]" else json.dumps({"manifest": []})
    done = call("decide", "-", stdin=text)
    assert (done.code, done.out, done.err) == (0, "", "no vLLM container found\n")


@pytest.mark.parametrize(
    "text",
    [
        "include: [common.yaml]\n",
        "services: {db: {image: 'postgres:17'}}\ninclude: [common.yaml]\n",
        "services: {a: {extends: {file: common.yaml, service: base}}}\n",
        "services: {a: {command: --model Qwen/Qwen3-8B --enable-dbo}}\n",
        "services: {a: {build: ., command: --model Qwen/Qwen3-8B --enable-dbo}}\n",
        yaml.safe_dump(deployment({"name": "a", "image": "{{ .Values.image }}", "args": ["--enable-dbo"]})),
    ],
)
def test_an_image_that_is_not_shown_ends_with_1(call: Call, text: str) -> None:
    done = call("decide", "-", stdin=text)
    assert (done.code, done.out.count("\n"), "problem" in json.loads(done.out), done.err) == (1, 1, True, "")


def test_the_explain_flag_applies_to_each_container(call: Call, model_config: str) -> None:
    done = call("decide", "-", "--explain", "--model-config", model_config, stdin=GOOD)
    assert [
        ("trace" in line["decision"], "assumptions" in line["decision"])
        for line in map(json.loads, done.out.splitlines())
    ] == [(True, True)] * 3


@table(
    ("text", "message"),
    [
        ("apiVersion: apps/v1\nkind: Deploymet\n", "/kind: unknown kind `Deploymet`; legal: `Pod`, "),
        ("a: *b\n", "-:1:4: the alias `*b` has no anchor before it"),
        ("a: &a [*a]\n", "-:1:8: the alias `*a` refers to a value that contains it"),
        (
            "a: !!python/object/apply:os.system [true]\n",
            "-:1:4: the tag `tag:yaml.org,2002:python/object/apply:os.system` is not supported; remove it",
        ),
        ('{"deployment": ', "-: not JSON: "),
        (
            "- 1\n- 2\n",
            (
                'expected an object, got `[1, 2]`; write a request such as `{"facts": {"model_config": {}}}`, or the '
                "objects of a manifest, beside which one of several YAML documents may have fields such as "
                "`model_configs`\n"
            ),
        ),
        ("1\n", "expected an object, got `1`; write a request such as "),
        ('{"deployment": {"args": "\'"}}', "/deployment/args: invalid shell command: "),
        (
            '{"deployment": {"args": ["serve", "a/b"]}}',
            f"/deployment/model_configs/a~1b: {NEEDED.format('a/b')}; {GIVE}\n",
        ),
    ],
)
@table("flags", [[], ["--vllm-version", "0.24.0", "--platform", "rocm"]])
def test_unreadable_input_is_wrong_usage(call: Call, text: str, message: str, flags: list[str]) -> None:
    done = call("decide", "-", *flags, stdin=text)
    assert (done.code, done.out, done.err.removeprefix("/manifest").startswith(message)) == (2, "", True), done.err


# flags


@pytest.mark.parametrize(
    ("text", "overridden"),
    [
        (json.dumps({"deployment": {"args": ["serve", NAME]}}), []),
        (request_text(), ["the input's `0.24.0`"]),
        (json.dumps({"facts": {}}), []),
        (json.dumps({"facts": {}, "vllm_version": "0.25.0"}), []),
        (json.dumps({"facts": {}, "vllm_version": "nonsense"}), ["the input's `nonsense`"]),
        (yaml.safe_dump(deployment(container(image="vllm/vllm-openai:v0.24.0"))), ["the image's 0.24.0"]),
        (yaml.safe_dump(deployment(container(image="vllm/vllm-openai:v0.25.0"))), []),
        (yaml.safe_dump(deployment(container(image="vllm/vllm-openai:v0.99.0"))), ["the image's 0.99.0"]),
        (yaml.safe_dump(deployment(container(image="vllm/vllm-openai:latest"))), []),
        (json.dumps({"manifest": deployment(container(image="mine:1", command=["vllm", "serve"]))}), []),
        (
            json.dumps({"manifest": deployment(container()), "vllm_version": "0.26.0"}),
            ["the input's `0.26.0`", "the image's 0.24.0"],
        ),
        (json.dumps({"facts": {}, "vllm_version": None}), []),
    ],
)
def test_the_version_flag_overrides_the_input_and_the_image_with_a_warning(
    call: Call, model_config: str, text: str, overridden: list[str]
) -> None:
    done = call("decide", "-", "--vllm-version", "0.25.0", "--model-config", model_config, stdin=text)
    found = json.loads(done.out)
    answer = found.get("decision", found)
    warnings = [text for text in answer["warnings"] if "overrides" in text]
    expected = [f"decided for vLLM 0.25.0, which overrides {what}" for what in overridden]
    assert (done.code, answer["vllm_version"], sorted(warnings)) == (0, "0.25.0", sorted(expected))


@pytest.mark.parametrize("command", ["decide", "dry-run"])
def test_release_is_another_name_of_the_version_flag(call: Call, command: str) -> None:
    done = call(command, "-", "--release", "0.11.0", stdin='{"facts": {}}')
    assert (done.code, json.loads(done.out)["vllm_version"]) == (0, "0.11.0")


OLD_IMAGE = "vllm/vllm-openai:v0.2.7"
NEWEST = ("0.99.0", "0.33.0")
OLDEST = ("0.2.7", "0.3.0")


@pytest.mark.parametrize(
    ("command", "text", "flags", "expected"),
    [
        ("decide", '{"facts": {}, "vllm_version": "0.2.7"}', [], OLDEST),
        ("decide", '{"facts": {}, "vllm_version": "0.99.0"}', [], NEWEST),
        ("decide", '{"facts": {}, "beyond_verified": null}', ["--release", "0.99.0"], NEWEST),
        ("decide", '{"facts": {}}', ["--vllm-version", "0.2.7"], OLDEST),
        ("decide", yaml.safe_dump(deployment(container(image=OLD_IMAGE))), [], OLDEST),
        ("decide", json.dumps({"manifest": [deployment(container(image=OLD_IMAGE))]}), [], OLDEST),
        ("dry-run", '{"facts": {}, "vllm_version": "0.2.7"}', [], OLDEST),
        ("dry-run", '{"facts": {}, "vllm_version": "0.99.0"}', ["--remove", "kv-connector-fallback"], NEWEST),
    ],
)
def test_an_unknown_release_can_be_decided_as_the_closest_one(
    call: Call, command: str, text: str, flags: list[str], expected: tuple[str, str]
) -> None:
    done = call(command, "-", "--nearest", *flags, stdin=text)
    found = json.loads(done.out)
    asked, decided_as = expected
    for answer in (found["current"], found["candidate"]) if "--remove" in flags else (found.get("decision", found),):
        release = {"decided_as": decided_as, "verified": False, "defaulted": False}
        if OLD_IMAGE in text:
            release["from"] = "image vllm-openai"
        assert (done.code, answer["release"]) == (0, release)
        warning = f"vLLM {asked} was not checked against these rules; decided as {decided_as}"
        assert (answer["vllm_version"], warning in answer["warnings"]) == (asked, True)


def test_a_known_release_is_decided_as_itself(call: Call) -> None:
    text = '{"facts": {}, "vllm_version": "0.24.0"}'
    with_flag, without = (json.loads(call("decide", "-", *flags, stdin=text).out) for flags in (["--nearest"], []))
    assert with_flag | {"decision_id": ""} == without | {"decision_id": ""}


@pytest.mark.parametrize("command", ["decide", "dry-run"])
@pytest.mark.parametrize("flags", [[], ["--remove", "kv-connector-fallback"]])
def test_the_version_flag_also_applies_to_dry_runs(
    call: Call, model_config: str, command: str, flags: list[str]
) -> None:
    if command == "decide" and flags:
        return
    done = call(command, "-", "--vllm-version", "0.25.0", "--model-config", model_config, *flags, stdin=request_text())
    found = json.loads(done.out)
    for answer in (found["current"], found["candidate"]) if flags else (found,):
        assert answer["vllm_version"] == "0.25.0"
        assert "decided for vLLM 0.25.0, which overrides the input's `0.24.0`" in answer["warnings"]


@table("text", [request_text(), yaml.safe_dump(deployment(container())), json.dumps({"manifest": LIST})])
@table("version", ["0.1", "latest", "", "\x1b[31m"])
def test_an_invalid_version_flag_is_refused_even_if_the_input_has_a_version(
    call: Call, text: str, version: str
) -> None:
    done = call("decide", "-", "--vllm-version", version, stdin=text)
    assert (done.code, done.out, done.err.startswith("--vllm-version: ")) == (2, "", True), done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("text", "rocm"),
    [
        (request_text(), True),
        (request_text(environment={"has_triton": True}), True),
        (request_text(environment={"platform": "cuda"}), False),
        (request_text(environment=None), True),
        (request_text(environment={"platform": None}), True),
        (yaml.safe_dump(deployment(container())), True),
        (json.dumps({"manifest": deployment(container()), "environment": {"platform": "cuda"}}), False),
        (json.dumps({"manifest": deployment(container()), "vllm_version": "0.24.0"}), True),
    ],
)
def test_the_platform_flag_applies_if_the_input_names_none(
    call: Call, model_config: str, text: str, *, rocm: bool
) -> None:
    done = call("decide", "-", "--platform", "rocm", "--model-config", model_config, stdin=text)
    answer = json.loads(done.out)
    assert (done.code, answer.get("decision", answer)["facts"]["platform.is_rocm"]["value"]) == (0, rocm)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--platform", "cudo"], "Invalid value for '--platform'"),
        (["--model-config", "qwen.json"], "--model-config `qwen.json`: write NAME=FILE"),
        (["--model-config", "=qwen.json"], "--model-config `=qwen.json`: write NAME=FILE"),
        (["--model-config", f"{NAME}="], f"--model-config `{NAME}=`: write NAME=FILE"),
        (["--vllm-version", "0.1"], "--vllm-version: unknown release `0.1`; known releases: 0.3.0 to 0.33.0"),
        (["--vllm-version", "latest"], "--vllm-version: invalid version `latest`"),
    ],
)
def test_an_invalid_flag_is_wrong_usage(call: Call, flags: list[str], message: str) -> None:
    done = call("decide", "-", *flags, stdin='{"deployment": {"args": []}}')
    assert (done.code, done.out, message in done.err) == (2, "", True), done.err


@pytest.mark.parametrize(
    "text",
    [
        '{"deployment": {"args": ["serve", "a"], "environment": "cuda"}}',
        '{"deployment": {"environment": false}}',
        '{"deployment": 1}',
        '{"facts": {}}',
    ],
)
def test_the_platform_flag_with_an_invalid_request_gives_no_traceback(call: Call, text: str) -> None:
    done = call("decide", "-", "--platform", "rocm", stdin=text)
    assert (done.code, done.out, done.err.startswith(("/deployment", "/environment"))) == (2, "", True), done.err


# messages of the command line

UNKNOWN = yaml.safe_dump(deployment(container(image="vllm/vllm-openai:v0.99.0")))
UNTAGGED = yaml.safe_dump(deployment(container(image="vllm/vllm-openai:latest")))
OTHER_MODEL = yaml.safe_dump(deployment(container(args=["--model", "a/b"])))
HTTP_TERMS = re.compile(
    r"\b(?:sends?|sent|body|headers?|endpoint|content-type|accept|POST|GET)\b|`model_configs`|beyond_verified|"
    r"`vllm_version`|`environment\.platform`|^/(?:model_configs|remove)/",
    re.MULTILINE,
)
"""Words and fields of the HTTP interface."""


@pytest.mark.parametrize(
    ("command", "text", "message"),
    [
        ("decide", '{"deployment": {"args": ["serve", "a/b"]}}', f"; {GIVE}"),
        ("dry-run", '{"deployment": {"args": ["serve", "a/b"]}}', f"; {GIVE}"),
        ("decide", OTHER_MODEL, f"; {GIVE}"),
        ("decide --model-config a/b=none", OTHER_MODEL, "the model `a/b`: `none` cannot be read: "),
        (
            "decide",
            '{"facts": {}, "vllm_version": "0.99"}',
            "; name one of them with `--vllm-version`, or use the closest with `--nearest`",
        ),
        (
            "dry-run",
            '{"facts": {}, "vllm_version": "0.99"}',
            "; name one of them with `--vllm-version`, or use the closest with `--nearest`",
        ),
        ("decide", UNKNOWN, "; name one of them with `--vllm-version`, or use the closest with `--nearest`"),
        ("decide --model-config NAMED", UNTAGGED, "; state it with `--vllm-version`"),
        ("dry-run", UNTAGGED, "expected one deployment, got a manifest; `decide --explain` explains each"),
        ("dry-run --remove nothing", '{"facts": {}}', "--remove: unknown rule `nothing`"),
        ("decide", "", "empty; expected a document"),
        ("decide", "\ufeff{}", ""),
        ("decide", "{}", "expected one of `facts`, `deployment`, `manifest`; add one, "),
        ("rules diff ./rules ./rules --fleet", OTHER_MODEL, f"; {GIVE}"),
        ("rules diff ./rules ./rules --fleet", UNKNOWN, "; name one of them in the file"),
    ],
)
def test_messages_name_options_and_not_request_fields(
    call: Call, model_config: str, tmp_path: Path, command: str, text: str, message: str
) -> None:
    (tmp_path / "in").write_text(text)
    words = command.replace("NAMED", model_config).split()
    file = [str(tmp_path / "in")]
    done = call(*words, *file) if words[0] == "rules" else call(words[0], *file, *words[1:])
    shown = " ".join((done.out + done.err).split())
    assert message in shown
    assert HTTP_TERMS.findall(done.err or shown.partition('"warnings"')[2] or shown) == []


@pytest.mark.parametrize(
    ("filters", "message"),
    [
        (["--vllm-version", "\0"], "--vllm-version: "),
        (["--requested-by", "x" * 300], "--requested-by: "),
        (["--since", "soon"], "--since: "),
        (["--runner", "v3"], "--runner: `v3` is not legal; legal: "),
    ],
)
def test_an_invalid_log_filter_is_named_by_its_option(call: Call, filters: list[str], message: str) -> None:
    done = call("log", "query", *filters)
    assert (done.code, done.out, done.err.startswith(message)) == (2, "", True), done.err


# model configurations


def test_the_model_config_flag_names_a_file_or_a_folder(call: Call, model_config: str, folder: Path) -> None:
    for value, runner in (
        (model_config, "generate"),
        (f"{NAME}={folder}", "pooling"),
        (f"{NAME}/={folder}", "pooling"),
    ):
        done = call("decide", "-", "--model-config", value, stdin=request_text())
        assert (done.code, fact(done, "model_config.runner_type")) == (0, runner)


def test_each_of_several_models_has_a_flag(call: Call, model_config: str, tmp_path: Path) -> None:
    (tmp_path / "draft.json").write_text(
        json.dumps({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"})
    )
    draft = '{"model": "a/draft", "method": "eagle3", "num_speculative_tokens": 3}'
    done = call(
        "decide",
        "-",
        "--model-config",
        model_config,
        "--model-config",
        f"a/draft={tmp_path / 'draft.json'}",
        stdin=request_text("-sc", draft),
    )
    assert (done.code, fact(done, "speculative_config.method")) == (0, "eagle3")


def test_a_model_that_is_a_local_folder_is_read(call: Call, folder: Path) -> None:
    for model in (str(folder), f"{folder}/"):
        done = call("decide", "-", stdin=request_text(model=model))
        assert (done.code, fact(done, "model_config.runner_type")) == (0, "pooling")


def test_a_configuration_in_the_request_takes_precedence(call: Call, model_config: str) -> None:
    mamba = {"architectures": ["MambaForCausalLM"], "model_type": "mamba"}
    done = call("decide", "-", "--model-config", model_config, stdin=request_text(model_configs={NAME: mamba}))
    assert fact(done, "model_config.architectures") == ["MambaForCausalLM"]


def test_a_folder_of_the_hubs_cache_is_read_or_its_model_is_named(call: Call, tmp_path: Path) -> None:
    folder = tmp_path / "models--a--b" / "snapshots" / "main"
    folder.mkdir(parents=True)
    text = json.dumps({"deployment": {"args": ["serve", str(folder)]}})
    assert call("decide", "-", stdin=text).code == 2
    (folder / "config.json").write_text(json.dumps(CONFIG))
    assert json.loads(call("decide", "-", stdin=text).out)["runner"] == "v2"
    elsewhere = json.dumps({"deployment": {"args": ["serve", "/nowhere/models--a--b/snapshots/main"]}})
    assert (
        call("decide", "-", stdin=elsewhere).err == f"/deployment/model_configs/a~1b: {NEEDED.format('a/b')}; {GIVE}\n"
    )
    named = ("--model-config", f"a/b={folder}")
    assert json.loads(call("decide", "-", *named, stdin=elsewhere).out)["runner"] == "v2"


@pytest.mark.parametrize("file", ["a/b.json", "a/b/config.json"])
def test_models_are_read_from_a_folder(call: Call, tmp_path: Path, file: str) -> None:
    (tmp_path / file).parent.mkdir(parents=True)
    (tmp_path / file).write_text(json.dumps(CONFIG))
    (tmp_path / "secret.json").write_text(json.dumps(CONFIG))
    (tmp_path / "models").mkdir()
    text = json.dumps({"deployment": {"args": ["serve", "a/b"]}})
    assert json.loads(call("decide", "-", "--models", str(tmp_path), stdin=text).out)["runner"] == "v2"
    for name in ("../secret", "a/../../secret", "/secret", "a//b", "a/./b"):
        outside = json.dumps({"deployment": {"args": ["serve", name]}})
        assert call("decide", "-", "--models", str(tmp_path / "models"), stdin=outside).code == 2
    message = f"--models: `{tmp_path}/no` is not a folder\n"
    assert call("decide", "-", "--models", f"{tmp_path}/no", stdin=text).err == message


def test_the_missing_models_of_a_fleet_are_named_once_with_a_command(call: Call, tmp_path: Path) -> None:
    engines = [deployment(container(model=name)) for name in ("a/b", "c/d", "a/b", "/mnt/models", "x/$(y)")]
    done = call("decide", "-", stdin=yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": engines}))
    assert done.err.splitlines() == [
        "the config.json of these models is needed: `a/b`, `c/d`, `/mnt/models`, `x/$(y)`",
        (
            'for model in a/b c/d; do hf download "$model" config.json --local-dir "models/$model"; done'
            "  # then add `--models models`"
        ),
    ]
    for name in ("a/b", "c/d", "x/$(y)"):
        (tmp_path / name).mkdir(parents=True)
        (tmp_path / name / "config.json").write_text(json.dumps(CONFIG))
    done = call("decide", "-", "--models", str(tmp_path), stdin=yaml.safe_dump(engines))
    assert ["decision" in json.loads(line) for line in done.out.splitlines()] == [True, True, True, False, True]


def test_an_unreadable_configuration_is_reported(call: Call, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "empty").mkdir()
    for entry, message in (
        ("list.json", f"`{tmp_path}/list.json` must be an object, got `[1]`"),
        ("empty", f"`{tmp_path}/empty` has no `config.json`; name the folder that the model was saved in"),
        ("nothing", f"`{tmp_path}/nothing` cannot be read: No such file or directory"),
    ):
        done = call("decide", "-", "--model-config", f"{NAME}={tmp_path / entry}", stdin=request_text())
        assert (done.code, done.out, done.err) == (2, "", f"the model `{NAME}`: {message}\n")


@pytest.mark.slow
def test_the_hub_is_queried_only_if_a_flag_or_variable_enables_it(run: Call, tmp_path: Path) -> None:
    with hub_server() as hub:
        hub.give(Reply())
        variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}
        off = [
            run("decide", "-", *flags, stdin=request_text(), **variables, **switch)
            for flags, switch in (([], {}), (["--no-hub"], {"RUNNER_POLICY_HUB": "1"}))
        ]
        assert ([done.code for done in off], hub.asked) == ([2, 2], [])
        on = [
            run("decide", "-", *flags, stdin=request_text(), **variables, **switch)
            for flags, switch in ((["--hub"], {}), ([], {"RUNNER_POLICY_HUB": "1"}))
        ]
        assert [(done.code, done.err, fact(done, "model_config.architectures")) for done in on] == [
            (0, "", CONFIG["architectures"])
        ] * 2
        missing = run("decide", "-", "--hub", stdin=request_text(model="a/b"), **variables)
        message = (
            f"the model `a/b`: `a/b` on {hub.url} has no `config.json`; check the name, or give its `config.json`\n"
        )
        assert (missing.code, missing.out, missing.err) == (2, "", message)
        dry_run = run("dry-run", "-", "--hub", *REMOVED, stdin=request_text("--kv-transfer-config", NIXL), **variables)
        assert (dry_run.code, json.loads(dry_run.out)["candidate"]["runner"]) == (0, "v2")


def test_an_invalid_hub_address_is_wrong_usage(call: Call) -> None:
    done = call("decide", "-", "--hub", stdin=request_text(), HF_ENDPOINT=f"ftp://user:{TOKEN}@hub")
    assert (done.code, done.out, "set `HF_ENDPOINT`" in done.err, TOKEN in done.err) == (2, "", True, False)


# dry runs


def test_a_dry_run_explains_a_deployment(call: Call, model_config: str) -> None:
    done = call("dry-run", "-", "--model-config", model_config, stdin=request_text("--kv-transfer-config", NIXL))
    answer = json.loads(done.out)
    assert (done.code, answer["runner"], "trace" in answer, len(answer["assumptions"])) == (0, "v1", True, 4)


@pytest.mark.parametrize("source", ["file", "folder"])
def test_a_candidate_is_evaluated_with_local_models(
    call: Call, root: Path, tmp_path: Path, model_config: str, folder: Path, source: str
) -> None:
    text = (root / "rules" / "house" / "kv-connector-fallback.yaml").read_text()
    candidate = tmp_path / "kv-connector-fallback.yaml"
    candidate.write_text(text)
    source, changed = {
        "file": (model_config, {"runner", "outcome", "set_env"}),
        "folder": (f"{NAME}={folder}", {"outcome"}),
    }[source]
    done = call(
        "dry-run",
        "-",
        "--candidate",
        str(candidate),
        "--model-config",
        source,
        stdin=request_text("--kv-transfer-config", NIXL),
    )
    answer = json.loads(done.out)
    assert (done.code, answer["changes"], answer["candidate"]["facts"]) == (0, [], answer["current"]["facts"])
    done = call("dry-run", "-", *REMOVED, "--model-config", source, stdin=request_text("--kv-transfer-config", NIXL))
    assert {change["member"] for change in json.loads(done.out)["changes"]} - {"warnings"} == changed


def test_a_dry_run_refuses_a_manifest(call: Call, model_config: str) -> None:
    done = call("dry-run", "-", "--model-config", model_config, stdin=GOOD)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "-: expected one deployment, got a manifest; `decide --explain` explains each\n",
    )


# model configurations that no engine uses

NAMES = f"the models are `{NAME}`"


@pytest.mark.parametrize(
    ("text", "flags", "expected"),
    [
        (GOOD, ["a/b"], [f"warning: `--model-config`: no engine has the model `a/b`; {NAMES}"]),
        (GOOD, ["a/b", "c"], [f"warning: `--model-config`: no engine has the model `a/b`, `c`; {NAMES}"]),
        (GOOD, [], []),
        ("apiVersion: v1\nkind: List\nitems: []\n", ["a/b"], ["no vLLM container found"]),
        (
            json.dumps({"manifest": LIST, "model_configs": {"a/b": CONFIG}}),
            [],
            [f"warning: `model_configs`: no engine has the model `a/b`; {NAMES}"],
        ),
        (
            json.dumps({"deployment": {"args": ["serve", NAME], "model_configs": {NAME: CONFIG}}}),
            ["a/b"],
            [f"warning: `--model-config`: no engine has the model `a/b`; {NAMES}"],
        ),
    ],
)
def test_a_model_configuration_that_no_engine_uses_gets_a_warning(
    call: Call, model_config: str, text: str, flags: list[str], expected: list[str]
) -> None:
    path = model_config.partition("=")[2]
    given = [argument for name in flags for argument in ("--model-config", f"{name}={path}")]
    done = call("decide", "-", "--model-config", model_config, *given, stdin=text)
    assert (done.code, done.err.splitlines()) == (0, expected)


def test_a_misspelt_name_of_a_model_configuration_is_shown_with_the_missing_one(call: Call, model_config: str) -> None:
    path = model_config.partition("=")[2]
    text = json.dumps({"deployment": {"args": ["serve", NAME]}})
    for command in ("decide", "dry-run"):
        done = call(command, "-", "--model-config", f"Qwen3={path}", stdin=text)
        missing, warning = done.err.splitlines()
        assert (done.code, warning) == (2, f"warning: `--model-config`: no engine has the model `Qwen3`; {NAMES}")
        assert NEEDED.format(NAME) in missing


def test_the_lists_of_models_have_no_secret(call: Call, model_config: str) -> None:
    path = model_config.partition("=")[2]
    secret = "Zq7Kp2Vx9Lm4Tt8Ww3"
    env = [{"name": "HF_TOKEN", "value": secret}]
    containers = [
        {"name": name, "image": "vllm/vllm-openai:v0.24.0", "command": ["vllm", "serve", model], "env": env}
        for name, model in (("a", "$(HF_TOKEN)"), ("b", "x/$(HF_TOKEN)"), ("c", "a/b"), ("d", "a/c"))
    ]
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "x"}, "spec": {"containers": containers}}
    for command in ("decide", "pins", "impact"):
        others = ["--to", "0.25.0"] if command == "impact" else []
        done = call(command, "-", *others, "--model-config", f"y={path}", stdin=json.dumps(pod))
        assert secret not in done.out + done.err, command
    done = call("decide", "-", "--model-config", f"y={path}", stdin=json.dumps(pod))
    assert "the models are `…`, `x/…`, `a/b`, `a/c`" in done.err
    assert "the config.json of these models is needed: `…`, `x/…`, `a/b`, `a/c`" in done.err


def test_other_problems_of_a_manifest_leave_its_models_open(call: Call, model_config: str) -> None:
    path = model_config.partition("=")[2]
    done = call("decide", "-", "--model-config", model_config, "--model-config", f"x={path}", stdin=BAD)
    (warning,) = done.err.splitlines()
    assert warning == (
        f"warning: `--model-config`: no engine that could be decided has the model `x`; the models are `{NAME}`, `a/b`"
    )
