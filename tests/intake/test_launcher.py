"""vLLM's own arguments are found in any command that starts it."""

from __future__ import annotations

import json
import shlex
from typing import TYPE_CHECKING, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from tables import table

from policy.errors import RequestFault
from policy.intake.command.dynamo_arguments import FLAG_DOUBT, LOADER_DOUBT, VARIABLE_DOUBT
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS
from policy.intake.command.launcher import find_server, read_command, read_text
from policy.intake.command.vllm_command import REMEDY, UnreadableCommand
from policy.intake.command.words import Unknown
from policy.intake.command_line import CommandLine, Installation

if TYPE_CHECKING:
    from collections.abc import Mapping

PLACES = [f"args[{index}]" for index in range(40)]
ENV = {"MODEL": "org/m", "TP": "4", "HIDDEN": None}
SERVER = "vllm.entrypoints.openai.api_server"
BY_UV = Installation(None, "`uv` may run a different vLLM from the image's")
WITHOUT_PATH = Installation(None, "with `PATH` cleared by `env`, no vLLM may run, or another one")
LOGIN = "`bash` reads start-up files before its script, and they may set any variable"


def starts_vllm(words: list[str], env: Mapping[str, str | None]) -> bool | UnreadableCommand:
    found = find_server(words, env)
    return found if isinstance(found, UnreadableCommand) else found is not None


def read(words: list[str]) -> tuple[CommandLine, list[RequestFault]]:
    faults: list[RequestFault] = []
    return read_command(words, PLACES[: len(words)], ENV, faults, "/deployment/args"), faults


@table(
    ("words", "found", "first"),
    [
        (["--model", "m"], ["--model", "m"], 0),
        (["org/m", "-tp", "2"], ["org/m", "-tp", "2"], 0),
        (["/models/m"], ["/models/m"], 0),
        (["Qwen3-8B", "--port", "1"], ["Qwen3-8B", "--port", "1"], 0),
        (["acme/llama-vllm", "--port", "1"], ["acme/llama-vllm", "--port", "1"], 0),
        (["/models/vllm", "--port", "1"], ["/models/vllm", "--port", "1"], 0),
        ([], [], 0),
        (["serve", "m"], ["m"], 1),
        (["vllm", "serve", "m"], ["m"], 2),
        (["/usr/local/bin/vllm", "serve", "m"], ["m"], 2),
        (["python3.12", "-u", "-X", "dev", "/opt/bin/vllm", "serve", "m"], ["m"], 6),
        (["/usr/bin/env", "-u", "X", "vllm", "serve", "m"], ["m"], 5),
        (["nohup", "vllm", "serve", "m"], ["m"], 3),
        (["nohup", "numactl", "--cpunodebind", "0", "vllm", "serve", "m"], ["m"], 6),
        (["tini", "--", "vllm", "serve", "m"], ["m"], 4),
        (["uv", "run", "--with", "x", "vllm", "serve", "m"], ["m"], 6),
    ],
)
def test_the_words_after_vllm_serve_are_its_arguments(words: list[str], found: list[str], first: int) -> None:
    installation = BY_UV if words[:1] == ["uv"] else None
    line = CommandLine(found, PLACES[first : len(words)], installation=installation, is_serve="serve" in words)
    assert read(words) == (line, [])


@table("module", ["vllm", "vllm.entrypoints.cli", "vllm.entrypoints.cli.main", "vllm.scripts"])
@table("start", [["python3", "-m"], ["python", "-u", "-m"], ["torchrun", "-m"]])
def test_the_words_after_serve_of_a_module_are_its_arguments(start: list[str], module: str) -> None:
    words = [*start, module, "serve", "m"]
    assert read(words) == (CommandLine(["m"], [PLACES[len(words) - 1]], is_serve=True, module=module), [])


@pytest.mark.parametrize(
    "module",
    [
        "vllm.entrypoints.api_server",
        "vllm.entrypoints.grpc_server",
        "vllm.entrypoints.launchers.api_server.entry",
        "vllm.entrypoints.launchers.grpc_server",
        "vllm.entrypoints.openai.api_server",
    ],
)
def test_the_words_after_a_server_s_module_are_its_arguments(module: str) -> None:
    expected = CommandLine(["--model", "m"], ["args[3]", "args[4]"], serve=False, module=module)
    assert read(["python3", "-m", module, "--model", "m"]) == (expected, [])


@table("package", ["dist-packages", "site-packages", "a.b"])
@table(
    ("module", "after"),
    [
        ("vllm.entrypoints.cli.main", ["serve", "m"]),
        ("vllm.scripts", ["serve", "m"]),
        ("vllm.entrypoints.openai.api_server", ["--model=m"]),
        ("vllm_omni.entrypoints.cli.main", ["serve", "m"]),
    ],
)
def test_a_module_of_vllm_in_another_package_may_be_another_vllm(package: str, module: str, after: list[str]) -> None:
    cause = f"`{package}.{module}` names the package of vLLM by its folder, so another vLLM may run"
    for words in (["python3", "-m", f"{package}.{module}", *after], ["torchrun", "-m", f"{package}.{module}", *after]):
        found, faults = read(words)
        assert (found.words, faults) == ([after[-1]], [])
        assert (found.doubts, found.installation) == ([cause], Installation(None, cause))


@table(
    ("words", "is_named"),
    [
        (["-m", "a.vllm.entrypoints.new", "--model", "m"], True),
        (["-m", "a.vllm.entrypoints.cli.main", "run-batch"], True),
        (["-m", "a.vllm.entrypoints.openai.run_batch"], True),
        (["/a/vllm/entrypoints/cli/main.py", "serve", "m"], True),
        (["-m", "a.vllm.entrypoints.cli.main", "bench", "serve"], False),
        (["-m", "a.vllm_x.entrypoints.cli.main", "serve", "m"], False),
    ],
)
def test_another_module_of_vllm_in_another_package_starts_no_server_that_is_read(
    words: list[str],
    is_named: bool,  # noqa: FBT001  # a table's value
) -> None:
    found = starts_vllm(["python3", *words], {})
    assert (isinstance(found, UnreadableCommand) and found.names_vllm) is is_named


@table(
    "module",
    [
        "vllm.entrypoints.new.server",
        "vllm_omni.entrypoints.x",
        "vllm.snapshot.server",
        "vllm.snapshot.server.__main__",
        "vllm.engine.new",
        "vllm.benchmarks.mm_processor",
        "a.vllm.snapshot.server",
    ],
)
def test_a_module_that_may_start_a_server_is_not_another_program(module: str) -> None:
    found = starts_vllm(["python3", "-m", module, "--model", "m"], {})
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


@pytest.mark.parametrize(
    "module", ["vllm.entrypoints.launchers.render.entry", "vllm.collect_env", "vllm.benchmarks.serve", "vllm_x.server"]
)
def test_a_module_without_an_engine_starts_none(module: str) -> None:
    assert starts_vllm(["python3", "-m", module, "--model", "m"], {}) is False


@pytest.mark.parametrize(
    "words",
    [
        ["python", "-m", SERVER, "--model", "m"],
        ["python", f"-m{SERVER}", "--model", "m"],
        ["python3", "-W", "ignore", "/x/vllm/entrypoints/openai/api_server.py", "--model", "m"],
    ],
)
def test_a_server_s_module_reads_all_words_after_it(words: list[str]) -> None:
    at = words.index("--model")
    module = SERVER if words[1].startswith("-m") else ""
    assert read(words) == (CommandLine(words[at:], PLACES[at : at + 2], serve=False, module=module), [])


@table(
    ("variable", "doubted"),
    [
        ("DYN_CONNECTOR=nixl", "DYN_CONNECTOR"),
        ("DYN_CONNECTOR=$HIDDEN", "DYN_CONNECTOR"),
        ("DYN_CONNECTOR=none", ""),
        ("DYN_CONNECTOR=", ""),
        ("DYN_VLLM_OMNI=true", "DYN_VLLM_OMNI"),
        ("DYN_VLLM_OMNI=1", "DYN_VLLM_OMNI"),
        ("DYN_VLLM_OMNI=False", ""),
        ("DYN_VLLM_OMNI=0", ""),
        ("DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB=10", "DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB"),
        ("DYN_MULTIMODAL_EMBEDDING_CACHE_CAPACITY_GB=0", ""),
        ("DYN_ENABLE_TEST_LOGITS_PROCESSOR=1", "DYN_ENABLE_TEST_LOGITS_PROCESSOR"),
        ("DYN_ENABLE_TEST_LOGITS_PROCESSOR=0", ""),
        ("DYN_FORWARDPASS_METRIC_PORT=20380", "DYN_FORWARDPASS_METRIC_PORT"),
        ("DYN_FORWARDPASS_METRIC_PORT=", "DYN_FORWARDPASS_METRIC_PORT"),
        ("DYN_FPM_TRACE=1", "DYN_FPM_TRACE"),
        ("DYN_FPM_TRACE=0", ""),
        ("DYN_BENCHMARK_MODE=agg", "DYN_BENCHMARK_MODE"),
        ("DYN_BENCHMARK_MODE=", ""),
        ("DYN_ENABLE_RL=true", "DYN_ENABLE_RL"),
        ("DYN_ENABLE_RL=false", ""),
        ("DYN_GMS_USE_V1=true", "DYN_GMS_USE_V1"),
        ("DYN_OTHER=true", ""),
    ],
)
def test_a_variable_of_dynamo_that_changes_the_engine_is_a_doubt(variable: str, doubted: str) -> None:
    for start in ("", "export "):
        script = f"{start}{variable}{'; ' if start else ' '}python3 -m dynamo.vllm --model m"
        doubts = read(["sh", "-c", script])[0].doubts
        assert [doubt for doubt in doubts if "Dynamo" in doubt] == ([VARIABLE_DOUBT.format(doubted)] if doubted else [])
    name, _, value = variable.partition("=")
    found = read_command(["python3", "-m", "dynamo.vllm"], PLACES[:3], {name: None if "$" in value else value}, [], "")
    assert found.doubts == ([VARIABLE_DOUBT.format(doubted)] if doubted else [])
    assert read_command(["python3", "-m", SERVER], PLACES[:3], {name: value}, [], "").doubts == []


@table(
    ("arguments", "doubted"),
    [
        ("--multimodal-embedding-cache-capacity-gb 10", "--multimodal-embedding-cache-capacity-gb"),
        ("--multimodal-embedding-cache-capacity-gb=10.5", "--multimodal-embedding-cache-capacity-gb"),
        ("--multimodal-embedding-cache-capacity-gb $SIZE", "--multimodal-embedding-cache-capacity-gb"),
        ("--multimodal-embedding-cache-capacity-gb 0", ""),
        ("--benchmark-mode agg", "--benchmark-mode"),
        ("--fpm-trace", "--fpm-trace"),
        ("--no-fpm-trace", ""),
        ("--enable-rl", "--enable-rl"),
        ("--no-enable-rl", ""),
        ("--custom-encoder-class a.B --benchmark-output-path /x --nats-tls-insecure", ""),
    ],
)
def test_a_flag_of_dynamo_that_changes_the_engine_is_a_doubt(arguments: str, doubted: str) -> None:
    found = read(["sh", "-c", f"python3 -m dynamo.vllm --model m {arguments}"])[0]
    assert found.doubts == ([FLAG_DOUBT.format(doubted)] if doubted else [])
    assert found.words == ["--model", "m", CACHING]


@table(
    ("arguments", "is_doubt"),
    [
        ("--load-format gms", True),
        ("--load-format=gms", True),
        ("--load_format=mx-source", True),
        ("--load-f gms", True),
        ("--load-format auto", False),
        ("--served-model-name gms", False),
    ],
)
def test_a_loader_of_dynamo_brings_classes_of_its_own(arguments: str, *, is_doubt: bool) -> None:
    doubts = read(["python3", "-m", "dynamo.vllm", *arguments.split()])[0].doubts
    assert doubts == ([LOADER_DOUBT.format(arguments.replace("=", " ").split()[-1])] if is_doubt else [])
    assert read(["python3", "-m", SERVER, *arguments.split()])[0].doubts == []


@table("words", [["serve", "run", "x:app"], ["/opt/bin/serve", "deploy", "a.yaml"], ["sh", "-c", "serve run x:app"]])
def test_ray_serve_may_start_anything_where_programs_are_doubted(words: list[str]) -> None:
    found = find_server(words, {}, is_command=True, doubts_programs=True)
    assert isinstance(found, UnreadableCommand)
    assert found.is_any_program
    assert find_server(words, {}, is_command=True) is None


