"""What a log shows of each start of an engine."""

from __future__ import annotations

import json
from typing import Any

import pytest
from observation_logs import (
    MODEL,
    READY,
    SERVING_LINE,
    V1_LOADS,
    V2_LOADS,
    V2_WORKER,
    configuration,
    engine_failure,
    record,
    refusal,
    text_of,
    traceback,
    v1_start,
    v2_start,
    version,
)
from tables import table

from policy.observation.reader import MAX_ENGINES, MAX_FALLBACKS, MORE_FALLBACKS, TooManyEngines, read_log

DBO = "Model Runner V2 does not yet support: dual batch overlap"
NO_V1 = "Model Runner V1 does not support: trace replay"
INSTEAD = "Model Runner V2 does not yet support custom logits processors; using the V1 model runner instead."
V2_STEP = ['  File "/p/vllm/v1/worker/gpu/model_runner.py", line 5, in load', "    load()"]
CONFIG_STEP = ['  File "/p/vllm/engine/arg_utils.py", line 2372, in create_engine_config', "    config = VllmConfig("]
WORKER = "RuntimeError: Worker failed with error 'bad', please check the stack trace above for the root cause"


def shown(lines: list[str]) -> list[tuple[Any, ...]]:
    """The release, the runner, whether it started and the exception of each engine."""
    engines = [each.observed for each in read_log(text_of(lines))]
    return [(it.release, it.runner, it.starts, it.failure.text if it.failure else None) for it in engines]


