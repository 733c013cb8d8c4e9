"""`runner-policy decide` and `dry-run` on deployments and manifests.

What is printed, where models are looked for, and exit codes.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hubserver import TOKEN, Reply, hub_server
from kubernetes_objects import NAME, container, deployment

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from api.conftest import Done

    Call = Callable[..., Done]

CONFIG: dict[str, Any] = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3"}
NIXL = '{"kv_connector": "NixlConnector", "kv_role": "kv_both"}'
POOLING = json.dumps([{"idx": "0", "path": "1_Pooling", "type": "sentence_transformers.models.Pooling"}])
GIVE = "give it with `--model-config NAME=FILE`, or download it with `--hub`"
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
            deployment(container(model="a/b"), container(image="vllm/vllm-openai:v0.5.0"), name="odd"),
        ],
    }
)
PATH = "spec.template.spec.containers"


def of(*args: str, model: str = NAME, **members: Any) -> str:
    return json.dumps({"vllm_version": "0.24.0", "deployment": {"args": ["serve", model, *args], **members}})


@pytest.fixture
def named(tmp_path: Path) -> str:
    """What `--model-config` takes for the model."""
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


def test_in_a_pipe_a_list_is_a_line_of_json_a_container(call: Call, named: str) -> None:
    done = call("decide", "-", "--model-config", named, stdin=GOOD)
    lines = [json.loads(line) for line in done.out.splitlines()]
    assert (done.code, done.err) == (0, "")
    assert [line["path"] for line in lines] == [f"items[1].{PATH}[0]", f"items[2].{PATH}[0]", f"items[2].{PATH}[1]"]
    assert [sorted(line) for line in lines] == [["decision", "kind", "name", "namespace", "path"]] * 3
    assert [line["decision"]["facts"]["parallel_config.tensor_parallel_size"]["value"] for line in lines] == [1, 2, 1]
    assert "\x1b" not in done.out


def test_a_container_that_cannot_be_decided_has_its_problem_and_the_exit_code_says_so(call: Call, named: str) -> None:
    done = call("decide", "-", "--model-config", named, stdin=BAD)
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
        "/items/3/spec/template/spec/containers/1: the image `vllm/vllm-openai:v0.5.0`: unknown release `0.5.0`; "
        "known releases: 0.20.0 to 0.33.0; name one of them with `--vllm-version`"
    )


@pytest.mark.parametrize("way", ["kubectl's list", "documents", "a request"])
def test_a_manifest_comes_as_a_list_as_documents_or_in_a_request(call: Call, named: str, way: str) -> None:
    request = {"manifest": LIST, "model_configs": {NAME: CONFIG}}
    text = {"kubectl's list": GOOD, "documents": yaml.safe_dump_all(LIST["items"]), "a request": json.dumps(request)}[
        way
    ]
    done = call("decide", "-", "--model-config", named, stdin=text)
    assert (done.code, len(done.out.splitlines())) == (0, 3)


@pytest.mark.parametrize("width", [60, 80, 160])
def test_on_a_terminal_each_engine_of_a_list_has_its_name_and_its_reason(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, named: str, width: int
) -> None:
    (tmp_path / "list.yaml").write_text(BAD)
    code, out = on_terminal("decide", str(tmp_path / "list.yaml"), "--model-config", named, COLUMNS=str(width))
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
    assert "unknownrelease`0.5.0`;knownreleases:0.20.0to0.33.0" in problems
    assert max(map(len, text.splitlines())) <= width


def test_json_on_a_terminal_is_as_in_a_pipe(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path, named: str
) -> None:
    (tmp_path / "list.yaml").write_text(GOOD)
    code, out = on_terminal("decide", str(tmp_path / "list.yaml"), "--json", "--model-config", named)
    lines = [json.loads(line[line.index('{"path"') :]) for line in out.splitlines() if '{"path"' in line]
    assert (code, [line["decision"]["runner"] for line in lines]) == (0, ["v2"] * 3)


def test_a_large_list_on_a_terminal_says_that_it_is_read(
    on_terminal: Callable[..., tuple[int, str]], tmp_path: Path
) -> None:
    (tmp_path / "list.yaml").write_text("# " + "x" * (1 << 19) + "\n" + yaml.safe_dump(NGINX))
    code, out = on_terminal("decide", str(tmp_path / "list.yaml"))
    assert (code, "no vLLM container found" in out) == (0, True)


@pytest.mark.parametrize("text", [yaml.safe_dump(NGINX), yaml.safe_dump({**LIST, "items": []}), "[]"])
def test_a_manifest_without_vllm_says_so(call: Call, text: str) -> None:
    text = text if text != "[]" else json.dumps({"manifest": []})
    done = call("decide", "-", stdin=text)
    assert (done.code, done.out, done.err) == (0, "", "no vLLM container found\n")


def test_explain_explains_each_container(call: Call, named: str) -> None:
    done = call("decide", "-", "--explain", "--model-config", named, stdin=GOOD)
    assert [
        ("trace" in line["decision"], "assumptions" in line["decision"])
        for line in map(json.loads, done.out.splitlines())
    ] == [(True, True)] * 3


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("apiVersion: apps/v1\nkind: Deploymet\n", "/kind: unknown kind `Deploymet`; legal: `Pod`, "),
        ("a: *b\n", "-:1:4: the alias `*b` has no anchor before it"),
        ("a: &a [*a]\n", "-:1:8: the alias `*a` refers to a value that contains it"),
        (
            "a: !!python/object/apply:os.system [true]\n",
            "-:1:4: the tag `tag:yaml.org,2002:python/object/apply:os.system` is not supported; remove it",
        ),
        ('{"deployment": ', "-: not JSON: "),
        ("- 1\n- 2\n", "expected an object, got `[1, 2]`; write a request such as "),
        ("1\n", "expected an object, got `1`; write a request such as "),
        ('{"deployment": {"args": "\'"}}', "/deployment/args: invalid shell command: "),
        (
            '{"deployment": {"args": ["serve", "a/b"]}}',
            f"/deployment/model_configs/a~1b: {NEEDED.format('a/b')}; {GIVE}\n",
        ),
    ],
)
@pytest.mark.parametrize("flags", [[], ["--vllm-version", "0.24.0", "--platform", "rocm"]])
def test_what_cannot_be_read_is_wrong_usage(call: Call, text: str, told: str, flags: list[str]) -> None:
    done = call("decide", "-", *flags, stdin=text)
    assert (done.code, done.out, done.err.removeprefix("/manifest").startswith(told)) == (2, "", True), done.err


# what the flags add


@pytest.mark.parametrize(
    ("text", "overridden"),
    [
        (json.dumps({"deployment": {"args": ["serve", NAME]}}), []),
        (of(), ["the input's `0.24.0`"]),
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
def test_a_version_overrides_the_inputs_and_the_images_with_a_warning(
    call: Call, named: str, text: str, overridden: list[str]
) -> None:
    done = call("decide", "-", "--vllm-version", "0.25.0", "--model-config", named, stdin=text)
    found = json.loads(done.out)
    answer = found.get("decision", found)
    warnings = [text for text in answer["warnings"] if "overrides" in text]
    expected = [f"decided for vLLM 0.25.0, which overrides {what}" for what in overridden]
    assert (done.code, answer["vllm_version"], sorted(warnings)) == (0, "0.25.0", sorted(expected))


@pytest.mark.parametrize("command", ["decide", "dry-run"])
@pytest.mark.parametrize("flags", [[], ["--remove", "kv-connector-fallback"]])
def test_a_version_of_a_dry_run_overrides_too(call: Call, named: str, command: str, flags: list[str]) -> None:
    if command == "decide" and flags:
        return
    done = call(command, "-", "--vllm-version", "0.25.0", "--model-config", named, *flags, stdin=of())
    found = json.loads(done.out)
    for answer in (found["current"], found["candidate"]) if flags else (found,):
        assert answer["vllm_version"] == "0.25.0"
        assert "decided for vLLM 0.25.0, which overrides the input's `0.24.0`" in answer["warnings"]


@pytest.mark.parametrize("text", [of(), yaml.safe_dump(deployment(container())), json.dumps({"manifest": LIST})])
@pytest.mark.parametrize("version", ["0.1", "latest", "", "\x1b[31m"])
def test_an_invalid_version_is_refused_also_where_the_input_has_one(call: Call, text: str, version: str) -> None:
    done = call("decide", "-", "--vllm-version", version, stdin=text)
    assert (done.code, done.out, done.err.startswith("--vllm-version: ")) == (2, "", True), done.err
    assert "\x1b" not in done.err


@pytest.mark.parametrize(
    ("text", "rocm"),
    [
        (of(), True),
        (of(environment={"has_triton": True}), True),
        (of(environment={"platform": "cuda"}), False),
        (of(environment=None), True),
        (of(environment={"platform": None}), True),
        (yaml.safe_dump(deployment(container())), True),
        (json.dumps({"manifest": deployment(container()), "environment": {"platform": "cuda"}}), False),
        (json.dumps({"manifest": deployment(container()), "vllm_version": "0.24.0"}), True),
    ],
)
def test_a_platform_counts_where_the_input_names_none(call: Call, named: str, text: str, *, rocm: bool) -> None:
    done = call("decide", "-", "--platform", "rocm", "--model-config", named, stdin=text)
    answer = json.loads(done.out)
    assert (done.code, answer.get("decision", answer)["facts"]["platform.is_rocm"]["value"]) == (0, rocm)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--platform", "cudo"], "Invalid value for '--platform'"),
        (["--model-config", "qwen.json"], "--model-config `qwen.json`: write NAME=FILE"),
        (["--model-config", "=qwen.json"], "--model-config `=qwen.json`: write NAME=FILE"),
        (["--model-config", f"{NAME}="], f"--model-config `{NAME}=`: write NAME=FILE"),
        (["--vllm-version", "0.1"], "--vllm-version: unknown release `0.1`; known releases: 0.20.0 to 0.33.0"),
        (["--vllm-version", "latest"], "--vllm-version: invalid version `latest`"),
    ],
)
def test_a_flag_that_does_not_fit_is_wrong_usage(call: Call, flags: list[str], told: str) -> None:
    done = call("decide", "-", *flags, stdin='{"deployment": {"args": []}}')
    assert (done.code, done.out, told in done.err) == (2, "", True), done.err


@pytest.mark.parametrize(
    "text",
    [
        '{"deployment": {"args": ["serve", "a"], "environment": "cuda"}}',
        '{"deployment": {"environment": false}}',
        '{"deployment": 1}',
        '{"facts": {}}',
    ],
)
def test_a_platform_beside_what_does_not_fit_is_no_traceback(call: Call, text: str) -> None:
    done = call("decide", "-", "--platform", "rocm", stdin=text)
    assert (done.code, done.out, done.err.startswith(("/deployment", "/environment"))) == (2, "", True), done.err


# the words of the command line

UNKNOWN = yaml.safe_dump(deployment(container(image="vllm/vllm-openai:v0.99.0")))
UNTAGGED = yaml.safe_dump(deployment(container(image="vllm/vllm-openai:latest")))
OTHER_MODEL = yaml.safe_dump(deployment(container(args=["--model", "a/b"])))
OF_HTTP = re.compile(
    r"\b(?:sends?|sent|body|headers?|endpoint|content-type|accept|POST|GET)\b|`model_configs`|beyond_verified|"
    r"`vllm_version`|`environment\.platform`|^/(?:model_configs|remove)/",
    re.MULTILINE,
)
"""Words and fields of the HTTP interface."""


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("decide", '{"deployment": {"args": ["serve", "a/b"]}}', f"; {GIVE}"),
        ("dry-run", '{"deployment": {"args": ["serve", "a/b"]}}', f"; {GIVE}"),
        ("decide", OTHER_MODEL, f"; {GIVE}"),
        ("decide --model-config a/b=none", OTHER_MODEL, "the model `a/b`: `none` cannot be read: "),
        ("decide", '{"facts": {}, "vllm_version": "0.99"}', "; name one of them with `--vllm-version`"),
        ("dry-run", '{"facts": {}, "vllm_version": "0.99"}', "; name one of them with `--vllm-version`"),
        ("decide", UNKNOWN, "; name one of them with `--vllm-version`"),
        ("decide --model-config NAMED", UNTAGGED, "; state it with `--vllm-version`"),
        ("dry-run", UNTAGGED, "expected one deployment, got a manifest; `decide --explain` explains each"),
        ("dry-run --remove nothing", '{"facts": {}}', "--remove: unknown rule `nothing`"),
        ("decide", "", "empty; expected a document"),
        ("decide", "\ufeff{}", ""),
        ("decide", "{}", "none of `facts`, `deployment`, `manifest`; add one, "),
        ("rules diff ./rules ./rules --fleet", OTHER_MODEL, f"; {GIVE}"),
        ("rules diff ./rules ./rules --fleet", UNKNOWN, "; name one of them in the file"),
    ],
)
def test_messages_speak_of_options_and_not_of_requests(
    call: Call, named: str, tmp_path: Path, command: str, text: str, said: str
) -> None:
    (tmp_path / "in").write_text(text)
    words = command.replace("NAMED", named).split()
    file = [str(tmp_path / "in")]
    done = call(*words, *file) if words[0] == "rules" else call(words[0], *file, *words[1:])
    shown = " ".join((done.out + done.err).split())
    assert said in shown
    assert OF_HTTP.findall(done.err or shown.partition('"warnings"')[2] or shown) == []


@pytest.mark.parametrize(
    ("filters", "said"),
    [
        (["--vllm-version", "\0"], "--vllm-version: "),
        (["--requested-by", "x" * 300], "--requested-by: "),
        (["--since", "soon"], "--since: "),
        (["--runner", "v3"], "--runner: `v3` is not legal; legal: "),
    ],
)
def test_a_filter_of_the_log_is_named_as_the_option(call: Call, filters: list[str], said: str) -> None:
    done = call("log", "query", *filters)
    assert (done.code, done.out, done.err.startswith(said)) == (2, "", True), done.err


# where models are looked for


def test_a_model_s_configuration_is_a_file_or_a_folder_that_a_flag_names(call: Call, named: str, folder: Path) -> None:
    for place, runner in ((named, "generate"), (f"{NAME}={folder}", "pooling"), (f"{NAME}/={folder}", "pooling")):
        done = call("decide", "-", "--model-config", place, stdin=of())
        assert (done.code, fact(done, "model_config.runner_type")) == (0, runner)


def test_several_models_are_named_one_by_one(call: Call, named: str, tmp_path: Path) -> None:
    (tmp_path / "draft.json").write_text(
        json.dumps({"architectures": ["LlamaForCausalLMEagle3"], "model_type": "llama"})
    )
    draft = '{"model": "a/draft", "method": "eagle3", "num_speculative_tokens": 3}'
    done = call(
        "decide",
        "-",
        "--model-config",
        named,
        "--model-config",
        f"a/draft={tmp_path / 'draft.json'}",
        stdin=of("-sc", draft),
    )
    assert (done.code, fact(done, "speculative_config.method")) == (0, "eagle3")


def test_a_model_that_is_a_folder_here_is_read(call: Call, folder: Path) -> None:
    for model in (str(folder), f"{folder}/"):
        done = call("decide", "-", stdin=of(model=model))
        assert (done.code, fact(done, "model_config.runner_type")) == (0, "pooling")


def test_what_the_request_brings_counts_more(call: Call, named: str) -> None:
    mamba = {"architectures": ["MambaForCausalLM"], "model_type": "mamba"}
    done = call("decide", "-", "--model-config", named, stdin=of(model_configs={NAME: mamba}))
    assert fact(done, "model_config.architectures") == ["MambaForCausalLM"]


def test_a_model_that_is_there_and_cannot_be_read_is_told(call: Call, tmp_path: Path) -> None:
    (tmp_path / "list.json").write_text("[1]")
    (tmp_path / "empty").mkdir()
    for place, told in (
        ("list.json", f"`{tmp_path}/list.json` must be an object, got `[1]`"),
        ("empty", f"`{tmp_path}/empty` has no `config.json`; name the folder that the model was saved in"),
        ("nothing", f"`{tmp_path}/nothing` cannot be read: No such file or directory"),
    ):
        done = call("decide", "-", "--model-config", f"{NAME}={tmp_path / place}", stdin=of())
        assert (done.code, done.out, done.err) == (2, "", f"the model `{NAME}`: {told}\n")


@pytest.mark.slow
def test_the_hub_is_asked_where_a_flag_or_variable_says_so(run: Call, tmp_path: Path) -> None:
    with hub_server() as hub:
        hub.give(Reply())
        variables = {"HF_ENDPOINT": hub.url, "HF_HOME": str(tmp_path), "HF_TOKEN": TOKEN, "NO_PROXY": "127.0.0.1"}
        off = [
            run("decide", "-", *flags, stdin=of(), **variables, **switch)
            for flags, switch in (([], {}), (["--no-hub"], {"RUNNER_POLICY_HUB": "1"}))
        ]
        assert ([done.code for done in off], hub.asked) == ([2, 2], [])
        on = [
            run("decide", "-", *flags, stdin=of(), **variables, **switch)
            for flags, switch in ((["--hub"], {}), ([], {"RUNNER_POLICY_HUB": "1"}))
        ]
        assert [(done.code, done.err, fact(done, "model_config.architectures")) for done in on] == [
            (0, "", CONFIG["architectures"])
        ] * 2
        missing = run("decide", "-", "--hub", stdin=of(model="a/b"), **variables)
        told = f"the model `a/b`: `a/b` on {hub.url} has no `config.json`; check the name, or give its `config.json`\n"
        assert (missing.code, missing.out, missing.err) == (2, "", told)
        tried = run("dry-run", "-", "--hub", *REMOVED, stdin=of("--kv-transfer-config", NIXL), **variables)
        assert (tried.code, json.loads(tried.out)["candidate"]["runner"]) == (0, "v2")


def test_a_hub_s_address_that_is_none_is_wrong_usage(call: Call) -> None:
    done = call("decide", "-", "--hub", stdin=of(), HF_ENDPOINT=f"ftp://user:{TOKEN}@hub")
    assert (done.code, done.out, "set `HF_ENDPOINT`" in done.err, TOKEN in done.err) == (2, "", True, False)


# dry runs


def test_a_dry_run_explains_a_deployment(call: Call, named: str) -> None:
    done = call("dry-run", "-", "--model-config", named, stdin=of("--kv-transfer-config", NIXL))
    answer = json.loads(done.out)
    assert (done.code, answer["runner"], "trace" in answer, len(answer["assumptions"])) == (0, "v1", True, 4)


@pytest.mark.parametrize("place", ["file", "folder"])
def test_a_candidate_is_tried_with_the_models_that_were_found_here(
    call: Call, root: Path, tmp_path: Path, named: str, folder: Path, place: str
) -> None:
    text = (root / "rules" / "house" / "kv-connector-fallback.yaml").read_text()
    candidate = tmp_path / "kv-connector-fallback.yaml"
    candidate.write_text(text)
    place, changed = {"file": (named, {"runner", "outcome", "set_env"}), "folder": (f"{NAME}={folder}", {"outcome"})}[
        place
    ]
    done = call(
        "dry-run", "-", "--candidate", str(candidate), "--model-config", place, stdin=of("--kv-transfer-config", NIXL)
    )
    answer = json.loads(done.out)
    assert (done.code, answer["changes"], answer["candidate"]["facts"]) == (0, [], answer["current"]["facts"])
    done = call("dry-run", "-", *REMOVED, "--model-config", place, stdin=of("--kv-transfer-config", NIXL))
    assert {change["member"] for change in json.loads(done.out)["changes"]} - {"warnings"} == changed


def test_a_manifest_is_decided_and_not_tried(call: Call, named: str) -> None:
    done = call("dry-run", "-", "--model-config", named, stdin=GOOD)
    assert (done.code, done.out, done.err) == (
        2,
        "",
        "-: expected one deployment, got a manifest; `decide --explain` explains each\n",
    )