@table(
    "words",
    [
        ["serve", "run", "ray.serve.llm:build_openai_app", "llm_configs=[]"],
        ["sh", "-c", "ray start --head; exec serve run ray.serve.llm:build_pd_openai_app -f a.yaml"],
        ["env", "A=b", "serve", "run", "ray.llm._internal.serve.builders:build_openai_app"],
        ["python3", "-m", "ray.serve.scripts", "run", "ray.serve.llm:build_openai_app"],
    ],
)
def test_ray_serve_with_an_application_of_models_starts_vllm(words: list[str]) -> None:
    found = find_server(words, {}, is_command=True)
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


@table("module", ["dynamo.vllm.omni", "dynamo.vllm.omni.__main__", "dynamo.vllm.unified_omni_main"])
def test_another_module_of_dynamo_may_start_vllm(module: str) -> None:
    for words in (["python3", "-m", module, "--model", "m"], ["sh", "-c", f"exec python3 -m {module} --model m"]):
        found = find_server(words, {}, is_command=True)
        assert isinstance(found, UnreadableCommand)
        assert found.names_vllm


@table(
    "words",
    [
        ["-m", "components.src.dynamo.vllm.__main__"],
        ["-m", "src.huggingfaceserver"],
        ["-m", "src.huggingfaceserver.__main__"],
    ],
)
@pytest.mark.parametrize("start", ["python3", "torchrun"])
def test_the_other_names_of_a_package_in_another_one_count(start: str, words: list[str]) -> None:
    found = read([start, *words, "--model=m"])[0]
    assert found.words
    assert found.installation is not None


@table(
    ("path", "is_server"),
    [
        ("/huggingfaceserver/huggingfaceserver/__main__.py", True),
        ("/huggingfaceserver/huggingfaceserver", True),
        ("huggingfaceserver/", True),
        ("$DIR/huggingfaceserver/__main__.py", True),
        ("/x/huggingfaceserver.py", False),
        ("/x/huggingfaceserver/other.py", False),
        ("/x/my_huggingfaceserver", False),
        ("/x/mydynamo/vllm/__main__.py", False),
        ("/x/dynamo/vllm/health_check.py", False),
        ("/x/notvllm/entrypoints/openai/api_server.py", False),
    ],
)
@pytest.mark.parametrize("start", [["python3"], ["python", "-u"], ["torchrun", "--nproc-per-node=1"]])
def test_a_path_that_ends_with_a_package_is_its_module(start: list[str], path: str, *, is_server: bool) -> None:
    assert (starts_vllm([*start, path, "--model_id=m"], {}) is True) is is_server


@table("path", ["/opt/dynamo/vllm", "dynamo/vllm"])
def test_vllm_in_a_folder_named_like_the_package_runs_its_subcommands(path: str) -> None:
    assert read(["python3", path, "serve", "m"])[0].is_serve


LMCACHE = '{"kv_connector":"LMCacheConnectorV1","kv_role":"kv_both"}'
NIXL = '{"kv_connector":"NixlConnector","kv_role":"kv_both"}'
KVBM = json.dumps(
    {
        "kv_connector": "DynamoConnector",
        "kv_connector_module_path": "kvbm.vllm_integration.connector",
        "kv_role": "kv_both",
    },
    separators=(",", ":"),
)
BOTH = (
    '{"kv_connector":"PdConnector","kv_role":"kv_both","kv_connector_extra_config":{"connectors":['
    f'{NIXL},{KVBM}]}},"kv_connector_module_path":"kvbm.vllm_integration.connector"}}'
)
TRANSFER = "--kv-transfer-config"
CACHING = "--enable-prefix-caching"
REFUSED = "newer releases of Dynamo refuse `--connector`; write `--kv-transfer-config` instead"
PREFILL = (
    "Dynamo 1.0 and later refuse a prefill worker without `--kv-transfer-config`, and earlier releases give it the "
    "connector NIXL; write `--kv-transfer-config`"
)
UNKNOWN_CONNECTOR = "unknown connector `nixle`; legal: `lmcache`, `nixl`, `kvbm`, `none`, `null`; did you mean `nixl`?"


@table(
    ("arguments", "passed", "warnings"),
    [
        ("", CACHING, []),
        ("--model a/b --enforce-eager", f"--model a/b --enforce-eager {CACHING}", []),
        ("--model a/b --no-enable-prefix-caching", "--model a/b --no-enable-prefix-caching", []),
        ("--enable_prefix_caching", "--enable_prefix_caching", []),
        (
            "--is-prefill-worker --endpoint dyn://a.b.c --no-fpm-trace --request-plane=tcp --model a/b --enforce-eager",
            f"--model a/b --enforce-eager {CACHING}",
            [PREFILL],
        ),
        ("--disaggregation-mode prefill --seed 1", f"--seed 1 {CACHING}", [PREFILL]),
        ("--disaggregation-mode=decode --seed 1", f"--seed 1 {CACHING}", []),
        (f"--disaggregation-mode=prefill {TRANSFER} x", f"{TRANSFER} x {CACHING}", []),
        ("--is-prefill-worker --kv_transfer_config.kv_role x", f"--kv_transfer_config.kv_role x {CACHING}", []),
        ("--is-prefill-worker --kv-transfer-conf x", f"--kv-transfer-conf x {CACHING}", []),
        ("--is-prefill-worker --config x.yaml", f"--config x.yaml {CACHING}", []),
        ("--is-prefill-worker --connector nixl", f"{TRANSFER} {NIXL} {CACHING}", [REFUSED]),
        ("--is-prefill-worker --connector none", CACHING, [REFUSED, PREFILL]),
        ("--namespace --seed 1", f"--seed 1 {CACHING}", []),
        ("--connector=LMCache", f"{TRANSFER} {LMCACHE} {CACHING}", [REFUSED]),
        ("--connector nixl kvbm --seed 1", f"--seed 1 {TRANSFER} {BOTH} {CACHING}", [REFUSED]),
        ("--connector nixl --connector kvbm", f"{TRANSFER} {BOTH} {CACHING}", [REFUSED]),
        ("--connector none", CACHING, [REFUSED]),
        ("--connector nixle", CACHING, [UNKNOWN_CONNECTOR, REFUSED]),
    ],
)
@table("start", ["", "exec ", "A=b python3 -u", "cd /x && "])
@table(
    "module",
    [
        *("-m dynamo.vllm", "-mdynamo.vllm.main", "-m dynamo.vllm.__main__", "-m dynamo.vllm.unified_main"),
        *("/x/src/dynamo/vllm", "/x/dynamo/vllm/", "./dynamo/vllm/__main__.py", "dynamo/vllm/x/../__main__.py"),
        *("/x/dynamo/vllm/main.py", "/x//dynamo/./vllm/unified_main.py"),
    ],
)
def test_dynamo_passes_on_its_arguments_without_its_own(
    start: str, module: str, arguments: str, passed: str, warnings: list[str]
) -> None:
    script = f"{start if 'python3' in start else start + 'python3'} {module} {arguments}"
    found = read(["sh", "-c", script])[0]
    assert (found.words, found.serve, found.warnings) == (passed.split(), False, warnings)
    if start == "":
        direct = read(script.split())[0]
        assert (direct.words, direct.warnings) == (passed.split(), warnings)
        added = [place for word, place in zip(direct.words, direct.places, strict=True) if word == CACHING]
        assert added == (["added by Dynamo"] if passed.endswith(CACHING) else [])


@table(
    ("script", "words", "env", "serve"),
    [
        ("vllm serve $MODEL \\\n -tp ${TP:-2}", ["org/m", "-tp", "4"], {}, True),
        ("export A=b; cd /x && exec vllm serve m 2>&1 | tee log", ["m"], {"A": "b"}, True),
        ("A=b vllm serve m", ["m"], {"A": "b"}, True),
        ("env A=b C=$(x) vllm serve m", ["m"], {"A": "b", "C": None}, True),
        ("ray start --head && python -m " + SERVER + " --model m", ["--model", "m"], {}, False),
        ("sh -c 'vllm serve m'", ["m"], {}, True),
        ("export A=b; bash -c 'C=d vllm serve $A'", ["b"], {"A": "b", "C": "d"}, True),
        ("export A=b; eval 'vllm serve m'", ["m"], {"A": "b"}, True),
    ],
)
def test_the_command_of_a_script_that_starts_vllm_is_read(
    script: str, words: list[str], env: dict[str, str | None], *, serve: bool
) -> None:
    faults: list[RequestFault] = []
    set_at, module = dict.fromkeys(env, "args"), "" if serve else SERVER
    expected = CommandLine(words, ["args"] * len(words), env, serve, set_at=set_at, is_serve=serve, module=module)
    assert read_text(script, ENV, faults, "/a") == expected
    for shell in (["sh", "-c"], ["/bin/bash", "-ec"], ["bash", "-e", "-o", "pipefail", "-c"], ["bash", "-c", "-x"]):
        place = PLACES[len(shell)]
        at_place = dict.fromkeys(env, place)
        expected = CommandLine(words, [place] * len(words), env, serve, set_at=at_place, is_serve=serve, module=module)
        assert read([*shell, script]) == (expected, [])
    of_login = {**dict.fromkeys(ENV), **env}
    warnings = [f"{LOGIN}; variables are not certain"]
    set_at = {**dict.fromkeys(ENV, PLACES[0]), **dict.fromkeys(env, PLACES[2])}
    places = [PLACES[2]] * len(words)
    line = CommandLine(words, places, of_login, serve, warnings, [LOGIN], set_at=set_at, is_serve=serve, module=module)
    assert read(["/bin/bash", "-lc", script]) == (line, [])
    assert faults == []


@pytest.mark.parametrize("text", ["--model m -tp 2", "org/m -tp 2"])
def test_a_text_may_consist_of_flags(text: str) -> None:
    faults: list[RequestFault] = []
    assert (read_text(text, {}, faults, "/a").words, faults) == (text.split(), [])


@table(
    "options",
    [
        *(
            "-ceuxo pipefail",
            "-c -o pipefail",
            "-co pipefail --",
            "-Oc extglob",
            "-eo pipefail -Oc extglob",
            "-c -e --",
        ),
        *("+o posix -c", "--rcfile x -c", "--norc -c", "--init-file x -c", "-oo pipefail errexit -c", "-c -"),
    ],
)
def test_the_values_of_a_shell_s_options_are_not_its_script(options: str) -> None:
    assert read(["bash", *options.split(), "vllm serve org/m"])[0].words == ["org/m"]


def test_the_words_after_a_script_are_its_arguments() -> None:
    assert read(["sh", "-c", 'exec vllm serve "$@"', "--", "m", "-tp", "$(TP)"])[0].words == ["m", "-tp", "4"]


NAMED_VLLM = [
    *("gosu vllm", "su-exec vllm", "sudo -u vllm", "sudo --user vllm", "sudo -Eu vllm", "sudo -H -u vllm"),
    *("sudo -u vllm --", "sudo -g vllm", "sudo -iu vllm", "sudo -u vllm env A=b", "sudo -u vllm bash run.sh"),
    *(
        "conda run -n vllm",
        "conda run --name vllm",
        "conda run --no-capture-output -n vllm",
        "conda run --cwd vllm -n x",
    ),
    *("conda run -n vllm --live-stream", "micromamba run -n vllm", "mamba run -n vllm", "pixi run -e vllm"),
    *("uv run --with vllm", "uv run --extra vllm", "uv run --group vllm", "uv run --project vllm", "uv run -w vllm"),
    *("uv run --directory vllm", "uv --project vllm run", "uvx --from vllm", "uvx --with vllm", "poetry -C vllm run"),
    *(
        "nsys profile -o vllm",
        "ncu -o vllm",
        "torchrun --no-python --role vllm",
        "opentelemetry-instrument --service_name vllm",
    ),
    *("numactl -C vllm", "mpirun -x vllm", "time -o vllm", "prlimit --memlock=vllm", "nohup"),
    *("timeout -s vllm 5", "tini -p vllm --", "/entrypoint.sh vllm", "bash run.sh --user vllm", "env -C vllm"),
    *("env -iu vllm", "env -a echo", "env --argv0 echo", "env --unset vllm", "uv run -p python3.12"),
]


@table("before", NAMED_VLLM)
def test_a_value_named_vllm_is_not_the_program(before: str) -> None:
    words = [*before.split(), "vllm", "serve", "org/m", "--port", "1"]
    assert read(words) == (line_after(before, words[-3:], PLACES[len(words) - 3 : len(words)]), [])
    assert starts_vllm(words, ENV) is True