@table(
    ("lines", "expected"),
    [
        (v2_start(), ("0.26.0", "v2", True, None)),
        (v1_start("0.23.0"), ("0.23.0", "v1", True, None)),
        (
            [configuration("0.24.0"), record(V1_LOADS, "gpu_model_runner.py"), record(READY)],
            ("0.24.0", "v1", True, None),
        ),
        ([configuration("0.24.0"), record(V1_LOADS, "cpu_model_runner.py")], ("0.24.0", "v1", None, None)),
        (
            [configuration("0.24.1.dev3+gabc"), record(V2_WORKER, "xpu_worker.py")],
            ("0.24.1.dev3+gabc", "v2", None, None),
        ),
        ([record(" ▄▄ ▄█ █     █     █ ▀▄▀ █  version 0.25.1", "api_utils.py")], ("0.25.1", None, None, None)),
        # a runner of a platform's own, in files of other names
        ([configuration("0.26.0"), record(V1_LOADS, "model_runner_v1.py")], ("0.26.0", None, None, None)),
        ([configuration("0.26.0"), record(V2_LOADS, "some_runner.py")], ("0.26.0", None, None, None)),
        # vLLM's own choice, and its refusals
        ([record(INSTEAD, "vllm.py", level="WARNING"), configuration("0.26.0")], ("0.26.0", "v1", None, None)),
        (
            [version("0.26.0"), *refusal(DBO)],
            ("0.26.0", "v2", False, f"ValidationError: 1 validation error for VllmConfig Value error, {DBO}"),
        ),
        (
            [version("0.29.0"), *refusal(NO_V1)],
            (
                "0.29.0",
                "v1",
                False,
                f"ValidationError: 1 validation error for VllmConfig Value error, {NO_V1}",
            ),
        ),
        (
            [version("0.26.0"), "vllm serve: error: unrecognized arguments: --x"],
            ("0.26.0", None, False, "error: unrecognized arguments: --x"),
        ),
        # the exception that ended an engine, not those that announce it
        ([*v2_start()[:4], *engine_failure("AssertionError")], ("0.26.0", "v2", False, "AssertionError")),
        ([*v1_start()[:3], *engine_failure("KeyError: 'rope'")], ("0.26.0", "v1", False, "KeyError: 'rope'")),
        (
            [
                *v1_start()[:3],
                *traceback("ValueError: bad", prefix="ERROR 11-22 01:02:03 [multiproc_executor.py:5] "),
                *engine_failure(WORKER),
            ],
            ("0.26.0", "v1", False, "ValueError: bad"),
        ),
        (
            [
                *v1_start()[:3],
                *traceback("ImportError: handled", prefix="WARNING 11-22 01:02:03 [layer.py:5] "),
                *engine_failure("ValueError: fatal"),
            ],
            ("0.26.0", "v1", False, "ValueError: fatal"),
        ),
        (
            [
                *v1_start()[:3],
                *traceback("ImportError: x", prefix="WARNING 11-22 01:02:03 [layer.py:5] "),
                record(READY),
            ],
            ("0.26.0", "v1", True, None),
        ),
        # an engine that was ready, and ended later
        (
            [
                *v2_start(),
                record("EngineCore encountered a fatal error.", level="ERROR"),
                *traceback("RuntimeError: shapes", prefix="ERROR 11-22 01:02:03 [core.py:1] "),
                *traceback(
                    "vllm.v1.engine.exceptions.EngineDeadError: EngineCore encountered an issue. "
                    "See stack trace (above) for the root cause."
                ),
            ],
            ("0.26.0", "v2", True, "RuntimeError: shapes"),
        ),
        # a server that is asked for something that fails goes on
        (
            [*v2_start(), *traceback("ValueError: bad request", prefix="ERROR 11-22 01:02:03 [serving.py:1] ")],
            ("0.26.0", "v2", True, None),
        ),
        # the server asks the engine for its tasks before it is ready
        (
            [
                *v2_start()[:5],
                record("Invocation of get_supported_tasks method failed", level="ERROR"),
                *traceback("AssertionError", prefix="ERROR 11-22 01:02:03 [core.py:1] "),
                *traceback("Exception: Call to get_supported_tasks method failed: "),
            ],
            ("0.26.0", "v2", False, "AssertionError"),
        ),
        # both runners, as in a log of two engines whose lines cannot be told apart
        (
            [configuration("0.26.0"), record(V2_WORKER, "gpu_worker.py"), record(V1_LOADS, "gpu_model_runner.py")],
            ("0.26.0", None, None, None),
        ),
        # the files of a traceback, without any record of a runner
        (
            [
                configuration("0.26.0"),
                *traceback("ValueError: x", steps=V2_STEP),
            ],
            ("0.26.0", "v2", False, "ValueError: x"),
        ),
    ],
)
def test_a_log_shows_the_release_the_runner_and_the_end_of_the_start(
    lines: list[str], expected: tuple[Any, ...]
) -> None:
    assert shown(lines) == [expected]


def test_a_chain_of_exceptions_has_its_causes() -> None:
    chain = [
        *traceback("ModuleNotFoundError: No module named 'x'"),
        "",
        "The above exception was the direct cause of the following exception:",
        "",
        *traceback("RuntimeError: failed to load x"),
    ]
    (engine,) = read_log(text_of([version("0.26.0"), *chain]))
    assert engine.observed.failure is not None
    assert (engine.observed.failure.text, engine.observed.failure.causes, engine.observed.failure.line) == (
        "RuntimeError: failed to load x",
        ["ModuleNotFoundError: No module named 'x'"],
        9,
    )


def test_vllm_s_own_words_about_the_choice_are_kept() -> None:
    (engine,) = read_log(text_of([record(INSTEAD, "vllm.py", level="WARNING"), *v1_start()]))
    assert engine.observed.fallbacks == [INSTEAD]


def test_the_number_of_warnings_about_the_choice_is_bounded() -> None:
    texts = [INSTEAD.replace("custom", f"custom-{number}") for number in range(MAX_FALLBACKS + 2)]
    lines = [record(text, "vllm.py", level="WARNING") for text in texts]
    for given, warnings in (
        ([*lines[:MAX_FALLBACKS], *lines[:MAX_FALLBACKS]], []),
        (lines[: MAX_FALLBACKS + 1], [MORE_FALLBACKS]),
        (lines, [MORE_FALLBACKS]),
    ):
        (engine,) = read_log(text_of([*given, *v1_start()]))
        assert (engine.observed.fallbacks, engine.observed.warnings) == (texts[:MAX_FALLBACKS], warnings)


