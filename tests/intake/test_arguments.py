"""Options are read from words as by each release's own parser."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any, NoReturn

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tables import table

from policy.errors import FURTHER_FAULTS, MAX_FAULTS
from policy.intake.command.arguments import read_options
from policy.intake.command.expansion import MAX_TEXT, MAX_WORDS
from policy.intake.command.flag_values import parse_value
from policy.intake.command.flags import flags, in_other_release
from policy.intake.command.parse_result import MAX_WARNINGS
from policy.intake.command.relevant_options import KEPT_OPTIONS, RELEVANT_OPTIONS
from policy.intake.command.word_places import word_pointer
from policy.intake.command.words import Pattern, Unknown
from policy.intake.command_line import CommandLine, ParsedOptions, UnknownFlag
from policy.intake.model.tables import releases
from policy.vllm.tablegen.arguments import arguments
from policy.vllm.tablegen.modules import World
from policy.vllm.tablegen.wheels import FolderSource, SourceReader

if TYPE_CHECKING:
    from pathlib import Path

    from policy.errors import RequestFault

NGRAM = {"method": "ngram", "num_speculative_tokens": 2}
NEW = "0.33.0"


def read(
    words: list[str], release: str = NEW, files: dict[str, str] | None = None, *, serve: bool = True
) -> tuple[ParsedOptions, list[RequestFault]]:
    faults: list[RequestFault] = []
    command = CommandLine(words, [f"args[{index}]" for index in range(len(words))], serve=serve)
    return read_options(release, command, files or {}, faults), faults


def values(
    words: list[str], release: str = NEW, files: dict[str, str] | None = None, *, serve: bool = True
) -> dict[str, Any]:
    """The options of words without faults."""
    options, faults = read(words, release, files, serve=serve)
    assert faults == []
    return options.values


def fault(words: list[str], release: str = NEW, files: dict[str, str] | None = None) -> tuple[str, str]:
    """The only fault of words."""
    found = read(words, release, files)[1]
    assert len(found) == 1
    return found[0].pointer.removeprefix("/deployment/"), found[0].message


@table(
    ("words", "found"),
    [
        (["--tensor-parallel-size", "2"], {"tensor_parallel_size": 2}),
        (["--tensor_parallel_size", "2"], {"tensor_parallel_size": 2}),
        (["--tensor-parallel_size", "2"], {"tensor_parallel_size": 2}),
        (["--tensor_parallel_size=2"], {"tensor_parallel_size": 2}),
        (["-tp", "2"], {"tensor_parallel_size": 2}),
        (["-tp=2"], {"tensor_parallel_size": 2}),
        (["-t", "2"], {"tensor_parallel_size": 2}),
        (["--tensor-par", "2"], {"tensor_parallel_size": 2}),
        (["--tensor_par=2"], {"tensor_parallel_size": 2}),
        (["--enforce-eager"], {"enforce_eager": True}),
        (["--no-enforce-eager"], {"enforce_eager": False}),
        (["--no_enforce_eager"], {"enforce_eager": False}),
        (["--no-enforce"], {"enforce_eager": False}),
        (["--disable-lora"], {"enable_lora": False}),
        (["-ep", "-dp", "2"], {"enable_expert_parallel": True, "data_parallel_size": 2}),
        (["-tp", "2", "-tp", "4"], {"tensor_parallel_size": 4}),
        (["-O3"], {"optimization_level": 3}),
        (["-O=1"], {"optimization_level": 1}),
        (["-O", "0"], {"optimization_level": 0}),
        (["--optimization-level", "2"], {"optimization_level": 2}),
        (
            ["--logits-processors", "a:B", "c:D", "-tp", "2"],
            {"logits_processors": ["a:B", "c:D"], "tensor_parallel_size": 2},
        ),
        (["--logits-processors=a:B"], {"logits_processors": ["a:B"]}),
        (["--logits-proc", "a:B", "c:D"], {"logits_processors": ["a:B", "c:D"]}),
        (["--reasoning-parser", "NONE"], {"reasoning_parser": ""}),
        (["--hf-overrides", '{"num_experts": 8}'], {"hf_overrides": {"num_experts": 8}}),
        (["--hf-overrides.num_experts", "8"], {"hf_overrides": {"num_experts": 8}}),
        (["--kv-transfer-config", "None"], {"kv_transfer_config": None}),
        (
            ["--kv-transfer-config", '{"kv_connector": "8k", "kv_port": 8k}'],
            {"kv_transfer_config": {"kv_connector": "8k", "kv_port": 8000}},
        ),
        (["--speculative-config", json.dumps(NGRAM)], {"speculative_config": NGRAM}),
        (["-sc", json.dumps(NGRAM)], {"speculative_config": NGRAM}),
        (["-sc", "None"], {"speculative_config": None}),
        (
            ["-sc.method", "ngram", "--speculative_config.num_speculative_tokens=2"],
            {"speculative_config": {"num_speculative_tokens": 2}},
        ),
        (["-sc.method", "ngram", "-sc.num_speculative_tokens=2"], {"speculative_config": NGRAM}),
        (["--spec-method", "ngram", "--spec-tokens", "2"], {"speculative_config": NGRAM}),
        (["-sc.method=ngram", "--spec-tokens", "2"], {"speculative_config": NGRAM}),
        (["--spec-model", "None"], {}),
        (["-cc.mode", "1"], {"compilation_config": {"mode": 1}}),
        (
            ["-cc.mode=NONE", "-cc.pass_config.fuse_rope_kvcache=True"],
            {"compilation_config": {"mode": "NONE", "pass_config": {"fuse_rope_kvcache": True}}},
        ),
        (["--compilation.mode", "1"], {"compilation_config": {"mode": 1}}),
        (
            ["-cc.splitting_ops+", "a,b", "-cc.splitting_ops+=c"],
            {"compilation_config": {"splitting_ops": ["a", "b", "c"]}},
        ),
        (["-cc", '{"mode": 3}', "-cc.cudagraph_mode", "FULL"], {"compilation_config": {"cudagraph_mode": "FULL"}}),
        (["-cc.mode", "1", "-cc", '{"mode": 3}'], {"compilation_config": {"mode": 1}}),
        (["-cc.mode", "1", "-cc.mode", "{bad"], {"compilation_config": {"mode": "{bad"}}),
        (["-cc.max_cudagraph_capture_size", "1k"], {"compilation_config": {"max_cudagraph_capture_size": 1000}}),
        (
            ["-cc.compile_mm_encoder", "YES", "-cc.cudagraph_num_of_warmups", "1.0"],
            {"compilation_config": {"compile_mm_encoder": True, "cudagraph_num_of_warmups": 1}},
        ),
        (["-cc.compile_mm_encoder", "0"], {"compilation_config": {"compile_mm_encoder": False}}),
        (
            ["--attention-config", '{"hisparse_config": {"device_buffer_size": "8"}}'],
            {"attention_config": {"hisparse_config": {"device_buffer_size": 8}}},
        ),
        (["-ac.hisparse_config", "1"], {"attention_config": {"hisparse_config": 1}}),
        (
            ["-sc.suffix_decoding_max_spec_factor", "2"],
            {"speculative_config": {"suffix_decoding_max_spec_factor": 2.0}},
        ),
        (["m", "-tp", "2"], {"model": "m", "tensor_parallel_size": 2}),
        (["-tp", "2", "m"], {"model": "m", "tensor_parallel_size": 2}),
        (["--enforce-eager", "--", "m"], {"enforce_eager": True, "model": "m"}),
        (["--model", "a", "--model", "b"], {"model": "a"}),
        (["--model=a", "--model=b"], {"model": "a"}),
        (["--model", "-"], {"model": "-"}),
        (["--model", "-a model"], {"model": "-a model"}),
        (["--config=serve.yaml"], {}),
        (["m", "--moe-backend", "DEEP-GEMM", "--device-ids", "0, GPU-1", "--cors-nonsense", "x"], {"model": "m"}),
        ([], {}),
    ],
)
def test_words_set_options(words: list[str], found: dict[str, Any]) -> None:
    assert values(words) == found


def test_an_option_has_the_position_of_its_word() -> None:
    options = read(
        [
            "m",
            "-tp",
            "2",
            "-sc",
            json.dumps({"method": "ngram"}),
            "-cc.mode",
            "1",
            "-cc.pass_config.eliminate_noops=1",
            "--spec-tokens",
            "3",
        ]
    )[0]
    assert options.places == {
        "model": "args[0]",
        "tensor_parallel_size": "args[1]",
        "speculative_config": "args[3]",
        "speculative_config.num_speculative_tokens": "args[8]",
        "compilation_config": "args[5]",
        "compilation_config.mode": "args[5]",
        "compilation_config.pass_config.eliminate_noops": "args[7]",
    }


def test_ignored_arguments_are_listed_as_written_and_secrets_without_their_values() -> None:
    words = [
        "--port",
        "8000",
        "--host=::",
        "--api-key",
        "s1",
        "s2",
        "--hf-token=s3",
        "--tool-call",
        "x",
        "--middleware",
        "a",
        "--ssl-keyfile-x",
        "s4",
    ]
    options = read([*words, "--profiler-config.torch_profiler_dir", "x"])[0]
    assert options.ignored == [
        "--port 8000",
        "--host=::",
        "--api-key",
        "--hf-token",
        "--tool-call x",
        "--middleware a",
        "--ssl-keyfile-x",
        "--profiler-config.torch_profiler_dir",
    ]
    assert options.values == {}


@table(
    ("flag", "text", "value"),
    [
        ("-q", "fp8", "fp8"),
        ("-q", "None", None),
        ("--quantization", "", None),
        ("--max-model-len", "1k", 1000),
        ("--max-model-len", "1K", 1024),
        ("--max-model-len", "25.6k", 25600),
        ("--max-model-len", "auto", -1),
        ("--max-model-len", "-1", -1),
        ("--max-num-batched-tokens", "2m", 2_000_000),
        ("--cpu-offload-gb", "1.5", 1.5),
    ],
)
def test_a_flag_reads_its_text(flag: str, text: str, value: object) -> None:
    assert parse_value(flags(NEW).exact[flag], text) == value


@pytest.mark.parametrize(
    "words",
    [["-qfp8"], ["-q", "fp8"], ["--quantization=fp8"], ["--max-model-len", "1k"], ["--enable-hybrid-kv-cache-manager"]],
)
def test_ignored_arguments_are_listed(words: list[str]) -> None:
    options, faults = read(words)
    assert (options.values, len(options.ignored), faults) == ({}, 1, [])


@table(
    ("words", "where", "expected"),
    [
        (["-tp", "two"], 1, "`--tensor-parallel-size`: expected a whole number such as `2`, got `two`"),
        (["-tp"], 0, "`--tensor-parallel-size` takes a value, but nothing follows it"),
        (["--tensor-par"], 0, "`--tensor-parallel-size` takes a value, but nothing follows it"),
        (
            ["-tp", "--enforce-eager"],
            0,
            (
                "`--tensor-parallel-size` takes a value; `--enforce-eager` is read as an option, so write "
                "`--tensor-parallel-size=VALUE` if it is the value"
            ),
        ),
        (["-tp2"], 0, "unknown flag `-tp2`; write `-tp 2`"),
        (
            ["--async-scheduling=true"],
            0,
            (
                "`--async-scheduling` takes no value, so `--async-scheduling=true` is refused; write "
                "`--async-scheduling` or `--no-async-scheduling`"
            ),
        ),
        (
            ["--headless=1"],
            0,
            "`--headless` takes no value, so `--headless=1` is refused; write `--headless` or leave it out",
        ),
        (
            ["--enable-p"],
            0,
            (
                "`--enable-p` is ambiguous: it could be `--enable-per-request-metrics`, `--enable-prefix-caching`, "
                "`--enable-prompt-embeds`, `--enable-prompt-tokens-details`; write one of them in full"
            ),
        ),
        (
            ["--runner", "pool"],
            1,
            "`--runner`: `pool` is not legal; legal: `auto`, `draft`, `generate`, `pooling`; did you mean `pooling`?",
        ),
        (["--cpu-offload-gb", "x"], 1, "`--cpu-offload-gb`: expected a number such as `0.9`, got `x`"),
        (
            ["--max-model-len", "1.5K"],
            1,
            "`--max-model-len`: invalid number `1.5K`: a fraction needs a lower-case suffix, such as `1.5k`",
        ),
        (["-sc", "[1]"], 0, '`--speculative-config`: expected a JSON object such as `{"key": "value"}`, got `[1]`'),
        (["-cc", "3"], 1, '`--compilation-config`: expected a JSON object such as `{"key": "value"}`, got `3`'),
        (
            ["-cc", '{"mode": 3, "node": 1}'],
            1,
            "`--compilation-config`: unknown field `node` in this release; did you mean `mode`?",
        ),
        (
            ["-cc.pass_config.enable_sp=true"],
            0,
            (
                "`-cc.…`: unknown field `pass_config.enable_sp` in this release; its fields are `eliminate_noops`, "
                "`enable_qk_norm_rope_fusion`, `fi_allreduce_fusion_max_size_mb`, `fuse_act_padding`, "
                "`fuse_act_quant`, `fuse_allreduce_rms`, `fuse_attn_quant`, `fuse_mla_dual_rms_norm`, "
                "`fuse_norm_quant`, `fuse_qk_norm_rope_kvcache`, "
                "`fuse_rope_kvcache`, `fuse_rope_kvcache_cat_mla`, `rope_kvcache_fusion_max_token_num`"
            ),
        ),
        (["-cc.compile_mm_encoder", "2"], 0, "`-cc.…`: `compile_mm_encoder` is `2`; write `true` or `false`"),
        (
            ["-sc", '{"num_speculative_tokens": "x"}'],
            1,
            "`--speculative-config`: `num_speculative_tokens` is `x`; write a whole number",
        ),
        (["-sc", '{"method": "ngrm"}'], 1, None),
        (
            ["-sc.suffix_decoding_max_spec_factor", "x"],
            0,
            "`-sc.…`: `suffix_decoding_max_spec_factor` is `x`; write a number",
        ),
        (
            ["-sc.suffix_decoding_max_spec_factor", "[]"],
            0,
            "`-sc.…`: `suffix_decoding_max_spec_factor` is `[]`; write a number",
        ),
        (["-sc.num_speculative_tokens", "[]"], 0, "`-sc.…`: `num_speculative_tokens` is `[]`; write a whole number"),
        (["-cc.mode"], 0, "`-cc.mode` takes a value, but nothing follows it"),
        (["--model.x", "1"], 0, "`--model` has no fields, so `--model.x` is refused; write `--model VALUE`"),
        (["--enable.x", "1"], 0, None),
        (
            ["--spec-method", "ngram", "-sc.method", "mtp"],
            0,
            "`--spec-method` and the key `method` of `--speculative-config` exclude each other; keep one",
        ),
        (
            ["-O"],
            0,
            "`-O` takes a level from 0 to 3; write one such as `-O2`, and other compile options as `-cc.mode=0`",
        ),
        (
            ["-O", '{"mode": 3}'],
            0,
            "`-O` takes a level from 0 to 3; write one such as `-O2`, and other compile options as `-cc.mode=0`",
        ),
        (
            ["-O.mode=1"],
            0,
            "invalid level `-O.mode=1`; write `-O0`, `-O1`, `-O2` or `-O3`, and other compile options as `-cc.mode=0`",
        ),
        (
            ["m", "n"],
            1,
            "unexpected argument `n`: no option takes it; quote it together with the value it belongs to, or remove it",
        ),
        (
            ["m", "--model", "n"],
            0,
            (
                "unexpected argument `m`: `--model` (args[1]) gives the model as well, and `vllm serve` takes it once; "
                "remove one of them"
            ),
        ),
        (
            ["--logits-processors", "-tp", "2"],
            0,
            (
                "`--logits-processors` takes a value; `-tp` is read as an option, so write `--logits-processors=VALUE` "
                "if it is the value"
            ),
        ),
        (
            ["-cc.mode", Unknown("$M")],
            0,
            "`-cc.mode` is set to `$M`, whose value is not known; write the value, or set the variable",
        ),
        (["-cc." + "a." * 70 + "b", "1"], 0, None),
        (["--config"], 0, "`--config` takes a file, but nothing follows it"),
        (
            ["--config", "a.yaml", "--config", "b.yaml"],
            2,
            "a second `--config`; vLLM takes one, so put both files into one",
        ),
        (
            ["--config", "a.json"],
            1,
            "`--config`: expected a `.yaml` or `.yml` file, got `a.json`; vLLM accepts no other",
        ),
        (
            ["--config", "a.yaml"],
            1,
            "`--config`: the text of `a.yaml` is not given; add it to `files` under this name",
        ),
    ],
)
def test_an_argument_that_vllm_refuses_is_a_fault_with_position_and_remedy(
    words: list[str], where: int, expected: str | None
) -> None:
    pointer, message = fault(words)
    assert pointer == f"args/{where}"
    assert expected is None or message == expected


@pytest.mark.parametrize("word", ["--h", "--he", "--he=1"])
def test_an_abbreviation_of_help_and_other_flags_is_ambiguous(word: str) -> None:
    message = fault([word])[1]
    assert message.startswith(f"`{word}` is ambiguous: it could be `--help`, ")
    assert "`--headless`" in message


@pytest.mark.parametrize("word", ["--hel", "--hel=x"])
def test_an_abbreviation_of_help_alone_starts_nothing(word: str) -> None:
    options, faults = read([word])
    assert (options.launch_errors, faults) == ([f"`{word}` (args[0]) shows vLLM's help and starts nothing"], [])


HEADLESS = (
    '"--api-server-count={} cannot be used with --headless (no API servers are started in headless mode)."; remove one '
    "of them"
)


@table(
    ("words", "refused"),
    [
        (["--headless", "--api-server-count", "2"], [HEADLESS.format(2)]),
        (["--api-server-count=1", "--headless"], [HEADLESS.format(1)]),
        (["--headless", "-asc", "0"], []),
        (["--headless"], []),
        (["-asc", "2"], []),
        (["--headless", "-asc", "$(N)"], []),
    ],
)
def test_api_servers_of_a_headless_node_are_refused_by_vllm_serve(words: list[str], refused: list[str]) -> None:
    words = ["m", *(Unknown(word) if "$" in word else word for word in words)]
    for release, is_serve in ((NEW, True), ("0.20.0", True), ("0.19.1", False), (NEW, False)):
        command = CommandLine(words, [f"args[{at}]" for at in range(len(words))], is_serve=is_serve)
        found = read_options(release, command, {}, []).launch_errors
        assert [error for error in found if "headless" in error and "no flag" not in error] == (
            [f"`vllm serve` of vLLM {release} refuses this: {each}" for each in refused] if is_serve else []
        )


EMPTY_MODEL = (
    "the model is empty, and vLLM refuses that: its default model counts only if none is given; write the model"
)


@table("release", ["0.8.5", "0.10.2", "0.23.0", NEW])
@table(
    ("words", "place", "serve"),
    [
        ([""], "args/0", True),
        (["-tp", "2", "--", ""], "args/3", True),
        (["--model", ""], "args/0", False),
        (["--model="], "args/0", False),
        (["-tp", "2", "--model", "m", "--model", ""], "args/4", False),
    ],
)
def test_an_empty_model_is_refused_and_not_the_default_one(
    words: list[str],
    place: str,
    serve: bool,  # noqa: FBT001 pytest gives it by name
    release: str,
) -> None:
    faults = read(words, release, serve=serve)[1]
    assert [(fault.pointer, fault.message) for fault in faults] == [(f"/deployment/{place}", EMPTY_MODEL)]
    assert all(fault.refused is not None for fault in faults)


@pytest.mark.parametrize("text", ['model: ""', "model: ''\ntensor-parallel-size: 2"])
def test_an_empty_model_of_a_file_is_refused(text: str) -> None:
    assert fault(["--config", "a.yaml"], files={"a.yaml": text}) == ("files/a.yaml", EMPTY_MODEL)


def test_a_null_model_of_a_file_is_the_text_none() -> None:
    assert values(["--config", "a.yaml"], files={"a.yaml": "model:"}) == {"model": "None"}


def test_an_empty_model_before_another_one_is_replaced() -> None:
    assert values(["--model", "", "--model", "m"], serve=False) == {"model": "m"}


def test_a_fault_in_json_has_a_pointer_into_the_flag() -> None:
    pointer, message = fault(["-sc", '{"method": "ngram",}'])
    assert pointer == "args/1"
    assert message.startswith('`--speculative-config`: invalid JSON `{"method": "ngram",}`: ')
    assert "byte 19" in message


@pytest.mark.parametrize("text", ["\ud800", "[" * 100_000, '{"a": 1e99999}', "{" * 65 + "}" * 65])
def test_hostile_json_is_a_fault(text: str) -> None:
    assert "invalid JSON " in fault(["-sc", text])[1]


def test_a_secret_s_value_is_in_no_message() -> None:
    options, faults = read(
        ["--api-key", "--hf-token", "-x", "--anthropic-key-x=hush", "--ssl-keyfile-password", "hush"]
    )
    assert "hush" not in str((options, faults))


MISSING_KEY = "`--api-key` takes a value"
NOT_TAKEN = (
    "unexpected argument `…`: it begins with a dash, so `--hf-token` does not take it; write `--hf-token=VALUE` if it "
    "is the value, or remove it"
)


@pytest.mark.parametrize("word", ["-abc123", "--foo", "-O0", "-O", "-cc.mode=0", "--max", "-tp"])
@pytest.mark.parametrize("release", ["0.10.0", "0.10.1", NEW])
def test_a_key_that_begins_with_a_dash_is_missing_and_not_shown(release: str, word: str) -> None:
    faults = read(["m", "--api-key", word, "1"], release)[1]
    assert (faults[0].pointer, faults[0].message) == ("/deployment/args/1", MISSING_KEY)
    assert word not in str(faults) or flags(release).find(word)[0] is not None


@pytest.mark.parametrize("word", ["-abc123", "--foo", "--max"])
def test_a_token_that_begins_with_a_dash_is_unexpected_and_not_shown(word: str) -> None:
    options, faults = read(["m", "--hf-token", word, "-tp", "2"])
    assert [(each.pointer, each.message) for each in faults] == [("/deployment/args/2", NOT_TAKEN)]
    assert word not in str((options, faults))


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["-O0"], {"optimization_level": 0}),
        (["-O", "1"], {"optimization_level": 1}),
        (["-cc.mode=0"], {"compilation_config": {"mode": 0}}),
        (["--compilation_config.mode", "0"], {"compilation_config": {"mode": 0}}),
        (["-tp", "2"], {"tensor_parallel_size": 2}),
    ],
)
@pytest.mark.parametrize("flag", ["--hf-token", "--some-api-key"])
def test_an_option_after_the_flag_of_a_secret_counts(flag: str, words: list[str], found: dict[str, Any]) -> None:
    assert values(["m", flag, *words]) == {"model": "m", **found}


def test_an_unknown_word_after_the_flag_of_a_token_is_ignored() -> None:
    options, faults = read(["m", "--hf-token", Unknown("-$X")])
    assert faults == []
    assert options.unknown_words == [("…", "args[2]")]


@pytest.mark.parametrize(
    ("release", "words", "refused", "ignored"),
    [
        (
            "0.20.0",
            ["--watermark-config", "{}", "m"],
            "vLLM 0.20.0 has no flag `--watermark-config` (args[0]) and would not start; 0.30.0 to 0.33.0 have it",
            "--watermark-config",
        ),
        (
            "0.20.0",
            ["--disable-lora", "m"],
            "vLLM 0.20.0 has no flag `--disable-lora` (args[0]) and would not start; only 0.33.0 has it",
            "--disable-lora",
        ),
        (
            "0.20.0",
            ["--disable-log-requests", "m"],
            (
                "vLLM 0.20.0 has no flag `--disable-log-requests` (args[0]) and would not start; 0.3.0 to 0.16.0 and "
                "0.33.0 have it"
            ),
            "--disable-log-requests",
        ),
        (
            "0.33.0",
            ["--tensor-paralel-size", "2", "m"],
            (
                "vLLM 0.33.0 has no flag `--tensor-paralel-size` (args[0]) and would not start; did you mean "
                "`--tensor-parallel-size`?"
            ),
            "--tensor-paralel-size",
        ),
        (
            "0.33.0",
            ["--is-prefill-worker", "m"],
            "vLLM 0.33.0 has no flag `--is-prefill-worker` (args[0]) and would not start",
            "--is-prefill-worker",
        ),
        (
            "0.33.0",
            ["--nothing=1", "m"],
            "vLLM 0.33.0 has no flag `--nothing` (args[0]) and would not start",
            "--nothing",
        ),
    ],
)
def test_a_flag_that_the_release_lacks_is_a_launch_error(
    release: str, words: list[str], refused: str, ignored: str
) -> None:
    name, value = words[0].partition("=")[0], words[0].partition("=")[2] or " ".join(words[1:-1]) or True
    if value is not True and "have it" not in refused:
        value = "…"  # no release has the flag, so its value may be a secret
    assert read(words, release) == (
        ParsedOptions(
            {"model": "m"},
            {"model": f"args[{len(words) - 1}]"},
            [ignored],
            launch_errors=[refused],
            unknown_flags=[UnknownFlag(name[2:].replace("-", "_"), "args[0]", value, refused, ignored)],
        ),
        [],
    )


def test_the_empty_value_of_a_flag_that_the_release_lacks_is_shown_as_empty() -> None:
    options, _ = read(["--zzz=", "--zzy", "", "--zzx", "--model", "m"], "0.33.0")
    assert [(flag.option, flag.value) for flag in options.unknown_flags] == [("zzz", ""), ("zzy", ""), ("zzx", True)]


@pytest.mark.parametrize(
    ("words", "value", "ignored"),
    [
        (["--watermark-config.key", "1"], "…", "--watermark-config.key"),
        (["--watermark-config.a", "1"], '{"a": 1}', "--watermark-config.a"),
        (
            ["--watermark-config.a", "1", "--watermark-config.b.c=x"],
            '{"a": 1, "b": {"c": "x"}}',
            "--watermark-config.a",
        ),
        (["--no-such.a", "1"], "…", "--no-such.a"),
    ],
)
def test_the_keys_of_an_option_that_the_release_lacks_are_one_flag(words: list[str], value: str, ignored: str) -> None:
    options, _ = read(words, "0.20.0")
    assert [(flag.place, flag.value, flag.ignored) for flag in options.unknown_flags] == [("args[0]", value, ignored)]
    assert [flag.error for flag in options.unknown_flags] == options.launch_errors
    assert options.ignored == [ignored]


@pytest.mark.parametrize(
    ("words", "refused"),
    [
        (
            ["--watermark-config.key", "1"],
            "vLLM 0.20.0 has no flag `--watermark-config.key` (args[0]) and would not start; 0.30.0 to 0.33.0 have it",
        ),
        (["--help"], "`--help` (args[0]) shows vLLM's help and starts nothing"),
    ],
)
def test_an_argument_that_prevents_startup_is_a_launch_error(words: list[str], refused: str) -> None:
    options, faults = read(words, "0.20.0")
    assert (options.launch_errors, options.warnings, faults) == ([refused], [], [])


def test_a_list_of_unknown_words_may_have_no_model() -> None:
    message = "no model is given, unless it is `$@`, whose value is not known; write the model, or set the variable"
    assert fault([Unknown("$@", is_several=True), "-tp", "2"]) == ("args/0", message)


@table(
    ("words", "model", "unknown"),
    [
        ([Unknown("$MODEL"), "-tp", "2"], "$MODEL", "$MODEL"),
        ([Unknown("$MODEL", is_several=True)], "$MODEL", "$MODEL"),
        (["${MODEL}", "-tp", "2"], "${MODEL}", "${MODEL}"),
        ([Unknown("${MODEL!}")], "${MODEL}", "${MODEL}"),
        (["--model", Unknown("$M")], "$M", "$M"),
        ([Unknown("--model=/models/$(M)")], "/models/$(M)", "/models/$(M)"),
        (["--model", Unknown("$M"), "--model", "b"], "$M", "$M"),
        (["--model", "b", "--model", Unknown("$M")], "b", ""),
        (["b", Unknown("$M")], "b", ""),
        ([Unknown("$M"), "b"], "b", ""),
    ],
)
def test_an_unknown_model_has_the_name_that_is_written(words: list[str], model: str, unknown: str) -> None:
    options, faults = read(words)
    assert (options.values["model"], options.unknown_model, faults) == (model, unknown, [])


@table(
    ("words", "faults", "sizes"),
    [
        ([Unknown("--gpu-memory-utilization=$(G)")], [], {}),
        (["--port", "${PORT}"], [], {}),
        (["--port=${PORT}"], [], {}),
        ([Unknown("--tensor-parallel-size=$(N)")], [], {"tensor_parallel_size": "$(N)"}),
        (["--tensor-parallel-size=${N}"], [], {"tensor_parallel_size": "${N}"}),
        (["--tensor-parallel-size", "${N}"], [], {"tensor_parallel_size": "${N}"}),
        (
            ["--tensor-parallel-size", "$(N)"],
            ["`--tensor-parallel-size`: expected a whole number such as `2`, got `$(N)`"],
            {},
        ),
        (
            ["--runner=${R}"],
            ["`--runner` is set to `${R}`, whose value is not known; write the value, or set the variable"],
            {},
        ),
        (
            [Unknown("--runner=$R")],
            ["`--runner` is set to `$R`, whose value is not known; write the value, or set the variable"],
            {},
        ),
    ],
)
def test_an_unknown_value_is_a_fault_only_if_facts_depend_on_it(
    words: list[str], faults: list[str], sizes: dict[str, str]
) -> None:
    options, found = read(["m", *words])
    assert (
        [fault.message for fault in found],
        {name: text for name, (_, text, _) in options.unknown_sizes.items()},
    ) == (faults, sizes)


@pytest.mark.parametrize(
    ("words", "warned"),
    [
        (["-tp", "2", "-tp", "2"], "`--tensor-parallel-size` is given twice, at args[0] and args[2]; the last counts"),
        (
            ["--model", "a", "--model", "b"],
            "`--model` is given twice; after `vllm serve` the first wins (args[0]), and `b` is ignored",
        ),
        (["--config=a.yaml"], "vLLM does not read the file of `--config=a.yaml`: write `--config FILE`, with a blank"),
        (
            ["m", Unknown("$ARGS")],
            "the value of `$ARGS` (args[1]) is not known, so it is ignored; set the variable",
        ),
        (
            ["-cc", "{}", "-cc.mode=1"],
            (
                "`-cc.…` replaces the whole `--compilation-config` at args[0]; vLLM does not merge them, so use one "
                "form for all keys"
            ),
        ),
    ],
)
def test_an_argument_with_an_unexpected_effect_gets_a_warning(words: list[str], warned: str) -> None:
    options, faults = read(words, "0.20.0")
    assert (options.warnings, faults) == ([warned], [])


@table(
    ("words", "unknown"),
    [
        (["m", Unknown("$(DBO)")], [("$(DBO)", "args[1]")]),
        (["m", Unknown("--enable-$(DBO)"), "--port", "80"], [("--enable-$(DBO)", "args[1]")]),
        (["m", Unknown("--enable-`cat a.b`")], [("--enable-`cat a.b`", "args[1]")]),
        (["m", Unknown("--$(A).level=1")], [("--$(A).level=1", "args[1]")]),
        (["m", "--enable-lora", Unknown("$A"), Unknown("$B")], [("$A", "args[2]"), ("$B", "args[3]")]),
        (["m", "--served-model-name", "a", Unknown("$A")], [("$A", "args[3]")]),
        (["m", "--served-model-name", Unknown("$A")], []),
        (["m", "--port", Unknown("$PORT"), Unknown("--host=$HOST")], []),
        (["m"], []),
    ],
)
def test_an_argument_whose_whole_value_is_unknown_is_listed(words: list[str], unknown: list[tuple[str, str]]) -> None:
    options, faults = read(words)
    assert (options.unknown_words, faults) == (unknown, [])
    named = "".join(options.warnings)
    assert all(f"the value of `{word}` ({place})" in named for word, place in unknown)


def test_a_positional_model_is_read_only_after_vllm_serve() -> None:
    options, faults = read(["m"], serve=False)
    assert (options.values, faults) == ({}, [])
    assert options.warnings == [
        (
            "`m` (args[0]) is ignored: only `vllm serve` takes the model without `--model`, so vLLM's default model "
            "would be served; write `--model`"
        )
    ]
    assert values(["--model", "a", "--model", "b"], serve=False) == {"model": "b"}


@pytest.mark.parametrize(
    ("release", "words", "found"),
    [
        ("0.31.0", ["-cc.pass_config.enable_sp=true"], {"compilation_config": {"pass_config": {"enable_sp": True}}}),
        ("0.26.0", ["-sc", '{"num-speculative-tokens": 2}'], {"speculative_config": {"num_speculative_tokens": 2}}),
        ("0.26.0", ["-sc.num-speculative-tokens", "2"], {"speculative_config": {"num_speculative_tokens": 2}}),
        ("0.31.0", ["--mamba-cache-mode", "all"], {"mamba_cache_mode": "all"}),
        ("0.31.0", ["--dcp-comm-backend", "None", "--reasoning-parser", "none"], {"reasoning_parser": "none"}),
    ],
)
def test_options_differ_between_releases(release: str, words: list[str], found: dict[str, Any]) -> None:
    assert values(words, release) == found


@pytest.mark.parametrize(
    ("release", "words"),
    [
        ("0.25.1", ["-sc", '{"num-speculative-tokens": 2}']),
        ("0.32.0", ["--mamba-cache-mode", "all"]),
        ("0.30.0", ["--safetensors-load-strategy", "None"]),
    ],
)
def test_an_argument_of_another_release_is_a_fault(release: str, words: list[str]) -> None:
    assert fault(words, release)[0] == "args/1"


FILE = {
    "s.yaml": "model: m\ntensor-parallel-size: 2\nenable_prompt_embeds: true\nenforce-eager: false\n"
    "distributed-executor-backend: null\nlogits-processors: [a, b]\nlora-modules: []\nhf-overrides: {a: {b: 1}}\n"
}
FROM_FILE = {
    "model": "m",
    "tensor_parallel_size": 2,
    "enable_prompt_embeds": True,
    "distributed_executor_backend": None,
    "logits_processors": ["a", "b"],
    "hf_overrides": {"a": {"b": 1}},
}


def test_the_command_line_takes_precedence_over_an_option_file() -> None:
    options, faults = read(["--config", "s.yaml", "-tp", "4", "--model", "n"], files=FILE)
    assert (options.values, faults) == (FROM_FILE | {"tensor_parallel_size": 4, "model": "n"}, [])
    assert options.places["distributed_executor_backend"] == "files/s.yaml/distributed-executor-backend"
    assert options.places["tensor_parallel_size"] == "args[2]"
    assert options.warnings == ["vLLM ignores `enforce-eager: false` in `files/s.yaml`; write `no-enforce-eager: true`"]
    assert values(["n", "--config", "s.yaml"], files=FILE) == FROM_FILE | {"model": "n"}
    assert values(["--config", "s.yaml"], files=FILE) == FROM_FILE


@table(
    ("words", "release", "found"),
    [
        (["--config", "s.yaml", "n"], NEW, "n"),
        (["--config", "s.yaml", "n", "-tp", "4"], "0.8.3", "n"),
        (["-tp", "4", "--config", "s.yaml", "n"], NEW, "n"),
        (["--config", "list.yaml", "n"], NEW, "m"),
        (["--config", "none.yaml", "--model", "n"], NEW, "n"),
        (["--config", "none.yaml", "--model=n"], NEW, "n"),
        (["n", "--config", "none.yaml"], "0.8.2", "n"),
    ],
)
def test_a_model_behind_an_option_file_takes_precedence_over_the_file_s(
    words: list[str], release: str, found: str
) -> None:
    files = FILE | {"list.yaml": "model: m\nlogits-processors: [a]\n", "none.yaml": "port: 1\n"}
    files["s.yaml"] = files["s.yaml"].partition("enable_")[0]
    assert values(words, release, files)["model"] == found


@table(
    ("words", "release", "text", "where"),
    [
        (["--config", "s.yaml", "n"], NEW, "port: 1", ", and `s.yaml` has none"),
        (["--config", "s.yaml", "n", "-tp", "4"], "0.8.3", "port: 1", ", and `s.yaml` has none"),
        (["--config", "s.yaml", "n"], "0.8.2", "port: 1", ", and `s.yaml` has none"),
        (["--config", "s.yaml", "n"], "0.8.2", "model: m", ""),
    ],
)
def test_a_model_behind_an_option_file_without_one_is_a_fault(
    words: list[str], release: str, text: str, where: str
) -> None:
    message = f"`vllm serve` does not look for a model behind `--config`{where}; write the model before the flags"
    assert fault(words, release, {"s.yaml": text}) == ("args/2", message)


def test_the_server_s_module_reads_false_in_a_file_from_0_28_on() -> None:
    assert values(["--config", "s.yaml"], "0.28.0", FILE, serve=False) == FROM_FILE | {"enforce_eager": False}
    assert values(["--config", "s.yaml"], "0.27.1", FILE, serve=False) == FROM_FILE


@table(
    ("text", "expected"),
    [
        ("<<: {enable-dbo: true}", {"enable_dbo": True}),
        ("<<: [{enable-dbo: true}, {tensor-parallel-size: 32}]", {"enable_dbo": True, "tensor_parallel_size": 32}),
        ("tensor-parallel-size: 16\n<<: {tensor-parallel-size: 32}", {"tensor_parallel_size": 16}),
        ("<<: [{tensor-parallel-size: 16}, {tensor-parallel-size: 32}]", {"tensor_parallel_size": 16}),
        ("<<: {tensor-parallel-size: 16}\n<<: {tensor-parallel-size: 32}", {"tensor_parallel_size": 32}),
        ("no-enable-dbo: true\n<<: {enable-dbo: true}", {"enable_dbo": False}),  # merged keys come first
        ("hf-overrides: &a {b: 1}\n<<: {hf-overrides: {b: 2}}", {"hf_overrides": {"b": 1}}),
        ("hf-overrides: {<<: &a {b: 1}, c: *a}", {"hf_overrides": {"b": 1, "c": {"b": 1}}}),
        (
            "tensor-parallel-size: &a 16\npipeline-parallel-size: *a",
            {"tensor_parallel_size": 16, "pipeline_parallel_size": 16},
        ),
        ("&a enable-dbo: true", {"enable_dbo": True}),
        ("---\nenable-dbo: on\n...\n", {"enable_dbo": True}),
        ("%YAML 1.1\n---\nenable-dbo: yes", {"enable_dbo": True}),
        ("tensor-parallel-size: 16\ntensor-parallel-size: 32", {"tensor_parallel_size": 32}),
        ("enable-dbo: no\nenable-dbo: yes", {"enable_dbo": True}),
        ("tensor-parallel-size: 0x20", {"tensor_parallel_size": 32}),
        ("tensor-parallel-size: 020", {"tensor_parallel_size": 16}),
        ("tensor-parallel-size: 1_6", {"tensor_parallel_size": 16}),
        ("tensor-parallel-size: 1:4", {"tensor_parallel_size": 64}),
        ("tensor-parallel-size: 0b10000", {"tensor_parallel_size": 16}),
        ("tensor-parallel-size: !!str 16", {"tensor_parallel_size": 16}),
        ("logits-processors: 2026-01-31", {"logits_processors": ["2026-01-31"]}),
        ("logits-processors: 2026-01-31T01:02:03Z", {"logits_processors": ["2026-01-31 01:02:03+00:00"]}),
        ("logits-processors: .inf", {"logits_processors": ["inf"]}),
        ("logits-processors: 012", {"logits_processors": ["10"]}),
        ("logits-processors: [off, 1.0]", {"logits_processors": ["False", "1.0"]}),
        ("hf-overrides: {1: on, ~: a}", {"hf_overrides": {"1": True, "null": "a"}}),
    ],
)
def test_a_file_is_read_as_pyyaml_s_safe_load_reads_it(text: str, expected: dict[str, Any]) -> None:
    lines = text.startswith(("---", "%"))
    text = text.replace("---\n", "---\nmodel: m\n") if lines else f"model: m\n{text}"
    assert values(["--config", "s.yaml"], files={"s.yaml": text}) == {"model": "m"} | expected


def test_a_quoted_merge_key_is_an_ordinary_key() -> None:
    options, _ = read(["m", "--config", "s.yaml"], files={"s.yaml": '"<<": {enable-dbo: true}'})
    assert [error for error in options.launch_errors if "`--<<`" in error]
    assert "enable_dbo" not in options.values


@table(
    ("text", "pointer", "message"),
    [
        (
            "- a",
            "files/d~1s.yaml",
            "line 1, column 1: expected a map of options such as `tensor-parallel-size: 2`",
        ),
        ("a: [", "files/d~1s.yaml", None),
        ("", "files/d~1s.yaml", "line 1, column 1: expected a map of options such as `tensor-parallel-size: 2`"),
        ("a: 1\n---\nb: 1", "files/d~1s.yaml", "line 2, column 1: a second document; write one document per file"),
        ("a: 1\n<<: 2", "files/d~1s.yaml", None),
        ("a: <<", "files/d~1s.yaml", None),
        ("a: *b", "files/d~1s.yaml", None),
        ("a: &b 1\nc: &b 1", "files/d~1s.yaml", None),
        (
            "a: &b [*b]",
            "files/d~1s.yaml",
            "line 1, column 8: the alias `*b` refers to a value that contains it",
        ),
        (
            "a: !!set {b}",
            "files/d~1s.yaml",
            "line 1, column 4: the tag `tag:yaml.org,2002:set` is not supported; remove it",
        ),
        ("a: ! 1", "files/d~1s.yaml", "line 1, column 4: the tag `!` is not supported; remove it"),
        ("a: b\t# c", "files/d~1s.yaml", None),
        ("a:\tb", "files/d~1s.yaml", None),
        ("a: 2026-02-30", "files/d~1s.yaml", "line 1, column 4: invalid date `2026-02-30`; put it in quotes"),
        ("a: 0x_", "files/d~1s.yaml", "line 1, column 4: invalid number `0x_`; put it in quotes"),
        (
            "a: " + "1:" * 32 + "1",
            "files/d~1s.yaml",
            f"line 1, column 4: invalid number `{'1:' * 32}1`; put it in quotes",
        ),
        ("a: 1\non: 1", "files/d~1s.yaml", "line 1, column 1: expected a string as key, got `True`; put it in quotes"),
        (
            "a: {b: [2026-01-31]}",
            "files/d~1s.yaml",
            "line 1, column 1: `a` contains a date, which vLLM cannot convert to JSON; put it in quotes",
        ),
        ("a: " + "[" * 65, "files/d~1s.yaml", "line 1, column 67: nested more than 64 deep"),
        (
            "a: &a " + "[" * 40 + "]" * 40 + "\nb: " + "[" * 30 + "*a" + "]" * 30,
            "files/d~1s.yaml",
            "line 2, column 34: nested more than 64 deep",
        ),
        (
            "a: &a [" + "1," * 999 + "]\nb: [" + "*a," * 20 + "]",
            "files/d~1s.yaml",
            "line 2, column 59: more than 20000 values",
        ),
        (
            "a: &a {b: 1, c: 2}\n"
            + "".join(f"a{n}: &a{n} {{<<: [*a{n - 1 or ''}, *a{n - 1 or ''}]}}\n" for n in range(1, 30)),
            "files/d~1s.yaml",
            None,
        ),
        (
            f"a: &a {'x' * 200_000}\nb: *a",
            "files/d~1s.yaml",
            "line 2, column 4: more than 262144 characters with aliases written out",
        ),
        (
            "port: 1",
            "args/1",
            (
                "neither the command line nor `d/s.yaml` names a model, and `vllm serve --config` needs one; write it "
                "before the flags"
            ),
        ),
        (
            "model: m\ntensor-parallel-size: two",
            "files/d~1s.yaml",
            "`--tensor-parallel-size`: expected a whole number such as `2`, got `two`",
        ),
        (
            "model: m\nlogits-processors: [" + "a," * 5000 + "]",
            "args/1",
            f"the command line and `d/s.yaml` have more than {MAX_WORDS} words in total, which is the limit",
        ),
    ],
)
def test_faults_in_a_file_have_pointers_into_it(text: str, pointer: str, message: str | None) -> None:
    found = fault(["--config", "d/s.yaml"], files={"d/s.yaml": text})
    assert found[0] == pointer
    assert message is None or found[1] == message


@table(
    ("pointer", "place", "found"),
    [
        ("/deployment/args", "args[3]", "/deployment/args/3"),
        ("/manifest/spec/args", "command[0]", "/manifest/spec/command/0"),
        ("/manifest/spec", "args[3]", "/manifest/spec/args/3"),
        ("/deployment/args", "args", "/deployment/args"),
        ("/deployment/args", "added by KServe", "/deployment/args"),
        ("/deployment/args", "files/x/s.yaml/key", "/deployment/files/x~1s.yaml"),
    ],
)
def test_a_position_has_a_pointer(pointer: str, place: str, found: str) -> None:
    assert word_pointer(pointer, place) == found


def test_too_many_or_too_long_words_are_a_fault() -> None:
    limits = f"expected a command of at most {MAX_WORDS} words and {MAX_TEXT} characters"
    words = MAX_WORDS + 1
    assert fault(["a"] * words) == ("args", f"{limits}, got {words} words and {words} characters")
    assert fault(["a" * (MAX_TEXT + 1)]) == ("args", f"{limits}, got 1 words and {MAX_TEXT + 1} characters")


def test_hostile_words_are_read_quickly_and_their_faults_are_limited() -> None:
    options, faults = read(["m", *(f"--tensor-paralel-size{index}" for index in range(4000))])
    assert (len(options.launch_errors), len(faults)) == (MAX_WARNINGS, 0)
    assert options.warnings == [f"{4000 - MAX_WARNINGS} more messages about the arguments are left out"]
    for words in ["--runner", "pool"] * 2000, ["m"] * 4000:
        _, faults = read(words)
        assert [fault.message for fault in faults[MAX_FAULTS:]] == [FURTHER_FAULTS.format("this request")]


def test_a_release_without_tables_is_unknown() -> None:
    with pytest.raises(KeyError):
        flags("9.9.9")
    assert in_other_release("--nothing", NEW) is None


@table("release", releases())
def test_every_release_has_the_most_important_flags(release: str) -> None:
    known = flags(release).by_name
    assert {
        "model",
        "tensor_parallel_size",
        "speculative_config",
        "compilation_config",
        "optimization_level",
    } <= known.keys()
    assert known["tensor_parallel_size"].kind == "int"


def test_every_important_option_is_a_flag_of_some_release() -> None:
    assert {name for release in releases() for name in flags(release).by_name} >= RELEVANT_OPTIONS


# properties


class Refused(Exception):
    pass


class Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        raise Refused(message)


def standard(release: str) -> Parser:
    """Python's own parser with the release's flags that take no value, one, or several, all as text."""
    parser = Parser(add_help=False)
    parser.add_argument("model_tag", nargs="?")
    table = flags(release)
    for dest, flag in table.by_name.items():
        spelled = [
            word
            for word in table.spellings
            if table.exact[word].dest == dest and table.exact[word].constant is not False
        ]
        off = [
            word for word in table.spellings if table.exact[word].dest == dest and table.exact[word].constant is False
        ]
        if flag.constant is None:
            parser.add_argument(*spelled, dest=dest, nargs=flag.nargs, const=True if flag.nargs == "?" else None)
        else:
            parser.add_argument(*spelled, dest=dest, action="store_const", const=True)
            if off:
                parser.add_argument(*off, dest=dest, action="store_const", const=False)
    return parser


STANDARD = standard(NEW)
TEXTS = sorted(
    word
    for word, flag in flags(NEW).exact.items()
    if flag.kind in {"text", "bool"}
    and not flag.choices
    and not flag.optional
    and flag.dest not in {"config", "model"}
    and flag.dest != "spec_model"
    and "_" not in word
)
SPELLED = st.builds(
    lambda word, keep, given: word[: max(4, keep)] + given,
    st.sampled_from(TEXTS),
    st.integers(4, 60),
    st.sampled_from(["", "", "", "=x", "="]),
)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(SPELLED | st.sampled_from(["x", "-1", "a b", "-a b", "", "-", "--x y", "-5"]), max_size=8))
def test_abbreviations_values_and_positions_are_read_as_python_reads_them(words: list[str]) -> None:
    words = [word for word in words if not word.startswith("--h")]
    try:
        expected = vars(STANDARD.parse_args(words))
    except Refused:
        expected = None
    options, faults = read(words)
    refused = bool(faults) or any("has no flag" in warning for warning in options.warnings)
    assert refused == (expected is None or expected["model_tag"] == "")  # vLLM refuses it later than its parser
    if not refused and expected is not None:
        model = expected.pop("model_tag")
        given_options = {
            name: value
            for name, value in expected.items()
            if value is not None and name in RELEVANT_OPTIONS | KEPT_OPTIONS
        }
        assert options.values == given_options | ({} if model is None else {"model": model})


WORD = st.sampled_from(
    [*flags(NEW).exact, "-cc.mode", "-sc.a.b+", "-O", "--x", "--config", "s.yaml", "{", '{"a": 1}', "2", "-1"]
) | st.text(max_size=12)


@given(
    st.lists(WORD, max_size=12),
    st.sampled_from(releases()),
    st.booleans(),
    st.text(alphabet="abmodel-:{}[] \n'1&*!?", max_size=40),
)
def test_any_words_give_options_or_faults(words: list[str], release: str, serve: bool, text: str) -> None:  # noqa: FBT001 hypothesis gives it by position
    options, faults = read(words, release, {"s.yaml": text}, serve=serve)
    assert options.values.keys() <= RELEVANT_OPTIONS | KEPT_OPTIONS
    assert all(fault.pointer.startswith("/deployment/") for fault in faults)


# the generator

SOURCES = {
    "vllm/engine/arg_utils.py": """
        from vllm.config import ModelConfig, SpeculativeConfig, VllmConfig
        def _compute_kwargs(cls):
            if name in {"max_num_batched_tokens", "seen"}: ...
            kwargs["const"] = True
            kwargs["choices"].append(None)
            is_dict_subclass(cls)
        class EngineArgs:
            def add_cli_args(parser):
                model_kwargs = get_kwargs(ModelConfig)
                group = parser.add_argument_group(title="x")
                if not help:
                    group.add_argument("--model", **model_kwargs["model"])
                group.add_argument("--runner", "-r", **model_kwargs["runner"])
                group.add_argument("--eager", **{**model_kwargs["eager"], "default": None})
                group.add_argument("--seen", **model_kwargs["seen"])
                group.add_argument("--level", **model_kwargs["level"])
                group.add_argument("--pair", **model_kwargs["pair"])
                group.add_argument("--many", **model_kwargs["many"])
                group.add_argument("--token", **model_kwargs["token"])
                group.add_argument("--overrides", **model_kwargs["overrides"])
                group.add_argument("--plain-dict", **model_kwargs["plain_dict"])
                backend = model_kwargs["backend"]
                backend["type"] = lambda s: s.lower().replace("-", "_")
                backend["choices"].remove(GONE)
                group.add_argument("--backend", **backend)
                group.add_argument("--ids", type=lambda s: s.split(","))
                group.add_argument("--port", "-p", dest="the_port", type=int, help="x")
                model_kwargs["traces"]["choices"] += ["a,b"]
                group.add_argument("--traces", **model_kwargs["traces"])
                vllm_kwargs = get_kwargs(VllmConfig)
                vllm_kwargs["speculative_config"]["type"] = optional_type(json.loads)
                group.add_argument("--speculative-config", **vllm_kwargs["speculative_config"])
                one = get_kwargs(VllmConfig)["open"]
                group.add_argument("--open", **one)
                group.add_argument("--plain-class", **vllm_kwargs["plain_class"])
                group.add_argument("--words", **model_kwargs["words"])
                group.add_argument("--share", **model_kwargs["share"])
                group.add_argument("--where", choices=["x", current()], default=missing_kwargs["x"])
                group.add_argument("--which", choices=["y", "x"], nargs="?")
                group.add_argument("--unseen", **model_kwargs["unseen"], type=json.loads)
                group.add_argument("--box", **model_kwargs["box"])
                return parser
            def create_speculative_config(self):
                return {k.replace("-", "_"): v for k, v in given.items()}
        class AsyncEngineArgs(EngineArgs):
            def add_cli_args(parser):
                parser.add_argument("--log", action=argparse.BooleanOptionalAction)
                parser.add_argument("--quiet", action="store_true")
        GONE = "gone"
        """,
    "vllm/config.py": """
        from enum import Enum, IntEnum
        from typing import Annotated, ClassVar, Literal, Optional
        Runner = Literal["b", "a"]
        class Level(IntEnum):
            O0 = 0
            O1 = 1
        class Kind(Enum):
            A = 1
        class Box(dict): ...
        @dataclass
        class PlainConfig:
            a: int = 1
        @config
        class ModelConfig:
            ignored: ClassVar[int] = 1
            model: str = "m"
            runner: Runner | None = None
            eager: Annotated[bool, "x"] = False
            seen: Optional[int] = None
            level: Level = Level.O0
            pair: tuple[int, int] = (1, 2)
            many: "list[int | str] | None" = None
            token: bool | str | None = None
            overrides: dict[str, int] | Kind = None
            plain_dict: dict[str, int] | None = None
            backend: Literal["one", "gone"] = "one"
            traces: list[Literal["a", "b"]] = None
            words: tuple[str, ...] = ()
            share: float = 0.5
            unseen: Literal[UNKNOWN] = None
            box: Box = None
        @config
        class Base:
            method: Literal["x", "y"] | None = None
            tokens: int = 1
        @config
        class Inner:
            on: bool = False
            ratio: float | None = None
            @field_validator("on", mode="wrap")
            def skip(cls, value, handler): ...
        @config
        class SpeculativeConfig(Base):
            inner: Inner = None
            whole: SkipValidation[ModelConfig] = None
            free: str = ""
            made: int = field(default=1, init=False)
            first: int = 1
            @field_validator("first", mode="before")
            def before(cls, value): ...
            @property
            def x(self): ...
        @dataclass
        class OpenConfig:
            a: int = 1
            @model_validator(mode="before")
            def rewrite(cls, data): ...
        @config
        class VllmConfig:
            speculative_config: SpeculativeConfig | None = None
            open: OpenConfig = None
            plain_class: PlainConfig = None
        """,
    "vllm/entrypoints/openai/cli_args.py": """
        @config
        class BaseFrontendArgs:
            allowed: list[str] = None
            middleware: list[str] = None
            endpoints: list[str] | None = None
            @classmethod
            def _customize_cli_kwargs(cls, frontend_kwargs):
                frontend_kwargs["allowed"]["type"] = json.loads
                del frontend_kwargs["allowed"]["nargs"]
                return frontend_kwargs
            @classmethod
            def add_cli_args(cls, parser):
                frontend_kwargs = get_kwargs(cls)
        class FrontendArgs(BaseFrontendArgs):
            host: str | None = None
            @classmethod
            def _customize_cli_kwargs(cls, frontend_kwargs):
                frontend_kwargs["middleware"]["action"] = "append"
                if "nargs" in frontend_kwargs["middleware"]:
                    del frontend_kwargs["middleware"]["nargs"]
                return frontend_kwargs
        def make_arg_parser(parser):
            parser.add_argument("model_tag", nargs="?")
            parser.add_argument("--config", help="x")
            return parser
        """,
    "vllm/utils/argparse_utils.py": "class EnableDisableAction: ...",
}


def written(folder: Path, sources: dict[str, str]) -> World:
    for path, text in sources.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        lines = text.splitlines()
        (folder / path).write_text(
            "\n".join(line[8:] if line.startswith(" " * 8) else line for line in lines), encoding="utf-8"
        )
    return World(SourceReader(FolderSource(folder)))


def test_a_flag_s_row_is_read_from_the_field_behind_it(tmp_path: Path) -> None:
    spec = {
        "first": None,
        "free": None,
        "inner": {"on": "bool?", "ratio": "float?"},
        "method": ["x", "y", None],
        "tokens": "int",
        "whole": None,
    }
    assert arguments(written(tmp_path, SOURCES)) == {
        "config": {"flags": ["--config"], "kind": "text"},
        "allowed": {"flags": ["--allowed"], "kind": "json"},
        "middleware": {"flags": ["--middleware"], "kind": "text", "repeats": True},
        "endpoints": {"flags": ["--endpoints"], "kind": "text", "nargs": "+", "optional": True},
        "host": {"flags": ["--host"], "kind": "text", "optional": True},
        "model": {"flags": ["--model"], "kind": "text"},
        "runner": {"flags": ["--runner", "-r"], "kind": "text", "choices": ["a", "b", None], "optional": True},
        "eager": {"flags": ["--eager"], "kind": "bool", "off": ["--no-eager"]},
        "seen": {"flags": ["--seen"], "kind": "human", "optional": True},
        "level": {"flags": ["--level"], "kind": "int", "choices": [0, 1]},
        "pair": {"flags": ["--pair"], "kind": "int", "nargs": 2},
        "many": {"flags": ["--many"], "kind": "text", "nargs": "+", "optional": True},
        "token": {"flags": ["--token"], "kind": "text", "nargs": "?", "optional": True},
        "overrides": {"flags": ["--overrides"], "kind": "json-or-text"},
        "plain_dict": {"flags": ["--plain-dict"], "kind": "json", "optional": True},
        "backend": {"flags": ["--backend"], "kind": "dashed", "choices": ["one"]},
        "ids": {"flags": ["--ids"], "kind": "devices"},
        "the_port": {"flags": ["--port", "-p"], "kind": "int"},
        "traces": {"flags": ["--traces"], "kind": "text", "nargs": "+"},
        "speculative_config": {
            "flags": ["--speculative-config"],
            "kind": "json",
            "optional": True,
            "members": spec,
            "dashes": True,
        },
        "open": {"flags": ["--open"], "kind": "object"},
        "plain_class": {"flags": ["--plain-class"], "kind": "object"},
        "words": {"flags": ["--words"], "kind": "text", "nargs": "+"},
        "share": {"flags": ["--share"], "kind": "float"},
        "where": {"flags": ["--where"], "kind": "text"},
        "which": {"flags": ["--which"], "kind": "text", "nargs": "?", "choices": ["x", "y"]},
        "unseen": {"flags": ["--unseen"], "kind": "json"},
        "box": {"flags": ["--box"], "kind": "json"},
        "log": {"flags": ["--log"], "kind": "bool", "off": ["--no-log"]},
        "quiet": {"flags": ["--quiet"], "kind": "bool"},
    }


def test_sources_without_a_parser_have_no_flags(tmp_path: Path) -> None:
    assert arguments(written(tmp_path, {"vllm/engine/other.py": ""})) == {}


def test_a_parser_s_inverse_spellings_are_those_of_its_release(tmp_path: Path) -> None:
    sources = SOURCES | {
        "vllm/entrypoints/openai/cli_args.py": (
            "def make_arg_parser(parser):\n"
            '    parser.add_argument("--enable-x", action=argparse.BooleanOptionalAction)\n'
        )
    }
    assert arguments(written(tmp_path / "new", sources))["enable_x"] == {
        "flags": ["--enable-x"],
        "kind": "bool",
        "off": ["--no-enable-x", "--disable-x"],
    }
    assert arguments(written(tmp_path / "old", sources | {"vllm/utils/argparse_utils.py": ""}))["enable_x"] == {
        "flags": ["--enable-x"],
        "kind": "bool",
        "off": ["--no-enable-x"],
    }


def test_words_that_may_be_several_are_read_as_one_and_counted() -> None:
    words = [
        "m",
        "--port",
        Unknown("$P", is_several=True),
        "--served-model-name",
        Pattern("*"),
        "--seed",
        Unknown("$S"),
    ]
    options, faults = read(words)
    assert (faults, options.unknown_words) == ([], [("$P", "args[2]"), ("*", "args[4]")])
    several, pattern = options.warnings
    assert several.startswith(
        "the value of `$P` (args[2]) is not known, and it may be several arguments; it is read as one"
    )
    assert pattern == "a shell may expand `*` (args[4]); it is read as written, so quote it"


def test_a_secret_that_may_be_several_words_is_not_shown() -> None:
    options, faults = read(["m", "--api-key", Unknown("$(echo sk-1)", is_several=True)])
    assert (faults, "sk-1" in str(options.warnings), "sk-1" in str(options.unknown_words)) == ([], False, False)


def test_a_dotted_key_with_an_unknown_name_is_a_fault() -> None:
    assert "whose value is not known" in fault(["m", Unknown("--hf-overrides.$K"), "1"])[1]


@table(
    ("release", "level", "faults"),
    [
        ("0.9.0", "3", 0),
        ("0.9.1", "0", 0),
        ("0.9.1", "4", 1),
        ("0.9.2", "3", 1),
        ("0.10.0", "3", 1),
        ("0.23.0", "3", 1),
    ],
)
def test_a_level_as_compilation_config_is_legal_before_0_9_2(release: str, level: str, faults: int) -> None:
    assert len(read(["--compilation-config", level], release)[1]) == faults


@pytest.mark.parametrize("text", ["[[[", "module.function", "[1]", "3", "None"])
def test_overrides_that_are_no_object_are_refused_with_vllms_words(text: str) -> None:
    (found,) = read(["--hf-overrides", text])[1]
    refused = f"`--hf-overrides`: `{text}` is refused with `Input should be a valid dictionary`; write a JSON object"
    assert found.message == refused