@table(
    ("command", "is_found"),
    [
        *(
            (f"{before} vllm serve m", False)
            for before in ("env -i", "env -", "env -u PATH", "env -iC /x A=b", "env PATH=")
        ),
        *(
            (f"{before} vllm serve m", False)
            for before in ("env -i nice -n 5", "nohup env -i env A=b", "env -S '-i A=b'")
        ),
        *((f"bash -c '{before} vllm serve m'", False) for before in ("env -i", "export A=b; exec env -i A=$A")),
        *((f"{before} vllm serve m", True) for before in ("env", "env -u A", "env A=PATH", "nice")),
        ("bash -c 'exec -c vllm serve m'", True),
        *((f"{before} /usr/local/bin/vllm serve m", True) for before in ("env -i", "env -u PATH")),
        ("env -i bash -c 'vllm serve m'", True),
        ("env -i python3 -m vllm.entrypoints.openai.api_server --model m", True),
        ("env -i vllm --help", True),
    ],
)
def test_env_that_clears_path_may_not_find_vllm(command: str, *, is_found: bool) -> None:
    words = shlex.split(command)
    found = read_command(words, [""] * len(words), {}, [], "")
    assert found.installation == (None if is_found else WITHOUT_PATH)
    assert (found.words[-1:], found.doubts) == (["m"] if "--help" not in command else [], [])


NOT_READ: Final = "is not read and may change what it starts"
SCRIPTS: Final = [
    *("/entrypoint.sh", "/opt/nvidia/nvidia_entrypoint.sh", "bash /start.sh", "bash -x /start.sh", "sh start.sh -f x"),
    *("/wait-for-it.sh redis:6379 --", "nohup /entrypoint.sh", "tini -- /entrypoint.sh", "env A=b bash start.sh"),
]
LAUNCHERS: Final = [
    *(
        "nohup tini --",
        "nohup",
        "nice -n 5",
        "setsid",
        "timeout 5",
        "timeout -k 5 10m",
        "stdbuf -oL",
    ),
    *("tini --", "ionice -c 2", "numactl --cpunodebind 0", "nsys profile -o x", "gosu x", "taskset -c 0-3", "chrt 5"),
]
OTHER_PROGRAMS: Final = [
    *(
        "my-wrapper",
        "ssh gpu1",
        "apptainer exec x.sif",
        "infisical run --",
        "screen -dmS v",
        "/opt/bin/secrets",
        "echo",
    ),
    *("launch.py", "docker run --rm vllm/vllm-openai:v0.33.0"),
]


@table("server", ["vllm serve m", f"python3 -m {SERVER} --model m"])
@table("script", SCRIPTS)
def test_a_script_that_starts_vllm_is_a_doubt(script: str, server: str) -> None:
    line = read_command([*script.split(), *server.split()], ["args"] * 20, {}, [], "")
    assert line.words[-1:] == ["m"]
    assert (len(line.doubts), NOT_READ in line.doubts[0], NOT_READ in line.warnings[0]) == (1, True, True)
    inner = read_command(["sh", "-c", f"{script} {server}"], ["args"] * 3, {}, [], "")
    assert NOT_READ in inner.doubts[0]


@table("program", OTHER_PROGRAMS)
@table("launcher", LAUNCHERS)
def test_another_program_after_a_launcher_is_a_doubt(launcher: str, program: str) -> None:
    words = [*launcher.split(), *program.split(), "vllm", "serve", "m"]
    line = read_command(words, [""] * len(words), {}, [], "")
    assert line.doubts or not line.words
    plain = read_command([*launcher.split(), "vllm", "serve", "m"], [""] * 20, {}, [], "")
    assert (plain.words, plain.doubts) == (["m"], [])


CHANGING: Final = frozenset({"sudo", "conda", "micromamba", "mamba", "pixi", "mpirun"})
WITH_PACKAGES: Final = frozenset({"conda", "micromamba", "mamba", "pixi", "uv", "uvx", "poetry"})


def line_after(before: str, words: list[str], places: list[str]) -> CommandLine:
    program = before.split(maxsplit=1)[0]
    doubts = [f"the script `{word}` {NOT_READ}" for word in before.split() if word.endswith(".sh")]
    doubts += [f"`{program}` may change the variables of what it starts"] if program in CHANGING else []
    unknown: dict[str, str | None] = dict.fromkeys(ENV) if program in CHANGING or "env -i" in before else {}
    installation = replace(BY_UV, cause=BY_UV.cause.replace("uv", program)) if program in WITH_PACKAGES else None
    given = before.split()
    set_at = dict.fromkeys(unknown, PLACES[1 if "env -i" in before else 0])
    set_at |= {"A": PLACES[given.index("A=b")]} if "A=b" in before else {}
    return CommandLine(
        words,
        places,
        {**unknown, "A": "b"} if "A=b" in before else unknown,
        warnings=[f"{doubt}; variables are not certain" for doubt in doubts],
        doubts=doubts,
        installation=WITHOUT_PATH if "env -i" in before else installation,
        set_at=set_at,
        is_serve=True,
        removed=frozenset(ENV) if "env -i" in before else frozenset(),
    )


V2: Final = "VLLM_USE_V2_MODEL_RUNNER"
SET: Final = {V2: "0"}


def variable_of(words: list[str], env: Mapping[str, str | None]) -> tuple[str | None, bool, bool]:
    """The variable that vLLM gets, if it is known; whether there is a doubt; and whether there is a warning."""
    line = read_command(words, [""] * len(words), env, [], "")
    assert line.words == ["m"]
    return {**env, **line.env}.get(V2), bool(line.doubts), bool(line.warnings)


@table(
    "before",
    [
        *(
            "nohup",
            "exec",
            "exec -a x",
            "nice -n 5",
            "tini --",
            "uv run",
            "uv run --no-env-file",
            "uv run --with-editable .",
            "ncu",
        ),
        *("nsys profile -o x", "timeout 5", "env -C /", "exec -a -c", "gosu x", "torchrun --no-python"),
    ],
)
def test_programs_that_keep_the_environment_leave_the_variable(before: str) -> None:
    is_shells_own = before.startswith("exec")  # which is doubted without a shell
    assert variable_of([*before.split(), "vllm", "serve", "m"], SET) == ("0", is_shells_own, False)
    assert variable_of(["bash", "-c", f"{before} vllm serve m"], SET) == ("0", False, False)


@table(
    "before",
    ["exec -c", "exec -cl", "exec -ca x", "exec -c -a x", "env --ignore-env", "env --ignore-e", "env --ig", "env -"],
)
def test_programs_that_clear_the_environment_clear_the_variable(before: str) -> None:
    assert variable_of([*before.split(), "vllm", "serve", "m"], SET)[0] is None
    assert variable_of(["bash", "-c", f"{before} bash -c 'vllm serve m'"], SET)[0] is None
    assert variable_of(["bash", "-c", f"{before} env {V2}=1 vllm serve m"], SET)[0] == "1"


@table(
    "before",
    [
        *(
            "sudo",
            "sudo -i",
            "sudo -E",
            "sudo V=1",
            "sudo -u x",
            f"nsys profile -e {V2}=1",
            f"nsys profile --env-var={V2}=1",
        ),
        *(f"nsys profile --env={V2}=1", f"micromamba run -e {V2}=1", "micromamba run --clean-env", "conda run -n x"),
        *("pixi run --clean-env", f"mpirun -x {V2}=1", "uv run --env-file x.env", "uvx --env-file=x.env", "mamba run"),
        *("nohup systemd-run", "nice strace -E A=b", "timeout 5 envdir x", "gosu x doas", "uv run pipenv run"),
    ],
)
def test_programs_that_may_change_the_environment_make_variables_doubtful(before: str) -> None:
    assert variable_of([*before.split(), "vllm", "serve", "m"], SET) == (None, True, True)
    assert variable_of(["sh", "-c", f"{before} vllm serve m"], SET) == (None, True, True)
    assert variable_of([*before.split(), "env", f"{V2}=1", "vllm", "serve", "m"], {}) == ("1", True, True)


UNKNOWN_NAMES: Final = [
    *("$(X)=0", "$(X)A=0", "A$(X)=0", "A.$(X)=0", "B=c $(X)=0", "-- $(X)=0", "-u $(X)", "-u$(X)", "-iu$(X)"),
    *("--unset=$(X)", "--unset $(X)", "--un $(X)", "${A}A=0"),
]
"""Words of `env` that may set or remove any variable."""


@table("names", UNKNOWN_NAMES)
def test_env_with_a_name_that_is_not_known_makes_variables_doubtful(names: str) -> None:
    words = ["env", *names.split()]
    known = {**SET, "X": None}
    assert variable_of([*words, "vllm", "serve", "m"], known) == (None, True, True)
    assert variable_of(["nohup", *words, "vllm", "serve", "m"], known) == (None, True, True)
    assert variable_of([*words, "sh", "-c", "vllm serve m"], known) == (None, True, True)
    assert variable_of([*words, "env", f"{V2}=1", "vllm", "serve", "m"], known) == ("1", True, True)


@table("names", UNKNOWN_NAMES[:-1])
def test_env_with_a_name_that_a_shell_makes_has_that_doubt(names: str) -> None:
    known = names.replace("$(X)", '"$(x)"')
    assert variable_of(["bash", "-c", f"env {known} vllm serve m"], SET) == (None, True, True)
    known = names.replace("$(X)", "${X}")
    assert variable_of(["env", "-S", f"env {known} vllm serve m"], SET) == (None, True, True)


@table("words", ["A=$(X)", "A=${X}", "-C$(X)", "-C $(X)", "--chdir=$(X)", "-a $(X)", "-va$(X)", "--block-signal=$(X)"])
def test_env_with_a_value_that_is_not_known_leaves_the_other_variables(words: str) -> None:
    assert variable_of(["env", *words.split(), "vllm", "serve", "m"], {**SET, "X": None}) == ("0", False, False)


def test_the_variable_of_uv_that_names_a_file_of_variables_makes_them_doubtful() -> None:
    words = ["uv", "run", "vllm", "serve", "m"]
    assert variable_of(words, {**SET, "UV_ENV_FILE": ".env"}) == (None, True, True)
    assert variable_of(words, {**SET, "UV_ENV_FILE": None}) == (None, True, True)
    assert variable_of(words, {**SET, "UV_ENV_FILE": ""}) == ("0", False, False)


@table(
    "shell",
    [
        *(
            "bash -lc",
            "bash -l -c",
            "bash --login -c",
            "bash -login -c",
            "bash -ic",
            "bash -i -c",
            "bash --rcfile x -c",
        ),
        *("bash --init-file x -c", "sh -ic", "dash -lc", "exec -l bash -c", "env BASH_ENV=x bash -c"),
        *("env BASHOPTS=x bash -c", "env SHELLOPTS=xtrace bash -c", "env BASH_FUNC_vllm%%=x sh -c"),
    ],
)
def test_files_and_functions_that_a_shell_reads_before_its_script_make_it_doubtful(shell: str) -> None:
    assert variable_of([*shell.split(), "vllm serve m"], SET)[1:] == (True, True)
    assert variable_of([*shell.split(), f"{V2}=1 vllm serve m"], SET) == ("1", True, True)
    assert variable_of(["sh", "-c", f"{shell} 'vllm serve m'"], SET)[1:] == (True, True)


@table("name", ["BASH_ENV", "SHELLOPTS", "BASHOPTS", "BASH_FUNC_vllm%%", "POSIXLY_CORRECT", "PS4"])
def test_variables_of_the_container_that_change_a_shell_make_it_doubtful(name: str) -> None:
    for value in ("x", None):
        assert variable_of(["bash", "-c", "vllm serve m"], {**SET, name: value}) == (None, True, True)
        assert variable_of(["vllm", "serve", "m"], {**SET, name: value}) == ("0", False, False)


@table("value", [f"$(({V2}=0))", "+ ${BASH_SOURCE}", "`date`", r"\044((A=1))", None])
@table("shell", ["sh -xc", "dash -xc", "/bin/sh -ex -c", "ash -c", "bash -c", "bash -xc", "sh -o xtrace -c"])
def test_what_a_shell_expands_before_each_line_of_its_trace_makes_it_doubtful(shell: str, value: str | None) -> None:
    for script in ("vllm serve m", "set -ex\nvllm serve m"):
        words = [*shell.split(), script]
        assert variable_of(words, {**SET, "PS4": value}) == (None, True, True)
        assert variable_of([*shell.split(), f"{V2}=1 vllm serve m"], {**SET, "PS4": value}) == ("1", True, True)
        if value is not None:
            assert variable_of(["env", f"PS4={value}", *words], SET) == (None, True, True)


@table("value", ["", "+ ", "%N> ", "((A=1))"])
@table("shell", ["sh -c", "sh -xc", "dash -xc"])
def test_a_plain_text_before_each_line_of_a_trace_changes_nothing(shell: str, value: str) -> None:
    assert variable_of([*shell.split(), "vllm serve m"], {**SET, "PS4": value}) == ("0", False, False)