WRAPPED = {
    "as vLLM prints it": lambda line: line,
    "with a process": lambda line: f"(EngineCore_DP0 pid=140) {line}",
    "by a worker of Ray": lambda line: f"(RayWorkerWrapper pid=140, ip=10.0.0.7) {line}",
    "by journalctl": lambda line: f"Nov  2 01:02:03 host-7 vllm[140]: {line}",
    "with the prefix of a variable": lambda line: f"node-7 {line}",
    "in colours": lambda line: line.replace(
        "INFO 11-22 01:02:03", "\x1b[32mINFO\x1b[0m \x1b[90m11-22 01:02:03\x1b[0m", 1
    ),
    "by kubectl": lambda line: f"[pod/qwen3-6d4-x2/vllm] {line}",
    "by kubectl, with times": lambda line: f"[pod/qwen3-6d4-x2/vllm] 2026-11-22T01:02:03.123456789Z {line}",
    "with times": lambda line: f"2026-11-22T01:02:03+01:00 {line}",
    "by Docker Desktop": lambda line: f"2026-11-22 01:02:03.268 | {line}",
    "in a container's file": lambda line: f"2026-11-22T01:02:03.1Z stdout F {line}",
    "by docker compose": lambda line: f"qwen3-1  | {line}",
    "by docker compose, coloured": lambda line: f"\x1b[36mqwen3-1  | \x1b[0m{line}",
    "in Docker's file": lambda line: json.dumps(
        {"log": f"{line}\n", "stream": "stderr", "time": "2026-11-22T01:02:03Z"}
    ),
    "by a collector": lambda line: json.dumps(
        {"message": line, "kubernetes": {"pod_name": "p", "container_name": "c"}}
    ),
    "with carriage returns": lambda line: f"{line}\r",
}


@table("name", WRAPPED)
def test_what_is_around_a_line_is_removed(name: str) -> None:
    failing = [*v2_start()[:4], *engine_failure("ValueError: x")]
    assert shown([*map(WRAPPED[name], v2_start())]) == [("0.26.0", "v2", True, None)]
    assert shown([*map(WRAPPED[name], failing)]) == [("0.26.0", "v2", False, "ValueError: x")]


def test_a_json_log_of_vllm_is_read() -> None:
    lines = [
        json.dumps({"levelname": level, "name": "vllm", "processName": "MainProcess", "message": text})
        for level, text in [
            ("INFO", "vLLM server version 0.33.0, serving model m"),
            ("INFO", V2_WORKER),
            ("ERROR", "\n".join(["EngineCore failed to start.", *traceback("ValueError: x")])),
        ]
    ]
    assert shown(lines) == [("0.33.0", "v2", False, "ValueError: x")]


def test_pods_are_engines_of_their_own_and_so_is_each_start_of_one() -> None:
    first = [f"[pod/a-1/vllm] {line}" for line in [version("0.26.0"), *refusal(DBO), *v1_start()]]
    second = [f"[pod/b-1/vllm] {line}" for line in v2_start("0.29.0")]
    mixed = [line for pair in zip(first, second, strict=False) for line in pair] + first[len(second) :]
    engines = [each.observed for each in read_log(text_of(mixed))]
    assert [(it.source, it.release, it.runner, it.starts) for it in engines] == [
        ("pod/a-1/vllm", "0.26.0", "v2", False),
        ("pod/b-1/vllm", "0.29.0", "v2", True),
        ("pod/a-1/vllm", "0.26.0", "v1", True),
    ]


def test_containers_of_a_pod_that_log_nothing_of_vllm_are_no_engines() -> None:
    lines = ["[pod/a-1/proxy] starting", *(f"[pod/a-1/vllm] {line}" for line in v2_start()), "[pod/a-1/proxy] ready"]
    assert [each.observed.source for each in read_log(text_of(lines))] == ["pod/a-1/vllm"]