def test_the_variable_that_names_a_start_up_file_matters_only_to_bash() -> None:
    assert variable_of(["sh", "-c", "vllm serve m"], {**SET, "BASH_ENV": "x"}) == ("0", False, False)
    assert variable_of(["bash", "-c", "export BASH_ENV=x; bash -c 'vllm serve m'"], SET) == (None, True, True)


@table("name", ["SHELLOPTS", "BASHOPTS"])
def test_options_in_a_variable_matter_to_a_shell_that_may_be_bash(name: str) -> None:
    for value in ("allexport", None):
        assert variable_of(["sh", "-c", "vllm serve m"], {**SET, name: value}) == (None, True, True)
        assert variable_of(["/bin/sh", "-c", f"{V2}=1\nvllm serve m"], {name: value})[1:] == (True, True)
        assert variable_of(["dash", "-c", "vllm serve m"], {**SET, name: value}) == ("0", False, False)
    assert variable_of(["env", f"{name}=allexport", "sh", "-c", "vllm serve m"], SET) == (None, True, True)
    assert variable_of(["sh", "-c", "vllm serve m"], {**SET, name: ""}) == ("0", False, False)


@table(
    "shell",
    [
        *("bash -nc", "bash -c -n", "bash -o noexec -c", "bash -ceo noexec", "bash --version -c", "bash --help -c"),
        *("bash -version -c", "bash -Dc", "bash --dump-strings -c", "sh -nc", "dash -o noexec -c", "bash +x -nc"),
    ],
)
def test_a_shell_that_runs_nothing_starts_nothing(shell: str) -> None:
    assert starts_vllm([*shell.split(), "vllm serve m"], {}) is False


@pytest.mark.parametrize(
    "shell", ["bash -n +n -c", "bash +o noexec -c", "bash -norc -c", "bash --noprofile -c", "bash -c +n"]
)
def test_a_shell_whose_options_let_it_run_its_script_starts_it(shell: str) -> None:
    assert variable_of([*shell.split(), "vllm serve m"], SET) == ("0", False, False)


@table(
    "shell",
    [
        *("bash -a -c", "bash -ac", "bash -o allexport -c", "bash --posix -c", "bash -posix -c", "bash -o posix -c"),
        *("bash -k -c", "bash -O extglob -c", "bash -r -c", "sh -ac"),
    ],
)
def test_options_of_a_shell_that_change_what_its_script_means_make_it_doubtful(shell: str) -> None:
    assert variable_of([*shell.split(), "vllm serve m"], SET) == (None, True, True)


@table(
    ("words", "found", "env"),
    [
        (["env", "-S", "vllm serve m"], ["m"], {}),
        (["env", "-S", "A=b vllm serve", "m"], ["m"], {"A": "b"}),
        (["env", "-vSvllm serve m"], ["m"], {}),
        (["env", "-iS", "-u C vllm serve m"], ["m"], dict.fromkeys(ENV)),
        (["env", "--split-string=vllm serve m"], ["m"], {}),
        (["env", "--split", "vllm serve m"], ["m"], {}),
        (["/usr/bin/env", "-S-a x A='b \\'c' vllm", "serve", "m"], ["m"], {"A": "b 'c"}),
        (["env", "-S", 'A=$(TP) vllm serve "${MODEL}-b" # x'], ["org/m-b"], {"A": "4"}),
        (["env", "-S", 'vllm serve "a\\_b\'c"\\_d e\\t"#"f \\c g'], ["a b'c", "d", "e\t#f"], {}),
        (["env", "-S", 'vllm serve "a\\tb"\\nc'], ["a\tb\nc"], {}),
        (["env", "-S", "env -S 'vllm serve m'"], ["m"], {}),
        (["nice", "env", "-S", "bash -c 'vllm serve $MODEL'"], ["org/m"], {}),
        (["bash", "-c", "exec env -S 'vllm serve m'"], ["m"], {}),
    ],
)
def test_the_text_that_env_splits_is_read(words: list[str], found: list[str], env: dict[str, str | None]) -> None:
    line, faults = read(words)
    assert (line.words, line.env, faults) == (found, env, [])
    assert starts_vllm(words, ENV) is True


def test_a_variable_that_env_does_not_know_gives_an_unknown_word() -> None:
    assert [type(word) for word in read(["env", "-S", "vllm serve ${NOBODY} '${NOBODY}'"])[0].words] == [Unknown, str]


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["env", "-S", "vllm serve 'm"], "the character `'` at position 12 of the text of `env -S` is not valid there"),
        (["env", "-S", 'vllm serve "m'], 'a quote `"` in the text of `env -S` is not closed; close it'),
        (["env", "-S", "vllm serve $m"], "the character `$` at position 12 of the text of `env -S` is not valid there"),
        (["env", "-S", "vllm serve \\m"], "the escape `\\m` in the text of `env -S` is not valid"),
        (
            ["bash", "-c", 'env -S "vllm serve $X"'],
            "the text `vllm serve $X` of `env -S` is not known; write its words as separate arguments",
        ),
    ],
)
def test_a_text_that_env_cannot_split_is_a_fault(words: list[str], why: str) -> None:
    assert starts_vllm(words, ENV) == UnreadableCommand(why, "", names_vllm=True)
    assert read(words)[1] == [RequestFault("/deployment/args", f"the script cannot be read: {why}")]


def test_texts_that_env_splits_may_be_nested_four_times() -> None:
    words = ["env", *["-S", "-v"] * 4, "vllm", "serve", "m"]
    assert starts_vllm(words, ENV) is True
    assert isinstance(starts_vllm(["env", "-S", "-v", *words[1:]], ENV), UnreadableCommand)


@table("options", ["-um", "-Im", "-Bum", "-uWignore -m", "-Xdev -Bm", "-W m -m", "-Wm -m"])
def test_short_options_of_python_may_be_combined(options: str) -> None:
    words = ["python3", *options.split(), SERVER, "--model", "m"]
    at = words.index("--model")
    assert read(words) == (CommandLine(words[at:], PLACES[at : at + 2], serve=False, module=SERVER), [])
    attached = ["python3", "-u" + options.rsplit(maxsplit=1)[-1][1:] + SERVER, "--model", "m"]
    assert read(attached)[0].words == ["--model", "m"]


def test_kubernetes_variables_are_filled_in_first() -> None:
    assert read(["vllm", "serve", "$(MODEL)", "$(NOBODY)", "$$(TP)"])[0].words == ["org/m", "$(NOBODY)", "$(TP)"]


def test_of_two_servers_the_first_is_read_with_a_warning() -> None:
    found = read(["sh", "-c", "vllm serve a & vllm serve b"])[0]
    assert (found.words, found.warnings) == (["a"], ["the script starts vLLM 2 times; the first is read"])


@table(
    ("text", "words", "doubt"),
    [
        ("vllm serve a --help; vllm serve b", ["b"], ""),
        ("vllm serve a & vllm serve a", ["a"], ""),
        ("vllm serve a -- --help; vllm serve b", ["a", "--", "--help"], "starts vLLM 2 times with different"),
        ("vllm serve a; A=1 vllm serve a", ["a"], "starts vLLM 2 times with different"),
        ("bash x.sh; vllm serve a", ["a"], "`x.sh` is a script that is not read, and the script runs it as well"),
        ("trap 'vllm serve b' EXIT; vllm serve a", ["a"], "`trap` runs other commands"),
        ("set -- b; eval 'vllm serve a ${X:-c}'", ["a", "${X:-c}"], ""),
        ("if b; then eval 'vllm serve a; exit 1'; fi; exit 1", ["a"], ""),
        ("while b; do eval 'vllm serve a'; sleep 5; done", ["a"], ""),
        ("eval 'ray start --head'; vllm serve a", ["a"], ""),
    ],
)
def test_a_script_that_may_start_vllm_in_another_way_is_in_doubt(text: str, words: list[str], doubt: str) -> None:
    found = read(["bash", "-c", text])[0]
    assert (found.words, doubt in " ".join(found.doubts), bool(found.doubts)) == (words, True, bool(doubt))


@table(
    ("options", "doubt"),
    [
        *(("-oo nounset allexport", ""), ("-oo allexport nounset", ""), ("-aoo nounset errexit", "")),
        *(("-oo nounset keyword", "`set` changes"), ("-o -u", "`set` changes"), ("-oa -u", "`set` changes")),
    ],
)
def test_set_takes_a_name_for_each_letter_o(options: str, doubt: str) -> None:
    found, faults = read(["bash", "-c", f"set {options}\nB=0\nvllm serve a $@", "sh", "--seed=1"])
    assert (found.words, doubt in " ".join(found.doubts), bool(found.doubts), faults) == (
        ["a", "--seed=1"],
        True,
        bool(doubt),
        [],
    )
    assert doubt or found.env == {"B": "0"}


HARMLESS_TRAPS = [
    *(
        "kill $PID",
        'kill "$PID" $! || true',
        "kill -TERM $(jobs -p); wait; exit $?",
        "echo bye; exit 0",
        "exit",
        "",
        "-",
    ),
    *("kill -- -$$$$", "rm -f /tmp/x.lock", "pkill -P $$$$ -f vllm; :", "kill ${PID}; wait", "kill %1 && wait %1 2"),
    *("kill $! 2>/dev/null; wait >/dev/null 2>&1", "echo bye >&2", 'rm -f "$TMP/x"', 'echo "bye..."; kill $A; exit 0'),
    *(
        'kill -TERM "${PID:-}" 2>/dev/null || true',
        "kill ${!}",
        'kill "${PIDS[@]}"',
        "kill ${PIDS[*]-}",
        "exit ${rc:-0}",
    ),
    *(
        "echo stop > /proc/1/fd/1; exit 0",
        "echo stop >/dev/stderr; kill $PID",
        'kill $PID # stop; `it` is > "late',
        "# a",
    ),
    *(
        'rm -rf "${TMP_DIR:?}"',
        "rm -f /tmp/*.{lock,pid}",
        'echo "Bye \\"x\\"; \\$[x]\\n"',
        "echo [entrypoint] stopping",
    ),
]
OTHER_TRAPS = [
    *(": $[A=0]", ": ${A:=0}", ": $((A=0))", ': "${A=0}"', ': "$[A=0]"', "A=0 :", "exit;A=0", "{ A=0; }"),
    *("echo x > /models/q/config.json", "kill 1 >x/dev/null", ": >/dev/null/../x", "rm <(x)", "f() { A=0; }; f"),
    *("echo `x`", "echo $(x)", "kill $(x)", ": [ $A", "echo 0 | (read A)", "echo \\$[A=0]"),
    *("wait -p A", "wait -p A 1", "wait $A"),
    *(": ${A=0}", ": ${B[A=0]}", ": ${B[A=0]:-x}", ": ${B:-$[A=0]}", ': "${B:-$((A=0))}"', ": ${B:-`x`}", ": ${!B}"),
    *(
        ": {A}>/dev/null",
        ": {A}>&2",
        "echo x >/dev/stdout/../x",
        "echo >/proc/1/fd/3",
        "echo x#\nA=0",
        '"A=0" :',
        ": {A=0,b}",
    ),
    *(
        'echo "\\" $[A=0]"',
        'echo "\\\\$[A=0]"',
        'echo "a\\"; A=0; echo "b"',
        "echo a #b\nA=0",
        ": ${B@P}",
        "{ A=0; # x\n}",
    ),
]


def test_a_trap_that_may_set_variables_or_write_files_is_in_doubt() -> None:
    def doubts(action: str) -> list[str]:
        return read(["bash", "-c", f"trap '{action}' USR1; kill -USR1 $$$$; vllm serve a"])[0].doubts

    assert [action for action in OTHER_TRAPS if doubts(action) != ["`trap` runs other commands"]] == []
    assert [(action, doubts(action)) for action in HARMLESS_TRAPS if doubts(action)] == []


EVAL_DOUBT = "`eval` may change the rest of the script"


@table(
    ("text", "words"),
    [
        ("eval 'export A=0; echo starting vllm serve'; exec vllm serve m", ["m"]),
        ("eval 'export A=0 # vllm serve'\nexec vllm serve m", ["m"]),
        ("eval 'export A=0; vllm serve x --help'; exec vllm serve m", ["m"]),
        ("eval 'export A=0; env -0 vllm serve n'; exec vllm serve m", ["m"]),
        ("eval 'set -- x; echo vllm serve'; exec vllm serve m \"$@\"", ["m"]),
        ("if a; then eval 'export A=0; echo vllm serve'; fi; exec vllm serve m", ["m"]),
        ("eval 'export A=0; echo vllm serve' && exec vllm serve m", ["m"]),
        ("eval \"eval 'export A=0; echo vllm serve'; exec vllm serve m\"", ["m"]),
        ("while b; do vllm serve m; eval 'export A=0; echo vllm serve'; done", ["m"]),
    ],
)
def test_an_eval_that_is_not_the_server_may_change_the_one_after_it(text: str, words: list[str]) -> None:
    found, faults = read(["bash", "-c", text])
    assert (found.words, EVAL_DOUBT in found.doubts, faults) == (words, True, [])


def test_values_whose_parts_are_not_known_count_once_unless_they_name_the_server() -> None:
    def faults(value: str) -> list[str]:
        return [fault.message for fault in read(["bash", "-c", f"IFS=,\nA={value}\n{uses}vllm serve m"])[1]]

    uses = "echo $A\n" * 70
    assert faults("x" * 1000) == []
    assert faults("vllm,serve," * 100) == [
        "the script cannot be read: the values of its variables have more than 65536 characters, which is the limit"
    ]


SERVER_EVALS = [
    *("vllm serve m --a 'b c'", "vllm serve m --a='b;c' --d \"e\nf\" ", "exec vllm serve m  --hf-overrides '{}'"),
    *("python3 -m vllm.entrypoints.openai.api_server --model m", "A=INFO B='c d' nohup vllm serve m"),
]
OTHER_EVALS = [
    *(
        "vllm serve m --a b; export A=0",
        "vllm serve m --a 'b'\nexport A=0",
        "vllm serve m --a $$[A=0]",
        "A=0; vllm serve m",
    ),
    *(
        'vllm serve m "$$((A=0))"',
        "vllm serve m `x`",
        "vllm serve m > x",
        "A=$$((B=0)) vllm serve m",
        "vllm serve m --a $$A",
    ),
    *(
        "vllm serve m | x",
        "vllm serve m \\'; export A=0 #'",
        'vllm serve m --a "\\$$A"',
        "A[B=0]=1 vllm serve m",
    ),
]


def test_an_eval_in_a_loop_that_only_starts_the_server_does_not_change_the_loop() -> None:
    def doubts(script: str, text: str) -> list[str]:
        return read(["bash", "-c", script, "sh", text])[0].doubts

    script = 'while true; do eval "$1"; sleep 5; done'
    assert [text for text in SERVER_EVALS if doubts(script, text)] == []
    assert [text for text in OTHER_EVALS if EVAL_DOUBT not in doubts(script, text)] == []
    for loop in ('until eval "$1"; do sleep 5; done', 'for i in 1 2 3; do eval "$1" && break; sleep 5; done'):
        assert doubts(loop, SERVER_EVALS[0]) == []
    pattern = r"while true; do eval vllm serve m \'{a,\;export\ A=0}\'; done; vllm serve n"
    assert EVAL_DOUBT in doubts(pattern, "")


@table(
    ("script", "words"),
    [
        ('eval \'exec vllm serve "$0" "$@"\'', ["a/b", "-tp", "2"]),
        ("shift; eval 'vllm serve $0 --seed $1'", ["a/b", "--seed", "2"]),
        ("set -- 'c d'; eval \"eval 'vllm serve \\$0 \\\"\\$1\\\"'\"", ["a/b", "c d"]),
        ("bash -c \"eval 'vllm serve \\$0 \\$1'\" e f", ["e", "f"]),
        ("eval 'vllm serve $0' && bash -c x y", ["a/b"]),
        ("if c; then shift; fi; eval 'vllm serve $0 $1'", ["a/b", "$1"]),
        ("f() { eval 'vllm serve $0 $1'; }; f", ["$0", "$1"]),
        ("command eval 'vllm serve $0 $1'", ["$0", "$1"]),
    ],
)
def test_an_eval_has_the_arguments_of_its_script(script: str, words: list[str]) -> None:
    found, faults = read(["bash", "-c", script, "a/b", "-tp", "2"])
    assert (found.words, [type(word) is Unknown for word in found.words], faults) == (
        words,
        ["$" in word for word in words],
        [],
    )


GAP = "a value that is not known and replaces a part of it before the shell reads it"


@table(
    ("script", "words"),
    [
        ('eval "exec vllm serve m $NOBODY -tp 2"', ["m", "$NOBODY", "-tp", "2"]),
        ('eval "vllm serve m --port ${NOBODY} -tp 2"', ["m", "--port", "${NOBODY}", "-tp", "2"]),
        ("eval \"vllm serve m '$NOBODY'\"", ["m", "$NOBODY"]),
        ('A=$(date); eval "vllm serve m $A"', ["m", "$A"]),
        ('TP=$(nproc); eval "vllm serve m -tp $TP"', ["m", "-tp", "$TP"]),
        ('export TP=$(nproc); eval "vllm serve m -tp $TP"', ["m", "-tp", "$TP"]),
        ('eval "vllm serve m $(cat flags)"', ["m", "$(cat flags)"]),
        ('if a; then X=--enable-dbo; fi; eval "vllm serve m $X $@"', ["m", "$X", "-tp", "2"]),
        ('eval "vllm serve $MODEL $NOBODY"', ["org/m", "$NOBODY"]),
        ('eval vllm serve m $NOBODY "$@"', ["m", "$NOBODY", "-tp", "2"]),
    ],
)
def test_an_eval_of_which_only_arguments_are_not_known_starts_vllm_with_a_doubt(script: str, words: list[str]) -> None:
    found, faults = read(["bash", "-c", script, "--", "-tp", "2"])
    assert (found.words, faults, [GAP in doubt for doubt in found.doubts]) == (words, [], [True])
    unknown = {word for word in found.words if type(word) is Unknown}
    assert unknown == {word for word in words if "$" in word}


@table(
    "script",
    [
        'eval "$NOBODY"',
        'eval "$NOBODY serve m"',
        'eval "vllm $NOBODY m"',
        'eval "$NOBODY vllm serve m"',
        'eval "vllm serve m \\\\$NOBODY $NOBODY"',
        "eval vllm serve m {a,b}",
        'eval "vllm serve m \'" $NOBODY',
    ],
)
def test_an_eval_that_may_start_something_else_is_not_read(script: str) -> None:
    found, faults = read(["bash", "-c", script])
    assert (found.words, ["`eval` runs" in fault.message for fault in faults]) == ([], [True])


@table(
    "words",
    [
        ["sleep", "infinity"],
        ["tail", "-f", "/dev/null"],
        ["vllm", "bench", "serve"],
        ["vllm", "--version"],
        ["sudo", "-u", "vllm", "nginx"],
        ["nohup", "vllm"],
        ["python", "-Wm", "-u"],
        ["vllm"],
        ["ray", "start", "--head"],
        ["python", "-m", "http.server"],
        ["python", "-m", "vllm.entrypoints.cli.main", "bench"],
        ["python", "-u"],
        ["python", "-m"],
        ["sh", "-c", "python3 -m"],
        ["/vllm-workspace/multi-node-serving.sh", "worker", "--ray_address=$LWS_LEADER_ADDRESS"],
        ["bash", "-c", "sleep 1"],
        ["bash", "-c"],
        ["bash"],
        ["/usr/bin/nginx", "-g"],
        ["env", "A=b"],
        ["A=b", "nginx"],
        ["python", "-c", "import torch"],
        ["exec", "nginx"],
        ["timeout", "60", "nvidia-smi"],
        ["pytest", "tests"],
        ["echo", "vllm", "serve"],
        ["echo", "vllm", "--", "serve"],
        ["mywrap", "vllm", "bench", "serve"],
        ["mywrap", "--user", "vllm", "vllm", "bench", "serve"],
        ["mywrap", "serve", "vllm"],
        ["mywrap", "vllm", "--observe"],
        ["sh", "-c", "cd /opt/vllm && ray start --head; nginx serve"],
        ["docker", "run", "--name", "vllm", "nginx"],
        ["docker", "run", "-v", "/data/vllm:/x", "-it", "--rm", "nginx", "vllm/vllm-openai"],
        ["docker", "build", "-t", "vllm/vllm-openai", "."],
        ["docker", "run"],
        ["sh", "-c", ". /opt/venv/bin/activate && ray start --address=$LEADER --block"],
        ["sh", "-c", "until pgrep -f 'vllm serve'; do sleep $(date +%s); done"],
        [
            "sh",
            "-c",
            (
                "bash /vllm-workspace/examples/online_serving/multi-node-serving.sh worker "
                "--ray_address=$LWS_LEADER_ADDRESS"
            ),
        ],
        ["bash", "/vllm-workspace/examples/online_serving/multi-node-serving.sh", "worker"],
        ["sh", "-c", "vllm bench serve; sleep infinity"],
        ["sh", "-c", "# vllm serve m\nsleep infinity"],
        ["sh", "-c", "eval 'sleep 1'"],
        ["sh", "-c", "ls | xargs rm -f"],
        ["sh", "-c", "source $VENV/bin/activate; python -m http.server"],
        ["sh", "-c", "export X=$(hostname); case $X in a) nvidia-smi;; esac; sleep $((1 + 1))"],
    ],
)
def test_a_command_that_does_not_start_vllm_is_a_fault(words: list[str]) -> None:
    faults: list[RequestFault] = []
    assert read_command(words, PLACES[: len(words)], {}, faults, "/a") == CommandLine()
    assert [
        (
            fault.pointer,
            fault.message.endswith("does not start vLLM's server; write its flags, or `vllm serve MODEL …`"),
        )
        for fault in faults
    ] == [("/a", True)]


@table("before", [[], ["A=b"], ["A=b", "C="]])
@table("path", ["./A=b", "/x/A=b", "../a/A=b="])
def test_a_path_that_ends_like_an_assignment_is_a_program(path: str, before: list[str]) -> None:
    line, (fault,) = read([*before, path, "vllm", "serve", "m"])
    assert (line.words, fault.message.partition(",")[0]) == (
        [],
        f"`{path.rpartition('/')[2]}` has vLLM's server among its arguments and may start it",
    )