def test_a_table_in_a_log_is_not_that_of_services() -> None:
    assert shown([*v2_start()[:2], "name  | value", *v2_start()[2:]]) == [("0.26.0", "v2", True, None)]


@pytest.mark.parametrize(
    ("lines", "release", "releases"),
    [
        # two places on the lines of one release
        (
            [record("Resolved architecture: X", "model.py", 611), record("Using max model len 8", "model.py", 1745)],
            "0.23.0",
            ["0.23.0"],
        ),
        # places that two patches share
        (
            [record("Resolved architecture: X", "model.py", 617), record("Using max model len 8", "model.py", 1752)],
            None,
            ["0.22.0", "0.22.1"],
        ),
        # one place alone, or places of different releases, or changed code
        ([record("Resolved architecture: X", "model.py", 611)], None, []),
        (
            [record("Resolved architecture: X", "model.py", 611), record("Using max model len 8", "model.py", 1752)],
            None,
            [],
        ),
        (
            [record("Resolved architecture: X", "model.py", 611), record("Using max model len 8", "model.py", 7)],
            None,
            [],
        ),
        # a step of a traceback
        (
            [record("Resolved architecture: X", "model.py", 623), *traceback("ValueError: x", steps=CONFIG_STEP)],
            "0.26.0",
            ["0.26.0"],
        ),
        # a version that the log states counts more
        (
            [
                version("0.27.0"),
                record("Resolved architecture: X", "model.py", 611),
                record("Using max model len 8", "model.py", 1745),
            ],
            "0.27.0",
            ["0.27.0"],
        ),
    ],
)
def test_line_numbers_show_the_release_of_a_log_without_a_version(
    lines: list[str], release: str | None, releases: list[str]
) -> None:
    (engine,) = read_log(text_of(lines))
    assert (engine.observed.release, engine.observed.releases) == (release, releases)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "\n\n",
        "hello\n",
        "\x00\x01\n",
        "{}\n",
        '{"log": 1}\n',
        "[" * 5000,
        "Traceback (most recent call last):\n",
        "x" * 400_000,
    ],
)
def test_a_text_without_a_start_has_no_engines(text: str) -> None:
    assert read_log(text) == []


def test_the_number_of_engines_is_bounded() -> None:
    lines = [f"[pod/p-{number}/c] {version('0.26.0')}" for number in range(MAX_ENGINES + 1)]
    assert len(read_log(text_of(lines[:-1]))) == MAX_ENGINES
    with pytest.raises(TooManyEngines):
        read_log(text_of(lines))


@pytest.mark.parametrize(
    "line",
    [
        traceback("ValueError: token=abcdef123456 is wrong")[-1],
        traceback("OSError: https://user:hunter22@hub/x")[-1],
    ],
)
def test_secrets_in_exceptions_are_masked(line: str) -> None:
    (engine,) = read_log(text_of([version("0.26.0"), *traceback("x")[:-1], line]))
    assert engine.observed.failure is not None
    assert not {"abcdef", "hunter22"} & {part for part in ("abcdef", "hunter22") if part in str(engine.observed)}


def test_a_refusal_that_names_pooling_tasks_is_whole() -> None:
    text = (
        "ValueError: Model Runner V2 supports pooling tasks ['classify', 'embed'], but this model selects "
        "'token_classify' from ['token_classify']. Set VLLM_USE_V2_MODEL_RUNNER=0 to use this model."
    )
    (engine,) = read_log(text_of([version("0.27.0"), *traceback(text)]))
    assert engine.observed.failure is not None
    assert engine.observed.failure.text == text


def test_the_server_s_readiness_is_also_known_by_uvicorn_s_words() -> None:
    assert shown([configuration("0.26.0"), "INFO:     Application startup complete."]) == [("0.26.0", None, True, None)]
    assert [line for line in v2_start() if SERVING_LINE in line]
    assert MODEL in version("0.26.0")