NOT_A_COMMAND = "is not a command of `vllm`, and vLLM's server is among the arguments after it"
AMONG_ARGUMENTS = "has vLLM's server among its arguments and may start it"
PROGRAM_UNKNOWN = "which names the program, is not known"
UNREAD: list[tuple[list[str], str, int, bool]] = [
    (["$(HIDDEN)", "serve", "m"], f"the value of `$(HIDDEN)`, {PROGRAM_UNKNOWN}", 0, False),
    (["$(NOBODY)", "serve", "m"], f"the value of `$(NOBODY)`, {PROGRAM_UNKNOWN}", 0, False),
    (["{{ .Values.command }}", "serve"], f"the value of `{{{{ .Values.command }}}}`, {PROGRAM_UNKNOWN}", 0, False),
    (["vllm", "$(HIDDEN)", "m"], "the value of `$(HIDDEN)`, which names a command of `vllm`, is not known", 1, True),
    (["python3", "$(HIDDEN)", "m"], "the file `$(HIDDEN)` is a Python program that is not read", 1, False),
    (["python3", "-m", "$(HIDDEN)", "m"], "the module that `python3` runs is not known", 2, False),
    (
        ["python3", "-c", "import runpy; runpy.run_module('vllm.entrypoints')"],
        "`python3` runs code that is not read",
        2,
        False,
    ),
    (["python3", "-"], "`python3` reads its program from standard input", 1, False),
    (["python3", "-cimport vllm.entrypoints.openai.api_server", "x"], "`python3` runs code that is not read", 1, True),
    (["$(HIDDEN)/$(HIDDEN)", "serve"], f"the value of `$(HIDDEN)/$(HIDDEN)`, {PROGRAM_UNKNOWN}", 0, False),
    (["python3", "/app/server.py"], "the file `/app/server.py` is a Python program that is not read", 1, False),
    (["bash", "run.sh"], "the file `run.sh` is a script that is not read", 1, False),
    (["bash", "$(HIDDEN)"], "the value of `$(HIDDEN)`, which names a script, is not known", 1, False),
    *(
        (words, f"the option `{words[at]}` of `{words[0]}` is not known", at, is_named)
        for words, at, is_named in (
            (["sh", "-c$(HIDDEN)", "vllm serve m"], 1, True),
            (["sh", "-$(HIDDEN)c", "sleep 1"], 1, False),
            (["bash", "-e", "+$(HIDDEN)", "-c", "vllm serve m"], 2, True),
            (["bash", "-c", "--$(HIDDEN)", "vllm serve m"], 2, True),
            (["sh", "-n$(HIDDEN)", "-c", "vllm serve m"], 1, True),
            (["python3", "-$(HIDDEN)m", SERVER, "--model", "m"], 1, True),
            (["python3", "-u", "-$(HIDDEN)", "-m", SERVER], 2, True),
            (["python3", "--$(HIDDEN)", "-m", "http.server"], 1, False),
            (["env", "-$(HIDDEN)", "vllm", "serve", "m"], 1, True),
            (["env", "-i$(HIDDEN)u", "A", "vllm", "serve", "m"], 1, True),
            (["env", "--$(HIDDEN)", "sleep", "1"], 1, False),
        )
    ),
    (["sh", "-c", "xargs -$A echo vllm serve m"], "the option `-$A` of `xargs` is not known", 2, True),
    (["sh", "-c", "xargs --$A=x echo"], "the option `--$A=x` of `xargs` is not known", 2, False),
    (["nohup", "sh", "-c$(HIDDEN)", "vllm serve m"], "the option `-c$(HIDDEN)` of `sh` is not known", 2, True),
    *(
        ([name, "-c", "/x"], f"`{name}` starts what a file lists, which is not read", 0, False)
        for name in ("supervisord", "s6-svscan", "runsvdir", "honcho", "make", "just", "npm")
    ),
    (["tini", "--", "supervisord"], "`supervisord` starts what a file lists, which is not read", 2, False),
    (["/app/start.sh"], "the file `/app/start.sh` is a script that is not read", 0, False),
    (["nohup", "/app/start.sh", "m"], "the file `/app/start.sh` is a script that is not read", 1, False),
    *(
        ([name], f"the file `{name}` is a script that is not read", 0, False)
        for name in ("/start.bash", "start.zsh", "/start.SH", "start_vllm", "/usr/bin/vllm-serve", "my.vllm")
    ),
    (["/y", "serve", "m"], "the file `/y` is a script that is not read", 0, False),
    (["tini", "--", "/run"], "the file `/run` is a script that is not read", 2, False),
    (["env", "/run"], "the file `/run` is a script that is not read", 1, False),
    (["exec", "$(HIDDEN)", "serve"], "the value of `$(HIDDEN)`, which may name a program, is not known", 1, False),
    (
        ["screen", "-dm", "bash", "-c", "vllm serve m"],
        "`screen` has vLLM's server among its arguments and may start it",
        0,
        True,
    ),
    *(
        (words, f"`{words[0].rpartition('/')[2]}` {AMONG_ARGUMENTS}", 0, True)
        for words in (
            ["pm2-runtime", "start", "vllm", "--", "serve", "m", "--enable-dbo"],
            ["/sbin/start-stop-daemon", "--start", "--exec", "/usr/local/bin/vllm", "--", "serve", "m"],
            ["mywrap", "vllm", "--", "serve", "m"],
            ["mywrap", "--exec", "/usr/local/bin/vllm", "--args", "serve m --enable-dbo"],
            ["mywrap", "--exec=/usr/local/bin/vllm", "--args=serve m"],
            ["mywrap", "--command", "/usr/local/bin/vllm -- serve m"],
            ["mywrap", "--user", "vllm", "--", "/opt/bin/vllm", "--x", "serve", "m"],
            ["mywrap", "vllm", "bench", "vllm", "-x", "serve"],
        )
    ),
    *(
        (["bash", "-c", script], f"`{program}` {AMONG_ARGUMENTS}", 2, True)
        for program, script in (
            ("pm2-runtime", "pm2-runtime start vllm -- serve m"),
            ("mywrap", "cd /x && A=b mywrap --exec /usr/bin/vllm --args 'serve m'; sleep 1"),
            ("mywrap", "A=b mywrap vllm -- serve m"),
        )
    ),
    (["bash", "-c", "exec mywrap vllm -- serve m"], f"`mywrap` {AMONG_ARGUMENTS}", 2, True),
    (["vllm", "--args", "serve m"], f"`--args` {NOT_A_COMMAND}", 1, True),
    (["python3", "-m", "wrap", "vllm", "--", "serve"], f"`wrap` {AMONG_ARGUMENTS}", 2, True),
    (["vllm", "vllm", "serve", "m"], f"`vllm` {NOT_A_COMMAND}", 1, True),
    (["vllm", "--x", "serve", "m"], f"`--x` {NOT_A_COMMAND}", 1, True),
    (["vllm", "", "serve", "m"], f"`` {NOT_A_COMMAND}", 1, True),
    (["gosu", "vllm", "su", "-c", "vllm serve m"], f"`su` {AMONG_ARGUMENTS}", 2, True),
    (["vllm", "chat", "vllm", "serve", "m"], "`chat` has vLLM's server among its arguments and may start it", 1, True),
    (
        ["uv", "run", "--with", "vllm", "chat", "vllm", "serve"],
        "`chat` has vLLM's server among its arguments and may start it",
        4,
        True,
    ),
    (
        ["python3", "-m", "vllm", "chat", "vllm", "serve"],
        "`chat` has vLLM's server among its arguments and may start it",
        3,
        True,
    ),
    (["python3", "/bin/vllm", "x", "serve", "m"], f"`x` {NOT_A_COMMAND}", 2, True),
    (
        ["nohup", "vllm", "$(HIDDEN)"],
        "the value of `$(HIDDEN)`, which names a command of `vllm`, is not known",
        2,
        True,
    ),
    (["/entrypoint.sh", "vllm", "m"], "the file `/entrypoint.sh` is a script that is not read", 0, False),
    (["nginx", "vllm", "serve"], "`nginx` has vLLM's server among its arguments and may start it", 0, True),
    (["sh", "-c", "$A serve m"], f"the value of `$A`, {PROGRAM_UNKNOWN}", 2, False),
    (["sh", "-c", "$(NOBODY)"], f"the value of `$(NOBODY)`, {PROGRAM_UNKNOWN}", 2, False),
    (["sh", "-c", 'exec "$A" serve m'], "the value of `$A`, which may name a program, is not known", 2, False),
    (["sh", "-c", "exec $HIDDEN"], "the value of `$HIDDEN`, which may name a program, is not known", 2, False),
    (["sh", "-c", "echo $(vllm serve m)"], f"the value of `$(vllm serve m)`, {PROGRAM_UNKNOWN}", 2, True),
    (["sh", "-c", "A=`vllm serve m`"], f"the value of ``vllm serve m``, {PROGRAM_UNKNOWN}", 2, True),
    (["sh", "-c", "eval $A"], "`eval` runs `$A`, which is not read", 2, False),
    (["sh", "-c", 'A=x; eval "$B vllm serve m"'], "`eval` runs `$B vllm serve m`, which is not read", 2, True),
    (["sh", "-c", "echo serve m | xargs vllm"], "`xargs` starts `vllm` with arguments that are not known", 2, True),
    (
        ["sh", "-c", "echo m | xargs -n 1 vllm serve"],
        "`xargs` starts `vllm` with arguments that are not known",
        2,
        True,
    ),
    (["sh", "-c", "echo 'vllm serve m' | sh"], "`sh` reads its commands from standard input", 2, True),
    (["sh", "-c", "cat x | python3"], "`python3` reads its program from standard input", 2, False),
    (
        ["sh", "-c", "trap 'vllm serve m' EXIT; sleep 1"],
        "`trap` has vLLM's server among its arguments and may start it",
        2,
        True,
    ),
    (
        ["sh", "-c", "$A; trap 'vllm serve m' EXIT"],
        "`trap` has vLLM's server among its arguments and may start it",
        2,
        True,
    ),
    (["sh", "-c", ". /app/start.sh"], "the file `/app/start.sh` is a script that is not read", 2, False),
    (["sh", "-c", "source /start"], "the file `/start` is a script that is not read", 2, False),
    (["sh", "-c", ". /opt/start.inc"], "the file `/opt/start.inc` is a script that is not read", 2, False),
    (["sh", "-c", "chmod +x /run && /run"], "the file `/run` is a script that is not read", 2, False),
    (
        ["sh", "-c", ". /venv/bin/activate; ./run_cluster"],
        "the file `./run_cluster` is a script that is not read",
        2,
        False,
    ),
    (
        ["sh", "-c", 'if a; then set -- vllm serve m; fi; exec "$@"'],
        "the value of `$@`, which may name a program, is not known",
        2,
        True,
    ),
    (
        ["sh", "-c", 'sh -c \'sh -c "sh -c \\"sh -c 1\\""\''],
        "`sh` is nested more than 4 shells deep",
        2,
        False,
    ),
]


FUNCTION = "the value of `$@`, which names a command of `vllm`, is not known"
RENAMED = "gives `vllm` another name"
HERE_STRING = "`<<<` has vLLM's server among its arguments and may start it"
SOURCED = "is a script that is not read"
WRITTEN = "writes vLLM's server into a file, which may be run"
HIDDEN: list[tuple[str, str]] = [
    ('start() { vllm "$@"; }; start serve m', FUNCTION),
    ('start ()\n{ vllm "$@"; }; start serve m', FUNCTION),
    ('start() \n{ vllm "$@"; }; start serve m', FUNCTION),
    ('start() ( vllm "$@" ); start serve m', FUNCTION),
    ('function start { vllm "$@"; }; start serve m', FUNCTION),
    ('function start() { vllm "$@"; }; start serve m', FUNCTION),
    ("function start\n{ vllm $@; }; start serve m", FUNCTION),
    ("start() { vllm $1 m; }; start serve", "the value of `$1`, which names a command of `vllm`, is not known"),
    ('start() { "$@"; }; start vllm serve m', "`start` has vLLM's server among its arguments and may start it"),
    ("alias v=vllm; v serve m", f"`alias` {RENAMED}"),
    ("hash -p /usr/bin/vllm v; v serve m", f"`hash` {RENAMED}"),
    ("ln -s $(which vllm) /x; /x serve m", "`ln` may give `vllm` another name"),
    ("cp /usr/bin/vllm /x && /x serve m", "`cp` may give `vllm` another name"),
    ("dd if=/usr/bin/vllm of=/usr/bin/x; x serve m", "`dd` may give `vllm` another name"),
    ("rsync -a $(which vllm) /bin/x && x serve m", "`rsync` may give `vllm` another name"),
    ("cat /usr/bin/vllm | tee /bin/x; x serve m", "`cat` may give `vllm` another name"),
    ("link /usr/bin/vllm /bin/x; x serve m", "`link` may give `vllm` another name"),
    ("{vllm,serve,org/m}", f"the value of `{{vllm,serve,org/m}}`, {PROGRAM_UNKNOWN}"),
    ("v{l,}lm serve m", f"the value of `v{{l,}}lm`, {PROGRAM_UNKNOWN}"),
    ("/usr/bin/vll? serve m", f"the value of `/usr/bin/vll?`, {PROGRAM_UNKNOWN}"),
    ("/usr/bin/v* serve m", f"the value of `/usr/bin/v*`, {PROGRAM_UNKNOWN}"),
    ("/usr/bin/[v]llm serve m", f"the value of `/usr/bin/[v]llm`, {PROGRAM_UNKNOWN}"),
    ("case a in a) vll? serve m;; esac", f"the value of `vll?`, {PROGRAM_UNKNOWN}"),
    ("exec /usr/bin/vll? serve m", "the value of `/usr/bin/vll?`, which may name a program, is not known"),
    ("env vl{l,}m serve m", f"the value of `vl{{l,}}m`, {PROGRAM_UNKNOWN}"),
    ("env $(cat f) vllm serve m", f"the value of `$(cat f)`, {PROGRAM_UNKNOWN}"),
    ("env $(cat f | xargs) vllm serve m", f"the value of `$(cat f | xargs)`, {PROGRAM_UNKNOWN}"),
    ("$NUMA vllm serve m", f"the value of `$NUMA`, {PROGRAM_UNKNOWN}"),
    ("$(which vllm) serve m", f"the value of `$(which vllm)`, {PROGRAM_UNKNOWN}"),
    ("X=xvllm; ${X#x} serve m", f"the value of `${{X#x}}`, {PROGRAM_UNKNOWN}"),
    ("echo $(v\\llm serve m)", f"the value of `$(v\\llm serve m)`, {PROGRAM_UNKNOWN}"),
    ("echo `v''llm \"serve\" m`", f"the value of ``v''llm …``, {PROGRAM_UNKNOWN}"),
    ("$SHELL -c 'vllm serve m'", f"the value of `$SHELL`, {PROGRAM_UNKNOWN}"),
    ("source <(echo 'vllm serve m')", "`source` runs a script that is not read"),
    ("bash <(echo 'vllm serve m')", "`bash` reads its commands from standard input"),
    (". /dev/stdin <<<'vllm serve m'", HERE_STRING),
    ("bash <<<'vllm serve m'", HERE_STRING),
    ("at now <<< 'vllm serve m'", HERE_STRING),
    ("echo 'vllm serve m' | . /dev/fd/0", f"the file `/dev/fd/0` {SOURCED}"),
    ("echo 'vllm serve m' > /x; . /x", f"`echo` {WRITTEN}"),
    ("printf 'vllm serve m' 1>/x; chmod +x /x; /x", f"`printf` {WRITTEN}"),
    ("echo 'vllm serve m' | xargs -I{} sh -c '{}'", "`xargs` starts `sh` with arguments that are not known"),
    ("echo 'vllm serve m' | xargs -0 sh -c", "`xargs` starts `sh` with arguments that are not known"),
    (
        "echo 'vllm serve m' | xargs --replace=% -r sh -c 'exec %'",
        "`xargs` starts `sh` with arguments that are not known",
    ),
    ("echo vllm | xargs -rI % -P 1 % serve m", "`xargs` starts `%` with arguments that are not known"),
    (
        "echo vllm serve m | xargs --max-lines=2 --max-args 3 --max-procs=2 -- env",
        "`xargs` starts `env` with arguments that are not known",
    ),
    ('python3 -c \'import os; os.execvp("vllm", ["vllm", "serve"])\'', "`python3` runs code that is not read"),
]


@table(("script", "why"), HIDDEN)
def test_a_script_that_hides_vllm_cannot_be_read(script: str, why: str) -> None:
    for words in (["bash", "-c", script], ["sh", "-c", "bash -c " + shlex.quote(script)]):
        assert starts_vllm(words, {}) == UnreadableCommand(why, "", names_vllm=True)


@pytest.mark.parametrize(
    "script",
    [
        "case $1 in a*) sleep 1;; b?|c*) ls *.txt;; *) echo {a,b};; esac",
        "alias ll='ls -l'; cp -r /models/vllm /x; ls /x/*; sleep 1",
        'log() { echo "$@"; }; log x; sleep 1',
        "echo 'vllm serve' >&2; echo 'vllm serve' 2>/x >/dev/stderr; sleep 1",
        "grep x <<<vllm; find . | xargs -I{} -n 1 cp {} /x; ls | xargs -0; ls | xargs -n1 sh -c 'rm $0'",
    ],
)
def test_a_script_without_vllm_does_not_count_as_hiding_it(script: str) -> None:
    assert starts_vllm(["bash", "-c", script], {}) is False


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("$'\\x76llm' serve $'a\\tb\\'c\\u00e9\\0d'", ["a\tb'cé"]),
        ("$'\\166\\154lm' $'serve' $'\\q\\ud800\\UFFFFFFFF\\e'", ["\\q\\ud800\\UFFFFFFFF\x1b"]),
        ('$"vllm" serve $"$TP"', ["4"]),
        ('start() { vllm serve m "$@"; }; start', ["m", "$@"]),
        ('vllm serve m --hf-overrides {"a":1,"b":2} --x *', ["m", "--hf-overrides", "{a:1,b:2}", "--x", "*"]),
    ],
)
def test_expansions_of_bash_are_read(script: str, words: list[str]) -> None:
    assert read(["bash", "-c", script])[0].words == words


@pytest.mark.parametrize(
    "script",
    [
        "docker run --gpus all vllm/vllm-openai:v1 --model m",
        "sudo -E docker run -it --rm --name=x -p 80:80 -eA=b -e C=d vllm/vllm-openai:v1 --model m",
        "podman --log-level debug container run -dit --device nvidia.com/gpu=all vllm/vllm-openai:v1",
        "nerdctl run --init vllm/vllm-openai:v1 || sleep 1",
    ],
)
def test_a_container_of_vllm_that_a_script_starts_is_a_fault(script: str) -> None:
    _, faults = read(["bash", "-c", script])
    found = starts_vllm(["bash", "-c", script], ENV)
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm
    message = (
        "the script starts a container of the image `vllm/vllm-openai:v1`, and its command and variables are not read"
    )
    assert [(fault.pointer, fault.message.partition(";")[0]) for fault in faults] == [("/deployment/args/2", message)]


@pytest.mark.parametrize(
    ("script", "program"),
    [
        ('run() { docker "$@"; }; run run vllm/vllm-openai:v1 --model m', "run"),
        ('f() {\n  $DOCKER "$@"\n}\nf run --gpus all -e A=b vllm/vllm-openai:v1', "f"),
        ("./docker-wrapper run --rm vllm/vllm-openai:v1 || sleep 1", "docker-wrapper"),
    ],
)
def test_a_container_of_vllm_that_a_function_may_start_is_a_fault(script: str, program: str) -> None:
    _, faults = read(["bash", "-c", script])
    message = f"`{program}` may start a container of the image `vllm/vllm-openai:v1`, and its command"
    assert [fault.message.startswith(message) for fault in faults] == [True]
    found = starts_vllm(["bash", "-c", script], ENV)
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


@pytest.mark.parametrize("command", ["npm run start", "make run /x/vllm-models", "echo run vllm/vllm-openai:v1"])
def test_a_program_that_runs_something_else_is_none_of_them(command: str) -> None:
    assert read(["bash", "-c", f"{command}; vllm serve m"])[1] == []


@table(("words", "why", "place", "names_vllm"), UNREAD)
def test_an_unreadable_command_is_a_fault_with_its_reason(
    words: list[str], why: str, place: int, *, names_vllm: bool
) -> None:
    _, faults = read(words)
    found = starts_vllm(words, ENV)
    assert isinstance(found, UnreadableCommand)
    assert (found.why, found.names_vllm) == (why, names_vllm)
    assert faults == [RequestFault(f"/deployment/args/{place}", f"{why}, {REMEDY}")]


@pytest.mark.parametrize("script", ["cat <<EOF\nx\nvllm serve m", "vllm serve 'm"])
def test_a_script_that_cannot_be_read_may_start_vllm(script: str) -> None:
    found = starts_vllm(["sh", "-c", script], {})
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm
    assert read(["sh", "-c", script])[1][0].message.startswith("the script cannot be read: ")


def test_an_unreadable_script_without_vllm_does_not_name_it() -> None:
    for script in ("cat <<EOF\nserver vllm:8000\nupstream vllm {}\nnginx", "cat <<EOF\nmyvllm serve\n"):
        found = starts_vllm(["sh", "-c", script], {})
        assert isinstance(found, UnreadableCommand)
        assert not found.names_vllm


@table(
    ("words", "found"),
    [
        (["$(A)", "serve", "m"], ["m"]),
        (["vllm", "$(S)", "m"], ["m"]),
        (["sh", "-c", "$(X)"], ["m", "-tp", "2"]),
        (["sh", "-c", "$A serve m"], ["m"]),
        (["sh", "-c", 'exec "$A" serve m'], ["m"]),
        (["sh", "-c", "exec $X"], ["m", "-tp", "2"]),
        (["sh", "-c", "eval 'vllm serve m -tp 2'"], ["m", "-tp", "2"]),
        (["sh", "-c", 'eval "$X"'], ["m", "-tp", "2"]),
        (["sh", "-c", "eval exec '$A' serve m"], ["m"]),
        (["sh", "-c", 'set -- vllm serve m; exec "$@"'], ["m"]),
        (["sh", "-c", 'set -- vllm serve m; set -- "$@" -tp 2; "$@"'], ["m", "-tp", "2"]),
        (["sh", "-c", "a=vl; a+=lm; $a serve m"], ["m"]),
        (["busybox", "sh", "-c", "vllm serve m"], ["m"]),
        (["sh", "-c", "$NOBODY; vllm serve m"], ["m"]),
        (["sh", "-c", "numactl -C $CPUS vllm serve m"], ["m"]),
        (["sh", "-c", "$VENV/bin/vllm serve m"], ["m"]),
        (["sh", "-c", 'exec "$(dirname /x/y)/vllm" serve m'], ["m"]),
        (["$(VENV)/bin/python3", "-m", "vllm.entrypoints.cli.main", "serve", "m"], ["m"]),
    ],
)
def test_a_program_that_variables_name_is_read(words: list[str], found: list[str]) -> None:
    env = {"A": "vllm", "S": "serve", "X": "vllm serve m -tp 2"}
    faults: list[RequestFault] = []
    assert (read_command(words, PLACES[: len(words)], env, faults, "/a").words, faults) == (found, [])
    assert starts_vllm(words, env) is True


def test_a_text_that_does_not_start_vllm_is_a_fault_and_an_empty_one_is_not() -> None:
    faults: list[RequestFault] = []
    assert read_text("", {}, faults, "/a") == CommandLine()
    assert faults == []
    read_text("sleep 1", {}, faults, "/a")
    assert faults == [
        RequestFault("/a", "`sleep 1` does not start vLLM's server; write its flags, or `vllm serve MODEL …`")
    ]


@pytest.mark.parametrize(
    ("words", "starts"), [(["vllm", "serve"], True), (["--model", "m"], False), (["org/m", "--port", "1"], False)]
)
def test_flags_alone_could_be_another_program_s(words: list[str], *, starts: bool) -> None:
    assert starts_vllm(words, {}) is starts


def test_a_fault_in_a_script_has_its_position() -> None:
    said = "the script cannot be read: the quote `'` at character 12 is not closed; close it"
    assert read(["sh", "-c", "vllm serve 'm"])[1] == [RequestFault("/deployment/args", said)]
    for text, message in (
        ('sh -c "vllm serve \'m"', said),
        ("vllm serve 'm", said.replace("the script cannot be read", "invalid shell command")),
    ):
        faults: list[RequestFault] = []
        read_text(text, {}, faults, "/a")
        assert faults == [RequestFault("/a", message)]


def test_too_many_words_are_a_fault() -> None:
    words = ["a"] * (MAX_WORDS + 1)
    faults: list[RequestFault] = []
    assert read_command(words, words, {}, faults, "/a") == CommandLine()
    read_command(["a" * (MAX_TEXT + 1)], ["0"], {}, faults, "/b")
    assert faults == [
        RequestFault(
            "/a", "expected a command of at most 4096 words and 1000000 characters, got 4097 words and 4097 characters"
        ),
        RequestFault(
            "/b", "expected a command of at most 4096 words and 1000000 characters, got 1 words and 1000001 characters"
        ),
    ]
    assert starts_vllm(words, {}) is False


def test_an_expanded_command_that_is_too_large_may_start_vllm() -> None:
    found = starts_vllm(["vllm", "serve", "m", *["$(A)"] * 40], {"A": "x" * MAX_TEXT})
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


WORD = st.sampled_from(
    [
        "vllm",
        "serve",
        "python",
        "-m",
        SERVER,
        "sh",
        "-c",
        "vllm serve m",
        "env",
        "A=b",
        "./A=b",
        "exec",
        "--model",
        "m",
        "$(TP)",
        "'",
        "x.sh",
        "-o",
        "",
        "uv",
        "-S",
        'a "b ${TP}',
        "xargs",
        "-I{}",
        "v{l,}lm",
        "f() {",
        "<<<",
        "$'\\x76'",
    ]
) | st.text(max_size=8)


@table(
    ("words", "command"),
    [
        (["vllm", "run-batch", "-i", "a", "--model", "m"], "vllm run-batch"),
        (["nohup", "/opt/venv/bin/vllm", "run-batch"], "vllm run-batch"),
        (["sh", "-c", "cd /x && exec vllm bench throughput --model m"], "vllm bench throughput"),
        (["vllm", "bench", "latency"], "vllm bench latency"),
        (["python3", "-m", "vllm.entrypoints.cli.main", "bench", "latency"], "vllm bench latency"),
        (["python3", "-m", "vllm.entrypoints.openai.run_batch", "-i", "a"], "vllm.entrypoints.openai.run_batch"),
        (["python3", "-m", "vllm.entrypoints.launchers.run_batch"], "vllm.entrypoints.launchers.run_batch"),
        (["vllm", "snapshot", "create", "m", "--revision", "a", "--snapshot-dir", "/s"], "vllm snapshot create"),
        (["sh", "-c", "cd /x && exec vllm snapshot create serve"], "vllm snapshot create"),
    ],
)
def test_an_engine_without_a_server_is_a_fault(words: list[str], command: str) -> None:
    line, (fault,) = read(words)
    assert (line.words, fault.message.partition(";")[0]) == (
        [],
        f"`{command}` starts an engine without a server, but only servers can be decided",
    )
    found = starts_vllm(words, {})
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


@pytest.mark.parametrize(
    ("words", "command"),
    [
        (["vllm", "snapshot", "restore", "/s", "--port", "80"], "vllm snapshot restore"),
        (["sh", "-c", "exec vllm snapshot $A /s"], "vllm snapshot $A"),
    ],
)
def test_a_server_of_a_snapshot_is_a_fault(words: list[str], command: str) -> None:
    line, (fault,) = read(words)
    why = f"`{command}` may start a server with the flags of a snapshot, which are not read"
    assert (line.words, fault.message.partition(";")[0]) == ([], why)
    found = starts_vllm(words, {})
    assert isinstance(found, UnreadableCommand)
    assert found.names_vllm


@pytest.mark.parametrize(
    "words",
    [
        ["vllm", "snapshot", "inspect", "/s"],
        ["vllm", "bench", "serve"],
        ["vllm", "bench"],
        ["vllm", "chat"],
        ["echo", "vllm", "run-batch"],
    ],
)
def test_a_client_of_vllm_is_another_program(words: list[str]) -> None:
    assert starts_vllm(words, {}) is False


@given(st.lists(WORD, max_size=10))
def test_any_words_give_a_command_line_or_faults(words: list[str]) -> None:
    faults: list[RequestFault] = []
    found = read_command(words, ["args"] * len(words), ENV, faults, "/a")
    assert len(found.words) == len(found.places)
    assert not (faults and found.words)
    starts_vllm(words, ENV)
    read_text(" ".join(words), ENV, faults, "/a")


PACKAGES = [
    *("uvx vllm@0.33.0", "uvx vllm[audio]", "uvx vllm==0.33.0", "uvx vllm@latest", "pipx run vllm==0.33.0"),
    *(
        "uv tool run vllm@0.33.0",
        "uvx --python 3.12 vllm[audio]==0.33.0",
        "uvx vllm>=0.30",
        "pipx run --spec vllm==1 vllm",
    ),
    *("uvx git+https://github.com/vllm-project/vllm@v0.33.0", "nohup uvx vllm@0.33.0", "uvx --from vllm==0.33.0 vllm"),
]


@table("before", PACKAGES)
def test_a_program_that_runs_the_package_of_vllm_starts_vllm(before: str) -> None:
    words = [*before.split(), "serve", "m", "--port", "1"]
    line, faults = read(words)
    assert (line.words, line.serve, faults) == (["m", "--port", "1"], True, [])
    assert starts_vllm(words, {}) is True
    assert starts_vllm(["sh", "-c", shlex.join(words)], {}) is True


@pytest.mark.parametrize(
    "words", [["uvx", "vllm@0.33.0"], ["uvx", "ruff@1", "check"], ["uvx", "vllm@1", "collect-env"]]
)
def test_a_package_that_serves_nothing_starts_nothing(words: list[str]) -> None:
    assert starts_vllm(words, {}) is False


INSTALLED: list[tuple[str, str | None]] = [
    ("pip install vllm==0.33.0 && vllm serve m", "0.33.0"),
    ("pip3 install -U --index-url https://x/y 'vllm[audio]==0.33.0'; vllm serve m", "0.33.0"),
    ("uv pip install --system vllm==0.33.0 && vllm serve m", "0.33.0"),
    ("python3 -m pip install torch vllm==0.33.0\nexec vllm serve m", "0.33.0"),
    ("cd /x && pip install vllm==0.33.0 && vllm serve m", "0.33.0"),
    ("a || b && pip install vllm==0.33.0 && vllm serve m", "0.33.0"),
    ("pip install vllm==0.32.0; pip install vllm==0.33.0; vllm serve m", "0.33.0"),
    ("pip --proxy x install vllm==0.33.0; vllm serve m", "0.33.0"),
    ("pip -q --log x --proxy=y --retries 5 install vllm==0.33.0; vllm serve m", "0.33.0"),
    ("uv -q pip --no-cache install --system vllm==0.33.0; vllm serve m", "0.33.0"),
    ("pip install vllm==0.33.0+cu129; vllm serve m", "0.33.0+cu129"),
    ("pip install vllm===0.33.0rc1.dev5; vllm serve m", "0.33.0rc1.dev5"),
    ("pip install vLLM[audio]==0.33.0 ray[default] torch==2.*; vllm serve m", "0.33.0"),
    ('pip install "vllm [audio,video] == 0.33.0" "torch==$T"; vllm serve m', "0.33.0"),
    ("uvx vllm@0.33.0 serve m", "0.33.0"),
    ("uvx vllm[audio]@0.33.0 serve m", "0.33.0"),
    ("uvx --from vllm==0.33.0 vllm serve m", "0.33.0"),
    ("uvx --from=vllm==0.33.0 vllm serve m", "0.33.0"),
    ("uv run --with vllm==0.33.0 vllm serve m", "0.33.0"),
    ("uv run --with vllm==0.33.0+cu129 --with ray[default] vllm serve m", "0.33.0+cu129"),
    ("uv tool run 'vllm[audio]==0.33.0' serve m", "0.33.0"),
    ("pipx run --spec vllm==0.33.0 vllm serve m", "0.33.0"),
    ("pip install vllm==0.32.0; uvx vllm@0.33.0 serve m", "0.33.0"),
    *(
        (f"{before} vllm serve m", None)
        for before in (
            *("pip install vllm;", "pip install -U 'vllm>=0.30';", "pip install -e . &&", "pip install -r r.txt;"),
            *("pip install .;", "pip install ./vllm.whl;", "pip install git+https://github.com/vllm-project/vllm;"),
            *('pip install "vllm==$V";', "git checkout v0.33.0 && pip install -e . &&", "uv sync;", "uv add vllm;"),
            *("[ -d /x ] && pip install vllm==0.33.0;", "pip install x || pip install vllm==0.33.0;"),
            *("a && pip install vllm==0.33.0 || b &&", "a || pip install vllm==0.33.0 &&"),
            *(
                "if x; then pip install vllm==0.33.0; fi;",
                "bash -c 'pip install vllm==0.33.0';",
                "PATH=/opt/v/bin:$PATH",
            ),
            *("PATH=/opt/v/bin:$PATH;", "PATH=$PATH:/x;", "PATH+=:/x;", "[ -d /x ] && PATH=/x:$PATH;"),
            *(
                "for PATH in /x; do :; done;",
                "export PATH=/opt/v/bin:$PATH;",
                "PYTHONPATH=/x",
                "conda run -n vllm033",
                "conda activate x;",
                "uv run",
            ),
            *(". /x/bin/activate;", "pip install -t /x vllm==0.33.0;", "uvx --from vllm", "uvx --from 'vllm>0.3'"),
            *(
                "uv --project x add vllm;",
                "uv --quiet --directory x sync;",
                "poetry -C x install;",
                "uv pip sync r.txt;",
            ),
            *("micromamba -r x install vllm;", "pixi --color always add vllm;", "conda -q activate x;"),
            *("sudo pip install vllm==0.33.0;", "uv --project x pip --offline install --system vllm==0.33.0;"),
            *("pip --proxy x install vllm;", "pip --proxy x install -e .;", "pip install 'vllm; x>\"1\"';"),
            *(
                "pip install *.whl;",
                "pip install v[l]lm;",
                "pip install $P;",
                "pip install torch==$T;",
                "pip install a?;",
            ),
            *('pip install "vllm[audio]==$V";', "pip install vllm==0.33.*;", "pip install {a,vllm}==0.33.0;"),
        )
    ),
]


@table(("script", "version"), INSTALLED)
def test_the_vllm_that_a_script_installs_or_runs_is_found(script: str, version: str | None) -> None:
    for words in (["bash", "-c", script], ["sh", "-c", f"bash -c {shlex.quote(script)}"]):
        line, faults = read(words)
        assert (line.words, faults) == (["m"], [])
        assert line.installation is not None
        assert line.installation.version == version
        cause = line.installation.cause
        assert (" may " in cause) is (version is None)
        assert version is None or f" vLLM {version}" in cause


@table(
    "script",
    [
        *("# pip install vllm==0.33.0\nvllm serve m", "echo pip install vllm==0.33.0; vllm serve m"),
        *("pip install transformers==5.0; vllm serve m", "pip uninstall -y vllm-x; vllm serve m"),
        *(
            "pip install --dry-run vllm==0.33.0; vllm serve m",
            "pip show vllm; vllm serve m",
            "apt install x; vllm serve m",
        ),
        *("vllm serve m; pip install vllm==0.33.0", "nohup vllm serve m"),
        *("apt-get install -y bash; vllm serve m", "sudo apt-get -q install -y python3-pip zsh && vllm serve m"),
        *("apk add bash; vllm serve m", "dnf -y install uv sh; vllm serve m", "yum install conda; vllm serve m"),
        *("pip install ray[default]; vllm serve m", "pip install ray[default]==2.9 torch==2.*; vllm serve m"),
        *('pip install "torch==$T"; vllm serve m', "pip --proxy x install ray; vllm serve m"),
        *("cp install.sh .; vllm serve m", "install -m 755 x /bin/bash; vllm serve m"),
    ],
)
def test_a_script_that_installs_no_other_vllm_keeps_that_of_the_image(script: str) -> None:
    line, faults = read(["bash", "-c", script])
    assert (line.words, line.installation, faults) == (["m"], None, [])


@pytest.mark.parametrize(
    ("script", "doubts"),
    [
        ("bash -lc 'vllm serve m'", [LOGIN]),
        ("bash -lc \"bash -lc 'vllm serve m'\"", [LOGIN]),
        ('bash -lc "bash -ic \'bash -lc \\"vllm serve m\\"\'"', [LOGIN]),
        ("sudo bash -c 'sudo vllm serve m'", ["`sudo` may change the variables of what it starts"]),
    ],
)
def test_a_doubt_about_variables_is_reported_once(script: str, doubts: list[str]) -> None:
    line, faults = read(["bash", "-lc", script])
    assert faults == []
    expected = [*doubts, *([] if LOGIN in doubts else [LOGIN])]
    assert (line.doubts, line.warnings) == (expected, [f"{doubt}; variables are not certain" for doubt in expected])


@table(
    "script",
    [
        'A="vllm serve m"; X=$($A)',
        'A="vllm serve m"; echo "$($A)"',
        'A="vllm serve m"; echo `$A`',
        "A=vllm; X=$($A serve m)",
        "A=llm; X=$(v${A} serve m)",
        "X=$($(which vllm) serve m)",
        "X=$(cd /x && $PROGRAM)",
        "X=$(cd /x; ${PROGRAM:-a} b)",
        'X=${Y:-$("$PROGRAM")}',
        'A="vllm serve m"; X=$(bash -c "$A")',
        "X=$(bash start.sh)",
        "X=$(/app/start.sh)",
        "X=$(. ./start)",
        "X=$(exec $PROGRAM)",
    ],
)
def test_a_program_in_a_substitution_that_is_not_known_may_start_vllm(script: str) -> None:
    _, (fault,) = read(["sh", "-c", script])
    assert "is not known" in fault.message
    line, faults = read(["sh", "-c", f"{script}; vllm serve n"])
    assert (line.words, bool(line.doubts), faults) == (["n"], True, [])


@table(
    "substitution",
    [
        *(
            "$(hostname -$X)",
            '$(dirname "$0")',
            '$(cd "$(dirname "$0")" && pwd)',
            "$(seq $(($N - 1)))",
            "$(which vllm)",
        ),
        *('$(echo "$A" | wc -l)', "$(nproc)", "$(basename $MODEL .sh)", "`date +%s`", "$((2 * 3))"),
    ],
)
def test_a_substitution_with_a_known_program_starts_nothing_else(substitution: str) -> None:
    line, faults = read(["sh", "-c", f"X={substitution}; vllm serve n"])
    assert (line.words, line.doubts, faults) == (["n"], [], [])


@pytest.mark.parametrize("text", ["A=b", "export A=b", "A=$(b)", "A=b # c"])
def test_a_text_that_only_sets_variables_does_not_start_vllm(text: str) -> None:
    faults: list[RequestFault] = []
    assert read_text(text, {}, faults, "/a") == CommandLine()
    assert [(fault.pointer, "does not start vLLM's server" in fault.message) for fault in faults] == [("/a", True)]


def test_the_values_in_a_substitution_count_towards_the_limit() -> None:
    script = f"A={'a' * 60_000}; X=$(b {'$A' * 1_000})"
    _, (fault,) = read(["sh", "-c", script])
    assert "limit" in fault.message


@pytest.mark.parametrize("shell", ["bash", "sh"])
def test_a_backslash_before_a_carriage_return_ends_no_line_in_a_shell(shell: str) -> None:
    words = [shell, "-c", "echo a \\\r\nexec vllm serve m --enable-dbo"]
    assert read_command(words, [""] * 3, {}, [], "").words == ["m", "--enable-dbo"]
